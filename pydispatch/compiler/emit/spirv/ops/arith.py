"""arith on integers, constants and choices: one row per operation.

Integers narrower than their register keep its upper bits equal to their sign. Nothing is undefined (docs/kernel-ir.md,
Numbers); guards that constants make superfluous are left out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdsl.dialects.builtin import FloatAttr, IndexType, IntegerAttr, MemRefType
from xdsl.ir import Attribute, Operation, SSAValue

from pydispatch.compiler.emit.shaders.values import known, signed
from pydispatch.compiler.emit.spirv.definitions import expand
from pydispatch.compiler.emit.spirv.function import FunctionEmitter, Lowering
from pydispatch.compiler.emit.spirv.module import Id
from pydispatch.compiler.emit.spirv.ops.floats import float_constant
from pydispatch.compiler.emit.spirv.types import Index
from pydispatch.compiler.kernel_ir.kernel import IN_RANGE
from pydispatch.compiler.kernel_ir.readers import INT_PREDICATES, attribute, integer, op_name, operands_of
from pydispatch.compiler.kernel_ir.types import bit_width, is_integer

INT_COMPARISONS = dict(
    zip(INT_PREDICATES, ("IEqual", "INotEqual", "SLessThan", "SLessThanEqual", "SGreaterThan", "SGreaterThanEqual",
                         "ULessThan", "ULessThanEqual", "UGreaterThan", "UGreaterThanEqual"), strict=True)
)  # fmt: skip


def bits_of(emitter: FunctionEmitter, type_: Attribute) -> int:
    """Return the significant bits of an integer type; its register may have more."""
    if not is_integer(type_):
        raise emitter.error(
            f"operation '{op_name(emitter.op)}' on {type_} cannot be compiled into a kernel",
            "kernel IR computes on scalars; vectors come from parallel loops",
        )
    return emitter.index_width if type(type_) is IndexType else min(bit_width(type_), emitter.width(type_))


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


def _constant(emitter: FunctionEmitter, op: Operation) -> None:
    value, (result,) = attribute(op, "value"), op.results
    type_ = result.type
    if type(type_) is IndexType and type(value) is IntegerAttr:
        emitter.values[result] = signed(int(value.value.data), emitter.index_width)
        return
    emitter.width(type_)
    if isinstance(value, IntegerAttr):
        emitter.define(result, signed(int(value.value.data), bits_of(emitter, type_)))
    elif isinstance(value, FloatAttr):
        emitter.define(result, float_constant(emitter, float(value.value.data), type_))
    else:
        raise emitter.error(f"a constant of type {type_} cannot be compiled into a kernel")


INDEX_ARITHMETIC: dict[str, Callable[[FunctionEmitter, Index, Index], Index]] = {
    "IAdd": FunctionEmitter.plus, "ISub": FunctionEmitter.minus, "IMul": FunctionEmitter.times,
}  # fmt: skip
"""What indices have of their own: it folds, and gives what a block has already."""


def _int(instruction: str, foldable: Callable[[int, int], int], logical: str = "") -> Lowering:
    """logical: the instruction on i1."""

    of_indices = INDEX_ARITHMETIC.get(instruction)

    def lower(emitter: FunctionEmitter, op: Operation) -> None:
        (first, second), (result,) = operands_of(op), op.results
        type_ = result.type
        if of_indices is not None and type(type_) is IndexType:
            values: dict[SSAValue, Any] = emitter.values
            values[result] = of_indices(emitter, values[first], values[second])
            return
        a, b = emitter.index(first), emitter.index(second)
        bits, width = bits_of(emitter, type_), emitter.width(type_)
        if known(a) and known(b):
            emitter.define(result, signed(foldable(a, b), bits))
            return
        if width == 1:
            emitter.define(result, emitter.code.let(logical, emitter.m.bool(), emitter.get(first), emitter.get(second)))
            return
        if instruction in ("IAdd", "IMul", "ISub") and (short := _neutral(instruction, a, b)) is not None:
            emitter.define(result, short)
            return
        value = emitter.code.let(instruction, emitter.m.int(width), emitter.get(first), emitter.get(second))
        bitwise = instruction.startswith("Bitwise")
        emitter.define(result, value if bitwise else wrap(emitter, value, bits, width))

    return lower


def _neutral(instruction: str, lhs: Index, rhs: Index) -> Index | None:
    if instruction == "IMul":
        return rhs if known(lhs) and lhs == 1 else lhs if known(rhs) and rhs == 1 else None
    if known(rhs) and rhs == 0:
        return lhs
    return rhs if instruction == "IAdd" and known(lhs) and lhs == 0 else None


def divided(emitter: FunctionEmitter, instruction: str, bits: int, width: int, lhs: Index, rhs: Index) -> Id:
    """SDiv, UDiv, SRem, UMod that never trap: by zero 0 and the dividend, the smallest number by -1 itself and 0."""
    m, let = emitter.m, emitter.code.let
    type_, is_signed, quotient = m.int(width), instruction[0] == "S", instruction.endswith("Div")

    def as_id(value: Index) -> Id:
        return value if isinstance(value, Id) else m.integer(value, width)

    if known(rhs) and rhs > 0:
        shift = rhs.bit_length() - 1
        left = as_id(lhs) if is_signed else zero_extended(emitter, as_id(lhs), bits, width)
        if not is_signed and rhs & (rhs - 1) == 0:
            op, operand = ("ShiftRightLogical", shift) if quotient else ("BitwiseAnd", rhs - 1)
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
    if is_signed and quotient:
        result = let("Select", type_, is_minus, let("SNegate", type_, left), result)
    result = let("Select", type_, is_zero, zero if quotient else left, result)
    return wrap(emitter, result, bits, width)


def _division(instruction: str) -> Lowering:
    def lower(emitter: FunctionEmitter, op: Operation) -> None:
        (first, second), (result,) = operands_of(op), op.results
        type_ = result.type
        bits, width = bits_of(emitter, type_), emitter.width(type_)
        a, b = emitter.index(first), emitter.index(second)
        if known(a) and known(b) and a >= 0 and b > 0:
            emitter.define(result, a // b if instruction.endswith("Div") else a % b)
            return
        if IN_RANGE in op.attributes and bits == width and not known(b):
            emitter.define(
                result, emitter.code.let(instruction, emitter.m.int(width), emitter.get(first), emitter.get(second))
            )
            return
        if width == 1:
            emitter.define(result, _division_of_bits(emitter, instruction, emitter.get(first), emitter.get(second)))
            return
        emitter.define(result, divided(emitter, instruction, bits, width, a, b))

    return lower


def _division_of_bits(emitter: FunctionEmitter, instruction: str, lhs: Id, rhs: Id) -> Id:
    """i1: the only divisor is 1, or -1."""
    if instruction.endswith("Div"):
        return emitter.code.let("LogicalAnd", emitter.m.bool(), lhs, rhs)
    return emitter.code.let("LogicalAnd", emitter.m.bool(), lhs, emitter.code.let("LogicalNot", emitter.m.bool(), rhs))


def _shift(instruction: str) -> Lowering:
    """Return the lowering of a shift.

    A shift by the width or more yields 0, or copies of the sign (arithmetic shift).
    """

    def lower(emitter: FunctionEmitter, op: Operation) -> None:
        (first, second), (result,) = operands_of(op), op.results
        bits, width = bits_of(emitter, result.type), emitter.width(result.type)
        count, let, m = emitter.index(second), emitter.code.let, emitter.m
        a, b = emitter.get(first), emitter.get(second)
        if width == 1:
            arithmetic = instruction == "ShiftRightArithmetic"
            emitter.define(result, a if arithmetic else let("LogicalAnd", m.bool(), a, let("LogicalNot", m.bool(), b)))
            return
        register = m.int(width)
        if instruction == "ShiftRightLogical":
            a = zero_extended(emitter, a, bits, width)
        if IN_RANGE in op.attributes or (known(count) and 0 <= count < bits):
            emitter.define(result, wrap(emitter, let(instruction, register, a, b), bits, width))
            return
        fits = let("ULessThan", m.bool(), zero_extended(emitter, b, bits, width), m.integer(bits, width))
        if instruction == "ShiftRightArithmetic":
            shift = let("Select", register, fits, b, m.integer(bits - 1, width))
            emitter.define(result, wrap(emitter, let(instruction, register, a, shift), bits, width))
            return
        shift = let("Select", register, fits, b, m.integer(0, width))
        moved = let("Select", register, fits, let(instruction, register, a, shift), m.integer(0, width))
        emitter.define(result, wrap(emitter, moved, bits, width))

    return lower


def rounded_division(
    emitter: FunctionEmitter, width: int, bits: int, lhs: Index, rhs: Index, up: bool, is_signed: bool
) -> Id:
    """Emit a / b rounded down or up: the quotient is adjusted where the remainder requires it."""
    m, let = emitter.m, emitter.code.let
    if known(rhs) and rhs == 0:
        return m.integer(0, width)
    type_, kinds = m.int(width), ("SDiv", "SRem") if is_signed else ("UDiv", "UMod")
    quotient, remainder = (divided(emitter, kind, bits, width, lhs, rhs) for kind in kinds)
    zero = m.integer(0, width)
    move = let("INotEqual", m.bool(), remainder, zero)
    if not known(rhs):  # by zero the remainder is the dividend, and the quotient stays 0
        move = let("LogicalAnd", m.bool(), move, let("INotEqual", m.bool(), rhs, zero))
    if is_signed:
        signs = let("BitwiseXor", type_, remainder, rhs if isinstance(rhs, Id) else m.integer(rhs, width))
        toward = let("SGreaterThanEqual" if up else "SLessThan", m.bool(), signs, zero)
        move = let("LogicalAnd", m.bool(), move, toward)
    moved = let("IAdd" if up else "ISub", type_, quotient, m.integer(1, width))
    return wrap(emitter, let("Select", type_, move, moved, quotient), bits, width)


def _rounded(up: bool, is_signed: bool = True) -> Lowering:
    def lower(emitter: FunctionEmitter, op: Operation) -> None:
        type_ = op.results[0].type
        bits, width = bits_of(emitter, type_), emitter.width(type_)
        if width == 1:  # nothing is left to round
            emitter.define(
                op.results[0],
                _division_of_bits(emitter, "Div", emitter.get(op.operands[0]), emitter.get(op.operands[1])),
            )
            return
        a, b = emitter.index(op.operands[0]), emitter.index(op.operands[1])
        emitter.define(op.results[0], rounded_division(emitter, width, bits, a, b, up, is_signed))

    return lower


def _extreme(name: str, compare: str) -> Lowering:
    """name: SMin, SMax, UMin, UMax. 64 bits are compared and chosen."""

    def lower(emitter: FunctionEmitter, op: Operation) -> None:
        (first, second), (result,) = operands_of(op), op.results
        bits_of(emitter, result.type)
        width = emitter.width(result.type)
        a, b = emitter.index(first), emitter.index(second)
        if known(a) and known(b) and name[0] == "S":
            emitter.define(result, min(a, b) if name == "SMin" else max(a, b))
            return
        emitter.define(result, extreme(emitter, name, compare, width, emitter.get(first), emitter.get(second)))

    return lower


def extreme(emitter: FunctionEmitter, name: str, compare: str, width: int, lhs: Id, rhs: Id) -> Id:
    """Emit the minimum or maximum of two integers.

    Registers extended with their sign compare right without sign too.
    """
    if width == 1:  # true is -1 where there is a sign
        return emitter.code.let("LogicalOr" if name in ("SMin", "UMax") else "LogicalAnd", emitter.m.bool(), lhs, rhs)
    if width == 32:
        return emitter.code.glsl(name, emitter.m.int(32), lhs, rhs)
    return emitter.code.let(
        "Select", emitter.m.int(64), emitter.code.let(compare, emitter.m.bool(), lhs, rhs), lhs, rhs
    )


def _wide_product(is_signed: bool) -> Lowering:
    """Return the lowering of a product to two results, its low and its high half."""

    def lower(emitter: FunctionEmitter, op: Operation) -> None:
        type_ = op.results[0].type
        bits, width = bits_of(emitter, type_), emitter.width(type_)
        a, b = emitter.get(op.operands[0]), emitter.get(op.operands[1])
        if width == 1:
            emitter.define(op.results[0], emitter.code.let("LogicalAnd", emitter.m.bool(), a, b))
            emitter.define(op.results[1], emitter.m.truth(False))
            return
        if bits > 16 and bits != 32:
            if bits % 2:
                raise emitter.error(f"{op_name(op)} on {type_} cannot be compiled into a kernel for this target")
            expand(emitter, op)
            return
        if not is_signed:
            a, b = zero_extended(emitter, a, bits, width), zero_extended(emitter, b, bits, width)
        m, let, word = emitter.m, emitter.code.let, emitter.m.int(32)
        pair = let("SMulExtended" if is_signed else "UMulExtended", m.type("TypeStruct", word, word), a, b)
        low, high = (let("CompositeExtract", word, pair, part) for part in (0, 1))
        if bits < 32:
            shift = "ShiftRightArithmetic" if is_signed else "ShiftRightLogical"
            low, high = wrap(emitter, low, bits, 32), wrap(emitter, let(shift, word, low, m.integer(bits)), bits, 32)
        emitter.define(op.results[0], low)
        emitter.define(op.results[1], high)

    return lower


def _addui_extended(emitter: FunctionEmitter, op: Operation) -> None:
    type_ = op.results[0].type
    bits, width = bits_of(emitter, type_), emitter.width(type_)
    if width == 1:
        a, b = (emitter.get(o) for o in op.operands)
        emitter.define(op.results[0], emitter.code.let("LogicalNotEqual", emitter.m.bool(), a, b))
        emitter.define(op.results[1], emitter.code.let("LogicalAnd", emitter.m.bool(), a, b))
        return
    a, b = (zero_extended(emitter, emitter.get(o), bits, width) for o in op.operands)
    total = emitter.code.let("IAdd", emitter.m.int(width), a, b)
    plain = zero_extended(emitter, total, bits, width)
    emitter.define(op.results[0], wrap(emitter, total, bits, width))
    emitter.define(op.results[1], emitter.code.let("ULessThan", emitter.m.bool(), plain, a))


def _cmpi(emitter: FunctionEmitter, op: Operation) -> None:
    (first, second), (result,) = operands_of(op), op.results
    predicate = INT_PREDICATES[integer(op, "predicate")]
    a, b = emitter.get(first), emitter.get(second)
    emitter.define(result, compared(emitter, predicate, emitter.width(first.type), a, b))


def compared(emitter: FunctionEmitter, predicate: str, width: int, lhs: Id, rhs: Id) -> Id:
    """Emit a comparison of integers, and return a bool. Registers extended with their sign keep their order without
    sign as well.
    """
    m, let = emitter.m, emitter.code.let
    if width > 1:
        return let(INT_COMPARISONS[predicate], m.bool(), lhs, rhs)
    if predicate in ("eq", "ne"):
        return let("LogicalEqual" if predicate == "eq" else "LogicalNotEqual", m.bool(), lhs, rhs)
    if predicate in ("slt", "sle", "ugt", "uge"):  # true is -1 where there is a sign
        lhs, rhs = rhs, lhs
    strict = predicate in ("slt", "sgt", "ult", "ugt")
    return let("LogicalAnd" if strict else "LogicalOr", m.bool(), let("LogicalNot", m.bool(), lhs), rhs)


def _select(emitter: FunctionEmitter, op: Operation) -> None:
    (test, then, other), (result,) = operands_of(op), op.results
    condition = emitter.get(test)
    if emitter.width(test.type) != 1:
        raise emitter.error("arith.select takes an i1")
    if isinstance(result.type, MemRefType):
        roots = emitter.roots([then])
        emitter.same_roots(roots, [other])
        types = emitter.part_types([result], [then])
        parts = zip(types, emitter.parts([then]), emitter.parts([other]), strict=True)
        emitter.take(
            [result], [a if a == b else emitter.code.let("Select", t, condition, a, b) for t, a, b in parts], roots
        )
        return
    emitter.define(
        result, emitter.code.let("Select", emitter.type(result.type), condition, emitter.get(then), emitter.get(other))
    )


ROWS: dict[str, Lowering] = {
    "arith.constant": _constant,
    "arith.addi": _int("IAdd", lambda a, b: a + b, "LogicalNotEqual"),
    "arith.subi": _int("ISub", lambda a, b: a - b, "LogicalNotEqual"),
    "arith.muli": _int("IMul", lambda a, b: a * b, "LogicalAnd"),
    "arith.divsi": _division("SDiv"),
    "arith.divui": _division("UDiv"),
    "arith.remsi": _division("SRem"),
    "arith.remui": _division("UMod"),
    "arith.andi": _int("BitwiseAnd", lambda a, b: a & b, "LogicalAnd"),
    "arith.ori": _int("BitwiseOr", lambda a, b: a | b, "LogicalOr"),
    "arith.xori": _int("BitwiseXor", lambda a, b: a ^ b, "LogicalNotEqual"),
    "arith.shli": _shift("ShiftLeftLogical"),
    "arith.shrsi": _shift("ShiftRightArithmetic"),
    "arith.shrui": _shift("ShiftRightLogical"),
    "arith.floordivsi": _rounded(up=False),
    "arith.ceildivsi": _rounded(up=True),
    "arith.ceildivui": _rounded(up=True, is_signed=False),
    "arith.minsi": _extreme("SMin", "SLessThan"),
    "arith.maxsi": _extreme("SMax", "SGreaterThan"),
    "arith.minui": _extreme("UMin", "ULessThan"),
    "arith.maxui": _extreme("UMax", "UGreaterThan"),
    "arith.mulsi_extended": _wide_product(is_signed=True),
    "arith.mului_extended": _wide_product(is_signed=False),
    "arith.addui_extended": _addui_extended,
    "arith.cmpi": _cmpi,
    "arith.select": _select,
}
