"""Choice of the operands that are read in place, without packing, by the caches and the TLB of a machine model.

Packing B costs some per cent of a product with many rows. Rows of B that evict each other from the cache cost more
than half of the speed on CPUs with slow memory beyond the second-level cache. So B is packed unless the model shows
that packing is unnecessary.
"""

from __future__ import annotations

from pydispatch.compiler.kernels.matmul.cpu.tiles import Level, ceil

FEW_PASSES = 2
"""Passes over a panel of B up to which it is read in place, however it lies: copying it costs about one of them. Twice
as many where evicted rows come back in time, from the third-level cache: on Zen 5, 42x784x1024 takes 0.84x as long as
packed, 32x768x3072 0.82x, 56x784x1024 1.03x, 32x2048x2048 1.1x, 32x4096x4096 1.5x."""


AHEAD = 4096
"""Bytes between what blocks read of B and what they fetch with it. An Intel Xeon with 2 MiB of L2 runs ResNet-50, whose
filters come from beyond it, in 0.85 of the time without; 2048, 8192 and 16384 bytes are 3 % slower."""


def fetched_ahead(level: Level, mr: int, width: int) -> int:
    """Return how far ahead blocks of mr rows fetch rows of `width` bytes of B, which follow each other in memory: 0
    where the CPU brings them from beyond the second-level cache as fast as blocks multiply them.
    """
    return AHEAD if width > level.model.bandwidth * level.cycles(mr, width) else 0


def b_in_place(level: Level, rows: int, mr: int, width: int, stride: int, steps: int) -> bool:
    """Return whether blocks of mr of the rows of A may read a panel of B in place: `steps` rows of `width` bytes,
    `stride` apart.
    """
    if b_stays(level, width, stride, steps):
        return True
    model, panel = level.model, steps * width
    in_l3 = model.l3 is not None and 3 * steps * stride <= model.l3.bytes
    in_time = in_l3 and 2 * width <= model.bandwidth * level.cycles(mr, width)
    if ceil(rows, mr) <= FEW_PASSES * (2 if in_time else 1):
        return True
    # Up to twice what is left of the second-level cache is evicted in parts.
    return in_time and _is_prefetched(level, stride, steps) and panel <= 2 * model.l2.reachable(width, stride)


def b_stays(level: Level, width: int, stride: int, steps: int) -> bool:
    """Return whether a panel of B stays in a cache between the blocks of rows that read it in place."""
    model, panel = level.model, steps * width
    if panel <= model.l1.reachable(width, stride) // 2 and _pages(level, stride, steps) <= model.tlb1 // 2:
        return True
    return _is_prefetched(level, stride, steps) and panel <= model.l2.reachable(width, stride) // 2


def _pages(level: Level, stride: int, steps: int) -> int:
    return min(steps, ceil(steps * stride, level.model.page))


def beyond_tlb(level: Level, stride: int, steps: int) -> bool:
    """Return whether rows lie in more pages than the second level of address translation holds, next to others."""
    return _pages(level, stride, steps) > level.model.tlb2 // 2


def _is_prefetched(level: Level, stride: int, steps: int) -> bool:
    """Return whether each row of a panel comes in time from the second-level cache."""
    model = level.model
    return stride <= min(model.prefetch_stride, model.page) and not beyond_tlb(level, stride, steps)


def a_in_place(level: Level, mr: int, stride: int) -> bool:
    """Return whether a block may read its rows of A, `stride` bytes apart, in place: their lines leave a third of the
    ways that they fall into to B. On Zen 5, 14 rows that are 2048 bytes apart take 0.97x the time of packing, 4096
    1.08x.
    """
    model = level.model
    return 3 * mr * model.line <= 2 * model.l1.reachable(model.line, stride)
