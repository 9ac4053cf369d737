"""Awaitable futures of submitted calls: `concurrent.futures.Future` with `await`."""

from __future__ import annotations

import concurrent.futures
import contextlib
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures._base import CANCELLED, CANCELLED_AND_NOTIFIED, PENDING, RUNNING
from typing import TYPE_CHECKING, Any, NoReturn

from pydispatch._core.condition import Condition
from pydispatch._core.pickling import refuse
from pydispatch._core.process_lock import process_lock

if TYPE_CHECKING:
    from pydispatch._core.task import Task

_arming = process_lock()
"""Lock that is held while a CallFuture initializes its base class, so that two threads do not both do it."""


class Future(concurrent.futures.Future):  # type: ignore[type-arg]
    """The future result of a submitted call: a `concurrent.futures.Future` that can be awaited.

    `result(timeout)` and `exception(timeout)` wait, at most `timeout` seconds; Ctrl-C ends the wait. `await future`
    waits without a thread. `concurrent.futures.wait` and `as_completed` accept it. `cancel()` also stops a running
    call, between two chunks of its work, and returns False if the call had ended, or has changed globals of the
    program. Callbacks of `add_done_callback` run on the thread that ends the call and should be short. In the child of
    a fork, futures of the parent are cancelled.
    """

    def __init__(self) -> None:
        """Create the future of a call that has not ended."""
        super().__init__()
        # The class is replaced, not the object: another thread of a CallFuture may have acquired its lock already.
        self._condition.__class__ = Condition
        _futures.add(self)

    def cancel(self) -> bool:
        """Cancel the future, and notify those who wait for it. Return False if the call has begun or ended."""
        if not super().cancel():
            return False
        self.set_running_or_notify_cancel()
        return True

    def set_running_or_notify_cancel(self) -> bool:
        """Mark the call as running. If it was cancelled, notify the waiting threads once, and return False."""
        with self._condition:  # reentrant: the method of the base class acquires it, too
            return self._state != CANCELLED_AND_NOTIFIED and super().set_running_or_notify_cancel()

    def _abandon(self) -> bool:
        """Mark the future as cancelled in the child of a fork, unless it is done: its call belongs to the parent.

        Return whether its callbacks must be called, which may submit calls whose futures are not abandoned yet.
        """
        self._condition = Condition()  # a thread of the parent may hold the lock of the old one
        is_unfinished = self._state in (PENDING, RUNNING)
        if is_unfinished:
            self._state = CANCELLED
        if self._state == CANCELLED:
            self.set_running_or_notify_cancel()
        return is_unfinished

    def __reduce__(self) -> NoReturn:
        refuse("future")

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
        """Initialize the base class when one of its attributes is first read; most futures never need its lock.

        From then on the end of the call also updates the state of the base class, which runs its callbacks.
        """
        if name not in ("_condition", "_state", "_result", "_exception", "_waiters", "_done_callbacks"):
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        with _arming:  # several threads may read attributes at once
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
        """Stop the call between two chunks of its work. Return False if it had ended, or has changed globals."""
        return self._task.cancel()

    def __repr__(self) -> str:
        """Return the type, and the state of the call: cancelled, done or submitted."""
        state = "cancelled" if self.cancelled() else "done" if self.done() else "submitted"
        return f"<{type(self).__name__}: {state}>"


class Countdown:
    """Counter of calls that have not ended. It is the callback of their futures, and calls `finish` after the last end.

    Calls may end on several threads; `finish` runs on the thread of the last one.
    """

    def __init__(self, count: int, finish: Callable[[], None]) -> None:
        """Count down from `count`, the number of futures that get this callback, and call `finish` at 0."""
        # An item for each call but the last. Removing one is atomic: a lock could be held in the child of a fork.
        self._left = [None] * (count - 1)
        self._finish: Callable[[], None] | None = finish

    def __call__(self, _: object) -> None:
        """Count the end of one call."""
        with contextlib.suppress(IndexError):  # of the last call, which finds no item
            self._left.pop()
            return
        # The futures keep their callbacks, and `finish` leads to the arguments and results of other calls.
        finish, self._finish = self._finish, None
        assert finish is not None
        finish()


class DeferredFuture(Future):
    """A Future of a call that is submitted when the futures among its arguments have ended.

    Cancelling it before then prevents the submission; later it cancels the submitted call.
    """

    def __init__(self) -> None:
        """Create the future of a call that is not submitted yet."""
        super().__init__()
        self._call: concurrent.futures.Future[Any] | None = None  # the submitted call, until it has ended

    def cancel(self) -> bool:
        """Cancel the call. Return False if it has ended, or cannot be cancelled since it has begun."""
        call = self._call  # another thread may change the attribute
        if call is not None:  # submitted
            return call.cancel()
        if not super().cancel():  # not submitted yet: cancel this future
            return False
        call = self._call
        if call is not None:  # submitted meanwhile by another thread
            call.cancel()
        return True

    def follow(self, call: concurrent.futures.Future[Any]) -> None:
        """Take over the outcome of the submitted call once it has ended."""
        self._call = call
        if self.cancelled():  # by another thread, during the submission
            call.cancel()
        call.add_done_callback(self._copy_outcome)

    def _copy_outcome(self, call: concurrent.futures.Future[Any]) -> None:
        """Copy the result, the error or the cancellation of `call`, which has ended."""
        self._call = None
        if call.cancelled():
            super().cancel()
        if not self.set_running_or_notify_cancel():
            return
        error = call.exception()
        if error is None:
            self.set_result(call.result())
        else:
            self.set_exception(error)


def has_futures(args: Iterable[Any], named: dict[str, Any]) -> bool:
    """Return whether a positional or named argument of a call is a future."""
    return any(isinstance(value, concurrent.futures.Future) for value in (*args, *named.values()))


