"""Few rows of A times rows of B that lie far apart: B passes once, some steps of K at a time, by rows of wide tiles.

Main memory and the third-level cache give whole rows several times as fast as the few columns of a panel. 4096x4096 of
f32 on an AMD EPYC (Zen 4), one worker, with panels, with this, and NumPy: 1 row 4.9, 2.5, 2.4 ms; 3 rows 5.5, 2.8, 9.5;
8 rows 18.5, 4.6, 10; 16 rows 24, 7.8, 12; 32 rows 17.3 (packed), 12.6, 17.4.
"""

from __future__ import annotations

from pydispatch.compiler.kernels.matmul.cpu.problem import Problem
from pydispatch.compiler.kernels.matmul.cpu.tiles import GROUPS, Level, Tiles, ceil

MOST_ROWS = 64
"""Rows of A up to which the sums, which pass through the second-level cache, cost less than packing B where a cycle
multiplies a vector in each unit; where a vector takes two, twice as many: Zen 4, 128x3072x768 in 5.8 ms, packed 6.8."""

FEW, TILE_ROWS, TILE_COLUMNS = 8, 32, 256
"""Tiles of more than a few rows are cut down to so many rows and columns where there are few workgroups; of a few they
have whole pages of columns: 8x768x3072 from main memory takes 0.5 ms, in tiles of 256 columns 2.4 (Zen 4)."""

FEWEST_STEPS = 64
"""Steps of K below which there is nothing to stream."""

WIDE = 1024
"""Bytes of a row of B whose sums one row of A keeps in half of the registers for all of K if there are so many, where
rows lie no further apart than the CPU prefetches. Zen 5, us against tiles of 2048 bytes that are streamed: 1x512x512
6.7, not 9.6; 1x768x768 20 and 28; 1x2048x1000 75 and 114; 1x3072x768 87 and 127; 1x1024x1024 40 and 42. CPUs that
prefetch shorter steps stream better: Zen 4 1x3072x768 124, not 163, 1x2048x1000 109 and 154, 1x4096x4096 2,610 and
5,170; an Intel Xeon with 2 MiB of L2 1x4096x4096 2,740 and 3,260, 1x4096x11008 9,400 and 19,400."""

STEPS = (8, 4, 5, 7, 6, 3)
"""Steps of K at a time, the first that divides it, for few rows; twice as many for more. 1x4096x4096 in 2.5 ms, with
4 in 2.6, with 16 in 3.0; 16x4096x4096 in 7.8 with 16, 8.1 with 8 (Zen 4)."""


def streams(level: Level, problem: Problem) -> bool:
    """Return whether B, which may be read in place, is streamed: for up to two rows always, for more where its rows are
    further apart than the CPU prefetches and do not stay in the second-level cache."""
    if (
        not problem.b_in_place
        or problem.along_k
        or problem.panel
        or not problem.m
        or not problem.n
        or (problem.k or 0) < FEWEST_STEPS
    ):
        return False
    if problem.m <= 2:
        return True
    most = MOST_ROWS * ceil(level.vector, level.model.datapath)
    apart = problem.b.stride > level.model.prefetch_stride
    far = problem.outer * problem.b.stride * (problem.k or 0) > 2 * level.model.l2.share
    return apart and far and problem.m <= most and problem.reductions == problem.repeated == 1


def streamed(level: Level, problem: Problem, tiles: Tiles) -> Tiles:
    """Return the blocks and tiles that stream B. tiles: those without streaming; up to two rows keep the block."""
    assert problem.m is not None and problem.n is not None and problem.k is not None
    if problem.m == 1 and _keeps_sums(level, problem):
        return Tiles(1, WIDE // problem.size, 1, WIDE // problem.size, problem.k)
    mr, nr = (tiles.mr, tiles.nr) if problem.m <= 2 else _block(level, problem.m, problem.n, problem.size)
    rows = problem.most if problem.few and problem.most is not None else problem.m
    groups, work = GROUPS[0]
    parts, page = max(1, groups // max(1, problem.outer)), level.model.page // problem.size
    mt, nt = mr * ceil(rows, mr), nr * ceil(min(problem.n, max(ceil(problem.n, parts), page)), nr)
    while problem.outer * ceil(rows, mt) * ceil(problem.n, nt) < groups and mt * nt * problem.k > work:
        if mt > max(TILE_ROWS, mr):
            mt = mr * ceil(ceil(mt, 2), mr)
        elif rows > FEW and nt > max(TILE_COLUMNS, nr):
            nt = nr * ceil(ceil(nt, 2), nr)
        else:
            break
    choice = (*(2 * steps for steps in STEPS), *STEPS) if rows > FEW else STEPS
    steps = next((steps for steps in choice if problem.k % steps == 0), STEPS[0])
    return Tiles(mr, nr, mt, nt, steps)


def _block(level: Level, m: int, n: int, size: int) -> tuple[int, int]:
    """Return the numbers of rows and columns of a block of three rows and more: four vectors where several blocks of at
    least three rows use what is streamed, else two; so many rows that few are computed twice.
    """
    most = {vectors: (level.accumulators - vectors) // vectors for vectors in (2, 4)}
    vectors = 4 if m > most[4] >= 3 else 2
    top = max(1, min(m, most[vectors]))
    rows = range(top, top // 2, -1)
    return min(rows, key=lambda mr: ceil(m, mr) * mr), min(n, vectors * level.vector // size)


def _keeps_sums(level: Level, problem: Problem) -> bool:
    """Return whether one row of A keeps the sums of columns in registers for all of K, see `WIDE`."""
    fits = level.registers // 2 * level.vector >= WIDE and (problem.n or 0) * problem.size >= WIDE
    return fits and problem.b.stride <= level.model.prefetch_stride
