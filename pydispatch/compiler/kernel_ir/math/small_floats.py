"""Floats of 16 bits and less: their bits to and from f32 in integers, rounded once to nearest even, without branches.

Nothing here depends on how a device rounds or flushes: every step is exact on f32 normal numbers. A value beyond the
largest number becomes infinity, NaN in a format without infinities, the largest number in one without either; a NaN
that the format lacks becomes -0. f8E8M0FNU takes the exponent of an f32 as it is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type, FloatAttr
from xdsl.ir import Attribute, SSAValue

from pydispatch.compiler.kernel_ir.math.body import Body
from pydispatch.compiler.kernel_ir.math.formats import F32
from pydispatch.compiler.kernel_ir.math.numbers import Number, Truth, Word, choose, word_of
from pydispatch.compiler.kernel_ir.types import bit_width, small_float
from pydispatch.formats.arrays.small_floats import EXPONENT_ONLY, FORMATS, FloatFormat

_MAGNITUDE, _INFINITY, _QUIET, _NAN = 0x7FFFFFFF, 0x7F800000, 1 << 22, 0x7FC00000
"""Bits of an f32: the mask of the magnitude, infinity, the bit of a quiet NaN, and a NaN."""
_HALF = FloatFormat(exponent=5, fraction=10, bias=15, special="ieee")
"""The format f16; `FORMATS` has the formats of smaller floats."""


@dataclass(frozen=True)
class Layout:
    """Bits of a float format of 16 bits or less, and its special codes, as in `pydispatch.formats.arrays.small_floats`.

    Attributes:
        exponent, fraction: Number of bits of the exponent, and of the fraction.
        bias: Bias of the exponent.
        special: Which codes are special. "ieee": those of the largest exponent are infinities and NaNs; "fn": the
            largest code of each sign is a NaN; "fnuz": the code of -0 is the only NaN; "finite": none.
    """

    exponent: int
    fraction: int
    bias: int
    special: str

    @property
    def bits(self) -> int:
        """The width of the format in bits."""
        return 1 + self.exponent + self.fraction

    @property
    def sign_mask(self) -> int:
        """The mask of the sign bit."""
        return 1 << (self.bits - 1)

    @property
    def largest(self) -> int:
        """The code of the largest finite number."""
        if self.special == "ieee":  # the code before infinity, whose exponent bits are all 1 and fraction bits 0
            return (((1 << self.exponent) - 1) << self.fraction) - 1
        # "fn": the largest code is NaN. "fnuz" and "finite": it is a number.
        return self.sign_mask - (2 if self.special == "fn" else 1)

    @property
    def nan(self) -> int:
        """The code of a NaN whose sign bit is 0; in a format without such a code, the code of -0."""
        if self.special == "ieee":  # the code of infinity with the quiet bit
            return self.largest + 1 + (1 << (self.fraction - 1))
        # "fn": all bits but the sign. Others: the code of -0. It is the NaN of "fnuz"; "finite" has none, and gets -0.
        return self.sign_mask - 1 if self.special == "fn" else self.sign_mask

    @property
    def beyond(self) -> int:
        """The code, without sign, that values above the largest number are rounded to."""
        if self.special == "ieee":
            return self.largest + 1  # infinity
        return self.largest if self.special == "finite" else self.nan  # "fn" and "fnuz" have a NaN, but no infinity


def _layout(type_: Attribute) -> Layout:
    """Return the layout of f16 or a float of 8 bits or less; f8E8M0FNU has none."""
    return Layout(*(_HALF if isinstance(type_, Float16Type) else FORMATS[small_float(type_) or ""]))


def widened(body: Body, value: SSAValue) -> Number:
    """Return a float of 16 bits or less as an f32, exactly."""
    type_ = value.type
    code = word_of(body, value).resized(32)
    if isinstance(type_, BFloat16Type):
        return (code << 16).as_float()
    if small_float(type_) == EXPONENT_ONLY:  # code c is 2^(c - 127); as an f32, 2^-127 is subnormal
        power = choose(code.equals(0), 1 << 22, code << 23)
        return choose(code.equals(255), _NAN, power).as_float()
    form = _layout(type_)
    magnitude, sign = code & (form.sign_mask - 1), (code & form.sign_mask) << (32 - form.bits)
    shifted = magnitude << (23 - form.fraction)  # exponent and fraction at their positions in an f32
    # A subnormal is its fraction times a power of two, exactly.
    small = (magnitude.to_float() * 2.0 ** (1 - form.bias - form.fraction)).bits()
    bits = choose(magnitude.below(1 << form.fraction), small, shifted + ((F32.bias - form.bias) << 23))
    if form.special == "ieee":
        infinity = form.largest + 1  # the codes above it are NaN, which becomes quiet
        bits = choose(magnitude.above(form.largest), shifted | _INFINITY, bits)  # all exponent bits are set
        bits = choose(magnitude.above(infinity), bits | _QUIET, bits)
    elif form.special in ("fn", "fnuz"):
        # The only NaN is the largest code of each sign (fn), or the code of -0 (fnuz). "finite" formats have none.
        bits = choose((magnitude if form.special == "fn" else code).equals(form.nan), _NAN, bits)
    return (bits | sign).as_float()


def narrowed(x: Number, type_: Attribute) -> SSAValue:
    """Return the float of 16 bits or less that is nearest to an f32; ties go to the even code.

    f8E8M0FNU has neither sign nor fraction: it takes the exponent of the f32, without rounding.
    """
    # The formats with rules of their own: bf16 and f8E8M0FNU.
    bits, width = x.bits(), bit_width(type_)
    if isinstance(type_, BFloat16Type):
        # A bf16 is the upper half of an f32. To round to nearest even before the lower half is cut off, add half of the
        # last place (0x8000), less 1 if the last place is even: then a tie is not rounded up.
        rounded = bits + 0x7FFF + (bits >> 16 & 1)
        return (choose(x.is_nan(), bits | _QUIET, rounded) >> 16).resized(width).as_bits(type_)
    if small_float(type_) == EXPONENT_ONLY:
        return (bits >> 23).resized(width).as_bits(type_)
    # Other formats: the code of the magnitude, and the sign where the format has both +0 and -0.
    form = _layout(type_)
    code, is_nan = _narrow_code(bits & _MAGNITUDE, form, width)
    sign = (bits >> (32 - form.bits)) & form.sign_mask
    if form.special == "fnuz":  # there is no -0: its code is NaN
        sign = choose(code.equals(0), 0, sign)
    if form.special == "finite":  # `form.nan` is -0 already
        sign = choose(is_nan, 0, sign)
    return (code | sign).resized(width).as_bits(type_)


def _narrow_code(magnitude: Word, form: Layout, width: int) -> tuple[Word, Truth]:
    """Return the code of the nearest number of a smaller format, without sign, and whether it is NaN.

    The code of a number is its bits as an integer. For f8E4M3FN, 1.0 (the f32 0x3F800000) has the code 0x38.

    Args:
        magnitude: Bits of an f32 without its sign.
        form: Layout of the format.
        width: Bits of a number of the format in memory.
    """
    # Normal numbers: subtract the difference of the biases from the exponent, and round the fraction to nearest even by
    # adding half of the last place, less 1 if the last place is even. A carry out of the fraction goes to the exponent.
    # The code is the upper bits of the f32, with the smaller bias, so that one addition both rounds and changes the
    # bias.
    drop = 23 - form.fraction  # bits of the f32's fraction that the format lacks
    rounding = (1 << (drop - 1)) - 1 - ((F32.bias - form.bias) << 23)
    code = (magnitude + rounding + ((magnitude >> drop) & 1)) >> drop
    code = choose(code.above(form.largest), form.beyond, code)  # beyond: code of numbers above the largest
    # Subnormal numbers: the sum with a power of two whose last place is the least subnormal number is rounded to a
    # multiple of that number; its low bits are the multiple.
    shift = 2.0 ** (24 - form.bias - form.fraction)
    small = (magnitude.as_float() + shift).bits() - single_bits(shift)  # the code of a subnormal number
    code = choose(magnitude.below(single_bits(2.0 ** (1 - form.bias))), small, code)
    # NaN.
    is_nan = magnitude.above(_INFINITY)
    nan: Word | int = form.nan
    if width == 16:  # f16 keeps the high bits of the NaN's payload
        nan = ((magnitude >> drop) & ((1 << (form.fraction - 1)) - 1)) | form.nan
    return choose(is_nan, nan, code), is_nan


def single_bits(power: float) -> int:
    """Return the bits of an f32 that is a normal power of two."""
    return (F32.bias - 1 + math.frexp(power)[1]) << 23


def rounded_to_odd(x: Number) -> Number:
    """Return an f64 as an f32. Rounding the f32 to 16 bits or less gives the same result as rounding the f64 directly.

    If the f64 is between two successive f32, the result is the one whose last bit is 1 (rounding to odd). The second
    rounding then cannot take the number for a tie.
    """
    nearest = x.converted(Float32Type())
    nearest_as_f64, bits = nearest.converted(x.value.type), nearest.bits()
    # If the nearest f32 is inexact, finite and even, take the one on the other side of the f64.
    is_inexact, is_finite = nearest_as_f64.differs(x), (bits & _MAGNITUDE).below(_INFINITY)
    adjust = is_inexact & is_finite & (bits & 1).equals(0)
    step = choose(x.magnitude() > nearest_as_f64.magnitude(), bits.new(1), otherwise=-1)
    return choose(adjust, bits + step, bits).as_float()


_CUTS = {32: ((24, 8),), 64: ((48, 24), (36, 12), (24, 12)), 128: ((88, 40), (64, 24), (48, 24), (36, 12), (24, 12))}
"""Width of an integer → steps (least, cut) that shorten it to the 24 bits that an f32 holds, see `integer_to_single`.

