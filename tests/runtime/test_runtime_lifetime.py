"""Programs, plans and prepared calls that die in cycles, close or fork under running calls, or are called by hooks of
their own arguments."""

from __future__ import annotations

import ast
import gc
import importlib
import os
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import programs
import pytest

import pydispatch as pd

A = np.ones(8, np.float32)


def misaligned() -> np.ndarray:
    raw = np.zeros(256, np.uint8)
    start = -raw.ctypes.data % 64 + 4
    return raw[start : start + 32].view(np.float32)


def test_cycles_are_collected() -> None:
    # A plan whose arguments were copied holds memory of the pool, which it gives back when it dies: as the last of all.
    device = pd.device("local-sync")
    before = device.memory()["live_blocks"]
    for _ in range(5):
        holder = SimpleNamespace(program=device.load(programs.standard(alignment=64)))
        holder.program.mul(misaligned(), A)
        holder.call = holder.program.mul.prepare(misaligned(), A)
        holder.call()
        holder.function = holder.program.add
        holder.itself = holder
        del holder
        gc.collect()
    assert device.memory()["live_blocks"] == before


class Hook:
    """An argument that runs `action` when somebody asks for its memory."""

    def __init__(self, action: object) -> None:
        self.action = action

    @property
    def __array_interface__(self) -> dict[str, object]:
        self.action()
        return A.__array_interface__


def test_hooks_of_arguments_may_call_again_and_close(pdx: Path) -> None:
    program = pd.device("local-sync").load(pdx)
    assert program.mul(Hook(lambda: program.mul(Hook(lambda: None), A)), A).tolist() == A.tolist()
    prepared = program.mul.prepare(A, A)
    refused = []

    def again() -> None:
        with pytest.raises(pd.Error, match="is running already") as caught:
            prepared(A, A)
        refused.append(caught.value)

    assert prepared(Hook(again), A).tolist() == A.tolist()
    assert refused
    with pytest.raises(pd.Error, match="was closed"):
        program.mul(Hook(program.close), A)


def test_numbers_are_converted_before_arrays_are_looked_at() -> None:
    builder = programs.Builder()
    f = builder.function("last")
    a = programs.add_vector(f, "a")
    f.add_argument(programs.FunctionArgument(programs.I64, None, "n"))
    n = f.emit(programs.Opcode.DIM, a, 0)
    out = programs.finish_vector(f, n)
    f.copy(f.arguments[a].buffer, programs.NONE, out, programs.NONE, f.multiply([n, f.constant(4)]))
    program = pd.device("local-sync").load(builder.artifact())
    array = np.ones(1 << 20, np.float32)

    class Shrinks:
        def __index__(self) -> int:
            array.resize((4,), refcheck=False)
            return 4

    assert program.last(array, Shrinks()).shape == (4,)


def test_programs_close_under_running_calls(pdx: Path) -> None:
    device = pd.device("cpu?workers=2")
    gc.collect()
    before = device.memory()["live_blocks"]
    current, faults, stop = [device.load(pdx)], [], threading.Event()
    big = np.ones(100_000, np.float32)

    def work() -> None:
        while not stop.is_set():
            try:
                program = current[0]
                if program.chain(big, big)[-1] != 2 or program.mul(A, A)[-1] != 1:
                    faults.append("wrong values")
            except pd.Error as error:
                if "was closed" not in str(error):
                    faults.append(error)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for i in range(200):
        old, current[0] = current[0], device.load(pdx)
        old.close()
        del old
        if i % 40 == 0:
            device.close()
            device.trim()
    stop.set()
    for thread in threads:
        thread.join()
    current.clear()
    gc.collect()
    assert not faults
    assert device.memory()["live_blocks"] == before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_children_forked_while_others_allocate_can_call(pdx: Path) -> None:
    script = """
import os, signal, sys, threading
import numpy as np, pydispatch as pd
program = pd.device("cpu?workers=2").load(sys.argv[1])
big, stop = np.ones(300_000, np.float32), threading.Event()
def work():
    while not stop.is_set():
        program.chain(big, big)
threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads:
    thread.start()
failed = 0
for _ in range(100):
    pid = os.fork()
    if pid == 0:
        signal.alarm(300)
        os._exit(0 if program.chain(big, big)[-1] == 2 else 3)
    failed += os.waitpid(pid, 0)[1] != 0
stop.set()
for thread in threads:
    thread.join()
print("failed:", failed)
"""
    done = subprocess.run([sys.executable, "-c", script, str(pdx)], capture_output=True, text=True, timeout=300)
    assert done.stdout == "failed: 0\n", done.stderr


@pytest.mark.parametrize("call", ["chain(big, big)", "slow(big)"])
def test_the_interpreter_exits_while_calls_run(pdx: Path, call: str) -> None:
    script = f"""
import sys, threading, time
import numpy as np, pydispatch as pd
program = pd.device("cpu?workers=2").load(sys.argv[1])
big = np.ones(1_000_000, np.float32)
def work():
    while True:
        program.{call}
for _ in range(2):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.1)
print("exit", flush=True)
"""
    done = subprocess.run([sys.executable, "-c", script, str(pdx)], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout) == (0, "exit\n"), done.stderr


def test_sizes_beyond_the_memory_are_refused(pdx: Path) -> None:
    program = pd.device("local-sync").load(pdx)
    for n, kind in ((1 << 40, pd.OutOfMemoryError), (1 << 60, pd.OutOfMemoryError), (1 << 62, pd.InvalidArgumentError)):
        with pytest.raises(kind, match=r"filled.*(result 0 takes|does not fit)"):
            program.filled(n, 1.0)
    assert program.filled(3, 1.0)[0].tolist() == [1.0] * 3


def test_objects_whose_init_did_not_run_are_deleted_in_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal handler may raise as `__init__` begins."""
    package = Path(pd.__file__).parent
    ignored: list[str] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda error: ignored.append(f"{error.object}: {error.exc_value}"))
    deleted = []
    for path in sorted(package.rglob("*.py")):
        if "def __del__" not in (text := path.read_text()):
            continue
        module = ".".join(("pydispatch", *path.relative_to(package).with_suffix("").parts))
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef) and any(getattr(member, "name", "") == "__del__" for member in node.body):
                cls = getattr(importlib.import_module(module), node.name)
                cls.__new__(cls)
                deleted.append(node.name)
    assert {"DeviceMemory", "RecordedBuffer", "RecordedPlan"} <= set(deleted)
    assert not ignored
