"""cvt between pairs of 8-bit floats (e4m3, e5m2) and f32 or f16."""

from __future__ import annotations

from typing import Any

import numpy as np

from pydispatch.formats.ptx.module import Instruction
from pydispatch.runtime.simulators.ptx.builder import FunctionBuilder, Step
from pydispatch.runtime.simulators.ptx.instructions.small import bits16, joined, parts_of, rectify

# Fraction bits, least exponent of a normal number, largest finite value, bits of it, bits of NaN.
_KINDS = {"e4m3x2": (3, -6, 448.0, 0x7E, 0x7F), "e5m2x2": (2, -14, 57344.0, 0x7B, 0x7F)}


def narrow8(x: Any, kind: str, relu: bool) -> Any:
    """Convert f64 to the bits of an 8-bit float, to nearest even; numbers that are too large become the largest
    (satfinite).
    """
    mantissa, least, largest, top, nan = _KINDS[kind]
    size = np.abs(x)
    finite = np.where(np.isfinite(size), size, 0.0)
    _, exponent = np.frexp(finite)
    exponent = np.maximum(exponent.astype(np.int64) - 1, least)
    step = np.ldexp(1.0, exponent - mantissa)
    rounded = np.rint(finite / step) * step
    # Rounding may have carried into the next exponent.
    _, exponent = np.frexp(rounded)
    exponent = np.maximum(exponent.astype(np.int64) - 1, least)
    count = (rounded / np.ldexp(1.0, exponent - mantissa)).astype(np.int64)
    normal = count >= 1 << mantissa
    bits = np.where(normal, ((exponent - least + 1) << mantissa) + (count - (1 << mantissa)), count)
    bits = np.where((rounded > largest) | np.isinf(size), top, bits)
    bits = bits | np.where(np.signbit(x), 0x80, 0)
    if relu:
        bits = np.where(np.signbit(x), 0, bits)
    return np.where(np.isnan(x), nan, bits).astype(np.uint16)


def widen8(bits: Any, kind: str) -> Any:
    """Return f64 numbers from the bits of 8-bit floats.

    kind: "e4m3x2", whose only special value is NaN (all ones), or "e5m2x2", whose largest exponent is that of infinity
    and NaN.
    """
    mantissa_bits, least_exponent, _, _, _ = _KINDS[kind]
    bits = bits.astype(np.int64)
    magnitude, is_negative = bits & 0x7F, bits & 0x80
    exponent_field = magnitude >> mantissa_bits
    fraction = bits & ((1 << mantissa_bits) - 1)
    is_normal = exponent_field > 0
    significand = np.where(is_normal, fraction + (1 << mantissa_bits), fraction)
    exponent = np.where(is_normal, exponent_field - 1, 0) + least_exponent - mantissa_bits
    value = np.ldexp(significand.astype(np.float64), exponent)
    if kind == "e5m2x2":
        value = np.where(exponent_field == 31, np.where(fraction == 0, np.inf, np.nan), value)
    else:
        value = np.where(magnitude == 0x7F, np.nan, value)
    return np.where(is_negative, -value, value)


def convert(builder: FunctionBuilder, instruction: Instruction, to: str, source_type: str, words: set[str]) -> Step:
    """Build the closure of a conversion from or to pairs of 8-bit floats:

    cvt.rn.satfinite.e4m3x2.f32 d, a, b; cvt.rn.satfinite.e4m3x2.f16x2 d, a; cvt.rn.f16x2.e4m3x2 d, a.
    """
    relu = "relu" in words
    if to in _KINDS and source_type == "f32":
        d, a, b = builder.bind(instruction, "u16", "f32", "f32")

        def from_singles(regs: list[Any]) -> None:
            upper, lower = (narrow8(np.asarray(regs[slot], np.float64), to, relu) for slot in (a, b))
            regs[d][...] = lower | (upper << np.uint16(8))

        return from_singles
    if to in _KINDS and source_type == "f16x2":
        d, a = builder.bind(instruction, "u16", "u32")

        def from_halves(regs: list[Any]) -> None:
            lower, upper = (narrow8(part.astype(np.float64), to, relu) for part in parts_of(regs[a], source_type))
            regs[d][...] = lower | (upper << np.uint16(8))

        return from_halves
    if source_type not in _KINDS or to != "f16x2":
        builder.fail(instruction)
    d, a = builder.bind(instruction, "u32", "u16")

    def to_halves(regs: list[Any]) -> None:
        """Widen two f8 numbers to a pair of f16."""
        bits = np.asarray(regs[a])
        halves = [
            widen8(part, source_type).astype(np.float16) for part in (bits & np.uint16(255), bits >> np.uint16(8))
        ]
        if relu:
            halves = [rectify(half) for half in halves]
        regs[d][...] = joined(bits16(halves[0], "f16"), bits16(halves[1], "f16"))

    return to_halves
