"""Exact functions, conversions, 128-bit integers and mem* against NumPy and Python's own integers."""

import ctypes
import fractions
import itertools
import math

import numpy as np
import pytest
from devlib_driver import EXACT, TYPES, draw
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

MASK = (1 << 128) - 1


def signed(value, bits=128):
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def pack(values):
    return np.frombuffer(b"".join((v & MASK).to_bytes(16, "little") for v in values), np.uint64).copy()


def unpack(array):
    data = array.tobytes()
    return [int.from_bytes(data[i : i + 16], "little") for i in range(0, len(data), 16)]


def call(library, name, *arrays, count):
    getattr(library.dll, name)(*(ctypes.c_void_p(a.ctypes.data) for a in arrays), ctypes.c_long(count))


def wide_values():
    rng = np.random.default_rng(3)
    edges = [0, 1, 2, 3, 5, 10, (1 << 32) - 1, 1 << 32, (1 << 63) - 1, 1 << 63, (1 << 64) - 1, 1 << 64, (1 << 64) + 1,
             (1 << 96) - 1, (1 << 127) - 1, 1 << 127, MASK, MASK - 1, MASK << 64 & MASK, 0xFFFFFFFF << 32]  # fmt: skip
    randoms = [int.from_bytes(rng.bytes(16), "little") >> int(rng.integers(0, 127)) for _ in range(60)]
    return edges + randoms + [-r & MASK for r in randoms[:20]]


