"""Asynchronous calls on an accelerator: one thread for each program runs them, one at a time.

Priorities are numbers, of which 0 is the highest. Waiting calls with a higher priority run first; calls of one priority
run in the order of submission.
"""

from __future__ import annotations

import heapq
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any

from pydispatch._core.future import Future, SubmissionOrder, deferred, has_futures, reset_in_child
from pydispatch._core.items import OnError, all_of, each_of, in_order, returns_errors
from pydispatch._core.process_lock import process_lock
from pydispatch.errors import InvalidArgumentError

PRIORITIES = {"high": 0, "normal": 1, "low": 2}
"""Value of `priority=` of a call → its rank; the call with the lowest rank runs first."""
MAX_WORKERS = 1024
"""Largest `workers=` of a call. Accelerators ignore the number, but accept only those that the CPU device accepts."""

_Call = tuple[Future, Callable[..., Any], tuple[Any, ...], dict[str, Any]]
"""Submitted call as (future of its value, function, positional arguments, named arguments)."""
_Waiting = tuple[int, int, _Call]
"""Waiting call as (priority, position in the order of submission, call); the least tuple runs first."""


def check_workers(name: str, workers: object) -> None:
    """Raise InvalidArgumentError unless `workers=` of a call is None or a number of threads.

    Devices that run plans by themselves have no workers among the threads of this process: the limit changes nothing.
    """
    if workers is not None and (type(workers) is not int or not 1 <= workers <= MAX_WORKERS):
        raise InvalidArgumentError(f"@{name}: workers: expected a number from 1 to {MAX_WORKERS}, got {workers!r}")


class CallThread:
    """Thread of a device that runs submitted calls, by priority and then in the order of submission.

    The thread ends when this object is deleted and all submitted calls have run.
    """

    def __init__(self) -> None:
        """Start the thread."""
        self._calls: SimpleQueue[tuple[int, _Call] | None] = SimpleQueue()  # (priority, call); the thread sorts them
        threading.Thread(target=_make_calls, args=(self._calls,), name="pydispatch-calls", daemon=True).start()
        weakref.finalize(self, self._calls.put, None)  # the thread has no reference to this object, and ends at None

    def submit(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        named: dict[str, Any],
        priority: int = PRIORITIES["normal"],
    ) -> Future:
        """Queue the call `function(*args, **named)` and return its Future.

        priority: 0 is the highest; a call begins before waiting calls with a larger number.
        """
        future = Future()
        self._calls.put((priority, (future, function, args, named)))
        return future


def _make_calls(calls: SimpleQueue[tuple[int, _Call] | None]) -> None:
    """Make the queued calls: the body of a CallThread. calls: queue of (priority, call); None ends it."""
    for call in _in_order(calls):
        try:
            _make_call(*call)
        except BaseException:  # such as SystemExit of a callback of the future: report it, and make the later calls
            threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), threading.current_thread())))
        del call  # so that arguments and results do not live until the next call


def _make_call(future: Future, function: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any]) -> None:
    """Make a call, unless its future was cancelled before, and set the result or the exception of the future."""
    if not future.set_running_or_notify_cancel():
        return
    try:
        value = function(*args, **named)
    except BaseException as error:
        future.set_exception(error)
        # The traceback of the error refers to this frame, which must not keep these objects alive.
        del future, function, args, named
    else:
        future.set_result(value)


def _in_order(calls: SimpleQueue[tuple[int, _Call] | None]) -> Iterator[_Call]:
    """Yield the calls of a queue until None is queued. Each time, yield the waiting call of the highest priority.

    The highest priority has the smallest number. Calls of one priority are yielded in the order of submission.
    """
    waiting: list[_Waiting] = []  # a heap of (priority, ordinal of the submission, call)
    ordinal, has_ended = 0, False
    while True:
        try:
            while not has_ended:
                # Take everything out of the queue. Wait for a call only if there is none to yield.
                entry = calls.get(block=not waiting)
                has_ended = entry is None
                if entry is not None:
                    heapq.heappush(waiting, (entry[0], ordinal, entry[1]))
                    ordinal += 1
                    del entry  # so that the call does not live until the next one
        except Empty:  # no further call is queued
            pass
        if not waiting:
            return
        yield heapq.heappop(waiting)[2]


_threads: weakref.WeakKeyDictionary[object, CallThread] = weakref.WeakKeyDictionary()
"""Executor of a program → the thread of its submitted calls."""
_starting = process_lock()  # guards `_threads`


