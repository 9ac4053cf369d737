"""Every function that a kernel in the per-invocation style may call, with its handler."""

from __future__ import annotations

from typing import Any

from pydispatch.kernels import allocations, atomics, calls, prints

HANDLERS: dict[Any, calls.Handler] = {**calls.TABLE, **atomics.TABLE, **allocations.TABLE, **prints.TABLE}
"""Function of Python that kernels may call → handler that emits the call."""
