"""Copies functions of a library into the module being linked.

A function is copied once per set of buffers that it is called with: the buffer variables of its module, and its
parameters that are buffers, become variables of the kernel.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pydispatch.errors import InvalidArgumentError
from pydispatch.formats.spirv.instruction import SpirvFunction, SpirvInstruction
from pydispatch.formats.spirv.names import LOCAL_SIZE, BuiltIn, Decoration, Op, Storage
from pydispatch.link.spirv.library import SpirvLibrary, reached
from pydispatch.link.spirv.output import SpirvOutput

MAX_COPIES = 4096
"""Maximum number of copies of a library's functions, beyond one of each. A function has a copy for each set of buffers
that calls pass to it, and such sets may multiply along a chain of calls."""
_SPEC = (Op.SPEC_CONSTANT_TRUE, Op.SPEC_CONSTANT_FALSE, Op.SPEC_CONSTANT)  # constants that a pipeline may set
_REFUSED: dict[int, str] = {
    Storage.PUSH_CONSTANT: "push constants",
    Storage.UNIFORM: "uniform block",
    Storage.UNIFORM_CONSTANT: "image or sampler",
    Storage.OUTPUT: "output of a stage",
}
"""Storage class of a global variable that no library function may use → its name in the message. A library gets
data only by arguments, buffers, built-in inputs and workgroup memory."""


@dataclass(frozen=True)
class FunctionCopy:
    """Key of a copy of a library function: the function and the buffers that are bound in it.

    Attributes:
        function: Id of the function in the library.
        buffers: Pairs (id of a buffer variable of the library, id of the variable of the output that replaces it).
        arguments: Pairs (position of a parameter that is a buffer, id of the variable of the output that replaces it).
    """

    function: int
    buffers: tuple[tuple[int, int], ...]
    arguments: tuple[tuple[int, int], ...]


class FunctionCopier:
    """Copier of functions and declarations from one library into an output module.

    A link creates one for each library, requests copies of functions, and calls write_requested_copies(), which copies
    the globals that they use.

    Attributes:
        library: The library.
        parts: The library's parsed module.
        out: The output module.
        map: Id of a copied global in the library → its id in the output.
        copies: Copy of a function → its id in the output.
        pending: Requested copies that are not written yet.
    """

    def __init__(self, library: SpirvLibrary, out: SpirvOutput) -> None:
        """Create a copier that has copied nothing. For the parameters, see the class."""
        self.library, self.parts, self.out = library, library.parts, out
        self.map: dict[int, int] = {}  # id of a global in the library -> id in the output
        self.copies: dict[FunctionCopy, int] = {}  # requested copy -> its id in the output
        self.pending: list[FunctionCopy] = []  # requested copies that are not written yet

    def refuse(self, text: str) -> InvalidArgumentError:
        """Return an error about the library, which it names. text: why the library cannot be linked."""
        return InvalidArgumentError(f"{self.library.name}: {text}")

    # Globals

    def is_buffer(self, id: int) -> bool:
        """Return whether a variable is a storage buffer: StorageBuffer, or Uniform with BufferBlock before SPIR-V
        1.3."""
        inst = self.parts.globals.get(id)
        if inst is None or inst.op != Op.VARIABLE:
            return False
        return self.is_buffer_pointer(inst.type_id)

    def is_buffer_pointer(self, type_: int) -> bool:
        """Return whether a type is a pointer to the block of a storage buffer.

        Its storage class is StorageBuffer or, in modules before SPIR-V 1.3, Uniform with a block decorated BufferBlock.
        """
        pointer = self.parts.pointee(type_)
        if pointer is None:
            return False
        storage, pointee = pointer
        block = self.parts.globals.get(pointee)
        if block is None or block.op != Op.TYPE_STRUCT:
            return False
        return storage == Storage.STORAGE_BUFFER or (
            storage == Storage.UNIFORM and self.parts.decorated(pointee, Decoration.BUFFER_BLOCK)
        )

    def buffers_of(self, root: int) -> list[int]:
        """Return the ids of the buffer variables used by the function `root` and its callees, in order of first use."""
        buffers: dict[int, None] = {}
        for id in reached(self.parts, root):
            for inst in self.parts.functions[id].body:
                buffers.update(dict.fromkeys(used for used in inst.uses() if self.is_buffer(used)))
        return list(buffers)

    def copy_globals(self, ids: Iterable[int]) -> None:
        """Copy globals, given as ids in the library, and the globals that they depend on into the output.

        Ids that are no globals are ignored. The ids of the copies are recorded in `map`, by those in the library.
        """
        needed: set[int] = set()
        pending = [id for id in ids if id not in self.map]
        while pending:
            id = pending.pop()
            if id in needed or id in self.map or id not in self.parts.globals:
                continue
            needed.add(id)
            if not self._is_workgroup_size(id):  # gl_WorkGroupSize: the kernels' constant replaces it
                pending.extend(self.parts.globals[id].uses())
        # In the order of the library, in which definitions precede uses.
        for inst in sorted((self.parts.globals[id] for id in needed), key=lambda inst: inst.at):
            self.map[inst.id] = self._global(inst)

    def type(self, id: int) -> int:
        """Copy the type `id` of the library if necessary, and return its id in the output."""
        self.copy_globals([id])
        return self.map[id]

    def _is_workgroup_size(self, id: int) -> bool:
        """Return whether an id is the constant gl_WorkGroupSize."""
        return self.parts.tables.decoration(id, Decoration.BUILT_IN) == BuiltIn.WORKGROUP_SIZE

    def _global(self, inst: SpirvInstruction) -> int:
        """Add one global of the library to the output, or find its equivalent there; return its id in the output.

        The globals that `inst` uses must be in `map`. The result depends on the kind of global:

        - A type or another constant is that of the output with the same operands and decorations, or a new one. For
          `OpTypeFloat 32` of the library, it is the float type of the kernel.
        - A specialization constant is that of the kernel with the same name and type. Else it is a new one without a
          SpecId, which always has its default value.
        - The constant gl_WorkGroupSize is the workgroup size of the kernels.
        - A built-in input variable is shared with the kernel, a private or workgroup variable is a new one.

        Raises InvalidArgumentError for a variable of another storage class, and for gl_WorkGroupSize if the kernels
        differ in their workgroup size.
        """
        out, parts = self.out, self.parts
        if self._is_workgroup_size(inst.id):
            return self._workgroup_size()
        if inst.op == Op.VARIABLE:
            return self._variable(inst)
        if inst.op in _SPEC:  # the kernel's constant of the same name replaces the library's
            same = self._specialized(inst)
            if same:
                return same
        operands = self._renumbered(inst, self.map)  # with the ids of the output
        # Before SPIR-V 1.3 a storage buffer is a block in Uniform with the decoration BufferBlock. It becomes the newer
        # form, a Block in StorageBuffer, which kernels use. Variables of other types in Uniform are refused.
        if inst.op == Op.TYPE_POINTER and operands[0] == Storage.UNIFORM:
            operands[0] = Storage.STORAGE_BUFFER
        decorations = self._decorations(inst.id)
        members = parts.member_decorations.get(inst.id, [])
        type_ = self.map[inst.type_id] if inst.type_word else 0
        # Specialization constants are never merged: equal ones may be specialized differently.
        is_specialized = Op.SPEC_CONSTANT_TRUE <= inst.op <= Op.SPEC_CONSTANT_OP
        if is_specialized:
            new_id = out.add(inst.op, operands, type_, decorations, members)
        else:
            new_id = out.share(inst.op, operands, type_, decorations, members)
        if new_id not in out.names and parts.tables.names.get(inst.id):
            out.names[new_id] = parts.tables.names[inst.id]
            if inst.id in parts.member_names:
                out.member_names[new_id] = parts.member_names[inst.id]
        return new_id

    def _decorations(self, id: int) -> list[tuple[int, ...]]:
        """Return the decorations in the output of a global of the library: Block instead of the older BufferBlock.

        A SpecId is dropped, because the kernel may use its number for another constant.
        """
        decorations = self.parts.decorations.get(id, ())
        return [
            (Decoration.BLOCK if kind == Decoration.BUFFER_BLOCK else kind, *operands)
            for kind, *operands in decorations
            if kind != Decoration.SPEC_ID
        ]

    def _renumbered(self, inst: SpirvInstruction, ids: dict[int, int]) -> list[int]:
        """Return the operands after the result id, with library ids replaced by those in `ids`."""
        id_positions = set(inst.id_positions)
        skipped = (0, inst.type_word, inst.result_word)  # word 0 has the opcode
        return [
            ids[word] if position in id_positions else word
            for position, word in enumerate(inst.words)
            if position not in skipped
        ]

    def _specialized(self, inst: SpirvInstruction) -> int:
        """Return the id of the kernel's specialization constant that replaces the library's constant `inst`.

        It has the same name and type; 0 if the kernel has none.
        """
        name, kernel = self.parts.tables.names.get(inst.id), self.out.kernel
        if not name:
            return 0
        for id, other in kernel.globals.items():
            is_named = other.op in _SPEC and kernel.tables.names.get(id) == name
            if is_named and self.out.representative(other.type_id) == self.map[inst.type_id]:
                return id
        return 0

    def _variable(self, inst: SpirvInstruction) -> int:
        """Copy a private, workgroup or built-in input variable, and return its id in the output.

        Kernels and libraries share the variable of a built-in. Raises InvalidArgumentError for other storage classes.
        """
        out, parts, storage = self.out, self.parts, inst.words[3]
        name = parts.tables.names.get(inst.id, "")
        type_ = self.map[inst.type_id]
        decorations = parts.decorations.get(inst.id, [])
        if storage in (Storage.PRIVATE, Storage.WORKGROUP):  # word 4 is an optional initializer
            new_id = out.add(Op.VARIABLE, [storage, *(self.map[id] for id in inst.words[4:5])], type_, decorations)
            if name:
                out.names[new_id] = name
            return new_id
        built_in = parts.tables.decoration(inst.id, Decoration.BUILT_IN)
        if storage == Storage.INPUT and built_in is not None:
            shared = self._input_of(built_in, type_)
            if shared is not None:
                return shared
            new_id = out.add(Op.VARIABLE, [Storage.INPUT], type_, decorations)
            out.names[new_id] = name
            return new_id
        kind = _REFUSED.get(storage, f"variable of storage class {storage}")
        raise self.refuse(
            f"a function uses the {kind} '{name}': functions of libraries have arguments, buffers and workgroup memory"
        )

    def _input_of(self, built_in: int, type_: int) -> int | None:
        """Return the input variable of the output for a built-in, with the pointer type `type_`; None without one."""
        for id, variable in self.out.variables.items():
            is_same = self.out.decorated(id, Decoration.BUILT_IN) == built_in
            if variable.storage == Storage.INPUT and is_same and self.out.representative(variable.type_id) == type_:
                return id
        return None

    def _workgroup_size(self) -> int:
        """Return the id of the kernels' workgroup size, which gl_WorkGroupSize denotes in a library.

        Raises InvalidArgumentError if the kernels of the module differ in it.
        """
        # A constant of the kernels' module that is decorated as the workgroup size.
        out, tables = self.out, self.out.kernel.tables
        for id in self.out.kernel.globals:
            if tables.decoration(id, Decoration.BUILT_IN) == BuiltIn.WORKGROUP_SIZE:
                return id
        # Else a new constant with the size that entry points state, by the execution mode LocalSize.
        all_modes = [mode_and_operands for modes in tables.modes.values() for mode_and_operands in modes]
        sizes = {tuple(operands) for mode, operands in all_modes if mode == LOCAL_SIZE and len(operands) == 3}
        if len(sizes) != 1:
            raise self.refuse(
                f"a function uses gl_WorkGroupSize, and the kernels that it is linked into have {len(sizes)} sizes"
            )
        unsigned = out.share(Op.TYPE_INT, [32, 0])  # width, signedness
        components = [out.integer(size) for size in sizes.pop()]
        vector = out.share(Op.TYPE_VECTOR, [unsigned, 3])
        return out.share(Op.CONSTANT_COMPOSITE, components, vector)

    # Functions

    def request(self, copy: FunctionCopy) -> int:
        """Return the id of a function copy; if it is new, it is pending until write_requested_copies() writes it."""
        if copy not in self.copies:
            if len(self.copies) >= MAX_COPIES + len(self.parts.functions):
                raise self.refuse(f"linking it makes more than {MAX_COPIES} copies of functions for different buffers")
            self.copies[copy] = self.out.id()
            self.pending.append(copy)
        return self.copies[copy]

    def function_type(self, function: SpirvFunction, bound: Iterable[int]) -> int:
        """Return the output's id of a library function's type without the parameters at the positions `bound`."""
        skipped = set(bound)
        self.copy_globals([function.head.type_id, *(p.type_id for p in function.parameters)])
        remaining = [self.map[p.type_id] for i, p in enumerate(function.parameters) if i not in skipped]
        return self.out.share(Op.TYPE_FUNCTION, [self.map[function.head.type_id], *remaining])
