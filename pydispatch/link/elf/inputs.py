"""Inputs of a link: loaded sections of relocatable objects, their symbols and relocations."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from pydispatch.formats.elf import reader
from pydispatch.formats.elf.reader import ElfError, ElfFile, ElfSection

_UNUSED_SECTIONS = (".eh_frame", ".note", ".comment", ".llvm_addrsig", ".riscv.attributes")
"""Loaded sections that no kernel reads: kernels neither throw nor are unwound."""

_MAX_ZEROS = 1 << 28
"""Maximum size in bytes of a section without content (.bss), which the size of the object file does not bound."""

_COMDAT = 1
"""Flag of a section group of which a link has one copy (GRP_COMDAT)."""

_SYMBOL_KINDS = (reader.STT_NOTYPE, reader.STT_OBJECT, reader.STT_FUNCTION, reader.STT_SECTION, reader.STT_FILE)
"""Types of symbols that are linked; others, such as thread-local ones, are refused."""


class LinkError(Exception):
    """Failure to link objects; the message states the cause and the object."""


class UnsupportedError(LinkError):
    """Failure of a link that needs a feature of a complete linker such as ld.lld."""


@dataclass(eq=False)
class InputSection:
    """Section of an input object of a link.

    Attributes:
        owner: Label of the object, for messages.
        name: Name of the section, such as ".text.f".
        kind, flags: sh_type and sh_flags of ELF.
        alignment: Alignment in bytes.
        size: Size in memory, in bytes.
        content: Bytes of the section; fewer than `size` if the rest is zero (.bss).
        relocations: Relocations of its content.
        address: Virtual address in the output; -1 if the section is left out of it.
    """

    owner: str
    name: str
    kind: int
    flags: int
    alignment: int
    size: int
    content: bytes
    relocations: list[Relocation] = field(default_factory=list)
    address: int = -1


@dataclass(eq=False)
class LinkSymbol:
    """Symbol of a link. A local symbol belongs to one object; a non-local one is shared by all objects that name it.

    Attributes:
        name: Name of the symbol.
        binding, kind: Constants of ELF, such as `reader.WEAK` and `reader.STT_FUNCTION`.
        part: Section that contains the definition; None if the symbol is undefined.
        value: Offset in `part`, in bytes.
        size: Size in bytes; 0 if unknown.
        wanted_by: Labels of the objects that refer to it by a strong reference, so that it must be defined.
        is_left_out: Whether an object defines it in a section that is left out, such as .eh_frame or a COMDAT
            duplicate.
    """

    name: str
    binding: int
    kind: int
    part: InputSection | None = None
    value: int = 0
    size: int = 0
    wanted_by: list[str] = field(default_factory=list)
    is_left_out: bool = False

    @property
    def address(self) -> int:
        """Virtual address in the output; 0 if the symbol is undefined."""
        return 0 if self.part is None else self.part.address + self.value


class Relocation(NamedTuple):
    """Relocation of a section: a field of its content is computed from a symbol's address.

    Attributes:
        offset: Offset of the field in the section, in bytes.
        kind: Type of the relocation: the rule by which the field is computed, which depends on the machine.
        symbol: Symbol whose address is used.
        addend: Number that is added to the address.
    """

    offset: int
    kind: int
    symbol: LinkSymbol
    addend: int


@dataclass
class SymbolTable:
    """Symbols that all objects of a link share.

    Attributes:
        symbols: Non-local symbols by name.
        groups: Names of the section groups (COMDAT) that a loaded object contains; copies in later objects are left
            out.
    """

    symbols: dict[str, LinkSymbol] = field(default_factory=dict)
    groups: set[str] = field(default_factory=set)

    def symbol(self, name: str) -> LinkSymbol:
        """Return the shared symbol of this name; create it on first use, undefined.

        `binding` is WEAK until a definition sets it. Whether an undefined symbol must be defined is recorded in
        `wanted_by` instead.
        """
        symbol = self.symbols.get(name)
        if symbol is None:
            symbol = self.symbols[name] = LinkSymbol(name, reader.WEAK, reader.STT_NOTYPE)
        return symbol


def defined_names(data: bytes) -> Iterator[str]:
    """Yield the names of the non-local symbols that an object defines."""
    for symbol in ElfFile(data).symbols():
        if symbol.binding != reader.LOCAL and symbol.section not in (reader.UNDEFINED, reader.COMMON):
            yield symbol.name


class Object:
    """Relocatable ELF object that takes part in a link, with the sections of it that are loaded at run time.

    Attributes:
        label: Name of the object in messages.
        parts: Sections that are loaded at run time, by section number. Sections of COMDAT groups that an earlier object
            contains are left out.
        symbols: Symbols by their index in the object's symbol table; 0 is the null symbol.

    Args:
        label: Name of the object in messages.
        data: Bytes of the object.
        names: Symbols of all objects; those of this one are added.
        machine: e_machine that the object must be for.
    """

    def __init__(self, label: str, data: bytes, names: SymbolTable, machine: int) -> None:
        """Read the object. Raise LinkError for a broken file, another machine, and a file that is not relocatable."""
        self.label, self._names = label, names
        self.parts: dict[int, InputSection] = {}
        self.symbols: list[LinkSymbol] = []
        try:
            self._file = ElfFile(data)
            if (self._file.type, self._file.machine) != (reader.REL, machine):
                kind = reader.TYPES.get(self._file.type, "file")
                its = reader.MACHINES.get(self._file.machine, "another machine")
                raise LinkError(
                    f"{label} is incompatible: a {kind} for {its}, expected a {reader.TYPES[reader.REL]} for "
                    f"{reader.MACHINES[machine]}"
                )
            self._read()
        except ElfError as error:
            raise LinkError(f"{label} cannot be read: {error}") from error

    def _read(self) -> None:
        """Read the sections, then the symbols defined in them, then the relocations that refer to these symbols."""
        sections = self._file.sections
        symbols = list(self._file.symbols())
        repeated = self._duplicate_comdat_sections(symbols)
        for index, section in enumerate(sections):
            name = self._file.name(section)
            is_loaded = section.flags & reader.SHF_ALLOC and not name.startswith(_UNUSED_SECTIONS)
            if is_loaded and index not in repeated:
                self.parts[index] = self._part(name, section)
        # Relocations refer to symbols by index; index 0 is the null symbol, which `symbols` lacks.
        self.symbols = [LinkSymbol("", reader.LOCAL, reader.STT_NOTYPE), *(self._symbol(symbol) for symbol in symbols)]
        for section in sections:
            part = self.parts.get(section.info)  # for a section of relocations: the section that they are for
            if part is None:
                continue
            if section.kind == reader.SHT_REL:
                raise UnsupportedError(f"{self.label} has relocations without addends")
            if section.kind == reader.SHT_RELA:
                part.relocations += self._relocations(section, part)

    def _part(self, name: str, section: ElfSection) -> InputSection:
        """Return `section`, named `name`, as an InputSection; raise LinkError if its alignment or size is invalid."""
        if section.alignment & (section.alignment - 1):  # more than one bit is set; 0 and 1 are no constraint
            raise LinkError(f"{self.label}: section {name} has alignment {section.alignment}, which is no power of two")
        if section.kind == reader.SHT_NOBITS and section.size > _MAX_ZEROS:
            raise LinkError(f"{self.label}: section {name} has {section.size} zeros, the limit is {_MAX_ZEROS} bytes")
        content = b"" if section.kind == reader.SHT_NOBITS else bytes(self._file.content(section))
        return InputSection(
            owner=self.label,
            name=name,
            kind=section.kind,
            flags=section.flags,
            alignment=max(section.alignment, 1),
            size=section.size,
            content=content,
        )

    def _duplicate_comdat_sections(self, symbols: list[reader.ElfSymbol]) -> set[int]:
        """Return the numbers of sections whose COMDAT group an earlier object contains, and record this object's
        groups.

        symbols: the object's symbol table without its null symbol. A group has the name of its symbol (sh_info).
        """
        repeated: set[int] = set()
        for section in self._file.sections:
            if section.kind != reader.SHT_GROUP:
                continue
            # The content of a group is a word with flags, then the numbers of its sections; () if it is empty.
            words = self._file.unpack(f"{section.size // 4}I", section.offset, "group")
            flags, *members = words or (0,)
            if not 0 < section.info <= len(symbols):
                raise LinkError(f"{self.label} names a group of sections by symbol {section.info}, which it lacks")
            name = symbols[section.info - 1].name  # sh_info counts the null symbol
            if flags & _COMDAT:
                if name in self._names.groups:
                    repeated.update(members)
                self._names.groups.add(name)
        return repeated

    def _symbol(self, entry: reader.ElfSymbol) -> LinkSymbol:
        """Return the symbol of a symbol table entry. All objects share the symbol of a non-local name, to which the
        definition in this one is added.

        A strong definition replaces a weak one; of two weak definitions the first counts. A symbol in a section that is
        left out, such as .eh_frame, is not defined by it. Raises LinkError for two strong definitions and for a symbol
        outside of its section, UnsupportedError for common, absolute and TLS symbols.
        """
        part = self.parts.get(entry.section)
        is_local = entry.binding == reader.LOCAL
        if entry.section in (reader.COMMON, reader.ABSOLUTE) and entry.kind != reader.STT_FILE:
            raise UnsupportedError(f"{self.label}: symbol '{entry.name}' has no section")
        if entry.kind not in _SYMBOL_KINDS:
            raise UnsupportedError(f"{self.label}: symbol '{entry.name}' is of type {entry.kind}")
        symbol = LinkSymbol(entry.name, entry.binding, entry.kind) if is_local else self._names.symbol(entry.name)
        if part is None:  # undefined here, or in a section that is left out
            if is_local or entry.section != reader.UNDEFINED:
                symbol.is_left_out = True
            elif entry.binding != reader.WEAK:
                symbol.wanted_by.append(self.label)
            return symbol
        if entry.value > part.size:
            raise LinkError(f"{self.label}: symbol '{entry.name}' is outside its section {part.name}")
        if symbol.part is not None and symbol.binding == entry.binding == reader.GLOBAL:
            raise LinkError(f"duplicate symbol '{entry.name}': {symbol.part.owner} and {self.label} define it")
        is_strong_after_weak = symbol.binding == reader.WEAK and entry.binding != reader.WEAK
        if symbol.part is None or is_strong_after_weak:
            symbol.part, symbol.value, symbol.size = part, entry.value, entry.size
            symbol.binding, symbol.kind = entry.binding, entry.kind
        return symbol

    def _relocations(self, section: ElfSection, part: InputSection) -> Iterator[Relocation]:
        """Yield the relocations of `part` from a SHT_RELA section; raise LinkError for one that is out of bounds."""
        # Elf64_Rela has 24 bytes: offset, r_info (as two words: the type and the symbol's index), addend.
        content = self._file.part(section.offset, section.size // 24 * 24, "relocations")
        for offset, kind, symbol_index, addend in struct.iter_unpack("<QIIq", content):
            if symbol_index >= len(self.symbols) or offset > len(part.content):
                raise LinkError(f"{self.label}: a relocation of {part.name} at {offset:#x} is out of bounds")
            yield Relocation(offset, kind, self.symbols[symbol_index], addend)
