"""Kernel IR for a workgroup to kernel IR for one of its invocations.

Afterwards a kernel says what an invocation does: points of loops are spread (point p belongs to invocation p modulo
their number), one invocation makes the stores of uniform code, reductions over points meet in shuffles and workgroup
memory, and `gpu.barrier` stands wherever memory that one invocation wrote is next used by another. docs/kernel-ir.md
has the rules. Loops over points that are left are plain loops of one invocation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

from xdsl.dialects import arith, gpu, scf
from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, MemRefType, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, Region, SSAValue

from pydispatch.compiler.kernel_ir.calls import CALLS
from pydispatch.compiler.kernel_ir.hazards import MANY, ONE, Accesses, Hazards, Key, accesses_of, base_of
from pydispatch.compiler.kernel_ir.readers import attribute, op_name, unsupported
from pydispatch.compiler.kernel_ir.simt.build import Build, Index
from pydispatch.compiler.kernel_ir.storage import STORAGE, is_private, is_workgroup
from pydispatch.errors import CompileError
from pydispatch.ir.core.locations import location_of

Size = tuple[int, int, int]

POINTS = ("scf.parallel", "scf.forall", "affine.parallel")
"""Says that every point of a kernel writes whole bytes."""


@dataclass
class Turn:
    """The body of a loop around the current operation.

    barred: a barrier stands before here in every turn. exposed: memory of reductions that is written in front of any
    such barrier, while the turn before may still read it.
    """

    barred: bool = False
    exposed: set[Key] = field(default_factory=set)


class Spreading:
    """One entry point on its way."""

    def __init__(self, function: FuncOp, size: Size, rules: Mapping[str, Callable[[Any, Operation], None]]) -> None:
        self.function, self.size, self.count, self.rules = function, size, prod(size), rules
        once = attribute(function, "pyd.once")
        numbers = once.data if isinstance(once, ArrayAttr) else ()
        self.hazards = Hazards(("binding", int(n.value.data)) for n in numbers if isinstance(n, IntegerAttr))
        width = attribute(function, "pyd.index_width")
        self.narrow = isinstance(width, IntegerAttr) and width.value.data == 32
        self.common: set[Operation] = set()  # allocations that are the workgroup's
        self.sites = 0  # reductions that were spread
        self.scratch: dict[object, SSAValue] = {}
        self.turns: list[Turn] = []
        self._own: SSAValue | None = None
        self._first: SSAValue | None = None

    def run(self) -> None:
        for op in self.function.walk():
            if op_name(op).startswith("gpu.") and not isinstance(op, gpu.BarrierOp):
                raise unsupported(op)
            if isinstance(op, gpu.BarrierOp) and self._in_points(op):
                note = "points are independent: put it between two loops"
                raise CompileError("gpu.barrier inside a loop over points", location_of(op), note)
        self._place_storage()
        if self.count > 1:
            self.region(self.function.body)

    # Storage

    def _place_storage(self) -> None:
        """Says of every allocation whose it is."""
        shared = self._written_together() if self.count > 1 else set()
        for op in self.function.walk():
            if op_name(op) not in ("memref.alloc", "memref.alloca") or not isinstance(op.results[0].type, MemRefType):
                continue
            together = is_workgroup(op.results[0].type) or op in shared
            if together and not is_private(op.results[0].type) and not self._in_points(op):
                self.common.add(op)
            kind = "workgroup" if op in self.common else "private"
            op.attributes[STORAGE] = StringAttr(kind)

    def _in_points(self, op: Operation) -> bool:
        parent = op.parent_op()
        while parent is not None:
            if op_name(parent) in POINTS:
                return True
            parent = parent.parent_op()
        return False

    def _written_together(self) -> set[Operation]:
        """Allocations outside loops over points that points write, or functions that all invocations call."""
        found: set[Operation] = set()
        for op in self.function.walk():
            if op_name(op) in (*POINTS, *CALLS) and not self._in_points(op):
                found |= {key for key in accesses_of(op).writes if isinstance(key, Operation)}
        return {key for key in found if not self._in_points(key)}

    def shared(self, accesses: Accesses) -> Accesses:
        """The accesses less those to memory that an invocation has for itself."""

        def keep(keys: set[Key]) -> set[Key]:
            return {key for key in keys if not isinstance(key, Operation) or key in self.common}

        return Accesses(keep(accesses.reads), keep(accesses.writes))

    # What every invocation knows

    def _at_entry(self, make: Callable[[Build], SSAValue]) -> SSAValue:
        block = self.function.body.blocks[0]
        anchor = block.first_op
        if self._own is not None:
            owner = self._own.owner
            assert isinstance(owner, Operation)
            anchor = owner.next_op
        return make(Build(self.function, anchor, block))

    def own(self) -> SSAValue:
        """The number of the invocation in its workgroup."""

        def make(build: Build) -> SSAValue:
            x, y, z = self.size
            number: Index = build.thread("x")
            if y * z > 1:
                number = build.add(number, build.mul(x, build.thread("y")))
            if z > 1:
                number = build.add(number, build.mul(x * y, build.thread("z")))
            assert isinstance(number, SSAValue)
            return number

        if self._own is None:
            self._own = self._at_entry(make)
        return self._own

    def first(self) -> SSAValue:
        """Whether it is invocation 0."""
        own = self.own()
        if self._first is None:
            self._first = self._at_entry(lambda build: build.let(arith.CmpiOp(own, build.value(0), "eq")))
        return self._first

    def alloc_at_entry(self, make: Callable[[], Operation]) -> SSAValue:
        """Workgroup memory for the whole kernel."""
        self.own()

        def alloc(build: Build) -> SSAValue:
            op = make()
            op.attributes[STORAGE] = StringAttr("workgroup")
            self.common.add(op)
            return build.let(op)

        return self._at_entry(alloc)

    # Meeting

    def before(self, op: Operation, accesses: Accesses, who: int = MANY) -> None:
        """Puts a barrier in front of `op` where these accesses need one, and notes them."""
        if self.hazards.conflict(accesses, who):
            self.barrier(Build(op, op))
        self.hazards.note(accesses, who)

    def barrier(self, build: Build) -> None:
        build.op(gpu.BarrierOp())
        self._met()

    def _met(self) -> None:
        self.hazards.clear()
        for turn in self.turns:
            turn.barred = True

    def write_scratch(self, op: Operation, keys: set[Key]) -> None:
        """In front of `op` memory of a reduction is written, which loops do not know beforehand."""
        self.before(op, Accesses(set(), keys))
        for turn in self.turns:
            if not turn.barred:
                turn.exposed |= keys

    def _settle(self, block: Block, exposed: set[Key]) -> None:
        """Ends a block behind which memory of reductions is written that some may still read."""
        last = block.last_op
        if last is not None and exposed & self.hazards.read:
            self.barrier(Build(last, last))

    def by_one(self, op: Operation) -> None:
        """Moves an operation without results that are used into `if this is invocation 0`."""
        if any(result.uses for result in op.results):
            raise CompileError(
                f"the result of '{op_name(op)}' outside a loop over points", location_of(op), "move it into the loop"
            )
        inner = Build(op, op).when(self.first())
        op.detach()
        inner.op(op)
        inner.op(scf.YieldOp())

    # Uniform code

    def region(self, region: Region) -> None:
        """What all invocations execute with the same values."""
        blocks = list(region.blocks)
        everything = Accesses()
        if len(blocks) > 1:  # whichever way a block is reached, all of them may have run
            for block in blocks:
                for op in block.ops:
                    everything.add(accesses_of(op))
            everything = self.shared(everything)
        for block in blocks:
            if len(blocks) > 1:
                self.hazards.note(everything, MANY)
            for op in list(block.ops):
                self.op(op)
            if len(blocks) > 1:
                self._settle(block, {line.owner for line in self.scratch.values()})
        if len(blocks) > 1:
            self.hazards.note(everything, MANY)

    def op(self, op: Operation) -> None:
        name = op_name(op)
        rule = self.rules.get(name)
        if rule is not None:
            rule(self, op)
        elif op.regions:
            raise unsupported(op)

    def keys(self, op: Operation, memref: SSAValue) -> set[Key]:
        """The shared storage that a memref may lie in. CompileError when it may also lie in an invocation's own."""
        bases = base_of(memref)
        keys = self.shared(Accesses(bases, set())).reads
        if keys and keys != bases:
            raise CompileError(
                "a memref that may lie in memory of the workgroup or in an invocation's own", location_of(op),
                "choose between loaded elements instead",
            )  # fmt: skip
        return keys

    def load(self, op: Operation, operand: int = 0) -> None:
        self.before(op, Accesses(self.keys(op, op.operands[operand]), set()))

    def store(self, op: Operation) -> None:
        keys = self.keys(op, op.operands[1])
        if keys:
            self.before(op, Accesses(set(), keys), ONE)
            self.by_one(op)

    def call(self, op: Operation) -> None:
        self.before(op, self.shared(accesses_of(op)))

    def user_barrier(self, op: Operation) -> None:
        self._met()

    def ways(self, op: Operation) -> None:
        """One of several regions runs."""
        start, joined = self.hazards.copy(), None
        barred = [turn.barred for turn in self.turns]
        for region in op.regions:
            self.hazards = start.copy()
            self.region(region)
            self._unbar(barred)
            if joined is None:
                joined = self.hazards
            else:
                joined.join(self.hazards)
        if joined is not None:
            self.hazards = joined

    def loop(self, op: Operation) -> None:
        """A turn meets the one before, which may have done all that the loop does."""
        before, barred = self.hazards.copy(), [turn.barred for turn in self.turns]
        self.hazards.note(self.shared(accesses_of(op)), MANY)
        turn = Turn()
        self.turns.append(turn)
        for region in op.regions:
            self.region(region)
        self._settle(op.regions[-1].blocks[-1], turn.exposed)
        self.turns.pop()
        self._unbar(barred)
        self.hazards.join(before)

    def _unbar(self, barred: list[bool]) -> None:
        """What stands in one of several ways, or in a loop, may not have run."""
        for turn, before in zip(self.turns, barred, strict=True):
            turn.barred = before


