"""Attention: products of queries and keys, their softmax, and products with values."""

from __future__ import annotations

import math

from pydispatch.frontends.graph.builder import Builder
from pydispatch.frontends.graph.dtypes import BOOL, I64
from pydispatch.frontends.graph.sizes import Expr
from pydispatch.frontends.graph.values import Tensor
from pydispatch.frontends.ops import elementwise as ew
from pydispatch.frontends.ops import normalization, products, shapes
from pydispatch.frontends.ops.formulas import Element, formula


def scaled_dot_product_attention(
    b: Builder, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, causal: bool = False,
    scale: float | None = None,
) -> Tensor:  # fmt: skip
    """query [..., l, d], key [..., s, d], value [..., s, v] -> [..., l, v].

    Leading axes broadcast; the one before the last two may be a divisor of the query's (grouped heads). mask: added to
    the products where it is a float, false where a key is left out. causal: each query sees the keys up to its own
    place. scale: of the products; 1 / sqrt(d) without it.
    """
    key, value = grouped_heads(b, query, key), grouped_heads(b, query, value)
    factor = usual_scale(b, query) if scale is None else scale
    inner = normalization.wide(query.dtype)
    order = [*range(key.rank - 2), key.rank - 1, key.rank - 2]
    scores = products.matmul(b, query, shapes.transpose(b, key, order), inner)
    given = [scores]
    if mask is not None:
        given.append(mask)
    if causal:
        given.append(seen(b, query, key))

    def masked(e: Element, *masks: Element) -> Element:
        made = e * factor
        for m in masks:
            made = m.choose(made, -math.inf) if m.dtype.is_bool else made + m.to(inner)
        return made

    weights = normalization.softmax(b, formula(b, masked, *given), -1)
    return ew.convert(b, products.matmul(b, ew.convert(b, weights, value.dtype), value, inner), query.dtype)


def usual_scale(b: Builder, query: Tensor) -> float:
    """1 / sqrt(d) for queries [..., d], whose last size must be known."""
    width = query.shape[-1]
    if isinstance(width, Expr):
        raise b.fail(f"the size of the last axis of {query} must be known")
    return 1.0 / math.sqrt(max(width, 1))


def split_heads(b: Builder, x: Tensor, heads: int) -> Tensor:
    """[batch, length, heads * size] → [batch, heads, length, size]."""
    width = x.shape[2]
    if isinstance(width, Expr) or heads < 1 or width % heads:
        raise b.fail(f"{x} cannot be divided among {heads} heads")
    return shapes.transpose(b, shapes.reshape(b, x, [x.shape[0], x.shape[1], heads, width // heads]), [0, 2, 1, 3])


def join_heads(b: Builder, x: Tensor) -> Tensor:
    """[batch, heads, length, size] → [batch, length, heads * size]."""
    batch, heads, length, size = x.shape
    return shapes.reshape(b, shapes.transpose(b, x, [0, 2, 1, 3]), [batch, length, heads * size])


def seen(b: Builder, query: Tensor, key: Tensor) -> Tensor:
    """Which keys each query sees, [l, s]: those up to its own place."""
    shape = (query.shape[-2], key.shape[-2])
    rows, columns = (shapes.iota(b, shape, axis, I64) for axis in (0, 1))
    made = ew.compare(b, "le", columns, rows)
    assert made.dtype == BOOL
    return made


def grouped_heads(b: Builder, query: Tensor, x: Tensor) -> Tensor:
    """Keys or values with a head for each of the query's, where they have one for several."""
    if query.rank < 4 or x.rank < 4 or x.shape[-3] in (1, query.shape[-3]):
        return x
    heads, fewer = query.shape[-3], x.shape[-3]
    if isinstance(heads, Expr) or isinstance(fewer, Expr) or fewer == 0 or heads % fewer:
        raise b.fail(f"{fewer} heads of keys and values do not divide {heads} heads of queries")
    repeated = shapes.expand_dims(b, x, [x.rank - 2])
    wide = [*x.shape[:-2], heads // fewer, *x.shape[-2:]]
    return shapes.reshape(b, shapes.broadcast_to(b, repeated, wide), [*x.shape[:-3], heads, *x.shape[-2:]])
