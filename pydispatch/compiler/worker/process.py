"""A process that runs LLVM, and the messages between it and its parent.

Arguments and results of a job are pickled. A process ends when its parent does, which closes the process's standard
input.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import sys
import tempfile
from typing import TYPE_CHECKING, Any, cast

from pydispatch.errors import CompileError, InternalError

if TYPE_CHECKING:
    from pydispatch.compiler.kernel_ir.kernel import Variant

PROCESSES_VARIABLE = "PYDISPATCH_LLVM_PROCESS"
"""Environment variable: maximum number of LLVM processes, by default one for each processor; with 0, LLVM runs in this
process."""

HEAD_BYTES = 8
"""Size of the prefix of a message, which is the length of the rest in bytes, little-endian."""

_BOOT = "import sys; sys.path[:] = {path!r}; from pydispatch.compiler.toolchain import llvm_worker; llvm_worker.main()"
"""Python program of an LLVM process; {path} is the parent's search path for modules."""
_SHOWN = 600  # maximum number of characters of an assertion in a message

_DEFECT = "this is a defect of LLVM or of the compiler; other code for the same is a way around it"
"""Note of the error if a process died for another reason than lack of memory."""
_NO_MEMORY = f"give it more memory, or let fewer processes work side by side: {PROCESSES_VARIABLE}=1"
"""Note of the error if a process died for lack of memory."""
_MEMORY_WORDS = ("out of memory", "bad_alloc", "MemoryError", "Cannot allocate memory")
"""Words in the output of a process that died for lack of memory."""


