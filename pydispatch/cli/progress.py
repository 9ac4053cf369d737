"""Progress of long compilations on standard error: one line that changes on a terminal, else a line now and then."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from pydispatch.compiler.driver.progress import Progress

EVERY = 10.0
"""Seconds between lines on a stream that is no terminal."""

WIDTH = 100
"""Characters of the line that is rewritten on a terminal."""


class ProgressLine:
    """Line on a stream that shows the progress of one compilation.

    `shown` creates it. The compiler calls `show` with each report; `shown` calls `clear` at the end.

    Attributes:
        stream: Stream to write to.
        is_terminal: Whether the stream is a terminal. There one line is rewritten; another stream, such as a log file,
            gets a line of its own every EVERY seconds.
        has_line: Whether the terminal shows the line, which `clear` then removes.
        last_seconds: Seconds from the start of the compilation to the last line on a stream that is no terminal.
    """

    def __init__(self, stream: TextIO) -> None:
        """Begin without a line."""
        self.stream, self.is_terminal = stream, stream.isatty()
        self.has_line, self.last_seconds = False, 0.0

    def show(self, progress: Progress) -> None:
        """Rewrite the line of a terminal; on another stream write a line every EVERY seconds."""
        if self.is_terminal:  # "\r" returns to the start of the line; blanks cover the rest of a longer text before
            self.stream.write("\r" + text(progress)[:WIDTH].ljust(WIDTH))
            self.stream.flush()
            self.has_line = True
        elif progress.seconds - self.last_seconds >= EVERY:
            self.last_seconds = progress.seconds
            self.stream.write(text(progress) + "\n")

    def clear(self) -> None:
        """Replace the line of a terminal by spaces."""
        if self.has_line:
            self.stream.write("\r" + " " * WIDTH + "\r")


@contextmanager
def shown(stream: TextIO) -> Iterator[Callable[[Progress], None]]:
    """Yield a callback for `compile(progress=)` that writes to `stream`; clear the line of a terminal at the end."""
    line = ProgressLine(stream)
    try:
        yield line.show
    finally:
        line.clear()


def text(progress: Progress) -> str:
    """Format a progress report, such as `12 s: code 34 of 66, about 11 s left: f_dispatch_33_matmul`.

    Counts, remaining seconds and the name of the dispatch are left out while they are not known.
    """
    line = f"{progress.seconds:.0f} s: {progress.phase}"
    if progress.total:
        line += f" {progress.done} of {progress.total}"
    if progress.left is not None:
        line += f", about {progress.left:.0f} s left"
    return f"{line}: {progress.name}" if progress.name else line
