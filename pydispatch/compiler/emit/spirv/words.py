"""Numbers of the SPIR-V specification: opcodes, capabilities, decorations, and instructions of GLSL.std.450."""

from __future__ import annotations

from pydispatch.formats.spirv.names import CAPABILITIES, BuiltIn, Decoration, Op, Storage, specification_names

OP = {
    **specification_names(Op),
    "CompositeConstruct": 80, "CompositeExtract": 81, "ConvertFToU": 109, "ConvertFToS": 110, "ConvertSToF": 111,
    "ConvertUToF": 112, "UConvert": 113, "SConvert": 114, "FConvert": 115, "SNegate": 126,
    "FNegate": 127, "IAdd": 128, "FAdd": 129, "ISub": 130, "FSub": 131, "IMul": 132, "FMul": 133, "UDiv": 134,
    "SDiv": 135, "FDiv": 136, "UMod": 137, "SRem": 138, "SMod": 139, "FRem": 140, "IAddCarry": 149,
    "UMulExtended": 151, "SMulExtended": 152, "IsNan": 156, "IsInf": 157, "LogicalEqual": 164, "LogicalNotEqual": 165,
    "LogicalOr": 166, "LogicalAnd": 167, "LogicalNot": 168, "Select": 169, "IEqual": 170, "INotEqual": 171,
    "UGreaterThan": 172, "SGreaterThan": 173, "UGreaterThanEqual": 174, "SGreaterThanEqual": 175, "ULessThan": 176,
    "SLessThan": 177, "ULessThanEqual": 178, "SLessThanEqual": 179, "FOrdEqual": 180, "FUnordEqual": 181,
    "FOrdNotEqual": 182, "FUnordNotEqual": 183, "FOrdLessThan": 184, "FUnordLessThan": 185, "FOrdGreaterThan": 186,
    "FUnordGreaterThan": 187, "FOrdLessThanEqual": 188, "FUnordLessThanEqual": 189, "FOrdGreaterThanEqual": 190,
    "FUnordGreaterThanEqual": 191, "ShiftRightLogical": 194, "ShiftRightArithmetic": 195, "ShiftLeftLogical": 196,
    "BitwiseOr": 197, "BitwiseXor": 198, "BitwiseAnd": 199, "Not": 200, "BitFieldInsert": 201,
    "BitFieldSExtract": 202, "BitFieldUExtract": 203, "BitReverse": 204, "BitCount": 205, "ControlBarrier": 224,
    "AtomicIAdd": 234, "AtomicSMin": 236, "AtomicUMin": 237,
    "AtomicSMax": 238, "AtomicUMax": 239, "AtomicAnd": 240, "AtomicOr": 241,
}  # fmt: skip
"""Opcode by instruction name without `Op`: the members of `Op`, which readers of modules share, and other instructions
that only the emitter uses."""

GLSL = {
    "Round": 1, "RoundEven": 2, "Trunc": 3, "FAbs": 4, "SAbs": 5, "FSign": 6, "Floor": 8, "Ceil": 9, "Sin": 13,
    "Cos": 14, "Tan": 15, "Asin": 16, "Acos": 17, "Atan": 18, "Sinh": 19, "Cosh": 20, "Tanh": 21, "Asinh": 22,
    "Acosh": 23, "Atanh": 24, "Atan2": 25, "Pow": 26, "Exp": 27, "Log": 28, "Exp2": 29, "Log2": 30, "Sqrt": 31,
    "InverseSqrt": 32, "FMin": 37, "UMin": 38, "SMin": 39, "FMax": 40, "UMax": 41, "SMax": 42, "Fma": 50,
    "Ldexp": 53, "FindILsb": 73, "FindSMsb": 74, "FindUMsb": 75, "NMin": 79, "NMax": 80,
}  # fmt: skip
"""Instructions of GLSL.std.450."""

CAPABILITY = {name: code for code, name in CAPABILITIES.items()}
"""Capability -> its number."""

EXTENSION_OF = {"StorageBuffer8BitAccess": "SPV_KHR_8bit_storage"}
"""Extensions that a capability needs in SPIR-V 1.3."""

DECORATION, BUILTIN, STORAGE = map(specification_names, (Decoration, BuiltIn, Storage))
"""Decoration, built-in and storage class -> their numbers."""

NO_CONTROL = 0
"""Function control of a function that asks for no inlining and promises nothing."""

WORD_COUNT_SHIFT = 16
"""Position of the number of words in the first word of an instruction; its opcode has the bits below."""


def first_word(op: str, operand_count: int) -> int:
    """Return the first word of an instruction: its length in words in the high half, its opcode in the low half.

    Args:
        op: Name of the instruction without "Op".
        operand_count: Number of the words after the first one.
    """
    return (1 + operand_count) << WORD_COUNT_SHIFT | OP[op]


def encode(op: str, *operands: int) -> list[int]:
    """Return the words of an instruction, such as `encode("Label", id)` for OpLabel.

    Operands are ids, literals and words of texts in the order of the specification: type and result id first.
    """
    return [(1 + len(operands)) << WORD_COUNT_SHIFT | OP[op], *operands]


SCOPE_WORKGROUP, SCOPE_DEVICE = 2, 1
"""Scopes of barriers and atomic operations."""
ALL_MEMORY = 0x8 | 0x40 | 0x100
"""Memory semantics of barriers: acquire and release, of buffers and workgroup memory."""
RELAXED = 0
"""Memory semantics of atomic operations that order no other accesses."""
