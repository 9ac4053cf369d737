"""Products in which consecutive groups of elements along one axis have operands or results of their own."""

from __future__ import annotations

from xdsl.dialects.builtin import DenseArrayBase, i32

from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import I32, I64, DType
from pydispatch.graph.values import Tensor
from pydispatch.ir.dialects.iree_linalg_ext.grouped import GroupMatmulOp
from pydispatch.operations import elementwise as ew
from pydispatch.operations.products import dot_general
from pydispatch.operations.reductions import reduce
from pydispatch.operations.shapes import expand_dims, iota


def by_groups_of_rows(builder: Builder, rows: Tensor, matrices: Tensor, ends: Tensor, dtype: DType) -> Tensor:
    """Return each row of `rows` [m, k] times the matrix of its group, of `matrices` [groups, k, n]: [m, n] of `dtype`.

    Row r is in the first group g with r < ends[g]; ends are ascending. A row in no group gives zeros.
    """
    total = builder.splat(builder.scalar_constant(0, dtype), (rows.shape[0], matrices.shape[2]))
    first_row = builder.scalar_constant(0, I32)  # `ends` count rows from row 0 of `rows`
    op = GroupMatmulOp.create(
        operands=[builder.value(rows), builder.value(matrices), builder.value(ends), first_row, total],
        result_types=[total.type],
        properties={"operandSegmentSizes": DenseArrayBase.from_list(i32, [4, 1])},  # inputs, outputs
    )
    return builder.wrap(dtype, (rows.shape[0], matrices.shape[2]), builder.add(op).results[0])


def by_groups_of_sums(builder: Builder, x: Tensor, y: Tensor, ends: Tensor, dtype: DType) -> Tensor:
    """Return for each group g the product of x [m, k] and y [k, n] over its range of k: [groups, m, n] of `dtype`.

    Index i of k is in the first group g with i < ends[g]; ends are ascending. Infinities and NaN in other groups, or in
    none, have no effect. Example: for the ends [2, 5] the results are x[:, 0:2] @ y[0:2] and x[:, 2:5] @ y[2:5].
    """
    groups, depth = ends.shape[0], x.shape[1]
    index = iota(builder, (groups, depth), axis=1, dtype=I64)
    is_after = ew.compare(builder, "ge", index, expand_dims(builder, ew.convert(builder, ends, I64), axes=[1]))
    # The group of index i is the number of groups that end at or before i: [k], then whether i is in g: [groups, k].
    group = reduce(builder, "add", ew.convert(builder, is_after, I64), axes=[0])
    is_member = ew.compare(builder, "eq", group, iota(builder, (groups, 1), axis=0, dtype=I64))
    # Zero both operands outside of each group's range: x to [groups, m, k], y to [groups, k, n]. A zero in one of them
    # would not do, because a NaN of the other times zero is NaN.
    zero = builder.constant(0, x.dtype)
    of_x, of_y = (expand_dims(builder, is_member, [axis]) for axis in (1, 2))
    left, right = (
        ew.select(builder, mask, expand_dims(builder, v, axes=[0]), zero) for mask, v in ((of_x, x), (of_y, y))
    )
    return dot_general(builder, left, right, [(0, 0)], [(2, 1)], dtype)
