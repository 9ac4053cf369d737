"""Named operations and sugar become the core: `linalg.generic`, `arith`, `math` and `tensor`.

Each file of this folder has a table `ROWS`: name of an operation → the function that replaces it. Other packages add
tables of their own (`pydispatch.extensions`). The operations that a function creates are normalized, too, so that it
may use operations of other tables.
"""

from __future__ import annotations

from functools import cache

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
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
    tables are extensions of the kind "conversions": those of this package, and those that other packages register. A
    table may state its dialects, so that it is not imported for others.
    """
    rows: dict[str, Row] = {}
    owners: dict[str, str] = {}  # operation → description of the table that replaces it, for the error
    for table in extensions.parts("conversions"):
        if table.dialects and dialect not in table.dialects:
            continue
        for name, row in table.load().items():
            if _dialect(name) != dialect:
                continue
            description = f"{table.place} of {table.owner}"  # module and object, and the package that registers it
            if name in rows:
                raise extensions.ExtensionError(f"both {owners[name]} and {description} replace the operation '{name}'")
            rows[name], owners[name] = row, description
    return rows


@cache
def _check_tables() -> None:
    """Raise ExtensionError for a wrong table of another package, whether or not the program needs the table.

    Only tables that do not state their dialects are checked here. The others are imported and checked when the first
    operation of one of their dialects is replaced.
    """
    for table in extensions.parts("conversions"):
        if not table.dialects:
            rows: dict[str, Row] = table.load()  # name of an operation → rule that replaces it
            for name in rows:
                _rows_of(_dialect(name))  # called because it raises the errors


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
        build = Build(op, reassociate, has_invocations)
        _apply_rule(op, build)
        # The operations that the rule created are next, in the order of the program; operations in the regions of one
        # are replaced before it, the last of them first.
        for inserted in reversed(build.inserted):
            if inserted.parent:  # not erased again
                pending += [inner for inner in walk(inserted) if row_of(inner.name)]


def _apply_rule(op: Operation, build: Build) -> None:
    """Replace an operation by the rule for its name. Raise CompileError, with its location, if it is invalid."""
    row = row_of(op.name)
    assert row is not None
    try:
        row(op, build)
    except VerifyException as error:
        raise CompileError(f"'{op.name}': {error}", location_of(op)) from None
