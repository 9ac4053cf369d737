"""Check that tracing is deterministic: two traces of a function must give the same program."""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Operation, SSAValue

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

    Operations are compared in order, by name, operands, attributes and types. name: name of the program.
    """
    counterparts = dict[SSAValue, SSAValue]()  # value of `module` -> value of `again` that is defined at its position
    # Traces of different lengths may begin with equal operations: the lengths are compared after that.
    for index, (op, other) in enumerate(zip(walk(module), walk(again), strict=False)):
        if index and not _is_same(op, other, counterparts):  # operation 0 is the module itself
            raise CompileError(
                f"program '{name}' is another one each time it is traced: this value has changed since the first "
                "trace",
                _location(other, again) or _location(op, module), _NOTE,
            )  # fmt: skip
        counterparts |= zip(_defined_values(op), _defined_values(other), strict=True)
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


def _defined_values(op: Operation) -> list[SSAValue]:
    """Return the results of an operation and the arguments of its blocks, which the operations in these may read."""
    return [*op.results, *(argument for region in op.regions for block in region.blocks for argument in block.args)]


def _is_same(lhs: Operation, rhs: Operation, counterparts: dict[SSAValue, SSAValue]) -> bool:
    """Return whether two operations have equal names, attributes and types of the values that they define, and read
    values that are defined at equal positions of the two programs.

    counterparts: for each value that is defined before `lhs`, the value at its position in the program of `rhs`.
    """
    return (
        lhs.name == rhs.name
        and [counterparts[operand] for operand in lhs.operands] == list(rhs.operands)
        and _are_same(lhs.properties, rhs.properties)
        and _are_same(lhs.attributes, rhs.attributes)
        and [value.type for value in _defined_values(lhs)] == [value.type for value in _defined_values(rhs)]
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
