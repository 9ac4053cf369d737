"""Levels of CPUs (classes by vector extension), and the sizes of register blocks and tiles of contractions on them.

In the terms of BLIS, mr x nr is the register block, mt is MC, nt NC and kc KC. A panel of B is kc rows by nr columns.
"""

from __future__ import annotations

from dataclasses import dataclass

from pydispatch.compiler.target.cpu import Machine
from pydispatch.compiler.target.machine_model import MachineModel


@dataclass(frozen=True)
class Level:
    """Properties of a CPU that tiles depend on: its vector registers, the block sizes that suit them, and its caches.

    A level is a class of CPUs with the same best vector extension, such as "avx512f"; `LEVELS` has their sizes.

    Attributes:
        model: Caches and units of the CPU.
        vector: Bytes of a vector register.
        registers: Number of vector registers.
        accumulators: Number of vector registers that may hold sums.
        block_rows, block_vectors: Rows of the usual register block, and vectors of one of its rows.
        tile_rows, tile_row_bytes: Approximate height of the tile of a workgroup, and width in bytes.
        byte_products: Signs of the bytes that a dot-product instruction takes, a key of `arithmetic.SIGN_CHOICES` such
            as "unsigned by signed"; "" without such an instruction.
        byte_steps: Steps of K that the instruction takes.
        widens_half: Whether the CPU widens vectors of f16 and bf16.
        matrix_types: Element types that the CPU multiplies in matrix registers (AMX): "i8", "bf16".
        pairs_bf16: Whether vectors of `vector` bytes add products of pairs of bf16 to f32 (vdpbf16ps).
    """

    model: MachineModel
    vector: int
    registers: int
    accumulators: int
    block_rows: int
    block_vectors: int
    tile_rows: int
    tile_row_bytes: int
    byte_products: str = ""
    byte_steps: int = 4
    widens_half: bool = False
    matrix_types: frozenset[str] = frozenset()
    pairs_bf16: bool = False

    @property
    def packed_bytes(self) -> int:
        """Maximum size in bytes of a workgroup's packed operands: twice the second-level cache.

        The operands may exceed this cache, because the CPU prefetches packed operands from beyond it.
        """
        return 2 * self.model.l2.bytes_per_core

    @property
    def panel_bytes(self) -> int:
        """Maximum size in bytes of a panel of B that stays in the second-level cache for all rows of a tile.

        Half of the cache is left to A and C, as in `problem.is_panel_cached`.
        """
        return self.model.l2.bytes_per_core // 2

    @property
    def l1_chunk_bytes(self) -> int:
        """Maximum size in bytes of a packed chunk of B that stays in the first-level cache until it is multiplied.

        A third of the cache is left to A and the sums. On Zen 5, 1x2048x2048 of f32 times i8 reads 28 GB/s of B in
        such chunks, and 14 GB/s with all of K as one chunk, in the second-level cache.
        """
        return 2 * self.model.l1.bytes_per_core // 3

    def cycles(self, mr: int, row_bytes: int) -> float:
        """Estimate the cycles that a block of `mr` rows of `row_bytes` bytes takes for a step of K, operands in L1.

        A step takes multiply-adds of all rows, and loads of `mr` elements of A and of a row of B. The CPU executes both
        at the same time: the slower ones count. `model.fmas` and `model.loads` are their numbers per cycle.
        """
        passes = ceil_quotient(self.vector, self.model.datapath)  # 2 for vectors of 64 bytes in a datapath of 32
        operations_of_row = ceil_quotient(row_bytes, self.vector) * passes
        multiply_adds, loads = mr * operations_of_row, mr + operations_of_row
        return max(multiply_adds / self.model.fmas, loads / self.model.loads)


# AVX-512 has 32 registers: 14 rows of 2 vectors leave 2 for B and 2 for broadcasts. AVX2 and SSE have 16; SSE has no
# multiply-add, so it needs registers for products. riscv64 without vectors: a 16-byte vector is four registers. With
# vectors (v) elements of A are scalar operands of multiply-adds and need none.
#
# Products measured in GFLOP/s with tiles of rows x columns: f32, one worker, operands in place, AMD EPYC (Zen 5)
#   512x784x512   52x256: 263   104x128: 263   96x256: 264   52x512: 261; A packed: 247; both packed: 243
#   1024x512x512  52x256: 264   104x256: 264   208x256: 264; B packed: 246     register blocks 8x48: 256, 14x32: 260
#   1024 cubed    52x256: 248   104x256: 251   208x256: 241; B packed: 241
# Packing in chunks of K costs 4 % at 1024. Tiles of half or twice the size differ by 2 %: one size for each level is
# enough.
LEVELS = {
    # vector, registers, accumulators, block_rows, block_vectors, tile_rows, tile_row_bytes: fields of `Level`
    "avx512f": (64, 32, 28, 14, 2, 112, 1024),
    "avx2": (32, 16, 12, 6, 2, 96, 1024),
    "avx": (32, 16, 10, 5, 2, 96, 1024),
    "x86_64": (16, 16, 8, 4, 2, 96, 1024),
    "aarch64": (16, 32, 24, 12, 2, 96, 1024),
    "zvl512b": (64, 32, 24, 12, 2, 96, 1024),
    "zvl256b": (32, 32, 24, 12, 2, 96, 1024),
    "v": (16, 32, 24, 12, 2, 96, 512),
    "riscv64": (16, 8, 6, 6, 1, 96, 512),
}
"""Level, named after its vector feature or its architecture -> the first fields of a `Level` after `model`. A machine
has the level of the first feature here that it has, else that of its architecture."""

