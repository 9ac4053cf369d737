"""Elements chosen by what they are: those that are true, those that are distinct. Calls find out how many there are."""

from __future__ import annotations

from collections.abc import Sequence

from pydispatch.frontends.graph.builder import Builder
from pydispatch.frontends.graph.dtypes import BOOL, I64
from pydispatch.frontends.graph.sizes import Expr, product
from pydispatch.frontends.graph.values import Tensor
from pydispatch.frontends.ops import elementwise, ordering, reductions, scans, shapes
from pydispatch.frontends.ops.formulas import Element, formula
from pydispatch.frontends.ops.gathers import take
from pydispatch.frontends.ops.reals import Scalar
from pydispatch.frontends.ops.scalars import Scalars
from pydispatch.frontends.ops.scatters import put_rows


def places_of_true(b: Builder, mask: Tensor) -> Tensor:
    """Return the indices of the true elements of a vector, in order. Their number is computed by each call."""
    numbers = elementwise.convert(b, mask, I64)
    count = b.size_of(b.scalar(reductions.reduce(b, "add", numbers)), "count")
    before = scans.cumulative(b, "add", numbers, 0, exclusive=True)
    targets = formula(b, lambda e, n: e.choose(n, n.const(-1)), mask, before)
    room = b.wrap(I64, (count,), b.splat(b.number(0, I64), (count,)))
    return put_rows(b, room, [targets], shapes.iota(b, mask.shape, 0, I64), None)


def places_of_nonzero(b: Builder, x: Tensor) -> list[Tensor]:
    """Return the indices of the elements of a tensor that are not 0, in row-major order: a vector for each axis."""
    found = places_of_true(b, elementwise.convert(b, shapes.reshape(b, x, [product(x.shape)]), BOOL))
    rows = []
    for d in range(x.rank):
        stride, size = (reductions.size_as(b, n, I64) for n in (product(x.shape[d + 1 :]), x.shape[d]))
        rows.append(formula(b, lambda at, each, n: at / each % n, found, stride, size))
    return rows


def distinct_slices(b: Builder, x: Tensor, axis: int, sort: bool) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return (the distinct slices of x along an axis, the index of the first occurrence of each, the number of the
    distinct slice that equals each slice, the number of occurrences).
    """
    first, inverse, counts = distinct(b, _columns_of_slices(b, x, axis), sort)
    return take(b, x, first, axis), first, inverse, counts


def distinct_neighbours(b: Builder, x: Tensor, axis: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return (the slices of x along an axis that differ from the previous slice, the number of the run of equal slices
    that each slice is in, the length of each run).
    """
    columns = _columns_of_slices(b, x, axis)
    size = x.shape[axis]
    starts, number = _runs(b, columns)
    first = places_of_true(b, starts)
    beyond = shapes.concat(b, [first, shapes.reshape(b, reductions.size_as(b, size, I64), [1])], 0)
    ends = shapes.slice_axis(b, beyond, 0, 1, first.shape[0] + 1)
    return take(b, x, first, axis), number, elementwise.binary(b, "sub", ends, first)


_MOST_COLUMNS = 64


def _columns_of_slices(b: Builder, x: Tensor, axis: int) -> list[Tensor]:
    """Return the elements of slices along an axis, one vector for each place in a slice."""
    front = shapes.transpose(b, x, [axis, *(d for d in range(x.rank) if d != axis)])
    width = product(front.shape[1:])
    if isinstance(width, Expr) or width > _MOST_COLUMNS:
        what = f"the slices of {x} along axis {axis} have more than {_MOST_COLUMNS} elements, or a computed number"
        raise b.fail(f"{what}, and distinct ones are looked for")
    table = shapes.reshape(b, front, [front.shape[0], width])
    return [shapes.reshape(b, shapes.slice_axis(b, table, 1, n, n + 1), [table.shape[0]]) for n in range(width)]


def distinct(b: Builder, rows: Sequence[Tensor], sort: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Return the distinct rows of a table whose columns are vectors: (the index of the first occurrence of each, the
    number of the distinct row that equals each row, the number of occurrences).

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
    starts, number = _runs(b, columns)
    first = take(b, origin, places_of_true(b, starts), 0)
    room = b.wrap(I64, (size,), b.splat(b.number(0, I64), (size,)))
    inverse = put_rows(b, room, [origin], number, None)
    none = b.wrap(I64, first.shape, b.splat(b.number(0, I64), first.shape))
    if not sort:
        first, order = ordering.sort_with_places(b, first, 0)
        inverse = take(b, put_rows(b, none, [order], shapes.iota(b, first.shape, 0, I64), None), inverse, 0)
    ones = b.wrap(I64, (size,), b.splat(b.number(1, I64), (size,)))
    return first, inverse, put_rows(b, none, [inverse], ones, "add")


def _runs(b: Builder, columns: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Return for each row whether it differs from the previous row, and the number of its run of equal rows."""
    size = columns[0].shape[0]
    earlier = [shapes.concat(b, [shapes.slice_axis(b, c, 0, 0, 1), shapes.slice_axis(b, c, 0, 0, size - 1)], 0)
               for c in columns]  # fmt: skip

    def begins(i: Element, *pairs: Element) -> Element:
        new = i.is_equal(0)
        for u, v in zip(pairs[::2], pairs[1::2], strict=True):
            new = new | u.is_unequal(v)
        return new

    places = shapes.iota(b, [size], 0, I64)
    starts = formula(b, begins, places, *(t for pair in zip(columns, earlier, strict=True) for t in pair))
    number = scans.cumulative(b, "add", elementwise.convert(b, starts, I64), 0)
    return starts, formula(b, lambda n: n - 1, number)
