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


@contextmanager
def shown(stream: TextIO) -> Iterator[Callable[[Progress], None]]:
    """Yield a callback for `compile(progress=)` that writes to `stream`.

    The line of a terminal is cleared at the end.
    """
    terminal, last, written = stream.isatty(), 0.0, False

    def show(progress: Progress) -> None:
        """Rewrite the line of a terminal; on another stream write a line every EVERY seconds."""
        nonlocal last, written
        if terminal:
            stream.write("\r" + text(progress)[:WIDTH].ljust(WIDTH))
            stream.flush()
            written = True
        elif progress.seconds - last >= EVERY:
            last = progress.seconds
            stream.write(text(progress) + "\n")

    try:
        yield show
    finally:
        if written:
            stream.write("\r" + " " * WIDTH + "\r")


def text(progress: Progress) -> str:
    """Format a progress report, such as `12 s: code 34 of 66, about 11 s left: f_dispatch_33_matmul`."""
    line = f"{progress.seconds:.0f} s: {progress.phase}"
    if progress.total:
        line += f" {progress.done} of {progress.total}"
    if progress.left is not None:
        line += f", about {progress.left:.0f} s left"
    return f"{line}: {progress.name}" if progress.name else line
