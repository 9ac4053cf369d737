"""The kernel of a chain: some rows of the first product, row-wise operations on them, and the second product of them.

The rows stay in workgroup memory: each row-wise operation overwrites the row that it reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import lcm

from xdsl.dialects import arith, func
from xdsl.dialects.builtin import AnyFloat, FloatAttr, IntegerAttr, IntegerType, TensorType
from xdsl.ir import SSAValue

from pydispatch.compiler.kernels.loops import analysis
from pydispatch.compiler.kernels.loops.frame import Frame, Kernel
from pydispatch.compiler.kernels.loops.nests import emit_inner
from pydispatch.compiler.kernels.matmul.chain import Chain, chain_of
from pydispatch.compiler.kernels.matmul.column_end import column_limits
from pydispatch.compiler.kernels.matmul.cpu.nest import End, Span
from pydispatch.compiler.kernels.matmul.cpu.operands import OperandView
from pydispatch.compiler.kernels.matmul.cpu.outputs import Output, outputs_of
from pydispatch.compiler.kernels.matmul.cpu.plan import Plan, plan_of
from pydispatch.compiler.kernels.matmul.cpu.row_tiles import RowTiles, WorkgroupRows
from pydispatch.compiler.kernels.matmul.cpu.shown_columns import (
    COLUMN_UNIT,
    false_constant,
    is_any_column,
    visible_end,
)
from pydispatch.compiler.kernels.matmul.cpu.tile import emit_rows
from pydispatch.compiler.kernels.matmul.cpu.tiles import ceil_quotient, level_of
from pydispatch.compiler.kernels.matmul.results import matching_dims
from pydispatch.compiler.kernels.ops.builder import Builder, Index, load
from pydispatch.compiler.kernels.ops.tensors import tensor_type
from pydispatch.compiler.target.backend import Backend
from pydispatch.compiler.target.cpu import Machine
from pydispatch.ir.values import shape_of


def lower_chain(source: func.FuncOp, backend: Backend, machine: Machine) -> Kernel | None:
    """Return the kernel of a dispatch function that is a chain of two contractions; None for another function.

    A chain is a product, row-wise operations on its result, and a product of these rows, as in attention. `machine` is
    the CPU whose registers determine the blocks. Return None, too, if the function updates an argument, if a product's
    types have no register block, or if a result is not computed element by element from the second product.
    """
    chain = chain_of([op for op in source.body.block.ops if op.results])
    if chain is None:
        return None
    frame = Frame(source, backend)
    if frame.updates_arguments:
        return None
    # Each result must have the elements of the second product's result, or functions of them, in some order: [1, 0] for
    # a transposed result. None for another result.
    dims = [matching_dims(value, chain.second.op.results[0]) for value in frame.returned]
    result_dims = [d for d in dims if d is not None]
    level = level_of(machine)
    first, second = plan_of(chain.first, frame.elements, level), plan_of(chain.second, frame.elements, level)
    if first is None or second is None or len(result_dims) != len(dims):
        return None
    tiles = RowTiles.of(chain, first, second, level)
    frame.bind()  # emits the buffers of arguments and results
    _emit(frame, chain, first, second, tiles, result_dims)
    return frame.finish(workgroups=lambda elements, build: tiles.workgroups)


def _emit(
    frame: Frame, chain: Chain, first: Plan, second: Plan, tiles: RowTiles, result_dims: Sequence[list[int]]
) -> None:
    """Emit the code of a workgroup: the first product, the row-wise operations and the second product of its rows.

    A workgroup has up to `tiles.rows` rows at one index of each outer dimension. 2 heads of 100 rows in tiles of 48 are
    6 workgroups; number 5 has the last rows of head 1. If a register block has 6 rows, these are the rows 94 to 99.

    Args:
        frame: The kernel function, and its inputs and results.
        chain: The chain.
        first: Plan of its first product.
        second: Plan of its second product.
        tiles: The division of its rows among workgroups.
        result_dims: For each result of the dispatch, the dimension of the second product's result that each of its own
            dimensions is equal to: [1, 0] for a transposed result.
    """
    build = frame.build
    # The rows of the workgroup.
    workgroup = build.assume_below(frame.workgroup(), tiles.workgroups)
    *outer, tile = build.split(workgroup, [*tiles.outer, ceil_quotient(tiles.row_count, tiles.rows)])
    # The last tile begins early enough to have a whole register block; some of its rows are computed twice then.
    first_row = build.least(build.times(tile, tiles.rows), max(0, tiles.row_count - tiles.block))
    are_tiles_full = tiles.row_count % tiles.rows == 0
    extent = tiles.rows if are_tiles_full else build.least(tiles.rows, build.minus(tiles.row_count, first_row))
    # Workgroup memory of the scores, which the row-wise operations overwrite.
    buffer = frame.elements.fresh(tensor_type(chain.rows).element_type, tiles.rows * tiles.stride)
    rows = WorkgroupRows(tiles, chain.outer, tuple(outer), Span(first=first_row, extent=extent))
    # The end of the columns that masks leave visible to any row of the workgroup; None if all columns are visited.
    limits = column_limits(chain)
    end = visible_end(frame, shape_of(chain.scores), limits, rows, _column_unit(first, second), first.schedule.nr)
    emitter = _ChainEmitter(frame=frame, chain=chain, rows=rows, buffer=buffer, column_end=end)
    # The three parts of the chain; `limits.floor` is the score above which hidden columns have the weight 0.
    if end is None or limits.floor is None:  # no columns are hidden, or all hidden ones have the weight 0
        emitter.emit_first_product(build, first)
    else:  # only a row with a score above the floor is sure to give hidden columns the weight 0: else compute them, too
        emitter = emitter.emit_checked_product(build, first, limits.floor)
    emitter.emit_operations(build)
    emitter.emit_second_product(build, second, result_dims)


def _column_unit(*plans: Plan) -> int:
    """Return how many columns are visited or skipped as a whole: whole pages of keys and of values, too."""
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

    def _ends_of_columns(self, dim: int | None) -> dict[int, End]:
        """Return {dim: end of the visited columns}, where `dim` is a product's loop over them; {} for all columns."""
        return {} if self.column_end is None or dim is None else {dim: self.column_end}

    def _offset(self, build: Builder, indices: Sequence[Index]) -> Index:
        """Return the offset in the buffer of the element at these indices of `Chain.rows`."""
        axis = self.rows.tiles.axis
        row = 0 if axis is None else build.minus(indices[axis], self.rows.span.first)
        return build.plus(build.times(row, self.rows.tiles.stride), indices[-1])

    def _store(self, build: Builder, element: SSAValue, indices: Sequence[Index]) -> None:
        """Store an element of the rows in the buffer."""
        self.frame.elements.store(build, element, self.buffer, [self._offset(build, indices)])

    def _read_from_buffer(self, value: SSAValue) -> None:
        """Let later code read elements of a tensor of rows from the buffer."""
        self.frame.elements.materialize(value, self.buffer, lambda build, indices: [self._offset(build, indices)])

    def _indices_of(self, loops: Sequence[int]) -> dict[int, Index]:
        """Return {loop of a product: index} for the outer dimensions; `loops[d]` runs over dimension d of the rows."""
        return dict(zip((loops[d] for d in self.chain.outer), self.rows.outer, strict=True))

    def emit_first_product(self, build: Builder, plan: Plan) -> None:
        """Emit the first product, and elementwise operations, into `buffer` (workgroup memory), up to `column_end`."""
        chain = self.chain
        output = Output(value=chain.scores, dims=list(range(len(shape_of(chain.scores)))), store=self._store)
        outer, ends = self._indices_of(chain.first_loops), self._ends_of_columns(chain.first.n)
        emit_rows(self.frame, build, plan, [output], outer, rows=self.rows.span, ends=ends)

    def emit_checked_product(self, build: Builder, plan: Plan, floor: float) -> _ChainEmitter:
        """Emit the first product for the visible columns, and again for all columns if hidden ones may have an effect.

        A mask gives hidden columns a low score, such as -1e9; `floor` is half of it. They have no effect if each row of
        the workgroup has a score above `floor`: in the softmax, their weights are rounded to 0 then. With 256 visible
        columns of 1024, the first attempt computes 256. If the scores of a row, such as one without visible columns,
        are all at most `floor`, the second attempt computes all 1024.

        Return the emitter for the later parts, with the end of the columns that were computed at run time.
        """
        assert self.column_end is not None
        zero = build.index(0)  # the end of an empty range of columns

        def attempt(inner: Builder, _: Index, carried: list[SSAValue]) -> list[SSAValue]:
            """Compute the columns before `end` unless it is 0, and check that each row has a score above `floor`.

            If so, all other columns have the weight 0. `carried` is (end of the columns computed before, `end`). Return
            both for the next attempt: its `end` is 0 if the check holds or no columns were computed, else the number of
            all columns.
            """
            computed_end, end = carried
            next_end = inner.choose(
                inner.less(0, end), lambda b: self._attempted_product(b, plan, floor, end, zero), lambda _: zero
            )
            return [inner.value(inner.most(computed_end, end)), next_end]

        # At most two attempts: the visible columns, and all columns.
        computed_end, _ = build.loop(0, 2, [zero, build.value(self.column_end.index)], attempt)
        return self._up_to(build, computed_end)

    def _attempted_product(self, build: Builder, plan: Plan, floor: float, end: SSAValue, zero: SSAValue) -> SSAValue:
        """Emit the first product for columns before `end`, and return the end of the columns of the next attempt.

        No attempt follows, and `zero`, the index 0, is returned, if each row has a score above `floor`: then the
        weights of the columns that were not computed are 0, see `Limits.floor`. Else the next one is of all columns.
        """
        attempt = self._up_to(build, end)
        attempt.emit_first_product(build, plan)
        all_columns = build.value(self.rows.tiles.columns)
        return build.add(arith.SelectOp(attempt._are_above(build, floor), zero, all_columns))

    def _up_to(self, build: Builder, end: SSAValue) -> _ChainEmitter:
        """Return this emitter with another end of the columns that are visited."""
        assert self.column_end is not None
        return replace(self, column_end=End(build.assume_below(end, self.rows.tiles.columns + 1), self.column_end.unit))

    def _are_above(self, build: Builder, floor: float) -> SSAValue:
        """Emit whether each row has a score above `floor` among the visited columns, an i1.

        The other columns, which a mask hides, then have no effect, see `Limits.floor`.
        """

        def row(inner: Builder, i: Index, carried: Sequence[SSAValue]) -> list[SSAValue]:
            """Return whether row `i` and all rows before it have a score above the floor."""
            return [inner.add(arith.AndIOp(carried[0], self._is_row_above(inner, i, floor)))]

        true = build.pure(arith.ConstantOp(IntegerAttr(1, IntegerType(1))))
        (result,) = build.loop(0, self.rows.span.extent, [true], row, index_below=self.rows.tiles.rows)
        return result

    def _is_row_above(self, build: Builder, row: Index, floor: float) -> SSAValue:
        """Emit whether row `row` of the workgroup has a score above `floor` among the visited columns, an i1.

        `floor` is half of the low score, such as -1e9, that a mask gives to columns that were not visited. If one score
        exceeds it, their weights in the softmax are rounded to 0. Columns are searched in units of `COLUMN_UNIT`, until
        one has such a score.
        """
        end, element = self.column_end, tensor_type(self.chain.rows).element_type
        assert end is not None and isinstance(element, AnyFloat)

        def is_above(inner: Builder, column: Index) -> SSAValue:
            """Return whether the score at a column is above the floor."""
            offset = inner.plus(inner.times(row, self.rows.tiles.stride), column)
            score = load(inner, self.buffer, offset)
            limit = inner.pure(arith.ConstantOp(FloatAttr(floor, element)))
            return inner.add(arith.CmpfOp(score, limit, "ogt"))

        def unit(inner: Builder, first: Index, earlier: Sequence[SSAValue]) -> list[SSAValue]:
            """Return whether the columns up to the end of the unit from `first` on have a score above the floor, an i1.

            `earlier` has this result for the columns before `first`; if it is true, the unit is not searched.
            """
            stop = inner.least(inner.plus(first, COLUMN_UNIT), end.index)
            return [inner.choose(earlier[0], lambda _: earlier[0], lambda b: is_any_column(b, first, stop, is_above))]

        (is_any,) = build.loop(0, end.index, [false_constant(build)], unit, step=COLUMN_UNIT)
        return is_any

    def emit_operations(self, build: Builder) -> None:
        """Emit the row-wise operations, whose result overwrites the scores in the buffer.

        The code of a softmax is, for each row, the maximum and the sum of exponentials, then a loop over the columns
        that stores the quotients.
        """
        chain, elements = self.chain, self.frame.elements
        self._read_from_buffer(chain.scores)  # elements of the scores are loads from the buffer from here on
        # The operations are one nest over the rows, as if they were a kernel of their own that reads the scores.
        nest_of_rows = analysis.LoopNest(stores=[(chain.rows, self.buffer)], space=chain.rows)
        (nest,) = analysis.analyse(self.frame, [nest_of_rows])
        analysis.allocate_rows(self.frame, nest)  # memory for values that a row stores for its later loops
        columns = self._restrict_columns()  # their end: later ones are hidden, and not computed

        def store_element(inner: Builder, indices: list[Index]) -> None:
            """Store an element of the last operation's result."""
            self._store(inner, elements.at(inner, chain.rows, indices), indices)

        def row(inner: Builder, i: Index, carried: list[SSAValue]) -> list[SSAValue]:
            """Emit the operations on one row."""
            indices = self.rows.indices(inner, i, rank=len(shape_of(chain.rows)) - 1)  # of the row, without a column
            elements.begin_row(indices)
            nest.emit_row_reductions(elements, inner, indices)
            emit_inner(inner, indices, dims=[columns], low=0, high=columns, write=store_element)
            return []

        build.loop(0, self.rows.span.extent, [], row, index_below=self.rows.tiles.rows)
        elements.forget_rows()
        elements.forget(chain.scores)  # their memory has the rows now
        self._read_from_buffer(chain.rows)

    def _restrict_columns(self) -> Index:
        """Restrict later loops over the columns to those that are visited, and return the number of these columns."""
        if self.column_end is None:
            return self.rows.tiles.columns
        elements, columns = self.frame.elements, self.column_end.index
        operations = self.chain.parts.row_operations
        for value in {self.chain.scores, *(v for op in operations for v in (*op.operands, *op.results))}:
            if isinstance(value.type, TensorType) and shape_of(value) == shape_of(self.chain.scores):
                elements.resize(value, [*elements.dims(value)[:-1], columns])
        return columns

    def emit_second_product(self, build: Builder, plan: Plan, result_dims: Sequence[list[int]]) -> None:
        """Emit the second product, which reads the rows in the buffer unless it needs them in another type.

        `result_dims` has `Output.dims` of each result of the dispatch.
        """
        chain = self.chain
        # Strides of the rows in workgroup memory, by dimension: 0 for outer ones, which have a single index there.
        strides: list[Index] = [0] * len(chain.second_loops)
        strides[-1] = 1
        if self.rows.tiles.axis is not None:
            strides[self.rows.tiles.axis] = self.rows.tiles.stride
        reads_buffer = plan.compute == tensor_type(chain.rows).element_type  # else they are packed in another type
        view = OperandView(chain.second.a, self.buffer, tuple(strides), uses_tensor_indices=True, locate=self._offset)
        outputs = outputs_of(self.frame, result_dims)
        outer, ends = self._indices_of(chain.second_loops), self._ends_of_columns(chain.second.k)
        rows_of_a = view if reads_buffer else None
        emit_rows(self.frame, build, plan, outputs, outer, rows=self.rows.span, a=rows_of_a, ends=ends)
