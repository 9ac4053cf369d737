"""Kernels in Python, each for CPUs, CUDA, Vulkan and WebGPU: `python kernels.py [DEVICE]` compares them with NumPy."""

from __future__ import annotations

import math
import sys
from typing import Annotated, Any

import numpy as np

import pydispatch as pd

Vector = Annotated[pd.View, pd.f32["n"]]
Matrix = Annotated[pd.View, pd.f32["m", "n"]]
F32 = Annotated[float, pd.f32]


@pd.kernel(workgroup=512)
def saxpy(a: F32, x: Vector, y: Vector) -> None:
    """Add a * x to y, an element in each invocation."""
    i = pd.global_id(0)
    if i < x.shape[0]:
        y[i] = a * x[i] + y[i]


@pd.kernel(workgroup=256)
def swish(x: Vector, y: Vector, beta: F32) -> None:
    """Write x * sigmoid(beta * x) to y, an element in each invocation."""
    i = pd.global_id(0)
    if i >= x.shape[0]:
        return
    y[i] = x[i] / (1 + pd.exp(-beta * x[i]))


@pd.kernel(workgroup=64, grid=lambda x, y: x.shape[0])
def softmax(x: Matrix, y: Matrix) -> None:
    """Compute a row in each workgroup, whose invocations take every 64th element."""
    row, lane = pd.group_id(0), pd.local_id(0)
    top = pd.f32(-math.inf)
    for j in range(lane, x.shape[1], 64):
        top = max(top, x[row, j])
    largest = pd.group_max(top)
    part = 0.0
    for j in range(lane, x.shape[1], 64):
        power = pd.exp(x[row, j] - largest)
        y[row, j] = power
        part += power
    total = pd.group_sum(part)
    for j in range(lane, x.shape[1], 64):
        y[row, j] /= total


def at(x: pd.View, row: int, column: int) -> Any:
    """Return an element, or 0 outside of x. Functions that kernels call are written like kernels."""
    if row < 0 or column < 0 or row >= x.shape[0] or column >= x.shape[1]:
        return 0.0
    return x[row, column]


TILE = 16
"""Rows and columns of the tiles of `matmul`."""


@pd.kernel(workgroup=(TILE, TILE))
def matmul(
    a: Annotated[pd.View, pd.f32["m", "k"]],
    b: Annotated[pd.View, pd.f32["k", "n"]],
    c: Matrix,
) -> None:
    """Compute 16 x 16 elements of c = a @ b in each workgroup, with tiles of a and b in its memory."""
    left = pd.shared((TILE, TILE), pd.f32)
    right = pd.shared((TILE, TILE), pd.f32)
    column, row = pd.global_id(0), pd.global_id(1)
    x, y = pd.local_id(0), pd.local_id(1)
    total = 0.0
    for k in range(0, a.shape[1], TILE):
        left[y, x] = at(a, row, k + x)
        right[y, x] = at(b, k + y, column)
        pd.barrier()
        for j in range(TILE):
            total += left[y, j] * right[j, x]
        pd.barrier()
    if row < c.shape[0] and column < c.shape[1]:
        c[row, column] = total


BINS, EACH = 256, 128
"""Bins, one for each invocation of a workgroup, and elements that an invocation counts."""


@pd.kernel(workgroup=BINS, grid=lambda x, bins: pd.cdiv(x.shape[0], BINS * EACH))
def histogram(x: Annotated[pd.View, pd.i32["n"]], bins: Annotated[pd.View, pd.i32[BINS]]) -> None:
    """Count in each workgroup 32,768 elements in memory of its own, then add the counts to the bins."""
    counts = pd.shared(BINS, pd.i32)
    lane = pd.local_id(0)
    counts[lane] = 0
    pd.barrier()
    first = pd.group_id(0) * BINS * EACH
    for i in range(first + lane, min(first + BINS * EACH, x.shape[0]), BINS):
        if 0 <= x[i] < BINS:
            pd.atomic_add(counts, x[i], 1)
    pd.barrier()
    pd.atomic_add(bins, lane, counts[lane])


