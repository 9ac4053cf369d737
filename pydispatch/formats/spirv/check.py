"""Checks SPIR-V modules before a driver sees them: drivers trust their input, and crash on malformed modules.

Checked are the order of sections, ids (bounds, defined once, of the right sort), operands, types, constants, variables,
decorations, entry points, and in functions blocks, branches and the types of operands (`functions`). Not checked
are capabilities against their uses, dominance and the nesting of control flow: spirv-val checks these, and
compiling runs it where it is installed. Instructions of extensions that are not known are passed over.

The specification is the source of every rule: "SPIR-V Specification 1.6", sections 2.4 (layout of a module), 2.16
(validation), 3.52 (instructions), and "Vulkan Environment for SPIR-V".
"""

from __future__ import annotations

import contextlib
import hashlib

from pydispatch.errors import ArtifactError
from pydispatch.formats.spirv.declarations import check_constant, check_type
from pydispatch.formats.spirv.declared import EXTENSIONS_FROM, SpirvDeclarations, check_variable
from pydispatch.formats.spirv.functions.check import check_functions
from pydispatch.formats.spirv.instruction import SpirvFunction, SpirvInstruction
from pydispatch.formats.spirv.module import read
from pydispatch.formats.spirv.names import DEBUG_SETS, GL_COMPUTE, LOCAL_SIZE, LOCAL_SIZE_ID, Decoration, Op, Storage
from pydispatch.formats.spirv.operands import locate_ids, patterns

MAX_CACHED_DIGESTS = 4096
"""Digests that are cached: fewer mean that programs with more modules are checked at each load."""
_valid_digests: dict[bytes, None] = {}
"""Digests of the last valid modules, for programs that are loaded repeatedly."""
_ONLY_OPENCL = frozenset((64, 69, 118, 119, 121, 122, 123, *range(158, 164), 300, 301, 302))
"""Opcodes that only OpenCL has: CopyMemorySized, generic pointers, saturating conversions, float classes, events."""

_SECTIONS: dict[int, int] = {
    Op.CAPABILITY: 0, Op.EXTENSION: 1, Op.EXT_INST_IMPORT: 2, Op.MEMORY_MODEL: 3, Op.ENTRY_POINT: 4,
    **dict.fromkeys((Op.EXECUTION_MODE, Op.EXECUTION_MODE_ID), 5),
    **dict.fromkeys((Op.SOURCE_CONTINUED, Op.SOURCE, Op.SOURCE_EXTENSION, Op.STRING), 6),
    **dict.fromkeys((Op.NAME, Op.MEMBER_NAME), 7), Op.MODULE_PROCESSED: 8,
    **dict.fromkeys((Op.DECORATE, Op.MEMBER_DECORATE, Op.DECORATION_GROUP, Op.GROUP_DECORATE, Op.GROUP_MEMBER_DECORATE,
                     Op.DECORATE_ID, Op.DECORATE_STRING, Op.MEMBER_DECORATE_STRING), 9),
}  # fmt: skip
"""Opcode → number of its section in the order that SPIR-V prescribes, for the sections before the declarations."""
_DECLARATIONS, _FUNCTIONS = 10, 11
"""Numbers of the last two sections: types, constants and variables; functions."""
_ANYWHERE = frozenset((Op.NOP, Op.LINE, Op.NO_LINE))
"""Opcodes that every section may contain."""

_DECORATION_OPERANDS = {
    **dict.fromkeys((0, 2, 3, 4, 5, 8, 9, 10, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 28, 42), 0),
    **dict.fromkeys((1, 6, 7, 11, 27, 29, 30, 31, 32, 33, 34, 35, 36, 37, 39, 40, 43, 44, 45), 1),
}
"""Decoration → number of its operands, for decorations of the core specification where it is fixed."""


def check(data: bytes | bytearray | memoryview, what: str = "SPIR-V") -> None:
    """Check a SPIR-V module; raise ArtifactError with the index of the faulty word. `what` names the module in
    messages.

    A module whose bytes this process has found valid before is not checked again, unless its digest was evicted.
    """
    digest = hashlib.sha256(data).digest()
    if digest in _valid_digests:
        return
    _check(data, what)
    _valid_digests[digest] = None
    while len(_valid_digests) > MAX_CACHED_DIGESTS:
        with contextlib.suppress(KeyError, RuntimeError, StopIteration):  # another thread changed the dict meanwhile
            del _valid_digests[next(iter(_valid_digests))]


