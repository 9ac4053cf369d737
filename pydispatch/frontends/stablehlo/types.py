"""Conversion of the MLIR types of StableHLO programs to element types and shapes."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute

from pydispatch.errors import CompileError, Location
from pydispatch.graph.dtypes import DTYPES, DType, of_element
from pydispatch.ir.core.syntax import DYNAMIC
from pydispatch.ir.dialects.quant import Quantization, UniformType


def quantization_of(type: Attribute) -> Quantization | None:
    """Return the quantization parameters of a tensor type; None if it is not quantized."""
    element = type.element_type if isinstance(type, TensorType) else None
    return element.data if isinstance(element, UniformType) else None


def dtype_of(type: Attribute, location: Location | None = None) -> DType:
    """Return the element type of a tensor type; for a quantized one the stored type. Raise CompileError for other
    types.
    """
    if not isinstance(type, TensorType):
        raise CompileError(f"a value of type {type} is no tensor", location, "tokens and tuples are not supported here")
    if (quantization := quantization_of(type)) is not None:
        bits = next(n for n in (2, 4, 8, 16, 32) if n >= quantization.bits)  # other widths use the next wider type
        return DTYPES[f"{'i' if quantization.signed else 'u'}{bits}"]
    try:
        return of_element(type.element_type)
    except KeyError:
        raise CompileError(f"elements of type {type.element_type} are not supported", location) from None


def shape_of(type: Attribute) -> Sequence[int | None]:
    """Return the sizes of a tensor type; None for a dynamic size."""
    assert isinstance(type, TensorType)
    return [None if n == DYNAMIC else n for n in type.get_shape()]
