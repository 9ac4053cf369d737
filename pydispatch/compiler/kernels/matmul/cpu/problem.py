"""Properties of a contraction that determine its schedule, and whether operands are read in place.

Packing B costs some per cent of a product with many rows. Rows of B that evict each other from the cache cost more than
half of the speed on CPUs with slow memory beyond the second-level cache. So B is packed unless the machine model shows
that packing is unnecessary.
"""

from __future__ import annotations

from dataclasses import dataclass

from pydispatch.compiler.kernels.matmul.cpu.tiles import Level, Tiles, ceil_quotient

SKINNY_ROWS = 64
"""Maximum number of rows of A for which a transposed B is read in place, with vectors along K. For more rows, packing
B, which transposes it, pays."""

ALWAYS_SKINNY_ROWS, SKINNY_STEPS = 4, 64
"""A transposed B is read in place for up to `ALWAYS_SKINNY_ROWS` rows of A. With more rows, it is read in place only if
the size K is at least `SKINNY_STEPS`."""


@dataclass(frozen=True)
class Operand:
    """Properties of a factor of a contraction.

    Attributes:
        is_readable_in_place: Whether register blocks can read it from a dispatch argument without a copy. The factor
            must then be the element of the argument, or its widening to the type of products.
        row_stride_bytes: Bytes from one row to the next, along M in A and along K in B; 0 if not known.
        is_contiguous_k, is_contiguous_n: Whether elements along that dimension are contiguous in memory.
        element_bytes: Bytes of an element in memory; 0 if it is as long as a packed element.
    """

    is_readable_in_place: bool
    row_stride_bytes: int
    is_contiguous_k: bool
    is_contiguous_n: bool
    element_bytes: int = 0


