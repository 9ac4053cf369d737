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
from pydispatch.graph.dtypes import DTYPES, F32, F64, I64, U32, U64, DType
from pydispatch.graph.sizes import Expr, Size, product
from pydispatch.graph.values import Tensor
from pydispatch.operations import elementwise as ew
from pydispatch.operations import float_bits, shapes, special
from pydispatch.operations.formulas import Element, Formula, formula, formulas
from pydispatch.operations.integers import multiply_high
from pydispatch.operations.reals import Scalar
from pydispatch.operations.scalars import Scalars
from pydispatch.operations.shapes import reshape
from pydispatch.operations.slicing import slice_, slice_axis, stack

STATE = "random"
"""Name of the program's random state: u64[2], the seed and the number of the call."""

_SITES = 1 << 20
"""Maximum number of drawing operations in a program. The counter of Threefry is the number of the call times this, plus
the number of the operation."""

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
"""Rotations of the rounds of Threefry-2x32 in bits: of four rounds, then of the next four."""


def _low(x: Element) -> Element:
    """Return the lower 32 bits of a u64 as a u32."""
    return x.to(U32)


def _high(x: Element) -> Element:
    """Return the upper 32 bits of a u64 as a u32."""
    return x.binary("shift_right_logical", 32).to(U32)


def _joined(low: Element, high: Element) -> Element:
    """Return the u64 with these lower and upper 32 bits."""
    return low.to(U64) | high.to(U64).binary("shift_left", 32)


def _rotated(x: Element, by: int) -> Element:
    """Rotate a u32 to the left by a number of bits."""
    return x.binary("shift_left", by) | x.binary("shift_right_logical", 32 - by)


def threefry(key: Element, counter: Element) -> tuple[Element, Element]:
    """Return two random u32 for a u64 key and a u64 counter, by Threefry-2x32 with 20 rounds."""
    keys = [_low(key), _high(key)]
    keys.append(keys[0] ^ keys[1] ^ 0x1BD11BDA)  # the parity constant of Threefry's key schedule
    x, y = _low(counter) + keys[0], _high(counter) + keys[1]
    for n in range(5):  # four rounds, then two words of the key and the count of these additions are added
        for rotated_by in _ROTATIONS[n % 2]:
            x = x + y
            y = _rotated(y, rotated_by) ^ x
        x = x + keys[(n + 1) % 3]
        y = y + keys[(n + 2) % 3] + (n + 1)
    return x, y


def philox(key: Element, low: Element, high: Element) -> list[Element]:
    """Return four random u32 for a u64 key and a 128-bit counter, given as two u64, by Philox-4x32 with 10 rounds."""
    x = [_low(low), _high(low), _low(high), _high(high)]
    keys = [_low(key), _high(key)]
    for _ in range(10):
        # Multipliers of the rounds, and below the increments of the key, as the authors of Philox state them.
        first, second = x[0].to(U64) * 0xD2511F53, x[2].to(U64) * 0xCD9E8D57
        x = [_high(second) ^ x[1] ^ keys[0], _low(second), _high(first) ^ x[3] ^ keys[1], _low(first)]
        keys = [keys[0] + 0x9E3779B9, keys[1] + 0xBB67AE85]
    return x


def bits(builder: Builder, algorithm: str, state: Tensor, shape: Sequence[int], dtype: DType) -> tuple[Tensor, Tensor]:
    """Return the new state of a generator, and random bits as integers or floats of type `dtype`.

    `algorithm` is "threefry" or "philox". `state` is u64[2], the key and the counter; for Philox also u64[3], the key
    and the lower and upper half of the counter. Both also take a state of four 32-bit integers, as IREE does. The new
    state has the same key, and the counter plus the number of counters that were used. Raise CompileError for another
    state, for complex numbers and bools, and for dynamic shapes.
    """
    if state.dtype.is_integer and state.dtype.bits == 32 and state.shape == (4,):
        return _bits_of_words(builder, algorithm, state, shape, dtype)
    lengths = (2,) if algorithm == "threefry" else (2, 3)
    if state.dtype != U64 or state.rank != 1 or state.shape[0] not in lengths:
        raise builder.fail(f"random numbers by {algorithm} take a state u64[2], got {state}")
    if dtype.is_complex or dtype.is_bool or any(isinstance(n, Expr) for n in shape):
        raise builder.fail(f"random bits of {dtype} and shape {list(shape)} are not supported")
    words = [reshape(builder, slice_axis(builder, state, axis=0, start=n, limit=n + 1), ()) for n in range(2)]
    if algorithm == "threefry":
        values, count = _threefry_bits(builder, words[0], words[1], list(shape), dtype)
        after = stack(builder, [words[0], _plus(builder, words[1], count)], axis=0)
    elif state.shape[0] == 3:
        high = reshape(builder, slice_axis(builder, state, axis=0, start=2, limit=3), ())
        values, count = _philox_bits(builder, words[0], words[1], high, list(shape), dtype)
        after = stack(builder, [words[0], *_plus_wide(builder, words[1], high, count)], axis=0)
    else:  # in XLA the key is also the upper half of a counter of which the state has only the lower half
        values, count = _philox_bits(builder, words[0], words[1], words[0], list(shape), dtype)
        after = stack(builder, [words[0], _plus(builder, words[1], count)], axis=0)
    return after, values


