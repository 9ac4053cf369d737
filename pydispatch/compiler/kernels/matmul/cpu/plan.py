"""Plan of a contraction on a CPU: its problem, schedule and arithmetic, and the treatment of its operands; immutable.

`variants` makes one plan, or up to three where only the call knows the number of rows: for at least one register block,
for a single row, and for less than a block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from xdsl.dialects.builtin import BFloat16Type
from xdsl.ir import Attribute, SSAValue

from pydispatch.compiler.kernels.matmul.cpu.arithmetic import (
    Arithmetic,
    arithmetic_of,
    half_precision_b,
)
from pydispatch.compiler.kernels.matmul.cpu.in_place import (
    MAX_SINGLE_USE_ROWS,
    Sizes,
    half_operand,
    has_packed_rows,
    is_argument_element,
    operand_of,
    paged_operand,
    panels_of_b,
)
from pydispatch.compiler.kernels.matmul.cpu.pages import pages_in_place, within_pages
from pydispatch.compiler.kernels.matmul.cpu.problem import Problem, prefetch_distance
from pydispatch.compiler.kernels.matmul.cpu.schedule import (
    Schedule,
    default_schedule,
    refusal,
    uses_b_once,
)
from pydispatch.compiler.kernels.matmul.cpu.streaming import streaming_prefetch_distance
from pydispatch.compiler.kernels.matmul.cpu.tiles import MATRIX_ROWS, Level, Tiles
from pydispatch.compiler.kernels.matmul.gathered import GatheredPages
from pydispatch.compiler.kernels.matmul.match import Contraction, Factor
from pydispatch.compiler.kernels.matmul.panels import Panels
from pydispatch.compiler.kernels.ops.bits import bits_of
from pydispatch.compiler.kernels.ops.builder import Index
from pydispatch.compiler.kernels.ops.elements import Elements
from pydispatch.compiler.kernels.ops.generics import loop_sizes

ASSUMED_ROWS, ASSUMED_SKINNY_ROWS = 256, 4
"""Row counts that tiles are chosen for if M is dynamic: if there is at least a register block of rows, and if less."""


class IllegalSchedule(Exception):
    """A schedule that a contraction cannot have; str() is the reason."""


@dataclass(frozen=True)
class RowRange:
    """The values of a dynamic M, the number of rows of A, that a plan is for: `least` to `most`, both included.

    `most` is None for no upper bound.
    """

    least: int
    most: int | None

    @property
    def assumed(self) -> int:
        """The number of rows that tiles are chosen for: the only one in the range, else an assumed one."""
        if self.most == self.least:
            return self.least
        return ASSUMED_ROWS if self.most is None else ASSUMED_SKINNY_ROWS


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
        """The number of columns of the last block if an argument's last panel of B does not fill it; 0 otherwise."""
        n = None if self.contraction.n is None else self.sizes[self.contraction.n]
        if self.panels is None or n is None or n % self.panels.layout.width == 0:
            return 0
        return n % self.schedule.nr  # nr divides the width of a panel

    def last_block_overlaps(self, dim: int, size: Index, block: int) -> bool:
        """Return whether the last of the register blocks along a dimension begins early enough to be whole.

        It then computes some elements of the block before it again. It is so if the dimension, whose size is `size`, is
        known to have at least `block` indices. Otherwise it is partial, and so it is in an argument's partial panel.
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
    a register block, for 1 row, and for 2 to `mr` - 1 rows.

    Args:
        contraction: The contraction.
        elements: Tensors of its dispatch function.
        level: The CPU.
        schedule: Schedule of the first plan; None for the default.

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
    """Return whether M is the only dynamic size, no other size is 0, and the index of M indexes a single axis of A."""
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
        level: The CPU.
        row_range: Values of a dynamic M that the plan is for; None if there is one plan for all.
        schedule: Register block, tiles and packed operands; None for the default.

    Raises:
        IllegalSchedule: The contraction cannot have the schedule.
    """
    arithmetic = arithmetic_of(contraction, level)
    if arithmetic is None:
        return None
    sizes = tuple(s if isinstance(s, int) else None for s in loop_sizes(elements, contraction.generic))
    if row_range is not None and row_range.least == row_range.most:
        sizes = tuple(row_range.least if d == contraction.m else s for d, s in enumerate(sizes))
    # Only products of single steps of K widen B from half precision.
    b_in_half_precision = None if arithmetic.group > 1 else half_precision_b(contraction, level)
    panels = panels_of_b(contraction, sizes, arithmetic, b_in_half_precision)
    if arithmetic.group > 1 and panels is None and _pays_ungrouped(contraction, sizes, row_range, arithmetic):
        arithmetic = _without_groups(arithmetic)
        b_in_half_precision = half_precision_b(contraction, level)
        panels = panels_of_b(contraction, sizes, arithmetic, b_in_half_precision)
    problem = _problem(contraction, sizes, row_range, arithmetic, panels)
    if b_in_half_precision is not None:
        problem = replace(problem, b=half_operand(contraction, problem, b_in_half_precision, level))
    # B cannot be in both panels and pages: panels are in an argument, and pages are gathered.
    pages = pages_in_place(contraction, problem.m, arithmetic, level)
    if pages is not None and not problem.b.is_readable_in_place:
        problem = replace(problem, b=paged_operand(contraction, pages, problem.sum_bytes))
    if schedule is None:
        schedule = default_schedule(level, problem)
    elif reason := refusal(level, problem, schedule):
        raise IllegalSchedule(reason)
    pages = None if schedule.pack_b else pages  # blocks read a packed B from its copy
    if pages is not None:
        schedule = within_pages(contraction, schedule, pages)
    inner, outer = _reductions(contraction, sizes, level, problem, schedule)
    k = sizes[contraction.k]
    row_bytes = schedule.nr * (problem.b.element_bytes or problem.sum_bytes)
    prefetch_bytes = 0
    if panels is not None and arithmetic.group == 1:
        prefetch_bytes = prefetch_distance(level, schedule.mr, row_bytes)
    elif k is not None and schedule.kc < k and not schedule.pack_b:  # only then is there a next chunk of rows of B
        prefetch_bytes = streaming_prefetch_distance(level, problem, schedule.kc)
    return Plan(
        contraction=contraction,
        problem=problem,
        schedule=schedule,
        arithmetic=arithmetic,
        vectorizes_k=problem.vectorizes_k(schedule.pack_b),
        inner_reductions=inner,
        outer_reductions=outer,
        sums_in_registers=not outer and k is not None and schedule.kc >= k,
        sizes=sizes,
        row_range=row_range,
        panels=panels,
        b_in_half_precision=b_in_half_precision,
        prefetch_bytes=prefetch_bytes,
        pages=pages,
        batched_dims=tuple(_dims_without_b(contraction, sizes)) if schedule.batch > 1 else (),
    )


