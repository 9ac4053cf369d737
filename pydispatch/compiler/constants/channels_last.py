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

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import UnitAttr
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir import Operation
from xdsl.ir.affine import AffineDimExpr, AffineMap

from pydispatch.compiler.analysis.kinds import KEPT_ORDER
from pydispatch.compiler.constants.known import KnownConstants, known_of
from pydispatch.compiler.constants.sink import in_order, replace
from pydispatch.compiler.constants.window_reductions import WindowReduction, has_sliding_index, window_reduction
from pydispatch.compiler.fusion.build import affine_maps, rewrite_loops
from pydispatch.compiler.fusion.dim_orders import permuted_fill, transposed
from pydispatch.compiler.fusion.elimination import erase_unused
from pydispatch.compiler.fusion.maps import defining_copy
from pydispatch.compiler.fusion.simplify import simplify
from pydispatch.compiler.kernels.matmul.match import contraction_of
from pydispatch.ir.affine_maps import is_identity, is_projected_permutation
from pydispatch.ir.core.walk import walk
from pydispatch.ir.structured import GENERIC, Structured, as_structured, structured

DISPATCH_OPS = ("flow.dispatch.region", "flow.dispatch.workgroups")
"""Operations of dispatches that the program itself forms."""


def put_channels_last(function: Operation, converts_floats: bool) -> None:
    """Rewrite the convolutions of a host function to channels-last layout in place, if that pays for one of them.

    An image [batch, channels, height, width] becomes [batch, height, width, channels]. The rewrite of a convolution
    pays if the convolution is faster even with a transposition before and after it. If one does, all convolutions and
    poolings that can be rewritten are, so that no transpositions are needed between them. Sums of bytes stay exact;
    sums of floats are added in the order of the new loops.

    Unchanged are functions in which the program itself forms dispatches, and functions with a grouped convolution: the
    few channels of a group do not fill vectors, and a ResNeXt would be 1.15 times slower.

    Args:
        function: The host function.
        converts_floats: Whether to rewrite, besides convolutions of bytes, f32 and f64 convolutions with constant
            filters, and poolings and depthwise convolutions.
    """
    has_windows = any(_has_windows(op) for op in walk(function))
    if not has_windows or any(op.name in DISPATCH_OPS for op in walk(function)):
        return
    # Find the convolutions and poolings, and decide for all of them at once.
    simplify(function)
    ops = [cast(GenericOp, op) for op in walk(function) if op.name == GENERIC and op.parent is not None]
    known = known_of(function)
    candidates = [w for op in ops if (w := window_reduction(op, known, converts_floats)) is not None]
    if not any(w.pays for w in candidates):
        return
    if any(_is_grouped_convolution(op) for op in ops):
        return
    # Each rewrite transposes the image and the result. Transpositions that meet cancel out (sink.py).
    for candidate in candidates:
        # Match again: an earlier rewrite may have replaced the image.
        current = window_reduction(candidate.op, known, converts_floats)
        if current is not None:
            _rewrite_channels_last(current)
    erase_unused(function)
    simplify(function)
    # Reorder the constant filters of the rewritten convolutions. `known` refers to erased operations: compute it again.
    known = known_of(function)
    for op in list(walk(function)):
        if op.name == GENERIC and op.parent is not None:
            _order_filter(cast(GenericOp, op), known)
    _read_transposed_copies(function)  # transpositions that remain between rewritten operations and others


def _has_windows(op: Operation) -> bool:
    """Return whether an operation is a reduction that reads an operand through sliding windows."""
    generic = as_structured(op) if op.name == GENERIC else None
    if generic is None or not generic.has_reduction_loops:
        return False
    return any(map(has_sliding_index, generic.maps[: len(generic.inputs)]))


def _is_grouped_convolution(op: GenericOp) -> bool:
    """Return whether a convolution is grouped: each filter reduces only some of the channels.

    Its loop over groups indexes both factors, and a reduction loop runs over the channels of a group. A depthwise
    convolution has no such reduction loop.
    """
    contraction = contraction_of(op)
    if contraction is None:
        return False
    # Loops that are not reduced (`outer`), and index both factors.
    group_loops = set(contraction.outer) & contraction.a.dims & contraction.b.dims
    if not group_loops:
        return False
    # The image is indexed by output position + filter position; its index by channel is a reduction loop alone.
    image_maps = [m for m in contraction.generic.maps[: len(op.inputs)] if has_sliding_index(m)]
    image_indices = [index for image_map in image_maps for index in image_map.results]
    loops_alone = {index.position for index in image_indices if isinstance(index, AffineDimExpr)}
    return not loops_alone.isdisjoint(contraction.generic.reduced_loops)


