"""Names in the frontends: a class name stands for one class, and variables say what they hold."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "pydispatch" / "frontends"
VAGUE = frozenset(("made", "found", "given", "each", "number", "place", "places"))
"""Names that say how a value came about, or nothing; the words of the field are results, matches, operands, indices."""


def nodes() -> Iterator[tuple[str, ast.AST]]:
    """Yield each node of the frontends' code, with its file and line."""
    for path in sorted(FOLDER.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            yield f"{path.relative_to(FOLDER)}:{getattr(node, 'lineno', 1)}", node


def test_no_two_classes_have_one_name() -> None:
    classes: dict[str, list[str]] = defaultdict(list)
    for where, node in nodes():
        if isinstance(node, ast.ClassDef):
            classes[node.name].append(where)
    assert len(classes) > 80
    assert not {name: files for name, files in classes.items() if len(files) > 1}


def test_variables_say_what_they_hold() -> None:
    vague = [
        f"{where}: {name}"
        for where, node in nodes()
        for name in [node.arg if isinstance(node, ast.arg) else node.id if isinstance(node, ast.Name) else ""]
        if name in VAGUE
    ]
    assert not vague, "\n".join(vague)
