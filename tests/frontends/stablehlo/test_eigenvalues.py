"""Calls of LAPACK for eigenvalues and singular values, as JAX writes them for CPUs, compared with NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pydispatch as pd

KINDS = {"s": ("f32", np.float32, 2e-5), "d": ("f64", np.float64, 1e-12)}


def call(name: str, config: str, operand: str, *results: str) -> str:
    """A program that is one call of LAPACK."""
    listed = ", ".join(f"tensor<{r}>" for r in results)
    named = ", ".join(f"%0#{n}" for n in range(len(results)))
    return f"""func.func @main(%x: tensor<{operand}>) -> ({listed}) {{
      %0:{len(results)} = stablehlo.custom_call @lapack_{name}_ffi(%x) {{mhlo.backend_config = {{{config}}}}}
        : (tensor<{operand}>) -> ({listed})
      return {named} : {listed}
    }}"""


@pytest.mark.parametrize("uplo", ["L", "U"])
@pytest.mark.parametrize("kind", KINDS)
def test_eigenvalues_of_symmetric_matrices(run: Any, kind: str, uplo: str) -> None:
    """Only one triangle is read."""
    element, dtype, tolerance = KINDS[kind]
    x = np.random.default_rng(5).standard_normal((2, 5, 5)).astype(dtype)
    text = call(f"{kind}syevd", f"mode = 86 : ui8, uplo = {ord(uplo)} : ui8", f"2x5x5x{element}",
                f"2x5x5x{element}", f"2x5x{element}", "2xi32")  # fmt: skip
    vectors, values, info = run(text, x)
    triangle = np.tril(x) if uplo == "L" else np.triu(x)
    whole = triangle + np.swapaxes(triangle, 1, 2) - np.eye(5) * x
    np.testing.assert_allclose(values, np.linalg.eigvalsh(whole), rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(whole @ vectors, values[:, None] * vectors, atol=10 * tolerance)
    np.testing.assert_array_equal(info, [0, 0])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("mode", "rows", "columns", "is_full"), [
    ("A", 4, 3, True), ("S", 4, 3, False), ("S", 2, 5, False), ("N", 3, 4, True), ("N", 6, 4, False),
])  # fmt: skip
def test_singular_values(run: Any, kind: str, mode: str, rows: int, columns: int, is_full: bool) -> None:
    """In mode N the vectors have the shapes that the call states, and any elements."""
    element, dtype, tolerance = KINDS[kind]
    x = np.random.default_rng(6).standard_normal((rows, columns)).astype(dtype)
    least = min(rows, columns)
    u_columns, v_rows = (rows, columns) if is_full else (least, least)
    text = call(f"{kind}gesdd", f"mode = {ord(mode)} : ui8", f"{rows}x{columns}x{element}",
                f"{rows}x{columns}x{element}", f"{least}x{element}", f"{rows}x{u_columns}x{element}",
                f"{v_rows}x{columns}x{element}", "i32")  # fmt: skip
    _, values, u, vt, info = run(text, x)
    np.testing.assert_allclose(values, np.linalg.svd(x, compute_uv=False), rtol=tolerance, atol=tolerance)
    if mode != "N":
        np.testing.assert_allclose(u[:, :least] * values @ vt[:least], x, atol=10 * tolerance)
        np.testing.assert_allclose(u.T @ u, np.eye(u_columns), atol=10 * tolerance)
    assert info == 0


def adjoint(x: Any) -> Any:
    return np.conj(x).swapaxes(-1, -2)


def test_singular_values_of_complex_matrices(run: Any) -> None:
    rng = np.random.default_rng(10)
    z = rng.standard_normal((4, 2)) + 1j * rng.standard_normal((4, 2))
    tall, square = "4x2xcomplex<f64>", "2x2xcomplex<f64>"
    text = call("zgesdd", f"mode = {ord('S')} : ui8", tall, tall, "2xf64", tall, square, "i32")
    _, values, u, vh, info = run(text, z)
    np.testing.assert_allclose(values, np.linalg.svd(z, compute_uv=False), rtol=1e-14)
    np.testing.assert_allclose(u * values @ vh, z, atol=1e-14)
    assert info == 0


def test_eigenvalues_schur_and_hessenberg_forms_of_general_matrices(run: Any) -> None:
    """The results are in the order of LAPACK's calls; for real matrices eigenvalues are two tensors."""
    x = np.random.default_rng(7).standard_normal((2, 4, 4))
    vectors = f"compute_left = {ord('V')} : ui8, compute_right = {ord('V')} : ui8"
    text = call(
        "dgeev", vectors, "2x4x4xf64", "2x4xf64", "2x4xf64", "2x4x4xcomplex<f64>", "2x4x4xcomplex<f64>", "2xi32"
    )
    real, imag, left, right, info = run(text, x)
    values = real + 1j * imag
    np.testing.assert_allclose(np.sort_complex(values), np.sort_complex(np.linalg.eigvals(x)), atol=1e-12)
    np.testing.assert_allclose(x @ right, values[:, None] * right, atol=1e-12)
    np.testing.assert_allclose(adjoint(left) @ x, values[:, :, None] * adjoint(left), atol=1e-12)
    np.testing.assert_array_equal(info, [0, 0])

    config = f"mode = {ord('V')} : ui8, sort = {ord('N')} : ui8"
    t, q, *values_of_t, _, info = run(call("dgees", config, "2x4x4xf64", "2x4x4xf64", "2x4x4xf64", "2x4xf64", "2x4xf64",
                                           "2xi32", "2xi32"), x)  # fmt: skip
    np.testing.assert_allclose(q @ t @ adjoint(q), x, atol=1e-12)
    np.testing.assert_array_equal(values_of_t, [real, imag])

    packed, factors, info = run(call("dgehrd", "low = 1 : i32, high = 4 : i32", "2x4x4xf64", "2x4x4xf64", "2x3xf64",
                                     "2xi32"), x)  # fmt: skip
    hessenberg = np.triu(packed, -1)
    invariants = [np.trace(m @ m, axis1=1, axis2=2) for m in (x, hessenberg)]
    np.testing.assert_allclose(*invariants, atol=1e-12)
    assert factors.shape == (2, 3) and not info.any()


