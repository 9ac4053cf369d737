"""Versions and entry points of installed packages, without the import of `importlib.metadata` where folders suffice.

That import loads the email package, which takes a tenth of the time in which an unchanged program is read back.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_SUFFIXES = (".dist-info", ".egg-info")
"""Ends of the names of folders, or files of old installers, with a package's metadata, beside the package."""

_HEAD_BYTES = 4096
"""Bytes of a package's metadata that are read: the version is among its first lines."""

_VERSION = "Version: "


def version(name: str) -> str | None:
    """Return the version of an installed package, as its metadata states it; None if it is not installed.

    Args:
        name: Name of the package, such as "llvmlite".
    """
    wanted = _normalized(name)
    for folder in _folders():
        if _normalized(folder.name.removesuffix(folder.suffix).partition("-")[0]) == wanted:
            for line in _head_of_metadata(folder).splitlines():
                if line.startswith(_VERSION):
                    return line.removeprefix(_VERSION).strip()
    if _folders_are_complete():
        return None
    from importlib import metadata

    with suppress(metadata.PackageNotFoundError):
        return metadata.version(name)
    return None


def may_have_entry_points(group: str) -> bool:
    """Return whether an installed package may have entry points in a group; `importlib.metadata` then lists them.

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

    Archives and eggs on the path of modules have it inside; finders of other packages may have it anywhere.
    """
    finders = [finder for finder in sys.meta_path if hasattr(finder, "find_distributions")]
    has_own_finder = any(getattr(finder, "__name__", "") != "PathFinder" for finder in finders)
    return not has_own_finder and not any(entry.endswith(".egg") or os.path.isfile(entry) for entry in _path())  # noqa: PTH113


def _folders() -> Iterator[Path]:
    """Yield the metadata folders of installed packages, in the order of the path of modules."""
    for entry in _path():
        with suppress(OSError):
            for name in os.listdir(entry):  # noqa: PTH208  (objects for each of hundreds of names would take longer)
                if name.endswith(_SUFFIXES):
                    yield Path(entry, name)


def _path() -> list[str]:
    """Return the entries of the path of modules; "" is the working folder."""
    return [entry or "." for entry in sys.path if isinstance(entry, str)]


def _head_of_metadata(folder: Path) -> str:
    """Return the first lines of a package's metadata, from its folder, or a file in its place; "" if it has none."""
    for path in (folder / "METADATA", folder / "PKG-INFO", folder):
        with suppress(OSError), path.open("rb") as file:
            return file.read(_HEAD_BYTES).decode(errors="replace")
    return ""


def _normalized(name: str) -> str:
    """Return the name of a package as indexes compare it: in lower case, with "_" for "-" and "."."""
    return name.lower().replace("-", "_").replace(".", "_")
