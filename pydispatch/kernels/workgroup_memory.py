"""Workgroup memory: shared memory that a kernel allocates, and variables spilled across barriers."""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence

from pydispatch.kernels.allocations import WORKGROUP_MEMORY, declared, element_count
from pydispatch.kernels.entities import MemoryRef, Scalar, Slot, bytes_of, described
from pydispatch.kernels.loops import Loops
from pydispatch.kernels.source import Source

MAX_SHARED_BYTES = 48 << 10
"""Bytes of workgroup memory that every device has; a kernel that needs more is refused with a CompileError."""


class WorkgroupMemory(Loops):
    """Part of the code generators of kernels: workgroup memory, for requested arrays and for spilled variables.

    A spilled variable has a value for each invocation that must outlive a barrier: `_spill` stores it before, and
    `_restored` loads it after.

    Attributes:
        workgroup: Number of invocations along each axis, axis 0 (the innermost) first.
        prologue: Lines of MLIR at the beginning of the kernel, before its first phase (statements between barriers).
        local: Index of the invocation along each axis; None outside of a phase, where no single invocation runs.
        shared_bytes: Bytes of workgroup memory that are allocated so far.
    """

    memory_remedy = "make shared memory or the workgroup smaller, or keep fewer variables across barriers"

    def __init__(self, source: Source, workgroup: Sequence[int]) -> None:
        """Begin outside of a phase of the function `source`, without lines before its first phase (`prologue`).

        workgroup: invocations along each axis.
        """
        super().__init__(source)
        self.workgroup = tuple(workgroup)
        self.prologue: list[str] = []
        self.local: list[Scalar] | None = None
        self.shared_bytes = 0

    def _slot_type(self, type: str) -> str:
        """Return the memref type of the slot of a spilled variable: one element per invocation, axis 0 innermost."""
        shape = "".join(f"{size}x" for size in reversed(self.workgroup))
        return f"memref<{shape}{type}, {WORKGROUP_MEMORY}>"

    def _local_indices(self) -> str:
        """Return the indices of this invocation in the slot of a spilled variable, axis 0 last, as MLIR text."""
        assert self.local is not None
        return ", ".join(index.name for index in reversed(self.local))

    def _restored(self, slot: Slot) -> Scalar:
        """Emit the load of a spilled variable."""
        self.writer.has_effects = True  # a memory access stays in the branch that contains it
        return self.writer.value(
            f"memref.load %kept_{slot.name}[{self._local_indices()}] : {self._slot_type(slot.type)}", slot.type
        )

    def _spill(self, node: ast.AST, name: str, slot: Slot) -> None:
        """Emit the store of the variable `name` to its slot, a workgroup array with one element for each invocation.

        The slot is allocated, and gets its type, at the first store. Raise CompileError for a value that is no number.
        """
        value = self.environment.get(name)
        if not isinstance(value, Scalar):
            shown = described(value) if value else "nothing"
            remedy = "use one variable for each number"
            if isinstance(value, MemoryRef):
                remedy = "keep what is in it in workgroup memory"
            raise self.error(node, f"'{name}' is used after a barrier, and is {shown}", remedy)
        if not slot.type:  # the first store
            slot.type = value.type
            memref_type = self._slot_type(value.type)
            self._allocate(node, f"%kept_{name}", memref_type, count=self._invocation_count(), dtype=value.type)
        self.writer.line(
            f"memref.store {value.name}, %kept_{name}[{self._local_indices()}] : {self._slot_type(slot.type)}"
        )
        self.writer.has_effects = True

    def _invocation_count(self) -> int:
        """Return the number of invocations of a workgroup."""
        return math.prod(self.workgroup)

    def _allocate(self, node: ast.AST, name: str, type: str, count: int, dtype: str) -> None:
        """Allocate `count` elements of type `dtype` in workgroup memory, in the kernel's prologue.

        name: SSA name of the memory. type: its memref type, as MLIR text. node: the statement, for errors.

        Raise CompileError if the kernel then exceeds `MAX_SHARED_BYTES`.
        """
        self.shared_bytes += count * bytes_of(dtype)
        if self.shared_bytes > MAX_SHARED_BYTES:
            raise self.error(
                node,
                f"the kernel needs {self.shared_bytes} bytes of workgroup memory; devices have {MAX_SHARED_BYTES}",
                self.memory_remedy,
            )
        self.prologue.append(f"{name} = memref.alloc() : {type} {self.writer.location()}")

    def _shared(self, node: ast.stmt) -> None:
        """Emit the allocation of `name = pydispatch.shared(shape, dtype)`, and bind the name to the memory.

        Raise CompileError for another target than one name, for a name that is workgroup memory already, and for a
        shape that is not known at compile time.
        """
        value = getattr(node, "value", None)
        is_single_name = (
            isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name)
        )
        if not is_single_name or not isinstance(value, ast.Call):
            raise self.error(
                node, "workgroup memory is given one name", "write tile = pydispatch.shared((16, 16), pydispatch.f32)"
            )
        assert isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
        name = node.targets[0].id
        if isinstance(self.environment.get(name), MemoryRef):
            raise self.error(node, f"'{name}' is workgroup memory already", "give it another name")
        memory = declared(self, value, [self.evaluate(argument) for argument in value.args], f"%shared_{name}")
        self._allocate(node, memory.name, memory.type, element_count(memory), memory.dtype)
        self.environment[name] = memory
        self.allocated(memory)  # a subclass adds memory for race detection
