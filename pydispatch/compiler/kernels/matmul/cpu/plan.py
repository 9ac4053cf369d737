"""Plan of a contraction on a CPU: its problem, schedule and arithmetic, and the treatment of its operands; immutable.

`variants` makes one plan, or up to three where only the call knows the number of rows: for at least one register block,
for a single row, and for less than a block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from xdsl.ir import Attribute, SSAValue

from pydispatch.compiler.kernels.matmul.cpu.arithmetic import Arithmetic
from pydispatch.compiler.kernels.matmul.cpu.in_place import Sizes
from pydispatch.compiler.kernels.matmul.cpu.operand_access import (
    OperandAccess,
    RowRange,
    dims_without_b,
    operand_access,
)
from pydispatch.compiler.kernels.matmul.cpu.pages import within_pages
from pydispatch.compiler.kernels.matmul.cpu.problem import Problem, prefetch_distance
from pydispatch.compiler.kernels.matmul.cpu.schedule import (
    Schedule,
    default_schedule,
    refusal,
    uses_b_once,
)
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
        panels: The panels of adjacent columns that an argument has B in, and register blocks read; None for a B in
            another layout.
        b_in_half_precision: Tensor of f16 or bf16 that B is widened from in registers, where it is read in place.
        prefetch_bytes: Bytes ahead of its reads of B that a register block prefetches; 0 for no prefetching.
        pages: B as gathered pages, where register blocks read it in place; None elsewhere.
        batched_dims: Outer dimensions at whose indices a workgroup uses the same packed columns of B.
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
        """The number of columns of the last register block if it is partial, as B is in an argument's panels; else 0.

        It must not cross panels. Without panels, the last block begins early enough to be whole.
        """
        n = None if self.contraction.n is None else self.sizes[self.contraction.n]
        if self.panels is None or n is None or n % self.panels.layout.width == 0:
            return 0
        return n % self.schedule.nr  # nr divides the width of a panel

    def last_block_overlaps(self, dim: int, size: Index, block: int) -> bool:
        """Return whether the last of the register blocks along a dimension begins early enough to be whole.

        It then computes some elements of the block before it again. It is so if the dimension, whose size is `size`, is
        known to have at least `block` indices. But if an argument has B in panels, and the last panel is partial, the
        last block is partial too.
        """
        contraction = self.contraction
        if dim == contraction.n and self.tail_columns:  # a block must not cross panels
            return False
        if isinstance(size, int):
            return size >= block
        return dim == contraction.m and self.row_range is not None and self.row_range.least >= block


def variants(
    contraction: Contraction, elements: Elements, level: Level, schedule: Schedule | None = None
) -> list[Plan]:
    """Return the plans of a contraction; an empty list if its element types have no register block.

    Only if M is dynamic and all else is static, there are several: for at least `mr` rows, where `mr` is the height of
    a register block, for 1 row, and for 2 to `mr` - 1 rows. A kernel chooses one of them at run time.

    Args:
        contraction: The contraction.
        elements: Tensors of its dispatch function.
        level: Vector registers, caches and instructions of the CPU.
        schedule: Register block, tiles and packed operands of the first plan; None for the default. The plans for fewer
            rows have the default.

    Raises:
        IllegalSchedule: The contraction cannot have the schedule.
    """
    if _has_dynamic_rows_alone(contraction, loop_sizes(elements, contraction.generic)):
        # The height of this plan's register block decides which row counts it is for.
        main = plan_of(contraction, elements, level, RowRange(1, most=None), schedule)
        if main is not None:
            height = main.schedule.mr
            ranges: list[RowRange] = []  # for fewer rows than a register block has
            if height > 1:
                ranges.append(RowRange(1, 1))
            if height > 2:
                ranges.append(RowRange(2, height - 1))
            skinny_plans = [plan_of(contraction, elements, level, r) for r in ranges]
            return [replace(main, row_range=RowRange(height, most=None)), *(p for p in skinny_plans if p is not None)]
    plan = plan_of(contraction, elements, level, schedule=schedule)
    return [] if plan is None else [plan]


def _has_dynamic_rows_alone(contraction: Contraction, sizes: Sequence[Index]) -> bool:
    """Return whether a contraction may have a plan for each range of row counts (see `variants`).

    It may if M is the only dynamic size, no other size is 0, and the index of M is that of a single axis of A.
    """
    a, m = contraction.a, contraction.m
    if m is None or isinstance(sizes[m], int):
        return False
    are_identities = [a.coordinates[p].is_identity(m) for p in a.positions_of(m)]
    return are_identities == [True] and all(isinstance(s, int) and s != 0 for d, s in enumerate(sizes) if d != m)


def plan_of(
    contraction: Contraction,
    elements: Elements,
    level: Level,
    row_range: RowRange | None = None,
    schedule: Schedule | None = None,
) -> Plan | None:
    """Return the plan of a contraction; None if its element types have no register block.

    Args:
        contraction: The contraction.
        elements: Tensors of its dispatch function.
        level: Vector registers, caches and instructions of the CPU.
        row_range: Values of a dynamic M that the plan is for; None if there is one plan for all.
        schedule: Register block, tiles and packed operands; None for the default.

    Raises:
        IllegalSchedule: The contraction cannot have the schedule.
    """
    sizes = tuple(s if isinstance(s, int) else None for s in loop_sizes(elements, contraction.generic))
    # For a single row count, M is static.
    if row_range is not None and row_range.least == row_range.most:
        sizes = tuple(row_range.least if d == contraction.m else s for d, s in enumerate(sizes))
    access = operand_access(contraction, level, sizes, row_range)
    if access is None:
        return None
    # The schedule: the default one for the problem, or the stated one if it is valid.
    problem, k = access.problem, sizes[contraction.k]
    if schedule is None:
        schedule = default_schedule(level, problem)
    elif reason := refusal(level, problem, schedule):
        raise IllegalSchedule(reason)
    # B as pages, blocks of rows that a table gathers: register blocks and chunks of K must not cross them.
    pages = None if schedule.pack_b else access.pages  # blocks read a packed B from its copy
    if pages is not None:
        schedule = within_pages(contraction, schedule, pages)
    inner, outer = _reductions(contraction, sizes, level, problem, schedule)
    return Plan(
        contraction=contraction,
        problem=problem,
        schedule=schedule,
        arithmetic=access.arithmetic,
        vectorizes_k=problem.vectorizes_k(schedule.pack_b),
        inner_reductions=inner,
        outer_reductions=outer,
        sums_in_registers=not outer and k is not None and schedule.kc >= k,
        sizes=sizes,
        row_range=row_range,
        panels=access.panels,
        b_in_half_precision=access.b_in_half_precision,
        prefetch_bytes=_prefetch_bytes(level, access, schedule),
        pages=pages,
        batched_dims=tuple(dims_without_b(contraction, sizes)) if schedule.batch > 1 else (),
    )


def _prefetch_bytes(level: Level, access: OperandAccess, schedule: Schedule) -> int:
    """Return how many bytes ahead of its reads of B a register block prefetches; 0 for no prefetching."""
    problem = access.problem
    if access.panels is not None and access.arithmetic.group == 1:
        row_bytes = schedule.nr * (problem.b.element_bytes or problem.sum_bytes)
        return prefetch_distance(level, schedule.mr, row_bytes)
    has_next_chunk = problem.k is not None and schedule.kc < problem.k  # of rows of B
    if has_next_chunk and not schedule.pack_b:
        return streaming_prefetch_distance(level, problem, schedule.kc)
    return 0


def _reductions(
    contraction: Contraction, sizes: Sizes, level: Level, problem: Problem, schedule: Schedule
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the inner reductions, which packed operands span, and the outer ones, which are loops around the packing.

    They are the reduced dimensions other than K, such as the rows and columns of a filter in a convolution. Outer are
    the reductions of dynamic size, and as many others, outermost first, as make the packed operands fit the cache.
    """
    inner = [d for d in contraction.reductions if sizes[d] is not None]
    outer = [d for d in contraction.reductions if sizes[d] is None]
    # With a batch, the tiles were chosen so that packed columns of B with all steps of K fit the cache.
    if schedule.batch == 1 and (schedule.pack_a or schedule.pack_b):
        # Tiles of B that are used once are packed for the first-level cache.
        is_converted = schedule.pack_b and uses_b_once(problem, schedule)
        half_of_packed = level.packed_bytes // 2  # A and B have equal shares
        available_bytes = level.converted_bytes if is_converted else half_of_packed

        def is_too_large() -> bool:
            """Return whether the larger packed factor, with the current `inner` reductions, exceeds its cache share."""
            extents = packed_extents(contraction, schedule, schedule.kc, sizes, inner)
            most_elements = max(_volume(factor, extents) for factor in (contraction.a, contraction.b))
            return problem.sum_bytes * most_elements > available_bytes

        while inner and is_too_large():
            outer.append(inner.pop(0))
    return tuple(inner), tuple(outer)


def packed_extents(
    contraction: Contraction, tiles: Tiles, kc: int, sizes: Sizes, inner_reductions: Sequence[int]
) -> dict[int, int]:
    """Return loop dimension -> its extent inside a packed operand, which has a tile of M and N, and `kc` steps of K.

    It has all indices of the reductions in `inner_reductions`, and one index of any other dimension.
    """
    extents = dict.fromkeys(range(len(sizes)), 1)
    extents.update({d: max(1, sizes[d] or 1) for d in inner_reductions})
    extents[contraction.k] = kc
    for dim, tile in ((contraction.m, tiles.mt), (contraction.n, tiles.nt)):
        if dim is not None:
            extents[dim] = tile
    return extents


def _volume(factor: Factor, extents: dict[int, int]) -> int:
    """Return the number of elements of a packed operand, in which the loop dimensions have the extents `extents`."""
    return prod(coordinate.extent(extents) for coordinate in factor.coordinates)
