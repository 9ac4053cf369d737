"""The engine: requests of many threads and coroutines, generated together."""

from __future__ import annotations

import asyncio
import os
import time
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Generic, overload

from pydispatch.errors import InvalidArgumentError
from pydispatch.generate import arguments
from pydispatch.generate.arguments import Prompt, Stop, Tokenizer
from pydispatch.generate.handle import Handle, Piece
from pydispatch.generate.interface import Exports, GeneratingProgram
from pydispatch.generate.sequence import TokenSequence
from pydispatch.generate.text import TextStream
from pydispatch.generate.worker import Worker

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass(frozen=True)
class Statistics:
    """Counters of an engine at one moment, such as running and waiting requests, for monitoring.

    Attributes:
        running: Number of requests that have a row of the batch.
        waiting: Number of requests that wait to start, or to start again after a preemption.
        steps: Number of calls of `decode` since the engine was created.
        prefills: Number of calls of `prefill` since then.
        preemptions: Number of times that a running request lost its pages to an older one since then.
        pages_used: Number of pages of the cache that running requests reference.
        pages_retained: Number of unreferenced pages that are kept for later prompts with an equal prefix.
        pages_available: Number of pages that can be allocated; retained pages are among them.
    """

    running: int
    waiting: int
    steps: int
    prefills: int
    preemptions: int
    pages_used: int
    pages_retained: int
    pages_available: int


