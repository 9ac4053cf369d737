"""What a kernel's import may and may not do with its own device and program, on any thread; and forks meanwhile."""

from __future__ import annotations

import ctypes
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hooked
import numpy as np
import pytest

import pydispatch as pd
from pydispatch.formats.artifact.artifact import Artifact

HERE = Path(__file__).resolve().parent
Hook = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_uint32), ctypes.c_void_p, ctypes.c_void_p)


@pytest.fixture(scope="module")
def artifact() -> Artifact:
    return hooked.build()


def load(artifact: Artifact, name: str, body: Callable[[int], None] | None) -> tuple[Any, Any]:
    """A device of its own, and the program with `body(workgroup)` as its import, or with a C function that yields."""
    device = pd.device(name)
    if body is None:
        device.add_import("hook", ctypes.cast(ctypes.CDLL(None).sched_yield, ctypes.c_void_p).value)
        return device, device.load(artifact)

    def hook(params: Any, context: object, reserved: object) -> int:
        body(params[0])
        return 0

    device.add_import("hook", Hook(hook))
    return device, device.load(artifact)


def run_on_both(call: Callable[[int], Any], seen: set[int]) -> None:
    """Runs slow workgroups until a thread of the pool has taken part as well."""
    for _ in range(50):
        call(64)
        if len(seen) > 1:
            return
    raise AssertionError("no thread of the pool took part")


def attempt(errors: dict[int, BaseException | None], action: Callable[[], object]) -> None:
    """Does `action` once per thread, and notes what it raised."""
    here = threading.get_ident()
    if here in errors:
        time.sleep(0.002)
        return
    errors[here] = None
    try:
        action()
    except BaseException as error:
        errors[here] = error
    time.sleep(0.002)


def test_a_device_is_not_closed_by_its_own_call(artifact: Artifact) -> None:
    errors: dict[int, BaseException | None] = {}
    device, program = load(artifact, "cpu?workers=3", lambda x: attempt(errors, device.close))
    run_on_both(program.ask, KeysOf(errors))
    for error in errors.values():
        assert isinstance(error, pd.Error) and "close the device when the call has returned" in str(error), error
    errors.clear()
    run_on_both(program.ask_state, KeysOf(errors))
    assert all(isinstance(error, pd.Error) for error in errors.values())
    device.close()
    device.close()
    assert program.ask(64).sum() == 64  # its threads are started again


class KeysOf(set[int]):
    """The keys of a dictionary as it is now."""

    def __init__(self, of: dict[int, Any]) -> None:
        self.of = of

    def __len__(self) -> int:
        return len(self.of)


def test_a_call_that_runs_alone_does_not_close_either(artifact: Artifact) -> None:
    for name in ("local-sync", "cpu?workers=2"):
        errors: dict[int, BaseException | None] = {}
        device, program = load(artifact, name, lambda x, e=errors: attempt(e, device.close))  # type: ignore[misc]  # noqa: B023
        program.ask(1)
        (error,) = errors.values()
        assert isinstance(error, pd.Error)
        device.close()


def test_another_thread_closes_meanwhile(artifact: Artifact) -> None:
    """Not part of the call: it waits for the threads, and the caller does the rest."""
    entered = threading.Event()

    def body(x: int) -> None:
        entered.set()
        time.sleep(0.001)

    device, program = load(artifact, "cpu?workers=2", body)
    ran: list[float] = []
    thread = threading.Thread(target=lambda: ran.append(program.ask(300).sum()))
    thread.start()
    entered.wait()
    device.close()
    thread.join()
    assert ran == [300]


REENTER = """
import sys; sys.path.insert(0, {here!r})
from test_runtime_reentry import *
errors = {{}}
device, program = load(hooked.build(), "cpu?workers=2", lambda x: attempt(errors, lambda: program.ask_state(1)))
run_on_both(program.ask_state, KeysOf(errors))
for error in errors.values():
    assert isinstance(error, pd.InvalidArgumentError), error
    assert "'ask_state': a program with mutable globals is called by one of its own kernels" in str(error)
    assert "load the program once more" in str(error)
total = program.total()
assert total and total % 64 == 0, total
errors.clear()
print(program.ask_state(1).sum(), program.total() - total)

# Around another device: the thread that calls belongs to its pool.
inner, other = load(hooked.build(), "cpu?workers=3", lambda x: attempt(errors, lambda: program.ask_state(1)))
device, program = load(hooked.build(), "cpu?workers=2", lambda x: other.ask(64))
for _ in range(50):
    if len(errors) < 3: program.ask_state(4)
assert len(errors) > 1 and all(isinstance(e, pd.InvalidArgumentError) for e in errors.values()), errors
# A function without state, and a program of its own, may be called.
errors.clear()
device, program = load(hooked.build(), "cpu?workers=2", lambda x: attempt(errors, lambda: other.total()))
run_on_both(program.ask_state, KeysOf(errors))
assert all(e is None for e in errors.values()), errors
print("end")
"""


def script(text: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", text.format(here=str(HERE))], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_program_with_state_is_not_entered_twice() -> None:
    assert script(REENTER) == "1.0 1\nend\n"


# No Python in the pool's threads: CPython 3.11's forked child waits for ever for a lock of the interpreter that another
# thread held while it made its thread state (PyOS_AfterFork_Child takes the lock before it makes it anew).
FORK = """
import sys; sys.path.insert(0, {here!r})
import os
from test_runtime_reentry import *
device, program = load(hooked.build(), "cpu?workers=3", None)
stop = threading.Event()
faults = []
def calls():
    try:
        while not stop.is_set():
            assert program.ask(40).sum() == 40
    except BaseException as error:
        faults.append(error)
def closes():
    while not stop.is_set():
        device.close()
threads = [threading.Thread(target=t) for t in (calls, calls, closes, closes)]
for thread in threads: thread.start()
for k in range(150):
    child = os.fork()
    if child == 0:
        device.close()
        os._exit(0 if program.ask(40).sum() == 40 else 3)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
stop.set()
for thread in threads: thread.join()
assert not faults, faults
print("end")
"""


def test_forks_while_the_device_is_closed() -> None:
    assert script(FORK) == "end\n"


EXIT = """
import sys; sys.path.insert(0, {here!r})
import atexit, gc
from test_runtime_reentry import *
device, program = load(hooked.build(), "cpu?workers=2", lambda x: None)
program.ask(64)
class Finalised:
    def __init__(self, device): self.device, self.me = device, self
    def __del__(self): self.device.close()
Finalised(device)
gc.collect()
assert program.ask(64).sum() == 64
errors = {{}}
def drop():
    Finalised(device)
    gc.collect()
device, program = load(hooked.build(), "cpu?workers=2", lambda x: attempt(errors, drop))
caught = []
sys.unraisablehook = lambda info: caught.append(info.exc_value)
run_on_both(program.ask, KeysOf(errors))
assert len(caught) >= 2 and all(isinstance(error, pd.Error) for error in caught), caught
atexit.register(device.close)
print("end")
"""


def test_close_from_a_finaliser_and_at_exit() -> None:
    assert script(EXIT) == "end\n"


def test_numbers_are_right_afterwards(artifact: Artifact) -> None:
    program = load(artifact, "cpu?workers=2", lambda x: None)[1]
    np.testing.assert_array_equal(program.ask_state(7), np.ones(7, np.float32))
    assert program.total() == 7
