"""Index arithmetic with constant folding, shared by all builders of kernels."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Generic, TypeVar

V = TypeVar("V")
"""An index that is known when the kernel runs: an SSA value, an operand of LLVM IR, an id of SPIR-V."""


class IndexArithmetic(ABC, Generic[V]):
    """Base of builders that emit index arithmetic: sums, differences and products, with constant folding.

    A subclass emits operations of one form, such as LLVM IR as text or operations of kernel IR.

    A compile-time constant is exactly of type `int`; other values are of type V, which may be a subclass of `int`, such
    as the ids of SPIR-V. So `plus(2, 3)` returns 5 and `plus(x, 0)` returns x, without an operation, and `plus(2, x)`
    emits an addition. Indices never overflow a signed integer of their width.
    """

    @abstractmethod
    def _sum(self, lhs: V, rhs: int | V) -> V:
        """Emit an addition, and return its value."""

    @abstractmethod
    def _difference(self, lhs: int | V, rhs: V) -> V:
        """Emit a subtraction, and return its value."""

    @abstractmethod
    def _product(self, lhs: V, rhs: int | V) -> V:
        """Emit a multiplication, and return its value."""

    def plus(self, lhs: int | V, rhs: int | V) -> int | V:
        """Return lhs + rhs, computed at compile time as far as possible."""
        if type(lhs) is int:
            if type(rhs) is int:
                return lhs + rhs
            lhs, rhs = rhs, lhs  # the constant second
        return lhs if type(rhs) is int and rhs == 0 else self._sum(lhs, rhs)  # type: ignore[arg-type]

    def minus(self, lhs: int | V, rhs: int | V) -> int | V:
        """Return lhs - rhs, computed at compile time as far as possible."""
        if type(rhs) is int:
            return self.plus(lhs, -rhs)
        return 0 if lhs is rhs else self._difference(lhs, rhs)  # type: ignore[arg-type]

    def times(self, lhs: int | V, rhs: int | V) -> int | V:
        """Return lhs * rhs, computed at compile time as far as possible."""
        if type(lhs) is int:
            if type(rhs) is int:
                return lhs * rhs
            lhs, rhs = rhs, lhs  # the constant factor second
        if type(rhs) is int and rhs == 0:
            return 0
        if type(rhs) is int and rhs == 1:
            return lhs
        return self._product(lhs, rhs)  # type: ignore[arg-type]

    def strides(self, sizes: Sequence[int | V]) -> tuple[int | V, ...]:
        """Return the row-major strides of a contiguous tensor of these sizes, in elements, in the order of the axes."""
        strides: list[int | V] = []
        stride: int | V = 1
        for position, size in enumerate(reversed(sizes)):
            strides.insert(0, stride)
            if position < len(sizes) - 1:  # the outermost size is a factor of no stride
                stride = self.times(stride, size)
        return tuple(strides)
