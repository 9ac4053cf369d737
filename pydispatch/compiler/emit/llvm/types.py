"""LLVM spellings and constants of kernel IR's scalar types.

`index` is `i64`. Floats of 8 bits and less are integers of their width in registers. Types are checked here, before any
text reaches LLVM: llvmlite's LLVM has assertions on, and a malformed type would end the process instead of raising.
"""

from __future__ import annotations

import math
import struct

from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IntegerType,
)
from xdsl.ir import Attribute

from pydispatch.compiler.kernel_ir.types import bit_width, memory_width, scalar_width, small_float
from pydispatch.formats.arrays.small_floats import encode

_FLOATS: dict[type[Attribute], str] = {
    Float16Type: "half",
    BFloat16Type: "bfloat",
    Float32Type: "float",
    Float64Type: "double",
}
"""Float types that LLVM has -> their names."""


def scalar(type_: Attribute) -> str:
    """Return the LLVM type of a scalar.

    Raises:
        CompileError: The type is no scalar that kernels compute with.
    """
    return _FLOATS.get(type(type_)) or f"i{scalar_width(type_)}"


def memory_type_of(type_: Attribute) -> str:
    """Return the LLVM type of an element in memory; i8, that of the byte around it, for elements of less than 8 bits.

    Raises:
        CompileError: The type has an unusual width.
    """
    return _FLOATS.get(type(type_)) or f"i{memory_width(type_)}"


def int_constant(value: int, type_: Attribute) -> str:
    """Return the LLVM text of an integer constant, wrapped to the range of its type."""
    width = bit_width(type_)
    value &= (1 << width) - 1
    if width == 1:
        return "true" if value else "false"
    is_negative = value >> (width - 1)  # the sign bit
    return str(value - (1 << width) if is_negative else value)


def float_constant(value: float, type_: Attribute) -> str:
    """Return the LLVM text of a float constant as hexadecimal bits, which are exact for infinities and NaN too.

    Floats of 8 bits or less are integers in LLVM IR.
    """
    if isinstance(type_, Float64Type):
        return f"0x{_bits64(value):016X}"
    if isinstance(type_, Float32Type):
        return f"0x{_widen(float_bits(value, type_)):016X}"
    if small_float(type_):
        return int_constant(float_bits(value, type_), IntegerType(bit_width(type_)))
    prefix = "0xH" if isinstance(type_, Float16Type) else "0xR"
    return f"{prefix}{float_bits(value, type_):04X}"


def float_bits(value: float, type_: Attribute) -> int:
    """Return the bits of `value` rounded to nearest even in `type_`; 1e39 becomes the bits of infinity in f32."""
    if isinstance(type_, Float64Type):
        return _bits64(value)
    if isinstance(type_, Float32Type):
        try:
            return int.from_bytes(struct.pack("<f", value), "little")
        except OverflowError:  # struct refuses numbers that round to infinity
            return 0xFF800000 if value < 0 else 0x7F800000
    if isinstance(type_, Float16Type):
        try:
            return int.from_bytes(struct.pack("<e", value), "little")
        except OverflowError:
            return 0xFC00 if value < 0 else 0x7C00
    small = small_float(type_)  # None unless the type has 8 bits or fewer
    if small is None:  # the last type that is left
        return _bfloat_bits(value)
    import numpy as np

    return int(encode(np.array([value]), small)[0])


def _bfloat_bits(value: float) -> int:
    """Return the bits of an f64 rounded to nearest even in bf16, the high half of an f32.

    The f64 is first rounded to odd in f32: if it is inexact, the last bit is set to 1. So the f32 is never a tie
    between two bf16 unless the f64 is one, and the second rounding yields the correctly rounded result.
    """
    if math.isnan(value):
        return 0x7FC0 | (0x8000 if math.copysign(1.0, value) < 0 else 0)
    bits = float_bits(value, Float32Type())
    nearest = struct.unpack("<f", bits.to_bytes(4, "little"))[0]
    # Rounding to odd: an inexact f32 with an even last bit is replaced by its neighbour on the other side of `value`.
    is_inexact, is_even = nearest != value, bits & 1 == 0
    if is_inexact and is_even and not math.isinf(nearest):
        bits += 1 if abs(nearest) < abs(value) else -1
    is_infinite = bits & 0x7FFFFFFF >= 0x7F800000
    if is_infinite:
        return bits >> 16
    # Add half a unit of bf16, less 1 unless the last bit is odd, and drop the low half: ties go to the even neighbour.
    last_bit = (bits >> 16) & 1
    return (bits + 0x7FFF + last_bit) >> 16


def _bits64(value: float) -> int:
    """Return the 64 bits of a number as f64."""
    return int.from_bytes(struct.pack("<d", value), "little")


def _widen(bits: int) -> int:
    """Return the bits of an f64 that equals the f32 with the bits `bits`: LLVM writes f32 constants as f64."""
    sign, exponent, mantissa = bits >> 31, (bits >> 23) & 0xFF, bits & 0x7FFFFF
    if exponent == 0xFF:  # infinity or NaN: `struct` would turn a signaling NaN into a quiet one
        return (sign << 63) | (0x7FF << 52) | (mantissa << 29)
    return _bits64(struct.unpack("<f", bits.to_bytes(4, "little"))[0])
