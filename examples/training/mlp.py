"""Train a small network whose activation is a kernel of its own: loss, gradients and new weights are one program.

Run it as `python examples/training/mlp.py [DEVICE]`; the device is "cpu" unless given, such as "vulkan:0".
"""

from __future__ import annotations

import sys
from typing import Annotated, Any

import numpy as np

import pydispatch as pd

HIDDEN, RATE = 32, 0.2
"""Features of the hidden layer, and learning rate."""
View = Annotated[pd.View, pd.f32["n", "m"]]
Points = Annotated[np.ndarray, pd.f32["batch", 2]]
Targets = Annotated[np.ndarray, pd.f32["batch", 1]]  # wanted results
Inner = Annotated[np.ndarray, pd.f32[2, HIDDEN]]  # weights of the hidden layer
Bias = Annotated[np.ndarray, pd.f32[HIDDEN]]
Outer = Annotated[np.ndarray, pd.f32[HIDDEN, 1]]  # weights of the result


@pd.kernel(workgroup=(16, 4))
def swish(x: View, y: View) -> None:
    """Write x * sigmoid(x) to y, an element in each invocation."""
    i, j = pd.global_id(1), pd.global_id(0)
    if i < x.shape[0] and j < x.shape[1]:
        y[i, j] = x[i, j] / (1 + pd.exp(-x[i, j]))


@pd.kernel(workgroup=(16, 4))
def swish_backward(x: View, dy: View, dx: View) -> None:
    """Write to dx the gradient of x, from the gradient dy of the result."""
    i, j = pd.global_id(1), pd.global_id(0)
    if i < x.shape[0] and j < x.shape[1]:
        s = 1 / (1 + pd.exp(-x[i, j]))
        dx[i, j] = dy[i, j] * (s + x[i, j] * s * (1 - s))


pd.vjp(swish, swish_backward)


@pd.program
def loss(x: Points, t: Targets, w1: Inner, b1: Bias, w2: Outer) -> Any:
    """Return the mean squared error of swish(x @ w1 + b1) @ w2 from the targets t."""
    inner = x @ w1 + b1
    hidden = np.zeros_like(inner)
    swish(inner, hidden)
    return np.mean((hidden @ w2 - t) ** 2)


gradients = pd.value_and_grad(loss, wrt=["w1", "b1", "w2"])


@pd.program
def step(x: Points, t: Targets, w1: Inner, b1: Bias, w2: Outer) -> Any:
    """Return the loss, and the weights after a step of gradient descent."""
    value, dw1, db1, dw2 = gradients(x, t, w1, b1, w2)
    return value, w1 - RATE * dw1, b1 - RATE * db1, w2 - RATE * dw2


def train(device: str = "cpu", steps: int = 200) -> list[float]:
    """Return the loss before each step of training on the sign of x * y, from fixed weights."""
    random = np.random.default_rng(0)
    x = random.uniform(-1, 1, (64, 2)).astype(np.float32)
    t = np.sign(x[:, :1] * x[:, 1:])
    weights = [
        random.standard_normal((2, HIDDEN), np.float32),
        np.zeros(HIDDEN, np.float32),
        random.standard_normal((HIDDEN, 1), np.float32) / np.float32(HIDDEN),
    ]
    target = device.partition(":")[0].partition("?")[0]
    program = pd.device(device).load(pd.compile(step, targets=target))
    losses = []
    for _ in range(steps):
        value, *weights = (np.asarray(result) for result in program.step(x, t, *weights))
        losses.append(float(value))
    return losses


if __name__ == "__main__":
    losses = train(*sys.argv[1:2])
    for count in range(0, len(losses), 50):
        print(f"step {count}: loss {losses[count]:.3f}")
    print(f"last: {losses[-1]:.3f}")
