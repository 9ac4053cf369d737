"""Values of a function being written, so that formulas read as formulas: floats, words as wide as them, and truths.

Arithmetic writes `arith` and `math` operations; numbers of Python are constants. Comparisons of floats are false where
one is NaN, and those of words are signed.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from xdsl.dialects import arith, func, math, memref, scf
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    Float32Type,
    Float64Type,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    StringAttr,
    SymbolRefAttr,
    TensorType,
    UnitAttr,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from pydispatch.compiler.kernel_ir.kernel import IN_RANGE, MOST
from pydispatch.compiler.kernel_ir.readers import FLOAT_PREDICATES, INT_PREDICATES
from pydispatch.compiler.kernel_ir.types import bit_width

if TYPE_CHECKING:
    from collections.abc import Iterator

TRUTH, INDEX = IntegerType(1), IndexType()
_OF_WORDS = {name: IntegerAttr(number, i64) for number, name in enumerate(INT_PREDICATES)}
_OF_FLOATS = {name: IntegerAttr(number, i64) for number, name in enumerate(FLOAT_PREDICATES)}
_FLOATS: dict[int, Attribute] = {32: Float32Type(), 64: Float64Type()}
_WORDS = {bits: IntegerType(bits) for bits in (4, 6, 8, 16, 32, 64, 128)}


class Body:
    """The operations of a function being written."""

    def __init__(self, arguments: Sequence[Attribute], flags: dict[str, Attribute] | None = None) -> None:
        """flags: properties of all arithmetic on floats."""
        self.flags = flags or {}
        self.entry = self.block = Block(arg_types=arguments)
        self.globals: list[Operation] = []
        self._constants: dict[object, Operation] = {}

    def arguments(self) -> Sequence[SSAValue]:
        return self.entry.args

    def op(self, kind: type[Operation], type_: Attribute, *operands: SSAValue, **properties: Attribute) -> SSAValue:
        """Writes an operation with one result."""
        made = kind.create(operands=operands, result_types=[type_], properties=properties)
        self.block.add_op(made)
        return made.results[0]

    def constant(self, key: object, type_: Attribute, value: Callable[[], Attribute]) -> SSAValue:
        """A constant; all stand at the beginning of the function, each once."""
        found = self._constants.get(key)
        if found is None:
            found = arith.ConstantOp.create(result_types=[type_], properties={"value": value()})
            self._constants[key] = found
        return found.results[0]

    def table(self, name: str, values: Sequence[int] | Sequence[float], element: Attribute, at: Word) -> SSAValue:
        """An element of a constant table."""
        symbol, type_ = f"pyd.math.{name}", MemRefType(element, [len(values)])
        if all(each.properties["sym_name"].data != symbol for each in self.globals):  # type: ignore[attr-defined]
            data = DenseIntOrFPElementsAttr.from_list(TensorType(element, [len(values)]), values)  # type: ignore
            properties = {"sym_name": StringAttr(symbol), "type": type_, "initial_value": data, "constant": UnitAttr(),
                          "sym_visibility": StringAttr("private")}  # fmt: skip
            self.globals.append(memref.GlobalOp.create(properties=properties))
        whole = self.op(memref.GetGlobalOp, type_, name=SymbolRefAttr(symbol))
        place = self.op(arith.IndexCastOp, INDEX, at.resized(32).value)
        return self.op(memref.LoadOp, element, whole, place)

    def finish(self, results: Sequence[SSAValue]) -> func.FuncOp:
        """The function, which returns `results`."""
        self.entry.add_op(func.ReturnOp(*results))
        if self._constants:
            assert self.entry.first_op is not None
            self.entry.insert_ops_before(list(self._constants.values()), self.entry.first_op)
        types = [argument.type for argument in self.entry.args], [result.type for result in results]
        return func.FuncOp("definition", types, Region(self.entry))

    @contextmanager
    def inside(self, block: Block) -> Iterator[None]:
        outer, self.block = self.block, block
        try:
            yield
        finally:
            self.block = outer


class _Value:
    __slots__ = ("body", "value")

    def __init__(self, body: Body, value: SSAValue) -> None:
        self.body, self.value = body, value

    def made(self, value: SSAValue) -> Any:
        """A value of the same type."""
        return type(self)(self.body, value)


V = TypeVar("V", bound=_Value)
N = TypeVar("N", "Number", "Word")


class Truth(_Value):
    """An i1."""

    __slots__ = ()

    def __and__(self, other: Truth) -> Truth:
        return Truth(self.body, self.body.op(arith.AndIOp, TRUTH, self.value, other.value))

    def __or__(self, other: Truth) -> Truth:
        return Truth(self.body, self.body.op(arith.OrIOp, TRUTH, self.value, other.value))

    def __xor__(self, other: Truth) -> Truth:
        return Truth(self.body, self.body.op(arith.XOrIOp, TRUTH, self.value, other.value))

    def __invert__(self) -> Truth:
        true = self.body.constant((True, 1), TRUTH, lambda: IntegerAttr(1, TRUTH))
        return Truth(self.body, self.body.op(arith.XOrIOp, TRUTH, self.value, true))


class Word(_Value):
    """An integer, or an index; operators are those of two's complement."""

    __slots__ = ()

    @property
    def width(self) -> int:
        return bit_width(self.value.type)

    def new(self, value: Word | int) -> Word:
        if isinstance(value, Word):
            return value
        type_ = self.value.type
        value &= (1 << self.width) - 1
        signed = value - (1 << self.width) if value >> (self.width - 1) else value
        return Word(self.body, self.body.constant((signed, type_), type_, lambda: IntegerAttr(signed, type_)))  # type: ignore

    def _op(self, kind: type[Operation], a: Word | int, b: Word | int) -> Word:
        return Word(self.body, self.body.op(kind, self.value.type, self.new(a).value, self.new(b).value))

    def _bounded(self, kind: type[Operation], other: Word | int) -> Word:
        made = self._op(kind, self, other)
        if isinstance(other, Word):
            made.value.owner.attributes[IN_RANGE] = UnitAttr()  # type: ignore[union-attr]
        return made

    def __add__(self, other: Word | int) -> Word:
        return self._op(arith.AddiOp, self, other)

    def __sub__(self, other: Word | int) -> Word:
        return self._op(arith.SubiOp, self, other)

    def __rsub__(self, other: int) -> Word:
        return self._op(arith.SubiOp, other, self)

    def __mul__(self, other: Word | int) -> Word:
        return self._op(arith.MuliOp, self, other)

    def __floordiv__(self, other: Word | int) -> Word:
        """Without sign, by what is not 0."""
        return self._bounded(arith.DivUIOp, other)

    def __mod__(self, other: Word | int) -> Word:
        """Without sign, by what is not 0."""
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
        """Zeros come in."""
        return self._bounded(arith.ShRUIOp, count)

    def shifted_signed(self, count: int) -> Word:
        """To the right; copies of the sign come in."""
        return self._op(arith.ShRSIOp, self, count)

    def _test(self, predicate: str, other: Word | int) -> Truth:
        operands = self.value, self.new(other).value
        return Truth(self.body, self.body.op(arith.CmpiOp, TRUTH, *operands, predicate=_OF_WORDS[predicate]))

    def __lt__(self, other: Word | int) -> Truth:
        return self._test("slt", other)

    def __le__(self, other: Word | int) -> Truth:
        return self._test("sle", other)

    def __gt__(self, other: Word | int) -> Truth:
        return self._test("sgt", other)

    def equals(self, other: Word | int) -> Truth:
        return self._test("eq", other)

    def differs(self, other: Word | int) -> Truth:
        return self._test("ne", other)

    def below(self, other: Word | int) -> Truth:
        """Without sign."""
        return self._test("ult", other)

    def above(self, other: Word | int) -> Truth:
        """Without sign."""
        return self._test("ugt", other)

    def resized(self, width: int) -> Word:
        """Truncated, or extended with zeros."""
        if width == self.width:
            return self
        kind = arith.TruncIOp if width < self.width else arith.ExtUIOp
        return Word(self.body, self.body.op(kind, _WORDS[width], self.value))

    def extended(self, width: int, is_signed: bool) -> Word:
        if width == self.width:
            return self
        kind = arith.ExtSIOp if is_signed else arith.ExtUIOp
        return Word(self.body, self.body.op(kind, _WORDS[width], self.value))

    def as_bits(self, type_: Attribute) -> SSAValue:
        """The value of a type of this width that has these bits."""
        return self.body.op(arith.BitcastOp, type_, self.value)

    def as_float(self) -> Number:
        """The float with these bits."""
        return Number(self.body, self.as_bits(_FLOATS[self.width]))

    def to_float(self) -> Number:
        """The nearest float of this width; the word is signed."""
        return Number(self.body, self.body.op(arith.SIToFPOp, _FLOATS[self.width], self.value))


