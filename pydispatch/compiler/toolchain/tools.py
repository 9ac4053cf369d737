"""The C compiler and the linker for embedded ELF files.

A clang (17 or newer) and an ld.lld (14 or newer) on PATH come first; otherwise the ones inside the `ziglang` wheel are
used. `PYDISPATCH_CLANG` and `PYDISPATCH_LLD` name a tool outright. Compiled objects are kept in a content-addressed
cache, see `pydispatch.compiler.toolchain.cache`.

Floating point in user C follows clang's default, `-ffp-contract=on`: products and sums inside *one expression* fuse
where the target has fused multiply-add. Results are the same for every run of one variant, and may differ in the last
bit between variants (x86-64-v2 against v3). `-ffp-contract=off` in `extra_args` gives the same bits everywhere.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydispatch import files
from pydispatch.compiler.toolchain import cache
from pydispatch.errors import Error, SystemError_

MIN_CLANG = 17
MIN_LLD = 14
MAX_BITCODE_LLVM = 22  # llvmlite's LLVM; newer bitcode cannot be parsed

_CLANG = ("clang", "PYDISPATCH_CLANG", MIN_CLANG)
_LLD = ("ld.lld", "PYDISPATCH_LLD", MIN_LLD)
"""Name, the variable that names it outright, the oldest version."""

ARCHES = ("x86_64", "aarch64", "riscv64")
GPU_ARCHES = ("nvptx64",)
"""Architectures that C is compiled for as bitcode only; `cpu` is a name such as sm_75."""
_HEADERS_OF = {"nvptx64": "x86_64"}  # sizes and alignments of types are those of x86-64 Linux

_EMULATION = {"x86_64": "elf_x86_64", "aarch64": "aarch64linux", "riscv64": "elf64lriscv"}
_PAGE_SIZE = {"x86_64": 4096, "aarch64": 65536, "riscv64": 65536}  # the largest of any system, bytes
_GENERIC_CPU = {
    "x86_64": ["-march=x86-64"],
    "aarch64": ["-march=armv8-a"],
    "riscv64": ["-march=rv64gc", "-mabi=lp64d"],
}

# The linux triple, not a bare one: a freestanding compile marks every function "no-builtins", and LLVM refuses to
# inline such a function into ours. The price is that mem* and libm calls may appear; the device library provides them.
_CC_FLAGS = (
    "-g0", "-fPIC", "-fvisibility=hidden", "-ffunction-sections", "-fdata-sections",
    "-fno-stack-protector", "-fno-sanitize=all", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=on",
    "-fno-asynchronous-unwind-tables", "-fno-unwind-tables", "-fno-exceptions", "-fno-common", "-Qunused-arguments",
    "-fno-ident", "-fno-color-diagnostics", "-ftls-model=local-exec",
)  # fmt: skip

_LD_FLAGS = (
    "-shared", "-static", "-nostdlib", "--build-id=none", "--gc-sections", "-z", "now", "-z", "relro",
    "-z", "noexecstack", "-z", "noseparate-code", "--no-undefined",
    "--no-allow-shlib-undefined", "--discard-locals", "--icf=all", "--ignore-data-address-equality",
    "--ignore-function-address-equality", "--hash-style=sysv", "--strip-debug", "--no-color-diagnostics",
    "--error-limit=0", "--no-rosegment",
)  # fmt: skip


class ToolchainError(Error):
    """A tool is missing or failed.

    message: one line that states what failed. command: the argument list that ran (empty when no tool was found).
    stderr: the tool's diagnostics, unmodified (`file:line:col: error: ...` for C).
    """

    def __init__(self, message: str, command: Sequence[str] = (), stderr: str = "") -> None:
        self.message = message
        self.command = tuple(command)
        self.stderr = stderr
        super().__init__(f"{message}\n{stderr.rstrip()}" if stderr.strip() else message)


class UndefinedSymbolsError(ToolchainError):
    """A link that left symbols undefined. undefined: pairs (symbol, object that refers to it), sorted."""

    def __init__(self, undefined: Sequence[tuple[str, str]], command: Sequence[str], stderr: str) -> None:
        self.undefined = tuple(undefined)
        names = ", ".join(f"'{symbol}' (referenced by {where})" for symbol, where in self.undefined)
        super().__init__(f"link failed: undefined symbols: {names}", command, stderr)


@dataclass(frozen=True)
class Tool:
    """One executable: `argv` starts it, `version` is (major, minor, patch), `origin` states where it was configured or
    found."""

    argv: tuple[str, ...]
    version: tuple[int, int, int]
    origin: str
    isystem: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{'.'.join(map(str, self.version))} from {self.origin} ({self.argv[0]})"


class Toolchain:
    """A C compiler and a linker that were found once. Immutable, usable from any thread."""

    def __init__(self, clangs: Sequence[Tool], lld: Tool) -> None:
        self._clangs = tuple(clangs)
        self._lld = lld

    def describe(self) -> dict[str, str]:
        """What is used: keys `clang`, `clang (bitcode)`, `lld`, `cache`; each value names version, origin and path."""
        return {
            "clang": str(self._clang("obj")),
            "clang (bitcode)": str(self._clang("bc")),
            "lld": str(self._lld),
            "cache": str(cache.directory() or "none: no folder can be written"),
        }

    def fingerprint(self) -> str:
        """Versions, without paths: changes whenever the tools' output may. Artifacts state it as a producer."""
        versions = [self._clang(emit).version for emit in ("obj", "bc")] + [self._lld.version]
        return "clang {} bitcode {} lld {}".format(*(".".join(map(str, v)) for v in versions))

    def compile_c(
        self,
        source: Path | bytes,
        *,
        arch: str,
        cpu: str = "generic",
        features: Sequence[str] = (),
        emit: str = "obj",
        include_dirs: Sequence[Path | str] = (),
        defines: Sequence[str] = (),
        opt: str = "-O3",
        extra_args: Sequence[str] = (),
        language: str = "c",
    ) -> bytes:
        """Compiles C for a freestanding target: an ELF object (`emit="obj"`) or LLVM bitcode (`emit="bc"`).

        source: a file, or text in bytes (`<stdin>` in diagnostics). arch: one of ARCHES, or of GPU_ARCHES with
        `emit="bc"`. cpu: an LLVM CPU name or "generic"; "native" must be resolved by the caller. features: LLVM names
        with a sign, `+avx2`. defines: `NAME` or `NAME=VALUE`. language: "c" or "c++".
        The result depends only on the arguments, the files included and the compiler, and is cached by them.
        Raises ToolchainError with clang's diagnostics in `stderr`; ValueError for an unknown arch, emit or cpu.
        """
        _require(emit, ("bc",) if arch in GPU_ARCHES else ("obj", "bc"), "emit")
        clang = self._clang(emit)
        flags = _target_flags(arch, cpu, features)
        standard = "gnu11" if language == "c" else "gnu++17"
        flags += ["-O3" if opt == "" else opt, f"-std={standard}", *_CC_FLAGS]
        flags += [f"-D{define}" for define in defines]
        for folder in include_dirs:
            flags += ["-I", os.fspath(folder)]
        flags += list(extra_args)
        if emit == "bc":
            flags.append("-emit-llvm")
        is_text = isinstance(source, bytes)
        text, name = (source, "-") if isinstance(source, bytes) else (_read(source), str(source))
        key = cache.digest(clang.argv[0], clang.version, flags, name, text)
        cached = cache.load(key)
        if cached is not None:
            return cached
        with tempfile.TemporaryDirectory(prefix="pydispatch-") as scratch:
            output, deps = Path(scratch, "out"), Path(scratch, "deps")
            argv = [*clang.argv, *flags]
            for folder in clang.isystem:
                argv += ["-isystem", folder.replace("{arch}", _HEADERS_OF.get(arch, arch))]
            argv += ["-c", "-MD", "-MF", str(deps), "-MT", "out", "-o", str(output), "-x", language, name]
            done = subprocess.run(argv, input=text if is_text else b"", capture_output=True, check=False)
            if done.returncode != 0:
                shown = "<stdin>" if is_text else name
                raise ToolchainError(f"compiling {shown} for {arch} failed", argv, done.stderr.decode(errors="replace"))
            result = output.read_bytes()
            cache.store(key, result, _dependencies(deps, name, clang))
        return result

    def link_shared(
        self,
        objects: Sequence[bytes | Path],
        *,
        arch: str,
        exports: Sequence[str],
        archives: Sequence[bytes | Path] = (),
        extra_args: Sequence[str] = (),
        labels: Sequence[str] = (),
    ) -> bytes:
        """Links objects into an embedded ELF: a freestanding shared object that exports only `exports`.

        objects: ELF objects as bytes or files. archives: objects (or `.a` files) taken only where they define a symbol
        that is still missing, as from an archive; give the device library here. labels: what errors
        call the objects; "object0.o" and so on without. The file has DT_HASH, section headers,
        RELRO, no executable stack and no build id; the same input gives the same bytes. Not cached (a link takes
        about 10 ms). Raises UndefinedSymbolsError, or ToolchainError for any other failure, also for a missing export.
        """
        _require(arch, ARCHES, "arch")
        with tempfile.TemporaryDirectory(prefix="pydispatch-") as scratch:
            names: dict[str, str] = {}
            inputs = [_input(Path(scratch), f"object{i}.o", item, names) for i, item in enumerate(objects)]
            names.update(zip(inputs, labels, strict=False))
            lazy = [_input(Path(scratch), f"devlib{i}.o", item, names) for i, item in enumerate(archives)]
            output, script = Path(scratch, "out.so"), Path(scratch, "exports.ver")
            shown = "".join(f"    {_c_name(name)};\n" for name in exports)
            script.write_text(f"{{\n  global:\n{shown}  local: *;\n}};\n" if exports else "{ local: *; };\n")
            argv = [*self._lld.argv, "-m", _EMULATION[arch], *_LD_FLAGS, "-z", f"max-page-size={_PAGE_SIZE[arch]}"]
            argv += ["--version-script", str(script)]
            argv += [flag for name in exports for flag in ("--undefined", name)]
            argv += ["-o", str(output), *inputs, "--start-lib", *lazy, "--end-lib", *extra_args]
            environment = {**os.environ, "LLD_VERSION": "pydispatch"}
            done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, check=False, env=environment)
            if done.returncode != 0:
                raise _link_error(argv, done.stderr.decode(errors="replace"), names)
            return output.read_bytes()

    def _clang(self, emit: str) -> Tool:
        for tool in self._clangs:
            if emit == "obj" or tool.version[0] <= MAX_BITCODE_LLVM:
                return tool
        raise ToolchainError(
            f"clang {self._clangs[0]} writes bitcode newer than LLVM {MAX_BITCODE_LLVM} reads; "
            "install the bundled one: pip install ziglang"
        )


