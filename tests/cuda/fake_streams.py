"""Streams, events and graphs of the fake driver: work waits in queues until somebody waits for it.

Nothing runs before it has to. So memory that goes back too early, a copy that is not waited for or a forgotten
dependency shows as a wrong result here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

LEGACY = 1


class Stream:
    """A queue. done: how many operations have run."""

    def __init__(self, number: int, is_blocking: bool) -> None:
        self.number, self.is_blocking = number, is_blocking
        self.queue: list[Callable[[], None]] = []
        self.done = 0

    def run_to(self, position: int) -> None:
        """Runs the operations before `position`."""
        while self.done < min(position, len(self.queue)):
            operation = self.queue[self.done]
            self.done += 1
            operation()

    def drain(self) -> None:
        self.run_to(len(self.queue))


class Event:
    """A place in a stream, or nowhere yet."""

    def __init__(self, is_timed: bool) -> None:
        self.is_timed = is_timed
        self.stream: Stream | None = None
        self.position = 0
        self.time = 0.0

    def wait(self) -> None:
        if self.stream is not None:
            self.stream.run_to(self.position)

    @property
    def is_done(self) -> bool:
        return self.stream is None or self.stream.done >= self.position


class Streams:
    """The streams of one device."""

    def __init__(self, numbers: Callable[[], int]) -> None:
        self.numbers = numbers
        self.legacy = Stream(LEGACY, False)
        self.by_number: dict[int, Stream] = {0: self.legacy, LEGACY: self.legacy}

    def create(self, flags: int) -> int:
        number = self.numbers()
        self.by_number[number] = Stream(number, not flags & 1)
        return number

    def put(self, stream: Stream, operation: Callable[[], None]) -> None:
        """At the end of a stream. The default stream and those that are ordered with it wait for each other."""
        if stream is self.legacy:
            for other in {*self.by_number.values()} - {stream}:
                if other.is_blocking:
                    self.after(stream, other)
        elif stream.is_blocking and self.legacy.queue:
            self.after(stream, self.legacy)
        stream.queue.append(operation)

    def after(self, stream: Stream, other: Stream) -> None:
        position = len(other.queue)
        if other.done < position:
            stream.queue.append(lambda: other.run_to(position))

    def drain(self) -> None:
        for stream in {*self.by_number.values()}:
            stream.drain()


class Graph:
    """Nodes with what they wait for. Run in the order that is least expected: of what may run, what came last."""

    def __init__(self) -> None:
        self.nodes: list[tuple[int, list[int]]] = []
        self.work: dict[int, Any] = {}

    def add(self, number: int, after: list[int], work: Any) -> None:
        assert len(set(after)) == len(after), "a dependency stands twice"
        assert all(node in self.work for node in after), "a dependency is no node of this graph"
        self.nodes.append((number, after))
        self.work[number] = work

    def copy(self) -> Graph:
        made = Graph()
        made.nodes, made.work = list(self.nodes), dict(self.work)
        return made

    def order(self) -> list[Any]:
        """The work of its nodes."""
        left, done, found = list(self.nodes), set[int](), []
        while left:
            ready = [node for node in left if done.issuperset(node[1])]
            left.remove(ready[-1])
            done.add(ready[-1][0])
            found.append(self.work[ready[-1][0]])
        return found