@pd.kernel(workgroup=(512, 1))
def blur(x: Matrix, y: Matrix) -> None:
    """Compute the mean of each element and its four neighbours, which are 0 outside of x."""
    j, i = pd.global_id(0), pd.global_id(1)
    if i < x.shape[0] and j < x.shape[1]:
        total = x[i, j]
        total += x[i - 1, j] if i > 0 else 0.0
        total += x[i + 1, j] if i + 1 < x.shape[0] else 0.0
        total += x[i, j - 1] if j > 0 else 0.0
        total += x[i, j + 1] if j + 1 < x.shape[1] else 0.0
        y[i, j] = total / 5


LANES, MARGIN = 128, 64
"""Elements of a workgroup, and zeros before them, so that no step checks for the first element."""


@pd.kernel(workgroup=LANES)
def prefix_sums(x: Vector, y: Vector) -> None:
    """Compute in each workgroup of 128 elements the sum of the elements up to each one, itself included.

    A step adds four sums, so that the next ones are of four times as many elements.
    """
    sums = pd.shared((2, MARGIN + LANES), pd.f32)  # of a step and of the one before, which take turns
    lane, i = pd.local_id(0), pd.global_id(0)
    if lane < MARGIN:
        sums[0, lane], sums[1, lane] = 0.0, 0.0
    sums[0, MARGIN + lane] = x[i] if i < x.shape[0] else 0.0
    pd.barrier()
    for steps_before, step in enumerate((1, 4, 16)):
        last, at = steps_before % 2, MARGIN + lane
        near, far = sums[last, at] + sums[last, at - step], sums[last, at - 2 * step] + sums[last, at - 3 * step]
        sums[1 - last, at] = near + far
        pd.barrier()
    if i < x.shape[0]:  # the last step adds two sums of 64
        y[i] = sums[1, MARGIN + lane] + sums[1, lane]


def main(device: str = "cpu") -> None:
    """Run each kernel on a device, and compare its result with NumPy's."""
    random = np.random.default_rng(1)
    x, y = random.standard_normal((2, 1000), np.float32)
    a, b = random.standard_normal((50, 70), np.float32), random.standard_normal((70, 30), np.float32)
    values = random.integers(-9, 300, 40000).astype(np.int32)
    counted = np.bincount(values[(values >= 0) & (values < BINS)], minlength=BINS)
    padded = np.pad(a, 1)
    neighbours = padded[:-2, 1:-1] + padded[2:, 1:-1] + padded[1:-1, :-2] + padded[1:-1, 2:]
    powers = np.exp(a - a.max(1, keepdims=True))
    lanes = np.cumsum(np.pad(x, (0, 24)).reshape(-1, 128), axis=1).reshape(-1)[:1000]
    for kernel, operands, expected in (
        (saxpy, (2.0, x, y), 2 * x + y),
        (swish, (x, np.zeros_like(x), 1.5), x / (1 + np.exp(-1.5 * x))),
        (softmax, (a, np.zeros_like(a)), powers / powers.sum(1, keepdims=True)),
        (matmul, (a, b, np.zeros((50, 30), np.float32)), a @ b),
        (histogram, (values, np.zeros(BINS, np.int32)), counted),
        (blur, (a, np.zeros_like(a)), (a + neighbours) / 5),
        (prefix_sums, (x, np.zeros_like(x)), lanes),
    ):
        opened = pd.device(device)
        arrays: list[Any] = [
            opened.upload(operand) if isinstance(operand, np.ndarray) else operand for operand in operands
        ]
        kernel(*arrays)
        np.testing.assert_allclose(arrays[kernel.written[0]], expected, rtol=2e-5, atol=2e-5)
        print(f"{kernel.name}: right on {device}")


if __name__ == "__main__":
    main(*sys.argv[1:])
