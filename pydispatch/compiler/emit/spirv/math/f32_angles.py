"""f32 sines, cosines and tangents, exact reduction for every finite argument included; see f32.py.

x = n pi/2 + r. Below LARGE pieces of pi/2 are subtracted, and what rounding cuts off r is kept. Beyond, x = m 2^e, and
only 96 bits of 2/pi matter: higher ones add multiples of four quarter turns, lower ones are below 2^-70 of one. That is
done in integers of 32 bits, so that no device needs wider ones.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TypeAlias

from pydispatch.compiler.emit.spirv.math.f32 import INFINITY, NAN, PIO2, PIO2_LOW, PIO2_PARTS, SHIFT, power2
from pydispatch.compiler.emit.spirv.math.f64_reduction import TWO_OVER_PI
from pydispatch.compiler.emit.spirv.math.number import Single
from pydispatch.compiler.emit.spirv.module import Id

Pair: TypeAlias = tuple[Single, Single]
"""A number as a sum of two."""
Quadrant: TypeAlias = tuple[Pair, Id]
"""(an angle within half a quarter turn, the number of quarter turns that come on top; its two lowest bits count)."""

LARGE = 2.0**13
"""From here on products of pieces of pi/2 with the number of quarter turns are not exact."""
WORDS = (0, *(TWO_OVER_PI >> 32 * (39 - place) & 0xFFFFFFFF for place in range(8)))
"""32 zeros in front of the point of 2/pi, then its first bits."""


def _fast_sum(a: Single, b: Single) -> Pair:
    """Of numbers of which the first is not the smaller."""
    s = a + b
    return s, b - (s - a)


def _two_sum(a: Single, b: Single) -> Pair:
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def _small_quadrant(x: Single) -> Quadrant:
    shifted = x * (2.0 / 3.141592653589793) + SHIFT
    n = shifted - SHIFT
    first, second, third, fourth = PIO2_PARTS
    high, low = _two_sum(x - n * first, -(n * second))
    high, more = _two_sum(high, -(n * third))
    return _fast_sum(high, (low + more) - n * fourth), x.word("BitwiseAnd", shifted.bits(), 3)


def _digits(x: Single, exponent: Id) -> list[Id]:
    """The 96 bits of 2/pi that matter, highest first."""
    f, m, word = x.f, x.f.m, x.word
    first = word("ISub", exponent, 127 + 23 + 2 - 32)  # the bit with weight 2 after the product
    at, shift = word("ShiftRightLogical", first, 5), word("BitwiseAnd", first, 31)
    rest = word("ISub", 31, shift)

    # Four words from `at` on, which is 4 at most. Selected: a table would be memory of every invocation.
    def later(words: list[Id], bit: int) -> list[Id]:
        """The words from `bit` on where `at` has that bit."""
        has = f.code.let("INotEqual", m.bool(), word("BitwiseAnd", at, bit), m.integer(0))
        return [
            f.code.let("Select", m.int(32), has, there, here) for here, there in zip(words, words[bit:], strict=False)
        ]

    words = later([m.integer(value, 32) for value in WORDS], 1)
    words = later([*later(words, 2)[:4], *words[4:]], 4)
    return [
        word(
            "BitwiseOr",
            word("ShiftLeftLogical", high, shift),
            word("ShiftRightLogical", word("ShiftRightLogical", low, 1), rest),  # by 32 there is no shift
        )
        for high, low in pairwise(words)
    ]


def _product(x: Single, digits: list[Id], factor: Id) -> tuple[Id, Id, Id]:
    """The lowest three digits of the product, highest first."""
    f, m, word = x.f, x.f.m, x.word
    pair = m.type("TypeStruct", m.int(32), m.int(32))

    def parts(digit: Id) -> list[Id]:
        both = f.code.let("UMulExtended", pair, digit, factor)
        return [f.code.let("CompositeExtract", m.int(32), both, place) for place in (0, 1)]

    (low, carried), (middle, upper) = parts(digits[2]), parts(digits[1])
    middle = word("IAdd", middle, carried)
    over = f.code.let("ULessThan", m.bool(), middle, carried)
    upper = word("IAdd", upper, f.code.let("Select", m.int(32), over, m.integer(1), m.integer(0)))
    return word("IAdd", word("IMul", digits[0], factor), upper), middle, low


def _large_quadrant(x: Single) -> Quadrant:
    """Of a finite x of at least LARGE, of either sign."""
    f, m, word = x.f, x.f.m, x.word
    let, bits, zero = f.code.let, x.bits(), m.integer(0)
    exponent = word("BitwiseAnd", word("ShiftRightLogical", bits, 23), 255)
    mantissa = word("BitwiseOr", word("BitwiseAnd", bits, (1 << 23) - 1), 1 << 23)
    high, middle, low = _product(x, _digits(x, exponent), mantissa)
    # Two bits before the point, 94 behind it: the nearest whole number goes.
    n = word("ShiftRightLogical", word("IAdd", high, 1 << 29), 30)
    high = word("BitwiseOr", word("ShiftLeftLogical", high, 2), word("ShiftRightLogical", middle, 30))
    low = word("BitwiseOr", word("ShiftLeftLogical", middle, 2), word("ShiftRightLogical", low, 30))
    below = let("SLessThan", m.bool(), high, zero)
    carry = let("Select", m.int(32), let("IEqual", m.bool(), low, zero), m.integer(1), zero)
    high = let("Select", m.int(32), below, word("IAdd", let("Not", m.int(32), high), carry), high)
    low = let("Select", m.int(32), below, word("ISub", 0, low), low)
    # 32 digits from the first that is not 0 on; no f32 comes nearer to a quarter turn than 2^-40 of one.
    empty = let("IEqual", m.bool(), high, zero)
    top, under = let("Select", m.int(32), empty, low, high), let("Select", m.int(32), empty, zero, low)
    zeros = word("ISub", 31, f.code.glsl("FindUMsb", m.int(32), top))
    under = word("ShiftRightLogical", word("ShiftRightLogical", under, 1), word("ISub", 31, zeros))
    top = word("BitwiseOr", word("ShiftLeftLogical", top, zeros), under)
    skipped = let("Select", m.int(32), empty, m.integer(-64), m.integer(-32))
    scale = power2(f, word("ISub", skipped, zeros))
    parts = [
        Single(f, let("ConvertUToF", m.float(32), word("BitwiseAnd", top, mask))) * scale for mask in (0xFFFFFF00, 255)
    ]
    whole, lost = parts[0].product(x.new(PIO2))
    whole, lost = _fast_sum(whole, lost + (parts[0] * PIO2_LOW + parts[1] * PIO2))
    negative = let("SLessThan", m.bool(), bits, zero)
    flipped = let("LogicalNotEqual", m.bool(), negative, below)
    r = (-whole).pick(flipped, whole), (-lost).pick(flipped, lost)
    return r, word("BitwiseAnd", let("Select", m.int(32), negative, word("ISub", 0, n), n), 3)


def _reduced(x: Single) -> Quadrant:
    """x - n pi/2 as a pair, and n."""
    f = x.f
    real = f.m.float(32)

    def parts(quadrant: Quadrant) -> list[Id]:
        (high, low), n = quadrant
        return [high.id, low.id, n]

    high, low, n = f.choose(
        x.size().test("GreaterThanEqual", LARGE),
        lambda: parts(_large_quadrant(x)),
        lambda: parts(_small_quadrant(x)),
        [real, real, f.m.int(32)],
    )
    return (Single(f, high), Single(f, low)), n


def _sin_kernel(r: Pair) -> Pair:
    high, low = r
    z = high * high
    return _fast_sum(high, (high * z) * z.poly("sin") + low * (1.0 - 0.5 * z))


def _cos_kernel(r: Pair) -> Pair:
    high, low = r
    z, lost = high.product(high)
    top, rest = _fast_sum(high.new(1.0), -0.5 * z)
    return _fast_sum(top, (rest - 0.5 * lost) + ((z * z) * z.poly("cos") - high * low))


def _bit(x: Single, n: Id, bit: int) -> Id:
    return x.f.code.let("INotEqual", x.f.m.bool(), x.word("BitwiseAnd", n, bit), x.f.m.integer(0))


def _after(x: Single, r: Pair, n: Id) -> Single:
    """The sine of r + n pi/2."""
    y = _cos_kernel(r)[0].pick(_bit(x, n, 1), _sin_kernel(r)[0])
    return (-y).pick(_bit(x, n, 2), y)


def _finite(x: Single, y: Single) -> Single:
    return y.pick(x.size().test("LessThan", INFINITY), NAN)


def sin(x: Single) -> Single:
    r, n = _reduced(x)
    return x.pick(x.size().test("LessThan", 2.0**-12), _finite(x, _after(x, r, n)))


def cos(x: Single) -> Single:
    r, n = _reduced(x)
    return _finite(x, _after(x, r, x.word("IAdd", n, 1)))


def tan(x: Single) -> Single:
    """The quotient, and what it leaves of the dividend over the divisor once more."""
    r, n = _reduced(x)
    s, c = _sin_kernel(r), _cos_kernel(r)
    odd = _bit(x, n, 1)
    top = [a.pick(odd, b) for a, b in zip(c, s, strict=True)]
    bottom = [(-b).pick(odd, a) for a, b in zip(c, s, strict=True)]
    t = top[0] / bottom[0]
    product, lost = t.product(bottom[0])
    y = t + ((top[0] - product) - lost + top[1] - t * bottom[1]) / bottom[0]
    return x.pick(x.size().test("LessThan", 2.0**-12), _finite(x, y))


FUNCTIONS = {"sin": sin, "cos": cos, "tan": tan}
"""Functions of one argument."""
