"""Table of the handlers for the operations of a transform sequence."""

from __future__ import annotations

from pydispatch.compiler.match.transform import actions, loops, matchers, structured
from pydispatch.compiler.match.transform.interpret import Handler

HANDLERS: dict[str, Handler] = {
    **loops.HANDLERS, **matchers.HANDLERS, **structured.HANDLERS, **actions.HANDLERS,
}  # fmt: skip
"""Name of an operation of a transform sequence → function that executes it."""
