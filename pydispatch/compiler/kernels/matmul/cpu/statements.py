"""The statements of a tile's loop nest: packing, loops over reductions, and loops over register blocks."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from pydispatch.compiler.kernels.matmul.cpu.plan import Plan


class TileStep(Enum):
    """A statement that is executed outside the loops over register blocks, for a whole tile or a chunk of its K.

    The factor sums are the sums of A's packed rows and of B's packed columns. They correct the products if packing
    subtracts a constant from the elements of a factor, so that these fit bytes.
    """

    PACK_A = "pack A"
    PACK_B = "pack B"
    CLEAR_FACTOR_SUMS = "clear the sums of factors"
    ADD_FACTOR_SUMS = "add up the packed factors"


class BlockStep(Enum):
    """A statement that is executed for one register block: `mr` rows by `nr` columns of sums in vector registers."""

    INITIALIZE = "initialize the sums"
    MULTIPLY = "add products to the sums"
    FINISH = "compute and store the results"


@dataclass(frozen=True)
class Blocks:
    """Two loops over all register blocks of a tile, which execute `steps` for each block in order.

    The outer loop visits columns of blocks and the inner one rows, so that a panel of B stays in the first-level cache
    while all rows of the tile use it. The `Region` that the loops are emitted for states the extents of the tile.
    """

    steps: tuple[BlockStep, ...]


@dataclass(frozen=True)
class Loop:
    """A sequential loop over the reduced dimension `dim` of the contraction, `step` indices at a time.

    Each iteration executes the statements of `body` in order.
    """

    dim: int
    step: int
    body: tuple[Node, ...]


@dataclass(frozen=True)
class Batch:
    """A loop over a workgroup's batch of outer indices, which use the same packed columns of B.

    Outer dimensions are the parallel ones other than the rows and columns.

    Attributes:
        dims: The outer dimensions that do not index B, collapsed into one index.
        count: Number of outer indices in a batch; the last batch may have fewer.
        body: The statements for each outer index.
    """

    dims: tuple[int, ...]
    count: int
    body: tuple[Node, ...]


Node = TileStep | Blocks | Loop | Batch
"""A statement of a tile's loop nest."""


def statements_of(plan: Plan, packs_a: bool, is_batched: bool) -> tuple[Node, ...]:
    """Return the statements of a tile, in the order of execution.

    `Blocks(...)` is a loop over the register blocks of the tile, with the steps of each block. If one pass over K has
    all products of a block (`plan.sums_in_registers`), the sums of the block stay in registers from the first product
    to the results. Otherwise the reductions are loops around the blocks, and the sums of the tile are stored in memory
    between two iterations.

    Example:
        With B packed and sums in registers:

            PACK_B, Blocks(INITIALIZE, MULTIPLY, FINISH)

        With both packed in chunks of 512 steps of K, and an outer reduction d3:

            Blocks(INITIALIZE), Loop(d3, 1: Loop(K, 512: PACK_B, PACK_A, Blocks(MULTIPLY))), Blocks(FINISH)

    Args:
        plan: The plan.
        packs_a: Whether A is packed if the plan says so; False for an A that is in workgroup memory already.
        is_batched: Whether a workgroup runs over a batch of indices of the plan's batched dimensions, outer ones that
            share packed columns of B; False for one index of each.
    """
    pack_a = (TileStep.PACK_A,) if plan.schedule.pack_a and packs_a else ()
    pack_b = (TileStep.PACK_B,) if plan.schedule.pack_b else ()
    has_offsets = bool(plan.arithmetic.a_offset or plan.arithmetic.b_offset)
    # Packing may subtract a constant offset from elements, so that they fit bytes. The sums of the packed rows of A and
    # columns of B then correct the products (`FactorSums`).
    clear_sums = (TileStep.CLEAR_FACTOR_SUMS,) if has_offsets else ()
    add_sums = (TileStep.ADD_FACTOR_SUMS,) if has_offsets else ()
    if plan.sums_in_registers:
        blocks = Blocks((BlockStep.INITIALIZE, BlockStep.MULTIPLY, BlockStep.FINISH))
        tile = (*clear_sums, *pack_a, *add_sums, blocks)
        if is_batched and plan.batched_dims:
            # B is equal for all outer indices of a batch: it is packed once, before the loop over them.
            return (*pack_b, Batch(dims=plan.batched_dims, count=plan.schedule.batch, body=tile))
        return (*pack_b, *tile)
    multiply = Blocks((BlockStep.MULTIPLY,))
    chunk: Node = Loop(dim=plan.contraction.k, step=plan.schedule.kc, body=(*pack_b, *pack_a, *add_sums, multiply))
    for dim in reversed(plan.outer_reductions):
        chunk = Loop(dim=dim, step=1, body=(chunk,))
    return (*clear_sums, Blocks((BlockStep.INITIALIZE,)), chunk, Blocks((BlockStep.FINISH,)))
