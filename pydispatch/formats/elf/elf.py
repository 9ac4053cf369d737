"""Facts about an ELF file for people: machine, segments, exports and imports.

Reads any 64-bit little-endian ELF without running it and never outside its bytes. The loader has its own, stricter
reader (csrc/elf); this one also describes files that the loader refuses. Layouts: System V gABI, chapters 4 and 5.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from pydispatch.errors import ArtifactError

MACHINES = {3: "x86", 40: "arm", 62: "x86_64", 183: "aarch64", 243: "riscv64"}
TYPES = {1: "relocatable object", 2: "executable", 3: "shared object", 4: "core file"}
SEGMENTS = {1: "load", 2: "dynamic", 3: "interpreter", 4: "note", 7: "tls", 0x6474E551: "stack", 0x6474E552: "relro"}

_PT_LOAD, _PT_DYNAMIC = 1, 2
_DT_NEEDED, _DT_HASH, _DT_STRTAB, _DT_SYMTAB, _DT_STRSZ, _DT_SONAME = 1, 4, 5, 6, 10, 14
_DT_GNU_HASH = 0x6FFFFEF5
_SHT_SYMTAB, _SHT_DYNSYM = 2, 11
_MAX_SYMBOLS = 1 << 20


@dataclass(frozen=True)
class Segment:
    """One program header. access: of "rwx", '-' where it is not allowed. sizes and the address in bytes."""

    kind: str
    access: str
    address: int
    file_size: int
    memory_size: int


@dataclass(frozen=True)
class ElfFacts:
    """machine, type: names, or "machine 42". exports, imports: names of global and weak symbols, '?' before weak
    imports. needed: libraries that it depends on."""

    machine: str
    type: str
    segments: list[Segment]
    exports: list[str] = field(default_factory=list)
    imports: list[str] = field(default_factory=list)
    needed: list[str] = field(default_factory=list)


def is_elf(data: bytes | memoryview) -> bool:
    return bytes(data[:4]) == b"\x7fELF"


class _Bytes:
    """The file, read only inside its bounds."""

    def __init__(self, data: bytes | memoryview) -> None:
        self.data = memoryview(data).cast("B")

    def unpack(self, layout: str, offset: int, what: str) -> tuple[int, ...]:
        size = struct.calcsize("<" + layout)
        if not 0 <= offset <= len(self.data) - size:
            raise ArtifactError(
                f"the ELF file is broken: its {what} at offset {offset} lies outside its {len(self.data)} bytes"
            )
        return struct.unpack_from("<" + layout, self.data, offset)

    def text(self, offset: int, end: int) -> str:
        end = min(end, len(self.data))
        if not 0 <= offset < end:
            raise ArtifactError(f"the ELF file is broken: a name at offset {offset} lies outside its string table")
        raw = bytes(self.data[offset : min(end, offset + 4096)])
        return raw.split(b"\0", 1)[0].decode("utf-8", "replace")


@dataclass(frozen=True)
class _Load:
    address: int
    offset: int
    size: int


def _file_offset(loads: list[_Load], address: int, what: str) -> int:
    for load in loads:
        if load.address <= address < load.address + load.size:
            return load.offset + address - load.address
    raise ArtifactError(f"the ELF file is broken: its {what} at address {address:#x} lies in no loaded segment")


def _read_segments(file: _Bytes, offset: int, count: int) -> tuple[list[Segment], list[_Load], tuple[int, int] | None]:
    segments: list[Segment] = []
    loads: list[_Load] = []
    dynamic = None
    for i in range(count):
        kind, flags, at, address, _, size, memory, _ = file.unpack("IIQQQQQQ", offset + 56 * i, f"program header {i}")
        access = "".join(letter if flags & bit else "-" for letter, bit in (("r", 4), ("w", 2), ("x", 1)))
        segments.append(Segment(SEGMENTS.get(kind, f"type {kind:#x}"), access, address, size, memory))
        if kind == _PT_LOAD:
            loads.append(_Load(address, at, size))
        elif kind == _PT_DYNAMIC and dynamic is None:
            dynamic = (at, size)
    return segments, loads, dynamic


def _gnu_hash_count(file: _Bytes, offset: int) -> int:
    """The number of symbols by a GNU hash table: one more than the last of the longest chain."""
    buckets, first, bloom, _ = file.unpack("IIII", offset, "GNU hash table")
    if buckets > _MAX_SYMBOLS or bloom > _MAX_SYMBOLS:
        raise ArtifactError(
            f"the ELF file is broken: its GNU hash table has {buckets} buckets and {bloom} filter words"
        )
    start = offset + 16 + 8 * bloom
    last = max(file.unpack(f"{buckets}I", start, "GNU hash table"), default=0)
    if last < first:
        return first
    while not file.unpack("I", start + 4 * buckets + 4 * (last - first), "GNU hash chain")[0] & 1:
        last += 1
    return last + 1


def _read_symbols(file: _Bytes, offset: int, count: int, strings: int, strings_end: int) -> tuple[list[str], list[str]]:
    exports: list[str] = []
    imports: list[str] = []
    if count > _MAX_SYMBOLS:
        raise ArtifactError(f"the ELF file has {count} symbols; at most {_MAX_SYMBOLS} are read")
    for i in range(1, count):
        name, info, _, section, _, _ = file.unpack("IBBHQQ", offset + 24 * i, f"symbol {i}")
        binding = info >> 4
        if binding not in (1, 2) or info & 15 in (3, 4):  # neither global nor weak; a section or a file
            continue
        text = file.text(strings + name, strings_end)
        if section:
            exports.append(text)
        else:
            imports.append("?" + text if binding == 2 else text)
    return sorted(exports), sorted(imports)


def _read_dynamic(file: _Bytes, loads: list[_Load], at: int, size: int) -> tuple[list[str], list[str], list[str]]:
    tags: dict[int, int] = {}
    needed: list[int] = []
    for offset in range(at, at + min(size, 16 * 4096) - 15, 16):
        tag, value = file.unpack("QQ", offset, "dynamic section")
        if tag == 0:
            break
        if tag == _DT_NEEDED:
            needed.append(value)
        tags.setdefault(tag, value)
    if _DT_STRTAB not in tags or _DT_SYMTAB not in tags:
        return [], [], []
    strings = _file_offset(loads, tags[_DT_STRTAB], "string table")
    strings_end = strings + tags.get(_DT_STRSZ, 0)
    count = 0
    if _DT_HASH in tags:
        count = file.unpack("II", _file_offset(loads, tags[_DT_HASH], "hash table"), "hash table")[1]
    elif _DT_GNU_HASH in tags:
        count = _gnu_hash_count(file, _file_offset(loads, tags[_DT_GNU_HASH], "GNU hash table"))
    symbols = _file_offset(loads, tags[_DT_SYMTAB], "symbol table")
    exports, imports = _read_symbols(file, symbols, count, strings, strings_end)
    return exports, imports, [file.text(strings + name, strings_end) for name in needed]


def _read_object(file: _Bytes, offset: int, count: int) -> tuple[list[str], list[str]]:
    """The symbols of a relocatable object, by its section headers."""
    sections = [file.unpack("IIQQQQIIQQ", offset + 64 * i, f"section header {i}") for i in range(count)]
    for section in sections:
        if section[1] == _SHT_SYMTAB and section[6] < count:
            strings = sections[section[6]]
            return _read_symbols(file, section[4], section[5] // 24, strings[4], strings[4] + strings[5])
    return [], []


def read(data: bytes | memoryview) -> ElfFacts:
    """Reads the facts. Raises ArtifactError when the file is none, of another class, or broken."""
    file = _Bytes(data)
    if not is_elf(data):
        raise ArtifactError("not an ELF file: it does not start with 7F 45 4C 46")
    file_class, order = file.unpack("BB", 4, "header")
    if (file_class, order) != (2, 1):
        raise ArtifactError(
            f"the ELF file has class {file_class} and byte order {order}; only 64-bit little-endian (2, 1) is read"
        )
    kind, machine, _, _, ph, sh, _, _, _, ph_count, _, sh_count, _ = file.unpack("HHIQQQIHHHHHH", 16, "header")
    segments, loads, dynamic = _read_segments(file, ph, ph_count)
    exports: list[str] = []
    imports: list[str] = []
    needed: list[str] = []
    if dynamic:
        exports, imports, needed = _read_dynamic(file, loads, *dynamic)
    elif kind == 1:
        exports, imports = _read_object(file, sh, sh_count)
    return ElfFacts(
        MACHINES.get(machine, f"machine {machine}"), TYPES.get(kind, f"type {kind}"), segments, exports, imports, needed
    )
