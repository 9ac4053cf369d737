"""Lazy imports of packages, with errors that state the remedy for missing or broken ones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pydispatch.errors import Error, OutOfMemoryError

_MEMORY = ("annot allocate memory", "failed to map segment", "ut of memory")  # of the system and its loader


@contextmanager
def importing(what: str, extra: str, error: type[Error] = Error) -> Iterator[None]:
    """Run a `with` block of imports for `what`.

    extra: optional dependencies that contain the packages; "" for NumPy only. error: exception type for a package that
    is missing or cannot be imported; the message has cause and remedy.
    """
    try:
        yield
    except (ImportError, MemoryError, OSError, AttributeError, RuntimeError) as cause:  # libraries may start at import
        if isinstance(cause, Error):
            raise
        raise _explain(what, extra, error, cause) from cause


@contextmanager
def running(what: str, extra: str, error: type[Error] = Error) -> Iterator[None]:
    """Run a `with` block that may import lazily. ImportError becomes `error`, and MemoryError OutOfMemoryError."""
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
    """Return the error for a failed import, with the command that installs the package."""
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
