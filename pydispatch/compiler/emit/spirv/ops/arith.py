"""Integer instructions of SPIR-V; what operations mean is in `shaders/integers.py`."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Attribute, Operation, SSAValue

from pydispatch.compiler.emit.shaders.integers import Division, Extreme, Integers, Shift
from pydispatch.compiler.emit.shaders.values import known
from pydispatch.compiler.emit.spirv.definitions import expand
from pydispatch.compiler.emit.spirv.function import FunctionEmitter, Lowering
from pydispatch.compiler.emit.spirv.module import Id
from pydispatch.compiler.emit.spirv.ops.floats import float_constant
from pydispatch.compiler.emit.spirv.types import Index
from pydispatch.compiler.kernel_ir.readers import INT_PREDICATES

COMPARISONS = dict(
    zip(INT_PREDICATES, ("IEqual", "INotEqual", "SLessThan", "SLessThanEqual", "SGreaterThan", "SGreaterThanEqual",
                         "ULessThan", "ULessThanEqual", "UGreaterThan", "UGreaterThanEqual"), strict=True)
)  # fmt: skip
ARITHMETIC = {
    "add": "IAdd", "sub": "ISub", "mul": "IMul", "and": "BitwiseAnd", "or": "BitwiseOr", "xor": "BitwiseXor",
}  # fmt: skip
LOGICAL = {"and": "LogicalAnd", "or": "LogicalOr", "eq": "LogicalEqual", "ne": "LogicalNotEqual"}
DIVISIONS = {
    Division(is_signed=True, is_quotient=True): "SDiv",
    Division(is_signed=False, is_quotient=True): "UDiv",
    Division(is_signed=True, is_quotient=False): "SRem",
    Division(is_signed=False, is_quotient=False): "UMod",
}
SHIFTS = {
    Shift(is_left=True, is_signed=True): "ShiftLeftLogical",
    Shift(is_left=False, is_signed=True): "ShiftRightArithmetic",
    Shift(is_left=False, is_signed=False): "ShiftRightLogical",
}


def wrap(emitter: FunctionEmitter, value: Id, bits: int, width: int) -> Id:
    """Sign-extend the low `bits` of a register to all of it."""
    if bits == width:
        return value
    if width == 32:
        return emitter.code.let(
            "BitFieldSExtract", emitter.m.int(32), value, emitter.m.integer(0), emitter.m.integer(bits)
        )
    shift = emitter.m.integer(width - bits, 32)
    type_ = emitter.m.int(width)
    return emitter.code.let(
        "ShiftRightArithmetic", type_, emitter.code.let("ShiftLeftLogical", type_, value, shift), shift
    )


def zero_extended(emitter: FunctionEmitter, value: Id, bits: int, width: int) -> Id:
    """Zero-extend the low `bits` of a register to all of it."""
    if bits == width:
        return value
    return emitter.code.let("BitwiseAnd", emitter.m.int(width), value, emitter.m.integer((1 << bits) - 1, width))


class _Integers(Integers[FunctionEmitter, Id]):
    def operands(self, emitter: FunctionEmitter, values: Sequence[SSAValue]) -> list[Id]:
        return [emitter.get(value) for value in values]

    def wrap(self, emitter: FunctionEmitter, value: Id, bits: int, width: int) -> Id:
        return wrap(emitter, value, bits, width)

    def zero_extended(self, emitter: FunctionEmitter, value: Id, bits: int, width: int) -> Id:
        return zero_extended(emitter, value, bits, width)

    def logical(self, emitter: FunctionEmitter, kind: str, lhs: Id, rhs: Id) -> Id:
        let, truth = emitter.code.let, emitter.m.bool()
        if kind == "and_not":
            return let("LogicalAnd", truth, lhs, let("LogicalNot", truth, rhs))
        if kind in ("not_and", "not_or"):
            return let(LOGICAL[kind.removeprefix("not_")], truth, let("LogicalNot", truth, lhs), rhs)
        return let(LOGICAL[kind], truth, lhs, rhs)

    def arithmetic(self, emitter: FunctionEmitter, kind: str, width: int, lhs: Id, rhs: Id) -> Id:
        return emitter.code.let(ARITHMETIC[kind], emitter.m.int(width), lhs, rhs)

    def divided(
        self, emitter: FunctionEmitter, division: Division, bits: int, width: int, lhs: Index, rhs: Index
    ) -> Id:
        m, let, instruction = emitter.m, emitter.code.let, DIVISIONS[division]
        type_, is_signed, is_quotient = m.int(width), division.is_signed, division.is_quotient

        def as_id(value: Index) -> Id:
            return value if isinstance(value, Id) else m.integer(value, width)

        if known(rhs) and rhs > 0:
            left = as_id(lhs) if is_signed else zero_extended(emitter, as_id(lhs), bits, width)
            if not is_signed and rhs & (rhs - 1) == 0:
                shift = rhs.bit_length() - 1
                op, operand = ("ShiftRightLogical", shift) if is_quotient else ("BitwiseAnd", rhs - 1)
                return wrap(emitter, let(op, type_, left, m.integer(operand, width)), bits, width)
            return wrap(emitter, let(instruction, type_, left, m.integer(rhs, width)), bits, width)
        left, right = as_id(lhs), as_id(rhs)
        if not is_signed:
            left, right = zero_extended(emitter, left, bits, width), zero_extended(emitter, right, bits, width)
        zero, one = m.integer(0, width), m.integer(1, width)
        is_zero = let("IEqual", m.bool(), right, zero)
        unsafe = is_zero
        if is_signed:
            is_minus = let("IEqual", m.bool(), right, m.integer(-1, width))
            unsafe = let("LogicalOr", m.bool(), is_zero, is_minus)
        result = let(instruction, type_, left, let("Select", type_, unsafe, one, right))
        if is_signed and is_quotient:
            result = let("Select", type_, is_minus, let("SNegate", type_, left), result)
        result = let("Select", type_, is_zero, zero if is_quotient else left, result)
        return wrap(emitter, result, bits, width)

    def divided_in_range(self, emitter: FunctionEmitter, division: Division, width: int, lhs: Id, rhs: Id) -> Id:
        return emitter.code.let(DIVISIONS[division], emitter.m.int(width), lhs, rhs)

    def shifted(
        self, emitter: FunctionEmitter, shift: Shift, bits: int, width: int, value: Id, amount: Id, count: Index,
        fits: bool,
    ) -> Id:  # fmt: skip
        let, m, instruction, register = emitter.code.let, emitter.m, SHIFTS[shift], emitter.m.int(width)
        if fits:
            return let(instruction, register, value, amount)
        is_below = let("ULessThan", m.bool(), zero_extended(emitter, amount, bits, width), m.integer(bits, width))
        if instruction == "ShiftRightArithmetic":
            most = let("Select", register, is_below, amount, m.integer(bits - 1, width))
            return let(instruction, register, value, most)
        most = let("Select", register, is_below, amount, m.integer(0, width))
        return let("Select", register, is_below, let(instruction, register, value, most), m.integer(0, width))

    def rounds_away(
        self, emitter: FunctionEmitter, width: int, remainder: Id, rhs: Id, is_known: bool, up: bool, is_signed: bool
    ) -> Id:
        m, let, zero = emitter.m, emitter.code.let, emitter.m.integer(0, width)
        moves = let("INotEqual", m.bool(), remainder, zero)
        if not is_known:
            moves = let("LogicalAnd", m.bool(), moves, let("INotEqual", m.bool(), rhs, zero))
        if is_signed:
            signs = let("BitwiseXor", m.int(width), remainder, rhs)
            toward = let("SGreaterThanEqual" if up else "SLessThan", m.bool(), signs, zero)
            moves = let("LogicalAnd", m.bool(), moves, toward)
        return moves

    def extreme(self, emitter: FunctionEmitter, extreme: Extreme, width: int, lhs: Id, rhs: Id) -> Id:
        sign = "S" if extreme.is_signed else "U"
        if width == 32:
            return emitter.code.glsl(sign + ("Max" if extreme.is_larger else "Min"), emitter.m.int(32), lhs, rhs)
        compare = sign + ("GreaterThan" if extreme.is_larger else "LessThan")
        is_first = emitter.code.let(compare, emitter.m.bool(), lhs, rhs)
        return emitter.code.let("Select", emitter.m.int(64), is_first, lhs, rhs)

    def product(self, emitter: FunctionEmitter, is_signed: bool, bits: int, lhs: Id, rhs: Id) -> tuple[Id, Id]:
        m, let, word = emitter.m, emitter.code.let, emitter.m.int(32)
        pair = let("SMulExtended" if is_signed else "UMulExtended", m.type("TypeStruct", word, word), lhs, rhs)
        low, high = (let("CompositeExtract", word, pair, part) for part in (0, 1))
        if bits < 32:
            shift = "ShiftRightArithmetic" if is_signed else "ShiftRightLogical"
            low, high = wrap(emitter, low, bits, 32), wrap(emitter, let(shift, word, low, m.integer(bits)), bits, 32)
        return low, high

    def compared(self, emitter: FunctionEmitter, predicate: str, width: int, lhs: Id, rhs: Id) -> Id:
        return emitter.code.let(COMPARISONS[predicate], emitter.m.bool(), lhs, rhs)

    def select(self, emitter: FunctionEmitter, type_: Attribute, condition: Id, then: Id, other: Id) -> Id:
        return emitter.code.let("Select", emitter.type(type_), condition, then, other)

    def float_constant(self, emitter: FunctionEmitter, value: float, type_: Attribute) -> Id:
        return float_constant(emitter, value, type_)

    def expand(self, emitter: FunctionEmitter, op: Operation) -> None:
        expand(emitter, op)


ROWS: dict[str, Lowering] = _Integers().rows()
