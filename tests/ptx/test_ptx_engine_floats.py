"""Floats against rational numbers (and mpmath for what is approximate): every bit, in every rounding mode."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import copysign, inf, isinf, isnan, nan
from typing import Any

import mpmath
import numpy as np
import pytest
from ptx_engine import each, finite, floats, same, to_format

pytestmark = pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")
COUNT = 800
MODES = ("rn", "rz", "rm", "rp")
SIZES = {"f16": 2, "bf16": 2, "f32": 4, "f64": 8}


def of_bits(bits: Any, type_: str) -> Any:
    """Bits as f64 values."""
    if type_ == "bf16":
        return (np.asarray(bits).view(np.uint16).astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return np.asarray(bits).view(f"f{SIZES[type_]}").astype(np.float64)


def inputs_of(type_: str, count: int, seed: int = 0, number: int = COUNT) -> list[Any]:
    rng = np.random.default_rng(seed)
    if type_ == "bf16":
        return [(floats("f32", rng, number).view(np.uint32) >> 16).astype(np.uint16) for _ in range(count)]
    return [floats(type_, rng, number) for _ in range(count)]


def check(instruction: str, type_: str, inputs: list[Any], want: Callable[..., float]) -> None:
    names = ", ".join(f"%{n}" for n in "abce"[: len(inputs)])
    bits = each(
        f"{instruction} %d, {names};",
        [(type_ if type_[0] == "f" else "b16", one) for one in inputs],
        f"b{8 * SIZES[type_]}",
    )
    got, given = of_bits(bits, type_), [of_bits(one, type_) for one in inputs]
    for k in range(len(got)):
        arguments = [float(one[k]) for one in given]
        expected = want(*arguments)
        assert same(float(got[k]), expected), f"{instruction} of {arguments}: {got[k]!r}, expected {expected!r}"
    if type_ == "f32" and not instruction.startswith(("neg", "abs", "copysign")):
        assert set(bits[np.isnan(got)]) <= {0x7FFFFFFF}


def ieee(operation: str, values: tuple[float, ...]) -> float:
    """What IEEE 754 says where no rounding is: Python's own floats (a zero divisor by its signs)."""
    if operation == "fma":
        a, b, c = values
        if isnan(a) or isnan(b) or isnan(c) or (0 in (a, b) and inf in (abs(a), abs(b))):
            return nan
        if inf in (abs(a), abs(b)):
            product = copysign(inf, copysign(1, a) * copysign(1, b))
            return nan if isinf(c) and c != product else product
        return c
    a, b = values
    if operation == "add":
        return a + b
    if operation == "mul":
        return a * b
    if b != 0:
        return a / b
    return nan if a == 0 or isnan(a) else copysign(inf, copysign(1, a) * copysign(1, b))


def exact(operation: str, type_: str, mode: str) -> Callable[..., float]:
    def one(*values: float) -> float:
        negative = copysign(1, values[0]) * copysign(1, values[1]) < 0
        if not finite(*values) or (operation == "div" and values[1] == 0):
            return ieee(operation, values)
        a, b = Fraction(values[0]), Fraction(values[1])
        if operation == "mul":
            return to_format(a * b, type_, mode, -0.0 if negative else 0.0)
        if operation == "div":
            return to_format(a / b, type_, mode, -0.0 if negative else 0.0)
        if operation == "add":
            total, left, right = a + b, copysign(1, values[0]), copysign(1, values[1])
        else:
            total, left, right = a * b + Fraction(values[2]), -1.0 if negative else 1.0, copysign(1, values[2])
            if a * b != 0 and values[2] != 0:
                right = -left  # They cancel, if the sum is 0.
            elif a * b != 0 or values[2] != 0:
                return to_format(total, type_, mode)
        if operation == "add" and a != 0:
            right = -left
        same_sign = left == right
        return to_format(total, type_, mode, left * 0.0 if same_sign else (-0.0 if mode == "rm" else 0.0))

    return one


