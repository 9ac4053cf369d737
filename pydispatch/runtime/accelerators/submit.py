"""Calls that are submitted to a device: a thread for each program makes them, one after another, in their order."""

from __future__ import annotations

import concurrent.futures
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures._base import PENDING, RUNNING
from queue import SimpleQueue
from typing import Any

from pydispatch._core.future import Future, deferred
from pydispatch._core.items import OnError, all_of, in_order, returns_errors
from pydispatch.errors import InvalidArgumentError

_Call = tuple[Future, Callable[..., Any], tuple[Any, ...], dict[str, Any]]


class CallThread:
    """A thread that makes calls. It ends with this object, when those that were submitted have been made."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self.pending: dict[Future, None] = {}
        arguments = self._calls, self.pending
        threading.Thread(target=_make_calls, args=arguments, name="pydispatch-calls", daemon=True).start()
        weakref.finalize(self, self._calls.put, None)

    def submit(self, function: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any]) -> Future:
        future = Future()
        self.pending[future] = None
        self._calls.put((future, function, args, named))
        return future


def _make_calls(calls: SimpleQueue[_Call | None], pending: dict[Future, None]) -> None:
    while (call := calls.get()) is not None:
        future, function, args, named = call
        if future.set_running_or_notify_cancel():
            try:
                value = function(*args, **named)
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(value)
        pending.pop(future, None)
        del call, future, function, args, named  # not kept until the next one comes


_threads: weakref.WeakKeyDictionary[object, CallThread] = weakref.WeakKeyDictionary()
_starting = threading.Lock()


def _after_fork() -> None:
    """In a child process: threads did not come along, and calls of the parent are cancelled."""
    global _threads, _starting
    futures = [future for thread in _threads.values() for future in list(thread.pending)]
    _threads, _starting = weakref.WeakKeyDictionary(), threading.Lock()
    for future in futures:
        future._condition = threading.Condition()  # a thread of the parent may have had it
        if future._state == RUNNING:
            future._state = PENDING
        if future.cancel():
            future.set_running_or_notify_cancel()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def thread_of(owner: object) -> CallThread:
    """The thread of a program's executor."""
    with _starting:
        thread = _threads.get(owner)
        if thread is None:
            thread = _threads[owner] = CallThread()
        return thread


class Submitted:
    """Gives a callable the methods of a function of the CPU by which calls are submitted."""

    _executor: Any
    __call__: Callable[..., Any]

    def submit(self, *args: Any, **named: Any) -> Future:
        """Starts a call and returns a Future of what it would return; see docs/asynchronous.md.

        An argument may be the Future of another call. Until the call has ended nobody may change its arguments. Calls
        of a program run in the order in which they are submitted; one that has begun cannot be cancelled.
        """
        if any(isinstance(value, concurrent.futures.Future) for value in (*args, *named.values())):
            return deferred(self.submit, args, named)
        return thread_of(self._executor).submit(self, args, named)

    def submit_many(self, items: Iterable[Any], on_error: OnError = "raise") -> Future:
        """Start one call for each item, a tuple of arguments or the only one, and return one Future of all results.

        Args:
            items: An iterable; an item may hold futures, as arguments of `submit`.
            on_error: "raise": when calls fail, the future raises the first error after all have ended; its `outcomes`
                is the list of all results and errors. "return": the list has errors where calls have no result.

        Returns:
            A Future of the list of results, in the order of the items. An error has the index of its item in `item`,
            and at the start of its text.
        """
        return all_of(self.submit, items, returns_errors(on_error))

    def map(self, items: Iterable[Any], in_flight: int = 4, on_error: OnError = "raise") -> Iterator[Any]:
        """Call for each item, a tuple of arguments or the only one, and yield the results in order.

        Args:
            items: An iterable, which is read as calls end.
            in_flight: Calls that are submitted and whose results were not taken, at most.
            on_error: "raise": an error is raised after the results before it, and ends the iterator. "return": the
                iterator yields the error and goes on with later items.

        Yields:
            For each item its result, or its error. An error has the index of its item in `item`, and at the start of
            its text.
        """
        if not isinstance(in_flight, int) or in_flight < 1:
            raise InvalidArgumentError(f"map: in_flight: expected a number from 1 on, got {in_flight!r}")
        return in_order(self.submit, items, in_flight, returns_errors(on_error))
