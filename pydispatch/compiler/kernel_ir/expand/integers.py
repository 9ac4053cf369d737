"""Pass that expands integer operations into those that every machine executes alike (docs/kernel-ir.md, Numbers).

After the pass:

- No divisor is 0, nor -1 where there is a sign. Divisions round toward zero.
- Every shift count is below the width, or the result of the shift is not used.
- Values of type i1 are operands of `andi`, `ori`, `xori`, `cmpi eq`, `select` and conversions only.
- Where a target has registers of few widths, arithmetic is on these widths only (`widths.py`).

Emitters translate the remaining operations to single instructions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, IntegerType, UnitAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue

from pydispatch.compiler.kernel_ir.build import TRUTH, Build, Entry, Index, known, replace
from pydispatch.compiler.kernel_ir.expand.widths import widen_integers
from pydispatch.compiler.kernel_ir.kernel import IN_RANGE
from pydispatch.compiler.kernel_ir.readers import INT_PREDICATES, integer, op_name, operands_of
from pydispatch.compiler.kernel_ir.types import bit_width, is_integer
from pydispatch.ir.core.walk import walk
from pydispatch.ir.dialects.arith import IndexCastUIOp

Results = Sequence[SSAValue] | None
"""Values that replace the results of an operation; None where the operation stays."""


@dataclass(frozen=True)
class TargetIntegers:
    """The integers of a target.

    Attributes:
        index_bits: Width of an index.
        has_word_counts: Whether the machine takes the low 32 bits of a shift count.
        registers: Widths of registers, ascending; none for a target that computes in every width.
    """

    index_bits: int = 64
    has_word_counts: bool = False
    registers: tuple[int, ...] = ()

    def width(self, type_: Attribute) -> int:
        """Return the width of an integer type in bits."""
        return self.index_bits if type(type_) is IndexType else bit_width(type_)


class _Builder:
    """Builder of operations on integers of the type of one operand, before an operation."""

    def __init__(self, build: Build, type_: IntegerType | IndexType) -> None:
        self.build, self.type = build, type_

    def number(self, value: int) -> SSAValue:
        return self.build.entry.constant(value, self.type)

    def op(self, kind: type[Operation], lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        return self.build.arithmetic(kind, (lhs, rhs), self.type)

    def in_range(self, kind: type[Operation], lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        """Insert a division or shift that this pass leaves as it is."""
        result = self.op(kind, lhs, rhs)
        result.owner.attributes[IN_RANGE] = UnitAttr()  # type: ignore[union-attr]
        return result

    def negated(self, value: SSAValue) -> SSAValue:
        return self.op(arith.SubiOp, self.number(0), value)

    def test(self, predicate: str, lhs: SSAValue, rhs: int) -> SSAValue:
        return self.build.compare(predicate, lhs, self.number(rhs))

    def truth(self, kind: type[Operation], lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        """Insert an operation on truth values."""
        return self.build.make(kind, (lhs, rhs), TRUTH)

    def both(self, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        return self.truth(arith.AndIOp, lhs, rhs)

    def inverted(self, value: SSAValue) -> SSAValue:
        return self.truth(arith.XOrIOp, value, self.build.entry.constant(1, TRUTH))

    def select(self, condition: SSAValue, then: SSAValue, other: SSAValue) -> SSAValue:
        return self.build.make(arith.SelectOp, (condition, then, other), self.type)

    def widened(self, condition: SSAValue) -> SSAValue:
        """Insert the conversion of an i1 to 0 or 1."""
        kind = IndexCastUIOp if type(self.type) is IndexType else arith.ExtUIOp
        return self.build.make(kind, (condition,), self.type)


Rule = Callable[[_Builder, Operation, TargetIntegers], Results]


def expand_integers(function: FuncOp, target: TargetIntegers) -> None:
    """Expand the integer operations of a function in place."""
    entry: Entry | None = None
    for op in [op for op in walk(function) if op_name(op) in _NAMES and IN_RANGE not in op.attributes]:
        type_ = op.operands[0].type
        if not is_integer(type_):  # which emitters refuse
            continue
        rule = (TRUTH_RULES if bit_width(type_) == 1 else RULES).get(op_name(op))
        if rule is None:
            continue
        entry = entry or Entry(function)
        results = rule(_Builder(Build.before(entry, op), type_), op, target)  # type: ignore[arg-type]
        if results is not None:
            replace(op, results)
    widen_integers(function, target.registers)


# Divisions


def _guarded(
    builder: _Builder, rhs: SSAValue, is_signed: bool, divided: Callable[[SSAValue], SSAValue],
    at_zero: SSAValue, at_minus_one: Callable[[], SSAValue] | None = None,
) -> SSAValue:  # fmt: skip
    """Insert a division that is defined for every divisor `rhs`, and return its result.

    Args:
        builder: Inserts operations.
        rhs: The divisor.
        is_signed: Whether the operands have a sign.
        divided: Inserts the division by a divisor that is neither 0 nor, where there is a sign, -1.
        at_zero: The result for the divisor 0.
        at_minus_one: Inserts the result for the divisor -1. None: it is that of the divisor 1.
    """
    is_zero = builder.test("eq", rhs, 0)
    is_unsafe = is_minus_one = is_zero
    if is_signed:
        is_minus_one = builder.test("eq", rhs, -1)
        is_unsafe = builder.truth(arith.OrIOp, is_zero, is_minus_one)
    result = divided(builder.select(is_unsafe, builder.number(1), rhs))
    if is_signed and at_minus_one is not None:
        result = builder.select(is_minus_one, at_minus_one(), result)
    return builder.select(is_zero, at_zero, result)


def _is_minus_one(divisor: Index, target: TargetIntegers, type_: Attribute) -> bool:
    return type(divisor) is int and (divisor + 1) % (1 << target.width(type_)) == 0


def _toward_zero(kind: type[Operation], is_signed: bool, is_quotient: bool) -> Rule:
    """Return the rule of a quotient or remainder: by zero 0 or the dividend, the smallest number by -1 itself or 0."""

    def rule(builder: _Builder, op: Operation, target: TargetIntegers) -> Results:
        """Expand a division whose hardware result is undefined for some divisors; None for a constant divisor that is
        safe.
        """
        lhs, rhs = operands_of(op)
        divisor = known(rhs)
        if type(divisor) is int and divisor != 0:
            if not (is_signed and _is_minus_one(divisor, target, rhs.type)):
                return None
            return [builder.negated(lhs) if is_quotient else builder.number(0)]
        at_zero = builder.number(0) if is_quotient else lhs
        if divisor == 0:
            return [at_zero]
        at_minus_one = partial(builder.negated, lhs) if is_quotient else None
        return [_guarded(builder, rhs, is_signed, partial(builder.in_range, kind, lhs), at_zero, at_minus_one)]

    return rule


def _rounded(up: bool, is_signed: bool) -> Rule:
    """Return the rule of a quotient that rounds up or down: the one toward zero, moved by 1 where there is a rest."""
    kinds = (arith.DivSIOp, arith.RemSIOp) if is_signed else (arith.DivUIOp, arith.RemUIOp)

    def rule(builder: _Builder, op: Operation, target: TargetIntegers) -> Results:
        """Expand a division rounded up or down: one toward zero, moved by one where the rest asks for it."""
        lhs, rhs = operands_of(op)

        def divided(divisor: SSAValue) -> SSAValue:
            """Emit a quotient that is rounded up or down where the remainder is not 0."""
            quotient, rest = (builder.in_range(kind, lhs, divisor) for kind in kinds)
            is_moved = builder.test("ne", rest, 0)
            if is_signed:
                is_beyond = builder.test("sge" if up else "slt", builder.op(arith.XOrIOp, rest, divisor), 0)
                is_moved = builder.truth(arith.AndIOp, is_moved, is_beyond)
            return builder.op(arith.AddiOp if up else arith.SubiOp, quotient, builder.widened(is_moved))

        divisor = known(rhs)
        if divisor == 0:
            return [builder.number(0)]
        if is_signed and _is_minus_one(divisor, target, rhs.type):
            return [builder.negated(lhs)]
        if type(divisor) is int:
            return [divided(rhs)]
        return [_guarded(builder, rhs, is_signed, divided, builder.number(0), partial(builder.negated, lhs))]

    return rule


# Shifts


def _shift(kind: type[Operation]) -> Rule:
    """Return the rule of a shift: by the width or more it gives 0, or copies of the sign for `shrsi`."""

    def rule(builder: _Builder, op: Operation, target: TargetIntegers) -> Results:
        """Expand a shift by counts that may exceed the width; None for a constant count within it."""
        lhs, rhs = operands_of(op)
        width, count = target.width(lhs.type), known(rhs)
        if type(count) is int and 0 <= count < width:
            return None
        last = builder.number(width - 1)
        if kind is arith.ShRSIOp:
            return [builder.in_range(kind, lhs, last if type(count) is int else builder.op(arith.MinUIOp, rhs, last))]
        if type(count) is int:
            return [builder.number(0)]
        fits = builder.build.compare("ult", rhs, builder.number(width))
        if target.has_word_counts and width > 32:
            rhs = builder.op(arith.MinUIOp, rhs, last)
        return [builder.select(fits, builder.in_range(kind, lhs, rhs), builder.number(0))]

    return rule


# Values of one bit, of which 1 is -1 where there is a sign


def _as(kind: type[Operation]) -> Rule:
    """Return the rule of an operation that is another one on one bit."""
    return lambda builder, op, target: [builder.op(kind, *operands_of(op))]


def _except(builder: _Builder, op: Operation, target: TargetIntegers) -> Results:
    """Expand to the first operand where the second is 0, else 0: a rest of a division by 1, or a shift by 0 or 1."""
    lhs, rhs = operands_of(op)
    return [builder.both(lhs, builder.inverted(rhs))]


def _first(builder: _Builder, op: Operation, target: TargetIntegers) -> Results:
    return [operands_of(op)[0]]


def _inverted(builder: _Builder, op: Operation, target: TargetIntegers) -> Results:
    return [builder.inverted(operands_of(op)[0])]


def _with_carry(builder: _Builder, op: Operation, target: TargetIntegers) -> Results:
    lhs, rhs = operands_of(op)
    return [builder.op(arith.XOrIOp, lhs, rhs), builder.both(lhs, rhs)]


def _wide_product(builder: _Builder, op: Operation, target: TargetIntegers) -> Results:
    return [builder.both(*operands_of(op)), builder.number(0)]


def _compared(builder: _Builder, op: Operation, target: TargetIntegers) -> Results:
    """Expand an order of truth values; a smaller one is 0 without a sign, and 1 with one."""
    predicate, (lhs, rhs) = INT_PREDICATES[integer(op, "predicate")], operands_of(op)
    if predicate == "eq":
        return None
    if predicate == "ne":
        return [builder.op(arith.XOrIOp, lhs, rhs)]
    if predicate in ("slt", "sle", "ugt", "uge"):
        lhs, rhs = rhs, lhs
    return [builder.op(arith.AndIOp if predicate.endswith("t") else arith.OrIOp, builder.inverted(lhs), rhs)]


RULES: dict[str, Rule] = {
    "arith.divsi": _toward_zero(arith.DivSIOp, is_signed=True, is_quotient=True),
    "arith.divui": _toward_zero(arith.DivUIOp, is_signed=False, is_quotient=True),
    "arith.remsi": _toward_zero(arith.RemSIOp, is_signed=True, is_quotient=False),
    "arith.remui": _toward_zero(arith.RemUIOp, is_signed=False, is_quotient=False),
    "arith.floordivsi": _rounded(up=False, is_signed=True),
    "arith.ceildivsi": _rounded(up=True, is_signed=True),
    "arith.ceildivui": _rounded(up=True, is_signed=False),
    "arith.shli": _shift(arith.ShLIOp),
    "arith.shrsi": _shift(arith.ShRSIOp),
    "arith.shrui": _shift(arith.ShRUIOp),
}
TRUTH_RULES: dict[str, Rule] = {
    **dict.fromkeys(("arith.addi", "arith.subi"), _as(arith.XOrIOp)),
    **dict.fromkeys(("arith.muli", "arith.minui", "arith.maxsi"), _as(arith.AndIOp)),
    **dict.fromkeys(("arith.maxui", "arith.minsi"), _as(arith.OrIOp)),
    **dict.fromkeys(("arith.divsi", "arith.divui", "arith.floordivsi"), _as(arith.AndIOp)),
    **dict.fromkeys(("arith.ceildivsi", "arith.ceildivui"), _as(arith.AndIOp)),
    **dict.fromkeys(("arith.remsi", "arith.remui", "arith.shli", "arith.shrui"), _except),
    **dict.fromkeys(("arith.shrsi", "math.absi", "math.ctpop"), _first),
    **dict.fromkeys(("math.ctlz", "math.cttz"), _inverted),
    **dict.fromkeys(("arith.mulsi_extended", "arith.mului_extended"), _wide_product),
    "arith.addui_extended": _with_carry,
    "arith.cmpi": _compared,
}
_NAMES = RULES.keys() | TRUTH_RULES.keys()
