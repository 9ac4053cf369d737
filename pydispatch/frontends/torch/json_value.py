"""Typed access to untrusted JSON. Each value knows its path in the document, which errors show."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

_KINDS = {dict: "an object", list: "a list", str: "a text", bool: "a truth value", int: "an integer", float: "a number",
          type(None): "null"}  # fmt: skip
"""Types of values -> what errors call them."""


class ProgramFault(ValueError):
    """Error in the contents of a JSON file. The caller adds the name of the file."""


class JsonValue:
    """A value in a JSON document. Its methods raise ProgramFault if the value has another type than the method expects.

    raw: the value as Python's json has it. key: its name or index in `parent`; for the whole document the name of the
    file. parent: the object or list that contains it.
    """

    __slots__ = ("_key", "_parent", "raw")

    def __init__(self, raw: Any, key: str | int, parent: JsonValue | None = None) -> None:
        """Wrap a value. The class describes the arguments; `key` and `parent` give the path that errors show."""
        self.raw = raw
        self._key = key
        self._parent = parent

    @property
    def where(self) -> str:
        """Return the path of this value, for example `models/model.json: graph_module.graph.nodes[3]`."""
        if self._parent is None:
            return str(self._key)
        if isinstance(self._key, int):
            return f"{self._parent.where}[{self._key}]"
        return f"{self._parent.where}{': ' if self._parent._parent is None else '.'}{self._key:.80}"

    def fault(self, message: str) -> ProgramFault:
        """Return a ProgramFault whose message begins with the path of this value; the caller raises it."""
        return ProgramFault(f"{self.where}: {message}")

    def _expect(self, kind: type) -> Any:
        """Return the raw value. Raise ProgramFault if its type is not `kind`."""
        # isinstance would accept a bool as an int, which JSON distinguishes.
        if type(self.raw) is not kind:
            raise self.fault(f"expected {_KINDS[kind]}, got {_KINDS[type(self.raw)]}")
        return self.raw

    # -- objects

    def get(self, key: str) -> JsonValue:
        """Return the value of a key of this object. Raise ProgramFault if the key is missing."""
        if key not in self._expect(dict):
            raise self.fault(f"'{key}' is missing")
        return JsonValue(self.raw[key], key, self)

    def maybe(self, key: str) -> JsonValue | None:
        """Return the value of a key of this object; None if it is absent or null."""
        raw = self._expect(dict).get(key)
        return None if raw is None else JsonValue(raw, key, self)

    def items(self) -> Iterator[tuple[str, JsonValue]]:
        """Yield the key-value pairs of this object."""
        for key, raw in self._expect(dict).items():
            yield key, JsonValue(raw, key, self)

    def tagged(self) -> tuple[str, JsonValue]:
        """Return the key and the value of an object that has exactly one key, a tagged union. Raise ProgramFault
        otherwise.
        """
        if len(self._expect(dict)) != 1:
            raise self.fault(f"expected an object with one key, got {len(self.raw)}")
        ((key, raw),) = self.raw.items()
        return key, JsonValue(raw, key, self)

    # -- lists and plain values

    def elements(self) -> list[JsonValue]:
        """Return the elements of this list."""
        return [JsonValue(raw, i, self) for i, raw in enumerate(self._expect(list))]

    def text(self) -> str:
        """Return this string."""
        return self._expect(str)

    def truth(self) -> bool:
        """Return this bool."""
        return self._expect(bool)

    def integer(self) -> int:
        """Return this integer. Raise ProgramFault if it does not fit 64 bits."""
        value = self._expect(int)
        if not -(1 << 63) <= value < 1 << 63:
            raise self.fault("the integer has more than 64 bits")
        return value

    def size(self) -> int:
        """Return this integer. Raise ProgramFault if it is negative."""
        value = self.integer()
        if value < 0:
            raise self.fault(f"expected an integer of at least 0, got {value}")
        return value

    def number(self) -> float:
        """Return this number as a float. PyTorch writes infinities and NaN, which JSON lacks, as strings."""
        if isinstance(self.raw, str) and self.raw in ("Infinity", "-Infinity", "NaN"):
            return float(self.raw)
        return float(self.integer()) if type(self.raw) is int else self._expect(float)


def parse(data: memoryview, name: str) -> JsonValue:
    """Parse a JSON text. `name` is the name of the archive member, for errors. Raise ProgramFault if the text
    is invalid.
    """
    try:
        return JsonValue(json.loads(str(data, "utf-8"), object_pairs_hook=_object, parse_constant=_constant), name)
    except (ValueError, RecursionError) as error:
        raise ProgramFault(f"{name}: it is no JSON: {error!s:.200}") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the members of a JSON object. Raise ValueError for a duplicate key, which the json module would accept."""
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("an object has a key twice")
    return members


def _constant(text: str) -> Any:
    """Refuse the constants NaN and Infinity, which the json module would accept."""
    raise ValueError(f"{text} is no number of JSON")
