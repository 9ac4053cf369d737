"""The functions that a kernel calls, found in its source without compiling it."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Iterator
from contextlib import suppress
from inspect import isfunction, ismodule

from pydispatch.errors import InvalidArgumentError
from pydispatch.kernels.source import MISSING, Source

_LIBRARIES = ("numpy", "pydispatch")
"""Packages whose Python functions are not inlined into kernels: a call of one without a handler is an error."""


def is_like_kernel(function: Callable[..., object], caller: Source) -> bool:
    """Return whether a Python function is inlined where a kernel calls it.

    A function of `_LIBRARIES` is not inlined, unless the caller is defined in the same module of the library.
    """
    module = function.__module__ or ""
    return module.partition(".")[0] not in _LIBRARIES or module == caller.function.__module__


def sources_of(kernel: Source) -> Iterator[Source]:
    """Yield the source of a kernel, then that of each function that it calls, directly or through others, once."""
    seen, pending = {kernel.function}, [kernel]
    while pending:
        source = pending.pop()
        yield source
        for call in ast.walk(source.tree):
            called = named_object(source, call.func) if isinstance(call, ast.Call) else MISSING
            if isfunction(called) and called not in seen and is_like_kernel(called, source):
                seen.add(called)
                with suppress(InvalidArgumentError):  # lowering the call reports a function without source
                    pending.append(Source(called, "function"))


def named_object(source: Source, node: ast.expr) -> object:
    """Return the Python function or module that a name or an attribute (`module.f`) refers to; MISSING for others."""
    value: object = MISSING
    if isinstance(node, ast.Name):
        value = source.meaning(node.id)
    elif isinstance(node, ast.Attribute):
        value = getattr(named_object(source, node.value), node.attr, MISSING)
    return value if isfunction(value) or ismodule(value) else MISSING


def has_breakpoint(kernel: Source) -> bool:
    """Return whether a kernel, or a function that it calls, calls `breakpoint`."""
    return any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and source.meaning(node.func.id) is builtins.breakpoint
        for source in sources_of(kernel)
        for node in ast.walk(source.tree)
    )
