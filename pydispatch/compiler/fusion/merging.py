"""Groups of the tensor operations of a block, and the conditions under which two of them may be merged."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xdsl.ir import Block, Operation, SSAValue

from pydispatch.compiler.analysis import reasons
from pydispatch.compiler.analysis.in_place import other_readers
from pydispatch.compiler.analysis.kinds import inputs_of, is_duplicable, stays_on_host
from pydispatch.compiler.fusion.group_order import GroupOrder, TooFarError
from pydispatch.compiler.fusion.legality import Legality
from pydispatch.compiler.fusion.naming import describe_location
from pydispatch.compiler.fusion.uniform import Uniform
from pydispatch.ir.values import shape_of

MOST_OPERATIONS = 96
"""Maximum number of operations of a group: the compile time of larger ones grows faster than the run time they save."""


class FusionGroups:
    """Partition of the tensor operations of one block into groups, which fusion merges; each becomes a dispatch.

    The caller enters every operation in program order, adds those that may form groups, and then merges groups further
    (`joining.py`). A group is a number: the position of the operation that it began with. Duplicable operations are
    views, and inexpensive operations that compute a large tensor from a small one; they belong to no group at first.

    Attributes:
        block: The block.
        legality: The rules for operations that one kernel may compute.
        position: Operation of the block → its index in program order. A copy has the position of its original.
        members: Group → its operations, unordered.
        group_of: Operation → its group.
        intermediates: Group → duplicable operations between two of its members, which are copied into it at the end.
        rejected: (producer, reader) → why they were not fused.
        order: Dependence graph; each operation is a node, or part of its group's node. Readers of a duplicable
            operation depend on its operands, not on the operation itself, because each group gets a copy of it.
    """

    def __init__(self, block: Block, legality: Legality) -> None:
        """Begin without groups; the operations of `block` are numbered in program order."""
        self.block = block
        self.legality = legality
        self.position = {op: i for i, op in enumerate(block.ops)}
        self.members: dict[int, set[Operation]] = {}  # group → its operations
        self.group_of: dict[Operation, int] = {}
        self.intermediates: dict[int, set[Operation]] = {}  # group → duplicable operations between its members
        self.rejected: dict[tuple[Operation, Operation], str] = {}  # (producer, reader) → reason
        self.order = GroupOrder()
        # Group → the iteration space that all its operations have, and their tensors; None where spaces differ.
        self._common_space: dict[int, Uniform | None] = {}

    # -- the graph

    def producer(self, value: SSAValue) -> Operation | None:
        """Return the operation of the block that defines `value`; None for a value from outside of the block."""
        owner = value.owner
        return owner if owner in self.position else None  # type: ignore[return-value]  # a block has no position

    def node(self, op: Operation) -> int:
        """Return the node of an operation in `order`: its position, or the number of its group.

        A group has the position of the operation that it began with as its number.
        """
        return self.group_of.get(op, self.position[op])

    def enter(self, op: Operation, previous: Operation | None) -> None:
        """Add the next operation of the block to the dependence graph, with edges to the operations it depends on.

        An operation depends on the producers of its operands and on `previous`. An operation that overwrites a tensor
        also depends on the earlier readers of that tensor.

        Args:
            op: The operation.
            previous: An operation that must run before `op`, although `op` reads none of its results; None for none.
        """
        position = self.position[op]
        # Operations of the block that read, perhaps in their regions, a tensor that `op` overwrites.
        readers = [r for r in map(self.ancestor, other_readers(op)) if r is not None and self.position[r] < position]
        source_nodes: set[int] = set()
        for source in {*map(self.producer, inputs_of(op)), previous, *readers}:
            if source is None or source is op:
                continue
            node = self.node(source)
            is_copied = source not in self.group_of and is_duplicable(source)
            if is_copied:  # the group of `op` gets a copy of this operation, and reads the operands of the copy
                source_nodes |= self.order.sources(node)
            else:
                source_nodes.add(node)
        self.order.add(position, source_nodes)

    def add(self, op: Operation) -> None:
        """Create a group for `op`, and merge it into the groups of its producers where that is legal.

        The producers have their groups already: the caller adds operations in program order.
        """
        group = self.position[op]
        self.members[group] = {op}
        self.group_of[op] = group
        self._common_space[group] = Uniform.of(op, self.legality.space_of(op))  # join() checks less for equal spaces
        for candidate in self.groups_read(op):
            # An earlier join may have merged the candidate, which removes it from `members`.
            if candidate != self.group_of[op] and candidate in self.members:
                self.join(self.group_of[op], candidate)

    def groups_read(self, op: Operation) -> list[int]:
        """Return the groups whose values `op` reads, also through duplicable operations.

        Duplicable operations are copied into each group that reads them: views, and inexpensive ones with large
        results.

        The groups are sorted by the rank of the tensors that `op` reads, the highest rank first. Callers try to merge
        in this order: tensors of a high rank are likely large, so that fusion saves most by not storing them.
        """
        ranks: dict[int, int] = {}  # group → highest rank of a tensor that is read from it
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
        """Merge a group into `other`, which precedes it, and return None; if that is not legal, return the reason.

        The merged group is `other`; `group` no longer exists.
        """
        # Find the reason not to merge.
        intermediates: set[Operation] = set()  # duplicable operations on paths between the groups
        uniform = self._uniform_union(group, other)
        try:
            if uniform is None:
                intermediates = self._intermediates(group, other)
                reason = self._reason_not_to_merge([other, group], intermediates)
            else:  # one iteration space: fewer checks, and such groups read no results of duplicable operations
                reason = self._reason_not_to_merge_uniform(group, other, uniform)
        except TooFarError:  # a search of the dependence graph was stopped at its limit
            reason = reasons.TOO_FAR
        # Record the reason, or merge.
        if reason is not None:
            self._record_rejection(group, other, intermediates, reason)
            return reason
        self._merge_into(group, other, intermediates)
        self._common_space[other] = uniform
        return None

    def _uniform_union(self, group: int, other: int) -> Uniform | None:
        """Return the iteration space, inputs and results of two groups together, if all operations have one space.

        Return None for other groups: `legality` must then check their operations together.
        """
        lhs, rhs = self._common_space.get(group), self._common_space.get(other)
        if lhs is None or rhs is None:
            return None
        # A tensor that only operations of the two groups read is no result of their union.
        return lhs.joined(rhs, is_inside=lambda op: self.group_of.get(op) in (group, other))

    def _reason_not_to_merge_uniform(self, group: int, other: int, union: Uniform) -> str | None:
        """Return why two groups of one iteration space cannot be merged; None if they can.

        Elementwise operations over one space may always share a kernel, so that only cycles and limits are checked.
        Raises TooFarError if the search for a cycle would visit too many operations.

        union: iteration space, inputs and results of the merged group.
        """
        groups = [other, group]
        sources = (self.order.sources(group) | self.order.sources(other)).difference(groups)
        if self.order.needs(sources, groups):  # a group reads an operation that reads a group: the union has a cycle
            obstacle = self._operation_between(groups, self.members[group] | self.members[other])
            assert obstacle is not None
            return reasons.cycle(describe_location(obstacle))
        if len(self.members[group]) + len(self.members[other]) > MOST_OPERATIONS:
            return reasons.too_many_operations(MOST_OPERATIONS)
        self.order.require_near(group, other)  # raises TooFarError
        return union.reads.too_many(len(union.results), self.legality.most_tensors)

    def _reason_not_to_merge(self, groups: Sequence[int], intermediates: set[Operation]) -> str | None:
        """Return why groups, with the duplicable operations between them, cannot be merged; None if they can.

        Raises TooFarError if the check for a cycle would visit too many operations.
        """
        union = intermediates.union(*map(self._members_and_intermediates, groups))
        obstacle = self._operation_between(groups, union)
        if obstacle is not None:
            return reasons.cycle(describe_location(obstacle))
        if len(union - intermediates) > MOST_OPERATIONS:
            return reasons.too_many_operations(MOST_OPERATIONS)
        for group in groups[1:]:  # raises TooFarError
            self.order.require_near(groups[0], group)
        return self.legality.violation(self.in_order(union))

    def _members_and_intermediates(self, group: int) -> set[Operation]:
        """Return the operations of a group, and the duplicable operations between them."""
        return self.members[group] | self.intermediates.get(group, set())

    def in_order(self, ops: Iterable[Operation]) -> list[Operation]:
        """Return operations in the order of the block."""
        return sorted(ops, key=self.position.__getitem__)

    def _intermediates(self, group: int, other: int) -> set[Operation]:
        """Return the duplicable operations of no group on paths from `other` to `group`.

        Duplicable operations are views, and inexpensive ones with large results; each group that reads them gets a
        copy. If %a is computed in `other`, %v is a view of %a, and an operation of `group` reads %v, the view is
        returned.
        """
        reads_other: dict[Operation, bool] = {}  # operation → result of _reads()
        for op in self.members[group]:
            self._reads(op, other, reads_other)
        return {op for op, is_on_path in reads_other.items() if is_on_path and op not in self.members[group]}

    def _reads(self, op: Operation, group: int, results: dict[Operation, bool]) -> bool:
        """Return whether an operation reads a group, directly or through duplicable operations of no group.

        results: cache of the results for this group; receives those of all operations that the search visits.
        """
        if op not in results:
            sources = [s for s in map(self.producer, inputs_of(op)) if s is not None]
            duplicable = [s for s in sources if s not in self.group_of and is_duplicable(s)]
            # A list, no generator: all of them must be visited, so that `results` has all.
            reading = [s for s in duplicable if self._reads(s, group, results)]
            results[op] = bool(reading) or any(self.group_of.get(s) == group for s in sources)
        return results[op]

    def _operation_between(self, groups: Sequence[int], inside: set[Operation]) -> Operation | None:
        """Return an operation outside of the groups on a path from one to another; None if there is none.

        Groups with such an operation cannot be merged: the merged group would read the operation, and the operation the
        group.

        Args:
            groups: The groups.
            inside: Their operations, and the duplicable ones between them.
        """
        outside = {s for op in inside for s in map(self.producer, inputs_of(op)) if s is not None and s not in inside}
        if not self.order.needs({self.node(source) for source in outside}, groups):
            return None
        # One of the operations in `outside` depends on a group. Return the first one in program order.
        return next(source for source in self.in_order(outside) if self.order.needs([self.node(source)], groups))

    def _record_rejection(self, group: int, other: int, intermediates: set[Operation], reason: str) -> None:
        """Record in `rejected` that `reason` forbids fusion of each operation of `group` with those of `other` that it
        reads, directly or through `intermediates`. Do nothing if `group` does not read `other`.
        """
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

    def _merge_into(self, group: int, other: int, intermediates: set[Operation]) -> None:
        """Merge `group` into `other`, with the duplicable operations between the two (`intermediates`)."""
        for op in self.members[group]:
            self.group_of[op] = other
        self.members[other] |= self.members.pop(group)
        self.intermediates[other] = (
            self.intermediates.pop(other, set()) | self.intermediates.pop(group, set()) | intermediates
        )
        self.order.merge(group, other)
        self._common_space[group] = self._common_space[other] = None  # join() sets the space of the union, if any

    def join_three(self, source: int, middle: int, reader: int) -> bool:
        """Merge `middle`, which reads `source`, and `reader`, which reads `middle`, into `source`, if that is legal.

        Return whether they were merged. One kernel may compute all three where no two of them may be one dispatch, as
        in attention: product, softmax, product.
        """
        intermediates = self._intermediates(middle, source) | self._intermediates(reader, middle)
        try:
            if self._reason_not_to_merge([source, middle, reader], intermediates) is not None:
                return False
        except TooFarError:
            return False
        self._merge_into(middle, source, intermediates)
        self._merge_into(reader, source, intermediates)
        return True

    # -- after all operations have entered

    def readers(self, group: int) -> set[int | None]:
        """Return the groups that read values of `group`, except itself; None stands for a reader in no group.

        A duplicable operation is no reader itself: its readers count, because their groups get copies of it.
        """
        groups: set[int | None] = set()
        pending = [use.operation for op in self.members[group] for result in op.results for use in result.uses]
        while pending:
            reader = self.ancestor(pending.pop())
            if reader is None:  # outside of the block
                groups.add(None)
            elif reader not in self.group_of and is_duplicable(reader):
                pending += [use.operation for result in reader.results for use in result.uses]
            else:
                groups.add(self.group_of.get(reader))
        return groups - {group}

    def drop_host_copies(self) -> None:
        """Dissolve the groups that consist only of copies, which host code performs."""
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
