"""Scalar operations of host code that are one instruction of the host program, and their types."""

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
from pydispatch.formats.program.opcodes import MATH_FUNCTIONS, Op
from pydispatch.ir.core.locations import location_of

BINARY = {
    "arith.addi": Op.ADD,
    "arith.subi": Op.SUB,
    "arith.muli": Op.MUL,
    "arith.divsi": Op.DIVS,
    "arith.divui": Op.DIVU,
    "arith.remsi": Op.REMS,
    "arith.remui": Op.REMU,
    "arith.ceildivsi": Op.CEILDIVS,
    "arith.ceildivui": Op.CEILDIVU,
    "arith.floordivsi": Op.FLOORDIVS,
    "arith.minsi": Op.MINS,
    "arith.maxsi": Op.MAXS,
    "arith.minui": Op.MINU,
    "arith.maxui": Op.MAXU,
    "arith.andi": Op.AND,
    "arith.ori": Op.OR,
    "arith.xori": Op.XOR,
    "arith.shli": Op.SHL,
    "arith.shrsi": Op.SHRS,
    "arith.shrui": Op.SHRU,
    "arith.addf": Op.FADD,
    "arith.subf": Op.FSUB,
    "arith.mulf": Op.FMUL,
    "arith.divf": Op.FDIV,
    "arith.remf": Op.FREM,
    "arith.minimumf": Op.FMIN,
    "arith.maximumf": Op.FMAX,
    "arith.minnumf": Op.FMINNUM,
    "arith.maxnumf": Op.FMAXNUM,
    "math.powf": Op.FPOW,
    "math.atan2": Op.FATAN2,
    "math.copysign": Op.FCOPYSIGN,
}
"""Two operands and a result of one type."""

UNARY = {
    "arith.negf": Op.FNEG,
    "math.absi": Op.ABS,
    "math.ctpop": Op.CTPOP,
    "math.ctlz": Op.CTLZ,
    "math.cttz": Op.CTTZ,
}

MATH = {f"math.{name}": number for number, name in enumerate(MATH_FUNCTIONS)}
"""Functions of FMATH."""

AFFINE = {
    AffineBinaryOpKind.Add: Op.ADD,
    AffineBinaryOpKind.Mul: Op.MUL,
    AffineBinaryOpKind.Mod: Op.MODS,
    AffineBinaryOpKind.FloorDiv: Op.FLOORDIVS,
    AffineBinaryOpKind.CeilDiv: Op.CEILDIVS,
}

FORMATS: dict[type[Attribute], int] = {Float16Type: 16, BFloat16Type: 17, Float32Type: 32, Float64Type: 64}
"""Float types → the formats of docs/program.md."""

EQ, SLT, ULT = 0, 2, 6
OEQ, OGE, OLT, UNO = 1, 3, 4, 14
"""Predicates of `arith.cmpi` and `arith.cmpf`."""


def width(type: Attribute, op: Operation) -> int:
    """Return the width of an integer or the format of a float; CompileError at `op` for what host code cannot compute
    with.
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
    """Return the bits of a float in a format of docs/program.md."""
    if format == 17:
        return int.from_bytes(bytes(BFloat16Type().pack([value])), "little")
    if format == 16:
        import numpy as np

        with np.errstate(over="ignore"):
            return int(np.array(value, np.float16).view(np.uint16))
    if format == 32:
        import numpy as np

        with np.errstate(over="ignore"):
            return int(np.array(value, np.float32).view(np.uint32))
    return cast(int, struct.unpack("<Q", struct.pack("<d", value))[0])


def constant_bits(attribute: Attribute, op: Operation) -> int:
    """Return the register value of a scalar constant attribute."""
    if isinstance(attribute, IntegerAttr):
        value = attribute.value.data
        bits = width(attribute.type, op)
        value &= (1 << bits) - 1
        return value - (1 << bits) if value >> (bits - 1) and bits > 1 else value
    if isinstance(attribute, FloatAttr):
        if attribute.type.bitwidth <= 8:
            return int.from_bytes(bytes(cast(Any, attribute.type).pack([attribute.value.data])), "little")
        return float_bits(attribute.value.data, width(attribute.type, op))
    raise CompileError(f"constant {attribute} is not a scalar", location_of(op))
