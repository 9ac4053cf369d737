"""Slices that are stored at computed positions of tensors of loops and donated arguments: in place, as caches need."""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pydispatch as pd
from pydispatch.formats.program.text import ProgramText

CLAMPED = (-3, 2, 9, 4, 2, 3)
"""Rows at which a loop stores; clamped so that two rows fit into eight."""

DTYPES = {
    "f32": np.float32,
    "i8": np.int8,
    "bf16": ml_dtypes.bfloat16,
    "i1": np.bool_,
    "complex<f32>": np.complex64,
}

LOOP = """func.func @main(%x: {x}, %u: {u}, %at: tensor<6xi32>) -> {x} {{
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %count = stablehlo.constant dense<6> : tensor<i32>
  %r:2 = stablehlo.while(%i = %zero, %carried = %x) : tensor<i32>, {x}
  cond {{
    %c = stablehlo.compare LT, %i, %count : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  }} do {{
    %listed = stablehlo.dynamic_slice %at, %i, sizes = [1] : (tensor<6xi32>, tensor<i32>) -> tensor<1xi32>
    %row = stablehlo.reshape %listed : (tensor<1xi32>) -> tensor<i32>
    %new = stablehlo.multiply %u, %u : {u}
    %y = stablehlo.dynamic_update_slice %carried, %new, %row, %zero : ({x}, {u}, tensor<i32>, tensor<i32>) -> {x}
    %next = stablehlo.add %i, %one : tensor<i32>
    {again}
    stablehlo.return %next, %{result} : tensor<i32>, {x}
  }}
  return %r#1 : {x}
}}"""
AGAIN = """%part = stablehlo.slice %u [0:1, 1:2] : ({u}) -> tensor<1x1x{element}>
    %z = stablehlo.dynamic_update_slice %y, %part, %i, %row
      : ({x}, tensor<1x1x{element}>, tensor<i32>, tensor<i32>) -> {x}"""


def loop(element: str, sizes: str = "8x5", twice: bool = False) -> str:
    """A loop that stores one slice in each iteration, or a second one after it."""
    x, u = f"tensor<{sizes}x{element}>", f"tensor<2x5x{element}>"
    again = AGAIN.format(x=x, u=u, element=element) if twice else ""
    return LOOP.format(x=x, u=u, again=again, result="z" if twice else "y")


def expected(x: Any, u: Any, rows: Any, twice: bool = False) -> Any:
    y = x.copy()
    for i, row in enumerate(rows):
        begin = min(max(row, 0), len(x) - 2)
        y[begin : begin + 2] = u * u
        if twice:
            y[min(i, len(x) - 1), min(max(row, 0), 4)] = u[0, 1]
    return y


@pytest.mark.parametrize("twice", [False, True], ids=["once", "twice"])
@pytest.mark.parametrize(("element", "dtype"), DTYPES.items())
def test_slices_in_a_loop(run: Any, element: str, dtype: Any, twice: bool) -> None:
    rng = np.random.default_rng(4)
    x, u = (rng.integers(0, 5, size).astype(dtype) for size in ((8, 5), (2, 5)))
    if element.startswith("complex"):
        u = u + u[::-1] * dtype(1j)
    rows = np.int32(CLAMPED)
    (y,) = run(loop(element, twice=twice).replace("multiply", "and" if element == "i1" else "multiply"), x, u, rows)
    np.testing.assert_array_equal(y, expected(x, u, rows, twice))


@pytest.mark.parametrize("target", ["vulkan", "webgpu", "cuda"])
def test_slices_in_a_loop_on_devices(target: str) -> None:
    device = pd.device("ptx-interpreter" if target == "cuda" else target)
    x, u = np.arange(40, dtype=np.float32).reshape(8, 5), np.arange(10, dtype=np.float32).reshape(2, 5)
    rows = np.int32(CLAMPED)
    program = device.load(pd.compile(loop("f32", twice=True), targets=target))
    np.testing.assert_array_equal(program.main(x, u, rows), expected(x, u, rows, True))


def test_an_iteration_writes_the_slice_only() -> None:
    """The function of an iteration takes over the memory of the tensor that the loop carries."""
    text = ProgramText(bytes(pd.compile(loop("f32")).read("program.bin"))).render()
    taken = re.search(r"may take over argument (\d+)", text)
    assert taken and re.search(rf"argument {taken[1]} \S+: 8x5xf32", text), text


STEP = """func.func @main(%x: tensor<8x5xf32> {attributes}, %u: tensor<1x5xf32>, %i: tensor<i32>)
    -> (tensor<8x5xf32>, tensor<5xf32>) {{
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %start = stablehlo.constant dense<0.0> : tensor<f32>
  %y = stablehlo.dynamic_update_slice %x, %u, %i, %zero
    : (tensor<8x5xf32>, tensor<1x5xf32>, tensor<i32>, tensor<i32>) -> tensor<8x5xf32>
  %z = stablehlo.reduce(%y init: %start) applies stablehlo.add across dimensions = [0]
    : (tensor<8x5xf32>, tensor<f32>) -> tensor<5xf32>
  return %y, %z : tensor<8x5xf32>, tensor<5xf32>
}}"""


@pytest.mark.parametrize("attributes", ["{tf.aliasing_output = 0 : i32}", "{jax.buffer_donor = true}"])
def test_a_donated_argument_is_updated_in_place(attributes: str) -> None:
    x, u = np.arange(40, dtype=np.float32).reshape(8, 5), np.ones((1, 5), np.float32)
    program: Any = pd.device("cpu").load(pd.compile(STEP.format(attributes=attributes)))
    copy, store, reduction = program.main.plan_of(x, u, np.int32(3))
    assert "copy" in copy and "map_store" in store and "reduce" in reduction
    y = x.copy()
    y[3] = 1
    for outputs in (None, (x, None)):  # a copy is updated, or the argument where the result has its memory
        returned, total = program.main(x, u, np.int32(3), out=outputs)
        np.testing.assert_array_equal(returned, y)
        np.testing.assert_array_equal(total, y.sum(0))
        assert (returned is x) == (outputs is not None)


@pytest.mark.parametrize("is_mixed", [False, True], ids=["stablehlo", "beside arith"])
def test_an_argument_that_the_caller_keeps_is_copied_as_its_elements_are_chosen(is_mixed: bool) -> None:
    """One kernel reads the argument once, for both results."""
    x, u = np.arange(40, dtype=np.float32).reshape(8, 5), np.ones((1, 5), np.float32)
    text = STEP.format(attributes="")
    if is_mixed:
        text = text.replace("%start = stablehlo.constant", "%start = arith.constant")
    program: Any = pd.device("cpu").load(pd.compile(text))
    assert len(program.main.plan_of(x, u, np.int32(3))) == 1
    y = x.copy()
    y[3] = 1
    np.testing.assert_array_equal(program.main(x, u, np.int32(3))[0], y)
    assert x[3, 0] == 15
