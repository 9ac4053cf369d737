"""Names in the frontends and below: a class name stands for one class, and variables say what they hold."""

from __future__ import annotations

import ast
from collections import defaultdict
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "pydispatch"
FOLDERS = ("frontends", "graph", "operations")
VAGUE = frozenset(("made", "found", "given", "each", "number", "place", "places"))
"""Names that say how a value came about, or nothing; the words of the field are results, matches, operands, indices."""


@cache
def names() -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Return where the folders define each class, and where each name of a variable or a parameter is."""
    classes: dict[str, list[str]] = defaultdict(list)
    variables: dict[str, list[str]] = defaultdict(list)
    for path in sorted(path for folder in FOLDERS for path in (PACKAGE / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                classes[node.name].append(f"{path.relative_to(PACKAGE)}:{node.lineno}")
            elif isinstance(node, (ast.arg, ast.Name)):
                name = node.arg if isinstance(node, ast.arg) else node.id
                variables[name].append(f"{path.relative_to(PACKAGE)}:{node.lineno}")
    return classes, variables


def test_no_two_classes_have_one_name() -> None:
    classes, _ = names()
    assert len(classes) > 80
    assert not {name: places for name, places in classes.items() if len(places) > 1}


def test_variables_say_what_they_hold() -> None:
    _, variables = names()
    assert len(variables) > 1000
    assert not {name: places for name, places in variables.items() if name in VAGUE}
