"""Conversions of batch normalization: inference, training, gradient."""

from __future__ import annotations

from typing import Any

from xdsl.ir import Operation

from pydispatch.frontends.stablehlo.tracer import Convert, Results, StablehloTracer
from pydispatch.graph.sizes import Size
from pydispatch.graph.values import Tensor
from pydispatch.operations import elementwise as ew
from pydispatch.operations import reductions, shapes
from pydispatch.operations.formulas import Element, formula


class _FeatureAxis:
    """Operand of a batch normalization, which normalizes along all axes but that of the features.

    Attributes:
        x: The operand.
        axis: Axis of the features.
        others: All other axes.
        epsilon: Number that is added to variances, so that none is 0.
    """

    def __init__(self, tracer: StablehloTracer, op: Operation, x: Tensor) -> None:
        """Read the axis of the features and epsilon from the attributes of `op`; `tracer` has the builder."""
        self.b = tracer.b
        self.x = x
        self.axis = tracer.axis(op, "feature_index", x.rank)
        self.others = [d for d in range(x.rank) if d != self.axis]
        epsilon: Any = op.properties["epsilon"]
        self.epsilon = epsilon.value.data

    def spread(self, v: Tensor) -> Tensor:
        """Reshape a vector with one number per feature so that it broadcasts along the feature axis."""
        shape: list[Size] = [self.x.shape[self.axis] if d == self.axis else 1 for d in range(self.x.rank)]
        return shapes.reshape(self.b, v, shape)

    def mean(self, v: Tensor) -> Tensor:
        """Return the mean over all axes but the feature axis."""
        return reductions.mean(self.b, v, self.others)

    def normalized(self, scale: Tensor, offset: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """Return (x - mean) / sqrt(variance + epsilon) * scale + offset. All arguments have one number per feature."""

        def normalized(x: Element, gain: Element, shift: Element, centre: Element, square: Element) -> Element:
            """Return the result of one element x. gain: scale. shift: offset. centre: mean. square: variance."""
            return (x - centre) / (square + self.epsilon).unary("sqrt") * gain + shift

        return formula(self.b, normalized, self.x, *map(self.spread, (scale, offset, mean, variance)))


def _inference(tracer: StablehloTracer, op: Operation, x: Tensor, *features: Tensor) -> Tensor:
    """Return the operand normalized by the mean and variance that are passed.

    features: scale, offset, mean and variance, vectors with a number per feature.
    """
    return _FeatureAxis(tracer, op, x).normalized(*features)


def _training(tracer: StablehloTracer, op: Operation, x: Tensor, scale: Tensor, offset: Tensor) -> Results:
    """Return the normalized operand, and the mean and variance of the batch for each feature."""
    batch = _FeatureAxis(tracer, op, x)
    mean = batch.mean(x)
    variance = reductions.variance(tracer.b, x, batch.others)
    return batch.normalized(scale, offset, mean, variance), mean, variance


def _gradient(tracer: StablehloTracer, op: Operation, x: Tensor, *features: Tensor) -> Results:
    """Return the gradients of the operand, the scale and the offset.

    The normalization is result = scale * u + offset, with u = (x - mean) / deviation and
    deviation = sqrt(variance + epsilon). Sums are over the n elements of a feature; g is the gradient of the result:

    - of the scale: sum(g * u)
    - of the offset: sum(g)
    - of x: scale / deviation * (g - sum(g) / n - u * sum(g * u) / n). The two means are subtracted because each x also
      changes the mean and the variance of its feature.

    features: the scale, the mean and variance of the batch, and the gradient of the result of the normalization.
    """
    scale, mean, variance, result_gradient = features
    batch = _FeatureAxis(tracer, op, x)  # `spread` broadcasts a vector of features to x; `others` are its other axes
    b = tracer.b

    # u, and from it the gradients of the scale and of the offset, which are vectors of features.
    centred = ew.binary(b, "sub", x, batch.spread(mean))
    deviation = formula(b, lambda v: (v + batch.epsilon).unary("sqrt"), variance)
    unit = ew.binary(b, "div", centred, batch.spread(deviation))
    of_scale = reductions.reduce(b, "add", ew.binary(b, "mul", result_gradient, unit), batch.others)
    of_offset = reductions.reduce(b, "add", result_gradient, batch.others)
    count = reductions.size_as(b, reductions.count(x, batch.others), x.dtype)

    def gradient_of_element(g: Element, u: Element, gain: Element, d: Element, *sums: Element) -> Element:
        """Return the gradient of one element of x.

        g: gradient of its result. u: the normalized element before scale and offset. gain: scale. d: standard
        deviation. sums: the gradients of the scale and of the offset, and the number of elements that share them.
        """
        by_scale, by_offset, n = sums
        return gain / d / n * (g * n - by_offset - u * by_scale)  # the formula above, times n / n

    spread = map(batch.spread, (scale, deviation, of_scale, of_offset))
    return formula(b, gradient_of_element, result_gradient, unit, *spread, count), of_scale, of_offset


ROWS: dict[str, Convert] = {
    "stablehlo.batch_norm_grad": _gradient,
    "stablehlo.batch_norm_inference": _inference,
    "stablehlo.batch_norm_training": _training,
}
"""Name of an operation → function that converts it: convert(tracer, operation, operands...) -> results."""
