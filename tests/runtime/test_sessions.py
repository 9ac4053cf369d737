"""Sessions on every device: own globals, shared code and weights."""

from __future__ import annotations

import concurrent.futures as cf
import functools
import gc
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from pydispatch._core.future import DeferredFuture

import pydispatch as pd

COUNTER = """
util.global private mutable @total = dense<1.0> : tensor<4xf32>
util.global private @step : tensor<4xf32>
util.initializer {
  %c = arith.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  %s = arith.mulf %c, %c : tensor<4xf32>
  util.global.store %s, @step : tensor<4xf32>
  util.return
}
func.func @advance(%x: tensor<4xf32>) -> tensor<4xf32> {
  %old = util.global.load @total : tensor<4xf32>
  %step = util.global.load @step : tensor<4xf32>
  %a = arith.addf %old, %step : tensor<4xf32>
  %new = arith.addf %a, %x : tensor<4xf32>
  util.global.store %new, @total : tensor<4xf32>
  return %new : tensor<4xf32>
}
func.func @plain(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = arith.addf %x, %x : tensor<4xf32>
  return %y : tensor<4xf32>
}
"""
SQUARES = np.float32([1, 4, 9, 16])


DEVICES = {"cpu": "cpu", "vulkan:0": "vulkan", "webgpu:0": "webgpu", "ptx-interpreter": "cuda"}


@functools.cache
def compiled(target: str) -> Any:
    return pd.compile(COUNTER, targets=target)


@pytest.fixture(params=DEVICES)
def counter(request: pytest.FixtureRequest) -> Any:
    """The program on each device in turn."""
    return pd.device(request.param).load(compiled(DEVICES[request.param]))


def test_globals_of_sessions_are_their_own(counter: Any) -> None:
    x = np.float32([1, 0, 0, 2])
    np.testing.assert_array_equal(counter.advance(x), 1 + SQUARES + x)
    first, second = counter.session(), counter.session()
    np.testing.assert_array_equal(first.advance(x), 1 + SQUARES + x)
    np.testing.assert_array_equal(first.advance(x), 1 + 2 * (SQUARES + x))
    np.testing.assert_array_equal(second.advance(x), 1 + SQUARES + x)
    np.testing.assert_array_equal(counter.advance(x), 1 + 2 * (SQUARES + x))
    np.testing.assert_array_equal(second.session().advance(x), 1 + SQUARES + x)
    np.testing.assert_array_equal(first.plain(x), 2 * x)
    assert list(first.functions) == list(counter.functions)


def test_calls_with_state_keep_their_order_where_an_argument_is_a_future(counter: Any) -> None:
    x, argument = np.float32([1, 0, 0, 2]), cf.Future[Any]()
    first, second = counter.advance.submit(argument), counter.advance.submit(x)
    # Calls of another session, and calls without state, do not wait.
    np.testing.assert_array_equal(counter.session().advance.submit(x).result(60), 1 + SQUARES + x)
    np.testing.assert_array_equal(counter.plain.submit(x).result(60), 2 * x)
    assert not first.done() and not second.done()
    argument.set_result(8 * x)
    np.testing.assert_array_equal(first.result(60), 1 + SQUARES + 8 * x)
    np.testing.assert_array_equal(second.result(60), 1 + 2 * SQUARES + 9 * x)


def test_calls_after_one_whose_argument_fails(counter: Any) -> None:
    """There are so many that they would exceed the recursion limit if one submitted the next."""
    x, argument = np.zeros(4, np.float32), cf.Future[Any]()
    failing = counter.advance.submit(argument)
    later = [counter.advance.submit(x) for _ in range(2000)]
    argument.set_exception(ValueError("no argument"))
    with pytest.raises(ValueError, match="no argument"):
        failing.result(60)
    for n, future in enumerate(later[:20], 1):
        np.testing.assert_array_equal(future.result(60), 1 + n * SQUARES)
    np.testing.assert_array_equal(later[-1].result(60), 1 + 2000 * SQUARES)


def test_cancelled_calls_whose_arguments_are_futures_do_not_run(counter: Any) -> None:
    x, argument = np.zeros(4, np.float32), cf.Future[Any]()
    cancelled, later = counter.advance.submit(argument), counter.advance.submit(x)
    assert cancelled.cancel()
    argument.set_result(x)
    np.testing.assert_array_equal(later.result(60), 1 + SQUARES)
    assert cancelled.cancelled() and cf.wait([cancelled], timeout=60).done
    with pytest.raises(cf.CancelledError):
        cancelled.result(60)


