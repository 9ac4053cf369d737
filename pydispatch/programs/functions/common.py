"""Operands of NumPy functions on traced arrays, as tensors of one type."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from pydispatch.graph.dtypes import BOOL, DTYPES, F16, F32, F64, DType, dtype_of_numpy
from pydispatch.graph.sizes import Expr
from pydispatch.graph.values import Tensor
from pydispatch.operations import elementwise, shapes
from pydispatch.patterns.types import DType as PatternType
from pydispatch.programs.array import Array, numpy_dtype, shape_of
from pydispatch.programs.trace import Trace

WEAKLY_TYPED = (bool, int, float, complex, Expr)
"""Types of Python numbers and of sizes: in an operation with arrays they get the type of the arrays."""


def dtype_from(dtype: Any) -> DType:
    """Convert an element type to a DType: `numpy.float32`, `pydispatch.f32`, `float` or a name that NumPy accepts."""
    if isinstance(dtype, DType):
        return dtype
    if isinstance(dtype, PatternType):
        # Programs name the conditions bool, and have no type index.
        return DTYPES[{"i1": "bool", "index": "i64"}.get(dtype.name, dtype.name)]
    return dtype_of_numpy(np.empty(0, dtype))


def promoted(trace: Trace, *operands: Any) -> list[Tensor]:
    """Return operands as tensors of one type, by NumPy's rules.

    A bare number (one of Python, or a size) has no type of its own: it takes that of the arrays, unless it has a wider
    kind, such as a float beside integers. An array of f32 and 1.5 give f32, an array of i32 and 1.5 give f64, arrays of
    i32 and i64 give i64, and the numbers 1 and 2 alone i64.

    Raise CompileError for a string.
    """
    for operand in operands:
        if isinstance(operand, (str, bytes)):
            trace.tensor_of(operand)  # raises CompileError; np.result_type would take a text for the name of a type
    # Bare numbers only: the type that NumPy gives them.
    if all(is_bare(operand) for operand in operands):
        # A symbolic size is promoted as a Python integer.
        numbers = [np.asarray(1 if isinstance(operand, Expr) else operand) for operand in operands]
        dtype = dtype_of_numpy(np.empty(0, np.result_type(*numbers)))
        return [as_type(trace, operand, dtype) for operand in operands]
    array_types = {operand.tensor.dtype for operand in operands if isinstance(operand, Array)}
    if (
        len(array_types) == 1
        and all(isinstance(operand, Array) or is_bare(operand) for operand in operands)
        and not _widens(next(iter(array_types)), operands)
    ):
        # Arrays of one type and bare numbers that fit it. NumPy is not asked: it lacks types such as bf16.
        dtype = next(iter(array_types))
    else:  # several types: NumPy decides, for which a symbolic size is a Python integer
        types = [numpy_dtype(operand.tensor.dtype) if isinstance(operand, Array) else operand for operand in operands]
        types_and_numbers = [1 if isinstance(operand, Expr) else operand for operand in types]
        dtype = dtype_of_numpy(np.empty(0, np.result_type(*types_and_numbers)))
    return [as_type(trace, operand, dtype) for operand in operands]


def is_bare(value: Any) -> bool:
    """Return whether a value is a number that gets the type of the arrays in an operation.

    NumPy's numbers have types of their own, although numpy.float64 is a subclass of float.
    """
    return isinstance(value, WEAKLY_TYPED) and not isinstance(value, np.generic)


def _widens(dtype: DType, operands: Sequence[Any]) -> bool:
    """Return whether one of the bare numbers has a kind that arrays of type `dtype` lack.

    That is a complex number with real arrays, a fraction with arrays of integers, and any number with arrays of
    conditions.
    """
    if dtype.is_bool:
        return True
    if dtype.is_complex:
        return False
    wider_kinds = (complex,) if dtype.is_float else (float, complex)
    return any(isinstance(operand, wider_kinds) for operand in operands)


def as_type(trace: Trace, value: Any, dtype: DType) -> Tensor:
    """Return an operand as a tensor of a type. Raise CompileError for a Python integer that the type cannot hold."""
    if isinstance(value, WEAKLY_TYPED) and not isinstance(value, Expr):
        is_number_type = dtype.is_integer and not dtype.is_bool
        if type(value) is int and is_number_type and not _holds(dtype, value):
            raise trace.fail(f"{value} is no {dtype}", "convert the array: x.astype(numpy.int64)")
        # NumPy has no type such as bf16: `constant` converts the number to these.
        return trace.constant(np.asarray(value).astype(dtype.numpy) if dtype.has_numpy_values else value, dtype)
    return elementwise.convert(trace, trace.tensor_of(value), dtype)


def _holds(dtype: DType, value: int) -> bool:
    """Return whether an integer type can hold a value."""
    limits = np.iinfo(dtype.numpy)
    return bool(limits.min <= value <= limits.max)


def floats(trace: Trace, *operands: Any) -> list[Tensor]:
    """Return operands as tensors of one float type.

    As in NumPy it is the narrowest that holds each operand's type. A Python number or a size has no type of its own
    and first gets that of the arrays: beside an array of i8 the number 1 gives f16, not the f64 of 64-bit integers.
    """
    if not any(is_bare(operand) for operand in operands):
        tensors = [trace.tensor_of(operand) for operand in operands]
        return promoted(trace, *(Array(trace, _as_float(trace, tensor)) for tensor in tensors))
    return [_as_float(trace, tensor) for tensor in promoted(trace, *operands)]


def _as_float(trace: Trace, x: Tensor) -> Tensor:
    """Convert integers and conditions to the float type in which NumPy computes functions such as sqrt of them."""
    if x.dtype.is_float or x.dtype.is_complex:
        return x
    bits = x.dtype.bits
    if bits <= 8:
        return elementwise.convert(trace, x, F16)
    return elementwise.convert(trace, x, F32 if bits <= 16 else F64)


def division_operands(trace: Trace, *operands: Any) -> list[Tensor]:
    """Return operands as tensors of one float type: integers of every width become f64, as NumPy divides them."""
    tensors = promoted(trace, *operands)
    if tensors[0].dtype.is_float or tensors[0].dtype.is_complex:
        return tensors
    return [elementwise.convert(trace, tensor, F64) for tensor in tensors]


def axes_of(axis: Any) -> list[int] | None:
    """Return the argument `axis` of a NumPy function as a list, with negative axes unchanged; None if it is None."""
    if axis is None:
        return None
    return list(map(operator.index, axis)) if isinstance(axis, (tuple, list)) else [operator.index(axis)]


def axis_of(trace: Trace, axis: Any, x: Tensor) -> int:
    """Return an axis of x as an index from 0. Raise CompileError if it is out of range, also for x of rank 0."""
    if x.rank == 0:
        raise trace.fail(f"axis {axis} of {x}, which has no axes", "make it a vector: x.reshape(1)")
    return shapes.axis_of(trace, axis, x.rank)


def reduced_axes(trace: Trace, axis: Any, x: Tensor) -> list[int] | None:
    """Return the argument `axis` of a reduction of x as `axes_of` does, but no axes of an array of rank 0.

    As in NumPy, such an array permits the axes of a vector, 0 and -1. Raise CompileError for others.
    """
    axes = axes_of(axis)
    if axes is None or x.rank:
        return axes
    shapes.axes_of(trace, axes, rank=0)  # raises for other axes
    return []


def vector_and_axis(trace: Trace, x: Tensor, axis: int | None) -> tuple[Tensor, int]:
    """Return x and an axis as an index from 0; without an axis the elements in row-major order as a vector, and axis 0.

    An array of rank 0 becomes a vector, as in NumPy.
    """
    if axis is None or x.rank == 0:
        shapes.axis_of(trace, axis or 0, rank=0)  # raises for an axis that a vector lacks
        return shapes.reshape(trace, x, shapes.inferred(trace, x, (-1,))), 0
    return x, shapes.axis_of(trace, axis, x.rank)


def ordered_axes(trace: Trace, axes: Any, rank: int) -> list[int]:
    """Return an axis, or distinct axes in the order of the caller, as indices from 0.

    Raise CompileError for axes that are out of range or named twice.
    """
    axes = shape_of(axes)
    shapes.axes_of(trace, axes, rank)  # raises for an axis that is named twice
    return [shapes.axis_of(trace, int(axis), rank) for axis in axes]


def truth(trace: Trace, value: Any) -> Tensor:
    """Return a tensor of bool: whether each element is not 0."""
    return elementwise.convert(trace, trace.tensor_of(value), BOOL)
