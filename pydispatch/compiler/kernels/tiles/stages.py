"""Loops over tiles with several stages: tiles of later iterations are copied while one is used (CUDA, from sm_80 on).

A tile that the loop reads from a view gets memory for `stages` tiles. In iteration i, copies of the tile of iteration
i + stages - 1 begin, and those of the tile of iteration i are waited for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, memref, scf
from xdsl.dialects.builtin import IntegerAttr, NoneAttr, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue, Use

from pydispatch.compiler.kernel_ir.hazards import accesses_of, base_of
from pydispatch.compiler.kernel_ir.words import bit_width
from pydispatch.compiler.kernels.loops.transpose_blocks import view_as
from pydispatch.compiler.kernels.matmul.gpu.memory import storage
from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.compiler.kernels.ops.conditions import both
from pydispatch.compiler.kernels.ops.constants import WORKGROUP
from pydispatch.compiler.kernels.tiles.parts import (
    TileView,
    branch,
    element_of,
    emit_if,
    memref_type,
    part_of,
    shape_of,
)
from pydispatch.ir.core.rewriting import erase_op, move_before
from pydispatch.ir.core.walk import walk
from pydispatch.ir.dialects.pyd.async_copies import CommitCopiesOp, CopyAsyncOp
from pydispatch.ir.dialects.pyd.tiles import MatmulOp, ReadTileOp
from pydispatch.ir.op_info import info_of

STAGES = "pyd.stages"
"""Attribute of a loop: the number of stages that the user requests."""
FIRST_GENERATION = 80
"""Compute capability from which on GPUs copy asynchronously, as 80 for 8.0."""
COPIED_BYTES = (16, 8, 4)
"""Bytes that one copy may have, widest first."""


@dataclass(frozen=True)
class _Read:
    """Read of a tile whose copies are asynchronous.

    Attributes:
        op: The read, directly in the loop.
        uses: The uses of the tile until the next read into the same memory.
        tiles: Memory for one tile of each stage, [stages * rows * columns].
        run: Number of elements that one asynchronous copy moves: neighbours in a row of the tile and of the view.
    """

    op: ReadTileOp
    uses: list[Use]
    tiles: SSAValue
    run: int


def stage_loops(function: FuncOp, invocations: int, generation: int | None) -> None:
    """Divide the loops of a function for which the user requests stages, if the GPU copies asynchronously.

    Args:
        function: The kernel, which is changed in place.
        invocations: Number of invocations of a workgroup.
        generation: Compute capability of the GPU, as 80 for 8.0; None for other devices.
    """
    if generation is None or generation < FIRST_GENERATION:
        return
    for op in list(walk(function)):
        stages = op.attributes.get(STAGES)
        if isinstance(op, scf.ForOp) and isinstance(stages, IntegerAttr) and stages.value.data > 1:
            _divide_into_stages(op, stages.value.data, invocations)


def _divide_into_stages(loop: scf.ForOp, stages: int, invocations: int) -> None:
    """Divide a loop into stages: each iteration begins to copy the tiles that a later one reads.

    With three stages, the loop

        for i = 0 to n:
            pyd.read_tile %view[i * 16, 0], %tile
            pyd.matmul %tile, %b, %c

    becomes

        begin to copy tiles 0 and 1 into slots 0 and 1 of %tiles
        for i = 0 to n:
            begin to copy tile i + 2, if there is one, into slot (i + 2) mod 3
            wait for all copies but those of tiles i + 1 and i + 2
            pyd.matmul <slot i mod 3 of %tiles>, %b, %c

    Tiles that cannot be copied asynchronously are read in their own iteration. Barriers between the copies and the
    operations that read the tiles are inserted later, as for other accesses to workgroup memory.

    Args:
        loop: The loop, which is changed in place.
        stages: Number of tiles in memory for each read, at least 2.
        invocations: Number of invocations of a workgroup.
    """
    # The reads whose copies can be asynchronous, each with memory for its tile in every stage.
    runs = {op: _elements_per_copy(loop, op) for op in loop.body.block.ops if isinstance(op, ReadTileOp)}
    reads = [
        _Read(op, uses, _memory_for(op, stages), run)
        for op, run in runs.items()
        if run is not None and (uses := _uses_before_next_read(loop, op)) is not None
    ]
    if not reads:
        return
    _begin_first_copies(loop, reads, stages, invocations)
    _begin_copies_ahead(loop, reads, stages, invocations)
    _erase_reads(reads)


def _erase_reads(reads: Sequence[_Read]) -> None:
    """Erase reads that copies replace, and the memory of tiles that no other read uses."""
    for read in reads:
        allocation = read.op.tile.owner
        assert isinstance(allocation, memref.AllocOp)
        erase_op(read.op)
        if allocation.results[0].first_use is None:
            erase_op(allocation)


def _begin_first_copies(loop: scf.ForOp, reads: Sequence[_Read], stages: int, invocations: int) -> None:
    """Insert, before the loop, copies of the tiles of the first stages - 1 iterations, one group for each iteration."""
    build = Builder(Block(), source=loop)
    for iteration in range(stages - 1):
        variable = build.plus(loop.lb, build.times(loop.step, iteration))
        _begin_copies(build, loop, reads, variable, slot=iteration)
        # This ends the group of the iteration, and waits for none: there are at most stages - 1 groups so far.
        _commit(build, invocations, pending=stages)
    move_before(build.block, loop)


def _begin_copies_ahead(loop: scf.ForOp, reads: Sequence[_Read], stages: int, invocations: int) -> None:
    """Let each iteration begin the copies of a later one, wait for its own copies, and use the tiles that they wrote.

    The copies for the iteration stages - 1 later are inserted before the first read. The copies of all reads of one
    iteration are a group, for which an invocation can wait. Uses of a tile then read one of the `stages` slots of its
    read.

    With three stages, iteration 5 uses slot 5 mod 3 = 2. It begins to copy the tile of iteration 7 into slot
    7 mod 3 = 1, which iteration 4 was the last to use. It waits for all groups of copies but the last two, which are
    those of iterations 6 and 7.
    """
    variable, first_read = loop.body.block.args[0], reads[0].op
    build = Builder(Block(), source=first_read)
    # Names with `_ahead` belong to the iteration that is stages - 1 later than this one.
    iteration = build.quotient(build.minus(variable, loop.lb), loop.step)
    slot, slot_ahead = (build.remainder(build.plus(iteration, count), stages) for count in (0, stages - 1))
    variable_ahead = build.plus(variable, build.times(loop.step, stages - 1))
    _begin_copies(build, loop, reads, variable_ahead, slot_ahead)
    # Waits for the copies of this iteration: all groups but the last stages - 1, which are those of later iterations.
    _commit(build, invocations, pending=stages - 1)
    # The uses of each tile read the slot of this iteration instead.
    for read in reads:
        rows, columns = shape_of(read.op.tile)
        tile_offset = build.times(slot, rows * columns)
        tile = view_as(build, read.tiles, tile_offset, sizes=(rows, columns), strides=[columns, 1])
        for use in read.uses:
            use.operation.operands[use.index] = tile
    move_before(build.block, first_read)


def _elements_per_copy(loop: scf.ForOp, op: ReadTileOp) -> int | None:
    """Return how many elements of a tile one asynchronous copy moves; None for a tile that cannot be copied so.

    A copy moves contiguous memory of one of the sizes COPIED_BYTES: 16, 8 or 4. It moves several elements if rows of
    the view are contiguous and the columns of the tile are a multiple of them; else it moves one element. A copy of f32
    moves 4, 2 or 1 elements. A copy of i8 moves 16, 8 or 4; a tile of i8 with 6 columns has no asynchronous copies.
    """
    bits = bit_width(element_of(op.tile)) or 0
    if bits not in (8, 16, 32, 64) or not _can_read_early(loop, op):
        return None
    part, (_, columns) = part_of(op), shape_of(op.tile)
    has_contiguous_rows = part.matrix_strides[1] == 1
    for copied_bytes in COPIED_BYTES:
        count = copied_bytes * 8 // bits  # 0 if an element is longer than the copy
        is_part_of_row = count > 1 and has_contiguous_rows and columns % count == 0
        if count == 1 or is_part_of_row:
            return count
    return None


def _can_read_early(loop: scf.ForOp, op: ReadTileOp) -> bool:
    """Return whether an earlier iteration of the loop may do the read `op` of a part of a view into a tile.

    The tile must be allocated by the kernel, because memory for several tiles replaces the allocation. The view must be
    in global memory, from which alone a GPU copies asynchronously, and the loop must not change it. The row and column
    of the part must be computable before their iteration.
    """
    is_tile_allocated = isinstance(op.tile.owner, memref.AllocOp)
    is_view_unchanged = _is_from_outside(loop, op.view) and not accesses_of(loop).writes & base_of(op.view)
    is_view_global = isinstance(memref_type(op.view).memory_space, NoneAttr)
    are_indices_computable = all(_is_computable_early(loop, index) for index in (op.row, op.column))
    return is_tile_allocated and is_view_unchanged and is_view_global and are_indices_computable


def _uses_before_next_read(loop: scf.ForOp, op: ReadTileOp) -> list[Use] | None:
    """Return the uses of a tile between its read `op` and the next read into the same memory.

    These are the uses that load the elements that `op` has read, here the first product alone:

        pyd.read_tile %view[%i, 0], %tile     // op
        pyd.matmul %tile, %b, %c
        pyd.read_tile %other[%i, 0], %tile
        pyd.matmul %tile, %b, %d

    Return None if a use may load elements that no read of the same iteration has written: if the tile is used outside
    of the loop or before the first read in it, or if operations other than reads directly in the loop write it.
    """
    block = loop.body.block
    positions = {op_in_loop: position for position, op_in_loop in enumerate(block.ops)}
    loads: list[tuple[int, Use]] = []  # uses that load elements, each after its position in the loop's body
    reads: list[int] = []  # positions of the `pyd.read_tile` that write the tile
    for use in op.tile.uses:
        user = use.operation
        op_in_loop = block.find_ancestor_op_in_block(user)  # the user, or the nested loop or branch that contains it
        loads_tile = isinstance(user, memref.LoadOp) or (isinstance(user, MatmulOp) and user.c is not op.tile)
        is_read_in_loop = isinstance(user, ReadTileOp) and user is op_in_loop
        if op_in_loop is None or not (loads_tile or is_read_in_loop):
            return None
        if loads_tile:
            loads.append((positions[op_in_loop], use))
        else:
            reads.append(positions[op_in_loop])
    begin = positions[op]
    end = min((position for position in reads if position > begin), default=len(positions))
    loads_earlier_iteration = any(position < min(reads) for position, _ in loads)
    if loads_earlier_iteration:
        return None
    return [use for position, use in loads if begin < position < end]


def _is_from_outside(loop: scf.ForOp, value: SSAValue) -> bool:
    """Return whether a value is defined outside of a loop."""
    return not loop.is_ancestor(value.owner)


def _is_computable_early(loop: scf.ForOp, value: SSAValue) -> bool:
    """Return whether the value of a later iteration can be computed in an earlier one.

    It can if pure operations compute it from the variable of the loop and from values from before the loop.
    """
    loop_variable = loop.body.block.args[0]
    if value is loop_variable or _is_from_outside(loop, value):
        return True
    op = value.owner
    if not isinstance(op, Operation):  # carried from one iteration to the next
        return False
    if not info_of(op).is_pure or op.regions:
        return False
    return all(_is_computable_early(loop, operand) for operand in op.operands)


def _value_in_iteration(build: Builder, loop: scf.ForOp, value: SSAValue, variable: Index) -> Index:
    """Emit the operations of a loop that compute `value`, with `variable` as the loop's variable; return the result."""
    if value is loop.body.block.args[0]:
        return variable
    if _is_from_outside(loop, value):
        return value
    op = value.owner
    assert isinstance(op, Operation), "`_is_computable_early` must have checked it"
    operands = [build.value(_value_in_iteration(build, loop, operand, variable)) for operand in op.operands]
    clone = op.clone(dict(zip(op.operands, operands, strict=True)))
    build.add(clone)
    return clone.results[op.results.index(value)]


