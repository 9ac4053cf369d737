"""Writes the copies of library functions that were requested into the module being linked."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from pydispatch.formats.spirv.instruction import SpirvInstruction
from pydispatch.formats.spirv.names import DEBUG_SETS, Decoration, Op, Storage
from pydispatch.formats.spirv.operands import WRITTEN_POINTERS
from pydispatch.link.spirv.output import instruction
from pydispatch.link.spirv.take import FunctionCopier, FunctionCopy

_POINTER_DERIVING = (Op.ACCESS_CHAIN, Op.IN_BOUNDS_ACCESS_CHAIN, Op.PTR_ACCESS_CHAIN, Op.IN_BOUNDS_PTR_ACCESS_CHAIN,
            Op.COPY_OBJECT)  # fmt: skip
"""Instructions whose result points into the variable that their first operand points into."""

_PLAIN_POINTERS = (Op.VARIABLE, Op.ACCESS_CHAIN, Op.IN_BOUNDS_ACCESS_CHAIN)
"""Instructions whose pointers need no capability; other pointers into buffers need VariablePointers."""


def write_requested_copies(copier: FunctionCopier) -> None:
    """Write the requested copies of functions, including those that they request in turn for their callees."""
    while copier.pending:
        copy = copier.pending.pop()
        _Writer(copier, copy, copier.copies[copy]).write()


class _Writer:
    """Writer of one function copy, which `write` adds to the output; other methods are steps of it.

    Attributes:
        copier: Copier for the library; it copies the globals that the function needs.
        copy: Function of the library, with the buffers that are bound in it.
        id: Id of the copy in the output.
        function: The library's function.
        ids: Id of a value, label or global of the library → its id in the output.
        calls: Ids, in the output, of the functions that the copy calls.
        bases: Id of a pointer → id of the variable that it is derived from, both in the output.
    """

    def __init__(self, copier: FunctionCopier, copy: FunctionCopy, id: int) -> None:
        """Begin the copy with the id `id`; `write` adds its instructions to the output of the copier."""
        self.copier, self.copy, self.id = copier, copy, id
        self.function = copier.parts.functions[copy.function]
        self.ids: dict[int, int] = {}  # id in the library -> id in the output
        self.calls: list[int] = []  # ids of the called functions
        self.bases: dict[int, int] = {}  # pointer -> variable that it is derived from

    def write(self) -> None:
        """Add the function to the output, with new ids and without its buffer parameters.

        Accesses to a buffer parameter or to a global buffer variable of the library become accesses to the variable of
        the output that `copy` binds it to.
        """
        copier, out, parts = self.copier, self.copier.out, self.copier.parts
        # The ids of the output. arguments: position of a buffer parameter → variable of the output.
        arguments = dict(self.copy.arguments)
        body = [inst for inst in self.function.body if not self._is_debug(inst)]
        globals_ = {id for inst in body for id in inst.uses() if id in parts.globals}
        copier.copy_globals(id for id in globals_ if not copier.is_buffer(id))
        type_ = copier.function_type(self.function, arguments)  # without the buffer parameters
        self._assign_ids(body, globals_)
        function_control = self.function.head.words[3]
        head = [copier.map[self.function.head.type_id], self.id, function_control, type_]

        # The function: head, parameters that are not bound, body.
        lines = [instruction(Op.FUNCTION, head)]
        remaining_parameters = [p for index, p in enumerate(self.function.parameters) if index not in arguments]
        for parameter in remaining_parameters:
            lines.append(instruction(parameter.op, [copier.map[parameter.type_id], self.ids[parameter.id]]))
            self._decorate(parameter.id)
        lines += [self._line(inst) for inst in body]
        lines.append(instruction(Op.FUNCTION_END, []))

        # What the function needs from the module: capabilities, and variables in the interface of entry points.
        if any(self._is_variable_pointer(inst) for inst in (*remaining_parameters, *body)):
            out.pointers_vary = True  # the output needs the capability VariablePointers
        used = {self.ids[id] for id in globals_ if id in self.ids} | set(arguments.values())
        ops = {inst.op for inst in body}
        out.add_function(self.id, lines, calls=self.calls, uses=used & out.variables.keys(), ops=ops)
        out.names[self.id] = parts.tables.names.get(self.copy.function, "")

    def _assign_ids(self, body: Sequence[SpirvInstruction], globals_: Collection[int]) -> None:
        """Fill `ids`: assign an id of the output to each parameter, result and used global of the function.

        All ids are assigned before instructions are written, since a use may precede its definition, as in a branch to
        a later label. Bound parameters and global buffer variables get the id of the variable that replaces them. An
        operand without an id, such as a buffer that the copy does not bind, is reported by `_line`.

        Args:
            body: The instructions that are copied.
            globals_: Ids of the library's globals that they use; except for buffers, these have been copied.
        """
        out, buffers, arguments = self.copier.out, dict(self.copy.buffers), dict(self.copy.arguments)
        for index, parameter in enumerate(self.function.parameters):
            self.ids[parameter.id] = arguments[index] if index in arguments else out.id()
        for inst in body:
            if inst.result_word:
                self.ids[inst.id] = out.id()
                self._decorate(inst.id)
        for id in globals_:
            if id in buffers:
                self.ids[id] = buffers[id]
            elif id in self.copier.map:  # a copied global
                self.ids[id] = self.copier.map[id]

    def _is_variable_pointer(self, inst: SpirvInstruction) -> bool:
        """Return whether an instruction's result is a pointer into a buffer that requires VariablePointers: one that is
        chosen, loaded or passed as an argument, not derived from a variable by access chains."""
        if not inst.type_word or inst.op in _PLAIN_POINTERS:
            return False
        pointee = self.copier.parts.pointee(inst.type_id)
        buffers = (Storage.STORAGE_BUFFER, Storage.UNIFORM, Storage.WORKGROUP)
        return pointee is not None and pointee.storage in buffers

    def _is_debug(self, inst: SpirvInstruction) -> bool:
        """Return whether an instruction belongs to an extended set for debug information, which is not copied."""
        return inst.op == Op.EXT_INST and self.copier.parts.sets[inst.words[3]].startswith(DEBUG_SETS)

    def _decorate(self, id: int) -> None:
        """Copy the decorations of a library id to its new id."""
        decorations = self.copier.parts.decorations.get(id)
        if decorations:
            self.copier.out.decorations[self.ids[id]] = list(decorations)

    def _line(self, inst: SpirvInstruction) -> list[int]:
        """Return the words of a library instruction, in which each id is replaced by its id in the output.

        Operands and results are looked up in `ids`, which is for this copy of the function, and the type of the result
        in `copier.map`, since types are copied once per library.
        """
        if inst.op == Op.FUNCTION_CALL:
            return self._call(inst)
        if inst.op == Op.EXT_INST:  # word 3 is the id of an instruction set, such as that of GLSL.std.450
            text = self.copier.parts.sets[inst.words[3]]
            self.ids[inst.words[3]] = self.copier.out.instruction_set(text)
        for position in inst.id_positions:
            if inst.words[position] not in self.ids:
                raise self.copier.parts.tables.fail(inst.at, f"id {inst.words[position]} is not defined")
        self._track_pointer(inst)
        ids = self.ids
        words = list(inst.words)
        for position in inst.id_positions:
            words[position] = ids[words[position]]
        if inst.type_word:
            words[inst.type_word] = self.copier.map[words[inst.type_word]]
        if inst.result_word:
            words[inst.result_word] = ids[words[inst.result_word]]
        return words

    def _call(self, inst: SpirvInstruction) -> list[int]:
        """Return the words of a call of another library function.

        Buffer arguments are bound in a copy of the callee and dropped from the call. Raise ArtifactError for an
        argument that is not defined, InvalidArgumentError for a buffer that is neither a variable nor a parameter.
        """
        copier, callee = self.copier, inst.words[3]
        parameters = copier.parts.functions[callee].parameters
        buffer_arguments: list[tuple[int, int]] = []  # (index of the parameter, variable of the output)
        other_arguments: list[int] = []
        for index, (parameter, argument) in enumerate(zip(parameters, inst.words[4:], strict=True)):
            if argument not in self.ids:
                raise copier.parts.tables.fail(inst.at, f"id {argument} is not defined")
            value = self.ids[argument]
            if not copier.is_buffer_pointer(parameter.type_id):
                other_arguments.append(value)
            elif value in copier.out.variables:
                buffer_arguments.append((index, value))
            else:
                raise copier.refuse("a function passes a buffer on that is no variable and no parameter")
        copied_callee = copier.request(FunctionCopy(callee, self.copy.buffers, tuple(buffer_arguments)))
        self.calls.append(copied_callee)
        result_type, result = copier.map[inst.type_id], self.ids[inst.id]
        return instruction(Op.FUNCTION_CALL, [result_type, result, copied_callee, *other_arguments])

    def _track_pointer(self, inst: SpirvInstruction) -> None:
        """Record in `bases` the variable that a pointer is derived from, if the instruction computes one.

        Raises InvalidArgumentError if the instruction writes a buffer that the kernel declares as read-only.
        """
        op, words, ids = inst.op, inst.words, self.ids

        def base(position: int) -> int:
            """Return the variable that the pointer in a word of the instruction is derived from."""
            value = ids[words[position]]
            return self.bases.get(value, value)  # the variable itself has no entry

        if op in _POINTER_DERIVING:
            self.bases[ids[inst.id]] = base(3)  # the first operand after the result id
            return
        written_word = WRITTEN_POINTERS.get(op)
        if written_word is None:
            return
        out, variable = self.copier.out, base(written_word)
        if variable in out.variables and out.decorated(variable, Decoration.NON_WRITABLE) is not None:
            binding = out.decorated(variable, Decoration.BINDING)
            name = self.copier.parts.tables.names.get(self.copy.function, f"id {self.copy.function}")
            raise self.copier.refuse(
                f"function '{name}' writes the buffer at binding {binding}, which the kernel declares as only read; "
                "drop ReadOnly from its flags"
            )
