"""Which C files belong to a system, for everything that builds csrc/.

name_<system>.c is one system's file for the subject `name`; name_generic.c serves the systems that have none.
"""

from __future__ import annotations

import platform
from pathlib import Path

SYSTEMS = {"Linux": "linux", "Darwin": "macos", "Windows": "windows"}
SUFFIXES = {*SYSTEMS.values(), "generic"}


def host() -> str:
    """The suffix of the running system; "generic" for one that no file is named after."""
    return SYSTEMS.get(platform.system(), "generic")


def sources(folder: Path, system: str) -> list[Path]:
    """The .c files in and under a folder for a system, sorted: those without a system's suffix, and one per subject."""
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
