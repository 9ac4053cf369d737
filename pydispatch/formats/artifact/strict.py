"""Type checks of JSON values: each returns the value, or raises a ValueError that states what was expected."""

from __future__ import annotations

from typing import Any


def text(value: object) -> str:
    """Return a value that must be a string; raise ValueError otherwise."""
    if type(value) is not str:
        raise ValueError(f"expected text, got {value!r:.60}")
    return value


def listed(value: object, count: int | None = None) -> list[Any]:
    """Return a JSON value that is a list, of `count` items if given; raise ValueError for other values."""
    if type(value) is not list or (count is not None and len(value) != count):
        raise ValueError(f"expected a list{'' if count is None else f' of {count}'}, got {value!r:.60}")
    return value


def table(value: object) -> dict[str, Any]:
    """Return a value that must be a dictionary; raise ValueError otherwise."""
    if type(value) is not dict:
        raise ValueError(f"expected an object, got {value!r:.60}")
    return value


def count(value: object) -> int:
    """Return a JSON value that is an integer from 0 to 2^63 - 1; raise ValueError for other values."""
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise ValueError(f"expected a number of 0 or more, got {value!r:.60}")
    return value


def flag(value: object) -> bool:
    """Return a value that must be true or false; raise ValueError otherwise."""
    if type(value) is not bool:
        raise ValueError(f"expected true or false, got {value!r:.60}")
    return value
