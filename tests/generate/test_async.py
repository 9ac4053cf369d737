"""The engine in coroutines: iteration, waiting, cancellation, several event loops, and a fork."""

from __future__ import annotations

import asyncio
import os
import threading
from concurrent.futures import CancelledError
from typing import Any

import pytest
from clock import gated
from fake_program import FakeProgram, expected

import pydispatch as pd
from pydispatch.generate import Engine, Handle

PROMPT = list(range(10))


def run(main: Any) -> Any:
    """Run a coroutine in debug mode, which reports callbacks of the wrong thread and coroutines nobody awaits."""
    return asyncio.run(asyncio.wait_for(main, 60), debug=True)


def test_coroutines_read_tokens_while_others_run() -> None:
    async def read(engine: Engine[int], token: int) -> list[int]:
        return [piece async for piece in engine.submit([token], max_new_tokens=12)]

    async def main() -> list[list[int]]:
        async with Engine(FakeProgram()) as engine:
            return await asyncio.gather(*(read(engine, token) for token in range(10)))

    assert run(main()) == [expected([token], 12) for token in range(10)]


def test_waiting_for_a_token_does_not_block_the_loop() -> None:
    async def main() -> None:
        program = FakeProgram()
        async with Engine(program) as engine:
            with gated(program) as gate:
                handle = engine.submit([1], max_new_tokens=2)
                tokens = aiter(handle)
                first = asyncio.ensure_future(anext(tokens))
                await asyncio.sleep(0)
                assert not first.done()
                await asyncio.to_thread(gate.wait)
                assert not first.done()
                await asyncio.to_thread(gate.let)
                assert await first == expected([1], 2)[0]
            assert (await handle).tokens == tuple(expected([1], 2))
            assert [token async for token in handle] == expected([1], 2)

    run(main())


def test_submit_async_waits_while_the_queue_is_full() -> None:
    async def main() -> None:
        program = FakeProgram(rows=1)
        async with Engine(program, max_queue=1) as engine:
            with gated(program) as gate:
                running = await engine.submit_async(PROMPT, max_new_tokens=3)
                await asyncio.to_thread(gate.wait)
                queued = await engine.submit_async([1], max_new_tokens=1)
                waiting = [asyncio.ensure_future(engine.submit_async([token], max_new_tokens=1)) for token in (2, 3, 4)]
                await asyncio.sleep(0.01)
                assert not any(task.done() for task in waiting)
                waiting[1].cancel()
                with pytest.raises(asyncio.CancelledError):
                    await waiting[1]
                assert engine.statistics().waiting >= 3
            handles = [await waiting[0], await waiting[2]]
            assert [list((await handle).tokens) for handle in (running, queued, *handles)] == [
                expected(PROMPT, 3), expected([1], 1), expected([2], 1), expected([4], 1),
            ]  # fmt: skip

    run(main())


def test_a_task_that_is_cancelled_leaves_its_request_to_others() -> None:
    async def main() -> None:
        program = FakeProgram()
        async with Engine(program) as engine:
            with gated(program) as gate:
                handle = engine.submit([1], max_new_tokens=3)

                async def read() -> list[int]:
                    return [token async for token in handle]

                tasks = [asyncio.ensure_future(read()) for _ in range(3)]
                await asyncio.to_thread(gate.wait)
                tasks[0].cancel()
                with pytest.raises(asyncio.CancelledError):
                    await tasks[0]
            assert [await task for task in tasks[1:]] == [expected([1], 3)] * 2

    run(main())


def test_cancelled_requests_end_the_iteration() -> None:
    async def main() -> None:
        program = FakeProgram()
        async with Engine(program) as engine:
            with gated(program):
                handle = engine.submit([1], max_new_tokens=3)
                waiter = asyncio.ensure_future(wait(handle))
                await asyncio.sleep(0)
                assert handle.cancel()
                with pytest.raises(CancelledError, match="the request was cancelled"):
                    await waiter
                with pytest.raises(CancelledError):
                    async for _ in handle:
                        pass

    async def wait(handle: Handle[int]) -> Any:
        return await handle

    run(main())


def test_two_event_loops_and_a_thread_read_one_request() -> None:
    program = FakeProgram()
    results: list[list[int]] = []
    with Engine(program) as engine, gated(program) as gate:
        handle = engine.submit([1], max_new_tokens=8)

        async def read() -> list[int]:
            return [token async for token in handle]

        threads = [threading.Thread(target=lambda: results.append(run(read()))) for _ in range(2)]
        threads.append(threading.Thread(target=lambda: results.append(list(handle))))
        for thread in threads:
            thread.start()
        gate.wait()
        gate.let(3)
        gate.open()
        for thread in threads:
            thread.join(60)
    assert results == [expected([1], 8)] * 3


def test_a_loop_that_is_closed_disturbs_no_other_reader() -> None:
    program = FakeProgram()
    with Engine(program) as engine, gated(program) as gate:
        handle = engine.submit([1], max_new_tokens=5)

        async def leave() -> None:
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(anext(aiter(handle)), 0.001)

        asyncio.run(leave())
        assert not handle._output.piece_waiters
        loop = asyncio.new_event_loop()
        assert handle._output._enroll(0, loop.create_future())
        loop.close()
        gate.open()
        assert list(handle) == expected([1], 5)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_the_child_of_a_fork_cancels_requests_of_the_parent() -> None:
    program = FakeProgram()
    with Engine(program) as engine, gated(program) as gate:
        handle = engine.submit([1], max_new_tokens=5)
        gate.wait()
        child = os.fork()
        if child == 0:
            os._exit(_exit_code_of_the_child(engine, handle, program))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        gate.open()
        assert list(handle) == expected([1], 5)


def _exit_code_of_the_child(engine: Engine[int], handle: Handle[int], program: FakeProgram) -> int:
    """0 if everything is as it should be; the child reports nothing else."""
    try:
        with pytest.raises(CancelledError, match="the process was forked"):
            handle.result(10)
        with pytest.raises(pd.Error, match="created before this process was forked; create another one here"):
            engine.submit([1], max_new_tokens=1)
        program.gate = None
        with Engine(program) as own:
            assert list(own.submit([1], max_new_tokens=5)) == expected([1], 5)
        engine.close()
    except BaseException:
        return 1
    return 0
