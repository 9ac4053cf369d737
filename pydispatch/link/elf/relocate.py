"""Relocations: those that are computed here, and those that the loader adds its base to."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from functools import partial

from pydispatch.formats.elf import reader
from pydispatch.link.elf.image import OutputSection
from pydispatch.link.elf.inputs import InputSection, LinkError, LinkSymbol, Relocation, UnsupportedError
from pydispatch.link.elf.machines.relocation import Formula, Machine, Rule

_GOT_FORMULAS = (Formula.ENTRY, Formula.ENTRY_PAGES, Formula.ENTRY_LOW)
"""Formulas that use the address of a symbol's entry in the global offset table."""
_PAGE = 4096
"""Page size in bytes of instruction pairs that compute an address as page and offset (AArch64 ADRP)."""


class RelocationPlan:
    """GOT entries and load-time relocations that the input sections need, counted before addresses are assigned.

    A link creates one to determine the sizes of .got and .rela.dyn. applied() uses it after addresses are assigned.

    Attributes:
        machine: Description of the machine: its relocation types.
        entries: Symbols with an entry in the global offset table (GOT) → offset of that entry in bytes.
        relative_relocation_count: Number of words to which the loader adds its base.
    """

    def __init__(self, parts: Iterable[InputSection], machine: Machine) -> None:
        """Collect what the input sections `parts` need, and relax loads from the GOT in their contents if possible."""
        self.machine = machine
        self.entries: dict[LinkSymbol, int] = {}
        self.relative_relocation_count = 0
        for part in parts:
            content = bytearray(part.content)
            for relocation in part.relocations:
                self._collect_requirements(part, content, relocation)
            part.content = bytes(content)
        # The loader adds its base to GOT entries of defined symbols, too: they hold addresses.
        self.relative_relocation_count += sum(symbol.part is not None for symbol in self.entries)

    def _collect_requirements(self, part: InputSection, content: bytearray, relocation: Relocation) -> None:
        """Count what one relocation needs: a GOT entry, a load-time relocation, or nothing.

        Args:
            part: The section of the relocation.
            content: Its bytes. A load from the GOT may be relaxed in them: on x86-64, `mov f@GOTPCREL(%rip), %rax`
                becomes `lea f(%rip), %rax`, which needs no GOT entry.
            relocation: The relocation.

        Raises:
            LinkError: An absolute address is stored in read-only memory.
            UnsupportedError: The type of the relocation is not supported, or the target is weak and undefined and the
                field is neither an absolute address nor a reference to the GOT.
        """
        rule, symbol = self.rule(part, relocation), relocation.symbol
        if rule.formula in _GOT_FORMULAS and not self._try_relax(part, content, relocation):
            self.entries.setdefault(symbol, 8 * len(self.entries))  # each entry has 8 bytes
        elif rule.formula is Formula.ADDRESS and symbol.part is not None:  # the loader adds its base to the address
            if not part.flags & reader.SHF_WRITE:
                raise LinkError(
                    f"{part.owner}: {rule.name} in {part.name} writes an address into memory that cannot be written; "
                    "compile it with -fPIC"
                )
            self.relative_relocation_count += 1
        # A weak symbol without a definition has address 0, which can be stored (ADDRESS) or loaded from the GOT. Code
        # that computes the address relative to itself would get the load base instead.
        elif symbol.part is None and rule.formula not in (Formula.NOTHING, Formula.ADDRESS, *_GOT_FORMULAS):
            raise UnsupportedError(f"{part.owner}: {rule.name} to '{symbol.name}', which is weak and undefined")

    def _try_relax(self, part: InputSection, content: bytearray, relocation: Relocation) -> bool:
        """Replace the load of an address from the GOT by an instruction that computes the address; return whether that
        was possible.

        On x86-64, `mov f@GOTPCREL(%rip), %rax` becomes `lea f(%rip), %rax`, and the relocation becomes R_X86_64_PC32 to
        f, so that f needs no GOT entry for it. An undefined symbol has no address relative to the code.

        Args:
            part: The section of the relocation, in whose `relocations` it is replaced.
            content: Bytes of the section, in which the instruction is replaced.
            relocation: The relocation, of a type that uses the GOT.
        """
        if relocation.symbol.part is None or not self.machine.shorten(content, relocation.offset, relocation.kind):
            return False
        relocations = part.relocations
        relocations[relocations.index(relocation)] = relocation._replace(kind=_pc_relative_type(self.machine))
        return True

    def rule(self, part: InputSection, relocation: Relocation) -> Rule:
        """Return the rule of a relocation's type; raise UnsupportedError if the machine description has none."""
        rule = self.machine.rules.get(relocation.kind)
        if rule is None:
            raise UnsupportedError(f"{part.owner}: relocation {relocation.kind} in {part.name}")
        return rule


