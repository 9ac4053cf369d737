"""Submitted calls: futures, their order, errors, cancelling, coroutines, forks and closed devices.

What runs while a test looks at it waits at a gate: kernels that ask a Python function.
"""

from __future__ import annotations

import asyncio
import concurrent.futures as cf
import gc
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hooked
import numpy as np
import programs
import pytest
from stress import Stress
from test_runtime_reentry import load

import pydispatch as pd
from pydispatch.formats.artifact.artifact import Artifact
from pydispatch.formats.program.program import Opcode, Result

DEVICES = ["cpu?workers=2", "cpu?workers=3", "local-sync"]


def rows(n: int, k: float = 3) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    return np.full(n, k, np.float32), np.full(n, k + 1, np.float32)


def chain(a: Any, b: Any) -> Any:
    return (a * b) * b + a


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> Iterator[Any]:
    with pd.device(request.param) as device:
        yield device


@pytest.fixture
def program(device: Any) -> Any:
    return device.load(programs.standard())


@pytest.fixture(scope="module")
def artifact() -> Artifact:
    return hooked.build()


class Gate:
    """A program whose workgroups wait until `open` is set, and note themselves in `ran`."""

    def __init__(self, artifact: Artifact, name: str) -> None:
        self.entered, self.open, self.ran = threading.Event(), threading.Event(), []
        self.device, self.program = load(artifact, name, self.hook)[:2]

    def hook(self, x: int) -> None:
        self.entered.set()
        assert self.open.wait(60)
        self.ran.append(x)


@pytest.fixture(params=["cpu?workers=2", "local-sync"])
def gate(request: pytest.FixtureRequest, artifact: Artifact) -> Iterator[Gate]:
    gate = Gate(artifact, request.param)
    yield gate
    gate.open.set()
    gate.device.close()


def test_results(program: Any) -> None:
    a, b = rows(8)
    future = program.chain.submit(a, b)
    assert isinstance(future, pd.Future) and isinstance(future, cf.Future)
    np.testing.assert_array_equal(future.result(), chain(a, b))
    assert future.result() is future.result() and future.done() and not future.cancelled() and not future.running()
    assert future.exception() is None and not future.cancel() and "done" in repr(future)
    product, total = program.both.submit(a, b).result(timeout=60)
    np.testing.assert_array_equal(product, a * b)
    np.testing.assert_array_equal(total, a + b)
    assert program.nothing.submit().result() is None
    np.testing.assert_array_equal(program.chain.submit(b=b, a=a, priority="high").result(), chain(a, b))


def test_large_calls_are_shared(program: Any) -> None:
    for _ in range(5):
        a, b = rows(50_000)
        futures = [program.chain.submit(a, b, priority=p) for p in ("low", "normal", "high") for _ in range(4)]
        for future in futures:
            np.testing.assert_array_equal(future.result(60), chain(a, b))


def test_out_and_unusual_arguments(program: Any) -> None:
    a, b = rows(1000)
    out = np.zeros(1000, np.float32)
    assert program.chain.submit(a, b, out=out).result() is out
    np.testing.assert_array_equal(out, chain(a, b))
    assert program.chain.submit(a, b, out=a).result() is a  # overlaps an argument
    np.testing.assert_array_equal(a, chain(*rows(1000)))
    raw = np.zeros(4 * 1000 + 1, np.uint8)[1:].view(np.float32)  # misaligned
    raw[:] = 3
    np.testing.assert_array_equal(program.chain.submit(raw, b).result(), chain(raw, b))
    np.testing.assert_array_equal(program.chain.submit(list_of(a), b).result(), chain(a, b))


def list_of(a: np.ndarray[Any, Any]) -> Any:
    class Interface:
        __array_interface__ = a.__array_interface__
        kept = a

    return Interface()


def test_wrong_arguments_are_refused_at_once(program: Any) -> None:
    a, b = rows(8)
    for call in (
        lambda: program.chain.submit(a),
        lambda: program.chain.submit(a, b.astype(np.float64)),
        lambda: program.chain.submit(a, b, priority="soon"),
        lambda: program.chain.submit(a, b, priority=1),
        lambda: program.chain.submit_many([(a, b), (a,)]),
        lambda: next(program.chain.map([(a, b)], in_flight=0)),
    ):
        with pytest.raises(pd.InvalidArgumentError):
            call()


