"""Which tensor operations of a block become one dispatch.

An operation joins the groups of the operations that produce its operands, then groups that read the same tensor join,
each time provided that no value would have to leave a group and come back into it (a dispatch runs as a whole), and
that code generation can lower the union well.

Views, fills and operations that make much out of little belong to no group at first: every group that reads one gets
its own copy, so that nothing is stored for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from xdsl.ir import Block, Operation, SSAValue

from pydispatch.compiler.analysis.kinds import (
    has_effects,
    inputs_of,
    is_connector,
    is_fill,
    is_scalar_code,
    is_view,
    may_join,
    size_operands,
    stays_on_host,
    too_many_scalars,
)
from pydispatch.ir.core.locations import set_location
from pydispatch.ir.op_info import info_of
from pydispatch.ir.values import shape_of

WhyNot = Callable[[Sequence[Operation], Operation], "str | None"]


MOST_OPERATIONS = 96  # compile time grows faster than what a longer chain still saves


@dataclass(frozen=True)
class Edge:
    """A producer and a consumer in different dispatches, and why they are."""

    producer: Operation
    consumer: Operation
    reason: str


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
        """Makes a node of the next operation. previous: an operation that it must stay behind."""
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
        for candidate in self._groups_behind(op):
            if candidate != self.home[op] and candidate in self.members:
                self.join(self.home[op], candidate)

    def _groups_behind(self, op: Operation) -> list[int]:
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
                reason = too_many_scalars(union)
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

    def add_connectors(self) -> None:
        """Copies connectors into the groups that read them; what others read too becomes a group where it must."""
        for op in reversed(list(self.position)):
            if op in self.home or op.parent is None or not is_connector(op):
                continue
            self._place_connector(op)

    def _place_connector(self, op: Operation) -> None:
        """Copies `op` into each group that reads it, if it leads back to the group, or needs memory otherwise."""
        view = is_view(op)
        users: dict[int | None, list[Operation]] = {}
        for result in op.results:
            for use in result.uses:
                user = self._ancestor(use.operation)
                users.setdefault(self.home.get(user) if user is not None else None, []).append(use.operation)
        left = None in users
        for group, readers in users.items():
            if group is None:
                continue
            if view and not self._within(op, group):
                left = True
                continue
            known = view or op in self.bridges.get(group, ())
            others = self.in_order(self.members[group])
            reason = None if known else self.why_not(others, op) or too_many_scalars([*others, op])
            if reason is not None:
                left = True
                for reader in readers:
                    self.refused[op, self._ancestor(reader) or reader] = reason
                continue
            self._copy_into(op, group, readers)
        if not left:
            self._erase(op)
        elif not view:
            self.add(op)

    def _within(self, op: Operation, group: int) -> bool:
        """Whether a view shows a tensor that the group makes, or that is made inside it."""
        source = self.producer(op.operands[0])
        while source is not None and source not in self.home and is_view(source):
            source = self.producer(source.operands[0])
        if source is None:
            return False
        if source in self.home:
            return self.home[source] == group
        return is_connector(source) or is_fill(source)

    def _ancestor(self, op: Operation) -> Operation | None:
        """The operation of the block that `op` is, or stands in."""
        while op.parent is not self.block:
            parent = op.parent_op()
            if parent is None:
                return None
            op = parent
        return op

    def _copy_into(self, op: Operation, group: int, readers: Iterable[Operation]) -> None:
        copy = op.clone()
        set_location(copy, op)
        self.block.insert_op_before(copy, op)
        self.position[copy] = self.position[op]
        for old, new in zip(op.results, copy.results, strict=True):
            new.name_hint = old.name_hint
            for reader in readers:
                for index, operand in enumerate(reader.operands):
                    if operand is old:
                        reader.operands[index] = new
        self.members[group].add(copy)
        self.home[copy] = group

    def _erase(self, op: Operation) -> None:
        op.detach()
        op.erase()

    def take_in_scalars(self) -> None:
        """Scalars that are computed from elements of tensors for one group alone move into it: host code then need
        not wait for the elements."""
        chosen: dict[Operation, int] = {}
        for op in reversed(list(self.block.ops)):
            if not is_scalar_code(op):
                continue
            groups: set[int | None] = set()
            for use in op.results[0].uses:
                user = self._ancestor(use.operation)
                if user is None or (user is use.operation and use.operation.operands[use.index] in size_operands(user)):
                    groups.add(None)
                else:
                    groups.add(self.home.get(user, chosen.get(user)))
            if len(groups) == 1 and None not in groups:
                chosen[op] = next(g for g in groups if g is not None)
        reads: set[Operation] = set()
        for op in self.block.ops:
            if op in chosen and (op.name == "tensor.extract" or any(self.producer(v) in reads for v in op.operands)):
                reads.add(op)
                self.members[chosen[op]].add(op)
                self.home[op] = chosen[op]

    def drop_fills(self) -> None:
        """Fills that every reader has a copy of go."""
        for op in reversed(list(self.block.ops)):
            if is_fill(op) and op not in self.home and not op.results[0].uses.get_length():
                self._erase(op)

    def add_fills(self) -> None:
        """Each group gets its own copies of the constants, splats and empty tensors that it reads."""
        for group in list(self.members):
            copies: dict[Operation, Operation] = {}
            pending = self.in_order(self.members[group])
            while pending:
                op = pending.pop()
                for inner in op.walk():
                    for index, operand in enumerate(inner.operands):
                        source = operand.owner
                        if not isinstance(source, Operation) or source in self.members[group] or not is_fill(source):
                            continue
                        if self._ancestor(source) is op:
                            continue
                        if source not in copies:
                            copies[source] = source.clone()
                            set_location(copies[source], source)
                            self.block.insert_op_before(copies[source], self.in_order(self.members[group])[0])
                            pending.append(copies[source])
                        inner.operands[index] = copies[source].results[0]
            for source, copy in copies.items():
                self.position[copy] = self.position.get(source, -1)
                self.members[group].add(copy)
                self.home[copy] = group


def elementwise_only(group: Sequence[Operation], op: Operation) -> str | None:
    """The simplest legality: elementwise operations of one shape."""
    for member in (*group, op):
        if not info_of(member).elementwise:
            return f"'{member.name}' is not elementwise"
    return None if shape_of(group[0].results[0]) == shape_of(op.results[0]) else "the shapes differ"


def form_groups(block: Block, why_not: WhyNot = elementwise_only) -> tuple[list[list[Operation]], list[Edge]]:
    """Partitions the tensor operations of `block` into groups, and says why neighbours are not in one.

    Each group is listed in an order in which it can run. Connectors and fills are copied into the groups that read
    them, so that every operation of a group belongs to it alone.
    """
    groups = Groups(block, why_not)
    previous: Operation | None = None
    for op in list(block.ops):
        effects = has_effects(op)
        groups.enter(op, previous if effects else None)
        previous = op if effects else previous
        if may_join(op) and not is_connector(op):
            groups.add(op)
    groups.join_siblings()
    groups.drop_host_copies()
    groups.add_connectors()
    groups.add_fills()
    groups.drop_fills()
    groups.take_in_scalars()
    groups.add_fills()
    edges = [
        Edge(a, b, reason)
        for (a, b), reason in groups.refused.items()
        if a.parent is not None and b.parent is not None and groups.home.get(a) != groups.home.get(b)
    ]
    ordered = sorted(groups.members.values(), key=lambda ops: max(groups.position[op] for op in ops))
    return [run_order(ops, groups.position) for ops in ordered], edges


def run_order(ops: set[Operation], position: dict[Operation, int]) -> list[Operation]:
    """`ops` with producers in front of their consumers, else in the order of the block."""
    order: list[Operation] = []
    placed: set[Operation] = set()
    for first in sorted(ops, key=position.__getitem__):
        stack = [first]
        while stack:
            top = stack[-1]
            missing = [
                v.owner for v in inputs_of(top)
                if isinstance(v.owner, Operation) and v.owner in ops and v.owner not in placed
            ]  # fmt: skip
            if missing and top not in placed:
                stack += [m for m in reversed(missing) if isinstance(m, Operation)]
                continue
            if top not in placed:
                placed.add(top)
                order.append(top)
            stack.pop()
    return order
