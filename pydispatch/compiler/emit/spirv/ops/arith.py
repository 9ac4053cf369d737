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


def bits_of(f: FunctionEmitter, type_: Attribute) -> int:
    """Return the significant bits of an integer type; its register may have more."""
    if not is_integer(type_):
        raise f.error(
            f"operation '{op_name(f.op)}' on {type_} cannot be compiled into a kernel",
            "kernel IR computes on scalars; vectors come from parallel loops",
        )
    return f.index_width if type(type_) is IndexType else min(bit_width(type_), f.width(type_))


def wrap(f: FunctionEmitter, value: Id, bits: int, width: int) -> Id:
    """Sign-extend the low `bits` of a register to all of it."""
    if bits == width:
        return value
    if width == 32:
        return f.code.let("BitFieldSExtract", f.m.int(32), value, f.m.integer(0), f.m.integer(bits))
    shift = f.m.integer(width - bits, 32)
    type_ = f.m.int(width)
    return f.code.let("ShiftRightArithmetic", type_, f.code.let("ShiftLeftLogical", type_, value, shift), shift)


def zero_extended(f: FunctionEmitter, value: Id, bits: int, width: int) -> Id:
    """Zero-extend the low `bits` of a register to all of it."""
    if bits == width:
        return value
    return f.code.let("BitwiseAnd", f.m.int(width), value, f.m.integer((1 << bits) - 1, width))


def _constant(f: FunctionEmitter, op: Operation) -> None:
    value, (result,) = attribute(op, "value"), op.results
    type_ = result.type
    if type(type_) is IndexType and type(value) is IntegerAttr:
        f.values[result] = signed(int(value.value.data), f.index_width)
        return
    f.width(type_)
    if isinstance(value, IntegerAttr):
        f.define(result, signed(int(value.value.data), bits_of(f, type_)))
    elif isinstance(value, FloatAttr):
        f.define(result, float_constant(f, float(value.value.data), type_))
    else:
        raise f.error(f"a constant of type {type_} cannot be compiled into a kernel")


INDEX_ARITHMETIC: dict[str, Callable[[FunctionEmitter, Index, Index], Index]] = {
    "IAdd": FunctionEmitter.plus, "ISub": FunctionEmitter.minus, "IMul": FunctionEmitter.times,
}  # fmt: skip
"""What indices have of their own: it folds, and gives what a block has already."""


def _int(instruction: str, foldable: Callable[[int, int], int], logical: str = "") -> Lowering:
    """logical: the instruction on i1."""

    of_indices = INDEX_ARITHMETIC.get(instruction)

    def lower(f: FunctionEmitter, op: Operation) -> None:
        (first, second), (result,) = operands_of(op), op.results
        type_ = result.type
        if of_indices is not None and type(type_) is IndexType:
            values: dict[SSAValue, Any] = f.values
            values[result] = of_indices(f, values[first], values[second])
            return
        a, b = f.index(first), f.index(second)
        bits, width = bits_of(f, type_), f.width(type_)
        if known(a) and known(b):
            f.define(result, signed(foldable(a, b), bits))
            return
        if width == 1:
            f.define(result, f.code.let(logical, f.m.bool(), f.get(first), f.get(second)))
            return
        if instruction in ("IAdd", "IMul", "ISub") and (short := _neutral(instruction, a, b)) is not None:
            f.define(result, short)
            return
        value = f.code.let(instruction, f.m.int(width), f.get(first), f.get(second))
        bitwise = instruction.startswith("Bitwise")
        f.define(result, value if bitwise else wrap(f, value, bits, width))

    return lower


def _neutral(instruction: str, a: Index, b: Index) -> Index | None:
    if instruction == "IMul":
        return b if known(a) and a == 1 else a if known(b) and b == 1 else None
    if known(b) and b == 0:
        return a
    return b if instruction == "IAdd" and known(a) and a == 0 else None


def divided(f: FunctionEmitter, instruction: str, bits: int, width: int, a: Index, b: Index) -> Id:
    """SDiv, UDiv, SRem, UMod that never trap: by zero 0 and the dividend, the smallest number by -1 itself and 0."""
    m, let = f.m, f.code.let
    type_, is_signed, quotient = m.int(width), instruction[0] == "S", instruction.endswith("Div")

    def as_id(value: Index) -> Id:
        return value if isinstance(value, Id) else m.integer(value, width)

    if known(b) and b > 0:
        shift = b.bit_length() - 1
        left = as_id(a) if is_signed else zero_extended(f, as_id(a), bits, width)
        if not is_signed and b & (b - 1) == 0:
            op, operand = ("ShiftRightLogical", shift) if quotient else ("BitwiseAnd", b - 1)
            return wrap(f, let(op, type_, left, m.integer(operand, width)), bits, width)
        return wrap(f, let(instruction, type_, left, m.integer(b, width)), bits, width)
    left, right = as_id(a), as_id(b)
    if not is_signed:
        left, right = zero_extended(f, left, bits, width), zero_extended(f, right, bits, width)
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
    return wrap(f, result, bits, width)