def truncated(a, b):
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def test_wide_integers(library):
    pairs = list(itertools.product(wide_values(), repeat=2))
    a, b = pack([p[0] for p in pairs]), pack([p[1] for p in pairs])
    out = np.zeros_like(a)
    over = np.zeros(len(pairs), np.int32)

    def check(name, function, keep=lambda x, y: True):
        call(library, name, a, b, out, count=len(pairs))
        got = unpack(out)
        for (x, y), g in zip(pairs, got, strict=True):
            if keep(x, y):
                assert g == function(x, y) & MASK, (name, hex(x), hex(y))

    divides = lambda x, y: y != 0  # noqa: E731
    check("b_mul", lambda x, y: x * y)
    check("b_udiv", lambda x, y: x // y, divides)
    check("b_umod", lambda x, y: x % y, divides)
    check("b_div", lambda x, y: truncated(signed(x), signed(y)), divides)
    check("b_mod", lambda x, y: signed(x) - signed(y) * truncated(signed(x), signed(y)), divides)
    check("b_shl", lambda x, y: x << (y & 127))
    check("b_lshr", lambda x, y: x >> (y & 127))
    check("b_ashr", lambda x, y: signed(x) >> (y & 127))
    for name, bits in (("b_mulo", 128), ("b_mulodi", 64)):
        call(library, name, a, b, out, over, count=len(pairs))
        for (x, y), g, o in zip(pairs, unpack(out), over.tolist(), strict=True):
            product = signed(x, bits) * signed(y, bits)
            assert (signed(g, bits), o) == (signed(product, bits), int(product != signed(product, bits))), (name, x, y)


def test_bit_counts(library):
    values = wide_values()
    a = pack(values)
    out = np.zeros_like(a)
    call(library, "b_bits", a, a, out, count=len(values))
    for x, got in zip(values, unpack(out), strict=True):
        low, word = x & ((1 << 64) - 1), x & 0xFFFFFFFF
        ctz = lambda v: (v & -v).bit_length() - 1  # noqa: E731
        wanted = low.bit_count() | x.bit_count() << 8 | word.bit_count() << 16 | (low.bit_count() & 1) << 24
        wanted |= (ctz(low) + 1 if low else 0) << 32
        wanted |= (128 - x.bit_length()) << 40 | ctz(x) << 48 if x else 0
        wanted |= (64 - low.bit_length()) << 56 | ctz(low) << 64 if low else 0
        wanted |= (32 - word.bit_length()) << 72 | ctz(word) << 80 if word else 0
        assert got == wanted, hex(x)


def float_samples(dtype):
    rng = np.random.default_rng(5)
    kind = np.uint32 if dtype == np.float32 else np.uint64
    bits = rng.integers(0, np.iinfo(kind).max, 20000, dtype=kind, endpoint=True)
    near = rng.uniform(-16, 16, 20000) * np.exp2(rng.integers(-30, 14, 20000))
    halves = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(np.float64)
    ties = (halves[1:] + halves[:-1]) / 2
    edges = np.array(
        [0.0, -0.0, np.inf, -np.inf, np.nan, 65504, 65519.99, 65520, 2.0**-25, 2.0**-25 * 1.0001, 2.0**-24]
    )
    with np.errstate(over="ignore"):
        return np.concatenate([bits.view(dtype), near.astype(dtype), halves.astype(dtype), ties.astype(dtype),
                               np.nextafter(ties.astype(dtype), dtype(9)), edges.astype(dtype)])  # fmt: skip


@pytest.mark.parametrize(("name", "dtype"), [("b_fh", np.float32), ("b_dh", np.float64), ("b_fg", np.float32)])
def test_to_half(library, name, dtype):
    x = float_samples(dtype)
    out = np.zeros(x.size, np.uint16)
    call(library, name, x, x, out, count=x.size)
    with np.errstate(all="ignore"):
        wanted = x.astype(np.float16)
    numbers = ~np.isnan(x)
    np.testing.assert_array_equal(out[numbers], wanted.view(np.uint16)[numbers])
    assert np.isnan(out.view(np.float16)[~numbers]).all()


@pytest.mark.parametrize(("name", "dtype"), [("b_hf", np.float32), ("b_hd", np.float64), ("b_gf", np.float32)])
def test_from_half(library, name, dtype):
    x = np.arange(1 << 16, dtype=np.uint16)
    out = np.zeros(x.size, dtype)
    call(library, name, x, x, out, count=x.size)
    np.testing.assert_array_equal(out, x.view(np.float16).astype(dtype))
    np.testing.assert_array_equal(np.signbit(out), np.signbit(x.view(np.float16)))


@pytest.mark.parametrize(("name", "dtype"), [("b_fb", np.float32), ("b_db", np.float64)])
def test_to_bfloat16(library, name, dtype):
    """Against exact arithmetic: the nearest of the two neighbours, the even one of a tie."""
    x = float_samples(dtype)[:25000]
    out = np.zeros(x.size, np.uint16)
    call(library, name, x, x, out, count=x.size)
    largest = 0x7F7F

    def value(h):
        return (
            fractions.Fraction(float(np.uint32(h << 16).view(np.float32)))
            if h <= largest
            else fractions.Fraction(2) ** 128
        )

    for v, h in zip(x.tolist(), out.tolist(), strict=True):
        size = h & 0x7FFF
        if math.isnan(v):
            assert size > 0x7F80
            continue
        assert h >> 15 == (math.copysign(1, v) < 0)
        if math.isinf(v):
            assert size == 0x7F80
            continue
        exact = abs(fractions.Fraction(v))
        own = abs(value(size) - exact)
        for other in (size - 1, size + 1):
            if 0 <= other <= 0x7F80:
                distance = abs(value(other) - exact)
                assert own < distance or (own == distance and size % 2 == 0) or exact > value(0x7F80), (v, hex(h))
        if exact > value(0x7F80):
            assert size == 0x7F80
    wide = np.arange(1 << 16, dtype=np.uint16)
    back = np.zeros(wide.size, np.float32)
    call(library, "b_bf", wide, wide, back, count=wide.size)
    np.testing.assert_array_equal(back.view(np.uint32), wide.astype(np.uint32) << 16)


@pytest.mark.parametrize(("letter", "dtype"), [("d", np.float64), ("f", np.float32)])
def test_wide_conversions(library, letter, dtype):
    values = wide_values()
    values += [(1 << n) + d & MASK for n in range(20, 128) for d in (-1, 0, 1)]
    a, out = pack(values), np.zeros(len(values), dtype)
    for kind, function in (("U", lambda v: v), ("T", signed)):
        call(library, f"b_{kind}{letter}", a, a, out, count=len(values))
        if letter == "d":
            wanted = [float(function(v)) for v in values]
        else:
            with np.errstate(over="ignore"):
                wanted = [_nearest_float(function(v)) for v in values]
        np.testing.assert_array_equal(out, np.array(wanted, dtype))
    rng = np.random.default_rng(6)
    x = np.concatenate(
        [draw(rng, ("log", -1e38, 1e38), 2000, "f").astype(dtype), np.array([0.99, -0.99, 1, -1, 2.5, -2.5], dtype)]
    )
    wide = np.zeros(2 * x.size, np.uint64)
    call(library, f"b_{letter}T", x, x, wide, count=x.size)
    assert [signed(v) for v in unpack(wide)] == [int(v) for v in x.tolist()]
    x = np.abs(x)
    call(library, f"b_{letter}U", x, x, wide, count=x.size)
    assert unpack(wide) == [int(v) for v in x.tolist()]


def _nearest_float(value):
    """An integer to the nearest float, ties to even, in exact arithmetic."""
    size = abs(value)
    shift = max(size.bit_length() - 24, 0)
    kept, rest = size >> shift, size & ((1 << shift) - 1)
    half = 1 << (shift - 1) if shift else 1
    kept += rest > half or (rest == half and kept & 1)
    result = math.ldexp(kept, shift)
    return math.copysign(result if result < 2.0**128 else math.inf, value)


@pytest.mark.parametrize("suffix", TYPES)
@pytest.mark.parametrize("name", [name for name in EXACT if name != "fma"])
def test_exact_functions(library, name, suffix):
    dtype = TYPES[suffix][1]
    rng = np.random.default_rng(7)
    special = np.array([0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 0.49999997, 1.0, np.inf, -np.inf, np.nan, 2.0**23 + 1,
                        2.0**24 - 1, 2.0**52 + 1, 4503599627370495.5, np.finfo(dtype).smallest_subnormal,
                        np.finfo(dtype).max], dtype)  # fmt: skip
    x = np.concatenate([draw(rng, ("log", -1e30, 1e30), 3000, suffix), draw(rng, (-20, 20), 1000, suffix).astype(dtype),
                        np.arange(-20, 20, 0.25).astype(dtype), special])  # fmt: skip
    with np.errstate(all="ignore"):
        if EXACT[name] == 2:
            y = np.concatenate([rng.permutation(x[: -special.size]), special])
            grid = np.array(list(itertools.product(special, repeat=2)), dtype).T
            x, y = np.concatenate([x, grid[0]]), np.concatenate([y, grid[1]])
            got, wanted = library(name, suffix, x, y), _two(name, x, y)
        else:
            got, wanted = library(name, suffix, x), _one(name, x)
    np.testing.assert_array_equal(got, wanted)
    zero = wanted == 0
    np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(wanted[zero]))


