"""LLVM's process: what ends it is an error of one compilation, and nothing of it stays behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import pydispatch as pd
from pydispatch.compiler.toolchain import llvm, machines
from pydispatch.compiler.worker import llvm_process, process
from pydispatch.formats.storage import cache

pytestmark = pytest.mark.usefixtures("no_cache")


@pytest.fixture
def no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything is compiled."""
    monkeypatch.setenv(cache.SIZE, "0")


@pytest.fixture(autouse=True, scope="module")
def new_processes() -> None:
    """Those that were started before pytest found this file cannot import `die` from it."""
    llvm_process.POOL.close()


TINY = """
func.func @f(%x: tensor<NxTYPE>) -> tensor<NxTYPE> {
  %y = arith.addf %x, %x : tensor<NxTYPE>
  return %y : tensor<NxTYPE>
}
"""

CLAMP = """
func.func @f(%x: tensor<3x4000xf16>) -> tensor<3xf16> {
  %start = arith.constant START : f16
  %one = arith.constant 1.0 : f16
  %less = arith.constant -1.0 : f16
  %empty = tensor.empty() : tensor<3xf16>
  %begin = linalg.fill ins(%start : f16) outs(%empty : tensor<3xf16>) -> tensor<3xf16>
  %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>],
      iterator_types = ["parallel", "reduction"]} ins(%x : tensor<3x4000xf16>) outs(%begin : tensor<3xf16>) {
  ^bb0(%a: f16, %b: f16):
    %low = arith.minimumf %a, %one : f16
    %both = arith.maximumf %low, %less : f16
    %c = arith.COMBINE %both, %b : f16
    linalg.yield %c : f16
  } -> tensor<3xf16>
  return %r : tensor<3xf16>
}
"""


def tiny(size: int = 8) -> str:
    return TINY.replace("NxTYPE", f"{size}xf32")


def compiles(size: int = 8) -> None:
    x = np.arange(size, dtype=np.float32)
    np.testing.assert_array_equal(pd.device("cpu").load(pd.compile(tiny(size))).f(x), 2 * x)


def die(number: int = signal.SIGABRT) -> None:
    """In LLVM's process: ends it as an assertion does."""
    os.write(2, b'lib.cpp:1: void f(): Assertion `x == y && "they disagree"\' failed.\n')
    os.kill(os.getpid(), number)
    time.sleep(60)


def run(program: str, *arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), *arguments],
        capture_output=True, text=True, timeout=120, check=False, **options,
    )  # fmt: skip


def gone(pid: int) -> bool:
    """Whether a process has ended, or ends soon."""
    for _ in range(600):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize(("combine", "start", "best"), [("maxnumf", "0xFC00", np.max), ("minnumf", "0x7C00", np.min)])
@pytest.mark.parametrize("cpu", ["generic", "x86-64-v3", "x86-64-v4"])
def test_extremes_of_clamped_halves(combine: str, start: str, best: object, cpu: str) -> None:
    """LLVM's two models of costs once disagreed over it, which ended the process."""
    artifact = pd.compile(CLAMP.replace("COMBINE", combine).replace("START", start), cpu=cpu)
    if cpu == "x86-64-v4" and "avx512bw" not in Path("/proc/cpuinfo").read_text():
        return  # compiled is all that it can be here
    x = (np.random.default_rng(0).standard_normal((3, 4000)) / 4).astype(np.float16)
    expected = best(np.clip(x, -1, 1), axis=1)  # type: ignore[operator]
    np.testing.assert_array_equal(pd.device("cpu").load(artifact).f(x), expected)


