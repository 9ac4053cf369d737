"""What checks accept and what they say, against NumPy."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from pydispatch._core.arrays import type_of

import pydispatch as pd
from pydispatch.formats.program.opcodes import Numerical, dtype_word
from pydispatch.runtime.program.checks import Check, compare, verify

F32 = type_of(dtype_word(Numerical.FLOAT, 32))
I32 = type_of(dtype_word(Numerical.INTEGER, 32))


def check(kind, types, atol=0.0, rtol=0.0):
    return Check(kind, "f.mlir:3:5", types, atol, rtol)


def test_equal_values_pass_and_the_first_difference_is_named():
    a = np.arange(12, dtype=np.int32).reshape(3, 4)
    b = a.copy()
    assert compare(check("expect_eq", (I32, I32)), [a, b]) is None
    b[1, 2] = 99
    b[2, 0] = 98
    wrong = compare(check("expect_eq", (I32, I32)), [a, b])
    assert wrong == "element [1, 2] is 6, expected 99; 2 of 12 elements differ"


def test_shapes_that_differ():
    a, b = np.zeros((2, 3), np.float32), np.zeros((3, 2), np.float32)
    for kind in ("expect_eq", "expect_almost_eq"):
        assert compare(check(kind, (F32, F32)), [a, b]) == "expected 3x2xf32, got 2x3xf32"


@given(hnp.arrays(np.float32, hnp.array_shapes(min_side=0, max_side=4), elements=st.floats(width=32)))
def test_every_value_equals_itself(array):
    for kind in ("expect_eq", "expect_almost_eq"):
        assert compare(check(kind, (F32, F32)), [array, array.copy()]) is None


@given(
    hnp.arrays(np.float32, (7,), elements=st.floats(-1e6, 1e6, width=32)),
    hnp.arrays(np.float32, (7,), elements=st.floats(-1e6, 1e6, width=32)),
    st.floats(0, 10), st.floats(0, 1),
)  # fmt: skip
def test_tolerances_are_those_of_numpy(a, b, atol, rtol):
    wrong = compare(check("expect_almost_eq", (F32, F32), atol, rtol), [a, b])
    agrees = np.isclose(a.astype(np.float64), b.astype(np.float64), rtol=rtol, atol=atol).all()
    assert (wrong is None) == bool(agrees)


def test_infinities_and_nan():
    one, inf, nan = np.float32(1), np.float32(np.inf), np.float32(np.nan)
    almost = check("expect_almost_eq", (F32, F32), 1e30, 1.0)
    assert compare(almost, [np.array([inf]), np.array([inf])]) is None
    assert compare(almost, [np.array([nan]), np.array([-nan])]) is None
    assert compare(almost, [np.array([inf]), np.array([-inf])]) is not None
    assert compare(almost, [np.array([nan]), np.array([one])]) is not None


def test_truth():
    assert compare(check("expect_true", (I32,)), [1]) is None
    assert compare(check("expect_false", (I32,)), [0]) is None
    assert compare(check("expect_true", (I32,)), [0]) == "expected a true value, got 0"
    wrong = compare(check("expect_all_true", (I32,)), [np.array([[1, 1], [1, 0]], np.int32)])
    assert wrong == "expected all elements to be true; 1 of 4 elements false, the first at [1, 1]"


def test_all_failures_of_a_call_are_told():
    a, b = np.zeros(2, np.int32), np.ones(2, np.int32)
    equal = check("expect_eq", (I32, I32))
    verify("f", [(equal, [a, a])])
    first = r"@f: f\.mlir:3:5: check\.expect_eq: element \[0\] is 0"
    with pytest.raises(pd.CheckError, match=rf"{first}.*\n.*element \[0\] is 1"):
        verify("f", [(equal, [a, b]), (equal, [a, a]), (equal, [b, a])])


@pytest.mark.parametrize(("name", "bits"), [("float16", 16), ("float32", 32), ("float64", 64)])
def test_distances_in_units_of_the_last_place(name, bits):
    """Numbers of one sign differ by their bit patterns; subnormal ones are 0 or the smallest normal number."""
    kind = type_of(dtype_word(Numerical.FLOAT, bits))
    word, info = np.dtype(f"i{bits // 8}"), np.finfo(name)
    normal = int(info.smallest_normal.view(word)) - 1
    numbers = np.array([info.smallest_normal, 1.0, np.nextafter(info.dtype.type(1), 2), 3.5, info.max], name)
    numbers = np.concatenate([numbers, -numbers, np.array([0.0, -0.0, info.smallest_subnormal], name)])
    count = [max(int(abs(x).view(word)) - normal, 0) * (-1 if x < 0 else 1) for x in numbers]
    for x, m in zip(numbers, count, strict=True):
        for y, n in zip(numbers, count, strict=True):
            distance = float(abs(m - n))
            pair = [np.array([x]), np.array([y])]
            assert compare(check("expect_close", (kind, kind), distance, distance), pair) is None, (x, y)
            assert compare(check("expect_close", (kind, kind), distance * 2 + 2, distance * 1.5 + 1), pair) is not None
    special = np.array([np.nan, np.inf, -np.inf, info.max], name)
    for i, x in enumerate(special):
        for j, y in enumerate(special):
            found = compare(check("expect_close", (kind, kind), 1e300, 0), [np.array([x]), np.array([y])])
            assert (found is None) == (i == j), (x, y)


def test_distances_of_other_floats():
    bf16, c64 = type_of(dtype_word(Numerical.BFLOAT, 16)), type_of(dtype_word(Numerical.COMPLEX, 64))
    words = np.array([0x3F80, 0x3F83], np.uint16).view(bf16.dtype)  # 1 and three numbers further
    assert compare(check("expect_close", (bf16, bf16), 3, 3), [words[:1], words[1:]]) is None
    wrong = compare(check("expect_close", (bf16, bf16), 2), [words[:1], words[1:]])
    assert wrong is not None and wrong.endswith("and by 3 units of the last place (limits 0 and 2)")
    near = np.nextafter(np.float32(2), np.float32(3))
    pair = [np.array([1 + 2j], np.complex64), np.array([1 + 1j * near], np.complex64)]
    assert compare(check("expect_close", (c64, c64), 1, 1), pair) is None


@pytest.mark.parametrize(
    ("name", "dtype", "zeros"), [("bf16", np.uint16, [0, 0x8000]), ("f8E5M2", np.uint8, [0, 0x80])]
)
def test_zeros_of_both_signs_are_equal_without_ml_dtypes(name, dtype, zeros):
    """Floats that NumPy does not have are then integers with their bits."""
    kind = SimpleNamespace(name=name, numerical=Numerical.BFLOAT, dtype=np.dtype(dtype))
    both = np.array(zeros, dtype)
    assert compare(check("expect_eq", (kind, kind)), [both, both[::-1]]) is None
    assert compare(check("expect_eq", (kind, kind)), [both, both + dtype(1)]) is not None
