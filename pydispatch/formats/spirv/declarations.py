"""Checks of the types and constants that a SPIR-V module declares. See `check.py`."""

from __future__ import annotations

from collections.abc import Container, Sequence

from pydispatch.formats.spirv.declared import Shape, SpirvDeclarations
from pydispatch.formats.spirv.functions.check import check_constant as check_operation
from pydispatch.formats.spirv.instruction import SpirvInstruction
from pydispatch.formats.spirv.names import Op

_TYPE_IMAGE = 25
"""Opcode of OpTypeImage, whose sampled type may be void."""
_BOOLEAN_CONSTANTS = (Op.CONSTANT_TRUE, Op.CONSTANT_FALSE, Op.SPEC_CONSTANT_TRUE, Op.SPEC_CONSTANT_FALSE)
"""Opcodes of constants of type bool."""


def check_type(declared: SpirvDeclarations, inst: SpirvInstruction, forward: Container[int]) -> None:
    """Raise ArtifactError unless the operands of a type declaration are declared ids and literals that form a type.

    `forward` has the ids that OpTypeForwardPointer declares: members of structs may use them before their definition.
    """
    for position in inst.id_positions:
        _check_type_operand(declared, inst, position, forward)
    if not _is_type(declared, inst):
        words = ", ".join(map(str, inst.words[2:])) or "nothing"  # word 1 is the id of the type
        raise declared.fail(inst.at, f"a type (opcode {inst.op}) of {words}")


def _check_type_operand(
    declared: SpirvDeclarations, inst: SpirvInstruction, position: int, forward: Container[int]
) -> None:
    """Check one id among the operands of a type declaration: the id of a type, or of the length of an array.

    Raise ArtifactError for an id that is none of these, and for a type without values (void or a function type) except
    as the pointee of a pointer, the result of a function or the sampled type of an image.

    Args:
        declared: Declarations of the module before the instruction.
        inst: The type declaration.
        position: Index of the id's word in the instruction.
        forward: Ids of pointer types that OpTypeForwardPointer announces: a struct may have members of these types.
    """
    op, id = inst.op, inst.words[position]
    if op == Op.TYPE_ARRAY and position == 3:  # the length
        is_integer_constant = id in declared.constants and declared.is_integer(declared.values[id])
        if not is_integer_constant or declared.number(id) == 0:
            raise declared.fail(inst.at + position, f"the length of an array is id {id}, which is no count")
        return
    is_forward_pointer = op == Op.TYPE_STRUCT and id in forward
    if id not in declared.types and not is_forward_pointer:
        raise declared.fail(inst.at + position, f"id {id} is no type that was declared before")
    # The result type of a function and the sampled type of an image are the first id.
    is_result_or_sampled_type = op in (Op.TYPE_FUNCTION, _TYPE_IMAGE) and position == inst.id_positions[0]
    needs_values = op != Op.TYPE_POINTER and not is_result_or_sampled_type
    if needs_values and declared.opcode(id) in (Op.TYPE_VOID, Op.TYPE_FUNCTION):
        raise declared.fail(inst.at + position, f"a type made of id {id}, which has no values")


def _is_type(declared: SpirvDeclarations, inst: SpirvInstruction) -> bool:
    """Return whether a type exists with the operands of its declaration, which start at word 2."""
    op, words = inst.op, inst.words[2:]
    if op == Op.TYPE_INT:  # width, signedness
        return words[0] in (8, 16, 32, 64) and words[1] < 2
    if op == Op.TYPE_FLOAT:
        return words[0] in (16, 32, 64)
    if op == Op.TYPE_VECTOR:  # type of the components, number of components
        shape = declared.shape(words[0])
        return shape is not None and shape.count == 1 and words[1] in (2, 3, 4)
    if op == Op.TYPE_MATRIX:  # type of the columns, number of columns
        shape = declared.shape(words[0])
        return shape is not None and shape.kind == "f" and shape.count > 1 and 2 <= words[1] <= 4
    if op == Op.TYPE_STRUCT:  # a member of runtime size must be the last one
        return all(declared.opcode(member) != Op.TYPE_RUNTIME_ARRAY for member in words[:-1])
    if op == Op.TYPE_ARRAY:  # type of the elements, which have a fixed size
        return declared.opcode(words[0]) != Op.TYPE_RUNTIME_ARRAY
    return True


def check_constant(declared: SpirvDeclarations, inst: SpirvInstruction) -> None:
    """Check that a constant's operands fit its type."""
    op = inst.op
    if not _fits_type(declared, inst):
        raise declared.fail(inst.at, f"a constant (opcode {op}) that does not fit its type, id {inst.type_id}")
    if op == Op.SPEC_CONSTANT_OP:
        for position in inst.id_positions:
            if inst.words[position] not in declared.constants:
                raise declared.fail(
                    inst.at + position, f"id {inst.words[position]} is no constant that was declared before"
                )
        check_operation(declared, inst)


def _fits_type(declared: SpirvDeclarations, inst: SpirvInstruction) -> bool:
    """Return whether the opcode and the operands of a constant fit its type, such as a number of words for a width."""
    op = inst.op
    shape = declared.shape(inst.type_id)
    if op in _BOOLEAN_CONSTANTS:
        return shape == Shape("b", 0, count=1)
    if op in (Op.CONSTANT, Op.SPEC_CONSTANT):  # a number
        value_words = len(inst.words) - 3  # without the opcode, the type and the result
        if shape is None or shape.count != 1 or shape.kind == "b":
            return False  # no number
        return value_words == max(1, shape.width // 32)
    if op in (Op.CONSTANT_COMPOSITE, Op.SPEC_CONSTANT_COMPOSITE):
        elements = [inst.words[position] for position in inst.id_positions]
        element_types = [declared.values.get(element, 0) for element in elements]
        are_constants = all(element in declared.constants for element in elements)
        return _is_composite_of(declared, inst.type_id, element_types) and are_constants
    # Other constants, such as OpConstantNull, OpUndef and OpSpecConstantOp: any type of values with a fixed size.
    return declared.opcode(inst.type_id) not in (Op.TYPE_VOID, Op.TYPE_FUNCTION, Op.TYPE_RUNTIME_ARRAY)


def _is_composite_of(declared: SpirvDeclarations, type_: int, constituents: Sequence[int]) -> bool:
    """Return whether constituents of these types (ids; 0: no constant) form a composite of the type `type_`."""
    # A struct has one type per member, other composites have one type for all elements. A count that is no known
    # constant is None.
    count, types = declared.parts(type_)
    if not types or (count is not None and count != len(constituents)):
        return False
    is_struct = declared.opcode(type_) == Op.TYPE_STRUCT
    expected = list(types) if is_struct else [types[0]] * len(constituents)
    return list(constituents) == expected