def _reductions(
    contraction: Contraction, sizes: Sizes, level: Level, problem: Problem, schedule: Schedule
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the inner reductions, which packed operands span, and the outer ones, which are loops around the packing.

    Outer are the reductions of dynamic size, and as many others, outermost first, as make the packed operands fit the
    cache.
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


def _without_groups(grouped: Arithmetic) -> Arithmetic:
    """Return the arithmetic that converts operands to the type of the sums and multiplies single steps of K."""
    return Arithmetic(compute=grouped.sum_type, sum_type=grouped.sum_type)


def _dims_without_b(contraction: Contraction, sizes: Sizes) -> list[int]:
    """Return the outer dimensions of static size that B does not depend on; none if a reduction has a dynamic size."""
    if any(sizes[d] is None for d in contraction.reductions):
        return []
    return [d for d in contraction.outer if sizes[d] is not None and not contraction.b.positions_of(d)]


def _pays_ungrouped(contraction: Contraction, sizes: Sizes, row_range: RowRange | None, grouped: Arithmetic) -> bool:
    """Return whether widening the elements is faster than packing them in groups of steps of K.

    It is for few rows of A: interleaving the groups of B's columns takes longer than their products. 1x2048x2048 of
    bytes along K took 2,711 us in groups.
    """
    problem = _problem(contraction, sizes, row_range, _without_groups(grouped))
    most_rows = problem.max_rows or problem.m or 0  # 0: unknown, or no rows
    if isinstance(grouped.compute, BFloat16Type):  # pairs of steps pay where rows fill a block of matrix registers
        return 0 < most_rows < MATRIX_ROWS
    return problem.vectorizes_packed_k and 0 < most_rows <= MAX_SINGLE_USE_ROWS


def _problem(
    contraction: Contraction,
    sizes: Sizes,
    row_range: RowRange | None,
    arithmetic: Arithmetic,
    panels: Panels | None = None,
) -> Problem:
    """Return the properties of a contraction that determine its schedule.

    `row_range` bounds a dynamic M; None for a static one, or all row counts. `panels` are those that B is read in.
    """
    m = 1 if contraction.m is None else sizes[contraction.m]
    m = m if row_range is None else row_range.assumed  # if M is dynamic
    sum_bytes, packed_bytes = (bits_of(type_) // 8 for type_ in (arithmetic.sum_type, arithmetic.compute))
    in_place = arithmetic.reads_in_place(contraction.acc)
    if arithmetic.matrix_steps > 0 and has_packed_rows(contraction, sizes, arithmetic):
        # Matrix registers load rows of A from an argument, in the packed type, which is shorter than sums.
        a = replace(
            operand_of(
                contraction.a,
                contraction,
                is_readable_in_place=True,
                rows=contraction.m,
                bytes_in_memory=packed_bytes,
            ),
            element_bytes=packed_bytes,
        )
    else:
        is_a_in_place = in_place and is_argument_element(contraction.a, contraction, arithmetic.compute)
        a = operand_of(
            contraction.a,
            contraction,
            is_readable_in_place=is_a_in_place,
            rows=contraction.m,
            bytes_in_memory=sum_bytes,
        )
    is_b_in_place = panels is not None or (
        in_place and is_argument_element(contraction.b, contraction, arithmetic.compute)
    )
    return Problem(
        sum_bytes=sum_bytes,
        m=m,
        n=1 if contraction.n is None else sizes[contraction.n],
        k=sizes[contraction.k],
        min_rows=(m or 0) if row_range is None else row_range.least,
        max_rows=m if row_range is None else row_range.most,
        outer=prod(sizes[d] or 1 for d in contraction.outer),  # dynamic sizes count as 1
        reductions=prod(sizes[d] or 1 for d in contraction.reductions),
        a=a,
        b=operand_of(
            contraction.b,
            contraction,
            is_readable_in_place=is_b_in_place,
            rows=contraction.k,
            bytes_in_memory=sum_bytes,
        ),
        panel_width=0 if panels is None else panels.layout.width,
        group=arithmetic.group,
        matrix_steps=arithmetic.matrix_steps,
        b_uses=prod(sizes[d] or 1 for d in _dims_without_b(contraction, sizes)),
    )


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
