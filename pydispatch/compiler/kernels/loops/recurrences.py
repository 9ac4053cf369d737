"""Lowering of recurrences and other operations with ordered elements: rows are independent of each other."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import memref
from xdsl.ir import Attribute, SSAValue

from pydispatch.compiler.kernels.loops.nests import Partition, emit_nest, partition_rows
from pydispatch.compiler.kernels.loops.tiles import COLUMN_BYTES
from pydispatch.compiler.kernels.loops.top_k import top_k_bytes, write_top_k
from pydispatch.compiler.kernels.ops.bits import bits_of
from pydispatch.compiler.kernels.ops.bodies import clone_block
from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.compiler.kernels.ops.elements import Elements
from pydispatch.compiler.kernels.ops.tensors import tensor_type
from pydispatch.compiler.target.backend import Backend
from pydispatch.ir.dialects.pyd.ordered import OrderedOp
from pydispatch.ir.dialects.pyd.recurrence import RecurrenceOp
from pydispatch.ir.dialects.pyd.top_k import TopKOp

STEP_BYTES = 16
"""Cost estimate of a step without its stores, as the number of bytes that are copied in the same time."""

AT_ONCE = 8
"""Carried values, at most, of the rows that are interleaved in one loop; more would spill registers."""

FEW_COLUMNS, MOST_COLUMNS = 16, 256
"""Adjacent rows of a workgroup: fewer do not fill vectors, more leave too few workgroups."""


def row_dims(elements: Elements, op: OrderedOp) -> list[Index]:
    """Return the sizes of all dimensions but that of the recurrence; their product is the number of rows."""
    dims = list(elements.dims(op.res[0]))
    del dims[op.along]
    return dims


def row_bytes(elements: Elements, build: Builder, op: OrderedOp) -> Index:
    """Return the cost estimate of a row, as the number of bytes that are copied in the same time."""
    if isinstance(op, TopKOp):
        return top_k_bytes(elements, build, op)
    stored = sum(max(1, bits_of(tensor_type(r).element_type) // 8) for r in op.res)
    return build.times(elements.dims(op.res[0])[op.along], STEP_BYTES + stored)


def write_rows(
    e: Elements, build: Builder, op: OrderedOp, buffers: dict[SSAValue, SSAValue], rows: Sequence[Sequence[Index]]
) -> None:
    """Emit the computation of several rows, of a recurrence in one loop.

    buffers: the buffer of each result that is stored. rows: the indices of each row, without the dimension along which
    it runs.
    """
    if isinstance(op, TopKOp):
        for row in rows:
            write_top_k(e, build, op, buffers, row)
        return
    assert isinstance(op, RecurrenceOp)
    axis, block = op.along, op.next.block
    initial: list[SSAValue] = []
    for row in rows:
        mapping: dict[SSAValue, SSAValue] = dict(zip(op.first.block.args, map(build.value, row), strict=True))
        initial += clone_block(e, build, op.first.block, mapping, row)
    count = len(initial) // len(rows)

    def step(inner: Builder, index: Index, carried: list[SSAValue]) -> list[SSAValue]:
        """Emit one step of every row, and return the states after it."""
        following: list[SSAValue] = []
        elements: list[tuple[SSAValue, SSAValue, list[Index]]] = []
        for row_index, row in enumerate(rows):
            indices = [*row[:axis], index, *row[axis:]]
            row_carried = carried[row_index * count : (row_index + 1) * count]
            values: dict[SSAValue, SSAValue] = dict(
                zip(block.args, [*map(inner.value, indices), *row_carried], strict=True)
            )
            results = clone_block(e, inner, block, values, indices)
            following += results[:count]
            elements += [(element, value, indices) for value, element in zip(op.res, results[count:], strict=True)]
        for element, value, indices in elements:
            if value in buffers:
                e.store(inner, element, buffers[value], indices)
        return following

    build.loop(0, e.dims(op.res[0])[axis], initial, step)


def _carried_types(op: RecurrenceOp) -> list[Attribute]:
    """Return the types of the values that a row carries from step to step."""
    return [a.type for a in op.next.block.args][len(op.shape) :]


def _advances_columns(op: RecurrenceOp) -> bool:
    """Return whether adjacent rows are advanced together, by a vectorized loop over rows in each step: elements of many
    rows are contiguous, and the body has no nested regions."""
    last = op.shape[-1]
    if op.along == len(op.shape) - 1 or 0 <= last < FEW_COLUMNS or any(r.regions for r in op.next.block.ops):
        return False
    return all(bits_of(type_) >= 8 for type_ in _carried_types(op))


def _most_columns(op: RecurrenceOp) -> int:
    """Return the largest number of adjacent rows of a workgroup whose carried values fit the first-level cache."""
    carried = sum(bits_of(type_) // 8 for type_ in _carried_types(op))
    return max(FEW_COLUMNS, min(MOST_COLUMNS, COLUMN_BYTES // max(1, carried)))


def partition_ordered_rows(elements: Elements, build: Builder, backend: Backend, op: OrderedOp) -> Partition:
    """Partition the rows of an operation into workgroups of a CPU."""
    dims = row_dims(elements, op)
    rows = build.product(dims)
    if any(
        bits_of(tensor_type(r).element_type) < 8 for r in op.res
    ):  # two rows may share a byte, so one workgroup writes all
        return Partition(outer=rows, rows=rows, tile=0, tiles=1, workgroups=1)
    if not isinstance(op, RecurrenceOp) or not _advances_columns(op):
        return partition_rows(build, backend, rows, row_bytes(elements, build, op))
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
    """Emit the rows of workgroup number `group` of a CPU."""
    if partition.tiles == 1 and not isinstance(partition.tile, SSAValue) and partition.tile == 0:
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
    """Emit adjacent rows together: a step is a parallel loop over them, and their carried values are in memory."""
    dims, axis, block = row_dims(elements, op), op.along, op.next.block
    states = [elements.fresh(type_, _most_columns(op)) for type_ in _carried_types(op)]

    def run(builder: Builder, outer: list[Index], low: Index, high: Index) -> None:
        """Emit every step of the columns low to high, whose states are in memory."""

        def store_states(builder: Builder, column: Index, values: Sequence[SSAValue]) -> None:
            """Store the states of one column."""
            for state, value in zip(states, values, strict=True):
                elements.store(builder, value, state, [builder.minus(column, low)])

        def begin(builder: Builder, column: Index) -> None:
            """Store the states of one column before the first step."""
            row = [*outer, column]
            mapping: dict[SSAValue, SSAValue] = dict(zip(op.first.block.args, map(builder.value, row), strict=True))
            store_states(builder, column, clone_block(elements, builder, op.first.block, mapping, row))

        def step(builder: Builder, time_step: Index, carried: list[SSAValue]) -> list[SSAValue]:
            """Emit one step of all columns."""

            def one_column(builder: Builder, column: Index) -> None:
                """Emit one step of a column."""
                row = [*outer, column]
                indices = [*row[:axis], time_step, *row[axis:]]
                state_values = [
                    builder.add(memref.LoadOp.get(s, [builder.value(builder.minus(column, low))])) for s in states
                ]
                values = [*map(builder.value, indices), *state_values]
                mapping: dict[SSAValue, SSAValue] = dict(zip(block.args, values, strict=True))
                results = clone_block(elements, builder, block, mapping, indices)
                for result, element in zip(op.res, results[len(states) :], strict=True):
                    if result in buffers:
                        elements.store(builder, element, buffers[result], indices)
                store_states(builder, column, results[: len(states)])

            builder.parallel(low, high, one_column, limit=dims[-1])
            return []

        builder.parallel(low, high, begin, limit=dims[-1])
        builder.loop(0, elements.dims(op.res[0])[axis], [], step)

    emit_nest(build, group, partition, dims, len(dims) - 1, run)


def _emit_rows(
    elements: Elements,
    build: Builder,
    group: Index,
    partition: Partition,
    op: OrderedOp,
    buffers: dict[SSAValue, SSAValue],
) -> None:
    """Emit whole rows, several interleaved in one loop: a step depends only on the previous step of its own row."""
    dims = row_dims(elements, op)
    low = build.times(group, partition.rows)
    high = build.least(build.plus(low, partition.rows), partition.outer)
    row_count = max(1, AT_ONCE // max(1, len(_carried_types(op)))) if isinstance(op, RecurrenceOp) else 1
    interleaved_end = build.plus(low, build.times(build.quotient(build.minus(high, low), row_count), row_count))

    def emit_rows(builder: Builder, first: Index, count: int) -> None:
        """Emit `count` adjacent rows, from the flat index `first` on."""
        rows_of_indices = [builder.split(builder.plus(first, i), dims) for i in range(count)]
        for row in rows_of_indices:
            if row and isinstance(row[0], SSAValue):
                builder.bounded(row[0], dims[0])
        write_rows(elements, builder, op, buffers, rows_of_indices)

    def interleaved(builder: Builder, first: Index, carried: list[SSAValue]) -> list[SSAValue]:
        emit_rows(builder, first, row_count)
        return []

    def single(builder: Builder, row: Index, carried: list[SSAValue]) -> list[SSAValue]:
        emit_rows(builder, row, 1)
        return []

    # A single row needs no loop.
    if partition.outer == 1:
        emit_rows(build, 0, 1)
        return
    build.loop(low, interleaved_end, [], interleaved, step=row_count, limit=partition.outer)
    build.loop(interleaved_end, high, [], single, limit=partition.outer)
