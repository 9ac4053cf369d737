"""LLVM in a process of its own: what it asserts ends that process, not the caller's.

llvmlite's LLVM has assertions on, and nothing in a process survives one. Jobs are functions and objects of modules that
`llvm_worker` imports by name; arguments and results are pickled. A process is started once, works for one job at a time
and is replaced when it has died. It ends with its parent: its standard input is closed then.

Where no process can be started, or with PYDISPATCH_LLVM_PROCESS=0, the same jobs run here, one at a time.
The number of processes changes no result: each job gets its own module and knows of no other.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from pydispatch.errors import CompileError, CompileWarning, InternalError

if TYPE_CHECKING:
    from pydispatch.compiler.kernel_ir.kernel import Variant

VARIABLE = "PYDISPATCH_LLVM_PROCESS"
"""How many processes work side by side, at most; 0: none, LLVM runs in this one. Without it, one for each processor."""

PATIENCE = 0.03
"""Seconds that the first job without a process waits for another to end: to start one takes three times as long."""

HEAD = 8
"""The prefix of a message: its length, little endian."""

_BOOT = "import sys; sys.path[:] = {path!r}; from pydispatch.compiler.toolchain import llvm_worker; llvm_worker.main()"
_SHOWN = 600  # characters of an assertion

T = TypeVar("T")


_DEFECT = "this is a defect of LLVM or of the compiler; other code for the same is a way around it"
_NO_MEMORY = f"give it more memory, or let fewer processes work side by side: {VARIABLE}=1"
_MEMORY_WORDS = ("out of memory", "bad_alloc", "MemoryError", "Cannot allocate memory")


class Died(CompileError):
    """The process has died during a job. `said` is what it wrote to standard error, its last line first."""

    def __init__(self, how: str, said: str) -> None:
        self.said = said
        starved = how == "SIGKILL" or any(word in said for word in _MEMORY_WORDS)
        what = f"LLVM ended ({how})" + (f": {said}" if said else "")
        super().__init__(what, note=_NO_MEMORY if starved else _DEFECT)

    def over(self, variant: Variant, cpu: str, kept: object = None) -> CompileError:
        """Return the error for a variant. kept: the file that has its LLVM IR, if there is one."""
        exports = ", ".join(f"'{export.name}'" for export in variant.exports)
        where = f"; its LLVM IR is {kept}" if kept else "; dump= keeps its LLVM IR"
        what = f"executable '{variant.executable}' (exports {exports}) cannot be compiled for {cpu}"
        return CompileError(f"{what}: {self.message}{where}", variant.location, self.note)


def _send(pipe: Any, message: object) -> None:
    data = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    view = memoryview(len(data).to_bytes(HEAD, "little") + data)
    while view:
        view = view[pipe.write(view) :]


def _receive(pipe: Any) -> Any:
    size = int.from_bytes(_exactly(pipe, HEAD), "little")
    return pickle.loads(_exactly(pipe, size))


def _exactly(pipe: Any, size: int) -> bytes:
    parts: list[bytes] = []
    while size:
        part = pipe.read(min(size, 1 << 24))
        if not part:
            raise EOFError
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _without_packages(error: Exception) -> Exception:
    """Convert an error of a process to one that names the packages it cannot import; return other errors unchanged."""
    if isinstance(error, Died) and "ModuleNotFoundError" in error.said:
        what = f"the process for LLVM ({sys.executable}) cannot import what this one can: {error.said}"
        return CompileError(what, note=f"install it for that Python, or run LLVM in this process: {VARIABLE}=0")
    return error


class Process:
    """LLVM worker process. Only one thread at a time may use it."""

    def __init__(self) -> None:
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  (a pipe would have to be read all the time)
        flags = [f"-{letter}" for letter, on in (("I", sys.flags.isolated), ("E", sys.flags.ignore_environment),
                                                 ("S", sys.flags.no_site)) if on]  # fmt: skip
        # A session of its own: an interrupt from the keyboard is the parent's.
        own: dict[str, Any] = {"start_new_session": True} if os.name == "posix" else {"creationflags": 0x00000200}
        self._popen = subprocess.Popen(
            [sys.executable, *flags, "-c", _BOOT.format(path=list(sys.path))],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, bufsize=0, **own,
        )  # fmt: skip
        self.pid = self._popen.pid
        self._info: dict[str, Any] | None = None  # the first message of the process
        self._failure: Exception | None = None  # why there is no first message: it comes once

    def is_alive(self) -> bool:
        return self._popen.poll() is None

    def has_failed(self) -> bool:
        """Return whether the process could not start, as reported by `info`."""
        return self._failure is not None

    def info(self) -> dict[str, Any]:
        """Return the first message of the process: `llvm`, the version as numbers. ModuleNotFoundError without
        llvmlite, CompileError where the process finds no pydispatch.
        """
        if self._failure is not None:
            raise self._failure
        if self._info is None:
            try:
                self._info = cast("dict[str, Any]", self._answer())
            except Exception as error:
                self._failure = error = _without_packages(error)
                self.kill()
                raise error from None
        return self._info

    def ask(self, *request: object) -> Any:
        """Send a request, and return its answer. Raises Died, CompileError of the job, InternalError for other
        exceptions of the job.
        """
        self.info()
        try:
            _send(self._popen.stdin, request)
        except BrokenPipeError:
            raise self._died() from None
        except BaseException:
            self.kill()
            raise
        return self._answer()

    def _answer(self) -> Any:
        try:
            kind, *rest = _receive(self._popen.stdout)
        except (EOFError, ConnectionError):
            raise self._died() from None
        except BaseException:  # an interrupt: the next message would be the reply to this request
            self.kill()
            raise
        if kind == "ok":
            return rest[0]
        if kind == "refused":
            raise CompileError(rest[0], note=rest[1])
        if kind == "memory":
            self.kill()  # what it could still do is not known
            raise Died("MemoryError", rest[0])
        if kind == "missing":
            raise ModuleNotFoundError(f"No module named '{rest[0]}'", name=rest[0])
        raise InternalError(f"code generation failed: {rest[0]}")

    def _died(self) -> Died:
        code = self._popen.wait()
        how = f"code {code}"
        if code < 0:
            with contextlib.suppress(ValueError):
                how = signal.Signals(-code).name
        size = self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, size - (1 << 14)))
        lines = [line.strip() for line in self._log.read().decode(errors="replace").splitlines() if line.strip()]
        telling = ("Assertion", "LLVM ERROR", *_MEMORY_WORDS)
        said = next((line for line in lines if any(word in line for word in telling)), lines[-1] if lines else "")
        if code == -getattr(signal, "SIGKILL", 9) and not said:
            said = "it was killed, perhaps for want of memory"
        self.kill()
        return Died(how, said[:_SHOWN])

    def kill(self) -> None:
        """End the process. Idempotent."""
        for pipe in (self._popen.stdin, self._popen.stdout):
            with contextlib.suppress(OSError):
                cast(Any, pipe).close()
        if self._popen.returncode is None:
            self._popen.kill()
            self._popen.wait()
        self._log.close()

    def forget(self) -> None:
        """Close the pipes to the process in a forked child, without ending the process: the parent owns it."""
        self._popen.returncode = 0
        for pipe in (self._popen.stdin, self._popen.stdout, self._log):
            with contextlib.suppress(OSError):
                cast(Any, pipe).close()


class WorkerPool:
    """The processes of this one. A thread that already uses one gets the same again."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._room = threading.BoundedSemaphore(size)
        self._lock = threading.Lock()
        self._freed = threading.Condition(self._lock)
        self._free: list[Process] = []  # processes without a user
        self._all: list[Process] = []  # every process, in use or not
        self._is_busy = False  # whether a job has found no free process
        self._mine = threading.local()
        self.here = threading.RLock()  # for jobs in this process

    def prepare(self) -> None:
        """Start a process for the first job, which reports failures."""
        with self._lock:
            if not self._all and can_start():
                with contextlib.suppress(OSError):
                    self._free.append(self._start())

    def _start(self) -> Process:
        process = Process()
        self._all.append(process)
        return process

    @contextlib.contextmanager
    def process(self) -> Iterator[Process | None]:
        """Yield a process for this thread; None if there is none and jobs run in this process."""
        mine = getattr(self._mine, "process", None)
        if mine is not None or not can_start():
            yield mine
            return
        with self._room:
            try:
                mine = self._take()
            except OSError as error:
                _say(f"no process can be started for LLVM ({error}): it runs in this one, which it may end")
                yield None
                return
            self._mine.process = mine
            try:
                yield mine
            finally:
                self._mine.process = None
                with self._lock:
                    if mine.is_alive():
                        self._put(mine)
                    else:
                        mine.kill()
                        self._all.remove(mine)
                        self._freed.notify()  # who waits for it starts another

    def _take(self) -> Process:
        """Take a free process from the pool. If there is none, another is started, and taken unless a job ends before
        it is ready. The first job that finds none waits a while before: small jobs end sooner than a process starts.
        """
        with self._lock:
            while True:
                while self._free:
                    process = self._free.pop()
                    if process.is_alive() or process.has_failed():
                        return process
                    process.kill()
                    self._all.remove(process)
                if not self._all:
                    return self._start()
                if not self._is_busy:
                    self._is_busy = True
                    if self._freed.wait(PATIENCE):
                        continue
                if len(self._all) < self.size:
                    threading.Thread(target=self._greet, args=[self._start()], daemon=True).start()
                self._freed.wait()

    def _greet(self, process: Process) -> None:
        """Put a process that was started to the free ones once it is ready, or has failed: then its first job does."""
        with contextlib.suppress(Exception):
            process.info()
        with self._lock:
            if process in self._all:
                self._put(process)

    def _put(self, process: Process) -> None:
        self._free.append(process)
        self._freed.notify()

    def close(self, forget: bool = False) -> None:
        for process in self._all:
            process.forget() if forget else process.kill()
        self._all, self._free = [], []

    def processes(self) -> list[int]:
        """Return the process ids of the running processes."""
        with self._lock:
            return [process.pid for process in self._all if process.is_alive()]


