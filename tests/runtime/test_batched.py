"""Requests of threads and coroutines in common calls: the bits of single calls, and each its own rows and errors."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import threading
import time
import weakref
from collections.abc import Callable
from typing import Annotated, Any

import ml_dtypes
import numpy as np
import pytest

import pydispatch as pd

DENSE = """
func.func @dense(%x: tensor<?x24xf32>, %w: tensor<24x10xf32>, %b: tensor<10xf32>) -> tensor<?x10xf32> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x24xf32>
  %e = tensor.empty(%n) : tensor<?x10xf32>
  %bias = linalg.broadcast ins(%b : tensor<10xf32>) outs(%e : tensor<?x10xf32>) dimensions = [0]
  %y = linalg.matmul ins(%x, %w : tensor<?x24xf32>, tensor<24x10xf32>)
    outs(%bias : tensor<?x10xf32>) -> tensor<?x10xf32>
  return %y : tensor<?x10xf32>
}
func.func @centered(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x4xf32>
  %zero = arith.constant 0.0 : f32
  %s = tensor.empty() : tensor<4xf32>
  %z = linalg.fill ins(%zero : f32) outs(%s : tensor<4xf32>) -> tensor<4xf32>
  %sum = linalg.reduce ins(%x : tensor<?x4xf32>) outs(%z : tensor<4xf32>) dimensions = [0]
    (%a: f32, %acc: f32) { %r = arith.addf %a, %acc : f32 linalg.yield %r : f32 }
  %e = tensor.empty(%n) : tensor<?x4xf32>
  %sums = linalg.broadcast ins(%sum : tensor<4xf32>) outs(%e : tensor<?x4xf32>) dimensions = [0]
  %y = arith.subf %x, %sums : tensor<?x4xf32>
  return %y : tensor<?x4xf32>
}
func.func @total(%x: tensor<?x4xf32>) -> tensor<4xf32> {
  %zero = arith.constant 0.0 : f32
  %s = tensor.empty() : tensor<4xf32>
  %z = linalg.fill ins(%zero : f32) outs(%s : tensor<4xf32>) -> tensor<4xf32>
  %sum = linalg.reduce ins(%x : tensor<?x4xf32>) outs(%z : tensor<4xf32>) dimensions = [0]
    (%a: f32, %acc: f32) { %r = arith.addf %a, %acc : f32 linalg.yield %r : f32 }
  return %sum : tensor<4xf32>
}
func.func @both(%a: tensor<?xi32>, %b: tensor<?x3xi32>, %k: i32) -> (tensor<?xi32>, tensor<?x3xi32>) {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %a, %c0 : tensor<?xi32>
  %e = tensor.empty(%n) : tensor<?x3xi32>
  %wide = linalg.broadcast ins(%a : tensor<?xi32>) outs(%e : tensor<?x3xi32>) dimensions = [1]
  %ks = tensor.splat %k[%n] : tensor<?xi32>
  %x = arith.muli %a, %ks : tensor<?xi32>
  %y = arith.addi %wide, %b : tensor<?x3xi32>
  return %x, %y : tensor<?xi32>, tensor<?x3xi32>
}
func.func @rows(%x: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %y = arith.addf %x, %x : tensor<?x?xf32>
  return %y : tensor<?x?xf32>
}
func.func @fixed(%x: tensor<4x3xf32>) -> tensor<4x3xf32> {
  %y = arith.addf %x, %x : tensor<4x3xf32>
  return %y : tensor<4x3xf32>
}
func.func @over(%x: tensor<?xf32>, %s: f32) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?xf32>
  %b = tensor.splat %s[%n] : tensor<?xf32>
  %y = arith.divf %x, %b : tensor<?xf32>
  return %y : tensor<?xf32>
}
func.func @single(%x: tensor<1x3xf32>) -> tensor<1x3xf32> {
  %y = arith.addf %x, %x : tensor<1x3xf32>
  return %y : tensor<1x3xf32>
}
func.func @half(%x: tensor<?x3xbf16>) -> tensor<?x3xbf16> {
  %y = arith.addf %x, %x : tensor<?x3xbf16>
  return %y : tensor<?x3xbf16>
}
"""
RNG = np.random.default_rng(5)
W, B = RNG.standard_normal((24, 10)).astype(np.float32), RNG.standard_normal(10).astype(np.float32)
CONSTANTS = {"w": W, "b": B}


@pytest.fixture(scope="module")
def program() -> Any:
    return pd.device("cpu?workers=2").load(pd.compile(DENSE))


def inputs(count: int) -> list[np.ndarray]:
    return [np.random.default_rng(k).standard_normal((1 + k % 3, 24)).astype(np.float32) for k in range(count)]


class Counting:
    """A function that keeps the number of rows of each call, and may fail."""

    def __init__(self, function: Any, fails: Callable[[np.ndarray], bool] = lambda x: False) -> None:
        self._function, self._fails, self.calls = function, fails, []
        self.name, self.inputs, self.outputs = function.name, function.inputs, function.outputs

    def __call__(self, *args: Any) -> Any:
        self.calls.append(len(args[0]))
        if self._fails(args[0]):
            raise pd.KernelError("a row is wrong")
        return self._function(*args)


def test_threads_get_the_bits_of_single_calls(program: Any) -> None:
    counting, found = Counting(program.dense), {}
    with program.dense.batched(32, 0.005, constants=CONSTANTS, caller=counting) as dense:
        checks = len(counting.calls)

        def work(first: int) -> None:
            for k in range(first, 200, 20):
                found[k] = dense(inputs(k + 1)[k])

        threads = [threading.Thread(target=work, args=(i,)) for i in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for k, x in enumerate(inputs(200)):
        assert found[k].tobytes() == program.dense(x, W, B).tobytes()
    calls = counting.calls[checks:]
    assert sum(calls) == sum(map(len, inputs(200))) and max(calls) <= 32
    assert len(calls) < 100, "requests share calls"


def test_coroutines(program: Any) -> None:
    with program.dense.batched(16, 0.001, constants={1: W, "b": B}) as dense:

        async def one(x: np.ndarray) -> Any:
            return await dense.submit(x)

        async def main() -> list[Any]:
            return await asyncio.gather(*map(one, inputs(300)))

        for x, y in zip(inputs(300), asyncio.run(main()), strict=True):
            assert y.tobytes() == program.dense(x, W, B).tobytes()


def test_a_cancelled_coroutine_leaves_the_others(program: Any) -> None:
    with program.dense.batched(16, 0.05, constants=CONSTANTS) as dense:
        x = inputs(1)[0]

        async def main() -> None:
            first, second = dense.submit(x), dense.submit(x)
            waiting = [asyncio.ensure_future(_awaited(r)) for r in (first, first, second)]
            await asyncio.sleep(0)
            waiting[0].cancel()
            assert isinstance((await asyncio.gather(*waiting, return_exceptions=True))[0], asyncio.CancelledError)
            assert waiting[1].result().tobytes() == waiting[2].result().tobytes() == (await first).tobytes()

        asyncio.run(main())


def test_a_task_that_ends_its_loop_leaves_the_others(program: Any) -> None:
    xs = inputs(3)

    async def interrupted(request: Any) -> None:
        await request
        raise KeyboardInterrupt

    with program.dense.batched(3, 60.0, constants=CONSTANTS) as batch:
        loop = asyncio.new_event_loop()
        first = loop.create_task(interrupted(batch.submit(xs[0])))
        others = [loop.create_task(_awaited(batch.submit(x))) for x in xs[1:]]
        with pytest.raises(KeyboardInterrupt):
            loop.run_until_complete(first)
        for other, x in zip(others, xs[1:], strict=True):
            np.testing.assert_array_equal(loop.run_until_complete(other), program.dense(x, W, B))
        with pytest.raises(KeyboardInterrupt):
            first.result()
        loop.close()


async def _awaited(request: Any) -> Any:
    return await request


def test_several_arguments_results_numbers_and_names(program: Any) -> None:
    a, b = np.arange(6, dtype=np.int32), np.arange(18, dtype=np.int32).reshape(6, 3)
    with program.both.batched(8, 0.02) as both:
        requests = [both.submit(a[k : k + 1], k=k % 2, b=b[k : k + 1]) for k in range(6)]
        for k, request in enumerate(requests):
            x, y = request.result()
            np.testing.assert_array_equal(x, a[k : k + 1] * (k % 2))
            np.testing.assert_array_equal(y, a[k] + b[k : k + 1])


def test_requests_of_other_sizes_go_into_calls_of_their_own(program: Any) -> None:
    counting = Counting(program.rows)
    with program.rows.batched(8, 0.02, caller=counting) as rows:
        xs = [np.full((1, 2 + k % 2), k, np.float32) for k in range(8)]
        for x, request in zip(xs, [rows.submit(x) for x in xs], strict=True):
            np.testing.assert_array_equal(request.result(), 2 * x)
    assert counting.calls.count(4) == 2


def test_arrays_may_lie_in_any_order(program: Any) -> None:
    with program.dense.batched(8, 0.01, constants=CONSTANTS) as dense:
        xs = [np.asfortranarray(RNG.standard_normal((3, 24)).astype(np.float32)) for _ in range(3)]
        for given in (xs[:1], xs[1:]):
            for x, request in zip(given, [dense.submit(x) for x in given], strict=True):
                assert request.result().tobytes() == program.dense(np.ascontiguousarray(x), W, B).tobytes()


def test_small_floats(program: Any) -> None:
    with program.half.batched(4) as half:
        x = np.ones((1, 3), ml_dtypes.bfloat16)
        assert half(x).dtype == x.dtype


def test_fixed_batch_sizes_are_filled(program: Any) -> None:
    with program.fixed.batched(64, 0.02) as fixed:
        assert fixed.max_batch == 4
        xs = [np.full((n, 3), n, np.float32) for n in (1, 3, 2, 1, 4)]
        for x, request in zip(xs, [fixed.submit(x) for x in xs], strict=True):
            np.testing.assert_array_equal(request.result(), 2 * x)
        with pytest.raises(pd.InvalidArgumentError, match="5 rows; a request has 1 to 4"):
            fixed(np.zeros((5, 3), np.float32))
    with pytest.raises(pd.InvalidArgumentError, match=r"compiled for a batch of one.*tensor<\?x"):
        program.single.batched()


def test_rows_that_influence_each_other_are_refused(program: Any) -> None:
    with pytest.raises(pd.InvalidArgumentError, match=r"differs from calls of one row.*rows influence each other"):
        program.centered.batched()
    with pytest.raises(pd.InvalidArgumentError, match=r"result 0 has the shape \(4,\)"):
        program.total.batched()


def test_kernels_that_depend_on_the_number_of_rows(program: Any) -> None:
    def slightly(x: np.ndarray, w: np.ndarray, b: np.ndarray) -> Any:
        return program.dense(x, w, b) * np.float32(1 + 1e-6 * (len(x) >= 14))

    counting = Counting(program.dense)
    counting._function = slightly
    with pytest.raises(pd.InvalidArgumentError, match=r"of 15 rows .* pass tolerance="):
        program.dense.batched(32, constants=CONSTANTS, caller=counting)
    program.dense.batched(13, constants=CONSTANTS, caller=counting).close()
    program.dense.batched(32, constants=CONSTANTS, caller=counting, tolerance=1e-5).close()


def test_numbers_that_are_equal_with_other_bits_make_other_calls(program: Any) -> None:
    one = np.ones(1, np.float32)
    for first in (0.0, -0.0):
        with program.over.batched(8, 0.02) as over:
            for request in [over.submit(one + k, first) for k in range(2)]:  # checked: its rows may share calls
                assert abs(request.result()[0]) == np.inf
            requests = [over.submit(one, s) for s in (0.0, -0.0, np.float32(-0.0), 0)]
            assert [request.result()[0] for request in requests] == [np.inf, -np.inf, -np.inf, np.inf]
    with program.over.batched(8) as over, pytest.raises(pd.InvalidArgumentError, match="argument 0 'x'"):
        over.submit(np.array(1, np.float32), 1.0)


def test_memory_of_checks_is_bounded(program: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A number that differs in every request makes a kind of its own each time."""
    monkeypatch.setattr("pydispatch._core.rowwise.KINDS", 4)
    with program.over.batched(2, 0.02) as over:
        for number in range(1, 11):
            ones = [over.submit(np.full(1, k, np.float32), float(number)) for k in (1, 2)]
            assert [request.result()[0] for request in ones] == [1 / np.float32(number), 2 / np.float32(number)]
            assert len(over._stacking._checked) <= 4


