"""Arguments of a request, checked and converted."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from pydispatch.errors import InvalidArgumentError
from pydispatch.generate.sequence import Sampling
from pydispatch.packages import importing

_INT32 = np.iinfo(np.int32)
"""Limits of tokens, top_k and seed, which the program takes as i32."""
_FLOAT32 = np.finfo(np.float32)
"""Limits of temperature and top_p, which the program takes as f32."""

Prompt = str | Sequence[int] | np.ndarray
"""Prompt of a request: text, or tokens."""
Stop = int | str | Iterable[int | str]
"""Argument `stop` of a request: a stop token or a stop string, which ends the completion, or several."""


class Tokenizer(Protocol):
    """A tokenizer of `tokenizers` or `transformers`, or an object with the same two methods."""

    def encode(self, text: str, /) -> Any:
        """Return the tokens of a text, or an object with them as `ids`."""

    def decode(self, tokens: Sequence[int], /) -> str:
        """Return the text of tokens."""


def load_tokenizer(tokenizer: Tokenizer | str | os.PathLike[str]) -> Tokenizer:
    """Return a tokenizer: the argument itself, or the one in the file `tokenizer.json` at this path."""
    if not isinstance(tokenizer, (str, os.PathLike)):
        return tokenizer
    with importing("a tokenizer", "llm"):
        import tokenizers
    try:
        return tokenizers.Tokenizer.from_file(os.fspath(tokenizer))
    except Exception as error:
        raise InvalidArgumentError(f"tokenizer: {os.fspath(tokenizer)}: {error}") from error


def prompt_tokens(prompt: Prompt, tokenizer: Tokenizer | None) -> np.ndarray:
    """Return the tokens of a prompt, a text or integers, as i32[n], n > 0.

    Raise InvalidArgumentError for text without a tokenizer or with lone surrogates (U+D800 to U+DFFF, which UTF-8
    cannot encode), for no tokens, and for tokens that are no integers from 0 to the largest i32.
    """
    if isinstance(prompt, str):
        try:
            prompt.encode()
        except UnicodeEncodeError as error:
            raise InvalidArgumentError(
                f"prompt: expected Unicode text, got {prompt[error.start]!r} at position {error.start}"
            ) from None
        if tokenizer is None:
            raise InvalidArgumentError(
                "prompt: text needs a tokenizer; create the engine with tokenizer=, or pass tokens"
            )
        encoding = tokenizer.encode(prompt)
        # `tokenizers` returns an object with the list of tokens as `ids`; `transformers` returns the list itself.
        prompt = getattr(encoding, "ids", encoding)
    try:
        tokens = np.array(prompt)
    except ValueError:  # lists of different lengths
        tokens = np.array(None)  # of rank 0, so it is refused below
    if tokens.ndim != 1 or not tokens.size or not np.issubdtype(tokens.dtype, np.integer):
        raise InvalidArgumentError(
            f"prompt: expected one token or more, as integers in one dimension, got {prompt!r:.80}"
        )
    if tokens.min() < 0 or tokens.max() > _INT32.max:
        wrong = tokens[(tokens < 0) | (tokens > _INT32.max)][0]
        raise InvalidArgumentError(f"prompt: expected tokens from 0 to {_INT32.max}, got {wrong}")
    return tokens.astype(np.int32)


def sampling(temperature: float, top_k: int, top_p: float, seed: int) -> Sampling:
    """Return checked parameters of sampling, in the range of the program's f32 and i32; see `Engine.submit`.

    Raise InvalidArgumentError for values out of range.
    """
    _check("temperature", temperature, lambda n: 0 <= n < float("inf"), "a number, at least 0", accepts_floats=True)
    _check("top_k", top_k, lambda n: 0 <= n <= _INT32.max, "a number of tokens, or 0 for all")
    _check("top_p", top_p, lambda n: 0 < n <= 1, "a probability above 0, up to 1", accepts_floats=True)
    _check("seed", seed, lambda n: _INT32.min <= n <= _INT32.max, "an integer of 32 bits")
    # As f32, a larger temperature would be infinite, and a smaller top_p would be 0.
    temperature, top_p = min(temperature, float(_FLOAT32.max)), max(top_p, float(_FLOAT32.tiny))
    return Sampling(float(temperature), int(top_k), float(top_p), int(seed))


class Stops(NamedTuple):
    """Tokens and strings that end an answer; they are not a part of its text."""

    tokens: frozenset[int]
    strings: tuple[str, ...]


def stops(stop: Stop, has_tokenizer: bool) -> Stops:
    """Return the stop tokens and the stop strings of an argument `stop`.

    Raise InvalidArgumentError for other entries, for "", and for strings without a tokenizer.
    """
    entries = list(stop) if isinstance(stop, Iterable) and not isinstance(stop, str) else [stop]
    for entry in entries:
        if isinstance(entry, bool) or not isinstance(entry, (int, str, np.integer)) or entry == "":
            raise InvalidArgumentError(f"stop: expected tokens and strings that are not empty, got {entry!r}")
    strings = tuple(entry for entry in entries if isinstance(entry, str))
    if strings and not has_tokenizer:
        raise InvalidArgumentError(f"stop: {strings[0]!r} needs a tokenizer; create the engine with tokenizer=")
    return Stops(frozenset(int(entry) for entry in entries if not isinstance(entry, str)), strings)


def positive(name: str, value: int) -> int:
    """Return the argument `name` as an int. Raise InvalidArgumentError unless it is an integer of at least 1."""
    _check(name, value, lambda n: n >= 1, "a number, at least 1")
    return int(value)


def seconds(name: str, value: float) -> float:
    """Return the argument `name`, in seconds. Raise InvalidArgumentError unless it is a number of at least 0."""
    _check(name, value, lambda n: n >= 0, "seconds, at least 0", accepts_floats=True)
    return float(value)


def _check(name: str, value: Any, is_valid: Callable[[Any], bool], expected: str, accepts_floats: bool = False) -> None:
    """Raise InvalidArgumentError unless an argument is an integer, or a float where these are accepted, and valid.

    name: the argument's name for the error. expected: description of valid values for the error.
    """
    kinds = (int, float, np.integer, np.floating) if accepts_floats else (int, np.integer)
    if isinstance(value, bool) or not isinstance(value, kinds) or not is_valid(value):  # bool is a subclass of int
        raise InvalidArgumentError(f"{name}: expected {expected}, got {value!r}")
