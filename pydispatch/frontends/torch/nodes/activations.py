"""Conversions of activation functions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from pydispatch.frontends.torch.nodes.pointwise import clamp, in_floats, of_floats
from pydispatch.frontends.torch.promotion import Number, as_tensor
from pydispatch.frontends.torch.registry import converts, register
from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import F32, DType
from pydispatch.graph.values import Tensor
from pydispatch.operations import activations, normalization, shapes, slicing
from pydispatch.operations import elementwise as ew
from pydispatch.operations.formulas import formula


@converts("aten.relu")
def relu(builder: Builder, self: Tensor) -> Tensor:
    """Return max(x, 0)."""
    return ew.binary(builder, "max", self, as_tensor(builder, 0, self.dtype))


@converts("aten.gelu")
def gelu(builder: Builder, self: Tensor, *, approximate: str = "none") -> Tensor:
    """Return x * Phi(x), where Phi is the cumulative distribution function of the standard normal distribution.

    approximate: "tanh" for an approximation by a hyperbolic tangent; "none" for the exact function.
    """
    return in_floats(builder, activations.tanh_gelu if approximate == "tanh" else activations.gelu, self)


@converts("aten.leaky_relu")
def leaky_relu(builder: Builder, self: Tensor, negative_slope: Number = 0.01) -> Tensor:
    """Return x where it is not negative, else x * negative_slope."""
    return in_floats(builder, lambda e: activations.leaky_relu(e, float(negative_slope)), self)  # type: ignore[arg-type]


@converts("aten.elu")
def elu(builder: Builder, self: Tensor, alpha: Number = 1, scale: Number = 1, input_scale: Number = 1) -> Tensor:
    """Return scale * x where x is positive, else scale * alpha * (exp(input_scale * x) - 1)."""
    factors = [float(n) for n in (alpha, scale, input_scale)]  # type: ignore[arg-type]
    return in_floats(builder, lambda e: activations.elu(e, *factors), self)


@converts("aten.celu")
def celu(builder: Builder, self: Tensor, alpha: Number = 1.0) -> Tensor:
    """Return x where it is positive, else alpha * (exp(x / alpha) - 1)."""
    return in_floats(builder, lambda e: activations.celu(e, float(alpha)), self)  # type: ignore[arg-type]


@converts("aten.hardtanh")
def hardtanh(builder: Builder, self: Tensor, min_val: Number = -1, max_val: Number = 1) -> Tensor:
    """Return x limited to [min_val, max_val]."""
    return clamp(builder, self, as_tensor(builder, min_val, self.dtype), as_tensor(builder, max_val, self.dtype))


@converts("aten.relu6")
def relu6(builder: Builder, self: Tensor) -> Tensor:
    """Return x limited to [0, 6]."""
    return hardtanh(builder, self, min_val=0, max_val=6)


@converts("aten.softplus")
def softplus(builder: Builder, self: Tensor, beta: Number = 1, threshold: Number = 20) -> Tensor:
    """Return log(1 + exp(beta * x)) / beta; where beta * x is above the threshold, return x, which is nearly equal."""
    k, limit = float(beta), float(threshold)  # type: ignore[arg-type]
    return in_floats(builder, lambda e: (e * k > limit).where(e, activations.softplus(e * k) / k), self)


@converts("aten.threshold")
def threshold(builder: Builder, self: Tensor, threshold: Number, value: Number) -> Tensor:
    """Return x where it is above the threshold, else `value`."""
    limit, other = as_tensor(builder, threshold, self.dtype), as_tensor(builder, value, self.dtype)
    return formula(builder, lambda e, n, v: (e <= n).where(v, e), self, limit, other)


@converts("aten.glu")
def glu(builder: Builder, self: Tensor, dim: int = -1) -> Tensor:
    """Return the first half along the axis, times the logistic function of the second half."""
    (axis,) = shapes.axes_of(builder, [dim], self.rank)
    half = self.shape[axis] // 2
    x, y = slicing.split(builder, self, axis, [half, half])
    return in_floats(builder, lambda e, n: e * n.unary("logistic"), x, y)


@converts("aten.prelu", "aten._prelu_kernel")
def prelu(builder: Builder, self: Tensor, weight: Tensor) -> Tensor:
    """Return `self` where it is not negative, else `self` * `weight`: a slope per channel (axis 1), or one for all."""
    if weight.rank and weight.shape[0] != 1 and self.rank > 1:
        slopes = normalization.along(builder, weight, axis=1, rank=self.rank)
    else:
        slopes = shapes.reshape(builder, weight, [1] * self.rank)
    return in_floats(builder, activations.leaky_relu, self, slopes)


def _softmax(
    function: Callable[..., Tensor], builder: Builder, self: Tensor, dim: int, dtype: DType | bool | None = None
) -> Tensor:
    """Apply `function`, a variant of softmax, along the axis `dim`.

    dtype: type that elements are converted to first; None for no conversion. It is a bool if the operator has a
    parameter `half_to_float` instead, as `aten._softmax`: True converts to f32, False does not convert.
    """
    to = F32 if dtype is True else dtype or self.dtype
    return function(builder, ew.convert(builder, self, to), dim)


@converts("aten.feature_dropout", "aten.alpha_dropout")
def inactive_dropout(builder: Builder, input: Tensor, p: float, train: bool) -> Tensor:
    """Return the input, as in inference. Raise CompileError in training, unless the probability `p` is 0."""
    if train and p > 0:
        raise builder.fail("this kind of dropout in training is not supported", "export the model after `model.eval()`")
    return input


register({
    "aten.selu": partial(of_floats, lambda e: activations.elu(e, 1.6732632423543772, 1.0507009873554805)),
    "aten.silu": partial(of_floats, activations.silu),
    "aten.mish": partial(of_floats, activations.mish),
    "aten.hardsigmoid": partial(of_floats, lambda e: activations.relu6(e + 3.0) / 6.0),
    "aten.hardswish": partial(of_floats, activations.hard_swish),
    "aten.log_sigmoid": partial(of_floats, activations.log_sigmoid),
    **dict.fromkeys(("aten.softmax", "aten._softmax"), partial(_softmax, normalization.softmax)),
    "aten._safe_softmax": partial(_softmax, partial(normalization.softmax, masked_rows_are_zero=True)),
    **dict.fromkeys(("aten.log_softmax", "aten._log_softmax"), partial(_softmax, normalization.log_softmax)),
})  # fmt: skip
