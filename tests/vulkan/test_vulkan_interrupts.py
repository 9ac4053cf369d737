"""Exceptions while a submission runs: they are raised when the device is done, so that no block is used by two."""

from __future__ import annotations

import ctypes
import gc
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from vulkan_programs import MUL, PUSH, binary, buffers, export, source

import pydispatch as pd
from pydispatch.runtime.devices.vulkan.record import CommandBufferRecorder
from pydispatch.runtime.devices.vulkan.recorded_buffer import free_garbage

HOOK = """
#include <signal.h>
#include <stdint.h>
int32_t (*real)(void*, const void*, uint64_t);
int number, waits, finished;  // the signal that comes in the first wait, 0: the gate is passed there
volatile int gate;

int32_t wait_for(void* device, const void* info, uint64_t nanoseconds) {
  if (waits++ == 0) {
    if (number) raise(number);
    else for (gate = 1; gate != 2;) {}
    return 2;  // VK_TIMEOUT
  }
  int32_t result = real(device, info, nanoseconds);
  finished = result == 0;
  return result;
}
"""


@pytest.fixture(scope="module")
def hook(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """A vkWaitSemaphores in C, which runs no Python in between."""
    folder: Path = tmp_path_factory.mktemp("hook")
    (folder / "hook.c").write_text(HOOK)
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", folder / "hook.so", folder / "hook.c"], check=True)
    return ctypes.CDLL(str(folder / "hook.so"))


class Hooked:
    """A device whose next wait is the one of the hook."""

    def __init__(self, device: Any, hook: ctypes.CDLL) -> None:
        self.hook, self.context = hook, device._context

    def field(self, name: str) -> Any:
        return ctypes.c_int.in_dll(self.hook, name)

    def arm(self, number: int) -> None:
        for name, value in (("number", number), ("waits", 0), ("finished", 0), ("gate", 0)):
            self.field(name).value = value
        submit, queue, wait, handle = self.before = self.context.addresses
        ctypes.c_void_p.in_dll(self.hook, "real").value = wait
        ours = ctypes.cast(self.hook.wait_for, ctypes.c_void_p).value
        self.context.addresses = submit, queue, ours, handle

    def disarm(self) -> bool:
        """Whether the device was waited for to the end."""
        self.context.addresses = self.before
        return bool(self.field("finished").value)


@pytest.fixture
def hooked(device: Any, hook: ctypes.CDLL) -> Iterator[Hooked]:
    handlers = [(number, signal.getsignal(number)) for number in (signal.SIGALRM, signal.SIGINT)]
    yield Hooked(device, hook)
    for number, handler in handlers:
        signal.signal(number, handler)


@pytest.fixture
def program(device: Any, glsl: Any) -> Any:
    spv = glsl("mul", buffers("-a", "-b", "c") + PUSH + MUL)
    exports = export("mul", 0, 1, ("in", "in", "out"))
    return device.load(pd.compile(source([str(spv)], exports, binary("mul")), targets="vulkan"))


A = np.arange(64, dtype=np.float32)


@pytest.mark.parametrize("raised", [TimeoutError, MemoryError, SystemExit, KeyboardInterrupt, pd.Error])
@pytest.mark.parametrize("way", ["call", "prepared", "profile", "copy"])
def test_what_a_handler_raises(hooked: Hooked, device: Any, program: Any, raised: Any, way: str) -> None:
    prepared = program.mul.prepare(A, A)
    x, y = device.upload(np.arange(4096, dtype=np.float32)), device.empty(4096)
    memory = x.memory.block, y.memory.block, x.nbytes
    ways = {
        "call": lambda: program.mul(A, A), "prepared": prepared, "profile": lambda: program.mul.profile(A, A),
        "copy": lambda: device._context.copy(*memory),
    }  # fmt: skip
    live = device.memory()["live_blocks"]

    def handler(number: int, frame: object) -> None:
        raise raised("from the handler")

    signal.signal(signal.SIGALRM, handler)
    hooked.arm(signal.SIGALRM)
    with pytest.raises(raised, match="from the handler"):
        ways[way]()
    assert hooked.disarm()
    assert device.memory()["live_blocks"] == live
    for _ in range(2):  # it is usable, and what runs next is right
        np.testing.assert_array_equal(np.asarray(program.mul(A, A)), A * A)
        np.testing.assert_array_equal(np.asarray(prepared()), A * A)


def test_a_handler_that_raises_nothing(hooked: Hooked, program: Any) -> None:
    heard: list[int] = []
    signal.signal(signal.SIGALRM, lambda number, frame: heard.append(number))
    hooked.arm(signal.SIGALRM)
    np.testing.assert_array_equal(np.asarray(program.mul(A, A)), A * A)
    assert hooked.disarm() and heard == [signal.SIGALRM]


def test_an_exception_of_another_thread(hooked: Hooked, program: Any) -> None:
    """PyThreadState_SetAsyncExc, as watchdogs use it."""
    gate, thread = hooked.field("gate"), threading.get_ident()

    def interrupt() -> None:
        while gate.value != 1:
            pass
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(LookupError))
        gate.value = 2

    hooked.arm(0)
    helper = threading.Thread(target=interrupt, daemon=True)
    helper.start()
    with pytest.raises(LookupError):
        program.mul(A, A)
    assert hooked.disarm()
    helper.join()
    np.testing.assert_array_equal(np.asarray(program.mul(A, A)), A * A)


def test_an_exception_while_commands_are_recorded(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def barrier(recorder: CommandBufferRecorder, host: bool = False) -> None:
        recorder.temporary(512)
        raise TimeoutError("from the handler")

    context = device._context
    x, y = device.upload(np.arange(4096, dtype=np.float32)), device.empty(4096)
    with context.lock:
        free_garbage(context)
    live = device.memory()["live_blocks"]
    with monkeypatch.context() as patch:
        patch.setattr(CommandBufferRecorder, "barrier", barrier)
        with pytest.raises(TimeoutError, match="from the handler"):
            context.copy(x.memory.block, y.memory.block, x.nbytes)
    gc.collect()
    assert len(context.garbage) == 1, "the command buffer"
    assert device.memory()["live_blocks"] == live
    context.copy(x.memory.block, y.memory.block, x.nbytes)
    np.testing.assert_array_equal(y.download(), x.download())
