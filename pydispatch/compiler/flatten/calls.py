"""Calls of host functions."""

from __future__ import annotations

from xdsl.dialects.builtin import SymbolRefAttr
from xdsl.ir import Operation

CALLS = ("func.call", "util.call")
RETURNS = ("func.return", "util.return")


def callee_name(call: Operation) -> str:
    """The name of the function that is called."""
    reference = call.properties["callee"]
    assert isinstance(reference, SymbolRefAttr)
    return reference.root_reference.data
