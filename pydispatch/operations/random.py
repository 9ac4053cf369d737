"""Counter-based random bits: Threefry (2x32, 20 rounds) and Philox (4x32, 10 rounds), in XLA's order.

Operators without a state of their own use that of the program: a seed and the number of the call. Their key depends on
these and on the operator's position, so that each call draws different numbers, and a reloaded program repeats them. A
loop body draws the same numbers in each iteration.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import DTYPES, F32, F64, U32, U64, DType
from pydispatch.graph.sizes import Expr, Size, product
from pydispatch.graph.values import Tensor
from pydispatch.operations import elementwise as ew
from pydispatch.operations import shapes, special
from pydispatch.operations.formulas import formula
from pydispatch.operations.reals import Scalar
from pydispatch.operations.scalars import Scalars
from pydispatch.operations.shapes import reshape, slice_, slice_axis, stack

STATE = "random"
"""Name of the program's random state: u64[2], the seed and the number of the call."""

_SITES = 1 << 20
"""Maximum number of drawing operations in a program: the range of their numbers within the counter of a call."""

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))


def _low(scalars: Scalars, x: Scalar) -> Scalar:
    """Return the lower 32 bits of a u64."""
    return scalars.convert(x, U32)


def _high(scalars: Scalars, x: Scalar) -> Scalar:
    """Return the upper 32 bits of a u64."""
    return scalars.convert(scalars.binary("shift_right_logical", x, scalars.const(32, U64)), U32)


def _joined(scalars: Scalars, low: Scalar, high: Scalar) -> Scalar:
    """Return the u64 with these lower and upper 32 bits."""
    above = scalars.binary("shift_left", scalars.convert(high, U64), scalars.const(32, U64))
    return scalars.binary("or", scalars.convert(low, U64), above)


def threefry(scalars: Scalars, key: Scalar, counter: Scalar) -> tuple[Scalar, Scalar]:
    """Return two random u32 for a u64 key and a u64 counter."""

    def add(lhs: Scalar, rhs: Scalar) -> Scalar:
        return scalars.binary("add", lhs, rhs)

    keys = [_low(scalars, key), _high(scalars, key)]
    keys.append(scalars.binary("xor", scalars.binary("xor", *keys), scalars.const(0x1BD11BDA, U32)))
    x, y = add(_low(scalars, counter), keys[0]), add(_high(scalars, counter), keys[1])
    for n in range(5):
        for by in _ROTATIONS[n % 2]:
            x = add(x, y)
            left = scalars.binary("shift_left", y, scalars.const(by, U32))
            y = scalars.binary(
                "xor",
                scalars.binary("or", left, scalars.binary("shift_right_logical", y, scalars.const(32 - by, U32))),
                x,
            )
        x = add(x, keys[(n + 1) % 3])
        y = add(add(y, keys[(n + 2) % 3]), scalars.const(n + 1, U32))
    return x, y


def philox(scalars: Scalars, key: Scalar, low: Scalar, high: Scalar) -> list[Scalar]:
    """Return four random u32 for a u64 key and a 128-bit counter, given as two u64."""
    x = [_low(scalars, low), _high(scalars, low), _low(scalars, high), _high(scalars, high)]
    keys = [_low(scalars, key), _high(scalars, key)]
    for _ in range(10):
        products = [scalars.binary("mul", scalars.convert(x[n], U64), scalars.const(factor, U64))
                    for n, factor in ((0, 0xD2511F53), (2, 0xCD9E8D57))]  # fmt: skip
        (low0, high0), (low1, high1) = ((_low(scalars, p), _high(scalars, p)) for p in products)
        x = [scalars.binary("xor", scalars.binary("xor", high1, x[1]), keys[0]), low1,
             scalars.binary("xor", scalars.binary("xor", high0, x[3]), keys[1]), low0]  # fmt: skip
        keys = [
            scalars.binary("add", k, scalars.const(step, U32))
            for k, step in zip(keys, (0x9E3779B9, 0xBB67AE85), strict=True)
        ]
    return x


def bits(builder: Builder, algorithm: str, state: Tensor, shape: Sequence[int], dtype: DType) -> tuple[Tensor, Tensor]:
    """Return the new state of a generator, and random bits as integers or floats of type `dtype`.

    `algorithm` is "threefry" or "philox". `state` is u64[2], the key and the counter; for Philox also u64[3], the key
    and the lower and upper half of the counter. Both also take a state of four 32-bit integers, as IREE does.
    """
    if state.dtype.is_integer and state.dtype.bits == 32 and state.shape == (4,):
        return _bits_of_words(builder, algorithm, state, shape, dtype)
    if state.dtype != U64 or state.rank != 1 or state.shape[0] not in ((2,) if algorithm == "threefry" else (2, 3)):
        raise builder.fail(f"random numbers by {algorithm} take a state u64[2], got {state}")
    if dtype.is_complex or dtype.is_bool or any(isinstance(n, Expr) for n in shape):
        raise builder.fail(f"random bits of {dtype} and shape {list(shape)} are not supported")
    words = [reshape(builder, slice_axis(builder, state, 0, n, n + 1), ()) for n in range(2)]
    if algorithm == "threefry":
        values, count = _threefry_bits(builder, words[0], words[1], list(shape), dtype)
        after = stack(builder, [words[0], _plus(builder, words[1], count)], 0)
    elif state.shape[0] == 3:
        high = reshape(builder, slice_axis(builder, state, 0, 2, 3), ())
        values, count = _philox_bits(builder, words[0], words[1], high, list(shape), dtype)
        after = stack(builder, [words[0], *_plus_wide(builder, words[1], high, count)], 0)
    else:
        values, count = _philox_bits(builder, words[0], words[1], words[0], list(shape), dtype)
        after = stack(builder, [words[0], _plus(builder, words[1], count)], 0)
    return after, values