@dataclass(frozen=True)
class Problem:
    """Properties of a contraction that determine its schedule: sizes of M, N and K, and the layouts of A and B.

    Planning creates it for the general kernel, and for each kernel that is specialized to a range of row counts.

    Attributes:
        sum_bytes: Bytes of an accumulator, and of a packed element unless steps of K are grouped.
        m, n, k: Sizes; None if dynamic.
        min_rows, max_rows: Bounds of the row count that the kernel is used for, inclusive; 0 and None for no bound.
        outer: Product of the sizes of the outer dimensions: parallel ones other than M and N. A dynamic size counts as
            1.
        reductions: Product of the sizes of the reduced dimensions other than K. A dynamic size counts as 1.
        a, b: The factors.
        panel_width: Columns of a panel if an argument has B in panels of adjacent columns, else 0.
        group: Steps of K that one instruction takes.
        matrix_steps: Groups that matrix registers multiply at once; 0 if matrix registers are not used.
        b_uses: At how many outer indices a packed element of B can be used: the product of the static sizes of the
            outer dimensions that do not index B. The number is 1 if a reduced dimension is dynamic: B is then packed in
            a loop over that dimension, again for each outer index.
    """

    sum_bytes: int
    m: int | None
    n: int | None
    k: int | None
    min_rows: int
    max_rows: int | None
    outer: int
    reductions: int
    a: Operand
    b: Operand
    panel_width: int
    group: int
    matrix_steps: int = 0
    b_uses: int = 1

    @property
    def is_skinny_variant(self) -> bool:
        """Whether the kernel is for a range of several row counts, all lower than a register block.

        With a dynamic M, there may be kernels for 1 row, for 2 to 13 rows, and for at least 14 rows. The number of rows
        selects one of them at run time. Only the kernel for 2 to 13 rows is a skinny variant: the last one has no
        `max_rows`, and the first one is for a single row count.
        """
        return self.max_rows is not None and self.min_rows != self.max_rows

    @property
    def is_skinny(self) -> bool:
        """Whether `m` is so small that vectors along K are faster than transposing a B that is contiguous along K.

        Unlike `is_skinny_variant`, this does not depend on the range of row counts that the kernel is for.
        """
        if self.m is None:
            return False
        has_many_steps = (self.k or 0) >= SKINNY_STEPS
        return self.m <= ALWAYS_SKINNY_ROWS or (self.m <= SKINNY_ROWS and has_many_steps)

    @property
    def is_b_transposed(self) -> bool:
        """Whether B, if not in panels, is contiguous along K and not along N.

        Vectors of a transposed B that is read in place are along K, and the lanes of an accumulator hold partial sums.
        """
        return not self.panel_width and self.b.is_contiguous_k and not self.b.is_contiguous_n

    @property
    def vectorizes_packed_k(self) -> bool:
        """Whether a B that is computed in the dispatch is packed without transposing it, contiguous along K.

        B is packed in this way if A has so few rows that packing B contiguous along N, which transposes it, would not
        pay.
        """
        has_known_sizes = self.m is not None and self.n is not None
        has_single_steps = self.group == 1  # an instruction multiplies one step of K, not a group of them
        are_contiguous_k = self.is_b_transposed and self.a.is_contiguous_k
        is_computed = not self.b.is_readable_in_place
        return has_known_sizes and has_single_steps and are_contiguous_k and is_computed and self.is_skinny

    @property
    def b_span_bytes(self) -> int:
        """Bytes that B spans in memory, with the gaps between its rows; 0 if the stride of rows or K is not known.

        The number is an upper bound: the matrices at the outer indices are assumed to follow each other. In attention,
        the matrices of all heads may be interleaved in the same rows.
        """
        return self.outer * self.b.row_stride_bytes * (self.k or 0)

    @property
    def b_compact_bytes(self) -> int:
        """Bytes of all elements of B, without gaps between its rows; 0 if N or K is dynamic."""
        element_bytes = self.b.element_bytes or self.sum_bytes
        matrices = self.outer // self.b_uses  # one for each index of the outer dimensions that index B
        return matrices * (self.k or 0) * (self.n or 0) * element_bytes

    @property
    def widens_b(self) -> bool:
        """Whether elements of B are shorter in memory than accumulators."""
        return 0 < self.b.element_bytes < self.sum_bytes

    def vectorizes_k(self, pack_b: bool) -> bool:
        """Return whether vectors are along K, in a packed B (`pack_b`) or in one that is read in place."""
        return self.vectorizes_packed_k if pack_b else self.is_b_transposed

    @property
    def can_read_a_in_place(self) -> bool:
        """Whether A may be read in place, by register blocks with at most M rows: M must be known."""
        return self.a.is_readable_in_place and self.m is not None and not self.is_skinny_variant

    @property
    def can_read_b_in_place(self) -> bool:
        """Whether B may be read in place.

        B may be read in place if an argument has it in panels of adjacent columns. Without panels, M and N must be
        known at compile time, and B contiguous along N, or A and B along K. Register blocks then have at most N
        columns.
        """
        if not self.b.is_readable_in_place:
            return False
        if self.panel_width > 0:
            return True
        has_vectors_along_k = self.is_b_transposed and self.a.is_contiguous_k
        has_known_sizes = self.m is not None and self.n is not None
        return has_known_sizes and (self.b.is_contiguous_n or has_vectors_along_k)


# Reading in place

FEW_PASSES = 2
"""Maximum number of passes over a panel of B for which it is read in place at any stride: packing it takes about as
long as one pass. A pass is the product of one block of rows and the panel.

The maximum is twice as large if the third-level cache delivers evicted rows in time. Time in place as a multiple of
that of packing (Zen 5): 42x784x1024 0.84, 32x768x3072 0.82, 56x784x1024 1.03, 32x2048x2048 1.1, 32x4096x4096 1.5."""

FEW_USES_CYCLES = 4
"""An element of A has few uses if all its multiplications in a tile take at most this number of cycles. Packing A is
then slower than reads in place, even from the second-level cache.

Times in us with A packed / in place (Intel Xeon with 2 MiB of L2): 128x3072x768 in tiles of 130x64 7,600 / 5,800;
1024x3072x768 in tiles of 208x128 53,300 / 42,900; 1024 cubed in tiles of 208x256 21,100 / 20,800."""

MAX_LINES_RATIO = 1.25
"""Maximum ratio of two numbers of cache lines, up to which an A with few uses of its elements is read in place. The one
is the lines that a block reads of A at a time, one of each row. The other is the lines of the first-level cache that
rows at this stride can occupy. Up to this ratio, most lines stay in the cache until the next step of K; above, none do.

13 rows that are 4096 bytes apart can occupy 8 lines of a cache with 8 ways: each step of K reads all rows from the
second-level cache again. Times in us in place / packed (Zen 4): 128x1024x256 1,004 / 620; 196x1024x256 1,661 / 1,031.
A cache with 12 ways keeps most of the 13 lines (Xeon, see `FEW_USES_CYCLES`)."""

