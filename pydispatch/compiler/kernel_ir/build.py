"""Builder of operations for passes over kernel IR, before an operation or at the end of a block."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TypeAlias

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IndexType, IntegerAttr, IntegerType, LocationAttr, UnitAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, OpResult, Region, SSAValue, SSAValues, Use

from pydispatch.compiler.kernel_ir.indices import IndexArithmetic
from pydispatch.compiler.kernel_ir.kernel import IN_RANGE, MOST_ITERATIONS
from pydispatch.compiler.kernel_ir.readers import INT_PREDICATES
from pydispatch.ir.dialects.arith import IndexCastUIOp

Index: TypeAlias = int | SSAValue
"""An index: a Python int if it is known at compile time, else a value."""

INDEX, WORD, TRUTH = IndexType(), IntegerType(32), IntegerType(1)
"""Types of indices, of 32-bit integers and of truth values."""
_MAY_WRAP = {"overflowFlags": arith.IntegerOverflowAttr("none")}
"""Properties of integer arithmetic that wraps around."""
_WITH_FLAGS = (arith.AddiOp, arith.SubiOp, arith.MuliOp, arith.ShLIOp)
"""Operations that have flags for overflow."""
_NSW = {"overflowFlags": arith.IntegerOverflowAttr([arith.IntegerOverflowFlag.NSW])}
"""Properties of index arithmetic, which does not overflow."""
_PREDICATES = {name: {"predicate": IntegerAttr(index, 64)} for index, name in enumerate(INT_PREDICATES)}
"""Predicate -> properties of `arith.cmpi`."""


def constant_or_value(value: SSAValue) -> Index:
    """Return the integer of a constant, and any other value itself."""
    if type(value) is OpResult and type(value.op) is arith.ConstantOp:
        constant = value.op.properties["value"]
        if type(constant) is IntegerAttr:
            return int(constant.value.data)
    return value


@functools.lru_cache(1024)
def _number(value: int, type_: IntegerType | IndexType) -> Attribute:
    """Return the attribute of an integer constant; cached, because most constants are a few frequent ones."""
    return IntegerAttr(value, type_)


_HAS_KNOWN_LAYOUT = Operation.__annotations__.keys() >= {
    "_operands", "_operand_uses", "_successors", "_successor_uses", "_next_op", "_prev_op"
}  # fmt: skip
"""Whether xDSL's operations have the fields that `create` and `move` set; if not, both use its public interface."""


def create(
    kind: type[Operation],
    location: LocationAttr,
    operands: Sequence[SSAValue],
    types: Sequence[Attribute],
    properties: dict[str, Attribute] | None = None,
) -> Operation:
    """Create an operation without regions, which is in no block yet.

    Args:
        kind: Class of the operation.
        location: Location of the operation.
        operands: Operands of the operation.
        types: Types of its results.
        properties: Its properties. The operation owns the dictionary from then on; default values are not added.
    """
    if not _HAS_KNOWN_LAYOUT:  # this version of xDSL has other private fields than those that are set below
        return kind.create(operands=operands, result_types=types, properties=properties or {}, location=location)
    # Sets the fields as `Operation.create` does, in two fifths of its time: that also handles regions, successors and
    # attributes.
    op = kind.__new__(kind)
    op._operands = SSAValues(operands)
    op._operand_uses = uses = tuple([Use(op, index) for index in range(len(operands))])
    for value, use in zip(operands, uses):  # noqa: B905
        value.add_use(use)
    op.results = SSAValues([OpResult(type_, op, index) for index, type_ in enumerate(types)])
    op.properties, op.attributes = {} if properties is None else properties, {}
    op._successors = op._successor_uses = op.regions = ()
    op.location = location
    return op


def move(first: Operation, end: Operation, insert: Callable[[Operation], object]) -> None:
    """Move the operations from `first` up to, but not including, `end` to another position.

    The operations of a block are a linked list. `first` is inserted by the public interface; the rest of the list is
    then linked in after it, which is faster than one insertion per operation.

    Args:
        first: The first operation of its block.
        end: The operation of the same block after the last one that is moved.
        insert: Inserts an operation at the new position, after the operations that it inserted before.
    """
    source, second, last = end.parent, first.next_op, end.prev_op
    first.detach()
    insert(first)
    block = first.parent
    assert source is not None and block is not None and last is not None
    if not _HAS_KNOWN_LAYOUT:  # this version of xDSL has other private fields than those that are set below
        while second is not None and second is not end:
            op, second = second, second.next_op
            op.detach()
            insert(op)
    # Relink the operations from `second` to `last` in place.
    elif second is not None and second is not end:
        source._first_op, end._prev_op = end, None  # unlink second to last; `first` was the head of the list
        op = second
        while op is not end:
            op.parent = block
            op = op._next_op  # type: ignore[assignment]
        following = first._next_op  # link second to last between `first` and the operation after it
        first._next_op, second._prev_op, last._next_op = second, first, following
        if following is None:
            block._last_op = last
        else:
            following._prev_op = last


