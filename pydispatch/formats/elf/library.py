"""The tables of an executable library, read from its ELF file without running it.

The query function is code, so the tables are found by their shape: a structure of library 0.6 whose pointers are all
relocated to plausible addresses. `read_tables` returns None when that is ambiguous; the loader calls the library
itself.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from pydispatch.formats.elf.reader import DT_RELA, DT_RELASZ, PF_EXEC, ElfError, ElfFile

VERSION = 6
_RELATIVE = {62: 8, 183: 1027, 243: 3}
_PAGE_BYTES = 4096
_MAX_EXPORTS = _MAX_RELOCATIONS = 1 << 16
_NAME, _COUNT, _PTRS, _ATTRS, _NAMES = 8, 24, 32, 40, 64


@dataclass(frozen=True)
class ExportFacts:
    """Metadata of one export.

    Attributes:
        constants: Number of 32-bit constants.
        bindings: Number of buffer bindings.
        local_memory: Workgroup memory, in bytes.
    """

    name: str
    constants: int
    bindings: int
    local_memory: int


@dataclass(frozen=True)
class LibraryFacts:
    """Name of an executable library, and its exports by ordinal."""

    name: str
    exports: tuple[ExportFacts, ...]


class _Image:
    """Loaded segments of an ELF file, addressed by virtual address.

    Attributes:
        pointers: Values of the pointers that load-time relocations store, by their address.
    """

    def __init__(self, data: bytes) -> None:
        self.file = ElfFile(data)
        self.pointers: dict[int, int] = {}
        table, size = self.file.tag(DT_RELA), self.file.tag(DT_RELASZ)
        if table is None or size is None:
            return
        for i in range(min(size // 24, _MAX_RELOCATIONS)):
            offset, kind, value = struct.unpack("<QQq", self.read(table + 24 * i, 24))
            if kind == _RELATIVE.get(self.file.machine):
                self.pointers[offset] = value

    def read(self, address: int, size: int) -> memoryview:
        return self.file.at(address, size, "table")

    def executable(self, address: int) -> bool:
        """Return whether an address is in an executable segment."""
        segment = self.file.segment_of(address)
        return segment is not None and bool(segment.flags & PF_EXEC)

    def text(self, address: int) -> str:
        return self.file.text_at(address, "name")


def read_tables(data: bytes) -> LibraryFacts | None:
    """Return the metadata of a linked library; None if the tables cannot be located uniquely, or the file is broken."""
    try:
        candidates = list(_candidates(_Image(data)))
    except (ElfError, KeyError):
        return None
    return candidates[0] if len(candidates) == 1 else None


def _candidates(image: _Image) -> Iterator[LibraryFacts]:
    """Yield the metadata of each structure in the file that looks like a library structure."""
    for address in image.pointers:
        if all(address + field in image.pointers for field in (_PTRS, _ATTRS, _NAMES)):
            try:
                yield _library(image, address)
            except (ElfError, KeyError):
                continue


def _library(image: _Image, address: int) -> LibraryFacts:
    """Read the structure by which a library describes its exports; raise ElfError or KeyError if there is none at the
    address.

    Its tables have a pointer to the code, one to the name, and 64 bytes of attributes for each export.
    """
    pointers = image.pointers
    header = pointers[address]
    (version,) = struct.unpack("<I", image.read(header, 4))
    (count,) = struct.unpack("<I", image.read(address + _COUNT, 4))
    image.read(address, 128)  # raises unless the whole structure is in the file
    if version != VERSION or not 0 < count <= _MAX_EXPORTS:
        raise ElfError("no library")
    exports = []
    for i in range(count):
        if not image.executable(pointers[pointers[address + _PTRS] + 8 * i]):
            raise ElfError("no code")
        attributes = image.read(pointers[address + _ATTRS] + 64 * i, 64)
        memory_pages, constants, bindings = struct.unpack_from("<HBB", attributes, 8)
        name = image.text(pointers[pointers[address + _NAMES] + 8 * i])
        exports.append(ExportFacts(name, constants, bindings, _PAGE_BYTES * memory_pages))
    return LibraryFacts(image.text(pointers[header + _NAME]), tuple(exports))
