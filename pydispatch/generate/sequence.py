"""A request inside the engine: its tokens, its pages, and its state."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass

import numpy as np

from pydispatch.generate.output import Output
from pydispatch.generate.pages import page_key
from pydispatch.generate.text import TextStream

WAITING = -1
"""Row of a sequence that does not run."""


@dataclass(frozen=True)
class Sampling:
    """Parameters of a request by which each token is chosen, such as the temperature.

    Attributes:
        temperature: Divisor of the logits; 0: the token with the largest logit.
        top_k: Number of most probable tokens that are considered; 0: all.
        top_p: Probability that the considered tokens have together, the most probable first; 1: all.
        seed: Seed of the random numbers, which depend on it and on the token's position in the sequence alone.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0


class TokenSequence:
    """Request inside of the engine: its tokens, and which of their keys and values are in the cache.

    `Engine.submit` creates it. The scheduler runs its prompt and computes its tokens.

    Attributes:
        order: Number of the request, set when it is submitted: older requests have smaller ones.
        prompt: Tokens of the prompt: i32[n], n > 0.
        sampling: Parameters of the choice of each token.
        generated: Tokens after the prompt.
        limit: Length of `generated` at most.
        stop_tokens: Tokens that end the sequence and do not belong to it.
        decoder: Turns the generated tokens into text; None without a tokenizer.
        deadline: Time of the engine's clock, in seconds, at which the request ends with an error; infinity: none.
        output: Pieces and outcome, for readers.
        accepted: Future that is done when the queue has room for the sequence; None if it had room at once.
        has_started: Whether it has left the queue: it has run, or runs. It stays True after a preemption.
        row: Row of the decode batch that is reserved for it, or WAITING.
        is_decoding: Whether its prompt is computed, and it is in the decode batch.
        computed: Number of leading tokens, of prompt and answer, whose keys and values are in the cache.
        pages: Page of the cache for each `page_size` tokens, in order: those of the computed tokens, and of the tokens
            that are computed next.
        page_keys: Keys (`pages.page_key`) of leading pages whose tokens are all known, also while the sequence waits;
            equal pages of other sequences have equal keys.
        published: Number of leading pages that the pool has under their keys, so that other sequences find them.
        reused: Number of prompt tokens that were in the cache when the sequence started first; None before.
    """

    __slots__ = (
        "_page_size", "accepted", "computed", "deadline", "decoder", "generated", "has_started", "is_decoding", "limit",
        "order", "output", "page_keys", "pages", "prompt", "published", "reused", "row", "sampling", "stop_tokens",
    )  # fmt: skip

    def __init__(
        self,
        prompt: np.ndarray,
        sampling: Sampling,
        limit: int,
        page_size: int,
        *,
        stop_tokens: frozenset[int] = frozenset(),
        decoder: TextStream | None = None,
        deadline: float = float("inf"),
    ) -> None:
        """Create a sequence without pages, and compute the keys of the pages that its prompt fills.

        `page_size` is the number of tokens of a page. For the other parameters, see the class.
        """
        self.order = 0  # set by the worker
        self.prompt = prompt
        self.generated: list[int] = []
        self.sampling = sampling
        self.limit = limit
        self.stop_tokens = stop_tokens
        self.decoder = decoder
        self.deadline = deadline
        self.output = Output()
        self.accepted: Future[None] | None = None
        self.has_started = False
        self.page_keys: list[bytes] = []
        self.reused: int | None = None
        self.forget_pages()
        self._page_size = page_size
        self.extend_page_keys(len(prompt) // page_size)

    def forget_pages(self) -> None:
        """Reset the sequence to the state of a waiting one, without a row and pages; its tokens and keys stay."""
        self.row = WAITING
        self.is_decoding = False
        self.computed = self.published = 0
        self.pages: list[int] = []

    @property
    def length(self) -> int:
        """Number of known tokens: of the prompt, and generated ones."""
        return len(self.prompt) + len(self.generated)

    @property
    def reusable_keys(self) -> list[bytes]:
        """Keys of the leading pages that need not be computed if another sequence has computed them.

        A page with the last known token is not among them: computing that token samples the next one.
        """
        return self.page_keys[: (self.length - 1) // self._page_size]

    def extend_page_keys(self, count: int) -> None:
        """Extend `page_keys` to the first `count` pages, whose tokens are all known.

        A key also depends on how many tokens of the page belong to the prompt: `prefill` computes these, `decode` the
        generated ones, and the two may round differently.
        """
        size, prompt_length = self._page_size, len(self.prompt)
        while len(self.page_keys) < count:
            start = len(self.page_keys) * size
            tokens = self.prompt[start : start + size]
            prompt_tokens = len(tokens)
            if prompt_tokens < size:  # fill the page with generated tokens; `begin` and `end` count these from 0
                begin = max(0, start - prompt_length)
                end = start + size - prompt_length
                tokens = np.concatenate([tokens, np.array(self.generated[begin:end], np.int32)])
            previous_key = self.page_keys[-1] if self.page_keys else b""
            self.page_keys.append(page_key(previous_key, tokens, prompt_tokens))
