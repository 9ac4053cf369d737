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
from pydispatch.frontends.torch.memory import Memory
from pydispatch.frontends.torch.nodes import pointwise
from pydispatch.frontends.torch.nodes.activations import leaky_relu
from pydispatch.frontends.torch.nodes.ordering import searchsorted
from pydispatch.frontends.torch.promotion import Number, Operand
from pydispatch.frontends.torch.trace import Conversion, Tracer

Sizes = Sequence[Size]


def _unit(t: Tracer, shape: Sizes) -> Tensor:
    """f32 from 0 up to 1."""
    return random.uniform(t.b, random.draw(t.b, shape)[0], F32)


def _check_float(t: Tracer, dtype: DType) -> DType:
    if not dtype.is_float:
        raise t.b.fail(f"random numbers of {dtype} are not defined; they are floats")
    return dtype


def rand(t: Tracer, size: Sizes, *, dtype: DType | None = None) -> Tensor:
    return uniform_of(t, size, _check_float(t, dtype or F32), 0.0, 1.0)


def uniform_of(t: Tracer, shape: Sizes, dtype: DType, low: float, high: float) -> Tensor:
    made = formula(t.b, lambda u: u * (high - low) + low, _unit(t, shape))
    return ew.convert(t.b, made, dtype)


def randn(t: Tracer, size: Sizes, *, dtype: DType | None = None) -> Tensor:
    return random.normal(t.b, *random.draw(t.b, size), _check_float(t, dtype or F32))


def randint(t: Tracer, high: int, size: Sizes, *, dtype: DType | None = None) -> Tensor:
    return randint_low(t, 0, high, size, dtype=dtype)


def randint_low(t: Tracer, low: int, high: int, size: Sizes, *, dtype: DType | None = None) -> Tensor:
    return _integers(t, low, high, size, dtype or I64)


def _integers(t: Tracer, low: int, high: int, shape: Sizes, dtype: DType) -> Tensor:
    """Return random integers from `low` to `high` - 1.

    Each value is `low` plus the upper 32 bits of the product of 32 random bits and the number of values.
    """
    if not 0 < high - low <= 1 << 32:
        raise t.b.fail(f"random integers from {low} up to {high}: they have from 1 to 2^32 values")
    count = high - low

    def one(s: Scalars, bits: Scalar) -> Scalar:
        wide = s.binary("mul", s.convert(bits, U64), s.const(count, U64))
        place = s.convert(s.binary("shift_right_logical", wide, s.const(32, U64)), I64)
        return s.convert(s.binary("add", place, s.const(low, I64)), dtype)

    return ew.apply(t.b, one, random.draw(t.b, shape)[0])


def rand_like(t: Tracer, self: Tensor, *, dtype: DType | None = None) -> Tensor:
    return rand(t, self.shape, dtype=dtype or self.dtype)


def randn_like(t: Tracer, self: Tensor, *, dtype: DType | None = None) -> Tensor:
    return randn(t, self.shape, dtype=dtype or self.dtype)


def randint_like(t: Tracer, self: Tensor, high: int, *, dtype: DType | None = None) -> Tensor:
    return _integers(t, 0, high, self.shape, dtype or self.dtype)


def randint_like_low(t: Tracer, self: Tensor, low: int, high: int, *, dtype: DType | None = None) -> Tensor:
    return _integers(t, low, high, self.shape, dtype or self.dtype)


def bernoulli(t: Tracer, self: Tensor) -> Tensor:
    """1 with the probability that each element states."""
    made = ew.compare(t.b, "lt", _unit(t, self.shape), ew.convert(t.b, self, F32))
    return ew.convert(t.b, made, self.dtype)


def bernoulli_p(t: Tracer, self: Tensor, p: float = 0.5) -> Tensor:
    return ew.convert(t.b, kept(t, self.shape, p), self.dtype)


def kept(t: Tracer, shape: Sizes, p: float) -> Tensor:
    """Return a mask of this shape whose elements are True with the probability p."""
    if not 0 <= p <= 1:
        raise t.b.fail(f"a probability of {p}; it is from 0 to 1")
    return ew.compare(t.b, "lt", _unit(t, shape), t.b.constant(p, F32))


def uniform(t: Tracer, self: Tensor, from_: float = 0.0, to: float = 1.0) -> Tensor:
    return uniform_of(t, self.shape, _check_float(t, self.dtype), from_, to)


def normal(t: Tracer, self: Tensor, mean: float = 0.0, std: float = 1.0) -> Tensor:
    made = random.normal(t.b, *random.draw(t.b, self.shape), F64 if self.dtype == F64 else F32)
    return ew.convert(t.b, formula(t.b, lambda v: v * std + mean, made), _check_float(t, self.dtype))


def bernoulli_of(t: Tracer, self: Tensor, p: Tensor) -> Tensor:
    """1 with the probabilities that a tensor states, in the shape of another one."""
    chance = shapes.broadcast_to(t.b, ew.convert(t.b, p, F32), self.shape)
    return ew.convert(t.b, ew.compare(t.b, "lt", _unit(t, self.shape), chance), self.dtype)


def _exponential(t: Tracer, shape: Sizes) -> Tensor:
    """Return f32 numbers larger than 0 with the density exp(-x).

    The smallest u is 2^-24: in f32, 1 - u rounds to 1 for u = 2^-25, whose logarithm is 0.
    """
    return formula(t.b, lambda u: -(1.0 - u).of("log"), formula(t.b, lambda u: u.at_least(2.0**-24), _unit(t, shape)))


