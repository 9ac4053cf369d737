"""Padding of the channels of byte convolutions to whole groups, such as the 3 channels of a photo to 4.

Byte products sum groups of adjacent steps, see `kernels/matmul/cpu/arithmetic.py`. With channels last, a group is
channels of one pixel, so their number must be a multiple of a group. The filter is zero in the added channels, so that
their content does not matter.
"""

from __future__ import annotations

from typing import cast

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import IndexType, IntegerAttr, IntegerType, TensorType, i32
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineDimExpr

from pydispatch.compiler.analysis.edit import insert_before
from pydispatch.compiler.constants.known import KnownConstants, known_of
from pydispatch.compiler.fusion.build import rewrite_loops
from pydispatch.compiler.kernels.matmul.match import Contraction, Factor, contraction_of
from pydispatch.ir.core.rewriting import replace_op
from pydispatch.ir.core.walk import walk
from pydispatch.ir.structured import GENERIC
from pydispatch.ir.values import shape_of

GROUP = 4
"""Channels that one dot-product instruction on bytes multiplies and adds."""

MOST_GROWTH = 1.5
"""Maximum ratio of the channels after padding to those before: added channels are multiplied, too."""

FEWEST_FILTERS = 16
"""Minimum number of filters: convolutions with fewer are not converted to channels-last layout (`channels_last`),
so that their channels are not adjacent."""


def pad_channels(function: Operation) -> None:
    """Pad the channels of the byte convolutions of a host function that have constant filters, in place."""
    known: KnownConstants | None = None  # computed for the first candidate
    for op in list(walk(function)):
        contraction = contraction_of(op) if op.name == GENERIC and op.parent is not None else None
        # The operands are image, filter and initial sums; products of bytes are added as i32.
        if contraction is None or contraction.acc != i32 or len(op.operands) != 3:
            continue
        known = known or known_of(function)
        a, b = contraction.a, contraction.b
        for filter_, image in ((a, b), (b, a)):
            axes = _channel_axes(contraction, filter_, image, known)
            if axes is not None:
                image_axis, filter_axis = axes
                # `main_input`: index of the operand that the factor is read from.
                axis_of_operand = {image.main_input: image_axis, filter_.main_input: filter_axis}
                _pad(cast(GenericOp, op), contraction, axis_of_operand)
                break


def _channel_axes(
    contraction: Contraction, filter_: Factor, image: Factor, known: KnownConstants
) -> tuple[int, int] | None:
    """Return the axes of the channels in an image and in its filter, if padding them pays; else None.

    For a convolution with a window, whose body reads

        image[n, c, y + ky, x + kx] and filter[f, c, ky, kx]

    return (1, 1). Padding pays if the channels, rounded up to a multiple of `GROUP`, the 4 channels that one
    dot-product instruction on bytes multiplies, grow at most by the factor MOST_GROWTH: 3 to 4, but not 5 to 8. There
    must be at least FEWEST_FILTERS filters. Both factors must be bytes. The filter must be constant, and only widened
    by the body, without a zero point: then its padded zeros stay 0, and the added channels of the image do not matter.

    Args:
        contraction: The contraction.
        filter_: The factor that is examined as the filter.
        image: The other factor.
        known: The values of the host function that depend on constants alone.
    """
    generic = contraction.generic
    image_indices, filter_indices = generic.maps[image.main_input].results, generic.maps[filter_.main_input].results
    # The image: pixels are indexed by sums such as output row + filter row, channels by a reduced loop alone.
    image_axes = [
        a for a, r in enumerate(image_indices) if isinstance(r, AffineDimExpr) and r.position in generic.reduced_loops
    ]
    has_window = any(not isinstance(r, AffineDimExpr) for r in image_indices)
    if len(image_axes) != 1 or not has_window or not known.is_known(contraction.tensor_of(filter_)):
        return None
    channel_loop = cast(AffineDimExpr, image_indices[image_axes[0]]).position
    # The filter: it is indexed by the channels once, and by a single loop that is not reduced (f above).
    filter_axes = [
        a for a, r in enumerate(filter_indices) if isinstance(r, AffineDimExpr) and r.position == channel_loop
    ]
    filter_loops = [d for d in filter_.dims if d not in generic.reduced_loops]
    if len(filter_axes) != 1 or len(filter_loops) != 1:
        return None
    # The sizes; None for dynamic ones.
    channels, filters = generic.extents[channel_loop], generic.extents[filter_loops[0]]
    if not channels or filters is None or filters < FEWEST_FILTERS:
        return None
    are_bytes = all(_is_byte(contraction.tensor_of(factor)) for factor in (filter_, image))
    if not are_bytes or not _is_widened(filter_):
        return None
    padded_channels = channels + _missing(channels)
    pays = channels < padded_channels <= MOST_GROWTH * channels
    return (image_axes[0], filter_axes[0]) if pays else None


def _missing(size: int) -> int:
    """Return how many channels must be added to `size` channels to fill the last group."""
    return -size % GROUP


def _is_byte(value: SSAValue) -> bool:
    """Return whether a tensor has elements of 8 bits."""
    element = cast("TensorType[Attribute]", value.type).element_type
    return isinstance(element, IntegerType) and element.width.data == 8


def _is_widened(factor: Factor) -> bool:
    """Return whether a factor is widened and not changed otherwise, such as by a zero point: padded zeros stay 0."""
    return len(factor.code) == 1 and isinstance(factor.code[0], arith.ExtSIOp | arith.ExtUIOp)


def _pad(op: GenericOp, contraction: Contraction, axes: dict[int, int]) -> None:
    """Replace a convolution by one whose operands are padded. The loops over the channels get the padded sizes.

    axes: index of an operand → axis of its channels; image and filter.
    """
    operands = list(contraction.generic.operands)
    for index, axis in axes.items():
        operands[index] = _padded(op, operands[index], axis)
    replace_op(op, rewrite_loops(op, operands, contraction.generic.maps))


def _padded(op: Operation, value: SSAValue, axis: int) -> SSAValue:
    """Insert a padding of one axis with zeros before `op`, and return the padded tensor."""
    shape = shape_of(value)
    # A `tensor.pad` that adds elements at the end of the axis only; its region yields the zero.
    element = cast(IntegerType, cast("TensorType[Attribute]", value.type).element_type)
    zero = insert_before(arith.ConstantOp(IntegerAttr(0, element)), op)
    added = [_missing(n) if a == axis else 0 for a, n in enumerate(shape)]
    type_ = TensorType(element, [n + more for n, more in zip(shape, added, strict=True)])
    block = Block([tensor.YieldOp(zero)], arg_types=[IndexType()] * len(shape))
    return insert_before(tensor.PadOp(value, [], [], Region(block), [0] * len(shape), added, type_), op)
