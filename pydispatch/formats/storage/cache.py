"""The cache directory for results that are expensive to recompute, with atomic files.

A cache never causes a failure: unreadable entries are recomputed, unwritable ones are dropped. A full cache evicts the
least recently used entries.
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
"""First bytes of an entry's file; a new version makes older entries misses."""
_DIGEST = hashlib.sha256().digest_size
"""Bytes of the digest of an entry's data, which follows `_MAGIC`."""
MAX_BYTES = 1 << 30
"""Largest file of an entry: a larger result is not cached."""

SIZE = "PYDISPATCH_CACHE_SIZE"
"""Environment variable with the maximum size of the cache in MiB; 0: nothing is cached or looked up."""
DEFAULT_SIZE = 1024
"""Maximum size of the cache in MiB if the environment variable PYDISPATCH_CACHE_SIZE is not set."""


def directory() -> Path | None:
    """Return the cache directory; None if no candidate is writable.

    Candidates, in order: $PYDISPATCH_CACHE_DIR, $XDG_CACHE_HOME/pydispatch, ~/.cache/pydispatch, a folder of the user
    in the temporary folder.
    """
    return _directory(os.environ.get("PYDISPATCH_CACHE_DIR"), os.environ.get("XDG_CACHE_HOME"), os.environ.get("HOME"))


def first_writable(candidates: Iterable[Path]) -> Path | None:
    """Return the absolute path of the first candidate that is or can be made a writable directory; None without one."""
    for candidate in candidates:
        with contextlib.suppress(OSError, ValueError):
            candidate.mkdir(parents=True, exist_ok=True)
            if os.access(candidate, os.W_OK | os.X_OK):
                return candidate.absolute()
    return None


def load(*parts: str) -> bytes | None:
    """Return the data cached under a path, given by its components below the cache directory; None if there is none or
    it is damaged.

    A cache file is `_MAGIC`, the SHA-256 digest of the data, and the data. The time of the file is set to now, so that
    recently used files are removed last.
    """
    root = directory()
    if root is None or not is_enabled():
        return None
    path = root.joinpath(*parts)
    try:
        blob = whole_file.read(path, MAX_BYTES)
    except (OSError, MemoryError):
        return None
    if blob is None or not blob.startswith(_MAGIC):
        return None
    at = len(_MAGIC)
    digest, data = blob[at : at + _DIGEST], blob[at + _DIGEST :]
    if hashlib.sha256(data).digest() != digest:
        return None
    with contextlib.suppress(OSError):
        os.utime(path)  # `_trim` removes the files with the oldest times
    return data


def store(data: bytes, *parts: str, folder_count: int = 1) -> None:
    """Cache data under a relative path, and evict the least recently used files of its folder.

    Args:
        data: The data.
        parts: Components of the path below the cache directory.
        folder_count: Number of folders over which such entries are spread; each may take this share of the size
            limit.
    """
    root = directory()
    if root is None or not is_enabled() or len(data) > MAX_BYTES - len(_MAGIC) - _DIGEST:
        return
    path = root.joinpath(*parts)
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        whole_file.write(path, (_MAGIC, hashlib.sha256(data).digest(), data))
        _trim(path, limit() // folder_count)


def is_enabled() -> bool:
    """Return whether the cache may store anything: the environment does not set its size to 0."""
    return limit() > 0


def limit() -> int:
    """Return the maximum size of the cache in bytes; 0 disables it."""
    with contextlib.suppress(ValueError):
        return max(0, int(os.environ.get(SIZE, ""))) << 20
    return DEFAULT_SIZE << 20


def _trim(newest: Path, most: int) -> None:
    """Remove the least recently used files of a folder, except `newest`, until at most `most` bytes are left."""
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
    """Return the cache directory for values of environment variables; None if no candidate is writable.

    Candidates are, in this order, `own`, the folder pydispatch in `xdg`, .cache/pydispatch in `home`, and a folder for
    this user in the system's folder for temporary files.

    Args:
        own: $PYDISPATCH_CACHE_DIR; None or "" if it is not set.
        xdg: $XDG_CACHE_HOME; None or "" if it is not set.
        home: $HOME; None or "" if it is not set.
    """
    candidates = [Path(own)] if own else []
    candidates += [Path(xdg, "pydispatch")] if xdg else []
    candidates += [Path(home, ".cache", "pydispatch")] if home else []
    writable = first_writable(candidates)
    return _temporary_directory() if writable is None else writable


def _temporary_directory() -> Path | None:
    """Create a folder for this user in the system's folder for temporary files; return None if that is not possible.

    It must be a folder of this user that no other user can write to: another user could plant objects in it.
    """
    with contextlib.suppress(OSError):
        user = os.getuid() if hasattr(os, "getuid") else None
        fallback = Path(tempfile.gettempdir(), f"pydispatch-cache-{'user' if user is None else user}")
        fallback.mkdir(mode=0o700, exist_ok=True)
        state = fallback.lstat()  # another user may have created it, or a link of this name
        is_writable_by_others = bool(state.st_mode & 0o022)
        is_own = user is None or (state.st_uid == user and not is_writable_by_others)
        if stat.S_ISDIR(state.st_mode) and is_own:
            return fallback
    return None