def find() -> Toolchain:
    """The toolchain of this process, looked up once. Raises ToolchainError that states what to install."""
    with _finding:
        return _found()


_finding = threading.Lock()


def _after_fork() -> None:
    global _finding
    _finding = threading.Lock()  # the thread that may have it is the parent's


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def start_finding() -> None:
    """Asks the tools for their versions while the caller does something else. Failures are reported by `find`."""

    def look() -> None:
        with contextlib.suppress(Exception):
            find()

    threading.Thread(target=look, daemon=True).start()


@functools.cache
def _found() -> Toolchain:
    zig = _zig()
    clangs = [tool for tool in (_on_path(*_CLANG),) if tool is not None]
    if zig is not None:
        clangs.append(_zig_clang(zig))
    lld = _on_path(*_LLD)
    if lld is None and zig is not None:
        lld = Tool((zig, "ld.lld"), _version([zig, "ld.lld", "--version"], r"LLD (\d+)\.(\d+)\.(\d+)"), "ziglang")
    missing = [f"clang >= {MIN_CLANG}"] * (not clangs) + [f"ld.lld >= {MIN_LLD}"] * (lld is None)
    if missing or lld is None:
        raise ToolchainError(f"no {' and no '.join(missing)} on PATH; install the bundled one: pip install ziglang")
    return Toolchain(clangs, lld)


