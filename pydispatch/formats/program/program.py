"""Writes the host program of an artifact (`program.bin`); docs/program.md is the format.

A `Program` owns the tables that functions share (executables, exports, queries, constants, globals, checks), its
`ProgramFunction`s and its `Procedure`s. A `ProgramFunction` is built by calling methods that return register numbers;
equal pure instructions share one register. `disassemble` prints the bytes as text.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from pydispatch.formats.program.commands import BindingRange
from pydispatch.formats.program.encode import Encoder
from pydispatch.formats.program.function import Buffer, FunctionArgument, ProgramFunction, Result
from pydispatch.formats.program.opcodes import (
    HIGH_WORD,
    MAGIC,
    NONE,
    VERSION,
    BufferKind,
    Numerical,
    Opcode,
    buffer_bytes,
    dtype_name,
    dtype_word,
)
from pydispatch.formats.program.procedure import Check, Global, Label, Parameter, Port, Procedure, Slot
from pydispatch.formats.program.steps import LAST_USE, CheckKind, Step
from pydispatch.formats.program.tables import (
    Constant,
    ExportEntry,
    HostCommand,
    HostOperand,
    ProgramExecutable,
    ProgramTables,
)
from pydispatch.formats.program.text import ProgramText

__all__ = [
    "HIGH_WORD",
    "LAST_USE",
    "MAGIC",
    "NONE",
    "VERSION",
    "BindingRange",
    "Buffer",
    "BufferKind",
    "Check",
    "CheckKind",
    "Constant",
    "ExportEntry",
    "FunctionArgument",
    "Global",
    "HostCommand",
    "HostOperand",
    "Label",
    "Numerical",
    "Opcode",
    "Parameter",
    "Port",
    "Procedure",
    "Program",
    "ProgramExecutable",
    "ProgramFunction",
    "Result",
    "Slot",
    "Step",
    "buffer_bytes",
    "disassemble",
    "dtype_name",
    "dtype_word",
]


class Program(ProgramTables):
    """Host program under construction. Its methods return the numbers by which functions and steps refer to entries."""

    def add_function(self, name: str, signature: str = "", public: bool = True) -> ProgramFunction:
        """Add a function to the program, and return its builder.

        `signature` is text for people; a `public` function may be called by the users of the program.
        """
        self.functions.append(ProgramFunction(self, name, signature, public))
        return self.functions[-1]

    def function_index(self, function: ProgramFunction) -> int:
        """Return the number by which the program refers to one of its functions."""
        return self.functions.index(function)

    def add_procedure(self, name: str, signature: str = "", public: bool = True) -> Procedure:
        """Add a procedure to the program, and return its builder. The arguments are those of `add_function`."""
        self.procedures.append(Procedure(self, name, signature, public))
        return self.procedures[-1]

    def add_initializer(self, name: str = "") -> Procedure:
        """Add a procedure that runs when the program is loaded, and return it. It has no arguments and no results."""
        procedure = self.add_procedure(name or f"initializer {len(self.initializers)}", "()", public=False)
        self.initializers.append(procedure)
        return procedure

    def add_global(
        self, name: str, dtype: int, dims: tuple[int, ...] | None, constant: int = NONE, value: int = 0,
        is_mutable: bool = True,
    ) -> int:  # fmt: skip
        """Add a variable of the loaded program and return its number.

        Args:
            name: Name.
            dtype: Word that encodes the element type.
            dims: Sizes, -1 for a dynamic one; None for a scalar.
            constant: Number of the constant with the initial tensor; NONE for a scalar, or a tensor without one.
            value: Initial value of a scalar; 0 for a tensor.
            is_mutable: Whether the program may store into it.
        """
        self.globals.append(
            Global(
                name=name,
                dtype=dtype,
                dims=dims,
                constant=constant,
                value=value & ((1 << 64) - 1),
                is_mutable=is_mutable,
            )
        )
        return len(self.globals) - 1

    def add_check(self, kind: CheckKind, location: str, name: str = "", atol: float = 0.0, rtol: float = 0.0) -> int:
        """Add a check, to which `Procedure.observe` passes values, and return its number."""
        self.checks.append(Check(kind, location, name, atol, rtol))
        return len(self.checks) - 1

    def add_command(self, command: HostCommand) -> int:
        """Return the number of a host command (code that the host runs between dispatches); add it on first use."""
        if command not in self.commands:
            self.commands.append(command)
        return self.commands.index(command)

    def add_parameter(self, scope: str, key: str, dtype: int, shape: Sequence[int]) -> int:
        """Return the number, among the constants, of a constant that is supplied at load; add it on first use.

        Args:
            scope: Name under which the file with the constant is stated at load; "" for none.
            key: Name of the constant in that file.
            dtype: Word that encodes the element type.
            shape: Sizes, all static.
        """
        parameter = Parameter(scope, key, dtype, tuple(shape))
        for constant, known in self.parameters.items():
            if known == parameter:
                return constant
        self.parameters[len(self.constants)] = parameter
        self.constants.append(Constant(member="", offset=0, length=buffer_bytes(math.prod(shape), dtype)))
        return len(self.constants) - 1

    def add_derived(self, function: ProgramFunction, lengths: Sequence[int]) -> int:
        """Add constants that a function computes before their first use, and return the number of the first one.

        Args:
            function: Function without arguments that computes them from constants with lower numbers. Each result is a
                constant.
            lengths: Size of each result in bytes.
        """
        first = len(self.constants)
        self.derived.append((function, first))
        self.constants += [Constant(member="", offset=0, length=length) for length in lengths]
        return first

    def encode(self) -> bytes:
        """Return the bytes of `program.bin`."""
        return Encoder(self).encode()


def disassemble(data: bytes | memoryview) -> str:
    """Return a program as the text that `pydispatch inspect --program` prints; raise ArtifactError for other bytes."""
    return ProgramText(bytes(data)).render()
