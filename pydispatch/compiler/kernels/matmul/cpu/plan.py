"""Plan of a contraction on a CPU: its problem, schedule and arithmetic, and the treatment of its operands; immutable.

`variants` makes one plan, or up to three where only the call knows the number of rows: for at least one register block,
for a single row, and for less than a block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TypeVar

from xdsl.ir import Attribute, SSAValue

from pydispatch.compiler.kernels.matmul.cpu.arithmetic import Arithmetic
from pydispatch.compiler.kernels.matmul.cpu.default_schedule import default_schedule, uses_b_once
from pydispatch.compiler.kernels.matmul.cpu.in_place import Sizes
from pydispatch.compiler.kernels.matmul.cpu.operand_access import (
    OperandAccess,
    RowRange,
    operand_access,
    outer_dims_sharing_b,
)
from pydispatch.compiler.kernels.matmul.cpu.pages import within_pages
from pydispatch.compiler.kernels.matmul.cpu.problem import Problem, prefetch_distance
from pydispatch.compiler.kernels.matmul.cpu.schedule import Schedule, refusal
from pydispatch.compiler.kernels.matmul.cpu.streaming import streaming_prefetch_distance
from pydispatch.compiler.kernels.matmul.cpu.tiles import Level, Tiles
from pydispatch.compiler.kernels.matmul.gathered import GatheredPages
from pydispatch.compiler.kernels.matmul.match import Contraction, Factor
from pydispatch.compiler.kernels.matmul.panels import Panels
from pydispatch.compiler.kernels.ops.builder import Index
from pydispatch.compiler.kernels.ops.elements import Elements
from pydispatch.compiler.kernels.ops.generics import loop_sizes


class IllegalSchedule(Exception):
    """A schedule that a contraction cannot have; str() is the reason."""


@dataclass(frozen=True)
class Plan:
    """Decisions made before the CPU kernel of one contraction is emitted: blocks, tiles, and access to operands.

    Attributes:
        contraction: The contraction.
        problem: The properties of it that the schedule depends on: sizes, and the layout of its operands.
        schedule: Register block, tiles, and packed operands.
        arithmetic: Element types and instructions.
        vectorizes_k: Whether vectors are along K, in which A and B are contiguous.
        inner_reductions: Reduced dimensions other than K that packed operands span.
        outer_reductions: The remaining reduced dimensions but K: loops around the packing.
        sums_in_registers: Whether one pass has all products of a block, so that its sums stay in registers.
        sizes: Sizes of the loop dimensions; None if dynamic.
        row_range: Row counts that the plan is for; None for all.
        panels: The panels (blocks of adjacent columns) in which an argument stores B; None for a B in another layout.
        b_in_half_precision: The tensor of f16 or bf16 whose elements register blocks widen to those of B as they read
            them in place; None if B is no such tensor.
        prefetch_bytes: Bytes ahead of its reads of B that a register block prefetches; 0 for no prefetching.
        pages: The pages (blocks of rows that a table of indices gathers) in which register blocks read B in place; None
            if B is packed, or not gathered.
        batched_dims: The outer dimensions that do not index B, if a workgroup computes tiles at several of their
            indices with the same packed columns of B; else ().
    """

    contraction: Contraction
    problem: Problem
    schedule: Schedule
    arithmetic: Arithmetic
    vectorizes_k: bool
    inner_reductions: tuple[int, ...]
    outer_reductions: tuple[int, ...]
    sums_in_registers: bool
    sizes: tuple[int | None, ...]
    row_range: RowRange | None = None
    panels: Panels | None = None
    b_in_half_precision: SSAValue | None = None
    prefetch_bytes: int = 0
    pages: GatheredPages | None = None
    batched_dims: tuple[int, ...] = ()

    @property
    def compute(self) -> Attribute:
        """The element type of the factors in registers."""
        return self.arithmetic.compute

    @property
    def sum_type(self) -> Attribute:
        """The element type of the sums."""
        return self.arithmetic.sum_type

    @property
    def group(self) -> int:
        """Steps of K that one instruction multiplies."""
        return self.arithmetic.group

    @property
    def tail_columns(self) -> int:
        """The number of columns of the last register block if it is partial, else 0.

        The last block may be partial only if B is stored in panels of adjacent columns, because a block must not cross
        panels. Without panels, the last block begins early enough to be whole.

        Example:
            70 columns in panels of 64, with blocks of nr = 32 columns: the last block has 6.
        """
        n = None if self.contraction.n is None else self.sizes[self.contraction.n]
        if self.panels is None or n is None:
            return 0
        are_panels_full = n % self.panels.layout.width == 0
        return 0 if are_panels_full else n % self.schedule.nr  # nr divides the width of a panel

    def last_block_overlaps(self, dim: int, size: Index, block: int) -> bool:
        """Return whether the last register block along a dimension begins early enough to be whole.

        A last block that begins early overlaps the block before it, and computes some elements again: for 10 rows in
        blocks of 4, the last block has the rows 6 to 9.

        Args:
            dim: The dimension, a loop of the contraction.
            size: Its size. Return False unless the size is known to be at least `block`.
            block: Size of a register block along it.
        """
        contraction = self.contraction
        if dim == contraction.n and self.tail_columns:  # blocks must not cross the panels of B: the last one is partial
            return False
        if isinstance(size, int):
            return size >= block
        # Of dynamic sizes, only M has a known lower bound: the least row count that the plan is for.
        return dim == contraction.m and self.row_range is not None and self.row_range.least >= block


def variants(
    contraction: Contraction, elements: Elements, level: Level, schedule: Schedule | None = None
) -> list[Plan]:
    """Return the plans of a contraction; an empty list if its element types have no register block.

    There are several plans only if M is dynamic and all other sizes are static: for at least `mr` rows, the height of a
    register block, for 1 row, and for 2 to `mr` - 1 rows. A kernel chooses one of them at run time.

    Args:
        contraction: The contraction.
        elements: Tensors of its dispatch function.
        level: Vector registers, caches and instructions of the CPU.
        schedule: Register block, tiles and packed operands of the first plan; None for the default, which the plans
            for fewer rows have.

    Raises:
        IllegalSchedule: The contraction cannot have the schedule.
    """
    has_ranges = _has_dynamic_rows_alone(contraction, loop_sizes(elements, contraction.generic))
    # With several plans, the first one is for all row counts until the height of its register block is known.
    plan = plan_of(contraction, elements, level, RowRange(least=1, most=None) if has_ranges else None, schedule)
    if plan is None or not has_ranges:
        return [] if plan is None else [plan]
    height = plan.schedule.mr
    skinny_plans = [plan_of(contraction, elements, level, rows) for rows in _skinny_ranges(height)]
    many_rows = RowRange(least=height, most=None)
    return [replace(plan, row_range=many_rows), *(skinny for skinny in skinny_plans if skinny is not None)]


def _skinny_ranges(height: int) -> list[RowRange]:
    """Return the ranges of row counts below the height of a register block: 1 row, and 2 to `height` - 1 rows."""
    single_row = [RowRange(least=1, most=1)] if height > 1 else []
    several_rows = [RowRange(least=2, most=height - 1)] if height > 2 else []
    return single_row + several_rows


def _has_dynamic_rows_alone(contraction: Contraction, sizes: Sequence[Index]) -> bool:
    """Return whether M is the only dynamic size, so that `variants` can make a plan for each range of row counts.

    Return False if another size is 0. Return False, too, if M is not itself an index of A: A[m, k] is accepted,
    A[2 * m, k] is not.
    """
    a, m = contraction.a, contraction.m
    if m is None or isinstance(sizes[m], int):
        return False
    axes_of_m = [a.coordinates[p] for p in a.positions_of(m)]
    is_row_axis = len(axes_of_m) == 1 and axes_of_m[0].is_identity(m)
    other_sizes = [s for d, s in enumerate(sizes) if d != m]
    return is_row_axis and all(isinstance(s, int) and s != 0 for s in other_sizes)


def plan_of(
    contraction: Contraction,
    elements: Elements,
    level: Level,
    row_range: RowRange | None = None,
    schedule: Schedule | None = None,
) -> Plan | None:
    """Return the plan of a contraction; None if no register block supports its element types.

    Args:
        contraction: The contraction.
        elements: Tensors of its dispatch function.
        level: Vector registers, caches and instructions of the CPU.
        row_range: Values of a dynamic M, the number of rows, that the plan is for; None if one plan is for all values.
        schedule: Register block, tiles and packed operands; None for the default.

    Raises:
        IllegalSchedule: The contraction cannot have the schedule.
    """
    all_sizes = tuple(s if isinstance(s, int) else None for s in loop_sizes(elements, contraction.generic))
    sizes = sizes_in_range(contraction, all_sizes, row_range)
    access = operand_access(contraction, level, sizes, row_range)
    if access is None:
        return None
    problem, k = access.problem, sizes[contraction.k]
    schedule, pages = _schedule_and_pages(contraction, level, access, schedule)
    inner, outer = _reductions(contraction, sizes, level, problem, schedule)
    has_one_chunk = k is not None and schedule.kc >= k  # of all steps of K
    shares_packed_b = schedule.batch > 1  # a workgroup computes several tiles with the same packed columns of B
    return Plan(
        contraction=contraction,
        problem=problem,
        schedule=schedule,
        arithmetic=access.arithmetic,
        vectorizes_k=problem.vectorizes_k(schedule.pack_b),
        inner_reductions=inner,
        outer_reductions=outer,
        sums_in_registers=has_one_chunk and not outer,
        sizes=sizes,
        row_range=row_range,
        panels=access.panels,
        b_in_half_precision=access.b_in_half_precision,
        prefetch_bytes=_prefetch_bytes(level, access, schedule),
        pages=pages,
        batched_dims=tuple(outer_dims_sharing_b(contraction, sizes)) if shares_packed_b else (),
    )


_Size = TypeVar("_Size")


def sizes_in_range(
    contraction: Contraction, sizes: Sequence[_Size], row_range: RowRange | None
) -> tuple[_Size | int, ...]:
    """Return the sizes of a contraction's dimensions; a plan for a single row count replaces a dynamic M by it."""
    if row_range is None or row_range.least != row_range.most:
        return tuple(sizes)
    return tuple(row_range.least if d == contraction.m else size for d, size in enumerate(sizes))


