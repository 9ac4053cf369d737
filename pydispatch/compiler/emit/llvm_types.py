"""LLVM spellings, sizes and constants of kernel IR's scalar types.

A value of type `i1` is one byte in memory; `index` is `i64`. Anything that is not a scalar of this table or a memref of
such scalars is refused here, before any text reaches LLVM: llvmlite's LLVM has assertions on, and a malformed type
would end the process instead of raising.
"""

from __future__ import annotations

import math
import struct

from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IndexType,
    IntegerType,
    MemRefType,
    Signedness,
)
from xdsl.ir import Attribute

from pydispatch.errors import CompileError

_FLOATS: dict[type[Attribute], tuple[str, int]] = {
    Float16Type: ("half", 2),
    BFloat16Type: ("bfloat", 2),
    Float32Type: ("float", 4),
    Float64Type: ("double", 8),
}
_MEMORY_WIDTHS = (8, 16, 32, 64, 128)


def is_float(type_: Attribute) -> bool:
    """f16, bf16, f32 or f64."""
    return type(type_) in _FLOATS


def is_integer(type_: Attribute) -> bool:
    """A signless integer or index."""
    return isinstance(type_, IndexType) or (
        isinstance(type_, IntegerType) and type_.signedness.data == Signedness.SIGNLESS
    )


def bit_width(type_: Attribute) -> int:
    """Bits of a scalar type; 64 for index."""
    if isinstance(type_, IntegerType):
        return int(type_.width.data)
    return 64 if isinstance(type_, IndexType) else 8 * _FLOATS[type(type_)][1]


def scalar(type_: Attribute) -> str:
    """The LLVM type of a scalar. Raises CompileError for anything else."""
    if type(type_) in _FLOATS:
        return _FLOATS[type(type_)][0]
    if is_integer(type_) and 1 <= bit_width(type_) <= 128:
        return f"i{bit_width(type_)}"
    raise CompileError(
        f"type {type_} has no machine form here",
        note="kernel IR computes on i1 to i128 (signless), index, f16, bf16, f32 and f64, and on memrefs of them",
    )


def memory(type_: Attribute) -> str:
    """The LLVM type of an element in memory. Raises CompileError for sub-byte or odd widths."""
    if is_integer(type_) and bit_width(type_) == 1:
        return "i8"
    spelled = scalar(type_)
    if is_integer(type_) and bit_width(type_) not in _MEMORY_WIDTHS:
        raise CompileError(
            f"elements of type {type_} cannot lie in memory",
            note="use i1 (one byte each), i8, i16, i32 or i64 elements, and extend or truncate after the load",
        )
    return spelled


def byte_size(type_: Attribute) -> int:
    """Bytes of an element in memory; its natural alignment too."""
    memory(type_)
    return max(1, bit_width(type_) // 8)


def alignment(type_: Attribute) -> int:
    """The natural alignment of an element, in bytes."""
    return byte_size(type_)


def checked_memref(type_: Attribute) -> MemRefType:
    """`type_` as a ranked memref of scalars with a strided layout. Raises CompileError otherwise."""
    if not isinstance(type_, MemRefType):
        raise CompileError(
            f"type {type_} is not a ranked memref", note="unranked memrefs and tensors have no kernel form"
        )
    memory(type_.element_type)
    if type_.get_strides() is None or len(type_.get_strides() or ()) != type_.get_num_dims():
        raise CompileError(f"layout of {type_} is not strided", note="use strided<[...], offset: ...>")
    return type_


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
    return _bfloat_bits(value)


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
