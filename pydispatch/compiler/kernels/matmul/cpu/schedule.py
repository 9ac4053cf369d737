"""Schedules of a contraction's kernel (its tiles, and which operands are packed), and which of them are legal.

A dispatch function may carry one in the attribute `pydispatch.schedule` (docs/ir.md), which replaces the default.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from xdsl.dialects.builtin import BoolAttr, DictionaryAttr, IntegerAttr, i64

from pydispatch.compiler.kernels.matmul.cpu.problem import Problem
from pydispatch.compiler.kernels.matmul.cpu.tiles import MATRIX_ROWS, Level, Tiles, ceil_quotient

SCHEDULE = "pydispatch.schedule"
"""The attribute of a dispatch function with the schedule of its contraction."""

MAX_OPERAND_BYTES = 16 << 20
"""Maximum size of a packed operand, and of the sums of a tile, in a schedule that a program states."""


@dataclass(frozen=True)
class Schedule(Tiles):
    """Tiles of a contraction, and which operands are packed: copied to workgroup memory in the order of reads.

    Operands that are not packed are read in place. Sums of f32 and f64 are the same with every schedule, bit for bit.
    The exception are vectors along K, which a transposed B has: then the order of additions depends on the schedule.

    Attributes:
        pack_a, pack_b: Whether A, and B, are packed.
        batch: Number of tiles that a workgroup computes with the same packed columns of B. The tiles are at different
            indices of outer dimensions that do not index B, such as the batch in C[batch, m, n] with B[k, n].
    """

    pack_a: bool
    pack_b: bool
    batch: int = 1

    def attribute(self) -> DictionaryAttr:
        """Return the schedule as the value of the attribute `pydispatch.schedule`."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return DictionaryAttr(
            {
                name: BoolAttr.from_bool(value) if isinstance(value, bool) else IntegerAttr(value, i64)
                for name, value in values.items()
            }
        )


def refusal(level: Level, problem: Problem, schedule: Schedule) -> str | None:
    """Return the reason why a schedule that a program states is not valid for a contraction; None if it is valid.

    The checks, in this order:

    - All sizes are positive.
    - Tiles consist of whole register blocks, whose sums fit into the registers.
    - A batch (tiles that share packed columns of B) needs a B that is packed with all steps of K.
    - A chunk of K consists of whole groups, the steps that one instruction multiplies.
    - A and B can be packed, or read in place, as the schedule states.
    - The packed operands and the sums of a tile have at most `MAX_OPERAND_BYTES` each.
    """
    mr, nr, mt, nt, kc, batch = schedule.mr, schedule.nr, schedule.mt, schedule.nt, schedule.kc, schedule.batch
    if min(mr, nr, mt, nt, kc) < 1:
        return "sizes are at least 1"
    if mt % mr or nt % nr:
        return f"the tile of {mt}x{nt} is not a multiple of the register block of {mr}x{nr}"
    if reason := _exceeded_registers(level, problem, schedule):
        return reason
    packs_all_steps = schedule.pack_b and problem.k is not None and kc >= problem.k
    can_share_b = packs_all_steps and batch <= problem.b_uses
    if batch > 1 and not can_share_b:
        return (
            f"a batch of {batch} shares packed columns of B with all steps of K, and is at most as large as the "
            f"outer dimensions that B does not have, {problem.b_uses}"
        )
    if kc % problem.group:
        return f"{problem.group} steps of K are multiplied at once, and kc = {kc} is not a multiple of it"
    if reason := _unreadable(problem, schedule):
        return reason
    largest = _largest_operand_bytes(problem, schedule)
    if largest > MAX_OPERAND_BYTES:
        return f"a workgroup needs {largest} bytes for an operand or its sums, the limit is {MAX_OPERAND_BYTES}"
    return None


def _exceeded_registers(level: Level, problem: Problem, schedule: Schedule) -> str | None:
    """Return the reason why registers cannot hold the sums of a schedule's register block; None if they can."""
    mr, nr = schedule.mr, schedule.nr
    if problem.matrix_steps:
        if max(mr, nr) <= MATRIX_ROWS:
            return None
        return f"matrix registers hold blocks of {MATRIX_ROWS}x{MATRIX_ROWS}, not of {mr}x{nr}"
    # With vectors along K, each sum takes a register. Otherwise the columns of a row fill whole registers.
    has_vectors_along_k = problem.vectorizes_k(schedule.pack_b)
    registers_of_row = nr if has_vectors_along_k else ceil_quotient(nr * problem.sum_bytes, level.vector)
    registers = mr * registers_of_row
    if registers <= level.registers:
        return None
    return f"the sums of a block of {mr}x{nr} take {registers} vector registers of {level.registers}"


def _largest_operand_bytes(problem: Problem, schedule: Schedule) -> int:
    """Return the bytes of the largest of the packed operands and the sums of a workgroup's tile."""
    # Packed operands of a batch have all indices of the reduced dimensions other than K. Without a batch, these become
    # loops around the packing if the operands are too large.
    steps = schedule.kc * problem.reductions if schedule.batch > 1 else schedule.kc
    packed_a = schedule.mt * steps if schedule.pack_a else 0
    packed_b = schedule.nt * steps if schedule.pack_b else 0
    return problem.sum_bytes * max(schedule.mt * schedule.nt, packed_a, packed_b)


def _unreadable(problem: Problem, schedule: Schedule) -> str | None:
    """Return the reason why operands cannot be packed or read in place as a schedule states; None if they can."""
    has_block_of_rows = (problem.m or 0) >= schedule.mr
    can_read_a = problem.can_read_a_in_place and has_block_of_rows
    if not schedule.pack_a and not can_read_a:
        return "A cannot be read in place: it is computed, has fewer rows than a block, or an unknown number of them"
    if not schedule.pack_b and not problem.can_read_b_in_place:
        return "B cannot be read in place: it is computed, of unknown sizes, or contiguous along neither N nor K"
    if schedule.pack_b and problem.panel_width:
        return "B is stored in panels, which are read in place"
    if problem.panel_width and problem.panel_width % schedule.nr:
        return f"B is stored in panels of {problem.panel_width} columns, not in whole register blocks of {schedule.nr}"
    if not schedule.pack_b and (problem.n or 0) < schedule.nr:
        return f"B cannot be read in place: it has {problem.n} columns, fewer than a block"
    return None