def _pc_relative_type(machine: Machine) -> int:
    """Return the type of relocation that replaces a relaxed GOT relocation: the machine's first PC-relative one.

    On x86-64, the only machine with such relaxation, this is R_X86_64_PC32.
    """
    return next(kind for kind, rule in machine.rules.items() if rule.formula is Formula.RELATIVE)


def applied(sections: Sequence[OutputSection], plan: RelocationPlan, table: OutputSection) -> bytes:
    """Apply the relocations: fill in the contents of the sections and of the global offset table.

    Args:
        sections: Output sections that hold input sections, with their addresses.
        plan: GOT entries and number of load-time relocations.
        table: The section of the global offset table (GOT).

    Returns:
        The encoded relocations for the loader, sorted by address.

    Raises:
        LinkError: A value does not fit into its field.
    """
    relative_relocations: list[tuple[int, int]] = []  # (address, value) of words to which the loader adds its base
    for section in sections:
        content = bytearray(section.size if section.kind != reader.SHT_NOBITS else 0)
        for part in section.parts:
            at = part.address - section.address
            if part.content:  # else the section is all zeros (.bss)
                relocated = _relocated(part, plan, table.address, relative_relocations)
                content[at : at + part.size] = relocated.ljust(part.size, b"\0")
        section.content = content
    words = bytearray(table.size)
    for symbol, offset in plan.entries.items():
        struct.pack_into("<Q", words, offset, symbol.address)
        if symbol.part is not None:  # else a weak symbol without a definition, whose address stays 0
            relative_relocations.append((table.address + offset, symbol.address))
    table.content = words
    kind = plan.machine.relative
    # Elf64_Rela: address of the word, type (symbol index 0), addend.
    return b"".join(struct.pack("<QQq", place, kind, value) for place, value in sorted(relative_relocations))


def _relocated(
    part: InputSection, plan: RelocationPlan, got_address: int, relative_relocations: list[tuple[int, int]]
) -> bytearray:
    """Return an input section's content with its relocations applied.

    On RISC-V, a pair of instructions computes an address, and each has one half of a distance D:

        .L1: auipc a0, %pcrel_hi(x)         # R_RISCV_PCREL_HI20 to x: upper 20 bits of D = x - .L1
             addi  a0, a0, %pcrel_lo(.L1)   # R_RISCV_PCREL_LO12_I to .L1: lower 12 bits of the same D

    The relocation of the low half refers to the high half's address, so low halves are encoded after all high halves.

    Args:
        part: The input section, whose address is final.
        plan: GOT entries and relocation rules.
        got_address: Address of the GOT.
        relative_relocations: List to which a pair (address, value) is appended for each word of the section to which
            the loader adds its base.
    """
    content = bytearray(part.content)
    pc_relative_values: dict[int, int] = {}  # address of a PC-relative field, which may be a high half → its value
    low_halves = []  # (function that encodes a low half, address of its high half)
    for relocation in part.relocations:
        rule = plan.rule(part, relocation)
        field, target = part.address + relocation.offset, relocation.symbol.address + relocation.addend
        if rule.formula in _GOT_FORMULAS:
            entry = got_address + plan.entries[relocation.symbol]
            value = _value(rule.formula, entry + relocation.addend, field)
        else:
            value = _value(rule.formula, target, field)
        if rule.formula in (Formula.RELATIVE, Formula.ENTRY):
            pc_relative_values[field] = value
        elif rule.formula is Formula.ADDRESS and relocation.symbol.part is not None:
            relative_relocations.append((field, target))
        put = partial(_put, part, rule, content, relocation)
        if rule.formula is Formula.LOW_OF_PAIR:
            low_halves.append((put, target))
        else:
            put(value)
    # The value of a low half is that of the high half to whose address it refers.
    for put, high_half in low_halves:
        if high_half not in pc_relative_values:
            raise LinkError(f"{part.owner}: half of an address in {part.name} has no other half")
        put(pc_relative_values[high_half])
    return content


def _value(formula: Formula, target: int, field: int) -> int:
    """Return the value of a relocation: an address, or the distance of two addresses or of the pages that contain them.

    target: address of the symbol or of its GOT entry, plus the addend. field: address of the relocated field.
    """
    if formula in (Formula.RELATIVE, Formula.ENTRY):
        return target - field
    if formula in (Formula.PAGES, Formula.ENTRY_PAGES):
        return target // _PAGE * _PAGE - field // _PAGE * _PAGE
    return target


def _put(part: InputSection, rule: Rule, content: bytearray, relocation: Relocation, value: int) -> None:
    """Encode the value of a relocation in `content`, the bytes of the input section `part`.

    Raises UnsupportedError if the value does not fit, LinkError if the field is outside the section.
    """
    try:
        rule.put(content, relocation.offset, value)
    except ValueError as error:
        raise UnsupportedError(
            f"{part.owner}: {rule.name} to '{relocation.symbol.name}' in {part.name} does not fit: {error}"
        ) from None
    except struct.error:
        raise LinkError(f"{part.owner}: {rule.name} at {relocation.offset:#x} is outside {part.name}") from None