def _check(data: bytes | bytearray | memoryview, what: str) -> None:
    """Check a module without consulting the cache of valid modules."""
    checker = _ModuleChecker(SpirvDeclarations(read(data, what)))
    for inst in checker.tables.instructions:
        checker.check_instruction(inst)
    checker.finish()
    # Functions last: one may call another that is defined after it.
    check_functions(checker.declared, checker.has_unknown_instructions)


class _ModuleChecker:
    """Checker of one module: `check_instruction` is called with each instruction in order, and then `finish`.

    The functions are collected in `declared`; `check_functions` checks their code afterwards.

    Attributes:
        declared: Types, constants and variables that have been read so far.
        tables: Declarations of the whole module.
        section: Section of the last instruction, see _SECTIONS.
        function: Function that is being read; None between functions.
        results: Id → index of the word where the instruction begins that defines it.
        result_types: Id of a result → the id of its type, which determines the width of the literals of a switch.
        forward_pointers: Ids that OpTypeForwardPointer declares.
        decorations: Tuples (index of the word, decorated id, index of the decorated member or -1). They are checked at
            the end, because a decoration precedes the definition of its id.
        has_unknown_instructions: Whether the module has instructions of unknown extensions, which may define any id.
    """

    def __init__(self, declared: SpirvDeclarations) -> None:
        """Begin before the first instruction. `fail(index of a word, message)` returns the error to raise."""
        self.declared, self.tables, self.fail = declared, declared.tables, declared.fail
        self.section = 0  # the first one, of the capabilities
        self.function: SpirvFunction | None = None  # the function that is being read
        self.results: dict[int, int] = {}  # id -> index of the word where its definition begins
        self.result_types: dict[int, int] = {}  # id -> id of its type
        self.forward_pointers: set[int] = set()
        self.decorations: list[tuple[int, int, int]] = []  # index of the word, decorated id, decorated member or -1
        self.has_unknown_instructions = False

    def check_instruction(self, inst: SpirvInstruction) -> None:
        """Check one instruction of the module, and record what it declares.

        Checked are its section, which must not precede that of the last instruction (capabilities are first, functions
        last), its ids, the operands of types, constants and variables, and the operand counts of decorations. An
        instruction in a function is only added to the function: `check_functions` checks the code when the whole module
        is known.
        """
        op = inst.op
        if op not in patterns() or op in _ONLY_OPENCL:  # patterns(): operand patterns of the known opcodes
            if op < EXTENSIONS_FROM:
                raise self.fail(inst.at, f"opcode {op}, which shaders for compute do not have")
            self.has_unknown_instructions = True  # an instruction of an unknown extension
            return
        if op in _ANYWHERE:
            self._locate_ids(inst)
            return
        self._enter_section(inst)
        self._locate_ids(inst)
        if self.section == _FUNCTIONS:
            self._add_to_function(inst)
        elif self.section == _DECLARATIONS:
            self._check_declaration(inst)
        elif op == Op.EXT_INST_IMPORT:
            self.declared.sets[inst.id] = inst.text(2, self.fail)[0]  # the name of the instruction set
        elif op in (Op.DECORATE, Op.MEMBER_DECORATE):
            self._check_decoration(inst)

    def _enter_section(self, inst: SpirvInstruction) -> None:
        """Set `section` to that of an instruction; raise an error if it must not follow the instructions before it."""
        # An opcode that is not in `_SECTIONS`, such as OpVariable or OpUndef, is a declaration before the first
        # OpFunction, and code from there on.
        is_in_functions = inst.op == Op.FUNCTION or self.section == _FUNCTIONS
        section = _SECTIONS.get(inst.op, _FUNCTIONS if is_in_functions else _DECLARATIONS)
        if section < self.section:
            raise self.fail(inst.at, f"opcode {inst.op} after code that must follow it")
        if inst.op == Op.MEMORY_MODEL and self.section == section:
            raise self.fail(inst.at, "a second memory model")
        self.section = section

    def _locate_ids(self, inst: SpirvInstruction) -> None:
        """Set the positions of ids in an instruction, and check these ids.

        They must be below the module's bound, a result defined only once, and its type declared before.
        """
        locate_ids(inst, self.tables.bound, self.fail, self._case_words)
        if inst.type_word and inst.type_id not in self.declared.types:
            raise self.fail(inst.at + inst.type_word, f"id {inst.type_id} is no type that was declared before")
        if inst.result_word:
            if self.results.setdefault(inst.id, inst.at) != inst.at:
                raise self.fail(inst.at + inst.result_word, f"id {inst.id} is defined twice")
            if inst.type_word:
                self.result_types[inst.id] = inst.type_id

    def _case_words(self, selector: int) -> int:
        """Return the number of words of a case literal in an OpSwitch on this selector."""
        shape = self.declared.shape(self.result_types.get(selector, 0))
        return 2 if shape is not None and shape.width > 32 else 1

    # Functions

    def _add_to_function(self, inst: SpirvInstruction) -> None:
        """Add an instruction to the function that is being read."""
        if inst.op == Op.FUNCTION:
            self.function = self.declared.functions[inst.id] = SpirvFunction(inst)
        elif self.function is None:
            raise self.fail(inst.at, f"opcode {inst.op} between functions")
        elif inst.op == Op.FUNCTION_END:
            self.function = None
        else:
            self.function.append(inst, self.fail)

    # Declarations

    def _check_declaration(self, inst: SpirvInstruction) -> None:
        """Check and record a type, constant or variable at module scope.

        Debug information (OpExtInst of a debug set) is ignored; any other instruction is an error.
        """
        # The opcodes of types have consecutive numbers, and so have those of constants.
        op, declared = inst.op, self.declared
        if op == Op.TYPE_FORWARD_POINTER:
            self.forward_pointers.add(inst.words[1])
        elif Op.TYPE_VOID <= op <= Op.TYPE_FUNCTION:
            check_type(declared, inst, self.forward_pointers)
            declared.types[inst.id] = op, inst.words[2:]
        elif Op.CONSTANT_TRUE <= op <= Op.SPEC_CONSTANT_OP or op == Op.UNDEF:
            check_constant(declared, inst)
            declared.constants[inst.id] = inst
            declared.values[inst.id] = inst.type_id
        elif op == Op.VARIABLE:
            self._check_variable(inst)
            declared.values[inst.id] = inst.type_id
        elif op != Op.EXT_INST or not declared.sets.get(inst.words[3], "").startswith(DEBUG_SETS):
            raise self.fail(inst.at, f"opcode {op} outside a function")

    def _check_variable(self, inst: SpirvInstruction) -> None:
        """Check a variable at module scope: its type, storage class and initializer."""
        declared, storage = self.declared, inst.words[3]
        pointee = declared.pointee(inst.type_id)
        if pointee is None or pointee.storage != storage:
            raise self.fail(inst.at, f"a variable of storage class {storage} whose type, id {inst.type_id}, is another")
        if storage == Storage.FUNCTION:
            raise self.fail(inst.at, "a variable of a function outside functions")
        initializer = inst.words[inst.id_positions[0]] if inst.id_positions else None  # the one id besides its type
        if initializer is not None and initializer not in declared.values:
            raise self.fail(inst.at, "a variable that begins with something that is no constant or variable before it")
        if initializer is not None and declared.values[initializer] != pointee.type:
            raise self.fail(inst.at, f"a variable that begins with id {initializer}, which has another type")
        check_variable(declared, inst, pointee.type)

    def _check_decoration(self, inst: SpirvInstruction) -> None:
        """Check the operand count of a decoration, and record its target, which may be defined later."""
        # OpDecorate id decoration operands...; OpMemberDecorate id member decoration operands...
        if inst.op == Op.MEMBER_DECORATE:
            _, target, member, decoration, *operands = inst.words
        else:
            _, target, decoration, *operands = inst.words
            member = -1
        expected = _DECORATION_OPERANDS.get(decoration)  # None for an unknown or variable number
        if expected is not None and len(operands) != expected:
            raise self.fail(inst.at, f"decoration {decoration} with {len(operands)} operands, expected {expected}")
        self.decorations.append((inst.at, target, member))

    # The whole

    def finish(self) -> None:
        """Check what requires the whole module: targets of decorations, entry points, layouts of buffers."""
        self._check_decoration_targets()
        self._check_entry_points()
        self._check_layouts()

    def _check_decoration_targets(self) -> None:
        """Check that each decoration has a target that exists: an id, or a member of a struct."""
        declared = self.declared
        for at, target, member in self.decorations:  # `at`: index of the decoration's word in the module
            if target not in self.results and not self.has_unknown_instructions:  # unknown ones may define any id
                raise self.fail(at, f"a decoration of id {target}, which is not defined")
            is_struct, member_count = declared.opcode(target) == Op.TYPE_STRUCT, declared.parts(target).length
            decorates_member = member >= 0
            if decorates_member and not (is_struct and member < member_count):  # type: ignore[operator]
                raise self.fail(at, f"a decoration of member {member} of id {target}, which has none such")

    def _check_entry_points(self) -> None:
        """Check that entry points are functions `void f()` with code, whose interfaces consist of variables."""
        declared, tables = self.declared, self.tables
        for entry in tables.entry_points:
            function = declared.functions[entry.function]
            where = f"{tables.what}: entry point '{entry.name}'"
            if not function.body or function.parameters or declared.opcode(function.head.type_id) != Op.TYPE_VOID:
                raise ArtifactError(f"{where} is a function with parameters or a result, or without code")
            for id in entry.interface:
                if id not in tables.variables:
                    raise ArtifactError(f"{where} names id {id} in its interface, which is no variable")
            if entry.model == GL_COMPUTE:
                self._check_workgroup_size(entry.function, where)

    def _check_workgroup_size(self, function: int, where: str) -> None:
        """Check the workgroup size of the entry point with the id `function`. `where` is the prefix of messages."""
        for mode, operands in self.tables.modes.get(function, ()):
            if mode in (LOCAL_SIZE, LOCAL_SIZE_ID) and len(operands) != 3:
                raise ArtifactError(f"{where} has a workgroup size of {len(operands)} numbers, expected 3")
            if mode == LOCAL_SIZE_ID and any(not self._is_count(id) for id in operands):
                raise ArtifactError(f"{where} has a workgroup size of ids that are no integer constants")

    def _is_count(self, id: int) -> bool:
        """Return whether an id can be a size of a workgroup: whether it is an integer constant."""
        return id in self.declared.constants and self.declared.is_integer(self.declared.values[id])

    def _check_layouts(self) -> None:
        """Check the types of all buffers, including nested types, for explicit layouts."""
        declared, seen = self.declared, set[int]()
        for type_, storage in self.tables.variables.values():
            if storage not in (Storage.STORAGE_BUFFER, Storage.UNIFORM, Storage.PUSH_CONSTANT):
                continue
            pointee = declared.pointee(type_)
            pending = [pointee.type] if pointee is not None else []
            while pending:
                id = pending.pop()
                if id in seen:
                    continue
                seen.add(id)
                self._check_layout(id)
                pending.extend(declared.parts(id).types)

    def _check_layout(self, id: int) -> None:
        """Check that a type in a buffer states where its parts are: each array its ArrayStride (bytes from one element
        to the next), each struct member its Offset. A bool has no size in a buffer, and is rejected.

        Only the type itself is checked; `_check_layouts` passes its nested types one by one.
        """
        declared, tables = self.declared, self.tables
        op, operands = declared.type(id)
        at = self.results.get(id, 0)
        if op in (Op.TYPE_ARRAY, Op.TYPE_RUNTIME_ARRAY):
            element = operands[0]
            is_array_of_buffers = (  # has no stride
                declared.opcode(element) == Op.TYPE_STRUCT and tables.decoration(element, Decoration.BLOCK) is not None
            )
            if not tables.decoration(id, Decoration.ARRAY_STRIDE) and not is_array_of_buffers:
                raise self.fail(at, f"the array type {id} of a buffer has no ArrayStride")
        if op == Op.TYPE_STRUCT:
            for member in range(len(operands)):
                if Decoration.OFFSET not in tables.member_decorations.get((id, member), {}):
                    raise self.fail(at, f"member {member} of the structure type {id} of a buffer has no Offset")
        if op == Op.TYPE_BOOL:
            raise self.fail(at, "a bool in a buffer, which has no size there")
