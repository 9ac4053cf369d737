"""The schedule of a contraction whose dispatch function states none: its tiles, and which operands are packed."""

from __future__ import annotations

from dataclasses import replace

from pydispatch.compiler.kernels.matmul.cpu.packed_batches import with_batches_sharing_b
from pydispatch.compiler.kernels.matmul.cpu.problem import (
    FEW_PASSES,
    SKINNY_ROWS,
    PanelInPlace,
    Problem,
    is_panel_cached,
    pays_in_place_a,
    pays_in_place_b,
    prefetch_distance,
    reads_a_in_place,
)
from pydispatch.compiler.kernels.matmul.cpu.schedule import Schedule
from pydispatch.compiler.kernels.matmul.cpu.streaming import streaming_tiles, streams_b
from pydispatch.compiler.kernels.matmul.cpu.tile_choice import TileRequest, choose_tiles
from pydispatch.compiler.kernels.matmul.cpu.tiles import (
    MATRIX_ROWS,
    Level,
    Tiles,
    ceil_quotient,
    round_up,
)

ASSUMED_STEPS = 1024
"""Size K, the length of the reduction, that is assumed where it is dynamic."""

MOST_ROWS_ALONG_K = 4
"""Maximum height of a register block whose vectors are along K. Each of its sums takes a vector register, so that more
rows leave registers for fewer columns."""

TILE_ELEMENTS_OF_B = 1 << 16
"""Approximate number of elements of B that a tile reads, if vectors are along K: its columns, at all indices of K."""

CONVERTED_BLOCKS = 4
"""Maximum width of a tile, in register blocks, where tiles convert B. With 4 blocks, 4x4096x4096 takes 1,175 us and
1x4096x4096 721 us; with 2 blocks 1,210 and 769. Tiles of 16 blocks are too few for several workers."""

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


def default_schedule(level: Level, problem: Problem) -> Schedule:
    """Return the schedule of a contraction whose dispatch function states none.

    B is read in the first of these ways that applies:

    - packed once for a batch of tiles, for a convolution whose filter would leave the cache between rows of the image,
    - streamed: in place, a few whole rows at a time,
    - in place, by the columns of a register block,
    - packed for each tile.
    """
    is_row_major_b = problem.can_read_b_in_place and not problem.panel_width and not problem.is_b_transposed
    minimizes_passes = is_row_major_b and not _is_panel_cached(level, problem)  # each pass reads B from memory again
    if is_row_major_b and _evicts_b_between_uses(level, problem):
        batched = _unstreamed_schedule(level, problem, pack_b=True, minimizes_passes=False)
        if batched.batch > FEW_PASSES:  # packing takes about as long as one use of B, and pays for several
            return batched
    if streams_b(level, problem):
        unstreamed = _tiles(level, problem, pack_b=False, minimizes_passes=minimizes_passes)
        tiles = streaming_tiles(level, problem, unstreamed)
        return _schedule_of(problem, tiles, pack_a=not problem.can_read_a_in_place, pack_b=False)
    pack_b = not _reads_b_in_place(level, problem, minimizes_passes)
    return _unstreamed_schedule(level, problem, pack_b, minimizes_passes=minimizes_passes and not pack_b)


def _unstreamed_schedule(level: Level, problem: Problem, pack_b: bool, minimizes_passes: bool) -> Schedule:
    """Return the default schedule for a B that is packed, or read in place by the columns of a register block.

    minimizes_passes: whether tiles have as few register blocks along M as possible, since each of these blocks reads B
        from beyond the cache.
    """
    tiles = _tiles(level, problem, pack_b, minimizes_passes)
    pack_a = not reads_a_in_place(level, problem, tiles)
    tiles = _with_unsplit_rows_and_steps(level, problem, tiles, reads_both_in_place=not pack_a and not pack_b)
    schedule = _schedule_of(problem, tiles, pack_a, pack_b)
    # Tiles can share packed columns of B only if the copy is in panels, not if it is contiguous along K.
    has_packed_panels = pack_b and not problem.vectorizes_k(pack_b)
    return with_batches_sharing_b(level, problem, schedule) if has_packed_panels else schedule


def _schedule_of(problem: Problem, tiles: Tiles, pack_a: bool, pack_b: bool) -> Schedule:
    """Return a schedule without batches; its chunks of K are rounded up to the steps of whole instructions."""
    steps_of_instruction = problem.group * max(1, problem.matrix_steps)
    kc = round_up(tiles.kc, steps_of_instruction)
    return Schedule(tiles.mr, tiles.nr, tiles.mt, tiles.nt, kc, pack_a, pack_b)