def _schedule_and_pages(
    contraction: Contraction, level: Level, access: OperandAccess, stated: Schedule | None
) -> tuple[Schedule, GatheredPages | None]:
    """Return the stated schedule or else the default one, and the pages of B if register blocks read them in place.

    Pages are blocks of rows of B that a table of indices gathers. A packed B is read from its copy, not from pages.

    Raises:
        IllegalSchedule: The contraction cannot have the stated schedule.
    """
    reason = None if stated is None else refusal(level, access.problem, stated)
    if reason is not None:
        raise IllegalSchedule(reason)
    schedule = default_schedule(level, access.problem) if stated is None else stated
    if access.pages is None or schedule.pack_b:
        return schedule, None
    # Register blocks and chunks of K must not cross pages.
    return within_pages(contraction, schedule, access.pages), access.pages


def _prefetch_bytes(level: Level, access: OperandAccess, schedule: Schedule) -> int:
    """Return how many bytes ahead of its reads of B a register block prefetches; 0 for no prefetching."""
    problem = access.problem
    has_single_steps = access.arithmetic.group == 1  # an instruction multiplies one step of K, not a group of them
    if access.panels is not None and has_single_steps:  # a block reads rows of a panel, which follow each other
        row_bytes = schedule.nr * (problem.b.element_bytes or problem.sum_bytes)
        return prefetch_distance(level, schedule.mr, row_bytes)
    has_next_chunk = problem.k is not None and schedule.kc < problem.k
    if has_next_chunk and not schedule.pack_b:  # a block prefetches the rows of B of the next chunk of K
        return streaming_prefetch_distance(level, problem, schedule.kc)
    return 0


