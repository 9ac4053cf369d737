"""Reductions over sliding windows, vectorized along channels: depthwise convolutions and poolings of NHWC.

Vectors are along the last dimension of the result. A block is a few neighbouring positions of the dimension before it,
which is unrolled: their sums stay in registers over all steps of the innermost reductions, so that positions share
loads. Reductions that are too long for that, or of unknown size, are loops around blocks whose sums are in the
first-level cache.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product

from xdsl.dialects import func
from xdsl.ir import SSAValue

from pydispatch.compiler.kernels.loops.frame import Frame, Kernel
from pydispatch.compiler.kernels.matmul.windows.padding import PaddedInputs
from pydispatch.compiler.kernels.matmul.windows.plan import (
    WindowPlan,
    division_of,
    plan_of,
    tiles_of_workgroup,
    workgroups_of,
)
from pydispatch.compiler.kernels.matmul.windows.reductions import reduced, reduction_in, step_at
from pydispatch.compiler.kernels.ops.affine_maps import evaluate
from pydispatch.compiler.kernels.ops.builder import Builder, Index, load
from pydispatch.compiler.kernels.ops.conditions import opposite
from pydispatch.compiler.kernels.ops.generics import loop_sizes
from pydispatch.compiler.kernels.ops.tensors import tensor_type
from pydispatch.compiler.target.backend import Backend


def lower_channels_last(source: func.FuncOp, backend: Backend) -> Kernel | None:
    """Return the kernel of a dispatch function that reduces sliding windows with vectors along channels; None for
    others.

    Such functions are a depthwise convolution or a pooling of NHWC, whose channels are contiguous. Return None, too,
    for a function that updates an argument.
    """
    generic = reduction_in(source)
    if generic is None:
        return None
    frame = Frame(source, backend)
    plan = None if frame.updates_arguments else plan_of(generic, frame)
    if plan is None:
        return None
    frame.bind()  # emits the buffers of arguments and results
    sizes = loop_sizes(frame.elements, generic)
    inputs = PaddedInputs.of(frame.elements, generic, plan.channels, plan.positions)
    sums = None
    if plan.loops:  # sums are in memory: [position of a block][channel of a chunk]
        sums = frame.elements.fresh(tensor_type(generic.op.results[0]).element_type, plan.block_positions * plan.chunk)
    _Workgroup(frame=frame, plan=plan, sizes=tuple(sizes), inputs=inputs, sums=sums).emit(frame.build)
    return frame.finish(workgroups=lambda elements, build: workgroups_of(plan, build, loop_sizes(elements, generic)))


@dataclass(frozen=True)
class _Block:
    """A block of neighbouring positions, whose reductions are computed side by side for each channel.

    Attributes:
        plan: The plan of the reduction.
        origin: Index of each loop; 0 for positions, channels and reductions, whose indices `points` sets.
        first: The first position.
        width: The number of positions.
        channels: The first channel, and the exclusive end of the channels.
    """

    plan: WindowPlan
    origin: tuple[Index, ...]
    first: Index
    width: int
    channels: tuple[Index, Index]

    def points(
        self, build: Builder, channel: Index, reduced_indices: Mapping[int, Index] | None = None
    ) -> list[list[Index]]:
        """Return, for each position of the block, the indices of all loops at `channel`.

        reduced_indices: indices of the reductions that enclose the code; others remain 0.
        """
        points = []
        for i in range(self.width):
            point = list(self.origin)
            point[self.plan.channels] = channel
            if self.plan.positions is not None:
                point[self.plan.positions] = build.plus(self.first, i)
            for dim, index in (reduced_indices or {}).items():
                point[dim] = index
            points.append(point)
        return points


@dataclass(frozen=True)
class _Tile:
    """Neighbouring positions of one row of the result, which a workgroup divides into blocks.

    Attributes:
        origin: Index of each loop; 0 for positions, channels and reductions.
        first: The first position.
        count: The number of positions.
    """

    origin: tuple[Index, ...]
    first: Index
    count: Index


@dataclass(frozen=True)
class _Workgroup:
    """Emitter of a workgroup's code: it reduces the windows at some positions, with vectors along the channels.

    `emit` calls the other methods from the outside inwards: a workgroup has tiles, a tile chunks of channels, a chunk
    blocks of positions. The sums of a block are in registers, or in memory between the loops over reductions.

    Attributes:
        frame: The kernel function, and its inputs and results.
        plan: The plan of the reduction.
        sizes: Sizes of all loops of the reduction.
        inputs: Inputs of the reduction that are padded tensors.
        sums: Buffer of the sums of a block, [position][channel of a chunk]; None where these stay in registers.
    """

    frame: Frame
    plan: WindowPlan
    sizes: tuple[Index, ...]
    inputs: PaddedInputs
    sums: SSAValue | None

    def emit(self, build: Builder) -> None:
        """Emit the loop over the tiles of the workgroup, each of some neighbouring positions in a row of the result.

        With 5 tiles in a row and 100 rows in all outer dimensions, tile 12 is tile 2 of row 2.
        """
        plan = self.plan
        tiles_of_row, tile_size, total = division_of(plan, build, self.sizes)
        count = tiles_of_workgroup(plan, build, self.sizes)
        workgroup = build.assume_below(self.frame.workgroup(), build.ceil_quotient(total, count))
        first = build.times(workgroup, count)

        def body(inner: Builder, index: Index, carried: list[SSAValue]) -> list[SSAValue]:
            """Emit tile `index` of all tiles: some neighbouring positions, at one index of each outer dimension."""
            *outer, tile_index = inner.split(index, [*(self.sizes[d] for d in plan.outer), tiles_of_row])
            first_position = inner.times(tile_index, tile_size)
            origin: list[Index] = [0] * len(self.sizes)
            for dim, outer_index in zip(plan.outer, outer, strict=True):
                origin[dim] = outer_index
            positions: Index = 1 if plan.positions is None else self.sizes[plan.positions]
            extent = inner.least(tile_size, inner.minus(positions, first_position))
            self._tile(inner, _Tile(tuple(origin), first=first_position, count=extent))
            return []

        # `total` is the product of the sizes that `split` divides by: as the bound of the index it lets divisions fold.
        # The end of the loop does not: it is the minimum of two values.
        build.loop(first, build.least(build.plus(first, count), total), [], body, index_below=total)

    def _tile(self, build: Builder, tile: _Tile) -> None:
        """Emit the blocks of a tile, for one chunk of `plan.chunk` channels after the other.

        The weights of a chunk then stay in the first-level cache while all positions use them.
        """
        chunk, channels = self.plan.chunk, self.sizes[self.plan.channels]
        if isinstance(channels, int) and channels <= chunk:
            self._blocks(build, tile, (0, channels))
            return

        def body(inner: Builder, index: Index, carried: list[SSAValue]) -> list[SSAValue]:
            """Emit the blocks of one chunk of channels; the last chunk may have fewer channels."""
            start = inner.times(index, chunk)
            self._blocks(inner, tile, (start, inner.least(inner.plus(start, chunk), channels)))
            return []

        build.loop(0, build.ceil_quotient(channels, chunk), [], body)

    def _blocks(self, build: Builder, tile: _Tile, channels: tuple[Index, Index]) -> None:
        """Emit the blocks of a tile for the channels of a chunk, given as (first, end).

        A block is up to `block_positions` neighbouring positions, whose reductions are computed side by side for each
        channel. Positions that do not fill a block are one narrower block if their number is known, else blocks of one
        position.
        """
        width, count = self.plan.block_positions, tile.count

        def block(inner: Builder, position: Index, width: int) -> None:
            """Emit the block of `width` positions that begins `position` positions after the first one of the tile."""
            first = inner.plus(tile.first, position)
            self._block(inner, _Block(self.plan, tile.origin, first=first, width=width, channels=channels))

        def full_block(inner: Builder, i: Index, carried: list[SSAValue]) -> list[SSAValue]:
            """Emit the whole block with the index `i`."""
            block(inner, inner.times(i, width), width)
            return []

        def single(inner: Builder, i: Index, carried: list[SSAValue]) -> list[SSAValue]:
            """Emit a block of the position `i` alone."""
            block(inner, i, 1)
            return []

        blocks = build.quotient(count, width)
        build.loop(0, blocks, [], full_block)
        # The remaining positions.
        covered = build.times(blocks, width)
        if isinstance(count, int) and isinstance(covered, int):
            if count > covered:
                block(build, covered, count - covered)
        elif width > 1:
            build.loop(covered, count, [], single)

    def _block(self, build: Builder, block: _Block) -> None:
        """Emit two versions of a block, one of which is executed: without checks for padding if the block reads no
        padding, else with them.
        """
        is_interior = self.inputs.are_interior(build, block.origin, block.first, block.width)

        def emit(inner: Builder, is_edge: bool) -> None:
            """Emit a version; sums stay in registers unless there are reduction loops around the unrolled ones."""
            if self.plan.loops:
                self._block_in_memory(inner, block, is_edge)
            else:
                self._block_in_registers(inner, block, is_edge)

        build.when(is_interior, lambda inner: emit(inner, is_edge=False))
        build.when(opposite(build, is_interior), lambda inner: emit(inner, is_edge=True))

    def _block_in_registers(self, build: Builder, block: _Block, is_edge: bool) -> None:
        """Emit a block whose reductions are all unrolled: for each channel, the sums of all positions, and their
        stores.

        is_edge: whether the block may read padding.
        """

        def body(inner: Builder, channel: Index) -> None:
            """Emit the results of all positions of the block at one channel."""
            points = block.points(inner, channel)
            values = [self._initial(inner, point) for point in points]
            self._store(inner, points, self._steps(inner, points, values, is_edge))

        first_channel, end_channel = block.channels
        build.parallel(first_channel, end_channel, body, index_below=self.sizes[self.plan.channels])

    def _block_in_memory(self, build: Builder, block: _Block, is_edge: bool) -> None:
        """Emit a block of a plan that has reductions which are too long to unroll, or of unknown size (`plan.loops`).

        Their loops enclose the loop over channels, so that the sums of all channels are in memory between iterations.

        is_edge: whether the block may read padding.
        """
        (first, end), channel_count = block.channels, self.sizes[self.plan.channels]
        pinned = build.without_load_motion()  # sums are loaded from memory that changes between the loops
        pinned.parallel(first, end, partial(self._initialize, block), index_below=channel_count)
        self._reduce(pinned, block, self.plan.loops, indices={}, is_edge=is_edge)
        pinned.parallel(first, end, partial(self._finish, block), index_below=channel_count)

    def _initialize(self, block: _Block, build: Builder, channel: Index) -> None:
        """Emit stores of the initial values to the sums of one channel of a block."""
        points = block.points(build, channel)
        for offset, point in zip(self._sum_offsets(build, block, points), points, strict=True):
            self._store_sum(build, self._initial(build, point), offset)

    def _reduce(
        self, build: Builder, block: _Block, loops: Sequence[int], indices: Mapping[int, Index], is_edge: bool
    ) -> None:
        """Emit loops over reductions, and in the innermost one the unrolled steps for all channels of a block.

        A block is some neighbouring positions of the result at a range of channels. Each call emits the outermost loop,
        and calls itself for the others inside; without loops, it emits the loop over channels.

        Args:
            build: Receives the code.
            block: The block, whose sums are in memory.
            loops: The reductions that are loops here, the outermost first.
            indices: Indices of the reductions whose loops enclose these.
            is_edge: Whether the block may read padding.
        """

        def body(inner: Builder, index: Index, carried: list[SSAValue]) -> list[SSAValue]:
            """Emit the inner loops at an index of the outermost one of `loops`."""
            self._reduce(inner, block, loops[1:], {**indices, loops[0]: index}, is_edge)
            return []

        def steps(inner: Builder, channel: Index) -> None:
            """Add the unrolled steps of one channel to the sums in memory."""
            points = block.points(inner, channel, indices)
            offsets = self._sum_offsets(inner, block, points)
            values = self._steps(inner, points, self._sums(inner, offsets), is_edge)
            for offset, value in zip(offsets, values, strict=True):
                self._store_sum(inner, value, offset)

        if loops:
            build.loop(0, self.sizes[loops[0]], [], body)
            return
        first_channel, end_channel = block.channels
        build.parallel(first_channel, end_channel, steps, index_below=self.sizes[self.plan.channels])

    def _finish(self, block: _Block, build: Builder, channel: Index) -> None:
        """Emit the results of one channel of a block, from its sums in memory, and their stores."""
        points = block.points(build, channel)
        self._store(build, points, self._sums(build, self._sum_offsets(build, block, points)))

    def _sum_offsets(self, build: Builder, block: _Block, points: Sequence[list[Index]]) -> list[SSAValue]:
        """Return the offset in `sums`, [position][channel of the chunk], of each point of a block.

        `points` has, for each position of the block, the indices of all loops there.
        """
        first_channel, _ = block.channels
        channels = [point[self.plan.channels] for point in points]
        return [
            build.value(build.plus(build.minus(channel, first_channel), position * self.plan.chunk))
            for position, channel in enumerate(channels)
        ]

    def _sums(self, build: Builder, offsets: Sequence[SSAValue]) -> list[SSAValue]:
        """Emit loads of the sums at these offsets in `sums`, and return them."""
        assert self.sums is not None
        return [load(build, self.sums, offset) for offset in offsets]

    def _store_sum(self, build: Builder, value: SSAValue, offset: SSAValue) -> None:
        """Emit the store of a sum at an offset in `sums`."""
        assert self.sums is not None
        self.frame.elements.store(build, value, self.sums, [offset])

    def _initial(self, build: Builder, point: Sequence[Index]) -> SSAValue:
        """Return the value that the sum of a point starts with: the element of the reduction's initial tensor.

        `point` is the index of each loop.
        """
        generic = self.plan.generic
        return self.frame.elements.at(build, generic.outputs[0], evaluate(build, generic.output_maps[0], point))

    def _steps(
        self, build: Builder, points: Sequence[list[Index]], values: Sequence[SSAValue], is_edge: bool
    ) -> list[SSAValue]:
        """Emit the unrolled steps for all points of a block, and return the new sums.

        A point is a position of the block, with the indices of all loops there. For a block of 4 positions and unrolled
        loops of 3x3, these are 9 steps, in each of which each point adds one value to its sum. An element of a padded
        input is read once for all points of the block that use it.

        Args:
            build: Receives the code.
            points: Indices of all loops at each position of the block; the loops of unrolled reductions get new ones.
            values: The sum of each point before the steps.
            is_edge: Whether the steps may read padding.
        """
        unrolled = self.plan.unrolled
        accumulators = [[value] for value in values]  # for each point, its sum before the steps and after each step
        for step in product(*(range(self._static_size(d)) for d in unrolled)):
            indices_of_step = dict(zip(unrolled, step, strict=True))
            points_of_step = [[indices_of_step.get(d, index) for d, index in enumerate(point)] for point in points]
            for point in points_of_step:
                self.inputs.define_elements(build, point, is_edge)  # `step_at` then reads them
            for point, values_of_point in zip(points_of_step, accumulators, strict=True):
                total = step_at(self.frame.elements, build, self.plan.generic, point, values_of_point[-1])
                values_of_point.append(total)
        # The last value of each point. If all steps are the same maximum or minimum, it is emitted anew for all values
        # of the point at once.
        return reduced(build, accumulators)

    def _static_size(self, dim: int) -> int:
        """Return the size of an unrolled reduction, which is known when the kernel is compiled."""
        size = self.sizes[dim]
        assert isinstance(size, int)
        return size

    def _store(self, build: Builder, points: Sequence[list[Index]], values: Sequence[SSAValue]) -> None:
        """Emit the results of the dispatch from the sums of a block, and then their stores, after all loads.

        Args:
            build: Receives the code.
            points: Indices of all loops at each position of the block.
            values: The sum of each point.
        """
        generic, elements = self.plan.generic, self.frame.elements
        stores = []
        for point, value in zip(points, values, strict=True):
            indices = evaluate(build, generic.output_maps[0], point)
            elements.define(build, generic.op.results[0], indices, value)
            for returned, buffer in zip(self.frame.returned, self.frame.results, strict=True):
                stores.append((elements.at(build, returned, indices), buffer, indices))
        for element, buffer, indices in stores:
            elements.store(build, element, buffer, indices)
