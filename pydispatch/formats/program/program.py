"""Writes the host program of an artifact (`program.bin`); docs/program.md is the format.

A `Program` owns the tables that functions share (executables, exports, queries, constants, globals, checks), its
`Function`s and its `Procedure`s. A `Function` is built by calling methods that return register numbers; equal pure
instructions share one register. `disassemble` prints the bytes again.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from pydispatch.formats.program.encode import Encoder
from pydispatch.formats.program.opcodes import (
    HIGH_WORD,
    MAGIC,
    NONE,
    VERSION,
    BufferKind,
    Numerical,
    Op,
    buffer_bytes,
    dtype_name,
    dtype_word,
)
from pydispatch.formats.program.procedure import Check, Global, Label, Parameter, Port, Procedure, Slot
from pydispatch.formats.program.steps import LAST_USE, CheckKind, Step
from pydispatch.formats.program.text import ProgramText

__all__ = [
    "HIGH_WORD",
    "LAST_USE",
    "MAGIC",
    "NONE",
    "VERSION",
    "Argument",
    "BindingRange",
    "Buffer",
    "BufferKind",
    "Check",
    "CheckKind",
    "Executable",
    "ExportEntry",
    "Function",
    "Global",
    "Label",
    "Numerical",
    "Op",
    "Parameter",
    "Port",
    "Procedure",
    "Program",
    "Result",
    "Slot",
    "Step",
    "buffer_bytes",
    "disassemble",
    "dtype_name",
    "dtype_word",
]


@dataclass
class Argument:
    """A function argument. dtype: a dtype word; dims: sizes, -1 for a dynamic one; None makes it a scalar."""

    dtype: int
    dims: tuple[int, ...] | None
    name: str = ""
    buffer: int = NONE


@dataclass
class Result:
    """A function result: a tensor in `buffer` whose sizes are in registers, or a scalar in `register`.

    tied: the argument whose memory it may take over when a procedure runs the function (docs/program.md).
    """

    dtype: int
    dims: tuple[int, ...] | None  # registers
    buffer: int = NONE
    register: int = NONE
    name: str = ""
    tied: int = NONE


@dataclass
class Buffer:
    kind: BufferKind
    index: int
    size: int  # register
    first: int = 0
    last: int = 0
    used: bool = False

    def touch(self, region: int) -> None:
        """Extends the lifetime to `region`."""
        self.first = min(self.first, region) if self.used else region
        self.last = max(self.last, region) if self.used else region
        self.used = True


@dataclass(frozen=True)
class BindingRange:
    """A buffer as a dispatch sees it: registers of its byte offset and length, NONE for 0 and for the rest."""

    buffer: int
    offset: int = NONE
    length: int = NONE


class Function:
    """One host function under construction."""

    def __init__(self, program: Program, name: str, signature: str = "", public: bool = True) -> None:
        self.program = program
        self.name, self.signature, self.public = name, signature, public
        self.arguments: list[Argument] = []
        self.results: list[Result] = []
        self.buffers: list[Buffer] = []
        self.pool: list[int] = []
        self.instructions: list[tuple[int, int, int, int, int]] = []
        self.registers = 0
        self.region = 0
        self._pure: dict[tuple[int, ...], int] = {}
        self._constants: dict[int, int] = {}

    # -- values

    def emit(self, op: Op, a: int = 0, b: int = 0, c: int = 0, modifier: int = 0) -> int:
        """A pure instruction; returns its register."""
        key = (op, modifier, a, b, c)
        if key not in self._pure:
            self._pure[key] = self.registers
            self.instructions.append((op | modifier << 16, self.registers, a, b, c))
            self.registers += 1
        return self._pure[key]

    def constant(self, value: int) -> int:
        """A register that holds `value` (integers sign-extended to 64 bits, floats as their bits)."""
        value &= (1 << 64) - 1
        register = self.emit(Op.CONST, 0, value & 0xFFFFFFFF, value >> 32)
        self._constants[register] = value
        return register

    def constant_value(self, register: int) -> int | None:
        """The signed value of a register that `constant` made, else None."""
        value = self._constants.get(register)
        return None if value is None else value - (1 << 64) if value >> 63 else value

    def binary(self, op: Op, a: int, b: int, width: int = 64) -> int:
        return self.emit(op, a, b, 0, width)

    def multiply(self, factors: Iterable[int]) -> int:
        """The product of registers at 64 bits; constants are folded."""
        fixed, product = 1, None
        for factor in factors:
            value = self.constant_value(factor)
            if value is not None:
                fixed *= value
            else:
                product = factor if product is None else self.binary(Op.MUL, product, factor)
        if product is None:
            return self.constant(fixed)
        return product if fixed == 1 else self.binary(Op.MUL, product, self.constant(fixed))

    def check_equal(self, a: int, b: int, message: str) -> None:
        """Refuses the call unless both registers agree. `{a}` and `{b}` in the message stand for the values."""
        known_a, known_b = self.constant_value(a), self.constant_value(b)
        if a == b or (known_a is not None and known_a == known_b):
            return
        self._check(Op.CHECK_EQ, a, b, message)

    def check(self, condition: int, message: str) -> None:
        """Refuses the call when the register is zero."""
        self._check(Op.CHECK, condition, 0, message)

    def _check(self, op: Op, a: int, b: int, message: str) -> None:
        self.instructions.append((op, NONE, a, b, self._push(self.program.string(message))))

    # -- arguments, results and buffers

    def add_argument(self, argument: Argument) -> int:
        """Adds an argument (with its buffer when it is a tensor); returns its index."""
        index = len(self.arguments)
        if argument.dims is not None:
            argument.buffer = self._buffer(BufferKind.ARGUMENT, index, NONE)
        self.arguments.append(argument)
        return index

    def add_transient(self, size: int) -> int:
        """A buffer that lives within one call; `size`: register of its bytes."""
        return self._buffer(BufferKind.TRANSIENT, 0, size)

    def add_constant_buffer(self, constant: int) -> int:
        return self._buffer(BufferKind.CONSTANT, constant, NONE)

    def add_result_buffer(self, result: int, size: int) -> int:
        """The memory of result number `result`; `size`: register of its bytes."""
        return self._buffer(BufferKind.RESULT, result, size)

    def _buffer(self, kind: BufferKind, index: int, size: int) -> int:
        self.buffers.append(Buffer(kind, index, size))
        return len(self.buffers) - 1

    # -- commands

    def next_region(self) -> None:
        """Commands from here on start when all earlier ones are complete."""
        self.region += 1

    def dispatch(
        self, export: int, grid: Sequence[int], constants: Sequence[int], bindings: Sequence[BindingRange]
    ) -> None:
        """`export`: register of the export's index; `grid`: three registers; `constants`: registers, + HIGH_WORD."""
        words = [export, *grid, len(constants), *constants, len(bindings)]
        for binding in bindings:
            words += [binding.buffer, binding.offset, binding.length]
            self.buffers[binding.buffer].touch(self.region)
        self._command(Op.DISPATCH, words)

    def fill(self, target: BindingRange, pattern: int, pattern_bytes: int) -> None:
        self.buffers[target.buffer].touch(self.region)
        self._command(Op.FILL, [target.buffer, target.offset, target.length, pattern, pattern_bytes])

    def copy(self, source: int, source_offset: int, target: int, target_offset: int, length: int) -> None:
        for buffer in (source, target):
            self.buffers[buffer].touch(self.region)
        self._command(Op.COPY, [source, source_offset, target, target_offset, length])

    def _command(self, op: Op, words: list[int]) -> None:
        self.instructions.append((op, NONE, self._push(words), 0, self.region))

    def _push(self, words: Iterable[int]) -> int:
        start = len(self.pool)
        self.pool += words
        return start


