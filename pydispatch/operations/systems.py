"""Linear systems, determinants and QR factors of batches of matrices, from the packed factors of `factors`."""

from __future__ import annotations

from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import I32, I64, DType
from pydispatch.graph.sizes import minimum, product
from pydispatch.graph.values import Tensor
from pydispatch.operations import elementwise as ew
from pydispatch.operations import factors, linear, matrices, reductions, shapes
from pydispatch.operations.formulas import formula


def broadcast_batches(builder: Builder, a: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Broadcast the batch axes of two batches of matrices to a common shape."""
    lead = ew.broadcast_shape(builder, a.shape[:-2], y.shape[:-2])
    return tuple(shapes.broadcast_to(builder, v, [*lead, *v.shape[-2:]]) for v in (a, y))  # type: ignore[return-value]


def solve(builder: Builder, a: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Return x of a x = y for matrices y, and the position of the first zero pivot, counted from 1, or 0.

    LU elimination of [a y] leaves [U, L^-1 P y], so that only the triangular system with U remains.
    """
    n = matrices.order_of(builder, "a linear system", a)
    operands = broadcast_batches(builder, a, y)
    factored, _, failed = factors.lu(builder, shapes.concat(builder, list(operands), operands[0].rank - 1))
    last = factored.rank - 1
    matrix = shapes.slice_axis(builder, factored, last, 0, n)
    right = shapes.slice_axis(builder, factored, last, n, factored.shape[last])
    return linear.triangular_solve(builder, matrix, right, lower=False), failed


def determinant(builder: Builder, factored: Tensor, pivots: Tensor) -> Tensor:
    """Return the determinants of matrices that are given by their LU factors."""
    pivot = _pivots_on_diagonal(builder, "the determinant", factored)
    product_of_pivots = reductions.reduce(builder, "mul", pivot, [-1])
    return ew.binary(builder, "mul", product_of_pivots, _permutation_sign(builder, pivots, factored.dtype))


def log_determinant(builder: Builder, factored: Tensor, pivots: Tensor) -> tuple[Tensor, Tensor]:
    """Return the signs of determinants, and the logarithms of their magnitudes, from the LU factors of matrices."""
    pivot = _pivots_on_diagonal(builder, "the logarithm of the determinant", factored)
    signs = reductions.reduce(builder, "mul", ew.unary(builder, "sign", pivot), [-1])
    logs = formula(builder, lambda v: v.unary("abs").unary("log"), pivot)
    sign = ew.binary(builder, "mul", signs, _permutation_sign(builder, pivots, factored.dtype))
    return sign, reductions.reduce(builder, "add", logs, [-1])


def qr(builder: Builder, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return Q and R of matrices [..., m, n]: [..., m, k] with orthonormal columns, and the triangle [..., k, n].

    k is the smaller of m and n.
    """
    k = minimum(*x.shape[-2:])
    factored, scales = factors.qr(builder, x)
    rows = shapes.slice_axis(builder, factored, x.rank - 2, 0, k)
    upper = matrices.triangle(builder, rows, "ge", builder.constant(0, I64))
    return factors.of_reflections(builder, shapes.slice_axis(builder, factored, x.rank - 1, 0, k), scales), upper


def _pivots_on_diagonal(builder: Builder, what: str, factored: Tensor) -> Tensor:
    """Return the diagonals of square matrices [..., n, n] as [..., n]. Raise CompileError for others; `what` names the
    result.
    """
    n = matrices.order_of(builder, what, factored)
    flat = shapes.reshape(builder, factored, [product(factored.shape[:-2]), n, n])
    return shapes.reshape(builder, matrices.diagonals(builder, flat), factored.shape[:-1])


def _permutation_sign(builder: Builder, pivots: Tensor, dtype: DType) -> Tensor:
    """Return 1 or -1: the determinant of the permutation that LAPACK's row exchanges `pivots` describe."""
    index = shapes.iota(builder, pivots.shape, pivots.rank - 1, I32)
    signs = formula(builder, lambda p, i: p.is_equal(i + 1).where(p.const(1), p.const(-1)), pivots, index)
    return ew.convert(builder, reductions.reduce(builder, "mul", signs, [-1]), dtype)
