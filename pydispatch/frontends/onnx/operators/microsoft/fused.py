"""Conversions of operators of com.microsoft that fuse several operators of ai.onnx: products, norms, quantized
functions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from pydispatch.frontends.onnx.call import NodeCall
from pydispatch.frontends.onnx.operators import products, quantization
from pydispatch.frontends.onnx.registry import MICROSOFT, ONNX
from pydispatch.graph.dtypes import F32, I64
from pydispatch.graph.values import Tensor
from pydispatch.operations import activations, elementwise, gathers, normalization, reductions, shapes, slicing
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


def integer_product(call: NodeCall, x: Tensor, y: Tensor, x_zero: Tensor | None, y_zero: Tensor | None) -> Tensor:
    """Return (x - x_zero) @ (y - y_zero) in i32, for quantized matrices.

    x_zero is a scalar, y_zero a scalar or a vector with an element for each column; None stands for 0.
    """
    rows = products.without_zero_point(call, x, x_zero, axis=None)
    return ops.matmul(call.b, rows, products.without_zero_point(call, y, y_zero, axis=-1))


def scaled(call: NodeCall, x: Tensor, scales: Sequence[Tensor], bias: Tensor | None) -> Tensor:
    """Return x * scales[0] * scales[1] + bias in f32, for integers x and two scales that broadcast to x."""

    def scaled_element(value: Element, s: Element, t: Element, *more: Element) -> Element:
        """Return one element of the product: `value`, an integer, times the scales s and t, plus the bias if there is
        one.
        """
        product = value.to(F32) * (s.to(F32) * t.to(F32))
        return product + more[0].to(F32) if more else product

    return formula(call.b, scaled_element, x, *scales, *([bias] if bias is not None else []))


@MICROSOFT.converts("DynamicQuantizeMatMul")
def _dynamic_quantize_matmul(
    call: NodeCall, x: Tensor, y: Tensor, scale: Tensor, zero: Tensor | None = None, bias: Tensor | None = None
) -> Tensor:
    """Quantize x to bytes by its own range, and return its product by quantized y in f32, plus a bias.

    `scale` and `zero` are the scale and the zero point of y.
    """
    quantized_x, x_scale, x_zero = quantization.dynamic_quantize(call, x)
    return scaled(call, integer_product(call, quantized_x, y, x_zero, zero), [x_scale, scale], bias)


@MICROSOFT.converts("MatMulIntegerToFloat")
def _matmul_integer_to_float(
    call: NodeCall, x: Tensor, y: Tensor, x_scale: Tensor, y_scale: Tensor, x_zero: Tensor | None = None,
    y_zero: Tensor | None = None, bias: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Return the product of two quantized matrices, scaled to f32, plus a bias."""
    return scaled(call, integer_product(call, x, y, x_zero, y_zero), [x_scale, y_scale], bias)


def _qlinear(
    function: Callable[..., Element], count: int, names: Sequence[str], call: NodeCall, *operands: Tensor | None
) -> Tensor:
    """Dequantize `count` tensors, apply a formula, and quantize the result.

    The first three parameters are bound for each operator: QLinearAdd has the formula u + v of 2 tensors, and the
    operands (a, a_scale, a_zero, b, b_scale, b_zero, scale, zero).

    Args:
        function: The formula: function(element of each tensor..., number of each attribute...).
        count: Number of tensors.
        names: Names of the float attributes.
        call: The node.
        operands: Elements, scale and zero point of each tensor, then scale and zero point of the result. The last one
            may be missing. The result has the type of the first tensor.
    """
    if len(operands) not in (3 * count + 1, 3 * count + 2):
        raise call.fail(f"{len(operands)} operands are given, {3 * count + 2} are expected")
    dequantized = []
    for n in range(count):
        x, scale, zero = operands[3 * n : 3 * n + 3]
        if x is None or scale is None:
            raise call.fail("an operand is missing")
        dequantized.append(quantization.dequantize(call, x, scale, zero))
    first, scale = operands[0], operands[3 * count]
    zero = operands[3 * count + 1] if len(operands) > 3 * count + 1 else None
    if first is None or scale is None:
        raise call.fail("an operand is missing")
    numbers = [call.real(name, 0.01) for name in names]  # the only one is alpha of QLinearLeakyRelu
    result = formula(call.b, lambda *v: function(*v, *numbers), *dequantized)
    return quantization.quantize(call, result, scale, zero, first.dtype)


@MICROSOFT.converts("QLinearGlobalAveragePool")
def _qlinear_global_average(
    call: NodeCall, x: Tensor, scale: Tensor, zero: Tensor, out_scale: Tensor, out_zero: Tensor
) -> Tensor:
    """Return the mean over the spatial axes of a quantized tensor, quantized with `out_scale` and `out_zero`."""
    is_channels_last = call.flag("channels_last")
    axes = list(range(1, x.rank - 1)) if is_channels_last else list(range(2, x.rank))
    mean = reductions.mean(call.b, quantization.dequantize(call, x, scale, zero), axes, keep=True)
    return quantization.quantize(call, mean, out_scale, out_zero, x.dtype)


@MICROSOFT.converts("QLinearConcat")
def _qlinear_concat(call: NodeCall, scale: Tensor, zero: Tensor, *operands: Tensor) -> Tensor:
    """Dequantize tensors, each given as elements, scale and zero point, concatenate them, and quantize the result."""
    if not operands or len(operands) % 3:
        raise call.fail(f"{len(operands)} operands follow its scale and zero point; expected three for each tensor")
    parts = [quantization.dequantize(call, *operands[n : n + 3]) for n in range(0, len(operands), 3)]
    joined = slicing.concat(call.b, parts, call.axis(call.integer("axis"), parts[0].rank))
    return quantization.quantize(call, joined, scale, zero, operands[0].dtype)


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
    "QuantizeLinear": ONNX["QuantizeLinear"],
    "DequantizeLinear": ONNX["DequantizeLinear"],
    "QLinearAdd": partial(_qlinear, lambda u, v: u + v, 2, ()),
    "QLinearMul": partial(_qlinear, lambda u, v: u * v, 2, ()),
    "QLinearSigmoid": partial(_qlinear, lambda v: v.unary("logistic"), 1, ()),
    "QLinearLeakyRelu": partial(_qlinear, activations.leaky_relu, 1, ("alpha",)),
})  # fmt: skip
