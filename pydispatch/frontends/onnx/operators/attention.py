"""Conversions of attention and of rotary position embeddings."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pydispatch.frontends.onnx.call import NodeCall
from pydispatch.frontends.onnx.registry import ONNX
from pydispatch.frontends.onnx.tensors import dtype_of
from pydispatch.graph.dtypes import I64
from pydispatch.graph.sizes import Expr, Size
from pydispatch.graph.values import Tensor
from pydispatch.operations import attention, gathers, reductions, shapes, slicing
from pydispatch.operations.formulas import formula


@ONNX.converts("Attention")
def _attention(
    call: NodeCall,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    past_key: Tensor | None = None,
    past_value: Tensor | None = None,
    lengths: Tensor | None = None,
) -> Sequence[Tensor]:
    """Return attention, the keys and values with those of the past prepended, and the scores.

    Attention has the form of `query`. Keys and values are [batch, heads, length, size], the scores [batch, heads,
    queries, keys].

    Args:
        call: The node.
        query: 4 axes [batch, heads, length, size], or 3 axes [batch, length, heads * size], like key and value.
        key: Keys of this call; the number of heads may be a divisor of that of the query.
        value: Values of this call.
        mask: Bools, false for keys that are left out, or floats that are added to the scores.
        past_key: Keys of earlier calls, [batch, heads, length, size].
        past_value: Values of earlier calls.
        lengths: Number of valid keys of each sequence, [batch]; later keys are left out.
    """
    # The operands as [batch, heads, length, size], with the keys and values of the past.
    has_merged_heads = query.rank == 3
    if has_merged_heads:
        heads, kv_heads = call.integer("q_num_heads"), call.integer("kv_num_heads")
        query, key, value = (
            attention.split_heads(call.b, t, n) for t, n in ((query, heads), (key, kv_heads), (value, kv_heads))
        )
    call.ignore("q_num_heads", "kv_num_heads")  # with 4 axes, the shapes state them
    if any(t.rank != 4 for t in (query, key, value)):
        raise call.fail(f"its operands are {query}, {key} and {value}; expected 3 or 4 axes")
    if past_key is not None:
        key = slicing.concat(call.b, [past_key, key], axis=2)
    if past_value is not None:
        value = slicing.concat(call.b, [past_value, value], axis=2)

    # The masks, all of which apply. `_pad_mask` adds keys that are left out to a mask for fewer keys.
    masks = [_pad_mask(call, mask, key.shape[2])] if mask is not None else []
    if call.flag("is_causal"):
        first_position = _first_position(call, query, past_key, lengths)
        masks.append(attention.causal_mask(call.b, query.shape[2], key.shape[2], first_position))
    if lengths is not None:
        masks.append(attention.length_mask(call.b, lengths, key.shape[2]))
    precision = dtype_of(call.integer("softmax_precision")) if call.has("softmax_precision") else None
    # The scores to return: after scaling (0), softcap (1), masks (2) or softmax (3), the numbers of `attend`.
    stage = call.integer("qk_matmul_output_mode", 0)
    if not 0 <= stage <= 3:
        raise call.fail(f"qk_matmul_output_mode is {stage}; expected 0 to 3")
    scale = call.real("scale") if call.has("scale") else None
    softcap = call.real("softcap", 0.0)
    result, scores = attention.attend(
        call.b, query, key, value, masks, scale=scale, softcap=softcap, precision=precision, stage=stage
    )
    return [attention.join_heads(call.b, result) if has_merged_heads else result, key, value, scores]


def _first_position(call: NodeCall, query: Tensor, past_key: Tensor | None, lengths: Tensor | None) -> Size | Tensor:
    """Return the position of the first query among the keys: for all sequences, or one for each as [batch, 1, 1, 1].

    With `lengths`, the queries are the last elements of each sequence: the first one is at length - query count.
    """
    if past_key is not None:
        return past_key.shape[2]
    if lengths is None:
        return 0
    count = reductions.size_as(call.b, query.shape[2], I64)
    length = shapes.reshape(call.b, lengths, [lengths.shape[0], 1, 1, 1])
    return formula(call.b, lambda n, m: n.to(I64) - m, length, count)


def _pad_mask(call: NodeCall, mask: Tensor, keys: Size) -> Tensor:
    """Pad the last axis of an attention mask to `keys` elements, the number of keys; the added keys are masked out."""
    width = mask.shape[-1]
    # A width of 1 broadcasts. Dynamic sizes are taken to be equal, since how much to pad is not known.
    if width == 1 or isinstance(width, Expr) or isinstance(keys, Expr) or width >= keys:
        return mask
    high = [*[0] * (mask.rank - 1), keys - width]
    return slicing.pad(call.b, mask, [0] * mask.rank, high, False if mask.dtype.is_bool else -math.inf)


def rotate(
    call: NodeCall,
    x: Tensor,
    cosines: Tensor,
    sines: Tensor,
    position_ids: Tensor | None,
    interleaved: bool,
    width: int,
) -> Tensor:
    """Apply a rotary position embedding to the first `width` elements of x [batch, length, heads, size].

    Pairs of elements are rotated by angles: elements 2i and 2i + 1 if `interleaved`, else i and i + width / 2.

    Args:
        call: The node.
        x: The operand.
        cosines: Cosines of the angles, [batch, length, width / 2 or more], or a table [positions, width / 2 or more]
            that position_ids index. Further columns are ignored.
        sines: Sines of the angles, in the same form.
        position_ids: Row of the tables for each element of [batch, length]; None if the tables are not indexed.
        interleaved: Whether neighbours are pairs (2i and 2i + 1), rather than i and i + width / 2.
        width: Number of elements that are rotated; even. The others are returned unchanged.
    """
    b = call.b
    size = x.shape[3]
    if isinstance(size, Expr) or width % 2 or not 0 < width <= size:
        raise call.fail(f"{width} of the elements of {x} cannot be turned in pairs")
    # The cosines and sines of each position, with an axis of size 1 for the heads: [batch, length, 1, width / 2].
    if position_ids is not None:
        cosines, sines = (gathers.take(b, t, position_ids, axis=0) for t in (cosines, sines))
    cosines, sines = (
        shapes.expand_dims(b, slicing.slice_axis(b, t, t.rank - 1, start=0, limit=width // 2), [t.rank - 1])
        for t in (cosines, sines)
    )
    first, second = _split_pairs(call, slicing.slice_axis(b, x, axis=3, start=0, limit=width), width // 2, interleaved)
    # A pair (u, v) is a complex number u + iv, which is multiplied by cos + i sin of its angle.
    operands = (first, second, cosines, sines)
    real = formula(b, lambda u, v, k, s: u * k - v * s, *operands)
    imaginary = formula(b, lambda u, v, k, s: u * s + v * k, *operands)
    if interleaved:
        rotated = shapes.reshape(b, slicing.stack(b, [real, imaginary], axis=4), [*x.shape[:3], width])
    else:
        rotated = slicing.concat(b, [real, imaginary], axis=3)
    if width == size:
        return rotated
    return slicing.concat(b, [rotated, slicing.slice_axis(b, x, axis=3, start=width, limit=size)], axis=3)


def _split_pairs(call: NodeCall, x: Tensor, count: int, interleaved: bool) -> tuple[Tensor, Tensor]:
    """Return the first and the second elements of `count` pairs along the last axis of x [batch, length, heads,
    2 * count].

    Pairs are neighbours if `interleaved`, else an element of the first half with one of the second half.
    """
    b = call.b
    if not interleaved:
        return (
            slicing.slice_axis(b, x, axis=3, start=0, limit=count),
            slicing.slice_axis(b, x, axis=3, start=count, limit=2 * count),
        )
    pairs = shapes.reshape(b, x, [*x.shape[:3], count, 2])
    first, second = (
        shapes.reshape(b, slicing.slice_axis(b, pairs, axis=4, start=n, limit=n + 1), [*x.shape[:3], count])
        for n in (0, 1)
    )
    return first, second


def rotate_any(
    call: NodeCall,
    x: Tensor,
    cosines: Tensor,
    sines: Tensor,
    position_ids: Tensor | None,
    heads: int,
    interleaved: bool,
    width: int,
) -> Tensor:
    """Apply a rotary position embedding to x [batch, heads, length, size] or [batch, length, heads * size].

    Return a tensor of the shape of x. `rotate` takes x as [batch, length, heads, size].

    Args:
        call: The node.
        x: The operand.
        cosines: Cosines of the angles, [batch, length, width / 2 or more], or a table [positions, width / 2 or more].
        sines: Sines of the angles, in the same form.
        position_ids: Row of the tables for each element of [batch, length]; None if the tables are not indexed.
        heads: Number of heads, which is used only if x has 3 axes.
        interleaved: Whether neighbours (elements 2i and 2i + 1) are rotated as a pair, rather than i and i + width / 2.
        width: Number of elements of each head that are rotated; 0 for all.
    """
    if x.rank == 4:  # [batch, heads, length, size]
        transposed = shapes.transpose(call.b, x, [0, 2, 1, 3])
        rotated = rotate(
            call, transposed, cosines, sines, position_ids, interleaved, width or static_size(call, x.shape[3])
        )
        return shapes.transpose(call.b, rotated, [0, 2, 1, 3])
    # [batch, length, heads * size]
    total = static_size(call, x.shape[2])
    if x.rank != 3 or heads < 1 or total % heads:
        raise call.fail(f"{x} cannot be divided among {heads} heads")
    head_size = total // heads
    split = shapes.reshape(call.b, x, [x.shape[0], x.shape[1], heads, head_size])
    return shapes.reshape(
        call.b, rotate(call, split, cosines, sines, position_ids, interleaved, width or head_size), x.shape
    )


def static_size(call: NodeCall, size: Size) -> int:
    """Return a size that slices and reshapes of heads or rotary tables need. Raise CompileError if it is dynamic."""
    if isinstance(size, Expr):
        raise call.fail("the sizes of heads and of their tables must be known")
    return size


@ONNX.converts("RotaryEmbedding")
def _rotary_embedding(
    call: NodeCall, x: Tensor, cosines: Tensor, sines: Tensor, positions: Tensor | None = None
) -> Tensor:
    """Rotate pairs of elements of x by the angles whose cosines and sines two tables have (see `rotate`)."""
    interleaved, width = call.flag("interleaved"), call.integer("rotary_embedding_dim", 0)
    return rotate_any(call, x, cosines, sines, positions, call.integer("num_heads", 0), interleaved, width)
