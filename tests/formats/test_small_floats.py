"""Every code of every small format, against ml_dtypes."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from pydispatch.formats.arrays.small_floats import FORMATS, decode, encode, encode_bfloat, limits, values


@pytest.mark.parametrize("name", [*FORMATS, "f8E8M0FNU"])
def test_every_code(name):
    theirs = getattr(ml_dtypes, "float" + name[1:2] + "_" + name[2:].lower())
    codes = np.arange(len(values(name)), dtype=np.uint8)
    expected = codes.view(theirs).astype(np.float64)
    actual = decode(codes, name)
    np.testing.assert_array_equal(actual, expected)
    np.testing.assert_array_equal(np.signbit(actual[actual == 0]), np.signbit(expected[expected == 0]))


@pytest.mark.parametrize("name", [*FORMATS, "f8E8M0FNU"])
def test_limits_are_infinities_or_numbers(name):
    info = ml_dtypes.finfo("float" + name[1:2] + "_" + name[2:].lower())
    has_infinity = np.isinf(values(name)).any()
    assert limits(name) == ((-np.inf, np.inf) if has_infinity else (float(info.min), float(info.max)))
    assert limits("bf16") == (-np.inf, np.inf)


def test_unknown_names():
    with pytest.raises(KeyError):
        values("f8E1M6")


def test_bfloats_are_rounded_once():
    codes = np.arange(0, 0x7F80, dtype=np.uint16)  # the finite numbers without a sign
    numbers = codes.view(ml_dtypes.bfloat16).astype(np.float64)
    ties = (numbers[1:] + numbers[:-1]) / 2
    for sign, bit in ((1, 0), (-1, 0x8000)):
        np.testing.assert_array_equal(encode_bfloat(sign * numbers), codes | bit)
        np.testing.assert_array_equal(encode_bfloat(sign * ties), (codes[:-1] + codes[:-1] % 2) | bit)
        np.testing.assert_array_equal(encode_bfloat(sign * np.nextafter(ties, 0)), codes[:-1] | bit)
        np.testing.assert_array_equal(encode_bfloat(sign * np.nextafter(ties, np.inf)), codes[1:] | bit)
        special = encode_bfloat(np.copysign([np.inf, 1e39, np.nan], sign))
        np.testing.assert_array_equal(special, np.array([0x7F80, 0x7F80, 0x7FC0]) | bit)


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
def test_integers_wider_than_f64_are_rounded_once(dtype):
    # bf16 numbers near 2^60 differ by 2^53: 2^60 + 2^52 is a tie, and 2^60 has the even code.
    base, tie = 1 << 60, (1 << 60) + (1 << 52)
    integers = [tie - 1, tie, tie + 1, base + (1 << 53) + 1, (1 << 63) - 1, (1 << 53) + 1]
    expected = [base, base, base + (1 << 53), base + (1 << 53), 1 << 63, 1 << 53]
    codes = encode_bfloat(np.array(integers, dtype))
    assert [int(value) for value in codes.view(ml_dtypes.bfloat16).astype(np.float64)] == expected
    if dtype is np.int64:
        np.testing.assert_array_equal(encode_bfloat(-np.array(integers, dtype)), codes | 0x8000)
        assert encode_bfloat(np.array([-(1 << 63)])) == 0xDF00
    else:
        np.testing.assert_array_equal(encode_bfloat(np.array([(1 << 64) - 1, 3 << 62], dtype)), [0x5F80, 0x5F40])


def test_exponents_of_integers_wider_than_f64_are_rounded_down():
    integers = np.array([(1 << 60) - 1, 1 << 60, (1 << 53) + 1, (1 << 63) - 1])
    np.testing.assert_array_equal(encode(integers, "f8E8M0FNU"), np.array([59, 60, 53, 62]) + 127)
