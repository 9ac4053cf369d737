"""Machine models: caches, address translation and sustained throughput that kernels assume of a CPU.

The figures are intended to be those of the vendors' optimization manuals. Where a CPU is sold in several versions,
they are the smallest among those for servers and desktops. Zen 4, Zen 5 and an Intel Xeon with AMX, as
sapphirerapids, were measured. `bandwidth` and `prefetch_stride` of the others are conservative estimates. All figures
of sifive-x280 are estimates, except the first-level cache and the vectors. A level such as x86-64-v3 takes, in every
field, the worst value of the CPUs that have it, so that its model holds on all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import gcd

KIB, MIB = 1 << 10, 1 << 20


@dataclass(frozen=True)
class Cache:
    """Data cache of a CPU. The address of a line decides its set; a set has room for `ways` lines."""

    bytes: int  # size of one cache
    ways: int  # lines in a set (associativity)
    cores: int = 1  # cores that share one cache

    @property
    def bytes_per_core(self) -> int:
        """Bytes for each of the cores that share the cache."""
        return self.bytes // self.cores

    @property
    def way_bytes(self) -> int:
        """Bytes of one way, which has one line of each set: addresses so far apart fall into the same set."""
        return self.bytes // self.ways

    def reachable(self, width: int, stride: int) -> int:
        """Return the number of cache bytes that rows of `width` bytes, `stride` bytes apart, can occupy.

        Rows a power of two apart fall into few sets. In a cache of 32 KiB with 8 ways of 4 KiB, rows of 64 bytes that
        are 4096 bytes apart all fall into one set: they can occupy 512 bytes, 8 lines. If they are 4160 bytes apart,
        each falls into the next set, and they can occupy all 32 KiB.

        For a stride that is not known, passed as 0, return all cache bytes of a core.
        """
        if not stride:
            return self.bytes_per_core
        # Offsets in a way at which rows begin are multiples of `step`. Of each `step` bytes of the way, rows occupy the
        # first `width`.
        step = gcd(stride, self.way_bytes)
        return self.bytes_per_core * min(width, step) // step

    def __str__(self) -> str:
        """Return the properties as text, such as "2 MiB 16-way for 8 cores"."""
        size = f"{self.bytes // MIB} MiB" if self.bytes % MIB == 0 else f"{self.bytes // KIB} KiB"
        return f"{size} {self.ways}-way" + (f" for {self.cores} cores" if self.cores > 1 else "")


@dataclass(frozen=True)
class MachineModel:
    """Properties of a CPU that decide block sizes and unroll factors.

    Attributes:
        name: Name of the model.
        l1, l2, l3: Data caches by level; `l3` is None if the CPU has none.
        tlb1, tlb2: Pages that the first and the second level of address translation cache.
        loads: Vector loads per cycle.
        fmas: Vector multiply-adds per cycle.
        latency: Latency of a multiply-add in cycles.
        datapath: Bytes of a vector that a load or multiply-add unit processes per cycle.
        bandwidth: Bytes per cycle that one core receives from the memory after its second-level cache.
        prefetch_stride: Largest stride in bytes of accesses that are prefetched into the first-level cache.
        line: Bytes of a cache line.
        page: Bytes of a page.
    """

    name: str
    l1: Cache
    l2: Cache
    l3: Cache | None
    tlb1: int
    tlb2: int
    loads: int
    fmas: int
    latency: int
    datapath: int
    bandwidth: int
    prefetch_stride: int
    line: int
    page: int

    def __str__(self) -> str:
        """Return one line with the name, the caches, the lines and the TLBs."""
        l3 = "no L3" if self.l3 is None else f"L3 {self.l3}"
        return (
            f"{self.name}: L1d {self.l1}, L2 {self.l2}, {l3}, lines of {self.line} bytes, TLBs of {self.tlb1} and "
            f"{self.tlb2} pages of {self.page // KIB} KiB"
        )


# Columns, with the fields of `MachineModel` in its order and units: caches are bytes/ways/cores that share them, TLBs
# are entries of the first and the second level. Strides are 1 KiB, a quarter of a page: Intel prefetches strides of up
# to 2 KiB, but only within a page. Other CPUs have the same entry, except Zen 5, whose stride was measured
# (docs/contractions.md), and CPUs without prefetching of strides (0).
_TABLE = """
name            L1d     L2        L3         TLBs      loads FMAs latency datapath bandwidth stride  line page

