"""A page that recognises a drawn digit: `python make.py site/`, then `python -m http.server -d site`.

The network has one convolution of eight 5x5 filters, ReLU, the largest of each 4x4, and one dense layer, which is
fitted here to digits that are drawn with random strokes: no data has to be downloaded. Needs NumPy alone.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import pydispatch as pd
from pydispatch.cli.__main__ import main as command

HERE = Path(__file__).parent
Array = NDArray[np.float32]
CIRCLE = [(np.cos(t), np.sin(t)) for t in np.linspace(0, 2 * np.pi, 13)]  # points of a closed line, radius 1
ARC = [(np.sin(t), -np.cos(t)) for t in np.linspace(-0.9, np.pi, 9)]  # from the upper left over the right to the bottom
STROKES: list[list[list[tuple[float, float]]]] = [  # of each digit: lines through points, x right, y down, -1 to 1
    [[(0.62 * x, y) for x, y in CIRCLE]],
    [[(-0.35, -0.6), (0.05, -1), (0.05, 1)]],
    [[(-0.6, -0.6), (-0.3, -0.95), (0.2, -1), (0.55, -0.7), (0.5, -0.25), (-0.6, 1), (0.65, 1)]],
    [[(0.55 * x, 0.5 * y - 0.5) for x, y in ARC], [(0.6 * x, 0.5 * y + 0.5) for x, y in ARC[2:]] + [(-0.5, 0.8)]],
    [[(0.35, 1), (0.35, -1), (-0.65, 0.35), (0.7, 0.35)]],
    [[(0.55, -1), (-0.45, -1), (-0.5, -0.1), (0.2, -0.2), (0.6, 0.3), (0.4, 0.85), (-0.1, 1), (-0.6, 0.8)]],
    [[(0.35, -1), (-0.3, -0.4), (-0.55, 0.3)], [(0.55 * x, 0.5 * y + 0.5) for x, y in CIRCLE]],
    [[(-0.6, -1), (0.6, -1), (-0.1, 1)]],
    [[(0.45 * x, 0.45 * y - 0.5) for x, y in CIRCLE], [(0.55 * x, 0.5 * y + 0.5) for x, y in CIRCLE]],
    [[(0.5 * x, 0.5 * y - 0.5) for x, y in CIRCLE], [(0.5, -0.5), (0.4, 0.3), (0.1, 1)]],
]


def draw(digit: int, random: np.random.Generator) -> Array:
    """Draw a digit with random width, position, scale, rotation and slant: 28x28, 0 for paper to 1 for ink."""
    y, x = np.mgrid[0:28, 0:28]
    points = np.stack([x, y], -1).reshape(-1, 1, 2).astype(np.float32)
    angle, lean = random.uniform(-0.2, 0.2), random.uniform(-0.25, 0.25)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]) @ np.array([[1, lean], [0, 1]])
    scale, centre = random.uniform(7.5, 10.5, 2), 13.5 + random.uniform(-2, 2, 2)
    nearest = np.full(784, np.inf)  # distance of each pixel from the strokes
    for line in STROKES[digit]:
        at = (np.array(line) + random.normal(0, 0.06, (len(line), 2))) @ turn.T * scale + centre
        start, along = at[:-1], at[1:] - at[:-1]
        t = np.clip(((points - start) * along).sum(-1) / np.maximum((along**2).sum(-1), 1e-9), 0, 1)
        nearest = np.minimum(nearest, np.linalg.norm(points - (start + t[..., None] * along), axis=-1).min(1))
    return np.clip(random.uniform(1.2, 1.9) + 0.5 - nearest, 0, 1).astype(np.float32).reshape(28, 28)


def filters() -> Array:
    """Return filters for edges in eight directions, 8x5x5."""
    y, x = np.mgrid[-2:3, -2:3]
    angles = np.arange(8)[:, None, None] * np.pi / 4
    along = np.cos(angles) * x + np.sin(angles) * y
    return (along * np.exp(-(x**2 + y**2) / 4) / 4).astype(np.float32)


def features(images: Array, kernels: Array) -> Array:
    """Return what the dense layer reads, n x 288, computed as by the network: 8 maps of 24x24, pooled to 6x6.

    images: n x 28 x 28.
    """
    windows = np.lib.stride_tricks.sliding_window_view(images, (5, 5), (1, 2))
    maps = np.maximum(np.einsum("nhwij,cij->nchw", windows, kernels, optimize=True), 0)
    return maps.reshape(len(images), 8, 6, 4, 6, 4).max((3, 5)).reshape(len(images), -1)


def fit(count: int = 6000) -> tuple[Array, Array, Array]:
    """Return the filters, and weights 288x10 and bias of the dense layer, fitted to `count` digits by ridge regression.

    The targets of the scores are 4 for the right digit and -4 for the others.
    """
    random = np.random.default_rng(19)
    labels = np.arange(count) % 10
    images = np.stack([draw(int(digit), random) for digit in labels])
    kernels = filters()
    inputs = np.c_[features(images, kernels), np.ones(count)].astype(np.float64)
    square = inputs.T @ inputs + 3 * np.eye(inputs.shape[1])
    solved = np.linalg.solve(square, inputs.T @ (8 * np.eye(10)[labels] - 4)).astype(np.float32)
    return kernels, solved[:-1], solved[-1]


def program(kernels: Array, weights: Array, bias: Array) -> str:
    """Return the network as a program in MLIR: pixels → probabilities."""

    def dense(array: Array, shape: str) -> str:
        """Return a constant in MLIR with the bytes of an array."""
        return f'arith.constant dense<"0x{array.astype("<f4").tobytes().hex().upper()}"> : tensor<{shape}xf32>'

    text = (HERE / "digits.mlir").read_text()
    operands: dict[str, Any] = {
        "filters": dense(kernels, "8x1x5x5"), "weights": dense(weights, "288x10"), "bias": dense(bias, "10")
    }  # fmt: skip
    for name, value in operands.items():
        text = text.replace(f"@{name}@", value)
    return text


def main(folder: str) -> None:
    """Write the page, its script and the compiled network, with what runs it in a browser, into a folder."""
    site = Path(folder)
    site.mkdir(parents=True, exist_ok=True)
    pd.compile(program(*fit()), targets="webgpu").save(site / "digits.pdx")
    if command(["export", "--web", str(site / "digits.pdx"), "-o", str(site)]):
        raise SystemExit(1)
    for name in ("index.html", "page.js"):
        shutil.copy(HERE / name, site)


if __name__ == "__main__":
    main(sys.argv[1])
