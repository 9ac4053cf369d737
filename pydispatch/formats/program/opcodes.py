"""Opcodes, buffer kinds and element types of host programs; docs/program.md is the format."""

from __future__ import annotations

from enum import IntEnum

MAGIC = 0x50584450
VERSION = 2
NONE = 0xFFFFFFFF
HIGH_WORD = 1 << 31
"""Added to a register in a dispatch's constants: its high 32 bits are meant."""


class Op(IntEnum):
    CONST = 1
    DIM = 2
    SCALAR = 3
    QUERY = 4
    VARIANT = 5
    SELECT = 6
    CHECK_EQ = 7
    CHECK = 8
    ADD = 16
    SUB = 17
    MUL = 18
    DIVS = 19
    DIVU = 20
    REMS = 21
    REMU = 22
    CEILDIVS = 23
    CEILDIVU = 24
    FLOORDIVS = 25
    MINS = 26
    MAXS = 27
    MINU = 28
    MAXU = 29
    AND = 30
    OR = 31
    XOR = 32
    SHL = 33
    SHRS = 34
    SHRU = 35
    MODS = 36
    NEG = 37
    CMP = 40
    SEXT = 41
    ZEXT = 42
    FADD = 48
    FSUB = 49
    FMUL = 50
    FDIV = 51
    FREM = 52
    FCMP = 53
    FMIN = 54
    FMAX = 55
    FNEG = 56
    FCVT = 57
    SITOFP = 58
    UITOFP = 59
    FPTOSI = 60
    FPTOUI = 61
    FMATH = 62
    FPOW = 63
    FATAN2 = 64
    FCOPYSIGN = 65
    FMINNUM = 66
    FMAXNUM = 67
    FMA = 68
    ABS = 69
    CTPOP = 70
    CTLZ = 71
    CTTZ = 72
    MULHS = 73
    MULHU = 74
    DISPATCH = 80
    FILL = 81
    COPY = 82


class BufferKind(IntEnum):
    ARGUMENT = 0
    RESULT = 1
    TRANSIENT = 2
    CONSTANT = 3


class Numerical(IntEnum):
    """The numerical type in the high byte of a dtype word."""

    INTEGER = 0x10
    SIGNED = 0x11
    UNSIGNED = 0x12
    BOOLEAN = 0x13
    FLOAT = 0x21
    BFLOAT = 0x22
    COMPLEX = 0x23
    F8E5M2 = 0x24
    F8E4M3FN = 0x25
    F8E5M2FNUZ = 0x26
    F8E4M3FNUZ = 0x27
    F8E8M0FNU = 0x28
    F8E4M3 = 0x29
    F8E3M4 = 0x2A
    F8E4M3B11FNUZ = 0x2B
    F4E2M1FN = 0x2C


_PREFIXES = {
    Numerical.INTEGER: "i",
    Numerical.SIGNED: "si",
    Numerical.UNSIGNED: "ui",
    Numerical.FLOAT: "f",
    Numerical.BFLOAT: "bf",
    Numerical.COMPLEX: "cf",
}


def dtype_word(numerical: Numerical, bits: int) -> int:
    """The 32-bit word that stands for an element type."""
    return int(numerical) << 24 | bits


def dtype_name(word: int) -> str:
    """`f32`, `i8`, `i1`, `f8E5M2`, ... for a dtype word."""
    kind, bits = word >> 24, word & 0xFFFFFF
    if kind == Numerical.BOOLEAN:
        return "i1"
    try:
        numerical = Numerical(kind)
    except ValueError:
        return f"dtype 0x{word:08x}"
    return f"{_PREFIXES[numerical]}{bits}" if numerical in _PREFIXES else numerical.name.replace("F", "f", 1)


def buffer_bytes(count: int, word: int) -> int:
    """Bytes of `count` elements in a buffer; elements of less than 8 bits are packed, the first one lowest."""
    bits = word & 0xFFFFFF
    return -(-count * bits // 8) if bits < 8 else count * -(-bits // 8)
