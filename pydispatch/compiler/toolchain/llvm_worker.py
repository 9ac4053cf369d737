"""Main program of the processes that `llvm_process` starts: reads requests from standard input, writes answers to
standard output, and exits at the end of the input."""

from __future__ import annotations

import contextlib
import importlib
import os
import traceback
from typing import Any

from pydispatch.compiler.worker.process import PROCESSES_VARIABLE, receive, send
from pydispatch.errors import CompileError

_LOOP = """
define void @f(ptr noalias %a, ptr noalias %b, i64 %n) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %p = getelementptr float, ptr %a, i64 %i
  %q = getelementptr float, ptr %b, i64 %i
  %v = load float, ptr %p
  %w = fmul float %v, 3.0
  store float %w, ptr %q
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %n
  br i1 %more, label %loop, label %end
end:
  ret void
}
"""
"""LLVM IR of a loop that is vectorized, for `_warm_up`."""


def main() -> None:
    """Serve requests from standard input until the parent closes the pipe, and then end the process.

    The first message on standard output describes this process; each later one is the answer to a request.
    """
    os.environ[PROCESSES_VARIABLE] = "0"  # jobs run in this process, which starts no others
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        # An assertion of LLVM aborts the process, which would write a core file.
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # The pipes to the parent, by descriptors of their own.
    requests = os.fdopen(os.dup(0), "rb", buffering=0)
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # text that jobs print goes to standard error, not between the answers
    try:
        send(answers, _hello())
        _warm_up()
        worker = Worker()
        while True:
            send(answers, worker.answer(receive(requests)))
    except (EOFError, BrokenPipeError, KeyboardInterrupt):
        os._exit(0)  # LLVM's destructors are of no use here


def _hello() -> tuple[object, ...]:
    """Return the first message: ("ok", {"llvm": version as a tuple}), ("missing", name of a module that is not
    installed), or ("error", reason) if LLVM cannot be loaded for another reason."""
    try:
        from llvmlite import binding
    except ModuleNotFoundError as error:
        return "missing", error.name or "llvmlite"
    except Exception as error:
        return "error", f"{type(error).__name__}: {error}"
    return "ok", {"llvm": tuple(binding.llvm_version_info)}


def _warm_up() -> None:
    """Compile a small loop, so that the operating system loads the pages of LLVM's code before the first job.

    Any error is ignored.
    """
    try:
        from pydispatch.compiler.toolchain import llvm

        llvm.warm_up(_LOOP)
    except Exception:  # the first job fails the same way, and reports it
        pass


class Worker:
    """Handler of the requests of the compiler to this process, in which LLVM runs.

    A request is ("call", module, name, arguments) for a function of a module, or ("open", module, name, arguments) for
    a context manager. ("method", name, arguments, named arguments) then calls a method of the opened object, and
    ("close",) leaves the context.
    """

    def __init__(self) -> None:
        """Begin before the first "open" request."""
        self._open: Any = None  # the context manager between an "open" request and the "close" request
        self._object: Any = None  # the value of its `with` statement, whose methods are called

    def answer(self, request: Any) -> tuple[object, ...]:
        """Return the answer to a request: ("ok", result), or for an exception ("refused", message, note), ("memory",
        text) or ("error", traceback). `Process._answer` reads it."""
        kind, *rest = request
        try:
            return "ok", getattr(self, f"_do_{kind}")(*rest)
        except CompileError as error:
            return "refused", error.message, error.note
        except MemoryError:
            return "memory", "it ran out of memory"
        except Exception:
            return "error", traceback.format_exc()

    def _do_call(self, module: str, name: str, args: tuple[object, ...]) -> object:
        """Call the function `name` of a module, and return its result."""
        return getattr(importlib.import_module(module), name)(*args)

    def _do_open(self, module: str, name: str, args: tuple[object, ...]) -> None:
        """Create and enter the context manager name(*args) of a module; later requests call methods of its object."""
        manager = getattr(importlib.import_module(module), name)(*args)
        self._object = manager.__enter__()
        self._open = manager

    def _do_method(self, name: str, args: tuple[object, ...], named: dict[str, object]) -> object:
        """Call the method `name` of the open object, and return its result."""
        return getattr(self._object, name)(*args, **named)

    def _do_close(self) -> None:
        """Leave the context that `open` has entered."""
        manager, self._open, self._object = self._open, None, None
        manager.__exit__(None, None, None)
