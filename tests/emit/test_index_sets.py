"""Loops with conditions on their counter that become three loops."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels import buffer, load
from xdsl.dialects import scf
from xdsl.dialects.builtin import IndexType, IntegerAttr
from xdsl.dialects.func import FuncOp

import pydispatch as pd
from pydispatch.compiler.kernel_ir.index_sets import split_index_sets
from pydispatch.ir import parse


def kernel(condition: str, high: int = 28) -> FuncOp:
    """A loop of which some iterations load."""
    module = parse(f"""
func.func @kernel(%a: memref<64xf32>, %b: memref<64xf32>, %base: index) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c56 = arith.constant 56 : index
  %high = arith.constant {high} : index
  %zero = arith.constant 0.0 : f32
  "scf.parallel"(%c0, %high, %c1) <{{operandSegmentSizes = array<i32: 1, 1, 1, 0>}}> ({{
  ^bb0(%i: index):
    %twice = arith.muli %i, %c2 : index
    %at = arith.addi %twice, %base : index
    {condition}
    %v = scf.if %inside -> (f32) {{
      %x = memref.load %a[%at] : memref<64xf32>
      scf.yield %x : f32
    }} else {{
      scf.yield %zero : f32
    }}
    memref.store %v, %b[%i] : memref<64xf32>
    "scf.reduce"() : () -> ()
  }}) : (index, index, index) -> ()
  func.return
}}
""")
    (function,) = (op for op in module.walk() if isinstance(op, FuncOp))
    return function


@pytest.mark.parametrize(
    ("condition", "high", "loops"),
    [
        ("%inside = arith.cmpi slt, %at, %c56 : index", 28, 2),
        ("%inside = arith.cmpi sge, %at, %c56 : index", 28, 2),
        ("%lo = arith.cmpi sge, %at, %c0 : index %hi = arith.cmpi sgt, %c56, %at : index "
         "%inside = arith.andi %lo, %hi : i1", 28, 3),
        ("%inside = arith.cmpi slt, %at, %c56 : index", 12, 1),
        ("%inside = arith.cmpi slt, %i, %c56 : index", 28, 1),
        ("%inside = arith.cmpi ult, %at, %c56 : index", 28, 1),
        ("%square = arith.muli %i, %i : index %inside = arith.cmpi slt, %square, %c56 : index", 28, 1),
    ],
    ids=["below", "above", "between", "few", "neighbours", "unsigned", "squares"],
)  # fmt: skip
def test_how_many_loops(condition: str, high: int, loops: int) -> None:
    function = kernel(condition.replace(" %", "\n%"), high)
    split_index_sets(function)
    function.verify()
    found = [op for op in function.walk() if isinstance(op, scf.ParallelOp)]
    asked = sum(any(op.name == "arith.cmpi" and op.results[0].uses for op in loop.walk()) for loop in found)
    assert len(found) == loops and asked == (1 if loops == 1 else loops - 1)


@pytest.mark.parametrize(("first", "second", "loops"), [(40, 24, 2), (40, 8, 1), (8, 40, 1), (16, 16, 2)])
def test_rows_of_two_tensors_are_two_loops(first: int, second: int, loops: int) -> None:
    text = kernel("%inside = arith.cmpi slt, %i, %c56 : index", first + second)
    (loop,) = (op for op in text.walk() if isinstance(op, scf.ParallelOp))
    (branch,) = (op for op in text.walk() if isinstance(op, scf.IfOp))
    for op in text.walk():
        if op.name == "arith.constant" and op.results[0] is branch.cond.owner.operands[1]:
            op.properties["value"] = IntegerAttr(first, IndexType())
    other = branch.true_region.block.first_op.clone()
    zero = branch.false_region.block.last_op
    zero.parent.insert_op_before(other, zero)
    zero.operands[0] = other.results[0]
    split_index_sets(text)
    text.verify()
    found = [op for op in text.walk() if isinstance(op, scf.ParallelOp)]
    asked = sum(any(op.name == "arith.cmpi" and op.results[0].uses for op in each.walk()) for each in found)
    assert len(found) == loops and asked == (1 if loops == 1 else 0) and loop in found


@settings(deadline=None, max_examples=10)
@given(st.lists(st.sampled_from([1, 5, 16, 17, 32, 40]), min_size=2, max_size=4), st.integers(0, 2))
def test_concatenated_rows(sizes: list[int], pad: int) -> None:
    total = sum(sizes)
    whole = total + 2 * pad
    names = ", ".join(f"%x{i}" for i in range(len(sizes)))
    types = ", ".join(f"tensor<3x{n}xf32>" for n in sizes)
    parameters = ", ".join(f"%x{i}: tensor<3x{n}xf32>" for i, n in enumerate(sizes))
    function = pd.device("cpu").load(pd.compile(f"""
