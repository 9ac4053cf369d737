"""Lowering of dispatch functions to loop nests for CPUs: elementwise operations, copies, reductions, updates.

Results of the same sizes share a nest. The nests of a kernel share its grid: workgroup i computes part i of each nest
that has so many.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import OpResult

from pydispatch.compiler.kernels.loops.analysis import analyse
from pydispatch.compiler.kernels.loops.columns import (
    max_columns,
)
from pydispatch.compiler.kernels.loops.frame import Frame, Kernel, count_region
from pydispatch.compiler.kernels.loops.loop_nest import LoopNest
from pydispatch.compiler.kernels.loops.nest_bytes import element_bytes_of, elements_per_byte, estimate_read_bytes
from pydispatch.compiler.kernels.loops.nest_code import CpuNestEmitter
from pydispatch.compiler.kernels.loops.nests import (
    Partition,
    emit_group,
    partition_bytes,
    partition_columns,
    partition_elements,
    partition_rows,
)
from pydispatch.compiler.kernels.loops.ordered_updates import partition_in_order
from pydispatch.compiler.kernels.loops.recurrences import partition_ordered_rows
from pydispatch.compiler.kernels.loops.tiled_transpose import partition_transposed
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
    build = frame.build
    nests = analyse(frame, nests_of(frame))
    emitters = [_emitter(frame, nest) for nest in nests]
    if not _is_grid_computable(frame, nests):  # one workgroup runs all nests
        for emitter in emitters:
            build.sequential(0, emitter.partition.workgroups, emitter.emit)
        return frame.finish(workgroups=None)
    # Else the grid has as many workgroups as the nest with the most parts: emit this workgroup's part of each nest.
    group_counts = [emitter.partition.workgroups for emitter in emitters]
    has_one_group = all(isinstance(count, int) and count == 1 for count in group_counts)
    emit_group(emitters, build, 0 if has_one_group else frame.workgroup())

    def grid(grid_elements: Elements, grid_build: Builder) -> Index:
        """Emit the number of workgroups into the region that computes the grid on the host."""
        return _grid(frame.backend, nests, grid_elements, grid_build)

    # If a workgroup accesses only its slice of each binding, dispatches can run slice by slice.
    elements_of_slice = emitters[0].partition.contiguous if len(emitters) == 1 else 0
    return frame.finish(workgroups=grid, tiles=slice_bytes_of(frame, elements_of_slice))


def slice_bytes_of(frame: Frame, elements_of_slice: int) -> tuple[int, ...]:
    """Return, for each binding, the bytes of the slice that a workgroup accesses; () if workgroups have no slices.

    Workgroup i accesses only slice i of a binding: with slices of 1024 bytes, workgroup 2 accesses the bytes 2048 to
    3071. 0 stands for a binding of which any workgroup may access any byte. `elements_of_slice` is the number of
    adjacent elements that a workgroup computes; 0 if they are not adjacent.
    """
    # Results that update no argument in place.
    new_results = [v for v, updated in zip(frame.returned, frame.updated, strict=True) if updated is None]
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
    # A result is a slice that is inserted into a `tensor.empty`. Only the slice is stored: other workgroups write the
    # elements outside of it.
    for nest in analyse(frame, nests_of(frame, only_inserted_slices=True)):
        emitter = _emitter(frame, nest)
        frame.build.sequential(0, emitter.partition.workgroups, emitter.emit)
    return frame.finish(workgroups=None)


def _emitter(frame: Frame, nest: LoopNest) -> CpuNestEmitter:
    """Return the emitter of a nest, with the partition of the nest into workgroups."""
    return CpuNestEmitter(frame, nest, _partition_nest(frame.backend, nest, frame.elements, frame.build))


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

    The first case that applies decides.
    """
    dims = nest.dims(elements)
    if isinstance(nest.space, OrderedOp):
        return partition_ordered_rows(elements, build, backend, nest.space)
    per_byte = elements_per_byte(nest.representative)  # equal for all results of a nest
    if isinstance(nest.space, UpdateStep) and per_byte > 1:
        return _partition_packed_update(build, dims, nest.space)
    if isinstance(nest.space, UpdateStep) and nest.space.slice_index_rank:
        return partition_in_order(elements, build, nest.space)
    if per_byte > 1:
        return partition_bytes(build, backend, dims, per_byte)
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


def _partition_packed_update(build: Builder, dims: Sequence[Index], update: UpdateStep) -> Partition:
    """Return the partition of an update of elements of less than a byte: one workgroup has all rows.

    Several workgroups could share a byte, and would need atomic stores, which are so slow that only some 20 workgroups
    or more would be faster than one. `dims` are the sizes of the written elements.
    """
    slice_dims = dims[update.slice_index_rank :]  # without those that number slices, which are visited in order
    rows = build.product(slice_dims[:-1])
    return Partition(outer=rows, rows=rows, tile=slice_dims[-1] if slice_dims else 1, tiles=1, workgroups=1)
