"""f64 functions in plain arithmetic: GLSL.std.450 has none of them.

The formulas are those of the device library's double functions without branches: both ways are computed and one is
taken. Products are made exact by splitting, since `Fma` may be fused or not.
"""

from __future__ import annotations

from collections.abc import Callable

from pydispatch.compiler.emit.spirv.math.f64_angles import acos, asin, atan, atan2, cos, sin, tan
from pydispatch.compiler.emit.spirv.math.f64_parts import (
    LN2_FULL,
    LOG2E,
    SHIFT,
    SHIFT_BITS,
    Double,
    Pair,
    any_of,
    both,
    exp_finish,
    exp_parts,
    expm1_reduced,
    fast_sum,
    log_pair,
    root_pair,
    scaled,
    shifted_integer,
    two_sum,
    whole_of,
)
from pydispatch.compiler.emit.spirv.module import Id

LN2_1, LN2_2 = float.fromhex("0x1.62e42fee00000p-1"), float.fromhex("0x1.a39ef35793c76p-33")
LOG10E = float.fromhex("0x1.bcb7b1526e50ep-2"), float.fromhex("0x1.95355baaafad3p-57")
LOG10_2 = float.fromhex("0x1.3441350800000p-2"), float.fromhex("0x1.f79fef311f12bp-34")
CBRT = float.fromhex("0x1.428a2f98d728bp+0"), float.fromhex("0x1.965fea53d6e3dp+0")
INFINITY, NAN = float("inf"), float("nan")
LARGEST_EXP = float.fromhex("0x1.62e42fefa39efp+9")


def exp(x: Double) -> Double:
    return exp_finish(exp_parts(x.clamp(-800.0, 800.0), x.new(0.0)), x, LARGEST_EXP, -746.0)


def exp2(x: Double) -> Double:
    t = x.clamp(-1100.0, 1100.0)
    shifted = t + SHIFT
    f = t - (shifted - SHIFT)
    high, low = f.product(f.new(LN2_FULL[0]))
    m = expm1_reduced(high, low + f * LN2_FULL[1])
    return exp_finish((m, shifted_integer(shifted)), x, float.fromhex("0x1.fffffffffffffp+9"), -1075.0)


def expm1(x: Double) -> Double:
    """2^k m + (2^k - 1); k may be 1024, hence the half."""
    m, k = exp_parts(x.clamp(-100.0, 800.0), x.new(0.0))
    half = x.from_bits(x.word("ShiftLeftLogical", x.word("IAdd", k, 1022), 52))
    high, low = two_sum(half, half.new(-0.5))
    y = (high + (half * m + low)) * 2.0
    y = x.new(INFINITY).pick(x.test("GreaterThan", LARGEST_EXP), y)
    y = x.new(-1.0).pick(x.test("LessThan", -60.0), y)
    return x.pick(x.size().test("LessThan", 2.0**-54), y)


Log = tuple[Double, Double, Double, Double]
"""k, f, half and tail of log x = k log 2 + (f - (half - tail))."""


def _log_of(k: Double, f: Double) -> Log:
    s = f / (2.0 + f)
    z, half = s * s, 0.5 * f * f
    return k, f, half, s * (half + z * z.poly("log"))


def _exponent(x: Double, offset: Id) -> Double:
    """The upper bits of a word as a number."""
    high = x.word("ShiftRightArithmetic", offset, 52)
    return x.from_bits(x.word("IAdd", high, SHIFT_BITS)) - SHIFT


def _log_parts(x: Double) -> Log:
    """Of a positive finite x."""
    small = x.test("LessThan", 2.0**-1022)
    bits = (x * 2.0**54).pick(small, x).bits()
    offset = x.word("ISub", bits, 0x3FE6A09E667F3BCD)
    mantissa = x.from_bits(x.word("ISub", bits, x.word("BitwiseAnd", offset, 0xFFF0000000000000)))
    return _log_of(_exponent(x, offset) - x.new(54.0).pick(small, 0.0), mantissa - 1.0)


def _log_sum(parts: Log) -> Double:
    k, f, half, tail = parts
    return k * LN2_1 - ((half - (tail + k * LN2_2)) - f)


