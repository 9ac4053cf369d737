"""Named operations and sugar become the core: `linalg.generic`, `arith`, `math` and `tensor`.

Each file of this folder holds a table `ROWS`: name of an operation -> the function that replaces it. A new pattern is
one row in one of them. What a row builds is looked at again, so that a row may use operations of another.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import VerifyException

from pydispatch.compiler.normalize.build import Build, Row
from pydispatch.errors import CompileError
from pydispatch.ir.core.locations import location_of


@cache
def rows() -> dict[str, Row]:
    """Every row of every file of this folder; a name that two files claim is an error of this program."""
    found: dict[str, Row] = {}
    for info in pkgutil.iter_modules(__path__):
        table: dict[str, Row] = getattr(importlib.import_module(f"{__name__}.{info.name}"), "ROWS", {})
        for name, row in table.items():
            if name in found:
                raise AssertionError(f"two rows replace '{name}': {found[name]} and {row}")
            found[name] = row
    return found


def normalize(module: ModuleOp) -> None:
    """Rewrites `module` in place. Raises CompileError at an operation that has no meaning here."""
    table = rows()
    pending = [op for op in module.walk() if op.name in table]
    pending.reverse()
    while pending:
        op = pending.pop()
        if op.parent is None:  # What stood in a region of something that is gone.
            continue
        build = Build(op)
        try:
            table[op.name](op, build)
        except VerifyException as error:
            raise CompileError(f"'{op.name}': {error}", location_of(op)) from None
        pending += [new for made in reversed(build.made) if made.parent for new in made.walk() if new.name in table]
