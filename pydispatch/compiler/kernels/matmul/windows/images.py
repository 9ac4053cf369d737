"""Plan of a reduction over sliding windows of images: axes, phases of strides, and the rows of a tile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr

from pydispatch.compiler.kernels.loops.frame import Frame
from pydispatch.compiler.kernels.matmul.cpu.tiles import ceil_quotient
from pydispatch.compiler.kernels.matmul.linear import LinearIndex, linear_index
from pydispatch.compiler.kernels.ops.bits import bits_of
from pydispatch.compiler.kernels.ops.generics import loop_sizes
from pydispatch.compiler.kernels.ops.tensors import tensor_type
from pydispatch.ir.affine_maps import dims_in
from pydispatch.ir.structured import Structured

MAX_STEPS = 64
"""Maximum number of elements of a window. The loops over them are unrolled, and more make code that is too long."""

MIN_POSITIONS = 8
"""Minimum number of positions of an image for which vectors along positions pay."""

PACKED_BYTES = 16 << 10
"""Maximum size of the packed images of a workgroup: with its sums, they fit into the first-level cache."""

WORKGROUP_BYTES = 1 << 15
"""Maximum size in bytes of the results of a workgroup with several tiles; a larger maximum makes fewer workgroups. A
tile with larger results is a workgroup of its own."""


@dataclass(frozen=True)
class Axis:
    """Vertical or horizontal axis of a sliding window.

    At position p, step s of the window reads the input element p * `stride` + s * `dilation` along the axis.

    Attributes:
        position_loop: The loop over the window's positions.
        step_loop: The loop over the steps inside the window, a reduction; None if the window has one step.
        position_count: Number of positions.
        step_count: Number of steps inside the window.
        stride: Distance of neighbouring positions, in input elements.
        dilation: Distance of neighbouring steps, in input elements.
    """

    position_loop: int
    step_loop: int | None
    position_count: int
    step_count: int
    stride: int
    dilation: int

    def phase_and_shift(self, step: int) -> tuple[int, int]:
        """Return (phase, shift) of the input elements that a step of the window reads.

        A phase consists of every `stride`-th input element, from element `phase` on. A window at position p reads
        element p + shift of the phase.

        With a stride of 2 and a window of 3 elements, phase 0 has the even and phase 1 the odd elements. The steps 0, 1
        and 2 have the results (0, 0), (1, 0) and (0, 1).
        """
        return step * self.dilation % self.stride, step * self.dilation // self.stride

    @property
    def largest_shift_by_phase(self) -> dict[int, int]:
        """Each phase that is read -> the largest shift (see `phase_and_shift`) of the window's steps in that phase.

        Along the axis, the packed image of a phase has as many elements as there are positions, plus this shift. With
        a stride of 2 and a window of 3 elements, the result is {0: 1, 1: 0}.
        """
        shifts: dict[int, int] = {}
        for step in range(self.step_count):
            phase, shift = self.phase_and_shift(step)
            shifts[phase] = max(shifts.get(phase, 0), shift)
        return shifts


@dataclass(frozen=True)
class ImagePlan:
    """Plan of a reduction over the windows of images. `image_plan` creates it.

    The kernel copies the input rows of a tile into packed images. There is one for each pair of a vertical and a
    horizontal phase: the rows and columns of the input that have one remainder of the division by the stride. Windows
    at neighbouring positions then read, at each step, neighbours in one packed image (`Axis.phase_and_shift`).

    Windows of 3x3 with a stride of 2 have 2 x 2 phases. For 5 positions in a row and tiles of 4 rows, each packed image
    has rows of 5 + 1 elements (`row_length`) and 4 + 1 rows, so that `image_size` is 30. `image_offsets` is
    {(0, 0): 0, (0, 1): 30, (1, 0): 60, (1, 1): 90}.

    Attributes:
        generic: The reduction.
        sizes: Size of each loop.
        input: Ordinal of the input that windows read.
        axes: Vertical and horizontal axis.
        outer: The loops that index the other dimensions of the result.
        rows: Rows of the result in a tile.
    """

    generic: Structured
    sizes: tuple[int, ...]
    input: int
    axes: tuple[Axis, Axis]
    outer: tuple[int, ...]
    rows: int

    @property
    def window_input(self) -> SSAValue:
        """The operand of the reduction that windows read; where they read padding, the result of a `tensor.pad`."""
        return self.generic.inputs[self.input]

    @property
    def row_length(self) -> int:
        """Elements of a row of a packed image. All packed images have the row length of the longest one."""
        return self.axes[1].position_count + max(self.axes[1].largest_shift_by_phase.values())

    @property
    def image_size(self) -> int:
        """Elements of the packed image of one pair of phases: all rows that the rows of a tile read."""
        return (self.rows + max(self.axes[0].largest_shift_by_phase.values())) * self.row_length

    @property
    def image_offsets(self) -> dict[tuple[int, int], int]:
        """(Vertical phase, horizontal phase) -> offset of its packed image, in elements."""
        vertical_phases, horizontal_phases = (axis.largest_shift_by_phase.keys() for axis in self.axes)
        pairs = product(vertical_phases, horizontal_phases)
        return {pair: index * self.image_size for index, pair in enumerate(pairs)}

    @property
    def tiles(self) -> int:
        """Tiles of all images: each has `rows` rows of one image of the result."""
        return prod(self.sizes[d] for d in self.outer) * ceil_quotient(self.axes[0].position_count, self.rows)

    @property
    def tiles_of_workgroup(self) -> int:
        """Number of tiles that one workgroup computes: at least 1, and results of about `WORKGROUP_BYTES` in total."""
        result_bytes_of_tile = self.rows * self.axes[1].position_count * 4  # results are estimated as f32
        return max(1, WORKGROUP_BYTES // result_bytes_of_tile)


def image_plan(generic: Structured, frame: Frame) -> ImagePlan | None:
    """Return the plan of a reduction; None unless windows of one input slide over images of known size.

    The last two dimensions of the result are the rows and columns of an image, and the reduced loops the elements of a
    window: y[n, c, i, j] += x[n, c, 2 * i + k, 2 * j + l] * w[c, k, l] has the positions (i, j) and the steps (k, l).

    Return None, too, in one of these cases:

    - A window has more than `MAX_STEPS` elements, or an image fewer than `MIN_POSITIONS` positions.
    - The initial value of the sums varies within an image.
    - The body does not read the input, or several elements of the input share a byte.
    """
    sizes = [n for n in loop_sizes(frame.elements, generic) if isinstance(n, int) and n > 0]
    result_indices = generic.output_maps[0].results
    loops = [r.position for r in result_indices if isinstance(r, AffineDimExpr)]  # those that index the result
    has_other_sizes, has_other_indices = len(sizes) < len(generic.iterators), len(loops) < len(result_indices)
    if has_other_sizes or has_other_indices or len(loops) < 2:
        return None
    *outer, vertical, horizontal = loops
    steps = prod(sizes[d] for d in generic.reduced_loops)
    positions = sizes[vertical] * sizes[horizontal]
    # The kernel reads the initial value of one position for all positions of an image.
    has_varying_initial_value = not _initial_dims(generic).isdisjoint((vertical, horizontal))
    if steps > MAX_STEPS or positions < MIN_POSITIONS or has_varying_initial_value:
        return None
    input_ = _ordinal_of_window_input(generic, {vertical, horizontal})
    axes = None if input_ is None else _axes(generic, input_, (vertical, horizontal), sizes)
    if input_ is None or axes is None:
        return None
    bits = bits_of(tensor_type(generic.inputs[input_]).element_type)
    shares_bytes = bits < 8
    if shares_bytes:
        return None
    element_bytes = max(bits, *(bits_of(tensor_type(v).element_type) for v in generic.op.results)) // 8
    return ImagePlan(
        generic=generic,
        sizes=tuple(sizes),
        input=input_,
        axes=axes,
        outer=tuple(outer),
        rows=_rows_of_tile(axes, element_bytes),
    )


def _ordinal_of_window_input(generic: Structured, image_dims: set[int]) -> int | None:
    """Return the ordinal of the input that windows read: the only one that depends on the position in the image.

    Return None if several inputs or none do, or if the body does not read it.
    """
    ordinals = [i for i in range(len(generic.inputs)) if image_dims & dims_in(generic.maps[i])]
    return ordinals[0] if len(ordinals) == 1 and generic.block.args[ordinals[0]].uses else None


def _rows_of_tile(axes: tuple[Axis, Axis], element_bytes: int) -> int:
    """Return the number of rows of a tile: as many as its packed images have room for in `PACKED_BYTES`, at least 1.

    The rows of an image are divided about equally among its tiles. There is a packed image for each pair of a vertical
    and a horizontal phase (remainder of the division of a position in the input by the stride).

    axes: the vertical and the horizontal axis of the window.
    """
    vertical, horizontal = axes
    row_shifts, column_shifts = vertical.largest_shift_by_phase, horizontal.largest_shift_by_phase
    image_count = len(row_shifts) * len(column_shifts)
    row_bytes = (horizontal.position_count + max(column_shifts.values())) * element_bytes * image_count  # in all images
    # Windows at the last of the tile's rows read the packed rows up to the largest shift after it.
    most_rows = max(1, PACKED_BYTES // row_bytes - max(row_shifts.values()))
    tile_count = ceil_quotient(vertical.position_count, most_rows)
    return ceil_quotient(vertical.position_count, tile_count)


def _initial_dims(generic: Structured) -> set[int]:
    """Return the loops that the initial value of a reduction's sums depends on; none if all are initially equal."""
    owner = generic.outputs[0].owner
    is_splat = isinstance(owner, Operation) and owner.name == "tensor.splat"
    return set() if is_splat else dims_in(generic.output_maps[0])