def _log_special(x: Double, y: Double) -> Double:
    y = x.pick(x.test("Equal", INFINITY), y)
    y = x.new(-INFINITY).pick(x.test("Equal", 0.0), y)
    y = x.new(NAN).pick(x.test("LessThan", 0.0), y)
    return x.pick(x.is_nan(), y)


def _log_times(parts: Log, factor: tuple[float, float], whole: tuple[float, float]) -> Double:
    """In another base. factor: of the part below 2; whole: the logarithm of 2."""
    k, f, half, tail = parts
    high = f - half
    low = (f - high) - half + tail
    product, lost = high.product(high.new(factor[0]))
    rest = lost + (low * factor[0] + high * factor[1]) + k * whole[1]
    top, left = two_sum(k * whole[0], product)
    return top + (left + rest)


def log(x: Double) -> Double:
    return _log_special(x, _log_sum(_log_parts(x)))


def log2(x: Double) -> Double:
    return _log_special(x, _log_times(_log_parts(x), LOG2E, (1.0, 0.0)))


def log10(x: Double) -> Double:
    return _log_special(x, _log_times(_log_parts(x), LOG10E, LOG10_2))


def log1p(x: Double) -> Double:
    """f = x 2^-k + (2^-k - 1); where x is large the 1 does not matter."""
    bits = (1.0 + x).bits()
    offset = x.word("ISub", bits, 0x3FE6A09E667F3BCD)
    exponent = x.word("BitwiseAnd", offset, 0xFFF0000000000000)
    k = _exponent(x, offset)
    far = k.test("GreaterThan", 100.0)
    back = x.new(1.0).pick(far, x.from_bits(x.word("ISub", 0x3FF0000000000000, exponent)))
    product, one = x * back, back - 1.0
    near = product + one
    lost = (product - (near - one)) + (one - (near - (near - one)))
    f = (x.from_bits(x.word("ISub", bits, exponent)) - 1.0).pick(far, near)
    k, f, half, tail = _log_of(k, f)
    tail = tail + x.new(0.0).pick(far, lost / (1.0 + f))
    y = _log_sum((k, f, half, tail))
    y = x.pick(x.test("Equal", INFINITY), y)
    y = x.new(-INFINITY).pick(x.test("Equal", -1.0), y)
    y = x.new(NAN).pick(x.test("LessThan", -1.0), y)
    y = x.pick(x.test("Equal", 0.0), y)
    return x.pick(x.is_nan(), y)


def _half_exp(size: Double) -> Double:
    """e^x / 2 up to 712, where e^x itself overflows."""
    m, k = exp_parts(size, size.new(0.0))
    return scaled(1.0 + m, size.word("ISub", k, 1))


def sinh(x: Double) -> Double:
    size = x.size().clamp(0.0, 712.0)
    z = size * size
    near = size.fma(z * z.poly("sinh"), size)
    half = _half_exp(size)
    return near.pick(size.test("LessThan", 1.0), half - 0.25 / half).with_sign_of(x)


def cosh(x: Double) -> Double:
    half = _half_exp(x.size().clamp(0.0, 712.0))
    return half + 0.25 / half


def tanh(x: Double) -> Double:
    size = x.size().clamp(0.0, 22.0)
    z = size * size
    near = size.fma(z * z.poly("tanh"), size)
    m, k = exp_parts(2.0 * size, size.new(0.0))
    far = 1.0 - 2.0 / (scaled(1.0 + m, k) + 1.0)
    return near.pick(size.test("LessThan", 0.55), far).with_sign_of(x)


def _erf_near(size: Double) -> Double:
    """What erf x is more than x, below 7/8."""
    z = size * size
    return size * (z.poly("erf"))


def erf(x: Double) -> Double:
    size = x.size().clamp(0.0, 6.0)
    z = size * size
    near = size.fma(z.poly("erf"), size)
    u = (size - 4.0) / (size + 4.0)
    m, k = exp_parts(-z, size.new(0.0))
    far = 1.0 - scaled(1.0 + m, k) * u.poly("erfcx") / (1.0 + 2.0 * size)
    return near.pick(size.test("LessThan", 0.875), far).with_sign_of(x)


