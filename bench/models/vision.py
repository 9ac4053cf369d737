"""Convolutional networks and a vision transformer, channels last, for the benchmark of models.

Each function with `@model` returns (function of weights and inputs, shapes of the weights, inputs), or these with the
tolerance of results; `small` selects sizes for tests.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from catalog import f32, integers, model, normal
from jax import lax
from layers import attention, dense, dense_weights, layer_norm, norm_weights

Tree = dict[str, Any]  # weights of a model by name; values are arrays, trees or lists of them


def conv(x: jax.Array, kernel: jax.Array, stride: int = 1, padding: str = "SAME") -> jax.Array:
    """Convolve images, channels last, with filters [height, width, inputs, outputs]."""
    return lax.conv_general_dilated(x, kernel, (stride, stride), padding, dimension_numbers=("NHWC", "HWIO", "NHWC"))


def batch_norm(x: jax.Array, p: Tree) -> jax.Array:
    """Normalize channels with a stored mean and variance, as in inference, with the operations that Flax writes."""
    mean, var = (p[k].reshape(1, 1, 1, -1) for k in ("mean", "var"))
    factor = lax.rsqrt(var + 1e-5) * p["scale"].reshape(1, 1, 1, -1)
    return (x - mean) * factor + p["bias"].reshape(1, 1, 1, -1)


def conv_weights(size: int, inputs: int, outputs: int) -> Tree:
    """Return the weights of a convolution, with windows of size x size, and of the batch norm after it."""
    norm = {k: f32(outputs) for k in ("mean", "var", "scale", "bias")}
    return {"kernel": f32(size, size, inputs, outputs), "norm": norm}


def conv_norm(x: jax.Array, p: Tree, stride: int = 1) -> jax.Array:
    """Apply a convolution and the batch norm after it, with weights of `conv_weights`."""
    return batch_norm(conv(x, p["kernel"], stride), p["norm"])


def pool(x: jax.Array, size: int, stride: int) -> jax.Array:
    """Compute the maxima of windows of size x size, with padding."""
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, size, size, 1), (1, stride, stride, 1), "SAME")


# -- ResNet


def _residual(x: jax.Array, p: Tree, stride: int) -> jax.Array:
    """Add the result of two convolutions, or of the three of a bottleneck, to the input or to its projection."""
    convs = p["convs"]
    strided = 1 if len(convs) == 3 else 0  # index of the convolution with the stride: the first one of 3x3
    y = x
    for index, weights in enumerate(convs):
        y = conv_norm(y, weights, stride if index == strided else 1)
        y = jax.nn.relu(y) if index < len(convs) - 1 else y  # the last ReLU follows the addition
    return jax.nn.relu(y + (conv_norm(x, p["shortcut"], stride) if "shortcut" in p else x))


def _resnet(depths: tuple[int, ...], bottleneck: bool, small: bool) -> tuple[Any, ...]:
    """Return (function, weights, inputs, tolerance) of a ResNet. depths: number of residual blocks of each stage."""
    width, size, classes = (8, 32, 10) if small else (64, 224, 1000)
    expansion = 4 if bottleneck else 1
    stages: list[list[Tree]] = []
    inputs = width
    for stage, depth in enumerate(depths):
        narrow = width << stage  # channels: each stage has twice as many as the one before, and half the size
        stages.append([])
        for block in range(depth):
            # (side of the window, channels of the input, of the result) of each convolution
            if bottleneck:
                sizes = [(1, inputs, narrow), (3, narrow, narrow), (1, narrow, narrow * 4)]
            else:
                sizes = [(3, inputs, narrow), (3, narrow, narrow)]
            weights: Tree = {"convs": [conv_weights(*s) for s in sizes]}
            if block == 0 and (stage or bottleneck):  # the block changes the size or the number of channels
                weights["shortcut"] = conv_weights(1, inputs, narrow * expansion)
            stages[-1].append(weights)
            inputs = narrow * expansion
    weights = {"stem": conv_weights(7, 3, width), "stages": stages, "head": dense_weights(inputs, classes)}

    def run(p: Tree, x: jax.Array) -> jax.Array:
        """Compute the scores of the classes: first layer, stages of blocks, mean of all pixels, dense layer."""
        x = pool(jax.nn.relu(conv_norm(x, p["stem"], 2)), 3, stride=2)
        for stage, blocks in enumerate(p["stages"]):
            for block, weights in enumerate(blocks):
                halves_size = stage > 0 and block == 0
                x = _residual(x, weights, stride=2 if halves_size else 1)
        return dense(x.mean((1, 2)), p["head"])

    return run, weights, (normal(1, size, size, 3),), 1e-3


@model
def resnet18(small: bool) -> tuple[Any, ...]:
    """ResNet with blocks of two convolutions, for one image."""
    return _resnet((1, 1) if small else (2, 2, 2, 2), bottleneck=False, small=small)


@model
def resnet50(small: bool) -> tuple[Any, ...]:
    """ResNet with bottlenecks of three convolutions, for one image."""
    return _resnet((1, 1) if small else (3, 4, 6, 3), bottleneck=True, small=small)


# -- others


def _group_norm(x: jax.Array, p: Tree, groups: int) -> jax.Array:
    """Normalize each group of channels over all pixels, then apply the scale and bias of `p`."""
    b, h, w, c = x.shape
    y = x.reshape(b, h, w, groups, c // groups)
    mean = y.mean((1, 2, 4), keepdims=True)
    var = jnp.square(y).mean((1, 2, 4), keepdims=True) - jnp.square(mean)
    return ((y - mean) * lax.rsqrt(var + 1e-5)).reshape(x.shape) * p["scale"] + p["bias"]


@model
def unet_block(small: bool) -> tuple[Any, ...]:
    """Two convolutions with group norms and an embedding of the time step, then attention over every fourth pixel."""
    size, c, groups, embedded = (8, 16, 4, 16) if small else (64, 64, 8, 256)
    weights = {
        "norm1": norm_weights(c), "conv1": f32(3, 3, c, c), "bias1": f32(c), "time": dense_weights(embedded, c),
        "norm2": norm_weights(c), "conv2": f32(3, 3, c, c), "bias2": f32(c), "norm3": norm_weights(c),
        "qkv": dense_weights(c, 3 * c), "out": dense_weights(c, c),
    }  # fmt: skip

    def run(p: Tree, x: jax.Array, time: jax.Array) -> jax.Array:
        """Compute the block for an image `x`. time: embedding of the time step, (batch, embedded)."""
        y = conv(jax.nn.silu(_group_norm(x, p["norm1"], groups)), p["conv1"]) + p["bias1"]
        y = y + dense(jax.nn.silu(time), p["time"])[:, None, None]
        y = conv(jax.nn.silu(_group_norm(y, p["norm2"], groups)), p["conv2"]) + p["bias2"]
        x = x + y
        # One of each 4x4 pixels takes part in attention, and its result is added to all of them.
        pixels = _group_norm(x, p["norm3"], groups)[:, ::4, ::4].reshape(x.shape[0], -1, c)
        y = dense(attention(*jnp.split(dense(pixels, p["qkv"]), 3, -1), heads=4), p["out"])
        return x + jnp.repeat(jnp.repeat(y.reshape(x.shape[0], size // 4, size // 4, c), 4, 1), 4, 2)

    return run, weights, (normal(1, size, size, c), normal(1, embedded)), 1e-3


def _cnn(small: bool) -> tuple[Tree, int, int]:
    """Return the weights of a small network for digits, the side of its square images in pixels, and its batch."""
    size, c = (8, 4) if small else (28, 32)
    weights = {
        "conv1": f32(3, 3, 1, c), "bias1": f32(c), "conv2": f32(3, 3, c, 2 * c), "bias2": f32(2 * c),
        # Two poolings have halved the sides.
        "dense1": dense_weights((size // 4) ** 2 * 2 * c, 4 * c), "dense2": dense_weights(4 * c, 10),
    }  # fmt: skip
    return weights, size, 8


def _logits(p: Tree, x: jax.Array) -> jax.Array:
    """Compute the 10 scores of each image, (batch, side, side, 1), with the weights of `_cnn`."""
    x = pool(jax.nn.relu(conv(x, p["conv1"]) + p["bias1"]), 2, stride=2)
    x = pool(jax.nn.relu(conv(x, p["conv2"]) + p["bias2"]), 2, stride=2)
    return dense(jax.nn.relu(dense(x.reshape(x.shape[0], -1), p["dense1"])), p["dense2"])


@model
def cnn_batch8(small: bool) -> tuple[Any, ...]:
    """Small network for digits: the probabilities of the 10 classes for a batch of images."""
    weights, size, batch = _cnn(small)
    return lambda p, x: jax.nn.softmax(_logits(p, x)), weights, (normal(batch, size, size, 1),)


@model
def cnn_training_step(small: bool) -> tuple[Any, ...]:
    """Cross entropy of a batch, and the weights after a step of gradient descent with a rate of 0.01."""
    weights, size, batch = _cnn(small)

    def loss(p: Tree, x: jax.Array, labels: jax.Array) -> jax.Array:
        """Return the mean cross entropy of the batch."""
        return -(jax.nn.one_hot(labels, 10) * jax.nn.log_softmax(_logits(p, x))).sum(-1).mean()

    def run(p: Tree, x: jax.Array, labels: jax.Array) -> Any:
        """Return the loss and the weights after the step."""
        value, gradient = jax.value_and_grad(loss)(p, x, labels)
        return value, jax.tree.map(lambda w, g: w - 0.01 * g, p, gradient)

    return run, weights, (normal(batch, size, size, 1), integers(10, batch)), 1e-3


@model
def vit_tiny(small: bool) -> tuple[Any, ...]:
    """Vision transformer over square patches, whose result is read from a class token before them."""
    size, patch, c, heads, depth = (16, 8, 16, 2, 1) if small else (224, 16, 192, 3, 12)
    count = (size // patch) ** 2 + 1  # of patches, and the class token
    block = {
        "norm1": norm_weights(c), "qkv": dense_weights(c, 3 * c), "out": dense_weights(c, c),
        "norm2": norm_weights(c), "up": dense_weights(c, 4 * c), "down": dense_weights(4 * c, c),
    }  # fmt: skip
    weights = {
        "patches": f32(patch, patch, 3, c), "class": f32(1, 1, c), "positions": f32(1, count, c),
        "blocks": [block] * depth, "norm": norm_weights(c), "head": dense_weights(c, 1000),
    }  # fmt: skip

    def run(p: Tree, x: jax.Array) -> jax.Array:
        """Compute the scores of the classes for a batch of images `x`."""
        x = conv(x, p["patches"], patch, "VALID")
        x = jnp.concatenate([p["class"], x.reshape(1, -1, c)], 1) + p["positions"]
        for b in p["blocks"]:
            y = attention(*jnp.split(dense(layer_norm(x, b["norm1"]), b["qkv"]), 3, -1), heads=heads)
            x = x + dense(y, b["out"])
            x = x + dense(jax.nn.gelu(dense(layer_norm(x, b["norm2"]), b["up"])), b["down"])
        return dense(layer_norm(x[:, 0], p["norm"]), p["head"])

    return run, weights, (normal(1, size, size, 3),), 1e-3