@pytest.mark.parametrize("type_", ["f32", "f64"])
@pytest.mark.parametrize("mode", MODES)
def test_rounded_operations(type_: str, mode: str) -> None:
    a, b, c = inputs_of(type_, 3)
    # Sums that nearly cancel, and products that lie beside the addend.
    c = np.where(np.arange(COUNT) % 4 == 0, -(a.astype(np.float64) * b).astype(c.dtype), c)
    check(f"add.{mode}.{type_}", type_, [a, b], exact("add", type_, mode))
    check(f"sub.{mode}.{type_}", type_, [a, b], lambda x, y: exact("add", type_, mode)(x, -y))
    check(f"mul.{mode}.{type_}", type_, [a, b], exact("mul", type_, mode))
    check(f"div.{mode}.{type_}", type_, [a, b], exact("div", type_, mode))
    check(f"fma.{mode}.{type_}", type_, [a, b, c], exact("fma", type_, mode))
    check(f"rcp.{mode}.{type_}", type_, [a], lambda x: exact("div", type_, mode)(1.0, x))

    def root(x: float) -> float:
        if x == 0 or isnan(x) or x == inf:
            return x
        if x < 0:
            return nan
        with mpmath.workprec(400):
            found = mpmath.sqrt(mpmath.mpf(x))
            return to_format(Fraction(int(found.man)) * Fraction(2) ** int(found.exp), type_, mode)

    check(f"sqrt.{mode}.{type_}", type_, [np.abs(a)], root)
    check(f"sqrt.{mode}.{type_}", type_, [a[:100]], root)


@pytest.mark.parametrize("mode", MODES)
def test_rounded_operations_of_immediates(mode: str) -> None:
    unused = [("f64", np.zeros(2))]
    third = each(f"div.{mode}.f64 %d, 0d3FF0000000000000, 0d4008000000000000;", unused, "f64").view(np.float64)
    assert (third == to_format(Fraction(1, 3), "f64", mode)).all()
    least = each(f"mul.{mode}.f64 %d, 0d0000000000000001, 0d3FE8000000000000;", unused, "f64").view(np.float64)
    assert (least == to_format(Fraction(3, 4) * Fraction(2) ** -1074, "f64", mode)).all()


