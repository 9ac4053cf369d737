"""Block sizes of products by block-quantized weights: of rows, panels and chunks of K, and where weights are unpacked.

Rows that fill matrix registers multiply weights that are unpacked to bytes in memory, and so do several register
blocks of rows that are rounded to single bytes. For other rows there are two kernels. One unpacks weights in registers,
again for each register block of rows; the other unpacks them to f32 in memory, once for all rows of a workgroup. They
are compared by their operations on a vector of weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from pydispatch.compiler.kernels.matmul.block_quantized import WORD_BYTES, BlockQuantized
from pydispatch.compiler.kernels.matmul.cpu.tile_choice import (
    MIN_PACKED_STEPS,
    PACKING_WORKGROUP_LIMITS,
    block_rows,
)
from pydispatch.compiler.kernels.matmul.cpu.tiles import MATRIX_ROWS, Level, ceil_quotient
from pydispatch.ir.dialects.pyd.tile_registers import MOST_STEPS

F32_BYTES = 4
"""Size of an f32 in bytes."""

MAX_ROWS = 16
"""Maximum number of rows of a workgroup that unpacks weights in vector registers: the rows fit into the second-level
cache, converted to digits (signed bytes). Twice as many if each element is a single digit, and there are many
workgroups."""

MOST_BLOCK_ROWS = 4
"""Maximum height of a register block that unpacks weights. The sums of more rows leave registers for fewer columns;
with fewer rows, the same weights are unpacked more often."""

ENOUGH_WORKGROUPS, MOST_PANELS = 8, 16
"""Number of workgroups that is enough, and maximum number of panels of a workgroup.

Each workgroup converts its rows of A once for all of its panels. With more workgroups, converting takes longer than
multiplying: 1x768x768 takes 16 us with 12 workgroups, 8 us with 6 (AMD EPYC Zen 4). With more panels in a workgroup,
their weights leave the second-level cache before the next rows read them: 128x2048x2048 of 8 bits takes 5.7 ms with 32
panels, 4.1 ms with 16; of 4 bits 4.2 ms with 16 panels, 5.1 ms with 4."""

MANY_WORKGROUPS = 32
"""Minimum number of workgroups that must remain where each gets twice the rows: enough for many workers."""

UNPACKING_OPERATIONS = 3
"""Number of operations that unpack a vector of weights: a shift, a mask and a conversion."""

SCALING_OPERATIONS = 4
"""Number of operations, besides unpacking, on a vector of weights that is written to memory as f32: subtracting the
zero point, multiplying by the scale, the store, and the load by the product."""

CONVERSION_OPERATIONS = 2
"""Number of vector operations per element of A that convert it to digits: about 30 for a vector of 16 elements."""


@dataclass(frozen=True)
class BlockSizes:
    """Sizes of the blocks and chunks in which a kernel computes a product by block-quantized weights.

    Attributes:
        rows: Rows of A of one workgroup. The last workgroup may have fewer.
        row_block: Rows of a register block.
        columns: Columns of a register block.
        panels: Panels of a workgroup; a panel is a fixed number of adjacent columns of the weights. The last workgroup
            may have fewer.
        blocks: Number of blocks of K in a chunk, a divisor of the number in the product. A block is adjacent steps of K
            that share a scale.
        byte_digits: Bytes of the integer that an element of A is rounded to. Each byte, called a digit, is multiplied
            on its own. 0 where products are f32.
        lanes: Number of 32-bit elements in a vector.
        unpacks: Whether weights are unpacked into memory for all rows of a workgroup, instead of in registers.
        matrix_steps: Groups of four bytes that matrix registers multiply at once; 0 if they are not used.
    """

    rows: int
    row_block: int
    columns: int
    panels: int
    blocks: int
    byte_digits: int
    lanes: int
    unpacks: bool = False
    matrix_steps: int = 0

    @property
    def padded_rows(self) -> int:
        """Rows of a workgroup's copy of A: rounded up to whole register blocks if weights are unpacked into memory."""
        return self.row_block * ceil_quotient(self.rows, self.row_block) if self.unpacks else self.rows


