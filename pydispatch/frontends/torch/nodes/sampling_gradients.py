"""Conversions of the gradients of resizing and of sampling by a grid."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from pydispatch.frontends.torch.nodes.resizing import SCALE_IGNORING_COUNTS, UPSAMPLE, Method, repetitions
from pydispatch.frontends.torch.nodes.sampling import sampler_of
from pydispatch.frontends.torch.registry import converts, register
from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import F32, I64
from pydispatch.graph.sizes import Size
from pydispatch.graph.values import Tensor
from pydispatch.operations import elementwise as ew
from pydispatch.operations import normalization, products, reductions, resampling, sampling_gradients, shapes
from pydispatch.operations.formulas import formula

Sizes = Sequence[Size]


def _gradient_of_nearest(
    spatial: int, how: Method, builder: Builder, grad_output: Tensor, output_size: Sizes, input_size: Sizes,
    *scales: float | None,
) -> Tensor:  # fmt: skip
    """Return the gradient of nearest-neighbour resizing of the last `spatial` axes; see `_gradient_of_interpolated`."""
    return _gradient_of_image(
        builder, grad_output, input_size, how, corners=False, scales=_scales(builder, scales, spatial)
    )


def _gradient_of_interpolated(
    spatial: int, how: Method, builder: Builder, grad_output: Tensor, output_size: Sizes, input_size: Sizes,
    align_corners: bool, *scales: float | None,
) -> Tensor:  # fmt: skip
    """Return the gradient of the image before its last `spatial` axes were resized by interpolation.

    The operators are like `aten.upsample_bilinear2d_backward(grad_output, output_size, input_size, align_corners,
    scales_h, scales_w)`: for grad_output [1, 3, 8, 12] and input_size [1, 3, 4, 6] the result is [1, 3, 4, 6].
    """
    return _gradient_of_image(
        builder, grad_output, input_size, how, align_corners, scales=_scales(builder, scales, spatial)
    )


def _scales(builder: Builder, scales: Sequence[float | None], spatial: int) -> list[float | None]:
    """Return the scale of each of `spatial` axes; None for one that is not stated, the ratio of the sizes."""
    if len(scales) > spatial:
        raise builder.fail(f"it has {len(scales)} scales for {spatial} axes")
    return [*scales, *[None] * (spatial - len(scales))]


def _gradient_of_image(
    builder: Builder, grad: Tensor, input_size: Sizes, how: Method, corners: bool, scales: Sequence[float | None]
) -> Tensor:
    """Return the gradient of an image whose last axes were resized, one for each of `scales`, by the method `how`.

    input_size: all sizes of the image. corners: whether the centers of corner elements coincide (`align_corners`).
    """
    # Sums of floats smaller than f32 are computed in f32.
    gradient = ew.convert(builder, grad, normalization.wide(grad.dtype))
    first = grad.rank - len(scales)
    for axis, scale in enumerate(scales, first):
        gradient = _axis_gradient(builder, gradient, axis, input_size[axis - grad.rank], scale, corners, how)
    return ew.convert(builder, gradient, grad.dtype)


def _axis_gradient(
    builder: Builder, grad: Tensor, axis: int, n: Size, scale: float | None, corners: bool, how: Method
) -> Tensor:
    """Return the gradient of the n elements along an axis that was resized, from the gradient of the resized elements.

    A resized element is a sum over its taps: source elements, each times a weight. The gradient of a source element is
    the sum over the taps that read it: the weight times the gradient of the resized element. For example, linear
    interpolation resizes [a, b] to [a, 0.75 * a + 0.25 * b, 0.25 * a + 0.75 * b, b]. If these four have the gradients
    g, that of a is g[0] + 0.75 * g[1] + 0.25 * g[2].

    The sums are computed in one of three ways:
    - If each element was only repeated, add the gradients of its copies.
    - With static sizes, list the taps by source element at compile time (`resampling.transposed`).
    - With a dynamic size, multiply the gradient by the matrix of weights [resized, source].

    Args:
        builder: The builder.
        grad: Gradient of the resized tensor.
        axis: The resized axis, not negative.
        n: Size of the axis before resizing.
        scale: Factor that the call states; None for the ratio of the sizes.
        corners: Whether the centers of the corner elements coincide (`align_corners`).
        how: The method.
    """
    out = grad.shape[axis]
    # Each element was only repeated. For the counts SCALE_IGNORING_COUNTS PyTorch repeats it whatever `scale` is.
    if (repeats := repetitions(n, out, scale, how, ignoring_scale=SCALE_IGNORING_COUNTS)) is not None:
        split = shapes.reshape(builder, grad, [*grad.shape[:axis], n, repeats, *grad.shape[axis + 1 :]])
        return reductions.reduce(builder, "add", split, [axis + 1])
    dtype = F32 if how.is_nearest else grad.dtype  # of source positions: f32 for nearest elements, as in PyTorch
    if isinstance(n, int) and isinstance(out, int):
        positions, factors = how.known_taps(n, out, scale, corners, dtype)
        return resampling.resampled(builder, grad, axis, *resampling.transposed(positions, factors, n))
    indices, weights = how.dynamic_taps(builder, n, out, scale, corners, dtype)
    columns = shapes.iota(builder, [1, n], axis=1, dtype=I64)
    matrix = builder.constant(0, grad.dtype)  # of rank 0; the first sum below broadcasts to [out, n]
    # Add the weight of each tap of each resized element (row) at the source element that it reads (column).
    for tap, weight in zip(indices, weights, strict=True):
        rows = (shapes.expand_dims(builder, vector, axes=[1]) for vector in (tap, weight))
        matrix = formula(
            builder, lambda m, j, i, w: m + i.is_equal(j).where(w.to(m.dtype), 0.0), matrix, columns, *rows
        )
    # The product has the source elements along its last axis; move that to `axis`.
    gradient = products.dot_general(builder, grad, matrix, batch=[], contracted=[(axis, 0)])
    return shapes.transpose(builder, gradient, [*range(axis), gradient.rank - 1, *range(axis, gradient.rank - 1)])


@converts(*(f"aten.grid_sampler_{n}d_backward" for n in (2, 3)))
def grid_sampler_backward(
    builder: Builder, grad_output: Tensor, input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int,
    align_corners: bool, output_mask: Any,
) -> tuple[Tensor | None, ...]:  # fmt: skip
    """Return the gradients of the image `input` and of the grid. `output_mask` has a bool for both: whether it is
    requested; otherwise it is None. The modes are PyTorch's numbers of the interpolation and of the padding.
    """
    how = sampler_of(builder, interpolation_mode, padding_mode, align_corners)
    inner = normalization.wide(input.dtype)
    grad, x, positions = (ew.convert(builder, operand, inner) for operand in (grad_output, input, grid))
    rules = (sampling_gradients.image_gradient, sampling_gradients.grid_gradient)
    return tuple(
        ew.convert(builder, rule(builder, grad, x, positions, how), input.dtype) if is_requested else None
        for rule, is_requested in zip(rules, output_mask, strict=True)
    )


register({
    f"aten.{name}_backward": partial(
        _gradient_of_nearest if method.is_nearest else _gradient_of_interpolated, axes, method
    )
    for name, (axes, method) in UPSAMPLE.items()
})  # fmt: skip
