"""The kernel of a chain: some rows of the first product, row-wise operations on them, and the second product of them.

The rows stay in workgroup memory: each row-wise operation overwrites the row that it reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import lcm, prod

from xdsl.dialects import arith, func, memref
from xdsl.dialects.builtin import AnyFloat, FloatAttr, IntegerAttr, IntegerType, TensorType
from xdsl.ir import Attribute, SSAValue

from pydispatch.compiler.kernels.loops import analysis
from pydispatch.compiler.kernels.loops.frame import Frame, Kernel
from pydispatch.compiler.kernels.loops.nests import emit_inner
from pydispatch.compiler.kernels.matmul.chain import Chain, chain_of
from pydispatch.compiler.kernels.matmul.column_end import Limits, column_limits
from pydispatch.compiler.kernels.matmul.cpu.nest import End, Span
from pydispatch.compiler.kernels.matmul.cpu.operands import OperandView
from pydispatch.compiler.kernels.matmul.cpu.outputs import Output, outputs_of
from pydispatch.compiler.kernels.matmul.cpu.plan import Plan, plan_of
from pydispatch.compiler.kernels.matmul.cpu.shown_columns import COLUMN_UNIT, false_constant, is_any_column, last_shown
from pydispatch.compiler.kernels.matmul.cpu.tile import emit_rows
from pydispatch.compiler.kernels.matmul.cpu.tiles import Level, ceil_quotient, level_of
from pydispatch.compiler.kernels.matmul.results import matching_dims
from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.compiler.kernels.ops.tensors import tensor_type
from pydispatch.compiler.target.backend import Backend
from pydispatch.compiler.target.cpu import Machine
from pydispatch.ir.values import shape_of

MAX_ROWS_BYTES = 128 << 10
"""Maximum size of the rows of a workgroup: half of a small second-level cache, which also has packed operands."""

MIN_WORKGROUPS = 8
"""Minimum number of workgroups of a kernel, if the rows have so many register blocks, which are not cut."""


@dataclass(frozen=True)
class RowTiles:
    """The division of the rows of two chained contractions among workgroups.

    Attributes:
        axis: The dimension of `Chain.rows` that is M in both products; None where there is a single row.
        row_count: Size of that dimension.
        columns: Elements of a row.
        outer: Sizes of the outer dimensions of `Chain.rows`: all but the rows and columns.
        block: Rows of the higher register block of both products, at most `row_count`.
        rows: Rows of a workgroup: a multiple of `block`, or all. The last workgroup may have fewer.
        stride: Elements from one row to the next in workgroup memory.
    """

    axis: int | None
    row_count: int
    columns: int
    outer: tuple[int, ...]
    block: int
    rows: int
    stride: int

    @staticmethod
    def of(chain: Chain, first: Plan, second: Plan, level: Level) -> RowTiles:
        """Return the division with most rows within `MAX_ROWS_BYTES` that leaves `MIN_WORKGROUPS` workgroups if
        possible.

        Args:
            chain: The chain.
            first: Plan of its first product.
            second: Plan of its second product.
            level: The CPU. Rows whose length is a multiple of 256 bytes are padded by a vector: they would compete for
                the same sets of its cache.
        """
        shape, m = shape_of(chain.rows), chain.second.m
        axis = None if m is None else chain.second_loops.index(m)
        count, columns = 1 if axis is None else shape[axis], shape[-1]
        outer = tuple(shape[d] for d in chain.outer)
        size = 8 if str(_element_type(chain)) == "f64" else 4
        stride = columns + (level.vector // size if columns * size % 256 == 0 else 0)
        block = min(max(first.schedule.mr, second.schedule.mr), count)
        blocks = max(1, MAX_ROWS_BYTES // (size * stride * block))
        while blocks > 1 and prod(outer) * ceil_quotient(count, blocks * block) < MIN_WORKGROUPS:
            blocks -= 1
        return RowTiles(
            axis=axis,
            row_count=count,
            columns=columns,
            outer=outer,
            block=block,
            rows=min(count, blocks * block),
            stride=stride,
        )

    @property
    def workgroups(self) -> int:
        """Number of workgroups."""
        return prod(self.outer) * ceil_quotient(self.row_count, self.rows)


def lower_chain(source: func.FuncOp, backend: Backend, machine: Machine) -> Kernel | None:
    """Return the kernel of a dispatch function that is a chain of two contractions; None for another function.

    `machine` is the CPU whose registers determine the blocks.
    """
    chain = chain_of([op for op in source.body.block.ops if op.results])
    if chain is None:
        return None
    frame = Frame(source, backend)
    if frame.updates_arguments:
        return None
    # Each result must have the elements of the second product's result, or functions of them, in some order.
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


def _element_type(chain: Chain) -> Attribute:
    """Return the type of elements of the rows."""
    return tensor_type(chain.rows).element_type


def _emit(
    frame: Frame, chain: Chain, first: Plan, second: Plan, tiles: RowTiles, result_dims: Sequence[list[int]]
) -> None:
    """Emit the code of a workgroup.

    Args:
        frame: The kernel function, and its inputs and results.
        chain: The chain.
        first: Plan of its first product.
        second: Plan of its second product.
        tiles: The division of its rows among workgroups.
        result_dims: For each result of the dispatch, see `Output.dims`.
    """
    build = frame.build
    workgroup = build.assume_below(frame.workgroup(), tiles.workgroups)
    *outer, tile = build.split(workgroup, [*tiles.outer, ceil_quotient(tiles.row_count, tiles.rows)])
    # The last tile begins early enough to have a whole register block; some of its rows are computed twice then.
    first_row = build.least(build.times(tile, tiles.rows), max(0, tiles.row_count - tiles.block))
    are_tiles_full = tiles.row_count % tiles.rows == 0
    extent = tiles.rows if are_tiles_full else build.least(tiles.rows, build.minus(tiles.row_count, first_row))
    buffer = frame.elements.fresh(_element_type(chain), tiles.rows * tiles.stride)
    span = Span(first=first_row, extent=extent)
    limits = column_limits(chain)
    end = _column_end(frame, chain, limits, (first, second), tiles, outer, span)
    rows = _Rows(frame=frame, chain=chain, tiles=tiles, outer=tuple(outer), span=span, buffer=buffer, column_end=end)
    if end is None or limits.floor is None:  # no columns are hidden, or all hidden ones have the weight 0
        rows.emit_first_product(build, first)
    else:
        rows = rows.emit_checked_product(build, first, limits.floor)
    rows.emit_operations(build)
    rows.emit_second_product(build, second, result_dims)


def _column_end(
    frame: Frame,
    chain: Chain,
    limits: Limits,
    plans: Sequence[Plan],
    tiles: RowTiles,
    outer: Sequence[Index],
    span: Span,
) -> End | None:
    """Emit the end of the columns that are visible to at least one row of a workgroup, rounded up to whole units.

    Return None where all columns are visited.

    Args:
        frame: The kernel function.
        chain: The chain.
        limits: The masks that hide columns: computed bounds, and masks that are stored in memory.
        plans: Plans of the first and of the second product.
        tiles: The division of its rows among workgroups.
        outer: Index of each outer dimension (`Chain.outer`).
        span: The rows of the workgroup along `tiles.axis`.
    """
    build, columns = frame.build, tiles.columns
    unit = lcm(COLUMN_UNIT, *(plan.pages.rows for plan in plans if plan.pages is not None))
    first_product = plans[0]
    has_one_unit = unit >= columns
    has_wider_blocks = first_product.schedule.nr > unit  # a register block would compute columns beyond the end
    if not limits or has_one_unit or has_wider_blocks:
        return None

    def row(inner: Builder, i: Index, carried: Sequence[SSAValue]) -> list[SSAValue]:
        """Return the end of the columns that a row or a later one needs; `i` counts rows backwards from the last one.

        `carried` has the end of the columns that the later rows need.
        """
        point: list[Index] = [0] * len(shape_of(chain.scores))
        for dim, index in zip(chain.outer, outer, strict=True):
            point[dim] = index
        if tiles.axis is not None:
            point[tiles.axis] = inner.plus(span.first, inner.minus(inner.minus(span.extent, 1), i))
        (end_of_later_rows,) = carried
        end_of_row = limits.end(frame.elements, inner, point, columns)
        if limits.stored:  # masks in memory are read only beyond the columns that a later row needs anyway
            end_of_row = last_shown(
                frame, inner, limits, point, begin=end_of_later_rows, end=end_of_row, columns=columns
            )
        return [inner.value(inner.most(end_of_later_rows, end_of_row))]

    # At least one column is visited: a row without visible columns is computed from hidden ones. The loop begins with
    # the last row: in causal attention it sees most columns, and the masks of earlier rows need not be read then.
    (end,) = build.loop(0, span.extent, [build.index(1)], row, index_below=tiles.rows)  # `extent` may be dynamic
    end = build.assume_below(end, columns + 1)
    return End(build.least(build.times(build.ceil_quotient(end, unit), unit), columns), unit)


@dataclass(frozen=True)
class _Rows:
    """Emitter of a workgroup's code for chained products: scores, row-wise operations, and the second product.

    Attributes:
        frame: The kernel function, and its inputs and results.
        chain: The chain.
        tiles: The division of its rows among workgroups.
        outer: Index of each outer dimension (`Chain.outer`).
        span: The rows, along `tiles.axis`.
        buffer: Workgroup memory of the rows, [row][column], with `tiles.stride` elements between rows.
        column_end: The end of the columns that are visited; None for all columns.
    """

    frame: Frame
    chain: Chain
    tiles: RowTiles
    outer: tuple[Index, ...]
    span: Span
    buffer: SSAValue
    column_end: End | None

    def _ends_of_columns(self, dim: int | None) -> dict[int, End]:
        """Return {dim: end of the visited columns}, where `dim` is a product's loop over them; {} for all columns."""
        return {} if self.column_end is None or dim is None else {dim: self.column_end}

    def _offset(self, build: Builder, indices: Sequence[Index]) -> Index:
        """Return the offset in the buffer of the element at these indices of `Chain.rows`."""
        axis = self.tiles.axis
        row = 0 if axis is None else build.minus(indices[axis], self.span.first)
        return build.plus(build.times(row, self.tiles.stride), indices[-1])

    def _store(self, build: Builder, element: SSAValue, indices: Sequence[Index]) -> None:
        """Store an element of the rows in the buffer."""
        self.frame.elements.store(build, element, self.buffer, [self._offset(build, indices)])

    def _read_from_buffer(self, value: SSAValue) -> None:
        """Let later code read elements of a tensor of rows from the buffer."""
        self.frame.elements.materialize(value, self.buffer, lambda build, indices: [self._offset(build, indices)])

    def _indices_of(self, loops: Sequence[int]) -> dict[int, Index]:
        """Return {loop of a product: index} for the outer dimensions; `loops[d]` runs over dimension d of the rows."""
        return dict(zip((loops[d] for d in self.chain.outer), self.outer, strict=True))

    def emit_first_product(self, build: Builder, plan: Plan) -> None:
        """Emit the first product, and elementwise operations, into `buffer` (workgroup memory), up to `column_end`."""
        chain = self.chain
        output = Output(value=chain.scores, dims=list(range(len(shape_of(chain.scores)))), store=self._store)
        outer, ends = self._indices_of(chain.first_loops), self._ends_of_columns(chain.first.n)
        emit_rows(self.frame, build, plan, [output], outer, rows=self.span, ends=ends)

    def emit_checked_product(self, build: Builder, plan: Plan, floor: float) -> _Rows:
        """Emit the first product, and again for all columns unless the largest score of each row is above `floor`.

        Return the rows with the end of the columns that were computed. Above the floor, hidden columns have no effect,
        see `Limits.floor`.
        """
        assert self.column_end is not None
        zero = build.index(0)  # the end of an empty range of columns

        def attempt(inner: Builder, _: Index, carried: list[SSAValue]) -> list[SSAValue]:
            """Compute the columns before `end` unless it is 0, and check that each row has a score above `floor`.

            `carried` is (end of the columns computed before, `end`). Return both for the next attempt: its `end` is 0
            if the check holds or no columns were computed, else the number of all columns.
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
        rows = self._up_to(build, end)
        rows.emit_first_product(build, plan)
        all_columns = build.value(self.tiles.columns)
        return build.add(arith.SelectOp(rows._are_above(build, floor), zero, all_columns))

    def _up_to(self, build: Builder, end: SSAValue) -> _Rows:
        """Return the rows with another end of the columns that are visited."""
        assert self.column_end is not None
        return replace(self, column_end=End(build.assume_below(end, self.tiles.columns + 1), self.column_end.unit))

    def _are_above(self, build: Builder, floor: float) -> SSAValue:
        """Emit whether each row has a score above `floor` among the visited columns, an i1."""

        def row(inner: Builder, i: Index, carried: Sequence[SSAValue]) -> list[SSAValue]:
            """Return whether row `i` and all rows before it have a score above the floor."""
            return [inner.add(arith.AndIOp(carried[0], self._is_row_above(inner, i, floor)))]

        true = build.pure(arith.ConstantOp(IntegerAttr(1, IntegerType(1))))
        (result,) = build.loop(0, self.span.extent, [true], row, index_below=self.tiles.rows)
        return result

    def _is_row_above(self, build: Builder, row: Index, floor: float) -> SSAValue:
        """Emit whether row `row` of the workgroup has a score above `floor` among the visited columns, an i1."""
        end, element = self.column_end, _element_type(self.chain)
        assert end is not None and isinstance(element, AnyFloat)

        def is_above(inner: Builder, column: Index) -> SSAValue:
            """Return whether the score at a column is above the floor."""
            offset = inner.plus(inner.times(row, self.tiles.stride), column)
            score = inner.add(memref.LoadOp.get(self.buffer, [inner.value(offset)]))
            limit = inner.pure(arith.ConstantOp(FloatAttr(floor, element)))
            return inner.add(arith.CmpfOp(score, limit, "ogt"))

        def unit(inner: Builder, first: Index, earlier: Sequence[SSAValue]) -> list[SSAValue]:
            """Search the unit of columns from `first` on, unless an earlier one has such a score, and return an i1."""
            stop = inner.least(inner.plus(first, COLUMN_UNIT), end.index)
            return [inner.choose(earlier[0], lambda _: earlier[0], lambda b: is_any_column(b, first, stop, is_above))]

        (is_any,) = build.loop(0, end.index, [false_constant(build)], unit, step=COLUMN_UNIT)
        return is_any

    def emit_operations(self, build: Builder) -> None:
        """Emit the row-wise operations, whose result overwrites the scores in the buffer."""
        chain, elements = self.chain, self.frame.elements
        self._read_from_buffer(chain.scores)
        # The operations are one nest over the rows, as if they were a kernel of their own that reads the scores.
        nest_of_rows = analysis.LoopNest(stores=[(chain.rows, self.buffer)], space=chain.rows)
        (nest,) = analysis.analyse(self.frame, [nest_of_rows])
        analysis.allocate_rows(self.frame, nest)
        columns = self._restrict_columns()

        def store_element(inner: Builder, indices: list[Index]) -> None:
            """Store an element of the last operation's result."""
            self._store(inner, elements.at(inner, chain.rows, indices), indices)

        def row(inner: Builder, i: Index, carried: list[SSAValue]) -> list[SSAValue]:
            """Emit the operations on one row."""
            indices: list[Index] = [0] * (len(shape_of(chain.rows)) - 1)
            for dim, index in zip(chain.outer, self.outer, strict=True):
                indices[dim] = index
            if self.tiles.axis is not None:
                indices[self.tiles.axis] = inner.plus(self.span.first, i)
            elements.begin_row(indices)
            nest.emit_row_reductions(elements, inner, indices)
            emit_inner(inner, indices, dims=[columns], low=0, high=columns, write=store_element)
            return []

        build.loop(0, self.span.extent, [], row, index_below=self.tiles.rows)
        elements.forget_rows()
        elements.forget(chain.scores)  # their memory has the rows now
        self._read_from_buffer(chain.rows)

    def _restrict_columns(self) -> Index:
        """Restrict later loops over the columns to those that are visited, and return the number of these columns."""
        if self.column_end is None:
            return self.tiles.columns
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
        if self.tiles.axis is not None:
            strides[self.tiles.axis] = self.tiles.stride
        reads_buffer = plan.compute == _element_type(chain)  # otherwise the rows are packed in another type
        view = OperandView(chain.second.a, self.buffer, tuple(strides), uses_tensor_indices=True, locate=self._offset)
        outputs = outputs_of(self.frame, result_dims)
        outer, ends = self._indices_of(chain.second_loops), self._ends_of_columns(chain.second.k)
        rows_of_a = view if reads_buffer else None
        emit_rows(self.frame, build, plan, outputs, outer, rows=self.span, a=rows_of_a, ends=ends)
