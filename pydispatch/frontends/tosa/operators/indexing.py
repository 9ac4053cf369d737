"""Rows of tables at places that a tensor holds."""

from __future__ import annotations

from xdsl.ir import Operation

from pydispatch.frontends.graph.values import Tensor
from pydispatch.frontends.ops import gathers, shapes
from pydispatch.frontends.ops.gathers import GatherAxes
from pydispatch.frontends.ops.scatters import scatter
from pydispatch.frontends.tosa.tracer import Convert, Results, Tracer

_ROWS = GatherAxes(offset=(2,), collapsed=(1,), batching=(0,), index_batching=(0,), indexed=(1,), vector=2)
"""For indices [n, w] into a table [n, k, c]."""
_PAIRS = GatherAxes(offset=(2,), collapsed=(0, 1), batching=(), index_batching=(), indexed=(0, 1), vector=2)
"""For indices [n, w, 2], each with the number of its table."""


def _checked(t: Tracer, table: Tensor, indices: Tensor) -> None:
    t.rank(table, 3, "the table")
    t.rank(indices, 2, "the list of places")
    if not indices.dtype.is_integer:
        raise t.b.fail(f"places are integers, got {indices}")


def _gather(t: Tracer, op: Operation, x: list[Tensor]) -> Results:
    """[n, w, c] = [n, place, c]. A place outside is moved to the nearest row."""
    table, indices = x
    _checked(t, table, indices)
    return gathers.gather(t.b, table, indices, _ROWS, (1, 1, table.shape[2]))


def _scatter(t: Tracer, op: Operation, x: list[Tensor]) -> Results:
    """[n, place, c] becomes [n, w, c]. A place outside changes nothing."""
    table, indices, rows = x
    _checked(t, table, indices)
    t.rank(rows, 3, "the new rows")
    t.same_type(table, rows)
    numbers = shapes.iota(t.b, indices.shape[:1], 0, indices.dtype)
    pairs = shapes.stack(t.b, [shapes.broadcast_to(t.b, numbers, indices.shape, [0]), indices], 2)
    return scatter(t.b, [table], pairs, [rows], _PAIRS, lambda s, old, new: new, unique=True)


ROWS: dict[str, Convert] = {"tosa.gather": _gather, "tosa.scatter": _scatter}
