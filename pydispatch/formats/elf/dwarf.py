"""The parameters of functions in the debug information of an object: DWARF 4 and 5, in the 32-bit format."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from pydispatch.formats.elf.reader import RELOCATION, SHT_RELA, ElfError, ElfFile, ElfSection

MAX_SECTION_BYTES = 4 << 20
"""Size of the largest debug section that is read; those of kernels have a few thousand bytes."""
MOST_ENTRIES = 100_000
"""Entries of the largest compilation unit that is read; bounds memory, because each takes some hundred bytes."""
_COMPRESSED = 1 << 11  # SHF_COMPRESSED

# Tags of entries (DW_TAG_*), then attributes (DW_AT_*), encodings of base types (DW_ATE_*) and forms (DW_FORM_*).
_SUBPROGRAM, _PARAMETER, _VARIADIC = 0x2E, 0x05, 0x18
_BASE, _ENUMERATION, _TYPEDEF, _CONST, _VOLATILE, _RESTRICT = 0x24, 0x04, 0x16, 0x26, 0x35, 0x37
_POINTERS = frozenset([0x0F, 0x10, 0x42])  # DW_TAG_pointer_type, DW_TAG_reference_type, DW_TAG_rvalue_reference_type
_NAME, _BYTES, _ORIGIN, _DECLARATION, _ENCODING, _TYPE = 0x03, 0x0B, 0x31, 0x3C, 0x3E, 0x49
_LINKAGE_NAME, _STRINGS_BASE = 0x6E, 0x72
_BOOLEAN, _FLOAT = 2, 4
_INTEGERS = frozenset([5, 6, 7, 8])  # DW_ATE_signed, signed_char, unsigned, unsigned_char
_ADDRESS, _IMPLICIT = 0x01, 0x21
_STRING, _STRING_OFFSET, _LINE_STRING_OFFSET = 0x08, 0x0E, 0x1F  # DW_FORM_string, DW_FORM_strp, DW_FORM_line_strp
_FIXED = {
    0x03: -2, 0x04: -4, 0x05: 2, 0x06: 4, 0x07: 8, 0x0A: -1, 0x0B: 1, 0x0C: 1, 0x0E: 4, 0x10: 4, 0x11: 1, 0x12: 2,
    0x13: 4, 0x14: 8, 0x17: 4, 0x19: 0, 0x1C: 4, 0x1D: 4, 0x1E: 16, 0x1F: 4, 0x20: 8, 0x24: 8, 0x25: 1, 0x26: 2,
    0x27: 3, 0x28: 4, 0x29: 1, 0x2A: 2, 0x2B: 3, 0x2C: 4,
}  # fmt: skip
"""Form (DW_FORM_*) -> size of the value in bytes. For a form with -n, the value is a block of bytes; a length field
of n bytes precedes it."""
_VARIABLE = frozenset([0x0D, 0x0F, 0x15, 0x1A, 0x1B, 0x22, 0x23])
"""Forms whose value is a LEB128 number."""
_BLOCKS = frozenset([0x09, 0x18])
"""Forms whose value is a LEB128 number n and then n bytes: DW_FORM_block and DW_FORM_exprloc."""
_OF_UNIT = frozenset([0x11, 0x12, 0x13, 0x14, 0x15])
"""Forms of references, whose values are offsets from the start of their unit."""
_INDEXED_STRINGS = frozenset([0x1A, 0x25, 0x26, 0x27, 0x28])
"""Forms of a string by its index in .debug_str_offsets."""
_ABSOLUTE = {62: (1, 10), 183: (257, 258), 243: (1, 2)}
"""ELF machine -> types of relocations that store an absolute address or offset, of 32 or 64 bits."""


class _AttributeForm(NamedTuple):
    """Attribute of an abbreviation.

    Attributes:
        attribute: Number of the attribute (DW_AT_*).
        form: How an entry stores its value (DW_FORM_*).
        constant: The value itself for the form `_IMPLICIT`, else 0.
    """

    attribute: int
    form: int
    constant: int


class _Abbreviation(NamedTuple):
    """Form of the entries that start with one abbreviation code.

    Attributes:
        tag: Kind of entity that the entries describe (DW_TAG_*).
        has_children: Whether child entries follow an entry.
        attributes: Attributes of an entry, in the order of their values.
    """

    tag: int
    has_children: bool
    attributes: list[_AttributeForm]


_Abbreviations = Mapping[int, _Abbreviation]
"""Abbreviation table of a unit, by code."""


@dataclass(frozen=True)
class DebugParameter:
    """Parameter of a C function, as the debug information of an object describes it.

    Attributes:
        name: Name; "" for none.
        type: Scalar type of the parameter or of what it points to: f32, f64, i8 to i64, i1 for bool; "" for any
            other type.
        is_pointer: Whether the parameter is a pointer or reference.
        is_constant: Whether it points to const.
    """

    name: str
    type: str
    is_pointer: bool
    is_constant: bool


@dataclass(slots=True)
class _Entry:
    """Debugging information entry (DIE): a function, a parameter, a type.

    Attributes:
        tag: Kind of entity that it describes: `_SUBPROGRAM`, `_PARAMETER`, ...
        values: Values by the numbers of attributes, such as `_NAME`. A reference is the offset of another entry.
        children: Entries inside of it: the parameters of a function.
    """

    tag: int
    values: dict[int, int | str] = field(default_factory=dict)
    children: list[_Entry] = field(default_factory=list)


def parameters(data: bytes, symbol: str) -> list[DebugParameter] | None:
    """Return the parameters of a C function; None if the object has no debug information of it that this reader
    supports, and for variadic functions.

    Args:
        data: The object, a 64-bit ELF file.
        symbol: Name of the function, or its linkage name.
    """
    try:
        for unit in _DwarfReader(ElfFile(data)).units():
            for entry in unit.values():
                if entry.tag == _SUBPROGRAM and _DECLARATION not in entry.values and symbol in _names(entry, unit):
                    return _parameters(entry, unit)
    except (ElfError, IndexError, KeyError, ValueError, struct.error, UnicodeDecodeError, RecursionError):
        return None
    return None


def _names(entry: _Entry, unit: Mapping[int, _Entry]) -> set[int | str | None]:
    """Return the source name and the linkage name of a function; None is among them if it lacks one.

    unit: Entries by offset. Copies of a function (inlined, outlined) have the names in the entry of their origin.
    """
    origin = unit.get(int(entry.values.get(_ORIGIN, -1)), entry)
    return {origin.values.get(_NAME), origin.values.get(_LINKAGE_NAME)}


def _parameters(function: _Entry, unit: Mapping[int, _Entry]) -> list[DebugParameter] | None:
    """Return the parameters of a function entry; None for a variadic function.

    Raises KeyError if a parameter is described in another unit, as after link-time optimization.
    """
    if any(child.tag == _VARIADIC for child in function.children):
        return None
    parameters = []
    for child in function.children:
        if child.tag == _PARAMETER:
            origin = unit[int(child.values[_ORIGIN])] if _ORIGIN in child.values else child
            values = {**origin.values, **child.values}
            parameters.append(_parameter(str(values.get(_NAME, "")), values, unit))
    return parameters


def _parameter(name: str, values: Mapping[int, int | str], unit: Mapping[int, _Entry]) -> DebugParameter:
    """Return a parameter, whose type is resolved through typedefs, qualifiers and at most one pointer.

    In DWARF, the type of `const float *p` is a chain of entries, each of which refers to the next one: a pointer type,
    a const type, and the base type float. The result is DebugParameter("p", "f32", is_pointer=True, is_constant=True).
    The type is "" for void, structures and pointers to pointers. Raises KeyError for a type in another unit, and
    ValueError for a chain without an end, as a broken file may have.

    Args:
        name: Name of the parameter.
        values: Attributes of its entry; then, step by step, of the types that it refers to.
        unit: Entries by offset.
    """
    is_pointer = is_constant = False
    for _ in range(64):  # more than real types have; the entries of a broken file may form a cycle
        if _TYPE not in values:  # void has no entry
            return DebugParameter(name, type="", is_pointer=is_pointer, is_constant=is_constant)
        type_entry = unit[int(values[_TYPE])]
        if type_entry.tag in _POINTERS:
            if is_pointer:  # a pointer to a pointer
                return DebugParameter(name, type="", is_pointer=True, is_constant=False)
            is_pointer = True
        elif type_entry.tag == _CONST:
            is_constant = is_pointer  # the pointee's const counts, not that of the parameter itself
        elif type_entry.tag not in (_TYPEDEF, _VOLATILE, _RESTRICT):
            return DebugParameter(name, _scalar_name(type_entry), is_pointer, is_constant)
        values = type_entry.values
    raise ValueError("a type without an end")


def _scalar_name(entry: _Entry) -> str:
    """Return the name of a scalar type, such as "i32" or "f64"; "" for other types. Enumerations are integers."""
    bits = 8 * int(entry.values.get(_BYTES, 0))
    encoding = entry.values.get(_ENCODING)
    if entry.tag == _ENUMERATION or (entry.tag == _BASE and encoding in _INTEGERS):
        return f"i{bits}"
    if entry.tag == _BASE and encoding == _BOOLEAN:
        return "i1"
    if entry.tag == _BASE and encoding == _FLOAT and bits in (32, 64):
        return f"f{bits}"  # of 16 bits: DWARF does not tell f16 from bf16
    return ""


class _DwarfReader:
    """Decoder of the compilation units in .debug_info, with the relocations of the section applied.

    `units` is called once, and yields the entries of one unit after the other.

    `_at` is the offset in .debug_info of the bytes that are decoded next.
    """

    def __init__(self, file: ElfFile) -> None:
        """Read the debug sections of an object; raise ElfError for compressed and for very large ones."""
        self._file = file
        self._info = self._content(".debug_info")
        self._abbreviations = self._content(".debug_abbrev")
        self._strings = {  # form of a value that is an offset of a string -> the section with the string
            _STRING_OFFSET: self._content(".debug_str"),
            _LINE_STRING_OFFSET: self._content(".debug_line_str"),
        }
        self._offsets = self._content(".debug_str_offsets")  # index of a string -> its offset in .debug_str
        self._at = 0  # offset in .debug_info of the next value to read

    def _content(self, name: str) -> bytes:
        """Return the content of a debug section with its relocations applied; b"" if the object has none. Raises
        ElfError."""
        sections = self._file.sections
        index = next((n for n, section in enumerate(sections) if self._file.name(section) == name), None)
        if index is None:
            return b""
        content = bytearray(self._file.content(sections[index]))
        if len(content) > MAX_SECTION_BYTES:
            raise ElfError(f"{name} is too large")
        if sections[index].flags & _COMPRESSED:
            raise ElfError(f"{name} is compressed")
        for section in sections:
            if section.kind == SHT_RELA and section.info == index:
                self._relocate(content, section)
        return bytes(content)

    def _relocate(self, content: bytearray, relocations: ElfSection) -> None:
        """Apply the absolute relocations of a debug section.

        The stored value is the addend alone: an offset into another debug section, whose address is 0. It has 4 bytes,
        as in 32-bit DWARF; of a 64-bit address only the lower half is stored, because this reader uses no addresses.
        """
        table = bytes(self._file.content(relocations))
        whole = len(table) // RELOCATION.size * RELOCATION.size  # without an incomplete record at the end
        absolute_kinds = _ABSOLUTE.get(self._file.machine, ())
        for offset, info, addend in RELOCATION.iter_unpack(table[:whole]):
            kind = info & 0xFFFFFFFF  # the upper half is the symbol
            is_in_section = offset + 4 <= len(content)
            if kind in absolute_kinds and is_in_section:
                struct.pack_into("<I", content, offset, addend & 0xFFFFFFFF)

    def units(self) -> Iterator[dict[int, _Entry]]:
        """Yield the entries of each compilation unit, by offset in .debug_info; raise ValueError for other units.

        The header of a unit has the length of what follows it, the version and then, in version 4, the offset of its
        abbreviation table and the size of an address; in version 5 the type of the unit, this size and this offset.
        """
        start = 0
        while start + 11 <= len(self._info):
            length, version = struct.unpack_from("<IH", self._info, start)
            end = start + 4 + length
            # Lengths from 0xFFFFFFF0 on mark the 64-bit format, and reserved ones.
            if length >= 0xFFFFFFF0 or end > len(self._info) or version not in (4, 5):
                raise ValueError("a unit that is not understood")
            if version == 4:  # a header of 11 bytes
                abbreviation_offset, address_size = struct.unpack_from("<IB", self._info, start + 6)
                self._at = start + 11
            else:  # a header of 12 bytes
                unit_type, address_size, abbreviation_offset = struct.unpack_from("<BBI", self._info, start + 6)
                self._at = start + 12
                if unit_type != 1:  # DW_UT_compile
                    raise ValueError("a unit that is not for compilation")
            yield self._entries(start, end, self._abbreviation_table(abbreviation_offset), address_size)
            start = end

    def _abbreviation_table(self, at: int) -> _Abbreviations:
        """Return the abbreviation table at an offset in .debug_abbrev; a code of 0 ends it."""
        abbreviations: dict[int, _Abbreviation] = {}
        data = self._abbreviations
        while True:
            code, at = _unsigned(data, at)
            if not code:
                return abbreviations
            tag, at = _unsigned(data, at)
            has_children, at = bool(data[at]), at + 1
            attributes, at = self._abbreviated_attributes(at)
            abbreviations[code] = _Abbreviation(tag, has_children, attributes)

    def _abbreviated_attributes(self, at: int) -> tuple[list[_AttributeForm], int]:
        """Return the attributes of the abbreviation whose list starts at an offset, and the offset after the list.

        A pair of zeros ends the list.
        """
        attributes: list[_AttributeForm] = []
        while True:
            attribute, at = _unsigned(self._abbreviations, at)
            form, at = _unsigned(self._abbreviations, at)
            constant = 0
            if form == _IMPLICIT:
                constant, at = _unsigned(self._abbreviations, at)
            if not attribute and not form:
                return attributes, at
            attributes.append(_AttributeForm(attribute, form, constant))

    def _entries(self, start: int, end: int, abbreviations: _Abbreviations, address_bytes: int) -> dict[int, _Entry]:
        """Return the entries of a unit by their offset in .debug_info, from `_at` on.

        An entry is the number of an abbreviation, then the values of the attributes that the abbreviation lists. If the
        abbreviation says so, the entries of its children follow, and a 0 after the last one: a function with two
        parameters is stored as `FUNCTION values, PARAMETER values, PARAMETER values, 0`.

        Args:
            start: Offset of the unit, to which references in it are relative.
            end: Offset after the unit.
            abbreviations: Abbreviation table of the unit.
            address_bytes: Size of an address.
        """
        entries: dict[int, _Entry] = {}
        parents: list[_Entry] = []  # entries whose children are being read, outermost first
        indexed: list[tuple[_Entry, int, int]] = []  # (entry, attribute, index) of strings that are stored by index
        strings_base = 8  # of a unit that states none: the table of offsets has a header of 8 bytes
        while self._at < end:
            offset = self._at
            code, self._at = _unsigned(self._info, self._at)
            if not code:  # the end of a list of children
                parents = parents[:-1]
                continue
            abbreviation = abbreviations[code]
            if len(entries) == MOST_ENTRIES:
                raise ValueError("too many entries")
            entry = entries[offset] = _Entry(abbreviation.tag)
            for attribute, form, constant in abbreviation.attributes:
                # For DW_FORM_implicit_const, the abbreviation has the value.
                value = constant if form == _IMPLICIT else self._read_value(form, address_bytes)
                entry.values[attribute] = start + int(value) if form in _OF_UNIT else value
                if form in _INDEXED_STRINGS:
                    indexed.append((entry, attribute, int(value)))
                if attribute == _STRINGS_BASE:
                    strings_base = int(entry.values[attribute])
            if parents:
                parents[-1].children.append(entry)
            if abbreviation.has_children:
                parents.append(entry)
        self._resolve_names(indexed, strings_base)  # at the end, because the base may follow the strings
        return entries

    def _resolve_names(self, indexed: list[tuple[_Entry, int, int]], strings_base: int) -> None:
        """Replace the indices of names in entries by the names; strings of other attributes are not needed.

        Args:
            indexed: (entry, attribute, index of the string) for each string.
            strings_base: Offset in .debug_str_offsets of the string with index 0.
        """
        debug_str = self._strings[_STRING_OFFSET]
        for entry, attribute, index in indexed:
            if attribute in (_NAME, _LINKAGE_NAME):
                (at,) = struct.unpack_from("<I", self._offsets, strings_base + 4 * index)
                entry.values[attribute] = _text(debug_str, at)

    def _read_value(self, form: int, address_bytes: int) -> int | str:
        """Read an attribute value of a DWARF form at `_at`; blocks of bytes are skipped, and 0 is returned for them.

        A string is returned as text, also one that the value names by its offset in .debug_str or .debug_line_str.
        Raises KeyError for an unknown form.

        Args:
            form: Encoding of the value (DW_FORM_*).
            address_bytes: Size of an address.
        """
        if form == _STRING:
            text = _text(self._info, self._at)
            self._at += len(text.encode()) + 1
            return text
        if form in _VARIABLE:
            value, self._at = _unsigned(self._info, self._at)
            return value
        if form in _BLOCKS:
            size, self._at = _unsigned(self._info, self._at)
            self._at += size
            return 0
        # Negative: the value is preceded by a length of that many bytes.
        size = address_bytes if form == _ADDRESS else _FIXED[form]
        value = int.from_bytes(self._info[self._at : self._at + abs(size)], "little")
        self._at += abs(size)
        if size < 0:
            self._at += value
            return 0
        return _text(self._strings[form], value) if form in self._strings else value


def _unsigned(data: bytes, at: int) -> tuple[int, int]:
    """Return a LEB128 number and the offset after it.

    Signed numbers are read as unsigned, because no caller uses their values.
    """
    value = shift = 0
    while shift < 70:  # ten bytes of 7 bits hold 64 bits
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise ValueError("a number of more than 64 bits")


def _text(data: bytes, at: int) -> str:
    """Return the zero-terminated string at an offset."""
    return data[at : data.index(b"\0", at)].decode()
