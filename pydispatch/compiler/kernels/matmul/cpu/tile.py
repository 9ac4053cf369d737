"""Emission of the tile of a workgroup from its loop nest: packing, products of register blocks, and their outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from xdsl.ir import SSAValue

from pydispatch.compiler.kernels.loops.frame import Frame
from pydispatch.compiler.kernels.matmul.cpu.epilogue import Epilogue, transposed_height
from pydispatch.compiler.kernels.matmul.cpu.factor_sums import FactorSums
from pydispatch.compiler.kernels.matmul.cpu.nest import End, Nest, Region, Span
from pydispatch.compiler.kernels.matmul.cpu.operands import OperandView, view_a, view_b
from pydispatch.compiler.kernels.matmul.cpu.outputs import Output
from pydispatch.compiler.kernels.matmul.cpu.packing import Packing
from pydispatch.compiler.kernels.matmul.cpu.plan import Plan
from pydispatch.compiler.kernels.matmul.cpu.products import Products, emit_loop
from pydispatch.compiler.kernels.matmul.cpu.register_blocks import RegisterBlocks, TileParts
from pydispatch.compiler.kernels.matmul.cpu.statements import Batch, Blocks, Loop, Node, TileStep
from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.compiler.kernels.ops.generics import loop_sizes
from pydispatch.ir.dialects.pyd.tile_registers import ReleaseTilesOp, configure_tiles


def emit_workgroup(frame: Frame, build: Builder, plan: Plan, outputs: Sequence[Output], workgroup_id: SSAValue) -> None:
    """Emit the code of the workgroup `workgroup_id`: one tile of a contraction and the outputs computed from it."""
    nest = Nest.of(plan, loop_sizes(frame.elements, plan.contraction.generic))
    _emit_tile(frame, build, nest, nest.workgroup(build, workgroup_id), outputs)


@dataclass(frozen=True)
class ComputedRows:
    """Rows of a contraction's result that a workgroup computes, in all columns or those that masks show.

    Attributes:
        outer: Outer dimension -> its index.
        span: The rows.
        ends: Dimension, N or K -> the end of the indices that are computed, for a mask that hides the later ones. All
            indices of a dimension without an entry are computed.
    """

    outer: Mapping[int, Index]
    span: Span
    ends: Mapping[int, End]


def emit_rows(
    frame: Frame,
    build: Builder,
    plan: Plan,
    outputs: Sequence[Output],
    rows: ComputedRows,
    a: OperandView | None = None,
) -> None:
    """Emit the computation of the outputs for some rows: a loop over tiles along the columns.

    Args:
        frame: The kernel that is emitted, with its tensors and buffers.
        build: Receives the code.
        plan: The plan of the contraction.
        outputs: The values to compute.
        rows: The rows.
        a: The rows of A if they are in a buffer already; None to read or pack the factor A of the contraction.
    """
    contraction, schedule = plan.contraction, plan.schedule
    sizes = loop_sizes(frame.elements, contraction.generic)
    nest = Nest.of(plan, sizes, packs_a=a is None, is_batched=False, ends=rows.ends)
    region = nest.untiled_region(rows.outer)
    if contraction.m is not None:
        region = region.with_span(contraction.m, rows.span)

    def emit_tile_of_columns(inner: Builder, j: Index) -> None:
        """Emit the computation of `region` in the columns of tile `j`."""
        tile = nest.tile(inner, region, contraction.n, j, tile=schedule.nt, block=schedule.nr)
        _emit_tile(frame, inner, nest, tile, outputs, a)

    tiles = 1 if contraction.n is None else build.ceil_quotient(nest.end(contraction.n), schedule.nt)
    emit_loop(build, tiles, step=1, body=emit_tile_of_columns)


def _emit_tile(
    frame: Frame, build: Builder, nest: Nest, region: Region, outputs: Sequence[Output], a: OperandView | None = None
) -> None:
    """Emit the computation of the outputs in the tile `region`: its buffers, and the statements of `nest.body`.

    The statements pack operands, and loop over the register blocks of mr x nr sums.

    Args:
        frame: The kernel that is emitted, with its tensors and buffers.
        build: Receives the code.
        nest: The loop nest of the contraction.
        region: The tile.
        outputs: The values to compute.
        a: The rows of A if they are in a buffer already; None to read or pack the factor A of the contraction.
    """
    plan, schedule = nest.plan, nest.plan.schedule
    if steps := plan.arithmetic.matrix_steps:  # products are in matrix registers (AMX), which are released at the end
        build.add(configure_tiles(schedule.mr, schedule.nr, steps))
    a = view_a(frame, plan, build) if a is None else a
    products = Products(nest, a, view_b(frame, plan, build))
    height = transposed_height(plan, outputs)  # 0 unless the contiguous dimension of outputs is M
    sums = frame.elements.fresh(plan.sum_type, _sum_count(plan, height))
    epilogue = Epilogue(frame=frame, nest=nest, outputs=outputs, transposed_height=height)
    tile = TileParts(frame=frame, nest=nest, products=products, epilogue=epilogue, sums=sums)
    _emit_statements(build, tile, nest.body, region)
    if steps:
        build.add(ReleaseTilesOp())


def _sum_count(plan: Plan, transposed_height: int) -> int:
    """Return the number of sums that a tile has memory for.

    Sums in registers are stored when a block is finished, and all blocks use the same memory. Otherwise the sums of all
    blocks of the tile are in memory between two chunks of K.

    Blocks are transposed in whole squares of registers: a block of 14 rows is read as one of `transposed_height` = 16.
    The memory has room for the 2 rows that are read after the last block.
    """
    schedule = plan.schedule
    blocks_of_tile = schedule.mt // schedule.mr * (schedule.nt // schedule.nr)
    stored_blocks = 1 if plan.sums_in_registers else blocks_of_tile
    added_rows = max(0, transposed_height - schedule.mr)
    return (stored_blocks * schedule.mr + added_rows) * schedule.nr


def _emit_statements(build: Builder, tile: TileParts, nodes: Sequence[Node], region: Region) -> None:
    """Emit the statements `nodes` in their order, for one region of the iteration space.

    Args:
        build: Receives the code.
        tile: What the statements of the tile have in common.
        nodes: The statements of the tile, or of the body of a loop. There are loops over register blocks (`Blocks`),
            over a reduced dimension (`Loop`), or over tiles that share packed columns of B (`Batch`). The other
            statements pack a factor, or compute the sums of packed factors.
        region: The tile, or the part of it that one iteration covers.
    """
    for node in nodes:
        if isinstance(node, Blocks):
            RegisterBlocks(tile, node.steps, region).emit(build)
        elif isinstance(node, Loop):
            _emit_reduction(build, tile, node, region)
        elif isinstance(node, Batch):
            _emit_batch(build, tile, node, region)
        elif node is TileStep.PACK_A:
            Packing(tile.frame, tile.nest, region, tile.products.a, is_b=False).emit(build)
        elif node is TileStep.PACK_B:
            Packing(tile.frame, tile.nest, region, tile.products.b, is_b=True).emit(build)
        elif node is TileStep.CLEAR_FACTOR_SUMS:  # later statements add to the sums and use them
            tile = replace(tile, factor_sums=FactorSums.cleared(tile.frame, tile.products, build))
        else:
            assert node is TileStep.ADD_FACTOR_SUMS and tile.factor_sums is not None
            tile.factor_sums.add(build, region)


def _emit_reduction(build: Builder, tile: TileParts, loop: Loop, region: Region) -> None:
    """Emit a loop over a reduced dimension: the statements `loop.body` for the part of `region` of each iteration.

    For K, this part is a chunk of `loop.step` steps.
    """

    def emit_iteration(inner: Builder, index: Index) -> None:
        """Emit the statements of `loop` for the part of `region` that begins at `index` of the dimension."""
        _emit_statements(inner, tile, loop.body, tile.nest.iteration(inner, region, loop, index))

    emit_loop(build, tile.nest.end(loop.dim), loop.step, emit_iteration)


def _emit_batch(build: Builder, tile: TileParts, batch: Batch, region: Region) -> None:
    """Emit the loop over the tiles of a workgroup, up to `batch.count`, that share packed columns of B.

    The tiles differ in their indices of the outer dimensions `batch.dims`, which are counted as one dimension: for
    sizes (2, 28) and 8 tiles for each workgroup, batch 1 (`region.batch`) has the indices 8 to 15.
    """
    sizes = [tile.nest.sizes[d] for d in batch.dims]
    total, first = build.product(sizes), build.times(region.batch, batch.count)

    def emit_tile(inner: Builder, index: Index, carried: list[SSAValue]) -> list[SSAValue]:
        """Emit the statements of `batch` for the tile at one index of the combined dimension."""
        _emit_statements(inner, tile, batch.body, region.with_indices(batch.dims, inner.split(index, sizes)))
        return []

    end = build.least(build.plus(first, batch.count), total)
    # The index is known to be below `total`, the product of `sizes`, so that some divisions of `split` fold.
    build.loop(first, end, carried=[], body=emit_tile, index_below=total)
