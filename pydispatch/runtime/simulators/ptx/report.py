"""What the interpreter says when a kernel does something wrong: kernel, line, instruction, block and thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pydispatch.formats.ptx.module import Instruction

if TYPE_CHECKING:
    from pydispatch.runtime.simulators.ptx.barriers import Waiting
    from pydispatch.runtime.simulators.ptx.batch import Batch, Group
    from pydispatch.runtime.simulators.ptx.translate import Code

_SHOWN = 4


def block_of(batch: Batch, thread: int) -> tuple[int, int, int]:
    """The block of a thread of the batch."""
    gx, gy, _ = batch.launch.grid
    block = batch.first + thread // batch.T
    return block % gx, block // gx % gy, block // (gx * gy)


def place(batch: Batch, thread: int) -> str:
    """`block (x, y, z), thread (x, y, z)` of a thread of the batch."""
    bx, by, _ = batch.launch.block
    inside = thread % batch.T
    return f"block {block_of(batch, thread)}, thread ({inside % bx}, {inside // bx % by}, {inside // (bx * by)})"


def fault(batch: Batch, code: Code, i: Instruction, thread: int, why: str) -> str:
    kernel = batch.launch.kernel.name
    inside = "" if code.name == kernel else f", in '{code.name}'"
    text = code.builder.text(i)
    return f"kernel '{kernel}'{inside}: {code.builder.module}:{i.line}: '{text}' by {place(batch, thread)}: {why}"


def _threads(batch: Batch, threads: Any) -> str:
    first = sorted(int(t) for t in np.asarray(threads)[:_SHOWN])
    more = f" and {len(threads) - len(first)} more" if len(threads) > len(first) else ""
    return "; ".join(place(batch, t) for t in first) + more


def deadlock(batch: Batch, parked: list[Group], waiting: list[Waiting]) -> str:
    """Who waits where, when nobody can go on."""
    lines = []
    code: Code | None = None
    for group in parked:
        code = group.activation.frame.code
        block = code.blocks[group.block]
        assert block.sync is not None
        i = block.sync[1]
        threads = group.activation.frame.threads[group.positions()]
        lines.append(f"line {i.line}, '{code.builder.text(i)}', for lanes of their mask that never come: "
                     f"{_threads(batch, threads)}")  # fmt: skip
    for wait in waiting:
        code = wait.activation.frame.code
        ident = int(np.asarray(wait.idents).flat[0])
        lines.append(f"line {wait.instruction.line}, '{code.builder.text(wait.instruction)}' (barrier {ident}): "
                     f"{_threads(batch, wait.threads())}")  # fmt: skip
    module = code.builder.module if code else "?"
    ended = int(np.count_nonzero(~batch.alive))
    rest = f"; {ended} threads have ended" if ended else ""
    return (
        f"kernel '{batch.launch.kernel.name}' ({module}) stands still: threads wait for each other{rest}:\n  "
        + "\n  ".join(lines)
    )


def endless(batch: Batch, code: Code, line: int, thread: int, steps: int) -> str:
    return (
        f"kernel '{batch.launch.kernel.name}': {code.builder.module}:{line}: still running after {steps} steps, in "
        f"{place(batch, thread)}: a loop without an end, or raise max_steps"
    )