def _evicts_b_between_uses(level: Level, problem: Problem) -> bool:
    """Return whether the rows of an image wait for B, the filter of a convolution, to be read from memory again.

    The rows wait if B leaves the second-level cache between two rows, and memory is estimated to deliver it more slowly
    than register blocks multiply it.

    Times in us of filters of 3x3, in place / packed once for all rows (Intel Xeon with 2 MiB of L2): on 14x14x256
    3,780 / 1,980; on 28x28x256 with stride 2 4,260 / 2,270.
    """
    # A convolution reduces over the rows and columns of the filter, besides K, and uses it for each row of the image.
    is_convolution = problem.reductions > 1 and problem.b_uses > 1
    if not problem.m or not is_convolution:
        return False
    mr, row_bytes = min(problem.m, level.block_rows), level.block_vectors * level.vector  # of the usual register block
    is_late = prefetch_distance(level, mr, row_bytes) > 0  # 0 if memory delivers B in time without prefetches
    filter_bytes = problem.b_compact_bytes * problem.reductions
    return is_late and 2 * filter_bytes > level.model.l2.bytes_per_core


def _with_unsplit_rows_and_steps(level: Level, problem: Problem, tiles: Tiles, reads_both_in_place: bool) -> Tiles:
    """Return `tiles` with all rows in one tile, and all steps of K in one chunk, where dividing them does not pay.

    A skinny variant (a kernel for a range of few rows) has all its rows in one tile. All steps of K are one chunk if
    both factors are read in place, and a panel of B stays in the cache or is used once.
    """
    tile_rows, steps = tiles.mt, tiles.kc
    if problem.is_skinny_variant and problem.max_rows is not None:
        tile_rows = round_up(problem.max_rows, tiles.mr)  # whole register blocks
    if reads_both_in_place and problem.k is not None:
        is_panel_cached = problem.k * tiles.nr * problem.sum_bytes <= level.panel_bytes
        assert problem.m is not None  # an A that is read in place has a known number of rows
        is_panel_used_once = problem.m <= tiles.mr
        if is_panel_cached or is_panel_used_once:
            steps = max(1, problem.k)
    return replace(tiles, mt=tile_rows, kc=steps)


def _tiles(level: Level, problem: Problem, pack_b: bool, minimizes_passes: bool) -> Tiles:
    """Return the tiles of the default schedule for a B that is packed or read in place by the columns of a block.

    `Tiles` are the register block mr x nr, the tile mt x nt of a workgroup, and kc, the steps of K of a chunk. Four
    cases have tiles of their own, in this order: vectors along K, a packed B that is used once, a B in place with fewer
    columns than a block, and a packed B with very few columns. `minimizes_passes` states that the fewest blocks of rows
    are best, because each reads B from beyond the cache.
    """
    # `plain_request` has the defaults for how operands are read, `request` what differs for this B.
    plain_request = replace(_request(problem), m=_requested_rows(problem), minimizes_passes=minimizes_passes)
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
    # For a B that is computed in the dispatch, and used by a single block of rows: chunks that stay in the L1 cache.
    if pack_b and (vectorizes_k or uses_b_once(problem, tiles)):
        return _tiles_of_converted_b(level, problem, tiles, vectorizes_k)
    # For a row-major B in place that is narrower than a block: a block with exactly its columns (`pads_columns` would
    # round them up to whole vectors), so that no read exceeds a row.
    is_row_major_in_place = not pack_b and not vectorizes_k and not problem.panel_width
    if is_row_major_in_place and problem.n is not None and problem.n < tiles.nr:
        return choose_tiles(level, replace(plain_request, pads_columns=False))
    return _with_short_vectors(level, problem, tiles) if pack_b else tiles


def _requested_rows(problem: Problem) -> int | None:
    """Return the number of rows that register blocks are chosen for; None if M is dynamic.

    With matrix registers, a kernel for a range of few rows has blocks of 16 rows, those of one register, instead of 32.
    """
    is_below_matrix_block = problem.is_skinny_variant and problem.matrix_steps > 0
    return MATRIX_ROWS // 2 if is_below_matrix_block else problem.m


