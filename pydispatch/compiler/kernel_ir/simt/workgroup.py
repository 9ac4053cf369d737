"""Lowering of code that all invocations of a workgroup share: uniform code, its storage, its barriers.

Outside parallel loops all invocations run the same code with the same values, and one of them stores. A barrier is
placed wherever memory that one invocation wrote is next used by another. docs/kernel-ir.md defines the rules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

from xdsl.dialects import gpu
from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, MemRefType, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, Region, SSAValue

from pydispatch.compiler.kernel_ir.build import INDEX, Build, Entry, Index
from pydispatch.compiler.kernel_ir.hazards import (
    ONE_INVOCATION,
    SEVERAL_INVOCATIONS,
    Accesses,
    Hazards,
    Key,
    accesses_of,
    base_of,
    binding_ordinal,
)
from pydispatch.compiler.kernel_ir.readers import UNREGISTERED, attribute, op_name, unsupported
from pydispatch.compiler.kernel_ir.scan import Ops
from pydispatch.compiler.kernel_ir.simt.shuffle import BallotOp, ShuffleOp
from pydispatch.compiler.kernel_ir.storage import COHERENT_BINDINGS, STORAGE, is_private, is_workgroup
from pydispatch.errors import CompileError
from pydispatch.ir.core.locations import location_of
from pydispatch.ir.functions import CALLS

Size = tuple[int, int, int]
"""Invocations of a workgroup along x, y and z."""

PARALLEL = ("scf.parallel", "scf.forall")
"""Loops whose iterations are independent."""

WARP_OPS = (ShuffleOp, BallotOp)
"""Operations of the gpu dialect that are accepted besides barriers: earlier passes insert them, programs cannot contain
them."""


@dataclass(frozen=True)
class Machine:
    """Properties of a GPU target that the lowering to invocations depends on.

    Attributes:
        warp: Number of invocations that shuffles connect, a power of two. 0: there are no shuffles, and partial results
            of reductions are combined in workgroup memory.
        divides_in_words: Whether indices that fit into 31 bits are divided faster as 32-bit integers.
        unrolls: Whether small loop bodies are unrolled, so that several memory reads are in flight at once.
    """

    warp: int = 0
    divides_in_words: bool = False
    unrolls: bool = False


@dataclass
class LoopState:
    """Barriers and scratch writes in an iteration of a sequential loop, up to the operation that is being lowered.

    Attributes:
        has_passed_barrier: Whether each iteration has executed a barrier before this point.
        exposed: Reduction scratch that is written before the first barrier of an iteration, while other invocations may
            still read it in the previous iteration.
    """

    has_passed_barrier: bool = False
    exposed: set[Key] = field(default_factory=set)


class Workgroup:
    """Rewriter of one entry point from workgroup code into invocation code.

    A caller creates it and calls `run` once. That calls a rule for each operation of uniform code, the code outside
    parallel loops; rules call the other methods.

    Attributes:
        function: The entry point.
        ops: Its operations by name.
        machine: Properties of the target.
        rules: Operation name -> function that lowers the operation in uniform code from a workgroup and the operation.
        size, invocation_count: Invocations of a workgroup along each dimension, and in all.
        hazards: The accesses since the last barrier.
        divides_in_32_bits: Whether all indices fit into 31 bits, and are divided faster as 32-bit integers.
    """

    def __init__(
        self, function: FuncOp, ops: Ops, size: Size, machine: Machine,
        rules: Mapping[str, Callable[[Any, Operation], None]],
    ) -> None:  # fmt: skip
        """Create the rewriter of `function`. Nothing is rewritten yet.

        The attributes of `function` state which bindings are written once, and whether indices have 32 bits.

        Args:
            function: The entry point.
            ops: Its operations by name.
            size: Invocations of a workgroup along x, y and z.
            machine: Properties of the target.
            rules: Operation name -> function that lowers the operation in uniform code.
        """
        self.function, self.ops, self.machine, self.rules = function, ops, machine, rules
        self.size, self.invocation_count = size, prod(size)
        self.entry = Entry(function)
        self.hazards = Hazards(_bindings_written_once(function))
        index_width = attribute(function, "pyd.index_width")
        has_word_indices = isinstance(index_width, IntegerAttr) and index_width.value.data == 32
        self.divides_in_32_bits = machine.divides_in_words and has_word_indices
        self.workgroup_allocations: set[Operation] = set()  # allocations that all invocations share
        self.reductions = 0  # number of distributed reductions
        self.barriers = list(ops.get("gpu.barrier", ()))  # barriers of the source, then inserted ones
        # Workgroup memory in which reductions combine partial results: (element type, number of elements, key) → array.
        # The key tells apart arrays that are used at the same time.
        self.scratch: dict[object, SSAValue] = {}
        self.loops: list[LoopState] = []  # the sequential loops around the current operation, outermost first
        # Memory that one invocation writes and another accesses after a barrier.
        self._exchanged_memory: set[Key] = set()
        self._invocation: SSAValue | None = None  # linear number of the invocation, once it is needed
        self._is_first: SSAValue | None = None  # whether the invocation is number 0, once it is needed

    def run(self) -> None:
        """Lower the entry point in place: decide which allocations the invocations share, distribute loops, insert
        barriers.

        Raises:
            CompileError: There is a barrier in a parallel loop, or another operation of the gpu dialect.
        """
        # Refuse operations that programs may not contain.
        for name, ops in self.ops.items():
            if name[:4] == "gpu." and name != "gpu.barrier":
                for op in ops:
                    if not isinstance(op, WARP_OPS):
                        raise unsupported(op)
        for op in self.barriers:
            if self._in_parallel(op):
                note = "its iterations are independent: put it between two loops"
                raise CompileError("gpu.barrier inside a parallel loop", location_of(op), note)
        # Lower the code.
        self._place_storage()
        if self.invocation_count > 1:  # a single invocation runs the code as it is
            self.region(self.function.body)
        if self._exchanged_memory:  # the emitter makes the memory of these bindings coherent within the workgroup
            ordinals = sorted(o for o in map(binding_ordinal, self._exchanged_memory) if o is not None)
            attributes = [IntegerAttr(ordinal, INDEX) for ordinal in ordinals]
            self.function.attributes[COHERENT_BINDINGS] = ArrayAttr(attributes)

    def build(self, op: Operation) -> Build:
        """Return a builder that inserts before `op`."""
        return Build.before(self.entry, op)

    # Storage

    def _place_storage(self) -> None:
        """Decide for each allocation whether the workgroup shares it or each invocation has its own; set `STORAGE`."""
        allocations = [op for name in ("memref.alloc", "memref.alloca") for op in self.ops.get(name, ())]
        shared = self._written_together() if allocations and self.invocation_count > 1 else set()
        for op in allocations:
            type_ = op.results[0].type
            if not isinstance(type_, MemRefType):
                continue
            is_used_by_several = is_workgroup(type_) or op in shared
            # An allocation in a parallel loop exists once for each iteration: the invocation that runs it owns it.
            may_be_shared = not is_private(type_) and not self._in_parallel(op)
            if is_used_by_several and may_be_shared:
                self.workgroup_allocations.add(op)
            op.attributes[STORAGE] = StringAttr("workgroup" if op in self.workgroup_allocations else "private")

    def _in_parallel(self, op: Operation) -> bool:
        """Return whether an operation is inside a parallel loop."""
        parent = op.parent_op()
        while parent is not None:
            if op_name(parent) in PARALLEL:
                return True
            parent = parent.parent_op()
        return False

    def _written_together(self) -> set[Operation]:
        """Return the allocations outside parallel loops that parallel loops or called functions write.

        Several invocations write them, so that they must be shared.
        """
        written: set[Operation] = set()
        for op in (op for name in (*PARALLEL, *CALLS) for op in self.ops.get(name, ())):
            if not self._in_parallel(op):
                # The key of an allocation is its operation; keys of bindings and arguments are tuples.
                written |= {key for key in accesses_of(op).writes if isinstance(key, Operation)}
        return {key for key in written if not self._in_parallel(key)}

    def shared(self, accesses: Accesses) -> Accesses:
        """Return the accesses without accesses to private memory of invocations."""
        return Accesses(reads=self._shared_keys(accesses.reads), writes=self._shared_keys(accesses.writes))

    def _shared_keys(self, keys: set[Key]) -> set[Key]:
        """Return the keys of bindings, arguments and allocations in workgroup memory; leave out private memory."""
        # Only keys of allocations are operations: the keys of bindings and arguments are tuples.
        return {key for key in keys if not isinstance(key, Operation) or key in self.workgroup_allocations}

    # Values of each invocation, computed at the entry

    def _at_entry(self) -> Build:
        """Return a builder at the beginning of the entry point."""
        return Build(self.entry, self.function, self.entry.insert)

    def invocation(self) -> SSAValue:
        """Return the linear number of the invocation in its workgroup, computed once at the entry."""
        if self._invocation is None:
            x, y, z = self.size
            build = self._at_entry()
            linear: Index = _thread(build, "x")
            if y * z > 1:
                linear = build.plus(linear, build.times(x, _thread(build, "y")))
            if z > 1:
                linear = build.plus(linear, build.times(x * y, _thread(build, "z")))
            self._invocation = build.value(linear)
        return self._invocation

    def is_first(self) -> SSAValue:
        """Return whether the invocation is number 0, an i1 that is computed once at the entry."""
        if self._is_first is None:
            self._is_first = self._at_entry().compare("eq", self.invocation(), 0)
        return self._is_first

    def alloc_at_entry(self, op: Operation) -> SSAValue:
        """Insert an allocation of workgroup memory at the entry, and return the memref."""
        op.attributes[STORAGE] = StringAttr("workgroup")
        self.workgroup_allocations.add(op)  # so that its accesses need barriers
        return self._at_entry().let(op)

    # Barriers

    def synchronize_before(self, op: Operation, accesses: Accesses, by: int = SEVERAL_INVOCATIONS) -> None:
        """Insert a barrier before `op` if its accesses conflict with earlier ones, and record them.

        by: who makes the accesses: ONE_INVOCATION, which is always invocation 0, or SEVERAL_INVOCATIONS.
        """
        if self.hazards.conflict(accesses, by):
            # Memory through which invocations exchange values must be coherent within the workgroup.
            self._exchanged_memory |= accesses.reads | accesses.writes
            self.barrier(self.build(op))
        self.hazards.record(accesses, by)

    def barrier(self, build: Build) -> None:
        """Insert a barrier with `build`, and forget the accesses before it."""
        barrier = gpu.BarrierOp.create()
        build.op(barrier)
        self.barriers.append(barrier)
        self.passed_barrier()

    def passed_barrier(self) -> None:
        """Forget the accesses before a barrier, and record in enclosing loops that it was executed."""
        self.hazards.clear()
        for loop in self.loops:
            loop.has_passed_barrier = True

    def write_scratch(self, op: Operation, keys: set[Key]) -> None:
        """Record that reduction scratch is written before `op`, and mark it as exposed in the enclosing loops.

        Scratch is exposed in a loop whose iteration writes it before its first barrier, while other invocations may
        still read it in the previous iteration. The access analysis of loops does not see scratch: lowering creates it.
        """
        self.synchronize_before(op, Accesses(writes=keys))
        for loop in self.loops:
            if not loop.has_passed_barrier:  # the write may overtake reads of the previous iteration
                loop.exposed |= keys

    def _protect_scratch(self, block: Block, exposed: set[Key]) -> None:
        """Insert a barrier at the end of a loop body if needed for reduction scratch.

        It is needed if some invocation may still read `exposed` scratch, which the next iteration overwrites.
        """
        last = block.last_op
        if last is not None and exposed & self.hazards.read_since_barrier:
            self.barrier(self.build(last))

    def run_by_first(self, op: Operation) -> None:
        """Move an operation, whose results are unused, into a branch that only invocation 0 executes."""
        if any(result.uses for result in op.results):
            raise CompileError(
                f"the result of '{op_name(op)}' outside a parallel loop", location_of(op), "move it into the loop"
            )
        inner = self.build(op).when(self.is_first())
        op.detach()
        inner.insert(op)
        inner.end()

    # Uniform code

    def region(self, region: Region) -> None:
        """Lower a region of uniform code, which all invocations execute with the same values.

        The accesses before a block decide where it needs barriers. In a region of several blocks, which branch to each
        other, any block may have run before any other or itself. So each block is lowered as if all of them had made
        their accesses since the last barrier.
        """
        if region.first_block is region.last_block:
            if region.first_block is not None:
                self._block(region.first_block)
            return
        everything = Accesses()  # of all blocks
        for block in region.blocks:
            for op in block.ops:
                everything.add(accesses_of(op))
        everything = self.shared(everything)  # without private memory
        for block in region.blocks:
            self.hazards.record(everything, by=SEVERAL_INVOCATIONS)
            self._block(block)
            # The block may run again while other invocations still read the scratch memory that it writes: the arrays
            # of partial results of reductions.
            allocations: set[Key] = {array.owner for array in self.scratch.values()}
            self._protect_scratch(block, allocations)
        self.hazards.record(everything, by=SEVERAL_INVOCATIONS)

    def _block(self, block: Block) -> None:
        """Lower the operations of a block, each by the rule of its name."""
        rules, following = self.rules, block.first_op
        while following is not None:  # a rule may move or erase its operation
            op, following = following, following.next_op
            rule = rules.get(op.name if op.name != UNREGISTERED else op_name(op))
            if rule is not None:
                rule(self, op)
            elif op.regions:  # the code in them would not be lowered
                raise unsupported(op)

    def shared_storage(self, op: Operation, memref: SSAValue) -> set[Key]:
        """Return the keys of the shared storage that a memref may refer to; none if it refers to private storage.

        Raises:
            CompileError: It may refer to private storage too.
        """
        bases = base_of(memref)
        keys = self._shared_keys(bases)
        if keys and keys != bases:
            raise CompileError(
                "a memref that may lie in memory of the workgroup or in an invocation's own", location_of(op),
                "choose between loaded elements instead",
            )  # fmt: skip
        return keys

    def load(self, op: Operation) -> None:
        """Lower a load in uniform code: all invocations execute it, after a barrier if other invocations wrote."""
        memref, *_ = op.operands
        self.synchronize_before(op, Accesses(reads=self.shared_storage(op, memref)))

    def store(self, op: Operation) -> None:
        """Lower a store or atomic update in uniform code: one invocation executes it if the memory is shared."""
        _value, memref, *_ = op.operands
        keys = self.shared_storage(op, memref)
        if keys:  # private memory has none: every invocation stores to its own
            self.synchronize_before(op, Accesses(writes=keys), by=ONE_INVOCATION)
            self.run_by_first(op)

    def call(self, op: Operation) -> None:
        """Lower a call in uniform code: all invocations execute it."""
        self.synchronize_before(op, self.shared(accesses_of(op)))

    def user_barrier(self, op: Operation) -> None:
        """Lower a `gpu.barrier` of the program: it stays, and the accesses before it are forgotten."""
        self.passed_barrier()

    def branches(self, op: Operation) -> None:
        """Lower an operation that executes one of its regions, and join the hazard states after all of them.

        An enclosing loop has passed a barrier only if each of its iterations has, whichever region it executes.
        """
        start, joined = self.hazards.copy(), None
        had_passed_barrier = [loop.has_passed_barrier for loop in self.loops]
        for region in op.regions:
            self.hazards = start.copy()
            self.region(region)
            self._restore_passed_barriers(had_passed_barrier)  # the iteration may not execute this region
            if joined is None:
                joined = self.hazards
            else:
                joined.join(self.hazards)
        if joined is not None:
            self.hazards = joined

    def loop(self, op: Operation) -> None:
        """Lower a sequential loop.

        Barriers are inserted as if the previous iteration had made every access of the loop body. At the end of the
        body, a barrier is added if invocations may still read reduction scratch that the next iteration overwrites.
        """
        before = self.hazards.copy()
        had_passed_barrier = [loop.has_passed_barrier for loop in self.loops]
        self.hazards.record(self.shared(accesses_of(op)), by=SEVERAL_INVOCATIONS)  # accesses of the iteration before
        state = LoopState()
        self.loops.append(state)
        for region in op.regions:
            self.region(region)
        self._protect_scratch(op.regions[-1].blocks[-1], state.exposed)
        self.loops.pop()
        self._restore_passed_barriers(had_passed_barrier)  # a loop without iterations passes none of its barriers
        self.hazards.join(before)  # the loop may have had no iteration

    def _restore_passed_barriers(self, flags: list[bool]) -> None:
        """Set `has_passed_barrier` of the enclosing loops, outermost first, to its values before a branch or loop.

        A barrier in the branch or loop may not have run.
        """
        for loop, had_passed_barrier in zip(self.loops, flags, strict=True):
            loop.has_passed_barrier = had_passed_barrier


def _bindings_written_once(function: FuncOp) -> list[Key]:
    """Return the keys of the bindings whose elements are written at most once, as an attribute of `function` states."""
    written_once = attribute(function, "pyd.once")
    ordinals = written_once.data if isinstance(written_once, ArrayAttr) else ()
    return [("binding", int(n.value.data)) for n in ordinals if isinstance(n, IntegerAttr)]


_DIMENSIONS = {axis.value: gpu.DimensionAttr(axis) for axis in gpu.DimensionEnum}
""""x", "y" or "z" -> its attribute."""


def _thread(build: Build, dimension: str) -> SSAValue:
    """Insert the id of the invocation along a dimension, "x", "y" or "z"."""
    return build.make(gpu.ThreadIdOp, (), INDEX, {"dimension": _DIMENSIONS[dimension]})
