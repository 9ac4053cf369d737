"""Tables of the strings and device queries that functions of a host program refer to by number, without duplicates."""

from __future__ import annotations


class References:
    """Interned strings and device queries of a program.

    Attributes:
        text: UTF-8 bytes of all strings, one after the other.
        queries: Device queries (category, key, default), by number. The default is the result, as an unsigned 64-bit
            number, on a device that does not know the query.
    """

    def __init__(self) -> None:
        """Create empty tables."""
        self.text = bytearray()
        self.queries: list[tuple[str, str, int]] = []
        self._offsets: dict[bytes, int] = {}  # bytes of a string → their offset in `text`

    def string(self, text: str) -> tuple[int, int]:
        """Intern a string and return its (offset, length), in bytes of UTF-8."""
        data = text.encode()
        if data not in self._offsets:
            self._offsets[data] = len(self.text)
            self.text += data
        return self._offsets[data], len(data)

    def add_query(self, category: str, key: str, default: int) -> int:
        """Return the number of a device query; add it on first use."""
        query = (category, key, default & ((1 << 64) - 1))
        if query not in self.queries:
            self.queries.append(query)
        return self.queries.index(query)
