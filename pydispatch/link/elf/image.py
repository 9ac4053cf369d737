"""Sections of the linked file and their addresses: one segment that is read and executed, one that the loader relocates
and then protects (RELRO), and one that stays writable where there are variables."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from pydispatch.formats.elf import reader
from pydispatch.link.elf.inputs import InputSection, UnsupportedError

_RELRO_PREFIXES = (".data.rel.ro", ".init_array", ".fini_array", ".ctors", ".dtors", ".got")
"""Prefixes of the names of sections that the loader relocates and then protects."""

_HEADER_BYTES, _PROGRAM_HEADER_BYTES, _SECTION_HEADER_BYTES = 64, 56, 64
"""Bytes of the ELF header, of a program header and of a section header."""

_LAST_PRIORITY = 65536
"""Sort key of input sections without a priority of their own, after all priorities that compilers emit."""


@dataclass
class OutputSection:
    """Section of the linked ELF file, with its place in the file and in memory.

    Attributes:
        name: Name of the section, such as ".text".
        kind, flags: sh_type and sh_flags of ELF.
        alignment: Alignment in bytes.
        entry_size: sh_entsize: bytes of an entry of a table; 0 if the section is no table.
        info: sh_info, whose meaning depends on the kind.
        size: Size in memory, in bytes.
        content: Bytes in the file, which relocation fills in for sections with parts; empty for .bss.
        link: Name of the section whose number is stored as sh_link; "" for none.
        parts: Input sections that are concatenated into this one, in the order of their addresses; none for tables that
            the linker writes.
        address: Virtual address, relative to the load base.
        offset: Offset in the file.
    """

    name: str
    kind: int
    flags: int
    alignment: int = 8
    entry_size: int = 0
    link: str = ""
    info: int = 0
    size: int = 0
    content: bytes | bytearray = b""
    parts: list[InputSection] = field(default_factory=list)
    address: int = 0
    offset: int = 0

    @property
    def stored(self) -> int:
        """Size in the file, in bytes: 0 for .bss."""
        return 0 if self.kind == reader.SHT_NOBITS else self.size


@dataclass
class OutputSegment:
    """Consecutive sections with the same access rights, which the loader maps together.

    Attributes:
        access: Access rights: sum of the PF_* flags of ELF.
        sections: Sections in the order of their addresses.
    """

    access: int
    sections: list[OutputSection]

    @property
    def alignment(self) -> int:
        """Alignment in bytes: the greatest of a section."""
        return max(section.alignment for section in self.sections)

    def header(self, kind: int, alignment: int, *, round_end_to: int = 1) -> bytes:
        """Return an encoded program header that covers the segment's sections.

        The executable segment also covers the ELF header and the program headers, so it starts at offset 0.

        Args:
            kind: p_type, such as PT_LOAD.
            alignment: p_align.
            round_end_to: The end address in memory is rounded up to a multiple of this many bytes.
        """
        first, last = self.sections[0], self.sections[-1]
        offset, address = first.offset, first.address
        if self.access & reader.PF_EXEC:
            offset = address = 0
        file_size = max(section.offset + section.stored for section in self.sections) - offset
        memory_size = _aligned(last.address + last.size, round_end_to) - address
        # Elf64_Phdr: type, flags, offset, virtual and physical address, size in the file and in memory, alignment.
        return struct.pack("<IIQQQQQQ", kind, self.access, offset, address, address, file_size, memory_size, alignment)


def output_sections_of(parts: Iterable[InputSection]) -> dict[str, OutputSection]:
    """Merge input sections into output sections, and return these by name; they may be empty.

    For example, `.text.f` and `.text.g` become `.text`, one after the other. Until `assign_addresses`, the `address` of
    an input section is its offset in the output section. Raise UnsupportedError for TLS and writable code.
    """
    sections = {
        ".rodata": OutputSection(".rodata", reader.SHT_PROGBITS, reader.SHF_ALLOC, alignment=1),
        ".text": OutputSection(".text", reader.SHT_PROGBITS, reader.SHF_ALLOC | reader.SHF_EXEC, alignment=1),
    }
    for name, kind in ((".data.rel.ro", reader.SHT_PROGBITS), (".init_array", reader.SHT_INIT_ARRAY),
                       (".fini_array", reader.SHT_FINI_ARRAY), (".data", reader.SHT_PROGBITS),
                       (".bss", reader.SHT_NOBITS)):  # fmt: skip
        sections[name] = OutputSection(name, kind, reader.SHF_ALLOC | reader.SHF_WRITE, alignment=1)
    # Each input section is appended to its output section, then they get their offsets.
    for part in parts:
        section = sections[_section_of(part)]
        section.alignment = max(section.alignment, part.alignment)
        section.parts.append(part)
    for section in sections.values():
        section.parts.sort(key=_priority)  # `.init_array.101` precedes `.init_array`
        for part in section.parts:
            part.address = _aligned(section.size, part.alignment)  # its offset in the output section
            section.size = part.address + part.size
    return sections


def _section_of(part: InputSection) -> str:
    """Return the name of the output section for an input section; raise UnsupportedError for TLS and writable code."""
    if part.flags & reader.SHF_TLS or (part.flags & reader.SHF_WRITE and part.flags & reader.SHF_EXEC):
        raise UnsupportedError(f"{part.owner}: section {part.name} is thread-local, or code that is writable")
    if part.flags & reader.SHF_EXEC:
        return ".text"
    if not part.flags & reader.SHF_WRITE:
        return ".rodata"
    arrays = {reader.SHT_INIT_ARRAY: ".init_array", reader.SHT_FINI_ARRAY: ".fini_array"}
    if part.kind in arrays:
        return arrays[part.kind]
    if part.name.startswith(_RELRO_PREFIXES):
        return ".data.rel.ro"
    return ".bss" if part.kind == reader.SHT_NOBITS else ".data"


def _priority(part: InputSection) -> int:
    """Return the sort key of an input section.

    `.init_array.101` has key 101 and runs before `.init_array`. All other sections have the same key, so a stable sort
    keeps them in the order of the objects.
    """
    suffix = part.name.rpartition(".")[2]
    has_priority = part.name.startswith((".init_array.", ".fini_array.")) and suffix.isdigit()
    return int(suffix) if has_priority else _LAST_PRIORITY


def _aligned(value: int, alignment: int) -> int:
    """Return an offset or address, rounded up to a multiple of the alignment."""
    return -(-value // alignment) * alignment


def assign_addresses(segments: Sequence[OutputSegment], header_count: int, page: int) -> int:
    """Assign file offsets and addresses to all sections, and add a section's address to those of its parts.

    Segments are adjacent in the file; in memory each starts on a page of its own. With pages of 0x1000 bytes, a segment
    whose sections are aligned to 8 bytes, after one that ends at offset and address 0x1234, gets offset 0x1238 and
    address 0x2238. The loader maps whole pages of the file, so both must be equal modulo the page size.

    Args:
        segments: The segments, the executable one first.
        header_count: Number of program headers, which precede the first section in the file.
        page: Page size in bytes.

    Returns:
        The file offset at which the last segment ends.
    """
    # The executable segment is mapped at address 0. It begins with the headers of the file, after which offset and
    # address are equal.
    offset = address = _HEADER_BYTES + header_count * _PROGRAM_HEADER_BYTES
    for segment in segments:
        if segment.alignment > page:
            raise UnsupportedError(f"a section is aligned to {segment.alignment} bytes, more than a page")
        if not segment.access & reader.PF_EXEC:
            offset = _aligned(offset, segment.alignment)
            # On a new page, at the same distance from its start as in the file.
            address = _aligned(address, page) + offset % page
        for section in segment.sections:
            padding = -address % section.alignment
            section.offset, section.address = offset + padding, address + padding
            address = section.address + section.size
            offset = section.offset + section.stored  # .bss takes memory, and no bytes of the file
            for part in section.parts:  # until here, the address of a part is its offset in the section
                part.address += section.address
    return offset


def file_bytes(
    machine: int, flags: int, headers: Sequence[bytes], sections: Sequence[OutputSection], end: int
) -> bytes:
    """Return the bytes of the output file.

    Args:
        machine: e_machine.
        flags: e_flags.
        headers: Encoded program headers.
        sections: Sections in file order, without the null section and .shstrtab, which are added here. Loaded sections
            have their offsets; those of the others are assigned here.
        end: File offset at which the loaded segments end; sections that are not loaded follow.
    """
    # The names of the sections, and the offsets of the sections that are not loaded.
    name_table = OutputSection(".shstrtab", reader.SHT_STRTAB, flags=0, alignment=1)
    all_sections = [*sections, name_table]
    name_offsets = _fill_names(name_table, all_sections)
    for section in all_sections:
        is_loaded = section.flags & reader.SHF_ALLOC
        if not is_loaded:
            section.offset = _aligned(end, section.alignment)
            end = section.offset + section.size
    # The ELF header and the program headers at the start of the file.
    header_table = _aligned(end, 8)  # file offset of the section headers
    header_count = len(all_sections) + 1  # the first section header is null
    file = bytearray(header_table + _SECTION_HEADER_BYTES * header_count)
    file[:_HEADER_BYTES] = _file_header(machine, flags, header_table, len(headers), header_count)
    file[_HEADER_BYTES : _HEADER_BYTES + _PROGRAM_HEADER_BYTES * len(headers)] = b"".join(headers)
    # For each section its content and its section header (Elf64_Shdr).
    numbers = {section.name: index for index, section in enumerate(all_sections, 1)}
    for index, (section, name_offset) in enumerate(zip(all_sections, name_offsets, strict=True), 1):
        file[section.offset : section.offset + len(section.content)] = section.content
        linked_section = numbers.get(section.link, 0)  # 0: the null section, for none
        struct.pack_into(
            "<IIQQQQIIQQ", file, header_table + _SECTION_HEADER_BYTES * index, name_offset, section.kind, section.flags,
            section.address, section.offset, section.size, linked_section, section.info, section.alignment,
            section.entry_size,
        )  # fmt: skip
    return bytes(file)


def _fill_names(names: OutputSection, sections: Sequence[OutputSection]) -> list[int]:
    """Store the names of sections in .shstrtab, the section `names`, and return the offset of each name in it."""
    texts, offsets = bytearray(b"\0"), []
    for section in sections:
        offsets.append(len(texts))
        texts += section.name.encode() + b"\0"
    names.content, names.size = texts, len(texts)
    return offsets


def _file_header(machine: int, flags: int, table: int, program_header_count: int, section_count: int) -> bytes:
    """Encode the ELF header.

    Args:
        machine: e_machine.
        flags: e_flags.
        table: File offset of the section headers.
        program_header_count: Number of program headers, which follow the ELF header.
        section_count: Number of sections with the null section; .shstrtab is the last one.
    """
    identification = (reader.MAGIC, 2, 1, 1, 0, 0)  # ELFCLASS64, little-endian, version 1, no system, padding
    return struct.pack(
        "<4sBBBBQHHIQQQIHHHHHH", *identification,
        reader.DYN, machine, 1,  # type, machine, version
        0, _HEADER_BYTES, table,  # no entry point; offsets of the program headers and of the section headers
        flags, _HEADER_BYTES,  # size of this header
        _PROGRAM_HEADER_BYTES, program_header_count,
        _SECTION_HEADER_BYTES, section_count,
        section_count - 1,  # index of .shstrtab
    )  # fmt: skip
