"""Register blocks, tiles and cache blocks of contractions, by CPU level."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

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
        rows, vectors: Size of the largest register block.
        height, width: Rows, and bytes of columns, of the tile of a workgroup.
        bytes: Signedness of the bytes that a dot-product instruction takes; "" without such an instruction.
        byte_steps: Steps of K that the instruction takes.
        halves: Whether the CPU widens vectors of f16 and bf16.
        matrices: Element types that the CPU multiplies in matrix registers (AMX): "i8", "bf16".
    """

    model: MachineModel
    vector: int
    registers: int
    accumulators: int
    rows: int
    vectors: int
    height: int
    width: int
    bytes: str = ""
    byte_steps: int = 4
    halves: bool = False
    matrices: frozenset[str] = frozenset()

    @property
    def room(self) -> int:
        """Bytes of packed operands of a workgroup: twice the second-level cache, as they are prefetched."""
        return 2 * self.model.l2.share

    @property
    def panel(self) -> int:
        """Bytes of a panel of B, K steps long, that stays in the second-level cache while the rows of a tile pass."""
        return self.model.l2.share // 2

    @property
    def near(self) -> int:
        """Bytes of B that are converted before one block of rows, all there are, multiplies them: they stay in the
        first cache. On Zen 5 f32 times i8 of 1x2048x2048 ran at 14 GB/s of B with a tile's whole K in the second one,
        and at 28 in these parts."""
        return 2 * self.model.l1.share // 3

    def cycles(self, mr: int, width: int) -> float:
        """Cycles of a step of K for a block of mr rows of `width` bytes, when its operands are in the first cache."""
        vectors, parts = ceil(width, self.vector), ceil(self.vector, self.model.datapath)
        return max(mr * vectors * parts / self.model.fmas, (mr + vectors * parts) / self.model.loads)


# AVX-512 has 32 registers: 14 rows of 2 vectors leave 2 for B and 2 for broadcasts. AVX2 and SSE have 16; SSE has no
# multiply-add, so it needs registers for products. riscv64 without vectors: a 16-byte vector is four registers. With
# vectors (v) elements of A are scalar operands of multiply-adds and need none.
#
# Tiles measured on an AMD EPYC (Zen 5): f32, one worker, operands in place, GFLOP/s
#   512x784x512   52x256: 263   104x128: 263   96x256: 264   52x512: 261; A packed: 247; both packed: 243
#   1024x512x512  52x256: 264   104x256: 264   208x256: 264; B packed: 246     register blocks 8x48: 256, 14x32: 260
#   1024 cubed    52x256: 248   104x256: 251   208x256: 241; B packed: 241
# Packing in parts of K costs 4 % at 1024. Tiles of half or twice the size differ by 2 %: they depend on the level.
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

MATRICES = {"i8": ("amx-int8", "avx512vnni"), "bf16": ("amx-bf16",)}
"""Element -> what a CPU with matrix registers needs to multiply it."""

MATRIX_ROWS = 32
"""Of a block of sums in matrix registers: two times two registers of 16 rows of 64 bytes."""

GROUPS = ((8, 1 << 20), (64, 1 << 25))
"""(workgroups, multiplications): tiles are cut until there are so many or one has no more than so much to do."""

PACKING_GROUPS = ((8, 1 << 20), (16, 1 << 25))
"""The same where each tile packs its rows of A: 32x4096x4096 in 16 tiles of 256 columns takes 7,700 us on an Intel Xeon
with 2 MiB of L2, in 32 of 128 11,700."""


def level_of(machine: Machine) -> Level:
    """Return the level of a machine, with its model."""
    name = next((name for name in LEVELS if name in machine.has), machine.arch)
    halves = machine.arch == "aarch64" or "f16c" in machine.has
    steps = 8 if machine.arch == "aarch64" and "i8mm" in machine.has else 4
    matrices = frozenset(e for e, needs in MATRICES.items() if machine.has >= {"amx-tile", *needs})
    return Level(machine.model, *LEVELS[name], _byte_products(machine), steps, halves, matrices)


def _byte_products(machine: Machine) -> str:
    """Return which bytes the machine multiplies and adds up by four: vpdpbusd in vectors of the level's width, sdot and
    udot; by eight: smmla, ummla and usmmla.
    """
    if "avx512vnni" in machine.has or ("avxvnni" in machine.has and "avx512f" not in machine.has):
        return "unsigned by signed"
    if machine.arch == "aarch64" and "dotprod" in machine.has:
        return "all signs" if "i8mm" in machine.has else "equal signs"
    return ""


