"""Recognition of convolutions and poolings in channels-first layout, and whether their conversion pays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.dialects.builtin import Float32Type, Float64Type, IntegerType, TensorType, i32
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir import Attribute
from xdsl.ir.affine import AffineDimExpr, AffineMap

from pydispatch.compiler.constants.known import KnownConstants
from pydispatch.compiler.constants.padded_channels import GROUP
from pydispatch.compiler.kernels.matmul.match import Contraction, Factor, contraction_of
from pydispatch.ir.affine_maps import is_projected_permutation
from pydispatch.ir.structured import Structured, structured
from pydispatch.ir.values import shape_of

FEWEST_CHANNELS = 16
"""Minimum number of filters, and of channels, of a convolution: with fewer, pixels fill the vectors better than
channels. For the channels of a byte convolution with a window, the minimum is `GROUP`."""

MANY_CHANNELS = 32
"""Minimum number of channels, and of filters, of a float convolution that is worth transpositions at both ends."""

FEW_PIXELS = 256
"""Maximum number of pixels of a 1x1 float convolution that is worth the transpositions. With so few pixels, channels
first leaves much of the vectors and register blocks empty. With more pixels, both layouts are equally fast."""


@dataclass(frozen=True)
class WindowReduction:
    """Operation that can be rewritten to channels-last layout: a convolution (also 1x1 or depthwise) or a pooling.

    The rewrite moves the channels of the image and of the result to the end. Example: a convolution of an image
    [batch, channels, height, width] with a result [batch, filters, height, width] has `image_channel_dim` 1 and
    `result_channel_dim` 1. It then reads [batch, height, width, channels] and writes [batch, height, width, filters].

    Attributes:
        op: The `linalg.generic` of the operation.
        image_input: Ordinal of the input that is read through windows. Another input may be the same tensor.
        image_channel_dim: Dimension of the image that indexes its channels, before its spatial dimensions. Of a pooling
            or depthwise convolution it may be the last one; the image is then read as it is.
        result_channel_dim: Dimension of the result that indexes its channels (the filters of a convolution).
        pays: Whether the rewrite is faster even if the image must be transposed before it and the result after it.
            Otherwise it is done only if the rewrite of another operation of the function pays.
    """

    op: GenericOp
    image_input: int
    image_channel_dim: int
    result_channel_dim: int
    pays: bool


def window_reduction(op: GenericOp, known: KnownConstants, converts_floats: bool) -> WindowReduction | None:
    """Return a generic as a window reduction that can be rewritten to channels-last layout; None for other operations.

    A window reduction is a convolution, which may be 1x1 or depthwise, or a pooling: each element of its result reduces
    a window of an image.

    Args:
        op: The generic.
        known: The values of the host function that depend on constants alone, such as filters.
        converts_floats: Whether float convolutions, and operations on each channel alone (pooling, depthwise
            convolutions), are rewritten, too; otherwise only convolutions of bytes.
    """
    generic = structured(op)
    is_reduction_with_one_result = generic.has_reduction_loops and len(op.results) == 1
    if not is_reduction_with_one_result or not is_projected_permutation(generic.maps[-1]):
        return None
    if not _has_static_sizes(generic):
        return None
    contraction = contraction_of(op)
    if contraction is not None and len(op.inputs) == 2:
        convolution = _convolution(op, contraction, known, converts_floats)
        if convolution is not None:  # None for a depthwise convolution, and for one that stays channels-first
            return convolution
    return _channelwise_windows(op, generic) if converts_floats else None


def _has_static_sizes(generic: Structured) -> bool:
    """Return whether all sizes are static, except for the batch size, which is the first dimension of the result."""
    batch_index = next(iter(generic.maps[-1].results), None)
    # A dynamic size is negative. It is the batch size if the index of its axis is the batch index.
    return all(
        size >= 0 or index == batch_index
        for value, map_ in zip(generic.operands, generic.maps, strict=True)
        for size, index in zip(shape_of(value), map_.results, strict=True)
    )


def _convolution(
    op: GenericOp, contraction: Contraction, known: KnownConstants, converts_floats: bool
) -> WindowReduction | None:
    """Return a convolution as a window reduction; None for other contractions, and for one that stays channels-first.

    The convolution sums over windows and channels of an image, times a filter [filters, channels, height, width]. The
    filter loop indexes the channels of the result: of the loops in

        result[n, f, y, x] += image[n, c, y + ky, x + kx] * filter[f, c, ky, kx]

    f is the filter loop, y and x are the pixel loops, and c, ky and kx are reduction loops.

    Args:
        op: The generic.
        contraction: The same operation as a contraction; either factor may be the image.
        known: The values of the host function that depend on constants alone.
        converts_floats: Whether float convolutions with constant filters are rewritten, too.
    """
    generic = contraction.generic
    result_dims = [cast(AffineDimExpr, r).position for r in generic.maps[-1].results]
    for filter_, image in ((contraction.a, contraction.b), (contraction.b, contraction.a)):
        filter_loop = _filter_loop(filter_, set(generic.reduced_loops))
        if filter_loop is None or filter_loop not in result_dims or filter_loop in image.dims:
            continue  # `filter_` is no filter, or it has a filter for each channel of the image (depthwise)
        # In channels-first order the loops over the pixels of the result follow its filters.
        pixel_loops = result_dims[result_dims.index(filter_loop) + 1 :]
        channel_axis = _leading_channel_axis(generic, image, pixel_loops)
        if channel_axis is None:
            continue
        sizes = [size or 0 for size in generic.extents]  # 0 for a dynamic one, which only the batch size can be
        # The sizes decide whether the rewrite to channels-last layout pays.
        counts = _Counts(
            filters=sizes[filter_loop],
            channels=shape_of(contraction.tensor_of(image))[channel_axis],
            pixels=math.prod(sizes[loop] for loop in pixel_loops),
            has_window=len(generic.reduced_loops) > 1,
        )
        # Convolutions of bytes are rewritten only where that pays. Those of floats are candidates with fewer channels,
        # too, for the case that another rewrite pays.
        multiplies_floats = converts_floats and _multiplies_constant_floats(contraction, filter_, image, known)
        fills_groups = _multiplies_bytes(contraction, image) and counts.fill_groups_of_bytes()
        if not fills_groups and not (multiplies_floats and counts.filters >= FEWEST_CHANNELS):
            return None
        return WindowReduction(
            op=op,
            image_input=image.main_input,
            image_channel_dim=channel_axis,
            result_channel_dim=result_dims.index(filter_loop),
            pays=fills_groups or counts.pay_for_floats(),
        )
    return None


@dataclass(frozen=True)
class _Counts:
    """Sizes of a convolution, which decide whether its rewrite to channels-last layout pays.

    Attributes:
        filters: Number of filters.
        channels: Number of channels of the image.
        pixels: Number of pixels of the result, per image.
        has_window: Whether the convolution sums over windows; a 1x1 convolution does not.
    """

    filters: int
    channels: int
    pixels: int
    has_window: bool

    def fill_groups_of_bytes(self) -> bool:
        """Return whether a convolution of bytes fills dot-product instructions, each of which sums `GROUP` channels.

        The channels must be whole groups. There must be at least FEWEST_CHANNELS filters and as many channels; for a
        convolution over a window, one group of channels is enough.
        """
        fewest_channels = GROUP if self.has_window else FEWEST_CHANNELS
        has_whole_groups = self.channels % GROUP == 0
        return self.filters >= FEWEST_CHANNELS and self.channels >= fewest_channels and has_whole_groups

    def pay_for_floats(self) -> bool:
        """Return whether the rewrite of a float convolution pays even if image and result must be transposed for it.

        There must be at least MANY_CHANNELS channels and filters. A 1x1 convolution must have few pixels, too: with
        more, both layouts are equally fast.
        """
        are_channels_many = min(self.filters, self.channels) >= MANY_CHANNELS
        return are_channels_many and (self.has_window or self.pixels <= FEW_PIXELS)


def _leading_channel_axis(generic: Structured, image: Factor, pixel_loops: Sequence[int]) -> int | None:
    """Return the axis of an image's channels if they precede its spatial axes.

    The channels are the only axis with a reduction loop as index; spatial axes are indexed with pixel loops. For an
    image read at [n, c, y + ky, x + kx] with the reduction loops c, ky and kx, return 1. Return None for an image with
    its channels last, for a plain matrix [k, n], and for a factor that is no image.

    Args:
        generic: The contraction.
        image: The factor.
        pixel_loops: Loops over the pixels of the result, here y and x.
    """
    indices = generic.maps[image.main_input].results  # the index of each image axis
    channel_axes = [
        a for a, r in enumerate(indices) if isinstance(r, AffineDimExpr) and r.position in generic.reduced_loops
    ]
    spatial_axes = [a for a, r in enumerate(indices) if not set(pixel_loops).isdisjoint(r.used_dims())]
    if len(channel_axes) != 1 or not spatial_axes:
        return None
    # With a single spatial axis and no window, an image [channels, pixels] is a matrix of a product.
    is_matmul = len(pixel_loops) < 2 and len(generic.reduced_loops) == 1
    is_channels_last = spatial_axes[0] < channel_axes[0]
    return None if is_matmul or is_channels_last else channel_axes[0]


def _filter_loop(filter_: Factor, reduction_loops: set[int]) -> int | None:
    """Return the loop over the filters: it indexes the first dimension of a factor [filters, channels, ...].

    Return None, for a factor that is no filter, unless each of `reduction_loops` indexes one of the other dimensions.
    For a factor read at [f, c, ky, kx] with the reduction loops c, ky and kx, return f.
    """
    dims = filter_.axis_dims
    if not dims or dims[0] in reduction_loops:
        return None
    others_are_reduced = set(dims[1:]) == reduction_loops and len(dims) == len(reduction_loops) + 1
    return dims[0] if others_are_reduced else None


def _multiplies_bytes(contraction: Contraction, image: Factor) -> bool:
    """Return whether a contraction multiplies bytes of the image and accumulates in i32."""
    element = cast("TensorType[Attribute]", contraction.tensor_of(image).type).element_type
    return contraction.acc == i32 and isinstance(element, IntegerType) and element.width.data == 8


def _multiplies_constant_floats(
    contraction: Contraction, filter_: Factor, image: Factor, known: KnownConstants
) -> bool:
    """Return whether a contraction multiplies f32 or f64 elements, not widened ones, by a constant filter.

    `filter_` and `image` are its two factors; `known` has the values that depend on constants alone.
    """
    are_not_widened = image.is_element and filter_.is_element  # the factors are elements of the tensors themselves
    if not are_not_widened or not known.is_known(contraction.tensor_of(filter_)):
        return False
    element = cast("TensorType[Attribute]", contraction.tensor_of(image).type).element_type
    return isinstance(element, Float32Type | Float64Type) and element == contraction.acc


def _channelwise_windows(op: GenericOp, generic: Structured) -> WindowReduction | None:
    """Return an operation on each channel alone (pooling, a depthwise convolution) as a window reduction.

    A pooling with the result [n, c, h, w] reads the image [n, c, h + kh, w + kw]. Axes 2 and 3 slide: their index is a
    sum. Axes 0 and 1 are kept: the result has their index. The channels are the last axis of the image if it is kept,
    else the last kept axis before the windows, here axis 1.

    Return None for other operations, and if the result has its channels last already. `pays` is False: the rewrite
    only saves transpositions between other operations that are rewritten.
    """
    result_dims = [cast(AffineDimExpr, r).position for r in generic.maps[-1].results]
    images = [i for i in range(len(generic.inputs)) if has_sliding_index(generic.maps[i])]
    if len(images) != 1:
        return None
    (image,) = images
    indices = generic.maps[image].results  # the index of each axis of the image
    sliding_axes = [a for a, r in enumerate(indices) if not isinstance(r, AffineDimExpr)]
    kept_axes = [a for a, r in enumerate(indices) if isinstance(r, AffineDimExpr) and r.position in result_dims]
    channel_axes = [a for a in kept_axes if a < sliding_axes[0] or a == len(indices) - 1]
    sums_channels = any(isinstance(r, AffineDimExpr) and r.position in generic.reduced_loops for r in indices)
    if sums_channels or not channel_axes:
        return None
    channel_axis = channel_axes[-1]
    if shape_of(generic.inputs[image])[channel_axis] < FEWEST_CHANNELS:
        return None
    result_channel_dim = result_dims.index(cast(AffineDimExpr, indices[channel_axis]).position)
    if result_channel_dim == len(result_dims) - 1:  # the result has its channels last already
        return None
    return WindowReduction(
        op=op,
        image_input=image,
        image_channel_dim=channel_axis,
        result_channel_dim=result_channel_dim,
        pays=False,
    )


def has_sliding_index(map_: AffineMap) -> bool:
    """Return whether a map has an index that is more than one loop dimension, such as that of a sliding window."""
    return any(not isinstance(r, AffineDimExpr) for r in map_.results)
