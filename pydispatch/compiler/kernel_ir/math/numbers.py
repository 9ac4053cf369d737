"""Values of a function being written, so that formulas read as formulas: floats, words as wide as them, and truths.

Arithmetic writes `arith` and `math` operations; numbers of Python are constants. Comparisons of floats are false if an
operand is NaN. Comparisons of words are signed.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, TypeVar

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import (
    Float32Type,
    Float64Type,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    UnitAttr,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue

from pydispatch.compiler.kernel_ir.kernel import IN_RANGE
from pydispatch.compiler.kernel_ir.math.body import Body
from pydispatch.compiler.kernel_ir.readers import FLOAT_PREDICATES, INT_PREDICATES
from pydispatch.compiler.kernel_ir.types import bit_width

TRUTH = IntegerType(1)
"""Type of the results of comparisons."""
_OF_WORDS = {name: IntegerAttr(index, i64) for index, name in enumerate(INT_PREDICATES)}
"""Predicate of `arith.cmpi` -> its attribute."""
_OF_FLOATS = {name: IntegerAttr(index, i64) for index, name in enumerate(FLOAT_PREDICATES)}
"""Predicate of `arith.cmpf` -> its attribute."""
_FLOATS: dict[int, Attribute] = {32: Float32Type(), 64: Float64Type()}
"""Bits -> the type of a Number."""
_WORDS = {bits: IntegerType(bits) for bits in (4, 6, 8, 16, 32, 64, 128)}
"""Bits -> the type of a Word."""


class Value:
    """A value of the function that is written into `body`: operators on it append operations there."""

    __slots__ = ("body", "value")

    def __init__(self, body: Body, value: SSAValue) -> None:
        """Wrap `value`, which is in scope at the end of `body`."""
        self.body, self.value = body, value

    def wrapped(self, value: SSAValue) -> Any:
        """Wrap another SSA value of the function in an object of this class; its type must be one of the class's."""
        return type(self)(self.body, value)


V = TypeVar("V", bound=Value)
N = TypeVar("N", "Number", "Word")
"""Operand of formulas that are the same for floats and integers."""


class Truth(Value):
    """Truth value, an i1, in a math function that is being written."""

    __slots__ = ()

    def __and__(self, other: Truth) -> Truth:
        return Truth(self.body, self.body.op(arith.AndIOp, TRUTH, self.value, other.value))

    def __or__(self, other: Truth) -> Truth:
        return Truth(self.body, self.body.op(arith.OrIOp, TRUTH, self.value, other.value))

    def __xor__(self, other: Truth) -> Truth:
        return Truth(self.body, self.body.op(arith.XOrIOp, TRUTH, self.value, other.value))

    def __invert__(self) -> Truth:
        """Return the negation, `~truth`, as the exclusive or with 1."""
        true = self.body.constant((1, TRUTH), TRUTH, lambda: IntegerAttr(1, TRUTH))
        return Truth(self.body, self.body.op(arith.XOrIOp, TRUTH, self.value, true))