def _bits_of_words(
    builder: Builder, algorithm: str, state: Tensor, shape: Sequence[int], dtype: DType
) -> tuple[Tensor, Tensor]:
    """Return the new state and random bits for a state of 32-bit words.

    The words are the lower and upper half of the key, and the upper and lower half of the counter.
    """
    words = [ew.bitcast(builder, reshape(builder, slice_axis(builder, state, 0, n, n + 1), ()), U32) for n in range(4)]
    numbers = [ew.apply(builder, _joined, words[low], words[high]) for low, high in ((0, 1), (3, 2))]
    after, values = bits(builder, algorithm, stack(builder, numbers, 0), shape, dtype)
    counter = slice_axis(builder, after, 0, 1, 2)
    ends = [reshape(builder, ew.apply(builder, half, counter), ()) for half in (_high, _low)]
    return ew.bitcast(builder, stack(builder, [*words[:2], *ends], 0), state.dtype), values


def _plus(builder: Builder, x: Tensor, n: int) -> Tensor:
    """Return x + n."""
    return ew.binary(builder, "add", x, builder.constant(n, U64))


def _plus_wide(builder: Builder, low: Tensor, high: Tensor, n: int) -> list[Tensor]:
    """Return a 128-bit counter, given as two u64, plus n."""
    return ew.apply_several(builder, lambda s, x, y: _added(s, x, y, s.const(n, U64)), low, high)


def _added(scalars: Scalars, low: Scalar, high: Scalar, by: Scalar) -> list[Scalar]:
    """Return a 128-bit number, given as two u64, plus a u64, with carry."""
    total = scalars.binary("add", low, by)
    carry = scalars.convert(scalars.compare("lt", total, low), U64)
    return [total, scalars.binary("add", high, carry)]


