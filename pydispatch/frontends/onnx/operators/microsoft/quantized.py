"""Conversions of quantized operators of com.microsoft, which onnxruntime's quantizers and optimizers emit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from pydispatch.frontends.onnx.call import NodeCall
from pydispatch.frontends.onnx.operators import pooling, products, quantization, recurrent
from pydispatch.frontends.onnx.operators.reductions import softmax
from pydispatch.frontends.onnx.registry import MICROSOFT, ONNX
from pydispatch.graph.dtypes import F32
from pydispatch.graph.values import Tensor
from pydispatch.operations import activations, elementwise, shapes, slicing
from pydispatch.operations import products as ops
from pydispatch.operations.formulas import Element, formula
from pydispatch.operations.sequences import row

# -- products


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

    `scale` and `zero` are the scale and the zero point of y: numbers, or vectors with an element for each column.
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


@MICROSOFT.converts("QGemm")
def _qgemm(
    call: NodeCall,
    x: Tensor,
    x_scale: Tensor,
    x_zero: Tensor,
    y: Tensor,
    y_scale: Tensor,
    y_zero: Tensor,
    bias: Tensor | None = None,
    scale: Tensor | None = None,
    zero: Tensor | None = None,
) -> Tensor:
    """Return alpha times the sum of a bias and the product of two quantized matrices.

    The attributes transA and transB transpose x and y.

    Args:
        call: The node.
        x: Left factor, [m, k] after the transposition.
        x_scale: Scale of x.
        x_zero: Zero point of x.
        y: Right factor, [k, n] after the transposition.
        y_scale: Scale of y: one number, or a vector with an element per column.
        y_zero: Zero point of y, in the form of y_scale.
        bias: Integers that broadcast to [m, n], whose scale is x_scale * y_scale; None for 0.
        scale: Scale of the result; None if the result is in f32.
        zero: Zero point of the result, whose type the result has; None if the result is in f32.
    """
    x = shapes.transpose(call.b, x) if call.flag("transA") else x
    y = shapes.transpose(call.b, y) if call.flag("transB") else y
    alpha = call.real("alpha", 1.0)
    total = integer_product(call, x, y, x_zero, y_zero)
    if bias is not None:
        total = elementwise.binary(call.b, "add", total, bias)
    scales = [formula(call.b, lambda s: s * alpha, x_scale), y_scale]
    if scale is None or zero is None:
        return scaled(call, total, scales, bias=None)
    return quantization.requantize(call, total, scales, scale, zero, zero.dtype)


def _channels_first(call: NodeCall, function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Return function(x) for x [n, c, ...]. With the attribute channels_last, x and the result are [n, ..., c]."""
    if not call.flag("channels_last"):
        return function(x)
    result = function(shapes.transpose(call.b, x, [0, x.rank - 1, *range(1, x.rank - 1)]))
    return shapes.transpose(call.b, result, [0, *range(2, x.rank), 1])


@MICROSOFT.converts("QLinearConv")
def _qlinear_conv(
    call: NodeCall,
    x: Tensor,
    x_scale: Tensor,
    x_zero: Tensor,
    w: Tensor,
    w_scale: Tensor,
    w_zero: Tensor,
    scale: Tensor,
    zero: Tensor,
    bias: Tensor | None = None,
) -> Tensor:
    """Lower QLinearConv of ai.onnx, whose operands these are, for x [n, c, ...] or, by channels_last, [n, ..., c]."""

    def convolve(x: Tensor) -> Tensor:
        """Return the convolution of x, whose channels are first."""
        return quantization.qlinear_conv(call, x, x_scale, x_zero, w, w_scale, w_zero, scale, zero, bias)

    return _channels_first(call, convolve, x)


