"""Functions of numpy.linalg in programs against NumPy, by values that no sign, phase or order changes."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import pytest

import pydispatch as pd
from pydispatch.operations import factors
from pydispatch.programs.array import Array
from pydispatch.programs.functions import linalg

Matrices = Annotated[np.ndarray, pd.f32["batch", 3, 3]]
X = np.random.default_rng(6).standard_normal((2, 3, 3)).astype(np.float32)


def decompositions(x: Matrices) -> Any:
    w, v = np.linalg.eig(x)
    symmetric = x + np.matrix_transpose(x)
    h = np.linalg.eigh(symmetric)
    u, s, vt = np.linalg.svd(x)
    q, r = np.linalg.qr(x)
    return (
        np.linalg.eigvals(x).sum(axis=-1).real, x @ v - v * w[:, None, :], h.eigenvalues, np.linalg.eigvalsh(symmetric),
        symmetric @ h.eigenvectors - h.eigenvectors * h.eigenvalues[:, None], s, u * s[:, None] @ vt,
        np.linalg.svdvals(x), q @ r, abs(r),
    )  # fmt: skip


def systems(x: Matrices) -> Any:
    positive = x @ np.matrix_transpose(x) + np.eye(3, dtype=np.float32)
    sign, logarithm = np.linalg.slogdet(x)
    return (
        np.linalg.inv(x), np.linalg.solve(x, x[:, :, :2] + 1), np.linalg.solve(x, np.arange(3, dtype=np.float32)),
        np.linalg.det(x), sign, logarithm, np.linalg.cholesky(positive), np.triu(x, 1), np.tril(x, -1),
        np.linalg.trace(x), np.linalg.trace(x, offset=-1), np.trace(x, 1, 0, 2), np.trace(x), np.trace(x[0], 3),
        np.linalg.outer(x[0, 0], x[1, :, 2]), np.outer(x[0], x[1, 0]),
    )  # fmt: skip


@pytest.mark.parametrize("function", [decompositions, systems])
def test_is_as_numpy(function: Any) -> None:
    program = pd.device("cpu").load(pd.compile(pd.program(function)))
    found = program.functions[function.__name__](X)
    wanted = function(X)
    for result, expected in zip(found, wanted, strict=True):
        assert result.shape == expected.shape
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=2e-5)


def test_several_results_without_a_named_tuple(monkeypatch: pytest.MonkeyPatch) -> None:
    two_results = linalg._function(lambda trace, x: factors.lu(trace, x)[:2])
    monkeypatch.setitem(Array.FUNCTIONS, "eigvals", two_results)  # in place of a function with one result

    @pd.program
    def lu(x: Matrices) -> Any:
        packed, _ = np.linalg.eigvals(x)
        return packed

    packed = lu(X)
    lower, upper = np.tril(packed, -1) + np.eye(3, dtype=np.float32), np.triu(packed)
    rows = np.sort(X, axis=1)  # pivots permute the rows
    np.testing.assert_allclose(np.sort(lower @ upper, axis=1), rows, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize(("function", "message"), [
    (lambda x: np.linalg.inv(x[0, 0]), r"numpy.linalg of f32\[3\]: expected matrices"),
    (lambda x: np.linalg.qr(x, "complete"), "numpy.linalg.qr in the mode 'complete' is not a part of programs"),
    (lambda x: np.linalg.det(x.astype(np.float16)), "numpy.linalg has no functions of f16"),
    (lambda x: np.linalg.eigvals(x[:, :2]), "expected square matrices"),
    (lambda x: np.linalg.det(x[:, :2]), r"the determinant of f32\[batch, 2, 3\]: expected square matrices"),
    (lambda x: np.linalg.inv(x[:, :2]), r"a linear system of f32\[batch, 2, 3\]: expected square matrices"),
    (lambda x: np.linalg.eigvalsh(x, "X"), "numpy.linalg.eigh of the triangle 'X'"),
    (lambda x: np.linalg.outer(x[0, 0], x[0]), r"numpy.linalg.outer of f32\[3\] and f32\[3, 3\]: expected vectors"),
    (lambda x: np.linalg.trace(x[0, 0]), r"numpy.trace of f32\[3\]: expected matrices"),
    (lambda x: np.linalg.cond(x), "numpy.linalg.cond is not a part of programs"),
])  # fmt: skip
def test_what_is_no_part_of_programs(function: Any, message: str) -> None:
    def f(x: Matrices) -> Any:
        return function(x)

    with pytest.raises(pd.CompileError, match=message):
        pd.compile(pd.program(f))
