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
    """Rules of which operations may be one dispatch.

    why_not: returns why operations, in an order in which they can run, may not; None when they may. space_of: returns
    the space of an operation that may share a dispatch with all others that have the same space, and None for an
    operation that `why_not` must see. most_tensors: what a dispatch of several operations reads
    and writes; most_operands: what one of a single operation does.
    """

    why_not: Callable[[Sequence[Operation]], str | None]
    space_of: Callable[[Operation], Space | None]
    most_tensors: int = MOST_TENSORS
    most_operands: int = MOST_BINDINGS

    def of(self, group: Sequence[Operation]) -> str | None:
        """Return why operations may not be one dispatch; None when they may."""
        return self.why_not(group) or too_many_arguments(group, self.most_tensors)


def elementwise_only(group: Sequence[Operation]) -> str | None:
    """Return why operations are not elementwise operations of one shape, None when they are: the simplest legality."""
    for op in group:
        if not info_of(op).elementwise:
            return f"'{op.name}' is not elementwise"
    return None if len({shape_of(op.results[0]) for op in group}) == 1 else "the shapes differ"


ELEMENTWISE = Legality(elementwise_only, lambda op: shape_of(op.results[0]) if info_of(op).elementwise else None)