def exponential(t: Tracer, self: Tensor, lambd: float = 1.0) -> Tensor:
    if lambd <= 0:
        raise t.b.fail(f"an exponential distribution with the rate {lambd}; it is larger than 0")
    made = formula(t.b, lambda v: v / lambd, _exponential(t, self.shape))
    return ew.convert(t.b, made, _check_float(t, self.dtype))


def normal_of(t: Tracer, mean: Operand, std: Operand) -> Tensor:
    """Return normally distributed numbers, each with its own mean and standard deviation."""
    tensors = [v for v in (mean, std) if isinstance(v, Tensor)]
    dtype, shape = _check_float(t, tensors[0].dtype), ew.broadcast_shape(t.b, *(v.shape for v in tensors))
    return pointwise.add(t, pointwise.mul(t, randn(t, shape, dtype=dtype), std), mean)


def normal_of_size(t: Tracer, mean: float, std: float, size: Sizes, *, dtype: DType | None = None) -> Tensor:
    made = randn(t, size, dtype=dtype)
    return formula(t.b, lambda v: v * std + mean, made)


def log_normal(t: Tracer, self: Tensor, mean: float = 1.0, std: float = 2.0) -> Tensor:
    made = random.normal(t.b, *random.draw(t.b, self.shape), F64 if self.dtype == F64 else F32)
    return ew.convert(t.b, formula(t.b, lambda v: (v * std + mean).of("exp"), made), _check_float(t, self.dtype))


def cauchy(t: Tracer, self: Tensor, median: float = 0.0, sigma: float = 1.0) -> Tensor:
    made = formula(t.b, lambda u: ((u - 0.5) * math.pi).of("tan") * sigma + median, _unit(t, self.shape))
    return ew.convert(t.b, made, _check_float(t, self.dtype))


def geometric(t: Tracer, self: Tensor, p: float) -> Tensor:
    """Return geometrically distributed numbers: how many trials with the success probability p precede and include a
    success.
    """
    if not 0 < p < 1:
        raise t.b.fail(f"a geometric distribution with the probability {p}; it is between 0 and 1")
    rate = -math.log1p(-p)
    return ew.convert(t.b, formula(t.b, lambda v: (v / rate).of("ceil"), _exponential(t, self.shape)), self.dtype)


def multinomial(t: Tracer, self: Tensor, num_samples: Size, replacement: bool = False) -> Tensor:
    """Return indices of elements of each row, drawn with probabilities proportional to the elements."""
    weights = ew.convert(t.b, self, F32)
    axis = weights.rank - 1
    if replacement:
        running = scans.cumulative(t.b, "add", weights, axis)
        total = shapes.slice_axis(t.b, running, axis, running.shape[axis] - 1, running.shape[axis])
        # A product that is rounded up to the sum would choose an element after the last one.
        at = formula(t.b, lambda u, s: (u * s).at_most(s * (1.0 - 2.0**-23)), _unit(t, (*self.shape[:-1], num_samples)),
                     total)  # fmt: skip
        return searchsorted(t, running, at, right=True)
    # The largest of weights that are divided by exponential numbers is each one with its probability.
    raced = formula(t.b, lambda w, e: w / e, weights, _exponential(t, self.shape))
    return ordering.top_k(t.b, raced, num_samples, axis)[1]


def rrelu(
    t: Tracer, self: Tensor, lower: Number = 0.125, upper: Number = 1 / 3, training: bool = False
) -> Tensor:
    return _leaky(t, self, lower, upper, training)[0]


def rrelu_with_noise(
    t: Tracer, self: Tensor, noise: Memory, lower: Number = 0.125, upper: Number = 1 / 3, training: bool = False
) -> Tensor:
    """Apply a leaky ReLU; in training, its random slopes for negative elements are also written to `noise`."""
    made, slopes = _leaky(t, self, lower, upper, training)
    if training:
        noise.write(ew.convert(t.b, slopes, noise.tensor.dtype))
    return made


def rrelu_with_noise_functional(
    t: Tracer, self: Tensor, noise: Tensor, lower: Number = 0.125, upper: Number = 1 / 3, training: bool = False
) -> tuple[Tensor, Tensor]:
    made, slopes = _leaky(t, self, lower, upper, training)
    return made, ew.convert(t.b, slopes, noise.dtype) if training else noise


def _leaky(t: Tracer, x: Tensor, lower: Number, upper: Number, training: bool) -> tuple[Tensor, Tensor]:
    low, high = float(lower), float(upper)  # type: ignore[arg-type]
    if not training:
        return leaky_relu(t, x, (low + high) / 2), x
    drawn = uniform_of(t, x.shape, _check_float(t, x.dtype), low, high)
    slopes = formula(t.b, lambda v, s: (v <= 0.0).choose(s, 1.0), x, drawn)
    return ew.binary(t.b, "mul", x, slopes), slopes


def native_dropout(t: Tracer, input: Tensor, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
    """Elements are 0 with the probability p, and others scaled so that sums stay what they are; which ones are kept."""
    if train is False or p == 0:
        return input, shapes.broadcast_to(t.b, t.b.constant(True, BOOL), input.shape)
    mask = kept(t, input.shape, 1 - p)
    scale = 0.0 if p == 1 else 1 / (1 - p)
    return formula(t.b, lambda x, m: m.choose(x * scale, x.const(0)), input, mask), mask


def dropout(t: Tracer, input: Tensor, p: float, train: bool) -> Tensor:
    return native_dropout(t, input, p, train)[0]


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
