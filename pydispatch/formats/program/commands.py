"""The commands of a function: each is a record in the function's pool. docs/program.md has the records."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from pydispatch.errors import ArtifactError
from pydispatch.formats.program.opcodes import HIGH_WORD, NONE, Opcode


@dataclass(frozen=True)
class BindingRange:
    """Range of a buffer that a command accesses.

    Attributes:
        buffer: Number of the buffer in the function.
        offset: Register with the byte offset; NONE for 0.
        length: Register with the length in bytes; NONE for the rest of the buffer.
    """

    buffer: int
    offset: int = NONE
    length: int = NONE

    def __str__(self) -> str:
        """Return text such as `buffer 2 + r5 for r6`: the buffer, the registers of offset and length."""
        start = f"buffer {self.buffer}" if self.offset == NONE else f"buffer {self.buffer} + r{self.offset}"
        return start if self.length == NONE else f"{start} for r{self.length}"


class Command(Protocol):
    """Interface of the commands of a straight-line host function: dispatches, fills, copies and host commands.

    Attributes:
        op: Opcode.
        words: Record of the command in the function's pool.
        buffers: Buffers that the command accesses.
    """

    @property
    def op(self) -> Opcode:
        """The opcode."""

    def words(self) -> list[int]:
        """Return the 32-bit words of the record. The opcode is not among them: the instruction has it."""

    def buffers(self) -> list[int]:
        """Return the numbers of the buffers that the command accesses."""


@dataclass(frozen=True)
class Dispatch:
    """Command that runs a kernel (an export of an executable) over a grid.

    Attributes:
        export: Register with the index of the export.
        grid: Registers with the workgroup counts for x, y and z.
        constants: Registers of the constants; HIGH_WORD added to a register selects its upper 32 bits.
        bindings: Memory that the kernel accesses.
    """

    export: int
    grid: Sequence[int]
    constants: Sequence[int]
    bindings: Sequence[BindingRange]
    op = Opcode.DISPATCH

    def words(self) -> list[int]:
        """Return the record: export, grid, count and constants, count and bindings of three words each."""
        bindings = [word for b in self.bindings for word in (b.buffer, b.offset, b.length)]
        return [self.export, *self.grid, len(self.constants), *self.constants, len(self.bindings), *bindings]

    def buffers(self) -> list[int]:
        """Return the numbers of the buffers that the bindings are in."""
        return [b.buffer for b in self.bindings]

    def __str__(self) -> str:
        """Return the command as text, such as `dispatch export r1 [r2, r3, r3](r4, r5.high) over (...)`.

        rN are registers: of the export, the grid in brackets, and the 32-bit constants in parentheses. A constant `rN`
        is the low half of the 64-bit register, `rN.high` the upper one.
        """
        x, y, z = self.grid
        constants = ", ".join(f"r{k & ~HIGH_WORD}{'.high' if k & HIGH_WORD else ''}" for k in self.constants)
        bindings = ", ".join(map(str, self.bindings))
        return f"dispatch export r{self.export} [r{x}, r{y}, r{z}]({constants}) over ({bindings})"


@dataclass(frozen=True)
class Fill:
    """Command that fills a range of a buffer with a repeated pattern.

    Attributes:
        target: The buffer range.
        pattern: Register with the pattern.
        pattern_bytes: Size of the pattern: 1, 2, 4 or 8 bytes.
    """

    target: BindingRange
    pattern: int
    pattern_bytes: int
    op = Opcode.FILL

    def words(self) -> list[int]:
        """Return the record: buffer, offset and length of the range, register of the pattern, bytes of the pattern."""
        return [self.target.buffer, self.target.offset, self.target.length, self.pattern, self.pattern_bytes]

    def buffers(self) -> list[int]:
        """Return the number of the buffer that is filled."""
        return [self.target.buffer]

    def __str__(self) -> str:
        return f"fill {self.target} with {self.pattern_bytes} bytes of r{self.pattern}"


@dataclass(frozen=True)
class Copy:
    """Command that copies bytes from one buffer to another.

    Attributes:
        source, target: Numbers of the buffers.
        source_offset: Register with the byte offset in the source; NONE for 0.
        target_offset: Register with the byte offset in the target; NONE for 0.
        length: Register with the length in bytes.
    """

    source: int
    source_offset: int
    target: int
    target_offset: int
    length: int
    op = Opcode.COPY

    def words(self) -> list[int]:
        """Return the record: buffer and offset of the source, buffer and offset of the target, length."""
        return [self.source, self.source_offset, self.target, self.target_offset, self.length]

    def buffers(self) -> list[int]:
        """Return the numbers of the buffers that are read and written."""
        return [self.source, self.target]

    def __str__(self) -> str:
        """Return text such as `copy buffer 0 to buffer 1 + r3 for r2`; rN are registers."""
        source = BindingRange(self.source, self.source_offset)
        return f"copy {source} to {BindingRange(self.target, self.target_offset, self.length)}"


@dataclass(frozen=True)
class Custom:
    """Call of a host command: code in Python or C, which the host runs between dispatches.

    Attributes:
        command: Number of the host command in the program.
        sizes: Registers with the dynamic sizes of the tensors, operand by operand.
        constants: Registers of the scalar arguments, two entries each (low and high word), as in a Dispatch.
        bindings: Memory of the tensors.
    """

    command: int
    sizes: Sequence[int]
    constants: Sequence[int]
    bindings: Sequence[BindingRange]
    op = Opcode.CUSTOM

    def words(self) -> list[int]:
        """Return the record: the number of the host command, and three lists, each after its count.

        The lists are the registers of the tensors' dynamic sizes, the registers of the scalar arguments (two words for
        each), and the tensors (three words for each: buffer, offset and length).
        """
        bindings = [word for b in self.bindings for word in (b.buffer, b.offset, b.length)]
        lists = [len(self.sizes), *self.sizes, len(self.constants), *self.constants, len(self.bindings), *bindings]
        return [self.command, *lists]

    def buffers(self) -> list[int]:
        """Return the numbers of the buffers that the command's tensors are in."""
        return [b.buffer for b in self.bindings]

    def __str__(self) -> str:
        """Return text such as `host command 0(r4) over (buffer 0, buffer 1) of sizes [r2]`.

        rN are registers: of scalar arguments in parentheses, of the tensors' dynamic sizes in brackets.
        """
        # A scalar has two entries, for its low and its high word. Both have the number of its register; the second also
        # has the flag HIGH_WORD.
        scalars = ", ".join(f"r{k}" for k in self.constants[::2])
        sizes = f" of sizes [{', '.join(f'r{k}' for k in self.sizes)}]" if self.sizes else ""
        return f"host command {self.command}({scalars}) over ({', '.join(map(str, self.bindings))}){sizes}"


