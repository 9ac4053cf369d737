"""Requests that are merged into one call, and what waits for them."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any, NoReturn

from pydispatch._core.pickling import refuse
from pydispatch._core.rowwise import Key, Row, Stacking

if TYPE_CHECKING:
    from contextvars import Context

    import numpy as np


class Request:
    """A request to a Batched, the callable that merges requests into calls.

    `result()` waits for its result; so does `await` in a coroutine of asyncio. _batch: the batch, one call, that
    contains the request. _index: position of the request in the batch. _first, _last: the range of its rows in the
    batch, `_last` excluded.
    """

    __slots__ = ("_batch", "_first", "_index", "_last")

    def __init__(self, batch: Batch, index: int, first: int, last: int) -> None:
        """Take the rows `first` to `last` - 1 of `batch`, in which this is request `index`."""
        self._batch, self._index, self._first, self._last = batch, index, first, last

    def done(self) -> bool:
        """Return whether `result` returns or raises without waiting."""
        return self._batch.done

    def result(self, timeout: float | None = None) -> Any:
        """Wait and return the result, or a tuple of several.

        Raises:
            TimeoutError: The request is not done after `timeout` seconds.
            Exception: The call failed with this exception.
        """
        self._wait(timeout)
        batch = self._batch
        if batch.outcomes:  # the requests did not run as one call
            outcome = batch.outcomes[self._index]  # a sequence of results, or an exception
            if isinstance(outcome, BaseException):
                raise outcome.with_traceback(None)  # several requests may raise it; frames would accumulate
        else:
            outcome = batch.results  # of all requests: slice the rows of this one
            if batch.size > 1:  # otherwise all rows belong to this request
                if len(outcome) == 1:
                    return outcome[0][self._first : self._last]
                outcome = [result[self._first : self._last] for result in outcome]
        return outcome[0] if len(outcome) == 1 else tuple(outcome)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait and return the exception that `result` raises; None for a request that succeeded."""
        self._wait(timeout)  # raises TimeoutError, and the KeyboardInterrupt of the waiting thread
        outcome = self._batch.outcomes[self._index] if self._batch.outcomes else None
        return outcome.with_traceback(None) if isinstance(outcome, BaseException) else None

    def _wait(self, timeout: float | None) -> None:
        """Wait until the request is done. Raise TimeoutError after `timeout` seconds; None for no limit."""
        if not self._batch.done and not self._batch.event.wait(timeout):
            raise TimeoutError(f"the request is not done after {timeout} seconds")

    def __reduce__(self) -> NoReturn:
        refuse("future")

    def __await__(self) -> Generator[Any, None, Any]:
        """Suspend the asyncio task until the batch is done, then return what `result` returns or raise its
        exception.
        """
        batch = self._batch
        if not batch.done:
            waiter = _Waiter(asyncio.get_running_loop())
            batch.waiting.append(waiter)
            # Tested again: if the batch completed before the waiter was added, nothing would wake it.
            if not batch.done:
                yield waiter
        return self.result()


