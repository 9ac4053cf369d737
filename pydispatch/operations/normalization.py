"""Softmax, and normalization by mean and variance over batches, layers or groups.

16-bit floats are computed in f32; only results are rounded.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeVar

from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import F32, DType
from pydispatch.graph.values import Tensor
from pydispatch.operations import elementwise as ew
from pydispatch.operations import reductions, shapes
from pydispatch.operations.formulas import Element, formula, formulas

MaybeTensor = TypeVar("MaybeTensor", Tensor, "Tensor | None")
"""A tensor, or None for an optional one: the result is None exactly if the argument is."""


def wide(dtype: DType) -> DType:
    """Return the type in which formulas on elements of `dtype` are computed: f32 for smaller floats, else `dtype`
    itself.
    """
    return F32 if dtype.is_float and dtype.bits < 32 else dtype


def softmax(builder: Builder, x: Tensor, axis: int, masked_rows_are_zero: bool = False) -> Tensor:
    """Return exp(x) divided by its sum along an axis. Rows of -inf give NaN, or 0 with `masked_rows_are_zero`."""
    (axis,) = shapes.axes_of(builder, [axis], x.rank)
    values = ew.convert(builder, x, wide(x.dtype))
    largest = reductions.reduce(builder, "max", values, [axis], keep=True)
    powers = formula(builder, lambda e, m: (e - m).unary("exp"), values, largest)
    total = reductions.reduce(builder, "add", powers, [axis], keep=True)
    if not masked_rows_are_zero:
        return ew.convert(builder, ew.binary(builder, "div", powers, total), x.dtype)

    def share(power: Element, row_total: Element, row_maximum: Element) -> Element:
        """Return the quotient of an exponential and its row's sum; 0 if the row's maximum is -inf."""
        is_masked = row_maximum.is_equal(-math.inf)
        return is_masked.where(0.0, power / row_total).to(x.dtype)

    return formula(builder, share, powers, total, largest)


def log_softmax(builder: Builder, x: Tensor, axis: int) -> Tensor:
    """Return the logarithm of `softmax`, computed without the softmax itself, which may underflow."""
    (axis,) = shapes.axes_of(builder, [axis], x.rank)
    values = ew.convert(builder, x, wide(x.dtype))
    largest = reductions.reduce(builder, "max", values, [axis], keep=True)
    powers = formula(builder, lambda e, m: (e - m).unary("exp"), values, largest)
    total = reductions.reduce(builder, "add", powers, [axis], keep=True)
    return formula(builder, lambda e, m, n: ((e - m) - n.unary("log")).to(x.dtype), values, largest, total)


def log_sum_exp(builder: Builder, x: Tensor, axes: Sequence[int] | None, keep: bool = False) -> Tensor:
    """Return the logarithm of the sum of exp(x) along axes, all for None. With `keep`, these have size 1.

    The maximum is subtracted first, so that nothing overflows.
    """
    reduced_axes = shapes.axes_of(builder, axes, x.rank)
    values = ew.convert(builder, x, wide(x.dtype))
    largest = reductions.reduce(builder, "max", values, reduced_axes, keep=True)

    def power(e: Element, m: Element) -> Element:
        """Return exp(e - m), where m is the maximum of the reduced elements.

        Return exp(e) if m is infinite or NaN: for an infinite m, inf - inf would be NaN where the result is m.
        """
        return (e - m.unary("is_finite").where(m, 0.0)).unary("exp")

    def logarithm(power_sum: Element, m: Element) -> Element:
        """Return the logarithm of a sum of powers, plus the maximum m that was subtracted from their exponents."""
        return (power_sum.unary("log") + m.unary("is_finite").where(m, 0.0)).to(x.dtype)

    powers = formula(builder, power, values, largest)
    total = reductions.reduce(builder, "add", powers, reduced_axes, keep=True)
    result = formula(builder, logarithm, total, largest)
    return result if keep else shapes.squeeze(builder, result, reduced_axes)


def moments(builder: Builder, x: Tensor, axes: Sequence[int], less: float = 0) -> tuple[Tensor, Tensor]:
    """Return the mean and the variance along axes, which keep size 1.

    The variance divides by max(count - less, 0), where `count` is the number of elements.
    """
    values = ew.convert(builder, x, wide(x.dtype))
    mean = reductions.mean(builder, values, axes, keep=True)
    variance = reductions.variance(builder, values, axes, keep=True, less=less)
    return mean, variance


def normalized(
    builder: Builder,
    x: Tensor,
    mean: Tensor,
    variance: Tensor,
    scale: Tensor | None,
    bias: Tensor | None,
    epsilon: float,
) -> Tensor:
    """Return (x - mean) / sqrt(variance + epsilon) * scale + bias. All operands broadcast to x."""
    inner = wide(x.dtype)
    operands = [x, mean, variance, *(t for t in (scale, bias) if t is not None)]

    def normalized_element(e: Element, mean: Element, variance: Element, *scale_and_bias: Element) -> Element:
        """Return one normalized element. `scale_and_bias` has the elements of the scale and of the bias, without those
        that are None.
        """
        result = (e.to(inner) - mean.to(inner)) * (variance.to(inner) + epsilon).unary("rsqrt")
        remaining = [n.to(inner) for n in scale_and_bias]
        if scale is not None:
            result = result * remaining.pop(0)
        if bias is not None:
            result = result + remaining.pop(0)
        return result.to(x.dtype)

    return formula(builder, normalized_element, *operands)


def layer_norm(
    builder: Builder, x: Tensor, axes: Sequence[int], scale: Tensor | None, bias: Tensor | None, epsilon: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Normalize x along axes; scale and bias broadcast to x.

    Return the result, and the mean and 1 / sqrt(variance + epsilon), both with size 1 along the axes.
    """
    mean, variance = moments(builder, x, axes)
    result = normalized(builder, x, mean, variance, scale, bias, epsilon)
    return result, mean, formula(builder, lambda v: (v + epsilon).unary("rsqrt"), variance)