def test_a_tolerance_knows_infinities(program: Any) -> None:
    def masked(x: np.ndarray, s: float) -> Any:
        noise = np.float32(1e-6 * (len(x) > 1))
        return np.where(x > 0, np.float32(np.inf), x * (1 + noise))

    counting = Counting(program.over)
    counting._function = masked
    xs = [np.array([k], np.float32) for k in (1, -1, -2, 2)]
    for tolerance, is_accepted in ((1e-5, True), (1e-9, False)):
        with program.over.batched(4, 0.02, caller=counting, tolerance=tolerance) as over:
            requests = [over.submit(x, 1.0) for x in xs]
            assert [request.exception() is None for request in requests] == [is_accepted] * 4
            if not is_accepted:
                assert "pass tolerance=2e-06" in str(requests[0].exception())


def test_what_is_not_known_before_is_checked_with_the_first_requests(program: Any) -> None:
    counting = Counting(program.both)
    counting._function = lambda a, b, k: (a * k + a.sum() - a, a[:, None] + b)
    b = np.ones((1, 3), np.int32)
    rows = [np.array([k], np.int32) for k in range(1, 5)]
    with program.both.batched(4, 1, caller=counting) as both:
        assert not counting.calls
        requests = [both.submit(a, b, 1) for a in rows]
        for request in requests:
            assert isinstance(request.exception(), pd.InvalidArgumentError)
    with pytest.raises(pd.InvalidArgumentError, match="rows influence each other"):
        program.both.batched(4, caller=counting, example=(np.concatenate(rows), np.repeat(b, 4, 0), 1))


