"""A generating program in NumPy whose tokens depend on everything that the engine has to keep right.

The "keys and values" of a position are its token and its position. The next token of a row is a hash of what it reads
back *through the page table* for all positions up to its own, and of the sampling parameters: a wrong page, start,
count or seed changes the answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np

VOCABULARY = 97
SCRAP = 0


@dataclass
class Value:
    dtype: Any
    shape: Any


@dataclass
class Function:
    """`prefill` or `decode`, with as many rows and tokens as its arguments have."""

    program: FakeProgram
    rows: int
    width: int
    calls: int = 0

    @property
    def inputs(self) -> list[Value]:
        rows, i32, f32 = self.rows, np.dtype(np.int32), np.dtype(np.float32)
        return [
            Value(i32, (rows, self.width)), Value(i32, (rows,)), Value(i32, (rows,)),
            Value(i32, (rows, self.program.table_pages)), Value(f32, (rows,)), Value(i32, (rows,)),
            Value(f32, (rows,)), Value(i32, (rows,)),
        ]  # fmt: skip

    def prepare(self, *args: np.ndarray, out: np.ndarray) -> Callable[[], np.ndarray]:
        assert [(a.dtype, a.shape) for a in args] == [(v.dtype, v.shape) for v in self.inputs]

        def call() -> np.ndarray:
            self.calls += 1
            if self.program.gate is not None:
                self.program.gate(self)
            unused = args[2] == 0
            assert self.program.failing or (args[3][unused] == SCRAP).all(), "an unused row has pages"
            assert (args[0] >= 0).all(), "programs may look up tokens of unused rows too"
            for row in np.flatnonzero(args[2]):
                out[row] = self.program.compute(*(argument[row] for argument in args))
            out[unused] = -12345  # what unused rows return means nothing
            return out

        return call


@dataclass
class FakeProgram:
    """A program with `prefill`, `decode` and `cache_shape`.

    gate: called at the start of each call, to wait or to fail. failing: tokens for which a call fails.
    """

    rows: int = 4
    chunk: int = 8
    page_count: int = 33
    page_size: int = 4
    table_pages: int = 16
    gate: Callable[[Function], None] | None = None
    failing: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        self.cache = np.full((self.page_count, self.page_size, 2), -1, np.int64)
        self.functions: dict[str, Any] = {
            "prefill": Function(self, 1, self.chunk),
            "decode": Function(self, self.rows, 1),
            "cache_shape": lambda: np.array([self.page_count, self.page_size], np.int32),
        }

    __hash__ = object.__hash__

    def __contains__(self, name: object) -> bool:
        return name in self.functions

    def __getitem__(self, name: str) -> Any:
        return self.functions[name]

    def compute(
        self,
        tokens: np.ndarray,
        start: int,
        count: int,
        pages: np.ndarray,
        temperature: float,
        top_k: int,
        top_p: float,
        seed: int,
    ) -> int:
        """The token after the last valid one of a row, which writes its tokens into the cache first."""
        positions = np.arange(start, start + count)
        used = pages[: (start + count - 1) // self.page_size + 1]
        assert (used > SCRAP).all() and (used < self.page_count).all(), "a page table lacks a page"
        assert (pages[len(used) :] == SCRAP).all(), "a page table has pages that are not used"
        if self.failing & {int(token) for token in tokens[:count]}:
            raise ValueError("a token that fails")
        self.cache[pages[positions // self.page_size], positions % self.page_size, 0] = tokens[:count]
        self.cache[pages[positions // self.page_size], positions % self.page_size, 1] = positions
        everything = np.arange(start + count)
        history = self.cache[pages[everything // self.page_size], everything % self.page_size]
        assert (history[:, 1] == everything).all(), "a page holds other positions"
        return next_token(history[:, 0].tolist(), temperature, top_k, top_p, seed)


def next_token(tokens: list[int], temperature: float, top_k: int, top_p: float, seed: int) -> int:
    """The token that follows `tokens`. Without a temperature, the other parameters have no effect."""
    parameters = [int(1000 * temperature), top_k, int(1000 * top_p), seed] if temperature else []
    digest = blake2b(np.array([*tokens, len(tokens), *parameters], np.int64).tobytes(), digest_size=8)
    return int.from_bytes(digest.digest(), "little") % VOCABULARY


def expected(
    prompt: list[int],
    max_new_tokens: int,
    temperature: float = 0,
    top_k: int = 0,
    top_p: float = 1,
    seed: int = 0,
    stop: tuple[int, ...] = (),
) -> list[int]:
    """The answer of a request alone, from its arguments only."""
    tokens: list[int] = []
    while len(tokens) < max_new_tokens:
        token = next_token([*prompt, *tokens], temperature, top_k, top_p, seed)
        if token in stop:
            break
        tokens.append(token)
    return tokens
