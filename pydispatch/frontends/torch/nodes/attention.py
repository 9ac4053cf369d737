"""Conversions of attention and of the transformer layers that PyTorch has as one operator."""

from __future__ import annotations

from pydispatch.frontends.torch.nodes.activations import gelu, relu
from pydispatch.frontends.torch.nodes.products import linear
from pydispatch.frontends.torch.registry import converts
from pydispatch.graph.builder import Builder
from pydispatch.graph.values import Tensor
from pydispatch.operations import attention, normalization, shapes, slicing
from pydispatch.operations import elementwise as ew


@converts("aten.scaled_dot_product_attention")
def sdpa(
    builder: Builder, query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None,
    dropout_p: float = 0.0, is_causal: bool = False, *, scale: float | None = None, enable_gqa: bool = False,
) -> Tensor:  # fmt: skip
    """Return attention, softmax(query key^T * scale + mask) value.

    enable_gqa is not read: key and value may always have fewer heads than the query, whose heads then share them.
    """
    return _attention(builder, query, key, value, attn_mask, dropout_p, is_causal, scale)[0]


def _attention(
    builder: Builder,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
) -> tuple[Tensor, Tensor]:
    """Return attention and the scaled and masked scores, the operand of the softmax.

    scale: factor of the scores; None for 1 / sqrt(features of a key).
    """
    masks = _masks(builder, query, key, attn_mask, dropout_p, is_causal)
    return attention.attend(builder, query, key, value, masks, scale=scale, stage=attention.SCORES_BEFORE_SOFTMAX)


def _masks(
    builder: Builder, query: Tensor, key: Tensor, attn_mask: Tensor | None, dropout_p: float, is_causal: bool
) -> list[Tensor]:
    """Return the masks of the scores: the one that is passed, and for `is_causal` one that hides later keys from a
    query.

    A bool mask is true for keys that a query sees, a float mask is added to the scores. Raise CompileError for dropout.
    """
    if dropout_p > 0:
        raise builder.fail("dropout within attention is unsupported", "export the model after `model.eval()`")
    masks = [] if attn_mask is None else [attn_mask]
    if is_causal:
        masks.append(attention.causal_mask(builder, query.shape[-2], key.shape[-2]))
    return masks


