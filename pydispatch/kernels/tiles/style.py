"""Detection of the style of a kernel: operations on tiles, or code of a single invocation."""

from __future__ import annotations

import ast

from pydispatch.kernels import functions
from pydispatch.kernels.called_functions import named_object, sources_of
from pydispatch.kernels.source import Source
from pydispatch.kernels.tiles.table import FUNCTIONS


def has_tiles(source: Source) -> bool:
    """Return whether a kernel is in the tile style: it, or a function that it calls, uses slices, `@` or tile
    functions.

    A kernel that calls global_id or local_id is in the per-invocation style, even if it has slices, which are errors
    there: its statements are executed by each invocation, not by a workgroup as a whole.
    """
    is_tiled = False
    for function in sources_of(source):
        for node in ast.walk(function.tree):
            if isinstance(node, ast.Call):
                called = named_object(function, node.func)
                if called in BY_INVOCATIONS:
                    return False
                is_tiled = is_tiled or called in FUNCTIONS
            elif isinstance(node, ast.Subscript):
                is_tiled = is_tiled or has_slice(node)
            elif isinstance(node, (ast.BinOp, ast.AugAssign)):
                is_tiled = is_tiled or isinstance(node.op, ast.MatMult)
    return is_tiled


BY_INVOCATIONS = (functions.global_id, functions.local_id)
"""Functions whose result differs between the invocations of a workgroup, so that their caller has no tiles."""


def has_slice(node: ast.Subscript) -> bool:
    """Return whether a subscript has a slice among its indices."""
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    return any(isinstance(part, ast.Slice) for part in parts)
