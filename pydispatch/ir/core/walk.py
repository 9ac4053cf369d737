"""A walk over nested operations in the order of their text, at a fraction of the cost of the library's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.ir import Block, Operation, Region


def walk(root: Operation | Region | Block) -> Iterator[Operation]:
    """Yield an operation and every operation inside of it, or those inside of a region or block.

    Order, and what may be changed meanwhile, are those of `Operation.walk()`: the regions of an operation are looked
    at after it was yielded, and the operation after it before. The library resumes three generators for each level of
    nesting and operation, which was a sixth of the time of compilation.
    """
    if isinstance(root, Operation):
        return _of(root)
    return _inside((root,)) if isinstance(root, Region) else _in_block(root)


def _of(op: Operation) -> Iterator[Operation]:
    yield op
    if op.regions:
        yield from _inside(op.regions)


def _inside(regions: Sequence[Region]) -> Iterator[Operation]:
    for region in regions:
        block = region.first_block
        while block is not None:
            following = block.next_block
            op = block.first_op
            while op is not None:
                after = op._next_op
                yield op
                if op.regions:
                    yield from _inside(op.regions)
                op = after
            block = following


def _in_block(block: Block) -> Iterator[Operation]:
    op = block.first_op
    while op is not None:
        after = op._next_op
        yield op
        if op.regions:
            yield from _inside(op.regions)
        op = after
