"""Conversion of unexpected exceptions: only errors of pydispatch, or of the user's code, leave the compiler."""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from pydispatch.errors import CompileError, Error, InternalError, Location

if TYPE_CHECKING:
    from xdsl.ir import Operation

P = ParamSpec("P")
"""Parameters of a function that `faults_as_internal_errors` decorates."""
R = TypeVar("R")
"""Return type of such a function."""

SHOWN = 2000
"""Maximum number of characters of an operation or a program in a message. A longer operation is cut; a longer program
is written to a file that the message names."""

_OWN = str(Path(__file__).parent) + os.sep
"""Folder of pydispatch's own code."""
_PACKAGES = f"{os.sep}site-packages{os.sep}"
"""Part of the paths of installed packages."""
_TOO_DEEP = "the program is nested too deeply for the compiler"
"""Message of the CompileError that replaces a RecursionError."""
_DEEP = "split the expression or the function: the compiler nests a call for each level"
"""Note of the CompileError that replaces a RecursionError."""


def faults_as_internal_errors(passing: tuple[type[Exception], ...] = ()) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator for an entry point of the compiler that raises its faults as InternalError.

    A fault is an unexpected exception of pydispatch's own code. The error names the operation that was compiled.

    Exceptions of user code (callbacks, patterns, traced functions), missing packages, warnings and lack of memory are
    raised unchanged. Programs that are nested too deeply raise CompileError.

    Args:
        passing: Further exception types that are raised unchanged.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        """Return the function with its faults translated."""

        @functools.wraps(function)
        def call(*args: P.args, **named: P.kwargs) -> R:
            """Call the function, and raise a fault as InternalError, or as CompileError for too deep nesting."""
            try:
                return function(*args, **named)
            except Exception as error:
                if isinstance(error, passing) or not is_fault(error):
                    raise
                if isinstance(error, RecursionError):  # the program is too deep, which is no defect of pydispatch
                    raise CompileError(_TOO_DEEP, _operation_location(error), _DEEP) from error
                raise internal_error(error) from error

        return call

    return decorate


def is_fault(error: BaseException) -> bool:
    """Return whether an exception is a fault of pydispatch.

    Errors that pydispatch raises on purpose, missing packages, warnings and lack of memory are none. Another exception
    is a fault if all frames inside of the one that caught it are of pydispatch or of libraries, not of the user. If
    there are no such frames, the arguments did not match the signature of the called function: the caller's fault.
    """
    if isinstance(error, (Error, ImportError, MemoryError, Warning)):
        return False
    files = [frame.f_code.co_filename for frame in _frames(error)]
    # Names with "<" are those of generated methods and frozen modules. Code that a user typed into an interpreter,
    # "<stdin>", is then taken for a library's, too.
    return bool(files) and all(file.startswith((_OWN, "<", *_libraries())) or _PACKAGES in file for file in files)


def origin_of(error: BaseException) -> tuple[object, ...]:
    """Return a key that is equal for exceptions of the same cause: the type, and the file and line of pydispatch's
    innermost frame.

    For an InternalError, the key also has its first line without numbers, since code generation, which runs in another
    process, raises all of its faults at one line.
    """
    own = (
        (frame.f_code.co_filename, line)
        for frame, line in reversed(list(_entries(error)))
        if frame.f_code.co_filename.startswith(_OWN)
    )
    first_line = str(error).partition("\n")[0] if isinstance(error, InternalError) else ""
    return type(error), *next(own, ("", 0)), re.sub(r"\d+", "", first_line)


