"""Blocks of host functions: splitting, moving and ending them while structured control flow is lowered."""

from __future__ import annotations

from xdsl.dialects import cf, scf
from xdsl.ir import Block, Operation, Region, SSAValue

from pydispatch.ir.core.locations import set_location

TERMINATORS = ("scf.yield", "scf.condition", "cf.br", "cf.cond_br", "cf.switch", "func.return", "util.return",
               "util.unreachable")  # fmt: skip
"""Operations that end a block of a host function; after any other last operation, an `scf.yield` is implicit."""


def split_after(op: Operation) -> tuple[Block, Block]:
    """Split the block that contains `op` after `op`, detach `op`, and return the two blocks.

    The first block then has no terminator: the caller adds one. The second block has an argument for each result of
    `op`, which replaces the result.
    """
    block = op.parent
    assert block is not None and op.next_op is not None
    after = block.split_before(op.next_op, arg_types=[r.type for r in op.results])
    for result, argument in zip(op.results, after.args, strict=True):
        argument.name_hint = result.name_hint
        result.replace_all_uses_with(argument)
    op.detach()
    return block, after


def append(block: Block, op: Operation, like: Operation) -> None:
    """Add `op` at the end of `block`, with the source location of `like`."""
    set_location(op, like)
    block.add_op(op)


def append_value(block: Block, op: Operation, like: Operation) -> SSAValue:
    """Add `op` at the end of `block`, with the source location of `like`, and return its result."""
    append(block, op, like)
    return op.results[0]


def move_blocks(region: Region, after: Block) -> Block:
    """Move the blocks of `region` into the region of the block `after`, before it, and return the first of them."""
    first = region.blocks.first
    assert first is not None
    region.move_blocks_before(after)
    return first


def redirect(first: Block, after: Block, terminator: str, target: Block) -> None:
    """Replace terminators named `terminator` by branches to `target`, to which they pass the values that they yield.

    Only the blocks from `first` up to `after`, which is excluded, are changed. A block without operations is the body
    of an scf operation with an implicit scf.yield: if `terminator` is "scf.yield", it gets a branch to `target`, too.
    """
    block: Block | None = first
    while block is not None and block is not after:
        last = block.last_op
        if last is not None and last.name == terminator:
            values = list(last.operands)
            last.detach()
            append(block, cf.BranchOp(target, *values), like=last)  # with its source location
            last.erase(safe_erase=False)
        elif last is None and terminator == "scf.yield":
            block.add_op(cf.BranchOp(target))
        block = block.next_block


def add_implicit_yield(region: Region) -> None:
    """Add an `scf.yield` to the last block of a region that has no terminator."""
    last = region.blocks.last
    if last is not None and (last.last_op is None or last.last_op.name not in TERMINATORS):
        last.add_op(scf.YieldOp())
