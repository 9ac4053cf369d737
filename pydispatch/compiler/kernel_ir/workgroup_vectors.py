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

from collections.abc import Mapping, Sequence
from typing import NamedTuple, cast

from xdsl.dialects import arith, memref, scf
from xdsl.dialects.builtin import AnyFloat, BoolAttr, IntegerAttr, IntegerType, MemRefType, NoneAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from pydispatch.compiler.kernel_ir.bounds import (
    Bound,
    bounds_of,
    conditions_of,
    counts_from_0_by_1,
    hoist_invariants,
    is_plain,
    range_inside,
)
from pydispatch.compiler.kernel_ir.build import INDEX, Build, Entry, Index, constant_or_value
from pydispatch.compiler.kernel_ir.kernel import WHOLE_VECTORS
from pydispatch.compiler.kernel_ir.stack import MOST_OPTIMIZED_BYTES, stack_bytes
from pydispatch.compiler.kernel_ir.storage import is_workgroup
from pydispatch.compiler.kernel_ir.types import bit_width
from pydispatch.compiler.kernel_ir.vector_loops import LANES, allocated_on_stack, emit_lanes
from pydispatch.compiler.kernel_ir.workgroup_phases import Access, Phase, WorkgroupArray, executed, start_of
from pydispatch.ir.core.walk import is_defined_outside, walk
from pydispatch.ir.dialects.pyd.splice import SpliceOp

MOST_LINES = 32
"""Maximum number of vectors of all arrays that are kept in registers: AVX-512 has as many registers. More vectors would
be stored on the stack."""

MOST_OPERATIONS = 1024
"""Maximum number of operations that are emitted for all vectors of all loops; LLVM takes long for more."""

_WORD_BITS = 32
"""Width of the elements of arrays in bits: `LANES` elements fill the widest vector."""


def keep_arrays_in_registers(function: FuncOp) -> None:
    """Replace arrays of workgroup memory by one stack array for each vector of `LANES` elements, in place.

    LLVM keeps these in registers, of which the CPU must have 32 of 512 bits. An f32 array of 128 + 64 elements becomes
    12 stack arrays of 16 elements, its lines. A load of elements 63 to 78 then reads the last element of line 3 and the
    first 15 of line 4.

    All vectors that are loaded and stored must begin at constant positions. An array whose loads overlap no two stored
    vectors stays as it is: the CPU forwards one store to each load. All arrays stay if they have more than `MOST_LINES`
    vectors together, or the stack has no room for the vectors.
    """
    block = function.body.first_block
    allocations = [op for op in block.ops if isinstance(op, memref.AllocOp)] if block is not None else []
    arrays = [array for array in map(_array_of, allocations) if array is not None]
    if not arrays:
        return
    entry = Entry(function)
    phases = {loop: phase for loop in list(entry.block.ops) if (phase := _phase_of(loop)) is not None}
    fitting = {
        array.memory: array
        for array in arrays
        if (users := _phases_using(array, entry.block, phases)) is not None and _fits(array, users)
    }
    if not _fit_registers_and_stack(function, list(fitting.values())):
        return
    _replace_by_lines(entry, fitting, phases)


def _replace_by_lines(entry: Entry, arrays: dict[SSAValue, WorkgroupArray], phases: Mapping[Operation, Phase]) -> None:
    """Allocate the lines of arrays, make the phases that access them use the lines, and erase the arrays.

    phases: parallel loop over invocations → the phase.
    """
    for array in arrays.values():
        build = Build.before(entry, array.allocation)
        array.lines.extend(allocated_on_stack(build, array.element, LANES) for _ in range(array.line_count))
    loops = {_outermost(use.operation, entry.block) for memory in arrays for use in memory.uses}
    for loop, phase in phases.items():
        if loop in loops:
            hoist_invariants(entry, phase.loop)
            _PhaseEmitter(entry, phase, arrays).emit()
    for array in arrays.values():
        array.allocation.detach()
        array.allocation.erase()


