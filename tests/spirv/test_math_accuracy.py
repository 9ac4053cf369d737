"""f32 functions of generated shaders on lavapipe against NumPy and C in f64, in units in the last place."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "emit")]
from kernels import buffer, elementwise  # noqa: E402
from vulkan_kernels import load  # noqa: E402

COUNT = 4000
rng = np.random.default_rng(7)
Wide = Callable[[np.ndarray], np.ndarray]
UNARY: dict[str, tuple[Wide, list[tuple[float, float]], float]] = {
    "exp": (np.exp, [(-87, 88), (-1, 1)], 2), "exp2": (np.exp2, [(-126, 127), (-1, 1)], 2),
    "expm1": (np.expm1, [(-10, 80), (-0.1, 0.1)], 2.5), "log": (np.log, [(1e-30, 1e30), (0.5, 2)], 2),
    "log2": (np.log2, [(1e-30, 1e30), (0.5, 2)], 3), "log10": (np.log10, [(1e-30, 1e30), (0.5, 2)], 3),
    "log1p": (np.log1p, [(-0.9, 10), (-0.01, 0.01)], 3), "sinh": (np.sinh, [(-80, 80), (-1, 1)], 3),
    "cosh": (np.cosh, [(-80, 80), (-1, 1)], 3), "tanh": (np.tanh, [(-10, 10), (-1, 1)], 3),
    "erf": (np.vectorize(math.erf), [(-5, 5), (-1, 1)], 3),
    "erfc": (np.vectorize(math.erfc), [(-3, 9), (-0.9, 0.9)], 3),
    "sin": (np.sin, [(-6, 6), (-1000, 1000)], 1), "cos": (np.cos, [(-6, 6), (-1000, 1000)], 1),
    "tan": (np.tan, [(-1.5, 1.5), (-100, 100)], 1), "asin": (np.arcsin, [(-1, 1)], 3),
    "acos": (np.arccos, [(-1, 1)], 3),
    "atan": (np.arctan, [(-1, 1), (-1e4, 1e4)], 3), "asinh": (np.arcsinh, [(-50, 50), (-1e10, 1e10)], 4),
    "acosh": (np.arccosh, [(1, 50), (1, 1e10)], 4), "atanh": (np.arctanh, [(-0.99, 0.99)], 4),
    "cbrt": (np.cbrt, [(-90, 90), (-3e38, 3e38)], 1), "rsqrt": (lambda x: 1 / np.sqrt(x), [(1e-3, 1e3)], 1.5),
}  # fmt: skip
"""Function in f64, intervals, and the error that is allowed on lavapipe, where Fma is not fused."""


def ulps(found: np.ndarray, exact: np.ndarray) -> float:
    """The largest error in units in the last place of the exact value."""
    unit = np.spacing(np.abs(exact).astype(np.float32)).astype(np.float64)
    return float(np.max(np.abs(found.astype(np.float64) - exact) / unit))


def samples(intervals: list[tuple[float, float]]) -> np.ndarray:
    parts = [rng.uniform(low, high, COUNT) for low, high in intervals]
    for low, high in intervals:
        if low > 0 and high / low > 1e6:
            parts.append(np.exp(rng.uniform(np.log(low), np.log(high), COUNT)))
    return np.concatenate(parts).astype(np.float32)


@pytest.mark.parametrize("name", UNARY)
def test_unary(name: str) -> None:
    function, intervals, limit = UNARY[name]
    x = samples(intervals)
    y = buffer(np.zeros_like(x))
    load(elementwise(f"%y0 = math.{name} %x0 : f32", ["f32"], ["f32"]), constants=1, bindings=2).run(
        buffer(x), y, constants=[x.size]
    )
    assert ulps(y, function(x.astype(np.float64))) <= limit


def test_pow() -> None:
    x = np.exp(rng.uniform(-20, 20, COUNT)).astype(np.float32)
    y = rng.uniform(-4, 4, COUNT).astype(np.float32)
    found = buffer(np.zeros_like(x))
    source = elementwise("%y0 = math.powf %x0, %x1 : f32", ["f32", "f32"], ["f32"])
    load(source, constants=1, bindings=3).run(buffer(x), buffer(y), found, constants=[COUNT])
    assert ulps(found, x.astype(np.float64) ** y.astype(np.float64)) <= 4


def test_pow_of_special_values() -> None:
    values = [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, 3.0, -3.0, np.inf, -np.inf, np.nan, 1e30, -1e30]
    x, y = (a.astype(np.float32).ravel() for a in np.meshgrid(values, values))
    found = buffer(np.zeros_like(x))
    source = elementwise("%y0 = math.powf %x0, %x1 : f32", ["f32", "f32"], ["f32"])
    load(source, constants=1, bindings=3).run(buffer(x), buffer(y), found, constants=[x.size])
    with np.errstate(all="ignore"):
        expected = np.power(x, y)
    np.testing.assert_allclose(np.abs(found), np.abs(expected), 1e-6)
    signs = expected != 0
    np.testing.assert_array_equal(np.signbit(found)[signs & ~np.isnan(expected)],
                                  np.signbit(expected)[signs & ~np.isnan(expected)])  # fmt: skip


@pytest.mark.parametrize(("name", "dtype"), [("f16", np.float16), ("f32", np.float32), ("f64", np.float64)])
def test_exact_operations(name: str, dtype: type) -> None:
    """add, sub, mul, div and sqrt round as IEEE 754 says, in f16 too; infinities and NaN as well."""
    a, b = (rng.uniform(-9, 9, 600).astype(dtype) for _ in range(2))
    a[:8] = [0, -0.0, np.inf, -np.inf, np.nan, 1, 0, 5]
    b[:8] = [-0.0, 0, 2, np.inf, 1, np.nan, 0, 0]
    body = "\n".join(f"%y{i} = arith.{op} %x0, %x1 : {name}" for i, op in enumerate(("addf", "subf", "mulf", "divf")))
    body += f"\n%m = math.absf %x0 : {name}\n%y4 = math.sqrt %m : {name}"
    made = [buffer(np.zeros_like(a)) for _ in range(5)]
    load(elementwise(body, [name] * 2, [name] * 5), constants=1, bindings=7).run(
        buffer(a), buffer(b), *made, constants=[a.size]
    )
    with np.errstate(all="ignore"):
        for found, expected in zip(made, (a + b, a - b, a * b, a / b, np.sqrt(np.abs(a))), strict=True):
            np.testing.assert_array_equal(found, expected)
