"""The bytes of a host program; docs/program.md is the format."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

from pydispatch.errors import InternalError
from pydispatch.formats.program.function import ProgramFunction
from pydispatch.formats.program.layout import (
    HEADER_WORDS,
    BufferRecord,
    FunctionRecord,
    Header,
    OperandRecord,
    ProcedureRecord,
    SlotRecord,
    Table,
    ValueRecord,
)
from pydispatch.formats.program.opcodes import MAGIC, NONE, VERSION
from pydispatch.formats.program.procedure import Label, Port, Procedure
from pydispatch.formats.program.tables import HostCommand, ProgramTables

_LOW = 0xFFFFFFFF
"""Mask of the low 32 bits of a value that takes two words."""


def split(value: int) -> tuple[int, int]:
    """Return the low and the high 32-bit word of a 64-bit value."""
    return value & _LOW, value >> 32 & _LOW


def _double_words(value: float) -> tuple[int, int]:
    """Return the low and the high 32-bit word of a double."""
    low, high = struct.unpack("<2I", struct.pack("<d", value))
    return low, high


def _sizes(dims: Iterable[int]) -> list[int]:
    """Return two words, low and high, for each size."""
    return [word for size in dims for word in split(size)]


def _flat(records: Iterable[Iterable[int]]) -> list[int]:
    """Return the words of records, one record after the other."""
    return [word for record in records for word in record]


def _rank(dims: Sequence[int] | None) -> int | None:
    """Return the number of dimensions of a value with these sizes; None for a scalar, whose sizes are None."""
    return None if dims is None else len(dims)


def _buffer_records(function: ProgramFunction) -> list[BufferRecord]:
    """Return the records of the buffers of a function."""
    return [
        BufferRecord(
            kind=b.kind,
            ordinal=b.index,
            size=b.size,
            first_region=b.first,
            last_region=b.last,
            tile_bytes=b.tile_bytes,
        )
        for b in function.buffers
    ]


class Encoder:
    """Encoder of a host program: appends tables to a word array and stores their offsets in the header.

    `encode` is called once. The other methods append the tables of one entity and return its record.

    Attributes:
        program: The program. Strings are added to its text during the encoding.
        words: Header and tables so far, as 32-bit words.
        functions: id() of each function → its number in the program.
    """

    def __init__(self, program: ProgramTables) -> None:
        """Begin with a header of zeros, where `records` stores the offsets of tables, and number the functions."""
        self.program = program
        self.words: list[int] = [0] * HEADER_WORDS
        self.functions = {id(f): i for i, f in enumerate(program.functions)}  # identity of a function -> its number

    def append(self, words: Iterable[int]) -> int:
        """Append words and return their offset, in words."""
        at = len(self.words)
        self.words += words
        return at

    def records(self, table: Table, records: Sequence[Sequence[int]]) -> None:
        """Append a table of the program, and store its offset and record count in the header."""
        self.words[table : table + 2] = self.append(_flat(records)), len(records)

    def encode(self) -> bytes:
        """Return the bytes of the program: the header, the tables, and the strings at the end."""
        self._append_tables()
        text = bytes(self.program.text)
        strings = text + bytes(-len(text) % 4)
        self.words[Header.STRINGS], self.words[Header.STRING_BYTES] = 4 * len(self.words), len(text)
        self.words[Header.MAGIC], self.words[Header.VERSION] = MAGIC, VERSION
        self.words[Header.FILE_WORDS] = len(self.words) + len(strings) // 4
        return struct.pack(f"<{len(self.words)}I", *self.words) + strings

    def _append_tables(self) -> None:
        """Append all tables of the program, and store their offsets and record counts in the header.

        Each list below is a record, whose words layout.py names: for `Table.EXPORTS` those of `ExportRecord`. For the
        export @add, the first of executable 0, with 1 constant and 3 bindings, it is [0, 0, offset of "add" in the
        string table, 3 bytes, 1, 3]. Pairs of words are
        - `*string(s)`: offset and length of a string in the string table;
        - `*split(n)`: low and high word of a 64-bit number.

        `self.append(words)` writes a list of variable length, such as sizes, to the file before the table, and returns
        its offset for the record. Zeros at the end of a record are reserved.
        """
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
        # Number of a constant that is supplied when the program is loaded → index of its record in Table.PARAMETERS.
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
            [c.kind, *string(c.name), *string(c.location), *_double_words(c.atol), *_double_words(c.rtol), 0, 0, 0]
            for c in program.checks
        ])  # fmt: skip
        self.records(Table.PARAMETERS, [
            [*string(p.scope), *string(p.key), p.dtype, len(p.shape), self.append(_sizes(p.shape)), 0]
            for p in program.parameters.values()
        ])  # fmt: skip
        self.records(Table.DERIVATIONS, [
            [self.functions[id(f)], first_constant, 0, 0] for f, first_constant in program.derived
        ])  # fmt: skip
        self.records(Table.COMMANDS, [
            [*string(c.name), self.append(self.operands(c)), len(c.operands), 0, 0] for c in program.commands
        ])  # fmt: skip

    def operands(self, command: HostCommand) -> list[int]:
        """Return the words of the operand records of a host command, and append the operands' sizes to the program."""
        return _flat(
            OperandRecord(
                is_scalar=int(o.sizes is None),
                access=int(o.access),
                dtype=o.dtype,
                rank=len(o.sizes or ()),
                sizes=self.append(_sizes(o.sizes or ())),
                reserved=0,
            )
            for o in command.operands
        )

    def value(self, dtype: int, rank: int | None, name: str, *, sizes: int, target: int, tied: int = 0) -> ValueRecord:
        """Return the record of an argument or result of a function or procedure.

        Args:
            dtype: Word that encodes the element type (`opcodes.dtype_word`).
            rank: Number of dimensions; None for a scalar.
            name: Name for calls; "" for none.
            sizes: Where its sizes, or the registers with its sizes, begin in the pool of the function or procedure; 0
                for none. The pool has the words of lists that records refer to.
            target: Number of the buffer, register or slot that holds the value; 0 for none.
            tied: 1 + the index of the argument whose memory a function's result may take over; 0 for none.
        """
        offset, length = self.program.string(name)
        return ValueRecord(
            is_scalar=int(rank is None),
            dtype=dtype,
            rank=rank or 0,
            sizes=sizes,
            name=offset,
            name_length=length,
            target=target,
            tied=tied,
        )

    def tables(self, *tables: Sequence[Sequence[int]]) -> list[int]:
        """Append tables of records; return the offset and the record count of each, flattened."""
        return [word for records in tables for word in (self.append(_flat(records)), len(records))]

    def function(self, function: ProgramFunction) -> FunctionRecord:
        """Append the tables of a function and return its record.

        The pool of a function has the words of variable-length operands, to which its records refer by index. The file
        has a copy of it with more words: the sizes of the arguments, two words each, then the registers with the sizes
        of the results. For a pool of the words [p, q], an argument tensor<?x4xf32>, and a result whose sizes are in
        the registers 7 and 8, it is

            [p, q, 0xFFFFFFFF, 0xFFFFFFFF, 4, 0, 7, 8]    the dynamic size is -1

        and `sizes` is 2 in the record of the argument and 6 in that of the result.
        """
        string, pool = self.program.string, list(function.pool)

        def push(words: Iterable[int]) -> int:
            """Append words to `pool`, the copy of the function's pool, and return the position of the first one."""
            start = len(pool)
            pool.extend(words)
            return start

        arguments = [
            self.value(a.dtype, _rank(a.dims), a.name, sizes=push(_sizes(a.dims or ())), target=a.buffer)
            for a in function.arguments
        ]
        results = [
            self.value(
                r.dtype, _rank(r.dims), r.name, sizes=push(r.dims or ()),
                target=r.register if r.dims is None else r.buffer,  # a scalar is returned in a register
                tied=0 if r.tied == NONE else r.tied + 1,
            )
            for r in function.results
        ]  # fmt: skip
        buffers = _buffer_records(function)
        # Offset and record count of each table, in the order of the fields of FunctionRecord.
        tables = self.tables(arguments, results, buffers, function.instructions, [(word,) for word in pool])
        region_count = function.region + 1  # `region` is the index of the last one
        counts = (function.registers, region_count)
        reserved = (0, 0, 0)
        return FunctionRecord._make(
            [*string(function.name), *string(function.signature), int(function.public), *tables, *counts, *reserved]
        )

    def procedure(self, procedure: Procedure) -> ProcedureRecord:
        """Append the tables of a procedure and return its record.

        A procedure runs steps over slots, variables that hold whole values. Its pool has the words of variable-length
        operands, to which its steps refer by index. The file has a copy of the pool, to which the sizes of the
        arguments are added, two words each.

        In the operands of steps, a function is replaced by its index in the program and a label by the index of the
        step that it is bound to: (Step.RUN, f, 3, 0, 0) becomes [1, 5, 3, 0, 0] if f is the function with index 5.
        """
        string, pool = self.program.string, list(procedure.pool)

        def argument(port: Port) -> ValueRecord:
            """Return the record of an argument, and append its sizes to `pool`, the copy of the procedure's pool."""
            sizes_position = len(pool)
            pool.extend(_sizes(port.dims or ()))
            return self.value(port.dtype, _rank(port.dims), port.name, sizes=sizes_position, target=port.slot)

        arguments = [argument(port) for port in procedure.arguments]
        # The sizes and slots of results are unused: a RETURN step lists the slots, whose values have sizes.
        results = [self.value(port.dtype, _rank(port.dims), port.name, sizes=0, target=0) for port in procedure.results]
        slots = [
            SlotRecord(is_scalar=int(s.rank is None), dtype=s.dtype, rank=s.rank or 0, reserved=0)
            for s in procedure.slots
        ]
        steps = [[self.operand(procedure, operand) for operand in step] for step in procedure.steps]
        # Offset and record count of each table, in the order of the fields of ProcedureRecord.
        tables = self.tables(arguments, results, slots, steps, [(word,) for word in pool])
        name, signature = string(procedure.name), string(procedure.signature)  # (offset, length) each
        flags = int(procedure.public)
        reserved = 0
        return ProcedureRecord._make([*name, *signature, flags, *tables, reserved])

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
