"""The module that linking makes: it begins as the kernels' module, and types, constants and functions are added.

The ids of the kernels stay. Types and constants that mean the same are one: SPIR-V demands it of types that are no
aggregates, and pointers into buffers only meet where their types do.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pydispatch.errors import InvalidArgumentError
from pydispatch.formats.spirv.names import Decoration, Op, Storage
from pydispatch.formats.spirv.parts import SpirvParts

MAX_WORDS = 1 << 24
"""Upper bound of the size of a linked module. Functions of libraries are copied for each set of buffers that a kernel
passes to them, and the copies must not exhaust memory."""
LINKAGE_CAPABILITY = 5
"""Number of the capability Linkage: the module imports or exports functions."""
_ACCESS = frozenset((19, Decoration.ALIASED, Decoration.NON_WRITABLE, 25))  # 19 Restrict, 25 NonReadable
"""Decorations for access: types of buffers that differ in these alone can replace each other (`view_key`)."""
_SHAREABLE = frozenset((
    *range(Op.TYPE_VOID, 39),  # OpTypeVoid to OpTypePipe
    Op.CONSTANT_TRUE, Op.CONSTANT_FALSE, Op.CONSTANT, Op.CONSTANT_COMPOSITE, Op.CONSTANT_NULL, Op.UNDEF,
))  # fmt: skip
"""Opcodes of globals of which equal ones are merged: types and constants."""
# Capability → the type that needs it: Float16, Float64, Int64, Int16, Int8.
_WIDTH_CAPABILITIES = {9: (Op.TYPE_FLOAT, 16), 10: (Op.TYPE_FLOAT, 64), 11: (Op.TYPE_INT, 64), 22: (Op.TYPE_INT, 16),
                       39: (Op.TYPE_INT, 8)}  # fmt: skip
# Capabilities: 16- and 8-bit storage, subgroup operations, variable pointers.
_STORAGE_16, _STORAGE_8 = range(4433, 4437), range(4448, 4451)
_SUBGROUPS = range(61, 69)  # capabilities GroupNonUniform to GroupNonUniformQuad
_SUBGROUP_OPS = range(Op.GROUP_NON_UNIFORM_FIRST, Op.GROUP_NON_UNIFORM_LAST + 1)
"""Opcodes of the instructions that need one of the capabilities `_SUBGROUPS`."""
_VARIABLE_POINTERS = (4441, 4442)  # VariablePointersStorageBuffer, VariablePointers
"""Numbers of the capabilities for pointers into buffers that are selected at run time."""
_ADDED_ONLY_IF_USED = frozenset((
    LINKAGE_CAPABILITY, *_VARIABLE_POINTERS, *_WIDTH_CAPABILITIES, *_STORAGE_16, *_STORAGE_8, *_SUBGROUPS,
))  # fmt: skip
"""Capabilities of a library that its unlinked functions may be the only ones to need."""
Key = tuple[object, ...]
"""Opcode, operands and decorations: equal for types and constants that are merged."""


def instruction(op: int, operands: Sequence[int]) -> list[int]:
    """Return the words of an instruction with operands; raise InvalidArgumentError if they are more than 65535."""
    if len(operands) + 1 > 0xFFFF:
        raise InvalidArgumentError(
            f"linking makes an instruction (opcode {op}) of {len(operands) + 1} words, at most 65535"
        )
    return [(len(operands) + 1) << 16 | op, *operands]


class GlobalVariable(NamedTuple):
    """Pointer type (an id), storage class and initializer of a global variable.

    The initializer is the id of a constant, or of a variable whose address it is; 0 without one.
    """

    type_id: int
    storage: int
    initializer: int


class SpirvOutput:
    """SPIR-V module under construction: the kernels' module plus the globals and functions of libraries.

    A link creates one, adds the requirements and copies of functions, and encodes it by encoded_module() at the end.
    Not thread-safe.

    Attributes:
        kernel: The kernels' module.
        bound: The next unused id.
        version: Pair (major, minor) of the SPIR-V version.
        capabilities, extensions: Numbers of the capabilities, and names of the extensions, that the module declares.
        sets: Name of an extended instruction set → id of its import.
        decorations: Id → its decorations (kind, operands...).
        member_decorations: Id of a struct type → decorations of its members (member, kind, operands...).
        names: Id → its name for debuggers.
        member_names: Id of a struct type → words of its members' names.
        globals: Types, constants and variables in order, each as the words of its instruction.
        types: Id of a type → (opcode, operands after the result id).
        variables: Id of a global variable → its type, storage class and initializer.
        functions: Id of a function → its instructions, each as its words.
        calls: Id of a function → the functions that it calls.
        used_variables: Id of a function → the global variables that it uses.
        ops: Opcodes that the functions use.
        pointers_vary: Whether a function chooses between pointers into buffers, or receives one as an argument.
        size: Words of all globals and functions.
    """

    def __init__(self, kernel: SpirvParts) -> None:
        """Copy the globals of the kernels' module, and index them so that libraries share equal ones.

        Globals are types, constants and variables. The output has no functions yet.
        """
        # Header and declarations of the kernels' module, to which those of libraries are added.
        self.kernel = kernel
        self.bound = kernel.tables.bound  # the next unused id
        self.version = kernel.tables.version
        self.capabilities = list(dict.fromkeys(kernel.tables.capabilities))
        self.extensions = list(dict.fromkeys(kernel.tables.extensions))
        self.sets = {text: id for id, text in kernel.sets.items()}  # instruction set, such as GLSL.std.450 -> its id
        self.globals: list[list[int]] = []  # words of each instruction
        self.types: dict[int, tuple[int, list[int]]] = {}  # id of a type -> opcode, operands
        self.variables: dict[int, GlobalVariable] = {}
        self.decorations = {id: list(decorations) for id, decorations in kernel.decorations.items()}
        self.member_decorations = {id: list(decorations) for id, decorations in kernel.member_decorations.items()}
        self.names = dict(kernel.tables.names)
        self.member_names = dict(kernel.member_names)
        # Finished functions, and what they use.
        self.functions: dict[int, list[list[int]]] = {}  # function -> words of each of its instructions
        self.calls: dict[int, set[int]] = {}  # function -> its callees
        self.used_variables: dict[int, set[int]] = {}  # function -> global variables
        self.ops: set[int] = set()  # opcodes in functions
        self.pointers_vary = False  # whether a function chooses between pointers into buffers
        self.size = 0  # words of all globals and functions
        # (variable, block type of a library) → a variable of that type with the set and binding of the variable
        self._views: dict[tuple[int, int], int] = {}
        self._keys: dict[Key, int] = {}  # instruction without its result id → result id of the first equal one
        self._representatives: dict[int, int] = {}  # id of a type or constant → id of the first equal one
        self._add_globals_of_kernels()

    def _add_globals_of_kernels(self) -> None:
        """Add the kernels' globals unchanged, even equal ones: their functions use these ids.

        Libraries share the first of several equal ones.
        """
        for inst in self.kernel.globals.values():
            self._append_global(inst.op, inst.words, inst.id)
            operands = self._operands(inst.op, inst.words, inst.type_word, inst.result_word, inst.id_positions)
            if inst.op in _SHAREABLE:
                first = self._keys.setdefault(self._key(inst.op, operands, inst.id), inst.id)
                self._representatives[inst.id] = first

    # Ids, types and constants

    def id(self) -> int:
        """Return a new id."""
        new_id = self.bound
        self.bound += 1
        return new_id

    def representative(self, id: int) -> int:
        """Return the id of the first type or constant that equals this one; `id` itself if it is the only one."""
        return self._representatives.get(id, id)

    def _operands(self, op: int, words: Sequence[int], type_: int, result: int, ids: Iterable[int]) -> list[int]:
        """Return the words after the opcode without the result id, with ids replaced by their representatives.

        Args:
            op: Opcode.
            words: Words of the instruction, of which word 0 holds the opcode.
            type_: Position of the result type in the words; 0 without one.
            result: Position of the result id.
            ids: Positions of the operands that are ids.
        """
        id_positions = set(ids)
        if type_:
            id_positions.add(type_)
        return [
            self.representative(word) if position in id_positions else word
            for position, word in enumerate(words)
            if position not in (0, result)
        ]

    def _key(self, op: int, operands: Sequence[int], id: int) -> Key:
        """Return the key of a global for value numbering: opcode, operands and decorations."""
        decorations = frozenset(self.decorations.get(id, ()))
        members = frozenset(self.member_decorations.get(id, ()))
        return op, tuple(operands), decorations, members

    def _append_global(self, op: int, words: list[int], id: int) -> None:
        """Append the global `id`, whose instruction is `words`; raise InvalidArgumentError for too large a module."""
        self.globals.append(words)
        self.size += len(words)
        if self.size > MAX_WORDS:
            raise InvalidArgumentError(f"linking makes a module of more than {4 * MAX_WORDS} bytes")
        # Word 0 holds the opcode. Of a type word 1 is its id; of a variable words 1 to 3 are type, id, storage class.
        if Op.TYPE_VOID <= op <= Op.TYPE_FUNCTION:  # the opcodes of types are consecutive
            self.types[id] = op, words[2:]
        elif op == Op.VARIABLE:
            initializer = words[4] if len(words) > 4 else 0
            self.variables[id] = GlobalVariable(words[1], storage=words[3], initializer=initializer)

    def share(
        self, op: int, operands: Sequence[int], type_: int = 0, decorations: Sequence[tuple[int, ...]] = (),
        members: Sequence[tuple[int, ...]] = (),
    ) -> int:  # fmt: skip
        """Return the id of a type or constant; add it if the module has no equal one.

        Args:
            op: Opcode.
            operands: Operands after the result id. Ids among them must be those that `representative` returns, because
                operands are compared as numbers.
            type_: Id of the result type; 0 for instructions without one.
            decorations: Decorations of the new id: (kind, operands...).
            members: Decorations of a struct type's members: (member, kind, operands...).
        """
        flat = [self.representative(type_), *operands] if type_ else list(operands)
        key = (op, tuple(flat), frozenset(decorations), frozenset(members))
        shared = self._keys.get(key)
        if shared is None:
            shared = self._keys[key] = self.add(op, operands, type_, decorations, members)
        return shared

    def add(
        self, op: int, operands: Sequence[int], type_: int = 0, decorations: Sequence[tuple[int, ...]] = (),
        members: Sequence[tuple[int, ...]] = (),
    ) -> int:  # fmt: skip
        """Add a global, such as a variable, even if an equal one exists, and return its new id.

        `type_` is the id of the result type, 0 for none. The operands follow the result id. For `decorations` and
        `members`, see share().
        """
        new_id = self.id()
        self._append_global(op, instruction(op, [*([type_] if type_ else []), new_id, *operands]), new_id)
        if decorations:
            self.decorations[new_id] = list(decorations)
        if members:
            self.member_decorations[new_id] = list(members)
        return new_id

    def integer(self, value: int) -> int:
        """Return the id of a 32-bit unsigned constant."""
        return self.share(Op.CONSTANT, [value], self.share(Op.TYPE_INT, [32, 0]))

    def instruction_set(self, text: str) -> int:
        """Return the id of the extended instruction set named `text`; import it on first use."""
        if text not in self.sets:
            self.sets[text] = self.id()
        return self.sets[text]

    def decorated(self, id: int, kind: int) -> int | None:
        """Return the first operand of an id's decoration `kind`, 0 if it has no operand, None if the id lacks it."""
        for decoration in self.decorations.get(id, ()):
            if decoration[0] == kind:
                return decoration[1] if len(decoration) > 1 else 0
        return None

    def decorate(self, id: int, kind: int, *operands: int) -> None:
        """Add the decoration `kind` with its operands to an id unless it has the same already."""
        entries = self.decorations.setdefault(id, [])
        if (kind, *operands) not in entries:
            entries.append((kind, *operands))

    def view_key(self, type_: int) -> Key:
        """Return the key of the block (struct) type `type_`, by which types from different modules are compared.

        Two types with equal keys differ at most in decorations for access (Restrict, NonWritable), so that a variable
        of one type can serve as one of the other.
        """
        op, operands = self.types.get(type_, (0, []))
        if op == Op.TYPE_STRUCT:  # its operands are the ids of the members' types; those of other types may be numbers
            operands = [self.representative(member_type) for member_type in operands]
        # Decorations are (kind, operands...), those of members (member, kind, operands...).
        decorations = frozenset(d for d in self.decorations.get(type_, ()) if d[0] not in _ACCESS)
        members = frozenset(m for m in self.member_decorations.get(type_, ()) if m[1] not in _ACCESS)
        return op, tuple(operands), members, decorations

    def block_type(self, variable: int) -> int:
        """Return the struct type of a buffer variable, whose own type is a pointer to it."""
        pointer_type = self.variables[variable].type_id
        _, (_, pointee) = self.types[pointer_type]  # the operands are the storage class and the pointee
        return pointee

    def view(self, variable: int, block: int) -> int:
        """Return the id of a variable with the library's block type and the binding of the kernel's variable.

        This is the kernel's variable if the block types differ at most in decorations for access, such as NonWritable.
        Else it is an added variable that aliases the kernel's.

        Args:
            variable: Id of the kernel's buffer variable.
            block: Id, in the output, of the struct type that the library declares its buffer with.
        """
        kernel_block = self.block_type(variable)
        if self.representative(kernel_block) == block or self.view_key(kernel_block) == self.view_key(block):
            return variable
        key = variable, block
        if key not in self._views:
            pointer_type = self.share(Op.TYPE_POINTER, [Storage.STORAGE_BUFFER, block])
            inherited = (Decoration.DESCRIPTOR_SET, Decoration.BINDING, Decoration.NON_WRITABLE)
            # A decoration is (kind, operands...).
            decorations = [d for d in self.decorations.get(variable, ()) if d[0] in inherited]
            view = self._views[key] = self.add(Op.VARIABLE, [Storage.STORAGE_BUFFER], pointer_type, decorations)
            self.decorate(view, Decoration.ALIASED)
            self.decorate(variable, Decoration.ALIASED)
        return self._views[key]

    # Functions

    def add_function(
        self, id: int, lines: list[list[int]], *, calls: Iterable[int] = (), uses: Iterable[int] = (),
        ops: Iterable[int] = (),
    ) -> None:  # fmt: skip
        """Add a finished function to the module; raise InvalidArgumentError if the module becomes too large.

        Args:
            id: Id of the function.
            lines: Instructions of the function, each as its words, OpFunctionEnd included.
            calls: Ids of the called functions.
            uses: Ids of the global variables that the function uses.
            ops: Opcodes in the function's body. () for functions that the linker writes: these need no capability.
        """
        self.functions[id] = lines
        self.calls[id], self.used_variables[id] = set(calls), set(uses)
        self.ops |= set(ops)
        self.size += sum(map(len, lines))
        if self.size > MAX_WORDS:
            raise InvalidArgumentError(f"linking makes a module of more than {4 * MAX_WORDS} bytes")

    def interface(self, entry: int, listed: Iterable[int]) -> list[int]:
        """Return the ids of the interface variables of the entry point `entry`, first those that it lists already.

        Other variables are added that the entry point's function or its callees use: before SPIR-V 1.4 only inputs and
        outputs, from then on all global variables.
        """
        variables = dict.fromkeys(listed)
        pending, seen = [entry], {entry}  # ids of functions
        while pending:
            function = pending.pop()
            for id in self._with_initializers(self.used_variables.get(function, ())):
                if self.version >= (1, 4) or self.variables[id].storage in (Storage.INPUT, Storage.OUTPUT):
                    variables[id] = None
            for callee in self.calls.get(function, ()):
                if callee not in seen:
                    seen.add(callee)
                    pending.append(callee)
        return list(variables)

    def _with_initializers(self, used: Iterable[int]) -> list[int]:
        """Return ids of variables, and of those whose addresses these variables begin with, in ascending order."""
        pending, reached = list(used), set[int]()
        while pending:
            id = pending.pop()
            if id in self.variables and id not in reached:
                reached.add(id)
                pending.append(self.variables[id].initializer)
        return sorted(reached)

    def add_requirements(self, parts: SpirvParts) -> None:
        """Add the version, extensions and capabilities that a library requires.

        Capabilities in _ADDED_ONLY_IF_USED are added only if the linked functions use them.
        """
        self.version = max(self.version, parts.tables.version)
        for extension in parts.tables.extensions:
            if extension not in self.extensions:
                self.extensions.append(extension)
        for capability in parts.tables.capabilities:
            if capability not in self.capabilities and (
                capability not in _ADDED_ONLY_IF_USED or self._is_capability_used(capability)
            ):
                self.capabilities.append(capability)

    def _is_capability_used(self, capability: int) -> bool:
        """Return whether the output uses a capability, given as its number.

        Only for capabilities that compilers often declare without need: widths, 8- and 16-bit storage, variable
        pointers, subgroups.
        """
        # Opcodes and widths in bits of the numbers in the output.
        kinds = {(op, operands[0]) for op, operands in self.types.values() if op in (Op.TYPE_INT, Op.TYPE_FLOAT)}
        if capability in _WIDTH_CAPABILITIES:
            return _WIDTH_CAPABILITIES[capability] in kinds
        if capability in _STORAGE_16:
            return any(width == 16 for _, width in kinds)
        if capability in _STORAGE_8:
            return any(width == 8 for _, width in kinds)
        if capability in _VARIABLE_POINTERS:
            return self.pointers_vary
        return capability in _SUBGROUPS and any(op in _SUBGROUP_OPS for op in self.ops)
