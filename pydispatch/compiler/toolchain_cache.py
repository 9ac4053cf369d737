"""A content-addressed cache of compiled objects in the user's cache folder.

An entry is found by a digest of the compiler, its flags and the source text; it lists the files that were included and
their digests, and holds only while these are unchanged. (A new header that would now shadow one of them is not seen.)
Every entry is written under a temporary name and renamed, so that processes may share the folder. Nothing here raises:
a cache that cannot be written is a slower compiler, not a broken one.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

_MAGIC = b"pydispatch object cache 1\n"


def directory() -> Path:
    """$PYDISPATCH_CACHE_DIR, $XDG_CACHE_HOME/pydispatch, ~/.cache/pydispatch, or one in the temporary folder."""
    return _directory(os.environ.get("PYDISPATCH_CACHE_DIR"), os.environ.get("XDG_CACHE_HOME"), os.environ.get("HOME"))


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
    try:
        blob = _path(key).read_bytes()
        if not blob.startswith(_MAGIC):
            return None
        head, _, data = blob[len(_MAGIC) :].partition(b"\n")
        entry = json.loads(head)
        if entry["sha256"] != hashlib.sha256(data).hexdigest():
            return None
        for file, known in entry["files"].items():
            if hashlib.sha256(Path(file).read_bytes()).hexdigest() != known:
                return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return data


def store(key: str, data: bytes, files: Iterable[str] = ()) -> None:
    """Keeps `data` under `key` for as long as `files` stay as they are now."""
    with contextlib.suppress(OSError):
        known = {file: hashlib.sha256(Path(file).read_bytes()).hexdigest() for file in files}
        head = json.dumps({"sha256": hashlib.sha256(data).hexdigest(), "files": known}, sort_keys=True).encode()
        path = _path(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".new-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(_MAGIC + head + b"\n" + data)
            Path(temporary).replace(path)
        except OSError:
            Path(temporary).unlink()
            raise


def _path(key: str) -> Path:
    return directory() / "objects" / key[:2] / key[2:]


@functools.lru_cache(maxsize=8)
def _directory(own: str | None, xdg: str | None, home: str | None) -> Path:
    candidates = [Path(own)] if own else []
    candidates += [Path(xdg, "pydispatch")] if xdg else []
    candidates += [Path(home, ".cache", "pydispatch")] if home else []
    for candidate in candidates:
        with contextlib.suppress(OSError):
            candidate.mkdir(parents=True, exist_ok=True)
            if os.access(candidate, os.W_OK | os.X_OK):
                return candidate
    # One folder per user, so that nobody can plant objects in it.
    fallback = Path(tempfile.gettempdir(), f"pydispatch-cache-{os.getuid() if hasattr(os, 'getuid') else 'user'}")
    with contextlib.suppress(OSError):
        fallback.mkdir(mode=0o700, exist_ok=True)
        if not hasattr(os, "getuid") or fallback.stat().st_uid == os.getuid():
            return fallback
    return Path(tempfile.mkdtemp(prefix="pydispatch-cache-"))
