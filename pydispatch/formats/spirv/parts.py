"""A SPIR-V module parsed for linking: its instructions by section, with the positions of their ids.

Everything is checked that linking relies on: ids are defined once, types and constants before their use, functions are
whole. ArtifactError names the word.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from pydispatch.errors import ArtifactError
from pydispatch.formats.spirv.module import SpirvTables, instructions, read, text_at
from pydispatch.formats.spirv.names import Decoration, Op
from pydispatch.formats.spirv.operands import id_positions

LINE, NO_LINE, STRING, EXT_INST, UNDEF, LABEL = 8, 317, 7, 12, 1, 248
_DEBUG = frozenset((0, 2, 3, 4, 330, LINE, NO_LINE, STRING))
_DECORATIONS = frozenset((71, 72, 332, 5632, 5633))
_GROUPS = frozenset((73, 74, 75))
_HEAD = frozenset((Op.NAME, 6, Op.CAPABILITY, Op.EXTENSION, Op.MEMORY_MODEL, Op.ENTRY_POINT, Op.EXECUTION_MODE,
                   Op.EXECUTION_MODE_ID, Op.EXT_INST_IMPORT))  # fmt: skip
FORWARD_POINTER = 39
DEBUG_SETS = ("NonSemantic.", "OpenCL.DebugInfo", "DebugInfo")


@dataclass
class Inst:
    """SPIR-V instruction.

    Attributes:
        words: all words of the instruction.
        type, result: index in `words` of the type id and of the result id, 0 without one.
        ids: indices in `words` of the other ids.
        at: index of the first word in the module.
    """

    op: int
    words: list[int]
    type: int
    result: int
    ids: list[int]
    at: int

    @property
    def id(self) -> int:
        """Return the id of the result; 0 if there is none."""
        return self.words[self.result] if self.result else 0

    @property
    def type_id(self) -> int:
        return self.words[self.type] if self.type else 0

    def uses(self) -> Iterator[int]:
        """Yield the ids that the instruction uses, including its type."""
        if self.type:
            yield self.words[self.type]
        for position in self.ids:
            yield self.words[position]


@dataclass
class SpirvFunction:
    """SPIR-V function: its OpFunction (`head`), parameters and body.

    The body starts with the first label and excludes OpFunctionEnd. It is empty for a declaration.
    """

    head: Inst
    parameters: list[Inst] = field(default_factory=list)
    body: list[Inst] = field(default_factory=list)


@dataclass
class SpirvParts:
    """SPIR-V module parsed for linking.

    Decorations whose operands are ids or strings are left out: none of them matters to compute shaders.

    Attributes:
        decorations: By target, tuples (decoration, operands...).
        member_decorations: By struct type, tuples (member, decoration, operands...).
    """

    what: str
    tables: SpirvTables
    addressing: int = 0
    memory: int = 1
    sets: dict[int, str] = field(default_factory=dict)
    globals: dict[int, Inst] = field(default_factory=dict)
    functions: dict[int, SpirvFunction] = field(default_factory=dict)
    decorations: dict[int, list[tuple[int, ...]]] = field(default_factory=dict)
    member_decorations: dict[int, list[tuple[int, ...]]] = field(default_factory=dict)
    member_names: dict[int, list[tuple[int, ...]]] = field(default_factory=dict)

    def fail(self, at: int, text: str) -> ArtifactError:
        return ArtifactError(f"{self.what}: word {at}: {text}")

    def decorated(self, id: int, kind: int) -> bool:
        return self.tables.decoration(id, kind) is not None

    def type_of(self, id: int) -> int:
        """Return the type of a global value; 0 for an id that is no global value."""
        inst = self.globals.get(id)
        return inst.type_id if inst is not None else 0

    def pointee(self, type_: int) -> tuple[int, int] | None:
        """Return the storage class and the pointee of a pointer type; None for other types."""
        inst = self.globals.get(type_)
        if inst is None or inst.op != Op.TYPE_POINTER:
            return None
        return inst.words[2], inst.words[3]


def read_parts(data: bytes | bytearray | memoryview, what: str = "SPIR-V") -> SpirvParts:
    """Parse a module for linking; raise ArtifactError if it is broken or cannot be linked. `what` names it in
    messages."""
    words, tables = read(data, what)
    reader = _PartsReader(words, SpirvParts(what, tables))
    for opcode, first, last in instructions(words, what):
        reader.take(opcode, first, last)
    reader.check()
    return reader.parts


class _PartsReader:
    """Builder of SpirvParts from a sequence of instructions."""

    def __init__(self, words: Sequence[int], parts: SpirvParts) -> None:
        self.words, self.parts = words, parts
        self.types: dict[int, int] = {}  # value → its type
        self.defined: set[int] = set()
        self.function: SpirvFunction | None = None

    def take(self, opcode: int, first: int, last: int) -> None:
        """Parse one instruction and add it to its section or function."""
        if opcode in _DEBUG:
            return
        parts = self.parts
        if opcode in _GROUPS:
            raise parts.fail(
                first, "groups of decorations cannot be linked; spirv-opt --flatten-decorations removes them"
            )
        if opcode == FORWARD_POINTER:
            raise parts.fail(first, "pointers declared ahead (physical addresses) cannot be linked")
        if opcode in _HEAD or opcode in _DECORATIONS:
            self._head(opcode, first, last)
            return
        inst = self._inst(opcode, first, last)
        if inst.result:
            self._define(inst)
        if opcode == Op.FUNCTION:
            self.function = parts.functions[inst.id] = SpirvFunction(inst)
        elif opcode == Op.FUNCTION_END:
            self.function = None
        elif self.function is None:
            self._global(inst)
        elif opcode == Op.FUNCTION_PARAMETER:
            if self.function.body:
                raise parts.fail(first, "a parameter after the beginning of a function")
            self.function.parameters.append(inst)
        else:
            if not self.function.body and opcode != LABEL:
                raise parts.fail(first, f"a function begins with opcode {opcode}, expected a label")
            self.function.body.append(inst)

    def _inst(self, opcode: int, first: int, last: int) -> Inst:
        """Parse an instruction; raise ArtifactError if one of its ids is out of bounds."""
        parts, words = self.parts, self.words
        type_, result, ids = id_positions(words, opcode, first, last, parts.fail, self._case_words)
        for position in (type_, result, *ids):
            if position and not 0 < words[position] < parts.tables.bound:
                raise parts.fail(position, f"id {words[position]}, the bound is {parts.tables.bound}")
        own = list(words[first:last])
        inst = Inst(
            opcode,
            own,
            type_ and type_ - first,
            result and result - first,
            [position - first for position in ids],
            first,
        )
        type_inst = parts.globals.get(inst.type_id)
        if inst.type and (type_inst is None or not Op.TYPE_VOID <= type_inst.op <= Op.TYPE_FUNCTION):
            raise parts.fail(first + inst.type, f"id {inst.type_id} is no type that was declared before")
        return inst

    def _define(self, inst: Inst) -> None:
        """Record the definition of an id; raise ArtifactError if it is defined twice."""
        if inst.id in self.defined:
            raise self.parts.fail(inst.at, f"id {inst.id} is defined twice")
        self.defined.add(inst.id)
        if inst.type:
            self.types[inst.id] = inst.type_id

    def _global(self, inst: Inst) -> None:
        """Add a type, constant or variable whose operands are defined before it."""
        parts = self.parts
        if not inst.result:
            raise parts.fail(inst.at, f"opcode {inst.op} outside a function")
        if inst.op == EXT_INST:  # debug information of a whole module
            if not parts.sets.get(inst.words[3], "").startswith(DEBUG_SETS):
                raise parts.fail(inst.at, "an instruction of an extended set outside a function")
            return
        for id in inst.uses():
            if id not in parts.globals:
                raise parts.fail(inst.at, f"opcode {inst.op} uses id {id}, which is not declared before it")
        parts.globals[inst.id] = inst

    def _head(self, opcode: int, first: int, last: int) -> None:
        """Record an instruction that precedes types, such as an import of an instruction set."""
        parts, words = self.parts, self.words
        if opcode == Op.MEMORY_MODEL:
            parts.addressing, parts.memory = words[first + 1], words[first + 2]
        elif opcode == Op.EXT_INST_IMPORT:
            parts.sets[words[first + 1]] = text_at(words, first + 2, last, parts.what)[0]
            self.defined.add(words[first + 1])
        elif opcode == 6 and last - first > 3:
            parts.member_names.setdefault(words[first + 1], []).append(tuple(words[first + 2 : last]))
        elif opcode == Op.MEMBER_DECORATE:
            parts.member_decorations.setdefault(words[first + 1], []).append(tuple(words[first + 2 : last]))
        elif opcode == Op.DECORATE and words[first + 2] != Decoration.LINKAGE:
            parts.decorations.setdefault(words[first + 1], []).append(tuple(words[first + 2 : last]))

    def _case_words(self, selector: int) -> int:
        type_ = self.parts.globals.get(self.types.get(selector, 0))
        return 2 if type_ is not None and type_.op == Op.TYPE_INT and type_.words[2] > 32 else 1

    def check(self) -> None:
        """Check that each function has a valid type and that each id in its body is defined.

        These checks require that the whole module has been read.
        """
        parts = self.parts
        for function in parts.functions.values():
            type_ = parts.globals.get(function.head.words[4])
            if type_ is None or type_.op != Op.TYPE_FUNCTION:
                raise parts.fail(
                    function.head.at, f"the type {function.head.words[4]} of a function is no function type"
                )
            wanted = type_.words[3:]
            parameter_types = [p.type_id for p in function.parameters]
            if wanted != parameter_types or type_.words[2] != function.head.type_id:
                raise parts.fail(function.head.at, "a function does not have the parameters and result of its type")
            self._check_body(function)

    def _check_body(self, function: SpirvFunction) -> None:
        """Check the ids and the calls in a function body."""
        parts = self.parts
        own = {inst.id for inst in (*function.parameters, *function.body) if inst.result}
        for inst in function.body:
            if inst.op == EXT_INST and inst.words[3] not in parts.sets:
                raise parts.fail(inst.at, f"id {inst.words[3]} is no set of instructions")
            if inst.op == EXT_INST and parts.sets[inst.words[3]].startswith(DEBUG_SETS):
                continue
            for position in inst.ids:
                id = inst.words[position]
                if inst.op == Op.FUNCTION_CALL and position == 3:
                    if id not in parts.functions:
                        raise parts.fail(inst.at, f"a call of id {id}, which is no function")
                    if len(parts.functions[id].parameters) != len(inst.words) - 4:
                        raise parts.fail(inst.at, f"a call of id {id} with {len(inst.words) - 4} arguments")
                elif id not in own and id not in parts.globals and id not in parts.sets:
                    raise parts.fail(inst.at, f"id {id} is not defined")