def _axes(generic: Structured, ordinal: int, image: tuple[int, int], sizes: Sequence[int]) -> tuple[Axis, Axis] | None:
    """Return the vertical and the horizontal axis of the windows of an input, along its last two dimensions.

    An axis states the positions, the steps within a window, the stride and the dilation: `2 * i + k` has the positions
    i, the steps k and the stride 2. Return None if the index along another dimension depends on positions or steps, or
    if a reduced loop is no step of the windows. `image` has the loops over the vertical and the horizontal positions.
    """
    coordinates = [linear_index(r) for r in generic.maps[ordinal].results]
    linear_coordinates = [c for c in coordinates if c is not None]
    has_other_coordinates = len(linear_coordinates) < len(coordinates)
    if has_other_coordinates or len(coordinates) < 2:
        return None
    *outer, vertical, horizontal = linear_coordinates
    vertical_axis = _axis(generic, vertical, image[0], sizes)
    horizontal_axis = _axis(generic, horizontal, image[1], sizes)
    if vertical_axis is None or horizontal_axis is None:
        return None
    outer_loops = {d for coordinate in outer for d in coordinate.dims}
    if outer_loops & {*image, *generic.reduced_loops}:
        return None
    step_loops = {vertical_axis.step_loop, horizontal_axis.step_loop} - {None}
    return (vertical_axis, horizontal_axis) if step_loops == set(generic.reduced_loops) else None


def _axis(generic: Structured, coordinate: LinearIndex, positions: int, sizes: Sequence[int]) -> Axis | None:
    """Return the axis of a window along a dimension of its input; None if the index there has another form.

    The form is stride * position + dilation * step. The index `2 * d2 + 3 * d4`, with the position d2 and the reduced
    loop d4, has the stride 2 and the dilation 3. The index `d2` alone is a window of one step. `coordinate` is the
    index, `positions` the loop over positions.
    """
    # The index may depend on the positions and on at most one reduced loop, without an offset.
    step_loops = [d for d in coordinate.dims if d in generic.reduced_loops]
    stride = coordinate.coefficient(positions)
    has_other_loops = len(coordinate.dims) != 1 + len(step_loops)
    has_offset = coordinate.constant != 0
    if has_offset or stride == 0 or has_other_loops or len(step_loops) > 1:
        return None
    step_loop = step_loops[0] if step_loops else None
    return Axis(
        position_loop=positions,
        step_loop=step_loop,
        position_count=sizes[positions],
        step_count=1 if step_loop is None else sizes[step_loop],
        stride=stride,
        dilation=1 if step_loop is None else coordinate.coefficient(step_loop),
    )
