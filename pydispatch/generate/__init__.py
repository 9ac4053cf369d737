"""Text generation: an engine that runs many requests at once on a program with a paged cache of keys and values."""

from __future__ import annotations

from pydispatch.generate.engine import Engine, Statistics
from pydispatch.generate.errors import DeadlineError, EngineStoppedError, QueueFullError
from pydispatch.generate.handle import Handle
from pydispatch.generate.output import Completion

__all__ = [
    "Completion",
    "DeadlineError",
    "Engine",
    "EngineStoppedError",
    "Handle",
    "QueueFullError",
    "Statistics",
]
