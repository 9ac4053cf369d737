"""Streaming: the schedule of a skinny A times rows of B that are stored far apart, or come late.

B passes once, some steps of K at a time (a chunk), by rows of wide tiles. Main memory and the third-level cache give
whole rows several times as fast as the few columns of a panel. While a block multiplies its rows of a chunk, it
prefetches the same columns of the next chunk into the second-level cache; the first-level one has too few sets for rows
whose stride is a power of two.

The table of docs/contractions.md compares streaming with panels and with NumPy.
"""

from __future__ import annotations

from pydispatch.compiler.kernels.matmul.cpu.problem import Problem, prefetch_distance
from pydispatch.compiler.kernels.matmul.cpu.tile_choice import WORKGROUP_LIMITS
from pydispatch.compiler.kernels.matmul.cpu.tiles import Level, Tiles, ceil_quotient

MAX_STREAMING_ROWS = 64
"""Rows of A up to which B is streamed: the sums, which pass through the second-level cache, then cost less than packing
B. Twice as many where a multiplication of vectors takes two cycles, which leaves the cache time for the sums of twice
as many rows: Zen 4, 128x3072x768 in 5.8 ms, packed 6.8."""

NARROW_TILE_ROWS, TILE_ROWS, TILE_COLUMNS = 8, 32, 256
"""Where there are few workgroups, tiles of products with more than NARROW_TILE_ROWS rows are cut down to TILE_ROWS rows
and TILE_COLUMNS columns. With fewer rows, tiles have at least a page of columns: 8x768x3072 from main memory takes 0.5
ms, in tiles of 256 columns 2.4 (Zen 4)."""

MIN_STREAMING_STEPS = 64
"""Steps of K below which there is nothing to stream."""

WIDE_BLOCK_BYTES = 1024
"""Width in bytes of a wide register block: its sums of a single row of A stay in registers over all of K, instead of
passing through the cache for each chunk of a streamed B. It is used if half of the registers hold these sums, and rows
of B are no further apart than the CPU prefetches.

Zen 5, us in wide blocks, and streamed in tiles of 2048 bytes: 1x512x512 6.7 and 9.6; 1x768x768 20 and 28; 1x2048x1000
75 and 114; 1x3072x768 87 and 127; 1x1024x1024 40 and 42. CPUs that prefetch only shorter strides stream better, us
streamed, and in wide blocks: Zen 4 1x3072x768 124 and 163, 1x2048x1000 109 and 154, 1x4096x4096 2,610 and 5,170; an
Intel Xeon with 2 MiB of L2 1x4096x4096 2,740 and 3,260, 1x4096x11008 9,400 and 19,400.
"""

STREAMING_STEPS = (8, 4, 5, 7, 6, 3)
"""Possible lengths of a short chunk. A chunk is the whole rows of B that one pass over the columns reads; each row is a
step of K. The first length that divides K is used. 1x4096x4096 in 2.5 ms, with 4 in 2.6, with 16 in 3.0 (Zen 4)."""

LONG_STREAMING_STEPS = (32, 24, 28, 40, 36)
"""Possible lengths, in steps of K, of the long chunks for products with more rows (see `_has_long_chunks`), whose sums
then pass through the cache less often. The first length that divides K is used. 16x1024x1024 from memory in 347 us with
32 steps, with 16 in 369, with 8 in 390 (Zen 4)."""

LONG_CHUNK_ROWS = 8
"""Maximum number of rows of a block that reads long chunks. Its rows of A are read in place, often at strides at which
their lines share few sets of the first-level cache: more rows would not fit into these sets."""

MAX_SINGLE_PASS_ROWS = 32
"""Rows of A up to which a B between half of the second-level cache and twice its size is streamed. More rows read B in
more passes without streaming, and the later passes find it in the cache. See 16x536x544 in docs/contractions.md."""


