"""The tables that the functions of a host program share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from pydispatch.formats.program.function import ProgramFunction
from pydispatch.formats.program.opcodes import NONE, Access
from pydispatch.formats.program.procedure import Check, Global, Parameter, Procedure
from pydispatch.formats.program.references import References


@dataclass
class ProgramExecutable:
    """Executable of a host program that is being built.

    Attributes:
        name: Its name.
        constants_function: Index of the function that computes its constants; NONE if it has none.
        variant_conditions: For each variant, the index of the function that returns whether the variant runs on the
            device; NONE if it has no condition.
    """

    name: str
    constants_function: int = NONE
    variant_conditions: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class ExportEntry:
    """Export (kernel) of an executable of a host program that is being built.

    Attributes:
        executable: Index of the executable in the program.
        ordinal: Index of the export in the executable.
        name: Its name.
        constant_count: Number of push constants that a dispatch passes, of 4 bytes each.
        binding_count: Number of bindings that a dispatch passes.
    """

    executable: int
    ordinal: int
    name: str
    constant_count: int
    binding_count: int


class Constant(NamedTuple):
    """Constant of a program: a range of bytes in a member of the artifact.

    Attributes:
        member: Name of the member; "" for a constant that is supplied at load or computed by a function.
        offset: Offset in the member, in bytes.
        length: Length in bytes.
    """

    member: str
    offset: int
    length: int


@dataclass(frozen=True)
class HostOperand:
    """Operand of a host command in a host program that is being built.

    Attributes:
        dtype: Word that encodes the element type (`opcodes.dtype_word`).
        sizes: Sizes of a tensor, -1 for a dynamic one; None for a scalar.
        access: Whether the command reads the operand, writes it, or both.
    """

    dtype: int
    sizes: tuple[int, ...] | None
    access: Access = Access.READ


@dataclass(frozen=True)
class HostCommand:
    """Host command that functions call: code in Python or C, which the host runs between dispatches.

    Attributes:
        name: Name by which the code is registered on a device.
        operands: Operands in order.
    """

    name: str
    operands: tuple[HostOperand, ...]


class ProgramTables(References):
    """Tables and functions of a host program. Functions and procedures refer to an entry of a table by its index.

    Base of `Program`, which adds entries; `Encoder` writes the tables to the bytes of the program.

    Attributes:
        executables: Executables, in the order of the artifact's manifest.
        exports: Exports (kernels) of the executables that functions dispatch.
        constants: Constants, also those that are supplied at load or computed by a function.
        functions: Functions: straight-line code of scalar arithmetic and commands such as dispatches.
        procedures: Procedures: steps with jumps, most of which run a function.
        globals: Variables of the loaded program.
        initializers: The procedures that run when the program is loaded, in this order.
        checks: Assertions to which procedures pass values.
        commands: Host commands that functions call.
        parameters: Constants that are supplied at load, by their index in `constants`.
        derived: Pairs (function, index in `constants` of its first result) for constants that functions compute.
    """

    def __init__(self) -> None:
        """Create a program with empty tables."""
        super().__init__()
        self.executables: list[ProgramExecutable] = []
        self.exports: list[ExportEntry] = []
        self.constants: list[Constant] = []
        self.functions: list[ProgramFunction] = []
        self.procedures: list[Procedure] = []
        self.globals: list[Global] = []
        self.initializers: list[Procedure] = []
        self.checks: list[Check] = []
        self.commands: list[HostCommand] = []
        self.parameters: dict[int, Parameter] = {}
        self.derived: list[tuple[ProgramFunction, int]] = []
