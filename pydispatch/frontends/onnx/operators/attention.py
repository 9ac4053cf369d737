"""Attention and what goes with it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pydispatch.frontends.graph.dtypes import I64, DType
from pydispatch.frontends.graph.sizes import Expr, Size
from pydispatch.frontends.graph.values import Tensor
from pydispatch.frontends.onnx.call import Call
from pydispatch.frontends.onnx.tensors import dtype_of
from pydispatch.frontends.onnx.trace import Conversion
from pydispatch.frontends.ops import attention, elementwise, gathers, normalization, products, reductions, shapes
from pydispatch.frontends.ops.formulas import Element, formula


def attend(
    c: Call, query: Tensor, key: Tensor, value: Tensor, masks: Sequence[Tensor], scale: float | None,
    softcap: float = 0.0, precision: DType | None = None, stage: int = 0, filler: float = -math.inf,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Attention of [batch, heads, length, size]; heads of keys and values may be shared. Gives the products too.

    masks: added to the products, or false where a key is left out. softcap: products are brought between -softcap and
    softcap; 0 for not. precision: of the softmax. stage: products after 0 scaling, 1 masks, 2 the cap, 3 softmax.
    filler: the product of a key that is left out.
    """
    b = c.b
    key, value = attention.grouped_heads(b, query, key), attention.grouped_heads(b, query, value)
    inner = normalization.wide(query.dtype)
    scores = products.matmul(b, query, shapes.transpose(b, key, [0, 1, 3, 2]), inner)
    factor = attention.usual_scale(b, query) if scale is None else scale
    stages = [formula(b, lambda e: e * factor, scores)]

    def masked(e: Element, *given: Element) -> Element:
        for m in given:
            e = m.choose(e, filler) if m.dtype.is_bool else e + m.to(inner)
        return e

    stages.append(formula(b, masked, stages[0], *masks) if masks else stages[0])
    stages.append(formula(b, lambda e: (e / softcap).of("tanh") * softcap, stages[1]) if softcap else stages[1])
    scores = stages[2]
    if precision is not None and precision != inner and precision.bits > inner.bits:
        scores = elementwise.convert(b, scores, precision)
    weights = normalization.softmax(b, scores, -1)
    stages.append(weights)
    made = products.matmul(b, elementwise.convert(b, weights, inner), elementwise.convert(b, value, inner), inner)
    return elementwise.convert(b, made, query.dtype), elementwise.convert(b, stages[stage], query.dtype)


def _attention(
    c: Call, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, past_key: Tensor | None = None,
    past_value: Tensor | None = None, lengths: Tensor | None = None,
) -> Sequence[Tensor]:  # fmt: skip
    """lengths: how many keys of each sequence count."""
    flat = query.rank == 3
    if flat:
        heads, shared = c.integer("q_num_heads"), c.integer("kv_num_heads")
        query, key, value = (
            attention.split_heads(c.b, t, n) for t, n in ((query, heads), (key, shared), (value, shared))
        )
    c.ignore("q_num_heads", "kv_num_heads")
    if any(t.rank != 4 for t in (query, key, value)):
        raise c.fail(f"its operands are {query}, {key} and {value}; expected 3 or 4 axes")
    if past_key is not None:
        key = shapes.concat(c.b, [past_key, key], 2)
    if past_value is not None:
        value = shapes.concat(c.b, [past_value, value], 2)
    masks = [_widened(c, mask, key.shape[2])] if mask is not None else []
    if c.flag("is_causal"):
        masks.append(causal_mask(c, query.shape[2], key.shape[2], past_key.shape[2] if past_key is not None else 0))
    if lengths is not None:
        masks.append(length_mask(c, lengths, key.shape[2]))
    precision = dtype_of(c.integer("softmax_precision")) if c.has("softmax_precision") else None
    stage = c.integer("qk_matmul_output_mode", 0)
    if not 0 <= stage <= 3:
        raise c.fail(f"qk_matmul_output_mode is {stage}; expected 0 to 3")
    scale = c.real("scale") if c.has("scale") else None
    made, scores = attend(c, query, key, value, masks, scale, c.real("softcap", 0.0), precision, stage)
    return [attention.join_heads(c.b, made) if flat else made, key, value, scores]


def _widened(c: Call, mask: Tensor, keys: Size) -> Tensor:
    """A mask for as many keys; those that it says nothing of are left out."""
    width = mask.shape[-1]
    if width == 1 or isinstance(width, Expr) or isinstance(keys, Expr) or width >= keys:
        return mask
    high = [*[0] * (mask.rank - 1), keys - width]
    return shapes.pad(c.b, mask, [0] * mask.rank, high, False if mask.dtype.is_bool else -math.inf)