haswell         32K/8   256K/8    8M/16/4    64  1024  2     2    5       32       12        1024    64   4K
skylake         32K/8   256K/4    8M/16/4    64  1536  2     2    4       32       12        1024    64   4K
skylake-avx512  32K/8   1M/16     22M/11/16  64  1536  2     2    4       64       6         1024    64   4K
cascadelake     32K/8   1M/16     22M/11/16  64  1536  2     2    4       64       6         1024    64   4K
icelake-client  48K/12  512K/8    8M/16/4    64  2048  2     1    4       64       12        1024    64   4K
icelake-server  48K/12  1280K/20  24M/12/16  64  2048  2     2    4       64       6         1024    64   4K
sapphirerapids  48K/12  2M/16     30M/15/16  96  2048  2     2    4       64       6         1024    64   4K
graniterapids   48K/12  2M/16     48M/16/16  96  2048  2     2    4       64       6         1024    64   4K

znver1          32K/8   512K/8    8M/16/4    64  1536  2     2    5       16       16        1024    64   4K
znver2          32K/8   512K/8    16M/16/4   64  2048  2     2    5       32       20        1024    64   4K
znver3          32K/8   512K/8    32M/16/8   64  2048  2     2    4       32       20        1024    64   4K
znver4          32K/8   1M/8      32M/16/8   72  3072  2     2    4       32       20        1024    64   4K
znver5          48K/12  1M/16     32M/16/8   96  4096  2     2    4       64       32        4096    64   4K

cortex-a72      32K/2   1M/16/4   -          32  1024  1     1    7       16       2         1024    64   4K
cortex-a76      64K/4   256K/8    2M/16/4    48  1280  2     2    4       16       8         1024    64   4K
neoverse-n1     64K/4   512K/8    32M/16/64  48  1280  2     2    4       16       8         1024    64   4K
neoverse-n2     64K/4   512K/8    32M/16/64  44  1280  3     2    4       16       8         1024    64   4K
neoverse-v1     64K/4   1M/8      32M/16/64  40  2048  3     4    4       16       8         1024    64   4K
neoverse-v2     64K/4   1M/8      32M/16/64  48  2048  3     4    4       16       8         1024    64   4K
apple-m1        128K/8  12M/12/4  8M/16/8    160 3072  3     4    4       16       12        1024    128  16K
apple-m4        128K/8  16M/16/5  8M/16/10   160 3072  3     4    4       16       12        1024    128  16K

