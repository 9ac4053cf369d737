"""Table of lowerings of an emitter, merged from its modules for groups of operations."""

from __future__ import annotations

from collections.abc import Iterable
from types import ModuleType
from typing import Any


def lowerings_of(modules: Iterable[ModuleType]) -> dict[str, Any]:
    """Return the lowerings of all modules by operation name; two lowerings of one operation are an internal error.

    Each module has them in `ROWS`, a dictionary: name of an operation -> function that lowers it.
    """
    table: dict[str, Any] = {}
    for module in modules:
        if clash := table.keys() & module.ROWS.keys():
            raise AssertionError(f"two lowerings for {sorted(clash)}")
        table.update(module.ROWS)
    return table
