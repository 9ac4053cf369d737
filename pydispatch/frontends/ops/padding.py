"""Elements put around a tensor that are elements of it."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith
from xdsl.ir import SSAValue

from pydispatch.frontends.graph.builder import Builder
from pydispatch.frontends.graph.sizes import Expr, Size
from pydispatch.frontends.graph.values import Tensor
from pydispatch.frontends.ops.indexing import Places, elements_at


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
    """The rest of a division, at least 0."""
    rest = p.add_op(arith.RemSIOp(at, size))
    return p.add_op(arith.RemSIOp(p.plus(rest, size), size))