@dataclass(frozen=True)
class Tiles:
    """mr x nr: the register block; mt x nt: the tile of a workgroup, whole blocks; kc: steps of K that are packed."""

    mr: int
    nr: int
    mt: int
    nt: int
    kc: int


def ceil(lhs: int, rhs: int) -> int:
    return -(-lhs // rhs)


def _rows(level: Level, vectors: int, m: int | None, few_passes: bool) -> int:
    """Return the number of rows of the register block: of the heights that fill the registers the one that leaves the
    least over, or that is enough for the fewest passes over B.
    """
    most = min(level.rows + (vectors == 1) * 2, level.accumulators // vectors)
    if m is None:
        return most
    if m <= most:
        return max(1, m)
    if few_passes:
        return ceil(m, ceil(m, most))
    return min(range(most, max(1, most * 2 // 3) - 1, -1), key=lambda rows: ceil(m, rows) * (rows + 1))


def _vectors(level: Level, m: int) -> int:
    """Vectors of the rows of a block that has all m rows. Beside the sums, its column of A or its row of B is in
    registers, whichever is shorter, and one of the other: 7x512x512 with a vector more took 1.8x the time."""
    fit = (v for v in range(8, 0, -1) if m * v <= level.accumulators and m * v + min(m, v) < level.registers)
    return next(fit, 1)


def choose(
    level: Level, size: int, m: int | None, n: int | None, k: int | None, outer: int, reductions: int,
    padded: bool = True, packed: bool = False, panel: int | None = None, few_passes: bool = False,
    even: bool = False, matrices: bool = False, packs_a: bool = False,
) -> Tiles:  # fmt: skip
    """Return tiles for elements of `size` bytes.

    m, n, k: the sizes, None when not known while compiling; outer: the product of the outer dimensions; reductions: of
    the other reductions; padded: nr is whole vectors also where n is smaller; packed: tiles are larger, for what is
    packed to be used more often; panel: columns of B lie so many side by side, and nr divides it; few_passes: B comes
    from beyond the second-level cache for each block of rows, of which there are as few as can be; even: an odd last
    row takes as many registers as two; matrices: sums are in matrix registers; packs_a: each tile packs A for itself.
    """
    lanes = level.vector // size
    vectors = level.vectors
    if not matrices and m is not None and m <= level.accumulators // (2 * vectors):  # few rows: longer ones
        vectors = max(vectors, _vectors(level, max(1, m + m % 2 if even else m)))
    if n is not None:
        vectors = min(vectors, max(1, ceil(n, lanes)))
    if panel is not None:
        vectors = gcd(panel // lanes, 1 << (vectors.bit_length() - 1))
    nr = vectors * lanes
    if n is not None and not padded and n < nr:
        nr = max(1, n)
    mr = max(1, min(m or MATRIX_ROWS, MATRIX_ROWS)) if matrices else _rows(level, vectors, m, few_passes)
    mt = mr * max(1, level.height * (1 + packed) // mr)
    nt = nr * max(1, level.width // size // nr)
    if m is not None:
        mt = mr * ceil(ceil(max(m, 1), mr), ceil(max(m, 1), mt))
    if n is not None:
        nt = nr * ceil(ceil(max(n, 1), nr), ceil(max(n, 1), nt))
    depth = (512 if k is None else max(k, 1)) * reductions
    for groups, work in PACKING_GROUPS if packs_a else GROUPS:
        while m is not None and n is not None and mt * nt * depth > work * (1 + packed):
            if outer * ceil(m, mt) * ceil(n, nt) >= groups or (mt <= mr and nt <= nr):
                break
            if nt > nr and (nt >= mt or mt <= mr):
                nt = nr * ceil(nt // nr, 2)
            else:
                mt = mr * ceil(mt // mr, 2)
    room = max(64, level.room // (size * (mt + nt)) // 8 * 8)
    kc = room if k is None else max(k, 1)
    if kc > room:
        kc = ceil(ceil(kc, ceil(kc, room)), 8) * 8
    return Tiles(mr, nr, mt, nt, min(kc, room) if k is None else kc)