def test_a_failing_request_fails_alone(program: Any) -> None:
    counting = Counting(program.dense, lambda x: bool(np.isnan(x).any()))
    with program.dense.batched(8, 1, constants=CONSTANTS, caller=counting) as dense:
        xs = [np.full((1, 24), np.nan if k == 3 else k, np.float32) for k in range(8)]
        requests = [dense.submit(x) for x in xs]
        assert isinstance(requests[3].exception(), pd.KernelError)
        for k, (x, request) in enumerate(zip(xs, requests, strict=True)):
            if k != 3:
                assert request.result().tobytes() == program.dense(x, W, B).tobytes()
    assert counting.calls[-9:] == [8] + [1] * 8


@pytest.mark.parametrize(
    ("args", "named", "text"),
    [
        ((np.zeros((1, 23), np.float32),), {}, r"argument 0 'x': expected float32\[rows, 24\], got float32\[1, 23\]"),
        ((np.zeros((1, 24)),), {}, "expected float32"),
        ((np.zeros(24, np.float32),), {}, r"got float32\[24\]"),
        ((np.zeros((9, 24), np.float32),), {}, "9 rows; a request has 1 to 8"),
        ((np.zeros((0, 24), np.float32),), {}, "0 rows"),
        ((), {}, "a request takes x, without the constants; got none"),
        ((np.zeros((1, 24), np.float32),), {"w": W}, "got one by position and w"),
    ],
)
def test_what_does_not_fit_is_refused_at_the_request(
    program: Any, args: tuple[Any, ...], named: dict[str, Any], text: str
) -> None:
    with program.dense.batched(8, constants=CONSTANTS) as dense, pytest.raises(pd.InvalidArgumentError, match=text):
        dense.submit(*args, **named)


