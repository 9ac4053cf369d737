"""Builds the device library as a shared object with one loop per function, and measures errors against mpmath."""

from __future__ import annotations

import ctypes
import tempfile
from dataclasses import dataclass
from pathlib import Path

import mpmath as mp
import numpy as np

from pydispatch.compiler import devlib
from pydispatch.compiler.toolchain import tools as toolchain

TYPES = {"f": ("float", np.float32), "": ("double", np.float64)}
CPUS = ("generic", "x86-64-v3")  # without and with fused multiply-add


@dataclass(frozen=True)
class Function:
    """A function of one or two numbers: its value by mpmath, and the ranges (low, high) its arguments are drawn from.

    A range with "log" draws exponents evenly, so that every binade is met, of both signs when low is negative.
    """

    name: str
    reference: object
    ranges: tuple
    arguments: int = 1


def _log(low, high):
    return ("log", low, high)


def _erfc(x):
    return mp.erfc(x) if abs(x) < 100 else mp.mpf(2 if x < 0 else 0)  # mpmath fails far out


def _lgamma(x):
    """log |gamma(x)|, for numbers of any size."""
    if x >= 0:
        return mp.loggamma(x) if x < 1e30 else x * (mp.log(x) - 1)
    return mp.log(mp.pi / abs(mp.sinpi(x) * x)) - mp.loggamma(-x)


ALL = _log(-1e308, 1e308)
POSITIVE = _log(0.0, 1e308)
FUNCTIONS = [
    Function("exp", mp.exp, ((-746, 710), (-1, 1), ALL)),
    Function("exp2", lambda x: mp.exp(x * mp.ln(2)), ((-1075, 1024), (-1, 1), ALL)),
    Function("exp10", lambda x: mp.exp(x * mp.ln(10)), ((-324, 309), (-1, 1), ALL)),
    Function("expm1", mp.expm1, ((-40, 710), (-2, 2), ALL)),
    Function("log", mp.log, (POSITIVE, (0.5, 2), (0.99, 1.01))),
    Function("log2", lambda x: mp.log(x, 2), (POSITIVE, (0.5, 2), (0.99, 1.01))),
    Function("log10", mp.log10, (POSITIVE, (0.5, 2), (0.99, 1.01))),
    Function("log1p", mp.log1p, (_log(0.0, 1e308), (-0.999, 2), _log(-0.99, 0.99))),
    Function("sin", mp.sin, ((-10, 10), (-1e6, 1e6), ALL)),
    Function("cos", mp.cos, ((-10, 10), (-1e6, 1e6), ALL)),
    Function("tan", mp.tan, ((-10, 10), (-1e6, 1e6), ALL)),
    Function("asin", mp.asin, ((-1, 1), (0.9, 1), _log(-1.0, 1.0))),
    Function("acos", mp.acos, ((-1, 1), (0.9, 1), (-1, -0.9), _log(-1.0, 1.0))),
    Function("atan", mp.atan, ((-3, 3), (-40, 40), ALL)),
    Function("sinh", mp.sinh, ((-711, 711), (-2, 2), ALL)),
    Function("cosh", mp.cosh, ((-711, 711), (-2, 2), ALL)),
    Function("tanh", mp.tanh, ((-25, 25), (-2, 2), ALL)),
    Function("asinh", mp.asinh, ((-10, 10), ALL)),
    Function("acosh", mp.acosh, ((1, 1.1), (1, 30), _log(1.0, 1e308))),
    Function("atanh", mp.atanh, ((-1, 1), (0.99, 1), _log(-0.99, 0.99))),
    Function("erf", mp.erf, ((-6, 6), (-1, 1), ALL)),
    Function("erfc", _erfc, ((-6, 28), (-1, 1), (0, 3), ALL)),
    Function("tgamma", mp.gamma, ((-30, 30), (0, 4), (-184.5, -30), (30, 172), _log(-1.0, 1.0))),
    Function("lgamma", _lgamma, ((0, 4), (0.7, 1.3), (1.4, 2.6), (4, 200), POSITIVE, (-1000.5, -30))),
    Function("cbrt", lambda x: mp.sign(x) * mp.cbrt(abs(x)), ((-10, 10), ALL)),
    Function("sqrt", mp.sqrt, (POSITIVE, (0, 10))),
    Function("pow", mp.power, (((0, 100), (-100, 100)), ((0.9, 1.1), (-5000, 5000)), (POSITIVE, (-2, 2))), 2),
    Function("atan2", mp.atan2, (((-10, 10), (-10, 10)), (ALL, ALL), ((-1, 1), (5, 100))), 2),
    Function("hypot", mp.hypot, (((-10, 10), (-10, 10)), (ALL, ALL)), 2),
]
BY_NAME = {function.name: function for function in FUNCTIONS}

# Functions whose results are exact, or compared with NumPy bit by bit; the value is the number of arguments.
EXACT = {
    "floor": 1, "ceil": 1, "trunc": 1, "rint": 1, "nearbyint": 1, "roundeven": 1, "round": 1, "fabs": 1, "logb": 1,
    "sqrt": 1, "copysign": 2, "fmin": 2, "fmax": 2, "fdim": 2, "fmod": 2, "remainder": 2, "nextafter": 2, "fma": 3,
}  # fmt: skip


