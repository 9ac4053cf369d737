"""Operands of register blocks: arguments read in place, panels of an argument, and buffers for packed copies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from xdsl.ir import BlockArgument, SSAValue

from pydispatch.compiler.kernels.loops.frame import Frame
from pydispatch.compiler.kernels.matmul.cpu.in_place import argument_of
from pydispatch.compiler.kernels.matmul.cpu.plan import Plan, packed_extents
from pydispatch.compiler.kernels.matmul.cpu.tiles import round_up
from pydispatch.compiler.kernels.matmul.gathered import GatheredPages
from pydispatch.compiler.kernels.matmul.match import Factor
from pydispatch.compiler.kernels.ops.bits import bits_of
from pydispatch.compiler.kernels.ops.builder import Builder, Index

CACHE_LINE_BYTES = 64
"""Size of a cache line in bytes. Rows that would compete for cache sets are padded by a line."""

OVERREAD_ELEMENTS = 2
"""Number of elements that are allocated after a packed copy in rows: vector loads of its last elements may read
them."""

CONFLICTING_BYTES = 256
"""Rows of a packed copy whose length in bytes is a multiple of this are padded: otherwise all elements of a column
would be in few cache sets, and evict each other."""


@dataclass(frozen=True)
class OperandView:
    """A factor as register blocks read it: in the memory of an argument, or in a packed copy.

    Attributes:
        factor: The factor.
        buffer: Memory with its elements.
        strides: Distance of neighbours along each coordinate of the factor, in elements: (16, 1) for a B of shape
            [K, N] in panels of 16 columns. If one instruction takes a group of g steps of K, panels are [group][column]
            [step of the group]. Their strides are (16, 1), too, but the stride of the columns is in units of g
            elements, and g steps of K have the stride 16 * g.
        uses_tensor_indices: Whether indices along coordinates count from the beginning of the tensor, as in an
            argument; in a packed copy they count from the first index of the tile.
        panel_stride: Elements from one panel, a few adjacent columns with all their rows, to the next; None where
            columns are not stored in panels.
        is_ones: Whether the buffer has 1 instead of each element of the factor. The product is then the sums of the
            other factor, which correct products if packing subtracts a constant from the elements.
        locate: Emits the offset of the element at given indices; None where it is the sum of index * stride.
    """

    factor: Factor
    buffer: SSAValue
    strides: tuple[Index, ...]
    uses_tensor_indices: bool = False
    panel_stride: int | None = None
    is_ones: bool = False
    locate: Callable[[Builder, Sequence[Index]], Index] | None = None

    def offset(self, build: Builder, coordinates: Sequence[Index]) -> Index:
        """Return the offset of the element at these indices, one per coordinate, in elements."""
        if self.locate is not None:
            return self.locate(build, coordinates)
        offset: Index = 0
        for coordinate, stride in zip(coordinates, self.strides, strict=True):
            offset = build.plus(offset, build.times(coordinate, stride))
        return offset

    def stride(self, build: Builder, dim: int | None) -> Index:
        """Return the distance of neighbours along a dimension of the contraction, in elements.

        The distance is 0 if `dim` does not index the factor, or is None: the contraction lacks the dimension.
        """
        total: Index = 0
        for coordinate, stride in zip(self.factor.coordinates, self.strides, strict=True):
            if dim is not None and coordinate.coefficient(dim):
                total = build.plus(total, build.times(stride, coordinate.coefficient(dim)))
        return total


def view_a(frame: Frame, plan: Plan, build: Builder) -> OperandView:
    """Return A: in the memory of an argument if it is read in place, else a new buffer for its packed copy."""
    factor = plan.contraction.a
    return _packed_rows(frame, plan, factor) if plan.schedule.pack_a else view_in_place(frame, plan, build, factor)


def view_b(frame: Frame, plan: Plan, build: Builder) -> OperandView:
    """Return B: in the memory of an argument if it is read in place, else a new buffer for its packed copy."""
    factor, panels = plan.contraction.b, plan.panels
    if panels is not None:  # an argument has B in panels of columns, as an earlier pass has laid out constants
        buffer, strides = _buffer_of(frame, panels.argument), tuple(panels.strides())
        return OperandView(factor, buffer, strides, uses_tensor_indices=True, panel_stride=panels.panel_stride)
    if plan.schedule.pack_b:
        return _packed_panels(frame, plan, factor)
    if plan.pages is not None:  # B is gathered from pages, such as those of a cache of keys and values
        return _view_of_pages(frame, factor, plan.pages)
    return view_in_place(frame, plan, build, factor, value=plan.b_in_half_precision)


def view_in_place(
    frame: Frame, plan: Plan, build: Builder, factor: Factor, value: SSAValue | None = None
) -> OperandView:
    """Return a factor that is read in the memory of a row-major argument.

    `value` is the tensor whose elements are the factor, or are widened to it; None for the factor's own tensor.
    """
    value = plan.contraction.tensor_of(factor) if value is None else value
    argument = argument_of(value)
    assert argument is not None
    sizes = frame.elements.dims(value)
    strides: list[Index] = [1] if sizes else []  # a tensor of rank 0 has none
    for size in reversed(sizes[1:]):
        strides.insert(0, build.times(strides[0], size))
    return OperandView(factor, _buffer_of(frame, argument), tuple(strides), uses_tensor_indices=True)


def _view_of_pages(frame: Frame, factor: Factor, pages: GatheredPages) -> OperandView:
    """Return a factor that is gathered pages of an argument, and is read in the memory of the argument.

    A table of indices selects the pages, blocks of rows. Each offset is computed from an entry of the table.
    """
    argument = argument_of(pages.source)
    assert argument is not None
    locate = partial(pages.offset, frame.elements)
    return OperandView(factor, _buffer_of(frame, argument), pages.strides, uses_tensor_indices=True, locate=locate)


def _buffer_of(frame: Frame, argument: BlockArgument) -> SSAValue:
    """Return the buffer of an argument of the dispatch function."""
    return frame.buffers[frame.tensors.index(argument)]


def _coordinate_extents(plan: Plan, factor: Factor) -> list[int]:
    """Return the extent of each coordinate of a factor in one packed tile: the shape of the packed copy."""
    schedule = plan.schedule
    extents = packed_extents(plan.contraction, schedule, schedule.kc, plan.sizes, plan.inner_reductions)
    return [coordinate.extent(extents) for coordinate in factor.coordinates]


def _packed_rows(frame: Frame, plan: Plan, factor: Factor) -> OperandView:
    """Allocate a row-major packed copy of one tile of a factor, and return it; packing writes it later.

    A coordinate is the index of the factor along an axis of its tensor. Coordinates are in the order of the axes, but K
    is last if vectors are along K, or if one instruction takes a group of steps of K. Rows, the last coordinate in this
    order, are padded by a cache line if their length is a multiple of `CONFLICTING_BYTES`.

    Example:
        112 rows of A with 256 steps of K, as f32, have the strides (272, 1): rows of 1,024 bytes are padded by 64.
    """
    extents, bits = _coordinate_extents(plan, factor), bits_of(plan.compute)
    order = list(range(len(extents)))  # coordinates, outermost in memory first
    if plan.group > 1 or plan.vectorizes_k:  # K is last, and rounded up to whole groups
        k = plan.contraction.k
        # There is a coordinate in which K has the coefficient 1: groups require that K itself is a coordinate, and
        # vectors along K require that K is contiguous.
        k_position = next(p for p in factor.positions_of(k) if factor.coordinates[p].coefficient(k) == 1)
        order = [p for p in order if p != k_position] + [k_position]
        extents[k_position] = round_up(extents[k_position], plan.group)
    strides: list[Index] = [0] * len(extents)
    stride = 1
    for position in reversed(order):
        strides[position] = stride
        stride *= extents[position]
        if position == order[-1]:  # a row
            stride += _row_padding(stride, bits)
    size = stride  # of the whole copy, in elements
    # Vector loads may read up to `OVERREAD_ELEMENTS` beyond the last row.
    buffer = frame.elements.fresh(plan.compute, max(1, size) + OVERREAD_ELEMENTS)
    return OperandView(factor, buffer, tuple(strides))


def _row_padding(row_elements: int, bits: int) -> int:
    """Return the elements that pad a row: a cache line if rows at this distance would share few sets of the cache."""
    row_bytes = row_elements * bits // 8
    has_conflicts = row_bytes > 0 and row_bytes % CONFLICTING_BYTES == 0
    return CACHE_LINE_BYTES * 8 // bits if has_conflicts else 0


def _packed_panels(frame: Frame, plan: Plan, factor: Factor) -> OperandView:
    """Allocate a packed copy of B in panels of nr columns, and return it: [panel][other coordinates ...][column].

    The copy is in rows instead if the product has no N, or vectors are along K. All columns of the tile are one panel
    if the index along the columns is not just n, as in `B[k, n + j]` or `B[k, n + 1]`. If one instruction takes a group
    of steps of K, the copy is [panel][other coordinates ...][group][column][step of the group].

    Example:
        A tile of 64 columns with 256 steps of K, in panels of 16 columns, is [4][256][16]. The strides of B[k, n] are
        (16, 1), and `panel_stride` is 4,096.
    """
    n, schedule = plan.contraction.n, plan.schedule
    if n is None or plan.vectorizes_k:
        return _packed_rows(frame, plan, factor)
    extents, column = _coordinate_extents(plan, factor), factor.positions_of(n)[0]
    order = [p for p in range(len(extents)) if p != column]  # coordinates within a panel, outermost in memory first
    if plan.group > 1:  # K is innermost, and rounded up to whole groups
        k_position = factor.positions_of(plan.contraction.k)[0]
        order = [p for p in order if p != k_position] + [k_position]
        extents[k_position] = round_up(extents[k_position], plan.group)
    has_panels = factor.coordinates[column].is_identity(n)
    strides: list[Index] = [1] * len(extents)  # 1 along the columns
    panel_size = schedule.nr if has_panels else extents[column]  # in elements, of the coordinates up to now
    for position in reversed(order):
        strides[position] = panel_size
        panel_size *= extents[position]
    panels = schedule.nt // schedule.nr if has_panels else 1
    buffer = frame.elements.fresh(plan.compute, max(1, panel_size * panels))
    return OperandView(factor, buffer, tuple(strides), panel_stride=panel_size if has_panels else None)