PREFETCH_BYTES = 4096
"""Distance in bytes from the elements of B that a block reads to those that it prefetches. An Intel Xeon with 2 MiB of
L2 runs ResNet-50, whose filters exceed this cache, in 0.85 of the time without prefetches; distances of 2048, 8192 and
16384 bytes are 3 % slower."""

PREFETCHING_BANDWIDTH = 16
"""Bandwidth beyond the second-level cache, in bytes per cycle, from which on the CPU's own prefetchers keep up with
contiguous rows.

Times in us for panels in memory, with / without prefetches of blocks (Zen 4): 1x768x2048 of bf16 96 / 95, of f32 186 /
183; 2x768x2048 of f32 204 / 178; 1x768x2048 of bf16 in small pages 134 / 115."""

SHARED_BYTES = 1 << 20
"""Minimum size of a factor B for which a product of one or two rows is divided among workgroups, on a CPU with slow
memory beyond the second-level cache. Each worker then keeps a slice of B in its own second-level cache for later calls.

Times in us of 1x784x512 and 1x512x512, computed alternately (Intel Xeon with AMX): 80 if each is one workgroup; cut
along K 26 with two workers, 81 to 89 with one; cut into panels of columns 17 with two workers, 79 with one."""


def shares_factor(level: Level, factor_bytes: int) -> bool:
    """Return whether a product of one or two rows by a B of so many bytes is divided among workgroups, by slices of B.

    The product is divided if a single core would wait for B, because memory beyond the second-level cache is slow, and
    the second-level caches of the cores have room for the slices.
    """
    model = level.model
    is_slow = model.bandwidth < PREFETCHING_BANDWIDTH
    is_large = factor_bytes >= SHARED_BYTES
    has_room = model.l2.bytes_per_core >= SHARED_BYTES
    return is_slow and is_large and has_room


def prefetch_distance(level: Level, mr: int, row_bytes: int) -> int:
    """Return how many bytes ahead of its reads a block of mr rows prefetches contiguous rows of B of `row_bytes` bytes.

    Return 0, for no prefetches, if the bandwidth beyond the second-level cache is as high as the rate at which a block
    reads B, or is at least `PREFETCHING_BANDWIDTH`.
    """
    bandwidth = level.model.bandwidth  # bytes per cycle, beyond the second-level cache
    delivered_bytes = bandwidth * level.cycles(mr, row_bytes)  # while a block multiplies a row
    is_bound_by_memory = row_bytes > delivered_bytes
    has_good_prefetchers = bandwidth >= PREFETCHING_BANDWIDTH
    return PREFETCH_BYTES if is_bound_by_memory and not has_good_prefetchers else 0


@dataclass(frozen=True)
class PanelInPlace:
    """A panel of B, the columns of a register block, that is read where B is stored.

    Attributes:
        row_bytes: Bytes of a row of the panel.
        stride_bytes: Bytes between rows of B.
        steps: Rows of the panel.
    """

    row_bytes: int
    stride_bytes: int
    steps: int

    @property
    def bytes(self) -> int:
        """Bytes of the panel, without the gaps between its rows."""
        return self.steps * self.row_bytes

    @property
    def span_bytes(self) -> int:
        """Bytes of all rows with the gap after each; 0 if the distance of rows is not known."""
        return self.steps * self.stride_bytes

    def pages(self, level: Level) -> int:
        """Return how many pages of virtual memory the rows touch: at most one for each row."""
        return min(self.steps, ceil_quotient(self.span_bytes, level.model.page))


def pays_in_place_b(level: Level, rows: int, mr: int, panel: PanelInPlace) -> bool:
    """Return whether reading a panel of B in place is at least as fast as packing it, for `rows` rows of A.

    The panel is read by blocks of `mr` rows. Reading in place is at least as fast if one of three conditions holds:

    - The panel stays in a cache between the blocks of rows that read it.
    - These blocks are few: at most `FEW_PASSES`, or twice as many if the third-level cache delivers rows in time.
    - Most of the panel stays in the second-level cache, and the third-level cache delivers the rest in time.
    """
    if is_panel_cached(level, panel):
        return True
    is_in_time = _is_delivered_in_time(level, mr, panel)
    few_passes = 2 * FEW_PASSES if is_in_time else FEW_PASSES
    if ceil_quotient(rows, mr) <= few_passes:  # each block of mr rows is a pass over the panel
        return True
    # A panel of up to twice the second-level cache that its rows can occupy (`reachable`) is evicted only in part.
    stays_mostly = panel.bytes <= 2 * level.model.l2.reachable(panel.row_bytes, panel.stride_bytes)
    return is_in_time and stays_mostly and _is_prefetched(level, panel)


