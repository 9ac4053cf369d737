"""`pydispatch.schedule`: a schedule that a dispatch function states is what its kernel is made by, or is refused."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import pydispatch as pd
from pydispatch import ir
from pydispatch.compiler.driver.pipeline import compile_to
from pydispatch.compiler.kernels.matmul.cpu.schedule import Schedule

M, K, N = 50, 70, 90
PLAIN = "(m, n, k) -> (m, k)", "(m, n, k) -> (k, n)"
TRANSPOSED = "(m, n, k) -> (m, k)", "(m, n, k) -> (n, k)"
BLOCKS = Schedule(mr=4, nr=16, mt=8, nt=48, kc=K, pack_a=True, pack_b=True)


def product(maps: tuple[str, str] = PLAIN, type_: str = "f32", rows: str = str(M)) -> str:
    b = f"{K}x{N}" if maps == PLAIN else f"{N}x{K}"
    acc = "f32" if type_ == "f32" else "i32"
    add, mul, zero = ("addf", "mulf", "0.0") if acc == "f32" else ("addi", "muli", "0")
    widen = "" if acc == type_ else "%wx = arith.extsi %x : i8 to i32\n    %wy = arith.extsi %y : i8 to i32"
    x, y = ("%x", "%y") if acc == type_ else ("%wx", "%wy")
    return f"""
func.func @f(%a: tensor<{rows}x{K}x{type_}>, %b: tensor<{b}x{type_}>, %c: tensor<{rows}x{N}x{acc}>)
    -> tensor<{rows}x{N}x{acc}> {{
  %zero = arith.constant {zero} : {acc}
  %z = linalg.fill ins(%zero : {acc}) outs(%c : tensor<{rows}x{N}x{acc}>) -> tensor<{rows}x{N}x{acc}>
  %r = linalg.generic {{indexing_maps = [affine_map<{maps[0]}>, affine_map<{maps[1]}>, affine_map<(m, n, k) -> (m, n)>],
      iterator_types = ["parallel", "parallel", "reduction"]}}
      ins(%a, %b : tensor<{rows}x{K}x{type_}>, tensor<{b}x{type_}>) outs(%z : tensor<{rows}x{N}x{acc}>) {{
  ^bb0(%x: {type_}, %y: {type_}, %s: {acc}):
    {widen}
    %p = arith.{mul} {x}, {y} : {acc}
    %q = arith.{add} %s, %p : {acc}
    linalg.yield %q : {acc}
  }} -> tensor<{rows}x{N}x{acc}>
  return %r : tensor<{rows}x{N}x{acc}>
}}
"""


def scheduled(text: str, value: str) -> str:
    """The program after formation, its one dispatch function with a schedule."""
    formed = compile_to("dispatches", text, targets="cpu")
    stated, count = re.subn(r"attributes \{(sizes = \d+ : i64)\}", rf"attributes {{\1, pydispatch.schedule = {value}}}",
                            formed)  # fmt: skip
    assert count == 1, formed
    return stated


def spelled(schedule: Schedule) -> str:
    """As it is printed."""
    module = ir.parse("module {}", "empty")
    module.attributes["s"] = schedule.attribute()
    (found,) = re.findall(r"s = (\{.*?\})", ir.print_module(module))
    return found


def run(text: str, schedule: Schedule, *inputs: Any) -> Any:
    artifact = pd.compile(scheduled(text, spelled(schedule)), targets="cpu", cpu="native")
    return pd.device("cpu?workers=2").load(artifact).f(*inputs)


SCHEDULES = [
    BLOCKS,
    replace(BLOCKS, kc=16),  # K in parts
    replace(BLOCKS, mr=1, mt=1, nr=8, nt=8),
    replace(BLOCKS, mr=3, mt=51, nr=24, nt=96),  # tiles larger than the result
    replace(BLOCKS, pack_b=False),
    replace(BLOCKS, pack_a=False),
    replace(BLOCKS, pack_a=False, pack_b=False, mr=5, mt=15, nr=9, nt=27),  # no whole vectors
    replace(BLOCKS, pack_a=False, pack_b=False, kc=24),
]


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_sums_do_not_depend_on_it(schedule: Schedule) -> None:
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((M, K), np.float32), rng.standard_normal((K, N), np.float32)
    c = np.zeros((M, N), np.float32)
    expected = pd.device("cpu").load(pd.compile(product(), targets="cpu", cpu="native")).f(a, b, c)
    np.testing.assert_array_equal(run(product(), schedule, a, b, c), expected)
    np.testing.assert_allclose(expected, a @ b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("pack_b", [False, True])
def test_transposed_b(pack_b: bool) -> None:
    schedule = replace(BLOCKS, pack_a=False, pack_b=pack_b, **({} if pack_b else {"nr": 4, "nt": 92}))
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((M, K), np.float32), rng.standard_normal((N, K), np.float32)
    found = run(product(TRANSPOSED), schedule, a, b, np.zeros((M, N), np.float32))
    np.testing.assert_allclose(found, a @ b.T, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("schedule", [replace(BLOCKS, kc=72), replace(BLOCKS, kc=16, mr=2, mt=6)], ids=str)
def test_groups_of_steps(schedule: Schedule) -> None:
    rng = np.random.default_rng(1)
    a, b = rng.integers(-128, 127, (M, K), np.int8), rng.integers(-128, 127, (K, N), np.int8)
    found = run(product(type_="i8"), schedule, a, b, np.zeros((M, N), np.int32))
    np.testing.assert_array_equal(found, a.astype(np.int32) @ b.astype(np.int32))


@pytest.mark.parametrize("rows", [1, 2, 5, 50])
def test_rows_that_only_the_call_knows(rows: int) -> None:
    """The schedule is that of many rows."""
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((rows, K), np.float32), rng.standard_normal((K, N), np.float32)
    found = run(product(rows="?"), replace(BLOCKS, pack_a=False), a, b, np.zeros((rows, N), np.float32))
    np.testing.assert_allclose(found, a @ b, rtol=1e-4, atol=1e-4)


def convolution(type_: str) -> str:
    """3x3 over two images of 7x8x12, to 40 channels."""
    acc, zero = ("f32", "0.0") if type_ == "f32" else ("i32", "0")
    x, w, y = f"tensor<2x7x8x12x{type_}>", f"tensor<3x3x12x40x{type_}>", f"tensor<2x5x6x40x{acc}>"
    return f"""
