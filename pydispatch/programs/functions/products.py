"""Products of matrices and vectors that are traced arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from pydispatch.operations import products
from pydispatch.programs.array import Array
from pydispatch.programs.functions.common import ordered_axes, promoted
from pydispatch.programs.functions.shapes import reshape
from pydispatch.programs.trace import Trace


def matmul(trace: Trace, a: Any, b: Any) -> Array:
    """Return the matrix product of operands, which are promoted to one type."""
    x, y = promoted(trace, a, b)
    return Array(trace, products.matmul(trace, x, y))


def einsum(trace: Trace, equation: str, *operands: Any) -> Array:
    """Return the sum of products of an equation of axis letters, such as "ij,jk->ik"."""
    return Array(trace, products.einsum(trace, equation, *promoted(trace, *operands)))


def tensordot(trace: Trace, a: Any, b: Any, axes: Any = 2) -> Array:
    """Return the sums of products over axes of a and b.

    axes: n for the last n axes of a and the first n of b, or a pair: the axes of a, and the axes of b in their order.
    """
    x, y = promoted(trace, a, b)
    if isinstance(axes, (int, np.integer)):
        axes = (list(range(x.rank - axes, x.rank)), list(range(axes)))
    left, right = ordered_axes(trace, axes[0], x.rank), ordered_axes(trace, axes[1], y.rank)
    partner = dict(zip(right, left, strict=True))  # contracted axis of b → its axis of a
    # As an equation of `einsum`: a contracted axis of b has the letter of its axis of a.
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    x_letters = [next(letters) for _ in range(x.rank)]
    y_letters = [x_letters[partner[d]] if d in partner else next(letters) for d in range(y.rank)]
    kept_of_x = [letter for d, letter in enumerate(x_letters) if d not in left]
    kept_of_y = [letter for d, letter in enumerate(y_letters) if d not in partner]
    equation = f"{''.join(x_letters)},{''.join(y_letters)}->{''.join(kept_of_x + kept_of_y)}"
    return Array(trace, products.einsum(trace, equation, x, y))


def dot(trace: Trace, a: Any, b: Any) -> Array:
    """Return numpy.dot: the sums of products over the last axis of a and the second to last of b, or its only one.

    Unlike `matmul`, all matrices of a are multiplied with all of b; an operand without axes multiplies each element.
    """
    x, y = _as_arrays(trace, a, b)
    if x.ndim and y.ndim:
        return matmul(trace, x, y) if y.ndim < 3 else tensordot(trace, x, y, axes=([-1], [-2]))
    return x * y


def inner(trace: Trace, a: Any, b: Any) -> Array:
    """Return the sums of products over the last axes; an operand without axes multiplies each element of the other."""
    x, y = _as_arrays(trace, a, b)
    return tensordot(trace, x, y, axes=([-1], [-1])) if x.ndim and y.ndim else x * y


def _as_arrays(trace: Trace, *operands: Any) -> list[Array]:
    """Return operands as traced arrays. Numbers of Python have NumPy's default types, as in functions other than
    ufuncs.
    """
    return [Array(trace, trace.tensor_of(operand)) for operand in operands]


def outer(trace: Trace, a: Any, b: Any) -> Array:
    """Return the products of all pairs of elements, [size of a, size of b]; operands of any rank count as vectors."""
    return reshape(trace, a, (-1, 1)) * reshape(trace, b, (1, -1))


def vecdot(trace: Trace, a: Any, b: Any) -> Array:
    """Return the scalar products along the last axis, of the conjugates of a with b."""
    x, y = (Array(trace, operand) for operand in promoted(trace, a, b))
    return einsum(trace, "...i,...i->...", np.conj(x) if x.tensor.dtype.is_complex else x, y)


Array.UFUNCS |= {"matmul": matmul, "vecdot": vecdot}
Array.FUNCTIONS |= {
    "dot": dot, "matmul": matmul, "einsum": einsum, "tensordot": tensordot, "inner": inner, "outer": outer,
}  # fmt: skip
