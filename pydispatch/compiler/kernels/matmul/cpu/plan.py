"""Plan of a contraction on a CPU: types, tiles, and the operands that are packed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from xdsl.dialects import arith
from xdsl.dialects.builtin import BFloat16Type, IntegerAttr, TensorType
from xdsl.ir import Attribute, BlockArgument, OpResult, SSAValue

from pydispatch.compiler.kernel_ir.words import bit_width
from pydispatch.compiler.kernels.matmul.cpu.arithmetic import (
    Arithmetic,
    arithmetic_of,
    halves_of_b,
    is_packed_element,
)
from pydispatch.compiler.kernels.matmul.cpu.in_place import fetched_ahead
from pydispatch.compiler.kernels.matmul.cpu.problem import Operand, Problem
from pydispatch.compiler.kernels.matmul.cpu.schedule import (
    UNKNOWN_STEPS,
    Schedule,
    converts_once,
    default_schedule,
    refusal,
)
from pydispatch.compiler.kernels.matmul.cpu.tiles import MATRIX_ROWS, Level, Tiles
from pydispatch.compiler.kernels.matmul.match import Contraction, Factor
from pydispatch.compiler.kernels.matmul.panels import Panels, panels_of
from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.compiler.kernels.ops.elements import Elements
from pydispatch.compiler.kernels.ops.generics import loop_sizes
from pydispatch.compiler.tensor_ops.registry import source_of


@dataclass(frozen=True)
class Plan:
    """Plan by which the kernel of one contraction is generated."""

    c: Contraction
    problem: Problem
    schedule: Schedule
    arithmetic: Arithmetic
    rows_of_k: bool  # vectors lie along K, in which A and B are contiguous
    inside: tuple[int, ...]  # reductions within packed operands
    around: tuple[int, ...]  # reductions around the packing
    single: bool  # one packing per tile: sums stay in registers from the first to the last product
    sizes: tuple[int | None, ...]
    rows: Rows | None = None
    panels: Panels | None = None  # B is an argument in panels, and read there
    halves: SSAValue | None = None  # what B is widened from in registers, where it is read in place
    ahead: int = 0  # bytes between what blocks read of panels and what they fetch with it
    batched: tuple[int, ...] = ()  # outer dimensions at whose indices a workgroup uses the same packed columns of B

    @property
    def compute(self) -> Attribute:
        return self.arithmetic.compute

    @property
    def sums(self) -> Attribute:
        return self.arithmetic.sums

    @property
    def group(self) -> int:
        return self.arithmetic.group

    @property
    def a_in_place(self) -> bool:
        return not self.schedule.pack_a

    @property
    def b_in_place(self) -> bool:
        return not self.schedule.pack_b

    @property
    def tail(self) -> int:
        """Columns of the last block where B's last panel is not full, 0 where blocks are whole or move back."""
        n = None if self.c.n is None else self.sizes[self.c.n]
        ragged = self.panels is not None and n is not None and n % self.panels.layout.width
        return n % self.schedule.nr if ragged and n is not None else 0

    def fills(self, dim: int, size: Index, block: int) -> bool:
        """Return whether a dimension is known to have a whole block, so that the last one may move back over its
        neighbour.
        """
        if dim == self.c.n and self.tail:
            return False
        if isinstance(size, int):
            return size >= block
        return dim == self.c.m and self.rows is not None and self.rows.least >= block


@dataclass(frozen=True)
class Rows:
    """Range of row counts of A that a plan is for, when M is dynamic. most: None for no upper bound."""

    least: int
    most: int | None

    @property
    def typical(self) -> int:
        return self.least if self.most == self.least else MANY if self.most is None else FEW


MANY, FEW = 256, 4
"""Rows that a plan is made for where there are at least a block of them, and where there are less."""


def plans_of(
    contraction: Contraction, elements: Elements, level: Level, schedule: Schedule | None = None
) -> list[Plan]:
    """Return one plan; for rows that only the call knows up to three, first for a block and more, then for a single one
    and for less than a block. Empty for element types that have no block. schedule: of the first, or the only one.
    Raises IllegalSchedule.
    """
    sizes = loop_sizes(elements, contraction.generic)
    if contraction.m is not None and not isinstance(sizes[contraction.m], int):
        rest = [d for d in range(len(sizes)) if d != contraction.m]
        plain = [contraction.a.coordinates[p].is_plain(contraction.m) for p in contraction.a.where(contraction.m)]
        if plain == [True] and all(isinstance(sizes[d], int) and sizes[d] != 0 for d in rest):
            many = plan_of(contraction, elements, level, Rows(1, None), schedule)
            if many is not None:
                height = many.schedule.mr
                found = [replace(many, rows=Rows(height, None))]
                ranges = [Rows(1, 1), Rows(2, height - 1)] if height > 2 else [Rows(1, height - 1)] * (height > 1)
                found += [p for r in ranges if (p := plan_of(contraction, elements, level, r)) is not None]
                return found
    plan = plan_of(contraction, elements, level, schedule=schedule)
    return [] if plan is None else [plan]


