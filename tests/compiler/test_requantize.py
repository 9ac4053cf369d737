"""Elementwise operations between stored integers: one operation on integers where scales are constants, with the
results of the written order; left alone where it would not have them."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import pytest

import pydispatch as pd
from pydispatch.compiler.driver.pipeline import compile_to

Array = np.ndarray[Any, Any]

ROWS, COLUMNS = 6, 33

BYTE = f"tensor<{ROWS}x{COLUMNS}xi8>"


def elementwise(body: str, inputs: dict[str, tuple[str, str]], result: str, name: str) -> str:
    """An elementwise operation. inputs: the element type and the index of each tensor, by its name."""
    types = {"i8": BYTE, "f32": BYTE.replace("i8", "f32"), "columns": f"tensor<{COLUMNS}xf32>"}
    kinds = {"%scales": "columns"}
    maps = ", ".join(f"affine_map<(i, j) -> {index}>" for _, index in inputs.values())
    names = ", ".join(inputs)
    tensors = ", ".join(types[kinds.get(n, t)] for n, (t, _) in inputs.items())
    arguments = ", ".join(f"%b{n[1:]}: {t}" for n, (t, _) in inputs.items())
    return f"""
  %{name}e = tensor.empty() : {types[result]}
  %{name} = linalg.generic {{indexing_maps = [{maps}, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]}} ins({names} : {tensors}) outs(%{name}e : {types[result]}) {{
    ^bb0({arguments}, %o: {result}):
      {body}
  }} -> {types[result]}"""


def dequantize(name: str, source: str, scale: str, zero: int, sign: str) -> str:
    body = f"""%w0 = arith.ext{sign}i %b{source} : i8 to i32
      %z0 = arith.constant {zero} : i32
      %x0 = arith.subi %w0, %z0 : i32
      %f0 = arith.sitofp %x0 : i32 to f32
      %s0 = arith.constant {scale} : f32
      %r0 = arith.mulf %f0, %s0 : f32
      linalg.yield %r0 : f32"""
    return elementwise(body, {f"%{source}": ("i8", "(i, j)")}, "f32", name)


def quantize(name: str, source: str, scale: str, zero: float, sign: str, divisor: str = "") -> str:
    """divisor: a tensor of scales for each column, instead of `scale`."""
    low, high = ("-128.0", "127.0") if sign == "s" else ("0.0", "255.0")
    scales = f"%s0 = arith.addf %b{divisor}, %none0 : f32" if divisor else f"%s0 = arith.constant {scale} : f32"
    body = f"""%none0 = arith.constant 0.0 : f32
      {scales}
      %q0 = arith.divf %b{source}, %s0 : f32
      %r0 = math.roundeven %q0 : f32
      %z0 = arith.constant {zero} : f32
      %a0 = arith.addf %r0, %z0 : f32
      %low0 = arith.constant {low} : f32
      %l0 = arith.maximumf %a0, %low0 : f32
      %high0 = arith.constant {high} : f32
      %h0 = arith.minimumf %l0, %high0 : f32
      %n0 = arith.fptosi %h0 : f32 to i32
      %t0 = arith.trunci %n0 : i32 to i8
      linalg.yield %t0 : i8"""
    inputs = {f"%{source}": ("f32", "(i, j)")} | ({f"%{divisor}": ("f32", "(j)")} if divisor else {})
    return elementwise(body, inputs, "i8", name)


def function(arguments: str, code: str, result: str = "r") -> str:
    return f"func.func @f({arguments}) -> {BYTE} {{{code}\n  return %{result} : {BYTE}\n}}"


def stored(seed: int, sign: str) -> Array:
    low, high = (-128, 128) if sign == "s" else (0, 256)
    return np.random.default_rng(seed).integers(low, high, (ROWS, COLUMNS)).astype(np.int8 if sign == "s" else np.uint8)


def has_floats(text: str) -> bool:
    """Whether a division, which only the written order has, is left in the program."""
    return "arith.divf" in compile_to("dispatches", text, targets="cpu")


def run(text: str, *arguments: Array, **options: Any) -> Array:
    program = pd.device("cpu").load(pd.compile(text, targets="cpu", **options))
    return np.asarray(program.f(*(a.view(np.int8) for a in arguments)))


def requantized(x: Array, scale: float, zero: int, sign: str) -> Array:
    """In f64, rounded half to even."""
    low, high = (-128, 127) if sign == "s" else (0, 255)
    return np.clip(np.round(x / scale) + zero, low, high).astype(np.int8 if sign == "s" else np.uint8)


@pytest.mark.parametrize("sign", ["s", "u"])
def test_sum_of_two_tensors(sign: str) -> None:
    zero = 5 if sign == "s" else 131
    code = dequantize("x", "p", "0.02", 3, sign) + dequantize("y", "q", "0.05", zero, sign)
    code += elementwise(
        "%t0 = arith.addf %bx, %by : f32\n linalg.yield %t0 : f32", {"%x": ("f32", "(i, j)"), "%y": ("f32", "(i, j)")},
        "f32", "t",
    )  # fmt: skip
    text = function(f"%p: {BYTE}, %q: {BYTE}", code + quantize("r", "t", "0.041", zero, sign))
    assert not has_floats(text)
    p, q = stored(1, sign), stored(2, sign)
    expected = requantized((p - 3.0) * 0.02 + (q - float(zero)) * 0.05, 0.041, zero, sign)
    found = run(text, p, q).view(p.dtype)
    assert np.abs(found.astype(int) - expected.astype(int)).max() <= 1 and np.mean(found != expected) < 0.02
    np.testing.assert_array_equal(run(text, p, q, reassociate=False).view(p.dtype), expected)


def test_ties_are_rounded_to_even_before_the_zero_point_is_added() -> None:
    text = function(f"%p: {BYTE}", dequantize("x", "p", "0.5", 0, "u") + quantize("r", "x", "1.0", 1, "u"))
    assert not has_floats(text)
    p = stored(3, "u")
    np.testing.assert_array_equal(run(text, p).view(np.uint8), np.minimum(np.round(p / 2) + 1, 255))


def test_pair_of_equal_scales_is_no_operation() -> None:
    code = dequantize("x", "p", "0.1", 9, "u") + quantize("r", "x", "0.1", 9, "u")
    formed = compile_to("dispatches", function(f"%p: {BYTE}", code), targets="cpu")
    assert "flow.dispatch" not in formed


@pytest.mark.parametrize(("zero", "sign"), [(8, "u"), (9, "s")])
def test_pair_that_differs_is_computed(zero: int, sign: str) -> None:
    code = dequantize("x", "p", "0.1", 9, "u") + quantize("r", "x", "0.1", zero, sign)
    text, p = function(f"%p: {BYTE}", code), stored(4, "u")
    assert not has_floats(text)
    expected = requantized((p - 9.0) * 0.1, 0.1, zero, sign)
    np.testing.assert_array_equal(run(text, p).view(expected.dtype), expected)


def test_intermediate_that_is_quantized_is_clamped_and_rounded() -> None:
    code = dequantize("x", "p", "0.37", 100, "u") + quantize("m", "x", "0.5", 7, "s")
    code += dequantize("y", "m", "0.5", 7, "s") + quantize("r", "y", "0.11", 0, "s")
    text, p = function(f"%p: {BYTE}", code), stored(5, "u")
    assert not has_floats(text)
    middle = requantized((p - 100.0) * 0.37, 0.5, 7, "s")
    expected = requantized((middle - 7.0) * 0.5, 0.11, 0, "s")
    assert np.abs(run(text, p).astype(int) - expected.astype(int)).max() <= 1


def test_number_that_is_rounded_up_beyond_the_largest_one_is_clamped() -> None:
    code = dequantize("x", "p", "0.5", 128, "u")
    rounded = "%t0 = math.roundeven %bx : f32\n linalg.yield %t0 : f32"
    code += elementwise(rounded, {"%x": ("f32", "(i, j)")}, "f32", "y") + quantize("r", "y", "0.5", 128, "u")
    text, p = function(f"%p: {BYTE}", code), stored(6, "u")
    p[0, :3] = 255, 254, 0  # 63.5 is rounded to 64, and 64 / 0.5 + 128 is 256
    assert not has_floats(text)
    expected = requantized(np.round((p - 128.0) * 0.5), 0.5, 128, "u")
    np.testing.assert_array_equal(run(text, p).view(np.uint8), expected)


@pytest.mark.parametrize("scale", ["1.0e-30", "0x7FC00000", "0.0"])
def test_scales_out_of_range_keep_the_written_order(scale: str) -> None:
    code = dequantize("x", "p", "0.37", 100, "u") + quantize("r", "x", scale, 0, "u")
    assert has_floats(function(f"%p: {BYTE}", code))


def test_scales_that_only_the_call_knows_keep_the_written_order() -> None:
    code = dequantize("x", "p", "0.5", 100, "u") + quantize("r", "x", "", 0, "u", divisor="scales")
    text = function(f"%p: {BYTE}, %scales: tensor<{COLUMNS}xf32>", code)
    assert has_floats(text)
    p, scales = stored(6, "u"), np.linspace(0.1, 0.9, COLUMNS, dtype=np.float32)
    program = pd.device("cpu").load(pd.compile(text, targets="cpu"))
    expected = np.clip(np.round((p - np.float32(100)) * np.float32(0.5) / scales), 0, 255)
    np.testing.assert_array_equal(np.asarray(program.f(p.view(np.int8), scales)).view(np.uint8), expected)


def test_scales_for_each_column() -> None:
    scales = [0.1 + 0.02 * n for n in range(COLUMNS)]
    constant = f"\n  %scales = arith.constant dense<[{', '.join(map(str, scales))}]> : tensor<{COLUMNS}xf32>"
    code = constant + dequantize("x", "p", "0.5", 100, "u") + quantize("r", "x", "", 0, "u", divisor="scales")
    text, p = function(f"%p: {BYTE}", code), stored(7, "u")
    assert not has_floats(text)
    expected = np.clip(np.round((p - 100.0) * 0.5 / np.asarray(scales, np.float32)), 0, 255)
    assert np.abs(run(text, p).view(np.uint8) - expected).max() <= 1


def test_floats_of_arguments_keep_not_a_number() -> None:
    text = function(f"%x: {BYTE.replace('i8', 'f32')}", quantize("r", "x", "0.5", 0, "u"))
    assert has_floats(text)


@pytest.mark.parametrize("low", ["0.0", "-1.0e+09"])
def test_numbers_that_do_not_fit_the_integer_keep_the_written_order(low: str) -> None:
    code = dequantize("x", "p", "0.37", 100, "u") + quantize("r", "x", "0.01", 0, "u").replace("255.0", "4096.0")
    assert has_floats(
        function(f"%p: {BYTE}", code.replace("%low0 = arith.constant 0.0", f"%low0 = arith.constant {low}"))
    )


def test_long_sums_of_shared_terms_are_traced_once() -> None:
    """Paths to the first terms are Fibonacci's number 60, which is as many as no compiler can follow."""

    def f(x: Any) -> Any:
        last, total = x.astype(np.int32), x.astype(np.int32) * 3
        for _ in range(60):
            last, total = total, last + total
        return np.clip(np.rint(total.astype(np.float32) * np.float32(1e-7)), -128, 127).astype(np.int8)

    x = stored(8, "s")
    f.__annotations__["x"] = Annotated[Any, pd.i8[ROWS, COLUMNS]]
    np.testing.assert_array_equal(pd.program(f)(x), f(x))
