"""Conversions of gathers and scatters of table rows."""

from __future__ import annotations

from xdsl.ir import Operation

from pydispatch.frontends.tosa.tracer import Convert, Results, TosaTracer
from pydispatch.graph.values import Tensor
from pydispatch.operations import gathers, shapes, slicing
from pydispatch.operations.gathers import GatherAxes
from pydispatch.operations.scatters import scatter

_ROWS = GatherAxes(
    offset_dims=(2,), collapsed_dims=(1,), batching_dims=(0,), indices_batching_dims=(0,), start_index_map=(1,),
    index_vector_dim=2,
)  # fmt: skip
"""Axes of a gather by indices [n, w] from tables [n, k, c]: index w of table n selects one row of c elements."""
_PAIRS = GatherAxes(
    offset_dims=(2,), collapsed_dims=(0, 1), batching_dims=(), indices_batching_dims=(), start_index_map=(0, 1),
    index_vector_dim=2,
)  # fmt: skip
"""Axes of a scatter into tables [n, k, c] by indices [n, w, 2], each a pair (index of a table, index of a row in it).

They are those of a gather, with the new rows in place of its result.
"""


def _checked(tracer: TosaTracer, table: Tensor, indices: Tensor) -> None:
    """Raise CompileError unless `table` has rank 3, for [n, k, c], and `indices` are integers of rank 2, for [n, w]."""
    tracer.require_rank(table, 3, "the table")
    tracer.require_rank(indices, 2, "the list of indices")
    if not indices.dtype.is_integer:
        raise tracer.b.fail(f"indices are integers, got {indices}")


def _gather(tracer: TosaTracer, op: Operation, table: Tensor, indices: Tensor) -> Results:
    """Return the rows [n, w, c] of tables [n, k, c] at indices [n, w]. An index out of bounds is clamped."""
    _checked(tracer, table, indices)
    return gathers.gather(tracer.b, table, indices, _ROWS, (1, 1, table.shape[2]))


def _scatter(tracer: TosaTracer, op: Operation, table: Tensor, indices: Tensor, rows: Tensor) -> Results:
    """Return tables [n, k, c] with their rows at `indices` [n, w] replaced by `rows` [n, w, c].

    An index out of bounds has no effect.
    """
    _checked(tracer, table, indices)
    tracer.require_rank(rows, 3, "the new rows")
    tracer.same_type(table, rows)
    # pairs [n, w, 2]: for each new row the index of its table and its index in the table. `_PAIRS` names their axes.
    table_indices = shapes.iota(tracer.b, indices.shape[:1], axis=0, dtype=indices.dtype)
    pairs = slicing.stack(tracer.b, [shapes.broadcast_to(tracer.b, table_indices, indices.shape, [0]), indices], axis=2)
    # unique: TOSA forbids equal indices of one table.
    return scatter(tracer.b, [table], pairs, [rows], _PAIRS, lambda s, old, new: new, unique=True)


ROWS: dict[str, Convert] = {"tosa.gather": _gather, "tosa.scatter": _scatter}
"""Name of an operation → function that converts it: convert(tracer, operation, operands...) -> results."""
