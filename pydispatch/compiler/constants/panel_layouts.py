"""Panel layouts of constant factors of products: the width and axis of panels, where packing into them pays."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import cast

from xdsl.dialects.builtin import Float32Type, Float64Type, TensorType, i32
from xdsl.ir import Attribute, SSAValue

from pydispatch.compiler.constants.grouped import Grouped
from pydispatch.compiler.constants.profitability import MIN_TRANSPOSED_BYTES, packing_pays
from pydispatch.compiler.kernels.matmul.cpu.tile_choice import widening_columns
from pydispatch.compiler.kernels.matmul.cpu.tiles import Level
from pydispatch.compiler.kernels.matmul.match import Contraction
from pydispatch.compiler.kernels.matmul.panels import PANEL_BYTES, Layout

MIN_SLICE_ELEMENTS = 16 << 10
"""Minimum number of elements of each matrix of a factor [slices, K, N], which is packed as several matrices. With
smaller matrices, the factor is left unpacked."""

MIN_PANELS_WITH_REMAINDER = 4
"""Minimum number of panels of a factor whose last panel is padded with zeros; with fewer, the padding costs too much.
66 products of 16 rows by 24 to 544 columns took 2.59 ms when only the quarter with full panels was packed, and 1.79 ms
with all packed (Zen 5)."""


def plain_layout(contraction: Contraction, levels: Sequence[Level]) -> Layout | None:
    """Return the panel layout for the factor B of a contraction of f32 or f64.

    Return None if the contraction computes B from its operands, if a size is dynamic, or if panels are not faster.
    """
    type_ = contraction.tensor_of(contraction.b).type
    if not isinstance(type_, TensorType) or not type_.has_static_shape():
        return None
    if not reads_b_as_stored(contraction, type_, half=None):
        return None
    return layout_of(contraction, type_, grouped=None, levels=levels, is_widened=False)


def layout_of(
    contraction: Contraction,
    type_: TensorType[Attribute],
    grouped: Grouped | None,
    levels: Sequence[Level],
    is_widened: bool,
) -> Layout | None:
    """Return the panel layout of the constant factor B of a contraction; None if packing is not worthwhile.

    Examples, of layouts and of the shapes that B is stored in:
    - B [K, N] of f32, 512x64: `Layout(axis=1, width=32)`, 2x512x32.
    - B [N, K] of f32 (transposed), 48x512: `Layout(axis=0, width=16)`, 3x512x16. A half-width panel is used because 16
      divides the 48 columns and 32 does not.
    - B [K, N] of bytes, multiplied in groups of 4 steps of K, 512x64: `Layout(axis=1, width=32, group=4, step_axis=0)`,
      2x128x32x4.

    Args:
        contraction: The contraction.
        type_: Type of the tensor to cut into panels.
        grouped: Computation of B from the argument; None if the argument is B.
        levels: ISA levels of all targets.
        is_widened: Whether register blocks widen B from f16 or bf16 as they load it.
    """
    if contraction.n is None or not _is_indexed_by_loops(contraction):
        return None
    (axis,) = contraction.b.positions_of(contraction.n)  # one axis, as B is indexed by plain loops
    columns = type_.get_shape()[axis]
    if grouped is not None:
        return _grouped_layout(contraction, type_, grouped, axis)
    # Other factors are computed in f32, or in f64 if the sums are.
    element = cast(
        "Float32Type | Float64Type", type_.element_type if contraction.acc == Float64Type() else Float32Type()
    )
    width = PANEL_BYTES // element.size
    # For f32, a panel has 32 columns; 16, 48 or 80 are whole half-width panels.
    fills_half_panels_only = columns % width != 0 and columns % (width // 2) == 0
    is_transposed = not contraction.b.is_contiguous(contraction.n)
    if fills_half_panels_only and is_transposed:
        width //= 2
    if is_widened:  # blocks that widen B have another width if they exist on all levels
        width = _widening_columns(contraction, element.size, columns, levels) or width
    # A last panel padded with zeros pays only for a plain product, which sums over K alone (unlike a convolution), and
    # only with several panels.
    padding_pays = not contraction.reductions and columns >= MIN_PANELS_WITH_REMAINDER * width
    if columns % width and not padding_pays:
        return None
    return Layout(axis, width) if packing_pays(contraction, type_, element.size, levels) else None


def _grouped_layout(
    contraction: Contraction, type_: TensorType[Attribute], grouped: Grouped, axis: int
) -> Layout | None:
    """Return the panel layout of a factor B of bytes, i16 or bf16, for instructions that multiply groups of steps of K.

    Return None if B is small, or if panels would need padding: of their columns or of the last group.

    Args:
        contraction: The contraction.
        type_: Type of the tensor to cut into panels.
        grouped: Computation of B from the argument.
        axis: Axis of the columns in that tensor.
    """
    shape = type_.get_shape()
    (step_axis,) = contraction.b.positions_of(contraction.k)
    group_size = grouped.arithmetic.group
    width = PANEL_BYTES // i32.size  # a panel is as wide as the registers of sums, which have 4 bytes each
    has_whole_panels = shape[axis] % width == 0 and shape[step_axis] % group_size == 0
    # The limit in bytes is compared with the number of elements, which have one or two bytes.
    is_large = prod(shape) >= MIN_TRANSPOSED_BYTES
    return Layout(axis, width, group_size, step_axis) if has_whole_panels and is_large else None


def _is_indexed_by_loops(contraction: Contraction) -> bool:
    """Return whether each dimension of factor B's tensor is indexed by a single loop dimension, without stride or
    offset.
    """
    return contraction.b.axis_dims is not None


def reads_b_as_stored(contraction: Contraction, type_: TensorType[Attribute], half: SSAValue | None) -> bool:
    """Return whether the contraction reads B as the argument stores it, without arithmetic other than widening.

    B must also be one matrix, or have one large enough matrix [K, N] for each index of its first dimension.

    half: the tensor of f16 or bf16 that kernels widen while they load it; None for other factors.
    """
    is_float = isinstance(contraction.acc, Float32Type | Float64Type)
    is_unconverted = is_float and type_.element_type == contraction.acc and contraction.b.is_element
    return (is_unconverted or half is not None) and _has_whole_slices(contraction, type_)


def _has_whole_slices(contraction: Contraction, type_: TensorType[Attribute]) -> bool:
    """Return whether the factor B is one matrix, or one large enough matrix for each index of its first dimension.

    The latter, [slices, K, N] with adjacent columns, is the case for sums that were split along K.
    """
    outer = set(contraction.outer) & contraction.b.dims
    if not outer:
        return True
    first, *inner = contraction.b.coordinates  # the index of each dimension of B's tensor: a sum of loops times factors
    has_outer_dim_first = {dim for dim, _ in first.terms} == outer
    slices_are_matrices = len(inner) == 2  # K and N
    are_columns_last = contraction.b.is_contiguous(contraction.n)
    is_large = prod(type_.get_shape()[1:]) >= MIN_SLICE_ELEMENTS
    return has_outer_dim_first and slices_are_matrices and are_columns_last and is_large


def _widening_columns(contraction: Contraction, size: int, columns: int, levels: Sequence[Level]) -> int | None:
    """Return how many columns (three vectors) the register blocks have that widen B as they load it.

    Return None unless the kernels of all levels have such blocks, of the same width.

    Args:
        contraction: The contraction.
        size: Bytes of an accumulator.
        columns: Columns of B.
        levels: ISA levels of all targets.
    """
    rows = 1 if contraction.m is None else contraction.generic.extents[contraction.m]
    widths = {widening_columns(level, size, rows, columns) for level in levels}
    return widths.pop() if len(widths) == 1 else None
