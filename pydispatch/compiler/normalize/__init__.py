"""Named operations and sugar become the core: `linalg.generic`, `arith`, `math` and `tensor`.

Each file of this folder has a table `ROWS`: name of an operation → the function that replaces it. Other packages add
tables of their own (`pydispatch.extensions`). The operations that a function creates are normalized, too, so that it
may use operations of other tables.
"""

from __future__ import annotations

from functools import cache

from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import VerifyException

from pydispatch import extensions
from pydispatch.compiler.normalize.build import Build, Row
from pydispatch.errors import CompileError
from pydispatch.ir.core.locations import location_of
from pydispatch.ir.core.walk import walk


@cache
def _rows_of(dialect: str) -> dict[str, Row]:
    """Return the rules for the operations of a dialect, by the operation's name. Raise ExtensionError if two tables
    replace one operation.

    A rule is a function `rule(op, build)` that replaces the operation: {"linalg.matmul": _named, ...} for "linalg". The
    tables are extensions of the kind "conversions": those of this package, and those that other packages register.
    """
    rows: dict[str, Row] = {}
    owners: dict[str, str] = {}  # operation → description of the table that replaces it, for the error
    for part in extensions.parts("conversions"):
        if part.dialects and dialect not in part.dialects:
            continue  # a table for other dialects: it is not imported
        for name, row in part.load().items():
            if _dialect(name) != dialect:
                continue
            if name in rows:
                raise extensions.ExtensionError(
                    f"both {owners[name]} and {part.place} of {part.owner} replace the operation '{name}'"
                )
            rows[name], owners[name] = row, f"{part.place} of {part.owner}"
    return rows


@cache
def _check_tables() -> None:
    """Raise ExtensionError for a table of another package that is wrong, whether or not the program needs it."""
    for part in extensions.parts("conversions"):
        if not part.dialects:  # a table that states its dialects is checked when the first operation of one is replaced
            for name in part.load():
                _rows_of(_dialect(name))  # for its errors


def _dialect(name: str) -> str:
    """Return the dialect of an operation's name: "linalg" of "linalg.matmul"."""
    return name.partition(".")[0]


@cache
def row_of(name: str) -> Row | None:
    """Return the rule that replaces operations of a name, such as "linalg.map"; None if they are kept."""
    return _rows_of(_dialect(name)).get(name)


def normalize(module: ModuleOp, reassociate: bool = True, has_invocations: bool = True) -> None:
    """Apply to each operation of `module` the rule for its name, if there is one, in place.

    The rules are the functions in the tables `ROWS` of this folder and of other packages: that for `linalg.matmul`
    replaces it by a `linalg.generic`. Rules also apply to the operations that other rules create.

    Args:
        module: The module.
        reassociate: Whether rules may compute sums and products of floats in another order than the written one.
        has_invocations: Whether a target may distribute a kernel over invocations, the threads of a GPU. Rules then
            avoid sequential loops over whole rows, such as the heap of a top-k.

    Raises:
        CompileError: A rule refuses an operation.
    """
    _check_tables()
    # The operations that rules replace, in the order of the program, each followed by those that its rule creates.
    pending = [op for op in walk(module) if row_of(op.name)]
    pending.reverse()  # operations are popped from the end
    while pending:
        op = pending.pop()
        if op.parent is None:  # erased, or in a region of a replaced operation
            continue
        build, row = Build(op, reassociate, has_invocations), row_of(op.name)
        assert row is not None
        try:
            row(op, build)
        except VerifyException as error:
            raise CompileError(f"'{op.name}': {error}", location_of(op)) from None
        pending += [new for new_op in reversed(build.made) if new_op.parent for new in walk(new_op) if row_of(new.name)]
