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
from pydispatch.compiler.fusion.maps import copied
from pydispatch.compiler.fusion.simplify import erase_unused, simplify
from pydispatch.compiler.kernels.matmul.match import Contraction, Factor, contraction_of
from pydispatch.ir.affine_maps import is_identity, is_projected_permutation
from pydispatch.ir.core.walk import walk
from pydispatch.ir.structured import GENERIC, Structured, as_structured, structured
from pydispatch.ir.values import shape_of

FEWEST = 16
"""Minimum number of filters, and of channels unless a convolution of bytes has a window: with fewer, pixels fill the
vectors better than channels."""

MANY = 32
"""Minimum number of channels, and of filters, of a float convolution that pays for the transpositions at its ends."""

FEW_PIXELS = 256
"""Maximum number of pixels for which a 1x1 convolution pays: with so few, channels first leaves much of the vectors and
blocks empty. With more pixels, both orders are equally fast."""

FORMED = ("flow.dispatch.region", "flow.dispatch.workgroups")
"""Operations of dispatches that the program itself forms."""


@dataclass(frozen=True)
class WindowReduction:
    """Reduction over windows of an image that has its channels before its spatial dimensions, or a product with each
    pixel of such an image.

    Attributes:
        op: The reduction.
        image: The operand that is read through windows, such as [batch, channels, height, width].
        channel: Dimension of the image that is its channels.
        row: Dimension of the result that is its channels: the rows of the filter.
        pays: Whether the rewrite pays even with transpositions at both ends; otherwise only next to one that pays.
    """

    op: GenericOp
    image: SSAValue
    channel: int
    row: int
    pays: bool


def put_channels_last(function: Operation, floats: bool) -> None:
    """Rewrite the convolutions of a host function to channels-last layout in place, where that pays. Sums of bytes stay
    exact; sums of floats are added in the order of the new loops.

    floats: whether to rewrite f32 and f64 convolutions with constant filters too. Functions that form dispatches
    themselves are left unchanged, and functions with grouped convolutions, whose few channels per group do not fill
    vectors: a ResNeXt became 1.15 times slower.
    """
    if not any(_has_windows(op) for op in walk(function)) or any(op.name in FORMED for op in walk(function)):
        return
    simplify(function)
    ops = [cast(GenericOp, op) for op in walk(function) if op.name == GENERIC and op.parent is not None]
    known = known_of(function)
    candidates = [w for op in ops if (w := _window_reduction(op, known, floats)) is not None]
    if not any(w.pays for w in candidates) or any(_in_groups(op) for op in ops):
        return
    for candidate in candidates:
        current = _window_reduction(candidate.op, known, floats)  # an earlier rewrite may have replaced its image
        if current is not None:
            _rewrite_channels_last(current)
    erase_unused(function)
    simplify(function)
    known = known_of(function)
    for op in list(walk(function)):
        if op.name == GENERIC and op.parent is not None:
            _order_filter(cast(GenericOp, op), known)
    _read_transposed_copies(function)


def _has_windows(op: Operation) -> bool:
    """Return whether an operation is a reduction that reads an operand through sliding windows."""
    g = as_structured(op) if op.name == GENERIC else None
    return g is not None and g.reduces and any(map(_has_sliding_index, g.maps[: len(g.inputs)]))


def _in_groups(op: GenericOp) -> bool:
    """Return whether a convolution is grouped: each filter reduces only some of the channels.

    Its loop over groups indexes both factors, and a reduction loop runs over the channels of a group. A depthwise
    convolution has no such reduction loop.
    """
    c = contraction_of(op)
    if c is None or not set(c.outer) & c.a.dims & c.b.dims:
        return False
    images = [m for m in c.generic.maps[: len(op.inputs)] if _has_sliding_index(m)]
    reduction_loops = c.generic.loops
    return any(isinstance(r, AffineDimExpr) and r.position in reduction_loops for m in images for r in m.results)


def _window_reduction(op: GenericOp, known: KnownConstants, floats: bool) -> WindowReduction | None:
    """Return a generic as a window reduction that can be rewritten; None for other operations."""
    generic = structured(op)
    if (
        not generic.reduces
        or len(op.results) != 1
        or not is_projected_permutation(generic.maps[-1])
        or not _has_static_sizes(generic)
    ):
        return None
    c = contraction_of(op)
    convolution = None if c is None or len(op.inputs) != 2 else _convolution(op, c, known, floats)
    return convolution or (_channelwise_windows(op, generic) if floats else None)


