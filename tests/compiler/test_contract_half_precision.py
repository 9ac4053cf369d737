"""Products whose right-hand side is f16 or bf16 and widened in registers: the bits of the product of f32."""

from __future__ import annotations

from typing import Any

import machine_levels
import numpy as np
import pytest
from test_contract_wide import DTYPES

import pydispatch as pd
from pydispatch.compiler.driver.pipeline import compile_to

Array = np.ndarray[Any, Any]
LEVELS = ["x86-64-v3", "x86-64-v4", "native"]
WITHOUT = "-amx-bf16,-avx512bf16"
"""Matrix registers and `vdpbf16ps` add up pairs, see `test_bf16_products.py` and `test_rounded_weights.py`."""
SHAPES = [(1, 70, 600), (3, 33, 129), (13, 40, 64), (30, 75, 37), (20, 33, 140), (66, 128, 160)]


def program(shape: tuple[int, int, int], a: str, b: str, result: str, constant: Array | None = None) -> str:
    """The product of a [m, k] and b [k, n], added up in f32; b is `constant`, transposed, where there is one."""
    m, k, n = shape
    turned, at = constant is not None, "(n, k)" if constant is not None else "(k, n)"
    weights = f"tensor<{n}x{k}x{b}>" if turned else f"tensor<{k}x{n}x{b}>"
    argument = "" if turned else f", %b: {weights}"
    given = f'%b = arith.constant dense<"0x{constant.tobytes().hex()}"> : {weights}' if constant is not None else ""
    wide = {"f32": "", "f16": "arith.extf", "bf16": "arith.extf"}
    x, y = (f"%{v}w" if wide[t] else f"%{v}" for v, t in (("x", a), ("y", b)))
    widen = "\n    ".join(f"%{v}w = {wide[t]} %{v} : {t} to f32" for v, t in (("x", a), ("y", b)) if wide[t])
    end = "%r" if result == "f32" else "%h"
    cut = "" if result == "f32" else f"%h = arith.truncf %r : tensor<{m}x{n}xf32> to tensor<{m}x{n}x{result}>"
    return f"""
func.func @f(%a: tensor<{m}x{k}x{a}>{argument}) -> tensor<{m}x{n}x{result}> {{
  {given}
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<{m}x{n}xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<{m}x{n}xf32>) -> tensor<{m}x{n}xf32>
  %r = linalg.generic {{indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> {at}>,
      affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]}}
      ins(%a, %b : tensor<{m}x{k}x{a}>, {weights}) outs(%z : tensor<{m}x{n}xf32>) {{
  ^bb0(%x: {a}, %y: {b}, %s: f32):
    {widen}
    %p = arith.mulf {x}, {y} : f32
    %q = arith.addf %s, %p : f32
    linalg.yield %q : f32
  }} -> tensor<{m}x{n}xf32>
  {cut}
  return {end} : tensor<{m}x{n}x{result}>
}}
"""


def numbers(shape: tuple[int, int], type_: str, seed: int) -> Array:
    """Some of every binade that f16 has, subnormal ones included, of both signs, and zeros."""
    rng = np.random.default_rng(seed)
    drawn = rng.standard_normal(shape) * 2.0 ** rng.integers(-24, 3, shape) * (rng.random(shape) < 0.9)
    return drawn.astype(DTYPES[type_])


def bits(x: Array) -> bytes:
    return np.ascontiguousarray(x).tobytes()


def block(text: str, cpu: str) -> str:
    """The line of the first register block."""
    made = compile_to("executables", text, targets="x86_64", cpu=cpu, cpu_features=WITHOUT)
    return made[made.index("pyd.contract") :].partition("\n")[0]


@pytest.mark.parametrize("cpu", machine_levels.parameters(LEVELS))
@pytest.mark.parametrize(("a", "b"), [("f32", "f16"), ("f16", "f16"), ("bf16", "bf16"), ("f32", "bf16")])
def test_bits_of_wider_products(a: str, b: str, cpu: str) -> None:
    for shape in SHAPES:
        m, k, n = shape
        x, y = numbers((m, k), a, 1), numbers((k, n), b, 2)
        text = program(shape, a, b, "f32")
        assert block(text, cpu).count(f"x{b}") == 1, "what the block multiplies is no narrow float"
        plain = pd.compile(program(shape, "f32", "f32", "f32"), targets="cpu", cpu=cpu, cpu_features=WITHOUT)
        narrow = pd.compile(text, targets="cpu", cpu=cpu, cpu_features=WITHOUT)
        expected = pd.device("cpu?workers=1").load(plain).f(x.astype(np.float32), y.astype(np.float32))
        for workers in (1, 3):
            assert bits(pd.device(f"cpu?workers={workers}").load(narrow).f(x, y)) == bits(expected), (shape, workers)


@pytest.mark.parametrize("cpu", machine_levels.parameters(["generic", *LEVELS]))
@pytest.mark.parametrize("type_", ["f16", "bf16"])
def test_constant_panels(type_: str, cpu: str) -> None:
    """A transposed constant lies in panels of its own type; without instructions that widen it is converted.

    236 columns fill panels of three vectors, except for the last one.
    """
    shape = m, k, n = (13, 48, 96 if type_ == "f16" else 236)
    x, y = numbers((m, k), type_, 3), numbers((n, k), type_, 4)
    text = program(shape, type_, type_, type_, y)
    assert (f"x{type_}" in block(text, cpu)) == (cpu != "generic")
    artifact = pd.compile(text, targets="cpu", cpu=cpu, cpu_features=WITHOUT)
    found = pd.device("cpu?workers=2").load(artifact).f(x)
    exact = x.astype(np.float64) @ y.T.astype(np.float64)
    scale = np.abs(x).astype(np.float64) @ np.abs(y).T.astype(np.float64)
    unit = {"f16": 2.0**-11, "bf16": 2.0**-8}[type_]
    least = {"f16": 2.0**-25, "bf16": 0.0}[type_]  # half of the least f16
    assert np.all(np.abs(found.astype(np.float64) - exact) <= unit * np.abs(exact) + k * 2.0**-23 * scale + least)
