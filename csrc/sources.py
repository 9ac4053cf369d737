"""The choice of the C files that belong to a system, for everything that builds csrc/.

A file name_<system>.c implements the interface `name` for one system; name_generic.c serves all systems without such a
file.
"""

from __future__ import annotations

import functools
import platform
import re
from pathlib import Path

INCLUDES = (Path(__file__).parent / "include", Path(__file__).parent)
"""Folders in which the C core looks for the headers that it includes."""

SYSTEMS = {"Linux": "linux", "Darwin": "macos", "Windows": "windows"}
"""File suffixes of systems, by the name that platform.system() returns."""

SUFFIXES = {*SYSTEMS.values(), "generic"}
"""Ends of file names, after `_`, that mark a C file as that of one system, or of all systems without their own."""


def host() -> str:
    """Return the suffix of the running system; "generic" for a system without files of its own."""
    return SYSTEMS.get(platform.system(), "generic")


def sources(folder: Path, system: str) -> list[Path]:
    """Return the .c files below a folder that a build for one system compiles, sorted.

    These are the files without a suffix of SUFFIXES, and one of the files that differ in the suffix only: that of the
    system, or else the generic one. A name that only other systems have is left out.

    Args:
        folder: searched with all of its subfolders.
        system: an element of SUFFIXES, as host() returns it.
    """
    plain: list[Path] = []
    variants: dict[Path, dict[str, Path]] = {}  # by path without suffix and ".c": the file of each suffix
    for path in folder.rglob("*.c"):
        name, _, suffix = path.stem.rpartition("_")
        if suffix in SUFFIXES:
            variants.setdefault(path.with_name(name), {})[suffix] = path
        else:
            plain.append(path)
    chosen = [files.get(system) or files.get("generic") for files in variants.values()]
    return sorted([*plain, *(path for path in chosen if path)])


@functools.cache
def with_headers(source: Path, folders: tuple[Path, ...] = INCLUDES) -> frozenset[Path]:
    """Return the paths of a C file and of the headers that it includes in quotes, directly or through others.

    Headers in angle brackets, those of the system, are left out.

    Args:
        source: the C file.
        folders: folders in which headers are searched, besides the folder of the file that includes them.
    """
    found, pending = set(), [source]
    while pending:
        path = pending.pop()
        if path not in found and path.is_file():  # a header is pending for all folders, and exists in one
            found.add(path)
            names = re.findall(r'^\s*#\s*include\s+"([^"]+)"', path.read_text(), re.MULTILINE)
            pending += [(folder / name).resolve() for name in names for folder in (path.parent, *folders)]
    return frozenset(found)
