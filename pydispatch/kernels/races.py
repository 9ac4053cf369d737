"""Run-time detection of data races between the invocations of a kernel, for CPUs.

Each element of memory has stamps: 64-bit numbers that say which invocation has accessed it, and in which phase. An
access updates them, and fails if an access that they record is a conflicting one without a barrier in between.
"""

from __future__ import annotations

import ast
import math

from pydispatch.kernels.allocations import WORKGROUP_MEMORY
from pydispatch.kernels.entities import MemoryRef, Scalar
from pydispatch.kernels.workgroup_memory import WorkgroupMemory

PHASE_BITS = 20
"""Number of the lowest bits of a stamp, the record of an access to an element. They have the count of barriers that the
workgroup of the accessing invocation had passed. The other bits have the index of that invocation in the grid, plus 1:
a stamp of 0 stands for no access."""

STAMPS = 3
"""Number of stamps of an element: of its last write, of its last read, and of the last read by an invocation other than
that of its last read. A write by the invocation of the last read can still conflict with that other read."""

REMEDY = "put pydispatch.barrier() between the two within a workgroup, or change it by pydispatch.atomic_add"
"""End of the message about a race: the two ways to order accesses."""


def stamps_type(sizes: str, space: str = "") -> str:
    """Return the memref type of the stamps of a memory.

    sizes: shape of that memory, such as `?x4x`. space: ", " and its address space; "" for views.
    """
    return f"memref<{STAMPS}x{sizes}i64{space}>"


def stamps_name(memory: str) -> str:
    """Return the SSA name of the stamps (records of the last accesses) of the memory `memory`: `%race_x` for `%x`."""
    return f"%race_{memory.removeprefix('%')}"


