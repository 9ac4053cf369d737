"""The kernels of rows of A times block-quantized weights in panels: the grid, and the class that emits a workgroup."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.dialects import func
from xdsl.dialects.builtin import f32

from pydispatch.compiler.kernels.loops.frame import Frame, Kernel
from pydispatch.compiler.kernels.matmul.block_quantized import BlockQuantized
from pydispatch.compiler.kernels.matmul.cpu.block_products import BlockProducts
from pydispatch.compiler.kernels.matmul.cpu.outputs import outputs_of
from pydispatch.compiler.kernels.matmul.cpu.panel_sizes import BlockSizes, sizes_of
from pydispatch.compiler.kernels.matmul.cpu.panel_workgroup import PanelWorkgroup
from pydispatch.compiler.kernels.matmul.cpu.quantized_rows import RowConversion
from pydispatch.compiler.kernels.matmul.cpu.tiles import Level, ceil_quotient
from pydispatch.compiler.kernels.matmul.cpu.unpacked_weights import UnpackedProducts
from pydispatch.compiler.kernels.ops.builder import Index
from pydispatch.compiler.target.backend import Backend


def lower_block_quantized(
    source: func.FuncOp, backend: Backend, level: Level, match: BlockQuantized, result_dims: Sequence[list[int]]
) -> Kernel | None:
    """Return the kernel of a function that is one product of rows of f32 by block-quantized weights.

    The weights are integers of 4 or 8 bits in panels, a fixed number of adjacent columns each. In a column of a panel,
    the adjacent steps of K that share a scale are a block. A workgroup computes `sizes.rows` rows times `sizes.panels`
    panels: 20 rows in groups of 10 times 32 panels in groups of 8 are 4 * 2 workgroups.

    Return None if the number of rows is dynamic or 0, and for a function that updates an argument in place.

    Args:
        source: The dispatch function.
        backend: The backend that the kernel is for.
        level: Vector registers, caches and instructions of the CPU.
        match: The product.
        result_dims: For each result of the dispatch, the dimension of the product's result that each of its own
            dimensions is equal to: [1, 0] for a transposed result.
    """
    sizes = sizes_of(match, level)  # None for a number of rows that is dynamic or 0
    frame = Frame(source, backend)
    if sizes is None or frame.updates_arguments:
        return None
    frame.bind()  # emits the buffers of arguments and results
    # The grid: groups of panels, the outer dimension, by groups of rows.
    total_rows = prod(match.contraction.generic.extent(d) for d in match.row_loops)
    groups = [ceil_quotient(match.panels, sizes.panels), ceil_quotient(total_rows, sizes.rows)]
    workgroup_id = frame.build.assume_below(frame.workgroup(), prod(groups))
    panel_group, row_group = frame.build.split(workgroup_id, groups)
    first_row = frame.build.times(row_group, sizes.rows)
    rows_of_a = _row_conversion(frame, match, sizes, first_row, total_rows)
    workgroup = _allocate_workgroup(frame, match, sizes, rows_of_a, result_dims)
    workgroup.emit(frame.build, panel_group)
    return frame.finish(workgroups=lambda elements, build: prod(groups))


def _allocate_workgroup(
    frame: Frame, match: BlockQuantized, sizes: BlockSizes, rows_of_a: RowConversion, result_dims: Sequence[list[int]]
) -> PanelWorkgroup:
    """Return the emitter of a workgroup's code, and allocate memory for its totals, the sums over K.

    `UnpackedProducts` converts weights to f32 in memory, once for all rows of A, which are f32 too. `BlockProducts`
    unpacks weights in registers, or in memory to bytes if the rows of A are converted to bytes.
    """
    # If K is a single chunk, each panel is finished before the next one begins, and all panels use the same memory.
    panels_with_sums = 1 if sizes.blocks == match.blocks else sizes.panels
    totals = frame.elements.fresh(f32, panels_with_sums * sizes.padded_rows * match.width)
    outputs = outputs_of(frame, result_dims)
    unpacks_to_f32 = sizes.unpacks and sizes.byte_digits == 0
    workgroup_class = UnpackedProducts if unpacks_to_f32 else BlockProducts
    return workgroup_class(frame, match, sizes, outputs, rows_of_a, totals)


def _row_conversion(
    frame: Frame, match: BlockQuantized, sizes: BlockSizes, first_row: Index, total_rows: int
) -> RowConversion:
    """Return the emitter that copies a workgroup's rows of A to workgroup memory, as f32 or as integers.

    An integer is `sizes.byte_digits` signed bytes, the digits; 0 digits stand for f32. `first_row` is the first row of
    the workgroup, and `total_rows` the number of rows of A.
    """
    # Rows beyond the last row of A are copied, too, in a last workgroup with fewer rows, or if the rows of a workgroup
    # are rounded up to whole register blocks. They are copies of the last row (`repeats_last`).
    has_rows_beyond_last = total_rows % sizes.rows != 0 or sizes.padded_rows != sizes.rows
    return RowConversion(
        elements=frame.elements,
        match=match,
        rows=sizes.padded_rows,
        digit_count=sizes.byte_digits,
        first_row=first_row,
        end_row=total_rows,
        repeats_last=has_rows_beyond_last,
        blocks=sizes.blocks,
        lanes=sizes.lanes,
    )
