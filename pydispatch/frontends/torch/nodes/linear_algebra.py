"""Conversions of linear algebra: Cholesky and QR, eigenvalues and singular values, and the table of all operators."""

from __future__ import annotations

import numpy as np

from pydispatch.frontends.torch.nodes.creation import eye
from pydispatch.frontends.torch.nodes.linear_systems import Pair
from pydispatch.frontends.torch.nodes.parts import diagonal
from pydispatch.frontends.torch.promotion import Operand, as_tensor
from pydispatch.frontends.torch.registry import converts, register
from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import I32
from pydispatch.graph.values import Tensor
from pydispatch.operations import eigen, factors, jacobi, linear, matrices, products, reductions, shapes, systems
from pydispatch.operations import elementwise as ew
from pydispatch.operations.formulas import formula

# -- Cholesky and QR


@converts("aten.linalg_cholesky", "aten.cholesky")
def cholesky(builder: Builder, self: Tensor, upper: bool = False) -> Tensor:
    """Return the triangle L with A = L L^H, or with `upper` the triangle U with A = U^H U."""
    return linear.cholesky(builder, self, lower=not upper)


@converts("aten.linalg_cholesky_ex")
def cholesky_ex(builder: Builder, self: Tensor, *, upper: bool = False, check_errors: bool = False) -> Pair:
    """Return the Cholesky factor, and the order of the first leading minor that is not positive definite, 0 for none.

    That order is the index, counted from 1, of the first pivot (element of the diagonal of the factor) that is not
    positive or is NaN. check_errors has no effect: a failure raises no error.
    """
    factor = linear.cholesky(builder, self, lower=not upper)
    pivot = diagonal(builder, factor, offset=0, dim1=-2, dim2=-1)
    n = reductions.size_as(builder, pivot.shape[-1], I32)
    index = shapes.iota(builder, pivot.shape, pivot.rank - 1, I32)
    orders = formula(builder, lambda v, i, n: (v > 0.0).where(n + 1, i + 1), pivot, index, n)  # n + 1: not failed
    least_order = reductions.reduce(builder, "min", orders, [-1])
    return factor, formula(builder, lambda v, n: (v > n).where(0, v), least_order, n)


@converts("aten.cholesky_solve")
def cholesky_solve(builder: Builder, self: Tensor, input2: Tensor, upper: bool = False) -> Tensor:
    """Solve A x = self. `input2` is the Cholesky factor of A: L of A = L L^H, or with `upper` U of A = U^H U.

    The forward substitution solves L y = self (U^H y = self), the backward substitution L^H x = y (U x = y).
    """
    matrix, right = systems.broadcast_batches(builder, input2, self)
    partial = linear.triangular_solve(builder, matrix, right, lower=not upper, transposed=upper, conjugated=upper)
    return linear.triangular_solve(
        builder, matrix, partial, lower=not upper, transposed=not upper, conjugated=not upper
    )


@converts("aten.cholesky_inverse")
def cholesky_inverse(builder: Builder, self: Tensor, upper: bool = False) -> Tensor:
    """Return the inverse of the matrix whose Cholesky factor is `self`, the upper one with `upper`."""
    return cholesky_solve(builder, eye(builder, self.shape[-1], dtype=self.dtype), self, upper)


@converts("aten.linalg_qr")
def qr(builder: Builder, A: Tensor, mode: str = "reduced") -> Pair:  # noqa: N803
    """Return Q [..., m, k] and R [..., k, n] of A [..., m, n], where k is the smaller of m and n; in the mode "r", an
    empty Q.
    """
    if mode not in ("reduced", "r"):
        raise builder.fail(f"QR in the mode '{mode}'; supported are 'reduced' and 'r'")
    q, r = systems.qr(builder, A)
    return q if mode == "reduced" else builder.constant([], A.dtype), r


# -- eigenvalues and singular values


@converts("aten.linalg_eigh", "aten._linalg_eigh")
def eigh(builder: Builder, self: Tensor, UPLO: str = "L", compute_v: bool = True) -> Pair:  # noqa: N803
    """Return eigenvalues, ascending, and eigenvectors of symmetric or Hermitian matrices. UPLO: the triangle that is
    read.
    """
    return eigen.eigh(builder, self, lower=UPLO.upper() != "U")


@converts("aten.linalg_eigvalsh")
def eigvalsh(builder: Builder, self: Tensor, UPLO: str = "L") -> Tensor:  # noqa: N803
    """Return the eigenvalues of `eigh`."""
    return eigh(builder, self, UPLO)[0]


@converts("aten.linalg_eig")
def eig(builder: Builder, self: Tensor) -> Pair:
    """Return the eigenvalues and the eigenvectors of any square matrices, as complex numbers."""
    return eigen.eig(builder, self)[:2]  # without the left eigenvectors


