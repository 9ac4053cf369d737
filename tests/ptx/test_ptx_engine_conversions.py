"""cvt against rational numbers, and mov, cvta and isspacep."""

from __future__ import annotations

from fractions import Fraction
from math import ceil, copysign, floor, inf, isinf, isnan, nan, trunc
from typing import Any

import numpy as np
import pytest
from ptx_engine import each, floats, same, size_of, to_format
from test_ptx_engine_floats import inputs_of, of_bits
from test_ptx_engine_integer import values

pytestmark = pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")
COUNT = 600
INTEGERS = ("u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64")
FLOATS = ("f16", "bf16", "f32", "f64")


def bounds(type_: str) -> tuple[int, int]:
    bits = int(type_[1:])
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if type_[0] == "s" else (0, (1 << bits) - 1)


def moved(type_: str) -> str:
    """The type that carries a value's bits into a kernel."""
    return f"b{8 * size_of(type_)}"


@pytest.mark.parametrize("given", INTEGERS)
def test_between_integers(given: str) -> None:
    numbers = values(given, 3, COUNT)
    for to in INTEGERS:
        low, high = bounds(to)
        mask = (1 << int(to[1:])) - 1
        plain = each(f"cvt.{to}.{given} %d, %a;", [(moved(given), numbers)], moved(to))
        assert [int(v) for v in plain] == [int(v) & mask for v in numbers], to
        clamped = each(f"cvt.sat.{to}.{given} %d, %a;", [(moved(given), numbers)], moved(to))
        assert [int(v) for v in clamped] == [min(max(int(v), low), high) & mask for v in numbers], to


@pytest.mark.parametrize("to", ["u32", "s64"])
def test_narrow_values_fill_wide_registers(to: str) -> None:
    bits = int(to[1:])
    a = values("u32", 4, COUNT)
    for kind in "us":
        got = each(f"cvt.{kind}8.u32 %d, %a;", [("b32", a)], f"b{bits}")
        assert (
            got
            == a.astype("u1")
            .view(f"{'i' if kind == 's' else 'u'}1")
            .astype(f"{'i' if kind == 's' else 'u'}8")
            .astype(f"u{bits // 8}")
        ).all()


ROUND = {"rni": round, "rzi": trunc, "rmi": floor, "rpi": ceil}


@pytest.mark.parametrize("given", FLOATS)
@pytest.mark.parametrize("to", INTEGERS)
def test_floats_to_integers(given: str, to: str) -> None:
    if given == "bf16" and to != "s32":
        return  # ptxas has few of them; one is enough here.
    (raw,) = inputs_of(given, 1, 5)
    bits = int(to[1:])
    edges = np.array([0.5, 1.5, 2.5, -0.5, 2.0**31, 2.0**32, 2.0**63, 2.0**64, -(2.0**31), -(2.0**63), 127.5, 255.5])
    if given != "bf16":
        raw = np.concatenate((raw, edges.astype(raw.dtype)))
    numbers, (low, high) = of_bits(raw, given), bounds(to)
    wide = given == "f64" or bits == 64
    for mode, integral in ROUND.items():
        got = each(f"cvt.{mode}.{to}.{given} %d, %a;", [(moved(given), raw)], moved(to))
        for value, result in zip(numbers, got, strict=True):
            if isnan(value):
                want = 1 << bits - 1 if wide else 0
            elif isinf(value):
                want = high if value > 0 else low
            else:
                want = min(max(integral(Fraction(float(value))), low), high)
            assert int(result) == want & (1 << bits) - 1, (mode, value)


@pytest.mark.parametrize("to", FLOATS)
@pytest.mark.parametrize("given", INTEGERS)
def test_integers_to_floats(to: str, given: str) -> None:
    numbers = values(given, 6, COUNT)
    if int(given[1:]) == 64:  # Half-way cases, and just beside them.
        rng = np.random.default_rng(1)
        base = (1 << 62) | (rng.integers(0, 1 << 20, COUNT) << 42)
        near = base + rng.integers(-1, 2, COUNT) + (1 << rng.integers(8, 40, COUNT))
        numbers = np.concatenate((numbers, near.astype(numbers.dtype)))
    for mode in ("rn",) if to == "bf16" else ("rn", "rz", "rm", "rp"):
        got = of_bits(each(f"cvt.{mode}.{to}.{given} %d, %a;", [(moved(given), numbers)], moved(to)), to)
        for value, result in zip(numbers, got, strict=True):
            want = to_format(Fraction(int(value)), to, mode)
            assert same(float(result), want), (mode, int(value), float(result), want)


