"""Weights as GGUF files store them: integers in blocks, each block with a scale."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

Array = Any


@dataclass(frozen=True)
class Blocks:
    """Weights [rows, columns] in blocks of columns. The program stores them like this and widens them in registers.

    A weight is scale * factor * (integer - zero) - offset * minimum, in f32. The zero is 8 for integers of 4 bits
    without minima, else 0.

    Attributes:
        stored: i8[rows, parts, columns of a part], or u8[rows, parts, columns of a part / 2]: the bytes of a part have
            the integers of its first half in their low 4 bits, and those of its second half in the high ones.
        scales: f16[rows, groups] of equal groups of columns.
        factors: u8 or i8 [rows, groups, blocks of a group]; None for 1 and groups of one block.
        offsets: f16[rows, groups]; None without minima.
        minima: u8[rows, groups, blocks of a group]; None for 0.
    """

    stored: Array
    scales: Array
    factors: Array | None = None
    offsets: Array | None = None
    minima: Array | None = None

    def __post_init__(self) -> None:
        for array in self._fields():
            if array is not None:
                array.flags.writeable = False  # a program then uses it without a copy

    @property
    def shape(self) -> tuple[int, int]:
        rows, *counts = self.stored.shape
        return rows, int(np.prod(counts)) * (2 if self.stored.dtype == np.uint8 else 1)

    def widened(self, like: Array) -> Array:
        """Return all weights, f32. like: an array of the program."""
        return _widened(*(None if x is None else np.asarray(x, like=like) for x in self._fields()))

    def take(self, rows: Array) -> Array:
        """Return rows of the weights, f32[..., columns], at an array of the program."""
        return _widened(*(None if x is None else np.asarray(x, like=rows)[rows] for x in self._fields()))

    def _fields(self) -> list[Array | None]:
        return [getattr(self, field.name) for field in fields(self)]


def _widened(stored: Array, scales: Array, factors: Array | None, offsets: Array | None, minima: Array | None) -> Array:
    is_packed = stored.dtype == np.uint8
    integers = np.concatenate([stored & 15, stored >> 4], axis=-1) if is_packed else stored
    lead, columns = stored.shape[:-2], stored.shape[-2] * stored.shape[-1] * (2 if is_packed else 1)
    steps = _product(scales, factors)
    by_block = integers.astype(np.float32).reshape(*lead, steps.shape[-1], columns // steps.shape[-1])
    if is_packed and minima is None:
        by_block = by_block - 8
    weights = by_block * steps[..., None]
    if minima is not None:
        weights = weights - _product(offsets, minima)[..., None]
    return weights.reshape(*lead, columns)


def _product(scales: Array, factors: Array | None) -> Array:
    """Return the scale of each block, f32[..., blocks]."""
    wide = scales.astype(np.float32)
    if factors is None:
        return wide
    return (wide[..., None] * factors.astype(np.float32)).reshape(*wide.shape[:-1], -1)
