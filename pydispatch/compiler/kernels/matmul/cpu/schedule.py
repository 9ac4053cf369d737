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


def default_schedule(level: Level, problem: Problem) -> Schedule:
    """Return the schedule of a contraction that states none."""
    few_passes = problem.b_in_place and not problem.panel and not problem.along_k and not _keeps_b(level, problem)
    whole_rows = streams(level, problem)
    pack_b = not (whole_rows or (problem.b_in_place and (problem.panel or _reads_b_well(level, problem, few_passes))))
    few_passes = few_passes and not pack_b
    along_k = problem.runs_along_k(pack_b)
    panel = problem.panel or None
    rows = MATRIX_ROWS // 2 if problem.few and problem.matrix_steps else problem.m
    sizes = problem.size, rows, problem.n, problem.k, problem.outer, problem.reductions
    forms = {"even": problem.group == BYTE_PAIRS, "matrices": problem.matrix_steps > 0}
    tiles = choose(level, *sizes, packed=pack_b, panel=panel, few_passes=few_passes, **forms)
    if not (pack_b or along_k or _reads_a(level, problem, tiles.mr)):
        tiles = choose(level, *sizes, panel=panel, few_passes=few_passes, packs_a=True, **forms)
    if along_k:
        tiles = _tiles_along_k(level, problem, tiles.kc)
    if pack_b and (along_k or converts_once(problem, tiles)):
        tiles = _converted_in_parts(level, problem, tiles, along_k)
    elif not along_k and not pack_b and not problem.panel and problem.n is not None and problem.n < tiles.nr:
        tiles = choose(level, *sizes, padded=False, few_passes=few_passes)
    elif (
        pack_b and problem.group == 1 and problem.n and 2 * problem.n * problem.size <= level.vector
    ):  # a shorter vector takes fewer cycles
        short = max(16 // problem.size, 1 << (problem.n - 1).bit_length())
        tiles = replace(tiles, nr=short, nt=short)
    mr, nr, mt, nt, kc = tiles.mr, tiles.nr, tiles.mt, tiles.nt, tiles.kc
    if problem.few and problem.most is not None:
        mt = ceil(problem.most, mr) * mr
    pack_a = not _reads_a(level, problem, mr)
    if whole_rows:
        mr, nr, mt, nt, kc = astuple(streamed(level, problem, tiles))
        pack_a = not problem.a_in_place
    elif (
        not pack_a
        and not pack_b
        and problem.k is not None
        and (problem.k * nr * problem.size <= level.panel or (problem.m or 0) <= mr)
    ):
        kc = max(1, problem.k)
    unit = problem.group * max(1, problem.matrix_steps)
    schedule = Schedule(mr, nr, mt, nt, ceil(kc, unit) * unit, pack_a, pack_b)
    return schedule if along_k or not pack_b else _packed_once(level, problem, schedule)


def _packed_once(level: Level, problem: Problem, schedule: Schedule) -> Schedule:
    """Return a schedule for tiles of few rows, with columns of B, all their steps of K, that are packed once for
    several tiles and stay in the second-level cache. The same schedule where they do not fit, or no tiles share them.
    """
    if (
        not (problem.m and problem.n and problem.k and problem.reductions)
        or problem.few
        or problem.repeated == 1
        or problem.m > schedule.mt
    ):
        return schedule
    kc, columns = ceil(problem.k, problem.group) * problem.group, ceil(problem.n, schedule.nr)
    blocks = min(columns, 3 * level.model.l2.share // 4 // (problem.size * schedule.nr * kc * problem.reductions))
    batch = min(problem.repeated, ceil(2 * level.height, problem.m))
    if blocks == 0 or batch == 1:
        return schedule
    for groups, work in GROUPS:
        while problem.m * batch * blocks * schedule.nr * kc * problem.reductions > work * 2:
            if problem.outer // problem.repeated * ceil(problem.repeated, batch) * ceil(columns, blocks) >= groups:
                break
            if blocks > 1:
                blocks = ceil(blocks, 2)
            elif problem.m * batch > level.height:
                batch = ceil(batch, 2)
            else:
                break
    nt = schedule.nr * ceil(columns, ceil(columns, blocks))
    return replace(schedule, nt=nt, kc=kc, batch=ceil(problem.repeated, ceil(problem.repeated, batch)))


def _reads_a(level: Level, problem: Problem, mr: int) -> bool:
    """Return whether blocks of mr rows read A in place."""
    return problem.a_in_place and (problem.m or 0) >= mr and a_in_place(level, mr, problem.a.stride)


def _reads_b_well(level: Level, problem: Problem, few_passes: bool) -> bool:
    """Return whether it pays to read B in place, where that is possible."""
    assert problem.m is not None and problem.n is not None
    if problem.along_k:
        return few_rows(problem) or (
            2 * problem.n * problem.size <= level.vector and (problem.k or 0) >= 64
        )  # columns are half a vector
    tiles = choose(
        level, problem.size, problem.m, problem.n, problem.k, problem.outer, problem.reductions, few_passes=few_passes
    )
    return b_in_place(level, problem.m, tiles.mr, *_panel(problem, tiles))


def _keeps_b(level: Level, problem: Problem) -> bool:
    """Return whether a panel of B stays in a cache when it is read in place."""
    return b_stays(
        level,
        *_panel(
            problem, choose(level, problem.size, problem.m, problem.n, problem.k, problem.outer, problem.reductions)
        ),
    )


def _panel(problem: Problem, tiles: Tiles) -> tuple[int, int, int]:
    """(bytes of a row, bytes between rows, rows) of a panel of B where it lies."""
    assert problem.n is not None
    return (
        min(tiles.nr, problem.n) * (problem.b.size or problem.size),
        problem.b.stride,
        (problem.k or UNKNOWN_STEPS) * problem.reductions,
    )


def converts_once(problem: Problem, tiles: Tiles) -> bool:
    """Return whether each element of B is computed for a single block of rows."""
    return (
        problem.group == 1
        and not problem.b.direct
        and problem.n is not None
        and 0 < (problem.most or problem.m or 0) <= tiles.mr
    )


def _converted_in_parts(level: Level, problem: Problem, tiles: Tiles, along_k: bool) -> Tiles:
    """Return tiles with parts of B that stay in the first cache between converting and multiplying them: whole columns
    of a block where they lie along K, else short rows, as wide as leaves parts for several workers.
    """
    assert problem.n is not None
    most = level.near // problem.size
    if along_k:
        nt = tiles.nr if problem.a.direct else tiles.nr * ceil(WIDTH_COMPUTED, tiles.nr)
        kc = max(64, most // tiles.nr // 64 * 64)
        return replace(tiles, nt=nt, kc=kc if problem.k is None or problem.k > 2 * kc else max(1, problem.k))
    nt = tiles.nr * max(1, min(ceil(problem.n, tiles.nr), BLOCKS_CONVERTED))
    kc = max(4, most // nt // 4 * 4)
    return replace(tiles, nt=nt, kc=min(kc, max(1, problem.k or kc)))


def _tiles_along_k(level: Level, problem: Problem, kc: int) -> Tiles:
    """Return blocks whose vectors lie along K: mr rows of A times nr columns of B. One or two rows stream B, which few
    columns at a time do faster. In 16 sums, not 8, 1x4096x4096 takes 1.44x as long on Zen 5, 2x4096x4096 1.05x,
    3x2048x2048 0.86x, 4x4096x1024 0.79x, 4x512x4096 0.85x.
    """
    assert problem.m is not None and problem.n is not None
    mr = max(1, min(problem.m, 4))
    sums = 16 if mr > 2 and level.accumulators >= 20 else 8
    nr = max(1, min(problem.n, sums // mr if problem.m <= 4 else (level.accumulators - 4) // 4))
    per_group = max(1, min(problem.n, (1 << 16) // max(1, problem.k or 1024)))
    rows = min(max(1, problem.m), max(FEW_ROWS, level.height))
    return Tiles(mr, nr, mr * ceil(rows, mr), max(nr, per_group // nr * nr), kc)


def refusal(level: Level, problem: Problem, schedule: Schedule) -> str | None:
    """Return why a schedule is not valid for a contraction, None where it is."""
    if min(schedule.mr, schedule.nr, schedule.mt, schedule.nt, schedule.kc) < 1:
        return "sizes are at least 1"
    if schedule.mt % schedule.mr or schedule.nt % schedule.nr:
        tile, block = f"{schedule.mt}x{schedule.nt}", f"{schedule.mr}x{schedule.nr}"
        return f"the tile of {tile} is not a multiple of the register block of {block}"
    along_k = problem.runs_along_k(schedule.pack_b)
    registers = schedule.mr * (schedule.nr if along_k else ceil(schedule.nr * problem.size, level.vector))
    if problem.matrix_steps and max(schedule.mr, schedule.nr) > MATRIX_ROWS:
        return f"matrix registers hold blocks of {MATRIX_ROWS}x{MATRIX_ROWS}, not of {schedule.mr}x{schedule.nr}"
    if not problem.matrix_steps and registers > level.registers:
        return (
            f"the sums of a block of {schedule.mr}x{schedule.nr} take {registers} vector registers of {level.registers}"
        )
    if schedule.batch > 1 and not (
        schedule.pack_b and problem.k is not None and schedule.kc >= problem.k and schedule.batch <= problem.repeated
    ):
        return (
            f"a batch of {schedule.batch} shares packed columns of B with all steps of K, and is at most as large as "
            f"the outer dimensions that B does not have, {problem.repeated}"
        )
    if schedule.kc % problem.group:
        return f"{problem.group} steps of K are multiplied at once, and kc = {schedule.kc} is not a multiple of it"
    if reason := _unreadable(problem, schedule):
        return reason
    steps = schedule.kc * problem.reductions if schedule.batch > 1 else schedule.kc
    largest = problem.size * max(
        schedule.mt * schedule.nt, schedule.pack_a * schedule.mt * steps, schedule.pack_b * schedule.nt * steps
    )
    if largest > LARGEST:
        return f"a workgroup needs {largest} bytes for an operand or its sums, the limit is {LARGEST}"
    return None


def _unreadable(problem: Problem, schedule: Schedule) -> str | None:
    """Return why a schedule cannot pack or read in place the operands that it says, None where it can."""
    if not schedule.pack_a and not (problem.a_in_place and (problem.m or 0) >= schedule.mr):
        return "A cannot be read in place: it is computed, has fewer rows than a block, or an unknown number of them"
    if not schedule.pack_b and not problem.b_in_place:
        return "B cannot be read in place: it is computed, of unknown sizes, or contiguous along neither N nor K"
    if schedule.pack_b and problem.panel:
        return "B lies in panels, which are read in place"
    if problem.panel and problem.panel % schedule.nr:
        return f"B lies in panels of {problem.panel} columns, which are not made of whole blocks of {schedule.nr}"
    if not schedule.pack_b and (problem.n or 0) < schedule.nr:
        return f"B cannot be read in place: it has {problem.n} columns, fewer than a block"
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
