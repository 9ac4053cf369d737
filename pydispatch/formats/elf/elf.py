"""Facts about an ELF file for people: machine, segments, exports and imports; also of files that the loader refuses."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from pydispatch.errors import ArtifactError
from pydispatch.formats.elf import reader
from pydispatch.formats.elf.reader import ElfError, ElfFile, ElfSymbol

# Type of a program header (p_type) → its name.
SEGMENTS = {1: "load", 2: "dynamic", 3: "interpreter", 4: "note", 7: "tls", 0x6474E551: "stack", 0x6474E552: "relro"}


@dataclass(frozen=True)
class SegmentFacts:
    """Program header of an ELF file.

    Attributes:
        kind: Type, such as "load".
        access: Permissions as in "r-x", with '-' for one that is not granted.
        address: Virtual address.
        file_size: Bytes in the file.
        memory_size: Bytes in memory; those beyond `file_size` are zero.
    """

    kind: str
    access: str
    address: int
    file_size: int
    memory_size: int


@dataclass(frozen=True)
class ElfFacts:
    """Metadata of an ELF file for `pydispatch inspect` and checks of objects.

    Attributes:
        machine: Name of the machine, or text such as "machine 42".
        type: Name of the file type, such as "shared object", or text such as "type 42".
        segments: Program headers, in file order.
        exports: Names of defined global and weak symbols, sorted.
        imports: Names of undefined symbols, sorted, with '?' before weak ones.
        needed: Libraries that the file depends on (DT_NEEDED).
    """

    machine: str
    type: str
    segments: list[SegmentFacts]
    exports: list[str] = field(default_factory=list)
    imports: list[str] = field(default_factory=list)
    needed: list[str] = field(default_factory=list)


def read(data: bytes | memoryview) -> ElfFacts:
    """Read the metadata of an ELF file; raise ArtifactError for other or broken files and other ELF classes."""
    if not reader.is_elf(data):
        raise ArtifactError("not an ELF file: it does not start with 7F 45 4C 46")
    try:
        file = ElfFile(data)
        is_object = file.type == reader.REL and not file.dynamic  # before linking: without dynamic symbols
        exports, imports = _linkage(file.symbols() if is_object else file.dynamic_symbols())
        return ElfFacts(
            machine=reader.MACHINES.get(file.machine, f"machine {file.machine}"),
            type=reader.TYPES.get(file.type, f"type {file.type}"),
            segments=[_segment(segment) for segment in file.segments],
            exports=exports,
            imports=imports,
            needed=file.needed,
        )
    except ElfError as error:
        raise ArtifactError(f"the ELF file cannot be read: {error}") from error


def _segment(header: reader.ElfSegment) -> SegmentFacts:
    """Return the facts of a program header that users see."""
    letters = (("r", reader.PF_READ), ("w", reader.PF_WRITE), ("x", reader.PF_EXEC))
    access = "".join(letter if header.flags & bit else "-" for letter, bit in letters)
    kind = SEGMENTS.get(header.kind, f"type {header.kind:#x}")
    return SegmentFacts(
        kind=kind, access=access, address=header.address, file_size=header.file_size, memory_size=header.memory_size
    )


def _linkage(symbols: Iterable[ElfSymbol]) -> tuple[list[str], list[str]]:
    """Return the sorted names of exported and of imported symbols, with `?` before weak imports."""
    exports: list[str] = []
    imports: list[str] = []
    for symbol in symbols:
        if symbol.binding == reader.LOCAL or symbol.kind in (reader.STT_SECTION, reader.STT_FILE):
            continue
        if symbol.section != reader.UNDEFINED:
            exports.append(symbol.name)
        else:
            imports.append("?" + symbol.name if symbol.binding == reader.WEAK else symbol.name)
    return sorted(exports), sorted(imports)
