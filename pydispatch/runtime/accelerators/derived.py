"""Derived constants of a program, as its device computes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydispatch._core.commands import BufferKind
from pydispatch._core.plan_data import derivation_of

if TYPE_CHECKING:
    from pydispatch._core.plan_data import PlanData
    from pydispatch._core.program import Module
    from pydispatch.runtime.program.derived import Shared


class Derivations:
    """The table of derived constants. runs: of each record the plan of its function and the first of its constants.
    makers: the record of each derived constant. shared: the memory, also that of equal programs. Holds no module."""

    def __init__(self, module: Module) -> None:
        self.shared: Shared = module.derived
        records = module.derivations()
        self.runs: list[tuple[PlanData, int]] = [(derivation_of(module, f), first) for f, first, _ in records]
        self.makers = {c: n for n, (_, first, count) in enumerate(records) for c in range(first, first + count)}

    def order(self, constant: int) -> list[int]:
        """Return the records that a constant needs, in the order in which they run: each reads constants of earlier
        ones.
        """
        last = self.makers[constant]
        needed = {last}
        for run in range(last, -1, -1):
            if run in needed:
                buffers = self.runs[run][0].buffers
                sources = [b.index for b in buffers if b.kind == BufferKind.CONSTANT]
                needed.update(self.makers[i] for i in sources if i in self.makers)
        return sorted(needed)
