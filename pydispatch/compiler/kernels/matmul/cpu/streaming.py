"""Streaming: the schedule of a skinny A times a B whose rows are far apart in memory, or arrive late from memory.

B passes once, some steps of K at a time (a chunk), by rows of wide tiles. Main memory and the third-level cache give
whole rows several times as fast as the few columns of a panel. While a block multiplies its rows of a chunk, it
prefetches the same columns of the next chunk into the second-level cache; the first-level one has too few sets for rows
whose stride is a power of two.

The table of docs/contractions.md compares streaming with panels and with NumPy.
"""

from __future__ import annotations

from functools import partial

from pydispatch.compiler.kernels.matmul.cpu.problem import Problem, prefetch_distance
from pydispatch.compiler.kernels.matmul.cpu.tile_choice import WORKGROUP_LIMITS, loads_of_step
from pydispatch.compiler.kernels.matmul.cpu.tiles import Level, Tiles, ceil_quotient, round_up

MAX_STREAMING_ROWS = 64
"""Rows of A up to which B is streamed. Passing the sums of so few rows through the second-level cache takes less time
than packing B. The limit is twice as high where a multiplication of vectors takes two cycles, which leaves the cache
time for the sums of twice as many rows: 128x3072x768 takes 5.8 ms streamed, and 6.8 ms packed (Zen 4)."""

FEW_STREAMING_ROWS = 8
"""Rows of A up to which streaming is bound by main memory, which delivers whole rows of B fastest. Products of so few
rows have tiles of at least a page of columns: 8x768x3072 takes 0.5 ms, in tiles of 256 columns 2.4 ms (Zen 4)."""

MIN_TILE_ROWS, MIN_TILE_COLUMNS = 32, 256
"""Sizes down to which the tiles of a streamed product are cut as long as there are few workgroups."""

MIN_STREAMING_STEPS = 64
"""Steps of K below which there is nothing to stream."""

WIDE_BLOCK_BYTES = 1024
"""Width in bytes of a wide register block, which has the sums of a single row of A. They stay in registers over all of
K, instead of passing through the cache for each chunk of a streamed B (a B that is read in place, a few rows at a
time). A wide block is used if its sums fit into half of the vector registers, and if the CPU's own prefetchers follow
reads as far apart as the rows of B.

Times in us, in wide blocks / in chunks of K:
    Zen 5: 1x512x512 6.7 / 9.6; 1x768x768 20 / 28; 1x2048x1000 75 / 114; 1x3072x768 87 / 127; 1x1024x1024 40 / 42.
    Zen 4, which does not prefetch these strides: 1x3072x768 163 / 124; 1x2048x1000 154 / 109; 1x4096x4096 5,170 /
    2,610. Nor does an Intel Xeon with 2 MiB of L2: 1x4096x4096 3,260 / 2,740; 1x4096x11008 19,400 / 9,400.
"""

STREAMING_STEPS = (8, 4, 5, 7, 6, 3)
"""Possible lengths of a short chunk. A chunk is the whole rows of B that one pass over the columns reads; each row is a
step of K. The first length that divides K is used. 1x4096x4096 takes 2.5 ms with 8 steps, 2.6 with 4, 3.0 with 16 (Zen
4)."""

LONG_STREAMING_STEPS = (32, 24, 28, 40, 36)
"""Possible lengths, in steps of K, of the long chunks for products with more rows (see `_has_long_chunks`), whose sums
then pass through the cache less often. The first length that divides K is used. 16x1024x1024 from memory takes 347 us
with 32 steps, 369 with 16, 390 with 8 (Zen 4)."""

LONG_CHUNK_ROWS = 8
"""Maximum number of rows of a block that reads long chunks. Its rows of A are read in place, often at strides at which
their lines share few sets of the first-level cache: more rows would not fit into these sets."""

MAX_SINGLE_PASS_ROWS = 32
"""Rows of A up to which a B between half of the second-level cache and twice its size is streamed. More rows read B in
more passes without streaming, and the later passes find it in the cache. See 16x536x544 in docs/contractions.md."""


