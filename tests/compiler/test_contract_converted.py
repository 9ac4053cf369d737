"""Products of floats whose right-hand side is narrow and converted on its way: weights of 8 and 4 bits, f16 and bf16.

Factors are small whole numbers and powers of two, so that every order of sums is exact.
"""

from __future__ import annotations

from typing import Any

import machine_levels
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_contract_wide import DTYPES

import pydispatch as pd

Array = np.ndarray[Any, Any]
LEVELS = machine_levels.of_this_machine("generic", "x86-64-v3", "native")
GROUP = 32
# The body that makes %v, a number of f32, of the weight %w, and for which values of w.
CONVERSIONS = {
    "i8": ("i8", "%v = arith.sitofp %w : i8 to f32"),
    "u8": ("i8", "%v = arith.uitofp %w : i8 to f32"),
    "f16": ("f16", "%v = arith.extf %w : f16 to f32"),
    "bf16": ("bf16", "%v = arith.extf %w : bf16 to f32"),
    "scale": ("i8", "%t = arith.sitofp %w : i8 to f32\n %v = arith.mulf %t, %g : f32"),
    "low bits": ("i8", "%four = arith.constant 4 : i8\n %u = arith.shli %w, %four : i8\n"
                 " %t = arith.shrsi %u, %four : i8\n %v = arith.sitofp %t : i8 to f32"),
}  # fmt: skip


def values(kind: str, w: Array, scale: Array) -> Array:
    """What the conversion gives, [k, n]."""
    if kind == "u8":
        return w.view(np.uint8).astype(np.float64)
    if kind == "low bits":
        return (((w.astype(np.int64) & 15) ^ 8) - 8).astype(np.float64)
    return w.astype(np.float64) * (scale if kind == "scale" else 1)


def program(kind: str, rows: int | None, k: int, n: int, transposed: bool) -> str:
    type_, body = CONVERSIONS[kind]
    m = "?" if rows is None else rows
    a, c, s = f"tensor<{m}x{k}xf32>", f"tensor<{m}x{n}xf32>", f"tensor<{n}xf32>"
    w, at = (f"tensor<{n}x{k}x{type_}>", "(n, k)") if transposed else (f"tensor<{k}x{n}x{type_}>", "(k, n)")
    return f"""
func.func @f(%a: {a}, %b: {w}, %s: {s}, %c: {c}) -> {c} {{
  %r = linalg.generic {{indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> {at}>,
      affine_map<(m, n, k) -> (n)>, affine_map<(m, n, k) -> (m, n)>],
      iterator_types = ["parallel", "parallel", "reduction"]}} ins(%a, %b, %s : {a}, {w}, {s}) outs(%c : {c}) {{
  ^bb0(%x: f32, %w: {type_}, %g: f32, %sum: f32):
    {body}
    %p = arith.mulf %x, %v : f32
    %q = arith.addf %sum, %p : f32
    linalg.yield %q : f32
  }} -> {c}
  return %r : {c}
}}
"""


def weights(rng: np.random.Generator, kind: str, shape: tuple[int, int]) -> Array:
    type_ = CONVERSIONS[kind][0]
    low, high = (-8, 9) if type_.endswith("f16") else (-128, 128)
    return rng.integers(low, high, shape).astype(DTYPES[type_])


def check(kind: str, m: int, k: int, n: int, transposed: bool, dynamic: bool, level: str) -> None:
    rng = np.random.default_rng(m + k + n)
    a, w = rng.integers(-4, 5, (m, k)).astype(np.float32), weights(rng, kind, (k, n))
    scale, c = 2.0 ** rng.integers(-2, 3, n), rng.integers(-9, 9, (m, n)).astype(np.float32)
    expected = a @ values(kind, w, scale) + c
    artifact = pd.compile(program(kind, None if dynamic else m, k, n, transposed), targets="cpu", cpu=level)
    b = np.ascontiguousarray(w.T if transposed else w)
    for workers in (1, 3):
        found = pd.device(f"cpu?workers={workers}").load(artifact).f(a, b, scale.astype(np.float32), c)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("transposed", [False, True], ids=["kn", "nk"])
