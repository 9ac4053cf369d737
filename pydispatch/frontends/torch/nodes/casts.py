"""Conversions of casts between element types."""

from __future__ import annotations

from typing import Any

from pydispatch.frontends.torch.registry import converts
from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import DType
from pydispatch.graph.values import Tensor
from pydispatch.operations import elementwise as ew


@converts("aten._to_copy", "aten.to.dtype_layout")
def to_copy(builder: Builder, self: Tensor, *, dtype: DType | None = None) -> Tensor:
    """Convert elements to `dtype`; None keeps their type. PyTorch's keywords for device and layout have no effect."""
    return ew.convert(builder, self, dtype or self.dtype)


@converts("aten.to.dtype", "prims.convert_element_type", "quantized_decomposed.convert_element_type")
def to_dtype(builder: Builder, self: Tensor, dtype: DType, non_blocking: bool = False, copy: bool = False,
             memory_format: Any = None) -> Tensor:  # fmt: skip
    """Convert elements to `dtype`. Whether PyTorch would copy, and how, has no effect."""
    return ew.convert(builder, self, dtype)


@converts("aten.to.device")
def to_device(builder: Builder, self: Tensor, device: Any, dtype: DType, non_blocking: bool = False, copy: bool = False,
              memory_format: Any = None) -> Tensor:  # fmt: skip
    """Convert elements to `dtype`. The device, and whether PyTorch would copy, have no effect."""
    return ew.convert(builder, self, dtype)


@converts("aten.to.other", "aten.type_as")
def to_other(builder: Builder, self: Tensor, other: Tensor, non_blocking: bool = False, copy: bool = False,
             memory_format: Any = None) -> Tensor:  # fmt: skip
    """Convert elements to the type of another tensor."""
    return ew.convert(builder, self, other.dtype)


@converts("aten.view.dtype")
def view_dtype(builder: Builder, self: Tensor, dtype: DType) -> Tensor:
    """Return the bits of elements as elements of another type of the same width. Raise CompileError for another
    width.
    """
    if self.dtype.bits != dtype.bits or self.dtype.is_complex or dtype.is_complex:
        raise builder.fail(f"{self} is seen as {dtype}, which has elements of another size")
    return ew.bitcast(builder, self, dtype)