def erfc(x: Double) -> Double:
    """exp(-x^2) G(x), G one polynomial up to 6 and another beyond; below 7/8 from erf."""
    size = x.size().clamp(0.0, 28.0)
    u = (size - 4.0) / (size + 4.0)
    middle = u.poly("erfcx") / (1.0 + 2.0 * size)
    outer = size.test("GreaterThan", 6.0)
    t = 1.0 / size.pick(outer, 6.0)
    g = ((t * t).poly("erfc far") * t).pick(outer, middle)
    square, lost = size.product(size)
    m, k = exp_parts(-square, -lost)
    y = scaled(g + g * m, k)
    y = (2.0 - y).pick(x.test("LessThan", 0.0), y)
    near = (1.0 - x) - _erf_near(x)
    y = near.pick(size.test("LessThan", 0.875), y)
    return x.pick(x.is_nan(), y)


def asinh(x: Double) -> Double:
    size = x.size()
    large, small = size.test("GreaterThan", 2.0**60), size.test("LessThan", 2.0**-28)
    inner = size.new(1.0).pick(any_of(x.f, large, small), size)
    square, lost = inner.product(inner)
    high, low = two_sum(size.new(1.0), square)
    root, rest = root_pair(high, low + lost)
    top, less = two_sum(root, inner)
    near = _log_of_pair(fast_sum(top, less + rest))
    y = _log_far(size.pick(large, 1.0)).pick(large, near).with_sign_of(x)
    return y.pick(both(x.f, size.test("GreaterThanEqual", 2.0**-28), size.test("LessThan", INFINITY)), x)


def acosh(x: Double) -> Double:
    large = x.test("GreaterThan", 2.0**60)
    plain = both(x.f, x.test("GreaterThan", 1.0), x.test("LessThanEqual", 2.0**60))
    inner = x.pick(plain, 2.0)
    square, lost = inner.product(inner)
    high, low = two_sum(square, square.new(-1.0))
    root, rest = root_pair(*two_sum(high, low + lost))
    top, less = two_sum(inner, root)
    y = _log_of_pair(fast_sum(top, less + rest))
    finite = both(x.f, large, x.test("LessThan", INFINITY))
    y = _log_far(x.pick(finite, 1.0)).pick(large, y)
    y = x.pick(x.test("Equal", INFINITY), y)
    y = x.new(0.0).pick(x.test("Equal", 1.0), y)
    return y.pick(x.test("GreaterThanEqual", 1.0), NAN)


def _log_of_pair(pair: Pair) -> Double:
    high, low = pair
    y, rest = log_pair(high)
    return y + (rest + low / high)


def _log_far(x: Double) -> Double:
    """log 2x."""
    y, rest = log_pair(x)
    return y + (rest + LN2_FULL[0])


def atanh(x: Double) -> Double:
    size = x.size()
    inner = size.pick(size.test("LessThan", 1.0), 0.5)
    top, bottom = two_sum(size.new(1.0), inner), two_sum(size.new(1.0), -inner)
    q = top[0] / bottom[0]
    product, lost = q.product(bottom[0])
    low = ((top[0] - product) - lost + top[1] - q * bottom[1]) / bottom[0]
    y = (0.5 * _log_of_pair((q, low))).with_sign_of(x)
    y = x.new(INFINITY).with_sign_of(x).pick(size.test("Equal", 1.0), y)
    y = x.pick(size.test("LessThan", 2.0**-28), y)
    return y.pick(size.test("LessThanEqual", 1.0), NAN)


