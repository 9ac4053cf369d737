"""Conversion of the MLIR types of TOSA programs to element types and shapes."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerType, TensorType, UnrankedTensorType
from xdsl.ir import Attribute

from pydispatch.errors import CompileError, Location
from pydispatch.graph.dtypes import I64, DType, of_element
from pydispatch.ir.core.syntax import DYNAMIC
from pydispatch.ir.dialects.tosa.attributes import ShapeType

ACCUMULATOR_BITS = 48
"""Width of TOSA's wide accumulators, which are stored in 64 bits."""


def dtype_of(type: Attribute, location: Location | None = None) -> DType:
    """Return the element type of a tensor type; I64 for `!tosa.shape`, the type of a list of sizes.

    Raise CompileError, at the location, if `type` is neither or its element type is unsupported.
    """
    if isinstance(type, ShapeType):
        return I64
    if not isinstance(type, TensorType | UnrankedTensorType):
        raise CompileError(f"a value of type {type} is no tensor", location)
    return element_dtype(type.element_type, location)


def element_dtype(element: Attribute, location: Location | None = None) -> DType:
    """Return the DType of an MLIR element type; i48 is stored as i64. Raise CompileError for unsupported types."""
    if isinstance(element, IntegerType) and element.width.data == ACCUMULATOR_BITS:
        return I64
    try:
        return of_element(element)
    except KeyError:
        note = "let the exporter take types of quantized numbers away"
        raise CompileError(f"elements of type {element} are not supported", location, note) from None


def shape_of(type: Attribute) -> list[int | None] | None:
    """Return the sizes of a tensor type, None for a dynamic size; None instead of the list for a tensor without rank.

    A list of sizes, !tosa.shape<n>, is a vector of n elements.
    """
    if isinstance(type, ShapeType):
        return [type.data]
    return [None if n == DYNAMIC else n for n in type.get_shape()] if isinstance(type, TensorType) else None
