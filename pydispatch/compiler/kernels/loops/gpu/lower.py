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
from xdsl.ir import Region

from pydispatch.compiler.kernel_ir.index_width import index_width
from pydispatch.compiler.kernel_ir.scan import ops_by_name
from pydispatch.compiler.kernels.loops.analysis import analyse
from pydispatch.compiler.kernels.loops.frame import Frame, Kernel, count_region
from pydispatch.compiler.kernels.loops.gpu.nest_code import GpuNestEmitter
from pydispatch.compiler.kernels.loops.gpu.plan import (
    INVOCATIONS,
    LONG_ROW,
    Distribution,
    GpuLoopPlan,
    partition_nest,
    plan_nest,
    row_size,
)
from pydispatch.compiler.kernels.loops.gpu.reduce import distributed_reduction
from pydispatch.compiler.kernels.loops.lower import nests_of
from pydispatch.compiler.kernels.loops.nests import emit_group
from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.compiler.kernels.ops.elements import Elements
from pydispatch.errors import CompileError
from pydispatch.ir.dialects.hal import dialect as hal

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
    frame.bind(flat=flat_count(frame))
    loads_pairs = frame.backend.loads_pairs(target)
    nests = analyse(frame, nests_of(frame))
    plans = [plan_nest(frame, nest, pairs=loads_pairs) for nest in nests]
    elements, build = frame.elements, frame.build
    elements.distribute = distributed_reduction  # reductions outside of parallel loops: by all invocations
    emitters = [GpuNestEmitter(frame, plan, partition_nest(frame, plan, elements, build)) for plan in plans]
    if not _is_grid_computable(frame, plans):  # one workgroup then loops over the work of all
        for emitter in emitters:
            build.sequential(0, emitter.partition.workgroups, emitter.emit)
        return finish(frame, grid=None, plans=plans)  # None: one workgroup
    # Else the grid has as many workgroups as the nest with the most parts.
    groups: Index = 0
    for emitter in emitters:
        groups = build.most(groups, emitter.partition.workgroups)
    over_groups(frame, groups, partial(emit_group, emitters))

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
    has_long_rows = any(
        plan.distribution is Distribution.ROWS and row_size(plan.nest, frame.elements) >= LONG_ROW for plan in plans
    )
    function.attributes["pyd.invocations"] = IntegerAttr(WIDE_INVOCATIONS if has_long_rows else INVOCATIONS, 64)
    width = 64 if _needs_wide_indices(frame) else index_width(ops_by_name(function))
    function.attributes["pyd.index_width"] = IntegerAttr(width, 64)
    function.attributes["pyd.once"] = ArrayAttr([IntegerAttr(i, 64) for i in _bindings_written_once(frame, plans)])
    return kernel


def _bindings_written_once(frame: Frame, plans: Sequence[GpuLoopPlan]) -> list[int]:
    """Return the bindings of results whose elements are written once: no updated argument, and no memory of rows.

    Elements of a result are written twice if its rows first store another value. For r = e / sum(e), the rows of r
    store e until the sum is known.
    """
    written_twice = {result for plan in plans for result in plan.nest.row_storage.values() if result is not None}
    return [
        frame.buffers.index(buffer)
        for result, updated_argument, buffer in zip(frame.returned, frame.updated, frame.results, strict=True)
        if updated_argument is None and result not in written_twice
    ]


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
