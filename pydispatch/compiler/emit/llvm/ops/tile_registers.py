"""Register blocks of products of bytes and of bf16 in the matrix registers of AMX: up to 2x2 of 16x16 sums.

The registers are numbered: 0 to 3 hold the sums, by rows; 4 and 5 rows of A; 6 and 7 columns of B, whose groups of four
bytes along K lie side by side in a row, as the groups of `pyd.contract` do.
"""

from __future__ import annotations

import struct
from dataclasses import replace

from xdsl.ir import Operation

from pydispatch.compiler.emit.llvm.function import FunctionEmitter, Lowering
from pydispatch.compiler.emit.llvm.ops.blocks import address, block_of, run_steps
from pydispatch.compiler.emit.llvm.values import Index, MemRef
from pydispatch.compiler.kernel_ir.types import bit_width
from pydispatch.ir.dialects.pyd.tile_registers import ConfigureTilesOp

SIDE = 16
"""Number of rows of a matrix register, and number of its columns, of 32 bits each."""

GROUP_BYTES = 4
"""Size in bytes of a group: the elements at adjacent indices of K whose products an instruction adds to one sum."""

SUMS, OF_A, OF_B = 0, 4, 6
"""Number of the first of the four registers for sums, of the two for A, and of the two for B."""

FEATURES = {"i8": "amx-int8", "bf16": "amx-bf16"}
"""Element type as text -> the LLVM feature of CPUs that multiply it in these registers."""

BYTES = {
    (False, False): "tdpbssd", (False, True): "tdpbsud", (True, False): "tdpbusd", (True, True): "tdpbuud",
}  # fmt: skip
"""Whether the bytes of A, and of B, are unsigned -> the instruction."""

Shape = tuple[int, int, int]
"""(rows, columns, steps): size of a block of sums, and number of groups of indices of K that are multiplied at once."""


