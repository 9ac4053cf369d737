"""Operations on subgroups (`pyd.subgroup_*`) as accesses to workgroup memory, where a target has no instructions.

Operations for which it has some stay: `kernel_ir/simt/subgroups.py` makes shuffles of them. Both give the same bits,
since both combine the values of a subgroup in the same order.
"""

from __future__ import annotations

from xdsl.dialects import arith, memref
from xdsl.dialects.builtin import IntegerAttr, IntegerType, MemRefType, ModuleOp, NoneAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from pydispatch.compiler.kernel_ir.readers import attribute
from pydispatch.compiler.kernels.ops.builder import Builder, Index, load
from pydispatch.compiler.kernels.ops.constants import WORKGROUP
from pydispatch.compiler.target.backend import require_backend
from pydispatch.ir.core.rewriting import erase_op, move_before
from pydispatch.ir.core.walk import walk
from pydispatch.ir.dialects.hal.dialect import ExecutableTargetAttr
from pydispatch.ir.dialects.pyd.subgroups import (
    COMBINERS,
    OPERATIONS,
    SUBGROUP_SIZE,
    SubgroupReduceOp,
    SubgroupShuffleOp,
)

BLOCK_VALUES = 8
"""Values that are combined to one partial result. A larger number makes fewer iterations of the loop over blocks, and
fewer partial results for each invocation to combine."""

PARTIALS_PER_SUBGROUP = SUBGROUP_SIZE // BLOCK_VALUES
"""Number of partial results of a subgroup: each combines the values of `BLOCK_VALUES` of its invocations."""

_ALIGNMENT_BYTES = 64
"""Alignment of the partial results: a cache line."""


def lower_subgroups(module: ModuleOp, target: ExecutableTargetAttr) -> None:
    """Rewrite operations on subgroups in place to loads from workgroup memory where instructions cannot be used.

    Instructions cannot be used if the target has none for subgroups of `SUBGROUP_SIZE` invocations, if a subgroup may
    have fewer invocations, or if the values cannot be in registers of their invocations.
    """
    for function in module.body.block.ops:
        if not isinstance(function, FuncOp):
            continue
        ops = [op for op in walk(function) if isinstance(op, tuple(OPERATIONS))]
        if not ops:
            continue
        has_instructions = require_backend(target).subgroup_size == SUBGROUP_SIZE
        for op in ops:
            if not has_instructions or not _fits_registers(op.operands[0], function):
                _lower(function, op)


def _lower(function: FuncOp, op: Operation) -> None:
    """Replace a subgroup operation by loads from its operand: an array in workgroup memory with a value per invocation.

    A shuffle loads the value that it selects; a reduction or ballot combines the loaded values.
    """
    build = Builder(Block(), source=op)
    if isinstance(op, SubgroupShuffleOp):
        value = build.add(memref.LoadOp.get(op.values, [op.source]))
    else:
        value = _Reduction(function, op).emit(build)
    move_before(build.block, op)
    op.results[0].replace_all_uses_with(value)
    erase_op(op)


