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
    is_terminal = stream.isatty()
    seconds_of_last_line = 0.0  # since the compilation began
    shows_line = False  # on the terminal, to be cleared

    def show(progress: Progress) -> None:
        """Rewrite the line of a terminal; on another stream write a line every EVERY seconds."""
        nonlocal seconds_of_last_line, shows_line
        if is_terminal:
            stream.write("\r" + text(progress)[:WIDTH].ljust(WIDTH))
            stream.flush()
            shows_line = True
        elif progress.seconds - seconds_of_last_line >= EVERY:
            seconds_of_last_line = progress.seconds
            stream.write(text(progress) + "\n")

    try:
        yield show
    finally:
        if shows_line:
            stream.write("\r" + " " * WIDTH + "\r")


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