def streams_b(level: Level, problem: Problem) -> bool:
    """Return whether B is streamed: read in place a few whole rows at a time, for all rows of A, instead of packed.

    B must be row-major, with known sizes and at least `MIN_STREAMING_STEPS` rows. With one or two rows of A, B is
    always streamed. With more rows, up to about `MAX_STREAMING_ROWS`, K must be the only reduced dimension, and each
    element of B must be used at a single index of the outer dimensions. B is then streamed in one of two cases:

    - Rows of B are further apart than the CPU prefetches, and B exceeds half of the second-level cache, or twice this
      cache for more than `MAX_SINGLE_PASS_ROWS` rows of A.
    - Blocks multiply a B that was evicted from the second-level cache faster than memory delivers it
      (`_waits_for_memory`), and B exceeds the first-level cache.
    """
    is_row_major = not problem.is_b_transposed and not problem.panel_width
    if not (problem.can_read_b_in_place and is_row_major):
        return False
    if not problem.m or not problem.n or (problem.k or 0) < MIN_STREAMING_STEPS:
        return False
    if problem.m <= 2:
        return True
    is_used_once = problem.reductions == 1 and problem.b_uses == 1
    if problem.m > _most_streaming_rows(level) or not is_used_once:
        return False
    # The alternative for many rows is to read B in several passes, which is fast if later passes find it in the cache.
    l2_bytes = level.model.l2.bytes_per_core
    cached_bytes = l2_bytes // 2 if problem.m <= MAX_SINGLE_PASS_ROWS else 2 * l2_bytes
    are_rows_too_far_apart = problem.b.row_stride_bytes > level.model.prefetch_stride  # for the CPU's prefetchers
    if are_rows_too_far_apart and problem.b_span_bytes > cached_bytes:
        return True
    return _waits_for_memory(level, problem) and problem.b_span_bytes > level.model.l1.bytes_per_core


def _most_streaming_rows(level: Level) -> int:
    """Return the rows of A up to which B is streamed: twice as many if multiplying vectors takes two cycles.

    The sums of all rows pass through the cache while blocks multiply. Zen 4 processes 32 of a vector's 64 bytes at a
    time, which leaves time for the sums of twice as many rows.
    """
    cycles_of_vector = ceil_quotient(level.vector, level.model.datapath)
    return MAX_STREAMING_ROWS * cycles_of_vector


def _waits_for_memory(level: Level, problem: Problem) -> bool:
    """Return whether register blocks wait for a B that was evicted from the second-level cache.

    Blocks wait for B if three conditions hold: A has at most `MAX_SINGLE_PASS_ROWS` rows, a block multiplies B faster
    than the memory beyond this cache delivers it, and the CPU's own prefetchers do not keep up.

    Times in us of an Intel Xeon with 2 MiB of L2, B read by the columns of a block / streamed:
        Another B in each call: 16x440x448 199 / 82; 8x248x256 46 / 26; 16x120x128 13.7 / 9.1.
        The same B in all calls: 16x440x448 61 / 49; 8x248x256 7.9 / 8.3; 16x120x128 4.3 / 4.1.
    """
    rows = problem.max_rows or problem.m or 0  # the most rows if their number is dynamic; 0 if nothing is known
    if rows > MAX_SINGLE_PASS_ROWS:
        return False
    # The register block without streaming: its rows, and the bytes of B that it reads for a step of K.
    mr, row_bytes = min(rows, level.block_rows), level.block_vectors * level.vector
    # The distance is 0 if memory delivers B in time, or if the CPU's own prefetchers keep up.
    return prefetch_distance(level, mr, row_bytes) > 0


def streaming_tiles(level: Level, problem: Problem, tiles: Tiles) -> Tiles:
    """Return the register block, the wide tiles and the chunks of a few steps of K with which B is streamed.

    A streamed B is read in place, a few whole rows at a time, for all rows of A. `Tiles` are the register block mr x
    nr, the tile mt x nt of a workgroup, and the chunk of kc steps of K, which are kc rows of B.

    Args:
        level: Vector registers, caches and instructions of the CPU.
        problem: The contraction, for which `streams_b` is True.
        tiles: The tiles of the schedule without streaming. Their register block is used for two rows of A, and for a
            single row without a wide block (`WIDE_BLOCK_BYTES`).
    """
    k = problem.k
    assert k is not None
    # A single row in wide blocks that hold their sums over all of K: one chunk, and no sums pass through the cache.
    if problem.m == 1 and _keeps_sums_of_wide_block(level, problem):
        columns = WIDE_BLOCK_BYTES // problem.sum_bytes
        return Tiles(mr=1, nr=columns, mt=1, nt=columns, kc=k)
    mr, nr = _streaming_block(level, problem, tiles)
    mt, nt = _streaming_tile(level, problem, mr, nr)
    lengths = LONG_STREAMING_STEPS if _has_long_chunks(level, problem) else STREAMING_STEPS
    # A length that divides K, so that the last chunk is whole; else the preferred one.
    steps = next((steps for steps in lengths if k % steps == 0), lengths[0])
    return Tiles(mr=mr, nr=nr, mt=mt, nt=nt, kc=steps)


