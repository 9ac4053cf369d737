"""Conversions of reductions along an axis."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation

from pydispatch.frontends.tosa.operators.elementwise import extreme, ignores_nan
from pydispatch.frontends.tosa.tracer import Convert, Results, TosaTracer
from pydispatch.graph.dtypes import F32, DType
from pydispatch.graph.values import Tensor
from pydispatch.operations import elementwise as ew
from pydispatch.operations import reductions
from pydispatch.operations.formulas import Element, formula
from pydispatch.operations.reals import Scalar
from pydispatch.operations.scalars import Scalars


def _reduce(function: str) -> Convert:
    """Return the conversion of a reduction by a named function."""
    return lambda t, op, x: reductions.reduce(t.b, function, x[0], [t.axis(op, x[0])], keep=True)


def _extreme(name: str) -> Convert:
    """Return the conversion of a maximum or minimum, which may ignore NaN."""

    def convert(tracer: TosaTracer, op: Operation, inputs: list[Tensor]) -> Results:
        axis = tracer.axis(op, inputs[0])
        if not ignores_nan(tracer, op) or not inputs[0].dtype.is_float:
            return reductions.reduce(tracer.b, name, inputs[0], [axis], keep=True)

        def combine(scalars: Scalars, running: Sequence[Scalar], elements: Sequence[Scalar]) -> list[Scalar]:
            return [extreme(name, True, Element(scalars, running[0]), Element(scalars, elements[0])).scalar]

        start = tracer.b.constant(_start(name, inputs[0].dtype), inputs[0].dtype)
        (result,) = reductions.reduce_with(tracer.b, inputs, [start], [axis], combine)
        return reductions.kept_axes(tracer.b, result, inputs[0], [axis])

    return convert


def _start(name: str, dtype: DType) -> float:
    """Return the initial value of a maximum or minimum."""
    return reductions.least(dtype) if name == "max" else reductions.largest(dtype)


def _argmax(tracer: TosaTracer, op: Operation, inputs: list[Tensor]) -> Results:
    """Return the index of the maximum along an axis."""
    axis = tracer.axis(op, inputs[0])
    values = (
        ew.convert(tracer.b, inputs[0], F32) if inputs[0].dtype.is_float and inputs[0].dtype.bits < 16 else inputs[0]
    )
    if ignores_nan(tracer, op) and values.dtype.is_float:
        low = reductions.least(values.dtype)
        values = formula(tracer.b, lambda u: u.unary("is_nan").where(u.const(low), u), values)
    return reductions.argument(tracer.b, "max", values, axis, dtype=tracer.dtype(op))


ROWS: dict[str, Convert] = {
    "tosa.reduce_all": _reduce("and"), "tosa.reduce_any": _reduce("or"), "tosa.reduce_prod": _reduce("mul"),
    "tosa.reduce_product": _reduce("mul"), "tosa.reduce_sum": _reduce("add"), "tosa.reduce_max": _extreme("max"),
    "tosa.reduce_min": _extreme("min"), "tosa.argmax": _argmax,
}  # fmt: skip
