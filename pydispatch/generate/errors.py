"""Errors of the engine and of its requests. A cancelled request raises `concurrent.futures.CancelledError`."""

from __future__ import annotations

from pydispatch.errors import Error


class QueueFullError(Error):
    """Refusal of a request because `max_queue` requests wait already.

    Submit it again later, or wait with `submit(..., wait=True)` or `submit_async`.
    """


class DeadlineError(Error, TimeoutError):
    """End of a request whose deadline passed before its last token."""


class EngineStoppedError(Error):
    """End of all requests of an engine that cannot go on, and refusal of later ones.

    `__cause__` is the failure that stopped the engine.
    """
