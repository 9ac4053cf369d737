"""Conversions of random number operators. Their numbers are those of `operations/random.py`, not PyTorch's."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from pydispatch.frontends.torch.memory import TensorMemory
from pydispatch.frontends.torch.nodes import pointwise
from pydispatch.frontends.torch.nodes.activations import leaky_relu
from pydispatch.frontends.torch.nodes.ordering import searchsorted
from pydispatch.frontends.torch.promotion import Number, Operand
from pydispatch.frontends.torch.registry import converts
from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import BOOL, F32, F64, I64, U64, DType
from pydispatch.graph.sizes import Size
from pydispatch.graph.values import Tensor
from pydispatch.operations import elementwise as ew
from pydispatch.operations import ordering, random, scans, shapes, slicing
from pydispatch.operations.formulas import Element, formula
from pydispatch.operations.reals import Scalar
from pydispatch.operations.scalars import Scalars

Sizes = Sequence[Size]


def _unit(builder: Builder, shape: Sizes) -> Tensor:
    """Return uniformly distributed f32 numbers in [0, 1)."""
    return random.uniform(builder, random.draw(builder, shape)[0], F32)


def _require_float(builder: Builder, dtype: DType) -> DType:
    """Return `dtype` unchanged. Raise CompileError if it is not a float."""
    if not dtype.is_float:
        raise builder.fail(f"random numbers of {dtype} are not defined; they are floats")
    return dtype


@converts("aten.rand")
def rand(builder: Builder, size: Sizes, *, dtype: DType | None = None) -> Tensor:
    """Return uniformly distributed floats in [0, 1)."""
    return uniform_samples(builder, size, _require_float(builder, dtype or F32), 0.0, 1.0)


def _floats_of(builder: Builder, like: Tensor, written: Callable[[Element], Element], samples: Tensor) -> Tensor:
    """Apply the formula `written`, which gives samples another distribution, and convert to the type of `like`.

    Raise CompileError if that is no float.
    """
    return ew.convert(builder, formula(builder, written, samples), _require_float(builder, like.dtype))


def _normal_for(builder: Builder, like: Tensor) -> Tensor:
    """Return standard normal samples of the shape of `like`: as f64 if it is f64, else as f32.

    Samples of a narrower type would be rounded before the caller's formula, and its result a second time.
    """
    return random.normal(builder, *random.draw(builder, like.shape), F64 if like.dtype == F64 else F32)


def uniform_samples(builder: Builder, shape: Sizes, dtype: DType, low: float, high: float) -> Tensor:
    """Return uniformly distributed floats in [low, high), computed in f32."""
    return random.between(builder, _unit(builder, shape), builder.constant(low, dtype), builder.constant(high, dtype))


@converts("aten.randn")
def randn(builder: Builder, size: Sizes, *, dtype: DType | None = None) -> Tensor:
    """Return standard normal floats."""
    return random.normal(builder, *random.draw(builder, size), _require_float(builder, dtype or F32))


@converts("aten.randint")
def randint(builder: Builder, high: int, size: Sizes, *, dtype: DType | None = None) -> Tensor:
    """Return uniformly distributed integers in [0, high)."""
    return randint_low(builder, 0, high, size, dtype=dtype)


@converts("aten.randint.low")
def randint_low(builder: Builder, low: int, high: int, size: Sizes, *, dtype: DType | None = None) -> Tensor:
    """Return uniformly distributed integers in [low, high)."""
    return _integers(builder, low, high, size, dtype or I64)


def _integers(builder: Builder, low: int, high: int, shape: Sizes, dtype: DType) -> Tensor:
    """Return uniformly distributed integers in [low, high).

    A number is `low` plus the upper 32 bits of the 64-bit product of 32 random bits and high - low.
    """
    if not 0 < high - low <= 1 << 32:
        raise builder.fail(f"random integers from {low} up to {high}: they have from 1 to 2^32 values")
    count = high - low  # read by `scaled`

    def scaled(scalars: Scalars, bits: Scalar) -> Scalar:
        """Return low + the upper half of bits * (high - low) for one number of 32 random bits."""
        wide = scalars.binary("mul", scalars.convert(bits, U64), scalars.const(count, U64))
        position = scalars.convert(scalars.binary("shift_right_logical", wide, scalars.const(32, U64)), I64)
        return scalars.convert(scalars.binary("add", position, scalars.const(low, I64)), dtype)

    return ew.apply(builder, scaled, random.draw(builder, shape)[0])


@converts("aten.rand_like")
def rand_like(builder: Builder, self: Tensor, *, dtype: DType | None = None) -> Tensor:
    """Return uniformly distributed floats of the shape of a tensor."""
    return rand(builder, self.shape, dtype=dtype or self.dtype)


@converts("aten.randn_like")
def randn_like(builder: Builder, self: Tensor, *, dtype: DType | None = None) -> Tensor:
    """Return standard normal floats of the shape of a tensor."""
    return randn(builder, self.shape, dtype=dtype or self.dtype)


@converts("aten.randint_like")
def randint_like(builder: Builder, self: Tensor, high: int, *, dtype: DType | None = None) -> Tensor:
    """Return uniformly distributed integers in [0, high) of the shape of a tensor."""
    return _integers(builder, 0, high, self.shape, dtype or self.dtype)


@converts("aten.randint_like.low_dtype")
def randint_like_low(builder: Builder, self: Tensor, low: int, high: int, *, dtype: DType | None = None) -> Tensor:
    """Return uniformly distributed integers in [low, high) of the shape of a tensor."""
    return _integers(builder, low, high, self.shape, dtype or self.dtype)


@converts("aten.bernoulli")
def bernoulli(builder: Builder, self: Tensor) -> Tensor:
    """Return for each element of `self`, a probability, 1 with that probability, else 0, in the type of `self`."""
    samples = ew.compare(builder, "lt", _unit(builder, self.shape), ew.convert(builder, self, F32))
    return ew.convert(builder, samples, self.dtype)


@converts("aten.bernoulli.p", "aten.bernoulli.float")
def bernoulli_p(builder: Builder, self: Tensor, p: float = 0.5) -> Tensor:
    """Return 1 with probability p, else 0, in the type and shape of a tensor."""
    return ew.convert(builder, random_mask(builder, self.shape, p), self.dtype)


def random_mask(builder: Builder, shape: Sizes, p: float) -> Tensor:
    """Return a mask whose elements are true with probability p. Raise CompileError unless p is from 0 to 1."""
    if not 0 <= p <= 1:
        raise builder.fail(f"a probability of {p}; it is from 0 to 1")
    return ew.compare(builder, "lt", _unit(builder, shape), builder.constant(p, F32))


@converts("aten.uniform")
def uniform(builder: Builder, self: Tensor, from_: float = 0.0, to: float = 1.0) -> Tensor:
    """Return uniformly distributed floats in [from_, to) of the type and shape of a tensor."""
    return uniform_samples(builder, self.shape, _require_float(builder, self.dtype), from_, to)


@converts("aten.normal_functional", "aten.normal.default")
def normal(builder: Builder, self: Tensor, mean: float = 0.0, std: float = 1.0) -> Tensor:
    """Return normally distributed floats of the type and shape of a tensor."""
    return _floats_of(builder, self, lambda v: v * std + mean, _normal_for(builder, self))


@converts("aten.bernoulli.Tensor")
def bernoulli_like(builder: Builder, self: Tensor, p: Tensor) -> Tensor:
    """Return 1 with the probabilities p, broadcast to the shape of `self`, else 0, in the type of `self`."""
    chance = shapes.broadcast_to(builder, ew.convert(builder, p, F32), self.shape)
    return ew.convert(builder, ew.compare(builder, "lt", _unit(builder, self.shape), chance), self.dtype)


def _exponential(builder: Builder, shape: Sizes) -> Tensor:
    """Return exponentially distributed f32 numbers of rate 1, all larger than 0.

    They are -log(1 - u) for uniform u in [0, 1). A u of 0 would give the result 0, so it is replaced by 2^-24: the
    least power of two for which 1 - u is not rounded to 1.
    """
    return formula(
        builder,
        lambda u: -(1.0 - u).unary("log"),
        formula(builder, lambda u: u.max(2.0**-24), _unit(builder, shape)),
    )


@converts("aten.exponential")
def exponential(builder: Builder, self: Tensor, lambd: float = 1.0) -> Tensor:
    """Return exponentially distributed floats of the rate `lambd`, of the type and shape of a tensor."""
    if lambd <= 0:
        raise builder.fail(f"an exponential distribution with the rate {lambd}; it is larger than 0")
    return _floats_of(builder, self, lambda v: v / lambd, _exponential(builder, self.shape))


@converts(*(f"aten.normal.{kinds}" for kinds in ("Tensor_Tensor", "Tensor_float", "float_Tensor")))
def normal_by_element(builder: Builder, mean: Operand, std: Operand) -> Tensor:
    """Return normally distributed numbers, with the mean and standard deviation of each element; either may be a
    number.
    """
    tensors = [v for v in (mean, std) if isinstance(v, Tensor)]
    dtype, shape = _require_float(builder, tensors[0].dtype), ew.broadcast_shape(builder, *(v.shape for v in tensors))
    return pointwise.add(builder, pointwise.mul(builder, randn(builder, shape, dtype=dtype), std), mean)


@converts("aten.normal.float_float")
def normal_of_shape(builder: Builder, mean: float, std: float, size: Sizes, *, dtype: DType | None = None) -> Tensor:
    """Return normally distributed floats of a shape."""
    samples = randn(builder, size, dtype=dtype)
    return formula(builder, lambda v: v * std + mean, samples)


@converts("aten.log_normal")
def log_normal(builder: Builder, self: Tensor, mean: float = 1.0, std: float = 2.0) -> Tensor:
    """Return the exponentials of normally distributed floats, of the type and shape of a tensor."""
    return _floats_of(builder, self, lambda v: (v * std + mean).unary("exp"), _normal_for(builder, self))


@converts("aten.cauchy")
def cauchy(builder: Builder, self: Tensor, median: float = 0.0, sigma: float = 1.0) -> Tensor:
    """Return floats of the Cauchy distribution with the median `median` and the scale `sigma`.

    They have the type and shape of `self`, whose elements are not read. They are the inverse of the distribution
    function at uniform numbers.
    """
    unit = _unit(builder, self.shape)
    return _floats_of(builder, self, lambda u: ((u - 0.5) * math.pi).unary("tan") * sigma + median, unit)


@converts("aten.geometric")
def geometric(builder: Builder, self: Tensor, p: float) -> Tensor:
    """Return geometrically distributed numbers: the number of trials up to and including the first success of
    probability p.
    """
    if not 0 < p < 1:
        raise builder.fail(f"a geometric distribution with the probability {p}; it is between 0 and 1")
    # If v is exponentially distributed with rate 1, ceil(v / rate) is k with the probability (1 - p)^(k - 1) * p.
    rate = -math.log1p(-p)
    return ew.convert(
        builder, formula(builder, lambda v: (v / rate).unary("ceil"), _exponential(builder, self.shape)), self.dtype
    )


@converts("aten.multinomial")
def multinomial(builder: Builder, self: Tensor, num_samples: Size, replacement: bool = False) -> Tensor:
    """Return indices of `num_samples` elements of each row, drawn with probabilities proportional to the elements.

    With replacement, each draw is the index of the first running sum of the row that is larger than a random number
    below the sum of the row.
    """
    weights = ew.convert(builder, self, F32)
    axis = weights.rank - 1
    if replacement:
        running = scans.cumulative(builder, "add", weights, axis)
        total = slicing.slice_axis(builder, running, axis, running.shape[axis] - 1, running.shape[axis])
        # u * sum may round up to the sum, which searchsorted would map to an index after the last element.
        at = formula(
            builder,
            lambda u, s: (u * s).min(s * (1.0 - 2.0**-23)),
            _unit(builder, (*self.shape[:-1], num_samples)),
            total,
        )
        return searchsorted(builder, running, at, right=True)
    # Without replacement: for exponentially distributed e_i, w_i / e_i is the largest of all with probability
    # w_i / sum(w), so the indices of the largest `num_samples` are that many draws.
    keys = formula(builder, lambda w, e: w / e, weights, _exponential(builder, self.shape))
    return ordering.top_k(builder, keys, num_samples, axis)[1]


@converts("aten.rrelu")
def rrelu(
    builder: Builder, self: Tensor, lower: Number = 0.125, upper: Number = 1 / 3, training: bool = False
) -> Tensor:
    """Return self where it is positive, else self times a slope: a random one in [lower, upper) for each element in
    training, else their mean.
    """
    return _random_leaky_relu(builder, self, lower, upper, training)[0]


@converts("aten.rrelu_with_noise")
def rrelu_with_noise(
    builder: Builder,
    self: Tensor,
    noise: TensorMemory,
    lower: Number = 0.125,
    upper: Number = 1 / 3,
    training: bool = False,
) -> Tensor:
    """Return the result of `rrelu`; in training, the factor of each element (1 if it is positive, else the random
    slope) is also written to `noise`.
    """
    result, slopes = _random_leaky_relu(builder, self, lower, upper, training)
    if training:
        noise.write(ew.convert(builder, slopes, noise.tensor.dtype))
    return result


@converts("aten.rrelu_with_noise_functional")
def rrelu_with_noise_functional(
    builder: Builder, self: Tensor, noise: Tensor, lower: Number = 0.125, upper: Number = 1 / 3, training: bool = False
) -> tuple[Tensor, Tensor]:
    """Return the result of `rrelu`, and the factor of each element (1 if it is positive, else the random slope);
    outside of training `noise`, unchanged.
    """
    result, slopes = _random_leaky_relu(builder, self, lower, upper, training)
    return result, ew.convert(builder, slopes, noise.dtype) if training else noise


def _random_leaky_relu(
    builder: Builder, x: Tensor, lower: Number, upper: Number, training: bool
) -> tuple[Tensor, Tensor]:
    """Return x times a factor for each element, and the factors: 1 for positive elements, else a slope.

    In training, each slope is random in [lower, upper). Otherwise every slope is the mean of both bounds, and the
    second result is not the factors but x, a placeholder that callers ignore.
    """
    low, high = float(lower), float(upper)  # type: ignore[arg-type]
    if not training:
        return leaky_relu(builder, x, (low + high) / 2), x
    random_slopes = uniform_samples(builder, x.shape, _require_float(builder, x.dtype), low, high)
    slopes = formula(builder, lambda v, s: (v <= 0.0).where(s, 1.0), x, random_slopes)
    return ew.binary(builder, "mul", x, slopes), slopes


@converts("aten.native_dropout")
def native_dropout(builder: Builder, input: Tensor, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
    """Return the input with elements zeroed with probability p and the others scaled by 1 / (1 - p), and a mask that
    is true for the others. If `train` is False (None counts as True), the input is returned unchanged.
    """
    if train is False or p == 0:
        return input, shapes.broadcast_to(builder, builder.constant(elements=True, dtype=BOOL), input.shape)
    mask = random_mask(builder, input.shape, 1 - p)
    scale = 0.0 if p == 1 else 1 / (1 - p)
    return formula(builder, lambda x, m: m.where(x * scale, x.const(0)), input, mask), mask


@converts("aten.dropout")
def dropout(builder: Builder, input: Tensor, p: float, train: bool) -> Tensor:
    """Return the input with elements zeroed with probability p and the others scaled; unchanged outside of training."""
    return native_dropout(builder, input, p, train)[0]
