"""Part of a tensor replaced."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import builtin, tensor
from xdsl.dialects.builtin import DenseArrayBase

from pydispatch.frontends.graph.builder import Builder
from pydispatch.frontends.graph.sizes import Expr, Size
from pydispatch.frontends.graph.values import Tensor
from pydispatch.frontends.ops.elementwise import FOLDED
from pydispatch.ir.core.syntax import DYNAMIC


def insert(b: Builder, x: Tensor, part: Tensor, starts: Sequence[Size], strides: Sequence[int] | None = None) -> Tensor:
    """x with `part`, of the same rank and type, at x[starts[0]::strides[0], ...], where it fits."""
    strides = [1] * x.rank if strides is None else strides
    if part.shape == x.shape:
        return part
    if (
        x.known is not None
        and part.known is not None
        and x.known.size <= FOLDED
        and not any(isinstance(s, Expr) for s in starts)
    ):
        made = x.known.astype(object) if part.is_symbolic else x.known.copy()
        places = tuple(
            slice(s, s + (n - 1) * k + 1, k) for s, n, k in zip(starts, part.known.shape, strides, strict=True)
        )  # type: ignore[operator, misc]
        if 0 not in part.known.shape:
            made[places] = part.known
        return b.constant(made, x.dtype)

    def static(sizes: Sequence[Size]) -> DenseArrayBase[builtin.IntegerType]:
        return DenseArrayBase.from_list(builtin.i64, [DYNAMIC if isinstance(n, Expr) else n for n in sizes])

    made_parts = []
    for source, destination in zip(b.parts(part), b.parts(x), strict=True):
        op = tensor.InsertSliceOp.build(
            operands=[source, destination, b.indices(starts), b.indices(part.shape), []],
            properties={
                "static_offsets": static(starts),
                "static_sizes": static(part.shape),
                "static_strides": static(strides),
            },
            result_types=[destination.type],
        )
        made_parts.append(b.add(op).result)
    return b.wrap(x.dtype, x.shape, *made_parts)
