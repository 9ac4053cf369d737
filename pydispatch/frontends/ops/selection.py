"""Elements at places that tensors state: taken, replaced, ranked.

Places count from the end when they are negative; those outside of a tensor are moved to its nearest element when
elements are taken, and change nothing when elements are replaced.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith
from xdsl.ir import Block, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from pydispatch.frontends.graph.builder import Builder
from pydispatch.frontends.graph.dtypes import I64
from pydispatch.frontends.graph.sizes import Expr, Size, product
from pydispatch.frontends.graph.values import Tensor
from pydispatch.frontends.ops import elementwise, reductions, scans, shapes
from pydispatch.frontends.ops.formulas import Element, formula
from pydispatch.frontends.ops.indexing import Places, elements_at
from pydispatch.frontends.ops.scalars import Scalars, scalars_of


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
    """x with updates at the indices along an axis, in their order. combine: add, mul, max, min of the old and the
    new."""
    missing = [0 if d == axis else n - m for d, (n, m) in enumerate(zip(x.shape, indices.shape, strict=True))]
    indices = _from_front(b, indices, x.shape[axis])
    indices = shapes.pad(b, indices, [0] * x.rank, missing, -1)
    updates = shapes.pad(b, updates, [0] * x.rank, missing, False if x.dtype.is_bool else 0)
    rank = x.rank
    source = AffineMap(rank + 1, 0, tuple(AffineExpr.dimension(rank if d == axis else d) for d in range(rank)))
    return _put(b, x, indices, source, updates, source, axis, combine)


def put_nd(b: Builder, x: Tensor, indices: Tensor, updates: Tensor, combine: str | None = None) -> Tensor:
    """x with updates at the rows of indices [..., k], which name places along the first k axes."""
    parts = _columns(b, indices)
    depth = len(parts)
    if depth > x.rank:
        raise b.fail(f"indices {indices} name places along {depth} axes of {x}")
    count, rows, width = product(indices.shape[:-1]), product(x.shape[:depth]), product(x.shape[depth:])
    flat: Tensor = b.constant(0, I64)
    for d, part in enumerate(parts):
        stride = reductions.size_as(b, product(x.shape[d + 1 : depth]), I64)
        at = elementwise.convert(b, _from_front(b, part, x.shape[d]), I64)
        flat = formula(b, lambda total, n, each: total + n * each, flat, at, stride)
    flat = shapes.reshape(b, flat, [count])
    table, added = shapes.reshape(b, x, [rows, width]), shapes.reshape(b, updates, [count, width])
    loop = AffineExpr.dimension
    made = _put(b, table, flat, AffineMap(3, 0, (loop(2),)), added, AffineMap(3, 0, (loop(2), loop(1))), 0, combine)
    return shapes.reshape(b, made, x.shape)


def _from_front(b: Builder, indices: Tensor, size: Size) -> Tensor:
    return formula(b, lambda i, n: (i < 0).choose(i + n, i), indices, reductions.size_as(b, size, indices.dtype))


def _put(
    b: Builder, x: Tensor, indices: Tensor, index_map: AffineMap, updates: Tensor, update_map: AffineMap, axis: int,
    combine: str | None,
) -> Tensor:  # fmt: skip
    """The last loop runs over the updates that may go to each element, in order."""
    rank = x.rank
    identity = AffineMap(rank + 1, 0, tuple(AffineExpr.dimension(d) for d in range(rank)))
    inputs = [(b.value(indices), index_map), *((part, update_map) for part in b.parts(updates))]

    def body(block: Block, args: Sequence[SSAValue]) -> tuple[SSAValue, ...]:
        s = Scalars(block)
        at, update, running = scalars_of([indices.dtype, updates.dtype, x.dtype], args)
        new = s.binary(combine, running, update) if combine else update
        return s.select(s.compare("eq", at, s.position(axis, indices.dtype)), new, running).parts

    outputs = [(part, identity) for part in b.parts(x)]
    return b.wrap(x.dtype, x.shape, *b.generic(inputs, outputs, [True] * rank + [False], body))


# -- ranked


def ranks(b: Builder, x: Tensor, axis: int, largest: bool) -> Tensor:
    """How many elements along an axis come before each one in the order by size; equal ones keep their order."""
    rank = x.rank
    d = AffineExpr.dimension
    own = AffineMap(rank + 1, 0, tuple(d(n) for n in range(rank)))
    other = AffineMap(rank + 1, 0, tuple(d(rank if n == axis else n) for n in range(rank)))
    value = b.value(x)

    def body(block: Block, args: Sequence[SSAValue]) -> tuple[SSAValue, ...]:
        s = Scalars(block)
        mine, theirs, count = scalars_of([x.dtype, x.dtype, I64], args)
        before = s.compare("gt" if largest else "lt", theirs, mine)
        if x.dtype.is_float:  # NaN is beyond all in both orders
            nan, their_nan = s.unary("is_nan", mine), s.unary("is_nan", theirs)
            before = s.binary(
                "and", s.binary("or", before, their_nan if largest else nan), s.compare("ne", nan, their_nan)
            )
            tied = s.binary("or", s.compare("eq", theirs, mine), s.binary("and", nan, their_nan))
            before = s.binary("or", before, s.compare("gt" if largest else "lt", theirs, mine))
        else:
            tied = s.compare("eq", theirs, mine)
        earlier = s.compare("lt", s.position(rank), s.position(axis))
        before = s.binary("or", before, s.binary("and", tied, earlier))
        return s.binary("add", count, s.convert(before, I64)).parts

    outputs = [(b.splat(b.number(0, I64), x.shape), own)]
    return b.wrap(I64, x.shape, *b.generic([(value, own), (value, other)], outputs, [True] * rank + [False], body))


def by_rank(b: Builder, x: Tensor, order: Tensor, axis: int, count: Size) -> Tensor:
    """The first `count` elements of x along an axis in an order: at r the one whose `order` is r."""
    rank = x.rank
    d = AffineExpr.dimension
    source = AffineMap(rank + 1, 0, tuple(d(rank if n == axis else n) for n in range(rank)))
    own = AffineMap(rank + 1, 0, tuple(d(n) for n in range(rank)))
    shape = tuple(count if n == axis else size for n, size in enumerate(x.shape))

    def body(block: Block, args: Sequence[SSAValue]) -> tuple[SSAValue, ...]:
        s = Scalars(block)
        element, at, running = scalars_of([x.dtype, I64, x.dtype], args)
        return s.select(s.compare("eq", at, s.position(axis)), element, running).parts

    outputs = [(b.splat(b.number(0, x.dtype), shape), own)]
    inputs = [(b.value(x), source), (b.value(order), source)]
    return b.wrap(x.dtype, shape, *b.generic(inputs, outputs, [True] * rank + [False], body))


def top(b: Builder, x: Tensor, count: Size, axis: int, largest: bool = True) -> tuple[Tensor, Tensor]:
    """The `count` largest or smallest elements along an axis, in that order, and their places as i64."""
    order = ranks(b, x, axis, largest)
    places = shapes.iota(b, x.shape, axis, I64)
    return by_rank(b, x, order, axis, count), by_rank(b, places, order, axis, count)


def places_of_true(b: Builder, mask: Tensor) -> Tensor:
    """The places of the true elements of a vector, in order. How many there are, each call finds out."""
    numbers = elementwise.convert(b, mask, I64)
    count = b.size_of(b.scalar(reductions.reduce(b, "add", numbers)), "count")
    before = scans.cumulative(b, "add", numbers, 0, exclusive=True)

    def placed(e: Element, n: Element) -> Element:
        return e.choose(n, n.const(-1))

    return by_rank(b, shapes.iota(b, mask.shape, 0, I64), formula(b, placed, mask, before), 0, count)
