"""MLIR's types of StableHLO programs → element types and shapes."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute

from pydispatch.errors import CompileError, Location
from pydispatch.frontends.graph.dtypes import DTYPES, DType, of_element
from pydispatch.ir.core.syntax import DYNAMIC
from pydispatch.ir.dialects.quant import Quantization, UniformType


def quantization_of(type: Attribute) -> Quantization | None:
    """Return how the elements of a tensor type are quantized; None where they are not."""
    element = type.element_type if isinstance(type, TensorType) else None
    return element.data if isinstance(element, UniformType) else None


def dtype_of(type: Attribute, location: Location | None = None) -> DType:
    """Return the element type of a tensor type; of quantized elements that of the stored integers."""
    if not isinstance(type, TensorType):
        raise CompileError(f"a value of type {type} is no tensor", location, "tokens and tuples are not supported here")
    if (quantization := quantization_of(type)) is not None:
        bits = next(n for n in (2, 4, 8, 16, 32) if n >= quantization.bits)
        return DTYPES[f"{'i' if quantization.signed else 'u'}{bits}"]
    try:
        return of_element(type.element_type)
    except (KeyError, StopIteration):
        raise CompileError(f"elements of type {type.element_type} are not supported", location) from None


def shape_of(type: Attribute) -> Sequence[int | None]:
    """Return the sizes of a tensor type; None for a size that the type does not state."""
    assert isinstance(type, TensorType)
    return [None if n == DYNAMIC else n for n in type.get_shape()]
