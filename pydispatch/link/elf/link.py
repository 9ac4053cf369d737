"""Links objects into an embedded ELF: a freestanding shared object that exports what it is asked to, and nothing else.

Generated code and plain C need a small part of what a linker can do: sections that the exports refer to, relocations of
a few kinds, no dynamic symbols to look up. `UnsupportedError` is raised for everything else, which ld.lld can do.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

from pydispatch.formats.elf import reader
from pydispatch.link.elf.image import OutputSection, OutputSegment, assign_addresses, file_bytes, output_sections_of
from pydispatch.link.elf.inputs import InputSection, LinkSymbol
from pydispatch.link.elf.machines import aarch64, riscv64, x86_64
from pydispatch.link.elf.machines.relocation import Machine
from pydispatch.link.elf.relocate import RelocationPlan, applied
from pydispatch.link.elf.resolve import Labelled, load, reachable

MACHINES: dict[str, Machine] = {
    "x86_64": x86_64.MACHINE,
    "aarch64": aarch64.MACHINE,
    "riscv64": riscv64.MACHINE,
}
"""Name of an architecture, the `arch` of link() -> its page size and rules of relocation."""
VERSION = 1
"""Version of the linker's output; it is incremented when the same objects give other bytes, to invalidate caches."""

_SYMBOL_BYTES = 24
"""Size of an entry of a symbol table, Elf64_Sym. The first entry of each table is null."""
_RELA_BYTES = 24
"""Size of a relocation with addend, Elf64_Rela."""
_NOW, _NOW_1 = 8, 1  # DF_BIND_NOW, DF_1_NOW
_READ, _WRITE, _EXEC = reader.PF_READ, reader.PF_WRITE, reader.PF_EXEC


def link(objects: Sequence[Labelled], lazy: Sequence[Labelled], exports: Sequence[str], arch: str) -> bytes:
    """Link relocatable objects into a shared object; the same inputs always give the same bytes.

    Args:
        objects: Pairs (label for messages, bytes) of relocatable objects, and of archives, whose members are loaded
            only if they define an undefined symbol.
        lazy: Pairs (label for messages, bytes) of objects that are loaded only if they define an undefined symbol.
        exports: Names of the exported symbols.
        arch: Key of MACHINES.

    Raises:
        UndefinedError: A symbol has no definition.
        UnsupportedError: The objects need a feature that only a complete linker such as ld.lld has.
        LinkError: An object is broken, or a symbol is defined twice.
    """
    # Which sections and symbols are in the output, and which tables the relocations need.
    machine = MACHINES[arch]
    loaded, names = load(objects, lazy, exports, machine.number)
    parts = reachable(loaded, names, exports)
    plan = RelocationPlan(parts, machine)
    exported = [names.symbol(name) for name in sorted(exports)]
    # The layout: output sections in segments, with their final addresses.
    segments = _segments(output_sections_of(parts), plan, [symbol.name for symbol in exported])
    header_count = len(segments) + 3  # and those of PT_DYNAMIC, PT_GNU_RELRO and PT_GNU_STACK
    end = assign_addresses(segments, header_count, machine.page)
    sections = [section for segment in segments for section in segment.sections]
    # The contents. numbers: input section → number of its output section; number 0 is the null section.
    numbers = {part: index for index, section in enumerate(sections, 1) for part in section.parts}
    _fill(sections, plan, exported, numbers)
    # The symbol table for debuggers, .symtab, and the file.
    local = [symbol for obj in loaded for symbol in obj.symbols if symbol.binding == reader.LOCAL]
    # Symbols that are global in the objects and not exported become local in the result.
    local += [symbol for symbol in names.symbols.values() if symbol.name not in exports]
    all_sections = [*sections, *_symbols([symbol for symbol in local if _is_named(symbol)], exported, numbers)]
    return file_bytes(machine.number, machine.flags, _headers(segments, sections, machine.page), all_sections, end)


def _segments(own: dict[str, OutputSection], plan: RelocationPlan, exports: Sequence[str]) -> list[OutputSegment]:
    """Return the segments of the output: read-only with code, RELRO, and variables if there are any.

    Tables for the dynamic linker are created with their final sizes; their contents are filled in by _fill().

    Args:
        own: Output sections that hold input sections, by name (".text"); those without any are left out.
        plan: Number of the relocations that remain for the dynamic linker, and entries of the global offset table.
        exports: Names of the exported symbols.
    """

    def non_empty(*names: str) -> list[OutputSection]:
        """Return the output sections of these names that hold input sections."""
        return [own[name] for name in names if own[name].parts]

    read_only = [*_symbol_tables(exports), *_relocation_table(plan), *non_empty(".rodata", ".text")]
    relocated = non_empty(".data.rel.ro", ".init_array", ".fini_array")
    array_count = sum(section.name.endswith("_array") for section in relocated)
    relocated += [_dynamic_section(plan, array_count), *_global_offset_table(plan)]
    segments = [OutputSegment(_READ | _EXEC, read_only), OutputSegment(_READ | _WRITE, relocated)]
    variables = non_empty(".data", ".bss")
    if variables:
        segments.append(OutputSegment(_READ | _WRITE, variables))
    return segments