def _threefry_bits(
    builder: Builder, key: Tensor, counter: Tensor, shape: list[int], dtype: DType
) -> tuple[Tensor, int]:
    """Return random bits of Threefry, and the number of counters used."""
    count = 1
    if dtype.bits == 64:
        for n in shape:
            count *= n
        values = _counted(builder, shape, lambda s, at, k, c: [
            s.bitcast(_joined(s, *threefry(s, k, s.binary("add", c, at))), dtype)], key, counter)[0]  # fmt: skip
        return values, count
    # Each counter gives two numbers, which XLA makes neighbours: along the first even axis, else the longest.
    whole = shape or [1]
    axis = next((d for d, n in enumerate(whole) if n % 2 == 0), whole.index(max(whole)))
    half = [(n + 1) // 2 if d == axis else n for d, n in enumerate(whole)]
    for n in half:
        count *= n
    pair = _counted(builder, half, lambda s, at, k, c: list(threefry(s, k, s.binary("add", c, at))), key, counter)
    both = stack(builder, pair, axis + 1)
    joined = reshape(builder, both, [*half[:axis], 2 * half[axis], *half[axis + 1 :]])
    return reshape(builder, _as(builder, slice_(builder, joined, [0] * len(whole), whole), dtype), shape), count


def _philox_bits(
    builder: Builder, key: Tensor, low: Tensor, high: Tensor, shape: list[int], dtype: DType
) -> tuple[Tensor, int]:
    """Return random bits of Philox, and the number of counters used."""
    total = 1
    for n in shape:
        total *= n
    words = 2 * total if dtype.bits == 64 else total
    count = -(-words // 4)
    lanes = _counted(builder, [count], lambda s, at, k, x, y: philox(s, k, *_added(s, x, y, at)), key, low, high)
    flat = reshape(builder, stack(builder, lanes, 1), [4 * count])
    if dtype.bits == 64:
        pairs = reshape(builder, slice_axis(builder, flat, 0, 0, words), [total, 2])
        parts = [reshape(builder, slice_axis(builder, pairs, 1, n, n + 1), [total]) for n in range(2)]
        values = ew.apply(builder, lambda s, x, y: s.bitcast(_joined(s, x, y), dtype), *parts)
        return reshape(builder, values, shape), count
    return reshape(builder, _as(builder, slice_axis(builder, flat, 0, 0, total), dtype), shape), count


def _counted(builder: Builder, shape: list[int], function: ew.Function, *tensors: Tensor) -> list[Tensor]:
    """Apply function(scalars, row-major index of the element, elements...) at each position of a shape."""

    def numbered(s: Scalars, *scalars: Scalar) -> list[Scalar]:
        """Call the function with the row-major number of the element."""
        at = s.const(0, U64)
        for d, n in enumerate(shape):
            at = s.binary("add", s.binary("mul", at, s.const(n, U64)), s.position(d, U64))
        return list(function(s, at, *scalars))  # type: ignore[arg-type]

    return ew.apply_several(builder, numbered, *tensors, shape=tuple(shape))


def _as(builder: Builder, x: Tensor, dtype: DType) -> Tensor:
    """Return u32 elements as elements of a type of at most 32 bits: their lowest bits."""
    if dtype.bits == 32:
        return ew.bitcast(builder, x, dtype)
    narrow = DTYPES[f"u{dtype.bits}"]
    return ew.apply(builder, lambda s, v: s.bitcast(s.convert(v, narrow), dtype), x)


def uniform(builder: Builder, x: Tensor, dtype: DType) -> Tensor:
    """Convert random bits (u64 for f64, else u32) to floats in [0, 1), which are multiples of 2^-52 or 2^-23."""
    dropped_bits = 9 if dtype != F64 else 12
    inner = F64 if dtype == F64 else F32

    def uniform_of(scalars: Scalars, value: Scalar) -> Scalar:
        """Return a number in [0, 1): the bits become the mantissa of one in [1, 2)."""
        mantissa = scalars.binary("shift_right_logical", value, scalars.const(dropped_bits, value.dtype))
        start = scalars.const(0x3FF0000000000000 if inner == F64 else 0x3F800000, value.dtype)
        result = scalars.bitcast(scalars.binary("or", mantissa, start), inner)
        return scalars.convert(scalars.binary("sub", result, scalars.const(1.0, inner)), dtype)

    return ew.apply(builder, uniform_of, x)


def quantile(builder: Builder, unit: Tensor) -> Tensor:
    """Map the results of `uniform` (f32 or f64) to finite, normally distributed numbers, by the inverse of the CDF."""
    dtype = unit.dtype
    step = 2.0**-52 if dtype == F64 else 2.0**-23  # the distance from -1 and 1 to the nearest argument of erf_inv

    def normal_of(scalars: Scalars, u: Scalar) -> Scalar:
        """Return the normal quantile of a uniform number in [0, 1)."""
        centred = scalars.binary(
            "sub", scalars.binary("mul", u, scalars.const(2.0, dtype)), scalars.const(1.0 - step, dtype)
        )
        return scalars.binary("mul", special.erf_inv(scalars, centred), scalars.const(2.0**0.5, dtype))

    return ew.apply(builder, normal_of, unit)


# -- numbers that differ between calls


def key_of_call(builder: Builder, seed: int | None = None) -> Tensor:
    """Return a u64 key that differs for each drawing operation and each call. `seed` replaces that of the program."""
    state = builder.state.get(STATE)
    if state is None:
        state = builder.state[STATE] = builder.weight(STATE, np.zeros(2, np.uint64), U64, is_own=True)
    if not builder.is_call_counted:
        builder.is_call_counted = True
        builder.at_end.append(
            lambda: builder.store(
                state, ew.binary(builder, "add", state, builder.constant(np.array([0, 1], np.uint64)))
            )
        )
    site = builder.sites
    builder.sites += 1
    if site >= _SITES:
        raise builder.fail(f"a program draws random numbers in at most {_SITES} places")

    def fold(scalars: Scalars, key: Scalar, call: Scalar) -> Scalar:
        """Return the key of a call site and of the number of the call."""
        if seed is not None:
            key = scalars.const(seed, U64)
        at = scalars.binary("add", scalars.binary("mul", call, scalars.const(_SITES, U64)), scalars.const(site, U64))
        return _joined(scalars, *threefry(scalars, key, at))

    return ew.apply(builder, fold, *(reshape(builder, slice_axis(builder, state, 0, n, n + 1), ()) for n in range(2)))


def draw(builder: Builder, shape: Sequence[Size], seed: int | None = None) -> tuple[Tensor, Tensor]:
    """Return two tensors of independent random u32. `seed` is that of `key_of_call`."""
    if any(n == 0 for n in shape):
        return (shapes.full(builder, 0, shape, U32),) * 2

    def pair(scalars: Scalars, counter: Scalar, key: Scalar) -> tuple[Scalar, Scalar]:
        return threefry(scalars, key, counter)

    words = ew.apply_several(builder, pair, shapes.iota(builder, [product(shape)], 0, U64), key_of_call(builder, seed))
    first, second = (reshape(builder, x, shape) for x in words)
    return first, second


def normal(builder: Builder, first: Tensor, second: Tensor, dtype: DType) -> Tensor:
    """Convert two tensors of random u32 to normally distributed floats, by the Box-Muller transform."""
    return ew.convert(
        builder,
        formula(
            builder,
            lambda u, v: ((1.0 - u).unary("log") * -2.0).unary("sqrt") * (v * (2 * math.pi)).unary("cos"),
            uniform(builder, first, F32), uniform(builder, second, F32),
        ),
        dtype,
    )  # fmt: skip
