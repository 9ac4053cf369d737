"""Reductions of tiles: along an axis, and over all elements."""

from __future__ import annotations

import ast

from pydispatch.kernels.arithmetic import binary, neutral, reassociable
from pydispatch.kernels.entities import Scalar, Tile
from pydispatch.kernels.tiles.values import ONE, ZERO, TileValues

SYMBOLS = {"sum": "+", "max": "max", "min": "min"}
"""Names of reductions → the operators that combine two elements: the `symbol` of the methods below."""


class Reductions(TileValues):
    """Part of the code generator of kernels in the tile style (`TileKernel`): reductions of tiles.

    `reduced` is the entry. The other methods emit the loops for the whole tile, its last axis, or another axis.
    """

    def reduced(self, node: ast.AST, tile: Tile, symbol: str, axis: int | None, keepdims: bool) -> Scalar | Tile:
        """Reduce a tile along an axis, or over all elements, and return the resulting tile or number.

        Args:
            node: The call, for errors.
            tile: The operand, whose elements can be computed one by one.
            symbol: The operator that combines two elements: "+", "max" or "min".
            axis: The axis, from 0 on; None for all elements.
            keepdims: Whether the result is a tile that keeps each reduced axis with size 1.
        """
        if axis is None or len(tile.shape) == 1:
            total = self._total(tile, symbol)
            return self.filled((1,) * len(tile.shape), total) if keepdims else total
        shape = tuple(1 if dimension == axis else size for dimension, size in enumerate(tile.shape))
        result = self.buffer(node, shape, tile.dtype)
        if axis == len(tile.shape) - 1:
            self._reduce_rows(result, tile, symbol)
        else:
            self._reduce_outer_axis(result, tile, symbol, axis)
        return result if keepdims else self.without_axis(node, result, axis)

    def _combine_partial(self, symbol: str, lhs: Scalar, rhs: Scalar) -> Scalar:
        """Emit the combination of two partial results. Additions of floats are marked as reassociable, so that the
        reduction can be vectorized.
        """
        lines = self.writer.lines
        first = len(lines)
        result = binary(self.writer, symbol, lhs, rhs)
        assert isinstance(result, Scalar)
        lines[first:] = reassociable(lines[first:], lhs.type)
        return result

    def _total(self, tile: Tile, symbol: str) -> Scalar:
        """Emit a reduction over all elements of a tile, in any order, and return its result. symbol: the operator, such
        as "+".
        """
        type = tile.dtype
        start = self.writer.value(f"arith.constant {neutral(symbol, type)} : {type}", type)
        result = Scalar(self.writer.fresh(), type)

        def body(indices: list[Scalar]) -> None:
            """Emit `scf.reduce` of the element at `indices`, with a region that combines two partial results."""
            value = self.element(tile, indices)
            inner = self.writer.nested()
            a, b = Scalar(inner.fresh(), type), Scalar(inner.fresh(), type)
            outer, self.writer = self.writer, inner  # the region has a writer of its own
            total = self._combine_partial(symbol, a, b)
            self.writer = outer
            self.writer.lines += [
                f"scf.reduce({value.name} : {type}) {{",
                f"^bb0({a.name}: {type}, {b.name}: {type}):",
                *(f"  {line}" for line in inner.lines),
                f"  scf.reduce.return {total.name} : {type}",
                "}",
            ]

        self.parallel_over(tile.shape, body, result=f"{result.name} = ", reduced=f" init ({start.name}) -> {type}")
        return result

    def _reduce_rows(self, result: Tile, tile: Tile, symbol: str) -> None:
        """Emit a reduction along the last axis, as one sequential loop per row.

        result: tile whose last axis has size 1. tile: operand. symbol: the operator that combines two elements.
        """
        type, size = tile.dtype, tile.shape[-1]

        def body(indices: list[Scalar]) -> None:
            """Emit a loop along the last axis that reduces a row to one element of the result, at `indices`."""
            writer = self.writer
            start = writer.value(f"arith.constant {neutral(symbol, type)} : {type}", type)
            counter, so_far = Scalar(writer.fresh(), "index"), Scalar(writer.fresh(), type)
            self.writer = writer.nested()
            value = self._combine_partial(symbol, so_far, self.element(tile, [*indices[:-1], counter]))
            self.writer.line(f"scf.yield {value.name} : {type}")
            inner, self.writer = self.writer, writer
            assignment, (total,) = writer.results([type])  # assignment: such as "%8 = "
            writer.region(
                f"{assignment}scf.for {counter.name} = {ZERO.name} to {self.extent(size).name} step {ONE.name} "
                f"iter_args({so_far.name} = {start.name}) -> ({type})",
                inner,
            )
            self.store(result, indices, total)

        self.parallel_over(result.shape, body)

    def _reduce_outer_axis(self, result: Tile, tile: Tile, symbol: str, axis: int) -> None:
        """Emit a reduction along an axis other than the last: one loop that combines the slices of the tile in order.

        result: tile in which that axis has size 1; it is filled with the neutral element first, and slices are added to
        it one by one. symbol: the operator that combines two elements.
        """
        type = tile.dtype
        start = self.writer.value(f"arith.constant {neutral(symbol, type)} : {type}", type)
        self.parallel_over(result.shape, lambda indices: self.store(result, indices, start))
        # The loop over the slices, whose body is emitted first.
        outer = self.writer
        counter = Scalar(outer.fresh(), "index")
        self.writer = outer.nested()  # of the body of the scf.for, which is emitted around it below

        def body(indices: list[Scalar]) -> None:
            """Combine the element of one slice at `indices` into that of the result."""
            # The index in the tile: the loop counter along the reduced axis, where `indices` has 0.
            where = [counter if dimension == axis else index for dimension, index in enumerate(indices)]
            so_far = self.element(result, indices)
            self.store(result, indices, self._combine_partial(symbol, so_far, self.element(tile, where)))

        self.parallel_over(result.shape, body)
        inner, self.writer = self.writer, outer
        end = self.extent(tile.shape[axis])
        outer.region(f"scf.for {counter.name} = {ZERO.name} to {end.name} step {ONE.name}", inner)

    def without_axis(self, node: ast.AST, tile: Tile, axis: int) -> Tile:
        """Return a tile without its axis `axis`, which has size 1."""
        shape = tile.shape[:axis] + tile.shape[axis + 1 :]
        return self.lazy(
            node,
            shape,
            tile.dtype,
            [tile],
            lambda at: self.element(tile, [*at[:axis], ZERO, *at[axis:]]),
            reads_other_indices=True,  # an element of the result has another index than the element that it reads
        )
