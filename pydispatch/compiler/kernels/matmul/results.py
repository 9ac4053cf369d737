"""Initial value of a contraction's result, and the elements of the result that dependent values are computed from."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from math import copysign

from xdsl.dialects import func
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, FloatAttr, IntegerAttr
from xdsl.ir import Operation, OpResult, SSAValue, Use
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap

from pydispatch.compiler.analysis.kinds import inputs_of
from pydispatch.compiler.kernels.matmul.match import Contraction
from pydispatch.compiler.kernels.ops.constants import splat_of
from pydispatch.compiler.kernels.ops.cost import is_costly
from pydispatch.compiler.kernels.ops.generics import cannot_lower
from pydispatch.compiler.tensor_ops.registry import rule_of, source_of
from pydispatch.ir.structured import GENERIC, Structured, structured
from pydispatch.ir.values import shape_of

DimCache = dict[SSAValue, "list[int] | bool | None"]
"""Value -> for each axis of the value, the dimension of one contraction's result that it runs along.

A transpose of a matrix has [1, 0]. A value that does not depend on the result has False. A value has None if one of its
elements depends on several elements of the result, or on an element at other indices.
"""


def matching_dims(value: SSAValue, result: SSAValue, cache: DimCache | None = None) -> list[int] | None:
    """Return, for each dimension of `value`, the matching dimension of `result`; None if there is no such mapping.

    Each element of `value` must depend on exactly one element of `result`, the one at the same indices: a transpose of
    a matrix has [1, 0], a sum over its rows has None.

    Args:
        value: The tensor that may depend on the result.
        result: The result of a contraction.
        cache: Earlier answers for the same result, which this call extends.
    """
    dims = _dims(value, result, {} if cache is None else cache)
    return dims if isinstance(dims, list) else None


def is_read_by_column(value: SSAValue, contraction: Contraction, readers: Collection[Operation]) -> bool:
    """Return whether the operations in `readers` read only one element of `value` for each column of the contraction.

    Uses of `value` by other operations do not count. For a contraction's result C[i, j] with the columns j, the reader
    y[i, j] = C[i, j] * s[j] reads one element of s for each column. The reader y[i, j] = C[i, j] * s[i] does not.

    Args:
        value: The tensor that is read besides the contraction's result.
        contraction: The contraction.
        readers: Operations that depend on the contraction's result.
    """
    return all(_reads_by_column(use, contraction) for use in value.uses if use.operation in readers)


def _reads_by_column(use: Use, contraction: Contraction) -> bool:
    """Return whether each index at which a generic reads an operand is its loop over the contraction's columns."""
    if use.operation.name != GENERIC or contraction.n is None:
        return False
    reader = structured(use.operation)
    contraction_loops = _contraction_loops_of(reader, contraction)
    column_loop = AffineDimExpr(contraction.n)
    return all(
        isinstance(index, AffineDimExpr) and contraction_loops.get(index.position) == column_loop
        for index in reader.maps[use.index].results
    )


def _contraction_loops_of(reader: Structured, contraction: Contraction) -> dict[int, AffineExpr]:
    """Return, for each loop of a generic that reads the contraction's result, the loop of the contraction there.

    A loop of the reader corresponds to a loop of the contraction if both run along the same dimension of the
    contraction's result C. If the contraction has the loops (m, n, k) and C[m, n], the reader y[i, j] = C[i, j] * s[j]
    has i -> m and j -> n. Return no entries unless each element of the reader's result depends on one element of C.
    """
    contraction_loop_of_dim = contraction.generic.output_maps[0].results
    dims = matching_dims(reader.op.results[0], contraction.op.results[0])
    if dims is None:
        return {}
    return {
        index.position: contraction_loop_of_dim[dim]
        for index, dim in zip(reader.output_maps[0].results, dims, strict=True)
        if isinstance(index, AffineDimExpr)
    }


def dependents(op: Operation, operations: Iterable[Operation]) -> dict[Operation, None]:
    """Return those of `operations` that depend on `op`, directly or through others of them, in their order.

    The keys of the dictionary are an ordered set. `operations` must be in an executable order: producers first.
    """
    users: dict[Operation, None] = {}
    for other in operations:
        if any(v.owner is op or v.owner in users for v in inputs_of(other)):
            users[other] = None
    return users


def column_values(source: func.FuncOp, contraction: Contraction) -> list[SSAValue]:
    """Return the tensors whose elements for the columns of a register block should be computed once and cached.

    Such a tensor has one element for each column of the contraction's result, is expensive to compute, and is read by
    operations that depend on the result, such as 1 / sqrt(variance) of a batch normalization.
    """
    readers = dependents(contraction.op, source.body.block.ops)
    values = dict.fromkeys(v for op in readers for v in op.operands if v.owner not in readers)
    costly_vectors = [v for v in values if isinstance(v, OpResult) and len(shape_of(v)) == 1 and is_costly(v)]
    return [v for v in costly_vectors if is_read_by_column(v, contraction, readers)]


def _dims(value: SSAValue, result: SSAValue, cache: DimCache) -> list[int] | bool | None:
    """Return the entry of a value in `cache`, computed on first use."""
    if value not in cache:
        cache[value] = _computed_dims(value, result, cache)
    return cache[value]


