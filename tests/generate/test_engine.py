"""The engine on a program in NumPy whose answers depend on every page, position and parameter."""

from __future__ import annotations

import gc
import random
import subprocess
import sys
import threading
import time
import weakref
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any

import pytest
from clock import Clock, gated
from fake_program import VOCABULARY, FakeProgram, expected
from leaks import check_no_leaks, threads

import pydispatch as pd
from pydispatch.generate import Completion, DeadlineError, Engine, EngineStoppedError, QueueFullError
from pydispatch.generate.engine import Statistics

PROMPT = list(range(10))


def request(seed: int) -> tuple[list[int], dict[str, Any]]:
    """Arguments of a request that the seed draws. Prompts have few beginnings, so that pages are shared."""
    draw = random.Random(seed)
    beginning = [draw.randrange(3)] * draw.randrange(20)
    prompt = [*beginning, *(draw.randrange(50) for _ in range(draw.randrange(1, 20)))]
    arguments: dict[str, Any] = {"max_new_tokens": draw.randrange(1, 20)}
    if draw.random() < 0.5:
        arguments |= {
            "temperature": draw.choice([0.5, 1.5]), "top_k": draw.randrange(5), "top_p": draw.choice([0.5, 1.0]),
            "seed": draw.randrange(-5, 1000),
        }  # fmt: skip
    if draw.random() < 0.3:
        arguments["stop"] = tuple(draw.sample(range(97), 8))
    return prompt, arguments


def outcome(handle: Any) -> Any:
    """The completion of a request, or its error."""
    try:
        return handle.result(60)
    except Exception as error:
        return error


FATES = ("answered", "cancelled", "expired", "failed")


@pytest.mark.parametrize("seed", range(3))
def test_200_requests_arrive_are_cancelled_time_out_and_fail(seed: int) -> None:
    """Answers are those of the requests alone; pages are few, so that sequences are preempted."""
    draw = random.Random(seed)
    bad = VOCABULARY - 1  # a prompt or an answer with this token fails
    program, clock = FakeProgram(rows=5, page_count=24, failing=frozenset([bad])), Clock()
    requests: list[tuple[str, list[int], dict[str, Any], Any]] = []
    with Engine(program, clock=clock, max_queue=1000) as engine, gated(program) as gate:
        for index in range(200):
            if index == 40:
                gate.open()  # as many as run at once are waiting
            prompt, arguments = request(1000 * seed + index)
            fate = draw.choice(FATES)
            if fate == "failed":
                prompt[draw.randrange(len(prompt))] = bad
            if fate == "expired":
                arguments["deadline"] = draw.choice([0, 1, 5])
            handle = engine.submit(prompt, **arguments)
            requests.append((fate, prompt, arguments, handle))
            clock.now += draw.choice([0, 0, 0.5])
            if fate == "cancelled" and draw.random() < 0.3:
                handle.cancel()
            if index >= 40 and draw.random() < 0.2:  # let the engine go on, and cancel what runs
                outcome(draw.choice([handle for _, _, _, handle in requests[-8:]]))
                for older_fate, _, _, older in requests[-8:]:
                    if older_fate == "cancelled":
                        older.cancel()
    ends = {fate: 0 for fate in FATES}
    for fate, prompt, arguments, handle in requests:
        arguments.pop("deadline", None)
        answer = expected(prompt, **arguments)
        end = outcome(handle)
        if isinstance(end, Completion):
            assert fate != "failed"
            assert list(end.tokens) == answer == list(handle)
            ends["answered"] += 1
            continue
        ends[fate] += 1
        has_failed = isinstance(end, ValueError) and "a token that fails" in str(end)
        assert has_failed or isinstance(end, {"cancelled": CancelledError, "expired": DeadlineError}[fate])
        assert not has_failed or bad in (*prompt, *answer)
        with pytest.raises(type(end)):
            list(handle)
        assert list(handle.tokens) == answer[: len(handle.tokens)]
    assert all(ends.values()), ends
    assert engine.statistics().preemptions > 0
    check_no_leaks(engine, program)


def test_requests_join_and_leave_between_steps() -> None:
    program = FakeProgram(chunk=4)
    with Engine(program) as engine, gated(program) as gate:
        first = engine.submit(PROMPT, max_new_tokens=20)
        gate.wait()
        gate.let(3)  # three chunks; the first decode waits
        second = engine.submit([3], max_new_tokens=2)
        gate.let(1)  # its only chunk
        assert engine.statistics().running == 2
        gate.let(1)
        assert len(second.tokens) == 1 and len(first.tokens) == 2
        gate.let(2)
        assert second.done() and not first.done()
        gate.open()
        assert list(second.result().tokens) == expected([3], 2)
        assert list(first.result().tokens) == expected(PROMPT, 20)
    check_no_leaks(engine, program)


