"""Matrix products of tiles, which stay unevaluated until the memory that accumulates them is known."""

from __future__ import annotations

import ast
from dataclasses import replace

from pydispatch.kernels.arithmetic import cast
from pydispatch.kernels.entities import Entity, Product, Scalar, Tile, described
from pydispatch.kernels.tiles.slices import Range, Slices, ViewSlice

ACCUMULATOR_TYPES = {"f16": "f32", "bf16": "f32", "f32": "f32", "f64": "f64", "i8": "i32", "i32": "i32", "i64": "i64"}
"""Element type of both factors → type in which their products are summed, and of the result."""


class Products(Slices):
    """Part of the code generator of kernels in the tile style (`TileKernel`): matrix products of tiles."""

    def matrix_product(self, node: ast.BinOp | ast.AugAssign, lhs: Entity, rhs: Entity) -> Entity:
        """Return `lhs @ rhs` as an unevaluated product. Raise CompileError unless shapes fit and types are equal."""
        if not isinstance(lhs, Tile) or not isinstance(rhs, Tile):
            return super().matrix_product(node, lhs, rhs)
        if len(lhs.shape) != 2 or len(rhs.shape) != 2 or lhs.shape[1] != rhs.shape[0]:
            raise self.error(
                node,
                f"'@' of tiles of {lhs.shape_text} and {rhs.shape_text}",
                "the second has as many rows as the first has columns; t.T is the transposed tile",
            )
        if lhs.dtype != rhs.dtype or lhs.dtype not in ACCUMULATOR_TYPES:
            remedy = f"convert one of them: pydispatch.{lhs.dtype if lhs.dtype in ACCUMULATOR_TYPES else 'f32'}(...)"
            raise self.error(node, f"'@' of {described(lhs)} and {described(rhs)}", remedy)
        a, b = self.as_indexable(node, lhs), self.as_indexable(node, rhs)
        return self._product_tile(node, Product(a=a, b=b, base=None))

    def _product_tile(self, node: ast.AST, product: Product) -> Tile:
        """Return the tile of an unevaluated product a @ b, or base + a @ b if it has an addend `base`.

        Its type is the accumulator type of the factors. It reads all memory that the factors and the addend read.
        """
        a, b, base = product.a, product.b, product.base
        shape = a.shape[0], b.shape[1]

        def never(_: object) -> Scalar:
            """Raise AssertionError: no element of a product is computed by itself, but all of them by pyd.matmul."""
            raise AssertionError("a product is computed as a whole")

        result = self.lazy(node, shape, ACCUMULATOR_TYPES[a.dtype], [a, b], never, reads_other_indices=True)
        reads = {**(base.reads if base else {}), **result.reads}
        return replace(result, reads=reads, product=product)

    def summed_product(self, node: ast.AST, lhs: Entity, rhs: Entity) -> Tile | None:
        """Return lhs + rhs as one product if an operand is a product without a `base`, which the other one becomes.

        Return None if neither operand is such a product, or if shapes or types differ: the sum is then computed element
        by element. If both are products, lhs becomes the product and rhs its base.
        """
        for tile, addend in ((lhs, rhs), (rhs, lhs)):
            if not isinstance(tile, Tile) or not isinstance(addend, Tile) or tile.product is None:
                continue
            if tile.product.base is None and (tile.shape, tile.dtype) == (addend.shape, addend.dtype):
                return self._product_tile(node, replace(tile.product, base=addend))
        return None

    def fill(self, node: ast.AST, target: Tile, value: Tile) -> None:
        """Emit the code that writes the tile `value` into the buffer of `target`.

        A matrix product `base + a @ b` is accumulated there by `pyd.matmul %a, %b, %target`, after the buffer was set
        to `base`, or to 0 for `a @ b` alone.
        """
        product = value.product
        if product is None:
            super().fill(node, target, value)
            return
        # Set the buffer to the addend.
        base = product.base
        if base is None:
            zero = self.filled((1, 1), self.writer.constant(0, target.dtype))  # one element, broadcast to the buffer
            super().fill(node, target, zero)
        elif base.buffer != target.buffer:  # else the buffer has the addend already, as in total += a @ b
            self.fill(node, target, base)
        # Store the factors, and accumulate their product.
        factors = [self._factor(node, tile) for tile in (product.a, product.b)]
        # `_factor` has stored computed factors already. The lines that read views directly precede the product.
        for lines, _ in factors:
            self.writer.lines += lines
        tiles = [*(factor for _, factor in factors), target]
        types = ", ".join(self.memory_type(tile.shape, tile.dtype) for tile in tiles)
        self.writer.line(f"pyd.matmul {', '.join(tile.buffer for tile in tiles)} : {types}")
        self.writer.has_effects = True

    def _factor(self, node: ast.AST, tile: Tile) -> tuple[list[str], Tile]:
        """Return (lines that read a factor of a product into memory, the tile in this memory).

        The caller emits the lines right before the product.

        - A slice x[i:i + 16, k:k + 8] of a view, or its transpose, is read as a whole. The last line is
          `pyd.read_tile %p_x[%i, %k], %tile3 : memref<?x?xf32>, memref<16x8xf32, ...>`, and the tile is that of %tile3.
        - A tile that is stored already is the result, without lines.
        - Any other tile is stored element by element by this method, without lines.

        The transpose of a computed tile is stored in two steps: first the tile, then its transpose. In one step its
        elements would be computed column by column, and loads from views would not be vectorized.
        """
        # The transpose of a tile that is neither a slice of a view nor stored.
        original = tile.transpose_of
        if original is not None and original.part is None and not original.buffer:
            tile = self.transposed(node, self.materialized(node, original, is_temporary=True))
        part = tile.part  # the slice of a view that the tile is, else None or another part of memory
        ranges = [range_ for range_ in part.ranges if isinstance(range_, Range) and range_.is_slice] if part else []
        # pyd.read_tile reads a range along each dimension. A tile with another index (a single one, or a tile of them)
        # is stored element by element; one that is stored already is returned by `materialized`.
        if tile.buffer or not isinstance(part, ViewSlice) or len(ranges) < len(part.ranges):
            return [], self.materialized(node, tile, is_temporary=True)
        target = self.buffer(node, tile.shape, tile.dtype, is_temporary=True)
        outer, self.writer = self.writer, self.writer.nested()
        starts = ", ".join(cast(self.writer, range_.start, "index").name for range_ in ranges)
        types = f"{part.memory.type}, {self.memory_type(tile.shape, tile.dtype)}"
        # The keyword `turned` of pyd.read_tile: the axes of the tile are swapped.
        turned = " turned" if tile.is_transposed else ""
        self.writer.line(f"pyd.read_tile {part.memory.name}[{starts}], {target.buffer}{turned} : {types}")
        inner, self.writer = self.writer, outer
        return inner.lines, target