@pytest.mark.parametrize("name", ["f32", "f64"])
def test_fused_sums_that_are_hard_to_round(name: str) -> None:
    """Products half-way between two floats, moved by an addend far below them; and the ends of the range."""
    rng = np.random.default_rng(5)
    bits = {"f32": 24, "f64": 53}[name]
    dtype = np.dtype(f"f{SIZES[name]}")
    odd = rng.integers(1 << bits - 1, 1 << bits, COUNT, np.uint64) | np.uint64(1)
    a = (odd.astype(dtype) * dtype.type(2.0 ** (1 - bits))).astype(dtype)
    b = np.full(COUNT, 1 + 2.0 ** -(bits // 2), dtype)
    small = np.float64(2.0) ** rng.integers(-100, -20, COUNT) * rng.choice([-1.0, 1.0], COUNT)
    check(f"fma.rn.{name}", name, [a, b, small.astype(dtype)], exact("fma", name, "rn"))
    half = np.ldexp(1.0, rng.integers(-30, 1, COUNT)).astype(dtype) * dtype.type(1.5)
    check(f"fma.rn.{name}", name, [half, (1 + half).astype(dtype), small.astype(dtype)], exact("fma", name, "rn"))
    edge = {"f32": -149, "f64": -1074}[name]
    low = np.ldexp(rng.integers(1, 1 << 20, COUNT).astype(np.float64), edge + rng.integers(0, 30, COUNT)).astype(dtype)
    check(f"fma.rn.{name}", name, [low, half, low[::-1].copy()], exact("fma", name, "rn"))
    check(f"fma.rz.{name}", name, [low, half, -low[::-1].copy()], exact("fma", name, "rz"))


@pytest.mark.parametrize("type_", ["f16", "bf16"])
def test_halves(type_: str) -> None:
    a, b, c = inputs_of(type_, 3, 3)
    check(f"add.rn.{type_}", type_, [a, b], exact("add", type_, "rn"))
    check(f"sub.rn.{type_}", type_, [a, b], lambda x, y: exact("add", type_, "rn")(x, -y))
    check(f"mul.rn.{type_}", type_, [a, b], exact("mul", type_, "rn"))
    check(f"fma.rn.{type_}", type_, [a, b, c], exact("fma", type_, "rn"))


@pytest.mark.parametrize("type_", ["f16", "bf16"])
def test_pairs_are_two_halves(type_: str) -> None:
    a, b, c = (one.view(np.uint16) for one in inputs_of(type_, 3, 4))
    for instruction, inputs in (
        ("add", [a, b]),
        ("mul", [a, b]),
        ("fma.rn", [a, b, c]),
        ("min", [a, b]),
        ("max.NaN", [a, b]),
        ("neg", [a]),
        ("abs", [a]),
    ):
        names = ", ".join(f"%{n}" for n in "abc"[: len(inputs)])
        single = each(f"{instruction}.{type_} %d, {names};", [("b16", one) for one in inputs], "b16")
        pairs = [("b32", one.view(np.uint32)) for one in inputs]
        assert (each(f"{instruction}.{type_}x2 %d, {names};", pairs, "b32").view(np.uint16) == single).all()


@pytest.mark.parametrize("type_", ["f32", "f64", "f16"])
def test_extremes_signs_and_comparisons(type_: str) -> None:
    a, b = inputs_of(type_, 2, 6)
    b = np.where(np.arange(COUNT) % 3 == 0, a, b)
    b = np.where(np.arange(COUNT) % 7 == 0, -a, b)

    def least(x: float, y: float) -> float:
        if isnan(x) or isnan(y):
            return y if isnan(x) else x
        return -0.0 if x == y == 0 and -1 in (copysign(1, x), copysign(1, y)) else min(x, y)

    check(f"min.{type_}", type_, [a, b], least)
    check(f"max.{type_}", type_, [a, b], lambda x, y: -least(-x, -y))
    if type_ != "f64":
        check(f"min.NaN.{type_}", type_, [a, b], lambda x, y: nan if isnan(x) or isnan(y) else least(x, y))
    check(f"neg.{type_}", type_, [a], lambda x: -x)
    check(f"abs.{type_}", type_, [a], abs)
    if type_ != "f16":
        check(f"copysign.{type_}", type_, [a, b], lambda x, y: nan if isnan(y) else copysign(y, x))
        bits = each(f"testp.subnormal.{type_} %d, %a;", [(type_, a)], "pred")
        assert (bits == ((a != 0) & (np.abs(a) < np.finfo(a.dtype).tiny))).all()
        assert (each(f"testp.notanumber.{type_} %d, %a;", [(type_, a)], "pred") == np.isnan(a)).all()
    unordered = np.isnan(a) | np.isnan(b)
    pairs = {"eq": a == b, "ne": (a != b) & ~unordered, "lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b}
    pairs |= {f"{name}u": holds | unordered for name, holds in pairs.items()}
    pairs |= {"num": ~unordered, "nan": unordered}
    for name, want in pairs.items():
        assert (each(f"setp.{name}.{type_} %d, %a, %b;", [(type_, a), (type_, b)], "pred") == want).all(), name


def test_subnormals_and_saturation() -> None:
    (a, b) = inputs_of("f32", 2, 8)
    a = np.where(np.arange(COUNT) % 2 == 0, (a.view(np.uint32) & 0x80FFFFFF).view(np.float32), a)

    def ftz(x: float) -> float:
        return copysign(0.0, x) if abs(x) < 2.0**-126 else x

    def sat(x: float) -> float:
        return min(x, 1.0) if x > 0 else 0.0

    check("mul.rn.ftz.f32", "f32", [a, b], lambda x, y: ftz(exact("mul", "f32", "rn")(ftz(x), ftz(y))))
    check("add.ftz.sat.f32", "f32", [a, b], lambda x, y: sat(ftz(exact("add", "f32", "rn")(ftz(x), ftz(y)))))
    check("fma.rn.sat.f32", "f32", [a, b, a], lambda x, y, z: sat(exact("fma", "f32", "rn")(x, y, z)))


def test_subnormals_of_bf16_and_selectors() -> None:
    """ex2.ftz gives a zero for a result below 2^-126, and slct.ftz takes a subnormal selector for a zero."""
    exponents = np.array([-125, -126, -127, -133, 1], np.float32)
    given = [("b16", (exponents.view(np.uint32) >> 16).astype(np.uint16))]
    results = of_bits(each("ex2.approx.ftz.bf16 %d, %a;", given, "b16"), "bf16")
    assert results.tolist() == [2.0**-125, 2.0**-126, 0, 0, 2]
    selectors = np.array([-1e-40, -0.0, -1, 1e-40, nan], np.float32)
    for modifier, chosen in (("", [2, 1, 2, 1, 2]), (".ftz", [1, 1, 2, 1, 2])):
        assert each(f"slct{modifier}.b32.f32 %d, 1, 2, %a;", [("f32", selectors)], "b32").tolist() == chosen


def test_approximate_functions() -> None:
    """Within the tolerances of the PTX ISA."""
    rng = np.random.default_rng(9)
    x = (rng.normal(size=400) * 3).astype(np.float32)
    size = np.abs(x) + np.float32(1e-6)
    absolute = {"sin": mpmath.sin, "cos": mpmath.cos}
    relative = {
        "ex2": (x, lambda v: mpmath.mpf(2) ** v, -22),
        "lg2": (size, lambda v: mpmath.log(v, 2), -22),
        "rsqrt": (size, lambda v: 1 / mpmath.sqrt(v), -22.9),
        "sqrt": (size, mpmath.sqrt, -22),
        "rcp": (size, lambda v: 1 / v, -23),
        "tanh": (x, mpmath.tanh, -10.9),
    }
    for name, (given, function, bits) in {**{k: (x, f, 0) for k, f in absolute.items()}, **relative}.items():
        got = each(f"{name}.approx.f32 %d, %a;", [("f32", given)], "f32").view(np.float32)
        for value, result in zip(given, got, strict=True):
            want = function(mpmath.mpf(float(value)))
            tolerance = 2.0**bits * abs(want) if bits else 2.0**-20.9
            assert abs(result - want) <= tolerance + 2.0**-149, name
    special = np.array([0, -0.0, inf, -inf, nan, -1], np.float32)
    sine = float(np.float32(np.sin(-1.0)))
    for instruction, want in {
        "rsqrt.approx.f32": [inf, -inf, 0.0, nan, nan, nan], "lg2.approx.f32": [-inf, -inf, inf, nan, nan, nan],
        "ex2.approx.f32": [1, 1, inf, 0, nan, 0.5], "sin.approx.f32": [0, -0.0, nan, nan, nan, sine],
    }.items():  # fmt: skip
        got = each(f"{instruction} %d, %a;", [("f32", special)], "f32").view(np.float32)
        assert all(same(float(g), w) for g, w in zip(got, want, strict=True)), (instruction, got)


def test_comparisons_of_pairs() -> None:
    a, b = inputs_of("f16", 2, 11)
    b = np.where(np.arange(COUNT) % 3 == 0, a, b)
    pairs = [("b32", a.view("u4")), ("b32", b.view("u4"))]
    unordered = np.isnan(a) | np.isnan(b)
    for name, want in {"lt": a < b, "geu": (a >= b) | unordered, "num": ~unordered}.items():
        got = each(f"set.{name}.f16x2.f16x2 %d, %a, %b;", pairs, "b32").view("f2")
        assert (got == want).all()
        low = each(f"setp.{name}.f16x2 %d|%p0, %a, %b;", pairs, "pred")
        high = each(f"setp.{name}.f16x2 %p0|%d, %a, %b;", pairs, "pred")
        assert (low == want[::2]).all() and (high == want[1::2]).all()