@pytest.mark.parametrize("kind", CONVERSIONS)
@settings(max_examples=6, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(m=st.sampled_from([1, 2, 3, 4, 5, 13, 15, 63, 66]), k=st.sampled_from([1, 7, 33, 64, 100, 515]),
       n=st.sampled_from([1, 5, 8, 31, 64, 129, 600]), dynamic=st.booleans(),
       level=st.sampled_from(LEVELS))  # fmt: skip
def test_conversions(kind: str, transposed: bool, m: int, k: int, n: int, dynamic: bool, level: str) -> None:
    check(kind, m, k, n, transposed, dynamic, level)


@pytest.mark.parametrize("transposed", [False, True], ids=["kn", "nk"])
@pytest.mark.parametrize("m", [1, 4, 40])
def test_parts_of_k(m: int, transposed: bool) -> None:
    """K is long, so that sums are carried from part to part."""
    check("i8", m, 4099, 70, transposed, False, "native")


@pytest.mark.parametrize("m", [1, 3, 20])
@pytest.mark.parametrize("level", machine_levels.parameters(["generic", "native"]))
def test_groups_of_four_bits(m: int, level: str) -> None:
    """Two weights in a byte, with a scale and a zero point for each group of K, as models of 4 bits have them."""
    rng = np.random.default_rng(2)
    groups, n = 3, 48
    a = rng.integers(-4, 5, (m, groups, GROUP)).astype(np.float32)
    packed = rng.integers(0, 256, (n, groups, GROUP // 2), np.uint8)
    scale, zero = 2.0 ** rng.integers(-2, 3, (n, groups)), rng.integers(0, 16, (n, groups), np.uint8)
    nibbles = np.stack([packed & 15, packed >> 4], -1).reshape(n, groups, GROUP).astype(np.float64)
    expected = np.einsum("mgk,ngk->mn", a, (nibbles - zero[..., None]) * scale[..., None])
    ta, tc = f"tensor<{m}x{groups}x{GROUP // 2}x2xf32>", f"tensor<{m}x{n}xf32>"
    tb, ts, tz = (f"tensor<{n}x{groups}{rest}>" for rest in (f"x{GROUP // 2}xi8", "xf32", "xi8"))
    text = f"""
#weights = affine_map<(m, n, g, k, h) -> (n, g, k)>
#scales = affine_map<(m, n, g, k, h) -> (n, g)>
func.func @f(%a: {ta}, %b: {tb}, %s: {ts}, %z: {tz}) -> {tc} {{
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : {tc}
  %c = linalg.fill ins(%zero : f32) outs(%e : {tc}) -> {tc}
  %r = linalg.generic {{indexing_maps = [affine_map<(m, n, g, k, h) -> (m, g, k, h)>, #weights, #scales, #scales,
      affine_map<(m, n, g, k, h) -> (m, n)>],
      iterator_types = ["parallel", "parallel", "reduction", "reduction", "reduction"]}}
      ins(%a, %b, %s, %z : {ta}, {tb}, {ts}, {tz}) outs(%c : {tc}) {{
  ^bb0(%x: f32, %w: i8, %g: f32, %o: i8, %sum: f32):
    %h = linalg.index 4 : index
    %four = arith.constant 4 : i8
    %mask = arith.constant 15 : i8
    %half = arith.index_cast %h : index to i8
    %shift = arith.muli %half, %four : i8
    %high = arith.shrui %w, %shift : i8
    %bits = arith.andi %high, %mask : i8
    %u = arith.uitofp %bits : i8 to f32
    %v = arith.uitofp %o : i8 to f32
    %d = arith.subf %u, %v : f32
    %t = arith.mulf %d, %g : f32
    %p = arith.mulf %x, %t : f32
    %q = arith.addf %sum, %p : f32
    linalg.yield %q : f32
  }} -> {tc}
  return %r : {tc}
}}
"""
    f = pd.device("cpu?workers=2").load(pd.compile(text, targets="cpu", cpu=level)).f
    found = f(a.reshape(m, groups, GROUP // 2, 2), packed.view(np.int8), scale.astype(np.float32), zero.view(np.int8))
    np.testing.assert_array_equal(found, expected)
