"""Detection of the style of a kernel: operations on tiles, or code of a single invocation."""

from __future__ import annotations

import ast
from contextlib import suppress
from inspect import isfunction, ismodule

from pydispatch.errors import InvalidArgumentError
from pydispatch.kernels import functions
from pydispatch.kernels.source import MISSING, Source
from pydispatch.kernels.tiles.table import FUNCTIONS


def has_tiles(source: Source) -> bool:
    """Return whether a kernel is in the tile style: it, or a function that it calls, uses slices, `@` or tile
    functions.

    A kernel that calls global_id or local_id is in the per-invocation style.
    """
    is_tiled, seen, pending = False, {source.function}, [source]
    while pending:
        function = pending.pop()
        for node in ast.walk(function.tree):
            if isinstance(node, ast.Call):
                called = named_object(function, node.func)
                if called in BY_INVOCATIONS:
                    return False
                is_tiled = is_tiled or called in FUNCTIONS
                if isfunction(called) and called not in seen and not called.__module__.startswith(_LIBRARIES):
                    seen.add(called)
                    with suppress(InvalidArgumentError):  # a call of what has no source is an error of its own
                        pending.append(Source(called))
            elif isinstance(node, ast.Subscript):
                is_tiled = is_tiled or has_slice(node)
            elif isinstance(node, (ast.BinOp, ast.AugAssign)):
                is_tiled = is_tiled or isinstance(node.op, ast.MatMult)
    return is_tiled


_LIBRARIES = ("numpy", "pydispatch")
"""Packages whose functions are not searched for tiles, since they are not inlined."""


def named_object(source: Source, node: ast.expr) -> object:
    """Return the Python function or module that a name or an attribute refers to; MISSING for anything else."""
    value: object = MISSING
    if isinstance(node, ast.Name):
        value = source.meaning(node.id)
    elif isinstance(node, ast.Attribute):
        value = getattr(named_object(source, node.value), node.attr, MISSING)
    return value if isfunction(value) or ismodule(value) else MISSING


BY_INVOCATIONS = (functions.global_id, functions.local_id)
"""Functions of kernels that say what one invocation does."""


def has_slice(node: ast.Subscript) -> bool:
    """Return whether a subscript has a slice among its indices."""
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    return any(isinstance(part, ast.Slice) for part in parts)
