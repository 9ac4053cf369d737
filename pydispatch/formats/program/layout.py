"""The layout of an encoded host program: the words of its header, and of the records of its tables.

`docs/program.md` describes the format. A pair such as `name, name_length` is the offset and the length of a string,
or the offset and the count of a table; `low, high` are the words of a 64-bit number. Reserved words are 0.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

HEADER_WORDS = 32
"""Words of the header, which precedes the tables."""
IS_PUBLIC = 1
"""Flag of a function or procedure that callers may call."""
IS_MUTABLE = 1
"""Flag of a global that the program may store into."""


class Header(IntEnum):
    """Indices of the words at the beginning of the header."""

    MAGIC = 0
    VERSION = 1
    FILE_WORDS = 2  # words of the whole program
    STRINGS = 3  # byte offset of the string table
    STRING_BYTES = 4  # its size


class Table(IntEnum):
    """Tables of a program, by the header word with their offset; the next header word has their record count."""

    EXECUTABLES = 5
    EXPORTS = 7
    QUERIES = 9
    CONSTANTS = 11
    FUNCTIONS = 13
    PROCEDURES = 15
    GLOBALS = 17
    INITIALIZERS = 19
    CHECKS = 21
    PARAMETERS = 23
    DERIVATIONS = 25
    COMMANDS = 27


class ExecutableRecord(NamedTuple):
    """Record of an executable in an encoded host program.

    Attributes:
        name, name_length: Its name, (offset, length) in the string table.
        constants_function: Index of the function that computes its constants, or NONE.
        conditions, condition_count: Table of one word per variant: the function that returns whether the device can run
            it, or NONE.
    """

    name: int
    name_length: int
    constants_function: int
    conditions: int
    condition_count: int
    reserved: int


class ExportRecord(NamedTuple):
    """Record of an export (kernel) of an executable in an encoded host program.

    Attributes:
        executable: Index of the executable.
        ordinal: Index of the kernel in it.
        name, name_length: Its name, (offset, length) in the string table.
        constant_count: Number of constants (32-bit words) of a dispatch.
        binding_count: Number of buffer ranges of a dispatch.
    """

    executable: int
    ordinal: int
    name: int
    name_length: int
    constant_count: int
    binding_count: int


class QueryRecord(NamedTuple):
    """Record of a query of the device for a number in an encoded host program.

    Attributes:
        category, category_length: First part of its name, (offset, length) in the string table.
        key, key_length: Second part of its name.
        default_low, default_high: Result for a device that does not know the query.
    """

    category: int
    category_length: int
    key: int
    key_length: int
    default_low: int
    default_high: int
    reserved: int
    reserved2: int


class ConstantRecord(NamedTuple):
    """Constant: a range of bytes in a member of the artifact.

    Attributes:
        member, member_length: Name of the member, (offset, length) in the string table.
        offset_low, offset_high: Offset of the first byte in the member.
        length_low, length_high: Number of bytes.
        parameter: Index of the parameter that supplies it instead, or NONE.
    """

    member: int
    member_length: int
    offset_low: int
    offset_high: int
    length_low: int
    length_high: int
    parameter: int
    reserved: int


class FunctionRecord(NamedTuple):
    """Record of a function: straight-line code that computes integers in registers and emits commands on buffers.

    Texts are (offset, length) in the string table, other pairs (offset, count) of a table. An offset of a table is in
    words, from the beginning of the program.

    Attributes:
        name, name_length: Its name.
        signature, signature_length: Text that describes its arguments and results.
        flags: `IS_PUBLIC` if callers of the program may call it; 0 if only procedures may.
        arguments, argument_count: Table of `ValueRecord`.
        results, result_count: Table of `ValueRecord`.
        buffers, buffer_count: Table of `BufferRecord`.
        instructions, instruction_count: Table of `InstructionRecord`.
        pool, pool_count: Words that the other tables refer to by index, such as sizes and operands of commands.
        register_count: Number of registers.
        region_count: Number of regions: groups of commands that may run at the same time. Regions run in order.
    """

    name: int
    name_length: int
    signature: int
    signature_length: int
    flags: int
    arguments: int
    argument_count: int
    results: int
    result_count: int
    buffers: int
    buffer_count: int
    instructions: int
    instruction_count: int
    pool: int
    pool_count: int
    register_count: int
    region_count: int
    reserved: int
    reserved2: int
    reserved3: int


class ProcedureRecord(NamedTuple):
    """Record of a procedure: steps with jumps, over slots (variables that hold whole tensors or scalars).

    Texts are (offset, length) in the string table, other pairs (offset, count) of a table. An offset of a table is in
    words, from the beginning of the program.

    Attributes:
        name, name_length: Its name.
        signature, signature_length: Text that describes its arguments and results.
        flags: `IS_PUBLIC` if callers of the program may call it; else 0.
        arguments, argument_count: Table of `ValueRecord`.
        results, result_count: Table of `ValueRecord`.
        slots, slot_count: Table of `SlotRecord`.
        steps, step_count: Table of `StepRecord`.
        pool, pool_count: Words that arguments and steps refer to by index, such as sizes and lists of slots.
    """

    name: int
    name_length: int
    signature: int
    signature_length: int
    flags: int
    arguments: int
    argument_count: int
    results: int
    result_count: int
    slots: int
    slot_count: int
    steps: int
    step_count: int
    pool: int
    pool_count: int
    reserved: int


class GlobalRecord(NamedTuple):
    """Global variable of the program. Texts are (offset, length) in the string table.

    Attributes:
        name, name_length: Its name.
        is_scalar: 1 for a scalar, 0 for a tensor.
        dtype: Word that encodes the element type.
        rank: Number of dimensions.
        sizes: Offset in the program, in words, of its sizes of two words each; -1 for a dynamic size.
        constant: Index of the constant that is the initial value of a tensor, or NONE.
        value_low, value_high: Initial value of a scalar.
        flags: 1 if it is mutable.
    """

    name: int
    name_length: int
    is_scalar: int
    dtype: int
    rank: int
    sizes: int
    constant: int
    value_low: int
    value_high: int
    flags: int
    reserved: int
    reserved2: int


class InitializerRecord(NamedTuple):
    """Index of a procedure that runs when the program is loaded."""

    procedure: int


class CheckRecord(NamedTuple):
    """Record of a check: an assertion on the one or two values that `Step.OBSERVE` of a procedure passes to it.

    The values are compared after the call. EXPECT_ALMOST_EQ holds if |a - b| <= atol + rtol * |b|.

    Attributes:
        kind: `CheckKind` of the check.
        name, name_length: Its name, (offset, length) in the string table.
        location, location_length: Source location for messages, (offset, length) in the string table.
        atol_low, atol_high: Absolute tolerance, the words of a double. For EXPECT_CLOSE, the largest permitted distance
            in units of the last place.
        rtol_low, rtol_high: Relative tolerance, the words of a double. For EXPECT_CLOSE, the smallest such distance.
    """

    kind: int
    name: int
    name_length: int
    location: int
    location_length: int
    atol_low: int
    atol_high: int
    rtol_low: int
    rtol_high: int
    reserved: int
    reserved2: int
    reserved3: int


class ParameterRecord(NamedTuple):
    """Record of a parameter: a constant whose bytes are supplied when the program is loaded.

    Its name is a scope and a key, such as "model" and "layer0.weight": whoever loads the program supplies a file or
    arrays for each scope, which have the constant under the key. Texts are (offset, length) in the string table.

    Attributes:
        scope, scope_length: Scope; the empty string for the unnamed one.
        key, key_length: Name in the scope.
        dtype: Word that encodes the element type.
        rank: Number of dimensions.
        sizes: Offset in the program, in words, of its sizes: `rank` pairs of words (low, high), all static.
    """

    scope: int
    scope_length: int
    key: int
    key_length: int
    dtype: int
    rank: int
    sizes: int
    reserved: int


class DerivationRecord(NamedTuple):
    """Function that computes constants before the first call that needs one of them.

    `function` is its index. Its results are the constants from index `first_constant` on.
    """

    function: int
    first_constant: int
    reserved: int
    reserved2: int


class CommandRecord(NamedTuple):
    """Record of a host command: code in Python or C, which the host runs between dispatches.

    `name` and `name_length` locate its name in the string table. `operands` is the offset, in words, of its
    `operand_count` records of operands (`OperandRecord`).
    """

    name: int
    name_length: int
    operands: int
    operand_count: int
    reserved: int
    reserved2: int


class OperandRecord(NamedTuple):
    """Record of an operand of a host command in an encoded host program.

    Attributes:
        is_scalar: 1 for a scalar, 0 for a tensor.
        access: Whether the command reads or writes it: a value of `Access`.
        dtype: Word that encodes the element type.
        rank: Number of dimensions.
        sizes: Offset in the program, in words, of its sizes of two words each; -1 for a dynamic size.
    """

    is_scalar: int
    access: int
    dtype: int
    rank: int
    sizes: int
    reserved: int


class ValueRecord(NamedTuple):
    """Record of an argument or result of a function or procedure in an encoded host program.

    Attributes:
        is_scalar: 1 for a scalar, 0 for a tensor.
        dtype: Word that encodes the element type.
        rank: Number of dimensions.
        sizes: Index in the pool of the function or procedure. For an argument, its sizes are there, two words each
            (low, high; -1 for a dynamic size). For a function's result, the `rank` registers with its sizes are there.
            0 for a procedure's result, whose sizes are those of the returned value.
        name, name_length: Its name, (offset, length) in the string table.
        target: Where a function has the value: the buffer of a tensor, the register of a scalar result; NONE for a
            scalar argument. Where a procedure has it: the slot of an argument; 0 for a result.
        tied: For a function's result, 1 + the index of the argument whose memory the result may reuse; 0 for none.
    """

    is_scalar: int
    dtype: int
    rank: int
    sizes: int
    name: int
    name_length: int
    target: int
    tied: int


class BufferRecord(NamedTuple):
    """Record of a buffer, memory that the commands of a function access, in an encoded host program.

    Attributes:
        kind: `BufferKind`: whether it is an argument, a result, a constant, or a transient (memory for values between
            commands).
        ordinal: Which argument, result or constant it is, by index; 0 for a transient.
        size: Register with its size in bytes; NONE for an argument or a constant.
        first_region, last_region: First and last region that uses it. A region is a group of commands that may run at
            the same time; regions run in order.
        tile_bytes: Bytes of one tile of a transient that only one tile-fused dispatch sequence uses; else 0. Such a
            sequence runs all its dispatches for one tile before the next tile, so that a plan may allocate memory for a
            few tiles instead of the whole buffer.
    """

    kind: int
    ordinal: int
    size: int
    first_region: int
    last_region: int
    tile_bytes: int


class InstructionRecord(NamedTuple):
    """Instruction of a function. docs/program.md, "Instructions", states the operands a to c of each opcode.

    The low half of `opcode` is an `Opcode`, the high half its modifier, such as a width in bits. `dst` is the register
    of the result, or NONE.
    """

    opcode: int
    dst: int
    a: int
    b: int
    c: int


class SlotRecord(NamedTuple):
    """Type of a slot, a variable of a procedure: `rank` dimensions of the element type `dtype`, or a scalar if
    `is_scalar` is 1."""

    is_scalar: int
    dtype: int
    rank: int
    reserved: int


class StepRecord(NamedTuple):
    """Step of a procedure. docs/program.md, "Procedures", states the operands a to d of each `Step`; unused are 0."""

    step: int
    a: int
    b: int
    c: int
    d: int


def join_words(low: int, high: int) -> int:
    """Return the unsigned 64-bit number of two words."""
    return low | high << 32
