"""The check files: those of tests/checks, and those that tests/checks/generators writes into build/checks.

`python tests/check_files.py` writes them and prints the names of all.
"""

from __future__ import annotations

import importlib
import os
import sys
from functools import cache
from pathlib import Path

HERE = Path(__file__).resolve().parent
FOLDER = HERE / "checks"
BUILT = HERE.parent / "build" / "checks"


@cache
def files() -> list[Path]:
    """Every check file, the generated ones written."""
    return sorted([*FOLDER.rglob("*.mlir"), *written()])


@cache
def written() -> list[Path]:
    """Writes what is generated: a file stays as it is when it has the right text."""
    for folder in (FOLDER / "generators", HERE / "ops"):
        if str(folder) not in sys.path:
            sys.path.append(str(folder))
    found = []
    for path in sorted((FOLDER / "generators").glob("*.py")):
        for name, text in importlib.import_module(path.stem).texts():
            target = BUILT / f"{name}.mlir"
            found.append(target)
            if not target.exists() or target.read_text() != text:
                target.parent.mkdir(parents=True, exist_ok=True)
                fresh = target.with_suffix(f".{os.getpid()}")
                fresh.write_text(text)
                fresh.replace(target)
    return found


if __name__ == "__main__":
    print(*files(), sep="\n")
