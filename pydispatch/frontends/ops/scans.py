"""Running sums and products."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Block, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from pydispatch.frontends.graph.builder import Builder
from pydispatch.frontends.graph.values import Tensor
from pydispatch.frontends.ops.scalars import Scalars, scalars_of


def cumulative(b: Builder, name: str, x: Tensor, axis: int, exclusive: bool = False, backwards: bool = False) -> Tensor:
    """Each element combined by "add" or "mul" with those before it along an axis, or with those after it.

    exclusive: without the element itself.
    """
    rank = x.rank
    d = AffineExpr.dimension
    # Loop `rank` runs over the elements that each result combines.
    source = AffineMap(rank + 1, 0, tuple(d(rank) if n == axis else d(n) for n in range(rank)))
    to_result = AffineMap(rank + 1, 0, tuple(d(n) for n in range(rank)))
    start = 0 if name == "add" else 1
    order = {(False, False): "le", (True, False): "lt", (False, True): "ge", (True, True): "gt"}[exclusive, backwards]

    def body(block: Block, args: Sequence[SSAValue]) -> tuple[SSAValue, ...]:
        s = Scalars(block)
        element, running = scalars_of([x.dtype, x.dtype], args)
        taken = s.compare(order, s.position(rank), s.position(axis))
        return s.binary(name, running, s.select(taken, element, s.const(start, x.dtype))).parts

    outputs = [
        (b.splat(b.number(n, x.dtype), x.shape), to_result) for n in ([start, 0] if x.dtype.is_complex else [start])
    ]
    made = b.generic([(part, source) for part in b.parts(x)], outputs, [True] * rank + [False], body)
    return b.wrap(x.dtype, x.shape, *made)
