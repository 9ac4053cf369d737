"""Conversions of linear algebra: Cholesky and QR, eigenvalues and singular values, and the table of all operators."""

from __future__ import annotations

import numpy as np

from pydispatch.frontends.torch.nodes.creation import eye
from pydispatch.frontends.torch.nodes.linear_systems import (
    Pair,
    det,
    det_with_factors,
    inv,
    inv_ex,
    linalg_lu,
    logdet,
    lu_factor,
    lu_factor_ex,
    lu_solve,
    lu_solve_legacy,
    lu_unpack,
    slogdet,
    slogdet_with_factors,
    solve,
    solve_ex,
    solve_triangular,
    solve_with_factors,
    triangular_solve,
)
from pydispatch.frontends.torch.nodes.parts import diagonal
from pydispatch.frontends.torch.promotion import Operand, as_tensor
from pydispatch.frontends.torch.trace import Conversion
from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import I32
from pydispatch.graph.values import Tensor
from pydispatch.operations import eigen, factors, jacobi, linear, matrices, products, reductions, shapes, systems
from pydispatch.operations import elementwise as ew
from pydispatch.operations.formulas import formula

# -- Cholesky and QR


def cholesky(b: Builder, self: Tensor, *, upper: bool = False) -> Tensor:
    return linear.cholesky(b, self, not upper)


def cholesky_legacy(b: Builder, self: Tensor, upper: bool = False) -> Tensor:
    return linear.cholesky(b, self, not upper)


def cholesky_ex(b: Builder, self: Tensor, *, upper: bool = False, check_errors: bool = False) -> Pair:
    """Return the Cholesky factor, and the order of the first leading minor that is not positive definite, or 0."""
    factor = linear.cholesky(b, self, not upper)
    pivot = diagonal(b, factor, 0, -2, -1)
    n = reductions.size_as(b, pivot.shape[-1], I32)
    index = shapes.iota(b, pivot.shape, pivot.rank - 1, I32)
    failed = formula(b, lambda v, i, n: (v > 0.0).where(n + 1, i + 1), pivot, index, n)
    first = reductions.reduce(b, "min", failed, [-1])
    return factor, formula(b, lambda v, n: (v > n).where(0, v), first, n)


def cholesky_solve(b: Builder, self: Tensor, input2: Tensor, upper: bool = False) -> Tensor:
    """Solve A x = self, where `input2` is the Cholesky factor of A."""
    matrix, right = systems.broadcast_batches(b, input2, self)
    partial = linear.triangular_solve(b, matrix, right, lower=not upper, transposed=upper, conjugated=upper)
    return linear.triangular_solve(b, matrix, partial, lower=not upper, transposed=not upper, conjugated=not upper)


def cholesky_inverse(b: Builder, self: Tensor, upper: bool = False) -> Tensor:
    return cholesky_solve(b, eye(b, self.shape[-1], dtype=self.dtype), self, upper)


def qr(b: Builder, A: Tensor, mode: str = "reduced") -> Pair:  # noqa: N803
    """Return Q and R; in the mode "r", an empty Q."""
    if mode not in ("reduced", "r"):
        raise b.fail(f"QR in the mode '{mode}'; supported are 'reduced' and 'r'")
    q, r = systems.qr(b, A)
    return q if mode == "reduced" else b.constant([], A.dtype), r


def geqrf(b: Builder, self: Tensor) -> Pair:
    return factors.qr(b, self)


def householder_product(b: Builder, input: Tensor, tau: Tensor) -> Tensor:
    return factors.of_reflections(b, input, tau)


# -- eigenvalues and singular values


def eigh(b: Builder, self: Tensor, UPLO: str = "L") -> Pair:  # noqa: N803
    return eigen.eigh(b, self, UPLO.upper() != "U")


def eigh_with_options(b: Builder, A: Tensor, UPLO: str = "L", compute_v: bool = True) -> Pair:  # noqa: N803
    return eigh(b, A, UPLO)


def eigvalsh(b: Builder, self: Tensor, UPLO: str = "L") -> Tensor:  # noqa: N803
    return eigh(b, self, UPLO)[0]


def eig(b: Builder, self: Tensor) -> Pair:
    return eigen.eig(b, self)[:2]


def eigvals(b: Builder, self: Tensor) -> Tensor:
    return eigen.eigenvalues(b, self)


