"""The table of lowerings of an emitter, from the rows of its subjects."""

from __future__ import annotations

from collections.abc import Iterable
from types import ModuleType
from typing import Any


def lowerings_of(subjects: Iterable[ModuleType]) -> dict[str, Any]:
    """Return the lowerings of all subjects, by operation. Two rows for one operation are an error of this package."""
    table: dict[str, Any] = {}
    for subject in subjects:
        if clash := table.keys() & subject.ROWS.keys():
            raise AssertionError(f"two lowerings for {sorted(clash)}")
        table.update(subject.ROWS)
    return table
