"""Names: a class name of the frontends and below stands for one class, and variables say what they hold."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "pydispatch"
FOLDERS = ("frontends", "graph", "operations")
VAGUE = frozenset(("made", "found", "given", "each", "number"))
"""Names that say how a value came about, or nothing; the words of the field are results, matches, operands, indices."""
BINDING = re.compile(rf"\b(?:{'|'.join(VAGUE)})\b(?:\s*(?::[^\n]*)?=[^=]|[\w\s,()]*\bin\b|\s*[:,)])")
"""What stands where a variable or a parameter is bound, and in some sentences."""
VAGUE_IN_FRONTENDS = VAGUE | {"place", "places"}


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
    assert not {name: places for name, places in variables.items() if name in VAGUE_IN_FRONTENDS}


@pytest.mark.parametrize("folder", ("pydispatch", "_core", "bench", "examples"))
def test_parameters_and_local_variables_say_what_they_hold(folder: str) -> None:
    vague = list[str]()
    for path in sorted((ROOT / folder).rglob("*.py")):
        text = path.read_text()
        if BINDING.search(text):  # parsing every file takes seconds
            vague += [f"{path.relative_to(ROOT)}: {name}" for name in bound_names(ast.parse(text)) if name in VAGUE]
    assert vague == []


def bound_names(module: ast.Module) -> Iterator[str]:
    """Yield the names of parameters and of variables that are assigned, fields of classes excepted."""
    fields = {
        field.target for owner in ast.walk(module) if isinstance(owner, ast.ClassDef)
        for field in owner.body if isinstance(field, ast.AnnAssign)
    }  # fmt: skip
    for node in ast.walk(module):
        if isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node not in fields:
            yield node.id
