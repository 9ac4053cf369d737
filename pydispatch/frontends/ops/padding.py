"""Elements put around a tensor that are elements of it, and as many between neighbours as a call says."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith
from xdsl.ir import SSAValue

from pydispatch.frontends.graph.builder import Builder
from pydispatch.frontends.graph.sizes import Expr, Size
from pydispatch.frontends.graph.values import Tensor
from pydispatch.frontends.ops.indexing import Places, elements_at
from pydispatch.frontends.ops.shapes import pad


def pad_with(b: Builder, x: Tensor, low: Sequence[Size], high: Sequence[Size], mode: str) -> Tensor:
    """x with `low` elements before and `high` after it along each axis; negative ones take some away.

    mode: "edge" repeats the outermost element; "reflect" goes back from it, "wrap" goes on at the other side, as often
    as it takes.
    """
    shape = tuple(n + a + c for n, a, c in zip(x.shape, low, high, strict=True))
    for d, n in enumerate(x.shape):
        if n == 0 and shape[d] != 0:
            raise b.fail(f"axis {d} of {x} has no element to put around it")
    moved = [not (a == 0 and c == 0) for a, c in zip(low, high, strict=True)]
    sizes = [b.index(n) for n in x.shape]
    before = [b.index(n) for n in low]

    def places(p: Places) -> list[SSAValue]:
        return [
            _place(p, mode, p.minus(p.index(d), before[d]), sizes[d], x.shape[d]) if moved[d] else p.index(d)
            for d in range(x.rank)
        ]

    return elements_at(b, x, shape, places)


def pad_between(
    b: Builder, x: Tensor, low: Sequence[Size], high: Sequence[Size], value: Tensor, interior: Sequence[Size]
) -> Tensor:
    """x with `low` elements before and `high` after it along each axis, and `interior` between neighbours.

    low, high: negative ones take some away. value: the one element that is put there. interior: at least 0; calls with
    a negative one are refused.
    """
    steps: list[Size] = []
    shape: list[Size] = []
    for n, below, above, between in zip(x.shape, low, high, interior, strict=True):
        steps.append(_step(b, between))
        spread = b.index(n * steps[-1] - steps[-1] + 1)
        whole = b.size_of(b.add(arith.MaxSIOp(spread, b.index(0))).result, "spread")
        shape.append(below + whole + above)
    padded = pad(b, x, [0] * x.rank, [1] * x.rank, value)  # a place in bounds where x has no element
    sizes, before, step = ([b.index(n) for n in values] for values in (x.shape, low, steps))

    def place(p: Places, d: int) -> tuple[SSAValue, SSAValue]:
        """Return the place of an element along an axis, and whether it is one of x."""
        at = p.minus(p.index(d), before[d])
        zero = p.number(0)
        ahead = p.add_op(arith.MaxSIOp(at, zero))
        found = p.add_op(arith.MinSIOp(p.add_op(arith.DivSIOp(ahead, step[d])), sizes[d]))
        return found, p.add_op(arith.CmpiOp(p.times(found, step[d]), at, "eq"))

    def places(p: Places) -> list[SSAValue]:
        found = [place(p, d) for d in range(x.rank)]
        return [p.add_op(arith.SelectOp(is_own, at, sizes[d])) for d, (at, is_own) in enumerate(found)]

    return elements_at(b, padded, tuple(shape), places)


def _step(b: Builder, between: Size) -> Size:
    """Return the distance of neighbours with `between` elements between them, which is checked not to be negative."""
    b.require_positive(between + 1, "the interior padding is negative")
    return between + 1


def _place(p: Places, mode: str, at: SSAValue, size: SSAValue, known: Size) -> SSAValue:
    one = p.number(1)
    last = p.minus(size, one)
    if mode == "edge":
        return p.clamped(at, last)
    if mode == "wrap":
        return _remainder(p, at, size)
    if not isinstance(known, Expr) and known == 1:
        return p.number(0)
    # A period goes to the last element and back to the first: 0 1 2 1 | 0 1 2 1
    period = p.add_op(arith.MaxSIOp(p.plus(last, last), one))
    at = _remainder(p, at, period)
    return p.add_op(arith.MinSIOp(at, p.minus(period, at)))


def _remainder(p: Places, at: SSAValue, size: SSAValue) -> SSAValue:
    """Return the rest of a division, at least 0."""
    rest = p.add_op(arith.RemSIOp(at, size))
    return p.add_op(arith.RemSIOp(p.plus(rest, size), size))
