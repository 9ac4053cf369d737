"""Scalar arithmetic of host code in every type, against NumPy, Python and mpmath."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import pydispatch as pd

WIDTHS = (8, 16, 32, 64)
INTEGER_OPS = (
    "addi", "subi", "muli", "divsi", "divui", "remsi", "remui", "ceildivsi", "ceildivui", "floordivsi", "minsi",
    "maxsi", "minui", "maxui", "andi", "ori", "xori", "shli", "shrsi", "shrui",
)  # fmt: skip
FLOAT_OPS = ["addf", "subf", "mulf", "divf", "remf", "minimumf", "maximumf", "minnumf", "maxnumf"]
FLOATS: dict[str, Any] = {"f16": np.float16, "f32": np.float32, "f64": np.float64}
PREDICATES = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
UNARY = (
    "absf", "ceil", "floor", "sqrt", "rsqrt", "cbrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p",
    "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf",
    "erfc", "round", "roundeven", "trunc",
)  # fmt: skip


def function(name: str, arguments: str, body: str, result: str) -> str:
    return f"func.func @{name}({arguments}) -> {result} {{\n{body}\nreturn %r : {result}\n}}\n"


def integers() -> str:
    text = ""
    for width in WIDTHS:
        t = f"i{width}"
        for op in INTEGER_OPS:
            text += function(f"{op}_{t}", f"%a: {t}, %b: {t}", f"%r = arith.{op} %a, %b : {t}", t)
        for p in PREDICATES:
            text += function(f"{p}_{t}", f"%a: {t}, %b: {t}", f"%r = arith.cmpi {p}, %a, %b : {t}", "i1")
        for op in ("absi", "ctpop", "ctlz", "cttz"):
            text += function(f"{op}_{t}", f"%a: {t}", f"%r = math.{op} %a : {t}", t)
        text += function(f"ipowi_{t}", f"%a: {t}, %b: {t}", f"%r = math.ipowi %a, %b : {t}", t)
        for op in ("mului_extended", "mulsi_extended"):
            text += function(f"{op}_{t}", f"%a: {t}, %b: {t}", f"%l, %r = arith.{op} %a, %b : {t}", t)
        text += function(f"carry_{t}", f"%a: {t}, %b: {t}", f"%l, %r = arith.addui_extended %a, %b : {t}, i1", "i1")
    return text


def floats() -> str:
    text = ""
    for t in (*FLOATS, "bf16"):
        for op in FLOAT_OPS:
            text += function(f"{op}_{t}", f"%a: {t}, %b: {t}", f"%r = arith.{op} %a, %b : {t}", t)
        for p in ("oeq", "olt", "uge", "une", "uno", "ord"):
            text += function(f"{p}_{t}", f"%a: {t}, %b: {t}", f"%r = arith.cmpf {p}, %a, %b : {t}", "i1")
        for op in UNARY:
            text += function(f"{op}_{t}", f"%a: {t}", f"%r = math.{op} %a : {t}", t)
        for op in ("isnan", "isinf", "isfinite", "isnormal"):
            text += function(f"{op}_{t}", f"%a: {t}", f"%r = math.{op} %a : {t}", "i1")
        for op in ("powf", "atan2", "copysign"):
            text += function(f"{op}_{t}", f"%a: {t}, %b: {t}", f"%r = math.{op} %a, %b : {t}", t)
        text += function(f"fma_{t}", f"%a: {t}, %b: {t}, %c: {t}", f"%r = math.fma %a, %b, %c : {t}", t)
        text += function(f"negf_{t}", f"%a: {t}", f"%r = arith.negf %a : {t}", t)
        text += function(f"from_{t}", f"%a: {t}", f"%r = arith.fptosi %a : {t} to i32", "i32")
        text += function(f"to_{t}", "%a: i32", f"%r = arith.sitofp %a : i32 to {t}", t)
        text += function(f"fpowi_{t}", f"%a: {t}, %b: i32", f"%r = math.fpowi %a, %b : {t}, i32", t)
    return text


def program() -> str:
    text = integers() + floats()
    for a, b in (("f16", "f32"), ("bf16", "f32"), ("f32", "f64"), ("f16", "f64"), ("bf16", "f64")):
        text += function(f"{a}_to_{b}", f"%a: {a}", f"%r = arith.extf %a : {a} to {b}", b)
        text += function(f"{b}_to_{a}", f"%a: {b}", f"%r = arith.truncf %a : {b} to {a}", a)
    for n in ("i1", "i8", "i16", "i32", "i64", "index", "f16", "bf16", "f32", "f64"):
        text += function(f"same_{n}", f"%r: {n}", "", n)
    text += function("bits", "%a: f32", "%r = arith.bitcast %a : f32 to i32", "i32")
    text += function("xor", "%a: i1, %b: i1", "%r = arith.xori %a, %b : i1", "i1")
    text += function("wide", "%a: i1", "%r = arith.extui %a : i1 to i32", "i32")
    text += function("signed", "%a: i1", "%r = arith.extsi %a : i1 to i32", "i32")
    text += function(
        "affine", "%a: index, %b: index",
        "%r = affine.apply affine_map<(d0)[s0] -> (d0 mod 7 + s0 floordiv 3 - d0 ceildiv 2)>(%a)[%b]", "index",
    )  # fmt: skip
    return text


@cache
def loaded() -> Any:
    """Compile and load the program when its first test runs, not while tests are collected."""
    return pd.device("local-sync").load(pd.compile(program()))


def call(name: str, *arguments: Any) -> Any:
    return getattr(loaded(), name)(*arguments)


def signed(value: int, width: int) -> int:
    value &= (1 << width) - 1
    return value - (1 << width) if value >> (width - 1) else value


def integer(op: str, a: int, b: int, width: int) -> int | None:
    """What MLIR says of two signed numbers; None where the call is refused."""
    ua, ub = a & ((1 << width) - 1), b & ((1 << width) - 1)
    if op in ("divsi", "divui", "remsi", "remui", "ceildivsi", "ceildivui", "floordivsi") and b == 0:
        return None
    if op in ("divsi", "ceildivsi", "floordivsi") and b == -1 and a == -(1 << (width - 1)):
        return None
    quotient = lambda x, y: abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)  # noqa: E731
    exact = {
        "addi": lambda: a + b, "subi": lambda: a - b, "muli": lambda: a * b,
        "divsi": lambda: quotient(a, b), "divui": lambda: ua // ub,
        "remsi": lambda: a - b * quotient(a, b), "remui": lambda: ua % ub,
        "ceildivsi": lambda: -(-a // b), "ceildivui": lambda: -(-ua // ub), "floordivsi": lambda: a // b,
        "minsi": lambda: min(a, b), "maxsi": lambda: max(a, b), "minui": lambda: min(ua, ub),
        "maxui": lambda: max(ua, ub), "andi": lambda: a & b, "ori": lambda: a | b, "xori": lambda: a ^ b,
        "shli": lambda: a << ub if ub < width else 0, "shrui": lambda: ua >> ub if ub < width else 0,
        "shrsi": lambda: a >> min(ub, width - 1),
    }[op]()  # fmt: skip
    return signed(exact, width)


@settings(deadline=None, max_examples=150)
@given(width=st.sampled_from(WIDTHS), a=st.integers(-(2**63), 2**63 - 1), b=st.integers(-(2**63), 2**63 - 1),
       small=st.booleans())  # fmt: skip
@example(width=8, a=-128, b=-1, small=False)
@example(width=64, a=-(2**63), b=-1, small=False)
@example(width=32, a=5, b=0, small=False)
def test_integers(width: int, a: int, b: int, small: bool) -> None:
    a, b = signed(a, width), signed(b % 70 if small else b, width)
    t = f"i{width}"
    for op in INTEGER_OPS:
        expected = integer(op, a, b, width)
        if expected is None:
            with pytest.raises(pd.Error):
                call(f"{op}_{t}", a, b)
        else:
            assert int(call(f"{op}_{t}", a, b)) == expected, (op, a, b)
    ua, ub = a & ((1 << width) - 1), b & ((1 << width) - 1)
    truths = (a == b, a != b, a < b, a <= b, a > b, a >= b, ua < ub, ua <= ub, ua > ub, ua >= ub)
    for p, expected_truth in zip(PREDICATES, truths, strict=True):
        assert bool(call(f"{p}_{t}", a, b)) is expected_truth, (p, a, b)
    assert int(call(f"absi_{t}", a)) == signed(abs(a), width)
    assert int(call(f"ctpop_{t}", a)) == signed(ua.bit_count(), width)
    assert int(call(f"ctlz_{t}", a)) == width - ua.bit_length()
    assert int(call(f"cttz_{t}", a)) == (width if ua == 0 else (ua & -ua).bit_length() - 1)
    assert int(call(f"mului_extended_{t}", a, b)) == signed(ua * ub >> width, width)
    assert int(call(f"mulsi_extended_{t}", a, b)) == signed(a * b >> width, width)
    assert bool(call(f"carry_{t}", a, b)) is (ua + ub >= 1 << width)
    if b >= 0:
        assert int(call(f"ipowi_{t}", a, b)) == signed(pow(a, b, 1 << width), width)


EDGES = [0.0, -0.0, 1.0, -1.5, 0.5, 2.5, -2.5, 3.7, 1e-3, 6e4, -1e30, math.inf, -math.inf, math.nan, 1e-40, 7.0]


def same(got: Any, expected: Any) -> bool:
    got, expected = float(got), float(expected)
    return (math.isnan(got) and math.isnan(expected)) or (
        got == expected and math.copysign(1, got) == math.copysign(1, expected)
    )


def float_pair(op: str, a: Any, b: Any) -> Any:
    with np.errstate(all="ignore"):
        if op in ("minimumf", "maximumf", "minnumf", "maxnumf"):
            if np.isnan(a) or np.isnan(b):
                number = b if np.isnan(a) else a
                return number if "num" in op else np.nan
            low, high = sorted((a, b), key=lambda v: (v, not np.signbit(v)))
            return low if op.startswith("min") else high
        numpy = {"addf": np.add, "subf": np.subtract, "mulf": np.multiply, "divf": np.divide, "remf": np.fmod}
        return numpy[op](a, b)


@pytest.mark.parametrize("type", FLOATS)
def test_floats(type: str) -> None:
    dtype = FLOATS[type]
    with np.errstate(all="ignore"):
        values = [dtype(v) for v in EDGES]
    for a in values:
        for b in values:
            for op in FLOAT_OPS:
                assert same(call(f"{op}_{type}", a, b), float_pair(op, a, b)), (op, a, b)
            assert bool(call(f"oeq_{type}", a, b)) is bool(a == b)
            assert bool(call(f"olt_{type}", a, b)) is bool(a < b)
            assert bool(call(f"uge_{type}", a, b)) is not bool(a < b)
            assert bool(call(f"une_{type}", a, b)) is bool(a != b)
            assert bool(call(f"uno_{type}", a, b)) is bool(np.isnan(a) or np.isnan(b))
            assert same(call(f"copysign_{type}", a, b), np.copysign(a, b))
        assert bool(call(f"isnan_{type}", a)) is bool(np.isnan(a))
        assert bool(call(f"isinf_{type}", a)) is bool(np.isinf(a))
        assert bool(call(f"isfinite_{type}", a)) is bool(np.isfinite(a))
        normal = bool(np.isfinite(a) and abs(a) >= np.finfo(dtype).smallest_normal)
        assert bool(call(f"isnormal_{type}", a)) is normal
        assert same(call(f"negf_{type}", a), -a)


DOMAIN = {
    "asin": (-1, 1), "acos": (-1, 1), "atanh": (-0.99, 0.99), "acosh": (1, 50), "log": (1e-3, 60), "log2": (1e-3, 60),
    "log10": (1e-3, 60), "log1p": (-0.9, 60), "sqrt": (0, 60), "rsqrt": (1e-3, 60),
}  # fmt: skip
MP = {
    "absf": abs, "rsqrt": lambda x: 1 / mpmath.sqrt(x), "cbrt": lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x)),
    "exp2": lambda x: mpmath.mpf(2) ** x, "log2": lambda x: mpmath.log(x, 2),
    "round": lambda x: mpmath.sign(x) * mpmath.floor(abs(x) + mpmath.mpf("0.5")),
    "roundeven": mpmath.nint, "trunc": lambda x: mpmath.sign(x) * mpmath.floor(abs(x)),
}  # fmt: skip


@pytest.mark.parametrize("op", UNARY)
@pytest.mark.parametrize("type", FLOATS)
def test_functions(op: str, type: str) -> None:
    dtype = FLOATS[type]
    low, high = DOMAIN.get(op, (-8, 8))
    exact = MP.get(op) or getattr(mpmath, op)
    for x in np.linspace(low, high, 41).astype(dtype):
        x = np.clip(x, dtype(low), dtype(high))
        expected = dtype(float(exact(mpmath.mpf(float(x)))))
        got = dtype(call(f"{op}_{type}", x))
        ulp = float(np.spacing(np.abs(expected)))
        assert abs(float(got) - float(expected)) <= 2 * ulp, (op, x, got, expected)


def bfloat(value: float) -> float:
    """The nearest bf16, by way of f32."""
    bits = int(np.float32(value).view(np.uint32))
    if not math.isfinite(value):
        return value
    bits += 0x7FFF + (bits >> 16 & 1)
    return float(np.uint32(bits & 0xFFFF0000).view(np.float32))


def test_bfloat() -> None:
    values = [bfloat(v) for v in (0.0, 1.0, -1.5, 3.140625, 100.0, 1e30, -1e-20)]
    for a in values:
        for b in values:
            with np.errstate(all="ignore"):
                sums = {"addf": np.float32(a) + np.float32(b), "mulf": np.float32(a) * np.float32(b)}
            for op, wide in sums.items():
                assert same(call(f"{op}_bf16", a, b), bfloat(float(wide))), (op, a, b)
        assert same(call("bf16_to_f32", a), a)
        assert same(call("f32_to_bf16", a), a)
    assert float(call("f32_to_bf16", 1.00390625)) == 1.0  # a tie goes to the even neighbour
    assert float(call("f32_to_bf16", 1.01171875)) == 1.015625


def test_conversions() -> None:
    rng = np.random.default_rng(3)
    for x in [*rng.normal(size=50) * 1000, 65504.0, 65520.0, 1e-7, 5.96e-8, 2.98e-8, math.inf]:
        with np.errstate(all="ignore"):
            assert same(call("f64_to_f32", x), np.float32(x))
            assert same(call("f64_to_f16", x), np.float16(x))
            assert same(call("f32_to_f16", np.float32(x)), np.float32(x).astype(np.float16))
            assert same(call("f16_to_f64", np.float16(x)), np.float16(x))
    for type, dtype in FLOATS.items():
        for n in (0, 1, -7, 1000, 123456789):
            with np.errstate(all="ignore"):
                assert same(call(f"to_{type}", n), dtype(n))
        assert int(call(f"from_{type}", dtype(-3.7))) == -3
        assert int(call(f"from_{type}", dtype(math.nan))) == 0
        assert int(call(f"from_{type}", dtype(math.inf))) == 2**31 - 1
        assert float(call(f"fpowi_{type}", dtype(1.5), 3)) == 3.375
        assert float(call(f"fma_{type}", dtype(2), dtype(3), dtype(0.5))) == 6.5
    a, b = 1 + 2.0**-30, 1 - 2.0**-30
    assert float(call("fma_f64", a, b, -1.0)) == -(2.0**-60)


def test_every_type_goes_through() -> None:
    for n in ("i8", "i16", "i32", "i64"):
        for value in (0, -1, 2 ** (int(n[1:]) - 1) - 1, -(2 ** (int(n[1:]) - 1))):
            assert int(call(f"same_{n}", value)) == value
    assert int(call("same_index", 2**62)) == 2**62
    for n in ("f16", "bf16", "f32", "f64"):
        assert float(call(f"same_{n}", -1.5)) == -1.5
    assert [bool(call("same_i1", b)) for b in (False, True)] == [False, True]
    assert int(call("bits", 1.0)) == 0x3F800000
    assert [bool(call("xor", a, b)) for a in (False, True) for b in (False, True)] == [False, True, True, False]
    assert [int(call("wide", b)) for b in (False, True)] == [0, 1]
    assert [int(call("signed", b)) for b in (False, True)] == [0, -1]


@settings(deadline=None, max_examples=30)
@given(a=st.integers(-1000, 1000), b=st.integers(-1000, 1000))
def test_affine(a: int, b: int) -> None:
    assert int(call("affine", a, b)) == a % 7 + b // 3 - -(-a // 2)


def test_a_type_that_host_code_cannot_compute_with_names_the_place() -> None:
    text = function("f", "%a: f8E4M3FN", "%r = arith.addf %a, %a : f8E4M3FN", "f8E4M3FN")
    with pytest.raises(pd.CompileError, match=r"'arith.addf' on f8E4M3FN is not supported in host code") as caught:
        pd.compile(text)
    assert caught.value.location is not None
