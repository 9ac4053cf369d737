"""Loops that store to memory that they load, or may load, keep the order of the loads and stores."""

from __future__ import annotations

from typing import Annotated

import numpy as np
import pytest
from kernels import buffer, load
from xdsl.dialects.func import FuncOp

import pydispatch as pd
from pydispatch.compiler.kernel_ir.prefix_scans import scan_in_vectors
from pydispatch.ir import parse
from pydispatch.ir.dialects.pyd.prefix_scan import PrefixScanOp

SIZE = 100

STORED_THEN_LOADED = """
func.func @kernel() {
  %b = hal.interface.binding.subspan binding(0) : memref<100xi32>
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %last = arith.constant 99 : index
  %initial = arith.constant 5 : i32
  %sum = scf.for %i = %zero to %last step %one iter_args(%total = %initial) -> (i32) {
    %v = arith.index_cast %i : index to i32
    memref.store %v, %b[%i] : memref<100xi32>
    %x = memref.load %b[%i] : memref<100xi32>
    %next = arith.addi %total, %x : i32
    scf.yield %next : i32
  }
  memref.store %sum, %b[%last] : memref<100xi32>
  func.return
}
"""
CARRIED_MEMORY = """
func.func @kernel() {
  %b = hal.interface.binding.subspan binding(0) : memref<100xi32>
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %two = arith.constant 2 : index
  %last = arith.constant 99 : index
  %size = arith.constant 100 : index
  %initial = arith.constant 5 : i32
  %even = memref.alloca() : memref<100xi32>
  %odd = memref.alloca() : memref<100xi32>
  scf.for %i = %zero to %size step %one {
    %x = memref.load %b[%i] : memref<100xi32>
    memref.store %x, %even[%i] : memref<100xi32>
    memref.store %x, %odd[%i] : memref<100xi32>
  }
  %a, %c = scf.for %j = %zero to %two step %one iter_args(%from = %even, %to = %odd)
      -> (memref<100xi32>, memref<100xi32>) {
    %sum = scf.for %i = %zero to %last step %one iter_args(%total = %initial) -> (i32) {
      %i1 = arith.addi %i, %one : index
      %x = memref.load LOADED[%i] : memref<100xi32>
      %next = arith.addi %total, %x : i32
      memref.store %next, STORED[%i1] : memref<100xi32>
      scf.yield %next : i32
    }
    scf.yield %to, %from : memref<100xi32>, memref<100xi32>
  }
  scf.for %i = %zero to %size step %one {
    %x = memref.load %even[%i] : memref<100xi32>
    memref.store %x, %b[%i] : memref<100xi32>
  }
  func.return
}
"""
OVERLAPPING_ROWS = """
func.func @kernel() {
  %all = hal.interface.binding.subspan binding(0) : memref<100xi32>
  %b = memref.reinterpret_cast %all to offset: [0], sizes: [50, 50], strides: [1, 1]
      : memref<100xi32> to memref<50x50xi32, strided<[1, 1]>>
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %two = arith.constant 2 : index
  %size = arith.constant 50 : index
  %initial = arith.constant 5 : i32
  %sum = scf.for %i = %zero to %size step %one iter_args(%total = %initial) -> (i32) {
    %odd = arith.remsi %i, %two : index
    %row = arith.subi %one, %odd : index
    %x = memref.load %b[%row, %i] : memref<50x50xi32, strided<[1, 1]>>
    %next = arith.addi %total, %x : i32
    memref.store %next, %b[%row, %i] : memref<50x50xi32, strided<[1, 1]>>
    scf.yield %next : i32
  }
  func.return
}
"""


def carried(loaded: str, stored: str) -> str:
    """Return the loop whose outer loop exchanges two arrays, which loads from one memref and stores to another."""
    return CARRIED_MEMORY.replace("LOADED", loaded).replace("STORED", stored)


def stored_then_loaded() -> np.ndarray:
    """Return what the kernel of this name stores."""
    return np.append(np.arange(SIZE - 1), 5 + sum(range(SIZE - 1))).astype(np.int32)


def scanned_by_carried(loaded: str, stored: str, b: np.ndarray) -> np.ndarray:
    """Return the array `even` after both iterations of the outer loop."""
    memory = {"%even": b.copy(), "%odd": b.copy()}
    memory |= {"%from": memory["%even"], "%to": memory["%odd"]}
    for _ in range(2):
        total = np.int32(5)
        for i in range(SIZE - 1):
            with np.errstate(over="ignore"):
                total += memory[loaded][i]
            memory[stored][i + 1] = total
        memory["%from"], memory["%to"] = memory["%to"], memory["%from"]
    return memory["%even"]


def scanned_in_overlapping_rows(b: np.ndarray) -> np.ndarray:
    """Return the array whose elements with odd indices are replaced twice."""
    result, total = b.copy(), 5
    for i in range(50):
        total += result[i + 1 - i % 2]
        result[i + 1 - i % 2] = total
    return result


PAIRS = [("%from", "%even"), ("%from", "%odd"), ("%even", "%to"), ("%odd", "%to"), ("%from", "%to"), ("%to", "%to")]
"""Memrefs that the inner loop loads from and stores to."""


def run(text: str, b: np.ndarray) -> np.ndarray:
    """Return the array after the kernel."""
    memory = buffer(b)
    assert load(text, bindings=1).run(memory) == 0
    return memory


def has_scan(text: str) -> bool:
    """Return whether the pass changes the kernel."""
    module = parse(text)
    (function,) = (op for op in module.walk() if isinstance(op, FuncOp))
    scan_in_vectors(function)
    return any(isinstance(op, PrefixScanOp) for op in function.walk())


ELEMENTS = np.random.default_rng(1).integers(-9, 9, SIZE).astype(np.int32)


def test_element_is_stored_then_loaded() -> None:
    assert not has_scan(STORED_THEN_LOADED)
    np.testing.assert_array_equal(run(STORED_THEN_LOADED, ELEMENTS), stored_then_loaded())


@pytest.mark.parametrize(("loaded", "stored"), PAIRS)
def test_memory_that_outer_loop_carries(loaded: str, stored: str) -> None:
    text = carried(loaded, stored)
    assert not has_scan(text)
    np.testing.assert_array_equal(run(text, ELEMENTS), scanned_by_carried(loaded, stored, ELEMENTS))


def test_distinct_allocations_are_scanned() -> None:
    """The arrays that the outer loop carries are not accessed."""
    text = carried("%odd", "%even")
    assert has_scan(text)
    np.testing.assert_array_equal(run(text, ELEMENTS), scanned_by_carried("%odd", "%even", ELEMENTS))


def test_rows_that_overlap() -> None:
    assert not has_scan(OVERLAPPING_ROWS)
    np.testing.assert_array_equal(run(OVERLAPPING_ROWS, ELEMENTS), scanned_in_overlapping_rows(ELEMENTS))


Row = Annotated[pd.View, pd.i32["n"]]


@pd.kernel(workgroup=1, grid=lambda y, total_of_all: 1)
def indices_and_sum(y: Row, total_of_all: Annotated[pd.View, pd.i32[1]]) -> None:
    """Store indices, and add up the elements that are stored."""
    total = 0
    for i in range(y.shape[0]):
        y[i] = pd.i32(3 * i)
        total += y[i]
    total_of_all[0] = total


def test_elements_stored_before_sum() -> None:
    y, total = ELEMENTS.copy(), np.zeros(1, np.int32)
    indices_and_sum(y, total)
    np.testing.assert_array_equal(y, 3 * np.arange(SIZE))
    assert total[0] == 3 * np.arange(SIZE).sum()