def plan_of(
    contraction: Contraction,
    elements: Elements,
    level: Level,
    rows: Rows | None = None,
    schedule: Schedule | None = None,
) -> Plan | None:
    """Return the plan of a contraction, with its types and the given schedule or the default. None for element types
    that have no block; raises IllegalSchedule.
    """
    arithmetic = arithmetic_of(contraction, level)
    if arithmetic is None:
        return None
    sizes = tuple(s if isinstance(s, int) else None for s in loop_sizes(elements, contraction.generic))
    if rows is not None and rows.least == rows.most:
        sizes = tuple(rows.least if d == contraction.m else s for d, s in enumerate(sizes))
    grouped = arithmetic.group > 1
    halves = None if grouped else halves_of_b(contraction, level)
    panels = _panels(contraction, sizes, arithmetic, halves)
    if grouped and panels is None and _widens_for_few(contraction, sizes, rows, arithmetic):
        arithmetic = Arithmetic(arithmetic.sums, arithmetic.sums)
        halves = halves_of_b(contraction, level)
        panels = _panels(contraction, sizes, arithmetic, halves)
    problem = _problem(contraction, sizes, rows, arithmetic, panels)
    if halves is not None:
        problem = replace(problem, b=_widened(contraction, problem, halves, level))
    if schedule is None:
        schedule = default_schedule(level, problem)
    elif reason := refusal(level, problem, schedule):
        raise IllegalSchedule(reason)
    inside, around = (
        [d for d in contraction.reductions if sizes[d] is not None],
        [d for d in contraction.reductions if sizes[d] is None],
    )
    if schedule.batch == 1 and (schedule.pack_a or schedule.pack_b):
        extents = extents_of(contraction, schedule, schedule.kc, sizes, inside)
        room = level.near if schedule.pack_b and converts_once(problem, schedule) else level.room // 2
        while inside and problem.size * max(_volume(contraction.a, extents), _volume(contraction.b, extents)) > room:
            around.append(inside.pop(0))
            extents = extents_of(contraction, schedule, schedule.kc, sizes, inside)
    k = sizes[contraction.k]
    single = not around and k is not None and schedule.kc >= k
    rows_of_k = problem.runs_along_k(schedule.pack_b)
    dims = tuple(inside), tuple(around)
    width = schedule.nr * (problem.b.size or problem.size)
    ahead = 0 if panels is None or arithmetic.group > 1 else fetched_ahead(level, schedule.mr, width)
    batched = tuple(_repeated(contraction, sizes)) if schedule.batch > 1 else ()
    return Plan(
        contraction,
        problem,
        schedule,
        arithmetic,
        rows_of_k,
        *dims,
        single,
        sizes,
        rows,
        panels,
        halves,
        ahead,
        batched,
    )


def _repeated(contraction: Contraction, sizes: Sequence[int | None]) -> list[int]:
    """Return the outer dimensions of known size at whose indices B is the same; none where a reduction is not known."""
    known = all(sizes[d] is not None for d in contraction.reductions)
    return [d for d in contraction.outer if known and sizes[d] is not None and not contraction.b.where(d)]


def _widens_for_few(
    contraction: Contraction, sizes: Sequence[int | None], rows: Rows | None, arithmetic: Arithmetic
) -> bool:  # fmt: skip
    """Return whether elements are better widened than packed in groups: bringing groups of one column next to those of
    others takes longer than a few rows' products. 1x2048x2048 of bytes along K took 2,711 us in groups.
    """
    p = _problem(contraction, sizes, rows, Arithmetic(arithmetic.sums, arithmetic.sums))
    most = p.most or p.m or 0
    if isinstance(arithmetic.compute, BFloat16Type):
        return 0 < most < MATRIX_ROWS
    return p.converts_along_k and 0 < most <= FEW


class IllegalSchedule(Exception):
    """A schedule that a contraction cannot have; str() is the reason."""