def _one(name, x):
    if name == "round":
        return np.copysign(
            np.where(np.abs(x) < 2.0**52, np.floor(np.abs(x).astype(np.longdouble) + 0.5), np.abs(x)), x
        ).astype(x.dtype)
    if name == "logb":
        exponent = np.frexp(x)[1] - 1
        return np.where(x == 0, -np.inf, np.where(np.isfinite(x), exponent, np.abs(x))).astype(x.dtype)
    return getattr(np, {"nearbyint": "rint", "roundeven": "rint"}.get(name, name))(x)


def _two(name, x, y):
    if name == "remainder":
        return np.array([_remainder(a, b) for a, b in zip(x.tolist(), y.tolist(), strict=True)], x.dtype)
    if name == "fdim":
        return np.where(np.isnan(x) | np.isnan(y), np.nan, np.where(x > y, x - y, 0)).astype(x.dtype)
    if name in ("fmin", "fmax"):
        got = getattr(np, name)(x, y)
        both = (x == 0) & (y == 0)  # NumPy leaves the sign of such a zero open
        sign = np.signbit(x) | np.signbit(y) if name == "fmin" else np.signbit(x) & np.signbit(y)
        return np.where(both, np.where(sign, -0.0, 0.0), got).astype(x.dtype)
    return getattr(np, name)(x, y)


def _remainder(a, b):
    try:
        return math.remainder(a, b)
    except ValueError:
        return math.nan


def test_fma(library):
    rng = np.random.default_rng(8)
    for suffix, (_, dtype) in TYPES.items():
        info = np.finfo(dtype)
        edges = np.array(
            [
                0.0,
                -0.0,
                1,
                -1,
                info.tiny,
                -info.tiny,
                info.smallest_subnormal,
                info.max,
                -info.max,
                1 + info.eps,
                info.eps / 2,
                3,
            ],
            dtype,
        )
        rows = np.array(list(itertools.product(edges, repeat=3)), dtype)
        spread = np.stack([draw(rng, ("log", -1e20, 1e20), 3000, suffix) for _ in range(3)], 1)
        small = np.stack(
            [draw(rng, ("log", -1e-150 if not suffix else -1e-20, 1.0), 2000, suffix) for _ in range(3)], 1
        )
        near = rng.uniform(-2, 2, (3000, 3)).astype(dtype)
        with np.errstate(over="ignore", invalid="ignore"):
            near[:, 2] = -(near[:, 0] * near[:, 1]) * rng.choice(np.array([1, 1 + info.eps, 0.5, 2**-40], dtype), 3000)
        rows = np.concatenate([rows, spread, small, near])
        got = library("fma", suffix, *rows.T)
        for (x, y, z), g in zip(rows.tolist(), got.tolist(), strict=True):
            exact = fractions.Fraction(x) * fractions.Fraction(y) + fractions.Fraction(z)
            assert g == _round(exact, info), (x, y, z)


