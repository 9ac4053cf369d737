"""Tiles as values: computed element by element at each use, or stored in workgroup memory."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from pydispatch.kernels.allocations import WORKGROUP_MEMORY
from pydispatch.kernels.arithmetic import binary, cast, default_type, widens
from pydispatch.kernels.entities import Entity, Literal, Scalar, Tile, described
from pydispatch.kernels.source import Source
from pydispatch.kernels.workgroup_memory import WorkgroupMemory

OTHER_INDEX = object()
"""Entry of `Tile.reads`: an element of the tile reads memory at other indices than its own."""
SAME_INDEX: object = ()
"""Entry of `Tile.reads`: an element of the tile reads a buffer at its own indices."""
MAX_DIMENSIONS = 3
"""Maximum number of axes of a tile."""

Shape = tuple[int, ...]
"""Sizes of a tile."""
Body = Callable[[list[Scalar]], None]
"""Function body(indices of an element) that emits the body of a loop over elements."""
ZERO, ONE = Scalar("%zero", "index"), Scalar("%one", "index")


class TileValues(WorkgroupMemory):
    """Part of the code generator of kernels in the tile style (`TileKernel`): tiles, their elements and their memory.

    A tile is lazy at first: an expression whose elements `element` emits one by one, in a loop of `parallel_over`.
    `materialized` computes it into a buffer of workgroup memory; `release` makes the buffer free for other tiles.
    """

    memory_remedy = "make tiles smaller, or have fewer variables that are tiles"

    def __init__(self, source: Source, workgroup: Sequence[int]) -> None:
        """Begin without buffers for the function `source`. workgroup: invocations along each axis."""
        super().__init__(source, workgroup)
        self._extents: dict[int, Scalar] = {}  # index constants that the prologue defines, by value
        self._free_buffers: dict[tuple[Shape, str], list[str]] = {}  # unused ones, by shape and type
        self._temporaries: list[tuple[tuple[Shape, str], str]] = []  # buffers of the statement: shape, type and name

    # ---- loops over elements

    def extent(self, size: int) -> Scalar:
        """Return a size as an index constant that is defined in the prologue, so that the whole kernel can use it."""
        if size == 0:
            return ZERO
        if size == 1:
            return ONE
        if size not in self._extents:
            self._extents[size] = scalar = Scalar(f"%size{size}", "index")
            self.prologue.append(f"{scalar.name} = arith.constant {size} : index")
        return self._extents[size]

    def parallel_over(
        self, shape: Shape, body: Body, result: str = "", reduced: str = "", bounds: tuple[Scalar, Scalar] | None = None
    ) -> None:
        """Emit a parallel loop over the elements of a tile; axes of size 1 are not looped over.

        Its head is `scf.parallel (...) = (...) to (...) step (...)`, or `%r = scf.parallel ... init (...) -> type` for
        a reduction.

        Args:
            shape: Shape of the tile.
            body: Emits the loop body for a list of indices.
            result: Text before the loop's head that names the result of a reduction, such as "%r = "; "" for none.
            reduced: Text at the end of the head of a reduction, its initial value and type; "" for none.
            bounds: Lower and upper bound of the only axis that is looped over; None for all elements.
        """
        outer = self.writer
        self.writer = outer.nested()
        indices = [ZERO if size == 1 else Scalar(self.writer.fresh(), "index") for size in shape]
        # Pairs (index, size) of the axes that are looped over; a tile of one element has a loop of one iteration.
        looped = [(scalar, self.extent(size)) for scalar, size in zip(indices, shape, strict=True) if size != 1]
        if not looped:
            looped = [(Scalar(self.writer.fresh(), "index"), ONE)]
        body(indices)
        inner, self.writer = self.writer, outer
        if not reduced:  # else `body` has emitted the terminator
            inner.lines.append("scf.reduce")
        names, ends = (", ".join(scalar.name for scalar in column) for column in zip(*looped, strict=True))
        starts, steps = (", ".join([scalar.name] * len(looped)) for scalar in (ZERO, ONE))
        if bounds is not None:
            starts, ends = (bound.name for bound in bounds)
        outer.region(f"{result}scf.parallel ({names}) = ({starts}) to ({ends}) step ({steps}){reduced}", inner)

    # ---- memory

    def memory_type(self, shape: Shape, dtype: str) -> str:
        """Return the memref type of a tile in workgroup memory."""
        return f"memref<{'x'.join(map(str, shape))}x{dtype}, {WORKGROUP_MEMORY}>"

    def buffer(
        self, node: ast.AST, shape: Shape, dtype: str, is_variable: bool = False, is_temporary: bool = False
    ) -> Tile:
        """Allocate or reuse workgroup memory for a tile, and return the uninitialized tile.

        Args:
            node: The expression, for errors.
            shape: Shape of the tile.
            dtype: Element type.
            is_variable: Whether the memory belongs to a variable, which assignments change.
            is_temporary: Whether the memory is released at the end of the statement.
        """
        key = shape, dtype
        free_names = self._free_buffers.get(key)  # released buffers of this shape and type
        if free_names:
            name = free_names.pop()
        else:
            name = f"%tile{self.writer.fresh().removeprefix('%')}"
            self._allocate(node, name, self.memory_type(shape, dtype), math.prod(shape), dtype)
        if is_temporary:
            self._temporaries.append((key, name))
        return self.stored_tile(name, shape, dtype, is_variable)

    def release_temporaries(self) -> None:
        """Release the temporary buffers of the current statement."""
        for key, name in self._temporaries:
            self._free_buffers.setdefault(key, []).append(name)
        self._temporaries.clear()

    def release(self, tile: Tile) -> None:
        """Release the buffer of a tile, for reuse by tiles of the same shape and type."""
        self._free_buffers.setdefault((tile.shape, tile.dtype), []).append(tile.buffer)

    def stored_tile(self, name: str, shape: Shape, dtype: str, is_variable: bool = False) -> Tile:
        """Return a tile whose elements are stored in the buffer `name`."""
        type = self.memory_type(shape, dtype)

        def element(indices: Sequence[Scalar]) -> Scalar:
            """Load the element at these indices from the buffer."""
            subscripts = ", ".join(index.name for index in indices)
            return self.writer.value(f"memref.load {name}[{subscripts}] : {type}", dtype)

        # SAME_INDEX: an element of the tile reads the buffer at its own index only.
        return Tile(shape, dtype, element, reads={name: SAME_INDEX}, buffer=name, is_variable=is_variable)

    def fill(self, node: ast.AST, target: Tile, value: Tile) -> None:
        """Store a tile into a buffer.

        `value` may read that buffer only at the index of the element that it computes.
        """

        def store(indices: list[Scalar]) -> None:
            """Compute the element of `value` at these indices, and store it in the buffer."""
            self.store(target, indices, cast(self.writer, self.element(value, indices), target.dtype))

        self.parallel_over(target.shape, store)

    def store(self, target: Tile, indices: Sequence[Scalar], value: Scalar) -> None:
        """Emit a store of one element of a tile."""
        subscripts = ", ".join(index.name for index in indices)
        type = self.memory_type(target.shape, target.dtype)
        self.writer.line(f"memref.store {value.name}, {target.buffer}[{subscripts}] : {type}")

    def materialized(self, node: ast.AST, value: Tile, is_variable: bool = False, is_temporary: bool = False) -> Tile:
        """Return a tile that is stored in memory; a tile without a buffer is stored first.

        is_variable: the tile gets a buffer of its own. is_temporary: the buffer is released at the end of the
        statement.
        """
        if value.buffer and not is_variable:
            return value
        tile = self.buffer(node, value.shape, value.dtype, is_variable, is_temporary)
        self.fill(node, tile, value)
        return tile

    # ---- elements

    def element(self, tile: Tile, indices: Sequence[Scalar]) -> Scalar:
        """Return the element of a tile at `indices` of the shape that the tile is broadcast to.

        As in NumPy, leading axes that the tile lacks are ignored, and an axis of size 1 has index 0.
        """
        trailing = indices[len(indices) - len(tile.shape) :]
        return tile.element([ZERO if size == 1 else index for index, size in zip(trailing, tile.shape, strict=True)])

    def lazy(
        self, node: ast.AST, shape: Shape, dtype: str, operands: Sequence[Tile],
        element: Callable[[Sequence[Scalar]], Scalar], reads_other_indices: bool = False,
    ) -> Tile:  # fmt: skip
        """Return a tile that is computed at each use.

        Its `reads` has an entry for each memory that the operands read. The entry is OTHER_INDEX unless each element of
        the tile reads only the element with its own index in one slice or buffer of the memory. It is then
        `ViewSlice.origin` of the slice, or SAME_INDEX for a buffer. A statement that writes the same slice can compute
        and store such a tile element by element; any other tile that reads the memory must be stored first.

        Example:
            # The entry for the view x in `reads` of each tile:
            x[i:i + 16] * 2.0            # ((i, True),)
            x[i:i + 16] + x[i:i + 16]    # ((i, True),)
            x[i:i + 16] + x[0:16]        # OTHER_INDEX: two slices
            x[i:i + 16] + x[i:i + 1]     # OTHER_INDEX: element 0 of the second slice is read for all elements

        Args:
            node: The expression, for locations.
            shape: Shape of the tile.
            dtype: Element type.
            operands: Tiles that it is computed from.
            element: Emits the computation of the element at the given indices of the new tile.
            reads_other_indices: Whether `element` reads other indices of the operands than those of the element.
        """
        reads: dict[str, object] = {}
        for operand in operands:
            for name, origin in operand.reads.items():
                # A broadcast operand is read at other indices. Two operands may read one memory by different slices.
                is_broadcast = operand.shape != shape
                is_same_index = not reads_other_indices and not is_broadcast and reads.get(name, origin) == origin
                reads[name] = origin if is_same_index else OTHER_INDEX
        source = self.source

        def located(indices: Sequence[Scalar]) -> Scalar:
            """Emit one element, whose operations have the location of the tile's node."""
            with self.writer.at(source, node):
                return element(indices)

        return Tile(shape, dtype, located, reads)

    def broadcast(self, node: ast.AST, shapes: Sequence[Shape]) -> Shape:
        """Return the shape that shapes broadcast to, as in NumPy. Raise CompileError if they do not broadcast."""
        rank = max(map(len, shapes))
        padded = [(1,) * (rank - len(shape)) + shape for shape in shapes]
        result = []
        for sizes in zip(*padded, strict=True):
            size = next((extent for extent in sizes if extent != 1), 1)
            if any(extent not in (1, size) for extent in sizes):
                listed = " and ".join("x".join(map(str, shape)) for shape in shapes)
                raise self.error(
                    node,
                    f"tiles of {listed} do not go together",
                    "give axes of size 1, as t[:, None] or keepdims=True, or slices of equal sizes",
                )
            result.append(size)
        return tuple(result)

    def elementwise(
        self, nodes: Sequence[ast.expr], entities: Sequence[Entity], make: Callable[..., Scalar | Literal]
    ) -> Entity:
        """Return a lazy tile each of whose elements `make` computes from the elements of the operands.

        Without a tile among the operands, the result is a number. nodes: expressions of the operands `entities`, for
        errors.
        """
        if not any(isinstance(entity, Tile) for entity in entities):
            return super().elementwise(nodes, entities, make)
        operands = [
            self.as_indexable(node, entity) if isinstance(entity, Tile) else self.as_number(node, entity)
            for node, entity in zip(nodes, entities, strict=True)
        ]
        return self.lazy_elementwise(self.writer.node, operands, make)

    def lazy_elementwise(self, node: ast.AST, operands: Sequence[Tile | Any], make: Callable[..., Any]) -> Tile:
        """Return a tile whose elements `make` computes from elements of the operands.

        Operands that are no tiles are passed to `make` unchanged. `make` is called once with dummy elements, to
        determine the type.
        """
        tiles = [operand for operand in operands if isinstance(operand, Tile)]
        shape = self.broadcast(node, [operand.shape for operand in tiles])

        def element_of(elements: Callable[[Tile], Scalar]) -> Scalar:
            """Emit `make` for the elements that `elements` returns for the tiles among the operands."""
            result = make(*(elements(operand) if isinstance(operand, Tile) else operand for operand in operands))
            return cast(self.writer, result, default_type(result)) if isinstance(result, Literal) else result

        # Emit one element into a writer that is discarded, to determine the type and to report errors.
        outer, self.writer = self.writer, self.writer.nested()
        try:
            dtype = element_of(lambda tile: Scalar("%none", tile.dtype)).type
        finally:
            self.writer = outer
        return self.lazy(
            node, shape, dtype, tiles, lambda indices: element_of(lambda tile: self.element(tile, indices))
        )

    def check_type(self, node: ast.AST, tile: Tile, dtype: str, stated: str) -> None:
        """Raise CompileError unless elements of a tile convert implicitly to `dtype`.

        `stated` begins the message: it says where the type is from, such as "an element of 'y' is f32".
        """
        if not widens(tile.dtype, dtype):
            raise self.error(node, f"{stated}, and this is {described(tile)}", f"convert it: pydispatch.{dtype}(...)")

    def as_indexable(self, node: ast.AST, tile: Tile) -> Tile:
        """Return a tile whose elements can be computed one by one. A matrix product is first computed as a whole."""
        return self.materialized(node, tile, is_temporary=True) if tile.product is not None else tile

    def transposed(self, node: ast.AST, tile: Tile) -> Tile:
        """Return a tile with its axes in reverse order, which is computed at each use."""
        result = self.lazy(
            node,
            tile.shape[::-1],
            tile.dtype,
            [tile],
            lambda indices: self.element(tile, indices[::-1]),
            reads_other_indices=True,
        )
        if len(tile.shape) != 2:
            return result
        # A matrix product reads a transposed factor directly from the slice of the view that the matrix loads (`part`).
        return replace(result, part=tile.part, is_transposed=not tile.is_transposed, transpose_of=tile)

    def reshaped(self, node: ast.AST, tile: Tile, shape: Shape) -> Tile:
        """Return a tile of another shape with the elements of a tile, in row-major order."""

        def element(indices: Sequence[Scalar]) -> Scalar:
            """Return the element of `tile` that has the same row-major position as `indices` of the result."""
            # The position in row-major order: index [i, j] of the shape (m, n) is i * n + j.
            linear: Scalar | Literal = Literal(0)
            for index, size in zip(indices, shape, strict=True):
                linear = binary(self.writer, "+", binary(self.writer, "*", linear, Literal(size)), index)
            source_indices: list[Scalar] = []  # in `tile`, computed from the last axis to the first
            for size in reversed(tile.shape):
                source_indices.insert(0, cast(self.writer, binary(self.writer, "%", linear, Literal(size)), "index"))
                linear = binary(self.writer, "//", linear, Literal(size))
            return self.element(tile, source_indices)

        return self.lazy(node, shape, tile.dtype, [tile], element, reads_other_indices=True)

    def filled(self, shape: Shape, value: Scalar) -> Tile:
        """Return a tile whose elements all have the same value."""
        return Tile(shape, value.type, lambda _: value)
