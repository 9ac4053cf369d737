"""Descriptions of relocations by formula and encoding.

Formulas use the terms of the ABIs: S is the address of the symbol, A the addend, P the address of the relocated field,
G the address of the symbol's entry in the global offset table (GOT).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple

Put = Callable[[bytearray, int, int], None]
"""Function (content, offset, value) that encodes a value in the bytes of a section at an offset. Raises ValueError with
the reason if the value does not fit, struct.error if the bytes are outside of the section."""


class Formula(Enum):
    """Formula of the value that a relocation stores.

    S is the address of the symbol, A the addend, P the address of the relocated field, and G the address of the
    symbol's entry in the global offset table (GOT).
    """

    NOTHING = auto()  # no value is stored
    ADDRESS = auto()  # S + A, to which the loader adds the load base
    LOW = auto()  # S + A, of which only the bits within a page are used
    RELATIVE = auto()  # S + A - P
    PAGES = auto()  # the page of S + A minus the page of P
    ENTRY = auto()  # G + A - P
    ENTRY_PAGES = auto()  # the page of G + A minus the page of P
    ENTRY_LOW = auto()  # G + A, of which only the bits within a page are used
    LOW_OF_PAIR = auto()  # the value of the relocation at address S + A, of which only the low bits are used
    SUM = auto()  # S + A, which is added to the stored number, subtracted from it, or replaces it


@dataclass(frozen=True)
class Rule:
    """Relocation type of a machine, as the linker applies it.

    Attributes:
        name: Its name in the ABI, such as "R_X86_64_PC32".
        formula: How its value is computed from symbol, addend and address of the field.
        put: Function that checks the value and encodes it in the section.
    """

    name: str
    formula: Formula
    put: Put


@dataclass(frozen=True)
class Machine:
    """Machine description for the linker.

    Attributes:
        number: Number of the machine in ELF headers (e_machine).
        page: Largest page size of any system with this machine, in bytes.
        relative: Type of the relocation that adds the load base (R_*_RELATIVE).
        rules: Type of a relocation, its number in the ABI → how to apply it, for the supported relocations.
        flags: Processor-specific flags of ELF headers (e_flags).
        shorten: Function (content, offset, relocation type) that replaces a load of an address from the GOT by an
            instruction that computes the address (GOT relaxation). Returns False if it cannot.
    """

    number: int
    page: int
    relative: int
    rules: dict[int, Rule]
    flags: int = 0
    shorten: Callable[[bytearray, int, int], bool] = lambda content, offset, relocation_type: False


def nothing(content: bytearray, offset: int, value: int) -> None:
    """Leave the bytes unchanged: the encoding of a relocation type without a field."""


def word(layout: str) -> Put:
    """Return a function that stores a value as a little-endian integer of the `struct` format `layout`, such as "Q".

    It raises ValueError if the value does not fit.
    """

    def put(content: bytearray, offset: int, value: int) -> None:
        """Store a value in the format `layout` at an offset; raise ValueError if it does not fit."""
        try:
            encoded = struct.pack("<" + layout, value)
        except struct.error as error:
            raise ValueError(str(error)) from None
        struct.pack_into(f"{len(encoded)}s", content, offset, encoded)

    return put


class BitField(NamedTuple):
    """Bits of a value that are stored as a field of an instruction.

    Attributes:
        low: Number of the field's lowest bit in the value.
        width: Number of bits.
        at: Number of the field's lowest bit in the instruction.
    """

    low: int
    width: int
    at: int

    @property
    def mask(self) -> int:
        """Bits of the instruction that the field occupies."""
        return ((1 << self.width) - 1) << self.at

    def encode(self, value: int) -> int:
        """Return the field of the instruction for a value; all other bits are 0."""
        return ((value >> self.low) << self.at) & self.mask


def fields(layout: str, bits: int, parts: Sequence[BitField], scale: int = 0, signed: bool = True) -> Put:
    """Return a function that encodes a value into the immediate fields of an instruction.

    Example:
        # Distance of the AArch64 branch TBZ: 16 bits, signed, a multiple of 4 bytes.
        fields("I", 16, (BitField(low=2, width=14, at=5),), scale=2)

    encodes 8 as 8 >> 2 << 5, in bits 5 to 18 of the instruction. It refuses 6, and 1 << 15.

    Args:
        layout: `struct` format of the little-endian instruction, such as "I".
        bits: Number of bits of the value, with its low bits that are not stored.
        parts: The fields. Together they store all bits of the value but the low ones that must be zero.
        scale: Number of low bits of the value that must be zero.
        signed: Whether the value must fit a signed number of `bits` bits; else its high bits are ignored.

    Returns:
        A function that raises ValueError if the value does not fit or is misaligned.
    """
    immediate_mask = sum(part.mask for part in parts)  # bits of the instruction that the fields occupy

    def put(content: bytearray, offset: int, value: int) -> None:
        """Store a value in the fields `parts` of the instruction at an offset, of the `struct` format `layout`.

        Raises ValueError if the value is not a multiple of 2**scale, or `signed` and too large for `bits` bits. The
        high bits of a value that is not `signed` are dropped on purpose: another instruction has them.
        """
        limit = 1 << (bits - 1)
        if signed and not -limit <= value < limit:
            raise ValueError(f"{value:#x} has more than {bits} bits")
        if value % (1 << scale) != 0:
            raise ValueError(f"{value:#x} is no multiple of {1 << scale}")
        (instruction,) = struct.unpack_from("<" + layout, content, offset)
        immediates = sum(part.encode(value) for part in parts)
        struct.pack_into("<" + layout, content, offset, (instruction & ~immediate_mask) | immediates)

    return put
