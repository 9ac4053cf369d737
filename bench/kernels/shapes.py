"""The kernels of the table, with the shapes that they have in well-known models."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
from work import (
    Work,
    attention,
    convolution,
    dynamic_reduction,
    elementwise,
    gather,
    group_norm,
    layer_norm,
    lstm_cell,
    pooling,
    product,
    reduction,
    softmax,
    transposed_convolution,
)

RESNET50 = (
    (224, 3, 64, 7, 2), (56, 64, 64, 1, 1), (56, 64, 64, 3, 1), (56, 64, 256, 1, 1), (56, 256, 64, 1, 1),
    (56, 256, 128, 1, 1), (56, 128, 128, 3, 2), (28, 128, 512, 1, 1), (56, 256, 512, 1, 2), (28, 512, 128, 1, 1),
    (28, 128, 128, 3, 1), (28, 512, 256, 1, 1), (28, 256, 256, 3, 2), (14, 256, 1024, 1, 1), (28, 512, 1024, 1, 2),
    (14, 1024, 256, 1, 1), (14, 256, 256, 3, 1), (14, 1024, 512, 1, 1), (14, 512, 512, 3, 2), (7, 512, 2048, 1, 1),
    (14, 1024, 2048, 1, 2), (7, 2048, 512, 1, 1), (7, 512, 512, 3, 1),
)  # fmt: skip
"""All distinct convolutions: (height and width of the input, input channels, output channels, window, stride)."""

MOBILENET = (
    (112, 32, 1), (112, 96, 2), (56, 144, 1), (28, 192, 1), (28, 192, 2), (14, 384, 1), (14, 576, 1), (7, 960, 1)
)  # fmt: skip
"""Depthwise 3x3 convolutions: (height and width of the input, channels, stride)."""

Makers = Iterator[Callable[[], Work]]
"""Functions that create kernels with their arguments."""


def kernels() -> Makers:
    """Yield functions that create the kernels, one at a time: their arguments take time and memory."""
    for makers in (_resnet50, _mobilenet, _products, _attention, _other_convolutions, _rows, _reductions):
        yield from makers()


def _resnet50() -> Makers:
    """Yield the convolutions of ResNet-50 in both layouts, its last dense layer, and its poolings."""
    for channels_first in (False, True):
        for size, inputs, outputs, window, stride in RESNET50:
            yield lambda s=size, i=inputs, o=outputs, w=window, t=stride, f=channels_first: convolution(
                "resnet50", (s, s), i, o, w, t, channels_first=f)  # fmt: skip
    yield lambda: product("resnet50 head", 1, 2048, 1000)
    yield lambda: pooling("resnet50", "max", size=112, channels=64, window=3, stride=2)
    yield lambda: pooling("resnet50", "mean", size=7, channels=2048, window=7, stride=7)


def _mobilenet() -> Makers:
    """Yield depthwise convolutions of MobileNetV2 in both layouts, and some of its 1x1 convolutions."""
    for channels_first in (False, True):
        for size, channels, stride in MOBILENET:
            yield lambda s=size, c=channels, t=stride, f=channels_first: convolution(
                "depthwise", (s, s), c, c, 3, t, channels_first=f, groups=c)  # fmt: skip
    for size, inputs, outputs in (
        (112, 32, 16), (56, 24, 144), (14, 96, 576), (14, 576, 96), (7, 960, 160), (7, 320, 1280)
    ):  # fmt: skip
        yield lambda s=size, i=inputs, o=outputs: convolution("mobilenet", (s, s), i, o, 1)


def _products() -> Makers:
    """Yield products of dense layers of language models, and some with a long inner dimension."""
    # m, k, n: [m, k] times [k, n]. transposed: weights are stored as [n, k].
    for name, m, k, n, transposed in (
        ("bert qkv", 128, 768, 2304, False), ("bert out", 128, 768, 768, False), ("bert up", 128, 768, 3072, False),
        ("bert down", 128, 3072, 768, False), ("bert pooler", 1, 768, 768, False), ("gpt2 up", 1, 768, 3072, False),
        ("gpt2 down", 1, 3072, 768, False), ("gpt2 tied head", 1, 768, 8192, True),
        ("gpt2 tied head", 128, 768, 8192, True),
        ("llama out", 1, 4096, 4096, False), ("llama out", 4, 4096, 4096, False), ("llama up", 1, 4096, 11008, False),
        ("llama down", 1, 11008, 4096, False), ("llama out transposed", 1, 4096, 4096, True),
        ("llama down transposed", 4, 11008, 4096, True), ("llama out", 32, 4096, 4096, False),
        ("llama out transposed", 32, 4096, 4096, True),
        ("long k", 8, 65536, 64, False), ("long k", 1, 65536, 64, False), ("long k", 64, 16384, 64, False),
    ):  # fmt: skip
        yield lambda name=name, m=m, k=k, n=n, t=transposed: product(name, m, k, n, t)


def _attention() -> Makers:
    """Yield attention of whole sequences, and of a single query (decode) over all keys so far."""
    # The name, number of queries, of keys, of heads, and features of a head.
    yield lambda: attention("attention bert", 128, 128, 12, 64)
    yield lambda: attention("attention gpt2 prefill", 128, 128, 12, 64, causal=True)
    yield lambda: attention("attention gpt2 decode", 1, 512, 12, 64)
    yield lambda: attention("attention llama decode", 1, 1024, 32, 128)
    yield lambda: attention("attention long", 512, 512, 8, 64)


def _other_convolutions() -> Makers:
    """Yield convolutions of other models: on images, on signals, transposed, dilated and grouped."""
    # The name, size of the image or length of the signal, input channels, output channels, window, stride.
    yield lambda: convolution("unet", (64, 64), 64, 64, 3)
    yield lambda: convolution("unet", (32, 32), 320, 320, 3)
    yield lambda: convolution("unet", (16, 16), 640, 640, 3)
    yield lambda: convolution("unet", (64, 64), 64, 128, 3, 2)
    yield lambda: transposed_convolution("unet transposed", 32, 128, 64, 2, 2)
    yield lambda: transposed_convolution("unet transposed", 16, 256, 128, 4, 2)
    yield lambda: convolution("whisper", (3000,), 80, 384, 3)
    yield lambda: convolution("whisper", (3000,), 384, 384, 3, 2)
    yield lambda: convolution("whisper", (3000,), 80, 384, 3, channels_first=True)
    yield lambda: convolution("whisper", (3000,), 384, 384, 3, 2, channels_first=True)
    yield lambda: convolution("dilated", (28, 28), 128, 128, 3, dilation=2)
    yield lambda: convolution("dilated", (28, 28), 128, 128, 3, dilation=4, channels_first=True)
    yield lambda: convolution("grouped", (28, 28), 128, 128, 3, groups=32)
    yield lambda: convolution("grouped", (14, 14), 256, 256, 3, groups=32)
    yield lambda: convolution("grouped", (28, 28), 128, 128, 3, groups=4, channels_first=True)


def _rows() -> Makers:
    """Yield kernels that compute each row by itself: cells, norms, softmax, gathers, and elementwise operations."""
    yield lambda: lstm_cell(batch=1, inputs=128, width=384)
    yield lambda: lstm_cell(batch=8, inputs=256, width=512)
    yield lambda: layer_norm(128, 768)
    yield lambda: layer_norm(1, 768)
    yield lambda: layer_norm(1, 4096)
    yield lambda: layer_norm(128, 768, silu=True)
    yield lambda: group_norm(size=64, channels=64, groups=8)
    yield lambda: group_norm(size=32, channels=320, groups=32)
    yield lambda: softmax(1536, 128)
    yield lambda: softmax(1, 50257)
    yield lambda: softmax(12, 512)
    yield lambda: gather("bert", rows=30522, width=768, count=128)
    yield lambda: gather("llama", rows=32000, width=4096, count=32)
    yield lambda: elementwise("gelu of a sum", lambda x, y: jax.nn.gelu(x + y), 128, 3072)
    yield lambda: elementwise("silu times", lambda x, y: jax.nn.silu(x) * y, 1, 11008)
    yield lambda: elementwise("sum", lambda x, y: x + y, 1024, 4096)
    yield lambda: elementwise("transposed sum", lambda x, y: x.T + y.T, 1024, 1024)
    yield lambda: elementwise("hypotenuse", lambda x, y: jnp.sqrt(x * x + y * y), 256, 256)


def _reductions() -> Makers:
    """Yield sums and maxima of whole tensors, of rows and of columns; the last ones have dynamic sizes."""
    for sizes, axes in (
        # Odd sizes end in partial vectors.
        ((4096, 1024), (0, 1)), ((1 << 20,), (0,)), ((1000003,), (0,)), ((4096, 1024), (1,)), ((4096, 1024), (0,)),
        ((1009, 1013), (1,)), ((1009, 1013), (0,)), ((1009, 1013), (0, 1)), ((4, 1000003), (1,)), ((1000003, 4), (0,)),
        ((64, 56, 56), (1, 2)), ((56, 56, 64), (0, 1)), ((65536, 8), (1,)),
    ):  # fmt: skip
        yield lambda sizes=sizes, axes=axes: reduction("reduction:", sizes, axes)
    yield lambda: reduction("reduction:", (4096, 1024), (0, 1), "max")
    yield lambda: reduction("reduction:", (4096, 1024), (0,), "max")
    for axes in ((0, 1), (1,), (0,)):
        yield lambda axes=axes: dynamic_reduction((1531, 1013), axes)
