"""Loops of a product by their roles for one of its factors, the weights: over rows, columns, batches and steps of K."""

from __future__ import annotations

from dataclasses import dataclass

from pydispatch.compiler.fusion.quantized.mixed_radix import Position, loop_index
from pydispatch.compiler.kernels.matmul.match import Contraction, Factor

K_LOOP, N_LOOP = -1, -2
"""Pseudo loops of positions: all reduction loops collapsed into one, and all column loops collapsed into one."""


@dataclass(frozen=True)
class Loops:
    """Loops of a product with respect to its weights.

    Attributes:
        rows: Parallel loops that the weights do not have.
        columns: Parallel loops that only the weights have.
        batch: Parallel loops that both factors have.
        positions: For each loop of the product, its index as a digit of a collapsed loop: of K_LOOP, which stands for
            all reduction loops, or of N_LOOP, which stands for all `columns`. Of reduction loops with 4 and 8
            iterations, the outer one is the digit k // 8 % 4. A loop of `batch` is its own digit; the position of a
            loop of `rows` is empty.
    """

    rows: tuple[int, ...]
    columns: tuple[int, ...]
    batch: tuple[int, ...]
    positions: tuple[Position, ...]


def loops_of(contraction: Contraction, weights: Factor) -> Loops | None:
    """Return the loops of a product by their roles for the factor `weights`; None if a loop other than rows is dynamic.

    Parallel loops are columns if only the weights have them, rows if only the other factor has them, and batch loops if
    both have them. All reduction loops are collapsed into one loop k (K_LOOP), and all loops over columns into one loop
    (N_LOOP). The position of each is its digit of the collapsed loop: of reduction loops with 4 and 8 iterations, the
    outer one is k // 8 % 4, and the inner one k % 8.
    """
    generic = contraction.generic
    other = contraction.a if weights is contraction.b else contraction.b
    # The roles of the parallel loops.
    parallel = [d for d in range(len(generic.iterators)) if d not in generic.reduced_loops]
    columns = [d for d in parallel if d in weights.dims and d not in other.dims]
    batch = [d for d in parallel if d in weights.dims and d in other.dims]
    rows = [d for d in parallel if d not in weights.dims]
    if any(generic.extents[d] is None for d in (*generic.reduced_loops, *columns, *batch)):
        return None
    # The position of each loop, from the innermost of the collapsed loops outwards; batch loops are not collapsed.
    positions = list[Position]([()] * len(generic.iterators))  # (): the weights are not indexed by the loop
    for dims, loop in ((generic.reduced_loops, K_LOOP), (columns, N_LOOP)):
        stride = 1
        for dim in reversed(dims):
            positions[dim] = loop_index(loop, generic.extent(dim), place_value=stride)
            stride *= generic.extent(dim)
    for dim in batch:
        positions[dim] = loop_index(dim, generic.extent(dim))
    return Loops(tuple(rows), tuple(columns), tuple(batch), tuple(positions))
