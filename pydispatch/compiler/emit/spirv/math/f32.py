"""f32 functions in plain arithmetic: what GLSL.std.450 has is too coarse (`Exp` may be off by 3 + 2|x| units in
the last place, `Sin` has an absolute error only), or differs from driver to driver.

The formulas are those of the device library's float kernels, less what needs fused operations: `Fma` may be fused or
not. Everything is free of branches.
"""

from __future__ import annotations

from collections.abc import Callable

from pydispatch.compiler.emit.spirv.function import FunctionEmitter
from pydispatch.compiler.emit.spirv.math.number import Single, from_bits, word
from pydispatch.compiler.emit.spirv.module import Id

SHIFT = 12582912.0  # 1.5 * 2^23: adding it rounds to an integer, which is then in the low bits
LN2_HIGH = float.fromhex("0x1.62e430p-1")
LN2_1, LN2_2 = float.fromhex("0x1.62e4p-1"), float.fromhex("0x1.7f7d1cp-20")
LOG2E, LOG2E_LOW = float.fromhex("0x1.715476p+0"), float.fromhex("0x1.4ae0c0p-26")
LOG10E, LOG10E_LOW = float.fromhex("0x1.bcb7b2p-2"), float.fromhex("-0x1.5b235ep-27")
LOG10_2_1, LOG10_2_2 = float.fromhex("0x1.344p-2"), float.fromhex("0x1.3509f8p-18")
PIO2, PIO2_LOW = float.fromhex("0x1.921fb6p+0"), float.fromhex("-0x1.777a5cp-25")
PIO2_PARTS = tuple(
    map(
        float.fromhex,
        ("0x1.9200000000000p+0", "0x1.fb40000000000p-12", "0x1.4440000000000p-24", "0x1.68c2340000000p-39"),
    )
)
"""pi/2 in pieces of 11 bits and less: their products with whole numbers below 2^13 are exact."""
INFINITY, NAN = float("inf"), float("nan")


def power2(f: FunctionEmitter, k: Id) -> Single:
    """2^k of a whole number for which that is normal."""
    return from_bits(f, word(f, "ShiftLeftLogical", word(f, "IAdd", k, 127), 23))


def scaled(x: Single, k: Id) -> Single:
    """x 2^k for -252 < k < 254, rounded once."""
    first = word(x.f, "ShiftRightArithmetic", k, 1)
    return x * power2(x.f, first) * power2(x.f, word(x.f, "ISub", k, first))


def _expm1_reduced(r: Single) -> Single:
    return (r * r).fma(r.fma(r.poly("exp"), 0.5), r)


def _exp_parts(x: Single) -> tuple[Single, Id]:
    """e^r - 1 and k of x = k log 2 + r."""
    shifted = x * LOG2E + SHIFT
    k = shifted - SHIFT
    r = (x - k * LN2_1) - k * LN2_2
    return _expm1_reduced(r), word(x.f, "ISub", shifted.bits(), 0x4B400000)


def exp(x: Single) -> Single:
    m, k = _exp_parts(x.clamp(-104.0, 89.0))
    return scaled(1.0 + m, k)


def exp2(x: Single) -> Single:
    t = x.clamp(-151.0, 129.0)
    shifted = t + SHIFT
    m = _expm1_reduced((t - (shifted - SHIFT)) * LN2_HIGH)
    return scaled(1.0 + m, word(x.f, "ISub", shifted.bits(), 0x4B400000))


def _half_exp(x: Single) -> Single:
    """e^x / 2 for 0 <= x < 90, where e^x itself overflows."""
    m, k = _exp_parts(x)
    return scaled(1.0 + m, word(x.f, "ISub", k, 1))


def expm1(x: Single) -> Single:
    m, k = _exp_parts(x.clamp(-18.0, 89.0))
    half = power2(x.f, word(x.f, "ISub", k, 1))  # so that 2^128 does not overflow
    y = 2.0 * half.fma(m, half - 0.5)
    return x.pick(x.test("Equal", 0.0), y)


def _log_of(k: Single, mantissa_less_one: Single) -> tuple[Single, Single, Single]:
    """log x = k log 2 + f + tail."""
    f = mantissa_less_one
    return k, f, (f * f) * f.fma(f.poly("log"), -0.5)