In each step, a magnitude of 2^least or more loses its lowest `cut` bits, and the next step applies to the rest. If bits
were cut, at least 13 remain: more than the digits of f16, so that the cut bits only decide how the f32 is rounded."""


def integer_to_single(x: Word, is_signed: bool) -> Number:
    """Return an integer as an f32. Rounding the f32 to 16 bits or less gives the same as rounding the integer directly.

    Large magnitudes lose low bits (`_CUTS`). The last remaining bit is set if the lost bits are not all 0 (rounding to
    odd), so that the second rounding sees that the integer is no tie. For example, the i32 2^24 + 2^16 + 1 is above the
    middle of two bf16, 2^24 and 2^24 + 2^17, and becomes 2^24 + 2^16 + 2^8, which rounds up to the second. The nearest
    f32, 2^24 + 2^16, is exactly the middle, and would round to the even one, 2^24.
    """
    if x.width <= 24:  # an f32 holds it exactly
        return x.extended(32, is_signed).to_float()
    x = x.extended(min(width for width in _CUTS if width >= x.width), is_signed)
    size = choose(x < 0, 0 - x, x) if is_signed else x
    factor: Number | None = None  # the product of 2^cut over the steps that cut bits off
    for least, cut in _CUTS[x.width]:  # a magnitude of at least 2^least loses its lowest `cut` bits
        fits = size.below(1 << least)
        remaining, lost = size >> cut, size & ((1 << cut) - 1)
        # The remaining bits, the last of them set if a lost bit was.
        kept = remaining | choose(lost.equals(0), size.new(0), otherwise=1)
        size = choose(fits, size, kept)
        factor = choose(fits, one(x.body), 2.0**cut) if factor is None else choose(fits, factor, factor * 2.0**cut)
    assert factor is not None
    single = size.resized(32).to_float() * factor
    return choose(x < 0, -single, single) if is_signed else single


def one(body: Body) -> Number:
    """Return 1 as an f32."""
    type_ = Float32Type()
    return Number(body, body.constant((1.0, type_), type_, lambda: FloatAttr(1.0, type_)))
