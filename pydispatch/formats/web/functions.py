"""Functions of a host program as JSON for a web page; a program that a page cannot run is rejected."""

from __future__ import annotations

from typing import Any

from pydispatch.errors import ArtifactError, InvalidArgumentError
from pydispatch.formats.program.commands import COMMANDS, Copy, Dispatch, Fill, words_of
from pydispatch.formats.program.layout import (
    IS_PUBLIC,
    BufferRecord,
    ConstantRecord,
    DerivationRecord,
    ExecutableRecord,
    ExportRecord,
    FunctionRecord,
    InstructionRecord,
    ParameterRecord,
    ProcedureRecord,
    QueryRecord,
    Table,
    ValueRecord,
    join_words,
)
from pydispatch.formats.program.opcodes import HIGH_WORD, NONE, OPCODES, BufferKind, Opcode, dtype_name, element_bits
from pydispatch.formats.program.records import signed, sizes_of
from pydispatch.formats.program.text import ProgramText

Json = dict[str, Any]
"""A JSON object."""

_PAGE_MATH = {
    Opcode.FADD,
    Opcode.FSUB,
    Opcode.FMUL,
    Opcode.FDIV,
    Opcode.FNEG,
    Opcode.FCVT,
    Opcode.SITOFP,
    Opcode.UITOFP,
}
"""Opcodes of floats that a page can run."""
_PAGE_FORMATS = (32, 64)
"""Float formats that a page computes in: f32 and f64."""
_FLOATS = set(range(Opcode.FADD, Opcode.ABS))
"""Opcodes that compute floats; of these, a page has only those of `_PAGE_MATH`."""


