"""Untrusted JSON: values know their path in the document, so that each fault names it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

_KINDS = {dict: "an object", list: "a list", str: "a text", bool: "a truth value", int: "an integer", float: "a number",
          type(None): "null"}  # fmt: skip


class ProgramFault(ValueError):
    """Error in the contents of a JSON file; the caller adds the name of the file."""


class JsonValue:
    """A value in a JSON text. Every method raises Fault where the value is something else."""

    __slots__ = ("_key", "_parent", "raw")

    def __init__(self, raw: Any, key: str | int, parent: JsonValue | None = None) -> None:
        self.raw = raw
        self._key = key
        self._parent = parent

    @property
    def where(self) -> str:
        """Such as `models/model.json: graph_module.graph.nodes[3]`."""
        if self._parent is None:
            return str(self._key)
        if isinstance(self._key, int):
            return f"{self._parent.where}[{self._key}]"
        return f"{self._parent.where}{': ' if self._parent._parent is None else '.'}{self._key:.80}"

    def fault(self, message: str) -> ProgramFault:
        """Return a Fault whose message says where this value is in the file."""
        return ProgramFault(f"{self.where}: {message}")

    def _expect(self, kind: type) -> Any:
        # bool is an int to Python, and no number to JSON.
        if type(self.raw) is not kind:
            raise self.fault(f"expected {_KINDS[kind]}, got {_KINDS[type(self.raw)]}")
        return self.raw

    # -- objects

    def get(self, key: str) -> JsonValue:
        """Return the value of a key. Fault when the key is missing."""
        if key not in self._expect(dict):
            raise self.fault(f"'{key}' is missing")
        return JsonValue(self.raw[key], key, self)

    def maybe(self, key: str) -> JsonValue | None:
        """Return the value of a key; None when it is absent or null."""
        raw = self._expect(dict).get(key)
        return None if raw is None else JsonValue(raw, key, self)

    def items(self) -> Iterator[tuple[str, JsonValue]]:
        """Yield every key with its value."""
        for key, raw in self._expect(dict).items():
            yield key, JsonValue(raw, key, self)

    def tagged(self) -> tuple[str, JsonValue]:
        """Return the only key of this object, and its value. Fault when it has another number of keys."""
        if len(self._expect(dict)) != 1:
            raise self.fault(f"expected an object with one key, got {len(self.raw)}")
        ((key, raw),) = self.raw.items()
        return key, JsonValue(raw, key, self)

    # -- lists and plain values

    def elements(self) -> list[JsonValue]:
        """Return the elements of this value. Fault unless it is a list."""
        return [JsonValue(raw, i, self) for i, raw in enumerate(self._expect(list))]

    def text(self) -> str:
        """Return this value as text. Fault unless it is a string."""
        return self._expect(str)

    def truth(self) -> bool:
        """Return this value as a bool. Fault unless it is one."""
        return self._expect(bool)

    def integer(self) -> int:
        """Return this value as an integer. Fault unless it is one of 64 bits."""
        value = self._expect(int)
        if not -(1 << 63) <= value < 1 << 63:
            raise self.fault("the integer has more than 64 bits")
        return value

    def size(self) -> int:
        """Return this value as an integer. Fault when it is negative."""
        value = self.integer()
        if value < 0:
            raise self.fault(f"expected an integer of at least 0, got {value}")
        return value

    def number(self) -> float:
        """Return this value as a float; files store infinities and NaN as strings."""
        if isinstance(self.raw, str) and self.raw in ("Infinity", "-Infinity", "NaN"):
            return float(self.raw)
        return float(self.integer()) if type(self.raw) is int else self._expect(float)


def parse(data: memoryview, name: str) -> JsonValue:
    """Return the value of a JSON text. name: of the member that it is. Raises Fault for text that is no JSON."""
    try:
        return JsonValue(json.loads(str(data, "utf-8"), object_pairs_hook=_object, parse_constant=_constant), name)
    except (ValueError, RecursionError) as error:
        raise ProgramFault(f"{name}: it is no JSON: {error!s:.200}") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("an object has a key twice")
    return members


def _constant(text: str) -> Any:
    raise ValueError(f"{text} is no number of JSON")