@converts("aten.linalg_svd")
def svd(
    builder: Builder, A: Tensor, full_matrices: bool = True, *, driver: str | None = None  # noqa: N803
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Return U, the singular values in descending order, and V^H. The driver has no effect.

    full_matrices: whether U and V^H are square, instead of having min(m, n) columns and rows.
    """
    return jacobi.svd(builder, A, full=full_matrices)


@converts("aten._linalg_svd")
def svd_with_options(
    builder: Builder, A: Tensor, full_matrices: bool = False, compute_uv: bool = True, *, driver: str | None = None  # noqa: N803
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Return U, singular values and V^H; U and V^H are empty without `compute_uv`."""
    if compute_uv:
        return svd(builder, A, full_matrices)
    none = builder.constant([], A.dtype)
    return none, svdvals(builder, A), none


@converts("aten.linalg_svdvals")
def svdvals(builder: Builder, A: Tensor, *, driver: str | None = None) -> Tensor:  # noqa: N803
    """Return the singular values in descending order. The driver has no effect."""
    return jacobi.svd(builder, A)[1]


@converts("aten.linalg_pinv.atol_rtol_tensor", "aten.linalg_pinv.atol_rtol_float")
def pinv(
    builder: Builder, self: Tensor, *, atol: Operand | None = None, rtol: Operand | None = None, hermitian: bool = False
) -> Tensor:
    """Return the pseudoinverses [..., n, m]. Singular values up to max(atol, rtol * largest singular value) count as 0.

    Args:
        builder: The builder.
        self: Matrices [..., m, n].
        atol: Absolute tolerance; None for 0.
        rtol: Tolerance relative to the largest singular value; None for eps * max(m, n), or for 0 if atol is above 0.
        hermitian: The matrices are symmetric or Hermitian; only their lower triangles are read.
    """
    if hermitian:
        values, right = eigen.eigh(builder, self)
        left = right
    else:
        u, values, vt = jacobi.svd(builder, self)
        left, right = matrices.adjoint(builder, vt), u
    cutoff = _singular_value_cutoff(builder, self, values, atol, rtol)
    # The pseudoinverse of U diag(values) V^H is V diag(1 / values) U^H: `left` is V, `right` is U. For Hermitian
    # matrices both have the eigenvectors, and the values are eigenvalues, which may be negative.
    inverse = formula(builder, lambda v, n: (v.unary("abs") > n).where(1.0 / v, 0.0), values, cutoff)
    weights = ew.convert(builder, shapes.expand_dims(builder, inverse, [inverse.rank - 1]), left.dtype)
    scaled = ew.binary(builder, "mul", left, weights)
    return products.matmul(builder, scaled, matrices.adjoint(builder, right))


def _singular_value_cutoff(
    builder: Builder, x: Tensor, values: Tensor, atol: Operand | None, rtol: Operand | None
) -> Tensor:
    """Return the cutoff of singular values, [..., 1]: max(atol, rtol * largest magnitude).

    x: the matrices [..., m, n]. values: their singular values or, if the matrices are Hermitian, their eigenvalues.
    atol: None for 0. rtol: None for eps * max(m, n) if atol is 0, else for 0; eps is the machine epsilon.
    """
    absolute = as_tensor(builder, 0.0 if atol is None else atol, values.dtype)
    if rtol is None:
        m, n = x.shape[-2:]
        default_rtol = float(np.finfo(x.dtype.numpy).eps) * max(int(m), int(n))  # type: ignore[arg-type]
        relative = formula(builder, lambda v: (v > 0.0).where(v.const(0.0), default_rtol), absolute)
    else:
        relative = as_tensor(builder, rtol, values.dtype)
    # A tolerance for each matrix, [...], gets an axis of size 1 for the singular values; a number broadcasts as it is.
    absolute, relative = (shapes.expand_dims(builder, v, [v.rank]) if v.rank else v for v in (absolute, relative))
    largest = reductions.reduce(builder, "max", ew.unary(builder, "abs", values), [-1], keep=True)
    return formula(builder, lambda v, a, r: a.max(r * v), largest, absolute, relative)


@converts("aten.linalg_pinv", "aten.linalg_pinv.rcond_tensor", "aten.pinverse")
def pinv_by_rcond(builder: Builder, self: Tensor, rcond: Operand = 1e-15, hermitian: bool = False) -> Tensor:
    """Return the pseudoinverse with a tolerance relative to the largest singular value only."""
    return pinv(builder, self, atol=0.0, rtol=rcond, hermitian=hermitian)


register({
    **dict.fromkeys(("aten.adjoint", "aten.mH"), matrices.adjoint),
    "aten.geqrf": factors.qr,
    "aten.linalg_eigvals": eigen.eigenvalues,
    **dict.fromkeys(("aten.linalg_householder_product", "aten.orgqr"), factors.product_of_reflections),
})  # fmt: skip
