"""Phases of a kernel between barriers, and the positions in arrays of workgroup memory that their vectors access."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod
from typing import NamedTuple, TypeAlias

from xdsl.dialects import arith, memref, scf
from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Attribute, Block, Operation, SSAValue

from pydispatch.compiler.kernel_ir.build import constant_or_value
from pydispatch.compiler.kernel_ir.readers import INT_PREDICATES
from pydispatch.compiler.kernel_ir.vector_loops import LANES

_LARGEST = 1 << 16
"""Numbers of at least this absolute value are not analysed. Smaller ones do not wrap around, whatever the type of
indices."""

Access: TypeAlias = memref.LoadOp | memref.StoreOp


@dataclass(frozen=True)
class WorkgroupArray:
    """Array of workgroup memory that a kernel accesses, as `keep_arrays_in_registers` analyzes it.

    That pass creates it without lines, and adds them if the array can be replaced.

    Attributes:
        allocation: The operation that allocates it.
        shape: Its sizes, the last of which is a multiple of `LANES`.
        element: Type of its elements.
        lines: The stack arrays that replace its vectors, in the order of memory: each has `LANES` elements.
    """

    allocation: memref.AllocOp
    shape: tuple[int, ...]
    element: Attribute
    lines: list[SSAValue] = field(default_factory=list)

    @property
    def memory(self) -> SSAValue:
        """The memref that the array is accessed through."""
        return self.allocation.memref

    @property
    def line_count(self) -> int:
        """Number of vectors in the array."""
        return prod(self.shape) // LANES


@dataclass(frozen=True)
class Phase:
    """Phase of a kernel: one of the loops over the invocations of a workgroup that barriers divide it into.

    Attributes:
        loop: The loop, which counts from 0 by 1.
        invocations: Maximum number of invocations, a multiple of `LANES`.
    """

    loop: scf.ParallelOp
    invocations: int

    @property
    def is_whole(self) -> bool:
        """Whether the loop is known to have all of the invocations."""
        return constant_or_value(self.loop.upperBound[0]) == self.invocations

    def vectors(self) -> range:
        """Return the first invocation of each vector of `LANES` invocations."""
        return range(0, self.invocations, LANES)


class LinearIndex(NamedTuple):
    """Index that is a linear function of the invocation: slope * invocation + start."""

    slope: int
    start: int

    def at(self, invocation: int) -> int:
        """Return the value for an invocation."""
        return self.slope * invocation + self.start


def linear_of(value: SSAValue, lane: SSAValue) -> LinearIndex | None:
    """Return a value as a linear function of the invocation number `lane`; None if it is not known to be one.

    `(lane + 64) - 1` is the function with slope 1 and start 63. Only constants, sums, differences and casts are read.
    """
    if value is lane:
        return LinearIndex(slope=1, start=0)
    op = value.owner
    linear: LinearIndex | None = None  # stays None for other operations
    int_or_value = constant_or_value(value)
    if isinstance(int_or_value, int):
        linear = LinearIndex(slope=0, start=int_or_value)
    elif isinstance(op, arith.IndexCastOp):
        linear = linear_of(op.input, lane)
    elif isinstance(op, arith.AddiOp | arith.SubiOp):
        left, right = (linear_of(operand, lane) for operand in op.operands)
        if left is not None and right is not None:
            sign = 1 if isinstance(op, arith.AddiOp) else -1
            linear = LinearIndex(left.slope + sign * right.slope, left.start + sign * right.start)
    return linear if linear is not None and _is_in_range(linear, value.type) else None


def _is_in_range(linear: LinearIndex, type_: Attribute) -> bool:
    """Return whether a value of a type is the number that a linear function states, without having wrapped around.

    An index counts as not wrapped if `start` is small. An integer may wrap around for some invocations, so that its
    function must be constant (slope 0) and fit into the type.
    """
    if isinstance(type_, IntegerType):
        limit = 1 << (type_.width.data - 1)
        return linear.slope == 0 and -min(limit, _LARGEST) <= linear.start < min(limit, _LARGEST)
    return abs(linear.start) < _LARGEST


_TESTS = {
    "eq": int.__eq__, "ne": int.__ne__, "slt": int.__lt__, "sle": int.__le__, "sgt": int.__gt__, "sge": int.__ge__,
}  # fmt: skip
"""Predicate of a signed comparison -> function of two integers."""


def decide(condition: SSAValue, lane: SSAValue, first: int, truths: set[SSAValue]) -> bool | None:
    """Return the value of a condition in all invocations from `first` to `first + LANES - 1`; None if it is not known.

    With `first` 16, `lane < 48` is true, `lane < 8` false, and `lane < 20` None: it differs between the invocations.

    `truths` are values that are true.
    """
    if condition in truths:
        return True
    op = condition.owner
    if isinstance(op, arith.AndIOp):
        sides = [decide(operand, lane, first, truths) for operand in op.operands]
        if False in sides:
            return False
        return None if None in sides else True
    if not isinstance(op, arith.CmpiOp):
        return None
    test = _TESTS.get(INT_PREDICATES[op.predicate.value.data])  # the comparison in Python; None for unsigned ones
    left, right = linear_of(op.lhs, lane), linear_of(op.rhs, lane)
    if test is None or left is None or right is None:
        return None
    lanes = range(first, first + LANES)
    results = {bool(test(left.at(invocation), right.at(invocation))) for invocation in lanes}
    return results.pop() if len(results) == 1 else None


def executed(block: Block, lane: SSAValue, first: int, truths: set[SSAValue]) -> Iterator[Operation]:
    """Yield the operations of a block that the vector of invocations from `first` on executes.

    For a branch whose condition is known to be the same in all of them, these are the operations in the region that
    they take. Another branch is yielded as a whole. `lane` is the number of an invocation, the counter of the loop;
    `truths` are conditions that are known to be true.
    """
    for op in block.ops:
        decided = decide(op.cond, lane, first, truths) if isinstance(op, scf.IfOp) else None
        if isinstance(op, scf.IfOp) and decided is not None:
            region = op.true_region if decided else op.false_region
            if region.blocks:
                yield from executed(region.block, lane, first, truths)
        else:
            yield op


def start_of(array: WorkgroupArray, access: Access, lane: SSAValue, first: int) -> int | None:
    """Return the row-major position in an array of the element that invocation `first` accesses.

    For `a[2, lane + 16]` in an array of 4x64 elements and `first` 16, it is 2 * 64 + 32 = 160. Return None unless the
    `LANES` invocations from `first` on access consecutive elements of one row. `lane` is the number of the invocation.
    """
    row = 0  # row-major number of the row, from the indices that are equal in all invocations
    *outer, column = (linear_of(index, lane) for index in access.indices)
    for size, linear in zip(array.shape, outer, strict=False):  # without the size of the last dimension
        if linear is None or linear.slope != 0 or not 0 <= linear.start < size:
            return None
        row = row * size + linear.start
    columns = array.shape[-1]
    if column is None or column.slope != 1 or not 0 <= column.start + first <= columns - LANES:
        return None
    return row * columns + column.start + first