def _with_short_vectors(level: Level, problem: Problem, tiles: Tiles) -> Tiles:
    """Return `tiles` with blocks of a shorter vector if the columns of a packed B fill at most half of a vector.

    The shorter vector takes fewer cycles. Its number of columns is the next power of two, such as 4 for n = 3, and at
    least that of the shortest vector.
    """
    n, size = problem.n, problem.sum_bytes
    if problem.group > 1 or n is None or not 0 < 2 * n * size <= level.vector:
        return tiles
    next_power_of_two = 1 << (n - 1).bit_length()
    width = max(SHORTEST_VECTOR_BYTES // size, next_power_of_two)
    return replace(tiles, nr=width, nt=width)


def _tiles_for_a(level: Level, problem: Problem, pack_b: bool, request: TileRequest) -> Tiles:
    """Return the tiles for a request, which are chosen again for the way in which blocks of these tiles read A.

    Whether reading A in place pays depends on the tiles. So tiles are chosen first, and then perhaps again, with a flag
    in the request. If each tile packs its rows of A, `packs_a` requests fewer tiles. If A is read in place and B is
    packed (`pack_b`), `cuts_columns` divides the result along N first, so that fewer tiles pack the same columns of B.
    """
    tiles = choose_tiles(level, replace(request, is_packed=pack_b))
    has_b_in_place_along_n = not pack_b and not problem.vectorizes_k(pack_b)
    if has_b_in_place_along_n:
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

    The cache lines of so few rows stay in the first-level cache (`pays_in_place_a`). Each element of A is read by one
    block, so that packing would not pay. Return None in these cases: the blocks of `tiles` are low enough for reading A
    in place, no block can have all columns, or such blocks are slower than those of `tiles`.

    64x16384x64, with rows of A that are 64 KiB apart, takes 1,169 us in blocks of 5x64, and 1,291 us in blocks of 13x32
    with A packed (AMD EPYC Zen 4).
    """
    m, n, size, stride_bytes = problem.m, problem.n, problem.sum_bytes, problem.a.row_stride_bytes
    if not problem.can_read_a_in_place or not m or not n:
        return None
    has_whole_vectors = n * size % level.vector == 0
    if problem.panel_width or not has_whole_vectors:  # no block can have all columns
        return None
    if pays_in_place_a(level, tiles.mr, stride_bytes):
        return None
    # The highest such block. Its sums take rows * `vectors` registers, and a row of B another `vectors`.
    vectors = n * size // level.vector  # in a row of the block
    most_rows = min(m, (level.accumulators - vectors) // vectors)
    mr = max((rows for rows in range(1, most_rows + 1) if pays_in_place_a(level, rows, stride_bytes)), default=0)
    if mr == 0:
        return None
    # Cycles for a step of K of one row of C: in one block of all columns, and in the blocks of `tiles`.
    cycles_of_row = level.cycles(mr, n * size) / mr
    cycles_of_row_in_tiles = level.cycles(tiles.mr, tiles.nr * size) * ceil_quotient(n, tiles.nr) / tiles.mr
    if cycles_of_row > cycles_of_row_in_tiles:
        return None
    return replace(tiles, mr=mr, nr=n, mt=round_up(tiles.mt, mr), nt=n)


def _reads_b_in_place(level: Level, problem: Problem, minimizes_passes: bool) -> bool:
    """Return whether register blocks read B where it is stored instead of a packed copy.

    minimizes_passes: whether tiles have as few blocks of rows as possible, since each reads B from beyond the cache.
    """
    if not problem.can_read_b_in_place:
        return False
    if problem.panel_width:  # panels have the order of a packed copy already
        return True
    assert problem.m is not None and problem.n is not None
    if problem.is_b_transposed:
        # In place, vectors are along K, and in a packed copy along N: few columns would leave half of these unused.
        has_half_vectors = 2 * problem.n * problem.sum_bytes <= level.vector
        return problem.is_skinny or (has_half_vectors and (problem.k or 0) >= LONG_STEPS)
    # A row-major B.
    tiles = _unpacked_tiles(level, problem, minimizes_passes)
    return pays_in_place_b(level, problem.m, tiles.mr, _panel_in_place(problem, tiles))


def _is_panel_cached(level: Level, problem: Problem) -> bool:
    """Return whether a panel of B stays in a cache when it is read in place."""
    tiles = _unpacked_tiles(level, problem, minimizes_passes=False)  # passes over B matter only if it is not cached
    return is_panel_cached(level, _panel_in_place(problem, tiles))


def _unpacked_tiles(level: Level, problem: Problem, minimizes_passes: bool) -> Tiles:
    """Return the tiles of a row-major B that is read in place by the columns of a register block.

    minimizes_passes: whether the fewest blocks of rows are best, because each reads B from beyond the cache.
    """
    request = replace(_request(problem), widens_b=problem.widens_b, minimizes_passes=minimizes_passes)
    return choose_tiles(level, request)


def _panel_in_place(problem: Problem, tiles: Tiles) -> PanelInPlace:
    """Return the panel of B that a register block reads in place."""
    assert problem.n is not None
    row_bytes = min(tiles.nr, problem.n) * (problem.b.element_bytes or problem.sum_bytes)
    steps = (problem.k or ASSUMED_STEPS) * problem.reductions
    return PanelInPlace(row_bytes, problem.b.row_stride_bytes, steps)


def uses_b_once(problem: Problem, tiles: Tiles) -> bool:
    """Return whether B is computed in the dispatch, and each element is used by one register block only.

    A must have a single block of rows, so that no second block uses the same elements. Return False for a B that is
    readable in place or multiplied in groups of steps of K, and for a dynamic N.
    """
    rows = problem.max_rows or problem.m or 0  # 0: dynamic, or no rows
    is_computed = not problem.b.is_readable_in_place
    has_one_block_of_rows = 0 < rows <= tiles.mr
    return is_computed and has_one_block_of_rows and problem.group == 1 and problem.n is not None


def _tiles_of_converted_b(level: Level, problem: Problem, tiles: Tiles, vectorizes_k: bool) -> Tiles:
    """Return tiles with chunks of B that stay in the first-level cache between converting and multiplying them.

    A chunk has kc steps of K. With vectors along K, it has the nr columns of a register block. Otherwise it has the nt
    columns of a tile, which is up to `CONVERTED_BLOCKS` register blocks wide.
    """
    assert problem.n is not None
    chunk_elements = level.l1_chunk_bytes // problem.sum_bytes
    if vectorizes_k:
        # Each tile computes its elements of A, if they are computed, for `COMPUTED_COLUMNS` columns.
        nt = tiles.nr if problem.a.is_readable_in_place else round_up(COMPUTED_COLUMNS, tiles.nr)
        kc = max(CHUNK_MULTIPLE, chunk_elements // tiles.nr // CHUNK_MULTIPLE * CHUNK_MULTIPLE)
        if problem.k is not None and problem.k <= 2 * kc:  # too few steps for several chunks
            kc = max(1, problem.k)
        return replace(tiles, nt=nt, kc=kc)
    nt = tiles.nr * max(1, min(ceil_quotient(problem.n, tiles.nr), CONVERTED_BLOCKS))
    kc = max(4, chunk_elements // nt // 4 * 4)  # a multiple of 4 steps, at least 4
    return replace(tiles, nt=nt, kc=min(kc, problem.k) if problem.k else kc)


def _tiles_along_k(level: Level, problem: Problem, kc: int) -> Tiles:
    """Return tiles for register blocks whose vectors are along K: mr rows of A times nr columns of B.

    Each of the mr * nr sums takes a vector register, whose lanes hold partial sums over K. Up to 4 rows of A are all in
    one block, which has up to 8 sums, or 16 if there are 3 or 4 rows and enough registers. For more rows, a block has 4
    rows and as many columns as the registers hold: with 28 accumulators, of which 4 are left for vectors of A, it has
    (28 - 4) / 4 = 6 columns.

    Products of one or two rows of A take the time of reading B, which is shorter for few columns at a time: they have
    blocks of 8 sums. Time in blocks of 16 sums as a multiple of that in blocks of 8 (Zen 5): 1x4096x4096 1.44,
    2x4096x4096 1.05, 3x2048x2048 0.86, 4x4096x1024 0.79, 4x512x4096 0.85.
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
    # The tile of a workgroup: about `TILE_ELEMENTS_OF_B` elements of B, and at most the usual rows.
    tile_columns = max(1, min(n, TILE_ELEMENTS_OF_B // max(1, problem.k or ASSUMED_STEPS)))
    tile_rows = min(max(1, m), max(SKINNY_ROWS, level.tile_rows))
    return Tiles(mr=mr, nr=nr, mt=round_up(tile_rows, mr), nt=max(nr, tile_columns // nr * nr), kc=kc)
