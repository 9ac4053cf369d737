"""Products of bf16, where CPUs multiply them in matrix registers and elsewhere, against f64."""

from __future__ import annotations

from typing import Any

import machine_levels
import ml_dtypes
import numpy as np
import pytest

import pydispatch as pd

Array = np.ndarray[Any, Any]
CPUS = machine_levels.parameters(["generic", "native", "x86-64-v4"])

PRODUCT = """
func.func @product(%a: tensor<{m}x{k}xbf16>{parameter}) -> tensor<{m}x{n}x{sums}> {{
  {constant}
  {rows}
  %zero = arith.constant 0.0 : {sums}
  %e = tensor.empty({size}) : tensor<{m}x{n}x{sums}>
  %i = linalg.fill ins(%zero : {sums}) outs(%e : tensor<{m}x{n}x{sums}>) -> tensor<{m}x{n}x{sums}>
  %c = linalg.generic {{indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> ({of_b})>,
      affine_map<(i, j, k) -> (i, j)>], iterator_types = ["parallel", "parallel", "reduction"]}}
      ins(%a, %b : tensor<{m}x{k}xbf16>, tensor<{b}xbf16>) outs(%i : tensor<{m}x{n}x{sums}>) {{
    ^bb0(%x: bf16, %y: bf16, %s: {sums}):
      {widen}
      %p = arith.mulf %u, %v : {sums}
      %t = arith.addf %s, %p : {sums}
      linalg.yield %t : {sums}
  }} -> tensor<{m}x{n}x{sums}>
  return %c : tensor<{m}x{n}x{sums}>
}}
"""
WIDEN = {
    "f32": "%u = arith.extf %x : bf16 to f32\n      %v = arith.extf %y : bf16 to f32",
    "bf16": "%one = arith.constant 1.0 : bf16\n      "
    "%u = arith.mulf %x, %one : bf16\n      %v = arith.mulf %y, %one : bf16",
}


def rounded(x: Array) -> Array:
    return x.astype(np.float32).astype(ml_dtypes.bfloat16)


def program(m: int | str, n: int, k: int, sums: str, b: Array | None, turned: bool) -> str:
    shape = f"{n}x{k}" if turned else f"{k}x{n}"
    rows = f"%c0 = arith.constant 0 : index\n  %d = tensor.dim %a, %c0 : tensor<?x{k}xbf16>" if m == "?" else ""
    return PRODUCT.format(
        m=m, n=n, k=k, sums=sums, b=shape, of_b="j, k" if turned else "k, j", widen=WIDEN[sums], rows=rows,
        size="%d" if m == "?" else "", parameter="" if b is not None else f", %b: tensor<{shape}xbf16>",
        constant="" if b is None else f'%b = arith.constant dense<"0x{b.tobytes().hex()}"> : tensor<{shape}xbf16>',
    )  # fmt: skip


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize(("m", "n", "k", "sums"), [
    (70, 96, 160, "f32"), (70, 96, 160, "bf16"), (40, 37, 75, "f32"), (5, 64, 128, "bf16"), (1, 64, 96, "f32"),
    ("?", 64, 128, "f32"), ("?", 33, 40, "bf16"), (64, 64, 9000, "f32"),
])  # fmt: skip
def test_products(m: int | str, n: int, k: int, sums: str, constant: bool, turned: bool, cpu: str) -> None:
    rng = np.random.default_rng(1)
    b = rounded(rng.standard_normal((n, k) if turned else (k, n)))
    artifact = pd.compile(program(m, n, k, sums, b if constant else None, turned), targets="cpu", cpu=cpu)
    one, three = (pd.device(f"cpu?workers={workers}").load(artifact) for workers in (1, 3))
    y = b.astype(np.float64).T if turned else b.astype(np.float64)
    for rows in (1, 5, 31, 32, 75) if m == "?" else (int(m),):
        a = rounded(rng.standard_normal((rows, k)))
        found = np.asarray(one.product(*((a,) if constant else (a, b))))
        again = np.asarray(three.product(*((a,) if constant else (a, b))))
        assert found.tobytes() == again.tobytes()
        x = a.astype(np.float64)
        expected = x @ y
        bound = k * np.finfo(np.float32).eps * (np.abs(x) @ np.abs(y)) + k * 2.0**-126
        bound += np.abs(expected) * 2.0**-8 * (sums == "bf16")
        assert np.all(np.abs(found.astype(np.float64) - expected) <= bound)


@pytest.mark.parametrize("cpu", CPUS)
def test_what_is_no_number(cpu: str) -> None:
    """Infinities and NaN come through, and the least normal numbers."""
    loaded = pd.device("cpu").load(pd.compile(program(32, 32, 64, "f32", None, False), targets="cpu", cpu=cpu))
    a = np.zeros((32, 64), np.float32)
    a[0, 0], a[1, 1], a[2, 2], a[3, 3] = np.inf, np.nan, 2.0**-100, 2.0**127
    b = np.zeros((64, 32), np.float32)
    b[np.arange(4), np.arange(4)] = 1.0, 1.0, 2.0**-26, -1.0
    with np.errstate(invalid="ignore"):
        expected = a @ b
    np.testing.assert_array_equal(loaded.product(rounded(a), rounded(b)), expected)
