"""Description of a contraction by the properties that the choice of a schedule depends on."""

from __future__ import annotations

from dataclasses import dataclass

FEW_ROWS = 64
"""Rows of A up to which a transposed B is read in place along K; for more, transposing it once pays."""


@dataclass(frozen=True)
class Operand:
    """A factor. direct: it is an element of an argument, in the type that is computed in or one that blocks widen, so
    that it may be read in place; stride: bytes between its rows, along M in A and along K in B, 0 where that is not
    known; along_k, along_n: whether neighbours along that dimension lie side by side; size: bytes of an element where
    it is no packed one, 0 where these are as long."""

    direct: bool
    stride: int
    along_k: bool
    along_n: bool
    size: int = 0


@dataclass(frozen=True)
class Problem:
    """Properties of a contraction that determine its schedule.

    Attributes:
        size: Bytes of a sum.
        m, n, k: Sizes; None if dynamic.
        least, most: Bounds of the row count that the kernel is used for; most is None for no upper bound.
        outer, reductions: Products of the sizes of the other parallel dimensions, and of the other reduced
            dimensions.
        panel: Columns of a panel if B is stored in panels, else 0.
        group: Steps of K that one instruction takes.
        matrix_steps: Groups that matrix registers multiply at once; 0 if matrix registers are not used.
        repeated: Product of the known sizes of the outer dimensions that B does not have; 1 if the size of a
            reduction is dynamic.
    """

    size: int
    m: int | None
    n: int | None
    k: int | None
    least: int
    most: int | None
    outer: int
    reductions: int
    a: Operand
    b: Operand
    panel: int
    group: int
    matrix_steps: int = 0
    repeated: int = 1

    @property
    def few(self) -> bool:
        """Whether the kernel is for a range of rows that may be less than a block."""
        return self.most is not None and self.least != self.most

    @property
    def along_k(self) -> bool:
        """Whether B can be read in place along K only, so that sums have partial sums in their lanes."""
        return not self.panel and self.b.along_k and not self.b.along_n

    @property
    def converts_along_k(self) -> bool:
        """Whether B, which is computed, is packed along K: few rows use it, so that transposing it does not pay."""
        known = self.m is not None and self.n is not None
        return known and self.group == 1 and self.along_k and self.a.along_k and not self.b.direct and few_rows(self)

    def runs_along_k(self, pack_b: bool) -> bool:
        """Return whether vectors lie along K."""
        return self.converts_along_k if pack_b else self.along_k

    @property
    def a_in_place(self) -> bool:
        """Whether A may be read in place, by blocks that have no more rows."""
        return self.a.direct and self.m is not None and not self.few

    @property
    def b_in_place(self) -> bool:
        """Whether B may be read in place, by blocks that have no more columns."""
        known = self.m is not None and self.n is not None
        return self.b.direct and bool(self.panel or (known and (self.b.along_n or (self.along_k and self.a.along_k))))


def few_rows(problem: Problem) -> bool:
    """Return whether a transposed B is used by so few rows that vectors along K are faster than transposing it."""
    return problem.m is not None and (problem.m <= 4 or (problem.m <= FEW_ROWS and (problem.k or 0) >= 64))