def words_of(pool: Sequence[int], at: int, count: int) -> list[int]:
    """Return `count` words of a pool from index `at`; raise ArtifactError if the pool ends before."""
    if at + count > len(pool):
        raise ArtifactError(f"program.bin: {count} words at {at} of a pool end past its {len(pool)} words")
    return list(pool[at : at + count])


def _read_dispatch(pool: Sequence[int], at: int) -> Command:
    """Decode the record of a dispatch at an index of the pool.

    Its words are the export, the grid in x, y and z, the number of constants, the constants, the number of bindings,
    and three words for each binding: buffer, offset and length.
    """
    export, x, y, z, constant_count = words_of(pool, at, count=5)
    constants = words_of(pool, at + 5, constant_count)
    end = at + 5 + constant_count
    return Dispatch(export, (x, y, z), constants, _read_ranges(pool, end))


def _read_ranges(pool: Sequence[int], at: int) -> list[BindingRange]:
    """Decode a count at an index of the pool, and as many ranges of buffers after it, of three words each."""
    (count,) = words_of(pool, at, count=1)
    words: Iterator[int] = iter(words_of(pool, at + 1, 3 * count))
    return [BindingRange(*fields) for fields in zip(words, words, words, strict=True)]


def _read_fill(pool: Sequence[int], at: int) -> Command:
    """Decode the record of a fill at an index of the pool."""
    buffer, offset, length, pattern, size = words_of(pool, at, count=5)
    return Fill(BindingRange(buffer, offset, length), pattern, size)


def _read_copy(pool: Sequence[int], at: int) -> Command:
    """Decode the record of a copy at an index of the pool."""
    return Copy(*words_of(pool, at, count=5))


def _read_custom(pool: Sequence[int], at: int) -> Command:
    """Decode the record of a host command's call at an index of the pool.

    Its words are the number of the host command, and three lists, each after its count: the registers of the tensors'
    dynamic sizes, the registers of the scalar arguments (two words for each), and the tensors (three words for each:
    buffer, offset and length).
    """
    command, size_count = words_of(pool, at, count=2)
    sizes = words_of(pool, at + 2, size_count)
    at += 2 + size_count
    (constant_count,) = words_of(pool, at, count=1)
    constants = words_of(pool, at + 1, constant_count)
    return Custom(command, sizes, constants, _read_ranges(pool, at + 1 + constant_count))


COMMANDS: Mapping[Opcode, Callable[[Sequence[int], int], Command]] = {
    Opcode.DISPATCH: _read_dispatch,
    Opcode.FILL: _read_fill,
    Opcode.COPY: _read_copy,
    Opcode.CUSTOM: _read_custom,
}
"""Opcode → function that decodes the record at an index of a pool; it raises ArtifactError if the pool ends early."""
