"""Operations on subgroups (`pyd.subgroup_*`) → shuffles of registers, for a target whose warps are the subgroups.

`kernels/subgroups.py` has left only operations that every invocation executes, on rows with an element of its own.
`own_rows.py` makes these elements registers.
"""

from __future__ import annotations

from xdsl.dialects import arith, memref
from xdsl.dialects.builtin import MemRefType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from pydispatch.compiler.kernel_ir.build import WORD, Build, Entry, replace
from pydispatch.compiler.kernel_ir.scan import Ops
from pydispatch.compiler.kernel_ir.simt.shuffle import INDEX, XOR, BallotOp, shuffle
from pydispatch.ir.dialects.pyd.subgroups import (
    COMBINERS,
    OPERATIONS,
    SUBGROUP_SIZE,
    SubgroupReduceOp,
    SubgroupShuffleOp,
)


def use_shuffles(function: FuncOp, ops: Ops) -> bool:
    """Replace the subgroup operations of a function by shuffles and ballots; return whether there were any.

    `ops` are the operations of the function by name.
    """
    exchanges = [op for kind in OPERATIONS for op in ops.get(kind.name, ())]
    entry = Entry(function)
    for op in exchanges:
        build = Build.before(entry, op)
        row, position = op.operands[:2]  # the row of values, and the number of this invocation, its position in the row
        assert isinstance(row.type, MemRefType)
        value = build.make(memref.LoadOp, (row, position), row.type.element_type)
        replace(op, [_exchanged(build, op, value)])
    return bool(exchanges)


def _exchanged(build: Build, op: Operation, value: SSAValue) -> SSAValue:
    """Emit `op` on `value`, the own value of each invocation, by shuffles or a ballot, and return its result."""
    if isinstance(op, SubgroupShuffleOp):
        lane = build.make(arith.IndexCastOp, (op.source,), WORD)  # number of an invocation: its low 5 bits are the lane
        return shuffle(build, value, mode=INDEX, offset=0, lanes=SUBGROUP_SIZE, lane=lane)
    if not isinstance(op, SubgroupReduceOp):  # a ballot
        return build.let(BallotOp.create(operands=[value], result_types=[WORD]))
    distance = 1
    while distance < SUBGROUP_SIZE:  # after each step, 2 * distance neighbouring lanes have the same partial result
        other = shuffle(build, value, mode=XOR, offset=distance, lanes=SUBGROUP_SIZE)
        value = build.let(COMBINERS[op.combiner.data](value, other))
        distance *= 2
    return value
