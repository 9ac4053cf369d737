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
"""Age of a temporary file from which on its writer is taken for killed."""
_TRIES = 100
"""Attempts to link and rename a file while other processes write the same one."""


def write(target: Path, parts: Sequence[bytes | memoryview]) -> None:
    """Replace a file with the bytes of `parts`, one after the other, atomically.

    Readers see the old content or the new one, and memory mappings of the old one stay valid.

    Raises an OSError, and then leaves no temporary file. If the process is killed, no temporary file is left on systems
    with O_TMPFILE, except between linking and renaming; the next write removes such a file.
    """
    if not _write_unnamed(target, parts):
        _write_named(target, parts)


def read(path: Path, limit: int) -> bytes | None:
    """Return the bytes of a file; None if it is not a regular file or larger than `limit` bytes. Raises an OSError.

    The file is opened without blocking, so that a pipe does not block the caller.
    """
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with os.fdopen(handle, "rb") as stream:
        state = os.fstat(handle)
        if not stat.S_ISREG(state.st_mode) or state.st_size > limit:
            return None
        data = stream.read(state.st_size + 1)  # Python allocates as many bytes as it is to read: not `limit`
        if len(data) > state.st_size:  # the file has grown since fstat
            data += stream.read(limit + 1 - len(data))
        return data if len(data) <= limit else None


def _write_unnamed(target: Path, parts: Sequence[bytes | memoryview]) -> bool:
    """Write an unnamed file (O_TMPFILE) and then give it the name `target`; return whether the system supports that.

    If it does not, `target` is unchanged. A process that is killed while it writes leaves no file behind.
    """
    flag = getattr(os, "O_TMPFILE", 0)
    if not flag or not Path("/proc/self/fd").is_dir():
        return False
    try:
        handle = os.open(target.parent, flag | os.O_WRONLY, 0o666)
    except OSError as error:
        # O_TMPFILE is unknown to the file system, or to an old kernel, which opens the folder itself.
        if error.errno in (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT):
            return False
        raise
    with os.fdopen(handle, "wb") as stream:
        stream.writelines(parts)
        stream.flush()
        return _publish(handle, target)


def _publish(handle: int, target: Path) -> bool:
    """Link an unnamed file at a temporary name and rename it to `target`; return False if it cannot be linked.

    handle: file descriptor of the unnamed file.

    The temporary name is needed because linking cannot replace an existing file.
    """
    # All writers of a target use the same temporary name, and link only complete files. A file that has the name was
    # left by a killed process, or belongs to a writer between its link and its rename. This process replaces the file.
    # The other writer then renames this process's file, which is complete as well.
    name = target.parent / f".{target.name[:200]}.whole"  # cut, since file systems limit a name to 255 bytes
    files = os.open("/proc/self/fd", os.O_RDONLY)  # an entry of this folder is the path of an unnamed file
    try:
        return _link_and_rename(files, handle, name, target)
    finally:
        os.close(files)


def _link_and_rename(files: int, handle: int, name: Path, target: Path) -> bool:
    """Link an unnamed file at a temporary name and rename it to the target; return False if that is not possible.

    Other writers of the target use the same temporary name. A file that has it is removed, and the link is tried again,
    `_TRIES` times in all. After False, `write` writes the file under a name of its own instead.

    Args:
        files: Descriptor of the folder /proc/self/fd, which has a symbolic link to each open file.
        handle: Descriptor of the unnamed file, and the name of its link in that folder.
        name: Temporary name.
        target: Final name.
    """
    for _ in range(_TRIES):
        try:
            # With src_dir_fd, os.link calls linkat(), which can link the file that a symbolic link refers to.
            os.link(str(handle), name, src_dir_fd=files, follow_symlinks=True)
        except FileExistsError:
            try:
                name.unlink(missing_ok=True)
            except OSError:  # another user's file, which this user may not remove
                return False
            continue
        except OSError:
            return False
        try:
            name.replace(target)
            return True
        except FileNotFoundError:
            # Another writer has removed the link, or renamed it to the target. After a rename, nothing is left to do:
            # linking again would give the file a second name.
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
    """Remove temporary files of killed processes: the old files in `folder` whose names begin with `stem`.

    Age is the distance to the current time in either direction, because the clock may have been set back.
    """
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if not entry.name.startswith(stem) or not entry.name.endswith(".tmp"):
                continue
            with contextlib.suppress(OSError):
                age = abs(time.time() - entry.stat(follow_symlinks=False).st_mtime)
                if age > _STALE_SECONDS:
                    Path(entry).unlink()
