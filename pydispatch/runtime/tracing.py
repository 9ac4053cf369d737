"""Timelines of the work of all devices of the process, as files that Perfetto opens.

The file is in the JSON trace event format: an object whose `traceEvents` are complete events (`"ph": "X"`), in
microseconds from the beginning of the trace. It has a track for each thread that did something and one for each queue
of a device.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pydispatch._core import trace as recorder
from pydispatch._core.sched import trace_threads
from pydispatch._core.trace import Kind
from pydispatch.errors import Error, InvalidArgumentError
from pydispatch.files import path_of, write

if TYPE_CHECKING:
    from typing_extensions import Self

EVENTS = 1 << 14
"""Number of events retained for each thread by default, the latest ones: 2 MiB."""

OTHER_THREADS = 64
"""Number of threads that may have a track, besides one worker for each CPU."""


@dataclass(frozen=True)
class Event:
    """Trace event: an activity of a thread or device queue.

    Attributes:
        kind: call, schedule, submit, wake, run, host, wait or idle (see docs/tracing.md).
        name: Name of a function, an export or a host command; empty if there is none.
        begin, end: Nanoseconds since the start of the trace.
        args: Further data, such as the number of workgroups.
    """

    kind: str
    name: str
    begin: int
    end: int
    args: dict[str, Any] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """Duration in seconds."""
        return (self.end - self.begin) * 1e-9

    @property
    def label(self) -> str:
        """Text that a timeline shows: the name of the export for a run, else the kind, as in `call @name` or `idle`."""
        if self.kind == "run":
            return self.name
        return f"{self.kind} @{self.name}" if self.name else self.kind


@dataclass(frozen=True)
class Track:
    """Track of a trace: the events of one thread or device queue.

    Attributes:
        name: Name of the thread or queue.
        events: The events, sorted by their start.
        lost: Number of events that later ones have overwritten.
    """

    name: str
    events: list[Event]
    lost: int = 0


class Trace:
    """Trace of the activity of all devices of the process between `start` and `stop`, or inside a `with` block.

    `tracks` and `lost` are available after `stop`.
    """

    def __init__(self, path: str | os.PathLike[str] | None, events: int = EVENTS) -> None:
        """Create a trace, whose recording begins when the `with` block is entered.

        Args:
            path: Path of the file that is written at the end; None for none.
            events: Number of events that are retained for each thread, the latest ones.
        """
        if type(events) is not int or not 1 <= events <= 1 << 24:
            raise InvalidArgumentError(f"trace: events: expected a number from 1 to {1 << 24}, got {events!r}")
        self.path = None if path is None else path_of("trace", path, "the path of a .json file")
        self.tracks: list[Track] = []
        self.without_track = 0  # number of events of threads that have no track
        self._events = events
        self._began: tuple[int, int] | None = None  # `recorder.now()` at the start; None while nothing is recorded
        self._process = 0  # id of the process that records

    @property
    def lost(self) -> int:
        """Events that are missing: older ones of full tracks, and those of threads without a track."""
        return self.without_track + sum(track.lost for track in self.tracks)

    @property
    def events(self) -> list[Event]:
        """The events of all tracks."""
        return [event for track in self.tracks for event in track.events]

    def start(self) -> None:
        """Begin the trace. Raise InvalidArgumentError when a trace of the process has begun and not ended."""
        if self._began is not None:
            raise InvalidArgumentError("trace: this one has begun already")
        most_workers = os.cpu_count() or 1
        recorder.start(self._events, threads=OTHER_THREADS + most_workers)
        self._began, self._process = recorder.now(), os.getpid()

    def stop(self) -> None:
        """End the trace, set `tracks`, and write the file. In a process that was forked meanwhile, only end it."""
        if self._began is None:
            raise InvalidArgumentError("trace: stop: it has not begun")
        began, self._began = self._began, None
        recorder.stop()
        if os.getpid() != self._process:
            return
        trace_threads()  # adds the worker number and the idle time of each pool thread to its track
        self.tracks, self.without_track = _read(self._events, _Clock(began, recorder.now()))
        if self.path is not None:
            write("trace", self.path, _file(self.tracks, self.without_track).encode())

    def __enter__(self) -> Self:
        """Start tracing; return this trace."""
        self.start()
        return self

    def __exit__(self, kind: object, *unused: object) -> None:
        """Stop tracing. An error of the `with` block has precedence over an error of `stop`."""
        try:
            self.stop()
        except Error:
            if kind is None:  # else Python raises the error that ended the block
                raise


def trace(path: str | os.PathLike[str] | None, *, events: int = EVENTS) -> Trace:
    """Record the work of all devices of the process as a timeline: `with pydispatch.trace("out.json"): ...`.

    The file opens in ui.perfetto.dev; see docs/tracing.md.

    Args:
        path: Path of the file that is written at the end; None for none, if only `tracks` is wanted.
        events: Number of events that are retained for each thread, from 1 to 16777216; the latest ones. The file states
            how many were lost.

    Raises:
        InvalidArgumentError: Another trace is being recorded, or `events` is out of range.
        SystemError: The file cannot be written.
    """
    return Trace(path, events)


class _Clock:
    """Conversion of CPU ticks and times of time.monotonic_ns to nanoseconds from the beginning of a trace.

    Args:
        began, ended: Results of `recorder.now()`, (ticks, nanoseconds), at the start and the end of the trace.
    """

    def __init__(self, began: tuple[int, int], ended: tuple[int, int]) -> None:
        """Determine the nanoseconds of a tick. For the parameters, see the class."""
        (self.ticks, self.begin), (end_ticks, self.end) = began, ended
        self.scale = (self.end - self.begin) / max(1, end_ticks - self.ticks)  # nanoseconds of a tick

    def of_ticks(self, ticks: int) -> int:
        """Return the nanoseconds from the beginning of the trace to a tick count; 0 for an earlier one."""
        return max(0, round((ticks - self.ticks) * self.scale))

    def of_time(self, nanoseconds: int) -> int:
        """Return the nanoseconds from the beginning of the trace to a time; 0 for earlier times."""
        return max(0, nanoseconds - self.begin)


def _read(events: int, clock: _Clock) -> tuple[list[Track], int]:
    """Return the tracks of the trace that has ended, and the number of events that are on no track.

    A track is the events of one thread or device queue, in the order of time.

    Args:
        events: Number of events that are retained for each thread.
        clock: Converts the recorded times to nanoseconds since the start of the trace.

    Returns:
        The tracks: pool threads by their number, other threads, then device queues. The number of events that are
        missing because their threads got no track, as the recorder has a limited number of them.
    """
    recorded_tracks, without = recorder.tracks(events)
    names = {thread.ident: thread.name for thread in threading.enumerate()}  # of threads that still run
    threads: dict[int, Track] = {}
    workers: dict[int, int] = {}  # thread → its number in a pool
    # worker: number of a pool thread, else None. recorded: number of events. raw: the events that were not overwritten.
    for ident, worker, recorded, raw in recorded_tracks:
        # A pool thread has two tracks if it recorded its first event while trace_threads() added its idle time. Only
        # one of them has the worker number.
        track = threads.setdefault(ident, Track(names.get(ident, f"thread {ident:#x}"), []))
        events_of_track = track.events + [_event(clock, *fields) for fields in raw]
        threads[ident] = replace(track, events=events_of_track, lost=track.lost + recorded - len(raw))
        if worker is not None:
            workers[ident] = worker
    pool = [
        replace(threads[ident], name=f"worker {workers[ident]}") for ident in sorted(workers, key=workers.__getitem__)
    ]
    tracks = pool + [track for ident, track in threads.items() if ident not in workers]
    tracks += _queues(clock)
    return [replace(track, events=list(_nested(track.events))) for track in tracks], without


def _event(
    clock: _Clock, kind: int, name: str, begin: int, end: int, first: int, count: int, failed: bool
) -> Event:  # fmt: skip
    """Return an event of a track from its raw record. begin, end: ticks. first, count: first workgroup and number of
    workgroups of a run, or number of threads woken."""
    args: dict[str, Any] = {}
    if kind == Kind.RUN:
        args.update(workgroups=count, first=first)
    elif kind == Kind.WAKE:
        args.update(threads=count)
    if failed:
        args.update(failed=True)
    first_ns = clock.of_ticks(begin)
    return Event(Kind(kind).name.lower(), name, first_ns, max(first_ns, clock.of_ticks(end)), args)


def _queues(clock: _Clock) -> list[Track]:
    """Return a track for each device queue with its runs, whose times are converted to those of the trace.

    Lost events are counted for all queues together; the first track has that number.
    """
    raw, lost = recorder.take_queued()
    queues: dict[str, list[Event]] = {}
    for queue, name, begin, end, workgroups in raw:
        args = {"workgroups": workgroups} if workgroups else {}
        queues.setdefault(queue, []).append(Event("run", name, clock.of_time(begin), clock.of_time(end), args))
    if lost and not queues:  # an empty track, to state the lost events
        queues["queues"] = []
    return [Track(name, events, lost if i == 0 else 0) for i, (name, events) in enumerate(queues.items())]


def _nested(events: Iterable[Event]) -> Iterator[Event]:
    """Yield the events by start time, with ends clipped to those of the enclosing events.

    The clocks of CPUs may differ slightly, so that an event can appear to outlast the event around it.
    """
    around: list[int] = []  # ends of the enclosing events, outermost first
    # Of events with one begin the longest comes first, as it encloses the others.
    for event in sorted(events, key=lambda event: (event.begin, -event.end)):
        while around and around[-1] <= event.begin:
            around.pop()
        end = min(event.end, around[-1]) if around else event.end
        around.append(end)
        yield event if end == event.end else replace(event, end=end)


def _file(tracks: list[Track], without: int) -> str:
    """Return the text of the trace file, JSON in the Trace Event Format, with an event in each line.

    Its "otherData" states how many events each track has lost, {"lost": {"worker 0": 12}}.

    without: number of events of threads that have no track.
    """
    process = os.getpid()
    lost: dict[str, int] = {}
    for track in tracks:  # several may have one name, such as the first workers of two devices
        if track.lost:
            lost[track.name] = lost.get(track.name, 0) + track.lost
    if without:
        lost["threads without a track"] = without
    entries: list[dict[str, Any]] = [
        {"name": "process_name", "ph": "M", "pid": process, "tid": 0, "args": {"name": "pydispatch"}}
    ]
    for ordinal, track in enumerate(tracks, 1):
        entries += _entries_of(track, process, ordinal)
    lines = ",\n".join(json.dumps(event) for event in entries)
    return f'{{"displayTimeUnit": "ns",\n"otherData": {{"lost": {json.dumps(lost)}}},\n"traceEvents": [\n{lines}\n]}}\n'


def _entries_of(track: Track, process: int, ordinal: int) -> list[dict[str, Any]]:
    """Return the entries of a track in the Trace Event Format, which Perfetto reads; times are in microseconds.

    Kinds of entries ("ph"): M names a thread or sorts it, i is an instant, X an activity with a duration.

    Args:
        track: The track.
        process: Id of the process.
        ordinal: Number of the track from 1, which stands for the id of its thread.
    """
    ids = {"pid": process, "tid": ordinal}
    entries: list[dict[str, Any]] = [
        {"name": "thread_name", "ph": "M", **ids, "args": {"name": track.name}},
        {"name": "thread_sort_index", "ph": "M", **ids, "args": {"sort_index": ordinal}},
    ]
    if track.lost:
        # An instant where the retained events begin: older ones were overwritten.
        first = track.events[0].begin if track.events else 0
        text = f"{track.lost} earlier events are lost"
        entries.append({"name": text, "cat": "lost", "ph": "i", "s": "t", "ts": first / 1000, **ids})
    for event in track.events:
        # Nanoseconds as microseconds.
        begin, duration = event.begin / 1000, (event.end - event.begin) / 1000
        entries.append({"name": event.label, "cat": event.kind, "ph": "X", "ts": begin, "dur": duration, **ids,
                        "args": event.args})  # fmt: skip
    return entries
