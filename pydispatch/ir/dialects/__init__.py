"""The dialects that programs may use. One is imported when its name is first met."""

from __future__ import annotations

from xdsl.context import Context

from pydispatch import extensions


def new_context() -> Context:
    """Return a new context in which every dialect is registered; a dialect is imported on first use."""
    ctx = Context()
    for part in extensions.parts("dialect"):
        ctx.register_dialect(part.name, part.load)
    return ctx
