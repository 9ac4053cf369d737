"""Groups of elementwise operations over one iteration space, which merge without a check of each operation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from xdsl.ir import Operation, OpResult, SSAValue

from pydispatch.compiler.analysis.kinds import DispatchArguments, arguments_of, is_duplicable, is_read_outside

Space = tuple[int, ...]
"""Iteration space: the sizes of a tensor other than 1, in order; -1 for a dynamic size."""


@dataclass(frozen=True)
class Uniform:
    """Group of elementwise operations with the same iteration space, which may become one dispatch.

    `merging.py` creates one by `of` for each operation, and unites two by `joined` before it merges their groups. An
    operation on tensors [1, 8, 64] has the space (8, 64).

    Attributes:
        space: The iteration space.
        reads: Tensors and scalars that the group reads from outside.
        results: Results of its operations that operations outside of the group read.
    """

    space: Space
    reads: DispatchArguments
    results: frozenset[SSAValue]

    @classmethod
    def of(cls, op: Operation, space: Space | None) -> Uniform | None:
        """Return the group of the single operation `op`, which has the iteration space `space`.

        Return None if `space` is None (`op` is not elementwise over one space), or if `op` reads the result of a
        duplicable operation such as a fill or view. A dispatch gets a copy of that operation, and then also reads the
        operands of the copy, which `reads` would lack.
        """
        if space is None:
            return None
        reads = arguments_of([op])
        if any(isinstance(v, OpResult) and is_duplicable(v.op) for v in reads.tensors):
            return None
        return cls(space, reads, frozenset(op.results))

    def joined(self, other: Uniform, is_inside: Callable[[Operation], bool]) -> Uniform | None:
        """Return the union of two groups; None if their spaces differ.

        is_inside: returns whether an operation is in one of the two groups.
        """
        if self.space != other.space:
            return None
        reads = self.reads.joined(other.reads, is_inside)
        results = frozenset(v for v in self.results | other.results if is_read_outside(v, is_inside))
        return Uniform(self.space, reads, results)
