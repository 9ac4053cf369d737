"""CPU levels, and the register blocks and tiles of contractions for them.

In the terms of BLIS, mr x nr is the register block, mt is MC, nt NC and kc KC. A panel of B is kc rows by nr columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from pydispatch.compiler.target.cpu import Machine
from pydispatch.compiler.target.machine_model import MachineModel


@dataclass(frozen=True)
class Level:
    """Capabilities of a CPU level that tiles depend on, with the machine model of the CPU.

    Attributes:
        model: Caches and units of the CPU.
        vector: Bytes of a vector register.
        registers: Number of vector registers.
        accumulators: Number of vector registers that may hold sums.
        block_rows, block_vectors: Rows of the usual register block, and vectors of one of its rows.
        tile_rows, tile_row_bytes: Approximate height of the tile of a workgroup, and width in bytes.
        byte_products: Signs of the bytes that a dot-product instruction takes, a key of `arithmetic.SIGN_CHOICES` such
            as "unsigned by signed"; "" without such an instruction.
        byte_steps: Steps of K that the instruction takes.
        widens_half: Whether the CPU widens vectors of f16 and bf16.
        matrix_types: Element types that the CPU multiplies in matrix registers (AMX): "i8", "bf16".
        pairs_bf16: Whether vectors of the level's width add products of pairs of bf16 to f32 (vdpbf16ps).
    """

    model: MachineModel
    vector: int
    registers: int
    accumulators: int
    block_rows: int
    block_vectors: int
    tile_rows: int
    tile_row_bytes: int
    byte_products: str = ""
    byte_steps: int = 4
    widens_half: bool = False
    matrix_types: frozenset[str] = frozenset()
    pairs_bf16: bool = False

    @property
    def packed_bytes(self) -> int:
        """Size in bytes of a workgroup's packed operands: twice the second-level cache, since they are prefetched."""
        return 2 * self.model.l2.bytes_per_core

    @property
    def panel_bytes(self) -> int:
        """Maximum size in bytes of a panel of B that stays in the second-level cache for all rows of a tile."""
        return self.model.l2.bytes_per_core // 2

    @property
    def converted_bytes(self) -> int:
        """Size in bytes of a chunk of B that is converted before the only block of rows multiplies it.

        The chunk stays in the first-level cache, of which a third is left to A and the sums. On Zen 5 f32 times i8 of
        1x2048x2048 ran at 14 GB/s of B with a tile's whole K in the second-level cache, and at 28 in such chunks.
        """
        return 2 * self.model.l1.bytes_per_core // 3

    def cycles(self, mr: int, width: int) -> float:
        """Estimate the cycles that a block of `mr` rows of `width` bytes takes for a step of K, with operands in L1.

        The slower of the multiply-adds and the loads counts. An element of A is loaded for each row, and a row of B.
        """
        passes = ceil_quotient(self.vector, self.model.datapath)  # more than 1 for a vector wider than the datapath
        operations = ceil_quotient(width, self.vector) * passes  # on a row of the block
        return max(mr * operations / self.model.fmas, (mr + operations) / self.model.loads)


# AVX-512 has 32 registers: 14 rows of 2 vectors leave 2 for B and 2 for broadcasts. AVX2 and SSE have 16; SSE has no
# multiply-add, so it needs registers for products. riscv64 without vectors: a 16-byte vector is four registers. With
# vectors (v) elements of A are scalar operands of multiply-adds and need none.
#
# Tiles measured on an AMD EPYC (Zen 5): f32, one worker, operands in place, GFLOP/s
#   512x784x512   52x256: 263   104x128: 263   96x256: 264   52x512: 261; A packed: 247; both packed: 243
#   1024x512x512  52x256: 264   104x256: 264   208x256: 264; B packed: 246     register blocks 8x48: 256, 14x32: 260
#   1024 cubed    52x256: 248   104x256: 251   208x256: 241; B packed: 241
# Packing in chunks of K costs 4 % at 1024. Tiles of half or twice the size differ by 2 %: they depend on the level.
LEVELS = {
    "avx512f": (64, 32, 28, 14, 2, 112, 1024),
    "avx2": (32, 16, 12, 6, 2, 96, 1024),
    "avx": (32, 16, 10, 5, 2, 96, 1024),
    "x86_64": (16, 16, 8, 4, 2, 96, 1024),
    "aarch64": (16, 32, 24, 12, 2, 96, 1024),
    "zvl512b": (64, 32, 24, 12, 2, 96, 1024),
    "zvl256b": (32, 32, 24, 12, 2, 96, 1024),
    "v": (16, 32, 24, 12, 2, 96, 512),
    "riscv64": (16, 8, 6, 6, 1, 96, 512),
}
"""Feature or architecture -> (vector, registers, accumulators, block_rows, block_vectors, tile_rows, tile_row_bytes),
the fields of a `Level`. The first feature that a machine has counts."""

