"""Cache of artifacts: a program that is compiled again is loaded, before the compiler is imported.

The key covers everything that an artifact depends on: the source, which for a kernel in Python is its MLIR text, its
path and the working directory, the options, the files of this package, the versions of its dependencies, the C compiler
and linker, and this machine's CPU and caches.
An entry is valid while the files that were read for it are unchanged, and files that were not found are still missing.
It refers to weights of the program's text instead of repeating them, so that large weights cost little to cache.

There is no caching with options that print or run Python code, with extensions of other packages, for targets whose
tools are not in the key, or if there were warnings.
"""

from __future__ import annotations

import functools
import json
import os
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pydispatch import extensions, files, logs
from pydispatch.compiler.target.default_cpus import default_cpus
from pydispatch.compiler.target.system_caches import caches_of_this_machine
from pydispatch.compiler.toolchain import cache, programs
from pydispatch.compiler.worker import llvm_process
from pydispatch.distributions import version
from pydispatch.errors import ArtifactError, CompileError
from pydispatch.formats.storage.cache import limit
from pydispatch.ir.core.long_literals import ElidedText, ProgramFile, elide_literals, read_small_program
from pydispatch.options import OPTIONS
from pydispatch.packages import importing

if TYPE_CHECKING:
    from pydispatch.formats.artifact.artifact import Artifact

LARGEST = 64 << 20
"""Maximum size in bytes of a source, and of an artifact, that is cached. Long hexadecimal literals do not count, since
the cache's entries do not repeat them."""

PACKAGES = ("llvmlite", "ml_dtypes", "numpy", "xdsl", "ziglang")
"""Packages whose versions may change an artifact."""

_KEY_VERSION = "program 4"
"""First part of each key; its number is raised when the parts of the key change."""

_KEY_OPTIONS = ("targets", "cpu", "object_search_path")
"""Options whose values, names or paths or lists of these, are part of the key."""


def compile(source: Any, **options: Any) -> Artifact:
    """Return the cached artifact of a program, or compile it by `pipeline.compile`.

    Raises the errors of `pipeline.compile`, and CompileError if the compiler cannot be imported.

    options: all arguments of `pipeline.compile`, also those with default values.
    """
    start = time.perf_counter()
    entry = _entry(source, options)
    if entry is None:
        logs.compiler.debug("the artifact is not kept: an option, a package or the cache's size excludes it")
        return _compile(source, options)
    artifact = entry.load()
    if artifact is not None:
        logs.compiler.info("read back an unchanged program in %.1f ms", 1e3 * (time.perf_counter() - start))
    else:
        with files.recording() as reads:  # files read, and paths where none was found, which the cache checks
            artifact = _compile(entry.source, options)
        entry.store(artifact, reads)
    return artifact


def _compile(source: Any, options: Mapping[str, Any]) -> Artifact:
    """Compile a program without the cache, and return the artifact.

    The process of LLVM is started first: it starts up while this process imports the compiler.
    """
    with importing("compiling", "compiler", CompileError):
        llvm_process.start()
        from pydispatch.ir.core.lazy_formats import formats_parsed_on_use

        with formats_parsed_on_use():
            from pydispatch.compiler.driver import pipeline
    return pipeline.compile(source, **options)


