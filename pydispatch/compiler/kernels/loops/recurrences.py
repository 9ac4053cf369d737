"""Lowering of recurrences and other operations with ordered elements: rows are independent of each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from xdsl.ir import Attribute, SSAValue

from pydispatch.compiler.kernels.loops.nest_bytes import element_bytes_of
from pydispatch.compiler.kernels.loops.nests import Partition, emit_nest, partition_rows
from pydispatch.compiler.kernels.loops.tiles import COLUMN_BYTES
from pydispatch.compiler.kernels.loops.top_k import top_k_bytes, write_top_k
from pydispatch.compiler.kernels.ops.bits import bits_of
from pydispatch.compiler.kernels.ops.bodies import clone_block
from pydispatch.compiler.kernels.ops.builder import Builder, Index, load
from pydispatch.compiler.kernels.ops.elements import Elements
from pydispatch.compiler.kernels.ops.tensors import tensor_type
from pydispatch.compiler.target.backend import Backend
from pydispatch.ir.dialects.pyd.ordered import OrderedOp
from pydispatch.ir.dialects.pyd.recurrence import RecurrenceOp
from pydispatch.ir.dialects.pyd.top_k import TopKOp

STEP_BYTES = 16
"""Cost estimate of one iteration of a recurrence without its stores: bytes that are copied in the same time."""

MOST_INTERLEAVED_VALUES = 8
"""Carried values, at most, of the rows that are interleaved in one loop; more would spill registers."""

FEW_COLUMNS, MOST_COLUMNS = 16, 256
"""Adjacent rows of a workgroup: fewer do not fill vectors, more leave too few workgroups."""


def row_dims(elements: Elements, op: OrderedOp) -> list[Index]:
    """Return the sizes of the dimensions that number the rows: all but `op.along`, along which a row runs."""
    dims = list(elements.dims(op.res[0]))
    del dims[op.along]
    return dims


def row_bytes(elements: Elements, build: Builder, op: OrderedOp) -> Index:
    """Estimate the cost of a row: a copy of that many bytes takes as long as the computation of the row."""
    if isinstance(op, TopKOp):
        return top_k_bytes(elements, build, op)
    steps = elements.dims(op.res[0])[op.along]
    stored_bytes = sum(map(element_bytes_of, op.res))  # of one step
    return build.times(steps, STEP_BYTES + stored_bytes)  # STEP_BYTES: the cost of a step without its stores


def write_rows(
    elements: Elements,
    build: Builder,
    op: OrderedOp,
    buffers: dict[SSAValue, SSAValue],
    rows: Sequence[Sequence[Index]],
) -> None:
    """Emit the computation of several rows; rows of a recurrence advance in one loop.

    Args:
        elements: Tensors of the kernel.
        build: The builder.
        op: A recurrence or another operation with ordered elements.
        buffers: For each result that is stored, its buffer.
        rows: For each row, its index in each dimension but `op.along`.
    """
    if isinstance(op, RecurrenceOp):
        _RecurrenceEmitter(elements, op, buffers).emit_rows(build, rows)
        return
    assert isinstance(op, TopKOp)
    for row in rows:
        write_top_k(elements, build, op, buffers, row)


@dataclass(frozen=True)
class _RecurrenceEmitter:
    """Emitter of rows of a recurrence, and of their steps.

    The region `first` of a recurrence maps the indices of a row to its initial state: the values that are carried from
    element to element. The region `next` maps the indices of an element and the state to the next state, followed by
    the element of each result. A running sum has the state (total): `next` maps (i, total) to total + x[i], the next
    state, and total + x[i], the element.

    Attributes:
        elements: Tensors of the kernel.
        op: The recurrence.
        buffers: Result that is stored -> its buffer. A result that nothing reads has none.
    """

    elements: Elements
    op: RecurrenceOp
    buffers: dict[SSAValue, SSAValue]

    @property
    def steps(self) -> Index:
        """The number of elements of a row."""
        return self.elements.dims(self.op.res[0])[self.op.along]

    def emit_rows(self, build: Builder, rows: Sequence[Sequence[Index]]) -> None:
        """Emit all steps of some rows in one loop, which carries the states of all rows, one after the other."""
        initial = [value for row in rows for value in self.initial_state(build, row)]
        build.loop(0, self.steps, initial, partial(self._step_of_rows, rows))

    def _step_of_rows(
        self, rows: Sequence[Sequence[Index]], build: Builder, step: Index, carried: list[SSAValue]
    ) -> list[SSAValue]:
        """Emit one step of each of `rows`, and return the states of all rows after the step."""
        state_count = len(carried) // len(rows)  # carried values of a row
        next_states: list[SSAValue] = []
        computed: list[tuple[list[Index], list[SSAValue]]] = []  # of each row, its indices and elements of the results
        for position, row in enumerate(rows):
            state = carried[position * state_count : (position + 1) * state_count]
            indices = self.element_indices(row, step)
            next_state, row_elements = self.next_state(build, indices, state)
            next_states += next_state
            computed.append((indices, row_elements))
        # All stores come after the steps of all rows: a store between two steps would keep the CPU from overlapping
        # them.
        for indices, row_elements in computed:
            self.store_results(build, indices, row_elements)
        return next_states

    def initial_state(self, build: Builder, row: Sequence[Index]) -> list[SSAValue]:
        """Emit the values that a row carries into its first step, and return them."""
        block = self.op.first.block
        row_index_values: dict[SSAValue, SSAValue] = dict(zip(block.args, map(build.value, row), strict=True))
        return clone_block(self.elements, build, block, row_index_values, row)

    def element_indices(self, row: Sequence[Index], step: Index) -> list[Index]:
        """Return the indices in the results of the element of a row at a step."""
        return [*row[: self.op.along], step, *row[self.op.along :]]

    def next_state(
        self, build: Builder, indices: Sequence[Index], state: Sequence[SSAValue]
    ) -> tuple[list[SSAValue], list[SSAValue]]:
        """Emit one step of a row, and return its next state and the element of each result at `indices`."""
        block = self.op.next.block
        arguments = [*map(build.value, indices), *state]
        mapping: dict[SSAValue, SSAValue] = dict(zip(block.args, arguments, strict=True))
        values = clone_block(self.elements, build, block, mapping, indices)
        return values[: len(state)], values[len(state) :]

    def store_results(self, build: Builder, indices: Sequence[Index], row_elements: Sequence[SSAValue]) -> None:
        """Emit the stores of one element of each result that is stored."""
        for result, element in zip(self.op.res, row_elements, strict=True):
            if result in self.buffers:
                self.elements.store(build, element, self.buffers[result], indices)


def _carried_types(op: RecurrenceOp) -> list[Attribute]:
    """Return the types of the values that a row carries from step to step."""
    arguments = op.next.block.args  # the indices of an element, and then the carried values
    return [argument.type for argument in arguments[len(op.shape) :]]


def _advances_columns(op: RecurrenceOp) -> bool:
    """Return whether adjacent rows of a recurrence advance together: each step is a vectorized loop over these rows.

    A recurrence of shape 8x100x64 along dimension 1 has rows of 100 steps. Its rows (3, 0) to (3, 63) are adjacent, and
    their elements of a step are contiguous in memory. Such rows are called columns.
    """
    are_columns_contiguous = op.along != len(op.shape) - 1
    columns = op.shape[-1]  # negative if dynamic, which counts as enough
    has_enough_columns = not 0 <= columns < FEW_COLUMNS
    is_vectorizable = not any(inner.regions for inner in op.next.block.ops)  # a step has no loops or branches
    # The carried values of each column are in memory of their own: they must not share bytes with those of others.
    has_whole_bytes = all(bits_of(type_) >= 8 for type_ in _carried_types(op))
    return are_columns_contiguous and has_enough_columns and is_vectorizable and has_whole_bytes


def _most_columns(op: RecurrenceOp) -> int:
    """Return the largest number of adjacent rows, called columns, that a workgroup advances together.

    It is the number of rows whose carried values fit the first-level cache, but at least `FEW_COLUMNS`, which fill
    vectors, and at most `MOST_COLUMNS`, which leave enough workgroups.
    """
    state_bytes = sum(bits_of(type_) // 8 for type_ in _carried_types(op))  # of one row
    return max(FEW_COLUMNS, min(MOST_COLUMNS, COLUMN_BYTES // max(1, state_bytes)))


def partition_ordered_rows(elements: Elements, build: Builder, backend: Backend, op: OrderedOp) -> Partition:
    """Return the partition of the rows of an operation with ordered elements into workgroups of a CPU.

    There are two kinds of partitions. In one, a workgroup computes `rows` whole rows one after the other, and `tile` is
    0. In the other one, it computes `tile` adjacent rows of a recurrence, which advance together, step by step.
    """
    dims = row_dims(elements, op)
    rows = build.product(dims)
    may_rows_share_bytes = any(bits_of(tensor_type(result).element_type) < 8 for result in op.res)
    if may_rows_share_bytes:  # two workgroups must not write the same byte: one writes all rows
        return Partition(outer=rows, rows=rows, tile=0, tiles=1, workgroups=1)
    if not isinstance(op, RecurrenceOp) or not _advances_columns(op):
        return partition_rows(build, backend, rows, row_bytes(elements, build, op))
    # The last of the dimensions that number rows is cut into tiles.
    outer = build.product(dims[:-1])
    tile = build.least(dims[-1], _most_columns(op))
    tiles = build.ceil_quotient(dims[-1], build.most(tile, 1))
    return Partition(outer=outer, rows=1, tile=tile, tiles=tiles, workgroups=build.times(outer, tiles))


def emit_ordered_rows(
    elements: Elements,
    build: Builder,
    group: Index,
    partition: Partition,
    op: OrderedOp,
    buffers: dict[SSAValue, SSAValue],
) -> None:
    """Emit the rows of workgroup `group` of a CPU.

    A row is the elements along `op.along` at one index of each other dimension. Whole rows are emitted one after the
    other, or a few in one loop. Tiles of the last dimension are adjacent rows of a recurrence that advance together.

    Args:
        elements: Tensors of the kernel.
        build: Receives the code.
        group: Number of the workgroup.
        partition: The partition into whole rows, or into tiles of the last dimension.
        op: The operation, whose rows are computed step by step.
        buffers: For each result that is stored, its buffer.
    """
    if partition.has_whole_rows:
        _emit_rows(elements, build, group, partition, op, buffers)
    else:
        assert isinstance(op, RecurrenceOp)
        _emit_columns(elements, build, group, partition, op, buffers)


def _emit_columns(
    elements: Elements,
    build: Builder,
    group: Index,
    partition: Partition,
    op: RecurrenceOp,
    buffers: dict[SSAValue, SSAValue],
) -> None:
    """Emit the rows of a workgroup together: each step is a parallel loop over the rows, whose states are in memory.

    A workgroup has at most `_most_columns` adjacent rows, so that their states fit the first-level cache. For the
    parameters, see `emit_ordered_rows`; the partition is one into tiles of the last dimension that numbers rows.
    """
    dims = row_dims(elements, op)
    # A buffer for each carried value, with an element for each row.
    states = [elements.fresh(type_, _most_columns(op)) for type_ in _carried_types(op)]
    recurrence = _RecurrenceEmitter(elements, op, buffers)

    def emit_adjacent_rows(builder: Builder, outer: list[Index], low: Index, high: Index) -> None:
        """Emit all steps of the rows (*outer, low) to (*outer, high - 1), whose carried values are in `states`."""
        _AdjacentRows(recurrence, states, outer, low, high, limit=dims[-1]).emit(builder)

    emit_nest(build, group, partition, dims, outer_rank=len(dims) - 1, row=emit_adjacent_rows)


@dataclass(frozen=True)
class _AdjacentRows:
    """Emitter of adjacent rows of a recurrence, which advance together; `emit` emits them all.

    Results of 8x100x64 along dimension 1 have 8 * 64 rows of 100 steps. The elements of the rows (3, 0) to (3, 63) at a
    step are contiguous, so that each step is a parallel loop over these 64 rows. Such a row is called a column, after
    its index in the last dimension.

    Attributes:
        recurrence: Emits the steps of a row.
        states: For each carried value, its buffer, with an element for each column from `low` on.
        outer: Indices of the rows in the dimensions that number rows, but for the last one.
        low, high: Half-open range of the columns.
        limit: Size of the last dimension, which all column indices are below.
    """

    recurrence: _RecurrenceEmitter
    states: Sequence[SSAValue]
    outer: Sequence[Index]
    low: Index
    high: Index
    limit: Index

    def emit(self, build: Builder) -> None:
        """Emit all steps of the rows."""
        build.parallel(self.low, self.high, self._initialize, index_below=self.limit)
        build.sequential(0, self.recurrence.steps, self._step)

    def _initialize(self, build: Builder, column: Index) -> None:
        """Emit the initial carried values of one column, and their stores."""
        self._store_states(build, column, self.recurrence.initial_state(build, [*self.outer, column]))

    def _step(self, build: Builder, time_step: Index) -> None:
        """Emit one step of all columns as a parallel loop."""
        build.parallel(self.low, self.high, partial(self._column_step, time_step), index_below=self.limit)

    def _column_step(self, time_step: Index, build: Builder, column: Index) -> None:
        """Emit one step of one column: load its carried values, compute, store results and next values."""
        indices = self.recurrence.element_indices([*self.outer, column], time_step)
        state = [load(build, buffer, build.minus(column, self.low)) for buffer in self.states]
        next_state, row_elements = self.recurrence.next_state(build, indices, state)
        self.recurrence.store_results(build, indices, row_elements)
        self._store_states(build, column, next_state)

    def _store_states(self, build: Builder, column: Index, values: Sequence[SSAValue]) -> None:
        """Emit the stores of the carried values of one column."""
        for buffer, value in zip(self.states, values, strict=True):
            self.recurrence.elements.store(build, value, buffer, [build.minus(column, self.low)])


def _emit_rows(
    elements: Elements,
    build: Builder,
    group: Index,
    partition: Partition,
    op: OrderedOp,
    buffers: dict[SSAValue, SSAValue],
) -> None:
    """Emit the `partition.rows` adjacent rows of a workgroup, each of them whole.

    Several rows of a recurrence advance in one loop: they are independent, so that the CPU overlaps their steps. For
    the parameters, see `emit_ordered_rows`.
    """
    dims, all_rows = row_dims(elements, op), partition.outer
    low = build.times(group, partition.rows)
    high = build.least(build.plus(low, partition.rows), all_rows)
    per_loop = _rows_per_loop(op)
    # The end of the rows that fill whole loops.
    whole_loops = build.quotient(build.minus(high, low), per_loop)
    interleaved_end = build.plus(low, build.times(whole_loops, per_loop))

    def emit_adjacent_rows(count: int, builder: Builder, first: Index) -> None:
        """Emit `count` rows from row `first` on, in the row-major order of their indices, whose sizes are `dims`."""
        rows = [builder.split(builder.plus(first, i), dims) for i in range(count)]
        for indices in rows:
            if indices and isinstance(indices[0], SSAValue):
                # `split` has recorded that the other indices are below their sizes: they are remainders.
                builder.assume_below(indices[0], dims[0])
        write_rows(elements, builder, op, buffers, rows)

    emit_row = partial(emit_adjacent_rows, 1)
    if all_rows == 1:  # a single row needs no loop
        emit_row(build, 0)
        return
    emit_interleaved = partial(emit_adjacent_rows, per_loop)
    build.sequential(low, interleaved_end, emit_interleaved, step=per_loop, index_below=all_rows)
    build.sequential(interleaved_end, high, emit_row, index_below=all_rows)


def _rows_per_loop(op: OrderedOp) -> int:
    """Return how many rows one loop interleaves: as many as have their carried values in registers."""
    if not isinstance(op, RecurrenceOp):
        return 1
    return max(1, MOST_INTERLEAVED_VALUES // max(1, len(_carried_types(op))))
