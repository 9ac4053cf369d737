"""Extended instructions: those of the set GLSL.std.450."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

from pydispatch.formats.spirv.declared import Shape
from pydispatch.formats.spirv.functions.operands import READ_ONLY, FunctionChecker
from pydispatch.formats.spirv.instruction import SpirvInstruction
from pydispatch.formats.spirv.names import DEBUG_SETS, Op

_COMPONENTWISE = {
    # Round, RoundEven, Trunc, FAbs, FSign, Floor, Ceil, Fract, Radians to Atanh, Exp to InverseSqrt, Normalize
    **dict.fromkeys((1, 2, 3, 4, 6, 8, 9, 10, *range(11, 25), *range(27, 33), 69), "f ="),
    **dict.fromkeys((5, 7, 73, 74, 75), "i ="),  # SAbs, SSign, FindILsb, FindSMsb, FindUMsb
    **dict.fromkeys((25, 26, 37, 40, 48, 71, 79, 80), "f =="),  # Atan2, Pow, FMin, FMax, Step, Reflect, NMin, NMax
    **dict.fromkeys((38, 39, 41, 42), "i =="),  # UMin, SMin, UMax, SMax
    **dict.fromkeys((43, 46, 49, 50, 70, 81), "f ==="),  # FClamp, FMix, SmoothStep, Fma, FaceForward, NClamp
    **dict.fromkeys((44, 45), "i ==="),  # UClamp, SClamp
    53: "f =i",  # Ldexp
}  # fmt: skip
"""Instructions of GLSL.std.450 that work component by component → kinds of their result and operands, see
`FunctionChecker.componentwise`."""

_WORD, _PAIR, _DOUBLE = Shape("i", 32, count=1), Shape("i", 32, count=2), Shape("f", 64, count=1)
_FLOATS_2, _FLOATS_4 = Shape("f", 32, count=2), Shape("f", 32, count=4)
_PACKED = {  # number of an instruction → (shape of the operand, shape of the result)
    54: (_FLOATS_4, _WORD),  # PackSnorm4x8
    55: (_FLOATS_4, _WORD),  # PackUnorm4x8
    56: (_FLOATS_2, _WORD),  # PackSnorm2x16
    57: (_FLOATS_2, _WORD),  # PackUnorm2x16
    58: (_FLOATS_2, _WORD),  # PackHalf2x16
    59: (_PAIR, _DOUBLE),  # PackDouble2x32
    60: (_WORD, _FLOATS_2),  # UnpackSnorm2x16
    61: (_WORD, _FLOATS_2),  # UnpackUnorm2x16
    62: (_WORD, _FLOATS_2),  # UnpackHalf2x16
    63: (_WORD, _FLOATS_4),  # UnpackSnorm4x8
    64: (_WORD, _FLOATS_4),  # UnpackUnorm4x8
    65: (_DOUBLE, _PAIR),  # UnpackDouble2x32
}
"""Pack and unpack instructions of GLSL.std.450."""


def check_extended(code: FunctionChecker, inst: SpirvInstruction) -> None:
    """Check an OpExtInst, an instruction of an imported set: GLSL.std.450 is checked, sets of debug information are
    accepted, other sets are rejected.

    Example: `%r = OpExtInst %v4float %glsl FMax %a %b` is number 40 of GLSL.std.450. It is in `_COMPONENTWISE`, so that
    %a and %b must have the type of the result.
    """
    # The words: opcode, type, result, id of the set (3), number of the instruction in the set (4), operands.
    name = code.declared.sets.get(inst.words[3])
    if name is None:
        raise code.fail(inst.at + 3, f"id {inst.words[3]} is no set of instructions")
    if name != "GLSL.std.450":
        if not name.startswith(DEBUG_SETS):
            raise code.fail(inst.at, f"an instruction of the set '{name}', which shaders for compute do not have")
        return
    instruction, positions = inst.words[4], inst.id_positions[1:]  # the first id is that of the set
    kinds = _COMPONENTWISE.get(instruction)
    if kinds is not None:
        code.componentwise(inst, kinds, positions)
        return
    if instruction in _PACKED:  # the shapes of the one operand and of the result are fixed
        operand_shapes = [code.declared.shape(code.operand_type(inst, position)) for position in positions]
        fits = [*operand_shapes, code.declared.shape(inst.type_id)] == list(_PACKED[instruction])
    else:
        fits = _fits_own_rule(code, inst, instruction, positions)
    code.demand(inst, fits, f"instruction {instruction} of GLSL.std.450, or operands, that do not fit")


class _Glsl(IntEnum):
    """Instructions of GLSL.std.450 whose operands differ in their types or in their numbers of components."""

    DETERMINANT = 33
    MATRIX_INVERSE = 34
    MODF = 35
    MODF_STRUCT = 36
    FREXP = 51
    FREXP_STRUCT = 52
    LENGTH = 66
    DISTANCE = 67
    CROSS = 68
    REFRACT = 72


def _fits_own_rule(code: FunctionChecker, inst: SpirvInstruction, instruction: int, positions: Sequence[int]) -> bool:
    """Return whether the operands of a GLSL instruction that does not work component by component have valid types.

    Args:
        code: The checker of the function.
        inst: The OpExtInst.
        instruction: Its number in GLSL.std.450, of `_Glsl`; others do not fit.
        positions: Words of `inst` that are operands.
    """
    # Shapes are the kind, width and number of components of a scalar or vector; None for other types.
    result = code.declared.shape(inst.type_id)
    shapes = [code.declared.shape(code.operand_type(inst, position)) for position in positions]
    if instruction in (_Glsl.LENGTH, _Glsl.DISTANCE):
        return _fits_length(result, shapes, count=1 if instruction == _Glsl.LENGTH else 2)
    if instruction == _Glsl.CROSS:
        return result is not None and result.count == 3 and result.kind == "f" and shapes == [result, result]
    if instruction == _Glsl.REFRACT:  # the third operand, the ratio of indices of refraction, is a scalar
        is_ratio_valid = len(shapes) == 3 and _is_float_scalar(shapes[2])
        return is_ratio_valid and result is not None and shapes[:2] == [result, result]
    if instruction in (_Glsl.MODF, _Glsl.FREXP):  # the second result is stored through a pointer
        if len(shapes) != 2 or result is None or shapes[0] != result or not _is_float(result):
            return False
        pointer = code.pointer(inst, positions[1])
        second = code.declared.shape(pointer.type)
        return pointer.storage not in READ_ONLY and second == _second_result(instruction, result)
    if instruction in (_Glsl.MODF_STRUCT, _Glsl.FREXP_STRUCT):  # both results are members of a struct
        operand = shapes[0] if len(shapes) == 1 else None
        if operand is None or not _is_float(operand):
            return False
        return _is_pair(code, inst.type_id, operand, _second_result(instruction, operand))
    if instruction in (_Glsl.DETERMINANT, _Glsl.MATRIX_INVERSE):
        return len(positions) == 1 and _fits_matrix(code, inst, instruction, code.operand_type(inst, positions[0]))
    return False


def _fits_matrix(code: FunctionChecker, inst: SpirvInstruction, instruction: int, operand: int) -> bool:
    """Return whether the types of a Determinant or MatrixInverse are valid.

    The type `operand` is a square matrix. The result has its element type, or for a MatrixInverse its own type.
    """
    op, words = code.declared.type(operand)
    column = code.declared.shape(words[0]) if op == Op.TYPE_MATRIX else None
    if column is None or column.count != words[1]:
        return False
    if instruction == _Glsl.MATRIX_INVERSE:
        return inst.type_id == operand
    return code.declared.shape(inst.type_id) == Shape(column.kind, column.width, count=1)


def _is_float(shape: Shape | None) -> bool:
    """Return whether a shape is of floats; None is the shape of other types than scalars and vectors."""
    return shape is not None and shape.kind == "f"


def _is_float_scalar(shape: Shape | None) -> bool:
    """Return whether a shape is of one float, of any width."""
    return shape is not None and shape.kind == "f" and shape.count == 1


def _fits_length(result: Shape | None, shapes: Sequence[Shape | None], count: int) -> bool:
    """Return whether the types of a Length, with `count` = 1 operand, or a Distance, with 2 operands, are valid.

    The operands are floats or float vectors of one type, and the result is a scalar of their element type.
    """
    operand = shapes[0] if shapes else None
    if operand is None or not _is_float(operand):
        return False
    have_operand_type = len(shapes) == count and len(set(shapes)) == 1
    return have_operand_type and result == Shape("f", operand.width, count=1)


def _second_result(instruction: int, operand: Shape) -> Shape:
    """Return the shape of the second result of a Modf or Frexp, with a pointer or a struct, of an operand.

    It is the operand's own shape for the integral part, and 32-bit integers for the exponent.
    """
    return operand if instruction in (_Glsl.MODF, _Glsl.MODF_STRUCT) else Shape("i", 32, operand.count)


def _is_pair(code: FunctionChecker, type_: int, first: Shape, second: Shape) -> bool:
    """Return whether a type is a struct of two members of these shapes."""
    members = [code.declared.shape(member) for member in code.declared.parts(type_).types]
    return code.declared.opcode(type_) == Op.TYPE_STRUCT and members == [first, second]
