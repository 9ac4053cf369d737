"""Uniformity analysis: values that are equal in all invocations of a workgroup by the rules of WGSL.

WGSL requires uniform control flow around a barrier. Kernel IR guarantees it; a value that WGSL cannot prove uniform,
such as a loop bound from a buffer, is passed through `workgroupUniformLoad`.
"""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.ir import Operation, OpResult, SSAValue

from pydispatch.compiler.kernel_ir import atomics
from pydispatch.compiler.kernel_ir.readers import op_name

_MAY_DIFFER = frozenset(("memref.load", *atomics.UPDATES, "gpu.thread_id", "func.call", "util.call"))
"""Operations whose results may differ between invocations although their operands are uniform: WGSL takes elements
of writable memory, which atomic updates return too, and results of calls for non-uniform."""


class Uniformity:
    """Uniformity of the values of one entry point, and the operations that contain its barriers.

    A value is uniform if it is equal in all invocations of a workgroup. A loop or branch that contains a barrier
    (`has_barrier`) needs uniform conditions and bounds. The emitter of the entry point passes those that are not known
    to be uniform (`is_uniform`) through `workgroupUniformLoad`.
    """

    def __init__(self, barriers: Iterable[Operation]) -> None:
        """Store the barriers of the entry point; values are analyzed when they are first queried."""
        self._barriers = barriers  # all barriers of the entry point
        self._ops_around_barriers: set[Operation] | None = None  # barriers and their ancestors; None: not computed yet
        self._is_uniform: dict[SSAValue, bool] = {}  # cached results of is_uniform()

    def has_barrier(self, op: Operation) -> bool:
        """Return whether an operation is a barrier, or a region of it contains one, at any depth."""
        if self._ops_around_barriers is None:
            self._ops_around_barriers = set()
            for barrier in self._barriers:
                parent: Operation | None = barrier
                while parent is not None and parent not in self._ops_around_barriers:
                    self._ops_around_barriers.add(parent)
                    parent = parent.parent_op()
        return op in self._ops_around_barriers

    def is_uniform(self, value: SSAValue) -> bool:
        """Return whether a value is uniform; the value must be defined outside divergent control flow."""
        if value not in self._is_uniform:
            self._is_uniform[value] = self._depends_on_uniform_values(value)
        return self._is_uniform[value]

    def _depends_on_uniform_values(self, value: SSAValue) -> bool:
        """Return whether a value is computed from uniform values alone, so that WGSL can prove it uniform.

        Results of loops and branches, and values that loops carry, count as not uniform: they are variables of WGSL.
        """
        if isinstance(value, OpResult):
            op = value.op
            is_uniform_operation = not op.regions and op_name(op) not in _MAY_DIFFER
            return is_uniform_operation and all(map(self.is_uniform, op.operands))
        # An argument of a block: the counter of a counted loop is uniform if its bounds and step are.
        loop = value.owner.parent_op()
        if loop is None or loop.name != "scf.for":
            return False
        is_counter, bounds_and_step = value.index == 0, loop.operands[:3]  # type: ignore[attr-defined]
        return is_counter and all(map(self.is_uniform, bounds_and_step))
