"""The multiplication called without pydispatch: by NumPy, ctypes, cffi and Numba, into memory that is there before."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from pydispatch.bench.program import Direct
from pydispatch.errors import DeviceUnavailableError

SYMBOL = "mul_arrays"
"""Name of the function of `mul.c` that multiplies whole arrays."""
Make = Callable[[Path], tuple[Any, Any]]
"""Function that takes a folder and returns the pair (device, function); the device is None for a direct call."""


def _package(name: str) -> Any:
    """Import and return an optional package; raise DeviceUnavailableError, which skips the mode, without it."""
    try:
        return import_module(name)
    except ImportError as error:
        raise DeviceUnavailableError(f"{name} cannot be imported ({error}): pip install {name}") from None


def by_numpy(folder: Path) -> tuple[Any, Any]:
    """Return (None, Direct call of numpy.multiply); None stands for the device. `folder` is not used."""
    return None, Direct(lambda lhs, rhs, out: partial(np.multiply, lhs, rhs, out))


def by_ctypes(library: Path) -> tuple[Any, Any]:
    """Return (None, Direct call of the C function in `library` through ctypes); None stands for the device.

    The arguments are converted to C types once per measurement, not in each call.
    """
    mul_arrays = ctypes.CDLL(str(library))[SYMBOL]
    mul_arrays.restype, mul_arrays.argtypes = None, [ctypes.c_void_p] * 3 + [ctypes.c_size_t]

    def bind(*arrays: Any) -> Callable[[], object]:
        """Return a call of the C function `mul_arrays` on `arrays` (lhs, rhs, out), converted to C types once."""
        pointers = (ctypes.c_void_p(array.ctypes.data) for array in arrays)
        return partial(mul_arrays, *pointers, ctypes.c_size_t(arrays[0].size))

    return None, Direct(bind)


def by_cffi(library: Path) -> tuple[Any, Any]:
    """Return (None, Direct call of the C function in `library` through cffi); None stands for the device."""
    ffi = _package("cffi").FFI()
    ffi.cdef(f"void {SYMBOL}(const float*, const float*, float*, size_t);")
    opened = ffi.dlopen(str(library))

    def bind(*arrays: Any) -> Callable[[], object]:
        """Return a call of the library's C function on `arrays` (lhs, rhs, out), converted to C types once."""
        pointers = (ffi.cast("float*", array.ctypes.data) for array in arrays)
        return partial(getattr(opened, SYMBOL), *pointers, arrays[0].size)

    return None, Direct(bind)


def by_numba(folder: Path) -> tuple[Any, Any]:
    """Return (None, Direct call of a single-threaded loop compiled by Numba); None stands for the device.

    `folder` is not used.
    """

    def multiply(lhs: Any, rhs: Any, out: Any) -> None:
        """Multiply the vectors `lhs` and `rhs` elementwise into `out`, which has their size; Numba compiles this."""
        for i in range(out.size):
            out[i] = lhs[i] * rhs[i]

    compiled = _package("numba").njit(multiply)
    return None, Direct(lambda lhs, rhs, out: partial(compiled, lhs, rhs, out))
