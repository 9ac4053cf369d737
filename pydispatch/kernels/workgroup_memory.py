"""Workgroup memory: shared memory that a kernel allocates, and variables spilled across barriers."""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence

from pydispatch.kernels.entities import Known, Literal, MemoryRef, Scalar, Slot, TupleValue, bytes_of, described
from pydispatch.kernels.loops import Loops
from pydispatch.kernels.source import Source
from pydispatch.patterns.types import DType

WORKGROUP_MEMORY = "#gpu.address_space<workgroup>"
MAX_SHARED_BYTES = 48 << 10
"""Bytes of workgroup memory that every device has."""


class WorkgroupMemory(Loops):
    """Code generator for workgroup memory.

    Attributes:
        prologue: Lines at the beginning of the kernel, before its first phase.
        local: Index of the invocation along each axis; None outside of a phase, where no single invocation runs.
        shared_bytes: Workgroup memory that is allocated so far.
    """

    memory_remedy = "make shared memory or the workgroup smaller, or keep fewer variables across barriers"

    def __init__(self, source: Source, workgroup: Sequence[int]) -> None:
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
        """Return the index of this invocation in the slot of a spilled variable, as MLIR text."""
        assert self.local is not None
        return ", ".join(index.name for index in reversed(self.local))

    def _restored(self, slot: Slot) -> Scalar:
        """Emit the load of a spilled variable."""
        self.writer.has_effects = True
        return self.writer.value(
            f"memref.load %kept_{slot.name}[{self._local_indices()}] : {self._slot_type(slot.type)}", slot.type
        )

    def _spill(self, node: ast.AST, name: str, slot: Slot) -> None:
        """Emit the store of a variable to its slot, which is allocated and gets its type at the first store."""
        value = self.environment.get(name)
        if not isinstance(value, Scalar):
            raise self.error(
                node,
                f"'{name}' is used after a barrier, and is {described(value) if value else 'nothing'}",
                "use one variable for each number",
            )
        if not slot.type:
            slot.type = value.type
            self._allocate(node, f"%kept_{name}", self._slot_type(value.type), self._invocation_count(), value.type)
        self.writer.line(
            f"memref.store {value.name}, %kept_{name}[{self._local_indices()}] : {self._slot_type(slot.type)}"
        )
        self.writer.has_effects = True

    def _invocation_count(self) -> int:
        """Return the number of invocations of a workgroup."""
        return math.prod(self.workgroup)

    def _allocate(self, node: ast.AST, name: str, type: str, count: int, dtype: str) -> None:
        """Allocate `count` elements of workgroup memory.

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
        """Emit `name = pydispatch.shared(shape, dtype)`; the shape must be known at compile time."""
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
        arguments = [self.evaluate(extent) for extent in value.args]
        if len(arguments) != 2 or not isinstance(arguments[1], Known) or not isinstance(arguments[1].value, DType):
            raise self.error(
                value, "shared takes a shape and a type", "write pydispatch.shared((16, 16), pydispatch.f32)"
            )
        shape = arguments[0].items if isinstance(arguments[0], TupleValue) else (arguments[0],)
        sizes = []
        for extent in shape:
            if not isinstance(extent, Literal) or not isinstance(extent.value, int) or extent.value < 1:
                raise self.error(
                    value.args[0],
                    f"the shape of workgroup memory is known when the kernel is compiled, got {described(extent)}",
                    "use numbers, pydispatch.group_size(...) or pydispatch.static parameters",
                )
            sizes.append(extent)
        dtype, count = arguments[1].value.name, 1
        for size in sizes:
            count *= int(size.value)
        type = f"memref<{''.join(f'{size.value}x' for size in sizes)}{dtype}, {WORKGROUP_MEMORY}>"
        self._allocate(node, f"%shared_{name}", type, count, dtype)
        self.environment[name] = memory = MemoryRef(f"%shared_{name}", dtype, tuple(sizes), type)
        self.allocated(memory)
