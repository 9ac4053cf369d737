"""Calls of functions of the module."""

from __future__ import annotations

from xdsl.ir import Operation

from pydispatch.frontends.graph.values import Tensor
from pydispatch.frontends.stablehlo.tracer import Convert, Results, Tracer, callee_of


def _call(t: Tracer, op: Operation, operands: list[Tensor]) -> Results:
    return t.call(op, callee_of(op), operands)


ROWS: dict[str, Convert] = {"func.call": _call}
