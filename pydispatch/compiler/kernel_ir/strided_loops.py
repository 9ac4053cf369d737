"""Strided loops, in which invocation i of W processes elements i, i + W, ..., and which can be interchanged.

`strided.py` interchanges them with the loops over invocations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, memref, scf
from xdsl.dialects.builtin import Float16Type, Float32Type, Float64Type, IndexType, IntegerType
from xdsl.ir import Attribute, Operation, SSAValue

from pydispatch.compiler.kernel_ir.bounds import counts_from_0_by_1
from pydispatch.compiler.kernel_ir.build import Index, constant_or_value
from pydispatch.compiler.kernel_ir.outer_loops.lanes import MOST_BYTES_OF_VALUE
from pydispatch.compiler.kernel_ir.readers import counts_indices
from pydispatch.ir.core.walk import walk
from pydispatch.ir.op_info import info_of

FEWEST = 8
"""Minimum number of invocations of a loop that is interchanged: fewer do not fill a vector."""


@dataclass(frozen=True)
class StridedLoop:
    """A strided loop in a parallel loop over invocations, which can be interchanged.

    Attributes:
        loop: The strided loop; in invocation p its counter begins at `start` + p.
        start: A value that is the same for all invocations; an int if it is known.
        own: Operations before the strided loop whose results depend on the invocation.
        shared: Operations before the strided loop whose results are equal in all invocations.
    """

    loop: scf.ForOp
    start: Index
    own: Sequence[Operation]
    shared: Sequence[Operation]

    @property
    def carried_bytes(self) -> int:
        """Upper bound of the size in bytes of the carried values of all invocations."""
        invocations = constant_or_value(self.loop.step)
        assert isinstance(invocations, int)
        return invocations * MOST_BYTES_OF_VALUE * len(self.loop.results)


def find_strided_loop(loop: scf.ParallelOp, read_only: frozenset[SSAValue]) -> StridedLoop | None:
    """Return the first `scf.for` in a parallel loop over invocations, if its step is the number of invocations.

    In `parallel lane in 0..64 { for i = lane to n step 64 { ... } }`, invocation 3 processes the elements 3, 67 and so
    on. Return None if the `scf.for` has another step or cannot be interchanged. `read_only`: memrefs that the function
    does not write.
    """
    block, invocations = loop.body.block, _invocations(loop)
    if invocations is None:
        return None
    # Sort the operations before the strided loop. `own` ones depend on the invocation: the interchange copies them into
    # each of the new loops, so that they must give the same results when they are repeated.
    own, shared, varying = list[Operation](), list[Operation](), set[SSAValue](block.args)
    for op in block.ops:
        if isinstance(op, scf.ForOp):
            # The lower bound must be `start` plus the invocation, the step the number of invocations.
            start = _uniform_start(op.lb, block.args[0], varying)
            is_strided = counts_indices(op) and constant_or_value(op.step) == invocations and op.ub not in varying
            if start is None or not is_strided or not _may_be_interchanged(op):
                return None
            return StridedLoop(op, start, own, shared)
        if not _may_be_repeated(op, loop, read_only):
            return None
        if varying.isdisjoint(op.operands):
            shared.append(op)
        else:
            own.append(op)
            varying.update(op.results)
    return None


def _invocations(loop: scf.ParallelOp) -> int | None:
    """Return the trip count of a parallel loop over at least `FEWEST` invocations from 0 on; None for other loops."""
    if len(loop.body.block.args) != 1 or loop.initVals:
        return None
    high = constant_or_value(loop.upperBound[0])
    return high if counts_from_0_by_1(loop) and isinstance(high, int) and high >= FEWEST else None


def _may_be_repeated(op: Operation, loop: scf.ParallelOp, read_only: frozenset[SSAValue]) -> bool:
    """Return whether an operation before the strided loop in `loop` gives the same results when it is repeated.

    `read_only` are memrefs that the function does not write.
    """
    is_load = isinstance(op, memref.LoadOp) and (op.memref in read_only or _is_unchanged(op.memref, loop))
    return not op.regions and (info_of(op).is_pure or is_load or op.name == "hal.interface.workgroup.id")


def _may_be_interchanged(loop: scf.ForOp) -> bool:
    """Return whether memory can hold the carried values of a strided loop, and no parallel loop is in it."""
    fits = all(_fits_workgroup_memory(result.type) for result in loop.results)
    return fits and not any(isinstance(inner, scf.ParallelOp) for inner in walk(loop))


def _is_unchanged(memory: SSAValue, loop: scf.ParallelOp) -> bool:
    """Return whether `memory` is an allocation that no operation in the sequential loops of `loop` can write.

    The allocation may only be loaded from, and stored to outside of these loops. The memories with the carried values
    of strided loops that were interchanged before are such allocations.
    """
    if not isinstance(memory.owner, memref.AllocOp | memref.AllocaOp):
        return False
    sequential_loops = [op for op in loop.body.block.ops if isinstance(op, scf.ForOp)]
    for use in memory.uses:
        user = use.operation
        is_in_loop = any(op.is_ancestor(user) for op in sequential_loops)
        is_store_outside = isinstance(user, memref.StoreOp) and not is_in_loop
        if not isinstance(user, memref.LoadOp) and not is_store_outside:
            return False
    return True


def _uniform_start(lower: SSAValue, lane: SSAValue, varying: set[SSAValue]) -> Index | None:
    """Return `start` if a lower bound is `start + lane` and `start` is equal in all invocations; else None.

    It is an int if it is a constant, else a value. `lane` is the number of the invocation; `varying` are the values
    that depend on it.
    """
    if lower is lane:
        return 0
    if not isinstance(lower.owner, arith.AddiOp) or lane not in lower.owner.operands:
        return None
    left, right = lower.owner.operands
    other = right if left is lane else left
    return None if other in varying else constant_or_value(other)


def _fits_workgroup_memory(type_: Attribute) -> bool:
    """Return whether elements of a type can be stored in workgroup memory."""
    if isinstance(type_, IntegerType):
        return type_.width.data in (8, 16, 32, 64)
    return isinstance(type_, Float16Type | Float32Type | Float64Type | IndexType)
