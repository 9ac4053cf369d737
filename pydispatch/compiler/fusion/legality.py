"""Rules of code generation for dispatch formation: the operations that may share a dispatch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.ir import Operation

from pydispatch.compiler.analysis.kinds import MOST_BINDINGS, MOST_TENSORS, too_many_arguments
from pydispatch.compiler.fusion.uniform import Space
from pydispatch.ir.op_info import info_of
from pydispatch.ir.values import shape_of


@dataclass(frozen=True)
class Legality:
    """Rules of code generation for which operations may share a dispatch, and limits on the tensors that it binds.

    Dispatch formation merges groups of operations as long as `violation` returns None.

    Attributes:
        why_not: Function that returns why operations, in topological order, may not share a dispatch; None if they
            may.
        space_of: Function that returns the iteration space of an operation (its sizes, see `Space`) if it may share a
            dispatch with all others of that space; None for an operation that `why_not` must check.
        most_tensors: Maximum number of tensors that a dispatch of several operations reads and writes. Larger groups
            are not formed.
        most_operands: Maximum number of tensors that a dispatch of a single operation reads and writes. An operation on
            more tensors is split before groups are formed (`narrow.py`). The default is larger than `most_tensors`: an
            export may bind more tensors than pay for fusion.
    """

    why_not: Callable[[Sequence[Operation]], str | None]
    space_of: Callable[[Operation], Space | None]
    most_tensors: int = MOST_TENSORS
    most_operands: int = MOST_BINDINGS

    def violation(self, group: Sequence[Operation]) -> str | None:
        """Return the reason why operations may not share a dispatch; None when they may."""
        return self.why_not(group) or too_many_arguments(group, self.most_tensors)


def elementwise_only(group: Sequence[Operation]) -> str | None:
    """Return None if all operations are elementwise and of one shape, else the reason why they cannot share a dispatch.
    This is the simplest `Legality.why_not`.
    """
    for op in group:
        if not info_of(op).elementwise:
            return f"'{op.name}' is not elementwise"
    return None if len({shape_of(op.results[0]) for op in group}) == 1 else "the shapes differ"


ELEMENTWISE = Legality(elementwise_only, lambda op: shape_of(op.results[0]) if info_of(op).elementwise else None)
"""The simplest rules: only elementwise operations of one shape share a dispatch."""
