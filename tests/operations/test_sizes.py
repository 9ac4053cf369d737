"""Terms over sizes: equal where they are equal for all sizes, and evaluated as integers are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pydispatch as pd
from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import F64, I8, I32, I64, U8, U32
from pydispatch.graph.size_functions import maximum, minimum
from pydispatch.graph.sizes import Expr, Size, Term, UndecidedError, sign, sign_unless_empty, symbol
from pydispatch.graph.values import Tensor
from pydispatch.operations import elementwise as ew


def value(of: Size, at: dict[str, int]) -> int:
    """The number that a size is."""
    if not isinstance(of, Expr):
        return of
    total = 0
    for atoms, factor in of.terms:
        for atom in atoms:
            if isinstance(atom, Term):
                a, b = value(atom.a, at), value(atom.b, at)
                factor *= {"//": lambda a, b: a // b, "%": lambda a, b: a % b, "max": max, "min": min}[atom.op](a, b)
            else:
                factor *= at[atom.name]
        total += factor
    return total


def sizes() -> st.SearchStrategy[Size]:
    leaf = st.one_of(st.integers(-4, 9), st.sampled_from([symbol("n"), symbol("m")]))

    def larger(inner: st.SearchStrategy[Size]) -> st.SearchStrategy[Size]:
        pair = st.tuples(inner, inner)
        return st.one_of(
            pair.map(lambda p: p[0] + p[1]), pair.map(lambda p: p[0] - p[1]), pair.map(lambda p: p[0] * p[1]),
            st.tuples(inner, st.integers(1, 5)).map(lambda p: p[0] // p[1]),
            pair.map(lambda p: maximum(*p)), pair.map(lambda p: minimum(*p)),
        )  # fmt: skip

    return st.recursive(leaf, larger, max_leaves=6)


AT = st.fixed_dictionaries({"n": st.integers(0, 9), "m": st.integers(0, 9)})


@settings(deadline=None)
@given(a=sizes(), b=sizes(), at=AT)
def test_arithmetic_is_that_of_integers(a: Size, b: Size, at: dict[str, int]) -> None:
    x, y = value(a, at), value(b, at)
    assert value(a + b, at) == x + y
    assert value(a - b, at) == x - y
    assert value(a * b, at) == x * y
    if y > 0:
        assert value(a // b, at) == x // y
    if a == b:
        assert x == y


@settings(deadline=None)
@given(a=sizes(), at=AT)
def test_a_decided_sign_holds(a: Size, at: dict[str, int]) -> None:
    try:
        decided = sign(a)
    except UndecidedError:
        return
    assert decided == np.sign(value(a, at))


@settings(deadline=None)
@given(a=sizes(), b=sizes(), at=AT)
def test_extrema_are_those_of_integers(a: Size, b: Size, at: dict[str, int]) -> None:
    x, y = value(a, at), value(b, at)
    assert value(maximum(a, b), at) == max(x, y)
    assert value(minimum(a, b), at) == min(x, y)


@settings(deadline=None)
@given(a=sizes(), at=AT)
def test_a_sign_without_empty_tensors_holds(a: Size, at: dict[str, int]) -> None:
    try:
        decided = sign_unless_empty(a)
    except UndecidedError:
        return
    assert 0 in at.values() or decided == np.sign(value(a, at))


def test_equal_slices_have_equal_sizes() -> None:
    n = symbol("n")
    assert maximum(n - 1, 0) == n - minimum(1, n) == n - minimum(n, 1)
    assert maximum(maximum(n - 1, 0) - 1, 0) == maximum(n - 2, 0)
    assert minimum(n + 2, 7) == minimum(n, 5) + 2
    assert minimum(minimum(n, 3), 2) == minimum(n, 2)
    # Sizes are not negative, and may be 0. Bounds that checks state, and integers of any sign, are exceptions.
    assert n >= 0 and minimum(n, 1) <= 1 and n >= minimum(n, 1) and maximum(n, 0) == n
    for undecided in (lambda: n >= 1, lambda: n == minimum(n, 1) or sign(minimum(n, 1))):
        with pytest.raises(UndecidedError):
            undecided()
    assert sign(symbol("n", least=2) - 1) == 1 == sign_unless_empty(n)
    for integer in (symbol("n", least=None), symbol("n", least=None) + 1):
        with pytest.raises(UndecidedError):
            sign_unless_empty(integer)


def test_products_divide() -> None:
    n, m = symbol("n"), symbol("m")
    assert (n * m * 12) // (n * m) == 12
    assert (n * 6 + 4) // 2 == n * 3 + 2
    assert isinstance((n + 1) // 2, Expr)
    assert n - n == 0 and n * 0 == 0
    assert (n + 1) ** 2 == n * n + n * 2 + 1 and n**0 == 1
    with pytest.raises(TypeError):
        n**-1
    with pytest.raises(UndecidedError, match="n"):
        sign(n - 5)


def test_arrays_of_sizes() -> None:
    n = symbol("n")
    shape = np.array([n, 4], dtype=object)
    assert (shape * 2).tolist() == [n * 2, 8]
    assert shape.prod() == n * 4


@pytest.mark.parametrize("length", [5, 7, 8, 13])
def test_remainders_have_the_sign_of_the_divisor(run: Any, length: int) -> None:
    def remainders(b: Builder, x: Tensor) -> Tensor:
        n = x.shape[0]
        return b.constant(np.array([-n % 4, (n - 8) % 3, (5 - n) % -3, n % -4, -20 % n, n % (n - 20)], object), I64)

    n = length
    (result,) = run(remainders, np.zeros(length, np.float32), dynamic=True)
    assert np.asarray(result).tolist() == [-n % 4, (n - 8) % 3, (5 - n) % -3, n % -4, -20 % n, n % (n - 20)]


DIVISIONS = {
    "div": lambda x, y: (abs(x) // abs(y)) * np.sign(x) * np.sign(y),
    "rem": lambda x, y: (abs(x) % abs(y)) * np.sign(x),
    "floor_div": lambda x, y: x // y,
    "floor_rem": lambda x, y: x % y,
}


@pytest.mark.parametrize("length", [1, 5, 7, 8, 13])
@pytest.mark.parametrize("name", DIVISIONS)
def test_divisions_of_sizes_round_like_divisions_of_integers(run: Any, name: str, length: int) -> None:
    """The signs of -n and n are known while compiling; that of n - 8 is not. A divisor that is a size is divided by at
    run time."""

    def operands(n: Any) -> tuple[list[Any], list[Any]]:
        return [-n, n, n - 8, n - 8, 8 - n, n * 2 - 16, -20], [3, -2, 3, -3, 2, -2, n]

    def divisions(b: Builder, x: Tensor) -> list[Tensor]:
        dividends, divisors = operands(x.shape[0])
        pairs = zip(dividends, divisors, strict=True)
        return [ew.binary(b, name, *(b.constant(np.array(n), I64) for n in pair)) for pair in pairs]

    results = run(divisions, np.zeros(length, np.float32), dynamic=True)
    expected = [DIVISIONS[name](x, y) for x, y in zip(*operands(length), strict=True)]
    assert [int(np.asarray(x)) for x in results] == expected


@pytest.mark.parametrize("length", [1, 5, 13])
def test_sizes_wrap_around_in_types_that_do_not_hold_them(run: Any, length: int) -> None:
    def converted(b: Builder, x: Tensor) -> list[Tensor]:
        n = x.shape[0]
        pairs = [(n + 125, I8), (-n, U8), (n - 8, U32), (n, U32), (n - 8, I32)]
        narrow = [ew.convert(b, b.constant(np.array(k), I64), dtype) for k, dtype in pairs]
        are_negative = [ew.compare(b, "lt", t, b.constant(np.array(0), t.dtype)) for t in narrow]
        halves = [ew.convert(b, ew.binary(b, "div", t, b.constant(np.array(2), t.dtype)), F64) for t in narrow]
        return [*are_negative, *halves]

    results = [int(np.asarray(x)) for x in run(converted, np.zeros(length, np.float32), dynamic=True)]
    n = length
    expected = [(n + 253) % 256 - 128, -n % 256, (n - 8) % 2**32, n, n - 8]
    assert results == [k < 0 for k in expected] + [int(k / 2) for k in expected]


def test_products_that_32_bits_do_not_hold_are_refused(run: Any) -> None:
    """Sums and products wrap around, as in NumPy. Quotients, comparisons and wider types of a product that does fail
    the call."""

    def products(b: Builder, x: Tensor) -> list[Tensor]:
        n = b.constant(np.array([x.shape[0], 1 << 16], object), I32)
        return [ew.binary(b, "mul", n, n)]

    (squares,) = run(products, np.zeros(70_000, np.float32), dynamic=True)
    numbers = np.array([70_000, 1 << 16], np.int32)
    np.testing.assert_array_equal(squares, numbers * numbers)

    for use in (
        lambda b, n: ew.binary(b, "div", n, b.constant(np.int32(3))),
        lambda b, n: ew.compare(b, "lt", n, b.constant(np.int32(0))),
        lambda b, n: ew.convert(b, n, I64),
    ):

        def used(b: Builder, x: Tensor, use: Any = use) -> Tensor:
            n = b.constant(np.array(x.shape[0], object), I32)
            return use(b, ew.binary(b, "mul", n, b.constant(np.int32(1 << 16))))

        expected = {"int64": 3 << 16, "int32": 1 << 16, "bool": False}
        (result,) = run(used, np.zeros(3, np.float32), dynamic=True)
        assert result == expected[result.dtype.name]
        with pytest.raises(pd.InvalidArgumentError, match=r"size 65536\*n0_0 is 4587520000, which i32 does not hold"):
            run(used, np.zeros(70_000, np.float32), dynamic=True)
