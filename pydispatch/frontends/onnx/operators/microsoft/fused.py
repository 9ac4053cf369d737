"""Conversions of operators of com.microsoft that fuse several operators of ai.onnx: activations, products, norms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from pydispatch.frontends.onnx.call import NodeCall
from pydispatch.frontends.onnx.operators import products
from pydispatch.frontends.onnx.registry import MICROSOFT, ONNX
from pydispatch.graph.dtypes import I64
from pydispatch.graph.values import Tensor
from pydispatch.operations import activations, elementwise, gathers, normalization, reductions, shapes
from pydispatch.operations import products as ops
from pydispatch.operations.formulas import Element, formula
from pydispatch.operations.normalization import wide

# -- activations and what is added before them


def _with_bias(function: Callable[[Element], Element], call: NodeCall, x: Tensor, bias: Tensor | None = None) -> Tensor:
    """Apply the formula `function` to each element of x, or of x + bias."""
    if bias is None:
        return formula(call.b, function, x)
    return formula(call.b, lambda v, k: function(v + k), x, bias)


@MICROSOFT.converts("QuickGelu")
def _quick_gelu(call: NodeCall, x: Tensor) -> Tensor:
    """Return x * sigmoid(alpha * x)."""
    alpha = call.real("alpha", 1.702)
    return formula(call.b, lambda v: activations.swish(v, alpha), x)


_ACTIVATIONS: dict[str, Callable[..., Element]] = {
    "": lambda v: v,
    "Relu": activations.relu,
    "Tanh": lambda v: v.unary("tanh"),
    "Sigmoid": lambda v: v.unary("logistic"),
    "LeakyRelu": lambda v, alpha=0.01: activations.leaky_relu(v, alpha),
    "HardSigmoid": lambda v, alpha=0.2, beta=0.5: activations.hard_sigmoid(v, alpha, beta),
    "Clip": lambda v, least=-3.4e38, most=3.4e38: v.max(least).min(most),
}
"""Activation functions by the names in attributes; "" leaves elements unchanged. Parameters after the element have
the defaults of the operator."""


def _activated(call: NodeCall, x: Tensor, numbers: Sequence[float]) -> Tensor:
    """Apply the activation that the attribute `activation` names.

    `numbers` has the activation's parameters, such as alpha and beta; defaults replace those missing at the end.
    """
    name = call.text("activation", "")
    if name not in _ACTIVATIONS:
        raise call.fail(f"activation '{name:.40}' is not known")
    return formula(call.b, lambda v: _ACTIVATIONS[name](v, *numbers), x)


# -- products


@MICROSOFT.converts("FusedMatMul", "TransposeMatMul")
def _fused_matmul(call: NodeCall, x: Tensor, y: Tensor) -> Tensor:
    """Return alpha * x @ y; the attributes transA and transB transpose the last two axes of x and y."""
    if call.flag("transBatchA") or call.flag("transBatchB"):
        raise call.fail("transBatchA and transBatchB are not supported")
    x = _transpose_matrices(call, x) if call.flag("transA") else x
    y = _transpose_matrices(call, y) if call.flag("transB") else y
    alpha = call.real("alpha", 1.0)
    product = ops.matmul(call.b, x, y, wide(x.dtype))  # in f32 for smaller floats
    return formula(call.b, lambda v: (v * alpha).to(x.dtype), product)


def _transpose_matrices(call: NodeCall, x: Tensor) -> Tensor:
    """Swap the last two axes of x; return a vector unchanged."""
    return shapes.transpose(call.b, x, [*range(x.rank - 2), x.rank - 1, x.rank - 2]) if x.rank > 1 else x


@MICROSOFT.converts("FusedGemm")
def _fused_gemm(call: NodeCall, x: Tensor, y: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return a Gemm followed by an activation."""
    product = products.gemm(call, x, y, bias)
    names = ("activation_alpha", "activation_beta", "activation_gamma")
    return _activated(call, product, [call.real(name) for name in names if call.has(name)])


@MICROSOFT.converts("FusedConv")
def _fused_conv(
    call: NodeCall, x: Tensor, w: Tensor, bias: Tensor | None = None, added: Tensor | None = None
) -> Tensor:
    """Return activation(conv(x, w) + bias + added); the attribute `activation` names the function."""
    convolved = products.conv(call, x, w, bias)
    convolved = convolved if added is None else elementwise.binary(call.b, "add", convolved, added)
    return _activated(call, convolved, call.reals("activation_params", []))


# -- norms


