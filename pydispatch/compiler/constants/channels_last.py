"""Conversion of convolutions from channels-first to channels-last layout, for which the kernels are faster.

Byte products sum groups of adjacent steps: with channels last, these are channels of one pixel, for every position of a
window. Float products use vectors of columns: with channels last, these are filters. They fill the vectors however
small an image is, and constant filters can be packed into panels. Time channels first / channels last on one worker of
a Zen 5, f32, 3x3, with the transpositions of both ends: 56x56x64 1.10, 28x28x128 1.16, 14x14x256 1.19, 7x7x512 1.35.

Operations on the result use the same order (`sink.py`), and so do windows of single channels (pooling, depthwise
convolutions). A network is therefore transposed only at its ends: a ResNet-50 took 40.7 ms and takes 35.5, a
MobileNetV2 4.1 and 3.0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.dialects.builtin import Float32Type, Float64Type, IntegerType, TensorType, UnitAttr, i32
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineMap

from pydispatch.compiler.analysis.kinds import KEPT_ORDER
from pydispatch.compiler.constants.known import KnownConstants, known_of
from pydispatch.compiler.constants.padded_channels import GROUP
from pydispatch.compiler.constants.sink import in_order, replace
from pydispatch.compiler.fusion.build import affine_maps, rewrite_loops
from pydispatch.compiler.fusion.dim_orders import permuted_fill, transposed
from pydispatch.compiler.fusion.elimination import erase_unused
from pydispatch.compiler.fusion.maps import defining_copy
from pydispatch.compiler.fusion.simplify import simplify
from pydispatch.compiler.kernels.matmul.match import Contraction, Factor, contraction_of
from pydispatch.ir.affine_maps import is_identity, is_projected_permutation
from pydispatch.ir.core.walk import walk
from pydispatch.ir.structured import GENERIC, Structured, as_structured, structured
from pydispatch.ir.values import shape_of

FEWEST_CHANNELS = 16
"""Minimum number of filters, and of channels, of a convolution: with fewer, pixels fill the vectors better than
channels. For the channels of a byte convolution with a window, the minimum is `GROUP`."""

MANY_CHANNELS = 32
"""Minimum number of channels, and of filters, of a float convolution that is worth transpositions at both ends."""

FEW_PIXELS = 256
"""Maximum number of pixels of a 1x1 float convolution that is worth the transpositions. With so few pixels, channels
first leaves much of the vectors and register blocks empty. With more pixels, both layouts are equally fast."""

DISPATCH_OPS = ("flow.dispatch.region", "flow.dispatch.workgroups")
"""Operations of dispatches that the program itself forms."""


@dataclass(frozen=True)
class WindowReduction:
    """Channels-first operation that can be rewritten: a convolution (also 1x1), a depthwise convolution or a pooling.

    Example: a convolution of an image [batch, channels, height, width] with a result [batch, filters, height, width]
    has `image_channel_dim` 1 and `result_channel_dim` 1.

    Attributes:
        op: The `linalg.generic` of the operation.
        image: The operand that is read through windows; its channels precede its spatial dimensions.
        image_channel_dim: Dimension of the image that indexes its channels.
        result_channel_dim: Dimension of the result that indexes its channels (the filters of a convolution).
        pays: Whether the rewrite pays even with transpositions at both ends; otherwise only next to one that pays.
    """

    op: GenericOp
    image: SSAValue
    image_channel_dim: int
    result_channel_dim: int
    pays: bool


def put_channels_last(function: Operation, converts_floats: bool) -> None:
    """Rewrite the convolutions of a host function to channels-last layout in place, where that pays.

    Sums of bytes stay exact; sums of floats are added in the order of the new loops. Left unchanged are functions that
    form dispatches themselves, and functions with grouped convolutions, whose few channels per group do not fill
    vectors: a ResNeXt became 1.15 times slower.

    Args:
        function: The host function.
        converts_floats: Whether to rewrite f32 and f64 convolutions with constant filters, too.
    """
    if not any(_has_windows(op) for op in walk(function)) or any(op.name in DISPATCH_OPS for op in walk(function)):
        return
    simplify(function)
    ops = [cast(GenericOp, op) for op in walk(function) if op.name == GENERIC and op.parent is not None]
    known = known_of(function)
    candidates = [w for op in ops if (w := _window_reduction(op, known, converts_floats)) is not None]
    if not any(w.pays for w in candidates):
        return
    if any(_is_grouped_convolution(op) for op in ops):
        return
    for candidate in candidates:
        # Match again: an earlier rewrite may have replaced the image.
        current = _window_reduction(candidate.op, known, converts_floats)
        if current is not None:
            _rewrite_channels_last(current)
    erase_unused(function)
    simplify(function)
    known = known_of(function)
    for op in list(walk(function)):
        if op.name == GENERIC and op.parent is not None:
            _order_filter(cast(GenericOp, op), known)
    _read_transposed_copies(function)  # transpositions that remain between rewritten operations and others


def _has_windows(op: Operation) -> bool:
    """Return whether an operation is a reduction that reads an operand through sliding windows."""
    g = as_structured(op) if op.name == GENERIC else None
    return g is not None and g.has_reduction_loops and any(map(_has_sliding_index, g.maps[: len(g.inputs)]))


def _is_grouped_convolution(op: GenericOp) -> bool:
    """Return whether a convolution is grouped: each filter reduces only some of the channels.

    Its loop over groups indexes both factors, and a reduction loop runs over the channels of a group. A depthwise
    convolution has no such reduction loop.
    """
    contraction = contraction_of(op)
    if contraction is None:
        return False
    group_loops = set(contraction.outer) & contraction.a.dims & contraction.b.dims
    if not group_loops:
        return False
    image_maps = [m for m in contraction.generic.maps[: len(op.inputs)] if _has_sliding_index(m)]
    reduction_loops = contraction.generic.reduced_loops
    return any(isinstance(r, AffineDimExpr) and r.position in reduction_loops for m in image_maps for r in m.results)


def _window_reduction(op: GenericOp, known: KnownConstants, converts_floats: bool) -> WindowReduction | None:
    """Return a generic as a window reduction that can be rewritten; None for other operations.

    known: the values that are constant when the program runs. converts_floats: whether float convolutions, and
    operations on each channel alone, are rewritten too.
    """
    generic = structured(op)
    if (
        not generic.has_reduction_loops
        or len(op.results) != 1
        or not is_projected_permutation(generic.maps[-1])
        or not _has_static_sizes(generic)
    ):
        return None
    contraction = contraction_of(op)
    if contraction is not None and len(op.inputs) == 2:
        convolution = _convolution(op, contraction, known, converts_floats)
        if convolution is not None:  # None for a depthwise convolution, and for one that stays channels-first
            return convolution
    return _channelwise_windows(op, generic) if converts_floats else None


def _has_static_sizes(generic: Structured) -> bool:
    """Return whether all sizes are static, except for the batch size, which is the first dimension of the result."""
    batch_index = generic.maps[-1].results[:1]
    return all(
        size >= 0 or map_.results[axis : axis + 1] == batch_index
        for value, map_ in zip(generic.operands, generic.maps, strict=True) for axis, size in enumerate(shape_of(value))
    )  # fmt: skip


def _convolution(
    op: GenericOp, contraction: Contraction, known: KnownConstants, converts_floats: bool
) -> WindowReduction | None:
    """Return a convolution as a window reduction; None for other contractions.

    The convolution sums over windows and channels of an image, times a filter [filters, channels, height, width]. The
    filter loop indexes the channels of the result. `pays` is decided by the element types, and by the numbers of
    filters, channels and pixels. `known` has the values that are constant when the program runs.
    """
    generic = contraction.generic
    result_dims = [cast(AffineDimExpr, r).position for r in generic.maps[-1].results]
    for filter_, image in ((contraction.a, contraction.b), (contraction.b, contraction.a)):
        filter_loop = _filter_loop(filter_, set(generic.reduced_loops))
        if filter_loop is None or filter_loop not in result_dims or filter_loop in image.dims:
            continue
        exprs = generic.maps[image.main_input].results  # the index of each image axis
        # In channels-first order the loops over the pixels of the result follow its filters.
        pixel_loops = result_dims[result_dims.index(filter_loop) + 1 :]
        channel_axes = [
            a for a, r in enumerate(exprs) if isinstance(r, AffineDimExpr) and r.position in generic.reduced_loops
        ]
        spatial_axes = [a for a, r in enumerate(exprs) if not set(pixel_loops).isdisjoint(r.used_dims())]
        if len(channel_axes) != 1 or not spatial_axes:
            continue
        sizes = [size or 0 for size in generic.extents]  # 0 for a dynamic one, which only the batch size can be
        filters, pixels = sizes[filter_loop], math.prod(sizes[loop] for loop in pixel_loops)
        has_window = len(generic.reduced_loops) > 1
        is_channels_last = spatial_axes[0] < channel_axes[0]
        is_matmul = len(pixel_loops) < 2 and not has_window
        if is_channels_last or is_matmul:
            continue
        channels = shape_of(contraction.tensor_of(image))[channel_axes[0]]
        fewest_channels = GROUP if has_window else FEWEST_CHANNELS
        is_of_bytes = _multiplies_bytes(contraction, image)
        if is_of_bytes and filters >= FEWEST_CHANNELS and channels >= fewest_channels and channels % GROUP == 0:
            pays = True
        elif (
            converts_floats
            and image.is_element
            and filter_.is_element
            and known.is_known(contraction.tensor_of(filter_))
        ):
            element = cast("TensorType[Attribute]", contraction.tensor_of(image).type).element_type
            is_unwidened_float = isinstance(element, Float32Type | Float64Type) and element == contraction.acc
            if not is_unwidened_float or filters < FEWEST_CHANNELS:
                return None
            pays = min(filters, channels) >= MANY_CHANNELS and (has_window or pixels <= FEW_PIXELS)
        else:
            return None
        return WindowReduction(
            op=op,
            image=contraction.tensor_of(image),
            image_channel_dim=channel_axes[0],
            result_channel_dim=result_dims.index(filter_loop),
            pays=pays,
        )
    return None


def _filter_loop(filter_: Factor, reduction_loops: set[int]) -> int | None:
    """Return the loop over the filters: it indexes the first dimension of a factor [filters, channels, ...].

    Return None unless the reduction loops index all other dimensions, one each: the factor is then no filter.
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


