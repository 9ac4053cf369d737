"""Calls on devices that run plans by themselves: many shapes, forks, and what host commands raise."""

from __future__ import annotations

import gc
import os
import signal
import sys
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pydispatch as pd

DEVICES = {"vulkan:0": "vulkan", "webgpu:0": "webgpu", "ptx-interpreter": "cuda"}
TARGETS = tuple(DEVICES.values())
X = np.arange(6, dtype=np.float32)

TWICE = """
func.func @twice(%a: tensor<?xf32>) -> tensor<?xf32> {
  %b = arith.addf %a, %a : tensor<?xf32>
  return %b : tensor<?xf32>
}
"""
COMMANDS = """
util.func private @note(%x: tensor<6xf32>) -> %x
util.global private mutable @total = dense<0.0> : tensor<6xf32>
func.func @function(%a: tensor<6xf32>) -> tensor<6xf32> {
  %0 = arith.addf %a, %a : tensor<6xf32>
  %1 = util.call @note(%0) : (tensor<6xf32>) -> %0
  return %1 : tensor<6xf32>
}
func.func @procedure(%a: tensor<6xf32>) -> tensor<6xf32> {
  %0 = arith.addf %a, %a : tensor<6xf32>
  %1 = util.call @note(%0) : (tensor<6xf32>) -> %0
  %old = util.global.load @total : tensor<6xf32>
  %new = arith.addf %old, %1 : tensor<6xf32>
  util.global.store %new, @total : tensor<6xf32>
  return %new : tensor<6xf32>
}
"""


@pytest.fixture(scope="module")
def artifact() -> Any:
    return pd.compile(TWICE, targets=TARGETS)


@pytest.fixture(scope="module")
def commands() -> Any:
    return pd.compile(COMMANDS, targets=TARGETS)


@pytest.mark.parametrize("name", DEVICES)
def test_prepared_calls_outlive_plans_of_other_shapes(name: str, artifact: Any) -> None:
    twice = pd.device(name).load(artifact).twice
    calls = [(n, twice.prepare(np.zeros(n, np.float32))) for n in range(1, 6)]
    for n in range(6, 300):
        twice.plan_of(np.zeros(n, np.float32))  # puts the earlier plans out of the cache
    for n, call in calls:
        x = np.arange(n, dtype=np.float32)
        np.testing.assert_array_equal(np.asarray(call(x)), 2 * x)
        with pytest.raises(pd.InvalidArgumentError, match="other shapes"):
            call(np.zeros(n + 1, np.float32))
        np.testing.assert_array_equal(np.asarray(call()), 2 * x)


@pytest.mark.parametrize("name", DEVICES)
def test_an_exception_while_arguments_are_taken(name: str, artifact: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    device = pd.device(name)
    call = device.load(artifact).twice.prepare(X)
    np.testing.assert_array_equal(np.asarray(call()), 2 * X)
    values_of_scalars = call._function._evaluate_scalars

    def interrupted(*args: Any) -> Any:
        monkeypatch.undo()
        raise TimeoutError

    monkeypatch.setattr(call._function, "_evaluate_scalars", interrupted)
    with pytest.raises(TimeoutError):
        call(X + 1)
    assert call._function._evaluate_scalars == values_of_scalars
    np.testing.assert_array_equal(np.asarray(call()), 2 * (X + 1))  # its last arguments, all of them
    np.testing.assert_array_equal(np.asarray(call(X)), 2 * X)


def in_child(check: Callable[[], object], seconds: int = 60) -> str:
    """What a child of a fork says: "right", or its error. It is killed where it hangs."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(seconds)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        text = "right"
        try:
            check()
        except BaseException as error:
            text = f"{type(error).__name__}: {error}"
        os.write(writing, text.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as file:
        said = file.read()
    _, status = os.waitpid(child, 0)
    return said if status == 0 else f"status {status}"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_the_child_of_a_fork_submits_calls(artifact: Any) -> None:
    program = pd.device("ptx-interpreter").load(artifact)
    np.testing.assert_array_equal(np.asarray(program.twice.submit(X).result()), 2 * X)

    def check() -> None:
        future = program.twice.submit(X)
        np.testing.assert_array_equal(np.asarray(future.result(30)), 2 * X)

    assert in_child(check) == "right"
    np.testing.assert_array_equal(np.asarray(program.twice.submit(X).result()), 2 * X)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_pending_calls_of_the_parent_are_cancelled_in_the_child(commands: Any) -> None:
    import threading

    entered, going_on = threading.Event(), threading.Event()

    def note(context: Any, x: Any) -> None:
        entered.set()
        going_on.wait(60)

    device = pd.device("ptx-interpreter")
    device.add_command("note", note, synchronous=True)
    program = device.load(commands)
    futures = [program.function.submit(X) for _ in range(3)]
    entered.wait(60)
    done: list[Any] = []
    futures[2].add_done_callback(done.append)

    def check() -> None:
        assert all(future.cancelled() for future in futures) and done == [futures[2]]

    assert in_child(check) == "right"
    going_on.set()
    for future in futures:
        np.testing.assert_array_equal(np.asarray(future.result(60)), 2 * X)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.parametrize("name", ["vulkan:0", "webgpu:0"])
def test_a_gpu_of_the_parent_is_refused_in_the_child(name: str, artifact: Any) -> None:
    device = pd.device(name)
    program, x = device.load(artifact), device.upload(X)
    y, call = program.twice(x), program.twice.prepare(x)
    call()
    for use in (lambda: program.twice(x), call, lambda: program.twice.submit(X).result(30), lambda: device.upload(X),
                lambda: device.load(artifact)):  # fmt: skip
        assert in_child(use).startswith(f"DeviceUnavailableError: {name} was opened before this process was forked")
    assert in_child(device.close) == in_child(device.trim) == "right"
    assert in_child(lambda: device.__class__ and None) == "right"
    np.testing.assert_array_equal(y.numpy(), 2 * X)
    np.testing.assert_array_equal(np.asarray(program.twice(x)), 2 * X)


class Held:
    """Something that only a frame of a host command refers to."""


@pytest.mark.parametrize("name", ["cpu", *DEVICES])
@pytest.mark.parametrize("entry", ["function", "procedure"])
@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt("now"), LookupError("no key"), MemoryError("none")])
def test_what_a_host_command_raises(name: str, entry: str, error: BaseException, commands: Any) -> None:
    held: list[Any] = []
    wanted: list[BaseException] = [error]

    def note(context: Any, x: Any) -> None:
        mine = Held()
        held.append(weakref.ref(mine))
        if wanted:
            raise wanted.pop()

    device = pd.device(name)
    provider = device.add_command("note", note, **({} if name == "cpu" else {"synchronous": True}))
    artifact = pd.compile(COMMANDS, targets="cpu") if name == "cpu" else commands
    try:
        program = device.load(artifact)
    finally:
        device.remove_plugin(provider)
    call = program[entry]
    for run in (call, lambda x: call.submit(x).result(), call.prepare(X)):
        wanted[:] = [type(error)(*error.args)]
        given = wanted[0]
        try:
            run(X)
        except pd.CommandError as raised:
            assert isinstance(error, Exception) and raised.__cause__ is given and "host command 'note'" in str(raised)
        except BaseException as raised:
            assert raised is given and not isinstance(error, Exception)
        else:
            raise AssertionError("nothing was raised")
        given = None
        gc.collect()
        assert sys.exc_info()[1] is None and held[-1]() is None  # nothing keeps the exception and its frames
        if entry == "function":
            np.testing.assert_array_equal(np.asarray(call(X)), 2 * X)
