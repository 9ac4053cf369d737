"""Parallel loops around sequential loops are interchanged with them, so that their lanes fill vectors."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects import scf
from xdsl.dialects.func import FuncOp

import pydispatch as pd
from pydispatch.compiler.kernel_ir.kernel import WHOLE_VECTORS
from pydispatch.compiler.kernel_ir.outer_loops.vectorize import vectorize_outer_loops
from pydispatch.compiler.kernel_ir.stack import MOST_OPTIMIZED_BYTES, stack_bytes
from pydispatch.ir import parse

LOADED = """%loaded = memref.load %a[%c4] : memref<4096xf32>
    %count = arith.fptosi %loaded : f32 to i32"""
"""Operations that compute %count, the same in all lanes if nothing writes %a."""
CHOSEN = f"""%is_long = arith.cmpi sgt, %n, %c4 : index
    %count = scf.if %is_long -> (i32) {{ {LOADED.replace("%count", "%own")}
      scf.yield %own : i32 }} else {{ %four = arith.constant 4 : i32
      scf.yield %four : i32 }}"""
"""The same, with the load in a branch that all lanes take together."""


def kernel(
    lanes: int = 32, end: str = "%n", index: str = "%j", flags: str = "flags(ReadOnly)", inside: str = "",
    before: str = "%count = arith.constant 4 : i32", after: str = "", order: str = "", entry: str = "",
) -> FuncOp:  # fmt: skip
    """Sums of elements in each of `lanes` iterations. inside: more operations of the loop, and before and after it.

    entry: operations of the function before all loops.
    """
    module = parse(f"""
