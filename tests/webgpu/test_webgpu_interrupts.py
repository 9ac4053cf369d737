"""Exceptions of signal handlers while wgpu waits: they reach the caller, and no buffer stays mapped."""

from __future__ import annotations

import ctypes
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from webgpu_programs import SHADER, source

import pydispatch as pd

HOOK = """
#include <signal.h>
#include <stdint.h>
uint32_t (*real)(void*, uint32_t, const uint64_t*);
int number;

uint32_t poll_device(void* device, uint32_t wait, const uint64_t* index) {
  raise(number);
  return real(device, wait, index);
}
"""


@pytest.fixture(scope="module")
def hook(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """A wgpuDevicePoll in C, in which a signal comes before the callbacks are called."""
    folder: Path = tmp_path_factory.mktemp("hook")
    (folder / "hook.c").write_text(HOOK)
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", folder / "hook.so", folder / "hook.c"], check=True)
    return ctypes.CDLL(str(folder / "hook.so"))


@pytest.fixture
def handlers() -> Iterator[None]:
    before = [(number, signal.getsignal(number)) for number in (signal.SIGALRM, signal.SIGINT)]
    yield
    for number, handler in before:
        signal.signal(number, handler)


A = np.arange(64, dtype=np.float32)


@pytest.mark.parametrize("raised", [TimeoutError, MemoryError, SystemExit, KeyboardInterrupt])
@pytest.mark.parametrize("number", [signal.SIGALRM, signal.SIGINT])
def test_a_signal_in_a_copy(
    device: Any, wgsl: Any, hook: ctypes.CDLL, handlers: None, raised: Any, number: int
) -> None:
    def handler(number: int, frame: object) -> None:
        raise raised("from the handler")

    signal.signal(number, handler)
    program = device.load(pd.compile(source([wgsl("mul", SHADER)]), targets="webgpu"))
    x, y = device.upload(A), program.mul(A, A)
    context = device._context
    before = context._write_functions, context._read_functions
    ctypes.c_void_p.in_dll(hook, "real").value = before[0][1]
    ctypes.c_int.in_dll(hook, "number").value = number
    ours = ctypes.cast(hook.poll_device, ctypes.c_void_p).value
    copies = [lambda: y.download()]
    if context.is_mapped:
        y.download()
        copies.append(lambda: x.upload(A + 1))
    try:
        for copy in copies:
            live = device.memory()["live_blocks"]
            context._write_functions, context._read_functions = (
                (map_, ours, range_, unmap) for map_, _, range_, unmap in before
            )
            with pytest.raises(raised, match="from the handler"):
                copy()
            context._write_functions, context._read_functions = before
            assert device.memory()["live_blocks"] == live
            np.testing.assert_array_equal(y.download(), A * A)  # no buffer stays mapped
            np.testing.assert_array_equal(program.mul(x, x).numpy(), x.numpy() ** 2)
    finally:
        context._write_functions, context._read_functions = before


def test_messages_of_wgpu_run_no_python(device: Any) -> None:
    """A callback of Python could be interrupted, and its exception lost."""
    errors = device._context.errors
    for fields in (errors.on_lost, errors.on_error, {"callback": errors._scope_callback.callback}):
        assert "python" not in repr(fields["callback"]).lower()
    errors.begin()
    errors.lib.wgpuBufferUnmap(device.upload(A).memory.block.buffer)
    with pytest.raises(pd.InvalidArgumentError, match=r"here: .*not mapped"):
        errors.end("here")
    errors.begin()
    errors.end("nothing was said")
