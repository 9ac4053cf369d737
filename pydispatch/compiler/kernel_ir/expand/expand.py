"""Pass that expands affine operations and memref views, in program order."""

from __future__ import annotations

from xdsl.dialects.func import FuncOp

from pydispatch.compiler.kernel_ir.build import Build, Entry, replace
from pydispatch.compiler.kernel_ir.expand import affine, views
from pydispatch.compiler.kernel_ir.expand.rule import Rule
from pydispatch.compiler.kernel_ir.readers import op_name
from pydispatch.compiler.kernel_ir.scan import Ops, ops_by_name
from pydispatch.errors import CompileError
from pydispatch.ir.core.locations import location_of
from pydispatch.ir.core.walk import walk

RULES: dict[str, Rule] = {**affine.RULES, **views.RULES}
"""Name of an operation -> function that inserts its expansion and returns the values that replace its results."""


def expand(function: FuncOp, ops: Ops | None = None) -> bool:
    """Expand the affine operations and views of a function in place, and return whether there were any.

    A rule inserts the operations that replace one operation: `affine.apply` becomes additions and multiplications,
    `memref.subview` a `memref.reinterpret_cast`.

    `ops` are the operations of the function by name, if the caller has them.

    Raises:
        CompileError: An operation cannot be expanded.
    """
    if RULES.keys().isdisjoint(ops_by_name(function) if ops is None else ops):
        return False
    entry = Entry(function)
    # In program order: an operation then reads views that are expanded already.
    for op in [op for op in walk(function) if op_name(op) in RULES]:
        try:
            replace(op, RULES[op_name(op)](Build.before(entry, op), op))
        except CompileError as error:
            if error.location is None and location_of(op) is not None:  # rules leave the location to this function
                raise CompileError(error.message, location_of(op), error.note) from None
            raise
    return True
