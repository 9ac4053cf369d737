"""The layers in which decoders differ: embedding, projections, MLP, head. Weights have the names of `transformers`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np
from config import Config
from layers import capped, embed, gelu, layer_norm, linear, rms_norm, rotate, silu

Array = Any
"""An array of NumPy, or one of a program."""


class Architecture(Protocol):
    """Computation of a decoder around attention, for s sequences of t tokens each.

    x is f32[s, t, width]; layers are counted from 0. The caller adds the results of output() and mlp() to x.
    """

    def embed(self, tokens: Array, positions: Array) -> Array:
        """Return the first x for tokens and their positions in the sequence, from 0: both [s, t]."""

    def projections(self, layer: int, x: Array, positions: Array) -> tuple[Array, Array, Array]:
        """Return queries, keys and values [s, t, heads, size] of the normalized x."""

    def output(self, layer: int, attended: Array) -> Array:
        """Return the projection of the attended values [s, t, heads * size] to [s, t, width]."""

    def mlp(self, layer: int, x: Array) -> Array:
        """Return the result of the MLP, [s, t, width], on the normalized x."""

    def scores(self, x: Array) -> Array:
        """Return the scores [s, t, vocabulary] of the normalized x."""


class Llama:
    """Llama, Qwen 2 (biases of Q, K and V) and Qwen 3 (normalized Q and K)."""

    def __init__(self, config: Config, weights: Mapping[str, Array]) -> None:
        """Take a configuration, whose positions are rotary, and the weights."""
        assert config.rotary is not None
        self.config, self.weights, self.rotary = config, weights, config.rotary

    def embed(self, tokens: Array, positions: Array) -> Array:
        """Return the rows of the embedding; positions are applied in `projections`."""
        return embed(self.weights["model.embed_tokens.weight"], tokens)

    def projections(self, layer: int, x: Array, positions: Array) -> tuple[Array, Array, Array]:
        """Return queries and keys with rotary positions, and values; Qwen 3 first normalizes Q and K."""
        name, config = f"model.layers.{layer}", self.config
        x = self._norm(x, f"{name}.input_layernorm")
        queries, keys, values = (
            self._linear(x, f"{name}.self_attn.{letter}_proj").reshape(*x.shape[:2], heads, config.head_size)
            for letter, heads in (("q", config.heads), ("k", config.kv_heads), ("v", config.kv_heads))
        )
        if config.has_qk_norm:
            queries = self._norm(queries, f"{name}.self_attn.q_norm")
            keys = self._norm(keys, f"{name}.self_attn.k_norm")
        return rotate(queries, positions, self.rotary), rotate(keys, positions, self.rotary), values

    def output(self, layer: int, attended: Array) -> Array:
        """Return the output projection of the attention's result `attended` in a layer."""
        return self._linear(attended, f"model.layers.{layer}.self_attn.o_proj")

    def mlp(self, layer: int, x: Array) -> Array:
        """Return the MLP, gated by SiLU, of x after a norm."""
        x = self._norm(x, f"model.layers.{layer}.post_attention_layernorm")
        return self._gated(layer, x, silu)

    def scores(self, x: Array) -> Array:
        """Return the products of x after a norm and the head, or the embedding if they are tied."""
        x = self._norm(x, "model.norm")
        # Tied: the head has the weights of the embedding.
        return self._linear(x, "model.embed_tokens" if self.config.is_tied else "lm_head")

    def _gated(self, layer: int, x: Array, activation: Callable[[Array], Array]) -> Array:
        """Return the gated MLP of x, which is normalized already: down(activation(gate(x)) * up(x))."""
        name = f"model.layers.{layer}.mlp"
        gate, up = (self._linear(x, f"{name}.{part}_proj") for part in ("gate", "up"))
        return self._linear(activation(gate) * up, f"{name}.down_proj")

    def _norm(self, x: Array, name: str) -> Array:
        """Apply the RMS norm whose weight has this name."""
        return rms_norm(x, self.weights[f"{name}.weight"], self.config.epsilon)

    def _linear(self, x: Array, name: str) -> Array:
        """Multiply by the weight of that name, and add its bias if the model has one."""
        return linear(x, self.weights[f"{name}.weight"], self.weights.get(f"{name}.bias"))


