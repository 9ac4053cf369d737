"""Conversions of random number operators. Their numbers are those of `operations/random.py`, not PyTorch's."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pydispatch.frontends.torch.memory import TensorMemory
from pydispatch.frontends.torch.nodes import pointwise
from pydispatch.frontends.torch.nodes.activations import leaky_relu
from pydispatch.frontends.torch.nodes.ordering import searchsorted
from pydispatch.frontends.torch.promotion import Number, Operand
from pydispatch.frontends.torch.trace import Conversion
from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import BOOL, F32, F64, I64, U64, DType
from pydispatch.graph.sizes import Size
from pydispatch.graph.values import Tensor
from pydispatch.operations import elementwise as ew
from pydispatch.operations import ordering, random, scans, shapes
from pydispatch.operations.formulas import formula
from pydispatch.operations.reals import Scalar
from pydispatch.operations.scalars import Scalars

Sizes = Sequence[Size]


def _unit(b: Builder, shape: Sizes) -> Tensor:
    """Return uniformly distributed f32 numbers in [0, 1)."""
    return random.uniform(b, random.draw(b, shape)[0], F32)


def _check_float(b: Builder, dtype: DType) -> DType:
    """Return the type. Raise CompileError if it is not a float."""
    if not dtype.is_float:
        raise b.fail(f"random numbers of {dtype} are not defined; they are floats")
    return dtype


def rand(b: Builder, size: Sizes, *, dtype: DType | None = None) -> Tensor:
    return uniform_samples(b, size, _check_float(b, dtype or F32), 0.0, 1.0)


def uniform_samples(b: Builder, shape: Sizes, dtype: DType, low: float, high: float) -> Tensor:
    """Return uniformly distributed numbers in [low, high)."""
    samples = formula(b, lambda u: u * (high - low) + low, _unit(b, shape))
    return ew.convert(b, samples, dtype)


def randn(b: Builder, size: Sizes, *, dtype: DType | None = None) -> Tensor:
    return random.normal(b, *random.draw(b, size), _check_float(b, dtype or F32))


def randint(b: Builder, high: int, size: Sizes, *, dtype: DType | None = None) -> Tensor:
    return randint_low(b, 0, high, size, dtype=dtype)


def randint_low(b: Builder, low: int, high: int, size: Sizes, *, dtype: DType | None = None) -> Tensor:
    return _integers(b, low, high, size, dtype or I64)


def _integers(b: Builder, low: int, high: int, shape: Sizes, dtype: DType) -> Tensor:
    """Return uniformly distributed integers in [low, high).

    A number is `low` plus the upper 32 bits of the 64-bit product of 32 random bits and high - low.
    """
    if not 0 < high - low <= 1 << 32:
        raise b.fail(f"random integers from {low} up to {high}: they have from 1 to 2^32 values")
    count = high - low

    def scaled(scalars: Scalars, bits: Scalar) -> Scalar:
        wide = scalars.binary("mul", scalars.convert(bits, U64), scalars.const(count, U64))
        position = scalars.convert(scalars.binary("shift_right_logical", wide, scalars.const(32, U64)), I64)
        return scalars.convert(scalars.binary("add", position, scalars.const(low, I64)), dtype)

    return ew.apply(b, scaled, random.draw(b, shape)[0])


def rand_like(b: Builder, self: Tensor, *, dtype: DType | None = None) -> Tensor:
    return rand(b, self.shape, dtype=dtype or self.dtype)


def randn_like(b: Builder, self: Tensor, *, dtype: DType | None = None) -> Tensor:
    return randn(b, self.shape, dtype=dtype or self.dtype)


def randint_like(b: Builder, self: Tensor, high: int, *, dtype: DType | None = None) -> Tensor:
    return _integers(b, 0, high, self.shape, dtype or self.dtype)


def randint_like_low(b: Builder, self: Tensor, low: int, high: int, *, dtype: DType | None = None) -> Tensor:
    return _integers(b, low, high, self.shape, dtype or self.dtype)


def bernoulli(b: Builder, self: Tensor) -> Tensor:
    """Return 1 with the probability that each element states, else 0."""
    samples = ew.compare(b, "lt", _unit(b, self.shape), ew.convert(b, self, F32))
    return ew.convert(b, samples, self.dtype)


def bernoulli_p(b: Builder, self: Tensor, p: float = 0.5) -> Tensor:
    return ew.convert(b, random_mask(b, self.shape, p), self.dtype)


def random_mask(b: Builder, shape: Sizes, p: float) -> Tensor:
    """Return a mask whose elements are true with probability p."""
    if not 0 <= p <= 1:
        raise b.fail(f"a probability of {p}; it is from 0 to 1")
    return ew.compare(b, "lt", _unit(b, shape), b.constant(p, F32))


def uniform(b: Builder, self: Tensor, from_: float = 0.0, to: float = 1.0) -> Tensor:
    return uniform_samples(b, self.shape, _check_float(b, self.dtype), from_, to)


def normal(b: Builder, self: Tensor, mean: float = 0.0, std: float = 1.0) -> Tensor:
    samples = random.normal(b, *random.draw(b, self.shape), F64 if self.dtype == F64 else F32)
    return ew.convert(b, formula(b, lambda v: v * std + mean, samples), _check_float(b, self.dtype))


def bernoulli_like(b: Builder, self: Tensor, p: Tensor) -> Tensor:
    """Return 1 with the probabilities p, broadcast to the shape of `self`, else 0."""
    chance = shapes.broadcast_to(b, ew.convert(b, p, F32), self.shape)
    return ew.convert(b, ew.compare(b, "lt", _unit(b, self.shape), chance), self.dtype)


def _exponential(b: Builder, shape: Sizes) -> Tensor:
    """Return exponentially distributed f32 numbers of rate 1, all larger than 0.

    They are -log(1 - u) for uniform u, of which 0 is replaced by 2^-24: for u = 2^-25, 1 - u would round to 1, whose
    logarithm is 0.
    """
    return formula(
        b,
        lambda u: -(1.0 - u).unary("log"),
        formula(b, lambda u: u.max(2.0**-24), _unit(b, shape)),
    )


def exponential(b: Builder, self: Tensor, lambd: float = 1.0) -> Tensor:
    if lambd <= 0:
        raise b.fail(f"an exponential distribution with the rate {lambd}; it is larger than 0")
    samples = formula(b, lambda v: v / lambd, _exponential(b, self.shape))
    return ew.convert(b, samples, _check_float(b, self.dtype))


def normal_by_element(b: Builder, mean: Operand, std: Operand) -> Tensor:
    """Return normally distributed numbers, each with its own mean or standard deviation."""
    tensors = [v for v in (mean, std) if isinstance(v, Tensor)]
    dtype, shape = _check_float(b, tensors[0].dtype), ew.broadcast_shape(b, *(v.shape for v in tensors))
    return pointwise.add(b, pointwise.mul(b, randn(b, shape, dtype=dtype), std), mean)


def normal_of_shape(b: Builder, mean: float, std: float, size: Sizes, *, dtype: DType | None = None) -> Tensor:
    samples = randn(b, size, dtype=dtype)
    return formula(b, lambda v: v * std + mean, samples)


def log_normal(b: Builder, self: Tensor, mean: float = 1.0, std: float = 2.0) -> Tensor:
    samples = random.normal(b, *random.draw(b, self.shape), F64 if self.dtype == F64 else F32)
    return ew.convert(b, formula(b, lambda v: (v * std + mean).unary("exp"), samples), _check_float(b, self.dtype))


def cauchy(b: Builder, self: Tensor, median: float = 0.0, sigma: float = 1.0) -> Tensor:
    samples = formula(b, lambda u: ((u - 0.5) * math.pi).unary("tan") * sigma + median, _unit(b, self.shape))
    return ew.convert(b, samples, _check_float(b, self.dtype))


def geometric(b: Builder, self: Tensor, p: float) -> Tensor:
    """Return geometrically distributed numbers: the number of trials up to and including the first success of
    probability p.
    """
    if not 0 < p < 1:
        raise b.fail(f"a geometric distribution with the probability {p}; it is between 0 and 1")
    rate = -math.log1p(-p)
    return ew.convert(b, formula(b, lambda v: (v / rate).unary("ceil"), _exponential(b, self.shape)), self.dtype)


def multinomial(b: Builder, self: Tensor, num_samples: Size, replacement: bool = False) -> Tensor:
    """Return indices of elements of each row, drawn with probabilities proportional to the elements."""
    weights = ew.convert(b, self, F32)
    axis = weights.rank - 1
    if replacement:
        running = scans.cumulative(b, "add", weights, axis)
        total = shapes.slice_axis(b, running, axis, running.shape[axis] - 1, running.shape[axis])
        # u * sum may round up to the sum, which searchsorted would map to an index after the last element.
        at = formula(
            b,
            lambda u, s: (u * s).min(s * (1.0 - 2.0**-23)),
            _unit(b, (*self.shape[:-1], num_samples)),
            total,
        )
        return searchsorted(b, running, at, right=True)
    # Exponential races: w_i / e_i is the largest of all with probability w_i / sum(w), so the top k are k draws.
    keys = formula(b, lambda w, e: w / e, weights, _exponential(b, self.shape))
    return ordering.top_k(b, keys, num_samples, axis)[1]


def rrelu(b: Builder, self: Tensor, lower: Number = 0.125, upper: Number = 1 / 3, training: bool = False) -> Tensor:
    return _random_leaky_relu(b, self, lower, upper, training)[0]


def rrelu_with_noise(
    b: Builder,
    self: Tensor,
    noise: TensorMemory,
    lower: Number = 0.125,
    upper: Number = 1 / 3,
    training: bool = False,
) -> Tensor:
    """Return a leaky ReLU; in training, its random slopes are also written to `noise`."""
    result, slopes = _random_leaky_relu(b, self, lower, upper, training)
    if training:
        noise.write(ew.convert(b, slopes, noise.tensor.dtype))
    return result


def rrelu_with_noise_functional(
    b: Builder, self: Tensor, noise: Tensor, lower: Number = 0.125, upper: Number = 1 / 3, training: bool = False
) -> tuple[Tensor, Tensor]:
    """Return the leaky ReLU with random slopes, and the slopes; in evaluation the mean slope, and `noise` as it was."""
    result, slopes = _random_leaky_relu(b, self, lower, upper, training)
    return result, ew.convert(b, slopes, noise.dtype) if training else noise


def _random_leaky_relu(b: Builder, x: Tensor, lower: Number, upper: Number, training: bool) -> tuple[Tensor, Tensor]:
    """Return a leaky ReLU; in training also its slopes, which are random in [lower, upper) for negative elements. In
    evaluation the slope is the mean of both bounds, and the second tensor is x, to be ignored.
    """
    low, high = float(lower), float(upper)  # type: ignore[arg-type]
    if not training:
        return leaky_relu(b, x, (low + high) / 2), x
    random_slopes = uniform_samples(b, x.shape, _check_float(b, x.dtype), low, high)
    slopes = formula(b, lambda v, s: (v <= 0.0).where(s, 1.0), x, random_slopes)
    return ew.binary(b, "mul", x, slopes), slopes


def native_dropout(b: Builder, input: Tensor, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
    """Return the input with elements zeroed with probability p and the others scaled by 1 / (1 - p), and the mask of
    the others.
    """
    if train is False or p == 0:
        return input, shapes.broadcast_to(b, b.constant(True, BOOL), input.shape)
    mask = random_mask(b, input.shape, 1 - p)
    scale = 0.0 if p == 1 else 1 / (1 - p)
    return formula(b, lambda x, m: m.where(x * scale, x.const(0)), input, mask), mask


def dropout(b: Builder, input: Tensor, p: float, train: bool) -> Tensor:
    return native_dropout(b, input, p, train)[0]


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
    "aten.bernoulli.Tensor": bernoulli_like,
    "aten.exponential": exponential,
    **{f"aten.normal.{kinds}": normal_by_element for kinds in ("Tensor_Tensor", "Tensor_float", "float_Tensor")},
    "aten.normal.float_float": normal_of_shape,
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
