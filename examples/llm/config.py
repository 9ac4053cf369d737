"""Configuration of a decoder, as the `config.json` of a model folder states it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from weights import file_of

DEFAULTS: dict[str, Any] = {
    "use_sliding_window": False, "partial_rotary_factor": 1.0, "scale_attn_by_inverse_layer_idx": False,
    "scale_attn_weights": True, "add_cross_attention": False, "quantization_config": None,
    "use_bidirectional_attention": False,
}  # fmt: skip
"""Optional fields, with the only value that these decoders implement; null and a missing field stand for it too."""

ACTIVATIONS = {
    "gemma2": ("hidden_activation", "gelu_pytorch_tanh"), "gpt2": ("activation_function", "gelu_new"),
    **dict.fromkeys(("llama", "mistral", "qwen2", "qwen3"), ("hidden_act", "silu")),
}  # fmt: skip
"""The field of the activation of each `model_type`, and its value."""

GEMMA2_FIELDS = (
    "head_dim", "sliding_window", "query_pre_attn_scalar", "attn_logit_softcapping", "final_logit_softcapping",
)  # fmt: skip
"""Fields that a Gemma 2 model has to state, if only as null: `transformers` replaces a missing one by a number."""


@dataclass(frozen=True)
class Rotary:
    """Rotary position embedding over the `size` features of each head.

    theta: base of the frequencies, of which pair i has theta ** (-2 * i / size). scaling: `rope_type` and its
    parameters, of the configuration; empty for none. is_interleaved: whether features that
    are rotated together are neighbours, as GGUF stores Llama; otherwise they are size / 2 apart.
    """

    size: int
    theta: float = 10000.0
    scaling: tuple[tuple[str, Any], ...] = ()
    is_interleaved: bool = False

    def frequencies(self) -> np.ndarray[Any, Any]:
        """Return the angle per position of each pair of features: f32[size / 2]."""
        values = 1.0 / self.theta ** (np.arange(0, self.size, 2, dtype=np.float32) / np.float32(self.size))
        parameters = dict(self.scaling)
        kind = parameters.get("rope_type", parameters.get("type", "default"))
        if kind == "linear":
            return np.float32(values / parameters["factor"])
        if kind == "llama3":  # high frequencies stay, low ones are divided by the factor
            context = parameters["original_max_position_embeddings"]
            low, high = parameters["low_freq_factor"], parameters["high_freq_factor"]
            smooth = np.clip((context * values / (2 * np.pi) - low) / (high - low), 0, 1)
            return np.float32((1 - smooth) * values / parameters["factor"] + smooth * values)
        if kind != "default":
            raise ValueError(f"config.json: rope_type '{kind}' is not one of default, linear, llama3")
        return np.float32(values)


@dataclass(frozen=True)
class Config:
    """Sizes and variants of a decoder of the Llama, Qwen, Gemma-2 or GPT-2 type."""

    architecture: str
    """`model_type` of the `config.json`, a key of `ACTIVATIONS`."""
    vocabulary: int
    """Number of different tokens."""
    width: int
    """Features of a token between the layers."""
    layers: int
    """Number of blocks of attention and MLP."""
    heads: int
    """Heads of queries, a multiple of `kv_heads`."""
    kv_heads: int
    """Heads of keys and values, each shared by heads / kv_heads heads of queries."""
    head_size: int
    """Features of a head."""
    epsilon: float
    """What normalizations add to the variance or the mean square."""
    max_positions: int
    """Largest number of tokens of a sequence."""
    rotary: Rotary | None = None
    """None: positions are learned, as in GPT-2."""
    has_qk_norm: bool = False
    """Whether queries and keys of a head are normalized before their rotation, as in Qwen 3."""
    window: int | None = None
    """Number of keys that a query sees, its own included; None for its own and all before it."""
    full_layers: frozenset[int] = frozenset()
    """Indices, from 0, of layers to which `window` does not apply."""
    query_scale: float | None = None
    """Factor of the products of queries and keys; None for 1 / sqrt(head_size)."""
    attention_cap: float | None = None
    """Bound of the scores of attention, which cap * tanh(score / cap) keeps them within; None for no bound."""
    score_cap: float | None = None
    """Bound of the scores of words, applied like `attention_cap`; None for no bound."""
    is_tied: bool = False
    """Whether the scores of words are products with the embedding, instead of a weight of their own."""
    end_tokens: tuple[int, ...] = ()
    """Tokens that end an answer."""

    def attention_of(self, layer: int) -> dict[str, Any]:
        """Return the arguments `scale`, `window` and `cap` of the attention of a layer."""
        scale = self.head_size**-0.5 if self.query_scale is None else self.query_scale
        window = None if layer in self.full_layers else self.window
        return {"scale": scale, "window": window, "cap": self.attention_cap}

    @classmethod
    def read(cls, folder: str | Path) -> Config:
        """Read `config.json` of a folder.

        Raises:
            FileNotFoundError: The folder has no such file.
            ValueError: A field is missing, or the architecture, the activation or another field has a value that
                decoders here lack.
        """
        path = file_of(folder, "config.json")
        try:
            fields = json.loads(path.read_text("utf-8"))
        except ValueError as error:
            raise ValueError(f"{path}: no JSON: {error}") from None
        if not isinstance(fields, dict):
            raise ValueError(f"{path}: expected an object of JSON, got {fields!r:.80}")
        architecture = fields.get("model_type")
        if architecture not in ACTIVATIONS:
            raise ValueError(f"{path}: model_type {architecture!r} is not one of {', '.join(sorted(ACTIVATIONS))}")
        name, expected = ACTIVATIONS[architecture]
        activation = fields.get(name, expected)
        if activation != expected:
            raise ValueError(f"{path}: activation {activation!r} of a {architecture} model: expected {expected!r}")
        stated = fields | (fields.get("rope_parameters") or {})
        for name, value in DEFAULTS.items():
            if stated.get(name) not in (value, None):
                raise ValueError(f"{path}: {name} is {stated[name]!r}; decoders of examples/llm have {value!r}")
        end = fields.get("eos_token_id")
        end_tokens = tuple(end if isinstance(end, list) else [] if end is None else [end])
        try:
            return (_of_gpt2 if architecture == "gpt2" else _of_llama)(fields, architecture, end_tokens)
        except KeyError as error:
            raise ValueError(f"{path}: a {architecture} model needs the field {error}") from None


def _of_gpt2(fields: dict[str, Any], architecture: str, end_tokens: tuple[int, ...]) -> Config:
    """Return the configuration of a `config.json` of GPT-2, whose fields have names of their own."""
    width, heads = fields["n_embd"], fields["n_head"]
    return Config(
        architecture, fields["vocab_size"], width, fields["n_layer"], heads, heads, width // heads,
        fields.get("layer_norm_epsilon", 1e-5), fields["n_positions"],
        is_tied=fields.get("tie_word_embeddings", True), end_tokens=end_tokens,
    )  # fmt: skip


def _of_llama(fields: dict[str, Any], architecture: str, end_tokens: tuple[int, ...]) -> Config:
    """Return the configuration of a `config.json` of any other architecture."""
    heads = fields["num_attention_heads"]
    head_size = fields.get("head_dim") or fields["hidden_size"] // heads
    scaling = dict(fields.get("rope_parameters") or fields.get("rope_scaling") or {})
    is_gemma, layers = architecture == "gemma2", fields["num_hidden_layers"]
    stated = {name: fields[name] for name in GEMMA2_FIELDS} if is_gemma else {}
    window = fields.get("sliding_window") or None if is_gemma or architecture == "mistral" else None  # 0 is none too
    # Without `layer_types`, every second layer of Gemma 2 has the window, the first one included.
    types = fields.get("layer_types") or [("sliding_attention", "full_attention")[n % 2] for n in range(layers)]
    theta = scaling.pop("rope_theta", None) or fields.get("rope_theta") or 10000.0
    return Config(
        architecture, fields["vocab_size"], fields["hidden_size"], layers, heads,
        fields.get("num_key_value_heads") or heads, head_size, fields.get("rms_norm_eps", 1e-6),
        fields["max_position_embeddings"], Rotary(head_size, theta, tuple(sorted(scaling.items()))),
        has_qk_norm=architecture == "qwen3", window=window,
        full_layers=frozenset(n for n, kind in enumerate(types) if is_gemma and kind == "full_attention"),
        query_scale=stated["query_pre_attn_scalar"] ** -0.5 if is_gemma else None,
        attention_cap=stated.get("attn_logit_softcapping"), score_cap=stated.get("final_logit_softcapping"),
        is_tied=fields.get("tie_word_embeddings", is_gemma), end_tokens=end_tokens,
    )  # fmt: skip