def state() -> list[tuple[str, int, int]]:
    """Every program that `find` may choose, its size and the time of its last change: changes when the tools may,
    without running any."""
    zig = _zig()
    paths = [zig] if zig else []
    for name, variable, minimum in (_CLANG, _LLD):
        named = os.environ.get(variable)
        paths += [shutil.which(named) or named] if named else _installed(name, minimum)
    found = []
    for path in paths:
        with contextlib.suppress(OSError):
            status = Path(path).stat()
            found.append((path, status.st_size, max(status.st_mtime_ns, status.st_ctime_ns)))
    return found


def _zig() -> str | None:
    spec = importlib.util.find_spec("ziglang")
    if spec is None or not spec.submodule_search_locations:
        return None
    binary = Path(spec.submodule_search_locations[0], "zig.exe" if os.name == "nt" else "zig")
    return str(binary) if binary.exists() else None


def _zig_clang(zig: str) -> Tool:
    library = str(Path(zig).parent / "lib")
    # The bare driver has no headers: clang's own, then musl's, so that <math.h> and <string.h> work as usual.
    headers = ("include", "libc/include/{arch}-linux-musl", "libc/include/generic-musl")
    isystem = tuple(f"{library}/{folder}" for folder in headers)
    return Tool(
        (zig, "clang"), _version([zig, "clang", "--version"], r"version (\d+)\.(\d+)\.(\d+)"), "ziglang", isystem
    )