def _phases_using(array: WorkgroupArray, block: Block, phases: Mapping[Operation, Phase]) -> list[Phase] | None:
    """Return the phases that access an array, in order; None if an access is outside of the phases.

    phases: parallel loop over invocations in `block`, the body of the function → the phase.
    """
    loops = {_outermost(use.operation, block) for use in array.memory.uses}
    return [phases[loop] for loop in phases if loop in loops] if loops <= phases.keys() else None


def _fit_registers_and_stack(function: FuncOp, arrays: Sequence[WorkgroupArray]) -> bool:
    """Return whether the vectors of all arrays fit registers, and the stack, where LLVM allocates them at first.

    The stack also has the vectors that loads combine from two others: at most one for each load.
    """
    lines = sum(array.line_count for array in arrays)
    loads = sum(isinstance(use.operation, memref.LoadOp) for array in arrays for use in array.memory.uses)
    line_bytes = LANES * _WORD_BITS // 8
    return lines <= MOST_LINES and stack_bytes(function) + (lines + loads) * line_bytes <= MOST_OPTIMIZED_BYTES


def _array_of(allocation: memref.AllocOp) -> WorkgroupArray | None:
    """Return an array of workgroup memory whose rows are whole vectors of words; None for other allocations."""
    type_ = cast("MemRefType[Attribute]", allocation.memref.type)
    shape, element = type_.get_shape(), type_.element_type
    is_word = isinstance(element, IntegerType | AnyFloat) and bit_width(element) == _WORD_BITS
    is_row_major = isinstance(type_.layout, NoneAttr)  # the default layout
    if not is_workgroup(type_) or not is_word or not is_row_major:
        return None
    has_elements = type_.has_static_shape() and len(shape) > 0 and 0 not in shape
    if not has_elements or shape[-1] % LANES != 0:
        return None
    return WorkgroupArray(allocation, tuple(shape), element)


def _outermost(op: Operation, block: Block) -> Operation:
    """Return the operation of `block` that contains `op`."""
    while op.parent is not block and (parent := op.parent_op()) is not None:
        op = parent
    return op


def _phase_of(loop: Operation) -> Phase | None:
    """Return a parallel loop over invocations as a `Phase`, if it may be emitted vector by vector; None for others.

    A phase is what the invocations execute between two barriers. The loop must count from 0 by 1 to a multiple of
    `LANES`, or to the minimum of one and another value. Its body must have only operations of which copies may run
    (`is_plain`).
    """
    if not isinstance(loop, scf.ParallelOp) or loop.initVals or len(loop.body.block.args) != 1:
        return None
    # The maximum number of invocations: the upper bound, or the constant of a minimum with another value.
    most = high = constant_or_value(loop.upperBound[0])
    if not isinstance(high, int) and isinstance(high.owner, arith.MinSIOp):
        most = next((value for value in map(constant_or_value, high.owner.operands) if isinstance(value, int)), high)
    if not isinstance(most, int) or most < LANES or most % LANES != 0:
        return None
    # A loop with the mark `WHOLE_VECTORS` becomes vectors without a loop.
    if not counts_from_0_by_1(loop) or WHOLE_VECTORS in loop.attributes:
        return None
    return Phase(loop, most) if all(map(is_plain, walk(loop.body.block))) else None


