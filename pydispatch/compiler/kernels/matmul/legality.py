"""Legality of fusion into the dispatch of a contraction."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import prod
from typing import NamedTuple

from xdsl.dialects.builtin import TensorType, i32
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr

from pydispatch.compiler.analysis import reasons
from pydispatch.compiler.analysis.kinds import KEPT_ORDER, inputs_of
from pydispatch.compiler.kernels.matmul.match import Contraction, contractions
from pydispatch.compiler.kernels.matmul.results import DimCache, dependents, is_read_by_column, matching_dims
from pydispatch.compiler.tensor_ops.registry import rule_of
from pydispatch.compiler.tensor_ops.rule import Update
from pydispatch.ir.dialects.pyd.ordered import OrderedOp
from pydispatch.ir.op_info import Cost, info_of
from pydispatch.ir.structured import is_reduction, structured
from pydispatch.ir.values import shape_of

COPIES = ("tensor.pad", "tensor.extract_slice", "tensor.cast", "tensor.expand_shape")
"""Producers of a contraction's operands that packing computes on its way."""

MAX_BODY_OPERATIONS = 8
"""Maximum number of operations in the body of a producer that packing computes: it computes each element again for
every tile that reads the element."""

MAX_REPEATED_PACKINGS = 8
"""Maximum number of times that packing may reorder B, such as filters that are flipped. Packing reads B once for each
index of the outer dimensions that B does not depend on, such as the rows of an image. A B that would be reordered more
often is reordered once, in a separate dispatch."""


class Verdict(NamedTuple):
    """Judgement on whether a group of operations can be the dispatch of a contraction.

    Attributes:
        has_contraction: Whether the group has a contraction at all.
        reason: A sentence that says why the group cannot be the dispatch of its contraction; None if it can, or if it
            has no contraction.
    """

    has_contraction: bool
    reason: str | None = None


def judge_contraction(group: Sequence[Operation]) -> Verdict:
    """Return whether a group of operations can be the dispatch of a contraction, and the reason if it cannot."""
    candidates = contractions(group)
    if not candidates:
        return Verdict(has_contraction=False)
    if len(candidates) > 1:
        return Verdict(has_contraction=True, reason=reasons.TWO_CONTRACTIONS)
    return Verdict(has_contraction=True, reason=_reason_against_group(group, candidates[0]))


def _reason_against_group(group: Sequence[Operation], contraction: Contraction) -> str | None:
    """Return why an operation of a group cannot join the dispatch of its only contraction; None if all can.

    Each operation has one of three positions, with conditions of its own. In `C = (2 * X) @ B; y = C + exp(z)` the
    addition is a consumer of the contraction, `2 * X` a producer of a factor, and `exp(z)` is a sibling: neither, but
    read together with C.
    """
    members = set(group)
    consumers, producers = dependents(contraction.op, group), _producers_of(contraction.op, members)
    cache: DimCache = {}  # of `matching_dims`, for all operations of the group
    for op in group:
        # An operation such as a constant is free to duplicate: each dispatch that uses it gets a copy of its own.
        is_duplicated = info_of(op).cost is Cost.FREE
        if op is contraction.op or is_duplicated:
            continue
        is_read_outside = any(use.operation not in members for value in op.results for use in value.uses)
        if op in consumers:
            reason = _reason_against_consumer(op, contraction, cache)
        elif is_read_outside:  # the dispatch would have results that do not depend on the contraction
            reason = reasons.SECOND_RESULT.format(op.name)
        elif op in producers:
            reason = _reason_against_producer(op, contraction)
        else:
            reason = _reason_against_sibling(op, contraction, consumers)
        if reason is not None:
            return reason
    return None


def _producers_of(op: Operation, members: set[Operation]) -> set[Operation]:
    """Return the transitive producers of the operands of `op` that are in the group `members`."""
    producers: set[Operation] = set()
    pending = [op]
    while pending:
        for value in inputs_of(pending.pop()):
            if isinstance(value.owner, Operation) and value.owner in members and value.owner not in producers:
                producers.add(value.owner)
                pending.append(value.owner)
    return producers


def _reason_against_consumer(op: Operation, contraction: Contraction, cache: DimCache) -> str | None:
    """Return why an operation that depends on the contraction's result cannot join its dispatch; None if it can.

    The operation can join if each of its elements depends on one element of the result. A copy that transposes i32, the
    sums of byte products, cannot: kernels rescale these sums in vectors along the filters, which a transposition would
    prevent.
    """
    if contraction.acc == i32 and op.name == "linalg.generic" and _only_copies(op) and _transposes(op):
        return reasons.TRANSPOSED_AFTER_BYTES
    for value in op.results:
        if isinstance(value.type, TensorType) and matching_dims(value, contraction.op.results[0], cache) is None:
            return reasons.OTHER_PLACES.format(op.name)
    return None


