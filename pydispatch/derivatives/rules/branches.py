"""Derivatives of branches: a branch on the same condition, each side of which differentiates a side of the program."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import scf
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, Operation, Region, SSAValue

from pydispatch.derivatives.cotangents import Cotangents, Rule
from pydispatch.derivatives.rules.regions import repeated


def _if(cotangents: Cotangents, op: Operation) -> None:
    """Add the cotangents of the values that the regions of an `scf.if` use and that are defined outside of it.

    These cotangents are the results of a new `scf.if` on the same condition. The derivative needs the values that the
    old regions compute: each new region first repeats the operations of the old one, and then computes the cotangents.
    With the cotangent %dr of %r,

        %r = scf.if %c { %y = math.exp %x; scf.yield %y } else { scf.yield %w }

    has the derivative

        %dx, %dw = scf.if %c { %y1 = math.exp %x; scf.yield %dr * %y1, zeros } else { scf.yield zeros, %dr }

    Raise CompileError if one of the values from outside is a number: only tensors have cotangents.
    """
    assert isinstance(op, scf.IfOp)
    # Active values depend on an input; those that the regions compute are not marked as active, so these are outside.
    used = dict.fromkeys(operand for inner in op.walk() for operand in inner.operands if operand in cotangents.active)
    captured = list(used)
    if not all(isinstance(value.type, TensorType) for value in captured):
        raise cotangents.refuse("a branch that uses a number read from an array")
    like = [cotangents.program_tensor(value) for value in captured]
    on_true, on_false = (
        _branch(cotangents, region, op.results, captured) for region in (op.true_region, op.false_region)
    )
    branch = cotangents.trace.add(scf.IfOp(op.cond, [value.type for value in captured], on_true, on_false))
    for value, of, result in zip(captured, like, branch.results, strict=True):
        cotangents.add(value, cotangents.trace.wrap(of.dtype, of.shape, result))


def _branch(
    cotangents: Cotangents, region: Region, results: Sequence[SSAValue], captured: Sequence[SSAValue]
) -> Region:
    """Return a region that repeats the operations of another one, and then yields the cotangents of `captured`.

    Args:
        cotangents: Cotangents of the program, with those of `results`.
        region: The region of the `scf.if`.
        results: Results of the `scf.if`.
        captured: Values from outside that either of its regions uses. Their cotangents are zeros in a region that does
            not use them.
    """
    trace = cotangents.trace
    block = Block()
    with trace.inside(block):
        values: dict[SSAValue, SSAValue] = {}  # value of the region → its repetition; `repeated` fills it
        *body, end = region.block.ops
        clones = repeated(trace, body, values)
        # The cotangent of a yielded value is that of the result of the `scf.if`. A region may also yield a value from
        # outside, which has no repetition.
        seeds = [
            (values.get(yielded, yielded), cotangents.of(result))
            for yielded, result in zip(end.operands, results, strict=True)
        ]
        of_branch = Cotangents(trace, captured, cotangents.rules)
        of_branch.pull_back(clones, seeds)
        totals = [of_branch.of(value) or of_branch.zeros(value) for value in captured]
        trace.add(scf.YieldOp(*(trace.value(total) for total in totals)))
    return Region(block)


BRANCH_RULES: dict[str, Rule] = {"scf.if": _if}
"""Name of an operation → its derivative."""
