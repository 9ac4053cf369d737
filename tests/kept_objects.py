"""Keeps objects that LLVM and clang compile between runs of the tests, in build/test-objects.

The cache of objects finds them by the text that LLVM gets, the machine and the tools. Whatever writes these texts runs
in every run. A folder belongs to one state of the sources that compile them, so that a change to these compiles
everything again.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import time
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "build" / "test-objects"
SOURCES = tuple(ROOT / "pydispatch" / "compiler" / name for name in ("backends", "devlib", "toolchain", "worker"))
"""Folders of what compiles texts; the rest of the compiler only writes them."""
UNUSED_DAYS = 14
"""A folder that no run has used for so long is removed: every case of every table has had its day since."""


def link(cache: Path, sources: Iterable[Path] = SOURCES, folder: Path = FOLDER) -> None:
    """Make the objects of a cache directory those that earlier runs have left; nothing where none can be written."""
    digest = hashlib.sha256(version("llvmlite").encode())
    for path in sorted(path for source in sources for path in source.rglob("*") if path.suffix != ".pyc"):
        digest.update(path.read_bytes() if path.is_file() else b"")
    chosen = folder / digest.hexdigest()[:16]
    with contextlib.suppress(OSError):
        chosen.mkdir(parents=True, exist_ok=True)
        os.utime(chosen)
        for other in folder.iterdir():
            if other.stat().st_mtime < time.time() - UNUSED_DAYS * 86_400:
                shutil.rmtree(other, ignore_errors=True)
        if os.access(chosen, os.W_OK):
            (cache / "objects").symlink_to(chosen)
