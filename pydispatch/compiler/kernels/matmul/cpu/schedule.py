"""The free choices of a contraction's kernel as a value: the default for a CPU, and which others are legal.

A dispatch function may carry one in the attribute `pydispatch.schedule` (docs/ir.md), which replaces the default.
"""

from __future__ import annotations

from dataclasses import MISSING, astuple, dataclass, fields, replace

from xdsl.dialects import func
from xdsl.dialects.builtin import BoolAttr, DictionaryAttr, IntegerAttr, i64
from xdsl.ir import Attribute

from pydispatch.compiler.kernels.matmul.cpu.in_place import a_in_place, b_in_place, b_stays
from pydispatch.compiler.kernels.matmul.cpu.problem import FEW_ROWS, Problem, few_rows
from pydispatch.compiler.kernels.matmul.cpu.streams import streamed, streams
from pydispatch.compiler.kernels.matmul.cpu.tiles import GROUPS, MATRIX_ROWS, Level, Tiles, ceil, choose
from pydispatch.errors import CompileError
from pydispatch.ir.core.locations import location_of

SCHEDULE = "pydispatch.schedule"
"""The attribute of a dispatch function with the schedule of its contraction."""


UNKNOWN_STEPS = 1024
"""Steps of K that are assumed where their number is not known."""

BLOCKS_CONVERTED = 4
"""Register blocks whose columns of B are converted side by side. Against two of them: 4x4096x4096 in 1175 us, not 1210;
1x4096x4096 in 721 us, not 769; four times as many leave no parts for several workers."""

WIDTH_COMPUTED = 64
"""Columns of B along K that share what is computed of A."""

BYTE_PAIRS = 8
"""Steps of K that are multiplied at once where two rows are, too."""

LARGEST = 16 << 20
"""Bytes of a packed operand, and of the sums of a tile, in a schedule that is given."""


