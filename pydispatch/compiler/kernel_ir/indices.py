"""Arithmetic on indices that folds what is known while compiling: one set of rules for whatever writes kernels."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Generic, TypeVar

V = TypeVar("V")
"""An index that is known when the kernel runs: an SSA value, an operand of LLVM IR, an id of SPIR-V."""


class IndexArithmetic(ABC, Generic[V]):
    """Sums, differences and products of indices. What is known while compiling is a plain `int`, and nothing else is:
    types are compared, since some V are integers, too. Indices never overflow a signed number of their width."""

    @abstractmethod
    def _sum(self, a: V, b: int | V) -> V:
        """Write an addition."""

    @abstractmethod
    def _difference(self, a: int | V, b: V) -> V:
        """Write a subtraction."""

    @abstractmethod
    def _product(self, a: V, b: int | V) -> V:
        """Write a multiplication."""

    def plus(self, a: int | V, b: int | V) -> int | V:
        if type(a) is int:
            if type(b) is int:
                return a + b
            a, b = b, a
        return a if type(b) is int and b == 0 else self._sum(a, b)  # type: ignore[arg-type]

    def minus(self, a: int | V, b: int | V) -> int | V:
        if type(b) is int:
            return self.plus(a, -b)
        return 0 if a is b else self._difference(a, b)  # type: ignore[arg-type]

    def times(self, a: int | V, b: int | V) -> int | V:
        if type(a) is int:
            if type(b) is int:
                return a * b
            a, b = b, a
        if type(b) is int and (b == 0 or b == 1):
            return a if b else 0
        return self._product(a, b)  # type: ignore[arg-type]

    def strides(self, sizes: Sequence[int | V]) -> tuple[int | V, ...]:
        """Return the strides of elements that are contiguous in row-major order."""
        found: list[int | V] = []
        stride: int | V = 1
        for number, size in enumerate(reversed(sizes)):
            found.insert(0, stride)
            if number < len(sizes) - 1:
                stride = self.times(stride, size)
        return tuple(found)
