"""Conversions of random number operations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.ir import Operation

from pydispatch.frontends.stablehlo.tracer import Convert, Results, StablehloTracer
from pydispatch.frontends.stablehlo.types import shape_of
from pydispatch.graph.dtypes import F32, F64, U32, U64
from pydispatch.graph.sizes import Size
from pydispatch.graph.values import Tensor
from pydispatch.operations import elementwise as ew
from pydispatch.operations import random
from pydispatch.operations.slicing import stack

_ALGORITHMS = {"DEFAULT": "philox", "PHILOX": "philox", "THREE_FRY": "threefry"}
"""Values of the attribute `rng_algorithm` -> names of generators for `random.bits`."""


def _bits(tracer: StablehloTracer, op: Operation, state: Tensor) -> Results:
    """Convert a generator of random bits with an explicit state. Return the new state and the bits."""
    algorithm: Any = op.properties["rng_algorithm"]
    shape = [n for n in shape_of(op.results[1].type) if n is not None]
    if len(shape) != len(shape_of(op.results[1].type)):
        raise tracer.b.fail("random bits have a static shape")
    return random.bits(tracer.b, _ALGORITHMS[algorithm.data], state, shape, tracer.dtype(op, 1))


def _rng(tracer: StablehloTracer, op: Operation, low: Tensor, high: Tensor, sizes: Tensor) -> Tensor:
    """Return random numbers in a range or of a normal distribution. The operation has no operand for a generator state,
    so the random state of the program is used.

    low, high: the numbers are at least `low` and less than `high`; or these are the mean and the standard deviation.
    sizes: vector of the sizes of the result, read only if its type has dynamic sizes.

    Raise CompileError if the shape is dynamic, or the type has no such distribution.
    """
    # The shape, which must be static.
    shape: Sequence[Size | None] = shape_of(op.results[0].type)
    if None in shape:
        shape = sizes.known_integers() or shape
    static = [n for n in shape if isinstance(n, int)]
    if len(static) < len(shape):
        raise tracer.b.fail("the shape of random numbers must be known")
    # Random bits, then numbers of the distribution from them.
    dtype = tracer.dtype(op)
    distribution: Any = op.properties["rng_distribution"]
    key, counter = random.key_of_call(tracer.b), tracer.b.constant(np.uint64(0), U64)
    state = stack(tracer.b, [key, counter], axis=0)  # the key differs in each call, so the counter may begin at 0
    if dtype.is_complex or (distribution.data == "NORMAL" and not dtype.is_float):
        raise tracer.b.fail(f"{distribution.data.lower()} random numbers of {dtype} are not defined")
    _new_state, drawn = random.bits(tracer.b, "threefry", state, static, U64 if dtype.bits == 64 else U32)
    if not dtype.is_float:
        return random.integers(tracer.b, drawn, low, high)
    unit = random.uniform(tracer.b, drawn, F64 if dtype == F64 else F32)  # in [0, 1)
    if distribution.data == "NORMAL":

        def normal(s: Any, z: Any, mean: Any, deviation: Any) -> Any:
            """Return z, a number of the standard normal distribution, times the standard deviation plus the mean."""
            return s.binary("add", s.binary("mul", s.convert(z, dtype), deviation), mean)

        return ew.apply(tracer.b, normal, random.quantile(tracer.b, unit), low, high)

    return random.between(tracer.b, unit, low, high)


ROWS: dict[str, Convert] = {"stablehlo.rng": _rng, "stablehlo.rng_bit_generator": _bits}
"""Name of an operation → function that converts it: convert(tracer, operation, operands...) -> results."""