def _reductions(
    contraction: Contraction, sizes: Sizes, level: Level, problem: Problem, schedule: Schedule
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Divide the reduced dimensions other than K into inner and outer ones, and return both.

    Packed operands contain all indices of inner ones. Outer ones are loops around the packing. Examples are the rows
    and columns of a filter in a convolution. A dimension of dynamic size is outer. The others are inner at first. Then
    one after the other, the outermost first, becomes outer until the packed operands fit into the cache.
    """
    inner = [d for d in contraction.reductions if sizes[d] is not None]
    outer = [d for d in contraction.reductions if sizes[d] is None]
    # Tiles of a batch were chosen so that packed columns of B, with all reductions and steps of K, fit into the cache.
    is_batched = schedule.batch > 1
    if is_batched or not (schedule.pack_a or schedule.pack_b):
        return tuple(inner), tuple(outer)
    # A packed chunk of B that is used once must fit into the first-level cache. Otherwise A and B have equal shares of
    # the bytes for packed operands.
    is_b_for_one_use = schedule.pack_b and uses_b_once(problem, schedule)
    available_bytes = level.l1_chunk_bytes if is_b_for_one_use else level.packed_bytes // 2
    while inner and problem.sum_bytes * _larger_packed_size(contraction, schedule, sizes, inner) > available_bytes:
        outer.append(inner.pop(0))
    return tuple(inner), tuple(outer)


def _larger_packed_size(
    contraction: Contraction, schedule: Schedule, sizes: Sizes, inner_reductions: Sequence[int]
) -> int:
    """Return the number of elements of the larger packed factor, A or B.

    It is assumed that both packed factors contain all indices of the loops `inner_reductions`. These are reduced loops
    other than K, such as the rows and columns of a convolution's filter.
    """
    extents = packed_extents(contraction, schedule, schedule.kc, sizes, inner_reductions)
    return max(_volume(factor, extents) for factor in (contraction.a, contraction.b))


def packed_extents(
    contraction: Contraction, tiles: Tiles, kc: int, sizes: Sizes, inner_reductions: Sequence[int]
) -> dict[int, int]:
    """Return loop dimension -> its extent inside a packed operand, which has a tile of M and N, and `kc` steps of K.

    The operand spans all indices of the reductions in `inner_reductions`, and one index of any other dimension.
    """
    extents = dict.fromkeys(range(len(sizes)), 1)
    extents.update({d: sizes[d] or 1 for d in inner_reductions})
    extents[contraction.k] = kc
    for dim, tile in ((contraction.m, tiles.mt), (contraction.n, tiles.nt)):
        if dim is not None:
            extents[dim] = tile
    return extents


def _volume(factor: Factor, extents: dict[int, int]) -> int:
    """Return the number of elements of a packed operand, in which the loop dimensions have the extents `extents`."""
    return prod(coordinate.extent(extents) for coordinate in factor.coordinates)
