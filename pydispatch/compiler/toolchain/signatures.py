"""The parameters of a function in bitcode: types from its signature, names from it or from its debug information."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import Any

from pydispatch.compiler.worker import llvm_process
from pydispatch.compiler.worker.library import library
from pydispatch.errors import Error

_SCOPE = re.compile(r"^define [^\n]* !dbg !(\d+) \{", re.MULTILINE)
_NAMED = re.compile(r'!DILocalVariable\(name: "([^"]*)", arg: (\d+), scope: !(\d+)')
_READ_ONLY = frozenset([b"readonly", b"readnone"])


@dataclass(frozen=True)
class BitcodeParameter:
    """Parameter of a function in bitcode.

    Attributes:
        name: Name; "" if the bitcode does not state it.
        type: LLVM's type, as text.
        is_read_only: Whether it is a pointer through which, as LLVM has found, the function does not store.
    """

    name: str
    type: str
    is_read_only: bool


@functools.lru_cache(maxsize=32)
def bitcode_parameters(bitcode: bytes, symbol: str) -> tuple[BitcodeParameter, ...] | None:
    """Return the parameters of a function that bitcode defines; None where it does not, or LLVM refuses the file."""
    try:
        return llvm_process.call(_parameters, bitcode, symbol)
    except (Error, llvm_process.Died):  # linking refuses the file, in words of its own
        return None


def _parameters(bitcode: bytes, symbol: str) -> tuple[BitcodeParameter, ...] | None:
    """Return the parameters of a function in bitcode; None if it is not defined there."""
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
    own = "" if argument.name.isdecimal() else argument.name
    return BitcodeParameter(name or own, str(argument.type), not _READ_ONLY.isdisjoint(argument.attributes))


def _names(function: str, module: str) -> dict[int, str]:
    """Return the names that debug information gives parameters, by number from 1 on."""
    scope = _SCOPE.search(function)
    if scope is None:
        return {}
    return {int(ordinal): name for name, ordinal, of in _NAMED.findall(module) if of == scope[1]}
