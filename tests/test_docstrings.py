"""Docstrings begin as the guide of this project says: functions with a verb in the imperative, classes with a noun.

A first word is wrong when it can only begin a phrase without a verb or subject ("The", "What", "Whether"), or is a verb
in the third person ("Writes").
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PENDING = {"frontends", "integrations"}
FILES = sorted(
    path for path in [*(ROOT / "pydispatch").rglob("*.py"), *(ROOT / "_core").glob("*.py")] if not PENDING & {*path.parts}
)
HEADLESS = frozenset((
    "A", "Along", "An", "As", "At", "Before", "Between", "Both", "By", "Each", "Every", "Everything", "For", "From",
    "How", "In", "Its", "Nothing", "Of", "On", "One", "Per", "Something", "Such", "That", "The", "Their", "These",
    "This", "Those", "Through", "To", "Two", "What", "When", "Where", "Whether", "Which", "While", "Who", "Whole",
    "Why", "With", "Without",
))  # fmt: skip
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
"""First words that a class and a module may not have either."""


def is_described_by_its_value(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return whether a function reads as an attribute: properties are documented by a noun phrase."""
    return any("property" in ast.unparse(decorator) for decorator in function.decorator_list)


def wrong(path: Path) -> Iterator[str]:
    """Yield the docstrings of a file that begin with a wrong word."""
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        first = (ast.get_docstring(node) or "-").split()[0].rstrip(".,:;")
        if isinstance(node, ast.Module):
            is_wrong = first in CONJUNCTIONS
        elif isinstance(node, ast.ClassDef):
            is_wrong = first in CONJUNCTIONS | THIRD_PERSON
        else:
            is_wrong = first in HEADLESS | THIRD_PERSON and not is_described_by_its_value(node)
        if is_wrong:
            line = 1 if isinstance(node, ast.Module) else node.lineno
            yield f"{path.relative_to(ROOT)}:{line}: {getattr(node, 'name', 'module')}: {first}"


@pytest.mark.parametrize("folder", sorted({path.relative_to(ROOT).parts[:2] for path in FILES}))
def test_first_words(folder: tuple[str, ...]) -> None:
    found = [line for path in FILES if path.relative_to(ROOT).parts[:2] == folder for line in wrong(path)]
    assert not found, "\n".join(found)


def test_what_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("test_docstrings.ROOT", tmp_path)
    path = tmp_path / "example.py"
    path.write_text('''
class Good:
    """A reader."""
    @property
    def size(self): "The size."
    def read(self): "Read a byte."

class Bad:
    """What reads."""
    def read(self): "The next byte."
    def write(self): "Writes a byte."
''')
    assert list(wrong(path)) == ["example.py:8: Bad: What", "example.py:10: read: The", "example.py:11: write: Writes"]
