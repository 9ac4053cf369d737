"""CPU device: programs in embedded ELFs run on a scheduler of threads."""

from __future__ import annotations

import os
import weakref
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydispatch._core import elf, sched
from pydispatch._core.linking import Machine
from pydispatch._core.memory import Pool
from pydispatch._core.process_lock import process_lock
from pydispatch._core.sched import Scheduler
from pydispatch.errors import DeviceUnavailableError, InvalidArgumentError
from pydispatch.runtime.buffer import HostMemory, MakesBuffers
from pydispatch.runtime.interface import Device
from pydispatch.runtime.options import byte_count, check_options, flag, whole_number
from pydispatch.runtime.program.derived import Sharing
from pydispatch.runtime.program.linker import ChainOptions, CpuLinker
from pydispatch.runtime.program.loader import load
from pydispatch.runtime.program.program import Program, remember
from pydispatch.runtime.program.source import open_artifact, with_plain_path
from pydispatch.runtime.program.variants import DeviceProperties

if TYPE_CHECKING:
    from pydispatch._core.plugin import Plugin
    from pydispatch.formats.artifact.artifact import Artifact
    from pydispatch.runtime.program.imports import Provider, Registry

MAX_WORKERS = 1024
"""Largest value of the device option `workers`, as many threads as a scheduler of the C core supports."""
RETAIN_BYTES = 256 << 20
"""Most bytes of free blocks that a pool retains for later calls; blocks beyond are returned to the allocator."""
CACHE_BYTES = 1 << 20
"""Size that is assumed of the second-level cache of a CPU that does not state it."""
TILES_PER_WORKER = 4
"""Minimum number of tiles for each worker in a chain (dispatches that depend on each other tile by tile). A smaller
minimum lets workers wait for each other at the end of a chain; with a larger one fewer dispatches can form a chain.
"""
WITHOUT_CHAINS = ChainOptions(cache_bytes=0, least_tiles=0)
"""Options that run one dispatch after the other."""
_FORMATS = {"aarch64": "arm_64", "riscv64": "riscv_64"}  # IREE's spelling of the architectures


class SharedScheduler:
    """A scheduler and a memory pool, shared by all devices of equal options.

    Attributes:
        sched: Threads that run the dispatches.
        pool: Memory of results and transients (intermediate buffers).
        sharing: Derived constants (such as packed weights), which programs on the same threads share.
    """

    def __init__(self, sched: Scheduler, allocator: int = 0, limit: int = 0) -> None:
        """Create a memory pool, without blocks, for the scheduler.

        sched: the scheduler. allocator: address of a `pyd_allocator_t` that supplies the pool's memory; 0 for the
        system's. limit: maximum bytes of the pool; 0 for no limit.
        """
        self.sched = sched
        self.pool = Pool(RETAIN_BYTES, allocator, limit)
        self.sharing = Sharing()


_open: weakref.WeakValueDictionary[tuple[int, bool, int], SharedScheduler] = weakref.WeakValueDictionary()
"""(workers, affinity, memory limit in bytes) → scheduler and memory of the open devices with these options."""
_opening = process_lock()  # guards `_open`, and the registries of new devices


