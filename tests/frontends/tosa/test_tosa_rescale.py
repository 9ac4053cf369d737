"""Rescaling of integers, bit by bit as the specification has it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tosa_programs import Array, Const, Runner

FEW = settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def scaled(value: int, multiplier: int, shift: int, double: bool) -> int:
    """`apply_scale_32` and `apply_scale_16` with whole numbers of any size."""
    half = 1 << (shift - 1)
    if double and shift > 31:
        half += (1 << 30) if value >= 0 else -(1 << 30)
    return (value * multiplier + half) >> shift


def rescaled(
    x: Array, multipliers: list[int], shifts: list[int], zeros: tuple[int, int], double: bool, to: Any
) -> Array:
    """The last axis has the channels. zeros: of what goes in and of what comes out."""
    info = np.iinfo(to)
    found = np.empty(x.shape, to)
    for place in np.ndindex(*x.shape):
        channel = place[-1] % len(multipliers)
        value = scaled(int(x[place]) - zeros[0], multipliers[channel], shifts[channel], double) + zeros[1]
        found[place] = min(max(value, info.min), info.max)
    return found


@FEW
@given(data=st.data())
def test_random_scales(tosa: Runner, data: st.DataObject) -> None:
    source, to = (data.draw(st.sampled_from([np.int8, np.int16, np.int32])) for _ in range(2))
    wide = data.draw(st.booleans())
    double = wide and data.draw(st.booleans())
    channels = data.draw(st.integers(1, 4))
    per_channel = data.draw(st.booleans())
    count = channels if per_channel else 1
    top = (1 << 31) - 1 if wide else (1 << 15) - 1
    multipliers = data.draw(st.lists(st.integers(0, top), min_size=count, max_size=count))
    shifts = data.draw(st.lists(st.integers(2, 62), min_size=count, max_size=count))
    info = np.iinfo(source)
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    x = rng.integers(info.min, info.max, (5, channels), dtype=source, endpoint=True)
    x[0, 0], x[1, 0] = info.min, info.max
    zeros = tuple(data.draw(st.integers(-128, 127)) if t is np.int8 else 0 for t in (source, to))
    operands = [
        x, Const(np.array(multipliers, np.int32 if wide else np.int16)), Const(np.array(shifts, np.int8)),
        Const(np.array([zeros[0]], source)), Const(np.array([zeros[1]], to)),
    ]  # fmt: skip
    words = {True: "true", False: "false"}
    attributes = (
        f"rounding_mode = {'DOUBLE_ROUND' if double else 'SINGLE_ROUND'}, scale32 = {words[wide]}, "
        f"per_channel = {words[per_channel]}, input_unsigned = false, output_unsigned = false"
    )
    wanted = rescaled(x, multipliers, shifts, zeros, double, to)  # type: ignore[arg-type]
    tosa.check("rescale", operands, wanted, attributes, dynamic=data.draw(st.booleans()) and not per_channel)


def test_both_roundings_differ(tosa: Runner) -> None:
    # (value * multiplier) / 2**shift lies just below a half: only the second rounding reaches it.
    x = np.array([1, -1, 3, -3, 1000, -1000, 12345678, -12345678], np.int32)
    for multiplier, shift in ((1 << 30, 32), (1431655765, 33), (2026291432, 37), ((1 << 31) - 1, 33)):
        results = []
        for mode in ("SINGLE_ROUND", "DOUBLE_ROUND", "INEXACT_ROUND"):
            wanted = rescaled(x, [multiplier], [shift], (0, 0), mode == "DOUBLE_ROUND", np.int32)
            zero = Const(np.array([0], np.int32))
            factors = [Const(np.array([multiplier], np.int32)), Const(np.array([shift], np.int8))]
            attributes = f"rounding_mode = {mode}, scale32 = true, per_channel = false"
            tosa.check("rescale", [x, *factors, zero, zero], wanted, attributes)
            results.append(wanted)
    assert any((results[0] != results[1]).tolist())


@pytest.mark.parametrize(("signed_in", "signed_out"), [(True, False), (False, True), (False, False)])
@pytest.mark.parametrize("marked", [True, False])
def test_unsigned_numbers(tosa: Runner, signed_in: bool, signed_out: bool, marked: bool) -> None:
    """marked: the types are signless and attributes say what is unsigned; else the types say it."""
    bits = np.arange(256, dtype=np.uint8)
    x = bits.view(np.int8) if signed_in else bits
    to = np.int8 if signed_out else np.uint8
    zeros = (-3 if signed_in else 127, 5 if signed_out else 128)
    wanted = rescaled(x, [1518500250], [31], zeros, False, to)
    given, made = (x.view(np.int8), wanted.view(np.int8)) if marked else (x, wanted)
    attributes = "rounding_mode = SINGLE_ROUND, scale32 = true, per_channel = false"
    if marked:
        words = [str(not signed).lower() for signed in (signed_in, signed_out)]
        attributes += f", input_unsigned = {words[0]}, output_unsigned = {words[1]}"
    pair = [np.array([zero]).astype(t) for zero, t in zip(zeros, (x.dtype, wanted.dtype), strict=True)]
    stored = [z.view(np.int8) if marked else z for z in pair]
    operands = [given, Const(np.array([1518500250], np.int32)), Const(np.array([31], np.int8)), *map(Const, stored)]
    tosa.check("rescale", operands, made, attributes)


def test_wide_sums(tosa: Runner) -> None:
    """48 bits, which are passed as 64."""
    x = np.array([1 << 40, -(1 << 40), (1 << 46) + 12345, -7], np.int64)
    wanted = rescaled(x, [19689], [45], (0, 0), False, np.int16)
    text = """func.func @main(%x: tensor<4xi48>) -> tensor<4xi16> {
      %m = "tosa.const"() <{values = dense<19689> : tensor<1xi16>}> : () -> tensor<1xi16>
      %s = "tosa.const"() <{values = dense<45> : tensor<1xi8>}> : () -> tensor<1xi8>
      %i = "tosa.const"() <{values = dense<0> : tensor<1xi48>}> : () -> tensor<1xi48>
      %o = "tosa.const"() <{values = dense<0> : tensor<1xi16>}> : () -> tensor<1xi16>
      %0 = tosa.rescale %x, %m, %s, %i, %o {scale32 = false, rounding_mode = "SINGLE_ROUND", per_channel = false}
        : (tensor<4xi48>, tensor<1xi16>, tensor<1xi8>, tensor<1xi48>, tensor<1xi16>) -> tensor<4xi16>
      return %0 : tensor<4xi16>
    }"""
    np.testing.assert_array_equal(tosa.text(text, x)[0], wanted)


def test_attributes_of_former_releases(tosa: Runner) -> None:
    x = np.random.default_rng(1).integers(-(2**20), 2**20, (4, 3), dtype=np.int32)
    wanted = rescaled(x, [2026291432, 1079222024, 1693132724], [37, 36, 37], (0, 27), True, np.int8)
    tosa.check("rescale", [x], wanted,
               "double_round = true, input_zp = 0 : i32, multiplier = array<i32: 2026291432, 1079222024, 1693132724>, "
               "output_zp = 27 : i32, per_channel = true, scale32 = true, shift = array<i8: 37, 36, 37>")  # fmt: skip
