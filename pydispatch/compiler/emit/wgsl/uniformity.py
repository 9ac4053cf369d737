"""Uniformity analysis: values that are equal in all invocations of a workgroup by the rules of WGSL.

WGSL requires uniform control flow around a barrier. Kernel IR guarantees it; a value that WGSL cannot prove uniform,
such as a loop bound from a buffer, is passed through `workgroupUniformLoad`.
"""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.ir import Operation, OpResult, SSAValue

from pydispatch.compiler.kernel_ir.atomics import UPDATES
from pydispatch.compiler.kernel_ir.readers import op_name

_DIFFERS = frozenset(("memref.load", *UPDATES, "gpu.thread_id", "func.call", "util.call"))
"""Operations whose results may differ between invocations."""


class Uniformity:
    """Uniformity of the values of one entry point, and the operations that contain its barriers."""

    def __init__(self, barriers: Iterable[Operation]) -> None:
        self._barriers = barriers
        self._around: set[Operation] | None = None
        self._found: dict[SSAValue, bool] = {}

    def has_barrier(self, op: Operation) -> bool:
        """Return whether a region of an operation contains a barrier."""
        if self._around is None:
            self._around = set()
            for barrier in self._barriers:
                parent: Operation | None = barrier
                while parent is not None and parent not in self._around:
                    self._around.add(parent)
                    parent = parent.parent_op()
        return op in self._around

    def is_uniform(self, value: SSAValue) -> bool:
        """Return whether a value is uniform; the value must be defined outside divergent control flow."""
        decided = self._found.get(value)
        if decided is None:
            self._found[value] = False  # of what depends on itself
            decided = self._found[value] = self._decide(value)
        return decided

    def _decide(self, value: SSAValue) -> bool:
        """Return whether WGSL sees that a value is equal in all invocations: it depends on uniform values alone."""
        if isinstance(value, OpResult):
            op = value.op
            return not op.regions and op_name(op) not in _DIFFERS and all(map(self.is_uniform, op.operands))
        loop = value.owner.parent_op()
        is_counter = loop is not None and loop.name == "scf.for" and value.index == 0  # type: ignore[attr-defined]
        return is_counter and all(map(self.is_uniform, loop.operands[:3]))  # type: ignore[union-attr]
