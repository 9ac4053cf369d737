"""Opcodes, buffer kinds and element types of host programs; docs/program.md is the format."""

from __future__ import annotations

from enum import IntEnum

MAGIC = 0x50584450
"""First word of a program: "PDXP" in little-endian bytes."""
VERSION = 3
"""Version of the format that is written."""
VERSIONS = (2, 3)
"""Versions of the format that are read."""
NONE = 0xFFFFFFFF
"""Stands for no register, buffer, function or other index."""
HIGH_WORD = 1 << 31
"""Added to a register in a dispatch's constants to pass its high 32 bits instead of the low ones."""


def both_words(register: int) -> list[int]:
    """Return the operands of a command that stand for the low and the high 32 bits of a register."""
    return [register, register | HIGH_WORD]


class Opcode(IntEnum):
    """Opcode of an instruction of a host function, with its operands. csrc/program/opcodes.h has the same numbers.

    Attributes:
        registers: Which operands are registers: `d` for the destination, then `a`, `b` and `c`. "" for commands
            (DISPATCH, FILL, COPY, CUSTOM), whose registers are in a record in the function's pool.
    """

    registers: str

    def __new__(cls, code: int, registers: str) -> Opcode:
        """Create the member whose integer value is `code`; each member below states `code, registers`."""
        member = int.__new__(cls, code)
        member._value_, member.registers = code, registers
        return member

    CONST = 1, "d"
    DIM = 2, "d"
    SCALAR = 3, "d"
    QUERY = 4, "d"
    VARIANT = 5, "d"
    SELECT = 6, "dabc"
    CHECK_EQ = 7, "ab"
    CHECK = 8, "a"
    ADD = 16, "dab"
    SUB = 17, "dab"
    MUL = 18, "dab"
    DIVS = 19, "dab"
    DIVU = 20, "dab"
    REMS = 21, "dab"
    REMU = 22, "dab"
    CEILDIVS = 23, "dab"
    CEILDIVU = 24, "dab"
    FLOORDIVS = 25, "dab"
    MINS = 26, "dab"
    MAXS = 27, "dab"
    MINU = 28, "dab"
    MAXU = 29, "dab"
    AND = 30, "dab"
    OR = 31, "dab"
    XOR = 32, "dab"
    SHL = 33, "dab"
    SHRS = 34, "dab"
    SHRU = 35, "dab"
    MODS = 36, "dab"
    NEG = 37, "da"
    CMP = 40, "dab"
    SEXT = 41, "da"
    ZEXT = 42, "da"
    FADD = 48, "dab"
    FSUB = 49, "dab"
    FMUL = 50, "dab"
    FDIV = 51, "dab"
    FREM = 52, "dab"
    FCMP = 53, "dab"
    FMIN = 54, "dab"
    FMAX = 55, "dab"
    FNEG = 56, "da"
    FCVT = 57, "da"
    SITOFP = 58, "da"
    UITOFP = 59, "da"
    FPTOSI = 60, "da"
    FPTOUI = 61, "da"
    FMATH = 62, "da"
    FPOW = 63, "dab"
    FATAN2 = 64, "dab"
    FCOPYSIGN = 65, "dab"
    FMINNUM = 66, "dab"
    FMAXNUM = 67, "dab"
    FMA = 68, "dabc"
    ABS = 69, "da"
    CTPOP = 70, "da"
    CTLZ = 71, "da"
    CTTZ = 72, "da"
    MULHS = 73, "dab"
    MULHU = 74, "dab"
    DISPATCH = 80, ""
    FILL = 81, ""
    COPY = 82, ""
    CUSTOM = 83, ""


OPCODES = {int(op): op for op in Opcode}
"""Number → opcode."""

MATH_FUNCTIONS = (
    "sqrt", "exp", "log", "floor", "ceil", "absf", "tanh", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh",
    "asinh", "acosh", "atanh", "erf", "erfc", "exp2", "expm1", "log2", "log10", "log1p", "cbrt", "rsqrt", "round",
    "roundeven", "trunc",
)  # fmt: skip
"""Functions that the opcode FMATH evaluates; its operand b is an index into this list."""


