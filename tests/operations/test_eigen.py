"""Schur forms and eigenvalues of general and Hermitian matrices, against NumPy and by residuals."""

from __future__ import annotations

import numpy as np
import pytest

import pydispatch as pd
from pydispatch.operations import eigen, factors

RNG = np.random.default_rng(11)


def eps(dtype: str) -> float:
    return float(np.finfo(dtype).eps)


def random(dtype: str, *shape: int) -> np.ndarray:
    x = RNG.standard_normal(shape)
    return (x + 1j * RNG.standard_normal(shape) if dtype.startswith("c") else x).astype(dtype)


def adjoint(x: np.ndarray) -> np.ndarray:
    return x.conj().swapaxes(-1, -2)


def assert_small(residual: np.ndarray, x: np.ndarray, dtype: str) -> None:
    """Check a backward error against 20 n eps times the norm of each matrix."""
    n = x.shape[-1]
    norms = np.linalg.norm(x.astype(np.complex128), axis=(-2, -1))
    errors = np.linalg.norm(residual.astype(np.complex128), axis=(-2, -1))
    assert (errors <= 20 * n * eps(dtype) * norms).all(), (errors, norms)


def hard_matrices() -> dict[str, np.ndarray]:
    """Matrices on which QR iterations without care stagnate, lose accuracy or divide by zero."""
    n = 8
    companion = np.diag(np.ones(n - 1), -1)
    companion[0] = -np.poly(np.arange(1, n + 1))[1:]
    return {
        "zero": np.zeros((n, n)),
        "identity": np.eye(n),
        "cyclic": np.roll(np.eye(n), 1, 0),
        "jordan": 2 * np.eye(n) + np.diag(np.ones(n - 1), 1),
        "nilpotent": np.diag(np.ones(n - 1), -1),
        "companion": companion,
        "graded": 10.0 ** -np.abs(np.subtract.outer(np.arange(n), np.arange(n)) * 3.0),
        "skew": np.triu(np.ones((n, n)), 1) - np.tril(np.ones((n, n)), -1),
        "rank 1": np.outer(np.arange(n), np.ones(n)),
        "large": 1e30 * np.triu(np.ones((n, n)), -1),
        "small": 1e-30 * np.triu(np.ones((n, n)), -1),
    }


DEFECTIVE = RNG.integers(-2, 3, (4000, 3, 3))
"""Among small integer matrices many have equal eigenvalues, whose rounding errors are the square root of a step."""
HARD = np.stack(list(hard_matrices().values()))


def beside_others(matrices: np.ndarray, dtype: str) -> np.ndarray:
    """Return a batch with NaN in the first matrix, an infinity in the second, and two random ones before the others."""
    x = np.concatenate([random(dtype, 4, *matrices.shape[1:]), matrices.astype(dtype)])
    x[0, -1, 0], x[1, 0, -1] = np.nan, -np.inf
    return x


@pytest.mark.parametrize(("dtype", "matrices"), [
    ("float32", HARD), ("complex128", HARD), ("float64", DEFECTIVE), ("complex64", np.ones((1, 1, 1))),
])  # fmt: skip
def test_schur_forms_and_eigenvectors(run, dtype: str, matrices: np.ndarray) -> None:
    x = beside_others(matrices, dtype)

    def decompositions(b, a):
        return [*eigen.schur(b, a), *eigen.eig(b, a, left=True), eigen.eigenvalues(b, a)]

    found = run(decompositions, x)
    assert all(np.isnan(result[:2]).all() for result in found)
    x, (t, q, values, right, left, alone) = x[2:], (result[2:] for result in found)
    n, is_complex = x.shape[-1], dtype.startswith("c")
    wide, wide_q = x.astype(np.complex128), q.astype(np.complex128)
    assert_small(wide_q @ t @ adjoint(wide_q) - x, x, dtype)
    assert np.abs(adjoint(q) @ q - np.eye(n)).max() < 20 * n * eps(dtype)
    assert not np.tril(t, -1 if is_complex else -2).any()
    assert_small(wide @ right - values[..., None, :] * right, x, dtype)
    assert_small(adjoint(left) @ wide - values[..., :, None] * adjoint(left), x, dtype)
    np.testing.assert_allclose(np.linalg.norm(right, axis=-2), 1, rtol=10 * eps(dtype))
    np.testing.assert_array_equal(values, alone)
    if not is_complex:
        below = np.diagonal(t, -1, -2, -1)
        assert not (below[..., 1:] * below[..., :-1]).any()
        diagonal, above = np.diagonal(t, 0, -2, -1), np.diagonal(t, 1, -2, -1)
        is_standard = (diagonal[..., 1:] == diagonal[..., :-1]) & (np.sign(below) * np.sign(above) < 0)
        assert np.all((below == 0) | is_standard)
        np.testing.assert_array_equal(np.sort_complex(values), np.sort_complex(values.conj()))
        is_real = np.broadcast_to((values.imag == 0)[..., None, :], right.shape)
        assert not right.imag[is_real].any()