def tile_shape(emitter: FunctionEmitter, op: Operation) -> Shape | None:
    """Return the shape that matrix registers are configured for at an operation.

    The last `pyd.configure_tiles` before the operation, in its block or a block around it, states the shape. Return
    None if there is none, if `pyd.release_tiles` is between the two, or if the CPU has no matrix registers.
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
    """Return whether a product of groups fits the configured registers: its element type, shape and layout."""
    group = GROUP_BYTES * 8 // bit_width(rhs.element)  # elements of a group
    rows, columns, _ = shape
    has_instruction = FEATURES.get(str(rhs.element), "") in emitter.platform.features
    return (
        has_instruction
        and accumulator.sizes == (rows, columns)
        and rhs.sizes[-1] == group
        and lhs.strides[-2:] == (group, 1)
        and rhs.strides[-2:] == (group, 1)
    )


def multiply_tiles(
    emitter: FunctionEmitter,
    lhs: MemRef,
    rhs: MemRef,
    accumulator: MemRef,
    starts_at_zero: bool,
    unsigned: tuple[bool, bool],
    steps: int,
) -> tuple[MemRef, MemRef] | None:
    """Emit c = a @ b or c += a @ b in matrix registers, over all groups of K but the last size % steps.

    Args:
        emitter: The function's emitter.
        lhs, rhs, accumulator: A [row, groups..., byte], B [groups..., column, byte] and C [row, column].
        starts_at_zero: Whether sums start at 0 instead of the values of C.
        unsigned: Whether the bytes of A, and of B, are unsigned.
        steps: Groups of K that one instruction multiplies.

    Returns:
        The slices of A and B with the remaining groups; None if there are none.
    """
    rows, columns = block_of(emitter, accumulator)
    row_tiles, column_tiles = (range(-(-size // SIDE)) for size in (rows, columns))
    register_of_tile = {(i, j): SUMS + 2 * i + j for i in row_tiles for j in column_tiles}
    for (i, j), register in register_of_tile.items():
        if starts_at_zero:
            _call(emitter, "tilezero", register)
        else:
            _move_tile(emitter, "tileloadd64", register, accumulator, (SIDE * i, SIDE * j), accumulator.strides[0])
    dims = len(rhs.sizes) - 2  # dimensions of K; a size may be static in one operand only
    sizes = [x if isinstance(x, int) else y for x, y in zip(lhs.sizes[1 : dims + 1], rhs.sizes[:dims], strict=True)]
    size = sizes[-1]
    # Iterations of the innermost loop, of `steps` groups each.
    count: Index = size // steps if isinstance(size, int) else emitter.body.let(f"udiv i64 {size}, {steps}")

    product = BYTES[unsigned] if bit_width(rhs.element) == 8 else "tdpbf16ps"

    def multiply(indices: tuple[Index, ...]) -> None:
        """Emit the loads of `steps` groups of K of A and B, and the products, which are added to the sums.

        `indices` are the indices of the first of these groups along each dimension of K. The rows of a register are
        rows of A, and groups of B.
        """
        for i in row_tiles:
            _move_tile(emitter, "tileloadd64", OF_A + i, lhs, (SIDE * i, *indices, 0), lhs.strides[0])
        for j in column_tiles:
            _move_tile(emitter, "tileloadd64", OF_B + j, rhs, (*indices, SIDE * j, 0), rhs.strides[-3])
        for (i, j), register in register_of_tile.items():
            _call(emitter, product, register, OF_A + i, OF_B + j)

    def level(indices: tuple[Index, ...]) -> None:
        """Emit the loop over the dimension of K after those of `indices`."""
        is_last = len(indices) == dims - 1

        def step(index: Index, values: list[str]) -> list[str]:
            """Emit one iteration: the products of the innermost loop, or the loop of the next dimension.

            Sums are in matrix registers, so that loops carry no values.
            """
            if is_last:
                multiply((*indices, emitter.body.times(index, steps)))
            else:
                level((*indices, index))
            return values

        run_steps(
            emitter,
            count if is_last else sizes[len(indices)],
            types=[],
            initial=[],
            unroll=2 if is_last else 1,
            step=step,
        )

    level(())
    for (i, j), register in register_of_tile.items():
        _move_tile(emitter, "tilestored64", register, accumulator, (SIDE * i, SIDE * j), accumulator.strides[0])
    covered = emitter.body.times(count, steps)
    return (
        None
        if covered == size
        else (_slice_from(emitter, lhs, dims, covered), _slice_from(emitter, rhs, dims - 1, covered))
    )


def _slice_from(emitter: FunctionEmitter, memref: MemRef, dim: int, start: Index) -> MemRef:
    """Return the slice of a memref from index `start` of dimension `dim` to its end."""
    size = emitter.body.minus(memref.sizes[dim], start)
    offset = emitter.body.plus(memref.offset, emitter.body.times(start, memref.strides[dim]))
    return replace(memref, offset=offset, sizes=(*memref.sizes[:dim], size, *memref.sizes[dim + 1 :]))


def _move_tile(
    emitter: FunctionEmitter, intrinsic: str, register: int, memref: MemRef, at: tuple[Index, ...], stride: Index
) -> None:
    """Emit the load (`intrinsic` "tileloadd64") or store ("tilestored64") of a tile register.

    `at` are the indices of its first element in the memref. Its rows are `stride` elements apart in memory.
    """
    pointer, size = address(emitter, memref, *at), bit_width(memref.element) // 8
    emitter.module.declare(f"llvm.x86.{intrinsic}", f"declare void @llvm.x86.{intrinsic}(i8 immarg, ptr, i64)")
    emitter.body.emit(
        f"call void @llvm.x86.{intrinsic}(i8 {register}, ptr {pointer}, i64 {emitter.body.times(stride, size)})"
    )


def _call(emitter: FunctionEmitter, name: str, *registers: int) -> None:
    """Emit an instruction on the matrix registers with these numbers, as the intrinsic `llvm.x86.NAME`."""
    types = ", ".join("i8 immarg" for _ in registers)
    emitter.module.declare(f"llvm.x86.{name}", f"declare void @llvm.x86.{name}({types})")
    emitter.body.emit(f"call void @llvm.x86.{name}({', '.join(f'i8 {register}' for register in registers)})")


def _configure(emitter: FunctionEmitter, op: Operation) -> None:
    """Lower `pyd.configure_tiles` to a load of the tile configuration."""
    if "amx-tile" not in emitter.platform.features:
        return  # products are computed in vector registers
    if not emitter.exported:
        raise emitter.error(
            "pyd.configure_tiles in a function that is called", "put it into the function of the dispatch"
        )
    assert isinstance(op, ConfigureTilesOp)
    text = "".join(f"\\{byte:02X}" for byte in configuration(*op.shape))
    name = f"tiles.{'.'.join(map(str, op.shape))}"
    emitter.module.globals[name] = f'@{name} = private unnamed_addr constant [64 x i8] c"{text}", align 64'
    emitter.module.declare("llvm.x86.ldtilecfg", "declare void @llvm.x86.ldtilecfg(ptr)")
    emitter.body.emit(f"call void @llvm.x86.ldtilecfg(ptr @{name})")


def configuration(rows: int, columns: int, steps: int) -> bytes:
    """Return the 64 bytes that `ldtilecfg` reads for blocks of rows x columns and `steps` groups of K.

    They are the palette 1, the bytes of a row of each register, and its rows.
    """
    # Rows, and columns, of the tiles of the block: the last ones may be smaller.
    heights = [min(SIDE, rows - at) for at in range(0, rows, SIDE)]
    widths = [min(SIDE, columns - at) for at in range(0, columns, SIDE)]
    row_bytes, row_counts = [0] * 16, [0] * 16
    for i, rows_of_tile in enumerate(heights):
        row_bytes[OF_A + i], row_counts[OF_A + i] = GROUP_BYTES * steps, rows_of_tile
        for j, columns_of_tile in enumerate(widths):
            row_bytes[SUMS + 2 * i + j], row_counts[SUMS + 2 * i + j] = GROUP_BYTES * columns_of_tile, rows_of_tile
    for j, columns_of_tile in enumerate(widths):
        row_bytes[OF_B + j], row_counts[OF_B + j] = GROUP_BYTES * columns_of_tile, steps
    return struct.pack("<BB14x16H16B", 1, 0, *row_bytes, *row_counts)


def _release(emitter: FunctionEmitter, op: Operation) -> None:
    """Lower `pyd.release_tiles`."""
    if "amx-tile" in emitter.platform.features:
        _call(emitter, "tilerelease")


ROWS: dict[str, Lowering] = {"pyd.configure_tiles": _configure, "pyd.release_tiles": _release}
"""Name of an operation → function that emits LLVM IR for it."""
