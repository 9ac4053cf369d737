"""Largest and smallest elements of rows: NaN of either sign, zeros of both, infinities, at every place of a row."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pytest

import pydispatch as pd

sys.path.insert(0, str(Path(__file__).parents[1]))
import machine_levels

SPECIAL = (np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0)
LENGTH = 75
INFINITY = {("maximum", "f32"): "0xFF800000", ("minimum", "f32"): "0x7F800000",
            ("maximum", "f64"): "0xFFF0000000000000", ("minimum", "f64"): "0x7FF0000000000000"}  # fmt: skip


def source(type_: str) -> str:
    """max and min of the rows of a matrix."""
    text = ""
    for kind in ("maximum", "minimum"):
        start = INFINITY[kind, type_]
        text += f"""
func.func @{kind}(%x: tensor<?x{LENGTH}x{type_}>) -> tensor<?x{type_}> {{
  %start = arith.constant {start} : {type_}
  %c0 = arith.constant 0 : index
  %d = tensor.dim %x, %c0 : tensor<?x{LENGTH}x{type_}>
  %e = tensor.empty(%d) : tensor<?x{type_}>
  %z = linalg.fill ins(%start : {type_}) outs(%e : tensor<?x{type_}>) -> tensor<?x{type_}>
  %r = linalg.reduce ins(%x : tensor<?x{LENGTH}x{type_}>) outs(%z : tensor<?x{type_}>) dimensions = [1]
    (%a: {type_}, %b: {type_}) {{
      %s = arith.{kind}f %a, %b : {type_}
      linalg.yield %s : {type_}
    }}
  return %r : tensor<?x{type_}>
}}
"""
    return text


def rows(dtype: type[np.floating]) -> np.ndarray:
    """Rows of numbers, with one special value at each place, and with pairs of them; and rows of zeros and of -inf."""
    rng = np.random.default_rng(3)
    drawn = -rng.random((len(SPECIAL) * LENGTH, LENGTH)) - 1.0
    for number, row in enumerate(drawn):
        row[number % LENGTH] = SPECIAL[number // LENGTH]
    both = np.concatenate([drawn, -drawn[:LENGTH], -np.abs(drawn), np.abs(drawn)])
    pairs = rng.choice(SPECIAL, (200, LENGTH))
    zeros = rng.choice([0.0, -0.0], (50, LENGTH)) * (rng.random((50, LENGTH)) < 0.02)
    same = [np.full((1, LENGTH), value) for value in SPECIAL]
    made = np.concatenate([both, pairs, -np.abs(zeros), zeros, *same]).astype(dtype)
    bits, fraction = (np.int32, 23) if dtype is np.float32 else (np.int64, 52)
    nan = np.isnan(made)
    made.view(bits)[nan] |= rng.integers(0, 1 << fraction, nan.sum(), dtype=bits)  # every NaN is one
    return made


def check(function: Any, kind: str, x: np.ndarray) -> None:
    found, wanted = function(x), (np.max if kind == "maximum" else np.min)(x, axis=1)
    np.testing.assert_array_equal(found, wanted)
    zero = wanted == 0
    least = (lambda signs: signs.all(1)) if kind == "maximum" else (lambda signs: signs.any(1))
    signs = np.where(x[zero] == 0, np.signbit(x[zero]), kind == "maximum")
    np.testing.assert_array_equal(np.signbit(found[zero]), least(signs), err_msg=f"{kind} of zeros")


@pytest.mark.parametrize("type_", ["f32", "f64"])
@pytest.mark.parametrize("cpu", machine_levels.parameters(machine_levels.X86_64))
def test_extremes(cpu: str, type_: str) -> None:
    x = rows(np.float32 if type_ == "f32" else np.float64)
    program = pd.device("cpu?workers=2").load(pd.compile(source(type_), targets="cpu", cpu=cpu))
    for kind in ("maximum", "minimum"):
        check(getattr(program, kind), kind, x)


@pd.kernel(workgroup=LENGTH, grid=lambda x, most, least: x.shape[0])
def extremes32(
    x: Annotated[pd.View, pd.f32["n", LENGTH]],
    most: Annotated[pd.View, pd.f32["n"]],
    least: Annotated[pd.View, pd.f32["n"]],
) -> None:
    row, lane = pd.group_id(0), pd.local_id(0)
    high = pd.group_max(x[row, lane])
    low = pd.group_min(x[row, lane])
    if lane == 0:
        most[row] = high
        least[row] = low


@pd.kernel(workgroup=LENGTH, grid=lambda x, most, least: x.shape[0])
def extremes64(
    x: Annotated[pd.View, pd.f64["n", LENGTH]],
    most: Annotated[pd.View, pd.f64["n"]],
    least: Annotated[pd.View, pd.f64["n"]],
) -> None:
    row, lane = pd.group_id(0), pd.local_id(0)
    high = pd.group_max(x[row, lane])
    low = pd.group_min(x[row, lane])
    if lane == 0:
        most[row] = high
        least[row] = low


@pytest.mark.parametrize("kernel", [extremes32, extremes64], ids=["f32", "f64"])
@pytest.mark.parametrize("cpu", machine_levels.parameters(machine_levels.X86_64))
def test_extremes_of_workgroups(cpu: str, kernel: Any) -> None:
    x = rows(np.float32 if kernel is extremes32 else np.float64)
    program = pd.device("cpu?workers=2").load(pd.compile(kernel, targets="cpu", cpu=cpu))
    for place, kind in enumerate(("maximum", "minimum")):
        empty = np.empty(len(x), x.dtype)
        check(lambda x, place=place, empty=empty: getattr(program, kernel.name)(x, empty, empty.copy())[place], kind, x)