def _order_filter(op: GenericOp, known: KnownConstants) -> None:
    """Transpose the constant filter of a convolution in channels-last layout, so that channels and filters are last.

    The filter's dimensions get the order of the loops that index them: first those that are summed over, in the order
    in which the image's index has them, then those of the result. A filter [filters, channels, height, width] becomes
    [height, width, channels, filters], since the image is read at (batch, row + height, column + width, channels).

    Args:
        op: The operation; unchanged unless put_channels_last() has rewritten it.
        known: The values that depend on constants alone.
    """
    if KEPT_ORDER not in op.attributes:  # only operations that _rewrite_channels_last() rewrote
        return
    generic = structured(op)
    result_index = generic.maps[-1].results
    image_maps = [m for m in generic.maps[: len(generic.inputs)] if has_sliding_index(m)]
    # The image is the only operand with a sliding index, such as row + height. The operands of a 1x1 convolution have
    # none: its filter stays as it is.
    if not generic.has_reduction_loops or not result_index or len(image_maps) != 1:
        return
    reduced_loops = [d for r in image_maps[0].results for d in sorted(r.used_dims()) if d in generic.reduced_loops]
    loop_order = [*reduced_loops, *(r.position for r in result_index if isinstance(r, AffineDimExpr))]
    maps = list(generic.maps)
    for index, value in enumerate(generic.inputs):
        map_ = generic.maps[index]
        is_filter = map_ not in image_maps and known.is_known(value) and is_projected_permutation(map_)
        if not is_filter:
            continue
        loops = [cast(AffineDimExpr, r).position for r in map_.results]  # the loop that indexes each axis
        if not set(loops) <= set(loop_order):
            continue
        # Axis n of the new filter is axis `order[n]` of the old one.
        order = sorted(range(len(loops)), key=lambda axis: loop_order.index(loops[axis]))
        if order != sorted(order):
            new_axes = [order.index(axis) for axis in range(len(order))]  # the new axis of each old one
            op.operands[index] = transposed(value, new_axes, op)
            maps[index] = _reordered(map_, order)
    op.properties["indexing_maps"] = affine_maps(maps)


def _read_transposed_copies(function: Operation) -> None:
    """Make elementwise operations that read a tensor in transposed order read a transposed copy that exists already.

    If no other operation reads the tensor itself, it need not be stored. Example, with the index of each operand:

        %copy = copy of %x at (d0, d3, d1, d2)
        %y = elementwise operation on %x at (d0, d3, d1, d2)   # becomes: on %copy at (d0, d1, d2, d3)
    """
    copies = [c for op in walk(function) if op.name == GENERIC and (c := defining_copy(op.results[0])) is not None]
    for copy in copies:
        axes = _source_axes(copy)
        if axes is None or axes == sorted(axes):  # no transposition
            continue
        for use in list(copy.inputs[0].uses):
            reader, index = use.operation, use.index
            is_in_block_of_copy = reader.parent is copy.op.parent and reader is not copy.op
            if reader.name != GENERIC or not is_in_block_of_copy:
                continue
            generic = structured(reader)
            is_elementwise_input = generic.is_parallel and index < len(generic.inputs)
            if not is_elementwise_input or reader.is_before_in_block(copy.op):
                continue
            map_of_copy = _reordered(generic.maps[index], axes)  # the index of the copy that selects the same element
            if is_identity(map_of_copy):
                reader.operands[index] = copy.op.results[0]
                reader.attributes[KEPT_ORDER] = UnitAttr()  # otherwise read_through_copies() would undo this
                maps = [*generic.maps[:index], map_of_copy, *generic.maps[index + 1 :]]
                reader.properties["indexing_maps"] = affine_maps(maps)


def _source_axes(copy: Structured) -> list[int] | None:
    """Return, for each axis of a transposed copy, the axis of the tensor that it copies.

    Return None unless the loops of the copy are its own axes, and each indexes one axis of the tensor. A copy of one
    slice, with a constant index, is no transposition: other operations may read other slices.
    """
    source_map, copy_map = copy.maps
    inverse = source_map.inverse_permutation()  # without the axes that have a constant index
    if inverse is None or len(inverse.results) != len(source_map.results) or not is_identity(copy_map):
        return None
    return [cast(AffineDimExpr, r).position for r in inverse.results]


def _rewrite_channels_last(windows: WindowReduction) -> None:
    """Replace a window reduction by one in channels-last layout, followed by a transposition to the old layout.

    Leave it unchanged if its initial values are no fill: only a fill is the same in another order.
    """
    op, generic = windows.op, structured(windows.op)
    inputs, maps = list(generic.inputs), list(generic.maps)
    # The result, whose map is the last one, and its initial values.
    result_order = _order_with_last(windows.result_channel_dim, len(maps[-1].results))
    initial_values = permuted_fill(op, generic.outputs[0], result_order)
    if initial_values is None:
        return
    maps[-1] = _reordered(maps[-1], result_order)
    # The image.
    image = windows.image_input
    image_order = _order_with_last(windows.image_channel_dim, len(maps[image].results))
    inputs[image] = in_order(op, inputs[image], image_order)
    maps[image] = _reordered(maps[image], image_order)
    new = rewrite_loops(op, [*inputs, initial_values], maps)
    cast(GenericOp, new.owner).attributes[KEPT_ORDER] = UnitAttr()  # later rewrites leave this layout alone
    replace(op, transposed(new, result_order, op))


def _order_with_last(axis: int, rank: int) -> list[int]:
    """Return the order of `rank` axes that moves one of them to the end: 1 of 4 becomes [0, 2, 3, 1]."""
    return [a for a in range(rank) if a != axis] + [axis]


def _reordered(map_: AffineMap, order: Sequence[int]) -> AffineMap:
    """Return a map with its results permuted: result i of the new map is result `order[i]` of the old one."""
    return AffineMap(map_.num_dims, 0, tuple(map_.results[d] for d in order))
