"""Estimate whether products by a constant factor are faster with the factor in column panels."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute

from pydispatch.compiler.kernels.matmul.cpu.operand_access import ASSUMED_ROWS
from pydispatch.compiler.kernels.matmul.cpu.problem import PanelInPlace, pays_in_place_b, shares_factor
from pydispatch.compiler.kernels.matmul.cpu.tiles import Level
from pydispatch.compiler.kernels.matmul.match import Contraction
from pydispatch.compiler.kernels.matmul.panels import PANEL_BYTES

MIN_BYTES, MIN_TRANSPOSED_BYTES = 64 << 10, 1 << 10
"""Minimum size of a packed factor, and of a transposed one. A smaller factor stays in the cache in any layout. A
transposed factor, whose rows are the columns of the product, is otherwise copied by every workgroup: 3x3 convolutions
of 32x32x32 with a filter of 36 KiB ran at 119 GFLOP/s without panels, 220 with them (AMD EPYC Zen 5, one worker)."""

FEW_PANELS = 2
"""Maximum width, in panels, of a factor that is left unpacked: its rows are read whole, so that memory is read in order
without panels too. Time with / without panels: 8x65536x64 610 and 478 us, 64x16384x64 644 and 591, 3x3 filters of
56x56x64 898 and 891 (Zen 5). A CPU whose `prefetch_stride` is below a page reads every second half of
a row slowly from beyond the L2 cache, so that such a factor is packed: 8x65536x64 830 and 1,650 us, 64x16384x64 1,310
and 1,300 (Zen 4)."""

FEW_ROWS = 2
"""Maximum number of result rows for which a factor that fits the L2 cache is left unpacked: with one or two rows, the
latency of the additions of a single panel dominates. A larger factor is streamed from memory once, in panel order.

f32, one worker of an AVX-512 EPYC, time with panels / without: 1x512x512 1.10, 1x768x768 0.89, 1x768x3072 0.65;
4x768x768 0.65, 8x768x768 0.62, 16x768x768 0.98, 64x768x768 1.00; 8x768x3072 0.48, 32x768x3072 0.73, 128x768x3072 0.93;
4x512x512 0.88, 16x512x512 0.86, 64x512x512 0.78, 512x512x512 0.95; 256x256: 0.69 to 1.01.

A transposed factor is left unpacked only for a single row, and only if it fits into the L2 cache: in place, several of
its rows are read at a time, each a stream of its own. Time with / without panels (AMD EPYC Zen 4, one worker, weights
of 120 MB in all):
1x768x2048 0.63, 2x768x2048 0.48, 4x768x2048 0.37, 1x4096x4096 0.86, 4x4096x4096 0.56; in the L2 cache 1x512x512 1.19,
1x128x128 1.04, 2x512x512 1.06, 2x128x128 0.88, 4x256x256 0.96.
"""


def packing_pays(contraction: Contraction, type_: TensorType[Attribute], size: int, levels: Sequence[Level]) -> bool:
    """Return whether reading packed panels of the factor B is faster than reading it in place.

    Panels make the columns that a register block multiplies contiguous. They pay in these cases:
    - B is transposed, [N, K], and has MIN_TRANSPOSED_BYTES. If the result has one row, B must exceed the L2 cache.
    - B is [K, N], has MIN_BYTES and more than FEW_PANELS panels, and one of these holds: the result has more than
      FEW_ROWS rows, B exceeds the L2 cache, workgroups share the reading of B, or the number of rows is dynamic and
      panels are faster than columns in place for ASSUMED_ROWS.
    - B is [K, N] with two panels, and exceeds the L2 cache of a CPU whose prefetcher does not follow loads that are a
      page of memory apart.

    The constants of this file state the measurements behind the limits.

    Args:
        contraction: The contraction.
        type_: Type of B's tensor, of static shape. Columns are its last dimension, unless B is transposed.
        size: Bytes of an element as kernels multiply it.
        levels: ISA levels of all targets.
    """
    *outer, columns = type_.get_shape()
    row_bytes = columns * size
    total_bytes = prod(outer) * row_bytes
    rows = _result_rows(contraction)
    exceeds_cache = total_bytes > min(level.model.l2.bytes_per_core for level in levels)
    if not contraction.b.is_contiguous(contraction.n):  # B is transposed
        return total_bytes >= MIN_TRANSPOSED_BYTES and (rows is None or rows > 1 or exceeds_cache)
    if total_bytes < MIN_BYTES or row_bytes <= PANEL_BYTES:  # a single panel is B as it is stored
        return False
    if row_bytes <= FEW_PANELS * PANEL_BYTES and not (exceeds_cache and _reads_strides_slowly(levels)):
        return False
    # Workgroups share the reading of a large B; in panels, each workgroup reads its part of B in the order of memory.
    if exceeds_cache or all(shares_factor(level, total_bytes) for level in levels):
        return True
    if rows is not None:
        return rows > FEW_ROWS
    # The number of rows is dynamic: assume ASSUMED_ROWS. In place, the rows of a panel are `stride_bytes` apart in B.
    panel = PanelInPlace(row_bytes=PANEL_BYTES, stride_bytes=row_bytes, steps=prod(outer))
    return not all(pays_in_place_b(level, ASSUMED_ROWS, level.block_rows, panel) for level in levels)


def _reads_strides_slowly(levels: Sequence[Level]) -> bool:
    """Return whether a CPU of `levels` does not prefetch loads that are a page of memory apart; see FEW_PANELS."""
    return any(level.model.prefetch_stride < level.model.page for level in levels)


def _result_rows(contraction: Contraction) -> int | None:
    """Return the number of rows of a contraction's result, in all iterations of its outer loops together.

    Return None if M, the number of rows of one product, is dynamic. Dynamic outer loops count as one iteration.
    """
    extents = contraction.generic.extents
    rows = 1 if contraction.m is None else extents[contraction.m]
    return None if rows is None else rows * prod(extents[d] or 1 for d in contraction.outer)