def test_a_long_prompt_stalls_neither_answers_nor_short_prompts() -> None:
    program = FakeProgram(chunk=4)
    with Engine(program) as engine, gated(program) as gate:
        running = engine.submit([1], max_new_tokens=30)
        gate.wait()
        gate.let(1)
        long = engine.submit([5] * 40, max_new_tokens=1)
        short = engine.submit([7, 8], max_new_tokens=1)
        calls = 1
        while not long.done():
            before = len(running.tokens)
            gate.let(2)  # a chunk and a step
            calls += 1
            assert len(running.tokens) == before + 1 or running.done()
            assert short.done() or calls <= 4
        gate.open()
    assert calls >= 10
    assert list(running.tokens) == expected([1], 30)


def test_a_full_queue() -> None:
    program = FakeProgram(rows=1)
    with Engine(program, max_queue=2) as engine, gated(program) as gate:
        running = engine.submit(PROMPT, max_new_tokens=4)
        gate.wait()
        queued = [engine.submit([token], max_new_tokens=1) for token in (1, 2)]
        with pytest.raises(QueueFullError, match=r"2 requests wait already \(max_queue=2\).*wait=True"):
            engine.submit([3], max_new_tokens=1)
        waiting: list[Any] = []
        thread = threading.Thread(target=lambda: waiting.append(engine.submit([4], max_new_tokens=1, wait=True)))
        thread.start()
        while engine.statistics().waiting < 3:
            time.sleep(0.001)
        assert not waiting
        queued[0].cancel()  # makes room after the call in flight
        gate.let(1)
        thread.join(60)
        assert list(waiting[0].tokens) == []
        gate.open()
        assert list(waiting[0].result().tokens) == expected([4], 1)
        assert list(running.result().tokens) == expected(PROMPT, 4)
    with pytest.raises(CancelledError):
        queued[0].result()
    check_no_leaks(engine, program)


def test_threads_that_submit_at_once_to_a_short_queue() -> None:
    program = FakeProgram()
    answers: dict[int, list[int]] = {}

    def work(engine: Engine[int], first: int) -> None:
        for token in range(first, first + 12):
            answers[token] = list(engine.submit([token], max_new_tokens=3, wait=True))

    with Engine(program, max_queue=2) as engine:
        workers = [threading.Thread(target=work, args=(engine, 12 * index)) for index in range(8)]
        for thread in workers:
            thread.start()
        for thread in workers:
            thread.join(60)
        assert engine._worker._queued == 0 and not engine._worker._overflow
    assert answers == {token: expected([token], 3) for token in range(96)}
    check_no_leaks(engine, program)


def test_cancellation_ends_the_iteration_at_once_and_frees_the_pages() -> None:
    program = FakeProgram()
    with Engine(program) as engine, gated(program) as gate:
        handle, other = engine.submit(PROMPT, max_new_tokens=30), engine.submit([2], max_new_tokens=30)
        gate.wait()
        gate.let(4)
        tokens = iter(handle)
        assert next(tokens) == expected(PROMPT, 1)[0]
        assert handle.cancel() and handle.cancelled() and not handle.cancel()
        with pytest.raises(CancelledError):
            list(tokens)
        gate.let(3)
        assert engine.statistics().running == 1
        gate.open()
        assert list(other.result().tokens) == expected([2], 30)
        assert not other.cancel()
    check_no_leaks(engine, program)


def test_deadlines() -> None:
    program, clock = FakeProgram(rows=1), Clock()
    with Engine(program, clock=clock) as engine, gated(program) as gate:
        running = engine.submit(PROMPT, max_new_tokens=30, deadline=10)
        gate.wait()
        waiting = engine.submit([1], max_new_tokens=1, deadline=5)
        later = engine.submit([2], max_new_tokens=1, deadline=1000)
        gate.let(3)
        clock.now += 5
        gate.let(1)
        assert waiting.done() and not running.done()
        clock.now += 5
        gate.open()
        with pytest.raises(DeadlineError, match=r"the deadline passed after [34] of 30 tokens"):
            running.result()
        with pytest.raises(TimeoutError, match="the deadline passed after 0 of 1 tokens"):
            waiting.result()
        assert list(later.result().tokens) == expected([2], 1)
    check_no_leaks(engine, program)


def test_a_failure_reaches_the_requests_that_cause_it() -> None:
    """decode fails for one of three rows: the others go on."""
    program = FakeProgram()
    prompts = [[token] for token in (10, 11, 12)]
    answers = [expected(prompt, 12) for prompt in prompts]
    bad = next(token for token in answers[1][2:] if token not in (*answers[0], *answers[2]))
    program.failing = frozenset([bad])
    with Engine(program) as engine:
        handles = [engine.submit(prompt, max_new_tokens=12) for prompt in prompts]
        assert list(handles[0].result().tokens) == answers[0]
        assert list(handles[2].result().tokens) == answers[2]
        with pytest.raises(ValueError, match="a token that fails"):
            handles[1].result()
        assert list(handles[1].tokens) == answers[1][: answers[1].index(bad) + 1]
        with pytest.raises(ValueError, match="a token that fails"):
            engine.submit([bad, 1], max_new_tokens=1).result()
        assert list(engine.submit([1], max_new_tokens=5).result().tokens) == expected([1], 5)
    check_no_leaks(engine, program)


