"""Facts about a cubin, CUDA machine code in an ELF file: its architecture, its kernels and their parameters.

Nothing outside the bytes is read. The layouts are those of nvcc 13 and its predecessors: the architecture is
in e_flags, and the section `.nv.info.<kernel>` is a list of attributes (format u8, attribute u8, size or value u16,
then the bytes of format 4).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from pydispatch.errors import ArtifactError

MACHINE = 190
"""e_machine of CUDA."""

_SYMTAB, _FUNCTION, _ENTRY = 2, 2, 0x10
_SIZED = 4
_PARAMETER, _MAX_THREADS, _REQUIRED_THREADS = 0x17, 0x05, 0x10
_MAX_SECTIONS = 1 << 16


@dataclass(frozen=True)
class CubinEntry:
    """A kernel. parameters: their sizes in bytes, in order. required, maximum: threads of a block, when stated."""

    name: str
    parameters: tuple[int, ...]
    required: tuple[int, int, int] | None = None
    maximum: tuple[int, int, int] | None = None


@dataclass(frozen=True)
class Cubin:
    """architecture: 80 for sm_80. relocatable: it has to be linked before it runs."""

    architecture: int
    entries: tuple[CubinEntry, ...]
    relocatable: bool = False

    @property
    def target(self) -> str:
        return f"sm_{self.architecture}"

    def entry(self, name: str) -> CubinEntry | None:
        return next((entry for entry in self.entries if entry.name == name), None)


def is_cubin(data: bytes | memoryview) -> bool:
    """Whether the bytes begin as an ELF file for CUDA."""
    return bytes(data[:4]) == b"\x7fELF" and len(data) >= 20 and int.from_bytes(data[18:20], "little") == MACHINE


class _Elf:
    def __init__(self, data: bytes, name: str) -> None:
        self.data, self.name = data, name
        if not is_cubin(data):
            raise ArtifactError(f"{name} is no cubin: it does not begin as an ELF file for CUDA")
        if len(data) < 64 or data[4:6] != b"\x02\x01":
            raise self.broken("it is no 64-bit little-endian file, or is cut off")
        self.abi, self.type = data[8], int.from_bytes(data[16:18], "little")
        self.flags = int.from_bytes(data[48:52], "little")
        offset = int.from_bytes(data[40:48], "little")
        size, count, names = struct.unpack_from("<HHH", data, 58)
        if size != 64 or count > _MAX_SECTIONS:
            raise self.broken(f"its section headers have {size} bytes each, expected 64")
        self.sections = [struct.unpack("<IIQQQQIIQQ", self.part(offset + 64 * i, 64)) for i in range(count)]
        self.strings = self.content(names) if count else b""

    def broken(self, what: str) -> ArtifactError:
        return ArtifactError(f"{self.name} is a broken cubin: {what}; build it anew with nvcc -cubin")

    def part(self, offset: int, size: int) -> bytes:
        if size > len(self.data) or offset > len(self.data) - size:
            raise self.broken(f"{size} bytes at offset {offset} lie outside its {len(self.data)} bytes")
        return self.data[offset : offset + size]

    def content(self, number: int) -> bytes:
        if number >= len(self.sections):
            raise self.broken(f"it has no section {number}")
        return self.part(self.sections[number][4], self.sections[number][5])

    def text(self, table: bytes, offset: int) -> str:
        end = table.find(b"\0", offset)
        if offset > len(table) or end < 0:
            raise self.broken(f"a name at {offset} lies outside its table")
        return table[offset:end].decode("utf-8", "replace")

    def named(self, name: str) -> bytes:
        """The content of a section, empty when there is none."""
        for number, section in enumerate(self.sections):
            if self.text(self.strings, section[0]) == name:
                return self.content(number)
        return b""

    def functions(self, kernels: bool) -> list[str]:
        """The names of the kernels, or of the functions for kernels of others, in the order of the file."""
        found: list[str] = []
        for number, section in enumerate(self.sections):
            if section[1] != _SYMTAB:
                continue
            names = self.content(section[6])
            table = self.content(number)
            for at in range(0, len(table) - 23, 24):
                name, info, other, index = struct.unpack_from("<IBBH", table, at)
                if info & 15 == _FUNCTION and info >> 4 and bool(other & _ENTRY) == kernels and index:
                    found.append(self.text(names, name))
        return found


def read(data: bytes | memoryview, name: str = "the cubin") -> Cubin:
    """Reads the facts. ArtifactError when the file is no cubin or broken."""
    elf = _Elf(bytes(data), name)
    # Up to CUDA 12 the lowest byte is the architecture, since then (ABI version 8) the second one.
    architecture = elf.flags >> 8 & 0xFF if elf.abi >= 8 else elf.flags & 0xFF
    entries = tuple(_entry(elf, each) for each in elf.functions(kernels=True))
    return Cubin(architecture, entries, relocatable=elf.type == 1)


def functions(data: bytes | memoryview, name: str = "the cubin") -> list[str]:
    """The device functions that other code may call. ArtifactError when the file is no cubin or broken."""
    return _Elf(bytes(data), name).functions(kernels=False)


def _entry(elf: _Elf, name: str) -> CubinEntry:
    sizes: dict[int, int] = {}
    threads: dict[int, tuple[int, int, int]] = {}
    data = elf.named(f".nv.info.{name}")
    at = 0
    while at + 4 <= len(data):
        form, attribute, size = struct.unpack_from("<BBH", data, at)
        at += 4
        if form != _SIZED:
            continue
        if size > len(data) - at:
            raise elf.broken(f"an attribute of '{name}' is cut off")
        value, at = data[at : at + size], at + size
        if attribute == _PARAMETER and size == 12:
            _, ordinal, _, packed = struct.unpack("<IHHI", value)
            sizes[ordinal] = packed >> 18
        elif attribute in (_MAX_THREADS, _REQUIRED_THREADS) and size == 12:
            x, y, z = struct.unpack("<III", value)
            threads[attribute] = (x, y, z)
    parameters = tuple(sizes[ordinal] for ordinal in sorted(sizes))
    return CubinEntry(name, parameters, threads.get(_REQUIRED_THREADS), threads.get(_MAX_THREADS))
