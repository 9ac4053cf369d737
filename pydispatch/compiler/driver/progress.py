"""Progress reports of a long compilation."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from pydispatch import logs

MIN_ELAPSED_SECONDS = 2.0
"""Seconds since the begin of a compilation before which nothing is reported: most are complete by then."""

MIN_INTERVAL_SECONDS = 0.5
"""Minimum seconds between two reports."""


@dataclass(frozen=True)
class Progress:
    """Progress of a compilation, as the callback `progress` of `compile` receives it.

    Attributes:
        phase: The current phase, one of `phases.PHASES`, or "code" for code generation.
        name: Name of the dispatch whose code was generated last; "" before the first.
        done: Number of dispatches whose code has been generated; each counts once for each variant.
        total: Number of dispatches whose code must be generated; each counts once for each variant.
        seconds: Seconds since the compilation began.
        left: Estimate of the remaining seconds; None while there is none.
    """

    phase: str
    name: str
    done: int
    total: int
    seconds: float
    left: float | None


class Tracker:
    """Counter of the phases and compiled dispatches of one compilation, for the user's function `progress`.

    The pipeline creates it. It reports at intervals, from any thread, one report at a time.
    """

    def __init__(
        self, report: Callable[[Progress], object] | None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Begin a compilation. report: receives reports; None for none. clock: returns seconds."""
        self._report, self._clock = report, clock
        self._lock = threading.Lock()
        # Clock values at the begin of the compilation, the last report, and the begin of code generation.
        self._start = self._reported = self._code_start = clock()
        self._phase, self._name = "input", ""
        self._done = self._total = 0
        self._phase_start: float | None = None  # clock value at the begin of the phase; None before the first phase

    def phase(self, name: str) -> None:
        """Begin the phase `name` and end the previous phase."""
        with self._lock:
            self._end_phase()
            self._phase = name
            self._report_if_due()

    def end(self) -> None:
        """End the last phase and log the total time."""
        with self._lock:
            self._end_phase()
            logs.compiler.info("compiled %d dispatches in %.1f ms", self._done, 1e3 * (self._clock() - self._start))

    def _end_phase(self) -> None:
        """Log how long the current phase took, and note the begin of the next one. The caller holds the lock."""
        now = self._clock()
        if self._phase_start is not None:
            logs.compiler.debug("phase %s: %.1f ms", self._phase, 1e3 * (now - self._phase_start))
        self._phase_start = now

    def begin_code(self, total: int) -> None:
        """End the current phase, and begin the code generation of `total` dispatches, counted once for each variant."""
        with self._lock:
            self._end_phase()
            self._phase, self._total, self._code_start = "code", total, self._clock()
            self._report_if_due()

    def count_compiled(self, name: str) -> None:
        """Count the dispatch `name`, whose code is complete."""
        with self._lock:
            self._name = name
            self._done += 1
            self._report_if_due()

    def _report_if_due(self) -> None:
        """Report progress if a report is due. The caller holds the lock."""
        now = self._clock()
        if self._report is None or now - self._start < MIN_ELAPSED_SECONDS:
            return
        if now - self._reported < MIN_INTERVAL_SECONDS:
            return
        self._reported = now
        left = None  # seconds that remain, as an estimate; unknown before the first dispatch is compiled
        if self._done:  # the remaining dispatches are assumed to take as long as the compiled ones on average
            left = (now - self._code_start) / self._done * (self._total - self._done)
        self._report(
            Progress(
                phase=self._phase,
                name=self._name,
                done=self._done,
                total=self._total,
                seconds=now - self._start,
                left=left,
            )
        )
