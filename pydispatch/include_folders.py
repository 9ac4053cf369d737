"""Folders of the C headers and of the Cython declarations of `pydispatch._core`."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from pathlib import Path

from pydispatch.errors import Error

_PACKAGE = Path(__file__).resolve().parent
_MARK = "capi.pxd"


def get_include() -> str:
    """Return the folder of the C headers, for `#include "pydispatch/library.h"`.

    Raises:
        Error: This copy of pydispatch has no headers.
    """
    for folder in (_PACKAGE / "include", _PACKAGE.parent / "csrc" / "include"):
        if (folder / "pydispatch" / "library.h").exists():
            return str(folder)
    raise Error("the C headers are not installed with this copy of pydispatch")


def get_cython_include() -> str:
    """Return the folder in which Cython finds `pydispatch._core`, for `cythonize(..., include_path=[...])`.

    That is the folder of the package; of an editable install, whose Cython sources are in another folder, a folder of
    links that is made in its `build`.

    Raises:
        Error: This copy of pydispatch has no Cython declarations.
    """
    if (_PACKAGE / "_core" / _MARK).is_file():
        return str(_PACKAGE.parent)
    sources = _PACKAGE.parent / "_core"
    if not (sources / _MARK).is_file():
        raise Error("the Cython declarations are not installed with this copy of pydispatch")
    try:
        return _linked(_PACKAGE.parent / "build" / "cyview", sources)
    except OSError:  # a checkout that cannot be written
        folder = tempfile.mkdtemp(prefix="pydispatch-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        return _linked(Path(folder), sources)


def _linked(folder: Path, sources: Path) -> str:
    """Make a tree in which the sources are the package `pydispatch._core`. OSError where that is not possible."""
    view = folder / "pydispatch"
    view.mkdir(parents=True, exist_ok=True)
    (view / "__init__.pxd").touch()
    link = view / "_core"
    if not link.exists():
        link.unlink(missing_ok=True)
        link.symlink_to(sources, target_is_directory=True)
    return str(folder)
