"""Conversions of adaptive pooling, which is given the size of the result. Windows may overlap, and their sizes may
differ by one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pydispatch.frontends.torch.registry import converts
from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import I64
from pydispatch.graph.sizes import Size
from pydispatch.graph.values import Tensor
from pydispatch.operations import elementwise as ew
from pydispatch.operations import gathers, normalization, reductions, shapes
from pydispatch.operations.formulas import Element, formula
from pydispatch.operations.reals import Scalar
from pydispatch.operations.scalars import Scalars

Sizes = Sequence[Size]
Reduce = Callable[[list[Tensor], int], list[Tensor]]
"""Function that reduces tensors of one shape together: reduce(tensors, axis) -> the reduced tensors, whose axis has
size 1."""
ReduceWindows = Callable[[list[Tensor], int, Tensor], list[Tensor]]
"""Function that reduces windows of different sizes: reduce_windows(tensors, axis, counts) -> the reduced tensors.

The axis before `axis` counts the windows. Only the first counts[o] elements of window o belong to it; the others repeat
the last of these. `counts` is [windows, 1].
"""


def _pooled(
    builder: Builder, tensors: list[Tensor], output_size: Sizes, *, reduce_equal_windows: Reduce,
    reduce_gathered_windows: ReduceWindows,
) -> list[Tensor]:  # fmt: skip
    """Pool tensors of one shape along their last axes, and return the pooled tensors.

    Each of the last axes is divided into as many windows as its entry of `output_size` states; each window is reduced
    over all tensors together. The axes are pooled one after the other.

    If all windows have the same size, they are an axis of the reshaped tensor: an axis of 6 with 3 windows is [3, 2].
    Otherwise their elements are gathered, and shorter windows repeat their last element: an axis of 5 with 2 windows is
    [2, 3], with the elements 0, 1, 2 and 2, 3, 4; an axis of 5 with 3 windows has 0, 1, 1 and 1, 2, 3 and 3, 4, 4.

    Args:
        builder: The builder.
        tensors: Tensors that are reduced together, such as elements and their indices.
        output_size: Number of windows along each pooled axis.
        reduce_equal_windows: Function(tensors, axis) -> the tensors reduced along `axis`, which has all elements of a
            window, and no others. The axis remains with size 1.
        reduce_gathered_windows: Function(tensors, axis, counts) -> the tensors reduced along `axis`, whose last
            elements may be repetitions: of window w, the first counts[w, 0] elements are reduced. The axis remains.
    """
    pooled = tensors
    for d, out in enumerate(output_size):
        axis = tensors[0].rank - len(output_size) + d
        shape = pooled[0].shape
        n = shape[axis]
        if out == n:  # windows of one element
            continue
        if out == 1:  # one window, the whole axis
            pooled = reduce_equal_windows(pooled, axis)
        elif isinstance(n, int) and isinstance(out, int) and n % out == 0:  # windows of one size: an axis of their own
            split = [*shape[:axis], out, n // out, *shape[axis + 1 :]]
            reduced = reduce_equal_windows([shapes.reshape(builder, x, split) for x in pooled], axis + 1)
            pooled = [shapes.squeeze(builder, x, [axis + 1]) for x in reduced]
        else:  # windows of different sizes, or of sizes that only a call knows
            indices, counts = _windows(builder, n, out)  # of the elements [windows, largest size], and [windows, 1]
            reduced = reduce_gathered_windows(
                [gathers.take(builder, x, indices, axis) for x in pooled], axis + 1, counts
            )
            pooled = [shapes.squeeze(builder, x, [axis + 1]) for x in reduced]
    return pooled


def _windows(builder: Builder, n: Size, out: Size) -> tuple[Tensor, Tensor]:
    """Return the indices [out, longest window] of the elements of each window of an axis, and their counts [out, 1].

    n: size of the axis. out: number of windows. A window that is shorter than the longest one repeats its last index.
    Window o has the elements from floor(o * n / out) to ceil((o + 1) * n / out), without the end. For n = 5 and out = 3
    the indices are [[0, 1, 1], [1, 2, 3], [3, 4, 4]] and the counts [[2], [3], [2]].
    """
    if isinstance(n, int) and isinstance(out, int):
        longest: Size = max(-(-(o + 1) * n // out) - o * n // out for o in range(out))
    else:
        longest = n // out + 2  # an upper bound: ceil(n / out) + 1
    size, count = (reductions.size_as(builder, v, I64) for v in (n, out))
    window = shapes.reshape(builder, shapes.iota(builder, [out], axis=0, dtype=I64), [out, 1])
    # Integer divisions round down; the last index is ceil((o + 1) * n / m) - 1 = floor(((o + 1) * n - 1) / m).
    first = formula(builder, lambda o, n, m: o * n / m, window, size, count)
    last = formula(builder, lambda o, n, m: ((o + 1) * n - 1) / m, window, size, count)
    within = shapes.reshape(builder, shapes.iota(builder, [longest], axis=0, dtype=I64), [1, longest])
    indices = formula(builder, lambda k, f, e: (f + k).min(e), within, first, last)
    return indices, formula(builder, lambda f, e: e - f + 1, first, last)


@converts(*(f"aten.adaptive_avg_pool{n}d" for n in (1, 2, 3)), *(f"aten._adaptive_avg_pool{n}d" for n in (2, 3)))
def adaptive_avg_pool(builder: Builder, self: Tensor, output_size: Sizes) -> Tensor:
    """Return the means of `output_size` windows along each spatial axis.

    Of `out` windows along an axis of n elements, window o has those from floor(o * n / out) to ceil((o + 1) * n / out),
    without the end: two windows of 5 elements have 0, 1, 2 and 2, 3, 4.
    """
    accumulation_dtype = normalization.wide(self.dtype)

    def mean(tensors: list[Tensor], axis: int) -> list[Tensor]:
        """Return the means of windows that all have the same size, whose elements are along `axis`.

        tensors: one tensor, in a list because `_pooled` also pools pairs of tensors, as for maxima and their indices.
        """
        return [reductions.mean(builder, x, [axis], keep=True) for x in tensors]

    def mean_of_windows(tensors: list[Tensor], axis: int, counts: Tensor) -> list[Tensor]:
        """Return the means of windows of different sizes, whose elements beyond the size are left out.

        tensors: one tensor; its axis `axis` has as many elements as the largest window, and the axis before it counts
        windows. counts: number of elements of each window, [windows, 1].
        """
        (x,) = tensors
        trailing = [1] * (x.rank - axis - 1)  # so that counts and indices broadcast to the axes after `axis`
        count = shapes.reshape(builder, counts, [*counts.shape, *trailing])
        index = shapes.reshape(builder, shapes.iota(builder, [x.shape[axis]], axis=0, dtype=I64), [-1, *trailing])
        # `x` repeats the last element of shorter windows: the repetitions count as 0 in the sum.
        counted = formula(builder, lambda v, k, c: (k < c).where(v, 0.0), x, index, count)
        total = reductions.reduce(builder, "add", counted, [axis], keep=True)
        return [formula(builder, lambda v, c: v / c.to(accumulation_dtype), total, count)]

    (means,) = _pooled(
        builder,
        [ew.convert(builder, self, accumulation_dtype)],
        output_size,
        reduce_equal_windows=mean,
        reduce_gathered_windows=mean_of_windows,
    )
    return ew.convert(builder, means, self.dtype)


@converts(*(f"aten.adaptive_max_pool{n}d" for n in (1, 2, 3)))
def adaptive_max_pool(builder: Builder, self: Tensor, output_size: Sizes) -> tuple[Tensor, Tensor]:
    """Return the largest element of each window and its row-major index in the spatial axes of the input.

    Of `out` windows along an axis of n elements, window o has those from floor(o * n / out) to ceil((o + 1) * n / out),
    without the end. The row-major index of element [2, 1] of spatial axes [4, 5] is 11.

    Of equal elements the first one is chosen. A NaN is larger than all numbers; of several NaN the last one is chosen.
    """
    spatial = len(output_size)
    # Running value and index before the first element. Any element replaces them: an equal one has a smaller index.
    starts = [
        builder.constant(reductions.least(self.dtype), self.dtype),
        builder.constant(reductions.largest(I64), I64),
    ]

    def reduce(tensors: list[Tensor], axis: int) -> list[Tensor]:
        """Return the maxima along an axis, which remains with size 1, and their positions.

        tensors: the elements, and the row-major index of each in the input. `starts` are the initial values of both.
        """
        reduced = reductions.reduce_with(builder, tensors, starts, [axis], _choose_larger)
        return [reductions.kept_axes(builder, x, tensors[0], [axis]) for x in reduced]

    index = _row_major_index(builder, self.shape[self.rank - spatial :])
    positions = shapes.broadcast_to(builder, index, self.shape)
    # Shorter windows repeat their last element and its index. A repeated element changes no maximum, so `counts`, the
    # numbers of elements without repetitions, are not needed.
    values, positions = _pooled(
        builder,
        [self, positions],
        output_size,
        reduce_equal_windows=reduce,
        reduce_gathered_windows=lambda tensors, axis, counts: reduce(tensors, axis),
    )
    return values, positions


def _row_major_index(builder: Builder, sizes: Sequence[Size]) -> Tensor:
    """Return a tensor of these sizes whose elements are their row-major indices: 0, 1, 2, ..."""
    index = builder.constant(0, I64)
    for axis, axis_size in enumerate(sizes, 1):
        size = reductions.size_as(builder, axis_size, I64)
        positions = shapes.iota(builder, [axis_size], axis=0, dtype=I64)
        axis_index = shapes.reshape(builder, positions, [-1, *[1] * (len(sizes) - axis)])
        index = formula(builder, lambda whole, n, at: whole * n + at, index, size, axis_index)
    return index


def _choose_larger(scalars: Scalars, running: Sequence[Scalar], elements: Sequence[Scalar]) -> list[Scalar]:
    """Return the larger one of two pairs (value, position): the running one, or that of an element.

    A NaN counts as larger than every number. Ties are decided by positions, since elements may be reduced in any order:
    the first of equal elements is taken, and the last of several NaN, as in PyTorch.
    """
    best, position, value, element_position = (Element(scalars, x) for x in (*running, *elements))
    takes_element = (value > best) | (value.is_equal(best) & (element_position < position))
    if value.dtype.is_float:
        is_first_or_later_nan = ~best.unary("is_nan") | (element_position > position)
        takes_element = takes_element | (value.unary("is_nan") & is_first_or_later_nan)
    pairs = ((value, best), (element_position, position))
    return [takes_element.where(taken, kept).scalar for taken, kept in pairs]
