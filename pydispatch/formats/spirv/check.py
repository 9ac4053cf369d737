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
from collections.abc import Sequence

from pydispatch.errors import ArtifactError
from pydispatch.formats.spirv.declared import (
    EXTENSIONS_FROM,
    FUNCTION,
    NON_SEMANTIC,
    FunctionBody,
    Shape,
    SpirvDeclarations,
    check_variable,
)
from pydispatch.formats.spirv.functions.check import check_constant, check_functions
from pydispatch.formats.spirv.module import instructions, read
from pydispatch.formats.spirv.names import GL_COMPUTE, LOCAL_SIZE, LOCAL_SIZE_ID, Decoration, Op, Storage
from pydispatch.formats.spirv.operands import id_positions, patterns
from pydispatch.formats.spirv.parts import EXT_INST, FORWARD_POINTER, LABEL, LINE, NO_LINE, UNDEF, Inst

KEPT = 4096
_valid_digests: dict[bytes, None] = {}
"""Digests of the last valid modules, for programs that are loaded repeatedly."""
_KERNELS = frozenset((64, 69, 118, 119, 121, 122, 123, *range(158, 164), 300, 301, 302))
"""Opcodes that only OpenCL has."""

_SECTIONS = {
    Op.CAPABILITY: 0, Op.EXTENSION: 1, Op.EXT_INST_IMPORT: 2, Op.MEMORY_MODEL: 3, Op.ENTRY_POINT: 4,
    **dict.fromkeys((Op.EXECUTION_MODE, Op.EXECUTION_MODE_ID), 5), **dict.fromkeys((2, 3, 4, 7), 6),
    **dict.fromkeys((Op.NAME, 6), 7), 330: 8, **dict.fromkeys((71, 72, 73, 74, 75, 332, 5632, 5633), 9),
}  # fmt: skip
"""Opcode → its section, up to the annotations; then come types with constants and variables, functions."""
_DECLARATIONS, _FUNCTIONS = 10, 11
_ANYWHERE = frozenset((0, LINE, NO_LINE))

_DECORATION_OPERANDS = {
    **dict.fromkeys((0, 2, 3, 4, 5, 7 + 1, 9, 10, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 28, 42), 0),
    **dict.fromkeys((1, 6, 7, 11, 27, 29, 30, 31, 32, 33, 34, 35, 36, 37, 39, 40, 43, 44, 45), 1),
}
"""Decoration → its operands, for those of the core that have a fixed number."""


def check(data: bytes | bytearray | memoryview, what: str = "SPIR-V") -> None:
    """Check a SPIR-V module; raise ArtifactError with the index of the faulty word. `what` names the module in
    messages."""
    digest = hashlib.sha256(data).digest()
    if digest in _valid_digests:
        return
    _check(data, what)
    _valid_digests[digest] = None
    while len(_valid_digests) > KEPT:
        with contextlib.suppress(KeyError, RuntimeError, StopIteration):  # another thread was here
            del _valid_digests[next(iter(_valid_digests))]


def _check(data: bytes | bytearray | memoryview, what: str) -> None:
    """Check a module without consulting the cache of valid modules."""
    words, tables = read(data, what)
    reader = _ModuleChecker(SpirvDeclarations(words, tables, what))
    for opcode, first, last in instructions(words, what):
        reader.take(opcode, first, last)
    reader.finish()
    check_functions(reader.declared, reader.is_open)


