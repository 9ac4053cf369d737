"""Which operations may join the dispatch of a contraction."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation

from pydispatch.compiler.kernels.matmul.match import Contraction, contractions
from pydispatch.compiler.kernels.matmul.results import positions
from pydispatch.ir.op_info import Cost, info_of
from pydispatch.ir.structured import is_reduction

COPIES = ("tensor.pad", "tensor.extract_slice", "tensor.cast", "linalg.generic")
"""Producers of a contraction's operands that packing computes on its way."""


def judge_contraction(group: Sequence[Operation], op: Operation) -> str | bool | None:
    """None when `op` may join the dispatch of a contraction in `group`, or make one of it; else the reason in words.
    False when there is no contraction."""
    together = [*group, op]
    found = contractions(together)
    if not found:
        return False
    if len(found) > 1:
        return "a dispatch holds one contraction"
    c = found[0]
    members = set(together)
    after = _after_of(c.op, members)
    for other in together:
        if other is c.op or info_of(other).cost is Cost.FREE:
            continue
        reason = _after(other, c) if other in after else _before(other, c, members, after)
        if reason is not None:
            return reason
    return None


def _after_of(c: Operation, members: set[Operation]) -> set[Operation]:
    """The operations of a group that need `c`, directly or through others."""
    found: set[Operation] = set()
    pending = [c]
    while pending:
        for result in pending.pop().results:
            for use in result.uses:
                user: Operation | None = use.operation
                while user is not None and user not in members:
                    user = user.parent_op()
                if user is not None and user is not c and user not in found:
                    found.add(user)
                    pending.append(user)
    return found


def _after(op: Operation, c: Contraction) -> str | None:
    for value in op.results:
        if isinstance(value.type, TensorType) and positions(value, c.op.results[0]) is None:
            return f"{op.name} does not compute its elements from those of the contraction's result in the same places"
    return None


def _before(op: Operation, c: Contraction, members: set[Operation], after: set[Operation]) -> str | None:
    """Packing reads an element once per tile: what makes it must be cheap."""
    if any(use.operation not in members for value in op.results for use in value.uses):
        return f"{op.name} is a result besides that of the contraction"
    if _only_for(op, after):
        return None
    if op.name == "linalg.generic":
        if is_reduction(op):
            return "a reduction that a contraction reads would be computed for each tile"
        if len(list(op.regions[0].block.ops)) > 8 or any(_costly(inner) for inner in op.regions[0].block.ops):
            return "elements that a contraction reads are computed for each tile, and these are expensive"
        return None
    if op.name in COPIES or (info_of(op).elementwise and not _costly(op)):
        return None
    return f"{op.name} that a contraction reads would be computed for each tile"


def _only_for(op: Operation, after: set[Operation]) -> bool:
    """Whether only what follows the contraction uses an elementwise operation: it is computed once per element."""
    if is_reduction(op):
        return False
    return bool(after) and all(use.operation in after for value in op.results for use in value.uses)


def _costly(op: Operation) -> bool:
    return info_of(op).cost >= Cost.SHORT or bool(op.regions)
