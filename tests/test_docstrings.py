"""Docstrings of classes begin with a noun, and those of modules are no questions; ruff checks those of functions."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FILES = sorted([*(ROOT / "pydispatch").rglob("*.py"), *(ROOT / "_core").glob("*.py")])
THIRD_PERSON = frozenset((
    "Adds", "Applies", "Appends", "Begins", "Binds", "Builds", "Calls", "Changes", "Checks", "Chooses", "Closes",
    "Compares", "Compiles", "Computes", "Converts", "Copies", "Creates", "Decodes", "Defines", "Drops", "Emits",
    "Ends", "Erases", "Evaluates", "Fills", "Finds", "Gives", "Inserts", "Keeps", "Leaves", "Lets", "Links", "Loads",
    "Makes", "Maps", "Marks", "Moves", "Notes", "Opens", "Parses", "Passes", "Prints", "Puts", "Raises", "Reads",
    "Records", "Refuses", "Releases", "Removes", "Replaces", "Resolves", "Returns", "Rewrites", "Runs", "Says",
    "Sets", "Splits", "Starts", "Stores", "Submits", "Takes", "Tells", "Turns", "Waits", "Writes", "Yields",
))  # fmt: skip
CONJUNCTIONS = frozenset((
    "How", "One", "Of", "What", "When", "Where", "Whether", "Which", "Why",
))  # fmt: skip
"""First words that a class and a module may not have; a class may not have a verb either."""


def wrong(path: Path) -> Iterator[str]:
    """Yield the docstrings of a file that begin with a wrong word."""
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, (ast.Module, ast.ClassDef)):
            continue
        first = (ast.get_docstring(node) or "-").split()[0].rstrip(".,:;")
        if first in CONJUNCTIONS or (isinstance(node, ast.ClassDef) and first in THIRD_PERSON):
            line = 1 if isinstance(node, ast.Module) else node.lineno
            yield f"{path.relative_to(ROOT)}:{line}: {getattr(node, 'name', 'module')}: {first}"


@pytest.mark.parametrize("folder", sorted({path.relative_to(ROOT).parts[:2] for path in FILES}))
def test_first_words(folder: tuple[str, ...]) -> None:
    found = [line for path in FILES if path.relative_to(ROOT).parts[:2] == folder for line in wrong(path)]
    assert not found, "begin these with a noun, such as 'Reader of' or 'Names of':\n" + "\n".join(found)


def test_what_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("test_docstrings.ROOT", tmp_path)
    path = tmp_path / "example.py"
    path.write_text('''"""Which files are read."""

class Good:
    """A reader."""

class Bad:
    """What reads."""

class Worse:
    """Reads a byte."""
''')
    assert list(wrong(path)) == [
        "example.py:1: module: Which", "example.py:6: Bad: What", "example.py:9: Worse: Reads",
    ]  # fmt: skip