def _memory_for(op: ReadTileOp, stages: int) -> SSAValue:
    """Allocate memory for `stages` tiles, at the allocation of the single tile that `op` reads into; return it."""
    rows, columns = shape_of(op.tile)
    build = Builder(Block(), source=op)
    tiles = storage(build, element_of(op.tile), stages * rows * columns, WORKGROUP)
    allocation = op.tile.owner
    assert isinstance(allocation, memref.AllocOp)
    move_before(build.block, allocation)
    return tiles


def _begin_copies(build: Builder, loop: scf.ForOp, reads: Sequence[_Read], variable: Index, slot: Index) -> None:
    """Emit the start of the copies of the tiles of one iteration. They copy nothing if the loop has no such iteration.

    Args:
        build: Receives the code.
        loop: The loop.
        reads: Its reads.
        variable: Value of the loop's variable in the iteration.
        slot: Index of the iteration's tile among the `stages` tiles of each read.
    """
    for read in reads:
        _begin_tile_copies(build, loop, read, variable, slot)


def _begin_tile_copies(build: Builder, loop: scf.ForOp, read: _Read, variable: Index, slot: Index) -> None:
    """Emit the start of the copies of the tile that `read` reads in one iteration into its slot of `read.tiles`.

    A run is the adjacent elements that one asynchronous copy moves. The runs are the iterations of a parallel loop,
    which the invocations share: a tile of 16 x 32 elements with runs of 4 has 128 runs.

    Args:
        build: Receives the code.
        loop: The loop.
        read: The read.
        variable: Value of the loop's variable in the iteration. If it is beyond the loop's end, nothing is copied.
        slot: Index of the iteration's tile in `read.tiles`, which has one for each stage.
    """
    op, run, (rows, columns) = read.op, read.run, shape_of(read.op.tile)
    # Row and column of the tile in the view, as the loop computes them in that iteration.
    first = (_value_in_iteration(build, loop, op.row, variable), _value_in_iteration(build, loop, op.column, variable))
    # `turned` marks a read that exchanges rows and columns: the tile is the transposed part of the view.
    part = TileView(op, op.view, first=first, transposed=op.turned is not None)
    tile_offset = build.times(slot, rows * columns)  # of the tile in `read.tiles`

    def copy_run(builder: Builder, run_index: Index) -> None:
        """Emit the start of the copy of one run of the tile."""
        row, run_in_row = part.split(builder, run_index, shape=(rows, columns // run))
        column = builder.times(run_in_row, run)
        run_offset = builder.plus(tile_offset, builder.plus(builder.times(row, columns), column))
        # The last iterations of the loop begin copies for iterations that do not exist: these copy nothing.
        has_iteration = builder.less(variable, loop.ub)
        builder.when(has_iteration, lambda inner: _copy_run(inner, read, part, (row, column), run_offset))

    build.parallel(0, rows * columns // run, copy_run)


def _copy_run(build: Builder, read: _Read, part: TileView, position: tuple[Index, Index], run_offset: Index) -> None:
    """Emit the copy of a run: asynchronously if it is inside of the view and aligned, else by loads and stores.

    A run is the `read.run` elements that one asynchronous copy moves, neighbours in a row of the tile.

    Args:
        build: Receives the code.
        read: The read of the tile.
        part: The part of the view for the tile.
        position: Row and column of the run's first element in the tile.
        run_offset: Offset of the run's first element in `read.tiles`.
    """
    (row, column), run = position, read.run
    asynchronous, by_elements = branch(build), branch(build)
    source = part.view(asynchronous, row, column, sizes=(1, run))
    target = view_as(asynchronous, read.tiles, run_offset, sizes=[1, run], strides=[run, 1])
    asynchronous.add(CopyAsyncOp(operands=[source, target]))

    def copy_element(inner: Builder, element: Index) -> None:
        """Emit the copy of element number `element` of the run; it is 0 if it is outside of the view."""
        value = part.element(inner, row, inner.plus(column, element))
        inner.add(memref.StoreOp.get(value, read.tiles, [inner.value(inner.plus(run_offset, element))]))

    by_elements.sequential(0, run, copy_element)
    emit_if(build, _can_copy_asynchronously(build, part, row, column, run), asynchronous, by_elements)


def _can_copy_asynchronously(build: Builder, part: TileView, row: Index, column: Index, run: int) -> SSAValue | bool:
    """Return whether one asynchronous copy can move `run` elements from a row and column on: a bool if known, else i1.

    All of them must be inside of the view, and their address must be a multiple of their bytes.
    """
    condition: SSAValue | bool = _is_aligned(build, part, row, column, run)
    for element in {0, run - 1}:  # if the first and the last one are inside, so are those between them
        indices = part.indices_of(build, row, build.plus(column, element))
        for index, extent in zip(indices, part.layout.sizes, strict=True):
            # A negative index is a large unsigned one, for which "ult" is false, too.
            condition = both(build, condition, build.pure(arith.CmpiOp(index, build.value(extent), "ult")))
    return condition


def _is_aligned(build: Builder, part: TileView, row: Index, column: Index, run: int) -> SSAValue | bool:
    """Return whether the address of the `run` elements at a row and column is a multiple of their bytes.

    The result is True for a single element, whose address always is, else an i1.
    """
    if run == 1:
        return True
    element_bytes = (bit_width(element_of(part.value)) or 0) // 8  # copied elements have 8, 16, 32 or 64 bits
    indices = part.indices_of(build, row, column)
    offset = part.layout.offset
    for index, stride in zip(indices, part.layout.strides, strict=True):
        offset = build.plus(offset, build.times(index, stride))
    base = build.add(memref.ExtractAlignedPointerAsIndexOp.get(part.layout.storage))
    address = build.plus(base, build.times(offset, element_bytes))
    # The bytes of a copy are a power of 2, so that the remainder by them is a bitwise "and": 16 bytes -> address & 15.
    remainder = build.pure(arith.AndIOp(build.value(address), build.index(run * element_bytes - 1)))
    return build.pure(arith.CmpiOp(remainder, build.index(0), "eq"))


def _commit(build: Builder, invocations: int, pending: int) -> None:
    """Emit `cp.async.commit_group` and `cp.async.wait_group pending` for each invocation of a workgroup.

    The copies that an invocation began since its last group become a group. Then it waits for all of its groups but
    the last `pending` ones.
    """

    def commit(builder: Builder, _invocation: Index) -> None:
        """Emit the end of a group of copies and the wait of one invocation."""
        builder.add(CommitCopiesOp(properties={"pending": IntegerAttr(pending, i64)}))

    build.parallel(0, invocations, commit)