class Entry:
    """Insertion point at the beginning of a function.

    Operations inserted here dominate all others, and are in the order of their insertion.

    Attributes:
        function: The function.
        block: Its first block.
    """

    def __init__(self, function: FuncOp) -> None:
        """Begin at the start of the first block of `function`, which must have a body."""
        self.function = function
        block = function.body.first_block
        assert block is not None
        self.block = block
        self._last: Operation | None = None  # the operation added last; the next one follows it
        self._constants: dict[tuple[int, Attribute], SSAValue] = {}  # (value, type) → constant

    def insert(self, op: Operation) -> None:
        """Insert an operation after those that were inserted here before: they are at the start of the function."""
        block = self.block
        if self._last is not None:
            block.insert_op_after(op, self._last)
        elif block.first_op is not None:
            block.insert_op_before(op, block.first_op)
        else:
            block.add_op(op)
        self._last = op

    def constant(self, value: int, type_: IntegerType | IndexType) -> SSAValue:
        """Insert an integer constant unless there is one of its value and type, and return it."""
        cached = self._constants.get((value, type_))
        if cached is None:
            op = create(arith.ConstantOp, self.function.location, (), (type_,), {"value": _number(value, type_)})
            self.insert(op)
            (cached,) = op.results
            self._constants[value, type_] = cached
        return cached


