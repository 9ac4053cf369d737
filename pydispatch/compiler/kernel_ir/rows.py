"""Table of lowerings of an emitter, merged from its modules for groups of operations."""

from __future__ import annotations

from collections.abc import Iterable
from types import ModuleType
from typing import Any


def lowerings_of(subjects: Iterable[ModuleType]) -> dict[str, Any]:
    """Return the lowerings of all modules by operation name; two lowerings of one operation are an internal error."""
    table: dict[str, Any] = {}
    for subject in subjects:
        if clash := table.keys() & subject.ROWS.keys():
            raise AssertionError(f"two lowerings for {sorted(clash)}")
        table.update(subject.ROWS)
    return table
