"""Folders of the C headers and of the Cython declarations of `pydispatch._core`."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from pathlib import Path

from pydispatch.errors import Error

_PACKAGE = Path(__file__).resolve().parent
_MARK = "capi.pxd"
"""File by which a folder of Cython declarations is recognized."""


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

    That is the parent folder of the package. An editable install has the sources of `pydispatch._core` outside of the
    package; then a folder is created in its `build` that has a link to them as `pydispatch/_core`.

    Raises:
        Error: This copy of pydispatch has no Cython declarations.
    """
    if (_PACKAGE / "_core" / _MARK).is_file():  # _MARK: a file that every copy of the declarations has
        return str(_PACKAGE.parent)
    sources = _PACKAGE.parent / "_core"
    if not (sources / _MARK).is_file():
        raise Error("the Cython declarations are not installed with this copy of pydispatch")
    try:
        return _linked(_PACKAGE.parent / "build" / "cyview", sources)
    except OSError:  # the checkout is read-only, so the folder is temporary: until this process exits
        folder = tempfile.mkdtemp(prefix="pydispatch-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        return _linked(Path(folder), sources)


def _linked(folder: Path, sources: Path) -> str:
    """Create a folder `pydispatch` in `folder` whose `_core` is a link to `sources`, and return `folder`.

    Cython finds `pydispatch._core` in that folder if an editable install has its sources outside of the package.

    Raise OSError if the folder cannot be written, or if the system has no links.
    """
    view = folder / "pydispatch"
    view.mkdir(parents=True, exist_ok=True)
    (view / "__init__.pxd").touch()
    link = view / "_core"
    if not link.exists():
        link.unlink(missing_ok=True)  # a link to sources that were moved does not "exist" either
        link.symlink_to(sources, target_is_directory=True)
    return str(folder)
