"""Scalar operations of host code → instructions of the host program.

One row per operation. Integers live sign-extended in 64-bit registers, floats as their bits; `index` is 64 bits wide.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, cast

from xdsl.dialects.builtin import (
    AffineMapAttr,
    Float32Type,
    Float64Type,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.ir.affine import AffineBinaryOpExpr, AffineBinaryOpKind, AffineConstantExpr, AffineDimExpr, AffineExpr
from xdsl.ir.affine import AffineSymExpr as AffineSymbolExpr

from pydispatch.errors import CompileError
from pydispatch.formats.program import Function, Op
from pydispatch.ir.location import location_of

Registers = dict[SSAValue, int]

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
}

MATH = {
    "math.sqrt": 0,
    "math.exp": 1,
    "math.log": 2,
    "math.floor": 3,
    "math.ceil": 4,
    "math.absf": 5,
    "math.tanh": 6,
    "math.sin": 7,
    "math.cos": 8,
}

AFFINE = {
    AffineBinaryOpKind.Add: Op.ADD,
    AffineBinaryOpKind.Mul: Op.MUL,
    AffineBinaryOpKind.Mod: Op.MODS,
    AffineBinaryOpKind.FloorDiv: Op.FLOORDIVS,
    AffineBinaryOpKind.CeilDiv: Op.CEILDIVS,
}


def width(type: Attribute, op: Operation) -> int:
    """The register width of a scalar type; CompileError at `op` for a type that host code cannot compute with."""
    if isinstance(type, IndexType):
        return 64
    if isinstance(type, IntegerType) and type.width.data <= 64:
        return type.width.data
    if isinstance(type, Float32Type):
        return 32
    if isinstance(type, Float64Type):
        return 64
    raise CompileError(
        f"'{op.name}' on {type} is not supported in host code",
        location_of(op),
        "host code computes with index, integers of up to 64 bits, f32 and f64; other types belong into a dispatch",
    )


def float_bits(value: float, bits: int) -> int:
    """The bits of an f32 or f64."""
    code = {32: ("<f", "<I"), 64: ("<d", "<Q")}[bits]
    return cast(int, struct.unpack(code[1], struct.pack(code[0], value))[0])


def constant_bits(attribute: Attribute, op: Operation) -> int:
    """The register value of a scalar constant attribute."""
    if isinstance(attribute, IntegerAttr):
        value = attribute.value.data
        bits = width(attribute.type, op)
        return value - (1 << bits) if value >> (bits - 1) == 1 and bits > 1 else value
    if isinstance(attribute, FloatAttr):
        return float_bits(attribute.value.data, width(attribute.type, op))
    raise CompileError(f"constant {attribute} is not a scalar", location_of(op))


class ScalarLowering:
    """Lowers scalar operations into one function of the host program.

    `registers` maps SSA values to registers and may be filled by the caller (block arguments, sizes).
    """

    def __init__(self, function: Function) -> None:
        self.function = function

    def lower(self, op: Operation, registers: Registers) -> bool:
        """Emits `op` and records its results; False when it is not a scalar operation of host code."""
        row = ROWS.get(op.name)
        if row is not None:
            row(self, op, registers)
        elif op.name in BINARY:
            a, b = (registers[v] for v in op.operands)
            registers[op.results[0]] = self.function.binary(BINARY[op.name], a, b, width(op.results[0].type, op))
        elif op.name in MATH:
            bits = width(op.results[0].type, op)
            value = self.function.emit(Op.FMATH, registers[op.operands[0]], MATH[op.name], 0, bits)
            registers[op.results[0]] = value
        else:
            return False
        return True

    def affine(self, expression: AffineExpr, dims: list[int], symbols: list[int]) -> int:
        """The register of an affine expression over registers."""
        if isinstance(expression, AffineConstantExpr):
            return self.function.constant(expression.value)
        if isinstance(expression, AffineDimExpr):
            return dims[expression.position]
        if isinstance(expression, AffineSymbolExpr):
            return symbols[expression.position]
        assert isinstance(expression, AffineBinaryOpExpr)
        a = self.affine(expression.lhs, dims, symbols)
        b = self.affine(expression.rhs, dims, symbols)
        return self.function.binary(AFFINE[expression.kind], a, b)

    # -- rows

    def constant(self, op: Operation, registers: Registers) -> None:
        value = op.properties.get("value", op.attributes.get("value"))
        assert value is not None
        registers[op.results[0]] = self.function.constant(constant_bits(value, op))

    def compare(self, op: Operation, registers: Registers) -> None:
        a, b = (registers[v] for v in op.operands)
        predicate = cast("IntegerAttr[Any]", op.properties["predicate"]).value.data
        opcode = Op.FCMP if op.name == "arith.cmpf" else Op.CMP
        modifier = width(op.operands[0].type, op) + predicate * 256
        registers[op.results[0]] = self.function.emit(opcode, a, b, 0, modifier)

    def select(self, op: Operation, registers: Registers) -> None:
        condition, a, b = (registers[v] for v in op.operands)
        registers[op.results[0]] = self.function.emit(Op.SELECT, condition, a, b)

    def extend(self, op: Operation, registers: Registers) -> None:
        """Extension, truncation and casts of integers: the narrower width decides."""
        source, target = width(op.operands[0].type, op), width(op.results[0].type, op)
        unsigned = op.name in ("arith.extui", "arith.index_castui") and source < target
        opcode = Op.ZEXT if unsigned else Op.SEXT
        register = registers[op.operands[0]]
        narrow = min(source, target)
        registers[op.results[0]] = register if narrow == 64 else self.function.emit(opcode, register, 0, 0, narrow)

    def convert(self, op: Operation, registers: Registers) -> None:
        """Between floats and integers, and between floats."""
        opcode = {
            "arith.extf": Op.FCVT,
            "arith.truncf": Op.FCVT,
            "arith.sitofp": Op.SITOFP,
            "arith.uitofp": Op.UITOFP,
            "arith.fptosi": Op.FPTOSI,
            "arith.fptoui": Op.FPTOUI,
        }[op.name]
        source, target = width(op.operands[0].type, op), width(op.results[0].type, op)
        registers[op.results[0]] = self.function.emit(opcode, registers[op.operands[0]], source, 0, target)

    def bitcast(self, op: Operation, registers: Registers) -> None:
        bits = width(op.results[0].type, op)
        opcode = Op.SEXT if isinstance(op.results[0].type, IntegerType) else Op.ZEXT
        register = registers[op.operands[0]]
        registers[op.results[0]] = register if bits == 64 else self.function.emit(opcode, register, 0, 0, bits)

    def negate(self, op: Operation, registers: Registers) -> None:
        bits = width(op.results[0].type, op)
        registers[op.results[0]] = self.function.emit(Op.FNEG, registers[op.operands[0]], 0, 0, bits)

    def apply(self, op: Operation, registers: Registers) -> None:
        """affine.apply, affine.min and affine.max."""
        attribute = op.properties.get("map", op.attributes.get("map"))
        map = cast(AffineMapAttr, attribute).data
        operands = [registers[v] for v in op.operands]
        dims, symbols = operands[: map.num_dims], operands[map.num_dims :]
        values = [self.affine(e, dims, symbols) for e in map.results]
        combine = {"affine.min": Op.MINS, "affine.max": Op.MAXS}.get(op.name, Op.ADD)
        result = values[0]
        for value in values[1:]:
            result = self.function.binary(combine, result, value)
        registers[op.results[0]] = result

    def query(self, op: Operation, registers: Registers) -> None:
        """hal.device.query: whether the device knows the key, and its value or the default."""
        category = cast(Any, op.properties["category"]).data
        key = cast(Any, op.properties["key"]).data
        default = op.properties.get("default_value")
        fallback = constant_bits(default, op) if default is not None else 0
        index = self.function.program.add_query(category, key, fallback)
        registers[op.results[0]] = self.function.emit(Op.QUERY, index, 0, 0, 1)
        registers[op.results[1]] = self.function.emit(Op.QUERY, index)


ROWS: dict[str, Callable[[ScalarLowering, Operation, Registers], None]] = {
    "arith.constant": ScalarLowering.constant,
    "arith.cmpi": ScalarLowering.compare,
    "arith.cmpf": ScalarLowering.compare,
    "arith.select": ScalarLowering.select,
    "arith.negf": ScalarLowering.negate,
    "arith.bitcast": ScalarLowering.bitcast,
    "affine.apply": ScalarLowering.apply,
    "affine.min": ScalarLowering.apply,
    "affine.max": ScalarLowering.apply,
    "hal.device.query": ScalarLowering.query,
    **dict.fromkeys(
        ("arith.extsi", "arith.extui", "arith.trunci", "arith.index_cast", "arith.index_castui"), ScalarLowering.extend
    ),
    **dict.fromkeys(
        ("arith.extf", "arith.truncf", "arith.sitofp", "arith.uitofp", "arith.fptosi", "arith.fptoui"),
        ScalarLowering.convert,
    ),
}