def _is_delivered_in_time(level: Level, mr: int, panel: PanelInPlace) -> bool:
    """Return whether the third-level cache has B, and delivers rows of a panel faster than blocks of mr rows use them.

    B is in this cache if it takes at most a third: A, C, and operands of other workers need the rest. The cache must be
    able to deliver at least two rows of the panel while a block multiplies one.
    """
    model = level.model
    is_in_l3 = model.l3 is not None and 3 * panel.span_bytes <= model.l3.bytes
    return is_in_l3 and 2 * panel.row_bytes <= model.bandwidth * level.cycles(mr, panel.row_bytes)


def is_panel_cached(level: Level, panel: PanelInPlace) -> bool:
    """Return whether a panel of B that is read in place stays in L1 or L2 between blocks of rows of A.

    A cache has `reachable` bytes for rows at the stride of B, because their addresses share cache sets. The panel may
    take half of these bytes; the rest is left to A and C.
    """
    model = level.model
    is_in_l1 = panel.bytes <= model.l1.reachable(panel.row_bytes, panel.stride_bytes) // 2
    has_tlb_entries = panel.pages(level) <= model.tlb1 // 2  # for its pages of virtual memory
    if is_in_l1 and has_tlb_entries:
        return True
    is_in_l2 = panel.bytes <= model.l2.reachable(panel.row_bytes, panel.stride_bytes) // 2
    return is_in_l2 and _is_prefetched(level, panel)


def _is_prefetched(level: Level, panel: PanelInPlace) -> bool:
    """Return whether the hardware prefetcher follows the rows of a panel of B in the second-level cache.

    The prefetcher follows the rows if their stride is short enough, and their pages take at most half of the
    second-level TLB.
    """
    model = level.model
    is_near = panel.stride_bytes <= min(model.prefetch_stride, model.page)
    return is_near and panel.pages(level) <= model.tlb2 // 2


def pays_in_place_a(level: Level, mr: int, stride_bytes: int) -> bool:
    """Return whether reads of A in place, by blocks of mr rows that are `stride_bytes` apart, are faster than packing.

    A block reads one cache line of each row at a time. Lines at this stride can occupy only a part of the first-level
    cache: `reachable` bytes. The lines may take two thirds of that part; the rest is left to B. On Zen 5, 14 rows that
    are 2048 bytes apart take 0.97 of the time of packing, 4096 bytes apart 1.08.
    """
    model = level.model
    lines_bytes = mr * model.line
    return 3 * lines_bytes <= 2 * model.l1.reachable(model.line, stride_bytes)


def reads_a_in_place(level: Level, problem: Problem, tiles: Tiles) -> bool:
    """Return whether register blocks read A where it is stored instead of a packed copy.

    Blocks read A in place if A has at least a block of rows, and packing does not pay: either the rows of a block stay
    in the first-level cache (`pays_in_place_a`), or most of them do and a tile uses each element for few cycles.
    """
    if not problem.can_read_a_in_place or (problem.m or 0) < tiles.mr:
        return False
    # Cycles of all uses of an element of A: once in each of the nt / nr register blocks along the columns of the tile.
    cycles_of_block = level.cycles(tiles.mr, tiles.nr * problem.sum_bytes)  # for a step of K, mr elements of A
    cycles_of_element = cycles_of_block / tiles.mr * (tiles.nt // tiles.nr)
    has_few_uses = problem.group == 1 and cycles_of_element <= FEW_USES_CYCLES
    line, stride_bytes = level.model.line, problem.a.row_stride_bytes
    stays_mostly = tiles.mr * line <= MAX_LINES_RATIO * level.model.l1.reachable(line, stride_bytes)
    return (has_few_uses and stays_mostly) or pays_in_place_a(level, tiles.mr, stride_bytes)
