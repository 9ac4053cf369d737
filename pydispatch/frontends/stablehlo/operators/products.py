"""Conversions of dot products and convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.ir import Operation

from pydispatch.frontends.stablehlo.tracer import Convert, StablehloTracer
from pydispatch.graph.sizes import Expr, Size
from pydispatch.graph.values import Tensor
from pydispatch.ir.dialects.stablehlo.attributes import Conv
from pydispatch.operations import convolutions, products, shapes
from pydispatch.operations.indexing import reverse


def _dot(tracer: StablehloTracer, op: Operation, x: Tensor, y: Tensor) -> Tensor:
    """Return the product of vectors or matrices: the last axis of x is contracted with the first of y."""
    if not 0 < x.rank < 3 or not 0 < y.rank < 3:
        raise tracer.b.fail(f"'stablehlo.dot' of {x} and {y}: both are vectors or matrices")
    return products.dot_general(tracer.b, x, y, batch=[], contracted=[(x.rank - 1, 0)], dtype=tracer.dtype(op))


def _dot_general(tracer: StablehloTracer, op: Operation, x: Tensor, y: Tensor) -> Tensor:
    """Return the sums of products over the pairs of contracting axes in the dimension numbers."""
    batching, contracting = dimension_pairs(
        tracer, tracer.record(op, "dot_dimension_numbers"), "dot_dimension_numbers", x, y
    )
    return products.dot_general(tracer.b, x, y, batching, contracting, tracer.dtype(op))


def dimension_pairs(
    tracer: StablehloTracer, numbers: Any, name: str, x: Tensor, y: Tensor
) -> list[list[tuple[int, int]]]:
    """Return two lists: the pairs of batching dimensions and the pairs of contracting dimensions, (axis of x, axis of
    y).

    numbers: the dimension numbers, with fields such as `lhs_batching_dimensions`; `name` names them in errors. Raise
    CompileError if they are invalid.
    """
    pairs: list[list[tuple[int, int]]] = []
    for what in ("batching", "contracting"):
        lhs, rhs = (getattr(numbers, f"{side}_{what}_dimensions") for side in ("lhs", "rhs"))
        if len(lhs) != len(rhs):
            raise tracer.b.fail(f"{len(lhs)} {what} dimensions of the left operand, {len(rhs)} of the right one")
        pairs.append(list(zip(lhs, rhs, strict=True)))
    for side, operand in enumerate((x, y)):  # raises for axes that are repeated or missing
        tracer.axes([pair[side] for pair in (*pairs[0], *pairs[1])], name, operand.rank)
    return pairs


def _convolution(tracer: StablehloTracer, op: Operation, x: Tensor, w: Tensor) -> Tensor:
    """Convert a convolution with constant padding."""
    return convolution(tracer, op, x, w, *tracer.padding(op, x.rank - 2))


def convolution(
    tracer: StablehloTracer, op: Operation, x: Tensor, w: Tensor, low: Sequence[Size], high: Sequence[Size]
) -> Tensor:
    """Return a convolution with the padding `low` before and `high` after each spatial axis.

    Strides, dilations, groups and reversal are properties of `op`. Its dimension numbers say which axes of the operands
    and of the result are the batch, the channels and the spatial ones: operands are transposed to [n, c, spatial...]
    and [f, c, spatial...], and the result, [n, f, spatial...], back.

    Example: `[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]` states an image and a result with the channels last (NHWC), and a
    kernel with its spatial axes first (HWIO). The image is transposed by (0, 3, 1, 2) and the kernel by (3, 2, 0, 1).

    Raise CompileError if the dimension numbers or properties do not fit the operands, or there are groups of channels
    and of images.
    """
    # Read the properties.
    conv = op.properties["dimension_numbers"]
    assert isinstance(conv, Conv)
    image, kernel, result = conv.data
    spatial = x.rank - 2
    if w.rank != x.rank or any(len(part.spatial) != spatial for part in conv.data):
        raise tracer.b.fail(f"the dimension numbers do not describe a convolution of {x} by {w}")
    strides, dilations, input_dilations = (
        tracer.listed(op, name, spatial, least=1, default=1)
        for name in ("window_strides", "rhs_dilation", "lhs_dilation")
    )
    flipped = tracer.listed(op, "window_reversal", spatial, default=0)

    # Bring the operands into the form of `convolutions.convolution`.
    x = shapes.transpose(tracer.b, x, (image.first, image.second, *image.spatial))
    input_feature, output_feature = kernel.first, kernel.second
    w = shapes.transpose(tracer.b, w, (output_feature, input_feature, *kernel.spatial))
    if any(flipped):
        w = reverse(tracer.b, w, [2 + d for d in range(spatial) if flipped[d]])
    x, groups = _in_channel_groups(tracer, op, x)
    window = convolutions.Window(strides, tuple(low), tuple(high), dilations)

    # Emit the convolution, and bring its result into the stated order of axes.
    order = [0] * x.rank  # for each axis of the result, the axis of [n, f, spatial...] that becomes it
    for position, axis in enumerate((result.first, result.second, *result.spatial)):
        order[axis] = position
    if (sizes := _sizes_without_products(x, w, window, input_dilations)) is not None:  # sums of no terms are 0
        shape = (x.shape[0], w.shape[0], *sizes)
        return shapes.full(tracer.b, 0, [shape[position] for position in order], tracer.dtype(op))
    channels_last = result.second == x.rank - 1  # the layout that the transposition below brings the result into
    convolved = convolutions.convolution(
        tracer.b, x, w, window, groups=groups, input_dilations=input_dilations, dtype=tracer.dtype(op),
        channels_last=channels_last,
    )  # fmt: skip
    return shapes.transpose(tracer.b, convolved, order)


def _sizes_without_products(
    x: Tensor, w: Tensor, window: convolutions.Window, input_dilations: Sequence[int]
) -> list[Size] | None:
    """Return the spatial sizes of the result of a convolution without products: no elements, or no window that fits.

    Return None for all other convolutions, and if a size is dynamic. x is [n, c, spatial...], w [f, c, spatial...].
    """
    low, high = window.low, window.high
    if any(isinstance(n, Expr) for n in (*x.shape[1:], *w.shape, *low, *high)):
        return None
    sizes: list[Size] = []
    for d, (n, k) in enumerate(zip(x.shape[2:], w.shape[2:], strict=True)):
        dilated = max((n - 1) * input_dilations[d] + 1, 0) if n else 0  # with zeros between the elements
        padded = dilated + low[d] + high[d]
        extent = (k - 1) * window.dilations[d] + 1 if k else 0  # number of elements that a window spans
        fits = padded > 0 and extent <= padded
        sizes.append((padded - extent) // window.strides[d] + 1 if fits else 0)
    return sizes if 0 in (*x.shape, *w.shape, *sizes) else None


def _in_channel_groups(tracer: StablehloTracer, op: Operation, x: Tensor) -> tuple[Tensor, int]:
    """Return the images and the number of groups of their channels. Groups of images become groups of channels.

    Raise CompileError if a convolution has groups of both.
    """
    groups, batches = tracer.integer(op, "feature_group_count", 1), tracer.integer(op, "batch_group_count", 1)
    if groups < 1 or batches < 1 or (groups > 1 and batches > 1):
        raise tracer.b.fail(f"feature_group_count {groups} and batch_group_count {batches}: one of them is 1")
    return (_groups_of_batches(tracer, x, batches), batches) if batches > 1 else (x, groups)


def _groups_of_batches(tracer: StablehloTracer, x: Tensor, groups: int) -> Tensor:
    """Reshape [g n, c, ...] to [n, g c, ...] for g groups: each n consecutive images become a group of channels."""
    n, c = x.shape[:2]
    if isinstance(n, Expr) or n % groups:
        raise tracer.b.fail(f"batch_group_count {groups} does not divide the batch of {x}")
    split = shapes.reshape(tracer.b, x, [groups, n // groups, c, *x.shape[2:]])
    moved = shapes.transpose(tracer.b, split, [1, 0, *range(2, split.rank)])
    return shapes.reshape(tracer.b, moved, [n // groups, c * groups, *x.shape[2:]])


ROWS: dict[str, Convert] = {
    "stablehlo.convolution": _convolution,
    "stablehlo.dot": _dot,
    "stablehlo.dot_general": _dot_general,
}
"""Name of an operation → function that converts it: convert(tracer, operation, operands...) -> results."""
