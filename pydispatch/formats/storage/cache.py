"""The cache directory for results that are expensive to recompute, with atomic files.

A cache never causes a failure: unreadable entries are recomputed, unwritable ones are dropped. What was used last stays
when the cache is full.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import stat
import tempfile
from collections.abc import Iterable
from pathlib import Path

from pydispatch.formats.storage import whole_file

_MAGIC = b"pydispatch cache 2\n"
_DIGEST = hashlib.sha256().digest_size
MAX_BYTES = 1 << 30

SIZE = "PYDISPATCH_CACHE_SIZE"
"""How many MiB may be cached; 0: nothing is cached or looked up."""
DEFAULT_SIZE = 1024


def directory() -> Path | None:
    """$PYDISPATCH_CACHE_DIR, $XDG_CACHE_HOME/pydispatch, ~/.cache/pydispatch, or one in the temporary folder; the first
    that can be written. None when there is none."""
    return _directory(os.environ.get("PYDISPATCH_CACHE_DIR"), os.environ.get("XDG_CACHE_HOME"), os.environ.get("HOME"))


def first_writable(candidates: Iterable[Path]) -> Path | None:
    """Return the first directory that can be written, and that exists or can be created; None when there is none."""
    for candidate in candidates:
        with contextlib.suppress(OSError, ValueError):
            candidate.mkdir(parents=True, exist_ok=True)
            if os.access(candidate, os.W_OK | os.X_OK):
                return candidate.absolute()
    return None


def load(*parts: str) -> bytes | None:
    """Return the bytes cached under a path below the cache directory. None when there are none, or they are damaged."""
    root = directory()
    if root is None or limit() == 0:
        return None
    path = root.joinpath(*parts)
    try:
        blob = whole_file.read(path, MAX_BYTES)
    except (OSError, MemoryError):
        return None
    if blob is None or not blob.startswith(_MAGIC):
        return None
    at = len(_MAGIC)
    known, data = blob[at : at + _DIGEST], blob[at + _DIGEST :]
    if hashlib.sha256(data).digest() != known:
        return None
    with contextlib.suppress(OSError):
        os.utime(path)
    return data


def store(data: bytes, *parts: str, folders: int = 1) -> None:
    """Keep `data` under a path below the directory, when that can be written.

    folders: among how many folders such entries are spread; each may hold that part of the limit.
    """
    root = directory()
    if root is None or limit() == 0 or len(data) > MAX_BYTES - len(_MAGIC) - _DIGEST:
        return
    path = root.joinpath(*parts)
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        whole_file.write(path, (_MAGIC, hashlib.sha256(data).digest(), data))
        _trim(path, limit() // folders)


def limit() -> int:
    """Return the maximum number of bytes in the cache; 0 turns it off."""
    with contextlib.suppress(ValueError):
        return max(0, int(os.environ.get(SIZE, ""))) << 20
    return DEFAULT_SIZE << 20


def _trim(newest: Path, most: int) -> None:
    """Remove the files of a folder that were not used for the longest time, until the others have at most `most` bytes
    or `newest` is alone."""
    with os.scandir(newest.parent) as entries:
        files = [entry for entry in entries if entry.is_file(follow_symlinks=False)]
        stats = [(entry.stat(follow_symlinks=False), entry) for entry in files]
    total = sum(state.st_size for state, _ in stats)
    for state, entry in sorted(stats, key=lambda pair: (pair[0].st_mtime_ns, pair[1].name)):
        if total <= most:
            return
        if entry.name != newest.name:
            Path(entry).unlink(missing_ok=True)
            total -= state.st_size


@functools.lru_cache(maxsize=8)
def _directory(own: str | None, xdg: str | None, home: str | None) -> Path | None:
    candidates = [Path(own)] if own else []
    candidates += [Path(xdg, "pydispatch")] if xdg else []
    candidates += [Path(home, ".cache", "pydispatch")] if home else []
    if (writable := first_writable(candidates)) is not None:
        return writable
    with contextlib.suppress(OSError):
        # One folder per user, so that no other user can plant objects in it.
        user = os.getuid() if hasattr(os, "getuid") else None
        fallback = Path(tempfile.gettempdir(), f"pydispatch-cache-{'user' if user is None else user}")
        fallback.mkdir(mode=0o700, exist_ok=True)
        state = fallback.lstat()
        if stat.S_ISDIR(state.st_mode) and (user is None or (state.st_uid == user and not state.st_mode & 0o022)):
            return fallback
    return None
