"""f64 sines, tangents and their inverses; see f64.py."""

from __future__ import annotations

from pydispatch.compiler.emit.spirv.math.f64_parts import (
    PIO2,
    SHIFT,
    Double,
    Pair,
    any_of,
    both,
    fast_sum,
    root_pair,
    table,
    two_sum,
)
from pydispatch.compiler.emit.spirv.math.f64_reduction import LARGE, Quadrant, large_quadrant
from pydispatch.compiler.emit.spirv.math.tables import ATAN
from pydispatch.compiler.emit.spirv.module import Id

PIO2_PARTS = tuple(
    map(
        float.fromhex,
        ("0x1.921fb54400000p+0", "0x1.0b4611a600000p-34", "0x1.3198a2e000000p-69", "0x1.b839a252049c1p-104"),
    )
)
"""pi/2 in pieces whose products with whole numbers below 2^20 are exact, but for the last."""
INFINITY, NAN = float("inf"), float("nan")


def _reduced(x: Double) -> Quadrant:
    """x - n pi/2 as a pair, and n."""
    f = x.f
    real, flag = f.m.float(64), x.size().test("GreaterThanEqual", LARGE)

    def parts(quadrant: Quadrant) -> list[Id]:
        (high, low), n = quadrant
        return [high.id, low.id, n]

    high, low, n = f.choose(
        flag, lambda: parts(large_quadrant(x)), lambda: parts(_small_quadrant(x)), [real, real, f.m.int(64)]
    )
    return (x.made(high), x.made(low)), n


def _small_quadrant(x: Double) -> Quadrant:
    """Of an x below LARGE."""
    shifted = x * (2.0 / 3.141592653589793) + SHIFT
    n = shifted - SHIFT
    first, second, third, fourth = PIO2_PARTS
    high, low = two_sum(x - n * first, -(n * second))
    high, more = two_sum(high, -(n * third))
    high, low = two_sum(high, (low + more) - n * fourth)
    return (high, low), x.word("BitwiseAnd", shifted.bits(), 3)


def _sin_kernel(r: Pair) -> Pair:
    high, low = r
    z = high * high
    return fast_sum(high, high * z * z.poly("sin") + low * (1.0 - 0.5 * z))


def _cos_kernel(r: Pair) -> Pair:
    high, low = r
    z, lost = high.product(high)
    top, rest = fast_sum(high.new(1.0), -0.5 * z)
    return fast_sum(top, rest - 0.5 * lost + (z * z * z.poly("cos") - high * low))


def _bit(x: Double, n: Id, bit: int) -> Id:
    return x.f.code.let("INotEqual", x.f.m.bool(), x.word("BitwiseAnd", n, bit), x.f.m.integer(0, 64))


def _turned(x: Double, r: Pair, n: Id) -> Double:
    """The sine of r + n pi/2."""
    y = _cos_kernel(r)[0].pick(_bit(x, n, 1), _sin_kernel(r)[0])
    return (-y).pick(_bit(x, n, 2), y)


def _finite(x: Double, y: Double) -> Double:
    return y.pick(x.size().test("LessThan", INFINITY), NAN)


def sin(x: Double) -> Double:
    r, n = _reduced(x)
    return x.pick(x.size().test("LessThan", 2.0**-27), _finite(x, _turned(x, r, n)))


def cos(x: Double) -> Double:
    r, n = _reduced(x)
    return _finite(x, _turned(x, r, x.word("IAdd", n, 1)))


def tan(x: Double) -> Double:
    r, n = _reduced(x)
    s, c = _sin_kernel(r), _cos_kernel(r)
    odd = _bit(x, n, 1)
    top = [a.pick(odd, b) for a, b in zip(c, s, strict=True)]
    bottom = [(-b).pick(odd, a) for a, b in zip(c, s, strict=True)]
    t = top[0] / bottom[0]
    product, lost = t.product(bottom[0])
    y = t + ((top[0] - product) - lost + top[1] - t * bottom[1]) / bottom[0]
    return x.pick(x.size().test("LessThan", 2.0**-27), _finite(x, y))


def _asin_parts(x: Double) -> tuple[Double, Double, Pair, Double]:
    """(size, x over the tail inside, root of (1 - size)/2, its arc sine's tail)."""
    size = x.size()
    square = x * x
    z = (0.5 * (1.0 - size)).clamp(0.0, 1.0)
    some = z.test("GreaterThan", 0.0)
    high, low = root_pair(z.pick(some, 1.0), z.new(0.0))
    root = high.pick(some, 0.0), low.pick(some, 0.0)
    return size, square * square.poly("asin"), root, root[1] + root[0] * (z * z.poly("asin"))


