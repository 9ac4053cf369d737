"""Elements chosen by what they are: those that are true, those that are distinct. Calls find out how many there are."""

from __future__ import annotations

from collections.abc import Sequence

from pydispatch.frontends.graph.builder import Builder
from pydispatch.frontends.graph.dtypes import BOOL, I64
from pydispatch.frontends.graph.values import Tensor
from pydispatch.frontends.ops import elementwise, ordering, reductions, scans, shapes
from pydispatch.frontends.ops.formulas import Element, formula
from pydispatch.frontends.ops.gathers import take
from pydispatch.frontends.ops.reals import Scalar
from pydispatch.frontends.ops.scalars import Scalars
from pydispatch.frontends.ops.scatters import put_rows


def places_of_true(b: Builder, mask: Tensor) -> Tensor:
    """The places of the true elements of a vector, in order. How many there are, each call finds out."""
    numbers = elementwise.convert(b, mask, I64)
    count = b.size_of(b.scalar(reductions.reduce(b, "add", numbers)), "count")
    before = scans.cumulative(b, "add", numbers, 0, exclusive=True)
    targets = formula(b, lambda e, n: e.choose(n, n.const(-1)), mask, before)
    room = b.wrap(I64, (count,), b.splat(b.number(0, I64), (count,)))
    return put_rows(b, room, [targets], shapes.iota(b, mask.shape, 0, I64), None)


def distinct(b: Builder, rows: Sequence[Tensor], sort: bool) -> tuple[Tensor, Tensor, Tensor]:
    """The distinct rows of a table whose columns are vectors: (the place where each is first, for each row the number
    of the one that it is, how often each is there).

    sort: in rising order, column by column; else in the order in which they come first.
    """
    size = rows[0].shape[0]
    places = shapes.iota(b, [size], 0, I64)

    def before(s: Scalars, a: Sequence[Scalar], other: Sequence[Scalar]) -> Scalar:
        less = s.const(False, BOOL)
        for u, v in zip(reversed(a[:-1]), reversed(other[:-1]), strict=True):
            below, tied = s.compare("lt", u, v), s.compare("eq", u, v)
            less = s.binary("or", below, s.binary("and", tied, less))
        return less

    *columns, origin = ordering.sort(b, [*rows, places], 0, before)
    earlier = [shapes.concat(b, [shapes.slice_axis(b, c, 0, 0, 1), shapes.slice_axis(b, c, 0, 0, size - 1)], 0)
               for c in columns]  # fmt: skip

    def begins(i: Element, *pairs: Element) -> Element:
        new = i.is_equal(0)
        for u, v in zip(pairs[::2], pairs[1::2], strict=True):
            new = new | u.is_unequal(v)
        return new

    starts = formula(b, begins, places, *(t for pair in zip(columns, earlier, strict=True) for t in pair))
    number = scans.cumulative(b, "add", elementwise.convert(b, starts, I64), 0)
    number = formula(b, lambda n: n - 1, number)
    first = take(b, origin, places_of_true(b, starts), 0)
    room = b.wrap(I64, (size,), b.splat(b.number(0, I64), (size,)))
    inverse = put_rows(b, room, [origin], number, None)
    none = b.wrap(I64, first.shape, b.splat(b.number(0, I64), first.shape))
    if not sort:
        first, order = ordering.sort_with_places(b, first, 0)
        inverse = take(b, put_rows(b, none, [order], shapes.iota(b, first.shape, 0, I64), None), inverse, 0)
    ones = b.wrap(I64, (size,), b.splat(b.number(1, I64), (size,)))
    return first, inverse, put_rows(b, none, [inverse], ones, "add")
