"""Reductions over sliding windows, vectorized along positions: depthwise convolutions and poolings of NCHW.

A workgroup packs the rows of an image that some rows of the result read into workgroup memory, with the padding around
them. Strided windows have one packed image for each phase of the stride: neighbouring positions then read neighbours in
memory, at every step of the window. The packed rows are contiguous, so that they are computed as one long row, with
some positions between them whose sums are never read, and short rows fill vectors as long ones do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product

from xdsl.dialects import arith, func, tensor
from xdsl.ir import SSAValue

from pydispatch.compiler.kernels.loops.frame import Frame, Kernel
from pydispatch.compiler.kernels.matmul.cpu.tiles import ceil_quotient
from pydispatch.compiler.kernels.matmul.windows.images import ImagePlan, image_plan
from pydispatch.compiler.kernels.matmul.windows.reductions import reduced, reduction_in, step_at
from pydispatch.compiler.kernels.ops.affine_maps import evaluate
from pydispatch.compiler.kernels.ops.bodies import clone_block
from pydispatch.compiler.kernels.ops.builder import Builder, Index, load
from pydispatch.compiler.kernels.ops.conditions import both, opposite
from pydispatch.compiler.kernels.ops.tensors import tensor_type, zero_attribute
from pydispatch.compiler.target.backend import Backend
from pydispatch.compiler.tensor_ops.rules.joins import pad_amounts


@dataclass(frozen=True)
class PaddedSource:
    """The tensor that images are packed from.

    Attributes:
        value: The tensor, without padding.
        low: Number of padding elements before its elements, along each dimension: 0 for all but the last two.
        padding: The padding element; None if packing reads the tensor without padding, and all `low` are 0.
    """

    value: SSAValue
    low: Sequence[int]
    padding: SSAValue | None


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
    packed_type = tensor_type(generic.inputs[plan.input]).element_type
    images = elements.fresh(packed_type, plan.image_size * len(plan.image_offsets))
    sums = elements.fresh(tensor_type(generic.op.results[0]).element_type, plan.rows * plan.row_length)
    _Workgroup(frame=frame, plan=plan, images=images, sums=sums).emit(frame.build)
    return frame.finish(workgroups=lambda elements, build: ceil_quotient(plan.tiles, plan.tiles_of_workgroup))


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
        plan, height = self.plan, self.plan.axes[0].position_count
        tiles_of_image = ceil_quotient(height, plan.rows)
        *outer, tile_of_image = build.split(tile_index, [*(plan.sizes[d] for d in plan.outer), tiles_of_image])
        origin: list[Index] = [0] * len(plan.generic.iterators)
        for dim, outer_index in zip(plan.outer, outer, strict=True):
            origin[dim] = outer_index
        # The last tile of an image overlaps the one before, so that all have `plan.rows` rows.
        first_row = build.least(build.times(tile_of_image, plan.rows), height - plan.rows)
        # Each tile overwrites the images and sums in memory: loads from them must stay in the loop over tiles.
        pinned = build.without_load_motion()
        self._pack(pinned, origin, first_row)
        self._reduce(pinned, origin)
        self._store(pinned, origin, first_row)
        return []

    # Packing

    def _pack(self, build: Builder, origin: Sequence[Index], first_row: Index) -> None:
        """Emit the packing of the input of a tile: one image for each pair of a vertical and a horizontal phase.

        A phase is a remainder of the row, or the column, in the division by the stride.

        Args:
            build: Receives the code.
            origin: Index of each loop: of the tile in the outer dimensions, else 0.
            first_row: The first row of the tile in the result.
        """
        source = self._packing_source(build)
        start = evaluate(build, self.plan.generic.maps[self.plan.input], origin)
        for phases in self.plan.image_offsets:
            self._pack_image(build, source, start, phases, first_row)

    def _pack_image(
        self, build: Builder, source: PaddedSource, start: Sequence[Index], phases: tuple[int, int], first_row: Index
    ) -> None:
        """Emit the packing of the image of a pair of phases, which has every stride-th row and column of the input.

        A phase is a remainder of the row, or the column, in the division by the stride. With a stride of 2, the image
        of the phases (1, 0) has the rows 2 * first_row + 1, 2 * first_row + 3, ... of the padded input, and of each the
        columns 0, 2, 4, ... The packed rows follow each other in memory, at a distance of `plan.row_length` elements.

        Args:
            build: Receives the code.
            source: The tensor that elements are copied from, and its padding.
            start: Indices in the padded tensor of the first element of the images.
            phases: The vertical and the horizontal phase.
            first_row: The first row of the tile in the result.
        """
        plan, (vertical, horizontal), (row_phase, column_phase) = self.plan, self.plan.axes, phases
        # The number of elements of a packed row that windows read. Elements from there to `plan.row_length` are gaps.
        extent = horizontal.position_count + horizontal.largest_shift_by_phase[column_phase]

        def pack_row(inner: Builder, y: Index) -> None:
            """Pack row `y` of the image of `phases`: row (first_row + y) * stride + row_phase of the padded input."""
            padded_row = inner.plus(inner.times(inner.plus(first_row, y), vertical.stride), row_phase)
            unpadded_row = inner.minus(padded_row, source.low[-2])
            offset = inner.plus(inner.times(y, plan.row_length), plan.image_offsets[phases])
            # Pack the row if it is in the tensor, else fill it with padding.
            is_in_tensor: SSAValue | bool = True
            if source.padding is not None:
                height = self.frame.elements.dims(source.value)[-2]
                is_after_padding = inner.less(source.low[-2] - 1, padded_row)  # low <= padded_row
                is_in_tensor = both(inner, is_after_padding, inner.less(unpadded_row, height))
            row_indices = [*start[:-2], unpadded_row]
            inner.when(is_in_tensor, lambda b: self._pack_row(b, source, row_indices, column_phase, extent, offset))
            inner.when(opposite(inner, is_in_tensor), lambda b: self._fill(b, source.padding, offset, 0, extent))
            # `_reduce` also sums up the elements in the gap after the row, and never reads these sums. The gap is
            # filled with 0: whatever is in memory could be subnormal numbers, which are slow on some CPUs.
            if extent < plan.row_length:
                zero = inner.pure(arith.ConstantOp(zero_attribute(tensor_type(self._input).element_type)))
                self._fill(inner, zero, offset, extent, plan.row_length)

        build.parallel(0, plan.rows + vertical.largest_shift_by_phase[row_phase], pack_row)

    def _pack_row(
        self, build: Builder, source: PaddedSource, outer: Sequence[Index], phase: int, extent: int, offset: Index
    ) -> None:
        """Emit the packing of one row of an image: padding before, elements, padding after.

        A row of 8 elements, with 1 element of padding before and after it, is columns 0 to 9 of the padded tensor. With
        a stride of 2, phase 0 has the columns 0, 2, 4, 6 and 8: the first is padding, and the others are the elements
        1, 3, 5 and 7 of the row. So elements [begin, end) = [1, 5) of the packed row are copied. Without padding, all
        elements are.

        Args:
            build: Receives the code.
            source: The tensor that elements are copied from, and its padding.
            outer: Indices of the row in the tensor, for all dimensions but the last.
            phase: The horizontal phase: the row has every `stride`-th column from this one on.
            extent: Elements of the packed row.
            offset: Index of the row's first element in `images`.
        """
        stride, low, elements = self.plan.axes[1].stride, source.low[-1], self.frame.elements
        # Element x of the packed row is column x * stride + phase of the padded tensor. It is not padding if
        # low <= x * stride + phase < low + width, which is solved for x, rounded up, and clamped to the row.
        begin, end = max(0, min(extent, ceil_quotient(low - phase, stride))), extent
        if source.padding is not None:
            width = elements.dims(source.value)[-1]
            assert isinstance(width, int)  # `_packing_source` reads a pad of known sizes only
            end = max(begin, min(extent, ceil_quotient(width + low - phase, stride)))

        def copy_element(inner: Builder, x: Index) -> None:
            """Copy column x * stride + phase - low of a row of the tensor to element `x` of the packed row."""
            column = inner.plus(inner.times(x, stride), phase - low)
            value = elements.at(inner, source.value, [*outer, column])
            elements.store(inner, value, self.images, [inner.plus(offset, x)])

        self._fill(build, source.padding, offset, 0, begin)
        build.parallel(begin, end, copy_element, index_below=extent)
        self._fill(build, source.padding, offset, end, extent)

    def _fill(self, build: Builder, value: SSAValue | None, offset: Index, begin: int, end: int) -> None:
        """Emit stores of a value to the elements [begin, end) of the row that starts at `offset` in `images`.

        value: may be None only if there are no such elements.
        """
        if begin >= end:
            return
        assert value is not None
        store = self.frame.elements.store
        build.parallel(begin, end, lambda inner, x: store(inner, value, self.images, [inner.plus(offset, x)]))

    @property
    def _input(self) -> SSAValue:
        """The operand of the reduction that windows read; where they read padding, the result of a `tensor.pad`."""
        return self.plan.generic.inputs[self.plan.input]

    def _packing_source(self, build: Builder) -> PaddedSource:
        """Return the tensor that images are packed from: the source of a simple pad, or else the input itself.

        Packing from the source of a pad stores the padding itself, instead of reading a padded tensor. A pad is simple
        if its result is not stored in memory, all sizes are known, only the last two dimensions are padded, and all
        padding is one value.
        """
        elements, input_, pad = self.frame.elements, self._input, self._input.owner
        input_itself = PaddedSource(value=input_, low=[0] * tensor_type(input_).get_num_dims(), padding=None)
        if not isinstance(pad, tensor.PadOp) or elements.is_materialized(input_):
            return input_itself
        low, high = pad_amounts(elements, pad)
        has_known_sizes = all(isinstance(n, int) for n in (*low, *high, *elements.dims(pad.source)))
        pads_other_dims = any(n != 0 for n in (*low[:-2], *high[:-2]))
        padding_depends_on_index = any(index.uses.get_length() for index in pad.region.block.args)
        if not has_known_sizes or pads_other_dims or padding_depends_on_index:
            return input_itself
        padding = clone_block(elements, build, pad.region.block, {}, point=[])[0]
        return PaddedSource(value=pad.source, low=[n for n in low if isinstance(n, int)], padding=padding)

    # Sums and results

    def _reduce(self, build: Builder, origin: Sequence[Index]) -> None:
        """Emit the sums of all window positions of a tile, as one parallel loop over all its rows.

        Rows of positions are as far apart as packed rows, so that there are gaps between them, whose sums are computed
        and never read. With 5 positions in a row, windows of 3x3 and the stride 1, packed rows have 7 elements. Index
        7 * y + x is then position x of row y, and the indices 7 * y + 5 and 7 * y + 6 are in a gap.

        Args:
            build: Receives the code.
            origin: Index of each loop: of the tile in the outer dimensions, else 0.
        """
        row_length, positions_of_row = self.plan.row_length, self.plan.axes[1].position_count
        index_count = (self.plan.rows - 1) * row_length + positions_of_row  # without the gap after the last row
        build.parallel(0, index_count, partial(self._reduce_window, origin))

    def _reduce_window(self, origin: Sequence[Index], build: Builder, index: Index) -> None:
        """Emit the sum of one window, and its store at `index` in `sums`.

        The input was copied to packed images, one for each pair of phases (remainders of row and column in the division
        by the stride). In each image, the window begins `index` elements after the start.

        Args:
            origin: Index of each loop: of the tile in the outer dimensions, else 0.
            build: Receives the code.
            index: Row of the position in the tile * `plan.row_length` + position in the row.
        """
        plan, generic, elements = self.plan, self.plan.generic, self.frame.elements
        # The initial value is the same at all positions of the image: `image_plan` accepts no other reduction.
        initial_indices = evaluate(build, generic.output_maps[0], origin)
        accumulators = [elements.at(build, generic.outputs[0], initial_indices)]
        for step in product(*(range(plan.sizes[d]) for d in generic.reduced_loops)):
            indices_of_step = dict(zip(generic.reduced_loops, step, strict=True))
            # `step_at` emits the body for the indices `point`, with this step and position 0 in the image. `define`
            # registers the element at `index` as the element of the input there, so that the body uses it.
            point = [indices_of_step.get(d, i) for d, i in enumerate(origin)]
            element = load(build, self.images, build.plus(index, self._offset_of_step(indices_of_step)))
            elements.define(build, self._input, evaluate(build, generic.maps[plan.input], point), element)
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

    def _store(self, build: Builder, origin: Sequence[Index], first_row: Index) -> None:
        """Emit the results of the dispatch from the sums of a tile, and their stores.

        Args:
            build: Receives the code.
            origin: Index of each loop: of the tile in the outer dimensions, else 0.
            first_row: The first row of the tile in the result.
        """
        plan, generic, elements = self.plan, self.plan.generic, self.frame.elements
        vertical, horizontal = (axis.position_loop for axis in plan.axes)

        def store_results(inner: Builder, y: Index, x: Index) -> None:
            """Store the results at row `y` of the tile, which begins at `first_row`, and at position `x`.

            `Elements.define` registers the sum as the element of the reduction's result. `Elements.at` computes the
            elements of the dispatch's results from it.
            """
            point = list(origin)
            point[vertical], point[horizontal] = inner.plus(first_row, y), x
            indices = evaluate(inner, generic.output_maps[0], point)
            offset = inner.plus(inner.times(y, plan.row_length), x)
            total = load(inner, self.sums, offset)
            elements.define(inner, generic.op.results[0], indices, total)
            for returned, buffer in zip(self.frame.returned, self.frame.results, strict=True):
                elements.store(inner, elements.at(inner, returned, indices), buffer, indices)

        def store_row(outer: Builder, y: Index) -> None:
            """Store the results of row `y` of the tile, at all positions."""
            outer.parallel(0, plan.axes[1].position_count, lambda inner, x: store_results(inner, y, x))

        build.parallel(0, plan.rows, store_row)
