"""Bit casts between elements of tensors and integers of the same width."""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, IntegerType
from xdsl.ir import Attribute, SSAValue

from pydispatch.compiler.kernel_ir.words import bit_width
from pydispatch.compiler.kernels.ops.builder import Builder


def bits_of(type_: Attribute) -> int:
    """Return the number of bits that an element of a type takes in memory.

    That is 8 for i1 and for types without a width, 64 for index, else the width of the type.
    """
    bits = bit_width(type_) or 8
    return 8 if bits == 1 else bits


def as_integer(build: Builder, value: SSAValue, bits: int) -> SSAValue:
    """Emit the bit cast of an element to an integer, and return the integer. An i1 becomes 0 or 1.

    `bits` is the number of bits that the element takes in memory (`bits_of`).
    """
    type_ = value.type
    if isinstance(type_, IndexType):
        return build.pure(arith.IndexCastOp(value, IntegerType(64)))
    if isinstance(type_, IntegerType):
        return value if type_.width.data == bits else build.pure(arith.ExtUIOp(value, IntegerType(bits)))
    return build.pure(arith.BitcastOp(value, IntegerType(bits)))


def from_integer(build: Builder, value: SSAValue, type_: Attribute) -> SSAValue:
    """Emit the bit cast of an integer to an element of type `type_`, and return it: the inverse of `as_integer`."""
    if value.type == type_:
        return value
    if isinstance(type_, IndexType):
        return build.pure(arith.IndexCastOp(value, type_))
    if isinstance(type_, IntegerType):  # i1 from its byte; other integers have the type of `value`
        zero = build.pure(arith.ConstantOp.from_int_and_width(0, value.type))  # type: ignore[arg-type]
        return build.pure(arith.CmpiOp(value, zero, "ne"))
    return build.pure(arith.BitcastOp(value, type_))
