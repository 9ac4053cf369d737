"""Rows: arrays in workgroup memory with an element for each invocation, which it alone accesses.

Kernels in Python keep variables across barriers in such rows. As private memory of the invocations they are registers,
and need no barriers.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from math import prod

from xdsl.dialects import arith, memref, scf
from xdsl.dialects.builtin import IntegerAttr, MemRefType, NoneAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import BlockArgument, Operation, OpResult, SSAValue

from pydispatch.compiler.kernel_ir.bounds import counts_from_0_by_1
from pydispatch.compiler.kernel_ir.build import Build, Entry, Index, constant_or_value, create, replace
from pydispatch.compiler.kernel_ir.readers import op_name
from pydispatch.compiler.kernel_ir.scan import Ops
from pydispatch.compiler.kernel_ir.simt.reduce import can_distribute
from pydispatch.compiler.kernel_ir.simt.workgroup import PARALLEL
from pydispatch.compiler.kernel_ir.storage import is_workgroup

PRIVATE = IntegerAttr(5, 64)
"""Number of the memory space of a memref that is private to an invocation."""

MAX_DEPTH = 8
"""Maximum depth of nested additions and multiplications in which the terms of an index are searched. It is twice the
depth of the row-major number of an iteration in three dimensions. Operands that share operations are searched once for
each use, so that each further level could double the time."""


def make_private(function: FuncOp, ops: Ops, count: int) -> bool:
    """Replace each row of workgroup memory by one element of private memory in each invocation.

    A row is an array with as many elements as there are invocations, and each invocation accesses only its own element.
    With 64 invocations, where loops `scf.parallel (%i) = 0 to 64` access `%row[%i]` and nothing else uses it,

        %row = memref.alloc : memref<64xf32, 3>       // 3 is workgroup memory
        memref.store %v, %row[%i]

    becomes

        %own = memref.alloca : memref<1xf32, 5>       // 5 is private memory
        memref.store %v, %own[0]

    Args:
        function: The entry point, which is changed in place.
        ops: Its operations by name.
        count: Invocations of a workgroup.

    Returns:
        Whether there were rows.
    """
    rows = [row for row in ops.get("memref.alloc", ()) if is_own_row(row.results[0], count)]
    entry = Entry(function)
    for row in rows:
        type_ = row.results[0].type
        assert isinstance(type_, MemRefType)
        private = MemRefType(type_.element_type, [1], NoneAttr(), PRIVATE)
        # Like the row it has no dynamic sizes: the properties, with the alignment, hold for it.
        element = create(memref.AllocaOp, row.location, (), (private,), dict(row.properties))
        entry.insert(element)
        zero = Build.before(entry, row).value(0)
        for use in list(row.results[0].uses):
            # The uses are loads (memref, indices) and stores (value, memref, indices). 0 replaces the indices.
            up_to_row = use.operation.operands[: use.index + 1]
            use.operation.operands = [*up_to_row, zero]
        replace(row, element.results)
    return bool(rows)


def is_own_row(row: SSAValue, count: int, readers: Sequence[type[Operation]] = ()) -> bool:
    """Return whether a value is a row: workgroup memory of which each invocation accesses only its own element.

    It is an allocation outside parallel loops with `count` elements in all, such as memref<64xf32> or memref<8x8xf32>
    for 64 invocations. Each use is in a parallel loop, at the element with the number of the iteration: the invocation
    with the same number executes it.

    Args:
        row: A memref.
        count: Invocations of a workgroup.
        readers: Classes of operations besides loads and stores that may use the row. Their first operands are the row
            and the number of the invocation. All invocations of the workgroup must execute them together.
    """
    if not isinstance(row, OpResult) or not isinstance(row.op, memref.AllocOp):
        return False
    is_in_parallel_loop = outermost_parallel(row.op) is not row.op
    if is_in_parallel_loop:
        return False
    type_ = row.type
    if not isinstance(type_, MemRefType) or not is_workgroup(type_):
        return False
    if not type_.get_shape() or prod(type_.get_shape()) != count:
        return False
    return all(_is_own(use.operation, use.index, type_.get_shape(), readers) for use in row.uses)


def _is_own(op: Operation, position: int, shape: Sequence[int], readers: Sequence[type[Operation]]) -> bool:
    """Return whether an operation accesses the element of its own invocation in a row of this shape.

    It does if it is in a parallel loop that counts from 0 by 1, and its indices are the counters of the loop, or their
    row-major number: invocation p executes iteration p. For a row memref<64xf32>, these are `row[i]` in a loop over i,
    and `row[8 * i + j]` in a loop over (i, j) in 8 x 8.

    Args:
        op: The operation, a use of the row.
        position: Index of the row among the operands of `op`. The indices of the access follow it.
        shape: Shape of the row. It has as many elements as there are invocations.
        readers: Classes of operations besides loads and stores that may use the row. Their first operands are the row
            and the number of the invocation.
    """
    # The operation is a load or store of an element, or a reader that all invocations execute, in a distributed loop.
    loop = outermost_parallel(op)
    is_reader = isinstance(op, tuple(readers))
    # Operand 0 of a store is the value: a row that is stored itself may be accessed elsewhere.
    is_access = isinstance(op, memref.LoadOp) or (isinstance(op, memref.StoreOp) and position == 1)
    all_invocations_execute_it = op.parent_op() is loop  # not in a branch or loop inside
    is_accepted = is_access or (is_reader and all_invocations_execute_it)
    if not isinstance(loop, scf.ParallelOp) or not is_accepted:
        return False
    sizes = _sizes_from_0_by_1(loop)
    if sizes is None:
        return False
    # The loop counts from 0 by 1: compare the indices of the access with its counters.
    indices, counters = op.operands[position + 1 : position + 1 + len(shape)], list(loop.body.block.args)
    if len(counters) == len(shape) == 1 and not is_reader:
        # Iteration i accesses element i of the row. So there are at most as many iterations as invocations, and
        # invocation i runs iteration i alone.
        return indices[0] is counters[0]
    # Otherwise the loop must have as many iterations as there are invocations: each invocation runs one of them.
    if not all(isinstance(size, int) for size in sizes) or prod(sizes) != prod(shape):  # type: ignore[arg-type]
        return False
    if len(shape) > 1:  # the indices must be the counters; for one dimension, their row-major number
        return sizes == list(shape) and all(map(operator.is_, indices, counters))
    return _is_row_major(indices[0], counters, sizes)  # type: ignore[arg-type]


def _sizes_from_0_by_1(loop: scf.ParallelOp) -> list[Index] | None:
    """Return the iterations along each axis of a loop that is distributed over invocations and counts from 0 by 1.

    Return None for other loops, among them a reduction that every invocation runs completely.
    """
    if (loop.results and not can_distribute(loop)) or not counts_from_0_by_1(loop):
        return None
    return list(map(constant_or_value, loop.upperBound))


def outermost_parallel(op: Operation) -> Operation:
    """Return the outermost parallel loop around an operation; the operation itself if there is none."""
    outermost, parent = op, op.parent_op()
    while parent is not None:
        if op_name(parent) in PARALLEL:
            outermost = parent
        parent = parent.parent_op()
    return outermost


def _is_row_major(index: SSAValue, arguments: Sequence[BlockArgument], sizes: Sequence[int]) -> bool:
    """Return whether an index is the row-major number of an iteration of a loop with the counters `arguments`.

    `sizes` has the number of iterations along each axis.
    """
    # The index must be the sum of each counter times its stride. In a loop over (i, j) in 4 x 8, it is 8 * i + j.
    terms, stride = _terms(index), 1  # value → its coefficient, None → the constant; None if the index is not linear
    if terms is None:
        return False
    constant = terms.pop(None, 0)
    if constant:
        return False
    for size, argument in zip(reversed(sizes), reversed(arguments), strict=True):  # innermost axis first
        if terms.pop(argument, 0) != stride and size > 1:  # the counter of an axis of one iteration is 0
            return False
        stride *= size
    return not terms  # no other terms remain


def _terms(value: SSAValue, depth: int = MAX_DEPTH) -> dict[BlockArgument | None, int] | None:
    """Return an index as a sum of block arguments times constants: block argument -> its factor, None -> the constant.

    The index 8 * %i + %j + 3 gives {%i: 8, %j: 1, None: 3}. Return None for an index that is no such sum, or has more
    than `depth` nested operations.
    """
    constant = constant_or_value(value)
    if isinstance(constant, int):
        return {None: constant}
    if isinstance(value, BlockArgument):
        return {value: 1}
    assert isinstance(value, OpResult)
    if not depth or not isinstance(value.op, arith.AddiOp | arith.MuliOp):
        return None
    left, right = (_terms(operand, depth - 1) for operand in value.op.operands)
    if left is None or right is None:
        return None
    if isinstance(value.op, arith.AddiOp):
        return {key: left.get(key, 0) + right.get(key, 0) for key in {**left, **right}}
    # A product: one factor must be a constant, a sum without block arguments.
    factor, others = (left, right) if left.keys() <= {None} else (right, left)
    if not factor.keys() <= {None}:
        return None
    return {key: count * factor.get(None, 0) for key, count in others.items()}
