"""Products of tiles on CPUs, register block by register block. A tile that only products read is not filled where the
part of the view that it is read from exists completely: products read the view."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from xdsl.dialects import arith, memref
from xdsl.dialects.builtin import IntegerAttr, MemRefType, NoneAttr, UnitAttr
from xdsl.ir import Operation, SSAValue

from pydispatch.compiler.kernel_ir.words import bit_width
from pydispatch.compiler.kernels.loops.transpose_blocks import SIDE
from pydispatch.compiler.kernels.matmul.cpu.tile_choice import TileRequest, choose_tiles
from pydispatch.compiler.kernels.matmul.cpu.tiles import Level
from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.compiler.kernels.ops.conditions import both
from pydispatch.compiler.kernels.ops.constants import WORKGROUP
from pydispatch.compiler.kernels.ops.tensors import zero_attribute
from pydispatch.compiler.kernels.tiles.parts import (
    TileView,
    branch,
    converted,
    element_of,
    emit_if,
    enclosing_function,
    part_of,
    put,
    shape_of,
)
from pydispatch.ir.dialects.pyd.contract import ContractOp
from pydispatch.ir.dialects.pyd.tiles import MatmulOp, ReadTileOp
from pydispatch.ir.dialects.pyd.transpose import TransposeOp

Reads = tuple[ReadTileOp | None, ReadTileOp | None]
"""The reads of A and of B that a product does itself, in place; None for a factor that it takes from its tile."""


def reads_for_products(ops: Sequence[Operation]) -> dict[Operation, Reads]:
    """Return, for each product, the reads of its factors A and B that can be left out; None for a factor that cannot.

    A product then reads the factor from the view itself, without a copy into the tile. The reads of a tile can be left
    out if only products use the tile, each of them directly after a read into it.

    `ops` are the reads and products of a function, in order.
    """
    products = [op for op in ops if isinstance(op, MatmulOp)]
    reads = {op: [_read_before(op, tile) for tile in (op.a, op.b)] for op in products}
    reads_in_place: dict[Operation, Reads] = {}
    for op in products:
        read_of_a, read_of_b = (
            read if read is not None and _is_for_products(tile, reads) else None
            for tile, read in zip((op.a, op.b), reads[op], strict=True)
        )
        reads_in_place[op] = read_of_a, read_of_b
    return reads_in_place


def _is_for_products(tile: SSAValue, reads: Mapping[MatmulOp, Sequence[ReadTileOp | None]]) -> bool:
    """Return whether products can read the elements of `tile` from memory instead, so that no copy into it is needed.

    They can if only reads write the tile, and each product that has the tile as A or B directly follows a read into it.

    `reads` has, for each product, the reads into its tiles A and B directly before it (`_read_before`); None for a tile
    without such a read.
    """
    for use in tile.uses:
        user = use.operation
        if isinstance(user, MatmulOp) and user.c is not tile:
            if reads[user][use.index] is None:  # operand 0 is A, 1 is B
                return False
        elif not isinstance(user, ReadTileOp):
            return False
    return True


def _read_before(op: Operation, tile: SSAValue) -> ReadTileOp | None:
    """Return the operation that reads from memory into `tile` directly before `op`; None if there is none.

    Only other reads, and arithmetic, may be between them: nothing that writes the tile or the view.
    """
    before = op.prev_op
    while before is not None:
        if isinstance(before, ReadTileOp):
            if before.tile is tile:
                return before
        elif not before.name.startswith("arith."):
            return None
        before = before.prev_op
    return None


def read(build: Builder, op: ReadTileOp) -> None:
    """Lower a `pyd.read_tile` to a copy of the part of the view into the tile."""
    _copy_part(build, part_of(op), op.tile)


def _copy_part(build: Builder, part: TileView, tile: SSAValue) -> None:
    """Emit a copy of a part of a view into `tile`, in the type of the tile. Elements beyond the view become zero.

    There are two copies, of which one is executed: without checks where all of the part is inside the view.
    """
    then, other = branch(build), branch(build)
    _copy_whole(then, part, tile)
    _copy_with_zeros(other, part, tile)
    emit_if(build, part.is_completely_inside(build, shape_of(tile)), then, other)


def _copy_whole(build: Builder, part: TileView, tile: SSAValue) -> None:
    """Emit the copy of a part that is completely inside its view into `tile`.

    A view is the memref that a program reads tiles from, a part the rows and columns of it for one tile. Transposed
    parts of the same type are copied in square blocks, each by a `pyd.transpose`, if rows of the view are contiguous.
    """
    rows, columns = shape_of(tile)
    has_contiguous_rows = part.layout.strides[1] == 1
    has_type_of_tile = element_of(part.value) == element_of(tile)
    if not (part.transposed and has_contiguous_rows and has_type_of_tile):
        _copy_elements(build, part, tile, low=(0, 0), high=(rows, columns))
        return
    op = build.source  # the operation that the copy is emitted for
    target, source = TileView(op, tile), TileView(op, part.value, first=part.first)  # `source` is not transposed
    for row in range(0, rows, SIDE):
        for column in range(0, columns, SIDE):
            height, width = min(SIDE, rows - row), min(SIDE, columns - column)
            # The source is the part before transposition: its rows are columns of the tile.
            source_block = source.view(build, row=column, column=row, sizes=(width, height))
            target_block = target.view(build, row=row, column=column, sizes=(height, width))
            build.add(TransposeOp(operands=[source_block, target_block]))


def _copy_with_zeros(build: Builder, part: TileView, tile: SSAValue) -> None:
    """Emit zeros to the whole tile, and then the copy of a part that may extend beyond its view.

    Only the elements inside the view are copied; the others stay zero.
    """
    shape = shape_of(tile)
    zero = build.pure(arith.ConstantOp(zero_attribute(element_of(tile))))
    _for_each_element(build, (0, 0), shape, lambda b, row, column: put(b, zero, tile, row, column))
    (first_row, end_row), (first_column, end_column) = (
        part.existing_range(build, dim, size) for dim, size in enumerate(shape)
    )
    _copy_elements(build, part, tile, low=(first_row, first_column), high=(end_row, end_column))


def _copy_elements(
    build: Builder, part: TileView, tile: SSAValue, low: tuple[Index, Index], high: tuple[Index, Index]
) -> None:
    """Emit the copy of the elements from `low` to before `high`, given as (row, column), of a part of a view to a tile.

    Elements are loaded, converted to the type of the tile, and stored one by one.
    """

    def copy_element(builder: Builder, row: Index, column: Index) -> None:
        """Copy the element at a row and column."""
        value = builder.add(memref.LoadOp.get(part.value, part.indices_of(builder, row, column)))
        put(builder, converted(builder, value, element_of(tile)), tile, row, column)

    _for_each_element(build, low, high, copy_element)


def _for_each_element(
    build: Builder, low: tuple[Index, Index], high: tuple[Index, Index], body: Callable[[Builder, Index, Index], None]
) -> None:
    """Emit parallel loops over the rows and columns from `low` to before `high`, given as (row, column).

    `body` emits an iteration from a builder, the row and the column.
    """
    build.parallel(
        low[0], high[0], lambda b, row: b.parallel(low[1], high[1], lambda inner, column: body(inner, row, column))
    )


def multiply(build: Builder, op: MatmulOp, level: Level, reads: Reads) -> None:
    """Lower a `pyd.matmul` (C += A·B) to register blocks.

    A factor is a tile, which a `pyd.read_tile` has filled from a part of a view, or that part itself if the read was
    left out. At an edge, the part may reach beyond the view, where a tile has zeros.

    Args:
        build: Receives the code.
        op: The product.
        level: Vector registers, caches and instructions of the CPU.
        reads: The reads of A and B that were left out, so that the product reads the views; None for a factor whose
            tile is filled.
    """
    steps: Index = shape_of(op.a)[1]
    parts = [None if source is None else part_of(source) for source in reads]
    # For each factor, the step of K at which its view ends; None for a tile, and if the view has all steps.
    ends = [_end_of_steps(build, part, index, shape_of(op.a)[1]) for index, part in enumerate(parts)]
    if ends[0] is not None and ends[0] == ends[1]:  # the steps after the common end add zeros, and are left out
        steps, ends = ends[0], [None, None]
    # A factor that ends alone is copied, and padded with zeros. The steps after its end cannot be left out: the other
    # factor may have infinities there, whose products with zero are NaN.
    lhs, rhs = (
        _converted_factor(build, op, tile, index)
        if part is None
        else _in_place_or_copied(build, op, part, tile, index, needs_all_steps=ends[index] is not None)
        for index, (tile, part) in enumerate(zip((op.a, op.b), parts, strict=True))
    )
    _emit_register_blocks(build, lhs, rhs, c=TileView(op, op.c), sizes=(*shape_of(op.c), steps), level=level)


def _end_of_steps(build: Builder, part: TileView | None, index: int, steps: int) -> Index | None:
    """Return how many of the `steps` of K a factor has before the end of its view; None if it is known to have all.

    `part` is the part of a view that is the factor A (`index` 0) or B (1); None for a factor that is a tile.
    """
    k_dim = 1 - index  # the columns of A, the rows of B
    if part is None or part.is_known_inside(k_dim, steps):
        return None
    _begin, end = part.existing_range(build, k_dim, steps)  # a part that begins before its view is copied
    return end


def _converted_factor(build: Builder, op: MatmulOp, tile: SSAValue, index: int) -> TileView:
    """Return a factor of a product in the type of C: the tile, or a converted copy of it.

    `index` is 0 for the factor A, 1 for B.
    """
    if element_of(tile) == element_of(op.c):
        return TileView(op, tile)
    memory = _factor_memory(op, tile, index)
    _copy_whole(build, TileView(op, tile), memory)
    return TileView(op, memory)


def _in_place_or_copied(
    build: Builder, op: MatmulOp, part: TileView, tile: SSAValue, index: int, needs_all_steps: bool
) -> TileView:
    """Return a factor that is a part of a view: the part itself if it can be multiplied in place, else a copy.

    For a product in place, all rows of A or columns of B must be inside the view. The elements must have the type of C,
    rows of the view must be contiguous, and B must not be transposed. A copy is padded with zeros. If it is only known
    at run time whether the part is inside, a branch selects the part or a copy.

    Args:
        build: Receives the code.
        op: The product.
        part: The part of the view.
        tile: The tile of the program for it, which is the memory of the copy if it has the type of C.
        index: 0 for A, 1 for B.
        needs_all_steps: Whether all steps of K must be inside the view, too. Otherwise `multiply` ends the steps at the
            view's end.
    """
    # A copy, since a register block cannot read the elements where they are.
    memory = _factor_memory(op, tile, index)
    is_b_transposed = part.transposed and index == 1
    is_strided = part.layout.strides[1] != 1
    if element_of(part.value) != element_of(memory) or is_b_transposed or is_strided:
        _copy_part(build, part, memory)  # converts elements, and pads only where the part is not completely inside
        return TileView(op, memory)
    # The part itself if it is inside of the view.
    shape = shape_of(tile)
    exists = part.is_inside(build, index, shape[index])  # the rows of A, the columns of B
    if needs_all_steps:
        exists = both(build, exists, part.is_inside(build, 1 - index, shape[1 - index]))
    if exists is True:
        return part
    if exists is False:
        _copy_with_zeros(build, part, memory)
        return TileView(op, memory)
    then, other = branch(build), branch(build)
    _copy_with_zeros(other, part, memory)
    return part.or_copy(build, exists, then, other, TileView(op, memory))


def _factor_memory(op: MatmulOp, tile: SSAValue, index: int) -> SSAValue:
    """Return memory of the element type of C for a copy of a factor. `index` is 0 for the factor A, 1 for B.

    It is `tile` itself if the tile has this type. Otherwise it is a workgroup buffer, which is allocated at the start
    of the function. The factors A of all products of the function share one buffer of each shape, and so do their
    factors B.
    """
    type_ = element_of(op.c)
    if element_of(tile) == type_:
        return tile
    entry = enclosing_function(op).body.block
    wanted = MemRefType(type_, list(shape_of(tile)), NoneAttr(), IntegerAttr(WORKGROUP, 64))
    name = f"factor{index}"  # by which other products of the function recognize the buffer
    buffers = (known.results[0] for known in entry.ops if isinstance(known, memref.AllocOp))
    buffer = next((known for known in buffers if known.type == wanted and known.name_hint == name), None)
    if buffer is not None:
        return buffer
    alloc = memref.AllocOp([], [], wanted, alignment=IntegerAttr(64, 64))
    alloc.results[0].name_hint = name
    alloc.location = op.location
    assert entry.first_op is not None
    entry.insert_op_before(alloc, entry.first_op)
    return alloc.results[0]


def _emit_register_blocks(
    build: Builder, lhs: TileView, rhs: TileView, c: TileView, sizes: tuple[int, int, Index], level: Level
) -> None:
    """Emit the register blocks of a product, panel by panel.

    A panel is the columns of B that a register block has, here `tiles.nr`. It stays in the first-level cache while all
    blocks of rows use it. With register blocks of 6 x 16, a C of 32 x 40 has panels of 16, 16 and 8 columns, each with
    five blocks of 6 rows and one of 2.

    Args:
        build: Receives the code.
        lhs: The factor A.
        rhs: The factor B.
        c: The tile C, to which the product is added.
        sizes: Rows of C, columns of C, and steps of K.
        level: Vector registers, caches and instructions of the CPU.
    """
    rows, columns, steps = sizes
    element_bytes = (bit_width(element_of(c.value)) or 32) // 8
    # One contraction of dimensions M, N and K alone. Blocks must not reach beyond the columns of C.
    tiles = choose_tiles(level, TileRequest(element_bytes, m=rows, n=columns, k=None, pads_columns=False))
    blocks = _RegisterBlocks(lhs=lhs, rhs=rhs, c=c, rows=rows, steps=steps, height=tiles.mr)

    remaining_columns = columns % tiles.nr
    end_of_whole_panels = columns - remaining_columns
    build.sequential(0, end_of_whole_panels, partial(blocks.emit_panel, width=tiles.nr), step=tiles.nr)
    if remaining_columns:
        blocks.emit_panel(build, end_of_whole_panels, remaining_columns)


@dataclass(frozen=True)
class _RegisterBlocks:
    """Emitter of the register blocks of a product of tiles: C += A·B.

    Attributes:
        lhs, rhs: The factors A and B.
        c: The tile C.
        rows: Rows of C.
        steps: Steps of K.
        height: Rows of a block.
    """

    lhs: TileView
    rhs: TileView
    c: TileView
    rows: int
    steps: Index
    height: int

    def emit_panel(self, build: Builder, column: Index, width: int) -> None:
        """Emit the register blocks of `width` columns from `column` on: whole ones, and one with the remaining rows."""
        remaining_rows = self.rows % self.height
        end_of_whole_blocks = self.rows - remaining_rows

        emit_whole_block = partial(self._emit_block, column=column, height=self.height, width=width)
        build.sequential(0, end_of_whole_blocks, emit_whole_block, step=self.height)
        if remaining_rows:
            self._emit_block(build, end_of_whole_blocks, column, remaining_rows, width)

    def _emit_block(self, build: Builder, row: Index, column: Index, height: int, width: int) -> None:
        """Emit the product of the register block of C at a row and column, with this height and width."""
        operands = [
            self.lhs.view(build, row, column=0, sizes=(height, self.steps)),
            self.rhs.view(build, row=0, column=column, sizes=(self.steps, width)),
            self.c.view(build, row, column, sizes=(height, width)),
        ]
        build.add(ContractOp(operands=operands, properties={"accumulate": UnitAttr()}))
