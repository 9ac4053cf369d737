"""Call graph of kernels: the functions that a kernel calls, and the imports among them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from pydispatch.compiler.kernel_ir.readers import attribute, op_name, symbol
from pydispatch.ir.core.walk import walk
from pydispatch.ir.functions import CALLS

AVAILABLE = "pyd.import.available"
"""Operation that returns whether an optional import was found when the program was loaded."""
STATIC = "hal.import.static"
"""Attribute of a declaration whose function is defined by an object file that is linked with the kernel."""
BITCODE = "hal.import.bitcode"
"""Attribute of a declaration whose function LLVM bitcode defines."""


def is_declaration(function: FuncOp) -> bool:
    """Return whether a function has no body."""
    return not function.body.blocks


def is_import(function: FuncOp) -> bool:
    """Return whether a function is an import: resolved when the program is loaded, not when the kernel is linked."""
    return is_declaration(function) and not any(attribute(function, name) is not None for name in (STATIC, BITCODE))


def is_set(op: Operation, name: str) -> bool:
    """Return whether a unit attribute is set, in any of its spellings: present, true, [true]."""
    value = attribute(op, name)
    if isinstance(value, ArrayAttr):
        value = value.data[0] if len(value.data) == 1 else None
    if isinstance(value, IntegerAttr):
        return bool(value.value.data)
    return value is not None


def callees(function: FuncOp) -> Iterator[str]:
    """Yield the names of the functions that a function calls, or whose presence it tests."""
    for op in walk(function):
        if op_name(op) in (*CALLS, AVAILABLE):
            yield symbol(op, "callee")


def reachable(functions: Mapping[str, FuncOp], name: str) -> set[str]:
    """Return the names of all functions that a call of `name` may execute, `name` included.

    functions: name -> function of the module, declarations included.
    """
    seen, pending = {name}, [name]
    while pending:
        for callee in callees(functions[pending.pop()]):
            if callee in functions and callee not in seen:
                seen.add(callee)
                pending.append(callee)
    return seen


def import_symbol(function: FuncOp) -> str:
    """Return the symbol that an external function is linked or looked up by; a leading "?" marks an optional import."""
    value = attribute(function, "hal.import.name")
    return str(value.data) if isinstance(value, StringAttr) else str(function.sym_name.data)


def bare_symbol(function: FuncOp) -> str:
    """Return the symbol of an import without the leading "?" of an optional one."""
    return import_symbol(function).removeprefix("?")


def is_optional(function: FuncOp) -> bool:
    """Return whether a program runs without the symbol of this declaration."""
    return is_set(function, "hal.import.optional") or import_symbol(function).startswith("?")


def reached_imports(functions: Mapping[str, FuncOp], export: str) -> list[FuncOp]:
    """Return the declarations of imports that an export calls, directly or through others, in the order of the module.

    functions: name -> function of the module, declarations included. An export that is not among them calls none.
    """
    reached = reachable(functions, export) if export in functions else set()
    return [function for name, function in functions.items() if name in reached and is_import(function)]


def import_fields(function: FuncOp) -> list[str]:
    """Return the entries of `hal.import.fields`: names of values that each call passes after its own arguments."""
    value = attribute(function, "hal.import.fields")
    items = value.data if isinstance(value, ArrayAttr) else ()
    return [str(item.data) for item in items if isinstance(item, StringAttr)]


def asserts(function: FuncOp) -> bool:
    """Return whether the body of a function contains an assertion; assertions in callees do not count."""
    return any(op.name == "cf.assert" for op in walk(function))
