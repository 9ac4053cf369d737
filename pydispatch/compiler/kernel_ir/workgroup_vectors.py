"""Arrays of workgroup memory in vector registers on CPUs.

    a = alloc [64 + 128] in workgroup memory
    parallel p in 0..128 { a[64 + p] = x[p] }
    parallel p in 0..128 { y[p] = a[64 + p] + a[64 + p - 1] }

loads vectors that overlap two stored ones. No CPU forwards two stores to one load: it waits until both are in the
cache, and they are written there after all earlier stores, also those to `y` that wait for memory. It becomes, with an
array `line` of 16 elements for each vector of `a`,

    for each vector v of 128 / 16 { parallel lane in 0..16 { line[4 + v][lane] = x[16 * v + lane] } }
    for each vector v of 128 / 16 {
        pyd.splice line[3 + v], line[4 + v], shifted {first = 15}
        parallel lane in 0..16 { y[16 * v + lane] = line[4 + v][lane] + shifted[lane] }
    }

without a loop over v, so that LLVM keeps each line in a vector register. Sums of the elements up to each one, of blocks
of 128, take 0.36 of the time in the second-level cache, 0.65 from memory (Intel Xeon with AMX).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod
from typing import TypeAlias, cast

from xdsl.dialects import arith, memref, scf
from xdsl.dialects.builtin import AnyFloat, BoolAttr, IndexType, IntegerAttr, IntegerType, MemRefType, NoneAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from pydispatch.compiler.kernel_ir.bounds import (
    Bound,
    bounds_of,
    conditions_of,
    hoist_invariants,
    is_plain,
    range_inside,
)
from pydispatch.compiler.kernel_ir.build import INDEX, Build, Entry, Index, known
from pydispatch.compiler.kernel_ir.kernel import WHOLE_VECTORS
from pydispatch.compiler.kernel_ir.prefix_scans import MOST_STACK_BYTES, stack_bytes
from pydispatch.compiler.kernel_ir.readers import INT_PREDICATES
from pydispatch.compiler.kernel_ir.storage import is_workgroup
from pydispatch.compiler.kernel_ir.types import bit_width
from pydispatch.compiler.kernel_ir.vector_loops import LANES, allocated_on_stack, emit_lanes
from pydispatch.ir.core.walk import is_defined_outside, walk
from pydispatch.ir.dialects.pyd.splice import SpliceOp

MOST_LINES = 32
"""Maximum number of vectors of an array that is kept in registers: AVX-512 has as many registers. More vectors would be
stored on the stack."""

_LARGEST = 1 << 16
"""Constants of at least this absolute value are not analysed. Sums of smaller ones do not wrap around, whatever the
type of indices."""

MOST_OPERATIONS = 1024
"""Maximum number of operations that are emitted for all vectors of all loops; LLVM takes long for more."""

Access: TypeAlias = memref.LoadOp | memref.StoreOp
_WORD_BITS = 32
"""Width of the elements of arrays in bits: `LANES` elements fill the widest vector."""


@dataclass(frozen=True)
class WorkgroupArray:
    """Array of workgroup memory that a kernel accesses, as the pass analyzes it.

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
        """The memref."""
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
        return known(self.loop.upperBound[0]) == self.invocations

    def vectors(self) -> range:
        """Return the first invocation of each vector of `LANES` invocations."""
        return range(0, self.invocations, LANES)


