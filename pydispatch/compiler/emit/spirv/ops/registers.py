"""Instructions of SPIR-V on registers, for the lowerings of all subjects."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Attribute, Operation, SSAValue

from pydispatch.compiler.emit.llvm.types import float_bits
from pydispatch.compiler.emit.shaders.registers import ARITHMETIC_RIGHT, LEFT, LOGICAL_RIGHT, Registers, Shift
from pydispatch.compiler.emit.shaders.values import is_f32_or_f64, signed
from pydispatch.compiler.emit.spirv.definitions import expand
from pydispatch.compiler.emit.spirv.function import FunctionEmitter
from pydispatch.compiler.emit.spirv.module import Id
from pydispatch.compiler.kernel_ir.readers import INT_PREDICATES
from pydispatch.compiler.kernel_ir.types import bit_width

COMPARISONS = dict(
    zip(INT_PREDICATES, ("IEqual", "INotEqual", "SLessThan", "SLessThanEqual", "SGreaterThan", "SGreaterThanEqual",
                         "ULessThan", "ULessThanEqual", "UGreaterThan", "UGreaterThanEqual"), strict=True)
)  # fmt: skip
"""Predicates of `arith.cmpi` -> instructions."""
ARITHMETIC = {
    "add": "IAdd", "sub": "ISub", "mul": "IMul", "and": "BitwiseAnd", "or": "BitwiseOr", "xor": "BitwiseXor",
}  # fmt: skip
"""Kinds of arithmetic on integers -> instructions."""
SHIFTS = {
    LEFT: "ShiftLeftLogical", LOGICAL_RIGHT: "ShiftRightLogical", ARITHMETIC_RIGHT: "ShiftRightArithmetic",
}  # fmt: skip
"""Shifts -> instructions."""
LOGICAL = {"and": "LogicalAnd", "or": "LogicalOr", "eq": "LogicalEqual", "ne": "LogicalNotEqual"}
"""Kinds of operations on bools -> instructions."""


class SpirvRegisters(Registers[FunctionEmitter, Id]):
    """Base of all lowerings to SPIR-V: emitters of the instructions on ids that lowerings of several subjects use."""

    def operands(self, emitter: FunctionEmitter, values: Sequence[SSAValue]) -> list[Id]:
        """Return the registers of values."""
        return [emitter.get(value) for value in values]

    def sign_extended(self, emitter: FunctionEmitter, value: Id, *, bits: int, width: int) -> Id:
        """Sign-extend the low `bits` bits of a register of `width` bits."""
        if bits == width:
            return value
        let, type_ = emitter.code.let, emitter.m.int(width)
        if width == 32:  # Vulkan has instructions on bit fields of 32 bits only
            return let("BitFieldSExtract", type_, value, emitter.m.integer(0), emitter.m.integer(bits))
        shift = emitter.m.integer(width - bits, 32)  # to the left until the sign is the highest bit, and back
        return let("ShiftRightArithmetic", type_, let("ShiftLeftLogical", type_, value, shift), shift)

    def zero_extended(self, emitter: FunctionEmitter, value: Id, bits: int, width: int) -> Id:
        """Clear all but the low `bits` bits of a register of `width` bits."""
        if bits == width:
            return value
        return emitter.code.let("BitwiseAnd", emitter.m.int(width), value, emitter.m.integer((1 << bits) - 1, width))

    def resized(self, emitter: FunctionEmitter, value: Id, from_width: int, to_width: int) -> Id:
        """Convert a register between 1 (bool), 32 and 64 bits.

        A bool becomes 0 or -1. An integer that is converted to a bool becomes its lowest bit; to other widths, it is
        extended with its sign, or loses its high bits.
        """
        module, let = emitter.m, emitter.code.let
        if from_width == to_width:
            return value
        if to_width == 1:
            bit = let("BitwiseAnd", module.int(from_width), value, module.integer(1, from_width))
            return let("INotEqual", module.bool(), bit, module.integer(0, from_width))
        type_ = module.int(to_width)
        if from_width == 1:
            return let("Select", type_, value, module.integer(-1, to_width), module.integer(0, to_width))
        if to_width == 64:
            # Mesa 22.3's lavapipe compares results of SConvert with constants wrongly: the high word is made of copies
            # of the sign instead, which GPUs compile to the same instructions.
            high = let("ShiftRightArithmetic", module.int(32), value, module.integer(31))
            words = let("CompositeConstruct", module.type("TypeVector", module.int(32), 2), value, high)
            return let("Bitcast", type_, words)
        return let("SConvert", type_, value)

    def logical(self, emitter: FunctionEmitter, kind: str, lhs: Id, rhs: Id) -> Id:
        """Emit a logical instruction on bools: "and", "or", "eq" or "ne"."""
        return emitter.code.let(LOGICAL[kind], emitter.m.bool(), lhs, rhs)

    def inverted(self, emitter: FunctionEmitter, value: Id) -> Id:
        """Emit the negation of a bool."""
        return emitter.code.let("LogicalNot", emitter.m.bool(), value)

    def arithmetic(self, emitter: FunctionEmitter, kind: str, width: int, lhs: Id, rhs: Id) -> Id:
        """Emit an instruction on integers of `width` bits: a key of `ARITHMETIC`. Results wrap around."""
        return emitter.code.let(ARITHMETIC[kind], emitter.m.int(width), lhs, rhs)

    def shifted(self, emitter: FunctionEmitter, shift: Shift, width: int, value: Id, count: Id | int) -> Id:
        """Emit a shift of an integer of `width` bits by a register, or by a number known while compiling."""
        amount = count if isinstance(count, Id) else emitter.m.integer(count)
        return emitter.code.let(SHIFTS[shift], emitter.m.int(width), value, amount)

    def compared(self, emitter: FunctionEmitter, predicate: str, width: int, lhs: Id, rhs: Id) -> Id:
        """Emit the comparison of integers of `width` bits by a predicate of `arith.cmpi`; the result is a bool."""
        return emitter.code.let(COMPARISONS[predicate], emitter.m.bool(), lhs, rhs)

    def select(self, emitter: FunctionEmitter, type_: Attribute, condition: Id, then: Id, other: Id) -> Id:
        """Emit the choice of `then` where a bool holds, else of `other`; both are registers of a type of kernel IR."""
        return emitter.code.let("Select", emitter.type(type_), condition, then, other)

    def float_constant(self, emitter: FunctionEmitter, value: float, type_: Attribute) -> Id:
        """Return a float constant of a type, or the bits of one that SPIR-V has no type for, as an integer."""
        bits = float_bits(value, type_)
        if is_f32_or_f64(type_):
            return emitter.m.float_constant(bits, bit_width(type_))
        return emitter.m.integer(signed(bits, bit_width(type_)))

    def from_bits(self, emitter: FunctionEmitter, value: Id, type_: Attribute) -> Id:
        """Convert an integer register, which holds the bits of a scalar, to the register of the scalar's type.

        Only f32 and f64 have float registers. Scalars of other types are held as their bits: `value` is returned.
        """
        return emitter.code.let("Bitcast", emitter.type(type_), value) if is_f32_or_f64(type_) else value

    def to_bits(self, emitter: FunctionEmitter, value: Id, type_: Attribute) -> Id:
        """Convert the register of a scalar to an integer register that holds the scalar's bits."""
        if not is_f32_or_f64(type_):  # only f32 and f64 have float registers: this one holds the bits already
            return value
        return emitter.code.let("Bitcast", emitter.m.int(bit_width(type_)), value)

    def expand(self, emitter: FunctionEmitter, op: Operation, exponent: int | None = None) -> None:
        """Lower an operation by its definition in kernel IR.

        exponent: the exponent of an integer power if it is known while compiling, else None.
        """
        expand(emitter, op, exponent)


REGISTERS = SpirvRegisters()
"""Instructions on registers for code outside of the lowerings' classes."""
