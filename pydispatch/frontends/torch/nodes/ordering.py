"""Conversions of sorting, cumulative operators, searches in sorted rows, and distinct elements."""

from __future__ import annotations

from functools import partial

from pydispatch.frontends.torch.nodes.reductions import accumulator_type
from pydispatch.frontends.torch.promotion import Operand, as_tensor, promoted
from pydispatch.frontends.torch.registry import converts, register
from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import I8, I32, I64, DType
from pydispatch.graph.sizes import Size
from pydispatch.graph.values import Tensor
from pydispatch.operations import elementwise as ew
from pydispatch.operations import gathers, ordering, reductions, scans, selection, shapes, slicing
from pydispatch.operations.formulas import Element, formula
from pydispatch.operations.normalization import wide
from pydispatch.operations.reals import Scalar
from pydispatch.operations.scalars import Scalars


@converts("aten.sort", "aten.sort.stable")
def sort(
    builder: Builder, self: Tensor, dim: int = -1, descending: bool = False, *, stable: bool | None = None
) -> tuple[Tensor, Tensor]:
    """Return the sorted elements along an axis, and their indices in `self`. The sort is stable in any case."""
    if not self.rank:
        return self, builder.constant(0, I64)
    return ordering.sort_with_indices(builder, self, shapes.axis_of(builder, dim, self.rank), descending=descending)


@converts("aten.argsort", "aten.argsort.stable")
def argsort(builder: Builder, self: Tensor, dim: int = -1, descending: bool = False, *, stable: bool = True) -> Tensor:
    """Return the indices in `self`, along an axis, of the elements in sorted order. The sort is stable in any case."""
    return sort(builder, self, dim, descending)[1]


@converts("aten.topk")
def topk(
    builder: Builder, self: Tensor, k: Size, dim: int = -1, largest: bool = True, sorted: bool = True
) -> tuple[Tensor, Tensor]:
    """Return the `k` largest elements along an axis (smallest unless `largest`), and their indices in `self`.

    The largest (smallest) one is first, also if `sorted` is false.
    """
    if not self.rank:
        return self, builder.constant(0, I64)
    return ordering.top_k(builder, self, k, shapes.axis_of(builder, dim, self.rank), largest=largest)


