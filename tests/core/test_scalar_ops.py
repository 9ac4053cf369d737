"""Scalar instructions of host programs against NumPy, ml_dtypes and exact arithmetic."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pydispatch as pd
from pydispatch.formats.artifact.artifact import Artifact
from pydispatch.formats.program.program import FunctionArgument, Numerical, Opcode, Program, Result, dtype_word

FORMATS = {
    16: (dtype_word(Numerical.FLOAT, 16), np.dtype(np.float16)),
    17: (dtype_word(Numerical.BFLOAT, 16), np.dtype(ml_dtypes.bfloat16)),
    32: (dtype_word(Numerical.FLOAT, 32), np.dtype(np.float32)),
    64: (dtype_word(Numerical.FLOAT, 64), np.dtype(np.float64)),
}
EDGES = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    1.5,
    2.5,
    -2.5,
    3.14159,
    1e-3,
    7e-5,
    6e-8,
    65504.0,
    -1234.5,
    1e4,
    math.inf,
    -math.inf,
    math.nan,
]


def compiled(op: Opcode, kinds: Sequence[int], result: int, modifier: int, b: int | None = None) -> Any:
    """A function of scalars (dtype words) that is one instruction. b: the immediate operand of a one-operand one."""
    program = Program()
    f = program.add_function("f", "()")
    for kind in kinds:
        f.add_argument(FunctionArgument(kind, None))
    operands = [f.emit(Opcode.SCALAR, i) for i in range(len(kinds))]
    if b is not None:
        operands.append(b)
    f.results.append(Result(result, None, register=f.emit(op, *operands, modifier=modifier)))
    return pd.device("local-sync").load(Artifact.build([("f", "()")], program.encode())).f


def values(dtype: np.dtype[Any], count: int = 40) -> list[Any]:
    rng = np.random.default_rng(5)
    with np.errstate(all="ignore"):
        edges = np.array(EDGES).astype(dtype)
        spread = (rng.standard_normal(count) * 2.0 ** rng.integers(-12, 12, count)).astype(dtype)
    return [*edges, *spread]


def same(a: Any, b: Any) -> bool:
    """The same number, sign of zero included, or both NaN."""
    a, b = float(a), float(b)
    return (math.isnan(a) and math.isnan(b)) or (a == b and math.copysign(1, a) == math.copysign(1, b))


BINARY: dict[Opcode, Callable[[Any, Any], Any]] = {
    Opcode.FADD: np.add, Opcode.FSUB: np.subtract, Opcode.FMUL: np.multiply, Opcode.FDIV: np.divide,
    Opcode.FCOPYSIGN: np.copysign,
    Opcode.FREM: np.fmod,
}  # fmt: skip


@pytest.mark.parametrize("op", BINARY)
@pytest.mark.parametrize("format", FORMATS)
def test_binary(op: Opcode, format: int) -> None:
    word, dtype = FORMATS[format]
    f = compiled(op, [word, word], word, format)
    some = values(dtype, 20)
    for a in some:
        for b in some:
            with np.errstate(all="ignore"):
                if format == 17:  # ml_dtypes has no fmod and copysign that round like this everywhere: by way of f32
                    expected = BINARY[op](np.float32(a), np.float32(b)).astype(dtype)
                else:
                    expected = BINARY[op](a, b)
            assert same(f(float(a), float(b)), expected), (op, a, b)


@pytest.mark.parametrize("format", FORMATS)
def test_extremes(format: int) -> None:
    word, dtype = FORMATS[format]
    for op, nan_wins, largest in (
        (Opcode.FMIN, True, False), (Opcode.FMAX, True, True), (Opcode.FMINNUM, False, False),
        (Opcode.FMAXNUM, False, True)
    ):  # fmt: skip
        f = compiled(op, [word, word], word, format)
        for a in map(float, values(dtype, 10)):
            for b in map(float, values(dtype, 10)):
                if math.isnan(a) or math.isnan(b):
                    expected = math.nan if nan_wins or (math.isnan(a) and math.isnan(b)) else b if math.isnan(a) else a
                else:
                    key = lambda x: (x, math.copysign(1, x))  # noqa: E731
                    expected = max(a, b, key=key) if largest else min(a, b, key=key)
                assert same(f(a, b), expected), (op, a, b)


@pytest.mark.parametrize("source", FORMATS)
@pytest.mark.parametrize("target", FORMATS)
def test_conversions(source: int, target: int) -> None:
    f = compiled(Opcode.FCVT, [FORMATS[source][0]], FORMATS[target][0], target, source)
    kind, wanted = FORMATS[source][1], FORMATS[target][1]
    some = values(kind, 300)
    if target < 32:  # values half way between two of the target, and beside them
        codes = np.random.default_rng(1).integers(0, 0x7C00, 300).astype(np.uint16)
        low, high = codes.view(wanted).astype(np.float64), (codes + 1).view(wanted).astype(np.float64)
        middle = (low + high) / 2
        with np.errstate(all="ignore"):
            some += list(np.concatenate([middle, np.nextafter(middle, 0), np.nextafter(middle, 1e300)]).astype(kind))
    for x in some:
        with np.errstate(all="ignore"):
            # In two steps through f32, ml_dtypes rounds twice: exact comparison decides between neighbours.
            expected = nearest(float(x), wanted) if target < 32 else np.asarray(x).astype(wanted)
        assert same(f(float(x)), expected), (x, expected)


def nearest(x: float, dtype: np.dtype[Any]) -> float:
    """To nearest even, by comparing with every neighbour exactly."""
    if not math.isfinite(x):
        return x
    with np.errstate(all="ignore"):
        near = int(np.asarray(abs(x)).astype(dtype).view(np.uint16))
    limit = 0x7C00 if dtype == np.float16 else 0x7F80
    best = None
    for code in range(max(0, near - 2), min(limit, near + 2) + 1):
        value = np.uint16(code).view(dtype)
        # What infinity stands for in rounding: the next power of two.
        exact = Fraction(float(value)) if code < limit else Fraction(65536) if limit == 0x7C00 else Fraction(2) ** 128
        key = (abs(exact - Fraction(abs(x))), code & 1)
        if best is None or key < best[0]:
            best = (key, float(value))
    assert best is not None
    return math.copysign(best[1], x)


@pytest.mark.parametrize("format", [16, 17])
def test_fma_of_narrow_floats_is_rounded_once(format: int) -> None:
    word, dtype = FORMATS[format]
    f = compiled(Opcode.FMA, [word, word, word], word, format)
    rng = np.random.default_rng(2)
    numbers = (
        (rng.standard_normal((3000, 3)) * 2.0 ** rng.integers(-14, 14, (3000, 3))).astype(dtype).astype(np.float64)
    )
    for a, b, c in numbers:
        exact = Fraction(a) * Fraction(b) + Fraction(c)
        # Round to odd at 60 bits, which a double cannot hold; compare by neighbours instead.
        assert same(f(a, b, c), _nearest_exact(exact, dtype)), (a, b, c)


def _nearest_exact(x: Fraction, dtype: np.dtype[Any]) -> float:
    with np.errstate(all="ignore"):
        near = int(np.asarray(abs(float(x))).astype(dtype).view(np.uint16))
    limit = 0x7C00 if dtype == np.float16 else 0x7F80
    keys = []
    for code in range(max(0, near - 2), min(limit, near + 2) + 1):
        value = float(np.uint16(code).view(dtype))
        exact = Fraction(value) if code < limit else Fraction(65536) if limit == 0x7C00 else Fraction(2) ** 128
        keys.append(((abs(exact - abs(x)), code & 1), value))
    return math.copysign(min(keys)[1], x) if x else 0.0


MATH: list[Callable[[Any], Any]] = [
    np.sqrt, np.exp, np.log, np.floor, np.ceil, np.abs, np.tanh, np.sin, np.cos, np.tan, np.arcsin, np.arccos,
    np.arctan, np.sinh, np.cosh, np.arcsinh, np.arccosh, np.arctanh, np.vectorize(math.erf), np.vectorize(math.erfc),
    np.exp2, np.expm1, np.log2, np.log10, np.log1p, np.cbrt, lambda x: 1 / np.sqrt(x),
    lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x), np.rint, np.trunc,
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(MATH)))
@pytest.mark.parametrize("format", FORMATS)
def test_functions(number: int, format: int) -> None:
    word, dtype = FORMATS[format]
    f = compiled(Opcode.FMATH, [word], word, format, number)
    epsilon = float(ml_dtypes.finfo(dtype).eps)
    for x in values(dtype):
        if abs(float(x)) > 80 and math.isfinite(x) and number in (1, 13, 14, 20, 21):
            continue  # overflows here or there
        with np.errstate(all="ignore"):
            expected = float(MATH[number](np.float64(x)).astype(dtype))
        got = f(float(x))
        close = math.isfinite(expected) and abs(got - expected) <= 2 * epsilon * abs(expected) + 1e-300
        assert close or same(got, expected) or (expected == 0 and abs(got) < 1e-7), (x, got, expected)


INTEGERS: dict[Opcode, Callable[[int, int, int], int]] = {
    Opcode.ABS: lambda a, b, w: abs(a),
    Opcode.CTPOP: lambda a, b, w: (a % 2**w).bit_count(),
    Opcode.CTLZ: lambda a, b, w: w - (a % 2**w).bit_length(),
    Opcode.CTTZ: lambda a, b, w: ((a % 2**w) & -(a % 2**w)).bit_length() - 1 if a % 2**w else w,
    Opcode.MULHS: lambda a, b, w: a * b >> w,
    Opcode.MULHU: lambda a, b, w: (a % 2**w) * (b % 2**w) >> w,
}


@pytest.mark.parametrize("op", INTEGERS)
@pytest.mark.parametrize("width", [8, 16, 32, 64])
def test_integers(op: Opcode, width: int) -> None:
    word = dtype_word(Numerical.SIGNED, width)
    unary = op in (Opcode.ABS, Opcode.CTPOP, Opcode.CTLZ, Opcode.CTTZ)
    f = compiled(op, [word] if unary else [word, word], word, width, 0 if unary else None)
    top = 2 ** (width - 1)
    rng = np.random.default_rng(3)
    some = [0, 1, -1, 2, 7, top - 1, -top, *(int(x) for x in rng.integers(-top, top, 20, dtype=np.int64))]
    for a in some:
        for b in some[:1] if unary else some:
            expected = (INTEGERS[op](a, b, width) + top) % 2**width - top
            assert (f(a) if unary else f(a, b)) == expected, (a, b)


def test_pow_and_atan2() -> None:
    for op, function in ((Opcode.FPOW, np.power), (Opcode.FATAN2, np.arctan2)):
        for format, (word, dtype) in FORMATS.items():
            f = compiled(op, [word, word], word, format)
            epsilon = float(ml_dtypes.finfo(dtype).eps)
            for a in values(dtype, 5):
                for b in values(dtype, 5):
                    if math.isinf(a) and float(b) == 0.5:
                        continue  # NumPy takes a root there, whose answer for -inf differs from pow's
                    with np.errstate(all="ignore"):
                        wide = float(function(np.float64(a), np.float64(b)))
                        expected = float(np.float64(wide).astype(dtype))
                    got = f(float(a), float(b))
                    near = math.isfinite(expected) and abs(got - expected) <= 2 * epsilon * abs(expected) + 1e-45
                    assert near or same(got, expected), (op, a, b, got, expected)
