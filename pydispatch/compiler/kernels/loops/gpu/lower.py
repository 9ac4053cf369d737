"""Kernels for GPUs: dispatch functions whose elements are distributed over the invocations of workgroups.

`plan.py` chooses the distribution. A grid has at most `MAX_GRID` workgroups; each loops over its share of larger ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod

from xdsl.dialects import scf
from xdsl.dialects.builtin import ArrayAttr, IndexType, IntegerAttr, TensorType
from xdsl.ir import Block as IRBlock
from xdsl.ir import Region, SSAValue

from pydispatch.compiler.kernel_ir.index_width import index_width
from pydispatch.compiler.kernel_ir.scan import ops_by_name
from pydispatch.compiler.kernels.loops.analysis import LoopNest, allocate_rows, analyse
from pydispatch.compiler.kernels.loops.frame import Frame, Kernel, count_region
from pydispatch.compiler.kernels.loops.gpu.blocks import emit_block
from pydispatch.compiler.kernels.loops.gpu.plan import (
    INVOCATIONS,
    LONG_ROW,
    Distribution,
    GpuLoopPlan,
    parallel_sizes,
    partition_nest,
    plan_nest,
    row_size,
)
from pydispatch.compiler.kernels.loops.gpu.reduce import distributed_reduction
from pydispatch.compiler.kernels.loops.lower import emit_bytes, is_stored, nests_of, store_elements
from pydispatch.compiler.kernels.loops.nest_bytes import elements_per_byte
from pydispatch.compiler.kernels.loops.nests import Partition, emit_inner, emit_nest
from pydispatch.compiler.kernels.loops.ordered_updates import emit_slices_in_order
from pydispatch.compiler.kernels.loops.recurrences import write_rows
from pydispatch.compiler.kernels.loops.updates import UpdateStep
from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.compiler.kernels.ops.elements import Elements
from pydispatch.errors import CompileError
from pydispatch.ir.dialects.hal import dialect as hal
from pydispatch.ir.dialects.pyd.ordered import OrderedOp

MAX_GRID = 65535
"""Workgroups along one dimension that every device supports."""

WIDE_INVOCATIONS = 256
"""Invocations of a workgroup that reduces long rows."""

LARGE = 1 << 31
"""Number of elements from which on 32-bit indices overflow."""

FlatCount = Callable[[Frame], Index | None]
"""Returns the number of elements of a kernel whose tensors can be read as one dimension; None for other kernels."""


def lower_gpu(frame: Frame, target: hal.ExecutableTargetAttr, flat_count: FlatCount) -> Kernel:
    """Lower a dispatch function to a kernel for a GPU.

    Results of the same sizes share a loop nest (`nests_of`); `plan.py` divides each nest into parts. Workgroup i
    computes part i of each nest: with nests of 4 and 10 parts, the grid has 10 workgroups, of which the first 4 compute
    a part of both. If a number of parts depends on a size that is computed in the kernel, the host cannot know the
    grid, and one workgroup computes all parts.

    Args:
        frame: The kernel under construction, without bindings.
        target: The target, which states whether pairs of elements are loaded at once.
        flat_count: Returns the number of elements if all tensors can be bound as one dimension, else None.
    """
    # How each nest is computed.
    frame.bind(flat=flat_count(frame))
    loads_pairs = frame.backend.loads_pairs(target)
    nests = analyse(frame, nests_of(frame))
    plans = [plan_nest(frame, nest, pairs=loads_pairs) for nest in nests]
    elements, build = frame.elements, frame.build
    elements.distribute = distributed_reduction  # reductions outside of parallel loops: by all invocations
    partitions = [partition_nest(frame, plan, elements, build) for plan in plans]
    if not _is_grid_computable(frame, plans):  # one workgroup then loops over the work of all
        for plan, partition in zip(plans, partitions, strict=True):
            build.sequential(0, partition.workgroups, partial(_emit, frame, plan, partition))
        one_workgroup = None
        return finish(frame, grid=one_workgroup, plans=plans)
    # Else the grid has as many workgroups as the nest with the most parts.
    groups: Index = 0
    for partition in partitions:
        groups = build.most(groups, partition.workgroups)

    def emit_group(builder: Builder, group: Index) -> None:
        """Emit the work of workgroup number `group` in each of `plans` that has more than `group` workgroups."""
        if len(plans) == 1:  # no check is needed: the grid has as many workgroups as the only plan
            if isinstance(group, SSAValue):
                builder.assume_below(group, partitions[0].workgroups)
            _emit(frame, plans[0], partitions[0], builder, group)
            return
        for plan, partition in zip(plans, partitions, strict=True):
            has_group = builder.less(group, partition.workgroups)
            builder.when(has_group, partial(_emit_in_branch, frame, plan, partition, group))

    over_groups(frame, groups, emit_group)

    def grid(grid_elements: Elements, grid_build: Builder) -> Index:
        """Emit the number of launched workgroups into the region that computes the grid on the host."""
        return grid_build.least(_grid(frame, plans, grid_elements, grid_build), MAX_GRID)

    return finish(frame, grid=grid, plans=plans)


def over_groups(frame: Frame, groups: Index, work: Callable[[Builder, Index], None]) -> None:
    """Emit the code of `groups` workgroups, which `work` emits for one workgroup from a builder and its number.

    If `groups` is dynamic or above MAX_GRID, fewer workgroups may be launched, and a grid-stride loop does the work of
    all: of n launched workgroups, number w does the work of the numbers w, w + n, w + 2n and so on.
    """
    build = frame.build
    if groups == 1:
        work(build, 0)
        return
    first = frame.workgroup()  # the number of this workgroup
    if isinstance(groups, int) and groups <= MAX_GRID:
        work(build, build.assume_below(first, groups))
        return
    count = build.add(
        hal.InterfaceWorkgroupCountOp(result_types=[IndexType()], properties={"dimension": IntegerAttr(0, IndexType())})
    )
    block = IRBlock(arg_types=[IndexType()])
    inner = build.nested(block)
    work(inner, inner.assume_below(block.args[0], groups))
    inner.add(scf.YieldOp())
    build.add(scf.ForOp(first, build.value(groups), count, [], Region(block)))


def finish(
    frame: Frame, grid: Callable[[Elements, Builder], Index] | None, plans: Sequence[GpuLoopPlan] = ()
) -> Kernel:
    """Complete the function, and return its kernel, with attributes for the emitter.

    The attributes are the workgroup size (`pyd.invocations`), the width of indices in bits (`pyd.index_width`), and the
    bindings whose elements are written once and never read, so that they need no barriers (`pyd.once`).

    Args:
        frame: The kernel.
        grid: Emits the number of workgroups; None for one workgroup.
        plans: Plans of the loop nests; () for a kernel without loop nests.
    """
    kernel = frame.finish(workgroups=grid)
    function = kernel.function
    # Elements of a result are written twice if its rows first store another value. For r = e / sum(e), the rows of r
    # store e until the sum is known.
    written_twice = {result for plan in plans for result in plan.nest.row_storage.values() if result is not None}
    has_long_rows = any(
        plan.distribution is Distribution.ROWS and row_size(plan.nest, frame.elements) >= LONG_ROW for plan in plans
    )
    function.attributes["pyd.invocations"] = IntegerAttr(WIDE_INVOCATIONS if has_long_rows else INVOCATIONS, 64)
    width = 64 if _needs_wide_indices(frame) else index_width(ops_by_name(function))
    function.attributes["pyd.index_width"] = IntegerAttr(width, 64)
    # All other results are written once, element by element, unless they are arguments that are updated in place.
    written_once = [
        IntegerAttr(frame.buffers.index(buffer), 64)
        for result, updated_argument, buffer in zip(frame.returned, frame.updated, frame.results, strict=True)
        if updated_argument is None and result not in written_twice
    ]
    function.attributes["pyd.once"] = ArrayAttr(written_once)
    return kernel


def _needs_wide_indices(frame: Frame) -> bool:
    """Return whether a kernel needs 64-bit indices.

    It does if a tensor has elements of type index, or if it has or may have 2^31 elements or more. A tensor of dynamic
    size may have so many if the device has buffers of this size.
    """
    values = [v for op in frame.source.walk() for v in (*op.operands, *op.results)]
    types = [v.type for v in values if isinstance(v.type, TensorType)]
    if any(isinstance(t.element_type, IndexType) for t in types):
        return True
    shapes = [t.get_shape() for t in types]
    has_dynamic_sizes = any(size < 0 for shape in shapes for size in shape)
    if frame.backend.has_large_buffers and has_dynamic_sizes:
        return True
    return any(prod(max(1, size) for size in shape) >= LARGE for shape in shapes)


def _grid(frame: Frame, plans: Sequence[GpuLoopPlan], elements: Elements, build: Builder) -> Index:
    """Return the number of workgroups of the nest that has the most.

    `elements` has the tensors, with sizes that are values in the block of `build`.
    """
    workgroups: Index = 0
    for plan in plans:
        workgroups = build.most(workgroups, partition_nest(frame, plan, elements, build).workgroups)
    return workgroups


def _is_grid_computable(frame: Frame, plans: Sequence[GpuLoopPlan]) -> bool:
    """Return whether the grid can be computed from the workload alone: the sizes that the dispatch passes for it."""
    try:  # emits the computation as an experiment; it raises an error at a size that the workload does not have
        count_region(frame.source, lambda elements, build: _grid(frame, plans, elements, build), frame.elements)
    except CompileError:
        return False
    return True


def _emit_in_branch(frame: Frame, plan: GpuLoopPlan, partition: Partition, group: Index, build: Builder) -> None:
    """Emit a nest in a branch of `Builder.when`, which passes the builder as the last argument."""
    _emit(frame, plan, partition, build, group)


def _emit(frame: Frame, plan: GpuLoopPlan, partition: Partition, build: Builder, group: Index) -> None:
    """Emit the code of workgroup `group` for a nest, by the distribution of its elements or rows over invocations.

    Args:
        frame: The kernel under construction.
        plan: The nest and its distribution.
        partition: The partition of the nest into workgroups.
        build: The builder.
        group: Number of the workgroup.
    """
    elements, nest = frame.elements, plan.nest
    if plan.distribution is Distribution.UPDATE:
        _emit_update(elements, nest, partition, build, group)
        return
    if plan.distribution in (Distribution.RECURRENCE, Distribution.IN_ORDER):
        _emit_in_order(elements, nest, build, group)
        return
    dims = elements.dims(nest.space)  # type: ignore[arg-type]
    # Elements of less than a byte: an invocation computes all elements of a byte.
    if plan.distribution is Distribution.BYTES:
        emit_bytes(frame, nest, partition, build, group, dims, elements_per_byte(nest.representative))
        return
    if plan.block is not None:
        emit_block(elements, nest, plan.block, build, group, dims)
        return
    # An element or a row for each invocation, or a row for the workgroup. Rows may store values for their later loops.
    allocate_rows(frame, nest)
    if plan.distribution is Distribution.ELEMENTS:
        _emit_elements(elements, plan, partition, build, group, dims)
    elif plan.distribution is Distribution.LANES:
        _emit_rows_of_invocations(elements, nest, build, group, dims)
    else:  # Distribution.ROWS: the workgroup computes whole rows, so that their ranges are not used

        def emit_whole_row(builder: Builder, outer: list[Index], _low: Index, _high: Index) -> None:
            """Emit the row at the indices `outer` of the outer dimensions."""
            _emit_row(elements, nest, builder, outer, dims)

        emit_nest(build, group, partition, dims, outer_rank=nest.outer_rank, row=emit_whole_row)
    elements.forget_rows()


def _emit_elements(
    elements: Elements, plan: GpuLoopPlan, partition: Partition, build: Builder, group: Index, dims: list[Index]
) -> None:
    """Emit a loop nest whose invocations each compute one element at a time.

    The last `plan.collapsed_count` loops are collapsed into one. Its elements, for all indices of the loops before it,
    are divided among workgroups, and those of a workgroup among its invocations. A nest over 8 x 4 x 100 whose last two
    loops are collapsed becomes one over 8 x 400, of which a workgroup may have the elements 128 to 255 at index 5.

    Args:
        elements: Emits the elements of tensors.
        plan: The nest and how its loops are used.
        partition: Which elements each workgroup computes.
        build: The builder.
        group: Number of the workgroup.
        dims: Sizes of all loops of the nest, the outer ones first.
    """
    outer_rank = len(dims) - plan.collapsed_count
    inner_dims = dims[outer_rank:]
    inner_size = build.product(inner_dims)
    collapsed_dims = [*dims[:outer_rank], inner_size]

    def emit_part_of_row(builder: Builder, outer: list[Index], low: Index, high: Index) -> None:
        """Emit the elements `low` to `high` of the collapsed loop, at the indices `outer` of the loops before it."""

        def store_element(inner: Builder, collapsed_index: Index) -> None:
            """Store one element of each result: its index in the collapsed loop is split into one for each loop."""
            store_elements(elements, plan.nest, inner, [*outer, *inner.split(collapsed_index, inner_dims)])

        is_scalar = not dims
        if is_scalar:  # a nest without loops has one element
            store_element(builder, 0)
        else:
            builder.parallel(low, high, store_element, index_below=inner_size)

    emit_nest(build, group, partition, collapsed_dims, outer_rank=len(collapsed_dims) - 1, row=emit_part_of_row)


def _emit_row(elements: Elements, nest: LoopNest, build: Builder, indices: list[Index], dims: list[Index]) -> None:
    """Emit the computation of one row of a loop nest: all inner iterations at the outer `indices`.

    First come the reductions of the row, such as the sum of a softmax, then the stores of results that have one element
    per row (`nest.row_stores`), then the stores of results that have one element per inner iteration (`nest.stores`).
    Outside of a parallel loop, a whole workgroup computes the row, in a parallel loop over its elements. Inside of one,
    a single invocation does, in sequential loops.

    Args:
        elements: Emits the elements of tensors.
        nest: The loop nest.
        build: The builder.
        indices: Indices of the outer loops: which row.
        dims: Sizes of all loops, the outer ones first.
    """
    elements.begin_row(indices)
    nest.emit_row_reductions(elements, build, indices)
    for value, buffer in nest.row_stores:
        elements.store(build, elements.at(build, value, indices), buffer, indices)
    # Row reductions may have stored the results already: in a softmax without a division, the loop of the sum stores
    # the exponentials, which are a result.
    if all(is_stored(elements, value, buffer) for value, buffer in nest.stores):
        return
    inner_dims = dims[nest.outer_rank :]
    if not inner_dims:
        store_elements(elements, nest, build, indices)
        return
    if build.in_parallel:  # one invocation computes the row
        write = partial(store_elements, elements, nest)  # of an element, from a builder and its indices
        emit_inner(build, indices, inner_dims, low=0, high=inner_dims[0], write=write)
        return

    def store_element(builder: Builder, i: Index) -> None:
        """Store element number `i` of the row, in row-major order."""
        store_elements(elements, nest, builder, [*indices, *builder.split(i, inner_dims)])

    size = build.product(inner_dims)
    build.parallel(0, size, store_element, index_below=size)


def _emit_rows_of_invocations(
    elements: Elements, nest: LoopNest, build: Builder, group: Index, dims: list[Index]
) -> None:
    """Emit the rows of workgroup `group`, one row for each invocation; `dims` are the sizes of the nest."""
    outer_dims = dims[: nest.outer_rank]
    row_count = build.product(outer_dims)
    low = build.times(group, INVOCATIONS)
    high = build.least(build.plus(low, INVOCATIONS), row_count)

    def emit_row(builder: Builder, row_number: Index) -> None:
        """Emit the row with this number, in the row-major order of the indices of `outer_dims`."""
        _emit_row(elements, nest, builder, builder.split(row_number, outer_dims), dims)

    build.parallel(low, high, emit_row, index_below=row_count)


def _emit_in_order(elements: Elements, nest: LoopNest, build: Builder, group: Index) -> None:
    """Emit a nest that computes elements in order: an operation with ordered elements, or an ordered update.

    The operation is a recurrence or a top-k, whose rows are independent: an invocation computes a row. The slices of an
    update are divided into parts, where slices that may write the same element are in one part: an invocation writes
    one element of each slice of its part, in the order of the slices.
    """
    # For an operation with ordered elements, the sizes of the dimensions that number rows. For an update, the number of
    # parts, and then the sizes of a slice.
    dims = parallel_sizes(elements, nest, build)
    count = build.product(dims)
    low = build.times(group, INVOCATIONS)
    high = build.least(build.plus(low, INVOCATIONS), count)

    def emit_invocation(builder: Builder, invocation: Index) -> None:
        """Emit the work of one of the `count` invocations, which are numbered in the row-major order of `dims`."""
        indices = builder.split(invocation, dims)
        if isinstance(nest.space, OrderedOp):
            write_rows(elements, builder, nest.space, dict(nest.stores), rows=[indices])
            return
        update, (value, buffer) = nest.space, nest.stores[0]
        assert isinstance(update, UpdateStep)
        # The first of `dims` counts the parts of the update, the others are those of a slice.
        part_count, (part, *indices_in_slice) = dims[0], indices

        def write_slice(inner: Builder, slice_index: list[Index]) -> None:
            """Emit the write of the element at `indices_in_slice` of one slice."""
            update.write(elements, inner, value, buffer, [*slice_index, *indices_in_slice])

        emit_slices_in_order(elements, builder, update, part_count, part, write_slice)

    build.parallel(low, high, emit_invocation, index_below=count)


def _emit_update(elements: Elements, nest: LoopNest, partition: Partition, build: Builder, group: Index) -> None:
    """Emit an update whose elements may be written in any order: each invocation writes one."""
    update, (value, buffer) = nest.space, nest.stores[0]
    assert isinstance(update, UpdateStep)
    dims = update.dims(elements)

    outer_rank = max(0, len(dims) - 1)  # a row is all elements at one index of each dimension but the last one

    def write(builder: Builder, indices: list[Index]) -> None:
        """Emit the store of the element that the update writes at `indices` of, for example, the inserted slice."""
        update.write(elements, builder, value, buffer, indices)

    def emit_row(builder: Builder, outer: list[Index], low: Index, high: Index) -> None:
        """Emit the elements `low` to `high` of the row at the indices `outer` of the other dimensions."""
        emit_inner(builder, outer, dims[outer_rank:], low=low, high=high, write=write)

    emit_nest(build, group, partition, dims, outer_rank=outer_rank, row=emit_row)
