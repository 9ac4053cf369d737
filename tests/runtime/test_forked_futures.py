"""The child of a fork: futures of the parent are cancelled, and no lock of another thread of the parent holds it up."""

from __future__ import annotations

import concurrent.futures as cf
import importlib
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from pydispatch._core.future import CallFuture
from pydispatch._core.process_lock import process_lock
from test_accelerator_calls import TWICE, X, in_child

import pydispatch as pd
from pydispatch.runtime.program import checks

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")

LOCKS = {
    "cpu": ("runtime.devices.cpu", "_opening", lambda: pd.device("cpu?workers=3")),
    "vulkan": ("runtime.devices.vulkan.device", "_opening", lambda: pd.device("vulkan:0")),
    "vulkan instance": ("runtime.devices.vulkan.instance", "_lock", lambda: pd.device("vulkan:0")),
    "webgpu": ("runtime.devices.webgpu.device", "_opening", lambda: pd.device("webgpu:0")),
    "webgpu adapters": ("runtime.devices.webgpu.adapters", "_discovering", lambda: pd.device("webgpu:0")),
}
"""Module and name of a lock → what takes it."""


@contextmanager
def held(lock: Any) -> Iterator[None]:
    """Another thread holds the lock."""
    taken, over = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            taken.set()
            assert over.wait(120)

    thread = threading.Thread(target=hold)
    thread.start()
    assert taken.wait(60)
    yield
    over.set()
    thread.join()


@pytest.mark.parametrize("name", LOCKS)
def test_devices_are_opened_while_a_thread_of_the_parent_opened_one(name: str) -> None:
    module, lock, opened = LOCKS[name]
    with held(getattr(importlib.import_module(f"pydispatch.{module}"), lock)):
        assert in_child(opened) == "right"


def test_a_call_while_a_thread_of_the_parent_called() -> None:
    device = pd.device("ptx-interpreter")
    program = device.load(pd.compile(TWICE, targets="cuda"))

    def check() -> None:
        np.testing.assert_array_equal(np.asarray(program.twice(X)), 2 * X)

    with held(device._context.lock):
        assert in_child(check) == "right"


def test_a_callback_of_a_cancelled_future_submits_a_call() -> None:
    """The thread that the parent calls from is forgotten before the callbacks of its futures run."""
    device = pd.device("ptx-interpreter")
    program = device.load(pd.compile(TWICE, targets="cuda"))
    submitted: list[Any] = []
    with held(device._context.lock):
        future = program.twice.submit(X)
        future.add_done_callback(lambda _: submitted.append(program.twice.submit(X)))

        def check() -> None:
            assert future.cancelled()
            np.testing.assert_array_equal(np.asarray(submitted[0].result(60)), 2 * X)

        assert in_child(check) == "right"
    np.testing.assert_array_equal(np.asarray(future.result(60)), 2 * X)


def test_a_gpu_of_the_parent_is_refused_while_a_thread_uploaded_weights() -> None:
    program = pd.device("vulkan:0").load(pd.compile(CONSTANT, targets="vulkan"))
    with held(program._executor._uploading):
        assert in_child(lambda: program.scaled(X)).startswith("DeviceUnavailableError: vulkan:0 was opened before")


CONSTANT = """
func.func @scaled(%a: tensor<6xf32>) -> tensor<6xf32> {
  %c = arith.constant dense<[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]> : tensor<6xf32>
  %b = arith.mulf %a, %c : tensor<6xf32>
  return %b : tensor<6xf32>
}
"""


CHECKED = """
func.func @same(%a: tensor<6xf32>, %b: tensor<6xf32>) -> tensor<6xf32> {
  check.expect_almost_eq(%a, %b) : tensor<6xf32>
  return %a : tensor<6xf32>
}
"""


def test_results_while_a_thread_of_the_parent_takes_one(monkeypatch: pytest.MonkeyPatch) -> None:
    program = pd.device("cpu").load(pd.compile(CHECKED, targets="cpu"))
    verify, entered, over = checks.verify, threading.Event(), threading.Event()

    def waiting(*args: Any) -> None:
        entered.set()
        assert over.wait(120)
        verify(*args)

    monkeypatch.setattr(checks, "verify", waiting)
    future = program.same.submit(X, X)
    thread = threading.Thread(target=future.result)
    thread.start()
    assert entered.wait(60)
    monkeypatch.undo()

    def check() -> None:
        np.testing.assert_array_equal(program.same.submit(X, X).result(30), X)
        with pytest.raises(cf.CancelledError):  # the thread that has the result does not exist here
            future.result(30)

    assert in_child(check) == "right"
    over.set()
    thread.join()
    np.testing.assert_array_equal(future.result(), X)


def test_a_lock_that_the_forking_thread_holds_stays_its_own() -> None:
    lock = process_lock()

    def check() -> None:
        with pytest.raises(RuntimeError):  # once more than it was acquired
            lock.release()
            lock.release()

    with lock:
        assert in_child(check) == "right"


def test_calls_with_state_of_the_parent_are_not_made() -> None:
    """The second one waits for the submission of the first one only."""
    program = pd.device("cpu").load(pd.compile(COUNTER, targets="cpu"))
    waiting = [program.advance.submit(argument) for argument in (cf.Future[Any](), 0, 0, 0)]

    def check() -> None:
        assert all(future.cancelled() for future in waiting)
        assert program.advance.submit(5).result(10) == 5

    for _ in range(10):
        assert in_child(check) == "right"
    assert not any(future.done() for future in waiting)


COUNTER = """
util.global private mutable @count = 0 : i64
func.func @advance(%n: i64) -> i64 {
  %old = util.global.load @count : i64
  %one = arith.constant 1 : i64
  %new = arith.addi %old, %one : i64
  util.global.store %new, @count : i64
  %sum = arith.addi %old, %n : i64
  return %sum : i64
}
"""


class Running:
    """The task of a call that does not end in the child."""

    def call_when_done(self, function: Any) -> bool:
        return True

    def done(self) -> bool:
        return False

    cancelled = done


def test_futures_of_all_kinds_are_cancelled() -> None:
    program = pd.device("cpu").load(pd.compile(TWICE, targets="cpu"))
    argument, running = cf.Future[Any](), CallFuture(Running())  # type: ignore[arg-type]
    deferred = program.twice.submit(argument)
    futures = [running, deferred, program.twice.submit_many([X, argument]), program.twice.submit(deferred)]
    ended: list[Any] = []
    for future in futures:
        future.add_done_callback(ended.append)
    cancelled = program.twice.submit(cf.Future[Any]())
    assert cancelled.cancel()
    finished = program.twice.submit(X)
    assert cf.wait([finished], timeout=60).done

    def check() -> None:
        assert cf.wait([*futures, cancelled], timeout=10).done == {*futures, cancelled}
        assert all(cf.Future.cancelled(future) for future in futures) and set(ended) == set(futures)
        for future in futures[1:]:
            with pytest.raises(cf.CancelledError):
                future.result(10)
        argument.set_result(X)  # no call of the parent is submitted
        np.testing.assert_array_equal(finished.result(10), 2 * X)
        np.testing.assert_array_equal(program.twice.submit(X).result(10), 2 * X)

    for _ in range(10):  # the futures are cancelled in an order of their own
        assert in_child(check) == "right"
    assert not ended
    argument.set_result(X)
    for future, expected in zip(futures[1:], (2 * X, [2 * X, 2 * X], 4 * X), strict=True):
        np.testing.assert_array_equal(future.result(60), expected)