func.func @kernel(%n: index) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c4 = arith.constant 4 : index
  %lanes = arith.constant {lanes} : index
  %zero = arith.constant 0.0 : f32
  %a = hal.interface.binding.subspan layout(<constants = 0, bindings = [#hal.pipeline.binding<storage_buffer>,
      #hal.pipeline.binding<storage_buffer>]>) binding(0) {flags} : memref<4096xf32>
  %b = hal.interface.binding.subspan layout(<constants = 0, bindings = [#hal.pipeline.binding<storage_buffer>,
      #hal.pipeline.binding<storage_buffer>]>) binding(1) : memref<4096xf32>
  {entry}
  scf.parallel (%lane) = (%c0) to (%lanes) step (%c1) {{
    %fourth = arith.muli %lane, %c4 : index
    {before}
    %end = arith.index_cast %count : i32 to index
    %sum = scf.for {order} %j = %c0 to {end} step %c1 iter_args(%so_far = %zero) -> (f32) {{
      %next_to = arith.addi %lane, %j : index
      %apart = arith.muli %lane, %j : index
      %even = arith.muli %next_to, %c2 : index
      %again = arith.muli %next_to, %c2 : index
      %odd = arith.addi %again, %c1 : index
      {inside}
      %x = memref.load %a[{index}] : memref<4096xf32>
      %next = arith.addf %so_far, %x : f32
      scf.yield %next : f32
    }}
    {after}
    memref.store %sum, %b[%lane] : memref<4096xf32>
    scf.reduce
  }}
  func.return
}}
""")
    (function,) = (op for op in module.walk() if isinstance(op, FuncOp))
    return function


@pytest.mark.parametrize(("room", "reason"), [(4096, None), (64, "there are too many variables for the stack")])
def test_arrays_of_the_function_are_part_of_its_stack(room: int, reason: str | None) -> None:
    """Strips take what the array leaves: at most 8 bytes of each variable for each of 16 lanes."""
    array_bytes = MOST_OPTIMIZED_BYTES - room
    function = kernel(entry=f"%own = memref.alloca() : memref<{array_bytes}xi8>")
    (note,) = vectorize_outer_loops(function)
    function.verify()
    assert note.endswith(reason or "16 at a time, also in loops")
    assert (stack_bytes(function) == array_bytes) == (reason is not None)
    assert stack_bytes(function) <= MOST_OPTIMIZED_BYTES


@pytest.mark.parametrize(
    ("changed", "vectors"),
    [
        ({}, 3),
        ({"index": "%next_to"}, 3),
        ({"index": "%fourth"}, 3),
        ({"index": "%even", "inside": "%y = memref.load %a[%odd] : memref<4096xf32>"}, 3),
        ({"index": "%even"}, 0),
        ({"index": "%even", "inside": "%y = memref.load %b[%odd] : memref<4096xf32>"}, 0),
        ({"end": "%end", "before": LOADED}, 3),
        ({"end": "%end", "before": CHOSEN}, 3),
        ({"end": "%end", "before": LOADED.replace("%c4", "%lane")}, 0),
        ({"end": "%end", "before": CHOSEN.replace("%c4 : index", "%lane : index")}, 0),
        ({"end": "%end", "before": LOADED, "flags": ""}, 0),
        ({"after": "%old = memref.atomic_rmw addf %sum, %b[%lane] : (f32, memref<4096xf32>) -> f32"}, 3),
        ({"lanes": 8}, 0),
        ({"end": "%lane"}, 0),
        ({"index": "%apart"}, 0),
        ({"index": "%fourth", "flags": ""}, 0),
        ({"inside": "%old = memref.atomic_rmw addf %zero, %b[%lane] : (f32, memref<4096xf32>) -> f32"}, 0),
        ({"inside": "memref.store %zero, %b[%fourth] : memref<4096xf32>"}, 0),
        ({"order": "unsigned"}, 0),
    ],
    ids=[
        "same for all", "contiguous", "strided, hoisted", "interleaved", "half of interleaved",
        "interleaved with another",
        "a loaded end", "a loaded end in a branch", "an end loaded by each lane", "a branch of each lane",
        "a loaded end, written", "atomic after the loop",
        "too few", "an end in each lane", "strided, moving",
        "strided, written", "atomic", "strided store", "an unsigned counter",
    ],
)  # fmt: skip
def test_which_loops_are_interchanged(changed: dict[str, Any], vectors: int) -> None:
    function = kernel(**changed)
    vectorize_outer_loops(function)
    function.verify()
    loops = [op for op in function.walk() if isinstance(op, scf.ParallelOp)]
    assert sum(WHOLE_VECTORS in loop.attributes for loop in loops) == vectors
    assert vectors or len(loops) == 1


Floats = Annotated[pd.View, pd.f32["n"]]
Rows = Annotated[pd.View, pd.f32["n", 3]]
F32 = Annotated[float, pd.f32]


@pd.kernel(workgroup=40)
def all_forms(
    x: Floats,
    rows: Rows,
    table: Annotated[pd.View, pd.f32["k"]],
    limits: Annotated[pd.View, pd.i32["n"]],
    sums: Floats,
    steps: Annotated[pd.View, pd.i32["n"]],
    pairs: Annotated[pd.View, pd.i64["n"]],
    large: Annotated[pd.View, pd.f64["n"]],
    scale: F32,
) -> None:
    """Strips with a remainder; carried values of several types, also exchanged; branches and loops that end apart."""
    i = pd.global_id(0)
    if i < x.shape[0]:
        total, wide = scale, pd.f64(x[i])
        first, second = pd.i64(i), pd.i64(1)
        for j in range(table.shape[0]):
            total += rows[i, 0] * table[j] - rows[i, 2]
            if table[j] > x[i]:
                wide = wide * 0.5 + pd.f64(table[j])
            first, second = second, first + second
        if limits[i] > 3:
            for j in range(5):
                total -= pd.f32(j) * x[i]
        else:
            total = -total
        count, power = 0, x[i]
        while count < limits[i] and abs(power) < 100.0:
            power = power * power + scale
            count += 1
        sums[i], steps[i], pairs[i], large[i] = total + power, count, first, wide


def expected(x: Any, rows: Any, table: Any, limits: Any, scale: Any) -> tuple[Any, ...]:
    """What all_forms computes, in NumPy for all elements at once, in the same order and precision."""
    total = np.full_like(x, scale)
    wide, first, second = x.astype(np.float64), np.arange(len(x)), np.ones(len(x), np.int64)
    for value in table:
        total = total + (rows[:, 0] * value - rows[:, 2])
        wide = np.where(value > x, wide * 0.5 + np.float64(value), wide)
        first, second = second, first + second
    reduced = total
    for j in range(5):
        reduced = reduced - np.float32(j) * x
    total = np.where(limits > 3, reduced, -total)
    count, power = np.zeros(len(x), np.int32), x
    for _ in range(8):
        goes_on = (count < limits) & (np.abs(power) < 100)
        power, count = np.where(goes_on, power * power + scale, power), count + goes_on
    return total + power, count, first, wide


@cache
def program() -> Any:
    return pd.device("cpu").load(pd.compile(all_forms, cpu="native")).all_forms


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 130), st.integers(0, 9), st.sampled_from([(0, 8), (4, 8), (0, 4)]), st.integers(0, 1 << 16))
def test_lanes_make_the_same_steps(n: int, k: int, range_: tuple[int, int], seed: int) -> None:
    random = np.random.default_rng(seed)
    x, rows, table = (random.standard_normal(shape).astype(np.float32) for shape in (n, (n, 3), k))
    limits = random.integers(*range_, n).astype(np.int32)
    outputs = np.empty(n, np.float32), np.empty(n, np.int32), np.empty(n, np.int64), np.empty(n)
    scale = np.float32(0.75)
    results = program()(x, rows, table, limits, *outputs, scale)
    for result, value in zip(results, expected(x, rows, table, limits, scale), strict=True):
        np.testing.assert_allclose(result, value, rtol=1e-4, atol=1e-4)


@pd.kernel(workgroup=(32, 2), grid=1)
def window(
    x: Annotated[pd.View, pd.f32[3, "n"]], rows: Annotated[pd.View, pd.f32[20, 2]], y: Annotated[pd.View, pd.f32[2, 32]]
) -> None:
    """A loop that begins at another element in each lane, and a phase without loops that may end early."""
    block = pd.shared((3, 70), pd.f32)
    column, row = pd.local_id(0), pd.local_id(1)
    for i in range(row, 3, 2):
        for j in range(column, 70, 32):
            block[i, j] = x[i, j] if j < x.shape[1] else 0.0
    pd.barrier()
    for i in range(row, 3, 2):
        for j in range(column, 20, 32):
            block[i, j] += rows[column, 1]
    pd.barrier()
    if column < x.shape[1]:
        y[row, column] = block[row, column] + block[row + 1, column + 38]


@pytest.mark.parametrize("n", [1, 15, 16, 31, 40, 70])
def test_loops_that_begin_at_the_lane(n: int) -> None:
    x = np.random.default_rng(n).standard_normal((3, n)).astype(np.float32)
    y = np.full((2, 32), 7, np.float32)
    rows = np.random.default_rng(n).standard_normal((20, 2)).astype(np.float32)
    window(x, rows, y)
    padded = np.pad(x, ((0, 0), (0, 70 - n)))
    padded[:, :20] += rows[:, 1]
    sums = padded[:2, :32] + padded[1:, 38:]
    np.testing.assert_array_equal(y, np.where(np.arange(32) < n, sums, 7))


@pd.kernel(workgroup=96)
def halves(x: Annotated[pd.View, pd.f32["m", "n"]], y: Annotated[pd.View, pd.f32["m", "n"]]) -> None:
    """Loops that carry no values: strips are wider, and the last one of a workgroup has fewer lanes."""
    i, half = pd.global_id(0), x.shape[1] // 2
    if i < half:
        scale = x[0, i] + 0.5
        for row in range(x.shape[0]):
            y[row, i] = x[row, i] * scale - x[row, i + half]
            y[row, i + half] = x[row, i + half] * scale


@pytest.mark.parametrize("half", [0, 1, 15, 64, 70, 96, 97, 200])
def test_the_last_strip_of_loops_that_only_write_has_fewer_lanes(half: int) -> None:
    x = np.random.default_rng(half).standard_normal((3, 2 * half + 1)).astype(np.float32)
    y = np.full_like(x, 7)
    halves(x, y)
    left, right, scale = x[:, :half], x[:, half:-1], x[0, :half] + np.float32(0.5)
    np.testing.assert_allclose(y[:, :half], left * scale - right, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(y[:, half:-1], right * scale)
    np.testing.assert_array_equal(y[:, -1], 7)


def test_loops_that_only_write_have_wide_strips(tmp_path: Path) -> None:
    pd.compile(halves, cpu="native", dump=tmp_path)
    (notes,) = (path.read_text() for path in tmp_path.glob("*.vectors.txt"))
    assert "lanes of vectors, 64 at a time" in notes


@pytest.mark.parametrize(("operations", "lanes"), [(8, 64), (80, 16)])
def test_strips_are_narrower_if_the_stack_has_no_room_for_wide_ones(operations: int, lanes: int) -> None:
    sums = "\n".join(f"%x{k + 1} = arith.addf %x{k}, %x{k} : f32" for k in range(operations))
    module = parse(f"""
func.func @kernel(%a: memref<64xf32>, %b: memref<64xf32>, %n: index) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  scf.parallel (%lane) = (%c0) to (%c64) step (%c1) {{
    scf.for %j = %c0 to %n step %c1 {{
      %x0 = memref.load %a[%lane] : memref<64xf32>
      {sums}
      memref.store %x{operations}, %b[%lane] : memref<64xf32>
    }}
    scf.reduce
  }}
  func.return
}}
""")
    (function,) = (op for op in module.walk() if isinstance(op, FuncOp))
    (note,) = vectorize_outer_loops(function)
    assert f"lanes of vectors, {lanes} at a time" in note