def _round(exact, info):
    """The nearest number of a format to a fraction, ties to even."""
    if exact == 0:
        return 0.0
    size = abs(exact)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= size < fractions.Fraction(2) ** exponent
    unit = fractions.Fraction(2) ** (max(exponent, int(info.minexp)) - int(info.nmant))
    kept, rest = divmod(size, unit)
    kept += rest * 2 > unit or (rest * 2 == unit and kept % 2)
    value = kept * unit
    return math.copysign(
        float(value) if value <= fractions.Fraction(float(info.max)) else math.inf, -1 if exact < 0 else 1
    )


@pytest.mark.parametrize("suffix", TYPES)
def test_exponents(library, suffix):
    dtype = TYPES[suffix][1]
    rng = np.random.default_rng(9)
    x = np.concatenate(
        [draw(rng, ("log", -1e308, 1e308), 3000, suffix), np.array([0.0, -0.0, np.inf, -np.inf, np.nan], dtype)]
    )
    n = rng.integers(-2200, 2200, x.size).astype(dtype)
    n[::2] = rng.integers(-200, 200, n[::2].size)
    out, two = np.zeros_like(x), np.zeros((x.size, 2), dtype)
    with np.errstate(all="ignore"):
        for name in ("ldexp", "scalbn"):
            call(library, f"b_{name}{suffix}", x, n, out, count=x.size)
            np.testing.assert_array_equal(out, np.ldexp(x, n.astype(np.int32)))
        call(library, f"b_frexp{suffix}", x, x, two, count=x.size)
        mantissa, exponent = np.frexp(x)
        np.testing.assert_array_equal(two[:, 0], mantissa)
        np.testing.assert_array_equal(two[:, 1], np.where(np.isfinite(x), exponent, 0))
        call(library, f"b_modf{suffix}", x, x, two, count=x.size)
        for i, wanted in enumerate(np.modf(x)):
            np.testing.assert_array_equal(two[:, i], wanted)
            np.testing.assert_array_equal(np.signbit(two[:-1, i]), np.signbit(wanted[:-1]))
        call(library, f"b_ilogb{suffix}", x[:3000], x, out, count=3000)
        np.testing.assert_array_equal(out[:3000], exponent[:3000] - 1)
        base = rng.uniform(0.5, 1.5, 200).astype(dtype)
        power = rng.integers(-30, 30, 200).astype(dtype)
        call(library, "b_powi" + ("f" if suffix else "d"), base, power, out, count=200)
        wanted = np.power(base.astype(np.float64), power.astype(np.float64))
        np.testing.assert_allclose(out[:200], wanted, rtol=40 * float(np.finfo(dtype).eps))


@pytest.mark.parametrize("suffix", TYPES)
def test_quotients_of_remainders(library, suffix):
    dtype = TYPES[suffix][1]
    rng = np.random.default_rng(11)
    x, y = (np.concatenate([rng.uniform(-100, 100, 300), np.arange(-150, 150) / 4]).astype(dtype) for _ in range(2))
    y = rng.permutation(np.where(y == 0, dtype(0.75), y))
    two = np.zeros((x.size, 2), dtype)
    call(library, f"b_remquo{suffix}", x, y, two, count=x.size)
    for a, b, (rest, quotient) in zip(x.tolist(), y.tolist(), two.tolist(), strict=True):
        exact = fractions.Fraction(a) / fractions.Fraction(b)
        assert rest == math.remainder(a, b), (a, b)
        assert quotient == round(exact), (a, b)
    far = np.array([1e30, -1e30, np.inf, 1, 3], dtype), np.array([3, 7, 2, np.inf, 0], dtype)
    call(library, f"b_remquo{suffix}", *far, two, count=5)
    for a, b, quotient in zip(far[0].tolist()[:2], far[1].tolist(), two[:2, 1].tolist(), strict=False):
        whole = abs(round(fractions.Fraction(a) / fractions.Fraction(b))) % 2**31  # the low bits
        assert quotient == dtype(whole if a > 0 else -whole)
    assert np.isnan(two[[2, 4], 0]).all() and two[3].tolist() == [1, 0]


