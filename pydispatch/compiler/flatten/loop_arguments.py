"""Removal of loop-invariant iteration arguments from loops of the host, and how many iterations a loop has.

An iteration argument that every iteration passes on unchanged becomes the value that it begins with. Frontends carry
the weights of a scan so; later phases then see them as constants or arguments of the function.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import scf
from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import Block, Operation

from pydispatch.ir.core.locations import set_location
from pydispatch.ir.core.rewriting import erase_op
from pydispatch.ir.values import constant_index

ITERATIONS = "pyd.iterations"
"""Attribute of the conditional branch that a loop becomes: its number of iterations, where that is a constant."""


def iterations_of(loop: scf.ForOp) -> int | None:
    """Return the number of iterations of a loop; None if it is not known at compile time."""
    lower, upper, step = (constant_index(value) for value in (loop.lb, loop.ub, loop.step))
    if lower is None or upper is None or step is None or step <= 0:
        return None
    return len(range(lower, upper, step))


def record_iterations(branch: Operation, loop: scf.ForOp) -> None:
    """Add the number of iterations of a loop, if it is known, to the branch that begins each iteration."""
    if (count := iterations_of(loop)) is not None:
        branch.attributes[ITERATIONS] = IntegerAttr(count, i64)


def recorded_iterations(branch: Operation) -> int:
    """Return the number of iterations that `record_iterations` has added to a branch; 0 without one."""
    attribute = branch.attributes.get(ITERATIONS)
    return attribute.value.data if isinstance(attribute, IntegerAttr) else 0


def without_invariant_arguments(loop: scf.ForOp) -> scf.ForOp:
    """Remove the iteration arguments that never change from a loop; return the new loop, or `loop` if there are none.

    An argument never changes if the body yields the argument itself in its position: in `scf.for ... iter_args(%w =
    %w0)` with `scf.yield %w`. In the body, and in readers of the loop's result, its initial value %w0 replaces it.
    """
    block = loop.body.block
    end, parent = block.last_op, loop.parent
    if not isinstance(end, scf.YieldOp) or parent is None:  # the yield is implicit: there are no iteration arguments
        return loop
    # (iteration argument, the value that the body yields for it). Argument 0 of the block is the induction variable.
    pairs = list(zip(block.args[1:], end.operands, strict=True))
    kept = [index for index, (argument, value) in enumerate(pairs) if argument is not value]
    if len(kept) == len(pairs):  # all arguments change
        return loop
    # In the loop and after it, the initial values replace the arguments and results.
    for index, (argument, _) in enumerate(pairs):
        if index not in kept:
            argument.replace_all_uses_with(loop.iter_args[index])
            loop.results[index].replace_all_uses_with(loop.iter_args[index])
    # The body yields the remaining values, and loses the other arguments.
    new_end = scf.YieldOp(*(end.operands[index] for index in kept))
    set_location(new_end, end)
    erase_op(end)
    block.add_op(new_end)
    for index in reversed(range(len(pairs))):
        if index not in kept:
            block.erase_arg(block.args[1 + index])
    return _with_results(loop, parent, kept)


def _with_results(loop: scf.ForOp, parent: Block, kept: Sequence[int]) -> scf.ForOp:
    """Replace a loop by a new loop that takes over the body and has fewer results, and return the new loop.

    Args:
        loop: The loop. Its body yields only the values of the remaining results; the other results have no uses.
        parent: The block that contains the loop.
        kept: Indices of the remaining results, and of their initial values, in the old loop.
    """
    new = scf.ForOp.create(
        operands=[loop.lb, loop.ub, loop.step, *(loop.iter_args[index] for index in kept)],
        result_types=[loop.results[index].type for index in kept],
        properties=loop.properties, attributes=loop.attributes, regions=[loop.detach_region(loop.body)],
    )  # fmt: skip
    set_location(new, loop)
    parent.insert_op_before(new, loop)
    for index, result in zip(kept, new.results, strict=True):
        result.name_hint = loop.results[index].name_hint
        loop.results[index].replace_all_uses_with(result)
    erase_op(loop)
    return new