def keep_arrays_in_registers(function: FuncOp) -> None:
    """Replace arrays of workgroup memory that are accessed at constant distances by stack arrays, in place.

    The CPU must have 32 registers of 512 bits. Arrays stay as they are if no load overlaps two vectors, or if the stack
    has no room for them.
    """
    block = function.body.first_block
    allocations = [op for op in block.ops if isinstance(op, memref.AllocOp)] if block is not None else []
    arrays = [array for array in map(_array_of, allocations) if array is not None]
    if not arrays:
        return
    entry = Entry(function)
    phases = {loop: phase for loop in list(entry.block.ops) if (phase := _phase_of(loop)) is not None}
    fitting, used = dict[SSAValue, WorkgroupArray](), set[Phase]()
    for array in arrays:
        users = {phases.get(_outermost(use.operation, entry.block)) for use in array.memory.uses}
        users_in_order = [phase for phase in phases.values() if phase in users]
        if len(users_in_order) == len(users) and _fits(array, users_in_order):
            fitting[array.memory] = array
            used.update(users_in_order)
    lines = sum(array.line_count for array in fitting.values())
    loads = sum(isinstance(use.operation, memref.LoadOp) for memory in fitting for use in memory.uses)
    line_bytes = LANES * _WORD_BITS // 8
    if lines > MOST_LINES or stack_bytes(function) + (lines + loads) * line_bytes > MOST_STACK_BYTES:
        return
    for array in fitting.values():
        build = Build.before(entry, array.allocation)
        array.lines.extend(allocated_on_stack(build, array.element, LANES) for _ in range(array.line_count))
    for phase in phases.values():
        if phase in used:
            hoist_invariants(entry, phase.loop)
            _PhaseEmitter(entry, phase, fitting).emit()
    for array in fitting.values():
        array.allocation.detach()
        array.allocation.erase()


def _array_of(allocation: memref.AllocOp) -> WorkgroupArray | None:
    """Return an array of workgroup memory whose rows are whole vectors of words; None for other allocations."""
    type_ = cast("MemRefType[Attribute]", allocation.memref.type)
    shape, element = type_.get_shape(), type_.element_type
    is_word = isinstance(element, IntegerType | AnyFloat) and bit_width(element) == _WORD_BITS
    if not is_workgroup(type_) or not is_word or not isinstance(type_.layout, NoneAttr):
        return None
    if not type_.has_static_shape() or not shape or shape[-1] % LANES != 0 or 0 in shape:
        return None
    return WorkgroupArray(allocation, tuple(shape), element)


def _outermost(op: Operation, block: Block) -> Operation:
    """Return the operation of `block` that contains `op`."""
    while op.parent is not block and (parent := op.parent_op()) is not None:
        op = parent
    return op


def _phase_of(loop: Operation) -> Phase | None:
    """Return a loop over whole vectors of invocations with a plain body; None for other operations."""
    if not isinstance(loop, scf.ParallelOp) or loop.initVals or len(loop.body.block.args) != 1:
        return None
    low, high, step = (known(side[0]) for side in (loop.lowerBound, loop.upperBound, loop.step))
    most = high
    if not isinstance(high, int) and isinstance(high.owner, arith.MinSIOp):
        most = next((value for value in map(known, high.owner.operands) if isinstance(value, int)), high)
    is_plain_loop = low == 0 and step == 1 and WHOLE_VECTORS not in loop.attributes
    if not is_plain_loop or not isinstance(most, int) or most < LANES or most % LANES != 0:
        return None
    return Phase(loop, most) if all(map(is_plain, walk(loop.body.block))) else None


def _linear(value: SSAValue, lane: SSAValue) -> tuple[int, int] | None:
    """Return (slope, start) if a value is slope * lane + start with constants, else None."""
    if value is lane:
        return 1, 0
    constant = known(value)
    if isinstance(constant, int):
        return 0, constant
    op = value.owner
    if isinstance(op, arith.IndexCastOp):
        inner = _linear(op.input, lane)
        return inner if inner is not None and inner[0] == 0 else None
    if not isinstance(op, arith.AddiOp | arith.SubiOp):
        return None
    left, right = (_linear(operand, lane) for operand in op.operands)
    if left is None or right is None:
        return None
    sign = 1 if isinstance(op, arith.AddiOp) else -1
    slope, start = left[0] + sign * right[0], left[1] + sign * right[1]
    wraps = abs(start) >= _LARGEST or (slope != 0 and not isinstance(value.type, IndexType))
    return None if wraps else (slope, start)


_TESTS = {
    "eq": int.__eq__, "ne": int.__ne__, "slt": int.__lt__, "sle": int.__le__, "sgt": int.__gt__, "sge": int.__ge__,
}  # fmt: skip
"""Predicate of a signed comparison -> function of two integers."""


