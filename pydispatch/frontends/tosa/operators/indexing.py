"""Rows of tables at places that a tensor holds."""

from __future__ import annotations

from xdsl.dialects.builtin import BoolAttr, DenseArrayBase, i64
from xdsl.ir import Block, Operation, Region, SSAValue

from pydispatch.frontends.graph.builder import Builder
from pydispatch.frontends.graph.dtypes import I32
from pydispatch.frontends.graph.values import Tensor
from pydispatch.frontends.ops import shapes
from pydispatch.frontends.ops.indexing import Places, elements_at
from pydispatch.frontends.tosa.tracer import Convert, Results, Tracer
from pydispatch.ir.dialects.iree_linalg_ext.base import YieldOp
from pydispatch.ir.dialects.iree_linalg_ext.indexing import ScatterOp


def _checked(t: Tracer, table: Tensor, indices: Tensor) -> None:
    t.rank(table, 3, "the table")
    t.rank(indices, 2, "the list of places")
    if not indices.dtype.is_integer:
        raise t.b.fail(f"places are integers, got {indices}")


def _gather(t: Tracer, op: Operation, x: list[Tensor]) -> Results:
    """[n, w, c] = [n, place, c]. A place outside is moved to the nearest row."""
    table, indices = x
    _checked(t, table, indices)
    last = t.b.index(table.shape[1] - 1)

    def places(p: Places) -> list[SSAValue]:
        return [p.index(0), p.clamped(p.index_of(p.given[0]), last), p.index(2)]

    shape = (*indices.shape, table.shape[2])
    return elements_at(t.b, table, shape, places, shapes.reshape(t.b, indices, [*indices.shape, 1]))


def _scatter(t: Tracer, op: Operation, x: list[Tensor]) -> Results:
    """[n, place, c] becomes [n, w, c]. A place outside changes nothing."""
    table, indices, rows = x
    _checked(t, table, indices)
    t.rank(rows, 3, "the new rows")
    t.same_type(table, rows)
    return _scattered(t.b, table, indices, rows)


def _scattered(b: Builder, table: Tensor, indices: Tensor, rows: Tensor) -> Tensor:
    batch = shapes.broadcast_to(b, shapes.iota(b, indices.shape[:1], 0, I32), indices.shape, [0])
    pairs = shapes.stack(b, [batch, _as_i32(b, indices)], 2)
    element = table.dtype.element
    block = Block(arg_types=[element, element])
    block.add_op(YieldOp(operands=[[block.args[0]]]))
    made = ScatterOp(
        operands=[[b.value(rows), b.value(pairs)], [b.value(table)]], result_types=[[b.value(table).type]],
        properties={"dimension_map": DenseArrayBase.from_list(i64, [0, 1]), "unique_indices": BoolAttr.from_bool(True)},
        regions=[Region(block)],
    )  # fmt: skip
    return b.wrap(table.dtype, table.shape, b.add(made).results[0])


def _as_i32(b: Builder, x: Tensor) -> Tensor:
    from pydispatch.frontends.ops import elementwise as ew

    return ew.convert(b, x, I32)


ROWS: dict[str, Convert] = {"tosa.gather": _gather, "tosa.scatter": _scatter}