class CpuDevice(MakesBuffers, Device):
    """The CPUs that this process may use.

    `load` links a program for them, with the plugins, imports and executables that were added to the device before.
    These belong to one device. Threads and memory are shared by all devices with the same options.
    """

    def __init__(self, name: str, threads: SharedScheduler, chains: bool = True) -> None:
        """Create a device.

        Args:
            name: Its name, with options.
            threads: Its threads and memory.
            chains: Whether chains (dispatches that depend on each other tile by tile) run tile by tile, so that tiles
                stay in the cache.
        """
        self.name = self.spec = name
        self._threads = threads
        self._sched, self._pool = threads.sched, threads.pool
        self._host = host(self._sched.workers)  # properties by which variants are chosen
        self._machine = _machine(self._host.format)  # description of the CPU for the linker in C
        self._chain_options = _chain_options(self._sched.workers) if chains else WITHOUT_CHAINS
        self._registry: Registry | None = None  # None before the first plugin, import, command or executable

    @property
    def workers(self) -> int:
        return int(self._sched.workers)

    def load(
        self,
        source: str | os.PathLike[str] | Artifact | bytes | bytearray | memoryview,
        parameters: Mapping[str, Any] | None = None,
    ) -> Program:
        """Load a program from an artifact, or its path or bytes.

        parameters: files or arrays with the constants that are not in the artifact, by scope.
        """
        source = with_plain_path(source)
        file = open_artifact(source)
        linker = CpuLinker(self._host.processor_data, self._registry, self._chain_options, self._machine)
        module = load(
            file, self._host, self._sched, self._pool, linker, parameters=parameters, sharing=self._threads.sharing,
            link_directly=linker.link_directly,
        )  # fmt: skip
        program = Program(module, file.name, linker.imports)
        if self._registry is None:  # only a program without plugins and imports can be loaded again by unpickling
            remember(program, self.spec, source, parameters)
        return program

    def add_plugin(
        self, plugin: str | os.PathLike[str] | bytes | Plugin, /, *, priority: int = 0, **params: object
    ) -> Provider:
        return self._providers().add_plugin(plugin, priority, params)

    def add_import(self, name: str, function: object, context: object = None, *, priority: int = 0) -> Provider:
        return self._providers().add_import(name, function, context, priority)

    def add_command(
        self, name: str, function: object, context: object = None, *, priority: int = 0, synchronous: bool = True
    ) -> Provider:
        # `synchronous` is not needed: on the CPU all commands are synchronous.
        return self._providers().add_command(name, function, context, priority)

    def add_executable(self, name: str, code: str | os.PathLike[str] | bytes) -> None:
        """Supply the library of an executable that programs declare without code.

        code: path or bytes of an embedded ELF or .sos, or the path of a shared library for the system's loader.
        """
        if not isinstance(name, str) or not name:
            raise InvalidArgumentError(f"add_executable: expected the name of an executable, got {name!r}")
        from pydispatch.runtime.program.imports import open_code

        self._providers().executables[name] = open_code(name, code)

    def remove_plugin(self, provider: Provider) -> None:
        self._providers().remove(provider)

    def _providers(self) -> Registry:
        """Return the registry of plugins, imports and executables, created on first use."""
        from pydispatch.runtime.program.imports import Registry

        with _opening:  # threads that register at once on a new device share one
            if self._registry is None:
                self._registry = Registry()
            return self._registry

    def _allocate_memory(self, nbytes: int) -> HostMemory:
        """Return host memory of `nbytes` bytes for a buffer of this device."""
        return HostMemory(self.name, nbytes)

    def memory(self) -> dict[str, int]:
        return dict(self._pool.stats())

    def trim(self) -> None:
        self._pool.trim()

    def describe(self) -> Mapping[str, Any]:
        """Return the properties of the CPU: workers, executable format, features, cache sizes in bytes, model.

        "level" is the highest x86-64 psABI level whose features it has, or "generic".
        """
        l1, l2 = _cache_sizes()
        return {
            "name": self.name,
            "workers": self.workers,
            "format": self._host.format,
            "level": level(self._host.features),
            "features": sorted(self._host.features),
            "cache": {"l1 data": l1, "l2": l2},
            "model": _model(),
        }

    def close(self) -> None:
        self._sched.close()

    def __enter__(self) -> CpuDevice:
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<pydispatch device {self.name!r}, {self.workers} workers>"


def available() -> list[str]:
    """Return the one CPU device."""
    return ["cpu"]


def open(name: str, options: Mapping[str, str]) -> CpuDevice:
    """Open the CPU.

    name: "cpu", or "local-task" or "local-sync" as in IREE; the last is the CPU with one worker. options: text of each
    stated option, by its name.

    Raise DeviceUnavailableError for an index other than 0, and InvalidArgumentError for a wrong option.

    Options:
    - workers: 1 to 1024 threads; by default one for each fast core.
    - affinity: 0 or 1, whether each thread stays on one CPU.
    - chains: 0 or 1, whether dispatches that depend on each other tile by tile run tile by tile; 1 by default.
    - checks: 0 or 1, whether kernels in Python that are called with buffers of the device check their indices.
    - memory: bytes such as 512MiB, the limit for results and transients of the device.
    """
    scheme, _, index = name.partition(":")
    if index not in ("", "0", "//"):  # "//" is IREE's spelling of the default device: "local-task://"
        raise DeviceUnavailableError(f"there is no device '{name}'; this machine has: cpu")
    check_options(scheme, options, ("workers", "affinity", "chains", "checks", "memory"))
    affinity, chains = flag(scheme, options, "affinity"), flag(scheme, {"chains": "1", **options}, "chains")
    workers_option = options.get("workers", "1" if scheme == "local-sync" else None)
    if workers_option is not None:
        workers = whole_number(
            scheme, "workers", workers_option, 1, MAX_WORKERS, "; without it there is one for each core"
        )
    else:
        workers = sched.default_workers()
    limit = byte_count(scheme, "memory", options["memory"]) if "memory" in options else 0
    threads = _shared_scheduler(workers, affinity, limit)
    # The device's name has the options that were stated or differ from the default.
    is_stated_of = {
        f"workers={workers}": workers_option is not None,
        "affinity=1": affinity,
        "chains=0": not chains,
        "checks=1": flag(scheme, options, "checks"),
        f"memory={limit}": limit > 0,
    }
    query = "&".join(option for option, is_stated in is_stated_of.items() if is_stated)
    return CpuDevice(f"cpu?{query}" if query else "cpu", threads, chains)


