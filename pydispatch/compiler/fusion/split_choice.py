"""Choice of the reductions that are split, and of the loop and the number of parts of each.

The choice depends only on sizes and the CPUs that are compiled for, so that results do not depend on the number of
workers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from xdsl.dialects.builtin import FixedBitwidthType, TensorType
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir import BlockArgument
from xdsl.ir.affine import AffineDimExpr

from pydispatch.compiler.kernels.matmul.match import is_contraction
from pydispatch.compiler.tensor_ops.registry import source_of
from pydispatch.ir.affine_maps import dims_in
from pydispatch.ir.structured import Structured, structured
from pydispatch.ir.values import shape_of

# Reductions that are split because they have few results.
MOST_RESULTS = 8
"""Maximum number of results; more of them keep the workers busy already."""
FEWEST_ELEMENTS = 1 << 17
"""Minimum number of elements for each result; with fewer, the second dispatch costs more than the split saves."""

# Reductions of columns: the operands are read along the last dimension of the result.
MOST_COLUMNS = 4096
"""Maximum number of results. Workers of a split reduction read whole rows. Without a split, they read only some columns
of each row, which is slower: the sum of the columns of 4096x1024 takes 0.45 of the time if it is split."""
FEWEST_IN_COLUMNS = 1 << 20
"""Minimum number of elements that a reduction of columns must read to be split."""
PARTS = range(64, 15, -1)
"""Possible numbers of parts of reductions with few results and of reductions of columns, best first: the first that
divides the number of steps is used. If none does, the largest is used, and the remaining steps are reduced first."""

# Products with few results and many steps along K.
MOST_PRODUCTS = 4096
"""Maximum number of results: so few fill few tiles, and one worker would compute a tile along all of K."""
LONG, TIMES_RESULTS = 8192, 3
"""Minimum number of steps along K, and minimum ratio of steps to results."""
PARTS_OF_PRODUCTS = range(16, 7, -1)
"""Possible numbers of parts of products, chosen as described at `PARTS`."""

# Products that stream a matrix argument with contiguous columns (`_result_rows_if_matrix_is_streamed`).
MOST_ROWS, FEWEST_READ = 8, 1 << 19
"""Maximum number of rows of the result, and minimum number of elements of the matrix."""
MOST_SHARED_ROWS, FEWEST_SHARED_COLUMNS, SHARED_PARTS = 2, 256, range(8, 3, -1)
"""Maximum number of rows, minimum number of columns, and possible numbers of parts of a product by a smaller matrix,
whose reading the workers share. With 128 columns, one worker takes 1.15 times as long if the product is split (Intel
Xeon with AMX)."""
FEWEST_STEPS = 96
"""Minimum number of steps along K in each part of a product that streams a matrix: with fewer, adding the partial
results would take longer than reading the matrix."""


Shares = Callable[[int], bool]
"""Function that returns whether a product of one or two rows by a matrix of so many bytes is split, so that workers
share the reading of the matrix: each reads a part of it."""


def never(matrix_bytes: int) -> bool:
    """Return False, the default of `Shares`: no product is split in order to share the reading of its matrix."""
    return False


@dataclass(frozen=True)
class _Division:
    """Division of a reduction's steps into parts that are reduced in parallel.

    Attributes:
        part_counts: Possible numbers of parts, in descending order: the largest one is the best.
        fewest_steps: Minimum number of steps in each part.
    """

    part_counts: range
    fewest_steps: int = 1

    def parts_of(self, steps: int, has_remainder: bool) -> int | None:
        """Return the best number of parts of a loop of `steps` steps; None if no number is possible.

        has_remainder: whether steps may remain after the last part. Otherwise the number of parts divides `steps`.
        """
        for parts in self.part_counts:
            is_divisible = steps % parts == 0
            if steps >= parts * self.fewest_steps and (has_remainder or is_divisible):
                return parts
        return None


def choose_split_loop(op: GenericOp, shares: Shares) -> tuple[int, int] | None:
    """Return the loop to split and the number of parts; None if the reduction is too small or has no suitable loop.

    Choose the first loop whose size is divided by a possible number of parts. If there is none, choose the first loop
    and a number of parts that leaves a remainder. With 64 to 16 parts (`PARTS`), a loop of 4096 steps gets 64 parts. A
    loop of 1000 steps gets 50 parts. A loop of 1009 steps, a prime number, gets 64 parts and a remainder of 49 steps.

    Args:
        op: The reduction.
        shares: Returns whether a product by a matrix of so many bytes is split, so that each worker reads a part of it.
    """
    generic = structured(op)
    if any(n < 0 for value in generic.operands for n in shape_of(value)):
        return None
    division = _division_of(op, generic, shares)
    if division is None:
        return None
    sizes = [n or 0 for n in generic.extents]  # 0 where no operand states the size: such a loop is not split
    # Loops of windows: parts of them would overlap in the operand, which then cannot be reshaped into parts.
    sliding_loops = {
        d for m in generic.maps for e in m.results if not isinstance(e, AffineDimExpr) for d in e.used_dims()
    }
    fewest_iterations = 2 * division.part_counts[0]  # two steps in each part, for the largest number of parts
    splittable = [d for d in _reduction_loops(generic) if d not in sliding_loops and sizes[d] >= fewest_iterations]
    # The choices, best first: any loop whose size the number of parts divides, then the first loop with a remainder.
    choices = [(loop, division.parts_of(sizes[loop], has_remainder=False)) for loop in splittable]
    choices += [(loop, division.parts_of(sizes[loop], has_remainder=True)) for loop in splittable[:1]]
    return next(((loop, parts) for loop, parts in choices if parts is not None), None)


def _division_of(op: GenericOp, generic: Structured, shares: Shares) -> _Division | None:
    """Return how a reduction of static sizes is divided into parts; None if a split does not pay.

    The first case that applies decides. The constants explain each bound.

    1. A reduction with few results, such as a sum of all elements, or a reduction of columns: `PARTS`.
    2. A product of one or two rows by a matrix argument that is not large, and whose reading workers share:
       `SHARED_PARTS`.
    3. A product of a few rows by a large matrix argument, or one with few results and many steps along K:
       `PARTS_OF_PRODUCTS`.

    Args:
        op: The reduction.
        generic: Its loops, indexing maps and operands.
        shares: Returns whether a product by a matrix of so many bytes is split, so that each worker reads a part of it.
    """
    results = math.prod(shape_of(generic.outputs[0]))
    loops = _reduction_loops(generic)
    steps = math.prod(generic.extents[d] or 0 for d in loops)
    if not loops or results == 0:
        return None
    has_few_results = results <= MOST_RESULTS and steps >= FEWEST_ELEMENTS  # a sum of all elements
    # Sums of columns: splitting reads whole rows instead of runs of columns.
    has_few_columns = results <= MOST_COLUMNS and steps * results >= FEWEST_IN_COLUMNS and _in_columns(generic)
    if not is_contraction(op):
        return _Division(PARTS) if has_few_results or has_few_columns else None
    # The parts of a product by a matrix have at least FEWEST_STEPS steps: with fewer, adding the partial results would
    # take longer than reading the matrix.
    is_large, is_shared = _reads_matrix(generic, results, steps, shares)
    fewest_steps = FEWEST_STEPS if is_large or is_shared else 1
    if has_few_results or has_few_columns:
        return _Division(PARTS, fewest_steps)
    if is_shared:
        return _Division(SHARED_PARTS, fewest_steps)
    # Products with fewer tiles than workers, and many steps along K.
    is_long_product = results <= MOST_PRODUCTS and steps >= max(LONG, TIMES_RESULTS * results)
    return _Division(PARTS_OF_PRODUCTS, fewest_steps) if is_large or is_long_product else None


def _reads_matrix(generic: Structured, results: int, steps: int, shares: Shares) -> tuple[bool, bool]:
    """Return whether a product of a few rows reads a large matrix argument, and whether workers share a smaller one.

    Args:
        generic: The product.
        results: Number of its results, at least one.
        steps: Number of products in each sum.
        shares: Returns whether a product by a matrix of so many bytes is split, so that each worker reads a part of it.
    """
    rows = _result_rows_if_matrix_is_streamed(generic, results)
    matrix_elements = results * steps // rows if rows else 0
    is_large = 0 < rows <= MOST_ROWS and matrix_elements >= FEWEST_READ
    has_shared_sizes = 0 < rows <= MOST_SHARED_ROWS and results >= rows * FEWEST_SHARED_COLUMNS
    is_shared = has_shared_sizes and not is_large and shares(matrix_elements * _element_bytes(generic))
    return is_large, is_shared


def _reduction_loops(generic: Structured) -> list[int]:
    return [d for d, kind in enumerate(generic.iterators) if kind == "reduction"]


def _element_bytes(generic: Structured) -> int:
    """Return the size in bytes of an element of a product's result, an upper bound for elements of the factors.

    Return 0 for types without a fixed width.
    """
    type_ = generic.outputs[0].type
    assert isinstance(type_, TensorType)
    return type_.element_type.size if isinstance(type_.element_type, FixedBitwidthType) else 0


def _in_columns(generic: Structured) -> bool:
    """Return whether every operand is read along the last dimension of the result, which is not reduced."""
    last = generic.maps[-1].results[-1] if generic.maps[-1].results else None
    return last is not None and all(m.results and m.results[-1] == last for m in generic.maps)


def _result_rows_if_matrix_is_streamed(generic: Structured, results: int) -> int:
    """Return the number of rows of the result of a product by one matrix argument [K, columns]; 0 for other products.

    A matrix argument is an argument of the host function, as it is or cast, that two loops index. Its last dimension is
    that of the result, the columns. For [1, 4096] times an argument [4096, 4096] the function returns 1.

    The caller splits the product along K if there are only a few rows. Each part then reads whole rows of the matrix,
    whose memory is contiguous: 1x4096x4096 takes 2.5 ms instead of 4.9 on an AMD EPYC (Zen 4), one worker.

    results: number of elements of the result.
    """
    if not generic.maps[-1].results or not results:
        return 0
    column = generic.maps[-1].results[-1]
    with_contiguous_columns = [
        (value, map_)
        for value, map_ in zip(generic.inputs, generic.maps, strict=False)
        if map_.results and map_.results[-1] == column
    ]
    if len(with_contiguous_columns) != 1:
        return 0
    value, map_ = with_contiguous_columns[0]
    is_matrix_argument = len(dims_in(map_)) == 2 and isinstance(source_of(value), BlockArgument)
    return results // shape_of(generic.outputs[0])[-1] if is_matrix_argument else 0