def test_an_abort_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The message has the executable, its exports, the assertion and the file with the IR; the next one compiles."""
    compiles()
    before = set(llvm_process.POOL.processes())
    real = llvm_process.Process.ask

    def ask(self: llvm_process.Process, *request: object) -> object:
        if request[:2] == ("method", "optimize"):
            return real(self, "call", __name__, "die", ())
        return real(self, *request)

    monkeypatch.setattr(llvm_process.Process, "ask", ask)
    with pytest.raises(pd.CompileError) as caught:
        pd.compile(tiny(), dump=tmp_path)
    text = str(caught.value)
    for word in ("executable 'f_dispatch_0'", "exports 'f_dispatch_0_addf_8xf32'", "SIGABRT", "they disagree"):
        assert word in text, text
    (kept,) = tmp_path.glob("f_dispatch_0*.ll")
    assert str(kept) in text and "define" in kept.read_text()
    monkeypatch.undo()
    compiles()
    after = set(llvm_process.POOL.processes())
    ended = before - after
    assert ended and after and all(gone(process) for process in ended)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
def test_killed_while_compiling(number: int) -> None:
    with pytest.raises(llvm_process.Died, match=signal.Signals(number).name):
        llvm_process.call(die, number)
    compiles()


def test_killed_while_idle() -> None:
    compiles()
    for pid in llvm_process.POOL.processes():
        os.kill(pid, signal.SIGKILL)
        assert gone(pid)
    compiles()


def test_errors_of_jobs_come_back() -> None:
    with pytest.raises(pd.CompileError, match="cannot be linked"), llvm.opened("", machine()) as module:
        module.link("x.bc", b"BC\xc0\xdenothing")
    with pytest.raises(pd.InternalError, match="ZeroDivisionError"):
        llvm_process.call(divmod, 1, 0)
    with pytest.raises(pd.CompileError, match="LLVM refuses"), llvm.opened("nonsense", machine()):
        pass
    compiles()


def machine() -> machines.MachineDescription:
    from pydispatch.compiler.kernel_ir.kernel import Target
    from pydispatch.compiler.target.cpu import machine_of

    return machine_of(Target("llvm-cpu", "embedded-elf-x86_64"))


def test_many_threads() -> None:
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(compiles, range(1, 25)))
    assert len(llvm_process.POOL.processes()) <= llvm_process.POOL.size


def test_an_interrupt_leaves_no_answer_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was asked for before an interrupt must not be taken for the answer to the next request."""
    compiles()
    real = process.receive
    monkeypatch.setattr(process, "receive", lambda pipe: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        pd.compile(tiny(9))
    monkeypatch.setattr(process, "receive", real)
    compiles(10)


def test_fork_in_between() -> None:
    """Parent and child go on compiling, each with a process of its own."""
    done = run(f"""
        import os, sys, pydispatch as pd
        text = {tiny()!r}
        pd.compile(text)
        from pydispatch.compiler.worker import llvm_process
        mine = llvm_process.POOL.processes()
        child = os.fork()
        pd.compile(text)
        if child == 0:
            assert llvm_process.POOL.processes() != mine
            sys.exit(0)
        assert llvm_process.POOL.processes() == mine
        assert os.waitpid(child, 0)[1] == 0
        print("both")
    """)
    assert done.stdout == "both\n", done.stderr


@pytest.mark.parametrize("how", ["exit", "kill", "kill beside a fork"])
def test_it_ends_with_its_parent(how: str) -> None:
    done = run(f"""
        import os, sys, signal, time, pydispatch as pd
        pd.compile({tiny()!r})
        from pydispatch.compiler.worker import llvm_process
        print(*llvm_process.POOL.processes(), flush=True)
        if "fork" in sys.argv[1] and os.fork() == 0:
            sys.stdout.close(); os.close(1); os.close(2)
            time.sleep(40)
            os._exit(0)
        if sys.argv[1] != "exit":
            os.kill(os.getpid(), signal.SIGKILL)
    """, how)  # fmt: skip
    (pid,) = map(int, done.stdout.split())
    assert gone(pid)


def test_the_parent_loads_no_llvm() -> None:
    """Also: no `if __name__` around the caller, and the package is found where the caller found it."""
    done = run(f"import sys, pydispatch as pd; pd.compile({tiny()!r}); print('llvmlite' in sys.modules)")
    assert done.stdout == "False\n", done.stderr


def test_here_when_it_is_asked_for() -> None:
    program = f"import sys, pydispatch as pd; pd.compile({tiny()!r}); print('llvmlite' in sys.modules)"
    done = run(program, env={**os.environ, llvm_process.PROCESSES_VARIABLE: "0"})
    assert done.stdout == "True\n" and "Warning" not in done.stderr, done.stderr


def test_here_when_there_is_no_process() -> None:
    """It is said, once."""
    for change in ("sys.executable = '/usr/bin/editor'", "import subprocess\nsubprocess.Popen = no"):
        no = "def no(*a, **b): raise PermissionError('none left')"
        done = run(f"import sys\n{no}\nimport pydispatch as pd\n{change}\n"
                   f"from pydispatch.compiler.toolchain import tools\n"
                   f"from pydispatch.compiler.worker import llvm_process\n"
                   f"print(llvm_process.version() == llvm_process.version(), 'llvmlite' in sys.modules)")  # fmt: skip
        assert done.stdout == "True True\n", done.stderr
        assert done.stderr.count("which it may end") == 1, done.stderr


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize(
    ("broken", "said"),
    [("sys.modules['llvmlite'] = None", "needs the package llvmlite: pip install"),
     ("sys.path[:] = []", "No module named; PYDISPATCH_LLVM_PROCESS=0")],
    ids=["llvmlite", "pydispatch"],
)  # fmt: skip
def test_a_process_without_packages_is_an_error(
    monkeypatch: pytest.MonkeyPatch, broken: str, said: str, size: int
) -> None:
    """Also for the second job, and for those that wait: none of them gets a message that never comes."""
    boot = process._BOOT.replace("from ", f"{broken}; from ", 1)
    monkeypatch.setattr(process, "_BOOT", boot)
    monkeypatch.setattr(llvm_process, "POOL", llvm_process.WorkerPool(size))

    def message(_: int) -> str:
        with pytest.raises(pd.CompileError) as caught:
            pd.compile(tiny())
        return str(caught.value)

    with ThreadPoolExecutor(4) as threads:
        for text in (message(0), *threads.map(message, range(4))):
            assert all(words in text for words in said.split("; ")), text
    llvm_process.POOL.close()  # one may have been started that no job has taken
    monkeypatch.undo()
    compiles()


def test_a_job_takes_what_is_free_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job does not wait for a process that is started for it where another becomes free before."""
    pool = llvm_process.WorkerPool(2)
    monkeypatch.setattr(llvm_process, "POOL", pool)
    first = llvm_process.call(os.getpid)
    never = threading.Event()
    monkeypatch.setattr(pool, "_free_when_ready", lambda process: never.wait(60))
    found: list[int] = []
    with llvm.opened("", machine()):
        other = threading.Thread(target=lambda: found.append(llvm_process.call(os.getpid)))
        other.start()
        while len(pool.processes()) < 2:
            time.sleep(0.01)
    other.join(60)
    never.set()
    assert found == [first]
    pool.close()


def test_prints_are_no_answers() -> None:
    llvm_process.call(print, "words on standard output")
    assert llvm_process.version()[0] >= 15


def test_threads_that_wait_get_their_turn() -> None:
    """One has the process open while another asks."""
    answers: list[str] = []
    with llvm.opened("", machine()) as module:
        other = threading.Thread(target=lambda: answers.append(f"other {llvm_process.call(abs, -3)}"))
        other.start()
        answers.append(f"nested {llvm_process.call(abs, -2)}")
        assert module.defined() == set()
    other.join()
    assert sorted(answers) == ["nested 2", "other 3"]