@dataclass
class Executable:
    name: str
    constants_function: int = NONE
    variant_conditions: list[int] = field(default_factory=list)  # one function index or NONE per variant


@dataclass(frozen=True)
class ExportEntry:
    executable: int
    ordinal: int
    name: str
    constant_count: int
    binding_count: int


class Program:
    """A whole host program under construction."""

    def __init__(self) -> None:
        self.executables: list[Executable] = []
        self.exports: list[ExportEntry] = []
        self.queries: list[tuple[str, str, int]] = []
        self.constants: list[tuple[str, int, int]] = []  # member, offset, length in bytes
        self.functions: list[Function] = []
        self.procedures: list[Procedure] = []
        self.globals: list[Global] = []
        self.initializers: list[Procedure] = []
        self.checks: list[Check] = []
        self.parameters: dict[int, Parameter] = {}  # by the number of their constant
        self._strings = bytearray()
        self._string_offsets: dict[bytes, int] = {}

    def string(self, text: str) -> tuple[int, int]:
        data = text.encode()
        if data not in self._string_offsets:
            self._string_offsets[data] = len(self._strings)
            self._strings += data
        return self._string_offsets[data], len(data)

    def add_function(self, name: str, signature: str = "", public: bool = True) -> Function:
        self.functions.append(Function(self, name, signature, public))
        return self.functions[-1]

    def function_index(self, function: Function) -> int:
        return self.functions.index(function)

    def add_procedure(self, name: str, signature: str = "", public: bool = True) -> Procedure:
        self.procedures.append(Procedure(self, name, signature, public))
        return self.procedures[-1]

    def add_initializer(self, name: str = "") -> Procedure:
        """A procedure without arguments and results that runs when the program is loaded."""
        procedure = self.add_procedure(name or f"initializer {len(self.initializers)}", "()", public=False)
        self.initializers.append(procedure)
        return procedure

    def add_global(
        self, name: str, dtype: int, dims: tuple[int, ...] | None, constant: int = NONE, value: int = 0,
        is_mutable: bool = True,
    ) -> int:  # fmt: skip
        """State of a loaded program; returns its number. See `Global`."""
        self.globals.append(Global(name, dtype, dims, constant, value & ((1 << 64) - 1), is_mutable))
        return len(self.globals) - 1

    def add_check(self, kind: CheckKind, location: str, name: str = "", atol: float = 0.0, rtol: float = 0.0) -> int:
        """Something that `Procedure.observe` hands values to; returns its number."""
        self.checks.append(Check(kind, location, name, atol, rtol))
        return len(self.checks) - 1

    def add_parameter(self, scope: str, key: str, dtype: int, shape: Sequence[int]) -> int:
        """A constant whose bytes are given at load; returns its number among the constants."""
        parameter = Parameter(scope, key, dtype, tuple(shape))
        for constant, known in self.parameters.items():
            if known == parameter:
                return constant
        self.parameters[len(self.constants)] = parameter
        self.constants.append(("", 0, buffer_bytes(math.prod(shape), dtype)))
        return len(self.constants) - 1

    def add_query(self, category: str, key: str, default: int) -> int:
        query = (category, key, default & ((1 << 64) - 1))
        if query not in self.queries:
            self.queries.append(query)
        return self.queries.index(query)

    def encode(self) -> bytes:
        """The bytes of `program.bin`."""
        return Encoder(self).encode()


def disassemble(data: bytes | memoryview) -> str:
    """The text that `pydispatch inspect --program` prints. ArtifactError when the bytes are not a program."""
    return ProgramText(bytes(data)).render()