func.func @f(%x: {x}, %w: {w}, %c: {y}) -> {y} {{
  %zero = arith.constant {zero} : {acc}
  %z = linalg.fill ins(%zero : {acc}) outs(%c : {y}) -> {y}
  %r = linalg.conv_2d_nhwc_hwcf {{strides = dense<1> : tensor<2xi64>, dilations = dense<1> : tensor<2xi64>}}
      ins(%x, %w : {x}, {w}) outs(%z : {y}) -> {y}
  return %r : {y}
}}
"""


BATCHED = Schedule(mr=3, nr=16, mt=6, nt=32, kc=12, pack_a=True, pack_b=True)


@pytest.mark.parametrize("batch", [1, 2, 4, 10])
@pytest.mark.parametrize("type_", ["f32", "i8"])
def test_tiles_that_share_packed_columns(batch: int, type_: str) -> None:
    """10 rows of two images in batches, the last of which may have fewer."""
    rng = np.random.default_rng(1)
    dtype, sums = (np.float32, np.float32) if type_ == "f32" else (np.int8, np.int32)
    x, w = (rng.integers(-99, 99, shape).astype(dtype) for shape in ((2, 7, 8, 12), (3, 3, 12, 40)))
    found = run(convolution(type_), replace(BATCHED, batch=batch), x, w, np.zeros((2, 5, 6, 40), sums))
    windows = np.lib.stride_tricks.sliding_window_view(x.astype(np.int64), (3, 3), axis=(1, 2))
    np.testing.assert_array_equal(found, np.einsum("nhwcyx,yxcf->nhwf", windows, w.astype(np.int64)))


def test_it_is_printed() -> None:
    text = scheduled(product(), spelled(BLOCKS))
    kept = compile_to("dispatches", text, targets="cpu")
    assert f"pydispatch.schedule = {spelled(BLOCKS)}" in kept
    assert "mr = 4 : i64, nr = 16 : i64, mt = 8 : i64, nt = 48 : i64, kc = 70 : i64, pack_a = true" in kept


ILLEGAL = [
    (product(), spelled(replace(BLOCKS, kc=0)), "sizes are at least 1"),
    (product(), spelled(replace(BLOCKS, mt=9)), "the tile of 9x48 is not a multiple of the register block of 4x16"),
    (product(), spelled(replace(BLOCKS, mr=64, mt=64)), "the sums of a block of 64x16 take"),
    (product(), spelled(replace(BLOCKS, mt=1 << 16, nt=1 << 12)), "the limit is 16777216"),
    (product(), spelled(replace(BLOCKS, pack_b=False, nr=96, nt=96, mr=1)), "90 columns, fewer than a block"),
    (product(rows="3"), spelled(replace(BLOCKS, pack_a=False)), "A cannot be read in place"),
    (product(type_="i8"), spelled(replace(BLOCKS, kc=7)), "kc = 7 is not a multiple"),
    (product(type_="i8"), spelled(replace(BLOCKS, kc=72, pack_b=False)), "B cannot be read in place"),
    (product(), spelled(replace(BLOCKS, batch=2)), "at most as large as the outer dimensions that B does not have, 1"),
    (convolution("f32"), spelled(replace(BATCHED, batch=11)), "at most as large as"),
    (convolution("f32"), spelled(replace(BATCHED, batch=2, kc=8)), "with all steps of K"),
    (convolution("f32"), spelled(replace(BATCHED, batch=2, pack_b=False)), "shares packed columns of B"),
    (product(), "{mr = 4}", "it is not a dictionary of mr: i64, nr: i64, mt: i64, nt: i64, kc: i64, pack_a: i1"),
    (product(), "7 : i64", "it is not a dictionary"),
    (product(), spelled(BLOCKS).replace("true", "1 : i64"), "it is not a dictionary"),
]


@pytest.mark.parametrize(("text", "value", "reason"), ILLEGAL, ids=[reason for *_, reason in ILLEGAL])
def test_what_cannot_be_is_refused(text: str, value: str, reason: str) -> None:
    with pytest.raises(pd.CompileError, match=re.escape(reason)) as raised:
        pd.compile(scheduled(text, value), targets="cpu", cpu="native")
    assert "drop the attribute `pydispatch.schedule`" in str(raised.value)


def test_what_is_no_contraction_has_none() -> None:
    text = """func.func @f(%x: tensor<40xf32>) -> tensor<40xf32> {
      %y = arith.addf %x, %x : tensor<40xf32>
      return %y : tensor<40xf32>
    }"""
    with pytest.raises(pd.CompileError, match="no contraction that is computed in register blocks"):
        pd.compile(scheduled(text, spelled(BLOCKS)), targets="cpu")
