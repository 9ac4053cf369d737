"""The free choices of a contraction's kernel as a value: the default for a CPU, and which others are legal.

A dispatch function may carry one in the attribute `pydispatch.schedule` (docs/ir.md), which replaces the default.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass, fields, replace

from xdsl.dialects.builtin import BoolAttr, DictionaryAttr, IntegerAttr, i64

from pydispatch.compiler.kernels.matmul.cpu.problem import (
    FEW_PASSES,
    SKINNY_ROWS,
    Problem,
    is_panel_cached,
    pays_in_place_a,
    pays_in_place_b,
    prefetch_distance,
    reads_a_in_place,
)
from pydispatch.compiler.kernels.matmul.cpu.streaming import streaming_tiles, streams_b
from pydispatch.compiler.kernels.matmul.cpu.tile_choice import WORKGROUP_LIMITS, TileRequest, choose_tiles
from pydispatch.compiler.kernels.matmul.cpu.tiles import MATRIX_ROWS, Level, Tiles, ceil_quotient

SCHEDULE = "pydispatch.schedule"
"""The attribute of a dispatch function with the schedule of its contraction."""

ASSUMED_STEPS = 1024
"""Size K, the length of the reduction, that is assumed where it is dynamic."""

MOST_ROWS_ALONG_K = 4
"""Maximum height of a register block whose vectors are along K. Each of its sums takes a vector register, so that more
rows leave registers for fewer columns."""

ELEMENTS_OF_B = 1 << 16
"""Approximate number of elements of B that a tile reads, if vectors are along K: its columns, at all indices of K."""

CONVERTED_BLOCKS = 4
"""Maximum width of a tile, in register blocks, where tiles convert B. Against two blocks: 4x4096x4096 in 1175 us, not
1210; 1x4096x4096 in 721 us, not 769. Tiles of four times the width are too few for several workers."""

LONG_STEPS = 64
"""Steps of K from which on vectors are along K if the columns of B would fill at most half of a vector along N."""

SHORTEST_VECTOR_BYTES = 16
"""Length in bytes of the shortest vector registers: blocks of few columns are not narrower."""

CHUNK_MULTIPLE = 64
"""If vectors are along K, it is divided into chunks of a multiple of so many indices: whole vectors and cache lines."""

COMPUTED_COLUMNS = 64
"""Approximate width of a tile if vectors are along K and elements of A are computed: once for all of its columns."""

PAIRED_STEPS = 8
"""Steps of K in a group of the instruction that multiplies two rows by two columns (i8mm). An odd last row then takes
as many registers as two rows."""

MAX_OPERAND_BYTES = 16 << 20
"""Maximum size of a packed operand, and of the sums of a tile, in a schedule that a program states."""


@dataclass(frozen=True)
class Schedule(Tiles):
    """Tiles of a contraction, and which operands are packed: copied to workgroup memory in the order of reads.

    Operands that are not packed are read in place. The sums of f32 and f64 do not depend on the schedule, unless
    vectors are along K, in a transposed B.

    Attributes:
        pack_a, pack_b: Whether A, and B, are packed.
        batch: Number of tiles that a workgroup computes with the same packed columns of B, each at another index of the
            outer dimensions that B does not have.
    """

    pack_a: bool
    pack_b: bool
    batch: int = 1

    def attribute(self) -> DictionaryAttr:
        """Return the schedule as the value of the attribute `pydispatch.schedule`."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return DictionaryAttr(
            {n: BoolAttr.from_bool(v) if isinstance(v, bool) else IntegerAttr(v, i64) for n, v in values.items()}
        )


# Default


def default_schedule(level: Level, problem: Problem) -> Schedule:
    """Return the schedule of a contraction whose dispatch function states none."""
    is_row_major_b = problem.can_read_b_in_place and not problem.panel_width and not problem.is_b_transposed
    minimizes_passes = is_row_major_b and not _is_panel_cached(level, problem)  # each pass reads B from memory again
    if is_row_major_b and _evicts_b_between_uses(level, problem):
        shared = _unstreamed_schedule(level, problem, pack_b=True, minimizes_passes=False)
        if shared.batch > FEW_PASSES:  # uses of a packed copy, which takes about as long as one use
            return shared
    if streams_b(level, problem):  # whole rows of B are read once, some steps of K at a time
        pack_a, pack_b = not problem.can_read_a_in_place, False
        unstreamed = _tiles(level, problem, pack_b, minimizes_passes)
        return _schedule_of(problem, streaming_tiles(level, problem, unstreamed), pack_a, pack_b)
    pack_b = not _reads_b_in_place(level, problem, minimizes_passes)
    return _unstreamed_schedule(level, problem, pack_b, minimizes_passes=minimizes_passes and not pack_b)


