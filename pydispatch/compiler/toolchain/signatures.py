"""The parameters of a function in bitcode: types from its signature, names from it or from its debug information."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import Any

from pydispatch.compiler.worker import llvm_process
from pydispatch.compiler.worker.library import library
from pydispatch.errors import Error

# Id of a function's debug information: 7 in `define ... !dbg !7 {`. `_NAMED` matches parameters with `scope: !7`.
_SCOPE = re.compile(r"^define [^\n]* !dbg !(\d+) \{", re.MULTILINE)
_NAMED = re.compile(r'!DILocalVariable\(name: "([^"]*)", arg: (\d+), scope: !(\d+)')
"""Debug information of a parameter: its name, its index from 1, and the id of its function's scope."""
_READ_ONLY = frozenset([b"readonly", b"readnone"])
"""Attributes of LLVM, one of which marks a pointer parameter that the function does not write through."""


@dataclass(frozen=True)
class BitcodeParameter:
    """Parameter of a function in bitcode.

    Attributes:
        name: Name; "" if the bitcode does not state it.
        type: LLVM's type, as text.
        is_read_only: Whether it is a pointer that LLVM has marked as not stored through.
    """

    name: str
    type: str
    is_read_only: bool


@functools.lru_cache(maxsize=32)
def bitcode_parameters(bitcode: bytes, symbol: str) -> tuple[BitcodeParameter, ...] | None:
    """Return the parameters of the function `symbol`; None if the bitcode does not define it, or LLVM refuses it."""
    try:
        return llvm_process.call(_parameters, bitcode, symbol)
    except (Error, llvm_process.Died):  # linking will refuse the file, and report why
        return None


def _parameters(bitcode: bytes, symbol: str) -> tuple[BitcodeParameter, ...] | None:
    """Return the parameters of a function in bitcode; None if LLVM cannot read it, or it does not define the function.

    `bitcode_parameters` calls it in an LLVM process.
    """
    llvm = library()
    with llvm.create_context() as context:
        try:
            module = llvm.parse_bitcode(bitcode, context)
        except RuntimeError:
            return None
        with module:
            function = next((f for f in module.functions if f.name == symbol and not f.is_declaration), None)
            if function is None:
                return None
            names = _names(str(function), str(module))
            return tuple(
                _parameter(argument, names.get(index, "")) for index, argument in enumerate(function.arguments, 1)
            )


def _parameter(argument: Any, name: str) -> BitcodeParameter:
    """Build a parameter. name: its name in debug information, "" if there is none."""
    own_name = "" if argument.name.isdecimal() else argument.name  # LLVM numbers values without a name: %0
    return BitcodeParameter(name or own_name, str(argument.type), not _READ_ONLY.isdisjoint(argument.attributes))


def _names(function: str, module: str) -> dict[int, str]:
    """Return the names that debug information has for the parameters, by their index from 1; {} without it.

    function: LLVM IR of the function. module: LLVM IR of its module, which has the metadata.
    """
    scope = _SCOPE.search(function)
    if scope is None:
        return {}
    return {int(index): name for name, index, name_scope in _NAMED.findall(module) if name_scope == scope[1]}
