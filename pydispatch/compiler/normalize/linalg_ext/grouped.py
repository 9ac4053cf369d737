"""Rule that replaces `group_matmul`: the group of each row, and one product whose matrix depends on the row."""

from __future__ import annotations

from xdsl.dialects.builtin import IndexType, TensorType
from xdsl.ir import Operation, SSAValue

from pydispatch.compiler.normalize.build import Build, Row
from pydispatch.compiler.normalize.generics import generic
from pydispatch.compiler.normalize.linalg_ext.code import LoopBody
from pydispatch.compiler.normalize.moves import projection
from pydispatch.ir.core.elements import element_type
from pydispatch.ir.core.syntax import DYNAMIC
from pydispatch.ir.dialects.iree_linalg_ext.grouped import GroupMatmulOp
from pydispatch.ir.dialects.linalg.regions import IndexOp
from pydispatch.ir.dialects.linalg.structure import Structure, shape_of


def _groups(build: Build, rows: SSAValue, ends: SSAValue, first: SSAValue) -> SSAValue:
    """Return the index of the group of each row: the number of groups whose last row is before it.

    With the ends [2, 5] and `first` = 0, six rows have the groups [0, 0, 1, 1, 1, 2]; row 5 is after the last group.

    Args:
        build: Emits the operations.
        rows: The rows, of which only the count is used.
        ends: For each group, the number of the row after its last row.
        first: Number of the first row.
    """
    count = shape_of(rows.type)[0]
    dynamic = [build.dim(rows, 0)] if count == DYNAMIC else []
    zeros = build.splat(0, TensorType(IndexType(), [count]), dynamic)
    body = LoopBody([element_type(ends.type), IndexType()])
    end, passed_ends = body.block.args
    row = body.plus(body.add(IndexOp(0)), body.as_index(first))
    is_before = body.less(row, body.as_index(end))
    body.finish(body.select(is_before, passed_ends, body.plus(passed_ends, body.index(1))))
    # Loop 0 runs over the rows, loop 1 is a reduction over the ends: (d0, d1) -> (d1) reads the ends.
    structure = Structure((projection(2, [1]), projection(2, [0])), parallel=(True, False))
    (groups,) = generic(build, structure, [ends], [zeros], body.block)
    return groups


def _group_matmul(op: Operation, build: Build) -> None:
    """Replace a product in which each group of rows has a matrix of its own, as in a mixture of experts.

    Inputs are the rows [m, k], the matrices [groups, k, n], for each group the number of the row after its last row,
    and `first`. Row i of [m, k] has the number `first` + i, as the rows may be a slice of a larger tensor, whose rows
    are numbered from 0. The replacement is a generic that computes the group g[i] of each row, and then one that
    computes output[i, j] += sum over l of rows[i, l] * matrices[g[i], l, j]. A row after the last group keeps its
    output.
    """
    assert isinstance(op, GroupMatmulOp)
    rows, matrices, ends, first = op.inputs
    group_count = build.dim(ends, 0)
    element, summed = element_type(rows.type), element_type(op.outputs[0].type)
    body = LoopBody([IndexType(), element, summed])
    group, factor, total = body.block.args
    # A row after the last group reads the matrix of the last one, and its product is not added. Without any groups, the
    # read of matrix 0 is out of bounds: it returns an unspecified element, which is not added either.
    existing_group = body.maximum(body.minimum(group, body.minus(group_count, body.index(1))), body.index(0))
    matrix_element = body.extract(matrices, [existing_group, body.add(IndexOp(2)), body.add(IndexOp(1))])
    product = body.binary("mul", *(body.cast(value, summed, unsigned=False) for value in (factor, matrix_element)))
    has_group = body.less(group, group_count)
    body.finish(body.select(has_group, body.binary("add", total, product), total))
    # Loop 0 runs over m, loop 1 over n, loop 2 is the reduction over k. The maps are those of g, rows and output.
    structure = Structure(
        (projection(3, [0]), projection(3, [0, 2]), projection(3, [0, 1])), parallel=(True, True, False)
    )
    groups = _groups(build, rows, ends, first)
    build.replace(*generic(build, structure, [groups, rows], [op.outputs[0]], body.block))


ROWS: dict[str, Row] = {"iree_linalg_ext.group_matmul": _group_matmul}
"""Name of an operation → function that replaces it."""