@dataclass(frozen=True)
class _Entry:
    """Entry of the cache of compiled programs for one source and its options: it loads or stores the artifact.

    `_entry` creates it. `load` is called first; if it returns None, the program is compiled from `source`, and `store`
    is called with the artifact.

    Attributes:
        key: Digest of everything that decides the artifact, except the files that are read for it.
        source: The source; a `ProgramFile` if its text has been read from a file.
        blobs: Bytes of the source's long hexadecimal literals, in the order of the text.
        start_ns: Time at which the compilation began, in nanoseconds since the epoch.
    """

    key: str
    source: Any
    blobs: tuple[bytes, ...]
    start_ns: int

    def load(self) -> Artifact | None:
        """Return the cached artifact; None if there is none, or if it is broken."""
        from pydispatch.formats.artifact.artifact import Artifact

        data = cache.load(self.key, cache.PROGRAMS)
        if data is None:
            return None
        # store() leaves out elements of constants that are literals of the source. The first line is JSON: name of the
        # constant's member -> index in `blobs` of its elements.
        head, _, file = data.partition(b"\n")
        with suppress(ArtifactError, ValueError, TypeError, AttributeError, IndexError):
            blocks = {member: self.blobs[index] for member, index in json.loads(head).items()}
            artifact = Artifact.from_bytes(file)
            return artifact.with_blocks(blocks) if blocks else artifact
        return None

    def store(self, artifact: Artifact, reads: files.Reads) -> None:
        """Cache an artifact, unless it has warnings, is too large, or depends on tools or files that the key does not
        cover. An artifact is not cached either if a file that was read for it changed during the compilation.
        """
        from pydispatch.compiler.backends.cpu.target import BACKEND
        from pydispatch.compiler.driver.sources import reader_of

        if isinstance(self.source, ProgramFile) and reader_of(Path(self.source)) is not None:
            return  # a model: what its frontend uses is not in the key
        # Backends other than the CPU's use tools that are not in the key.
        formats = {variant.format for executable in artifact.executables for variant in executable.variants}
        is_for_cpus = all(map(BACKEND.has_format, formats))
        # Constants whose elements are literals of the source are cached without them: load() has the source.
        blob_of_member: dict[str, int] = {}  # member of the artifact -> index in `blobs` of the elements that it lacks
        if self.blobs:
            artifact, blob_of_member = artifact.without_blocks(self.blobs)
        if artifact.warnings or artifact.size > LARGEST or not is_for_cpus:
            return
        if isinstance(self.source, ProgramFile):
            reads.existing.discard(os.fspath(self.source))  # its text is in the key
        with suppress(OSError):
            # A file that changed since the compilation began may have been read before or after the change.
            if all(_change_time_ns(path) < self.start_ns for path in reads.existing):
                data = json.dumps(blob_of_member).encode() + b"\n" + artifact.to_bytes()
                cache.store(self.key, data, reads.existing, reads.missed, cache.PROGRAMS)


def _entry(source: Any, options: Mapping[str, Any]) -> _Entry | None:
    """Return the cache entry of a compilation; None if its artifact is not cached.

    It is not cached if the key does not cover an option, if the processor is unknown, if there is no cache, if an
    installed package extends the compiler, or if the source is too large or cannot be read as text.

    Args:
        source: Argument of `compile`: text, a path, a kernel in Python, or another object (not cached).
        options: All options of `compile`.
    """
    start_ns, stated_options, processor = time.time_ns(), _options(options), _processor()
    if stated_options is None or processor is None:
        return None
    has_cache = limit() > 0 and cache.directory() is not None  # limit(): maximum size of the cache in bytes
    if not has_cache or extensions.has_installed_parts():
        return None
    with suppress(OSError, ValueError, TypeError):
        program = _program_of(source)
        if program is not None and len(program.text) <= LARGEST:
            # The key: the text with its long hexadecimal literals (`blobs`), and everything else that decides the
            # artifact: the kind of the source, the options, this machine and the versions of the tools.
            text = program.text
            blobs = text.blobs if isinstance(text, ElidedText) else {}
            machine = processor, caches_of_this_machine()
            stated = program.kind, program.name, program.path, str(Path.cwd()), stated_options, *machine, *_tools()
            key = cache.digest(_KEY_VERSION, text.encode(), [*blobs], *blobs.values(), *stated)
            return _Entry(key, program.source, tuple(blobs.values()), start_ns)
    return None


class _Program(NamedTuple):
    """Source of a compilation whose text has been read.

    Attributes:
        source: The source that is compiled: the text that was read, or a kernel in Python.
        text: MLIR text; an `ElidedText` has its long hexadecimal literals apart.
        kind: Name of the type of the argument. The locations in a `GeneratedText` are in the Python code that it was
            generated from; those in a plain str with the same characters are its own lines.
        name: Name of a kernel in Python; "" for other sources.
        path: Path of the file; None for other sources.
    """

    source: Any
    text: str
    kind: str
    name: str
    path: str | None


