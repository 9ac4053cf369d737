"""A function of a SPIR-V module while it is checked: the types of its values, and what operands have to be."""

from __future__ import annotations

from collections.abc import Sequence

from pydispatch.errors import ArtifactError
from pydispatch.formats.spirv.declared import FunctionBody, Shape, SpirvDeclarations
from pydispatch.formats.spirv.names import Op, Storage
from pydispatch.formats.spirv.parts import Inst

READ_ONLY = (0, Storage.INPUT, Storage.PUSH_CONSTANT)
"""Storage classes that cannot be written."""


class FunctionChecker:
    """State of the check of one function.

    Attributes:
        values: type of each value that is computed so far, by id.
        labels: ids of the blocks of the function.
        calls: ids of the functions that it calls.
        phis: (word, id, type) of each phi operand, whose definition may follow later.
    """

    def __init__(self, declared: SpirvDeclarations, body: FunctionBody, is_open: bool) -> None:
        self.declared, self.body, self.is_open = declared, body, is_open
        self.values: dict[int, int] = {}
        self.labels: set[int] = set()
        self.calls: list[int] = []
        self.phis: list[tuple[int, int, int]] = []

    def fail(self, at: int, text: str) -> ArtifactError:
        return self.declared.fail(at, text)

    def type_of(self, id: int) -> int:
        """Return the type of a value by its id; 0 when the id is no value."""
        return self.values.get(id) or self.declared.values.get(id, 0)

    def value(self, inst: Inst, position: int) -> int:
        """Return the type of the value that a word of an instruction names."""
        id = inst.words[position]
        type_ = self.type_of(id)
        if not type_ or self.declared.type(type_)[0] == Op.TYPE_VOID:
            if self.is_open:
                return 0
            raise self.fail(inst.at + position, f"id {id} is no value that was computed before")
        return type_

    def shape(self, inst: Inst, position: int) -> Shape:
        shape = self.declared.shape(self.value(inst, position))
        if shape is None:
            raise self.fail(inst.at + position, f"id {inst.words[position]} is no number")
        return shape

    def pointer(self, inst: Inst, position: int) -> tuple[int, int]:
        """(storage class, type after it) of a pointer."""
        pointee = self.declared.pointee(self.value(inst, position))
        if pointee is None:
            raise self.fail(inst.at + position, f"id {inst.words[position]} is no pointer")
        return pointee

    def same(self, inst: Inst, position: int, type_: int) -> None:
        actual = self.value(inst, position)
        if actual != type_:
            raise self.fail(inst.at + position, f"id {inst.words[position]} has the type {actual}, expected {type_}")

    def integers(self, inst: Inst, *positions: int) -> None:
        for position in positions:
            shape = self.shape(inst, position)
            if shape.kind != "i" or shape.count != 1:
                raise self.fail(inst.at + position, f"id {inst.words[position]} is no integer")

    def scopes(self, inst: Inst, *positions: int) -> None:
        """Scopes and semantics are constants."""
        for position in positions:
            self.integers(inst, position)
            if inst.words[position] not in self.declared.constants:
                raise self.fail(inst.at + position, f"id {inst.words[position]} is no constant")

    def writable(self, inst: Inst, storage: int) -> None:
        self.demand(inst, storage not in READ_ONLY, "a pointer to what cannot be written")

    def demand(self, inst: Inst, fits: bool, what: str = "operands or a result of types that it does not take") -> None:
        if not fits:
            raise self.fail(inst.at, f"opcode {inst.op} has {what}")

    def is_known(self, id: int) -> bool:
        declared = self.declared
        return bool(self.type_of(id)) or id in self.labels or id in declared.bodies or id in declared.sets

    def components(self, inst: Inst, mapping: str, positions: Sequence[int]) -> None:
        """Check an instruction that works component by component.

        mapping: the kinds of the result and of each operand: i, f, b any of that kind, = the same as the result, s and
        S integers alone. Operands of the same kind, written twice, have the same width.
        """
        result = self.declared.shape(inst.type_id)
        kind, _, operands = mapping.partition(" ")
        fits = result is not None and result.kind == kind and len(positions) == len(operands)
        widths: dict[str, int] = {}
        for letter, position in zip(operands, positions, strict=False):
            if not fits or result is None:
                break
            shape = self.shape(inst, position)
            if letter == "=":
                fits = shape == result
            elif letter in "sS":
                fits = shape.kind == "i" and shape.count == 1
            else:
                fits = shape.kind == letter and shape.count == result.count
                fits = fits and widths.setdefault(letter, shape.width) == shape.width
        self.demand(inst, fits)
