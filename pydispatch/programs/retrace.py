"""Check that tracing is deterministic: two traces of a function must give the same program."""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Operation

from pydispatch.errors import CompileError
from pydispatch.ir.core.locations import location_of
from pydispatch.ir.core.walk import walk
from pydispatch.ir.dialects.pyd.array import NumPyArrayAttr

_NOTE = (
    "random numbers, clocks and counters would become constants of the program: compute such a value before, and "
    "pass it as an argument; state of the program is pydispatch.state"
)
"""Note of the error about a program that differs when it is traced again."""


def require_same(name: str, module: ModuleOp, again: ModuleOp) -> None:
    """Raise CompileError, at the first operation that differs, unless two traces of a program are equal.

    Operations are compared by name, attributes and result types, in order. name: name of the program.
    """
    # Traces of different lengths may begin with equal operations: the lengths are compared after that.
    for index, (op, other) in enumerate(zip(walk(module), walk(again), strict=False)):
        if index and not _is_same(op, other):  # operation 0 is the module itself
            raise CompileError(
                f"program '{name}' is another one each time it is traced: this value has changed since the first "
                "trace",
                _location(other, again) or _location(op, module), _NOTE,
            )  # fmt: skip
    if sum(1 for _ in walk(module)) != sum(1 for _ in walk(again)):
        raise CompileError(f"program '{name}' has another length each time it is traced", location=None, note=_NOTE)


def _location(op: Operation, module: ModuleOp) -> Any:
    """Return the location of an operation. A weight has none: return the location of its first use."""
    if op.name == "util.global":  # a weight
        name = op.properties["sym_name"]
        for user in walk(module):
            used = user.properties.get("global")
            if used is not None and getattr(used, "root_reference", None) == name:
                return location_of(user)
    return location_of(op)


def _is_same(lhs: Operation, rhs: Operation) -> bool:
    """Return whether two operations have equal names, attributes and result types. Operands are not compared."""
    return (
        lhs.name == rhs.name
        and _are_same(lhs.properties, rhs.properties)
        and _are_same(lhs.attributes, rhs.attributes)
        and [result.type for result in lhs.results] == [result.type for result in rhs.results]
    )


def _are_same(lhs: dict[str, Attribute], rhs: dict[str, Attribute]) -> bool:
    """Return whether two operations have equal attributes; arrays are compared by their elements."""
    return lhs.keys() == rhs.keys() and all(
        value == rhs[key] or _are_equal_arrays(value, rhs[key]) for key, value in lhs.items()
    )


def _are_equal_arrays(lhs: Attribute, rhs: Attribute) -> bool:
    """Return whether two attributes are arrays of the same type with the same elements."""
    if not isinstance(lhs, NumPyArrayAttr) or not isinstance(rhs, NumPyArrayAttr) or lhs.type != rhs.type:
        return False
    return np.array_equal(lhs.raw(), rhs.raw())