def _symbol_tables(exports: Sequence[str]) -> list[OutputSection]:
    """Create the sections by which the dynamic linker finds the exported symbols: symbols, hash table and names."""
    texts = b"\0" + b"".join(name.encode() + b"\0" for name in exports)
    return [
        OutputSection(
            name=".dynsym",
            kind=reader.SHT_DYNSYM,
            flags=reader.SHF_ALLOC,
            alignment=8,
            entry_size=_SYMBOL_BYTES,
            link=".dynstr",
            info=1,  # index of the first global symbol: only the null symbol precedes
            size=_SYMBOL_BYTES * (len(exports) + 1),
        ),
        OutputSection(
            name=".hash",
            kind=reader.SHT_HASH,
            flags=reader.SHF_ALLOC,
            alignment=8,
            entry_size=4,
            link=".dynsym",
            info=0,
            size=4 * (4 + len(exports)),  # two words of header, one bucket, a chain of all symbols with the null symbol
        ),
        OutputSection(
            ".dynstr", reader.SHT_STRTAB, flags=reader.SHF_ALLOC, alignment=1, size=len(texts), content=texts
        ),
    ]


def _relocation_table(plan: RelocationPlan) -> list[OutputSection]:
    """Create .rela.dyn, the relocations that remain for the dynamic linker; return no section if there are none."""
    if not plan.relative_relocation_count:
        return []
    return [
        OutputSection(
            name=".rela.dyn",
            kind=reader.SHT_RELA,
            flags=reader.SHF_ALLOC,
            alignment=8,
            entry_size=_RELA_BYTES,
            link=".dynsym",
            size=_RELA_BYTES * plan.relative_relocation_count,
        )
    ]


def _dynamic_section(plan: RelocationPlan, array_count: int) -> OutputSection:
    """Create .dynamic, with room for the entries of _dynamic(). array_count: sections .init_array and .fini_array."""
    entry_count = 2 + 5 + 2 * array_count + 1  # flags; symbols, strings and hash; two per array; DT_NULL
    if plan.relative_relocation_count:
        entry_count += 4  # those of .rela.dyn
    return OutputSection(
        name=".dynamic",
        kind=reader.SHT_DYNAMIC,
        flags=reader.SHF_ALLOC | reader.SHF_WRITE,
        alignment=8,
        entry_size=16,
        link=".dynstr",
        size=16 * entry_count,
    )


def _global_offset_table(plan: RelocationPlan) -> list[OutputSection]:
    """Create .got, the addresses that code loads instead of computing them; return no section if there are none."""
    if not plan.entries:
        return []
    return [
        OutputSection(
            name=".got",
            kind=reader.SHT_PROGBITS,
            flags=reader.SHF_ALLOC | reader.SHF_WRITE,
            alignment=8,
            entry_size=8,
            size=8 * len(plan.entries),
        )
    ]


def _fill(
    sections: Sequence[OutputSection],
    plan: RelocationPlan,
    exported: Sequence[LinkSymbol],
    numbers: dict[InputSection, int],
) -> None:
    """Fill in the contents of all sections, whose addresses are already assigned.

    Only .dynstr has its content before. Relocation fills the sections that hold input sections, and the GOT.

    Args:
        sections: Loaded sections of the output, in file order.
        plan: Number of the relocations that remain for the dynamic linker, and entries of the global offset table.
        exported: Exported symbols, in the order of .dynstr.
        numbers: Section of an input → number of the output section that contains it.
    """
    by_name = {section.name: section for section in sections}
    # Without GOT entries the output has no .got; an empty section stands for it.
    table = by_name.get(".got") or OutputSection(".got", reader.SHT_PROGBITS, flags=0)
    relocations = applied([section for section in sections if section.parts], plan, table)
    if plan.relative_relocation_count:
        by_name[".rela.dyn"].content = relocations
    # Offset of each name in .dynstr. The zero bytes around it exclude ends of longer names.
    texts = by_name[".dynstr"].content
    offsets = [bytes(texts).index(b"\0" + symbol.name.encode() + b"\0") + 1 for symbol in exported]
    by_name[".dynsym"].content = _entries(zip(offsets, exported, strict=True), numbers, reader.GLOBAL)
    # DT_HASH: number of buckets, number of symbols, one bucket that starts at symbol 1, and the chain: the entry of a
    # symbol is the next symbol, 0 for the last. The chain of three exports is [0, 2, 3, 0]; its first entry is for the
    # null symbol.
    symbol_count = len(exported) + 1
    chain = [0, *range(2, symbol_count), 0][:symbol_count]
    first_symbol = 1 if exported else 0
    by_name[".hash"].content = struct.pack(f"<{3 + symbol_count}I", 1, symbol_count, first_symbol, *chain)
    by_name[".dynamic"].content = _dynamic(by_name, plan)


