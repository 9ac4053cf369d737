"""A function of a SPIR-V module while it is checked: the types of its values, and what operands have to be."""

from __future__ import annotations

from collections.abc import Sequence

from pydispatch.formats.spirv.declared import Pointer, Shape, SpirvDeclarations
from pydispatch.formats.spirv.instruction import SpirvFunction, SpirvInstruction
from pydispatch.formats.spirv.names import Op, Storage

READ_ONLY = (Storage.UNIFORM_CONSTANT, Storage.INPUT, Storage.PUSH_CONSTANT)
"""Storage classes that cannot be written."""


class FunctionChecker:
    """Checker of one function of a SPIR-V module: the types of its values so far, and requirements on operands.

    Attributes:
        declared: Declarations of the module.
        function: The function.
        fail: Function that returns the error to raise, from the index of a word in the module and a message.
        has_unknown_instructions: Whether the module has instructions of unknown extensions, whose results may have any
            type.
        values: Id of each value of the function defined so far → the id of its type.
        labels: Ids of the function's blocks.
        calls: Ids of the called functions.
        phis: For each value operand of a phi: index of its word in the module, its id, and the type of the phi. They
            are checked at the end, because the value may be defined later.
    """

    def __init__(self, declared: SpirvDeclarations, function: SpirvFunction, has_unknown_instructions: bool) -> None:
        """Create a checker before the first instruction of the function. For the arguments see the class."""
        self.declared, self.function, self.has_unknown_instructions = declared, function, has_unknown_instructions
        self.fail = declared.fail  # (index of a word in the module, message) -> the error to raise
        self.values: dict[int, int] = {}  # id of a value -> id of its type
        self.labels: set[int] = set()
        self.calls: list[int] = []  # ids of the called functions
        self.phis: list[tuple[int, int, int]] = []  # index of a word in the module, id of the value, type of the phi

    def type_of(self, id: int) -> int:
        """Return the type of a value; 0 for an id that is no value."""
        return self.values.get(id) or self.declared.values.get(id, 0)

    def operand_type(self, inst: SpirvInstruction, position: int) -> int:
        """Return the type of the value that the word at `position` of an instruction names; raise ArtifactError if
        there is none.

        Returns 0 for an unknown id in a module with unknown extensions.
        """
        id = inst.words[position]
        type_ = self.type_of(id)
        if not type_ or self.declared.opcode(type_) == Op.TYPE_VOID:
            if self.has_unknown_instructions:
                return 0
            raise self.fail(inst.at + position, f"id {id} is no value that was computed before")
        return type_

    def shape(self, inst: SpirvInstruction, position: int) -> Shape:
        """Return the shape of the operand in word `position`, which must be a scalar or vector."""
        shape = self.declared.shape(self.operand_type(inst, position))
        if shape is None:
            raise self.fail(inst.at + position, f"id {inst.words[position]} is no number")
        return shape

    def pointer(self, inst: SpirvInstruction, position: int) -> Pointer:
        """Return the storage class and the pointee type of the operand in word `position`, which must be a pointer."""
        pointee = self.declared.pointee(self.operand_type(inst, position))
        if pointee is None:
            raise self.fail(inst.at + position, f"id {inst.words[position]} is no pointer")
        return pointee

    def expect_type(self, inst: SpirvInstruction, position: int, type_: int) -> None:
        """Check that the operand in word `position` has exactly the type with the id `type_`."""
        actual = self.operand_type(inst, position)
        if actual != type_:
            raise self.fail(inst.at + position, f"id {inst.words[position]} has the type {actual}, expected {type_}")

    def expect_integers(self, inst: SpirvInstruction, *positions: int) -> None:
        """Check that the operands in the words at these positions are integer scalars."""
        for position in positions:
            shape = self.shape(inst, position)
            if shape.kind != "i" or shape.count != 1:
                raise self.fail(inst.at + position, f"id {inst.words[position]} is no integer")

    def expect_constant_integers(self, inst: SpirvInstruction, *positions: int) -> None:
        """Check that the operands at these positions, such as scopes and memory semantics, are integer constants."""
        for position in positions:
            self.expect_integers(inst, position)
            if inst.words[position] not in self.declared.constants:
                raise self.fail(inst.at + position, f"id {inst.words[position]} is no constant")

    def expect_writable(self, inst: SpirvInstruction, storage: int) -> None:
        """Check that an instruction may write through a pointer of this storage class."""
        self.demand(inst, storage not in READ_ONLY, "a pointer to what cannot be written")

    def demand(
        self, inst: SpirvInstruction, fits: bool, what: str = "operands or a result of types that it does not take"
    ) -> None:
        """Raise ArtifactError, "opcode N has {what}", unless `fits`."""
        if not fits:
            raise self.fail(inst.at, f"opcode {inst.op} has {what}")

    def is_known(self, id: int) -> bool:
        """Return whether an id is a value, label, function or instruction set that is defined so far."""
        declared = self.declared
        return bool(self.type_of(id)) or id in self.labels or id in declared.functions or id in declared.sets

    def componentwise(self, inst: SpirvInstruction, kinds: str, positions: Sequence[int]) -> None:
        """Check an instruction that operates on each component separately.

        Args:
            inst: The instruction.
            kinds: Kind of the result (i integer, f float, b bool), a space, and one letter per operand. "b ii" for
                IEqual: the result is bool, and the two operands are integers.

                - i, f or b: an operand of this kind with as many components as the result. Operands with the same
                  letter have the same width, which may differ from the result's.
                - =: an operand of the result's type.
                - s: an integer scalar of any width.
            positions: Words of the instruction that are the operands.
        """
        result = self.declared.shape(inst.type_id)
        kind, _, operands = kinds.partition(" ")
        fits = result is not None and result.kind == kind and len(positions) == len(operands)
        widths: dict[str, int] = {}
        for letter, position in zip(operands, positions, strict=False):
            if not fits or result is None:
                break
            shape = self.shape(inst, position)
            if letter == "=":
                fits = shape == result
            elif letter == "s":
                fits = shape.kind == "i" and shape.count == 1
            else:
                has_width_of_letter = widths.setdefault(letter, shape.width) == shape.width
                fits = shape.kind == letter and shape.count == result.count and has_width_of_letter
        self.demand(inst, fits)
