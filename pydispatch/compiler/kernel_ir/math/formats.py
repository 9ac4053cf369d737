"""Properties of f32 and f64 that the math functions use: layouts, constants and polynomials."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

from pydispatch.compiler.kernel_ir.math.coefficients import F32_POLYNOMIALS, F64_POLYNOMIALS
from pydispatch.compiler.kernel_ir.math.numbers import Number, Word
from pydispatch.compiler.kernel_ir.math.pairs import Pair, fast_sum

INFINITY, NAN = float("inf"), float("nan")
Constants = tuple[float, ...]
"""A constant as the sum of floats, the largest first; or coefficients of a polynomial, from the highest power down."""


def _real(digits: str) -> Fraction:
    """Return a number in C's hexadecimal notation, such as "0x1.8p-1" for 0.75, exactly."""
    mantissa, _, exponent = digits.partition("p")
    whole, _, after_point = mantissa.partition(".")
    # A hexadecimal digit after the point is 4 binary ones: 0x1.8p-1 = 0x18 * 2^(-1 - 4).
    return int(whole + after_point, 16) * Fraction(2) ** (int(exponent) - 4 * len(after_point))


_LN2 = _real("0x1.62e42fefa39ef35793c7673007e5ed5e81e6864ce5316c5b141a2eb7p-1")  # natural logarithm of 2
_LOG2E = _real("0x1.71547652b82fe1777d0ffda0d23a7d11d6aef551bad2b4b1164a2cd9p+0")  # logarithm of e to base 2
_LOG10E = _real("0x1.bcb7b1526e50e32a6ab7555f5a67b8647dc68c048b934404747e5a89p-2")  # logarithm of e to base 10
_LOG10_2 = _real("0x1.34413509f79fef311f12b35816f922f04d5a618a87a3e69314bcde4dp-2")  # logarithm of 2 to base 10
_PIO2 = _real("0x1.921fb54442d18469898cc51701b839a252049c1114cf98e804177d4cp+0")  # pi / 2


def _parts(value: Fraction, digits: int, cuts: Sequence[int] = (0,)) -> Constants:
    """Return a real number as a sum of floats, its parts, from the largest to the smallest.

    With the cuts (8, 11), the first part has the first 8 binary digits of the number, the second part the next 11, and
    the third part the rest, rounded to the float format.

    Args:
        value: The number, which is positive.
        digits: Binary digits of the float format.
        cuts: For each part but the last, the number of binary digits to which it is truncated; 0 for all digits of the
            format, rounded. The last part is the rounded rest of the number.
    """
    parts: list[float] = []
    for cut in (*cuts, 0):
        remaining = value - sum(map(Fraction, parts))
        exponent = math.frexp(float(remaining))[1]  # 2^(exponent - 1) <= |remaining| < 2^exponent
        scaled = remaining * Fraction(2) ** ((cut or digits) - exponent)  # the digits of the part, before the point
        parts.append(math.ldexp(int(scaled) if cut else round(scaled), exponent - (cut or digits)))
    return tuple(parts)


class CubeRoot(NamedTuple):
    """Constants of the cube root function for one float format.

    Attributes:
        guess_bits: Integer that is added to a third of the bits of a number: the sum has the bits of a first guess.
        steps: Refinement steps of the guess.
        largest_exponent: Numbers above 2^this are scaled down, numbers below 2^-this are scaled up.
        scale_exponent: The scales are 2^-this and 2^this. It is a multiple of 3: their cube roots are powers of two.
    """

    guess_bits: int
    steps: int
    largest_exponent: int
    scale_exponent: int


