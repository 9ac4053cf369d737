"""Conversions of reductions of sliding windows, and of the gradient of those that select an element."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation

from pydispatch.frontends.stablehlo.tracer import Convert, Results, StablehloTracer
from pydispatch.graph.sizes import Size
from pydispatch.graph.values import Tensor
from pydispatch.ir.dialects.stablehlo.attributes import integers
from pydispatch.operations import windows
from pydispatch.operations.convolutions import Window
from pydispatch.operations.reductions import Combine


def _padding(tracer: StablehloTracer, op: Operation, rank: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the padding before and after each axis, from the property that alternates them; a single number applies to
    all.
    """
    values = integers(op.properties.get("padding"))
    values = values * (2 * rank) if len(values) == 1 else values or (0,) * (2 * rank)
    tracer.entries(values, 2 * rank, "padding")
    return values[::2], values[1::2]


def _list(tracer: StablehloTracer, op: Operation, name: str, rank: int) -> tuple[int, ...]:
    """Return a property with one number, of at least 1, per axis; all are 1 if it is missing."""
    return tracer.entries(tracer.integers(op, name, [1] * rank), rank, name, 1)


def _reduce_window(tracer: StablehloTracer, op: Operation, operands: list[Tensor]) -> Results:
    """Reduce each window of tensors by a region."""
    half = len(operands) // 2
    tensors, starts = operands[:half], operands[half:]
    if not tensors:
        raise tracer.b.fail("'stablehlo.reduce_window' needs a tensor")
    rank = tensors[0].rank
    strides, dilations = _list(tracer, op, "window_strides", rank), _list(tracer, op, "window_dilations", rank)
    window = Window(strides, *_padding(tracer, op, rank), dilations)
    combine = tracer.scalar_function(op.regions[0])
    kernel = _list(tracer, op, "window_dimensions", rank)
    return reduced(tracer, tensors, starts, kernel, window, _list(tracer, op, "base_dilations", rank),
                   lambda s, running, elements: combine(s, [*running, *elements]))  # fmt: skip


def reduced(
    tracer: StablehloTracer,
    tensors: Sequence[Tensor],
    starts: Sequence[Tensor],
    kernel: Sequence[Size],
    window: Window,
    base: Sequence[int],
    combine: Combine,
) -> list[Tensor]:
    """Reduce windows over tensors of one shape. Raise CompileError if ranks differ or initial values are not scalars.

    `base` has the distances of the elements of the operands, between which padding is inserted.
    """
    first = tensors[0]
    if any(x.rank != first.rank for x in tensors) or any(x.rank for x in starts):
        raise tracer.b.fail("windows move over tensors of one shape, with a single element to begin with for each")
    return windows.reduce_windows(tracer.b, tensors, starts, kernel, window, combine, base)


def _select_and_scatter(tracer: StablehloTracer, op: Operation, operands: list[Tensor]) -> Tensor:
    """Select an element of each window of x by one region, and combine elements of `source` into them by another."""
    x, source, start = operands
    rank = x.rank
    if source.rank != rank or start.rank:
        raise tracer.b.fail(f"'stablehlo.select_and_scatter' of {x}, {source} and {start}")
    window = Window(_list(tracer, op, "window_strides", rank), *_padding(tracer, op, rank), (1,) * rank)
    select, scatter = (tracer.scalar_function(region) for region in op.regions)
    return windows.select_and_scatter(
        tracer.b, x, source, start, _list(tracer, op, "window_dimensions", rank), window,
        lambda s, best, element: select(s, [best, element])[0],
        lambda s, running, element: scatter(s, [running, element])[0],
    )  # fmt: skip


ROWS: dict[str, Convert] = {
    "stablehlo.reduce_window": _reduce_window,
    "stablehlo.select_and_scatter": _select_and_scatter,
}
