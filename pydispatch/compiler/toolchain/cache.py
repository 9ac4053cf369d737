"""A content-addressed cache of what was compiled, in the user's cache folder.

The key of an entry is a digest of the compiler, its flags and the source text. An entry lists the files that were read,
with their digests, and the paths at which no file was found. It is valid only while all of these are unchanged. (A new
header that shadows an included one is not noticed, unless its path is listed.)
No function here raises an error: without a writable cache the compiler is slower, but works.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

from pydispatch import logs
from pydispatch.files import record_accesses
from pydispatch.formats.storage import cache, whole_file
from pydispatch.formats.storage.cache import directory

__all__ = ["OBJECTS", "PROGRAMS", "digest", "directory", "load", "store"]

OBJECTS, PROGRAMS = "objects", "programs"
"""Kinds of entries: the code of a dispatch or of a C source; a whole artifact."""
_FOLDERS = {OBJECTS: 256, PROGRAMS: 4}
"""Divisor of the cache's size limit for one folder, by kind of entry. Objects are spread over 256 folders by the first
two digits of their keys; all programs are in one folder, which may take a quarter of the limit."""


def digest(*parts: object) -> str:
    """Return a hex digest of the parts. Each is bytes, or has a `repr` that states its value: text, a number, or a list
    or tuple of these."""
    state = hashlib.sha256()
    for part in parts:
        data = part if isinstance(part, bytes) else repr(part).encode()
        state.update(len(data).to_bytes(8, "little"))  # so that ("ab", "c") and ("a", "bc") differ
        state.update(data)
    return state.hexdigest()


def load(key: str, kind: str = OBJECTS) -> bytes | None:
    """Return the bytes cached under `key`; None if there are none, they are damaged, or a file that they were compiled
    from, such as an included header, has changed."""
    data = _load(key, kind)
    logs.compiler.debug("cache: %s %s %s", kind, key[:12], "is not there" if data is None else "is there")
    return data


def _load(key: str, kind: str) -> bytes | None:
    """Return the content of a cache entry; None if there is none, or a file that it depends on has changed."""
    blob = cache.load(*_path(key, kind))
    if blob is None:
        return None
    head, _, data = blob.partition(b"\n")
    try:
        known = json.loads(head)  # path → digest of the file, None for a path at which there was no file
        if any(_digest_of(file) != digest for file, digest in known.items()):
            return None
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return None
    # The program that is being compiled depends on these files, too.
    record_accesses([file for file, digest in known.items() if digest is not None])
    return data


def store(key: str, data: bytes, files: Iterable[str] = (), missed: Iterable[str] = (), kind: str = OBJECTS) -> None:
    """Cache `data`. The entry is valid as long as `files` are unchanged, and there is no file at the paths `missed`.

    An entry begins with a line of JSON, which maps each of these paths to the digest of the file, null for no file.
    Nothing is stored, without an error, if the cache cannot be written: it only saves time.

    Args:
        key: A `digest` of all that the data depends on besides files; `load` finds the entry by it.
        data: The bytes to cache.
        files: Paths of the files that the data depends on.
        missed: Paths at which no file was found.
        kind: `OBJECTS` or `PROGRAMS`.
    """
    files, missed = list(files), list(missed)
    record_accesses(files)  # the program that is being compiled depends on them, too
    with contextlib.suppress(OSError, ValueError):
        known = {file: _digest_of(file) for file in files}
        # A file has vanished, or one has appeared, since the data was computed: the entry would be invalid.
        if None in known.values() or any(_digest_of(file) is not None for file in missed):
            return
        head = json.dumps({**known, **dict.fromkeys(missed)}, sort_keys=True).encode() + b"\n"
        cache.store(head + data, *_path(key, kind), folder_count=_FOLDERS[kind])


def _digest_of(file: str) -> str | None:
    """Return the SHA-256 digest of a file's content, or None if the path is not a file or the file is too large."""
    try:
        data = whole_file.read(Path(file), cache.MAX_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return None if data is None else hashlib.sha256(data).hexdigest()


def _path(key: str, kind: str) -> tuple[str, ...]:
    """Return the components of an entry's path below the cache directory."""
    return (kind, key[:2], key[2:]) if kind == OBJECTS else (kind, key)