MATRIX_FEATURES = {"i8": ("amx-int8", "avx512vnni"), "bf16": ("amx-bf16",)}
"""Element type -> features that a CPU with matrix registers needs to multiply it."""

FEWEST_ROWS_OF_THREE_VECTORS = 8
"""Minimum height of a block with rows of three vectors: a lower one loads nearly as often as it multiplies."""

MOST_SKINNY_VECTORS = 8
"""Maximum width, in vectors, of a register block that has all rows of a skinny product."""

MOST_COMPUTED_COLUMNS = 1.08
"""Acceptable number of computed columns, as a multiple of the product's columns: the last block computes some columns
again. Blocks have three vectors, with fewer rows, only where usual ones compute more, or where B is widened."""

MIN_PACKED_STEPS = 64
"""Minimum length of a chunk, a range of K that is packed at once: each chunk loads and stores all sums again."""

ASSUMED_CUT_STEPS = 512
"""Size K, the length of the reduction, that is assumed if it is dynamic when tiles are cut for more workgroups."""

STEP_MULTIPLE = 8
"""The length of a chunk, a range of K that is packed at once, is a multiple of this, unless the chunk is all of K."""

MATRIX_ROWS = 32
"""Rows, and columns, of a block of sums in matrix registers. It fills 2 x 2 of them: each has 16 rows of 16 sums."""


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
"""`WORKGROUP_LIMITS` where each tile packs its rows of A: 32x4096x4096 in 16 tiles of 256 columns takes 7,700 us on an
Intel Xeon with 2 MiB of L2, in 32 of 128 11,700."""


def level_of(machine: Machine) -> Level:
    """Return the level of a machine: its capabilities, and the block sizes of its best vector extension in `LEVELS`.

    A machine without such an extension has the block sizes of its architecture.
    """
    name = next((name for name in LEVELS if name in machine.has), machine.arch)
    widens_half = machine.arch == "aarch64" or "f16c" in machine.has
    has_smmla = machine.arch == "aarch64" and "i8mm" in machine.has  # takes 8 steps of K; other dot products take 4
    matrix_types = frozenset(e for e, needs in MATRIX_FEATURES.items() if machine.has >= {"amx-tile", *needs})
    pairs_bf16 = name == "avx512f" and "avx512bf16" in machine.has
    return Level(
        machine.model,
        *LEVELS[name],  # the fields from `vector` to `tile_row_bytes`
        byte_products=_byte_products(machine),
        byte_steps=8 if has_smmla else 4,
        widens_half=widens_half,
        matrix_types=matrix_types,
        pairs_bf16=pairs_bf16,
    )


def _byte_products(machine: Machine) -> str:
    """Return which signs of bytes the dot products of a machine take, a key of `arithmetic.SIGN_CHOICES`; "" for none.

    Dot products of four are vpdpbusd, in vectors of the level's width, sdot and udot; those of eight are smmla, ummla
    and usmmla.
    """
    # AVX-VNNI has no vectors of 64 bytes, which the level has with AVX-512.
    if "avx512vnni" in machine.has or ("avxvnni" in machine.has and "avx512f" not in machine.has):
        return "unsigned by signed"
    if machine.arch == "aarch64" and "dotprod" in machine.has:
        return "all signs" if "i8mm" in machine.has else "equal signs"
    return ""


@dataclass(frozen=True)
class Tiles:
    """Block sizes of a contraction: the register block, the tile of a workgroup, and the chunks of K.

    Attributes:
        mr, nr: Rows and columns of the register block.
        mt, nt: Rows and columns of the tile, multiples of mr and nr.
        kc: Steps of K of a chunk: its elements of A and B are packed and multiplied before those of the next chunk.
    """

    mr: int
    nr: int
    mt: int
    nt: int
    kc: int