class _Waiter:
    """Awaitable that suspends an asyncio task until its batch completes.

    It implements the part of the future interface that a task uses. All waiters of a batch in one event loop resume in
    a single callback of that loop; asyncio futures would schedule one callback each.
    """

    __slots__ = ("_asyncio_future_blocking", "_context", "_reason", "_wakeup", "loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Create a waiter for a task of `loop`. `_asyncio_future_blocking` makes the task wait for it."""
        self.loop = loop
        self._asyncio_future_blocking = True
        self._wakeup: Callable[[_Waiter], Any] | None = None  # resumes the task; None once that was scheduled
        self._reason: tuple[Any, ...] | None = None  # arguments of the CancelledError; None: not cancelled

    def get_loop(self) -> asyncio.AbstractEventLoop:
        """Return the event loop of the task; asyncio compares it with its own before the task waits."""
        return self.loop

    def add_done_callback(self, wakeup: Callable[[_Waiter], Any], *, context: Context) -> None:
        """Store the function that resumes the task, and the context in which it is to run; asyncio calls this once."""
        self._wakeup, self._context = wakeup, context

    def cancel(self, msg: Any = None) -> bool:
        """Schedule the task to resume with CancelledError. Return False if it is resuming already."""
        wakeup, self._wakeup = self._wakeup, None
        if wakeup is None:
            return False
        self._reason = () if msg is None else (msg,)
        self.loop.call_soon(wakeup, self, context=self._context)
        return True

    def result(self) -> None:
        """Raise CancelledError if `cancel` was called, else return None; the value itself comes from Request.result."""
        if self._reason is not None:
            raise asyncio.CancelledError(*self._reason)

    def wake(self) -> None:
        """Resume the task now, unless it was cancelled or resumed before."""
        wakeup, self._wakeup = self._wakeup, None
        if wakeup is not None:
            self._context.run(wakeup, self)


class Batch:
    """Call with the merged rows of several requests. A `_Collector`, the queue of batches, fills and runs it.

    key: dynamic sizes and numbers that the requests have in common. deadline: value of time.monotonic() at which the
    call starts even if the batch is not full. `submit` may start the call early. `run` waits for the call, or makes it,
    and completes the requests. In the child of a fork `cancel` completes them.

    `done` is set before `waiting` is read, so that no waiter that was added meanwhile is missed.
    """

    __slots__ = ("call", "count", "deadline", "done", "event", "key", "outcomes", "results", "rows", "size", "waiting")

    def __init__(self, key: Key, deadline: float) -> None:
        """Create an open batch without requests. For the parameters, see the class."""
        self.key, self.deadline = key, deadline
        self.rows: list[Row] = []  # arguments of each request; a Row may have several rows of the arrays
        self.count = 0  # rows of all requests together
        self.size = 0  # number of requests
        self.call: Any = None  # the future of the call, if it was submitted
        self.results: Sequence[np.ndarray] = ()  # each result of the call, with the rows of all requests in order
        self.outcomes: list[Any] = []  # per request its results or exception; empty if they ran as one call
        self.done = False  # whether `results` or `outcomes` are set
        self.event = threading.Event()  # set when the batch is done, for waiting threads
        self.waiting: list[_Waiter] = []  # asyncio tasks that wait for the batch

    def submit(self, stacking: Stacking) -> None:
        """Submit the call without waiting for it, if the rows of requests with this key are known to be independent.

        Otherwise, and if submitting fails, `run` makes the call later and reports the error.
        """
        if stacking.is_accepted(self.key):
            with contextlib.suppress(Exception):
                self.call = stacking.submit(self.rows, self.count)

    def run(self, stacking: Stacking) -> None:
        """Call the function, or wait for the submitted call. Store errors as outcomes of the requests; never raise.

        All requests get an error if the function lets rows influence each other, so that requests cannot share a call.
        If the call of several requests fails, each request gets a call of its own, so that only the wrong ones fail.
        """
        try:
            refusal = stacking.refusal(self.key, self.rows) if self.size > 1 else None
            if self.call is not None:
                self.results = stacking.result_of(self.call, self.count)
            elif refusal is None:
                self.results = stacking.run(self.rows, self.count)
            else:
                self.outcomes = [refusal] * self.size
        except BaseException as error:
            self.outcomes = [error] if self.size == 1 else [self._run_one(stacking, row) for row in self.rows]
        self._finish()

    def cancel(self) -> None:
        """Cancel the parent's requests of this batch in the child of a fork, unless the batch is complete."""
        if not self.done:
            self.event = threading.Event()  # a thread of the parent may have held the lock of the old event
            self.outcomes = [CancelledError("the process was forked")] * self.size
            self._finish()

    def _finish(self) -> None:
        """Mark the batch as done, and wake the threads and the tasks of all event loops that wait for it."""
        self.rows, self.call = [], None  # release the arguments
        self.done = True
        self.event.set()
        loops: dict[asyncio.AbstractEventLoop, list[_Waiter]] = {}
        for waiter in self.waiting:
            loops.setdefault(waiter.loop, []).append(waiter)
        for loop, waiting in loops.items():
            try:
                loop.call_soon_threadsafe(_wake, loop, iter(waiting))  # one callback per loop
            except RuntimeError:  # the loop was closed, so no task waits in it
                continue

    def _run_one(self, stacking: Stacking, row: Row) -> Any:
        """Call the function for a single request, whose arguments are `row`. Return its results or the exception."""
        try:
            return stacking.run([row], stacking.rows_of(row))
        except BaseException as error:
            return error


def _wake(loop: asyncio.AbstractEventLoop, waiting: Iterator[_Waiter]) -> None:
    """Wake the waiters of one event loop, as a callback of that loop.

    If a task raises, a second callback wakes the rest: the iterator `waiting` continues after that task.
    """
    try:
        for waiter in waiting:
            waiter.wake()
    except BaseException:  # KeyboardInterrupt or SystemExit of a task: wake the rest, in case the loop continues
        loop.call_soon(_wake, loop, waiting)
        raise
