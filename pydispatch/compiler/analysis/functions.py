"""The host functions of a module."""

from __future__ import annotations

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation

HOST_FUNCTIONS = ("func.func", "util.func")


def symbol_name(op: Operation) -> str:
    """The name that an operation defines."""
    name = op.properties.get("sym_name", op.attributes.get("sym_name"))
    assert isinstance(name, StringAttr)
    return name.data
