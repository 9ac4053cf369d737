"""Scans of tiles, and the indices of their extremes: one loop along an axis for each line of elements.

A line is the elements of a tile that differ in their index along that axis only.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from pydispatch.kernels.arithmetic import cast, compare, is_float
from pydispatch.kernels.entities import Literal, Scalar, Tile, TupleValue
from pydispatch.kernels.tiles.reductions import Reductions
from pydispatch.kernels.tiles.values import ONE, ZERO

IndicesAlong = Callable[[Scalar], list[Scalar]]
"""Function from an index along the scanned axis to the indices in the tile of that element of the current line."""
Step = Callable[[list[Scalar], Scalar], list[Scalar]]
"""Function step(carried values, index along the axis) that emits an iteration and returns the next carried values."""


class Scans(Reductions):
    """Part of the code generator of kernels in the tile style (`TileKernel`): scans, and indices of extremes.

    Both are loops along an axis of a tile that carry values from element to element.
    """

    def scanned(self, node: ast.AST, tile: Tile, combine: Callable[[Scalar, Scalar], Scalar], axis: int) -> Tile:
        """Return the scan of a tile: each element is combined with all before it along an axis, in order.

        With addition, [1, 2, 4] becomes [1, 3, 7]. combine: emits the combination of the result so far and an element.
        """
        result = self.buffer(node, tile.shape, tile.dtype)

        def line(at: IndicesAlong) -> None:
            """Emit the scan of one line of elements of `tile`, such as a row, into the tile `result`.

            at: returns all indices of the element whose index along the axis is given.
            """
            initial = self.element(tile, at(ZERO))
            self.store(result, at(ZERO), initial)

            def step(carried: list[Scalar], index: Scalar) -> list[Scalar]:
                """Combine `carried`, the result so far, with the element at `index`; store and return the result.

                at(index) is the position of the element in `tile`, and of its result in `result`.
                """
                combined = combine(carried[0], self.element(tile, at(index)))
                self.store(result, at(index), combined)
                return [combined]

            self._loop_along(tile.shape[axis], [initial], step)

        self._over_lines(tile, axis, line)
        return result

    def extreme_and_index(self, node: ast.AST, tile: Tile, symbol: str, axis: int, keepdims: bool) -> TupleValue:
        """Return the largest (symbol ">") or smallest ("<") elements along an axis, and their indices along it (i32).

        The first of equal elements counts, and the first NaN if there is one: [3, 7, 7] with ">" gives 7 and the index
        1. Both results are tiles in which the axis has size 1, with keepdims; without, the axis is removed, and the
        results for a tile of one axis are numbers.
        """
        shape = tuple(1 if dimension == axis else size for dimension, size in enumerate(tile.shape))
        results = [self.buffer(node, shape, dtype) for dtype in (tile.dtype, "i32")]

        def line(at: IndicesAlong) -> None:
            """Emit a loop along the axis that determines the extreme of one line and its index.

            A line is the elements that differ in their index along the axis only, such as a row of a matrix. `results`
            are the tiles for extremes and indices, in which the axis has size 1: the extreme of the line and its index
            are stored there, at index 0 along the axis.

            at: returns all indices of the element whose index along the axis is given.
            """

            def step(carried: list[Scalar], index: Scalar) -> list[Scalar]:
                """Emit the choice between `carried`, the extreme so far and its index, and the element at `index`.

                `symbol` is ">" for the largest element, "<" for the smallest. at(index) is its position in `tile`.
                """
                best, best_index = carried
                value = self.element(tile, at(index))
                is_better = self._is_better(symbol, value, best)
                pairs = ((value, best), (cast(self.writer, index, "i32"), best_index))
                return [
                    self.writer.value(f"arith.select {is_better.name}, {a.name}, {b.name} : {a.type}", a.type)
                    for a, b in pairs
                ]

            # The loop begins at index 1, with the element at index 0 as the extreme so far.
            initial = [self.element(tile, at(ZERO)), cast(self.writer, Literal(0), "i32")]
            for result, value in zip(results, self._loop_along(tile.shape[axis], initial, step), strict=True):
                self.store(result, at(ZERO), value)

        self._over_lines(tile, axis, line)
        # Both results have the axis with size 1, which is removed without keepdims.
        if keepdims:
            return TupleValue(tuple(results))
        if len(shape) == 1:
            return TupleValue(tuple(self.element(result, [ZERO]) for result in results))
        return TupleValue(tuple(self.without_axis(node, result, axis) for result in results))

    def _is_better(self, symbol: str, value: Scalar, best: Scalar) -> Scalar:
        """Emit the test that a value replaces the best so far: `value symbol best` holds, or it is the first NaN."""
        is_beyond = compare(self.writer, symbol, value, best)
        assert isinstance(is_beyond, Scalar)
        if not is_float(value.type):
            return is_beyond
        tests = [
            self.writer.value(f"arith.cmpf {predicate}, {x.name}, {x.name} : {x.type}", "i1")
            for predicate, x in (("uno", value), ("ord", best))  # x uno x: x is NaN; x ord x: x is a number
        ]
        is_nan = self.writer.value(f"arith.andi {tests[0].name}, {tests[1].name} : i1", "i1")
        return self.writer.value(f"arith.ori {is_beyond.name}, {is_nan.name} : i1", "i1")

    def _over_lines(self, tile: Tile, axis: int, line: Callable[[IndicesAlong], None]) -> None:
        """Emit a parallel loop with one iteration for each line of a tile along an axis.

        `line` emits the body, which visits the elements of its line: it is passed the function that returns all indices
        of the element with a given index along the axis.
        """
        shape = tuple(1 if dimension == axis else size for dimension, size in enumerate(tile.shape))
        self.parallel_over(shape, lambda indices: line(lambda index: [*indices[:axis], index, *indices[axis + 1 :]]))

    def _loop_along(self, size: int, initial: Sequence[Scalar], step: Step) -> list[Scalar]:
        """Emit a sequential loop over the indices 1 to size - 1, and return the values that it carries to its end.

        For an axis of size 8 and one carried value, it is as follows, and the result is [%7]. For an axis of size 1 the
        loop has no iterations, and its results are `initial`.

            %7 = scf.for %4 = %one to %size8 step %one iter_args(%5 = %initial) -> (f32) {
              ...  // step([%5], %4), which returns [%6]
              scf.yield %6 : f32
            }

        Args:
            size: Size of the axis.
            initial: The carried values after index 0, which the caller has handled.
            step: Emits an iteration.
        """
        outer = self.writer
        counter, carried = Scalar(outer.fresh(), "index"), [Scalar(outer.fresh(), value.type) for value in initial]
        self.writer = outer.nested()  # the body is emitted into a nested writer
        values = step(carried, counter)
        types = ", ".join(value.type for value in initial)  # such as "f32, i32"
        self.writer.line(f"scf.yield {', '.join(value.name for value in values)} : {types}")
        inner, self.writer = self.writer, outer
        assignment, results = outer.results([value.type for value in initial])
        passed = ", ".join(f"{a.name} = {b.name}" for a, b in zip(carried, initial, strict=True))
        outer.region(
            f"{assignment}scf.for {counter.name} = {ONE.name} to {self.extent(size).name} step {ONE.name} "
            f"iter_args({passed}) -> ({types})",
            inner,
        )
        return results
