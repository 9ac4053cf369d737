"""The programs that the compiler runs: clang, and ld.lld for what the linker of pydispatch leaves out.

A clang (17 or newer) and an ld.lld (15 or newer) on PATH are preferred to those of the `ziglang` wheel.
`PYDISPATCH_CLANG` and `PYDISPATCH_LLD` name a program. Versions are queried once, and cached until the files change.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydispatch import logs
from pydispatch.compiler.toolchain import cache
from pydispatch.errors import CompileError, Error, Location
from pydispatch.formats.storage.cache import first_writable

MIN_CLANG = 17
"""Oldest major version of clang that is used; an older one on PATH is skipped."""
MIN_LLD = 15  # the first that relaxes calls of RISC-V
MAX_BITCODE_LLVM = 22  # major version of llvmlite's LLVM, which cannot parse newer bitcode
INSTALL = "install the bundled one: pip install 'pydispatch[c]'"
"""Advice on how to get a C compiler, for messages that none was found."""

_CLANG = ("clang", "PYDISPATCH_CLANG", MIN_CLANG)
"""Name of the program, the environment variable that names another one, and the oldest major version that works."""
_LLD = ("ld.lld", "PYDISPATCH_LLD", MIN_LLD)
"""Name, environment variable and oldest major version of the linker."""
_ZIG_CACHE = "ZIG_GLOBAL_CACHE_DIR"
"""Environment variable with zig's cache directory, which zig cannot do without."""
_VERSION = r"(?:version|LLD) (\d+)\.(\d+)\.(\d+)"
"""Version in the output of --version: `clang version 18.1.3` or `LLD 18.1.3`."""


class ToolchainError(Error):
    """A tool is missing or failed.

    Attributes:
        message: One line that states what failed.
        command: The argument list that ran; empty if no tool was found.
        stderr: Diagnostics of the tool, unmodified (`file:line:col: error: ...` for C).
    """

    def __init__(self, message: str, command: Sequence[str] = (), stderr: str = "") -> None:
        """Describe the failure; str() of the error has the diagnostics after the message."""
        self.message = message
        self.command = tuple(command)
        self.stderr = stderr
        super().__init__(f"{message}\n{stderr.rstrip()}" if stderr.strip() else message)


def run_within(
    seconds: float, task: str, location: Location | None, command: Sequence[str], **options: Any
) -> subprocess.CompletedProcess[Any]:
    """Run a program of others with a time limit, and return its output and status.

    Args:
        seconds: The time limit.
        task: What the program does, for the message, such as "compiling k.cu".
        location: Location of the object that it works on.
        command: The program and its arguments.
        **options: Further arguments of `subprocess.run`, such as `cwd`.

    Raises:
        CompileError: The program cannot be run, or takes longer; it is ended then.
    """
    try:
        return subprocess.run(command, capture_output=True, timeout=seconds, check=False, **options)
    except subprocess.TimeoutExpired:
        raise CompileError(
            f"{task} took longer than {seconds:g} seconds: {Path(command[0]).name} was ended",
            location,
            "divide the object, or compile it elsewhere and give the result",
        ) from None
    except OSError as error:
        raise CompileError(
            f"{task}: {command[0]} cannot be run: {error.strerror}",
            location,
            "install the tool again, or compile the object elsewhere and give the result",
        ) from None


@dataclass(frozen=True)
class Tool:
    """Installed program that the compiler runs, such as clang or ld.lld.

    Attributes:
        argv: The command that starts it: the program, and its first arguments.
        version: (major, minor, patch).
        origin: Source of its path, for messages: "environment", "PATH" or "ziglang".
        isystem: Directories of system headers that the program does not know itself. "{arch}" in one stands for the
            target architecture.
    """

    argv: tuple[str, ...]
    version: tuple[int, int, int]
    origin: str
    isystem: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{'.'.join(map(str, self.version))} from {self.origin} ({self.argv[0]})"


def clangs() -> list[Tool]:
    """Return the available clang compilers, preferred ones first.

    Raises ToolchainError if a configured compiler cannot be used.
    """
    zig = _zig()
    return [*_on_path(*_CLANG), *([_zig_clang(zig)] if zig else [])]


def llds() -> list[Tool]:
    """Return the available ld.lld linkers, preferred ones first: those on PATH or configured, then ziglang's.

    Raises ToolchainError if a configured linker cannot be used.
    """
    zig = _zig()
    bundled = [Tool((zig, "ld.lld"), _version([zig, "ld.lld", "--version"]), "ziglang")] if zig else []
    return [*_on_path(*_LLD), *bundled]


def lld_is_named() -> bool:
    """Return whether PYDISPATCH_LLD names a linker, which then links instead of the linker of pydispatch."""
    return bool(os.environ.get(_LLD[1]))


def state() -> list[tuple[str, int, int]]:
    """Return (path, size in bytes, time of the last change in nanoseconds) of each clang and ld.lld that may be chosen.

    As a part of a cache key, the list invalidates what other tools have compiled. No program is run.
    """
    zig = _zig()
    paths = [zig] if zig else []
    for name, variable, minimum in (_CLANG, _LLD):
        named = os.environ.get(variable)
        paths += [shutil.which(named) or named] if named else _installed(name, minimum)
    states = []
    for path in paths:
        with contextlib.suppress(OSError):  # no such file: its use reports that
            states.append((path, *_status(path)))
    return states


