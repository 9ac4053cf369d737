"""Reads the producer of an LLVM bitcode file, without LLVM: a newer LLVM's file must be refused before ours parses
it."""

from __future__ import annotations

import re

MAGIC = b"BC\xc0\xde"
"""First bytes of a bitcode file."""
WRAPPER = b"\xde\xc0\x17\x0b"
"""First bytes of a bitcode file in the wrapper that compilers for Apple's systems add."""
_IDENTIFICATION = 13  # id of the identification block
_STRING = 1  # code of the record of the identification block that holds the producer's name
_CHAR6 = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._"
"""The 64 characters of LLVM's char6 encoding, in the order of their codes of 6 bits."""
_PREFIX = 4096  # bytes that are read: the identification block is the first one in a file, and short
_END, _ENTER, _DEFINE, _UNABBREVIATED = 0, 1, 2, 3
"""Abbreviation ids with a fixed meaning: end of the block, begin of an inner block, definition of an abbreviation, and
record without an abbreviation."""
_FIRST_ABBREVIATION = 4
"""Abbreviation id of the first abbreviation that a block defines."""
_LITERAL, _FIXED, _VBR, _ARRAY, _CHARACTER = 0, 1, 2, 3, 4
"""Encodings of an operand. The file has 1 to 4; a literal has a flag instead."""
_MAX_WIDTH_BITS = 64
"""Maximum width of a number in bits: wider ones are errors."""

_Operand = tuple[int, int]
"""Operand in the definition of an abbreviation: encoding, and value of a literal or width in bits of a number."""


class BitcodeError(ValueError):
    """The bytes are not a readable bitcode file."""