def causal_mask(c: Call, queries: Size, keys: Size, before: Size, window: int = -1) -> Tensor:
    """The keys that queries see whose own places begin at `before`: those up to their own one, [1, 1, queries, keys].

    window: how many of them, the last ones; all when it is negative.
    """
    places = shapes.iota(c.b, [1, 1, queries, keys], 3, I64)

    def seen(j: Element, n: Element) -> Element:
        own = j.position(2, I64) + n
        return (j <= own) if window < 0 else (j <= own) & (j > own - window)

    return formula(c.b, seen, places, reductions.size_as(c.b, before, I64))


def length_mask(c: Call, lengths: Tensor, keys: Size) -> Tensor:
    """The keys within the length of each sequence, [batch, 1, 1, keys]."""
    limit = shapes.reshape(c.b, lengths, [lengths.shape[0], 1, 1, 1])
    places = shapes.iota(c.b, [1, 1, 1, keys], 3, I64)
    return formula(c.b, lambda j, n: j < n.to(I64), places, limit)


def rotate(
    c: Call, x: Tensor, cosines: Tensor, sines: Tensor, places: Tensor | None, interleaved: bool, width: int
) -> Tensor:
    """Pairs of the first `width` elements of [batch, length, heads, size] turned by angles.

    cosines, sines: [batch, length, width / 2], or tables [places, width / 2] with places [batch, length] in them.
    """
    b = c.b
    size = x.shape[3]
    if isinstance(size, Expr) or width % 2 or not 0 < width <= size:
        raise c.fail(f"{width} of the elements of {x} cannot be turned in pairs")
    if places is not None:
        cosines, sines = (gathers.take(b, t, places, 0) for t in (cosines, sines))
    half = width // 2
    cosines, sines = (
        shapes.expand_dims(b, shapes.slice_axis(b, t, t.rank - 1, 0, half), [t.rank - 1]) for t in (cosines, sines)
    )
    turned = shapes.slice_axis(b, x, 3, 0, width)
    if interleaved:
        pairs = shapes.reshape(b, turned, [*x.shape[:3], half, 2])
        first, second = (
            shapes.reshape(b, shapes.slice_axis(b, pairs, 4, n, n + 1), [*x.shape[:3], half]) for n in (0, 1)
        )
    else:
        first, second = (shapes.slice_axis(b, turned, 3, n * half, (n + 1) * half) for n in (0, 1))
    given = (first, second, cosines, sines)
    real = formula(b, lambda u, v, k, s: u * k - v * s, *given)
    imaginary = formula(b, lambda u, v, k, s: u * s + v * k, *given)
    if interleaved:
        made = shapes.reshape(b, shapes.stack(b, [real, imaginary], 4), [*x.shape[:3], width])
    else:
        made = shapes.concat(b, [real, imaginary], 3)
    return made if width == size else shapes.concat(b, [made, shapes.slice_axis(b, x, 3, width, size)], 3)


def rotate_any(
    c: Call, x: Tensor, cosines: Tensor, sines: Tensor, places: Tensor | None, heads: int, interleaved: bool, width: int
) -> Tensor:
    """`rotate` of [batch, heads, length, size] or [batch, length, heads * size]. width: 0 for all elements."""
    if x.rank == 4:
        turned = shapes.transpose(c.b, x, [0, 2, 1, 3])
        made = rotate(c, turned, cosines, sines, places, interleaved, width or _known(c, x.shape[3]))
        return shapes.transpose(c.b, made, [0, 2, 1, 3])
    total = _known(c, x.shape[2])
    if x.rank != 3 or heads < 1 or total % heads:
        raise c.fail(f"{x} cannot be divided among {heads} heads")
    each = total // heads
    split = shapes.reshape(c.b, x, [x.shape[0], x.shape[1], heads, each])
    return shapes.reshape(c.b, rotate(c, split, cosines, sines, places, interleaved, width or each), x.shape)


def _known(c: Call, size: Size) -> int:
    if isinstance(size, Expr):
        raise c.fail("the sizes of heads must be known")
    return size


def _rotary_embedding(c: Call, x: Tensor, cosines: Tensor, sines: Tensor, places: Tensor | None = None) -> Tensor:
    interleaved, width = c.flag("interleaved"), c.integer("rotary_embedding_dim", 0)
    return rotate_any(c, x, cosines, sines, places, c.integer("num_heads", 0), interleaved, width)


TABLE: dict[str, Conversion] = {
    "Attention": _attention,
    "RotaryEmbedding": _rotary_embedding,
}