def _channelwise_windows(op: GenericOp, generic: Structured) -> WindowReduction | None:
    """Return an operation on each channel alone (pooling, a depthwise convolution) as a window reduction, which pays
    only next to others; None for other operations.

    The image's channels are a dimension that the result has too: the last one before the windows, or the last of all.
    A pooling with the result (n, c, h, w) reads (n, c, h + kh, w + kw): its kept axes are n and c, its channels are
    axis 1. An operation whose result has its channels last already is None, too.
    """
    result_dims = [cast(AffineDimExpr, r).position for r in generic.maps[-1].results]
    images = [v for v, m in zip(generic.inputs, generic.maps, strict=False) if _has_sliding_index(m)]
    if len(images) != 1:
        return None
    exprs = generic.maps[generic.inputs.index(images[0])].results
    sliding_axes = [a for a, r in enumerate(exprs) if not isinstance(r, AffineDimExpr)]
    kept_axes = [a for a, r in enumerate(exprs) if isinstance(r, AffineDimExpr) and r.position in result_dims]
    channel_axes = [a for a in kept_axes if a < sliding_axes[0] or a == len(exprs) - 1]
    if any(isinstance(r, AffineDimExpr) and r.position in generic.reduced_loops for r in exprs):
        return None  # an image axis is a reduction loop: each result sums several channels
    if not channel_axes or shape_of(images[0])[channel_axes[-1]] < FEWEST_CHANNELS:
        return None
    result_channel_dim = result_dims.index(cast(AffineDimExpr, exprs[channel_axes[-1]]).position)
    if result_channel_dim == len(result_dims) - 1:
        return None
    return WindowReduction(
        op=op,
        image=images[0],
        image_channel_dim=channel_axes[-1],
        result_channel_dim=result_channel_dim,
        pays=False,
    )


