"""Conversions of operators that count elements (bincount, histc) or repeat elements by counts (repeat_interleave)."""

from __future__ import annotations

from pydispatch.frontends.torch.nodes.shapes import axis_of, flatten
from pydispatch.frontends.torch.promotion import Number
from pydispatch.frontends.torch.registry import converts
from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import F32, F64, I64
from pydispatch.graph.sizes import Size, product
from pydispatch.graph.values import Tensor
from pydispatch.operations import assignment, gathers, reductions, scans, shapes, slicing
from pydispatch.operations import elementwise as ew
from pydispatch.operations.formulas import Element, formula


@converts("aten.bincount")
def bincount(builder: Builder, self: Tensor, weights: Tensor | None = None, minlength: Size = 0) -> Tensor:
    """Return how often each number from 0 to the largest one occurs, or the sum of its weights. The result has at least
    `minlength` elements.
    """
    positions = ew.convert(builder, self, I64)
    # The size of the result. With -1 appended to the numbers, their maximum is -1 if there are none, so the size is 0.
    largest = reductions.reduce(
        builder, "max", slicing.concat(builder, [positions, builder.constant([-1], I64)], axis=0)
    )
    min_count = reductions.size_as(builder, minlength, I64)
    count = formula(builder, lambda n, m: (n + 1).max(m), largest, min_count)
    size = builder.size_of(builder.scalar(count), "count")
    # Add 1, or the weight, at the position of each number.
    if weights is None:
        amounts = shapes.full(builder, 1, positions.shape, I64)
    else:
        amounts = ew.convert(builder, weights, F32 if weights.dtype == F32 else F64)
    return assignment.put_rows(builder, shapes.full(builder, 0, (size,), amounts.dtype), [positions], amounts, "add")


@converts("aten.histc")
def histc(builder: Builder, self: Tensor, bins: int = 100, min: Number = 0, max: Number = 0) -> Tensor:
    """Return the number of elements in each of `bins` equal intervals from min to max. If min equals max, the intervals
    span the range of the elements.

    For example, the elements [0, 1, 1.5, 4, 9] in 4 bins from 0 to 4 give [1, 2, 0, 1]: 4 is in the last interval, 9 in
    none. The counts have the element type of `self`, as in PyTorch.

    Raise CompileError if `self` is not of floats, or there are no bins.
    """
    dtype = self.dtype
    if not dtype.is_float or isinstance(min, complex) or isinstance(max, complex) or bins < 1:
        raise builder.fail(
            f"a histogram of {self} with {bins} bins from {min} to {max}; expected floats and a bin or more"
        )
    flat = shapes.reshape(builder, self, [product(self.shape)])
    low, high = (builder.constant(float(n), dtype) for n in (min, max))  # type: ignore[arg-type]
    if min == max:
        low, high = (reductions.reduce(builder, name, flat) for name in ("min", "max"))
        is_constant = ew.compare(builder, "eq", low, high)  # such elements get an interval of length 2 around them
        low = formula(builder, lambda n, e: e.where(n - 1.0, n), low, is_constant)
        high = formula(builder, lambda n, e: e.where(n + 1.0, n), high, is_constant)

    def position(value: Element, low: Element, high: Element) -> Element:
        """Return the index of the interval of an element, or -1 if the element is in no interval or NaN.

        `high` itself belongs to the last interval.
        """
        bin_ = ((value - low) * float(bins) / (high - low)).to(I64).min(bins - 1)
        return ((value >= low) & (value <= high)).where(bin_, -1)

    # Add 1 at the position of each element; `put_rows` ignores the position -1.
    positions = formula(builder, position, flat, low, high)
    ones = shapes.full(builder, 1, flat.shape, dtype)
    return assignment.put_rows(builder, shapes.full(builder, 0, (bins,), dtype), [positions], ones, "add")


# -- repetition


def _repeated_indices(builder: Builder, repeats: Tensor, output_size: Size | None) -> Tensor:
    """Return each index of `repeats`, repeated as often as the element at this index states: [0, 0, 2] for [2, 0, 1].

    output_size: the sum of `repeats`, if the caller knows it; None to compute it in the call.
    """
    counts = ew.convert(builder, repeats, I64)
    if output_size is None:
        output_size = builder.size_of(builder.scalar(reductions.reduce(builder, "add", counts)), "count")
    # Each index begins at the sum of the counts before it. Marks at these positions, added up, give the index plus 1;
    # indices with a count of 0 add several marks at one position. For the counts [2, 0, 1], indices begin at [0, 2, 2],
    # the marks are [1, 0, 2], and their cumulative sums [1, 1, 3]. An index with a count of 0 at the end begins after
    # the last element, where `put_rows` ignores its mark.
    begins = scans.cumulative(builder, "add", counts, axis=0, exclusive=True)
    marks = assignment.put_rows(
        builder,
        shapes.full(builder, 0, (output_size,), I64),
        [begins],
        shapes.full(builder, 1, counts.shape, I64),
        "add",
    )
    return formula(builder, lambda n: n - 1, scans.cumulative(builder, "add", marks, axis=0))


@converts("aten.repeat_interleave.Tensor")
def repeat_indices(builder: Builder, repeats: Tensor, *, output_size: Size | None = None) -> Tensor:
    """Return each index of `repeats`, repeated as often as the count at this index: [0, 0, 2] for counts [2, 0, 1]."""
    return ew.convert(builder, _repeated_indices(builder, repeats, output_size), repeats.dtype)


@converts("aten.repeat_interleave.self_Tensor")
def repeat_by_tensor(
    builder: Builder, self: Tensor, repeats: Tensor, dim: int | None = None, *, output_size: Size | None = None
) -> Tensor:
    """Return the slices along the axis `dim`, each repeated as often as its element of `repeats` states.

    Without `dim`, the elements of the flattened tensor are repeated. output_size: the sum of `repeats`, if it is known.
    """
    x = self if dim is not None else flatten(builder, self)
    axis = axis_of(builder, dim or 0, x.rank)
    if repeats.rank == 0 or repeats.shape[0] == 1:  # one count for all elements
        repeats = shapes.broadcast_to(builder, shapes.reshape(builder, repeats, [1]), [x.shape[axis]])
    return gathers.take(builder, x, _repeated_indices(builder, repeats, output_size), axis)
