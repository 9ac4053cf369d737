"""Convolutions over sliding windows, their transposes, and their gradients by the filter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir.affine import AffineExpr, AffineMap

from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import DType
from pydispatch.graph.size_functions import ceil_div, minimum
from pydispatch.graph.sizes import Expr, Shape, Size, differ
from pydispatch.graph.values import Tensor
from pydispatch.operations.indexing import reverse
from pydispatch.operations.inserted_zeros import convolve_without_inserted_zeros
from pydispatch.operations.products import contract
from pydispatch.operations.shapes import reshape, squeeze, transpose
from pydispatch.operations.slicing import pad


@dataclass(frozen=True)
class Window:
    """Sliding window of a convolution or pooling. All fields have one entry per spatial axis.

    Attributes:
        strides: Distances between neighbouring windows.
        low: Padding elements before the axis.
        high: Padding elements after the axis.
        dilations: Distances between neighbouring elements of a window.
    """

    strides: tuple[int, ...]
    low: tuple[Size, ...]
    high: tuple[Size, ...]
    dilations: tuple[int, ...]

    @staticmethod
    def unit(rank: int) -> Window:
        """Return a window that moves one step at a time, without padding and dilation."""
        return Window((1,) * rank, (0,) * rank, (0,) * rank, (1,) * rank)


def window_sizes(builder: Builder, x: Shape, kernel: Sequence[Size], window: Window, ceil: bool = False) -> Shape:
    """Return the number of windows that fit into each spatial axis.

    `x` and `kernel` are the sizes of the spatial axes of images and of a window, without batch and channels. With
    `ceil`, the last window may end after the padding, but it begins within the elements or the padding before them.
    """
    counts: list[Size] = []
    for d, (n, k) in enumerate(zip(x, kernel, strict=True)):
        extent = (k - 1) * window.dilations[d] + 1  # elements from the first to the last one of a dilated window
        room = n + window.low[d] + window.high[d] - extent
        if not isinstance(room, Expr) and room < 0:
            raise builder.fail(
                f"a window of {extent} does not fit into {n} with padding {window.low[d]} and {window.high[d]}"
            )
        step = window.strides[d]
        last = room // step  # index of the last window
        if ceil:
            last_within = (n + window.low[d] - 1) // step  # the last one that begins before the padding at the end
            last = minimum(ceil_div(room, step), last_within)
        counts.append(last + 1)
    return tuple(counts)


def convolution(
    builder: Builder,
    x: Tensor,
    w: Tensor,
    window: Window,
    *,
    groups: int = 1,
    input_dilations: Sequence[int] | None = None,
    dtype: DType | None = None,
    channels_last: bool = False,
) -> Tensor:
    """Return the convolution of x [n, c, spatial...] by w [f, c / groups, kernel...] as [n, f, spatial...].

    Filters are not flipped, as usual in neural networks. x [1, 8, 32, 32] by w [16, 8, 3, 3] without padding is
    [1, 16, 30, 30]; in two groups, w is [16, 4, 3, 3]: filters 0 to 7 read channels 0 to 3, the others channels 4 to 7.

    Args:
        builder: The builder.
        x: The images.
        w: The filters.
        window: Strides, padding and dilations.
        groups: Number of groups, which must divide c and f.
        input_dilations: For each spatial axis, the distance of neighbouring elements of x after zeros were inserted
            between them; None for 1.
        dtype: Type of the products, sums and result; None for the type of x.
        channels_last: Whether the caller transposes the result so that f is last. A convolution that skips the inserted
            zeros is then computed in this order. The result is [n, f, spatial...] in both cases.
    """
    spatial = x.rank - 2
    dtype = dtype or x.dtype
    if groups == 1 and input_dilations and _can_skip_inserted_zeros(x, w, window, input_dilations):
        padding = list(zip(window.low, window.high, strict=True))
        return convolve_without_inserted_zeros(builder, x, w, padding, input_dilations, dtype, channels_last)
    # Apply the padding and the input dilations, so that only strides and dilations of the window remain.
    x = _padded(builder, x, window, input_dilations or [1] * spatial)
    inside = Window(window.strides, (0,) * spatial, (0,) * spatial, window.dilations)
    out = window_sizes(builder, x.shape[2:], w.shape[2:], inside)
    x, w = _with_equal_channels(builder, x, w, groups)
    if groups == 1:
        return _windows(builder, x, w, inside, out, dtype)
    # Split channels and filters into groups. The channels f of the result are the filters of all groups, in order.
    channels_per_group, filters = w.shape[1], w.shape[0]
    if isinstance(filters, Expr):
        raise builder.fail(f"convolution of {x} by {w} in {groups} groups: the number of filters must be known")
    filters_per_group = filters // groups
    xs = reshape(builder, x, [x.shape[0], groups, channels_per_group, *x.shape[2:]])
    ws = reshape(builder, w, [groups, filters_per_group, channels_per_group, *w.shape[2:]])
    result = _windows(builder, xs, ws, inside, out, dtype, grouped=True)
    return reshape(builder, result, [x.shape[0], filters, *out])


def _padded(builder: Builder, x: Tensor, window: Window, input_dilations: Sequence[int]) -> Tensor:
    """Return images [n, c, spatial...] with zeros between neighbours, and with the padding of a window around them.

    A dynamic axis with zeros between its elements must not be empty, which each call checks. With one zero, its new
    size is then 2 * n - 1 without a case for n = 0, so that it is known to equal the sizes of other layers.
    """
    interior = [0, 0, *(distance - 1 for distance in input_dilations)]  # zeros between neighbours
    padded = pad(builder, x, (0, 0, *window.low), (0, 0, *window.high), value=0, interior=interior)
    shape = list(padded.shape)
    for d, distance in enumerate(input_dilations):
        size = x.shape[d + 2]
        if distance > 1 and isinstance(size, Expr):
            builder.require_positive(size, f"convolution of {x}: axis {d + 2} has no elements to spread")
            shape[d + 2] = (size - 1) * distance + 1 + window.low[d] + window.high[d]
    return builder.as_shape(padded, shape)


def _with_equal_channels(builder: Builder, x: Tensor, w: Tensor, groups: int) -> tuple[Tensor, Tensor]:
    """Return images [n, c, spatial...] and filters [f, c / groups, kernel...] with the same expression for c.

    A dynamic c of the images is replaced by that of the filters; dynamic channels of filters by that of the images.
    Raise CompileError if their numbers of channels are known to differ; dynamic ones are compared in each call.
    """
    channels, (filters, filter_channels, *kernel) = x.shape[1], w.shape
    expected = filter_channels * groups
    if differ(channels, expected) or (not isinstance(filters, Expr) and filters % groups):
        raise builder.fail(f"convolution of {x} by {w} in {groups} group(s): {channels} channels, {filters} filters of "
                     f"{filter_channels} channels")  # fmt: skip
    builder.require_equal(
        channels, expected, f"convolution of {x} by {w} in {groups} group(s): {{a}} channels, the filters take {{b}}"
    )
    if isinstance(channels, Expr):
        return builder.as_shape(x, (x.shape[0], expected, *x.shape[2:])), w
    return x, builder.as_shape(w, (filters, channels // groups, *kernel))


def _can_skip_inserted_zeros(x: Tensor, w: Tensor, window: Window, factors: Sequence[int]) -> bool:
    """Return whether `convolve_without_inserted_zeros` can compute a convolution with these input dilations, `factors`.

    All sizes but the batch must be static, strides and dilations 1, and each kernel size a multiple of the factor. Then
    the inserted zeros meet the same elements of w in all results whose positions are equal modulo the factor. Operands
    must have elements, and at least one axis inserted zeros.
    """
    are_static = not any(isinstance(n, Expr) for n in (*x.shape[1:], *w.shape, *window.low, *window.high))
    has_unit_steps = {*window.strides, *window.dilations} == {1}
    is_multiple = all(not isinstance(k, Expr) and k % n == 0 for k, n in zip(w.shape[2:], factors, strict=True))
    has_zeros = max(factors) > 1
    is_empty = 0 in x.shape or 0 in w.shape
    return are_static and has_unit_steps and is_multiple and has_zeros and not is_empty


def _windows(
    builder: Builder, x: Tensor, w: Tensor, window: Window, out: Shape, dtype: DType, grouped: bool = False
) -> Tensor:
    """Return the products of filters with sliding windows over images that are padded already.

    The loops are n, (g,) f, out..., c, kernel...; for groups of one channel there is no loop over c.

    Args:
        builder: The builder.
        x: Images [n, c, spatial...]; with `grouped`, [n, g, c, spatial...].
        w: Filters [f, c, kernel...]; with `grouped`, [g, f, c, kernel...].
        window: Strides and dilations; its padding is not read.
        out: Number of windows along each spatial axis.
        dtype: Type of the result [n, (g,) f, out...].
        grouped: Whether the operands have an axis of groups.
    """
    spatial = len(out)
    if grouped and w.shape[2] == 1:  # depthwise: a single channel per group needs no loop
        x, w = squeeze(builder, x, axes=[2]), squeeze(builder, w, axes=[2])
    is_depthwise = grouped and x.rank == spatial + 2
    # The index of each loop.
    group_loops = 1 if grouped else 0  # number of loops over groups
    first_spatial_loop = 2 + group_loops
    result_loops = first_spatial_loop + spatial  # the loops after these are reductions
    count = result_loops + (0 if is_depthwise else 1) + spatial
    d = AffineExpr.dimension
    channel = [] if is_depthwise else [d(result_loops)]
    kernel = [d(count - spatial + n) for n in range(spatial)]
    # The index in the image is the start of the window plus the distance of the kernel's element from it.
    positions = [
        d(first_spatial_loop + n) * window.strides[n] + kernel[n] * window.dilations[n] for n in range(spatial)
    ]
    group = [d(1)] if grouped else []
    # From the loops to the indices of x, w and the result.
    x_map = AffineMap(count, 0, (d(0), *group, *channel, *positions))
    w_map = AffineMap(count, 0, (*group, d(1 + group_loops), *channel, *kernel))
    out_map = AffineMap(count, 0, tuple(d(n) for n in range(result_loops)))
    lead = (x.shape[0], x.shape[1], w.shape[1]) if grouped else (x.shape[0], w.shape[0])
    is_parallel = [n < result_loops for n in range(count)]
    return contract(builder, x, w, x_map, w_map, out_map, shape=(*lead, *out), parallel=is_parallel, dtype=dtype)


def transposed_convolution(
    builder: Builder,
    x: Tensor,
    w: Tensor,
    window: Window,
    *,
    groups: int = 1,
    output_padding: Sequence[Size] | None = None,
    dtype: DType | None = None,
) -> Tensor:
    """Return the gradient of a convolution by its input: x [n, c, ...] by w [c, f / groups, kernel...] as [n, f, ...].

    It is a convolution of x, dilated by the strides, by the flipped filters. A spatial axis of the result has the size
    (size - 1) * stride - low - high + (kernel - 1) * dilation + 1 + output padding. For example, x [1, 8, 5] by w
    [8, 4, 3] with stride 2 and padding 1 before and after is [1, 4, 9].

    Args:
        builder: The builder.
        x: The gradient of the result of the convolution.
        w: The filters of the convolution, which has c channels in its result and f in its input.
        window: The window of the convolution. Its padding crops the result of this function.
        groups: Number of groups of the convolution.
        output_padding: Number of elements appended to each spatial axis of the result; None for 0.
        dtype: Type of the products, sums and result; None for the type of x.
    """
    spatial = x.rank - 2
    extra = output_padding or [0] * spatial
    channels, filters_per_group = w.shape[0], w.shape[1]
    if isinstance(channels, Expr) or isinstance(filters_per_group, Expr) or channels % groups:
        raise builder.fail(
            f"transposed convolution of {x} by {w} in {groups} group(s): the filters need known numbers of channels, "
            "the first one a multiple of the groups"
        )
    # Filters of the forward convolution [c, f / groups, ...] become [f, c / groups, ...], with the kernel flipped.
    ws = reshape(builder, w, [groups, channels // groups, *w.shape[1:]])
    ws = transpose(builder, ws, [0, 2, 1, *range(3, ws.rank)])
    ws = reshape(builder, ws, [groups * filters_per_group, channels // groups, *w.shape[2:]])
    ws = reverse(builder, ws, range(2, 2 + spatial))
    # The span is the distance of the first and the last element of the kernel. With a padding of the span, each window
    # that meets an element of x has a result; results at the padding of the original convolution are left out.
    spans = [(k - 1) * dilation for k, dilation in zip(w.shape[2:], window.dilations, strict=True)]
    low = tuple(span - padding for span, padding in zip(spans, window.low, strict=True))
    high = tuple(span - padding + appended for span, padding, appended in zip(spans, window.high, extra, strict=True))
    forward = Window((1,) * spatial, low, high, window.dilations)
    return convolution(builder, x, ws, forward, groups=groups, input_dilations=window.strides, dtype=dtype)


def filter_gradient(
    builder: Builder, x: Tensor, grad: Tensor, kernel: Sequence[Size], window: Window, *, groups: int = 1,
    dtype: DType | None = None,
) -> Tensor:  # fmt: skip
    """Return the gradient of the filters [f, c / groups, kernel...] of `convolution`.

    x [n, c, spatial...] is the operand of the convolution, grad [n, f, spatial...] the gradient of its result. The
    gradient is a convolution of x by grad with channels and batch exchanged, and strides and dilations exchanged.
    `kernel` has the spatial sizes of the filters, `window` is that of the convolution. The default of `dtype` is the
    type of x.
    """
    spatial = x.rank - 2
    n, c, f = x.shape[0], x.shape[1], grad.shape[1]
    if isinstance(c, Expr) or isinstance(f, Expr) or c % groups or f % groups:
        raise builder.fail(f"gradient of the filters of {x} in {groups} group(s): numbers of channels must be known")

    # The convolution of the padded x by grad, with strides and dilations exchanged.
    x = pad(builder, x, (0, 0, *window.low), (0, 0, *window.high), value=0, interior=[0] * x.rank)
    no_padding = (0,) * spatial
    inside = Window(strides=window.dilations, low=no_padding, high=no_padding, dilations=window.strides)
    spatial_axes, dtype = range(2, x.rank), dtype or x.dtype
    # Images [c, n, spatial...] by filters [f, n, spatial...] are [c, f, kernel...].
    if groups == 1:
        images, filters = (transpose(builder, operand, [1, 0, *spatial_axes]) for operand in (x, grad))
        gradient = _windows(builder, images, filters, inside, tuple(kernel), dtype)
        return transpose(builder, gradient, [1, 0, *spatial_axes])

    # The same with an axis of groups: images [c / groups, groups, n, spatial...] by filters [groups, f / groups, n,
    # spatial...] are [c / groups, groups, f / groups, kernel...].
    channels_per_group, filters_per_group = c // groups, f // groups
    spatial_axes = range(3, x.rank + 1)
    images = reshape(builder, x, [n, groups, channels_per_group, *x.shape[2:]])
    images = transpose(builder, images, [2, 1, 0, *spatial_axes])
    filters = reshape(builder, grad, [n, groups, filters_per_group, *grad.shape[2:]])
    filters = transpose(builder, filters, [1, 2, 0, *spatial_axes])
    gradient = _windows(builder, images, filters, inside, tuple(kernel), dtype, grouped=True)
    gradient = transpose(builder, gradient, [1, 2, 0, *spatial_axes])
    return reshape(builder, gradient, [f, channels_per_group, *kernel])
