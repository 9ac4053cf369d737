"""Reductions over sliding windows, vectorized along positions: depthwise convolutions and poolings of NCHW.

A workgroup packs the rows of an image that some rows of the result read into workgroup memory, with the padding around
them. Strided windows have one packed image for each phase of the stride: neighbouring positions then read neighbours in
memory, at every step of the window. The packed rows are contiguous, so that they are computed as one long row, with
some positions between them whose sums are never read, and short rows fill vectors as long ones do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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
        padding: The padding element; None where windows read no padding.
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
    frame.bind()
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
        plan = self.plan
        # Tiles of all images, tiles of a workgroup, and rows of the result in an image.
        total, count, height = plan.tiles, plan.tiles_of_workgroup, plan.axes[0].position_count
        workgroup = build.assume_below(self.frame.workgroup(), ceil_quotient(total, count))
        first = build.times(workgroup, count)

        def body(inner: Builder, index: Index, carried: list[SSAValue]) -> list[SSAValue]:
            """Emit tile `index` of all tiles: some rows of the result, at one index of each outer dimension."""
            *outer, tile = inner.split(index, [*(plan.sizes[d] for d in plan.outer), ceil_quotient(height, plan.rows)])
            origin: list[Index] = [0] * len(plan.generic.iterators)
            for dim, outer_index in zip(plan.outer, outer, strict=True):
                origin[dim] = outer_index
            first_row = inner.least(inner.times(tile, plan.rows), height - plan.rows)  # the last tile overlaps
            pinned = inner.without_load_motion()  # each tile overwrites the images and sums in memory
            self._pack(pinned, origin, first_row)
            self._reduce(pinned, origin)
            self._store(pinned, origin, first_row)
            return []

        build.loop(first, build.least(build.plus(first, count), total), [], body, index_below=total)

    # Packing

    def _pack(self, build: Builder, origin: Sequence[Index], first_row: Index) -> None:
        """Emit the packing of the input of a tile: one image for each pair of phases.

        Args:
            build: Receives the code.
            origin: Index of each loop: of the tile in the outer dimensions, else 0.
            first_row: The first row of the tile in the result.
        """
        source = self._source(build)
        start = evaluate(build, self.plan.generic.maps[self.plan.input], origin)
        for phases in self.plan.image_offsets:
            self._pack_image(build, source, start, phases, first_row)

    def _pack_image(
        self, build: Builder, source: PaddedSource, start: Sequence[Index], phases: tuple[int, int], first_row: Index
    ) -> None:
        """Emit the packing of the image of a pair of phases: every stride-th row and column of the input from these on.

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
        plan, (rows, columns), (row_phase, column_phase) = self.plan, self.plan.axes, phases
        # Elements of a packed row that windows read; those from here to `plan.row_length` are between two rows.
        extent = columns.position_count + columns.largest_shift_by_phase[column_phase]

        def row(inner: Builder, y: Index) -> None:
            """Pack row `y` of the image: row `(first_row + y) * stride + row_phase` of the padded input."""
            padded_row = inner.plus(inner.times(inner.plus(first_row, y), rows.stride), row_phase)
            unpadded_row = inner.minus(padded_row, source.low[-2])
            offset = inner.plus(inner.times(y, plan.row_length), plan.image_offsets[phases])
            # The row is packed if it is in the tensor, else it is padding.
            exists: SSAValue | bool = True
            if source.padding is not None:
                height = self.frame.elements.dims(source.value)[-2]
                is_after_padding = inner.less(source.low[-2] - 1, padded_row)  # low <= padded_row
                exists = both(inner, is_after_padding, inner.less(unpadded_row, height))
            inner.when(
                exists, lambda b: self._pack_row(b, source, [*start[:-2], unpadded_row], column_phase, extent, offset)
            )
            inner.when(opposite(inner, exists), lambda b: self._fill(b, source.padding, offset, 0, extent))
            # `_reduce` also computes sums of the elements between rows, and drops them. They are 0, since a sum of what
            # happens to be in memory could be of subnormal numbers, which are slow on some CPUs.
            if extent < plan.row_length:
                zero = inner.pure(arith.ConstantOp(zero_attribute(tensor_type(self._input).element_type)))
                self._fill(inner, zero, offset, extent, plan.row_length)

        build.parallel(0, plan.rows + rows.largest_shift_by_phase[row_phase], row)

    def _pack_row(
        self, build: Builder, source: PaddedSource, outer: Sequence[Index], phase: int, extent: int, offset: Index
    ) -> None:
        """Emit the packing of one row of an image: padding before, elements, padding after.

        Without padding, `low` is 0 and elements fill the row: nothing else is stored.

        A row of 8 elements, with 1 element of padding before and after it, is columns 0 to 9 of the padded tensor. With
        a stride of 2, phase 0 has the columns 0, 2, 4, 6 and 8: the first is padding, and the others are the elements
        1, 3, 5 and 7 of the row. So [begin, end) is [1, 5).

        Args:
            build: Receives the code.
            source: The tensor that elements are copied from, and its padding.
            outer: Indices of the row in the tensor, without padding.
            phase: The horizontal phase: the row has every `stride`-th column from this one on.
            extent: Elements of the packed row.
            offset: Index of the row's first element in `images`.
        """
        stride, low, elements = self.plan.axes[1].stride, source.low[-1], self.frame.elements
        # Elements [begin, end) of the packed row are elements of the tensor; padding is before and after them. Element
        # x is column x * stride + phase of the padded tensor, in which [low, low + width) are elements of the tensor.
        begin, end = max(0, min(extent, ceil_quotient(low - phase, stride))), extent
        if source.padding is not None:
            width = elements.dims(source.value)[-1]
            assert isinstance(width, int)  # `_source` reads a pad of known sizes only
            end = max(begin, min(extent, ceil_quotient(width + low - phase, stride)))

        def element(inner: Builder, x: Index) -> None:
            """Copy element `x` of the row, column `x * stride + phase` of the padded tensor."""
            column = inner.plus(inner.times(x, stride), phase - low)
            value = elements.at(inner, source.value, [*outer, column])
            elements.store(inner, value, self.images, [inner.plus(offset, x)])

        self._fill(build, source.padding, offset, 0, begin)
        build.parallel(begin, end, element, index_below=extent)
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

    def _source(self, build: Builder) -> PaddedSource:
        """Return the tensor that images are packed from: the source of the input's pad if that is simple enough, else
        the input.

        Packing then stores the padding itself, instead of reading a padded tensor. A pad is simple enough if it is not
        stored in memory, all sizes are known, only the last two dimensions are padded, and one value is the padding.
        """
        elements, value, pad = self.frame.elements, self._input, self._input.owner
        unpadded = PaddedSource(value=value, low=[0] * tensor_type(value).get_num_dims(), padding=None)
        if not isinstance(pad, tensor.PadOp) or elements.is_materialized(value):
            return unpadded
        low, high = pad_amounts(elements, pad)
        are_known = all(isinstance(n, int) for n in (*low, *high, *elements.dims(pad.source)))
        pads_others = any(n != 0 for n in (*low[:-2], *high[:-2]))
        if not are_known or pads_others or any(a.uses.get_length() for a in pad.region.block.args):
            return unpadded
        padding = clone_block(elements, build, pad.region.block, {}, point=[])[0]
        return PaddedSource(value=pad.source, low=[n for n in low if isinstance(n, int)], padding=padding)

    # Sums and results

    def _reduce(self, build: Builder, origin: Sequence[Index]) -> None:
        """Emit the sums of all window positions of a tile, as one parallel loop over one long row.

        Sums between two rows of positions are computed from the elements between them, and never read. With 5 positions
        in a row and rows of 7 packed elements, as a window of 3x3 with the stride 1 has, index 7 * y + x is position x
        of row y, and the indices 7 * y + 5 and 7 * y + 6 are between two rows.

        The input was copied to packed images, one for each pair of phases (remainders of row and column in the division
        by the stride), in which neighbouring positions read neighbouring elements.

        Args:
            build: Receives the code.
            origin: Index of each loop: of the tile in the outer dimensions, else 0. It is the same for all positions,
                since the body reads no input at it: `Elements.define` gives the body the loaded element, under the
                indices as a key.
        """
        plan, generic, elements = self.plan, self.plan.generic, self.frame.elements
        image_offsets, row_length = plan.image_offsets, plan.row_length

        def position(inner: Builder, index: Index) -> None:
            """Compute and store the sum of the window whose first element is `index` elements after the start of each
            image.
            """
            # The initial value is the same at all positions of the image: `image_plan` accepts no other reduction.
            initial = evaluate(inner, generic.output_maps[0], origin)
            accumulators = [elements.at(inner, generic.outputs[0], initial)]
            for step in product(*(range(plan.sizes[d]) for d in generic.reduced_loops)):
                indices_of_step = dict(zip(generic.reduced_loops, step, strict=True))
                point = [indices_of_step.get(d, i) for d, i in enumerate(origin)]
                row_step, column_step = (0 if a.step_loop is None else indices_of_step[a.step_loop] for a in plan.axes)
                # The image that has the element, and its distance in the image from the first element of the window.
                row_phase, row_shift = plan.axes[0].phase_and_shift(row_step)
                column_phase, column_shift = plan.axes[1].phase_and_shift(column_step)
                offset = image_offsets[row_phase, column_phase] + row_shift * row_length + column_shift
                element = load(inner, self.images, inner.plus(index, offset))
                # The body, which reads the input at `point`, gets this element: that at `index` and the step.
                elements.define(inner, self._input, evaluate(inner, generic.maps[plan.input], point), element)
                accumulators.append(step_at(elements, inner, generic, point, accumulators[-1]))
            # The last accumulator; a maximum of all elements at once if each step is one.
            (value,) = reduced(inner, [accumulators])
            elements.store(inner, value, self.sums, [index])

        build.parallel(0, (plan.rows - 1) * plan.row_length + plan.axes[1].position_count, position)

    def _store(self, build: Builder, origin: Sequence[Index], first_row: Index) -> None:
        """Emit the results of the dispatch from the sums of a tile, and their stores.

        Args:
            build: Receives the code.
            origin: Index of each loop: of the tile in the outer dimensions, else 0.
            first_row: The first row of the tile in the result.
        """
        plan, generic, elements = self.plan, self.plan.generic, self.frame.elements
        vertical, horizontal = (axis.position_loop for axis in plan.axes)

        def element(inner: Builder, y: Index, x: Index) -> None:
            """Store the results at row `y` of the tile and position `x`.

            `Elements.define` makes the sum the element of the reduction from which the returned elements are computed.
            """
            point = list(origin)
            point[vertical], point[horizontal] = inner.plus(first_row, y), x
            indices = evaluate(inner, generic.output_maps[0], point)
            offset = inner.plus(inner.times(y, plan.row_length), x)
            total = load(inner, self.sums, offset)
            elements.define(inner, generic.op.results[0], indices, total)
            for returned, buffer in zip(self.frame.returned, self.frame.results, strict=True):
                elements.store(inner, elements.at(inner, returned, indices), buffer, indices)

        def row(outer: Builder, y: Index) -> None:
            """Store the results of one row of the tile."""
            outer.parallel(0, plan.axes[1].position_count, lambda inner, x: element(inner, y, x))

        build.parallel(0, plan.rows, row)
