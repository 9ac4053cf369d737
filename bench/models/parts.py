"""Single layers and small networks for the benchmark of models.

Each function with `@model` returns (function of weights and inputs, shapes of the weights, inputs), or these with the
tolerance of results; `small` selects sizes for tests.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
from catalog import f32, model, normal
from jax import lax
from layers import dense, dense_weights

Tree = dict[str, Any]  # weights of a layer by name; values are arrays or trees


@model
def attention(small: bool) -> tuple[Any, ...]:
    """`jax.nn.dot_product_attention`."""
    shape = (1, 16, 2, 8) if small else (1, 256, 8, 64)

    def run(_: Tree, q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        """Return the attention of queries, keys and values without a mask; the parameters are empty."""
        return jax.nn.dot_product_attention(q, k, v)

    # normal() returns the same numbers each time: reversed axes make queries, keys and values differ.
    return run, {}, (normal(*shape), normal(*shape)[:, ::-1].copy(), normal(*shape)[..., ::-1].copy())


def _mlp(batch: int, sizes: tuple[int, ...], dtype: Any, tolerance: float) -> tuple[Any, ...]:
    """Return (function, weights, inputs, tolerance) of dense layers. sizes: of the input, then of each layer's result.

    ReLU follows each layer but the last, which softmax follows.
    """
    weights = [dense_weights(*pair) for pair in pairwise(sizes)]
    weights = jax.tree.map(lambda s: jax.ShapeDtypeStruct(s.shape, dtype), weights)

    def run(p: list[Tree], x: jax.Array) -> jax.Array:
        """Compute the probabilities of the classes for each row of `x`."""
        for layer in p[:-1]:
            x = jax.nn.relu(dense(x, layer))
        return jax.nn.softmax(dense(x, p[-1]))

    return run, weights, (normal(batch, sizes[0]).astype(dtype),), tolerance


@model
def mlp_batch1(small: bool) -> tuple[Any, ...]:
    """Dense layers for one image of a digit."""
    return _mlp(1, (16, 24, 24, 10) if small else (784, 512, 512, 10), jnp.float32, 1e-4)


@model
def mlp_f16(small: bool) -> tuple[Any, ...]:
    """Dense layers for 32 images of digits, in f16."""
    return _mlp(8 if small else 32, (16, 24, 24, 10) if small else (784, 512, 512, 10), jnp.float16, 2e-2)


@model
def lstm(small: bool) -> tuple[Any, ...]:
    """LSTM over a sequence; `c` channels of state, and four gates in one product."""
    batch, steps, inputs, c = (2, 3, 6, 8) if small else (8, 64, 128, 384)
    weights = {"i": f32(inputs, 4 * c), "h": f32(c, 4 * c), "b": f32(4 * c)}

    def run(p: Tree, x: jax.Array) -> Any:
        """Return the last (hidden state, cell), and the hidden states of all steps. x: (steps, batch, inputs)."""

        def step(carry: tuple[jax.Array, jax.Array], x: jax.Array) -> Any:
            """Compute a step; return the new state and, as its result, the new hidden state, see `lax.scan`."""
            h, cell = carry
            i, f, g, o = jnp.split(x @ p["i"] + h @ p["h"] + p["b"], 4, -1)
            cell = jax.nn.sigmoid(f) * cell + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(cell)
            return (h, cell), h

        zero = jnp.zeros((batch, c))
        return lax.scan(step, (zero, zero), x)

    return run, weights, (normal(steps, batch, inputs),)


@model
def conv1d_audio(small: bool) -> tuple[Any, ...]:
    """The front of a speech encoder: two convolutions over time."""
    length, bands, c = (20, 8, 12) if small else (1000, 80, 384)
    weights = {"k1": f32(3, bands, c), "b1": f32(c), "k2": f32(3, c, c), "b2": f32(c)}

    def conv(x: jax.Array, kernel: jax.Array, stride: int) -> jax.Array:
        """Convolve `x`, (batch, length, channels), with a padding that keeps the length for a stride of 1."""
        return lax.conv_general_dilated(x, kernel, (stride,), "SAME", dimension_numbers=("NWC", "WIO", "NWC"))

    def run(p: Tree, x: jax.Array) -> jax.Array:
        """Compute both convolutions of `x`, (batch, length, bands); the second one halves the length."""
        x = jax.nn.gelu(conv(x, p["k1"], 1) + p["b1"])
        return jax.nn.gelu(conv(x, p["k2"], 2) + p["b2"])

    return run, weights, (normal(1, length, bands),)


def _i8(*shape: int) -> jax.ShapeDtypeStruct:
    """Declare weights of 8 bits."""
    return jax.ShapeDtypeStruct(shape, jnp.int8)


@model
def int8_weight_only(small: bool) -> tuple[Any, ...]:
    """A vector times weights of 8 bits, which are converted to f32 before the product, with a scale for each column."""
    k, n = (24, 32) if small else (2048, 2048)

    def run(p: Tree, x: jax.Array) -> jax.Array:
        """Return x times the int8 weights, which are converted to f32 for each call, times the scale."""
        return (x @ p["kernel"].astype(jnp.float32)) * p["scale"]

    return run, {"kernel": _i8(k, n), "scale": f32(n)}, (normal(1, k),)


@model
def int8_matmul(small: bool) -> tuple[Any, ...]:
    """Activations quantized to 8 bits with a scale for each row; products of i8 are summed in i32."""
    m, k, n = (8, 24, 32) if small else (64, 512, 512)

    def run(p: Tree, x: jax.Array) -> jax.Array:
        """Quantize the rows of `x`, multiply integers, and scale their sums."""
        step = jnp.abs(x).max(-1, keepdims=True) / 127
        y = jnp.round(x / step).astype(jnp.int8)
        total = lax.dot_general(y, p["kernel"], (((1,), (0,)), ((), ())), preferred_element_type=jnp.int32)
        return total.astype(jnp.float32) * step * p["scale"]

    return run, {"kernel": _i8(k, n), "scale": f32(n)}, (normal(m, k),)


@model
def matmul_chain(small: bool) -> tuple[Any, ...]:
    """Products and tanh in turns, no two of the same size: measures how long compiling many kernels takes."""
    count, step, batch = (4, 3, 4) if small else (66, 8, 16)
    sizes = [16 + step * n for n in range(count + 1)]
    weights = [f32(*pair) for pair in pairwise(sizes)]

    def run(p: list[jax.Array], x: jax.Array) -> jax.Array:
        """Multiply `x` by one matrix after another, with tanh after each product."""
        for kernel in p:
            x = jnp.tanh(x @ kernel)
        return x

    return run, weights, (normal(batch, sizes[0]),)
