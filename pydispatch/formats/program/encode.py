"""The bytes of a host program; docs/program.md is the format."""

from __future__ import annotations

import struct
from collections.abc import Iterable

from pydispatch.errors import InternalError
from pydispatch.formats.program.function import ProgramFunction
from pydispatch.formats.program.layout import HEADER_WORDS, Header, Table
from pydispatch.formats.program.opcodes import MAGIC, NONE, VERSION
from pydispatch.formats.program.procedure import Label, Port, Procedure
from pydispatch.formats.program.tables import HostCommand, ProgramTables

_LOW = 0xFFFFFFFF


def split(value: int) -> tuple[int, int]:
    """Return the low and the high 32-bit word of a 64-bit value."""
    return value & _LOW, value >> 32 & _LOW


def _float(value: float) -> tuple[int, int]:
    """Return the low and the high 32-bit word of a double."""
    low, high = struct.unpack("<2I", struct.pack("<d", value))
    return low, high


def _sizes(dims: Iterable[int]) -> list[int]:
    """Return two words, low and high, for each size."""
    return [word for size in dims for word in split(size)]


class Encoder:
    """Encoder of a host program: appends tables to a word array and stores their offsets in the header."""

    def __init__(self, program: ProgramTables) -> None:
        self.program = program
        self.words: list[int] = [0] * HEADER_WORDS
        self.functions = {id(f): i for i, f in enumerate(program.functions)}

    def append(self, words: Iterable[int]) -> int:
        """Append words and return their offset, in words."""
        at = len(self.words)
        self.words += words
        return at

    def records(self, table: Table, records: list[list[int]]) -> None:
        """Append a table of records, and store its offset and count in the header."""
        self.words[table : table + 2] = self.append(w for record in records for w in record), len(records)

    def encode(self) -> bytes:
        """Return the bytes of the program; layout.py has the words of each record."""
        program, string = self.program, self.program.string
        self.records(Table.EXECUTABLES, [
            [*string(e.name), e.constants_function, self.append(e.variant_conditions), len(e.variant_conditions), 0]
            for e in program.executables
        ])  # fmt: skip
        self.records(Table.EXPORTS, [
            [e.executable, e.ordinal, *string(e.name), e.constant_count, e.binding_count] for e in program.exports
        ])  # fmt: skip
        self.records(Table.QUERIES, [
            [*string(category), *string(key), *split(default), 0, 0] for category, key, default in program.queries
        ])  # fmt: skip
        parameter_of = {constant: i for i, constant in enumerate(program.parameters)}
        self.records(Table.CONSTANTS, [
            [*string(member), *split(offset), *split(length), parameter_of.get(i, NONE), 0]
            for i, (member, offset, length) in enumerate(program.constants)
        ])  # fmt: skip
        self.records(Table.FUNCTIONS, [self.function(f) for f in program.functions])
        self.records(Table.PROCEDURES, [self.procedure(p) for p in program.procedures])
        self.records(Table.GLOBALS, [
            [*string(g.name), int(g.dims is None), g.dtype, len(g.dims or ()), self.append(_sizes(g.dims or ())),
             g.constant, *split(g.value), int(g.is_mutable), 0, 0]
            for g in program.globals
        ])  # fmt: skip
        self.records(Table.INITIALIZERS, [[program.procedures.index(p)] for p in program.initializers])
        self.records(Table.CHECKS, [
            [c.kind, *string(c.name), *string(c.location), *_float(c.atol), *_float(c.rtol), 0, 0, 0]
            for c in program.checks
        ])  # fmt: skip
        self.records(Table.PARAMETERS, [
            [*string(p.scope), *string(p.key), p.dtype, len(p.shape), self.append(_sizes(p.shape)), 0]
            for p in program.parameters.values()
        ])  # fmt: skip
        self.records(Table.DERIVATIONS, [[self.functions[id(f)], first, 0, 0] for f, first in program.derived])
        self.records(Table.COMMANDS, [
            [*string(c.name), self.append(self.operands(c)), len(c.operands), 0, 0] for c in program.commands
        ])  # fmt: skip
        text = bytes(program.text)
        strings = text + bytes(-len(text) % 4)
        self.words[Header.STRINGS], self.words[Header.STRING_BYTES] = 4 * len(self.words), len(text)
        self.words[Header.MAGIC], self.words[Header.VERSION] = MAGIC, VERSION
        self.words[Header.WORDS] = len(self.words) + len(strings) // 4
        return struct.pack(f"<{len(self.words)}I", *self.words) + strings

    def operands(self, command: HostCommand) -> list[int]:
        """Return the operand records of a host command, and append their sizes."""
        return [
            word
            for o in command.operands
            for word in (
                int(o.sizes is None), int(o.access), o.dtype, len(o.sizes or ()), self.append(_sizes(o.sizes or ())), 0,
            )
        ]  # fmt: skip

    def tables(self, *tables: tuple[list[int], int]) -> list[int]:
        """Append (words, record count) tables; return the offset and the record count of each, flattened."""
        return [word for words, count in tables for word in (self.append(words), count)]

    def function(self, function: ProgramFunction) -> list[int]:
        """Append the tables of a function and return its record."""
        string, pool = self.program.string, list(function.pool)

        def push(words: Iterable[int]) -> int:
            start = len(pool)
            pool.extend(words)
            return start

        arguments: list[int] = []
        for a in function.arguments:
            dims = push(_sizes(a.dims or ()))
            arguments += [int(a.dims is None), a.dtype, len(a.dims or ()), dims, *string(a.name), a.buffer, 0]
        results: list[int] = []
        for r in function.results:
            slot = r.register if r.dims is None else r.buffer
            tied = 0 if r.tied == NONE else r.tied + 1
            head = [int(r.dims is None), r.dtype, len(r.dims or ()), push(r.dims or ()), *string(r.name)]
            results += [*head, slot, tied]
        buffers = [word for b in function.buffers for word in (b.kind, b.index, b.size, b.first, b.last, b.tile_bytes)]
        instructions = [word for instruction in function.instructions for word in instruction]
        tables = self.tables(
            (arguments, len(function.arguments)),
            (results, len(function.results)),
            (buffers, len(function.buffers)),
            (instructions, len(function.instructions)),
            (pool, len(pool)),
        )
        return [
            *string(function.name),
            *string(function.signature),
            int(function.public),
            *tables,
            function.registers,
            function.region + 1,
            0,
            0,
            0,
        ]

    def procedure(self, procedure: Procedure) -> list[int]:
        """Append the tables of a procedure and return its record."""
        string, pool = self.program.string, list(procedure.pool)

        def port(port: Port, is_argument: bool) -> list[int]:
            """Return the record of an argument or result, and append an argument's sizes to the pool."""
            at = len(pool)
            if is_argument:
                pool.extend(_sizes(port.dims or ()))
            head = [
                int(port.dims is None),
                port.dtype,
                len(port.dims or ()),
                at if is_argument else 0,
                *string(port.name),
            ]
            return [*head, port.slot if is_argument else 0, 0]

        arguments = [word for x in procedure.arguments for word in port(x, is_argument=True)]
        results = [word for x in procedure.results for word in port(x, is_argument=False)]
        slots = [word for s in procedure.slots for word in (int(s.rank is None), s.dtype, s.rank or 0, 0)]
        steps = [self.operand(procedure, operand) for step in procedure.steps for operand in step]
        tables = self.tables(
            (arguments, len(procedure.arguments)),
            (results, len(procedure.results)),
            (slots, len(procedure.slots)),
            (steps, len(procedure.steps)),
            (pool, len(pool)),
        )
        return [*string(procedure.name), *string(procedure.signature), int(procedure.public), *tables, 0]

    def operand(self, procedure: Procedure, operand: int | Label | ProgramFunction) -> int:
        """Return the word of a step's operand: a number, the index of a function, or the step that a label is bound
        to."""
        if isinstance(operand, int):
            return operand
        if not isinstance(operand, Label):
            return self.functions[id(operand)]
        if not 0 <= operand.step < len(procedure.steps):
            raise InternalError(f"procedure @{procedure.name}: a label is bound to no step")
        return operand.step
