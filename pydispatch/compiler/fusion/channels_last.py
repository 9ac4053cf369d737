"""Convolutions of bytes whose channels come first become convolutions with channels last.

Products of bytes take groups of steps that lie side by side. With channels last they are channels of one place, for all
places of a window, and filters are the columns, in panels where they are constants. What is made of the result is
computed in the same order, so that a chain of convolutions is transposed at its ends alone.
"""

from __future__ import annotations

from typing import cast

from xdsl.dialects import tensor
from xdsl.dialects.builtin import IntegerType, TensorType, i32
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineMap

from pydispatch.compiler.analysis.edit import before
from pydispatch.compiler.fusion.build import affine_maps, iterator_types, reassociation
from pydispatch.compiler.fusion.im2col import Convolution, convolution_of
from pydispatch.compiler.fusion.maps import copied, padded, pads_simply, read_through_copies
from pydispatch.compiler.fusion.orders import computed_in, permuted_fill, transposed
from pydispatch.compiler.fusion.simplify import erase_unused
from pydispatch.ir.affine_maps import is_identity
from pydispatch.ir.structured import GENERIC, structured
from pydispatch.ir.values import shape_of

GROUP = 4
"""Channels that are multiplied at once."""

FEWEST = 16
"""Channels, and filters, below which vectors are better filled along places."""


def put_channels_last(function: Operation) -> None:
    """Rewrites the convolutions of a host function for which it pays, in place. No value changes."""
    found = False
    for op in list(function.walk()):
        c = convolution_of(cast(GenericOp, op)) if op.name == GENERIC and op.parent is not None else None
        channel = None if c is None else _channel(c)
        if c is not None and channel is not None:
            found = _rewrite(c, channel) or found
    if found:
        erase_unused(function)


def _channel(c: Convolution) -> int | None:
    """The dimension of the image that has its channels, before its places, where it pays to have them last."""
    type_ = cast("TensorType[IntegerType]", c.image.type)
    result = cast("TensorType[IntegerType]", c.op.results[0].type)
    if result.element_type != i32 or type_.element_type.width.data != 8 or len(c.rows) != 1 or c.channels_last:
        return None
    exprs = c.image_map.results
    plain = [a for a, r in enumerate(exprs) if isinstance(r, AffineDimExpr) and r.position in c.steps]
    windows = [a for a, r in enumerate(exprs) if not isinstance(r, AffineDimExpr)]
    if len(plain) != 1 or not windows or plain[0] > windows[0]:
        return None
    channels = shape_of(c.image)[plain[0]]
    fills = channels % GROUP == 0 and min(channels, c.count(c.rows)) >= FEWEST
    return plain[0] if fills else None


def _rewrite(c: Convolution, channel: int) -> bool:
    """Whether the convolution could be written so. channel: its dimension of the image."""
    op, g = c.op, structured(c.op)
    out = g.maps[-1]
    rank, rows = len(out.results), len(c.batches)
    order = [d for d in range(rank) if d != rows] + [rows]
    start = permuted_fill(op, g.outputs[0], order)
    if start is None:
        return False
    axes = [a for a in range(len(c.image_map.results)) if a != channel] + [channel]
    image = _in_order(op, c.image, axes)
    inputs = [image if v is c.image else v for v in g.inputs]
    maps = [_reordered(m, axes) if v is c.image else m for v, m in zip(g.inputs, g.maps, strict=False)]
    new = before(
        GenericOp(
            inputs, [start], op.body.clone(), affine_maps([*maps, _reordered(out, order)]), iterator_types(g.iterators),
            [start.type],
        ), op,
    )  # fmt: skip
    _replace(op, transposed(new, order, op))
    return True


def _reordered(map_: AffineMap, order: list[int]) -> AffineMap:
    return AffineMap(map_.num_dims, 0, tuple(map_.results[d] for d in order))


