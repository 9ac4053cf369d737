"""Conversions of reductions of sliding windows, and of the gradient of those that select an element."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation

from pydispatch.frontends.stablehlo.tracer import Convert, Results, StablehloTracer
from pydispatch.graph.sizes import Size
from pydispatch.graph.values import Tensor
from pydispatch.operations import window_selection, windows
from pydispatch.operations.convolutions import Window
from pydispatch.operations.reductions import Combine


def _reduce_window(tracer: StablehloTracer, op: Operation, *operands: Tensor) -> Results:
    """Reduce each window of tensors by a region. operands: n tensors and n initial values."""
    half = len(operands) // 2
    tensors, starts = operands[:half], operands[half:]
    if not tensors:
        raise tracer.b.fail("'stablehlo.reduce_window' needs a tensor")
    rank = tensors[0].rank
    strides, dilations, kernel, base = (
        tracer.listed(op, name, rank, least=1, default=1)
        for name in ("window_strides", "window_dilations", "window_dimensions", "base_dilations")
    )
    low, high = tracer.padding(op, rank)
    window = Window(strides, low, high, dilations)
    combine = tracer.combination(op.regions[0])
    return reduced(tracer, tensors, starts, kernel=kernel, window=window, base=base, combine=combine)


def reduced(
    tracer: StablehloTracer,
    tensors: Sequence[Tensor],
    starts: Sequence[Tensor],
    kernel: Sequence[Size],
    window: Window,
    base: Sequence[int],
    combine: Combine,
) -> list[Tensor]:
    """Reduce windows over tensors of one shape, together. Raise CompileError unless ranks agree and starts are scalars.

    Args:
        tracer: Tracer of the function.
        tensors: The tensors.
        starts: Initial running value for each tensor.
        kernel: Size of a window along each axis.
        window: Strides, padding and dilations along each axis.
        base: Distances of neighbouring elements of the tensors, between which padding is inserted; 1 for none.
        combine: Function combine(scalars, running values, elements) -> new running values, with one of each tensor.
    """
    first = tensors[0]
    if any(x.rank != first.rank for x in tensors) or any(x.rank for x in starts):
        raise tracer.b.fail("windows move over tensors of one shape, each with an initial value of rank 0")
    return windows.reduce_windows(tracer.b, tensors, starts, kernel, window, combine, base)


def _select_and_scatter(tracer: StablehloTracer, op: Operation, x: Tensor, source: Tensor, start: Tensor) -> Tensor:
    """Combine each element of `source` into the result at the position of the element that is selected in its window
    of x.

    The first region of the operation selects, the second combines. Example, the gradient of a maximum pooling: the
    first region is `selected >= element`, the second an addition. For x = [1, 5, 2, 3], windows of 2 with the stride 2,
    source [10, 20] and start 0, the result is [0, 10, 0, 20].

    Args:
        tracer: Tracer of the function.
        op: The operation.
        x: The tensor that windows move over.
        source: An element for each window.
        start: Initial value of all elements of the result, which has the shape of x.

    Raises:
        CompileError: `source` has another rank than x, or `start` is no scalar.
    """
    rank = x.rank
    if source.rank != rank or start.rank:
        raise tracer.b.fail(f"'stablehlo.select_and_scatter' of {x}, {source} and {start}")
    strides, kernel = (
        tracer.listed(op, name, rank, least=1, default=1) for name in ("window_strides", "window_dimensions")
    )
    low, high = tracer.padding(op, rank)
    window = Window(strides, low, high, dilations=(1,) * rank)
    # Each region as a function(scalars, elements) -> results, of which there is one.
    select, scatter = (tracer.scalar_function(region) for region in op.regions)
    return window_selection.select_and_scatter(
        tracer.b, x, source, start, kernel, window,
        lambda s, best, element: select(s, [best, element])[0],
        lambda s, running, element: scatter(s, [running, element])[0],
    )  # fmt: skip


ROWS: dict[str, Convert] = {
    "stablehlo.reduce_window": _reduce_window,
    "stablehlo.select_and_scatter": _select_and_scatter,
}
"""Name of an operation → function that converts it: convert(tracer, operation, operands...) -> results."""
