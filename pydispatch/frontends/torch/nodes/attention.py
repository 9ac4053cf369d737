"""Conversions of attention and of the transformer layers that PyTorch has as one operator."""

from __future__ import annotations

from dataclasses import dataclass

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

    enable_gqa (grouped-query attention) has no effect: key and value may always have fewer heads than the query.
    Several heads of the query then share a head of the key and the value.
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
    """Return attention, and its scaled and masked scores before the softmax.

    Some operators also return the log-sum-exp of these scores, which is why they are a result.

    scale: factor of the scores; None for 1 / sqrt(features of a key).
    """
    masks = _masks(builder, query, key, attn_mask, dropout_p, is_causal)
    return attention.attend(builder, query, key, value, masks, scale=scale, stage=attention.SCORES_BEFORE_SOFTMAX)


def _masks(
    builder: Builder, query: Tensor, key: Tensor, attn_mask: Tensor | None, dropout_p: float, is_causal: bool
) -> list[Tensor]:
    """Return the masks of the scores: `attn_mask` unless it is None, and with `is_causal` one that hides the keys after
    the position of a query from this query.

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
    """Return attention, and the logarithm of the sum of the exponentials of the scores, which its gradients need."""
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

    In a bool mask of PyTorch's multi-head attention and encoder layer, true elements are the keys that a query does not
    see, so it is negated. A bool mask of rank 2 gets the two axes that it lacks: `mask_type` states which axes it has;
    if `mask_type` is None it is [queries, keys]. Float masks, which are added to the scores, are returned unchanged.
    """
    if mask is None or not mask.dtype.is_bool:
        return mask
    new_axes: list[int] = []
    if mask_type is not None:
        # [queries, keys] -> [1, 1, queries, keys]; [batch, keys] -> [batch, 1, 1, keys].
        new_axes = {_SOURCE_MASK: [0, 1], _PADDING_MASK: [1, 2]}.get(mask_type, [])
    visible = ew.unary(builder, "not", mask)
    return shapes.expand_dims(builder, visible, new_axes) if mask.rank == 2 else visible


@dataclass(frozen=True)
class _MultiHeadAttention:
    """Multi-head attention of queries, keys and values [batch, length, features], with its projections.

    Attributes:
        features: Number of features of queries, keys and values.
        heads: Number of heads.
        qkv_weight, qkv_bias: Projections of queries, keys and values, one after the other along axis 0.
        proj_weight, proj_bias: Projection of the result.
        mask: Mask of the scores: bools, true for keys that a query sees, or floats that are added to the scores. None
            if each query sees all keys.
    """

    features: int
    heads: int
    qkv_weight: Tensor
    qkv_bias: Tensor
    proj_weight: Tensor
    proj_bias: Tensor
    mask: Tensor | None

    def attend(self, builder: Builder, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Project the operands, split them into heads, and return the projected attention, [batch, query, feature]."""
        sizes = [self.features] * 3  # the rows for queries, for keys and for values
        weights, biases = (slicing.split(builder, x, axis=0, sizes=sizes) for x in (self.qkv_weight, self.qkv_bias))
        queries, keys, values = (
            attention.split_heads(builder, linear(builder, x, weight, bias), self.heads)
            for x, weight, bias in zip((query, key, value), weights, biases, strict=True)
        )
        masks = [] if self.mask is None else [self.mask]
        heads, _ = attention.attend(builder, queries, keys, values, masks)
        return linear(builder, attention.join_heads(builder, heads), self.proj_weight, self.proj_bias)


@dataclass(frozen=True)
class _FeedForward:
    """Two linear layers with an activation between them, as in the layers of transformers.

    Attributes:
        weight_1, bias_1: The first layer.
        weight_2, bias_2: The second layer.
        uses_gelu: Whether the activation is gelu, else relu.
    """

    weight_1: Tensor
    bias_1: Tensor
    weight_2: Tensor
    bias_2: Tensor
    uses_gelu: bool

    def feed(self, builder: Builder, x: Tensor) -> Tensor:
        """Return the result of the second layer for the input x of the first."""
        inner = linear(builder, x, self.weight_1, self.bias_1)
        active = gelu(builder, inner) if self.uses_gelu else relu(builder, inner)
        return linear(builder, active, self.weight_2, self.bias_2)


@converts("aten._native_multi_head_attention")
def native_multi_head_attention(
    builder: Builder, query: Tensor, key: Tensor, value: Tensor, embed_dim: int, num_head: int, qkv_weight: Tensor,
    qkv_bias: Tensor, proj_weight: Tensor, proj_bias: Tensor, mask: Tensor | None = None, need_weights: bool = True,
    average_attn_weights: bool = True, mask_type: int | None = None,
) -> tuple[Tensor, None]:  # fmt: skip
    """Convert multi-head attention. The second result is None instead of the attention weights, whatever `need_weights`
    is: they are not computed.
    """
    scores_mask = _attention_mask(builder, mask, mask_type)
    layer = _MultiHeadAttention(embed_dim, num_head, qkv_weight, qkv_bias, proj_weight, proj_bias, scores_mask)
    return layer.attend(builder, query, key, value), None


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
    """Return an encoder layer: x = src + attention(src), then x + network(x), where the network has two linear layers.

    norm_first: whether layer normalization is applied to the inputs of attention and of the network; otherwise it is
    applied to both sums. Parameters with 1 and 2 are those of the first and of the second normalization or layer.
    use_gelu: whether the network applies GELU between its layers, else ReLU. mask: bools, true for keys that a query
    does not see, or floats that are added to the scores. mask_type: which axes a mask of two axes has, _SOURCE_MASK
    [queries, keys] or _PADDING_MASK [batch, keys]; None for the former.
    """
    scores_mask = _attention_mask(builder, mask, mask_type)
    heads = _MultiHeadAttention(embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, scores_mask)
    network = _FeedForward(ffn_weight_1, ffn_bias_1, ffn_weight_2, ffn_bias_2, use_gelu)

    def norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """Return the layer normalization along the last axis."""
        return normalization.layer_norm(builder, x, [x.rank - 1], weight, bias, eps)[0]

    if norm_first:
        normalized = norm(src, norm_weight_1, norm_bias_1)
        x = ew.binary(builder, "add", src, heads.attend(builder, normalized, normalized, normalized))
        return ew.binary(builder, "add", x, network.feed(builder, norm(x, norm_weight_2, norm_bias_2)))
    x = norm(ew.binary(builder, "add", src, heads.attend(builder, src, src, src)), norm_weight_1, norm_bias_1)
    return norm(ew.binary(builder, "add", x, network.feed(builder, x)), norm_weight_2, norm_bias_2)
