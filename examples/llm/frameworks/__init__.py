"""Llama-type decoders taken from frameworks, one module for each, with the functions of `Framework`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from config import Config

import pydispatch as pd

Array = np.ndarray[Any, Any]

Step = Callable[[int, int], Array]
"""Function step(token, position) -> scores of the next token, f32[words]. It adds the token to a cache of its own, and
is called with positions 0, 1, 2, ..."""


class Framework(Protocol):
    """The modules of this folder."""

    def compile_decoder(self, folder: str, max_tokens: int, **options: Any) -> pd.Artifact:
        """Compile the model of a folder for sequences of up to `max_tokens`. options: those of `pd.compile`."""

    def step_of(self, program: pd.Program) -> Step:
        """Return the steps of a loaded artifact of `compile_decoder`."""

    def reference(self, folder: str, max_tokens: int) -> Step:
        """Return the steps of the same model in the framework itself."""


def read_llama(folder: str) -> Config:
    """Read the configuration of a model of the Llama type without a sliding window.

    Raise ValueError for other models, and the errors of `Config.read`.

    Qwen 2 is such a model: its projections of queries, keys and values have biases, as those of a Llama may have.
    """
    config = Config.read(folder)
    if config.architecture not in ("llama", "mistral", "qwen2") or config.window is not None:
        kind = f"{config.architecture} model" + (" with a window" if config.window is not None else "")
        raise ValueError(f"{folder}: a {kind}; decoders in JAX and ONNX are of the Llama type: use transformers")
    return config


def steps_with_caches(function: Callable[..., Sequence[Any]], shapes: Sequence[Sequence[Any]]) -> Step:
    """Return steps of function(token i64[1, 1], *pasts) -> (scores f32[1, 1, words], *presents).

    Pasts are the keys and values of earlier tokens, [1, kv_heads, p, size], and presents those of one token more: the
    arguments of the next call. shapes: those of the pasts; p is not read, since the caches begin with no token. Their
    length tells the function the position, so that the step does not pass it.
    """
    caches: Sequence[Any] = [np.zeros((*shape[:2], 0, shape[3]), np.float32) for shape in shapes]

    def step(token: int, position: int) -> Array:
        """Call the function with the caches, and keep the caches that it returns for the next step."""
        nonlocal caches
        scores, *caches = function(np.array([[token]]), *caches)
        return np.asarray(scores)[0, 0]

    return step