class Gemma2(Llama):
    """Gemma 2: scaled embeddings, norms before and after attention and MLP, an MLP with GELU, bounded scores."""

    def embed(self, tokens: Array, positions: Array) -> Array:
        """Return the rows of the embedding times the root of the width."""
        return super().embed(tokens, positions) * np.float32(self.config.width**0.5)

    def output(self, layer: int, attended: Array) -> Array:
        """Return the projection of the attended values after a norm."""
        return self._norm(super().output(layer, attended), f"model.layers.{layer}.post_attention_layernorm")

    def mlp(self, layer: int, x: Array) -> Array:
        """Return the MLP, gated by GELU, between two norms."""
        x = self._norm(x, f"model.layers.{layer}.pre_feedforward_layernorm")
        return self._norm(self._gated(layer, x, gelu), f"model.layers.{layer}.post_feedforward_layernorm")

    def scores(self, x: Array) -> Array:
        """Return the scores within the bound of the configuration."""
        return capped(super().scores(x), self.config.score_cap)

    def _norm(self, x: Array, name: str) -> Array:
        """Normalize by a weight that is stored as its difference from 1."""
        return rms_norm(x, 1 + self.weights[f"{name}.weight"].astype(np.float32), self.config.epsilon)


class Gpt2:
    """GPT-2: learned positions, LayerNorm, an MLP with GELU, weights stored [in, out]."""

    def __init__(self, config: Config, weights: Mapping[str, Array]) -> None:
        """Take a configuration, and the weights, whose names may begin with "transformer."."""
        self.config, self.weights = config, weights
        # Of all names but lm_head: files of the model without a head omit it.
        self.prefix = "transformer." if "transformer.wte.weight" in weights else ""

    def embed(self, tokens: Array, positions: Array) -> Array:
        """Return the sum of the rows of two tables: of the tokens, and of their positions."""
        token_table, position_table = (self.weights[f"{self.prefix}{name}.weight"] for name in ("wte", "wpe"))
        return embed(token_table, tokens) + embed(position_table, positions)

    def projections(self, layer: int, x: Array, positions: Array) -> tuple[Array, Array, Array]:
        """Return queries, keys and values [s, t, heads, size] of x. The embedding contains the positions already."""
        config = self.config
        projected = self._linear(self._norm(x, f"h.{layer}.ln_1"), f"h.{layer}.attn.c_attn")
        # One weight has the columns of all queries, then those of all keys and all values.
        projected = projected.reshape(*x.shape[:2], 3, config.heads, config.head_size)
        return projected[:, :, 0], projected[:, :, 1], projected[:, :, 2]

    def output(self, layer: int, attended: Array) -> Array:
        """Return the output projection of the attention's result `attended` in a layer."""
        return self._linear(attended, f"h.{layer}.attn.c_proj")

    def mlp(self, layer: int, x: Array) -> Array:
        """Return the MLP of x after a norm: two layers with GELU between them."""
        inner = gelu(self._linear(self._norm(x, f"h.{layer}.ln_2"), f"h.{layer}.mlp.c_fc"))
        return self._linear(inner, f"h.{layer}.mlp.c_proj")

    def scores(self, x: Array) -> Array:
        """Return the products of x after a norm and the head, or the embedding if they are tied."""
        head = self.weights[f"{self.prefix}wte.weight" if self.config.is_tied else "lm_head.weight"]
        return linear(self._norm(x, "ln_f"), head)

    def _norm(self, x: Array, name: str) -> Array:
        """Apply the LayerNorm whose weight and bias have this name."""
        weight, bias = (self.weights[f"{self.prefix}{name}.{part}"] for part in ("weight", "bias"))
        return layer_norm(x, weight, bias, self.config.epsilon)

    def _linear(self, x: Array, name: str) -> Array:
        """Multiply by the weight of that name, and add its bias."""
        return x @ self.weights[f"{self.prefix}{name}.weight"] + self.weights[f"{self.prefix}{name}.bias"]


def architecture_of(config: Config, weights: Mapping[str, Array]) -> Architecture:
    """Return the decoder for `model_type` of a configuration. Types of its own have Gemma 2 and GPT-2 only."""
    return {"gemma2": Gemma2, "gpt2": Gpt2}.get(config.architecture, Llama)(config, weights)
