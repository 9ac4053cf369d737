"""Large angles less whole quarter turns, by the digits of 2/pi, in integers as wide as the angle.

x = m 2^e. Of 2/pi only three words matter: higher ones add multiples of four quarter turns, lower ones are far below
the last place of what is left. Products are made of half words, so that no device needs wider integers.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TypeAlias

from xdsl.dialects.builtin import IntegerType

from pydispatch.compiler.kernel_ir.math.coefficients import TWO_OVER_PI
from pydispatch.compiler.kernel_ir.math.formats import Format, format_of, two_product
from pydispatch.compiler.kernel_ir.math.numbers import Number, Truth, Word, choose
from pydispatch.compiler.kernel_ir.math.pairs import Pair, fast_sum, two_sum

Quadrant: TypeAlias = tuple[Pair, Word]
"""(an angle within half a quarter turn, the number of quarter turns to add, modulo 4)."""

TWO_OVER_PI_BITS = 1280
"""Bits of the integer `TWO_OVER_PI`, all after the binary point."""

MOST_SELECTED_WORDS = 16
"""Maximum size of a table of words that is compiled to constants and select operations. A larger one is an array that
code indexes. The array is in the memory of each invocation, but a select operation takes time for each word."""


def _words(first: Word, width: int) -> list[Word]:
    """Return the words `first` to `first` + 3 of the binary digits of 2/pi, each of `width` bits.

    Word 0 is the 0 before the binary point, word 1 has the first bits after it. The index `first` is computed when the
    kernel runs; it is at most 16 for 64 bits, and 4 for 32 bits.
    """
    # f64: the words 0 to 20, all digits of `TWO_OVER_PI`. f32: the words 0 to 7, and one more for the shift by 1 below.
    count = 21 if width == 64 else 9
    mask = (1 << width) - 1
    values = [0, *((TWO_OVER_PI >> (TWO_OVER_PI_BITS - width * index)) & mask for index in range(1, count))]
    if count > MOST_SELECTED_WORDS:  # read them from an array
        signed = [value - (value >> 63 << 64) for value in values]  # as attributes have integers
        type_ = IntegerType(64)
        return [Word(first.body, (first + later).element_of("two_over_pi", signed, type_)) for later in range(4)]
    words = [first.new(value) for value in values]
    # Shift the list of words by `first`, one bit of it after the other: with bit 1 set, words[0] becomes words[1] and
    # so on. `remaining` words may still be needed after a shift. `first` is 4 at most. With bit 4, no other bit is set:
    # the words 4 to 7 that it selects need no shift by 2.
    for bit, remaining in ((1, 8), (2, 4), (4, 4)):
        has_bit = (first & bit).differs(0)
        words[:remaining] = [choose(has_bit, words[index + bit], words[index]) for index in range(remaining)]
    return words[:4]


def _digits(exponent: Word, exponent_of_word_1: int) -> list[Word]:
    """Return the three words of 2/pi that matter for an angle with this exponent, as six half words, lowest first.

    They are 3 * `width` successive bits of 2/pi. The larger the exponent, the later they begin: earlier bits would only
    add multiples of four quarter turns. In f32, `exponent_of_word_1` is 152. For the exponent 160 they begin 8 bits
    later, at bit 8 of word 1, and are cut from the words 1 to 4.

    Args:
        exponent: Exponent bits of the angle.
        exponent_of_word_1: The exponent for which these words begin with word 1, the first one after the binary point;
            word 0 is 0. For each larger exponent they begin one bit later.
    """
    width = exponent.width
    half = width // 2
    first = exponent - (exponent_of_word_1 - width)  # number of the words' first bit, counted from that of word 0
    word_index, bit_in_word = first >> (width.bit_length() - 1), first & (width - 1)  # quotient and remainder by width
    last_shift = width - 1 - bit_in_word
    digits: list[Word] = []
    for high, low in pairwise(_words(word_index, width)):
        # One of the three words, from bit `bit_in_word` of `high` on. `low` is shifted down by width - bit_in_word in
        # two steps, because a shift by the width is undefined.
        word = (high << bit_in_word) | ((low >> 1) >> last_shift)
        digits += [word >> half, word & ((1 << half) - 1)]
    return digits[::-1]


def _product(digits: list[Word], factor: Word) -> tuple[Word, Word]:
    """Return the upper two words, (high, low), of the product of a number of three words and a factor of one word.

    The product is computed modulo three words, by schoolbook multiplication of half words, whose products fit into a
    word. The lowest word of the product is cut off: it is below the precision. Carries out of the highest are cut off,
    too: they are multiples of four quarter turns.

    digits: the number as six half words, lowest first.
    """
    half = factor.width // 2
    mask = (1 << half) - 1
    limbs: list[Word] = []  # half words of the product so far, lowest first
    # Add the digits times the lower, then the upper half of the factor, which is shifted by one limb.
    for shift, part in enumerate((factor & mask, factor >> half)):
        carry: Word | None = None
        for index, digit in enumerate(digits[: len(digits) - shift], shift):
            total = digit * part
            if carry is not None:
                total = total + carry
            if shift:  # the second round adds to the product of the first one
                total = total + limbs[index]
            limbs[index : index + 1] = [total & mask]  # appended in the first round, replaced in the second
            carry = total >> half
    return (limbs[5] << half) | limbs[4], (limbs[3] << half) | limbs[2]


def _fraction(high: Word, low: Word) -> Pair:
    """Return the fixed-point number 0.(high, low) as a pair: the sum of its half words, which are exact floats.

    The two words are unsigned; the binary point is before the highest bit of `high`.
    """
    half = high.width // 2
    mask = (1 << half) - 1
    parts: list[Number] = []
    for word in (high, low):
        parts.append((word >> half).to_float() * 2.0 ** (-half * (len(parts) + 1)))
        parts.append((word & mask).to_float() * 2.0 ** (-half * (len(parts) + 1)))
    first, second = fast_sum(parts[0], parts[1])
    third, fourth = fast_sum(parts[2], parts[3])
    middle, middle_low = two_sum(second, third)
    head, tail = fast_sum(first, middle)
    return fast_sum(head, tail + (middle_low + fourth))


def large_quadrant(x: Number) -> Quadrant:
    """Return a finite x of large magnitude reduced to (angle, quarter turns modulo 4).

    The angle is the sum of two floats, (high, low), and at most pi/4 in magnitude.

    x * 2/pi is the number of quarter turns, and n the nearest integer. The angle is (x * 2/pi - n) * pi/2. For an x of
    10000 there are 6366.1977 quarter turns: n is 6366, which is 2 modulo 4, and the angle is 0.1977 pi/2 = 0.3106.

    The product |x| * 2/pi is computed modulo 4, as a fixed-point number of two words.
    """
    bits, format = x.bits(), format_of(x)
    n, is_below_n, difference = _nearest_integer(*_quarter_turns(bits, format), format.width)
    head, tail = _fraction(*difference)  # the magnitude of the difference, in quarter turns
    pio2, pio2_low = format.pio2
    angle, angle_low = two_product(head, head.new(pio2))  # the angle is pi/2 times that
    angle, angle_low = fast_sum(angle, angle_low + (head * pio2_low + tail * pio2))
    # Undo both negations: that of the difference, and that of x, whose magnitude was reduced.
    x_is_negative = bits < 0
    is_negated = x_is_negative ^ is_below_n
    r = choose(is_negated, -angle, angle), choose(is_negated, -angle_low, angle_low)
    return r, choose(x_is_negative, 0 - n, n) & 3


def _quarter_turns(bits: Word, format: Format) -> tuple[Word, Word]:
    """Return |x| * 2/pi modulo 4, for the bits of a float x, as a fixed-point number of two words, (high, low).

    Two of its bits are before the binary point, the others after.
    """
    width, fraction = format.width, format.fraction
    # |x| = mantissa * 2^(exponent - bias - fraction).
    exponent = (bits >> fraction) & ((1 << (width - 1 - fraction)) - 1)
    mantissa = (bits & ((1 << fraction) - 1)) | (1 << fraction)  # with the leading 1, which is not stored
    # With the exponent below, |x| is 4 * mantissa. The first bit of 2/pi, of weight 1/2, which word 1 begins with, has
    # the weight 2 in 4 * 2/pi, that of the highest bit of (high, low).
    exponent_of_word_1 = format.bias + fraction + 2
    return _product(_digits(exponent, exponent_of_word_1), mantissa)


def _nearest_integer(high: Word, low: Word, width: int) -> tuple[Word, Truth, tuple[Word, Word]]:
    """Return (n, whether the number is below n, the magnitude of their difference) for the nearest integer n modulo 4.

    The number (high, low) of two words has two bits before the binary point; the difference has none.
    """
    # Add 1/2, and take the two bits before the point. The shift by two then leaves the bits after the point. Read as a
    # signed number, they are the difference to n: negative if n was rounded up.
    n = (high + (1 << (width - 3))) >> (width - 2)
    high, low = (high << 2) | (low >> (width - 2)), low << 2
    # Below n: negate (high, low) in two's complement, which inverts all bits and adds 1. The 1 is carried into `high`
    # only if `low` is 0.
    is_below_n = high < 0
    carry = choose(low.equals(0), low.new(1), otherwise=0)
    high = choose(is_below_n, (high ^ -1) + carry, high)
    return n, is_below_n, (high, choose(is_below_n, 0 - low, low))
