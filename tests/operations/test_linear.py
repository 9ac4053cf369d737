"""Factors of matrices and triangular systems, compared with NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import pydispatch as pd
from pydispatch.operations import factors, linear, systems
from pydispatch.operations.slicing import slice_axis

RNG = np.random.default_rng(11)


def positive_definite(*shape: int, dtype: str = "float32") -> np.ndarray:
    x = RNG.standard_normal((*shape, shape[-1]))
    return (x @ np.swapaxes(x, -1, -2) + shape[-1] * np.eye(shape[-1])).astype(dtype)


CASES = [((1,), "float32"), ((7,), "float64"), ((2, 3, 5), "float32"), ((0,), "float32")]


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(("shape", "dtype"), CASES)
def test_cholesky(run, shape: tuple[int, ...], dtype: str, dynamic: bool) -> None:
    x = positive_definite(*shape, dtype=dtype)
    wanted = np.linalg.cholesky(x.astype(np.float64))
    low, high = np.tril(x), np.triu(x)
    got = run(lambda b, x, y: [linear.cholesky(b, x), linear.cholesky(b, y, lower=False)], low, high, dynamic=dynamic)
    epsilon = 1e-5 if dtype == "float32" else 1e-12
    np.testing.assert_allclose(got[0], wanted, rtol=epsilon, atol=epsilon)
    np.testing.assert_allclose(got[1], np.swapaxes(wanted, -1, -2), rtol=epsilon, atol=epsilon)


def test_a_matrix_that_is_not_positive_definite(run) -> None:
    (got,) = run(linear.cholesky, np.array([[1, 2], [2, 1]], np.float32))
    np.testing.assert_array_equal(got, [[1, 0], [2, np.nan]])


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("unit", [True, False])
def test_triangular_systems(run, left: bool, unit: bool, dynamic: bool) -> None:
    n, m = 6, 4
    a = (RNG.uniform(-1, 1, (2, 3, n, n)) / n + 2 * np.eye(n)).astype(np.float32)
    y = RNG.standard_normal((2, 3, n, m) if left else (2, 3, m, n)).astype(np.float32)
    kinds = [(lower, transposed) for lower in (True, False) for transposed in (True, False)]

    def write(b, a, y):
        if dynamic:  # The sizes of both are those of one call.
            y = b.as_shape(y, (*a.shape[:2], *((a.shape[2], y.shape[3]) if left else (y.shape[2], a.shape[2]))))
        return [linear.triangular_solve(b, a, y, left=left, lower=lower, transposed=transposed, has_unit_diagonal=unit)
                for lower, transposed in kinds]  # fmt: skip

    got = run(write, a, y, dynamic=dynamic)
    for found, (lower, transposed) in zip(got, kinds, strict=True):
        triangle = (np.tril if lower else np.triu)(a.astype(np.float64))
        if unit:
            triangle = triangle - triangle * np.eye(n) + np.eye(n)
        op = np.swapaxes(triangle, -1, -2) if transposed else triangle
        wanted = np.linalg.solve(op, y) if left else np.swapaxes(
            np.linalg.solve(np.swapaxes(op, -1, -2), np.swapaxes(y, -1, -2)), -1, -2)  # fmt: skip
        np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-6)


def test_refused(run) -> None:
    square, other = np.eye(3, dtype=np.float32), np.ones((2, 3), np.float32)
    for write, arrays, message in (
        (linear.cholesky, [other], "expected square matrices"),
        (linear.cholesky, [np.eye(2, dtype=np.int32)], "expected matrices of floats"),
        (linear.triangular_solve, [square, other], "their types and sizes do not fit each other"),
        (linear.triangular_solve, [square, np.eye(3)], "their types and sizes do not fit each other"),
    ):
        with pytest.raises(pd.CompileError, match=message):
            run(write, *arrays)


MATRICES = [((4, 4), "float32"), ((2, 5, 3), "float64"), ((3, 5), "float32"), ((4, 4), "complex64"),
            ((5, 3), "complex128")]  # fmt: skip


def matrix(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    x = RNG.standard_normal(shape) + (1j * RNG.standard_normal(shape) if dtype[0] == "c" else 0)
    return x.astype(dtype)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(("shape", "dtype"), MATRICES)
def test_lu(run, shape: tuple[int, ...], dtype: str, dynamic: bool) -> None:
    x = matrix(shape, dtype)
    made, pivots, failed = run(lambda b, x: list(factors.lu(b, x)), x, dynamic=dynamic)
    m, n = shape[-2:]
    k = min(m, n)
    rows = np.broadcast_to(np.arange(m), (*shape[:-2], m)).copy()
    for j in range(k):
        others = pivots[..., j : j + 1] - 1
        kept = np.take_along_axis(rows, others, -1)
        np.put_along_axis(rows, others, rows[..., j : j + 1].copy(), -1)
        rows[..., j : j + 1] = kept
    product = (np.tril(made, -1)[..., :k] + np.eye(m, k)) @ np.triu(made)[..., :k, :]
    np.testing.assert_allclose(product, np.take_along_axis(x, rows[..., None], -2), rtol=1e-4, atol=1e-4)
    assert not np.any(failed)
    assert np.all(np.abs(np.tril(made, -1)[..., :k]) < 1.5)  # the largest elements became pivots


def test_lu_of_a_singular_matrix(run) -> None:
    made, _, failed = run(lambda b, x: list(factors.lu(b, x)), np.array([[1, 2], [2, 4]], np.float32))
    assert failed == 2 and made.tolist() == [[2, 4], [0.5, 0]]


@pytest.mark.parametrize(("shape", "dtype"), MATRICES)
def test_qr(run, shape: tuple[int, ...], dtype: str) -> None:
    x = matrix(shape, dtype)
    k = min(shape[-2:])

    def write(b, x):  # type: ignore[no-untyped-def]
        made, scales = factors.qr(b, x)
        return [made, factors.product_of_reflections(b, slice_axis(b, made, x.rank - 1, 0, k), scales)]

    made, q = run(write, x)
    np.testing.assert_allclose(q @ np.triu(made)[..., :k, :], x, rtol=1e-4, atol=1e-5)
    identity = np.broadcast_to(np.eye(k), (*shape[:-2], k, k))
    np.testing.assert_allclose(np.swapaxes(q, -1, -2).conj() @ q, identity, atol=1e-5)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("n", [0, 1, 4])
def test_tridiagonal_systems(run, n: int, dynamic: bool) -> None:
    lower, upper = RNG.standard_normal((2, 3, n)).astype(np.float32)
    diagonal, y = RNG.uniform(3, 4, (3, n)).astype(np.float32), RNG.standard_normal((3, n, 2)).astype(np.float32)
    solution, status = run(systems.tridiagonal_solve, lower, diagonal, upper, y, dynamic=dynamic)
    matrices = [
        np.diag(middle) + np.diag(below[1:], -1) + np.diag(above[:-1], 1) if n else np.zeros((0, 0))
        for below, middle, above in zip(lower, diagonal, upper, strict=True)
    ]
    np.testing.assert_allclose(solution, np.linalg.solve(matrices, y), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(status, [0, 0, 0])
