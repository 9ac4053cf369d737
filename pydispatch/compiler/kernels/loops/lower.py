"""Lowering of dispatch functions to loop nests for CPUs: elementwise operations, copies, reductions, updates.

Results of the same sizes share a nest. The nests of a kernel share its grid: workgroup i computes part i of each nest
that has so many.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from xdsl.ir import OpResult, SSAValue

from pydispatch.compiler.kernels.loops.analysis import LoopNest, allocate_rows, analyse
from pydispatch.compiler.kernels.loops.columns import (
    ColumnBuffers,
    ColumnRange,
    emit_column_reductions,
    max_columns,
)
from pydispatch.compiler.kernels.loops.frame import Frame, Kernel, count_region
from pydispatch.compiler.kernels.loops.nest_bytes import element_bytes_of, elements_per_byte, estimate_read_bytes
from pydispatch.compiler.kernels.loops.nests import (
    Partition,
    Write,
    emit_inner,
    emit_nest,
    partition_columns,
    partition_elements,
    partition_rows,
)
from pydispatch.compiler.kernels.loops.ordered_updates import emit_in_order, partition_in_order
from pydispatch.compiler.kernels.loops.pipelined import find_pipelined
from pydispatch.compiler.kernels.loops.recurrences import emit_ordered_rows, partition_ordered_rows
from pydispatch.compiler.kernels.loops.tiled_transpose import emit_transposed, partition_transposed
from pydispatch.compiler.kernels.loops.updates import UpdateStep, starts_empty, updates_of
from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.compiler.kernels.ops.elements import Elements
from pydispatch.compiler.kernels.ops.tensors import tensor_type
from pydispatch.compiler.target.backend import Backend
from pydispatch.errors import CompileError
from pydispatch.ir.dialects.pyd.ordered import OrderedOp


def lower_loops(frame: Frame) -> Kernel:
    """Lower a dispatch function to a kernel of loop nests for a CPU.

    A nest computes the results of one shape. Workgroup i computes part i of each nest that is partitioned into more
    than i parts. A single workgroup runs all nests if the grid cannot be computed from the workload.
    """
    elements, build = frame.elements, frame.build
    nests = analyse(frame, nests_of(frame))
    partitions = [_partition_nest(frame.backend, nest, elements, build) for nest in nests]
    # One workgroup for all nests, if the kernel alone knows a size that a number of parts depends on.
    is_serial = not _is_grid_computable(frame, nests)
    if is_serial:
        for nest, partition in zip(nests, partitions, strict=True):
            _emit_serially(frame, nest, partition)
        return frame.finish(workgroups=None)
    # Else the grid has as many workgroups as the nest with the most parts: emit this workgroup's part of each nest.
    is_single_group = all(
        isinstance(partition.workgroups, int) and partition.workgroups == 1 for partition in partitions
    )
    group: Index = 0 if is_single_group else frame.workgroup()
    if len(nests) == 1:
        (nest,), (partition,) = nests, partitions
        if isinstance(group, SSAValue):
            build.assume_below(group, partition.workgroups)
        _emit(frame, nest, partition, build, group)
    else:
        for nest, partition in zip(nests, partitions, strict=True):
            has_group = build.less(group, partition.workgroups)
            build.when(has_group, partial(_emit_in_branch, frame, nest, partition, group))

    def grid(grid_elements: Elements, grid_build: Builder) -> Index:
        """Emit the number of workgroups into the region that computes the grid on the host."""
        return _grid(frame.backend, nests, grid_elements, grid_build)

    # If a workgroup accesses only its slice of each binding, dispatches can run slice by slice.
    elements_of_slice = partitions[0].contiguous if len(nests) == 1 else 0
    return frame.finish(workgroups=grid, tiles=slice_bytes_of(frame, elements_of_slice))


def slice_bytes_of(frame: Frame, elements_of_slice: int) -> tuple[int, ...]:
    """Return, for each binding, the bytes of the slice that a workgroup accesses; () if workgroups have no slices.

    Workgroup i accesses only slice i of a binding: with slices of 1024 bytes, workgroup 2 accesses the bytes 2048 to
    3071. 0 stands for a binding of which any workgroup may access any byte. `elements_of_slice` is the number of
    adjacent elements that a workgroup computes; 0 if they are not adjacent.
    """
    new_results = [v for v, argument in zip(frame.returned, frame.updated, strict=True) if argument is None]
    tensors = [*frame.tensors, *new_results]  # in the order of the bindings
    is_flat = frame.elements.flat is not None  # every tensor is read as one dimension, at the index that is written
    has_packed_elements = any(elements_per_byte(v) > 1 for v in tensors)
    if not is_flat or not elements_of_slice or has_packed_elements:
        return ()
    # Every workgroup reads a tensor of rank 0.
    return tuple(elements_of_slice * element_bytes_of(v) if tensor_type(v).get_num_dims() else 0 for v in tensors)


def lower_whole(frame: Frame) -> Kernel:
    """Lower a dispatch function whose body is the code of one workgroup, of a grid that the user chose.

    The body reads the workgroup's number, and computes the part of the results that belongs to this workgroup. Nests
    are therefore not divided among workgroups here.
    """
    elements, build = frame.elements, frame.build
    # A result is a slice that is inserted into a `tensor.empty`. Only the slice is stored: other workgroups write the
    # elements outside of it.
    for nest in analyse(frame, nests_of(frame, only_inserted_slices=True)):
        _emit_serially(frame, nest, _partition_nest(frame.backend, nest, elements, build))
    return frame.finish(workgroups=None)


def _emit_in_branch(frame: Frame, nest: LoopNest, partition: Partition, group: Index, build: Builder) -> None:
    """Emit part `group` of a nest in a branch of `Builder.when`, which passes the builder as the last argument."""
    _emit(frame, nest, partition, build, group)


def _grid(backend: Backend, nests: Sequence[LoopNest], elements: Elements, build: Builder) -> Index:
    """Return the number of workgroups of the nest that has the most.

    `elements` has the tensors, with sizes that are values in the block of `build`.
    """
    workgroups: Index = 0
    for nest in nests:
        workgroups = build.most(workgroups, _partition_nest(backend, nest, elements, build).workgroups)
    return workgroups


def _is_grid_computable(frame: Frame, nests: Sequence[LoopNest]) -> bool:
    """Return whether the grid can be computed from the workload alone: the sizes that the dispatch passes for it."""
    try:  # emits the computation as an experiment; it raises an error at a size that the workload does not have
        count_region(frame.source, lambda elements, build: _grid(frame.backend, nests, elements, build), frame.elements)
    except CompileError:
        return False
    return True


def _emit_serially(frame: Frame, nest: LoopNest, partition: Partition) -> None:
    """Emit a loop in which one workgroup computes what all workgroups of `partition` would compute of a nest."""
    frame.build.sequential(0, partition.workgroups, partial(_emit, frame, nest, partition))


def nests_of(frame: Frame, only_inserted_slices: bool = False) -> list[LoopNest]:
    """Return the loop nests of a dispatch function: one for all results of the same sizes, one for each update.

    Results f32[64, 100], f32[64] and i32[64, 100] have two nests: the first and the last share one. The `space` of a
    nest is what its loops run over: an update, an operation with ordered elements, or a result.

    With `only_inserted_slices`, a slice that is inserted into a `tensor.empty` has a nest over the slice alone, as if
    it updated an argument: other elements of the result are not written.
    """
    nests: list[LoopNest] = []
    # Ordered operation, or (sizes, elements per byte) -> the nest of its results. Elements that share bytes have nests
    # of their own, which iterate over bytes.
    shared_nests: dict[object, LoopNest] = {}
    for value, updated_argument, buffer in zip(frame.returned, frame.updated, frame.results, strict=True):
        is_update = updated_argument is not None or (only_inserted_slices and starts_empty(value))
        if is_update:
            nests += [LoopNest(stores=[(value, buffer)], space=update) for update in updates_of(value)]
            continue
        ordered = value.op if isinstance(value, OpResult) and isinstance(value.op, OrderedOp) else None
        key = ordered or (tuple(frame.elements.dims(value)), elements_per_byte(value))
        if key in shared_nests:
            shared_nests[key].stores.append((value, buffer))
        else:
            shared_nests[key] = LoopNest(stores=[(value, buffer)], space=ordered or value)
            nests.append(shared_nests[key])
    return nests


def _partition_nest(backend: Backend, nest: LoopNest, elements: Elements, build: Builder) -> Partition:
    """Return the partition of a nest into workgroups, by an estimate of the bytes that elements or rows access.

    The first case that applies decides: rows of ordered elements, ordered updates, elements of less than a byte, nests
    with rows, transposed operands, column reductions, and other elements.
    """
    dims = nest.dims(elements)
    per_byte = elements_per_byte(nest.representative)  # equal for all results of a nest
    if isinstance(nest.space, OrderedOp):
        return partition_ordered_rows(elements, build, backend, nest.space)
    if per_byte == 1 and isinstance(nest.space, UpdateStep) and nest.space.slice_index_rank:
        return partition_in_order(elements, build, nest.space)
    if per_byte > 1 and isinstance(nest.space, UpdateStep):
        # One workgroup has all rows: several ones could share a byte, and would need atomic stores, which are so slow
        # that only some 20 workgroups or more would be faster than one.
        slice_dims = dims[nest.space.slice_index_rank :]  # without those that number slices, which are visited in order
        rows = build.product(slice_dims[:-1])
        return Partition(outer=rows, rows=rows, tile=slice_dims[-1] if slice_dims else 1, tiles=1, workgroups=1)
    if per_byte > 1:
        byte_count = build.ceil_quotient(build.product(dims), per_byte)
        # Each element of a byte is computed and inserted with operations of its own: it costs as much as 2 bytes.
        return partition_elements(build, backend, [byte_count], bytes_per_element=2 * per_byte)
    read_bytes, loop_bytes = estimate_read_bytes(nest, elements, build)  # outside of reductions, in reductions
    element_bytes = sum(element_bytes_of(value) for value, _ in nest.stores) + read_bytes
    if nest.by_rows:  # reductions run once per row, before its elements
        inner = build.product(dims[nest.outer_rank :])
        row_bytes = build.plus(build.times(inner, element_bytes), loop_bytes)
        return partition_rows(build, backend, build.product(dims[: nest.outer_rank]), row_bytes)
    if nest.transposition is not None:  # no reductions
        return partition_transposed(build, backend, dims, nest.transposition, element_bytes)
    if nest.columns:  # reductions of ranges of columns, which cost more than their results
        return partition_columns(build, backend, dims, loop_bytes, widest=max_columns(nest.columns))
    return partition_elements(build, backend, dims, build.plus(element_bytes, loop_bytes))


def _emit(frame: Frame, nest: LoopNest, partition: Partition, build: Builder, group: Index) -> None:
    """Emit the part of a nest that workgroup `group` of `partition` computes."""
    elements = frame.elements
    per_byte = elements_per_byte(nest.representative)  # equal for all results of a nest
    if isinstance(nest.space, UpdateStep):
        _emit_update(elements, build, group, partition, nest, nest.space)
    elif isinstance(nest.space, OrderedOp):
        emit_ordered_rows(elements, build, group, partition, nest.space, dict(nest.stores))
    elif per_byte > 1:
        emit_bytes(frame, nest, partition, build, group, elements.dims(nest.space), per_byte)
    else:
        allocate_rows(frame, nest)
        _emit_results(elements, build, group, partition, nest, elements.dims(nest.space))
        elements.forget_rows()


def _emit_update(
    elements: Elements, build: Builder, group: Index, partition: Partition, nest: LoopNest, update: UpdateStep
) -> None:
    """Emit the elements of an update that workgroup `group` writes, each with its computation.

    Args:
        elements: Tensors of the kernel.
        build: The builder.
        group: Number of the workgroup.
        partition: Partition of the written elements into workgroups.
        nest: The nest of the update, with the result and its buffer.
        update: The update, such as an inserted slice or a scatter.
    """
    value, buffer = nest.stores[0]

    def write(builder: Builder, indices: list[Index]) -> None:
        """Emit the store of the element that the update writes at `indices` of, for example, the inserted slice."""
        update.write(elements, builder, value, buffer, indices)

    is_ordered = update.slice_index_rank > 0  # its slices may write the same element
    if is_ordered:
        has_whole_bytes = elements_per_byte(value) == 1
        emit_in_order(elements, build, group, partition, update, write, has_whole_bytes=has_whole_bytes)
        return
    dims = update.dims(elements)
    outer_rank = _outer_rank(nest, dims)

    def emit_row(builder: Builder, outer: list[Index], low: Index, high: Index) -> None:
        """Emit the elements `low` to `high` at the indices `outer` of the outer dimensions."""
        emit_inner(builder, outer, dims[outer_rank:], low=low, high=high, write=write)

    emit_nest(build, group, partition, dims, outer_rank=outer_rank, row=emit_row)


def _emit_results(
    elements: Elements, build: Builder, group: Index, partition: Partition, nest: LoopNest, dims: list[Index]
) -> None:
    """Emit the elements that workgroup `group` of `partition` computes, for results whose elements are whole bytes.

    `dims` are the sizes of the nest.
    """
    if nest.transposition is not None:
        emit_transposed(elements, build, group, partition, dims, nest.transposition, nest.stores)
    else:
        write = partial(store_elements, elements, nest)  # of one element of each result, from a builder and its indices
        _emit_nest(elements, build, group, partition, nest, dims, write)


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


def _most_columns(nest: LoopNest, partition: Partition) -> int:
    """Return the largest number of columns of a workgroup; 1 for a nest without column reductions."""
    if not nest.columns:
        return 1
    limit, tile = max_columns(nest.columns), partition.tile
    return max(1, min(limit, tile) if isinstance(tile, int) else limit)


def _outer_rank(nest: LoopNest, dims: list[Index]) -> int:
    """Return the number of outer dimensions of a nest of sizes `dims`: those that number its rows.

    If reductions do not give it rows of their own, only the last dimension is inner.
    """
    return nest.outer_rank if nest.by_rows else max(0, len(dims) - 1)


def _emit_nest(
    elements: Elements,
    build: Builder,
    group: Index,
    partition: Partition,
    nest: LoopNest,
    dims: list[Index],
    write: Write,
) -> None:
    """Emit the part of a nest that workgroup `group` computes, with its reductions.

    A nest has reductions of rows, which run once per row (`nest.by_rows`), or of columns, which run for a range of
    columns at once (`nest.columns`), or neither.

    Args:
        elements: Tensors of the kernel.
        build: The builder.
        group: Number of the workgroup.
        partition: Partition of the nest into workgroups.
        nest: The nest.
        dims: Sizes of its dimensions.
        write: Emits the element of each result at some indices, and its store.
    """
    outer_rank = _outer_rank(nest, dims)
    inner_dims = dims[outer_rank:]
    column_buffers = ColumnBuffers.allocate(elements, nest.columns, _most_columns(nest, partition))

    def emit_row(builder: Builder, outer: list[Index], low: Index, high: Index) -> None:
        """Emit the reductions at the indices `outer` of the outer dimensions, and the elements `low` to `high` there.

        These are columns `low` to `high` if the nest has reductions of columns.
        """
        if nest.by_rows:
            emit_row_values(elements, builder, nest, outer)
            # Nothing is left to emit if the reductions have computed, and stored, the whole row of each result.
            if all(is_stored(elements, value, buffer) for value, buffer in nest.stores):
                return
        # The results of column reductions are read from buffers, which the next range of columns overwrites.
        columns = ColumnRange(outer, dims, low, high)
        emit_column_reductions(elements, builder, nest.columns, columns, column_buffers)
        emit_inner(builder, outer, inner_dims, low=low, high=high, write=write)
        column_buffers.forget(elements)

    pipeline = find_pipelined(elements, nest) if nest.by_rows else None
    emit_nest(build, group, partition, dims, outer_rank=outer_rank, row=emit_row, pipeline=pipeline)


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
    elements = frame.elements
    element_count = elements.entry.product(dims)
    byte_count = elements.entry.ceil_quotient(element_count, per_byte)
    is_last_byte_full = isinstance(element_count, int) and element_count % per_byte == 0

    def store_element(builder: Builder, linear_index: Index) -> None:
        """Store the element of each result at a row-major linear index.

        Only this iteration writes its byte (`own_byte`), so that the store need not be atomic.
        """
        indices = builder.split(linear_index, dims)
        for value, buffer in nest.stores:
            elements.store(builder, elements.at(builder, value, indices), buffer, indices, own_byte=True)

    def write_byte(builder: Builder, indices: list[Index]) -> None:
        """Emit the stores of the elements of one byte, whose number is the only index."""
        (byte_index,) = indices
        for index_in_byte in range(per_byte):
            linear_index = builder.linear(byte_index, per_byte, index_in_byte)
            exists = True if is_last_byte_full else builder.less(linear_index, element_count)
            builder.when(exists, partial(store_element, linear_index=linear_index))

    def write_bytes(builder: Builder, outer: list[Index], low: Index, high: Index) -> None:
        """Emit the stores of the bytes `low` to `high`. `outer` is empty: the nest of bytes has one dimension."""
        emit_inner(builder, outer, [byte_count], low=low, high=high, write=write_byte)

    emit_nest(build, group, partition, dims=[byte_count], outer_rank=0, row=write_bytes)
