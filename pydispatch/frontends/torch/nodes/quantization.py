"""Integers that stand for floats: PT2E's `quantized_decomposed` operators, and `fake_quantize`."""

from __future__ import annotations

from collections.abc import Sequence

from pydispatch.frontends.graph.dtypes import BF16, F16, F32, F64, I8, I64, DType
from pydispatch.frontends.graph.values import Tensor
from pydispatch.frontends.ops import elementwise as ew
from pydispatch.frontends.ops import reductions, shapes
from pydispatch.frontends.ops.formulas import Element, formula, formulas
from pydispatch.frontends.ops.normalization import wide
from pydispatch.frontends.torch.nodes.pointwise import add as add_
from pydispatch.frontends.torch.nodes.pointwise import clamp, div, mul, sub
from pydispatch.frontends.torch.promotion import Number, Operand, as_tensor
from pydispatch.frontends.torch.trace import Conversion, Tracer


def _number(t: Tracer, given: Operand) -> Operand:
    """Return a tensor of one element as one of rank 0, which does not decide the type of a result."""
    return shapes.reshape(t.b, given, []) if isinstance(given, Tensor) else given


def _along(t: Tracer, vector: Tensor, axis: int, rank: int) -> Tensor:
    axis = shapes.axis_of(t.b, axis, rank)
    return shapes.reshape(t.b, vector, [-1, *[1] * (rank - axis - 1)])


def _as_integers(t: Tracer, x: Tensor, least: Operand, most: Operand, dtype: DType) -> Tensor:
    return ew.convert(t.b, clamp(t, x, _number(t, least), _number(t, most)), dtype)


def _rounded(t: Tracer, x: Tensor) -> Tensor:
    return ew.unary(t.b, "round_even", x)


# -- quantized_decomposed


def quantize_per_tensor(
    t: Tracer, input: Tensor, scale: Operand, zero_point: Operand, quant_min: Operand, quant_max: Operand,
    dtype: DType,
) -> Tensor:  # fmt: skip
    x = ew.convert(t.b, input, F32) if input.dtype in (F16, BF16) else input
    inverse = 1.0 / scale if isinstance(scale, float) else div(t, 1.0, _number(t, scale))
    scaled = _rounded(t, ew.binary(t.b, "mul", x, as_tensor(t, inverse, x.dtype)))
    moved = ew.binary(t.b, "add", scaled, as_tensor(t, _number(t, zero_point), x.dtype))
    return _as_integers(t, moved, quant_min, quant_max, dtype)


def dequantize_per_tensor(
    t: Tracer, input: Tensor, scale: Operand, zero_point: Operand, quant_min: Operand, quant_max: Operand,
    dtype: DType, *, out_dtype: DType | None = None,
) -> Tensor:  # fmt: skip
    x = ew.convert(t.b, input, out_dtype or F32)
    moved = ew.binary(t.b, "sub", x, as_tensor(t, _number(t, zero_point), x.dtype))
    return ew.binary(t.b, "mul", moved, as_tensor(t, _number(t, scale), x.dtype))


def quantize_per_channel(
    t: Tracer, input: Tensor, scales: Tensor, zero_points: Tensor, axis: int, quant_min: int, quant_max: int,
    dtype: DType,
) -> Tensor:  # fmt: skip
    x = ew.convert(t.b, input, F32) if input.dtype in (F16, BF16) else input
    scale, zero = (_along(t, v, axis, x.rank) for v in (scales, zero_points))
    scaled = _rounded(t, mul(t, x, div(t, 1.0, scale)))
    return _as_integers(t, add_(t, scaled, zero), quant_min, quant_max, dtype)


def dequantize_per_channel(
    t: Tracer, input: Tensor, scales: Tensor, zero_points: Tensor | None, axis: int, quant_min: int, quant_max: int,
    dtype: DType, *, out_dtype: DType | None = None,
) -> Tensor:  # fmt: skip
    x = input if zero_points is None else sub(t, input, _along(t, zero_points, axis, input.rank))
    return ew.convert(t.b, mul(t, x, _along(t, scales, axis, x.rank)), out_dtype or F32)


def quantize_per_token(
    t: Tracer, input: Tensor, scales: Tensor, zero_points: Tensor, quant_min: int, quant_max: int, dtype: DType
) -> Tensor:
    moved = add_(t, mul(t, input, div(t, 1.0, scales)), zero_points)
    return _as_integers(t, _rounded(t, moved), quant_min, quant_max, dtype)


def dequantize_per_token(
    t: Tracer, input: Tensor, scales: Tensor, zero_points: Tensor, quant_min: int, quant_max: int, dtype: DType,
    output_dtype: DType,
) -> Tensor:  # fmt: skip
    return ew.convert(t.b, mul(t, sub(t, input, zero_points), scales), output_dtype)


def _groups(t: Tracer, x: Tensor, scales: Tensor, group_size: int) -> Tensor:
    """Return the elements of a matrix in rows, each of which has one scale."""
    size = x.shape[-1]
    if isinstance(size, int) and group_size > size and scales.shape[-1] == 1:
        group_size = size
    return shapes.reshape(t.b, x, [-1, group_size])