def ceil_quotient(a: int, b: int) -> int:
    """Return a / b, rounded up to an integer."""
    return -(-a // b)


def block_rows(level: Level, vectors: int, m: int | None, minimizes_passes: bool) -> int:
    """Return the number of rows of the register block.

    Args:
        level: The CPU.
        vectors: Vectors of a row of the block.
        m: Rows of the product; None if dynamic.
        minimizes_passes: Whether the fewest blocks of rows are best, because each reads B from beyond the cache.
            Otherwise the height is best that computes the fewest rows twice.
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

    def loads(rows: int) -> int:
        """Return the loads of all blocks for a step of K: an element for each row, and a row of B."""
        return ceil_quotient(m, rows) * (rows + 1)

    fewest_rows = max(1, most_rows * 2 // 3)  # lower blocks leave too many accumulators unused
    return min(range(most_rows, fewest_rows - 1, -1), key=loads)


def _skinny_vectors(level: Level, m: int) -> int:
    """Return the width, in vectors, of the register block of a skinny product. The block has all m rows.

    Beside the m * width vectors of sums, the block's column of A or its row of B is in registers, whichever is shorter,
    and one vector of the other: 7x512x512 with a vector more took 1.8x the time.
    """

    def fits(vectors: int) -> bool:
        """Return whether the sums, the shorter operand, and a vector of the other one fit into the registers."""
        sums = m * vectors  # vector registers; `level.accumulators` of all `level.registers` may hold sums
        return sums <= level.accumulators and sums + min(m, vectors) + 1 <= level.registers

    return next((vectors for vectors in range(MOST_SKINNY_VECTORS, 0, -1) if fits(vectors)), 1)


def _fits_three_vectors(level: Level, n: int, lanes: int, vectors: int) -> bool:
    """Return whether blocks of three vectors of `lanes` elements divide n columns, while blocks of `vectors` vectors
    compute many columns twice, and registers hold at least `FEWEST_ROWS_OF_THREE_VECTORS` rows of three vectors.

    Three vectors fill 144 columns; two of 16 lanes compute 160. 3136x24x144 takes 0.89x the time so, 512x512x144
    0.83x, 3136x64x48 0.75x (AMD EPYC Zen 4, one worker).
    """
    computed_columns = ceil_quotient(n, vectors * lanes) * vectors * lanes
    has_registers = level.accumulators // 3 >= FEWEST_ROWS_OF_THREE_VECTORS
    return has_registers and n % (3 * lanes) == 0 and computed_columns > MOST_COMPUTED_COLUMNS * n


def widening_columns(level: Level, size: int, m: int | None, n: int | None) -> int | None:
    """Return the columns, three vectors, of a register block that widens elements of B as it loads them; None if
    blocks of the usual width are faster.

    Each conversion then serves at least eight rows, and each loaded element of A three vectors: f16 of 32x784x512
    reaches 109 GFLOP/s in blocks of 8x48 and 98 in blocks of 11x32 (AMD EPYC Zen 4, one worker).

    Args:
        level: The CPU.
        size: Bytes of an accumulator.
        m, n: Rows and columns of the product; None if dynamic.
    """
    if m is None or n is None or m < FEWEST_ROWS_OF_THREE_VECTORS:
        return None
    columns = 3 * level.vector // size
    has_registers = level.accumulators // 3 >= FEWEST_ROWS_OF_THREE_VECTORS
    return columns if has_registers and ceil_quotient(n, columns) * columns <= MOST_COMPUTED_COLUMNS * n else None


def _cut(
    tiles: Tiles, m: int, n: int, outer: int, depth: int, limits: Sequence[WorkgroupLimit], cuts_columns: bool
) -> Tiles:
    """Return smaller tiles of a product of m rows and n columns, so that there are enough workgroups.

    A tile is halved, along its longer side, while it has more multiplications than the limit states, and there are
    fewer workgroups. With `cuts_columns`, its rows are only halved once it has the columns of a single block.

    Args:
        tiles: The largest tiles.
        m, n: Rows and columns of the product.
        outer: Product of the outer dimensions.
        depth: Number of multiplications for each sum.
        limits: The limits, which are applied in turn.
    """
    mr, nr, mt, nt = tiles.mr, tiles.nr, tiles.mt, tiles.nt
    for limit in limits:
        while mt * nt * depth > limit.multiplications and (mt > mr or nt > nr):
            if outer * ceil_quotient(m, mt) * ceil_quotient(n, nt) >= limit.workgroups:
                break
            if nt > nr and (cuts_columns or nt >= mt or mt <= mr):
                nt = nr * ceil_quotient(nt // nr, 2)
            else:
                mt = mr * ceil_quotient(mt // mr, 2)
    return replace(tiles, mt=mt, nt=nt)


def _balanced_tile(size: int, block: int, tile: int) -> int:
    """Return the size of tiles of whole blocks, as many as of size `tile`, that have about equally many blocks."""
    return block * ceil_quotient(ceil_quotient(size, block), ceil_quotient(size, tile))


def choose_tiles(
    level: Level,
    size: int,
    m: int | None,
    n: int | None,
    k: int | None,
    outer: int,
    reductions: int,
    pads_columns: bool = True,
    widens_b: bool = False,
    is_packed: bool = False,
    panel_width: int | None = None,
    minimizes_passes: bool = False,
    pairs_rows: bool = False,
    uses_matrices: bool = False,
    packs_a: bool = False,
    cuts_columns: bool = False,
) -> Tiles:
    """Return tiles for a contraction.

    Args:
        level: The CPU.
        size: Bytes of an element.
        m, n, k: Sizes; None if dynamic.
        outer: Product of the outer dimensions.
        reductions: Product of the reductions other than K.
        pads_columns: Whether nr is whole vectors also where n is smaller.
        widens_b: Whether register blocks widen the elements of B as they load them.
        is_packed: Whether B is packed: tiles are larger, for the packed elements to be used more often.
        panel_width: Columns of a panel of a constant B, which nr divides; None for a B in another layout.
        minimizes_passes: Whether B comes from beyond the second-level cache for each block of rows, so that the fewest
            blocks are best.
        pairs_rows: Whether an odd last row takes as many registers as two rows.
        uses_matrices: Whether sums are in matrix registers.
        packs_a: Whether each tile packs its rows of A.
        cuts_columns: Whether tiles are cut along N first, so that fewer tiles pack the same columns of B.
    """
    lanes = level.vector // size
    vectors = level.block_vectors  # in a row of the register block
    # The sums of all rows, in a block of the usual width, fill at most half of the accumulators: it may be wider.
    is_skinny = m is not None and m <= level.accumulators // (2 * vectors)
    if m is not None and is_skinny and not uses_matrices:
        register_rows = m + m % 2 if pairs_rows else m
        vectors = max(vectors, _skinny_vectors(level, max(1, register_rows)))
    if n is not None:
        vectors = min(vectors, max(1, ceil_quotient(n, lanes)))
        if not is_skinny and not uses_matrices and _fits_three_vectors(level, n, lanes, vectors):
            vectors = 3
    if widens_b and not is_skinny and (columns := widening_columns(level, size, m, n)) is not None:
        vectors = columns // lanes
    if panel_width is not None:
        panel_vectors = panel_width // lanes
        vectors = max(v for v in range(1, vectors + 1) if panel_vectors % v == 0)
    nr = vectors * lanes
    if n is not None and not pads_columns and n < nr:
        nr = max(1, n)
    if uses_matrices:
        mr = max(1, min(m or MATRIX_ROWS, MATRIX_ROWS))
    else:
        mr = block_rows(level, vectors, m, minimizes_passes)
    tile_growth = 2 if is_packed else 1
    mt = mr * max(1, level.tile_rows * tile_growth // mr)
    nt = nr * max(1, level.tile_row_bytes // size // nr)
    if m is not None:
        mt = _balanced_tile(max(m, 1), block=mr, tile=mt)
    if n is not None:
        nt = _balanced_tile(max(n, 1), block=nr, tile=nt)
    tiles = Tiles(mr, nr, mt, nt, kc=ASSUMED_CUT_STEPS if k is None else max(k, 1))
    if m is not None and n is not None:
        workgroup_limits = PACKING_WORKGROUP_LIMITS if packs_a else WORKGROUP_LIMITS
        limits = [limit._replace(multiplications=limit.multiplications * tile_growth) for limit in workgroup_limits]
        tiles = _cut(tiles, m, n, outer, tiles.kc * reductions, limits, cuts_columns)
    return replace(tiles, kc=_packed_steps(level, size * (tiles.mt + tiles.nt), k))


def _packed_steps(level: Level, step_bytes: int, k: int | None) -> int:
    """Return the steps of K of a packed chunk: all if they fit into the cache, else chunks of about equal length.

    Args:
        level: The CPU.
        step_bytes: Bytes of both operands for one step.
        k: The number of steps; None if dynamic.
    """
    steps_in_cache = max(MIN_PACKED_STEPS, level.packed_bytes // step_bytes // STEP_MULTIPLE * STEP_MULTIPLE)
    if k is None:
        return steps_in_cache
    steps = max(k, 1)
    if steps <= steps_in_cache:
        return steps
    chunks = ceil_quotient(steps, steps_in_cache)
    return ceil_quotient(ceil_quotient(steps, chunks), STEP_MULTIPLE) * STEP_MULTIPLE
