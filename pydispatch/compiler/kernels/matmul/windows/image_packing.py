"""Packing of the rows of an image that sliding windows read into workgroup memory, with the padding around them.

There is a packed image for each pair of a vertical and a horizontal phase, the remainder of the row, or the column, in
the division by the stride.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from xdsl.dialects import arith, tensor
from xdsl.ir import SSAValue

from pydispatch.compiler.kernels.matmul.cpu.tiles import ceil_quotient
from pydispatch.compiler.kernels.matmul.windows.images import ImagePlan
from pydispatch.compiler.kernels.ops.bodies import clone_block
from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.compiler.kernels.ops.conditions import both, opposite
from pydispatch.compiler.kernels.ops.elements import Elements
from pydispatch.compiler.kernels.ops.tensors import tensor_type, zero_attribute
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


def packing_source(elements: Elements, build: Builder, input_: SSAValue) -> PaddedSource:
    """Return the tensor that images are packed from: the source of a simple pad, or else the input itself.

    Packing from the source of a pad stores the padding itself, instead of reading a padded tensor. A pad is simple
    if its result is not stored in memory, all sizes are known, only the last two dimensions are padded, and all
    padding is one value.
    """
    pad = input_.owner
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


class _PackedRow(NamedTuple):
    """Row of a packed image.

    Attributes:
        offset: Index of the row's first element in the buffer of the images.
        phase: The horizontal phase: the row has every `stride`-th column of the padded tensor from this one on.
        extent: Number of elements that windows read. Elements from there to `ImagePlan.row_length` are a gap.
    """

    offset: Index
    phase: int
    extent: int


@dataclass(frozen=True)
class ImagePacker:
    """Emitter of the packing of the input of a tile.

    With a stride of 2, the image of the phases (1, 0) has the rows 2 * first_row + 1, 2 * first_row + 3, ... of the
    padded input, and of each the columns 0, 2, 4, ... The packed rows follow each other in memory, at a distance of
    `plan.row_length` elements.

    Attributes:
        elements: Tensors of the dispatch function.
        plan: The plan of the reduction.
        images: Buffer of the packed images, at `plan.image_offsets`.
        source: The tensor that elements are copied from, and its padding.
        start: Indices in the padded tensor of the first element of the images.
        first_row: The first row of the tile in the result.
    """

    elements: Elements
    plan: ImagePlan
    images: SSAValue
    source: PaddedSource
    start: Sequence[Index]
    first_row: Index

    def emit(self, build: Builder) -> None:
        """Emit the packing of all images."""
        vertical, _ = self.plan.axes
        for phases in self.plan.image_offsets:
            row_phase, _ = phases
            row_count = self.plan.rows + vertical.largest_shift_by_phase[row_phase]
            build.parallel(0, row_count, partial(self._pack_row, phases))

    def _pack_row(self, phases: tuple[int, int], build: Builder, y: Index) -> None:
        """Pack row `y` of the image of `phases`: row (first_row + y) * stride + row phase of the padded input."""
        plan, (vertical, horizontal), (row_phase, column_phase) = self.plan, self.plan.axes, phases
        padded_row = build.plus(build.times(build.plus(self.first_row, y), vertical.stride), row_phase)
        unpadded_row = build.minus(padded_row, self.source.low[-2])
        row = _PackedRow(
            offset=build.plus(build.times(y, plan.row_length), plan.image_offsets[phases]),
            phase=column_phase,
            extent=horizontal.position_count + horizontal.largest_shift_by_phase[column_phase],
        )
        is_in_tensor = self._is_in_tensor(build, padded_row, unpadded_row)
        build.when(is_in_tensor, lambda inner: self._copy_row(inner, [*self.start[:-2], unpadded_row], row))
        is_padding = opposite(build, is_in_tensor)
        build.when(is_padding, lambda inner: self._fill(inner, self.source.padding, row, 0, row.extent))
        # The reduction also sums up the elements in the gap after the row, and never reads these sums. The gap is
        # filled with 0: whatever is in memory could be subnormal numbers, which are slow on some CPUs.
        if row.extent < plan.row_length:
            zero = build.pure(arith.ConstantOp(zero_attribute(tensor_type(plan.window_input).element_type)))
            self._fill(build, zero, row, row.extent, plan.row_length)

    def _is_in_tensor(self, build: Builder, padded_row: Index, unpadded_row: Index) -> SSAValue | bool:
        """Return whether a row of the padded tensor is no padding."""
        if self.source.padding is None:
            return True
        height = self.elements.dims(self.source.value)[-2]
        is_after_padding = build.less(self.source.low[-2] - 1, padded_row)  # low <= padded_row
        return both(build, is_after_padding, build.less(unpadded_row, height))

    def _copy_row(self, build: Builder, indices: Sequence[Index], row: _PackedRow) -> None:
        """Emit the packing of one row of the tensor: padding before, elements, padding after.

        indices: indices of the row in the tensor, for all dimensions but the last.
        """
        stride, low = self.plan.axes[1].stride, self.source.low[-1]

        def copy_element(inner: Builder, x: Index) -> None:
            """Copy column x * stride + phase - low of the row of the tensor to element `x` of the packed row."""
            column = inner.plus(inner.times(x, stride), row.phase - low)
            value = self.elements.at(inner, self.source.value, [*indices, column])
            self.elements.store(inner, value, self.images, [inner.plus(row.offset, x)])

        begin, end = self._range_in_tensor(row)
        self._fill(build, self.source.padding, row, 0, begin)
        build.parallel(begin, end, copy_element, index_below=row.extent)
        self._fill(build, self.source.padding, row, end, row.extent)

    def _range_in_tensor(self, row: _PackedRow) -> tuple[int, int]:
        """Return the range [begin, end) of the elements of a packed row that are no padding.

        A row of 8 elements, with 1 element of padding before and after it, is columns 0 to 9 of the padded tensor. With
        a stride of 2, phase 0 has the columns 0, 2, 4, 6 and 8: the first is padding, and the others are the elements
        1, 3, 5 and 7 of the row. So the range is [1, 5).
        """
        if self.source.padding is None:
            return 0, row.extent
        stride, low = self.plan.axes[1].stride, self.source.low[-1]
        width = self.elements.dims(self.source.value)[-1]
        assert isinstance(width, int)  # `packing_source` returns a pad of known sizes only
        # Element x of the packed row is column x * stride + phase of the padded tensor. It is not padding if
        # low <= x * stride + phase < low + width, which is solved for x, rounded up, and clamped to the row.
        begin = max(0, min(row.extent, ceil_quotient(low - row.phase, stride)))
        return begin, max(begin, min(row.extent, ceil_quotient(width + low - row.phase, stride)))

    def _fill(self, build: Builder, value: SSAValue | None, row: _PackedRow, begin: int, end: int) -> None:
        """Emit stores of a value to the elements [begin, end) of a packed row.

        value: may be None only if there are no such elements.
        """
        if begin >= end:
            return
        assert value is not None
        store = self.elements.store
        build.parallel(begin, end, lambda inner, x: store(inner, value, self.images, [inner.plus(row.offset, x)]))
