"""Calls on every device: buffers and arrays, memory of the caller, prepared calls, threads, and closed devices."""

from __future__ import annotations

import gc
import threading
from typing import Any

import numpy as np
import pytest
from device_table import DEVICES, Device, name_of

import pydispatch as pd


def given(*sizes: int) -> Any:
    return np.random.default_rng(sum(sizes)).standard_normal(sizes, dtype=np.float32)


def test_content(row: Device, device: Any) -> None:
    a = np.arange(15, dtype=np.int16).reshape(3, 5)
    buffer = device.upload(a)
    facts = buffer.shape, buffer.dtype, buffer.nbytes, buffer.ndim, buffer.size, len(buffer)
    assert facts == ((3, 5), a.dtype, 30, 2, 15, 3)
    np.testing.assert_array_equal(buffer.download(), a)
    np.testing.assert_array_equal(np.asarray(buffer, np.float64), a.astype(np.float64))
    if not row.is_fake:  # memory of a GPU, which NumPy does not take
        np.testing.assert_array_equal(np.from_dlpack(buffer), a)
    assert buffer[1, 2] == 7 and buffer.tolist() == a.tolist() and f"3x5xi16 on {device.name}" in repr(buffer)
    with buffer.map() as content:
        content[0, 0] = 99
    assert buffer.download()[0, 0] == 99
    buffer.upload(a + 1)
    np.testing.assert_array_equal(buffer, a + 1)
    expected = r"upload: expected a int16 array of shape \(3, 5\), got int16 \(5, 3\)"
    with pytest.raises(pd.InvalidArgumentError, match=expected):
        buffer.upload(a.T)
    with pytest.raises(pd.InvalidArgumentError, match="download: out: expected"):
        buffer.download(np.empty((3, 5)))
    with pytest.raises(pd.InvalidArgumentError, match="expected an array of numbers"):
        device.upload(np.array(["text"]))
    assert device.empty((0, 5), np.float32).download().shape == (0, 5)


def test_arrays_and_buffers(row: Device, device: Any, program: Any) -> None:
    f = program.mixed
    a, b = given(2, 1000)
    expected = b * (a * b)
    y = f(a, b)
    assert isinstance(y, pd.Buffer) and y.device == device.name
    np.testing.assert_array_equal(y, expected)
    left, right = device.upload(a), device.upload(b)
    np.testing.assert_array_equal(f(left, b), expected)
    np.testing.assert_array_equal(f(left, right), expected)
    np.testing.assert_array_equal(right, b)  # the last dispatch is in place, on a copy
    np.testing.assert_array_equal(f(f(a, b), right), b * (expected * b))
    np.testing.assert_array_equal(f(pd.device(row.device).upload(a), right), expected)


def test_sessions(program: Any) -> None:
    a, b = given(2, 1000)
    session = program.session()
    assert type(session) is type(program) and list(session.functions) == list(program.functions)
    np.testing.assert_array_equal(session.mixed(a, b), b * (a * b))


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


def test_a_function_without_results_has_an_empty_tuple_of_outputs(row: Device, device: Any) -> None:
    nothing = device.load(pd.compile("func.func @nothing(%a: i32) { return }", targets=row.target)).nothing
    assert nothing(1) is None and nothing(1, out=()) is None
    with pytest.raises(pd.InvalidArgumentError, match="expected 0 buffers, got 1"):
        nothing(1, out=np.zeros(1, np.float32))


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
    np.testing.assert_array_equal(np.asarray(call(b, device.upload(b))), b * b)
    with pytest.raises(pd.InvalidArgumentError, match="other shapes"):
        call(a[:5], b[:5])
    assert program.mul.prepare(a, b, out=array)() is array and (array == 10).all()
    for wrong in (np.zeros(63, np.float32), device.empty(64, np.int32), [1]):
        with pytest.raises(pd.InvalidArgumentError, match="out 0: expected"):
            program.mul(a, b, out=wrong)


def test_a_prepared_call_with_new_results_stays_on_the_arguments_of_its_last_run(device: Any, program: Any) -> None:
    a, b = np.arange(64, dtype=np.float32), np.full(64, 2, np.float32)
    call = program.mul.prepare(a, b, fresh=True)
    y = call()
    assert call() is not y and (np.asarray(y) == 2 * a).all()
    np.testing.assert_array_equal(call(a, device.upload(a)), a * a)
    np.testing.assert_array_equal(call(), a * a)
    with pytest.raises(pd.InvalidArgumentError, match="other shapes"):
        call(a[:5], b[:5])
    np.testing.assert_array_equal(call(), a * a)