def _after_fork() -> None:
    """Discard the submission threads in the child of a fork, where they do not exist.

    `Future` cancels the futures of their calls in the child by a hook of its own.
    """
    global _threads
    _threads = weakref.WeakKeyDictionary()


reset_in_child(_after_fork)


def thread_of(owner: object) -> CallThread:
    """Return the thread of submitted calls of a program, created on first use. owner: the program's executor."""
    with _starting:
        thread = _threads.get(owner)
        if thread is None:
            thread = _threads[owner] = CallThread()
        return thread


class Submitted:
    """Mixin that adds asynchronous submission to a callable, with the methods that functions on the CPU have.

    Submitted calls run one after the other on a thread of the program, the `CallThread` of its executor.
    """

    _executor: Any  # executor of the program, by which `thread_of` finds the thread that the program's functions share
    _keeps_order = False
    """Whether calls run in the order of submission even if their priorities differ."""
    _order: SubmissionOrder | None = None
    """Keeps the order of calls that share state, even if an earlier call waits for a future among its arguments. None
    for functions without state."""
    __call__: Callable[..., Any]
    name: str

    def submit(self, *args: Any, priority: str = "normal", workers: int | None = None, **named: Any) -> Future:
        """Start a call and return a Future of what it would return (docs/asynchronous.md).

        Args:
            args, named: The arguments, as for a call, and `out`. They must not change until the call has ended. The
                Future of another call stands for its result.
            priority: "high", "normal" or "low", among calls of the program that wait for its thread. Calls of
                functions with loops, branches or state keep the order in which they are submitted.
            workers: A number from 1 to 1024, which changes nothing on this device.

        Returns:
            A Future of the results. A call that has begun cannot be cancelled.

        Raises:
            InvalidArgumentError: A priority or a number of workers that does not exist.
        """
        rank = PRIORITIES.get(priority) if isinstance(priority, str) else None
        if rank is None:
            raise InvalidArgumentError(f"submit: priority: expected 'high', 'normal' or 'low', got {priority!r}")
        check_workers(self.name, workers)
        if self._keeps_order:  # calls of equal priorities run in the order of submission
            rank = PRIORITIES["normal"]

        def queue_call(*args: Any, **named: Any) -> Future:
            """Queue the call, whose arguments are no futures."""
            return thread_of(self._executor).submit(self, args, named, priority=rank)

        if self._order is not None:
            return self._order.submit(queue_call, args, named)
        if has_futures(args, named):
            return deferred(queue_call, args, named)
        return queue_call(*args, **named)

    def submit_many(
        self, items: Iterable[Any], priority: str = "normal", workers: int | None = None, on_error: OnError = "raise"
    ) -> Future:
        """Start one call for each item (a tuple of arguments, or the only argument); return one Future of all results.

        Args:
            items: An iterable. A Future of another call in an item stands for its result.
            priority: "high", "normal" or "low", among calls of the program that wait for its thread.
            workers: A number from 1 to 1024, which changes nothing on this device.
            on_error: "raise": when calls fail, the future raises the first error after all have ended; its `outcomes`
                is the list of all results and errors. "return": the list has errors where calls have no result.

        Returns:
            A Future of the list of results, in the order of the items. An error has the index of its item in `item`,
            and at the start of its text.
        """
        submit = partial(self.submit, priority=priority, workers=workers)
        return all_of(submit, items, returns_errors(on_error))

    def map(
        self, items: Iterable[Any], in_flight: int = 4, workers: int | None = None, on_error: OnError = "raise"
    ) -> Iterator[Any]:
        """Call the function for each item (a tuple of arguments, or the only argument), and yield the results in order.

        Args:
            items: An iterable, which is read as calls end.
            in_flight: Maximum number of submitted calls whose results the caller has not taken yet.
            workers: A number from 1 to 1024, which changes nothing on this device.
            on_error: "raise": an error is raised after the results before it, and ends the iterator. "return": the
                iterator yields the error and goes on with later items.

        Yields:
            For each item its result, or its error. An error has the index of its item in `item`, and at the start of
            its text.
        """
        if not isinstance(in_flight, int) or in_flight < 1:
            raise InvalidArgumentError(f"map: in_flight: expected a number from 1 on, got {in_flight!r}")
        check_workers(self.name, workers)
        return in_order(self.submit, each_of(items), in_flight, returns_errors(on_error))
