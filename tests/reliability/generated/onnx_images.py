"""Steps of random ONNX graphs: convolutions, pools and other operators on images."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx_growing import Graph


def _window(g: Graph, kernel: list[int]) -> dict[str, Any]:
    return {
        "strides": [g.rng.choice([1, 1, 2, 3]) for _ in range(2)],
        "dilations": [g.rng.choice([1, 1, 1, 2])] * 2,
        "pads": [g.rng.randint(0, k - 1) for k in kernel * 2],
    }


def _fits(g: Graph, x: str, kernel: list[int], window: dict[str, Any]) -> bool:
    n = g.values[x].shape[2:]
    return all(
        (k - 1) * d + 1 <= m + low + high
        for k, d, m, low, high in zip(
            kernel, window["dilations"], n, window["pads"][:2], window["pads"][2:], strict=True
        )
    )


def _convolution(g: Graph) -> None:
    x = g.pick(rank=(4, 4))
    if x is None:
        return
    channels = g.values[x].shape[1]
    if not channels:
        return
    group = g.rng.choice([1, 1, channels])
    filters = group * g.rng.randint(1, 3)
    kernel = [g.rng.randint(1, 3) for _ in range(2)]
    window = _window(g, kernel)
    if not 0 < group <= 8 or channels > 12 or not _fits(g, x, kernel, window):
        return
    weights = g.constant(g.array(filters, channels // group, *kernel) / 2)
    bias = [g.constant(g.array(filters))] if g.rng.random() < 0.5 else []
    g.add("Conv", x, weights, *bias, group=group, **window)


def _pool(g: Graph) -> None:
    x = g.pick(rank=(4, 4))
    if x is None:
        return
    kernel = [g.rng.randint(1, 3) for _ in range(2)]
    window = _window(g, kernel)
    if window["dilations"][0] > 1 and any(window["pads"]):
        window["dilations"] = [1, 1]  # windows of nothing but padding
    if not _fits(g, x, kernel, window):
        return
    op = g.rng.choice(["MaxPool", "AveragePool", "MaxPool", "AveragePool", "LpPool", "GlobalMaxPool"])
    if op == "GlobalMaxPool":
        g.add(g.rng.choice([op, "GlobalAveragePool"]), x)
        return
    if op == "LpPool":
        g.add(op, x, kernel_shape=kernel, p=2, ceil_mode=0, **window)
        return
    more = {"count_include_pad": g.rng.randrange(2)} if op == "AveragePool" else {}
    g.add(op, x, kernel_shape=kernel, ceil_mode=g.rng.randrange(2), **more, **window)


def _transposed_convolution(g: Graph) -> None:
    x = g.pick(rank=(4, 4))
    if x is None or 0 in g.values[x].shape or g.values[x].shape[1] > 8:
        return
    channels = g.values[x].shape[1]
    group = g.rng.choice([1, channels])
    kernel = [g.rng.randint(1, 3) for _ in range(2)]
    weights = g.constant(g.array(channels, g.rng.randint(1, 2), *kernel) / 2)
    window = {**_window(g, kernel), "pads": [g.rng.randint(0, (k - 1) // 2) for k in kernel * 2]}
    g.add("ConvTranspose", x, weights, group=group, **window)


def _blocks(g: Graph) -> None:
    x = g.pick(rank=(4, 4))
    if x is None or 0 in g.values[x].shape:
        return
    _, channels, height, width = g.values[x].shape
    if channels % 4 == 0 and g.rng.randrange(2):
        g.add("DepthToSpace", x, blocksize=2)
    elif height % 2 == 0 and width % 2 == 0:
        g.add("SpaceToDepth", x, blocksize=2)
    else:
        scales = g.constant([1, 1, g.rng.randint(1, 2), 2], np.float32)
        g.add("Resize", x, g.constant(np.zeros(0, np.float32)), scales, mode="nearest",
              coordinate_transformation_mode="asymmetric", nearest_mode="floor")  # fmt: skip


IMAGES = (_convolution, _convolution, _pool, _pool, _transposed_convolution, _blocks)
