"""Partition of a block's tensor operations into dispatches.

An operation joins the groups that produce its operands; then groups that read the same tensor join. Groups join only if
no value leaves the union and re-enters it, since a dispatch runs as a whole, and if code generation lowers the union
well.

Views, fills and operations that produce a large tensor from a small one belong to no group at first. Each group that
reads such an operation gets a copy of it, so that its result is not stored.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import Block, Operation

from pydispatch.compiler.analysis.kinds import has_effects, inputs_of, is_duplicable, may_join
from pydispatch.compiler.fusion.copies import complete
from pydispatch.compiler.fusion.joining import join_chains, join_siblings
from pydispatch.compiler.fusion.legality import ELEMENTWISE, Legality
from pydispatch.compiler.fusion.merging import FusionGroups


@dataclass(frozen=True)
class Edge:
    """Producer and consumer in different dispatches, and the reason why they are not fused."""

    producer: Operation
    consumer: Operation
    reason: str


def form_groups(block: Block, legality: Legality = ELEMENTWISE) -> tuple[list[list[Operation]], list[Edge]]:
    """Partition the tensor operations of `block` into groups, one for each dispatch; return them, and the edges between
    operations that were not fused, with the reasons.

    For y = matmul(a, b); z = exp(y); c = d + 1, the groups are [matmul, exp] and [add] if `legality` permits the first
    group. Otherwise they are [matmul], [exp] and [add], and there is an edge from matmul to exp. The block is changed:
    copies of operations are inserted, and originals without a reader are erased.

    Groups are listed by their last operations in the block, and the operations of a group in topological order.
    Every operation belongs to at most one group: duplicable operations (views, and inexpensive ones with large results)
    and fills are copied into each group that reads them.
    """
    groups = FusionGroups(block, legality)
    # In program order, each operation joins the groups that produce its operands.
    last_with_effects: Operation | None = None  # operations with effects run in program order
    for op in list(block.ops):
        effects = has_effects(op)
        groups.enter(op, last_with_effects if effects else None)
        last_with_effects = op if effects else last_with_effects
        if may_join(op) and not is_duplicable(op):
            groups.add(op)
    # Then groups that read the same tensor join, and chains of three groups of which no two may join.
    join_siblings(groups)
    join_chains(groups)
    groups.drop_host_copies()  # groups of copies alone, which host code performs, are no dispatches
    complete(groups)  # copies duplicable operations, fills and scalars into the groups that read them
    ordered = sorted(groups.members.values(), key=lambda ops: max(groups.position[op] for op in ops))
    return [run_order(ops, groups.position) for ops in ordered], _edges(groups)


def _edges(groups: FusionGroups) -> list[Edge]:
    """Return the edges between operations in different groups, without those of erased operations (no parent)."""
    return [
        Edge(producer, consumer, reason)
        for (producer, consumer), reason in groups.rejected.items()
        if producer.parent is not None and consumer.parent is not None
        and groups.group_of.get(producer) != groups.group_of.get(consumer)
    ]  # fmt: skip


def run_order(ops: set[Operation], position: dict[Operation, int]) -> list[Operation]:
    """Return `ops` in topological order; operations that do not depend on each other have the order of the block.

    position: operation → its index in the block. Positions alone do not suffice: copies of fills from outside of the
    block have negative ones, in an order that is not topological.
    """
    order: list[Operation] = []
    ordered: set[Operation] = set()
    # Depth first: an operation stays on the stack until all operations of `ops` that it reads are in `order`.
    for first in sorted(ops, key=position.__getitem__):
        stack = [first]
        while stack:
            op = stack[-1]
            unordered_sources = [
                v.owner for v in inputs_of(op)
                if isinstance(v.owner, Operation) and v.owner in ops and v.owner not in ordered
            ]  # fmt: skip
            if op in ordered:  # it was on the stack twice
                stack.pop()
            elif unordered_sources:
                stack += reversed(unordered_sources)
            else:
                ordered.add(op)
                order.append(op)
                stack.pop()
    return order
