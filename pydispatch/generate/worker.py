"""The thread of an engine, its bounded queue, and its end."""

from __future__ import annotations

import atexit
import itertools
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable
from concurrent.futures import CancelledError, Future

from pydispatch.errors import Error, InvalidArgumentError
from pydispatch.generate.errors import EngineStoppedError, QueueFullError
from pydispatch.generate.interface import Exports, GeneratingProgram
from pydispatch.generate.output import Wakeups
from pydispatch.generate.scheduler import Scheduler
from pydispatch.generate.sequence import TokenSequence


class Worker:
    """A thread that runs the steps of a scheduler while there are sequences, and sleeps otherwise.

    An engine creates one worker. `submit` adds a request, and starts the thread with the first one; `close` ends the
    thread, and `join` waits for its end. The queue holds the requests that have not started, and has room for
    `max_queue`. `submit` with `may_wait` also accepts a request for which the queue has no room, and returns a future,
    which is done when there is room.
    """

    def __init__(
        self, program: GeneratingProgram, max_sequences: int, max_queue: int, clock: Callable[[], float]
    ) -> None:
        """Claim the cache of `program`; no thread starts yet. Raise InvalidArgumentError if another engine has it.

        The cache has the keys and values of the tokens of all sequences. Two engines would overwrite each other's.

        Args:
            program: Program with its sizes; `program.program` is the loaded program, to which the cache belongs.
            max_sequences: Sequences that are generated at once, at most.
            max_queue: Sequences that may wait to be started.
            clock: Returns the time in seconds.
        """
        # The scheduler calls `_leave_queue` when a sequence starts, and `_forget` when it has ended.
        self.scheduler = Scheduler(program, max_sequences, clock, self._leave_queue, self._forget)
        with _owned_lock:
            if program.program in _owned:
                raise InvalidArgumentError(
                    f"another engine uses the cache of {program.program!r}; close it, or pass program.session() to "
                    "this one"
                )
            _owned.add(program.program)
        self._is_owner = True  # whether `_owned` has the program for this worker
        self._program = program.program
        self._max_queue = max_queue
        self._is_closing = self._is_cancelling = False
        self._refusal: Error | None = None  # error of later calls of `submit`, once the worker is closed or has failed
        self._unfinished: dict[TokenSequence, None] = {}  # a set in order of submission
        self._order_numbers = itertools.count()  # `TokenSequence.order` of the next requests
        self._queued = 0  # number of sequences that have not started, with those of `_overflow`
        self._reset()
        _workers.add(self)

    def _reset(self) -> None:
        """Create the lock and the lists that threads share. The child of a fork does so again, as the lock may be held
        there by a thread that only the parent has.
        """
        self._lock = threading.RLock()  # reentrant: garbage collection may run `close` on a thread that holds it
        self._changed = threading.Condition(self._lock)
        self._added: list[TokenSequence] = []  # submitted ones that the scheduler does not have yet
        self._cancelled: list[TokenSequence] = []  # cancelled ones that the scheduler has not ended yet
        self._overflow: deque[TokenSequence] = deque()  # sequences beyond `max_queue`, whose submitters wait
        self._thread: threading.Thread | None = None

    @property
    def unfinished(self) -> int:
        """Number of requests that have not ended."""
        return len(self._unfinished)

    def submit(self, sequence: TokenSequence, may_wait: bool) -> Future[None] | None:
        """Add a sequence to the queue, and start the thread if this is the first one.

        Return None, or, if the queue is full and `may_wait` is True, a future that is done when it has room.

        The thread gets the sequence in both cases, so that requests start in the order of submission. The future only
        tells the submitter when to go on. With `max_queue` = 2 and two requests that have not started, the third one
        is added with a future; when the first one starts, the future is done.

        Raises:
            QueueFullError: The queue is full, and `may_wait` is False.
            EngineStoppedError: The engine has stopped.
            Error: The engine is closed.
        """
        with self._changed:
            if self._refusal is not None:
                raise _copy(self._refusal)
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="pydispatch-generate", daemon=True)
                thread.start()  # it waits for the lock, which this thread has
                self._thread = thread
            # The queue is full: refuse the sequence, or let its submitter wait.
            if self._queued >= self._max_queue:
                if not may_wait:
                    raise QueueFullError(
                        f"{self._queued} requests wait already (max_queue={self._max_queue}); submit it later, or with "
                        "wait=True"
                    )
                sequence.accepted = Future()
                self._overflow.append(sequence)  # sequences whose `accepted` is still to be set; `_added` has them, too
            self._queued += 1
            sequence.order = next(self._order_numbers)
            self._unfinished[sequence] = None
            self._added.append(sequence)
            self._changed.notify()
        return sequence.accepted

    def cancel(self, sequence: TokenSequence) -> bool:
        """End a sequence for its readers at once, and in the engine before the next step.

        Return False if it has ended before.
        """
        wakeups = Wakeups()
        if not sequence.output.finish(CancelledError("the request was cancelled"), wakeups):
            return False
        wakeups.flush()
        with self._changed:
            self._cancelled.append(sequence)
            self._changed.notify()
        return True

    def close(self, cancel: bool) -> None:
        """Refuse later requests, and end the thread when the submitted ones have ended.

        cancel: whether the thread ends them before its next step instead of computing them. Does not wait: see `join`.
        """
        with self._changed:
            self._is_closing = True
            self._is_cancelling |= cancel
            if self._refusal is None:
                self._refusal = Error("the engine is closed; create another one")
            self._changed.notify()
            if self._thread is None:
                self._release_program()

    def join(self) -> None:
        """Wait for the end of the thread, unless this is called on it, as by garbage collection."""
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _run(self) -> None:
        """Run steps until the engine is closed; the function of the thread."""
        try:
            while self._take_requests():
                self.scheduler.step()
        except BaseException as error:
            self._stop(error)
        finally:
            self._release_program()

    def _release_program(self) -> None:
        """Let another engine use the program. Later calls do nothing: the program may belong to that engine then."""
        if self._is_owner:
            self._is_owner = False
            _owned.discard(self._program)

    def _take_requests(self) -> bool:
        """Wait until there is a sequence or the engine is closed, and hand new and cancelled sequences to the
        scheduler.

        If the engine was closed with cancel=True, end all sequences. Return False when the engine is closed and has
        nothing left to do.
        """
        scheduler = self.scheduler
        with self._changed:
            while not (self._added or self._cancelled or self._is_closing) and scheduler.is_idle:
                self._changed.wait()
            added, self._added = self._added, []
            cancelled, self._cancelled = self._cancelled, []
            is_closing, is_cancelling = self._is_closing, self._is_cancelling
        # Without the lock: submitters need not wait for the scheduler.
        for sequence in added:
            scheduler.add(sequence)
        for sequence in cancelled:
            scheduler.end(sequence, CancelledError())
        if is_cancelling:
            scheduler.end_all(CancelledError("the engine was closed"))
        return not (is_closing and scheduler.is_idle)

    def _stop(self, error: BaseException) -> None:
        """End all requests with EngineStoppedError after an error of the thread, and refuse later ones with it.

        Submitters that wait for room in the queue stop waiting; the results of their requests raise the error.
        """
        # Take all requests and refuse others under the lock. The requests are ended without it: this wakes readers.
        refusal = EngineStoppedError(f"the engine has stopped: {type(error).__name__}: {error}")
        refusal.__cause__ = error
        with self._changed:
            self._refusal, self._is_closing = refusal, True
            sequences, self._unfinished = list(self._unfinished), {}
            overflow, self._overflow = list(self._overflow), deque()
            self._queued = 0
        wakeups = Wakeups()
        for sequence in sequences:
            sequence.output.finish(_copy(refusal), wakeups)
        for sequence in overflow:
            _accept(sequence)
        wakeups.flush()

    def _leave_queue(self, sequence: TokenSequence) -> None:
        """Decrease the length of the queue for a sequence that has started, or that ended without having started.

        The length includes the sequences beyond `max_queue`, whose submitters wait. Accept the oldest of these in its
        place; a sequence that is one of them itself is accepted instead, which ends the waiting of its submitter.
        """
        with self._lock:
            self._queued -= 1
            if sequence in self._overflow:  # it had no room in the queue that another sequence could get
                self._overflow.remove(sequence)
                accepted: TokenSequence | None = sequence
            else:
                accepted = self._overflow.popleft() if self._overflow else None
        if accepted is not None:
            _accept(accepted)

    def _forget(self, sequence: TokenSequence) -> None:
        """Remove a sequence that has ended from the unfinished ones, and from the queue if it has not started."""
        if not sequence.has_started:
            self._leave_queue(sequence)
        self._unfinished.pop(sequence, None)

    def abandon(self) -> None:
        """End all requests in the child of a fork, which has no thread that computes them, and refuse later ones."""
        self._reset()
        self._is_closing = True
        self._refusal = Error("the engine was created before this process was forked; create another one here")
        for sequence in self._unfinished:
            sequence.output.abandon(CancelledError("the process was forked"))
        self._unfinished = {}
        self._release_program()


