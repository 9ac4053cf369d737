"""Which operations with tensors host code runs by itself, and how each is lowered."""

from __future__ import annotations

from functools import cache

from pydispatch.compiler.host import dispatches, fills, views
from pydispatch.compiler.host.straight import Rules


@cache
def table() -> Rules:
    """Name of an operation with tensors -> the function that lowers it."""
    return {**dispatches.ROWS, **fills.ROWS, **views.ROWS}
