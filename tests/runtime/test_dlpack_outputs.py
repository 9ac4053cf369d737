"""`out=` of other libraries: memory that its owner says may be written, and none besides."""

from __future__ import annotations

import contextlib
import gc
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from pydispatch._core.dlpack import make_capsule, open_capsule

import pydispatch as pd
from pydispatch.runtime.program.program import Program

A = np.arange(8, dtype=np.float32)
B = np.full(8, 3, np.float32)


REFUSED = (
    "out 0: .*got memory that may be read-only: its DLPack capsule is of the form without a version.*; pass np.empty"
)


class Plain:
    """As JAX has it: the form without a version, whatever is asked for, over memory that must not change."""

    versioned = False

    def __init__(self, x: np.ndarray) -> None:
        self.x = x

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def __dlpack__(self, **options: object) -> object:
        return make_capsule(self.x, self.x.ctypes.data, self.x.shape, 2, 32, 1, 0, self.versioned)


class Old(Plain):
    """Before versions could be asked for."""

    def __dlpack__(self) -> object:  # type: ignore[override]
        return super().__dlpack__()


class Versioned(Plain):
    versioned = True


class Numpys(Plain):
    """With the flag of NumPy, which knows whether an array is read-only."""

    def __dlpack__(self, **options: object) -> object:
        return self.x.__dlpack__(**options)


@pytest.mark.parametrize("kind", [Plain, Old, Versioned, Numpys])
def test_inputs_of_every_form(program: Program, kind: type[Plain]) -> None:
    x = A.copy()
    references = sys.getrefcount(x)
    np.testing.assert_array_equal(program.mul(kind(x), B), A * B)
    gc.collect()
    assert sys.getrefcount(x) == references and (x == A).all()


@pytest.mark.parametrize("kind", [Plain, Old])
def test_a_capsule_without_a_version_is_no_output(program: Program, kind: type[Plain]) -> None:
    x = np.zeros(8, np.float32)
    for call in (lambda out: program.mul(A, B, out=out), lambda out: program.mul.prepare(A, B, out=out)):
        with pytest.raises(pd.InvalidArgumentError, match=REFUSED):
            call(kind(x))
    assert not x.any()


@pytest.mark.parametrize("kind", [Versioned, Numpys])
def test_a_capsule_that_may_be_written_is_one(program: Program, kind: type[Plain]) -> None:
    x = np.zeros(8, np.float32)
    given = kind(x)
    assert program.mul(A, B, out=given) is given
    np.testing.assert_array_equal(x, A * B)


def test_the_flag_of_a_capsule_holds(program: Program) -> None:
    x = np.zeros(8, np.float32)
    x.flags.writeable = False
    with pytest.raises(pd.InvalidArgumentError, match=r"out 0: .*got a read-only array; pass np\.empty"):
        program.mul(A, B, out=Numpys(x))
    np.testing.assert_array_equal(program.mul(Numpys(x), B), A * 0)


@pytest.mark.parametrize("versioned", [False, True])
def test_a_capsule_that_nobody_takes_lets_go(versioned: bool) -> None:
    x = A.copy()
    references = sys.getrefcount(x)
    capsule = make_capsule(x, x.ctypes.data, x.shape, 2, 32, 1, 0, versioned)
    assert sys.getrefcount(x) == references + 1
    del capsule
    assert sys.getrefcount(x) == references


FREED_AT_EXIT = """
import ctypes, sys
import numpy as np
from pydispatch._core.dlpack import make_capsule

versioned = sys.argv[1] == "True"
name, deleter_offset = (b"dltensor_versioned", 16) if versioned else (b"dltensor", 56)
api = ctypes.pythonapi
api.PyCapsule_GetPointer.restype = ctypes.c_void_p
api.PyCapsule_GetPointer.argtypes = api.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
x = np.arange(8, dtype=np.float32)
capsule = make_capsule(x, x.ctypes.data, x.shape, 2, 32, 1, 0, versioned)
managed, used = api.PyCapsule_GetPointer(capsule, name), b"used_" + name
api.PyCapsule_SetName(capsule, used)
deleter = ctypes.c_void_p.from_address(managed + deleter_offset)
at_exit = ctypes.CDLL(None).__cxa_atexit
at_exit.argtypes = 3 * [ctypes.c_void_p]
assert at_exit(deleter, managed, None) == 0
"""
"""Consumes a capsule as a static tensor of a C++ library does: its deleter runs when the process exits."""


@pytest.mark.skipif(sys.platform == "win32", reason="the C library has no __cxa_atexit")
@pytest.mark.parametrize("versioned", [False, True])
def test_a_tensor_that_is_freed_after_python_has_ended(versioned: bool) -> None:
    done = subprocess.run([sys.executable, "-c", FREED_AT_EXIT, str(versioned)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_capsule_that_cannot_be_made_takes_no_memory() -> None:
    def resident_pages() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1])

    before = resident_pages()
    for _ in range(100_000):
        with contextlib.suppress(TypeError):
            make_capsule(A, A.ctypes.data, ("8",), 2, 32, 1, 0)
    assert (resident_pages() - before) * 4096 < 10 << 20


def test_numpy_reads_our_capsules() -> None:
    x = A.copy()
    seen = np.from_dlpack(Versioned(x))
    assert seen.flags.writeable and seen.ctypes.data == x.ctypes.data
    assert not np.from_dlpack(Plain(x)).flags.writeable


@pytest.mark.parametrize("name", ["bfloat16", "float8_e5m2", "float8_e4m3fn"])
def test_arrays_of_types_that_numpy_does_not_export(name: str) -> None:
    array = np.arange(6).reshape(2, 3).astype(getattr(ml_dtypes, name))
    own = [pd.device("ptx-interpreter").upload(array)] if name == "bfloat16" else []
    for producer in (pd.dlpack(array), *own):
        for version in (None, (1, 0)):
            seen = open_capsule(producer.__dlpack__(max_version=version))
            assert seen.dtype == array.dtype and np.array_equal(seen.view(np.uint8), array.view(np.uint8))
    assert open_capsule(pd.dlpack(array).__dlpack__()).ctypes.data == array.ctypes.data
    assert np.array_equal(np.from_dlpack(pd.dlpack(np.arange(3))), np.arange(3))  # type: ignore[arg-type]


def test_an_array_that_dlpack_cannot_describe_is_refused() -> None:
    array = np.arange(6).reshape(2, 3).astype(ml_dtypes.bfloat16)
    with pytest.raises(BufferError, match="contiguous and may be written; give a copy"):
        pd.dlpack(array.T).__dlpack__()
    with pytest.raises(BufferError, match="the array is on the CPU"):
        pd.dlpack(array).__dlpack__(dl_device=(2, 0))