@converts("aten._scaled_dot_product_flash_attention_for_cpu")
def flash_for_cpu(
    builder: Builder, query: Tensor, key: Tensor, value: Tensor, dropout_p: float = 0.0, is_causal: bool = False, *,
    attn_mask: Tensor | None = None, scale: float | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Return attention and the log-sum-exp of the scores, which its gradients need."""
    result, scores = _attention(builder, query, key, value, attn_mask, dropout_p, is_causal, scale)
    inner = normalization.wide(query.dtype)
    return result, normalization.log_sum_exp(builder, ew.convert(builder, scores, inner), [-1])


@converts("aten._scaled_dot_product_flash_attention_for_cpu_backward")
def flash_for_cpu_backward(
    builder: Builder, grad_out: Tensor, query: Tensor, key: Tensor, value: Tensor, out: Tensor, logsumexp: Tensor,
    dropout_p: float, is_causal: bool, *, attn_mask: Tensor | None = None, scale: float | None = None,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Return the gradients of the query, the key and the value. logsumexp: the second result of `flash_for_cpu`."""
    masks = _masks(builder, query, key, attn_mask, dropout_p, is_causal)
    return tuple(
        attention.attention_gradients(builder, grad_out, query, key, value, out, logsumexp, masks, scale=scale)
    )


_SOURCE_MASK, _PADDING_MASK = 0, 1
"""PyTorch's `mask_type`: the shape of a mask of rank 2 is [queries, keys] or [batch, keys]."""


def _attention_mask(builder: Builder, mask: Tensor | None, mask_type: int | None) -> Tensor | None:
    """Return a mask whose true elements are the keys that a query sees, broadcastable to [batch, heads, queries, keys].

    Bool masks of these operators have the opposite meaning, so they are negated. A matrix gets new axes as `mask_type`
    states; None if its last axes are queries and keys. Float masks are added to the scores and returned unchanged.
    """
    if mask is None or not mask.dtype.is_bool:
        return mask
    new_axes: list[int] = []
    if mask_type is not None:
        new_axes = {_SOURCE_MASK: [0, 1], _PADDING_MASK: [1, 2]}.get(mask_type, [])
    visible = ew.unary(builder, "not", mask)
    return shapes.expand_dims(builder, visible, new_axes) if mask.rank == 2 else visible


def _multi_head_attention(
    builder: Builder, inputs: tuple[Tensor, Tensor, Tensor], embed_dim: int, num_head: int, qkv_weight: Tensor,
    qkv_bias: Tensor, proj_weight: Tensor, proj_bias: Tensor, mask: Tensor | None,
) -> Tensor:  # fmt: skip
    """Return multi-head attention of queries, keys and values [batch, length, features], with its projections.

    inputs: query, key and value. embed_dim: their number of features. qkv_weight, qkv_bias: the projections of the
    three, one after the other along axis 0. proj_weight, proj_bias: that of the result. mask: see `_attention_mask`.
    """
    sizes = [embed_dim] * 3
    weights, biases = (slicing.split(builder, x, axis=0, sizes=sizes) for x in (qkv_weight, qkv_bias))
    q, k, v = (
        attention.split_heads(builder, linear(builder, x, w, bias), num_head)
        for x, w, bias in zip(inputs, weights, biases, strict=True)
    )
    heads, _ = attention.attend(builder, q, k, v, [] if mask is None else [mask])
    return linear(builder, attention.join_heads(builder, heads), proj_weight, proj_bias)


@converts("aten._native_multi_head_attention")
def native_multi_head_attention(
    builder: Builder, query: Tensor, key: Tensor, value: Tensor, embed_dim: int, num_head: int, qkv_weight: Tensor,
    qkv_bias: Tensor, proj_weight: Tensor, proj_bias: Tensor, mask: Tensor | None = None, need_weights: bool = True,
    average_attn_weights: bool = True, mask_type: int | None = None,
) -> tuple[Tensor, None]:  # fmt: skip
    """Convert multi-head attention. The second result, the attention weights, is not computed."""
    inputs = (query, key, value)
    mask_ = _attention_mask(builder, mask, mask_type)
    result = _multi_head_attention(
        builder, inputs, embed_dim, num_head, qkv_weight, qkv_bias, proj_weight, proj_bias, mask_
    )
    return result, None


@converts("aten._transformer_encoder_layer_fwd")
def transformer_encoder_layer(
    builder: Builder,
    src: Tensor,
    embed_dim: int,
    num_heads: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    proj_weight: Tensor,
    proj_bias: Tensor,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm_weight_1: Tensor,
    norm_bias_1: Tensor,
    norm_weight_2: Tensor,
    norm_bias_2: Tensor,
    ffn_weight_1: Tensor,
    ffn_bias_1: Tensor,
    ffn_weight_2: Tensor,
    ffn_bias_2: Tensor,
    mask: Tensor | None = None,
    mask_type: int | None = None,
) -> Tensor:
    """Return an encoder layer: attention, then a network of two linear layers, each of them added to its input.

    norm_first: whether the input of attention, and that of the network, is normalized (layer normalization), rather
    than the sums after them. Parameters with 1 and 2 are those of the first and of the second normalization or layer.
    """
    attention_mask = _attention_mask(builder, mask, mask_type)

    def norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """Return the layer normalization along the last axis."""
        return normalization.layer_norm(builder, x, [x.rank - 1], weight, bias, eps)[0]

    def attend(x: Tensor) -> Tensor:
        """Return multi-head attention of a sequence to itself."""
        return _multi_head_attention(
            builder, (x, x, x), embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, attention_mask
        )

    def feed(x: Tensor) -> Tensor:
        """Return the two linear layers of the network, with an activation between them."""
        inner = linear(builder, x, ffn_weight_1, ffn_bias_1)
        return linear(builder, gelu(builder, inner) if use_gelu else relu(builder, inner), ffn_weight_2, ffn_bias_2)

    if norm_first:
        x = ew.binary(builder, "add", src, attend(norm(src, norm_weight_1, norm_bias_1)))
        return ew.binary(builder, "add", x, feed(norm(x, norm_weight_2, norm_bias_2)))
    x = norm(ew.binary(builder, "add", src, attend(src)), norm_weight_1, norm_bias_1)
    return norm(ew.binary(builder, "add", x, feed(x)), norm_weight_2, norm_bias_2)
