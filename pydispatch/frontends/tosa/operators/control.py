"""Conversions of branches and loops."""

from __future__ import annotations

from xdsl.ir import Operation

from pydispatch.frontends.tosa.tracer import Convert, Results, TosaTracer
from pydispatch.graph.values import Tensor
from pydispatch.ir.dialects.tosa.control import IfOp, WhileOp
from pydispatch.operations import control


def _cond_if(tracer: TosaTracer, op: Operation, *inputs: Tensor) -> Results:
    """Run one of two regions on the operands after the first, which is the condition, and return its results."""
    assert isinstance(op, IfOp)
    condition, *operands = inputs
    return control.if_(
        tracer.b,
        condition,
        lambda: tracer.region(op.then_branch, operands),
        lambda: tracer.region(op.else_branch, operands),
    )


def _while_loop(tracer: TosaTracer, op: Operation, *inputs: Tensor) -> Results:
    """Run the body region on the operands, then on its own results, as long as the condition region returns true for
    them. Return the values for which it returns false.
    """
    assert isinstance(op, WhileOp)
    return control.while_(
        tracer.b,
        inputs,
        lambda values: tracer.region(op.cond_graph, values)[0],
        lambda values: tracer.region(op.body_graph, values),
    )


ROWS: dict[str, Convert] = {"tosa.cond_if": _cond_if, "tosa.while_loop": _while_loop}
"""Operations -> their conversions: convert(tracer, operation, operands...) -> results."""
