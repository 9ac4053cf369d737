"""Slices as bindings: they begin where elements do, which executables with larger elements do not take."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pydispatch as pd

DEVICES = {"cpu": "cpu", "vulkan": "vulkan", "ptx-interpreter": "sm_80"}

SLICE = """
func.func @f(%x: tensor<NxS>) -> (tensor<NxS>, tensor<KxT>) {
  %first = arith.constant FIRST : index
  %count = arith.constant K : index
  %one = arith.constant dense<1> : tensor<NxS>
  %sum = arith.addi %x, %one : tensor<NxS>
  %whole = util.optimization_barrier %sum : tensor<NxS>
  %part = flow.tensor.slice %whole[%first for %count] : tensor<NxS> -> tensor<KxS>
  %wide = arith.extui %part : tensor<KxS> to tensor<KxT>
  return %whole, %wide : tensor<NxS>, tensor<KxT>
}
"""

BITCAST = """
func.func @f(%x: tensor<NxS>, %first: index) -> tensor<KxT> {
  %count = arith.constant COUNT : index
  %one = arith.constant dense<1> : tensor<NxS>
  %sum = arith.addi %x, %one : tensor<NxS>
  %whole = util.optimization_barrier %sum : tensor<NxS>
  %part = flow.tensor.slice %whole[%first for %count] : tensor<NxS> -> tensor<COUNTxS>
  %wide = flow.tensor.bitcast %part : tensor<COUNTxS> -> tensor<KxT>
  %two = arith.constant dense<2> : tensor<KxT>
  %result = arith.muli %wide, %two : tensor<KxT>
  return %result : tensor<KxT>
}
"""

UPDATE = """
func.func @f(%x: tensor<NxS>, %y: tensor<KxT>) -> tensor<NxS> {
  %first = arith.constant FIRST : index
  %narrow = arith.trunci %y : tensor<KxT> to tensor<KxS>
  %part = util.optimization_barrier %narrow : tensor<KxS>
  %result = flow.tensor.update %part, %x[%first] : tensor<KxS> -> %x as tensor<NxS>
  return %result : tensor<NxS>
}
"""

HALVES = [("i8", "i16"), ("i8", "i64"), ("i16", "i32"), ("i16", "i64"), ("i32", "i64")]
TYPES = {f"i{n}": np.dtype(f"u{n // 8}") for n in (8, 16, 32, 64)}


def signed(x: np.ndarray) -> np.ndarray:
    return x.view(f"i{x.dtype.itemsize}")


def load(text: str, device: str, **words: object) -> pd.Program:
    for word, value in words.items():
        text = text.replace(word, str(value))
    return pd.device(device).load(pd.compile(text, targets=DEVICES[device]))


@st.composite
def slices(draw: st.DrawFn) -> tuple[str, str, int, int, int]:
    small, large = draw(st.sampled_from(HALVES))
    size = draw(st.integers(1, 70))
    first = draw(st.integers(0, size - 1))
    return small, large, size, first, draw(st.integers(1, size - first))


@pytest.mark.parametrize("device", DEVICES)
@settings(max_examples=15, deadline=None)
@given(case=slices())
def test_slice_beside_larger_elements(device: str, case: tuple[str, str, int, int, int]) -> None:
    small, large, size, first, count = case
    program = load(
        SLICE, device, NxS=f"{size}x{small}", KxS=f"{count}x{small}", KxT=f"{count}x{large}", FIRST=first, K=count
    )
    x = np.arange(size).astype(TYPES[small]) * 3
    whole, wide = program.f(signed(x))
    np.testing.assert_array_equal(np.asarray(whole).view(TYPES[small]), x + TYPES[small].type(1))
    np.testing.assert_array_equal(
        np.asarray(wide).view(TYPES[large]), (x + TYPES[small].type(1))[first : first + count]
    )


@pytest.mark.parametrize("device", DEVICES)
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_bitcast_of_a_slice(device: str, data: st.DataObject) -> None:
    small, large = data.draw(st.sampled_from(HALVES))
    ratio = TYPES[large].itemsize // TYPES[small].itemsize
    count = data.draw(st.integers(1, 9))
    size = data.draw(st.integers(count * ratio, count * ratio + 9))
    first = data.draw(st.integers(0, size - count * ratio))
    words = {"NxS": f"{size}x{small}", "COUNTxS": f"{count * ratio}x{small}", "KxT": f"{count}x{large}"}
    program = load(BITCAST, device, **words, COUNT=count * ratio)
    x = np.arange(size).astype(TYPES[small]) * 7
    expected = (x + TYPES[small].type(1))[first : first + count * ratio].copy().view(TYPES[large]) * TYPES[large].type(
        2
    )
    np.testing.assert_array_equal(np.asarray(program.f(signed(x), first)).view(TYPES[large]), expected)


@pytest.mark.parametrize("device", DEVICES)
def test_update_of_a_slice(device: str) -> None:
    program = load(UPDATE, device, NxS="9xi32", KxS="4xi32", KxT="4xi64", FIRST=3)
    x, y = np.arange(9, dtype=np.int32), np.array([50, 60, 70, 80], dtype=np.int64)
    np.testing.assert_array_equal(np.asarray(program.f(x, y)), [0, 1, 2, 50, 60, 70, 80, 7, 8])


FOREIGN = """
#layout = #hal.pipeline.layout<bindings = [
  #hal.pipeline.binding<storage_buffer, ReadOnly>, #hal.pipeline.binding<storage_buffer>
]>
hal.executable.source private @exe attributes {objects = #hal.executable.objects<{}>} {
  hal.executable.export public @double ordinal(0) layout(#layout) count(%device: !hal.device) -> (index, index, index) {
    %c1 = arith.constant 1 : index
    hal.return %c1, %c1, %c1 : index, index, index
  }
  builtin.module {
    func.func @double() {
      %c0 = arith.constant 0 : index
      %in = hal.interface.binding.subspan layout(#layout) binding(0) alignment(64) offset(%c0) : memref<16xi32>
      %out = hal.interface.binding.subspan layout(#layout) binding(1) alignment(64) offset(%c0) : memref<16xi32>
      %c1 = arith.constant 1 : index
      %c16 = arith.constant 16 : index
      scf.for %i = %c0 to %c16 step %c1 {
        %v = memref.load %in[%i] : memref<16xi32>
        %w = arith.addi %v, %v : i32
        memref.store %w, %out[%i] : memref<16xi32>
      }
      return
    }
  }
}
func.func @f(%x: tensor<40xi32>, %first: index) -> tensor<16xi32> {
  %c16 = arith.constant 16 : index
  %part = flow.tensor.slice %x[%first for %c16] : tensor<40xi32> -> tensor<16xi32>
  %y = flow.dispatch @exe::@double(%part) : (tensor<16xi32>) -> tensor<16xi32>
  return %y : tensor<16xi32>
}
"""


def test_a_kernel_that_wants_64_bytes() -> None:
    """Copies are made per call: the slice moves, and prepared calls see what the argument holds by then."""
    program = pd.device("cpu").load(pd.compile(FOREIGN))
    x = np.arange(40, dtype=np.int32)
    for first in (0, 1, 7, 16, 24):
        np.testing.assert_array_equal(program.f(x, first), 2 * x[first : first + 16])
    call = program.f.prepare(x, 5)
    x += 100
    np.testing.assert_array_equal(call(), 2 * x[5:21])


def test_an_overwritten_slice_is_copied_once() -> None:
    """A kernel that wants 64 bytes, in place: one copy is both aligned and no memory of the caller."""
    text = FOREIGN.replace("ReadOnly>, #hal.pipeline.binding<storage_buffer>", "None>").replace(
        "binding(1)", "binding(0)"
    )
    text = text.replace("(tensor<16xi32>) -> tensor<16xi32>\n  return", "(tensor<16xi32>) -> %part\n  return")
    program = pd.device("cpu").load(pd.compile(text))
    x = np.arange(40, dtype=np.int32)
    for first in (0, 7):
        np.testing.assert_array_equal(program.f(x.copy(), first), 2 * x[first : first + 16])
    assert sum("copy" in command for command in program.f.plan_of(x, 7)) == 1
