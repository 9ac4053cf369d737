"""Location of the Cython declarations of `pydispatch._core`."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from pathlib import Path

from pydispatch.errors import Error

_PACKAGE = Path(__file__).resolve().parent
_MARK = "capi.pxd"


def folder() -> str:
    """Return the folder that has `pydispatch/_core/capi.pxd`; in a checkout, create it with links to the sources. Error
    where there are no declarations.
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
