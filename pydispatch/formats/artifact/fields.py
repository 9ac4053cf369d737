"""Checked fields of JSON objects. Each reader removes a field and returns it, or raises a fault with the path to it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

from pydispatch.errors import ArtifactError

MISSING = object()
"""Value of a field that an object does not have."""
Extra = dict[str, Any]
"""JSON object without the fields that this version knows: fields of other versions, which are written back as read."""
_T = TypeVar("_T")
"""Type of the items that `take_list` returns."""


class ManifestFault(Exception):
    """Invalid value in a manifest.

    The JSON path to the value is built while the exception propagates, so valid manifests pay nothing for it.

    Attributes:
        path: Keys and list indices such as "[2]" from the outermost object to the value; callers prepend theirs.
        expected: What was expected, in words.
        got: The JSON value; MISSING if the object lacks the field.
    """

    def __init__(self, key: str, expected: str, got: object) -> None:
        """Create a fault for the field `key`; "" for an item of a list, to which take_list() adds the index."""
        self.path = [key] if key else []
        self.expected = expected
        self.got = got

    def error(self, member: str) -> ArtifactError:
        """Return the ArtifactError to raise: it names the file `member`, the JSON path to the faulty value, and both
        the expected and the actual value.
        """
        # The path ["shape", "[2]"] is shown as `shape[2]`.
        dotted = "".join(part if part.startswith("[") else f".{part}" for part in self.path)
        where = dotted.lstrip(".") or "the file"
        if self.got is MISSING:
            return ArtifactError(f"{member}: {where}: missing; expected {self.expected}")
        shown = json.dumps(self.got, default=repr)
        shown = shown if len(shown) <= 60 else shown[:57] + "..."
        return ArtifactError(f"{member}: {where}: expected {self.expected}, got {shown}")


# Readers of an entry start from a copy of its JSON object, `rest`. take_text(), take_integer() and take_list()
# remove the field that they return. At the end `rest` has only fields that this version does not know: the `extra` of
# the entry.


def json_object(value: object) -> Extra:
    """Return a copy of a JSON object, from which fields can be removed; raise a fault for another JSON value."""
    if type(value) is not dict:
        raise ManifestFault("", "an object", value)
    return value.copy()


def take_text(rest: Extra, key: str) -> str:
    """Return the field `key` of the object `rest`, a non-empty string; raise ManifestFault for any other value.

    The field is removed, so that in the end `rest` has only the fields that this version does not know.
    """
    value = rest.pop(key, MISSING)
    if type(value) is not str or not value:
        raise ManifestFault(key, "a non-empty string", value)
    return value


def take_integer(rest: Extra, key: str, low: int, high: int) -> int:
    """Remove the field `key` from the object `rest` and return it; raise a fault unless it is an integer from `low` to
    `high`, inclusive."""
    value = rest.pop(key, MISSING)
    if type(value) is not int or not low <= value <= high:
        raise ManifestFault(key, f"an integer from {low} to {high}", value)
    return value


def take_list(rest: Extra, key: str, make: Callable[[object], _T]) -> list[_T]:
    """Remove the field `key`, a list, from the object `rest`, and return its items converted by `make`.

    A fault that `make` raises gets the path to the item, such as `shape[2]`.
    """
    value = rest.pop(key, MISSING)
    if type(value) is not list:
        raise ManifestFault(key, "a list", value)
    items: list[_T] = []
    try:
        for item in value:
            items.append(make(item))
    except ManifestFault as fault:
        fault.path[:0] = [key, f"[{len(items)}]"]
        raise
    return items


def text_item(value: object) -> str:
    """Return a non-empty string; raise a fault for any other item of a list."""
    if type(value) is not str or not value:
        raise ManifestFault("", "a non-empty string", value)  # the caller adds the path to the item
    return value


def size_item(value: object) -> int:
    """Return a size of a shape; raise a fault for any other item of a list."""
    if type(value) is not int or not 0 <= value < 2**63:
        raise ManifestFault("", "a size", value)  # the caller adds the path to the item
    return value


def named_size(value: object) -> int | str:
    """Return a size of a shape: an integer, or the name of a dynamic size. Raise a fault for any other item."""
    return text_item(value) if type(value) is str else size_item(value)