def _bits_of_words(
    builder: Builder, algorithm: str, state: Tensor, shape: Sequence[int], dtype: DType
) -> tuple[Tensor, Tensor]:
    """Return the new state and random bits for a state of 32-bit words.

    The words are the lower and upper half of the key, and the upper and lower half of the counter.
    """
    words = [
        ew.bitcast(builder, reshape(builder, slice_axis(builder, state, axis=0, start=n, limit=n + 1), ()), U32)
        for n in range(4)
    ]
    # The key has the words 0 (lower half) and 1, the counter the words 3 (lower half) and 2.
    key_and_counter = [formula(builder, _joined, words[low], words[high]) for low, high in ((0, 1), (3, 2))]
    after, values = bits(builder, algorithm, stack(builder, key_and_counter, axis=0), shape, dtype)
    counter = slice_axis(builder, after, axis=0, start=1, limit=2)
    # The new state: the words of the key, then the upper and the lower half of the new counter.
    counter_words = [reshape(builder, formula(builder, half, counter), ()) for half in (_high, _low)]
    return ew.bitcast(builder, stack(builder, [*words[:2], *counter_words], axis=0), state.dtype), values


def _plus(builder: Builder, x: Tensor, n: int) -> Tensor:
    """Return x + n for a u64 tensor x."""
    return ew.binary(builder, "add", x, builder.constant(n, U64))


def _plus_wide(builder: Builder, low: Tensor, high: Tensor, n: int) -> list[Tensor]:
    """Return a 128-bit counter, given as two u64, plus n."""
    return formulas(builder, lambda x, y: _wide_counter_plus(x, y, x.const(n)), low, high)


def _wide_counter_plus(low: Element, high: Element, by: Element) -> list[Element]:
    """Return a 128-bit number, given as two u64, plus a u64, with carry."""
    total = low + by
    return [total, high + (total < low).to(U64)]  # the sum wrapped around if it is less than an operand


