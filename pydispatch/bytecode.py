"""Cache of the bytecode that `dataclasses` generates, like that of modules.

`dataclass` generates the methods of a class as text, which Python compiles each time. This takes a third of the time to
import the compiler, since its packages have hundreds of such classes. Inside a `cached` block, the bytecode is read
from a file beside the bytecode of this module, by a digest of the text. Like the bytecode of modules, the file is for
one version of Python, is written if the folder is writable and PYTHONDONTWRITEBYTECODE is not set, and may be deleted.
"""

from __future__ import annotations

import builtins
import dataclasses
import hashlib
import importlib.util
import marshal
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import CodeType
from typing import Any

_MOST_TEXTS = 20_000
"""Maximum number of methods in the cache file. Above it the file is written anew with those that this process used,
without those of package versions that are no longer installed."""

_lock = threading.Lock()
"""Held while `_users` changes, and while the patch of `dataclasses` is installed or removed."""
_users = 0
"""Number of `cached` blocks that run now, in all threads."""
_in_file: dict[bytes, CodeType] = {}
"""Bytecode that was read from the cache file, or written to it, by the digest of the generated source text."""
_used: dict[bytes, CodeType] = {}
"""Bytecode of the generated source texts that this process has executed, by their digests."""


@contextmanager
def cached() -> Iterator[None]:
    """Take the bytecode of generated dataclass methods from a cache file while the block runs, for all threads.

    The module `dataclasses` passes the text of generated methods to `exec`. The first block that begins replaces that
    name by `_exec`; the last one that ends restores it, and adds bytecode to the file that the file lacks. Blocks may
    overlap, in one thread or in several: `_users` counts those that run. `_in_file` is the bytecode in the file and
    `_used` that which this process has executed, by the digests of the texts.
    """
    global _users
    with _lock:
        _users += 1
        if _users == 1:  # the first block
            if not _in_file:  # the file was not read yet, or there is none
                _in_file.update(_read())
            vars(dataclasses)["exec"] = _exec  # a global of that module hides the built-in function from it alone
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0:  # the last block
                del vars(dataclasses)["exec"]
                if not _used.keys() <= _in_file.keys():  # the file lacks bytecode of this process
                    _write()


def _exec(text: str, names: dict[str, Any], into: Mapping[str, Any]) -> None:
    """Execute generated code like the built-in `exec`, with the cached bytecode of the text.

    names, into: the globals and the locals of the code.
    """
    key = hashlib.blake2b(text.encode(), digest_size=16).digest()
    code = _used.get(key) or _in_file.get(key)  # of this process, else of the cache file
    if code is None:
        code = compile(text, "<string>", "exec", dont_inherit=True)
    _used[key] = code
    builtins.exec(code, names, into)


def _path() -> Path:
    """Return the path of the cache file, whose name contains the version of Python."""
    return Path(importlib.util.cache_from_source(__file__)).with_suffix(".dataclasses")


def _read() -> dict[bytes, CodeType]:
    """Return the contents of the cache file: digest of a source text → its bytecode.

    The result is empty if the file is missing, broken, or of another version of Python.
    """
    with suppress(OSError, ValueError, EOFError, TypeError, NotImplementedError):
        data = _path().read_bytes()
        if data.startswith(importlib.util.MAGIC_NUMBER):
            codes = marshal.loads(memoryview(data)[len(importlib.util.MAGIC_NUMBER) :])
            return codes if isinstance(codes, dict) else {}
    return {}


def _write() -> None:
    """Add the bytecode that this process has executed to the cache file, which is replaced atomically.

    A file with more than _MOST_TEXTS methods is replaced by one with those of this process alone, without those of
    package versions that are no longer installed. Errors of the file system are ignored. Nothing is written if Python's
    own bytecode is not (`dont_write_bytecode`).
    """
    everything = _in_file | _used
    _in_file.update(_used)
    if sys.dont_write_bytecode:
        return
    contents = everything if len(everything) <= _MOST_TEXTS else _used  # a file that is too long starts anew
    data = importlib.util.MAGIC_NUMBER + marshal.dumps(contents)
    with suppress(OSError, NotImplementedError):
        path = _path()
        temporary = path.with_suffix(f".{os.getpid()}")
        try:
            path.parent.mkdir(exist_ok=True)
            temporary.write_bytes(data)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
