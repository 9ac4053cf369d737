"""Conversions of the gradients of pooling."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from pydispatch.frontends.torch.nodes.windows import PoolWindows, divisor_of_windows
from pydispatch.frontends.torch.registry import register
from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import I64, DType
from pydispatch.graph.sizes import Size, product
from pydispatch.graph.values import Tensor
from pydispatch.operations import assignment, normalization, products, reductions, shapes, windows
from pydispatch.operations import elementwise as ew
from pydispatch.operations.formulas import Element, formula

Ints = Sequence[int]


def _max_pool(
    spatial: int, builder: Builder, grad_output: Tensor, self: Tensor, kernel_size: Ints, stride: Ints, padding: Ints,
    dilation: Ints, ceil_mode: bool, indices: Tensor,
) -> Tensor:  # fmt: skip
    """Return the gradient of max pooling: add the gradient of each window to the element that is its maximum.

    indices: row-major index, in its image, of the maximum of each window.
    """
    p = PoolWindows(builder, self, spatial, kernel_size, stride, padding, dilation, ceil_mode)
    inner = normalization.wide(self.dtype)  # f32 for smaller floats: gradients of overlapping windows are added
    grad, positions = ew.convert(builder, p.batched(grad_output), inner), p.batched(indices)
    gradient = windows.sum_over_windows(builder, grad, p.x.shape[2:], p.kernel, p.window, positions)
    return p.without_batch(ew.convert(builder, gradient, self.dtype))


def _avg_pool(
    spatial: int, builder: Builder, grad_output: Tensor, self: Tensor, kernel_size: Ints, stride: Ints, padding: Ints,
    ceil_mode: bool, count_include_pad: bool, divisor_override: int | None,
) -> Tensor:  # fmt: skip
    """Return the gradient of average pooling: distribute the gradient of each window evenly over its elements.

    The gradient is divided by `divisor_override`; if that is None, by the number of the window's elements, of which
    those in the padding count only with `count_include_pad`.
    """
    p = PoolWindows(builder, self, spatial, kernel_size, stride, padding, dilation=(1,), ceil=ceil_mode)
    inner = normalization.wide(self.dtype)
    divisor = divisor_of_windows(builder, p, count_include_pad, divisor_override, inner)
    share = ew.binary(builder, "div", ew.convert(builder, p.batched(grad_output), inner), divisor)
    gradient = windows.sum_over_windows(builder, share, p.x.shape[2:], p.kernel, p.window)
    return p.without_batch(ew.convert(builder, gradient, self.dtype))


# -- pooling to a size


def _adaptive_avg_pool(spatial: int, builder: Builder, grad_output: Tensor, self: Tensor) -> Tensor:
    """Return the gradient of adaptive average pooling, which averages along one axis after the other."""
    gradient = ew.convert(builder, grad_output, normalization.wide(self.dtype))
    for axis in range(self.rank - spatial, self.rank):
        gradient = _adaptive_mean_gradient(builder, gradient, axis, self.shape[axis])
    return ew.convert(builder, gradient, self.dtype)


def _adaptive_mean_gradient(builder: Builder, grad: Tensor, axis: int, size: Size) -> Tensor:
    """Return the gradient of adaptive average pooling along an axis of `size` elements.

    grad: gradient of the means of the windows.

    Window o of `out` windows has the elements from floor(o * size / out) to ceil((o + 1) * size / out), exclusive.
    If all windows have one size, the gradient of each mean is divided evenly among the elements of its window.
    Otherwise windows may overlap, and the gradient is multiplied by a matrix of weights: 1 / size of the window for the
    elements in a window, else 0.
    """
    out = grad.shape[axis]
    if out == size:
        return grad
    if out == 1 or (isinstance(out, int) and isinstance(size, int) and size % out == 0):
        window_size = size // out
        shape = [*grad.shape[: axis + 1], window_size, *grad.shape[axis + 1 :]]
        share = formula(builder, lambda g, n: g / n, grad, reductions.size_as(builder, window_size, grad.dtype))
        gradient = shapes.broadcast_to(builder, shapes.expand_dims(builder, share, [axis + 1]), shape)
        return shapes.reshape(builder, gradient, [*grad.shape[:axis], size, *grad.shape[axis + 1 :]])
    # Multiply by the weights [size, out] and sum over the windows. The elements are then the last axis of the product:
    # move it back to `axis`.
    gradient = products.dot_general(
        builder, grad, _adaptive_mean_weights(builder, size, out, grad.dtype), batch=[], contracted=[(axis, 1)]
    )
    return shapes.transpose(builder, gradient, [*range(axis), gradient.rank - 1, *range(axis, gradient.rank - 1)])


def _adaptive_mean_weights(builder: Builder, size: Size, out: Size, dtype: DType) -> Tensor:
    """Return the weight of each of `size` elements in each of `out` means of adaptive pooling, [size, out].

    Adaptive pooling has a stated number of windows: window o has the elements from floor(o * size / out) to
    ceil((o + 1) * size / out), exclusive. For example, the 3 windows of 5 elements are [0, 2), [1, 4) and [3, 5), and
    the rows of the result are [1/2, 0, 0], [1/2, 1/3, 0], [0, 1/3, 0], [0, 1/3, 1/2] and [0, 0, 1/2].
    """
    column = shapes.reshape(builder, shapes.iota(builder, [size], axis=0, dtype=I64), [size, 1])

    def share(i: Element, n: Element, m: Element) -> Element:
        """Return the weight of element i of n in one of m windows: 1 / size of the window if i is inside, else 0.

        This is called for each entry of a table [n, m]; the index of the window is the entry's position along axis 1.
        """
        window = i.position(axis=1, dtype=I64)
        # floor(window * n / m), and ceil((window + 1) * n / m), which is exclusive; divisions of integers round down.
        first, limit = (window * n) / m, ((window + 1) * n + m - 1) / m
        weight = i.const(1).to(dtype) / (limit - first).to(dtype)
        return ((i >= first) & (i < limit)).where(weight, 0.0)

    element_indices = shapes.broadcast_to(builder, column, [size, out])
    return formula(
        builder, share, element_indices, reductions.size_as(builder, size, I64), reductions.size_as(builder, out, I64)
    )


def _adaptive_max_pool(spatial: int, builder: Builder, grad_output: Tensor, self: Tensor, indices: Tensor) -> Tensor:
    """Return the gradient of adaptive max pooling: add the gradient of each window to the element that is its maximum.

    indices: row-major index, in its image, of the maximum of each window.
    """
    lead = self.shape[: self.rank - spatial]
    grad, positions = (shapes.reshape(builder, x, [product(lead), -1]) for x in (grad_output, indices))
    sum_dtype = normalization.wide(self.dtype)  # f32 for smaller floats
    zeros = shapes.full(builder, 0, [product(lead), product(self.shape[-spatial:])], sum_dtype)
    gradient = assignment.put_along(
        builder, zeros, positions, ew.convert(builder, grad, sum_dtype), axis=1, combine="add"
    )
    return ew.convert(builder, shapes.reshape(builder, gradient, self.shape), self.dtype)


register({
    **{f"aten.max_pool{n}d_with_indices_backward": partial(_max_pool, n) for n in (2, 3)},
    **{f"aten.avg_pool{n}d_backward": partial(_avg_pool, n) for n in (2, 3)},
    **{f"aten._adaptive_avg_pool{n}d_backward": partial(_adaptive_avg_pool, n) for n in (2, 3)},
    **{f"aten.adaptive_max_pool{n}d_backward": partial(_adaptive_max_pool, n) for n in (2, 3)},
})  # fmt: skip
