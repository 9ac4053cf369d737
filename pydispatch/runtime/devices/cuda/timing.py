"""Execution times of commands of a plan, measured by CUDA events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydispatch.runtime.devices.cuda.context import Context


class Stopwatch:
    """Stopwatch of the device's time, by events on the stream of a context, which must be current in the thread.

    marks: recorded events, in order. free: events for further marks.
    """

    def __init__(self, context: Context, count: int) -> None:
        """Create the events for at most `count` calls of `mark`."""
        self.context = context
        self.marks: list[Any] = []  # events that `mark` has recorded, in order
        self.free: list[Any] = []  # events for later marks
        try:
            for _ in range(count):
                self.free.append(context.check(context.driver.cuEventCreate(0), "cuEventCreate"))
        except BaseException:
            self.close()
            raise

    def mark(self) -> None:
        """Record an event on the stream: the time at which all earlier work on it is complete."""
        event = self.free.pop()
        self.marks.append(event)
        self.context.check(self.context.driver.cuEventRecord(event, self.context.stream), "cuEventRecord")

    def seconds(self) -> list[float]:
        """Return the seconds between successive marks. The stream must have reached the last mark."""
        context = self.context
        pairs = zip(self.marks, self.marks[1:], strict=False)
        return [
            float(context.check(context.driver.cuEventElapsedTime(begin, end), "cuEventElapsedTime")) * 1e-3
            for begin, end in pairs
        ]

    def close(self) -> None:
        """Destroy the events."""
        for event in (*self.marks, *self.free):
            self.context.driver.cuEventDestroy(event)
        self.marks, self.free = [], []