def test_futures_as_arguments(program: Any) -> None:
    a, b = rows(300)
    value, expected = program.chain.submit(a, b), chain(a, b)
    for _ in range(20):
        value, expected = program.chain.submit(value, b), chain(expected, b)
    np.testing.assert_array_equal(value.result(60), expected)
    both = program.both.submit(a, b)  # a tuple is no argument
    with pytest.raises(pd.InvalidArgumentError):
        program.chain.submit(both, b).result(60)
    plain: cf.Future[Any] = cf.Future()  # anybody's
    after = program.chain.submit(plain, b)
    assert not after.done()
    plain.set_result(a)
    np.testing.assert_array_equal(after.result(60), chain(a, b))
    many = program.chain.submit_many([(program.chain.submit(a, b), b), (a, b)]).result(60)
    np.testing.assert_array_equal(many[0], chain(chain(a, b), b))


def test_blocking_calls_take_the_results_of_futures(program: Any) -> None:
    a, b = rows(8)
    future = program.chain.submit(a, b)
    prepared = program.chain.prepare(a, b)
    for call in (
        lambda: program.chain(future, b),
        lambda: program.chain.prepare(future, b),
        lambda: prepared(future, b),
        lambda: program.filled(8, cf.Future()),
    ):
        with pytest.raises(
            pd.InvalidArgumentError, match=r"got .*Future.*; pass x\.result\(\); only submitted calls take"
        ):
            call()


def last_element(device: Any) -> Any:
    """(tensor<?xf32>) -> tensor<f32> and `filled`, whose second argument is a number."""
    export = programs.Export("last", "buffer(float, 1)[0] = 8 * buffer(float, 0)[constant(0) - 1]; return 0;", 2)
    builder = programs.Builder([export])
    programs.filled(builder, "filled")
    f = builder.function("last", "(tensor<?xf32>) -> tensor<f32>")
    programs.add_vector(f, "a")
    result = f.add_result_buffer(0, f.constant(4))
    f.results.append(Result(programs.F32, (), buffer=result))
    builder.run(f, "last", f.emit(Opcode.DIM, 0, 0), [f.arguments[0].buffer, result], f.constant(1))
    return device.load(builder.artifact())


def test_a_future_for_a_number_is_read_when_its_call_has_run(gate: Gate) -> None:
    program = last_element(gate.device)
    number = program.last.submit(gate.program.ask.submit(1))
    assert gate.entered.wait(60)
    filled = program.filled.submit(3, number)
    many = program.filled.submit_many([(2, number), (1, 5.0)])
    gate.open.set()
    np.testing.assert_array_equal(filled.result(60)[0], np.full(3, 8, np.float32))
    assert [value.tolist() for value, _ in many.result(60)] == [[8, 8], [5]]
    vector = gate.program.ask.submit(2)  # no number
    with pytest.raises(pd.InvalidArgumentError, match="argument 1 'value': expected f32"):
        program.filled.submit(3, vector).result(60)


def test_errors(program: Any) -> None:
    a = np.zeros(9, np.float32)
    future = program.fail.submit(a)
    with pytest.raises(pd.KernelError) as caught:
        future.result(60)
    assert caught.value.export == "fail" and future.exception() is caught.value
    following = program.chain.submit(future, a)  # ends as what it waits for
    assert following.exception(60) is caught.value
    items = [(program.fail, a), (program.mul, a, a)]
    futures = [f.submit(*args) for f, *args in items]
    assert [isinstance(f.exception(), pd.KernelError) for f in futures] == [True, False]


def test_many(program: Any) -> None:
    items = [rows(1 + k % 7, k) for k in range(300)]
    for a, (x, y) in zip(program.chain.submit_many(items).result(60), items, strict=True):
        np.testing.assert_array_equal(a, chain(x, y))
    assert program.chain.submit_many([]).result() == []
    assert program.nothing.submit_many([()] * 3).result(60) == [None] * 3
    pairs = program.both.submit_many(items).result(60)
    np.testing.assert_array_equal(pairs[9][1], items[9][0] + items[9][1])


