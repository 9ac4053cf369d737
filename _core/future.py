"""Awaitable futures of submitted calls: `concurrent.futures.Future` with `await`."""

from __future__ import annotations

import concurrent.futures
import threading
from collections.abc import Callable, Generator, Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydispatch._core.task import Task

_arming = threading.Lock()
"""Lock that is held while a CallFuture initializes its base class, so that two threads do not both do it."""


class Future(concurrent.futures.Future):  # type: ignore[type-arg]
    """The future result of a submitted call: a `concurrent.futures.Future` that can be awaited.

    `result(timeout)` and `exception(timeout)` wait, at most `timeout` seconds; Ctrl-C ends the wait. `await future`
    waits without a thread. `concurrent.futures.wait` and `as_completed` accept it. `cancel()` also stops a running
    call, between two chunks of its work, and returns False if the call had ended. Callbacks of `add_done_callback` run
    on the thread that ends the call and should be short.
    """

    def __await__(self) -> Generator[Any, None, Any]:
        """Wait as an asyncio task, without a thread of its own."""
        import asyncio

        return asyncio.wrap_future(self).__await__()


class CallFuture(Future):
    """A Future of a call on the CPU. It initializes its base class only when an attribute of it is first read.

    Most futures are used only through `result`, which waits for the task itself (the running call), so they never need
    the lock and the list of callbacks of the base class.
    """

    def __init__(self, task: Task) -> None:
        """Create the future of `task`, a running call; the base class is not initialized yet."""
        self._task: Task = task

    def __getattr__(self, name: str) -> Any:
        """Initialize the base class when one of its attributes is first read.

        From then on the end of the call also updates the state of the base class, which runs its callbacks.
        """
        if name not in ("_condition", "_state", "_result", "_exception", "_waiters", "_done_callbacks"):
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        with _arming:
            is_first = "_done_callbacks" not in self.__dict__  # the attribute that the base class sets last
            if is_first:
                super().__init__()
        if is_first and not self._task.call_when_done(self._finish):  # the call had already ended
            self._finish()
        return self.__dict__[name]

    def _finish(self) -> None:
        """Copy the outcome of the ended call into the state of the base class, which runs the callbacks."""
        if self._task.cancelled():
            super().cancel()  # `cancel` of this class would stop the task
            self.set_running_or_notify_cancel()
            return
        self.set_running_or_notify_cancel()
        error = self._task.exception(None)
        if error is None:
            self.set_result(self._task.result(None))
        else:
            self.set_exception(error)

    def result(self, timeout: float | None = None) -> Any:
        """Wait and return the result of the call, or raise its exception, or TimeoutError after `timeout` seconds."""
        return self._task.result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait and return the exception of the call; None if it succeeded. Raise TimeoutError after `timeout`
        seconds.
        """
        return self._task.exception(timeout)

    def done(self) -> bool:
        """Return whether the call has ended, in any way."""
        return self._task.done()

    def running(self) -> bool:
        """Return whether the call has not ended. It counts as running from its submission on."""
        return not self.done()

    def cancelled(self) -> bool:
        """Return whether the call was stopped before its end."""
        return self._task.cancelled()

    def cancel(self) -> bool:
        """Stop the call between two chunks of its work. Return False if it had ended."""
        return self._task.cancel()

    def __repr__(self) -> str:
        """Return the type, and the state of the call: cancelled, done or submitted."""
        state = "cancelled" if self.cancelled() else "done" if self.done() else "submitted"
        return f"<{type(self).__name__}: {state}>"


def deferred(
    submit: Callable[..., concurrent.futures.Future[Any]], args: Iterable[Any], named: dict[str, Any]
) -> Future:
    """Return a future of a call that is submitted once all futures among its arguments have ended.

    The call receives the result of each future in the place of the future. An error of one becomes the error of the
    returned future. submit: starts the call with positional arguments `args` and keywords `named`, of which at least
    one is a future.
    """
    args = list(args)
    outer = Future()
    inputs = [value for value in (*args, *named.values()) if isinstance(value, concurrent.futures.Future)]
    left, counting = len(inputs), threading.Lock()

    def settle(inner: concurrent.futures.Future[Any]) -> None:
        """Copy the outcome of the ended call, `inner`, to the future that was returned."""
        if not outer.set_running_or_notify_cancel():
            return
        error = concurrent.futures.CancelledError() if inner.cancelled() else inner.exception()
        if error is None:
            outer.set_result(inner.result())
        else:
            outer.set_exception(error)

    def value_of(value: Any) -> Any:
        """Return an argument of the call: the result of a future, any other value itself."""
        return value.result() if isinstance(value, concurrent.futures.Future) else value

    def start(_: object) -> None:
        """Count the end of one future among the arguments, and submit the call after the last; `left` futures have not
        ended.
        """
        nonlocal left
        with counting:
            left -= 1
            if left:
                return
        try:
            inner = submit(*map(value_of, args), **{name: value_of(value) for name, value in named.items()})
        except BaseException as error:
            if outer.set_running_or_notify_cancel():
                outer.set_exception(error)
        else:
            inner.add_done_callback(settle)

    for future in inputs:
        future.add_done_callback(start)
    return outer
