"""Linear algebra: determinants, inverses and linear systems by LU, Cholesky and QR."""

from __future__ import annotations

import numpy as np

from pydispatch.frontends.graph.dtypes import I32, I64, DType
from pydispatch.frontends.graph.sizes import Size, minimum, product
from pydispatch.frontends.graph.values import Tensor
from pydispatch.frontends.ops import elementwise as ew
from pydispatch.frontends.ops import factors, gathers, jacobi, linear, products, reductions, shapes
from pydispatch.frontends.ops.control import for_
from pydispatch.frontends.ops.formulas import formula
from pydispatch.frontends.torch.memory import Memory
from pydispatch.frontends.torch.nodes.creation import eye, triangle
from pydispatch.frontends.torch.nodes.parts import diagonal
from pydispatch.frontends.torch.nodes.shapes import adjoint
from pydispatch.frontends.torch.nodes.strided import is_contiguous
from pydispatch.frontends.torch.promotion import Operand, as_tensor
from pydispatch.frontends.torch.trace import Conversion, Tracer

Pair = tuple[Tensor, Tensor]


def _batched(t: Tracer, a: Tensor, y: Tensor) -> Pair:
    """Broadcast the batch axes of two batches of matrices to one shape."""
    lead = ew.broadcast_shape(t.b, a.shape[:-2], y.shape[:-2])
    return tuple(shapes.broadcast_to(t.b, v, [*lead, *v.shape[-2:]]) for v in (a, y))  # type: ignore[return-value]


# -- LU


def lu_factor_check(t: Tracer, A: Tensor, *, pivot: bool = True, check_errors: bool = False) -> tuple[Tensor, ...]:  # noqa: N803
    if not pivot:
        raise t.b.fail("LU without pivots is not supported: PyTorch has it on CUDA alone", "factor with pivot=True")
    return factors.lu(t.b, A)


def lu_factor(t: Tracer, A: Tensor, *, pivot: bool = True) -> Pair:  # noqa: N803
    made = lu_factor_check(t, A, pivot=pivot)
    return made[0], made[1]


def _rows_in_order(t: Tracer, pivots: Tensor, n: Size) -> Tensor:
    """Return the index of the matrix row that each row of L U corresponds to, [..., n]. pivots: row exchanges, counted
    from 1.
    """
    b = t.b
    lead, count = pivots.shape[:-1], pivots.shape[-1]
    given = shapes.reshape(b, pivots, [product(lead), count])
    rows = shapes.broadcast_to(b, shapes.iota(b, [n], 0, I64), [given.shape[0], n])

    def step(j: Size, tensors: list[Tensor]) -> list[Tensor]:
        (rows,) = tensors
        place = shapes.broadcast_to(b, reductions.size_as(b, j, I64), [given.shape[0], 1])
        other = formula(b, lambda p: p.to(I64) - 1, shapes.slice_axis(b, given, 1, j, j + 1))
        here, there = (gathers.take_along(b, rows, at, 1) for at in (place, other))
        number = shapes.iota(b, rows.shape, 1, I64)
        return [formula(b, lambda v, i, p, o, h, e: i.is_equal(p).choose(e, i.is_equal(o).choose(h, v)),
                        rows, number, place, other, here, there)]  # fmt: skip

    made = rows if count == 0 else for_(b, count, [rows], step)[0]
    return shapes.reshape(b, made, [*lead, n])


def _triangles(t: Tracer, LU: Tensor) -> Pair:  # noqa: N803
    """L with its diagonal of 1, and U."""
    m, n = LU.shape[-2:]
    k = minimum(m, n)
    left = shapes.slice_axis(t.b, LU, LU.rank - 1, 0, k)
    below = triangle(t, left, "le", -1)
    upper = triangle(t, shapes.slice_axis(t.b, LU, LU.rank - 2, 0, k), "ge", 0)
    return ew.binary(t.b, "add", below, eye(t, m, k, dtype=LU.dtype)), upper