def deferred(
    submit: Callable[..., concurrent.futures.Future[Any]],
    args: Iterable[Any],
    named: dict[str, Any],
    previous: Future | None = None,
    is_submitted: Future | None = None,
) -> Future:
    """Return a future of a call that is submitted once all futures among its arguments have ended.

    The call receives the result of each future in the place of the future. An error of one becomes the error of the
    returned future.

    Args:
        submit: Starts the call with positional arguments `args` and keywords `named`.
        args: Positional arguments of the call.
        named: Named arguments of the call.
        previous: Future that must have ended, too, before the call is submitted. None: `args` or `named` has a future.
        is_submitted: Future that ends once `previous` has ended and the call has been submitted, has failed before, or
            is cancelled; may be None.
    """
    args = list(args)
    outer = DeferredFuture()
    has_begun = False

    def start() -> None:
        """Submit the call, whose end then settles the returned future, unless that was cancelled."""
        nonlocal has_begun
        has_begun = True  # set before `cancelled` is read: a cancellation that misses the flag prevents the submission
        try:
            if outer.cancelled():
                return
            inner = submit(*map(_value_of, args), **{name: _value_of(value) for name, value in named.items()})
        except BaseException as error:
            assert error.__traceback__ is not None
            # Without this frame, which refers to the future: the future and its error would be a reference cycle.
            error.__traceback__ = error.__traceback__.tb_next
            if outer.set_running_or_notify_cancel():
                outer.set_exception(error)
        else:
            outer.follow(inner)
        finally:
            if is_submitted is not None:
                _announce(is_submitted)

    inputs = [value for value in (*args, *named.values()) if isinstance(value, concurrent.futures.Future)]
    if previous is not None:
        inputs.append(previous)
    countdown = Countdown(len(inputs), start)
    for future in inputs:
        future.add_done_callback(countdown)
    if is_submitted is not None:
        # Weak references: the arguments keep both futures alive, and both lead to other calls.
        earlier, turn = weakref.ref(previous) if previous is not None else None, weakref.ref(is_submitted)

        def pass_turn(ended: concurrent.futures.Future[Any]) -> None:
            """Let the next call in order be submitted after `previous`, if this one was cancelled before its turn."""
            if not has_begun and (own := turn()) is not None:
                ((earlier and earlier()) or ended).add_done_callback(lambda _: _announce(own))

        outer.add_done_callback(pass_turn)
    return outer


def _value_of(argument: Any) -> Any:
    """Return the result of an argument that is a future, which has ended; any other argument itself."""
    return argument.result() if isinstance(argument, concurrent.futures.Future) else argument


class _Announced(threading.local):
    """Futures of submissions that this thread is to end, in order; None while it ends none."""

    futures: deque[Future] | None = None


_announced = _Announced()


def _announce(is_submitted: Future) -> None:
    """End the future of a submission, which submits the next call in order.

    That call announces its own submission in turn. The futures are ended one after the other by the outermost call of
    this function, because thousands of calls that are nested in each other would exceed the recursion limit.
    """
    if _announced.futures is not None:
        _announced.futures.append(is_submitted)
        return
    futures = _announced.futures = deque([is_submitted])
    try:
        while futures:
            # Cancelling ends the future. Unlike `set_result`, it may be done again: a call may be announced twice.
            futures.popleft().cancel()
    finally:
        _announced.futures = None


class SubmissionOrder:
    """Order of the calls that share the state of a program, some of which have futures as arguments.

    A call whose arguments are futures can be submitted only when they have ended. Later calls of the same order wait
    until it has been submitted, has failed or is cancelled; they do not wait for its end.
    """

    def __init__(self) -> None:
        """Create an order without calls."""
        self._reset()
        _orders.add(self)

    def _reset(self) -> None:
        """Forget all calls: later ones do not wait for them."""
        self._lock = threading.Lock()  # held while `_last` is replaced
        # Future that ends when the latest deferred call has been submitted. The reference is weak, because the future
        # leads to the function of the call, and with it to the owner of this object.
        self._last: weakref.ref[Future] | None = None

    def submit(self, submit: Callable[..., Future], args: Iterable[Any], named: dict[str, Any]) -> Future:
        """Submit a call after all earlier calls of this order, and return its future.

        submit: starts the call with positional arguments `args` and keywords `named`, in which it gets the results of
        futures.
        """
        is_submitted: Future | None = None
        with self._lock:
            previous = self._last() if self._last is not None else None
            is_waiting = previous is not None and not previous.done()
            if is_waiting or has_futures(args, named):
                is_submitted = Future()
                self._last = weakref.ref(is_submitted)
        if is_submitted is None:
            return submit(*args, **named)
        return deferred(submit, args, named, previous, is_submitted)


_futures: weakref.WeakSet[Future] = weakref.WeakSet()
"""Futures whose base class is initialized, which the child of a fork cancels."""
_orders: weakref.WeakSet[SubmissionOrder] = weakref.WeakSet()
"""Orders of submitted calls, which the child of a fork resets."""


_resets: list[Callable[[], None]] = []
"""Functions of other modules that the child of a fork calls before the callbacks of futures."""


def reset_in_child(reset: Callable[[], None]) -> None:
    """Register a function that the child of a fork calls before the callbacks of cancelled futures.

    A callback may submit a call, for which threads and locks of the parent must be forgotten.
    """
    _resets.append(reset)


def _after_fork() -> None:
    """Cancel the futures of the parent in the child of a fork, and forget which calls it has deferred."""
    for order in _orders:
        order._reset()
    unfinished = [future for future in _futures if future._abandon()]
    for reset in _resets:
        reset()
    for future in unfinished:
        future._invoke_callbacks()  # type: ignore[attr-defined]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
