"""Arrays of workgroup memory that are accessed at constant distances are kept in vector registers."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects import memref
from xdsl.dialects.func import FuncOp

import pydispatch as pd
from pydispatch.compiler.kernel_ir.workgroup_vectors import keep_arrays_in_registers
from pydispatch.ir import parse
from pydispatch.ir.dialects.pyd.splice import SpliceOp


def kernel(**changed: str) -> FuncOp:
    """Return a kernel that stores a row of workgroup memory, and after it sums of neighbours in the row."""
    parts = {
        "shape": "2x64xf32",
        "invocations": "%c32",
        "stored": "%after",
        "guard": "%always",
        "loaded": "%before",
        "other": "",
        "own": "",
        **changed,
    }
    module = parse(
        """
func.func @kernel(%x: memref<32xf32>, %y: memref<32xf32>, %n: index, %unknown: i1)
    attributes {pyd.invocations = 32 : i64} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c16 = arith.constant 16 : index
  %c32 = arith.constant 32 : index
  %end = arith.minsi %n, %c32 : index
  %a = memref.alloc() : memref<SHAPE, 3>
  OWN
  scf.parallel (%p) = (%c0) to (INVOCATIONS) step (%c1) {
    %value = memref.load %x[%p] : memref<32xf32>
    %after = arith.addi %p, %c16 : index
    %next = arith.addi %p, %c1 : index
    %always = arith.cmpi slt, %p, %c32 : index
    %first = arith.cmpi slt, %p, %c16 : index
    %few = arith.cmpi slt, %p, %c2 : index
    OTHER
    scf.if GUARD {
      memref.store %value, %a[%c1, STORED] : memref<SHAPE, 3>
    }
    scf.reduce
  }
  scf.parallel (%q) = (%c0) to (%end) step (%c1) {
    %here = arith.addi %q, %c16 : index
    %before = arith.subi %here, %c1 : index
    %twice = arith.addi %q, %q : index
    %far = arith.addi %here, %c32 : index
    %value = memref.load %a[%c1, %here] : memref<SHAPE, 3>
    %neighbour = memref.load %a[%c1, LOADED] : memref<SHAPE, 3>
    %sum = arith.addf %value, %neighbour : f32
    memref.store %sum, %y[%q] : memref<32xf32>
    scf.reduce
  }
  func.return
}
""".replace("SHAPE", parts["shape"])
        .replace("INVOCATIONS", parts["invocations"])
        .replace("STORED", parts["stored"])
        .replace("GUARD", parts["guard"])
        .replace("LOADED", parts["loaded"])
        .replace("OTHER", parts["other"])
        .replace("OWN", parts["own"])
    )
    (function,) = (op for op in module.walk() if isinstance(op, FuncOp))
    return function


WRAPPED = """
    %number = arith.constant {number} : index
    %limit = arith.constant {limit} : i{width}
    %narrow = arith.index_cast %number : index to i{width}
    %wrapped = arith.cmpi slt, %narrow, %limit : i{width}
"""
WRAPPED_SUM = """
    %hundred = arith.constant 100 : i8
    %zero = arith.constant 0 : i8
    %total = arith.addi %hundred, %hundred : i8
    %wrapped = arith.cmpi slt, %zero, %total : i8
"""


@pytest.mark.parametrize(
    ("changed", "is_in_registers"),
    [
        ({}, True),
        ({"guard": "%first"}, True),
        ({"shape": "2x56xf32"}, False),
        ({"shape": "2x512xf32"}, False),
        ({"invocations": "%end"}, False),
        ({"stored": "%next"}, False),
        ({"guard": "%few"}, False),
        ({"guard": "%unknown"}, False),
        ({"guard": "%wrapped", "other": WRAPPED.format(number=(1 << 32) + 16, width=32, limit=20)}, False),
        ({"guard": "%wrapped", "other": WRAPPED.format(number=300, width=8, limit=100)}, False),
        ({"guard": "%wrapped", "other": WRAPPED.format(number=300, width=16, limit=1000)}, True),
        ({"guard": "%wrapped", "other": WRAPPED_SUM}, False),
        ({"loaded": "%here"}, False),
        ({"loaded": "%twice"}, False),
        ({"loaded": "%far"}, False),
        ({"loaded": "%n"}, False),
        ({"own": "%own = memref.alloca() : memref<12288xf32>"}, False),
        ({"other": "%old = memref.atomic_rmw addf %value, %a[%c0, %p] : (f32, memref<2x64xf32, 3>) -> f32"}, False),
    ],
    ids=[
        "neighbours",
        "half of the invocations store",
        "rows of parts of vectors",
        "too many vectors",
        "stores that are cut short",
        "stores of parts of vectors",
        "a few invocations store",
        "an unknown condition",
        "a number that wraps around in 32 bits",
        "a number that wraps around in 8 bits",
        "a number that fits",
        "a sum that wraps around",
        "whole vectors alone",
        "a stride",
        "after the end of the row",
        "an unknown distance",
        "no room on the stack",
        "an atomic operation",
    ],
)
def test_which_arrays_are_kept_in_registers(changed: dict[str, str], is_in_registers: bool) -> None:
    function = kernel(**changed)
    keep_arrays_in_registers(function)
    function.verify()
    operations = list(function.walk())
    assert any(isinstance(op, memref.AllocOp) for op in operations) != is_in_registers
    assert any(isinstance(op, SpliceOp) for op in operations) == is_in_registers


Vector = Annotated[pd.View, pd.f32["n"]]
MARGIN, LANES = 16, 64


@cache
def windows(cpu: str) -> Any:
    """Return a kernel that sums, within each 64 elements, windows of up to seven of them and counts their positions."""

    @pd.kernel(workgroup=LANES)
    def windowed(x: Vector, y: Vector, counts: Annotated[pd.View, pd.i32["n"]]) -> None:
        terms = pd.shared(MARGIN + LANES, pd.f32)
        sums = pd.shared((2, MARGIN + LANES), pd.f32)
        positions = pd.shared(MARGIN + LANES, pd.i32)
        lane, i = pd.local_id(0), pd.global_id(0)
        if lane < MARGIN:
            terms[lane], positions[lane] = 0.0, 0
            sums[1, lane] = 0.0
        terms[MARGIN + lane] = x[i] if i < x.shape[0] else 0.0
        positions[MARGIN + lane] = 1
        pd.barrier()
        at = MARGIN + lane
        sums[1, at] = terms[at] + terms[at - 1] + terms[at - 2]
        pd.barrier()
        if i < x.shape[0]:
            window = sums[1, at] + sums[1, at - 3] + terms[at - 6]
            y[i] = window if i > 0 else 7.0
            counts[i] = positions[at] + positions[at - 5]

    return pd.device("cpu").load(pd.compile(windowed, targets="cpu", cpu=cpu)).windowed


@settings(deadline=None, max_examples=20)
@given(st.integers(1, 200), st.sampled_from(["native", "generic"]))
def test_windows(n: int, cpu: str) -> None:
    x = np.random.default_rng(n).integers(-9, 9, n).astype(np.float32)
    blocks = np.pad(x, (0, -n % LANES)).reshape(-1, LANES)
    padded = np.pad(blocks, ((0, 0), (6, 0)))
    expected = sum(padded[:, 6 - back : 6 - back + LANES] for back in range(7)).reshape(-1)[:n]
    expected[0] = 7
    y, counts = windows(cpu)(x, np.zeros_like(x), np.zeros(n, np.int32))
    np.testing.assert_array_equal(y, expected)
    np.testing.assert_array_equal(counts, [1 + (i % LANES >= 5) for i in range(n)])
