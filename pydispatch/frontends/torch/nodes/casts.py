"""Conversions of casts between element types."""

from __future__ import annotations

from typing import Any

from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import DType
from pydispatch.graph.values import Tensor
from pydispatch.operations import elementwise as ew


def to_copy(b: Builder, self: Tensor, *, dtype: DType | None = None) -> Tensor:
    return ew.convert(b, self, dtype or self.dtype)


def to_dtype(b: Builder, self: Tensor, dtype: DType, non_blocking: bool = False, copy: bool = False,
             memory_format: Any = None) -> Tensor:  # fmt: skip
    return ew.convert(b, self, dtype)


def to_device(b: Builder, self: Tensor, device: Any, dtype: DType, non_blocking: bool = False, copy: bool = False,
              memory_format: Any = None) -> Tensor:  # fmt: skip
    return ew.convert(b, self, dtype)


def to_other(b: Builder, self: Tensor, other: Tensor, non_blocking: bool = False, copy: bool = False,
             memory_format: Any = None) -> Tensor:  # fmt: skip
    return ew.convert(b, self, other.dtype)


def type_as(b: Builder, self: Tensor, other: Tensor) -> Tensor:
    return ew.convert(b, self, other.dtype)


def view_dtype(b: Builder, self: Tensor, dtype: DType) -> Tensor:
    if self.dtype.bits != dtype.bits or self.dtype.is_complex or dtype.is_complex:
        raise b.fail(f"{self} is seen as {dtype}, which has elements of another size")
    return ew.bitcast(b, self, dtype)