def test_options_are_checked(program: Any) -> None:
    for options, text in (
        ({"max_batch": 0}, "max_batch"),
        ({"max_delay": -1}, "max_delay"),
        ({"tolerance": float("nan")}, "tolerance"),
        ({"constants": {"q": W}}, "got 'q'"),
        ({"constants": 5}, "constants: expected a dict of values .*, got 5"),
        ({"constants": 0}, "constants: expected a dict of values .*, got 0"),
        ({"constants": CONSTANTS, "example": 5}, "example: expected a tuple .*, got 5"),
        ({"constants": {"w": W, 1: W}}, "got 1"),
        ({}, "dimension 0 of its arguments is 10 and 24 and d0"),
    ):
        with pytest.raises(pd.InvalidArgumentError, match=text):
            program.dense.batched(**options)


def test_functions_with_state_are_refused() -> None:
    text = """
    util.global private mutable @n = 0 : i32
    func.func @f(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
      %n = util.global.load @n : i32
      util.global.store %n, @n : i32
      %y = arith.addf %x, %x : tensor<?x4xf32>
      return %y : tensor<?x4xf32>
    }
    """
    with pytest.raises(pd.InvalidArgumentError, match=r"state or checks.*; call it with the rows of several requests"):
        pd.device("cpu").load(pd.compile(text)).f.batched()


