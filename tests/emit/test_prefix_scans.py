"""Loops that store a scan of integers compute vectors of results, which are those of the loops as they were."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import pytest
from kernels import buffer, load
from xdsl.dialects.func import FuncOp

import pydispatch as pd
from pydispatch.compiler.kernel_ir.prefix_scans import scan_in_vectors
from pydispatch.ir import parse
from pydispatch.ir.dialects.pyd.prefix_scan import PrefixScanOp

LOOP = """
func.func @kernel() {{
  %begin32 = hal.interface.constant.load[0] : i32
  %end32 = hal.interface.constant.load[1] : i32
  %begin = arith.index_cast %begin32 : i32 to index
  %end = arith.index_cast %end32 : i32 to index
  %a = hal.interface.binding.subspan binding(0) flags({flags}) : memref<200x{type}>
  %b = hal.interface.binding.subspan binding(1) : memref<200x{type}>
  %step = arith.constant {step} : index
  %one = arith.constant 1 : index
  %initial = arith.constant {initial} : {type}
  %sum = scf.for %i = %begin to %end step %step iter_args(%total = %initial) -> ({type}) {{
    %next_index = arith.addi %i, %one : index
    %x = memref.load {load} : memref<200x{type}>
    %next = {combine} %total, %x : {type}
    {more}
    memref.store {value}, {store} : memref<200x{type}>
    scf.yield %next : {type}
  }}
  memref.store %sum, %b[%end] : memref<200x{type}>
  func.return
}}
"""
SCAN = {
    "flags": "ReadOnly", "type": "i32", "step": "1", "initial": "5", "load": "%a[%i]", "combine": "arith.addi",
    "more": "", "value": "%next", "store": "%b[%i]",
}  # fmt: skip
SCANNED: dict[str, dict[str, str]] = {
    "as it is": {},
    "of bytes": {"type": "i8"},
    "of 64 bits": {"type": "i64"},
    "maximum": {"combine": "arith.maxsi"},
    "elements after": {"load": "%a[%next_index]"},
    "function of the sum": {"more": "%twice = arith.addi %next, %next : i32", "value": "%twice"},
    "in place": {"load": "%b[%i]"},
}
LEFT: dict[str, dict[str, str]] = {
    "floats": {"type": "f32", "combine": "arith.addf", "initial": "5.0"},
    "difference": {"combine": "arith.subi"},
    "every second": {"step": "2"},
    "one element": {"store": "%b[%one]"},
    "reads what it wrote": {"load": "%b[%next_index]"},
    "another view that is written": {"flags": "None"},
    "sum before": {"value": "%total"},
    "element as well": {"more": "%both = arith.addi %next, %x : i32", "value": "%both"},
    "index is a sum": {
        "more": "%where = arith.index_cast %next : i32 to index\n %old = memref.load %a[%where] : memref<200xi32>",
        "value": "%old",
    },
}


@pytest.mark.parametrize("name", [*SCANNED, *LEFT])
def test_which_loops_are_scans(name: str) -> None:
    module = parse(LOOP.format(**{**SCAN, **SCANNED.get(name, {}), **LEFT.get(name, {})}))
    (function,) = (op for op in module.walk() if isinstance(op, FuncOp))
    scan_in_vectors(function)
    function.verify()
    assert any(isinstance(op, PrefixScanOp) for op in function.walk()) == (name in SCANNED)


@pytest.mark.parametrize("name", SCANNED)
def test_results_are_those_of_numpy(name: str) -> None:
    """Loops without elements, with fewer than a vector, with whole vectors, and with elements after them."""
    loop = {**SCAN, **SCANNED[name]}
    dtype = np.dtype({"i8": np.int8, "i32": np.int32, "i64": np.int64}[loop["type"]])
    kernel = load(LOOP.format(**loop), bindings=2, constants=2)
    for begin, end in ((3, 3), (9, 4), (3, 10), (3, 19), (1, 17), (5, 150)):
        x, old = np.random.default_rng(1).integers(-9, 9, (2, 200)).astype(dtype)
        a, b = buffer(x), buffer(old)
        assert kernel.run(a, b, constants=(begin, end)) == 0
        expected, total = old.copy(), dtype.type(5)
        for i in range(begin, end):
            element = {"%a[%i]": x, "%b[%i]": old}.get(loop["load"], np.roll(x, -1))[i]
            total = max(total, element) if loop["combine"] == "arith.maxsi" else dtype.type(total + element)
            expected[i] = 2 * total if loop["value"] == "%twice" else total
        expected[end] = total
        np.testing.assert_array_equal(b, expected)


@pd.kernel(workgroup=8, grid=lambda x, y: pd.cdiv(x.shape[0], 800))
def sums_of_shares(x: Annotated[pd.View, pd.i32["n"]], y: Annotated[pd.View, pd.i32["n"]]) -> None:
    """Each invocation stores the sums of the positive ones among its 100 elements."""
    begin = pd.global_id(0) * 100
    total = 0
    for i in range(begin, min(begin + 100, x.shape[0])):
        total += max(x[i], 0)
        y[i] = total


@pytest.mark.parametrize("n", [1, 100, 1234])
def test_elements_are_computed_and_summed(n: int) -> None:
    x = np.random.default_rng(1).integers(-100, 100, n).astype(np.int32)
    y = np.zeros_like(x)
    sums_of_shares(x, y)
    shares = [x[first : first + 100] for first in range(0, n, 100)]
    np.testing.assert_array_equal(y, np.concatenate([np.cumsum(np.maximum(share, 0)) for share in shares]))


@pd.kernel(workgroup=8)
def sums_of_tiles(x: Annotated[pd.View, pd.i32["n"]], y: Annotated[pd.View, pd.i32["n"]]) -> None:
    i = pd.group_id(0) * 64
    y[i : i + 64] = pd.cumsum(x[i : i + 64])


def test_sums_of_tiles() -> None:
    x = np.random.default_rng(1).integers(-100, 100, 200).astype(np.int32)
    y: Any = np.zeros_like(x)
    sums_of_tiles(x, y)
    expected = [np.cumsum(x[first : first + 64]) for first in range(0, 200, 64)]
    np.testing.assert_array_equal(y, np.concatenate(expected))


LARGE_ARRAY = """
func.func @kernel() {
  %a = hal.interface.binding.subspan binding(0) flags(ReadOnly) : memref<200xi32>
  %b = hal.interface.binding.subspan binding(1) : memref<200xi32>
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %end = arith.constant 200 : index
  %initial = arith.constant 0 : i32
  %sums = memref.alloca() : memref<SIZExi32>
  scf.for %i = %zero to %end step %one iter_args(%total = %initial) -> (i32) {
    %x = memref.load %a[%i] : memref<200xi32>
    %next = arith.addi %total, %x : i32
    memref.store %next, %sums[%i] : memref<SIZExi32>
    scf.yield %next : i32
  }
  scf.for %i = %zero to %end step %one {
    %sum = memref.load %sums[%i] : memref<SIZExi32>
    memref.store %sum, %b[%i] : memref<200xi32>
  }
  func.return
}
"""


@pytest.mark.parametrize(("size", "is_scanned"), [(200, True), (12272, True), (12273, False), (16384, False)])
def test_arrays_of_programs_have_the_stack(size: int, is_scanned: bool) -> None:
    """The vector takes 64 bytes."""
    text = LARGE_ARRAY.replace("SIZE", str(size))
    module = parse(text)
    (function,) = (op for op in module.walk() if isinstance(op, FuncOp))
    scan_in_vectors(function)
    assert any(isinstance(op, PrefixScanOp) for op in function.walk()) == is_scanned
    a, b = buffer(np.arange(200, dtype=np.int32)), buffer(np.zeros(200, np.int32))
    assert load(text, bindings=2).run(a, b) == 0
    np.testing.assert_array_equal(b, np.cumsum(a))
