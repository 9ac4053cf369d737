"""Every operation of `arith` and `math` on tensors of every type, against exact integers, NumPy and ml_dtypes.

One program per element type holds a function per operation; drawn elements are bit patterns, so that special values are
as likely as any.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from harness import examples
from hypothesis import given
from hypothesis import strategies as st
from references import (
    EXACT,
    FLOAT_PREDICATES,
    FLOATS,
    INTEGERS,
    KINDS,
    NEAR,
    PREDICATES,
    UNARY,
    Array,
    binary,
    compared,
    full,
    of_bits,
    quiet,
    rounded,
    signed,
    steps,
    unsigned,
    wrapped,
)

import pydispatch as pd

# -- programs


def function(name: str, expression: str, operands: int, type_: str, result: str | None = None, results: int = 1) -> str:
    """`expression` with %0, %1, … for operands and TYPE, RESULT for tensor types, as a function."""
    tensor, out = f"tensor<?x{type_}>", f"tensor<?x{result or type_}>"
    text = expression.replace("TYPE", tensor).replace("RESULT", out)
    for i in range(operands):
        text = text.replace(f"%{i}", f"%a{i}")
    arguments = ", ".join(f"%a{i}: {tensor}" for i in range(operands))
    names = "%r" if results == 1 else ", ".join(f"%r#{i}" for i in range(results))
    outs = ", ".join([out] * results)
    left = "%r" if results == 1 else f"%r:{results}"
    return f"func.func @{name}({arguments}) -> ({outs}) {{\n  {left} = {text}\n  return {names} : {outs}\n}}\n"


@cache
def program(functions: tuple[str, ...]) -> Any:
    return pd.device("cpu").load(pd.compile("".join(functions)))


# -- integers


def integer_functions(type_: str) -> Iterator[str]:
    for op in binary(type_):
        yield function(op.replace(".", "_"), f"{full(op)} %0, %1 : TYPE", 2, type_)
    for op in UNARY:
        yield function(op.replace(".", "_"), f"{op} %0 : TYPE", 1, type_)
    for op in PREDICATES:
        yield function(f"cmp_{op}", f"arith.cmpi {op}, %0, %1 : TYPE", 2, type_, "i1")
    if type_ != "index":
        for op in ("mulsi_extended", "mului_extended"):
            yield function(op, f"arith.{op} %0, %1 : TYPE", 2, type_, results=2)


def drawn(bits: int, lanes: int = 32) -> Any:
    """Bit patterns: any, or one beside the ends and powers of two."""
    edges = sorted({unsigned(s * (1 << k) + d, bits) for k in range(bits) for d in (-1, 0, 1) for s in (1, -1)})
    pattern = st.one_of(st.sampled_from(edges), st.integers(0, (1 << bits) - 1))
    return st.lists(st.tuples(pattern, pattern), min_size=lanes // 2, max_size=lanes)


@pytest.mark.parametrize("type_", INTEGERS)
def test_integers(type_: str) -> None:
    dtype, bits = INTEGERS[type_]
    loaded = program(tuple(integer_functions(type_)))

    @examples(2)
    @given(drawn(bits))
    def check(pairs: list[tuple[int, int]]) -> None:
        xs, ys = ([signed(p[i], bits) for p in pairs] for i in (0, 1))
        a, b = wrapped(xs, dtype, bits), wrapped(ys, dtype, bits)
        for op, reference in binary(type_).items():
            wanted = wrapped([reference(x, y, bits) for x, y in zip(xs, ys, strict=True)], dtype, bits)
            np.testing.assert_array_equal(loaded[op.replace(".", "_")](a, b), wanted, err_msg=f"{op} {xs} {ys}")
        for op, one in UNARY.items():
            wanted = wrapped([one(x, bits) for x in xs], dtype, bits)
            np.testing.assert_array_equal(loaded[op.replace(".", "_")](a), wanted, err_msg=f"{op} {xs}")
        for op, reference in PREDICATES.items():
            truth = np.array([reference(x, y, bits) for x, y in zip(xs, ys, strict=True)], np.bool_)
            np.testing.assert_array_equal(loaded[f"cmp_{op}"](a, b), truth, err_msg=f"{op} {xs} {ys}")
        if type_ != "index":
            for op in ("mulsi_extended", "mului_extended"):
                as_ = signed if op == "mulsi_extended" else unsigned
                products = [as_(x, bits) * as_(y, bits) for x, y in zip(xs, ys, strict=True)]
                low, high = loaded[op](a, b)
                np.testing.assert_array_equal(low, wrapped(products, dtype, bits), err_msg=f"{op} {xs} {ys}")
                np.testing.assert_array_equal(
                    high, wrapped([p >> bits for p in products], dtype, bits), err_msg=f"{op} {xs} {ys}"
                )

    check()


# -- floats


def operations(type_: str) -> dict[str, tuple[int, Callable[..., Array]]]:
    """Small floats are computed as f32 and rounded, whatever their kind: one of them stands for all functions."""
    return {**EXACT, **NEAR} if FLOATS[type_][1] > 8 or type_ == "f8E5M2" else EXACT


def float_functions(type_: str) -> Iterator[str]:
    for op, (arity, _) in operations(type_).items():
        operands = ", ".join(f"%{i}" for i in range(arity))
        yield function(op.replace(".", "_"), f"{full(op)} {operands} : TYPE", arity, type_)
    for op in FLOAT_PREDICATES:
        yield function(f"cmp_{op}", f"arith.cmpf {op}, %0, %1 : TYPE", 2, type_, "i1")
    for op in KINDS:
        yield function(op, f"math.{op} %0 : TYPE", 1, type_, "i1")


def has_nan(dtype: Any) -> bool:
    return dtype is not ml_dtypes.float4_e2m1fn


@pytest.mark.parametrize("type_", FLOATS)
def test_floats(type_: str) -> None:
    """Arithmetic is rounded once; functions of f32 and f64 are off by 2 numbers at most, narrower ones by 1."""
    dtype, bits = FLOATS[type_]
    loaded = program(tuple(float_functions(type_)))
    wide = np.longdouble if type_ == "f64" else np.float64

    @examples(2)
    @given(drawn(bits))
    def check(pairs: list[tuple[int, int]]) -> None:
        a, b = (of_bits([p[i] for p in pairs], dtype, bits) for i in (0, 1))
        x, y = a.astype(wide), b.astype(wide)
        for op, (arity, reference) in operations(type_).items():
            got = loaded[op.replace(".", "_")](*(a, b)[:arity])
            exact = quiet(reference)(*(x, y)[:arity])
            wanted = rounded(exact, dtype)
            if op in ("addf", "subf", "mulf", "divf", "remf", "math.sqrt") and type_ == "f64":
                wanted = quiet(reference)(*(a, b)[:arity])
            away = steps(got, wanted)
            if not has_nan(dtype):
                away[np.isnan(exact)] = 0
            limit = 0 if op in EXACT else 2 if bits >= 32 else 1
            if type_ == "f64" and op in ("math.erf", "math.erfc"):
                limit = 3  # the C library's own error comes on top
            wrong = np.flatnonzero(away > limit)
            assert not len(wrong), (
                f"{op}({', '.join(str(v[wrong[0]]) for v in (a, b)[:arity])}) is {got[wrong[0]]}, "
                f"wanted {wanted[wrong[0]]}, {away[wrong[0]]} steps away"
            )
        for op in FLOAT_PREDICATES:
            np.testing.assert_array_equal(loaded[f"cmp_{op}"](a, b), compared(op, x, y), err_msg=f"{op} {a} {b}")
        for op, kind in KINDS.items():
            np.testing.assert_array_equal(loaded[op](a), kind(x), err_msg=f"{op} {a}")

    check()
