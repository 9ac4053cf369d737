"""A walk over nested operations in the order of their text, at a fraction of the cost of the library's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from xdsl.ir import Block, Operation, Region


def walk(root: Operation | Region | Block) -> Iterator[Operation]:
    """Yield an operation and all nested operations, or all operations in a region or block, in preorder.

    As in `Operation.walk()`, the regions of an operation are read after it was yielded, its successor before that, so
    the visitor may change the former. One generator handles all levels, which is faster than xDSL's three per
    operation.
    """
    if isinstance(root, Operation):
        return _of(root)
    return _inside(root.blocks if isinstance(root, Region) else (root,))


def _of(op: Operation) -> Iterator[Operation]:
    yield op
    for region in op.regions:
        yield from _inside(region.blocks)


def _inside(blocks: Iterable[Block]) -> Iterator[Operation]:
    for block in blocks:
        op = block.first_op
        while op is not None:
            after = op._next_op
            yield op
            for region in op.regions:
                yield from _inside(region.blocks)
            op = after