def cbrt(x: Double) -> Double:
    """A polynomial on [1, 2), then two steps by Halley's rule; the second on 26 bits, so that its square is exact."""
    size = x.size()
    small = size.test("LessThan", 2.0**-1022)
    bits = (size * 2.0**54).pick(small, size).bits()
    fraction = x.word("BitwiseOr", x.word("BitwiseAnd", bits, 0x000FFFFFFFFFFFFF), 0x3FF0000000000000)
    z = x.from_bits(fraction)
    biased = x.word("ISub", x.word("ShiftRightLogical", bits, 52), 1023)
    biased = x.f.code.let("Select", x.f.m.int(64), small, x.word("ISub", biased, 54), biased)
    up = x.word("IAdd", biased, 1200)
    third = x.word("UDiv", up, 3)
    rest = x.word("ISub", up, x.word("IMul", third, 3))
    one, two = (x.f.code.let("IEqual", x.f.m.bool(), rest, x.f.m.integer(n, 64)) for n in (1, 2))
    y = z.poly("cbrt") * x.new(CBRT[1]).pick(two, x.new(CBRT[0]).pick(one, 1.0))
    z = z * x.new(4.0).pick(two, x.new(2.0).pick(one, 1.0))
    cube = y * y * y
    y = y - y * (cube - z) / (2.0 * cube + z)
    y = x.from_bits(x.word("BitwiseAnd", x.word("IAdd", y.bits(), 0x4000000), 0xFFFFFFFFF8000000))
    quotient = z / (y * y)
    y = y + y * ((quotient - y) / (2.0 * y + quotient))
    scale = x.word("ShiftLeftLogical", x.word("IAdd", third, 1023 - 400), 52)
    y = (y * x.from_bits(scale)).with_sign_of(x)
    plain = both(x.f, size.test("GreaterThan", 0.0), size.test("LessThan", INFINITY))
    return y.pick(plain, x)


def power(x: Double, y: Double) -> Double:
    """x^y. Special cases as in C."""
    let, m, f = x.f.code.let, x.f.m, x.f
    size, reach = x.size(), y.size()
    plain = both(f, size.test("GreaterThan", 0.0), size.test("LessThan", INFINITY))
    high, low = log_pair(size.pick(plain, 1.0))
    estimate = y * high
    calm = estimate.size().test("LessThan", 800.0)
    by = y.pick(both(f, calm, reach.test("LessThan", 2.0**70)), 0.0)
    product, lost = by.product(high)
    e, k = exp_parts(product, lost + by * low)
    value = scaled(1.0 + e, k)
    value = size.new(INFINITY).pick(estimate.test("GreaterThan", 720.0), value)
    value = size.new(0.0).pick(estimate.test("LessThan", -760.0), value)
    up = y.test("GreaterThan", 0.0)
    value = size.new(0.0).pick(up, INFINITY).pick(size.test("Equal", 0.0), value)
    value = size.new(INFINITY).pick(up, 0.0).pick(size.test("Equal", INFINITY), value)
    infinite = reach.test("Equal", INFINITY)
    larger = let("LogicalEqual", m.bool(), size.test("GreaterThan", 1.0), up)
    value = size.new(INFINITY).pick(larger, 0.0).pick(infinite, value)
    value = size.new(1.0).pick(both(f, size.test("Equal", 1.0), infinite), value)
    integer = let("FOrdEqual", m.bool(), whole_of(reach).id, reach.id)
    half = 0.5 * reach
    odd = both(f, integer, let("FOrdNotEqual", m.bool(), whole_of(half).id, half.id))
    odd = both(f, odd, reach.test("LessThan", 2.0**53))
    negative = let("SLessThan", m.bool(), x.bits(), m.integer(0, 64))
    value = (-value).pick(both(f, negative, odd), value)
    proper = both(f, x.test("LessThan", 0.0), size.test("LessThan", INFINITY))
    value = size.new(NAN).pick(both(f, proper, let("LogicalNot", m.bool(), integer)), value)
    value = size.new(NAN).pick(any_of(f, x.is_nan(), y.is_nan()), value)
    return size.new(1.0).pick(any_of(f, x.test("Equal", 1.0), y.test("Equal", 0.0)), value)


FUNCTIONS: dict[str, Callable[..., Double]] = {
    "exp": exp, "exp2": exp2, "expm1": expm1, "log": log, "log2": log2, "log10": log10, "log1p": log1p, "sinh": sinh,
    "cosh": cosh, "tanh": tanh, "erf": erf, "erfc": erfc, "sin": sin, "cos": cos, "tan": tan, "asin": asin,
    "acos": acos, "atan": atan, "atan2": atan2, "asinh": asinh, "acosh": acosh, "atanh": atanh, "cbrt": cbrt,
    "powf": power,
}  # fmt: skip
