"""Conversions of quantization: PT2E's `quantized_decomposed` operators and `fake_quantize`."""

from __future__ import annotations

from collections.abc import Sequence

from pydispatch.frontends.torch.nodes.pointwise import add as add_
from pydispatch.frontends.torch.nodes.pointwise import clamp, div, mul, sub
from pydispatch.frontends.torch.promotion import Number, Operand, as_tensor
from pydispatch.frontends.torch.registry import converts, register
from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import BF16, F16, F32, F64, I8, I64, DType
from pydispatch.graph.values import Tensor
from pydispatch.operations import elementwise as ew
from pydispatch.operations import reductions, shapes
from pydispatch.operations.formulas import Element, formula, formulas
from pydispatch.operations.normalization import wide


def _scalar(builder: Builder, operand: Operand) -> Operand:
    """Return a tensor of one element as a tensor of rank 0, which does not take part in type promotion with tensors of
    higher rank.
    """
    return shapes.reshape(builder, operand, []) if isinstance(operand, Tensor) else operand


def _reshape_along(builder: Builder, vector: Tensor, axis: int, rank: int) -> Tensor:
    """Reshape a vector so that it broadcasts along `axis`, which may count from the end, of a tensor of rank `rank`."""
    axis = shapes.axis_of(builder, axis, rank)
    return shapes.reshape(builder, vector, [-1, *[1] * (rank - axis - 1)])


def _clamp_to_integers(builder: Builder, x: Tensor, lower: Operand, upper: Operand, dtype: DType) -> Tensor:
    """Clamp x to the inclusive bounds `lower` and `upper`, and convert it to an integer type."""
    return ew.convert(builder, clamp(builder, x, _scalar(builder, lower), _scalar(builder, upper)), dtype)


def _round_half_to_even(builder: Builder, x: Tensor) -> Tensor:
    """Round each element to the nearest integer, halves to the even one."""
    return ew.unary(builder, "round_even", x)


# -- quantized_decomposed


def quantize_per_tensor(
    builder: Builder, input: Tensor, scale: Operand, zero_point: Operand, quant_min: Operand, quant_max: Operand,
    dtype: DType,
) -> Tensor:  # fmt: skip
    """Return clamp(round(input / scale) + zero_point) from quant_min to quant_max as `dtype`.

    The quotient is a product with 1 / scale, as in PyTorch. Scale, zero point and bounds are numbers, or tensors of one
    element.
    """
    x = ew.convert(builder, input, F32) if input.dtype in (F16, BF16) else input
    inverse = 1.0 / scale if isinstance(scale, float) else div(builder, 1.0, _scalar(builder, scale))
    scaled = _round_half_to_even(builder, ew.binary(builder, "mul", x, as_tensor(builder, inverse, x.dtype)))
    moved = ew.binary(builder, "add", scaled, as_tensor(builder, _scalar(builder, zero_point), x.dtype))
    return _clamp_to_integers(builder, moved, quant_min, quant_max, dtype)


def dequantize_per_tensor(
    builder: Builder, input: Tensor, scale: Operand, zero_point: Operand, quant_min: Operand, quant_max: Operand,
    dtype: DType, *, out_dtype: DType | None = None,
) -> Tensor:  # fmt: skip
    """Return (input - zero_point) * scale in `out_dtype`, f32 by default.

    quant_min, quant_max and dtype describe the range and type of the input, and have no effect.
    """
    x = ew.convert(builder, input, out_dtype or F32)
    moved = ew.binary(builder, "sub", x, as_tensor(builder, _scalar(builder, zero_point), x.dtype))
    return ew.binary(builder, "mul", moved, as_tensor(builder, _scalar(builder, scale), x.dtype))


def quantize_per_channel(
    builder: Builder, input: Tensor, scales: Tensor, zero_points: Tensor, axis: int, quant_min: int, quant_max: int,
    dtype: DType,
) -> Tensor:  # fmt: skip
    """Return clamp(round(input / scale) + zero_point) from quant_min to quant_max as `dtype`, with a scale and zero
    point for each index along `axis`.
    """
    x = ew.convert(builder, input, F32) if input.dtype in (F16, BF16) else input
    scale, zero = (_reshape_along(builder, v, axis, x.rank) for v in (scales, zero_points))
    scaled = _round_half_to_even(builder, mul(builder, x, div(builder, 1.0, scale)))
    return _clamp_to_integers(builder, add_(builder, scaled, zero), quant_min, quant_max, dtype)