def _division(instruction: str) -> Lowering:
    def lower(f: FunctionEmitter, op: Operation) -> None:
        (first, second), (result,) = operands_of(op), op.results
        type_ = result.type
        bits, width = bits_of(f, type_), f.width(type_)
        a, b = f.index(first), f.index(second)
        if known(a) and known(b) and a >= 0 and b > 0:
            f.define(result, a // b if instruction.endswith("Div") else a % b)
            return
        if IN_RANGE in op.attributes and bits == width and not known(b):
            f.define(result, f.code.let(instruction, f.m.int(width), f.get(first), f.get(second)))
            return
        if width == 1:
            f.define(result, _division_of_bits(f, instruction, f.get(first), f.get(second)))
            return
        f.define(result, divided(f, instruction, bits, width, a, b))

    return lower


def _division_of_bits(f: FunctionEmitter, instruction: str, a: Id, b: Id) -> Id:
    """i1: the only divisor is 1, or -1."""
    if instruction.endswith("Div"):
        return f.code.let("LogicalAnd", f.m.bool(), a, b)
    return f.code.let("LogicalAnd", f.m.bool(), a, f.code.let("LogicalNot", f.m.bool(), b))


def _shift(instruction: str) -> Lowering:
    """Return the lowering of a shift. A shift by the width or more yields 0, or copies of the sign (arithmetic shift).
    """

    def lower(f: FunctionEmitter, op: Operation) -> None:
        (first, second), (result,) = operands_of(op), op.results
        bits, width = bits_of(f, result.type), f.width(result.type)
        count, let, m = f.index(second), f.code.let, f.m
        a, b = f.get(first), f.get(second)
        if width == 1:
            arithmetic = instruction == "ShiftRightArithmetic"
            f.define(result, a if arithmetic else let("LogicalAnd", m.bool(), a, let("LogicalNot", m.bool(), b)))
            return
        register = m.int(width)
        if instruction == "ShiftRightLogical":
            a = zero_extended(f, a, bits, width)
        if IN_RANGE in op.attributes or (known(count) and 0 <= count < bits):
            f.define(result, wrap(f, let(instruction, register, a, b), bits, width))
            return
        fits = let("ULessThan", m.bool(), zero_extended(f, b, bits, width), m.integer(bits, width))
        if instruction == "ShiftRightArithmetic":
            shift = let("Select", register, fits, b, m.integer(bits - 1, width))
            f.define(result, wrap(f, let(instruction, register, a, shift), bits, width))
            return
        shift = let("Select", register, fits, b, m.integer(0, width))
        moved = let("Select", register, fits, let(instruction, register, a, shift), m.integer(0, width))
        f.define(result, wrap(f, moved, bits, width))

    return lower


def rounded_division(f: FunctionEmitter, width: int, bits: int, a: Index, b: Index, up: bool, is_signed: bool) -> Id:
    """Emit a / b rounded down or up: the quotient is adjusted where the remainder requires it."""
    m, let = f.m, f.code.let
    type_, kinds = m.int(width), ("SDiv", "SRem") if is_signed else ("UDiv", "UMod")
    quotient, remainder = (divided(f, kind, bits, width, a, b) for kind in kinds)
    zero = m.integer(0, width)
    move = let("INotEqual", m.bool(), remainder, zero)
    if not known(b):  # by zero the remainder is the dividend, and the quotient stays 0
        move = let("LogicalAnd", m.bool(), move, let("INotEqual", m.bool(), b, zero))
    if is_signed:
        signs = let("BitwiseXor", type_, remainder, b if isinstance(b, Id) else m.integer(b, width))
        toward = let("SGreaterThanEqual" if up else "SLessThan", m.bool(), signs, zero)
        move = let("LogicalAnd", m.bool(), move, toward)
    moved = let("IAdd" if up else "ISub", type_, quotient, m.integer(1, width))
    return wrap(f, let("Select", type_, move, moved, quotient), bits, width)


def _rounded(up: bool, is_signed: bool = True) -> Lowering:
    def lower(f: FunctionEmitter, op: Operation) -> None:
        type_ = op.results[0].type
        bits, width = bits_of(f, type_), f.width(type_)
        if width == 1:  # nothing is left to round
            f.define(op.results[0], _division_of_bits(f, "Div", f.get(op.operands[0]), f.get(op.operands[1])))
            return
        a, b = f.index(op.operands[0]), f.index(op.operands[1])
        f.define(op.results[0], rounded_division(f, width, bits, a, b, up, is_signed))

    return lower


def _extreme(name: str, compare: str) -> Lowering:
    """name: SMin, SMax, UMin, UMax. 64 bits are compared and chosen."""

    def lower(f: FunctionEmitter, op: Operation) -> None:
        (first, second), (result,) = operands_of(op), op.results
        bits_of(f, result.type)
        width = f.width(result.type)
        a, b = f.index(first), f.index(second)
        if known(a) and known(b) and name[0] == "S":
            f.define(result, min(a, b) if name == "SMin" else max(a, b))
            return
        f.define(result, extreme(f, name, compare, width, f.get(first), f.get(second)))

    return lower


def extreme(f: FunctionEmitter, name: str, compare: str, width: int, a: Id, b: Id) -> Id:
    """Emit the minimum or maximum of two integers. Registers extended with their sign compare right without sign too.
    """
    if width == 1:  # true is -1 where there is a sign
        return f.code.let("LogicalOr" if name in ("SMin", "UMax") else "LogicalAnd", f.m.bool(), a, b)
    if width == 32:
        return f.code.glsl(name, f.m.int(32), a, b)
    return f.code.let("Select", f.m.int(64), f.code.let(compare, f.m.bool(), a, b), a, b)


def _wide_product(is_signed: bool) -> Lowering:
    """Return the lowering of a product to two results, its low and its high half."""

    def lower(f: FunctionEmitter, op: Operation) -> None:
        type_ = op.results[0].type
        bits, width = bits_of(f, type_), f.width(type_)
        a, b = f.get(op.operands[0]), f.get(op.operands[1])
        if width == 1:
            f.define(op.results[0], f.code.let("LogicalAnd", f.m.bool(), a, b))
            f.define(op.results[1], f.m.truth(False))
            return
        if bits > 16 and bits != 32:
            if bits % 2:
                raise f.error(f"{op_name(op)} on {type_} cannot be compiled into a kernel for this target")
            expand(f, op)
            return
        if not is_signed:
            a, b = zero_extended(f, a, bits, width), zero_extended(f, b, bits, width)
        m, let, word = f.m, f.code.let, f.m.int(32)
        pair = let("SMulExtended" if is_signed else "UMulExtended", m.type("TypeStruct", word, word), a, b)
        low, high = (let("CompositeExtract", word, pair, part) for part in (0, 1))
        if bits < 32:
            shift = "ShiftRightArithmetic" if is_signed else "ShiftRightLogical"
            low, high = wrap(f, low, bits, 32), wrap(f, let(shift, word, low, m.integer(bits)), bits, 32)
        f.define(op.results[0], low)
        f.define(op.results[1], high)

    return lower


def _addui_extended(f: FunctionEmitter, op: Operation) -> None:
    type_ = op.results[0].type
    bits, width = bits_of(f, type_), f.width(type_)
    a, b = (zero_extended(f, f.get(o), bits, width) for o in op.operands)
    total = f.code.let("IAdd", f.m.int(width), a, b)
    plain = zero_extended(f, total, bits, width)
    f.define(op.results[0], wrap(f, total, bits, width))
    f.define(op.results[1], f.code.let("ULessThan", f.m.bool(), plain, a))


def _cmpi(f: FunctionEmitter, op: Operation) -> None:
    (first, second), (result,) = operands_of(op), op.results
    predicate = INT_PREDICATES[integer(op, "predicate")]
    a, b = f.get(first), f.get(second)
    f.define(result, compared(f, predicate, f.width(first.type), a, b))


def compared(f: FunctionEmitter, predicate: str, width: int, a: Id, b: Id) -> Id:
    """Emit a comparison of integers, and return a bool. Registers extended with their sign keep their order without
    sign as well.
    """
    m, let = f.m, f.code.let
    if width > 1:
        return let(INT_COMPARISONS[predicate], m.bool(), a, b)
    if predicate in ("eq", "ne"):
        return let("LogicalEqual" if predicate == "eq" else "LogicalNotEqual", m.bool(), a, b)
    if predicate in ("slt", "sle", "ugt", "uge"):  # true is -1 where there is a sign
        a, b = b, a
    strict = predicate in ("slt", "sgt", "ult", "ugt")
    return let("LogicalAnd" if strict else "LogicalOr", m.bool(), let("LogicalNot", m.bool(), a), b)


def _select(f: FunctionEmitter, op: Operation) -> None:
    (test, then, other), (result,) = operands_of(op), op.results
    condition = f.get(test)
    if f.width(test.type) != 1:
        raise f.error("arith.select takes an i1")
    if isinstance(result.type, MemRefType):
        roots = f.roots([then])
        f.same_roots(roots, [other])
        types = f.part_types([result], [then])
        parts = zip(types, f.parts([then]), f.parts([other]), strict=True)
        f.take([result], [a if a == b else f.code.let("Select", t, condition, a, b) for t, a, b in parts], roots)
        return
    f.define(result, f.code.let("Select", f.type(result.type), condition, f.get(then), f.get(other)))


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
