"""Atomic operations on one element of memory for each element of tiles."""

from __future__ import annotations

import ast
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydispatch.kernels.arithmetic import cast
from pydispatch.kernels.calls import Handler
from pydispatch.kernels.entities import INTEGERS, Entity, MemoryRef, Scalar, Tile, TupleValue, described
from pydispatch.kernels.tiles.products import Products


@dataclass(frozen=True)
class _Update:
    """Atomic operation on an element of memory for each element of tiles.

    Attributes:
        node: The call.
        handler: Emits the operation on one element.
        memory: Memory that the operation updates.
        indices: Index along each axis of the memory: tiles or numbers.
        values: Further arguments: tiles or numbers.
        indexable: By the `id()` of each tile its form whose elements can be computed one by one.
    """

    node: ast.Call
    handler: Handler
    memory: MemoryRef
    indices: Sequence[Entity]
    values: Sequence[Entity]
    indexable: Mapping[int, Tile]


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
        for part in parts:
            if isinstance(part, Tile) and part.dtype not in INTEGERS:
                raise self.error(node.args[1], f"{described(part)} as indices", "convert it: pydispatch.i32(...)")
        indexable = {
            id(tile): self.materialized(node, tile, is_temporary=True) if memory.name in tile.reads
            else self.as_indexable(node, tile)
            for tile in tiles
        }  # fmt: skip
        update = _Update(node, handler, memory, parts, values, indexable)
        shape = self.broadcast(node, [tile.shape for tile in tiles])
        self.parallel_over(shape, functools.partial(self._update_element, update))
        self.writer.has_effects = True
        return True

    def _update_element(self, update: _Update, at: list[Scalar]) -> None:
        """Emit an operation for the element of the tiles at the indices `at`.

        atomic_add(x, (t, 0), v) with tiles t and v becomes atomic_add(x, (t[at], 0), v[at]), inside of an scf.if that
        tests 0 <= t[at] < x.shape[0]. Indices that are no tiles are not tested here: the handler treats them as in a
        call without tiles.
        """

        def element(entity: Entity) -> Entity:
            """Return the element of a tile at the indices `at`, or any other argument unchanged."""
            return self.element(update.indexable[id(entity)], at) if isinstance(entity, Tile) else entity

        node, memory = update.node, update.memory
        inside: Scalar | None = None
        indices: list[Entity] = []
        for index, extent in zip(update.indices, memory.shape, strict=False):  # the handler reports a wrong number
            indices.append(element(index))
            if isinstance(index, Tile):
                position = cast(self.writer, self.as_number(node, indices[-1]), "index")
                inside = self.and_below(inside, position, extent)
        indices += update.indices[len(memory.shape) :]  # surplus indices, for the handler's error

        # The handler emits the operation, inside of a branch if an index may lie outside.
        outer = self.writer
        self.writer = outer.nested() if inside is not None else outer
        update.handler(self, node, [memory, TupleValue(tuple(indices)), *map(element, update.values)])
        inner, self.writer = self.writer, outer
        if inside is not None:
            outer.branches(f"scf.if {inside.name}", inner, None)
