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

Flat = Callable[[Frame], Index | None]
"""Returns the number of elements of a kernel whose tensors can be read as one dimension; None for other kernels."""


def lower_gpu(frame: Frame, target: hal.ExecutableTargetAttr, flat: Flat) -> Kernel:
    """Lower a dispatch function to a kernel for a GPU.

    Results of the same sizes share a loop nest (`nests_of`); `plan.py` divides each nest into workgroups. Workgroup i
    computes part i of each nest that has so many: with nests of 4 and 10 parts, the grid has 10 workgroups, of which
    the first 4 compute a part of both. If the kernel alone knows a size that a number of parts depends on, one
    workgroup computes all parts.

    Args:
        frame: The kernel under construction, without bindings.
        target: The target, which states whether pairs of elements are loaded at once.
        flat: Returns the number of elements if all tensors can be bound as one dimension, else None.
    """
    # How each nest is computed.
    frame.bind(flat(frame))
    loads_pairs = frame.backend.loads_pairs(target)
    nests = analyse(frame, nests_of(frame))
    plans = [plan_nest(frame, nest, pairs=loads_pairs) for nest in nests]
    elements, build = frame.elements, frame.build
    elements.distribute = distributed_reduction  # reductions outside of parallel loops: by all invocations
    partitions = [partition_nest(frame, plan, elements, build) for plan in plans]
    if not _is_grid_computable(frame, plans):  # one workgroup then loops over the work of all
        for plan, partition in zip(plans, partitions, strict=True):
            build.loop(0, partition.workgroups, [], partial(_emit_step, frame, plan, partition))
        one_workgroup = None
        return finish(frame, grid=one_workgroup, plans=plans)
    # Else the grid has the workgroups of the nest with the most, at most `MAX_GRID`; `over_groups` loops over the rest.
    # The number is emitted twice: in the kernel, and by the lambda in the region that computes the grid.
    groups: Index = 0
    for partition in partitions:
        groups = build.most(groups, partition.workgroups)

    def work(builder: Builder, group: Index) -> None:
        """Emit the work of workgroup `group` in every nest that has more than `group` workgroups."""
        for plan, partition in zip(plans, partitions, strict=True):
            if len(plans) == 1:
                if isinstance(group, SSAValue):
                    builder.assume_below(group, partition.workgroups)
                _emit(frame, plan, partition, builder, group)
            else:
                builder.when(
                    builder.less(group, partition.workgroups), partial(_guarded, frame, plan, partition, group)
                )

    over_groups(frame, groups, work)
    return finish(frame, lambda other, b: b.least(_grid(frame, plans, other, b), MAX_GRID), plans)


def over_groups(frame: Frame, groups: Index, work: Callable[[Builder, Index], None]) -> None:
    """Emit `work` for each of `groups` workgroups.

    Each launched workgroup runs one of them. If `groups` is dynamic or above MAX_GRID, a grid-stride loop runs the
    remaining ones: of n launched workgroups, number w runs w, w + n, w + 2n and so on.
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

    The attributes are the workgroup size, the width of indices in bits, and the bindings whose elements are written
    once (`pyd.once`).

    Args:
        frame: The kernel.
        grid: Emits the number of workgroups; None for one workgroup.
        plans: Plans of the loop nests; () for a kernel without loop nests.
    """
    kernel = frame.finish(workgroups=grid)
    function = kernel.function
    # Results whose rows first store another value of the row: their elements are not written once.
    scratch_results = {result for plan in plans for result in plan.nest.row_storage.values() if result is not None}
    has_long_rows = any(
        plan.distribution is Distribution.ROWS and row_size(plan.nest, frame.elements) >= LONG_ROW for plan in plans
    )
    function.attributes["pyd.invocations"] = IntegerAttr(WIDE_INVOCATIONS if has_long_rows else INVOCATIONS, 64)
    width = 64 if _needs_wide_indices(frame) else index_width(ops_by_name(function))
    function.attributes["pyd.index_width"] = IntegerAttr(width, 64)
    # All other results that are new tensors are written once, element by element.
    written_once = [
        IntegerAttr(frame.buffers.index(buffer), 64)
        for value, argument, buffer in zip(frame.returned, frame.updated, frame.results, strict=True)
        if argument is None and value not in scratch_results
    ]
    function.attributes["pyd.once"] = ArrayAttr(written_once)
    return kernel