def _streaming_block(level: Level, problem: Problem, tiles: Tiles) -> tuple[int, int]:
    """Return the rows and columns of the register block that streams B; `tiles` has the block without streaming."""
    m, n = problem.m, problem.n
    assert m is not None and n is not None
    fits_one_block = _has_registers_of_wide_block(level) and n * problem.sum_bytes <= WIDE_BLOCK_BYTES
    if m == 1 and fits_one_block:
        # One block of all columns overlaps no other: three products of 1x700x200 take 19.0 us, in blocks of 128
        # columns, of which the last ones overlap, 23.4 (AMD EPYC Zen 4, one worker).
        return tiles.mr, n
    if m <= 2:
        return tiles.mr, tiles.nr
    block_of_chunk = _block_of_long_chunk if _has_long_chunks(level, problem) else _block_of_short_chunk
    return block_of_chunk(level, m, n, problem.sum_bytes)


def _streaming_tile(level: Level, problem: Problem, mr: int, nr: int) -> tuple[int, int]:
    """Return the rows and columns (mt, nt) of the tile of a workgroup, in blocks of mr x nr.

    At first the tile has all rows of A, and so many columns that there are about 8 workgroups. But a row of its sums
    fills at least a page of virtual memory (4 KiB). The tile is then made smaller while there are fewer than 8
    workgroups and the tile has more multiplications than `WORKGROUP_LIMITS` states: its rows are halved, down to
    `MIN_TILE_ROWS`, then its columns, down to `MIN_TILE_COLUMNS`. Columns are halved only if A has more than
    `FEW_STREAMING_ROWS` rows.

    Example:
        For 16 rows of f32, blocks of 8x32 and a B of 4096x4096, a page is 1,024 columns. Tiles of 16x1024 would be 4
        workgroups, so that they become 16x512. For 8 rows, tiles are 8x1024, since narrow tiles are slower.
    """
    rows, n = problem.m or 0, problem.n or 0
    # A skinny variant is a kernel for a range of small, dynamic row counts. Its tiles are for the largest one.
    if problem.is_skinny_variant and problem.max_rows is not None:
        rows = problem.max_rows
    limit = WORKGROUP_LIMITS[0]  # the limit of small tiles: enough workgroups, or few multiplications in each
    mt, nt = round_up(rows, mr), round_up(_tile_columns(level, problem, limit.workgroups), nr)
    # Rows are halved first: narrow tiles read parts of the rows of B, which memory delivers more slowly.
    while True:
        has_enough_workgroups = problem.outer * ceil_quotient(rows, mt) * ceil_quotient(n, nt) >= limit.workgroups
        is_small = mt * nt * (problem.k or 0) <= limit.multiplications
        if has_enough_workgroups or is_small:
            return mt, nt
        if mt > max(MIN_TILE_ROWS, mr):
            mt = round_up(ceil_quotient(mt, 2), mr)
        elif rows > FEW_STREAMING_ROWS and nt > max(MIN_TILE_COLUMNS, nr):
            nt = round_up(ceil_quotient(nt, 2), nr)
        else:
            return mt, nt


