"""Races between the invocations of a checked kernel, found while it runs on CPUs."""

from __future__ import annotations

import ast
import math

from pydispatch.kernels.entities import MemoryRef, Scalar
from pydispatch.kernels.workgroup_memory import WORKGROUP_MEMORY, WorkgroupMemory

PHASE_BITS = 20
"""Of a stamp: how many barriers its workgroup had passed, modulo this many bits. The others are the invocation."""
STAMPS = 3
"""Of each element: that of its last write, of its last read, and of the last read by an invocation other than that."""
REMEDY = "put pydispatch.barrier() between the two within a workgroup, or change it by pydispatch.atomic_add"


def stamps_type(sizes: str, space: str = "") -> str:
    """Return the memref type of the stamps of a memory. sizes: of that memory, `?x4x` for example."""
    return f"memref<{STAMPS}x{sizes}i64{space}>"


def stamps_name(memory: str) -> str:
    """Return the name of the memref with the stamps of a memory. memory: its name in the kernel's text."""
    return f"%race_{memory.removeprefix('%')}"


class RaceInstrumentation(WorkgroupMemory):
    """Code generator that instruments memory accesses to detect data races between invocations.

    Two accesses race when one is a write, their invocations differ, and they are in different workgroups or in the same
    one with no barrier between them. Atomic operations are not checked.

    watched: views whose accesses are checked, in addition to all workgroup memory; None disables the checks.
    """

    _stamp: Scalar
    _passed_now: Scalar

    def begin_kernel(self) -> None:
        """Write what all stretches between barriers need."""
        if self.watched is None:
            return
        group = self._op("%zero", "addi", "%zero")
        for axis in (2, 1, 0):
            count = self.writer.value(f"stream.dispatch.workgroup.count[{axis}] : index", "index")
            group_id = self.writer.value(f"stream.dispatch.workgroup.id[{axis}] : index", "index")
            group = self._op(self._op(group, "muli", count.name), "addi", group_id.name)
        size = self.writer.constant(math.prod(self.workgroup), "index")
        first = self._op(group, "muli", size.name)
        self.prologue += ["%race_passed = memref.alloc() : " + self._passed, *self.writer.lines]
        self.prologue += [
            f"%race_group = arith.index_cast {group} : index to i64",
            f"%race_first = arith.addi {first}, %one : index",
            "%race_none = arith.constant 0 : i64",
            f"memref.store %race_none, %race_passed[%zero] : {self._passed}",
        ]
        self.writer.lines.clear()

    def begin_phase(self) -> None:
        """Write the stamp of an invocation."""
        if self.watched is None:
            return
        assert self.local is not None
        invocation, step = "%race_first", 1
        for coordinate, size in zip(self.local, self.workgroup, strict=True):
            scaled = self._op(coordinate.name, "muli", self.writer.constant(step, "index").name)
            invocation, step = self._op(invocation, "addi", scaled), step * size
        shifted = self._long("shli", self._cast(invocation), self._literal(PHASE_BITS))
        self._passed_now = self.writer.value(f"memref.load %race_passed[%zero] : {self._passed}", "i64")
        self._stamp = Scalar(self._long("ori", shifted, self._passed_now.name), "i64")

    def end_phase(self) -> None:
        """Write that all invocations have met."""
        if self.watched is None:
            return
        passed = self.writer.value(f"memref.load %race_passed[%zero] : {self._passed}", "i64")
        more = self._long("addi", passed.name, self._literal(1))
        phase = self._long("andi", more, self._literal((1 << PHASE_BITS) - 1))
        self.writer.line(f"memref.store {phase}, %race_passed[%zero] : {self._passed}")

    def allocated(self, memory: MemoryRef) -> None:
        if self.watched is None:
            return
        sizes = [int(extent.value) for extent in memory.shape if not isinstance(extent, Scalar)]
        type = stamps_type("".join(f"{size}x" for size in sizes), f", {WORKGROUP_MEMORY}")
        name = stamps_name(memory.name)
        self.prologue.append(f"{name} = memref.alloc() : {type}")
        indices = []
        for dimension, size in enumerate((STAMPS, *sizes)):
            end, index = f"{name}_end{dimension}", f"{name}_at{dimension}"
            self.prologue += [f"{end} = arith.constant {size} : index"]
            self.prologue += [f"scf.for {index} = %zero to {end} step %one {{"]
            indices.append(index)
        self.prologue += [f"memref.store %race_none, {name}[{', '.join(indices)}] : {type}", *["}"] * len(indices)]

    def accessed(self, node: ast.AST, memory: MemoryRef, indices: str, is_write: bool) -> None:
        super().accessed(node, memory, indices, is_write)
        if self.watched is None or self.local is None:
            return
        if memory.parameter and memory.parameter not in self.watched:
            return
        is_shared = not memory.parameter
        sizes = memory.type.removeprefix("memref<").partition(memory.dtype)[0]
        type = stamps_type(sizes, f", {WORKGROUP_MEMORY}" if is_shared else "")
        name = stamps_name(memory.name)
        written, read, other = (
            f"{name}[{self.writer.constant(index, 'index').name}, {indices}]" for index in range(STAMPS)
        )
        own_stamp = written if is_write else read
        old = self.writer.value(
            f"memref.atomic_rmw assign {self._stamp.name}, {own_stamp} : (i64, {type}) -> i64", "i64"
        )
        if is_write:
            before = [old, *(self.writer.value(f"memref.load {stamp} : {type}", "i64") for stamp in (read, other))]
        else:
            before = [self.writer.value(f"memref.load {written} : {type}", "i64")]
            last = self.writer.value(f"memref.load {other} : {type}", "i64")
            chosen = self.writer.value(f"arith.select {self._is_other(old.name)}, {old.name}, {last.name} : i64", "i64")
            self.writer.line(f"memref.store {chosen.name}, {other} : {type}")
        races = [self._races(stamp.name) for stamp in before]
        is_race = races[0]
        for stamp in races[1:]:
            is_race = self._truth("ori", is_race, stamp)
        none = self.writer.value(f"arith.xori {is_race}, {self.writer.constant(True, 'i1').name} : i1", "i1")
        how = "written here and read or written" if is_write else "read here and written"
        element = ast.unparse(node)
        self.stated(node, none, f"{element} is {how} by another invocation at the same time; {REMEDY}")

    # ---- parts

    _passed = f"memref<1xi64, {WORKGROUP_MEMORY}>"

    def _is_other(self, stamp: str) -> str:
        """Write the test whether a stamp is set and of another invocation, and return the name of its result."""
        bits = self._literal(PHASE_BITS)
        theirs, mine = (self._long("shrui", word, bits) for word in (stamp, self._stamp.name))
        is_one = self.writer.value(f"arith.cmpi ne, {stamp}, %race_none : i64", "i1")
        differs = self.writer.value(f"arith.cmpi ne, {theirs}, {mine} : i64", "i1")
        return self._truth("andi", is_one.name, differs.name)

    def _races(self, stamp: str) -> str:
        """Write the test whether the access of a stamp and one of this invocation now are unordered, and return the
        name of its result.
        """
        invocation = self._long("subi", self._long("shrui", stamp, self._literal(PHASE_BITS)), self._literal(1))
        group = self._long("divui", invocation, self._literal(math.prod(self.workgroup)))
        elsewhere = self.writer.value(f"arith.cmpi ne, {group}, %race_group : i64", "i1")
        phase = self._long("andi", stamp, self._literal((1 << PHASE_BITS) - 1))
        now = self.writer.value(f"arith.cmpi eq, {phase}, {self._passed_now.name} : i64", "i1")
        return self._truth("andi", self._is_other(stamp), self._truth("ori", elsewhere.name, now.name))

    def _op(self, lhs: str, operation: str, rhs: str) -> str:
        return self.writer.value(f"arith.{operation} {lhs}, {rhs} : index", "index").name

    def _long(self, operation: str, lhs: str, rhs: str) -> str:
        return self.writer.value(f"arith.{operation} {lhs}, {rhs} : i64", "i64").name

    def _truth(self, operation: str, lhs: str, rhs: str) -> str:
        return self.writer.value(f"arith.{operation} {lhs}, {rhs} : i1", "i1").name

    def _cast(self, index: str) -> str:
        return self.writer.value(f"arith.index_cast {index} : index to i64", "i64").name

    def _literal(self, value: int) -> str:
        return self.writer.constant(value, "i64").name