class _Reduction:
    """Emitter of a reduction over subgroups, or of a ballot, by workgroup memory.

    A ballot returns an i32 whose bit k is the condition of invocation k of the subgroup. A loop combines each block of
    `BLOCK_VALUES` values to a partial result; then each invocation combines the `PARTIALS_PER_SUBGROUP` partial results
    of its subgroup.

    Args:
        function: The kernel.
        op: The reduction or ballot.
    """

    def __init__(self, function: FuncOp, op: Operation) -> None:
        """Read the array of values and the invocation's index in it from the operands of `op`."""
        self.function, self.op = function, op
        # Array in workgroup memory with the value of each invocation, and index of the own invocation in it.
        self.values, self.invocation = op.operands
        type_ = self.values.type
        assert isinstance(type_, MemRefType)
        (self.count,) = type_.get_shape()  # invocations of the workgroup
        self.blocks = -(-self.count // BLOCK_VALUES)  # number of partial results; the last may combine fewer values
        # Operation that combines two values, such as an addition; None for a ballot.
        self.combiner = COMBINERS[op.combiner.data] if isinstance(op, SubgroupReduceOp) else None

    def emit(self, build: Builder) -> SSAValue:
        """Emit the reduction with `build`, and return its result for the subgroup of the current invocation.

        A sum over subgroups of 32, of values v in workgroup memory, with one value for each of 64 invocations:

            parallel for block = 0 to 8: partials[block] = v[8 * block] + ... + v[8 * block + 7]
            parallel for invocation = 0 to 64:  // exists already, around the operation
                first = invocation / 32 * 4
                result = partials[first] + ... + partials[first + 3]

        The first loop is emitted before all parallel loops around the operation, so that its iterations are distributed
        over all invocations of the workgroup.
        """
        from pydispatch.compiler.kernel_ir.simt.own_rows import outermost_parallel

        # The partial results, by a loop before the parallel loops around the operation.
        partials = self._allocate(self.op.results[0].type)
        outermost_loop = outermost_parallel(self.op)  # the operation itself if there is none
        # `source` is the operation whose location the emitted code gets.
        before_loops = build if outermost_loop is self.op else Builder(Block(), source=outermost_loop)
        before_loops.parallel(0, self.blocks, lambda inner, block: self._emit_partial(inner, block, partials))
        if before_loops is not build:
            move_before(before_loops.block, outermost_loop)
        # Each invocation combines the partial results of its subgroup. The last subgroup may have fewer: those that
        # would follow the `end` of the array are left out.
        first = build.times(build.quotient(self.invocation, SUBGROUP_SIZE), PARTIALS_PER_SUBGROUP)
        ballot_bits = BLOCK_VALUES  # a partial result of a ballot has a bit for each value of its block
        return self._emit_combination(
            build, partials, first, end=self.blocks, count=PARTIALS_PER_SUBGROUP, ballot_bits=ballot_bits
        )

    def _emit_partial(self, build: Builder, block: Index, partials: SSAValue) -> None:
        """Emit the partial result of a block of `BLOCK_VALUES` values, and its store.

        In a ballot, each value is a condition, one bit, and the partial result has a bit for each value of the block.
        """
        first = build.times(block, BLOCK_VALUES)
        partial = self._emit_combination(build, self.values, first, end=self.count, count=BLOCK_VALUES, ballot_bits=1)
        build.add(memref.StoreOp.get(partial, partials, [build.value(block)]))

    def _emit_combination(
        self, build: Builder, array: SSAValue, first: Index, *, end: int, count: int, ballot_bits: int
    ) -> SSAValue:
        """Emit the combination of `count` elements of an array from `first` on, as a balanced tree, and return it.

        A sum of 4 elements is (e0 + e1) + (e2 + e3); if the array ends after e2, it is (e0 + e1) + e2. A ballot joins
        the bits of its elements: with `ballot_bits` of 8, those of element k become the bits 8 * k to 8 * k + 7 of the
        result.

        Args:
            build: Receives the code.
            array: The values of all invocations, or partial results of them, in workgroup memory.
            first: Index of the first element, a multiple of `count`, below `end`.
            end: Number of elements of the array. Indices from `end` on are left out.
            count: Number of elements to combine, a power of two.
            ballot_bits: For a ballot, the number of conditions that an element has as bits; else not used.
        """
        operands: list[tuple[SSAValue, SSAValue | bool]] = []  # of the tree, and whether the array has them
        is_complete = end % count == 0  # all of the `count` elements exist
        for k in range(count):
            index = build.plus(first, k)
            # Element 0 exists, as `first` is below `end`.
            exists = True if k == 0 or is_complete else build.less(index, end)
            existing_index = index if exists is True else build.least(index, end - 1)  # a load must be in bounds
            element = load(build, array, existing_index)
            operands.append((self._operand(build, element, shift=k * ballot_bits), exists))
        # Combine pairs of neighbours until one operand is left. If the left one of a pair does not exist, nor does the
        # right one: the array ends before both.
        while len(operands) > 1:
            pairs = zip(operands[::2], operands[1::2], strict=True)
            operands = [
                (self._combined(build, left, right, has_right), has_left)
                for (left, has_left), (right, has_right) in pairs
            ]
        (result, _exists) = operands[0]
        return result

    def _operand(self, build: Builder, element: SSAValue, shift: int) -> SSAValue:
        """Return an element of a reduction as it is, and of a ballot as an i32, shifted left by `shift` bits.

        An element of a ballot is one condition, or has one bit for each of several conditions.
        """
        is_ballot = self.combiner is None
        if not is_ballot:
            return element
        word = IntegerType(32)
        if element.type != word:
            element = build.pure(arith.ExtUIOp(element, word))
        return build.pure(arith.ShLIOp(element, build.pure(arith.ConstantOp(IntegerAttr(shift, word)))))

    def _combined(self, build: Builder, left: SSAValue, right: SSAValue, has_right: SSAValue | bool) -> SSAValue:
        """Emit the combination of two values, or `left` alone if there is no right one, and return it.

        `has_right` is an i1 if it is known only at run time whether there is a right one.
        """
        if has_right is False:
            return left
        both = build.pure((self.combiner or arith.OrIOp)(left, right))  # "or" joins the bits of a ballot
        return both if has_right is True else build.pure(arith.SelectOp(has_right, both, left))

    def _allocate(self, element: Attribute) -> SSAValue:
        """Allocate workgroup memory for the partial results, of type `element`, at the entry of the function."""
        type_ = MemRefType(element, [self.blocks], NoneAttr(), IntegerAttr(WORKGROUP, 64))
        alloc = memref.AllocOp([], [], type_, alignment=IntegerAttr(_ALIGNMENT_BYTES, 64))
        alloc.location = self.op.location
        entry = self.function.body.block
        assert entry.first_op is not None
        entry.insert_op_before(alloc, entry.first_op)
        return alloc.results[0]


def _fits_registers(values: SSAValue, function: FuncOp) -> bool:
    """Return whether each value can be in a register of its invocation, and all subgroups are full.

    `values` is an array in workgroup memory. Its values can be in registers if invocation i of `function` accesses
    value i alone, except by the subgroup operations, which instructions replace.
    """
    from pydispatch.compiler.kernel_ir.simt.own_rows import is_own_row  # few programs have operations on subgroups

    stated = attribute(function, "pyd.invocations")
    invocations = int(stated.value.data) if isinstance(stated, IntegerAttr) else 0  # 0 if they are not stated
    has_full_subgroups = invocations % SUBGROUP_SIZE == 0
    return has_full_subgroups and is_own_row(values, invocations, readers=OPERATIONS)
