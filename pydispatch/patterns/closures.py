"""Variables of enclosing functions that a function of the user refers to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def closure_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the variables of enclosing functions that a function refers to, by name; {} for other callables.

    Variables that the enclosing function has not assigned yet, or has deleted, are not included.
    """
    names = getattr(getattr(function, "__code__", None), "co_freevars", ())
    cells = getattr(function, "__closure__", None) or ()
    return {name: cell.cell_contents for name, cell in zip(names, cells, strict=False) if _is_set(cell)}


def _is_set(cell: Any) -> bool:
    """Return whether the cell of a closure has a value."""
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True