@pytest.mark.parametrize("size", [3, 10, 300])
def test_rows_are_sorted(size: int) -> None:
    """The passes of a sort of rows of a static size need no control flow."""

    def f(x: Any) -> Any:
        return np.sort(x, axis=1), np.argsort(x, axis=1, kind="stable"), np.sort(x, axis=1)[:, :2]

    f.__annotations__ = {"x": Annotated[np.ndarray, pd.f32["n", size]]}
    function = pd.device("cpu").load(pd.compile(pd.program(f))).f
    x = RNG.permuted(np.tile(np.arange(-1, size - 1, dtype=np.float32) // 2, (5, 1)), axis=1)
    x[1, ::3], x[2, 1], x[3] = np.nan, -0.0, np.inf
    with function.batched(max_batch=4) as batched:
        requests = [batched.submit(rows) for rows in (x[:1], x[1:3], x[3:4], x[4:])]
        found = zip(*(request.result(timeout=60) for request in requests), strict=True)
        for got, want in zip(found, function(x), strict=True):
            assert np.concatenate(got).tobytes() == want.tobytes()
    np.testing.assert_array_equal(function(x)[1], np.argsort(x, axis=1, kind="stable"))


def test_devices_that_run_plans_by_themselves() -> None:
    text = DENSE[DENSE.index("func.func @rows") : DENSE.index("func.func @fixed")]
    function = pd.device("ptx-interpreter").load(pd.compile(text, targets="cuda")).rows
    with function.batched(8, 0.01) as rows:
        xs = [np.full((1, 3), k, np.float32) for k in range(8)]
        for x, request in zip(xs, [rows.submit(x) for x in xs], strict=True):
            np.testing.assert_array_equal(request.result(), 2 * x)


def test_lifetime(program: Any) -> None:
    dense = program.dense.batched(8, 10, constants=CONSTANTS)
    x = inputs(1)[0]
    request = dense.submit(x)
    with pytest.raises(TimeoutError):
        request.result(timeout=0.01)
    assert not request.done()
    thread = next(t for t in threading.enumerate() if "@dense" in t.name)
    alive = weakref.ref(dense)
    del dense
    gc.collect()
    assert alive() is None
    assert request.result(10).tobytes() == program.dense(x, W, B).tobytes(), "what was asked for is still done"
    thread.join(10)
    assert not thread.is_alive()
    closed = program.dense.batched(constants=CONSTANTS)
    closed.close()
    with pytest.raises(pd.Error, match="closed"):
        closed(x)


def test_one_request_waits_no_longer_than_the_delay(program: Any) -> None:
    with program.dense.batched(64, 0.02, constants=CONSTANTS) as dense:
        dense(inputs(1)[0])
        start = time.perf_counter()
        dense(inputs(1)[0])
        assert 0.01 < time.perf_counter() - start < 5


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_after_fork(program: Any) -> None:
    with program.dense.batched(8, 0.001, constants=CONSTANTS) as dense:
        x = inputs(1)[0]
        wanted = dense(x).tobytes()
        child = os.fork()
        if not child:
            os._exit(0 if dense(x).tobytes() == wanted else 1)
        assert os.waitpid(child, 0)[1] == 0


def test_a_thread_that_the_system_refuses(program: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The request fails; a later one starts the thread."""

    def refused(thread: threading.Thread) -> None:
        monkeypatch.undo()
        raise RuntimeError("can't start new thread")

    x = inputs(1)[0]
    with program.dense.batched(8, 0.001, constants=CONSTANTS) as dense:
        monkeypatch.setattr(threading.Thread, "start", refused)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            dense.submit(x)
        np.testing.assert_array_equal(dense.submit(x).result(60), program.dense(x, W, B))


def test_ctrl_c_while_waiting_for_an_exception(program: Any) -> None:
    leave = threading.Event()

    def held(x: np.ndarray, w: np.ndarray, b: np.ndarray) -> Any:
        assert leave.wait(60)
        return program.dense(x, w, b)

    counting = Counting(program.dense)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with program.dense.batched(2, 0.001, constants=CONSTANTS, caller=counting) as dense:
            counting._function = held
            request = dense.submit(inputs(1)[0])
            timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
            with pytest.raises(KeyboardInterrupt):
                timer.start()
                request.exception()
            leave.set()
            assert request.exception(60) is None
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_requests_of_the_parent_are_cancelled_in_a_child(program: Any) -> None:
    entered, leave = threading.Event(), threading.Event()

    def held(x: np.ndarray, w: np.ndarray, b: np.ndarray) -> Any:
        entered.set()
        assert leave.wait(60)
        return program.dense(x, w, b)

    counting = Counting(program.dense)
    x = inputs(1)[0]
    with program.dense.batched(2, 0.001, constants=CONSTANTS, caller=counting) as dense:
        done = dense.submit(x)
        done.result()
        counting._function = held
        running = dense.submit(x)
        assert entered.wait(60)
        waiting = [dense.submit(x) for _ in range(3)]  # a full batch, and an open one
        child = os.fork()
        if not child:
            ended = [type(request.exception(0)).__name__ for request in (running, *waiting)]
            os._exit(0 if ended == ["CancelledError"] * 4 and done.exception(0) is None else 1)
        assert os.waitpid(child, 0)[1] == 0
        leave.set()
        for request in (running, *waiting):
            np.testing.assert_array_equal(request.result(60), program.dense(x, W, B))