def sizes_of(match: BlockQuantized, level: Level) -> BlockSizes | None:
    """Return the block sizes of a product on a CPU; None if its number of rows is unknown, or 0.

    The sizes determine how weights are unpacked, in one of three ways:

    - To bytes in memory, once for all rows of a workgroup. This way is for matrix registers, if the CPU has them and
      the rows fill one. This way is also for rows that are rounded to single bytes and fill several register blocks.
    - To f32 in memory, once for all rows of a workgroup, if that takes fewer operations than the third way.
    - In registers, again for each register block of rows.
    """
    total_rows = _total_rows(match)
    if not total_rows:
        return None
    # Elements of A are rounded to integers of `digits` bytes: a row of A is `digits` rows of bytes. Matrix registers
    # are used if these rows fill one register. `MATRIX_ROWS` is the number of rows of two.
    digits = match.integer_bytes
    if "i8" in level.matrix_types and total_rows * digits >= MATRIX_ROWS // 2:
        return _matrix_sizes(match, level, total_rows)
    # Elements of A stay f32 (0 digits) unless the CPU has dot products of unsigned weights and signed digits.
    multiplies_bytes = level.byte_products in ("unsigned by signed", "all signs")
    sizes = _register_sizes(match, level, total_rows, byte_digits=digits if multiplies_bytes else 0)
    # Rounding to single bytes changes the results visibly. So A is rounded for any number of rows, not only if that
    # takes fewer operations: results of a row must not depend on the number of rows.
    is_rounded = sizes.byte_digits == 1
    # Operations per vector of weights: unpacked and written to memory once, and a multiply-add for each row.
    operations_in_memory = UNPACKING_OPERATIONS + SCALING_OPERATIONS + total_rows
    if is_rounded or _operations(match, sizes, total_rows) <= operations_in_memory:
        return sizes
    return _unpacked_sizes(match, level, total_rows)


def _total_rows(match: BlockQuantized) -> int | None:
    """Return the number of rows of A, which several loops may count; None if it is unknown."""
    extents = [match.contraction.generic.extents[d] for d in match.row_loops]
    static_extents = [n for n in extents if n is not None]
    return prod(static_extents) if len(static_extents) == len(extents) else None


def _operations(match: BlockQuantized, sizes: BlockSizes, total_rows: int) -> float:
    """Return how many instructions the products of a vector of weights with all rows take, unpacked in registers.

    The vector is loaded and unpacked once for each register block of rows. The vector is multiplied once for each row,
    or, if elements of A are rounded to `byte_digits` bytes (digits), once for each digit of each row.
    """
    blocks, digits = ceil_quotient(total_rows, sizes.row_block), sizes.byte_digits
    if not digits:
        return UNPACKING_OPERATIONS * blocks + total_rows
    # An instruction multiplies or unpacks `WORD_BYTES` (4) steps of K in each 32-bit lane.
    products = (digits * total_rows + UNPACKING_OPERATIONS * blocks) / WORD_BYTES
    # At the end of a block of K, each row takes 3 operations for the sum of each digit, and 3 for their total.
    sums = total_rows * 3 * (digits + 1) / match.steps_per_block
    # An element of A is converted once for all vectors of weights at its step of K. There are so many in a workgroup:
    vectors = sizes.panels * match.width / sizes.lanes
    conversion = total_rows * CONVERSION_OPERATIONS / vectors
    return products + sums + conversion


