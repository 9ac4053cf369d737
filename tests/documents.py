"""Code blocks and commands of the documents."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
"""The documents beside the README, and the pages of the site."""
FOLDER_READMES = sorted(path for top in ("pydispatch", "csrc", "_core") for path in (ROOT / top).rglob("README.md"))
"""The texts about folders of sources."""
ARCHITECTURE = ROOT / "docs" / "architecture.md"


def blocks(document: str, language: str) -> list[str]:
    """Return the code blocks of a language. document: its path in the project."""
    return re.findall(rf"^```{language}\n(.*?)^```$", (ROOT / document).read_text(), re.DOTALL | re.MULTILINE)


def commands(document: str) -> list[list[str]]:
    """Return the words of the commands of sh blocks that begin with `pydispatch`. A backslash continues a line."""
    lines = [line for block in blocks(document, "sh") for line in block.replace("\\\n", "").splitlines()]
    return [shlex.split(line, comments=True) for line in lines if line.startswith("pydispatch ")]


def code_lines(document: Path) -> Iterator[tuple[int, str]]:
    """Yield the number, from 1, and the text of each line of a document that is in a code block of any language."""
    is_code = False
    for number, line in enumerate(document.read_text(encoding="utf-8").splitlines(), 1):
        if line.lstrip().startswith("```"):
            is_code = not is_code
        elif is_code:
            yield number, line
