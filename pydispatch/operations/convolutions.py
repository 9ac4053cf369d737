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
from pydispatch.operations.products import contract
from pydispatch.operations.shapes import rearranged, reshape, squeeze, transpose
from pydispatch.operations.slicing import pad, slice_axis


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
        return _without_inserted_zeros(builder, x, w, window, input_dilations, dtype, channels_last)
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
    """Return whether `_without_inserted_zeros` can compute a convolution with these input dilations, `factors`.

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


def _without_inserted_zeros(
    builder: Builder, x: Tensor, w: Tensor, window: Window, factors: Sequence[int], dtype: DType, channels_last: bool
) -> Tensor:
    """Return the convolution of x with `factors` - 1 zeros between its elements, without the products with these zeros.

    Along an axis with factor s, padding L before it and kernel w, result o is phase r (0 <= r < s) of group u, where
    s u + r = o + s - 1 - L. It is the sum over p of x[u + p] w[s p + s - 1 - r]. One contraction computes all phases of
    all groups; a reshape interleaves them. `window` has strides and dilations of 1, `channels_last` is that of
    `convolution`.

    If s is 2 and the first result is phase 1, each group is shifted by one result, so that none lies outside of the
    result: it is phase 1 of group u and phase 0 of group u + 1. Loops over phases then count 1 - r, which is also the
    distance from u.
    """
    # Along each spatial axis, the groups of results and the padding of x by which they read from its beginning.
    spatial = x.rank - 2
    n, f, c = x.shape[0], w.shape[0], x.shape[1]
    grouped = [
        _GroupedAxis.of(x.shape[2 + axis], w.shape[2 + axis], s, window.low[axis], window.high[axis])
        for axis, s in enumerate(factors)
    ]
    groups = [axis.groups for axis in grouped]
    x = pad(builder, x, [0, 0, *(axis.low for axis in grouped)], [0, 0, *(axis.high for axis in grouped)])
    steps = [k // s for k, s in zip(w.shape[2:], factors, strict=True)]
    d = AffineExpr.dimension

    # The loops of the contraction are n, groups u..., phases r..., f, c, steps p..., in this order. With one spatial
    # axis they are d0 to d5: group_dims is [1], phase_dims [2], at_f 3, at_c 4 and step_dims [5].
    group_dims = range(1, 1 + spatial)
    phase_dims = range(group_dims.stop, group_dims.stop + spatial)
    at_f, at_c = phase_dims.stop, phase_dims.stop + 1
    step_dims = range(at_c + 1, at_c + 1 + spatial)
    count = step_dims.stop

    # The filters are first rearranged to the order of the loops that read them.
    order = [*phase_dims, *step_dims, at_c, at_f] if channels_last else [*phase_dims, at_f, at_c, *step_dims]
    # The element of the kernel, s p + s - 1 - r, along each spatial axis. The loop of a shifted axis counts 1 - r: this
    # is s - 1 - r.
    taps = [
        d(order.index(step)) * s + (d(order.index(phase)) if axis.is_shifted else d(order.index(phase)) * -1 + (s - 1))
        for phase, step, s, axis in zip(phase_dims, step_dims, factors, grouped, strict=True)
    ]
    loops = [n, *groups, *factors, f, c, *steps]
    source = AffineMap(len(order), 0, (d(order.index(at_f)), d(order.index(at_c)), *taps))
    w = rearranged(builder, w, tuple(loops[i] for i in order), source)

    # The contraction. Its result has each axis of groups before the axis of their phases, as [n, f, u, r, ...], which
    # is reshaped to one axis of results.
    is_parallel = [i < at_c for i in range(count)]  # the loops over c and the steps are reductions
    interleaved = [i for pair in zip(group_dims, phase_dims, strict=True) for i in pair]
    result = [0, *interleaved, at_f] if channels_last else [0, at_f, *interleaved]
    # The element of x, u + p; for a shifted axis the group of phase r is u + 1 - r.
    positions = [
        d(group) + d(phase) + d(step) if axis.is_shifted else d(group) + d(step)
        for group, phase, step, axis in zip(group_dims, phase_dims, step_dims, grouped, strict=True)
    ]
    convolved = contract(
        builder, x, w, x_map=AffineMap(count, 0, (d(0), d(at_c), *positions)),
        y_map=AffineMap(count, 0, tuple(d(i) for i in order)), out_map=AffineMap(count, 0, tuple(d(i) for i in result)),
        shape=tuple(loops[i] for i in result), parallel=is_parallel, dtype=dtype,
    )  # fmt: skip
    sizes = [groups[i] * s for i, s in enumerate(factors)]
    first_spatial_axis = 1 if channels_last else 2
    convolved = reshape(builder, convolved, [n, *sizes, f] if channels_last else [n, f, *sizes])
    for position, axis in enumerate(grouped):  # the first and the last group may have phases outside of the result
        convolved = slice_axis(builder, convolved, first_spatial_axis + position, axis.start, axis.start + axis.out)
    return transpose(builder, convolved, [0, x.rank - 1, *range(1, x.rank - 1)]) if channels_last else convolved


@dataclass(frozen=True)
class _GroupedAxis:
    """Spatial axis of a convolution of an operand with `factor` - 1 zeros inserted between its elements.

    `_without_inserted_zeros` creates one for each spatial axis. The results are divided into groups of `factor`
    consecutive ones. The phase of a result, from 0 to `factor` - 1, is its position in the group. All results of one
    phase multiply the same elements of the kernel; the other elements meet inserted zeros.

    Example: the operand a b c, factor 2, a kernel w of 4 elements, padding 1 before and after. With the zeros, the
    operand is 0 a 0 b 0 c 0. The results of group 0 are a w1 + b w3 (phase 0) and a w0 + b w2 (phase 1), those of group
    1 are b w1 + c w3 and b w0 + c w2. `out` is 4, `groups` is 2, and `start`, `low` and `high` are 0. With padding 2
    before, the first result is a w2, phase 1 of group -1. Groups are then shifted: the first one has the results a w2
    and a w1 + b w3.

    Attributes:
        out: Number of results.
        is_shifted: Whether each group has phase 1 of one group and phase 0 of the next, so that the first group is
            complete. Only if the factor is 2 and the first result is phase 1.
        start: Phase of the first result; 0 if groups are shifted.
        groups: Number of groups, the incomplete first and last one included.
        low: Padding elements before the operand, so that the first group reads from its beginning; below 0, elements
            that are cut off.
        high: Padding elements after the operand, so that the last group reads to its end; below 0 as for `low`.
    """

    out: int
    is_shifted: bool
    start: int
    groups: int
    low: int
    high: int

    @classmethod
    def of(cls, size: Size, kernel: Size, factor: int, before: Size, after: Size) -> _GroupedAxis:
        """Compute the groups and the padding of an axis. All sizes are static (`_can_skip_inserted_zeros`).

        A group has `factor` consecutive results of the convolution along the axis, which read the same elements of the
        operand. The phase r of a result is its position in the group: it multiplies element p of these by the element
        factor * p + factor - 1 - r of the kernel. For 3 elements, 4 elements of the kernel, factor 2 and padding 1
        before and after, the 4 results are 2 groups of 2 phases.

        Args:
            size: Number of elements of the operand, without the inserted zeros.
            kernel: Number of elements of the kernel, a multiple of the factor.
            factor: Distance of neighbouring elements after zeros were inserted.
            before: Zeros before the operand, counted after the insertion; below 0, elements that are cut off.
            after: Zeros after it.
        """
        assert isinstance(size, int) and isinstance(kernel, int) and isinstance(before, int) and isinstance(after, int)
        out = (size - 1) * factor + 1 + before + after - kernel + 1  # number of results
        # Result o is phase r of group u, with factor * u + r = o + factor - 1 - before (`_without_inserted_zeros`). The
        # groups u of the first result, o = 0, and of the last one, o = out - 1:
        first_group, last_group = (factor - 1 - before) // factor, (out + factor - 2 - before) // factor
        start, groups = (factor - 1 - before) % factor, last_group - first_group + 1
        # If the first result is phase 1 of 2, its group lacks phase 0: groups then have phase 1 and the next phase 0.
        is_shifted = factor == 2 and start == 1
        if is_shifted:
            groups = -(-out // 2)  # out / 2, rounded up
            last_group = first_group + groups  # phase 0 of the last pair
        return cls(
            out=out,
            is_shifted=is_shifted,
            start=0 if is_shifted else start,
            groups=groups,
            low=-first_group,
            high=last_group + kernel // factor - size,  # a group reads kernel // factor elements
        )


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
    ws = reverse(
        builder,
        reshape(builder, ws, [groups * filters_per_group, channels // groups, *w.shape[2:]]),
        range(2, 2 + spatial),
    )
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
    images = transpose(
        builder, reshape(builder, x, [n, groups, channels_per_group, *x.shape[2:]]), [2, 1, 0, *range(3, x.rank + 1)]
    )
    filters = transpose(
        builder,
        reshape(builder, grad, [n, groups, filters_per_group, *grad.shape[2:]]),
        [1, 2, 0, *range(3, x.rank + 1)],
    )
    result = _windows(builder, images, filters, inside, tuple(kernel), dtype, grouped=True)
    return reshape(
        builder, transpose(builder, result, [1, 2, 0, *range(3, x.rank + 1)]), [f, channels_per_group, *kernel]
    )
