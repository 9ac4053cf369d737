"""Pass that computes integers in registers of a target: i8 and i5 in 32 bits, i33 in 64 (docs/kernel-ir.md, Numbers).

After the pass, integers that are narrower than their register are operands of these operations only, which map
sign-extended registers to sign-extended registers: `andi`, `ori`, `xori`, minima and maxima, `cmpi`, `select`,
conversions and accesses. All other arithmetic is between an extension and a `trunci`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from pydispatch.compiler.kernel_ir.build import Build, Entry, constant_or_value, replace
from pydispatch.compiler.kernel_ir.readers import op_name, operands_of
from pydispatch.ir.core.walk import walk

SIGNED, UNSIGNED = arith.ExtSIOp, arith.ExtUIOp
"""Operation that extends a narrow integer to its register: with copies of its sign, or with zeros."""


class _Register:
    """Builder of operations on narrow integers in a wider register, inserted before the operation that they replace.

    Attributes:
        narrow, bits: Type and width of the integers.
        type, width: Type and width of the register.
    """

    def __init__(self, build: Build, type_: IntegerType, width: int) -> None:
        """Represent integers of type `type_` in registers of `width` bits; `build` inserts the operations."""
        self.build, self.narrow, self.type = build, type_, IntegerType(width)
        self.bits, self.width = type_.width.data, width

    def number(self, value: int) -> SSAValue:
        """Return a constant in a register."""
        return self.build.entry.constant(value, self.type)

    def op(self, kind: type[Operation], *operands: SSAValue) -> SSAValue:
        """Insert an operation on registers, and return its result."""
        return self.build.arithmetic(kind, operands, self.type)

    def extended(self, value: SSAValue, kind: type[Operation]) -> SSAValue:
        """Return a narrow integer in a register, extended by `kind`: with its sign or with zeros."""
        constant = constant_or_value(value)
        if type(constant) is not int:
            return self.op(kind, value)
        # A constant is extended here. Its i8 bits 0xFF are -1 as a signed integer, and 255 as an unsigned one.
        unsigned = constant & ((1 << self.bits) - 1)
        is_negative = unsigned >> (self.bits - 1) == 1
        return self.number(unsigned - (1 << self.bits) if kind is SIGNED and is_negative else unsigned)

    def truncated(self, value: SSAValue) -> SSAValue:
        """Insert the truncation of a register to the narrow type."""
        return self.build.make(arith.TruncIOp, (value,), self.narrow)


Rule = Callable[[_Register, Operation], Sequence[SSAValue]]
"""Function of (builder, operation on narrow integers) that inserts operations on registers, and returns the values that
replace its results; empty if the operation stays."""


def widen_integers(function: FuncOp, widths: Sequence[int]) -> None:
    """Replace operations on integers that have no register of their width by operations on wider ones, in place.

    With the widths (32, 64), `%c = arith.addi %a, %b : i8` becomes

        %wide_a = arith.extsi %a : i8 to i32
        %wide_b = arith.extsi %b : i8 to i32
        %wide_c = arith.addi %wide_a, %wide_b : i32
        %c = arith.trunci %wide_c : i32 to i8

    Args:
        function: The function.
        widths: Widths of the target's registers in bits, ascending. If it is empty, nothing is changed.
    """
    if not widths:
        return
    entry: Entry | None = None
    for op in [op for op in walk(function) if op_name(op) in RULES]:
        type_ = op.operands[0].type
        if not isinstance(type_, IntegerType) or type_.width.data in (1, *widths):  # i1: `integers.py` expands them
            continue
        width = next((width for width in widths if width > type_.width.data), None)
        if width is None:  # wider than all registers: emitters refuse the operation
            continue
        entry = entry or Entry(function)
        results = RULES[op_name(op)](_Register(Build.before(entry, op), type_, width), op)
        if results:  # a rule returns no results if the operation stays
            replace(op, results)


def _binary(kind: type[Operation], lhs_extension: type[Operation], rhs_extension: type[Operation]) -> Rule:
    """Return the rule of an operation of class `kind`, computed in registers that are wider than its type.

    lhs_extension, rhs_extension: SIGNED or UNSIGNED, the operation that extends each operand.
    """

    def rule(register: _Register, op: Operation) -> Sequence[SSAValue]:
        """Compute `kind` in the width of the register, and truncate the result. The operands are extended with their
        sign or with zeros, as `lhs_extension` and `rhs_extension` state.
        """
        lhs, rhs = operands_of(op)
        wide = register.op(kind, register.extended(lhs, lhs_extension), register.extended(rhs, rhs_extension))
        wide.owner.attributes.update(op.attributes)  # type: ignore[union-attr]  # such as IN_RANGE
        return [register.truncated(wide)]

    return rule


def _with_carry(register: _Register, op: Operation) -> Sequence[SSAValue]:
    """Expand a sum with carry. The results are the sum in the narrow type, and whether there is a carry, an i1."""
    lhs, rhs = (register.extended(operand, UNSIGNED) for operand in operands_of(op))
    wide = register.op(arith.AddiOp, lhs, rhs)
    # The narrow bits of the sum are less than an operand exactly if the sum has wrapped around.
    low = register.op(arith.AndIOp, wide, register.number((1 << register.bits) - 1))
    return [register.truncated(wide), register.build.compare("ult", low, lhs)]


def _wide_product(extension: type[Operation], shift: type[Operation]) -> Rule:
    """Return the rule of a product to two results, its low and its high half.

    It applies if the register holds the whole product, of operands extended by `extension` (SIGNED or UNSIGNED).
    `shift`, arithmetic or logical accordingly, moves the high half down.
    """

    def rule(register: _Register, op: Operation) -> Sequence[SSAValue]:
        """Return the low and the high half of a product; an empty list if the register is too narrow for it.

        `extension` extends the operands, and `shift` moves the high half down.
        """
        if 2 * register.bits > register.width:
            return []
        wide = register.op(arith.MuliOp, *(register.extended(operand, extension) for operand in operands_of(op)))
        low = register.truncated(wide)
        return [low, register.truncated(register.op(shift, wide, register.number(register.bits)))]

    return rule


def _count(register: _Register, op: Operation) -> Sequence[SSAValue]:
    """Expand a count of ones, or of leading or trailing zeros, of a zero-extended integer.

    The register has `width - bits` more leading zeros; trailing zeros of 0 are counted up to `bits`.
    """
    count = register.op(type(op), register.extended(op.operands[0], UNSIGNED))
    if op_name(op) == "math.ctlz":
        count = register.op(arith.SubiOp, count, register.number(register.width - register.bits))
    elif op_name(op) == "math.cttz":
        most = register.number(register.bits)
        count = register.op(arith.SelectOp, register.build.compare("ugt", count, most), most, count)
    return [register.truncated(count)]


def _absolute(register: _Register, op: Operation) -> Sequence[SSAValue]:
    """Expand the absolute value of a signed integer. For the least integer, the result wraps around to the integer."""
    (value,) = operands_of(op)
    zero = register.build.entry.constant(0, register.narrow)
    is_negative = register.build.compare("slt", value, zero)
    wide = register.op(arith.SubiOp, register.number(0), register.extended(value, SIGNED))
    return [register.build.make(arith.SelectOp, (is_negative, register.truncated(wide), value), register.narrow)]


RULES: dict[str, Rule] = {
    "arith.addi": _binary(arith.AddiOp, SIGNED, SIGNED),
    "arith.subi": _binary(arith.SubiOp, SIGNED, SIGNED),
    "arith.muli": _binary(arith.MuliOp, SIGNED, SIGNED),
    "arith.divsi": _binary(arith.DivSIOp, SIGNED, SIGNED),
    "arith.remsi": _binary(arith.RemSIOp, SIGNED, SIGNED),
    "arith.divui": _binary(arith.DivUIOp, UNSIGNED, UNSIGNED),
    "arith.remui": _binary(arith.RemUIOp, UNSIGNED, UNSIGNED),
    "arith.shli": _binary(arith.ShLIOp, SIGNED, SIGNED),
    "arith.shrsi": _binary(arith.ShRSIOp, SIGNED, SIGNED),
    "arith.shrui": _binary(arith.ShRUIOp, UNSIGNED, SIGNED),
    "arith.addui_extended": _with_carry,
    "arith.mulsi_extended": _wide_product(SIGNED, arith.ShRSIOp),
    "arith.mului_extended": _wide_product(UNSIGNED, arith.ShRUIOp),
    **dict.fromkeys(("math.ctlz", "math.cttz", "math.ctpop"), _count),
    "math.absi": _absolute,
}
"""Name of an operation → function that computes it in the wider integers of registers."""
