"""Reads SPIR-V modules: untrusted bytes → checked instructions → tables of declarations.

What is read stays inside the bytes; a module that is broken raises ArtifactError with the word where it is. Whether the
code of functions is valid is not checked here: see `check.py`, spirv-val and drivers.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from pydispatch.errors import ArtifactError
from pydispatch.formats.spirv.instruction import SpirvInstruction
from pydispatch.formats.spirv.names import Decoration, Op, capability_name

MAGIC = 0x07230203
"""First word of a module."""
SWAPPED = 0x03022307  # the magic number in the other byte order
HEADER_WORDS = 5
"""Words before the first instruction."""
MAX_BOUND = 0x3FFFFF  # largest bound of a module's ids, a universal limit of the SPIR-V specification

Words = Sequence[int]
"""32-bit words of a module."""


@dataclass(frozen=True)
class EntryPointRecord:
    """Entry point of a SPIR-V module, as OpEntryPoint declares it.

    Attributes:
        model: Execution model; GL_COMPUTE (5) for a compute shader.
        function: Id of the function.
        name: Name.
        interface: Ids of the interface variables.
    """

    model: int
    function: int
    name: str
    interface: tuple[int, ...]


@dataclass
class SpirvTables:
    """Declarations of a SPIR-V module by id. Operand lists contain the words after the result id.

    Attributes:
        what: Name of the module in messages.
        version: Pair (major, minor).
        bound: Number that is greater than all ids.
        capabilities: Numbers of the capabilities that the module declares.
        extensions: Names of the extensions that it declares.
        entry_points: Entry points in order.
        modes: Function → its execution modes, pairs (mode, operands).
        names: Id → its name for debuggers.
        decorations: Id → its decorations: kind → operands.
        member_decorations: (struct type, index of the member) → decorations.
        linkage: Id → (symbol, kind of linkage: 0 for an export, 1 for an import).
        types: Type → (opcode, operands).
        constants: Constant → (opcode, type, operands).
        variables: Variable → (type, storage class).
        initializers: Variable that has an initializer → this constant, or variable whose address it is.
        functions: Function → its instructions, without OpFunction and OpFunctionEnd.
        instructions: All instructions in order.
    """

    what: str
    version: tuple[int, int]
    bound: int
    capabilities: list[int] = field(default_factory=list)
    extensions: list[str] = field(default_factory=list)
    entry_points: list[EntryPointRecord] = field(default_factory=list)
    modes: dict[int, list[tuple[int, tuple[int, ...]]]] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    decorations: dict[int, dict[int, tuple[int, ...]]] = field(default_factory=dict)
    member_decorations: dict[tuple[int, int], dict[int, tuple[int, ...]]] = field(default_factory=dict)
    linkage: dict[int, tuple[str, int]] = field(default_factory=dict)
    types: dict[int, tuple[int, tuple[int, ...]]] = field(default_factory=dict)
    constants: dict[int, tuple[int, int, tuple[int, ...]]] = field(default_factory=dict)
    variables: dict[int, tuple[int, int]] = field(default_factory=dict)
    initializers: dict[int, int] = field(default_factory=dict)
    functions: dict[int, list[SpirvInstruction]] = field(default_factory=dict)
    instructions: list[SpirvInstruction] = field(default_factory=list)

    def fail(self, at: int, text: str) -> ArtifactError:
        """Return the error for a fault at the word of the module with index `at`."""
        return ArtifactError(f"{self.what}: word {at}: {text}")

    def decoration(self, id: int, kind: int) -> int | None:
        """Return the first operand of a decoration, 0 if it has no operand, None if the id lacks the decoration."""
        operands = self.decorations.get(id, {}).get(kind)
        if operands is None:
            return None
        return operands[0] if operands else 0


def words_of(data: bytes | bytearray | memoryview, what: str = "SPIR-V") -> array[int]:
    """Return the words of a module of either byte order as integers; raise ArtifactError if it is no SPIR-V."""
    size = len(data)
    if size < 4 * HEADER_WORDS or size % 4:
        raise ArtifactError(f"{what}: {size} bytes are no SPIR-V module, which has at least 20 and a multiple of 4")
    words = array("I")
    words.frombytes(bytes(data))
    if sys.byteorder == "big":
        words.byteswap()
    if words[0] == SWAPPED:
        words.byteswap()
    if words[0] != MAGIC:
        raise ArtifactError(f"{what}: no SPIR-V: it begins with 0x{words[0]:08X}, expected 0x{MAGIC:08X}")
    return words


def instructions(words: Words, what: str = "SPIR-V") -> Iterator[SpirvInstruction]:
    """Yield the instructions of a module; raise ArtifactError if one extends beyond the module."""
    at, end = HEADER_WORDS, len(words)
    while at < end:
        # The first word of an instruction has its number of words in the high half, and the opcode in the low half.
        count, opcode = words[at] >> 16, words[at] & 0xFFFF
        if count == 0 or count > end - at:
            raise ArtifactError(
                f"{what}: word {at}: an instruction (opcode {opcode}) of {count} words, {end - at} are left"
            )
        yield SpirvInstruction(opcode, list(words[at : at + count]), at)
        at += count


def read(data: bytes | bytearray | memoryview, what: str = "SPIR-V") -> SpirvTables:
    """Return the declarations and instructions of a module; raise ArtifactError if it is broken.

    `what` names the module in messages.
    """
    words = words_of(data, what)
    _, version_word, _, bound, _ = words[:HEADER_WORDS]  # magic number, version, generator, bound, 0
    version = (version_word >> 16 & 0xFF, version_word >> 8 & 0xFF)  # 0x00010600 is 1.6
    if version_word & 0xFF0000FF or version[0] != 1:
        raise ArtifactError(f"{what}: version word 0x{version_word:08X} is none of SPIR-V 1.x")
    if not 0 < bound <= MAX_BOUND:
        raise ArtifactError(f"{what}: the bound of its ids is {bound}, expected 1 to {MAX_BOUND}")
    reader = _TablesReader(SpirvTables(what, version, bound))
    for inst in instructions(words, what):
        reader.record(inst)
    reader.finish()
    return reader.tables


def is_spirv(data: bytes | bytearray | memoryview) -> bool:
    """Return whether the bytes start with the SPIR-V magic number in either byte order."""
    return len(data) >= 20 and bytes(data[:4]) in (MAGIC.to_bytes(4, "little"), MAGIC.to_bytes(4, "big"))


_LEAST_WORDS: dict[int, int] = {
    Op.NAME: 3, Op.EXTENSION: 2, Op.EXT_INST_IMPORT: 3, Op.MEMORY_MODEL: 3, Op.ENTRY_POINT: 4, Op.EXECUTION_MODE: 3,
    Op.EXECUTION_MODE_ID: 3, Op.CAPABILITY: 2, Op.TYPE_VOID: 2, Op.TYPE_BOOL: 2, Op.TYPE_INT: 4, Op.TYPE_FLOAT: 3,
    Op.TYPE_VECTOR: 4, Op.TYPE_MATRIX: 4, Op.TYPE_ARRAY: 4, Op.TYPE_RUNTIME_ARRAY: 3, Op.TYPE_STRUCT: 2,
    Op.TYPE_POINTER: 4, Op.TYPE_FUNCTION: 3, Op.CONSTANT_TRUE: 3, Op.CONSTANT_FALSE: 3, Op.CONSTANT: 4,
    Op.CONSTANT_COMPOSITE: 3, Op.SPEC_CONSTANT_TRUE: 3, Op.SPEC_CONSTANT_FALSE: 3, Op.SPEC_CONSTANT: 4,
    Op.SPEC_CONSTANT_COMPOSITE: 3, Op.SPEC_CONSTANT_OP: 4, Op.FUNCTION: 5, Op.FUNCTION_PARAMETER: 3,
    Op.FUNCTION_END: 1, Op.FUNCTION_CALL: 4, Op.VARIABLE: 4, Op.IMAGE_TEXEL_POINTER: 6, Op.LOAD: 4, Op.STORE: 3,
    Op.COPY_MEMORY: 3, Op.COPY_MEMORY_SIZED: 4, Op.ACCESS_CHAIN: 4, Op.IN_BOUNDS_ACCESS_CHAIN: 4,
    Op.PTR_ACCESS_CHAIN: 5, Op.ARRAY_LENGTH: 5, Op.IN_BOUNDS_PTR_ACCESS_CHAIN: 5, Op.DECORATE: 3,
    Op.MEMBER_DECORATE: 4, Op.COPY_OBJECT: 4, Op.ATOMIC_STORE: 5, Op.ATOMIC_FLAG_TEST_AND_SET: 4,
    Op.ATOMIC_FLAG_CLEAR: 2, Op.ATOMIC_F_MIN: 4, Op.ATOMIC_F_MAX: 4, Op.ATOMIC_F_ADD: 4,
}  # fmt: skip
"""Opcode → words that an instruction has at least."""

_TYPES = frozenset(range(Op.TYPE_VOID, Op.TYPE_FUNCTION + 1))
"""Opcodes that declare a type."""
_CONSTANTS = frozenset((
    *range(Op.CONSTANT_TRUE, Op.CONSTANT_COMPOSITE + 1), *range(Op.SPEC_CONSTANT_TRUE, Op.SPEC_CONSTANT_OP + 1),
))  # fmt: skip
"""Opcodes that declare a constant or a specialization constant."""


class _TablesReader:
    """Builder of a module's tables: `record` is called with each instruction in order, and then `finish`.

    Attributes:
        tables: The tables, which are filled.
        fail: Function (index of a word in the module, message) → the error to raise, SpirvTables.fail.
        function: Instructions so far of the function that is being read; None between functions.
        has_memory_model: Whether an OpMemoryModel has been read.
    """

    def __init__(self, tables: SpirvTables) -> None:
        """Begin before the first instruction, outside of any function."""
        self.tables, self.fail = tables, tables.fail
        self.function: list[SpirvInstruction] | None = None  # instructions of the function that is being read
        self.has_memory_model = False  # whether an OpMemoryModel has been read

    def id(self, inst: SpirvInstruction, position: int) -> int:
        """Return the id in word `position` of an instruction; raise ArtifactError if it is out of bounds."""
        value = inst.words[position]
        if not 0 < value < self.tables.bound:
            raise self.fail(inst.at + position, f"id {value}, the bound is {self.tables.bound}")
        return value

    def record(self, inst: SpirvInstruction) -> None:
        """Record one instruction: in the list of its function, or as a declaration of the module.

        Raise ArtifactError if it is too short, or begins or ends a function where that is not possible.
        """
        op, count = inst.op, len(inst.words)
        # Readers of the tables access these words without a check. An atomic instruction that is not listed has at
        # least the opcode, type, result and pointer.
        is_atomic = Op.ATOMIC_LOAD <= op <= Op.ATOMIC_LAST
        min_count = _LEAST_WORDS.get(op, 4 if is_atomic else 1)
        if count < min_count:
            raise self.fail(inst.at, f"opcode {op} has {count} words, expected at least {min_count}")
        self.tables.instructions.append(inst)
        if op == Op.FUNCTION:
            if self.function is not None:
                raise self.fail(inst.at, "a function inside a function")
            self.function = self.tables.functions.setdefault(self.id(inst, 2), [])
            if self.function:  # an earlier definition of the function has filled the list
                raise self.fail(inst.at, f"function {inst.words[2]} is defined twice")
        elif op == Op.FUNCTION_END:
            if self.function is None:
                raise self.fail(inst.at, "the end of a function that does not begin")
            self.function = None
        elif self.function is not None:
            self.function.append(inst)
        else:
            self.declare(inst)

    def declare(self, inst: SpirvInstruction) -> None:
        """Record an instruction outside of functions, such as a type, constant, variable, decoration or name."""
        tables, op, words = self.tables, inst.op, inst.words
        if op in _TYPES:  # words: opcode, result, operands
            tables.types[self.id(inst, 1)] = (op, tuple(words[2:]))
        elif op in _CONSTANTS:  # words: opcode, type, result, operands
            tables.constants[self.id(inst, 2)] = (op, self.id(inst, 1), tuple(words[3:]))
        elif op == Op.VARIABLE:  # words: opcode, type, result, storage class, optional initializer
            type_, variable, storage = self.id(inst, 1), self.id(inst, 2), words[3]
            tables.variables[variable] = (type_, storage)
            if len(words) > 4:
                tables.initializers[variable] = self.id(inst, 4)
        elif op in (Op.DECORATE, Op.MEMBER_DECORATE):
            self.decorate(inst)
        elif op == Op.NAME:  # words: opcode, named id, text
            tables.names[self.id(inst, 1)] = inst.text(2, self.fail)[0]
        else:
            self.declare_before_types(inst)

    def declare_before_types(self, inst: SpirvInstruction) -> None:
        """Record an instruction that precedes the types in a module, such as an entry point or execution mode."""
        tables, op, words = self.tables, inst.op, inst.words
        if op == Op.CAPABILITY:
            tables.capabilities.append(words[1])
        elif op == Op.EXTENSION:
            tables.extensions.append(inst.text(1, self.fail)[0])
        elif op == Op.MEMORY_MODEL:
            self.has_memory_model = True
        elif op == Op.ENTRY_POINT:  # words: opcode, execution model, function, name, interface variables
            name, after_name = inst.text(3, self.fail)
            interface = tuple(self.id(inst, position) for position in range(after_name, len(words)))
            tables.entry_points.append(EntryPointRecord(words[1], self.id(inst, 2), name, interface))
        elif op in (Op.EXECUTION_MODE, Op.EXECUTION_MODE_ID):  # words: opcode, function, mode, operands
            mode, operands = words[2], tuple(words[3:])
            tables.modes.setdefault(self.id(inst, 1), []).append((mode, operands))

    def decorate(self, inst: SpirvInstruction) -> None:
        """Record a decoration of an id or of a struct member."""
        tables, words, target = self.tables, inst.words, self.id(inst, 1)
        if inst.op == Op.MEMBER_DECORATE:  # words: opcode, struct, member, decoration, operands
            _, _, member, decoration, *operands = words
            tables.member_decorations.setdefault((target, member), {})[decoration] = tuple(operands)
            return
        _, _, decoration, *operands = words
        if decoration == Decoration.LINKAGE:  # operands: name, kind of linkage
            name, after_name = inst.text(3, self.fail)
            linkage = words[after_name] if after_name < len(words) else 0  # 0: an export
            tables.linkage[target] = (name, linkage)
        else:
            tables.decorations.setdefault(target, {})[decoration] = tuple(operands)

    def finish(self) -> None:
        """Raise ArtifactError unless the module is complete: its last function ends, it has a memory model, and its
        entry points name functions.
        """
        tables = self.tables
        if self.function is not None:
            raise ArtifactError(f"{tables.what}: its last function does not end")
        if not self.has_memory_model:
            raise ArtifactError(f"{tables.what}: it has no memory model")
        for entry in tables.entry_points:
            if entry.function not in tables.functions:
                raise ArtifactError(
                    f"{tables.what}: entry point '{entry.name}' names no function (id {entry.function})"
                )


def describe(tables: SpirvTables) -> str:
    """Return a one-line summary of a module for people."""
    names = ", ".join(entry.name for entry in tables.entry_points) or "none"
    capabilities = " ".join(capability_name(c) for c in tables.capabilities)
    return f"SPIR-V {tables.version[0]}.{tables.version[1]}; entry points: {names}; capabilities: {capabilities}"
