"""LLVM in processes of their own: a failed assertion ends one of them, not the caller's.

llvmlite's LLVM is built with assertions, and a failed one aborts its process. A job is a function that is called, or an
object that is created, in another process: `llvm_worker` imports its module by name. A process (`process.py`) is
started once, runs one job at a time and is replaced after it has died.

Where no process can be started, or with PYDISPATCH_LLVM_PROCESS=0, the same jobs run here, one at a time.
The number of processes changes no result: each job gets its own module and knows of no other.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar, cast

from pydispatch.compiler.worker.process import PROCESSES_VARIABLE, Died, Process
from pydispatch.errors import CompileWarning

__all__ = ["POOL", "Died", "Process", "WorkerPool", "call", "can_start", "opened", "size", "start", "version"]

PATIENCE = 0.03
"""Seconds that the first job that finds all processes in use waits for one of them, before it starts another process.

Starting a process takes three times as long. A longer wait delays a job while all processes run long jobs; with a
shorter one, a process is started even if a small job is about to end."""

T = TypeVar("T")


class WorkerPool:
    """Pool of the worker processes that run LLVM for this process.

    A thread that already uses a worker process gets the same one again.

    Attributes:
        size: Maximum number of processes.
        local_lock: Lock of jobs that run in this process, one at a time.
    """

    def __init__(self, size: int) -> None:
        """Create a pool without processes; they are started when jobs need them."""
        self.size = size
        self._room = threading.BoundedSemaphore(size)  # at most one user for each process that may exist
        self._lock = threading.Lock()  # protects the lists of processes and `_has_waited`
        self._freed = threading.Condition(self._lock)  # a process has become free, or has died
        self._free: list[Process] = []  # processes without a user
        self._all: list[Process] = []  # every process, in use or not
        self._has_waited = False  # whether a job has waited for PATIENCE: only the first without a free process does
        self._of_this_thread = threading.local()  # `process`: the one that this thread uses now
        self.local_lock = threading.RLock()  # held by a job that runs LLVM in this process, without a worker

    def prepare(self) -> None:
        """Start a process in advance. Errors are ignored: the first job meets and reports them."""
        with self._lock:
            if not self._all and can_start():
                with contextlib.suppress(OSError):
                    self._free.append(self._start())

    def _start(self) -> Process:
        """Start a process, and return it. The caller holds the lock."""
        process = Process()
        self._all.append(process)
        return process

    @contextlib.contextmanager
    def process(self) -> Iterator[Process | None]:
        """Yield a process for the jobs of this thread; None if none can be started: jobs then run in this process.

        A `with` block inside of another one of the same thread gets the same process. The outer one waits while `size`
        other threads use processes, and returns the process to the pool at its end.
        """
        # An inner block, or jobs that run in this process.
        mine = getattr(self._of_this_thread, "process", None)
        if mine is not None or not can_start():
            yield mine
            return
        # An outer block.
        with self._room:  # at most `size` threads at a time
            try:
                mine = self._take()
            except OSError as error:
                _warn_once(f"no process can be started for LLVM ({error}): it runs in this one, which it may end")
                yield None
                return
            self._of_this_thread.process = mine
            try:
                yield mine
            finally:
                self._of_this_thread.process = None
                with self._lock:
                    if mine.is_alive():
                        self._put(mine)
                    else:
                        mine.kill()
                        self._all.remove(mine)
                        # _room admits as many threads as there may be processes. One of them may wait in _take()
                        # for a process to become free, and starts another in place of this one.
                        self._freed.notify()

    def _take(self) -> Process:
        """Take a free process from the pool. Raises OSError if none can be started.

        If none is free, another is started, up to `size` processes, and the caller takes the first that becomes free:
        the new one, or one whose job ends sooner. The first caller without a free process waits `PATIENCE` before it
        starts one: small jobs end sooner than a process starts. Later callers start one at once, since jobs have been
        found to overlap.
        """
        with self._lock:
            while True:
                process = self._pop_free()
                if process is not None:
                    return process
                if not self._all:
                    return self._start()
                if not self._has_waited:
                    self._has_waited = True
                    if self._freed.wait(PATIENCE):
                        continue
                if len(self._all) < self.size:
                    new = self._start()  # returns before the process is ready, which another thread waits for
                    threading.Thread(target=self._free_when_ready, args=[new], daemon=True).start()
                self._freed.wait()  # then try again: another thread may have taken the process

    def _pop_free(self) -> Process | None:
        """Remove a free process from the pool and return it; None if none is free. The caller holds the lock.

        Processes that have died are dropped. One that could not start is returned: its use raises the reason.
        """
        while self._free:
            process = self._free.pop()
            if process.is_alive() or process.has_failed():
                return process
            process.kill()
            self._all.remove(process)
        return None

    def _free_when_ready(self, process: Process) -> None:
        """Add a new process to the free ones once it has started. A process that could not start is added, too: the job
        that takes it reports the reason.
        """
        with contextlib.suppress(Exception):
            process.info()  # waits until it has started
        with self._lock:
            if process in self._all:
                self._put(process)

    def _put(self, process: Process) -> None:
        """Add a process to the free ones, and wake a thread that waits for one. The caller holds the lock."""
        self._free.append(process)
        self._freed.notify()

    def close(self, forget: bool = False) -> None:
        """End all processes. forget: only close their pipes; in a forked child, the processes are the parent's."""
        for process in self._all:
            process.forget() if forget else process.kill()
        self._all, self._free = [], []

    def processes(self) -> list[int]:
        """Return the process ids of the running processes."""
        with self._lock:
            return [process.pid for process in self._all if process.is_alive()]


