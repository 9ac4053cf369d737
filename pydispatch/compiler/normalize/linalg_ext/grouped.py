"""`group_matmul`: the group of each row, and one product whose matrix depends on the row."""

from __future__ import annotations

from xdsl.dialects.builtin import IndexType, TensorType
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from pydispatch.compiler.normalize.build import Build, Row
from pydispatch.compiler.normalize.generics import generic
from pydispatch.compiler.normalize.linalg_ext.code import LoopBody
from pydispatch.ir.core.elements import element_type
from pydispatch.ir.core.syntax import DYNAMIC
from pydispatch.ir.dialects.iree_linalg_ext.grouped import GroupMatmulOp
from pydispatch.ir.dialects.linalg.regions import IndexOp
from pydispatch.ir.dialects.linalg.structure import Structure, shape_of


def _map(loops: int, *dims: int) -> AffineMap:
    return AffineMap(loops, 0, tuple(map(AffineExpr.dimension, dims)))


def _groups(build: Build, rows: SSAValue, ends: SSAValue, first: SSAValue) -> SSAValue:
    """Return the group of each row: how many ends are not beyond its number."""
    count = shape_of(rows.type)[0]
    dynamic = [build.dim(rows, 0)] if count == DYNAMIC else []
    zeros = build.splat(0, TensorType(IndexType(), [count]), dynamic)
    body = LoopBody([element_type(ends.type), IndexType()])
    end, passed = body.block.args
    row = body.plus(body.add(IndexOp(0)), body.as_index(first))
    is_before = body.less(row, body.as_index(end))
    body.finish(body.either(is_before, passed, body.plus(passed, body.index(1))))
    structure = Structure((_map(2, 1), _map(2, 0)), (True, False))
    (groups,) = generic(build, structure, [ends], [zeros], body.block)
    return groups


def _group_matmul(op: Operation, build: Build) -> None:
    """Replace a product in which each group of rows has a matrix of its own."""
    assert isinstance(op, GroupMatmulOp)
    rows, matrices, ends, first = op.inputs
    last = build.dim(ends, 0)
    element, summed = element_type(rows.type), element_type(op.outputs[0].type)
    body = LoopBody([IndexType(), element, summed])
    group, factor, total = body.block.args
    at = body.most(body.least(group, body.minus(last, body.index(1))), body.index(0))
    other = body.extract(matrices, [at, body.add(IndexOp(2)), body.add(IndexOp(1))])
    product = body.binary("mul", *(body.cast(value, summed, unsigned=False) for value in (factor, other)))
    body.finish(body.either(body.less(group, last), body.binary("add", total, product), total))
    structure = Structure((_map(3, 0), _map(3, 0, 2), _map(3, 0, 1)), (True, True, False))
    groups = _groups(build, rows, ends, first)
    build.replace(*generic(build, structure, [groups, rows], [op.outputs[0]], body.block))


ROWS: dict[str, Row] = {"iree_linalg_ext.group_matmul": _group_matmul}
