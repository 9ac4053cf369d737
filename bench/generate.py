"""Cost of the engine for text: CPU time of a step beside a program that computes nothing.

    python bench/generate.py [--steps N] [--json FILE]

Each sequence decodes; its prompt is computed before. "engine" is the step alone. "coroutines" is the whole process
while a coroutine reads the tokens of each sequence one by one; "threads" the same with a thread for each. A program
that computes nothing wakes readers far more often than one that computes, so these two are upper bounds.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

sys.path.append(str(Path(__file__).parent))

from report.figures import OURS, Figures, Row, parser, table

from pydispatch.generate import Engine, Handle
from pydispatch.generate.interface import ARGUMENTS, GeneratingProgram
from pydispatch.generate.scheduler import Scheduler
from pydispatch.generate.sequence import Sampling, TokenSequence

ROUNDS = 5
"""How often each way is measured, in turns; the least CPU time counts."""
PAGE_SIZE = 16
"""Tokens in a page of the KV cache."""
CHUNK = 64
"""Tokens of a prompt that one call of "prefill" computes."""


class Idle:
    """Stand-in for a loaded program with "prefill" and "decode", which computes nothing and returns the same tokens.

    rows: sequences in a step of "decode". max_tokens: of a sequence with its prompt.
    """

    def __init__(self, rows: int, max_tokens: int) -> None:
        """Create the functions; each sequence has pages for `max_tokens` tokens."""
        self._pages = -(-max_tokens // PAGE_SIZE)  # of a sequence, rounded up
        self._functions = {
            "prefill": self._function(1, CHUNK),
            "decode": self._function(rows, 1),
            # (pages, tokens in a page); page 0 belongs to no sequence.
            "cache_shape": lambda: np.array([1 + rows * self._pages, PAGE_SIZE], np.int32),
        }

    def __contains__(self, name: object) -> bool:
        return name in self._functions

    def __getitem__(self, name: str) -> Any:
        return self._functions[name]

    def _function(self, rows: int, width: int) -> Any:
        """Return a stand-in for a step of `rows` sequences with `width` tokens each; its calls do not change `out`."""
        widths = {"tokens": (width,), "pages": (self._pages,)}
        inputs = [SimpleNamespace(dtype=dtype, shape=(rows, *widths.get(name, ()))) for name, dtype, _ in ARGUMENTS]

        def prepare(*args: np.ndarray, out: np.ndarray) -> Callable[[], np.ndarray]:
            """Return the prepared call: it returns `out` as it is."""
            return lambda: out

        return SimpleNamespace(inputs=inputs, prepare=prepare)


def engine_alone(rows: int, steps: int) -> float:
    """Return the CPU seconds of a step that decodes a token of `rows` sequences, without readers of the tokens."""
    # A prompt of 10 tokens and an answer of steps + 2 * rows + 2, with room to spare.
    program = GeneratingProgram(Idle(rows, max_tokens=steps + 2 * rows + 64))

    def ignore(sequence: TokenSequence) -> None:
        """Do nothing when a sequence starts or ends."""

    scheduler = Scheduler(program, max_sequences=rows, clock=time.monotonic, on_start=ignore, on_end=ignore)
    for order in range(rows):
        prompt = np.full(10, order, np.int32)
        # More tokens than steps: sequences decode while others still prefill, and none may end.
        sequence = TokenSequence(prompt, Sampling(), steps + 2 * rows + 2, PAGE_SIZE)
        sequence.order = order
        scheduler.add(sequence)
    while scheduler.prefills < rows:  # prompts are not part of the figure
        scheduler.step()
    start = time.process_time()
    for _ in range(steps):
        scheduler.step()
    seconds = (time.process_time() - start) / steps
    assert scheduler.running == rows
    return seconds


def submitted(engine: Engine[int], rows: int, steps: int) -> list[Handle[int]]:
    """Submit `rows` prompts of 10 tokens, and return their handles; each answer has `steps` tokens."""
    return [engine.submit([row] * 10, max_new_tokens=steps) for row in range(rows)]


def with_coroutines(rows: int, steps: int) -> float:
    """Return the CPU seconds of the process for each step, while a coroutine reads the tokens of each sequence."""

    async def read(handle: Handle[int]) -> None:
        """Await the tokens of a sequence until its end."""
        async for _ in handle:
            pass

    async def main() -> float:
        """Decode all sequences, and return the CPU seconds of a step."""
        async with Engine(Idle(rows, max_tokens=steps + 64)) as engine:  # room for a prompt of 10 tokens
            start = time.process_time()
            await asyncio.gather(*map(read, submitted(engine, rows, steps)))
            return (time.process_time() - start) / engine.statistics().steps

    return asyncio.run(main())


def with_threads(rows: int, steps: int) -> float:
    """Return the CPU seconds of the process for each step, while a thread reads the tokens of each sequence."""

    def read(handle: Handle[int]) -> None:
        """Read the tokens of a sequence until its end."""
        for _ in handle:
            pass

    with Engine(Idle(rows, max_tokens=steps + 64)) as engine:  # room for a prompt of 10 tokens
        start = time.process_time()
        threads = [threading.Thread(target=read, args=(handle,)) for handle in submitted(engine, rows, steps)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return (time.process_time() - start) / engine.statistics().steps


def main() -> None:
    """Measure steps of 1 to 64 sequences in each way, and print the least CPU times."""
    arguments = parser(__doc__)
    arguments.add_argument("--steps", type=int, default=2000)
    args = arguments.parse_args()
    figures = Figures("The engine for text", f"CPU time of a step, the least of {ROUNDS} runs of {args.steps:,} steps.")
    ways = {"engine": engine_alone, "coroutines": with_coroutines, "threads": with_threads}
    for rows in (1, 4, 16, 64):
        best = dict.fromkeys(ways, float("inf"))
        for _ in range(ROUNDS):
            for name, measure in ways.items():
                best[name] = min(best[name], measure(rows, args.steps))
        size = f"{rows} sequence{'' if rows == 1 else 's'}"
        lines = [Row("a step", f"{OURS}, {name}", best[name], size=size) for name in ways]
        print(table(lines), flush=True)
        figures.rows += lines
    if args.json:
        figures.save(args.json)


if __name__ == "__main__":
    main()