def _processes() -> int:
    """Return the maximum number of processes: the number that PROCESSES_VARIABLE states, at least 1, or that of the
    processors that this process may use.
    """
    with contextlib.suppress(ValueError):
        return max(1, int(os.environ.get(PROCESSES_VARIABLE, "")))
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


POOL = WorkerPool(_processes())
"""LLVM processes that this Python process starts and reuses; a forked child gets a pool of its own."""


def size() -> int:
    """Return the maximum number of jobs that run at the same time."""
    return POOL.size if can_start() else 1


def _after_fork() -> None:
    """Give a forked child a pool of its own, without processes."""
    global POOL
    POOL.close(forget=True)  # the processes are the parent's: the child must not end them
    POOL = WorkerPool(POOL.size)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
atexit.register(lambda: POOL.close())


def can_start() -> bool:
    """Return whether jobs run in another process: unless PROCESSES_VARIABLE is 0, or Python is embedded in a program
    that is not its interpreter. The latter is reported by a warning.
    """
    if os.environ.get(PROCESSES_VARIABLE) == "0":
        return False
    name = Path(sys.executable or "").name.lower()
    if "python" in name or "pypy" in name:
        return True
    who = f"'{name}' is" if name else "this program is"
    _warn_once(f"{who} no Python that can be started for LLVM: it runs in this process, which it may end")
    return False


_shown_warnings: set[str] = set()
"""Texts of the warnings that `_warn_once` has shown."""


def _warn_once(text: str) -> None:
    """Show a CompileWarning, unless this process has shown the same text before."""
    if text not in _shown_warnings:
        _shown_warnings.add(text)
        warnings.warn(text, CompileWarning, stacklevel=4)


def start() -> None:
    """Start a process if there is none, so that LLVM is loaded while the caller does something else."""
    POOL.prepare()


def version() -> tuple[int, ...]:
    """Return the version of LLVM, such as (20, 1, 8), in an LLVM process, or in this one if none can be started."""
    with POOL.process() as process:
        if process is not None:
            return tuple(process.info()["llvm"])
    from llvmlite import binding

    return tuple(binding.llvm_version_info)


def call(function: Callable[..., T], *args: object) -> T:
    """Call a function of a module in an LLVM process, or in this process if none can be started; return its result.

    Arguments and result are pickled. Raises as `Process.ask`.
    """
    with POOL.process() as process:
        if process is not None:
            return cast(T, process.ask("call", function.__module__, function.__qualname__, args))
        with POOL.local_lock:
            return function(*args)


class _Remote:
    """Proxy of an object, such as an LLVM module, that `opened` has created in a worker process: its methods are called
    there."""

    def __init__(self, process: Process) -> None:
        """Take the worker process, which has one such object at a time."""
        self._process = process

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """Return a function that calls the method `name` of the object in the worker process."""
        return lambda *args, **named: self._process.ask("method", name, args, named)


@contextlib.contextmanager
def opened(kind: Callable[..., contextlib.AbstractContextManager[T]], *args: object) -> Iterator[T]:
    """Yield an object that is created in an LLVM process, and is closed at the end of the `with` block.

    A thread has one such object at a time.

    Args:
        kind: Class of the object, a context manager.
        args: Arguments of the class. They are pickled, as are arguments and results of the object's methods: both
            sides have copies.
    """
    with POOL.process() as process:
        if process is None:  # none can be started: LLVM runs in this process
            with POOL.local_lock, kind(*args) as instance:
                yield instance
            return
        process.ask("open", kind.__module__, kind.__qualname__, args)
        try:
            yield cast(T, _Remote(process))  # stands for the object: its methods send requests to the process
        finally:
            if process.is_alive():
                process.ask("close")
