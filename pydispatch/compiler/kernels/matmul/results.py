"""Initial value of a contraction's result, and the mapping from elements of dependent values to its elements."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from xdsl.dialects import func
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, FloatAttr, IntegerAttr, TensorType
from xdsl.ir import Operation, OpResult, SSAValue
from xdsl.ir.affine import AffineDimExpr

from pydispatch.compiler.analysis.kinds import inputs_of
from pydispatch.compiler.kernels.matmul.match import Contraction
from pydispatch.compiler.kernels.ops.constants import splat_of
from pydispatch.compiler.kernels.ops.cost import is_costly
from pydispatch.compiler.kernels.ops.generics import cannot_lower
from pydispatch.compiler.tensor_ops.registry import rule_of, source_of
from pydispatch.ir.structured import GENERIC, structured
from pydispatch.ir.values import shape_of

Places = dict[SSAValue, "list[int] | bool | None"]
"""What `positions` found out of values, for one contraction's result."""


def positions(value: SSAValue, result: SSAValue, known: Places | None = None) -> list[int] | None:
    """Return, for each dimension of `value`, the matching dimension of `result`; None if there is no such mapping.

    Each element of `value` must depend on exactly one element of `result`, in the same position. known: cache of
    earlier results for the same operations.
    """
    known = {} if known is None else known

    def of(at: SSAValue) -> list[int] | bool | None:
        """Return the dimensions of the result along the axes of a value; False if it does not depend on the result."""
        if at not in known:
            known[at] = _positions(at, result, of)
        return known[at]

    found = of(value)
    return found if isinstance(found, list) else None


def is_of_columns(value: SSAValue, contraction: Contraction, readers: Collection[Operation]) -> bool:
    """Return whether all operations in `readers` that use `value` read one element of it per column of the
    contraction's result.
    """
    out = contraction.generic.output_maps[0].results
    for use in value.uses:
        if use.operation not in readers:
            continue
        if use.operation.name != GENERIC or contraction.n is None:
            return False
        g = structured(use.operation)
        places = positions(use.operation.results[0], contraction.op.results[0])
        loops = {
            r.position: out[place]
            for r, place in zip(g.output_maps[0].results, places or (), strict=False) if isinstance(r, AffineDimExpr)
        }  # fmt: skip
        for r in g.maps[use.index].results:
            if not isinstance(r, AffineDimExpr) or loops.get(r.position) != AffineDimExpr(contraction.n):
                return False
    return True


def dependents(op: Operation, operations: Iterable[Operation]) -> dict[Operation, None]:
    """Return the elements of `operations` that depend on `op`, directly or through others, in an executable order."""
    found: dict[Operation, None] = {}
    for other in operations:
        if any(v.owner is op or v.owner in found for v in inputs_of(other)):
            found[other] = None
    return found


def column_values(source: func.FuncOp, contraction: Contraction) -> list[SSAValue]:
    """Return the values of a dispatch function that are read with the contraction's result, are expensive, and have one
    element for each column."""
    readers = dependents(contraction.op, source.body.block.ops)
    values = dict.fromkeys(v for op in readers for v in op.operands if v.owner not in readers)
    return [
        v for v in values
        if isinstance(v, OpResult) and len(shape_of(v)) == 1 and is_costly(v) and is_of_columns(v, contraction, readers)
    ]  # fmt: skip


def _positions(at: SSAValue, result: SSAValue, of: object) -> list[int] | bool | None:
    assert callable(of)
    if at is result:
        assert isinstance(at.type, TensorType)
        return list(range(at.type.get_num_dims()))
    if not isinstance(at, OpResult) or at.op.parent_block() is not result.owner.parent_block():
        return False
    op = at.op
    if isinstance(result.owner, Operation) and not _comes_after(op, result.owner):
        return False  # what comes before the contraction cannot depend on it
    below = [of(operand) for operand in op.operands]
    if all(b is False for b in below):
        inside = op.regions and op.name != GENERIC and any(of(v) is not False for v in inputs_of(op))
        return None if inside else False
    if op.name == "linalg.generic":
        return _through(op, at.index, below)
    rule = rule_of(op)
    if rule is not None and rule.is_pointwise(op):
        kinds = [b for b in below if b is not False]
        return kinds[0] if all(k == kinds[0] and k is not None for k in kinds) else None
    return None


def _comes_after(op: Operation, first: Operation) -> bool:
    """Return whether `op` is after `first` in their block. Both are mostly near each other, far from the end of the
    block.
    """
    after_first, after_op = first.next_op, op.next_op
    while after_first is not None and after_op is not None:
        if after_first is op:
            return True
        if after_op is first:
            return False
        after_first, after_op = after_first.next_op, after_op.next_op
    return after_first is not None


def _through(op: Operation, number: int, below: list[list[int] | bool | None]) -> list[int] | None:
    """Return the dimensions of the contraction's result along the axes of result `number` of a parallel generic whose
    maps permute dimensions; None for another operation.
    """
    g = structured(op)
    if cannot_lower(g) or not g.is_parallel:
        return None
    found: dict[int, int] | None = None
    for operand, positions_ in enumerate(below):
        if positions_ is False:
            continue
        if not isinstance(positions_, list):
            return None
        results = g.maps[operand].results
        if not all(isinstance(r, AffineDimExpr) for r in results):
            return None
        mine = {r.position: p for r, p in zip(results, positions_, strict=True) if isinstance(r, AffineDimExpr)}
        if len(mine) != len(g.iterators) or (found is not None and found != mine):
            return None
        found = mine
    if found is None:
        return None
    out = g.output_maps[number].results
    dims = [found[r.position] for r in out if isinstance(r, AffineDimExpr)]
    return dims if len(dims) == len(out) == len(found) else None


def starts_at_zero(value: SSAValue) -> bool:
    """Return whether a tensor is known to be zero everywhere."""
    value = source_of(value)
    if not isinstance(value, OpResult):
        return False
    op = value.op
    if op.name == "tensor.splat":
        inner = op.operands[0]
        return isinstance(inner, OpResult) and inner.op.name == "arith.constant" and _is_zero(inner.op)
    return op.name == "arith.constant" and _is_zero(op)


def _is_zero(op: Operation) -> bool:
    value = op.properties["value"]
    one = splat_of(value) if isinstance(value, DenseIntOrFPElementsAttr) else value
    return isinstance(one, IntegerAttr | FloatAttr) and one.value.data == 0