func.func @rows({parameters}) -> tensor<3x{whole}xf32> {{
  %one = arith.constant 7.0 : f32
  %c = tensor.concat dim(1) {names} : ({types}) -> tensor<3x{total}xf32>
  %p = tensor.pad %c low[0, {pad}] high[0, {pad}] {{
    ^bb0(%i: index, %j: index):
      tensor.yield %one : f32
  }} : tensor<3x{total}xf32> to tensor<3x{whole}xf32>
  return %p : tensor<3x{whole}xf32>
}}
""", targets="cpu", cpu="native")).rows  # fmt: skip
    values = [np.arange(3 * n, dtype=np.float32).reshape(3, n) + 1000 * i for i, n in enumerate(sizes)]
    wanted = np.pad(np.concatenate(values, 1), ((0, 0), (pad, pad)), constant_values=7)
    np.testing.assert_array_equal(function(*values), wanted)


@settings(deadline=None, max_examples=15)
@given(st.integers(1, 40), st.integers(0, 5), st.integers(0, 5), st.integers(1, 4), st.integers(0, 2))
def test_strided_rows_of_a_pad(size: int, low: int, high: int, stride: int, offset: int) -> None:
    """Rows that begin before the edge, after it, or that have nothing between."""
    whole = size + low + high
    count = max(1, (whole - 1 - offset) // stride + 1) if whole > offset else 1
    whole = max(whole, offset + 1)
    x, p, y = f"tensor<3x{size}xf32>", f"tensor<3x{whole}xf32>", f"tensor<3x{count}xf32>"
    function = pd.device("cpu").load(pd.compile(f"""
func.func @rows(%x: {x}) -> {y} {{
  %one = arith.constant 7.0 : f32
  %p = tensor.pad %x low[0, {low}] high[0, {whole - size - low}] {{
    ^bb0(%i: index, %j: index):
      tensor.yield %one : f32
  }} : {x} to {p}
  %s = tensor.extract_slice %p[0, {offset}] [3, {count}] [1, {stride}] : {p} to {y}
  %e = tensor.empty() : {y}
  %r = linalg.generic {{indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>],
      iterator_types = ["parallel", "parallel"]}} ins(%s : {y}) outs(%e : {y}) {{
    ^bb0(%a: f32, %o: f32):
      %t = arith.addf %a, %a : f32
      linalg.yield %t : f32
  }} -> {y}
  return %r : {y}
}}
""", targets="cpu", cpu="native")).rows  # fmt: skip
    values = np.arange(3 * size, dtype=np.float32).reshape(3, size)
    padded = np.pad(values, ((0, 0), (low, whole - size - low)), constant_values=7)
    np.testing.assert_array_equal(function(values), 2 * padded[:, offset::stride][:, :count])


NEGATIVE_COUNTERS = """
func.func @kernel() {{
  %low32 = hal.interface.constant.load[0] : i32
  %loaded = arith.index_cast %low32 : i32 to index
  %stated = arith.constant {low} : index
  %b = hal.interface.binding.subspan binding(0) : memref<24xi32>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %slope = arith.constant {slope} : index
  %start = arith.constant {start} : index
  %four = arith.constant 4 : index
  %high = arith.constant 20 : index
  "scf.parallel"(%{first}, %high, %c1) <{{operandSegmentSizes = array<i32: 1, 1, 1, 0>}}> ({{
  ^bb0(%i: index):
    %product = arith.muli %i, %slope : index
    %distance = arith.addi %product, %start : index
    %holds = arith.cmpi sge, %distance, %c0 : index
    %place = arith.addi %i, %four : index
    scf.if %holds {{
      %one = arith.constant 1 : i32
      memref.store %one, %b[%place] : memref<24xi32>
    }}
    "scf.reduce"() : () -> ()
  }}) : (index, index, index) -> ()
  func.return
}}
"""


@pytest.mark.parametrize("first", ["stated", "loaded"])
@pytest.mark.parametrize("low", [-4, -1, 3])
@pytest.mark.parametrize(("slope", "start"), [(-2, -3), (-2, 3), (-3, -40), (2, 3), (2, -3), (3, 40), (3, -70)])
def test_counters_below_zero(slope: int, start: int, low: int, first: str) -> None:
    text = NEGATIVE_COUNTERS.format(slope=slope, start=start, low=low, first=first)
    found = buffer(np.zeros(24, np.int32))
    assert load(text, constants=1, bindings=1).run(found, constants=[low]) == 0
    counters = np.arange(-4, 20)
    np.testing.assert_array_equal(found, (counters >= low) & (slope * counters + start >= 0))
