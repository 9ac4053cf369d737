"""Reductions over sliding windows, vectorized along positions: depthwise convolutions and poolings of NCHW.

A workgroup packs the rows of an image that some rows of the result read into workgroup memory, with the padding around
them. Strided windows have one packed image for each phase of the stride: neighbouring positions then read neighbours in
memory, at every step of the window. The packed rows are contiguous, so that they are computed as one long row, with
some positions between them whose sums are never read, and short rows fill vectors as long ones do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from itertools import product

from xdsl.dialects import func
from xdsl.ir import SSAValue

from pydispatch.compiler.kernels.loops.frame import Frame, Kernel
from pydispatch.compiler.kernels.matmul.cpu.tiles import ceil_quotient
from pydispatch.compiler.kernels.matmul.windows.image_packing import ImagePacker, packing_source
from pydispatch.compiler.kernels.matmul.windows.images import ImagePlan, image_plan
from pydispatch.compiler.kernels.matmul.windows.reductions import reduced, reduction_in, step_at
from pydispatch.compiler.kernels.ops.affine_maps import evaluate
from pydispatch.compiler.kernels.ops.builder import Builder, Index, load
from pydispatch.compiler.kernels.ops.tensors import tensor_type
from pydispatch.compiler.target.backend import Backend


def lower_channels_first(source: func.FuncOp, backend: Backend) -> Kernel | None:
    """Return the kernel of a dispatch function that reduces sliding windows of images [..., row, column].

    Such functions are a depthwise convolution or a pooling of NCHW. A workgroup computes tiles, each of a few rows of
    the result. It copies the rows that the windows of a tile read into packed images, one for each pair of phases: with
    a stride of 2, a phase is the even or the odd rows or columns. Return None for other functions, and for a function
    that updates an argument in place.
    """
    generic = reduction_in(source)
    if generic is None:
        return None
    frame = Frame(source, backend)
    plan = None if frame.updates_arguments else image_plan(generic, frame)
    if plan is None:
        return None
    frame.bind()  # emits the buffers of arguments and results
    elements = frame.elements
    # Workgroup memory of a tile: the packed images, and the sums.
    packed_type = tensor_type(plan.window_input).element_type
    images = elements.fresh(packed_type, plan.image_size * len(plan.image_offsets))
    sums = elements.fresh(tensor_type(generic.op.results[0]).element_type, plan.rows * plan.row_length)
    _Workgroup(frame=frame, plan=plan, images=images, sums=sums).emit(frame.build)
    return frame.finish(workgroups=lambda elements, build: ceil_quotient(plan.tiles, plan.tiles_of_workgroup))


@dataclass(frozen=True)
class _ImageTile:
    """A few rows of an image of the result, of which a workgroup reduces the windows.

    Attributes:
        origin: Index of each loop of the reduction: of the tile in the outer dimensions, else 0.
        first_row: The first row of the tile in the result.
    """

    origin: tuple[Index, ...]
    first_row: Index


@dataclass(frozen=True)
class _Workgroup:
    """Emitter of a workgroup's code: it reduces the windows of its tiles, each of which is a few rows of the result.

    Attributes:
        frame: The kernel function, and its inputs and results.
        plan: The plan of the reduction.
        images: Buffer of the packed images of a tile, at `plan.image_offsets`: one for each pair of phases, with every
            stride-th row and column of the input from these on. A phase is a remainder of the division by the stride.
        sums: Buffer of the sums of a tile, [row][position], with `plan.row_length` elements in a row.
    """

    frame: Frame
    plan: ImagePlan
    images: SSAValue
    sums: SSAValue

    def emit(self, build: Builder) -> None:
        """Emit the loop over the tiles of the workgroup: pack the images, reduce, and store the sums."""
        tiles, tiles_of_workgroup = self.plan.tiles, self.plan.tiles_of_workgroup
        workgroup = build.assume_below(self.frame.workgroup(), ceil_quotient(tiles, tiles_of_workgroup))
        first_tile = build.times(workgroup, tiles_of_workgroup)
        end_tile = build.least(build.plus(first_tile, tiles_of_workgroup), tiles)
        build.loop(first_tile, end_tile, [], self._emit_tile, index_below=tiles)

    def _emit_tile(self, build: Builder, tile_index: Index, carried: list[SSAValue]) -> list[SSAValue]:
        """Emit the code of one of all tiles: some rows of the result, at one index of each outer dimension.

        carried: empty, since tiles return their results in memory.
        """
        tile = self._tile_at(build, tile_index)
        # Each tile overwrites the images and sums in memory: loads from them must stay in the loop over tiles.
        pinned = build.without_load_motion()
        self._pack(pinned, tile)
        self._reduce(pinned, tile)
        self._store(pinned, tile)
        return []

    def _tile_at(self, build: Builder, tile_index: Index) -> _ImageTile:
        """Return the tile at an index among all tiles of the result."""
        plan, height = self.plan, self.plan.axes[0].position_count
        tiles_of_image = ceil_quotient(height, plan.rows)
        *outer, tile_of_image = build.split(tile_index, [*(plan.sizes[d] for d in plan.outer), tiles_of_image])
        origin: list[Index] = [0] * len(plan.generic.iterators)
        for dim, outer_index in zip(plan.outer, outer, strict=True):
            origin[dim] = outer_index
        # The last tile of an image overlaps the one before, so that all have `plan.rows` rows.
        first_row = build.least(build.times(tile_of_image, plan.rows), height - plan.rows)
        return _ImageTile(origin=tuple(origin), first_row=first_row)

    def _pack(self, build: Builder, tile: _ImageTile) -> None:
        """Emit the packing of the input of a tile."""
        plan = self.plan
        source = packing_source(self.frame.elements, build, plan.window_input)
        packer = ImagePacker(
            elements=self.frame.elements,
            plan=plan,
            images=self.images,
            source=source,
            start=evaluate(build, plan.generic.maps[plan.input], tile.origin),
            first_row=tile.first_row,
        )
        packer.emit(build)

    def _reduce(self, build: Builder, tile: _ImageTile) -> None:
        """Emit the sums of all window positions of a tile, as one parallel loop over all its rows.

        Rows of positions are as far apart as packed rows, so that there are gaps between them, whose sums are computed
        and never read. With 5 positions in a row, windows of 3x3 and the stride 1, packed rows have 7 elements. Index
        7 * y + x is then position x of row y, and the indices 7 * y + 5 and 7 * y + 6 are in a gap.
        """
        row_length, positions_of_row = self.plan.row_length, self.plan.axes[1].position_count
        index_count = (self.plan.rows - 1) * row_length + positions_of_row  # without the gap after the last row
        build.parallel(0, index_count, partial(self._reduce_window, tile))

    def _reduce_window(self, tile: _ImageTile, build: Builder, index: Index) -> None:
        """Emit the sum of one window, and its store at `index` in `sums`.

        The input was copied to packed images, one for each pair of phases (remainders of row and column in the division
        by the stride). In each image, the window begins `index` elements after the start.

        index: row of the position in the tile * `plan.row_length` + position in the row.
        """
        plan, generic, elements = self.plan, self.plan.generic, self.frame.elements
        # The initial value is the same at all positions of the image: `image_plan` accepts no other reduction.
        initial_indices = evaluate(build, generic.output_maps[0], tile.origin)
        accumulators = [elements.at(build, generic.outputs[0], initial_indices)]
        for step in product(*(range(plan.sizes[d]) for d in generic.reduced_loops)):
            indices_of_step = dict(zip(generic.reduced_loops, step, strict=True))
            # `step_at` emits the body for the indices `point`, with this step and position 0 in the image. `define`
            # registers the element at `index` as the element of the input there, so that the body uses it.
            point = [indices_of_step.get(d, i) for d, i in enumerate(tile.origin)]
            element = load(build, self.images, build.plus(index, self._offset_of_step(indices_of_step)))
            elements.define(build, plan.window_input, evaluate(build, generic.maps[plan.input], point), element)
            accumulators.append(step_at(elements, build, generic, point, accumulators[-1]))
        # The last accumulator; if all steps are the same maximum or minimum, one of all elements at once.
        (value,) = reduced(build, [accumulators])
        elements.store(build, value, self.sums, [index])

    def _offset_of_step(self, indices_of_step: Mapping[int, int]) -> int:
        """Return the offset in `images` of the element that the window at position 0 of the tile reads at a step.

        indices_of_step: reduced loop -> its index.
        """
        row_step, column_step = (0 if a.step_loop is None else indices_of_step[a.step_loop] for a in self.plan.axes)
        row_phase, row_shift = self.plan.axes[0].phase_and_shift(row_step)
        column_phase, column_shift = self.plan.axes[1].phase_and_shift(column_step)
        image_offset = self.plan.image_offsets[row_phase, column_phase]
        return image_offset + row_shift * self.plan.row_length + column_shift

    def _store(self, build: Builder, tile: _ImageTile) -> None:
        """Emit the results of the dispatch from the sums of a tile, and their stores."""
        positions_of_row = self.plan.axes[1].position_count

        def store_row(outer: Builder, y: Index) -> None:
            """Store the results of row `y` of the tile, at all positions."""
            outer.parallel(0, positions_of_row, partial(self._store_position, tile, y))

        build.parallel(0, self.plan.rows, store_row)

    def _store_position(self, tile: _ImageTile, y: Index, build: Builder, x: Index) -> None:
        """Emit the results of the dispatch at row `y` of a tile and at position `x`, and their stores.

        `Elements.define` registers the sum as the element of the reduction's result. `Elements.at` computes the
        elements of the dispatch's results from it.
        """
        plan, generic, elements = self.plan, self.plan.generic, self.frame.elements
        vertical, horizontal = plan.axes
        point = list(tile.origin)
        point[vertical.position_loop], point[horizontal.position_loop] = build.plus(tile.first_row, y), x
        indices = evaluate(build, generic.output_maps[0], point)
        offset_of_sum = build.plus(build.times(y, plan.row_length), x)  # `sums` is [row of the tile][position]
        total = load(build, self.sums, offset_of_sum)
        elements.define(build, generic.op.results[0], indices, total)
        for returned, buffer in zip(self.frame.returned, self.frame.results, strict=True):
            elements.store(build, elements.at(build, returned, indices), buffer, indices)
