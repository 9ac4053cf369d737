"""Every function against mpmath, and special values against NumPy."""

import itertools
import math

import numpy as np
import pytest
from devlib_driver import FUNCTIONS, TYPES, errors, expected, samples

LIMIT = {"f": 2.0, "": 2.0}
_EXPECTED: dict[tuple[str, str], tuple] = {}

PAYLOAD = float(np.uint64(0x7FF8000020000000).view(np.float64))  # a NaN with a bit that f32 has, too
SPECIAL = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    2.0,
    -2.0,
    3.0,
    -3.0,
    np.inf,
    -np.inf,
    np.nan,
    1e-300,
    -1e-300,
    1e300,
    5e-324,
    PAYLOAD,
]
SPECIAL_F = [*SPECIAL[:13], 1e-38, -1e-38, 3e38, 1e-45, PAYLOAD]
NUMPY = {
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "asinh": np.arcsinh, "acosh": np.arccosh,
    "atanh": np.arctanh, "pow": np.power, "atan2": np.arctan2,
}  # fmt: skip


@pytest.mark.parametrize("suffix", TYPES)
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.name)
def test_error_in_last_place(library, function, suffix):
    key = (function.name, suffix)
    if key not in _EXPECTED:  # shared by the CPU levels: mpmath takes most of the time
        arguments = samples(function, suffix, 400)
        _EXPECTED[key] = (arguments, expected(function, arguments))
    arguments, wanted = _EXPECTED[key]
    error = errors(library(function.name, suffix, *arguments), wanted)
    worst = int(error.argmax())
    assert error[worst] <= LIMIT[suffix], [float(a[worst]) for a in arguments]


def _gamma(x):
    """tgamma with C's values at poles, where Python's raises."""
    if x == 0:
        return math.copysign(math.inf, x)
    try:
        return math.gamma(x)
    except ValueError:
        return math.nan
    except OverflowError:
        return math.inf


def _lgamma(x):
    try:
        return math.lgamma(x)
    except ValueError:
        return math.inf
    except OverflowError:
        return math.inf


def _reference(name, dtype):
    if name in ("tgamma", "lgamma"):
        return np.vectorize({"tgamma": _gamma, "lgamma": _lgamma}[name], otypes=[dtype])
    if name in ("erf", "erfc"):
        return np.vectorize(getattr(math, name), otypes=[dtype])
    return NUMPY.get(name) or (None if name == "exp10" else getattr(np, name))


@pytest.mark.parametrize("suffix", TYPES)
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.name)
def test_special_values(library, function, suffix):
    """Zeros with their sign, infinities, NaN, the ends of the range: as NumPy has them, other values to 2 places."""
    dtype = TYPES[suffix][1]
    values = np.array(SPECIAL_F if suffix else SPECIAL, dtype)
    rows = np.array(list(itertools.product(values, repeat=function.arguments)), dtype).T
    with np.errstate(all="ignore"):
        if function.name == "exp10":
            wanted = np.power(dtype(10), rows[0])
        else:
            wanted = _reference(function.name, dtype)(*rows).astype(dtype)
    got = library(function.name, suffix, *rows)
    exact = ~np.isfinite(wanted) | (wanted == 0)
    np.testing.assert_array_equal(got[exact], wanted[exact], err_msg=str(rows[:, exact]))
    numbers = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(got[numbers]), np.signbit(wanted[numbers]), err_msg=str(rows[:, numbers]))
    rest = ~exact
    np.testing.assert_allclose(got[rest], wanted[rest], rtol=4 * np.finfo(dtype).eps, atol=np.finfo(dtype).tiny)


def test_hard_reductions(library):
    """Doubles next to multiples of pi/2, where a reduction that is short of bits fails by many places."""
    hard = [6381956970095103 * 2.0**797, 5.319372648326541416707296656673541083813475031793921822105998164685e255,
            2.0**1023, 1e22, 355.0, 52174.0, 103993.0, 3.0000001e15]  # fmt: skip
    import mpmath as mp

    for name in ("sin", "cos", "tan"):
        with mp.workprec(1400):
            wanted = [getattr(mp, name)(mp.mpf(x)) for x in hard]
        got = library(name, "", np.array(hard))
        assert errors(got, wanted).max() <= 1.0


def test_sincos_agrees_with_both(library):
    import ctypes

    x = np.concatenate([np.linspace(-20, 20, 501), [0.0, -0.0, 1e300, 1e-310, np.inf, np.nan]])
    for suffix, (_, dtype) in TYPES.items():
        v = np.where(np.abs(x) > 1e38, np.inf, x).astype(dtype) if suffix else x
        y = np.empty((v.size, 2), dtype)
        getattr(library.dll, f"b_sincos{suffix}")(
            *(ctypes.c_void_p(a.ctypes.data) for a in (v, v, y)), ctypes.c_long(v.size)
        )
        np.testing.assert_array_equal(y[:, 0], library("sin", suffix, v))
        np.testing.assert_array_equal(y[:, 1], library("cos", suffix, v))
        np.testing.assert_array_equal(np.signbit(y[:, 0][v == 0]), np.signbit(v[v == 0]))
