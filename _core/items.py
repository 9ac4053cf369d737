"""Calls for each item of a batch job: results in the order of the items, and errors that name their item."""

from __future__ import annotations

import concurrent.futures
import copy
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal

from pydispatch._core.future import Countdown, Future
from pydispatch._core.status import InvalidArgumentError

OnError = Literal["raise", "return"]
"""What happens to the error of an item: "raise" ends the job, "return" puts the error in the place of the result."""
Submit = Callable[..., concurrent.futures.Future[Any]]
"""Function that starts a call with the arguments it is given and returns the future of the call."""


def arguments_of(item: Any) -> tuple[Any, ...]:
    """Return the arguments of an item: a tuple of them, or the only one. Raise InvalidArgumentError for a list."""
    if type(item) is list:
        raise InvalidArgumentError("expected a tuple of arguments, or the only argument, got a list: give a tuple")
    return item if type(item) is tuple else (item,)


def each_of(items: Any) -> Iterator[Any]:
    """Return an iterator over the items of a job. Raise InvalidArgumentError if there is none."""
    try:
        return iter(items)
    except TypeError:
        raise InvalidArgumentError(
            f"items: expected an iterable with the arguments of each call, got {items!r}"
        ) from None


def returns_errors(on_error: str) -> bool:
    """Return whether `on_error` is "return", not "raise". Raise InvalidArgumentError for another value."""
    if on_error not in ("raise", "return"):
        raise InvalidArgumentError(f"on_error: expected 'raise' or 'return', got {on_error!r}")
    return on_error == "return"


def with_index(error: BaseException, index: int) -> BaseException:
    """Return a copy of the error with the index of its item in `item` and at the start of its text.

    The error itself is not changed: it may belong to several items, or to the caller, whose future was an argument. A
    CancelledError is returned unchanged, and so is an error whose class does not permit the copy.
    """
    if isinstance(error, concurrent.futures.CancelledError):
        return error
    try:
        indexed = _copy_of(error)
        indexed.item = index  # type: ignore[attr-defined]
    except Exception:
        return error
    if error.args and isinstance(error.args[0], str):
        indexed.args = (f"item {index}: {error.args[0]}", *error.args[1:])
    return indexed


def _copy_of(error: BaseException) -> BaseException:
    """Return a copy of the error with its attributes, traceback, cause and context."""
    try:
        copied = copy.copy(error)
    except Exception:  # the class cannot be called with `args`
        copied = type(error).__new__(type(error), *error.args)
        copied.__dict__.update(error.__dict__)
    copied.args = error.args  # the class may have derived other arguments from `args`
    copied.__cause__, copied.__context__ = error.__cause__, error.__context__
    copied.__suppress_context__ = error.__suppress_context__
    return copied.with_traceback(error.__traceback__)


def failed(error: BaseException) -> Future:
    """Return a future that is done and whose `result` raises this error."""
    future = Future()
    future.set_exception(error)
    return future


def _start(submit: Submit, item: Any) -> concurrent.futures.Future[Any]:
    """Start the call of an item and return its future. If `submit` raises an error, the future has that error."""
    try:
        return submit(*arguments_of(item))
    except Exception as error:
        return failed(error)


def _outcome(index: int, future: concurrent.futures.Future[Any], is_returned: bool) -> Any:
    """Wait for the call of item `index`. Return its result, or its error if `is_returned`; otherwise raise the error.

    Errors that are no Exception, such as KeyboardInterrupt, are always raised.
    """
    error = future.exception()
    if error is None:
        return future.result()
    error = with_index(error, index)
    if is_returned and isinstance(error, Exception):
        return error
    raise error


def in_order(submit: Submit, items: Iterable[Any], in_flight: int, is_returned: bool) -> Iterator[Any]:
    """Yield the results of calls, one for each item, in the order of the items.

    An error, also one of `items` itself, is raised after the results before it.

    Args:
        submit: Starts a call.
        items: For each call a tuple of its arguments, or its only argument.
        in_flight: Maximum number of calls that were submitted and whose results were not yielded.
        is_returned: Whether the error of a call is yielded in the place of its result instead of raised.
    """
    source = enumerate(items)
    waiting: deque[tuple[int, concurrent.futures.Future[Any]]] = deque()  # (index of the item, its call), oldest first
    end: BaseException | None = None  # None until `items` has ended: StopIteration, or the error that it raised
    try:
        while end is None:
            if len(waiting) >= in_flight:  # wait for the oldest call before another one is started
                yield _outcome(*waiting.popleft(), is_returned)
            try:
                index, item = next(source)
            except Exception as error:
                end = error
            else:
                waiting.append((index, _start(submit, item)))
        while waiting:
            yield _outcome(*waiting.popleft(), is_returned)
        if not isinstance(end, StopIteration):
            raise end
    finally:
        for _, future in waiting:  # after an error, or if the caller drops the iterator
            future.cancel()