def dequantize_per_channel(
    builder: Builder,
    input: Tensor,
    scales: Tensor,
    zero_points: Tensor | None,
    axis: int,
    quant_min: int,
    quant_max: int,
    dtype: DType,
    *,
    out_dtype: DType | None = None,
) -> Tensor:
    """Return (input - zero_point) * scale, with a zero point and a scale for each index along `axis`.

    zero_points: None for zeros. out_dtype: type of the result; None for f32. quant_min, quant_max and dtype describe
    the range and type of the input, and have no effect.
    """
    x = input
    # Zeros that are known at compile time are not subtracted.
    if zero_points is not None and (zero_points.known is None or zero_points.known.any()):
        zero = _reshape_along(builder, zero_points, axis, input.rank)
        # In f32, differences of small integers are exact, and the compiler recognizes them: it multiplies matrices of
        # such numbers as the stored integers (`compiler/fusion/quantized`).
        if input.dtype.bits <= 16:
            x, zero = ew.convert(builder, x, F32), ew.convert(builder, zero, F32)
        x = sub(builder, x, zero)
    return ew.convert(builder, mul(builder, x, _reshape_along(builder, scales, axis, x.rank)), out_dtype or F32)


def quantize_per_token(
    builder: Builder, input: Tensor, scales: Tensor, zero_points: Tensor, quant_min: int, quant_max: int, dtype: DType
) -> Tensor:
    """Return clamp(round(input * (1 / scale) + zero_point)) from quant_min to quant_max as `dtype`.

    scales, zero_points: one for each row of the input, [..., 1]. `quantize_per_tensor`, by contrast, rounds before it
    adds the zero point.
    """
    moved = add_(builder, mul(builder, input, div(builder, 1.0, scales)), zero_points)
    return _clamp_to_integers(builder, _round_half_to_even(builder, moved), quant_min, quant_max, dtype)


def dequantize_per_token(
    builder: Builder, input: Tensor, scales: Tensor, zero_points: Tensor, quant_min: int, quant_max: int, dtype: DType,
    output_dtype: DType,
) -> Tensor:  # fmt: skip
    """Return (input - zero_point) * scale in `output_dtype`, with a scale and zero point for each row, [..., 1].

    quant_min, quant_max and dtype describe the range and type of the input, and have no effect.
    """
    return ew.convert(builder, mul(builder, sub(builder, input, zero_points), scales), output_dtype)


def _rows_by_group(builder: Builder, x: Tensor, scales: Tensor, group_size: int) -> Tensor:
    """Reshape a matrix to rows of `group_size` elements, so that each row of the result has one scale.

    scales: [rows of x, groups of a row]. If a row has one scale and fewer than `group_size` elements, its group is the
    whole row.
    """
    size = x.shape[-1]
    if isinstance(size, int) and group_size > size and scales.shape[-1] == 1:
        group_size = size
    return shapes.reshape(builder, x, [-1, group_size])


def quantize_per_channel_group(
    builder: Builder, input: Tensor, scales: Tensor, zero_points: Tensor, quant_min: int, quant_max: int, dtype: DType,
    group_size: int = 128,
) -> Tensor:  # fmt: skip
    """Quantize groups of `group_size` adjacent elements of a row, each with its own scale and zero point.

    The result is clamp(round(input * (1 / scale) + zero_point)) from quant_min to quant_max as `dtype`.
    """
    rows = _rows_by_group(builder, input, scales, group_size)
    scale, zero = (shapes.reshape(builder, v, [-1, 1]) for v in (scales, zero_points))
    quantized = quantize_per_token(builder, rows, scale, zero, quant_min, quant_max, dtype)
    return shapes.reshape(builder, quantized, input.shape)


