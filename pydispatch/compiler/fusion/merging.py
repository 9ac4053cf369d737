"""Groups of the tensor operations of a block, and the conditions under which two of them may be merged."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Block, Operation

from pydispatch.compiler.analysis import reasons
from pydispatch.compiler.analysis.kinds import inputs_of, stays_on_host
from pydispatch.compiler.fusion.group_order import TooFarError
from pydispatch.compiler.fusion.legality import Legality
from pydispatch.compiler.fusion.naming import describe_location
from pydispatch.compiler.fusion.partition import GroupPartition
from pydispatch.compiler.fusion.uniform import Uniform

MOST_OPERATIONS = 96
"""Maximum number of operations of a group: the compile time of larger ones grows faster than the run time they save."""


class FusionGroups(GroupPartition):
    """Groups of operations that fusion merges as long as the union can be one dispatch; each becomes a dispatch.

    The caller enters every operation in program order, adds those that may form groups, and then merges groups further
    (`joining.py`).

    Attributes:
        legality: The rules for operations that one kernel may compute.
        rejected: (producer, reader) → why they were not fused.
    """

    def __init__(self, block: Block, legality: Legality) -> None:
        """Begin without groups; the operations of `block` are numbered in program order."""
        super().__init__(block)
        self.legality = legality
        self.rejected: dict[tuple[Operation, Operation], str] = {}
        # Group → the iteration space that all its operations have, and their tensors; None where spaces differ.
        self._common_space: dict[int, Uniform | None] = {}

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

    def join(self, group: int, other: int) -> str | None:
        """Merge a group into `other`, which precedes it, and return None; if that is not legal, return the reason.

        The merged group is `other`; `group` no longer exists.
        """
        # Find the reason not to merge.
        intermediates: set[Operation] = set()  # duplicable operations on paths between the groups
        uniform = self._uniform_union(group, other)
        try:
            if uniform is None:
                intermediates = self.intermediates_between(group, other)
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
            obstacle = self.operation_between(groups, self.members[group] | self.members[other])
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
        union = intermediates.union(*map(self.with_intermediates, groups))
        obstacle = self.operation_between(groups, union)
        if obstacle is not None:
            return reasons.cycle(describe_location(obstacle))
        if len(union - intermediates) > MOST_OPERATIONS:
            return reasons.too_many_operations(MOST_OPERATIONS)
        for group in groups[1:]:  # raises TooFarError
            self.order.require_near(groups[0], group)
        return self.legality.violation(self.in_order(union))

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
        intermediates = self.intermediates_between(middle, source) | self.intermediates_between(reader, middle)
        try:
            if self._reason_not_to_merge([source, middle, reader], intermediates) is not None:
                return False
        except TooFarError:
            return False
        self._merge_into(middle, source, intermediates)
        self._merge_into(reader, source, intermediates)
        return True

    def drop_host_copies(self) -> None:
        """Dissolve the groups that consist only of copies, which host code performs."""
        for group, ops in list(self.members.items()):
            if all(stays_on_host(op) for op in ops):
                for op in ops:
                    del self.group_of[op]
                del self.members[group]
