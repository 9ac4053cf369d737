"""The tables of an executable library, read from its ELF file without running it.

The query function is code, so the tables are found by their shape: a structure of library 0.6 whose pointers are all
relocated to plausible addresses. `read_tables` returns None when that is ambiguous; the loader calls the library
itself.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

VERSION = 6
_RELATIVE = {62: 8, 183: 1027, 243: 3}
_PT_LOAD, _PT_DYNAMIC, _DT_RELA, _DT_RELASZ = 1, 2, 7, 8
_MAX_EXPORTS = _MAX_RELOCATIONS = 1 << 16
_NAME, _COUNT, _PTRS, _ATTRS, _NAMES = 8, 24, 32, 40, 64


@dataclass(frozen=True)
class ExportFacts:
    """The table's entry of one export. constants: 32-bit words. local_memory: bytes."""

    name: str
    constants: int
    bindings: int
    local_memory: int


@dataclass(frozen=True)
class LibraryFacts:
    """The name of a library, and its exports by ordinal."""

    name: str
    exports: tuple[ExportFacts, ...]


class _Image:
    """The loaded segments by address, and the relocated pointers. Nothing is read outside of the file."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        machine, phoff, phnum = (*struct.unpack_from("<H", data, 18), *struct.unpack_from("<Q", data, 32),
                                 *struct.unpack_from("<H", data, 56))  # fmt: skip
        headers = [struct.unpack_from("<IIQQQQQ", data, phoff + 56 * i) for i in range(phnum)]
        self.loads = [(h[1], h[2], h[3], h[5]) for h in headers if h[0] == _PT_LOAD]
        self.pointers: dict[int, int] = {}
        tags: dict[int, int] = {}
        for header in headers:
            if header[0] == _PT_DYNAMIC:
                for at in range(header[2], header[2] + header[5] - 15, 16):
                    tag, value = struct.unpack_from("<qQ", data, at)
                    tags.setdefault(tag, value)
        for i in range(min(tags.get(_DT_RELASZ, 0) // 24, _MAX_RELOCATIONS)):
            place, kind, value = struct.unpack("<QQq", self.read(tags[_DT_RELA] + 24 * i, 24))
            if kind == _RELATIVE.get(machine):
                self.pointers[place] = value

    def read(self, address: int, size: int) -> bytes:
        """Bytes at an address. ValueError outside of the file."""
        for _, offset, start, length in self.loads:
            if start <= address and address + size <= start + length and offset + length <= len(self.data):
                return self.data[offset + address - start :][:size]
        raise ValueError(f"address {address:#x} lies in no segment")

    def executable(self, address: int) -> bool:
        return any(flags & 1 and start <= address < start + length for flags, _, start, length in self.loads)

    def text(self, address: int) -> str:
        """The C string at an address."""
        for _, offset, start, length in self.loads:
            if start <= address < start + length:
                raw = self.data[offset + address - start : offset + length]
                end = raw.find(b"\0")
                if 0 <= end <= 4096:
                    return raw[:end].decode()
        raise ValueError(f"address {address:#x} is no string")


def read_tables(data: bytes) -> LibraryFacts | None:
    """The tables of a linked library; None when they are ambiguous, or the file is broken."""
    try:
        found = list(_candidates(_Image(data)))
    except (ValueError, KeyError, OverflowError, struct.error):
        return None
    return found[0] if len(found) == 1 else None


def _candidates(image: _Image) -> Iterator[LibraryFacts]:
    for place in image.pointers:
        if all(place + field in image.pointers for field in (_PTRS, _ATTRS, _NAMES)):
            try:
                yield _library(image, place)
            except (ValueError, KeyError, OverflowError, struct.error):
                continue


def _library(image: _Image, place: int) -> LibraryFacts:
    pointers = image.pointers
    header = pointers[place]
    (version,) = struct.unpack("<I", image.read(header, 4))
    (count,) = struct.unpack("<I", image.read(place + _COUNT, 4))
    image.read(place, 128)
    if version != VERSION or not 0 < count <= _MAX_EXPORTS:
        raise ValueError("no library")
    exports = []
    for i in range(count):
        if not image.executable(pointers[pointers[place + _PTRS] + 8 * i]):
            raise ValueError("no code")
        attrs = image.read(pointers[place + _ATTRS] + 64 * i, 64)
        pages, constants, bindings = struct.unpack_from("<HBB", attrs, 8)
        name = image.text(pointers[pointers[place + _NAMES] + 8 * i])
        exports.append(ExportFacts(name, constants, bindings, 4096 * pages))
    return LibraryFacts(image.text(pointers[header + _NAME]), tuple(exports))
