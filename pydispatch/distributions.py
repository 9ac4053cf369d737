"""Versions and entry points of installed packages, read from their metadata folders where these suffice.

`importlib.metadata` is only imported where they do not: it imports the package `email`, which takes a tenth of the time
in which an unchanged program is read from the cache.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_SUFFIXES = (".dist-info", ".egg-info")
"""Suffixes of a package's metadata: a folder beside the package, such as `numpy-2.1.0.dist-info`; old installers write
a file."""

_HEAD_BYTES = 4096
"""Number of bytes of a package's metadata that are read: the version is in one of the first lines."""

_VERSION = "Version: "
"""Begin of the line of the metadata that states the version."""


def version(name: str) -> str | None:
    """Return the version of an installed package, as its metadata states it; None if it is not installed.

    `version("llvmlite")` is "0.43.0" if an entry of `sys.path` has a folder `llvmlite-0.43.0.dist-info`, whose file
    METADATA has the line `Version: 0.43.0`.

    Args:
        name: Name of the package, such as "llvmlite".
    """
    wanted = _normalized(name)
    for folder in _folders():
        # Of "llvmlite-0.43.0.dist-info", the name of the package is the text before the first "-".
        if _normalized(folder.name.removesuffix(folder.suffix).partition("-")[0]) == wanted:
            for line in _head_of_metadata(folder).splitlines():
                if line.startswith(_VERSION):
                    return line.removeprefix(_VERSION).strip()
    if _folders_are_complete():  # no package is listed anywhere else
        return None
    from importlib import metadata  # slow to import: only for packages in archives, eggs and import hooks

    with suppress(metadata.PackageNotFoundError):
        return metadata.version(name)
    return None


def may_have_entry_points(group: str) -> bool:
    """Return whether an installed package may have entry points in a group.

    False is certain. After True, `importlib.metadata` has to list them: some metadata may be where this does not look.

    Args:
        group: Name of the group, such as "pydispatch.extensions".
    """
    heading = f"[{group}]".encode()
    for folder in _folders():
        with suppress(OSError):
            if heading in (folder / "entry_points.txt").read_bytes():
                return True
    return not _folders_are_complete()


def _folders_are_complete() -> bool:
    """Return whether the metadata of all installed packages is in folders that `_folders` yields.

    It is elsewhere for packages inside of archives and eggs on `sys.path`, and for those of import hooks: other finders
    than Python's own `PathFinder` that list packages.
    """
    finders = [finder for finder in sys.meta_path if hasattr(finder, "find_distributions")]
    has_own_finder = any(getattr(finder, "__name__", "") != "PathFinder" for finder in finders)
    return not has_own_finder and not any(entry.endswith(".egg") or os.path.isfile(entry) for entry in _path())  # noqa: PTH113


def _folders() -> Iterator[Path]:
    """Yield the metadata folders, and files of old installers, of installed packages, in the order of `sys.path`."""
    for entry in _path():
        with suppress(OSError):  # entries that are no folders
            for name in os.listdir(entry):  # noqa: PTH208  (objects for each of hundreds of names would take longer)
                if name.endswith(_SUFFIXES):
                    yield Path(entry, name)


def _path() -> list[str]:
    """Return the entries of `sys.path` as paths: an empty entry is the working folder."""
    return [entry or "." for entry in sys.path if isinstance(entry, str)]


def _head_of_metadata(folder: Path) -> str:
    """Return the first lines of a package's metadata, from a path that `_folders` yields; "" if it has none."""
    # Wheels have METADATA, eggs PKG-INFO; the metadata of an old installer is the file itself.
    for path in (folder / "METADATA", folder / "PKG-INFO", folder):
        with suppress(OSError), path.open("rb") as file:
            return file.read(_HEAD_BYTES).decode(errors="replace")
    return ""


def _normalized(name: str) -> str:
    """Return the name of a package in the form in which equal names are equal: in lower case, with "_" for "-" and
    "."."""
    return name.lower().replace("-", "_").replace(".", "_")