MATRIX_FEATURES = {"i8": ("amx-int8", "avx512vnni"), "bf16": ("amx-bf16",)}
"""Element type -> features that a CPU with matrix registers needs to multiply it. Bytes are only multiplied in groups
if the CPU also multiplies them in vectors, which avx512vnni states (see `_byte_products`)."""

MATRIX_ROWS = 32
"""Rows, and columns, of a block of sums in matrix registers. It fills 2 x 2 of them: each has 16 rows of 16 sums."""


def level_of(machine: Machine) -> Level:
    """Return the properties of a machine that tiles depend on: caches, instructions, and sizes for its vectors.

    `LEVELS` has the sizes for the best vector extension of the machine, or else for its architecture. A Zen 4, whose
    features include avx2 and avx512f, has the sizes of "avx512f", and an x86-64 without AVX the sizes of "x86_64".
    """
    # `LEVELS` is ordered from the best extension to the architectures; `machine.has` are the CPU's features.
    name = next((name for name in LEVELS if name in machine.has), machine.arch)
    # f16 and bf16 are widened by instructions of AArch64, and of x86-64 with f16c.
    widens_half = machine.arch == "aarch64" or "f16c" in machine.has
    has_smmla = machine.arch == "aarch64" and "i8mm" in machine.has
    # An element type needs all of its features.
    matrix_types = frozenset(e for e, needs in MATRIX_FEATURES.items() if machine.has >= {"amx-tile", *needs})
    # avx512bf16 has vdpbf16ps, which adds products of pairs of bf16. The level avx512f has its vectors of 64 bytes.
    pairs_bf16 = name == "avx512f" and "avx512bf16" in machine.has
    return Level(
        machine.model,
        *LEVELS[name],  # the fields from `vector` to `tile_row_bytes`
        byte_products=_byte_products(machine),
        byte_steps=8 if has_smmla else 4,  # smmla multiplies 8 steps of K, the other dot products of bytes 4
        widens_half=widens_half,
        matrix_types=matrix_types,
        pairs_bf16=pairs_bf16,
    )


def _byte_products(machine: Machine) -> str:
    """Return which bytes, signed or unsigned, a machine has dot products of: a key of `arithmetic.SIGN_CHOICES` or "".

    "unsigned by signed" is vpdpbusd (x86), in vectors of the widest registers; "equal signs" are sdot and udot, and
    "all signs" smmla, ummla and usmmla (AArch64). "" stands for a machine without dot products of bytes.
    """
    # AVX-VNNI has vpdpbusd for vectors of up to 32 bytes. The instruction is not used with AVX-512, whose vectors have
    # 64 bytes.
    has_vectors_of_32_bytes = "avxvnni" in machine.has and "avx512f" not in machine.has
    if "avx512vnni" in machine.has or has_vectors_of_32_bytes:
        return "unsigned by signed"
    if machine.arch == "aarch64" and "dotprod" in machine.has:
        return "all signs" if "i8mm" in machine.has else "equal signs"
    return ""


@dataclass(frozen=True)
class Tiles:
    """Block sizes of a contraction: the register block, the tile of a workgroup, and the chunks of K.

    Attributes:
        mr, nr: Rows and columns of the register block.
        mt, nt: Rows and columns of the tile, multiples of mr and nr.
        kc: Steps of K of a chunk: its elements of A and B are packed and multiplied before those of the next chunk.
    """

    mr: int
    nr: int
    mt: int
    nt: int
    kc: int


def ceil_quotient(a: int, b: int) -> int:
    """Return a / b, rounded up to an integer."""
    return -(-a // b)


def round_up(size: int, multiple: int) -> int:
    """Return the least multiple of `multiple` that is at least `size`: 12 for a size of 10 and multiples of 4."""
    return multiple * ceil_quotient(size, multiple)
