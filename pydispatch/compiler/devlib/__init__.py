"""The freestanding C library that every embedded ELF may use: mem*, libm in float and double, and the functions that
compilers call implicitly (half, bfloat16, 128-bit integers).

The C sources are in `csrc/`, and compiled in `library.tar.xz`: see `pydispatch.compiler.devlib.prebuilt`.
Two forms of the bitcode are cached: `bitcode` for functions worth inlining and vectorising in the caller (libm), and
`objects` for all functions, as archives for the linker. A kernel that was optimised with the bitcode may still need the
objects: LLVM makes new calls (`memset`, `__multi3`) as late as instruction selection.

Accuracy (`docs/math.md`): within 2 units in the last place, most within 1.2.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor

from pydispatch.compiler.devlib import prebuilt
from pydispatch.compiler.devlib.join import joined, object_of
from pydispatch.compiler.devlib.symbols import SYMBOLS
from pydispatch.compiler.toolchain import cache, tools
from pydispatch.compiler.worker import llvm_process


def provided_symbols() -> frozenset[str]:
    """Return every function that the library defines. Known without compiling."""
    return frozenset(symbol for names in SYMBOLS.values() for symbol in names)


def inlinable_symbols() -> frozenset[str]:
    """Return the functions that `bitcode` defines."""
    return frozenset(symbol for stem, names in SYMBOLS.items() if stem not in prebuilt.OBJECTS for symbol in names)


def compiler() -> str:
    """Return the version of the clang that compiled the library."""
    return prebuilt.compiler()


@functools.cache
def fingerprint() -> str:
    """Return a hash that changes with every input of the library."""
    names = [(stem, sorted(names)) for stem, names in SYMBOLS.items()]
    return cache.digest(prebuilt.compiler(), prebuilt.sources(), names)


def objects(arch: str, cpu: str = "generic", features: Sequence[str] = ()) -> list[bytes]:
    """Return the whole library as ELF objects, one per source, for `Toolchain.link_shared(..., archives=...)`.

    About 0.5 s for a new (arch, cpu, features), 3 ms from the cache, 0 when repeated in the same process. Raises
    ToolchainError, and ValueError for an unknown arch.
    """
    return list(_objects(arch, cpu, tuple(features)))


def bitcode(
    arch: str, cpu: str = "generic", features: Sequence[str] = (), symbols: Collection[str] | None = None
) -> bytes:
    """Return one LLVM module to link into a kernel's before optimising it; make what it defines `internal` afterwards.

    symbols: the functions that the kernel calls; only the sources that define these are in the module (None: all). The
    functions carry no target attributes and thus inline into any caller, which must be compiled for at least the same
    cpu and features. A call must be by name (`call float @expf`), not by intrinsic, to be inlined.
    """
    if symbols is None:
        stems = tuple(stem for stem in SYMBOLS if stem not in prebuilt.OBJECTS)
    else:
        stems = tuple(
            stem for stem, names in SYMBOLS.items() if stem not in prebuilt.OBJECTS and not names.isdisjoint(symbols)
        )
    return _bitcode(arch, cpu, tuple(features), stems)


@functools.lru_cache(maxsize=32)
def _objects(arch: str, cpu: str, features: tuple[str, ...]) -> tuple[bytes, ...]:
    """Return the object files of the library, prebuilt or compiled."""
    if arch not in tools.ARCHES:
        raise ValueError(f"arch {arch!r}: expected one of {', '.join(tools.ARCHES)}")

    def compiled(stem: str) -> bytes:
        """Return the object file of one source."""
        if stem in prebuilt.OBJECTS:
            return prebuilt.module(stem, arch, cpu, features)
        return llvm_process.call(object_of, prebuilt.module(stem, arch, cpu, features), arch, cpu, features)

    def missing(stem: str) -> bytes:
        return _kept(lambda: compiled(stem), "object", arch, cpu, features, stem)

    with ThreadPoolExecutor() as pool:
        return tuple(pool.map(missing, SYMBOLS))


@functools.lru_cache(maxsize=64)
def _bitcode(arch: str, cpu: str, features: tuple[str, ...], stems: tuple[str, ...]) -> bytes:
    """Return some modules of the library joined to one."""

    def compiled() -> bytes:
        with ThreadPoolExecutor() as pool:
            modules = list(pool.map(lambda stem: prebuilt.module(stem, arch, cpu, features), stems))
        return llvm_process.call(joined, list(zip(stems, modules, strict=True)))

    return _kept(compiled, "bitcode", arch, cpu, features, stems)


def _kept(make: Callable[[], bytes], *what: object) -> bytes:
    """Return the cached bytes of `make` for this library; on a miss, call it and cache its bytes."""
    key = cache.digest("devlib", fingerprint(), llvm_process.version(), *what)
    cached = cache.load(key)
    if cached is None:
        cached = make()
        cache.store(key, cached)
    return cached
