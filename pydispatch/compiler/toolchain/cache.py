"""A content-addressed cache of compiled objects in the user's cache folder.

An entry is found by a digest of the compiler, its flags and the source text; it lists the files that were included and
their digests, and holds only while these are unchanged. (A new header that would now shadow one of them is not seen.)
Nothing here raises: a cache that cannot be written is a slower compiler, not a broken one.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

from pydispatch.formats.storage import cache, whole_file
from pydispatch.formats.storage.cache import directory

__all__ = ["digest", "directory", "load", "store"]


def digest(*parts: object) -> str:
    """A hex digest of the parts, each a bytes, text, number or a list or tuple of these."""
    state = hashlib.sha256()
    for part in parts:
        data = part if isinstance(part, bytes) else repr(part).encode()
        state.update(len(data).to_bytes(8, "little"))
        state.update(data)
    return state.hexdigest()


def load(key: str) -> bytes | None:
    """The bytes kept under `key`, or None when there are none, they are damaged, or an included file has changed."""
    blob = cache.load(*_path(key))
    if blob is None:
        return None
    head, _, data = blob.partition(b"\n")
    try:
        for file, known in json.loads(head).items():
            if _digest_of(file) != known:
                return None
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return None
    return data


def store(key: str, data: bytes, files: Iterable[str] = ()) -> None:
    """Keeps `data` under `key` for as long as `files` stay as they are now."""
    with contextlib.suppress(OSError, ValueError):
        known = {file: _digest_of(file) for file in files}
        if None not in known.values():
            head = json.dumps(known, sort_keys=True).encode() + b"\n"
            cache.store(head + data, *_path(key), folders=256)


def _digest_of(file: str) -> str | None:
    """Of the content of a file, None of what is no file."""
    data = whole_file.read(Path(file), cache.MAX_BYTES)
    return None if data is None else hashlib.sha256(data).hexdigest()


def _path(key: str) -> tuple[str, str, str]:
    return "objects", key[:2], key[2:]
