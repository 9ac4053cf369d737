"""Every code of every small format, against ml_dtypes."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from pydispatch.formats.arrays.small_floats import FORMATS, decode, encode_bfloat, values


@pytest.mark.parametrize("name", [*FORMATS, "f8E8M0FNU"])
def test_every_code(name):
    theirs = getattr(ml_dtypes, "float" + name[1:2] + "_" + name[2:].lower())
    codes = np.arange(len(values(name)), dtype=np.uint8)
    expected = codes.view(theirs).astype(np.float64)
    actual = decode(codes, name)
    np.testing.assert_array_equal(actual, expected)
    np.testing.assert_array_equal(np.signbit(actual[actual == 0]), np.signbit(expected[expected == 0]))


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
