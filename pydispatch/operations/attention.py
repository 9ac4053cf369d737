"""Scaled dot-product attention, its gradients, and its masks."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import I64, DType
from pydispatch.graph.size_functions import divisor
from pydispatch.graph.sizes import Expr, Size
from pydispatch.graph.values import Tensor
from pydispatch.operations import elementwise as ew
from pydispatch.operations import normalization, products, reductions, shapes
from pydispatch.operations.formulas import Element, formula

SCORES_BEFORE_SOFTMAX = 2
"""Argument `stage` of `attend`: it returns the scores after scaling, softcap and masks."""


def attend(
    builder: Builder,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    masks: Sequence[Tensor] = (),
    *,
    scale: float | None = None,
    softcap: float = 0.0,
    precision: DType | None = None,
    stage: int = 0,
    filler: float = -math.inf,
) -> tuple[Tensor, Tensor]:
    """Return attention softmax(softcap(scale * Q K^T) + masks) V, and intermediate scores.

    Args:
        builder: The builder.
        query: [..., l, d] for l queries. The axis before l, if there are four axes or more, is that of the heads.
        key: [..., s, d] for s keys. Leading axes broadcast; the number of heads may be a divisor of that of the query
            (grouped heads).
        value: [..., s, v] for s keys, as `key`.
        masks: Masks that broadcast to [..., l, s]. Bool masks are false for keys that are left out; float masks are
            added to the scores.
        scale: Factor of the scores; None for 1 / sqrt(d).
        softcap: Scores are limited to (-softcap, softcap) by tanh; 0 for no limit. The masks are applied after it,
            because a limited -inf would not leave out its key.
        precision: Type in which the softmax is computed. None, or a type narrower than the default, selects the
            default: f32, or the type of the query if that is wider.
        stage: Scores to return: after scaling (0), softcap (1), masks (2, SCORES_BEFORE_SOFTMAX) or softmax (3).
        filler: Score of a key that a bool mask leaves out.

    Returns:
        The attention [..., l, v] and the scores [..., l, s], both in the type of the query. A query whose scores are
        all -inf gives 0.
    """
    # The scores: scaled products, softcap and masks. Heads of keys and values are repeated to those of the query.
    key, value = grouped_heads(builder, query, key), grouped_heads(builder, query, value)
    inner = normalization.wide(query.dtype)
    scores = products.matmul(builder, query, _transpose_matrices(builder, key), inner)
    scaled = formula(builder, lambda e, factor: e * factor, scores, _factor(builder, query, scale, inner))
    capped = formula(builder, lambda e: (e / softcap).unary("tanh") * softcap, scaled) if softcap else scaled
    with_masks = capped
    if masks:
        with_masks = formula(builder, lambda e, *elements: _masked(e, elements, filler), capped, *masks)
    # The softmax over the keys, in the type `exact`, and its product with the values.
    exact = precision if precision is not None and precision.bits > inner.bits else inner
    weights = normalization.softmax(builder, ew.convert(builder, with_masks, exact), axis=-1, masked_rows_are_zero=True)
    result = products.matmul(builder, ew.convert(builder, weights, value.dtype), value, inner)
    scores_of_stage = (scaled, capped, with_masks, weights)[stage]
    return ew.convert(builder, result, query.dtype), ew.convert(builder, scores_of_stage, query.dtype)


def attention_gradients(
    builder: Builder, grad: Tensor, query: Tensor, key: Tensor, value: Tensor, out: Tensor, log_sums: Tensor,
    masks: Sequence[Tensor] = (), *, scale: float | None = None,
) -> list[Tensor]:  # fmt: skip
    """Return the gradients of query, key and value of `attend` for the gradient `grad` of its result `out`.

    query, key, value, masks and scale are the arguments of `attend`. log_sums [..., l] is, for each query, the
    logarithm of the sum of the exponentials of its scores; -inf for a query without keys.
    """
    # The weights, which are the softmax of the scores, from the scores and `log_sums`.
    inner = normalization.wide(query.dtype)
    keys, values = grouped_heads(builder, query, key), grouped_heads(builder, query, value)
    factor_of_scores = _factor(builder, query, scale, inner)
    scores = products.matmul(builder, query, _transpose_matrices(builder, keys), inner)

    def weight(e: Element, factor: Element, total: Element, *mask_elements: Element) -> Element:
        """Return exp(score - total), where `total` is the logarithm of the row's sum; 0 in a row without keys."""
        e = _masked(e * factor, mask_elements, filler=-math.inf)
        return total.is_equal(-math.inf).where(0.0, (e - total.to(inner)).unary("exp"))

    sums = shapes.expand_dims(builder, log_sums, [log_sums.rank])
    weights = formula(builder, weight, scores, factor_of_scores, sums, *masks)

    # Backwards through out = weights @ values, the softmax, and scores = query @ transpose(keys) * factor.
    of_value = products.matmul(builder, _transpose_matrices(builder, weights), grad, inner)
    of_weights = products.matmul(builder, grad, _transpose_matrices(builder, values), inner)
    # Derivative of the softmax: w * (g - sum of w * g over the keys), and that sum is the dot product of grad and out.
    common = reductions.reduce(
        builder, "add", formula(builder, lambda g, o: g.to(inner) * o.to(inner), grad, out), [-1], keep=True
    )
    of_scores = formula(
        builder, lambda w, g, c, factor: w * (g - c) * factor, weights, of_weights, common, factor_of_scores
    )
    of_query = products.matmul(builder, of_scores, keys, inner)
    of_key = products.matmul(builder, _transpose_matrices(builder, of_scores), query, inner)
    gradients = zip((of_query, of_key, of_value), (query, key, value), strict=True)
    return [ew.convert(builder, _sum_of_groups(builder, gradient, x), x.dtype) for gradient, x in gradients]