def _has_sliding_index(map_: AffineMap) -> bool:
    """Return whether a map has an index that is more than one loop dimension, such as that of a sliding window."""
    return any(not isinstance(r, AffineDimExpr) for r in map_.results)


def _order_filter(op: GenericOp, known: KnownConstants) -> None:
    """Store a constant filter that is multiplied with windows of a channels-last image with its channels last.

    The new dimensions of the filter are those that are reduced, in the order of the image, then those of the result:
    [filters, channels, height, width] becomes [height, width, channels, filters].
    """
    if KEPT_ORDER not in op.attributes:  # only operations that _rewrite_channels_last() rewrote
        return
    generic = structured(op)
    result_index = generic.maps[-1].results
    image_maps = [m for m in generic.maps[: len(generic.inputs)] if _has_sliding_index(m)]
    if not generic.has_reduction_loops or not result_index or len(image_maps) != 1:
        return
    reduced_dims = [d for r in image_maps[0].results for d in sorted(r.used_dims()) if d in generic.reduced_loops]
    wanted_order = [*reduced_dims, *(r.position for r in result_index if isinstance(r, AffineDimExpr))]
    maps = list(generic.maps)
    for index, (value, map_) in enumerate(zip(generic.inputs, generic.maps, strict=False)):
        if map_ in image_maps or not known.is_known(value) or not is_projected_permutation(map_):
            continue
        dims = [cast(AffineDimExpr, r).position for r in map_.results]
        if not set(dims) <= set(wanted_order):
            continue
        order = sorted(range(len(dims)), key=lambda a: wanted_order.index(dims[a]))  # old axis of each new one
        if order != sorted(order):
            inverse = [order.index(a) for a in range(len(order))]  # transposed() takes the new axis of each old one
            op.operands[index] = transposed(value, inverse, op)
            maps[index] = _reordered(map_, order)
    op.properties["indexing_maps"] = affine_maps(maps)