def _processes() -> int:
    """Return the number of processes that the variable states, or the number of processors that this
    process may use.
    """
    with contextlib.suppress(ValueError):
        return max(1, int(os.environ.get(VARIABLE, "")))
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


POOL = WorkerPool(_processes())


def size() -> int:
    """Return how many jobs run side by side."""
    return POOL.size if can_start() else 1


def _after_fork() -> None:
    global POOL
    POOL.close(forget=True)
    POOL = WorkerPool(POOL.size)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
atexit.register(lambda: POOL.close())


def can_start() -> bool:
    """Return whether jobs run in another process: unless the variable disables it, or Python is embedded in this
    process.
    """
    if os.environ.get(VARIABLE) == "0":
        return False
    name = Path(sys.executable or "").name.lower()
    if "python" in name or "pypy" in name:
        return True
    who = f"'{name}' is" if name else "this program is"
    _say(f"{who} no Python that can be started for LLVM: it runs in this process, which it may end")
    return False


_said: set[str] = set()


def _say(text: str) -> None:
    if text not in _said:
        _said.add(text)
        warnings.warn(text, CompileWarning, stacklevel=4)


def start() -> None:
    """Start a process if there is none, so that LLVM is read in while the caller does something else."""
    POOL.prepare()


def version() -> tuple[int, ...]:
    """LLVM's."""
    with POOL.process() as process:
        if process is not None:
            return tuple(process.info()["llvm"])
    from llvmlite import binding

    return tuple(binding.llvm_version_info)


def call(function: Callable[..., T], *args: object) -> T:
    """Call a function of a module in the process. Raises as `Process.ask`."""
    with POOL.process() as process:
        if process is not None:
            return cast(T, process.ask("call", function.__module__, function.__qualname__, args))
        with POOL.here:
            return function(*args)


class _Remote:
    """An object in another process: its methods are called there."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return lambda *args, **named: self._process.ask("method", name, args, named)


@contextlib.contextmanager
def opened(kind: Callable[..., contextlib.AbstractContextManager[T]], *args: object) -> Iterator[T]:
    """Yield an object that is created where LLVM runs, for the duration of the block: kind(*args), a context manager.
    One per thread. Results of its methods are copies.
    """
    with POOL.process() as process:
        if process is None:
            with POOL.here, kind(*args) as instance:
                yield instance
            return
        process.ask("open", kind.__module__, kind.__qualname__, args)
        try:
            yield cast(T, _Remote(process))
        finally:
            if process.is_alive():
                process.ask("close")