def _register_sizes(match: BlockQuantized, level: Level, total_rows: int, byte_digits: int) -> BlockSizes:
    """Return the block sizes for weights that are unpacked in vector registers, or to bytes in memory.

    Weights are unpacked in registers, again for each register block of rows, with one exception: if the rows are
    rounded to single bytes and fill several register blocks, weights are unpacked to bytes in memory, once. Sums of
    single bytes need so few registers that LLVM would keep the unpacked weights, which register blocks share, on the
    stack. In a buffer, which is aligned, 64x4096x4096 takes 0.83 of the time (AMD EPYC Zen 5).

    `byte_digits` is the size of the integers that elements of A are rounded to; 0 if products are f32.
    """
    lanes = level.vector // F32_BYTES
    row_groups = _row_groups(match, total_rows, byte_digits)
    rows = ceil_quotient(total_rows, row_groups)  # all groups have about equally many
    row_block = min(rows, MOST_BLOCK_ROWS)
    vectors = _vectors_of_unpacking_block(match, level, sums_per_vector=row_block * (byte_digits or 1))
    has_several_whole_blocks = rows > row_block and rows % row_block == 0
    return BlockSizes(
        rows=rows,
        row_block=row_block,
        columns=min(match.width, vectors * lanes),
        panels=_panels_of_converted_rows(match, row_groups),
        blocks=match.blocks,  # all of K is one chunk, so that a workgroup copies its rows of A once
        byte_digits=byte_digits,
        lanes=lanes,
        unpacks=byte_digits == 1 and has_several_whole_blocks,
    )


def _row_groups(match: BlockQuantized, total_rows: int, byte_digits: int) -> int:
    """Return the number of workgroups along the rows of A: the fewest with at most `MAX_ROWS` rows each.

    Rows that are rounded to single bytes have half as many groups if enough workgroups remain: weights are then
    unpacked half as often.
    """
    groups_of_twice_the_rows = ceil_quotient(total_rows, 2 * MAX_ROWS)
    remaining_workgroups = groups_of_twice_the_rows * ceil_quotient(match.panels, MOST_PANELS)
    if byte_digits == 1 and remaining_workgroups >= MANY_WORKGROUPS:
        return groups_of_twice_the_rows
    return ceil_quotient(total_rows, MAX_ROWS)


def _vectors_of_unpacking_block(match: BlockQuantized, level: Level, sums_per_vector: int) -> int:
    """Return the width, in vectors, of a register block that unpacks weights in registers.

    The width is the greatest of 4 and 2 that fits into a panel and the registers, else 1. A vector of columns takes
    `sums_per_vector` registers of sums.

    Example:
        With AVX-512, 3 digits and 4 rows in a block, each vector of columns takes 12 registers of sums and 2 of
        weights, and A takes 2. A block of 2 vectors takes 30 of 32 registers.
    """
    lanes = level.vector // F32_BYTES
    weights, elements_of_a = 2, 2  # registers: a vector of weights as it is stored and unpacked, and elements of A
    for vectors in (4, 2):
        registers = (sums_per_vector + weights) * vectors + elements_of_a
        if vectors * lanes <= match.width and registers <= level.registers:
            return vectors
    return 1


def _panels_of_converted_rows(match: BlockQuantized, row_groups: int) -> int:
    """Return the number of panels of a workgroup, which converts its rows of A to digits once for all its panels.

    There are then about `ENOUGH_WORKGROUPS` workgroups, in `row_groups` groups of rows. The panels are at most
    `MOST_PANELS`.
    """
    return min(MOST_PANELS, ceil_quotient(match.panels * row_groups, ENOUGH_WORKGROUPS))


