"""Every code of every small format, against ml_dtypes."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from pydispatch.formats.arrays.small_floats import FORMATS, decode, values


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