def _in_order(op: Operation, value: SSAValue, order: list[int]) -> SSAValue:
    """A tensor with its dimensions in another order, transposed before it is padded."""
    owner = value.owner
    if isinstance(owner, tensor.PadOp) and pads_simply(owner):
        source = _in_order(op, owner.source, order)
        again = before(owner.clone(), op).owner
        return padded(cast(tensor.PadOp, again), source, order)
    if isinstance(owner, tensor.ExpandShapeOp) and (expanded := _expanded(op, owner, order)) is not None:
        return expanded
    if isinstance(owner, tensor.CollapseShapeOp) and (collapsed := _collapsed(op, owner, order)) is not None:
        return collapsed
    copy = copied(value)
    if copy is not None and is_identity(copy.maps[1]):
        places = [r.position if isinstance(r, AffineDimExpr) else -1 for r in copy.maps[0].results]
        if places == order:
            return copy.inputs[0]  # it was transposed from there
    inverse = [order.index(d) for d in range(len(order))]
    return transposed(value, inverse, op)


def _collapsed(op: Operation, collapse: tensor.CollapseShapeOp, order: list[int]) -> SSAValue | None:
    """A tensor that lacks dimensions of size 1 that another one has, with its dimensions in another order."""
    source, shape = shape_of(collapse.src), shape_of(collapse.result)
    own: list[int] = []  # for each dimension the one of the source that it is
    for group in collapse.reassociation.data:
        axes = [d.value.data for d in group.data]
        own.append(next((a for a in axes if source[a] != 1), axes[0]))
    if [source[a] for a in own] != list(shape):
        return None
    units = [a for a in range(len(source)) if a not in own]
    inner = _in_order(op, collapse.src, [*units, *(own[d] for d in order)])
    count = len(units)
    groups = [[*range(count + 1)], *([count + place] for place in range(1, len(order)))]
    type_ = TensorType(collapse.result.type.element_type, [shape[d] for d in order])
    properties = {"reassociation": reassociation(groups)}
    return before(tensor.CollapseShapeOp(operands=[inner], result_types=[type_], properties=properties), op)


def _expanded(op: Operation, expand: tensor.ExpandShapeOp, order: list[int]) -> SSAValue | None:
    """A tensor that differs from another one by dimensions of size 1, with its dimensions in another order."""
    shape, source = shape_of(expand.result), shape_of(expand.src)
    own: dict[int, int] = {}  # dimensions of the source, by those that they are
    for number, group in enumerate(expand.reassociation.data):
        axes = [d.value.data for d in group.data]
        own[next((a for a in axes if shape[a] != 1), axes[0])] = number
    if any(shape[a] != source[d] for a, d in own.items()) or any(n != 1 for a, n in enumerate(shape) if a not in own):
        return None
    inner = _in_order(op, expand.src, [own[a] for a in order if a in own])
    starts = [place for place, a in enumerate(order) if a in own]
    ends = [*starts[1:], len(order)]
    starts[0] = 0
    sizes = [shape[a] for a in order]
    groups = reassociation([list(range(first, end)) for first, end in zip(starts, ends, strict=True)])
    type_ = TensorType(expand.result.type.element_type, sizes)
    return before(tensor.ExpandShapeOp(inner, [], groups, sizes, type_), op)


def _replace(op: Operation, copy: SSAValue) -> None:
    """Puts a transposed tensor in the place of a result, and transposes what is computed of it elementwise instead."""
    op.results[0].replace_all_uses_with(copy)
    op.detach()
    op.erase()
    while (user := _elementwise_reader(copy)) is not None:
        source = structured(cast(Operation, copy.owner)).inputs[0]
        reader = _replaced(user, read_through_copies(user))
        g = None if reader is None else structured(cast(Operation, reader.owner))
        if g is None or source not in g.inputs:
            return
        order = [r.position for r in g.maps[g.inputs.index(source)].results if isinstance(r, AffineDimExpr)]
        made = _replaced(g.op, computed_in(g.op, order))
        if made is None:
            return
        copy = made


def _elementwise_reader(copy: SSAValue) -> Operation | None:
    """The only operation that reads a tensor, where it computes a tensor of the same dimensions elementwise."""
    uses = list(copy.uses)
    user = uses[0].operation if len(uses) == 1 else None
    if not isinstance(user, GenericOp) or user.parent is not cast(Operation, copy.owner).parent:
        return None
    g = structured(user)
    plain = len(user.results) == 1 and g.is_parallel and is_identity(g.maps[-1])
    return user if plain and is_identity(g.maps[uses[0].index]) and not copied(user.results[0]) else None


def _replaced(op: Operation, value: SSAValue | None) -> SSAValue | None:
    """Puts `value`, if there is one, in the place of what an operation gives."""
    if value is not None:
        op.results[0].replace_all_uses_with(value)
        op.detach()
        op.erase()
    return value
