"""Partition of the operations of a block into groups, and which groups read which."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xdsl.ir import Block, Operation, SSAValue

from pydispatch.compiler.analysis.in_place import other_readers
from pydispatch.compiler.analysis.kinds import inputs_of, is_duplicable
from pydispatch.compiler.fusion.group_order import GroupOrder
from pydispatch.ir.values import shape_of


class GroupPartition:
    """Partition of the tensor operations of one block into groups, with the dependences between them.

    A group is a number: the position of the operation that it began with. Duplicable operations are views, and
    inexpensive operations that compute a large tensor from a small one; they belong to no group at first.

    Attributes:
        block: The block.
        position: Operation of the block → its index in program order. A copy has the position of its original.
        members: Group → its operations, unordered.
        group_of: Operation → its group.
        intermediates: Group → duplicable operations between two of its members, which are copied into it at the end.
        order: Dependence graph; each operation is a node, or part of its group's node. Readers of a duplicable
            operation depend on its operands, not on the operation itself, because each group gets a copy of it.
    """

    def __init__(self, block: Block) -> None:
        """Begin without groups; the operations of `block` are numbered in program order."""
        self.block = block
        self.position = {op: i for i, op in enumerate(block.ops)}
        self.members: dict[int, set[Operation]] = {}
        self.group_of: dict[Operation, int] = {}
        self.intermediates: dict[int, set[Operation]] = {}
        self.order = GroupOrder()

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

    def ancestor(self, op: Operation) -> Operation | None:
        """Return the operation of the block that is `op` or contains it."""
        while op.parent is not self.block:
            parent = op.parent_op()
            if parent is None:
                return None
            op = parent
        return op

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

    def with_intermediates(self, group: int) -> set[Operation]:
        """Return the operations of a group, and the duplicable operations between them."""
        return self.members[group] | self.intermediates.get(group, set())

    def in_order(self, ops: Iterable[Operation]) -> list[Operation]:
        """Return operations in the order of the block."""
        return sorted(ops, key=self.position.__getitem__)

    def intermediates_between(self, group: int, other: int) -> set[Operation]:
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

    def operation_between(self, groups: Sequence[int], inside: set[Operation]) -> Operation | None:
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