def _dynamic(by_name: dict[str, OutputSection], plan: RelocationPlan) -> bytes:
    """Return the contents of .dynamic: tags and values of 8 bytes each, terminated by DT_NULL.

    by_name: the loaded sections, with their final addresses and sizes.
    """

    def address(name: str) -> int:
        """Return the virtual address of the output section `name`."""
        return by_name[name].address

    # Symbols are bound when the library is loaded, not at their first use.
    pairs = [(reader.DT_FLAGS, _NOW), (reader.DT_FLAGS_1, _NOW_1)]
    if plan.relative_relocation_count:
        count = plan.relative_relocation_count
        pairs += [(reader.DT_RELA, address(".rela.dyn")), (reader.DT_RELASZ, _RELA_BYTES * count)]
        pairs += [(reader.DT_RELAENT, _RELA_BYTES), (reader.DT_RELACOUNT, count)]
    pairs += [(reader.DT_SYMTAB, address(".dynsym")), (reader.DT_SYMENT, _SYMBOL_BYTES)]
    pairs += [(reader.DT_STRTAB, address(".dynstr")), (reader.DT_STRSZ, by_name[".dynstr"].size)]
    pairs.append((reader.DT_HASH, address(".hash")))
    for name, tag, size in ((".init_array", reader.DT_INIT_ARRAY, reader.DT_INIT_ARRAYSZ),
                            (".fini_array", reader.DT_FINI_ARRAY, reader.DT_FINI_ARRAYSZ)):  # fmt: skip
        if name in by_name:
            pairs += [(tag, address(name)), (size, by_name[name].size)]
    return b"".join(struct.pack("<QQ", tag, value) for tag, value in [*pairs, (0, 0)])


def _headers(segments: Sequence[OutputSegment], sections: Sequence[OutputSection], page: int) -> list[bytes]:
    """Return the encoded program headers: PT_LOAD per segment, PT_DYNAMIC, PT_GNU_RELRO, PT_GNU_STACK (not
    executable).

    RELRO, which the loader makes read-only after relocation, extends to the end of its last page.
    """
    # The order of _segments(); `variables` has the writable segment, or nothing.
    code, relocated, *variables = segments
    dynamic = [section for section in sections if section.name == ".dynamic"]
    headers = [code.header(reader.PT_LOAD, page), relocated.header(reader.PT_LOAD, page, round_end_to=page)]
    headers += [segment.header(reader.PT_LOAD, page) for segment in variables]
    headers.append(OutputSegment(relocated.access, dynamic).header(reader.PT_DYNAMIC, alignment=8))
    relro = OutputSegment(_READ, relocated.sections)  # after relocation
    headers.append(relro.header(reader.PT_GNU_RELRO, 1, round_end_to=page))
    headers.append(struct.pack("<IIQQQQQQ", reader.PT_GNU_STACK, _READ | _WRITE, 0, 0, 0, 0, 0, 0))
    return headers


def _is_named(symbol: LinkSymbol) -> bool:
    """Return whether a symbol belongs in .symtab for debuggers and profilers.

    These are functions and objects at an address, except for names that compilers generate (`.L`).
    """
    has_address = symbol.part is not None and symbol.part.address >= 0
    return has_address and symbol.kind in (reader.STT_FUNCTION, reader.STT_OBJECT) and symbol.name[:2] != ".L"


def _symbols(
    local: Sequence[LinkSymbol], exported: Sequence[LinkSymbol], numbers: dict[InputSection, int]
) -> list[OutputSection]:
    """Return the sections .symtab and .strtab, in which local symbols precede global ones as ELF requires.

    local, exported: symbols with an address. numbers: section of an input → number of the output section.
    """
    texts = bytearray(b"\0")
    entries = []  # pairs (offset of the name in .strtab, symbol)
    for symbol in (*local, *exported):
        entries.append((len(texts), symbol))
        texts += symbol.name.encode() + b"\0"
    local_count = len(local)
    globals_with_null = _entries(entries[local_count:], numbers, reader.GLOBAL)
    # One null entry is enough, in the local symbols.
    table = _entries(entries[:local_count], numbers, reader.LOCAL) + globals_with_null[_SYMBOL_BYTES:]
    return [
        OutputSection(
            name=".symtab",
            kind=reader.SHT_SYMTAB,
            flags=0,
            alignment=8,
            entry_size=_SYMBOL_BYTES,
            link=".strtab",
            info=local_count + 1,  # index of the first global symbol: the null entry precedes the local ones
            size=len(table),
            content=table,
        ),
        OutputSection(".strtab", reader.SHT_STRTAB, flags=0, alignment=1, size=len(texts), content=texts),
    ]


def _entries(symbols: Iterable[tuple[int, LinkSymbol]], numbers: dict[InputSection, int], binding: int) -> bytes:
    """Encode symbols as a symbol table, which starts with the null entry.

    Args:
        symbols: Pairs (offset of the name in the table of names, symbol).
        numbers: Section of an input → number of the output section that contains it.
        binding: Binding of all of them: local or global.
    """
    table = bytearray(_SYMBOL_BYTES)
    for offset, symbol in symbols:
        assert symbol.part is not None
        # st_info: binding in the upper four bits, type in the lower; st_other 0: default visibility.
        section, info = numbers[symbol.part], binding << 4 | symbol.kind
        table += struct.pack("<IBBHQQ", offset, info, 0, section, symbol.address, symbol.size)
    return bytes(table)
