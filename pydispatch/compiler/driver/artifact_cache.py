"""Cache of artifacts: a program that is compiled again is loaded, before the compiler is imported.

The key covers everything that an artifact depends on: the source, which for a kernel in Python is its MLIR text, its
path and the working directory, the options, the files of this package, the versions of its dependencies, the C compiler
and linker, and this machine's CPU and caches.
An entry is valid while the files that were read for it are unchanged, and files that were not found are still missing.

There is no caching with options that print or run Python code, with extensions of other packages, for targets whose
tools are not in the key, or if there were warnings.
"""

from __future__ import annotations

import functools
import os
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydispatch import extensions, files, logs
from pydispatch.compiler.target.default_cpus import default_cpus
from pydispatch.compiler.target.system_caches import caches_of_this_machine
from pydispatch.compiler.toolchain import cache, programs
from pydispatch.compiler.worker import llvm_process
from pydispatch.distributions import version
from pydispatch.errors import ArtifactError, CompileError
from pydispatch.formats.storage import whole_file
from pydispatch.formats.storage.cache import limit
from pydispatch.options import OPTIONS
from pydispatch.packages import importing

if TYPE_CHECKING:
    from pydispatch.formats.artifact.artifact import Artifact

LARGEST = 64 << 20
"""Maximum size in bytes of a source, and of an artifact, that is cached."""

USES = ("llvmlite", "ml_dtypes", "numpy", "xdsl", "ziglang")
"""Packages whose versions may change an artifact."""

_KEY_VERSION = "program 3"
"""First part of each key; its number is raised when the parts of the key change."""

_NAMED = ("targets", "cpu", "object_search_path")
"""Options in the key, beside `cpu_features` and `reassociate`. Others must have their defaults."""


def compile(source: Any, **options: Any) -> Artifact:
    """Return the cached artifact of a program, or compile it by `pipeline.compile`.

    Raises the errors of `pipeline.compile`, and CompileError if the compiler cannot be imported.

    options: the arguments of `pipeline.compile`, with none left out.
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
        with files.recording() as reads:
            artifact = _compile(source, options)
        entry.store(artifact, reads)
    return artifact


def _compile(source: Any, options: Mapping[str, Any]) -> Artifact:
    """Compile a program without the cache; LLVM's process starts while the compiler is imported."""
    with importing("compiling", "compiler", CompileError):
        llvm_process.start()
        from pydispatch.ir.core.lazy_formats import formats_parsed_on_use

        with formats_parsed_on_use():
            from pydispatch.compiler.driver import pipeline
    return pipeline.compile(source, **options)


@dataclass(frozen=True)
class _Entry:
    """Entry of the cache for one compilation.

    Attributes:
        key: Digest of everything that decides the artifact, except the files that are read for it.
        path: Path of the source; None if it is text.
        start: Time at which the compilation began, in nanoseconds since the epoch.
    """

    key: str
    path: str | None
    start: int

    def load(self) -> Artifact | None:
        """Return the cached artifact; None if there is none, or if it is broken."""
        from pydispatch.formats.artifact.artifact import Artifact

        data = cache.load(self.key, cache.PROGRAMS)
        with suppress(ArtifactError):
            return None if data is None else Artifact.from_bytes(data)
        return None

    def store(self, artifact: Artifact, reads: files.Reads) -> None:
        """Cache an artifact, unless it has warnings, is too large, or depends on tools or files that the key does not
        cover. An artifact is not cached either if a file that was read for it changed during the compilation.
        """
        from pydispatch.compiler.backends.cpu.target import BACKEND
        from pydispatch.compiler.driver.sources import reader_of

        if self.path is not None and reader_of(Path(self.path)) is not None:
            return  # a model: what its frontend uses is not in the key
        # Backends other than the CPU's use tools that are not in the key.
        formats = {variant.format for executable in artifact.executables for variant in executable.variants}
        if artifact.warnings or artifact.size > LARGEST or not all(map(BACKEND.has_format, formats)):
            return
        with suppress(OSError):
            if all(_change_time_ns(path) < self.start for path in reads.found):
                cache.store(self.key, artifact.to_bytes(), reads.found, reads.missed, cache.PROGRAMS)


def _entry(source: Any, options: Mapping[str, Any]) -> _Entry | None:
    """Return the cache entry of a compilation; None if it must not be cached."""
    start, stated_options, processor = time.time_ns(), _options(options), _processor()
    if stated_options is None or processor is None or not (limit() and cache.directory()) or extensions.others():
        return None
    with suppress(OSError, ValueError, TypeError):
        name, source = _named_text(source)
        if isinstance(source, str) and "\n" in source:
            path, text = None, source.encode() if len(source) <= LARGEST else None
        else:
            path = os.fsdecode(source)
            text = whole_file.read(Path(path), LARGEST)
        if text is not None:
            source_type = type(source).__name__  # text of a str subclass states other locations than its own
            machine = processor, caches_of_this_machine()
            everything = text, source_type, name, path, str(Path.cwd()), stated_options, *machine, *_tools()
            return _Entry(cache.digest(_KEY_VERSION, *everything), path, start)
    return None


def _named_text(source: Any) -> tuple[str, Any]:
    """Return the name and the MLIR text of a kernel in Python; "" and any other source as it is."""
    if isinstance(source, (str, os.PathLike)):
        return "", source
    from pydispatch.kernels.kernel import KernelSource

    return (source.name, source.mlir()) if isinstance(source, KernelSource) else ("", source)


def _options(options: Mapping[str, Any]) -> list[object] | None:
    """Return the options that decide the artifact, as strings, lists and booleans for the key.

    Return None if an option has a value with which artifacts are not cached: any but those in `_NAMED`, `cpu_features`,
    `reassociate` and `progress` must have its default.
    """
    rest = dict(options)
    progress, reassociate, features = rest.pop("progress"), rest.pop("reassociate"), rest.pop("cpu_features")
    named = [_words(rest.pop(name)) for name in _NAMED]
    named.append(list(default_cpus()))
    is_known = (progress is None or callable(progress)) and type(reassociate) is bool and type(features) is str
    if not is_known or any(words is None for words in named):
        return None
    for name, value in rest.items():
        default = OPTIONS[name].default if name in OPTIONS else None
        if type(value) is not type(default) or value != default:
            return None
    return [reassociate, features, *named]


def _words(value: object) -> list[str] | None:
    """Return a name or path, or a list of them, as a list of strings; ["-"] for None; None for any other value."""
    if value is None:
        return ["-"]
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
    return [f"{name} {version(name)}" for name in USES]


@functools.cache
def _package() -> str:
    """Return a digest of the files of this package, by their sizes and modification times, so that edits change it."""
    import pydispatch
    from pydispatch import _core

    seen: list[tuple[str, int, int]] = []
    folders = [*pydispatch.__path__, *_core.__path__]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if not entry.is_dir():
                    state = entry.stat()
                    seen.append((entry.path, state.st_size, state.st_mtime_ns))
                elif entry.name != "__pycache__":
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
    """Return the latest time, in nanoseconds, at which a file was modified or moved to its path."""
    state = Path(path).stat()
    return max(state.st_mtime_ns, state.st_ctime_ns)