def _has_static_sizes(generic: Structured) -> bool:
    """Return whether all sizes are static, except for the batch size, which is the first dimension of the result."""
    batch = generic.maps[-1].results[:1]
    return all(
        n >= 0 or m.results[axis : axis + 1] == batch
        for value, m in zip(generic.operands, generic.maps, strict=True) for axis, n in enumerate(shape_of(value))
    )  # fmt: skip


def _convolution(
    op: GenericOp, contraction: Contraction, known: KnownConstants, floats: bool
) -> WindowReduction | None:
    """Return a convolution as a window reduction; None for other contractions.

    The convolution sums over windows and channels of an image, times a filter whose first dimension, its rows, is the
    result's channels: [rows, channels, height, width]. `pays` is decided by the element types, and by the numbers of
    filters, channels and pixels.
    """
    generic = contraction.generic
    out = [cast(AffineDimExpr, r).position for r in generic.maps[-1].results]
    for filter_, image in ((contraction.a, contraction.b), (contraction.b, contraction.a)):
        row, exprs = _filter_row_dim(filter_, set(generic.loops)), generic.maps[image.main].results
        if row is None or row not in out or row in image.dims:
            continue
        spatial = out[out.index(row) + 1 :]
        channel_axes = [a for a, r in enumerate(exprs) if isinstance(r, AffineDimExpr) and r.position in generic.loops]
        spatial_axes = [a for a, r in enumerate(exprs) if not set(spatial).isdisjoint(r.used_dims())]
        if len(channel_axes) != 1 or not spatial_axes:
            continue
        sizes = [n or 0 for n in generic.extents]
        filters, pixels, has_window = sizes[row], math.prod(sizes[d] for d in spatial), len(generic.loops) > 1
        if spatial_axes[0] < channel_axes[0] or (len(spatial) < 2 and not has_window):
            continue
        channels = shape_of(contraction.tensor_of(image))[channel_axes[0]]
        fewest = GROUP if has_window else FEWEST
        is_of_bytes = _multiplies_bytes(contraction, image)
        if is_of_bytes and filters >= FEWEST and channels >= fewest and channels % GROUP == 0:
            pays = True
        elif floats and image.direct and filter_.direct and known.is_known(contraction.tensor_of(filter_)):
            element = cast("TensorType[Attribute]", contraction.tensor_of(image).type).element_type
            if not isinstance(element, Float32Type | Float64Type) or element != contraction.acc or filters < FEWEST:
                return None
            pays = min(filters, channels) >= MANY and (has_window or pixels <= FEW_PIXELS)
        else:
            return None
        return WindowReduction(
            op=op, image=contraction.tensor_of(image), channel=channel_axes[0], row=out.index(row), pays=pays
        )
    return None


def _filter_row_dim(filter_: Factor, loops: set[int]) -> int | None:
    """Return the loop dimension of a filter's rows. It must index the first dimension of the filter, and the reduced
    loops all others; else return None.
    """
    dims = filter_.axis_dims
    if not dims or dims[0] in loops:
        return None
    return dims[0] if set(dims[1:]) == loops and len(dims) == len(loops) + 1 else None


def _multiplies_bytes(contraction: Contraction, image: Factor) -> bool:
    """Return whether a contraction multiplies bytes of the image and accumulates in i32."""
    element = cast("TensorType[Attribute]", contraction.tensor_of(image).type).element_type
    return contraction.acc == i32 and isinstance(element, IntegerType) and element.width.data == 8


def _channelwise_windows(op: GenericOp, generic: Structured) -> WindowReduction | None:
    """Return an operation on each channel alone (pooling, a depthwise convolution) as a window reduction, which pays
    only next to others; None for other operations.
    """
    out = [cast(AffineDimExpr, r).position for r in generic.maps[-1].results]
    images = [v for v, m in zip(generic.inputs, generic.maps, strict=False) if _has_sliding_index(m)]
    if len(images) != 1:
        return None
    exprs = generic.maps[generic.inputs.index(images[0])].results
    sliding_axes = [a for a, r in enumerate(exprs) if not isinstance(r, AffineDimExpr)]
    kept_axes = [a for a, r in enumerate(exprs) if isinstance(r, AffineDimExpr) and r.position in out]
    channel_axes = [a for a in kept_axes if a < sliding_axes[0] or a == len(exprs) - 1]
    if any(isinstance(r, AffineDimExpr) and r.position in generic.loops for r in exprs):
        return None  # channels are summed in groups
    if not channel_axes or shape_of(images[0])[channel_axes[-1]] < FEWEST:
        return None
    row = out.index(cast(AffineDimExpr, exprs[channel_axes[-1]]).position)
    return None if row == len(out) - 1 else WindowReduction(op, images[0], channel_axes[-1], row, pays=False)


