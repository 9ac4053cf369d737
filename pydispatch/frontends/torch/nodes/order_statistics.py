"""Conversions of median and mode."""

from __future__ import annotations

from functools import partial

from pydispatch.frontends.torch.registry import converts, register
from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import I64
from pydispatch.graph.sizes import Expr, product
from pydispatch.graph.values import Tensor
from pydispatch.operations import gathers, ordering, reductions, scans, shapes, slicing
from pydispatch.operations.formulas import Element, formula

Pair = tuple[Tensor, Tensor]
"""Elements, and their indices along an axis."""


def _count_not_nan(builder: Builder, x: Tensor, axis: int) -> Tensor:
    """Return the number of elements along an axis that are not NaN; the axis has size 1 in the result."""
    is_not_nan = formula(builder, lambda v: v.is_equal(v).to(I64), x)  # only NaN differs from itself
    return reductions.reduce(builder, "add", is_not_nan, [axis], keep=True)


def _median_index(builder: Builder, x: Tensor, axis: int, skips_nan: bool) -> Tensor:
    """Return the index of the lower median of x in x sorted along an axis, with NaN last.

    Without `skips_nan`, the median of elements of which one is NaN is NaN: return the index of the first NaN.
    """

    def index(n: Element, size: Element) -> Element:
        """Return the index of the median among `size` sorted elements, of which the first n are not NaN.

        The index is 0 if there is no element to choose. Without `skips_nan`, the median of elements with a NaN is NaN,
        and its index is n, where the first NaN is.
        """
        if skips_nan:
            return ((n - 1) / 2).max(0)
        return n.is_equal(size).where(((size - 1) / 2).max(0), n)

    return formula(builder, index, _count_not_nan(builder, x, axis), reductions.size_as(builder, x.shape[axis], I64))


def _reduced_axis(builder: Builder, name: str, x: Tensor, dim: int) -> int:
    """Return the non-negative axis for `dim`, which may count from the end.

    Raise CompileError if its size is 0, and check dynamic sizes at run time. name: the operator, for the message.
    """
    axis = shapes.axis_of(builder, dim, x.rank)
    builder.require_positive(x.shape[axis], f"the {name} along axis {axis} of {x}: the axis has the size 0")
    return axis


def _median_along_axis(builder: Builder, self: Tensor, dim: int, keepdim: bool = False, *, skips_nan: bool) -> Pair:
    """Return the lower median along an axis, and its index in `self`. skips_nan: whether NaN are ignored."""
    if not self.rank:
        return self, builder.constant(0, I64)
    axis = _reduced_axis(builder, "median", self, dim)
    values, positions = ordering.sort_with_indices(builder, self, axis)
    at = _median_index(builder, self, axis, skips_nan)
    medians = gathers.take_along(builder, values, at, axis), gathers.take_along(builder, positions, at, axis)
    return medians if keepdim else _squeeze_pair(builder, medians, axis)


def _median_of_all(builder: Builder, self: Tensor, *, skips_nan: bool) -> Tensor:
    """Return the lower median of all elements. skips_nan: whether NaN are ignored.

    The median of no elements is NaN, which no integer type has: integers must have elements.
    """
    flat = shapes.reshape(builder, self, [product(self.shape)])
    size = flat.shape[0]
    values, _ = ordering.sort_with_indices(builder, flat, axis=0)
    if not self.dtype.is_float:
        builder.require_positive(size, f"the median of {self}: it has no elements, and {self.dtype} has no NaN")
    elif isinstance(size, Expr) or size == 0:  # append a NaN, which index 0 reads if there are no elements
        values = slicing.pad(builder, values, low=[0], high=[1], value=float("nan"))
    return shapes.reshape(
        builder,
        gathers.take_along(builder, values, _median_index(builder, flat, axis=0, skips_nan=skips_nan), axis=0),
        [],
    )


def _squeeze_pair(builder: Builder, results: Pair, axis: int) -> Pair:
    """Remove an axis of size 1 from two results."""
    return shapes.squeeze(builder, results[0], [axis]), shapes.squeeze(builder, results[1], [axis])


@converts("aten.mode")
def mode(builder: Builder, self: Tensor, dim: int = -1, keepdim: bool = False) -> Pair:
    """Return, along an axis, the smallest of the most frequent elements, and the index of its last occurrence."""
    if not self.rank:
        return self, builder.constant(0, I64)
    axis = _reduced_axis(builder, "mode", self, dim)
    values, positions = ordering.sort_with_indices(builder, self, axis)
    # In sorted order equal elements are adjacent. An element's index minus that of the first equal element counts the
    # equal elements before it: 0, 1, 0, 1, 2 for the elements 3, 3, 5, 5, 5. The largest count marks the last element
    # of the longest sequence.
    first = slicing.slice_axis(builder, values, axis, start=0, limit=1)
    all_but_last = slicing.slice_axis(builder, values, axis, start=0, limit=self.shape[axis] - 1)
    previous = slicing.concat(builder, [first, all_but_last], axis)

    def run_start(value: Element, w: Element) -> Element:
        """Return the index of `value` if it begins a sequence of equal elements, else 0. w: the previous element.

        The 0 does not change the cumulative maximum, which is the index at which the sequence of each element begins.
        """
        index = value.position(axis, I64)
        return value.is_equal(w).where(0, index)

    starts = scans.cumulative(builder, "max", formula(builder, run_start, values, previous), axis)
    counts = formula(builder, lambda s: s.position(axis, I64) - s, starts)
    last_index = reductions.arg_reduce(builder, "max", counts, axis, keep=True)
    modes = (
        gathers.take_along(builder, values, last_index, axis),
        gathers.take_along(builder, positions, last_index, axis),
    )
    return modes if keepdim else _squeeze_pair(builder, modes, axis)


register({
    "aten.median": partial(_median_of_all, skips_nan=False),
    "aten.nanmedian": partial(_median_of_all, skips_nan=True),
    "aten.median.dim": partial(_median_along_axis, skips_nan=False),
    "aten.nanmedian.dim": partial(_median_along_axis, skips_nan=True),
})  # fmt: skip
