"""Weights as GGUF files store them: integers in blocks, each block with a scale."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

Array = Any  # NumPy array of a file, or traced array of a program


@dataclass(frozen=True)
class Blocks:
    """Quantized weights [rows, columns]. The program stores them like this and widens them in registers.

    A block is a run of columns with one factor, a group is a run of blocks with one scale. A weight is
    scale * factor * (integer - zero) - offset * minimum, in f32. The zero is 8 for integers of 4 bits without minima,
    else 0.

    Attributes:
        stored: i8[rows, parts, columns of a part], where a part is any number of columns, for integers of 8 bits; or
            u8[rows, parts, columns of a part / 2] for integers of 4 bits. The bytes of a part have the integers of its
            first half in their low 4 bits, and those of its second half in the high ones.
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
        """Make the arrays read-only."""
        for array in self._fields():
            if array is not None:
                array.flags.writeable = False  # a program then uses it without a copy

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the weights; bytes of packed ones hold two integers each."""
        rows, *counts = self.stored.shape
        return rows, int(np.prod(counts)) * (2 if self.stored.dtype == np.uint8 else 1)

    def widened(self, like: Array) -> Array:
        """Return all weights, f32[rows, columns]. like: an array of the program that computes with them."""
        return _widened(*(None if x is None else np.asarray(x, like=like) for x in self._fields()))

    def take(self, rows: Array) -> Array:
        """Return rows of the weights, f32[..., columns]. rows: their indices, an array of the program of any shape."""
        return _widened(*(None if x is None else np.asarray(x, like=rows)[rows] for x in self._fields()))

    def _fields(self) -> list[Array | None]:
        """Return the arrays in the order of the attributes; None for those that are not used."""
        return [getattr(self, field.name) for field in fields(self)]


def _widened(stored: Array, scales: Array, factors: Array | None, offsets: Array | None, minima: Array | None) -> Array:
    """Return weights f32[..., columns] from the attributes of Blocks, with any leading axes in place of the rows."""
    is_packed = stored.dtype == np.uint8
    integers = np.concatenate([stored & 15, stored >> 4], axis=-1) if is_packed else stored
    lead, columns = stored.shape[:-2], stored.shape[-2] * stored.shape[-1] * (2 if is_packed else 1)
    steps = _product(scales, factors)  # of a block: the difference of two weights whose integers differ by 1
    by_block = integers.astype(np.float32).reshape(*lead, steps.shape[-1], columns // steps.shape[-1])
    if is_packed and minima is None:
        by_block = by_block - 8
    weights = by_block * steps[..., None]
    if minima is not None:
        weights = weights - _product(offsets, minima)[..., None]
    return weights.reshape(*lead, columns)


def _product(scales: Array, factors: Array | None) -> Array:
    """Return scale * factor of each block, f32[..., blocks].

    scales: f16[..., groups]. factors: [..., groups, blocks of a group]; None: all are 1, and each
    group has one block.
    """
    wide = scales.astype(np.float32)
    if factors is None:
        return wide
    return (wide[..., None] * factors.astype(np.float32)).reshape(*wide.shape[:-1], -1)
