"""Products of tiles by groups of 32 invocations (`pyd.mma`): tensor cores, and fused multiply-adds from registers. Sums
that a loop adds up stay in registers all the while."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from xdsl.dialects import memref, scf
from xdsl.dialects.builtin import BFloat16Type, Float16Type, IntegerAttr, StringAttr, i64
from xdsl.ir import Attribute, Block, Operation, OpResult, SSAValue

from pydispatch.compiler.kernel_ir.words import bit_width
from pydispatch.compiler.kernels.matmul.gpu.memory import ACCESS_BYTES, PRIVATE, storage
from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.compiler.kernels.tiles.parts import TileView, element_of, enclosing_function, put, shape_of
from pydispatch.ir.core.rewriting import move_before
from pydispatch.ir.dialects.pyd.mma import LANES, MmaOp, adjacent_elements_of, lane_layout
from pydispatch.ir.dialects.pyd.tiles import MatmulOp

MOST_SUMS = 128
"""Sums that an invocation may have in registers; more would be spilled to memory."""
FIRST_GENERATIONS = ((Float16Type, 75), (BFloat16Type, 80))
"""(type, first compute capability whose tensor cores multiply it, as 75 for 7.5)."""


def multiply(build: Builder, op: MatmulOp, invocations: int, generation: int) -> bool:
    """Lower a `pyd.matmul` (C += A·B) to `pyd.mma` on blocks, one for each 32 invocations, and return True.

    Return False, and emit nothing, if `pyd.mma` does not fit the product.

    Products of f16 or bf16 need tensor cores, which a recent enough GPU has, and steps in multiples of 16. Other types
    are multiplied by fused multiply-adds, and need equal types of A and C. Tiles must be allocations, with rows that
    are multiples of 16 bytes, and C must divide into blocks.

    Args:
        build: Receives the code.
        op: The product.
        invocations: Number of invocations of a workgroup.
        generation: Compute capability of the GPU, as 75 for 7.5.
    """
    (rows, steps), columns = shape_of(op.a), shape_of(op.b)[1]
    bits = bit_width(element_of(op.a)) or 64  # an index has 64 bits
    # Rows of A and B are loaded in whole accesses of `ACCESS_BYTES`.
    has_whole_accesses = all(size * bits % (ACCESS_BYTES * 8) == 0 for size in (steps, columns))
    form_and_block = _form_and_smallest_block(op, generation)
    if form_and_block is None or not has_whole_accesses:
        return False
    form, smallest_block = form_and_block
    grid = _grid_of_blocks(rows, columns, smallest_block, invocations)
    allocations = [_allocation(tile) for tile in (op.a, op.b, op.c)]
    if grid is None or None in allocations:
        return False
    # The product can be lowered: the tiles must be aligned for loads of `ACCESS_BYTES`.
    for allocation in allocations:
        assert allocation is not None
        allocation.properties["alignment"] = IntegerAttr(max(ACCESS_BYTES, _alignment(allocation)), i64)
    _ProductEmitter(op, form, grid, invocations).run(build)
    return True


def _form_and_smallest_block(op: MatmulOp, generation: int) -> tuple[str, tuple[int, int]] | None:
    """Return the instructions of a product, "tensor" or "fma", and the smallest block of C for them; None for none.

    The block, (rows, columns), is what 32 invocations compute together.
    """
    element_type, sum_type = element_of(op.a), element_of(op.c)
    for type_, first_generation in FIRST_GENERATIONS:
        if isinstance(element_type, type_):
            steps = shape_of(op.a)[1]
            return ("tensor", (16, 16)) if generation >= first_generation and steps % 16 == 0 else None
    if element_type != sum_type:
        return None
    side = adjacent_elements_of(bit_width(sum_type) or 64)  # 4 x 8 lanes compute side x side adjacent elements each
    return "fma", (4 * side, 8 * side)


def _grid_of_blocks(
    rows: int, columns: int, smallest_block: tuple[int, int], invocations: int
) -> tuple[int, int] | None:
    """Return (rows, columns) of the grid of blocks of a tile, one block for each 32 invocations.

    The blocks are as square as possible. Return None if no grid has blocks that are multiples of `smallest_block`, or
    if an invocation had more than `MOST_SUMS` sums.

    A tile of 64 x 128 with 256 invocations and smallest blocks of 16 x 16 has 8 blocks, in a grid of (1, 8), (2, 4) or
    (4, 2): the blocks have 64 x 16, 32 x 32 or 16 x 64 elements. (2, 4) is returned.

    Args:
        rows: Rows of the tile C.
        columns: Columns of C.
        smallest_block: (rows, columns) of the smallest block of C that one `pyd.mma` computes.
        invocations: Number of invocations of a workgroup.
    """
    if invocations % LANES or rows * columns > MOST_SUMS * invocations:
        return None
    block_count = invocations // LANES
    least_rows, least_columns = smallest_block
    grids = [(down, block_count // down) for down in range(1, block_count + 1) if block_count % down == 0]
    fitting = [
        (down, across)
        for down, across in grids
        if rows % (down * least_rows) == 0 and columns % (across * least_columns) == 0
    ]
    # The half perimeter of a block is the number of elements of A and B that it loads for each step of K.
    return min(fitting, key=lambda grid: rows // grid[0] + columns // grid[1], default=None)


def _allocation(value: SSAValue) -> memref.AllocOp | None:
    """Return the operation that allocates a tile, or that allocates the array of tiles that the tile is a view of.

    Return None for any other tile.
    """
    if isinstance(value, OpResult) and isinstance(value.op, memref.ReinterpretCastOp):
        value = value.op.source
    return value.op if isinstance(value, OpResult) and isinstance(value.op, memref.AllocOp) else None


def _alignment(op: memref.AllocOp) -> int:
    """Return the alignment that an allocation asks for, in bytes; 1 where it asks for none."""
    stated = op.properties.get("alignment")
    return int(stated.value.data) if isinstance(stated, IntegerAttr) else 1


class _ProductEmitter:
    """Emitter of one product on tensor cores or with fused multiply-adds; sums are in private memory (registers).

    Args:
        op: The product.
        form: "tensor" or "fma": which instructions `pyd.mma` becomes.
        grid: Rows and columns of the grid of blocks of C; 32 invocations, the lanes, compute each block.
        invocations: Number of invocations of a workgroup.
    """

    def __init__(self, op: MatmulOp, form: str, grid: tuple[int, int], invocations: int) -> None:
        """Choose the layout of the sums, and allocate them in private memory at the beginning of the function.

        `form` is "tensor" for tensor cores or "fma" for fused multiply-adds. For a C of 64 x 64, 128 invocations and a
        grid of (2, 2) blocks, blocks have 32 x 32 elements. Each of the 32 invocations (lanes) of a block has the sums
        of 32 elements, whose positions in the block are those of `self.layout`.
        """
        (rows, self.steps), columns = shape_of(op.a), shape_of(op.b)[1]
        self.op, self.form, self.invocations = op, form, invocations
        grid_rows, self.grid_columns = grid
        self.block_rows, self.block_columns = rows // grid_rows, columns // self.grid_columns
        sum_type: Attribute = element_of(op.c)
        adjacent_elements = adjacent_elements_of(bit_width(sum_type) or 64)  # of a lane; an index has 64 bits
        self.layout = lane_layout(form, self.block_rows, self.block_columns, adjacent_elements)
        # Allocate the sums in a block of its own, and then move the allocation to the start of the function.
        build = Builder(Block(), source=op)
        self.sums = storage(build, sum_type, rows * columns // invocations, PRIVATE)
        first_op = enclosing_function(op).body.block.first_op
        assert first_op is not None
        move_before(build.block, first_op)

    def run(self, build: Builder) -> None:
        """Emit the product with `build`, with its sums in private memory.

        C is loaded before the product and stored after it. If a loop adds up C, this is done outside of the loop:

            load the sums from C
            for k: pyd.mma on the tiles of A and B in iteration k
            store the sums to C
        """
        loop = self._accumulating_loop()
        if loop is None:
            self._emit_per_invocation(build, self._load_sums)
            self._emit_per_invocation(build, self._multiply)
            self._emit_per_invocation(build, self._store_sums)
            return
        # The product is emitted in the loop, where `op` is. The loads and stores are emitted into blocks of their own,
        # and then moved to before and after the loop.
        self._emit_per_invocation(build, self._multiply)
        op_after_loop = loop.next_op  # there is one: at least the terminator of the block
        assert op_after_loop is not None
        for body, op_after in ((self._load_sums, loop), (self._store_sums, op_after_loop)):
            outside = Builder(Block(), source=self.op)
            self._emit_per_invocation(outside, body)
            move_before(outside.block, op_after)

    def _accumulating_loop(self) -> scf.ForOp | None:
        """Return the loop directly around this product if no other operation in it uses C, else None.

        The sums can then stay in registers over all iterations.
        """
        loop = self.op.parent_op()
        if not isinstance(loop, scf.ForOp):
            return None
        for use in self.op.c.uses:
            enclosing: Operation | None = use.operation
            while enclosing is not None and enclosing is not loop:
                enclosing = enclosing.parent_op()
            if enclosing is loop and use.operation is not self.op:
                return None
        return loop

    def _emit_per_invocation(self, build: Builder, body: Callable[[Builder, Index], None]) -> None:
        """Emit a parallel loop over the invocations of the workgroup.

        `body` emits the code of one invocation, from a builder and the invocation's number.
        """
        build.parallel(0, self.invocations, body)

    def _lane_and_block(self, build: Builder, invocation: Index) -> tuple[Index, Index, Index]:
        """Return (lane, row, column): an invocation's number among the 32 of its block, and the block's position in C.

        Blocks are numbered row by row: invocation 70 is lane 6 of block 2.
        """
        lane, block = build.remainder(invocation, LANES), build.quotient(invocation, LANES)
        row = build.times(build.quotient(block, self.grid_columns), self.block_rows)
        return lane, row, build.times(build.remainder(block, self.grid_columns), self.block_columns)

    def _sum_positions(self, build: Builder, invocation: Index) -> Iterator[tuple[SSAValue, Index, Index]]:
        """Yield (index, row, column) of each sum of an invocation: its index in private memory, and its position in C.

        The lanes of a block are a grid with rows of `layout.across` lanes: with 8 lanes across, lane 11 is in row 1 and
        column 3. Its first sum is at row 1 * `row_step` and column 3 * `column_step` of the block. `layout.rows` and
        `layout.columns` are the positions of all its sums relative to the first one.
        """
        lane, block_row, block_column = self._lane_and_block(build, invocation)
        layout = self.layout
        row = build.plus(block_row, build.times(build.quotient(lane, layout.across), layout.row_step))
        column = build.plus(block_column, build.times(build.remainder(lane, layout.across), layout.column_step))
        for index, (row_offset, column_offset) in enumerate(zip(layout.rows, layout.columns, strict=True)):
            yield build.index(index), build.plus(row, row_offset), build.plus(column, column_offset)

    def _load_sums(self, build: Builder, invocation: Index) -> None:
        """Emit loads of the sums of an invocation from the tile C into its private memory."""
        for index, row, column in self._sum_positions(build, invocation):
            value = build.add(memref.LoadOp.get(self.op.c, [build.value(row), build.value(column)]))
            build.add(memref.StoreOp.get(value, self.sums, [index]))

    def _store_sums(self, build: Builder, invocation: Index) -> None:
        """Emit stores of the sums of an invocation from its private memory to the tile C."""
        for index, row, column in self._sum_positions(build, invocation):
            put(build, build.add(memref.LoadOp.get(self.sums, [index])), self.op.c, row, column)

    def _multiply(self, build: Builder, invocation: Index) -> None:
        """Emit the product of one block, which the 32 invocations of the block compute together."""
        lane, row, column = self._lane_and_block(build, invocation)
        left = TileView(self.op, self.op.a).view(build, row, column=0, sizes=(self.block_rows, self.steps))
        right = TileView(self.op, self.op.b).view(build, row=0, column=column, sizes=(self.steps, self.block_columns))
        operands = [build.value(lane), left, right, self.sums]
        build.add(MmaOp(operands=operands, properties={"form": StringAttr(self.form)}))