def _needs_wide_indices(frame: Frame) -> bool:
    """Return whether a kernel needs 64-bit indices.

    It does if a tensor has, or with dynamic sizes may have on the device, 2^31 elements or more, or elements of type
    index.
    """
    values = [v for op in frame.source.walk() for v in (*op.operands, *op.results)]
    types = [v.type for v in values if isinstance(v.type, TensorType)]
    if any(isinstance(t.element_type, IndexType) for t in types):
        return True
    shapes = [t.get_shape() for t in types]
    if frame.backend.has_large_buffers and any(size < 0 for shape in shapes for size in shape):
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


def _emit_step(
    frame: Frame, plan: GpuLoopPlan, partition: Partition, build: Builder, group: Index, carried: list[SSAValue]
) -> list[SSAValue]:
    """Emit workgroup `group` as the body of a loop that carries no values."""
    _emit(frame, plan, partition, build, group)
    return []


def _guarded(frame: Frame, plan: GpuLoopPlan, partition: Partition, group: Index, build: Builder) -> None:
    """Emit a nest in a branch of `Builder.when`, which passes the builder as the last argument."""
    _emit(frame, plan, partition, build, group)


def _emit(frame: Frame, plan: GpuLoopPlan, partition: Partition, build: Builder, group: Index) -> None:
    """Emit the code of workgroup `group` for a nest, by its distribution: what an invocation, or the workgroup,
    computes.

    Args:
        frame: The kernel under construction.
        plan: The nest and its distribution.
        partition: The partition of the nest into workgroups.
        build: The builder.
        group: Number of the workgroup.
    """
    elements, nest = frame.elements, plan.nest
    if plan.distribution is Distribution.UPDATE:
        _update(elements, nest, partition, build, group)
        return
    if plan.distribution in (Distribution.RECURRENCE, Distribution.IN_ORDER):
        _in_order(elements, nest, build, group)
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
        _elements(elements, plan, partition, build, group, dims)
    elif plan.distribution is Distribution.LANES:
        _lanes(elements, nest, build, group, dims)
    else:
        # ROWS. `row` is called with the indices of the outer dimensions; a row is whole, from `low` 0 to `high`.
        emit_nest(
            build,
            group,
            partition,
            dims,
            outer_rank=nest.outer_rank,
            row=lambda b, indices, low, high: _row(elements, nest, b, indices, dims),
        )
    elements.forget_rows()


def _elements(
    elements: Elements, plan: GpuLoopPlan, partition: Partition, build: Builder, group: Index, dims: list[Index]
) -> None:
    """Emit a loop nest whose invocations each compute one element at a time.

    The `plan.inner` trailing loops are collapsed into one. Its elements, for all indices of the loops before it, are
    divided among workgroups, and those of a workgroup among its invocations. A nest over 8 x 4 x 100 with `plan.inner`
    2 becomes one over 8 x 400, of which a workgroup may have the elements 128 to 255 at index 5.

    Args:
        elements: Emits the elements of tensors.
        plan: The nest and how its loops are used.
        partition: Which elements each workgroup computes.
        build: The builder.
        group: Number of the workgroup.
        dims: Sizes of all loops of the nest, the outer ones first.
    """
    outer_rank = len(dims) - plan.inner
    inner_dims = dims[outer_rank:]
    inner_size = build.product(inner_dims)
    collapsed_dims = [*dims[:outer_rank], inner_size]

    def row(builder: Builder, outer: list[Index], low: Index, high: Index) -> None:
        """Emit the elements `low` to `high` of a row, in parallel; of a nest without loops, its only element.

        outer: Indices of the loops that are not collapsed: which row.
        """

        def element(builder: Builder, flat: Index) -> None:
            """Store the element at index `flat` of the collapsed inner dimensions."""
            store_elements(
                elements, plan.nest, builder, [*outer, *(builder.split(flat, inner_dims) if inner_dims else [])]
            )

        is_scalar = not dims
        if is_scalar:
            element(builder, 0)
        else:  # an index below `inner_size` splits into indices below `inner_dims`
            builder.parallel(low, high, element, index_below=inner_size)

    emit_nest(build, group, partition, collapsed_dims, outer_rank=len(collapsed_dims) - 1, row=row)


