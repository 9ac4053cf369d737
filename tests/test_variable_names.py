"""Names of parameters and variables say what they hold."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SAYS_NOTHING = frozenset({"made", "found", "given", "each", "number"})
MATHEMATICS = frozenset("ijkmnxyz")
"""One-letter names of coordinates, sizes and operands of formulas."""


@cache
def functions() -> list[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Return all functions of the package with their positions."""
    found = []
    for path in sorted((ROOT / "pydispatch").rglob("*.py")):
        tree = ast.parse(path.read_text())
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                found.append((f"{path.relative_to(ROOT)}:{node.lineno} {node.name}", node))
    return found


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    arguments = function.args
    for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        yield argument.arg


def test_no_variable_has_a_name_that_says_nothing() -> None:
    wrong = set()
    for place, function in functions():
        stored = {n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        wrong |= {f"{place}: {name}" for name in SAYS_NOTHING & {*stored, *parameters(function)}}
    assert not wrong, "\n".join(sorted(wrong))


def test_few_parameters_have_one_letter() -> None:
    names = [name for _, function in functions() for name in parameters(function) if name not in ("self", "cls")]
    single = [name for name in names if len(name) == 1 and name not in MATHEMATICS and name != "_"]
    assert len(single) < 0.02 * len(names)
