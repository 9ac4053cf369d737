"""Elements at places that tensors state: taken, replaced, ranked.

Places count from the end when they are negative; those outside of a tensor are moved to its nearest element when
elements are taken, and change nothing when elements are replaced.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith
from xdsl.ir import SSAValue

from pydispatch.frontends.graph.builder import Builder
from pydispatch.frontends.graph.dtypes import BOOL, I64
from pydispatch.frontends.graph.sizes import Expr, Size, product
from pydispatch.frontends.graph.values import Tensor
from pydispatch.frontends.ops import elementwise, ordering, reductions, scans, shapes
from pydispatch.frontends.ops.formulas import Element, formula
from pydispatch.frontends.ops.indexing import Places, elements_at
from pydispatch.frontends.ops.reals import Scalar
from pydispatch.frontends.ops.scalars import Scalars
from pydispatch.frontends.ops.scatters import scatter_first
from pydispatch.frontends.ops.special import total_order


def _wrapped(p: Places, at: SSAValue, size: SSAValue) -> SSAValue:
    """A place counted from the front, within the size."""
    zero = p.number(0)
    is_negative = p.add_op(arith.CmpiOp(at, zero, "slt"))
    at = p.add_op(arith.SelectOp(is_negative, p.plus(at, size), at))
    return p.clamped(at, p.minus(size, p.number(1)))


def take(b: Builder, x: Tensor, indices: Tensor, axis: int) -> Tensor:
    """numpy.take: the slices of x at the indices along an axis; axes of the indices stand in its place."""
    known = indices.numbers
    n = x.shape[axis]
    if known is not None and not isinstance(n, Expr) and (known.min(initial=0) < -n or known.max(initial=-n) >= n):
        raise b.fail(f"an index in {known.reshape(-1)[:8].tolist()} is not within axis {axis} of {x}")
    if known is not None and x.known is not None and x.known.size <= elementwise.FOLDED:
        return b.constant(x.known.take(known, axis), x.dtype)
    shape = (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])
    if known is not None and known.size == 1 and (known.item() >= 0 or not isinstance(n, Expr)):
        at = known.item() % n if not isinstance(n, Expr) else known.item()
        return shapes.reshape(b, shapes.slice_axis(b, x, axis, at, at + 1), shape)
    after = x.rank - axis - 1
    given = shapes.reshape(b, indices, [*indices.shape, *[1] * after])
    size = b.index(n)

    def places(p: Places) -> list[SSAValue]:
        at = _wrapped(p, p.index_of(p.given[0]), size)
        return [*(p.index(d) for d in range(axis)), at, *(p.index(axis + indices.rank + d) for d in range(after))]

    return elements_at(b, x, shape, places, given)


def take_along(b: Builder, x: Tensor, indices: Tensor, axis: int) -> Tensor:
    """numpy.take_along_axis: for each index the element of x there along an axis, at its own place along the others."""
    size = b.index(x.shape[axis])

    def places(p: Places) -> list[SSAValue]:
        at = _wrapped(p, p.index_of(p.given[0]), size)
        return [at if d == axis else p.index(d) for d in range(x.rank)]

    return elements_at(b, x, indices.shape, places, indices)


def take_nd(b: Builder, x: Tensor, indices: Tensor, batch: int) -> Tensor:
    """The slices of x at the rows of indices [..., k], which name places along k axes after the first `batch` ones,
    that both share."""
    lead, parts = indices.shape[:-1], _columns(b, indices)
    rest = x.shape[batch + len(parts) :]
    given = [shapes.reshape(b, part, [*lead, *[1] * len(rest)]) for part in parts]
    sizes = [b.index(x.shape[batch + n]) for n in range(len(parts))]

    def places(p: Places) -> list[SSAValue]:
        found = [_wrapped(p, p.index_of(at), size) for at, size in zip(p.given, sizes, strict=True)]
        return [*(p.index(d) for d in range(batch)), *found, *(p.index(len(lead) + d) for d in range(len(rest)))]

    return elements_at(b, x, (*lead, *rest), places, *given)


def _columns(b: Builder, indices: Tensor) -> list[Tensor]:
    """indices [..., k] as k tensors."""
    count = indices.shape[-1]
    if isinstance(count, Expr):
        raise b.fail(f"the last size of the indices {indices} must be known")
    last = indices.rank - 1
    return [shapes.reshape(b, shapes.slice_axis(b, indices, last, n, n + 1), indices.shape[:-1]) for n in range(count)]


# -- replaced


def put_along(b: Builder, x: Tensor, indices: Tensor, updates: Tensor, axis: int, combine: str | None = None) -> Tensor:
    """x with updates at the indices along an axis, in their order. combine: add, mul, max, min of the old and new."""
    places = [
        _from_front(b, indices, x.shape[d]) if d == axis else shapes.iota(b, indices.shape, d, I64)
        for d in range(x.rank)
    ]
    count = product(indices.shape)
    return _put(b, x, [shapes.reshape(b, p, [count]) for p in places], shapes.reshape(b, updates, [count]), combine)


def put_nd(b: Builder, x: Tensor, indices: Tensor, updates: Tensor, combine: str | None = None) -> Tensor:
    """x with updates at the rows of indices [..., k], which name places along the first k axes."""
    parts = _columns(b, indices)
    if len(parts) > x.rank:
        raise b.fail(f"indices {indices} name places along {len(parts)} axes of {x}")
    count = product(indices.shape[:-1])
    places = [shapes.reshape(b, _from_front(b, part, x.shape[d]), [count]) for d, part in enumerate(parts)]
    return _put(b, x, places, shapes.reshape(b, updates, [count, *x.shape[len(parts) :]]), combine)


def _from_front(b: Builder, indices: Tensor, size: Size) -> Tensor:
    wide = elementwise.convert(b, indices, I64)
    return formula(b, lambda i, n: (i < 0).choose(i + n, i), wide, reductions.size_as(b, size, I64))


def _put(b: Builder, x: Tensor, places: Sequence[Tensor], updates: Tensor, combine: str | None) -> Tensor:
    """places: a vector for each of the first axes. updates: [n, the other axes]."""
    depth = len(places)
    slices = shapes.reshape(b, updates, [updates.shape[0], *[1] * depth, *updates.shape[1:]])
    rows = shapes.concat(b, [shapes.expand_dims(b, p, [1]) for p in places], 1)

    def combined(s: Scalars, old: Scalar, new: Scalar) -> Scalar:
        return s.binary(combine, old, new) if combine else new

    return scatter_first(b, x, rows, slices, depth, combined)


# -- ordered


def top(b: Builder, x: Tensor, count: Size, axis: int, largest: bool = True) -> tuple[Tensor, Tensor]:
    """The `count` largest or smallest elements along an axis, in that order, and their places as i64. Of equal ones
    the first come first; NaN is larger than all."""

    def before(s: Scalars, a: Sequence[Scalar], other: Sequence[Scalar]) -> Scalar:
        keys = [total_order(s, v) if v.dtype.is_float else v for v in (a[0], other[0])]
        return s.compare("gt" if largest else "lt", *keys)

    values, places = ordering.sort(b, [x, shapes.iota(b, x.shape, axis, I64)], axis, before)
    return shapes.slice_axis(b, values, axis, 0, count), shapes.slice_axis(b, places, axis, 0, count)


def places_of_true(b: Builder, mask: Tensor) -> Tensor:
    """The places of the true elements of a vector, in order. How many there are, each call finds out."""
    numbers = elementwise.convert(b, mask, I64)
    count = b.size_of(b.scalar(reductions.reduce(b, "add", numbers)), "count")
    before = scans.cumulative(b, "add", numbers, 0, exclusive=True)
    targets = formula(b, lambda e, n: e.choose(n, n.const(-1)), mask, before)
    room = b.wrap(I64, (count,), b.splat(b.number(0, I64), (count,)))
    return _put(b, room, [targets], shapes.iota(b, mask.shape, 0, I64), None)


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
    inverse = _put(b, room, [origin], number, None)
    none = b.wrap(I64, first.shape, b.splat(b.number(0, I64), first.shape))
    if not sort:
        first, order = top(b, first, first.shape[0], 0, largest=False)
        inverse = take(b, _put(b, none, [order], shapes.iota(b, first.shape, 0, I64), None), inverse, 0)
    ones = b.wrap(I64, (size,), b.splat(b.number(1, I64), (size,)))
    return first, inverse, _put(b, none, [inverse], ones, "add")