def _row(elements: Elements, nest: LoopNest, build: Builder, indices: list[Index], dims: list[Index]) -> None:
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
    # A reduction that computes a whole row of a result has stored it.
    if all(is_stored(elements, value, buffer) for value, buffer in nest.stores):
        return
    inner = dims[nest.outer_rank :]
    if not inner:
        store_elements(elements, nest, build, indices)
        return
    if build.in_parallel:  # one invocation, which loops over all inner indices; `where` has those of an element
        emit_inner(
            build, indices, inner, low=0, high=inner[0], write=lambda b, where: store_elements(elements, nest, b, where)
        )
        return
    size = build.product(inner)
    # The workgroup: one parallel loop over all inner indices, whose number i is split into an index of each loop.
    build.parallel(
        0, size, lambda b, i: store_elements(elements, nest, b, [*indices, *b.split(i, inner)]), index_below=size
    )


def _lanes(elements: Elements, nest: LoopNest, build: Builder, group: Index, dims: list[Index]) -> None:
    """Emit the rows of workgroup `group`, one row for each invocation; `dims` are the sizes of the nest."""
    outer = build.product(dims[: nest.outer_rank])
    low = build.times(group, INVOCATIONS)
    high = build.least(build.plus(low, INVOCATIONS), outer)

    def row(builder: Builder, row_index: Index) -> None:
        """Emit one row."""
        _row(elements, nest, builder, builder.split(row_index, dims[: nest.outer_rank]), dims)

    build.parallel(low, high, row, index_below=outer)  # `split` omits divisions by sizes above the index


def _in_order(elements: Elements, nest: LoopNest, build: Builder, group: Index) -> None:
    """Emit a nest that computes elements in order: an operation with ordered elements, or an ordered update.

    The operation is a recurrence or a top-k, whose rows are independent: an invocation computes a row. The slices of an
    update are divided into parts, where slices that may write the same element are in one part: an invocation writes
    one element of each slice of its part, in the order of the slices.
    """
    dims = parallel_sizes(elements, nest, build)
    outer = build.product(dims)
    low = build.times(group, INVOCATIONS)
    high = build.least(build.plus(low, INVOCATIONS), outer)

    def work(builder: Builder, flat: Index) -> None:
        """Emit the work of the invocation whose indices are at position `flat` of the parallel dimensions."""
        indices = builder.split(flat, dims)
        if isinstance(nest.space, OrderedOp):
            write_rows(elements, builder, nest.space, dict(nest.stores), [indices])
            return
        update, (value, buffer) = nest.space, nest.stores[0]
        assert isinstance(update, UpdateStep)
        part_count = dims[0]  # the other dimensions belong to a slice
        part, *slice_indices = indices
        # `leading` are the indices of a slice, `slice_indices` those of the element in it that this invocation writes.
        emit_slices_in_order(
            elements, builder, update, part_count, part,
            lambda c, leading: update.write(elements, c, value, buffer, [*leading, *slice_indices]),
        )  # fmt: skip

    build.parallel(low, high, work, index_below=outer)


def _update(elements: Elements, nest: LoopNest, partition: Partition, build: Builder, group: Index) -> None:
    """Emit an update whose elements may be written in any order: each invocation writes one."""
    update, (value, buffer) = nest.space, nest.stores[0]
    assert isinstance(update, UpdateStep)
    dims = update.dims(elements)

    def write(builder: Builder, indices: list[Index]) -> None:
        """Write one element of the update."""
        update.write(elements, builder, value, buffer, indices)

    outer_rank = max(0, len(dims) - 1)  # the last dimension is a row
    emit_nest(
        build, group, partition, dims, outer_rank=outer_rank,
        row=lambda b, indices, low, high: emit_inner(b, indices, dims[outer_rank:], low, high, write),
    )  # fmt: skip
