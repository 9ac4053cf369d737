"""Atomic operations on one element of memory for each element of tiles."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from pydispatch.kernels.arithmetic import cast
from pydispatch.kernels.calls import Handler
from pydispatch.kernels.entities import INTEGERS, Entity, MemoryRef, Scalar, Tile, TupleValue, described
from pydispatch.kernels.tiles.products import Products


class Updates(Products):
    """Part of the code generator of kernels in the tile style (`TileKernel`): atomic operations on tiles."""

    def update_elements(
        self, node: ast.Call, handler: Handler, memory: MemoryRef, index: Entity, values: Sequence[Entity]
    ) -> bool:
        """Emit an atomic operation for each element of the tiles among its arguments; return whether there are tiles.

        Without tiles nothing is emitted. Tiles are broadcast to one shape. Elements whose index lies outside of the
        memory are left out. Tiles that read the memory are stored before it changes.

        Args:
            node: The call.
            handler: Emits the operation on one element.
            memory: Memory that the operation updates.
            index: Second argument: one index, or a tuple of them.
            values: Further arguments.
        """
        parts = list(index.items) if isinstance(index, TupleValue) else [index]
        tiles = [part for part in (*parts, *values) if isinstance(part, Tile)]
        if not tiles:
            return False

        # Check the indices, and compute tiles whose elements cannot be computed one by one.
        for part in parts:
            if isinstance(part, Tile) and part.dtype not in INTEGERS:
                raise self.error(node.args[1], f"{described(part)} as indices", "convert it: pydispatch.i32(...)")
        computed = {  # indexable tiles by the `id()` of the argument
            id(tile): self.materialized(node, tile, is_temporary=True) if memory.name in tile.reads
            else self.as_indexable(node, tile)
            for tile in tiles
        }  # fmt: skip
        shape = self.broadcast(node, [tile.shape for tile in tiles])

        def update(at: list[Scalar]) -> None:
            """Emit the operation for the element of the tiles at the indices `at`.

            atomic_add(x, (t, 0), v) with tiles t and v becomes atomic_add(x, (t[at], 0), v[at]), inside of an scf.if
            that tests 0 <= t[at] < x.shape[0]. Here `memory` is x, `parts` are the indices (t, 0), and `values` are the
            further arguments (v). `handler` emits an atomic_add of numbers. Indices that are no tiles are not tested
            here: the handler treats them as in a call without tiles.
            """

            def element(entity: Entity) -> Entity:
                """Return the element of a tile at the indices `at`, or any other argument unchanged.

                `computed` has by the id of a tile its form whose elements can be computed one by one.
                """
                return self.element(computed[id(entity)], at) if isinstance(entity, Tile) else entity

            inside: Scalar | None = None
            indices = []
            for part, extent in zip(parts, memory.shape, strict=False):  # the handler reports a wrong number of indices
                indices.append(element(part))
                if isinstance(part, Tile):
                    position = cast(self.writer, self.as_number(node, indices[-1]), "index")
                    inside = self.and_below(inside, position, extent)
            indices += parts[len(memory.shape) :]  # surplus indices, for the handler's error

            # The handler emits the operation, inside of a branch if an index may lie outside.
            outer = self.writer
            self.writer = outer.nested() if inside is not None else outer
            handler(self, node, [memory, TupleValue(tuple(indices)), *map(element, values)])
            inner, self.writer = self.writer, outer
            if inside is not None:
                outer.branches(f"scf.if {inside.name}", inner, None)

        self.parallel_over(shape, update)
        self.writer.has_effects = True
        return True