def rms_norm(builder: Builder, x: Tensor, axes: Sequence[int], scale: Tensor | None, epsilon: float) -> Tensor:
    """Return x / sqrt(mean of x^2 along axes + epsilon) times `scale`, which broadcasts to x."""
    inner = wide(x.dtype)
    squares = formula(builder, lambda e: e.to(inner) * e.to(inner), x)
    mean = reductions.mean(builder, squares, axes, keep=True)

    def unscaled(e: Element, mean_square: Element) -> Element:
        """Return one element of x divided by the root of the mean square."""
        return e.to(inner) * (mean_square + epsilon).unary("rsqrt")

    if scale is None:
        return formula(builder, lambda e, m: unscaled(e, m).to(x.dtype), x, mean)
    return formula(builder, lambda e, m, s: (unscaled(e, m) * s.to(inner)).to(x.dtype), x, mean, scale)


def along(builder: Builder, x: MaybeTensor, axis: int, rank: int) -> MaybeTensor:
    """Reshape a vector so that it broadcasts along one axis of a tensor of rank `rank`; None is returned unchanged."""
    if x is None:
        return x
    return shapes.reshape(builder, x, [x.shape[0] if d == axis else 1 for d in range(rank)])


def batch_norm(
    builder: Builder, x: Tensor, axis: int, mean: Tensor, variance: Tensor, scale: Tensor | None, bias: Tensor | None,
    epsilon: float,
) -> Tensor:  # fmt: skip
    """Return (x - mean) / sqrt(variance + epsilon) * scale + bias, computed as x * factor + added.

    mean, variance, scale and bias are vectors with an element for each position along `axis`. A scale or bias of None
    is not applied.
    """
    inner = wide(x.dtype)
    vectors = [t for t in (mean, variance, scale, bias) if t is not None]

    def factor_and_added(own_mean: Element, own_variance: Element, *scale_and_bias: Element) -> list[Element]:
        """Return [factor, added] of one position along `axis`: each x there becomes x * factor + added.

        scale_and_bias: the scale and the bias of the position, without those that are None. `inner` is the float type
        of the computation.
        """
        remaining = [n.to(inner) for n in scale_and_bias]
        factor = (own_variance.to(inner) + epsilon).unary("rsqrt")
        if scale is not None:
            factor = factor * remaining.pop(0)
        added = -(own_mean.to(inner) * factor)
        if bias is not None:
            added = added + remaining.pop(0)
        return [factor, added]

    factor, added = (along(builder, t, axis, x.rank) for t in formulas(builder, factor_and_added, *vectors))
    return formula(builder, lambda e, f, n: (e.to(inner) * f + n).to(x.dtype), x, factor, added)


def group_norm(
    builder: Builder, x: Tensor, groups: int, scale: Tensor | None, bias: Tensor | None, epsilon: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Normalize x [n, c, ...] over each of `groups` groups of channels; scale and bias are [c].

    Return the result, the mean and 1 / sqrt(variance + epsilon), both [n, groups].
    """
    channels = x.shape[1]
    if groups < 1 or not isinstance(channels, int) or channels % groups:
        raise builder.fail(f"{channels} channels of {x} cannot be normalized in {groups} group(s)")
    # A layer norm over the axes after the groups: [n, groups, channels of a group, ...].
    grouped = shapes.reshape(builder, x, [x.shape[0], groups, channels // groups, *x.shape[2:]])
    vectors = [
        shapes.reshape(builder, t, [1, groups, channels // groups, *[1] * (x.rank - 2)]) if t is not None else None
        for t in (scale, bias)
    ]
    result, mean, reciprocal_root = layer_norm(
        builder, grouped, range(2, grouped.rank), scale=vectors[0], bias=vectors[1], epsilon=epsilon
    )
    flat = (x.shape[0], groups)
    return (
        shapes.reshape(builder, result, x.shape),
        shapes.reshape(builder, mean, flat),
        shapes.reshape(builder, reciprocal_root, flat),
    )


def lp_norm(builder: Builder, x: Tensor, order: float, axes: Sequence[int] | None, keep: bool = False) -> Tensor:
    """Return (sum of |x|^order)^(1/order) along axes, all for None. With `keep`, these have size 1.

    The result is real. An infinite order gives the largest or smallest |x|, order 0 the number of non-zero elements.
    """
    values = ew.unary(builder, "abs", ew.convert(builder, x, wide(x.dtype)))
    if math.isinf(order):
        norm = reductions.reduce(builder, "max" if order > 0 else "min", values, axes, keep)
    elif order == 0:
        is_nonzero = formula(builder, lambda e: e.is_unequal(0.0).to(e.dtype), values)  # 1 or 0
        norm = reductions.reduce(builder, "add", is_nonzero, axes, keep)
    elif order == 1:
        norm = reductions.reduce(builder, "add", values, axes, keep)
    elif order == 2:
        squares = ew.binary(builder, "mul", values, values)
        norm = ew.unary(builder, "sqrt", reductions.reduce(builder, "add", squares, axes, keep))
    else:
        powers = formula(builder, lambda e: e.binary("pow", order), values)
        total = reductions.reduce(builder, "add", powers, axes, keep)
        norm = formula(builder, lambda e: e.binary("pow", 1.0 / order), total)
    return ew.convert(builder, norm, x.dtype.real)
