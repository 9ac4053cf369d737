"""The dialects that programs may use. A dialect is imported when its name first occurs in a program."""

from __future__ import annotations

from xdsl.context import Context

from pydispatch import extensions


def new_context() -> Context:
    """Return a new context in which every dialect is registered; a dialect is imported on first use."""
    ctx = Context()
    for dialect in extensions.parts("dialect"):  # the built-in dialects, and those of installed packages
        ctx.register_dialect(dialect.name, dialect.load)  # `load` imports and returns the xDSL dialect
    return ctx