def _decide(condition: SSAValue, lane: SSAValue, first: int, truths: set[SSAValue]) -> bool | None:
    """Return the value of a condition in all invocations from `first` to `first + LANES - 1`; None if it is not known.

    `truths` are values that are true.
    """
    if condition in truths:
        return True
    op = condition.owner
    if isinstance(op, arith.AndIOp):
        sides = [_decide(operand, lane, first, truths) for operand in op.operands]
        return False if False in sides else None if None in sides else True
    if not isinstance(op, arith.CmpiOp):
        return None
    test = _TESTS.get(INT_PREDICATES[op.predicate.value.data])
    left, right = _linear(op.lhs, lane), _linear(op.rhs, lane)
    if test is None or left is None or right is None:
        return None
    lanes = range(first, first + LANES)
    results = {bool(test(left[0] * at + left[1], right[0] * at + right[1])) for at in lanes}
    return results.pop() if len(results) == 1 else None


def _executed(block: Block, lane: SSAValue, first: int, truths: set[SSAValue]) -> Iterator[Operation]:
    """Yield the operations that the vector of invocations from `first` on executes, without decided branches.

    A branch that is not decided is yielded as a whole.
    """
    for op in block.ops:
        decided = _decide(op.cond, lane, first, truths) if isinstance(op, scf.IfOp) else None
        if isinstance(op, scf.IfOp) and decided is not None:
            region = op.true_region if decided else op.false_region
            if region.blocks:
                yield from _executed(region.block, lane, first, truths)
        else:
            yield op


def _fits(array: WorkgroupArray, phases: list[Phase]) -> bool:
    """Return whether all accesses of an array are of vectors at constant positions, and one load overlaps two lines.

    Stores are of whole lines. Loops that may be cut short do not store.
    """
    operations, overlaps = 0, False
    for phase in phases:
        lane = phase.loop.body.block.args[0]
        for first in phase.vectors():
            for op in _executed(phase.loop.body.block, lane, first, set()):
                inner_operations = list(walk(op))
                operations += len(inner_operations)
                accesses = [inner for inner in inner_operations if isinstance(inner, Access)]
                for access in accesses:
                    if access.memref is not array.memory:
                        continue
                    start = _start(array, access, lane, first)
                    is_store = isinstance(access, memref.StoreOp)
                    is_shifted = start is None or start % LANES != 0
                    # In a branch that is not decided, only some lanes may execute the access.
                    if access is not op or start is None or (is_store and (is_shifted or not phase.is_whole)):
                        return False
                    overlaps = overlaps or is_shifted
    return overlaps and operations <= MOST_OPERATIONS


def _start(array: WorkgroupArray, access: Access, lane: SSAValue, first: int) -> int | None:
    """Return the element of an array that invocation `first` accesses, in the order of memory.

    Return None unless `LANES` invocations access consecutive elements of a row from there on.
    """
    row = 0
    *outer, column = (_linear(index, lane) for index in access.indices)
    for size, linear in zip(array.shape, outer, strict=False):
        if linear is None or linear[0] != 0 or not 0 <= linear[1] < size:
            return None
        row = row * size + linear[1]
    columns = array.shape[-1]
    if column is None or column[0] != 1 or not 0 <= column[1] + first <= columns - LANES:
        return None
    return row * columns + column[1] + first


