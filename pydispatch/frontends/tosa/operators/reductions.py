"""Conversions of reductions along an axis."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from xdsl.ir import Operation

from pydispatch.frontends.tosa.operators.elementwise import extreme, ignores_nan
from pydispatch.frontends.tosa.tracer import Convert, Results, TosaTracer
from pydispatch.graph.dtypes import DType
from pydispatch.graph.values import Tensor
from pydispatch.operations import reductions
from pydispatch.operations.formulas import Element, formula
from pydispatch.operations.reals import Scalar
from pydispatch.operations.scalars import Scalars


def _reduce(function: str, tracer: TosaTracer, op: Operation, x: Tensor) -> Results:
    """Reduce along the attribute `axis`, which stays with size 1, by a function of `_REDUCTIONS` such as "add"."""
    return reductions.reduce(tracer.b, function, x, [tracer.axis(op, x)], keep=True)


def _extreme(name: str, tracer: TosaTracer, op: Operation, *inputs: Tensor) -> Results:
    """Return the maximum or minimum along the attribute `axis`, which stays with size 1. `name` is "max" or "min".

    NaN is ignored if the attribute `nan_mode` is IGNORE; along an axis of NaN only, the result is the
    initial value: -inf for "max", inf for "min".
    """
    axis = tracer.axis(op, inputs[0])
    if not ignores_nan(tracer, op) or not inputs[0].dtype.is_float:
        return reductions.reduce(tracer.b, name, inputs[0], [axis], keep=True)

    def combine(scalars: Scalars, running: Sequence[Scalar], elements: Sequence[Scalar]) -> list[Scalar]:
        """Return the maximum or minimum of the running value and an element, ignoring NaN."""
        lhs, rhs = Element(scalars, running[0]), Element(scalars, elements[0])
        return [extreme(name, ignore_nan=True, lhs=lhs, rhs=rhs).scalar]

    start = tracer.b.constant(_start(name, inputs[0].dtype), inputs[0].dtype)
    (result,) = reductions.reduce_with(tracer.b, inputs, [start], [axis], combine)
    return reductions.kept_axes(tracer.b, result, inputs[0], [axis])


def _start(name: str, dtype: DType) -> float:
    """Return the initial value of a reduction "max" or "min": the least or largest number of the type."""
    return reductions.least(dtype) if name == "max" else reductions.largest(dtype)


def _argmax(tracer: TosaTracer, op: Operation, x: Tensor) -> Results:
    """Return the index of the maximum along an axis. If NaN is ignored, it counts as the least number."""
    axis = tracer.axis(op, x)
    if ignores_nan(tracer, op) and x.dtype.is_float:
        low = reductions.least(x.dtype)
        x = formula(tracer.b, lambda u: u.unary("is_nan").where(u.const(low), u), x)
    return reductions.arg_reduce(tracer.b, "max", x, axis, dtype=tracer.dtype(op))


_REDUCTIONS = {"all": "and", "any": "or", "prod": "mul", "product": "mul", "sum": "add"}
"""Names of TOSA reductions, without `tosa.reduce_`, to the functions that combine two elements."""
ROWS: dict[str, Convert] = {
    **{f"tosa.reduce_{name}": partial(_reduce, function) for name, function in _REDUCTIONS.items()},
    **{f"tosa.reduce_{name}": partial(_extreme, name) for name in ("max", "min")},
    "tosa.argmax": _argmax,
}
"""Name of an operation → function that converts it: convert(tracer, operation, operands...) -> results."""