class _Bits:
    """A little-endian bit stream. `position` is the offset of the next bit that is read."""

    def __init__(self, data: bytes) -> None:
        """Begin at the first bit of `data`."""
        self._bits = int.from_bytes(data, "little")
        self._size = 8 * len(data)
        self.position = 0

    def fixed(self, width: int) -> int:
        """Read a number of `width` bits."""
        if self.position + width > self._size:
            raise BitcodeError("it ends early")
        value = (self._bits >> self.position) & ((1 << width) - 1)
        self.position += width
        return value

    def vbr(self, width: int) -> int:
        """Read a variable bit rate number, and return it: groups of `width` bits, lowest first.

        The highest bit of a group is set if another group follows; the other bits are of the number.
        """
        continues = 1 << (width - 1)  # mask of the highest bit
        value = shift = 0
        while True:
            group = self.fixed(width)
            value |= (group & (continues - 1)) << shift
            shift += width - 1
            if not group & continues:
                return value
            if shift > 64:  # integers of bitcode have at most 64 bits
                raise BitcodeError("a number in it has no end")

    def align(self) -> None:
        """Skip to the next word of 32 bits."""
        self.position = -(-self.position // 32) * 32


def is_bitcode(data: bytes) -> bool:
    """Return whether bytes begin as a bitcode file does, with or without a wrapper."""
    return data[:4] in (MAGIC, WRAPPER)


def payload(data: bytes) -> bytes:
    """Return the bitcode inside a file, without the wrapper that some compilers add. Raises BitcodeError."""
    if data[:4] == WRAPPER:
        if len(data) < 20:
            raise BitcodeError("its wrapper ends early")
        # The header is five words: magic number, version, offset and size of the bitcode in bytes, CPU.
        offset, size = (int.from_bytes(data[at : at + 4], "little") for at in (8, 12))
        if offset > len(data) or size > len(data) - offset:
            raise BitcodeError(f"its wrapper names {size} bytes at {offset}, the file has {len(data)}")
        data = data[offset : offset + size]
    if data[:4] != MAGIC:
        raise BitcodeError(f"it begins with {data[:4].hex(' ') or 'nothing'}, expected 42 43 c0 de")
    if len(data) % 4:
        raise BitcodeError(f"its {len(data)} bytes are not whole words")
    return data


def producer(data: bytes) -> str:
    """Return the producer stated in the file, such as 'LLVM22.1.8'; '' when absent. Raises BitcodeError."""
    bits = _Bits(payload(data)[4 : 4 + _PREFIX])
    if bits.fixed(2) != _ENTER:  # outside of blocks, abbreviation ids have 2 bits
        raise BitcodeError("no block follows its magic number")
    block, width = bits.vbr(8), bits.vbr(4)
    bits.align()
    bits.fixed(32)  # the length of the block
    if block != _IDENTIFICATION:
        return ""
    if not 2 <= width <= 32:
        raise BitcodeError("the width of its abbreviations is out of range")
    return _identification(bits, width)


def _identification(bits: _Bits, width: int) -> str:
    """Return the string of the identification block, the name of the producer such as "LLVM19.1.0"; '' if it has none.

    Each entry of a block of LLVM's bitstream begins with an id: the end of the block, the begin of an inner block, the
    definition of an abbreviation, a record without one, or a record of one of the abbreviations defined before.

    Raises BitcodeError for an inner block, and for an abbreviation that is not defined.

    bits: positioned after the head of the block. width: number of bits of an abbreviation id in this block.
    """
    abbreviations: list[list[_Operand]] = []
    while True:
        abbreviation_id = bits.fixed(width)
        if abbreviation_id == _END:
            return ""
        if abbreviation_id == _ENTER:
            raise BitcodeError("a block inside its identification")
        if abbreviation_id == _DEFINE:
            abbreviations.append(_abbreviation(bits))
            continue
        if abbreviation_id == _UNABBREVIATED:
            code, *values = _unabbreviated_record(bits)
        else:
            index = abbreviation_id - _FIRST_ABBREVIATION
            if index >= len(abbreviations):
                raise BitcodeError("a record of it uses an abbreviation that is not defined")
            code, *values = _record(bits, abbreviations[index])
        if code == _STRING:
            return "".join(chr(value) for value in values if value < 128)  # producers write ASCII


def _unabbreviated_record(bits: _Bits) -> list[int]:
    """Read a record without an abbreviation, and return its code and its operands, at most `_PREFIX` of them."""
    code, count = bits.vbr(6), bits.vbr(6)
    return [code, *(bits.vbr(6) for _ in range(min(count, _PREFIX)))]  # a broken count takes no time


def _abbreviation(bits: _Bits) -> list[_Operand]:
    """Read the definition of an abbreviation, and return the encoding of each operand of its records."""
    operands: list[_Operand] = []
    operand_count = bits.vbr(5)  # in the widths that the format of LLVM's bitstream states, as all numbers below
    for _ in range(operand_count):
        is_literal = bits.fixed(1) == 1
        if is_literal:
            operands.append((_LITERAL, bits.vbr(8)))
        else:
            encoding = bits.fixed(3)
            width = bits.vbr(5) if encoding in (_FIXED, _VBR) else 0  # the others have none
            operands.append((encoding, width))
    return operands


def _record(bits: _Bits, operands: list[_Operand]) -> list[int]:
    """Read a record that uses an abbreviation, and return its code and then its operands.

    An abbreviation is a layout of records that a block of bitcode defines once: the encoding of each of their numbers.
    With the layout [(_LITERAL, 1), (_ARRAY, 0), (_CHARACTER, 0)], a record with the text "LLVM" is [1, 76, 76, 86, 77].
    Its code, 1, is part of the layout; the file has the length of the array, 4, and the characters in 6 bits each.

    At most `_PREFIX` elements of an array are read, so that a broken length takes no time and memory. After a longer
    array, the position is inside of it, and the records after it are misread. Valid files are not affected: names of
    producers are shorter than `_PREFIX`.

    Args:
        bits: The file, positioned after the id of the abbreviation.
        operands: Encodings of the code and the operands, as the abbreviation defines them. That of an array is followed
            by that of its elements.
    """
    values: list[int] = []
    remaining = iter(operands)
    for operand in remaining:
        if operand[0] != _ARRAY:
            values.append(_scalar(bits, operand))
            continue
        element = next(remaining, None)
        if element is None:
            raise BitcodeError("an array in it has no elements' type")
        values += [_scalar(bits, element) for _ in range(min(bits.vbr(6), _PREFIX))]
    if not values:
        raise BitcodeError("an empty record")
    return values


def _scalar(bits: _Bits, operand: _Operand) -> int:
    """Read an operand that is no array, and return its value: an integer, or the code of a character."""
    encoding, value = operand
    if encoding == _LITERAL:
        return value
    if encoding == _CHARACTER:
        return ord(_CHAR6[bits.fixed(6)])
    if encoding in (_FIXED, _VBR) and value <= _MAX_WIDTH_BITS:  # `value` is the width in bits
        if value == 0:
            return 0
        return bits.fixed(value) if encoding == _FIXED else bits.vbr(value)
    raise BitcodeError("an operand of an unknown kind")


def llvm_major(data: bytes) -> int | None:
    """Return the major version of the LLVM that wrote a file, None when not stated. Raises BitcodeError."""
    match = re.match(r"LLVM(\d+)", producer(data))
    return int(match[1]) if match else None
