"""A SPIR-V module parsed for linking: its instructions by section, with the positions of their ids.

Everything is checked that linking relies on: ids are defined once, types and constants before their use, functions are
whole. ArtifactError names the word.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pydispatch.formats.spirv.declared import Pointer
from pydispatch.formats.spirv.instruction import SpirvFunction, SpirvInstruction
from pydispatch.formats.spirv.module import SpirvTables, read
from pydispatch.formats.spirv.names import DEBUG_SETS, Decoration, Op, Storage
from pydispatch.formats.spirv.operands import locate_ids

_DEBUG = frozenset((Op.NOP, Op.SOURCE_CONTINUED, Op.SOURCE, Op.SOURCE_EXTENSION, Op.MODULE_PROCESSED, Op.LINE,
                    Op.NO_LINE, Op.STRING))  # fmt: skip
"""Opcodes that only inform debuggers; linking drops them."""
_DECORATIONS = frozenset((Op.DECORATE, Op.MEMBER_DECORATE, Op.DECORATE_ID, Op.DECORATE_STRING,
                          Op.MEMBER_DECORATE_STRING))  # fmt: skip
"""Opcodes that decorate one id or member."""
_DECORATION_GROUPS = frozenset((Op.DECORATION_GROUP, Op.GROUP_DECORATE, Op.GROUP_MEMBER_DECORATE))
"""Opcodes that decorate several ids at once; linking refuses them."""
_BEFORE_TYPES = frozenset((Op.NAME, Op.MEMBER_NAME, Op.CAPABILITY, Op.EXTENSION, Op.MEMORY_MODEL, Op.ENTRY_POINT,
                           Op.EXECUTION_MODE, Op.EXECUTION_MODE_ID, Op.EXT_INST_IMPORT))  # fmt: skip
"""Opcodes of the sections before the types, besides decorations and debug information."""


@dataclass
class SpirvParts:
    """SPIR-V module as the linker reads it: its functions, globals and decorations.

    Decorations whose operands are ids or strings are left out: none of them matters to compute shaders.

    Attributes:
        tables: Declarations of the module.
        addressing: Addressing model of OpMemoryModel; 0 is logical.
        memory: Memory model of OpMemoryModel; 1 is GLSL450.
        sets: Name of each imported set of extended instructions, by id.
        globals: Types, constants and variables, by id.
        functions: Functions, by id.
        decorations: By target, tuples (decoration, operands...).
        member_decorations: By struct type, tuples (member, decoration, operands...).
        member_names: By struct type, the words of each OpMemberName after the type.
    """

    tables: SpirvTables
    addressing: int = 0
    memory: int = 1
    sets: dict[int, str] = field(default_factory=dict)
    globals: dict[int, SpirvInstruction] = field(default_factory=dict)
    functions: dict[int, SpirvFunction] = field(default_factory=dict)
    decorations: dict[int, list[tuple[int, ...]]] = field(default_factory=dict)
    member_decorations: dict[int, list[tuple[int, ...]]] = field(default_factory=dict)
    member_names: dict[int, list[tuple[int, ...]]] = field(default_factory=dict)

    def decorated(self, id: int, kind: int) -> bool:
        """Return whether an id has a decoration of this kind, a number of `Decoration`."""
        return self.tables.decoration(id, kind) is not None

    def type_of(self, id: int) -> int:
        """Return the type of a global value; 0 for an id that is no global value."""
        inst = self.globals.get(id)
        return inst.type_id if inst is not None else 0

    def pointee(self, type_: int) -> Pointer | None:
        """Return the storage class and the pointee of a pointer type; None for other types."""
        inst = self.globals.get(type_)
        if inst is None or inst.op != Op.TYPE_POINTER:
            return None
        return Pointer(storage=inst.words[2], type=inst.words[3])

    def is_buffer(self, type_: int) -> bool:
        """Return whether a type is a pointer into a storage buffer."""
        pointee = self.pointee(type_)
        return pointee is not None and pointee.storage == Storage.STORAGE_BUFFER


def read_parts(data: bytes | bytearray | memoryview, what: str = "SPIR-V") -> SpirvParts:
    """Parse a module for linking; raise ArtifactError if it is broken or cannot be linked. `what` names it in
    messages."""
    reader = _PartsReader(SpirvParts(read(data, what)))
    for inst in reader.parts.tables.instructions:
        reader.add(inst)
    reader.check()
    return reader.parts


class _PartsReader:
    """Builder of SpirvParts: `add` is called with each instruction in order, and then `check`.

    Attributes:
        parts: The parts, which are filled.
        fail: Function (index of a word in the module, message) → the error to raise, SpirvTables.fail.
        types: Id of a value → the id of its type.
        defined: Ids that have a definition.
        function: Function that is being read; None between functions.
    """

    def __init__(self, parts: SpirvParts) -> None:
        """Begin before the first instruction, outside of any function."""
        self.parts, self.fail = parts, parts.tables.fail
        self.types: dict[int, int] = {}  # id of a value -> id of its type
        self.defined: set[int] = set()
        self.function: SpirvFunction | None = None  # the function that is being read

    def add(self, inst: SpirvInstruction) -> None:
        """Add one instruction to its section or function; drop it if it only has information for debuggers."""
        op, parts = inst.op, self.parts
        # Instructions that are dropped or refused.
        if op in _DEBUG:
            return
        if op in _DECORATION_GROUPS:
            raise self.fail(
                inst.at, "groups of decorations cannot be linked; spirv-opt --flatten-decorations removes them"
            )
        if op == Op.TYPE_FORWARD_POINTER:
            raise self.fail(inst.at, "pointers declared ahead (physical addresses) cannot be linked")
        # The sections before the types; then types, constants and variables; then functions.
        if op in _BEFORE_TYPES or op in _DECORATIONS:
            self._record_before_types(inst)
            return
        self._locate_ids(inst)
        if inst.result_word:
            self._record_definition(inst)
        if op == Op.FUNCTION:
            self.function = parts.functions[inst.id] = SpirvFunction(inst)
        elif op == Op.FUNCTION_END:
            self.function = None
        elif self.function is None:
            self._add_global(inst)
        else:
            self.function.append(inst, self.fail)

    def _locate_ids(self, inst: SpirvInstruction) -> None:
        """Find the ids of an instruction, and check that they are in bounds and that its type is declared before."""
        locate_ids(inst, self.parts.tables.bound, self.fail, self._case_words)
        type_ = self.parts.globals.get(inst.type_id)
        if inst.type_word and (type_ is None or not Op.TYPE_VOID <= type_.op <= Op.TYPE_FUNCTION):
            raise self.fail(inst.at + inst.type_word, f"id {inst.type_id} is no type that was declared before")

    def _record_definition(self, inst: SpirvInstruction) -> None:
        """Record the definition of an id; raise ArtifactError if it is defined twice."""
        if inst.id in self.defined:
            raise self.fail(inst.at, f"id {inst.id} is defined twice")
        self.defined.add(inst.id)
        if inst.type_word:
            self.types[inst.id] = inst.type_id

    def _add_global(self, inst: SpirvInstruction) -> None:
        """Add a type, constant or variable to `globals`; raise an error if an id it uses is not defined before it."""
        parts = self.parts
        if not inst.result_word:
            raise self.fail(inst.at, f"opcode {inst.op} outside a function")
        if inst.op == Op.EXT_INST:  # debug information of a whole module
            if not parts.sets.get(inst.words[3], "").startswith(DEBUG_SETS):
                raise self.fail(inst.at, "an instruction of an extended set outside a function")
            return
        for id in inst.uses():
            if id not in parts.globals:
                raise self.fail(inst.at, f"opcode {inst.op} uses id {id}, which is not declared before it")
        parts.globals[inst.id] = inst

    def _record_before_types(self, inst: SpirvInstruction) -> None:
        """Record an instruction that precedes types, such as an import of an instruction set."""
        parts, op, words = self.parts, inst.op, inst.words
        if op == Op.MEMORY_MODEL:  # words: opcode, addressing model, memory model
            parts.addressing, parts.memory = words[1], words[2]
        elif op == Op.EXT_INST_IMPORT:  # words: opcode, result, name
            parts.sets[words[1]] = inst.text(2, self.fail)[0]
            self.defined.add(words[1])
        elif op == Op.MEMBER_NAME and len(words) > 3:  # words: opcode, struct, member, name; dropped without a name
            parts.member_names.setdefault(words[1], []).append(tuple(words[2:]))
        elif op == Op.MEMBER_DECORATE:  # words: opcode, struct, member, decoration, operands
            parts.member_decorations.setdefault(words[1], []).append(tuple(words[2:]))
        elif op == Op.DECORATE and words[2] != Decoration.LINKAGE:  # `tables.linkage` has the linkage
            parts.decorations.setdefault(words[1], []).append(tuple(words[2:]))

    def _case_words(self, selector: int) -> int:
        """Return the number of words of a case literal of a switch, by the type of its selector, an id."""
        type_ = self.parts.globals.get(self.types.get(selector, 0))
        return 2 if type_ is not None and type_.op == Op.TYPE_INT and type_.words[2] > 32 else 1

    def check(self) -> None:
        """Check that each function has a valid type and that each id in its body is defined.

        These checks require that the whole module has been read.
        """
        parts = self.parts
        for function in parts.functions.values():
            function_type = function.head.words[4]  # OpFunction result_type result control function_type
            type_ = parts.globals.get(function_type)
            if type_ is None or type_.op != Op.TYPE_FUNCTION:
                raise self.fail(function.head.at, f"the type {function_type} of a function is no function type")
            _, _, result_type, *parameter_types = type_.words  # OpTypeFunction result result_type parameter_types...
            has_parameters = [p.type_id for p in function.parameters] == parameter_types
            if not has_parameters or function.head.type_id != result_type:
                raise self.fail(function.head.at, "a function does not have the parameters and result of its type")
            self._check_body(function)

    def _check_body(self, function: SpirvFunction) -> None:
        """Check the ids and the calls in a function body."""
        parts = self.parts
        local_ids = {inst.id for inst in (*function.parameters, *function.body) if inst.result_word}
        for inst in function.body:
            if inst.op == Op.EXT_INST and inst.words[3] not in parts.sets:
                raise self.fail(inst.at, f"id {inst.words[3]} is no set of instructions")
            if inst.op == Op.EXT_INST and parts.sets[inst.words[3]].startswith(DEBUG_SETS):
                # Debug instructions may use others outside of functions, which `globals` does not have.
                continue
            for position in inst.id_positions:
                id = inst.words[position]
                if inst.op == Op.FUNCTION_CALL and position == 3:  # the callee; arguments follow it
                    self._check_callee(inst)
                elif id not in local_ids and id not in parts.globals and id not in parts.sets:
                    raise self.fail(inst.at, f"id {id} is not defined")

    def _check_callee(self, inst: SpirvInstruction) -> None:
        """Check that `OpFunctionCall type result function arguments...` calls a function with as many parameters."""
        callee, argument_count = inst.words[3], len(inst.words) - 4
        if callee not in self.parts.functions:
            raise self.fail(inst.at, f"a call of id {callee}, which is no function")
        if len(self.parts.functions[callee].parameters) != argument_count:
            raise self.fail(inst.at, f"a call of id {callee} with {argument_count} arguments")