def around(sched: Scheduler, allocator: int = 0) -> CpuDevice:
    """Return a device on the threads of `sched`, with a memory pool that it shares with no other device.

    allocator: address of a `pyd_allocator_t` that supplies the memory; 0 for the system's.
    """
    return CpuDevice(f"cpu?workers={sched.workers}", SharedScheduler(sched, allocator))


def level(features: frozenset[str]) -> str:
    """Return the x86-64 psABI level that a set of features reaches, or "generic" below v2 and on other architectures.

    A CPU with all features of v2 and v3, and none of v4, has "x86-64-v3".

    features: LLVM's names of CPU features.
    """
    levels = {
        "x86-64-v2": {"sse3", "ssse3", "sse4.1", "sse4.2", "popcnt", "cx16"},
        "x86-64-v3": {"avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"},
        "x86-64-v4": {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"},
    }
    # A level is reached if the CPU has all of its features that this build can detect, and at least one of them: on
    # another architecture none can be detected, so that no requirement would be left.
    detectable = set(sched.known_cpu_features())
    reached = "generic"
    for name, required in levels.items():
        has_required = required & detectable <= features
        has_some = bool(required & features)
        if not (has_required and has_some):
            break
        reached = name
    return reached


@cache
def _cache_sizes() -> tuple[int, int]:
    """Return the bytes of the level 1 data cache and the level 2 cache of a core; 0 where the system does not say."""
    l1, l2 = sched.cache_sizes()
    return l1, l2


def _chain_options(workers: int) -> ChainOptions:
    """Return how chains of dispatches are tiled: half of the second-level cache is for the tile of a worker."""
    _, second_level_bytes = _cache_sizes()
    return ChainOptions((second_level_bytes or CACHE_BYTES) // 2, TILES_PER_WORKER * workers)


@cache
def _features() -> tuple[frozenset[str], frozenset[str], tuple[int, ...]]:
    """Return (features of this CPU, features that can be detected, 64-bit words that describe this CPU to kernels).

    Features have LLVM's names.
    """
    return frozenset(sched.cpu_features()), frozenset(sched.known_cpu_features()), tuple(sched.processor_data())


@cache
def _machine(format: str) -> Machine:
    """Return the description of this CPU by which `link_directly`, in the C core, chooses variants of executables.

    format: format of its executables, such as "embedded-elf-x86_64".
    """
    features, _, processor_data = _features()
    return Machine(format, features, processor_data)


def host(workers: int) -> DeviceProperties:
    """Return the properties of this machine's CPU. Raise DeviceUnavailableError if this build has no loader for it.

    workers: number of threads that run dispatches.
    """
    machine = elf.host_machine()
    if machine is None:
        raise DeviceUnavailableError("this build of pydispatch cannot run code on this CPU's architecture")
    features, known_features, processor_data = _features()
    # Names that programs match with `hal.device.id`, the most specific one last.
    ids = ("cpu", "local", "local-sync" if workers == 1 else "local-task")
    return DeviceProperties(
        ids, format=f"embedded-elf-{_FORMATS.get(machine, machine)}", features=features, queryable=known_features,
        processor_data=processor_data, workers=workers,
    )  # fmt: skip


def _model() -> str:
    """Return the name of the CPU as reported by Linux, or ''."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")


def _shared_scheduler(workers: int, affinity: bool, limit: int) -> SharedScheduler:
    """Return the threads and the memory that devices with these options share, created by the first of them.

    Devices that differ in the memory limit only share the threads, but have memory pools of their own.
    """
    with _opening:
        shared = _open.get((workers, affinity, limit))
        if shared is None:
            equal_schedulers = [
                other.sched
                for (other_workers, other_affinity, _limit), other in _open.items()
                if (other_workers, other_affinity) == (workers, affinity)
            ]
            sched = equal_schedulers[0] if equal_schedulers else Scheduler(workers, affinity=affinity)
            shared = _open[workers, affinity, limit] = SharedScheduler(sched, limit=limit)
    return shared
