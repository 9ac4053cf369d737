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
from xdsl.ir import Operation, OpResult, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineMap

from pydispatch.compiler.analysis.edit import before
from pydispatch.compiler.fusion.build import affine_maps, iterator_types
from pydispatch.compiler.fusion.im2col import Convolution, convolution_of
from pydispatch.compiler.fusion.maps import copied, pad_before_copy, read_through_copies
from pydispatch.compiler.fusion.orders import permuted_fill, transposed, write_as_computed
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
    pad = value.owner
    if isinstance(pad, tensor.PadOp):
        source = transposed(_in_order(op, pad.source, order), order, op)
        again = pad.clone({pad.source: source})
        moved = pad_before_copy(cast(Operation, before(again, op).owner))
        copy = None if moved is None else copied(moved)
        if copy is not None and shape_of(copy.inputs[0]) == tuple(shape_of(value)[d] for d in order):
            return copy.inputs[0]
    copy = copied(value)
    if copy is not None and is_identity(copy.maps[1]):
        places = [cast(AffineDimExpr, r).position if isinstance(r, AffineDimExpr) else -1 for r in copy.maps[0].results]
        if places == order:
            return copy.inputs[0]  # it was transposed from there
    inverse = [order.index(d) for d in range(len(order))]
    return transposed(value, inverse, op)


def _replace(op: Operation, copy: SSAValue) -> None:
    """Puts a transposed tensor in the place of a result, and transposes what is computed of it elementwise instead."""
    op.results[0].replace_all_uses_with(copy)
    op.detach()
    op.erase()
    while True:
        uses = list(copy.uses)
        user = uses[0].operation if len(uses) == 1 else None
        if not isinstance(user, GenericOp) or structured(user).reduces or user.parent is not copy.owner.parent:
            return
        for rule in (read_through_copies, write_as_computed):
            made = rule(user)
            if made is None:
                return
            user.results[0].replace_all_uses_with(made)
            user.detach()
            user.erase()
            assert isinstance(made, OpResult)
            user = made.op
        copy = user.results[0]