def streams_b(level: Level, problem: Problem) -> bool:
    """Return whether B is streamed: read in place a few whole rows at a time, for all rows of A, instead of packed.

    B must be row-major, with known sizes and at least `MIN_STREAMING_STEPS` rows. With one or two rows of A it is
    always streamed. With more rows, up to about `MAX_STREAMING_ROWS`, it is streamed if K is the only reduction, no
    elements of B are used at several outer indices, and one of two conditions holds:

    - Rows of B are further apart than the CPU prefetches, and B exceeds half of the second-level cache, or twice this
      cache for more than `MAX_SINGLE_PASS_ROWS` rows of A.
    - Blocks multiply a B that was evicted from the second-level cache faster than memory delivers it
      (`_waits_for_memory`), and B exceeds the first-level cache.
    """
    if not problem.can_read_b_in_place or problem.is_b_transposed or problem.panel_width:
        return False
    if not problem.m or not problem.n or (problem.k or 0) < MIN_STREAMING_STEPS:
        return False
    if problem.m <= 2:
        return True
    # If a multiplication of vectors takes two cycles, the cache has time for the sums of twice as many rows. It does on
    # Zen 4, whose units process 32 of the 64 bytes of a vector per cycle; on Zen 5 it takes one.
    cycles_of_vector = ceil_quotient(level.vector, level.model.datapath)
    most_rows = MAX_STREAMING_ROWS * cycles_of_vector
    is_unprefetched = problem.b.row_stride_bytes > level.model.prefetch_stride
    # Fewer rows read B in fewer passes, of which later ones find it in the cache if it fits.
    l2_bytes = level.model.l2.bytes_per_core
    resident_bytes = l2_bytes // 2 if problem.m <= MAX_SINGLE_PASS_ROWS else 2 * l2_bytes
    is_far_apart = is_unprefetched and problem.b_bytes > resident_bytes
    is_late = _waits_for_memory(level, problem) and problem.b_bytes > level.model.l1.bytes_per_core
    return (is_far_apart or is_late) and problem.m <= most_rows and problem.reductions == problem.b_uses == 1


def _waits_for_memory(level: Level, problem: Problem) -> bool:
    """Return whether blocks wait for a B that was evicted from the second-level cache.

    They do if A has at most `MAX_SINGLE_PASS_ROWS` rows, and `prefetch_distance` is not 0: a block multiplies B faster
    than the memory beyond this cache delivers it, and the CPU's own prefetchers do not keep up. Prefetching rows of the
    next chunk then pays at any stride. On an Intel Xeon with 2 MiB of L2, 16x440x448 takes 199 us if B is read by the
    columns of a block, and 82 if it is streamed, with another B in each call; with the same B 61 and 49. 8x248x256
    takes 46 and 26, or 7.9 and 8.3 with the same B; 16x120x128 13.7 and 9.1, or 4.3 and 4.1.
    """
    rows = problem.max_rows or problem.m or 0
    row_bytes = level.block_vectors * level.vector
    return rows <= MAX_SINGLE_PASS_ROWS and prefetch_distance(level, min(rows, level.block_rows), row_bytes) > 0


def streaming_tiles(level: Level, problem: Problem, tiles: Tiles) -> Tiles:
    """Return the register block, the wide tiles and the chunks of a few steps of K with which B is streamed.

    B is streamed if it is read in place, a few whole rows at a time, for all rows of A. Tiles are the register block mr
    x nr, the tile mt x nt of a workgroup, and the chunk of kc steps of K, each a row of B.

    Args:
        level: Vector registers, caches and instructions of the CPU.
        problem: The contraction, for which `streams_b` is True.
        tiles: The tiles of the schedule without streaming. Their block is used for one or two rows of A, unless a
            single row has a wider one.
    """
    assert problem.m is not None and problem.n is not None and problem.k is not None
    # A block that holds its sums over all of K: a single chunk, for which no sums pass through the cache.
    if problem.m == 1 and _keeps_sums_of_wide_block(level, problem):
        columns = WIDE_BLOCK_BYTES // problem.sum_bytes
        return Tiles(mr=1, nr=columns, mt=1, nt=columns, kc=problem.k)
    # Long chunks for more rows of A: sums in memory are then loaded and stored less often.
    has_long_chunks = _has_long_chunks(level, problem)
    mr, nr = tiles.mr, tiles.nr
    if problem.m == 1 and _has_registers_of_wide_block(level) and problem.n * problem.sum_bytes <= WIDE_BLOCK_BYTES:
        # Blocks of all columns do not overlap: three products of 1x700x200 take 19.0 us, in blocks of 128 columns 23.4
        # (AMD EPYC Zen 4, one worker).
        nr = problem.n
    elif problem.m > 2:
        mr, nr = _streaming_block(level, problem.m, problem.n, problem.sum_bytes, has_long_chunks)
    mt, nt = _streaming_tile(level, problem, problem.n, mr, nr)
    choices = LONG_STREAMING_STEPS if has_long_chunks else STREAMING_STEPS
    # A length that divides K, so that the last chunk is whole; else the preferred one.
    steps = next((steps for steps in choices if problem.k % steps == 0), choices[0])
    return Tiles(mr=mr, nr=nr, mt=mt, nt=nt, kc=steps)


