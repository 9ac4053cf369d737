"""LLVM spellings, sizes and constants of kernel IR's scalar types.

In memory i2, i4 and f4 are packed, low bits first; i1 and what else is narrower than 8 bits takes one byte. `index` is
`i64`. Floats of 8 bits and less are integers of their width in registers. Anything that is not a scalar of this table
or a memref of such scalars is refused here, before any text reaches LLVM: llvmlite's LLVM has assertions on, and a
malformed type would end the process instead of raising.
"""

from __future__ import annotations

import math
import struct

from xdsl.dialects.builtin import (
    BFloat16Type,
    Float4E2M1FNType,
    Float6E2M3FNType,
    Float6E3M2FNType,
    Float8E3M4Type,
    Float8E4M3B11FNUZType,
    Float8E4M3FNType,
    Float8E4M3FNUZType,
    Float8E4M3Type,
    Float8E5M2FNUZType,
    Float8E5M2Type,
    Float8E8M0FNUType,
    Float16Type,
    Float32Type,
    Float64Type,
    IntegerType,
)
from xdsl.ir import Attribute

from pydispatch.compiler.kernel_ir.types import _MEMORY_WIDTHS, bit_width, is_integer, small_float
from pydispatch.errors import CompileError
from pydispatch.formats.arrays.small_floats import encode, width

_FLOATS: dict[type[Attribute], tuple[str, int]] = {
    Float16Type: ("half", 16),
    BFloat16Type: ("bfloat", 16),
    Float32Type: ("float", 32),
    Float64Type: ("double", 64),
}
SMALL_FLOATS: dict[type[Attribute], str] = {
    Float8E5M2Type: "f8E5M2",
    Float8E4M3Type: "f8E4M3",
    Float8E3M4Type: "f8E3M4",
    Float8E4M3FNType: "f8E4M3FN",
    Float8E5M2FNUZType: "f8E5M2FNUZ",
    Float8E4M3FNUZType: "f8E4M3FNUZ",
    Float8E4M3B11FNUZType: "f8E4M3B11FNUZ",
    Float8E8M0FNUType: "f8E8M0FNU",
    Float6E2M3FNType: "f6E2M3FN",
    Float6E3M2FNType: "f6E3M2FN",
    Float4E2M1FNType: "f4E2M1FN",
}
_FLOATS.update({type_: (f"i{width(name)}", width(name)) for type_, name in SMALL_FLOATS.items()})


def scalar(type_: Attribute) -> str:
    """The LLVM type of a scalar. Raises CompileError for anything else."""
    if type(type_) in _FLOATS:
        return _FLOATS[type(type_)][0]
    if is_integer(type_) and 1 <= bit_width(type_) <= 128:
        return f"i{bit_width(type_)}"
    raise CompileError(
        f"type {type_} has no machine form here",
        note="kernel IR computes on i1 to i128 (signless), index, f64 to f4, and on memrefs of them",
    )


def memory(type_: Attribute) -> str:
    """The LLVM type of an element in memory, of the byte around it when packed. Raises CompileError for odd widths."""
    spelled = scalar(type_)
    if bit_width(type_) < 8:
        return "i8"
    if is_integer(type_) and bit_width(type_) not in _MEMORY_WIDTHS:
        raise CompileError(
            f"elements of type {type_} cannot lie in memory",
            note="use elements of up to 8, or of 16, 32 or 64 bits, and extend or truncate after the load",
        )
    return spelled


def int_constant(value: int, type_: Attribute) -> str:
    """An integer constant in range of its type."""
    width = bit_width(type_)
    value &= (1 << width) - 1
    if width == 1:
        return "true" if value else "false"
    return str(value - (1 << width) if value >> (width - 1) else value)


def float_constant(value: float, type_: Attribute) -> str:
    """A float constant as hexadecimal bits, so that no value, infinity or NaN loses anything on the way."""
    if isinstance(type_, Float64Type):
        return f"0x{_bits64(value):016X}"
    if isinstance(type_, Float32Type):
        return f"0x{_widen(float_bits(value, type_)):016X}"
    if small_float(type_):
        return int_constant(float_bits(value, type_), IntegerType(bit_width(type_)))
    prefix = "0xH" if isinstance(type_, Float16Type) else "0xR"
    return f"{prefix}{float_bits(value, type_):04X}"


def float_bits(value: float, type_: Attribute) -> int:
    """The bits of `value` rounded to nearest even in `type_`."""
    if isinstance(type_, Float64Type):
        return _bits64(value)
    if isinstance(type_, Float32Type):
        try:
            return int.from_bytes(struct.pack("<f", value), "little")
        except OverflowError:
            return 0xFF800000 if value < 0 else 0x7F800000
    if isinstance(type_, Float16Type):
        try:
            return int.from_bytes(struct.pack("<e", value), "little")
        except OverflowError:
            return 0xFC00 if value < 0 else 0x7C00
    small = small_float(type_)
    if small is None:
        return _bfloat_bits(value)
    import numpy as np

    return int(encode(np.array([value]), small)[0])


def _bfloat_bits(value: float) -> int:
    """bfloat16, rounded once: through f32 rounded to odd, so that the second rounding sees what the first dropped."""
    if math.isnan(value):
        return 0x7FC0 | (0x8000 if math.copysign(1.0, value) < 0 else 0)
    bits = float_bits(value, Float32Type())
    nearest = struct.unpack("<f", bits.to_bytes(4, "little"))[0]
    if nearest != value and not math.isinf(nearest) and not bits & 1:
        bits += 1 if abs(nearest) < abs(value) else -1
    return (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16 if bits & 0x7FFFFFFF < 0x7F800000 else bits >> 16


def _bits64(value: float) -> int:
    return int.from_bytes(struct.pack("<d", value), "little")


def _widen(bits: int) -> int:
    """The f64 bits of an f32: LLVM writes float constants that way. By hand, since a conversion quiets NaNs."""
    sign, exponent, mantissa = bits >> 31, (bits >> 23) & 0xFF, bits & 0x7FFFFF
    if exponent == 0xFF:
        return (sign << 63) | (0x7FF << 52) | (mantissa << 29)
    return _bits64(struct.unpack("<f", bits.to_bytes(4, "little"))[0])