def quantize_per_channel_group(
    t: Tracer, input: Tensor, scales: Tensor, zero_points: Tensor, quant_min: int, quant_max: int, dtype: DType,
    group_size: int = 128,
) -> Tensor:  # fmt: skip
    rows = _groups(t, input, scales, group_size)
    scale, zero = (shapes.reshape(t.b, v, [-1, 1]) for v in (scales, zero_points))
    made = quantize_per_token(t, rows, scale, zero, quant_min, quant_max, dtype)
    return shapes.reshape(t.b, made, input.shape)


def dequantize_per_channel_group(
    t: Tracer, w_int8: Tensor, scales: Tensor, zero_points: Tensor | None, quant_min: int, quant_max: int,
    dtype: DType, group_size: int = 128, output_dtype: DType = F32,
) -> Tensor:  # fmt: skip
    rows = _groups(t, w_int8, scales, group_size)
    rows = rows if zero_points is None else sub(t, rows, shapes.reshape(t.b, zero_points, [-1, 1]))
    made = mul(t, rows, shapes.reshape(t.b, scales, [-1, 1]))
    return ew.convert(t.b, shapes.reshape(t.b, made, w_int8.shape), output_dtype)


def _extremes_around_zero(t: Tracer, x: Tensor, axes: Sequence[int], keep: bool) -> list[Tensor]:
    found = [reductions.reduce(t.b, name, x, axes, keep) for name in ("min", "max")]
    return formulas(t.b, lambda low, high: (low.at_most(0.0), high.at_least(0.0)), *found)


def choose_qparams(
    t: Tracer, input: Tensor, quant_min: int, quant_max: int, eps: float, dtype: DType
) -> tuple[Tensor, Tensor]:
    extremes = _extremes_around_zero(t, input, range(input.rank), False)
    scale = formula(t.b, lambda low, high: ((high - low) / float(quant_max - quant_min)).at_least(eps), *extremes)

    def zero(low: Element, scale: Element) -> Element:
        return (quant_min - (low / scale).of("round_even")).at_least(quant_min).at_most(quant_max)

    return _parameters(t, scale, formula(t.b, zero, extremes[0], scale))


def choose_qparams_symmetric(
    t: Tracer, input: Tensor, quant_min: int, quant_max: int, eps: float, dtype: DType
) -> tuple[Tensor, Tensor]:
    half = (quant_max - quant_min) / 2

    def written(low: Element, high: Element) -> Element:
        return ((-low).at_least(high) / half).at_least(eps)

    scale = formula(t.b, written, *_extremes_around_zero(t, input, range(input.rank), False))
    zero = 0 if dtype.name == "i8" else (quant_min + quant_max + 1) // 2
    return _parameters(t, scale, t.b.constant(zero, I64))


def _parameters(t: Tracer, scale: Tensor, zero: Tensor) -> tuple[Tensor, Tensor]:
    given = ((scale, F64), (zero, I64))
    made = [ew.convert(t.b, shapes.reshape(t.b, v, [1]), dtype) for v, dtype in given]
    return made[0], made[1]


def choose_qparams_per_token(t: Tracer, input: Tensor, dtype: DType) -> tuple[Tensor, Tensor]:
    if dtype != I8:
        raise t.b.fail(f"scales of tokens as {dtype}; PyTorch has them for int8 alone")
    largest = reductions.reduce(t.b, "max", ew.unary(t.b, "abs", input), [-1], True)
    if largest.dtype == F16:
        largest = ew.convert(t.b, largest, F32)
    scales = formula(t.b, lambda v: (v.at_least(1e-5) / 127.0).to(F64), largest)
    return scales, shapes.full(t.b, 0, scales.shape, I64)


_XNNPACK_EPS = 1.1920928955078125e-07


def choose_qparams_per_token_asymmetric(t: Tracer, input: Tensor, dtype: DType) -> tuple[Tensor, Tensor]:
    extremes = _extremes_around_zero(t, input, [-1], True)
    scale = formula(t.b, lambda low, high: ((high - low) / 255.0).at_least(_XNNPACK_EPS), *extremes)

    def zero(low: Element, high: Element, scale: Element) -> Element:
        low, high = low / scale, high / scale
        found = ((low - 128.0) + (high + 127.0) > 0.0).choose(-128.0 - low, 127.0 - high)
        return found.at_least(-128.0).at_most(127.0).of("round_even").to(I64)

    return ew.convert(t.b, scale, F64), formula(t.b, zero, *extremes, scale)


def fake_quant_per_channel(
    t: Tracer, input: Tensor, scales: Tensor, zero_points: Tensor, axis: int, quant_min: int, quant_max: int
) -> Tensor:
    scale, zero = (_along(t, v, axis, input.rank) for v in (scales, zero_points))
    moved = add_(t, _rounded(t, mul(t, input, div(t, 1.0, scale))), zero)
    made = mul(t, sub(t, clamp(t, moved, quant_min, quant_max), zero), scale)
    return ew.convert(t.b, made, F32)


