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
from pathlib import Path

from pydispatch.compiler.devlib import join, prebuilt
from pydispatch.compiler.devlib.symbols import SYMBOLS
from pydispatch.compiler.toolchain import cache, tools
from pydispatch.compiler.worker import llvm_process


def provided_symbols() -> frozenset[str]:
    """Return the names of all functions that the library defines. A table has them, so that nothing is compiled."""
    return frozenset(symbol for names in SYMBOLS.values() for symbol in names)


def inlinable_symbols() -> frozenset[str]:
    """Return the names of the functions that `bitcode` defines. The sources in `prebuilt.OBJECTS` are never inlined."""
    return frozenset(symbol for stem, names in SYMBOLS.items() if stem not in prebuilt.OBJECTS for symbol in names)


def compiler() -> str:
    """Return the version of the clang that compiled the library."""
    return prebuilt.compiler()


@functools.cache
def fingerprint() -> str:
    """Return a hash of all that the compiled library depends on: compiler, C sources, symbols, code that joins them."""
    symbols = [(stem, sorted(names)) for stem, names in SYMBOLS.items()]
    return cache.digest(prebuilt.compiler(), prebuilt.sources(), symbols, Path(join.__file__).read_bytes())


def objects(arch: str, cpu: str = "generic", features: Sequence[str] = ()) -> list[bytes]:
    """Return the whole library as ELF objects, one per source, for `Toolchain.link_shared(..., archives=...)`.

    The first call for an (arch, cpu, features) compiles for about 0.5 s. Later calls read the cache on disk (3 ms), or
    the memory of this process. The arguments are those of `bitcode`.

    Raises:
        ToolchainError: A tool is missing or fails.
        ValueError: The arch is unknown.
    """
    return list(_objects(arch, cpu, tuple(features)))


def bitcode(
    arch: str, cpu: str = "generic", features: Sequence[str] = (), symbols: Collection[str] | None = None
) -> bytes:
    """Return the inlinable functions as one bitcode module, to be linked into the module of a kernel.

    Link it before the optimization, and then make its functions `internal`. They carry no target attributes and thus
    inline into any caller, which must be compiled for at least the same cpu and features. A call must be by name
    (`call float @expf`), not by intrinsic, to be inlined.

    Args:
        arch: Architecture, one of `tools.ARCHES`.
        cpu: LLVM's name of the CPU; "generic" for the baseline of the architecture.
        features: Further CPU features, such as "+fma".
        symbols: The functions that the kernel calls: only the sources that define one of them are in the module. None
            stands for all functions.
    """
    inlinable = {stem: names for stem, names in SYMBOLS.items() if stem not in prebuilt.OBJECTS}
    stems = tuple(stem for stem, names in inlinable.items() if symbols is None or not names.isdisjoint(symbols))
    return _bitcode(arch, cpu, tuple(features), stems)


@functools.lru_cache(maxsize=32)
def _objects(arch: str, cpu: str, features: tuple[str, ...]) -> tuple[bytes, ...]:
    """Return the object file of each source of the library, in the order of `SYMBOLS` (source, its functions)."""
    if arch not in tools.ARCHES:
        raise ValueError(f"arch {arch!r}: expected one of {', '.join(tools.ARCHES)}")

    def compiled_object(stem: str) -> bytes:
        """Compile one source, without the cache."""
        module = prebuilt.module(stem, arch, cpu, features)
        is_object = stem in prebuilt.OBJECTS  # the other sources are bitcode
        return module if is_object else llvm_process.call(join.object_of, module, arch, cpu, features)

    def cached_object(stem: str) -> bytes:
        """Return the object file of one source from the cache, which compiles it on a miss."""
        return _cached(lambda: compiled_object(stem), "object", arch, cpu, features, stem)

    with ThreadPoolExecutor() as pool:
        return tuple(pool.map(cached_object, SYMBOLS))


@functools.lru_cache(maxsize=64)
def _bitcode(arch: str, cpu: str, features: tuple[str, ...], stems: tuple[str, ...]) -> bytes:
    """Return the sources `stems`, file names without suffix, of the library as one bitcode module."""

    def joined_module() -> bytes:
        """Compile the sources and join them, without the cache."""
        with ThreadPoolExecutor() as pool:
            modules = list(pool.map(lambda stem: prebuilt.module(stem, arch, cpu, features), stems))
        return llvm_process.call(join.joined, list(zip(stems, modules, strict=True)))

    return _cached(joined_module, "bitcode", arch, cpu, features, stems)


def _cached(compile_bytes: Callable[[], bytes], *key: object) -> bytes:
    """Return the bytes that the disk cache has for `key`; on a miss, call `compile_bytes` and cache its result.

    The sources of this library and the version of LLVM are added to the key.
    """
    digest = cache.digest("devlib", fingerprint(), llvm_process.version(), *key)
    data = cache.load(digest)
    if data is None:
        data = compile_bytes()
        cache.store(digest, data)
    return data
