"""The freestanding C library that every embedded ELF may use: mem*, libm in float and double, and the functions that
compilers call unasked (half, bfloat16, 128-bit integers).

The C sources are in `csrc/`; they are compiled once per (arch, cpu, features) by the toolchain and cached. Two forms:
`bitcode` for what is worth inlining and vectorising in the caller (libm), `objects` for everything, to be given to the
linker as archives. A kernel that was optimised with the bitcode may still need the objects: LLVM makes new calls
(`memset`, `__multi3`) as late as instruction selection.

Accuracy (`docs/math.md`): within 2 units in the last place, most within 1.2.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pydispatch.compiler.devlib.join import joined
from pydispatch.compiler.devlib.symbols import SYMBOLS
from pydispatch.compiler.toolchain import cache, tools
from pydispatch.compiler.worker import llvm_process

SOURCE_DIR = Path(__file__).parent / "csrc"

# No vectorising inside the library itself: its loops are short, and the caller's loop is the one to vectorise.
# No builtins: a function body must not become a call of the function it implements (fmin, memset).
_FLAGS = ("-fno-builtin", "-ffp-contract=off", "-fno-vectorize", "-fno-slp-vectorize")
# Only called by generated code after optimisation, or too large to inline: bitcode of these would be of no use.
_OBJECT_ONLY = frozenset({"memory", "integer", "conversion"})

def provided_symbols() -> frozenset[str]:
    """Every function that the library defines. Known without compiling."""
    return frozenset(symbol for names in SYMBOLS.values() for symbol in names)


def inlinable_symbols() -> frozenset[str]:
    """The functions that `bitcode` defines."""
    return frozenset(symbol for stem, names in SYMBOLS.items() if stem not in _OBJECT_ONLY for symbol in names)


@functools.cache
def fingerprint() -> str:
    """Changes with whatever the library is compiled from."""
    sources = [path.read_bytes() for path in sorted(SOURCE_DIR.iterdir())]
    return cache.digest(tools.find().fingerprint(), [(stem, sorted(names)) for stem, names in SYMBOLS.items()], sources)


def objects(arch: str, cpu: str = "generic", features: Sequence[str] = ()) -> list[bytes]:
    """The whole library as ELF objects, one per source, for `Toolchain.link_shared(..., archives=...)`.

    About 0.5 s for a new (arch, cpu, features), 3 ms from the cache, 0 when repeated in the same process. Raises
    ToolchainError, and ValueError for an unknown arch.
    """
    return list(_objects(arch, cpu, tuple(features)))


def bitcode(
    arch: str, cpu: str = "generic", features: Sequence[str] = (), symbols: Collection[str] | None = None
) -> bytes:
    """One LLVM module to link into a kernel's before optimising it; make what it defines `internal` afterwards.

    symbols: the functions that the kernel calls; only the sources that define these are in the module (None: all). The
    functions carry no target attributes and thus inline into any caller, which must be compiled for at least the same
    cpu and features. A call must be by name (`call float @expf`), not by intrinsic, to be inlined.
    """
    if symbols is None:
        stems = tuple(stem for stem in SYMBOLS if stem not in _OBJECT_ONLY)
    else:
        stems = tuple(
            stem for stem, names in SYMBOLS.items() if stem not in _OBJECT_ONLY and not names.isdisjoint(symbols)
        )
    return _bitcode(arch, cpu, tuple(features), stems)


@functools.lru_cache(maxsize=32)
def _objects(arch: str, cpu: str, features: tuple[str, ...]) -> tuple[bytes, ...]:
    with ThreadPoolExecutor() as pool:
        return tuple(pool.map(lambda stem: _compile(stem, arch, cpu, features, "obj"), SYMBOLS))


@functools.lru_cache(maxsize=64)
def _bitcode(arch: str, cpu: str, features: tuple[str, ...], stems: tuple[str, ...]) -> bytes:
    with ThreadPoolExecutor() as pool:
        modules = list(pool.map(lambda stem: _compile(stem, arch, cpu, features, "bc"), stems))
    key = cache.digest("devlib bitcode 1", llvm_process.version(), modules)
    cached = cache.load(key)
    if cached is not None:
        return cached
    result = llvm_process.call(joined, list(zip(stems, modules, strict=True)))
    cache.store(key, result)
    return result


def _compile(stem: str, arch: str, cpu: str, features: tuple[str, ...], emit: str) -> bytes:
    return tools.find().compile_c(
        SOURCE_DIR / f"{stem}.c",
        arch=arch,
        cpu=cpu,
        features=features,
        emit=emit,
        opt="-O2",
        extra_args=_FLAGS,
    )
