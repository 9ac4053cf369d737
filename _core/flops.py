"""Number of arithmetic operations of a dispatch, from the artifact's entry for its export
(docs/artifact.md, `flops`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydispatch._core.commands import Command, Custom, Dispatch
from pydispatch._core.status import ArtifactError

WORKGROUPS = -1
"""Value that stands for the number of workgroups of the dispatch, in place of a size of a term [factor, size, ...].

A term is the product of its factor and sizes; the sum of the terms of a dispatch is its number of operations."""


@dataclass(frozen=True)
class Flops:
    """A number of arithmetic operations.

    count: None when unknown. type: the element type that they compute with, such as "f32"; "" for several or unknown
    types.
    """

    count: int | None = None
    type: str = ""

    def __add__(self, other: Flops) -> Flops:
        """Return the sum: unknown if either count is, and without a type if the types of the two differ."""
        if self.count is None or other.count is None:
            return UNKNOWN
        if not self.count or not other.count:  # a count of 0 has no type: take the type of the other one
            return self if self.count else other
        return Flops(self.count + other.count, self.type if self.type == other.type else "")

    def __mul__(self, times: int) -> Flops:
        """Return the operations of `times` runs."""
        return Flops(None if self.count is None else self.count * times, self.type)


UNKNOWN = Flops()
"""The operations of a command that states none."""
NONE = Flops(0)
"""The operations of a command that does not compute, such as a copy."""


def flops_of(command: Command, stated: Mapping[int, list[Any]], constants: bytes) -> Flops:
    """Return the number and the type of the arithmetic operations of one run of a command.

    Args:
        command: A command of the plan; a custom command has an unknown count, a fill or copy has none.
        stated: For each executable by its number, the list `flops` of the manifest. It has an entry for each export, by
            ordinal: None, or a type and terms, whose sum is the count. `["f32", [2, 0, 4]]` stands for 2 times the two
            64-bit constants of the dispatch that begin at its 32-bit words 0 and 4. WORKGROUPS in place of a word is
            the number of workgroups.
        constants: The constant words of the plan, 4 bytes each.

    Raises:
        ArtifactError: `stated` does not follow docs/artifact.md.
    """
    if not isinstance(command, Dispatch):
        return UNKNOWN if isinstance(command, Custom) else NONE
    rows = stated.get(command.executable, [])
    row = rows[command.ordinal] if command.ordinal < len(rows) else None
    if row is None:
        return UNKNOWN
    words = memoryview(constants)[4 * command.first_constant :][: 4 * command.constant_count]
    try:
        name, *terms = row
        if type(name) is not str:
            raise ValueError
        return Flops(sum(_evaluate_term(term, words, math.prod(command.grid)) for term in terms), name)
    except (TypeError, ValueError):
        raise ArtifactError(f"manifest.json: flops of export '{command.name}': expected terms, got {row!r}") from None


def _evaluate_term(term: list[Any], words: memoryview, workgroups: int) -> int:
    """Return the value of a term `[factor, size, ...]`: the product of its factor and sizes.

    A size is the index of the 32-bit word at which a 64-bit constant begins in `words`, or WORKGROUPS, which stands for
    the number `workgroups`. `words` is a view of bytes. Raise ValueError for any other term.
    """
    factor, *sizes = term
    for size in sizes:
        if size == WORKGROUPS:
            factor *= workgroups
        elif type(size) is int and 0 <= 4 * size <= len(words) - 8:  # 8 bytes from word `size` on exist
            factor *= int.from_bytes(words[4 * size : 4 * size + 8], "little")
        else:
            raise ValueError
    if type(factor) is not int or factor < 0:
        raise ValueError
    return factor
