"""Expressions of Python that kernels do not have."""

from __future__ import annotations

import ast


def kind_of(node: ast.AST) -> str:
    """Return a description of the syntax of an expression, for error messages."""
    return _KINDS.get(type(node), f"'{type(node).__name__}'")


_KINDS: dict[type[ast.AST], str] = {
    ast.List: "a list",
    ast.Dict: "a dict",
    ast.Set: "a set",
    ast.ListComp: "a list comprehension",
    ast.GeneratorExp: "a generator",
    ast.Lambda: "a lambda",
    ast.JoinedStr: "an f-string",
    ast.Await: "await",
    ast.Yield: "yield",
    ast.NamedExpr: "':='",
    ast.Starred: "'*'",
    ast.DictComp: "a dict comprehension",
    ast.SetComp: "a set comprehension",
    ast.YieldFrom: "yield",
}
"""Names of the nodes of Python's syntax in errors."""
REMEDIES: dict[type[ast.AST], str] = {
    ast.List: "use a tuple, or memory of the workgroup: pydispatch.shared((16,), pydispatch.f32)",
    ast.ListComp: "write a loop",
    ast.GeneratorExp: "write a loop",
    ast.Lambda: "write a function with def",
    ast.NamedExpr: "assign in a line of its own",
    ast.Dict: "use variables",
    ast.Set: "use variables",
}
"""Node of Python's syntax that kernels do not support -> advice on what to write instead."""