class _ModuleChecker:
    """Checker of a module's instructions in order.

    Attributes:
        section: Section of the last instruction, see _SECTIONS.
        body: Function that is being read; None between functions.
        forward: Ids that OpTypeForwardPointer declares.
    """

    def __init__(self, declared: SpirvDeclarations) -> None:
        self.declared, self.words, self.tables = declared, declared.words, declared.tables
        self.section = 0
        self.body: FunctionBody | None = None
        self.results: dict[int, int] = {}  # id → the opcode that defines it
        self.local: dict[int, int] = {}  # values of functions → their types, for the literals of switches
        self.forward: set[int] = set()
        self.decorated: list[tuple[int, int, int]] = []  # (word, target, member or -1)
        self.is_open = False  # it has instructions that are not known

    def fail(self, at: int, text: str) -> ArtifactError:
        return self.declared.fail(at, text)

    def take(self, opcode: int, first: int, last: int) -> None:
        """Check one instruction: its place in the module, its ids, and what its section demands."""
        if opcode not in patterns() or opcode in _KERNELS:
            if opcode < EXTENSIONS_FROM:
                raise self.fail(first, f"opcode {opcode}, which shaders for compute do not have")
            self.is_open = True
            return
        if opcode in _ANYWHERE:
            self._inst(opcode, first, last)
            return
        section = _SECTIONS.get(opcode, _DECLARATIONS)
        if opcode == Op.FUNCTION or self.section == _FUNCTIONS:
            section = _FUNCTIONS if section >= _DECLARATIONS else section
        if section < self.section:
            raise self.fail(first, f"opcode {opcode} after code that must follow it")
        if opcode == Op.MEMORY_MODEL and self.section == section:
            raise self.fail(first, "a second memory model")
        self.section = section
        inst = self._inst(opcode, first, last)
        if section == _FUNCTIONS:
            self._code(inst)
        elif section == _DECLARATIONS:
            self._declaration(inst)
        elif opcode == Op.EXT_INST_IMPORT:
            from pydispatch.formats.spirv.module import text_at

            self.declared.sets[inst.id] = text_at(self.words, first + 2, last, self.declared.what)[0]
        elif opcode in (Op.DECORATE, Op.MEMBER_DECORATE):
            self._decoration(inst)

    def _inst(self, opcode: int, first: int, last: int) -> Inst:
        """Parse an instruction and check its ids: in bounds, result defined once, type declared before."""
        words = self.words
        type_, result, ids = id_positions(words, opcode, first, last, self.fail, self._case_words)
        bound = self.tables.bound
        for position in (type_, result, *ids):
            if position and not 0 < words[position] < bound:
                raise self.fail(position, f"id {words[position]}, the bound is {bound}")
        inst = Inst(
            opcode, list(words[first:last]), type_ and type_ - first, result and result - first,
            [position - first for position in ids], first,
        )  # fmt: skip
        if type_ and inst.type_id not in self.declared.types:
            raise self.fail(type_, f"id {inst.type_id} is no type that was declared before")
        if result:
            if self.results.setdefault(inst.id, first) != first:
                raise self.fail(result, f"id {inst.id} is defined twice")
            if type_:
                self.local[inst.id] = inst.type_id
        return inst

    def _case_words(self, selector: int) -> int:
        """Return the number of words of a case literal in an OpSwitch on this selector."""
        shape = self.declared.shape(self.local.get(selector, 0))
        return 2 if shape is not None and shape.width > 32 else 1

    # Functions

    def _code(self, inst: Inst) -> None:
        """Add an instruction to the function that is being read."""
        body = self.body
        if inst.op == Op.FUNCTION:
            self.body = self.declared.bodies[inst.id] = FunctionBody(inst)
        elif body is None:
            raise self.fail(inst.at, f"opcode {inst.op} between functions")
        elif inst.op == Op.FUNCTION_END:
            self.body = None
        elif inst.op == Op.FUNCTION_PARAMETER:
            if body.code:
                raise self.fail(inst.at, "a parameter after the beginning of a function")
            body.parameters.append(inst)
        else:
            if not body.code and inst.op != LABEL:
                raise self.fail(inst.at, f"a function begins with opcode {inst.op}, expected a label")
            body.code.append(inst)

    # Declarations

    def _declaration(self, inst: Inst) -> None:
        """Check and record a type, constant or variable at module scope."""
        op, declared = inst.op, self.declared
        if op == FORWARD_POINTER:
            self.forward.add(inst.words[1])
        elif Op.TYPE_VOID <= op <= Op.TYPE_FUNCTION:
            self._type(inst)
            declared.types[inst.id] = op, inst.words[2:]
        elif Op.CONSTANT_TRUE <= op <= Op.SPEC_CONSTANT_OP or op == UNDEF:
            self._constant(inst)
            declared.constants[inst.id] = inst
            declared.values[inst.id] = inst.type_id
        elif op == Op.VARIABLE:
            self._variable(inst)
            declared.values[inst.id] = inst.type_id
        elif op != EXT_INST or not declared.sets.get(inst.words[3], "").startswith(NON_SEMANTIC):
            raise self.fail(inst.at, f"opcode {op} outside a function")

    def _type(self, inst: Inst) -> None:
        """Check the operands of a type declaration."""
        op, words, declared = inst.op, inst.words[2:], self.declared
        for position in inst.ids:
            id = inst.words[position]
            is_length = op == Op.TYPE_ARRAY and position == 3
            if is_length:
                length = declared.number(id)
                if id not in declared.constants or not declared.is_integer(declared.values[id]) or length == 0:
                    raise self.fail(inst.at + position, f"the length of an array is id {id}, which is no count")
            elif id not in declared.types and not (op == Op.TYPE_STRUCT and id in self.forward):
                raise self.fail(inst.at + position, f"id {id} is no type that was declared before")
            elif (
                op != Op.TYPE_POINTER
                and not (op in (Op.TYPE_FUNCTION, 25) and position == inst.ids[0])
                and declared.type(id)[0] in (Op.TYPE_VOID, Op.TYPE_FUNCTION)
            ):
                raise self.fail(inst.at + position, f"a type made of id {id}, which has no values")
        shape = declared.shape(words[0]) if op in (Op.TYPE_VECTOR, Op.TYPE_MATRIX) else None
        fits = {
            Op.TYPE_INT: lambda: words[0] in (8, 16, 32, 64) and words[1] < 2,
            Op.TYPE_FLOAT: lambda: words[0] in (16, 32, 64),
            Op.TYPE_VECTOR: lambda: shape is not None and shape.count == 1 and words[1] in (2, 3, 4),
            Op.TYPE_MATRIX: lambda: shape is not None and shape.kind == "f" and shape.count > 1 and 2 <= words[1] <= 4,
            Op.TYPE_STRUCT: lambda: all(declared.type(t)[0] != Op.TYPE_RUNTIME_ARRAY for t in words[:-1]),
            Op.TYPE_ARRAY: lambda: declared.type(words[0])[0] != Op.TYPE_RUNTIME_ARRAY,
        }.get(op)  # type: ignore[call-overload]
        if fits is not None and not fits():
            raise self.fail(inst.at, f"a type (opcode {op}) of {', '.join(map(str, words)) or 'nothing'}")

    def _constant(self, inst: Inst) -> None:
        """Check that a constant's operands fit its type."""
        op, declared = inst.op, self.declared
        shape = declared.shape(inst.type_id)
        kind = declared.type(inst.type_id)[0]
        if op in (
            Op.CONSTANT_TRUE,
            Op.CONSTANT_FALSE,
            Op.SPEC_CONSTANT_TRUE,
            Op.SPEC_CONSTANT_FALSE,
        ):
            fits = shape == Shape("b", 0, 1)
        elif op in (Op.CONSTANT, Op.SPEC_CONSTANT):
            fits = shape is not None and shape.count == 1 and shape.kind != "b"
            fits = fits and shape is not None and len(inst.words) - 3 == max(1, shape.width // 32)
        elif op in (Op.CONSTANT_COMPOSITE, Op.SPEC_CONSTANT_COMPOSITE):
            fits = self._is_composite_of(
                inst.type_id, [declared.values.get(inst.words[position], 0) for position in inst.ids]
            )
            fits = fits and all(inst.words[position] in declared.constants for position in inst.ids)
        else:
            fits = kind not in (Op.TYPE_VOID, Op.TYPE_FUNCTION, Op.TYPE_RUNTIME_ARRAY)
        if not fits:
            raise self.fail(inst.at, f"a constant (opcode {op}) that does not fit its type, id {inst.type_id}")
        if op == Op.SPEC_CONSTANT_OP:
            for position in inst.ids:
                if inst.words[position] not in declared.constants:
                    raise self.fail(
                        inst.at + position, f"id {inst.words[position]} is no constant that was declared before"
                    )
            check_constant(declared, inst)

    def _is_composite_of(self, type_: int, constituents: Sequence[int]) -> bool:
        """Return whether constituents of these types form a composite of type `type_`."""
        count, types = self.declared.parts(type_)
        if not types or (count is not None and count != len(constituents)):
            return False
        is_struct = self.declared.type(type_)[0] == Op.TYPE_STRUCT
        return all(
            a == b for a, b in zip(constituents, types if is_struct else list(types) * len(constituents), strict=False)
        )

    def _variable(self, inst: Inst) -> None:
        """Check a variable at module scope: its type, storage class and initializer."""
        declared, storage = self.declared, inst.words[3]
        pointee = declared.pointee(inst.type_id)
        if pointee is None or pointee[0] != storage:
            raise self.fail(inst.at, f"a variable of storage class {storage} whose type, id {inst.type_id}, is another")
        if storage == FUNCTION:
            raise self.fail(inst.at, "a variable of a function outside functions")
        if inst.ids and inst.words[inst.ids[-1]] not in declared.values:
            raise self.fail(inst.at, "a variable that begins with something that is no constant")
        check_variable(declared, inst, pointee[1])

    def _decoration(self, inst: Inst) -> None:
        """Check the operand count of a decoration, and record its target, which may be defined later."""
        is_member = inst.op == Op.MEMBER_DECORATE
        kind, count = inst.words[2 + is_member], len(inst.words) - 3 - is_member
        wanted = _DECORATION_OPERANDS.get(kind)
        if wanted is not None and count != wanted:
            raise self.fail(inst.at, f"decoration {kind} with {count} operands, expected {wanted}")
        self.decorated.append((inst.at, inst.words[1], inst.words[2] if is_member else -1))

    # The whole

    def finish(self) -> None:
        """Check what requires the whole module: targets of decorations, entry points, layouts of buffers."""
        declared, tables = self.declared, self.tables
        for at, target, member in self.decorated:
            if target not in self.results and not self.is_open:
                raise self.fail(at, f"a decoration of id {target}, which is not defined")
            if member >= 0 and not (declared.type(target)[0] == Op.TYPE_STRUCT and member < declared.parts(target)[0]):  # type: ignore[operator]
                raise self.fail(at, f"a decoration of member {member} of id {target}, which has none such")
        for entry in tables.entry_points:
            body = declared.bodies[entry.function]
            where = f"{declared.what}: entry point '{entry.name}'"
            if not body.code or body.parameters or declared.type(body.head.type_id)[0] != Op.TYPE_VOID:
                raise ArtifactError(f"{where} is a function with parameters or a result, or without code")
            for id in entry.interface:
                if id not in tables.variables:
                    raise ArtifactError(f"{where} names id {id} in its interface, which is no variable")
            if entry.model == GL_COMPUTE:
                self._modes(entry.function, where)
        self._layouts()

    def _modes(self, function: int, where: str) -> None:
        """Check the workgroup size of an entry point."""
        for mode, operands in self.tables.modes.get(function, ()):
            if mode in (LOCAL_SIZE, LOCAL_SIZE_ID) and len(operands) != 3:
                raise ArtifactError(f"{where} has a workgroup size of {len(operands)} numbers, expected 3")
            if mode == LOCAL_SIZE_ID and any(not self._is_count(id) for id in operands):
                raise ArtifactError(f"{where} has a workgroup size of ids that are no integer constants")

    def _is_count(self, id: int) -> bool:
        return id in self.declared.constants and self.declared.is_integer(self.declared.values[id])

    def _layouts(self) -> None:
        """Check the types of all buffers, including nested types, for explicit layouts."""
        declared, seen = self.declared, set[int]()
        for type_, storage in self.tables.variables.values():
            if storage not in (Storage.STORAGE_BUFFER, Storage.UNIFORM, Storage.PUSH_CONSTANT):
                continue
            pointee = declared.pointee(type_)
            pending = [pointee[1]] if pointee is not None else []
            while pending:
                id = pending.pop()
                if id in seen:
                    continue
                seen.add(id)
                self._layout(id)
                pending.extend(declared.parts(id)[1])

    def _layout(self, id: int) -> None:
        """Check that a type in a buffer has the offsets and strides of an explicit layout, and is not bool."""
        declared, tables = self.declared, self.tables
        op, words = declared.type(id)
        at = self.results.get(id, 0)
        if op in (Op.TYPE_ARRAY, Op.TYPE_RUNTIME_ARRAY):
            is_block = (
                declared.type(words[0])[0] == Op.TYPE_STRUCT
                and tables.decoration(words[0], Decoration.BLOCK) is not None
            )
            if not tables.decoration(id, Decoration.ARRAY_STRIDE) and not is_block:
                raise self.fail(at, f"the array type {id} of a buffer has no ArrayStride")
        if op == Op.TYPE_STRUCT:
            for member in range(len(words)):
                if Decoration.OFFSET not in tables.member_decorations.get((id, member), {}):
                    raise self.fail(at, f"member {member} of the structure type {id} of a buffer has no Offset")
        if op == Op.TYPE_BOOL:
            raise self.fail(at, "a bool in a buffer, which has no size there")