def test_eigenvalues_of_complex_matrices(run: Any) -> None:
    rng = np.random.default_rng(8)
    z = (rng.standard_normal((3, 3)) + 1j * rng.standard_normal((3, 3))).astype(np.complex64)
    none = f"compute_left = {ord('N')} : ui8, compute_right = {ord('N')} : ui8"
    matrix = "3x3xcomplex<f32>"
    values, left, _, _ = run(call("cgeev", none, matrix, "3xcomplex<f32>", matrix, matrix, "i32"), z)
    np.testing.assert_allclose(np.sort_complex(values), np.sort_complex(np.linalg.eigvals(z)), atol=1e-5)
    assert not left.any()
    config = f"mode = {ord('V')} : ui8, uplo = {ord('U')} : ui8"
    vectors, values, _ = run(call("cheevd", config, matrix, matrix, "3xf32", "i32"), z)
    hermitian = np.triu(z, 1) + adjoint(np.triu(z, 1)) + np.diag(z.diagonal().real)
    np.testing.assert_allclose(hermitian @ vectors, values * vectors, atol=1e-5)


@pytest.mark.parametrize("mode", ["N", "S"])
def test_singular_values_of_matrices_of_dynamic_sizes(run: Any, mode: str) -> None:
    x = np.random.default_rng(12).standard_normal((3, 5))
    matrix = "?x?xf64"
    _, values, u, vt, _ = run(
        call("dgesdd", f"mode = {ord(mode)} : ui8", matrix, matrix, "?xf64", matrix, matrix, "i32"), x
    )
    np.testing.assert_allclose(values, np.linalg.svd(x, compute_uv=False), rtol=1e-13)
    np.testing.assert_allclose(u * values @ vt, x if mode == "S" else np.zeros((3, 5)), atol=1e-13)


TRIDIAGONAL = """func.func @main(%l: tensor<2x5xf32>, %d: tensor<2x5xf32>, %u: tensor<2x5xf32>, %y: tensor<2x5x3xf32>)
    -> (tensor<2x5x3xf32>, tensor<2xi32>) {
  %0:5 = stablehlo.custom_call @lapack_sgtsv_ffi(%l, %d, %u, %y) {mhlo.backend_config = {}}
    : (tensor<2x5xf32>, tensor<2x5xf32>, tensor<2x5xf32>, tensor<2x5x3xf32>)
    -> (tensor<2x5xf32>, tensor<2x5xf32>, tensor<2x5xf32>, tensor<2x5x3xf32>, tensor<2xi32>)
  return %0#3, %0#4 : tensor<2x5x3xf32>, tensor<2xi32>
}"""


def test_a_tridiagonal_system(run: Any) -> None:
    """The second matrix is singular: LAPACK's status is its zero pivot's position. The ends of bands are not read."""
    rng = np.random.default_rng(11)
    lower, diagonal, upper = rng.standard_normal((3, 2, 5)).astype(np.float32)
    y = rng.standard_normal((2, 5, 3)).astype(np.float32)
    diagonal[1, 2:], lower[1, 3], upper[1, 1] = 0, 0, 0
    lower[:, 0] = upper[:, -1] = np.nan
    solution, info = run(TRIDIAGONAL, lower, diagonal, upper, y)
    matrix = np.diag(diagonal[0]) + np.diag(lower[0, 1:], -1) + np.diag(upper[0, :-1], 1)
    np.testing.assert_allclose(solution[0], np.linalg.solve(matrix, y[0]), rtol=1e-4)
    np.testing.assert_array_equal(info, [0, 3])


def test_a_tridiagonal_system_of_bands_that_do_not_fit_is_refused(run: Any) -> None:
    text = TRIDIAGONAL.replace("%u: tensor<2x5xf32>", "%u: tensor<2x4xf32>").replace(
        "tensor<2x5xf32>, tensor<2x5x3xf32>)\n    -> (tensor<2x5xf32>",
        "tensor<2x4xf32>, tensor<2x5x3xf32>)\n    -> (tensor<2x5xf32>",
    )
    with pytest.raises(pd.CompileError, match=r"a tridiagonal system of f32\[2, 5\], f32\[2, 5\], f32\[2, 4\] with"):
        run(text)


@pytest.mark.parametrize(("name", "config", "message"), [
    ("dgees", "mode = 86 : ui8, sort = 83 : ui8", "the Schur form with sorted eigenvalues is not supported"),
    ("dgehrd", "low = 2 : i32, high = 3 : i32", "rows 2 to 3 of .* only that of all rows is supported"),
])  # fmt: skip
def test_calls_that_are_refused(run: Any, name: str, config: str, message: str) -> None:
    text = call(name, config, "3x3xf64", "3x3xf64", "3x3xf64", "3xf64", "3xf64", "i32", "i32")
    with pytest.raises(pd.CompileError, match=message):
        run(text, np.eye(3))


def test_a_call_without_its_mode_is_refused(run: Any) -> None:
    text = call("sgesdd", "", "3x3xf32", "3x3xf32", "3xf32", "3x3xf32", "3x3xf32", "i32")
    with pytest.raises(pd.CompileError, match="the call of LAPACK has no attribute 'mode'"):
        run(text, np.eye(3, dtype=np.float32))
