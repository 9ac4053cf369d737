"""Derived constants of a program on an accelerator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydispatch._core.commands import BufferKind
from pydispatch._core.plan_data import derivation_of

if TYPE_CHECKING:
    from pydispatch._core.plan_data import PlanData
    from pydispatch._core.program import Module
    from pydispatch.runtime.program.derived import Shared


class Derivations:
    """Table of the constants of a program that its host code computes from other constants, such as packed weights.

    It holds no reference to the module.

    Attributes:
        runs: (plan, first derived constant) of each derivation.
        derivation_of: Index in `runs` of the derivation of each derived constant.
        shared: Memory of the constants, shared with equal programs.
    """

    def __init__(self, module: Module) -> None:
        self.shared: Shared = module.derived
        records = module.derivations()
        self.runs: list[tuple[PlanData, int]] = [(derivation_of(module, f), first) for f, first, _ in records]
        self.derivation_of = {c: n for n, (_, first, count) in enumerate(records) for c in range(first, first + count)}

    def order(self, constant: int) -> list[int]:
        """Return the derivations that a constant depends on, in the order of execution."""
        last_run = self.derivation_of[constant]
        needed = {last_run}
        for index in range(last_run, -1, -1):
            if index in needed:
                buffers = self.runs[index][0].buffers
                sources = [b.index for b in buffers if b.kind == BufferKind.CONSTANT]
                needed.update(self.derivation_of[i] for i in sources if i in self.derivation_of)
        return sorted(needed)
