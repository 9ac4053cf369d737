"""priority= and workers= of calls on devices that run plans by themselves: the same as on the CPU."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from typing import Any

import numpy as np
import pytest

import pydispatch as pd
from pydispatch.runtime.accelerators.submit import CallThread

DEVICES = {"vulkan:0": "vulkan", "webgpu:0": "webgpu", "ptx-interpreter": "cuda", "cpu": "cpu"}
X = np.arange(6, dtype=np.float32)
TEXT = """
util.global private mutable @total = dense<0.0> : tensor<6xf32>
func.func @twice(%a: tensor<6xf32>) -> tensor<6xf32> {
  %b = arith.addf %a, %a : tensor<6xf32>
  return %b : tensor<6xf32>
}
func.func @shifted(%a: tensor<6xf32>) -> tensor<6xf32> {
  %old = util.global.load @total : tensor<6xf32>
  %double = arith.addf %old, %old : tensor<6xf32>
  %new = arith.addf %double, %a : tensor<6xf32>
  util.global.store %new, @total : tensor<6xf32>
  return %new : tensor<6xf32>
}
"""


@pytest.fixture(scope="module")
def artifact() -> Any:
    return pd.compile(TEXT, targets=tuple(DEVICES.values()))


def test_calls_that_wait_begin_by_priority() -> None:
    thread, gate, begun = CallThread(), threading.Event(), threading.Event()
    order: list[str] = []

    def block() -> None:
        begun.set()
        assert gate.wait(60)

    thread.submit(block, (), {})
    assert begun.wait(60)
    made = [thread.submit(order.append, (f"{rank}{number}",), {}, rank) for number in range(3) for rank in (2, 1, 0)]
    cancelled = thread.submit(order.append, ("cancelled",), {}, 0)
    assert cancelled.cancel()
    gate.set()
    for future in made:
        future.result(60)
    assert order == ["00", "01", "02", "10", "11", "12", "20", "21", "22"]


def test_a_callback_that_ends_its_thread_does_not_stop_later_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    thread, gate, ended = CallThread(), threading.Event(), list[Any]()
    monkeypatch.setattr(threading, "excepthook", ended.append)
    future = thread.submit(gate.wait, (60,), {})
    future.add_done_callback(lambda _: sys.exit(3))
    gate.set()
    assert future.result(60) and thread.submit(lambda: 1, (), {}).result(60) == 1
    assert [args.exc_type for args in ended] == [SystemExit]


def test_the_thread_ends_after_the_calls_that_were_submitted() -> None:
    thread = CallThread()
    made = [thread.submit(lambda n: n, (n,), {}, n % 3) for n in range(20)]
    last = weakref.ref(thread)
    del thread
    gc.collect()
    assert last() is None
    assert [future.result(60) for future in made] == list(range(20))


@pytest.mark.parametrize("name", DEVICES)
def test_every_device_takes_them(name: str, artifact: Any) -> None:
    twice = pd.device(name).load(artifact).twice
    for made in (
        twice(X, workers=1),
        twice.prepare(X, workers=2)(),
        twice.submit(X, priority="high", workers=1024).result(),
        twice.submit(twice.submit(X * 0.5, priority="low"), priority="low").result(),
        twice.submit_many([X], priority="high", workers=1).result()[0],
        next(iter(twice.map([X], workers=1))),
    ):
        np.testing.assert_array_equal(np.asarray(made), 2 * X)


@pytest.mark.parametrize("name", DEVICES)
def test_state_keeps_its_order(name: str, artifact: Any) -> None:
    shifted = pd.device(name).load(artifact).shifted
    calls = [shifted.submit(X + n, priority=("low", "normal", "high")[n % 3], workers=1) for n in range(9)]
    expected = np.zeros_like(X)
    for n, call in enumerate(calls):
        expected = 2 * expected + X + n
        np.testing.assert_array_equal(np.asarray(call.result()), expected)
    np.testing.assert_array_equal(np.asarray(shifted(X, workers=3)), 2 * expected + X)
    np.testing.assert_array_equal(np.asarray(shifted.prepare(X, workers=3)()), 4 * expected + 3 * X)


@pytest.mark.parametrize("name", DEVICES)
def test_what_is_refused(name: str, artifact: Any) -> None:
    program = pd.device(name).load(artifact)
    for f in (program.twice, program.shifted):
        for wrong in ("soon", 1):
            with pytest.raises(pd.InvalidArgumentError, match="priority: expected 'high', 'normal' or 'low', got"):
                f.submit(X, priority=wrong)
        for call in (f, f.prepare, f.submit):
            with pytest.raises(pd.InvalidArgumentError, match=r"workers: expected a number from 1 to 1024, got 0"):
                call(X, workers=0)