class Engine(Generic[Piece]):
    """An engine that generates tokens for many requests at once.

    In each step, it computes one token of every running request by one call of `decode`, and between two steps one
    chunk of a prompt by `prefill`. Requests join and leave at every step. Prompts with an equal beginning share its
    pages of the cache. When no page is free, the youngest request is preempted, and computed again later.

    A request gets the same tokens as alone: they depend on its arguments only, whatever else runs.

    Any thread and any coroutine may submit requests. One thread runs the steps, and sleeps while there are none. After
    a fork, the child needs an engine of its own.

    Args:
        program: A loaded program with `prefill`, `decode` and `cache_shape` (docs/serving.md). Its cache belongs to the
            engine.
        tokenizer: A tokenizer, or the path of a `tokenizer.json`; None: prompts and answers are tokens.
        max_sequences: Requests that run at once, at most; by default the rows of `decode`.
        max_tokens: Tokens of a prompt and its answer, at most; by default what the cache can hold.
        max_queue: Requests that may wait to be started.
        stop: Tokens and strings that end every request, such as the end-of-text token.
        clock: Function that returns seconds, for deadlines.

    Raises:
        InvalidArgumentError: The program has other functions, another engine uses its cache, or a limit is wrong.

    Example:
        >>> with pd.generate.Engine(program, "tokenizer.json") as engine:
        ...     for piece in engine.submit("Once upon a time", max_new_tokens=50):
        ...         print(piece, end="")
    """

    @overload
    def __init__(
        self: Engine[int],
        program: Exports,
        tokenizer: None = None,
        *,
        max_sequences: int | None = None,
        max_tokens: int | None = None,
        max_queue: int = 256,
        stop: Stop = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None: ...

    @overload
    def __init__(
        self: Engine[str],
        program: Exports,
        tokenizer: Tokenizer | str | os.PathLike[str],
        *,
        max_sequences: int | None = None,
        max_tokens: int | None = None,
        max_queue: int = 256,
        stop: Stop = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None: ...

    def __init__(
        self,
        program: Exports,
        tokenizer: Tokenizer | str | os.PathLike[str] | None = None,
        *,
        max_sequences: int | None = None,
        max_tokens: int | None = None,
        max_queue: int = 256,
        stop: Stop = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Check the arguments, and create the worker: the queue of requests, and the thread that generates tokens.

        The thread starts with the first request. Raise InvalidArgumentError for a program without the functions that an
        engine needs, for a limit beyond those of the program, and if another engine uses the cache of the program.
        """
        generating = GeneratingProgram(program)
        self._page_size = generating.page_size
        self._max_tokens = _limit("max_tokens", max_tokens, generating.max_tokens)
        rows = _limit("max_sequences", max_sequences, generating.rows)
        self._tokenizer = None if tokenizer is None else arguments.load_tokenizer(tokenizer)
        self._stops = arguments.stops(stop, tokenizer is not None)
        self._clock = clock
        max_queue = arguments.positive("max_queue", max_queue)
        self._worker = Worker(generating, rows, max_queue, clock)
        # The thread references the worker, not the engine, and ends when the engine is no longer referenced.
        weakref.finalize(self, self._worker.close, cancel=True)

    def submit(
        self,
        prompt: Prompt,
        *,
        max_new_tokens: int,
        temperature: float = 0.0,
        top_k: int = 0,
        top_p: float = 1.0,
        seed: int = 0,
        stop: Stop = (),
        deadline: float | None = None,
        wait: bool = False,
    ) -> Handle[Piece]:
        """Add a request and return its handle.

        Args:
            prompt: Text, or tokens.
            max_new_tokens: Tokens to generate, at most.
            temperature: Divisor of the logits; 0: the most probable token.
            top_k: Most probable tokens that are considered; 0: all.
            top_p: Probability of the considered tokens together, the most probable first (nucleus sampling); 1: all.
            seed: Seed of the choice. A request with the same arguments gets the same tokens.
            stop: Tokens and strings that end the answer. They do not belong to it.
            deadline: Seconds from now after which the request ends with DeadlineError; None: no deadline.
            wait: Whether this thread waits while the queue is full. In a coroutine, use `submit_async`.

        Raises:
            QueueFullError: `max_queue` requests wait already, and `wait` is False.
            InvalidArgumentError: An argument is wrong, or prompt and answer are too long.
            EngineStoppedError: The engine's thread has failed, for example because its device was lost.
            Error: The engine is closed.
        """
        sequence = self._sequence(prompt, max_new_tokens, temperature, top_k, top_p, seed, stop, deadline)
        handle, accepted = self._started(sequence, wait)
        if accepted is not None:  # the queue is full: wait until it has room
            try:
                accepted.result()
            except BaseException:  # Ctrl-C
                handle.cancel()
                raise
        return handle

    async def submit_async(
        self,
        prompt: Prompt,
        *,
        max_new_tokens: int,
        temperature: float = 0.0,
        top_k: int = 0,
        top_p: float = 1.0,
        seed: int = 0,
        stop: Stop = (),
        deadline: float | None = None,
    ) -> Handle[Piece]:
        """Add a request as `submit` does, and wait in a coroutine while the queue is full. Return its handle.

        A request whose deadline passes before there is room returns a handle too; its result raises DeadlineError. If
        the coroutine is cancelled while it waits, so is the request.

        Raises:
            InvalidArgumentError: An argument is wrong, or prompt and answer are too long.
            EngineStoppedError: The engine's thread has failed.
            Error: The engine is closed.
        """
        sequence = self._sequence(prompt, max_new_tokens, temperature, top_k, top_p, seed, stop, deadline)
        handle, accepted = self._started(sequence, wait=True)
        if accepted is not None:
            try:
                await asyncio.wrap_future(accepted)
            except asyncio.CancelledError:
                handle.cancel()
                raise
        return handle

    def statistics(self) -> Statistics:
        """Return the numbers of requests, steps and pages at this moment."""
        worker, scheduler = self._worker, self._worker.scheduler
        pool, unfinished = scheduler.pool, worker.unfinished
        # After a failure the scheduler still has the sequences that ran, but no request is unfinished.
        running = min(scheduler.running, unfinished)
        return Statistics(
            running=running,
            waiting=unfinished - running,
            steps=scheduler.steps,
            prefills=scheduler.prefills,
            preemptions=scheduler.preemptions,
            pages_used=pool.referenced,
            pages_retained=pool.retained,
            pages_available=pool.available,
        )

    def close(self, cancel: bool = False) -> None:
        """Refuse later requests, and wait until the others have ended.

        Args:
            cancel: Whether unfinished requests are cancelled, instead of computed to their ends.
        """
        self._worker.close(cancel)
        self._worker.join()

    async def aclose(self, cancel: bool = False) -> None:
        """Close the engine as `close` does, and wait in a coroutine."""
        await asyncio.to_thread(self.close, cancel)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the engine. An exception in the block cancels the requests that have not ended."""
        self.close(cancel=error is not None)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose(cancel=error is not None)

    def __repr__(self) -> str:
        """Return the class, and the numbers of running and waiting requests."""
        state = self.statistics()
        return f"<{type(self).__name__}: {state.running} requests run, {state.waiting} wait>"

    def _started(self, sequence: TokenSequence, wait: bool) -> tuple[Handle[Piece], Future[None] | None]:
        """Queue a sequence; return its handle, and a future that is done when the queue has room, None if it has now.

        Raise QueueFullError instead of returning a future if `wait` is False.
        """
        accepted = self._worker.submit(sequence, wait)
        return Handle(sequence, self._worker.cancel, self), accepted

    def _sequence(
        self,
        prompt: Prompt,
        max_new_tokens: int,
        temperature: float,
        top_k: int,
        top_p: float,
        seed: int,
        stop: Stop,
        deadline: float | None,
    ) -> TokenSequence:
        """Return the sequence of a request from the arguments of `submit`, which are checked.

        Raise InvalidArgumentError for arguments out of range, and for a prompt that exceeds the limit of a sequence
        together with the new tokens.
        """
        limit = arguments.positive("max_new_tokens", max_new_tokens)
        sampling = arguments.sampling(temperature, top_k, top_p, seed)
        stops = arguments.stops(stop, self._tokenizer is not None)
        end = float("inf") if deadline is None else self._clock() + arguments.seconds("deadline", deadline)
        tokens = arguments.prompt_tokens(prompt, self._tokenizer)
        if len(tokens) + limit > self._max_tokens:
            raise InvalidArgumentError(
                f"a prompt of {len(tokens)} tokens and max_new_tokens={limit} exceed the limit of {self._max_tokens} "
                "tokens of a sequence; shorten one of them"
            )
        # With a tokenizer, the decoder turns tokens into text as they are generated, and finds the stop strings in it.
        decoder = None
        if self._tokenizer is not None:
            decoder = TextStream(self._tokenizer.decode, self._stops.strings + stops.strings)
        return TokenSequence(
            tokens,
            sampling,
            limit,
            self._page_size,
            stop_tokens=self._stops.tokens | stops.tokens,
            decoder=decoder,
            deadline=end,
        )


def _limit(name: str, value: int | None, largest: int) -> int:
    """Return a limit of the engine: the argument `name`, or `largest`, the limit of the program, if that is None.

    Raise InvalidArgumentError unless it is an integer from 1 to `largest`.
    """
    if value is not None and arguments.positive(name, value) > largest:
        raise InvalidArgumentError(f"{name}: the program takes at most {largest}, got {value}")
    return largest if value is None else value