@pytest.mark.parametrize("suffix", TYPES)
def test_classes_signs_and_wide_exponents(library, suffix):
    dtype = TYPES[suffix][1]
    tiny = np.finfo(dtype).tiny
    x = np.array([np.nan, -np.inf, -0.0, tiny / 2, -tiny, 1.5, np.finfo(dtype).max], dtype)
    out = np.zeros_like(x)
    call(library, f"b_class{suffix}", x, x, out, count=x.size)
    assert out.tolist() == [0, 1, 2, 3, 4, 4, 4]  # FP_NAN, FP_INFINITE, FP_ZERO, FP_SUBNORMAL, FP_NORMAL of musl
    call(library, f"b_nan{suffix}", x, x, out, count=x.size)
    assert np.isnan(out).all()
    call(library, f"b_scalbln{suffix}", x, np.array([0, 0, 1, 1, -1, -1, 1], dtype), out, count=x.size)
    assert np.isnan(out[0]) and out[1:].tolist() == [-np.inf, 0.0, np.inf, 0.0, 0.0, np.inf]
    x = np.array([-0.5, -1.5, -2.5, -40.5, -41.5, -40.25, -1e-200, 0.5, 30.0, -0.0, 0.0, -np.inf], dtype)
    x[6] = -tiny
    two = np.zeros((x.size, 2), dtype)
    call(library, f"b_lgammar{suffix}", x, x, two, count=x.size)
    signs = [-1, 1, -1, -1, 1, -1, -1, 1, 1, -1, 1, 1]
    assert two[:, 1].tolist() == signs
    assert [math.copysign(1, math.gamma(v)) for v in x[:9].tolist()] == signs[:9]
    np.testing.assert_array_equal(two[:, 0], library("lgamma", suffix, x))


def test_rounding_to_integers(library):
    x = np.concatenate([np.arange(-10, 10, 0.25), [1e15 + 0.5, -1e15 - 0.5, 0.49999999999999994]])
    out = np.zeros_like(x)
    for name, wanted in (("b_lrint", np.rint(x)), ("b_lround", _one("round", x))):
        call(library, name, x, x, out, count=x.size)
        np.testing.assert_array_equal(out, wanted)
    v = x.astype(np.float32)
    out = np.zeros_like(v)
    for name, wanted in (("b_llrintf", np.rint(v)), ("b_llroundf", _one("round", v))):
        call(library, name, v, v, out, count=v.size)
        np.testing.assert_array_equal(out, wanted)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    data=st.binary(min_size=0, max_size=400),
    source=st.integers(0, 130),
    target=st.integers(0, 130),
    count=st.integers(0, 300),
    value=st.integers(-300, 300),
)
def test_memory(library, data, source, target, count, value):
    """memmove with every kind of overlap, and the others, against Python's slices; nothing beyond is touched."""
    data = data.ljust(500, b"\x5a")
    dll = library.dll

    def run(function, *arguments):
        room = ctypes.create_string_buffer(data, len(data))
        base = ctypes.addressof(room)
        returned = function(
            *(ctypes.c_void_p(base + a) if i < 2 and a is not None else a for i, a in enumerate(arguments))
        )
        return room.raw, returned, base

    size = ctypes.c_size_t(count)
    moved = data[:target] + data[source : source + count] + data[target + count :]
    raw, returned, base = run(dll.c_memmove, target, source, size)
    assert raw == moved and returned == base + target
    if abs(source - target) >= count:
        raw, returned, base = run(dll.c_memcpy, target, source, size)
        assert raw == moved and returned == base + target
    room = ctypes.create_string_buffer(data, len(data))
    base = ctypes.addressof(room)
    assert dll.c_memset(ctypes.c_void_p(base + target), value, size) == base + target
    assert room.raw == data[:target] + bytes([value & 255]) * count + data[target + count :]
    a, b = data[source : source + count], data[target : target + count]
    room = ctypes.create_string_buffer(data, len(data))
    base = ctypes.addressof(room)
    got = dll.c_memcmp(ctypes.c_void_p(base + source), ctypes.c_void_p(base + target), size)
    assert (got > 0) - (got < 0) == (a > b) - (a < b)
    assert (dll.c_bcmp(ctypes.c_void_p(base + source), ctypes.c_void_p(base + target), size) == 0) == (a == b)
    text = ctypes.create_string_buffer(data)
    dll.c_strlen.restype = ctypes.c_size_t
    assert dll.c_strlen(text) == len(text.value)
