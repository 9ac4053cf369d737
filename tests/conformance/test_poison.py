"""PYDISPATCH_CHECK=poison shows what no kernel wrote: elements of results, of transients and of workgroup memory."""

from __future__ import annotations

import numpy as np
import pytest
from backends import Backend

import pydispatch as pd

TARGETS = {
    "cpu": '"llvm-cpu", "embedded-elf-x86_64"', "vulkan": '"vulkan-spirv", "vulkan-spirv-fb"',
    "cuda": '"cuda", "cuda-nvptx-fb"', "webgpu": '"webgpu-wgsl", "webgpu-wgsl-fb"',
}  # fmt: skip

SOURCE = """
hal.executable private @ex {
  hal.executable.variant public @v target(<TARGET>) {
    hal.executable.export public @k ordinal(0) layout(#hal.pipeline.layout<bindings = [
        #hal.pipeline.binding<storage_buffer, ReadOnly>, #hal.pipeline.binding<storage_buffer>]>)
        count(%device: !hal.device) -> (index, index, index) {
      %c2 = arith.constant 2 : index
      %c1 = arith.constant 1 : index
      hal.return %c2, %c1, %c1 : index, index, index
    }
    builtin.module {
      func.func @k() {
        %c0 = arith.constant 0 : index
        %c1 = arith.constant 1 : index
        %c4 = arith.constant 4 : index
        %x = hal.interface.workgroup.id[0] : index
        %i = arith.muli %x, %c4 : index
        %j = arith.addi %i, %c1 : index
        %a = hal.interface.binding.subspan binding(0) offset(%c0) flags(ReadOnly) : memref<8xf32>
        %r = hal.interface.binding.subspan binding(1) offset(%c0) : memref<8xf32>
        %local = memref.alloc() : memref<4xf32, 3 : i64>
        %unwritten = memref.load %local[%c1] : memref<4xf32, 3 : i64>
        %v = memref.load %a[%i] : memref<8xf32>
        memref.store %v, %r[%i] : memref<8xf32>
        memref.store %unwritten, %r[%j] : memref<8xf32>
        memref.store %v, %local[%c1] : memref<4xf32, 3 : i64>
        return
      }
    }
  }
}
func.func @f(%a: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %0 = flow.dispatch @ex::@v::@k(%a) : (tensor<8xf32>) -> tensor<8xf32>
  %1 = flow.dispatch @ex::@v::@k(%a) : (tensor<8xf32>) -> tensor<8xf32>
  %empty = tensor.empty() : tensor<8xf32>
  %2 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%1 : tensor<8xf32>) outs(%empty : tensor<8xf32>) {
  ^bb0(%x: f32, %o: f32):
    %y = arith.addf %x, %x : f32
    linalg.yield %y : f32
  } -> tensor<8xf32>
  return %0, %2 : tensor<8xf32>, tensor<8xf32>
}"""

X = np.arange(1, 9, dtype=np.float32)


def test_unwritten_elements_are_nan(backend: Backend) -> None:
    """Each workgroup writes the first of its four elements, and to the second one of local memory that is unwritten."""
    program = backend.load(SOURCE.replace("TARGET", TARGETS[backend.name]))
    for _ in range(2):  # the second call gets the memory of the first
        for got, factor in zip(map(np.asarray, program.f(X)), (1, 2), strict=True):
            np.testing.assert_array_equal(got[::4], X[::4] * factor)
            assert np.isnan(got.reshape(2, 4)[:, 2:]).all()
            if backend.name in ("cpu", "cuda"):
                assert np.isnan(got[1::4]).all()


def test_memory_is_filled_on_request_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYDISPATCH_CHECK")
    device = pd.device("ptx-interpreter")  # its memory begins as zeros
    program = device.load(pd.compile(SOURCE.replace("TARGET", TARGETS["cuda"]), targets="cuda"))
    np.testing.assert_array_equal(np.asarray(program.f(X)[0]), [1, 0, 0, 0, 5, 0, 0, 0])
    np.testing.assert_array_equal(np.asarray(device.empty((3,), np.float32)), 0)


@pytest.mark.parametrize("device", ["cpu?workers=1&memory=1234567", "ptx-interpreter"])
def test_other_checks_are_refused(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYDISPATCH_CHECK", "poisson")
    with pytest.raises(pd.InvalidArgumentError, match="PYDISPATCH_CHECK=poisson: expected 'poison', or no value"):
        pd.device(device)
