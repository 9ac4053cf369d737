"""Choice of the block sizes of a contraction: its register block, the tile of a workgroup, and the chunk of K."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from pydispatch.compiler.kernels.matmul.cpu.tiles import (
    MATRIX_ROWS,
    Level,
    Tiles,
    ceil_quotient,
    round_up,
)

FEWEST_ROWS_OF_THREE_VECTORS = 8
"""Minimum height of a block with rows of three vectors: a lower one loads nearly as often as it multiplies."""

MOST_SKINNY_VECTORS = 8
"""Maximum width, in vectors, of a register block that has all rows of a skinny product."""

MAX_COMPUTED_RATIO = 1.08
"""Acceptable ratio of the rows, or columns, that register blocks compute to those of the product. The last block
overlaps the one before it: 16 rows in two blocks of 9 are 18 computed rows, a ratio of 1.125.

If blocks of the usual size exceed the ratio, a block of another size is used that computes fewer rows or columns twice,
if there is one. Two blocks of 8 rows take 0.89 of the time of two of 9 (Zen 4)."""

MIN_PACKED_STEPS = 64
"""Minimum length of a chunk, a range of K that is packed at once: each chunk loads and stores all sums again."""

ASSUMED_CUT_STEPS = 512
"""Size K, the length of the reduction, that is assumed if it is dynamic when tiles are cut for more workgroups."""

STEP_MULTIPLE = 8
"""The length of a chunk, a range of K that is packed at once, is a multiple of this, unless the chunk is all of K:
chunks consist of whole groups of the 2, 4 or 8 adjacent steps that an instruction multiplies."""


class WorkgroupLimit(NamedTuple):
    """Limit up to which tiles are cut: until there are enough workgroups, or a tile is small enough.

    Attributes:
        workgroups: Number of workgroups that is enough.
        multiplications: Number of multiplications of a tile below which it is not cut further.
    """

    workgroups: int
    multiplications: int


WORKGROUP_LIMITS = (WorkgroupLimit(8, 1 << 20), WorkgroupLimit(64, 1 << 25))
"""Limits that are applied in turn: tiles are cut for 8 workgroups even if they are small, for 64 only large ones."""

PACKING_WORKGROUP_LIMITS = (WorkgroupLimit(8, 1 << 20), WorkgroupLimit(16, 1 << 25))
"""`WORKGROUP_LIMITS` if each tile packs its rows of A, so that more tiles take longer: 32x4096x4096 takes 7,700 us with
16 tiles of 256 columns, and 11,700 us with 32 tiles of 128 (Intel Xeon with 2 MiB of L2)."""


@dataclass(frozen=True)
class TileRequest:
    """Properties of a contraction that its block sizes are chosen for.

    `k`, `outer`, `reductions` and the last three determine only the tile of a workgroup and the chunk of K; the others
    determine the register block, too.

    Attributes:
        element_bytes: Bytes of a sum, and of a packed element unless steps of K are grouped.
        m, n, k: Rows of A, columns of B, and steps of the reduction; None if dynamic.
        outer: Product of the sizes of the outer dimensions, which index the result and are neither M nor N.
        reductions: Product of the sizes of the reduced dimensions other than K.
        pads_columns: Whether nr is rounded up to whole vectors if n is smaller.
        widens_b: Whether register blocks widen the elements of B as they load them (`widening_columns`).
        panel_width: Columns of a panel of a constant B, which nr divides; None for a B in another layout.
        minimizes_passes: Whether B comes from beyond the second-level cache for each block of rows, so that the fewest
            blocks are best.
        pairs_rows: Whether an odd last row takes as many registers as two rows (i8mm multiplies rows in pairs).
        uses_matrices: Whether sums are in matrix registers.
        is_packed: Whether B is packed: tiles are larger, for the packed elements to be used more often.
        packs_a: Whether each tile packs its rows of A.
        cuts_columns: Whether tiles are cut along N first (`_cut_for_workgroups`), so that fewer tiles pack the same
            columns of B.
    """

    element_bytes: int
    m: int | None
    n: int | None
    k: int | None
    outer: int = 1
    reductions: int = 1
    pads_columns: bool = True
    widens_b: bool = False
    panel_width: int | None = None
    minimizes_passes: bool = False
    pairs_rows: bool = False
    uses_matrices: bool = False
    is_packed: bool = False
    packs_a: bool = False
    cuts_columns: bool = False

    @property
    def growth(self) -> int:
        """Factor by which a tile may be larger than usual: 2 for a packed B, whose elements are then reused more."""
        return 2 if self.is_packed else 1


def choose_tiles(level: Level, request: TileRequest) -> Tiles:
    """Return the block sizes of a contraction: first its register block, then the tile, then the chunk of K."""
    mr, nr = _register_block(level, request)
    mt, nt = _largest_tile(level, request, mr, nr)
    all_steps = ASSUMED_CUT_STEPS if request.k is None else max(request.k, 1)
    tiles = _cut_for_workgroups(Tiles(mr, nr, mt, nt, kc=all_steps), request)
    step_bytes = request.element_bytes * (tiles.mt + tiles.nt)  # a column of A's tile, and a row of B's
    return replace(tiles, kc=_packed_steps(level, step_bytes, request.k))


def _register_block(level: Level, request: TileRequest) -> tuple[int, int]:
    """Return the rows and the columns (mr, nr) of the register block.

    Columns are whole vectors, or all `n` columns if these are fewer and `pads_columns` is False. With matrix registers,
    there are at most `MATRIX_ROWS` rows.
    """
    n = request.n
    lanes = level.vector // request.element_bytes
    vectors = _vectors_of_block_row(level, request, lanes)
    nr = vectors * lanes
    if n is not None and not request.pads_columns and n < nr:
        nr = max(1, n)
    if request.uses_matrices:
        rows = request.m or MATRIX_ROWS  # a dynamic number of rows may fill the registers
        return max(1, min(rows, MATRIX_ROWS)), nr
    return block_rows(level, vectors, request.m, request.minimizes_passes), nr


def _vectors_of_block_row(level: Level, request: TileRequest, lanes: int) -> int:
    """Return the width of the register block in vectors, each of `lanes` elements.

    The width is `level.block_vectors`, 2 on most levels, unless the product has few rows, few columns, or columns that
    three vectors divide; unless blocks widen elements of B; or unless B is stored in panels, whose ends blocks must not
    cross.

    Example:
        With AVX-512 and f32, `lanes` is 16. 1,000 rows and columns have blocks of 2 vectors; 3 rows and 512 columns 8;
        3 rows and 20 columns 2, which have all columns; 512 rows and 144 columns 3, since blocks of 2 vectors would
        compute 160 columns. In panels of 32 columns, a block that may have 8 vectors has 2.
    """
    m, n = request.m, request.n
    vectors = level.block_vectors
    # Few rows: in a block of the usual width, their sums fill at most half of the accumulators, so it may be wider.
    is_skinny = m is not None and m <= level.accumulators // (2 * vectors)
    if m is not None and is_skinny and not request.uses_matrices:
        register_rows = m + m % 2 if request.pairs_rows else m  # an odd last row takes the registers of two
        vectors = max(vectors, _skinny_vectors(level, max(1, register_rows)))
    if n is not None:
        vectors = min(vectors, max(1, ceil_quotient(n, lanes)))
        if not is_skinny and not request.uses_matrices and _fits_three_vectors(level, n, lanes, vectors):
            vectors = 3
    widening = widening_columns(level, request.element_bytes, m, n) if request.widens_b and not is_skinny else None
    if widening is not None:
        vectors = widening // lanes
    if request.panel_width is None:
        return vectors
    panel_vectors = request.panel_width // lanes
    return max(v for v in range(1, vectors + 1) if panel_vectors % v == 0)


def _largest_tile(level: Level, request: TileRequest, mr: int, nr: int) -> tuple[int, int]:
    """Return the rows and the columns (mt, nt) of a tile of the usual size on this level, in blocks of mr x nr.

    Where a size is known, all tiles along its dimension have about equally many blocks.
    """
    mt = mr * max(1, level.tile_rows * request.growth // mr)
    nt = nr * max(1, level.tile_row_bytes // request.element_bytes // nr)
    if request.m is not None:
        mt = _balanced_tile(max(request.m, 1), block=mr, tile=mt)
    if request.n is not None:
        nt = _balanced_tile(max(request.n, 1), block=nr, tile=nt)
    return mt, nt


def _cut_for_workgroups(tiles: Tiles, request: TileRequest) -> Tiles:
    """Return `tiles`, cut until there are enough workgroups; unchanged if M or N is dynamic.

    A limit states numbers of multiplications and of workgroups. While a tile has more multiplications than that and
    there are fewer workgroups, the tile is halved along its longer side. With `cuts_columns`, it is halved along its
    columns first, down to those of one register block. The limits are applied in turn: later ones cut only larger
    tiles, for more workgroups. For a packed B, the limits of multiplications are twice as high (`growth`).

    Example:
        A tile of all 112x128 sums with 1,024 steps, in register blocks of 14x32, is cut to 112x64, 56x64 and 56x32:
        8 workgroups are enough for the first limit, and the second one cuts only tiles of over 2^25 multiplications.
    """
    m, n = request.m, request.n
    if m is None or n is None:
        return tiles
    depth = tiles.kc * request.reductions  # multiplications for each sum
    for limit in PACKING_WORKGROUP_LIMITS if request.packs_a else WORKGROUP_LIMITS:
        while tiles.mt > tiles.mr or tiles.nt > tiles.nr:
            workgroups = request.outer * ceil_quotient(m, tiles.mt) * ceil_quotient(n, tiles.nt)
            is_small = tiles.mt * tiles.nt * depth <= limit.multiplications * request.growth
            if is_small or workgroups >= limit.workgroups:
                break
            tiles = _halved(tiles, prefers_columns=request.cuts_columns or tiles.nt >= tiles.mt)
    return tiles


def _halved(tiles: Tiles, prefers_columns: bool) -> Tiles:
    """Return tiles of half the register blocks, rounded up, along N or M: along the other if one has a single block."""
    has_one_block_of_rows = tiles.mt <= tiles.mr
    if tiles.nt > tiles.nr and (prefers_columns or has_one_block_of_rows):
        return replace(tiles, nt=tiles.nr * ceil_quotient(tiles.nt // tiles.nr, 2))
    return replace(tiles, mt=tiles.mr * ceil_quotient(tiles.mt // tiles.mr, 2))


def block_rows(level: Level, vectors: int, m: int | None, minimizes_passes: bool) -> int:
    """Return the number of rows of the register block: all m rows if registers hold their sums, else a part of them.

    Args:
        level: Vector registers, caches and instructions of the CPU.
        vectors: Vectors of a row of the block.
        m: Rows of the product; None if dynamic.
        minimizes_passes: Whether to minimize the number of blocks, and then their height, because each block of rows
            reads B from beyond the cache.
    """
    additional_rows = 2 if vectors == 1 else 0  # a block of one vector leaves registers free
    most_rows = min(level.block_rows + additional_rows, level.accumulators // vectors)
    if m is None:
        return most_rows
    if m <= most_rows:
        return max(1, m)
    if minimizes_passes:
        fewest_blocks = ceil_quotient(m, most_rows)
        return ceil_quotient(m, fewest_blocks)
    return _height_with_fewest_loads(m, most_rows)


def _height_with_fewest_loads(m: int, most_rows: int) -> int:
    """Return the height, up to `most_rows`, of the register blocks that load the fewest elements for m rows.

    If the last block then computes many rows that the block before it computes, too, the height is the one with which
    blocks compute the fewest rows twice.

    Example:
        With AVX-512, blocks of two vectors have at most 14 rows. 100 rows are ten blocks of 10, which load 10 * (10 +
        1) times for each step of K; eight blocks of 14 would load 8 * (14 + 1) times. 16 rows are two blocks of 8,
        since two of 9 would compute 18 rows.
    """
    # From two thirds of the greatest height: lower blocks leave many accumulators unused.
    lowest = max(1, most_rows * 2 // 3)
    best = min(range(most_rows, lowest - 1, -1), key=partial(loads_of_step, m))
    if round_up(m, best) <= MAX_COMPUTED_RATIO * m:
        return best
    # The best one computes many rows twice. A lower block, from half of the greatest height, may compute fewer.
    lower_heights = range(lowest - 1, most_rows // 2, -1)
    return min([best, *lower_heights], key=partial(round_up, m))


def loads_of_step(m: int, height: int) -> int:
    """Return the loads of all register blocks for a step of K: an element of A for each row, and a row of B each."""
    return ceil_quotient(m, height) * (height + 1)


def _skinny_vectors(level: Level, m: int) -> int:
    """Return the width, in vectors, of the register block of a skinny product. The block has all m rows.

    Registers hold m * width vectors of sums. For a step of K, a block multiplies m elements of A, each in a register,
    by `width` vectors of B. The fewer ones of these are all in registers, besides one of the others. In a block that is
    a vector too wide for the registers, 7x512x512 took 1.8 times as long.
    """

    def fits(vectors: int) -> bool:
        """Return whether the sums, the shorter operand, and a vector of the other one fit into the registers."""
        sums = m * vectors  # registers that hold sums
        return sums <= level.accumulators and sums + min(m, vectors) + 1 <= level.registers

    return next((vectors for vectors in range(MOST_SKINNY_VECTORS, 0, -1) if fits(vectors)), 1)


def _fits_three_vectors(level: Level, n: int, lanes: int, vectors: int) -> bool:
    """Return whether n columns are computed in blocks of three vectors of `lanes` elements, not of `vectors` vectors.

    Three vectors are used if three conditions hold: n is a multiple of three vectors, the other blocks would compute
    many columns twice, and registers hold at least `FEWEST_ROWS_OF_THREE_VECTORS` rows of three vectors.

    144 columns are three blocks of three vectors with 16 lanes; blocks of two vectors would compute 160 columns. With
    three, 3136x24x144 takes 0.89 of the time, 512x512x144 0.83, 3136x64x48 0.75 (AMD EPYC Zen 4, one worker).
    """
    computed_columns = round_up(n, vectors * lanes)
    computes_many_twice = computed_columns > MAX_COMPUTED_RATIO * n
    has_registers = level.accumulators // 3 >= FEWEST_ROWS_OF_THREE_VECTORS
    return has_registers and computes_many_twice and n % (3 * lanes) == 0


def widening_columns(level: Level, sum_bytes: int, m: int | None, n: int | None) -> int | None:
    """Return the columns of a register block of three vectors for a B that is widened as the block loads it.

    Return None if blocks of the usual width are faster.

    In a block of three vectors, each conversion serves at least eight rows, and each loaded element of A three vectors:
    f16 of 32x784x512 reaches 109 GFLOP/s in blocks of 8x48 and 98 in blocks of 11x32 (AMD EPYC Zen 4, one worker).

    Args:
        level: Vector registers, caches and instructions of the CPU.
        sum_bytes: Bytes of an accumulator.
        m, n: Rows and columns of the product; None if dynamic.
    """
    if m is None or n is None or m < FEWEST_ROWS_OF_THREE_VECTORS:
        return None
    columns = 3 * level.vector // sum_bytes
    computed_columns = round_up(n, columns)  # the last block computes some of them again
    has_registers = level.accumulators // 3 >= FEWEST_ROWS_OF_THREE_VECTORS
    return columns if has_registers and computed_columns <= MAX_COMPUTED_RATIO * n else None


def _balanced_tile(size: int, block: int, tile: int) -> int:
    """Return the size, at most about `tile`, of tiles that have about equally many whole blocks.

    There are as many tiles as with the size `tile`: 160 rows in blocks of 14 are 12 blocks, and become two tiles of 84
    rows, instead of one of 112 and one of 48.
    """
    blocks, tiles = ceil_quotient(size, block), ceil_quotient(size, tile)
    return block * ceil_quotient(blocks, tiles)


def _packed_steps(level: Level, step_bytes: int, k: int | None) -> int:
    """Return the steps of K of a packed chunk: all if they fit into the cache, else chunks of about equal length.

    A step has `step_bytes` bytes of both operands.
    """
    steps_in_cache = max(MIN_PACKED_STEPS, level.packed_bytes // step_bytes // STEP_MULTIPLE * STEP_MULTIPLE)
    if k is None:
        return steps_in_cache
    steps = max(k, 1)
    if steps <= steps_in_cache:
        return steps
    chunks = ceil_quotient(steps, steps_in_cache)
    steps_of_chunk = ceil_quotient(steps, chunks)
    return round_up(steps_of_chunk, STEP_MULTIPLE)
