"""Atomic files: written to a temporary file in the same folder and renamed. Pipes are not waited for."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time
from collections.abc import Sequence
from pathlib import Path

_STALE_SECONDS = 3600
_TRIES = 100


def write(target: Path, parts: Sequence[bytes | memoryview]) -> None:
    """Replace `target`. Whoever reads it meanwhile sees the old file or the new one, and maps of the old one keep it.

    Raises an OSError; nothing is left then. A process that is killed leaves nothing where the system has files
    without a name (O_TMPFILE), but for one whole file between two system calls, which the next write takes away.
    """
    if not _write_unnamed(target, parts):
        _write_named(target, parts)


def read(path: Path, limit: int) -> bytes | None:
    """Return the bytes of a file; None when it is no regular file (a pipe is not waited for), or larger than `limit`.
    Raises an OSError.
    """
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with os.fdopen(handle, "rb") as stream:
        state = os.fstat(handle)
        if not stat.S_ISREG(state.st_mode) or state.st_size > limit:
            return None
        data = stream.read(limit + 1)
        return data if len(data) <= limit else None


def _write_unnamed(target: Path, parts: Sequence[bytes | memoryview]) -> bool:
    """Write into a file that gets its name last. False where the system or the file system has no such files."""
    flag = getattr(os, "O_TMPFILE", 0)
    if not flag or not Path("/proc/self/fd").is_dir():
        return False
    try:
        handle = os.open(target.parent, flag | os.O_WRONLY, 0o666)
    except OSError as error:
        if error.errno in (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT):
            return False
        raise
    with os.fdopen(handle, "wb") as stream:
        stream.writelines(parts)
        stream.flush()
        return _name(handle, target)


def _name(handle: int, target: Path) -> bool:
    """Give a file its name, by way of another since a link replaces nothing. False where it cannot be linked."""
    # All writers of a target use the same temporary name. A file found there is complete: left by a process that was
    # killed, or of one that is about to rename it, which then renames this one's file instead.
    name = target.parent / f".{target.name[:200]}.whole"
    files = os.open("/proc/self/fd", os.O_RDONLY)
    try:
        return _name_by(files, handle, name, target)
    finally:
        os.close(files)


def _name_by(files: int, handle: int, name: Path, target: Path) -> bool:
    for _ in range(_TRIES):
        try:
            os.link(str(handle), name, src_dir_fd=files, follow_symlinks=True)  # linkat: link() does not follow
        except FileExistsError:
            try:
                name.unlink(missing_ok=True)
            except OSError:  # another user's
                return False
            continue
        except OSError:
            return False
        try:
            name.replace(target)
            return True
        except FileNotFoundError:
            # Another has renamed or removed it. Linking again what is the target already would leave a second name.
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(target.stat(), os.fstat(handle)):
                    return True
        except BaseException:
            with contextlib.suppress(OSError):
                name.unlink()
            raise
    return False


def _write_named(target: Path, parts: Sequence[bytes | memoryview]) -> None:
    """Write the file under a temporary name and rename it; the temporary file remains if the process is killed."""
    stem = f".{target.name[:100]}."
    _remove_stale(target.parent, stem)
    temporary = target.parent / f"{stem}{os.urandom(6).hex()}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    try:
        with os.fdopen(os.open(temporary, flags, 0o666), "wb") as stream:
            stream.writelines(parts)
        temporary.replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def _remove_stale(folder: Path, stem: str) -> None:
    """Remove temporary files of killed processes. Clocks may have been set back since."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(stem) and entry.name.endswith(".tmp"):
                with contextlib.suppress(OSError):
                    if abs(time.time() - entry.stat(follow_symlinks=False).st_mtime) > _STALE_SECONDS:
                        Path(entry).unlink()
