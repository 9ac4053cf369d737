"""Operators that draw random numbers. See `ops/random.py` for what they draw; it is not what PyTorch draws."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pydispatch.frontends.graph.dtypes import BOOL, F32, F64, I64, U64, DType
from pydispatch.frontends.graph.sizes import Size
from pydispatch.frontends.graph.values import Tensor
from pydispatch.frontends.ops import elementwise as ew
from pydispatch.frontends.ops import ordering, random, scans, shapes
from pydispatch.frontends.ops.formulas import formula
from pydispatch.frontends.ops.reals import Scalar
from pydispatch.frontends.ops.scalars import Scalars
from pydispatch.frontends.torch.memory import TensorMemory
from pydispatch.frontends.torch.nodes import pointwise
from pydispatch.frontends.torch.nodes.activations import leaky_relu
from pydispatch.frontends.torch.nodes.ordering import searchsorted
from pydispatch.frontends.torch.promotion import Number, Operand
from pydispatch.frontends.torch.trace import Conversion, Tracer

Sizes = Sequence[Size]


def _unit(tracer: Tracer, shape: Sizes) -> Tensor:
    """f32 from 0 up to 1."""
    return random.uniform(tracer.b, random.draw(tracer.b, shape)[0], F32)


def _check_float(tracer: Tracer, dtype: DType) -> DType:
    if not dtype.is_float:
        raise tracer.b.fail(f"random numbers of {dtype} are not defined; they are floats")
    return dtype


def rand(tracer: Tracer, size: Sizes, *, dtype: DType | None = None) -> Tensor:
    return uniform_of(tracer, size, _check_float(tracer, dtype or F32), 0.0, 1.0)


def uniform_of(tracer: Tracer, shape: Sizes, dtype: DType, low: float, high: float) -> Tensor:
    samples = formula(tracer.b, lambda u: u * (high - low) + low, _unit(tracer, shape))
    return ew.convert(tracer.b, samples, dtype)


def randn(tracer: Tracer, size: Sizes, *, dtype: DType | None = None) -> Tensor:
    return random.normal(tracer.b, *random.draw(tracer.b, size), _check_float(tracer, dtype or F32))


def randint(tracer: Tracer, high: int, size: Sizes, *, dtype: DType | None = None) -> Tensor:
    return randint_low(tracer, 0, high, size, dtype=dtype)


def randint_low(tracer: Tracer, low: int, high: int, size: Sizes, *, dtype: DType | None = None) -> Tensor:
    return _integers(tracer, low, high, size, dtype or I64)


def _integers(tracer: Tracer, low: int, high: int, shape: Sizes, dtype: DType) -> Tensor:
    """Return random integers from `low` to `high` - 1.

    Each value is `low` plus the upper 32 bits of the product of 32 random bits and the number of values.
    """
    if not 0 < high - low <= 1 << 32:
        raise tracer.b.fail(f"random integers from {low} up to {high}: they have from 1 to 2^32 values")
    count = high - low

    def one(scalars: Scalars, bits: Scalar) -> Scalar:
        wide = scalars.binary("mul", scalars.convert(bits, U64), scalars.const(count, U64))
        position = scalars.convert(scalars.binary("shift_right_logical", wide, scalars.const(32, U64)), I64)
        return scalars.convert(scalars.binary("add", position, scalars.const(low, I64)), dtype)

    return ew.apply(tracer.b, one, random.draw(tracer.b, shape)[0])


def rand_like(tracer: Tracer, self: Tensor, *, dtype: DType | None = None) -> Tensor:
    return rand(tracer, self.shape, dtype=dtype or self.dtype)


def randn_like(tracer: Tracer, self: Tensor, *, dtype: DType | None = None) -> Tensor:
    return randn(tracer, self.shape, dtype=dtype or self.dtype)


def randint_like(tracer: Tracer, self: Tensor, high: int, *, dtype: DType | None = None) -> Tensor:
    return _integers(tracer, 0, high, self.shape, dtype or self.dtype)


def randint_like_low(tracer: Tracer, self: Tensor, low: int, high: int, *, dtype: DType | None = None) -> Tensor:
    return _integers(tracer, low, high, self.shape, dtype or self.dtype)


def bernoulli(tracer: Tracer, self: Tensor) -> Tensor:
    """1 with the probability that each element states."""
    samples = ew.compare(tracer.b, "lt", _unit(tracer, self.shape), ew.convert(tracer.b, self, F32))
    return ew.convert(tracer.b, samples, self.dtype)


def bernoulli_p(tracer: Tracer, self: Tensor, p: float = 0.5) -> Tensor:
    return ew.convert(tracer.b, kept(tracer, self.shape, p), self.dtype)


def kept(tracer: Tracer, shape: Sizes, p: float) -> Tensor:
    """Return a mask of this shape whose elements are True with the probability p."""
    if not 0 <= p <= 1:
        raise tracer.b.fail(f"a probability of {p}; it is from 0 to 1")
    return ew.compare(tracer.b, "lt", _unit(tracer, shape), tracer.b.constant(p, F32))


def uniform(tracer: Tracer, self: Tensor, from_: float = 0.0, to: float = 1.0) -> Tensor:
    return uniform_of(tracer, self.shape, _check_float(tracer, self.dtype), from_, to)


def normal(tracer: Tracer, self: Tensor, mean: float = 0.0, std: float = 1.0) -> Tensor:
    samples = random.normal(tracer.b, *random.draw(tracer.b, self.shape), F64 if self.dtype == F64 else F32)
    return ew.convert(tracer.b, formula(tracer.b, lambda v: v * std + mean, samples), _check_float(tracer, self.dtype))


def bernoulli_of(tracer: Tracer, self: Tensor, p: Tensor) -> Tensor:
    """1 with the probabilities that a tensor states, in the shape of another one."""
    chance = shapes.broadcast_to(tracer.b, ew.convert(tracer.b, p, F32), self.shape)
    return ew.convert(tracer.b, ew.compare(tracer.b, "lt", _unit(tracer, self.shape), chance), self.dtype)


def _exponential(tracer: Tracer, shape: Sizes) -> Tensor:
    """Return f32 numbers larger than 0 with the density exp(-x).

    The smallest u is 2^-24: in f32, 1 - u rounds to 1 for u = 2^-25, whose logarithm is 0.
    """
    return formula(
        tracer.b,
        lambda u: -(1.0 - u).unary("log"),
        formula(tracer.b, lambda u: u.max(2.0**-24), _unit(tracer, shape)),
    )


def exponential(tracer: Tracer, self: Tensor, lambd: float = 1.0) -> Tensor:
    if lambd <= 0:
        raise tracer.b.fail(f"an exponential distribution with the rate {lambd}; it is larger than 0")
    samples = formula(tracer.b, lambda v: v / lambd, _exponential(tracer, self.shape))
    return ew.convert(tracer.b, samples, _check_float(tracer, self.dtype))


def normal_of(tracer: Tracer, mean: Operand, std: Operand) -> Tensor:
    """Return normally distributed numbers, each with its own mean and standard deviation."""
    tensors = [v for v in (mean, std) if isinstance(v, Tensor)]
    dtype, shape = _check_float(tracer, tensors[0].dtype), ew.broadcast_shape(tracer.b, *(v.shape for v in tensors))
    return pointwise.add(tracer, pointwise.mul(tracer, randn(tracer, shape, dtype=dtype), std), mean)


def normal_of_size(tracer: Tracer, mean: float, std: float, size: Sizes, *, dtype: DType | None = None) -> Tensor:
    samples = randn(tracer, size, dtype=dtype)
    return formula(tracer.b, lambda v: v * std + mean, samples)


def log_normal(tracer: Tracer, self: Tensor, mean: float = 1.0, std: float = 2.0) -> Tensor:
    samples = random.normal(tracer.b, *random.draw(tracer.b, self.shape), F64 if self.dtype == F64 else F32)
    return ew.convert(
        tracer.b, formula(tracer.b, lambda v: (v * std + mean).unary("exp"), samples), _check_float(tracer, self.dtype)
    )


def cauchy(tracer: Tracer, self: Tensor, median: float = 0.0, sigma: float = 1.0) -> Tensor:
    samples = formula(
        tracer.b, lambda u: ((u - 0.5) * math.pi).unary("tan") * sigma + median, _unit(tracer, self.shape)
    )
    return ew.convert(tracer.b, samples, _check_float(tracer, self.dtype))


def geometric(tracer: Tracer, self: Tensor, p: float) -> Tensor:
    """Return geometrically distributed numbers: how many trials with the success probability p precede and include a
    success.
    """
    if not 0 < p < 1:
        raise tracer.b.fail(f"a geometric distribution with the probability {p}; it is between 0 and 1")
    rate = -math.log1p(-p)
    return ew.convert(
        tracer.b, formula(tracer.b, lambda v: (v / rate).unary("ceil"), _exponential(tracer, self.shape)), self.dtype
    )


def multinomial(tracer: Tracer, self: Tensor, num_samples: Size, replacement: bool = False) -> Tensor:
    """Return indices of elements of each row, drawn with probabilities proportional to the elements."""
    weights = ew.convert(tracer.b, self, F32)
    axis = weights.rank - 1
    if replacement:
        running = scans.cumulative(tracer.b, "add", weights, axis)
        total = shapes.slice_axis(tracer.b, running, axis, running.shape[axis] - 1, running.shape[axis])
        # A product that is rounded up to the sum would choose an element after the last one.
        at = formula(
            tracer.b,
            lambda u, s: (u * s).min(s * (1.0 - 2.0**-23)),
            _unit(tracer, (*self.shape[:-1], num_samples)),
            total,
        )
        return searchsorted(tracer, running, at, right=True)
    # The largest of weights that are divided by exponential numbers is each one with its probability.
    raced = formula(tracer.b, lambda w, e: w / e, weights, _exponential(tracer, self.shape))
    return ordering.top_k(tracer.b, raced, num_samples, axis)[1]


def rrelu(tracer: Tracer, self: Tensor, lower: Number = 0.125, upper: Number = 1 / 3, training: bool = False) -> Tensor:
    return _leaky(tracer, self, lower, upper, training)[0]


def rrelu_with_noise(
    tracer: Tracer,
    self: Tensor,
    noise: TensorMemory,
    lower: Number = 0.125,
    upper: Number = 1 / 3,
    training: bool = False,
) -> Tensor:
    """Apply a leaky ReLU; in training, its random slopes for negative elements are also written to `noise`."""
    result, slopes = _leaky(tracer, self, lower, upper, training)
    if training:
        noise.write(ew.convert(tracer.b, slopes, noise.tensor.dtype))
    return result


def rrelu_with_noise_functional(
    tracer: Tracer, self: Tensor, noise: Tensor, lower: Number = 0.125, upper: Number = 1 / 3, training: bool = False
) -> tuple[Tensor, Tensor]:
    result, slopes = _leaky(tracer, self, lower, upper, training)
    return result, ew.convert(tracer.b, slopes, noise.dtype) if training else noise


def _leaky(tracer: Tracer, x: Tensor, lower: Number, upper: Number, training: bool) -> tuple[Tensor, Tensor]:
    low, high = float(lower), float(upper)  # type: ignore[arg-type]
    if not training:
        return leaky_relu(tracer, x, (low + high) / 2), x
    drawn = uniform_of(tracer, x.shape, _check_float(tracer, x.dtype), low, high)
    slopes = formula(tracer.b, lambda v, s: (v <= 0.0).where(s, 1.0), x, drawn)
    return ew.binary(tracer.b, "mul", x, slopes), slopes


def native_dropout(tracer: Tracer, input: Tensor, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
    """Elements are 0 with the probability p, and others scaled so that sums stay what they are; which ones are kept."""
    if train is False or p == 0:
        return input, shapes.broadcast_to(tracer.b, tracer.b.constant(True, BOOL), input.shape)
    mask = kept(tracer, input.shape, 1 - p)
    scale = 0.0 if p == 1 else 1 / (1 - p)
    return formula(tracer.b, lambda x, m: m.where(x * scale, x.const(0)), input, mask), mask


def dropout(tracer: Tracer, input: Tensor, p: float, train: bool) -> Tensor:
    return native_dropout(tracer, input, p, train)[0]


RANDOM: dict[str, Conversion] = {
    "aten.rand": rand,
    "aten.randn": randn,
    "aten.randint": randint,
    "aten.randint.low": randint_low,
    "aten.rand_like": rand_like,
    "aten.randn_like": randn_like,
    "aten.randint_like": randint_like,
    "aten.randint_like.low_dtype": randint_like_low,
    "aten.bernoulli": bernoulli,
    "aten.bernoulli.p": bernoulli_p,
    "aten.bernoulli.float": bernoulli_p,  # in place
    "aten.bernoulli.Tensor": bernoulli_of,
    "aten.exponential": exponential,
    **{f"aten.normal.{kinds}": normal_of for kinds in ("Tensor_Tensor", "Tensor_float", "float_Tensor")},
    "aten.normal.float_float": normal_of_size,
    "aten.log_normal": log_normal,
    "aten.cauchy": cauchy,
    "aten.geometric": geometric,
    "aten.multinomial": multinomial,
    "aten.rrelu": rrelu,
    "aten.rrelu_with_noise": rrelu_with_noise,
    "aten.rrelu_with_noise_functional": rrelu_with_noise_functional,
    "aten.uniform": uniform,
    "aten.normal_functional": normal,
    "aten.normal.default": normal,  # in place
    "aten.dropout": dropout,
    "aten.native_dropout": native_dropout,
}
