"""Operations of the dialects `func`, `util` and `flow` that define functions, call them and return from them."""

from __future__ import annotations

from xdsl.dialects.builtin import StringAttr, SymbolRefAttr
from xdsl.ir import Operation

FUNCTIONS = ("func.func", "util.func", "flow.func")
"""Names of the operations that define or declare a function."""
CALLS = ("func.call", "util.call")
"""Names of the operations that call a function by its symbol."""
RETURNS = ("func.return", "util.return")
"""Names of the operations that end a function with its results."""


def symbol_name(op: Operation) -> str:
    """Return the name of the symbol that an operation, such as a function, defines, without the "@"."""
    name = op.properties.get("sym_name", op.attributes.get("sym_name"))
    assert isinstance(name, StringAttr)
    return name.data


def callee_name(call: Operation) -> str:
    """Return the name of the function that a call (see `CALLS`) refers to, without the "@"."""
    reference = call.properties["callee"]
    assert isinstance(reference, SymbolRefAttr)
    return reference.root_reference.data