def asin(x: Double) -> Double:
    size, inner, (root, _), tail = _asin_parts(x)
    high, low = fast_sum(x.new(PIO2[0]), -2.0 * root)
    outer = (high + (low + PIO2[1] - 2.0 * tail)).with_sign_of(x)
    y = x.fma(inner, x).pick(size.test("LessThanEqual", 0.5), outer)
    y = x.pick(size.test("LessThan", 2.0**-27), y)
    return y.pick(size.test("LessThanEqual", 1.0), NAN)


def acos(x: Double) -> Double:
    size, inner, (root, _), tail = _asin_parts(x)
    high, low = fast_sum(x.new(PIO2[0]), -x)
    near = high + (low + PIO2[1] - x * inner)
    high, low = fast_sum(x.new(2.0 * PIO2[0]), -2.0 * root)
    left = high + (low + 2.0 * PIO2[1] - 2.0 * tail)
    outer = (2.0 * (root + tail)).pick(x.test("GreaterThan", 0.0), left)
    y = near.pick(size.test("LessThanEqual", 0.5), outer)
    return y.pick(size.test("LessThanEqual", 1.0), NAN)


def _angle(y: Double, x: Double) -> Double:
    """The angle in [0, pi] of the point (x, y), y >= 0, both finite, not both zero: see the device library."""
    f, size = y.f, x.size()
    steep = y.test("GreaterThan", size)
    large, small = y.pick(steep, size), size.pick(steep, y)
    by = y.new(2.0**-200).pick(large.test("GreaterThan", 2.0**900), 1.0)
    by = y.new(2.0**300).pick(large.test("LessThan", 2.0**-700), by)
    large, small = large * by, small * by
    shifted = small / large * 16.0 + SHIFT
    c = (shifted - SHIFT) * 0.0625
    index = y.word("BitwiseAnd", shifted.bits(), 31)
    product, lost = c.product(large)
    t = ((small - product) - lost) / c.fma(small, large)
    base, base_low = (table(y, "atan", ATAN, index, 2, part) for part in (0, 1))
    square = t * t
    tail = t * square * square.poly("atan")
    high, low = fast_sum(base, t)
    low = low + (base_low + tail)
    left = x.test("LessThan", 0.0)
    turned, rest = fast_sum(y.new(PIO2[0]), high.pick(left, -high))
    above = turned + (rest + PIO2[1] + low.pick(left, -low))
    turned, rest = fast_sum(y.new(2.0 * PIO2[0]), -high)
    behind = turned + (rest + 2.0 * PIO2[1] - low)
    negative = f.code.let("SLessThan", f.m.bool(), x.bits(), f.m.integer(0, 64))
    return above.pick(steep, behind.pick(negative, high + low))


def atan(x: Double) -> Double:
    size = x.size()
    far = size.test("GreaterThanEqual", 2.0**60)
    y = x.new(PIO2[0]).pick(far, _angle(size.clamp(0.0, 2.0**60), x.new(1.0))).with_sign_of(x)
    y = x.pick(size.test("LessThan", 2.0**-27), y)
    return x.pick(x.is_nan(), y)


def atan2(y: Double, x: Double) -> Double:
    f, size, wide = y.f, y.size(), x.size()
    endless = [v.test("Equal", INFINITY) for v in (size, wide)]
    # The diagonal when both are infinite; an axis when one is.
    some = any_of(f, *endless)
    a = y.new(1.0).pick(endless[0], 0.0).pick(some, size)
    b = x.new(1.0).pick(both(f, *endless), 0.0)
    b = b.pick(endless[1], x.new(0.0)).with_sign_of(x).pick(some, x)
    only_wide = both(f, endless[1], f.code.let("LogicalNot", f.m.bool(), endless[0]))
    a = a.new(0.0).pick(only_wide, a)
    flat = a.test("Equal", 0.0)
    negative = f.code.let("SLessThan", f.m.bool(), b.bits(), f.m.integer(0, 64))
    angle = _angle(a.new(1.0).pick(flat, a), b)
    thin = both(f, a.test("LessThan", b * 2.0**-40), b.test("GreaterThan", 2.0**-900))
    angle = (a / b).pick(thin, angle)
    angle = a.new(2.0 * PIO2[0]).pick(negative, 0.0).pick(flat, angle)
    nan = any_of(f, x.is_nan(), y.is_nan())
    return y.new(NAN).pick(nan, angle.with_sign_of(y))
