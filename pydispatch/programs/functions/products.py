"""Products of matrices and vectors."""

from __future__ import annotations

from typing import Any

from pydispatch.frontends.ops import (
    products,
)
from pydispatch.programs.array import Array, shape_of
from pydispatch.programs.functions.common import promoted
from pydispatch.programs.functions.shapes import reshape
from pydispatch.programs.trace import Trace


def matmul(t: Trace, a: Any, b: Any, dtype: Any = None) -> Array:
    x, y = promoted(t, a, b)
    return Array(t, products.matmul(t, x, y))


def einsum(t: Trace, equation: str, *operands: Any) -> Array:
    return Array(t, products.einsum(t, equation, *promoted(t, *operands)))


def tensordot(t: Trace, a: Any, b: Any, axes: Any = 2) -> Array:
    x, y = promoted(t, a, b)
    if isinstance(axes, int):
        axes = (list(range(x.rank - axes, x.rank)), list(range(axes)))
    left, right = ([each % z.rank for each in shape_of(given)] for z, given in ((x, axes[0]), (y, axes[1])))
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    first = [next(letters) for _ in range(x.rank)]
    second = [first[left[right.index(d)]] if d in right else next(letters) for d in range(y.rank)]
    out = [c for d, c in enumerate(first) if d not in left] + [c for d, c in enumerate(second) if d not in right]
    return Array(t, products.einsum(t, f"{''.join(first)},{''.join(second)}->{''.join(out)}", x, y))


def outer(t: Trace, a: Any, b: Any) -> Array:
    return reshape(t, a, (-1, 1)) * reshape(t, b, (1, -1))


def vecdot(t: Trace, a: Any, b: Any) -> Array:
    return einsum(t, "...i,...i->...", a, b)


Array.UFUNCS |= {"matmul": matmul, "vecdot": vecdot}
Array.FUNCTIONS |= {
    "dot": matmul, "matmul": matmul, "einsum": einsum, "tensordot": tensordot, "outer": outer,
}  # fmt: skip