def _transposes(op: Operation) -> bool:
    """Return whether a generic that copies a tensor changes the order of its dimensions. Those of size 1 do not count.

    `r[d1, d0] = x[d0, d1]` does. The last map is that of the result.
    """
    generic = structured(op)
    source_dims, result_dims = (
        [r.position for r in m.results if isinstance(r, AffineDimExpr)] for m in (generic.maps[0], generic.maps[-1])
    )
    result_order = [d for d in result_dims if generic.extents[d] != 1]
    source_order = [d for d in source_dims if d in result_order]
    return source_order != result_order


def _reason_against_producer(op: Operation, contraction: Contraction) -> str | None:
    """Return why an operation that computes a factor cannot join the contraction's dispatch; None if it can.

    Packing copies the part of a factor that a tile reads into workgroup memory. It computes an element of a producer
    once per tile that reads the element, so producers must be inexpensive: copies and short elementwise operations.
    """
    if op.name != "linalg.generic":
        is_inexpensive = op.name in COPIES or (info_of(op).elementwise and not _is_costly(op))
        return None if is_inexpensive else reasons.NOT_FOR_TILES.format(op.name)
    # A convolution that an earlier pass has converted to channels-last reads a transposed image; the pass has set
    # `KEPT_ORDER`. The transposition is a dispatch of its own: packing would transpose the image again for each tile of
    # channels.
    is_converted = KEPT_ORDER in contraction.op.attributes
    if is_converted and _only_copies(op):
        return reasons.TRANSPOSED_FOR_TILES
    # B is packed again for each index of an outer dimension that it does not depend on; A is packed once per tile.
    packings = prod(contraction.generic.extents[d] or 1 for d in contraction.outer if d not in contraction.b.dims)
    is_tensor_of_b = op.results[0] is contraction.tensor_of(contraction.b)
    if is_tensor_of_b and packings > MAX_REPEATED_PACKINGS and _only_copies(op):
        return reasons.REORDERED_FOR_TILES.format(packings)
    if is_reduction(op):
        return reasons.REDUCED_FOR_TILES
    if len(list(op.regions[0].block.ops)) > MAX_BODY_OPERATIONS or _is_costly(op):
        return reasons.EXPENSIVE_FOR_TILES
    return None


def _only_copies(op: Operation) -> bool:
    """Return whether a generic only copies elements of one input: its body yields an argument."""
    block = structured(op).block
    yield_op = block.last_op
    has_other_ops = block.first_op is not yield_op
    return yield_op is not None and not has_other_ops and yield_op.operands[0] in block.args


def _reason_against_sibling(op: Operation, contraction: Contraction, consumers: Collection[Operation]) -> str | None:
    """Return why an operation beside a contraction cannot join its dispatch; None if it can.

    `consumers` are the operations that depend on the contraction's result; they also read results of `op`. Reductions,
    updates of a tensor, and operations that compute an element from its neighbours, such as running sums (`OrderedOp`),
    cannot join. An expensive operation can join only if fusion does not compute its elements more often: it has as many
    as the contraction's result, or `consumers` read one of its elements for each column. In `y = C + exp(z)` with
    C[64, 32], `exp(z)` can join if z has the shape [64, 32], or [32] along the columns; not if it has [64] along the
    rows.
    """
    if is_reduction(op):
        return reasons.REDUCED_BESIDE
    if isinstance(rule_of(op), Update):
        return reasons.WRITTEN.format(op.name)
    if isinstance(op, OrderedOp):
        return reasons.ORDERED.format(op.name)
    if not _is_costly(op) or _element_count(op) == _element_count(contraction.op):
        return None
    if all(is_read_by_column(v, contraction, consumers) for v in _values_read_by(consumers, op)):
        return None
    return reasons.EXPENSIVE_BESIDE


def _values_read_by(consumers: Collection[Operation], op: Operation) -> list[SSAValue]:
    """Return the values that `consumers` read and that are results of `op`, or computed from these by others.

    In `t = exp(z); u = 2 * t; y = C + u` with the consumer y, the operation exp has the value u.
    """
    values: list[SSAValue] = []
    pending, visited = [op], {op}
    while pending:
        for value in pending.pop().results:
            for use in value.uses:
                if use.operation in consumers and value not in values:
                    values.append(value)
                elif use.operation not in consumers and use.operation not in visited:
                    visited.add(use.operation)
                    pending.append(use.operation)
    return values


def _element_count(op: Operation) -> int:
    """Return the number of elements of the first result of an operation."""
    return prod(shape_of(op.results[0]))


def _is_costly(op: Operation) -> bool:
    """Return whether an element of the result of `op` costs more than a few instructions, as a division does.

    `Cost.SHORT` is the class of a division; operations with regions are loops.
    """
    if op.name == "linalg.generic":
        return any(info_of(inner).cost >= Cost.SHORT or inner.regions for inner in op.regions[0].block.ops)
    return info_of(op).cost >= Cost.SHORT or bool(op.regions)
