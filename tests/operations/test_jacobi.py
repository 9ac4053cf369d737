"""Eigenvalues and singular values of matrices of every magnitude, compared with NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import pydispatch as pd
from pydispatch.operations import jacobi

RNG = np.random.default_rng(3)
SCALES = {"float32": (1e-38, 1e-25, 1e-12, 1.0, 1e20, 1e37), "float64": (1e-300, 1e-100, 1.0, 1e100, 1e300)}
TOLERANCES = {"float32": 2e-6, "float64": 2e-14}
COMPLEX = {"float32": np.complex64, "float64": np.complex128}


def batch(dtype: str, m: int, n: int) -> np.ndarray:
    """Random matrices of each magnitude, and one of zeros."""
    scales = np.array([*SCALES[dtype], 0.0])
    return (RNG.uniform(-1, 1, (len(scales), m, n)) * scales[:, None, None]).astype(dtype)


def close(found: np.ndarray, wanted: np.ndarray) -> None:
    """Compare matrices or vectors with the largest magnitude of each as the unit."""
    axes = tuple(range(1, wanted.ndim))
    unit = np.abs(wanted).max(axes, keepdims=True)
    unit[unit == 0] = 1
    np.testing.assert_allclose(found / unit, wanted / unit, rtol=0, atol=TOLERANCES[found.real.dtype.name])


def orthonormal(columns: np.ndarray) -> None:
    product = columns.conj().swapaxes(1, 2) @ columns
    close(product, np.broadcast_to(np.eye(product.shape[-1], dtype=product.dtype), product.shape))


@pytest.mark.parametrize("m, n, dynamic", [(4, 4, False), (5, 3, False), (5, 3, True)])
@pytest.mark.parametrize("dtype", SCALES)
def test_singular_values_of_every_magnitude_in_one_batch(run, dtype: str, m: int, n: int, dynamic: bool) -> None:
    x = batch(dtype, m, n)
    u, values, vt = run(lambda b, x: list(jacobi.svd(b, x)), x, dynamic=dynamic)
    close(values, np.linalg.svd(x.astype(np.float64), compute_uv=False))
    orthonormal(u)
    orthonormal(vt.swapaxes(1, 2))
    close(u * values[:, None] @ vt, x)


@pytest.mark.parametrize("m, n, dynamic", [(4, 4, False), (2, 5, False), (2, 5, True)])
@pytest.mark.parametrize("dtype", SCALES)
def test_singular_values_of_complex_matrices(run, dtype: str, m: int, n: int, dynamic: bool) -> None:
    """The last matrix of ordinary magnitude has dependent columns."""
    x = (batch(dtype, m, n) + 1j * batch(dtype, m, n)).astype(COMPLEX[dtype])
    x[-2] /= SCALES[dtype][-1]
    x[-2, :, 1] = (2 - 3j) * x[-2, :, 0]
    u, values, vt = run(lambda b, x: list(jacobi.svd(b, x, full=True)), x, dynamic=dynamic)
    close(values, np.linalg.svd(x.astype(np.complex128), compute_uv=False))
    orthonormal(u)
    orthonormal(vt.conj().swapaxes(1, 2))
    least = min(m, n)
    close(u[..., :least] * values[:, None] @ vt[:, :least], x)


@pytest.mark.parametrize("n", [3, 4])
@pytest.mark.parametrize("dtype", SCALES)
def test_eigenvalues_of_every_magnitude_in_one_batch(run, dtype: str, n: int) -> None:
    x = batch(dtype, n, n)
    symmetric = np.tril(x) + np.tril(x, -1).swapaxes(1, 2)
    values, vectors = run(lambda b, x: list(jacobi.eigh(b, x)), x)
    close(values, np.linalg.eigvalsh(symmetric.astype(np.float64)))
    orthonormal(vectors)
    close(vectors * values[:, None] @ vectors.swapaxes(1, 2), symmetric)


@pytest.mark.parametrize("dtype", SCALES)
def test_columns_of_very_different_lengths(run, dtype: str) -> None:
    small = SCALES[dtype][1]
    x = (RNG.uniform(1, 2, (1, 4, 3)) * [1.0, small, 1e-6]).astype(dtype)
    diagonal = np.diag([1.0, small, 2.0]).astype(dtype)[None]
    values, others = run(lambda b, x, y: [jacobi.svd(b, x)[1], jacobi.svd(b, y)[1]], x, diagonal)
    close(values, np.linalg.svd(x.astype(np.float64), compute_uv=False))
    np.testing.assert_allclose(others, np.array([[2.0, 1.0, small]]), rtol=TOLERANCES[dtype])


@pytest.mark.parametrize("n", [3, 4])
def test_a_matrix_with_nan_leaves_the_others_of_its_batch_alone(run, n: int) -> None:
    x = RNG.uniform(-1, 1, (2, n, n)) * 1e-120
    x[0, 1, 0] = np.nan
    values, lengths = run(lambda b, x: [jacobi.eigh(b, x)[0], jacobi.svd(b, x)[1]], x)
    assert np.isnan(values[0]).all() and np.isnan(lengths[0]).all()
    close(values[1:], np.linalg.eigvalsh(x[1:]))
    close(lengths[1:], np.linalg.svd(x[1:], compute_uv=False))


def test_matrices_without_rows_or_columns(run) -> None:
    def decompositions(b, tall, wide, square):
        return [*jacobi.svd(b, tall), *jacobi.svd(b, tall, full=True), *jacobi.svd(b, wide), *jacobi.eigh(b, square)]

    tall, wide, square = (np.zeros(shape, np.float32) for shape in ((2, 3, 0), (2, 0, 3), (2, 0, 0)))
    found = run(decompositions, tall, wide, square)
    expected = [
        *np.linalg.svd(tall, full_matrices=False), *np.linalg.svd(tall),
        *np.linalg.svd(wide, full_matrices=False), *np.linalg.eigh(square),
    ]  # fmt: skip
    for got, want in zip(found, expected, strict=True):
        np.testing.assert_array_equal(got, want)


def test_large_matrices_are_refused(run) -> None:
    with pytest.raises(pd.CompileError, match=r"eigenvalues of f32\[1025, 1025\]: the smaller size is at most 1024"):
        run(lambda b, x: list(jacobi.eigh(b, x)), np.zeros((1025, 1025), np.float32))
