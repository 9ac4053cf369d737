"""mma.sync, the instruction of tensor cores: D = A * B + C for each warp, with A [rows, depth], B [depth, 8], C and D
[rows, 8]. The 32 lanes of a warp share the elements of each matrix: a lane holds some in its registers. A register is a
word of each lane, uint32 (uint64 for f64), with 1 to 4 elements. A frame has the threads that run the instruction.
Products are exact, and their sum with the accumulator is rounded once (GPUs round more often, and differently from one
to the next).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from pydispatch.formats.ptx.module import Instruction, Operand
from pydispatch.runtime.simulators.ptx.builder import FRAME_SLOT, FunctionBuilder, Step, items
from pydispatch.runtime.simulators.ptx.frame import Frame
from pydispatch.runtime.simulators.ptx.instructions.convert_small import widen8
from pydispatch.runtime.simulators.ptx.instructions.exact import fma64
from pydispatch.runtime.simulators.ptx.instructions.integer import S32_LEAST, S32_MOST
from pydispatch.runtime.simulators.ptx.instructions.small import CANONICAL_NAN, bits16, from_bf16
from pydispatch.runtime.simulators.ptx.registry import handles
from pydispatch.runtime.simulators.ptx.threads import WARP_LANES

_COLUMNS = 8
"""Columns of B and C in all shapes that run here."""

_ROWS_OF_BLOCK = 8
"""Rows of a block of a matrix that one register of each lane holds."""
_TF32_BITS = np.uint32(0xFFFFE000)
"""The bits of an f32 that tf32 has."""

_SHAPE = re.compile(r"m(8|16)n8k(4|8|16|32)")
"""Shape of a product, such as "m16n8k8": rows of A, columns of B, and the inner dimension."""
# Elements in a 32-bit register (f64: one in 64 bits).
_PER_REGISTER = {"f16": 2, "bf16": 2, "tf32": 1, "s8": 4, "u8": 4, "e4m3": 4, "e5m2": 4, "f64": 1}
_SHAPES = {
    "f16": ("m16n8k8", "m16n8k16"), "bf16": ("m16n8k8", "m16n8k16"), "tf32": ("m16n8k4", "m16n8k8"),
    "s8": ("m8n8k16", "m16n8k16", "m16n8k32"), "u8": ("m8n8k16", "m16n8k16", "m16n8k32"),
    "e4m3": ("m16n8k16", "m16n8k32"), "e5m2": ("m16n8k16", "m16n8k32"),
    "f64": ("m8n8k4", "m16n8k4", "m16n8k8", "m16n8k16"),
}  # fmt: skip
"""PTX type of the elements of A and B → shapes of mma.sync that the interpreter runs."""


def warps_of(instruction: Instruction, frame: Frame) -> Any:
    """Return positions of the frame's threads by warp and lane, int64 [warps, 32].

    Warps without a thread in the frame are left out. A warp with only some of its threads in the frame is a fault.
    """
    positions = frame.lanes().reshape(-1, WARP_LANES)  # -1: the thread of that lane is not in the frame
    positions = positions[(positions >= 0).any(axis=1)]
    if (positions < 0).any():
        warp = int(np.argmax((positions < 0).any(axis=1)))
        lane = int(np.argmax(positions[warp] < 0))
        present = int(positions[warp].max())  # a thread of the warp that is in the frame
        frame.fault(instruction, present, f"needs all 32 lanes of the warp, lane {lane} is not here")
    return positions


def elements(words: Any, type_: str) -> Any:
    """Return the elements of registers as numbers: float64, or int64 for integers.

    The result has a new last axis with the elements of each word, lowest bits first: [...] words of f16 become
    [..., 2] numbers, words of s8 [..., 4].

    Args:
        words: Registers as uint32; for f64, which has one element in each register, as uint64.
        type_: Element type, a key of `_PER_REGISTER`.
    """
    if type_ == "f64":
        return words.view(np.float64)[..., None]
    words = np.ascontiguousarray(words)[..., None]  # a view of narrower elements multiplies the new last axis
    if type_ == "tf32":
        return (words & _TF32_BITS).view(np.float32).astype(np.float64)
    if type_ == "f16":
        return words.view(np.float16).astype(np.float64)
    if type_ == "bf16":
        return from_bf16(words.view(np.uint16)).astype(np.float64)
    if type_ in ("e4m3", "e5m2"):
        return widen8(words.view(np.uint8), f"{type_}x2")  # named as in cvt, which converts pairs
    return words.view(np.int8 if type_ == "s8" else np.uint8).astype(np.int64)


def words_of(regs: list[Any], slots: list[int], positions: Any) -> Any:
    """Return the words of some registers by warp and lane, [warps, 32, registers].

    Args:
        regs: Registers of the frame by slot: a word for each thread, or one word if it is the same in all threads.
            The first entry is the frame.
        slots: The registers to return.
        positions: Position in the frame of each thread, [warps, 32].
    """
    threads = regs[FRAME_SLOT].n
    return np.stack([np.broadcast_to(regs[slot], threads)[positions] for slot in slots], axis=-1)


_LANES_OF_ROW = 4
"""Lanes whose registers together hold a row of a block."""
_ROW_OF_LANE, _LANE_IN_ROW = np.divmod(np.arange(WARP_LANES), _LANES_OF_ROW)
"""For each of the 32 lanes: its row in a block of 8 rows, and its index (0 to 3) among the 4 lanes that hold that row.
"""


def left_matrices(words: Any, type_: str, rows: int, depth: int) -> Any:
    """Return A, [warps, rows, depth], from the registers of its lanes.

    The elements of one register are neighbours in a row. Register 0 of all lanes is a block of 8 rows: lanes 0 to 3
    hold the elements of row 0 from left to right, lanes 4 to 7 those of row 1, and so on. Register 1 is the block below
    it if A has 16 rows. After the last block of rows, the next register is the block to the right of the first one.

    Example:
        f16 has two elements in a register, so that a block has 8 rows and 4 * 2 = 8 columns. Of m16n8k16, where A is
        16x16, lane 5 is the second of the 4 lanes of row 1 of a block. Its register 0 has the columns 2 and 3 of row 1,
        register 1 the columns 2 and 3 of row 9, register 2 the columns 10 and 11 of row 1, and register 3 the columns
        10 and 11 of row 9.

    Args:
        words: Registers, [warps, 32, registers].
        type_: Element type.
        rows: Rows of A.
        depth: Columns of A: the inner dimension of the product.
    """
    values = elements(words, type_)  # [warps, 32, registers, elements of a register]
    per_register = values.shape[-1]
    result = np.zeros((words.shape[0], rows, depth), values.dtype)
    row_blocks = rows // _ROWS_OF_BLOCK
    for register in range(words.shape[2]):
        for element in range(per_register):
            first_column = (register // row_blocks) * _LANES_OF_ROW * per_register
            # Arrays with an item per lane: its row and column of this element, at which all warps are assigned at once.
            row = _ROW_OF_LANE + _ROWS_OF_BLOCK * (register % row_blocks)
            column = first_column + _LANE_IN_ROW * per_register + element
            result[:, row, column] = values[:, :, register, element]
    return result


def right_matrices(words: Any, type_: str, depth: int) -> Any:
    """Return B, [warps, depth, 8], from the registers of its lanes, [warps, 32, registers].

    The elements of one register are neighbours in a column.
    """
    values = elements(words, type_)
    per_register = values.shape[-1]
    result = np.zeros((words.shape[0], depth, _COLUMNS), values.dtype)
    for register in range(words.shape[2]):
        for element in range(per_register):
            # Lanes hold B as they hold A transposed: _ROW_OF_LANE is the column, and _LANE_IN_ROW the row.
            row = (register * _LANES_OF_ROW + _LANE_IN_ROW) * per_register + element
            result[:, row, _ROW_OF_LANE] = values[:, :, register, element]
    return result


def _accumulator_positions(rows: int) -> list[tuple[Any, Any]]:
    """Return the position of each element of C and D that a lane holds: (rows, columns), arrays over the 32 lanes.

    They are in the order of a lane's registers: two neighbours in a row, then those of the next block of 8 rows.
    """
    return [
        (_ROW_OF_LANE + _ROWS_OF_BLOCK * block, 2 * _LANE_IN_ROW + neighbour)
        for block in range(rows // _ROWS_OF_BLOCK)
        for neighbour in range(2)
    ]


def product(lhs: Any, rhs: Any, c: Any, type_: str) -> Any:
    """Return lhs @ rhs + c for each warp: [warps, rows, depth] @ [warps, depth, 8] + [warps, rows, 8].

    The arrays are float64, or int64 for integers. type_: PTX type of the elements of lhs.

    For f64 it is a sequence of fused multiply-adds in the order of the inner dimension, each of which rounds.
    """
    if type_ != "f64":
        return lhs @ rhs + c
    total = c
    for k in range(lhs.shape[2]):
        total = fma64(lhs[:, :, k : k + 1], rhs[:, k : k + 1, :], total, "rn")
    return total


class MatrixTypes(NamedTuple):
    """PTX types of the elements of the four matrices of D = A * B + C."""

    d: str
    a: str
    b: str
    c: str


@dataclass(frozen=True)
class ProductOperands:
    """Registers and types of an instruction that computes D = A * B + C.

    Attributes:
        types: Types of the elements.
        d, a, b, c: Slots of the registers of each matrix: indices in the list `regs` of all operands.
        saturates: Whether integer sums are clamped to the range of s32.
    """

    types: MatrixTypes
    d: list[int]
    a: list[int]
    b: list[int]
    c: list[int]
    saturates: bool

    def clamped(self, sums: Any) -> Any:
        """Return sums, int64 or float64, clamped to s32 if the instruction saturates."""
        return np.clip(sums, S32_LEAST, S32_MOST) if self.saturates else sums


@dataclass(frozen=True)
class _TileProduct:
    """An mma instruction: D = A * B + C of tiles that the lanes of a warp hold together.

    Attributes:
        instruction: The instruction, for faults.
        rows: Rows of A, C and D.
        depth: Columns of A: the inner dimension of the product.
        operands: Registers of the tiles.
    """

    instruction: Instruction
    rows: int
    depth: int
    operands: ProductOperands

    def step(self, regs: list[Any]) -> None:
        """Multiply the tiles of each warp, and add the accumulators."""
        # Assemble the matrices from the registers of the lanes.
        operands, types = self.operands, self.operands.types
        positions = warps_of(self.instruction, regs[FRAME_SLOT])  # [warps, 32]
        a = left_matrices(words_of(regs, operands.a, positions), types.a, self.rows, self.depth)  # [warps, rows, depth]
        b = right_matrices(words_of(regs, operands.b, positions), types.b, self.depth)  # [warps, depth, 8]
        c = np.zeros((positions.shape[0], self.rows, _COLUMNS), a.dtype)
        values_of_c = accumulators(words_of(regs, operands.c, positions), types.c)
        # The k-th element of all lanes is at (row, column), arrays over the lanes.
        elements_of_lane = _accumulator_positions(self.rows)
        for k, (row, column) in enumerate(elements_of_lane):
            c[:, row, column] = values_of_c[:, :, k]
        # Compute D, and store the elements of each lane in its registers.
        sums = product(a, b, c, types.a)
        result = np.stack([sums[:, row, column] for row, column in elements_of_lane], axis=-1)
        packed = packed_registers(operands.clamped(result), types.d)
        for k, slot in enumerate(operands.d):
            regs[slot][positions] = packed[:, :, k]


@handles("mma")
def mma(builder: FunctionBuilder, instruction: Instruction) -> Step:
    """Build the closure of mma: D = A * B + C of small matrices that the lanes of a warp hold together."""
    rows, depth, types = _shape_and_types(builder, instruction)
    registers = [items(operand) for operand in builder.operands(instruction, 4)]
    _check_register_counts(builder, instruction, registers, rows, depth, types)
    register = "b64" if types.a == "f64" else "b32"
    d_registers, *source_registers = registers
    a, b, c = (
        [builder.source(instruction, operand, register) for operand in registers_of_operand]
        for registers_of_operand in source_registers
    )
    d = [builder.target(instruction, operand, register) for operand in d_registers]
    saturates = "satfinite" in instruction.modifiers
    if saturates and types.a not in _INTEGERS:  # PTX has .satfinite for integers only
        builder.fail(instruction)
    return _TileProduct(instruction, rows, depth, ProductOperands(types, d, a, b, c, saturates)).step


def _shape_and_types(builder: FunctionBuilder, instruction: Instruction) -> tuple[int, int, MatrixTypes]:
    """Return the rows and the depth of an mma, and its types. Raise ArtifactError if it is not simulated.

    Its modifiers are the shape, the layouts of A and B, and the types of D, A, B and C:
    mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 returns (16, 8, MatrixTypes("f32", "f16", "f16", "f32")). The depth
    is the inner dimension of the product, 8 after the k.
    """
    words = [m for m in instruction.modifiers if m not in ("sync", "aligned")]
    if "satfinite" in words:
        words.remove("satfinite")
    shape = _SHAPE.fullmatch(words[0]) if len(words) == 7 else None  # a shape, two layouts and four types
    if shape is None or words[1:3] != ["row", "col"]:
        builder.fail(
            instruction,
            "is no mma that runs here (m16n8 with f16, bf16, tf32, s8, u8, e4m3, e5m2; m8n8 and m16n8 with f64)",
        )
    types = MatrixTypes(*words[3:])
    # A and B may have different types of one size, such as s8 and u8.
    if words[0] not in _SHAPES.get(types.a, ()) or _PER_REGISTER[types.a] != _PER_REGISTER.get(types.b):
        builder.fail(instruction, f"has no shape {words[0]} for {types.a} and {types.b}")
    if (types.d, types.c) not in accumulator_types(types.a):
        builder.fail(instruction)
    return int(shape[1]), int(shape[2]), types


def accumulator_types(type_: str) -> Sequence[tuple[str, str]]:
    """Return the types of (result D, accumulator C) that are legal for A and B with elements of this PTX type."""
    if type_ in _INTEGERS:
        return [("s32", "s32")]
    return [("f64", "f64")] if type_ == "f64" else _ACCUMULATORS


def _check_register_counts(
    builder: FunctionBuilder,
    instruction: Instruction,
    registers: Sequence[Sequence[Operand | None]],
    rows: int,
    depth: int,
    types: MatrixTypes,
) -> None:
    """Raise ArtifactError for an mma whose tiles have other numbers of registers than their elements need.

    The 32 lanes share the elements of a matrix equally: of a 16x16 matrix A of f16, each has 8, in 4 registers.

    Args:
        builder: Builder of the function.
        instruction: The instruction.
        registers: Registers of D, A, B and C.
        rows: Rows of A.
        depth: Columns of A.
        types: Types of the matrices.
    """
    elements_of_c = rows * _COLUMNS // WARP_LANES  # of one lane
    per_register = _PER_REGISTER[types.a]  # elements of A in a register, and of B, whose types have one size
    expected_counts = (
        elements_of_c // _packed(types.d),
        rows * depth // WARP_LANES // per_register,
        depth * _COLUMNS // WARP_LANES // per_register,
        elements_of_c // _packed(types.c),
    )
    counts = tuple(map(len, registers))
    if counts != expected_counts:
        builder.fail(instruction, f"has {counts} registers, expected {expected_counts}")


_INTEGERS = ("s8", "u8")
"""Integer types of A and B."""
_ACCUMULATORS = [("f32", "f32"), ("f16", "f16"), ("f32", "f16"), ("f16", "f32")]
"""Types of (result D, accumulator C) that are legal if A and B have neither an integer type nor f64."""


def _packed(type_: str) -> int:
    """Return the number of elements of C or D in one register."""
    return 2 if type_ == "f16" else 1


def accumulators(words: Any, type_: str) -> Any:
    """Return the elements of C in registers as numbers: [warps, 32, registers] words become [warps, 32, elements].

    They are float64, or int64 for s32. A word of f16 has two elements, a word of other types has one.
    """
    words = np.ascontiguousarray(words)
    if type_ == "f16":
        return words.view(np.float16).astype(np.float64)
    if type_ == "f64":
        return words.view(np.float64)
    return words.view(np.int32).astype(np.int64) if type_ == "s32" else words.view(np.float32).astype(np.float64)


def packed_registers(values: Any, type_: str) -> Any:
    """Pack elements of D into registers: [warps, 32, elements] numbers become [warps, 32, registers] words.

    NaN of f16 and f32 become the canonical NaN of GPUs.
    """
    if type_ == "f64":
        return values.view(np.uint64)
    if type_ == "s32":
        return values.astype(np.uint32)
    if type_ == "f16":
        return np.ascontiguousarray(bits16(values.astype(np.float16), "f16")).view(np.uint32)
    single = values.astype(np.float32)
    return np.where(np.isnan(single), CANONICAL_NAN, single.view(np.uint32))
