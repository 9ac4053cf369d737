"""Reading of files that users name: regular files and pipes only, up to a size limit, so that no path blocks
forever.
"""

from __future__ import annotations

import codecs
import io
import os
import stat
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NoReturn

from pydispatch.errors import InvalidArgumentError, SystemError_

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

LIMIT = 1 << 30
"""The maximum size of a file or pipe to read, in bytes. Mapped files (.pdx, parameters) may be larger."""

SOURCE_SUFFIXES = (".c", ".comp", ".cu", ".glsl", ".wgsl")
"""Suffixes of files with kernels that are compiled with a program, and may have macros and includes."""

# File types that are not read, as messages name them.
_KINDS = {stat.S_IFDIR: "a folder", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device", stat.S_IFSOCK: "a socket"}
_PIECE_BYTES = 1 << 20
"""Bytes of a file that are read at a time: few enough to remain in a cache of the CPU until they are processed."""


def path_of(what: str, source: Any, expected: str) -> str:
    """Return a path as text. Raise InvalidArgumentError for other types and for invalid paths.

    A path is a str or an os.PathLike object. It is invalid if it is empty, has a NUL character, or cannot be converted
    to bytes of this system's file names.

    Args:
        what: Name of the parameter, with which messages begin.
        source: The argument.
        expected: Description of a valid argument in messages, such as "the path of a file".
    """
    # The path as text.
    try:
        path = os.fspath(source)  # bytes if `source` is bytes, which are no path here
        path = os.fsdecode(path) if isinstance(source, (str, os.PathLike)) else None
    except TypeError:
        path = None
    except UnicodeError:
        raise InvalidArgumentError(f"{what}: {source!r} is no path: it is not text in this system's encoding") from None
    if path is None:
        raise InvalidArgumentError(f"{what}: expected {expected}, got {type(source).__name__}")
    # Whether the system can open it.
    try:
        encoded = os.fsencode(path)
    except UnicodeError:
        raise InvalidArgumentError(f"{what}: {path!r} is no path: it has a character that cannot be encoded") from None
    if not encoded:
        raise InvalidArgumentError(f"{what}: expected {expected}, got an empty path")
    if b"\0" in encoded:
        raise InvalidArgumentError(f"{what}: a path cannot hold a NUL character, got {path!r}")
    return path


def is_text(source: object) -> bool:
    """Return whether a source is MLIR text rather than a path: it has several lines or a brace, or is blank."""
    return isinstance(source, str) and ("\n" in source or "{" in source or not source.strip())


def check_path(what: str, source: Any, kind: str) -> None:
    """Raise InvalidArgumentError unless a source is a path.

    Args:
        what: Name of the parameter, with which messages begin.
        source: The argument.
        kind: Description of the content, such as "a plugin" for a message that expects "the path or the bytes of a
            plugin".
    """
    path_of(what, source, f"the path or the bytes of {kind}")


def read(path: str | os.PathLike[str], limit: int | None = None) -> bytes:
    """Return the bytes of a regular file or pipe.

    limit: maximum number of bytes, `LIMIT` by default.

    Raises:
        SystemError: The path is a folder, device or socket, a pipe without a writer, has more than `limit` bytes, or
            cannot be read. The exception is an OSError, too.
    """
    return b"".join(pieces(path, LIMIT if limit is None else limit))


def pieces(path: str | os.PathLike[str], limit: int = LIMIT) -> Iterator[bytes]:
    """Yield the bytes of a regular file or pipe in pieces of at most `_PIECE_BYTES` bytes; the first may be empty.

    limit: maximum number of bytes in all. Raises as `read`.
    """
    with _opened(path) as (stream, is_pipe):
        size = os.fstat(stream.fileno()).st_size
        if not is_pipe and size > limit:
            _refuse(path, f"it has {size} bytes; at most {_amount(limit)} are read")
        yield from _read_pipe(stream, path, limit) if is_pipe else _all(stream, path, limit)


def read_text(path: str | os.PathLike[str]) -> str:
    """Read a regular file or pipe as UTF-8 text, with line ends converted to \\n. UnicodeDecodeError when it is not
    UTF-8.

    The text of a model may have hundreds of megabytes of weights. It is decoded while it is read, so that the bytes of
    the whole file are not in memory as well.
    """
    decoder, text = codecs.getincrementaldecoder("utf-8")(), ""
    for piece in pieces(path):
        text += decoder.decode(piece)  # CPython appends in place, as no other reference to the text exists
    text += decoder.decode(b"", final=True)
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def read_head(path: str | os.PathLike[str], count: int) -> bytes:
    """Return the first `count` bytes of a file, or all if it has fewer. Raises as `read`."""
    with _opened(path) as (stream, _):
        return stream.read(count)


def open_binary(path: str | os.PathLike[str], limit: int | None = None) -> IO[bytes]:
    """Open a stream over a regular file of any size, or over the contents of a pipe, which is read whole.

    limit: maximum number of bytes of a pipe, `LIMIT` by default. Raises as `read`.
    """
    with _opened(path) as (stream, is_pipe):
        if is_pipe:
            return io.BytesIO(b"".join(_read_pipe(stream, path, LIMIT if limit is None else limit)))
        return os.fdopen(os.dup(stream.fileno()), "rb")


def open_mapped(path: str | os.PathLike[str]) -> IO[bytes]:
    """Open a stream over a regular file of any size, to be mapped. Raises as `read`; a pipe cannot be mapped."""
    with _opened(path) as (stream, is_pipe):
        if is_pipe:
            _refuse(path, "it is a pipe, which cannot be mapped into memory; write it to a file")
        return os.fdopen(os.dup(stream.fileno()), "rb")


def read_code(what: str, source: Any, kind: str) -> tuple[bytes, str]:
    """Return the bytes of code, and its name in messages: the path, or the number of bytes.

    Args:
        what: Begin of messages, such as "add_executable 'name'".
        source: The code as bytes, or the path of its file.
        kind: Description of the content in messages, such as "a SPIR-V module".

    Raises:
        SystemError: The file cannot be read.
        InvalidArgumentError: The source is neither a path nor bytes.
    """
    if isinstance(source, (bytes, bytearray, memoryview)):
        data = bytes(source)
        return data, f"{len(data)} bytes"
    path = path_of(what, source, f"the path or the bytes of {kind}")
    try:
        return read(path), path
    except SystemError_ as error:
        base = "" if Path(path).is_absolute() else f" (in {Path.cwd()})"
        raise SystemError_(f"{what}: {error}{base}; give the path or the bytes of {kind}") from None


def write(what: str, path: str | os.PathLike[str], data: bytes | memoryview) -> None:
    """Write bytes to a file. `what` names it in messages, such as "the artifact".

    Raise pydispatch's SystemError if that fails, and InvalidArgumentError for an invalid path.
    """
    name = path_of(what, path, "the path of a file")
    with writing(what, name):
        Path(name).write_bytes(data)


def refuse_overwriting(what: str, output: str | os.PathLike[str], inputs: Iterable[str | os.PathLike[str]]) -> None:
    """Raise InvalidArgumentError if a file that is to be written is one of the files `inputs`, also by another name.

    what: the option that states the output, with which the message begins.
    """
    for path in inputs:
        if _is_same_file(output, path):
            raise InvalidArgumentError(
                f"{what}: '{os.fspath(output)}' is the input '{os.fspath(path)}', which would be overwritten; "
                "name another file"
            )


def _is_same_file(path: str | os.PathLike[str], other: str | os.PathLike[str]) -> bool:
    """Return whether two paths lead to the same file; False if there is no file at one of them."""
    try:
        return Path(path).samefile(other)
    except (OSError, ValueError):  # ValueError: a path that no system accepts
        return False


@contextmanager
def writing(what: str, path: str | os.PathLike[str]) -> Iterator[None]:
    """Convert an OSError of the `with` block to a SystemError that names the file and has the same error number.

    what: name of the content in messages, such as "the artifact".
    """
    try:
        yield
    except SystemError_:
        raise
    except OSError as error:
        raise SystemError_(error.errno, f"cannot write {what}: {error.strerror or error}", os.fspath(path)) from None


@dataclass(eq=False)
class Reads:
    """Record of file accesses. Records are compared by identity: each belongs to one `recording()` block.

    Attributes:
        existing: Paths that were read.
        missed: Paths at which no file was found.
    """

    existing: set[str] = field(default_factory=set)
    missed: set[str] = field(default_factory=set)


_recorders: list[Reads] = []  # the records of the `recording()` blocks that are active, of all threads


@contextmanager
def recording() -> Iterator[Reads]:
    """Yield a record to which `files` adds the paths that any thread reads or does not find within the `with` block.

    It also receives the paths that are passed to `record_accesses`. The cache of compiled programs thus knows the files
    on which an artifact depends.
    """
    reads = Reads()
    _recorders.append(reads)
    try:
        yield reads
    finally:
        _recorders.remove(reads)  # one atomic operation: another thread may begin or end a block at any time


def record_accesses(existing: Iterable[str] = (), missed: Iterable[str] = ()) -> None:
    """Add paths that were read, or not found, to the records of all `recording()` blocks. Other modules pass paths that
    other processes have read on behalf of this one."""
    existing, missed = list(existing), list(missed)
    for reads in list(_recorders):
        reads.existing.update(existing)
        reads.missed.update(missed)


@contextmanager
def _opened(path: str | os.PathLike[str]) -> Iterator[tuple[IO[bytes], bool]]:
    """Open a regular file or pipe; yield an unbuffered stream over it, and whether it is a pipe. Raises as `read`.

    Reads of a pipe do not block: a pipe without data gives None, or b"" if it has no writer.
    """
    name = path_of("path", path, "the path of a file")
    record_accesses([name])  # for the cache of compiled programs, which depend on the file
    # Without O_NONBLOCK, opening a named pipe would wait for its writer. The other flags are for Windows (no conversion
    # of line ends) and for processes that are started meanwhile (they do not inherit the file).
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
    try:
        kind = stat.S_IFMT(Path(name).stat().st_mode)
        if kind in _KINDS:  # before opening, which alone may act on a device: it winds a tape
            _refuse(path, f"it is {_KINDS[kind]}, not a file")
        with os.fdopen(os.open(name, flags), "rb", buffering=0) as stream:
            kind = stat.S_IFMT(os.fstat(stream.fileno()).st_mode)  # another file may be at the path by now
            if kind in _KINDS:
                _refuse(path, f"it is {_KINDS[kind]}, not a file")
            yield stream, kind == stat.S_IFIFO
    except SystemError_:
        raise
    except OSError as error:
        _refuse(path, error.strerror or str(error))


def _read_pipe(stream: IO[bytes], path: str | os.PathLike[str], limit: int) -> Iterator[bytes]:
    """Return the bytes of a pipe in pieces. Raise SystemError for a pipe without a writer, and as `_all`."""
    first = stream.read(_PIECE_BYTES)  # None: there is a writer that has not written yet
    if first == b"":
        _refuse(path, "it is a pipe that nobody writes into; start the writer first")
    os.set_blocking(stream.fileno(), True)
    return _all(stream, path, limit, first or b"")


def _all(stream: IO[bytes], path: str | os.PathLike[str], limit: int, first: bytes = b"") -> Iterator[bytes]:
    """Yield `first`, which was read before, and the rest of a stream in pieces. Raise pydispatch's SystemError if all
    of these have more than `limit` bytes."""
    yield first
    size = len(first)
    while size <= limit:
        # One byte more than the limit shows that it is exceeded.
        piece = stream.read(min(_PIECE_BYTES, limit + 1 - size))
        if not piece:
            break
        size += len(piece)
        yield piece
    if size > limit:
        _refuse(path, f"it has more than {_amount(limit)}, the most that is read")


def _amount(size: int) -> str:
    """Return a number of bytes for messages, in GiB if that is an integer."""
    return f"{size >> 30} GiB" if size and not size & (1 << 30) - 1 else f"{size} bytes"


def _refuse(path: str | os.PathLike[str], why: str) -> NoReturn:
    """Raise pydispatch's SystemError for a path that is not read."""
    raise SystemError_(f"cannot read '{os.fspath(path)}': {why}")
