"""What to do for each operation of a transform sequence."""

from __future__ import annotations

from pydispatch.compiler.match.transform import actions, loops, matchers
from pydispatch.compiler.match.transform.interpret import Handler

HANDLERS: dict[str, Handler] = {**loops.HANDLERS, **matchers.HANDLERS, **actions.HANDLERS}
