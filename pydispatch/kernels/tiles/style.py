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
    """Return whether a kernel, or a function that it calls, is written with tiles: not where one calls a function for
    the number of an invocation.
    """
    found, seen, pending = False, {source.function}, [source]
    while pending:
        each = pending.pop()
        for node in ast.walk(each.tree):
            if isinstance(node, ast.Call):
                called = _object(each, node.func)
                if called in BY_INVOCATIONS:
                    return False
                found = found or called in FUNCTIONS
                if isfunction(called) and called not in seen and not called.__module__.startswith(_LIBRARIES):
                    seen.add(called)
                    with suppress(InvalidArgumentError):  # a call of what has no source is an error of its own
                        pending.append(Source(called))
            elif isinstance(node, ast.Subscript):
                found = found or has_slice(node)
            elif isinstance(node, (ast.BinOp, ast.AugAssign)):
                found = found or isinstance(node.op, ast.MatMult)
    return found


_LIBRARIES = ("numpy", "pydispatch")


def _object(source: Source, node: ast.expr) -> object:
    """Return the function or module of Python that a name or an attribute stands for; MISSING for anything else."""
    made: object = MISSING
    if isinstance(node, ast.Name):
        made = source.meaning(node.id)
    elif isinstance(node, ast.Attribute):
        made = getattr(_object(source, node.value), node.attr, MISSING)
    return made if isfunction(made) or ismodule(made) else MISSING


BY_INVOCATIONS = (functions.global_id, functions.local_id)
"""Functions of kernels that say what one invocation does."""


def has_slice(node: ast.Subscript) -> bool:
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    return any(isinstance(each, ast.Slice) for each in parts)
