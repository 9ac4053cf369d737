"""Rows of tables at positions that a tensor holds."""

from __future__ import annotations

from xdsl.ir import Operation

from pydispatch.frontends.graph.values import Tensor
from pydispatch.frontends.ops import gathers, shapes
from pydispatch.frontends.ops.gathers import GatherAxes
from pydispatch.frontends.ops.scatters import scatter
from pydispatch.frontends.tosa.tracer import Convert, Results, TosaTracer

_ROWS = GatherAxes(offset=(2,), collapsed=(1,), batching=(0,), index_batching=(0,), indexed=(1,), vector=2)
"""For indices [n, w] into a table [n, k, c]."""
_PAIRS = GatherAxes(offset=(2,), collapsed=(0, 1), batching=(), index_batching=(), indexed=(0, 1), vector=2)
"""For indices [n, w, 2], each with the number of its table."""


def _checked(tracer: TosaTracer, table: Tensor, indices: Tensor) -> None:
    tracer.rank(table, 3, "the table")
    tracer.rank(indices, 2, "the list of indices")
    if not indices.dtype.is_integer:
        raise tracer.b.fail(f"indices are integers, got {indices}")


def _gather(tracer: TosaTracer, op: Operation, inputs: list[Tensor]) -> Results:
    """[n, w, c] = [n, position, c]. A position outside is moved to the nearest row."""
    table, indices = inputs
    _checked(tracer, table, indices)
    return gathers.gather(tracer.b, table, indices, _ROWS, (1, 1, table.shape[2]))


def _scatter(tracer: TosaTracer, op: Operation, inputs: list[Tensor]) -> Results:
    """[n, position, c] becomes [n, w, c]. A position outside changes nothing."""
    table, indices, rows = inputs
    _checked(tracer, table, indices)
    tracer.rank(rows, 3, "the new rows")
    tracer.same_type(table, rows)
    numbers = shapes.iota(tracer.b, indices.shape[:1], 0, indices.dtype)
    pairs = shapes.stack(tracer.b, [shapes.broadcast_to(tracer.b, numbers, indices.shape, [0]), indices], 2)
    return scatter(tracer.b, [table], pairs, [rows], _PAIRS, lambda s, old, new: new, unique=True)


ROWS: dict[str, Convert] = {"tosa.gather": _gather, "tosa.scatter": _scatter}
