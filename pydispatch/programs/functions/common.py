"""Operands of functions as tensors of one type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pydispatch.frontends.graph.dtypes import BOOL, DTYPES, F16, F32, F64, DType, dtype_of_numpy
from pydispatch.frontends.graph.sizes import Expr
from pydispatch.frontends.graph.values import Tensor
from pydispatch.frontends.ops import (
    elementwise,
)
from pydispatch.patterns.types import DType as PatternType
from pydispatch.programs.array import Array, numpy_dtype
from pydispatch.programs.trace import Trace

Weak = (bool, int, float, complex, Expr)
"""Numbers that take the type of the arrays beside them."""


def dtype_from(given: Any) -> DType:
    """Convert an element type of NumPy, of pydispatch, or of Python to a DType."""
    if isinstance(given, DType):
        return given
    if isinstance(given, PatternType):
        return DTYPES[{"i1": "bool", "index": "i64"}.get(given.name, given.name)]
    return dtype_of_numpy(np.empty(0, given))


def promoted(trace: Trace, *given: Any) -> list[Tensor]:
    """Return operands as tensors of one type, by NumPy's rules."""
    for each in given:
        if isinstance(each, (str, bytes)):
            trace.tensor_of(each)  # refuses it; NumPy takes a text for the name of a type
    types = [numpy_dtype(each.tensor.dtype) if isinstance(each, Array) else each for each in given]
    if all(is_bare(each) for each in given):
        kinds = [np.asarray(1 if isinstance(each, Expr) else each) for each in given]
        dtype = dtype_of_numpy(np.empty(0, np.result_type(*kinds)))
        return [as_type(trace, each, dtype) for each in given]
    named = {each.tensor.dtype for each in given if isinstance(each, Array)}
    if (
        len(named) == 1
        and all(isinstance(each, Array) or is_bare(each) for each in given)
        and not _widens(named, given)
    ):
        dtype = next(iter(named))
    else:
        known = [1 if isinstance(each, Expr) else each for each in types]
        dtype = dtype_of_numpy(np.empty(0, np.result_type(*known)))
    return [as_type(trace, each, dtype) for each in given]


def is_bare(value: Any) -> bool:
    """Return whether a number takes the type of the arrays beside it; those of NumPy have types of their own."""
    return isinstance(value, Weak) and not isinstance(value, np.generic)


def _widens(named: set[DType], given: Sequence[Any]) -> bool:
    """Return whether a bare number has a kind that the arrays lack: a fraction beside integers, any
    beside conditions.
    """
    dtype = next(iter(named))
    return (not dtype.is_float and any(isinstance(each, float) for each in given)) or dtype.is_bool


def as_type(trace: Trace, value: Any, dtype: DType) -> Tensor:
    if isinstance(value, Weak) and not isinstance(value, Expr):
        if type(value) is int and dtype.is_integer and not dtype.is_bool and not _holds(dtype, value):
            raise trace.fail(f"{value} is no {dtype}", "convert the array: x.astype(numpy.int64)")
        return trace.constant(np.asarray(value).astype(dtype.numpy) if dtype.has_numpy_values else value, dtype)
    return elementwise.convert(trace, trace.tensor_of(value), dtype)


def _holds(dtype: DType, value: int) -> bool:
    limits = np.iinfo(dtype.numpy)
    return bool(limits.min <= value <= limits.max)


def floats(trace: Trace, *given: Any) -> list[Tensor]:
    """Return operands as tensors of one float type: of integers, the one that holds them in NumPy."""
    made = promoted(trace, *given)
    if made[0].dtype.is_float or made[0].dtype.is_complex:
        return made
    bits = made[0].dtype.bits
    dtype = F16 if bits <= 8 else F32 if bits <= 16 else F64
    return [elementwise.convert(trace, each, dtype) for each in made]


def quotients(trace: Trace, *given: Any) -> list[Tensor]:
    """Return operands as tensors of one float type: integers of every width become f64, as NumPy divides them."""
    made = promoted(trace, *given)
    if made[0].dtype.is_float or made[0].dtype.is_complex:
        return made
    return [elementwise.convert(trace, each, F64) for each in made]


def axes_of(axis: Any) -> list[int] | None:
    if axis is None:
        return None
    return [int(each) for each in axis] if isinstance(axis, (tuple, list)) else [int(axis)]


def truth(trace: Trace, value: Any) -> Tensor:
    return elementwise.convert(trace, trace.tensor_of(value), BOOL)