@MICROSOFT.converts("SkipLayerNormalization")
def _skip_norm(
    call: NodeCall, x: Tensor, skip: Tensor, scale: Tensor, shift: Tensor | None = None, bias: Tensor | None = None
) -> Sequence[Tensor]:
    """Return the layer norm of x + skip + bias over the last axis, its mean and inverse deviation, and the sum itself.

    `scale` and `shift` are the factor and the summand after the normalization.
    """
    total = _residual_sum(call, x, skip, bias)
    result, mean, inverse = normalization.layer_norm(
        call.b, total, [x.rank - 1], scale, shift, call.real("epsilon", 1e-12)
    )
    return [result, mean, inverse, total]


@MICROSOFT.converts("SkipSimplifiedLayerNormalization")
def _skip_rms_norm(
    call: NodeCall, x: Tensor, skip: Tensor, scale: Tensor, bias: Tensor | None = None
) -> Sequence[Tensor | None]:
    """Return the RMS norm of x + skip + bias, and the sum itself as the fourth result; mean and deviation are not
    supported.
    """
    total = _residual_sum(call, x, skip, bias)
    return [normalization.rms_norm(call.b, total, [x.rank - 1], scale, call.real("epsilon", 1e-12)), None, None, total]


def _residual_sum(call: NodeCall, x: Tensor, skip: Tensor, bias: Tensor | None) -> Tensor:
    """Return x + skip + bias."""
    total = elementwise.binary(call.b, "add", x, skip)
    return total if bias is None else elementwise.binary(call.b, "add", total, bias)


@MICROSOFT.converts("SimplifiedLayerNormalization")
@ONNX.converts("SimplifiedLayerNormalization")
def rms_norm(call: NodeCall, x: Tensor, scale: Tensor) -> Sequence[Tensor | None]:
    """Return x / sqrt(mean of squares + epsilon) * scale, with the mean over the axes from the attribute `axis` on.

    The second result of the operator, the inverse of that root, is not supported.
    """
    call.ignore("stash_type")
    axis = call.axis(call.integer("axis", -1), x.rank)
    return [normalization.rms_norm(call.b, x, range(axis, x.rank), scale, call.real("epsilon", 1e-5)), None]


@MICROSOFT.converts("EmbedLayerNormalization")
def _embed_norm(
    call: NodeCall,
    words: Tensor,
    segments: Tensor | None,
    table: Tensor,
    position_table: Tensor,
    kinds: Tensor | None,
    scale: Tensor,
    shift: Tensor,
    mask: Tensor | None = None,
    position_ids: Tensor | None = None,
) -> Sequence[Tensor]:
    """Return the layer norm of the sum of word, position and segment embeddings, for each sequence the sum of its mask,
    and the sum of the embeddings itself.

    Args:
        call: The node.
        words: Index of each word in `table`, [batch, length].
        segments: Index of each word's segment, such as question or answer, in `kinds`, [batch, length]; None for no
            segment embedding.
        table: Embeddings of words, [words, size].
        position_table: Embeddings of positions, [positions, size].
        kinds: Embeddings of segments, [segments, size].
        scale: Factor after the normalization, [size].
        shift: Summand after the normalization, [size].
        mask: 1 for valid words, else 0, [batch, length]. Without it the sums of the mask are 0.
        position_ids: Position of each word, [batch, length]; by default 0, 1, ... in each sequence.
    """
    b = call.b
    call.ignore("mask_index_type")
    total = gathers.take(b, table, words, axis=0)
    where = position_ids if position_ids is not None else shapes.iota(b, [words.shape[1]], axis=0, dtype=I64)
    total = elementwise.binary(b, "add", total, gathers.take(b, position_table, where, axis=0))
    if segments is not None and kinds is not None:
        total = elementwise.binary(b, "add", total, gathers.take(b, kinds, segments, axis=0))
    normalized = normalization.layer_norm(
        b, total, axes=[2], scale=scale, bias=shift, epsilon=call.real("epsilon", 1e-12)
    )[0]
    # The third result, `total`, is the sum of the embeddings before the normalization.
    counted = mask if mask is not None else formula(b, lambda v: v * 0, words)  # zeros in the shape of `words`
    return [normalized, reductions.reduce(b, "add", counted, axes=[1]), total]


MICROSOFT.register({
    "Gelu": partial(_with_bias, activations.gelu),
    "BiasGelu": partial(_with_bias, activations.gelu),
    "FastGelu": partial(_with_bias, activations.tanh_gelu),
})  # fmt: skip
