"""Conversion of CHLO's ragged dot product, in which groups of consecutive elements along one dimension have their own
operand or result.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation

from pydispatch.frontends.stablehlo.operators.products import dimension_pairs
from pydispatch.frontends.stablehlo.tracer import Convert, StablehloTracer
from pydispatch.graph.dtypes import I32, I64, DType
from pydispatch.graph.values import Tensor
from pydispatch.operations import elementwise as ew
from pydispatch.operations import grouped, products, shapes
from pydispatch.operations.reductions import reduce


def _ragged_dot(tracer: StablehloTracer, op: Operation, x: Tensor, y: Tensor, sizes: Tensor) -> Tensor:
    """Return a product in which one dimension of x, the ragged one, is divided into groups of given sizes.

    If the ragged dimension is a row of x, each group of rows has its own right operand: [b, m, k] by [g, b, k, n] is
    [b, m, n]. If it is contracted, each group has its own result: [b, m, k] by [b, k, n] is [g, b, m, n]. If it is a
    batch dimension, the groups have no effect. Elements that belong to no group count as zeros.

    b stands for the batch dimensions, m for the other dimensions of x, k for the contracted ones, and g for the groups.
    For x [5, k], y [2, k, n] and sizes [2, 3], rows 0 and 1 are multiplied by y[0], and rows 2, 3 and 4 by y[1].

    Args:
        tracer: Tracer of the function.
        op: The `chlo.ragged_dot`.
        x: The left operand, with the ragged dimension.
        y: The right operand, with a dimension for the groups if the ragged dimension is a row.
        sizes: Number of elements of each group along the ragged dimension, [g]; or [..., g] if they differ along the
            batch dimensions and the rows (or contracted dimensions) before the ragged one.
    """
    # Read and check the dimension numbers.
    name = "ragged_dot_dimension_numbers"
    numbers = tracer.record(op, name)
    batching, contracting = dimension_pairs(tracer, numbers, name, x, y)
    if len(numbers.lhs_ragged_dimensions) != 1:
        raise tracer.b.fail(f"{name} has {len(numbers.lhs_ragged_dimensions)} ragged dimensions, expected 1")
    (ragged,) = tracer.axes(numbers.lhs_ragged_dimensions, name, x.rank)
    batch, contracted = ([pair[0] for pair in pairs] for pairs in (batching, contracting))
    rows = [d for d in range(x.rank) if d not in batch and d not in contracted]  # m in the shapes above
    groups = tracer.axes(numbers.rhs_group_dimensions, name, y.rank)
    expected_count = 1 if ragged in rows else 0
    if len(groups) != expected_count or any(pair[1] in groups for pair in (*batching, *contracting)):
        wanted = "one group dimension of its own" if ragged in rows else "no group dimension"
        raise tracer.b.fail(f"{name}: dimension {ragged} of {x} is ragged, so {y} has {wanted}, got {list(groups)}")

    if ragged in batch:
        return products.dot_general(tracer.b, x, y, batching, contracting, tracer.dtype(op))
    # The common case, a mixture of experts, has a kernel that computes each row with the matrix of its group only.
    if ragged in rows and contracted and (x.rank, y.rank, sizes.rank) == (2, 3, 1) and sizes.dtype.is_integer:
        ((left, right),) = contracting  # the contracted dimensions of x and of y
        (column,) = {0, 1, 2} - {groups[0], right}  # the dimension of y that remains in the result
        matrices = shapes.transpose(tracer.b, y, [groups[0], right, column])
        left_rows = shapes.transpose(tracer.b, x, [ragged, left])
        # `_ends`: for each group the index after its last row.
        return grouped.by_groups_of_rows(tracer.b, left_rows, matrices, _ends(tracer, sizes), tracer.dtype(op))

    # All other cases compute the product for every group, and replace the elements of other groups by 0.
    # dims_of_sizes: the dimensions of x that `sizes` may have before its last dimension, that of the groups.
    dims_of_sizes = [*batch, *rows[: rows.index(ragged)]] if ragged in rows else [
        *batch, *contracted[: contracted.index(ragged)]
    ]  # fmt: skip
    is_member = _members(tracer, x, ragged, sizes, dims_of_sizes)  # [g, and the dimensions of x]
    if ragged in contracted:
        return _sums_of_groups(tracer, is_member, x, y, batching, contracting, tracer.dtype(op))
    # Products of each row with all right operands: [b, m, g, n]. Those with operands of other groups are then replaced
    # by 0 and summed; multiplying these by 0 instead would keep a NaN.
    product = products.dot_general(tracer.b, x, y, batching, contracting, tracer.dtype(op))
    # The mask in the form of the product: its batch dimensions and rows are first, then the free dimensions of y, among
    # which is that of the groups. The contracted dimensions of the mask have size 1 and are dropped.
    free = [e for e in range(y.rank) if e not in {pair[1] for pair in (*batching, *contracting)}]
    group_axis = len(batch) + len(rows) + free.index(groups[0])
    ordered = shapes.transpose(
        tracer.b, is_member, [*(d + 1 for d in (*batch, *rows)), 0, *(d + 1 for d in contracted)]
    )
    shape = [*ordered.shape[: len(batch) + len(rows)], *[1] * len(free)]
    shape[group_axis] = sizes.shape[-1]
    own = ew.select(tracer.b, shapes.reshape(tracer.b, ordered, shape), product, tracer.b.constant(0, product.dtype))
    return reduce(tracer.b, "add", own, [group_axis])


Pairs = Sequence[tuple[int, int]]
"""Pairs of corresponding axes (of x, of y)."""


def _sums_of_groups(
    tracer: StablehloTracer, is_member: Tensor, x: Tensor, y: Tensor, batching: Pairs, contracting: Pairs, dtype: DType
) -> Tensor:
    """Return for each group the product of x and y, summed over the elements of that group only: [g, b, m, n].

    The groups divide a contracted dimension. g is the number of groups; b stands for the batch dimensions, m for the
    other dimensions of x and n for those of y. Elements of other groups are replaced by zeros in both operands, because
    NaN times zero is NaN. The product then has the groups as a further batch dimension, the first one.

    Example without batch dimensions: x [m, k] and y [k, n] with groups along k. The mask of x is [g, 1, k], that of y
    [g, k, 1]; the masked operands are [g, m, k] and [g, k, n], and their product is [g, m, n].

    Args:
        tracer: Tracer of the function.
        is_member: Mask [g, ...] of the elements of each group, with the dimensions of x after the groups. Dimensions
            that y lacks (m) have size 1.
        x: The left operand.
        y: The right operand.
        batching: Pairs of batch dimensions, (of x, of y).
        contracting: Pairs of contracted dimensions, (of x, of y).
        dtype: Type of the result.
    """
    b = tracer.b
    # The mask of y: the dimensions that y shares with x, in the order of y, and size 1 for those that x lacks.
    x_dim_of = {e: d for d, e in (*batching, *contracting)}  # dimension of y -> the dimension of x that it shares
    shared = [x_dim_of[e] for e in range(y.rank) if e in x_dim_of]
    others = [d for d in range(x.rank) if d not in shared]  # of size 1 in is_member, so that the reshape drops them
    ordered = shapes.transpose(b, is_member, [0, *(d + 1 for d in (*shared, *others))])
    of_y = shapes.reshape(b, ordered, [is_member.shape[0], *(
        is_member.shape[x_dim_of[e] + 1] if e in x_dim_of else 1 for e in range(y.rank)
    )])  # fmt: skip
    # The product of the masked operands. Their dimension 0 is the groups, so that all others move by one.
    left, right = (
        ew.select(b, mask, shapes.expand_dims(b, v, axes=[0]), b.constant(0, v.dtype))
        for mask, v in ((is_member, x), (of_y, y))
    )
    batching, contracting = ([(d + 1, e + 1) for d, e in pairs] for pairs in (batching, contracting))
    return products.dot_general(b, left, right, [(0, 0), *batching], contracting, dtype)


def _ends(tracer: StablehloTracer, sizes: Tensor) -> Tensor:
    """Return the exclusive end of each group, [..., g] as i64: the sum of the sizes [..., g] up to and including it."""
    b, count = tracer.b, sizes.shape[-1]
    includes = ew.compare(  # [g, g]: whether the end of the row's group includes the size of the column's group
        b, "ge", shapes.iota(b, (count, count), axis=0, dtype=I32), shapes.iota(b, (count, count), axis=1, dtype=I32)
    )
    wide = shapes.expand_dims(b, ew.convert(b, sizes, I64), [sizes.rank - 1])
    return reduce(b, "add", ew.select(b, includes, wide, b.constant(0, I64)), [sizes.rank])


def _members(
    tracer: StablehloTracer, x: Tensor, ragged_dim: int, sizes: Tensor, dims_of_sizes: Sequence[int]
) -> Tensor:
    """Return which elements along the ragged dimension each group has: [g, ...], with the dimensions of x.

    Group 0 has the first sizes[0] elements, group 1 the next sizes[1], and so on. For x [5, k], ragged along dimension
    0, and sizes [2, 3], the result [2, 5, 1] is true for elements 0 and 1 in group 0 and for 2, 3 and 4 in group 1.

    Args:
        tracer: Tracer of the function.
        x: The operand with the ragged dimension.
        ragged_dim: The ragged dimension of x.
        sizes: Number of elements of each group, [g]; or [..., g] if it differs along the dimensions `dims_of_sizes`.
        dims_of_sizes: Dimensions of x that `sizes` [..., g] has before the groups, in this order.

    Returns:
        A mask. Apart from the groups, its size is 1 except along `ragged_dim` and, for `sizes` [..., g], along
        `dims_of_sizes`.

    Raises:
        CompileError: `sizes` is not of integers, or has another shape.
    """
    b = tracer.b
    expected = (*(x.shape[d] for d in dims_of_sizes), sizes.shape[-1] if sizes.rank else 0)
    if not sizes.dtype.is_integer or (sizes.rank != 1 and sizes.shape != expected) or sizes.rank == 0:
        raise b.fail(f"the sizes of groups of {x} are integers of shape [g] or {list(expected)}, got {sizes}")
    ends = _ends(tracer, sizes)  # [..., g], the end of each group along the ragged dimension
    starts = ew.binary(b, "sub", ends, ew.convert(b, sizes, I64))
    # Starts and ends as [g, ...] with the dimensions of x. `ordered`: the dimensions of `sizes` without the groups, in
    # the order of the dimensions of x.
    ordered = sorted(range(len(dims_of_sizes)), key=lambda n: dims_of_sizes[n]) if sizes.rank > 1 else []
    # Dimension 0 of the result counts the groups, so that dimension d of x is dimension d + 1.
    size_along = {dims_of_sizes[n] + 1: x.shape[dims_of_sizes[n]] for n in ordered} | {0: sizes.shape[-1]}
    shape = [size_along.get(d, 1) for d in range(x.rank + 1)]
    bounds = [shapes.reshape(b, shapes.transpose(b, bound, [sizes.rank - 1, *ordered]), shape)
              for bound in (starts, ends)]  # fmt: skip
    # An element is in the group whose range contains its index along the ragged dimension.
    along_ragged = [x.shape[ragged_dim] if d == ragged_dim + 1 else 1 for d in range(x.rank + 1)]
    index = shapes.iota(b, along_ragged, ragged_dim + 1, I64)
    return ew.binary(b, "and", ew.compare(b, "le", bounds[0], index), ew.compare(b, "lt", index, bounds[1]))


ROWS: dict[str, Convert] = {"chlo.ragged_dot": _ragged_dot}
"""Name of an operation → function that converts it: convert(tracer, operation, operands...) -> results."""