def test_a_lost_device_stops_the_engine() -> None:
    program = FakeProgram()

    def lose(function: Any) -> None:
        raise pd.DeviceUnavailableError("the device is lost")

    with Engine(program) as engine:
        assert engine.submit([1], max_new_tokens=1).result()
        program.gate = lose
        handles = [engine.submit([token], max_new_tokens=1) for token in range(2)][:1]
        for handle in handles:
            with pytest.raises(EngineStoppedError, match="DeviceUnavailableError: the device is lost") as caught:
                handle.result()
            assert isinstance(caught.value.__cause__, pd.DeviceUnavailableError)
        engine._worker.join()
        with pytest.raises(EngineStoppedError, match="the device is lost"):
            engine.submit([1], max_new_tokens=1)
        assert repr(engine) == "<Engine: 0 requests run, 0 wait>"
    program.gate = None
    with Engine(program) as engine:  # the program is free for another one
        assert engine.submit([1], max_new_tokens=1).result()


def test_close() -> None:
    program = FakeProgram()
    engine = Engine(program)
    with pytest.raises(pd.InvalidArgumentError, match=r"another engine uses the cache .*program\.session\(\)"):
        Engine(program)
    handles = [engine.submit([token], max_new_tokens=5) for token in range(8)]
    engine.close()
    assert all(list(handle.result(0).tokens) == expected([token], 5) for token, handle in enumerate(handles))
    with pytest.raises(pd.Error, match="the engine is closed; create another one"):
        engine.submit([1], max_new_tokens=1)
    check_no_leaks(engine, program)
    with gated(program) as gate:
        engine = Engine(program)
        handle = engine.submit([1], max_new_tokens=50)
        gate.wait()
        closing = threading.Thread(target=engine.close, args=(True,))
        closing.start()
        while not engine._worker._is_closing:
            time.sleep(0.001)
        gate.open()
        closing.join(60)
        with pytest.raises(CancelledError, match="the engine was closed"):
            handle.result(0)
    check_no_leaks(engine, program)


def test_closing_again_does_not_free_the_program_of_a_later_engine() -> None:
    program = FakeProgram()
    first = Engine(program)
    first.close()
    with Engine(program):
        first.close()
        with pytest.raises(pd.InvalidArgumentError, match="another engine uses the cache"):
            Engine(program)


def test_an_error_in_the_block_cancels_requests() -> None:
    program = FakeProgram()
    with pytest.raises(ZeroDivisionError), Engine(program) as engine:
        with gated(program) as gate:
            handle = engine.submit([1], max_new_tokens=50)
            gate.wait()
        1 / 0  # noqa: B018
    assert handle.done()
    check_no_leaks(engine, program)


def test_an_engine_without_references_ends_its_thread() -> None:
    program = FakeProgram()
    engine = Engine(program)
    handle = engine.submit([1], max_new_tokens=5)
    reference = weakref.ref(engine)
    del engine
    assert list(handle) == expected([1], 5), "a handle keeps its engine"
    (thread,) = threads()
    del handle
    gc.collect()
    assert reference() is None
    thread.join(60)
    assert not thread.is_alive()
    Engine(program).close()


def test_stop_tokens_end_an_answer_and_do_not_belong_to_it() -> None:
    answer = expected([1], 10)
    stop = answer[4]
    with Engine(FakeProgram(), stop=answer[7]) as engine:
        completion = engine.submit([1], max_new_tokens=10, stop=[stop]).result()
        assert list(completion.tokens) == answer[: answer.index(stop)] and completion.finish_reason == "stop"
        assert list(engine.submit([1], max_new_tokens=10).result().tokens) == answer[: answer.index(answer[7])]
        assert engine.submit([1], max_new_tokens=3).result().finish_reason == "length"


def test_results_and_iterations_wait_with_a_timeout() -> None:
    program = FakeProgram()
    with Engine(program) as engine, gated(program) as gate:
        handle = engine.submit([1], max_new_tokens=3)
        with pytest.raises(TimeoutError, match="the request has not ended after 0 seconds"):
            handle.result(0)
        assert not handle._output._end_waiters
        assert repr(handle) == "<Handle: submitted, 0 tokens>" and not handle.done()
        gate.open()
        assert list(handle) == list(handle) == expected([1], 3)
        assert repr(handle) == "<Handle: ended, 3 tokens>"
        assert repr(engine) == "<Engine: 0 requests run, 0 wait>"
        state = engine.statistics()
        assert state == Statistics(0, 0, state.steps, 1, 0, 0, state.pages_retained, 32)


EXIT = """
import atexit, sys, threading
atexit.register(lambda: print([thread.name for thread in threading.enumerate()]))
sys.path.insert(0, sys.argv[1])
from fake_program import FakeProgram
from pydispatch.generate import Engine
engine = Engine(FakeProgram())
handle = engine.submit([1], max_new_tokens=60)
next(iter(handle))
"""


def test_a_process_that_ends_does_not_wait_for_requests() -> None:
    """The exit function that is registered first runs last: the thread has ended by then."""
    words = [sys.executable, "-c", EXIT, str(Path(__file__).parent)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "['MainThread']\n"
