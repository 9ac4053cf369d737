"""MLIR's types of TOSA programs → element types and shapes."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerType, TensorType, UnrankedTensorType
from xdsl.ir import Attribute

from pydispatch.errors import CompileError, Location
from pydispatch.frontends.graph.dtypes import I64, DType, of_element
from pydispatch.ir.core.syntax import DYNAMIC
from pydispatch.ir.dialects.tosa.attributes import ShapeType

ACCUMULATOR = 48
"""Bits of the wide sums of TOSA, which are kept in 64."""


def dtype_of(type: Attribute, location: Location | None = None) -> DType:
    """Return the element type of a tensor or of a list of sizes. CompileError for one that is not supported."""
    if isinstance(type, ShapeType):
        return I64
    if not isinstance(type, TensorType | UnrankedTensorType):
        raise CompileError(f"a value of type {type} is no tensor", location)
    return element_dtype(type.element_type, location)


def element_dtype(element: Attribute, location: Location | None = None) -> DType:
    """Return the type of an element."""
    if isinstance(element, IntegerType) and element.width.data == ACCUMULATOR:
        return I64
    try:
        return of_element(element)
    except (KeyError, StopIteration):
        note = "let the exporter take types of quantized numbers away"
        raise CompileError(f"elements of type {element} are not supported", location, note) from None


def shape_of(type: Attribute) -> list[int | None] | None:
    """Return the sizes of a type, None for one that it does not state; None for a tensor of any rank."""
    if isinstance(type, ShapeType):
        return [type.data]
    return [None if n == DYNAMIC else n for n in type.get_shape()] if isinstance(type, TensorType) else None
