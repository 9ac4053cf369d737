"""The bitcode of each source of the device library: from `library.tar.xz`, or compiled by clang.

The archive is in the repository and in wheels, so that generated code compiles without clang. `make device-library`
rebuilds it after a change to `csrc/`; the same sources and the same clang give the same members. It is used only while
its digest is that of the sources.
"""

from __future__ import annotations

import functools
import io
import tarfile
from collections.abc import Iterable, Set
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path

from pydispatch.compiler.devlib.symbols import SYMBOLS
from pydispatch.compiler.kernel_ir.kernel import ARCHITECTURES, Target
from pydispatch.compiler.target.cpu import machine_of
from pydispatch.compiler.toolchain import cache, tools
from pydispatch.errors import CompileError
from pydispatch.formats.storage import whole_file

SOURCES = Path(__file__).parent / "csrc"
"""Folder of the C sources of the library."""
FILE = Path(__file__).parent / "library.tar.xz"
"""Archive of the compiled bitcode, which needs no clang to be read."""

# No vectorising inside the library itself: its loops are short, and the caller's loop is the one to vectorise.
# No builtins: a function body must not become a call of the function it implements (fmin, memset).
_FLAGS = ("-fno-builtin", "-ffp-contract=off", "-fno-vectorize", "-fno-slp-vectorize")

OBJECTS = frozenset({"memory", "integer", "conversion"})
"""Sources that are compiled to object files; the others are bitcode. Their functions are too large to inline, or called
by generated code after optimisation only."""

LEVELS: dict[str, tuple[str, tuple[str, ...]]] = {
    "x86_64 avx512f": ("x86_64", ("+avx512f", "+fma", "+sse4.1")),
    "x86_64 fma": ("x86_64", ("+fma", "+sse4.1")),
    "x86_64 sse4.1": ("x86_64", ("+sse4.1",)),
    "x86_64": ("x86_64", ()),
    "aarch64": ("aarch64", ()),
    "riscv64 zfa unaligned": ("riscv64", ("+zfa", "+unaligned-scalar-mem")),
    "riscv64 zfa": ("riscv64", ("+zfa",)),
    "riscv64 unaligned": ("riscv64", ("+unaligned-scalar-mem",)),
    "riscv64": ("riscv64", ()),
    "nvptx64": ("nvptx64", ("+ptx60",)),
}
"""Name -> architecture and features to compile for. The sources test no other features (`#if`), and `join.py` removes
attributes that name a machine. Bitcode of the first level whose features a machine has thus equals bitcode compiled for
that machine."""


def level_of(arch: str, cpu: str, features: Iterable[str]) -> str | None:
    """Return the name in LEVELS of the first level all of whose features a machine has.

    A level is a set of CPU features for which this package has precompiled bitcode of the device library, such as
    "x86_64 fma". Each architecture lists its levels from the one with the most features on.
    Return None for a CPU that is not in this package's table of machines; clang may know it.

    features: LLVM features with signs, such as "+avx2", in addition to those of `cpu`.
    """
    if arch == "nvptx64":
        return arch
    name_in_targets = next((name for name, known in ARCHITECTURES.items() if known == arch), arch)
    cpu = "generic" if cpu == "x86-64" else cpu  # LLVM's name of the baseline
    target = Target("llvm-cpu", f"embedded-elf-{name_in_targets}", cpu, tuple(features))
    try:
        has = {f"+{feature}" for feature in machine_of(target).has}
    except CompileError:
        return None
    # The last level of each architecture needs nothing.
    return next(name for name, (level_arch, needs) in LEVELS.items() if level_arch == arch and has.issuperset(needs))


def module(stem: str, arch: str, cpu: str, features: tuple[str, ...]) -> bytes:
    """Return one source as bitcode, or as an object if it is one of OBJECTS. Raises ToolchainError, ValueError for an
    unknown arch.

    stem: file name of the source without ".c".
    """
    # The level whose bitcode suits the machine; None if the archive was built from other sources, or for a CPU that
    # only clang knows: clang then compiles the source.
    level = level_of(arch, cpu, features) if _library() else None
    return _library()[f"{level}/{stem}"] if level else _compiled(stem, arch, cpu, features)


def sources() -> str:
    """Return a digest of the C sources, the headers and the flags that the library is compiled with."""
    return cache.digest([(path.name, path.read_bytes()) for path in sorted(SOURCES.iterdir())], _FLAGS)


def compiler() -> str:
    """Return the version of the clang that compiled the bitcode: of the archive, or of the one that would be run."""
    return _labels().get("compiler", b"").decode() or tools.find().fingerprint()


@functools.cache
def _library() -> dict[str, bytes]:
    """Return the bytes of the archive's members by name; empty if it was built from other sources, or is missing."""
    return members(FILE) if _labels() else {}


@functools.cache
def _labels() -> dict[str, bytes]:
    """Return the members `compiler` and `sources` of the archive by name.

    Return an empty dict if the archive is missing or was built from other sources. The two are its first members, so
    that the others, which take 12 ms, are not decompressed.
    """
    labels = members(FILE, frozenset({"compiler", "sources"})) if FILE.exists() else {}
    return labels if labels and labels["sources"].decode() == sources() else {}


def members(path: Path, names: Set[str] | None = None) -> dict[str, bytes]:
    """Return members of an archive by name: modules as `LEVEL/SOURCE`, `sources` (their digest) and `compiler`.

    A file that is not regular, or larger than 64 MiB, has none. names: the members that are read; None for all.
    """
    data = whole_file.read(path, limit=1 << 26)
    if data is None:
        return {}
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:xz") as archive:
        chosen = (entry for entry in archive if names is None or entry.name in names)
        read = islice(chosen, None if names is None else len(names))  # decompresses up to the last of them
        return {entry.name: file.read() for entry in read if (file := archive.extractfile(entry)) is not None}


def _compiled(stem: str, arch: str, cpu: str, features: tuple[str, ...]) -> bytes:
    """Compile a source of the library to an object file or to bitcode."""
    emit = "obj" if stem in OBJECTS else "bc"
    text = (SOURCES / f"{stem}.c").read_bytes()  # not its path, which would be in the bitcode
    return tools.find().compile_c(
        text, arch=arch, cpu=cpu, features=features, emit=emit, opt="-O2", include_dirs=[SOURCES], extra_args=_FLAGS
    )


def write(path: Path = FILE) -> None:
    """Compile all sources for all levels into the archive `path`. Raises ToolchainError."""

    def compiled_member(level: str, stem: str) -> tuple[str, bytes]:
        """Return the name of a member of the archive, and the bitcode of a source for a level."""
        arch, features = LEVELS[level]
        return f"{level}/{stem}", _compiled(stem, arch, "sm_70" if arch == "nvptx64" else "generic", features)

    # GPUs have no object files: their code is compiled from the inlined bitcode alone.
    names = [(level, stem) for level in LEVELS for stem in SYMBOLS if level != "nvptx64" or stem not in OBJECTS]
    with ThreadPoolExecutor() as pool:
        archived = dict(pool.map(lambda member: compiled_member(*member), names))
    # What the bitcode was compiled from and by, so that readers notice an archive that is out of date.
    archived |= {"sources": sources().encode(), "compiler": tools.find().fingerprint().encode()}
    with tarfile.open(path, "w:xz", preset=9) as archive:
        # Sorted by source, then level: xz compresses similar neighbours best.
        for name in sorted(archived, key=lambda name: name.partition("/")[::-1]):
            entry = tarfile.TarInfo(name)
            entry.size = len(archived[name])
            archive.addfile(entry, io.BytesIO(archived[name]))