def lu_unpack(
    t: Tracer, LU_data: Tensor, LU_pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True  # noqa: N803
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    m = LU_data.shape[-2]
    order = _rows_in_order(t, LU_pivots, m)
    # P has a 1 at [order[i], i].
    rows = shapes.expand_dims(t.b, order, [order.rank - 1])
    number = shapes.reshape(t.b, shapes.iota(t.b, [m], 0, I64), [m, 1])
    P = ew.convert(t.b, ew.compare(t.b, "eq", number, rows), LU_data.dtype)  # noqa: N806
    none = shapes.full(t.b, 0, [0], LU_data.dtype)
    return P if unpack_pivots else none, *(_triangles(t, LU_data) if unpack_data else (none, none))


def linalg_lu(t: Tracer, A: Tensor, *, pivot: bool = True) -> tuple[Tensor, Tensor, Tensor]:  # noqa: N803
    return lu_unpack(t, *lu_factor(t, A, pivot=pivot))


def lu_solve(
    t: Tracer, LU: Tensor, pivots: Tensor, B: Tensor, *, left: bool = True, adjoint: bool = False  # noqa: N803
) -> Tensor:  # fmt: skip
    if adjoint:  # the adjoint of the equation has the matrix on the other side
        return _transposed(t, lu_solve(t, LU, pivots, _transposed(t, B), left=not left))
    if not left:
        P, L, U = lu_unpack(t, LU, pivots)  # noqa: N806
        given, upper = _batched(t, B, U)
        made = linear.triangular_solve(t.b, upper, given, left=False, lower=False)
        made = linear.triangular_solve(t.b, _batched(t, L, made)[0], made, left=False, unit=True)
        return products.matmul(t.b, made, _transposed(t, P))
    order = _rows_in_order(t, pivots, LU.shape[-2])
    matrix, given = _batched(t, LU, B)
    places = shapes.broadcast_to(t.b, shapes.expand_dims(t.b, order, [order.rank]), given.shape)
    moved = gathers.take_along(t.b, given, places, given.rank - 2)
    below = linear.triangular_solve(t.b, matrix, moved, unit=True)
    return linear.triangular_solve(t.b, matrix, below, lower=False)


def lu_solve_of(t: Tracer, self: Tensor, LU_data: Tensor, LU_pivots: Tensor) -> Tensor:  # noqa: N803
    return lu_solve(t, LU_data, LU_pivots, self)


def _transposed(t: Tracer, x: Tensor) -> Tensor:
    made: Tensor = adjoint(t, x)
    return made


# -- determinants


def _exchanges(t: Tracer, pivots: Tensor, dtype: DType) -> Tensor:
    """1 or -1: the determinant of the permutation of rows."""
    number = shapes.iota(t.b, pivots.shape, pivots.rank - 1, I32)
    signs = formula(t.b, lambda p, i: p.is_equal(i + 1).choose(p.const(1), p.const(-1)), pivots, number)
    return ew.convert(t.b, reductions.reduce(t.b, "mul", signs, [-1]), dtype)


def _factors(t: Tracer, A: Memory) -> tuple[Tensor, Tensor, Tensor]:  # noqa: N803
    """Return LU, pivots and the first pivot that is 0, as the gradients of determinants take them: of the transpose of
    a real matrix that is contiguous."""
    matrix = A.tensor
    if not matrix.dtype.is_complex and is_contiguous(t, A):
        matrix = shapes.transpose(t.b, matrix, [*range(matrix.rank - 2), matrix.rank - 1, matrix.rank - 2])
    return factors.lu(t.b, matrix)


def det_with_factors(t: Tracer, A: Memory) -> tuple[Tensor, Tensor, Tensor]:  # noqa: N803
    LU, pivots, _ = _factors(t, A)  # noqa: N806
    whole = reductions.reduce(t.b, "mul", diagonal(t, LU, 0, -2, -1), [-1])
    return ew.binary(t.b, "mul", whole, _exchanges(t, pivots, LU.dtype)), LU, pivots


def det(t: Tracer, A: Memory) -> Tensor:  # noqa: N803
    return det_with_factors(t, A)[0]


def slogdet_with_factors(t: Tracer, A: Memory) -> tuple[Tensor, ...]:  # noqa: N803
    LU, pivots, _ = _factors(t, A)  # noqa: N806
    pivot = diagonal(t, LU, 0, -2, -1)
    signs = reductions.reduce(t.b, "mul", ew.unary(t.b, "sign", pivot), [-1])
    logs = ew.unary(t.b, "log", ew.unary(t.b, "abs", pivot))
    sign = ew.binary(t.b, "mul", signs, _exchanges(t, pivots, LU.dtype))
    return sign, reductions.reduce(t.b, "add", logs, [-1]), LU, pivots


def slogdet(t: Tracer, A: Memory) -> Pair:  # noqa: N803
    made = slogdet_with_factors(t, A)
    return made[0], made[1]


def logdet(t: Tracer, A: Memory) -> Tensor:  # noqa: N803
    sign, log = slogdet(t, A)
    return formula(t.b, lambda s, v: (s < 0.0).choose(float("nan"), v), sign, log)


# -- linear systems


def _solved(t: Tracer, A: Tensor, B: Tensor) -> tuple[Tensor, Tensor]:  # noqa: N803
    """x of A x = B, and the column of the first pivot that is 0, from 1, or 0.

    The factorization of A beside B leaves L^-1 P B on the right, so that one triangular system remains.
    """
    n = A.shape[-1]
    given = _batched(t, A, B)
    made, _, failed = factors.lu(t.b, shapes.concat(t.b, list(given), given[0].rank - 1))
    last = made.rank - 1
    matrix, right = shapes.slice_axis(t.b, made, last, 0, n), shapes.slice_axis(t.b, made, last, n, made.shape[last])
    return linear.triangular_solve(t.b, matrix, right, lower=False), failed


def _system(t: Tracer, A: Tensor, B: Tensor, left: bool) -> tuple[Tensor, Tensor]:  # noqa: N803
    is_vector = B.rank == 1 or (A.rank - 1 == B.rank and all(
        n == m for n, m in zip(A.shape[:-1], B.shape, strict=True)))  # fmt: skip
    given = shapes.expand_dims(t.b, B, [B.rank]) if is_vector else B
    if left or is_vector:
        made, failed = _solved(t, A, given)
    else:
        made, failed = _solved(t, _transposed(t, A), _transposed(t, given))
        made = _transposed(t, made)
    return shapes.squeeze(t.b, made, [made.rank - 1]) if is_vector else made, failed


def solve(t: Tracer, A: Tensor, B: Tensor, *, left: bool = True) -> Tensor:  # noqa: N803
    return _system(t, A, B, left)[0]


def solve_ex(t: Tracer, A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False) -> Pair:  # noqa: N803
    return _system(t, A, B, left)


def solve_with_factors(
    t: Tracer, A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False  # noqa: N803
) -> tuple[Tensor, ...]:  # fmt: skip
    LU, pivots, failed = factors.lu(t.b, A)  # noqa: N806
    return _system(t, A, B, left)[0], LU, pivots, failed


def inv_ex(t: Tracer, A: Tensor, *, check_errors: bool = False) -> Pair:  # noqa: N803
    return _solved(t, A, eye(t, A.shape[-1], dtype=A.dtype))


def inv(t: Tracer, A: Tensor) -> Tensor:  # noqa: N803
    return inv_ex(t, A)[0]


def solve_triangular(
    t: Tracer, self: Tensor, B: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False  # noqa: N803
) -> Tensor:  # fmt: skip
    matrix, given = _batched(t, self, B)
    return linear.triangular_solve(t.b, matrix, given, left=left, lower=not upper, unit=unitriangular)


def triangular_solve(
    t: Tracer, self: Tensor, A: Tensor, upper: bool = True, transpose: bool = False, unitriangular: bool = False  # noqa: N803
) -> Pair:  # fmt: skip
    matrix, given = _batched(t, A, self)
    made = linear.triangular_solve(
        t.b, matrix, given, lower=not upper, transposed=transpose, unit=unitriangular
    )
    return made, matrix


# -- Cholesky and QR


def cholesky(t: Tracer, self: Tensor, *, upper: bool = False) -> Tensor:
    return linear.cholesky(t.b, self, not upper)


def cholesky_old(t: Tracer, self: Tensor, upper: bool = False) -> Tensor:
    return linear.cholesky(t.b, self, not upper)


def cholesky_ex(t: Tracer, self: Tensor, *, upper: bool = False, check_errors: bool = False) -> Pair:
    """Return the factor, and the number of the first leading minor that is not positive definite, or 0."""
    made = linear.cholesky(t.b, self, not upper)
    pivot = diagonal(t, made, 0, -2, -1)
    n = reductions.size_as(t.b, pivot.shape[-1], I32)
    number = shapes.iota(t.b, pivot.shape, pivot.rank - 1, I32)
    failed = formula(t.b, lambda v, i, n: (v > 0.0).choose(n + 1, i + 1), pivot, number, n)
    first = reductions.reduce(t.b, "min", failed, [-1])
    return made, formula(t.b, lambda v, n: (v > n).choose(0, v), first, n)


def cholesky_solve(t: Tracer, self: Tensor, input2: Tensor, upper: bool = False) -> Tensor:
    matrix, given = _batched(t, input2, self)
    made = linear.triangular_solve(t.b, matrix, given, lower=not upper, transposed=upper, conjugated=upper)
    return linear.triangular_solve(t.b, matrix, made, lower=not upper, transposed=not upper, conjugated=not upper)


def cholesky_inverse(t: Tracer, self: Tensor, upper: bool = False) -> Tensor:
    return cholesky_solve(t, eye(t, self.shape[-1], dtype=self.dtype), self, upper)


def qr(t: Tracer, A: Tensor, mode: str = "reduced") -> Pair:  # noqa: N803
    m, n = A.shape[-2:]
    made, scales = factors.qr(t.b, A)
    k = minimum(m, n)
    upper = triangle(t, shapes.slice_axis(t.b, made, A.rank - 2, 0, k), "ge", 0)
    if mode == "r":
        return t.b.constant([], A.dtype), upper
    if mode != "reduced":
        raise t.b.fail(f"QR in the mode '{mode}'; supported are 'reduced' and 'r'")
    return factors.of_reflections(t.b, shapes.slice_axis(t.b, made, A.rank - 1, 0, k), scales), upper


def geqrf(t: Tracer, self: Tensor) -> Pair:
    return factors.qr(t.b, self)


def householder_product(t: Tracer, input: Tensor, tau: Tensor) -> Tensor:
    return factors.of_reflections(t.b, input, tau)


# -- eigenvalues and singular values


def eigh(t: Tracer, self: Tensor, UPLO: str = "L") -> Pair:  # noqa: N803
    return jacobi.eigh(t.b, self, UPLO.upper() != "U")


def eigh_of(t: Tracer, A: Tensor, UPLO: str = "L", compute_v: bool = True) -> Pair:  # noqa: N803
    return eigh(t, A, UPLO)


def eigvalsh(t: Tracer, self: Tensor, UPLO: str = "L") -> Tensor:  # noqa: N803
    return eigh(t, self, UPLO)[0]


def svd(
    t: Tracer, A: Tensor, full_matrices: bool = True, *, driver: str | None = None  # noqa: N803
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    return jacobi.svd(t.b, A, full_matrices)


def svd_of(
    t: Tracer, A: Tensor, full_matrices: bool = False, compute_uv: bool = True, *, driver: str | None = None  # noqa: N803
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    if compute_uv:
        return svd(t, A, full_matrices)
    none = t.b.constant([], A.dtype)
    return none, svdvals(t, A), none


def svdvals(t: Tracer, A: Tensor, *, driver: str | None = None) -> Tensor:  # noqa: N803
    return jacobi.svd(t.b, A)[1]


def pinv(
    t: Tracer, self: Tensor, *, atol: Operand | None = None, rtol: Operand | None = None, hermitian: bool = False
) -> Tensor:
    """Return the pseudoinverse. Singular values that are below a limit, and below a share of the largest one, count as
    0.
    """
    b = t.b
    u, values, vt = jacobi.svd(b, self)
    if rtol is None:
        size = max(n for n in self.shape[-2:] if isinstance(n, int))
        rtol = float(np.finfo(self.dtype.numpy).eps) * size if atol is None else 0.0
    least, share = (as_tensor(t, 0.0 if v is None else v, self.dtype) for v in (atol, rtol))
    least, share = (shapes.expand_dims(b, v, [v.rank]) if v.rank else v for v in (least, share))
    largest = shapes.slice_axis(b, values, values.rank - 1, 0, 1)
    inverse = formula(b, lambda v, most, n, k: (v > n.at_least(k * most)).choose(1.0 / v, 0.0),
                      values, largest, least, share)  # fmt: skip
    scaled = ew.binary(b, "mul", _transposed(t, vt), shapes.expand_dims(b, inverse, [inverse.rank - 1]))
    return products.matmul(b, scaled, _transposed(t, u))


LINEAR_ALGEBRA: dict[str, Conversion] = {
    "aten.linalg_det": det,
    "aten.det": det,
    "aten._linalg_det": det_with_factors,
    "aten.linalg_slogdet": slogdet,
    "aten.slogdet": slogdet,
    "aten._linalg_slogdet": slogdet_with_factors,
    "aten.logdet": logdet,
    "aten.linalg_inv": inv,
    "aten.inverse": inv,
    "aten.linalg_inv_ex": inv_ex,
    "aten.linalg_solve": solve,
    "aten.linalg_solve_ex": solve_ex,
    "aten._linalg_solve_ex": solve_with_factors,
    "aten.linalg_solve_triangular": solve_triangular,
    "aten.triangular_solve": triangular_solve,
    "aten.linalg_lu_factor": lu_factor,
    "aten.linalg_lu_factor_ex": lu_factor_check,
    "aten.linalg_lu": linalg_lu,
    "aten.lu_unpack": lu_unpack,
    "aten.linalg_lu_solve": lu_solve,
    "aten.lu_solve": lu_solve_of,
    "aten.linalg_cholesky": cholesky,
    "aten.linalg_cholesky_ex": cholesky_ex,
    "aten.cholesky": cholesky_old,
    "aten.cholesky_solve": cholesky_solve,
    "aten.cholesky_inverse": cholesky_inverse,
    "aten.linalg_qr": qr,
    "aten.linalg_eigh": eigh,
    "aten._linalg_eigh": eigh_of,
    "aten.linalg_eigvalsh": eigvalsh,
    "aten.linalg_svd": svd,
    "aten._linalg_svd": svd_of,
    "aten.linalg_svdvals": svdvals,
    "aten.linalg_pinv.atol_rtol_tensor": pinv,
    "aten.linalg_pinv.atol_rtol_float": pinv,
    "aten.geqrf": geqrf,
    "aten.linalg_householder_product": householder_product,
    "aten.orgqr": householder_product,
}