def dequantize_per_channel_group(
    builder: Builder, w_int8: Tensor, scales: Tensor, zero_points: Tensor | None, quant_min: int, quant_max: int,
    dtype: DType, group_size: int = 128, output_dtype: DType = F32,
) -> Tensor:  # fmt: skip
    """Return (w_int8 - zero_point) * scale, with a scale and a zero point for each group of `group_size` adjacent
    elements of a row.

    zero_points: None for zeros. quant_min, quant_max and dtype describe the range and type of the input, and have no
    effect.
    """
    rows = _rows_by_group(builder, w_int8, scales, group_size)
    rows = rows if zero_points is None else sub(builder, rows, shapes.reshape(builder, zero_points, [-1, 1]))
    values = mul(builder, rows, shapes.reshape(builder, scales, [-1, 1]))
    return ew.convert(builder, shapes.reshape(builder, values, w_int8.shape), output_dtype)


def _extremes_around_zero(builder: Builder, x: Tensor, axes: Sequence[int], keep: bool) -> list[Tensor]:
    """Return the minimum and maximum along axes, extended so that the range contains 0, which zero points represent
    exactly. keep: whether reduced axes stay, with size 1.
    """
    extremes = [reductions.reduce(builder, name, x, axes, keep) for name in ("min", "max")]
    return formulas(builder, lambda low, high: (low.min(0.0), high.max(0.0)), *extremes)


def choose_qparams(
    builder: Builder, input: Tensor, quant_min: int, quant_max: int, eps: float, dtype: DType
) -> tuple[Tensor, Tensor]:
    """Return the scale and the zero point for a range of integers from quant_min to quant_max, vectors of one element.

    They map the range of the elements, extended to contain 0, to these integers. The scale is at least eps. `dtype` has
    no effect.
    """
    extremes = _extremes_around_zero(builder, input, range(input.rank), keep=False)
    scale = formula(builder, lambda low, high: ((high - low) / float(quant_max - quant_min)).max(eps), *extremes)

    def zero(low: Element, scale: Element) -> Element:
        """Return the zero point that maps the minimum to quant_min, clamped to the range of integers."""
        return (quant_min - (low / scale).unary("round_even")).max(quant_min).min(quant_max)

    return _as_vectors(builder, scale, formula(builder, zero, extremes[0], scale))


def choose_qparams_symmetric(
    builder: Builder, input: Tensor, quant_min: int, quant_max: int, eps: float, dtype: DType
) -> tuple[Tensor, Tensor]:
    """Return the scale and the zero point for a range of integers from quant_min to quant_max, vectors of one element.

    The scale, at least eps, maps the largest magnitude to half the length of the range. The zero point is the middle of
    the range; for int8 it is 0.
    """
    half = (quant_max - quant_min) / 2

    def scale_of(low: Element, high: Element) -> Element:
        """Return the largest magnitude divided by `half`, at least eps. low, high: extremes of the elements and 0."""
        return ((-low).max(high) / half).max(eps)

    scale = formula(builder, scale_of, *_extremes_around_zero(builder, input, range(input.rank), keep=False))
    # PyTorch takes 0 for int8 whatever the range is.
    zero = 0 if dtype.name == "i8" else (quant_min + quant_max + 1) // 2
    return _as_vectors(builder, scale, builder.constant(zero, I64))


def _as_vectors(builder: Builder, scale: Tensor, zero: Tensor) -> tuple[Tensor, Tensor]:
    """Convert a scale to f64 and a zero point to i64, and reshape both to vectors of one element."""
    typed = ((scale, F64), (zero, I64))
    vectors = [ew.convert(builder, shapes.reshape(builder, v, [1]), dtype) for v, dtype in typed]
    return vectors[0], vectors[1]


_LEAST_MAGNITUDE_OF_TOKEN = 1e-5
"""Lower bound of the largest magnitude in a row, as in PyTorch's `_choose_qparams_per_token`: keeps scales above 0."""


