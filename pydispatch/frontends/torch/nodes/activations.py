"""Conversions of activation functions."""

from __future__ import annotations

from collections.abc import Callable

from pydispatch.frontends.torch.nodes.pointwise import clamp, in_floats
from pydispatch.frontends.torch.promotion import Number, as_tensor
from pydispatch.frontends.torch.trace import Conversion
from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import DType
from pydispatch.graph.values import Tensor
from pydispatch.operations import activations, normalization, shapes
from pydispatch.operations import elementwise as ew
from pydispatch.operations.formulas import Element, formula


def relu(b: Builder, self: Tensor) -> Tensor:
    return ew.binary(b, "max", self, as_tensor(b, 0, self.dtype))


def gelu(b: Builder, self: Tensor, *, approximate: str = "none") -> Tensor:
    return in_floats(b, activations.tanh_gelu if approximate == "tanh" else activations.gelu, self)


def leaky_relu(b: Builder, self: Tensor, negative_slope: Number = 0.01) -> Tensor:
    return in_floats(b, lambda e: activations.leaky_relu(e, float(negative_slope)), self)  # type: ignore[arg-type]


def elu(b: Builder, self: Tensor, alpha: Number = 1, scale: Number = 1, input_scale: Number = 1) -> Tensor:
    factors = [float(n) for n in (alpha, scale, input_scale)]  # type: ignore[arg-type]
    return in_floats(b, lambda e: activations.elu(e, *factors), self)


def selu(b: Builder, self: Tensor) -> Tensor:
    return elu(b, self, 1.6732632423543772, 1.0507009873554805)


def celu(b: Builder, self: Tensor, alpha: Number = 1.0) -> Tensor:
    return in_floats(b, lambda e: activations.celu(e, float(alpha)), self)  # type: ignore[arg-type]


def hardtanh(b: Builder, self: Tensor, min_val: Number = -1, max_val: Number = 1) -> Tensor:
    return clamp(b, self, as_tensor(b, min_val, self.dtype), as_tensor(b, max_val, self.dtype))


def relu6(b: Builder, self: Tensor) -> Tensor:
    return hardtanh(b, self, 0, 6)


def _of_floats(written: Callable[[Element], Element]) -> Conversion:
    """Return the conversion of an operator that applies a formula on floats."""

    def convert(b: Builder, self: Tensor) -> Tensor:
        return in_floats(b, written, self)

    return convert


def softplus(b: Builder, self: Tensor, beta: Number = 1, threshold: Number = 20) -> Tensor:
    k, limit = float(beta), float(threshold)  # type: ignore[arg-type]
    return in_floats(b, lambda e: (e * k > limit).where(e, activations.softplus(e * k) / k), self)


def threshold(b: Builder, self: Tensor, threshold: Number, value: Number) -> Tensor:
    limit, other = as_tensor(b, threshold, self.dtype), as_tensor(b, value, self.dtype)
    return formula(b, lambda e, n, v: (e <= n).where(v, e), self, limit, other)


def glu(b: Builder, self: Tensor, dim: int = -1) -> Tensor:
    """Return the first half along the axis, times the logistic function of the second half."""
    (axis,) = shapes.axes_of(b, [dim], self.rank)
    half = self.shape[axis] // 2
    x, y = shapes.split(b, self, axis, [half, half])
    return in_floats(b, lambda e, n: e * n.unary("logistic"), x, y)


def prelu(b: Builder, self: Tensor, weight: Tensor) -> Tensor:
    """Return the leaky ReLU with a slope per channel (axis 1), or one for all elements."""
    if weight.rank and weight.shape[0] != 1 and self.rank > 1:
        slopes = normalization.along(b, weight, 1, self.rank)
    else:
        slopes = shapes.reshape(b, weight, [1] * self.rank)
    assert slopes is not None
    return in_floats(b, activations.leaky_relu, self, slopes)


def softmax(b: Builder, self: Tensor, dim: int, dtype: DType | bool | None = None) -> Tensor:
    x = self if not isinstance(dtype, DType) else ew.convert(b, self, dtype)
    return normalization.softmax(b, x, dim)


def safe_softmax(b: Builder, self: Tensor, dim: int, dtype: DType | bool | None = None) -> Tensor:
    x = self if not isinstance(dtype, DType) else ew.convert(b, self, dtype)
    return normalization.softmax(b, x, dim, masked_rows_are_zero=True)


def log_softmax(b: Builder, self: Tensor, dim: int, dtype: DType | bool | None = None) -> Tensor:
    x = self if not isinstance(dtype, DType) else ew.convert(b, self, dtype)
    return normalization.log_softmax(b, x, dim)


def inactive_dropout(b: Builder, input: Tensor, p: float, train: bool) -> Tensor:
    """Return the input, as in inference. Raise CompileError in training."""
    if train and p > 0:
        raise b.fail("this kind of dropout in training is not supported", "export the model after `model.eval()`")
    return input


ACTIVATIONS: dict[str, Conversion] = {
    "aten.relu": relu,
    "aten.relu6": relu6,
    "aten.gelu": gelu,
    "aten.leaky_relu": leaky_relu,
    "aten.elu": elu,
    "aten.selu": selu,
    "aten.celu": celu,
    "aten.hardtanh": hardtanh,
    "aten.prelu": prelu,
    "aten._prelu_kernel": prelu,
    "aten.glu": glu,
    "aten.threshold": threshold,
    "aten.softplus": softplus,
    "aten.silu": _of_floats(activations.silu),
    "aten.mish": _of_floats(activations.mish),
    "aten.hardsigmoid": _of_floats(lambda e: activations.relu6(e + 3.0) / 6.0),
    "aten.hardswish": _of_floats(activations.hard_swish),
    "aten.log_sigmoid": _of_floats(activations.log_sigmoid),
    "aten.softmax": softmax,
    "aten._softmax": softmax,
    "aten._safe_softmax": safe_softmax,
    "aten.log_softmax": log_softmax,
    "aten._log_softmax": log_softmax,
    "aten.feature_dropout": inactive_dropout,
    "aten.alpha_dropout": inactive_dropout,
}
