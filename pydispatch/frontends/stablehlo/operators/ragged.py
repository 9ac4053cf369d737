"""Conversion of CHLO's ragged dot product, in which groups of consecutive elements along one dimension have their own
operand or result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import Operation

from pydispatch.frontends.stablehlo.operators.products import dimension_pairs
from pydispatch.frontends.stablehlo.tracer import Convert, StablehloTracer
from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import I32, I64, DType
from pydispatch.graph.values import Tensor
from pydispatch.operations import elementwise as ew
from pydispatch.operations import grouped, products, shapes
from pydispatch.operations.reductions import reduce

Pairs = Sequence[tuple[int, int]]
"""Pairs of corresponding axes (of x, of y)."""


@dataclass(frozen=True)
class _RaggedDimensions:
    """Dimension numbers of a ragged product of x and y.

    Attributes:
        batching: Pairs of batch dimensions.
        contracting: Pairs of contracted dimensions.
        ragged: The dimension of x that is divided into groups.
        rows: The dimensions of x that are neither batch dimensions nor contracted, in order.
        free: Those of y, in order, with that of the groups.
        group: The dimension of y that counts the groups; None unless the ragged dimension is a row.
    """

    batching: Pairs
    contracting: Pairs
    ragged: int
    rows: Sequence[int]
    free: Sequence[int]
    group: int | None

    @property
    def batch(self) -> list[int]:
        """The batch dimensions of x."""
        return [d for d, _ in self.batching]

    @property
    def contracted(self) -> list[int]:
        """The contracted dimensions of x."""
        return [d for d, _ in self.contracting]

    @staticmethod
    def read(tracer: StablehloTracer, op: Operation, x: Tensor, y: Tensor) -> _RaggedDimensions:
        """Read the dimension numbers of a `chlo.ragged_dot` of x and y. Raise CompileError if they are invalid."""
        name = "ragged_dot_dimension_numbers"
        numbers = tracer.record(op, name)
        batching, contracting = dimension_pairs(tracer, numbers, name, x, y)
        if len(numbers.lhs_ragged_dimensions) != 1:
            raise tracer.b.fail(f"{name} has {len(numbers.lhs_ragged_dimensions)} ragged dimensions, expected 1")
        (ragged,) = tracer.axes(numbers.lhs_ragged_dimensions, name, x.rank)
        paired_x, paired_y = ([pair[side] for pair in (*batching, *contracting)] for side in (0, 1))
        rows = [d for d in range(x.rank) if d not in paired_x]
        free = [e for e in range(y.rank) if e not in paired_y]
        groups = tracer.axes(numbers.rhs_group_dimensions, name, y.rank)
        if len(groups) != (1 if ragged in rows else 0) or any(e in groups for e in paired_y):
            wanted = "one group dimension of its own" if ragged in rows else "no group dimension"
            raise tracer.b.fail(f"{name}: dimension {ragged} of {x} is ragged, so {y} has {wanted}, got {list(groups)}")
        return _RaggedDimensions(batching, contracting, ragged, rows, free, groups[0] if ragged in rows else None)

    def before_ragged(self) -> list[int]:
        """Return the dimensions of x that the sizes of groups may differ along: those before the ragged dimension."""
        same_kind = list(self.rows if self.ragged in self.rows else self.contracted)
        return [*self.batch, *same_kind[: same_kind.index(self.ragged)]]


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
    dims = _RaggedDimensions.read(tracer, op, x, y)
    if dims.ragged in dims.batch:
        return products.dot_general(tracer.b, x, y, dims.batching, dims.contracting, tracer.dtype(op))
    # The common case, a mixture of experts, has a kernel that computes each row with the matrix of its group only.
    has_matrices = (x.rank, y.rank, sizes.rank) == (2, 3, 1) and dims.contracted
    if dims.group is not None and has_matrices and sizes.dtype.is_integer:
        rows, matrices = _rows_and_matrices(tracer.b, dims, x, y)
        # `_ends`: for each group the index after its last row.
        return grouped.by_groups_of_rows(tracer.b, rows, matrices, _ends(tracer, sizes), tracer.dtype(op))
    # All other cases compute the product for every group, and replace the elements of other groups by 0.
    is_member = _members(tracer, x, dims.ragged, sizes, dims.before_ragged())  # [g, and the dimensions of x]
    if dims.group is None:
        return _sums_of_groups(tracer, is_member, x, y, dims.batching, dims.contracting, tracer.dtype(op))
    product = products.dot_general(tracer.b, x, y, dims.batching, dims.contracting, tracer.dtype(op))  # [b, m, g, n]
    return _products_of_own_groups(tracer.b, dims, is_member, product)


def _rows_and_matrices(b: Builder, dims: _RaggedDimensions, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Return the matrix x as rows [m, k], and y as the matrices [g, k, n] of their groups."""
    ((left, right),) = dims.contracting  # the contracted dimensions of x and of y
    assert dims.group is not None
    (column,) = (e for e in dims.free if e != dims.group)  # the dimension of y that remains in the result
    matrices = shapes.transpose(b, y, [dims.group, right, column])
    return shapes.transpose(b, x, [dims.ragged, left]), matrices


def _products_of_own_groups(b: Builder, dims: _RaggedDimensions, is_member: Tensor, product: Tensor) -> Tensor:
    """Return for each row the product with the operand of its group, [b, m, n].

    Those with operands of other groups are replaced by 0, and summed; multiplying these by 0 instead would keep a NaN.

    Args:
        b: The builder.
        dims: The dimension numbers.
        is_member: Mask [g, ...] of the rows of each group, with the dimensions of x after the groups.
        product: Products of each row with all right operands, [b, m, g, n].
    """
    # The mask in the form of the product: its batch dimensions and rows are first, then the free dimensions of y, among
    # which is that of the groups. The contracted dimensions of the mask have size 1 and are dropped.
    first = [*dims.batch, *dims.rows]
    ordered = shapes.transpose(b, is_member, [*(d + 1 for d in first), 0, *(d + 1 for d in dims.contracted)])
    assert dims.group is not None
    group_axis = len(first) + dims.free.index(dims.group)
    shape = [*ordered.shape[: len(first)], *[1] * len(dims.free)]
    shape[group_axis] = is_member.shape[0]
    own = ew.select(b, shapes.reshape(b, ordered, shape), product, b.constant(0, product.dtype))
    return reduce(b, "add", own, [group_axis])


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
    starts, ends = (
        shapes.reshape(b, shapes.transpose(b, bound, [sizes.rank - 1, *ordered]), shape) for bound in (starts, ends)
    )
    # An element is in the group whose range contains its index along the ragged dimension.
    along_ragged = [x.shape[ragged_dim] if d == ragged_dim + 1 else 1 for d in range(x.rank + 1)]
    index = shapes.iota(b, along_ragged, ragged_dim + 1, I64)
    return ew.binary(b, "and", ew.compare(b, "le", starts, index), ew.compare(b, "lt", index, ends))


ROWS: dict[str, Convert] = {"chlo.ragged_dot": _ragged_dot}
"""Name of an operation → function that converts it: convert(tracer, operation, operands...) -> results."""
