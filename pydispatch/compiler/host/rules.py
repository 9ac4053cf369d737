"""Tensor operations that host code executes without a dispatch, and the lowering of each."""

from __future__ import annotations

from functools import cache

from pydispatch.compiler.host import calls, dispatches, fills, views
from pydispatch.compiler.host.straight import Rules
from pydispatch.compiler.tensor_ops.registry import rules_by_name
from pydispatch.compiler.tensor_ops.rule import View


@cache
def tensor_rules() -> Rules:
    """Return the functions that lower operations with tensors, by the operation's name."""
    # An operation whose `TensorOp` is a `View`, also one of an extension, needs no entry in a table ROWS.
    of_views = {name: views.view for name, tensor_op in rules_by_name().items() if isinstance(tensor_op, View)}
    return {**of_views, **calls.ROWS, **dispatches.ROWS, **fills.ROWS, **views.ROWS}