def choose_qparams_per_token(builder: Builder, input: Tensor, dtype: DType) -> tuple[Tensor, Tensor]:
    """Return the scale and the zero point of each row (token) along the last axis, both [..., 1].

    The scale, an f64, maps the largest magnitude of the row to 127. The zero point is 0.
    """
    if dtype != I8:
        raise builder.fail(f"scales of tokens as {dtype}; PyTorch has them for int8 alone")
    largest = reductions.reduce(builder, "max", ew.unary(builder, "abs", input), [-1], keep=True)
    if largest.dtype == F16:
        largest = ew.convert(builder, largest, F32)
    scales = formula(builder, lambda v: (v.max(_LEAST_MAGNITUDE_OF_TOKEN) / 127.0).to(F64), largest)
    return scales, shapes.full(builder, 0, scales.shape, I64)


_XNNPACK_EPS = 1.1920928955078125e-07  # 2^-23; the smallest scale that XNNPACK's kernels accept


@converts("quantized_decomposed._choose_qparams_per_token_asymmetric_impl")
def choose_qparams_per_token_asymmetric(builder: Builder, input: Tensor, dtype: DType) -> tuple[Tensor, Tensor]:
    """Return the scale (f64) and the zero point of each row, both [..., 1].

    They map the range of the row's elements, extended to contain 0, to the integers from -128 to 127. `dtype` has no
    effect.
    """
    extremes = _extremes_around_zero(builder, input, [-1], keep=True)
    scale = formula(builder, lambda low, high: ((high - low) / 255.0).max(_XNNPACK_EPS), *extremes)

    def zero(low: Element, high: Element, scale: Element) -> Element:
        """Return the zero point, computed from the minimum or from the maximum of the row by the rule of PyTorch."""
        low, high = low / scale, high / scale
        # -128 - low maps the minimum to -128; 127 - high maps the maximum to 127.
        zero_ = ((low - 128.0) + (high + 127.0) > 0.0).where(-128.0 - low, 127.0 - high)
        return zero_.max(-128.0).min(127.0).unary("round_even").to(I64)

    return ew.convert(builder, scale, F64), formula(builder, zero, *extremes, scale)


def fake_quant_per_channel(
    builder: Builder, input: Tensor, scales: Tensor, zero_points: Tensor, axis: int, quant_min: int, quant_max: int
) -> Tensor:
    """Quantize and dequantize, with a scale and zero point for each index along `axis`; the result is f32."""
    scale, zero = (_reshape_along(builder, v, axis, input.rank) for v in (scales, zero_points))
    moved = add_(builder, _round_half_to_even(builder, mul(builder, input, div(builder, 1.0, scale))), zero)
    result = mul(builder, sub(builder, clamp(builder, moved, quant_min, quant_max), zero), scale)
    return ew.convert(builder, result, F32)


# -- fake_quantize


def _fake_quantize(
    builder: Builder, x: Tensor, scale: Operand, zero_point: Operand, least: Number, most: Number
) -> tuple[Tensor, Tensor]:
    """Return x quantized to integers in [least, most] and dequantized again, and the mask that multiplies its
    gradient.

    The mask is true for elements that were not clamped. scale, zero_point: numbers, or tensors that broadcast to x.
    """
    inner = wide(x.dtype)

    def dequantized_and_mask(value: Element, s: Element, zero: Element) -> list[Element]:
        """Return the dequantized element, and whether its quantized number was within the range."""
        quantized = (value.to(inner) * (1.0 / s)).unary("round_even") + zero
        dequantized = (quantized.max(float(least)).min(float(most)) - zero) * s  # type: ignore[arg-type]
        return [dequantized.to(x.dtype), (quantized >= float(least)) & (quantized <= float(most))]  # type: ignore[arg-type]

    scale, zero_point = as_tensor(builder, scale, inner), as_tensor(builder, zero_point, inner)
    results = formulas(builder, dequantized_and_mask, x, scale, zero_point)
    return results[0], results[1]


@converts("aten.fake_quantize_per_tensor_affine_cachemask")
def fake_quantize_mask(
    builder: Builder, self: Tensor, scale: Operand, zero_point: Operand, quant_min: int, quant_max: int
) -> tuple[Tensor, Tensor]:
    """Quantize and dequantize with one scale and zero point. Return the result, and a mask that is true for the
    elements that were not clamped.
    """
    return _fake_quantize(builder, self, _scalar(builder, scale), _scalar(builder, zero_point), quant_min, quant_max)


