"""The tables and texts of an encoded host program, read without trusting an offset."""

from __future__ import annotations

import struct
from typing import Any, TypeVar

from pydispatch.errors import ArtifactError
from pydispatch.formats.program.layout import HEADER_WORDS, Header, Table, join_words
from pydispatch.formats.program.opcodes import MAGIC, VERSIONS

R = TypeVar("R", bound="tuple[int, ...]")
"""Class of records, one of those in layout.py."""


class Records:
    """Reader of the tables and strings of an encoded host program (docs/program.md).

    The program is 32-bit words: a header with the offset and the record count of each table, then the tables, then the
    strings. `table(Table.EXPORTS, ExportRecord)` returns all exports. A record refers to further words by their offset
    in the program, which `records`, `words_at` and `sizes` read, and to a string by its offset in the string table.
    An offset outside of the program raises ArtifactError, since programs are untrusted.

    Attributes:
        data: The bytes of the program.
        words: The program as unsigned 32-bit words.
    """

    def __init__(self, data: bytes) -> None:
        """Check size, magic and version of the bytes; raise ArtifactError if they are no program of a known version."""
        if len(data) < 4 * HEADER_WORDS or len(data) % 4:
            raise ArtifactError(
                f"program.bin has {len(data)} bytes; expected a multiple of 4, at least {4 * HEADER_WORDS}"
            )
        self.data = data
        self.words = struct.unpack(f"<{len(data) // 4}I", data)
        magic, version = self.words[Header.MAGIC], self.words[Header.VERSION]
        if magic != MAGIC or version not in VERSIONS:
            raise ArtifactError(
                f"program.bin starts with magic 0x{magic:08x}, version {version}; "
                f"expected 0x{MAGIC:08x}, version {VERSIONS[0]} to {VERSIONS[-1]}"
            )

    def table(self, table: Table, kind: type[R]) -> list[R]:
        """Return the records of a table of the program. kind: the class of its records, in layout.py."""
        # The value of a `Table` is the header word with the table's offset.
        return self.records(self.words[table], self.count(table), kind)

    def count(self, table: Table) -> int:
        """Return the record count of a table, which is in the header word after its offset."""
        return self.words[table + 1]

    def records(self, offset: int, count: int, kind: type[R]) -> list[R]:
        """Return `count` records of a kind at an offset in words."""
        record: Any = kind  # a NamedTuple; each of its fields is one word
        return [record(*words) for words in self.groups(offset, count, len(record._fields))]

    def words_at(self, offset: int, count: int) -> list[int]:
        """Return `count` words at an offset in words."""
        return [word for (word,) in self.groups(offset, count, 1)]

    def sizes(self, offset: int, rank: int) -> list[int]:
        """Return `rank` sizes of two words each at an offset in words. A dynamic size, -1, is 2^64 - 1."""
        return [join_words(low, high) for low, high in self.groups(offset, rank, 2)]

    def groups(self, offset: int, count: int, width: int) -> list[tuple[int, ...]]:
        """Return `count` groups of `width` words at an offset in words."""
        if offset + count * width > len(self.words):
            raise ArtifactError(
                f"program.bin: {count} records of {width} words at word {offset} end past its {len(self.words)} words"
            )
        return [self.words[offset + i * width : offset + (i + 1) * width] for i in range(count)]

    def string(self, offset: int, length: int) -> str:
        """Return the string of `length` bytes at an offset of the string table."""
        base, size = self.words[Header.STRINGS], self.words[Header.STRING_BYTES]
        if offset + length > size or base + size > len(self.data):
            raise ArtifactError(
                f"program.bin: a string of {length} bytes at {offset} ends past the {size} bytes of strings"
            )
        return self.data[base + offset : base + offset + length].decode("utf-8", "replace")


def signed(value: int) -> int:
    """Return an unsigned 64-bit number as a signed one."""
    return value - (1 << 64) if value >> 63 else value


def sizes_of(words: list[int]) -> list[int]:
    """Return the sizes of which each takes two words, low and high. A dynamic size, -1, is 2^64 - 1."""
    return [join_words(low, high) for low, high in zip(words[::2], words[1::2], strict=True)]


def shape_text(sizes: list[int]) -> str:
    """Return sizes as text to which a type can be appended, such as `2x?x`; -1, as 2^64 - 1, is a dynamic size."""
    return "".join(f"{'?' if signed(size) < 0 else size}x" for size in sizes)
