"""Reference results of operations of `arith` and `math`, by exact integers, NumPy and ml_dtypes.

What MLIR leaves open has one answer here: a quotient by zero is 0 and the remainder the dividend, a shift by the width
or more gives 0 or the sign.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
INTEGERS: dict[str, tuple[Any, int]] = {
    "i1": (np.bool_, 1), "i2": (ml_dtypes.int2, 2), "i4": (ml_dtypes.int4, 4), "i8": (np.int8, 8),
    "i16": (np.int16, 16), "i32": (np.int32, 32), "i64": (np.int64, 64), "index": (np.int64, 64),
}  # fmt: skip
FLOATS: dict[str, tuple[Any, int]] = {
    "f16": (np.float16, 16), "bf16": (ml_dtypes.bfloat16, 16), "f32": (np.float32, 32), "f64": (np.float64, 64),
    "f8E5M2": (ml_dtypes.float8_e5m2, 8), "f8E4M3": (ml_dtypes.float8_e4m3, 8), "f8E3M4": (ml_dtypes.float8_e3m4, 8),
    "f8E4M3FN": (ml_dtypes.float8_e4m3fn, 8), "f8E5M2FNUZ": (ml_dtypes.float8_e5m2fnuz, 8),
    "f8E4M3FNUZ": (ml_dtypes.float8_e4m3fnuz, 8), "f8E4M3B11FNUZ": (ml_dtypes.float8_e4m3b11fnuz, 8),
    "f4E2M1FN": (ml_dtypes.float4_e2m1fn, 4),
}  # fmt: skip


# -- integers: references on Python numbers, a and b signed


def unsigned(x: int, bits: int) -> int:
    return x & ((1 << bits) - 1)


def signed(x: int, bits: int) -> int:
    x = unsigned(x, bits)
    return x - (1 << bits) if x >> (bits - 1) else x


def quotient(x: int, y: int) -> int:
    return 0 if y == 0 else abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


def power(x: int, y: int, bits: int) -> int:
    """x to the y; 1 / x for negative exponents, where only ±1 have an inverse and 0 gives 0."""
    if y >= 0:
        return pow(x, y, 1 << bits)
    return {1: 1, -1: -1 if y % 2 else 1}.get(x, 0)


Reference = Callable[[int, int, int], int]
BINARY: dict[str, Reference] = {
    "addi": lambda x, y, n: x + y,
    "subi": lambda x, y, n: x - y,
    "muli": lambda x, y, n: x * y,
    "divsi": lambda x, y, n: quotient(x, y),
    "divui": lambda x, y, n: quotient(unsigned(x, n), unsigned(y, n)),
    "remsi": lambda x, y, n: x - y * quotient(x, y),
    "remui": lambda x, y, n: unsigned(x, n) % unsigned(y, n) if y else x,
    "floordivsi": lambda x, y, n: x // y if y else 0,
    "ceildivsi": lambda x, y, n: -(-x // y) if y else 0,
    "ceildivui": lambda x, y, n: -(-unsigned(x, n) // unsigned(y, n)) if y else 0,
    "andi": lambda x, y, n: x & y,
    "ori": lambda x, y, n: x | y,
    "xori": lambda x, y, n: x ^ y,
    "shli": lambda x, y, n: x << unsigned(y, n) if unsigned(y, n) < n else 0,
    "shrui": lambda x, y, n: unsigned(x, n) >> unsigned(y, n) if unsigned(y, n) < n else 0,
    "shrsi": lambda x, y, n: x >> min(unsigned(y, n), n - 1),
    "maxsi": lambda x, y, n: max(x, y),
    "minsi": lambda x, y, n: min(x, y),
    "maxui": lambda x, y, n: max(unsigned(x, n), unsigned(y, n)),
    "minui": lambda x, y, n: min(unsigned(x, n), unsigned(y, n)),
    "math.ipowi": power,
}
UNARY: dict[str, Callable[[int, int], int]] = {
    "math.absi": lambda x, n: abs(x),
    "math.ctpop": lambda x, n: unsigned(x, n).bit_count(),
    "math.ctlz": lambda x, n: n - unsigned(x, n).bit_length(),
    "math.cttz": lambda x, n: (unsigned(x, n) & -unsigned(x, n)).bit_length() - 1 if x else n,
}
PREDICATES: dict[str, Reference] = {
    "eq": lambda x, y, n: x == y,
    "ne": lambda x, y, n: x != y,
    "slt": lambda x, y, n: x < y,
    "sle": lambda x, y, n: x <= y,
    "sgt": lambda x, y, n: x > y,
    "sge": lambda x, y, n: x >= y,
    "ult": lambda x, y, n: unsigned(x, n) < unsigned(y, n),
    "ule": lambda x, y, n: unsigned(x, n) <= unsigned(y, n),
    "ugt": lambda x, y, n: unsigned(x, n) > unsigned(y, n),
    "uge": lambda x, y, n: unsigned(x, n) >= unsigned(y, n),
}


def full(op: str) -> str:
    return op if "." in op else f"arith.{op}"


def binary(type_: str) -> dict[str, Reference]:
    """Powers of truths are an error that says so."""
    return {op: f for op, f in BINARY.items() if type_ != "i1" or op != "math.ipowi"}


def wrapped(values: list[int], dtype: Any, bits: int) -> Array:
    if dtype is np.bool_:
        return np.array([bool(v & 1) for v in values], dtype)
    return np.array([signed(int(v), bits) for v in values], np.int64).astype(dtype)


# -- floats


def of_bits(patterns: list[int], dtype: Any, bits: int) -> Array:
    word = {4: np.uint8, 8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}[bits]
    return np.array(patterns, word).view(dtype)


def steps(got: Array, wanted: Array) -> NDArray[Any]:
    """How many representable numbers lie between two arrays of one type; 0 between zeros, and between NaN and NaN."""
    word = np.dtype(f"u{got.dtype.itemsize}")
    bits = 4 if got.dtype == ml_dtypes.float4_e2m1fn else 8 * got.dtype.itemsize

    def line(x: Array) -> Array:
        raw = [int(v) for v in x.view(word)]
        sign = 1 << (bits - 1)
        return np.array([-(v & (sign - 1)) if v & sign else v & (sign - 1) for v in raw], object)

    distance = np.abs(line(got) - line(wanted))
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        nan_got, nan_wanted = (np.isnan(x.astype(np.float64)) for x in (got, wanted))
    distance[nan_got & nan_wanted] = 0
    distance[nan_got ^ nan_wanted] = 1 << 63
    return distance


def rounded(values: Array, dtype: Any) -> Array:
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return values.astype(dtype)


def quiet(f: Callable[..., Array]) -> Callable[..., Array]:
    def run(*a: Array) -> Array:
        with np.errstate(all="ignore"):
            return np.asarray(f(*a))

    return run


def minimum(a: Array, b: Array) -> Array:
    """IEEE 754-2019 minimum: NaN wins, -0 is below +0."""
    return np.where((a == 0) & (b == 0), np.where(np.signbit(a), a, b), np.minimum(a, b))


def maximum(a: Array, b: Array) -> Array:
    return np.where((a == 0) & (b == 0), np.where(np.signbit(a), b, a), np.maximum(a, b))


def lifted(f: Callable[[float], float]) -> Callable[[Array], Array]:
    def one(x: float) -> float:
        try:
            return f(float(x))
        except (ValueError, OverflowError):
            return math.nan

    return lambda a: np.array([one(x) for x in a])


def away(a: Array) -> Array:
    """Halves go away from zero."""
    whole = np.trunc(a)
    return np.copysign(np.where(np.abs(a - whole) >= 0.5, whole + np.sign(a), whole), a)


EXACT: dict[str, tuple[int, Callable[..., Array]]] = {
    "addf": (2, np.add),
    "subf": (2, np.subtract),
    "mulf": (2, np.multiply),
    "divf": (2, np.divide),
    "remf": (2, np.fmod),
    "maximumf": (2, maximum),
    "minimumf": (2, minimum),
    "maxnumf": (2, np.fmax),
    "minnumf": (2, np.fmin),
    "negf": (1, np.negative),
    "math.absf": (1, np.abs),
    "math.ceil": (1, np.ceil),
    "math.floor": (1, np.floor),
    "math.trunc": (1, np.trunc),
    "math.roundeven": (1, np.rint),
    "math.round": (1, away),
    "math.sqrt": (1, np.sqrt),
    "math.copysign": (2, np.copysign),
}
NEAR: dict[str, tuple[int, Callable[..., Array]]] = {
    "math.rsqrt": (1, lambda a: 1 / np.sqrt(a)),
    "math.exp": (1, np.exp),
    "math.exp2": (1, np.exp2),
    "math.expm1": (1, np.expm1),
    "math.log": (1, np.log),
    "math.log2": (1, np.log2),
    "math.log10": (1, np.log10),
    "math.log1p": (1, np.log1p),
    "math.sin": (1, np.sin),
    "math.cos": (1, np.cos),
    "math.tan": (1, np.tan),
    "math.asin": (1, np.arcsin),
    "math.acos": (1, np.arccos),
    "math.atan": (1, np.arctan),
    "math.sinh": (1, np.sinh),
    "math.cosh": (1, np.cosh),
    "math.tanh": (1, np.tanh),
    "math.asinh": (1, np.arcsinh),
    "math.acosh": (1, np.arccosh),
    "math.atanh": (1, np.arctanh),
    "math.cbrt": (1, np.cbrt),
    "math.erf": (1, lifted(math.erf)),
    "math.erfc": (1, lifted(math.erfc)),
    "math.atan2": (2, np.arctan2),
    "math.powf": (2, np.power),
}
ORDERED = {"gt": np.greater, "ge": np.greater_equal, "lt": np.less, "le": np.less_equal, "eq": np.equal}


def compared(predicate: str, a: Array, b: Array) -> Array:
    unordered = np.isnan(a) | np.isnan(b)
    if predicate in ("true", "false"):
        return np.full(a.shape, predicate == "true")
    if predicate in ("ord", "uno"):
        return unordered if predicate == "uno" else ~unordered
    truth = ~unordered & ((a != b) if predicate[1:] == "ne" else ORDERED[predicate[1:]](a, b))
    return truth | unordered if predicate[0] == "u" else truth


FLOAT_PREDICATES = [
    "false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord", "ueq", "ugt", "uge", "ult", "ule", "une", "uno", "true"
]  # fmt: skip
KINDS: dict[str, Callable[[Array], Array]] = {"isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite}


# -- conversions


def saturated(x: Array, low: int, high: int) -> list[int]:
    return [0 if np.isnan(v) else high if v >= high else low if v <= low else int(v) for v in x]


def numbers(type_: str) -> Any:
    return (INTEGERS.get(type_) or FLOATS[type_])[0]


def through_odd(a: Array) -> Array:
    """f64 as f32 with what is cut off kept in the last bit, so that rounding once more rounds only once."""
    with np.errstate(all="ignore"):
        near = a.astype(np.float32)
        cut = np.where(np.abs(near) > np.abs(a), np.nextafter(near, np.float32(0)), near).astype(np.float32)
    inexact = (cut.astype(np.float64) != a) & np.isfinite(a)
    return np.asarray((cut.view(np.uint32) | inexact.astype(np.uint32)).view(np.float32))


def to_float(exact: list[int], target: str) -> Array:
    """Integers rounded once, through f64 with a sticky last bit where they have more than its 53."""
    to = numbers(target)
    sticky = [
        v
        if abs(v) < 1 << 53
        else ((abs(v) >> 11 << 11) | (1 << 11 if abs(v) % (1 << 11) else 0)) * (1 if v > 0 else -1)
        for v in exact
    ]
    with np.errstate(all="ignore"):
        if target == "f64":
            return np.array([float(v) for v in exact])
        wide = np.array([float(v) for v in sticky])
        return wide.astype(to) if target in ("f32",) else through_odd(wide).astype(to)
