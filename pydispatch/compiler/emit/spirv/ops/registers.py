"""Instructions of SPIR-V on registers, for the lowerings of all subjects."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Attribute, Operation, SSAValue

from pydispatch.compiler.emit.llvm.types import float_bits
from pydispatch.compiler.emit.shaders.registers import Registers
from pydispatch.compiler.emit.shaders.values import is_native_float, signed
from pydispatch.compiler.emit.spirv.definitions import expand
from pydispatch.compiler.emit.spirv.function import FunctionEmitter
from pydispatch.compiler.emit.spirv.module import Id
from pydispatch.compiler.kernel_ir.readers import INT_PREDICATES
from pydispatch.compiler.kernel_ir.types import bit_width

COMPARISONS = dict(
    zip(INT_PREDICATES, ("IEqual", "INotEqual", "SLessThan", "SLessThanEqual", "SGreaterThan", "SGreaterThanEqual",
                         "ULessThan", "ULessThanEqual", "UGreaterThan", "UGreaterThanEqual"), strict=True)
)  # fmt: skip
ARITHMETIC = {
    "add": "IAdd", "sub": "ISub", "mul": "IMul", "and": "BitwiseAnd", "or": "BitwiseOr", "xor": "BitwiseXor",
}  # fmt: skip
LOGICAL = {"and": "LogicalAnd", "or": "LogicalOr", "eq": "LogicalEqual", "ne": "LogicalNotEqual"}


class SpirvRegisters(Registers[FunctionEmitter, Id]):
    """Instructions of SPIR-V on registers."""

    def operands(self, emitter: FunctionEmitter, values: Sequence[SSAValue]) -> list[Id]:
        return [emitter.get(value) for value in values]

    def wrap(self, emitter: FunctionEmitter, value: Id, bits: int, width: int) -> Id:
        if bits == width:
            return value
        let, type_ = emitter.code.let, emitter.m.int(width)
        if width == 32:
            return let("BitFieldSExtract", type_, value, emitter.m.integer(0), emitter.m.integer(bits))
        shift = emitter.m.integer(width - bits, 32)
        return let("ShiftRightArithmetic", type_, let("ShiftLeftLogical", type_, value, shift), shift)

    def zero_extended(self, emitter: FunctionEmitter, value: Id, bits: int, width: int) -> Id:
        if bits == width:
            return value
        return emitter.code.let("BitwiseAnd", emitter.m.int(width), value, emitter.m.integer((1 << bits) - 1, width))

    def resized(self, emitter: FunctionEmitter, value: Id, from_width: int, to_width: int) -> Id:
        m, let = emitter.m, emitter.code.let
        if from_width == to_width:
            return value
        if to_width == 1:
            bit = let("BitwiseAnd", m.int(from_width), value, m.integer(1, from_width))
            return let("INotEqual", m.bool(), bit, m.integer(0, from_width))
        type_ = m.int(to_width)
        if from_width == 1:
            return let("Select", type_, value, m.integer(-1, to_width), m.integer(0, to_width))
        if to_width == 64:
            # Mesa 22.3's lavapipe compares what SConvert extends with constants wrongly; GPUs make the same of both.
            high = let("ShiftRightArithmetic", m.int(32), value, m.integer(31))
            return let("Bitcast", type_, let("CompositeConstruct", m.type("TypeVector", m.int(32), 2), value, high))
        return let("SConvert", type_, value)

    def logical(self, emitter: FunctionEmitter, kind: str, lhs: Id, rhs: Id) -> Id:
        let, truth = emitter.code.let, emitter.m.bool()
        if kind == "and_not":
            return let("LogicalAnd", truth, lhs, self.inverted(emitter, rhs))
        if kind in ("not_and", "not_or"):
            return let(LOGICAL[kind.removeprefix("not_")], truth, self.inverted(emitter, lhs), rhs)
        return let(LOGICAL[kind], truth, lhs, rhs)

    def inverted(self, emitter: FunctionEmitter, value: Id) -> Id:
        return emitter.code.let("LogicalNot", emitter.m.bool(), value)

    def arithmetic(self, emitter: FunctionEmitter, kind: str, width: int, lhs: Id, rhs: Id) -> Id:
        return emitter.code.let(ARITHMETIC[kind], emitter.m.int(width), lhs, rhs)

    def compared(self, emitter: FunctionEmitter, predicate: str, width: int, lhs: Id, rhs: Id) -> Id:
        return emitter.code.let(COMPARISONS[predicate], emitter.m.bool(), lhs, rhs)

    def select(self, emitter: FunctionEmitter, type_: Attribute, condition: Id, then: Id, other: Id) -> Id:
        return emitter.code.let("Select", emitter.type(type_), condition, then, other)

    def float_constant(self, emitter: FunctionEmitter, value: float, type_: Attribute) -> Id:
        bits = float_bits(value, type_)
        if is_native_float(type_):
            return emitter.m.number(bits, bit_width(type_))
        return emitter.m.integer(signed(bits, bit_width(type_)))

    def from_bits(self, emitter: FunctionEmitter, value: Id, type_: Attribute) -> Id:
        return emitter.code.let("Bitcast", emitter.type(type_), value) if is_native_float(type_) else value

    def to_bits(self, emitter: FunctionEmitter, value: Id, type_: Attribute) -> Id:
        if not is_native_float(type_):
            return value
        return emitter.code.let("Bitcast", emitter.m.int(bit_width(type_)), value)

    def expand(self, emitter: FunctionEmitter, op: Operation, exponent: int | None = None) -> None:
        expand(emitter, op, exponent)


REGISTERS = SpirvRegisters()
