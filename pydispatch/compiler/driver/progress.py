"""Progress reports of a long compilation."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from pydispatch import logs

FIRST = 2.0
"""Seconds that a compilation takes before anything is reported: most are done by then."""

EVERY = 0.5
"""Seconds between reports, at least."""


@dataclass(frozen=True)
class Progress:
    """Progress of a compilation, as the callback `progress` of `compile` receives it.

    Attributes:
        phase: The current phase, one of `phases.PHASES`, or "code" for code generation.
        name: Name of the dispatch whose code was generated last; "" before the first.
        done: Number of dispatches whose code has been generated; each counts once for each variant.
        total: Number of dispatches whose code must be generated, counted likewise.
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
    """Progress counter of a compilation; it reports at intervals, from any thread, one report at a time."""

    def __init__(
        self, report: Callable[[Progress], object] | None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._report, self._clock = report, clock
        self._lock = threading.Lock()
        # Times of: the begin of the compilation, the last report, the begin of code generation.
        self._start = self._reported = self._code_start = clock()
        self._phase, self._name = "input", ""
        self._done = self._total = 0
        self._begun: float | None = None  # time at which the phase began; None before the first

    def phase(self, name: str) -> None:
        """Begin the phase `name` and end the previous phase."""
        with self._lock:
            self._end_phase()
            self._phase = name
            self._tell()

    def end(self) -> None:
        """End the last phase and log the total time."""
        with self._lock:
            self._end_phase()
            logs.compiler.info("compiled %d dispatches in %.1f ms", self._done, 1e3 * (self._clock() - self._start))

    def _end_phase(self) -> None:
        """Log how long the phase took that has just ended, and begin the next one."""
        now = self._clock()
        if self._begun is not None:
            logs.compiler.debug("phase %s: %.1f ms", self._phase, 1e3 * (now - self._begun))
        self._begun = now

    def begin_code(self, total: int) -> None:
        """Begin the code generation of `total` dispatches and end the previous phase."""
        with self._lock:
            self._end_phase()
            self._phase, self._total, self._code_start = "code", total, self._clock()
            self._tell()

    def made(self, name: str) -> None:
        """Count a dispatch whose code is complete. name: of the dispatch."""
        with self._lock:
            self._name = name
            self._done += 1
            self._tell()

    def _tell(self) -> None:
        """Report progress if the last report is long enough ago."""
        now = self._clock()
        if self._report is None or now - self._start < FIRST or now - self._reported < EVERY:
            return
        self._reported = now
        left = None
        if self._done:
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
