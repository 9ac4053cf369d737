"""A decoder of the Llama, Qwen, Gemma-2 or GPT-2 type, in NumPy, as programs that share weights and a paged cache.

`prefill` takes one sequence's next tokens, `decode` the next token of several sequences. Both have one signature,
which `Decoder.step` documents.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from architectures import architecture_of
from config import Config
from gguf_file import read_gguf
from layers import attend
from sampling import sample
from weights import Weights

import pydispatch as pd

Array = Any
"""An array of NumPy, or one of a program."""

SCRAP_PAGE = 0
"""Page of the cache that padding writes to, the tokens of a row after its count; it belongs to no sequence."""


class Decoder:
    """Programs of one model.

    Args:
        config: Its sizes.
        weights: Its arrays, by the names of `transformers`.
        chunk: Tokens that a call of `prefill` takes.
        max_sequences: Rows of a call of `decode`.
        max_tokens: Tokens of the longest sequence; the default and the limit is that of the model.
        page_size: Tokens of a page of the cache.
        num_pages: Pages of the cache, `SCRAP_PAGE` included. The default holds `max_sequences` of the longest
            sequences.
        cache_dtype: Type of keys and values in the cache.
    """

    def __init__(
        self, config: Config, weights: Mapping[str, Array], *, chunk: int = 64, max_sequences: int = 4,
        max_tokens: int | None = None, page_size: int = 16, num_pages: int | None = None, cache_dtype: Any = np.float32,
    ) -> None:  # fmt: skip
        """Create the layers, and the states that hold the keys and the values of each layer."""
        self.config, self.architecture = config, architecture_of(config, weights)
        self.chunk, self.max_sequences, self.page_size = chunk, max_sequences, page_size
        self.pages_per_sequence = -(-min(max_tokens or config.max_positions, config.max_positions) // page_size)
        self.num_pages = num_pages or 1 + max_sequences * self.pages_per_sequence
        shape = (self.num_pages, config.kv_heads, page_size, config.head_size)  # a head reads contiguous memory
        zeros = np.zeros(shape, cache_dtype)
        zeros.flags.writeable = False  # all states begin with this array, and do not copy it
        self.keys, self.values = ([pd.state(zeros) for _ in range(config.layers)] for _ in range(2))

    @classmethod
    def read(cls, path: str | Path, **options: Any) -> "Decoder":
        """Read a folder with `config.json` and safetensors files, or a GGUF file. options: those of the class."""
        if Path(path).suffix == ".gguf":
            return cls(*read_gguf(path), **options)
        return cls(Config.read(path), Weights(path), **options)

    def programs(self) -> dict[str, Any]:
        """Return the programs of an artifact by name: `prefill`, `decode`, `cache_shape`."""
        shape = np.array([self.num_pages, self.page_size], np.int32)  # for the engine that assigns pages

        @pd.program
        def cache_shape() -> np.ndarray[Any, Any]:
            """Return the number of pages and the tokens of a page."""
            return shape

        return {
            "prefill": self.step(1, self.chunk), "decode": self.step(self.max_sequences, 1), "cache_shape": cache_shape,
        }  # fmt: skip

    def step(self, rows: int, length: int) -> Any:
        """Return the program that adds `length` tokens to each of `rows` sequences and draws the next one of each.

        Row s holds counts[s] tokens of a sequence, from its position starts[s] on; 0 tokens leave the row unused.
        Position q of the sequence is in page pages[s, q // page_size] of the cache. The row's result, i32[rows], is
        the token after its last one; `sampling.sample` describes how it is drawn.
        """
        numbers, factors = pd.i32[rows], pd.f32[rows]

        @pd.program
        def step(
            tokens: Annotated[Array, pd.i32[rows, length]],
            starts: Annotated[Array, numbers],
            counts: Annotated[Array, numbers],
            pages: Annotated[Array, pd.i32[rows, self.pages_per_sequence]],
            temperature: Annotated[Array, factors],
            top_k: Annotated[Array, numbers],
            top_p: Annotated[Array, factors],
            seeds: Annotated[Array, numbers],
        ) -> Array:
            """Add the tokens to the cache, and draw the next token of each row; see `Decoder.step`."""
            last = np.maximum(counts - 1, 0)
            x = self.features(tokens, starts, counts, pages)
            scores = self.architecture.scores(x[np.arange(rows), last][:, None])[:, 0]
            return sample(scores, starts + last, temperature, top_k, top_p, seeds)

        return step

    def all_scores(self, rows: int, length: int) -> Any:
        """Return the program that adds tokens as `step` does, and returns their scores: f32[rows, length, words]."""
        numbers = pd.i32[rows]

        @pd.program
        def all_scores(
            tokens: Annotated[Array, pd.i32[rows, length]],
            starts: Annotated[Array, numbers],
            counts: Annotated[Array, numbers],
            pages: Annotated[Array, pd.i32[rows, self.pages_per_sequence]],
        ) -> Array:
            """Add the tokens to the cache, and return the scores after each of them."""
            return self.architecture.scores(self.features(tokens, starts, counts, pages))

        return all_scores

    def features(self, tokens: Array, starts: Array, counts: Array, pages: Array) -> Array:
        """Add tokens to the cache, and return the features of each after the last layer: f32[s, t, width].

        The arguments are those of `step`.
        """
        rows, length = tokens.shape
        offsets = np.arange(length, dtype=np.int32)[None]
        positions = starts[:, None] + offsets
        # A position of padding may be beyond the last page.
        column = np.minimum(positions // self.page_size, self.pages_per_sequence - 1)
        page = np.where(offsets < counts[:, None], np.take_along_axis(pages, column, axis=1), SCRAP_PAGE)
        slot = positions % self.page_size
        x = self.architecture.embed(tokens, positions)
        for layer, (keys, values) in enumerate(zip(self.keys, self.values, strict=True)):
            queries, *new = self.architecture.projections(layer, x, positions)
            cached = []
            for state, added in zip((keys, values), new, strict=True):
                state[page, :, slot] = added
                cached.append(state[pages].swapaxes(2, 3).reshape(rows, -1, *added.shape[2:]))
            attended = attend(queries, *cached, positions, **self.config.attention_of(layer))
            x = x + self.architecture.output(layer, attended)
            x = x + self.architecture.mlp(layer, x)
        return x
