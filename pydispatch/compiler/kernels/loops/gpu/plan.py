"""Distribution of the elements of a nest over the workgroups and invocations of a GPU."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from math import prod

from xdsl.ir import OpResult, SSAValue

from pydispatch.compiler.kernels.loops.frame import Frame
from pydispatch.compiler.kernels.loops.gpu.blocks import OutputBlock, block_of, partition_block
from pydispatch.compiler.kernels.loops.gpu.reduce import FEWEST_DISTRIBUTED_STEPS, combiners
from pydispatch.compiler.kernels.loops.loop_nest import LoopNest
from pydispatch.compiler.kernels.loops.nest_bytes import element_bytes_of, elements_per_byte, estimate_read_bytes
from pydispatch.compiler.kernels.loops.nests import Partition, partition_bytes, partition_elements
from pydispatch.compiler.kernels.loops.ordered_updates import part_count
from pydispatch.compiler.kernels.loops.recurrences import row_dims
from pydispatch.compiler.kernels.loops.updates import UpdateStep
from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.compiler.kernels.ops.elements import Elements
from pydispatch.compiler.kernels.ops.generics import loop_sizes, structured_of
from pydispatch.compiler.kernels.ops.tensors import tensor_type
from pydispatch.compiler.target.backend import Backend
from pydispatch.ir.dialects.pyd.ordered import OrderedOp
from pydispatch.ir.structured import Structured

INVOCATIONS = 64
"""Invocations of a workgroup, unless it reduces long rows."""

LONG_ROW = 4096
"""Elements of a row from which on a workgroup has more invocations; also assumed of dynamic sizes."""

FEW_RESULTS = 16384
"""Results above which each invocation reduces an element alone: there are enough elements to occupy the device."""

LONG_REDUCTION_RATIO = 4
"""Steps of the longest reduction per result, above which a workgroup reduces each element together. With a smaller one,
nests whose elements occupy the device by themselves would pay for combining partial results."""

REDUCED_ELEMENT_BYTES = 256
"""Bytes that an element with reductions counts as: it is expensive, so that a workgroup has few."""

MOST_INVOCATIONS = 8192
"""Number of invocations that occupy a device. For an ordered update, it bounds the number of parts of the destination
times the elements of a slice, as each part has an invocation for each of these elements."""
MOST_PARTS = 256
"""Maximum number of parts of the destination of an ordered update, which are written in parallel. Each part visits all
slices: more parts repeat more of this work, fewer may not occupy the device."""
FEW_PARTS = 16
"""Parts of the destination of an ordered update whose slices have dynamic sizes: an invocation has an element of a
slice in one part, so that the number of parts that would occupy the device depends on these sizes."""


class Distribution(Enum):
    """Share of a nest that one invocation, or one workgroup, computes.

    An update writes elements of a tensor in place, as an inserted slice or a scatter. An update is ordered if several
    of its slices may write the same element.
    """

    ELEMENTS = auto()  # an invocation computes an element with all its reductions
    BLOCKS = auto()  # an invocation computes several elements whose reductions share loads
    ROWS = auto()  # a workgroup computes a row; its reductions are distributed over the invocations
    LANES = auto()  # an invocation computes a row, where rows are short or a reduction must keep its order
    BYTES = auto()  # an invocation computes all elements of a byte
    UPDATE = auto()  # an invocation writes one element of an update without order
    IN_ORDER = auto()  # an invocation writes one element of every slice of an ordered update
    RECURRENCE = auto()  # an invocation computes a row of an operation with ordered elements


@dataclass
class GpuLoopPlan:
    """Distribution of one loop nest over the workgroups and invocations of a GPU.

    Attributes:
        nest: The nest.
        distribution: What one invocation, or one workgroup, computes, such as an element or a row.
        collapsed_count: For `ELEMENTS`: the number of inner dimensions that are collapsed into one.
        block: For `BLOCKS`: the block of one invocation.
    """

    nest: LoopNest
    distribution: Distribution
    collapsed_count: int = 1
    block: OutputBlock | None = None


def plan_nest(frame: Frame, nest: LoopNest, pairs: bool) -> GpuLoopPlan:
    """Choose the distribution of a nest over workgroups and invocations, and set the fields of the nest accordingly.

    The distribution states what one invocation or workgroup computes: a row by all invocations of a workgroup (`ROWS`),
    a row by each invocation (`LANES`), a block of elements (`BLOCKS`) or an element (`ELEMENTS`) by each invocation. A
    softmax over f32[64, 100] has `ROWS`, or `LANES` if its sum must keep its order; one over f32[64, 10] has `LANES`, a
    product of two f32[512, 512] `BLOCKS`, a sum of two tensors `ELEMENTS`.

    The nest's `columns` and `transposition` are removed, `row_storage` is reduced for `LANES`, and `outer_rank` is set
    for single elements.

    Args:
        frame: The kernel under construction.
        nest: The nest.
        pairs: Whether the device loads two adjacent elements of 32 bits as one i64.
    """
    elements = frame.elements
    # The kind alone decides for operations with ordered elements, updates, and elements of less than a byte.
    nest.columns, nest.transposition = [], None  # only kernels for CPUs treat these specially
    if isinstance(nest.space, OrderedOp):
        return GpuLoopPlan(nest, Distribution.RECURRENCE)
    if isinstance(nest.space, UpdateStep):
        # Dimensions that number slices are those of an ordered update, whose slices may write the same element.
        is_ordered = nest.space.slice_index_rank > 0
        return GpuLoopPlan(nest, Distribution.IN_ORDER if is_ordered else Distribution.UPDATE)
    if elements_per_byte(nest.representative) > 1:
        return GpuLoopPlan(nest, Distribution.BYTES)
    if nest.by_rows:
        return _plan_rows(elements, nest)
    # Nests without rows: their reductions, if any, are computed for each element, as in a matrix product.
    dims = nest.dims(elements)
    block = block_of(frame, nest, pairs=pairs)
    if block is not None:
        return GpuLoopPlan(nest, Distribution.BLOCKS, block=block)
    if dims and _can_distribute_reductions(elements, nest) and _has_few_long_reductions(elements, nest, dims):
        nest.outer_rank = len(dims)  # each element is a row
        return GpuLoopPlan(nest, Distribution.ROWS)
    return GpuLoopPlan(nest, Distribution.ELEMENTS, _collapsed_dims(dims))


def _plan_rows(elements: Elements, nest: LoopNest) -> GpuLoopPlan:
    """Choose whether a workgroup or an invocation computes a row of a nest; reduce `row_storage` for invocations."""
    has_long_rows = row_size(nest, elements) >= FEWEST_DISTRIBUTED_STEPS  # they occupy all invocations of a workgroup
    is_one_row = nest.outer_rank == 0
    if is_one_row or (has_long_rows and _can_distribute_reductions(elements, nest)):
        return GpuLoopPlan(nest, Distribution.ROWS)
    # Invocations have rows of their own, which must not share workgroup memory: only rows of results store values.
    nest.row_storage = {value: result for value, result in nest.row_storage.items() if result is not None}
    return GpuLoopPlan(nest, Distribution.LANES)


def row_size(nest: LoopNest, elements: Elements) -> int:
    """Return the number of elements of the longest row among results and their producers.

    A row is all elements at one index of each outer dimension. A row of dynamic size counts as `LONG_ROW` elements, or
    as the product of its static sizes if that is larger.
    """
    longest = 1
    for value in nest.tensors():
        row_shape = tensor_type(value).get_shape()[nest.outer_rank :]  # () if the rank is lower: the product is 1
        is_dynamic = any(size < 0 for size in row_shape)
        longest = max(longest, prod(size for size in row_shape if size > 0), LONG_ROW if is_dynamic else 1)
    return longest


def _has_few_long_reductions(elements: Elements, nest: LoopNest, dims: Sequence[Index]) -> bool:
    """Return whether a nest has few elements with long reductions, so that a workgroup per element pays.

    Few are at most `FEW_RESULTS`. Long are reductions of more than `LONG_REDUCTION_RATIO` steps for each element of the
    nest: the fewer elements there are, the fewer invocations would work without distribution. `dims` are the sizes of
    the nest; a dynamic one counts as 1.
    """
    element_count = prod(size for size in dims if isinstance(size, int))
    if element_count > FEW_RESULTS:
        return False
    return _longest_reduction_steps(elements, nest) > LONG_REDUCTION_RATIO * element_count


def _longest_reduction_steps(elements: Elements, nest: LoopNest) -> int:
    """Return the steps of the longest reduction, 0 for none; a dynamic size counts as `LONG_ROW`."""
    most_steps = 0
    for generic in _generics(elements, nest):
        sizes = loop_sizes(elements, generic)
        extents = [sizes[dim] for dim in generic.reduced_loops]
        if extents:
            most_steps = max(most_steps, prod(extent if isinstance(extent, int) else LONG_ROW for extent in extents))
    return most_steps


def _can_distribute_reductions(elements: Elements, nest: LoopNest) -> bool:
    """Return whether the steps of all reductions of a nest may be distributed over invocations.

    They may if each result has a combining operation that allows regrouping, such as a sum that may be reassociated.
    """
    reductions = (generic for generic in _generics(elements, nest) if generic.reduced_loops)
    return all(combiners(generic, elements.reassociate) is not None for generic in reductions)


def _generics(elements: Elements, nest: LoopNest) -> Iterator[Structured]:
    """Yield each `linalg.generic` that the results of a nest are computed from."""
    pending, visited = [value for value, _ in nest.all_stores()], set[SSAValue]()
    while pending:
        current = pending.pop()
        if current in visited or not isinstance(current, OpResult):
            continue
        visited.add(current)
        pending += current.op.operands
        if current.op.name == "linalg.generic":
            yield structured_of(elements, current.op)


def _collapsed_dims(dims: Sequence[Index]) -> int:
    """Return how many trailing dimensions to collapse into one loop that has work for all invocations.

    They are the fewest that have `INVOCATIONS` elements together: for 64 invocations, the last two of 8 x 4 x 20. A
    dynamic size counts as enough. If all dimensions have fewer elements together, all are collapsed.
    """
    element_count = 1
    for count, size in enumerate(reversed(dims), start=1):
        if not isinstance(size, int):
            return count
        element_count *= max(1, size)
        if element_count >= INVOCATIONS:
            return count
    return max(1, len(dims))


def partition_nest(frame: Frame, plan: GpuLoopPlan, elements: Elements, build: Builder) -> Partition:
    """Return the partition of a nest into workgroups according to its distribution.

    A nest over f32[64, 100] has 64 workgroups with `ROWS`, one for each row, and 1 with `LANES`, whose 64 invocations
    have a row each. Where each invocation has a row or element of its own, the partition has one dimension, the
    invocations, and its tiles are the `INVOCATIONS` adjacent ones of a workgroup.

    Args:
        frame: The kernel being built.
        plan: The distribution.
        elements: Tensors whose sizes are values of the block of `build`: of the kernel, or of the region that computes
            the grid.
        build: Receives the computation of dynamic numbers of workgroups.
    """
    nest = plan.nest
    dims = nest.dims(elements)
    # An invocation for each row of ordered elements, or for each element of a slice and part of an ordered update.
    if plan.distribution in (Distribution.RECURRENCE, Distribution.IN_ORDER):
        return _partition_invocations(build, build.product(parallel_sizes(elements, nest, build)))
    if plan.distribution is Distribution.BYTES:
        return partition_bytes(build, frame.backend, dims, elements_per_byte(nest.representative))
    if plan.distribution is Distribution.ROWS:  # a workgroup for each row
        rows = build.product(dims[: nest.outer_rank])
        whole_row = 0  # in a partition, the tile 0 stands for rows that are not divided
        return Partition(outer=rows, rows=1, tile=whole_row, tiles=1, workgroups=rows)
    if plan.block is not None:
        return partition_block(plan.block, dims, build)
    if plan.distribution is Distribution.LANES:  # an invocation for each row
        return _partition_invocations(build, build.product(dims[: nest.outer_rank]))
    return _partition_by_elements(frame.backend, plan, elements, build, dims)


def _partition_invocations(build: Builder, count: Index) -> Partition:
    """Return the partition of `count` invocations into workgroups of `INVOCATIONS`."""
    workgroups = build.ceil_quotient(count, INVOCATIONS)
    return Partition(outer=1, rows=1, tile=INVOCATIONS, tiles=workgroups, workgroups=workgroups)


def _partition_by_elements(
    backend: Backend, plan: GpuLoopPlan, elements: Elements, build: Builder, dims: list[Index]
) -> Partition:
    """Return the partition of a nest with the distribution `UPDATE` or `ELEMENTS`, by the estimated cost of an element.

    `dims` has the sizes of the dimensions of the nest. With `ELEMENTS`, the last `plan.collapsed_count` of them count
    as one dimension.
    """
    read_bytes, loop_bytes = estimate_read_bytes(plan.nest, elements, build)  # outside of reductions, and in them
    shape = dims
    if plan.distribution is not Distribution.UPDATE:
        outer_rank = len(dims) - plan.collapsed_count
        shape = [*dims[:outer_rank], build.product(dims[outer_rank:])]
    has_reductions = loop_bytes != 0
    stored_bytes = sum(element_bytes_of(v) for v, _ in plan.nest.stores)
    cost: Index = REDUCED_ELEMENT_BYTES if has_reductions else stored_bytes + read_bytes
    return partition_elements(build, backend, shape, bytes_per_element=cost)


def parallel_sizes(elements: Elements, nest: LoopNest, build: Builder) -> list[Index]:
    """Return the sizes of the parallel dimensions of a nest that also has sequential ones.

    Of an operation with ordered elements, they are the dimensions that number its rows. Of an ordered update, they are
    the number of parts of the destination, which are written independently, and the dimensions of a slice.
    """
    if isinstance(nest.space, OrderedOp):
        return row_dims(elements, nest.space)
    assert isinstance(nest.space, UpdateStep)
    slice_dims = nest.space.dims(elements)[nest.space.slice_index_rank :]
    static_sizes = [size for size in slice_dims if isinstance(size, int)]
    is_static = len(static_sizes) == len(slice_dims)
    # An invocation writes one element of each slice of one part: short slices need more parts to occupy the device.
    most_parts = MOST_INVOCATIONS // max(1, prod(static_sizes)) if is_static else FEW_PARTS
    has_packed_elements = elements_per_byte(nest.representative) > 1  # whose bytes must not belong to several parts
    max_parts = 1 if has_packed_elements else _power_of_two_below(min(MOST_PARTS, max(1, most_parts)))
    return [part_count(elements, build, nest.space, max_parts), *slice_dims]


def _power_of_two_below(n: int) -> int:
    """Return the largest power of two that is at most n."""
    return 1 << (n.bit_length() - 1)