@dataclass(frozen=True)
class Format:
    """Float format, f32 or f64, with the constants of its math functions: polynomials, parts of log 2 and so on.

    Irrational constants are sums of several floats, from the largest to the smallest. In `ln2_cut`, `log10_2` and
    `pio2_cut`, all parts but the last have few binary digits, so that a product with a small integer is exact: k times
    the first part of log 2 has no rounding error for any exponent k.

    Attributes:
        width: Bits of a number.
        fraction: Bits of its fraction.
        computes_in_pairs: Whether results are to be within 1 unit in the last place, so that reduced arguments are sums
            of two numbers: true for f64. For f32 they are one number.
        polynomials: Coefficients of each polynomial, by its name.
        ln2_digits, log10_2_digits, pio2_digits: Binary digits of the parts of log 2, log10 2 and pi/2, but the last.
        tanh_near, tanh_end: Up to the first, tanh is a polynomial; from the second on, 1.
        erf_end, erfc_end: From here on erf is 1, and erfc 0.
    """

    width: int
    fraction: int
    computes_in_pairs: bool
    polynomials: dict[str, Constants]
    ln2_digits: tuple[int, ...]
    log10_2_digits: tuple[int, ...]
    pio2_digits: tuple[int, ...]
    root_half: int
    """Bits of a float r near sqrt(1/2). Logarithms divide their argument into 2^k m, with r <= m < 2 r."""
    exp_range: tuple[float, float]
    """(low, high): below `low`, e^x is 0; above `high`, it is infinite."""
    exp2_range: tuple[float, float]
    """(low, high): below `low`, 2^x is 0; above `high`, it is infinite."""
    expm1_least: float
    """From here on down e^x - 1 is -1."""
    log1p_far: int
    """From 2^this on log(1 + x) is computed as log(x), to which it rounds."""
    hyperbolic_end: float
    """From here on sinh and cosh overflow."""
    tanh_near: float
    tanh_end: float
    erf_end: float
    erfc_end: float
    tiny: float
    """Magnitude below which odd functions with f(x) = x + O(x^3) round to x."""
    large_angle: float
    """From here on angles in radians need the digits of 2/pi, see `reduction.large_quadrant`."""
    cube_root: CubeRoot

    @property
    def digits(self) -> int:
        """Binary digits of a number, with the first one, which is not stored."""
        return self.fraction + 1

    @cached_property
    def ln2(self) -> Constants:
        """log 2, as the sum of two floats of full precision: the rounded number, and the rounded rest."""
        return _parts(_LN2, self.digits)

    @cached_property
    def ln2_cut(self) -> Constants:
        """log 2, as the sum of numbers of which all but the last have `ln2_digits`: their products with small integers
        are exact.
        """
        return _parts(_LN2, self.digits, self.ln2_digits)

    @cached_property
    def log2e(self) -> Constants:
        """log2 e, as the sum of two floats of full precision: the rounded number, and the rounded rest."""
        return _parts(_LOG2E, self.digits)

    @cached_property
    def log10e(self) -> Constants:
        """log10 e, as the sum of two floats of full precision: the rounded number, and the rounded rest."""
        return _parts(_LOG10E, self.digits)

    @cached_property
    def log10_2(self) -> Constants:
        """log10 2, as the sum of numbers of which all but the last have `log10_2_digits`: their products with small
        integers are exact.
        """
        return _parts(_LOG10_2, self.digits, self.log10_2_digits)

    @cached_property
    def pio2(self) -> Constants:
        """pi/2, as the sum of two floats of full precision: the rounded number, and the rounded rest."""
        return _parts(_PIO2, self.digits)

    @cached_property
    def pio2_cut(self) -> Constants:
        """pi/2, as the sum of numbers of which all but the last have `pio2_digits`: their products with small integers
        are exact.
        """
        return _parts(_PIO2, self.digits, self.pio2_digits)

    @property
    def bias(self) -> int:
        """The bias: a stored exponent is the exponent of 2 plus this."""
        exponent_bits = self.width - self.fraction - 1  # without the sign
        return (1 << (exponent_bits - 1)) - 1

    @property
    def shift(self) -> float:
        """1.5 * 2^fraction. Adding this shift to a number rounds the number to an integer, since the last place of the
        sum is 1. The low bits of the sum are that integer.
        """
        return 1.5 * 2.0**self.fraction

    @property
    def shift_bits(self) -> int:
        """The bits of `shift`."""
        stored_exponent, half = self.bias + self.fraction, 1 << (self.fraction - 1)
        return (stored_exponent << self.fraction) + half  # `half` are the fraction bits of 1.5

    @property
    def least_normal(self) -> float:
        """The least positive normal number."""
        return 2.0 ** (1 - self.bias)


F32 = Format(
    width=32,
    fraction=23,
    computes_in_pairs=False,
    polynomials=F32_POLYNOMIALS,
    ln2_digits=(15,),
    log10_2_digits=(11,),
    pio2_digits=(8, 11, 11),
    root_half=0x3F2AAAAB,
    exp_range=(-104.0, 89.0),
    exp2_range=(-151.0, 129.0),
    expm1_least=-18.0,
    log1p_far=60,
    hyperbolic_end=90.0,
    tanh_near=0.625,
    tanh_end=10.0,
    erf_end=4.0,
    erfc_end=12.0,
    tiny=2.0**-12,
    large_angle=2.0**13,
    cube_root=CubeRoot(guess_bits=0x2A514067, steps=1, largest_exponent=100, scale_exponent=60),
)
"""Format of f32, with the constants of its math functions; `Format` explains each."""