def _computed_dims(value: SSAValue, result: SSAValue, cache: DimCache) -> list[int] | bool | None:
    """Compute the entry of a value in `DimCache` from the entries of its operands.

    `result` is the result of a contraction. For a matrix, its transpose has the entry [1, 0], relu(result) has [0, 1],
    and a sum over its rows has None. A value that does not depend on `result` has False.
    """
    if value is result:
        return list(range(len(shape_of(value))))
    if not isinstance(value, OpResult) or value.op.parent_block() is not result.owner.parent_block():
        return False
    op = value.op
    if isinstance(result.owner, Operation) and not _comes_after(op, result.owner):
        return False  # an operation before the contraction cannot depend on it
    operands = [_dims(operand, result, cache) for operand in op.operands]
    if all(dims is False for dims in operands):
        # The body of a loop may read values from outside that are no operands; `inputs_of` has these, too.
        may_capture = op.regions and op.name != GENERIC
        if may_capture and any(_dims(v, result, cache) is not False for v in inputs_of(op)):
            return None
        return False
    if op.name == GENERIC:
        return _dims_through_generic(op, value.index, operands)
    rule = rule_of(op)
    if rule is None or not rule.is_pointwise(op):
        return None
    # A pointwise operation: all operands that depend on `result` must have the same dimensions.
    first, *others = (dims for dims in operands if dims is not False)
    return first if all(dims == first for dims in others) else None


def _comes_after(op: Operation, other: Operation) -> bool:
    """Return whether `op` is after `other` in their block.

    Search forwards from both at once: mostly, the two operations are close to each other, and one search soon reaches
    the other operation. If a search reaches the end of the block instead, its operation is the later one.
    """
    after_other, after_op = other.next_op, op.next_op
    while after_other is not None and after_op is not None:
        if after_other is op:
            return True
        if after_op is other:
            return False
        after_other, after_op = after_other.next_op, after_op.next_op
    return after_other is not None  # the search from `op` has reached the end


def _dims_through_generic(op: Operation, ordinal: int, operands: Sequence[list[int] | bool | None]) -> list[int] | None:
    """Return, for each axis of a generic's result, the dimension of the contraction's result that it runs along.

    Return None if there is no such mapping: the generic must be parallel, and permute the dimensions of operands that
    depend on the contraction's result. For y[d0, d1] = C[d1, d0] + b[d1], where C is the contraction's result and has
    the entry [0, 1], loop 1 runs along dimension 0 of C and loop 0 along dimension 1: y has [1, 0].

    `operands` has the entry of each operand in `DimCache`. At least one depends on the contraction's result.
    """
    generic = structured(op)
    if cannot_lower(generic) or not generic.is_parallel:
        return None
    # Each loop must index each dependent operand, and run along the same dimension of the result in all of them.
    map_and_dims = zip(generic.maps, operands, strict=True)
    dim_of_loop, *others = (_dim_of_loop(map_, dims) for map_, dims in map_and_dims if dims is not False)
    if dim_of_loop is None or len(dim_of_loop) != len(generic.iterators) or any(o != dim_of_loop for o in others):
        return None
    # The result must be indexed by loops alone, by each loop once.
    results = generic.output_maps[ordinal].results
    dims = [dim_of_loop[r.position] for r in results if isinstance(r, AffineDimExpr)]
    return dims if len(dims) == len(results) == len(dim_of_loop) else None


def _dim_of_loop(map_: AffineMap, dims: list[int] | bool | None) -> dict[int, int] | None:
    """Return, for each loop that indexes an operand, the dimension of the contraction's result that it runs along.

    `dims` is the entry of the operand in `DimCache`. Return None if it has no dimensions, or if an index is no loop.
    """
    if not isinstance(dims, list) or not all(isinstance(r, AffineDimExpr) for r in map_.results):
        return None
    return {r.position: d for r, d in zip(map_.results, dims, strict=True) if isinstance(r, AffineDimExpr)}


def starts_at_zero(value: SSAValue) -> bool:
    """Return whether the initial value of a contraction's sums, a tensor, is known to be zero everywhere."""
    value = source_of(value)
    if not isinstance(value, OpResult):
        return False
    op = value.op
    if op.name == "tensor.splat":
        inner = op.operands[0]
        return isinstance(inner, OpResult) and inner.op.name == "arith.constant" and _is_zero(inner.op)
    return op.name == "arith.constant" and _is_zero(op)


def _is_zero(op: Operation) -> bool:
    """Return whether a constant is 0, or all of its elements are.

    -0.0 does not count as 0: a sum that begins with -0.0 may be -0.0, and one that begins with 0.0 may not.
    """
    value = op.properties["value"]
    scalar = splat_of(value) if isinstance(value, DenseIntOrFPElementsAttr) else value  # None: elements differ
    if not isinstance(scalar, IntegerAttr | FloatAttr):
        return False
    element = scalar.value.data
    return element == 0 and copysign(1.0, element) > 0  # `copysign` tells 0.0 from -0.0
