"""PTX ldmatrix, stmatrix, movmatrix: 8x8 matrices between memory and registers. A handler returns a closure
`step(regs)`, which runs the instruction for all threads of a frame: those that execute it together. A slot is an index
in `regs`: regs[slot] is an operand, an array with an element per thread or a scalar for all of them, and
regs[FRAME_SLOT] is the frame. A `MemoryAccess` has the threads that access one allocation, and their byte offsets in
it. A word is 32 bits of a register: two elements of 16 bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pydispatch.formats.ptx.module import Address, Instruction, Operand
from pydispatch.runtime.simulators.ptx.addresses import (
    ADDRESS_BYTES,
    ALL_ADDRESS_BITS,
    AddressResolver,
    plus_offset,
    space_of,
)
from pydispatch.runtime.simulators.ptx.builder import FRAME_SLOT, FunctionBuilder, Step, items
from pydispatch.runtime.simulators.ptx.frame import Frame
from pydispatch.runtime.simulators.ptx.instructions.mma import warps_of
from pydispatch.runtime.simulators.ptx.memory import MemoryAccess
from pydispatch.runtime.simulators.ptx.registry import handles
from pydispatch.runtime.simulators.ptx.threads import WARP_LANES

_COUNTS = {"x1": 1, "x2": 2, "x4": 4}
"""Modifier → number of matrices that one instruction moves."""


def _count_and_trans(builder: FunctionBuilder, instruction: Instruction) -> tuple[int, bool]:
    """Return (number of matrices, whether they are transposed) from the modifiers of ldmatrix or stmatrix."""
    other_words = ("sync", "aligned", "m8n8", "shared", "shared::cta", "trans", "b16")
    counts = [m for m in instruction.modifiers if m not in other_words]
    if len(counts) != 1 or counts[0] not in _COUNTS or not {"m8n8", "b16"} <= set(instruction.modifiers):
        builder.fail(instruction)
    return _COUNTS[counts[0]], "trans" in instruction.modifiers


_ROWS = 8
"""Rows and columns of a matrix."""
_ROW_BYTES = 16
"""Bytes of a matrix row: 8 elements of 16 bits."""


class _MatrixRows:
    """The address operand of ldmatrix or stmatrix: lane 8 m + r of a warp has the address of row r of matrix m.

    The handler of the instruction creates it, and the closure calls `resolve`. An instruction that moves two matrices
    (.x2) uses the addresses of lanes 0 to 7 for the rows of the first one, those of lanes 8 to 15 for the rows of the
    second one, and no others.
    """

    def __init__(
        self, builder: FunctionBuilder, instruction: Instruction, operand: Operand | None, count: int, write: bool
    ) -> None:
        """Check the operand of an instruction that moves `count` matrices. write: whether it stores them."""
        if not isinstance(operand, Address) or operand.base is None:
            builder.fail(instruction, "has no [address] where one is expected")
        # A base that is no register is a variable, whose address has ADDRESS_BYTES.
        size = builder.register_size(operand.base) or ADDRESS_BYTES
        self._base, self._offset = builder.source(instruction, operand.base, f"u{8 * size}"), operand.offset
        self._count = count
        self._resolver = AddressResolver(instruction, space_of(instruction), _ROW_BYTES, write, strong=False)

    def resolve(self, regs: list[Any], positions: Any) -> list[MemoryAccess]:
        """Return the accesses to the rows of all matrices, of 16 bytes each: one for each allocation with rows in it.

        Rows are numbered through all warps: row r of matrix m of warp w has the number 8 (count w + m) + r, for `count`
        matrices per warp. With two matrices per warp, row 3 of matrix 1 of warp 2 is row 8 (2 * 2 + 1) + 3 = 43. The
        `positions` of an access are such numbers of rows, where those of other instructions are positions of threads.

        positions: position in the frame of the thread of each warp and lane, int64 [warps, 32].
        """
        frame: Frame = regs[FRAME_SLOT]
        # Make a frame of the threads that have the address of a row, in the order of the rows.
        row_positions = positions[:, : _ROWS * self._count].reshape(-1)
        frame_part = frame.subset(row_positions)
        addresses = np.broadcast_to(regs[self._base], frame.n)[row_positions]
        # An address in .shared is an offset in the window of the thread's block; others are generic, modulo 2^64.
        if self._resolver.space == "shared":
            return [
                self._resolver.resolve_window(
                    frame_part, positions=None, offsets=plus_offset(addresses, self._offset), shared=True
                )
            ]
        offset = np.uint64(self._offset & ALL_ADDRESS_BITS)
        return self._resolver.resolve(frame_part, addresses.astype(np.uint64) + offset)


@handles("ldmatrix")
def ldmatrix(builder: FunctionBuilder, instruction: Instruction) -> Step:
    """Build the closure of ldmatrix, which loads 8x8 matrices of 16-bit elements into the registers of a warp.

    Register k of the destination receives matrix k. Of each matrix, lane t gets one word: the elements 2 (t mod 4) and
    2 (t mod 4) + 1 of row t / 4; with .trans, those of column t / 4. So lane 6 gets the elements 4 and 5 of row 1.
    """
    count, trans = _count_and_trans(builder, instruction)
    destination, address = builder.operands(instruction, 2)
    slots = [builder.target(instruction, register, "u32") for register in items(destination)]
    if len(slots) != count:
        builder.fail(instruction, f"has {len(slots)} registers, expected {count}")
    row_addresses = _MatrixRows(builder, instruction, address, count, write=False)

    def load_matrices(regs: list[Any]) -> None:
        """Load `count` matrices: each lane passes the address of one row, and receives one word of each matrix.

        `slots` are those of the words. `trans`: the matrices are transposed.
        """
        positions = warps_of(instruction, regs[FRAME_SLOT])  # of the threads in the frame, which is slot 0: [warps, 32]
        data = np.zeros((positions.shape[0] * _ROWS * count, _ROW_BYTES), np.uint8)  # a line per matrix row
        for access in row_addresses.resolve(regs, positions):  # one for each allocation with rows in it
            access.assign_threads(data, access.memory.data[access.offsets[:, None] + np.arange(_ROW_BYTES)])
        matrices = data.view(np.uint16).reshape(-1, count, _ROWS, _ROWS)  # [warps, matrices, rows, columns]
        if trans:
            matrices = matrices.transpose(0, 1, 3, 2)
        # Two elements of a row are a word. The words of a matrix, in order, belong to the lanes in order.
        words = np.ascontiguousarray(matrices).view(np.uint32).reshape(-1, count, WARP_LANES)
        for k, slot in enumerate(slots):
            regs[slot][positions] = words[:, k]

    return load_matrices


@handles("stmatrix")
def stmatrix(builder: FunctionBuilder, instruction: Instruction) -> Step:
    """Build the closure of stmatrix, which stores 8x8 matrices of 16-bit elements from a warp's registers.

    Register k holds matrix k. Of each matrix, lane t holds one word: the elements 2 (t mod 4) and 2 (t mod 4) + 1 of
    row t / 4; with .trans, those of column t / 4. Each lane passes the address of one row.
    """
    count, trans = _count_and_trans(builder, instruction)
    address, value = builder.operands(instruction, 2)
    slots = [builder.source(instruction, register, "u32") for register in items(value)]
    if len(slots) != count:
        builder.fail(instruction, f"has {len(slots)} registers, expected {count}")
    row_addresses = _MatrixRows(builder, instruction, address, count, write=True)

    def store_matrices(regs: list[Any]) -> None:
        """Store `count` matrices of 8x8 elements of 16 bits, whose rows are at the addresses of the lanes.

        `slots` are those of the words that each lane holds, one of each matrix. `trans`: the matrices are transposed.
        """
        positions = warps_of(instruction, regs[FRAME_SLOT])  # of the threads in the frame, [warps, 32]
        n = regs[FRAME_SLOT].n
        # The words of a matrix, one from each lane in order, are its rows: [warps, matrices, 32] words of two elements.
        words = np.stack([np.broadcast_to(regs[slot], n)[positions] for slot in slots], axis=1)
        matrices = np.ascontiguousarray(words).view(np.uint16).reshape(-1, count, _ROWS, _ROWS)
        if trans:
            matrices = matrices.transpose(0, 1, 3, 2)
        # One line per matrix row, in the order of the accesses' rows: matrix by matrix, warp by warp.
        data = np.ascontiguousarray(matrices).view(np.uint8).reshape(-1, _ROW_BYTES)
        for access in row_addresses.resolve(regs, positions):  # one for each allocation, with the rows in it
            access.memory.data[access.offsets[:, None] + np.arange(_ROW_BYTES)] = access.select_threads(data)

    return store_matrices


@handles("movmatrix")
def movmatrix(builder: FunctionBuilder, instruction: Instruction) -> Step:
    """Build the closure of movmatrix, which transposes an 8x8 matrix that a warp holds in one register per lane."""
    if set(instruction.modifiers) != {"sync", "aligned", "m8n8", "trans", "b16"}:
        builder.fail(instruction)
    d, a = builder.bind(instruction, "u32", "u32")

    def transpose(regs: list[Any]) -> None:
        """Transpose the 8x8 matrix of 16-bit elements that a warp's registers hold.

        The words of lanes 0 to 31 are the elements of the matrix, row by row, two in each word.
        """
        positions = warps_of(instruction, regs[FRAME_SLOT])  # of the threads in the frame, [warps, 32]
        words = np.ascontiguousarray(np.broadcast_to(regs[a], regs[FRAME_SLOT].n)[positions])
        transposed = words.view(np.uint16).reshape(-1, _ROWS, _ROWS).transpose(0, 2, 1)
        regs[d][positions] = np.ascontiguousarray(transposed).view(np.uint32).reshape(-1, WARP_LANES)

    return transpose
