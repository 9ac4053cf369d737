"""Dominance in regions with several blocks: which definitions every path to a use passes."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import Block, Region


class Dominance:
    """Dominator trees of regions, each computed on first use.

    The algorithm is that of Cooper, Harvey and Kennedy, "A Simple, Fast Dominance Algorithm".
    """

    def __init__(self) -> None:
        """Begin with no dominator tree computed."""
        # Region → the immediate dominator of each reachable block; the entry block has itself.
        self._parents: dict[Region, dict[Block, Block]] = {}

    def dominates(self, definition: Block, use: Block) -> bool:
        """Return whether every path from the entry to `use` passes `definition`, a block of the same region.

        A block that no path reaches is dominated by every block.
        """
        region = use.parent
        assert region is not None
        parents = self._parents.get(region)
        if parents is None:
            parents = self._parents[region] = _immediate_dominators(region)
        if use not in parents:  # not reachable
            return True
        while use is not definition:
            if parents[use] is use:  # the entry block
                return False
            use = parents[use]
        return True


def reverse_postorder(region: Region) -> list[Block]:
    """Return the blocks of a region in reverse postorder; unreachable blocks are at the end."""
    order = list(_postorder(region.blocks[0]))[::-1] if region.blocks else []
    reached = set(order)
    return order + [block for block in region.blocks if block not in reached]


def _immediate_dominators(region: Region) -> dict[Block, Block]:
    """Return the immediate dominator of each reachable block, by the iterative algorithm of Cooper, Harvey and Kennedy.

    A block dominates another if every path from the entry to the other passes it. The immediate dominator is the
    nearest one; the entry block is its own.
    """
    entry = region.blocks[0]
    order = list(_postorder(entry))
    postorder = {block: index for index, block in enumerate(order)}
    predecessors: dict[Block, list[Block]] = {block: [] for block in order}
    for block in order:
        for successor in successors(block):
            predecessors[successor].append(block)
    # Repeat until nothing changes, as dominators along back edges are not known in the first pass.
    parents = {entry: entry}
    is_changed = True
    while is_changed:
        is_changed = False
        for block in reversed(order[:-1]):  # in reverse postorder, without the entry, which is the last of `order`
            # One predecessor at least is before the block in this order, and so has a dominator.
            parent, *others = (predecessor for predecessor in predecessors[block] if predecessor in parents)
            for other in others:
                parent = _nearest_common_dominator(parents, postorder, parent, other)
            if parents.get(block) is not parent:
                parents[block], is_changed = parent, True
    return parents


def _nearest_common_dominator(
    parents: dict[Block, Block], postorder: dict[Block, int], first: Block, second: Block
) -> Block:
    """Return the nearest common dominator of two blocks.

    Args:
        parents: Immediate dominators that are known so far, by block.
        postorder: Index of each block in postorder, in which a block is before its dominators.
        first: A block in `parents`.
        second: A block in `parents`.
    """
    while first is not second:
        while postorder[first] < postorder[second]:
            first = parents[first]
        while postorder[second] < postorder[first]:
            second = parents[second]
    return first


def successors(block: Block) -> tuple[Block, ...]:
    """Return the blocks to which the last operation of a block may branch; none at the end of a function."""
    last = block.last_op
    return tuple(last.successors) if last is not None else ()


def _postorder(entry: Block) -> Iterator[Block]:
    """Yield the blocks reachable from the entry in postorder of a depth-first search."""
    seen = {entry}
    pending = [(entry, iter(successors(entry)))]  # path of the search: (block, its successors not yet considered)
    while pending:
        block, remaining = pending[-1]
        following = next((other for other in remaining if other not in seen), None)
        if following is None:
            pending.pop()
            yield block
        else:
            seen.add(following)
            pending.append((following, iter(successors(following))))