def _unstreamed_schedule(level: Level, problem: Problem, pack_b: bool, minimizes_passes: bool) -> Schedule:
    """Return the default schedule for a B that is packed, or read in place, but not streamed.

    See `_tiles` for `minimizes_passes`.
    """
    tiles = _tiles(level, problem, pack_b, minimizes_passes)
    pack_a = not reads_a_in_place(level, problem, tiles)
    tiles = _with_unsplit_rows_and_steps(level, problem, tiles, reads_both_in_place=not pack_a and not pack_b)
    schedule = _schedule_of(problem, tiles, pack_a, pack_b)
    # Workgroups can only share packed columns of B in panels. A B that is packed along K has none.
    has_packed_panels = pack_b and not problem.vectorizes_k(pack_b)
    return _with_batches_sharing_b(level, problem, schedule) if has_packed_panels else schedule


def _schedule_of(problem: Problem, tiles: Tiles, pack_a: bool, pack_b: bool) -> Schedule:
    """Return a schedule without batches; its chunks of K are rounded up to whole instructions."""
    mr, nr, mt, nt, kc = astuple(tiles)
    unit = problem.group * max(1, problem.matrix_steps)  # steps that one instruction multiplies: chunks have whole ones
    return Schedule(mr=mr, nr=nr, mt=mt, nt=nt, kc=ceil_quotient(kc, unit) * unit, pack_a=pack_a, pack_b=pack_b)


def _evicts_b_between_uses(level: Level, problem: Problem) -> bool:
    """Return whether the B of a convolution, the filter, leaves the second-level cache between the rows of an image.

    Each row then waits for B, if the CPU is estimated to bring it more slowly than blocks multiply it. Intel Xeon with
    2 MiB of L2, us, in place and packed once for all rows: 3x3 on 14x14x256 3,780 and 1,980; on 28x28x256 with stride 2
    4,260 and 2,270.
    """
    if not problem.m or problem.reductions == 1 or problem.b_uses == 1:
        return False
    row_bytes = level.block_vectors * level.vector
    is_late = prefetch_distance(level, min(problem.m, level.block_rows), row_bytes) > 0
    return is_late and 2 * problem.b_elements_bytes * problem.reductions > level.model.l2.bytes_per_core


def _with_unsplit_rows_and_steps(level: Level, problem: Problem, tiles: Tiles, reads_both_in_place: bool) -> Tiles:
    """Return tiles that are not split where splitting does not pay.

    A variant for few rows has all of them in one tile. All steps of K are one chunk if both factors are read in place,
    and a panel of B stays in the cache or is used once.
    """
    tile_rows, steps = tiles.mt, tiles.kc
    if problem.is_skinny_variant and problem.max_rows is not None:
        tile_rows = ceil_quotient(problem.max_rows, tiles.mr) * tiles.mr
    if reads_both_in_place and problem.k is not None:
        is_panel_cached = problem.k * tiles.nr * problem.sum_bytes <= level.panel_bytes
        assert problem.m is not None  # an A that is read in place has a known number of rows
        is_panel_used_once = problem.m <= tiles.mr
        if is_panel_cached or is_panel_used_once:
            steps = max(1, problem.k)
    return replace(tiles, mt=tile_rows, kc=steps)


