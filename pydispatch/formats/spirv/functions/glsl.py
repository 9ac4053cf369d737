"""Extended instructions: those of the set GLSL.std.450."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

from pydispatch.formats.spirv.declared import Shape
from pydispatch.formats.spirv.functions.operands import READ_ONLY, FunctionChecker
from pydispatch.formats.spirv.instruction import SpirvInstruction
from pydispatch.formats.spirv.names import DEBUG_SETS, Op

_COMPONENTS = {
    **dict.fromkeys((1, 2, 3, 4, 6, 8, 9, 10, *range(11, 25), *range(27, 33), 69), "f ="),
    **dict.fromkeys((5, 7, 74, 75, 73), "i ="), **dict.fromkeys((25, 26, 37, 40, 48, 79, 80, 71), "f =="),
    **dict.fromkeys((38, 39, 41, 42), "i =="), **dict.fromkeys((43, 46, 49, 50, 81, 70), "f ==="),
    **dict.fromkeys((44, 45), "i ==="), 53: "f =i",
}  # fmt: skip
"""Instructions of GLSL.std.450 whose operands are like their result."""

_WORD, _PAIR, _DOUBLE = Shape("i", 32, 1), Shape("i", 32, 2), Shape("f", 64, 1)
_PACKED = {
    **dict.fromkeys((54, 55), (Shape("f", 32, 4), _WORD)), **dict.fromkeys((56, 57, 58), (Shape("f", 32, 2), _WORD)),
    **dict.fromkeys((60, 61, 62), (_WORD, Shape("f", 32, 2))), **dict.fromkeys((63, 64), (_WORD, Shape("f", 32, 4))),
    59: (_PAIR, _DOUBLE), 65: (_DOUBLE, _PAIR),
}  # fmt: skip
"""Pack and unpack instructions of GLSL.std.450 → their operand and result."""


def check_extended(code: FunctionChecker, inst: SpirvInstruction) -> None:
    """Check an OpExtInst: GLSL.std.450 is checked, non-semantic sets are accepted, other sets are rejected."""
    name = code.declared.sets.get(inst.words[3])
    if name is None:
        raise code.fail(inst.at + 3, f"id {inst.words[3]} is no set of instructions")
    if name != "GLSL.std.450":
        if not name.startswith(DEBUG_SETS):
            raise code.fail(inst.at, f"an instruction of the set '{name}', which shaders for compute do not have")
        return
    instruction, positions = inst.words[4], inst.ids[1:]
    mapping = _COMPONENTS.get(instruction)
    if mapping is not None:
        code.components(inst, mapping, positions)
        return
    if instruction in _PACKED:
        operand_shapes = [code.declared.shape(code.value(inst, position)) for position in positions]
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
    result = code.declared.shape(inst.type_id)
    operand_shapes = [code.declared.shape(code.value(inst, position)) for position in positions]
    floats = [shape is not None and shape.kind == "f" for shape in operand_shapes]
    fits = True
    if instruction in (_Glsl.LENGTH, _Glsl.DISTANCE):
        count = 1 if instruction == _Glsl.LENGTH else 2
        fits = len(operand_shapes) == count and all(floats) and len(set(operand_shapes)) == 1
        fits = fits and operand_shapes[0] is not None and result == Shape("f", operand_shapes[0].width, 1)
    elif instruction == _Glsl.CROSS:
        fits = result is not None and result.count == 3 and result.kind == "f" and operand_shapes == [result, result]
    elif instruction == _Glsl.REFRACT:
        fits = len(operand_shapes) == 3 and result is not None and operand_shapes[:2] == [result, result] and floats[2]
    elif instruction in (_Glsl.MODF, _Glsl.FREXP):
        fits = len(positions) == 2 and result is not None and operand_shapes[0] == result and floats[0]
        fits = fits and code.pointer(inst, positions[1])[0] not in READ_ONLY
        inner = code.declared.shape(code.pointer(inst, positions[1])[1]) if fits else None
        fits = fits and inner is not None and result is not None and inner.count == result.count
        fits = fits and inner is not None and inner.kind == ("f" if instruction == _Glsl.MODF else "i")
    elif instruction in (_Glsl.MODF_STRUCT, _Glsl.FREXP_STRUCT):
        members = code.declared.parts(inst.type_id)[1]
        fits = len(positions) == 1 and floats[0] and code.declared.type(inst.type_id)[0] == Op.TYPE_STRUCT
        shapes = [code.declared.shape(member) for member in members]
        fits = fits and len(shapes) == 2 and shapes[0] == operand_shapes[0]
        first, second = shapes if fits else (None, None)
        fits = first is not None and second is not None and first.count == second.count
        fits = fits and second is not None and second.kind == ("f" if instruction == _Glsl.MODF_STRUCT else "i")
    elif instruction in (_Glsl.DETERMINANT, _Glsl.MATRIX_INVERSE):
        fits = len(positions) == 1 and code.declared.type(code.value(inst, positions[0]))[0] == Op.TYPE_MATRIX
    else:
        fits = False
    return bool(fits)