def test_a_list_is_no_item(program: Any) -> None:
    x, y = rows(2, 0)
    message = "item 1: expected a tuple of arguments, or the only argument, got a list: give a tuple"
    with pytest.raises(pd.InvalidArgumentError, match=message):
        list(program.chain.map([(x, y), [x, y]]))
    with pytest.raises(pd.InvalidArgumentError, match=message):
        program.chain.submit_many([(x, y), [x, y]])
    for outcomes in (
        list(program.chain.map([(x, y), [x, y]], on_error="return")),
        program.chain.submit_many([(x, y), [x, y]], on_error="return").result(60),
    ):
        np.testing.assert_array_equal(outcomes[0], chain(x, y))
        assert isinstance(outcomes[1], pd.InvalidArgumentError) and message in str(outcomes[1])


def test_many_with_failures(device: Any) -> None:
    builder = programs.Builder([programs.Export("fifth", "return X == 4 ? 77 : 0;", 1)])
    f = builder.function("fifth", "(tensor<?xf32>) -> tensor<?xf32>")
    programs.add_vector(f, "a")
    n = f.emit(Opcode.DIM, 0, 0)
    builder.run(f, "fifth", n, [programs.finish_vector(f, n)], grid=n)
    program = device.load(builder.artifact())
    items = [np.zeros(n, np.float32) for n in (3, 9, 2, 7)]
    future = program.fifth.submit_many(items)
    with pytest.raises(pd.KernelError) as caught:
        future.result(60)
    outcomes = caught.value.outcomes  # type: ignore[attr-defined]
    assert [isinstance(value, pd.KernelError) for value in outcomes] == [False, True, False, True]
    assert outcomes[1] is caught.value and len(outcomes[2]) == 2


def test_map(program: Any) -> None:
    taken = 0

    def items() -> Iterator[Any]:
        nonlocal taken
        for k in range(40):
            taken += 1
            yield rows(5, k)

    results = program.chain.map(items(), in_flight=4)
    np.testing.assert_array_equal(next(results), chain(*rows(5, 0)))
    assert taken == 4
    for k, value in enumerate(results, 1):
        np.testing.assert_array_equal(value, chain(*rows(5, k)))
    assert sum(1 for _ in program.nothing.map([()] * 9)) == 9


def test_waiting(gate: Gate) -> None:
    future = gate.program.ask.submit(1)
    assert gate.entered.wait(60)
    assert not future.done() and future.running() and "submitted" in repr(future)
    with pytest.raises(cf.TimeoutError):
        future.result(timeout=0.001)
    with pytest.raises(cf.TimeoutError):
        future.exception(timeout=0)
    for wait in (future.result, future.exception):
        with pytest.raises(pd.InvalidArgumentError, match="timeout: expected a number of seconds, or None"):
            wait(timeout=float("nan"))
    assert cf.wait([future], timeout=0.001).not_done == {future}
    gate.open.set()
    assert cf.wait([future], timeout=60).done == {future}
    assert [f.result().sum() for f in cf.as_completed([future])] == [1]


def test_callbacks(gate: Gate) -> None:
    future, called = gate.program.ask.submit(1), threading.Semaphore(0)
    seen = []

    def note(ended: Any) -> None:
        seen.append(ended)
        called.release()

    future.add_done_callback(note)
    gate.open.set()
    assert called.acquire(timeout=60)
    future.add_done_callback(note)  # when it has ended, at once
    assert seen == [future, future]


def test_cancelling(gate: Gate) -> None:
    running = gate.program.ask.submit(1000)
    assert gate.entered.wait(60)
    waiting = [gate.program.ask.submit(3) for _ in range(5)]
    assert running.cancel() and all(future.cancel() for future in waiting)
    gate.open.set()
    for future in [running, *waiting]:
        with pytest.raises(cf.CancelledError):
            future.result(60)
        assert future.cancelled() and not future.cancel()
    assert len(gate.ran) < 1000
    assert gate.program.ask.submit(3).result(60).sum() == 3


