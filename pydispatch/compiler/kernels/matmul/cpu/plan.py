"""How a contraction is done: types, tiles, and what is packed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import gcd, prod

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IntegerType,
    TensorType,
    i16,
    i32,
)
from xdsl.ir import Attribute, BlockArgument, SSAValue

from pydispatch.compiler.kernel_ir.words import bit_width
from pydispatch.compiler.kernels.matmul.cpu.tiles import Level, Tiles, ceil, choose
from pydispatch.compiler.kernels.matmul.match import Contraction, Factor, narrow_range
from pydispatch.compiler.kernels.matmul.panels import Panels, panels_of
from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.compiler.kernels.ops.elements import Elements
from pydispatch.compiler.kernels.ops.generics import loop_sizes
from pydispatch.compiler.tensor_ops.registry import source_of

ROW_IN_PLACE = 4096
"""Bytes between rows of B up to which it is read in place. Longer ones are a page each."""

CACHE_SETS, CACHE_WAYS = 1024, 16
"""Of a second-level cache. Rows of B at a power of two of bytes share few sets: on large pages, 1024 rows of 4 KiB ran
at 194 GFLOP/s in place and 235 packed. Twice the ways are fine, the rest is prefetched."""

SET_STRIDE = 2048
"""Rows of A that are a multiple of so many bytes apart share few cache sets: more than 8 of them are packed."""

PANEL = 512 << 10
"""Bytes of one panel of B, K steps long, that stay in the cache while the rows of a tile pass."""

FEW_ROWS = 64
"""Rows of A up to which a transposed B is read in place along K; for more, transposing it once pays."""

STREAMED = (4, 8, 5, 7, 6, 3)
"""Steps of K at a time for one or two rows: B passes once, by whole rows of the tile. Against a panel after the other
this took 36 us instead of 55 for 1x1024x1024, 14 instead of 17 for 1x784x512, 6.3 instead of 8.5 for 1x512x512."""

BOX = 1 << 20
"""Bytes of a packed operand; reductions that would make it larger run around the packing."""


@dataclass(frozen=True)
class Plan:
    """How one contraction is done. compute: the type of packed elements; sums: of accumulators."""

    c: Contraction
    tiles: Tiles
    compute: Attribute
    sums: Attribute
    pairs: bool
    rows_of_k: bool  # vectors lie along K: B is read in place, by rows that are contiguous in K
    a_in_place: bool
    b_in_place: bool
    inside: tuple[int, ...]  # reductions within packed operands
    around: tuple[int, ...]  # reductions around the packing
    single: bool  # one packing per tile: sums stay in registers from the first to the last product
    sizes: tuple[int | None, ...]
    rows: Rows | None = None
    panels: Panels | None = None  # B is an argument in panels, and read there

    def fills(self, dim: int, size: Index, block: int) -> bool:
        """Whether a dimension is known to have a whole block."""
        if isinstance(size, int):
            return size >= block
        return dim == self.c.m and self.rows is not None and self.rows.least >= block


@dataclass(frozen=True)
class Rows:
    """What is known of the rows of A where their number is not known while compiling: a plan holds for so many."""

    least: int
    most: int | None

    @property
    def typical(self) -> int:
        return self.least if self.most == self.least else MANY if self.most is None else FEW


MANY, FEW = 256, 4
"""Rows that a plan is made for where there are at least a block of them, and where there are less."""


def plans_of(c: Contraction, e: Elements, level: Level) -> list[Plan]:
    """One plan; for rows that only the call knows three: for a single one, for less than a block and for more."""
    sizes = loop_sizes(e, c.generic)
    if c.m is not None and not isinstance(sizes[c.m], int):
        rest = [d for d in range(len(sizes)) if d != c.m]
        plain = [c.a.coordinates[p].is_plain(c.m) for p in c.a.where(c.m)]
        if plain == [True] and all(isinstance(sizes[d], int) and sizes[d] != 0 for d in rest):
            many = plan_of(c, e, level, Rows(1, None))
            if many is not None:
                height = many.tiles.mr
                found = [replace(many, rows=Rows(height, None))]
                ranges = [Rows(1, 1), Rows(2, height - 1)] if height > 2 else [Rows(1, height - 1)] * (height > 1)
                found += [p for r in ranges if (p := plan_of(c, e, level, r)) is not None]
                return found
    plan = plan_of(c, e, level)
    return [] if plan is None else [plan]


def plan_of(c: Contraction, e: Elements, level: Level, rows: Rows | None = None) -> Plan | None:
    """Chooses types, tiles and what is read in place. None for element types that have no block."""
    types = _types(c)
    if types is None:
        return None
    compute, sums, pairs = types
    sizes = tuple(s if isinstance(s, int) else None for s in loop_sizes(e, c.generic))
    if rows is not None and rows.least == rows.most:
        sizes = tuple(rows.least if d == c.m else s for d, s in enumerate(sizes))
    m = 1 if c.m is None else sizes[c.m] if rows is None else rows.typical
    n = 1 if c.n is None else sizes[c.n]
    k = sizes[c.k]
    plain = compute == c.acc == sums and not pairs
    panels = _panels(c, sizes) if plain else None
    b_here = plain and (panels is not None or _in_place(c.b, c, compute))
    a_here = plain and _in_place(c.a, c, compute)
    rows_of_k = (
        b_here and panels is None and c.b.is_last(c.k) and c.a.is_last(c.k) and m is not None and n is not None
        and (m <= 4 or (m <= FEW_ROWS and (k or 0) >= 64)) and not c.b.is_last(c.n)
    )  # fmt: skip
    outer = prod(sizes[d] or 1 for d in c.outer)
    known = [d for d in c.reductions if sizes[d] is not None]
    reductions = prod(sizes[d] or 1 for d in known)
    size = (bit_width(sums) or 64) // 8
    tiles = choose(level, size, m, n, k, outer, reductions, panel=None if panels is None else panels.width)
    if rows_of_k:
        assert m is not None and n is not None
        mr = max(1, min(m, 4))
        nr = max(1, min(n, 8 // mr if m <= 4 else (level.accumulators - 4) // 4))
        per_group = max(1, min(n, (1 << 16) // max(1, k or 1024)))
        tiles = Tiles(mr, nr, mr * -(-max(1, m) // mr), max(nr, per_group // nr * nr), tiles.kc)
    elif b_here and panels is None:
        b_here = c.b.is_last(c.n) and n is not None and m is not None and (
            m <= 4 * tiles.mr or lies_well(n * size, k or 1024))  # fmt: skip
        if b_here and n is not None and n < tiles.nr:
            tiles = choose(level, size, m, n, k, outer, reductions, padded=False)
    if not b_here:
        tiles = choose(level, size, m, n, k, outer, reductions, packed=True)
    loose = rows is not None and rows.most is not None and rows.most != rows.least
    if loose and c.m is not None and rows is not None and rows.most is not None:
        tiles = replace(tiles, mt=ceil(rows.most, tiles.mr) * tiles.mr)
    a_here = a_here and not loose and m is not None and m >= tiles.mr and (tiles.mr <= 8 or not _crowded(c, size))
    kc = tiles.kc
    long = k is not None and k > 8 * len(STREAMED)
    streamed = b_here and not rows_of_k and panels is None and m is not None and m <= 2 and long
    if streamed and k is not None and n is not None:
        kc = next((steps for steps in STREAMED if k % steps == 0), STREAMED[0])
        width = level.width // size
        wide = max(tiles.nr, (2 * width if n >= 4 * width else width) // tiles.nr * tiles.nr)
        tiles = Tiles(tiles.mr, tiles.nr, tiles.mt, min(wide, -(-max(n, 1) // tiles.nr) * tiles.nr), kc)
    elif a_here and b_here and k is not None and (k * tiles.nr * size <= PANEL or (m or 0) <= tiles.mr):
        kc = max(1, k)
    inside, around = list(known), [d for d in c.reductions if sizes[d] is None]
    if not (a_here and b_here):
        extents = extents_of(c, tiles, kc, sizes, inside)
        while inside and size * max(_volume(c.a, extents), _volume(c.b, extents)) > BOX:
            around.append(inside.pop(0))
            extents = extents_of(c, tiles, kc, sizes, inside)
    single = not around and k is not None and kc >= k
    tiles = Tiles(tiles.mr, tiles.nr, tiles.mt, tiles.nt, kc + kc % 2 if pairs else kc)
    dims = tuple(inside), tuple(around)
    return Plan(c, tiles, compute, sums, pairs, rows_of_k, a_here, b_here, *dims, single, sizes, rows, panels)


def _types(c: Contraction) -> tuple[Attribute, Attribute, bool] | None:
    """(type of packed elements, type of sums, whether i16 pairs do)."""
    if isinstance(c.acc, Float16Type | BFloat16Type):
        return Float32Type(), Float32Type(), False
    if isinstance(c.acc, Float32Type | Float64Type):
        return c.acc, c.acc, False
    if not isinstance(c.acc, IntegerType) or c.acc.width.data not in (8, 16, 32, 64):
        return None
    if c.acc == i32:
        ranges = [narrow_range(c, factor) for factor in (c.a, c.b)]
        short = all(r is not None and r[0] >= -(1 << 15) and r[1] < 1 << 15 for r in ranges)
        plain = all(any(f.coordinates[p].is_plain(c.k) for p in f.where(c.k)) for f in (c.a, c.b))
        if short and plain and c.n is not None and c.b.coordinates[c.b.where(c.n)[0]].is_plain(c.n):
            return i16, i32, True
    return c.acc, c.acc, False


def argument_of(value: SSAValue) -> BlockArgument | None:
    """The argument that a value is, through ops that only state sizes."""
    value = source_of(value)
    return value if isinstance(value, BlockArgument) else None


def _in_place(factor: Factor, c: Contraction, compute: Attribute) -> bool:
    """Whether a factor is an element of an argument and nothing else."""
    value = c.generic.inputs[factor.main]
    return (
        factor.direct and isinstance(value.type, TensorType) and value.type.element_type == compute
        and argument_of(value) is not None
    )  # fmt: skip


def _panels(c: Contraction, sizes: Sequence[int | None]) -> Panels | None:
    """The panels of columns that B lies in."""
    panels = panels_of(c.generic.inputs[c.b.main])
    if panels is None or not c.b.direct or c.n is None or c.b.where(c.n) != [panels.axis]:
        return None
    whole = c.b.coordinates[panels.axis].is_plain(c.n) and (sizes[c.n] or 1) % panels.width == 0
    return panels if whole else None


def lies_well(stride: int, rows: int) -> bool:
    """Whether rows of B so many bytes apart are read in place: they are short, and fit the sets of the cache that they
    fall into."""
    if stride > ROW_IN_PLACE:
        return False
    return stride % 64 != 0 or rows <= 2 * CACHE_WAYS * CACHE_SETS // gcd(stride // 64, CACHE_SETS)


def _crowded(c: Contraction, size: int) -> bool:
    """Whether rows of A, read in place, fall into few cache sets."""
    type_ = c.generic.inputs[c.a.main].type
    assert isinstance(type_, TensorType)
    at = c.a.where(c.m)[0] if c.m is not None else 0
    stride = prod(type_.get_shape()[at + 1 :]) * size
    return stride > 0 and stride % SET_STRIDE == 0


Extents = dict[int, int]


def extents_of(c: Contraction, tiles: Tiles, kc: int, sizes: Sequence[int | None], inside: Sequence[int]) -> Extents:
    """How far each dimension runs inside a packed operand."""
    extents = dict.fromkeys(range(len(sizes)), 1)
    extents.update({d: max(1, sizes[d] or 1) for d in inside})
    extents[c.k] = kc
    for dim, tile in ((c.m, tiles.mt), (c.n, tiles.nt)):
        if dim is not None:
            extents[dim] = tile
    return extents


def _volume(factor: Factor, extents: Extents) -> int:
    return prod(sum(a * (extents[d] - 1) for d, a in c.terms) + 1 for c in factor.coordinates)


def counts(plan: Plan, build: Builder, sizes: Sequence[Index]) -> list[Index]:
    """The grid: outer dimensions, then tiles of rows and columns."""
    c, tiles = plan.c, plan.tiles
    rows = 1 if c.m is None else build.ceil_quotient(sizes[c.m], tiles.mt)
    columns = 1 if c.n is None else build.ceil_quotient(sizes[c.n], tiles.nt)
    return [*(sizes[d] for d in c.outer), rows, columns]


def sizes_of(plan: Plan, sizes: Sequence[Index]) -> list[Index]:
    """The sizes of all dimensions where a plan holds."""
    known = plan.rows is not None and plan.rows.least == plan.rows.most
    return [plan.rows.least if known and d == plan.c.m and plan.rows else s for d, s in enumerate(sizes)]


def holds(plan: Plan, build: Builder, sizes: Sequence[Index]) -> SSAValue | bool:
    """Whether the rows of A are as many as the plan is for, if it is not the one for many."""
    assert plan.c.m is not None and plan.rows is not None and plan.rows.most is not None
    return build.less(sizes[plan.c.m], plan.rows.most + 1)


def groups(plans: Sequence[Plan], build: Builder, sizes: Sequence[Index]) -> Index:
    """The number of workgroups."""
    total, *few = (build.product(counts(p, build, sizes_of(p, sizes))) for p in plans)
    for plan, count in zip(reversed(plans[1:]), reversed(few), strict=True):
        condition = holds(plan, build, sizes)
        assert isinstance(condition, SSAValue)
        total = build.pure(arith.SelectOp(condition, build.value(count), build.value(total)))
    if len(plans) > 1 and plans[0].c.m is not None:  # without rows there is nothing to do
        total = build.times(total, build.least(sizes[plans[0].c.m], 1))
    return total
