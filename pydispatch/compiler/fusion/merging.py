"""Groups of the tensor operations of a block, and the conditions under which two of them may be merged."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress

from xdsl.ir import Block, Operation, SSAValue

from pydispatch.compiler.analysis import reasons
from pydispatch.compiler.analysis.kinds import inputs_of, is_duplicable, is_fill, stays_on_host
from pydispatch.compiler.fusion.group_order import GroupOrder, TooFarError
from pydispatch.compiler.fusion.legality import Legality
from pydispatch.compiler.fusion.naming import describe_location
from pydispatch.compiler.fusion.uniform import Uniform
from pydispatch.ir.values import shape_of

MOST_OPERATIONS = 96  # compile time grows faster than what a longer chain still saves
MOST_SIBLINGS = 64
"""Readers of one tensor with which a group is compared, without joining any, before formation gives up.

With more of them, formation is quadratic in the number of readers; with fewer, readers that are far apart stay apart.
"""


class FusionGroups:
    """The groups of one block.

    members[g]: the operations of group g, in no order. Every operation of the block is a node of `order`, or part of
    its group's. Readers of a duplicable operation depend on its operands, not on the operation itself: each group gets
    a copy of it.
    """

    def __init__(self, block: Block, legality: Legality) -> None:
        self.block = block
        self.legality = legality
        self.position = {op: i for i, op in enumerate(block.ops)}
        self.members: dict[int, set[Operation]] = {}
        self.group_of: dict[Operation, int] = {}
        self.intermediates: dict[int, set[Operation]] = {}  # duplicable operations between members of a group
        self.rejected: dict[tuple[Operation, Operation], str] = {}
        self.order = GroupOrder()
        self._uniform: dict[int, Uniform | None] = {}

    # -- the graph

    def producer(self, value: SSAValue) -> Operation | None:
        """Return the operation of the block that gives `value`."""
        owner = value.owner
        return owner if owner in self.position else None  # type: ignore[return-value]  # a block has no position

    def node(self, op: Operation) -> int:
        """Return the number of an operation's node: its group's, or its own."""
        return self.group_of.get(op, self.position[op])

    def enter(self, op: Operation, previous: Operation | None) -> None:
        """Make a node of the next operation. previous: an operation that must run before it."""
        sources: set[int] = set()
        for source in {*map(self.producer, inputs_of(op)), previous}:
            if source is None or source is op:
                continue
            node = self.node(source)
            if source not in self.group_of and is_duplicable(source):
                sources |= self.order.sources(node)
            else:
                sources.add(node)
        self.order.add(self.position[op], sources)

    def add(self, op: Operation) -> None:
        """Create a group for `op`, and merge it with the groups of its producers where that is legal."""
        group = self.position[op]
        self.members[group] = {op}
        self.group_of[op] = group
        self._uniform[group] = Uniform.of(op, self.legality.space_of(op))
        for candidate in self._groups_read(op):
            if candidate != self.group_of[op] and candidate in self.members:
                self.join(self.group_of[op], candidate)

    def _groups_read(self, op: Operation) -> list[int]:
        """Return the groups whose values `op` reads, also through duplicable operations; the largest tensors first."""
        ranks: dict[int, int] = {}
        seen: set[Operation] = set()
        pending = inputs_of(op)
        while pending:
            value = pending.pop(0)
            source = self.producer(value)
            if source is None:
                continue
            if source in self.group_of:
                rank = len(shape_of(value))
                ranks[self.group_of[source]] = max(rank, ranks.get(self.group_of[source], 0))
            elif is_duplicable(source) and source not in seen:
                seen.add(source)
                pending += inputs_of(source)
        return sorted(ranks, key=lambda g: -ranks[g])

    # -- joining

    def join(self, group: int, other: int) -> str | None:
        """Merge two groups into `other`, the one that comes first. None, or why not."""
        intermediates: set[Operation] = set()
        uniform = self._both(group, other)
        if uniform is None:
            intermediates = self._intermediates(group, other)
        try:
            if uniform is None:
                reason = self._why_not([other, group], intermediates)
            else:
                reason = self._why_not_uniform(group, other, uniform)
        except TooFarError:
            reason = reasons.TOO_FAR
        if reason is not None:
            self._reject(group, other, intermediates, reason)
            return reason
        self._merge(group, other, intermediates)
        self._uniform[other] = uniform
        return None

    def _both(self, group: int, other: int) -> Uniform | None:
        """Return the union of two groups of one space; None for other groups, all of whose operations legality must
        see.
        """
        first, second = self._uniform.get(group), self._uniform.get(other)
        if first is None or second is None:
            return None
        return first.joined(second, lambda op: self.group_of.get(op, -1) in (group, other))

    def _why_not_uniform(self, group: int, other: int, both: Uniform) -> str | None:
        """Return why groups of one space may not become one, None when they may: legality permits it, whatever they
        compute.
        """
        groups = [other, group]
        outside = (self.order.sources(group) | self.order.sources(other)).difference(groups)
        if self.order.needs(outside, groups):
            between = self._operation_between(groups, self.members[group] | self.members[other])
            assert between is not None
            return reasons.cycle(describe_location(between))
        if len(self.members[group]) + len(self.members[other]) > MOST_OPERATIONS:
            return reasons.too_many_operations(MOST_OPERATIONS)
        self.order.require_near(group, other)
        return both.reads.too_many(len(both.results), self.legality.most_tensors)

    def _why_not(self, groups: Sequence[int], intermediates: set[Operation]) -> str | None:
        """Return why groups and the duplicable operations between them may not become one."""
        inside = intermediates.union(*map(self.whole, groups))
        between = self._operation_between(groups, inside)
        if between is not None:
            return reasons.cycle(describe_location(between))
        if len(inside - intermediates) > MOST_OPERATIONS:
            return reasons.too_many_operations(MOST_OPERATIONS)
        for group in groups[1:]:
            self.order.require_near(groups[0], group)
        return self.legality.of(self.in_order(inside))

    def whole(self, group: int) -> set[Operation]:
        """Return the operations of a group with the duplicable operations between them."""
        return self.members[group] | self.intermediates.get(group, set())

    def in_order(self, ops: Iterable[Operation]) -> list[Operation]:
        return sorted(ops, key=self.position.__getitem__)

    def _intermediates(self, group: int, other: int) -> set[Operation]:
        """Return the duplicable operations that lead from `other` to `group`."""
        leads: dict[Operation, bool] = {}

        def lead(op: Operation) -> bool:
            if op not in leads:
                leads[op] = False
                sources = [s for s in map(self.producer, inputs_of(op)) if s is not None]
                between = [s for s in sources if s not in self.group_of and is_duplicable(s) and lead(s)]
                leads[op] = bool(between) or any(self.group_of.get(s) == other for s in sources)
            return leads[op]

        for op in self.members[group]:
            lead(op)
        return {op for op, leading in leads.items() if leading and op not in self.members[group]}

    def _operation_between(self, groups: Sequence[int], inside: set[Operation]) -> Operation | None:
        """Return an operation that would be between groups: some of them need it, and it needs others. None when there
        is none.
        """
        outside = [s for op in inside for s in map(self.producer, inputs_of(op)) if s is not None and s not in inside]
        nodes = {source: self.node(source) for source in outside}
        if not self.order.needs({*nodes.values()}.difference(groups), groups):
            return None
        between = (source for source in self.in_order(nodes) if nodes[source] not in groups)
        return next(source for source in between if self.order.needs([nodes[source]], groups))

    def _reject(self, group: int, other: int, intermediates: set[Operation], reason: str) -> None:
        if other not in self.order.sources(group):
            return
        for op in self.members[group]:
            pending = inputs_of(op)
            while pending:
                source = self.producer(pending.pop())
                if source is None:
                    continue
                if source in self.members[other]:
                    self.rejected[source, op] = reason
                elif source in intermediates:
                    pending += inputs_of(source)

    def _merge(self, group: int, other: int, intermediates: set[Operation]) -> None:
        for op in self.members[group]:
            self.group_of[op] = other
        self.members[other] |= self.members.pop(group)
        self.intermediates[other] = (
            self.intermediates.pop(other, set()) | self.intermediates.pop(group, set()) | intermediates
        )
        self.order.merge(group, other)
        self._uniform[group] = self._uniform[other] = None

    # -- after all operations have entered

    def join_siblings(self) -> None:
        """Merge groups that read the same tensor and do not depend on each other."""
        readers: dict[SSAValue, dict[int, None]] = {}
        for group, ops in self.members.items():
            for op in self.in_order(ops):
                for value in inputs_of(op):
                    source = self.producer(value)
                    if not shape_of(value) or (source is not None and is_fill(source)):
                        continue
                    if source is None or self.group_of.get(source) != group:
                        readers.setdefault(value, {})[group] = None
        for groups in readers.values():
            alive = sorted(g for g in groups if g in self.members)
            for index, first in enumerate(alive):
                self._join_siblings(first, alive[index + 1 :] if first in self.members else ())

    def _join_siblings(self, first: int, others: Iterable[int]) -> None:
        tries = 0
        for second in others:
            if second not in self.members:
                continue
            if self._need_each_other(first, second) or self.join(second, first) is not None:
                tries += 1
            if tries == MOST_SIBLINGS:
                return

    def _need_each_other(self, first: int, second: int) -> bool:
        """Return whether one of two groups needs the other; True when they are too far apart to find out."""
        try:
            return self.order.needs([first], [second]) or self.order.needs([second], [first])
        except TooFarError:
            return True

    def join_chains(self) -> None:
        """Join three groups, a producer, a consumer and the consumer's only reader, where no two of them could join."""
        for middle in list(self.members):
            if middle not in self.members:
                continue
            readers = self._readers(middle)
            above = [g for op in self.in_order(self.members[middle]) for g in self._groups_read(op) if g != middle]
            if len(readers) != 1 or None in readers:
                continue
            last = next(iter(readers))
            for first in dict.fromkeys(above):
                if last is None or first == last:
                    continue
                intermediates = self._intermediates(middle, first) | self._intermediates(last, middle)
                with suppress(TooFarError):
                    if self._why_not([first, middle, last], intermediates) is None:
                        self._merge(middle, first, intermediates)
                        self._merge(last, first, intermediates)
                        break

    def _readers(self, group: int) -> set[int | None]:
        """Return the groups that read values of a group, also through duplicable operations; None for a reader in no
        group.
        """
        groups: set[int | None] = set()
        pending = [use.operation for op in self.members[group] for result in op.results for use in result.uses]
        while pending:
            op = self.ancestor(pending.pop())
            if op is not None and op not in self.group_of and is_duplicable(op):
                pending += [use.operation for result in op.results for use in result.uses]
            elif op is None or self.group_of.get(op) != group:
                groups.add(None if op is None else self.group_of.get(op))
        return groups

    def drop_host_copies(self) -> None:
        """Dissolve groups that consist of a copy alone, which host code performs."""
        for group, ops in list(self.members.items()):
            if all(stays_on_host(op) for op in ops):
                for op in ops:
                    del self.group_of[op]
                del self.members[group]

    def ancestor(self, op: Operation) -> Operation | None:
        """Return the operation of the block that is `op` or contains it."""
        while op.parent is not self.block:
            parent = op.parent_op()
            if parent is None:
                return None
            op = parent
        return op