def _log_parts(x: Single) -> tuple[Single, Single, Single]:
    """Of a positive finite x."""
    f = x.f
    small = x.test("LessThan", 2.0**-126)
    bits = (x * 8388608.0).pick(small, x).bits()
    exponent = word(f, "BitwiseAnd", word(f, "ISub", bits, 0x3F2AAAAB), 0xFF800000)
    whole = f.code.let("ConvertSToF", f.m.float(32), word(f, "ShiftRightArithmetic", exponent, 23))
    k = Single(f, whole) - x.new(23.0).pick(small, 0.0)
    return _log_of(k, from_bits(f, word(f, "ISub", bits, exponent)) - 1.0)


def _log_sum(parts: tuple[Single, Single, Single]) -> Single:
    k, f, tail = parts
    return k.fma(LN2_1, f + k.fma(LN2_2, tail))


def _log_special(x: Single, y: Single) -> Single:
    """The logarithm of any x given that of positive finite ones."""
    y = x.pick(x.test("Equal", INFINITY), y)
    y = x.new(-INFINITY).pick(x.test("Equal", 0.0), y)
    y = x.new(NAN).pick(x.test("LessThan", 0.0), y)
    return x.pick(x.is_nan(), y)


def log(x: Single) -> Single:
    return _log_special(x, _log_sum(_log_parts(x)))


def log2(x: Single) -> Single:
    k, f, tail = _log_parts(x)
    return _log_special(x, k + f.fma(LOG2E, f.fma(LOG2E_LOW, tail * LOG2E)))


def log10(x: Single) -> Single:
    k, f, tail = _log_parts(x)
    low = f.fma(LOG10E_LOW, tail.fma(LOG10E, k * LOG10_2_2))
    return _log_special(x, k.fma(LOG10_2_1, f.fma(LOG10E, low)))


def log1p(x: Single) -> Single:
    f = x.f
    bits = (1.0 + x).bits()
    exponent = word(f, "BitwiseAnd", word(f, "ISub", bits, 0x3F2AAAAB), 0xFF800000)
    k = word(f, "ShiftRightArithmetic", exponent, 23)
    far = f.code.let("SGreaterThan", f.m.bool(), k, f.m.integer(60))
    down = f.code.let("Select", f.m.int(32), far, f.m.integer(-60), word(f, "ISub", 0, k))
    back = power2(f, down)
    mantissa = (from_bits(f, word(f, "ISub", bits, exponent)) - 1.0).pick(far, x.fma(back, back - 1.0))
    y = _log_sum(_log_of(Single(f, f.code.let("ConvertSToF", f.m.float(32), k)), mantissa))
    y = x.pick(x.test("Equal", INFINITY), y)
    y = x.new(-INFINITY).pick(x.test("Equal", -1.0), y)
    y = x.new(NAN).pick(x.test("LessThan", -1.0), y)
    y = x.pick(x.test("Equal", 0.0), y)
    return x.pick(x.is_nan(), y)


def sinh(x: Single) -> Single:
    size = x.size()
    half = _half_exp(size.clamp(0.0, 90.0))
    z = x * x
    near = (size * z).fma(z.poly("sinh"), size)
    return near.pick(size.test("LessThan", 1.0), half - 0.25 / half).with_sign_of(x)


def cosh(x: Single) -> Single:
    half = _half_exp(x.size().clamp(0.0, 90.0))
    return half + 0.25 / half


def tanh(x: Single) -> Single:
    """Near zero an odd polynomial, then 1 - 2/(e^2x + 1), which is 1 from 9.1 on."""
    size, z = x.size(), x * x
    m, k = _exp_parts(2.0 * size.clamp(0.0, 10.0))
    power = power2(x.f, k)
    far = 1.0 - 2.0 / (power.fma(m, power) + 1.0)
    near = (size * z).fma(z.poly("tanh"), size)
    return near.pick(size.test("LessThan", 0.625), far).with_sign_of(x)


def erf(x: Single) -> Single:
    """Below 7/8 an odd polynomial; beyond, 1 - exp(-x^2) G(x) with G a polynomial up to 4, where erf rounds to 1."""
    size = x.size().clamp(0.0, 4.0)
    z = size * size
    near = size.fma(z.fma(z.poly("erf"), float.fromhex("0x1.06eba8p-3")), size)
    t = size - 2.4375
    far = (-exp(-z)).fma(t.poly("erfcx"), 1.0)
    return near.pick(size.test("LessThan", 0.875), far).with_sign_of(x)


def asin(x: Single) -> Single:
    size = x.size()
    outer = size.test("GreaterThan", 0.5)
    z = size.fma(-0.5, 0.5).pick(outer, size * size)
    s = z.glsl("Sqrt").pick(outer, size)
    tail = s * z * z.poly("asin")
    far = s.fma(-2.0, PIO2) - tail.fma(2.0, -PIO2_LOW)
    y = far.pick(outer, s + tail).with_sign_of(x)
    return x.new(NAN).pick(size.test("GreaterThan", 1.0), y)


