"""Merges of groups after all operations of a block have entered: of siblings, and of chains of three groups."""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.ir import SSAValue

from pydispatch.compiler.analysis.kinds import inputs_of, is_fill
from pydispatch.compiler.fusion.group_order import TooFarError
from pydispatch.compiler.fusion.merging import FusionGroups
from pydispatch.ir.values import shape_of

MOST_SIBLINGS = 64
"""Number of failed attempts to merge other readers of a tensor into a group, after which the search for one stops.

With more attempts, formation is quadratic in the number of readers. With fewer, more readers are not merged that could
be.
"""


def join_siblings(groups: FusionGroups) -> None:
    """Merge groups that read the same tensor and do not depend on each other."""
    for siblings in _readers_of_tensors(groups).values():
        alive = sorted(g for g in siblings if g in groups.members)
        for index, first in enumerate(alive):
            if first in groups.members:  # it may have been merged into an earlier one
                _join_into_first(groups, first, alive[index + 1 :])


def _readers_of_tensors(groups: FusionGroups) -> dict[SSAValue, dict[int, None]]:
    """Return, for each tensor, the groups that read it but do not compute it; a dict serves as an ordered set.

    Scalars and fills are left out.
    """
    readers: dict[SSAValue, dict[int, None]] = {}
    for group, ops in groups.members.items():
        for op in groups.in_order(ops):
            for value in inputs_of(op):
                source = groups.producer(value)
                # Each reader fills its own tensor, so groups share nothing by reading the same fill.
                if not shape_of(value) or (source is not None and is_fill(source)):
                    continue
                if source is None or groups.group_of.get(source) != group:
                    readers.setdefault(value, {})[group] = None
    return readers


def _join_into_first(groups: FusionGroups, first: int, others: Iterable[int]) -> None:
    """Merge each of `others` into `first` where that is legal, until MOST_SIBLINGS attempts have failed."""
    failures = 0
    for second in others:
        if second not in groups.members:  # it has been merged into another group
            continue
        # join() returns None if it has merged the two, else the reason why not.
        is_merged = not _are_dependent(groups, first, second) and groups.join(second, first) is None
        if not is_merged:
            failures += 1
        if failures == MOST_SIBLINGS:
            return


def _are_dependent(groups: FusionGroups, first: int, second: int) -> bool:
    """Return whether one of two groups depends on the other; True if they are too far apart to find out."""
    try:
        return groups.order.needs([first], [second]) or groups.order.needs([second], [first])
    except TooFarError:
        return True


def join_chains(groups: FusionGroups) -> None:
    """Merge three groups at once where no two of them could merge: a producer, a group that reads it, and the only
    reader of that group. One kernel may compute all three, as in attention: product, softmax, product.
    """
    for middle in list(groups.members):
        if middle not in groups.members:  # it has been merged into another group
            continue
        readers = groups.readers(middle)
        reader = next(iter(readers)) if len(readers) == 1 else None
        if reader is None:  # no reader, several, or one outside of all groups
            continue
        for source in _producers(groups, middle):
            if source not in (middle, reader) and groups.join_three(source, middle, reader):
                _join_producers(groups, source)
                break


def _producers(groups: FusionGroups, group: int) -> list[int]:
    """Return the groups that the operations of a group read, each once, in the order of the operations."""
    ops = groups.in_order(groups.members[group])
    return list(dict.fromkeys(g for op in ops for g in groups.groups_read(op)))


def _join_producers(groups: FusionGroups, group: int) -> None:
    """Merge a group with the groups that it reads, where that is legal."""
    for other in _producers(groups, group):
        if other not in groups.members or other == group:  # it has been merged into another group
            continue
        reason_not_to_join = groups.join(group, other)
        if reason_not_to_join is None:
            group = other  # the merged group has the number of `other`