sifive-u74      32K/8   2M/16/4   -          40  512   1     1    7       8        2         0       64   4K
sifive-x280     32K/8   256K/8    -          40  512   1     1    8       32       4         0       64   4K
"""


def bytes_of(text: str) -> int:
    """Return the number of bytes that "48K", "1M" or "64" states; raise ValueError for any other text."""
    scale = {"K": KIB, "M": MIB}.get(text[-1:], 1)
    return int(text if scale == 1 else text[:-1]) * scale


def _cache(text: str) -> Cache:
    """Return the cache that a text describes: "8M/16/4" is bytes, ways, and cores that share it, by default 1."""
    size, *rest = text.split("/")
    return Cache(bytes_of(size), *map(int, rest))


def _model(row: str) -> MachineModel:
    """Return the machine model that a row of the table describes."""
    name, l1, l2, l3, *numbers = row.split()
    return MachineModel(name, _cache(l1), _cache(l2), None if l3 == "-" else _cache(l3), *map(bytes_of, numbers))


MODELS = {model.name: model for model in map(_model, filter(None, _TABLE.splitlines()[2:]))}
"""Name of a CPU → its model, from the rows of the table."""

_V4 = (
    "skylake-avx512",
    "cascadelake",
    "icelake-client",
    "icelake-server",
    "sapphirerapids",
    "graniterapids",
    "znver4",
    "znver5",
)
"""CPUs of the table whose highest level is x86-64-v4. Code for a level alone assumes the worst of its CPUs."""
_V3 = ("haswell", "skylake", "znver1", "znver2", "znver3")
"""CPUs of the table whose highest level is x86-64-v3. Code for this level and lower ones assumes the worst of `_V3` and
`_V4`."""
_ARM = ("cortex-a72", "cortex-a76", "neoverse-n1", "neoverse-n2", "neoverse-v1", "neoverse-v2", "apple-m1", "apple-m4")
"""CPUs of AArch64 in the table; generic code assumes the worst of them."""
LEVELS: dict[str, tuple[str, ...]] = {
    "x86-64": _V3 + _V4, "x86-64-v2": _V3 + _V4, "x86-64-v3": _V3 + _V4, "x86-64-v4": _V4,
    "aarch64": _ARM, "riscv64": ("sifive-u74", "sifive-x280"),
}  # fmt: skip
"""x86-64 level, or architecture for its generic CPU -> the CPUs that its code is for.

Each field of its model is as bad as in the worst of these CPUs.
"""


def model_named(name: str, level: str) -> MachineModel:
    """Return the model of a CPU, else that of its level."""
    return MODELS.get(name) or worst_of(level, LEVELS[level])


def worst_of(name: str, names: tuple[str, ...]) -> MachineModel:
    """Return a model `name` that is in every field as bad as the worst of the CPUs `names`.

    Of znver4 and sapphirerapids it has the L2 of the first (1 MiB instead of 2), and the vector units of the second,
    which are wider and need larger register blocks.
    """
    models = [MODELS[cpu] for cpu in names]

    def least(read: Callable[[MachineModel], int]) -> int:
        """Return the minimum over the CPUs of the field that `read` returns."""
        return min(read(model) for model in models)

    def most(read: Callable[[MachineModel], int]) -> int:
        """Return the maximum over the CPUs of the field that `read` returns."""
        return max(read(model) for model in models)

    l3 = [model.l3 for model in models]
    return MachineModel(
        name=name,
        l1=_worst([m.l1 for m in models]),
        l2=_worst([m.l2 for m in models]),
        # No cache is the worst.
        l3=_worst([cache for cache in l3 if cache is not None]) if None not in l3 else None,
        tlb1=least(lambda m: m.tlb1),
        tlb2=least(lambda m: m.tlb2),
        loads=least(lambda m: m.loads),
        fmas=most(lambda m: m.fmas),  # more units, longer latency and wider vectors need larger register blocks
        latency=most(lambda m: m.latency),
        datapath=most(lambda m: m.datapath),
        bandwidth=least(lambda m: m.bandwidth),
        prefetch_stride=least(lambda m: m.prefetch_stride),
        line=most(lambda m: m.line),  # one element of each row then occupies more of a cache
        page=least(lambda m: m.page),  # rows then lie in more pages, each an entry of a TLB
    )


def _worst(caches: list[Cache]) -> Cache:
    """Return a cache as bad as the worst of several: with the fewest bytes per core, in ways of the largest size.

    With large ways it has few of them, so that the fewest rows of a matrix fit into the sets that they share.
    """
    bytes_per_core, way_bytes = min(c.bytes_per_core for c in caches), max(c.way_bytes for c in caches)
    return Cache(bytes=bytes_per_core, ways=max(1, bytes_per_core // way_bytes))
