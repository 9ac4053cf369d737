# ruff: noqa: E501  (conditions and their messages)
"""Conversions between all element types on tensors, against ml_dtypes and NumPy.

Floats to integers saturate and take NaN to 0 here; floats to floats round to nearest even, and what overflows becomes
what the type has for it (infinity, NaN, or the largest number).
"""

from __future__ import annotations

from collections.abc import Iterator

import ml_dtypes
import numpy as np
import pytest
from harness import examples
from hypothesis import given
from references import (
    FLOATS,
    INTEGERS,
    numbers,
    of_bits,
    saturated,
    signed,
    steps,
    through_odd,
    to_float,
    unsigned,
    wrapped,
)
from test_math_properties import drawn, function, program

E8M0 = ml_dtypes.float8_e8m0fnu
WIDTHS = {**{k: v[1] for k, v in INTEGERS.items() if k != "index"}, **{k: v[1] for k, v in FLOATS.items()}}


def float_casts(source: str) -> Iterator[tuple[str, str, str]]:
    """(operation, source, target) of everything that a float type converts to by one operation."""
    for target, (_, bits) in FLOATS.items():
        if bits > FLOATS[source][1]:
            yield "extf", source, target
        if bits < FLOATS[source][1]:
            yield "truncf", source, target
    for target in ("i1", "i2", "i4", "i8", "i16", "i32", "i64"):
        yield "fptosi", source, target
        yield "fptoui", source, target
    for target, bits in WIDTHS.items():
        if bits == FLOATS[source][1] and target != source:
            yield "bitcast", source, target


@pytest.mark.parametrize("source", FLOATS)
def test_floats_become_anything(source: str) -> None:
    casts = list(float_casts(source))
    loaded = program(
        tuple(function(f"{op}_{t}", f"arith.{op} %0 : TYPE to RESULT", 1, source, t) for op, _, t in casts)
    )
    dtype, bits = FLOATS[source]

    @examples(2)
    @given(drawn(bits))
    def check(pairs: list[tuple[int, int]]) -> None:
        a = of_bits([p[0] for p in pairs], dtype, bits)
        for op, _, target in casts:
            got = loaded[f"{op}_{target}"](a)
            to = numbers(target)
            if op in ("fptosi", "fptoui"):
                n = WIDTHS[target]
                low, high = (-(1 << (n - 1)), (1 << (n - 1)) - 1) if op == "fptosi" else (0, (1 << n) - 1)
                wanted = wrapped([signed(v, n) for v in saturated(a.astype(np.float64), low, high)], to, n)
                np.testing.assert_array_equal(got, wanted, err_msg=f"{op} {source} to {target} of {a}")
            elif op == "bitcast":
                n = WIDTHS[target]
                wanted = (
                    of_bits([p[0] for p in pairs], to, n) if target in FLOATS else wrapped([p[0] for p in pairs], to, n)
                )
                np.testing.assert_array_equal(
                    got.view(f"u{got.itemsize}") & unsigned(-1, n), wanted.view(f"u{wanted.itemsize}") & unsigned(-1, n),
                    err_msg=f"{op} {source} to {target} of {a}",
                )  # fmt: skip
            else:
                with np.errstate(all="ignore"):
                    wanted = a.astype(to)
                    if source == "f64" and bits > 2 * FLOATS[target][1]:
                        wanted = through_odd(a).astype(to)
                away = steps(got, wanted)
                if target == "f4E2M1FN":
                    away[np.isnan(a.astype(np.float64))] = 0
                assert not away.any(), (
                    f"{op} {source} to {target} of {a[away > 0][0]}: {got[away > 0][0]}, {wanted[away > 0][0]}"
                )

    check()


@pytest.mark.parametrize("source", [t for t in INTEGERS if t != "index"])
def test_integers_become_anything(source: str) -> None:
    dtype, bits = INTEGERS[source]
    casts = [(op, t) for t in FLOATS for op in ("sitofp", "uitofp")]
    casts += [(op, t) for t, (_, n) in INTEGERS.items() if n > bits and t != "index" for op in ("extsi", "extui")]
    casts += [("trunci", t) for t, (_, n) in INTEGERS.items() if n < bits]
    casts += [(op, "index") for op in ("index_cast", "index_castui")]
    loaded = program(tuple(function(f"{op}_{t}", f"arith.{op} %0 : TYPE to RESULT", 1, source, t) for op, t in casts))

    @examples(2)
    @given(drawn(bits))
    def check(pairs: list[tuple[int, int]]) -> None:
        values = [signed(p[0], bits) for p in pairs]
        a = wrapped(values, dtype, bits)
        for op, target in casts:
            got = loaded[f"{op}_{target}"](a)
            as_ = unsigned if op in ("uitofp", "extui", "index_castui") else signed
            exact = [as_(v, bits) for v in values]
            if target in INTEGERS:
                wanted = wrapped(exact, numbers(target), INTEGERS[target][1])
                np.testing.assert_array_equal(got, wanted, err_msg=f"{op} {source} to {target} of {values}")
                continue
            wanted = to_float(exact, target)
            away = steps(got, wanted)
            assert not away.any(), (
                f"{op} {source} to {target} of {np.array(exact, object)[away > 0][0]}: {got[away > 0][0]}, {wanted[away > 0][0]}"
            )

    check()


@pytest.mark.parametrize("small", ["f4E2M1FN", "f8E4M3FN", "f8E5M2"])
@pytest.mark.parametrize("large", ["f32", "f16", "bf16"])
def test_scaling(small: str, large: str) -> None:
    """scaling_extf is value times scale, scaling_truncf is value over scale rounded; scales are powers of two."""
    texts = (
        scaling("extf", "arith.scaling_extf %x, %s", small, large),
        scaling("truncf", "arith.scaling_truncf %x, %s", large, small),
    )
    loaded = program(texts)
    low, bits = FLOATS[small]
    high, wide = FLOATS[large]

    @examples(2)
    @given(drawn(bits), drawn(wide))
    def check(narrow: list[tuple[int, int]], broad: list[tuple[int, int]]) -> None:
        for name, pairs, source, target, n in (("extf", narrow, low, high, bits), ("truncf", broad, high, low, wide)):
            a = of_bits([p[0] for p in pairs], source, n)
            scale = of_bits([120 + p[1] % 15 for p in pairs], E8M0, 8)
            got = loaded[name](a, scale)
            with np.errstate(all="ignore"):
                x, s = a.astype(np.float64), scale.astype(np.float64)
                wanted = through_odd(x * s if name == "extf" else x / s).astype(target)
            away = steps(got, wanted)
            if small == "f4E2M1FN":
                away[np.isnan(x)] = 0
            assert not away.any(), (
                f"{name} {a[away > 0][0]} {scale[away > 0][0]}: {got[away > 0][0]}, {wanted[away > 0][0]}"
            )

    check()


def scaling(name: str, text: str, source: str, target: str) -> str:
    return f"""
func.func @{name}(%x: tensor<?x{source}>, %s: tensor<?xf8E8M0FNU>) -> tensor<?x{target}> {{
  %r = {text} : tensor<?x{source}>, tensor<?xf8E8M0FNU> to tensor<?x{target}>
  return %r : tensor<?x{target}>
}}
"""
