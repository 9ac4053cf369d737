"""Scalar operations of host code that are a single instruction of the host program, and their types."""

from __future__ import annotations

import struct
from typing import Any, cast

from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
)
from xdsl.ir import Attribute, Operation
from xdsl.ir.affine import AffineBinaryOpKind

from pydispatch.errors import CompileError
from pydispatch.formats.program.opcodes import MATH_FUNCTIONS, Opcode
from pydispatch.ir.core.locations import location_of

BINARY = {
    "arith.addi": Opcode.ADD,
    "arith.subi": Opcode.SUB,
    "arith.muli": Opcode.MUL,
    "arith.divsi": Opcode.DIVS,
    "arith.divui": Opcode.DIVU,
    "arith.remsi": Opcode.REMS,
    "arith.remui": Opcode.REMU,
    "arith.ceildivsi": Opcode.CEILDIVS,
    "arith.ceildivui": Opcode.CEILDIVU,
    "arith.floordivsi": Opcode.FLOORDIVS,
    "arith.minsi": Opcode.MINS,
    "arith.maxsi": Opcode.MAXS,
    "arith.minui": Opcode.MINU,
    "arith.maxui": Opcode.MAXU,
    "arith.andi": Opcode.AND,
    "arith.ori": Opcode.OR,
    "arith.xori": Opcode.XOR,
    "arith.shli": Opcode.SHL,
    "arith.shrsi": Opcode.SHRS,
    "arith.shrui": Opcode.SHRU,
    "arith.addf": Opcode.FADD,
    "arith.subf": Opcode.FSUB,
    "arith.mulf": Opcode.FMUL,
    "arith.divf": Opcode.FDIV,
    "arith.remf": Opcode.FREM,
    "arith.minimumf": Opcode.FMIN,
    "arith.maximumf": Opcode.FMAX,
    "arith.minnumf": Opcode.FMINNUM,
    "arith.maxnumf": Opcode.FMAXNUM,
    "math.powf": Opcode.FPOW,
    "math.atan2": Opcode.FATAN2,
    "math.copysign": Opcode.FCOPYSIGN,
}
"""Operations with two operands and a result of the same type."""

UNARY = {
    "arith.negf": Opcode.FNEG,
    "math.absi": Opcode.ABS,
    "math.ctpop": Opcode.CTPOP,
    "math.ctlz": Opcode.CTLZ,
    "math.cttz": Opcode.CTTZ,
}
"""Operations with one operand and a result of the same type."""

MATH = {f"math.{name}": index for index, name in enumerate(MATH_FUNCTIONS)}
"""Operations that are functions of the instruction FMATH, and their numbers."""

AFFINE = {
    AffineBinaryOpKind.Add: Opcode.ADD,
    AffineBinaryOpKind.Mul: Opcode.MUL,
    AffineBinaryOpKind.Mod: Opcode.MODS,
    AffineBinaryOpKind.FloorDiv: Opcode.FLOORDIVS,
    AffineBinaryOpKind.CeilDiv: Opcode.CEILDIVS,
}
"""Operators of affine expressions → instructions."""

F16, BF16, F32, F64 = 16, 17, 32, 64
"""Formats of floats in instructions (docs/program.md): their widths, but 17 for bf16."""

FORMATS: dict[type[Attribute], int] = {Float16Type: F16, BFloat16Type: BF16, Float32Type: F32, Float64Type: F64}
"""Float types → their formats."""

EQ, SLT, ULT, ULE = 0, 2, 6, 7
"""Predicates of `arith.cmpi`, which are those of CMP."""
OEQ, OGE, OLT, UNO = 1, 3, 4, 14
"""Predicates of `arith.cmpf`, which are those of FCMP."""

QUERY_PRESENCE = 1
"""Modifier of the instruction QUERY (`hal.device.query`): it returns whether the device has the key that is queried,
instead of its value."""


def width_or_format(type: Attribute, op: Operation) -> int:
    """Return the modifier of an instruction on a type: the width of an integer, or the format of a float (`FORMATS`).

    Both are numbers such as 16 or 32; the opcode implies which of them it is.

    Raises CompileError at `op` for other types.
    """
    if isinstance(type, IndexType):
        return 64
    if isinstance(type, IntegerType) and type.width.data <= 64:
        return int(type.width.data)
    for kind, format in FORMATS.items():
        if isinstance(type, kind):
            return format
    raise CompileError(
        f"'{op.name}' on {type} is not supported in host code",
        location_of(op),
        "host code computes with index, integers of up to 64 bits, f16, bf16, f32 and f64; "
        "other types belong into a dispatch",
    )


def float_bits(value: float, format: int) -> int:
    """Return the bits of a float in a format of `FORMATS`, rounded to it; values beyond its range become infinity."""
    if format == BF16:
        return int.from_bytes(bytes(BFloat16Type().pack([value])), "little")
    if format == F16:
        import numpy as np

        with np.errstate(over="ignore"):
            return int(np.array(value, np.float16).view(np.uint16))
    if format == F32:
        import numpy as np

        with np.errstate(over="ignore"):
            return int(np.array(value, np.float32).view(np.uint32))
    return cast(int, struct.unpack("<Q", struct.pack("<d", value))[0])


def constant_bits(attribute: Attribute, op: Operation) -> int:
    """Return the value of a 64-bit register that holds a scalar constant: a signed integer, or the bits of a float.

    i1 is the exception: true is 1, not -1. Raises CompileError at `op` for other attributes.
    """
    if isinstance(attribute, IntegerAttr):
        value = attribute.value.data
        bits = width_or_format(attribute.type, op)
        value &= (1 << bits) - 1
        has_sign_bit = value >> (bits - 1) == 1
        return value - (1 << bits) if has_sign_bit and bits > 1 else value
    if isinstance(attribute, FloatAttr):
        if attribute.type.bitwidth <= 8:  # instructions have no such format, but fills store the bits
            return int.from_bytes(bytes(cast(Any, attribute.type).pack([attribute.value.data])), "little")
        return float_bits(attribute.value.data, width_or_format(attribute.type, op))
    raise CompileError(f"constant {attribute} is not a scalar", location_of(op))
