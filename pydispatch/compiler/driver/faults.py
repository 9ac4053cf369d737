"""The last word on exceptions: what leaves the compiler is an error of pydispatch, or of code that the user wrote."""

from __future__ import annotations

import functools
import os
import sysconfig
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import ParamSpec, TypeVar

import xdsl
from xdsl.ir import Operation

import pydispatch
from pydispatch.errors import CompileError, Error, InternalError, Location
from pydispatch.ir.core.locations import location_of

P = ParamSpec("P")
R = TypeVar("R")

SHOWN = 2000
"""Characters of an operation in a message; a longer one is cut."""

_OWN = str(Path(pydispatch.__file__).parent) + os.sep
_LIBRARIES = (
    _OWN, str(Path(xdsl.__file__).parent) + os.sep,
    *(str(Path(sysconfig.get_path(name))) + os.sep for name in ("stdlib", "purelib", "platlib")),
)  # fmt: skip
_REPORT = "this is a fault of pydispatch: please report it with the operation, or with the program and this traceback"
_DEEP = "split the expression or the function: the compiler nests a call for each level"


def translated(function: Callable[P, R]) -> Callable[P, R]:
    """Return an entry point of the compiler that raises InternalError, with the operation, for a fault of its own.

    Exceptions of code that the user gave (callbacks, patterns, traced functions), missing packages, warnings and a lack
    of memory pass as they are. Programs that are nested too deeply are a CompileError.
    """

    @functools.wraps(function)
    def call(*args: P.args, **named: P.kwargs) -> R:
        try:
            return function(*args, **named)
        except (Error, ImportError, MemoryError, Warning):
            raise
        except RecursionError as error:
            if not _is_own(error):
                raise
            raise CompileError("the program is nested too deeply for the compiler", _place(error), _DEEP) from error
        except Exception as error:
            if not _is_own(error):
                raise
            raise InternalError(_message(error)) from error

    return call


def _frames(error: BaseException) -> Iterator[FrameType]:
    """The frames in which an exception was raised, innermost first, without the entry point's wrapper."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return reversed(frames[1:])


def _is_own(error: BaseException) -> bool:
    """Whether the compiler ran when an exception was raised, and no code of the user: arguments may not fit a call."""
    files = [frame.f_code.co_filename for frame in _frames(error)]
    return bool(files) and all(file.startswith((*_LIBRARIES, "<")) for file in files)


def _operation(error: BaseException) -> Operation | None:
    """The operation that the innermost function worked on."""
    for frame in _frames(error):
        found = [v for v in frame.f_locals.values() if isinstance(v, Operation)]
        if found:
            return frame.f_locals.get("op") if isinstance(frame.f_locals.get("op"), Operation) else found[-1]
    return None


def _place(error: BaseException) -> Location | None:
    return location_of(_operation(error))


def _message(error: BaseException) -> str:
    op = _operation(error)
    message = f"{type(error).__name__}: {error}"
    if op is None:
        return f"{message}\nnote: {_REPORT}"
    place = location_of(op)
    where = f" at {place}" if place else ""
    try:
        shown = str(op)[:SHOWN]
    except Exception:  # half rewritten
        shown = op.name
    caret = f"\n{place.caret()}" if place and place.caret() else ""
    return f"{message}, while compiling '{op.name}'{where}{caret}\n{shown}\nnote: {_REPORT}"
