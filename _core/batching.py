"""Requests of many threads and coroutines as calls with many rows: `function.batched()`."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any

import numpy as np
from pydispatch._core.rowwise import Key, Row, Stacking
from pydispatch._core.status import Error, InvalidArgumentError

if TYPE_CHECKING:
    from contextvars import Context
    from types import TracebackType

    from typing_extensions import Self


class Batched:
    """A function whose requests are merged into calls with up to `max_batch` rows.

    A request consists of the arguments of the function without its constants. All arrays of a request have the same
    number of rows, 1 to `max_batch`, and must not change before the request is done. Requests that differ in other
    sizes, or in numbers, go into different calls. Results are views into the results of the merged call.

    Example:
        >>> mlp = program.main.batched(max_batch=64, max_delay=0.001, constants={"w": w})
        >>> y = mlp(x)               # waits
        >>> y = await mlp.submit(x)  # in a coroutine
    """

    def __init__(
        self,
        function: Any,
        max_batch: int,
        max_delay: float,
        constants: Mapping[str | int, Any] | None,
        example: Sequence[Any] | None,
        tolerance: float,
    ) -> None:
        """See `PublicFunction.batched`."""
        if isinstance(max_batch, bool) or not isinstance(max_batch, int) or max_batch < 1:
            raise InvalidArgumentError(f"max_batch: expected a number of rows, at least 1, got {max_batch!r}")
        for name, value in (("max_delay", max_delay), ("tolerance", tolerance)):
            if not isinstance(value, (int, float)) or not 0 <= value < float("inf"):
                raise InvalidArgumentError(f"{name}: expected a number, at least 0, got {value!r}")
        self._stacking = Stacking(function, constants or {}, max_batch, tolerance)
        self.max_batch = self._stacking.max_batch
        """Maximum number of rows of a call; at most the batch size that the program was compiled for."""
        self.max_delay = max_delay
        self._types = self._stacking.types()
        key: Key = ()
        rows = self._stacking.examples()
        if example is not None:
            row, key, _ = self._check_request(tuple(example), {})
            rows = [row]
        if rows and (refusal := self._stacking.refusal(key, rows)):
            raise refusal
        self._collector = _Collector(self._stacking, max_delay)
        self._finalizer = weakref.finalize(self, self._collector.close)

    def submit(self, *args: Any, **named: Any) -> Request:
        """Add a request and return it without waiting. Raise InvalidArgumentError for arguments that do not fit."""
        if self._types is not None and not named and len(args) == len(self._types):
            count = len(args[0]) if type(args[0]) is np.ndarray and args[0].ndim else 0
            for value, (dtype, tail) in zip(args, self._types):  # noqa: B905
                if type(value) is not np.ndarray or value.shape != (count, *tail) or value.dtype != dtype:
                    break
            else:
                if 0 < count <= self.max_batch:
                    return self._collector.add((), args, count)
        row, key, count = self._check_request(args, named)
        return self._collector.add(key, row, count)

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Add a request, wait for its call, and return its result, or a tuple of several."""
        return self.submit(*args, **named).result()

    def close(self) -> None:
        """Wait until all requests are done. Later requests raise Error."""
        self._collector.close()
        self._collector.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<@{self._stacking.name} in batches of up to {self.max_batch}>"

    def _check_request(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> tuple[Row, Key, int]:
        """Check the arguments of one request.

        Return them in order, the key that requests need to have in common to share a call, and the number of rows.
        """
        arguments = self._stacking.arguments
        values = self._in_order(args, named)
        row: list[Any] = []
        key: list[Any] = []
        count = 0
        for value, argument in zip(values, arguments, strict=True):
            if argument.tail is None:
                if isinstance(value, np.ndarray) or not np.isscalar(value):
                    raise InvalidArgumentError(f"{argument.text}: expected a number, got {type(value).__name__}")
                key.append(_bit_key(value))
                row.append(value)
                continue
            array = np.asarray(value)
            shape = array.shape
            fits = len(shape) == 1 + len(argument.tail) and all(
                size in (None, n) for size, n in zip(argument.tail, shape[1:], strict=True)
            )
            if array.dtype != argument.dtype or not fits:
                sizes = ", ".join("?" if n is None else str(n) for n in argument.tail)
                raise InvalidArgumentError(
                    f"{argument.text}: expected {argument.dtype}[rows{', ' if sizes else ''}{sizes}], got "
                    f"{array.dtype}{list(shape)}"
                )
            count = count or shape[0]
            if not 0 < shape[0] <= self.max_batch or shape[0] != count:
                raise InvalidArgumentError(
                    f"{argument.text}: {shape[0]} rows; a request has 1 to {self.max_batch} (max_batch), the same "
                    f"number in all of its arrays"
                )
            key.extend(n for size, n in zip(argument.tail, shape[1:], strict=True) if size is None)
            row.append(array)
        return tuple(row), tuple(key), count

    def _in_order(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> list[Any]:
        """Return the arguments of a request in the order of the function, without its constants.

        Raise InvalidArgumentError if one is missing, unknown or given twice.
        """
        arguments = self._stacking.arguments
        names = [argument.name for argument in arguments]
        rest = names[len(args) :]
        if len(args) + len(named) != len(names) or any(rest.count(name) != 1 for name in named):
            expected = ", ".join(name or f"argument {a.place}" for name, a in zip(names, arguments, strict=True))
            given = [*(["one by position"] if len(args) == 1 else [f"{len(args)} by position"] if args else []), *named]
            raise InvalidArgumentError(
                f"@{self._stacking.name}: a request takes {expected}, without the constants; got "
                f"{' and '.join(given) or 'none'}"
            )
        return [*args, *(named[name] for name in rest)]


def _bit_key(number: Any) -> tuple[Any, Any]:
    """Return a hashable key that is equal only for numbers of the same type and bits.

    The numbers themselves do not serve as a key: 0.0 and -0.0 compare equal but may lead to different results.
    """
    array = np.asarray(number)
    if array.dtype.hasobject:  # an int of more than 64 bits, a fraction
        return type(number), number
    return array.dtype, array.tobytes()


class Request:
    """A request of a Batched. `result()` waits for its result; so does `await` in a coroutine of asyncio."""

    __slots__ = ("_batch", "_first", "_index", "_last")

    def __init__(self, batch: _Batch, index: int, first: int, last: int) -> None:
        self._batch, self._index, self._first, self._last = batch, index, first, last

    def done(self) -> bool:
        return self._batch.done

    def result(self, timeout: float | None = None) -> Any:
        """Wait and return the result, or a tuple of several.

        Raises:
            TimeoutError: The request is not done after `timeout` seconds.
            Exception: The call failed with this exception.
        """
        batch = self._batch
        if not batch.done and not batch.event.wait(timeout):
            raise TimeoutError(f"the request is not done after {timeout} seconds")
        if batch.outcomes:
            made = batch.outcomes[self._index]
            if isinstance(made, BaseException):
                raise made.with_traceback(None)
        else:
            made = batch.results
            if batch.size > 1:
                if len(made) == 1:
                    return made[0][self._first : self._last]
                made = [result[self._first : self._last] for result in made]
        return made[0] if len(made) == 1 else tuple(made)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait and return the exception that `result` raises; None for a request that succeeded."""
        try:
            self.result(timeout)
        except TimeoutError:
            raise
        except BaseException as error:
            return error
        return None

    def __await__(self) -> Generator[Any, None, Any]:
        batch = self._batch
        if not batch.done:
            waiter = _Waiter(asyncio.get_running_loop())
            batch.waiting.append(waiter)
            if not batch.done:  # otherwise the waiters may have been woken already
                yield waiter
        return self.result()


class _Waiter:
    """Awaitable that suspends an asyncio task until its batch completes.

    It implements the part of the future interface that a task uses. All waiters of a batch in one event loop resume in
    a single callback of that loop; asyncio futures would schedule one callback each.
    """

    __slots__ = ("_asyncio_future_blocking", "_context", "_reason", "_wakeup", "loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._asyncio_future_blocking = True
        self._wakeup: Callable[[_Waiter], Any] | None = None  # resumes the task; None once that was scheduled
        self._reason: tuple[Any, ...] | None = None  # arguments of CancelledError; None: not cancelled

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self.loop

    def add_done_callback(self, wakeup: Callable[[_Waiter], Any], *, context: Context) -> None:
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
        if self._reason is not None:
            raise asyncio.CancelledError(*self._reason)

    def wake(self) -> None:
        """Resume the task now, unless it was cancelled or resumed before."""
        wakeup, self._wakeup = self._wakeup, None
        if wakeup is not None:
            self._context.run(wakeup, self)


class _Batch:
    """Requests that are merged into one call.

    `done` is set before `waiting` is read, so that no waiter that was added meanwhile is missed.
    """

    __slots__ = ("call", "count", "deadline", "done", "event", "key", "outcomes", "results", "rows", "size", "waiting")

    def __init__(self, key: Key, deadline: float) -> None:
        self.key, self.deadline = key, deadline
        self.rows: list[Row] = []
        self.count = 0  # rows of all requests together
        self.size = 0  # number of requests
        self.call: Any = None  # the future of the call, if it was submitted
        self.results: Sequence[np.ndarray] = ()
        self.outcomes: list[Any] = []  # results or exception of each request, if they did not run as one call
        self.done = False
        self.event = threading.Event()
        self.waiting: list[_Waiter] = []

    def submit(self, stacking: Stacking) -> None:
        """Submit the call without waiting for it, if requests of this kind are known to be independent.

        Otherwise, and after an error, `run` makes the call later.
        """
        if stacking.is_accepted(self.key):
            with contextlib.suppress(Exception):
                self.call = stacking.submit(self.rows, self.count)

    def run(self, stacking: Stacking) -> None:
        """Call the function, or wait for the submitted call. Store errors as outcomes of the requests; never raise."""
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
            self.event = threading.Event()  # a thread of the parent may have had the lock of the old one
            self.outcomes = [CancelledError("the process was forked")] * self.size
            self._finish()

    def _finish(self) -> None:
        """Mark the batch as done, and wake the threads and the tasks of all event loops that wait for it."""
        self.rows, self.call = [], None
        self.done = True
        self.event.set()
        loops: dict[asyncio.AbstractEventLoop, list[_Waiter]] = {}
        for waiter in self.waiting:
            loops.setdefault(waiter.loop, []).append(waiter)
        for loop, waiting in loops.items():
            try:
                loop.call_soon_threadsafe(_wake, loop, iter(waiting))
            except RuntimeError:  # the loop was closed, so no task waits in it
                continue

    def _run_one(self, stacking: Stacking, row: Row) -> Any:
        """Call the function for a single request. Return its results or the exception."""
        try:
            return stacking.run([row], stacking.rows_of(row))
        except BaseException as error:
            return error


def _wake(loop: asyncio.AbstractEventLoop, waiting: Iterator[_Waiter]) -> None:
    """Wake the waiters of one event loop, in that loop."""
    try:
        for waiter in waiting:
            waiter.wake()
    except BaseException:  # a task ends the process; wake the others in case the loop continues
        loop.call_soon(_wake, loop, waiting)
        raise


class _Collector:
    """The queue of batches of one Batched, and the thread that runs them until `close`.

    The thread whose request fills a batch submits its call, so that the device need not wait until the collector's
    thread gets the GIL.
    """

    def __init__(self, stacking: Stacking, max_delay: float) -> None:
        self._stacking, self._max_delay = stacking, max_delay
        self._is_closed = False
        self._reset()
        _collectors.add(self)

    def _reset(self) -> None:
        self._lock = threading.RLock()  # reentrant: garbage collection may run `close` on a thread that holds it
        self._changed = threading.Condition(self._lock)
        self._open: dict[Key, _Batch] = {}  # batches with room, oldest first
        self._full: deque[_Batch] = deque()
        self._running: _Batch | None = None
        self._thread: threading.Thread | None = None

    def add(self, key: Key, row: Row, count: int) -> Request:
        """Add a request of `count` rows to the open batch of its key, or to a new one. Start the thread if needed."""
        max_rows = self._stacking.max_batch
        with self._lock:
            if self._is_closed:
                raise Error(f"@{self._stacking.name}: its batches were closed")
            batch = self._open.get(key)
            if batch is not None and batch.count + count > max_rows:
                self._full.append(batch)
                del self._open[key]
                batch = None
            if batch is None:
                batch = self._open[key] = _Batch(key, time.monotonic() + self._max_delay)
                if self._thread is None:
                    name = f"batches of @{self._stacking.name}"
                    self._thread = threading.Thread(target=self._work, name=name, daemon=True)
                    self._thread.start()
                self._changed.notify()
            request = Request(batch, batch.size, batch.count, batch.count + count)
            batch.rows.append(row)
            batch.size += 1
            batch.count += count
            if batch.count == max_rows:
                self._full.append(batch)
                del self._open[key]
                batch.submit(self._stacking)
                self._changed.notify()
        return request

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify()

    def join(self) -> None:
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _work(self) -> None:
        """Run batches until the collector is closed; the function of the thread."""
        while (batch := self._wait_for_batch()) is not None:
            batch.run(self._stacking)
            del batch
            self._running = None

    def _wait_for_batch(self) -> _Batch | None:
        """Wait for a batch that is full or whose delay is over.

        Return the oldest, or None when the collector is closed and empty.
        """
        with self._changed:
            while self._open or self._full or not self._is_closed:
                oldest = next(iter(self._open.values()), None)
                if self._full and (oldest is None or self._full[0].deadline <= oldest.deadline):
                    return self._take_full()
                left = None if oldest is None else oldest.deadline - time.monotonic()
                if oldest is not None and left is not None and (left <= 0 or self._is_closed):
                    self._running = oldest
                    return self._open.pop(oldest.key)
                if self._full:
                    return self._take_full()
                self._changed.wait(left)
        return None

    def _take_full(self) -> _Batch:
        self._running = self._full[0]
        return self._full.popleft()

    def cancel_in_child(self) -> None:
        """Reset the collector in the child of a fork and cancel the unfinished requests of the parent.

        Each unfinished batch is in one of the three containers at any time, because no lock is held here.
        """
        batches = [*self._open.values(), *self._full, self._running]
        self._reset()
        for batch in batches:
            if batch is not None:
                batch.cancel()


_collectors: weakref.WeakSet[_Collector] = weakref.WeakSet()


def _after_fork() -> None:
    """Cancel the parent's requests in a forked child, which has neither these requests nor the parent's threads."""
    for collector in _collectors:
        collector.cancel_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