def internal_error(error: BaseException, node: str = "", location: Location | None = None) -> InternalError:
    """Build the InternalError that reports a fault.

    Args:
        error: The exception.
        node: Description of the node of a model that was read; "" for the operation that the innermost frame
            processed, if there is one.
        location: Location of the node; None if it is not known.

    Returns:
        An error with the text "KeyError: 'x', while compiling 'linalg.generic' at f.mlir:3:8", then the line with a
        caret, the operation, and a request to report it.
    """
    text = f"{type(error).__name__}: {error}" if not isinstance(error, InternalError) else str(error)
    op = None if node else _operation(error)
    if op is not None:
        location = _location_of(op)
        node = f"'{op.name}'"
    if node:
        text += f", while compiling {node}" + (f" at {location}" if location else "")
    if location and location.caret():
        text += f"\n{location.caret()}"
    if op is not None:
        with suppress(Exception):  # an operation that is half rewritten may not be printable
            text += f"\n{str(op)[:SHOWN]}"
    what = "the operation, or with the program and this traceback" if node else "the program and this traceback"
    return InternalError(f"{text}\nnote: this is a fault of pydispatch: please report it with {what}")


def with_source(error: InternalError, source: str) -> InternalError:
    """Build an InternalError with a program that reproduces it, as its attribute `source`.

    A program of at most SHOWN characters is also in the text of the error; a longer one is in a file that the text
    names.
    """
    shown = f":\n{source}" if len(source) <= SHOWN else f" is in {_written(source)}"
    described = InternalError(f"{error}\nnote: a program that repeats it{shown}")
    described.source = source
    return described


def _written(source: str) -> str:
    """Write a program to a new temporary file, and return its name for a message.

    If that fails, return a text that names the attribute `source` of the InternalError, which has the program as well.
    """
    import tempfile

    try:
        with tempfile.NamedTemporaryFile("w", prefix="pydispatch-fault-", suffix=".mlir", delete=False) as file:
            file.write(source)
    except OSError as error:
        return f"`source` of the error (no file could be written: {error})"
    return file.name


@functools.cache
def _libraries() -> tuple[str, ...]:
    """Return the folders of the standard library and of packages."""
    import sysconfig  # imported here, because it is slow to import and only faults need it

    return tuple(str(Path(sysconfig.get_path(name))) + os.sep for name in ("stdlib", "purelib", "platlib"))


def _entries(error: BaseException) -> Iterator[tuple[FrameType, int]]:
    """Yield (frame, line) of an exception's traceback, like `traceback.walk_tb`, whose module is slow to import."""
    entry: TracebackType | None = error.__traceback__
    while entry is not None:
        yield entry.tb_frame, entry.tb_lineno
        entry = entry.tb_next


def _frames(error: BaseException) -> Iterator[FrameType]:
    """Return the frames from the one that raised an exception, outwards, without the outermost one, which caught it."""
    frames = [frame for frame, _ in _entries(error)]
    return reversed(frames[1:])


def innermost(error: BaseException, kind: type[R]) -> R | None:
    """Return the value of type `kind` that was processed when an exception was raised; None if there is none.

    It is a local variable of the innermost frame with such a value: `op` or `node` if they are, else the last one. An
    object whose constructor raised does not count: it has no attributes yet.
    """
    for frame in _frames(error):
        is_constructor = frame.f_code.co_name == "__init__"
        values = [
            value
            for name, value in frame.f_locals.items()
            if isinstance(value, kind) and not (is_constructor and name == "self")
        ]
        if values:
            named = (frame.f_locals.get(name) for name in ("op", "node"))
            return next((value for value in named if isinstance(value, kind)), values[-1])
    return None


def _operation(error: BaseException) -> Operation | None:
    """Return the innermost operation in the frames of a traceback; None where the compiler is not loaded."""
    if "xdsl.ir" not in sys.modules:
        return None
    from xdsl.ir import Operation

    return innermost(error, Operation)


def _operation_location(error: BaseException) -> Location | None:
    """Return the location of the innermost operation in the frames of a traceback; None if there is none."""
    op = _operation(error)
    return None if op is None else _location_of(op)


def _location_of(op: Operation) -> Location | None:
    """Return the source location of `op`. The import is local: the module needs xDSL, which only the compiler loads."""
    from pydispatch.ir.core.locations import location_of

    return location_of(op)