class Died(CompileError):
    """The process has died during a job.

    Attributes:
        how: Reason of its end: the name of a signal, or "code 1" for the exit status 1.
        said: The line of its standard error that states why: an assertion, else the last line; "" for none.
    """

    def __init__(self, how: str, said: str) -> None:
        """Create the error for an LLVM process that ended with a signal or exit code.

        Its note is a remedy if memory seems to have run out, else that this is a defect.

        Args:
            how: Name of the signal, such as "SIGKILL", or text such as "code 1".
            said: Line of the process's standard error that states the reason; "" for none.
        """
        self.how, self.said = how, said
        starved = how == "SIGKILL" or any(word in said for word in _MEMORY_WORDS)
        what = f"LLVM ended ({how})" + (f": {said}" if said else "")
        super().__init__(what, note=_NO_MEMORY if starved else _DEFECT)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the error as the arguments of its class."""
        return type(self), (self.how, self.said)

    def error_for(self, variant: Variant, cpu: str, kept: object = None) -> CompileError:
        """Return the error to report for the variant that was being compiled when the process ended.

        Args:
            variant: The variant.
            cpu: CPU that it was compiled for.
            kept: Path of a file with its LLVM IR; None if there is none.
        """
        exports = ", ".join(f"'{export.name}'" for export in variant.exports)
        where = f"; its LLVM IR is {kept}" if kept else "; dump= keeps its LLVM IR"
        what = f"executable '{variant.executable}' (exports {exports}) cannot be compiled for {cpu}"
        return CompileError(f"{what}: {self.message}{where}", variant.location, self.note)


def send(pipe: Any, message: object) -> None:
    """Write a message, any object that can be pickled, to an unbuffered pipe."""
    data = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    view = memoryview(len(data).to_bytes(HEAD_BYTES, "little") + data)
    while view:
        view = view[pipe.write(view) :]  # a write may take only a part


def receive(pipe: Any) -> Any:
    """Read a message from a pipe. Raises EOFError at its end."""
    size = int.from_bytes(_exactly(pipe, HEAD_BYTES), "little")
    return pickle.loads(_exactly(pipe, size))


def _exactly(pipe: Any, size: int) -> bytes:
    """Read `size` bytes from a pipe. Raises EOFError if there are fewer."""
    parts: list[bytes] = []
    while size:
        part = pipe.read(min(size, 1 << 24))  # allocates its argument, even if the pipe has less
        if not part:
            raise EOFError
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _explain_missing_package(error: Exception) -> Exception:
    """Return a CompileError with a remedy for a process that could not import a package; other errors unchanged."""
    if isinstance(error, Died) and "ModuleNotFoundError" in error.said:
        what = f"the process for LLVM ({sys.executable}) cannot import what this one can: {error.said}"
        return CompileError(
            what, note=f"install it for that Python, or run LLVM in this process: {PROCESSES_VARIABLE}=0"
        )
    return error


class Process:
    """LLVM worker process. Only one thread at a time may use it.

    A pool creates it, which starts the process; threads call `ask` any number of times, and the pool ends it by `kill`.

    Attributes:
        pid: Process id.
    """

    def __init__(self) -> None:
        """Start the process with the flags and the module search path of this interpreter."""
        import subprocess  # LLVM processes, which import this module for its messages, start none

        self._log = tempfile.TemporaryFile()  # noqa: SIM115  (a pipe would have to be read all the time)
        # The flags with which this interpreter was started: the process must find the same packages.
        flags = [f"-{letter}" for letter, on in (("I", sys.flags.isolated), ("E", sys.flags.ignore_environment),
                                                 ("S", sys.flags.no_site)) if on]  # fmt: skip
        # In a session of its own, an interrupt from the keyboard does not reach the process: the parent handles it.
        own: dict[str, Any] = {"start_new_session": True}
        if os.name != "posix":  # the constant exists on Windows only
            own = {"creationflags": getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)}
        self._popen = subprocess.Popen(
            [sys.executable, *flags, "-c", _BOOT.format(path=list(sys.path))],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, bufsize=0, **own,
        )  # fmt: skip
        self.pid = self._popen.pid
        self._info: dict[str, Any] | None = None  # the first message of the process
        self._failure: Exception | None = None  # error of reading that message, which later calls of `info` raise again

    def is_alive(self) -> bool:
        return self._popen.poll() is None

    def has_failed(self) -> bool:
        """Return whether the process could not start, as reported by `info`."""
        return self._failure is not None

    def info(self) -> dict[str, Any]:
        """Return the first message of the process, {"llvm": version as a tuple}; wait for it if necessary.

        Raises ModuleNotFoundError if llvmlite is not installed, and CompileError if the process could not start, such
        as without pydispatch.
        """
        if self._failure is not None:
            raise self._failure
        if self._info is None:
            try:
                self._info = cast("dict[str, Any]", self._answer())
            except Exception as error:
                self._failure = error = _explain_missing_package(error)
                self.kill()
                raise error from None
        return self._info

    def ask(self, *request: object) -> Any:
        """Send a request, wait for the answer, and return its result.

        Args:
            request: What to do and its arguments: ("call", module, function, arguments), ("open", module, class,
                arguments), ("method", name, arguments, named arguments) or ("close",).

        Raises:
            Died: The process has ended.
            CompileError: The job refused its input.
            InternalError: The job raised any other exception.
        """
        self.info()  # waits until the process has started, and raises if it could not
        try:
            send(self._popen.stdin, request)
        except BrokenPipeError:
            raise self._died() from None
        except BaseException:  # the process may have received a part of the request
            self.kill()
            raise
        return self._answer()

    def _answer(self) -> Any:
        """Read the next message of the process, and return its result or raise its error.

        The message is ("ok", result), ("refused", text, note), ("memory", text), or ("error", traceback) for any other
        exception. The first message of the process may also be ("missing", name of a package).

        Raises:
            Died: The process has ended, or lacks memory.
            CompileError: The job refused its input.
            ModuleNotFoundError: llvmlite, or a package that it needs, is not installed.
            InternalError: The job raised any other exception.
        """
        try:
            kind, *rest = receive(self._popen.stdout)
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
            self.kill()  # the state of LLVM is unknown after an allocation has failed
            raise Died("MemoryError", rest[0])
        if kind == "missing":  # only as the first message
            raise ModuleNotFoundError(f"No module named '{rest[0]}'", name=rest[0])
        raise InternalError(f"code generation failed: {rest[0]}")

    def _died(self) -> Died:
        """Wait for the end of the process, and return the error that states how and why it ended."""
        code = self._popen.wait()
        how = f"code {code}"
        if code < 0:
            with contextlib.suppress(ValueError):
                how = signal.Signals(-code).name
        size = self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, size - (1 << 14)))  # the end of the output has the assertion
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
        """Close this process's copies of the pipes, in a forked child. The LLVM process still serves the parent."""
        self._popen.returncode = 0  # for `subprocess` it has ended: it neither waits for it nor warns
        for pipe in (self._popen.stdin, self._popen.stdout, self._log):
            with contextlib.suppress(OSError):
                cast(Any, pipe).close()
