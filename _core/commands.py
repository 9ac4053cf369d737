"""The commands and buffers of a plan, in the form that is passed to devices which run plans by themselves.

A plan is a function specialized for the sizes of a call: a list of commands over numbered buffers.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass


class BufferKind(enum.IntEnum):
    """Role of a buffer in a plan; PYD_BUFFER_* in program_device.h has the same values.

    TRANSIENT: memory for intermediate values, in one arena per call.
    """

    ARGUMENT = 0
    RESULT = 1
    TRANSIENT = 2
    CONSTANT = 3


@dataclass(frozen=True)
class PlanBuffer:
    """A buffer of a plan.

    kind: its role. index: number of the argument, result or constant, from 0. size: bytes. offset: begin of a transient
    buffer in the arena, in bytes. `index` has no meaning for transient buffers, `offset` for all others.
    """

    kind: BufferKind
    index: int
    size: int
    offset: int


@dataclass(frozen=True)
class Slot:
    """A range of bytes of a buffer that a command reads or writes.

    buffer: index in the list of buffers of the plan. offset, size: in bytes.
    """

    buffer: int
    offset: int
    size: int


@dataclass(frozen=True)
class Command:
    """Command of a plan.

    region: number of a group of commands that are independent of one another; groups run in the order of their numbers.
    slots: the ranges of buffers that the command uses.
    """

    region: int
    slots: tuple[Slot, ...]


@dataclass(frozen=True)
class Dispatch(Command):
    """Command that runs a grid of workgroups of a kernel; its slots are the kernel's bindings, in order.

    executable: its number in the program. ordinal, name: number of the kernel among the exports of the executable, and
    its name, which may be empty. grid: number of workgroups in x, y and z. first_constant, constant_count: index and
    number of the kernel's 32-bit constants in the constants of the plan.
    """

    executable: int
    ordinal: int
    name: str
    grid: tuple[int, int, int]
    first_constant: int
    constant_count: int


@dataclass(frozen=True)
class Fill(Command):
    """Command that fills its only slot with whole repetitions of a pattern.

    pattern: the repeated bytes as a little-endian integer, for the scalars that the plan was created with; a call with
    other scalars may have another pattern. pattern_size: 1, 2, 4 or 8 bytes.
    """

    pattern: int
    pattern_size: int

    @property
    def target(self) -> Slot:
        """Range that is filled."""
        return self.slots[0]


@dataclass(frozen=True)
class Copy(Command):
    """Command that copies the bytes of its first slot to its second slot. Both have one size and may overlap."""

    @property
    def source(self) -> Slot:
        """Range that is read."""
        return self.slots[0]

    @property
    def target(self) -> Slot:
        """Range that is written."""
        return self.slots[1]


@dataclass(frozen=True)
class Custom(Command):
    """Command that calls a host command (a function of the user); its slots are the tensor operands, in order.

    command: number of the host command in the program. sizes: shapes of all tensor operands, concatenated.
    first_constant, constant_count: index and number of 32-bit words in the constants of the plan; two for each scalar
    operand.
    """

    command: int
    sizes: tuple[int, ...]
    first_constant: int
    constant_count: int


@dataclass(frozen=True)
class TensorResult:
    """Tensor result of a call. shape: number of elements per dimension. size: bytes of its buffer."""

    shape: tuple[int, ...]
    size: int


@dataclass(frozen=True)
class Export:
    """Export of an executable that host code dispatches.

    ordinal: number of the export in the executable, from 0. name: may be empty. constants: number of its 32-bit
    constants. bindings: number of buffers that each dispatch passes to it.
    """

    ordinal: int
    name: str
    constants: int
    bindings: int
