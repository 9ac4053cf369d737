"""Threads, the GIL, fork and the end of the interpreter."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import programs

import pydispatch as pd
from pydispatch.formats.program.program import Opcode
from pydispatch.runtime.program.program import Program


def test_one_function_many_threads(program: Program) -> None:
    """8 threads, own shapes and shared ones: no result is ever another's."""
    faults: list[object] = []
    barrier = threading.Barrier(8)

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        barrier.wait()
        try:
            for k in range(400):
                n = seed * 10 if k % 2 else int(rng.integers(0, 3000))
                a, b = rng.random(n, np.float32), rng.random(n, np.float32)
                product, total = program.both(a, b)
                np.testing.assert_array_equal(product, a * b)
                np.testing.assert_array_equal(total, a + b)
                np.testing.assert_array_equal(program.chain(a, b, out=a if k % 3 else None), (a * b) * b + a) if (
                    k % 3 == 0
                ) else None
        except BaseException as error:
            faults.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults, faults[0]


# Returns when another thread has written into its input. It gives up after seconds of its own CPU time.
WAITS = programs.Export(
    "waits",
    "for (uint64_t k = 0; k < 10000000000ull; ++k) {"
    "  if (((volatile float*)dispatch->binding_ptrs[0])[1] != 0.0f) { buffer(float, 1)[0] = 1; return 0; }"
    "} return 99;",
    2,
)


def test_gil_is_free_while_a_kernel_runs() -> None:
    builder = programs.Builder([WAITS])
    f = builder.function("waits", "(tensor<?xf32>) -> tensor<?xf32>")
    a = programs.add_vector(f, "a")
    n = f.emit(Opcode.DIM, a, 0)
    builder.run(f, "waits", n, [f.arguments[a].buffer, programs.finish_vector(f, n)], f.constant(1))
    program = pd.device("local-sync").load(builder.artifact())
    memory = np.zeros(32, np.float32)
    flag = memory[-memory.ctypes.data % 64 // 4 :][:4]  # aligned, so that the kernel reads this memory itself
    results: list[float] = []
    thread = threading.Thread(target=lambda: results.append(program.waits(flag)[0]))
    thread.start()
    flag[1] = 1
    thread.join()
    assert results == [1]


def test_close_while_a_call_runs(pdx: Path) -> None:
    program = pd.device("local-sync").load(pdx)
    results: list[object] = []
    thread = threading.Thread(target=lambda: results.append(program.slow(np.full(4, 5, np.float32))[0]))
    thread.start()
    while not results and thread.is_alive():
        time.sleep(0.005)
        program.close()  # the code must stay until the call is done
    thread.join()
    assert results == [5] or not results


def test_fork(pdx: Path) -> None:
    program = pd.device("cpu?workers=2").load(pdx)
    a = np.arange(100_000, dtype=np.float32)
    want = program.mul(a, a)
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if np.array_equal(program.mul(a, a), want) else 3)
        except BaseException:
            os._exit(4)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    np.testing.assert_array_equal(program.mul(a, a), want)


SCRIPT = """
import sys, threading, numpy as np, pydispatch as pd
program = pd.device("cpu?workers=4").load(sys.argv[1])
a = np.ones(1 << 20, np.float32)
program.mul(a, a)
call = program.mul.prepare(a, a)
def forever():
    while True:
        program.mul(a, a)
for _ in range(2 if sys.argv[2] == "busy" else 0):
    threading.Thread(target=forever, daemon=True).start()
keep = program.mul(a, a)
print("end")
"""


def test_interpreter_exit(pdx: Path) -> None:
    for mode in ("idle", "busy"):
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, str(pdx), mode], capture_output=True, text=True, timeout=300, check=False
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", ""), mode


def test_import_is_light() -> None:
    script = "import sys, pydispatch; print([m for m in sys.modules if m.startswith(('xdsl', 'llvmlite', 'elftools', "
    script += "'ctypes', 'pydispatch.compiler', 'pydispatch.formats'))])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    before = subprocess.run(
        [sys.executable, "-c", "import sys, numpy; print(['ctypes' in sys.modules])"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "[]\n" or "True" in before.stdout
    assert "pydispatch" not in done.stdout