class Build(IndexArithmetic[SSAValue]):
    """Builder of operations of kernel IR at one position, before an operation or at the end of a block.

    A pass creates one for the operation that it rewrites (`origin`); new operations get the location of that one.

    Attributes:
        entry: Beginning of the function, for constants.
        origin: Operation whose location new operations get.
        insert: Inserts an operation at the builder's position.
    """

    def __init__(self, entry: Entry, origin: Operation, insert: Callable[[Operation], object]) -> None:
        """Create a builder; the arguments are the attributes of these names."""
        self.entry, self.origin, self.insert = entry, origin, insert

    @classmethod
    def before(cls, entry: Entry, op: Operation) -> Build:
        """Return a builder that inserts before `op`, with its location; constants are inserted by `entry`."""
        block = op.parent
        assert block is not None
        return cls(entry, op, lambda new: block.insert_op_before(new, op))

    def inside(self, block: Block) -> Build:
        """Return a builder that appends to `block`, with the same location, and the same entry for constants."""
        return Build(self.entry, self.origin, block.add_op)

    def op(self, op: Operation) -> Operation:
        """Insert an operation at the builder's position, with the location of `origin`, and return it."""
        op.location = self.origin.location
        self.insert(op)
        return op

    def let(self, op: Operation) -> SSAValue:
        """Insert an operation, and return its first result."""
        result, *_ = self.op(op).results
        return result

    def make(
        self,
        kind: type[Operation],
        operands: Sequence[SSAValue],
        type_: Attribute,
        properties: dict[str, Attribute] | None = None,
    ) -> SSAValue:
        """Create and insert an operation of the class `kind`, without regions and with one result; return the result.

        Args:
            kind: Class of the operation.
            operands: Its operands.
            type_: Type of its result.
            properties: Its properties. The operation owns the dictionary from then on.
        """
        op = create(kind, self.origin.location, operands, (type_,), properties)
        self.insert(op)
        (result,) = op.results
        return result

    def arithmetic(self, kind: type[Operation], operands: Sequence[SSAValue], type_: Attribute) -> SSAValue:
        """Insert an operation on integers of any type, which may wrap around, and return its result."""
        return self.make(kind, operands, type_, dict(_MAY_WRAP) if kind in _WITH_FLAGS else None)

    def value(self, index: Index) -> SSAValue:
        """Return an index as a value; a known one becomes a constant."""
        return self.entry.constant(index, INDEX) if type(index) is int else index  # type: ignore[return-value]

    def binary(self, kind: type[Operation], lhs: Index, rhs: Index) -> SSAValue:
        """Insert an operation on two indices whose result is an index, and return the result."""
        return self.make(kind, (self.value(lhs), self.value(rhs)), INDEX)

    def _nsw(self, kind: type[Operation], lhs: Index, rhs: Index) -> SSAValue:
        """Insert an operation on indices that does not overflow, and return its result."""
        return self.make(kind, (self.value(lhs), self.value(rhs)), INDEX, dict(_NSW))

    def _sum(self, lhs: SSAValue, rhs: Index) -> SSAValue:
        """Insert an addition of indices; see `plus`, which calls this if they are not both known."""
        return self._nsw(arith.AddiOp, lhs, rhs)

    def _difference(self, lhs: Index, rhs: SSAValue) -> SSAValue:
        """Insert a subtraction of indices; see `minus`."""
        return self._nsw(arith.SubiOp, lhs, rhs)

    def _product(self, lhs: SSAValue, rhs: Index) -> SSAValue:
        """Insert a multiplication of indices; see `times`."""
        return self._nsw(arith.MuliOp, lhs, rhs)

    def least(self, lhs: Index, rhs: Index) -> Index:
        """Return the smaller of two indices, signed."""
        return min(lhs, rhs) if type(lhs) is int and type(rhs) is int else self.binary(arith.MinSIOp, lhs, rhs)

    def most(self, lhs: Index, rhs: Index) -> Index:
        """Return the larger of two indices, signed."""
        return max(lhs, rhs) if type(lhs) is int and type(rhs) is int else self.binary(arith.MaxSIOp, lhs, rhs)

    def divide(self, lhs: Index, rhs: Index, narrow: bool = False) -> tuple[Index, Index]:
        """Insert an unsigned division of indices by a divisor that is not 0, and return (quotient, remainder).

        `narrow` states that both indices fit into 31 bits, so that a division of 32 bits suffices. The operations are
        marked IN_RANGE: the divisor needs no guard against 0. Nothing is inserted for two constants, or for the
        divisor 1.
        """
        if type(lhs) is int and type(rhs) is int:
            return lhs // rhs, lhs % rhs
        if rhs == 1:
            return lhs, 0
        operands, type_ = [self.value(lhs), self.value(rhs)], WORD if narrow else INDEX
        if narrow:
            operands = [self.let(arith.IndexCastOp(operand, WORD)) for operand in operands]
        both = [
            self.let(kind.create(operands=operands, result_types=[type_], attributes={IN_RANGE: UnitAttr()}))
            for kind in (arith.DivUIOp, arith.RemUIOp)
        ]
        if narrow:  # results are below 2^31, so that either extension is right
            both = [self.let(IndexCastUIOp.create(operands=[index], result_types=[INDEX])) for index in both]
        quotient, remainder = both
        return quotient, remainder

    def compare(self, predicate: str, lhs: Index, rhs: Index) -> SSAValue:
        """Insert a comparison of two indices, such as `compare("slt", i, n)`, and return its result, an i1."""
        return self.make(arith.CmpiOp, (self.value(lhs), self.value(rhs)), TRUTH, dict(_PREDICATES[predicate]))

    def select(self, condition: SSAValue, lhs: Index, rhs: Index) -> SSAValue:
        """Insert the choice of `lhs` if the condition holds, else `rhs`, and return the index."""
        return self.make(arith.SelectOp, (condition, self.value(lhs), self.value(rhs)), INDEX)

    def when(self, condition: SSAValue) -> Build:
        """Insert an `scf.if` without results or else branch, and return the builder of its branch.

        The caller terminates the branch with `end`.
        """
        block = Block()
        branch = create(scf.IfOp, self.origin.location, (condition,), ())
        branch.add_region(Region(block))
        branch.add_region(Region())
        self.insert(branch)
        return self.inside(block)

    def end(self, values: Sequence[SSAValue] = ()) -> None:
        """Append `scf.yield` of these values, the terminator of a block in an scf operation."""
        self.insert(create(scf.YieldOp, self.origin.location, values, ()))

    def loop(
        self,
        lower: Index,
        upper: Index,
        step: Index,
        carried: Sequence[SSAValue],
        body: Callable[[Build, SSAValue, list[SSAValue]], Sequence[SSAValue]],
        most: int | None = None,
    ) -> list[SSAValue]:
        """Insert an `scf.for`, and return its results.

        Args:
            lower, upper, step: Bounds and step of the counter.
            carried: Initial values of the loop-carried values, whose final values are the results.
            body: Emits an iteration from a builder, the counter and the carried values, and returns their next values.
            most: Maximum iteration count, if the bounds are unknown but it is not.
        """
        types = [value.type for value in carried]
        block = Block(arg_types=[INDEX, *types])
        inner = self.inside(block)
        inner.end(body(inner, block.args[0], list(block.args[1:])))
        operands = [*(self.value(part) for part in (lower, upper, step)), *carried]
        loop = self.op(scf.ForOp.create(operands=operands, result_types=types, regions=[Region(block)]))
        if most is not None:
            loop.attributes[MOST_ITERATIONS] = IntegerAttr(most, 64)
        return list(loop.results)


def replace(op: Operation, results: Sequence[SSAValue]) -> None:
    """Replace all uses of an operation's results by `results`, and erase the operation."""
    for old, new in zip(op.results, results, strict=True):
        old.replace_all_uses_with(new)
    op.detach()
    op.drop_all_references()
