"""Code of a workgroup for one loop nest on a CPU."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from xdsl.ir import SSAValue

from pydispatch.compiler.kernels.loops.columns import (
    ColumnBuffers,
    ColumnRange,
    emit_column_reductions,
    max_columns,
)
from pydispatch.compiler.kernels.loops.frame import Frame
from pydispatch.compiler.kernels.loops.loop_nest import LoopNest
from pydispatch.compiler.kernels.loops.nest_bytes import elements_per_byte
from pydispatch.compiler.kernels.loops.nests import Partition, emit_inner, emit_nest
from pydispatch.compiler.kernels.loops.ordered_updates import emit_in_order
from pydispatch.compiler.kernels.loops.pipelined import find_pipelined
from pydispatch.compiler.kernels.loops.recurrences import emit_ordered_rows
from pydispatch.compiler.kernels.loops.row_storage import allocate_rows
from pydispatch.compiler.kernels.loops.tiled_transpose import emit_transposed
from pydispatch.compiler.kernels.loops.updates import UpdateStep
from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.compiler.kernels.ops.elements import Elements
from pydispatch.ir.dialects.pyd.ordered import OrderedOp


@dataclass(frozen=True)
class CpuNestEmitter:
    """Emitter of the code of a workgroup for one nest.

    Attributes:
        frame: The kernel under construction.
        nest: The nest.
        partition: The partition of the nest into workgroups.
    """

    frame: Frame
    nest: LoopNest
    partition: Partition

    @property
    def elements(self) -> Elements:
        """The emitter of elements of tensors."""
        return self.frame.elements

    def emit(self, build: Builder, group: Index) -> None:
        """Emit the part of the nest that workgroup `group` computes."""
        elements, nest, partition = self.elements, self.nest, self.partition
        per_byte = elements_per_byte(nest.representative)  # equal for all results of a nest
        if isinstance(nest.space, UpdateStep):
            self._emit_update(build, group, nest.space)
        elif isinstance(nest.space, OrderedOp):
            emit_ordered_rows(elements, build, group, partition, nest.space, dict(nest.stores))
        elif per_byte > 1:
            emit_bytes(self.frame, nest, partition, build, group, nest.dims(elements), per_byte)
        else:
            allocate_rows(self.frame, nest)
            self._emit_results(build, group, nest.dims(elements))
            elements.forget_rows()

    def _emit_update(self, build: Builder, group: Index, update: UpdateStep) -> None:
        """Emit the elements that an update, such as an inserted slice or a scatter, writes, with their computation."""
        value, buffer = self.nest.stores[0]

        def write(builder: Builder, indices: list[Index]) -> None:
            """Emit the store of the element that the update writes at `indices` of, for example, the inserted slice."""
            update.write(self.elements, builder, value, buffer, indices)

        is_ordered = update.slice_index_rank > 0  # its slices may write the same element
        if is_ordered:
            has_whole_bytes = elements_per_byte(value) == 1
            emit_in_order(self.elements, build, group, self.partition, update, write, has_whole_bytes=has_whole_bytes)
            return
        dims = update.dims(self.elements)
        outer_rank = self._outer_rank(dims)

        def emit_row(builder: Builder, outer: list[Index], low: Index, high: Index) -> None:
            """Emit the elements `low` to `high` at the indices `outer` of the outer dimensions."""
            emit_inner(builder, outer, dims[outer_rank:], low=low, high=high, write=write)

        emit_nest(build, group, self.partition, dims, outer_rank=outer_rank, row=emit_row)

    def _emit_results(self, build: Builder, group: Index, dims: list[Index]) -> None:
        """Emit results whose elements are whole bytes, with their reductions; `dims` are the sizes of the nest.

        A nest has reductions of rows, which run once per row (`nest.by_rows`), or of columns, which run for a range of
        columns at once (`nest.columns`), or neither.
        """
        elements, nest, partition = self.elements, self.nest, self.partition
        if nest.transposition is not None:
            emit_transposed(elements, build, group, partition, dims, nest.transposition, nest.stores)
            return
        outer_rank = self._outer_rank(dims)
        write = partial(store_elements, elements, nest)  # of one element of each result, from a builder and its indices
        column_buffers = ColumnBuffers.allocate(elements, nest.columns, self._most_columns())

        def emit_row(builder: Builder, outer: list[Index], low: Index, high: Index) -> None:
            """Emit the elements `low` to `high`, or columns, at the indices `outer`, after the reductions for them."""
            if nest.by_rows:
                emit_row_values(elements, builder, nest, outer)
                # Nothing is left to emit if the reductions have computed, and stored, the whole row of each result.
                if all(is_stored(elements, value, buffer) for value, buffer in nest.stores):
                    return
            # The results of column reductions are read from buffers, which the next range of columns overwrites.
            columns = ColumnRange(outer, dims, low, high)
            emit_column_reductions(elements, builder, nest.columns, columns, column_buffers)
            emit_inner(builder, outer, dims[outer_rank:], low=low, high=high, write=write)
            column_buffers.forget(elements)

        pipeline = find_pipelined(elements, nest) if nest.by_rows else None
        emit_nest(build, group, partition, dims, outer_rank=outer_rank, row=emit_row, pipeline=pipeline)

    def _most_columns(self) -> int:
        """Return the largest number of columns of a workgroup; 1 for a nest without column reductions."""
        if not self.nest.columns:
            return 1
        limit, tile = max_columns(self.nest.columns), self.partition.tile
        return max(1, min(limit, tile) if isinstance(tile, int) else limit)

    def _outer_rank(self, dims: list[Index]) -> int:
        """Return the number of outer dimensions of the nest, which has the sizes `dims`: those that number its rows.

        If reductions do not give it rows of their own, only the last dimension is inner.
        """
        return self.nest.outer_rank if self.nest.by_rows else max(0, len(dims) - 1)


def store_elements(elements: Elements, nest: LoopNest, build: Builder, indices: list[Index]) -> None:
    """Emit the elements of all results of a nest at `indices`, and their stores in the buffers of the results.

    A result is skipped if an earlier loop over the same row has stored it, such as one that a reduction along the row
    reads. All elements are computed before any is stored: the row of one result may still hold another value, such as
    the exponentials of a softmax, from which elements of other results are computed.
    """
    stores = [(value, buffer) for value, buffer in nest.stores if not is_stored(elements, value, buffer)]
    computed = [(elements.at(build, value, indices), buffer) for value, buffer in stores]
    for element, buffer in computed:
        elements.store(build, element, buffer, indices)


def is_stored(elements: Elements, value: SSAValue, buffer: SSAValue) -> bool:
    """Return whether an earlier loop of the row has already stored a result in its own buffer."""
    row_buffer = elements.row_buffers.get(value)
    return row_buffer is not None and row_buffer.buffer is buffer and row_buffer.filled is not None


def emit_row_values(elements: Elements, build: Builder, nest: LoopNest, indices: list[Index]) -> None:
    """Emit the reductions of the row at `indices`, and the stores of results that have one element in each row."""
    elements.begin_row(indices)
    nest.emit_row_reductions(elements, build, indices)
    for value, buffer in nest.row_stores:
        elements.store(build, elements.at(build, value, indices), buffer, indices)


def emit_bytes(
    frame: Frame, nest: LoopNest, partition: Partition, build: Builder, group: Index, dims: list[Index], per_byte: int
) -> None:
    """Emit loops over the bytes of results with elements of less than a byte.

    Each iteration writes the `per_byte` elements of one byte, so that no two workgroups write the same byte. For
    results of 4 bits, iteration 5 writes the elements 10 and 11.

    Args:
        frame: The kernel under construction.
        nest: The nest.
        partition: Partition of the bytes into workgroups.
        build: The builder.
        group: Number of the workgroup.
        dims: Sizes of the dimensions of the nest, in elements.
        per_byte: Number of elements in a byte.
    """
    entry = frame.elements.entry
    element_count = entry.product(dims)
    byte_count = entry.ceil_quotient(element_count, per_byte)
    is_last_byte_full = isinstance(element_count, int) and element_count % per_byte == 0

    def write_byte(builder: Builder, byte_index: Index) -> None:
        """Emit the stores of the elements of one byte."""
        for index_in_byte in range(per_byte):
            linear_index = builder.linear(byte_index, per_byte, index_in_byte)
            exists = True if is_last_byte_full else builder.less(linear_index, element_count)
            builder.when(exists, partial(_store_in_byte, frame.elements, nest, dims, linear_index))

    def write_bytes(builder: Builder, _outer: list[Index], low: Index, high: Index) -> None:
        """Emit the stores of the bytes `low` to `high`. The nest of bytes has no outer dimensions."""
        builder.parallel(low, high, write_byte, index_below=byte_count)

    emit_nest(build, group, partition, dims=[byte_count], outer_rank=0, row=write_bytes)


def _store_in_byte(elements: Elements, nest: LoopNest, dims: list[Index], linear_index: Index, build: Builder) -> None:
    """Emit the store of the element of each result at a row-major linear index of a nest of sizes `dims`.

    Only the calling iteration writes its byte (`own_byte`), so that the store need not be atomic.
    """
    indices = build.split(linear_index, dims)
    for value, buffer in nest.stores:
        elements.store(build, elements.at(build, value, indices), buffer, indices, own_byte=True)