def _tiles(level: Level, problem: Problem, pack_b: bool, minimizes_passes: bool) -> Tiles:
    """Return the tiles of the default schedule for a B that is packed or read in place by the columns of a block.

    Tiles are the register block mr x nr, the tile mt x nt of a workgroup, and kc, the steps of K of a chunk. These
    cases have tiles of their own, in this order: vectors along K, a packed B that is used once, columns that are fewer
    than those of a block.

    Args:
        level: Vector registers, caches and instructions of the CPU.
        problem: The contraction.
        pack_b: Whether B is packed; otherwise it is read in place.
        minimizes_passes: Whether the fewest blocks of rows are best, because each reads B from beyond the cache.
    """
    n, size = problem.n, problem.sum_bytes
    # A variant for few rows is computed in blocks of 16 rows, those of one matrix register, instead of 32.
    is_below_matrix_block = problem.is_skinny_variant and problem.matrix_steps > 0
    rows = MATRIX_ROWS // 2 if is_below_matrix_block else problem.m
    # `plain_request` has the defaults for how operands are read, `request` what differs for this B.
    plain_request = replace(_request(problem), m=rows, minimizes_passes=minimizes_passes)
    request = replace(
        plain_request,
        widens_b=problem.widens_b and not pack_b,
        panel_width=problem.panel_width or None,
        pairs_rows=problem.group == PAIRED_STEPS,
        uses_matrices=problem.matrix_steps > 0,
    )
    tiles = _tiles_for_a(level, problem, pack_b, request)
    vectorizes_k = problem.vectorizes_k(pack_b)  # vectors hold adjacent steps of K instead of adjacent columns
    if vectorizes_k:
        tiles = _tiles_along_k(level, problem, tiles.kc)
    # B is computed in the dispatch, and one block of rows uses each element.
    if pack_b and (vectorizes_k or uses_b_once(problem, tiles)):
        return _tiles_of_converted_b(level, problem, tiles, vectorizes_k)
    # A row-major B that is read in place is narrower than a block: reads must not go beyond its rows.
    if not vectorizes_k and not pack_b and not problem.panel_width and n is not None and n < tiles.nr:
        return choose_tiles(level, replace(plain_request, pads_columns=False))
    # Columns of a packed B fill at most half of a vector: a shorter one, a power of two of columns, takes fewer cycles.
    if pack_b and problem.group == 1 and n and 2 * n * size <= level.vector:
        width = max(SHORTEST_VECTOR_BYTES // size, 1 << (n - 1).bit_length())
        return replace(tiles, nr=width, nt=width)
    return tiles


def _tiles_for_a(level: Level, problem: Problem, pack_b: bool, request: TileRequest) -> Tiles:
    """Return the tiles for a request, which are chosen again if A is read in another way with them than it states.

    Whether reading A in place pays depends on the tiles. If each tile packs its rows of A, there are fewer tiles. If A
    is read in place and B is packed, the result is cut along N first. For the parameters, see `_tiles`.
    """
    tiles = choose_tiles(level, replace(request, is_packed=pack_b))
    if not (pack_b or problem.vectorizes_k(pack_b)):
        tiles = _tiles_of_a_in_place(level, problem, tiles) or tiles
        if not reads_a_in_place(level, problem, tiles):
            tiles = choose_tiles(level, replace(request, packs_a=True))
    if pack_b and problem.group == 1 and reads_a_in_place(level, problem, tiles):
        tiles = choose_tiles(level, replace(request, is_packed=True, cuts_columns=True))
    return tiles


def _request(problem: Problem) -> TileRequest:
    """Return the request for the tiles of a contraction, with the defaults for how its operands are read."""
    return TileRequest(problem.sum_bytes, problem.m, problem.n, problem.k, problem.outer, problem.reductions)


def _tiles_of_a_in_place(level: Level, problem: Problem, tiles: Tiles) -> Tiles | None:
    """Return tiles whose register blocks have all columns, and so few rows that A is read in place.

    The cache lines of so few rows stay in the first-level cache (`pays_in_place_a`), and each element of A is read by
    one block, so that packing would not pay. Return None if the blocks of `tiles` are low enough for reading A in
    place, if there are no such tiles, or if they are slower. 64x16384x64, with rows of A that are 64 KiB apart, takes
    1,169 us in blocks of 5x64, 1,291 us in blocks of 13x32 with A packed (AMD EPYC Zen 4).
    """
    n, m, size = problem.n, problem.m, problem.sum_bytes
    if not problem.can_read_a_in_place or problem.panel_width or not n or not m or n * size % level.vector:
        return None  # a block of all columns must be whole vectors, of a B that is not in panels
    if pays_in_place_a(level, tiles.mr, problem.a.row_stride_bytes):
        return None
    vectors = n * size // level.vector  # in a row of the block
    # A block has rows * `vectors` sums, and the `vectors` registers of a row of B are left beside them.
    most_rows = min(m, (level.accumulators - vectors) // vectors)
    heights = [rows for rows in range(1, most_rows + 1) if pays_in_place_a(level, rows, problem.a.row_stride_bytes)]
    if not heights:
        return None
    mr = heights[-1]
    # Cycles for a step of K of one row of C: in one block of all columns, and in the blocks of `tiles`.
    cycles_of_row = level.cycles(mr, n * size) / mr
    if cycles_of_row > level.cycles(tiles.mr, tiles.nr * size) * ceil_quotient(n, tiles.nr) / tiles.mr:
        return None
    return replace(tiles, mr=mr, nr=n, mt=mr * ceil_quotient(tiles.mt, mr), nt=n)


def _with_batches_sharing_b(level: Level, problem: Problem, schedule: Schedule) -> Schedule:
    """Return a schedule whose workgroups pack columns of B once for a batch of tiles of few rows, with all steps of K.

    Tiles use the same columns of B if they differ only in outer dimensions that B does not have, such as the rows of
    an image in a convolution. A workgroup packs `blocks` blocks of nr columns, which stay in the second-level cache,
    and computes a tile at each of `batch` indices of these dimensions. Both numbers are halved until there are enough
    workgroups, or each has little work. Return `schedule` unchanged if no tiles use the same columns, or no block of
    columns fits the cache.

    Example:
        3 x 3 filters on an image of 56 rows of 56 pixels, 64 channels and 64 filters, f32, with AVX-512 and 1 MiB of
        L2: the 56 rows are tiles (`users`) of M = 56 pixels. K is 64, `reductions` 9. The columns of B are 2 blocks of
        32 filters, 72 KiB each, which a workgroup packs once for `batch` = 4 rows. There are 14 workgroups.
    """
    m, n, k, users = problem.m, problem.n, problem.k, problem.b_uses  # `users` tiles could use the same columns
    if not (m and n and k and problem.reductions) or problem.is_skinny_variant or users == 1 or m > schedule.mt:
        return schedule
    # The largest batch whose packed columns fit the cache. `depth` is the number of products for each sum.
    kc, all_blocks, nr = ceil_quotient(k, problem.group) * problem.group, ceil_quotient(n, schedule.nr), schedule.nr
    depth = kc * problem.reductions
    columns_bytes = 3 * level.model.l2.bytes_per_core // 4  # for packed columns; the rest is left to A and the sums
    block_bytes = problem.sum_bytes * nr * depth
    blocks = min(all_blocks, columns_bytes // block_bytes)
    batch = min(users, ceil_quotient(2 * level.tile_rows, m))
    if blocks == 0 or batch == 1:
        return schedule
    blocks, batch = _halved_for_workgroups(level, problem, blocks, all_blocks, batch, block_products=m * nr * depth)
    nt = nr * _equal_share(all_blocks, blocks)
    return replace(schedule, nt=nt, kc=kc, batch=_equal_share(users, batch))


def _halved_for_workgroups(
    level: Level, problem: Problem, blocks: int, all_blocks: int, batch: int, block_products: int
) -> tuple[int, int]:
    """Return `blocks` and `batch`, both halved until there are enough workgroups, or each has few multiplications.

    Blocks are halved first, to one, and then the batch, down to about the usual rows of a tile.

    Args:
        level: Vector registers, caches and instructions of the CPU.
        problem: The contraction, whose M and outer dimensions are static.
        blocks: Blocks of columns of a workgroup.
        all_blocks: Blocks of all columns.
        batch: Tiles of a workgroup, which share its columns.
        block_products: Multiplications of a tile with one block of columns.
    """
    users, tile_rows = problem.b_uses, problem.m or 1
    for limit in WORKGROUP_LIMITS:  # first enough workgroups for small tiles, then more for large ones
        while batch * blocks * block_products > 2 * limit.multiplications:  # twice, as for tiles of a packed B
            # `outer` counts the indices that B has, too: the tiles at different ones share no columns.
            workgroups = problem.outer // users * ceil_quotient(users, batch) * ceil_quotient(all_blocks, blocks)
            if workgroups >= limit.workgroups:
                break
            if blocks > 1:
                blocks = ceil_quotient(blocks, 2)
            elif tile_rows * batch > level.tile_rows:
                batch = ceil_quotient(batch, 2)
            else:
                break
    return blocks, batch


def _equal_share(count: int, most: int) -> int:
    """Return the size of the fewest equal parts of `count` that are at most `most` long: 3 for 9 and 4."""
    return ceil_quotient(count, ceil_quotient(count, most))


def _reads_b_in_place(level: Level, problem: Problem, minimizes_passes: bool) -> bool:
    """Return whether register blocks read B where it is stored instead of a packed copy.

    minimizes_passes: whether tiles have as few blocks of rows as possible, since each reads B from beyond the cache.
    """
    if not problem.can_read_b_in_place:
        return False
    if problem.panel_width:
        return True
    assert problem.m is not None and problem.n is not None
    if problem.is_b_transposed:
        # Reading in place has vectors along K, packing along N: few columns would leave half of such a vector unused.
        has_half_vectors = 2 * problem.n * problem.sum_bytes <= level.vector
        return problem.is_skinny or (has_half_vectors and (problem.k or 0) >= LONG_STEPS)
    tiles = _unpacked_tiles(level, problem, minimizes_passes)
    row_bytes, stride_bytes, steps = _panel_in_place(problem, tiles)
    return pays_in_place_b(level, problem.m, tiles.mr, row_bytes=row_bytes, stride_bytes=stride_bytes, steps=steps)


def _is_panel_cached(level: Level, problem: Problem) -> bool:
    """Return whether a panel of B stays in a cache when it is read in place."""
    return is_panel_cached(level, *_panel_in_place(problem, _unpacked_tiles(level, problem, minimizes_passes=False)))


def _unpacked_tiles(level: Level, problem: Problem, minimizes_passes: bool) -> Tiles:
    """Return the tiles of a row-major B that is read in place; see `TileRequest` for `minimizes_passes`."""
    request = replace(_request(problem), widens_b=problem.widens_b, minimizes_passes=minimizes_passes)
    return choose_tiles(level, request)


def _panel_in_place(problem: Problem, tiles: Tiles) -> tuple[int, int, int]:
    """Return (bytes of a row, bytes from row to row, number of rows) of a panel of B that is read in place."""
    assert problem.n is not None
    row_bytes = min(tiles.nr, problem.n) * (problem.b.element_bytes or problem.sum_bytes)
    return row_bytes, problem.b.row_stride_bytes, (problem.k or ASSUMED_STEPS) * problem.reductions


def uses_b_once(problem: Problem, tiles: Tiles) -> bool:
    """Return whether each element of B is used by one register block only: A has a single block of rows.

    This is so only for a B that is computed in the dispatch, and whose steps of K are multiplied one by one. Return
    False for a B that is readable in place or multiplied in groups of steps, and for a contraction without N.
    """
    rows = problem.max_rows or problem.m or 0
    return problem.group == 1 and not problem.b.is_readable_in_place and problem.n is not None and 0 < rows <= tiles.mr


def _tiles_of_converted_b(level: Level, problem: Problem, tiles: Tiles, vectorizes_k: bool) -> Tiles:
    """Return tiles with chunks of B that stay in the first-level cache between converting and multiplying them.

    A chunk has kc steps: of the nr columns of a block where vectors are along K, else of the nt columns of a tile,
    which is up to `CONVERTED_BLOCKS` blocks wide.
    """
    assert problem.n is not None
    chunk_elements, k = level.l1_chunk_bytes // problem.sum_bytes, problem.k
    if vectorizes_k:
        # `COMPUTED_COLUMNS` columns share each element of an A that is computed, once per tile.
        nt = tiles.nr if problem.a.is_readable_in_place else tiles.nr * ceil_quotient(COMPUTED_COLUMNS, tiles.nr)
        kc = max(CHUNK_MULTIPLE, chunk_elements // tiles.nr // CHUNK_MULTIPLE * CHUNK_MULTIPLE)
        has_several_chunks = k is None or k > 2 * kc
        return replace(tiles, nt=nt, kc=kc if has_several_chunks else max(1, k or 0))
    nt = tiles.nr * max(1, min(ceil_quotient(problem.n, tiles.nr), CONVERTED_BLOCKS))
    kc = max(4, chunk_elements // nt // 4 * 4)  # in multiples of 4 steps
    return replace(tiles, nt=nt, kc=min(kc, max(1, k or kc)))


def _tiles_along_k(level: Level, problem: Problem, kc: int) -> Tiles:
    """Return tiles for register blocks whose vectors are along K: mr rows of A times nr columns of B.

    Each of the mr * nr sums takes a vector register, whose lanes hold partial sums over K. For up to 4 rows of A, a
    block has all of them and up to 8 sums, or 16 if there are 3 or 4 rows and enough registers. For more rows it has 4
    rows, and as many columns as the registers hold: with 28 accumulators, of which 4 are left for vectors of A, (28 -
    4) / 4 = 6 columns.

    One or two rows take the time of reading B, which is shorter for a few columns at a time. In blocks of 16 sums, not
    8, on Zen 5 1x4096x4096 takes 1.44x as long, 2x4096x4096 1.05x, 3x2048x2048 0.86x, 4x4096x1024 0.79x, 4x512x4096
    0.85x.
    """
    m, n = problem.m, problem.n
    assert m is not None and n is not None
    mr = max(1, min(m, MOST_ROWS_ALONG_K))
    if m <= MOST_ROWS_ALONG_K:
        sums = 16 if mr > 2 and level.accumulators >= 16 + MOST_ROWS_ALONG_K else 8
        most_columns = sums // mr
    else:  # a register for the vector of each row of A is left beside the sums
        most_columns = (level.accumulators - MOST_ROWS_ALONG_K) // MOST_ROWS_ALONG_K
    nr = max(1, min(n, most_columns))
    # The tile of a workgroup: about `ELEMENTS_OF_B` elements of B, and at most the usual rows.
    tile_columns = max(1, min(n, ELEMENTS_OF_B // max(1, problem.k or ASSUMED_STEPS)))
    tile_rows = min(max(1, m), max(SKINNY_ROWS, level.tile_rows))
    return Tiles(mr=mr, nr=nr, mt=mr * ceil_quotient(tile_rows, mr), nt=max(nr, tile_columns // nr * nr), kc=kc)


# Legality


def refusal(level: Level, problem: Problem, schedule: Schedule) -> str | None:
    """Return the reason why a schedule that a program states is not valid for a contraction; None if it is valid.

    It must have positive sizes; tiles of whole register blocks, whose sums fit into the registers; a batch only for a
    packed B with all steps of K; chunks of whole groups of steps; operands that can be read as it states; and operands
    and sums of at most `MAX_OPERAND_BYTES`. The checks have this order.
    """
    mr, nr, mt, nt, kc, pack_a, pack_b, batch = astuple(schedule)  # mr x nr: register block, mt x nt: tile, kc: chunk
    if min(mr, nr, mt, nt, kc) < 1:
        return "sizes are at least 1"
    if mt % mr or nt % nr:
        return f"the tile of {mt}x{nt} is not a multiple of the register block of {mr}x{nr}"
    # Vector registers of the sums: one for each sum if vectors are along K, else as many for each row as its nr columns
    # fill.
    registers = mr * (nr if problem.vectorizes_k(pack_b) else ceil_quotient(nr * problem.sum_bytes, level.vector))
    if problem.matrix_steps and max(mr, nr) > MATRIX_ROWS:
        return f"matrix registers hold blocks of {MATRIX_ROWS}x{MATRIX_ROWS}, not of {mr}x{nr}"
    if not problem.matrix_steps and registers > level.registers:
        return f"the sums of a block of {mr}x{nr} take {registers} vector registers of {level.registers}"
    if batch > 1 and not (pack_b and problem.k is not None and kc >= problem.k and batch <= problem.b_uses):
        return (
            f"a batch of {batch} shares packed columns of B with all steps of K, and is at most as large as the "
            f"outer dimensions that B does not have, {problem.b_uses}"
        )
    if kc % problem.group:
        return f"{problem.group} steps of K are multiplied at once, and kc = {kc} is not a multiple of it"
    if reason := _unreadable(problem, schedule):
        return reason
    # Packed operands of a batch have all indices of the other reductions. Without a batch, reductions become loops
    # around the packing if the operands are too large (`plan._reductions`). A flag that is False counts as 0.
    steps = kc * problem.reductions if batch > 1 else kc
    largest = problem.sum_bytes * max(mt * nt, pack_a * mt * steps, pack_b * nt * steps)
    if largest > MAX_OPERAND_BYTES:
        return f"a workgroup needs {largest} bytes for an operand or its sums, the limit is {MAX_OPERAND_BYTES}"
    return None


def _unreadable(problem: Problem, schedule: Schedule) -> str | None:
    """Return the reason why operands cannot be packed or read in place as a schedule states; None if they can."""
    if not schedule.pack_a and not (problem.can_read_a_in_place and (problem.m or 0) >= schedule.mr):
        return "A cannot be read in place: it is computed, has fewer rows than a block, or an unknown number of them"
    if not schedule.pack_b and not problem.can_read_b_in_place:
        return "B cannot be read in place: it is computed, of unknown sizes, or contiguous along neither N nor K"
    if schedule.pack_b and problem.panel_width:
        return "B is stored in panels, which are read in place"
    if problem.panel_width and problem.panel_width % schedule.nr:
        return f"B is stored in panels of {problem.panel_width} columns, not in whole register blocks of {schedule.nr}"
    if not schedule.pack_b and (problem.n or 0) < schedule.nr:
        return f"B cannot be read in place: it has {problem.n} columns, fewer than a block"
    return None
