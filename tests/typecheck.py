"""Runs mypy on the package with the stubs of _core where an installed package has them.

Tests that check the types of other files use `check`, and so the cache that the run on the package leaves.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VIEW = ROOT / "build" / "types"
"""A folder with the package as an installation has it, and mypy's cache."""


def make_view() -> None:
    package = VIEW / "pydispatch"
    shutil.rmtree(package, ignore_errors=True)  # mypy's cache beside it stays
    package.mkdir(parents=True)
    for path in (ROOT / "pydispatch").iterdir():
        if path.name not in ("_core", "__pycache__"):
            (package / path.name).symlink_to(path)
    (package / "_core").symlink_to(ROOT / "_core")


def command(*words: object) -> list[str]:
    """Return the command that runs mypy in the view with the settings of the project."""
    return [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), *map(str, words)]


def check(*files: Path) -> str:
    """Return what mypy prints about files that import the package, and modules beside the first file."""
    if not (VIEW / "pydispatch").exists():
        make_view()
    variables = {**os.environ, "MYPYPATH": str(files[0].parent)}
    return subprocess.run(command(*files), cwd=VIEW, capture_output=True, text=True, env=variables).stdout


def main() -> int:
    make_view()
    return subprocess.run(command("-p", "pydispatch", *sys.argv[1:]), cwd=VIEW).returncode


if __name__ == "__main__":
    sys.exit(main())
