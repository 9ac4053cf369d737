"""Assertions of kernels on devices whose kernels cannot stop: the program says afterwards which one did not hold."""

from __future__ import annotations

import re
from typing import Annotated, Any

import numpy as np
import pytest

import pydispatch as pd

Vector = Annotated[pd.View, pd.f32["n"]]
DEVICES = {"cpu": "cpu", "vulkan": "vulkan:0", "cuda": "ptx-interpreter?races=1", "webgpu": "webgpu:0"}


@pd.kernel(workgroup=64)
def root(x: Vector, y: Vector) -> None:
    i = pd.global_id(0)
    if i < x.shape[0]:
        assert x[i] >= 0.0, "no root of it"
        for _ in range(3):
            assert x[i] < 100.0
        y[i] = pd.sqrt(x[i])


@pd.program
def twice(x: Annotated[np.ndarray[Any, Any], pd.f32["n"]]) -> Any:
    y = np.zeros_like(x)
    root(x, y)
    z = np.zeros_like(x)
    root(y + 1, z)
    return z


def numbers(bad: float | None = None) -> Any:
    x = np.arange(50, dtype=np.float32)
    if bad is not None:
        x[7] = bad
    return x


FAULTS = [(-1.0, r"test_asserts_on_devices.py:\d+:\d+: no root of it"), (200.0, r"x\[i\] < 100.0")]


@pytest.mark.parametrize("device", DEVICES)
def test_called(device: str) -> None:
    """With buffers, and with arrays on the CPU; what a failed call leaves does not spoil the next."""
    opened = pd.device(DEVICES[device])
    for bad, message in FAULTS:
        for x in (numbers(), numbers(bad), numbers()):
            given, made = (each if device == "cpu" else opened.upload(each) for each in (x, np.zeros_like(x)))
            if x[7] == 7:
                root(given, made)
                np.testing.assert_allclose(np.asarray(made), np.sqrt(x), rtol=1e-6)
                continue
            with pytest.raises(pd.KernelError, match=message + ".* 'root'"):
                root(given, made)


@pytest.mark.parametrize("device", ["vulkan", "cuda", "webgpu"])
def test_compiled(device: str) -> None:
    program = pd.device(DEVICES[device]).load(pd.compile(root, targets=device))
    np.testing.assert_allclose(np.asarray(program.root(numbers(), numbers())), np.sqrt(numbers()), rtol=1e-6)
    for bad, message in FAULTS:
        with pytest.raises(pd.InvalidArgumentError, match=message):
            program.root(numbers(bad), numbers())


def test_one_artifact_for_a_cpu_and_a_gpu() -> None:
    artifact = pd.compile(root, targets=("cpu", "vulkan"))
    for device in ("cpu?workers=2", "vulkan:0"):
        with pytest.raises(pd.InvalidArgumentError, match="no root of it"):
            pd.device(device).load(artifact).root(numbers(-1.0), numbers())


@pytest.mark.parametrize("device", ["vulkan", "webgpu"])
def test_in_programs(device: str) -> None:
    """The second of two calls of a kernel may be the one."""
    program = pd.device(DEVICES[device]).load(pd.compile(twice, targets=device))
    np.testing.assert_allclose(np.asarray(program.twice(numbers())), np.sqrt(np.sqrt(numbers()) + 1), rtol=1e-6)
    with pytest.raises(pd.InvalidArgumentError, match="no root of it"):
        program.twice(numbers(-1.0))
    with pytest.raises(pd.InvalidArgumentError, match=re.escape("x[i] < 100.0")):
        program.twice(numbers(100.0))


MLIR = """
stream.executable private @e {
  stream.executable.export public @halve workgroups(%n: index) -> (index, index, index) {
    %c1 = arith.constant 1 : index
    stream.return %n, %c1, %c1 : index, index, index
  }
  builtin.module {
    func.func @halve(%a: !stream.binding, %limit: i32, %r: !stream.binding) {
      %c0 = arith.constant 0 : index
      %x = stream.binding.subspan %a[%c0] : !stream.binding -> memref<8xi32>
      %y = stream.binding.subspan %r[%c0] : !stream.binding -> memref<8xi32>
      %i = stream.dispatch.workgroup.id[0] : index
      %v = memref.load %x[%i] : memref<8xi32>
      %holds = arith.cmpi slt, %v, %limit : i32
      cf.assert %holds, "too large"
      %two = arith.constant 2 : i32
      %h = arith.divsi %v, %two : i32
      memref.store %h, %y[%i] : memref<8xi32>
      return
    }
  }
}
func.func @f(%a: tensor<8xi32>, %limit: i32) -> tensor<8xi32> {
  %c8 = arith.constant 8 : index
  %r = flow.dispatch @e::@halve[%c8](%a, %limit) : (tensor<8xi32>, i32) -> tensor<8xi32>
  return %r : tensor<8xi32>
}
"""


@pytest.mark.parametrize("device", ["vulkan", "cuda", "webgpu"])
def test_kernels_of_mlir(device: str) -> None:
    """A result that is no argument comes after the number."""
    f = pd.device(DEVICES[device]).load(pd.compile(MLIR, targets=device)).f
    a = np.arange(8, dtype=np.int32) * 10
    np.testing.assert_array_equal(np.asarray(f(a, 100)), a // 2)
    line = MLIR.splitlines().index('      cf.assert %holds, "too large"') + 1
    with pytest.raises(pd.InvalidArgumentError, match=f"too large .<text>:{line}:"):
        f(a, 70)