def test_a_long_chain_whose_first_call_does_not_run(gate: Gate) -> None:
    standard, one = gate.device.load(programs.standard()), np.ones(1, np.float32)
    blocker = gate.program.ask.submit(1)
    assert gate.entered.wait(60)
    first = last = standard.chain.submit(blocker, one)
    for _ in range(20000):
        last = standard.chain.submit(last, one)
    assert first.cancel()
    gate.open.set()
    with pytest.raises(cf.CancelledError):
        last.result(60)


def test_a_cancelled_batch(gate: Gate) -> None:
    future = gate.program.ask.submit_many([2] * 500)
    assert gate.entered.wait(60)
    future.cancel()
    gate.open.set()
    with pytest.raises(cf.CancelledError):
        future.result(60)
    assert future.cancelled() and len(gate.ran) < 1000


@pytest.mark.parametrize("on_error", ["raise", "return"])
def test_a_batch_that_is_cancelled_after_its_last_call(gate: Gate, on_error: str) -> None:
    future = gate.program.ask.submit_many([1], on_error=on_error)
    assert gate.entered.wait(60)
    assert future.cancel()
    gate.open.set()
    with pytest.raises(cf.CancelledError) as caught:
        future.result(60)
    assert future.cancelled() and [value.tolist() for value in caught.value.outcomes] == [[1]]  # type: ignore[attr-defined]


@pytest.mark.parametrize("on_error", ["raise", "return"])
def test_a_cancelled_batch_of_calls_with_state(gate: Gate, on_error: str) -> None:
    future = gate.program.ask_state.submit_many([1] * 20, on_error=on_error)
    assert gate.entered.wait(60)
    assert future.cancel() and not future.cancelled()
    gate.open.set()
    with pytest.raises(cf.CancelledError) as caught:
        future.result(60)
    assert future.cancelled() and len(gate.ran) == 1 and not future.cancel()
    assert [type(value) for value in caught.value.outcomes] == [cf.CancelledError] * 20  # type: ignore[attr-defined]
    assert gate.program.total() == 0


def test_order_of_state(gate: Gate) -> None:
    """Calls with state run in the order in which they were submitted, and keep no thread from other calls."""
    gate.open.set()
    futures = [gate.program.ask_state.submit(k) for k in (1, 2, 3)]
    totals = [gate.program.total.submit() for _ in range(2)]
    assert [future.result(60).size for future in futures] == [1, 2, 3]
    assert [future.result(60) for future in totals] == [6, 6]
    assert gate.program.ask_state.submit_many([1, 1]).result(60)[1].size == 1
    assert [len(value) for value in gate.program.ask_state.map([2, 3])] == [2, 3]
    assert gate.program.total() == 13


def test_calls_with_state_do_not_hold_others_up(artifact: Artifact) -> None:
    gate = Gate(artifact, "cpu?workers=2")
    stuck = [gate.program.ask_state.submit(1) for _ in range(4)]
    assert gate.entered.wait(60)
    free = gate.device.load(programs.standard()).chain
    np.testing.assert_array_equal(free.submit(*rows(8)).result(60), chain(*rows(8)))
    # without `result` taking it over: a thread of the pool is there for it
    assert cf.wait([free.submit(*rows(8))], timeout=60).done
    gate.open.set()
    assert [len(future.result(60)) for future in stuck] == [1] * 4
    gate.device.close()


def test_a_cancelled_call_with_state(gate: Gate) -> None:
    first = gate.program.ask_state.submit(1000)
    assert gate.entered.wait(60)
    second = gate.program.ask_state.submit(2)
    first.cancel()
    gate.open.set()
    with pytest.raises(cf.CancelledError):
        first.result(60)
    assert len(second.result(60)) == 2 and gate.program.total() == 2


def test_a_call_is_cancelled_after_its_arguments_have_ended(gate: Gate) -> None:
    argument = cf.Future[Any]()
    call = gate.program.ask_state.submit(argument)
    argument.set_result(1000)
    assert gate.entered.wait(60)
    assert call.cancel()
    gate.open.set()
    with pytest.raises(cf.CancelledError):
        call.result(60)
    assert call.cancelled() and gate.program.total.submit().result(60) == 0  # runs after the call has ended