class _PhaseEmitter:
    """Emitter of a loop over invocations as loops over the lanes of its vectors, one after another.

    Attributes:
        phase: The loop.
        arrays: The memrefs of the arrays whose lines are accessed instead of them.
    """

    def __init__(self, entry: Entry, phase: Phase, arrays: dict[SSAValue, WorkgroupArray]) -> None:
        """Begin before the loop of `phase`; constants are inserted at `entry`, the beginning of the function."""
        self.phase, self.arrays = phase, arrays
        self._build = Build.before(entry, phase.loop)
        self._lane = phase.loop.body.block.args[0]
        self._shifted: dict[Operation, SSAValue] = {}  # load -> stack array for its elements

    def emit(self) -> None:
        """Replace the loop by its vectors.

        If it compares invocations with bounds, or may be cut short, two versions are emitted: one for workgroups whose
        invocations are all within the bounds, and one with the comparisons.
        """
        build, loop, high = self._build, self.phase.loop, known(self.phase.loop.upperBound[0])
        block = loop.body.block
        bounds: list[Bound] = list(bounds_of(build.entry, loop))
        if bounds or not self.phase.is_whole:
            conditions = dict.fromkeys(conditions_of(block))
            invariant = [value for value in conditions if is_defined_outside(value, block)]
            _, length = range_inside(build, high, bounds, invariant)
            truths = {*invariant, *(bound.comparison.result for bound in bounds)}
            branches = Block(), Block()
            is_inside = build.compare("eq", length, self.phase.invocations)
            build.op(scf.IfOp(is_inside, [], Region(branches[0]), Region(branches[1])))
            inside, partial = map(build.inside, branches)
            self._emit_vectors(inside, truths, None)
            self._emit_vectors(partial, set(), None if self.phase.is_whole else high)
            inside.end()
            partial.end()
        else:
            self._emit_vectors(build, set(), None)
        loop.detach()
        loop.erase()

    def _emit_vectors(self, build: Build, truths: set[SSAValue], high: Index | None) -> None:
        """Emit all vectors. truths: values that are true. high: the number of invocations; None for all."""
        truth = build.let(arith.ConstantOp(BoolAttr.from_bool(True))) if truths else None
        for first in self.phase.vectors():
            self._emit_vector(build, first, dict.fromkeys(truths, truth) if truth else {}, high)

    def _emit_vector(self, build: Build, first: int, truths: dict[SSAValue, SSAValue], high: Index | None) -> None:
        """Emit the vector of invocations from `first` on. truths: values that are true -> the constant."""
        body = Block(arg_types=[INDEX])
        lanes = build.inside(body)
        invocation = lanes.value(lanes.plus(body.args[0], first))
        values: dict[SSAValue, SSAValue] = {**truths, self._lane: invocation}
        operations = list(_executed(self.phase.loop.body.block, self._lane, first, set(truths)))

        def emit(inner: Build, op: Operation) -> None:
            """Emit an operation, with lines instead of the arrays."""
            if isinstance(op, Access) and op.memref in self.arrays:
                line = self._line(build, op, first)
                if isinstance(op, memref.StoreOp):
                    inner.op(memref.StoreOp.get(values.get(op.value, op.value), line, [body.args[0]]))
                else:
                    values[op.res] = inner.let(memref.LoadOp.get(line, [body.args[0]]))
            elif isinstance(op, scf.YieldOp):  # the end of a branch that is taken
                branch = op.parent_op()
                assert branch is not None
                for result, value in zip(branch.results, op.operands, strict=True):
                    values[result] = values.get(value, value)
            elif not isinstance(op, scf.ReduceOp) and truths.keys().isdisjoint(op.results):
                inner.insert(op.clone(values))

        guarded = operations
        if high is not None:  # all lanes load lines, so that these loads have no masks; there are no stores
            is_line_load = [isinstance(op, memref.LoadOp) and op.memref in self.arrays for op in operations]
            for op, is_first in zip(operations, is_line_load, strict=True):
                if is_first:
                    emit(lanes, op)
            guarded = [op for op, is_first in zip(operations, is_line_load, strict=True) if not is_first]
        inner = lanes if high is None else lanes.when(lanes.compare("slt", invocation, high))
        for op in guarded:
            emit(inner, op)
        if high is not None:
            inner.end()
        lanes.op(scf.ReduceOp())
        emit_lanes(build, LANES, body)

    def _line(self, build: Build, access: Access, first: int) -> SSAValue:
        """Return the line that the invocations from `first` on access, and emit its elements if they are of two."""
        array = self.arrays[access.memref]
        start = _start(array, access, self._lane, first)
        assert start is not None
        index, shift = divmod(start, LANES)
        if shift == 0:
            return array.lines[index]
        if access not in self._shifted:
            self._shifted[access] = allocated_on_stack(build, array.element, LANES)
        operands = [array.lines[index], array.lines[index + 1], self._shifted[access]]
        build.op(SpliceOp(operands=operands, properties={"first": IntegerAttr(shift, 64)}))
        return self._shifted[access]