def zig_cc() -> list[str]:
    """Return the command of the C compiler for this machine inside the ziglang wheel; run it with zig_environment().

    Raises ToolchainError when the wheel is not installed.
    """
    zig = _zig()
    if zig is None:
        raise ToolchainError(f"no C compiler for this machine: install gcc or clang, set CC, or {INSTALL}")
    return [zig, "cc"]


def zig_environment() -> dict[str, str]:
    """Return the environment variables for `zig cc`, with a cache directory that can be written: zig hangs without one.

    Raises ToolchainError when no directory can be written.
    """
    if os.name == "nt":  # zig finds a cache directory of the user on Windows
        return dict(os.environ)
    variables = {name: os.environ[name] for name in (_ZIG_CACHE, "XDG_CACHE_HOME", "HOME") if os.environ.get(name)}
    # Variable → folder below its value that zig uses for its cache, in the order in which zig looks for it.
    folders = {_ZIG_CACHE: "", "XDG_CACHE_HOME": "zig", "HOME": ".cache/zig"}
    chosen = next((Path(variables[name], folder) for name, folder in folders.items() if name in variables), None)
    cache_of_pydispatch = cache.directory()  # used if zig's choice cannot be written
    fallback = [cache_of_pydispatch / "zig"] if cache_of_pydispatch else []
    directory = first_writable([*([chosen] if chosen else []), *fallback])
    if directory is None:
        raise ToolchainError(f"zig needs a cache directory, and none can be written: set {_ZIG_CACHE}")
    return {**os.environ, _ZIG_CACHE: str(directory)}


def _zig() -> str | None:
    """Return the path of the zig program in the ziglang package; None if the package is missing."""
    spec = importlib.util.find_spec("ziglang")
    if spec is None or not spec.submodule_search_locations:
        return None
    binary = Path(spec.submodule_search_locations[0], "zig.exe" if os.name == "nt" else "zig")
    return str(binary) if binary.exists() else None


def _zig_clang(zig: str) -> Tool:
    """Return the clang inside of zig, with the folders of its C headers."""
    library = str(Path(zig).parent / "lib")
    # The bare driver has no headers: clang's own, then musl's, so that <math.h> and <string.h> work as usual.
    headers = ("include", "libc/include/{arch}-linux-musl", "libc/include/generic-musl")
    isystem = tuple(f"{library}/{folder}" for folder in headers)
    return Tool((zig, "clang"), _version([zig, "clang", "--version"]), "ziglang", isystem)


def _on_path(name: str, variable: str, minimum: int) -> list[Tool]:
    """Return a list of one tool: the program that the environment variable `variable` names, else `name` or the newest
    `name-N` on PATH, such as clang-19. It is empty if none is of the major version `minimum` or newer.

    Raises ToolchainError if the named program cannot be used.
    """
    named = os.environ.get(variable)
    if named:
        version = _version([named, "--version"])
        if version[0] < minimum:
            raise ToolchainError(
                f"{variable}={named}: version {'.'.join(map(str, version))}, expected {minimum} or newer"
            )
        return [Tool((named,), version, "environment")]
    for path in _installed(name, minimum):
        try:
            version = _version([path, "--version"])
        except ToolchainError:
            continue  # another program of that name
        if version[0] >= minimum:
            return [Tool((path,), version, "PATH")]
        logs.compiler.info("%s is not used: version %d.%d.%d, %d or newer is needed", path, *version, minimum)
    return []


def _installed(name: str, minimum: int) -> Iterator[str]:
    """Yield the paths of the programs on PATH that may be the tool, in the order in which they are tried: `name`, then
    `name-N` from the newest version to `minimum`."""
    for candidate in (name, *(f"{name}-{major}" for major in range(MAX_BITCODE_LLVM, minimum - 1, -1))):
        path = shutil.which(candidate)
        if path is not None:
            yield path


def _version(argv: Sequence[str]) -> tuple[int, int, int]:
    """Run a command such as [path, "--version"], and return the version that it prints; cached until the program
    changes. Raises ToolchainError if it cannot be run or prints none."""
    try:
        key = cache.digest("version", list(argv), _status(argv[0]))
        cached = cache.load(key)
        if cached is None:
            process = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
            match = re.search(_VERSION, process.stdout)
            if match is None:
                raise ToolchainError(f"{argv[0]} does not tell its version", argv, process.stdout + process.stderr)
            cached = " ".join(match.groups()).encode()
            cache.store(key, cached)
    except OSError as error:
        raise ToolchainError(f"cannot run {argv[0]}: {error.strerror}", argv) from error
    major, minor, patch = map(int, cached.split())
    return major, minor, patch


def _status(path: str) -> tuple[int, int]:
    """Return the size in bytes of a program and the time of its last change in nanoseconds.

    The key of its cached version contains them, so that a new program is asked for its version.
    """
    # The time of the last change of the inode shows a file that was replaced by an older one.
    status = Path(shutil.which(path) or path).stat()
    return status.st_size, max(status.st_mtime_ns, status.st_ctime_ns)


def prerequisites(rule: str) -> list[str]:
    r"""Return the file names after the colon of a make rule, such as compilers write for `-MD`.

    In `out: a.c my\ dir/b.h \NEWLINE c.h` a backslash quotes a blank or #, or continues the line; $$ is a dollar sign.
    """
    text = rule.partition(":")[2].replace("\\\n", " ")
    return [re.sub(r"\\([ #])", r"\1", name).replace("$$", "$") for name in re.findall(r"(?:\\[ #]|\S)+", text)]