@pytest.mark.parametrize("given", FLOATS)
@pytest.mark.parametrize("to", FLOATS)
def test_between_floats(given: str, to: str) -> None:
    (raw,) = inputs_of(given, 1, 7)
    numbers = of_bits(raw, given)
    if given == to:
        for mode, integral in ROUND.items():
            got = of_bits(each(f"cvt.{mode}.{to}.{given} %d, %a;", [(moved(given), raw)], moved(to)), to)
            for value, result in zip(numbers, got, strict=True):
                value = float(value)
                want = value if isnan(value) or isinf(value) else copysign(float(integral(Fraction(value))), value)
                assert same(float(result), want), (mode, value)
        return
    for mode in ("rn", "rz") if "bf16" in (to, given) else ("rn", "rz", "rm", "rp"):
        got = of_bits(each(f"cvt.{mode}.{to}.{given} %d, %a;", [(moved(given), raw)], moved(to)), to)
        for value, result in zip(numbers, got, strict=True):
            value = float(value)
            want = value if isnan(value) or isinf(value) or value == 0 else to_format(Fraction(value), to, mode)
            assert same(float(result), want), (mode, value, float(result), want)


def test_pairs_of_halves() -> None:
    rng = np.random.default_rng(8)
    a, b = floats("f32", rng, COUNT), floats("f32", rng, COUNT)
    for kind in ("f16", "bf16"):
        for mode in ("rn", "rz"):
            pair = each(f"cvt.{mode}.{kind}x2.f32 %d, %a, %b;", [("f32", a), ("f32", b)], "b32")
            high = each(f"cvt.{mode}.{kind}.f32 %d, %a;", [("f32", a)], "b16")
            low = each(f"cvt.{mode}.{kind}.f32 %d, %a;", [("f32", b)], "b16")
            assert (pair == low.astype("u4") | high.astype("u4") << 16).all()
            relu = each(f"cvt.{mode}.relu.{kind}.f32 %d, %a;", [("f32", a)], "b16")
            assert (relu == np.where(np.signbit(a) & ~np.isnan(a), 0, high)).all()


def test_finite_halves() -> None:
    a = np.array([1e30, -inf, 65519, 65520, nan, -2], np.float32)
    got = each("cvt.rn.satfinite.f16.f32 %d, %a;", [("f32", a)], "b16").view(np.float16)
    np.testing.assert_array_equal(got, np.array([65504, -65504, 65504, 65504, nan, -2], np.float16))
    pairs = each("cvt.rn.satfinite.relu.bf16x2.f32 %d, %a, %a;", [("f32", a)], "b32")
    halves = each("cvt.rn.satfinite.relu.bf16.f32 %d, %a;", [("f32", a)], "b16")
    assert (pairs == halves * np.uint32(0x10001)).all() and halves[1] == 0


def test_tf32() -> None:
    a = floats("f32", np.random.default_rng(9), COUNT)
    got = each("cvt.rna.tf32.f32 %d, %a;", [("f32", a)], "b32").view(np.float32)
    for value, result in zip(a, got, strict=True):
        value = float(value)
        if isnan(value) or isinf(value):
            assert same(float(result), value)
        elif abs(value) >= 2.0**-126:
            unit = Fraction(2) ** (floor(np.log2(abs(value))) - 10)
            assert isinf(result) or abs(Fraction(float(result)) - Fraction(value)) * 2 <= unit
            assert int(np.float32(result).view(np.uint32)) & 0x1FFF == 0


