"""Runs mypy on the package with the stubs of _core where an installed package has them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def main() -> int:
    view = ROOT / "build" / "types"
    package = view / "pydispatch"
    shutil.rmtree(package, ignore_errors=True)  # mypy's cache beside it stays
    package.mkdir(parents=True)
    for path in (ROOT / "pydispatch").iterdir():
        if path.name not in ("_core", "__pycache__"):
            (package / path.name).symlink_to(path)
    (package / "_core").symlink_to(ROOT / "_core")
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), "-p", "pydispatch"]
    return subprocess.run([*command, *sys.argv[1:]], cwd=view).returncode


if __name__ == "__main__":
    sys.exit(main())
