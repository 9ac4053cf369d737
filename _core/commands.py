"""The commands and buffers of a plan, as devices get them that run plans by themselves."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class BufferKind(enum.IntEnum):
    """Role of a buffer in a plan; the values are those of program_device.h."""

    ARGUMENT = 0
    RESULT = 1
    TRANSIENT = 2
    CONSTANT = 3


@dataclass(frozen=True)
class PlanBuffer:
    """A buffer of a plan.

    kind: its role. index: of the argument, result or constant. size: bytes. offset: of a transient, bytes in the arena.
    """

    kind: BufferKind
    index: int
    size: int
    offset: int


@dataclass(frozen=True)
class Slot:
    """A range of bytes of a buffer that a command reads or writes.

    buffer: number of the buffer in the plan. offset, size: in bytes.
    """

    buffer: int
    offset: int
    size: int


@dataclass(frozen=True)
class Command:
    """Command of a plan.

    region: commands of one region are independent, and regions run in order. slots: the ranges of buffers that the
    command uses.
    """

    region: int
    slots: tuple[Slot, ...]


@dataclass(frozen=True)
class Dispatch(Command):
    """A grid of workgroups; its slots are the bindings, in order.

    executable: its number in the program. ordinal, name: of the export; the name may be empty. first_constant,
    constant_count: words, in the constants of the plan.
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

    pattern: the encoding of the plan. pattern_size: 1, 2, 4 or 8 bytes.
    """

    pattern: int
    pattern_size: int

    @property
    def target(self) -> Slot:
        """Range that is filled."""
        return self.slots[0]


@dataclass(frozen=True)
class Copy(Command):
    """Command that copies the bytes of its first slot to its second, which has the same size and may overlap."""

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
    """Command that calls a host command; its slots are the tensor operands, in order.

    command: number of the host command in the program. sizes: of all tensors, concatenated. first_constant,
    constant_count: range in the constants of the plan; two words for each scalar operand.
    """

    command: int
    sizes: tuple[int, ...]
    first_constant: int
    constant_count: int


@dataclass(frozen=True)
class TensorResult:
    """Tensor result of a call. shape: its sizes. size: bytes of its buffer."""

    shape: tuple[int, ...]
    size: int


@dataclass(frozen=True)
class Export:
    """Export of an executable that host code dispatches.

    ordinal: its number in the executable. name: may be empty. constants: number of constant words. bindings: their
    number.
    """

    ordinal: int
    name: str
    constants: int
    bindings: int