def convert_element_type(t: Tracer, input: Tensor, dtype: DType) -> Tensor:
    return ew.convert(t.b, input, dtype)


# -- fake_quantize


def _faked(
    t: Tracer, x: Tensor, scale: Operand, zero_point: Operand, least: Number, most: Number
) -> tuple[Tensor, Tensor]:
    """x as it is after quantization and back, and which elements are not cut off."""
    inner = wide(x.dtype)

    def written(v: Element, s: Element, zero: Element) -> list[Element]:
        place = (v.to(inner) * (1.0 / s)).of("round_even") + zero
        made = (place.at_least(float(least)).at_most(float(most)) - zero) * s  # type: ignore[arg-type]
        return [made.to(x.dtype), (place >= float(least)) & (place <= float(most))]  # type: ignore[arg-type]

    made = formulas(t.b, written, x, as_tensor(t, scale, inner), as_tensor(t, zero_point, inner))
    return made[0], made[1]


def fake_quantize_mask(
    t: Tracer, self: Tensor, scale: Operand, zero_point: Operand, quant_min: int, quant_max: int
) -> tuple[Tensor, Tensor]:
    return _faked(t, self, _number(t, scale), _number(t, zero_point), quant_min, quant_max)


def fake_quantize(
    t: Tracer, self: Tensor, scale: Operand, zero_point: Operand, quant_min: int, quant_max: int
) -> Tensor:
    return fake_quantize_mask(t, self, scale, zero_point, quant_min, quant_max)[0]


def fake_quantize_where_enabled(
    t: Tracer, self: Tensor, scale: Tensor, zero_point: Tensor, fake_quant_enabled: Tensor, quant_min: int,
    quant_max: int,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    made, mask = fake_quantize_mask(t, self, scale, zero_point, quant_min, quant_max)
    enabled = formula(t.b, lambda v: v.is_unequal(0), shapes.reshape(t.b, fake_quant_enabled, []))
    return ew.select(t.b, enabled, made, self), formula(t.b, lambda m, e: m | ~e, mask, enabled)


def fake_quantize_channels_mask(
    t: Tracer, self: Tensor, scale: Tensor, zero_point: Tensor, axis: int, quant_min: int, quant_max: int
) -> tuple[Tensor, Tensor]:
    scales, zeros = (_along(t, v, axis, self.rank) for v in (scale, zero_point))
    return _faked(t, self, scales, zeros, quant_min, quant_max)


def fake_quantize_channels(
    t: Tracer, self: Tensor, scale: Tensor, zero_point: Tensor, axis: int, quant_min: int, quant_max: int
) -> Tensor:
    return fake_quantize_channels_mask(t, self, scale, zero_point, axis, quant_min, quant_max)[0]


def _learned_zeros(t: Tracer, zero_point: Tensor, least: int, most: int) -> Tensor:
    return formula(t.b, lambda v: v.of("round_even").at_least(least).at_most(most), zero_point)


def fake_quantize_learned(
    t: Tracer, self: Tensor, scale: Tensor, zero_point: Tensor, quant_min: int, quant_max: int, grad_factor: float = 1.0
) -> Tensor:
    return fake_quantize(t, self, scale, _learned_zeros(t, zero_point, quant_min, quant_max), quant_min, quant_max)


def fake_quantize_channels_learned(
    t: Tracer, self: Tensor, scale: Tensor, zero_point: Tensor, axis: int, quant_min: int, quant_max: int,
    grad_factor: float = 1.0,
) -> Tensor:  # fmt: skip
    zeros = _learned_zeros(t, zero_point, quant_min, quant_max)
    return fake_quantize_channels(t, self, scale, zeros, axis, quant_min, quant_max)


QUANTIZATION: dict[str, Conversion] = {
    **{f"quantized_decomposed.{f.__name__}": f for f in (
        quantize_per_tensor, dequantize_per_tensor, quantize_per_channel, dequantize_per_channel, quantize_per_token,
        dequantize_per_token, quantize_per_channel_group, dequantize_per_channel_group, choose_qparams,
        choose_qparams_symmetric, choose_qparams_per_token, choose_qparams_per_token_asymmetric,
        fake_quant_per_channel, convert_element_type)},
    "quantized_decomposed._choose_qparams_per_token_asymmetric_impl": choose_qparams_per_token_asymmetric,
    "aten.fake_quantize_per_tensor_affine": fake_quantize,
    "aten.fake_quantize_per_tensor_affine_cachemask": fake_quantize_mask,
    "aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams": fake_quantize_where_enabled,
    "aten.fake_quantize_per_channel_affine": fake_quantize_channels,
    "aten.fake_quantize_per_channel_affine_cachemask": fake_quantize_channels_mask,
    "aten._fake_quantize_learnable_per_tensor_affine": fake_quantize_learned,
    "aten._fake_quantize_learnable_per_channel_affine": fake_quantize_channels_learned,
}  # fmt: skip
