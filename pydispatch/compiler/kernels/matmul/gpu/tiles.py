"""Tiles of contractions on GPUs, by element type, and the choice of the fastest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pydispatch.compiler.kernels.matmul.cpu.tiles import ceil_quotient
from pydispatch.ir.dialects.pyd.mma import LANES

CORES = 100
"""Number of workgroups that a device is assumed to run at once. It is the same for all devices, so that the choice of
tiles, and with it the order of sums, does not depend on the device."""

ASSUMED_EXTENT = 512
"""Number of rows, or of columns, that tiles are chosen for where it is dynamic."""


@dataclass(frozen=True)
class Tile:
    """Tile of a contraction's result that a workgroup computes, and its division among invocations.

    Attributes:
        height, width: Rows and columns.
        depth: Number of steps of K that are in workgroup memory at a time.
        block_rows, block_columns: Size of the block that a subgroup of 32 invocations (a warp) computes.
        throughput: Products of a core in a unit of time, relative to the fastest tile of the table.
        workgroups_per_core: Workgroups that a core should hold at once, which bounds the registers of an invocation.
    """

    height: int
    width: int
    depth: int
    block_rows: int
    block_columns: int
    throughput: float
    workgroups_per_core: int = 2

    @property
    def invocations(self) -> int:
        """The number of invocations of a workgroup."""
        return LANES * (self.height // self.block_rows) * (self.width // self.block_columns)

    @property
    def slots(self) -> int:
        """Number of accumulators of an invocation: its share of the block of a subgroup."""
        return self.block_rows * self.block_columns // LANES


# Larger blocks read less memory: for each 16 bytes that an invocation reads of the tiles of A and B, it does 16
# multiply-adds with blocks of 32x64, 10.7 with 32x32, and 5.3 with 16x32. Registers bound the size of blocks. In a
# block of 32x64, each of 32 invocations has 8x8 sums, and reads 8 + 8 elements in a step of K. These 80 registers leave
# room for two workgroups of 256 invocations on a core of 64 K registers.
TILES_32 = (
    Tile(height=128, width=128, depth=8, block_rows=32, block_columns=64, throughput=1.0),
    Tile(height=128, width=64, depth=8, block_rows=32, block_columns=64, throughput=0.9, workgroups_per_core=4),
    Tile(height=64, width=128, depth=8, block_rows=32, block_columns=64, throughput=0.9, workgroups_per_core=4),
    Tile(height=64, width=64, depth=16, block_rows=32, block_columns=32, throughput=0.75, workgroups_per_core=4),
    Tile(height=32, width=64, depth=16, block_rows=16, block_columns=32, throughput=0.5, workgroups_per_core=4),
    Tile(height=32, width=32, depth=16, block_rows=16, block_columns=32, throughput=0.4, workgroups_per_core=4),
    Tile(height=16, width=64, depth=16, block_rows=16, block_columns=32, throughput=0.35, workgroups_per_core=4),
)
"""Tiles of 32-bit elements."""

TILES_64 = (
    Tile(height=64, width=64, depth=16, block_rows=32, block_columns=32, throughput=1.0),
    Tile(height=32, width=64, depth=16, block_rows=16, block_columns=32, throughput=0.8),
    Tile(height=32, width=32, depth=16, block_rows=16, block_columns=16, throughput=0.6, workgroups_per_core=4),
    Tile(height=16, width=32, depth=16, block_rows=8, block_columns=16, throughput=0.4, workgroups_per_core=4),
)
"""Tiles of 64-bit elements."""

TENSOR_TILES = (
    Tile(height=128, width=128, depth=32, block_rows=64, block_columns=64, throughput=1.0),
    Tile(height=128, width=64, depth=32, block_rows=64, block_columns=32, throughput=0.8),
    Tile(height=64, width=64, depth=32, block_rows=32, block_columns=32, throughput=0.6, workgroups_per_core=4),
    Tile(height=32, width=64, depth=32, block_rows=16, block_columns=32, throughput=0.4, workgroups_per_core=4),
    Tile(height=32, width=32, depth=32, block_rows=16, block_columns=16, throughput=0.3, workgroups_per_core=4),
    Tile(height=16, width=64, depth=32, block_rows=16, block_columns=16, throughput=0.3, workgroups_per_core=4),
)
"""Tiles for tensor cores."""

LARGEST_SCALAR_TILE = TENSOR_TILES[2]
"""The largest tile for tensor cores where the elements of both operands are loaded one by one."""

MAX_SCALAR_COLUMNS = 32
"""Maximum width of a block on tensor cores where an operand is loaded element by element: sums of wider blocks leave
too few registers for the loads."""


def choose_tile(table: Sequence[Tile], height: int | None, width: int | None, outer: int) -> Tile:
    """Return the tile with the shortest estimated time on a device that runs `CORES` workgroups at once.

    A workgroup computes a tile, and a wave is `CORES` workgroups. The time is the number of waves, rounded up, times
    the time of a wave.

    Args:
        table: The tiles to choose from.
        height, width: Rows and columns of the product; None if dynamic.
        outer: Number of products: one for each index of the outer dimensions.
    """

    def time(tile: Tile) -> float:
        """Return the estimated time of the product with a tile, in an arbitrary unit."""
        tile_rows = ceil_quotient(height or ASSUMED_EXTENT, tile.height)
        tile_columns = ceil_quotient(width or ASSUMED_EXTENT, tile.width)
        waves = ceil_quotient(tile_rows * tile_columns * outer, CORES)
        return waves * tile.height * tile.width / tile.throughput  # a wave takes height * width / throughput

    return min(table, key=time)