class ItemsFuture(Future):
    """A Future of the list of results of several calls, which `cancel` cancels together."""

    def __init__(self, calls: list[concurrent.futures.Future[Any]], is_returned: bool) -> None:
        """Create the future of submitted calls. is_returned: whether errors of calls are elements of the list."""
        super().__init__()
        self._calls, self._is_returned = calls, is_returned
        self._is_cancelled = False  # whether `cancel` was called
        countdown = Countdown(len(calls), self._settle)
        for call in calls:
            call.add_done_callback(countdown)
        if not calls:
            self._settle()

    def cancel(self) -> bool:
        """Cancel the calls that have not ended. Return False if none can be cancelled."""
        # Set first: the end of the last call ends this future, which reads the attribute.
        was_cancelled, self._is_cancelled = self._is_cancelled, True
        is_effective = any([call.cancel() for call in self._calls])  # a list: every call is cancelled
        if not is_effective:
            self._is_cancelled = was_cancelled
        return is_effective

    def cancelled(self) -> bool:
        """Return whether the calls have ended, and one of them because it was cancelled."""
        return super().cancelled() or (self.done() and isinstance(self._exception, concurrent.futures.CancelledError))

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Return the error of the first call that failed, or None; raise CancelledError if the calls were cancelled."""
        error = super().exception(timeout)
        if isinstance(error, concurrent.futures.CancelledError):
            raise error
        return error

    def _settle(self) -> None:
        """End the future after the last call.

        The future gets the list of results, or the first error. That error has the results and errors of all items in
        its attribute `outcomes`. With `is_returned` errors are results too, except those that end the process, such as
        KeyboardInterrupt, and cancellations by `cancel`.
        """
        calls, self._calls = self._calls, []  # no reference cycle: the calls refer to this future by their callbacks
        if not self.set_running_or_notify_cancel():  # cancelled in the child of a fork
            return
        outcomes: list[Any] = []
        first: BaseException | None = None  # the first error that is no result: the error of this future
        for index, call in enumerate(calls):
            error = concurrent.futures.CancelledError() if call.cancelled() else call.exception()
            if error is None:
                outcomes.append(call.result())
                continue
            error = with_index(error, index)
            outcomes.append(error)
            if not (self._is_returned and self._is_result(error)):
                first = first or error
        if first is None:
            self.set_result(outcomes)
        else:
            first.outcomes = outcomes  # type: ignore[attr-defined]
            self.set_exception(first)

    def _is_result(self, error: BaseException) -> bool:
        """Return whether the error of a call may be an element of the list of results."""
        is_stopped = self._is_cancelled and isinstance(error, concurrent.futures.CancelledError)
        return isinstance(error, Exception) and not is_stopped


def _submit_each(submit: Submit, items: Iterable[Any], is_returned: bool) -> list[concurrent.futures.Future[Any]]:
    """Submit a call for each item and return their futures.

    If an item cannot be submitted: with `is_returned`, its future fails with the error; otherwise the calls before it
    are canceled, and the error is raised. An error of `items` itself is raised before the first call.
    """
    futures: list[concurrent.futures.Future[Any]] = []
    for index, item in enumerate(list(each_of(items))):
        try:
            futures.append(submit(*arguments_of(item)))
        except Exception as error:
            if not is_returned:
                for future in futures:
                    future.cancel()
                raise with_index(error, index) from error.__cause__
            futures.append(failed(error))
    return futures


def all_of(submit: Submit, items: Iterable[Any], is_returned: bool) -> Future:
    """Submit a call for each item and return one future for the list of results.

    An item that cannot be submitted cancels the calls before it, and its error is raised here, unless `is_returned`.

    Args:
        submit: Starts a call.
        items: For each call a tuple of its arguments, or its only argument.
        is_returned: Whether errors are elements of the list in the place of results.
    """
    return ItemsFuture(_submit_each(submit, items, is_returned), is_returned)