def _threefry_bits(
    builder: Builder, key: Tensor, counter: Tensor, shape: list[int], dtype: DType
) -> tuple[Tensor, int]:
    """Return random bits of Threefry with a shape and type, and the number of counters used.

    `key` and `counter` are u64 tensors of rank 0. The counters are successive from `counter` on. Example: for the shape
    [3] and 32 bits, counter c gives elements 0 and 1, and counter c + 1 gives element 2; its second number is dropped.
    """
    count = 1
    if dtype.bits == 64:  # each counter gives one number
        for n in shape:
            count *= n
        (values,) = _at_each_counter(
            builder, shape, lambda index, k, c: [_joined(*threefry(k, c + index)).bitcast(dtype)], key, counter
        )
        return values, count
    # Up to 32 bits. Each counter gives two numbers, which XLA makes neighbours: along the first even axis, else the
    # longest.
    whole = shape or [1]
    even_axes = [d for d, n in enumerate(whole) if n % 2 == 0]
    axis = even_axes[0] if even_axes else whole.index(max(whole))
    # A counter for each two neighbours along this axis; of an odd size, the last one's second number is cut off below.
    half = [(n + 1) // 2 if d == axis else n for d, n in enumerate(whole)]
    for n in half:
        count *= n
    pair = _at_each_counter(builder, half, lambda index, k, c: threefry(k, c + index), key, counter)
    # Interleave the two tensors along the axis: stacked after it, and joined with it.
    both = stack(builder, pair, axis + 1)
    joined = reshape(builder, both, [*half[:axis], 2 * half[axis], *half[axis + 1 :]])
    values = _lowest_bits_as(builder, slice_(builder, joined, starts=[0] * len(whole), limits=whole), dtype)
    return reshape(builder, values, shape), count


def _philox_bits(
    builder: Builder, key: Tensor, low: Tensor, high: Tensor, shape: list[int], dtype: DType
) -> tuple[Tensor, int]:
    """Return random bits of Philox with a shape and type, and the number of counters used.

    `key` and the halves `low` and `high` of the counter are u64 tensors of rank 0. Each counter gives four words of 32
    bits, in order: for the shape [3] and 64 bits, counter c gives elements 0 and 1, counter c + 1 element 2; its other
    words are dropped.
    """
    total = 1
    for n in shape:
        total *= n
    words = 2 * total if dtype.bits == 64 else total
    count = -(-words // 4)  # each counter gives four words of 32 bits
    # Four tensors [count] of words. The formula gets the index of a counter, then elements of key, low and high.
    lanes = _at_each_counter(
        builder, [count], lambda index, k, x, y: philox(k, *_wide_counter_plus(x, y, index)), key, low, high
    )
    flat = reshape(builder, stack(builder, lanes, axis=1), [4 * count])  # the words in the order of the counters
    if dtype.bits == 64:  # two words, the lower one first, are an element
        pairs = reshape(builder, slice_axis(builder, flat, axis=0, start=0, limit=words), [total, 2])
        parts = [reshape(builder, slice_axis(builder, pairs, axis=1, start=n, limit=n + 1), [total]) for n in range(2)]
        values = formula(builder, lambda x, y: _joined(x, y).bitcast(dtype), *parts)
        return reshape(builder, values, shape), count
    values = _lowest_bits_as(builder, slice_axis(builder, flat, axis=0, start=0, limit=total), dtype)
    return reshape(builder, values, shape), count


def _at_each_counter(builder: Builder, shape: list[int], function: Formula, *tensors: Tensor) -> list[Tensor]:
    """Return the results of a formula for the row-major index of each element; the formula adds it to a counter.

    Args:
        builder: The builder.
        shape: Shape of the results.
        function: The formula: function(row-major index as a u64, element of each tensor...) -> elements.
        tensors: Tensors of rank 0.
    """

    def numbered(s: Scalars, *scalars: Scalar) -> list[Scalar]:
        """Call the formula with the row-major index of the element, and the elements of the tensors."""
        index = Element(s, s.const(0, U64))
        for axis, size in enumerate(shape):
            index = index * size + index.position(axis, U64)  # index along this axis of the element that is computed
        elements = [Element(s, x) for x in scalars]
        return [result.scalar for result in function(index, *elements)]  # type: ignore[union-attr]

    return ew.apply_several(builder, numbered, *tensors, shape=tuple(shape))


def _lowest_bits_as(builder: Builder, x: Tensor, dtype: DType) -> Tensor:
    """Return the lowest bits of u32 elements as elements of a type of at most 32 bits."""
    if dtype.bits == 32:
        return ew.bitcast(builder, x, dtype)
    narrow = DTYPES[f"u{dtype.bits}"]
    return formula(builder, lambda v: v.to(narrow).bitcast(dtype), x)


def uniform(builder: Builder, x: Tensor, dtype: DType) -> Tensor:
    """Convert random bits (u64 for f64, else u32) to floats in [0, 1), which are multiples of 2^-52 or 2^-23."""
    dropped_bits = 9 if dtype != F64 else 12  # as many as a float has besides the mantissa
    inner = F64 if dtype == F64 else F32
    bits_of_one = 0x3FF0000000000000 if inner == F64 else 0x3F800000

    def uniform_of(value: Element) -> Element:
        """Return a number in [0, 1): the bits become the mantissa of one in [1, 2), of which 1 is subtracted."""
        mantissa = value.binary("shift_right_logical", dropped_bits)
        from_one_to_two = (mantissa | bits_of_one).bitcast(inner)
        return (from_one_to_two - 1.0).to(dtype)

    return formula(builder, uniform_of, x)


def between(builder: Builder, unit: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """Map the results of `uniform` (f32 or f64) to floats in [low, high), of the type of these two tensors.

    They are computed in the type of `unit` and rounded. A number that is rounded to `high` becomes the next lower
    float, or `low` if the type has less than 16 bits.
    """
    dtype, inner = low.dtype, unit.dtype

    def scaled(u: Element, first: Element, last: Element) -> Element:
        """Return first + u * (last - first), but not `last`, for one number of [0, 1)."""
        rounded = (u * (last.to(inner) - first.to(inner)) + first.to(inner)).to(dtype)
        below = float_bits.next_after(last, first) if dtype.bits >= 16 else first
        return rounded.is_equal(last).where(below, rounded)

    return formula(builder, scaled, unit, low, high)


def integers(builder: Builder, x: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """Map random bits to integers or bools in [low, high), of the type of these two tensors.

    x: random bits, u64 for types of 64 bits, else u32. `high` is larger than `low`.
    """

    def scaled(value: Element, first: Element, last: Element) -> Element:
        """Return `first` plus the upper half of the product of the bits and last - first.

        With bits / 2^32 (or 2^64) as a fraction in [0, 1), this is first + floor(fraction * (last - first)).
        """
        count = (last.to(I64) - first.to(I64)).to(x.dtype)  # as an unsigned integer, also if the difference overflows
        return (first.to(I64) + multiply_high(value, count).to(I64)).to(low.dtype)

    return formula(builder, scaled, x, low, high)


def quantile(builder: Builder, unit: Tensor) -> Tensor:
    """Map the results of `uniform` (f32 or f64) to finite, normally distributed numbers, by the inverse of the CDF."""
    dtype = unit.dtype
    step = 2.0**-52 if dtype == F64 else 2.0**-23  # the distance from -1 and 1 to the nearest argument of erf_inv

    # Symmetric multiples of the step: from step - 1 to 1 - step, so that erf_inv is finite.
    centred = formula(builder, lambda u: u * 2.0 - (1.0 - step), unit)
    return formula(builder, lambda v: v * 2.0**0.5, ew.apply(builder, special.erf_inv, centred))


# -- numbers that differ between calls


def _state_of_program(builder: Builder) -> Tensor:
    """Return the random state of the program, u64[2]: its seed, and the number of its calls so far.

    The first use declares the state, and adds its update to the end of the program.
    """
    state = builder.state.get(STATE)
    if state is None:  # is_own: it belongs to the program, not to the model
        state = builder.state[STATE] = builder.weight(STATE, np.zeros(2, np.uint64), U64, is_own=True)
    if not builder.is_call_counted:
        builder.is_call_counted = True
        one_call_more = np.array([0, 1], np.uint64)
        builder.at_end.append(
            lambda: builder.store(state, ew.binary(builder, "add", state, builder.constant(one_call_more)))
        )
    return state


def key_of_call(builder: Builder, seed: int | None = None) -> Tensor:
    """Return a u64 key, of rank 0, that differs for each drawing operation and each call.

    seed: used in place of the seed in the program's random state, if it is not None.
    """
    state = _state_of_program(builder)
    site = builder.random_sites
    builder.random_sites += 1
    if site >= _SITES:
        raise builder.fail(f"a program has at most {_SITES} operations that draw random numbers")

    def fold(key: Element, call: Element) -> Element:
        """Return the key for the random numbers of this operation in one call of the program.

        It is threefry of the seed and a counter that differs for each operation and call: `site`, below `_SITES`, is
        the number of the operation among those of the program that draw random numbers.

        key: the seed in the program's state, which `seed` replaces unless it is None. call: number of the call.
        """
        own_key = key if seed is None else key.const(seed)
        return _joined(*threefry(own_key, call * _SITES + site))

    program_seed, call = (
        reshape(builder, slice_axis(builder, state, axis=0, start=n, limit=n + 1), ()) for n in range(2)
    )
    return formula(builder, fold, program_seed, call)


def draw(builder: Builder, shape: Sequence[Size], seed: int | None = None) -> tuple[Tensor, Tensor]:
    """Return two tensors of independent random u32 that differ in each call of the program.

    seed: used in place of the seed in the program's random state, if it is not None.
    """
    if any(n == 0 for n in shape):
        empty = shapes.full(builder, 0, shape, U32)
        return empty, empty

    # One counter for each element; Threefry gives two numbers for it, one for each result.
    counters = shapes.iota(builder, [product(shape)], axis=0, dtype=U64)
    words = formulas(builder, lambda counter, key: threefry(key, counter), counters, key_of_call(builder, seed))
    first, second = (reshape(builder, x, shape) for x in words)
    return first, second


def normal(builder: Builder, first: Tensor, second: Tensor, dtype: DType) -> Tensor:
    """Convert two tensors of random u32 to normally distributed floats, by the Box-Muller transform."""

    def box_muller(u: Element, v: Element) -> Element:
        """Return a normally distributed number for two numbers of [0, 1): a random length times a random cosine."""
        length = ((1.0 - u).unary("log") * -2.0).unary("sqrt")
        return length * (v * (2 * math.pi)).unary("cos")

    normals = formula(builder, box_muller, uniform(builder, first, F32), uniform(builder, second, F32))
    return ew.convert(builder, normals, dtype)
