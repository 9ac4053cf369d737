"""PTX cvt of pairs of 8-bit floats (e4m3, e5m2). A handler returns a closure `step(regs)`, which runs the instruction
for all threads of a frame: those that execute it together. A slot is an index in `regs`: regs[slot] is an operand, an
array with an element per thread or a scalar for all of them, and regs[FRAME_SLOT] is the frame.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pydispatch.formats.ptx.module import Instruction
from pydispatch.runtime.simulators.ptx.builder import FunctionBuilder, Step
from pydispatch.runtime.simulators.ptx.instructions.small import bits16, joined, parts_of, rectify


class _Float8(NamedTuple):
    """Encoding of an 8-bit float.

    Attributes:
        fraction_bits: Bits of the fraction, without the implicit leading one.
        least_exponent: Exponent of the least normal number, a power of two.
        largest: The largest finite number.
        largest_bits: Bits of the largest finite number.
        nan_bits: Bits of the canonical NaN.
    """

    fraction_bits: int
    least_exponent: int
    largest: float
    largest_bits: int
    nan_bits: int


_KINDS = {
    "e4m3x2": _Float8(fraction_bits=3, least_exponent=-6, largest=448.0, largest_bits=0x7E, nan_bits=0x7F),
    "e5m2x2": _Float8(fraction_bits=2, least_exponent=-14, largest=57344.0, largest_bits=0x7B, nan_bits=0x7F),
}
"""PTX type of a pair of 8-bit floats → the encoding of each."""
_SIGN_BIT, _MAGNITUDE_BITS = 0x80, 0x7F
_E5M2_SPECIAL_EXPONENT = 31
"""The exponent field of infinity and NaN; e4m3 has no infinity."""


def _magnitude_bits(magnitude: Any, unit: Any, encoding: _Float8) -> Any:
    """Return the bits of 8-bit floats without the sign: the exponent field, then the fraction.

    For e4m3, with 3 bits of fraction, 0.3125 has the last place 2**-5 and the significand 10. Its exponent is
    -5 + 3 = -2, and its field -2 - (-6) + 1 = 5. The bits are 5 << 3 | (10 - 8) = 0x2A.

    Args:
        magnitude: Numbers of 0 or more that are exact in the encoding, f64.
        unit: Their last place, the power of two of which their significands are multiples, f64.
        encoding: The encoding.
    """
    significand = (magnitude / unit).astype(np.int64)
    unit_exponent = np.frexp(unit)[1].astype(np.int64) - 1  # frexp(2**k) is (0.5, k + 1)
    exponent = unit_exponent + encoding.fraction_bits
    implicit_bit = 1 << encoding.fraction_bits  # of normal numbers, which is not stored
    exponent_field = (exponent - encoding.least_exponent + 1) << encoding.fraction_bits
    is_normal = significand >= implicit_bit
    return np.where(is_normal, exponent_field + (significand - implicit_bit), significand)


def narrow8(x: Any, kind: str, relu: bool) -> Any:
    """Convert f64 to the bits of an 8-bit float, u16, to nearest even.

    Numbers that are too large become the largest finite one (.satfinite, which PTX requires), a NaN the canonical one.

    For e4m3, 0.3 is rounded to 0.3125 = 10 * 2**-5, a multiple of the last place 2**-5 of numbers from 0.25 to 0.5. Its
    bits are 0x2A: the exponent field 5, then the fraction 2, which is the significand 10 without the leading 8.

    Args:
        x: Numbers, f64.
        kind: "e4m3x2" or "e5m2x2".
        relu: Whether negative numbers become 0.
    """
    encoding = _KINDS[kind]
    magnitude = np.abs(x)
    finite = np.where(np.isfinite(magnitude), magnitude, 0.0)  # infinities and NaN are replaced at the end
    unit = _last_place(finite, encoding)
    rounded = np.rint(finite / unit) * unit
    # Rounding may have carried into the next exponent, whose last place is twice as large, as from 1.97 to 2.0.
    bits = _magnitude_bits(rounded, _last_place(rounded, encoding), encoding)
    bits = np.where((rounded > encoding.largest) | np.isinf(magnitude), encoding.largest_bits, bits)
    bits = np.where(np.signbit(x), 0 if relu else bits | _SIGN_BIT, bits)
    return np.where(np.isnan(x), encoding.nan_bits, bits).astype(np.uint16)


def _last_place(value: Any, encoding: _Float8) -> Any:
    """Return the distance of neighbouring 8-bit floats at the magnitude of f64 values: a power of two, f64.

    Below the normal numbers it is that of subnormal ones.
    """
    # frexp(value) is (m, k) with 0.5 <= m < 1: the exponent of the leading bit is k - 1.
    exponent = np.maximum(np.frexp(value)[1].astype(np.int64) - 1, encoding.least_exponent)
    return np.ldexp(1.0, exponent - encoding.fraction_bits)


def widen8(bits: Any, kind: str) -> Any:
    """Convert 8-bit floats, given by their bits, to f64: 0x2A of e4m3 becomes 0.3125.

    Args:
        bits: Array of integers, the bits of one 8-bit float in each.
        kind: "e4m3x2", which has no infinity and one NaN of each sign (all other bits are ones), or "e5m2x2", whose
            largest exponent field is that of infinity and NaN.
    """
    encoding = _KINDS[kind]
    implicit_bit = 1 << encoding.fraction_bits
    bits = bits.astype(np.int64)
    magnitude, is_negative = bits & _MAGNITUDE_BITS, bits & _SIGN_BIT
    exponent_field = magnitude >> encoding.fraction_bits
    fraction = bits & (implicit_bit - 1)
    is_normal = exponent_field > 0
    # The value is significand * 2**exponent, where the significand is an integer. The exponent fields 0 (subnormal
    # numbers) and 1 both stand for the least exponent.
    significand = np.where(is_normal, fraction + implicit_bit, fraction)
    exponent = np.where(is_normal, exponent_field - 1, 0) + encoding.least_exponent - encoding.fraction_bits
    value = np.ldexp(significand.astype(np.float64), exponent)
    if kind == "e5m2x2":
        value = np.where(exponent_field == _E5M2_SPECIAL_EXPONENT, np.where(fraction == 0, np.inf, np.nan), value)
    else:
        value = np.where(magnitude == encoding.nan_bits, np.nan, value)
    return np.where(is_negative, -value, value)


def convert(builder: FunctionBuilder, instruction: Instruction, to: str, source_type: str, words: set[str]) -> Step:
    """Build the closure of a conversion from or to pairs of 8-bit floats:

    cvt.rn.satfinite.e4m3x2.f32 d, a, b; cvt.rn.satfinite.e4m3x2.f16x2 d, a; cvt.rn.f16x2.e4m3x2 d, a.

    Args:
        builder: Builder of the function.
        instruction: The instruction.
        to: PTX type of the result.
        source_type: PTX type of the source.
        words: The other modifiers. Only relu changes the result: rn and satfinite hold for every such conversion.
    """
    builder.require_modifiers(instruction, ("rn", "satfinite", "relu"), words)
    relu = "relu" in words
    if to in _KINDS and source_type == "f32":
        return _narrow_singles(builder, instruction, to, relu)
    if to in _KINDS and source_type == "f16x2":
        return _narrow_halves(builder, instruction, to, relu)
    if source_type not in _KINDS or to != "f16x2":
        builder.fail(instruction)
    return _widen_pair(builder, instruction, source_type, relu)


def _narrow_singles(builder: FunctionBuilder, instruction: Instruction, to: str, relu: bool) -> Step:
    """Build the closure of `cvt.rn.satfinite.e4m3x2.f32 d, a, b`, or of e5m2x2."""
    d, a, b = builder.bind(instruction, "u16", "f32", "f32")

    def from_singles(regs: list[Any]) -> None:
        """Narrow the f32 numbers a and b to a pair of the type `to` in d; a becomes the upper one."""
        upper, lower = (narrow8(np.asarray(regs[slot], np.float64), kind=to, relu=relu) for slot in (a, b))
        regs[d][...] = lower | (upper << np.uint16(8))

    return from_singles


def _narrow_halves(builder: FunctionBuilder, instruction: Instruction, to: str, relu: bool) -> Step:
    """Build the closure of `cvt.rn.satfinite.e4m3x2.f16x2 d, a`, or of e5m2x2."""
    d, a = builder.bind(instruction, "u16", "u32")

    def from_halves(regs: list[Any]) -> None:
        """Narrow the pair of f16 in a to a pair of the type `to` in d."""
        halves = parts_of(regs[a], "f16x2")
        lower, upper = (narrow8(half.astype(np.float64), kind=to, relu=relu) for half in halves)
        regs[d][...] = lower | (upper << np.uint16(8))

    return from_halves


def _widen_pair(builder: FunctionBuilder, instruction: Instruction, source_type: str, relu: bool) -> Step:
    """Build the closure of `cvt.rn.f16x2.e4m3x2 d, a`, or from e5m2x2."""
    d, a = builder.bind(instruction, "u32", "u16")

    def to_halves(regs: list[Any]) -> None:
        """Widen two 8-bit floats in a to a pair of f16 in d; `relu`: negative numbers become 0."""
        bits = np.asarray(regs[a])
        low_byte, high_byte = bits & np.uint16(0xFF), bits >> np.uint16(8)
        halves = [widen8(byte, source_type).astype(np.float16) for byte in (low_byte, high_byte)]
        if relu:
            halves = [rectify(half) for half in halves]
        regs[d][...] = joined(bits16(halves[0], "f16"), bits16(halves[1], "f16"))

    return to_halves
