"""Relocations of the System V ABI for AMD64."""

from __future__ import annotations

from pydispatch.link.elf.machines.relocation import Formula, Machine, Rule, nothing, word

_GOTPCRELX, _REX_GOTPCRELX = 41, 42
_MOV, _LEA = 0x8B, 0x8D


def _shorten(content: bytearray, offset: int, kind: int) -> bool:
    """Relax `mov symbol@GOTPCREL(%rip), register` to `lea symbol(%rip), register`; return False for other
    instructions.

    offset: that of the relocated field, which follows the opcode and the ModRM byte. kind: type of the relocation.
    """
    if kind not in (_GOTPCRELX, _REX_GOTPCRELX) or offset < 2 or content[offset - 2] != _MOV:
        return False
    content[offset - 2] = _LEA
    return True


MACHINE = Machine(
    number=62,
    page=4096,
    relative=8,
    shorten=_shorten,
    rules={
        0: Rule("R_X86_64_NONE", Formula.NOTHING, nothing),
        1: Rule("R_X86_64_64", Formula.ADDRESS, word("Q")),
        2: Rule("R_X86_64_PC32", Formula.RELATIVE, word("i")),
        4: Rule("R_X86_64_PLT32", Formula.RELATIVE, word("i")),
        9: Rule("R_X86_64_GOTPCREL", Formula.ENTRY, word("i")),
        24: Rule("R_X86_64_PC64", Formula.RELATIVE, word("q")),
        _GOTPCRELX: Rule("R_X86_64_GOTPCRELX", Formula.ENTRY, word("i")),
        _REX_GOTPCRELX: Rule("R_X86_64_REX_GOTPCRELX", Formula.ENTRY, word("i")),
    },
)
"""ELF machine EM_X86_64: R_X86_64_RELATIVE is 8; the keys of `rules` are types of relocations in the ABI."""
