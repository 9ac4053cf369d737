"""Messages of the PTX interpreter for kernels that do not terminate. A batch is the thread blocks that are simulated
together; a group is threads of one function call (activation) at the same block of code.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pydispatch.runtime.simulators.ptx.barriers import Waiting
from pydispatch.runtime.simulators.ptx.code import FunctionCode
from pydispatch.runtime.simulators.ptx.groups import ThreadGroup
from pydispatch.runtime.simulators.ptx.threads import ThreadBatch

_SHOWN = 4
"""Maximum number of threads that a message names for each instruction."""


def _threads(batch: ThreadBatch, threads: Any) -> str:
    """Return text that names the first `_SHOWN` of some threads, and the number of others.

    threads: indices of the threads in the batch.
    """
    shown = sorted(int(t) for t in np.asarray(threads)[:_SHOWN])
    more = f" and {len(threads) - len(shown)} more" if len(threads) > len(shown) else ""
    return "; ".join(batch.describe_thread(t) for t in shown) + more


def deadlock(batch: ThreadBatch, parked: list[ThreadGroup], waiting: list[Waiting]) -> str:
    """Return the message for a deadlock: which threads wait at which instruction.

    Args:
        batch: The batch of threads.
        parked: Groups that wait for lanes of their warp, at the first instruction of the group's block of code.
        waiting: Threads that wait at barriers.
    """
    lines = []
    code: FunctionCode | None = None
    for group in parked:
        code = group.activation.frame.code
        block = code.blocks[group.block]
        assert block.sync is not None  # the instruction that waits, such as shfl.sync
        instruction = block.sync.instruction
        threads = group.activation.frame.threads[group.positions()]
        lines.append(
            f"line {instruction.line}, '{code.builder.text(instruction)}', for lanes of their mask that never come: "
            f"{_threads(batch, threads)}"
        )
    for wait in waiting:
        code = wait.activation.frame.code
        where = f"line {wait.instruction.line}, '{code.builder.text(wait.instruction)}'"
        for barrier in np.unique(wait.barrier_numbers):
            threads = wait.subset(wait.barrier_numbers == barrier).threads()
            lines.append(f"{where} (barrier {barrier}): {_threads(batch, threads)}")
    module = code.builder.module if code else "?"
    ended = int(np.count_nonzero(~batch.alive))
    rest = f"; {ended} threads have ended" if ended else ""
    return (
        f"kernel '{batch.launch.kernel.name}' ({module}) deadlocks: threads wait for each other{rest}:\n  "
        + "\n  ".join(lines)
    )


def endless(batch: ThreadBatch, code: FunctionCode, line: int, thread: int, steps: int) -> str:
    """Return the message for a kernel that has reached its limit of steps.

    Args:
        batch: The batch of threads.
        code: The function that runs.
        line: Line of the text that runs.
        thread: Index in the batch of one of the threads that run it.
        steps: The limit.
    """
    return (
        f"kernel '{batch.launch.kernel.name}': {code.builder.module}:{line}: still running after {steps} steps, in "
        f"{batch.describe_thread(thread)}: a loop without an end, or raise max_steps"
    )