PROCEDURE = """func.func @repeated(%x: tensor<?xf32>, %n: index) -> tensor<?xf32> {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %sum = scf.for %i = %zero to %n step %one iter_args(%y = %x) -> tensor<?xf32> {
    %z = arith.addf %y, %x : tensor<?xf32>
    scf.yield %z : tensor<?xf32>
  }
  return %sum : tensor<?xf32>
}"""


def test_a_prepared_procedure_stays_on_the_arguments_of_its_last_run(row: Device, device: Any) -> None:
    program = device.load(pd.compile(PROCEDURE, targets=row.target))
    x, y = np.arange(5, dtype=np.float32), np.ones(7, np.float32)
    call = program.repeated.prepare(x, 2)
    np.testing.assert_array_equal(call(), x * 3)
    np.testing.assert_array_equal(call(device.upload(y), 4), y * 5)
    np.testing.assert_array_equal(call(), y * 5)
    np.testing.assert_array_equal(call(n=1, x=y), y * 2)
    with pytest.raises(pd.InvalidArgumentError, match="argument 0 'x'"):
        call(np.zeros((2, 2), np.float32), 3)
    np.testing.assert_array_equal(call(), y * 2)
    for strided in (lambda: call(x[::2], 1), lambda: program.repeated.prepare(x[::2], 1)):
        with pytest.raises(pd.InvalidArgumentError, match="contiguous"):
            strided()


def test_results_feed_calls_and_memory_is_used_again(row: Device, device: Any, program: Any) -> None:
    a = np.linspace(0.5, 1.5, 500, dtype=np.float32)
    y, b = device.upload(a), device.upload(np.full(500, 1.01, np.float32))
    expected = a.copy()
    gc.collect()
    for _ in range(150):  # more than a queue takes
        y = program.mul(y, b)
        expected = expected * np.float32(1.01)
    np.testing.assert_array_equal(y.download(), expected)
    live = device.memory()["live_blocks"]
    for _ in range(50):
        y = program.mul(y, b)
    assert device.memory()["live_blocks"] <= live + 1
    y.download()
    device.trim()
    if row.target != "vulkan":  # which allocates blocks of 32 MiB
        assert device.memory()["free_bytes"] == 0
    np.testing.assert_array_equal(program.mul(b, b).download(), np.full(500, 1.01, np.float32) ** 2)


def test_threads_share_a_function(program: Any) -> None:
    found: list[bool] = []

    def work(seed: int) -> None:
        for n in (10, 200 + seed, 10):
            a, b = np.random.default_rng(seed).standard_normal((2, n), dtype=np.float32)
            call = program.mixed.prepare(a, b)
            found.extend(bool((np.asarray(program.mixed(a, b)) == b * (a * b)).all()) for _ in range(5))
            found.extend(bool((np.asarray(call()) == b * (a * b)).all()) for _ in range(5))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 120


SHARED = ("vulkan:0", "webgpu:0", "webgpu:0?standard=1")
"""Devices that other tests of the process hold: closing one ends it for all."""


@pytest.mark.parametrize("row", [row for row in DEVICES if row.device not in SHARED], ids=name_of, indirect=True)
def test_closed_devices(row: Device, device: Any, artifact_of: Any) -> None:
    artifact = artifact_of(row)
    f = device.load(artifact).mixed
    a, b = given(2, 10)
    y, call = f(a, b), f.prepare(a, b)
    device.close()
    np.testing.assert_array_equal(y.download(), b * (a * b))
    for each in (lambda: f(a, b), lambda: f(y, y), call, lambda: device.empty(3)):
        with pytest.raises(pd.DeviceUnavailableError, match=f"{device.name} was closed"):
            each()
    np.testing.assert_array_equal(pd.device(row.device).load(artifact).mixed(a, b), b * (a * b))


def test_functions_of_the_process_are_refused(device: Any) -> None:
    with pytest.raises(pd.DeviceUnavailableError, match=f"{device.name} calls no functions of this process"):
        device.add_import("f", 1)