@converts("aten.fake_quantize_per_tensor_affine")
def fake_quantize(
    builder: Builder, self: Tensor, scale: Operand, zero_point: Operand, quant_min: int, quant_max: int
) -> Tensor:
    """Quantize and dequantize with one scale and zero point."""
    return fake_quantize_mask(builder, self, scale, zero_point, quant_min, quant_max)[0]


@converts("aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams")
def fake_quantize_if_enabled(
    builder: Builder, self: Tensor, scale: Tensor, zero_point: Tensor, fake_quant_enabled: Tensor, quant_min: int,
    quant_max: int,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Return `self` quantized and dequantized, and the mask of the elements that were not clamped.

    If the flag tensor `fake_quant_enabled` is 0 at run time, return `self` and a mask whose elements are all true.
    """
    result, mask = fake_quantize_mask(builder, self, scale, zero_point, quant_min, quant_max)
    enabled = formula(builder, lambda v: v.is_unequal(0), shapes.reshape(builder, fake_quant_enabled, []))
    return ew.select(builder, enabled, result, self), formula(builder, lambda m, e: m | ~e, mask, enabled)


@converts("aten.fake_quantize_per_channel_affine_cachemask")
def fake_quantize_channels_mask(
    builder: Builder, self: Tensor, scale: Tensor, zero_point: Tensor, axis: int, quant_min: int, quant_max: int
) -> tuple[Tensor, Tensor]:
    """Quantize and dequantize with a scale and zero point for each index along `axis`. Return the result, and a mask
    that is true for the elements that were not clamped.
    """
    scales, zeros = (_reshape_along(builder, v, axis, self.rank) for v in (scale, zero_point))
    return _fake_quantize(builder, self, scales, zeros, quant_min, quant_max)


@converts("aten.fake_quantize_per_channel_affine")
def fake_quantize_channels(
    builder: Builder, self: Tensor, scale: Tensor, zero_point: Tensor, axis: int, quant_min: int, quant_max: int
) -> Tensor:
    """Quantize and dequantize with a scale and zero point for each index along `axis`."""
    return fake_quantize_channels_mask(builder, self, scale, zero_point, axis, quant_min, quant_max)[0]


def _round_zero_points(builder: Builder, zero_point: Tensor, least: int, most: int) -> Tensor:
    """Round learned zero points, which are floats, and clamp them to the range of the quantized integers."""
    return formula(builder, lambda v: v.unary("round_even").max(least).min(most), zero_point)


@converts("aten._fake_quantize_learnable_per_tensor_affine")
def fake_quantize_learned(
    builder: Builder,
    self: Tensor,
    scale: Tensor,
    zero_point: Tensor,
    quant_min: int,
    quant_max: int,
    grad_factor: float = 1.0,
) -> Tensor:
    """Quantize and dequantize with a learned zero point, a float that is rounded and clamped first.

    `grad_factor` affects gradients only.
    """
    return fake_quantize(
        builder, self, scale, _round_zero_points(builder, zero_point, quant_min, quant_max), quant_min, quant_max
    )


@converts("aten._fake_quantize_learnable_per_channel_affine")
def fake_quantize_channels_learned(
    builder: Builder, self: Tensor, scale: Tensor, zero_point: Tensor, axis: int, quant_min: int, quant_max: int,
    grad_factor: float = 1.0,
) -> Tensor:  # fmt: skip
    """Quantize and dequantize `self` with a scale and a zero point for each index along `axis`.

    zero_point: learned floats; they are first rounded, and clamped to [quant_min, quant_max]. `grad_factor` affects
    gradients only.
    """
    zeros = _round_zero_points(builder, zero_point, quant_min, quant_max)
    return fake_quantize_channels(builder, self, scale, zeros, axis, quant_min, quant_max)


register({
    **{f"quantized_decomposed.{f.__name__}": f for f in (
        quantize_per_tensor, dequantize_per_tensor, quantize_per_channel, dequantize_per_channel, quantize_per_token,
        dequantize_per_token, quantize_per_channel_group, dequantize_per_channel_group, choose_qparams,
        choose_qparams_symmetric, choose_qparams_per_token, choose_qparams_per_token_asymmetric,
        fake_quant_per_channel)},
})  # fmt: skip
