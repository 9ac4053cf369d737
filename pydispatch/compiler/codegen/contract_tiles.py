"""Register blocks, tiles and cache blocks of contractions, by CPU level."""

from __future__ import annotations

from dataclasses import dataclass

from pydispatch.compiler.targets.cpu_levels import Machine


@dataclass(frozen=True)
class Level:
    """What a CPU level offers: bytes of a vector, accumulators that fit the registers, the most rows of a block,
    vectors of a row of the block, and bytes of packed operands that stay in the second-level cache."""

    vector: int
    accumulators: int
    rows: int
    vectors: int
    cache: int


# AVX-512 has 32 registers: 14 rows of 2 vectors leave 2 for B and 2 for broadcasts. AVX2 and SSE have 16; SSE has no
# multiply-add, so it needs registers for products. riscv64 without vectors: a 16-byte vector is four registers.
LEVELS = {
    "avx512f": Level(64, 28, 14, 2, 832 << 10),
    "avx2": Level(32, 12, 6, 2, 384 << 10),
    "avx": Level(32, 10, 5, 2, 256 << 10),
    "x86_64": Level(16, 8, 4, 2, 256 << 10),
    "aarch64": Level(16, 24, 12, 2, 384 << 10),
    "riscv64": Level(16, 6, 6, 1, 256 << 10),
}

GROUP_WORK = 1 << 21
"""Multiplications of a workgroup below which it is not cut further for the sake of more workgroups."""

GROUPS = 32
"""Workgroups that a dispatch should have, if they are then large enough."""

ROWS, COLUMNS = 128, 256
"""Rows and bytes/4 of columns of a workgroup's tile, at most."""


def level_of(machine: Machine) -> Level:
    """The level of a machine."""
    for name in ("avx512f", "avx2", "avx"):
        if name in machine.has:
            return LEVELS[name]
    return LEVELS[machine.arch]


@dataclass(frozen=True)
class Tiles:
    """mr x nr: the register block; mt x nt: the tile of a workgroup, whole blocks; kc: steps of K that are packed."""

    mr: int
    nr: int
    mt: int
    nt: int
    kc: int


def ceil(a: int, b: int) -> int:
    return -(-a // b)


def _rows(level: Level, vectors: int, m: int | None) -> int:
    """Rows of the register block: of the heights that fill the registers the one that leaves the least over."""
    most = min(level.rows, level.accumulators // vectors)
    if m is None:
        return most
    if m <= most:
        return max(1, m)
    return min(range(most, max(1, most * 2 // 3) - 1, -1), key=lambda rows: ceil(m, rows) * (rows + 1))


def choose(
    level: Level, size: int, m: int | None, n: int | None, k: int | None, outer: int, reductions: int, padded: bool
) -> Tiles:
    """Tiles for elements of `size` bytes. m, n, k: the sizes, None when not known while compiling; outer: the product
    of the outer dimensions; reductions: of the other reductions; padded: nr is whole vectors also where n is smaller.
    """
    lanes = level.vector // size
    vectors = level.vectors
    if m is not None and m <= level.accumulators // (2 * vectors):  # few rows: longer ones
        vectors = max(vectors, min(8, level.accumulators // max(1, m)))
    if n is not None:
        vectors = min(vectors, max(1, ceil(n, lanes)))
    nr = vectors * lanes
    if n is not None and not padded and n < nr:
        nr = max(1, n)
    mr = _rows(level, vectors, m)
    mt = mr * max(1, ROWS // mr)
    nt = nr * max(1, COLUMNS * 4 // size // nr)
    if m is not None:
        mt = mr * ceil(ceil(max(m, 1), mr), ceil(max(m, 1), mt))
    if n is not None:
        nt = nr * ceil(ceil(max(n, 1), nr), ceil(max(n, 1), nt))
    depth = (512 if k is None else max(k, 1)) * reductions
    if m is not None and n is not None:
        while outer * ceil(m, mt) * ceil(n, nt) < GROUPS and mt * nt * depth > GROUP_WORK:
            if nt > nr and (nt >= mt or mt <= mr):
                nt = nr * ceil(nt // nr, 2)
            elif mt > mr:
                mt = mr * ceil(mt // mr, 2)
            else:
                break
    room = max(64, level.cache // (size * (mt + nt)) // 8 * 8)
    kc = room if k is None else max(k, 1)
    if kc > room:
        kc = ceil(ceil(kc, ceil(kc, room)), 8) * 8
    return Tiles(mr, nr, mt, nt, min(kc, room) if k is None else kc)
