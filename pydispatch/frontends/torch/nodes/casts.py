"""Conversions of casts between element types."""

from __future__ import annotations

from typing import Any

from pydispatch.frontends.torch.registry import VIEWS, converts
from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import DType
from pydispatch.graph.values import Tensor
from pydispatch.operations import elementwise as ew
from pydispatch.operations import integers, shapes


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
    """Return the bits of elements as elements of another type, whose width may differ: the last axis then has more or
    fewer elements.

    Raise CompileError for bools and complex numbers.
    """
    if any(t.is_complex or t.is_bool for t in (self.dtype, dtype)):
        raise builder.fail(f"{self} is seen as {dtype}; only integers and floats are seen as other types")
    if self.dtype.bits == dtype.bits:
        return ew.bitcast(builder, self, dtype)
    if not self.rank:
        raise builder.fail(f"{self} is seen as {dtype}, whose elements are of another size, and has no axis for them")
    if self.dtype.bits > dtype.bits:
        parts = integers.split_bits(builder, self, dtype)
        return shapes.reshape(builder, parts, [*self.shape[:-1], self.shape[-1] * parts.shape[-1]])
    count, size = dtype.bits // self.dtype.bits, self.shape[-1]
    builder.require_equal(size // count * count, size, f"{self} is seen as {dtype}: {{b}} elements are no multiple")
    return integers.join_bits(builder, shapes.reshape(builder, self, [*self.shape[:-1], size // count, count]), dtype)


def _write_bits(builder: Builder, whole: Tensor, written: Tensor, output_index: int, dtype: DType) -> Tensor:
    """Return the contents of the base `whole` after a write to a view of its bits as another type."""
    return view_dtype(builder, written, whole.dtype)


VIEWS["aten.view.dtype"] = _write_bits
