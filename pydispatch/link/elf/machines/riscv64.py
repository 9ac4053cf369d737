"""Relocations of the RISC-V ELF psABI. Linker relaxation, which shortens instruction sequences, is not done: code is
correct without it. Objects whose alignment depends on it (R_RISCV_ALIGN) are rejected; they need a complete linker."""

from __future__ import annotations

import struct
from collections.abc import Callable

from pydispatch.link.elf.machines.relocation import BitField, Formula, Machine, Put, Rule, fields, nothing, word

_DOUBLE_FLOAT_AND_COMPRESSED = 0x5
"""Flags in the header, e_flags: the ABI that passes f64 in registers, and 16-bit instructions."""


def _high_20_bits(value: int) -> int:
    """Return the upper 20 bits of a 32-bit value, rounded to nearest.

    The second instruction of a pair adds the lower 12 bits as a signed number, -2048 to 2047. If it is negative, the
    upper 20 bits must be greater by 1: 0x1FFF is 2 << 12, plus -1.
    """
    return (value + 0x800) >> 12


_U = fields("I", 20, (BitField(0, 20, 12),))
"""Encoder of the upper 20 bits in a U-type instruction, such as `auipc`."""
_I = fields("I", 12, (BitField(0, 12, 20),), signed=False)
"""Encoder of the 12-bit immediate of an I-type instruction, such as a load or `jalr`."""
_S = fields("I", 12, (BitField(0, 5, 7), BitField(5, 7, 25)), signed=False)
"""Encoder of the 12-bit immediate of an S-type instruction (a store): bits 0 to 4 are stored from bit 7 on, bits 5 to
11 from bit 25 on."""


def _upper(content: bytearray, offset: int, value: int) -> None:
    """Encode the upper 20 bits of a value into an instruction such as `auipc`."""
    _U(content, offset, _high_20_bits(value))


def _call(content: bytearray, offset: int, value: int) -> None:
    """Encode a PC-relative offset into the pair of `auipc` and the `jalr` after it."""
    _upper(content, offset, value)
    _I(content, offset + 4, value)


def _in_place_update(layout: str, change: Callable[[int, int], int]) -> Put:
    """Return a function that replaces the stored number by `change(stored, value)`, modulo its width.

    layout: `struct` format of the number, such as "I".
    """
    bits = 8 * struct.calcsize("<" + layout)

    def put(content: bytearray, offset: int, value: int) -> None:
        """Replace the number of format `layout` at an offset by the low `bits` bits of `change(number, value)`."""
        (old,) = struct.unpack_from("<" + layout, content, offset)
        new = change(old, value) & ((1 << bits) - 1)
        struct.pack_into("<" + layout, content, offset, new)

    return put


def _symbol_difference_rules() -> dict[int, Rule]:
    """Return the rules R_RISCV_ADD*, R_RISCV_SUB* and R_RISCV_SET* by type.

    The ABI encodes a difference of two symbols as a pair: ADD of one symbol and SUB of the other at the same offset.
    Each rule replaces the number that is stored there, `old`, by a function of it and of the symbol's `value`.
    """
    rules = {}
    # The ABI numbers the types consecutively by width: ADD8 is 33, SUB8 is 37, SET8 is 54.
    for log2_bytes, layout in enumerate("BHIQ"):
        bits = 8 << log2_bytes
        rules[33 + log2_bytes] = Rule(
            f"R_RISCV_ADD{bits}", Formula.SUM, _in_place_update(layout, lambda old, value: old + value)
        )
        rules[37 + log2_bytes] = Rule(
            f"R_RISCV_SUB{bits}", Formula.SUM, _in_place_update(layout, lambda old, value: old - value)
        )
    for log2_bytes, layout in enumerate("BHI"):
        rules[54 + log2_bytes] = Rule(
            f"R_RISCV_SET{8 << log2_bytes}", Formula.SUM, _in_place_update(layout, lambda old, value: value)
        )
    return rules


# Each BitField is (lowest bit in the distance, number of bits, lowest bit in the instruction).
_BRANCH = (BitField(11, 1, 7), BitField(1, 4, 8), BitField(5, 6, 25), BitField(12, 1, 31))
"""Fields of the distance of a conditional branch (B-type)."""
_JAL = (
    BitField(low=12, width=8, at=12),
    BitField(low=11, width=1, at=20),
    BitField(low=1, width=10, at=21),
    BitField(low=20, width=1, at=31),
)
"""Fields of the distance of a jump (J-type): bits 12 to 19 of the distance are bits 12 to 19 of the instruction."""
_RVC_BRANCH = (BitField(5, 1, 2), BitField(1, 2, 3), BitField(6, 2, 5), BitField(3, 2, 10), BitField(8, 1, 12))
"""Fields of the distance of a 16-bit conditional branch (CB format)."""
_RVC_JUMP = (
    BitField(5, 1, 2),
    BitField(1, 3, 3),
    BitField(7, 1, 6),
    BitField(6, 1, 7),
    BitField(10, 1, 8),
    BitField(8, 2, 9),
    BitField(4, 1, 11),
    BitField(11, 1, 12),
)
"""Fields of the distance of a 16-bit jump (CJ format)."""

MACHINE = Machine(
    number=243,
    page=65536,
    relative=3,
    flags=_DOUBLE_FLOAT_AND_COMPRESSED,
    rules={
        0: Rule("R_RISCV_NONE", Formula.NOTHING, nothing),
        2: Rule("R_RISCV_64", Formula.ADDRESS, word("Q")),
        16: Rule("R_RISCV_BRANCH", Formula.RELATIVE, fields("I", 13, _BRANCH, scale=1)),
        17: Rule("R_RISCV_JAL", Formula.RELATIVE, fields("I", 21, _JAL, scale=1)),
        18: Rule("R_RISCV_CALL", Formula.RELATIVE, _call),
        19: Rule("R_RISCV_CALL_PLT", Formula.RELATIVE, _call),
        20: Rule("R_RISCV_GOT_HI20", Formula.ENTRY, _upper),
        23: Rule("R_RISCV_PCREL_HI20", Formula.RELATIVE, _upper),
        24: Rule("R_RISCV_PCREL_LO12_I", Formula.LOW_OF_PAIR, _I),
        25: Rule("R_RISCV_PCREL_LO12_S", Formula.LOW_OF_PAIR, _S),
        44: Rule("R_RISCV_RVC_BRANCH", Formula.RELATIVE, fields("H", 9, _RVC_BRANCH, scale=1)),
        45: Rule("R_RISCV_RVC_JUMP", Formula.RELATIVE, fields("H", 12, _RVC_JUMP, scale=1)),
        51: Rule("R_RISCV_RELAX", Formula.NOTHING, nothing),
        57: Rule("R_RISCV_32_PCREL", Formula.RELATIVE, word("i")),
        59: Rule("R_RISCV_PLT32", Formula.RELATIVE, word("i")),
        **_symbol_difference_rules(),
    },
)
"""ELF machine EM_RISCV: R_RISCV_RELATIVE is 3; the keys of `rules` are types of relocations in the ABI."""
