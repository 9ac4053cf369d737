"""Relocations of the ELF ABI for the Arm 64-bit architecture."""

from __future__ import annotations

from pydispatch.link.elf.machines.relocation import BitField, Formula, Machine, Rule, fields, nothing, word

_ADR = (BitField(0, 2, 29), BitField(2, 19, 5))
"""Immediate fields of ADR and ADRP."""


def _page(content: bytearray, offset: int, value: int) -> None:
    """Encode a distance between pages, in bytes, into ADRP, which counts pages of 4096 bytes."""
    _put_page(content, offset, value >> 12)


_put_page = fields("I", 21, _ADR)
"""Encoder of a signed number of pages of 4096 bytes into the 21 bits of ADRP."""


def _low(scale: int) -> Rule:
    """Return the rule of a load or store whose 12-bit immediate is the offset in a page of 4096 bytes.

    The immediate counts units of 1 << scale bytes: 3 for the offset 24 of a load of 8 bytes, whose scale is 3.
    """
    offset_field = BitField(low=scale, width=12 - scale, at=10)
    put = fields("I", bits=12, parts=(offset_field,), scale=scale, signed=False)
    name = f"R_AARCH64_LDST{8 << scale}_ABS_LO12_NC"
    return Rule(name, Formula.LOW, lambda content, offset, value: put(content, offset, value & 0xFFF))


_add = fields("I", 12, (BitField(0, 12, 10),), signed=False)
"""Encoder of the 12-bit immediate of ADD."""
_load = fields("I", 12, (BitField(3, 9, 10),), scale=3, signed=False)
"""Encoder of the 12-bit offset of an LDR of 64 bits, which counts units of 8 bytes."""

MACHINE = Machine(
    number=183,
    page=65536,
    relative=1027,
    rules={
        0: Rule("R_AARCH64_NONE", Formula.NOTHING, nothing),
        257: Rule("R_AARCH64_ABS64", Formula.ADDRESS, word("Q")),
        260: Rule("R_AARCH64_PREL64", Formula.RELATIVE, word("q")),
        261: Rule("R_AARCH64_PREL32", Formula.RELATIVE, word("i")),
        273: Rule("R_AARCH64_LD_PREL_LO19", Formula.RELATIVE, fields("I", 21, (BitField(2, 19, 5),), scale=2)),
        274: Rule("R_AARCH64_ADR_PREL_LO21", Formula.RELATIVE, fields("I", 21, _ADR)),
        275: Rule("R_AARCH64_ADR_PREL_PG_HI21", Formula.PAGES, _page),
        276: Rule("R_AARCH64_ADR_PREL_PG_HI21_NC", Formula.PAGES, _page),
        277: Rule("R_AARCH64_ADD_ABS_LO12_NC", Formula.LOW, lambda c, offset, value: _add(c, offset, value & 0xFFF)),
        278: _low(0),
        279: Rule("R_AARCH64_TSTBR14", Formula.RELATIVE, fields("I", 16, (BitField(2, 14, 5),), scale=2)),
        280: Rule("R_AARCH64_CONDBR19", Formula.RELATIVE, fields("I", 21, (BitField(2, 19, 5),), scale=2)),
        282: Rule("R_AARCH64_JUMP26", Formula.RELATIVE, fields("I", 28, (BitField(2, 26, 0),), scale=2)),
        283: Rule("R_AARCH64_CALL26", Formula.RELATIVE, fields("I", 28, (BitField(2, 26, 0),), scale=2)),
        284: _low(1),
        285: _low(2),
        286: _low(3),
        299: _low(4),
        311: Rule("R_AARCH64_ADR_GOT_PAGE", Formula.ENTRY_PAGES, _page),
        312: Rule(
            "R_AARCH64_LD64_GOT_LO12_NC", Formula.ENTRY_LOW, lambda c, offset, value: _load(c, offset, value & 0xFFF)
        ),
        314: Rule("R_AARCH64_PLT32", Formula.RELATIVE, word("i")),
    },
)
"""ELF machine EM_AARCH64: R_AARCH64_RELATIVE is 1027; the keys of `rules` are types of relocations in the ABI."""
