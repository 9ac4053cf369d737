"""Requests of many threads and coroutines as calls with many rows: `function.batched()`."""

from __future__ import annotations

import threading
import time
import weakref
from collections import deque
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from pydispatch._core.batches import Batch, Request
from pydispatch._core.future import reset_in_child
from pydispatch._core.pickling import refuse
from pydispatch._core.rowwise import Argument, Key, Row, Stacking
from pydispatch._core.status import Error, InvalidArgumentError

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self


def _check_limits(max_batch: Any, max_delay: Any, tolerance: Any) -> None:
    """Raise InvalidArgumentError for arguments of `Batched` that are no numbers of their range."""
    if isinstance(max_batch, bool) or not isinstance(max_batch, int) or max_batch < 1:
        raise InvalidArgumentError(f"max_batch: expected a number of rows, at least 1, got {max_batch!r}")
    for name, value in (("max_delay", max_delay), ("tolerance", tolerance)):
        if not isinstance(value, (int, float)) or not 0 <= value < float("inf"):
            raise InvalidArgumentError(f"{name}: expected a number, at least 0, got {value!r}")


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
        """Create the callable, and check with examples that rows do not influence each other.

        Args:
            function: The function that is called.
            max_batch: Maximum number of rows of a call.
            max_delay: Seconds that the first request of a call waits for others.
            constants: Values of arguments that all requests share, by name or position; None for none.
            example: Arguments of one request for the check; None to use random numbers.
            tolerance: Largest accepted difference that other rows of a call make, relative to the largest element of a
                result.
        """
        _check_limits(max_batch, max_delay, tolerance)
        self._stacking = Stacking(function, {} if constants is None else constants, max_batch, tolerance)
        self.max_batch = self._stacking.max_batch
        """Maximum number of rows of a call; at most the batch size that the program was compiled for."""
        self.max_delay = max_delay
        self._types = self._stacking.types()
        # Call the function with examples now, so that a function whose rows depend on one another is refused here.
        key: Key = ()
        rows = self._stacking.examples()
        if example is not None:
            if not isinstance(example, Sequence):
                raise InvalidArgumentError(
                    f"@{function.name}: example: expected a tuple with the arguments of a request, got {example!r}"
                )
            row, key, _ = self._check_request(tuple(example), {})
            rows = [row]
        # Without rows to check (the arguments are no floats of static sizes), the first requests are checked.
        if rows and (refusal := self._stacking.refusal(key, rows)):
            raise refusal
        self._collector = _Collector(self._stacking, max_delay)
        self._finalizer = weakref.finalize(self, self._collector.close)

    def submit(self, *args: Any, **named: Any) -> Request:
        """Add a request and return it without waiting. Raise InvalidArgumentError for arguments that do not fit.

        Positional NumPy arrays take a short path if the function fixes all sizes but the number of rows: the loop only
        compares their types and shapes. Everything else goes through `_check_request`, which converts values and
        names what does not fit.
        """
        if self._types is not None and not named and len(args) == len(self._types):
            # Rows of the first array, 0 if the argument is no array with rows.
            count = len(args[0]) if type(args[0]) is np.ndarray and args[0].ndim else 0
            for value, (dtype, tail) in zip(args, self._types):  # noqa: B905
                if type(value) is not np.ndarray or value.shape != (count, *tail) or value.dtype != dtype:
                    break
            else:
                if 0 < count <= self.max_batch:
                    return self._collector.add(key=(), row=args, count=count)  # no dynamic sizes, no numbers
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
        """Wait until all requests are done. Later requests raise Error."""
        self.close()

    def __reduce__(self) -> NoReturn:
        refuse("batched function")

    def __repr__(self) -> str:
        return f"<@{self._stacking.name} in batches of up to {self.max_batch}>"

    def _check_array(self, argument: Argument, value: Any) -> np.ndarray[Any, Any]:
        """Return the array of an argument of a request. Raise InvalidArgumentError for another type or shape."""
        array = np.asarray(value)
        tail, shape = argument.tail or (), array.shape
        # Dimension 0 has the rows; `tail` has the other sizes, None where any size fits.
        fits = len(shape) == 1 + len(tail) and all(size in (None, n) for size, n in zip(tail, shape[1:], strict=True))
        if array.dtype != argument.dtype or not fits:
            sizes = ", ".join("?" if n is None else str(n) for n in tail)
            raise InvalidArgumentError(
                f"{argument.text}: expected {argument.dtype}[rows{', ' if sizes else ''}{sizes}], got "
                f"{array.dtype}{list(shape)}"
            )
        return array

    def _check_request(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> tuple[Row, Key, int]:
        """Check the arguments of one request.

        Return them in order, the key that requests need to have in common to share a call, and the number of rows.
        """
        values = self._in_order(args, named)
        row: list[Any] = []
        key: list[Any] = []
        count = 0
        for value, argument in zip(values, self._stacking.arguments, strict=True):
            if argument.tail is None:  # a number, which all requests of a call must share
                if isinstance(value, np.ndarray) or not np.isscalar(value):
                    raise InvalidArgumentError(f"{argument.text}: expected a number, got {type(value).__name__}")
                key.append(_bit_key(value))
                row.append(value)
                continue
            array = self._check_array(argument, value)
            row_count, *other_sizes = array.shape
            count = count or row_count  # the first array decides
            if not 0 < row_count <= self.max_batch or row_count != count:
                raise InvalidArgumentError(
                    f"{argument.text}: {row_count} rows; a request has 1 to {self.max_batch} (max_batch), the same "
                    f"number in all of its arrays"
                )
            # Dynamic sizes, None in `tail`, must be equal in all requests of a call.
            key.extend(n for size, n in zip(argument.tail, other_sizes, strict=True) if size is None)
            row.append(array)
        return tuple(row), tuple(key), count

    def _in_order(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> list[Any]:
        """Return the arguments of a request in the order of the function, without its constants.

        Raise InvalidArgumentError if one is missing, unknown or given twice.
        """
        arguments = self._stacking.arguments
        names = [argument.name for argument in arguments]
        by_name = names[len(args) :]  # the arguments after the positional ones must be keywords
        # A name that several arguments have cannot be used as a keyword.
        if len(args) + len(named) != len(names) or any(by_name.count(name) != 1 for name in named):
            expected = ", ".join(name or f"argument {a.position}" for name, a in zip(names, arguments, strict=True))
            passed = [
                *(["one by position"] if len(args) == 1 else [f"{len(args)} by position"] if args else []),
                *named,
            ]
            raise InvalidArgumentError(
                f"@{self._stacking.name}: a request takes {expected}, without the constants; got "
                f"{' and '.join(passed) or 'none'}"
            )
        return [*args, *(named[name] for name in by_name)]


def _bit_key(value: Any) -> tuple[Any, Any]:
    """Return a hashable key that is equal only for numbers of the same type and bits.

    The numbers themselves do not serve as a key: 0.0 and -0.0 compare equal but may lead to different results.
    """
    array = np.asarray(value)
    # An int of more than 64 bits, or a fraction: the bytes of the array are those of a pointer to the object.
    if array.dtype.hasobject:
        return type(value), value
    return array.dtype, array.tobytes()


class _Collector:
    """The queue of batches of one Batched, and the thread that runs them until `close`.

    A thread whose request fills a batch submits the call of that batch itself, so that the device need not wait until
    the collector's thread gets the GIL. stacking: makes the calls. max_delay: seconds from the first request of a batch
    after which it runs even if it is not full.
    """

    def __init__(self, stacking: Stacking, max_delay: float) -> None:
        """Create an empty queue; the first request starts the thread. For the parameters, see the class."""
        self._stacking, self._max_delay = stacking, max_delay
        self._is_closed = False
        self._reset()
        _collectors.add(self)

    def _reset(self) -> None:
        """Create an empty queue without a thread, also in the child of a fork."""
        self._lock = threading.RLock()  # reentrant: garbage collection may run `close` on a thread that holds it
        self._changed = threading.Condition(self._lock)
        self._open: dict[Key, Batch] = {}  # batches with room for more rows, oldest first
        self._full: deque[Batch] = deque()  # batches without such room that wait for the thread, oldest first
        self._running: Batch | None = None  # the batch that the thread runs
        self._thread: threading.Thread | None = None  # None before the first request

    def add(self, key: Key, row: Row, count: int) -> Request:
        """Add a request of `count` rows to the open batch of its key, or to a new one.

        key: what requests must have in common to share a batch. row: the arguments of the request, in order. An open
        batch without room for `count` more rows takes no further requests: the collector's thread runs it as it is. A
        batch that the request fills is submitted here, so that the device need not wait for that thread.
        """
        max_rows = self._stacking.max_batch
        with self._lock:
            if self._is_closed:
                raise Error(f"@{self._stacking.name}: its batches were closed")
            batch = self._open.get(key)
            if batch is not None and batch.count + count > max_rows:  # no room: close the batch
                self._full.append(batch)
                del self._open[key]
                batch = None
            if batch is None:
                batch = self._open_batch(key)
            request = Request(batch, index=batch.size, first=batch.count, last=batch.count + count)
            batch.rows.append(row)
            batch.size += 1
            batch.count += count
            if batch.count == max_rows:  # full: submit its call now
                self._full.append(batch)
                del self._open[key]
                batch.submit(self._stacking)
                self._changed.notify()
        return request

    def _open_batch(self, key: Key) -> Batch:
        """Open a batch for requests with `key`, and return it. The first batch starts the collector's thread.

        The caller holds the lock.
        """
        if self._thread is None:
            name = f"batches of @{self._stacking.name}"
            self._thread = threading.Thread(target=self._work, name=name, daemon=True)
            try:
                self._thread.start()  # the thread waits for the lock, which the caller holds
            except RuntimeError:  # the system refuses a thread: the next request tries again
                self._thread = None
                raise
        batch = self._open[key] = Batch(key, time.monotonic() + self._max_delay)
        self._changed.notify()
        return batch

    def close(self) -> None:
        """Let the thread end once all batches have run. Later requests raise Error."""
        with self._lock:  # not `_changed`, which an exception of a signal's handler could leave locked
            self._is_closed = True
            self._changed.notify()

    def join(self) -> None:
        """Wait for the end of the collector's thread. Return at once if there is none, or if it calls this method."""
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _work(self) -> None:
        """Run batches until the collector is closed; the function of the thread."""
        while (batch := self._wait_for_batch()) is not None:
            batch.run(self._stacking)
            del batch  # do not keep its results alive while waiting for the next batch
            self._running = None

    def _wait_for_batch(self) -> Batch | None:
        """Wait for a batch that is full or whose delay is over, remove it from the queue, and return it.

        Of several such batches the one with the earliest deadline is returned. An open batch comes before a full
        one only if its delay is over and its deadline is earlier. A closed collector does not wait for delays; return
        None once it is closed and empty.
        """
        with self._changed:
            while self._open or self._full or not self._is_closed:
                oldest = next(iter(self._open.values()), None)  # the open batch with the earliest deadline
                # A full batch that is due before every open one.
                if self._full and (oldest is None or self._full[0].deadline <= oldest.deadline):
                    return self._take_full()
                seconds_left = None if oldest is None else oldest.deadline - time.monotonic()
                # An open batch whose delay is over.
                if oldest is not None and seconds_left is not None and (seconds_left <= 0 or self._is_closed):
                    self._running = oldest
                    return self._open.pop(oldest.key)
                if self._full:  # the delays of all open batches go on: run a full batch meanwhile
                    return self._take_full()
                self._changed.wait(seconds_left)
        return None

    def _take_full(self) -> Batch:
        """Remove the oldest full batch from the queue, and return it as the running one."""
        self._running = self._full[0]
        return self._full.popleft()

    def cancel_in_child(self) -> None:
        """Reset the collector in the child of a fork and cancel the unfinished requests of the parent.

        Each unfinished batch of the parent is open, full or running. The parent's lock is replaced, not taken: a thread
        that does not exist in the child may have held it.
        """
        batches = [*self._open.values(), *self._full, self._running]
        self._reset()
        for batch in batches:
            if batch is not None:
                batch.cancel()


_collectors: weakref.WeakSet[_Collector] = weakref.WeakSet()
"""All collectors, whose requests `_after_fork` cancels in the child of a fork."""


def _after_fork() -> None:
    """Cancel the parent's requests in a forked child, which has neither these requests nor the parent's threads."""
    for collector in _collectors:
        collector.cancel_in_child()


reset_in_child(_after_fork)
