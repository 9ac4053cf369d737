"""Element types of tensors and scalars as the words of a host program."""

from __future__ import annotations

from xdsl.dialects import builtin
from xdsl.dialects.builtin import (
    BFloat16Type,
    ComplexType,
    Float16Type,
    Float32Type,
    Float64Type,
    IndexType,
    IntegerType,
    Signedness,
)
from xdsl.ir import Attribute

from pydispatch.errors import CompileError, Location
from pydispatch.formats.program.program import Numerical, dtype_word

FLOATS: dict[type[Attribute], int] = {
    Float16Type: dtype_word(Numerical.FLOAT, 16),
    Float32Type: dtype_word(Numerical.FLOAT, 32),
    Float64Type: dtype_word(Numerical.FLOAT, 64),
    BFloat16Type: dtype_word(Numerical.BFLOAT, 16),
    builtin.Float8E5M2Type: dtype_word(Numerical.F8E5M2, 8),
    builtin.Float8E4M3FNType: dtype_word(Numerical.F8E4M3FN, 8),
    builtin.Float8E5M2FNUZType: dtype_word(Numerical.F8E5M2FNUZ, 8),
    builtin.Float8E4M3FNUZType: dtype_word(Numerical.F8E4M3FNUZ, 8),
    builtin.Float8E8M0FNUType: dtype_word(Numerical.F8E8M0FNU, 8),
    builtin.Float8E4M3Type: dtype_word(Numerical.F8E4M3, 8),
    builtin.Float8E3M4Type: dtype_word(Numerical.F8E3M4, 8),
    builtin.Float8E4M3B11FNUZType: dtype_word(Numerical.F8E4M3B11FNUZ, 8),
    builtin.Float6E2M3FNType: dtype_word(Numerical.F6E2M3FN, 8),
    builtin.Float6E3M2FNType: dtype_word(Numerical.F6E3M2FN, 8),
    builtin.Float4E2M1FNType: dtype_word(Numerical.F4E2M1FN, 4),
}
"""Float type of MLIR → its dtype word in host programs. An element of 6 bits is stored in a byte."""

SIGNS = {
    Signedness.SIGNLESS: Numerical.INTEGER,
    Signedness.SIGNED: Numerical.SIGNED,
    Signedness.UNSIGNED: Numerical.UNSIGNED,
}
"""Signedness of an MLIR integer type → the kind of integer in its dtype word."""


def dtype_of(type: Attribute, location: Location | None = None) -> int:
    """Return the dtype word of an element type: its numerical type and bits as one integer.

    i1 has the word of a bool of 8 bits, `index` that of i64. Raises CompileError, at `location`, for a type that
    buffers cannot hold.
    """
    if isinstance(type, IndexType):
        return dtype_word(Numerical.INTEGER, 64)
    if isinstance(type, IntegerType):
        bits = type.width.data
        if bits == 1:
            return dtype_word(Numerical.BOOLEAN, 8)
        if bits in (2, 4, 8, 16, 32, 64):
            return dtype_word(SIGNS[type.signedness.data], bits)
    if isinstance(type, ComplexType) and type.element_type in (Float32Type(), Float64Type()):
        return dtype_word(Numerical.COMPLEX, 2 * type.element_type.bitwidth)
    word = next((w for cls, w in FLOATS.items() if isinstance(type, cls)), None)
    if word is None:
        raise CompileError(
            f"tensors of {type} are not supported", location,
            "supported: i1 i2 i4 i8 i16 i32 i64 index f16 bf16 f32 f64 f4E2M1FN, the f6 and f8 kinds, "
            "complex<f32> and complex<f64>",
        )  # fmt: skip
    return word
