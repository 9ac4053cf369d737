"""Lazy imports of packages, with errors that state the remedy for missing or broken ones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pydispatch.errors import Error, OutOfMemoryError

# If the message of a failed import contains one of these, the error advises more memory instead of a new installation.
# First letters are left out, as their case differs between messages of the system and of its loader.
_OUT_OF_MEMORY_TEXTS = ("annot allocate memory", "failed to map segment", "ut of memory")


@contextmanager
def importing(what: str, extra: str, error: type[Error] = Error) -> Iterator[None]:
    """Run a `with` block of imports; raise `error`, with the remedy, if one of them fails.

    Args:
        what: Feature that needs the packages, for messages, such as "Vulkan".
        extra: Name in `pip install pydispatch[extra]` that installs the packages; "" if pydispatch itself requires
            them.
        error: Type of the exception for a package that is missing or cannot be imported. Its message has cause and
            remedy.
    """
    try:
        yield
    except (ImportError, MemoryError, OSError, AttributeError, RuntimeError) as cause:  # libraries may start at import
        if isinstance(cause, Error):
            raise
        raise _explain(what, extra, error, cause) from cause


@contextmanager
def running(what: str, extra: str, error: type[Error] = Error) -> Iterator[None]:
    """Run a `with` block that may import lazily, and translate its exceptions.

    ImportError becomes `error` with the remedy, and MemoryError becomes OutOfMemoryError.

    Arguments are those of `importing`.
    """
    try:
        yield
    except ImportError as cause:
        raise _explain(what, extra, error, cause) from cause
    except MemoryError as cause:
        if isinstance(cause, Error):
            raise
        raise OutOfMemoryError(f"{what}: out of memory{f': {cause}' if str(cause) else ''}; {_MORE_MEMORY}") from cause


_MORE_MEMORY = "give the process more memory (ulimit -v, or the limit of its container)"  # remedy in a message


def _explain(what: str, extra: str, error: type[Error], cause: Exception) -> Error:
    """Return the error for a failed import, with the command that installs the package, or what to do about memory."""
    name = getattr(cause, "name", None) or ""
    package = name.partition(".")[0]
    install = f"pip install 'pydispatch[{extra}]'" if extra else "pip install pydispatch"
    # A missing module of pydispatch itself is a broken installation.
    if isinstance(cause, ModuleNotFoundError) and package and package != "pydispatch":
        return error(f"{what} needs the package {package}: {install}")
    which = f"{name} cannot be imported" if name else "a package that it needs cannot be imported"
    if isinstance(cause, MemoryError) or any(text in str(cause) for text in _OUT_OF_MEMORY_TEXTS):
        return error(f"{what}: {which}: {_message_of(cause)}; {_MORE_MEMORY}")
    reinstall = install.replace("install", "install --force-reinstall")
    return error(f"{what}: {which}: {_message_of(cause)}; install it again: {reinstall}")


def _message_of(cause: BaseException) -> str:
    """Return the message of an exception, or the name of its type if it has none."""
    return str(cause) or type(cause).__name__
