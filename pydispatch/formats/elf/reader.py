"""The bytes of a 64-bit little-endian ELF file -> its header, segments, sections, symbols and dynamic entries.

All Python code that looks into ELF files reads them here. Nothing is run, and nothing outside of the bytes is read.
The loader has its own, stricter reader (csrc/elf). Layouts: System V gABI, chapters 4 and 5.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

MAGIC = b"\x7fELF"
"""First bytes of an ELF file."""
MACHINES = {
    3: "x86", 40: "arm", 62: "x86_64", 183: "aarch64", 190: "cuda", 224: "amdgpu", 243: "riscv64", 258: "loongarch",
}  # fmt: skip
"""e_machine -> the name of the machine."""

REL, EXEC, DYN, CORE = 1, 2, 3, 4
TYPES = {REL: "relocatable object", EXEC: "executable", DYN: "shared object", CORE: "core file"}
"""e_type -> its name."""

SHT_PROGBITS, SHT_SYMTAB, SHT_STRTAB, SHT_RELA, SHT_HASH, SHT_DYNAMIC, SHT_NOBITS, SHT_REL = 1, 2, 3, 4, 5, 6, 8, 9
SHT_DYNSYM, SHT_INIT_ARRAY, SHT_FINI_ARRAY, SHT_GROUP = 11, 14, 15, 17
SHF_WRITE, SHF_ALLOC, SHF_EXEC, SHF_INFO_LINK, SHF_TLS, SHF_GNU_RETAIN = 0x1, 0x2, 0x4, 0x40, 0x400, 0x200000
PT_LOAD, PT_DYNAMIC, PT_TLS, PT_GNU_STACK, PT_GNU_RELRO = 1, 2, 7, 0x6474E551, 0x6474E552
PF_EXEC, PF_WRITE, PF_READ = 1, 2, 4
DT_NEEDED, DT_HASH, DT_STRTAB, DT_SYMTAB, DT_STRSZ, DT_SYMENT = 1, 4, 5, 6, 10, 11
DT_RELA, DT_RELASZ, DT_RELAENT, DT_RELACOUNT = 7, 8, 9, 0x6FFFFFF9
DT_INIT_ARRAY, DT_FINI_ARRAY, DT_INIT_ARRAYSZ, DT_FINI_ARRAYSZ, DT_FLAGS = 25, 26, 27, 28, 30
DT_GNU_HASH, DT_FLAGS_1 = 0x6FFFFEF5, 0x6FFFFFFB
LOCAL, GLOBAL, WEAK = 0, 1, 2
STT_NOTYPE, STT_OBJECT, STT_FUNCTION, STT_SECTION, STT_FILE, STT_TLS = 0, 1, 2, 3, 4, 6
UNDEFINED, ABSOLUTE, COMMON = 0, 0xFFF1, 0xFFF2

_MAX_SYMBOLS = 1 << 20
"""Symbols of a table, and buckets of a hash table, that are read at most, since files may be broken."""
_MAX_DYNAMIC = 4096  # entries of the dynamic segment that are read at most, since files may be broken
_MAX_NAME = 4096  # bytes of a name
_EXTENDED = 0xFFFF
"""Value of the file header's field e_shstrndx (SHN_XINDEX) which says that the index of the section with the section
names does not fit there, and is the field sh_link of section 0."""
_SECTION_HEADER_BYTES, _PROGRAM_HEADER_BYTES, _SYMBOL_BYTES, _DYNAMIC_ENTRY_BYTES = 64, 56, 24, 16
"""Sizes of the records of 64-bit ELF files."""
RELOCATION = struct.Struct("<QQq")
"""Relocation with an addend (Elf64_Rela): offset or address, type and symbol, addend."""


class ElfError(ValueError):
    """Error in the contents of an ELF file; callers prepend the name of the file and append the remedy."""


class ElfSegment(NamedTuple):
    """Program header. Sizes, offset and addresses are in bytes.

    Attributes:
        kind: Type, such as PT_LOAD.
        flags: Permissions: a sum of PF_READ, PF_WRITE and PF_EXEC.
        offset: Offset of the content in the file.
        address: Virtual address.
        physical: Physical address, which user programs ignore.
        file_size: Size in the file.
        memory_size: Size in memory; bytes beyond `file_size` are zero.
        alignment: Alignment in memory.
    """

    kind: int
    flags: int
    offset: int
    address: int
    physical: int
    file_size: int
    memory_size: int
    alignment: int


class ElfSection(NamedTuple):
    """Section header. Sizes and offsets are in bytes.

    Attributes:
        name: Offset of the name in the section name table; see `ElfFile.name`.
        kind: Type, such as SHT_SYMTAB.
        flags: Sum of SHF_* flags.
        address: Virtual address; 0 if the section is not loaded.
        offset: Offset of the content in the file.
        size: Size of the content.
        link: Index of a related section, such as the string table of a symbol table.
        info: Further number, such as the section to which relocations apply.
        alignment: Alignment in memory.
        entry_size: Size of an entry if the section is a table; else 0.
    """

    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    entry_size: int


class ElfSymbol(NamedTuple):
    """Entry of the symbol table of an ELF file.

    Attributes:
        name: Name; "" for none.
        info: Binding in the high 4 bits, type in the low 4.
        other: Visibility (st_other), with flags of the architecture.
        section: Index of the section that defines the symbol, or a special index such as UNDEFINED or COMMON.
        value: Address; in a relocatable object, the offset in the section.
        size: Size in bytes; 0 if unknown.
    """

    name: str
    info: int
    other: int
    section: int
    value: int
    size: int

    @property
    def binding(self) -> int:
        """Return LOCAL, GLOBAL or WEAK."""
        return self.info >> 4

    @property
    def kind(self) -> int:
        """Return the type, such as STT_FUNCTION."""
        return self.info & 15


def is_elf(data: bytes | memoryview) -> bool:
    """Return whether bytes begin as an ELF file does, of any class and byte order."""
    return bytes(data[:4]) == MAGIC


class Identity(NamedTuple):
    """Target identification in the header of an ELF file of any class and byte order.

    `file_class` is 1 for 32 bits and 2 for 64 bits. `order` is 1 for little endian and 2 for big endian. `type` and
    `machine` are the numbers in TYPES and MACHINES. `osabi` and `abi_version` are EI_OSABI and EI_ABIVERSION.
    """

    file_class: int
    order: int
    osabi: int
    abi_version: int
    type: int
    machine: int


def identity(data: bytes | memoryview) -> Identity | None:
    """Return the identity of an ELF file; None for other files and for a truncated header."""
    if not is_elf(data) or len(data) < 20:
        return None
    order = data[5]
    type_, machine = struct.unpack_from(">HH" if order == 2 else "<HH", data, 16)
    return Identity(file_class=data[4], order=order, osabi=data[7], abi_version=data[8], type=type_, machine=machine)


class _ElfHeader(NamedTuple):
    """Header of a 64-bit ELF file after the 16 bytes of e_ident."""

    type: int  # e_type
    machine: int  # e_machine
    version: int  # e_version
    entry: int  # e_entry: the address at which a program starts
    segments_at: int  # e_phoff: the offset of the program headers
    sections_at: int  # e_shoff: the offset of the section headers; 0 for none
    flags: int  # e_flags
    header_bytes: int  # e_ehsize
    segment_bytes: int  # e_phentsize: the size of each program header
    segment_count: int  # e_phnum
    section_bytes: int  # e_shentsize: the size of each section header
    section_count: int  # e_shnum; 0 if section 0 has the count
    names_section: int  # e_shstrndx: the index of the section with the names; _EXTENDED if section 0 has it


class ElfFile:
    """Reader of a 64-bit little-endian ELF file: its header, sections and symbols.

    Methods raise ElfError for broken content.

    Attributes:
        data: The file.
        type: Kind of file (e_type), such as DYN for a shared object.
        machine: Architecture (e_machine), a key of MACHINES.
        flags: Flags of the architecture (e_flags).
        abi_version: Version of the ABI.
    """

    def __init__(self, data: bytes | memoryview) -> None:
        """Read the header of the file; raise ElfError for another class or byte order."""
        self.data = memoryview(data).cast("B")
        if not is_elf(self.data):
            raise ElfError("it does not start with 7F 45 4C 46")
        file_class, order = self.unpack("BB", offset=4, what="header")
        if (file_class, order) != (2, 1):
            raise ElfError(
                f"it has class {file_class} and byte order {order}; only 64-bit little-endian (2, 1) is read"
            )
        header = _ElfHeader(*self.unpack("HHIQQQIHHHHHH", offset=16, what="header"))
        self.type, self.machine, self.flags = header.type, header.machine, header.flags
        self._segments_at, self._segment_count = header.segments_at, header.segment_count
        self._sections_at, self._section_count = header.sections_at, header.section_count
        self._names = header.names_section
        self.abi_version = self.data[8]
        # A count or index too large for its field of 16 bits is stored in the header of section 0 instead.
        is_count_extended = self._sections_at != 0 and header.section_count == 0
        is_names_index_extended = header.names_section == _EXTENDED
        if is_count_extended or is_names_index_extended:
            section_0 = self._read_section(0)
            self._section_count = header.section_count or section_0.size
            if is_names_index_extended:
                self._names = section_0.link
        if self._sections_at and header.section_bytes not in (0, _SECTION_HEADER_BYTES):
            raise ElfError(
                f"its section headers have {header.section_bytes} bytes each, expected {_SECTION_HEADER_BYTES}"
            )

    # -- bytes

    def unpack(self, layout: str, offset: int, what: str) -> tuple[int, ...]:
        """Return the little-endian numbers at an offset, in a `struct` layout. `what` names them in the error
        message."""
        return struct.unpack_from("<" + layout, self.part(offset, struct.calcsize("<" + layout), what))

    def part(self, offset: int, size: int, what: str) -> memoryview:
        """Return `size` bytes at an offset. `what` names them in the error message."""
        if not 0 <= offset <= len(self.data) - size or size < 0:
            raise ElfError(f"its {what} at offset {offset} is outside its {len(self.data)} bytes")
        return self.data[offset : offset + size]

    def text(self, offset: int, end: int) -> str:
        """Return the zero-terminated string at an offset, in a string table that ends at `end`."""
        if not 0 <= offset < end <= len(self.data):
            raise ElfError(f"a name at offset {offset} is outside its string table")
        raw, zero, _ = bytes(self.data[offset : min(end, offset + _MAX_NAME)]).partition(b"\0")
        if not zero:
            raise ElfError(f"a name at offset {offset} does not end within its string table and {_MAX_NAME} bytes")
        return raw.decode("utf-8", "replace")

    # -- sections

    def _read_section(self, index: int) -> ElfSection:
        """Read a section header."""
        offset = self._sections_at + _SECTION_HEADER_BYTES * index
        return ElfSection(*self.unpack("IIQQQQIIQQ", offset, f"section header {index}"))

    @cached_property
    def sections(self) -> list[ElfSection]:
        """Return the section headers, in order; none if the file has no table of them."""
        if self._sections_at == 0:
            return []
        self.part(self._sections_at, _SECTION_HEADER_BYTES * self._section_count, "table of sections")
        return [self._read_section(index) for index in range(self._section_count)]

    def name(self, section: ElfSection) -> str:
        """Return the name of a section."""
        names = self._linked(self._names)
        return self.text(names.offset + section.name, names.offset + names.size)

    def _linked(self, index: int) -> ElfSection:
        """Return the section with an index from another header; raise ElfError if there is none."""
        if index >= len(self.sections):
            raise ElfError(f"it has no section {index}")
        return self.sections[index]

    def content(self, section: ElfSection) -> memoryview:
        """Return the bytes of a section."""
        return self.part(section.offset, section.size, "section")

    def section_named(self, name: str) -> ElfSection | None:
        """Return the first section of a name; None if there is none."""
        return next((section for section in self.sections if self.name(section) == name), None)

    def symbols(self, kind: int = SHT_SYMTAB) -> Iterator[ElfSymbol]:
        """Yield the symbols of all symbol tables of type `kind` (SHT_SYMTAB or SHT_DYNSYM), in file order."""
        for section in self.sections:
            if section.kind == kind:
                names = self._linked(section.link)
                count = section.size // _SYMBOL_BYTES
                yield from self._symbols(section.offset, count, names.offset, names.offset + names.size)

    def _symbols(self, offset: int, count: int, names: int, names_end: int) -> Iterator[ElfSymbol]:
        """Yield the symbols of a table without its null entry.

        Args:
            offset: Offset of the table in the file.
            count: Number of its entries, with the null entry.
            names, names_end: Offsets in the file of the beginning and the end of its string table.
        """
        if count > _MAX_SYMBOLS:
            raise ElfError(f"it has {count} symbols; at most {_MAX_SYMBOLS} are read")
        table = self.part(offset, _SYMBOL_BYTES * count, "symbol table")
        for name, info, other, section, value, size in struct.iter_unpack("<IBBHQQ", table[_SYMBOL_BYTES:]):
            yield ElfSymbol(self.text(names + name, names_end) if name else "", info, other, section, value, size)

    # -- segments

    @cached_property
    def segments(self) -> list[ElfSegment]:
        """Return the program headers, in order."""
        segments: list[ElfSegment] = []
        for index in range(self._segment_count):
            offset = self._segments_at + _PROGRAM_HEADER_BYTES * index
            segments.append(ElfSegment(*self.unpack("IIQQQQQQ", offset, f"program header {index}")))
        return segments

    def segment_of(self, address: int, size: int = 1) -> ElfSegment | None:
        """Return the loaded segment whose file content covers `size` bytes at an address; None if there is none."""
        for segment in self.segments:
            if segment.kind == PT_LOAD and 0 <= address - segment.address <= segment.file_size - size:
                return segment
        return None

    def offset_of(self, address: int, what: str, size: int = 1) -> int:
        """Return the file offset of `size` bytes at an address. `what` names them in the error message."""
        segment = self.segment_of(address, size)
        if segment is None:
            raise ElfError(f"its {what} at address {address:#x} is in no loaded segment")
        return segment.offset + address - segment.address

    def at(self, address: int, size: int, what: str) -> memoryview:
        """Return `size` bytes at an address. `what` names them in the error message."""
        return self.part(self.offset_of(address, what, size), size, what)

    def text_at(self, address: int, what: str) -> str:
        """Return the zero-terminated string at an address. `what` names it in the error message."""
        segment = self.segment_of(address)
        offset = self.offset_of(address, what)
        assert segment is not None
        return self.text(offset, min(segment.offset + segment.file_size, len(self.data)))

    # -- what the dynamic linker reads

    @cached_property
    def dynamic(self) -> list[tuple[int, int]]:
        """Return the pairs (tag, value) of the dynamic segment, without the null entry at its end; [] without one."""
        entries: list[tuple[int, int]] = []
        segment = next((segment for segment in self.segments if segment.kind == PT_DYNAMIC), None)
        if segment is not None:
            for index in range(min(segment.file_size // _DYNAMIC_ENTRY_BYTES, _MAX_DYNAMIC)):
                tag, value = self.unpack("QQ", segment.offset + _DYNAMIC_ENTRY_BYTES * index, "dynamic section")
                if tag == 0:
                    break
                entries.append((tag, value))
        return entries

    @cached_property
    def _tags(self) -> dict[int, int]:
        """Return the first value of each tag of the dynamic segment."""
        return dict(reversed(self.dynamic))

    def tag(self, tag: int) -> int | None:
        """Return the first value of a tag of the dynamic segment; None if it is missing."""
        return self._tags.get(tag)

    @property
    def needed(self) -> list[str]:
        """Return the libraries that the file depends on (DT_NEEDED)."""
        names, end = self._dynamic_names()
        return [self.text(names + value, end) for tag, value in self.dynamic if tag == DT_NEEDED]

    def dynamic_symbols(self) -> Iterator[ElfSymbol]:
        """Yield the symbols of the dynamic symbol table, which is located through the dynamic segment."""
        table = self.tag(DT_SYMTAB)
        if table is not None and DT_STRTAB in self._tags:
            offset = self.offset_of(table, "symbol table")
            yield from self._symbols(offset, self._dynamic_symbol_count(), *self._dynamic_names())

    def _dynamic_names(self) -> tuple[int, int]:
        """Return the start and end offset of the dynamic string table in the file; (0, 0) if there is none."""
        address = self.tag(DT_STRTAB)
        if address is None:
            return 0, 0
        start = self.offset_of(address, "string table")
        return start, start + (self.tag(DT_STRSZ) or 0)

    def _dynamic_symbol_count(self) -> int:
        """Return the number of dynamic symbols according to the symbol hash table; 0 without one."""
        if (table := self.tag(DT_HASH)) is not None:
            return self.unpack("II", self.offset_of(table, "hash table"), "hash table")[1]
        if (table := self.tag(DT_GNU_HASH)) is not None:
            return self._gnu_hash_count(self.offset_of(table, "GNU hash table"))
        return 0

    def _gnu_hash_count(self, offset: int) -> int:
        """Return the number of symbols according to a GNU hash table: the index after the end of the last chain.

        The symbols before the index `first` are not in the table. A bucket has the index of the first symbol of its
        chain; the word of the last symbol of a chain is odd.
        """
        # The table: four words, a Bloom filter of 64-bit words, the buckets, a word for each symbol from `first` on.
        bucket_count, first, filter_words, _ = self.unpack("IIII", offset, "GNU hash table")
        if bucket_count > _MAX_SYMBOLS or filter_words > _MAX_SYMBOLS:
            raise ElfError(f"its GNU hash table has {bucket_count} buckets and {filter_words} filter words")
        buckets = offset + 16 + 8 * filter_words
        chains = buckets + 4 * bucket_count
        last = max(self.unpack(f"{bucket_count}I", buckets, "GNU hash table"), default=0)
        if last < first:
            return first  # all chains are empty
        # The last chain begins at the greatest index in a bucket.
        while not self.unpack("I", chains + 4 * (last - first), "GNU hash chain")[0] & 1:
            last += 1
        return last + 1