@pytest.mark.parametrize("kind", ["e4m3", "e5m2"])
def test_floats_of_eight_bits(kind: str) -> None:
    """Against the formats' tables: the nearest value, ties to even, clamped."""
    from pydispatch.formats.arrays.small_floats import values as table

    known = table({"e4m3": "f8E4M3FN", "e5m2": "f8E5M2"}[kind])
    codes = np.arange(256)
    pairs = (codes | codes[::-1] << 8).astype(np.uint16)
    wide = each(f"cvt.rn.f16x2.{kind}x2 %d, %a;", [("b16", pairs)], "b32").view(np.float16).reshape(-1, 2)
    assert all(same(float(g), float(w)) for g, w in zip(wide[:, 0], known, strict=True))
    assert all(same(float(g), float(w)) for g, w in zip(wide[:, 1], known[::-1], strict=True))
    rng = np.random.default_rng(10)
    a = np.concatenate(
        (rng.normal(size=COUNT) * 2.0 ** rng.integers(-18, 18, COUNT), [0, -0.0, inf, -inf, np.nan, 1e9])
    ).astype("f4")
    middle = (known[:-1] + known[1:])[np.isfinite(known[:-1] + known[1:])] / 2
    a = np.concatenate((a, middle.astype("f4")))
    b = a[::-1].copy()
    got = each(f"cvt.rn.satfinite.{kind}x2.f32 %d, %a, %b;", [("f32", a), ("f32", b)], "b16")
    finite = np.flatnonzero(np.isfinite(known))

    def nearest(value: float) -> float:
        if isnan(value):
            return value
        top = float(np.max(known[finite]))
        value = min(max(value, -top), top)
        away = np.abs(known[finite] - value)
        best = finite[away == away.min()]
        return float(known[best[np.argmin(best & 1)]])

    for result, high, low in zip(got, a, b, strict=True):
        for code, value in ((int(result) >> 8, float(high)), (int(result) & 255, float(low))):
            want = nearest(value)
            assert (isnan(want) and isnan(known[code])) or known[code] == want, (value, code)
            assert isnan(want) or (code >> 7) == (copysign(1, value) < 0)
    halves = floats("f16", rng, 2 * COUNT)
    packed = each(f"cvt.rn.satfinite.{kind}x2.f16x2 %d, %a;", [("b32", halves.view(np.uint32))], "b16")
    single = halves.astype(np.float32)
    want_pairs = each(
        f"cvt.rn.satfinite.{kind}x2.f32 %d, %a, %b;", [("f32", single[1::2].copy()), ("f32", single[::2].copy())], "b16"
    )
    assert (packed == want_pairs).all()


def test_packing() -> None:
    a, b = values("s32", 1, COUNT), values("s32", 2, COUNT)
    clamp = lambda v: np.clip(v, -128, 127).astype("i1").view("u1").astype("u4")  # noqa: E731
    got = each("cvt.pack.sat.s8.s32.b32 %d, %a, %b, %c;", [("b32", a), ("b32", b), ("b32", a)], "b32")
    assert (got == clamp(b) | clamp(a) << 8 | a.view("u4") << 16).all()
    c = values("u64", 3, COUNT)
    assert (
        each("mov.b64 {%r0, %r1}, %a; mov.b64 %d, {%r1, %r0};", [("b64", c)], "b64")
        == (c << np.uint64(32) | c >> np.uint64(32))
    ).all()
    text = "{ .reg .b16 %x<4>; mov.b64 {%x0, %x1, %x2, %x3}, %a; mov.b64 %d, {%x3, %x2, %x1, %x0}; }"
    assert (each(text, [("b64", c)], "b64") == c.view("u2").reshape(-1, 4)[:, ::-1].copy().view("u8")[:, 0]).all()
    text = "{ .reg .b16 %x; mov.b32 {_, %x}, %a; cvt.u32.u16 %d, %x; }"
    assert (each(text, [("b32", a)], "b32") == a.view("u4") >> 16).all()


def test_windows() -> None:
    """Generic addresses know their space."""

    def asked(space: str, address: str) -> Any:
        declare = ".shared .align 4 .b32 s; .local .align 4 .b32 l;"
        text = f"{{ {declare} {address} isspacep.{space} %p0, %q1; selp.u32 %d, 1, 0, %p0; }}"
        return int(each(text, [("b32", np.zeros(1, "u4"))], "b32")[0])

    addresses = {
        "shared": "mov.u64 %q0, s; cvta.shared.u64 %q1, %q0;",
        "local": "mov.u64 %q0, l; cvta.local.u64 %q1, %q0;",
        "global": "ld.param.u64 %q1, [out];",
    }
    for space in addresses:
        for there, address in addresses.items():
            assert asked(space, address) == (space == there)
    text = "mov.u64 %q0, s; cvta.shared.u64 %q1, %q0; st.b32 [%q1+4], %a; ld.shared.b32 %d, [s+4];"
    text = f"{{ .shared .align 4 .b32 s[2]; {text} }}"
    assert each(text, [("b32", np.array([7], "u4"))], "b32")[0] == 7