class Word(Value):
    """Integer or index in a math function that is being written: its operators emit operations of kernel IR.

    Operators compute in two's complement, and comparisons are signed.
    """

    __slots__ = ()

    @property
    def width(self) -> int:
        """The width of the integer in bits."""
        return bit_width(self.value.type)

    def new(self, value: Word | int) -> Word:
        """Return an integer constant of this word's type, wrapped to its width; return a word as it is."""
        if isinstance(value, Word):
            return value
        type_ = self.value.type
        value &= (1 << self.width) - 1
        signed = value - (1 << self.width) if value >> (self.width - 1) else value  # as attributes have integers
        return Word(self.body, self.body.constant((signed, type_), type_, lambda: IntegerAttr(signed, type_)))  # type: ignore

    def _op(self, kind: type[Operation], lhs: Word | int, rhs: Word | int) -> Word:
        """Append an integer operation, and return its result."""
        return Word(self.body, self.body.op(kind, self.value.type, self.new(lhs).value, self.new(rhs).value))

    def _bounded(self, kind: type[Operation], other: Word | int) -> Word:
        """Append a shift or unsigned division of this word by `other`, an operation of class `kind`; return its result.

        Callers ensure that an operand that is a word is in range: a count is below the width, a divisor is not 0. The
        operation is then marked IN_RANGE, so that its expansion adds no guard.
        """
        result = self._op(kind, self, other)
        if isinstance(other, Word):  # an int becomes a constant, which the expansion sees to be in range
            result.value.owner.attributes[IN_RANGE] = UnitAttr()  # type: ignore[union-attr]
        return result

    def __add__(self, other: Word | int) -> Word:
        return self._op(arith.AddiOp, self, other)

    def __sub__(self, other: Word | int) -> Word:
        return self._op(arith.SubiOp, self, other)

    def __rsub__(self, other: int) -> Word:
        return self._op(arith.SubiOp, other, self)

    def __mul__(self, other: Word | int) -> Word:
        return self._op(arith.MuliOp, self, other)

    def __floordiv__(self, other: Word | int) -> Word:
        """Return the unsigned quotient; `other` must not be 0."""
        return self._bounded(arith.DivUIOp, other)

    def __mod__(self, other: Word | int) -> Word:
        """Return the unsigned remainder; `other` must not be 0."""
        return self._bounded(arith.RemUIOp, other)

    def __and__(self, other: Word | int) -> Word:
        return self._op(arith.AndIOp, self, other)

    def __or__(self, other: Word | int) -> Word:
        return self._op(arith.OrIOp, self, other)

    def __xor__(self, other: Word | int) -> Word:
        return self._op(arith.XOrIOp, self, other)

    def __lshift__(self, count: Word | int) -> Word:
        return self._bounded(arith.ShLIOp, count)

    def __rshift__(self, count: Word | int) -> Word:
        """Return the word shifted right logically: zeros are shifted in."""
        return self._bounded(arith.ShRUIOp, count)

    def shifted_signed(self, count: int) -> Word:
        """Return the word shifted right arithmetically: copies of the sign bit are shifted in."""
        return self._op(arith.ShRSIOp, self, count)

    def _test(self, predicate: str, other: Word | int) -> Truth:
        """Append a comparison, and return its result."""
        operands = self.value, self.new(other).value
        return Truth(self.body, self.body.op(arith.CmpiOp, TRUTH, *operands, predicate=_OF_WORDS[predicate]))

    def __lt__(self, other: Word | int) -> Truth:
        return self._test("slt", other)

    def __le__(self, other: Word | int) -> Truth:
        return self._test("sle", other)

    def __gt__(self, other: Word | int) -> Truth:
        return self._test("sgt", other)

    def equals(self, other: Word | int) -> Truth:
        """Return whether the words are equal."""
        return self._test("eq", other)

    def differs(self, other: Word | int) -> Truth:
        """Return whether the words are not equal."""
        return self._test("ne", other)

    def below(self, other: Word | int) -> Truth:
        """Return whether the word is less than `other`, unsigned."""
        return self._test("ult", other)

    def above(self, other: Word | int) -> Truth:
        """Return whether the word is greater than `other`, unsigned."""
        return self._test("ugt", other)

    def resized(self, width: int) -> Word:
        """Return the word truncated, or extended with zeros."""
        if width == self.width:
            return self
        kind = arith.TruncIOp if width < self.width else arith.ExtUIOp
        return Word(self.body, self.body.op(kind, _WORDS[width], self.value))

    def extended(self, width: int, is_signed: bool) -> Word:
        """Extend the word to a larger width, with copies of its sign bit (`is_signed`) or with zeros."""
        if width == self.width:
            return self
        kind = arith.ExtSIOp if is_signed else arith.ExtUIOp
        return Word(self.body, self.body.op(kind, _WORDS[width], self.value))

    def element_of(self, name: str, values: Sequence[int] | Sequence[float], type_: Attribute) -> SSAValue:
        """Load the element of a constant table that has this word as its index.

        Args:
            name: Identifies the table, which is created on first use and shared by later loads.
            values: All elements of the table.
            type_: Type of an element.
        """
        return self.body.table(name, values, type_, self.resized(32).value)

    def as_bits(self, type_: Attribute) -> SSAValue:
        """Return the bits of this word as a value of another type of this width."""
        return self.body.op(arith.BitcastOp, type_, self.value)

    def as_float(self) -> Number:
        """Return the float with these bits."""
        return Number(self.body, self.as_bits(_FLOATS[self.width]))

    def to_float(self) -> Number:
        """Return the nearest float of this width, 32 or 64; the word is signed."""
        return Number(self.body, self.body.op(arith.SIToFPOp, _FLOATS[self.width], self.value))