def _tile_columns(level: Level, problem: Problem, workgroups: int) -> int:
    """Return the columns of a tile, so that tiles of about equal width cover N.

    There are as many tiles as workgroups can have, but fewer if a tile would have less than a page of sums: narrower
    rows of B are read more slowly.
    """
    n = problem.n or 0
    column_tiles = max(1, workgroups // max(1, problem.outer))
    page_columns = level.model.page // problem.sum_bytes
    most_columns = max(ceil_quotient(n, column_tiles), page_columns)
    return ceil_quotient(n, ceil_quotient(n, most_columns))


def streaming_prefetch_distance(level: Level, problem: Problem, steps: int) -> int:
    """Return how many bytes ahead of its reads a register block prefetches a streamed B; 0 for no prefetching.

    A streamed B is read in place, a few whole rows at a time. The block reads a chunk of `steps` rows of B, and
    prefetches the rows of the next chunk. The block prefetches nothing if B is not streamed, or if the CPU's own
    prefetchers reach the next row in time. With one or two rows of A, it prefetches only if B comes from main memory.

    Times in us of an AMD EPYC Zen 4 with one worker, without / with prefetching:
        B in main memory: 1x4096x4096 3,026 / 2,566; 4x4096x4096 2,990 / 2,500; 8x4096x4096 4,423 / 3,257.
        B in the third-level cache: 1x768x3072 137 / 151; attention of one query to 512 keys, 12 heads of 64, 45 / 49.
    """
    if not streams_b(level, problem):
        return 0
    is_prefetched = problem.b.row_stride_bytes <= level.model.prefetch_stride  # by the CPU itself
    if is_prefetched and not _waits_for_memory(level, problem):
        return 0
    assert problem.m is not None
    if problem.m <= 2 and not _comes_from_memory(level, problem):
        return 0
    return steps * problem.b.row_stride_bytes


def _comes_from_memory(level: Level, problem: Problem) -> bool:
    """Return whether B is read from main memory, not from the third-level cache of the CPU `level`.

    B comes from main memory if it takes half of the cache or more: A, C and other data are in the cache, too.
    """
    l3 = level.model.l3
    return l3 is None or 2 * problem.b_compact_bytes >= l3.bytes


def _has_long_chunks(level: Level, problem: Problem) -> bool:
    """Return whether B is streamed in chunks of many rows, so that sums pass through the cache less often.

    Chunks are long for more than `FEW_STREAMING_ROWS` rows of A, or more than half as many if B is in a cache. For
    fewer rows, reading B takes most of the time. Main memory delivers B fastest in short chunks, a few whole rows at a
    time.
    """
    rows = problem.max_rows or problem.m or 0  # the most rows if their number is dynamic; 0 if nothing is known
    if rows > FEW_STREAMING_ROWS:
        return True
    return rows > FEW_STREAMING_ROWS // 2 and not _comes_from_memory(level, problem)


def _block_of_long_chunk(level: Level, m: int, n: int, sum_bytes: int) -> tuple[int, int]:
    """Return the rows and columns of the register block that streams B in chunks of about 32 rows, for m rows of A.

    The block is two vectors wide, or has all n columns if they are fewer. Its height is the one with the fewest loads
    for a step of K. Sums have `sum_bytes` bytes.

    Example:
        10 rows of A are two blocks of 5, which load 2 * (5 + 1) times for a step of K. Two of 8 load 2 * (8 + 1) times.
    """
    most_rows = max(1, min(m, LONG_CHUNK_ROWS, level.accumulators // 2))  # two registers of sums for each row
    heights = range(most_rows, most_rows // 2, -1)  # lower blocks leave too many accumulators unused
    return min(heights, key=partial(loads_of_step, m)), min(n, 2 * level.vector // sum_bytes)


def _block_of_short_chunk(level: Level, m: int, n: int, sum_bytes: int) -> tuple[int, int]:
    """Return the rows and columns of the register block that streams B in chunks of about 8 rows, for m rows of A.

    The block is four vectors wide if such blocks may have at least three rows, and m rows need several of them. Else it
    is two vectors wide. If n is less than that width, the block has all n columns. The last block overlaps the one
    before it, and computes some rows again: the height is the one for which all blocks compute the fewest rows. Sums
    have `sum_bytes` bytes.

    Example:
        With 28 accumulators of 16 f32, blocks of 64 columns have at most 6 rows. 8 rows of A are two blocks of 4; two
        blocks of 6 rows would compute 4 rows twice.
    """
    # Vectors of columns -> rows whose sums fit into the accumulators, of which the loaded row of B takes some.
    most_rows = {vectors: (level.accumulators - vectors) // vectors for vectors in (2, 4)}
    needs_several_blocks, has_three_rows = m > most_rows[4], most_rows[4] >= 3
    vectors = 4 if needs_several_blocks and has_three_rows else 2
    greatest = max(1, min(m, most_rows[vectors]))
    heights = range(greatest, greatest // 2, -1)  # lower blocks leave too many accumulators unused
    computed_rows = partial(round_up, m)  # of all blocks, as a function of their height
    return min(heights, key=computed_rows), min(n, vectors * level.vector // sum_bytes)


def _keeps_sums_of_wide_block(level: Level, problem: Problem) -> bool:
    """Return whether a single row of A is computed in blocks of `WIDE_BLOCK_BYTES`, with all sums in registers.

    Three conditions must hold. The sums of a block fit into half of the vector registers. C has at least as many
    columns as a block. The CPU's own prefetchers follow reads as far apart as the rows of B.
    """
    has_registers = _has_registers_of_wide_block(level)
    has_columns = (problem.n or 0) * problem.sum_bytes >= WIDE_BLOCK_BYTES
    is_prefetched = problem.b.row_stride_bytes <= level.model.prefetch_stride
    return has_registers and has_columns and is_prefetched


def _has_registers_of_wide_block(level: Level) -> bool:
    """Return whether half of the vector registers hold the sums of a row of `WIDE_BLOCK_BYTES`."""
    return level.registers // 2 * level.vector >= WIDE_BLOCK_BYTES
