"""The tables of an executable library, read from its ELF file without running it.

The query function is code, so the tables are found by their shape: a structure of library 0.6 whose pointers are all
relocated to plausible addresses. `read_tables` returns None when that is ambiguous; the loader calls the library
itself.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from pydispatch.formats.elf.reader import DT_RELA, DT_RELASZ, PF_EXEC, RELOCATION, ElfError, ElfFile

VERSION = 6
"""Version of the library format that is read: IREE's executable libraries 0.6."""
_RELATIVE = {62: 8, 183: 1027, 243: 3}
"""ELF machine → type of the relocation that stores the load address plus an addend (R_*_RELATIVE)."""
_PAGE_BYTES = 4096  # unit of local memory in the attributes of an export
_MAX_EXPORTS = _MAX_RELOCATIONS = 1 << 16
"""Exports and relocations that are read at most, since files may be broken."""
_NAME = 8
"""Offset in the library header of the pointer to the library's name."""
_COUNT, _PTRS, _ATTRS, _NAMES = 24, 32, 40, 64
"""Offsets in the library structure: number of exports; pointers to the tables of code, attributes and names."""
_LIBRARY_BYTES, _ATTRIBUTES_BYTES, _POINTER_BYTES = 128, 64, 8
"""Sizes of the library structure, of the attributes of an export, and of an entry in the tables of code and names."""


@dataclass(frozen=True)
class ExportFacts:
    """Metadata of one export.

    Attributes:
        name: Name of the export (kernel).
        constants: Number of 32-bit constants of a dispatch.
        bindings: Number of buffer bindings of a dispatch.
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
    """Segments of a linked executable library (an ELF file with kernels), read as if loaded at address 0.

    Methods take virtual addresses, and raise ElfError for those outside of the segments.

    The value of a pointer depends on the load address. So the linker emits a relocation for each pointer in the data of
    the library, `R_*_RELATIVE(address of the pointer, addend)`, and the loader stores load address + addend there. Here
    the addend is the address that the pointer points to.

    Attributes:
        file: Reader of the file.
        pointers: Address of a pointer → the address that it points to, for all of these relocations.
    """

    def __init__(self, data: bytes) -> None:
        """Record the pointers that R_*_RELATIVE relocations of a library state; raise ElfError for a broken file."""
        self.file = ElfFile(data)
        self.pointers: dict[int, int] = {}
        table, size = self.file.tag(DT_RELA), self.file.tag(DT_RELASZ)
        if table is None or size is None:
            return
        for i in range(min(size // RELOCATION.size, _MAX_RELOCATIONS)):
            address, kind, target = RELOCATION.unpack(self.read(table + RELOCATION.size * i, RELOCATION.size))
            if kind == _RELATIVE.get(self.file.machine):
                self.pointers[address] = target

    def read(self, address: int, size: int) -> memoryview:
        """Return `size` bytes at an address."""
        return self.file.at(address, size, "table")

    def executable(self, address: int) -> bool:
        """Return whether an address is in an executable segment."""
        segment = self.file.segment_of(address)
        return segment is not None and bool(segment.flags & PF_EXEC)

    def text(self, address: int) -> str:
        """Return the NUL-terminated string at a virtual address."""
        return self.file.text_at(address, "name")


def read_tables(data: bytes) -> LibraryFacts | None:
    """Return the metadata of a linked library; None if the tables cannot be located uniquely, or the file is broken."""
    try:
        candidates = list(_candidates(_Image(data)))
    except (ElfError, KeyError):
        return None
    return candidates[0] if len(candidates) == 1 else None


def _candidates(image: _Image) -> Iterator[LibraryFacts]:
    """Yield the metadata of each structure in the file that looks like a library structure.

    The structure begins with a pointer to the header, so each pointer in the file may be its beginning.
    """
    for address in image.pointers:
        if all(address + field in image.pointers for field in (_PTRS, _ATTRS, _NAMES)):
            try:
                yield _read_library(image, address)
            except (ElfError, KeyError):
                continue


def _read_library(image: _Image, address: int) -> LibraryFacts:
    """Read the structure in which a library describes its exports (kernels); raise ElfError or KeyError if there is
    none at the address.

    The fields of the structure that are read are
    - +0: pointer to the header, which has the version (u32) at +0 and a pointer to the library's name at +8
    - +24: number of exports (u32)
    - +32: pointer to a table with a pointer to the code of each export
    - +40: pointer to a table with 64 bytes of attributes for each export: at +8 its workgroup memory in pages (u16),
      then its numbers of constants and of bindings (u8 each)
    - +64: pointer to a table with a pointer to the name of each export

    A pointer is looked up in `image.pointers`: a KeyError means that there is no pointer at an address.
    """
    pointers = image.pointers
    header = pointers[address]
    (version,) = struct.unpack("<I", image.read(header, 4))
    (count,) = struct.unpack("<I", image.read(address + _COUNT, 4))
    image.read(address, _LIBRARY_BYTES)  # raises unless the whole structure is in the file
    if version != VERSION or not 0 < count <= _MAX_EXPORTS:
        raise ElfError("no library")
    # Other data may look like the structure too; it is rejected unless each export has code.
    code_table, attribute_table, name_table = (pointers[address + field] for field in (_PTRS, _ATTRS, _NAMES))
    exports = []
    for i in range(count):
        if not image.executable(pointers[code_table + _POINTER_BYTES * i]):
            raise ElfError("no code")
        attributes = image.read(attribute_table + _ATTRIBUTES_BYTES * i, _ATTRIBUTES_BYTES)
        memory_pages, constants, bindings = struct.unpack_from("<HBB", attributes, 8)  # after 8 bytes of flags
        name = image.text(pointers[name_table + _POINTER_BYTES * i])
        exports.append(ExportFacts(name, constants, bindings, _PAGE_BYTES * memory_pages))
    return LibraryFacts(image.text(pointers[header + _NAME]), tuple(exports))