def _on_path(name: str, variable: str, minimum: int) -> Tool | None:
    """The tool that `variable` names, else `name`, or the newest `name-N`, on PATH; None when none is new enough."""
    pattern = r"(?:version|LLD) (\d+)\.(\d+)\.(\d+)"
    named = os.environ.get(variable)
    if named:
        version = _version([named, "--version"], pattern)
        if version[0] < minimum:
            raise ToolchainError(
                f"{variable}={named}: version {'.'.join(map(str, version))}, expected {minimum} or newer"
            )
        return Tool((named,), version, "environment")
    for path in _installed(name, minimum):
        try:
            version = _version([path, "--version"], pattern)
        except ToolchainError:
            continue  # something else of that name
        if version[0] >= minimum:
            return Tool((path,), version, "PATH")
    return None


def _installed(name: str, minimum: int) -> Iterator[str]:
    """The programs on PATH that may be a tool, in the order in which they are tried."""
    for candidate in (name, *(f"{name}-{major}" for major in range(MAX_BITCODE_LLVM, minimum - 1, -1))):
        path = shutil.which(candidate)
        if path is not None:
            yield path


def _version(argv: Sequence[str], pattern: str) -> tuple[int, int, int]:
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    except OSError as error:
        raise ToolchainError(f"cannot run {argv[0]}: {error.strerror}", argv) from error
    found = re.search(pattern, done.stdout)
    if found is None:
        raise ToolchainError(f"{argv[0]} does not tell its version", argv, done.stdout + done.stderr)
    return int(found[1]), int(found[2]), int(found[3])


def _target_flags(arch: str, cpu: str, features: Sequence[str]) -> list[str]:
    _require(arch, (*ARCHES, *GPU_ARCHES), "arch")
    if cpu == "native":
        raise ValueError("cpu 'native' must be resolved to a CPU name and features before compiling")
    flags = [f"--target={arch}-unknown-linux-musl", "-nostdlibinc"]
    if arch in GPU_ARCHES:
        flags = [f"--target={arch}-nvidia-cuda", "-nostdlibinc", f"-march={cpu}"]
    elif cpu in ("", "generic"):
        flags += _GENERIC_CPU[arch]
    elif arch == "x86_64":
        flags.append(f"-march={cpu}")
    else:
        flags.append(f"-mcpu={cpu}")
        flags += ["-mabi=lp64d"] if arch == "riscv64" else []
    for feature in features:
        if not re.fullmatch(r"[+-][A-Za-z0-9._-]+", feature):
            raise ValueError(f"feature {feature!r}: expected a sign and an LLVM feature name, such as '+avx2'")
        flags += ["-Xclang", "-target-feature", "-Xclang", feature]
    return flags + (["-mno-outline-atomics"] if arch == "aarch64" else [])


def _dependencies(deps: Path, name: str, clang: Tool) -> list[str]:
    """The included files, without the compiler's own, which are identified by its version."""
    text = deps.read_text(errors="replace").partition(":")[2].replace("\\\n", " ")
    files = [part.replace("\\ ", " ").replace("$$", "$") for part in re.findall(r"(?:\\ |\S)+", text)]
    own = str(Path(clang.argv[0]).parent / "lib") + os.sep if clang.isystem else None
    return [file for file in files if file not in (name, "-") and not (own and file.startswith(own))]


def _input(scratch: Path, name: str, item: bytes | Path, names: dict[str, str]) -> str:
    if isinstance(item, bytes):
        path = scratch / name
        path.write_bytes(item)
        names[str(path)] = name
        return str(path)
    return os.fspath(item)


def _link_error(argv: Sequence[str], stderr: str, names: dict[str, str]) -> ToolchainError:
    """lld prints `error: undefined symbol: NAME` and then `>>> referenced by FILE:(SECTION)` lines."""
    undefined: set[tuple[str, str]] = set()
    symbol = None
    for path, name in names.items():
        stderr = stderr.replace(path, name)
    for line in stderr.splitlines():
        head = re.search(r"error: undefined (?:hidden |protected )?symbol: (.+)", line)
        if head:
            symbol = head[1].strip()
            continue
        where = re.match(r">>>\s+(?:referenced by .*?|)(\S+\.(?:o|obj|a|bc|lo)\b[^:\s]*)", line)
        if where and symbol is not None:
            undefined.add((symbol, where[1]))
    if undefined:
        return UndefinedSymbolsError(sorted(undefined), argv, stderr)
    return ToolchainError("link failed", argv, stderr)


def _c_name(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z_.$][\w.$]*", name):
        raise ValueError(f"export {name!r}: expected a C identifier")
    return name


def _read(path: Path) -> bytes:
    try:
        return files.read(path)
    except SystemError_ as error:
        raise ToolchainError(f"C source: {error}") from None


def _require(value: str, allowed: Sequence[str], what: str) -> None:
    if value not in allowed:
        raise ValueError(f"{what} {value!r}: expected one of {', '.join(allowed)}")
