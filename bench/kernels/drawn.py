"""Random kernels: their kinds and sizes are drawn with a seed, so that nobody has chosen them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from work import (
    Work,
    attention,
    convolution,
    gather,
    group_norm,
    layer_norm,
    pooling,
    product,
    reduction,
    softmax,
    transposed_convolution,
)

LARGEST = 2e9
"""Multiplications of a kernel, at most: larger ones are drawn again."""

Maker = Callable[[], Work]
"""Function that creates a kernel, with its arguments."""


class Draw:
    """Source of random kernels: each method but `size` draws one of its kind.

    A method returns the Maker of the kernel, a function that creates it with its arguments, or None if the kernel would
    have more than LARGEST multiplications.
    """

    def __init__(self, seed: int) -> None:
        """Begin the sequence of draws of a seed."""
        self.rng = np.random.default_rng(seed)

    def size(self, low: int, high: int) -> int:
        """Draw a size from `low` to `high`, both inclusive.

        Its logarithm is uniform, so that small sizes are as likely as large ones. Every second size from 8 on is a
        multiple of 8, as sizes of real models mostly are.
        """
        rounded = round(float(np.exp(self.rng.uniform(np.log(low), np.log(high + 1)))))
        rounded = rounded // 8 * 8 if self.rng.integers(2) and rounded >= 8 else rounded
        return min(max(rounded, low), high)

    def products(self) -> Maker | None:
        """Draw a product of matrices, with weights stored as [k, n] or transposed."""
        m, k, n, transposed = self.size(1, 600), self.size(1, 5000), self.size(1, 5000), bool(self.rng.integers(2))
        return None if m * k * n > LARGEST else lambda: product("drawn", m, k, n, transposed)

    def convolutions(self) -> Maker | None:
        """Draw a convolution of a square image or, one time in four, of a signal of 8 times the image's side."""
        side, inputs, outputs = self.size(3, 112), self.size(1, 512), self.size(1, 512)
        window, stride = int(self.rng.choice([1, 2, 3, 5, 7])), int(self.rng.choice([1, 1, 2]))
        channels_first, is_signal = bool(self.rng.integers(2)), not self.rng.integers(4)
        dilation = int(self.rng.choice([1, 1, 1, 2]))
        shape = (side * 8,) if is_signal else (side, side)
        multiplications = float(np.prod(shape)) * inputs * outputs * window ** len(shape) / stride ** len(shape)
        if multiplications > LARGEST:
            return None
        return lambda: convolution("drawn", shape, inputs, outputs, window, stride, channels_first=channels_first,
                                   dilation=dilation)  # fmt: skip

    def depthwise(self) -> Maker:
        """Draw a depthwise convolution, which has a filter for each channel, of a square image."""
        side, channels, window = self.size(5, 112), self.size(4, 600), int(self.rng.choice([3, 5, 7]))
        stride, channels_first = int(self.rng.choice([1, 2])), bool(self.rng.integers(2))
        return lambda: convolution("drawn", (side, side), channels, channels, window, stride,
                                   channels_first=channels_first, groups=channels)  # fmt: skip

    def grouped(self) -> Maker:
        """Draw a convolution of 3x3 with 2 to 32 groups of channels, of a square image."""
        groups, channels, side = int(self.rng.choice([2, 4, 8, 32])), self.size(2, 32), self.size(5, 56)
        channels_first = bool(self.rng.integers(2))
        return lambda: convolution("drawn", (side, side), groups * channels, groups * channels, 3,
                                   channels_first=channels_first, groups=groups)  # fmt: skip

    def transposed(self) -> Maker:
        """Draw a transposed convolution that doubles the side of a square image."""
        side, window = self.size(4, 48), int(self.rng.choice([2, 3, 4]))
        inputs, outputs = self.size(4, 256), self.size(4, 128)
        return lambda: transposed_convolution("drawn", side, inputs, outputs, window, stride=2)

    def poolings(self) -> Maker:
        """Draw the maxima or means of windows of 2x2 or 3x3 with a stride of 2."""
        kind, side, channels = str(self.rng.choice(["max", "mean"])), self.size(8, 112), self.size(3, 600)
        window = int(self.rng.choice([2, 3]))
        return lambda: pooling("drawn", kind, side, channels, window, stride=2)

    def reductions(self) -> Maker:
        """Draw the sum of a tensor with one to three axes over some of them, at least over one."""
        rank = int(self.rng.integers(1, 4))
        # The product of sizes is at most 4e6, whatever the rank; at least one axis is reduced.
        sizes = tuple(self.size(1, int(4e6 ** (1 / rank))) for _ in range(rank))
        axes = tuple(sorted(self.rng.choice(rank, int(self.rng.integers(1, rank + 1)), replace=False).tolist()))
        return lambda: reduction("drawn", sizes, axes, "sum")

    def rows(self) -> Maker:
        """Draw the softmax or the layer normalization of rows."""
        make, rows, width = [softmax, layer_norm][self.rng.integers(2)], self.size(1, 2000), self.size(8, 5000)
        return lambda: make(rows, width)

    def group_norms(self) -> Maker:
        """Draw the group normalization of a square image."""
        groups, channels, side = int(self.rng.choice([4, 8, 32])), self.size(2, 32), self.size(4, 64)
        return lambda: group_norm(side, groups * channels, groups)

    def gathers(self) -> Maker:
        """Draw a copy of rows of a table by their indices."""
        rows, width, count = self.size(100, 20000), self.size(1, 2000), self.size(1, 2000)
        return lambda: gather("drawn", rows, width, count)

    def attentions(self) -> Maker:
        """Draw attention of a single query or of several; there are at least as many keys as queries."""
        queries, heads = int(self.rng.choice([1, self.size(2, 400)])), self.size(1, 16)
        width = int(self.rng.choice([32, 64, 80, 128]))
        keys = max(queries, self.size(16, 600))
        return lambda: attention("drawn attention", queries, keys, heads, width)


def drawn(count: int, seed: int) -> Iterator[Maker]:
    """Yield the Makers of `count` kernels; equal seeds draw equal kernels."""
    draw = Draw(seed)
    # Products and convolutions twice: they take most of the time in models.
    kinds: list[Callable[[], Maker | None]] = [
        draw.products, draw.products, draw.convolutions, draw.convolutions, draw.depthwise, draw.grouped,
        draw.transposed, draw.poolings, draw.reductions, draw.rows, draw.group_norms, draw.gathers, draw.attentions,
    ]  # fmt: skip
    while count > 0:
        kernel = kinds[draw.rng.integers(len(kinds))]()
        if kernel is not None:
            count -= 1
            yield kernel