@MICROSOFT.converts("DynamicQuantizeLSTM")
def _dynamic_quantize_lstm(
    call: NodeCall,
    x: Tensor,
    w: Tensor,
    r: Tensor,
    bias: Tensor | None,
    lengths: Tensor | None,
    h: Tensor | None,
    state: Tensor | None,
    peepholes: Tensor | None,
    w_scale: Tensor,
    w_zero: Tensor,
    r_scale: Tensor,
    r_zero: Tensor,
) -> Sequence[Tensor]:
    """Lower an LSTM with quantized weights, whose inputs and hidden states are quantized to bytes by their own ranges.

    Args:
        call: The node.
        x: The sequences, [length, batch, inputs].
        w: Weights of the inputs, [directions, inputs, 4 * hidden].
        r: Recurrence weights, [directions, hidden, 4 * hidden].
        bias: Input bias and recurrence bias, [directions, 8 * hidden]; None for 0.
        lengths: Length of each sequence, [batch]; None if all have all steps.
        h: Initial hidden states, [directions, batch, hidden]; None for zeros.
        state: Initial cell states, in that form.
        peepholes: Weights of the cell state for the gates, [directions, 3 * hidden]; None if these do not read it.
        w_scale: Scales of w, [directions] or, with one for each column, [directions, 4 * hidden].
        w_zero: Zero points of w, in that form.
        r_scale: Scales of r, in that form.
        r_zero: Zero points of r, in that form.
    """
    count = recurrent.direction_count(call)
    if x.rank != 3 or w.rank != 3 or r.rank != 3 or w.shape[0] != count or w.shape[2] != 4 * r.shape[1]:
        raise call.fail(f"its operands are {x}, {w} and {r}; expected 3 axes, {count} direction(s) and 4 gates")

    def product(n: int, weights: Tensor, scale: Tensor, zero: Tensor) -> recurrent.Product:
        """Return the product by the weights of direction n of rows that are quantized by their own range."""
        y, y_scale, y_zero = (row(call.b, t, n) for t in (weights, scale, zero))
        return lambda rows: _dynamic_quantize_matmul(call, rows, y, y_scale, y_zero)

    input_products = [product(n, w, w_scale, w_zero) for n in range(count)]
    hidden_products = [product(n, r, r_scale, r_zero) for n in range(count)]
    return recurrent.lstm(call, x, input_products, hidden_products, r.shape[1], bias, lengths, h, state, peepholes)


# -- other functions


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


def _qlinear_pool(
    pool: Callable[[NodeCall, Tensor], Tensor], call: NodeCall, x: Tensor, scale: Tensor, zero: Tensor | None,
    out_scale: Tensor, out_zero: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Dequantize x, pool it with the conversion `pool`, and quantize the result with `out_scale` and `out_zero`.

    x is [n, c, ...], or [n, ..., c] with the attribute channels_last.
    """
    pooled = _channels_first(call, partial(pool, call), quantization.dequantize(call, x, scale, zero))
    return quantization.quantize(call, pooled, out_scale, out_zero, x.dtype)


@MICROSOFT.converts("QLinearSoftmax")
def _qlinear_softmax(
    call: NodeCall, x: Tensor, scale: Tensor, zero: Tensor | None, out_scale: Tensor, out_zero: Tensor
) -> Tensor:
    """Dequantize x, and quantize its softmax with `out_scale` and `out_zero`.

    The attribute `opset` is the version of the operator Softmax.
    """
    result = softmax(call, quantization.dequantize(call, x, scale, zero), call.integer("opset"))
    return quantization.quantize(call, result, out_scale, out_zero, x.dtype)


@MICROSOFT.converts("QLinearWhere")
def _qlinear_where(
    call: NodeCall,
    condition: Tensor,
    x: Tensor,
    x_scale: Tensor,
    x_zero: Tensor,
    y: Tensor,
    y_scale: Tensor,
    y_zero: Tensor,
    scale: Tensor,
    zero: Tensor,
) -> Tensor:
    """Dequantize x and y, choose from x where the condition holds, else from y, and quantize with `scale` and `zero`.

    x and y each have their own scale and zero point.
    """
    values = [quantization.dequantize(call, *operand) for operand in ((x, x_scale, x_zero), (y, y_scale, y_zero))]
    return quantization.quantize(call, elementwise.select(call.b, condition, *values), scale, zero, x.dtype)


@MICROSOFT.converts("QLinearConcat")
def _qlinear_concat(call: NodeCall, scale: Tensor, zero: Tensor, *operands: Tensor) -> Tensor:
    """Dequantize tensors, each given as elements, scale and zero point, concatenate them, and quantize the result."""
    if not operands or len(operands) % 3:
        raise call.fail(f"{len(operands)} operands follow its scale and zero point; expected three for each tensor")
    parts = [quantization.dequantize(call, *operands[n : n + 3]) for n in range(0, len(operands), 3)]
    joined = slicing.concat(call.b, parts, call.axis(call.integer("axis"), parts[0].rank))
    return quantization.quantize(call, joined, scale, zero, operands[0].dtype)


MICROSOFT.register({
    "QuantizeLinear": ONNX["QuantizeLinear"],
    "DequantizeLinear": ONNX["DequantizeLinear"],
    "QLinearAdd": partial(_qlinear, lambda u, v: u + v, 2, ()),
    "QLinearMul": partial(_qlinear, lambda u, v: u * v, 2, ()),
    "QLinearSigmoid": partial(_qlinear, lambda v: v.unary("logistic"), 1, ()),
    "QLinearLeakyRelu": partial(_qlinear, activations.leaky_relu, 1, ("alpha",)),
    "QLinearAveragePool": partial(_qlinear_pool, pooling.average_pool),
    "QLinearGlobalAveragePool": partial(_qlinear_pool, pooling.global_average_pool),
})  # fmt: skip