def test_later_calls_go_on_as_soon_as_one_before_them_is_cancelled(counter: Any) -> None:
    """They still wait for the calls before the cancelled one, whose own argument need not end."""
    x, arguments = np.zeros(4, np.float32), [cf.Future[Any]() for _ in range(3)]
    first, *cancelled = (counter.advance.submit(argument) for argument in arguments)
    later = counter.advance.submit(x)
    assert all(future.cancel() for future in reversed(cancelled)) and not later.done()
    assert cf.wait(cancelled, timeout=0).done == set(cancelled)
    arguments[0].set_result(x)
    np.testing.assert_array_equal(first.result(60), 1 + SQUARES)
    np.testing.assert_array_equal(later.result(60), 1 + 2 * SQUARES)
    alone = counter.advance.submit(cf.Future[Any]())
    later = counter.advance.submit(x)
    assert alone.cancel()
    np.testing.assert_array_equal(later.result(60), 1 + 3 * SQUARES)
    for argument in arguments[1:]:
        argument.set_result(x)
    np.testing.assert_array_equal(counter.advance(x), 1 + 4 * SQUARES)


def test_a_call_is_cancelled_while_it_is_submitted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its argument ends on another thread between two steps of the cancellation."""
    outer, call, cancel = DeferredFuture(), cf.Future[Any](), cf.Future.cancel

    def interleaved(self: Any) -> bool:
        monkeypatch.undo()
        outer.follow(call)
        return cancel(self)

    monkeypatch.setattr(cf.Future, "cancel", interleaved)
    assert outer.cancel() and outer.cancelled() and call.cancelled()


def test_dropped_arguments_hold_no_call_up(counter: Any) -> None:
    x, argument = np.zeros(4, np.float32), cf.Future[Any]()
    future = counter.advance.submit(argument)
    del argument  # it cannot end any more
    gc.collect()
    np.testing.assert_array_equal(counter.advance.submit(x).result(60), 1 + SQUARES)
    assert not future.done()


def test_a_future_holds_no_results_of_later_calls(counter: Any) -> None:
    x, arguments = np.zeros(4, np.float32), [cf.Future[Any]() for _ in range(2)]
    first, later = (counter.advance.submit(argument) for argument in arguments)
    for argument in arguments:
        argument.set_result(x)
    first.result(60)
    result = weakref.ref(later.result(60))
    gc.disable()
    try:
        del later, arguments, argument
        assert result() is None
    finally:
        gc.enable()


def test_a_failed_call_is_freed_with_its_future(counter: Any) -> None:
    argument = cf.Future[Any]()
    failed = counter.advance.submit(argument)
    argument.set_result(np.zeros(4, np.int8))
    error = failed.exception(60)
    assert isinstance(error, pd.InvalidArgumentError) and error.__context__ is None
    future, array = weakref.ref(failed), weakref.ref(argument.result())
    gc.disable()
    try:
        del failed, argument, error
        assert future() is None and array() is None
    finally:
        gc.enable()


def test_items_that_end_with_an_error_make_no_call(counter: Any) -> None:
    x = np.zeros(4, np.float32)

    def items() -> Iterator[Any]:
        yield x
        raise ValueError("no more")

    with pytest.raises(ValueError, match="no more"):
        counter.advance.submit_many(items())
    np.testing.assert_array_equal(counter.advance(x), 1 + SQUARES)


def test_a_session_is_closed_without_its_program(counter: Any) -> None:
    x = np.zeros(4, np.float32)
    session = counter.session()
    session.advance(x)
    session.close()
    np.testing.assert_array_equal(counter.advance(x), 1 + SQUARES)
    other = counter.session()
    counter.close()
    with pytest.raises(pd.Error, match="closed"):
        other.advance(x)
    with pytest.raises(pd.Error, match="closed"):
        counter.session()


@pytest.mark.parametrize("device", DEVICES)
def test_a_session_outlives_the_name_of_its_program(device: str) -> None:
    session = pd.device(device).load(compiled(DEVICES[device])).session()
    gc.collect()
    x = np.zeros(4, np.float32)
    np.testing.assert_array_equal(session.advance(x), 1 + SQUARES)
    advance = session.advance
    del session
    gc.collect()
    np.testing.assert_array_equal(advance(x), 1 + 2 * SQUARES)


def test_sessions_of_several_threads(counter: Any) -> None:
    x, results = np.zeros(4, np.float32), {}

    def run(index: int) -> None:
        session = counter.session()
        for _ in range(index):
            results[index] = np.array(session.advance(x))

    threads = [threading.Thread(target=run, args=(index,)) for index in range(1, 6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for index in range(1, 6):
        np.testing.assert_array_equal(results[index], 1 + index * SQUARES)