def test_vectors_of_small_eigenvalues_of_a_graded_matrix(run) -> None:
    """Rounding errors are relative to the eigenvalue, not to the largest element."""
    x = np.array([[1, 0, 0], [0, 1e-10, 1e-10], [0, 0, 3e-10]], np.float32)
    values, vectors = run(lambda b, a: list(eigen.eig(b, a)[:2]), x)
    expected_values, expected_vectors = np.linalg.eig(x.astype(np.float64))
    np.testing.assert_allclose(values, expected_values, rtol=1e-6)
    np.testing.assert_allclose(vectors, expected_vectors, atol=1e-6)


@pytest.mark.parametrize(("dtype", "dynamic"), [("float32", False), ("float32", True), ("complex128", True)])
def test_matrices_of_order_0(run, dtype: str, dynamic: bool) -> None:
    x = np.zeros((2, 0, 0), dtype)

    def decompositions(b, a):
        return [*eigen.schur(b, a), *eigen.eig(b, a, left=True), eigen.eigenvalues(b, a), *factors.hessenberg(b, a)]

    shapes = [result.shape for result in run(decompositions, x, dynamic=dynamic)]
    assert shapes == [(2, 0, 0), (2, 0, 0), (2, 0), (2, 0, 0), (2, 0, 0), (2, 0), (2, 0, 0), (2, 0)]


@pytest.mark.parametrize(("dtype", "lower", "dynamic"), [
    ("complex64", True, False), ("complex128", False, False), ("float32", False, True), ("float64", True, True),
])  # fmt: skip
def test_eigenvalues_of_hermitian_matrices(run, dtype: str, lower: bool, dynamic: bool) -> None:
    x = random(dtype, 2, 7, 7)
    triangle = np.tril(x, -1) if lower else np.triu(x, 1)
    hermitian = triangle + adjoint(triangle) + np.eye(7) * x.real
    values, vectors = run(lambda b, a: list(eigen.eigh(b, a, lower)), x, dynamic=dynamic)
    np.testing.assert_allclose(values, np.linalg.eigvalsh(hermitian.astype(np.complex128)), atol=100 * eps(dtype))
    assert_small(hermitian @ vectors - values[:, None] * vectors, hermitian, dtype)
    assert np.abs(adjoint(vectors) @ vectors - np.eye(7)).max() < 100 * eps(dtype)


@pytest.mark.parametrize("dtype", ["float64", "complex64"])
def test_hessenberg_forms(run, dtype: str) -> None:
    x = random(dtype, 2, 6, 6)
    packed, scales = run(lambda b, a: list(factors.hessenberg(b, a)), x)
    q = np.broadcast_to(np.eye(6, dtype=dtype), x.shape).copy()
    for j in range(5):
        v = np.where(np.arange(6) > j + 1, packed[:, :, j], 0) + np.eye(6)[j + 1]
        q = q @ (np.eye(6) - scales[:, j, None, None] * v[:, :, None] * v[:, None, :].conj())
    assert_small(q @ np.triu(packed, -1) @ adjoint(q) - x, x, dtype)
    assert np.abs(adjoint(q) @ q - np.eye(6)).max() < 100 * eps(dtype)


def test_matrices_of_other_shapes_and_types_are_refused(run) -> None:
    with pytest.raises(pd.CompileError, match=r"the Schur form of f32\[3, 4\]: expected square matrices$"):
        run(lambda b, a: list(eigen.schur(b, a)), random("float32", 3, 4))
    with pytest.raises(pd.InvalidArgumentError, match="form of matrices of 3 rows and 4 columns: expected square"):
        run(lambda b, a: list(factors.hessenberg(b, a)), random("float32", 3, 4), dynamic=True)
    with pytest.raises(pd.CompileError, match=r"(?s)eigenvalues of i64.*convert the operand to f32 first"):
        run(lambda b, a: eigen.eigenvalues(b, a), np.eye(3, dtype=np.int64))