@dataclass(frozen=True)
class Schedule(Tiles):
    """Tiles, and which operands are packed: copied into workgroup memory in the order of the blocks. Others are read
    in place. batch: tiles that a workgroup computes with the same packed columns of B, at so many indices of the outer
    dimensions that B does not have. The sums of f32 and f64 do not depend on it, unless vectors lie along K, in a
    transposed B."""

    pack_a: bool
    pack_b: bool
    batch: int = 1

    def attribute(self) -> DictionaryAttr:
        """Return the value of `pydispatch.schedule`."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return DictionaryAttr(
            {n: BoolAttr.from_bool(v) if isinstance(v, bool) else IntegerAttr(v, i64) for n, v in values.items()}
        )


def default_schedule(level: Level, p: Problem) -> Schedule:
    """Return the schedule of a contraction that states none."""
    few_passes = p.b_in_place and not p.panel and not p.along_k and not _keeps_b(level, p)
    whole_rows = streams(level, p)
    pack_b = not (whole_rows or (p.b_in_place and (p.panel or _reads_b_well(level, p, few_passes))))
    few_passes = few_passes and not pack_b
    along_k = p.runs_along_k(pack_b)
    panel = p.panel or None
    rows = MATRIX_ROWS // 2 if p.few and p.matrix_steps else p.m
    sizes = p.size, rows, p.n, p.k, p.outer, p.reductions
    forms = {"even": p.group == BYTE_PAIRS, "matrices": p.matrix_steps > 0}
    tiles = choose(level, *sizes, packed=pack_b, panel=panel, few_passes=few_passes, **forms)
    if not (pack_b or along_k or _reads_a(level, p, tiles.mr)):
        tiles = choose(level, *sizes, panel=panel, few_passes=few_passes, packs_a=True, **forms)
    if along_k:
        tiles = _tiles_along_k(level, p, tiles.kc)
    if pack_b and (along_k or converts_once(p, tiles)):
        tiles = _converted_in_parts(level, p, tiles, along_k)
    elif not along_k and not pack_b and not p.panel and p.n is not None and p.n < tiles.nr:
        tiles = choose(level, *sizes, padded=False, few_passes=few_passes)
    elif pack_b and p.group == 1 and p.n and 2 * p.n * p.size <= level.vector:  # a shorter vector takes fewer cycles
        short = max(16 // p.size, 1 << (p.n - 1).bit_length())
        tiles = replace(tiles, nr=short, nt=short)
    mr, nr, mt, nt, kc = tiles.mr, tiles.nr, tiles.mt, tiles.nt, tiles.kc
    if p.few and p.most is not None:
        mt = ceil(p.most, mr) * mr
    pack_a = not _reads_a(level, p, mr)
    if whole_rows:
        mr, nr, mt, nt, kc = astuple(streamed(level, p, tiles))
        pack_a = not p.a_in_place
    elif not pack_a and not pack_b and p.k is not None and (p.k * nr * p.size <= level.panel or (p.m or 0) <= mr):
        kc = max(1, p.k)
    unit = p.group * max(1, p.matrix_steps)
    schedule = Schedule(mr, nr, mt, nt, ceil(kc, unit) * unit, pack_a, pack_b)
    return schedule if along_k or not pack_b else _packed_once(level, p, schedule)


def _packed_once(level: Level, p: Problem, s: Schedule) -> Schedule:
    """Return a schedule for tiles of few rows, with columns of B, all their steps of K, that are packed once for
    several tiles and stay in the second-level cache. The same schedule where they do not fit, or no tiles share them.
    """
    if not (p.m and p.n and p.k and p.reductions) or p.few or p.repeated == 1 or p.m > s.mt:
        return s
    kc, columns = ceil(p.k, p.group) * p.group, ceil(p.n, s.nr)
    blocks = min(columns, 3 * level.model.l2.share // 4 // (p.size * s.nr * kc * p.reductions))
    batch = min(p.repeated, ceil(2 * level.height, p.m))
    if blocks == 0 or batch == 1:
        return s
    for groups, work in GROUPS:
        while p.m * batch * blocks * s.nr * kc * p.reductions > work * 2:
            if p.outer // p.repeated * ceil(p.repeated, batch) * ceil(columns, blocks) >= groups:
                break
            if blocks > 1:
                blocks = ceil(blocks, 2)
            elif p.m * batch > level.height:
                batch = ceil(batch, 2)
            else:
                break
    nt = s.nr * ceil(columns, ceil(columns, blocks))
    return replace(s, nt=nt, kc=kc, batch=ceil(p.repeated, ceil(p.repeated, batch)))


def _reads_a(level: Level, p: Problem, mr: int) -> bool:
    """Return whether blocks of mr rows read A in place."""
    return p.a_in_place and (p.m or 0) >= mr and a_in_place(level, mr, p.a.stride)


def _reads_b_well(level: Level, p: Problem, few_passes: bool) -> bool:
    """Return whether it pays to read B in place, where that is possible."""
    assert p.m is not None and p.n is not None
    if p.along_k:
        return few_rows(p) or (2 * p.n * p.size <= level.vector and (p.k or 0) >= 64)  # columns are half a vector
    tiles = choose(level, p.size, p.m, p.n, p.k, p.outer, p.reductions, few_passes=few_passes)
    return b_in_place(level, p.m, tiles.mr, *_panel(p, tiles))


def _keeps_b(level: Level, p: Problem) -> bool:
    """Return whether a panel of B stays in a cache when it is read in place."""
    return b_stays(level, *_panel(p, choose(level, p.size, p.m, p.n, p.k, p.outer, p.reductions)))


def _panel(p: Problem, tiles: Tiles) -> tuple[int, int, int]:
    """(bytes of a row, bytes between rows, rows) of a panel of B where it lies."""
    assert p.n is not None
    return min(tiles.nr, p.n) * (p.b.size or p.size), p.b.stride, (p.k or UNKNOWN_STEPS) * p.reductions


def converts_once(p: Problem, tiles: Tiles) -> bool:
    """Return whether each element of B is computed for a single block of rows."""
    return p.group == 1 and not p.b.direct and p.n is not None and 0 < (p.most or p.m or 0) <= tiles.mr


def _converted_in_parts(level: Level, p: Problem, tiles: Tiles, along_k: bool) -> Tiles:
    """Return tiles with parts of B that stay in the first cache between converting and multiplying them: whole columns
    of a block where they lie along K, else short rows, as wide as leaves parts for several workers.
    """
    assert p.n is not None
    most = level.near // p.size
    if along_k:
        nt = tiles.nr if p.a.direct else tiles.nr * ceil(WIDTH_COMPUTED, tiles.nr)
        kc = max(64, most // tiles.nr // 64 * 64)
        return replace(tiles, nt=nt, kc=kc if p.k is None or p.k > 2 * kc else max(1, p.k))
    nt = tiles.nr * max(1, min(ceil(p.n, tiles.nr), BLOCKS_CONVERTED))
    kc = max(4, most // nt // 4 * 4)
    return replace(tiles, nt=nt, kc=min(kc, max(1, p.k or kc)))


def _tiles_along_k(level: Level, p: Problem, kc: int) -> Tiles:
    """Return blocks whose vectors lie along K: mr rows of A times nr columns of B. One or two rows stream B, which few
    columns at a time do faster. In 16 sums, not 8, 1x4096x4096 takes 1.44x as long on Zen 5, 2x4096x4096 1.05x,
    3x2048x2048 0.86x, 4x4096x1024 0.79x, 4x512x4096 0.85x.
    """
    assert p.m is not None and p.n is not None
    mr = max(1, min(p.m, 4))
    sums = 16 if mr > 2 and level.accumulators >= 20 else 8
    nr = max(1, min(p.n, sums // mr if p.m <= 4 else (level.accumulators - 4) // 4))
    per_group = max(1, min(p.n, (1 << 16) // max(1, p.k or 1024)))
    rows = min(max(1, p.m), max(FEW_ROWS, level.height))
    return Tiles(mr, nr, mr * ceil(rows, mr), max(nr, per_group // nr * nr), kc)


def refusal(level: Level, p: Problem, s: Schedule) -> str | None:
    """Return why a schedule is not valid for a contraction, None where it is."""
    if min(s.mr, s.nr, s.mt, s.nt, s.kc) < 1:
        return "sizes are at least 1"
    if s.mt % s.mr or s.nt % s.nr:
        return f"the tile of {s.mt}x{s.nt} is not made of whole register blocks of {s.mr}x{s.nr}"
    along_k = p.runs_along_k(s.pack_b)
    registers = s.mr * (s.nr if along_k else ceil(s.nr * p.size, level.vector))
    if p.matrix_steps and max(s.mr, s.nr) > MATRIX_ROWS:
        return f"matrix registers hold blocks of {MATRIX_ROWS}x{MATRIX_ROWS}, not of {s.mr}x{s.nr}"
    if not p.matrix_steps and registers > level.registers:
        return f"the sums of a block of {s.mr}x{s.nr} take {registers} vector registers of {level.registers}"
    if s.batch > 1 and not (s.pack_b and p.k is not None and s.kc >= p.k and s.batch <= p.repeated):
        return (f"a batch of {s.batch} shares packed columns of B with all steps of K, and is at most as large as the "
                f"outer dimensions that B does not have, {p.repeated}")  # fmt: skip
    if s.kc % p.group:
        return f"{p.group} steps of K are multiplied at once, and kc = {s.kc} is not a multiple of it"
    if reason := _unreadable(p, s):
        return reason
    steps = s.kc * p.reductions if s.batch > 1 else s.kc
    largest = p.size * max(s.mt * s.nt, s.pack_a * s.mt * steps, s.pack_b * s.nt * steps)
    if largest > LARGEST:
        return f"a workgroup needs {largest} bytes for an operand or its sums, the limit is {LARGEST}"
    return None


def _unreadable(p: Problem, s: Schedule) -> str | None:
    """Return why a schedule cannot pack or read in place the operands that it says, None where it can."""
    if not s.pack_a and not (p.a_in_place and (p.m or 0) >= s.mr):
        return "A cannot be read in place: it is computed, has fewer rows than a block, or an unknown number of them"
    if not s.pack_b and not p.b_in_place:
        return "B cannot be read in place: it is computed, of unknown sizes, or contiguous along neither N nor K"
    if s.pack_b and p.panel:
        return "B lies in panels, which are read in place"
    if p.panel and p.panel % s.nr:
        return f"B lies in panels of {p.panel} columns, which are not made of whole blocks of {s.nr}"
    if not s.pack_b and (p.n or 0) < s.nr:
        return f"B cannot be read in place: it has {p.n} columns, fewer than a block"
    return None


def schedule_of(source: func.FuncOp) -> Schedule | None:
    """Return the schedule that a dispatch function states. CompileError for a malformed one."""
    stated = source.attributes.get(SCHEDULE)
    if stated is None:
        return None
    names = [f.name for f in fields(Schedule)]
    optional = {f.name for f in fields(Schedule) if f.default is not MISSING}
    values = stated.data if isinstance(stated, DictionaryAttr) else {}
    found = {name: _value(values[name], name.startswith("pack")) for name in names if name in values}
    if not set(names) - optional <= set(values) <= set(names) or None in found.values():
        types = ", ".join(f"{name}: {'i1' if name.startswith('pack') else 'i64'}" for name in names)
        raise refused(source, f"it is not a dictionary of {types}")
    return Schedule(**found)  # type: ignore[arg-type]


def refused(source: func.FuncOp, reason: str) -> CompileError:
    """Return the error for a schedule that cannot be used."""
    note = f"drop the attribute `{SCHEDULE}` for the default, or state another schedule"
    return CompileError(f"the schedule of '@{source.sym_name.data}': {reason}", location_of(source), note)


def _value(attribute: Attribute, truth: bool) -> int | bool | None:
    """Return a number, or a truth value; None for anything else."""
    if not isinstance(attribute, IntegerAttr) or (attribute.type == BoolAttr.from_bool(True).type) != truth:
        return None
    return bool(attribute.value.data) if truth else attribute.value.data
