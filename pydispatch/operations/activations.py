"""Activation functions as formulas of one element. The frontends map operator names and attributes to these."""

from __future__ import annotations

import math

from pydispatch.operations.formulas import Element, Value


def relu(value: Element) -> Element:
    """Return the larger one of the value and 0."""
    return value.max(0.0)


def relu6(value: Element) -> Element:
    """Return the value, clamped to the range from 0 to 6."""
    return value.max(0.0).min(6.0)


def leaky_relu(value: Element, slope: Value) -> Element:
    """Return the value if it is positive, else value * slope. The slope may be an element, as in PReLU."""
    return (value < 0.0).where(value * slope, value)


def thresholded_relu(value: Element, threshold: float) -> Element:
    """Return the value where it is larger than a threshold, 0 elsewhere."""
    return (value > threshold).where(value, 0.0)


def elu(value: Element, alpha: float, scale: float = 1.0, input_scale: float = 1.0) -> Element:
    """Return scale * value, and scale * alpha * (exp(input_scale * value) - 1) where the value is negative."""
    inner = value if input_scale == 1.0 else value * input_scale
    return (value < 0.0).where(inner.unary("expm1") * (alpha * scale), value if scale == 1.0 else value * scale)


def celu(value: Element, alpha: float) -> Element:
    """Return the value, and alpha * (exp(value / alpha) - 1) where it is negative."""
    return (value < 0.0).where((value / alpha).unary("expm1") * alpha, value)


def gelu(value: Element) -> Element:
    """Return the value times the cumulative distribution function of the normal distribution."""
    return value * 0.5 * ((value * math.sqrt(0.5)).unary("erf") + 1.0)


def tanh_gelu(value: Element) -> Element:
    """Return the approximation of `gelu` by tanh."""
    return value * 0.5 * (((value + value * value * value * 0.044715) * math.sqrt(2 / math.pi)).unary("tanh") + 1.0)


def silu(value: Element) -> Element:
    """Return the value times its logistic function; also called swish."""
    return value * value.unary("logistic")


def swish(value: Element, alpha: float) -> Element:
    """Return the value times the logistic function of alpha * value; QuickGELU with alpha = 1.702."""
    return value * (value * alpha).unary("logistic")


def softplus(value: Element) -> Element:
    """Return log(1 + exp(value)), in a form whose exponential cannot overflow."""
    return value.max(0.0) + (-value.unary("abs")).unary("exp").unary("log1p")


def log_sigmoid(value: Element) -> Element:
    """Return the logarithm of the logistic function."""
    return -softplus(-value)


def softsign(value: Element) -> Element:
    """Return value / (1 + |value|)."""
    return value / (value.unary("abs") + 1.0)


def mish(value: Element) -> Element:
    """Return the value times the hyperbolic tangent of its softplus."""
    return value * softplus(value).unary("tanh")


def hard_sigmoid(value: Element, alpha: float, beta: float) -> Element:
    """Return alpha * value + beta, clamped to the range from 0 to 1."""
    return (value * alpha + beta).max(0.0).min(1.0)


def hard_swish(value: Element) -> Element:
    """Return value * relu6(value + 3) / 6. The division precedes the last product, which then does not overflow."""
    return value * (relu6(value + 3.0) * (1.0 / 6.0))


def shrink(value: Element, bias: float, threshold: float) -> Element:
    """Return the value moved towards 0 by `bias`, or 0 if its magnitude is at most `threshold`."""
    return (value < -threshold).where(value + bias, (value > threshold).where(value - bias, 0))