def _read_transposed_copies(function: Operation) -> None:
    """Make elementwise operations that read a tensor in transposed order read a transposed copy that exists already.

    If no other operation reads the tensor itself, it need not be stored.
    """
    copies = [c for op in walk(function) if op.name == GENERIC and (c := defining_copy(op.results[0])) is not None]
    for copy in copies:
        source, order = copy.inputs[0], copy.maps[0].inverse_permutation()
        if order is None or not is_identity(copy.maps[1]) or is_identity(copy.maps[0]):
            continue  # no transposition
        axes = [cast(AffineDimExpr, r).position for r in order.results]  # for each axis of the copy, the source's
        for use in list(source.uses):
            reader, index = use.operation, use.index
            if reader.name != GENERIC or reader is copy.op or reader.parent is not copy.op.parent:
                continue
            generic = structured(reader)
            if not generic.is_parallel or index >= len(generic.inputs) or reader.is_before_in_block(copy.op):
                continue
            in_order = _reordered(generic.maps[index], axes)
            if is_identity(in_order):
                reader.operands[index] = copy.op.results[0]
                reader.attributes[KEPT_ORDER] = UnitAttr()  # otherwise read_through_copies() would undo this
                reader.properties["indexing_maps"] = affine_maps(
                    [*generic.maps[:index], in_order, *generic.maps[index + 1 :]]
                )


def _rewrite_channels_last(windows: WindowReduction) -> None:
    """Replace a window reduction by one in channels-last layout, followed by a transposition to the old layout.

    Leave it unchanged if its initial values are no fill: only a fill is the same in another order.
    """
    op, generic = windows.op, structured(windows.op)
    result_map, image = generic.maps[-1], generic.inputs.index(windows.image)
    result_order = _order_with_last(windows.result_channel_dim, len(result_map.results))
    initial_values = permuted_fill(op, generic.outputs[0], result_order)
    if initial_values is None:
        return
    image_order = _order_with_last(windows.image_channel_dim, len(generic.maps[image].results))
    inputs, maps = list(generic.inputs), [*generic.maps[:-1], _reordered(result_map, result_order)]
    inputs[image], maps[image] = in_order(op, windows.image, image_order), _reordered(maps[image], image_order)
    new = rewrite_loops(op, [*inputs, initial_values], maps)
    cast(GenericOp, new.owner).attributes[KEPT_ORDER] = UnitAttr()  # later rewrites leave this layout alone
    replace(op, transposed(new, result_order, op))


def _order_with_last(axis: int, rank: int) -> list[int]:
    """Return the order of `rank` axes that moves one of them to the end: 1 of 4 becomes [0, 2, 3, 1]."""
    return [a for a in range(rank) if a != axis] + [axis]


def _reordered(map_: AffineMap, order: Sequence[int]) -> AffineMap:
    """Return a map with its results permuted: result i of the new map is result `order[i]` of the old one."""
    return AffineMap(map_.num_dims, 0, tuple(map_.results[d] for d in order))
