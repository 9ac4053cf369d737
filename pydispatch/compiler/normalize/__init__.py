"""Named operations and sugar become the core: `linalg.generic`, `arith`, `math` and `tensor`.

Each file of this folder holds a table `ROWS`: name of an operation -> the function that replaces it; other packages add
tables of their own (`pydispatch.extensions`). What a row builds is looked at again, so that a row may use operations of
another.
"""

from __future__ import annotations

from functools import cache

from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import VerifyException

from pydispatch import extensions
from pydispatch.compiler.normalize.build import Build, Row
from pydispatch.errors import CompileError
from pydispatch.ir.core.locations import location_of


@cache
def rows() -> dict[str, Row]:
    """Every row of every table. ExtensionError for an operation that two of them replace."""
    found: dict[str, Row] = {}
    owners: dict[str, str] = {}
    for part in extensions.parts("conversions"):
        for name, row in part.load().items():
            if name in found:
                raise extensions.ExtensionError(
                    f"both {owners[name]} and {part.place} of {part.owner} replace the operation '{name}'"
                )
            found[name], owners[name] = row, f"{part.place} of {part.owner}"
    return found


def normalize(module: ModuleOp, reassociate: bool = True) -> None:
    """Rewrites `module` in place. Raises CompileError at an operation that has no meaning here.

    reassociate: sums and products of floats may be computed in another order than the written one.
    """
    table = rows()
    pending = [op for op in module.walk() if op.name in table]
    pending.reverse()
    while pending:
        op = pending.pop()
        if op.parent is None:  # What stood in a region of something that is gone.
            continue
        build = Build(op, reassociate)
        try:
            table[op.name](op, build)
        except VerifyException as error:
            raise CompileError(f"'{op.name}': {error}", location_of(op)) from None
        pending += [new for made in reversed(build.made) if made.parent for new in made.walk() if new.name in table]
