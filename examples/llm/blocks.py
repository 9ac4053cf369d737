"""Weights as GGUF files store them: integers in blocks of 32, each block with a scale."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Array = Any


@dataclass(frozen=True)
class Blocks:
    """Weights [rows, columns] in blocks of 32 columns. The program stores them like this and widens them in registers.

    Attributes:
        stored: i8[rows, blocks, 32] (Q8_0), or u8[rows, blocks, 16] (Q4_0): byte i has the integers i and 16 + i of its
            block, plus 8, in its low and high half.
        scales: f16[rows, blocks].
    """

    stored: Array
    scales: Array

    @property
    def shape(self) -> tuple[int, int]:
        return self.stored.shape[0], 32 * self.stored.shape[1]

    def widened(self, like: Array) -> Array:
        """Return all weights, f32. like: an array of the program."""
        return _widened(np.asarray(self.stored, like=like), np.asarray(self.scales, like=like))

    def take(self, rows: Array) -> Array:
        """Return rows of the weights, f32[..., columns], at an array of the program."""
        return _widened(np.asarray(self.stored, like=rows)[rows], np.asarray(self.scales, like=rows)[rows])


def _widened(stored: Array, scales: Array) -> Array:
    if stored.dtype == np.uint8:
        integers = np.concatenate([stored & 15, stored >> 4], axis=-1).astype(np.float32) - 8
    else:
        integers = stored.astype(np.float32)
    return (integers * scales[..., None].astype(np.float32)).reshape(*stored.shape[:-2], 32 * stored.shape[-2])
