"""Integer instructions of SPIR-V; what operations mean is in `shaders/integers.py`."""

from __future__ import annotations

from pydispatch.compiler.emit.shaders.integers import Division, Extreme, Integers, Shift
from pydispatch.compiler.emit.shaders.values import known
from pydispatch.compiler.emit.spirv.function import FunctionEmitter, Lowering
from pydispatch.compiler.emit.spirv.module import Id
from pydispatch.compiler.emit.spirv.ops.registers import SpirvRegisters
from pydispatch.compiler.emit.spirv.types import Index

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


class _Integers(SpirvRegisters, Integers[FunctionEmitter, Id]):
    def divided(
        self, emitter: FunctionEmitter, division: Division, bits: int, width: int, lhs: Index, rhs: Index
    ) -> Id:
        m, let, instruction = emitter.m, emitter.code.let, DIVISIONS[division]
        type_, is_signed, is_quotient = m.int(width), division.is_signed, division.is_quotient

        def as_id(value: Index) -> Id:
            return value if isinstance(value, Id) else m.integer(value, width)

        if known(rhs) and rhs > 0:
            left = as_id(lhs) if is_signed else self.zero_extended(emitter, as_id(lhs), bits, width)
            if not is_signed and rhs & (rhs - 1) == 0:
                shift = rhs.bit_length() - 1
                op, operand = ("ShiftRightLogical", shift) if is_quotient else ("BitwiseAnd", rhs - 1)
                return self.wrap(emitter, let(op, type_, left, m.integer(operand, width)), bits, width)
            return self.wrap(emitter, let(instruction, type_, left, m.integer(rhs, width)), bits, width)
        left, right = as_id(lhs), as_id(rhs)
        if not is_signed:
            left, right = (
                self.zero_extended(emitter, left, bits, width),
                self.zero_extended(emitter, right, bits, width),
            )
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
        return self.wrap(emitter, result, bits, width)

    def divided_in_range(self, emitter: FunctionEmitter, division: Division, width: int, lhs: Id, rhs: Id) -> Id:
        return emitter.code.let(DIVISIONS[division], emitter.m.int(width), lhs, rhs)

    def shifted(
        self, emitter: FunctionEmitter, shift: Shift, bits: int, width: int, value: Id, amount: Id, count: Index,
        fits: bool,
    ) -> Id:  # fmt: skip
        let, m, instruction, register = emitter.code.let, emitter.m, SHIFTS[shift], emitter.m.int(width)
        if fits:
            return let(instruction, register, value, amount)
        is_below = let("ULessThan", m.bool(), self.zero_extended(emitter, amount, bits, width), m.integer(bits, width))
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
            low, high = (
                self.wrap(emitter, low, bits, 32),
                self.wrap(emitter, let(shift, word, low, m.integer(bits)), bits, 32),
            )
        return low, high


ROWS: dict[str, Lowering] = _Integers().rows()
