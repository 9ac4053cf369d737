"""Register blocks of products of bytes and of bf16 in the matrix registers of AMX: up to 2x2 of 16x16 sums.

The registers are numbered: 0 to 3 hold the sums, by rows; 4 and 5 rows of A; 6 and 7 columns of B, whose groups of four
bytes along K lie side by side in a row, as the groups of `pyd.contract` do.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace

from xdsl.ir import Operation

from pydispatch.compiler.emit.llvm.function import FunctionEmitter, Lowering
from pydispatch.compiler.emit.llvm.ops.blocks import address, block_of, run_nested_steps, sizes_of_k
from pydispatch.compiler.emit.llvm.values import Index, MemRef
from pydispatch.compiler.kernel_ir.types import bit_width
from pydispatch.ir.dialects.pyd.tile_registers import ConfigureTilesOp

SIDE = 16
"""Number of rows of a matrix register, and number of its columns, of 32 bits each."""

GROUP_BYTES = 4
"""Size in bytes of a group: the elements at adjacent indices of K whose products an instruction adds to one sum."""

FIRST_SUM, FIRST_A, FIRST_B = 0, 4, 6
"""Number of the first of the four registers for sums, of the two for A, and of the two for B."""

FEATURES = {"i8": "amx-int8", "bf16": "amx-bf16"}
"""Element type as text -> the LLVM feature of CPUs that multiply it in these registers."""

BYTES = {
    (False, False): "tdpbssd", (False, True): "tdpbsud", (True, False): "tdpbusd", (True, True): "tdpbuud",
}  # fmt: skip
"""Whether the bytes of A, and of B, are unsigned -> the instruction."""

Shape = tuple[int, int, int]
"""(rows, columns, steps): size of a block of sums, and number of groups (`GROUP_BYTES`) along K in one instruction."""


def tile_shape(emitter: FunctionEmitter, op: Operation) -> Shape | None:
    """Return the shape that matrix registers are configured for at an operation: (rows of C, columns of C, steps).

    `steps` is the number of groups of K, of four bytes each, that one instruction multiplies: `pyd.configure_tiles 32,
    32, 16` is (32, 32, 16). The last `pyd.configure_tiles` before the operation, in its block or a block around it,
    states the shape. Return None if there is none, if `pyd.release_tiles` is between the two, or if the CPU has no
    matrix registers.
    """
    if "amx-tile" not in emitter.platform.features:
        return None
    ancestor: Operation | None = op
    while ancestor is not None and ancestor is not emitter.function:
        previous = ancestor.prev_op
        while previous is not None:
            if isinstance(previous, ConfigureTilesOp):
                return previous.shape
            if previous.name == "pyd.release_tiles":
                return None
            previous = previous.prev_op
        ancestor = ancestor.parent_op()
    return None


def holds_block(emitter: FunctionEmitter, shape: Shape, lhs: MemRef, rhs: MemRef, accumulator: MemRef) -> bool:
    """Return whether a product fits the registers configured for `shape`: its element type, its sizes and its layout.

    The last dimension of A and B must be a contiguous group of `GROUP_BYTES` bytes along K.
    """
    group = GROUP_BYTES * 8 // bit_width(rhs.element)  # elements of a group
    rows, columns, _ = shape
    has_instruction = FEATURES.get(str(rhs.element), "") in emitter.platform.features
    has_sizes = accumulator.sizes == (rows, columns) and rhs.sizes[-1] == group
    has_contiguous_groups = lhs.strides[-2:] == rhs.strides[-2:] == (group, 1)
    return has_instruction and has_sizes and has_contiguous_groups


@dataclass(frozen=True)
class _TileProduct:
    """Product of one register block, whose sums C stay in matrix registers during the loops over K.

    multiply_tiles() creates it, and calls load_sums(), loop_over_k() and store_sums(), in this order.
    """

    emitter: FunctionEmitter
    lhs: MemRef
    """A [row, groups..., byte]."""
    rhs: MemRef
    """B [groups..., column, byte]."""
    accumulator: MemRef
    """C [row, column]."""
    row_tiles: range
    """Indices of the tiles of C along its rows, SIDE rows each."""
    column_tiles: range
    """Indices of the tiles of C along its columns, SIDE columns each."""
    group_counts: tuple[Index, ...]
    """Number of groups along each dimension of K."""
    steps: int
    """Groups of the last dimension of K that one instruction multiplies."""
    instruction: str
    """Name of the instruction that multiplies two registers, without "llvm.x86."."""

    @property
    def registers_of_sums(self) -> dict[tuple[int, int], int]:
        """Tile of C, as (index along the rows, index along the columns) -> number of the register with its sums."""
        return {(i, j): FIRST_SUM + 2 * i + j for i in self.row_tiles for j in self.column_tiles}

    def load_sums(self, starts_at_zero: bool) -> None:
        """Emit the clearing of the registers of the sums (`starts_at_zero`), or the loads of C into them."""
        if starts_at_zero:
            for register in self.registers_of_sums.values():
                _call(self.emitter, "tilezero", register)
        else:
            self._move_sums("tileloadd64")

    def store_sums(self) -> None:
        """Emit the stores of the sums into C."""
        self._move_sums("tilestored64")

    def _move_sums(self, intrinsic: str) -> None:
        """Emit `intrinsic`, the load "tileloadd64" or the store "tilestored64", for each tile of C and its register."""
        for (i, j), register in self.registers_of_sums.items():
            row_stride = self.accumulator.strides[0]
            _move_tile(self.emitter, intrinsic, register, self.accumulator, (SIDE * i, SIDE * j), row_stride)

    def loop_over_k(self, iterations: Index) -> None:
        """Emit the loops over the dimensions of K, the last one innermost.

        For K of two dimensions with 3 and 64 groups, and 16 groups for one instruction, the outer loop has 3 iterations
        and the inner one 4. A group is the bytes of adjacent steps of K that are added to one sum.

        iterations: number of iterations of the innermost loop, each of which multiplies `self.steps` groups.
        """

        def step(indices: tuple[Index, ...], values: list[str]) -> list[str]:
            """Emit an iteration. It carries no `values`, because the sums are in matrix registers."""
            self._multiply((*indices[:-1], self.emitter.body.times(indices[-1], self.steps)))
            return values

        sizes = (*self.group_counts[:-1], iterations)
        run_nested_steps(self.emitter, sizes, types=[], initial=[], unroll=2, step=step)

    def _multiply(self, indices: tuple[Index, ...]) -> None:
        """Emit the products of `self.steps` groups of K, from `indices` on, and their addition to the sums.

        `lhs` is A [row, groups..., byte], `rhs` is B [groups..., column, byte].
        """
        lhs, rhs = self.lhs, self.rhs
        for i in self.row_tiles:  # the rows of these registers are rows of A
            _move_tile(self.emitter, "tileloadd64", FIRST_A + i, lhs, (SIDE * i, *indices, 0), lhs.strides[0])
        for j in self.column_tiles:  # the rows of these registers are groups of K
            _move_tile(self.emitter, "tileloadd64", FIRST_B + j, rhs, (*indices, SIDE * j, 0), rhs.strides[-3])
        for (i, j), register in self.registers_of_sums.items():
            _call(self.emitter, self.instruction, register, FIRST_A + i, FIRST_B + j)


def multiply_tiles(
    emitter: FunctionEmitter,
    lhs: MemRef,
    rhs: MemRef,
    accumulator: MemRef,
    starts_at_zero: bool,
    unsigned: tuple[bool, bool],
    steps: int,
) -> tuple[MemRef, MemRef] | None:
    """Emit c = a @ b or c += a @ b in matrix registers, but for the last groups of K that are fewer than `steps`.

    A group is the four bytes of adjacent steps of K whose products an instruction adds to one sum: 4 of i8 or 2 of
    bf16. K may have several dimensions, the innermost last. With 70 groups along the last one and 16 `steps`, the code
    multiplies 4 * 16 groups, and the caller the slices of A and B with groups 64 to 69.

    Args:
        emitter: The function's emitter.
        lhs, rhs, accumulator: A [row, groups..., element], B [groups..., column, element] and C [row, column]. C has
            at most 2x2 tiles of 16x16 sums, those of the configured registers.
        starts_at_zero: Whether sums start at 0 instead of the values of C.
        unsigned: Whether the bytes of A, and of B, are unsigned; not used for bf16.
        steps: Groups of K that one instruction multiplies.

    Returns:
        The slices of A and B with the remaining groups; None if it is known that there are none. With a dynamic number
        of groups, the slices may be empty.
    """
    rows, columns = block_of(emitter, accumulator)
    row_tiles, column_tiles = (range(-(-size // SIDE)) for size in (rows, columns))
    dims = len(rhs.sizes) - 2  # number of dimensions of K: without the column and the element in the group
    group_counts = tuple(sizes_of_k(lhs, rhs, dims))
    instruction = BYTES[unsigned] if bit_width(rhs.element) == 8 else "tdpbf16ps"
    product = _TileProduct(emitter, lhs, rhs, accumulator, row_tiles, column_tiles, group_counts, steps, instruction)
    product.load_sums(starts_at_zero)
    size = group_counts[-1]
    iterations: Index = size // steps if isinstance(size, int) else emitter.body.let(f"udiv i64 {size}, {steps}")
    product.loop_over_k(iterations)
    product.store_sums()
    covered = emitter.body.times(iterations, steps)  # groups of the last dimension that are multiplied
    if covered == size:
        return None
    return _slice_from(emitter, lhs, dims, covered), _slice_from(emitter, rhs, dims - 1, covered)


def _slice_from(emitter: FunctionEmitter, memref: MemRef, dim: int, start: Index) -> MemRef:
    """Return the slice of a memref from index `start` of dimension `dim` to its end."""
    size = emitter.body.minus(memref.sizes[dim], start)
    offset = emitter.body.plus(memref.offset, emitter.body.times(start, memref.strides[dim]))
    return replace(memref, offset=offset, sizes=(*memref.sizes[:dim], size, *memref.sizes[dim + 1 :]))


def _move_tile(
    emitter: FunctionEmitter, intrinsic: str, register: int, memref: MemRef, corner: tuple[Index, ...], stride: Index
) -> None:
    """Emit the load (`intrinsic` "tileloadd64") or store ("tilestored64") of a tile register.

    `corner` are the indices of its first element in the memref. Its rows are `stride` elements apart in memory.
    """
    pointer, element_bytes = address(emitter, memref, *corner), bit_width(memref.element) // 8
    stride_bytes = emitter.body.times(stride, element_bytes)
    emitter.module.declare(f"llvm.x86.{intrinsic}", f"declare void @llvm.x86.{intrinsic}(i8 immarg, ptr, i64)")
    emitter.body.emit(f"call void @llvm.x86.{intrinsic}(i8 {register}, ptr {pointer}, i64 {stride_bytes})")


def _call(emitter: FunctionEmitter, name: str, *registers: int) -> None:
    """Emit an instruction on the matrix registers with these numbers, as the intrinsic `llvm.x86.NAME`."""
    types = ", ".join("i8 immarg" for _ in registers)
    emitter.module.declare(f"llvm.x86.{name}", f"declare void @llvm.x86.{name}({types})")
    emitter.body.emit(f"call void @llvm.x86.{name}({', '.join(f'i8 {register}' for register in registers)})")


def _configure(emitter: FunctionEmitter, op: Operation) -> None:
    """Lower `pyd.configure_tiles` to a load of the tile configuration."""
    if "amx-tile" not in emitter.platform.features:
        return  # products are computed in vector registers
    if not emitter.exported:  # it would change the configuration of its callers
        raise emitter.error(
            "pyd.configure_tiles is in a function that another function calls", "move it into the dispatched function"
        )
    assert isinstance(op, ConfigureTilesOp)
    text = "".join(f"\\{byte:02X}" for byte in configuration(*op.shape))
    name = f"tiles.{'.'.join(map(str, op.shape))}"
    emitter.module.globals[name] = f'@{name} = private unnamed_addr constant [64 x i8] c"{text}", align 64'
    emitter.module.declare("llvm.x86.ldtilecfg", "declare void @llvm.x86.ldtilecfg(ptr)")
    emitter.body.emit(f"call void @llvm.x86.ldtilecfg(ptr @{name})")


def configuration(rows: int, columns: int, steps: int) -> bytes:
    """Return the 64 bytes that `ldtilecfg` reads for blocks of rows x columns and `steps` groups of K.

    Byte 0 is the palette, 1. Bytes 16 to 47 are the bytes of a row of each of 16 registers, as u16; bytes 48 to 63 are
    the number of rows of each. Unused registers have 0 in both.
    """
    # The block is cut into up to 2x2 tiles. Tile (i, j) has its sums in register FIRST_SUM + 2 * i + j, its rows of A
    # in FIRST_A + i and its columns of B in FIRST_B + j.
    heights = [min(SIDE, rows - start) for start in range(0, rows, SIDE)]  # the last tile may be smaller
    widths = [min(SIDE, columns - start) for start in range(0, columns, SIDE)]
    row_bytes, row_counts = [0] * 16, [0] * 16

    def configure(register: int, row_length: int, row_count: int) -> None:
        """Set the size of a register in `row_bytes` and `row_counts`. A sum has `GROUP_BYTES` bytes, like a group."""
        row_bytes[register], row_counts[register] = GROUP_BYTES * row_length, row_count

    for i, height in enumerate(heights):
        configure(FIRST_A + i, row_length=steps, row_count=height)
        for j, width in enumerate(widths):
            configure(FIRST_SUM + 2 * i + j, row_length=width, row_count=height)
    for j, width in enumerate(widths):
        configure(FIRST_B + j, row_length=width, row_count=steps)
    return struct.pack("<BB14x16H16B", 1, 0, *row_bytes, *row_counts)


def _release(emitter: FunctionEmitter, op: Operation) -> None:
    """Lower `pyd.release_tiles` to `tilerelease`; to no code on a CPU without matrix registers."""
    if "amx-tile" in emitter.platform.features:
        _call(emitter, "tilerelease")


ROWS: dict[str, Lowering] = {"pyd.configure_tiles": _configure, "pyd.release_tiles": _release}
"""Name of an operation → function that emits LLVM IR for it."""
