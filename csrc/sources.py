"""Which C files belong to a system, for everything that builds csrc/.

name_<system>.c is one system's file for the subject `name`; name_generic.c serves the systems that have none.
"""

from __future__ import annotations

import functools
import platform
import re
from pathlib import Path

INCLUDES = (Path(__file__).parent / "include", Path(__file__).parent)
"""Folders in which the C core looks for the headers that it includes."""

SYSTEMS = {"Linux": "linux", "Darwin": "macos", "Windows": "windows"}
SUFFIXES = {*SYSTEMS.values(), "generic"}


def host() -> str:
    """Return the suffix of the running system; "generic" for a system without files of its own."""
    return SYSTEMS.get(platform.system(), "generic")


def sources(folder: Path, system: str) -> list[Path]:
    """Return the .c files below a folder for a system, sorted.

    These are the files without a suffix, and one file for each subject that has a file per system.
    """
    plain: list[Path] = []
    subjects: dict[Path, dict[str, Path]] = {}
    for path in folder.rglob("*.c"):
        subject, _, suffix = path.stem.rpartition("_")
        if suffix in SUFFIXES:
            subjects.setdefault(path.with_name(subject), {})[suffix] = path
        else:
            plain.append(path)
    chosen = [files.get(system) or files.get("generic") for files in subjects.values()]
    return sorted([*plain, *(path for path in chosen if path)])


@functools.cache
def with_headers(source: Path, folders: tuple[Path, ...] = INCLUDES) -> frozenset[Path]:
    """Return a C file and the files of this project that it includes, directly or not.

    Args:
        source: the file.
        folders: where headers are looked for, beside the folder of the file that includes them.
    """
    found, pending = set(), [source]
    while pending:
        path = pending.pop()
        if path not in found and path.is_file():
            found.add(path)
            names = re.findall(r'^\s*#\s*include\s+"([^"]+)"', path.read_text(), re.MULTILINE)
            pending += [(folder / name).resolve() for name in names for folder in (path.parent, *folders)]
    return frozenset(found)
