"""pow, cbrt and erfc of f32: functions whose intermediate results need more digits than one f32 has."""

from __future__ import annotations

from collections.abc import Callable

from pydispatch.compiler.emit.spirv.math.f32 import INFINITY, LN2_1, LN2_2, NAN, exp, scaled
from pydispatch.compiler.emit.spirv.math.f32 import _exp_parts as exp_parts
from pydispatch.compiler.emit.spirv.math.f32 import _log_parts as log_parts
from pydispatch.compiler.emit.spirv.math.number import Single, from_bits, word

ERFC = (
    float.fromhex("0x1.c0b847109ed5ep-18"), float.fromhex("-0x1.abbac00d808e6p-16"),
    float.fromhex("-0x1.a11f5eed05f3bp-13"), float.fromhex("0x1.49c59f8ecfa18p-8"),
    float.fromhex("0x1.3079ef3636e95p-5"), float.fromhex("0x1.7fee0052a4cc8p-4"),
    float.fromhex("0x1.16ecefcf1fd59p-4"), float.fromhex("-0x1.1df1ad15492c1p-3"),
)  # fmt: skip
"""Even part, highest power first, of the polynomial of erfc in (x - 4)/(x + 4)."""


ERFC_ODD = (
    float.fromhex("0x1.18df032bd1988p-19"), float.fromhex("-0x1.94221e2acee2ap-17"),
    float.fromhex("0x1.3bae759b4b1ebp-13"), float.fromhex("-0x1.8d3aa6fbda0aap-11"),
    float.fromhex("-0x1.09625515cf4d8p-6"), float.fromhex("-0x1.0fb06d4f6a72ep-4"),
    float.fromhex("-0x1.9ddb23cb23c53p-4"), float.fromhex("0x1.f7f5df67cd6acp-7"),
    float.fromhex("0x1.3ba5916e9fd72p+0"),
)  # fmt: skip
"""And the odd part."""


def _log_pair(x: Single) -> tuple[Single, Single]:
    """log x of a positive finite x as a sum of two f32."""
    k, f, _ = log_parts(x)
    square, lost = f.product(f)
    half = 0.5 * square
    high = f - half
    low = ((f - high) - half) - 0.5 * lost
    low = low + (f * square) * f.poly("log")
    whole = k * LN2_1  # exact
    total = whole + high
    rest = ((whole - total) + high) + low
    swapped = ((high - total) + whole) + low
    rest = swapped.pick(k.test("Equal", 0.0), rest)
    rest = k.fma(LN2_2, rest)
    top = total + rest
    return top, (total - top) + rest


def power(x: Single, y: Single) -> Single:
    """x^y. Special cases as in C."""
    let, m = x.f.code.let, x.f.m
    size = x.size()
    high, low = _log_pair(size)
    product, lost = high.product(y)
    lost = lost + low * y
    bounded = product.clamp(-150.0, 128.0)
    lost = lost.pick(product.test("Equal", bounded), 0.0)
    e, k = exp_parts(bounded)
    value = scaled((1.0 + e) + (1.0 + e) * lost, k)
    value = size.new(0.0).pick(product.test("LessThan", -104.0), value)
    value = size.new(INFINITY).pick(product.test("GreaterThan", 89.0), value)
    # 0, infinity and 1 as bases.
    up = y.test("GreaterThan", 0.0)
    value = size.new(0.0).pick(up, INFINITY).pick(size.test("Equal", 0.0), value)
    value = size.new(INFINITY).pick(up, 0.0).pick(size.test("Equal", INFINITY), value)
    # y infinite: by whether the base is larger than 1.
    infinite = y.size().test("Equal", INFINITY)
    larger = let("LogicalEqual", m.bool(), size.test("GreaterThan", 1.0), up)
    value = size.new(INFINITY).pick(larger, 0.0).pick(infinite, value)
    value = size.new(1.0).pick(let("LogicalAnd", m.bool(), size.test("Equal", 1.0), infinite), value)
    # y is an integer, and odd, when halving shows so; an f32 of 2^24 and more is even.
    whole = y.size()
    integer = let("FOrdEqual", m.bool(), whole.glsl("Trunc").id, whole.id)
    half = 0.5 * whole
    odd = let("LogicalAnd", m.bool(), integer, let("FOrdNotEqual", m.bool(), half.glsl("Trunc").id, half.id))
    odd = let("LogicalAnd", m.bool(), odd, whole.test("LessThan", 16777216.0))
    negative = let("SLessThan", m.bool(), x.bits(), m.integer(0))
    value = (-value).pick(let("LogicalAnd", m.bool(), negative, odd), value)
    proper = let("LogicalAnd", m.bool(), x.test("LessThan", 0.0), size.test("LessThan", INFINITY))
    broken = let("LogicalAnd", m.bool(), proper, let("LogicalNot", m.bool(), integer))
    value = size.new(NAN).pick(broken, value)
    nan = let("LogicalOr", m.bool(), x.is_nan(), y.is_nan())
    value = size.new(NAN).pick(nan, value)
    trivial = let("LogicalOr", m.bool(), x.test("Equal", 1.0), y.test("Equal", 0.0))
    return size.new(1.0).pick(trivial, value)


def cube_root(x: Single) -> Single:
    """From the exponent over three by two steps of Halley's method and one that makes good what they rounded."""
    f = x.f
    size = x.size()
    small = size.test("LessThan", 2.0**-100)
    t = (size * 2.0**60).pick(small, size)
    guess = word(f, "IAdd", f.code.let("UDiv", f.m.int(32), t.bits(), f.m.integer(3)), 0x2A514067)
    y = from_bits(f, guess)
    for _ in range(2):
        cube = y * y * y
        y = y * ((cube + 2.0 * t) / (2.0 * cube + t))
    square, lost = y.product(y)
    cube, left = square.product(y)
    rest = ((cube - t) + left) + lost * y
    y = y - rest / (3.0 * square)
    y = (y * 2.0**-20).pick(small, y)
    plain = f.code.let("LogicalAnd", f.m.bool(), size.test("GreaterThan", 0.0), size.test("LessThan", INFINITY))
    return y.pick(plain, size).with_sign_of(x)


def erfc(x: Single) -> Single:
    """exp(-x^2) G(u) / (1 + 2x), u = (x - 4)/(x + 4); beyond 12 nothing is left."""
    size = x.size().clamp(0.0, 12.0)
    u = (size - 4.0) / (size + 4.0)
    square = u * u
    even, odd = square.new(ERFC[0]), square.new(ERFC_ODD[0])
    for coefficient in ERFC[1:]:
        even = even.fma(square, coefficient)
    for coefficient in ERFC_ODD[1:]:
        odd = odd.fma(square, coefficient)
    g = even.fma(u, odd)
    z, lost = size.product(size)
    e = exp(-z)
    y = (e - e * lost) * g / (1.0 + 2.0 * size)
    y = (2.0 - y).pick(x.test("LessThan", 0.0), y)
    return x.pick(x.is_nan(), y)


FUNCTIONS: dict[str, Callable[..., Single]] = {"powf": power, "cbrt": cube_root, "erfc": erfc}
