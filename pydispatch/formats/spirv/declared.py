"""Types, constants and variables that a SPIR-V module declares, and the checks that they are consistent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pydispatch.formats.spirv.instruction import SpirvFunction, SpirvInstruction
from pydispatch.formats.spirv.module import SpirvTables
from pydispatch.formats.spirv.names import Decoration, Op, Storage

EXTENSIONS_FROM = 4421
"""Opcodes and built-in variables from here on belong to extensions, which may be newer than this reader."""

MAX_VARIABLE_BYTES = 16 << 20
"""The limit for a variable private to an invocation: drivers put it on a stack."""

_BUILT_INS = {
    **dict.fromkeys((24, 25, 26, 27, 28), 3),  # NumWorkgroups, WorkgroupSize, WorkgroupId, Local-, GlobalInvocationId
    # LocalInvocationIndex, SubgroupSize, NumSubgroups, SubgroupId, SubgroupLocalInvocationId, DeviceIndex
    **dict.fromkeys((29, 36, 38, 40, 41, 4438), 1),
    **dict.fromkeys((4416, 4417, 4418, 4419, 4420), 4),  # the masks of subgroups: SubgroupEqMask to SubgroupLtMask
}  # fmt: skip
"""Built-in variable of compute shaders → its number of 32-bit integers."""


@dataclass(frozen=True)
class Shape:
    """Shape of a scalar or vector type.

    Attributes:
        kind: "i" integer, "f" float, "b" bool.
        width: Bits of a component; 0 for bool.
        count: Number of components; 1 for a scalar.
    """

    kind: str
    width: int
    count: int


class Pointer(NamedTuple):
    """Pointer type: its storage class and the type that it points to."""

    storage: int
    type: int


class Parts(NamedTuple):
    """Elements of a composite type.

    Attributes:
        length: Number of elements; None if a runtime array or a specialization constant determines it.
        types: Ids of types: one per member for a struct, one for all elements otherwise, and none if the type is no
            composite.
    """

    length: int | None
    types: Sequence[int]


class SpirvDeclarations:
    """Checked declarations of a SPIR-V module outside of functions.

    Attributes:
        tables: Declarations of the module as they were read.
        fail: Function that returns the error to raise, from the index of a word in the module and a message.
        types: Id of a type → (opcode, operands after the id).
        values: Id of a constant or variable → the id of its type.
        constants: Id of a constant → its instruction.
        sets: Id → name of an imported instruction set.
        functions: Id → function.
        shapes: Id of a type → its shape, as a cache; None for a type that is no scalar and no vector.
        sizes: Id of a type → its approximate size in bytes, as a cache.
    """

    def __init__(self, tables: SpirvTables) -> None:
        """Create the object without checked declarations; the checker of the module adds them."""
        self.tables, self.fail = tables, tables.fail
        self.types: dict[int, tuple[int, list[int]]] = {}  # type -> opcode, operands
        self.values: dict[int, int] = {}  # constant or variable -> its type
        self.constants: dict[int, SpirvInstruction] = {}
        self.sets: dict[int, str] = {}  # id of an imported instruction set -> its name
        self.functions: dict[int, SpirvFunction] = {}
        self.shapes: dict[int, Shape | None] = {}  # cache of shape()
        self.sizes: dict[int, int] = {}  # cache of the sizes of types, approximate, in bytes

    # Types

    def type(self, id: int) -> tuple[int, list[int]]:
        """Return the opcode of a type and its operands after the id; (0, []) for an id that is no type."""
        return self.types.get(id, (0, []))

    def opcode(self, id: int) -> int:
        """Return the opcode of a type; 0 for an id that is no type."""
        return self.type(id)[0]

    def shape(self, id: int) -> Shape | None:
        """Return the shape of a scalar or vector type; None for other types."""
        if id not in self.shapes:
            self.shapes[id] = self._shape(id)
        return self.shapes[id]

    def _shape(self, id: int) -> Shape | None:
        """Return the shape of a scalar or vector type, without the cache; None for other types."""
        op, operands = self.type(id)
        if op == Op.TYPE_INT:  # operands: width, signedness
            return Shape("i", operands[0], count=1)
        if op == Op.TYPE_FLOAT:  # operands: width
            return Shape("f", operands[0], count=1)
        if op == Op.TYPE_BOOL:
            return Shape("b", 0, count=1)
        if op == Op.TYPE_VECTOR:  # operands: type of a component, number of components
            component_type, count = operands
            component = self.shape(component_type)
            return Shape(component.kind, component.width, count) if component is not None else None
        return None

    def is_integer(self, type_: int) -> bool:
        """Return whether a type is a scalar of integers."""
        shape = self.shape(type_)
        return shape is not None and shape.kind == "i" and shape.count == 1

    def pointee(self, type_: int) -> Pointer | None:
        """Return the storage class and the pointee of a pointer type; None for other types."""
        op, operands = self.type(type_)
        return Pointer(storage=operands[0], type=operands[1]) if op == Op.TYPE_POINTER else None

    def number(self, id: int) -> int | None:
        """Return the bits of an integer constant as an unsigned number.

        Return None for specialization constants, whose values only the driver knows, and for other ids.
        """
        inst = self.constants.get(id)
        if inst is None or not self.is_integer(inst.type_id):
            return None
        if inst.op == Op.CONSTANT_NULL:
            return 0
        if inst.op != Op.CONSTANT:
            return None
        return sum(word << 32 * i for i, word in enumerate(inst.words[3:5]))  # one or two words, the low one first

    def parts(self, type_: int) -> Parts:
        """Return the number of elements and their types for a composite type; 0 and () for other types.

        A struct has a type for each member, any other composite one for all elements. The number is None if it is known
        only at run time, or a specialization constant.
        """
        op, operands = self.type(type_)
        if op in (Op.TYPE_VECTOR, Op.TYPE_MATRIX):  # operands: type of the elements, their number
            return Parts(length=operands[1], types=operands[:1])
        if op == Op.TYPE_ARRAY:  # operands: type of the elements, id of the constant that is their number
            return Parts(length=self.number(operands[1]), types=operands[:1])
        if op == Op.TYPE_RUNTIME_ARRAY:
            return Parts(length=None, types=operands[:1])
        if op == Op.TYPE_STRUCT:
            return Parts(length=len(operands), types=operands)
        return Parts(length=0, types=())

    def part(self, type_: int, index: int | None) -> int | None:
        """Return the type of element `index` of a composite; None if there is no such element.

        An `index` of None stands for a dynamic index, which structs do not allow.
        """
        count, types = self.parts(type_)
        is_struct = self.opcode(type_) == Op.TYPE_STRUCT
        if not types or (index is None and is_struct):
            return None
        if index is not None and count is not None and index >= count:
            return None
        return types[index] if is_struct and index is not None else types[0]


def check_variable(declared: SpirvDeclarations, inst: SpirvInstruction, pointee: int) -> None:
    """Check the storage class and the type of a variable; raise ArtifactError if they are not valid in compute
    shaders.

    Local and shared variables have a limited size, inputs are built-ins of compute shaders with their own types, and
    buffers are structures or arrays. Outputs do not exist.

    Args:
        declared: Declarations of the module.
        inst: The OpVariable.
        pointee: Id of the type that the variable holds; the OpVariable itself has the type of a pointer to it.
    """
    op, storage = declared.opcode(pointee), inst.words[3]  # words: opcode, type, result, storage class
    if op in (0, Op.TYPE_VOID, Op.TYPE_FUNCTION):  # 0: not declared
        raise declared.fail(inst.at, f"a variable of type {pointee}, which has no values")
    if storage in (Storage.FUNCTION, Storage.PRIVATE, Storage.WORKGROUP):
        if _bytes(declared, pointee, inst.at) > MAX_VARIABLE_BYTES:
            raise declared.fail(inst.at, f"a variable of more than {MAX_VARIABLE_BYTES} bytes")
    elif storage == Storage.INPUT:
        _check_input(declared, inst, pointee)
    elif storage in (Storage.STORAGE_BUFFER, Storage.PUSH_CONSTANT) and op not in (
        Op.TYPE_STRUCT, Op.TYPE_ARRAY, Op.TYPE_RUNTIME_ARRAY,
    ):  # fmt: skip
        raise declared.fail(inst.at, f"a buffer whose type, {pointee}, is no structure")
    elif storage == Storage.OUTPUT:
        raise declared.fail(inst.at, "an output, which shaders for compute do not have")


def _check_input(declared: SpirvDeclarations, inst: SpirvInstruction, pointee: int) -> None:
    """Check that an input is a built-in of compute shaders with its own type. For arguments see `check_variable`."""
    built_in = declared.tables.decoration(inst.id, Decoration.BUILT_IN)
    component_count = _BUILT_INS.get(built_in or 0)  # None for a built-in that is not in the table
    is_of_extension = built_in is not None and built_in >= EXTENSIONS_FROM  # accepted without a check
    if component_count is None and not is_of_extension:
        raise declared.fail(inst.at, f"an input that shaders for compute do not have (BuiltIn {built_in})")
    if component_count is not None and declared.shape(pointee) != Shape("i", 32, component_count):
        raise declared.fail(inst.at, f"the built-in {built_in} with a type that is not its own")


def _bytes(declared: SpirvDeclarations, type_: int, at: int) -> int:
    """Return the approximate size of a value of a type in bytes, which bounds the memory of variables.

    A component counts as 4 bytes or more, structs have no padding, and an array whose length a specialization constant
    determines counts as one element. Raise ArtifactError, at word `at`, for a type without a size: a runtime array, or
    one nested too deeply.
    """
    known = declared.sizes  # id of a type → its size, a cache for the module

    def size(id: int, depth: int) -> int:
        """Return the approximate size of a type in bytes, which is cached in `known`. It is inside `depth` types."""
        if depth > 64:
            raise declared.fail(at, "types are nested more than 64 deep")
        if id not in known:
            shape = declared.shape(id)
            count, types = declared.parts(id)
            op = declared.opcode(id)
            if op == Op.TYPE_RUNTIME_ARRAY:
                raise declared.fail(at, "a variable of as many elements as a buffer has, which is in no buffer")
            if shape is not None:
                known[id] = max(4, shape.width // 8) * shape.count  # narrow components may take a word each
            elif op == Op.TYPE_STRUCT:
                known[id] = sum(size(part, depth + 1) for part in types)
            elif types:  # a length that a specialization constant determines counts as 1
                known[id] = (count if count is not None else 1) * size(types[0], depth + 1)
            else:
                known[id] = 8  # a pointer, or an opaque type such as an image
        return known[id]

    return size(type_, 0)
