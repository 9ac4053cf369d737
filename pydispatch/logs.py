"""Loggers of the standard library: `pydispatch.compiler` and `pydispatch.runtime`.

A process that has not imported `logging` has no handler for them, so nothing here imports it: it would be a part of the
time that a process takes to start. PYDISPATCH_LOG=debug, or another level, writes to the standard error stream.
"""

from __future__ import annotations

import os
import sys
import warnings
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import logging

LEVELS = ("debug", "info", "warning", "error")
"""Values of PYDISPATCH_LOG: the least level of messages that are written."""


class Log:
    """Logger of the standard library that is looked up when a message is logged, without importing `logging`."""

    def __init__(self, name: str) -> None:
        """Store the name. The logger is looked up by the first message after the process has imported `logging`."""
        self.name = name
        self._found: logging.Logger | None = None

    def _logger(self) -> logging.Logger | None:
        """Return the logger; None if the process has not imported `logging`, so that no handler can exist."""
        if self._found is None and (logging := sys.modules.get("logging")) is not None:
            self._found = logging.getLogger(self.name)
            # As libraries do: without a handler, `logging` would write warnings to standard error.
            if not (package := logging.getLogger("pydispatch")).handlers:
                package.addHandler(logging.NullHandler())
        return self._found

    @property
    def has_debug(self) -> bool:
        """Whether `debug` has an effect, for messages that are expensive to compose."""
        logger = self._logger()
        return logger is not None and logger.isEnabledFor(10)  # logging.DEBUG

    @property
    def has_info(self) -> bool:
        """Whether `info` has an effect, for messages that are expensive to compose."""
        logger = self._logger()
        return logger is not None and logger.isEnabledFor(20)  # logging.INFO

    def debug(self, text: str, *args: object) -> None:
        """Log a decision and its reason at level DEBUG."""
        if (logger := self._logger()) is not None:
            logger.debug(text, *args, stacklevel=2)

    def info(self, text: str, *args: object) -> None:
        """Log a completed action at level INFO."""
        if (logger := self._logger()) is not None:
            logger.info(text, *args, stacklevel=2)


compiler = Log("pydispatch.compiler")
runtime = Log("pydispatch.runtime")


def set_up(level: str) -> None:
    """Write messages of a level and above to standard error, as PYDISPATCH_LOG requests.

    level: one of `LEVELS`, in lower or upper case; any other one gives a warning and has no effect.
    """
    if level.lower() not in LEVELS:
        warnings.warn(f"PYDISPATCH_LOG={level}: expected {', '.join(LEVELS)}; nothing is logged", stacklevel=2)
        return
    import logging

    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(relativeCreated)7d ms %(name)s: %(message)s"))
    logger = logging.getLogger("pydispatch")
    logger.addHandler(handler)
    logger.setLevel(level.upper())


def caller_level() -> int:
    """Return the `stacklevel` by which a caller's `warnings.warn` refers to the first frame outside this package."""
    level = 1  # the caller's own frame
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "pydispatch":
        frame, level = frame.f_back, level + 1
    return level


if os.environ.get("PYDISPATCH_LOG"):
    set_up(os.environ["PYDISPATCH_LOG"])
