"""Buffers of a device: content, lifetime, reuse, and calls on them."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest
from vulkan_programs import MUL, PUSH, binary, buffers, export, source

import pydispatch as pd
from pydispatch.runtime.devices.vulkan.context import Context
from pydispatch.runtime.devices.vulkan.instance import instance


@pytest.fixture
def program(device: Any, glsl: Any) -> Any:
    spv = glsl("mul", buffers("-a", "-b", "c") + PUSH + MUL)
    return device.load(
        pd.compile(source([str(spv)], export("mul", 0, 1, ("in", "in", "out")), binary("mul")), targets="vulkan")
    )


def test_views_keep_the_memory(device: Any) -> None:
    array = np.asarray(device.upload(np.full(1000, 7, np.uint8)))
    gc.collect()
    for _ in range(20):
        device.upload(np.zeros(1000, np.uint8))
    assert (array == 7).all()


def test_a_buffer_of_another_device_is_copied(program: Any) -> None:
    other = pd.device(
        "vulkan:0?staging=1" if pd.device("vulkan:0")._context is program._device._context else "vulkan:0"
    )
    a = np.arange(10, dtype=np.float32)
    np.testing.assert_array_equal(program.mul(other.upload(a), a), a * a)
    cpu = pd.device("cpu").load(pd.compile("""func.func @f(%a: tensor<?xf32>) -> tensor<?xf32> {
      %b = arith.addf %a, %a : tensor<?xf32>
      return %b : tensor<?xf32>
    }""", targets="cpu"))  # fmt: skip
    np.testing.assert_array_equal(cpu.f(other.upload(a)), a + a)


def test_narrow_elements(device: Any) -> None:
    text = """func.func @f(%a: tensor<7xi4>, %b: tensor<7xi4>) -> tensor<7xi4> {
      %c = arith.addi %a, %b : tensor<7xi4>
      return %c : tensor<7xi4>
    }"""
    f = device.load(pd.compile(text, targets=("cpu", "vulkan"))).f
    ml_dtypes = pytest.importorskip("ml_dtypes")
    a = np.array([1, 2, 3, -4, 5, -6, 7], ml_dtypes.int4)
    y = f(a, a[::-1].copy())
    expected = pd.device("cpu").load(pd.compile(text, targets="cpu")).f(a, a[::-1].copy())
    assert y.nbytes == 4 and y.dtype == ml_dtypes.int4
    np.testing.assert_array_equal(y.download().astype(np.int8), expected.astype(np.int8))
    np.testing.assert_array_equal(f(y, y).download().astype(np.int8), np.asarray(f(expected, expected)).astype(np.int8))


PROCEDURE = """
util.global private mutable @total = dense<0.0> : tensor<4xf32>
func.func @sum_until(%a: tensor<4xf32>, %n: index) -> (tensor<4xf32>, f32) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%s = %a) -> tensor<4xf32> {
    %t = arith.addf %s, %a : tensor<4xf32>
    scf.yield %t : tensor<4xf32>
  }
  %old = util.global.load @total : tensor<4xf32>
  %new = arith.addf %old, %r : tensor<4xf32>
  util.global.store %new, @total : tensor<4xf32>
  %x = tensor.extract %new[%c1] : tensor<4xf32>
  return %new, %x : tensor<4xf32>, f32
}"""


def test_procedures_run_their_pieces_on_the_device(device: Any) -> None:
    f = device.load(pd.compile(PROCEDURE, targets="vulkan")).sum_until
    a = np.arange(4, dtype=np.float32)
    y, x = f(a, 3)
    assert isinstance(y, pd.Buffer) and x == 4.0
    np.testing.assert_array_equal(y, 4 * a)
    y, x = f(y, 1)
    np.testing.assert_array_equal(y, 12 * a)
    assert x == 12.0


class _WithHostHeap:
    """The functions of the loader, which report another heap of 64 GiB that has staging memory only."""

    def __init__(self, lib: Any) -> None:
        self._lib = lib

    def __getattr__(self, name: str) -> Any:
        return self._report if name == "vkGetPhysicalDeviceMemoryProperties" else getattr(self._lib, name)

    def _report(self, physical: Any, properties: Any) -> None:
        self._lib.vkGetPhysicalDeviceMemoryProperties(physical, properties)
        heap, kind = properties.memoryHeapCount, properties.memoryTypeCount
        properties.memoryHeaps[0].size, properties.memoryHeaps[heap].size = 1 << 30, 64 << 30
        properties.memoryTypes[kind].heapIndex = heap
        properties.memoryTypes[kind].propertyFlags = 2 | 4 | 8  # host visible, coherent and cached
        properties.memoryTypes[0].propertyFlags = 1  # device local
        properties.memoryHeapCount, properties.memoryTypeCount = heap + 1, kind + 1


def test_memory_is_limited_by_the_heap_that_it_is_allocated_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vulkan := instance(), "lib", _WithHostHeap(vulkan.lib))
    context = Context(vulkan, vulkan.physical_devices()[0], 0)
    try:
        assert not context.is_mapped
        assert context.heap_bytes == context.pool.limit == 1 << 30
        assert context.staging.limit == 64 << 30
    finally:
        context.close()
