"""A content-addressed cache of what was compiled, in the user's cache folder.

An entry is found by a digest of the compiler, its flags and the source text; it lists the files that were read and
their digests, and where files were looked for in vain, and holds only while all of this is unchanged. (A new header
that would now shadow an included one is not seen.)
Nothing here raises: a cache that cannot be written is a slower compiler, not a broken one.
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


def digest(*parts: object) -> str:
    """Return a hex digest of the parts, each a bytes, text, number or a list or tuple of these."""
    state = hashlib.sha256()
    for part in parts:
        data = part if isinstance(part, bytes) else repr(part).encode()
        state.update(len(data).to_bytes(8, "little"))
        state.update(data)
    return state.hexdigest()


def load(key: str, kind: str = OBJECTS) -> bytes | None:
    """Return the bytes cached under `key`, or None when there are none, they are damaged, or a file has changed."""
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
        known = json.loads(head)
        if any(_digest_of(file) != digest for file, digest in known.items()):
            return None
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return None
    record_accesses([file for file, digest in known.items() if digest is not None])  # for a cache of whole programs
    return data


def store(key: str, data: bytes, files: Iterable[str] = (), missed: Iterable[str] = (), kind: str = OBJECTS) -> None:
    """Keep `data` under `key` for as long as `files` stay as they are now, and `missed` are no files."""
    files, missed = list(files), list(missed)
    record_accesses(files)  # whoever is compiling a whole program depends on them, too
    with contextlib.suppress(OSError, ValueError):
        known = {file: _digest_of(file) for file in files}
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
    return (kind, key[:2], key[2:]) if kind == OBJECTS else (kind, key)