def _problem(
    contraction: Contraction, sizes: Sequence[int | None], rows: Rows | None, arithmetic: Arithmetic,
    panels: Panels | None = None,
) -> Problem:  # fmt: skip
    """Return the properties of a contraction that decide its schedule."""
    compute, plain = arithmetic.compute, arithmetic.plain(contraction.acc)
    size = (bit_width(arithmetic.sums) or 64) // 8
    m = 1 if contraction.m is None else sizes[contraction.m] if rows is None else rows.typical
    narrow = (bit_width(arithmetic.compute) or 64) // 8
    in_rows = arithmetic.matrix_steps > 0 and _is_packed_row(contraction, sizes, arithmetic)
    least, most = (m or 0, m) if rows is None else (rows.least, rows.most)
    return Problem(
        size=size,
        m=m,
        n=1 if contraction.n is None else sizes[contraction.n],
        k=sizes[contraction.k],
        least=least,
        most=most,
        outer=prod(sizes[d] or 1 for d in contraction.outer),
        reductions=prod(sizes[d] or 1 for d in contraction.reductions),
        a=replace(_operand(contraction.a, contraction, True, contraction.m, narrow), size=narrow)
        if in_rows
        else _operand(
            contraction.a, contraction, plain and _in_place(contraction.a, contraction, compute), contraction.m, size
        ),
        b=_operand(
            contraction.b,
            contraction,
            panels is not None or (plain and _in_place(contraction.b, contraction, compute)),
            contraction.k,
            size,
        ),
        panel=0 if panels is None else panels.layout.width,
        group=arithmetic.group,
        matrix_steps=arithmetic.matrix_steps,
        repeated=prod(sizes[d] or 1 for d in _repeated(contraction, sizes)),
    )


def _operand(factor: Factor, contraction: Contraction, direct: bool, rows: int | None, size: int) -> Operand:
    """Return a factor whose rows lie along the dimension `rows`."""
    type_ = contraction.generic.inputs[factor.main].type
    stride = 0
    if isinstance(type_, TensorType) and rows is not None and (at := factor.where(rows)):
        after = type_.get_shape()[at[0] + 1 :]
        stride = 0 if min(after, default=1) < 0 else prod(after) * factor.coordinates[at[0]].of(rows) * size
    return Operand(direct, stride, factor.is_last(contraction.k), factor.is_last(contraction.n))


def _widened(contraction: Contraction, problem: Problem, halves: SSAValue, level: Level) -> Operand:
    """B where blocks widen it: read in panels, or in place along N. Blocks of more than a few rows read so little of
    rows in memory that are pages apart that each read waits: 13x4096x4096 in 8,370 us, not 5,930, but 4x4096x4096 in
    2,490, not 3,860, and 8x768x3072, from the third-level cache, in 153, not 230 (Zen 5)."""
    operand = _operand(contraction.b, contraction, True, contraction.k, HALF)
    cached = 0 if level.model.l3 is None else level.model.l3.bytes
    near = operand.stride <= level.model.page or 3 * operand.stride * (problem.k or UNKNOWN_STEPS) <= cached
    rows = (
        argument_of(halves) is not None and contraction.b.is_last(contraction.n) and (near or (problem.m or 0) <= FEW)
    )
    return replace(operand, direct=problem.panel > 0 or rows, size=HALF)


HALF = 2
"""Bytes of f16 and bf16."""


def argument_of(value: SSAValue) -> BlockArgument | None:
    """Return the argument that a value is, through ops that only state sizes."""
    value = source_of(value)
    return value if isinstance(value, BlockArgument) else None


def _in_place(factor: Factor, contraction: Contraction, compute: Attribute) -> bool:
    """Return whether a factor is an element of an argument and nothing else."""
    value = contraction.generic.inputs[factor.main]
    return (
        factor.direct and isinstance(value.type, TensorType) and value.type.element_type == compute
        and argument_of(value) is not None
    )  # fmt: skip


def _is_packed_row(contraction: Contraction, sizes: Sequence[int | None], arithmetic: Arithmetic) -> bool:
    """Return whether A is an argument whose elements, whole groups of K side by side, are multiplied as they are."""
    element, type_ = (
        contraction.generic.block.args[contraction.a.main],
        contraction.generic.inputs[contraction.a.main].type,
    )
    direct = (
        set(contraction.a.inputs) == {contraction.a.main} and isinstance(type_, TensorType) and type_.has_static_shape()
    )
    same = not arithmetic.a_offset and is_packed_element(
        contraction.a.value, element, arithmetic, arithmetic.unsigned_a
    )
    groups = contraction.a.is_last(contraction.k) and (sizes[contraction.k] or 1) % arithmetic.group == 0
    return direct and same and groups and argument_of(contraction.generic.inputs[contraction.a.main]) is not None


