"""Conversions of reductions and sorts by a region, and of top_k."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation, Region

from pydispatch.frontends.stablehlo.operators.arguments import argument_of
from pydispatch.frontends.stablehlo.tracer import Convert, Results, StablehloTracer
from pydispatch.graph.sizes import Expr
from pydispatch.graph.values import Tensor
from pydispatch.operations import ordering, reductions
from pydispatch.operations.reals import Scalar
from pydispatch.operations.scalars import Scalars


def _reduce(tracer: StablehloTracer, op: Operation, *operands: Tensor) -> Results:
    """Reduce tensors along axes by a region. operands: n tensors and n initial values."""
    half = len(operands) // 2
    tensors, starts = operands[:half], operands[half:]
    if not tensors or any(x.rank != tensors[0].rank for x in tensors) or any(x.rank for x in starts):
        raise tracer.b.fail("a reduction takes tensors of one shape, and a single element to begin with for each")
    axes = tracer.axes(tracer.integers(op, "dimensions"), "dimensions", tensors[0].rank)
    if not axes:  # no elements are combined
        return tensors
    if (results := argument_of(tracer, op, tensors, starts, axes)) is not None:  # an argmax or argmin
        return results
    return reductions.reduce_with(tracer.b, tensors, starts, axes, tracer.combination(op.regions[0]))


def _sort(tracer: StablehloTracer, op: Operation, *operands: Tensor) -> Results:
    """Sort tensors of one shape together along the axis `dimension`, by the comparison in a region."""
    if not operands or any(x.rank != operands[0].rank or not x.rank for x in operands):
        raise tracer.b.fail("'stablehlo.sort' orders tensors of one shape, which have at least one axis")
    axis, rank = tracer.integer(op, "dimension", -1), operands[0].rank
    (axis,) = tracer.axes([axis % rank if -rank <= axis < 0 else axis], "dimension", rank)
    return sort_by(tracer, op.regions[0], axis, operands)


def sort_by(tracer: StablehloTracer, region: Region, axis: int, tensors: Sequence[Tensor]) -> list[Tensor]:
    """Sort tensors together along an axis by the comparison in a region.

    The arguments of the region are a left and a right element of each tensor: (left 0, right 0, left 1, right 1, ...).
    """
    before = tracer.scalar_function(region)

    def compare(scalars: Scalars, lhs: Sequence[Scalar], rhs: Sequence[Scalar]) -> Scalar:
        """Return whether the region orders the elements lhs, one of each tensor, before rhs."""
        return before(scalars, [element for pair in zip(lhs, rhs, strict=True) for element in pair])[0]

    return ordering.sort(tracer.b, tensors, axis, compare)


def top_k(tracer: StablehloTracer, op: Operation, x: Tensor, count: int, largest: bool = True) -> Results:
    """Return the `count` largest (or smallest) elements along the last axis, from the largest (smallest) on, and their
    indices.
    """
    n = x.shape[-1] if x.rank else 0
    if not x.rank or count < 0 or (not isinstance(n, Expr) and count > n):
        raise tracer.b.fail(f"'{op.name}': the first {count} of {x}")
    return ordering.top_k(
        tracer.b, x, count, x.rank - 1, largest=largest, dtype=tracer.dtype(op, 1), order=ordering.less_in_total_order
    )


ROWS: dict[str, Convert] = {
    "chlo.top_k": lambda t, op, x: top_k(t, op, x, t.integer(op, "k")),
    "stablehlo.reduce": _reduce,
    "stablehlo.sort": _sort,
}
"""Name of an operation → function that converts it: convert(tracer, operation, operands...) -> results."""
