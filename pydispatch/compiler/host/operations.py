"""Operations that host code supports, for the documentation and for error messages."""

from __future__ import annotations

from pydispatch.compiler.flatten import branches
from pydispatch.compiler.host import scalars
from pydispatch.compiler.host.rules import tensor_rules
from pydispatch.compiler.host.scalar_table import BINARY, MATH, UNARY
from pydispatch.compiler.host.segments import LOAD, READ, SAVE, STORE
from pydispatch.formats.program.steps import CheckKind

OTHERS = (
    "cf.br", "cf.cond_br", "func.call", "func.return", "hal.buffer_view.dim", "hal.buffer_view.rank",
    "hal.devices.get", "hal.fence.await", "hal.fence.create", "hal.fence.join", "hal.fence.query", "hal.fence.signal",
    "scf.condition", "scf.yield", "util.call", "util.global", "util.initializer", "util.return", LOAD, READ, SAVE,
    STORE,
)  # fmt: skip
"""Supported operations that are in no lowering table."""


def host_operations() -> list[str]:
    """Return the names of the operations that host code supports after dispatch formation, sorted."""
    refused = {name for name, row in branches.LOWERINGS.items() if row is branches.refuse}
    names = {*tensor_rules(), *scalars.ROWS, *BINARY, *UNARY, *MATH, *branches.LOWERINGS, *OTHERS}
    names |= {f"check.{kind.name.lower()}" for kind in CheckKind}
    return sorted(names - refused)
