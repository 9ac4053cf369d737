"""Loops of more iterations than lavapipe runs in an invocation, 65,535 in all: right where their length is known, an
error and never a wrong value where it is not."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import pydispatch as pd


@cache
def device() -> Any:
    return pd.device("vulkan:0")


def load(text: str) -> Any:
    return device().load(pd.compile(text, targets="vulkan"))


def argmax(size: str) -> str:
    return f"""func.func @f(%x: tensor<{size}xf32>) -> (tensor<f32>, tensor<i32>) {{
      %least = arith.constant 0xFF800000 : f32
      %c0 = arith.constant 0 : i32
      %v = tensor.empty() : tensor<f32>
      %i = tensor.empty() : tensor<i32>
      %v0 = linalg.fill ins(%least : f32) outs(%v : tensor<f32>) -> tensor<f32>
      %i0 = linalg.fill ins(%c0 : i32) outs(%i : tensor<i32>) -> tensor<i32>
      %r:2 = linalg.generic {{indexing_maps = [affine_map<(d) -> (d)>, affine_map<(d) -> ()>, affine_map<(d) -> ()>],
          iterator_types = ["reduction"]}} ins(%x : tensor<{size}xf32>) outs(%v0, %i0 : tensor<f32>, tensor<i32>) {{
        ^bb0(%a: f32, %most: f32, %at: i32):
          %j = linalg.index 0 : index
          %here = arith.index_cast %j : index to i32
          %m = arith.maximumf %a, %most : f32
          %c = arith.cmpf ogt, %a, %most : f32
          %s = arith.select %c, %here, %at : i32
          linalg.yield %m, %s : f32, i32
      }} -> (tensor<f32>, tensor<i32>)
      return %r#0, %r#1 : tensor<f32>, tensor<i32>
    }}"""


@pytest.mark.parametrize("size", [65_534, 65_535, 65_536, 70_000, 5_000_000])
def test_argmax(size: int) -> None:
    f = load(argmax(str(size))).f
    x = np.random.default_rng(size).standard_normal(size).astype(np.float32)
    for place in (0, size // 2, 65_535 % size, size - 1):
        y = x.copy()
        y[place] = 100
        value, at = f(y)
        assert (float(np.asarray(value)), int(np.asarray(at))) == (100, place)


def test_argmax_of_any_size() -> None:
    """Sixteen elements in an iteration; beyond, an error, and the next call is right."""
    f = load(argmax("?")).f
    for size in (0, 1, 15, 16, 17, 70_000, 1_000_000):
        x = np.zeros(size, np.float32)
        x[-1:] = 5
        assert int(np.asarray(f(x)[1])) == max(0, size - 1)
    with pytest.raises(pd.KernelError, match=r"@f_dispatch_0.*65,535 iterations.*results are not complete; give"):
        f(np.zeros(1_200_000, np.float32))
    prepared = f.prepare(np.zeros(1_200_000, np.float32))
    with pytest.raises(pd.KernelError, match="65,535"):
        prepared()
    assert int(np.asarray(f(np.array([1, 3, 2], np.float32))[1])) == 1


KERNEL = """
hal.executable.source private @e {{
  hal.executable.export public @k ordinal(0) layout(#hal.pipeline.layout<constants = 1, bindings = [
      #hal.pipeline.binding<storage_buffer, ReadOnly>, #hal.pipeline.binding<storage_buffer>]>)
      count(%d: !hal.device) -> (index, index, index) {{
    %one = arith.constant 1 : index
    hal.return %one, %one, %one : index, index, index
  }}
  builtin.module {{
    func.func @k() {{
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %zero = arith.constant 0 : i32
      %constant = hal.interface.constant.load layout(#layout) ordinal(0) : i32
      {size}
      %a = hal.interface.binding.subspan layout(#layout) binding(0) flags(ReadOnly) : memref<64xi32>
      %b = hal.interface.binding.subspan layout(#layout) binding(1) : memref<1xi32>
      {loop}
      memref.store %r, %b[%c0] : memref<1xi32>
      return
    }}
  }}
}}
#layout = #hal.pipeline.layout<constants = 1, bindings = [
      #hal.pipeline.binding<storage_buffer, ReadOnly>, #hal.pipeline.binding<storage_buffer>]>
func.func @f(%n: i32, %a: tensor<64xi32>) -> tensor<1xi32> {{
  %r = flow.dispatch @e::@k(%n, %a) : (i32, tensor<64xi32>) -> tensor<1xi32>
  return %r : tensor<1xi32>
}}"""

STEP = """%m = arith.constant 64 : index
          %j = arith.remui %i, %m : index
          %x = memref.load %a[%j] : memref<64xi32>
          %t = arith.addi %s, %x : i32"""
COUNTED = f"""%r = scf.for %i = %c0 to %n step %c1 iter_args(%s = %zero) -> (i32) {{
          {STEP}
          scf.yield %t : i32
        }}"""
NESTED = f"""%h = arith.constant 3 : index
      %r = scf.for %o = %c0 to %h step %c1 iter_args(%p = %zero) -> (i32) {{
        %q = scf.for %i = %c0 to %n step %c1 iter_args(%s = %p) -> (i32) {{
          {STEP}
          scf.yield %t : i32
        }}
        scf.yield %q : i32
      }}"""
REPEATED = f"""%e, %r = scf.while (%i = %c0, %s = %zero) : (index, i32) -> (index, i32) {{
        %c = arith.cmpi slt, %i, %n : index
        scf.condition(%c) %i, %s : index, i32
      }} do {{
        ^bb0(%i: index, %s: i32):
          {STEP}
          %k = arith.addi %i, %c1 : index
          scf.yield %k, %t : index, i32
      }}"""
A = np.arange(64, dtype=np.int32) % 7


def total(count: int) -> int:
    return int(np.resize(A, count).sum())


def kernel(loop: str, size: int | None) -> Any:
    number = "arith.index_cast %constant : i32 to index" if size is None else f"arith.constant {size} : index"
    return load(KERNEL.format(loop=loop, size=f"%n = {number}")).f


@pytest.mark.parametrize("size", [65_535, 100_000, 1_000_001])
def test_loops_of_given_kernels(size: int) -> None:
    assert int(np.asarray(kernel(COUNTED, size)(0, A))[0]) == total(size)
    assert int(np.asarray(kernel(NESTED, size)(0, A))[0]) == 3 * total(size)


def test_loops_of_a_length_that_is_not_known() -> None:
    counted, nested, repeated = (kernel(loop, None) for loop in (COUNTED, NESTED, REPEATED))
    for size in (-5, 0, 1, 16, 33, 70_000, 1_000_000):
        assert int(np.asarray(counted(size, A))[0]) == total(max(size, 0))
    assert int(np.asarray(nested(20_000, A))[0]) == 3 * total(20_000)
    assert int(np.asarray(repeated(65_000, A))[0]) == total(65_000)
    too_long = ((counted, 1_100_000), (nested, 22_000), (nested, 70_000), (repeated, 65_536), (repeated, 70_000))
    for call, size in too_long:
        with pytest.raises(pd.KernelError, match=r"@e::@k: vulkan:0 \(llvmpipe.*65,535 iterations"):
            call(size, A)


TWO = """func.func @f(%n: i32, %a: tensor<64xi32>, %b: tensor<64xi32>) -> (tensor<1xi32>, tensor<1xi32>) {
  %r = flow.dispatch @e::@k(%n, %a) : (i32, tensor<64xi32>) -> tensor<1xi32>
  %s = flow.dispatch @e::@k(%n, %b) : (i32, tensor<64xi32>) -> tensor<1xi32>
  return %r, %s : tensor<1xi32>, tensor<1xi32>
}"""
FROM_BUFFER = """%first = memref.load %a[%c0] : memref<64xi32>
      %n = arith.index_cast %first : i32 to index"""


def test_a_prepared_call_after_two_dispatches_that_ended_early() -> None:
    text = KERNEL.format(loop=f"{FROM_BUFFER}\n      {REPEATED}", size="").partition("func.func @f(")[0] + TWO
    a, b = np.full(64, 70_000, np.int32), np.full(64, 80_000, np.int32)
    prepared = load(text).f.prepare(0, a, b)
    with pytest.raises(pd.KernelError, match="65,535 iterations"):
        prepared()
    a[:], b[:] = 3, 4
    assert [int(np.asarray(result)[0]) for result in prepared()] == [9, 16]


def test_short_loops_stay_as_they_are() -> None:
    """A static loop below the limit is one loop, and its shader takes no buffer more."""
    artifact = pd.compile(KERNEL.format(loop=COUNTED, size="%n = arith.constant 1000 : index"), targets="vulkan")
    assert "'watched': [False]" in str(artifact.manifest)
