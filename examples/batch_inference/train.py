"""Trains the model in NumPy, in a few seconds: python train.py [FILE]. It has written weights.npz."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from shapes import PIXELS, SHAPES, images

HIDDEN, BATCH, STEPS, RATE = 64, 128, 3000, 2e-3
"""Size of the hidden layer, images in a step, number of steps, learning rate of the first step."""


def hard_swish(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return hard_swish(x) = x * min(max(x + 3, 0), 6) / 6 and its derivative, element by element."""
    gate = np.clip(x + 3, 0, 6) / 6
    return x * gate, np.where(np.abs(x) < 3, gate + x / 6, gate)


def scores(weights: dict[str, np.ndarray], pixels: np.ndarray) -> np.ndarray:
    """Return the scores f32[n, shapes] that model.mlir computes, for pixels uint8[n, 256]."""
    hidden = hard_swish(pixels.astype(np.float32) / 255 @ weights["w1"] + weights["b1"])[0]
    return hidden @ weights["w2"] + weights["b2"]


def train(steps: int = STEPS, seed: int = 7) -> dict[str, np.ndarray]:
    """Return the weights (w1, b1, w2, b2) after `steps` of Adam on the cross entropy. seed: of weights and images."""
    rng = np.random.default_rng(seed)
    sizes = PIXELS * PIXELS, HIDDEN, len(SHAPES)
    weights = {"b1": np.zeros(HIDDEN), "b2": np.zeros(len(SHAPES))}
    for name, n, m in (("w1", *sizes[:2]), ("w2", *sizes[1:])):
        weights[name] = rng.standard_normal((n, m)) * np.sqrt(2 / n)
    weights = {name: value.astype(np.float32) for name, value in weights.items()}
    # Moving averages of the gradients and of their squares.
    mean = {name: np.zeros_like(value) for name, value in weights.items()}
    square = {name: np.zeros_like(value) for name, value in weights.items()}
    pixels, shape = images(20_000, seed)
    pixels = pixels.astype(np.float32) / 255
    for step in range(1, steps + 1):
        chosen = rng.integers(0, len(pixels), BATCH)
        x = pixels[chosen]
        hidden, slope = hard_swish(x @ weights["w1"] + weights["b1"])
        y = hidden @ weights["w2"] + weights["b2"]
        y = np.exp(y - y.max(1, keepdims=True))
        y /= y.sum(1, keepdims=True)
        y[np.arange(BATCH), shape[chosen]] -= 1  # softmax - one-hot: the gradient of the cross entropy by the scores
        y /= BATCH
        back = y @ weights["w2"].T * slope
        gradients = {"w2": hidden.T @ y, "b2": y.sum(0), "w1": x.T @ back, "b1": back.sum(0)}
        for name, gradient in gradients.items():
            mean[name] += 0.1 * (gradient - mean[name])
            square[name] += 0.001 * (gradient**2 - square[name])
            # The rate falls linearly to 0, and corrects the bias of averages that began with 0.
            rate = RATE * (1 - step / (steps + 1)) * np.sqrt(1 - 0.999**step) / (1 - 0.9**step)
            weights[name] -= (rate * mean[name] / (np.sqrt(square[name]) + 1e-8)).astype(np.float32)
    return weights


def accuracy(weights: dict[str, np.ndarray], count: int = 5_000, seed: int = 99) -> float:
    """Return the share of images, from 0 to 1, whose shape has the highest score. seed: not that of training."""
    pixels, shape = images(count, seed)
    return float((scores(weights, pixels).argmax(1) == shape).mean())


def main() -> None:
    """Train the model, write its weights, and print its accuracy on images that it has not seen."""
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("weights.npz")
    weights = train()
    np.savez(path, **weights)
    print(f"{path}: {accuracy(weights):.1%} of other images are right")


if __name__ == "__main__":
    main()
