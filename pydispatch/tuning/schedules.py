"""Schedules of contractions by name, and the neighbours of a schedule in the search space."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from pydispatch.compiler.kernels.matmul.cpu.problem import Problem
from pydispatch.compiler.kernels.matmul.cpu.schedule import Schedule, refusal
from pydispatch.compiler.kernels.matmul.cpu.tiles import Level, ceil_quotient

_NAME = re.compile(
    r"(\d{1,6})x(\d{1,6}), tile (\d{1,9})x(\d{1,9}), K (\d{1,9})(?:, packs (A|B|A and B))?(?:, batch (\d{1,6}))?"
)
"""Name of a schedule, as `name_of` writes it: `14x32, tile 112x256, K 512, packs B, batch 4`."""

STEP = 8
"""Block sizes of K that are tried are multiples of this, or all of K."""


def name_of(schedule: Schedule) -> str:
    """Return the name of a schedule, such as `14x32, tile 112x256, K 512, packs B, batch 4`.

    It states the register block, the tile, the block size of K, the packed operands, and the number of tiles that share
    packed columns of B.
    """
    s = schedule
    packed = " and ".join(name for name, packs in (("A", s.pack_a), ("B", s.pack_b)) if packs)
    batch = f", batch {s.batch}" if s.batch > 1 else ""
    return f"{s.mr}x{s.nr}, tile {s.mt}x{s.nt}, K {s.kc}" + (f", packs {packed}" if packed else "") + batch


def schedule_named(name: str) -> Schedule | None:
    """Return the schedule with a name, as the inverse of `name_of`; None for a malformed name."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    mr, nr, mt, nt, kc = (int(match[i]) for i in range(1, 6))
    packed, batch = match[6] or "", int(match[7] or 1)
    return Schedule(mr, nr, mt, nt, kc, pack_a="A" in packed, pack_b="B" in packed, batch=batch)


def neighbours(level: Level, problem: Problem, schedule: Schedule) -> list[Schedule]:
    """Return the legal schedules that differ from `schedule` in one property: packing, tile, block of K or register
    block. Likely improvements come first.
    """
    candidates = (_fitted(problem, candidate) for candidate in _moves(level, problem, schedule))
    return [
        candidate
        for candidate in dict.fromkeys(candidates)
        if candidate != schedule and refusal(level, problem, candidate) is None
    ]


def _moves(level: Level, problem: Problem, schedule: Schedule) -> Iterator[Schedule]:
    """Yield the schedules that differ from `schedule` in one property, whether legal or not, likely improvements first.

    A schedule has a register block of mr x nr sums, a workgroup's tile of mt x nt sums, which is a multiple of it, and
    steps of K that are multiplied at once (kc). Operands are packed, that is, copied in the order of reads, or read in
    place. With a `batch`, a workgroup computes several tiles with the same packed columns of B.

    Example: for `14x32, tile 112x256, K 512, packs B` the first ones are

        14x32, tile 112x256, K 512                        (B in place)
        14x32, tile 112x256, K 512, packs A and B
        14x32, tile 224x256, K 512, packs B               (twice the height, then other sizes of the tile)
        14x32, tile 112x256, K 256, packs B               (half the steps of K, then other numbers)

    and then those with other batches and register blocks.

    Args:
        level: Vector registers, caches and instructions of the CPU.
        problem: The contraction.
        schedule: The schedule to vary.
    """
    # What is packed. A batch shares packed columns of B, so it is 1 if B is not packed.
    yield replace(schedule, pack_b=not schedule.pack_b, batch=1)
    yield replace(schedule, pack_a=not schedule.pack_a)
    # The tile: factors of its height and width.
    # `_multiple` rounds a size up to whole register blocks.
    for height, width in ((2, 1), (1, 2), (0.5, 1), (1, 0.5), (0.5, 2), (2, 0.5)):
        yield replace(
            schedule, mt=_multiple(schedule.mt * height, schedule.mr), nt=_multiple(schedule.nt * width, schedule.nr)
        )
    # The steps of K.
    for times in (0.5, 2, 0.25):
        yield replace(schedule, kc=_multiple(schedule.kc * times, STEP))
    if problem.k is not None:
        yield replace(schedule, kc=problem.k)
    # The batch: up to `b_uses` tiles, which use the same columns of B. A batch requires a B that is packed with all
    # steps of K, so these properties are set, too.
    if problem.b_uses > 1 and problem.k is not None:
        for batch in (schedule.batch // 2, schedule.batch * 2, problem.b_uses):
            yield replace(schedule, pack_b=True, kc=problem.k, batch=max(1, min(batch, problem.b_uses)))
    # The register block, of the sizes of `_blocks`, which are for vectors of columns. Not for a transposed B that is
    # read in place: its vectors are along K, and each sum takes a register.
    if not (problem.is_b_transposed and not schedule.pack_b):
        for mr, nr in _blocks(level, problem, schedule):
            yield replace(schedule, mr=mr, nr=nr, mt=_multiple(schedule.mt, mr), nt=_multiple(schedule.nt, nr))


def _blocks(level: Level, problem: Problem, schedule: Schedule) -> Iterator[tuple[int, int]]:
    """Yield register blocks, (rows, columns), of 1 to 4 whole vectors per row and as many rows as registers allow.

    For the width of `schedule`, heights of one and two rows less follow: they leave registers for operands.
    """
    lanes = level.vector // problem.sum_bytes
    for vectors in (1, 2, 3, 4):
        max_rows = min(level.accumulators // vectors, problem.m or level.accumulators)
        for mr in (max_rows, max_rows - 1, max_rows - 2) if vectors * lanes == schedule.nr else (max_rows,):
            if mr >= 1:
                yield mr, vectors * lanes


def _multiple(size: float, block: int) -> int:
    """Return the least positive multiple of `block` that is not less than `size`, whose fraction is dropped."""
    return max(1, ceil_quotient(int(size), block)) * block


def _fitted(problem: Problem, schedule: Schedule) -> Schedule:
    """Return a schedule with tile and K block clipped to the sizes of the problem, rounded up to whole register blocks
    and to whole groups of steps that one instruction takes.
    """
    mt = schedule.mt if problem.m is None else min(schedule.mt, _multiple(problem.m, schedule.mr))
    nt = schedule.nt if problem.n is None else min(schedule.nt, _multiple(problem.n, schedule.nr))
    kc = schedule.kc if problem.k is None else min(schedule.kc, max(1, problem.k))
    return replace(schedule, mt=mt, nt=nt, kc=_multiple(kc, problem.group))
