"""Maxima and sums over windows of dequantized numbers: computed on the stored integers where that gives the same
numbers, and left alone elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pydispatch as pd
from pydispatch.compiler.driver.pipeline import compile_to

SIZE, WINDOW = 9, 3


def program(
    combine: str,
    start: str,
    pad: tuple[int, int],
    fill: str,
    scale: str = "0.25",
    window: int = WINDOW,
    zero: int = 7,
) -> str:
    """A reduction over windows of dequantized bytes."""
    padded = SIZE + sum(pad)
    count = padded - WINDOW + 1
    return f"""
func.func @f(%q: tensor<4x{SIZE}xi8>) -> tensor<4x{count}xf32> {{
  %e = tensor.empty() : tensor<4x{SIZE}xf32>
  %x = linalg.generic {{indexing_maps = [affine_map<(c, i) -> (c, i)>, affine_map<(c, i) -> (c, i)>],
      iterator_types = ["parallel", "parallel"]}} ins(%q : tensor<4x{SIZE}xi8>) outs(%e : tensor<4x{SIZE}xf32>) {{
    ^bb0(%b: i8, %o: f32):
      %w = arith.extui %b : i8 to i32
      %z = arith.constant {zero} : i32
      %d = arith.subi %w, %z : i32
      %n = arith.sitofp %d : i32 to f32
      %s = arith.constant {scale} : f32
      %m = arith.mulf %n, %s : f32
      linalg.yield %m : f32
  }} -> tensor<4x{SIZE}xf32>
  %edge = arith.constant {fill} : f32
  %p = tensor.pad %x low[0, {pad[0]}] high[0, {pad[1]}] {{
    ^bb0(%i: index, %j: index):
      tensor.yield %edge : f32
  }} : tensor<4x{SIZE}xf32> to tensor<4x{padded}xf32>
  %k = tensor.empty() : tensor<{WINDOW}xf32>
  %first = arith.constant {start} : f32
  %init = tensor.splat %first : tensor<4x{count}xf32>
  %r = linalg.generic {{indexing_maps = [affine_map<(c, i, w) -> (c, i + w)>, affine_map<(c, i, w) -> (w)>,
      affine_map<(c, i, w) -> (c, i)>], iterator_types = ["parallel", "parallel", "reduction"]}}
      ins(%p, %k : tensor<4x{padded}xf32>, tensor<{WINDOW}xf32>) outs(%init : tensor<4x{count}xf32>) {{
    ^bb0(%v: f32, %u: f32, %a: f32):
      %t = arith.{combine} %a, %v : f32
      linalg.yield %t : f32
  }} -> tensor<4x{count}xf32>
  return %r : tensor<4x{count}xf32>
}}"""


INFINITY = "0xFF800000"


@pytest.mark.parametrize(
    ("arguments", "on_integers"),
    [
        (("maximumf", INFINITY, (1, 1), INFINITY), True),
        (("maximumf", INFINITY, (2, 2), INFINITY), True),
        (("maximumf", INFINITY, (3, 0), INFINITY), False),  # the first window has only padding
        (("maximumf", INFINITY, (1, 1), "0.0"), False),
        (("maximumf", "1.0", (0, 0), INFINITY), False),
        (("maximumf", INFINITY, (0, 0), INFINITY, "-0.25"), False),
        (("addf", "0.0", (0, 0), "0.0"), True),
        (("addf", "0.0", (1, 2), "0.0"), True),
        (("addf", "0.0", (1, 1), "1.0"), False),
        (("addf", "1.0", (0, 0), "0.0"), False),
        (("minimumf", "0x7F800000", (0, 0), "0.0"), False),
    ],
)
def test_reductions_over_windows(arguments: tuple[str, str, tuple[int, int], str], on_integers: bool) -> None:
    text = program(*arguments)
    combine, start, pad, fill, *scale = arguments
    formed = compile_to("dispatches", text, targets="cpu")
    assert any(op in formed for op in ("arith.maxui", "arith.addi")) == on_integers
    stored = np.random.default_rng(3).integers(0, 256, (4, SIZE), np.uint8)
    numbers = (stored - 7.0) * float(scale[0] if scale else 0.25)
    special = {INFINITY: -np.inf, "0x7F800000": np.inf}
    edge, first = (special.get(t) or float(t) for t in (fill, start))
    padded = np.pad(numbers, ((0, 0), pad), constant_values=edge)
    views = np.lib.stride_tricks.sliding_window_view(padded, WINDOW, 1)
    expected = {
        "maximumf": np.maximum(views.max(-1), first), "minimumf": views.min(-1), "addf": views.sum(-1) + first
    }[combine]  # fmt: skip
    got = pd.device("cpu").load(pd.compile(text, targets="cpu")).f(stored.view(np.int8))
    np.testing.assert_array_equal(np.asarray(got), expected)


@pytest.mark.parametrize(
    ("element", "expected"),
    [
        ("arith.maximumf %m, %s", lambda x, y: np.maximum(x, 0.25)),  # clamped
        ("arith.mulf %m, %m", lambda x, y: x * x),
        ("arith.addf %m, %other", lambda x, y: x + y),  # of elements of two tensors
        ("arith.addf %s, %s", lambda x, y: np.full_like(x, 0.5)),  # of no element
    ],
)
def test_maxima_of_other_functions_of_bytes_are_of_floats(element: str, expected: Callable[[Any, Any], Any]) -> None:
    stored_type = f"tensor<4x{SIZE}xi8>"
    text = (
        program("maximumf", INFINITY, (1, 1), INFINITY)
        .replace("%q: ", f"%p2: {stored_type}, %q: ", 1)
        .replace("affine_map<(c, i) -> (c, i)>,", "affine_map<(c, i) -> (c, i)>, affine_map<(c, i) -> (c, i)>,", 1)
        .replace(f"ins(%q : {stored_type})", f"ins(%q, %p2 : {stored_type}, {stored_type})")
        .replace("%b: i8, %o", "%b: i8, %b2: i8, %o")
        .replace(
            "linalg.yield %m",
            f"%other = arith.uitofp %b2 : i8 to f32\n      %e2 = {element} : f32\n      linalg.yield %e2",
            1,
        )
    )
    assert "arith.maxui" not in compile_to("dispatches", text, targets="cpu")
    other, stored = np.random.default_rng(4).integers(0, 256, (2, 4, SIZE), np.uint8)
    got = pd.device("cpu").load(pd.compile(text, targets="cpu")).f(other.view(np.int8), stored.view(np.int8))
    numbers = expected((stored - np.float32(7)) / 4, other.astype(np.float32))
    padded = np.pad(numbers, ((0, 0), (1, 1)), constant_values=-np.inf)
    views = np.lib.stride_tricks.sliding_window_view(padded, WINDOW, 1)
    np.testing.assert_array_equal(np.asarray(got), views.max(-1))


@pytest.mark.parametrize(
    ("zero", "on_integers"), [(7, True), (255, True), (5000, True), (5_592_000, True), (5_600_000, False)]
)
def test_sums_that_f32_may_not_hold_exactly_are_sums_of_floats(zero: int, on_integers: bool) -> None:
    text = program("addf", "0.0", (0, 0), "0.0", zero=zero).replace("ins(%p", "ins(%x")  # no padding
    assert ("arith.addi" in compile_to("dispatches", text, targets="cpu")) == on_integers
    stored = np.random.default_rng(4).integers(0, 256, (4, SIZE), np.uint8)
    got = pd.device("cpu").load(pd.compile(text, targets="cpu")).f(stored.view(np.int8))
    sums = np.lib.stride_tricks.sliding_window_view(stored - float(zero), WINDOW, 1).sum(-1)
    np.testing.assert_allclose(np.asarray(got), sums / 4, rtol=0 if on_integers else 1e-6)
