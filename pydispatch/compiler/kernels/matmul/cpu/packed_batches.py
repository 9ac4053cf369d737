"""Batches of tiles that use the same packed columns of B, which a workgroup packs once for all of them."""

from __future__ import annotations

from dataclasses import replace

from pydispatch.compiler.kernels.matmul.cpu.problem import Problem
from pydispatch.compiler.kernels.matmul.cpu.schedule import Schedule
from pydispatch.compiler.kernels.matmul.cpu.tile_choice import WORKGROUP_LIMITS
from pydispatch.compiler.kernels.matmul.cpu.tiles import Level, ceil_quotient, round_up


def with_batches_sharing_b(level: Level, problem: Problem, schedule: Schedule) -> Schedule:
    """Return a schedule whose workgroups pack columns of B once for a batch of tiles of few rows, with all steps of K.

    Tiles use the same columns of B if they differ only in outer dimensions that do not index B, such as the rows of an
    image in a convolution. A workgroup packs `blocks` blocks of nr columns, which stay in the second-level cache, and
    computes a tile at each of `batch` indices of these dimensions. Both numbers are halved until there are enough
    workgroups, or each has little work. Return `schedule` unchanged if no tiles use the same columns, if no block of
    columns fits the cache, or if a tile already has so many rows that a batch has a single one.

    Example:
        3 x 3 filters on an image of 56 rows of 56 pixels, 64 channels and 64 filters, f32, with AVX-512 and 1 MiB of
        L2: the 56 rows are tiles (`users`) of M = 56 pixels. K is 64, `reductions` 9. The columns of B are 2 blocks of
        32 filters, 72 KiB each, which a workgroup packs once for `batch` = 4 rows. There are 14 workgroups.
    """
    m, n, k, users = problem.m, problem.n, problem.k, problem.b_uses  # `users` tiles could use the same columns
    if not (m and n and k and problem.reductions):  # sizes must be static, and not 0
        return schedule
    has_one_tile_of_rows = m <= schedule.mt
    if problem.is_skinny_variant or users == 1 or not has_one_tile_of_rows:  # skinny: for a range of dynamic row counts
        return schedule
    # The largest batch whose packed columns fit the cache. `depth` is the number of products for each sum.
    nr, kc = schedule.nr, round_up(k, problem.group)
    depth = kc * problem.reductions
    columns_bytes = 3 * level.model.l2.bytes_per_core // 4  # for packed columns; the rest is left to A and the sums
    all_blocks = ceil_quotient(n, nr)
    blocks = min(all_blocks, columns_bytes // (problem.sum_bytes * nr * depth))
    batch = min(users, ceil_quotient(2 * level.tile_rows, m))  # about twice the usual rows of a tile, in all
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
    users, tile_rows = problem.b_uses, problem.m or 1  # `users` tiles could use the same columns of B
    matrices_of_b = problem.outer // users  # at different outer indices of B; their tiles share no columns
    for limit in WORKGROUP_LIMITS:  # first a few workgroups even of small tiles, then more of large ones
        while batch * blocks * block_products > 2 * limit.multiplications:  # 2: `growth` of a packed B
            workgroups = matrices_of_b * ceil_quotient(users, batch) * ceil_quotient(all_blocks, blocks)
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