def _has_sliding_index(map_: AffineMap) -> bool:
    """Return whether a map has an index that is more than one loop dimension, such as that of a sliding window."""
    return any(not isinstance(r, AffineDimExpr) for r in map_.results)


def _order_filter(op: GenericOp, known: KnownConstants) -> None:
    """Store a constant filter that is multiplied with windows of a channels-last image with its channels last.

    The filter's dimensions are ordered as the image's dimensions that it is reduced with, followed by the result's.
    """
    generic = structured(op)
    out = generic.maps[-1].results
    images = [m for m in generic.maps[: len(generic.inputs)] if _has_sliding_index(m)]
    if not generic.reduces or not out or len(images) != 1:
        return
    reduced_dims = [d for r in images[0].results for d in sorted(r.used_dims()) if d in generic.loops]
    wanted_order = [*reduced_dims, *(r.position for r in out if isinstance(r, AffineDimExpr))]
    maps = list(generic.maps)
    for index, (value, map_) in enumerate(zip(generic.inputs, generic.maps, strict=False)):
        if map_ in images or not known.is_known(value) or not is_projected_permutation(map_):
            continue
        dims = [cast(AffineDimExpr, r).position for r in map_.results]
        if not set(dims) <= set(wanted_order) or KEPT_ORDER not in op.attributes:
            continue
        order = sorted(range(len(dims)), key=lambda a: wanted_order.index(dims[a]))
        if order != sorted(order):
            inverse = [order.index(a) for a in range(len(order))]
            op.operands[index] = transposed(value, inverse, op)
            maps[index] = _reordered(map_, order)
    op.properties["indexing_maps"] = affine_maps(maps)


def _read_transposed_copies(function: Operation) -> None:
    """Make elementwise operations that read a tensor out of order read a transposed copy of it that exists anyway, so
    that the tensor itself need not be stored.
    """
    copies = [c for op in walk(function) if op.name == GENERIC and (c := copied(op.results[0])) is not None]
    for copy in copies:
        source, order = copy.inputs[0], copy.maps[0].inverse_permutation()
        if order is None or not is_identity(copy.maps[1]) or is_identity(copy.maps[0]):
            continue
        axes = [cast(AffineDimExpr, r).position for r in order.results]
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
                reader.attributes[KEPT_ORDER] = UnitAttr()
                reader.properties["indexing_maps"] = affine_maps(
                    [*generic.maps[:index], in_order, *generic.maps[index + 1 :]]
                )


def _rewrite_channels_last(windows: WindowReduction) -> None:
    """Replace a window reduction by one in channels-last layout, followed by a transposition to the old layout. Leave
    it unchanged if its initial values are no fill, which cannot be permuted.
    """
    op, generic = windows.op, structured(windows.op)
    out, image = generic.maps[-1], generic.inputs.index(windows.image)
    result_order = _with_last(windows.row, len(out.results))
    start = permuted_fill(op, generic.outputs[0], result_order)
    if start is None:
        return
    image_order = _with_last(windows.channel, len(generic.maps[image].results))
    inputs, maps = list(generic.inputs), [*generic.maps[:-1], _reordered(out, result_order)]
    inputs[image], maps[image] = in_order(op, windows.image, image_order), _reordered(maps[image], image_order)
    new = rewrite_loops(op, [*inputs, start], maps)
    cast(GenericOp, new.owner).attributes[KEPT_ORDER] = UnitAttr()
    replace(op, transposed(new, result_order, op))


def _with_last(axis: int, rank: int) -> list[int]:
    """Return the order of `rank` axes that moves one of them to the end: 1 of 4 becomes [0, 2, 3, 1]."""
    return [a for a in range(rank) if a != axis] + [axis]


def _reordered(map_: AffineMap, order: Sequence[int]) -> AffineMap:
    """Return a map with its results permuted: result i of the new map is result `order[i]` of the old one."""
    return AffineMap(map_.num_dims, 0, tuple(map_.results[d] for d in order))
