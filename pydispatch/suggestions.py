"""Suggestions of known names in messages about a name that does not exist."""

from __future__ import annotations

from collections.abc import Iterable


def close_matches(name: str, known: Iterable[str], most: int = 1, cutoff: float = 0.6) -> list[str]:
    """Return the known names that are most similar to `name`, best first.

    Args:
        name: The name that does not exist.
        known: The names that exist.
        most: Maximum number of names that are returned.
        cutoff: Least similarity, from 0 for any name to 1 for equal names.
    """
    from difflib import get_close_matches  # only a message about an error needs it

    return get_close_matches(name, list(known), most, cutoff)


def did_you_mean(name: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """Return "did you mean 'x'? " for the most similar known name, with its blank; "" when no name is similar."""
    matches = close_matches(name, known, most=1, cutoff=cutoff)
    return f"did you mean '{matches[0]}'? " if matches else ""


def nearest(name: str, known: Iterable[str], most: int = 3, cutoff: float = 0.6, *, prefix: str = "") -> str:
    """Return "nearest: x, y" for similar known names, each after `prefix`; "" when no name is similar."""
    matches = close_matches(name, known, most, cutoff)
    return f"nearest: {', '.join(prefix + match for match in matches)}" if matches else ""
