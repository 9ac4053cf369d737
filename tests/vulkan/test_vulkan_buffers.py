"""Buffers of a device: content, lifetime, reuse, and calls on them."""

from __future__ import annotations

import gc
import threading
from typing import Any

import numpy as np
import pytest
from vulkan_programs import MUL, PUSH, binary, buffers, export, source

import pydispatch as pd


@pytest.fixture
def program(device: Any, glsl: Any) -> Any:
    spv = glsl("mul", buffers("-a", "-b", "c") + PUSH + MUL)
    return device.load(
        pd.compile(source([str(spv)], export("mul", 0, 1, ("in", "in", "out")), binary("mul")), targets="vulkan")
    )


def test_upload_download_map(device: Any) -> None:
    a = np.arange(12, dtype=np.int16).reshape(3, 4)
    buffer = device.upload(a)
    assert (buffer.shape, buffer.dtype, buffer.nbytes, buffer.ndim, buffer.size, len(buffer)) == (
        (3, 4),
        a.dtype,
        24,
        2,
        12,
        3,
    )
    np.testing.assert_array_equal(buffer.download(), a)
    np.testing.assert_array_equal(np.asarray(buffer, np.float64), a.astype(np.float64))
    np.testing.assert_array_equal(np.from_dlpack(buffer), a)
    assert buffer[1, 2] == 6 and buffer.tolist() == a.tolist() and "3x4xi16 on vulkan:0" in repr(buffer)
    with buffer.map() as content:
        content[0, 0] = 99
    assert buffer.download()[0, 0] == 99
    buffer.upload(a + 1)
    np.testing.assert_array_equal(buffer, a + 1)
    with pytest.raises(
        pd.InvalidArgumentError, match=r"upload: expected a int16 array of shape \(3, 4\), got int16 \(4, 3\)"
    ):
        buffer.upload(a.T)
    with pytest.raises(pd.InvalidArgumentError, match="download: out: expected"):
        buffer.download(np.empty((3, 4)))
    assert device.empty((0, 5), np.float32).download().shape == (0, 5)


def test_views_keep_the_memory(device: Any) -> None:
    array = np.asarray(device.upload(np.full(1000, 7, np.uint8)))
    gc.collect()
    for _ in range(20):
        device.upload(np.zeros(1000, np.uint8))
    assert (array == 7).all()


def test_results_feed_calls_and_memory_is_used_again(device: Any, program: Any) -> None:
    a = np.linspace(0.5, 1.5, 500, dtype=np.float32)
    y = device.upload(a)
    b = device.upload(np.full(500, 1.01, np.float32))
    expected = a.copy()
    gc.collect()
    for _ in range(50):
        y = program.mul(y, b)
        expected = expected * np.float32(1.01)
    np.testing.assert_array_equal(y.download(), expected)
    live = device.memory()["live_blocks"]
    for _ in range(50):
        y = program.mul(y, b)
    assert device.memory()["live_blocks"] <= live + 1
    device.trim()
    np.testing.assert_array_equal(program.mul(b, b).download(), (np.full(500, 1.01, np.float32)) ** 2)


def test_out_and_prepare(device: Any, program: Any) -> None:
    a, b = np.arange(64, dtype=np.float32), np.full(64, 2, np.float32)
    out, array = device.empty(64), np.zeros(64, np.float32)
    assert program.mul(a, b, out=out) is out and (out.download() == 2 * a).all()
    assert program.mul(a, b, out=array) is array and (array == 2 * a).all()
    first = device.upload(a)
    assert program.mul(first, b, out=first) is first and (first.download() == 2 * a).all()  # overlaps an argument
    call = program.mul.prepare(a, b)
    y = call()
    a[:] = 5
    assert call() is y and (y.download() == 10).all()
    np.testing.assert_array_equal(call(b, b), b * b)
    with pytest.raises(pd.InvalidArgumentError, match="other shapes"):
        call(a[:5], b[:5])
    for wrong in (np.zeros(63, np.float32), device.empty(64, np.int32), [1]):
        with pytest.raises(pd.InvalidArgumentError, match="out 0: expected"):
            program.mul(a, b, out=wrong)


def test_arguments_that_do_not_fit(device: Any, program: Any) -> None:
    a = np.zeros(8, np.float32)
    with pytest.raises(pd.InvalidArgumentError, match=r"argument 1 'b': expected \?xf32, got a buffer of 8xi32"):
        program.mul(a, device.empty(8, np.int32))
    with pytest.raises(pd.InvalidArgumentError, match=r"got a buffer of 2x4xf32"):
        program.mul(device.empty((2, 4)), a)
    with pytest.raises(pd.InvalidArgumentError, match="float64 array"):
        program.mul(a, np.zeros(8))
    with pytest.raises(pd.InvalidArgumentError):
        program.mul(a)
    with pytest.raises(pd.InvalidArgumentError, match="expected an array of numbers"):
        device.upload(np.array(["text"]))


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


def test_threads_share_a_function(program: Any) -> None:
    wrong: list[int] = []

    def work(seed: int) -> None:
        a = np.random.default_rng(seed).random(200 + seed, np.float32)
        for _ in range(40):
            if not (np.asarray(program.mul(a, a)) == a * a).all():
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


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