class RaceInstrumentation(WorkgroupMemory):
    """Part of the code generators of kernels: run-time checks of memory accesses for data races between invocations.

    Two accesses race when one is a write, their invocations differ, and they are in different workgroups or in the same
    one with no barrier between them. Atomic operations are not checked.

    Each element has stamps, which say which invocation accessed it last, and in which phase. The methods are called in
    the order of the kernel: `begin_kernel` once, `begin_phase` for each phase, and `on_access` for each access, which
    compares the stamps of the element and replaces them.

    `watched` has the names of the views whose accesses are checked, in addition to all workgroup memory; None disables
    the checks. Memory of a single invocation needs none.
    """

    _stamp: Scalar
    """Stamp of this invocation in the current phase."""
    _barriers_passed_value: Scalar
    """Count of barriers that the workgroup has passed before the current phase, modulo 2 ** PHASE_BITS; an i64."""

    def begin_kernel(self) -> None:
        """Emit the values from which stamps are computed, in the prologue: all phases need them.

        They are the row-major number of the workgroup (%race_group), the number of its first invocation in the whole
        grid plus 1 (%race_first), and the count of barriers that the workgroup has passed (%race_passed), 0 at first.
        Because of the plus 1 no invocation has the stamp 0, which means that no access has occurred yet.

        Invocations are numbered workgroup by workgroup: with 64 invocations each, the workgroup number 2 has the
        %race_first 2 * 64 + 1 = 129.
        """
        if self.watched is None:  # no race checks
            return
        # SSA name of the number of the workgroup, row-major with axis 0 innermost: (id2 * count1 + id1) * count0 + id0.
        group = "%zero"
        for axis in (2, 1, 0):
            count = self.writer.value(f"stream.dispatch.workgroup.count[{axis}] : index", "index")
            group_id = self.writer.value(f"stream.dispatch.workgroup.id[{axis}] : index", "index")
            group = self._index_op(self._index_op(group, "muli", count.name), "addi", group_id.name)
        size = self.writer.constant(math.prod(self.workgroup), "index")
        first = self._index_op(group, "muli", size.name)
        self.prologue += ["%race_passed = memref.alloc() : " + self._counter_type, *self.writer.lines]
        self.prologue += [
            f"%race_group = arith.index_cast {group} : index to i64",
            f"%race_first = arith.addi {first}, %one : index",
            "%race_none = arith.constant 0 : i64",
            f"memref.store %race_none, %race_passed[%zero] : {self._counter_type}",
        ]
        self.writer.lines.clear()  # they are in the prologue

    def begin_phase(self) -> None:
        """Emit the stamp of this invocation in this phase, which its accesses to memory leave.

        It is the number of the invocation in the grid, plus 1, in the upper bits, and the number of barriers that its
        workgroup has passed in the lower PHASE_BITS ones. Invocation 5, whose workgroup has passed 2 barriers, has the
        stamp (5 + 1) << 20 | 2.
        """
        if self.watched is None:  # no race checks
            return
        assert self.local is not None
        # %race_first, which has the plus 1, plus the index in the workgroup, x + size0 * (y + size1 * z).
        invocation, step = "%race_first", 1
        for coordinate, size in zip(self.local, self.workgroup, strict=True):
            scaled = self._index_op(coordinate.name, "muli", self.writer.constant(step, "index").name)
            invocation, step = self._index_op(invocation, "addi", scaled), step * size
        shifted = self._i64_op("shli", self._to_i64(invocation), self._i64_constant(PHASE_BITS))
        self._barriers_passed_value = self.writer.value(
            f"memref.load %race_passed[%zero] : {self._counter_type}", "i64"
        )
        self._stamp = Scalar(self._i64_op("ori", shifted, self._barriers_passed_value.name), "i64")

    def end_phase(self) -> None:
        """Emit the increment of the count of barriers that the workgroup has passed, modulo 2 ** PHASE_BITS."""
        if self.watched is None:  # no race checks
            return
        passed = self.writer.value(f"memref.load %race_passed[%zero] : {self._counter_type}", "i64")
        incremented = self._i64_op("addi", passed.name, self._i64_constant(1))
        new_count = self._i64_op("andi", incremented, self._i64_constant((1 << PHASE_BITS) - 1))
        self.writer.line(f"memref.store {new_count}, %race_passed[%zero] : {self._counter_type}")

    def allocated(self, memory: MemoryRef) -> None:
        """Emit the allocation of the stamps of workgroup memory, and a loop nest that sets them to 0 (`%race_none`).

        The code is added to the prologue of the kernel. Stamps have the shape of the memory after a dimension of
        `STAMPS`. For `t = shared((16,), f32)`, with WG for the address space and without the constants:

            %race_shared_t = memref.alloc() : memref<3x16xi64, WG>
            scf.for %race_shared_t_at0 = %zero to %race_shared_t_end0 step %one {
              scf.for %race_shared_t_at1 = %zero to %race_shared_t_end1 step %one {
                memref.store %race_none, %race_shared_t[%race_shared_t_at0, %race_shared_t_at1] : memref<3x16xi64, WG>
              }
            }
        """
        if self.watched is None:  # no race checks
            return
        # All sizes of workgroup memory are literals.
        shape = [int(extent.value) for extent in memory.shape if not isinstance(extent, Scalar)]
        type = stamps_type("".join(f"{size}x" for size in shape), f", {WORKGROUP_MEMORY}")
        name = stamps_name(memory.name)
        self.prologue.append(f"{name} = memref.alloc() : {type}")
        indices = []
        for dimension, size in enumerate((STAMPS, *shape)):
            end, index = f"{name}_end{dimension}", f"{name}_at{dimension}"
            self.prologue += [f"{end} = arith.constant {size} : index"]
            self.prologue += [f"scf.for {index} = %zero to {end} step %one {{"]
            indices.append(index)
        closing_braces = ["}"] * len(indices)
        self.prologue += [f"memref.store %race_none, {name}[{', '.join(indices)}] : {type}", *closing_braces]

    def on_access(self, node: ast.AST, memory: MemoryRef, indices: str, is_write: bool) -> None:
        """Emit the update of an element's stamps, and the assertion that no unordered access conflicts with this one.

        Accesses of two invocations conflict if one of them is a write. They are unordered if the invocations are in
        different workgroups, or in the same one without a barrier between the accesses.

        node: the access, for errors. indices: SSA names of the element's indices.
        """
        super().on_access(node, memory, indices, is_write)
        # Outside of a phase (`local` is None) the workgroup accesses memory as a whole.
        if self.watched is None or self.local is None or memory.is_private:
            return
        if memory.parameter and memory.parameter not in self.watched:  # a view that the kernel only reads
            return
        # This access races if any access that the element's stamps recorded before is unordered with it.
        races = [self._races(stamp.name) for stamp in self._exchange_stamps(memory, indices, is_write)]
        is_race = races[0]
        for race in races[1:]:
            is_race = self._i1_op("ori", is_race, race)
        true = self.writer.constant(value=True, type="i1")
        no_race = self.writer.value(f"arith.xori {is_race}, {true.name} : i1", "i1")
        how = "written here and read or written" if is_write else "read here and written"
        element = ast.unparse(node)
        self.emit_assertion(node, no_race, f"{element} is {how} by another invocation at the same time; {REMEDY}")

    def _exchange_stamps(self, memory: MemoryRef, indices: str, is_write: bool) -> list[Scalar]:
        """Emit the update of an element's stamps for an access by this invocation. Return the stamps before it with
        which the access may conflict.

        A write conflicts with the last write and the reads of other invocations, a read with the last write. The stamps
        are in the order of `STAMPS`: the last write, the last read, and the last read by any invocation but the one
        that made the last read (`other`).

        Reads by the invocations A, B and B leave the stamps (0, B, A). A write by B then conflicts with the read by A,
        which a single stamp for reads would have lost.
        """
        sizes = memory.type.removeprefix("memref<").partition(memory.dtype)[0]  # "?x4x" of "memref<?x4xf32>"
        type = stamps_type(sizes, "" if memory.parameter else f", {WORKGROUP_MEMORY}")
        name = stamps_name(memory.name)
        written, read, other = (
            f"{name}[{self.writer.constant(index, 'index').name}, {indices}]" for index in range(STAMPS)
        )
        # The exchange is atomic: of two simultaneous writes, the later one gets the stamp of the earlier one.
        own_stamp = written if is_write else read
        old = self.writer.value(
            f"memref.atomic_rmw assign {self._stamp.name}, {own_stamp} : (i64, {type}) -> i64", "i64"
        )
        if is_write:
            return [old, *(self.writer.value(f"memref.load {stamp} : {type}", "i64") for stamp in (read, other))]
        last_write = self.writer.value(f"memref.load {written} : {type}", "i64")
        # The read before this one becomes `other`, unless it was by this invocation as well.
        before_last = self.writer.value(f"memref.load {other} : {type}", "i64")
        chosen = self.writer.value(
            f"arith.select {self._is_other(old.name)}, {old.name}, {before_last.name} : i64", "i64"
        )
        self.writer.line(f"memref.store {chosen.name}, {other} : {type}")
        return [last_write]

    # ---- tests of stamps, and operations

    _counter_type = f"memref<1xi64, {WORKGROUP_MEMORY}>"

    def _is_other(self, stamp: str) -> str:
        """Emit the test that a stamp is set by another invocation, and return the name of its result.

        The upper bits of a stamp, from PHASE_BITS on, are the invocation plus 1. No invocation has set the stamp 0.
        """
        bits = self._i64_constant(PHASE_BITS)
        theirs, mine = (self._i64_op("shrui", word, bits) for word in (stamp, self._stamp.name))
        is_set = self.writer.value(f"arith.cmpi ne, {stamp}, %race_none : i64", "i1")
        differs = self.writer.value(f"arith.cmpi ne, {theirs}, {mine} : i64", "i1")
        return self._i1_op("andi", is_set.name, differs.name)

    def _races(self, stamp: str) -> str:
        """Emit the test that the access that left a stamp is unordered with an access by this invocation now; return
        the name of the result.

        The accesses are unordered if the stamp is of another invocation, and either that is in another workgroup, or
        its access was after the last barrier: the stamp then has the present number of passed barriers. A stamp is
        (invocation + 1) << PHASE_BITS | number of barriers passed.
        """
        invocation = self._i64_op(
            "subi", self._i64_op("shrui", stamp, self._i64_constant(PHASE_BITS)), self._i64_constant(1)
        )
        group = self._i64_op("divui", invocation, self._i64_constant(math.prod(self.workgroup)))
        is_other_group = self.writer.value(f"arith.cmpi ne, {group}, %race_group : i64", "i1")
        barriers = self._i64_op("andi", stamp, self._i64_constant((1 << PHASE_BITS) - 1))
        is_recent = self.writer.value(f"arith.cmpi eq, {barriers}, {self._barriers_passed_value.name} : i64", "i1")
        return self._i1_op("andi", self._is_other(stamp), self._i1_op("ori", is_other_group.name, is_recent.name))

    def _index_op(self, lhs: str, operation: str, rhs: str) -> str:
        """Emit an operation on values of type index, and return the name of its result."""
        return self.writer.value(f"arith.{operation} {lhs}, {rhs} : index", "index").name

    def _i64_op(self, operation: str, lhs: str, rhs: str) -> str:
        """Emit an operation on i64 values, and return the name of its result."""
        return self.writer.value(f"arith.{operation} {lhs}, {rhs} : i64", "i64").name

    def _i1_op(self, operation: str, lhs: str, rhs: str) -> str:
        """Emit an operation on conditions, and return the name of its result."""
        return self.writer.value(f"arith.{operation} {lhs}, {rhs} : i1", "i1").name

    def _to_i64(self, index: str) -> str:
        """Emit the conversion of an index to i64, and return the name of its result."""
        return self.writer.value(f"arith.index_cast {index} : index to i64", "i64").name

    def _i64_constant(self, value: int) -> str:
        """Emit an i64 constant, and return its name."""
        return self.writer.constant(value, "i64").name