def _masked(score: Element, masks: Sequence[Element], filler: float) -> Element:
    """Return a score after masks: the filler where a bool mask is false, the sum with a float mask."""
    for mask in masks:
        score = mask.where(score, filler) if mask.dtype.is_bool else score + mask.to(score.dtype)
    return score


def _transpose_matrices(builder: Builder, x: Tensor) -> Tensor:
    """Swap the last two axes of x [..., m, n]."""
    return shapes.transpose(builder, x, [*range(x.rank - 2), x.rank - 1, x.rank - 2])


def _sum_of_groups(builder: Builder, gradient: Tensor, x: Tensor) -> Tensor:
    """Return the sums of gradients over the query heads that share a head of x, the adjoint of `grouped_heads`.

    gradient: [..., heads of the query, m, n]. The result has the shape of x, [..., heads of x, m, n].
    """
    if gradient.shape == x.shape:
        return gradient
    fewer, (heads, *matrix) = x.shape[-3], gradient.shape[-3:]
    split = shapes.reshape(builder, gradient, [*gradient.shape[:-3], fewer, heads // fewer, *matrix])
    return reductions.reduce(builder, "add", split, [split.rank - 3])


def causal_mask(builder: Builder, queries: Size, keys: Size, before: Size | Tensor = 0, window: int = -1) -> Tensor:
    """Return a bool mask [queries, keys] that is true for the keys up to each query's own position.

    Query i is at position `before + i` among the keys. If `before` is a tensor [batch, 1, 1, 1], the result is a mask
    for each sequence, [batch, 1, queries, keys]. If `window` is not negative, it is true for the last `window` of these
    keys only.
    """
    position_of_query_0 = before if isinstance(before, Tensor) else reductions.size_as(builder, before, I64)
    # The index of each key, with the axes of the result: [queries, keys], or [1, 1, queries, keys].
    rank = max(position_of_query_0.rank, 2)
    key_indices = shapes.iota(builder, [*[1] * (rank - 2), queries, keys], rank - 1, I64)

    def is_visible(key: Element, query_0: Element) -> Element:
        """Return whether a query sees the key of index `key`: it does up to its own position, or only the last `window`
        keys of these if `window` is not negative.

        query_0: position of the first query among the keys. The axis of the queries is rank - 2.
        """
        own = key.position(rank - 2, I64) + query_0
        return (key <= own) if window < 0 else (key <= own) & (key > own - window)

    return formula(builder, is_visible, key_indices, position_of_query_0)


def length_mask(builder: Builder, lengths: Tensor, keys: Size) -> Tensor:
    """Return a bool mask [batch, 1, 1, keys] that is true for the first lengths[b] keys of sequence b."""
    limit = shapes.reshape(builder, lengths, [lengths.shape[0], 1, 1, 1])
    positions = shapes.iota(builder, [1, 1, 1, keys], axis=3, dtype=I64)
    return formula(builder, lambda j, n: j < n.to(I64), positions, limit)


def _factor(builder: Builder, query: Tensor, scale: float | None, dtype: DType) -> Tensor:
    """Return the factor of the scores of queries [..., d] as a tensor of rank 0: `scale`, or 1 / sqrt(d) for None.

    Without elements, d = 0, all scores are 0 with any factor.
    """
    if scale is None:
        width = query.shape[-1]
        if isinstance(width, Expr):
            return ew.unary(builder, "rsqrt", reductions.size_as(builder, divisor(width), dtype))
        scale = 1.0 / math.sqrt(max(width, 1))
    return builder.constant(scale, dtype)


def split_heads(builder: Builder, x: Tensor, heads: int) -> Tensor:
    """Reshape [batch, length, heads * size] to [batch, heads, length, size]."""
    width = x.shape[2]
    if isinstance(width, Expr) or heads < 1 or width % heads:
        raise builder.fail(f"{x} cannot be divided among {heads} heads")
    return shapes.transpose(
        builder, shapes.reshape(builder, x, [x.shape[0], x.shape[1], heads, width // heads]), [0, 2, 1, 3]
    )


def join_heads(builder: Builder, x: Tensor) -> Tensor:
    """Reshape [batch, heads, length, size] to [batch, length, heads * size]."""
    batch, heads, length, size = x.shape
    return shapes.reshape(builder, shapes.transpose(builder, x, [0, 2, 1, 3]), [batch, length, heads * size])


def grouped_heads(builder: Builder, query: Tensor, x: Tensor) -> Tensor:
    """Return keys or values x [..., heads, s, d] with one head per query head, repeating heads that queries share.

    x is unchanged if it has no axis of heads, a single head, which broadcasts, or as many heads as the query. Dynamic
    numbers of heads are checked in each call.
    """
    if query.rank < 4 or x.rank < 4 or x.shape[-3] in (1, query.shape[-3]):
        return x
    heads, fewer = query.shape[-3], x.shape[-3]
    message = f"{fewer} heads of keys and values do not divide {heads} heads of queries"
    rest = 1 if fewer == 0 else heads % fewer
    if not isinstance(rest, Expr) and rest != 0:
        raise builder.fail(message)
    builder.require_equal(rest, 0, f"{message}: {{a}} are left")
    # [..., fewer, s, d] becomes [..., fewer, 1, s, d], [..., fewer, heads // fewer, s, d], then [..., heads, s, d].
    repeated = shapes.expand_dims(builder, x, [x.rank - 2])
    wide = [*x.shape[:-2], heads // fewer, *x.shape[-2:]]
    return shapes.reshape(builder, shapes.broadcast_to(builder, repeated, wide), [*x.shape[:-3], heads, *x.shape[-2:]])