def svd(
    b: Builder, A: Tensor, full_matrices: bool = True, *, driver: str | None = None  # noqa: N803
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    return jacobi.svd(b, A, full_matrices)


def svd_with_options(
    b: Builder, A: Tensor, full_matrices: bool = False, compute_uv: bool = True, *, driver: str | None = None  # noqa: N803
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Return U, singular values and V^H; U and V^H are empty without `compute_uv`."""
    if compute_uv:
        return svd(b, A, full_matrices)
    none = b.constant([], A.dtype)
    return none, svdvals(b, A), none


def svdvals(b: Builder, A: Tensor, *, driver: str | None = None) -> Tensor:  # noqa: N803
    return jacobi.svd(b, A)[1]


def pinv(
    b: Builder, self: Tensor, *, atol: Operand | None = None, rtol: Operand | None = None, hermitian: bool = False
) -> Tensor:
    """Return the pseudoinverse. Singular values that do not exceed `_singular_value_cutoff` count as 0.

    Args:
        b: The builder.
        self: Matrices [..., m, n].
        atol: Absolute tolerance.
        rtol: Tolerance relative to the largest singular value.
        hermitian: The matrices are symmetric or Hermitian; only their lower triangles are read.
    """
    if hermitian:
        values, right = eigen.eigh(b, self)
        left = right
    else:
        u, values, vt = jacobi.svd(b, self)
        left, right = matrices.adjoint(b, vt), u
    cutoff = _singular_value_cutoff(b, self, values, atol, rtol)
    inverse = formula(b, lambda v, n: (v.unary("abs") > n).where(1.0 / v, 0.0), values, cutoff)
    weights = ew.convert(b, shapes.expand_dims(b, inverse, [inverse.rank - 1]), left.dtype)
    scaled = ew.binary(b, "mul", left, weights)
    return products.matmul(b, scaled, matrices.adjoint(b, right))


def _singular_value_cutoff(b: Builder, x: Tensor, values: Tensor, atol: Operand | None, rtol: Operand | None) -> Tensor:
    """Return the cutoff of singular values, [..., 1]: max(atol, rtol * largest value).

    The default of rtol is eps * max(m, n) if atol is 0, else 0.
    """
    absolute = as_tensor(b, 0.0 if atol is None else atol, values.dtype)
    if rtol is None:
        m, n = x.shape[-2:]
        default_rtol = float(np.finfo(x.dtype.numpy).eps) * max(int(m), int(n))  # type: ignore[arg-type]
        relative = formula(b, lambda v: (v > 0.0).where(v.const(0.0), default_rtol), absolute)
    else:
        relative = as_tensor(b, rtol, values.dtype)
    absolute, relative = (shapes.expand_dims(b, v, [v.rank]) if v.rank else v for v in (absolute, relative))
    largest = reductions.reduce(b, "max", ew.unary(b, "abs", values), [-1], True)
    return formula(b, lambda v, a, r: a.max(r * v), largest, absolute, relative)


def pinv_by_rcond(b: Builder, self: Tensor, rcond: Operand = 1e-15, hermitian: bool = False) -> Tensor:
    return pinv(b, self, atol=0.0, rtol=rcond, hermitian=hermitian)


def adjoint(b: Builder, self: Tensor) -> Tensor:
    return matrices.adjoint(b, self)


LINEAR_ALGEBRA: dict[str, Conversion] = {
    "aten.adjoint": adjoint,
    "aten.mH": adjoint,
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
    "aten.linalg_lu_factor_ex": lu_factor_ex,
    "aten.linalg_lu": linalg_lu,
    "aten.lu_unpack": lu_unpack,
    "aten.linalg_lu_solve": lu_solve,
    "aten.lu_solve": lu_solve_legacy,
    "aten.linalg_cholesky": cholesky,
    "aten.linalg_cholesky_ex": cholesky_ex,
    "aten.cholesky": cholesky_legacy,
    "aten.cholesky_solve": cholesky_solve,
    "aten.cholesky_inverse": cholesky_inverse,
    "aten.linalg_qr": qr,
    "aten.linalg_eigh": eigh,
    "aten._linalg_eigh": eigh_with_options,
    "aten.linalg_eigvalsh": eigvalsh,
    "aten.linalg_eig": eig,
    "aten.linalg_eigvals": eigvals,
    "aten.linalg_svd": svd,
    "aten._linalg_svd": svd_with_options,
    "aten.linalg_svdvals": svdvals,
    "aten.linalg_pinv.atol_rtol_tensor": pinv,
    "aten.linalg_pinv.atol_rtol_float": pinv,
    "aten.linalg_pinv": pinv_by_rcond,
    "aten.linalg_pinv.rcond_tensor": pinv_by_rcond,
    "aten.pinverse": pinv_by_rcond,
    "aten.geqrf": geqrf,
    "aten.linalg_householder_product": householder_product,
    "aten.orgqr": householder_product,
}
