"""Handles of submitted requests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Generator, Iterator
from concurrent.futures import CancelledError
from typing import Generic, TypeVar, cast

from pydispatch.generate.output import Completion
from pydispatch.generate.sequence import TokenSequence

Piece = TypeVar("Piece", int, str)
"""Type of the pieces of an answer: tokens, or text for an engine with a tokenizer."""


class Handle(Generic[Piece]):
    """A submitted request. Iterate over its pieces, or wait for its result.

    Pieces are tokens, or pieces of text for an engine with a tokenizer. `for piece in handle` waits on the calling
    thread, `async for piece in handle` and `await handle` in a coroutine. Every iteration begins with the first piece.

    A request that fails raises its error after its last piece: DeadlineError, EngineStoppedError,
    `concurrent.futures.CancelledError`, or the error of the program.

    Example:
        >>> handle = engine.submit("Once upon a time", max_new_tokens=100)
        >>> for piece in handle:
        ...     print(piece, end="", flush=True)
    """

    def __init__(self, sequence: TokenSequence, cancel: Callable[[TokenSequence], bool], owner: object) -> None:
        """Create the handle of a sequence.

        Args:
            sequence: The sequence.
            cancel: Ends the sequence, and returns whether it had not ended before.
            owner: The engine, which is referenced so that it is not closed while a handle exists.
        """
        self._sequence = sequence
        self._output = sequence.output
        self._cancel = cancel
        self._owner = owner

    @property
    def tokens(self) -> tuple[int, ...]:
        """The tokens that are generated so far."""
        return tuple(self._sequence.generated)

    def done(self) -> bool:
        """Return whether the request has ended."""
        return self._output.outcome is not None

    def cancelled(self) -> bool:
        """Return whether the request was cancelled."""
        return isinstance(self._output.outcome, CancelledError)

    def cancel(self) -> bool:
        """End the request now with `concurrent.futures.CancelledError`. Return False if it has ended before.

        The engine frees its row and its pages before the next step.
        """
        return self._cancel(self._sequence)

    def result(self, timeout: float | None = None) -> Completion:
        """Wait for the end of the request and return its completion.

        Args:
            timeout: Seconds to wait, at most; None for no limit.

        Raises:
            TimeoutError: The request has not ended after `timeout` seconds. It goes on.
            CancelledError: The request was cancelled.
            DeadlineError: The deadline of the request has passed.
            EngineStoppedError: The engine cannot go on.
            Error: The program failed for this request.
        """
        if not self._output.wait(None, timeout):
            raise TimeoutError(f"the request has not ended after {timeout} seconds")
        return self._output.completion()

    def __await__(self) -> Generator[None, None, Completion]:
        """Wait in a coroutine for the end of the request, and return its completion."""
        yield from self._output.wait_async(None).__await__()
        return self._output.completion()

    def __iter__(self) -> Iterator[Piece]:
        """Yield the pieces from the first one on; wait on this thread for those that do not exist yet."""
        index = 0
        # Without a timeout, `wait` returns True only. The piece at the index after the last one is None.
        while self._output.wait(index) and (piece := self._output.piece(index)) is not None:
            yield cast(Piece, piece)
            index += 1

    async def __aiter__(self) -> AsyncIterator[Piece]:
        """Yield the pieces from the first one on; wait in a coroutine for those that do not exist yet."""
        index = 0
        await self._output.wait_async(index)
        while (piece := self._output.piece(index)) is not None:
            yield cast(Piece, piece)
            index += 1
            await self._output.wait_async(index)

    def __repr__(self) -> str:
        """Return the class, the state of the request, and the number of tokens generated so far."""
        if self.cancelled():
            state = "cancelled"
        elif self.done():
            state = "ended"
        else:
            state = "submitted"
        return f"<{type(self).__name__}: {state}, {len(self._sequence.generated)} tokens>"