@converts("aten.kthvalue")
def kthvalue(builder: Builder, self: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """Return the k-th smallest elements along an axis, and their indices in `self`; k is counted from 1."""
    if not self.rank:
        return self, builder.constant(0, I64)
    axis = shapes.axis_of(builder, dim, self.rank)
    kth = [slicing.slice_axis(builder, x, axis, k - 1, k) for x in ordering.sort_with_indices(builder, self, axis)]
    if not keepdim:
        kth = [shapes.squeeze(builder, x, [axis]) for x in kth]
    return kth[0], kth[1]


def _cumulative(name: str, builder: Builder, self: Tensor, dim: int, *, dtype: DType | None = None) -> Tensor:
    """Return the cumulative sum ("add") or product ("mul") along an axis, in the type `dtype`.

    None stands for i64 for integers and bools, and for the type of `self` for others.
    """
    dtype = accumulator_type(self, dtype)
    x = ew.convert(builder, self, wide(dtype))
    running = scans.cumulative(builder, name, x, shapes.axis_of(builder, dim, x.rank)) if x.rank else x
    return ew.convert(builder, running, dtype)


@converts("aten.logcumsumexp")
def logcumsumexp(builder: Builder, self: Tensor, dim: int) -> Tensor:
    """Return the logarithm of the cumulative sum of exponentials, without overflow of the exponentials."""
    x = ew.convert(builder, self, wide(self.dtype))
    if not x.rank:
        return self

    def combined(scalars: Scalars, lhs: Scalar, rhs: Scalar) -> Scalar:
        """Return log(exp(running) + exp(element)), computed as high + log(1 + exp(low - high)) without overflow."""
        running, element = Element(scalars, lhs), Element(scalars, rhs)
        low, high = running.min(element), running.max(element)
        # Two equal infinities have that infinity as the result, since low - high would be NaN.
        is_infinite = low.is_equal(high) & ~low.unary("is_finite")
        return is_infinite.where(high, high + (low - high).unary("exp").unary("log1p")).scalar

    running_ = scans.cumulative(builder, combined, x, shapes.axis_of(builder, dim, x.rank))
    return ew.convert(builder, running_, self.dtype)


def _cumulative_extreme(name: str, builder: Builder, self: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """Return the cumulative "max" or "min" along an axis, and the index of the extreme's last occurrence so far."""
    if not self.rank:
        return self, builder.constant(0, I64)
    axis = shapes.axis_of(builder, dim, self.rank)
    x = ew.convert(builder, self, I8) if self.dtype.is_bool else self
    extremes = scans.cumulative(builder, name, x, axis)

    def position(value: Element, best: Element) -> Element:
        """Return the index of `value` along the axis if it equals `best`, the cumulative extreme there; else 0.

        The cumulative maximum of these indices is the index of the extreme's last occurrence so far.
        """
        is_extreme = value.is_equal(best)
        if value.dtype.is_float:  # a NaN is the extreme from there on, and differs from itself
            is_extreme = is_extreme | value.unary("is_nan")
        return is_extreme.where(value.position(axis, I64), 0)

    positions = scans.cumulative(builder, "max", formula(builder, position, x, extremes), axis)
    return ew.convert(builder, extremes, self.dtype), positions


@converts("aten.searchsorted")
def searchsorted(
    builder: Builder, sorted_sequence: Tensor, self: Operand, *, out_int32: bool = False, right: bool = False,
    side: str | None = None, sorter: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Return, for each element of `self`, the number of elements of a sorted row that are less; with `right` or
    side="right", less or equal. That is the index at which the element can be inserted.

    For example, 3 in the row [1, 3, 3, 5] gives 1, and 3 with `right`.

    Args:
        builder: The builder.
        sorted_sequence: One row for all elements, [n], or a row for each row of `self`, [..., n].
        self: Elements, [..., k], or a number.
        out_int32: Whether the result is i32 instead of i64.
        right: Whether equal elements count too.
        side: "right" is the same as `right`; "left" or None has no effect.
        sorter: Indices that sort `sorted_sequence`, if it is not sorted.
    """
    x, rows = promoted(builder, as_tensor(builder, self), sorted_sequence)
    if sorter is not None:
        rows = gathers.take_along(builder, rows, sorter, rows.rank - 1)
    if rows.rank > 1:  # a row for each row of x: each element of this row of x is compared to the whole sorted row
        rows = shapes.expand_dims(builder, rows, [rows.rank - 1])
    # Count the elements r of the row with r < x, or r <= x. These are computed as not (r >= x), or not (r > x), which
    # are true if x is NaN: a NaN is sorted after all numbers.
    order = "gt" if right or side == "right" else "ge"
    below = ew.unary(builder, "not", ew.compare(builder, order, rows, shapes.expand_dims(builder, x, [x.rank])))
    return reductions.reduce(builder, "add", ew.convert(builder, below, I32 if out_int32 else I64), [x.rank])


@converts("aten.bucketize")
def bucketize(
    builder: Builder, self: Operand, boundaries: Tensor, *, out_int32: bool = False, right: bool = False
) -> Tensor:
    """Return, for each element of `self`, how many boundaries are less than it; with `right`, less than or equal to it.

    `boundaries` is a vector in ascending order.
    """
    return searchsorted(builder, boundaries, self, out_int32=out_int32, right=right)


# -- distinct elements


Distinct = tuple[Tensor, Tensor, Tensor]
"""Distinct elements, the inverse (for each element the index of its equal among these), and how often each occurs."""


def _requested(builder: Builder, distinct: Distinct, inverse: bool, counts: bool) -> Distinct:
    """Replace the inverse and the counts by empty vectors if the call does not request them."""
    none = builder.constant([], I64)
    return distinct[0], distinct[1] if inverse else none, distinct[2] if counts else none


@converts("aten._unique2")
def unique(
    builder: Builder, self: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False
) -> Distinct:
    """Return the distinct elements in ascending order, the inverse and the counts; `sorted` has no effect.

    The inverse has, for each element of `self`, the index of its equal among the distinct ones. The counts are how
    often each distinct element occurs. Inverse and counts are empty unless requested.
    """
    values, _, inverse, counts = selection.distinct_slices(
        builder, shapes.reshape(builder, self, [-1]), axis=0, sort=True
    )
    return _requested(
        builder, (values, shapes.reshape(builder, inverse, self.shape), counts), return_inverse, return_counts
    )


@converts("aten.unique_dim")
def unique_dim(
    builder: Builder, self: Tensor, dim: int, sorted: bool = True, return_inverse: bool = False,
    return_counts: bool = False,
) -> Distinct:  # fmt: skip
    """Return the distinct slices along an axis in ascending order, the inverse and the counts; `sorted` has no effect.

    The inverse has, for each slice of `self`, the index of its equal among the distinct ones. The counts are how often
    each distinct slice occurs. Inverse and counts are empty unless requested.
    """
    values, _, inverse, counts = selection.distinct_slices(
        builder, self, shapes.axis_of(builder, dim, self.rank), sort=True
    )
    return _requested(builder, (values, inverse, counts), return_inverse, return_counts)


@converts("aten.unique_consecutive")
def unique_consecutive(
    builder: Builder, self: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Distinct:
    """Return the elements that differ from the one before, and the inverse and the counts.

    With `dim`, the elements are slices along this axis; without, those of the flattened tensor. The inverse is, for
    each element, the index of its run of equal neighbours. The counts are the lengths of the runs. Inverse and counts
    are empty unless requested.
    """
    x = shapes.reshape(builder, self, [-1]) if dim is None else self
    values, inverse, counts = selection.distinct_neighbours(builder, x, shapes.axis_of(builder, dim or 0, x.rank))
    inverse = shapes.reshape(builder, inverse, self.shape) if dim is None else inverse
    return _requested(builder, (values, inverse, counts), return_inverse, return_counts)


register({
    "aten.cumsum": partial(_cumulative, "add"),
    "aten.cumprod": partial(_cumulative, "mul"),
    **{f"aten.cum{name}": partial(_cumulative_extreme, name) for name in ("max", "min")},
})  # fmt: skip
