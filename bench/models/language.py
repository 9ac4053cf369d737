"""Transformers for text, for the benchmark of models.

Each function with `@model` returns (function of weights and inputs, shapes of the weights, inputs), or these with the
tolerance of results; `small` selects sizes for tests.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from catalog import f32, integers, model, normal
from jax import lax
from layers import attention, dense, dense_weights, layer_norm, norm_weights, rms_norm, split_heads

Tree = dict[str, Any]  # weights of a model by name; values are arrays, trees or lists of them


def _block_weights(c: int) -> Tree:
    """Return the weights of a layer of GPT-2 with `c` channels."""
    return {
        "norm1": norm_weights(c), "qkv": dense_weights(c, 3 * c), "out": dense_weights(c, c),
        "norm2": norm_weights(c), "up": dense_weights(c, 4 * c), "down": dense_weights(4 * c, c),
    }  # fmt: skip


@model
def gpt2_decode(small: bool) -> tuple[Any, ...]:
    """One token through 4 layers with a cache of keys and values; the transposed embedding gives the logits."""
    layers, c, heads, length, words = (1, 16, 2, 16, 32) if small else (4, 768, 12, 512, 8192)
    weights = {
        "words": f32(words, c), "positions": f32(length, c), "norm": norm_weights(c),
        "blocks": [_block_weights(c) for _ in range(layers)],
    }  # fmt: skip

    def attend(p: Tree, x: jax.Array, cache: jax.Array, position: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Attend from the token `x`, (1, c), to the cached ones and itself; return the result and the new cache."""
        q, k, v = (split_heads(t, heads) for t in jnp.split(dense(x, p["qkv"]), 3, -1))  # (1, heads, c / heads)
        # cache: keys and values, (2, heads, length, c / heads)
        cache = lax.dynamic_update_slice(cache, jnp.stack([k, v]).transpose(0, 2, 1, 3), (0, 0, position, 0))
        keys, values = cache  # (heads, length, c / heads)
        scores = jnp.einsum("bhd,hld->bhl", q, keys) / (c // heads) ** 0.5
        scores = jnp.where(jnp.arange(length) <= position, scores, -1e9)
        y = jnp.einsum("bhl,hld->bhd", jax.nn.softmax(scores), values)
        return dense(y.reshape(1, c), p["out"]), cache

    def run(p: Tree, caches: jax.Array, token: jax.Array, position: jax.Array) -> Any:
        """Return the logits of the next token and the new caches. position: index of `token` in the sequence."""
        x = p["words"][token] + p["positions"][position]
        new_caches = []
        for layer, b in enumerate(p["blocks"]):
            y, cache = attend(b, layer_norm(x, b["norm1"]), caches[layer], position)
            new_caches.append(cache)
            x = x + y
            x = x + dense(jax.nn.gelu(dense(layer_norm(x, b["norm2"]), b["up"])), b["down"])
        return layer_norm(x, p["norm"]) @ p["words"].T, jnp.stack(new_caches)

    caches = normal(layers, 2, heads, length, c // heads)
    caches[:, :, :, length // 2 :] = 0  # half of the cache is filled; the token is the next one
    return run, weights, (caches, integers(words, 1), np.array(length // 2, np.int32))


@model
def gpt2_block(small: bool) -> tuple[Any, ...]:
    """A whole prompt through one layer."""
    c, heads, length = (16, 2, 8) if small else (768, 12, 128)

    def run(p: Tree, x: jax.Array) -> jax.Array:
        """Compute the layer, whose norms precede attention and MLP, of `x`, (batch, length, c)."""
        y = attention(*jnp.split(dense(layer_norm(x, p["norm1"]), p["qkv"]), 3, -1), heads=heads, causal=True)
        x = x + dense(y, p["out"])
        return x + dense(jax.nn.gelu(dense(layer_norm(x, p["norm2"]), p["up"])), p["down"])

    return run, _block_weights(c), (normal(1, length, c),)


@model
def bert_base_block(small: bool) -> tuple[Any, ...]:
    """Layer of BERT: norms after the residuals, a mask of padding, separate products for queries, keys and values."""
    c, heads, length = (16, 2, 8) if small else (768, 12, 128)
    weights = {
        **{k: dense_weights(c, c) for k in ("q", "k", "v", "out")}, "norm1": norm_weights(c), "norm2": norm_weights(c),
        "up": dense_weights(c, 4 * c), "down": dense_weights(4 * c, c),
    }  # fmt: skip

    def run(p: Tree, x: jax.Array, mask: jax.Array) -> jax.Array:
        """Compute the layer of `x`, (batch, length, c). mask: (batch, length), 1 for tokens, 0 for padding."""
        q, k, v = (split_heads(dense(x, p[name]), heads).transpose(0, 2, 1, 3) for name in "qkv")
        scores = q @ k.swapaxes(-1, -2) / (c // heads) ** 0.5 + (1 - mask[:, None, None]) * -1e9
        y = (jax.nn.softmax(scores) @ v).transpose(0, 2, 1, 3).reshape(x.shape)
        x = layer_norm(x + dense(y, p["out"]), p["norm1"])
        y = dense(jax.nn.gelu(dense(x, p["up"]), approximate=False), p["down"])
        return layer_norm(x + y, p["norm2"])

    mask = normal(1, length) * 0 + 1
    mask[:, length * 3 // 4 :] = 0  # the last quarter is padding, which no query attends to
    return run, weights, (normal(1, length, c), mask)


@model
def llama_block(small: bool) -> tuple[Any, ...]:
    """Rotary positions, grouped queries, RMS norms and SwiGLU."""
    c, heads, groups, wide, length = (16, 4, 2, 24, 8) if small else (512, 8, 2, 1408, 128)
    narrow = c // heads * groups  # channels of keys and values, whose heads are shared by several queries' heads
    weights = {
        "norm1": {"scale": f32(c)}, "q": f32(c, c), "k": f32(c, narrow), "v": f32(c, narrow), "out": f32(c, c),
        "norm2": {"scale": f32(c)}, "gate": f32(c, wide), "up": f32(c, wide), "down": f32(wide, c),
    }  # fmt: skip

    def rotated(x: jax.Array) -> jax.Array:
        """Apply rotary positions to (batch, length, heads, size); channel i is paired with i + size / 2."""
        half = x.shape[-1] // 2
        angle = jnp.arange(length)[:, None] * 10000.0 ** (-jnp.arange(half) / half)
        cos, sin = jnp.cos(angle)[:, None], jnp.sin(angle)[:, None]
        a, b = x[..., :half], x[..., half:]
        return jnp.concatenate([a * cos - b * sin, a * sin + b * cos], -1)

    def run(p: Tree, x: jax.Array) -> jax.Array:
        """Compute the layer of `x`, (batch, length, c)."""
        y = rms_norm(x, p["norm1"]["scale"])
        q, k, v = split_heads(y @ p["q"], heads), split_heads(y @ p["k"], groups), split_heads(y @ p["v"], groups)
        y = jax.nn.dot_product_attention(rotated(q), rotated(k), v, is_causal=True).reshape(x.shape)
        x = x + y @ p["out"]
        y = rms_norm(x, p["norm2"]["scale"])
        return x + (jax.nn.silu(y @ p["gate"]) * (y @ p["up"])) @ p["down"]

    return run, weights, (normal(1, length, c),)


@model
def mixture_of_experts(small: bool) -> tuple[Any, ...]:
    """Two of several experts for each token, chosen by their scores."""
    c, wide, experts, tokens = (8, 16, 4, 3) if small else (256, 512, 8, 16)
    weights = {"router": f32(c, experts), "up": f32(experts, c, wide), "down": f32(experts, wide, c)}

    def run(p: Tree, x: jax.Array) -> jax.Array:
        """Add up two experts' results for each row of `x`, a token, weighted by the softmax of its scores."""
        share, chosen = lax.top_k(jax.nn.softmax(x @ p["router"]), 2)
        y = jax.nn.gelu(jnp.einsum("td,tkde->tke", x, p["up"][chosen]))
        return jnp.einsum("tk,tke,tked->td", share, y, p["down"][chosen])

    return run, weights, (normal(tokens, c),)
