"""A straight-line function of a host program under construction: instructions that compute sizes, and commands.

Instructions compute integers in registers, once each. Commands (dispatches, fills, copies) work on ranges of buffers.
Commands of one region may run at the same time; the regions of a function run in order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pydispatch.formats.program.commands import BindingRange, Command, Copy, Dispatch, Fill
from pydispatch.formats.program.layout import InstructionRecord
from pydispatch.formats.program.opcodes import NONE, BufferKind, Opcode
from pydispatch.formats.program.references import References


@dataclass
class FunctionArgument:
    """Argument of a straight-line host function that is being built.

    Attributes:
        dtype: Word that encodes the element type (`opcodes.dtype_word`).
        dims: Sizes, -1 for a dynamic one; None for a scalar.
        name: Name; "" for none.
        buffer: Number of the buffer of a tensor; NONE for a scalar.
    """

    dtype: int
    dims: tuple[int, ...] | None
    name: str = ""
    buffer: int = NONE


@dataclass
class Result:
    """Result of a straight-line host function that is being built.

    Attributes:
        dtype: Word that encodes the element type (`opcodes.dtype_word`).
        dims: Registers with the sizes of a tensor, which is in `buffer`; None for a scalar, which is in
            `register`.
        buffer: Number of the buffer of a tensor; NONE for a scalar.
        register: Register of a scalar; NONE for a tensor.
        name: Name; "" for none.
        tied: Index of the argument whose memory the result may reuse; NONE for none. The memory is reused when a step
            of a procedure (host code with jumps, which calls straight-line functions) calls the function and nothing
            else needs the argument's value. Other calls give the result memory of its own.
    """

    dtype: int
    dims: tuple[int, ...] | None
    buffer: int = NONE
    register: int = NONE
    name: str = ""
    tied: int = NONE


@dataclass
class Buffer:
    """Buffer of a straight-line host function that is being built, by which commands refer to memory.

    Attributes:
        kind: Whether it is an argument, a result, a constant or a transient (memory that is live within one call).
        index: Index of the argument, result or constant; 0 for a transient.
        size: Register that has its size in bytes; NONE for an argument or a constant, whose size the caller knows.
        first: Index of the first region (commands that may run at the same time) that uses it; 0 if none does.
        last: Index of the last region that uses it, inclusive; 0 if none does.
        used: Whether a command uses it.
        tile_bytes: Bytes of one tile, for a transient that only one tile-fused dispatch sequence uses; else 0. Such a
            sequence runs tile by tile: all its dispatches for the workgroups of one tile, then for those of the next.
    """

    kind: BufferKind
    index: int
    size: int
    first: int = 0
    last: int = 0
    used: bool = False
    tile_bytes: int = 0

    def touch(self, region: int) -> None:
        """Extend the live range to include a region."""
        if not self.used:
            self.used, self.first, self.last = True, region, region
        self.first, self.last = min(self.first, region), max(self.last, region)


class ProgramFunction:
    """Builder of one straight-line function of a host program: instructions that compute sizes, and commands.

    `Program.add_function` creates it. Arguments are added first, then instructions and commands in the order in which
    they run; an instruction's method returns the register of its result, which later instructions take.

    Attributes:
        program: Program under construction, which interns strings and numbers device queries.
        name: Name of the function.
        signature: Text that describes its arguments and results, for people.
        public: Whether callers of the program may call it, not only procedures.
        arguments: Arguments in order.
        results: Results in order.
        buffers: Buffers; commands refer to them by their index.
        pool: 32-bit words of variable-length operands, such as the records of commands; instructions have the index of
            the first one.
        instructions: Instructions in order, as they are encoded.
        registers: Number of registers in use.
        region: Index of the region that commands are added to. Commands of a region may run at the same time.
    """

    def __init__(self, program: References, name: str, signature: str = "", public: bool = True) -> None:
        """Create a function without commands. Its first commands are added to region 0, a set of commands that may run
        at the same time. For the parameters, see the attributes of the class.
        """
        self.program = program
        self.name, self.signature, self.public = name, signature, public
        self.arguments: list[FunctionArgument] = []
        self.results: list[Result] = []
        self.buffers: list[Buffer] = []
        self.pool: list[int] = []
        self.instructions: list[InstructionRecord] = []
        self.registers = 0  # number of registers so far
        self.region = 0  # the region that commands are added to
        self._pure: dict[tuple[int, ...], int] = {}  # (opcode, modifier, operands) of a pure instruction → its register
        self._constants: dict[int, int] = {}  # register → its constant value

    # -- values

    def emit(self, op: Opcode, a: int = 0, b: int = 0, c: int = 0, *, modifier: int = 0) -> int:
        """Emit a pure instruction and return its result register; an equal instruction is emitted only once.

        docs/program.md states for each opcode what its operands `a`, `b` and `c` and its modifier are. The modifier is
        mostly the width in bits.
        """
        key = (op, modifier, a, b, c)
        if key not in self._pure:
            self._pure[key] = self.registers
            self._append(op, modifier, self.registers, a, b, c)
            self.registers += 1
        return self._pure[key]

    def _append(self, op: Opcode, modifier: int, register: int, a: int, b: int, c: int) -> None:
        """Append an instruction, whose result is in `register`; NONE if it has no result."""
        self.instructions.append(InstructionRecord(opcode=op | modifier << 16, dst=register, a=a, b=b, c=c))

    def constant(self, value: int) -> int:
        """Return a register with the constant `value`: integers sign-extended to 64 bits, floats as their bit
        pattern."""
        value &= (1 << 64) - 1
        register = self.emit(Opcode.CONST, b=value & 0xFFFFFFFF, c=value >> 32)
        self._constants[register] = value
        return register

    def constant_value(self, register: int) -> int | None:
        """Return the signed value of a register that holds a constant; None for other registers."""
        value = self._constants.get(register)
        if value is None:
            return None
        is_negative = value >> 63
        return value - (1 << 64) if is_negative else value

    def scalar_argument(self, index: int) -> int:
        """Return a register with the value of argument `index`, which is a scalar."""
        return self.emit(Opcode.SCALAR, index)

    def unary(self, op: Opcode, operand: int, width: int) -> int:
        """Return a register with the result of an operation on the register `operand`.

        width: Bits of integers, or format of floats (docs/program.md).
        """
        return self.emit(op, operand, modifier=width)

    def binary(self, op: Opcode, lhs: int, rhs: int, width: int = 64) -> int:
        """Return a register with the result of an operation on two registers.

        width: Bits of integers, or format of floats (docs/program.md).
        """
        return self.emit(op, lhs, rhs, modifier=width)

    def compare(self, op: Opcode, predicate: int, lhs: int, rhs: int, width: int = 64) -> int:
        """Return a register that is 1 if a comparison of two registers is true, else 0.

        Args:
            op: CMP for integers, FCMP for floats.
            predicate: Number of the predicate in `arith.cmpi` or `arith.cmpf`.
            lhs, rhs: The registers.
            width: Bits of the integers, or format of the floats (docs/program.md).
        """
        return self.emit(op, lhs, rhs, modifier=width + (predicate << 8))

    def multiply(self, factors: Iterable[int]) -> int:
        """Return a register with the 64-bit product of the registers `factors`, 1 if there are none.

        Known values of factors are multiplied here; instructions are emitted for the other factors.
        """
        constant_product, product = 1, None  # product: register with the product of the other factors
        for factor in factors:
            value = self.constant_value(factor)
            if value is not None:
                constant_product *= value
            else:
                product = factor if product is None else self.binary(Opcode.MUL, product, factor)
        if product is None:
            return self.constant(constant_product)
        return product if constant_product == 1 else self.binary(Opcode.MUL, product, self.constant(constant_product))

    def check_equal(self, lhs: int, rhs: int, message: str) -> None:
        """Emit a check that fails the call unless two registers are equal; their values replace `{a}` and `{b}` in
        `message`."""
        known_a, known_b = self.constant_value(lhs), self.constant_value(rhs)
        if lhs == rhs or (known_a is not None and known_a == known_b):
            return  # always true
        self._check(Opcode.CHECK_EQ, lhs, rhs, message)

    def check(self, condition: int, message: str) -> None:
        """Emit a check that fails the call with `message` if a register is 0."""
        self._check(Opcode.CHECK, condition, 0, message)

    def _check(self, op: Opcode, lhs: int, rhs: int, message: str) -> None:
        """Emit the check `op` of two registers, which fails the call with `message` if it is not satisfied."""
        # The pool has the message as its offset and length in the string table.
        message_position = self._push(self.program.string(message))
        self._append(op, 0, NONE, lhs, rhs, message_position)  # modifier 0, no result register

    # -- arguments, results and buffers

    def add_argument(self, argument: FunctionArgument) -> int:
        """Add an argument, with its buffer if it is a tensor; return its index."""
        index = len(self.arguments)
        if argument.dims is not None:
            argument.buffer = self._add_buffer(BufferKind.ARGUMENT, index, size=NONE)
        self.arguments.append(argument)
        return index

    def add_transient(self, size: int, tile_bytes: int = 0) -> int:
        """Add a buffer that is live within one call, and return its number.

        Args:
            size: Register with the size in bytes.
            tile_bytes: Bytes of one tile if only one tile-fused dispatch sequence uses the buffer; else 0.
        """
        buffer_number = self._add_buffer(BufferKind.TRANSIENT, index=0, size=size)  # `index` numbers other kinds only
        self.buffers[buffer_number].tile_bytes = tile_bytes
        return buffer_number

    def add_constant_buffer(self, constant: int) -> int:
        """Add the buffer of constant number `constant` of the program, and return the buffer's number."""
        return self._add_buffer(BufferKind.CONSTANT, constant, size=NONE)

    def add_result_buffer(self, result: int, size: int) -> int:
        """Add the buffer of result number `result` and return its number; `size` is the register with its size in
        bytes."""
        return self._add_buffer(BufferKind.RESULT, result, size)

    def _add_buffer(self, kind: BufferKind, index: int, size: int) -> int:
        """Add a buffer: number `index` of its kind, with its size in the register `size`. Return its number."""
        self.buffers.append(Buffer(kind, index, size))
        return len(self.buffers) - 1

    # -- commands

    def next_region(self) -> None:
        """Start a new region. Its commands start after all commands of earlier regions have completed."""
        self.region += 1

    def dispatch(
        self, export: int, grid: Sequence[int], constants: Sequence[int], bindings: Sequence[BindingRange],
        tile_groups: int = 0, follows: bool = False,
    ) -> None:  # fmt: skip
        """Add a dispatch to the current region.

        Args:
            export: Register with the index of the export.
            grid: Registers with the workgroup counts for x, y and z.
            constants: Registers with the constants; HIGH_WORD added to a register selects its upper 32 bits.
            bindings: Buffer ranges that the kernel accesses.
            tile_groups: Workgroups per tile in a tile-fused sequence: dispatches that run tile by tile, so that tiles
                between them stay in the cache. 0 outside of one. It is operand b of the instruction.
            follows: Whether the dispatch continues the sequence of the previous command: the instruction's modifier.
        """
        self.command(Dispatch(export, grid, constants, bindings), b=tile_groups, modifier=int(follows))

    def fill(self, target: BindingRange, pattern: int, pattern_bytes: int) -> None:
        """Add a fill of a range with the value of register `pattern`, repeated, of 1, 2, 4 or 8 bytes."""
        self.command(Fill(target, pattern, pattern_bytes))

    def copy(self, source: int, source_offset: int, target: int, target_offset: int, length: int) -> None:
        """Add a copy between the buffers `source` and `target`; offsets and length are registers with bytes."""
        self.command(Copy(source, source_offset, target, target_offset, length))

    def command(self, command: Command, b: int = 0, modifier: int = 0) -> None:
        """Add a command to the current region.

        Args:
            command: The command. The live ranges of its buffers are extended to the region.
            b: Second operand of its instruction (the first is the position of the command's words in the pool, the
                third the region). A dispatch passes its workgroups per tile, other commands 0.
            modifier: 1 for a dispatch that continues the tile-fused sequence of the previous command, else 0.
        """
        for buffer in command.buffers():
            self.buffers[buffer].touch(self.region)
        self._append(command.op, modifier, NONE, self._push(command.words()), b, self.region)

    def _push(self, words: Iterable[int]) -> int:
        """Append words to the pool, and return the position of the first one."""
        start = len(self.pool)
        self.pool += words
        return start
