"""The tables and texts of an encoded host program, read without trusting an offset."""

from __future__ import annotations

import struct

from pydispatch.errors import ArtifactError
from pydispatch.formats.program.encode import HEADER
from pydispatch.formats.program.opcodes import MAGIC, VERSIONS


class Records:
    """Tables of an encoded host program. An offset outside of the program raises ArtifactError."""

    def __init__(self, data: bytes) -> None:
        if len(data) < 4 * HEADER or len(data) % 4:
            raise ArtifactError(f"program.bin has {len(data)} bytes; expected a multiple of 4, at least {4 * HEADER}")
        self.data = data
        self.words = struct.unpack(f"<{len(data) // 4}I", data)
        if self.words[0] != MAGIC or self.words[1] not in VERSIONS:
            raise ArtifactError(
                f"program.bin starts with magic 0x{self.words[0]:08x}, version {self.words[1]}; "
                f"expected 0x{MAGIC:08x}, version {VERSIONS[0]} to {VERSIONS[-1]}"
            )

    def table(self, offset: int, count: int, width: int) -> list[tuple[int, ...]]:
        """Return `count` records of `width` words at an offset in words."""
        if offset + count * width > len(self.words):
            raise ArtifactError(
                f"program.bin: {count} records of {width} words at word {offset} end past its {len(self.words)} words"
            )
        return [self.words[offset + i * width : offset + (i + 1) * width] for i in range(count)]

    def string(self, offset: int, length: int) -> str:
        """Return the string of `length` bytes at an offset of the string table."""
        base, size = self.words[3], self.words[4]
        if offset + length > size or base + size > len(self.data):
            raise ArtifactError(
                f"program.bin: a string of {length} bytes at {offset} ends past the {size} bytes of strings"
            )
        return self.data[base + offset : base + offset + length].decode("utf-8", "replace")