def test_coroutines(program: Any) -> None:
    a, b = rows(50)

    async def one(k: int) -> Any:
        if k % 3 == 0:
            with pytest.raises(pd.KernelError):
                await program.fail.submit(np.zeros(9, np.float32))
        first = await program.mul.submit(a, b)
        return await program.add.submit(first, b)

    async def main() -> list[Any]:
        return await asyncio.gather(*(one(k) for k in range(60)))

    for value in asyncio.run(main()):
        np.testing.assert_array_equal(value, a * b + b)


def test_a_cancelled_coroutine(gate: Gate) -> None:
    async def main() -> None:
        future = gate.program.ask.submit(1000)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.wrap_future(future), 0.001)
        gate.open.set()
        while not future.done():
            await asyncio.sleep(0)
        assert future.cancelled()

    asyncio.run(main())


def test_dropped_futures(gate: Gate) -> None:
    """A call whose future nobody holds runs to its end, and what it used is let go then."""
    freed = threading.Event()

    class Noted(np.ndarray[Any, Any]):
        def __del__(self) -> None:
            freed.set()

    standard = gate.device.load(programs.standard())
    blocker = gate.program.ask.submit(1)
    assert gate.entered.wait(60)
    out = np.zeros(8, np.float32).view(Noted)
    standard.chain.submit(blocker, np.ones(1, np.float32), out=np.zeros(1, np.float32))
    last = standard.chain.submit(*rows(8), out=out, priority="low")
    del last, out
    gc.collect()
    gate.open.set()
    blocker.result(60)
    for _ in range(6000):
        if freed.wait(0.01):
            break
        standard.chain.submit(*rows(8)).result()
    assert freed.is_set()


def test_closing_a_device(gate: Gate) -> None:
    running = gate.program.ask.submit(2_000_000)
    assert gate.entered.wait(60)
    waiting = [gate.program.ask.submit(5) for _ in range(50)]
    following = gate.program.ask_state.submit(4)
    called = []
    for future in waiting:
        future.add_done_callback(called.append)
    closing = threading.Thread(target=gate.device.close)
    closing.start()
    gate.open.set()
    closing.join(60)
    assert not closing.is_alive()
    ended = [running, following, *waiting]
    assert all(future.done() for future in ended) and len(called) == 50
    assert running.cancelled() and len(gate.ran) < 2_000_000
    assert gate.program.ask.submit(2).result(60).sum() == 2  # it starts again


def test_closing_a_program(program: Any) -> None:
    a, b = rows(20_000)
    futures = [program.chain.submit(a, b) for _ in range(20)]
    program.close()
    for future in futures:
        np.testing.assert_array_equal(future.result(60), chain(a, b))
    with pytest.raises(pd.Error, match="closed"):
        program.chain.submit(a, b)


def test_ctrl_c_while_waiting(gate: Gate) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        future = gate.program.ask.submit(1)
        assert gate.entered.wait(60)
        timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            future.result()
        assert not future.done()  # the call goes on
        gate.open.set()
        assert future.result(60).sum() == 1
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("name", DEVICES)
def test_stress(name: str) -> None:
    with pd.device(name) as device:
        Stress(device, threads=5, rounds=60, disturbances=4).run()


CHILD = r"""
import os
import numpy as np, programs, pydispatch as pd
program = pd.device("cpu?workers=2").load(programs.standard())
a, b = (np.full(200_000, k, np.float32) for k in (3, 4))
futures = [program.chain.submit(a, b) for _ in range(8)]
pid = os.fork()
if pid == 0:
    for f in futures:
        try:
            f.result()
        except pd.Error:
            os._exit(2)
        except BaseException as error:
            if type(error).__name__ != "CancelledError":
                os._exit(3)
    fresh = program.chain.submit(a, b).result(60)
    os._exit(0 if (fresh == (a * b) * b + a).all() else 4)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
for f in futures:
    assert (f.result() == (a * b) * b + a).all()
program.chain.submit(a, b)  # the interpreter ends while it runs
print("ended")
"""


def test_fork_and_the_end_of_the_interpreter() -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    for _ in range(3):
        done = subprocess.run(
            [sys.executable, "-c", CHILD], env=environment, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0 and done.stdout == "ended\n", done.stderr
