"""The kernel of a chain: rows of the first product, row-wise operations on the rows, and the second product by them.

The rows stay in workgroup memory: each row-wise operation overwrites the row that it reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import lcm

from xdsl.dialects import arith, func
from xdsl.dialects.builtin import AnyFloat, FloatAttr, TensorType
from xdsl.ir import SSAValue

from pydispatch.compiler.kernels.loops.analysis import analyse
from pydispatch.compiler.kernels.loops.frame import Frame, Kernel
from pydispatch.compiler.kernels.loops.loop_nest import LoopNest
from pydispatch.compiler.kernels.loops.nests import emit_inner
from pydispatch.compiler.kernels.loops.row_storage import allocate_rows
from pydispatch.compiler.kernels.matmul.chain import Chain, chain_of
from pydispatch.compiler.kernels.matmul.column_end import column_limits
from pydispatch.compiler.kernels.matmul.cpu.nest import End, Span
from pydispatch.compiler.kernels.matmul.cpu.operands import OperandView
from pydispatch.compiler.kernels.matmul.cpu.outputs import Output, dims_of_results, outputs_of
from pydispatch.compiler.kernels.matmul.cpu.plan import Plan, plan_of
from pydispatch.compiler.kernels.matmul.cpu.row_tiles import RowTiles, WorkgroupRows
from pydispatch.compiler.kernels.matmul.cpu.shown_columns import (
    COLUMN_UNIT,
    FloorCheck,
    visible_end,
)
from pydispatch.compiler.kernels.matmul.cpu.tile import ComputedRows, emit_rows
from pydispatch.compiler.kernels.matmul.cpu.tiles import ceil_quotient, level_of
from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.compiler.kernels.ops.tensors import tensor_type
from pydispatch.compiler.target.backend import Backend
from pydispatch.compiler.target.cpu import Machine
from pydispatch.ir.values import shape_of


def lower_chain(source: func.FuncOp, backend: Backend, machine: Machine) -> Kernel | None:
    """Return the kernel of a dispatch function that is a chain of two contractions; None for another function.

    A chain is a product, row-wise operations on its result, and a product of these rows, as in attention. Return None,
    too, if the function updates an argument, if the element types of a product have no register block, or if a result
    is not computed element by element from the second product.

    Args:
        source: The dispatch function.
        backend: The backend that the kernel is for.
        machine: The CPU, whose registers determine the blocks.
    """
    operations = [op for op in source.body.block.ops if op.results]  # all but the terminator
    chain = chain_of(operations)
    if chain is None:
        return None
    frame = Frame(source, backend)
    result_dims = dims_of_results(frame.returned, chain.second)
    if frame.updates_arguments or result_dims is None:
        return None
    level = level_of(machine)
    first_plan, second_plan = (plan_of(product, frame.elements, level) for product in (chain.first, chain.second))
    if first_plan is None or second_plan is None:
        return None
    tiles = RowTiles.of(chain, first_plan, second_plan, level)
    frame.bind()  # emits the buffers of arguments and results
    _emit(frame, chain, first_plan, second_plan, tiles, result_dims)
    return frame.finish(workgroups=lambda elements, build: tiles.workgroups)


def _emit(
    frame: Frame, chain: Chain, first_plan: Plan, second_plan: Plan, tiles: RowTiles, result_dims: Sequence[list[int]]
) -> None:
    """Emit the code of a workgroup: the first product, the row-wise operations and the second product of its rows.

    Args:
        frame: The kernel function, and its inputs and results.
        chain: The chain.
        first_plan: Plan of its first product.
        second_plan: Plan of its second product.
        tiles: The division of its rows among workgroups.
        result_dims: For each result of the dispatch, the dimension of the second product's result that each of its own
            dimensions is equal to: [1, 0] for a transposed result.
    """
    build = frame.build
    rows = _rows_of_workgroup(frame, chain, tiles)
    # Workgroup memory of the scores, which are the first product, and which the row-wise operations overwrite.
    buffer = frame.elements.fresh(tensor_type(chain.rows).element_type, tiles.rows * tiles.stride)
    # The end of the columns that are visible to any row of the workgroup: masks hide columns by low scores. None if all
    # columns are visited.
    masks = column_limits(chain)
    unit, block_columns = _column_unit(first_plan, second_plan), first_plan.schedule.nr
    end = visible_end(frame, shape_of(chain.scores), masks, rows, unit, block_columns)
    emitter = _ChainEmitter(frame=frame, chain=chain, rows=rows, buffer=buffer, column_end=end)
    if end is None or masks.floor is None:  # all columns are computed, or hidden columns have the weight 0 in any row
        emitter.emit_first_product(build, first_plan)
    else:  # a hidden column may have a weight other than 0 in a row without a score above the floor
        emitter = emitter.emit_checked_product(build, first_plan, masks.floor)
    emitter.emit_operations(build)
    emitter.emit_second_product(build, second_plan, result_dims)


def _rows_of_workgroup(frame: Frame, chain: Chain, tiles: RowTiles) -> WorkgroupRows:
    """Emit the index of this workgroup's first row and its number of rows, and return the rows.

    A workgroup has up to `tiles.rows` rows at one index of each outer dimension. 2 heads of 100 rows in tiles of 48 are
    6 workgroups; workgroup 5 has the last rows of head 1. If a register block has 6 rows, these are the rows 94 to 99.
    """
    build = frame.build
    workgroup = build.assume_below(frame.workgroup(), tiles.workgroups)
    *outer, tile = build.split(workgroup, [*tiles.outer, ceil_quotient(tiles.row_count, tiles.rows)])
    # The last tile begins early enough to have at least one whole register block. Some rows are then computed twice.
    first_row = build.least(build.times(tile, tiles.rows), max(0, tiles.row_count - tiles.block))
    are_tiles_full = tiles.row_count % tiles.rows == 0
    extent = tiles.rows if are_tiles_full else build.least(tiles.rows, build.minus(tiles.row_count, first_row))
    return WorkgroupRows(
        tiles=tiles, outer_dims=chain.outer, outer=tuple(outer), span=Span(first=first_row, extent=extent)
    )


def _column_unit(*plans: Plan) -> int:
    """Return the number of adjacent columns that are visited or skipped together, a multiple of `COLUMN_UNIT`.

    The number is a multiple of the rows of a page, too, if the plans of the products read keys or values in pages:
    blocks of rows that a table of indices selects.
    """
    return lcm(COLUMN_UNIT, *(plan.pages.rows for plan in plans if plan.pages is not None))


@dataclass(frozen=True)
class _ChainEmitter:
    """Emitter of a workgroup's code for chained products.

    Its methods are called in this order: the first product, whose elements are the scores; the row-wise operations,
    which overwrite the scores; and the second product, of the rows.

    Attributes:
        frame: The kernel function, and its inputs and results.
        chain: The chain.
        rows: The rows of the workgroup.
        buffer: Workgroup memory of the rows, [row][column], with `rows.tiles.stride` elements between rows.
        column_end: The end of the columns that are visited; None for all columns.
    """

    frame: Frame
    chain: Chain
    rows: WorkgroupRows
    buffer: SSAValue
    column_end: End | None

    def _computed_rows(self, loops: Sequence[int], column_dim: int | None) -> ComputedRows:
        """Return the rows of the workgroup for a product, in the visited columns, which its loop `column_dim` counts.

        `loops[d]` is the product's loop over dimension d of the rows.
        """
        outer = dict(zip((loops[d] for d in self.chain.outer), self.rows.outer, strict=True))
        ends = {} if self.column_end is None or column_dim is None else {column_dim: self.column_end}
        return ComputedRows(outer, self.rows.span, ends)

    def _offset(self, build: Builder, indices: Sequence[Index]) -> Index:
        """Return the offset in `buffer`, [row of the workgroup][column], of the element at these indices of the rows.

        With rows of the shape [heads, queries, keys], indices are [head, query, key].
        """
        axis = self.rows.tiles.axis  # the dimension that counts rows; None for a single row
        row = 0 if axis is None else build.minus(indices[axis], self.rows.span.first)
        return build.plus(build.times(row, self.rows.tiles.stride), indices[-1])

    def _store(self, build: Builder, element: SSAValue, indices: Sequence[Index]) -> None:
        """Store an element of the rows in the buffer."""
        self.frame.elements.store(build, element, self.buffer, [self._offset(build, indices)])

    def _read_from_buffer(self, value: SSAValue) -> None:
        """Let later code read elements of a tensor of rows from the buffer."""
        self.frame.elements.materialize(value, self.buffer, lambda build, indices: [self._offset(build, indices)])

    def emit_first_product(self, build: Builder, plan: Plan) -> None:
        """Emit the scores, the first product and elementwise operations on it, in the columns before `column_end`.

        The scores are stored in `buffer`, which is workgroup memory.
        """
        chain = self.chain
        same_dims = list(range(len(shape_of(chain.scores))))  # scores have the dimensions of the product
        output = Output(value=chain.scores, dims=same_dims, store=self._store)
        rows = self._computed_rows(chain.first_loops, column_dim=chain.first.n)
        emit_rows(self.frame, build, plan, [output], rows)

    def emit_checked_product(self, build: Builder, plan: Plan, floor: float) -> _ChainEmitter:
        """Emit the first product for the visible columns, and again for all columns if hidden ones may have an effect.

        A mask gives hidden columns a low score, such as -1e9; `floor` is half of that score. Hidden columns have no
        effect if each row of the workgroup has a score above `floor`: in the softmax, their weights are rounded to 0
        then. With 256 visible columns of 1024, the first attempt computes 256. If the scores of a row, such as one
        without visible columns, are all at most `floor`, the second attempt computes all 1024.

        Return the emitter for the later parts. Its `column_end` is a runtime value: the end of the columns that were
        computed.
        """
        assert self.column_end is not None
        no_columns = build.index(0)  # the end of the columns of an attempt that computes none

        def attempt(inner: Builder, _attempt: Index, carried: list[SSAValue]) -> list[SSAValue]:
            """Emit an attempt: the first product for the columns before `end`, if an earlier one was not enough.

            `carried` has two ends: of the columns that an earlier attempt has computed, and of those to compute now,
            `end`, which is 0 for none. Return both for the next attempt.
            """
            computed_end, end = carried
            is_needed = inner.less(0, end)
            next_end = inner.choose(
                is_needed,
                lambda b: self._emit_attempt(b, plan, floor, end, no_columns),
                lambda _: no_columns,
            )
            return [inner.value(inner.most(computed_end, end)), next_end]

        # At most two attempts: the visible columns, and all columns.
        computed_end, _ = build.loop(0, 2, [no_columns, build.value(self.column_end.index)], attempt)
        return self._with_column_end(build, computed_end)

    def _emit_attempt(self, build: Builder, plan: Plan, floor: float, end: SSAValue, no_columns: SSAValue) -> SSAValue:
        """Emit the first product for columns before `end`, and return the end of the columns of the next attempt.

        If each row has a score above `floor`, the other columns have the weight 0, and no attempt has to follow: the
        result is `no_columns`. Else the next attempt computes all columns.
        """
        attempt = self._with_column_end(build, end)
        attempt.emit_first_product(build, plan)
        all_columns = build.value(self.rows.tiles.columns)
        element_type = tensor_type(self.chain.rows).element_type
        assert attempt.column_end is not None and isinstance(element_type, AnyFloat)
        check = FloorCheck(self.rows, self.buffer, FloatAttr(floor, element_type), end=attempt.column_end.index)
        return build.add(arith.SelectOp(check.emit(build), no_columns, all_columns))

    def _with_column_end(self, build: Builder, end: SSAValue) -> _ChainEmitter:
        """Return this emitter for the columns before `end`, at run time: the visible columns, all columns, or none.

        Like `column_end`, it is a multiple of `column_end.unit` columns, which are visited or left out together, or the
        number of all columns.
        """
        assert self.column_end is not None
        end_in_bounds = build.assume_below(end, self.rows.tiles.columns + 1)
        return replace(self, column_end=End(index=end_in_bounds, unit=self.column_end.unit))

    def emit_operations(self, build: Builder) -> None:
        """Emit the row-wise operations, such as a softmax, whose result overwrites the scores in the buffer.

        The code of a softmax is, for each row, the maximum and the sum of exponentials, then a loop over the columns
        that stores the quotients.
        """
        chain, elements = self.chain, self.frame.elements
        self._read_from_buffer(chain.scores)  # elements of the scores are loads from the buffer from here on
        # The operations are emitted as one loop nest over the rows, as a kernel that reads scores from memory.
        nest_of_rows = LoopNest(stores=[(chain.rows, self.buffer)], space=chain.rows)
        (nest,) = analyse(self.frame, [nest_of_rows])
        allocate_rows(self.frame, nest)  # memory for values that a row stores for its later loops
        columns = self._restrict_columns()  # the number of visited columns: the others are hidden, and not computed
        row_count, most_rows = self.rows.span.extent, self.rows.tiles.rows
        build.loop(0, row_count, [], partial(self._emit_row, nest, columns), index_below=most_rows)
        # From here on, the buffer has `chain.rows` instead of the scores, and the memory of single rows is not valid.
        elements.forget_rows()
        elements.forget(chain.scores)
        self._read_from_buffer(chain.rows)

    def _emit_row(
        self, nest: LoopNest, columns: Index, build: Builder, row: Index, carried: list[SSAValue]
    ) -> list[SSAValue]:
        """Emit the row-wise operations on a row of the workgroup: its reductions, then its elements in all `columns`.

        This is the body of a loop over rows that carries no values. `nest` has the operations.
        """
        elements = self.frame.elements
        indices = self.rows.indices(build, row, rank=len(shape_of(self.chain.rows)) - 1)
        elements.begin_row(indices)  # the memory that `allocate_rows` allocated has values of this row from here on
        nest.emit_row_reductions(elements, build, indices)
        emit_inner(build, indices, dims=[columns], low=0, high=columns, write=self._store_result)
        return []

    def _store_result(self, build: Builder, indices: list[Index]) -> None:
        """Emit one element of `chain.rows`, the last operation's result, and its store in the buffer."""
        self._store(build, self.frame.elements.at(build, self.chain.rows, indices), indices)

    def _restrict_columns(self) -> Index:
        """Let loops that are emitted later visit only the columns before `column_end`, and return their number.

        The scores, and the tensors of the row-wise operations with the same shape, get this number as the size of their
        last dimension: loops that are emitted later have this length.
        """
        if self.column_end is None:
            return self.rows.tiles.columns
        elements, columns = self.frame.elements, self.column_end.index
        operations = self.chain.parts.row_operations
        values = {self.chain.scores, *(v for op in operations for v in (*op.operands, *op.results))}
        for value in values:
            if isinstance(value.type, TensorType) and shape_of(value) == shape_of(self.chain.scores):
                elements.resize(value, [*elements.dims(value)[:-1], columns])
        return columns

    def emit_second_product(self, build: Builder, plan: Plan, result_dims: Sequence[list[int]]) -> None:
        """Emit the second product, of the rows in the buffer, and the results of the dispatch.

        Register blocks read the buffer itself if it has the element type that they multiply. Else packing converts it.

        Args:
            build: Receives the code.
            plan: Plan of the second product.
            result_dims: For each result of the dispatch, the dimension of the product's result that each of its own
                dimensions is equal to: [1, 0] for a transposed result.
        """
        chain, tiles = self.chain, self.rows.tiles
        # Strides of the buffer by dimensions of the rows: 0 for outer ones, which have a single index in a workgroup.
        strides: list[Index] = [0] * len(chain.second_loops)
        strides[-1] = 1
        if tiles.axis is not None:  # the dimension that counts rows; None for a single row
            strides[tiles.axis] = tiles.stride
        # The view is addressed by indices in the tensor of all rows; `_offset` subtracts the workgroup's first row.
        view = OperandView(chain.second.a, self.buffer, tuple(strides), uses_tensor_indices=True, locate=self._offset)
        needs_packing = plan.compute != tensor_type(chain.rows).element_type
        outputs = outputs_of(self.frame, result_dims)
        rows = self._computed_rows(chain.second_loops, column_dim=chain.second.k)
        emit_rows(self.frame, build, plan, outputs, rows, a=None if needs_packing else view)