def _panels(
    contraction: Contraction, sizes: Sequence[int | None], arithmetic: Arithmetic, halves: SSAValue | None
) -> Panels | None:
    """Return the panels of columns that B lies in, as it is multiplied or as its `halves`."""
    panels = panels_of(contraction.generic.inputs[contraction.b.main] if halves is None else halves)
    if panels is None or contraction.n is None or contraction.b.where(contraction.n) != [panels.layout.axis]:
        return None
    layout = panels.layout
    plain = contraction.b.coordinates[layout.axis].is_plain(contraction.n)
    plain = plain and (
        (sizes[contraction.n] or 1) % layout.width == 0 or (layout.steps is None and sizes[contraction.n] is not None)
    )
    if layout.steps is None:
        return (
            panels
            if plain and (halves is not None or (arithmetic.plain(contraction.acc) and contraction.b.direct))
            else None
        )
    groups = layout.group == arithmetic.group and contraction.b.where(contraction.k) == [layout.steps]
    return panels if plain and groups and _is_packed(contraction, arithmetic) else None


def _is_packed(contraction: Contraction, arithmetic: Arithmetic) -> bool:
    """Return whether the elements of B's tensor are those that packing would make of the factor."""
    value, offset = contraction.b.value, 0
    if isinstance(value, OpResult) and isinstance(value.op, arith.AddiOp):
        constant = value.op.rhs.owner
        if isinstance(constant, arith.ConstantOp) and isinstance(constant.value, IntegerAttr):
            value, offset = value.op.lhs, constant.value.value.data
    element = contraction.generic.block.args[contraction.b.main]
    return is_packed_element(value, element, arithmetic, arithmetic.unsigned_b) and offset == arithmetic.b_offset


Extents = dict[int, int]


def extents_of(
    contraction: Contraction, tiles: Tiles, kc: int, sizes: Sequence[int | None], inside: Sequence[int]
) -> Extents:
    """Return how far each dimension runs inside a packed operand."""
    extents = dict.fromkeys(range(len(sizes)), 1)
    extents.update({d: max(1, sizes[d] or 1) for d in inside})
    extents[contraction.k] = kc
    for dim, tile in ((contraction.m, tiles.mt), (contraction.n, tiles.nt)):
        if dim is not None:
            extents[dim] = tile
    return extents


def _volume(factor: Factor, extents: Extents) -> int:
    return prod(sum(a * (extents[d] - 1) for d, a in c.terms) + 1 for c in factor.coordinates)


def counts(plan: Plan, build: Builder, sizes: Sequence[Index]) -> list[Index]:
    """Return the grid: outer dimensions, batches of those that are batched, then tiles of rows and columns."""
    c, tiles = plan.c, plan.schedule
    outer = [sizes[d] for d in c.outer if d not in plan.batched]
    batches = build.ceil_quotient(build.product([sizes[d] for d in plan.batched]), tiles.batch)
    rows = 1 if c.m is None else build.ceil_quotient(sizes[c.m], tiles.mt)
    columns = 1 if c.n is None else build.ceil_quotient(sizes[c.n], tiles.nt)
    return [*outer, batches, rows, columns]


def sizes_of(plan: Plan, sizes: Sequence[Index]) -> list[Index]:
    """Return the sizes of all dimensions where a plan holds."""
    known = plan.rows is not None and plan.rows.least == plan.rows.most
    return [plan.rows.least if known and d == plan.c.m and plan.rows else s for d, s in enumerate(sizes)]


def holds(plan: Plan, build: Builder, sizes: Sequence[Index]) -> SSAValue | bool:
    """Return whether A has at most as many rows as the plan is for; not for the plan of many rows, which
    has no limit.
    """
    assert plan.c.m is not None and plan.rows is not None and plan.rows.most is not None
    return build.less(sizes[plan.c.m], plan.rows.most + 1)


def groups(plans: Sequence[Plan], build: Builder, sizes: Sequence[Index]) -> Index:
    """Return the number of workgroups."""
    total, *few = (build.product(counts(p, build, sizes_of(p, sizes))) for p in plans)
    for plan, count in zip(reversed(plans[1:]), reversed(few), strict=True):
        condition = holds(plan, build, sizes)
        assert isinstance(condition, SSAValue)
        total = build.pure(arith.SelectOp(condition, build.value(count), build.value(total)))
    if len(plans) > 1 and plans[0].c.m is not None:  # without rows there is nothing to do
        total = build.times(total, build.least(sizes[plans[0].c.m], 1))
    return total
