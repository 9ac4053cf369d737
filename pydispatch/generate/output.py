"""The output of one request, which one thread writes and any number of threads and coroutines read."""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import dataclass
from typing import Literal

FinishReason = Literal["stop", "length"]
"""Why a completion has ended: a stop token or text, or the maximum number of tokens."""
Waiter = threading.Event | asyncio.Future[None]
"""Event of a waiting thread, or future of a waiting coroutine: it is set when there is a new piece or the outcome."""


@dataclass(frozen=True)
class Completion:
    """Result of a completed request: its tokens or text, and why it ended.

    Attributes:
        tokens: The generated tokens, without a stop token; those of a stop string are among them.
        text: Their text, up to a stop string; None for an engine without a tokenizer.
        finish_reason: "stop" after a stop token or a stop string, "length" after `max_new_tokens`.
        prompt_tokens: Number of tokens of the prompt.
        reused_tokens: Number of prompt tokens whose keys and values another request had computed.
    """

    tokens: tuple[int, ...]
    text: str | None
    finish_reason: FinishReason
    prompt_tokens: int
    reused_tokens: int


class Output:
    """Output of one request to the engine: its pieces, tokens or text, in order, and its outcome.

    Only the worker's thread appends pieces. `cancel` may end the output on any thread.

    Attributes:
        pieces: Tokens, or pieces of text. They are only appended to.
        outcome: The completion or the error after the last piece; None until then.
        piece_waiters: Waiters for the next piece.
    """

    __slots__ = ("_end_waiters", "_lock", "outcome", "piece_waiters", "pieces")

    def __init__(self) -> None:
        """Begin without pieces, without outcome and without waiters."""
        self.pieces: list[int | str] = []  # text if the engine has a tokenizer, else tokens
        self.outcome: Completion | BaseException | None = None
        self.piece_waiters: list[Waiter] = []
        self._end_waiters: list[Waiter] = []  # wait for the outcome
        self._lock = threading.Lock()

    def finish(self, outcome: Completion | BaseException, wakeups: Wakeups) -> bool:
        """Set the outcome and move all waiters to `wakeups`, which wakes them. Return False if it was set before."""
        with self._lock:
            if self.outcome is not None:
                return False
            self.outcome = outcome
            waiters = self.piece_waiters + self._end_waiters
            self.piece_waiters, self._end_waiters = [], []
        wakeups.add(waiters)
        return True

    def wake(self, wakeups: Wakeups) -> None:
        """Move the waiters for the next piece to `wakeups`, which wakes them."""
        with self._lock:
            waiters, self.piece_waiters = self.piece_waiters, []
        wakeups.add(waiters)

    def abandon(self, error: BaseException) -> None:
        """Set the outcome in the child of a fork, unless it is set. Waiters are dropped: their threads do not exist."""
        self._lock = threading.Lock()  # a thread of the parent may have held the old lock
        self.piece_waiters, self._end_waiters = [], []
        if self.outcome is None:
            self.outcome = error

    def piece(self, index: int) -> int | str | None:
        """Return a piece; after the last one return None, or raise the error that ended the output.

        Call it after `wait(index)`.
        """
        outcome = self.outcome  # read before the pieces, which are complete if there is an outcome
        if index < len(self.pieces):
            return self.pieces[index]
        if isinstance(outcome, BaseException):
            raise outcome.with_traceback(None)  # without the frames of a reader that it was raised to before
        return None

    def completion(self) -> Completion:
        """Return the completion, or raise the error that ended the output. Call it after `wait(None)`."""
        outcome = self.outcome
        if isinstance(outcome, Completion):
            return outcome
        assert outcome is not None
        raise outcome.with_traceback(None)  # without the frames of a reader that it was raised to before

    def wait(self, index: int | None, timeout: float | None = None) -> bool:
        """Block this thread until piece `index` is there or the output has ended; None waits for the end.

        Return False if that takes longer than `timeout` seconds.
        """
        end = None if timeout is None else time.monotonic() + timeout
        while not self._is_ready(index):
            event = threading.Event()
            has_to_wait = self._enroll(index, event)  # else the piece was appended meanwhile
            if has_to_wait and not event.wait(None if end is None else end - time.monotonic()):
                self._withdraw(index, event)
                return False
        return True

    async def wait_async(self, index: int | None) -> None:
        """Wait in a coroutine until piece `index` is there or the output has ended; None waits for the end."""
        while not self._is_ready(index):
            future = asyncio.get_running_loop().create_future()
            if self._enroll(index, future):
                try:
                    await future
                except asyncio.CancelledError:
                    self._withdraw(index, future)
                    raise

    def _is_ready(self, index: int | None) -> bool:
        """Return whether piece `index` exists or the output has ended; None asks for the end only."""
        return self.outcome is not None or (index is not None and index < len(self.pieces))

    def _enroll(self, index: int | None, waiter: Waiter) -> bool:
        """Add a waiter for piece `index`, or for the end if it is None. Return False, without adding it, if the piece
        is there or the output has ended.

        The writer appends a piece first and looks for waiters afterwards. The waiter is therefore added first and the
        piece looked for afterwards, so that none is missed.
        """
        with self._lock:
            waiters = self._waiters(index)
            waiters.append(waiter)
            if not self._is_ready(index):
                return True
            waiters.remove(waiter)
            return False

    def _withdraw(self, index: int | None, waiter: Waiter) -> None:
        """Remove a waiter that has given up, unless it was woken meanwhile."""
        with self._lock:
            waiters = self._waiters(index)
            if waiter in waiters:
                waiters.remove(waiter)

    def _waiters(self, index: int | None) -> list[Waiter]:
        """Return the waiters for the next piece, or for the end if `index` is None."""
        return self._end_waiters if index is None else self.piece_waiters


class Wakeups:
    """Waiters that are collected and woken together. `flush` wakes the coroutines of an event loop by one callback."""

    def __init__(self) -> None:
        """Begin without waiters."""
        self._events: list[threading.Event] = []
        self._futures: dict[asyncio.AbstractEventLoop, list[asyncio.Future[None]]] = {}

    def add(self, waiters: list[Waiter]) -> None:
        """Add waiters for the next `flush`."""
        for waiter in waiters:
            if isinstance(waiter, threading.Event):
                self._events.append(waiter)
            else:
                self._futures.setdefault(waiter.get_loop(), []).append(waiter)

    def flush(self) -> None:
        """Wake all waiters that were added."""
        if self._events:
            for event in self._events:
                event.set()
            self._events.clear()
        if self._futures:
            for loop, futures in self._futures.items():
                try:
                    loop.call_soon_threadsafe(_resolve, futures)
                except RuntimeError:  # the loop was closed, so no task waits in it
                    continue
            self._futures = {}


def _resolve(futures: list[asyncio.Future[None]]) -> None:
    """Resume the coroutines that wait for futures."""
    for future in futures:
        if not future.done():  # its task may have been cancelled
            future.set_result(None)