class Number(_Value):
    """An f32 or f64."""

    __slots__ = ()

    @property
    def width(self) -> int:
        return 32 if type(self.value.type) is Float32Type else 64

    def new(self, value: Number | float) -> Number:
        if isinstance(value, Number):
            return value
        type_ = self.value.type
        if self.width == 32:  # to the nearest
            value = struct.unpack("<f", struct.pack("<f", value))[0]
        key = struct.pack("<d", value), type_
        return Number(self.body, self.body.constant(key, type_, lambda: FloatAttr(value, type_)))  # type: ignore

    def _op(self, kind: type[Operation], *operands: Number | float) -> Number:
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
        """self * factor + term, where it does not matter whether the product is rounded."""
        return self._op(math.FmaOp, self, factor, term)

    def root(self) -> Number:
        return self._op(math.SqrtOp, self)

    def whole(self) -> Number:
        """Towards zero."""
        return self._op(math.TruncOp, self)

    def size(self) -> Number:
        return self._op(math.AbsFOp, self)

    def maximum(self, other: Number) -> Number:
        """NaN where one is NaN."""
        return self._op(arith.MaximumfOp, self, other)

    def minimum(self, other: Number) -> Number:
        """NaN where one is NaN."""
        return self._op(arith.MinimumfOp, self, other)

    def with_sign_of(self, other: Number) -> Number:
        return self._op(math.CopySignOp, self, other)

    def _test(self, predicate: str, other: Number | float) -> Truth:
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
        return self._test("oeq", other)

    def differs(self, other: Number | float) -> Truth:
        """Neither equal nor NaN."""
        return self._test("one", other)

    def is_nan(self) -> Truth:
        return self._test("uno", self)

    def bits(self) -> Word:
        return Word(self.body, self.body.op(arith.BitcastOp, _WORDS[self.width], self.value))

    def is_negative(self) -> Truth:
        """By the sign bit, that of -0 included."""
        return self.bits() < 0

    def at_most(self, high: float) -> Number:
        """NaN stays NaN."""
        return choose(self > high, high, self)

    def clamp(self, low: float, high: float) -> Number:
        """NaN stays NaN."""
        return choose(self < low, low, self).at_most(high)

    def converted(self, type_: Attribute) -> Number:
        """As an f32 or f64, rounded to nearest even."""
        kind = arith.ExtFOp if type(type_) is Float64Type else arith.TruncFOp
        return Number(self.body, self.body.op(kind, type_, self.value))