def _loop(name: str, suffix: str, count: int) -> str:
    kind = TYPES[suffix][0]
    pointers = ", ".join(f"const {kind}* x{i}" for i in range(count))
    values = ", ".join(f"x{i}[i]" for i in range(count))
    types = ", ".join([kind] * count)
    return (
        f"{kind} {name}{suffix}({types});\n"
        f"void bulk_{name}{suffix}({pointers}, {kind}* y, long n) "
        f"{{ for (long i = 0; i < n; ++i) y[i] = {name}{suffix}({values}); }}\n"
    )


def driver_source(extra: str = "") -> bytes:
    counts = {function.name: function.arguments for function in FUNCTIONS} | EXACT
    text = "#pragma GCC visibility push(default)\n" + extra
    return (text + "".join(_loop(name, s, count) for name, count in counts.items() for s in TYPES)).encode()


def build(cpu: str, extra: str = "", arch: str = "x86_64", exports=()) -> Path:
    """The library and its loops as a shared object on disk. extra: more C text whose functions are in exports."""
    tools = toolchain.find()
    loops = tools.compile_c(
        driver_source(extra), arch=arch, cpu=cpu, extra_args=["-fno-builtin", "-fno-vectorize"], opt="-O1"
    )
    counts = {function.name: function.arguments for function in FUNCTIONS} | EXACT
    names = [f"bulk_{name}{suffix}" for name in counts for suffix in TYPES] + list(exports)
    data = tools.link_shared([loops], arch=arch, exports=names, archives=devlib.objects(arch, cpu))
    path = Path(tempfile.mkdtemp(prefix="devlib-"), f"{arch}.so")
    path.write_bytes(data)
    return path


class Library:
    def __init__(self, cpu: str, extra: str = "", exports=()) -> None:
        self.cpu = cpu
        self.dll = ctypes.CDLL(str(build(cpu, extra, exports=exports)))

    def __call__(self, name: str, suffix: str, *arrays: np.ndarray) -> np.ndarray:
        dtype = TYPES[suffix][1]
        inputs = [np.ascontiguousarray(a, dtype) for a in np.broadcast_arrays(*arrays)]
        out = np.empty(inputs[0].shape, dtype)
        pointers = [a.ctypes.data_as(ctypes.c_void_p) for a in (*inputs, out)]
        getattr(self.dll, f"bulk_{name}{suffix}")(*pointers, ctypes.c_long(out.size))
        return out


def draw(rng: np.random.Generator, where, count: int, suffix: str) -> np.ndarray:
    dtype = TYPES[suffix][1]
    if where[0] != "log":
        return rng.uniform(where[0], where[1], count).astype(dtype)
    _, low, high = where
    info = np.finfo(dtype)
    top = np.log2(min(high, float(info.max)))
    bottom = np.log2(low) if low > 0 else float(np.log2(info.smallest_subnormal))
    x = np.exp2(rng.uniform(bottom, top, count))
    if low < 0:
        x *= rng.choice([-1.0, 1.0], count)
        x = np.maximum(x, low)
    with np.errstate(over="ignore"):
        return np.clip(x, -float(info.max), float(info.max)).astype(dtype)


def samples(function: Function, suffix: str, count: int, seed: int = 1) -> list[np.ndarray]:
    """Arrays of arguments, `count` for each of the function's ranges."""
    rng = np.random.default_rng(seed)
    columns = [[] for _ in range(function.arguments)]
    for where in function.ranges:
        for column, one in zip(columns, where if function.arguments > 1 else (where,), strict=True):
            column.append(draw(rng, one, count, suffix))
    return [np.concatenate(column) for column in columns]


def expected(function: Function, arguments: list[np.ndarray]) -> list:
    with mp.workprec(160):
        return [function.reference(*(mp.mpf(float(v)) for v in row)) for row in zip(*arguments, strict=True)]


def errors(got: np.ndarray, wanted: list) -> np.ndarray:
    """Distances in units in the last place of the exact value; infinity where got is not finite and should be."""
    info = np.finfo(got.dtype)
    result = np.zeros(got.size)
    with mp.workprec(200):
        largest = mp.mpf(float(info.max)) * (1 + mp.mpf(2) ** -(info.nmant + 2))
        for i, (g, w) in enumerate(zip(got.tolist(), wanted, strict=True)):
            if abs(w) >= largest:
                result[i] = 0.0 if g == mp.sign(w) * mp.inf else np.inf
                if not np.isfinite(g) or abs(g) < float(info.max):
                    continue
                result[i] = 1.0
                continue
            if not np.isfinite(g):
                result[i] = np.inf
                continue
            exponent = max(int(mp.frexp(w)[1]) - 1, int(info.minexp)) if w else int(info.minexp)
            result[i] = float(abs(mp.mpf(g) - w) / mp.ldexp(1, exponent - int(info.nmant)))
    return result