def _accept(sequence: TokenSequence) -> None:
    """Tell the submitter of a sequence, who may have stopped waiting, that the queue has room for it."""
    future = sequence.accepted
    # `set_running_or_notify_cancel` returns False if the submitter has cancelled the future.
    if future is not None and not future.done() and future.set_running_or_notify_cancel():
        future.set_result(None)


def _copy(error: Error) -> Error:
    """Return an equal error with the same cause, to be raised in another thread: raising adds to its traceback."""
    copy = type(error)(str(error))
    copy.__cause__ = error.__cause__
    return copy


_owned: weakref.WeakSet[Exports] = weakref.WeakSet()
"""Programs whose cache an open engine uses. A second engine for one of them is refused; it can use `program.session()`,
which has a cache of its own."""
_owned_lock = threading.Lock()
"""Lock of changes of `_owned`."""

_workers: weakref.WeakSet[Worker] = weakref.WeakSet()
"""All workers. They are closed when Python exits, and abandoned in the child of a fork, which lacks their threads."""


@atexit.register
def _at_exit() -> None:
    """End the threads of engines that are not closed, before the interpreter is taken down under them."""
    for worker in list(_workers):
        worker.close(cancel=True)
        worker.join()


def _after_fork() -> None:
    """End the requests of all engines in the child of a fork."""
    global _owned_lock
    _owned_lock = threading.Lock()
    for worker in _workers:
        worker.abandon()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