def _fits(array: WorkgroupArray, phases: list[Phase]) -> bool:
    """Return whether an array can be kept in registers as lines (vectors of `LANES` elements), and gains from that.

    All its accesses must be of vectors at constant positions. Stores must be of whole lines, in loops that are not cut
    short. The array gains if a load overlaps two lines: CPUs forward one store to a load, but not two.

    phases: the loops over invocations that access the array, in program order.
    """
    executions = [
        (phase, first, op)
        for phase in phases
        for first in phase.vectors()
        for op in executed(phase.loop.body.block, phase.loop.body.block.args[0], first, set())
    ]
    overlaps = False  # whether a load overlaps two lines
    for phase, first, op in executions:
        for access in walk(op):
            if not isinstance(access, Access) or access.memref is not array.memory:
                continue
            start = start_of(array, access, phase.loop.body.block.args[0], first)
            is_shifted = start is None or start % LANES != 0  # it overlaps two lines
            is_conditional = access is not op  # in a branch: only some lanes may execute the access
            is_partial_store = isinstance(access, memref.StoreOp) and (is_shifted or not phase.is_whole)
            if is_conditional or start is None or is_partial_store:
                return False
            overlaps = overlaps or is_shifted
    return overlaps and sum(1 for *_, op in executions for _ in walk(op)) <= MOST_OPERATIONS


class _Vector(NamedTuple):
    """Vector of invocations that is being emitted.

    Attributes:
        first: Its first invocation.
        lane: Counter of the loop over its lanes.
        truths: Conditions that hold in all lanes -> the constant true, which replaces them.
        values: Value of the original loop -> its value in the loop over lanes; grows as operations are emitted.
    """

    first: int
    lane: SSAValue
    truths: dict[SSAValue, SSAValue]
    values: dict[SSAValue, SSAValue]


