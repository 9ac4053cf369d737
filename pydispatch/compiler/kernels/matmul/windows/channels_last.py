"""Reductions over sliding windows, vectorized along channels: depthwise convolutions and poolings of NHWC.

Vectors are along the last dimension of the result. A block is a few neighbouring positions of the dimension before it,
which is unrolled: their sums stay in registers over all steps of the innermost reductions, so that positions share
loads. Reductions that are too long for that, or of unknown size, are loops around blocks whose sums are in the
first-level cache.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product

from xdsl.dialects import func
from xdsl.ir import SSAValue

from pydispatch.compiler.kernels.loops.frame import Frame, Kernel
from pydispatch.compiler.kernels.matmul.windows.padding import PaddedInputs
from pydispatch.compiler.kernels.matmul.windows.plan import (
    Division,
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
    inputs = PaddedInputs.of(frame.elements, generic, plan.channel_dim, plan.position_dim)
    sums = None  # in registers
    if plan.looped_dims:  # in memory: [position of a block][channel of a chunk]
        sum_type = tensor_type(generic.op.results[0]).element_type
        sums = frame.elements.fresh(sum_type, plan.block_positions * plan.channels_per_chunk)
    _Workgroup(frame=frame, plan=plan, sizes=tuple(sizes), inputs=inputs, sums=sums).emit(frame.build)
    return frame.finish(workgroups=lambda elements, build: workgroups_of(plan, build, loop_sizes(elements, generic)))


@dataclass(frozen=True)
class _Block:
    """A block of neighbouring positions, whose reductions are computed side by side for each channel.

    Attributes:
        plan: The plan of the reduction.
        origin: Index of each loop of `plan.generic`: the indices of the outer loops, and 0 for the loops over
            positions, channels and reductions, whose indices `points` sets.
        first: The first position.
        width: The number of positions.
        channels: The first channel, and the exclusive end of the channels.
        is_edge: Whether the block may read padding.
    """

    plan: WindowPlan
    origin: tuple[Index, ...]
    first: Index
    width: int
    channels: tuple[Index, Index]
    is_edge: bool = False

    def points(
        self, build: Builder, channel: Index, reduced_indices: Mapping[int, Index] | None = None
    ) -> list[list[Index]]:
        """Return, for each position of the block, the indices of all loops at `channel`.

        reduced_indices: reduced loop -> its index, for loops around the emitted code. Unrolled loops remain at 0.
        """
        points = []
        for i in range(self.width):
            point = list(self.origin)
            point[self.plan.channel_dim] = channel
            if self.plan.position_dim is not None:
                point[self.plan.position_dim] = build.plus(self.first, i)
            for dim, index in (reduced_indices or {}).items():
                point[dim] = index
            points.append(point)
        return points


@dataclass(frozen=True)
class _Tile:
    """Neighbouring positions of one row of the result, which a workgroup divides into blocks.

    Attributes:
        origin: Index of each loop of the reduction: the indices of the outer loops in this row, and 0 for the loops
            over positions, channels and reductions, which the code of the tile iterates over.
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
        """Emit the loop over the tiles of the workgroup, each of some neighbouring positions in a row of the result."""
        division = division_of(self.plan, build, self.sizes)
        tile_count = tiles_of_workgroup(self.plan, build, self.sizes)
        workgroup = build.assume_below(self.frame.workgroup(), build.ceil_quotient(division.tiles, tile_count))
        first_tile = build.times(workgroup, tile_count)
        end_tile = build.least(build.plus(first_tile, tile_count), division.tiles)

        def emit_tile(inner: Builder, tile_index: Index, carried: list[SSAValue]) -> list[SSAValue]:
            """Emit one of the tiles in the `division` of the result."""
            self._emit_tile(inner, self._tile_at(inner, tile_index, division))
            return []

        # `_tile_at` divides the index by `tiles_of_row` and the sizes of the outer dimensions. These divisions fold
        # only if the index is known to be below their product, `division.tiles`; `end_tile` is another bound.
        build.loop(first_tile, end_tile, [], emit_tile, index_below=division.tiles)

    def _tile_at(self, build: Builder, tile_index: Index, division: Division) -> _Tile:
        """Return the tile at an index among all tiles of the result: with 5 tiles in a row, 12 is tile 2 of row 2."""
        plan = self.plan
        outer_sizes = [self.sizes[d] for d in plan.outer_dims]
        *outer, tile_in_row = build.split(tile_index, [*outer_sizes, division.tiles_of_row])
        first_position = build.times(tile_in_row, division.tile_length)
        origin: list[Index] = [0] * len(self.sizes)
        for dim, outer_index in zip(plan.outer_dims, outer, strict=True):
            origin[dim] = outer_index
        row_length: Index = 1 if plan.position_dim is None else self.sizes[plan.position_dim]
        count = build.least(division.tile_length, build.minus(row_length, first_position))
        return _Tile(origin=tuple(origin), first=first_position, count=count)

    def _emit_tile(self, build: Builder, tile: _Tile) -> None:
        """Emit the blocks of a tile, for one chunk of `plan.channels_per_chunk` channels after the other.

        The weights of a chunk then stay in the first-level cache while all positions use them.
        """
        per_chunk, channel_count = self.plan.channels_per_chunk, self.sizes[self.plan.channel_dim]
        has_one_chunk = isinstance(channel_count, int) and channel_count <= per_chunk
        if has_one_chunk:  # no loop
            self._emit_blocks(build, tile, channels=(0, channel_count))
            return

        def emit_chunk(inner: Builder, chunk: Index, carried: list[SSAValue]) -> list[SSAValue]:
            """Emit the blocks of `tile` for `per_chunk` of the channels, or fewer in the last chunk."""
            first = inner.times(chunk, per_chunk)
            end = inner.least(inner.plus(first, per_chunk), channel_count)
            self._emit_blocks(inner, tile, channels=(first, end))
            return []

        build.loop(0, build.ceil_quotient(channel_count, per_chunk), [], emit_chunk)

    def _emit_blocks(self, build: Builder, tile: _Tile, channels: tuple[Index, Index]) -> None:
        """Emit the blocks of a tile for the channels of a chunk, given as (first, end).

        A block is up to `block_positions` neighbouring positions, whose reductions are computed side by side for each
        channel. The code of a block is unrolled along its positions, so that their number must be known at compile
        time. The last positions, too few for a block, are one narrower block if their number is known, and else a loop
        over blocks of one position.
        """
        full_width, count = self.plan.block_positions, tile.count

        def emit_block(inner: Builder, offset: Index, width: int) -> list[SSAValue]:
            """Emit the block of `width` positions from `offset` on in `tile`, and return no values for a loop."""
            first = inner.plus(tile.first, offset)
            self._emit_block(inner, _Block(self.plan, tile.origin, first=first, width=width, channels=channels))
            return []

        full_blocks = build.quotient(count, full_width)
        build.loop(0, full_blocks, [], lambda inner, i, _: emit_block(inner, inner.times(i, full_width), full_width))
        covered = build.times(full_blocks, full_width)
        if isinstance(count, int) and isinstance(covered, int):
            if count > covered:
                emit_block(build, covered, count - covered)
        elif full_width > 1:  # blocks of one position cover all of them
            build.loop(covered, count, [], lambda inner, offset, _: emit_block(inner, offset, width=1))

    def _emit_block(self, build: Builder, block: _Block) -> None:
        """Emit a block twice, without and with checks for padding; the kernel executes one of the two.

        The checks are left out if the block reads no padding.
        """
        is_interior = self.inputs.are_interior(build, block.origin, block.first, block.width)
        # Sums stay in registers unless there are reduction loops around the unrolled ones.
        emit = self._emit_block_in_memory if self.plan.looped_dims else self._emit_block_in_registers
        build.when(is_interior, lambda inner: emit(inner, block))
        build.when(opposite(build, is_interior), lambda inner: emit(inner, replace(block, is_edge=True)))

    def _in_each_channel(self, build: Builder, block: _Block, body: Callable[[_Block, Builder, Index], None]) -> None:
        """Emit a parallel loop that runs `body` for each channel of a block."""
        first, end = block.channels
        build.parallel(first, end, partial(body, block), index_below=self.sizes[self.plan.channel_dim])

    def _emit_block_in_registers(self, build: Builder, block: _Block) -> None:
        """Emit a block whose reductions are all unrolled: a loop over channels that computes and stores all results."""
        self._in_each_channel(build, block, self._emit_channel_in_registers)

    def _emit_channel_in_registers(self, block: _Block, build: Builder, channel: Index) -> None:
        """Emit the results of all positions of a block at one channel, and their stores."""
        points = block.points(build, channel)
        values = [self._initial_value(build, point) for point in points]
        self._store_results(build, points, self._emit_steps(build, points, values, block.is_edge))

    def _emit_block_in_memory(self, build: Builder, block: _Block) -> None:
        """Emit a block of a plan with `looped_dims`: reductions that are too long to unroll, or of unknown size.

        The loops over these reductions enclose the loop over channels, so that the sums of all channels are in memory
        between iterations.
        """
        # The sums in memory change from loop to loop: loads from them must not be moved or reused.
        pinned = build.without_load_motion()
        self._in_each_channel(pinned, block, self._initialize_sums)
        self._emit_reductions(pinned, block, self.plan.looped_dims, indices={})
        self._in_each_channel(pinned, block, self._store_results_of_channel)

    def _initialize_sums(self, block: _Block, build: Builder, channel: Index) -> None:
        """Emit stores of the initial values to the sums of one channel of a block."""
        points = block.points(build, channel)
        for offset, point in zip(self._sum_offsets(build, block, points), points, strict=True):
            self._store_sum(build, self._initial_value(build, point), offset)

    def _emit_reductions(
        self, build: Builder, block: _Block, loops: Sequence[int], indices: Mapping[int, Index]
    ) -> None:
        """Emit loops over reductions, and in the innermost one the unrolled steps for all channels of a block.

        Each call emits the first one of `loops`, and calls itself for the others inside it. Without `loops`, the call
        emits the loop over channels.

        Args:
            build: Receives the code.
            block: The block, whose sums are in memory.
            loops: Numbers of the reduced loops that are still to be emitted, outermost first.
            indices: Number of a loop -> its index, for the reduced loops that enclose `build`.
        """
        if not loops:
            self._in_each_channel(build, block, partial(self._add_to_sums_of_channel, indices))
            return
        loop, *inner_loops = loops

        def emit_inner_loops(inner: Builder, index: Index, carried: list[SSAValue]) -> list[SSAValue]:
            """Emit the loops that are inside `loop`."""
            self._emit_reductions(inner, block, inner_loops, {**indices, loop: index})
            return []

        build.loop(0, self.sizes[loop], [], emit_inner_loops)

    def _add_to_sums_of_channel(
        self, indices: Mapping[int, Index], block: _Block, build: Builder, channel: Index
    ) -> None:
        """Emit the unrolled steps of one channel of a block, which add to its sums in memory.

        indices: number of a loop -> its index, for the reduced loops that enclose this code.
        """
        points = block.points(build, channel, indices)
        offsets = self._sum_offsets(build, block, points)
        values = self._emit_steps(build, points, self._load_sums(build, offsets), block.is_edge)
        for offset, value in zip(offsets, values, strict=True):
            self._store_sum(build, value, offset)

    def _store_results_of_channel(self, block: _Block, build: Builder, channel: Index) -> None:
        """Emit the results of one channel of a block, from its sums in memory, and their stores."""
        points = block.points(build, channel)
        self._store_results(build, points, self._load_sums(build, self._sum_offsets(build, block, points)))

    def _sum_offsets(self, build: Builder, block: _Block, points: Sequence[list[Index]]) -> list[SSAValue]:
        """Return the offset in `sums`, [position of the block][channel of the chunk], of each point of a block.

        offset = position * channels_per_chunk + (channel - first channel). `points` has, for each position of the
        block, the indices of all loops there.
        """
        first_channel, _ = block.channels
        channels = [point[self.plan.channel_dim] for point in points]
        return [
            build.value(build.plus(build.minus(channel, first_channel), position * self.plan.channels_per_chunk))
            for position, channel in enumerate(channels)
        ]

    def _load_sums(self, build: Builder, offsets: Sequence[SSAValue]) -> list[SSAValue]:
        """Emit loads of the sums at these offsets in `sums`, and return them."""
        assert self.sums is not None
        return [load(build, self.sums, offset) for offset in offsets]

    def _store_sum(self, build: Builder, value: SSAValue, offset: SSAValue) -> None:
        """Emit the store of a sum at an offset in `sums`."""
        assert self.sums is not None
        self.frame.elements.store(build, value, self.sums, [offset])

    def _initial_value(self, build: Builder, point: Sequence[Index]) -> SSAValue:
        """Return the value that the sum of a point starts with: the element of the reduction's initial tensor.

        `point` is the index of each loop.
        """
        generic = self.plan.generic
        return self.frame.elements.at(build, generic.outputs[0], evaluate(build, generic.output_maps[0], point))

    def _emit_steps(
        self, build: Builder, points: Sequence[list[Index]], values: Sequence[SSAValue], is_edge: bool
    ) -> list[SSAValue]:
        """Emit the unrolled steps for all points of a block, and return the new sums.

        A point is a position of the block, with the indices of all loops there. For a block of 4 positions and unrolled
        loops of 3x3, these are 9 steps, in each of which each point adds one value to its sum. An element of a padded
        input is read once for all points of the block that use it. `values` are the sums of the points before the
        steps. With `is_edge`, the steps may read padding.
        """
        unrolled = self.plan.unrolled_dims
        accumulators = [[value] for value in values]  # for each point, its sum before the steps and after each step
        for step in product(*(range(self._static_size(d)) for d in unrolled)):
            indices_of_step = dict(zip(unrolled, step, strict=True))  # unrolled loop -> its index
            points_of_step = [[indices_of_step.get(d, index) for d, index in enumerate(point)] for point in points]
            # Register the padded elements that `step_at` reads, for all points first: an element is loaded once.
            for point in points_of_step:
                self.inputs.define_elements(build, point, is_edge)
            for point, values_of_point in zip(points_of_step, accumulators, strict=True):
                total = step_at(self.frame.elements, build, self.plan.generic, point, values_of_point[-1])
                values_of_point.append(total)
        # The last value of each point. If all steps are the same maximum or minimum, `reduced` replaces them by one
        # maximum or minimum of all values of the point.
        return reduced(build, accumulators)

    def _static_size(self, dim: int) -> int:
        """Return the size of an unrolled reduction, which is known when the kernel is compiled."""
        size = self.sizes[dim]
        assert isinstance(size, int)
        return size

    def _store_results(self, build: Builder, points: Sequence[list[Index]], values: Sequence[SSAValue]) -> None:
        """Emit the results of the dispatch from the sums of a block, and then their stores.

        All stores are after all loads: a store between two loads would hinder later passes from moving the second one.
        `points` has the indices of all loops at each position of the block, `values` the sum of each.
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
