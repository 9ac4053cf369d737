"""Sums of products that an invocation of a GPU adds up: loops over the reductions, and over the pages of B."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import gcd

from xdsl.dialects import math, scf
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import SSAValue

from pydispatch.compiler.kernel_ir.kernel import MOST_ITERATIONS
from pydispatch.compiler.kernels.matmul.cpu.packing import factor_at
from pydispatch.compiler.kernels.matmul.gpu.load import converted
from pydispatch.compiler.kernels.matmul.match import Contraction, Factor
from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.compiler.kernels.ops.elements import Elements
from pydispatch.compiler.kernels.ops.sums import with_fresh_accumulators

UNROLLED_STEPS = 8
"""Maximum number of products that one iteration of the loop of a sum adds. More make the code longer, fewer leave more
branches."""


@dataclass(frozen=True)
class ProductSums:
    """Emitter of the loops of an invocation that add up some elements of a product.

    Factor B may be composed of pages, blocks of `page_rows` steps of K that a table of indices selects from a tensor
    (`gathered.py`). Only such a product has an `end`.

    Attributes:
        elements: Tensors of the kernel.
        product: The product.
        points: For each element of the result that the invocation sums up: parallel loop of the product -> its index.
        page_rows: Steps of K of a page.
        end: The end of the steps of K, a multiple of `page_rows`; None for all steps.
    """

    elements: Elements
    product: Contraction
    points: Sequence[dict[int, Index]]
    page_rows: int
    end: Index | None

    def emit(
        self, build: Builder, dims: Sequence[int], reduced: dict[int, Index], sums: list[SSAValue]
    ) -> list[SSAValue]:
        """Emit loops over reductions, and return the sums after them, one for each element that the invocation sums up.

        Each call emits the loop of the first of `dims`, and calls itself for the others inside.

        Args:
            build: Receives the code.
            dims: The reduced loops that are still to be emitted, outermost first.
            reduced: Reduced loop -> its index, for the loops that enclose `build`.
            sums: The sum of each element before the loops.
        """
        if not dims:
            return self._step(build, reduced, sums)
        dim, *others = dims
        size = self.product.generic.extents[dim]
        assert size is not None
        if self.end is None or dim != self.product.k:
            return unrolled(build, size, sums, lambda b, i, carried: self.emit(b, others, reduced | {dim: i}, carried))
        # A loop over the pages of K before `end`, with a loop over the steps of a page inside.
        most_pages = size // self.page_rows  # pages of all of K
        page_count = build.quotient(self.end, self.page_rows)  # exact: the caller rounds `end` up to whole pages
        totals = build.loop(0, page_count, sums, partial(self._page, others, reduced), index_below=most_pages)
        if isinstance(loop := totals[0].owner, scf.ForOp):
            # `end` may be a runtime value: the attribute states the maximum number of iterations to later passes.
            loop.attributes[MOST_ITERATIONS] = IntegerAttr(most_pages, 64)
        return totals

    def _page(
        self,
        dims: Sequence[int],
        reduced: dict[int, Index],
        build: Builder,
        table_index: Index,
        sums: list[SSAValue],
    ) -> list[SSAValue]:
        """Emit the steps of K of the page at an index of the table of pages, and return the sums after them.

        A page is `page_rows` consecutive steps of K: with 16, the page at index 2 has the steps 32 to 47. `dims` and
        `reduced` are those of `emit`.
        """

        def step_of_page(inner: Builder, i: Index, carried: list[SSAValue]) -> list[SSAValue]:
            """Add step `i` of the page."""
            step_of_k = inner.linear(table_index, self.page_rows, i)
            return self.emit(inner, dims, reduced | {self.product.k: step_of_k}, carried)

        # A page is summed from -0 and then added to `sums`, which bounds the rounding error.
        return with_fresh_accumulators(
            build,
            carried=sums,
            is_sum=[True] * len(sums),  # all carried values are sums
            inside=lambda initial: unrolled(build, self.page_rows, initial, step_of_page),
        )

    def _step(self, build: Builder, reduced: dict[int, Index], sums: list[SSAValue]) -> list[SSAValue]:
        """Emit the addition of one product to each sum, at the indices `reduced` of all reduced loops.

        Return the new sums.
        """
        product, totals = self.product, []
        for total, point in zip(sums, self.points, strict=True):
            a, b = (self._factor(build, factor, point | reduced) for factor in (product.a, product.b))
            totals.append(build.add(math.FmaOp(a, b, total)))
        return totals

    def _factor(self, build: Builder, factor: Factor, loops: dict[int, Index]) -> SSAValue:
        """Emit the element of a factor at indices of the product's loops, and return it in the type of the sums.

        loops: loop of the product -> its index.
        """
        factor_indices = [coordinate.emit(build, loops) for coordinate in factor.coordinates]
        value = factor_at(self.elements, build, self.product, factor, factor_indices)
        return converted(build, value, self.product.acc)


def unrolled(
    build: Builder,
    size: int,
    sums: list[SSAValue],
    step: Callable[[Builder, Index, list[SSAValue]], list[SSAValue]],
) -> list[SSAValue]:
    """Emit a loop of `size` steps that is unrolled by a divisor of the size, and return the sums after it.

    An iteration has 8 steps if the size is 64, and 4 if it is 12.

    Args:
        build: Receives the code.
        size: Number of steps.
        sums: The sums before the loop.
        step: Emits a step from a builder, its index from 0 to `size` - 1 and the sums before it, and returns the new
            sums.
    """
    unroll_factor = gcd(size, UNROLLED_STEPS)  # divides the size, so that no steps remain

    def steps(inner: Builder, iteration: Index, carried: list[SSAValue]) -> list[SSAValue]:
        """Emit the `unroll_factor` steps of an iteration, from step iteration * unroll_factor on."""
        for i in range(unroll_factor):
            carried = step(inner, inner.linear(iteration, unroll_factor, i), carried)
        return carried

    return build.loop(0, size // unroll_factor, sums, steps)