def _unpacked_sizes(match: BlockQuantized, level: Level, total_rows: int) -> BlockSizes:
    """Return the block sizes for weights that are unpacked to f32 in memory, once for all rows of a workgroup.

    Rows are divided into as few groups as possible of at most twice `Level.tile_rows`, about equally: 500 rows with
    AVX-512, where that is 224, into three groups of 167, rounded up to 168, whole register blocks of 14.
    """
    lanes = level.vector // F32_BYTES
    # The register block has the most vectors, up to the usual number, that divide a panel; one if none does.
    vectors = max(v for v in range(1, level.block_vectors + 1) if match.width % (v * lanes) == 0 or v == 1)
    columns = min(match.width, vectors * lanes)
    # At most twice the usual rows of a tile, so that unpacked weights are used more often.
    row_groups = ceil_quotient(total_rows, 2 * level.tile_rows)
    rows = ceil_quotient(total_rows, row_groups)
    row_block = block_rows(level, vectors, rows, minimizes_passes=False)
    if row_groups > 1:  # only the last workgroup has a partial register block
        rows = row_block * ceil_quotient(rows, row_block)
    return BlockSizes(
        rows=rows,
        row_block=row_block,
        columns=columns,
        panels=_panels(match, level, rows, ceil_quotient(total_rows, rows)),
        # The weights of a chunk, for the columns of a register block, stay in the first-level cache.
        blocks=_blocks(match, most_steps=level.l1_chunk_bytes // (columns * F32_BYTES)),
        byte_digits=0,
        lanes=lanes,
        unpacks=True,
    )


def _matrix_sizes(match: BlockQuantized, level: Level, total_rows: int) -> BlockSizes:
    """Return the block sizes for weights that are unpacked to bytes in memory, which matrix registers multiply.

    A workgroup has at most `MATRIX_ROWS` (32) rows. Each element of A becomes an integer of `match.integer_bytes`
    signed bytes, the digits. With more groups of rows, there are enough workgroups even if each has more panels
    (adjacent columns of the weights); fewer workgroups then convert the same rows to digits.

    Example:
        For 64 rows of A with 3 digits, a workgroup has 32 rows. Each is 3 rows of bytes in matrix registers, whose 32
        rows hold up to 10 rows of A: 4 register blocks of 8 rows.
    """
    digits = match.integer_bytes
    row_groups = ceil_quotient(total_rows, MATRIX_ROWS)
    rows = ceil_quotient(total_rows, row_groups)
    row_blocks = ceil_quotient(rows, MATRIX_ROWS // digits)
    # The copy of a chunk of rows, as f32 and as digits, takes at most a quarter of the second-level cache.
    copied_bytes_per_step = rows * (F32_BYTES + digits)
    most_steps = level.model.l2.bytes_per_core // 4 // copied_bytes_per_step
    # Matrix registers multiply several groups of four bytes along K at once. Their number divides that of a block.
    groups = match.steps_per_block // WORD_BYTES
    matrix_steps = max(n for n in range(1, MOST_STEPS + 1) if groups % n == 0)
    return BlockSizes(
        rows=rows,
        row_block=ceil_quotient(rows, row_blocks),
        columns=min(match.width, MATRIX_ROWS),
        panels=_panels_of_converted_rows(match, row_groups),
        blocks=_blocks(match, most_steps),
        byte_digits=digits,
        lanes=level.vector // F32_BYTES,
        unpacks=True,
        matrix_steps=matrix_steps,
    )


def _blocks(match: BlockQuantized, most_steps: int) -> int:
    """Return the number of blocks of K in a chunk, a divisor of the product's number of blocks.

    The number is the greatest for which the chunk has at most `most_steps` steps of K. If that is fewer than
    `MIN_PACKED_STEPS` steps, it is the least for which the chunk has `MIN_PACKED_STEPS`, or all blocks.
    """
    divisors = [n for n in range(1, match.blocks + 1) if match.blocks % n == 0]
    lengths = [n * match.steps_per_block for n in divisors]  # possible numbers of steps of a chunk, ascending
    longest = max((steps for steps in lengths if steps <= most_steps), default=0)
    least_steps = max(longest, MIN_PACKED_STEPS)
    return next((n for n, steps in zip(divisors, lengths, strict=True) if steps >= least_steps), match.blocks)


def _panels(match: BlockQuantized, level: Level, rows: int, row_groups: int) -> int:
    """Return the number of panels of a workgroup, which has `rows` rows of A in one of `row_groups` groups.

    Their sums take at most a quarter of the second-level cache. For each limit of `PACKING_WORKGROUP_LIMITS`, the
    panels are halved while a workgroup has more multiplications, and there are fewer workgroups, than the limit states.
    """
    sum_bytes_of_panel = rows * match.width * F32_BYTES
    panels = max(1, level.model.l2.bytes_per_core // 4 // sum_bytes_of_panel)
    panels = min(panels, match.panels)
    for limit in PACKING_WORKGROUP_LIMITS:
        while panels > 1 and rows * panels * match.width * match.steps_per_row > limit.multiplications:
            if row_groups * ceil_quotient(match.panels, panels) >= limit.workgroups:
                break
            panels = ceil_quotient(panels, 2)
    panel_groups = ceil_quotient(match.panels, panels)
    return ceil_quotient(match.panels, panel_groups)  # workgroups have about equally many