F64 = Format(
    width=64,
    fraction=52,
    computes_in_pairs=True,
    polynomials=F64_POLYNOMIALS,
    ln2_digits=(32,),
    log10_2_digits=(30,),
    pio2_digits=(31, 32, 28),
    root_half=0x3FE6A09E667F3BCD,
    exp_range=(-746.0, 710.0),
    exp2_range=(-1076.0, 1025.0),
    expm1_least=-60.0,
    log1p_far=100,
    hyperbolic_end=712.0,
    tanh_near=0.55,
    tanh_end=22.0,
    erf_end=6.0,
    erfc_end=28.0,
    tiny=2.0**-27,
    large_angle=2.0**20,
    cube_root=CubeRoot(guess_bits=0x2A9F789300000000, steps=2, largest_exponent=700, scale_exponent=300),
)
"""Format of f64, with the constants of its math functions; `Format` explains each."""


def format_of(x: Number | Word) -> Format:
    """Return the format of a float, or of the floats as wide as a word."""
    return F32 if x.width == 32 else F64


def polynomial(x: Number, name: str) -> Number:
    """Return the polynomial called `name` of the format of x, at x.

    f64 has long polynomials: their odd and even powers are summed separately, so that two chains of multiply-adds
    overlap: p(x) = x odd(x^2) + even(x^2).
    """
    format = format_of(x)
    coefficients = format.polynomials[name]
    if not format.computes_in_pairs:
        return _horner(x, coefficients)
    square = x * x
    # `even` and `odd` are the coefficients of even and of odd powers, the highest power first. The constant term is the
    # last coefficient: every second one from there is of an even power.
    even, odd = coefficients[-1::-2][::-1], coefficients[-2::-2][::-1]
    return _horner(square, odd).fma(x, _horner(square, even))


def _horner(x: Number, coefficients: Constants) -> Number:
    """Return the value at x of the polynomial with these coefficients, from the highest power down."""
    total = x.new(coefficients[0])
    for coefficient in coefficients[1:]:
        total = total.fma(x, coefficient)
    return total


def power2(k: Word) -> Number:
    """Return 2^k, where 2^k is a normal number."""
    format = format_of(k)
    return (k + format.bias << format.fraction).as_float()


def scaled(x: Number, k: Word) -> Number:
    """Return x * 2^k, rounded once, where 2^k may overflow or be subnormal.

    2^(k/2) and x * 2^(k/2) must be normal numbers: then the first of the two products is exact, and only the second is
    rounded.
    """
    half = k.shifted_signed(1)
    return x * power2(half) * power2(k - half)


def rounded(x: Number) -> tuple[Number, Word]:
    """Return the integer nearest to x, as a float and as a word; |x| is below 2^(fraction bits - 1)."""
    format = format_of(x)
    # The last place of a float near `shift`, 1.5 * 2^fraction, is 1: the sum is rounded to an integer, in its low bits.
    shifted = x + format.shift
    return shifted - format.shift, shifted.bits() - format.shift_bits


def upper(x: Number) -> Number:
    """Return a float with only the upper half of its digits, so that the product of two such floats is exact."""
    cut = (format_of(x).fraction + 2) // 2
    return (x.bits() & (-1 << cut)).as_float()


def two_product(x: Number, y: Number) -> Pair:
    """Return x * y as a pair: the rounded product, and the error of its rounding (Dekker's product).

    It needs no fused multiply-add.
    """
    product = x * y
    # `upper` keeps half of the digits, so that the products of the halves are exact.
    x_high, y_high = upper(x), upper(y)
    x_low, y_low = x - x_high, y - y_high
    return product, ((x_high * y_high - product) + x_high * y_low + x_low * y_high) + x_low * y_low


def root_pair(high: Number, low: Number | float = 0.0) -> Pair:
    """Return the square root of the positive sum high + low as a pair: the rounded root, and its correction.

    The correction is one step of Newton's method: (high + low - root^2) / (2 root).
    """
    root = high.sqrt()
    square, square_low = two_product(root, root)
    return fast_sum(root, ((high - square) - square_low + low) / (2.0 * root))


def quotient(top: Pair, bottom: Pair) -> Pair:
    """Return top / bottom for pairs, each a sum (high, low): the rounded quotient t, and (top - t bottom) / bottom."""
    t = top[0] / bottom[0]
    # t bottom = product + product_low + t bottom[1], where `product + product_low` is t bottom[0] exactly.
    product, product_low = two_product(t, bottom[0])
    return t, ((top[0] - product) - product_low + top[1] - t * bottom[1]) / bottom[0]