class WebProgram(ProgramText):
    """Printer of a host program as JSON for pydispatch.js."""

    def functions(self) -> list[Json]:
        """Return all functions in order; raise InvalidArgumentError if a public one cannot run in a page."""
        for procedure in self.table(Table.PROCEDURES, ProcedureRecord):
            name = self.string(procedure.name, procedure.name_length)
            if procedure.flags & IS_PUBLIC:
                raise InvalidArgumentError(
                    f"@{name} is a procedure (it has loops or branches on values, reads elements, or uses globals); "
                    "a page runs functions whose commands follow from the shapes alone"
                )
        if self.count(Table.INITIALIZERS):
            raise InvalidArgumentError("the program has initializers of globals, which a page does not run")
        for name, _ in self.commands():
            raise InvalidArgumentError(f"the program calls the host command '{name}'; a page has no host commands")
        return [self._function(record) for record in self.table(Table.FUNCTIONS, FunctionRecord)]

    def constants(self) -> list[Json]:
        """Return the source of each constant as JSON, in the order of the constants.

        A constant is a range of a member, which is a file of the artifact, or derived: the result of a function that
        runs once, before the first call, such as weights in the layout that a kernel reads. `result` counts the
        results of the function:

            {"member": "weights.bin", "offset": 64, "bytes": 256}
            {"function": 3, "result": 0, "bytes": 256}

        Raises InvalidArgumentError for a constant that is supplied when the program is loaded.
        """
        parameters = self.table(Table.PARAMETERS, ParameterRecord)
        constants: list[Json] = []
        for c in self.table(Table.CONSTANTS, ConstantRecord):
            if c.parameter != NONE:
                is_known = c.parameter < len(parameters)
                name = self.parameter(parameters[c.parameter]) if is_known else f"parameter {c.parameter}"
                raise InvalidArgumentError(f"{name} is given at load; a page needs weights that are in the artifact")
            constants.append({
                "member": self.string(c.member, c.member_length), "offset": join_words(c.offset_low, c.offset_high),
                "bytes": join_words(c.length_low, c.length_high),
            })  # fmt: skip
        self._mark_derived(constants)
        return constants

    def _mark_derived(self, constants: list[Json]) -> None:
        """Replace the derived constants, whose records state no member, by the results of the functions.

        The results of a function are consecutive constants.
        """
        functions = self.table(Table.FUNCTIONS, FunctionRecord)
        for derivation in self.table(Table.DERIVATIONS, DerivationRecord):
            function, first = derivation.function, derivation.first_constant
            if function >= len(functions) or first + functions[function].result_count > len(constants):
                raise ArtifactError(f"program.bin: constants {first} and up are derived by no function of the program")
            for i in range(functions[function].result_count):
                constants[first + i] = {"function": function, "result": i, "bytes": constants[first + i]["bytes"]}

    def exports(self) -> list[Json]:
        """Return the exports (kernels) as JSON: the index of the executable, the index in that, and the number of
        32-bit constants."""
        return [
            {"executable": export.executable, "ordinal": export.ordinal, "constants": export.constant_count}
            for export in self.table(Table.EXPORTS, ExportRecord)
        ]

    def executables(self) -> list[tuple[int | None, list[int | None]]]:
        """Return for each executable the index of the function that computes its constants, and a list of conditions.

        A condition is the index of the function that returns whether a variant supports the device; the list has one
        for each variant. An index is None if there is no function: a variant without a condition supports every device.
        """
        return [
            (_index(e.constants_function), [_index(c) for c in self.words_at(e.conditions, e.condition_count)])
            for e in self.table(Table.EXECUTABLES, ExecutableRecord)
        ]

    def queries(self) -> list[Json]:
        """Return the queries of device properties as JSON: category, key, and the value for devices without the key."""
        return [
            {
                "category": self.string(q.category, q.category_length), "key": self.string(q.key, q.key_length),
                "default": str(join_words(q.default_low, q.default_high)),  # JavaScript's numbers have 53 bits
            }
            for q in self.table(Table.QUERIES, QueryRecord)
        ]  # fmt: skip

    def _function(self, record: FunctionRecord) -> Json:
        """Return a function as JSON: its signature, arguments, results, buffers, and its instructions as `code`."""
        name = self.string(record.name, record.name_length)
        pool = self.words_at(record.pool, record.pool_count)  # words that the records of the function refer to
        arguments = self.records(record.arguments, record.argument_count, ValueRecord)
        results = self.records(record.results, record.result_count, ValueRecord)
        buffers = self.records(record.buffers, record.buffer_count, BufferRecord)
        instructions = self.records(record.instructions, record.instruction_count, InstructionRecord)
        return {
            "name": name, "public": bool(record.flags & IS_PUBLIC),
            "signature": self.string(record.signature, record.signature_length),
            "arguments": [self._argument(argument, pool) for argument in arguments],
            "results": [self._result(result, pool) for result in results],
            "buffers": [_buffer(buffer) for buffer in buffers],
            "code": [self._code(instruction, pool, name) for instruction in instructions],
        }  # fmt: skip

    def _argument(self, record: ValueRecord, pool: list[int]) -> Json:
        """Return the record of an argument as JSON. Its shape is None for a scalar; a dynamic size is -1.

        `pool` has the words that the records of the function refer to, here the sizes.
        """
        sizes = sizes_of(words_of(pool, record.sizes, 2 * record.rank))  # each of two words; negative if it is dynamic
        shape = None if record.is_scalar else [-1 if signed(size) < 0 else size for size in sizes]
        return {
            "name": self.string(record.name, record.name_length), "type": dtype_name(record.dtype), "shape": shape,
            **_bits(record.dtype),
        }  # fmt: skip

    def _result(self, record: ValueRecord, pool: list[int]) -> Json:
        """Return the record of a result as JSON: a scalar with the index of the register that has its value, a tensor
        with that of its buffer.

        The shape is None for a scalar, else the indices of the registers that have the sizes, which are in `pool`.
        """
        where: Json
        if record.is_scalar:
            where = {"shape": None, "register": record.target}
        else:
            where = {"shape": words_of(pool, record.sizes, record.rank), "buffer": record.target}
        return {
            "name": self.string(record.name, record.name_length), "type": dtype_name(record.dtype), **where,
            **_bits(record.dtype),
        }  # fmt: skip

    def _code(self, record: InstructionRecord, pool: list[int], where: str) -> Json:
        """Return an instruction as JSON; raise InvalidArgumentError if pages cannot execute it.

        An instruction that sets register 2 to 64 is `{"op": "const", "to": 2, "value": "64"}`. docs/program.md,
        "Instructions", has the meaning of the modifier and of the operands a, b and c for each opcode: most are
        registers, and the modifier is mostly the width of the operation in bits.

        Args:
            record: The instruction.
            pool: Words of the function that its instructions refer to by index.
            where: Name of the function, for messages.
        """
        opcode, modifier = record.opcode & 0xFFFF, record.opcode >> 16
        dst, a, b, c = record.dst, record.a, record.b, record.c
        op = OPCODES.get(opcode)
        if op is None:
            raise ArtifactError(f"program.bin: @{where} has the unknown opcode {opcode}")
        if op in COMMANDS:
            return self._command(COMMANDS[op](pool, a))
        name = op.name.lower()
        if op is Opcode.CONST:
            # A string, since JavaScript's numbers have 53 bits.
            return {"op": name, "to": dst, "value": str(signed(join_words(b, c)))}
        if op in (Opcode.CHECK, Opcode.CHECK_EQ):
            return {"op": name, "a": a, "b": b, "message": self.string(*words_of(pool, c, count=2))}
        # The modifier of a float operation is the format of its result; b of a conversion is that of its operand.
        formats = {modifier, b} if op is Opcode.FCVT else {modifier}
        runs_in_page = op in _PAGE_MATH and formats.issubset(_PAGE_FORMATS)
        if op in _FLOATS and not runs_in_page:
            raise InvalidArgumentError(
                f"@{where} computes {name} of {modifier} bits on the host; a page computes integers, and sums, "
                "products and conversions of f32 and f64"
            )
        instruction: Json = {"op": name, "to": dst, "a": a, "b": b, "c": c, "width": modifier}
        if op is Opcode.CMP:
            width, predicate = modifier & 0xFF, modifier >> 8
            instruction |= {"width": width, "predicate": predicate}
        return instruction

    def _command(self, command: Any) -> Json:
        """Return a dispatch, fill or copy as JSON.

        Buffers are their indices in the function. The export, the grid, constants, offsets, lengths and the pattern
        are indices of registers: 64-bit values that the instructions before compute. A range of a buffer is [buffer,
        offset, length] in bytes, with None for an offset of 0 and for a length up to the end of the buffer. A constant
        is a 32-bit word of a register: [register, shift]. Register 5 has both words of a 64-bit constant in

            {"op": "dispatch", "export": 1, "grid": [2, 3, 3], "constants": [[5, 0], [5, 32]],
             "bindings": [[0, None, None], [1, 6, 7]]}
        """
        if isinstance(command, Dispatch):
            return {
                "op": "dispatch", "export": command.export, "grid": list(command.grid),
                "constants": [  # [register, shift in bits]: HIGH_WORD selects the upper 32 bits of the register
                    [k & ~HIGH_WORD, 32 if k & HIGH_WORD else 0] for k in command.constants
                ],
                "bindings": [[b.buffer, _index(b.offset), _index(b.length)] for b in command.bindings],
            }  # fmt: skip
        if isinstance(command, Fill):
            to = command.target
            return {
                "op": "fill", "to": [to.buffer, _index(to.offset), _index(to.length)],
                "pattern": command.pattern, "patternBytes": command.pattern_bytes,
            }  # fmt: skip
        assert isinstance(command, Copy)
        return {
            "op": "copy", "from": [command.source, _index(command.source_offset)],
            "to": [command.target, _index(command.target_offset)], "bytes": command.length,
        }  # fmt: skip


def _index(word: int) -> int | None:
    """Return the index of a register or function that a word holds; None for NONE."""
    return None if word == NONE else word


def _buffer(record: BufferRecord) -> Json:
    """Return the record of a buffer as JSON. Its number of bytes is a register, or None."""
    kind = BufferKind(record.kind).name.lower() if record.kind < len(BufferKind) else "unknown"
    return {"kind": kind, "index": record.ordinal, "bytes": None if record.size == NONE else record.size}


def _bits(dtype: int) -> dict[str, int]:
    """Return the JSON field that states the bits of an element type, by its number in programs."""
    return {"bits": element_bits(dtype)}
