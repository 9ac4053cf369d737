"""Prints a host program (docs/program.md) for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydispatch.errors import ArtifactError
from pydispatch.formats.program.commands import COMMANDS, words_of
from pydispatch.formats.program.layout import (
    IS_MUTABLE,
    IS_PUBLIC,
    BufferRecord,
    CheckRecord,
    CommandRecord,
    ConstantRecord,
    DerivationRecord,
    ExecutableRecord,
    ExportRecord,
    FunctionRecord,
    GlobalRecord,
    InitializerRecord,
    InstructionRecord,
    OperandRecord,
    ParameterRecord,
    ProcedureRecord,
    QueryRecord,
    Table,
    ValueRecord,
    join_words,
)
from pydispatch.formats.program.opcodes import MATH_FUNCTIONS, NONE, OPCODES, Access, BufferKind, Opcode, dtype_name
from pydispatch.formats.program.procedure_text import ProcedureText
from pydispatch.formats.program.records import Records, shape_text, signed, sizes_of
from pydispatch.formats.program.steps import CheckKind
from pydispatch.formats.program.tables import HostOperand

PREDICATES = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
"""Names of the predicates of integer comparisons, by their numbers in MLIR."""


class ProgramText(Records):
    """Printer of a host program."""

    def render(self) -> str:
        """Return the text of the whole program, table by table.

        Executables with their exports, queries of the device, constants, globals, checks, host commands, functions,
        procedures, and last the procedures that initialize globals when the program is loaded.
        """
        lines = [*self.executable_lines(), *self.query_lines(), *self.constant_lines()]
        for i, g in enumerate(self.table(Table.GLOBALS, GlobalRecord)):
            lines.append(f"global {i} " + self.global_text(g))
        for i, k in enumerate(self.table(Table.CHECKS, CheckRecord)):
            kind = CheckKind(k.kind).name.lower() if k.kind < len(CheckKind) else f"kind {k.kind}"
            name, location = self.string(k.name, k.name_length), self.string(k.location, k.location_length)
            lines.append(f"check {i} {kind} {name} at {location}")
        lines += self.command_lines()
        functions = self.table(Table.FUNCTIONS, FunctionRecord)
        for function in functions:
            lines += self.function(function)
        names = [self.string(f.name, f.name_length) for f in functions]
        for procedure in self.table(Table.PROCEDURES, ProcedureRecord):
            lines += ProcedureText(self, names).render(procedure)
        for initializer in self.table(Table.INITIALIZERS, InitializerRecord):
            lines.append(f"initializer: procedure {initializer.procedure}")
        return "\n".join(lines) + "\n"

    def executable_lines(self) -> list[str]:
        """Return the lines of the executables and of their exports.

        Example:
            Function 3 returns whether a device can run variant 0. Variant 1 has no condition. Function 4 computes the
            constants of the executable.

                executable 0 @matmul: variant conditions [3, always], constants from function 4
                export 0 @matmul::@main: ordinal 0, 2 constants, 3 bindings
        """
        executables = self.table(Table.EXECUTABLES, ExecutableRecord)
        names = [self.string(e.name, e.name_length) for e in executables]
        lines = []
        for i, (e, name) in enumerate(zip(executables, names, strict=True)):
            functions = self.words_at(e.conditions, e.condition_count)
            conditions = [str(function) if function != NONE else "always" for function in functions]
            constants = "" if e.constants_function == NONE else f", constants from function {e.constants_function}"
            lines.append(f"executable {i} @{name}: variant conditions [{', '.join(conditions)}]{constants}")
        for i, x in enumerate(self.table(Table.EXPORTS, ExportRecord)):
            executable = names[x.executable] if x.executable < len(names) else "?"
            export = self.string(x.name, x.name_length)
            lines.append(
                f"export {i} @{executable}::@{export}: ordinal {x.ordinal}, {x.constant_count} constants, "
                f"{x.binding_count} bindings"
            )
        return lines

    def query_lines(self) -> list[str]:
        """Return the lines of the device queries, each with its result for a device that does not know it."""
        lines = []
        for i, q in enumerate(self.table(Table.QUERIES, QueryRecord)):
            key = f'"{self.string(q.category, q.category_length)}" :: "{self.string(q.key, q.key_length)}"'
            lines.append(f"query {i} {key}, default {join_words(q.default_low, q.default_high)}")
        return lines

    def constant_lines(self) -> list[str]:
        """Return the lines of the constants: the source of each and its bytes.

        The source is the result of a function, a parameter that is supplied when the program is loaded, or a range of
        a member, a file in the artifact.
        """
        lines = []
        parameters = self.table(Table.PARAMETERS, ParameterRecord)
        computed_by = self.deriving_functions()
        for i, c in enumerate(self.table(Table.CONSTANTS, ConstantRecord)):
            member = self.string(c.member, c.member_length)
            if i in computed_by:
                source = f"derived by function {computed_by[i]}"
            elif c.parameter != NONE:
                is_known = c.parameter < len(parameters)  # false only in an invalid program
                source = self.parameter(parameters[c.parameter]) if is_known else f"parameter {c.parameter}"
            else:
                source = f"{member} at {join_words(c.offset_low, c.offset_high)}"
            lines.append(f"constant {i} {source}, {join_words(c.length_low, c.length_high)} bytes")
        return lines

    def deriving_functions(self) -> dict[int, int]:
        """Return a map from the index of each derived constant to the index of the function that computes it.

        A derived constant is computed from other constants. An invalid program gets a map as well, for its listing.
        """
        functions = self.table(Table.FUNCTIONS, FunctionRecord)
        constant_count = self.count(Table.CONSTANTS)
        computed_by: dict[int, int] = {}
        for derivation in self.table(Table.DERIVATIONS, DerivationRecord):
            # In an invalid program, the function may not exist (assume one result), or have a huge number of results
            # (limit it, since each result takes an entry of the map).
            is_known = derivation.function < len(functions)
            result_count = functions[derivation.function].result_count if is_known else 1
            count = min(result_count, constant_count)
            # The results of the function are consecutive constants.
            constants = range(derivation.first_constant, derivation.first_constant + count)
            computed_by.update(dict.fromkeys(constants, derivation.function))
        return computed_by

    def command_lines(self) -> list[str]:
        """Return a line of text for each host command that the program calls."""
        return [f"host command {i} {name}{signature_text(o)}" for i, (name, o) in enumerate(self.commands())]

    def commands(self) -> list[tuple[str, list[HostOperand]]]:
        """Return pairs (name, operands) of the host commands that the program calls; raise ArtifactError if invalid."""
        commands = []
        for command in self.table(Table.COMMANDS, CommandRecord):
            operands = []
            for o in self.records(command.operands, command.operand_count, OperandRecord):
                sizes = tuple(-1 if signed(size) < 0 else size for size in self.sizes(o.sizes, o.rank))
                if o.access not in {int(flag) for flag in Access}:
                    raise ArtifactError(
                        f"program.bin: access {o.access} to an operand of a host command does not exist"
                    )
                operands.append(HostOperand(o.dtype, None if o.is_scalar else sizes, Access(o.access)))
            commands.append((self.string(command.name, command.name_length), operands))
        return commands

    def shape(self, offset: int, rank: int) -> str:
        """Return a shape as text, such as `2x?x`, from `rank` sizes of two words each."""
        return shape_text(self.sizes(offset, rank))

    def parameters(self) -> list[dict[str, Any]]:
        """Return a dict of scope, key, type and shape for each constant supplied at load, as in the manifest."""
        return [
            {
                "scope": self.string(p.scope, p.scope_length),
                "key": self.string(p.key, p.key_length),
                "type": dtype_name(p.dtype),
                "shape": self.sizes(p.sizes, p.rank),
            }
            for p in self.table(Table.PARAMETERS, ParameterRecord)
        ]

    def parameter(self, record: ParameterRecord) -> str:
        """Return a parameter as text: its name, shape and element type."""
        scope, key = self.string(record.scope, record.scope_length), self.string(record.key, record.key_length)
        return f'parameter "{scope}" :: "{key}" {self.shape(record.sizes, record.rank)}{dtype_name(record.dtype)}'

    def global_text(self, record: GlobalRecord) -> str:
        """Return the text of a variable of the program, such as `mutable @counter: scalar i64 = 0`."""
        name = self.string(record.name, record.name_length)
        mutable = "mutable " if record.flags & IS_MUTABLE else ""
        if record.is_scalar:
            value = signed(join_words(record.value_low, record.value_high))
            return f"{mutable}@{name}: scalar {dtype_name(record.dtype)} = {value}"
        initial = f" = constant {record.constant}" if record.constant != NONE else ""
        return f"{mutable}@{name}: {self.shape(record.sizes, record.rank)}{dtype_name(record.dtype)}{initial}"

    def function(self, record: FunctionRecord) -> list[str]:
        """Return the lines of a function: signature, arguments, buffers, instructions, results."""
        visibility = "public" if record.flags & IS_PUBLIC else "private"
        name = self.string(record.name, record.name_length)
        lines = [f"function {visibility} @{name} {self.string(record.signature, record.signature_length)}".rstrip()]
        pool = self.words_at(record.pool, record.pool_count)
        for i, argument in enumerate(self.records(record.arguments, record.argument_count, ValueRecord)):
            lines.append(f"  argument {i} {self.argument(argument, pool)}")
        for i, buffer in enumerate(self.records(record.buffers, record.buffer_count, BufferRecord)):
            lines.append(f"  buffer {i}: {buffer_text(buffer)}")
        for instruction in self.records(record.instructions, record.instruction_count, InstructionRecord):
            lines.append("  " + self.instruction(instruction, pool))
        for i, result in enumerate(self.records(record.results, record.result_count, ValueRecord)):
            lines.append(f"  result {i}: {result_text(result, pool)}")
        return lines

    def argument(self, record: ValueRecord, pool: list[int]) -> str:
        """Return the text of an argument, such as `x: 2x?xf32`; its sizes are in the pool, in two words each."""
        sizes = sizes_of(words_of(pool, record.sizes, 2 * record.rank))
        shape = "scalar " if record.is_scalar else shape_text(sizes)
        return f"{self.string(record.name, record.name_length)}: {shape}{dtype_name(record.dtype)}"

    def chains(self) -> list[tuple[str, list[str]]]:
        """Return pairs (function, exports), one per tile-fused dispatch sequence, in order.

        The dispatches of such a sequence, a chain, run tile by tile: all for the workgroups of one tile, then for the
        next.
        """
        chains: list[tuple[str, list[str]]] = []
        for record in self.table(Table.FUNCTIONS, FunctionRecord):
            function = self.string(record.name, record.name_length)
            chains += [(function, exports) for exports in self._function_chains(record)]
        return chains

    def _function_chains(self, record: FunctionRecord) -> list[list[str]]:
        """Return the names of the exports of each chain of one function, such as [["@scale", "@add"]], in order.

        A chain is a sequence of dispatches that run alternately, a tile of the data at a time, so that intermediate
        results stay in the cache. Dispatches that are in no chain are left out.
        """
        exports = [f"@{self.string(x.name, x.name_length)}" for x in self.table(Table.EXPORTS, ExportRecord)]
        pool = self.words_at(record.pool, record.pool_count)
        constants: dict[int, int] = {}  # register → its value, for registers that CONST sets
        chains: list[list[str]] = []  # including dispatches that are alone, as lists of one name
        for opcode, dst, a, b, c in self.records(record.instructions, record.instruction_count, InstructionRecord):
            if opcode == Opcode.CONST:
                constants[dst] = join_words(b, c)
            elif opcode & 0xFFFF == Opcode.DISPATCH:
                (export_register,) = words_of(pool, a, count=1)  # the first word of the dispatch's record
                export_index = constants.get(export_register, NONE)
                # An export that is computed, for example selected by the variant, has no one name.
                name = exports[export_index] if export_index < len(exports) else "one of several exports"
                modifier = opcode >> 16
                if modifier and chains:  # the dispatch continues the chain of the previous one
                    chains[-1].append(name)
                else:
                    chains.append([name])
        return [chain for chain in chains if len(chain) > 1]

    def instruction(self, record: InstructionRecord, pool: list[int]) -> str:
        """Return the text of one instruction, such as `r4 = add.64 r2, r3`.

        docs/program.md, "Instructions", has the operands a, b and c of each opcode. The opcode's word has a modifier in
        its high half:

        - arithmetic: the width in bits, 64 in `add.64`
        - comparisons: the width plus 256 times the predicate
        - a query: 1 if its result is whether the device has the value
        - a dispatch: 1 if it continues the chain (a sequence that runs tile by tile) of the previous dispatch

        Args:
            record: The instruction.
            pool: Words of the function to which operands refer by index: records of commands, such as the grid and the
                bindings of a dispatch, and offset and length of messages.
        """
        opcode, modifier = record.opcode & 0xFFFF, record.opcode >> 16
        dst, a, b, c = record.dst, record.a, record.b, record.c
        op = OPCODES.get(opcode)
        if op is None:
            return f"unknown opcode {opcode}"
        name = op.name.lower()
        # Instructions whose operands are not all registers.
        if op is Opcode.CONST:  # b, c: low and high word of the value
            return f"r{dst} = {signed(join_words(b, c))}"
        if op is Opcode.DIM:
            return f"r{dst} = dim {b} of argument {a}"
        if op in (Opcode.SCALAR, Opcode.QUERY, Opcode.VARIANT):
            return f"r{dst} = {name} {a}" + (" exists" if modifier else "")
        if op in (Opcode.CHECK_EQ, Opcode.CHECK):
            condition = f"r{a} == r{b}" if op is Opcode.CHECK_EQ else f"r{a}"
            return f"check {condition}, {self.string(*words_of(pool, c, count=2))!r}"
        if op in COMMANDS:
            command, region = COMMANDS[op](pool, a), c
            # b of a dispatch in a chain is the number of workgroups that run for each tile; 0 outside of a chain.
            tile = f", {b} workgroups a tile" if op is Opcode.DISPATCH and b else ""
            return f"region {region}: {command}{tile}{' of the same chain' if modifier else ''}"
        if op in (Opcode.CMP, Opcode.FCMP):
            width, predicate = modifier & 0xFF, modifier >> 8
            # Predicates of floats, 0 to 15 in MLIR, are printed as numbers.
            has_name = op is Opcode.CMP and predicate < len(PREDICATES)
            return f"r{dst} = {name}.{width} {PREDICATES[predicate] if has_name else predicate} r{a}, r{b}"
        width_suffix = f".{modifier}" if modifier else ""
        return f"r{dst} = {name}{width_suffix} {', '.join(_arithmetic_operands(op, (a, b, c)))}"


def _arithmetic_operands(op: Opcode, words: tuple[int, int, int]) -> list[str]:
    """Return the operands of an arithmetic instruction, whose words are its operands a, b and c."""
    # `registers` of an opcode has the letters of the operands that are registers, such as "dab".
    operands = [f"r{word}" for letter, word in zip("abc", words, strict=True) if letter in op.registers]
    b = words[1]
    if op is Opcode.FMATH:
        operands.append(MATH_FUNCTIONS[b] if b < len(MATH_FUNCTIONS) else str(b))
    elif op in (Opcode.FCVT, Opcode.SITOFP, Opcode.UITOFP, Opcode.FPTOSI, Opcode.FPTOUI):
        operands.append(f"from {b}")  # the width or float format of the operand; the modifier is the result's
    return operands


def buffer_text(record: BufferRecord) -> str:
    """Return the text of a buffer of a function, such as `result 0, r7 bytes, regions 0..0`; r7 is a register."""
    size = "" if record.size == NONE else f", r{record.size} bytes"
    kind = BufferKind(record.kind).name.lower() if record.kind < len(BufferKind) else f"kind {record.kind}"
    tile = f", {record.tile_bytes} bytes a tile" if record.tile_bytes else ""
    return f"{kind} {record.ordinal}{size}, regions {record.first_region}..{record.last_region}{tile}"


def result_text(record: ValueRecord, pool: list[int]) -> str:
    """Return the text of a result, such as `[r0]x[r2]xf32 in buffer 3`; its sizes are registers, listed in the pool."""
    if record.is_scalar:
        return f"{dtype_name(record.dtype)} = r{record.target}"
    shape = "".join(f"[r{register}]x" for register in words_of(pool, record.sizes, record.rank))
    tied = f", may take over argument {record.tied - 1}" if record.tied else ""  # 0: none
    return f"{shape}{dtype_name(record.dtype)} in buffer {record.target}{tied}"


def signature_text(operands: Sequence[HostOperand]) -> str:
    """Return the operands of a host command as text, such as `(?xf32, 4xf32 written, i32)`; `?` is a dynamic size."""

    def operand_text(operand: HostOperand) -> str:
        """Return one operand as text."""
        shape = "".join(f"{'?' if size < 0 else size}x" for size in operand.sizes or ())
        return f"{shape}{dtype_name(operand.dtype)}{operand.access.label}"

    return f"({', '.join(map(operand_text, operands))})"


def chains_of(program: bytes | memoryview) -> list[tuple[str, list[str]]]:
    """Return pairs (function, exports), one per tile-fused dispatch sequence; [] for an invalid program."""
    try:
        return ProgramText(bytes(program)).chains()
    except ArtifactError:  # loading reports the fault
        return []


def commands_of(program: bytes | memoryview) -> list[tuple[str, list[HostOperand]]]:
    """Return pairs (name, operands) of the host commands that a program calls; [] for an invalid program."""
    try:
        return ProgramText(bytes(program)).commands()
    except ArtifactError:  # loading reports the fault
        return []


def parameters_of(program: bytes | memoryview) -> list[dict[str, Any]]:
    """Return scope, key, type and shape of the constants that are supplied at load; [] for an invalid program."""
    try:
        return ProgramText(bytes(program)).parameters()
    except ArtifactError:  # loading reports the fault
        return []
