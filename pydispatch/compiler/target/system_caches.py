"""The caches of this machine, as the system tells them."""

from __future__ import annotations

import functools
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from pydispatch.compiler.target.machine_model import Cache, MachineModel, bytes_of

CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
"""Folder in which Linux describes the caches of the first CPU, each in a folder `index0`, `index1` and so on."""

# Bytes that a cache and a line may have: anything else is a hypervisor's mistake.
_PLAUSIBLE_BYTES, _PLAUSIBLE_LINES = range(4 << 10, 1 << 32), (16, 32, 64, 128, 256)

_USUAL_WAYS = 8
"""Associativity (lines in a set) of a cache for which neither the system nor the model states it."""


class StatedCache(NamedTuple):
    """A data cache as the system describes it.

    Attributes:
        bytes: Its size.
        ways: Lines in a set; 0 if unknown.
        cores: Cores that share it; 0 if unknown.
    """

    bytes: int
    ways: int
    cores: int


class StatedCaches(NamedTuple):
    """The data caches of a machine, by level, and the bytes of a cache line and of a page; 0 if unknown."""

    by_level: dict[int, StatedCache]
    line: int
    page: int


def with_caches_of_this_machine(model: MachineModel) -> MachineModel:
    """Return the model with the caches and page size that the system states; unstated values are unchanged."""
    stated = caches_of_this_machine()
    caches: dict[int, Cache | None] = {1: model.l1, 2: model.l2, 3: model.l3}
    for level, (size, stated_ways, stated_cores) in stated.by_level.items():
        modeled = caches[level]
        default_ways, default_cores = (_USUAL_WAYS, 1) if modeled is None else (modeled.ways, modeled.cores)
        ways = stated_ways if stated_ways > 0 else default_ways  # 0: unknown
        cores = stated_cores if stated_cores > 0 else default_cores
        if size % ways == 0:  # a size that is no multiple of the ways is a mistake of the system
            caches[level] = Cache(size, ways, cores)
    l1, l2 = caches[1] or model.l1, caches[2] or model.l2
    return replace(model, l1=l1, l2=l2, l3=caches[3], line=stated.line or model.line, page=stated.page or model.page)


@functools.cache
def caches_of_this_machine() -> StatedCaches:
    """Return the caches of this machine at levels 1 to 3, its cache line size and its page size.

    Caches of implausible sizes, which some hypervisors report, are left out. An implausible line size is returned as 0.
    """
    page = os.sysconf("SC_PAGE_SIZE") if "SC_PAGE_SIZE" in getattr(os, "sysconf_names", {}) else 0
    if sys.platform == "darwin":
        levels, line = _of_macos()
    else:
        levels, line = of_linux(CACHES)
    plausible = {n: cache for n, cache in levels.items() if n in (1, 2, 3) and cache.bytes in _PLAUSIBLE_BYTES}
    return StatedCaches(plausible, line if line in _PLAUSIBLE_LINES else 0, page)


def of_linux(folder: Path) -> tuple[dict[int, StatedCache], int]:
    """Return the data caches by level, and the bytes of a cache line, 0 if unknown.

    folder: the folder that has a folder for each cache, as CACHES has.
    """
    levels: dict[int, StatedCache] = {}
    line = 0
    for index in sorted(folder.glob("index[0-9]*")):
        if _text(index / "type") in ("Data", "Unified"):
            level, size = _number(_text(index / "level")), _number(_text(index / "size"))
            if level and size:
                ways = _number(_text(index / "ways_of_associativity"))
                levels[level] = StatedCache(bytes=size, ways=ways, cores=_cores(index))
                line = line or _number(_text(index / "coherency_line_size"))
    return levels, line


def _cores(index: Path) -> int:
    """Return the number of cores that share a cache: its logical CPUs divided by the threads of a core. 0 if unknown.

    index: the folder of the cache, such as `CACHES / "index2"`.
    """
    cpus = _count_listed(_text(index / "shared_cpu_list"))
    threads = _count_listed(_text(index.parents[1] / "topology" / "thread_siblings_list"))
    return cpus // max(1, threads)


def _count_listed(text: str) -> int:
    """Return how many numbers a list of ranges has: 5 for "0-3,8"; 0 for malformed text."""
    try:
        ranges = [[int(end) for end in range_.split("-")] for range_ in text.split(",") if range_]
    except ValueError:
        return 0
    return sum(ends[-1] - ends[0] + 1 for ends in ranges)  # one end for a single number


def _text(path: Path) -> str:
    """Return the text of a file without white space around it; "" if it cannot be read."""
    try:
        return path.read_text().strip()
    except (OSError, ValueError):
        return ""


def _number(text: str) -> int:
    """Return the number that "48K" or "12" states; 0 for any other text."""
    try:
        return bytes_of(text)
    except ValueError:
        return 0


def _of_macos() -> tuple[dict[int, StatedCache], int]:
    """Return the data caches of the fastest cores on macOS by level, and the bytes of a cache line.

    Ways are 0, since macOS does not report them.
    """
    l1, l2 = _sysctl("hw.perflevel0.l1dcachesize"), _sysctl("hw.perflevel0.l2cachesize")
    cores = _sysctl("hw.perflevel0.cpusperl2")
    caches = {1: StatedCache(bytes=l1, ways=0, cores=1), 2: StatedCache(bytes=l2, ways=0, cores=cores)}
    return {level: cache for level, cache in caches.items() if cache.bytes}, _sysctl("hw.cachelinesize")


def _sysctl(name: str) -> int:
    """Return a number that macOS's kernel states under a name; 0 where there is none."""
    import ctypes
    import ctypes.util

    try:
        function = ctypes.CDLL(ctypes.util.find_library("c")).sysctlbyname
    except (OSError, AttributeError):
        return 0
    value, size = ctypes.c_int64(0), ctypes.c_size_t(8)
    # The last two arguments would set another value.
    failed = function(name.encode(), ctypes.byref(value), ctypes.byref(size), None, ctypes.c_size_t(0))
    return 0 if failed else int(value.value)
