"""Lazily imported packages: errors for missing or broken ones state the remedy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pydispatch.errors import Error, OutOfMemoryError

_MEMORY = ("annot allocate memory", "failed to map segment", "ut of memory")  # of the system and its loader


@contextmanager
def importing(what: str, extra: str, error: type[Error] = Error) -> Iterator[None]:
    """Run a block of imports for `what`, provided by the packages of `extra` ("" for only NumPy).

    Raises `error`, with the cause and a remedy, for a package that is missing or cannot be imported.
    """
    try:
        yield
    except (ImportError, MemoryError, OSError, AttributeError, RuntimeError) as cause:  # libraries may start at import
        if isinstance(cause, Error):
            raise
        raise _explain(what, extra, error, cause) from cause


@contextmanager
def running(what: str, extra: str, error: type[Error] = Error) -> Iterator[None]:
    """Run a block that may import more. ImportError becomes `error`, MemoryError OutOfMemoryError."""
    try:
        yield
    except ImportError as cause:
        raise _explain(what, extra, error, cause) from cause
    except MemoryError as cause:
        if isinstance(cause, Error):
            raise
        raise OutOfMemoryError(f"{what}: out of memory{f': {cause}' if str(cause) else ''}; {_MORE_MEMORY}") from cause


_MORE_MEMORY = "give the process more memory (ulimit -v, or the limit of its container)"


def _explain(what: str, extra: str, error: type[Error], cause: Exception) -> Error:
    name = getattr(cause, "name", None) or ""
    package = name.partition(".")[0]
    install = f"pip install 'pydispatch[{extra}]'" if extra else "pip install pydispatch"
    if isinstance(cause, ModuleNotFoundError) and package and package != "pydispatch":
        return error(f"{what} needs the package {package}: {install}")
    which = f"{name} cannot be imported" if name else "a package that it needs cannot be imported"
    if isinstance(cause, MemoryError) or any(text in str(cause) for text in _MEMORY):
        return error(f"{what}: {which}: {_said(cause)}; {_MORE_MEMORY}")
    again = install.replace("install", "install --force-reinstall")
    return error(f"{what}: {which}: {_said(cause)}; install it again: {again}")


def _said(cause: BaseException) -> str:
    return str(cause) or type(cause).__name__