class _PhaseEmitter:
    """Emitter of a loop over invocations as loops over the lanes of its vectors, one after another.

    A caller creates it and calls `emit` once. A line is `LANES` adjacent elements of an array: a vector register.

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
        invocations are all within the bounds, and one with the comparisons. For a loop with 128 invocations at most,

            parallel p in 0..min(128, n) { if start + p < size { body } }

        becomes `if all 128 invocations run and are below size { 8 vectors of body } else { 8 vectors with the tests }`.
        """
        bounds: list[Bound] = list(bounds_of(self._build.entry, self.phase.loop))
        if bounds or not self.phase.is_whole:
            self._emit_versions(bounds)
        else:
            self._emit_vectors(self._build, set(), high=None)
        self.phase.loop.detach()
        self.phase.loop.erase()

    def _emit_versions(self, bounds: list[Bound]) -> None:
        """Emit a branch between the vectors within `bounds`, without comparisons, and those with comparisons."""
        build, loop, high = self._build, self.phase.loop, constant_or_value(self.phase.loop.upperBound[0])
        # The condition of the first version. `truths` are the conditions in the body that hold for every invocation in
        # that version: comparisons with a bound, and values that are the same for all invocations.
        conditions = dict.fromkeys(conditions_of(loop.body.block))
        invariant = [value for value in conditions if is_defined_outside(value, loop.body.block)]
        # `length`: how many invocations all of these hold for; 0 if they hold for no range of whole vectors.
        _, length = range_inside(build, high, bounds, invariant)
        truths = {*invariant, *(bound.comparison.result for bound in bounds)}
        branches = Block(), Block()
        is_inside = build.compare("eq", length, self.phase.invocations)
        build.op(scf.IfOp(is_inside, [], Region(branches[0]), Region(branches[1])))
        inside, partial = map(build.inside, branches)
        self._emit_vectors(inside, truths, high=None)
        self._emit_vectors(partial, set(), high=None if self.phase.is_whole else high)
        inside.end()
        partial.end()

    def _emit_vectors(self, build: Build, truths: set[SSAValue], high: Index | None) -> None:
        """Emit all vectors of the phase.

        Args:
            build: Receives the loops over lanes.
            truths: Conditions in the loop that hold in all invocations, and are replaced by the constant true.
            high: Number of invocations that take part, if it may be less than the lanes of all vectors; else None.
        """
        truth = build.let(arith.ConstantOp(BoolAttr.from_bool(True))) if truths else None
        for first in self.phase.vectors():
            self._emit_vector(build, first, dict.fromkeys(truths, truth) if truth else {}, high)

    def _emit_vector(self, build: Build, first: int, truths: dict[SSAValue, SSAValue], high: Index | None) -> None:
        """Emit the vector of invocations from `first` on.

        Args:
            build: Inserts before the loop over the vector's lanes.
            first: First invocation.
            truths: Conditions that hold in all lanes -> the constant true.
            high: Number of invocations that execute the body, if some lanes of the vector may not; None if all do.
        """
        body = Block(arg_types=[INDEX])
        lane_build = build.inside(body)  # builds the body of the loop over lanes
        invocation = lane_build.value(lane_build.plus(body.args[0], first))
        vector = _Vector(first, body.args[0], truths, {**truths, self._lane: invocation})
        operations = list(executed(self.phase.loop.body.block, self._lane, first, set(truths)))
        if high is None:
            for op in operations:
                self._emit_operation(build, lane_build, op, vector)
        else:
            # All lanes execute the loads of lines, the arrays of one vector each, so that these loads need no masks.
            # `_fits` allows no stores to lines in such loops.
            line_loads = [op for op in operations if isinstance(op, memref.LoadOp) and op.memref in self.arrays]
            for load in line_loads:
                self._emit_operation(build, lane_build, load, vector)
            # The other operations, in the lanes that execute the body.
            guarded = lane_build.when(lane_build.compare("slt", invocation, high))
            for op in operations:
                if op not in line_loads:
                    self._emit_operation(build, guarded, op, vector)
            guarded.end()
        lane_build.op(scf.ReduceOp())
        emit_lanes(build, LANES, body)

    def _emit_operation(self, build: Build, inner: Build, op: Operation, vector: _Vector) -> None:
        """Emit an operation in the loop over a vector's lanes. An access of an array becomes an access of its line.

        A line is the stack array of the `LANES` elements that the vector accesses: the load `a[64 + p]` of the vector
        that begins at invocation 16 becomes `line[lane]`, where the line has the elements 80 to 95 of `a`.

        `build` inserts before that loop, and `inner` in its body.
        """
        values = vector.values
        if isinstance(op, Access) and op.memref in self.arrays:
            line = self._line(build, op, vector.first)
            if isinstance(op, memref.StoreOp):
                inner.op(memref.StoreOp.get(values.get(op.value, op.value), line, [vector.lane]))
            else:
                values[op.res] = inner.let(memref.LoadOp.get(line, [vector.lane]))
        elif isinstance(op, scf.YieldOp):  # of an `scf.if` that `executed` replaced by the region that all lanes take
            branch = op.parent_op()
            assert branch is not None
            for result, value in zip(branch.results, op.operands, strict=True):
                values[result] = values.get(value, value)
        # The terminator is not copied: the loop over lanes has its own. Nor is a condition in `truths` computed again:
        # `values` maps it to the constant true.
        elif not isinstance(op, scf.ReduceOp) and vector.truths.keys().isdisjoint(op.results):
            inner.insert(op.clone(values))

    def _line(self, build: Build, access: Access, first: int) -> SSAValue:
        """Return the stack array with the elements that the invocations from `first` on access.

        It is usually a line: the copy of `LANES` consecutive elements of the workgroup's array. For a load that
        overlaps two lines, it is another array, and a `pyd.splice` that copies the elements there is emitted.
        """
        array = self.arrays[access.memref]
        start = start_of(array, access, self._lane, first)
        assert start is not None, "`_fits` requires constant positions"
        index, shift = divmod(start, LANES)
        if shift == 0:
            return array.lines[index]
        # The elements begin in line `index`, and end in the next one.
        if access not in self._shifted:
            self._shifted[access] = allocated_on_stack(build, array.element, LANES)
        operands = [array.lines[index], array.lines[index + 1], self._shifted[access]]
        build.op(SpliceOp(operands=operands, properties={"first": IntegerAttr(shift, 64)}))
        return self._shifted[access]
