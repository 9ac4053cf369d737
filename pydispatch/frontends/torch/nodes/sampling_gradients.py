"""Conversions of the gradients of resizing and of sampling by a grid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydispatch.frontends.torch.nodes.resizing import SCALE_IGNORING_COUNTS, UPSAMPLE, Method, repetitions
from pydispatch.frontends.torch.nodes.sampling import sampler_of
from pydispatch.frontends.torch.registry import Conversion, converts, register
from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import F32, I64
from pydispatch.graph.sizes import Size
from pydispatch.graph.values import Tensor
from pydispatch.operations import elementwise as ew
from pydispatch.operations import normalization, products, reductions, resampling, sampling_gradients, shapes
from pydispatch.operations.formulas import formula

Sizes = Sequence[Size]


def _upsample(spatial: int, how: Method) -> Conversion:
    """Return the conversion of the gradient of a resizing operator over `spatial` axes by the method `how`.

    It has a parameter `align_corners` unless the method is "nearest".
    """

    def gradient_of_image(
        builder: Builder, grad: Tensor, input_size: Sizes, corners: bool, scales: Sequence[float | None]
    ) -> Tensor:
        """Return the gradient of the image before resizing, axis by axis.

        input_size: all sizes of the image. corners: `align_corners`. scales: factor of each resized axis if the call
        stated it; None where it follows from the sizes, and missing ones at the end are None.
        """
        gradient = ew.convert(builder, grad, normalization.wide(grad.dtype))
        for d, scale in enumerate([*scales, *[None] * (spatial - len(scales))]):
            gradient = _axis_gradient(
                builder, gradient, grad.rank - spatial + d, input_size[d - spatial], scale, corners, how
            )
        return ew.convert(builder, gradient, grad.dtype)

    def nearest(
        builder: Builder, grad_output: Tensor, output_size: Sizes, input_size: Sizes, *scales: float | None
    ) -> Tensor:
        """Return the gradient of nearest-neighbour resizing; `grad_output` has the output size."""
        return gradient_of_image(builder, grad_output, input_size, corners=False, scales=scales)

    def interpolated(
        builder: Builder, grad_output: Tensor, output_size: Sizes, input_size: Sizes, align_corners: bool,
        *scales: float | None,
    ) -> Tensor:  # fmt: skip
        """Return the gradient of linear or cubic interpolation; `grad_output` has the output size."""
        return gradient_of_image(builder, grad_output, input_size, align_corners, scales)

    return nearest if how.is_nearest else interpolated


def _axis_gradient(
    builder: Builder, grad: Tensor, axis: int, n: Size, scale: float | None, corners: bool, how: Method
) -> Tensor:
    """Return the gradient of the n elements along an axis that was resized, from the gradient of the resized elements.

    scale: factor that the call stated, or None. corners: whether the corner elements were aligned. how: the method.

    Each resized element was a sum of `taps`, source elements times weights; its gradient, times the same weights, is
    added to these. Where every element was only repeated, the gradients of its copies are added. With static sizes the
    taps are transposed at compile time, so that each source element has the resized ones that used it; with dynamic
    sizes the gradient is multiplied by the matrix [resized, source] of weights.
    """
    out = grad.shape[axis]
    # For these counts PyTorch repeats elements whatever `scale` is.
    if (repeats := repetitions(n, out, scale, how, ignoring_scale=SCALE_IGNORING_COUNTS)) is not None:
        split = shapes.reshape(builder, grad, [*grad.shape[:axis], n, repeats, *grad.shape[axis + 1 :]])
        return reductions.reduce(builder, "add", split, [axis + 1])
    dtype = F32 if how.is_nearest else grad.dtype
    if isinstance(n, int) and isinstance(out, int):
        positions, factors = how.known_taps(n, out, scale, corners, dtype)
        return resampling.resampled(builder, grad, axis, *resampling.transposed(positions, factors, n))
    indices, weights = how.dynamic_taps(builder, n, out, scale, corners, dtype)
    columns = shapes.iota(builder, [1, n], axis=1, dtype=I64)
    matrix = builder.constant(0, grad.dtype)
    # Add the weight of each tap of each resized element (row) at the source element that it reads (column).
    for tap, weight in zip(indices, weights, strict=True):
        rows = (shapes.expand_dims(builder, vector, axes=[1]) for vector in (tap, weight))
        matrix = formula(
            builder, lambda m, j, i, w: m + i.is_equal(j).where(w.to(m.dtype), 0.0), matrix, columns, *rows
        )
    gradient = products.dot_general(builder, grad, matrix, batch=[], contracted=[(axis, 0)])
    return shapes.transpose(builder, gradient, [*range(axis), gradient.rank - 1, *range(axis, gradient.rank - 1)])


@converts(*(f"aten.grid_sampler_{n}d_backward" for n in (2, 3)))
def grid_sampler_backward(
    builder: Builder, grad_output: Tensor, input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int,
    align_corners: bool, output_mask: Any,
) -> tuple[Tensor | None, ...]:  # fmt: skip
    """Return the gradients of the image and of the grid. `output_mask` has a bool for each; None replaces one that it
    does not request. The modes are those of `sampler_of`.
    """
    how = sampler_of(builder, interpolation_mode, padding_mode, align_corners)
    inner = normalization.wide(input.dtype)
    grad, x, positions = (ew.convert(builder, operand, inner) for operand in (grad_output, input, grid))
    rules = (sampling_gradients.image_gradient, sampling_gradients.grid_gradient)
    return tuple(
        ew.convert(builder, rule(builder, grad, x, positions, how), input.dtype) if is_requested else None
        for rule, is_requested in zip(rules, output_mask, strict=True)
    )


register({f"aten.{name}_backward": _upsample(*how) for name, how in UPSAMPLE.items()})
