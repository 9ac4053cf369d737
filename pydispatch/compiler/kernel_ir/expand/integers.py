"""Pass that expands integer operations to operations that all machines execute alike (docs/kernel-ir.md, Numbers).

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

from pydispatch.compiler.kernel_ir.build import TRUTH, Build, Entry, Index, constant_or_value, replace
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
    """Properties of a target's integer instructions, by which operations are expanded.

    Attributes:
        index_bits: Width of an index.
        has_word_counts: Whether shifts take only the low 32 bits of the count, even shifts of wider integers.
        registers: Widths of integer registers in bits, ascending; empty for a target that computes in every width.
    """

    index_bits: int = 64
    has_word_counts: bool = False
    registers: tuple[int, ...] = ()

    def width(self, type_: Attribute) -> int:
        """Return the width of an integer type in bits."""
        return self.index_bits if type(type_) is IndexType else bit_width(type_)


class _Builder:
    """Builder with which the pass replaces one integer operation: it inserts others before it, on integers of its type.

    Attributes:
        type: The type.
    """

    def __init__(self, build: Build, type_: IntegerType | IndexType) -> None:
        """Insert operations by `build`, whose constants have the type `type_`."""
        self.build, self.type = build, type_

    def number(self, value: int) -> SSAValue:
        """Return a constant of the type of the operation."""
        return self.build.entry.constant(value, self.type)

    def op(self, kind: type[Operation], lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        """Insert an operation on two values, whose result has the type of the operation that is expanded."""
        return self.build.arithmetic(kind, (lhs, rhs), self.type)

    def unguarded(self, kind: type[Operation], lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        """Insert a division or shift whose operands are safe, marked so that this pass does not expand it again."""
        result = self.op(kind, lhs, rhs)
        result.owner.attributes[IN_RANGE] = UnitAttr()  # type: ignore[union-attr]
        return result

    def negated(self, value: SSAValue) -> SSAValue:
        """Insert the negation of a value."""
        return self.op(arith.SubiOp, self.number(0), value)

    def test(self, predicate: str, lhs: SSAValue, rhs: int) -> SSAValue:
        """Insert the comparison of a value with a constant: `test("slt", x, 0)` is x < 0."""
        return self.build.compare(predicate, lhs, self.number(rhs))

    def truth(self, kind: type[Operation], lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        """Insert an operation on truth values."""
        return self.build.make(kind, (lhs, rhs), TRUTH)

    def both(self, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        """Insert the conjunction of two truth values."""
        return self.truth(arith.AndIOp, lhs, rhs)

    def inverted(self, value: SSAValue) -> SSAValue:
        """Insert the negation of a truth value."""
        return self.truth(arith.XOrIOp, value, self.build.entry.constant(1, TRUTH))

    def select(self, condition: SSAValue, then: SSAValue, other: SSAValue) -> SSAValue:
        """Insert the choice of `then` where a condition holds, else of `other`."""
        return self.build.make(arith.SelectOp, (condition, then, other), self.type)

    def widened(self, condition: SSAValue) -> SSAValue:
        """Insert the conversion of an i1 to 0 or 1."""
        kind = IndexCastUIOp if type(self.type) is IndexType else arith.ExtUIOp
        return self.build.make(kind, (condition,), self.type)


Rule = Callable[[_Builder, Operation, TargetIntegers], Results]
"""Function of (builder, operation, target) that inserts the expansion of the operation, and returns the values of its
results; None if the operation stays."""


def expand_integers(function: FuncOp, target: TargetIntegers) -> None:
    """Expand the integer operations of a function in place, and widen integers that the target has no registers for.

    Integers of one bit have rules of their own, such as `addi` as an exclusive or. A rule returns None for an operation
    that the target executes as it is. Operations marked IN_RANGE, whose operands are safe, stay.
    """
    entry: Entry | None = None  # created for the first operation that is expanded
    for op in [op for op in walk(function) if op_name(op) in _NAMES and IN_RANGE not in op.attributes]:
        type_ = op.operands[0].type
        if not is_integer(type_):  # emitters refuse the operation
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
    builder: _Builder, rhs: SSAValue, *, is_signed: bool, divided: Callable[[SSAValue], SSAValue],
    at_zero: SSAValue, at_minus_one: Callable[[], SSAValue] | None,
) -> SSAValue:  # fmt: skip
    """Insert a division that is defined for every divisor `rhs`, and return its result.

    An unsigned x / rhs becomes `rhs == 0 ? 0 : x / (rhs == 0 ? 1 : rhs)`, where the first 0 is `at_zero`.

    Args:
        builder: Inserts operations.
        rhs: The divisor.
        is_signed: Whether the operands have a sign.
        divided: Inserts the division by a divisor that is neither 0 nor, where there is a sign, -1.
        at_zero: The result for the divisor 0.
        at_minus_one: Inserts the result for the divisor -1; None if it equals that for the divisor 1.
    """
    is_zero = builder.test("eq", rhs, 0)
    is_minus_one = builder.test("eq", rhs, -1) if is_signed else None
    is_unsafe = is_zero if is_minus_one is None else builder.truth(arith.OrIOp, is_zero, is_minus_one)
    # Divide by 1 in place of an unsafe divisor, and then select the result for it.
    result = divided(builder.select(is_unsafe, builder.number(1), rhs))
    if is_minus_one is not None and at_minus_one is not None:
        result = builder.select(is_minus_one, at_minus_one(), result)
    return builder.select(is_zero, at_zero, result)


def _is_minus_one(divisor: Index, target: TargetIntegers, type_: Attribute) -> bool:
    """Return whether a divisor is known to be -1 in the width of its type."""
    return type(divisor) is int and (divisor + 1) % (1 << target.width(type_)) == 0


def _toward_zero(
    builder: _Builder, op: Operation, target: TargetIntegers, *, kind: type[Operation], is_signed: bool,
    is_quotient: bool,
) -> Results:  # fmt: skip
    """Expand a quotient or remainder that rounds toward zero; a constant divisor other than 0 and -1 needs no guard.

    Machines leave two cases undefined. This rule defines them:

    - x / 0 = 0 and x % 0 = x;
    - min / -1 = min and min % -1 = 0, where min is the smallest signed number, and -min wraps to min.

    Args:
        builder: Inserts operations before `op`.
        op: The operation.
        target: The integers of the target.
        kind: Class of the operation: a signed or unsigned division or remainder.
        is_signed: Whether its operands are signed: only then is the divisor -1 a special case.
        is_quotient: Whether it returns the quotient; if not, the remainder.
    """
    lhs, rhs = operands_of(op)
    divisor = constant_or_value(rhs)  # an int if it is constant, else `rhs`
    if type(divisor) is int and divisor != 0:
        if not (is_signed and _is_minus_one(divisor, target, rhs.type)):
            return None
        return [builder.negated(lhs) if is_quotient else builder.number(0)]
    at_zero = builder.number(0) if is_quotient else lhs
    if divisor == 0:
        return [at_zero]
    # The remainder by -1 is 0, as that by 1.
    at_minus_one = partial(builder.negated, lhs) if is_quotient else None
    divided = partial(builder.unguarded, kind, lhs)  # inserts `lhs` divided by the divisor that it is called with
    return [
        _guarded(builder, rhs, is_signed=is_signed, divided=divided, at_zero=at_zero, at_minus_one=at_minus_one)
    ]  # fmt: skip


def _rounded(builder: _Builder, op: Operation, target: TargetIntegers, *, up: bool, is_signed: bool) -> Results:
    """Expand a division that rounds up (`up`) or down.

    Two cases are defined that machines leave undefined: x / 0 = 0 and, for signed numbers (`is_signed`), x / -1 = -x,
    where the negation of the smallest number wraps to that number. A division by another constant needs no guard.
    """
    lhs, rhs = operands_of(op)
    divisor, at_minus_one = constant_or_value(rhs), partial(builder.negated, lhs)
    if divisor == 0:
        return [builder.number(0)]
    if is_signed and _is_minus_one(divisor, target, rhs.type):
        return [at_minus_one()]
    divided = partial(_divide_rounded, builder, lhs, up=up, is_signed=is_signed)
    if type(divisor) is int:  # a constant that needs no guard; `constant_or_value` returns `rhs` if it is none
        return [divided(rhs)]
    zero = builder.number(0)
    return [_guarded(builder, rhs, is_signed=is_signed, divided=divided, at_zero=zero, at_minus_one=at_minus_one)]


def _divide_rounded(builder: _Builder, lhs: SSAValue, divisor: SSAValue, *, up: bool, is_signed: bool) -> SSAValue:
    """Insert lhs / divisor, rounded up or else down, for a divisor that is neither 0 nor, where signed, -1.

    The quotient that rounds toward zero is corrected by 1 if the division is inexact, and rounding toward zero was
    rounding in the other direction: -7 / 2 is -3 toward zero, which is up, and -4 rounded down.
    """
    quotient_kind, remainder_kind = (arith.DivSIOp, arith.RemSIOp) if is_signed else (arith.DivUIOp, arith.RemUIOp)
    quotient = builder.unguarded(quotient_kind, lhs, divisor)
    remainder = builder.unguarded(remainder_kind, lhs, divisor)
    needs_correction = builder.test("ne", remainder, 0)
    if is_signed:
        # A remainder has the sign of the dividend, so that the xor of remainder and divisor has the sign of the exact
        # quotient. Rounding toward zero rounds a negative quotient up, and a positive one down.
        signs = builder.op(arith.XOrIOp, remainder, divisor)
        was_rounded_other_way = builder.test("sge" if up else "slt", signs, 0)
        needs_correction = builder.truth(arith.AndIOp, needs_correction, was_rounded_other_way)
    return builder.op(arith.AddiOp if up else arith.SubiOp, quotient, builder.widened(needs_correction))


# Shifts


def _shift(builder: _Builder, op: Operation, target: TargetIntegers, *, kind: type[Operation]) -> Results:
    """Expand a shift of the class `kind`; return None for a constant count below the width, which needs no guard.

    With a count of at least the width, `shrsi` gives copies of the sign, `shli` and `shrui` give 0. For i32:

        arith.shrsi %x, %n      becomes     %x shifted by the unsigned minimum of %n and 31
        arith.shli %x, %n       becomes     %x shifted by %n if %n <u 32, else 0
    """
    lhs, rhs = operands_of(op)
    width, count = target.width(lhs.type), constant_or_value(rhs)
    if type(count) is int and 0 <= count < width:
        return None
    is_too_large = type(count) is int  # a constant count below the width has returned above
    most = builder.number(width - 1)  # the largest count that machines define
    if kind is arith.ShRSIOp:
        limited = most if is_too_large else builder.op(arith.MinUIOp, rhs, most)
        return [builder.unguarded(kind, lhs, limited)]
    if is_too_large:
        return [builder.number(0)]
    fits = builder.build.compare("ult", rhs, builder.number(width))
    if target.has_word_counts and width > 32:
        # The machine takes only the low 32 bits of the count: a count of 2^32 would shift by 0.
        rhs = builder.op(arith.MinUIOp, rhs, most)
    # The result is undefined where the count is too large; `select` ignores it there.
    shifted = builder.unguarded(kind, lhs, rhs)
    return [builder.select(fits, shifted, builder.number(0))]


# Integers of one bit. As signed numbers, their values are 0 and -1.


def _replaced_by(kind: type[Operation]) -> Rule:
    """Return the rule that replaces an operation on one bit by `kind`, which is equal there: `addi` by `xori`."""
    return lambda builder, op, target: [builder.op(kind, *operands_of(op))]


def _and_not(builder: _Builder, op: Operation, target: TargetIntegers) -> Results:
    """Expand a remainder or `arith.shli`, `arith.shrui` of i1 to `lhs and not rhs`: `lhs` where `rhs` is 0, else 0."""
    lhs, rhs = operands_of(op)
    return [builder.both(lhs, builder.inverted(rhs))]


def _first_operand(builder: _Builder, op: Operation, target: TargetIntegers) -> Results:
    """Expand `arith.shrsi`, `math.absi` or `math.ctpop` of i1 to the first operand, which is also its result."""
    return [operands_of(op)[0]]


def _inverted(builder: _Builder, op: Operation, target: TargetIntegers) -> Results:
    """Expand `math.ctlz` or `math.cttz` of i1 to `not operand`: a 0 has one leading and trailing zero, a 1 has none."""
    return [builder.inverted(operands_of(op)[0])]


def _with_carry(builder: _Builder, op: Operation, target: TargetIntegers) -> Results:
    """Expand an `arith.addui_extended` of i1 to its two results: the sum modulo 2 and the carry."""
    lhs, rhs = operands_of(op)
    return [builder.op(arith.XOrIOp, lhs, rhs), builder.both(lhs, rhs)]


def _wide_product(builder: _Builder, op: Operation, target: TargetIntegers) -> Results:
    """Expand an `arith.mulsi_extended` or `mului_extended` of i1 to its results: the low bit, and the high bit, 0."""
    return [builder.both(*operands_of(op)), builder.number(0)]


def _compared(builder: _Builder, op: Operation, target: TargetIntegers) -> Results:
    """Expand a comparison of two bits to logic; return None for `eq`.

    Unsigned, 0 < 1, so `ult` is `not lhs and rhs`, and `ule` is `not lhs or rhs`. Signed, the set bit is -1, so `slt`
    and `sle` are the same with the operands exchanged, as are `ugt` and `uge`.
    """
    predicate, (lhs, rhs) = INT_PREDICATES[integer(op, "predicate")], operands_of(op)
    if predicate == "eq":
        return None
    if predicate == "ne":
        return [builder.op(arith.XOrIOp, lhs, rhs)]
    if predicate in ("slt", "sle", "ugt", "uge"):
        lhs, rhs = rhs, lhs
    is_strict = predicate in ("ult", "slt", "ugt", "sgt")
    return [builder.op(arith.AndIOp if is_strict else arith.OrIOp, builder.inverted(lhs), rhs)]


RULES: dict[str, Rule] = {
    "arith.divsi": partial(_toward_zero, kind=arith.DivSIOp, is_signed=True, is_quotient=True),
    "arith.divui": partial(_toward_zero, kind=arith.DivUIOp, is_signed=False, is_quotient=True),
    "arith.remsi": partial(_toward_zero, kind=arith.RemSIOp, is_signed=True, is_quotient=False),
    "arith.remui": partial(_toward_zero, kind=arith.RemUIOp, is_signed=False, is_quotient=False),
    "arith.floordivsi": partial(_rounded, up=False, is_signed=True),
    "arith.ceildivsi": partial(_rounded, up=True, is_signed=True),
    "arith.ceildivui": partial(_rounded, up=True, is_signed=False),
    "arith.shli": partial(_shift, kind=arith.ShLIOp),
    "arith.shrsi": partial(_shift, kind=arith.ShRSIOp),
    "arith.shrui": partial(_shift, kind=arith.ShRUIOp),
}
"""Name of an operation on integers of two bits or more → function that expands it."""
TRUTH_RULES: dict[str, Rule] = {
    **dict.fromkeys(("arith.addi", "arith.subi"), _replaced_by(arith.XOrIOp)),
    **dict.fromkeys(("arith.muli", "arith.minui", "arith.maxsi"), _replaced_by(arith.AndIOp)),
    **dict.fromkeys(("arith.maxui", "arith.minsi"), _replaced_by(arith.OrIOp)),
    **dict.fromkeys(("arith.divsi", "arith.divui", "arith.floordivsi"), _replaced_by(arith.AndIOp)),
    **dict.fromkeys(("arith.ceildivsi", "arith.ceildivui"), _replaced_by(arith.AndIOp)),
    **dict.fromkeys(("arith.remsi", "arith.remui", "arith.shli", "arith.shrui"), _and_not),
    **dict.fromkeys(("arith.shrsi", "math.absi", "math.ctpop"), _first_operand),
    **dict.fromkeys(("math.ctlz", "math.cttz"), _inverted),
    **dict.fromkeys(("arith.mulsi_extended", "arith.mului_extended"), _wide_product),
    "arith.addui_extended": _with_carry,
    "arith.cmpi": _compared,
}
"""Name of an operation on integers of one bit → function that expands it.

A sum modulo 2 is an exclusive or. The set bit is 1 as an unsigned number, and -1 as a signed one: the signed maximum of
0 and -1 is 0, the conjunction of the bits. x / 0 is 0 and x / x is x, also a conjunction."""
_NAMES = RULES.keys() | TRUTH_RULES.keys()
"""Operations that the pass visits."""
