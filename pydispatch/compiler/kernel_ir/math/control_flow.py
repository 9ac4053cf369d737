"""Branches and loops over values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.dialects import scf
from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import Block, Region, SSAValue

from pydispatch.compiler.kernel_ir.kernel import MOST_ITERATIONS
from pydispatch.compiler.kernel_ir.math.numbers import Truth, Value


def one_of(
    condition: Truth, then: Callable[[], Sequence[Value]], otherwise: Callable[[], Sequence[Value]]
) -> list[Any]:
    """Append an `scf.if`, and return its results, as objects of the classes of the values that `then` returns.

    Args:
        condition: Selects the branch.
        then: Emits the first branch, and returns its values.
        otherwise: Emits the else branch, and returns its values, of the same types.
    """
    # Emit each branch into a block of its own, which yields the branch's values.
    body = condition.body
    regions: list[Region] = []
    branches: list[Sequence[Value]] = []
    for branch in (then, otherwise):
        block = Block()
        with body.inside(block):
            branches.append(branch())
            block.add_op(scf.YieldOp(*(item.value for item in branches[-1])))
        regions.append(Region(block))
    conditional = scf.IfOp(condition.value, [item.value.type for item in branches[0]], regions[0], regions[1])
    body.block.add_op(conditional)
    return [like.wrapped(result) for like, result in zip(branches[0], conditional.results, strict=True)]


def repeated(
    carried: Sequence[Value],
    goes_on: Callable[[Sequence[Any]], Truth],
    step: Callable[[Sequence[Any]], Sequence[Value]],
    most: int,
) -> list[Any]:
    """Append an `scf.while`, and return the final carried values.

    Args:
        carried: The initial carried values.
        goes_on: Emits from the carried values whether another iteration runs; tested before the first one, too.
        step: Emits one iteration from the carried values, and returns the next ones.
        most: Upper bound of the iteration count. Lavapipe, a Vulkan driver, ends all loops of an invocation after
            65,535 iterations; the SPIR-V emitter unrolls loops to stay below that, and must know how often they run.
    """
    body, types = carried[0].body, [item.value.type for item in carried]

    def values(ssa_values: Sequence[SSAValue]) -> list[Any]:
        """Return the arguments or results of the loop as numbers, words and truths like the carried ones."""
        return [like.wrapped(value) for like, value in zip(carried, ssa_values, strict=True)]

    # The two regions of an `scf.while`: `test` decides whether another iteration runs, `block` is the iteration.
    test, block = Block(arg_types=types), Block(arg_types=types)
    with body.inside(test):
        test.add_op(scf.ConditionOp(goes_on(values(test.args)).value, *test.args))
    with body.inside(block):
        block.add_op(scf.YieldOp(*(item.value for item in step(values(block.args)))))
    loop = scf.WhileOp([item.value for item in carried], types, Region(test), Region(block))
    loop.attributes[MOST_ITERATIONS] = IntegerAttr(most, i64)
    body.block.add_op(loop)
    return values(loop.results)
