"""Derived constants (computed from others, such as packed weights) of a program on an accelerator."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pydispatch._core.commands import BufferKind
from pydispatch._core.plan_data import derivation_of

if TYPE_CHECKING:
    from pydispatch._core.plan_data import PlanData
    from pydispatch._core.program import Module
    from pydispatch.runtime.program.derived import Shared


class Derivation(NamedTuple):
    """Host function that computes derived constants from constants of the artifact and earlier derived ones.

    Attributes:
        plan: Plan of the function, whose results are the constants.
        first_constant: Index of the first constant that it computes; the others follow it.
    """

    plan: PlanData
    first_constant: int


class Derivations:
    """Table of the constants of a program that its host code computes from other constants, such as packed weights.

    It holds no reference to the module, which keeps the executor alive that holds this table.

    Attributes:
        entries: The derivations; each reads results of earlier ones only.
        entry_of_constant: Index of a derived constant of the program → index in `entries` of its derivation.
        shared: Memory of the derived constants, shared with equal programs.
    """

    def __init__(self, module: Module) -> None:
        """Read the derivations of a loaded program: the functions that compute its derived constants."""
        self.shared: Shared = module.derived
        self.entries: list[Derivation] = []
        self.entry_of_constant: dict[int, int] = {}  # index of a constant → index in `entries`
        for index, (function, first_constant, constant_count) in enumerate(module.derivations()):
            self.entries.append(Derivation(derivation_of(module, function), first_constant))
            self.entry_of_constant |= dict.fromkeys(range(first_constant, first_constant + constant_count), index)

    def order(self, constant: int) -> list[int]:
        """Return the indices of the derivations that a derived constant depends on, in the order of execution.

        A derivation only reads results of earlier derivations. So one pass, from the constant's own derivation back to
        the first, finds all. constant: index of the constant in the program.
        """
        own_derivation = self.entry_of_constant[constant]
        needed = {own_derivation}
        for index in range(own_derivation, -1, -1):
            if index in needed:
                buffers = self.entries[index].plan.buffers
                sources = [b.index for b in buffers if b.kind == BufferKind.CONSTANT]
                # A source that is not in `entry_of_constant` is stored in the artifact.
                needed.update(self.entry_of_constant[i] for i in sources if i in self.entry_of_constant)
        return sorted(needed)