def acos(x: Single) -> Single:
    size = x.size()
    outer = size.test("GreaterThan", 0.5)
    z = size.fma(-0.5, 0.5).pick(outer, size * size)
    s = z.glsl("Sqrt").pick(outer, size)
    tail = s * z * z.poly("asin")
    y = s + tail
    far = (y.fma(-2.0, 2.0 * PIO2_LOW) + 2.0 * PIO2).pick(x.test("LessThan", 0.0), 2.0 * y)
    signed_s, signed_tail = s.with_sign_of(x), tail.with_sign_of(x)
    high = PIO2 - signed_s
    low = (PIO2 - high) - signed_s
    inner = high + ((low + PIO2_LOW) - signed_tail)
    return x.new(NAN).pick(size.test("GreaterThan", 1.0), far.pick(outer, inner))


def _angle(y: Single, x: Single) -> Single:
    """The angle of (x, y) in [0, pi/2], both not negative and finite, not both 0."""
    steep = y.test("GreaterThan", x)
    t = x.pick(steep, y) / y.pick(steep, x)
    z = t * t
    angle = (t * z).fma(z.poly("atan"), t)
    return (PIO2 - (angle - PIO2_LOW)).pick(steep, angle)


def atan(x: Single) -> Single:
    size = x.size()
    far = size.test("GreaterThan", 2.0**60)
    y = x.new(PIO2).pick(far, _angle(size.clamp(0.0, 2.0**60), x.new(1.0)))
    return x.pick(x.is_nan(), y.with_sign_of(x))


def atan2(y: Single, x: Single) -> Single:
    a, b, f = y.size(), x.size(), y.f
    infinite = [v.test("Equal", INFINITY) for v in (a, b)]
    both = f.code.let("LogicalAnd", f.m.bool(), *infinite)
    zeros = f.code.let("LogicalAnd", f.m.bool(), a.test("Equal", 0.0), b.test("Equal", 0.0))
    a = a.new(1.0).pick(both, a)
    b = b.new(1.0).pick(f.code.let("LogicalOr", f.m.bool(), both, zeros), b)
    # Scaled so that a quotient of subnormal numbers keeps its digits.
    by = a.new(2.0**60).pick((a + b).test("LessThan", 2.0**-60), 1.0)
    angle = _angle(a * by, b * by)
    negative = f.code.let("SLessThan", f.m.bool(), x.bits(), f.m.integer(0))
    angle = ((2.0 * PIO2 - angle) + 2.0 * PIO2_LOW).pick(negative, angle)
    nan = f.code.let("LogicalOr", f.m.bool(), x.is_nan(), y.is_nan())
    return y.new(NAN).pick(nan, angle.with_sign_of(y))


def asinh(x: Single) -> Single:
    size = x.size()
    square = size * size
    t = size + square / (1.0 + (square + 1.0).glsl("Sqrt"))
    far = log(size) + 0.6931471805599453
    y = far.pick(size.test("GreaterThan", 2.0**30), log1p(t))
    return size.pick(size.is_nan(), y).with_sign_of(x)


def acosh(x: Single) -> Single:
    t = x - 1.0
    near = log1p(t + (t * (t + 2.0)).glsl("Sqrt"))
    y = (log(x) + 0.6931471805599453).pick(x.test("GreaterThan", 2.0**30), near)
    return x.new(NAN).pick(x.test("LessThan", 1.0), y)


def atanh(x: Single) -> Single:
    size = x.size()
    t = 2.0 * size / (1.0 - size)
    y = 0.5 * log1p(t.pick(size.test("LessThan", 1.0), 0.0))
    y = x.new(INFINITY).pick(size.test("Equal", 1.0), y)
    y = x.new(NAN).pick(size.test("GreaterThan", 1.0), y)
    return x.pick(x.is_nan(), y.with_sign_of(x))


Function = Callable[[Single], Single]

FUNCTIONS: dict[str, Function] = {
    "exp": exp, "exp2": exp2, "expm1": expm1, "log": log, "log2": log2, "log10": log10, "log1p": log1p, "sinh": sinh,
    "cosh": cosh, "tanh": tanh, "erf": erf, "asin": asin, "acos": acos,
    "atan": atan, "asinh": asinh, "acosh": acosh, "atanh": atanh,
}  # fmt: skip
"""Functions of one argument, less those of spirv_single_angles."""