class BufferKind(IntEnum):
    """Kind of value that a buffer of a host function is: it determines who owns the memory."""

    ARGUMENT = 0
    RESULT = 1
    TRANSIENT = 2  # lives only during a call of the function
    CONSTANT = 3  # data of the program


class Access(IntEnum):
    """Access of a host command to an operand; the numbers are those of host_command.h."""

    READ = 1
    WRITE = 2
    READ_WRITE = 3

    @property
    def label(self) -> str:
        """Return the text that follows the operand's type in listings."""
        return {Access.READ: "", Access.WRITE: " written", Access.READ_WRITE: " updated"}[self]


class Numerical(IntEnum):
    """Kind of number of an element type, without its width: the high byte of a dtype word.

    The low three bytes of the word are the bits of an element (`dtype_word`): 0x21000020 is FLOAT with 32 bits, f32.
    Stored programs and the C API contain these numbers: they must not change.
    """

    INTEGER = 0x10  # signless, as in MLIR: the operation decides
    SIGNED = 0x11
    UNSIGNED = 0x12
    BOOLEAN = 0x13  # i1 in MLIR; 8 bits in memory
    FLOAT = 0x21  # IEEE 754
    BFLOAT = 0x22
    COMPLEX = 0x23
    # Formats with a fixed width, named as in MLIR: F8E5M2 has 8 bits, 5 of them exponent and 2 mantissa.
    F8E5M2 = 0x24
    F8E4M3FN = 0x25
    F8E5M2FNUZ = 0x26
    F8E4M3FNUZ = 0x27
    F8E8M0FNU = 0x28
    F8E4M3 = 0x29
    F8E3M4 = 0x2A
    F8E4M3B11FNUZ = 0x2B
    F4E2M1FN = 0x2C
    F6E2M3FN = 0x2D
    F6E3M2FN = 0x2E


_PREFIXES = {
    Numerical.INTEGER: "i",
    Numerical.SIGNED: "si",
    Numerical.UNSIGNED: "ui",
    Numerical.FLOAT: "f",
    Numerical.BFLOAT: "bf",
    Numerical.COMPLEX: "cf",
}
"""Kind of number → the beginning of the names of its types, before the width: `si` in `si8`."""


def dtype_word(numerical: Numerical, bits: int) -> int:
    """Return the 32-bit word that encodes an element type of `bits` bits."""
    return int(numerical) << 24 | bits


def dtype_bits(word: int) -> int:
    """Return the bits of one element, from the word of its type."""
    return word & 0xFFFFFF


def numerical_of(word: int) -> int:
    """Return the numerical type in the high byte of an element type's word; see `Numerical`."""
    return word >> 24


def dtype_name(word: int) -> str:
    """Return the name of the element type that a word encodes, such as `f32`, `i8`, `i1` or `f8E5M2`."""
    kind, bits = numerical_of(word), dtype_bits(word)
    if kind == Numerical.BOOLEAN:
        return "i1"
    try:
        numerical = Numerical(kind)
    except ValueError:
        return f"dtype 0x{word:08x}"
    if numerical in _PREFIXES:
        return f"{_PREFIXES[numerical]}{bits}"
    return numerical.name.replace("F", "f", 1)  # F8E5M2 is f8E5M2 in MLIR


def element_bits(word: int) -> int:
    """Return the storage size of an element in bits.

    A type of fewer than 8 bits, such as i4, has its own size: its elements are packed. Other sizes are rounded up to a
    multiple of 8. `word` encodes the element type.
    """
    bits = dtype_bits(word)
    return bits if bits < 8 else -(-bits // 8) * 8


def buffer_bytes(count: int, word: int) -> int:
    """Return the bytes of `count` elements, rounded up. Sub-byte elements are packed from the low bits on.

    `word` encodes the element type.
    """
    return -(-count * element_bits(word) // 8)