class Number(Value):
    """Float, f32 or f64, in a math function that is being written: its operators emit operations of kernel IR.

    Comparisons are false if one operand is NaN.
    """

    __slots__ = ()

    @property
    def width(self) -> int:
        """The width of the float in bits, 32 or 64."""
        return 32 if type(self.value.type) is Float32Type else 64

    def new(self, value: Number | float) -> Number:
        """Return a float constant of this number's type, rounded to it; return a number as it is."""
        if isinstance(value, Number):
            return value
        type_ = self.value.type
        if self.width == 32:  # to the nearest; a Python float is an f64, the other type of a Number
            value = struct.unpack("<f", struct.pack("<f", value))[0]
        key = struct.pack("<d", value), type_  # the bits, since 0.0 and -0.0 are equal
        return Number(self.body, self.body.constant(key, type_, lambda: FloatAttr(value, type_)))  # type: ignore

    def _op(self, kind: type[Operation], *operands: Number | float) -> Number:
        """Append a float operation with the flags of the body, and return its result."""
        values = (self.new(operand).value for operand in operands)
        return Number(self.body, self.body.op(kind, self.value.type, *values, **self.body.flags))

    def __add__(self, other: Number | float) -> Number:
        return self._op(arith.AddfOp, self, other)

    def __radd__(self, other: float) -> Number:
        return self._op(arith.AddfOp, other, self)

    def __sub__(self, other: Number | float) -> Number:
        return self._op(arith.SubfOp, self, other)

    def __rsub__(self, other: float) -> Number:
        return self._op(arith.SubfOp, other, self)

    def __mul__(self, other: Number | float) -> Number:
        return self._op(arith.MulfOp, self, other)

    __rmul__ = __mul__

    def __truediv__(self, other: Number | float) -> Number:
        return self._op(arith.DivfOp, self, other)

    def __rtruediv__(self, other: float) -> Number:
        return self._op(arith.DivfOp, other, self)

    def __neg__(self) -> Number:
        return self._op(arith.NegfOp, self)

    def fma(self, factor: Number | float, term: Number | float) -> Number:
        """Return self * factor + term; whether the product is rounded before the sum depends on the target."""
        return self._op(math.FmaOp, self, factor, term)

    def sqrt(self) -> Number:
        """Return the square root."""
        return self._op(math.SqrtOp, self)

    def truncated(self) -> Number:
        """Return the number rounded toward zero to a whole number."""
        return self._op(math.TruncOp, self)

    def floor(self) -> Number:
        """Return the number rounded down to a whole number."""
        return self._op(math.FloorOp, self)

    def magnitude(self) -> Number:
        """Return the absolute value."""
        return self._op(math.AbsFOp, self)

    def maximum(self, other: Number) -> Number:
        """Return the larger number; NaN if either is NaN."""
        return self._op(arith.MaximumfOp, self, other)

    def minimum(self, other: Number) -> Number:
        """Return the smaller number; NaN if either is NaN."""
        return self._op(arith.MinimumfOp, self, other)

    def with_sign_of(self, other: Number) -> Number:
        """Return the number with the sign bit of another one."""
        return self._op(math.CopySignOp, self, other)

    def _test(self, predicate: str, other: Number | float) -> Truth:
        """Append a comparison, and return its result."""
        operands = self.value, self.new(other).value
        return Truth(self.body, self.body.op(arith.CmpfOp, TRUTH, *operands, predicate=_OF_FLOATS[predicate]))

    def __lt__(self, other: Number | float) -> Truth:
        return self._test("olt", other)

    def __le__(self, other: Number | float) -> Truth:
        return self._test("ole", other)

    def __gt__(self, other: Number | float) -> Truth:
        return self._test("ogt", other)

    def __ge__(self, other: Number | float) -> Truth:
        return self._test("oge", other)

    def equals(self, other: Number | float) -> Truth:
        """Return whether the numbers are ordered and equal: false if either is NaN."""
        return self._test("oeq", other)

    def differs(self, other: Number | float) -> Truth:
        """Return whether the numbers are ordered and not equal: false if either is NaN."""
        return self._test("one", other)

    def is_nan(self) -> Truth:
        """Return whether the number is NaN."""
        return self._test("uno", self)

    def bits(self) -> Word:
        """Return the bits of the number as an integer."""
        return Word(self.body, self.body.op(arith.BitcastOp, _WORDS[self.width], self.value))

    def is_negative(self) -> Truth:
        """Return whether the sign bit is set; -0 counts as negative."""
        return self.bits() < 0

    def at_most(self, high: float) -> Number:
        """Return the smaller of the number and `high`; NaN stays NaN."""
        return choose(self > high, high, self)

    def clamp(self, low: float, high: float) -> Number:
        """Return the number limited to the interval from `low` to `high`; NaN stays NaN."""
        return choose(self < low, low, self).at_most(high)

    def converted(self, type_: Attribute) -> Number:
        """Return the number converted to f32 or f64, rounded to nearest even."""
        kind = arith.ExtFOp if type(type_) is Float64Type else arith.TruncFOp
        return Number(self.body, self.body.op(kind, type_, self.value))


def word_of(body: Body, value: SSAValue) -> Word:
    """Return the bits of a float as an integer."""
    return Word(body, body.op(arith.BitcastOp, _WORDS[bit_width(value.type)], value))


def choose(condition: Truth, then: V | float, otherwise: V | float) -> V:
    """Return `then` if the condition holds, else `otherwise`; one of them may be a Python number.

    Both are computed: this is a select, not a branch.
    """
    like: Any = then if isinstance(then, Value) else otherwise  # the one that has the class and type of the result
    operands = condition.value, like.new(then).value, like.new(otherwise).value
    selected: V = like.wrapped(like.body.op(arith.SelectOp, like.value.type, *operands))
    return selected
