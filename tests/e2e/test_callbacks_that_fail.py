# ruff: noqa: E501  (lines of scripts)
"""Functions of the host that fail, call back, close what they run in, or crash: from every workgroup, on every thread."""

from __future__ import annotations

import ctypes
import gc
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from test_imports import PROGRAM

import pydispatch as pd

HERE = Path(__file__).parent
FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
A = np.ones(64 * 40, np.float32)


@pytest.fixture(scope="module")
def artifact() -> pd.Artifact:
    return pd.compile(PROGRAM)


def loaded(artifact: pd.Artifact, action: Callable[[], int]) -> pd.Program:
    device = pd.device("cpu?workers=3")
    device.add_import("my_mul", FUNCTION(lambda params, context, reserved: action()))
    return device.load(artifact)


def test_each_workgroup_fails_and_the_next_call_works(artifact: pd.Artifact) -> None:
    code = 1
    program = loaded(artifact, lambda: code)
    prepared = program.run.prepare(A, A)
    for code in (1, -1, 0x7FFFFFFF, -(1 << 31)):
        for call in (lambda: program.run(A, A), prepared):
            with pytest.raises(pd.KernelError) as caught:
                call()
            assert (caught.value.export, caught.value.code) == ("mul", code)
    code = 0
    program.run(A, A)
    prepared()


def test_a_call_inside_a_call(artifact: pd.Artifact) -> None:
    """Of the same program, of another on the same device, with loads and closes: from three threads at once."""
    device, depth, counts = pd.device("cpu?workers=3"), [0], [0]

    def action() -> int:
        counts[0] += 1
        if depth[0] < 2:
            depth[0] += 1
            try:
                program.run(A[:200], A[:200])
                with device.load(artifact) as other:
                    other.run(A[:100], A[:100])
            finally:
                depth[0] -= 1
        return 0

    device.add_import("my_mul", FUNCTION(lambda params, context, reserved: action()))
    program = device.load(artifact)
    for _ in range(3):
        program.run(A, A)
    assert counts[0] > 3 * 40


def test_closing_and_forgetting_what_runs(artifact: pd.Artifact) -> None:
    held: dict[str, object] = {}

    def action() -> int:
        program = held.pop("program", None)
        if isinstance(program, pd.Program):
            program.close()
            held.clear()
            gc.collect()
        return 0

    program = loaded(artifact, action)
    held.update(program=program, a=A.copy())
    run = program.run
    del program
    try:
        run(A, A)
    except pd.Error as error:
        assert "close" in str(error)
    with pytest.raises(pd.Error, match="was closed"):
        run(A, A)


def test_an_exception_of_python_is_printed(artifact: pd.Artifact) -> None:
    """ctypes has no way to return it, and returns anything: the call may fail or not (docs/plugins.md)."""
    script = f"""
import sys
sys.path.insert(0, {str(HERE)!r})
import test_callbacks_that_fail as t, pydispatch as pd
def fails():
    raise ValueError("from the callback")
try:
    t.loaded(pd.compile(t.PROGRAM), fails).run(t.A, t.A)
except pd.KernelError:
    pass
print("end")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "end\n") and "ValueError: from the callback" in done.stderr


@pytest.mark.parametrize("how", ["ctypes.string_at(0)", "ctypes.memset(8, 1, 1)"])
def test_a_crash_names_the_line_that_called(artifact: pd.Artifact, how: str) -> None:
    """With Python's faulthandler; gdb names the kernel (tests/core/test_elf_debug.py)."""
    script = f"""
import faulthandler, sys
sys.path.insert(0, {str(HERE)!r})
import ctypes, test_callbacks_that_fail as t, pydispatch as pd
faulthandler.enable()
program = t.loaded(pd.compile(t.PROGRAM), lambda: {how} and 0)
def the_caller():
    program.run(t.A[:10], t.A[:10])
the_caller()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode < 0 and "in the_caller" in done.stderr
