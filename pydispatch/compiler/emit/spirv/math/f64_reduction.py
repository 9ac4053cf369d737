"""Quarter turns of large f64 angles, exact for every finite argument; see f64_angles.py.

As in the device library: with x = m 2^e, only 192 bits of 2/pi matter. Higher ones add multiples of four quarter
turns, lower ones are below 2^-137 of one. Numbers of many digits are lists of 32-bit digits in 64-bit integers, lowest
first.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TypeAlias

from pydispatch.compiler.emit.spirv.math.f64_parts import PIO2, Double, Pair, fast_sum, two_sum
from pydispatch.compiler.emit.spirv.module import Id
from pydispatch.compiler.emit.spirv.words import OP

Quadrant: TypeAlias = tuple[Pair, Id]
"""(an angle within half a quarter turn, the number of quarter turns that come on top, modulo 4)."""

LARGE = 2.0**20
"""From here on angles need this."""

TWO_OVER_PI = int(
    "a2f9836e4e441529fc2757d1f534ddc0db6295993c439041fe5163abdebbc561b7246e3a424dd2e0"
    "06492eea09d1921cfe1deb1cb129a73ee88235f52ebb4484e99c7026b45f7e413991d639835339f4"
    "9c845f8bbdf9283b1ff897ffde05980fef2f118b5a0a6d1f6d367ecf27cb09b74f463f669e5fea2d"
    "7527bac7ebe5f17b3d0739f78a5292ea6bfb5fb11f8d5d0856033046fc7b6babf0cfbc209af4361d",
    16,
)
"""1280 bits of 2/pi behind the point."""

WORDS = (0, *(TWO_OVER_PI >> 64 * place & 0xFFFFFFFFFFFFFFFF for place in reversed(range(20))))
DIGIT = 0xFFFFFFFF


def _word(x: Double, at: Id) -> Id:
    """A word of the table."""
    f, m = x.f, x.f.m
    word = m.int(64)

    def make() -> Id:
        type_, parts, made = m.array(word, len(WORDS)), [m.integer(value, 64) for value in WORDS], m.id()
        m.globals += [(3 + len(parts)) << 16 | OP["ConstantComposite"], type_, made, *parts]
        return m.variable("Private", type_, made)

    variable = m.once(("table", "two over pi"), make)
    return f.code.let("Load", word, f.code.let("AccessChain", m.pointer("Private", word), variable, at))


def _digits(x: Double, exponent: Id) -> list[Id]:
    """The 192 bits of 2/pi that matter, lowest first."""
    word = x.word
    first = word("ISub", exponent, 1075 + 2 - 64)  # the bit with weight 2 after the product
    at, shift = word("ShiftRightLogical", first, 6), word("BitwiseAnd", first, 63)
    rest = word("ISub", 63, shift)
    words = [_word(x, at if behind == 0 else word("IAdd", at, behind)) for behind in range(4)]
    found = []
    for high, low in pairwise(words):
        down = word("ShiftRightLogical", word("ShiftRightLogical", low, 1), rest)  # by 64 there is no shift
        whole = word("BitwiseOr", word("ShiftLeftLogical", high, shift), down)
        found += [word("ShiftRightLogical", whole, 32), word("BitwiseAnd", whole, DIGIT)]
    return found[::-1]


def _product(x: Double, digits: list[Id], low: Id, high: Id) -> list[Id]:
    """The lowest digits of the product with (high, low), as many as there are."""
    found, carry = [], x.f.m.integer(0, 64)
    for digit in digits:
        total = x.word("IAdd", x.word("IMul", digit, low), carry)
        found.append(x.word("BitwiseAnd", total, DIGIT))
        carry = x.word("ShiftRightLogical", total, 32)
    carry = x.f.m.integer(0, 64)
    for place, digit in enumerate(digits[:-1], 1):
        total = x.word("IAdd", x.word("IMul", digit, high), x.word("IAdd", found[place], carry))
        found[place] = x.word("BitwiseAnd", total, DIGIT)
        carry = x.word("ShiftRightLogical", total, 32)
    return found


def _number(x: Double, digit: Id, scale: float) -> Double:
    """A digit times a power of two, exact."""
    return (x.from_bits(x.word("BitwiseOr", digit, 0x4330000000000000)) - 2.0**52) * scale


def _sum(x: Double, high: Id, low: Id) -> Pair:
    """(high, low) 2^-128 as a pair."""
    parts = [
        _number(x, x.word(kind, word, operand), scale)
        for word, scales in ((high, (2.0**-32, 2.0**-64)), (low, (2.0**-96, 2.0**-128)))
        for kind, operand, scale in zip(("ShiftRightLogical", "BitwiseAnd"), (32, DIGIT), scales, strict=True)
    ]
    first, second = fast_sum(parts[0], parts[1])
    third, fourth = fast_sum(parts[2], parts[3])
    middle, rest = two_sum(second, third)
    head, tail = fast_sum(first, middle)
    return head, tail + (rest + fourth)


def large_quadrant(x: Double) -> Quadrant:
    """Of a finite x of at least LARGE, of either sign."""
    f, m, word = x.f, x.f.m, x.word
    bits = x.bits()
    exponent = word("BitwiseAnd", word("ShiftRightLogical", bits, 52), 2047)
    mantissa = word("BitwiseOr", word("BitwiseAnd", bits, (1 << 52) - 1), 1 << 52)
    digits = _product(
        x, _digits(x, exponent), word("BitwiseAnd", mantissa, DIGIT), word("ShiftRightLogical", mantissa, 32)
    )
    low, high = (word("BitwiseOr", word("ShiftLeftLogical", digits[i + 1], 32), digits[i]) for i in (2, 4))
    # Two bits before the point, 126 behind it: the nearest whole number goes.
    n = word("ShiftRightLogical", word("IAdd", high, 1 << 61), 62)
    high = word("BitwiseOr", word("ShiftLeftLogical", high, 2), word("ShiftRightLogical", low, 62))
    low = word("ShiftLeftLogical", low, 2)
    zero, flag = m.integer(0, 64), m.bool()
    below = f.code.let("SLessThan", flag, high, zero)
    carry = f.code.let("Select", m.int(64), f.code.let("IEqual", flag, low, zero), m.integer(1, 64), zero)
    opposite = word("IAdd", f.code.let("Not", m.int(64), high), carry)
    high = f.code.let("Select", m.int(64), below, opposite, high)
    low = f.code.let("Select", m.int(64), below, word("ISub", 0, low), low)
    head, tail = _sum(x, high, low)
    whole, lost = head.product(x.new(PIO2[0]))
    whole, lost = fast_sum(whole, lost + (head * PIO2[1] + tail * PIO2[0]))
    negative = f.code.let("SLessThan", flag, bits, zero)
    turned = f.code.let("LogicalNotEqual", flag, negative, below)
    r = (-whole).pick(turned, whole), (-lost).pick(turned, lost)
    return r, word("BitwiseAnd", f.code.let("Select", m.int(64), negative, word("ISub", 0, n), n), 3)
