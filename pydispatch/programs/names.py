"""List of NumPy functions that programs support, in docs/python-programs.md; `make lists` writes it."""

from __future__ import annotations

import numpy as np

from pydispatch.programs import functions as _functions
from pydispatch.programs.array import METHODS, Array


def listed() -> str:
    """Return a Markdown list of the NumPy functions and array methods that traced programs support."""
    keys = sorted({*Array.UFUNCS, *Array.FUNCTIONS})
    names = [name for name in keys if hasattr(np, name)]
    # Functions of numpy.linalg whose names numpy has as well have keys that begin with "linalg.".
    linalg = {f"linalg.{name}" for name in keys if hasattr(np.linalg, name) and not hasattr(np, name)}
    names += sorted(linalg.union(name for name in keys if name.startswith("linalg.")))
    properties = {"T", "mT", "real", "imag"}
    methods = {*METHODS, *properties, "astype", "copy", "flatten", "ravel", "reshape", "transpose", "view"}
    shown = [", ".join(f"`{name}`" for name in group) for group in (names, sorted(methods))]
    return f"- Functions of NumPy: {shown[0]}.\n- Methods of arrays: {shown[1]}.\n"


__all__ = ["_functions", "listed"]  # the import of `functions` adds the handlers to Array