def _program_of(source: Any) -> _Program | None:
    """Read the text of a source: MLIR text, a path, or a kernel in Python.

    Return None for a file that is too large. Raises OSError, ValueError or TypeError for a source that has no text.
    """
    name, content = _named_text(source)
    kind = type(content).__name__
    is_text = isinstance(content, str) and "\n" in content  # text has a line break, a path has none
    if is_text:
        text = elide_literals(content)
        return _Program(source=source if name else text, text=text, kind=kind, name=name, path=None)
    path = os.fsdecode(content)
    file_text = read_small_program(path, LARGEST)
    if file_text is None:
        return None
    return _Program(source=ProgramFile(path, file_text), text=file_text, kind=kind, name=name, path=path)


def _named_text(source: Any) -> tuple[str, Any]:
    """Return the name and the MLIR text of a kernel in Python; for any other source, "" and the source itself."""
    if isinstance(source, (str, os.PathLike)):
        return "", source
    from pydispatch.kernels.kernel import KernelSource

    return (source.name, source.mlir()) if isinstance(source, KernelSource) else ("", source)


def _options(options: Mapping[str, Any]) -> list[object] | None:
    """Return the options that decide the artifact, as strings, lists and booleans for the key.

    Return None if an option has a value with which artifacts are not cached. The options of `_KEY_OPTIONS`,
    `cpu_features` and `reassociate` become part of the key. `progress` does not affect the artifact. Every other option
    must have its default.
    """
    others = dict(options)
    progress, reassociate, features = (others.pop(name) for name in ("progress", "reassociate", "cpu_features"))
    named = [_words(others.pop(name)) for name in _KEY_OPTIONS]
    named.append(list(default_cpus()))  # for `cpu` without a value
    is_known = (progress is None or callable(progress)) and type(reassociate) is bool and type(features) is str
    if not is_known or any(words is None for words in named):
        return None
    for name, value in others.items():
        default = OPTIONS[name].default if name in OPTIONS else None
        if type(value) is not type(default) or value != default:
            return None
    return [reassociate, features, *named]


def _words(value: object) -> list[str] | None:
    """Return the value of an option, a name or path or a list of them, as a list of strings; None for other types."""
    if value is None:
        return ["-"]  # the option was not stated, which differs from an empty list
    listed = value if isinstance(value, (list, tuple)) else [value]
    words = [os.fsdecode(item) for item in listed if isinstance(item, (str, os.PathLike))]
    return words if len(words) == len(listed) else None


def _tools() -> tuple[object, ...]:
    """Return what identifies the tools that write artifacts: the versions of Python, of this package and of its
    dependencies, path, size and modification time of clang and ld.lld, and whether PYDISPATCH_LLD is set.
    """
    return sys.version, _package(), _versions(), programs.state(), programs.lld_is_named()


@functools.cache
def _versions() -> list[str]:
    """Return the versions of the packages that artifacts depend on."""
    return [f"{name} {version(name)}" for name in PACKAGES]


@functools.cache
def _package() -> str:
    """Return a digest of the files of this package, by their sizes and modification times, so that edits change it."""
    import pydispatch
    from pydispatch import _core

    seen: list[tuple[str, int, int]] = []  # (path, size in bytes, time of modification in nanoseconds)
    folders = [*pydispatch.__path__, *_core.__path__]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if not entry.is_dir():
                    state = entry.stat()
                    seen.append((entry.path, state.st_size, state.st_mtime_ns))
                elif entry.name != "__pycache__":  # is written when modules are imported
                    folders.append(entry.path)
    return cache.digest(sorted(seen))


@functools.cache
def _processor() -> str | None:
    """Return the text of /proc/cpuinfo for one CPU, without values that vary from read to read or from CPU to CPU.

    The target CPU "native" depends on it. Return None if the system has no such file.
    """
    with suppress(OSError):
        text = Path("/proc/cpuinfo").read_bytes().partition(b"\n\n")[0].decode(errors="replace")
        varying = ("processor", "cpu MHz", "apicid", "initial apicid", "core id", "physical id", "bogomips", "BogoMIPS")
        lines = [line for line in text.splitlines() if not line.startswith(varying)]
        return "\n".join([os.uname().machine, *lines]) if lines else None
    return None


def _change_time_ns(path: str) -> int:
    """Return the latest time, in nanoseconds since the epoch, at which a file was modified or moved to its path."""
    state = Path(path).stat()
    return max(state.st_mtime_ns, state.st_ctime_ns)
