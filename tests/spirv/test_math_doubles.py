"""f64 functions of generated shaders on lavapipe against mpmath, and special values against NumPy and C."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mpmath as mp
import numpy as np
import pytest

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "emit")]
from kernels import buffer, elementwise  # noqa: E402
from vulkan_kernels import load  # noqa: E402

COUNT = 150
PRECISION = 1300  # sines of large numbers need all digits of pi
rng = np.random.default_rng(5)
Exact = Callable[..., Any]
LN2, LN10 = (lambda: mp.log(2)), (lambda: mp.log(10))
UNARY: dict[str, tuple[Exact, Any, list[tuple[float, float]], float]] = {
    "exp": (mp.exp, np.exp, [(-700, 709), (-1, 1)], 1), "exp2": (lambda x: mp.mpf(2) ** x, np.exp2, [(-1000, 1023)], 1),
    "expm1": (mp.expm1, np.expm1, [(-50, 709), (-0.1, 0.1), (-1e-10, 1e-10)], 1.5),
    "log": (mp.log, np.log, [(1e-300, 1e300), (0.5, 2), (0.99, 1.01)], 1),
    "log2": (lambda x: mp.log(x) / LN2(), np.log2, [(1e-300, 1e300), (0.5, 2)], 1),
    "log10": (lambda x: mp.log(x) / LN10(), np.log10, [(1e-300, 1e300), (0.5, 2)], 1),
    "log1p": (mp.log1p, np.log1p, [(-0.999, 10), (-1e-3, 1e-3), (1, 1e300)], 1),
    "sinh": (mp.sinh, np.sinh, [(-709, 709), (-1, 1)], 1.5), "cosh": (mp.cosh, np.cosh, [(-709, 709), (-1, 1)], 1.5),
    "tanh": (mp.tanh, np.tanh, [(-22, 22), (-1, 1)], 1.5),
    "erf": (mp.erf, np.vectorize(math.erf), [(-6, 6), (-1, 1)], 1.5),
    "erfc": (mp.erfc, np.vectorize(math.erfc), [(-6, 26), (-1, 1), (5.8, 6.2)], 3),
    "sin": (mp.sin, np.sin, [(-6, 6), (-1e6, 1e6), (1e6, 1e308)], 1),
    "cos": (mp.cos, np.cos, [(-6, 6), (-1e6, 1e6), (1e6, 1e308)], 1),
    "tan": (mp.tan, np.tan, [(-1.5, 1.5), (-1e5, 1e5), (1e6, 1e308)], 1), "asin": (mp.asin, np.arcsin, [(-1, 1)], 1),
    "acos": (mp.acos, np.arccos, [(-1, 1)], 1), "atan": (mp.atan, np.arctan, [(-1, 1), (-1e4, 1e4)], 1),
    "asinh": (mp.asinh, np.arcsinh, [(-1, 1), (-50, 50), (-1e200, 1e200)], 1),
    "acosh": (mp.acosh, np.arccosh, [(1, 2), (1, 1e100)], 1), "atanh": (mp.atanh, np.arctanh, [(-0.999, 0.999)], 1),
    "cbrt": (lambda x: mp.sign(x) * mp.cbrt(abs(x)), np.cbrt, [(-90, 90), (-1e300, 1e300), (-1e-310, 1e-310)], 1),
    "rsqrt": (lambda x: 1 / mp.sqrt(x), lambda x: 1 / np.sqrt(x), [(1e-3, 1e3)], 1.5),
}  # fmt: skip
"""Function, the same in f64, intervals, and the error in units in the last place that is allowed."""

SPECIAL = [0.0, -0.0, math.inf, -math.inf, math.nan, 1, -1, 2, -2, 5e-324, -5e-324, 1e-310, 1e300, -1e300, 0.5, -0.5,
           1e-20, -1e-20]  # fmt: skip


def ulps(found: np.ndarray, exact: list[Any]) -> float:
    """The largest error in units in the last place, of normal numbers."""
    worst = 0.0
    for y, e in zip(found, exact, strict=True):
        if math.isfinite(float(e)) and abs(float(e)) > 1e-307:
            worst = max(worst, float(abs(mp.mpf(float(y)) - e) / mp.mpf(float(np.spacing(abs(float(e)))))))
    return worst


def assert_special(found: np.ndarray, expected: np.ndarray) -> None:
    """NaN, infinities and signs as expected, numbers nearly."""
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    there = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found[there]), np.signbit(expected[there]))
    np.testing.assert_allclose(found[there], expected[there], 1e-15, 0)


@pytest.mark.parametrize("name", UNARY)
def test_unary(name: str) -> None:
    exact, wide, intervals, limit = UNARY[name]
    special = np.array(SPECIAL)
    parts = [rng.uniform(low, high, COUNT) for low, high in intervals]
    parts += [np.exp(rng.uniform(np.log(a), np.log(b), COUNT)) for a, b in intervals if a > 0 and b / a > 1e6]
    x = np.concatenate([special, *parts])
    y = buffer(np.zeros_like(x))
    load(elementwise(f"%y0 = math.{name} %x0 : f64", ["f64"], ["f64"]), constants=1, bindings=2).run(
        buffer(x), y, constants=[x.size]
    )
    with np.errstate(all="ignore"):
        assert_special(y[: special.size], wide(special))
    with mp.workprec(PRECISION):
        assert ulps(y[special.size :], [exact(mp.mpf(float(v))) for v in x[special.size :]]) <= limit


@pytest.mark.parametrize(
    ("name", "exact", "wide"), [("powf", lambda a, b: a**b, np.power), ("atan2", mp.atan2, np.arctan2)]
)
def test_binary(name: str, exact: Exact, wide: Any) -> None:
    values = [
        0.0,
        -0.0,
        1,
        -1,
        2,
        -2,
        0.5,
        -0.5,
        3,
        -3,
        math.inf,
        -math.inf,
        math.nan,
        1e300,
        -1e300,
        2.0**53,
        1e-310,
        1e20,
    ]
    a, b = (each.astype(np.float64).ravel() for each in np.meshgrid(values, values))
    x = np.concatenate([np.exp(rng.uniform(-300, 300, 300)), np.exp(rng.uniform(-1, 1, 300))])
    y = np.concatenate([rng.uniform(-2, 2, 300), rng.uniform(-300, 300, 300)])
    found = buffer(np.zeros(a.size + x.size))
    left, right = buffer(np.concatenate([a, x])), buffer(np.concatenate([b, y]))
    source = elementwise(f"%y0 = math.{name} %x0, %x1 : f64", ["f64"] * 2, ["f64"])
    load(source, constants=1, bindings=3).run(left, right, found, constants=[found.size])
    with np.errstate(all="ignore"):
        assert_special(found[: a.size], wide(a, b))
    with mp.workprec(PRECISION):
        pairs = zip(x, y, strict=True)
        assert ulps(found[a.size :], [exact(mp.mpf(float(v)), mp.mpf(float(w))) for v, w in pairs]) <= 1


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_large_angles(name: str) -> None:
    """Every power of two, both sides of where the reduction changes, and the worst cases: doubles next to multiples of
    pi/2, found among the convergents of pi/2 over powers of two."""
    powers = np.concatenate(
        [np.ldexp(1.0, np.arange(18, 1024)), np.ldexp(rng.uniform(1, 2, 1006), np.arange(18, 1024))]
    )
    edges = [2.0**20, np.nextafter(2.0**20, 0), -(2.0**20), sys.float_info.max, float(6381956970095103) * 2.0**797]
    x = np.concatenate([powers, -powers[::7], edges, [nearest(k) for k in range(1, 971, 5)]])
    y = buffer(np.zeros_like(x))
    source = elementwise(f"%y0 = math.{name} %x0 : f64", ["f64"], ["f64"])
    load(source, constants=1, bindings=2).run(buffer(x), y, constants=[x.size])
    assert np.isfinite(y).all()
    with mp.workprec(PRECISION):
        assert ulps(y, [getattr(mp, name)(mp.mpf(float(v))) for v in x]) <= 1


def nearest(exponent: int) -> float:
    """The number m 2^exponent, m < 2^53, that is nearest to a multiple of pi/2 for its size: m is the denominator of a
    convergent of 2^exponent / (pi/2)."""
    with mp.workprec(PRECISION):
        rest, before, denominator = mp.mpf(2) ** exponent / (mp.pi / 2), 0, 1
        for _ in range(200):
            rest = 1 / (rest - mp.floor(rest))
            following = int(mp.floor(rest)) * denominator + before
            if following >= 1 << 53:
                break
            before, denominator = denominator, following
        return float(denominator) * 2.0**exponent


def test_sine_and_cosine_together() -> None:
    x = rng.uniform(-100, 100, 64)
    made = [buffer(np.zeros_like(x)) for _ in range(2)]
    source = elementwise("%y0, %y1 = math.sincos %x0 : f64", ["f64"], ["f64", "f64"])
    load(source, constants=1, bindings=3).run(buffer(x), *made, constants=[x.size])
    np.testing.assert_allclose(made[0], np.sin(x), 0, 3e-16)
    np.testing.assert_allclose(made[1], np.cos(x), 0, 3e-16)
