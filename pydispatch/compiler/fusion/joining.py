"""Groups of the tensor operations of a block, and when two of them may become one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from xdsl.ir import Block, Operation, SSAValue

from pydispatch.compiler.analysis.kinds import (
    inputs_of,
    is_connector,
    is_fill,
    stays_on_host,
    too_many_arguments,
)
from pydispatch.ir.values import shape_of

WhyNot = Callable[[Sequence[Operation], Operation], "str | None"]


MOST_OPERATIONS = 96  # compile time grows faster than what a longer chain still saves


class Groups:
    """The groups of one block.

    members[g]: the operations of group g, in no order. Every operation of the block is a node; `_before` has for each
    node all nodes that must run before it, as bits, `_bits` those that it consists of.
    """

    def __init__(self, block: Block, why_not: WhyNot) -> None:
        self.block = block
        self.why_not = why_not
        self.position = {op: i for i, op in enumerate(block.ops)}
        self.members: dict[int, set[Operation]] = {}
        self.home: dict[Operation, int] = {}
        self.bridges: dict[int, set[Operation]] = {}  # connectors between members of a group, copied in the end
        self.refused: dict[tuple[Operation, Operation], str] = {}
        self._before: dict[int, int] = {}
        self._bits: dict[int, int] = {}

    # -- the graph

    def producer(self, value: SSAValue) -> Operation | None:
        """The operation of the block that gives `value`."""
        owner = value.owner
        return owner if isinstance(owner, Operation) and owner in self.position else None

    def node(self, op: Operation) -> int:
        """The number of an operation's node: its group's, or its own."""
        return self.home.get(op, self.position[op])

    def enter(self, op: Operation, previous: Operation | None) -> None:
        """Makes a node of the next operation. previous: an operation that must run before it."""
        number = self.position[op]
        before = 0
        for source in (*(self.producer(v) for v in inputs_of(op)), previous):
            if source is not None and source is not op:
                node = self.node(source)
                before |= self._before[node] | self._bits[node]
        self._before[number], self._bits[number] = before, 1 << number

    def add(self, op: Operation) -> None:
        """Puts `op` into a group of its own and joins those of its producers that it may."""
        home = self.position[op]
        self.members[home] = {op}
        self.home[op] = home
        for candidate in self._groups_read(op):
            if candidate != self.home[op] and candidate in self.members:
                self.join(self.home[op], candidate)

    def _groups_read(self, op: Operation) -> list[int]:
        """The groups whose values `op` reads, also through connectors; the largest tensors first."""
        found: dict[int, int] = {}
        seen: set[Operation] = set()
        pending = inputs_of(op)
        while pending:
            value = pending.pop(0)
            source = self.producer(value)
            if source is None:
                continue
            if source in self.home:
                rank = len(shape_of(value))
                found[self.home[source]] = max(rank, found.get(self.home[source], 0))
            elif is_connector(source) and source not in seen:
                seen.add(source)
                pending += inputs_of(source)
        return sorted(found, key=lambda g: -found[g])

    # -- joining

    def join(self, home: int, other: int) -> str | None:
        """Merges two groups into `other`, the one that comes first. None, or why not."""
        bridge = self._bridge(home, other)
        reason = self._circle(home, other, bridge)
        if reason is None and len(self.whole(other)) + len(self.whole(home)) > MOST_OPERATIONS:
            reason = f"the dispatch would hold more than {MOST_OPERATIONS} operations"
        if reason is None:
            union = self.in_order(self.whole(other))
            for op in self.in_order((self.whole(home) | bridge) - set(union)):
                reason = self.why_not(union, op)
                if reason is not None:
                    break
                union.append(op)
            else:
                reason = too_many_arguments(union)
        if reason is not None:
            self._refuse(home, other, bridge, reason)
            return reason
        self._merge(home, other, bridge)
        return None

    def whole(self, group: int) -> set[Operation]:
        """The operations of a group with the connectors between them."""
        return self.members[group] | self.bridges.get(group, set())

    def in_order(self, ops: Iterable[Operation]) -> list[Operation]:
        return sorted(ops, key=self.position.__getitem__)

    def _bridge(self, home: int, other: int) -> set[Operation]:
        """The connectors that lead from `other` to `home`."""
        leads: dict[Operation, bool] = {}

        def lead(op: Operation) -> bool:
            if op not in leads:
                leads[op] = False
                sources = [s for s in map(self.producer, inputs_of(op)) if s is not None]
                leads[op] = any(
                    self.home.get(s) == other or (s not in self.home and is_connector(s) and lead(s)) for s in sources
                )
            return leads[op]

        for op in self.members[home]:
            lead(op)
        return {op for op, leading in leads.items() if leading and op not in self.members[home]}

    def _circle(self, home: int, other: int, bridge: set[Operation]) -> str | None:
        """Whether something outside would stand between the two groups."""
        inside = self.whole(home) | self.whole(other) | bridge
        for op in inside:
            for source in map(self.producer, inputs_of(op)):
                if source is None or source in inside:
                    continue
                node = self.node(source)
                if node in (home, other):
                    continue
                if self._before[node] & (self._bits[home] | self._bits[other]):
                    return "a value would leave the dispatch and come back into it"
        return None

    def _refuse(self, home: int, other: int, bridge: set[Operation], reason: str) -> None:
        for op in self.members[home]:
            for source in map(self.producer, inputs_of(op)):
                if source in self.members[other] or source in bridge:
                    assert source is not None
                    self.refused[source, op] = reason

    def _merge(self, home: int, other: int, bridge: set[Operation]) -> None:
        for op in self.members[home]:
            self.home[op] = other
        self.members[other] |= self.members.pop(home)
        self.bridges[other] = self.bridges.pop(other, set()) | self.bridges.pop(home, set()) | bridge
        bits = self._bits[other] = self._bits[other] | self._bits[home]
        before = self._before[other] = (self._before[other] | self._before[home]) & ~bits
        for node, mask in self._before.items():
            if mask & bits and node not in (home, other):
                self._before[node] = mask | before | bits

    # -- after all operations have entered

    def join_siblings(self) -> None:
        """Groups that read the same tensor, and of which none needs the other, join."""
        readers: dict[SSAValue, list[int]] = {}
        for group, ops in self.members.items():
            for op in ops:
                for value in inputs_of(op):
                    source = self.producer(value)
                    if not shape_of(value) or (source is not None and is_fill(source)):
                        continue
                    if source is None or self.home.get(source) != group:
                        readers.setdefault(value, [])
                        if group not in readers[value]:
                            readers[value].append(group)
        for groups in readers.values():
            alive = sorted({g for g in groups if g in self.members})
            for first, second in [(a, b) for i, a in enumerate(alive) for b in alive[i + 1 :]]:
                if first not in self.members or second not in self.members:
                    continue
                apart = not (self._before[first] & self._bits[second] or self._before[second] & self._bits[first])
                if apart:
                    self.join(second, first)

    def drop_host_copies(self) -> None:
        """Groups of nothing but a copy that host code does itself are none."""
        for group, ops in list(self.members.items()):
            if all(stays_on_host(op) for op in ops):
                for op in ops:
                    del self.home[op]
                del self.members[group]

    def ancestor(self, op: Operation) -> Operation | None:
        """The operation of the block that `op` is, or stands in."""
        while op.parent is not self.block:
            parent = op.parent_op()
            if parent is None:
                return None
            op = parent
        return op
