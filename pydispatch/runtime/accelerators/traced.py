"""Trace events of accelerators: spans of the calling thread, and device times of commands."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from math import prod
from types import TracebackType
from typing import TYPE_CHECKING, Any

from pydispatch._core import trace as recorder
from pydispatch._core.commands import Custom, Dispatch
from pydispatch._core.trace import Kind

if TYPE_CHECKING:
    from pydispatch._core.profile import Timing
    from pydispatch.runtime.accelerators.plan import Blocks, DevicePlan

is_on = recorder.is_on
"""Function that returns whether a trace is being recorded."""


class _Span:
    """Context manager that records a trace event of this thread.

    kind: kind of the event. name: name of the function, or "". begin: start of the event on the clock of the trace.
    """

    __slots__ = ("begin", "kind", "name")

    def __init__(self, kind: Kind, name: str) -> None:
        """Take the kind and the name of the event, which begins when the `with` block is entered."""
        self.kind, self.name, self.begin = kind, name, 0

    def __enter__(self) -> None:
        self.begin = recorder.begin()

    def __exit__(self, kind: type[BaseException] | None, error: object, traceback: TracebackType | None) -> None:
        recorder.end(self.kind, self.name, self.begin, kind is not None)


_OFF = nullcontext()
"""Context manager without effect, in place of a span while no trace is on."""


def span(kind: Kind, name: str = "") -> AbstractContextManager[None]:
    """Return a context manager that records the `with` block as a trace event of this thread, if a trace is on."""
    return _Span(kind, name) if is_on() else _OFF


def run(executor: Any, device_plan: DevicePlan, blocks: Blocks, constants: bytes, fill_patterns: Sequence[int]) -> None:
    """Run a plan. While a trace is on, commands run one at a time, and the device time of each is recorded."""
    if not is_on():
        executor.run(device_plan, blocks, constants, fill_patterns)
        return
    times = executor.time(device_plan, blocks, constants, fill_patterns)
    _add_events(executor.context.name, device_plan, times, end_ns=time.monotonic_ns())


def _add_events(queue: str, device_plan: DevicePlan, times: Sequence[Timing], end_ns: int) -> None:
    """Record the device times of commands, one after the other, with `end_ns` as the end of the last one.

    Only durations are known, because clocks of devices have another origin. The last command ended when the wait for it
    returned, or shortly before.

    Args:
        queue: Name of the device, which has a row of its own in the trace.
        device_plan: The plan.
        times: Device time of each command of the plan.
        end_ns: Time at which the wait for the last command returned, as `time.monotonic_ns` counts.
    """
    for command, timing in zip(reversed(device_plan.commands), reversed(times), strict=True):
        begin_ns = end_ns - round(timing.seconds * 1e9)
        if not isinstance(command, Custom):  # a host command is recorded as an event of the thread that calls it
            workgroups = prod(command.grid) if isinstance(command, Dispatch) else 0
            recorder.add_queued(queue, _event_name(timing.command), begin_ns, end_ns, workgroups)
        end_ns = begin_ns


def _event_name(text: str) -> str:
    """Return "export" for the text "@executable::@export 8x4x1" of a dispatch, and "copy" for "copy 64 bytes"."""
    return text.rpartition("::@")[2].partition(" ")[0]