def word_of(body: Body, value: SSAValue) -> Word:
    """The bits of a float."""
    return Word(body, body.op(arith.BitcastOp, _WORDS[bit_width(value.type)], value))


Pair: TypeAlias = tuple[Number, Number]
"""A number as an unevaluated sum, the larger part first."""


def choose(condition: Truth, then: V | float, otherwise: V | float) -> V:
    """One of two values, of which one may be a number of Python."""
    like: Any = then if isinstance(then, _Value) else otherwise
    operands = condition.value, like.new(then).value, like.new(otherwise).value
    made: V = like.made(like.body.op(arith.SelectOp, like.value.type, *operands))
    return made


def one_of(
    condition: Truth, then: Callable[[], Sequence[_Value]], otherwise: Callable[[], Sequence[_Value]]
) -> list[Any]:
    """Values of one of two ways, of which only one runs."""
    body = condition.body
    regions: list[Region] = []
    ways: list[Sequence[_Value]] = []
    for way in (then, otherwise):
        block = Block()
        with body.inside(block):
            ways.append(way())
            block.add_op(scf.YieldOp(*(each.value for each in ways[-1])))
        regions.append(Region(block))
    made = scf.IfOp(condition.value, [each.value.type for each in ways[0]], regions[0], regions[1])
    body.block.add_op(made)
    return [like.made(result) for like, result in zip(ways[0], made.results, strict=True)]


def repeated(
    carried: Sequence[_Value],
    goes_on: Callable[[Sequence[Any]], Truth],
    step: Callable[[Sequence[Any]], Sequence[_Value]],
    most: int,
) -> list[Any]:
    """`step` on values as long as they say so; `most` times at most."""
    body, types = carried[0].body, [each.value.type for each in carried]

    def values(found: Sequence[SSAValue]) -> list[Any]:
        return [like.made(value) for like, value in zip(carried, found, strict=True)]

    test, block = Block(arg_types=types), Block(arg_types=types)
    with body.inside(test):
        test.add_op(scf.ConditionOp(goes_on(values(test.args)).value, *test.args))
    with body.inside(block):
        block.add_op(scf.YieldOp(*(each.value for each in step(values(block.args)))))
    made = scf.WhileOp([each.value for each in carried], types, Region(test), Region(block))
    made.attributes[MOST] = IntegerAttr(most, i64)
    body.block.add_op(made)
    return values(made.results)


def two_sum(a: Number, b: Number | float) -> Pair:
    """A sum, and what it was rounded by."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def fast_sum(a: Number, b: Number) -> Pair:
    """The same of numbers of which the first is not the smaller, or is 0."""
    s = a + b
    return s, b - (s - a)
