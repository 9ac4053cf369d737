"""Kernels over tiles, each for CPUs, CUDA, Vulkan and WebGPU: `python tiles.py [DEVICE]` compares them with NumPy."""

from __future__ import annotations

import math
import sys
from typing import Annotated, Any

import numpy as np

import pydispatch as pd

Vector = Annotated[pd.View, pd.f32["n"]]
Matrix = Annotated[pd.View, pd.f32["m", "n"]]
F32 = Annotated[float, pd.f32]
EACH = 1024
"""Elements that a workgroup of `saxpy` computes."""


@pd.kernel
def saxpy(a: F32, x: Vector, y: Vector) -> None:
    """Add a * x to y, EACH elements in a workgroup."""
    i = pd.group_id(0) * EACH
    y[i : i + EACH] = a * x[i : i + EACH] + y[i : i + EACH]


@pd.kernel(workgroup=128, grid=lambda x, y: pd.cdiv(x.shape[0], 4))
def softmax(x: Matrix, y: Matrix) -> None:
    """Softmax of four rows of at most 1,024 elements; those outside x are -inf."""
    i = pd.group_id(0) * 4
    rows = pd.load(x[i : i + 4, 0:1024], -math.inf)
    powers = pd.exp(rows - pd.max(rows, axis=1, keepdims=True))
    y[i : i + 4, 0:1024] = powers / pd.sum(powers, axis=1, keepdims=True)


ROWS, COLUMNS, DEPTH = 64, 64, 32
"""Rows and columns of a block of the product, and depth of a step."""


@pd.kernel(workgroup=64)
def matmul(
    a: Annotated[pd.View, pd.f32["m", "k"]],
    b: Annotated[pd.View, pd.f32["k", "n"]],
    c: Matrix,
) -> None:
    """Compute 64 x 64 elements of c = a @ b in each workgroup, from tiles that are 32 deep."""
    i, j = pd.group_id(1) * ROWS, pd.group_id(0) * COLUMNS
    total = pd.zeros((ROWS, COLUMNS), pd.f32)
    for k in range(0, a.shape[1], DEPTH):
        total += a[i : i + ROWS, k : k + DEPTH] @ b[k : k + DEPTH, j : j + COLUMNS]
    c[i : i + ROWS, j : j + COLUMNS] = total


HEAD, QUERIES = 64, 16
"""Features of a head, and queries of a workgroup."""
Head = Annotated[pd.View, pd.f32["queries", HEAD]]  # queries of one head, or results
Keys = Annotated[pd.View, pd.f32["keys", HEAD]]  # keys or values of one head


@pd.kernel(workgroup=64, grid=lambda q, k, v, y: pd.cdiv(q.shape[0], QUERIES))
def attention(q: Head, k: Keys, v: Keys, y: Head) -> None:
    """softmax(q @ k.T / 8) @ v, with the scores of 32 keys at a time in memory."""
    i = pd.group_id(0) * QUERIES
    queries = q[i : i + QUERIES, :]
    top = pd.full((QUERIES, 1), -math.inf, pd.f32)
    total = pd.zeros((QUERIES, 1), pd.f32)
    result = pd.zeros((QUERIES, HEAD), pd.f32)
    for j in range(0, k.shape[0], 32):
        scores = queries @ k[j : j + 32, :].T
        scores = pd.where(j + pd.arange(32) < k.shape[0], scores * 0.125, -math.inf)
        highest = pd.maximum(top, pd.max(scores, axis=1, keepdims=True))
        powers = pd.exp(scores - highest)
        scale = pd.exp(top - highest)
        total = total * scale + pd.sum(powers, axis=1, keepdims=True)
        result = result * scale + powers @ v[j : j + 32, :]
        top = highest
    y[i : i + QUERIES, :] = result / total


def softmax_of(x: Any) -> Any:
    """Return the softmax of each row, by NumPy."""
    powers = np.exp(x - x.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


def main(device: str = "cpu") -> None:
    """Run each kernel on a device, and compare its result with NumPy's."""
    random = np.random.default_rng(1)
    x, y = random.standard_normal((2, 3000), np.float32)
    a, b = random.standard_normal((70, 90), np.float32), random.standard_normal((90, 50), np.float32)
    q, k, v = (random.standard_normal((count, HEAD), np.float32) for count in (40, 75, 75))
    for kernel, operands, expected in (
        (saxpy, (2.0, x, y), 2 * x + y),
        (softmax, (a, np.zeros_like(a)), softmax_of(a)),
        (matmul, (a, b, np.zeros((70, 50), np.float32)), a @ b),
        (attention, (q, k, v, np.zeros_like(q)), softmax_of(q @ k.T / 8) @ v),
    ):
        opened = pd.device(device)
        arrays: list[Any] = [
            opened.upload(operand) if isinstance(operand, np.ndarray) else operand for operand in operands
        ]
        kernel(*arrays)
        np.testing.assert_allclose(arrays[kernel.written[0]], expected, rtol=2e-4, atol=2e-5)
        print(f"{kernel.name}: right on {device}")


if __name__ == "__main__":
    main(*sys.argv[1:])