def _streaming_tile(level: Level, problem: Problem, n: int, mr: int, nr: int) -> tuple[int, int]:
    """Return the rows and columns (mt, nt) of the tile of a workgroup, in blocks of mr x nr, for n columns of B.

    The tile is first all rows of A, and at least as many columns as fill a page of virtual memory (4 KiB) with a row of
    sums. While there are fewer than 8 workgroups, and the tile has more multiplications than `WORKGROUP_LIMITS` states,
    it is halved: down to `TILE_ROWS` rows, and then to `TILE_COLUMNS` columns if A has more than `NARROW_TILE_ROWS`
    rows.

    Example:
        For 16 rows of f32, blocks of 8x32 and a B of 4096x4096, a page is 1,024 columns. Tiles of 16x1024 would be 4
        workgroups, so that they become 16x512. For 8 rows, tiles are 8x1024, since narrow tiles are slower.
    """
    # A kernel for a range of row counts has tiles for the largest one.
    rows = problem.max_rows if problem.is_skinny_variant and problem.max_rows is not None else problem.m or 0
    limit = WORKGROUP_LIMITS[0]  # the limit of small tiles: enough workgroups, or few multiplications in each
    page_columns = level.model.page // problem.sum_bytes
    column_tiles = max(1, limit.workgroups // max(1, problem.outer))  # for enough workgroups
    # At least a page of columns, even if there are fewer workgroups then: narrower rows of B are read more slowly.
    most_columns = max(ceil_quotient(n, column_tiles), page_columns)
    columns = ceil_quotient(n, ceil_quotient(n, most_columns))  # tiles are about equally wide
    mt, nt = mr * ceil_quotient(rows, mr), nr * ceil_quotient(columns, nr)
    # Rows are halved first: narrow tiles read parts of the rows of B, which memory delivers more slowly.
    while (
        problem.outer * ceil_quotient(rows, mt) * ceil_quotient(n, nt) < limit.workgroups
        and mt * nt * (problem.k or 0) > limit.multiplications
    ):
        if mt > max(TILE_ROWS, mr):
            mt = mr * ceil_quotient(ceil_quotient(mt, 2), mr)
        elif rows > NARROW_TILE_ROWS and nt > max(TILE_COLUMNS, nr):
            nt = nr * ceil_quotient(ceil_quotient(nt, 2), nr)
        else:
            break
    return mt, nt


def streaming_prefetch_distance(level: Level, problem: Problem, steps: int) -> int:
    """Return how many bytes ahead of its reads a register block prefetches a streamed B; 0 for no prefetching.

    A streamed B is read in place, a few whole rows at a time. The block reads a chunk of `steps` rows of B, and
    prefetches the rows of the next chunk. There is no prefetching if B is not streamed, or if the CPU's own prefetchers
    reach the next row at its stride in time. With one or two rows of A there is none, either, unless B comes from main
    memory.

    AMD EPYC Zen 4, one worker, without and with: 1x4096x4096 3,026 and 2,566 us, 4x4096x4096 2,990 and 2,500,
    8x4096x4096 4,423 and 3,257; in the third-level cache 1x768x3072 137 and 151, and attention of one query to 512 keys
    with 12 heads of 64, whose rows are shared by the heads, 45 and 49.
    """
    if not streams_b(level, problem):
        return 0
    is_prefetched = problem.b.row_stride_bytes <= level.model.prefetch_stride
    if is_prefetched and not _waits_for_memory(level, problem):
        return 0
    assert problem.m is not None
    if problem.m <= 2 and not _exceeds_l3(level, problem):
        return 0
    return steps * problem.b.row_stride_bytes


def _exceeds_l3(level: Level, problem: Problem) -> bool:
    """Return whether B comes from main memory: its elements take at least half of the third-level cache."""
    return level.model.l3 is None or 2 * problem.b_elements_bytes >= level.model.l3.bytes


def _has_long_chunks(level: Level, problem: Problem) -> bool:
    """Return whether B is streamed in chunks of many rows, so that sums pass through the cache less often.

    It is for more than `NARROW_TILE_ROWS` rows of A, and for more than half as many if B is not in main memory. With
    fewer rows, most time is spent on reading B from there, which is fastest for a few whole rows of B at a time.
    """
    rows = problem.max_rows or problem.m or 0
    return rows > NARROW_TILE_ROWS or (rows > NARROW_TILE_ROWS // 2 and not _exceeds_l3(level, problem))


def _streaming_block(level: Level, m: int, n: int, sum_bytes: int, has_long_chunks: bool) -> tuple[int, int]:
    """Return (rows, columns) of the register block that streams B for at least three rows of A; m and n are sizes.

    B is streamed in chunks: a few whole rows of B, each a step of K, which all blocks of rows of A read before the next
    chunk. Chunks are long (about 32 rows) for more rows of A, else short (about 8). A block is four vectors wide where
    several blocks of three rows or more read a short chunk of B, else two. The last block may overlap the one before
    it. For a short chunk, the height is chosen for which blocks have the fewest rows in common; for a long chunk, the
    height with the fewest loads for a step of K.

    Example:
        With 28 accumulators of 16 f32, a short chunk has blocks of 4x64 for 8 rows: blocks of 6x64 would compute 4 rows
        twice, of 5x64 2. A long chunk has blocks of 5x32 for 10 rows: two blocks load 2 * (5 + 1) times.
    """
    if has_long_chunks:
        most = max(1, min(m, LONG_CHUNK_ROWS, level.accumulators // 2))
        # For each step of K, every block loads mr elements of A and a row of B. Only heights above most / 2 compete.
        height = min(range(most, most // 2, -1), key=lambda mr: ceil_quotient(m, mr) * (mr + 1))
        return height, min(n, 2 * level.vector // sum_bytes)
    # Vectors of columns -> rows whose sums fit into the accumulators that the loaded vectors of B leave.
    most_rows = {vectors: (level.accumulators - vectors) // vectors for vectors in (2, 4)}
    needs_several_blocks, has_three_rows = m > most_rows[4], most_rows[4] >= 3
    vectors = 4 if needs_several_blocks and has_three_rows else 2
    greatest = max(1, min(m, most_rows[vectors]))
    rows = range(greatest, greatest // 2, -1)
    # The key is the number of rows that all blocks compute, those in common twice.
    return min(rows, key=lambda mr: ceil_quotient(m, mr) * mr), min(n, vectors * level.vector // sum_bytes)


def _keeps_sums_of_wide_block(level: Level, problem: Problem) -> bool:
    """Return whether a single row of A is computed in blocks of `WIDE_BLOCK_BYTES`, with all sums in registers.

    They are if half of the registers hold a block, C has as many columns, and the CPU prefetches rows of B at their
    stride.
    """
    has_registers = _has_registers_of_wide_block(level)
    has_columns = (problem.n or 0) * problem.sum_bytes >= WIDE_BLOCK_BYTES
    is_prefetched = problem.b.row_stride_bytes <= level.model.prefetch_stride
    return has_registers and has_columns and is_prefetched


def _has_registers_of_wide_block(level: Level) -> bool:
    """Return whether half of the vector registers hold the sums of a row of `WIDE_BLOCK_BYTES`."""
    return level.registers // 2 * level.vector >= WIDE_BLOCK_BYTES
