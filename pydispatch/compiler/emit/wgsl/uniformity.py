"""Which values are the same in all invocations of a workgroup as far as a WGSL compiler can see.

Code around a barrier must be uniform by the rules of WGSL. Kernel IR makes it so in fact; what WGSL cannot know,
such as a loop bound from a buffer, passes through `workgroupUniformLoad`.
"""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.ir import Operation, OpResult, SSAValue

from pydispatch.compiler.kernel_ir.readers import op_name

_DIFFERS = frozenset(("memref.load", "memref.atomic_rmw", "gpu.thread_id", "func.call", "util.call"))


class Uniformity:
    """Of one entry point, with its barriers."""

    def __init__(self, barriers: Iterable[Operation]) -> None:
        self._barriers = barriers
        self._around: set[Operation] | None = None
        self._found: dict[SSAValue, bool] = {}

    def has_barrier(self, op: Operation) -> bool:
        """Return whether a barrier lies in a region of an operation."""
        if self._around is None:
            self._around = set()
            for barrier in self._barriers:
                parent: Operation | None = barrier
                while parent is not None and parent not in self._around:
                    self._around.add(parent)
                    parent = parent.parent_op()
        return op in self._around

    def is_uniform(self, value: SSAValue) -> bool:
        """Of a value outside divergent code."""
        found = self._found.get(value)
        if found is None:
            self._found[value] = False  # of what depends on itself
            found = self._found[value] = self._decide(value)
        return found

    def _decide(self, value: SSAValue) -> bool:
        if isinstance(value, OpResult):
            op = value.op
            return not op.regions and op_name(op) not in _DIFFERS and all(map(self.is_uniform, op.operands))
        loop = value.owner.parent_op()
        is_counter = loop is not None and loop.name == "scf.for" and value.index == 0  # type: ignore[attr-defined]
        return is_counter and all(map(self.is_uniform, loop.operands[:3]))  # type: ignore[union-attr]
