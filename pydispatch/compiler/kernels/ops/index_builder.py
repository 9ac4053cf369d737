"""Index arithmetic of builders: constants fold, and what is known of index values makes operations unnecessary."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from math import prod

from xdsl.dialects import arith
from xdsl.ir import Operation, SSAValue

from pydispatch.compiler.kernel_ir.build import Index
from pydispatch.compiler.kernel_ir.indices import IndexArithmetic
from pydispatch.compiler.kernels.ops.known_indices import KnownIndices

_NSW = arith.IntegerOverflowAttr([arith.IntegerOverflowFlag.NSW])
"""Flag of index arithmetic, which does not overflow as signed arithmetic."""


class IndexBuilder(KnownIndices, IndexArithmetic[SSAValue]):
    """Base of builders of kernels: index arithmetic on integers and SSA values.

    Constants are folded, and known properties of values make operations unnecessary. Subclasses emit the operations
    that are left.
    """

    @abstractmethod
    def index(self, value: int) -> SSAValue:
        """Emit an index constant, unless an equal one exists, and return it."""

    @abstractmethod
    def pure(self, op: Operation) -> SSAValue:
        """Emit an operation without effects, unless an equal one exists, and return its first result."""

    @abstractmethod
    def division(self, op: Operation) -> SSAValue:
        """Emit a division or remainder whose divisor is never 0, unless an equal one exists; return its result."""

    def value(self, index: Index) -> SSAValue:
        """Return an index as an SSA value; an integer becomes a constant."""
        return self.index(index) if isinstance(index, int) else index

    def _sum(self, lhs: SSAValue, rhs: Index) -> SSAValue:
        """Emit the addition of an index to a value; sums of indices do not overflow."""
        return self.pure(arith.AddiOp(lhs, self.value(rhs), overflow=_NSW))

    def _difference(self, lhs: Index, rhs: SSAValue) -> SSAValue:
        """Emit the subtraction of a value from an index; differences of indices do not overflow."""
        return self.pure(arith.SubiOp(self.value(lhs), rhs, overflow=_NSW))

    def _product(self, lhs: SSAValue, rhs: Index) -> SSAValue:
        """Emit the multiplication of a value by an index; products of indices do not overflow."""
        return self.pure(arith.MuliOp(lhs, self.value(rhs), overflow=_NSW))

    def product(self, values: Sequence[Index]) -> Index:
        """Return the product of values; those that are known are multiplied at compile time."""
        known = prod(v for v in values if isinstance(v, int))
        total: Index = 1
        for value in values:
            if not isinstance(value, int):
                total = self.times(total, value)
        return self.times(total, known)

    def linear(self, high: Index, size: Index, low: Index) -> Index:
        """Return high * size + low, where 0 <= low < size, and record its parts.

        With them, the quotient of the value by `size` folds to `high`, and the remainder to `low`.
        """
        value = self.plus(self.times(high, size), low)
        if isinstance(value, SSAValue) and value is not high and value is not low:
            self.linear_parts[value] = (high, size, low)
        return value

    def quotient(self, lhs: Index, rhs: Index) -> Index:
        """Return lhs / rhs, rounded down, of indices that are not negative.

        No division is emitted if the result is known, and if `linear` built lhs as high * size + low and one of `size`
        and `rhs` divides the other.

        A divisor that is 0 at run time gives an unspecified number and no trap.
        """
        if isinstance(lhs, int) and isinstance(rhs, int):
            return lhs // rhs if rhs else 0
        if rhs == 1:
            return lhs
        if self.is_below(lhs, rhs):
            return 0
        if isinstance(lhs, SSAValue) and lhs in self.linear_parts:
            high, size, low = self.linear_parts[lhs]  # lhs was built as high * size + low, with low < size
            if size is rhs or size == rhs:
                return high
            if isinstance(size, int) and isinstance(rhs, int) and rhs:
                if rhs % size == 0:  # (high * 8 + low) / 16 = high / 2
                    return self.quotient(high, rhs // size)
                if size % rhs == 0:  # (high * 8 + low) / 4 = high * 2 + low / 4
                    return self.linear(high, size // rhs, self.quotient(low, rhs))
        return self._divide(arith.DivUIOp, lhs, rhs)

    def remainder(self, lhs: Index, rhs: Index) -> Index:
        """Return lhs % rhs of indices that are not negative.

        No division by `rhs` is emitted if the result is known, and if `linear` built lhs as high * size + low and one
        of `size` and `rhs` divides the other.

        A divisor that is 0 at run time gives an unspecified number and no trap.
        """
        if isinstance(lhs, int) and isinstance(rhs, int):
            return lhs % rhs if rhs else 0
        if rhs == 1:
            return 0
        if self.is_below(lhs, rhs):
            return lhs
        if isinstance(lhs, SSAValue) and lhs in self.linear_parts:
            high, size, low = self.linear_parts[lhs]  # lhs was built as high * size + low, with low < size
            if size is rhs or size == rhs:
                return low
            if isinstance(size, int) and isinstance(rhs, int) and rhs:
                if rhs % size == 0:  # (high * 8 + low) % 16 = (high % 2) * 8 + low
                    return self.linear(self.remainder(high, rhs // size), size, low)
                if size % rhs == 0:  # (high * 8 + low) % 4 = low % 4
                    return self.remainder(low, rhs)
        value = self._divide(arith.RemUIOp, lhs, rhs)
        return self.assume_below(value, rhs)

    def _divide(self, kind: type[arith.DivUIOp] | type[arith.RemUIOp], lhs: Index, rhs: Index) -> SSAValue:
        """Emit the unsigned quotient or remainder (`kind`) of lhs by the larger of rhs and 1: a divisor of 0 traps."""
        divisor = self.value(rhs if isinstance(rhs, int) else self.most(rhs, 1))
        return self.division(kind(self.value(lhs), divisor))

    def ceil_quotient(self, lhs: Index, rhs: Index) -> Index:
        """Return lhs / rhs rounded up, of indices that are not negative.

        A divisor that is 0 at run time gives an unspecified number and no trap, as in `quotient`.
        """
        if isinstance(rhs, int) and rhs == 1:
            return lhs
        # At least 1, so that lhs + divisor - 1 is not negative, as `quotient` requires, even if `rhs` is 0 at run time.
        divisor = rhs if isinstance(rhs, int) else self.most(rhs, 1)
        return self.quotient(self.plus(lhs, self.minus(divisor, 1)), rhs)

    def least(self, lhs: Index, rhs: Index) -> Index:
        """Return the smaller of two indices, signed."""
        if isinstance(lhs, int) and isinstance(rhs, int):
            return min(lhs, rhs)
        return lhs if lhs is rhs else self.pure(arith.MinSIOp(self.value(lhs), self.value(rhs)))

    def most(self, lhs: Index, rhs: Index) -> Index:
        """Return the larger of two indices, signed."""
        if isinstance(lhs, int) and isinstance(rhs, int):
            return max(lhs, rhs)
        return lhs if lhs is rhs else self.pure(arith.MaxSIOp(self.value(lhs), self.value(rhs)))

    def less(self, lhs: Index, rhs: Index) -> SSAValue | bool:
        """Return whether lhs < rhs, signed: a bool if that is known, else an i1."""
        if isinstance(lhs, int) and isinstance(rhs, int):
            return lhs < rhs
        if lhs is rhs:
            return False
        if rhs == 0 and self.is_not_negative(lhs):
            return False
        if self.is_below(lhs, rhs):
            return True
        return self.pure(arith.CmpiOp(self.value(lhs), self.value(rhs), "slt"))

    def clamp(self, index: Index, size: Index) -> Index:
        """Return `index` clamped to [0, size - 1]; meaningless for a size of 0."""
        if self.is_below(index, size):
            return index
        inside = self.most(self.least(index, self.minus(size, 1)), 0)
        return self.assume_below(inside, size) if isinstance(inside, SSAValue) else inside

    def not_empty(self, sizes: Sequence[Index]) -> SSAValue | bool:
        """Return whether all sizes are greater than 0: a bool if that is known, else an i1."""
        condition: SSAValue | bool = True
        for size in sizes:
            is_positive = self.less(0, size)
            if is_positive is False or condition is False:
                return False
            if is_positive is not True:
                condition = is_positive if condition is True else self.pure(arith.AndIOp(condition, is_positive))
        return condition

    def divmod(self, linear: Index, size: Index) -> tuple[Index, Index]:
        """Return the quotient and remainder of `linear` by `size`.

        The pair is recorded in `dividends`. A load from a `memref<6x4xf32>` at the pair [n / 4, n mod 4] can then
        become a load at [n] from a view of the memref with one dimension.
        """
        pair = self.quotient(linear, size), self.remainder(linear, size)
        self.dividends[pair] = (linear, size)
        return pair

    def split(self, linear: Index, sizes: Sequence[Index]) -> list[Index]:
        """Return the indices, one per size, of a row-major linear index: 7 is [1, 3] for the sizes [2, 4]."""
        if not sizes:
            return []
        reversed_indices: list[Index] = []
        for position in range(len(sizes) - 1, 0, -1):
            if all(size == 1 for size in sizes[:position]):  # the outer indices are 0: no division is needed
                reversed_indices.append(linear)
                linear = 0
            else:
                reversed_indices.append(self.remainder(linear, sizes[position]))
                linear = self.quotient(linear, sizes[position])
        outermost = 0 if sizes[0] == 1 else linear
        return [outermost, *reversed(reversed_indices)]

    def linear_index(self, indices: Sequence[Index], sizes: Sequence[Index]) -> Index:
        """Return the row-major linear index of `indices`: the inverse of `split`."""
        linear: Index = 0
        for index, size in zip(indices, sizes, strict=True):
            linear = self.linear(linear, size, index)
        return linear
