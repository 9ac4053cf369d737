"""A decoder written in JAX. The cache is an argument that each step updates in place, since JAX donates it."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from config import Config
from weights import Weights

import pydispatch as pd
from frameworks import Array, Step, read_llama


def function_of(config: Config, max_tokens: int) -> Any:
    """Return step(weights, token, position, keys, values) -> (scores, keys, values).

    weights: arrays by the names of `transformers`. token and position are i32[], scores f32[words], and the caches of
    keys and values f32[layers, kv_heads, max_tokens, size].
    """
    assert config.rotary is not None
    heads, groups, size = config.heads, config.kv_heads, config.head_size
    frequencies = config.rotary.frequencies()

    def linear(weights: Any, name: str, x: Any) -> Any:
        """Multiply the vector `x` by a weight [out, in] in f32, and add the bias if the model has one."""
        product = weights[f"{name}.weight"].astype(jnp.float32) @ x
        bias = weights.get(f"{name}.bias")
        return product if bias is None else product + bias.astype(jnp.float32)

    def norm(weights: Any, name: str, x: Any) -> Any:
        """Apply an RMS norm with the weight of that name to the vector `x`."""
        return x * jax.lax.rsqrt(jnp.mean(x * x) + config.epsilon) * weights[f"{name}.weight"].astype(jnp.float32)

    def rotate(x: Any, position: Any) -> Any:
        """Rotate pairs of features of `x`, [heads, size], which are size / 2 apart, by the position's angles."""
        low, high = jnp.split(x, 2, axis=-1)
        cosine, sine = jnp.cos(position * frequencies), jnp.sin(position * frequencies)
        return jnp.concatenate([low * cosine - high * sine, high * cosine + low * sine], -1)

    def step(weights: Any, token: Any, position: Any, keys: Any, values: Any) -> Any:
        """Add the token's keys and values to the caches, and compute the scores of the next token."""
        x = weights["model.embed_tokens.weight"][token].astype(jnp.float32)
        is_seen = jnp.arange(max_tokens) <= position
        for layer in range(config.layers):
            name = f"model.layers.{layer}"
            y = norm(weights, f"{name}.input_layernorm", x)
            q, k, v = (linear(weights, f"{name}.self_attn.{letter}_proj", y).reshape(-1, size) for letter in "qkv")
            keys = keys.at[layer, :, position].set(rotate(k, position))
            values = values.at[layer, :, position].set(v)
            q = rotate(q, position).reshape(groups, heads // groups, size) * size**-0.5
            scores = jnp.where(is_seen, jnp.einsum("ghd,gcd->ghc", q, keys[layer]), -jnp.inf)
            y = jnp.einsum("ghc,gcd->ghd", jax.nn.softmax(scores), values[layer]).reshape(-1)
            x = x + linear(weights, f"{name}.self_attn.o_proj", y)
            y = norm(weights, f"{name}.post_attention_layernorm", x)
            gate, up = (linear(weights, f"{name}.mlp.{part}_proj", y) for part in ("gate", "up"))
            x = x + linear(weights, f"{name}.mlp.down_proj", jax.nn.silu(gate) * up)
        head = "model.embed_tokens" if config.is_tied else "lm_head"
        return linear(weights, head, norm(weights, "model.norm", x)), keys, values

    return jax.jit(step, donate_argnums=(3, 4))  # keys and values


def caches_of(config: Config, max_tokens: int) -> tuple[Array, Array]:
    """Return the empty caches of keys and values."""
    shape = (config.layers, config.kv_heads, max_tokens, config.head_size)
    return np.zeros(shape, np.float32), np.zeros(shape, np.float32)


def compile_decoder(folder: str, max_tokens: int, **options: Any) -> pd.Artifact:
    """Compile `function_of` with the weights of the folder, see `Framework`."""
    config = read_llama(folder)
    zero, caches = np.int32(0), caches_of(config, max_tokens)
    return pd.from_jax(function_of(config, max_tokens), zero, zero, *caches, params=dict(Weights(folder)), **options)


def step_of(program: pd.Program) -> Step:
    """Return the steps of a program, whose caches are two arrays, see `Framework`."""
    keys, values = (np.zeros(entry.shape, np.float32) for entry in program.main.inputs[2:])  # after token, position

    def step(token: int, position: int) -> Array:
        """Run the program; `out=` has it write the new keys and values to the arrays that it reads."""
        scores, _, _ = program.main(np.int32(token), np.int32(position), keys, values, out=(None, keys, values))
        return np.asarray(scores)

    return step


def reference(folder: str, max_tokens: int) -> Step:
    """Return the steps of `function_of` in JAX, see `Framework`."""
    config = read_llama(folder)
    function, weights, caches = function_of(config, max_tokens), dict(Weights(folder)), caches_of(config, max_tokens)

    def step(token: int, position: int) -> Array:
        """Call the function, and keep the caches that it returns, since those passed are donated to it."""
        nonlocal caches
        scores, *caches = function(weights, token, position, *caches)
        return np.asarray(scores)

    return step
