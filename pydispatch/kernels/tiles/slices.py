"""Parts of views, by slices and by tiles of indices: their static sizes, and accesses with bounds checks."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pydispatch.kernels.arithmetic import binary, cast
from pydispatch.kernels.entities import INTEGERS, Entity, Literal, MemoryRef, Scalar, Tile, described
from pydispatch.kernels.tiles.scans import Scans
from pydispatch.kernels.tiles.values import MAX_DIMENSIONS, OTHER_INDEX, Shape

EXAMPLE = "write x[i:i + 16]: its size is known when the kernel is compiled"
"""Remedy in errors about slices."""


@dataclass(frozen=True)
class Range:
    """Range of elements along one dimension of a view.

    Attributes:
        start: Index of the first element, or the single index.
        size: Number of elements; None for a single index, as j of x[i:i + 16, j], which is no axis of the slice.
        extent: Size of the view along this dimension.
    """

    start: Scalar | Literal
    size: int | None
    extent: Scalar | Literal

    @property
    def is_slice(self) -> bool:
        """Whether the range is an axis of the slice; a single index is none."""
        return self.size is not None

    @property
    def is_inside(self) -> bool:
        """Whether accesses of the range need no bounds check: it is known at compile time to be within the view.

        A single index needs none, either: unlike a slice, it may not reach beyond the view in a correct kernel.
        """
        if self.size is None:  # a single index
            return True
        if not isinstance(self.start, Literal) or not isinstance(self.extent, Literal):
            return False
        return bool(0 <= self.start.value <= self.extent.value - self.size)


@dataclass(frozen=True)
class IndexTile:
    """Indices along one dimension of a view that are the elements of a tile, as in x[t].

    Attributes:
        start: The tile.
        extent: Size of the view along this dimension.
        size: None, as for a single index in `Range`.
        is_slice: False, since the dimension is no axis of the slice by itself.
        is_inside: False, since the indices are not known at compile time.
    """

    start: Tile
    extent: Scalar | Literal
    size: None = None
    is_slice: bool = False
    is_inside: bool = False


@dataclass(frozen=True)
class ViewSlice:
    """Part of a view that a subscript such as x[i:i + 16, j] denotes. It may reach beyond the view.

    Elements outside of the view are never accessed: loads give another value there, and stores skip them.

    x[i:i + 16, j] of a view x[m, n] has the ranges (Range(i, 16, m), Range(j, None, n)), and the shape (16,). With a
    tile t of 8 indices, x[t, i:i + 4] has the `index_shape` (8,), the `index_axis` 0, and the shape (8, 4).

    Attributes:
        memory: The view.
        ranges: The indices along each dimension of the view.
        index_shape: Shape that all tiles among the indices are broadcast to; () without such tiles.
        index_axis: Axis of the loaded tile (`shape`) at which `index_shape` begins.
    """

    memory: MemoryRef
    ranges: tuple[Range | IndexTile, ...]
    index_shape: Shape = ()
    index_axis: int = 0

    @property
    def shape(self) -> Shape:
        """Shape of the tile that the slice loads: an axis for each range, none for a single index.

        All tiles among the indices, which are broadcast together, contribute the axes `index_shape` at `index_axis`.
        """
        sizes = tuple(range_.size for range_ in self.ranges if range_.size is not None)
        return sizes[: self.index_axis] + self.index_shape + sizes[self.index_axis :]

    @property
    def index_tiles(self) -> list[Tile]:
        """Tiles among the indices."""
        return [range_.start for range_ in self.ranges if isinstance(range_, IndexTile)]

    @property
    def origin(self) -> object:
        """Start index of each dimension, and whether the dimension is an axis of the slice.

        Slices with the same origin have the same element at the same index.
        """
        return tuple((range_.start, range_.is_slice) for range_ in self.ranges)


class Slices(Scans):
    """Part of the code generator of kernels in the tile style (`TileKernel`): loads and stores of slices of views.

    `slice_of` analyses a subscript such as x[i:i + 16, j]; `loaded` and `write` emit accesses to elements of the slice.
    """

    _within_bounds: tuple[Scalar | Literal, Scalar | Literal, Scalar] | None = None
    """(start of the slice, size of the view, SSA value of the loop index) of the loop that `write` is emitting, if its
    bounds ensure that start + index is within the view. Loads and stores in its body, of slices with the same start and
    size of the view, omit the test of their bounds. None outside of such a loop."""

    def slice_of(self, node: ast.Subscript, memory: MemoryRef) -> ViewSlice:
        """Return the slice of a view that a subscript denotes, such as x[i:i + 16, j].

        Raise CompileError if a size is not known at compile time.
        """
        nodes = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if len(nodes) != len(memory.shape):
            names = ", ".join("ijkl"[: len(memory.shape)])
            raise self.error(
                node,
                f"{len(nodes)} {'index' if len(nodes) == 1 else 'indices'} of {described(memory)}",
                f"give an index or a slice for each dimension: [{names}]",
            )
        # One entry per dimension of the view; a tile of indices gives axes to the slice, a single index gives none.
        ranges = tuple(
            self._range(index, size, dimension) if isinstance(index, ast.Slice)
            else self._index_of_dimension(node, index, size, dimension)
            for dimension, (index, size) in enumerate(zip(nodes, memory.shape, strict=True))
        )  # fmt: skip
        part = self._with_index_axis(node, ViewSlice(memory, ranges))
        if len(part.shape) > MAX_DIMENSIONS:
            raise self.error(node, f"a tile of {len(part.shape)} dimensions", "tiles have one to three")
        return part

    def _index_of_dimension(
        self, node: ast.Subscript, index: ast.expr, size: Scalar | Literal, dimension: int
    ) -> Range | IndexTile:
        """Return the indices of one dimension that a number or a tile of integers states.

        node: the subscript. index: its item for this dimension. size: size of the view along it.
        """
        entity = self.evaluate(index)
        if not isinstance(entity, Tile):
            start = self.index(node, index, entity, size, dimension)
            return Range(start, size=None, extent=size)  # size None: a single index, whose dimension is dropped
        if entity.dtype not in INTEGERS:
            raise self.error(index, f"{described(entity)} as indices", "convert it: pydispatch.i32(...)")
        return IndexTile(self.as_indexable(index, entity), extent=size)

    def _with_index_axis(self, node: ast.Subscript, part: ViewSlice) -> ViewSlice:
        """Return a part of a view in which the tiles among its indices are broadcast to one shape, as in NumPy.

        The axes of that shape are where the first of these tiles is. With a number a and tiles t and u of 8 indices,
        x[a, t, b:b + 4] is [8, 4], x[b:b + 4, t, u] is [4, 8], and x[t[:, None], u] is [8, 8]. Raise CompileError for a
        slice between two tiles, for which NumPy has another order of the axes.
        """
        tile_dimensions = [dimension for dimension, range_ in enumerate(part.ranges) if isinstance(range_, IndexTile)]
        if not tile_dimensions:
            return part
        if any(range_.is_slice for range_ in part.ranges[tile_dimensions[0] : tile_dimensions[-1]]):
            raise self.error(
                node,
                "a slice between two tiles of indices",
                "put the slice before or after them, with a view of that order",
            )
        axis = sum(range_.is_slice for range_ in part.ranges[: tile_dimensions[0]])  # axes before the first tile
        shape = self.broadcast(node, [tile.shape for tile in part.index_tiles])
        return replace(part, index_shape=shape, index_axis=axis)

    def _range(self, node: ast.Slice, extent: Scalar | Literal, dimension: int) -> Range:
        """Return the range of one dimension of a slice.

        node: the slice `start:end`. extent: size of the view along this dimension. dimension: its index, for errors.
        Raise CompileError for a step, a negative start, and a size that is not known at compile time.
        """
        if node.step is not None:
            raise self.error(node.step, "a slice with a step is not a part of kernels", EXAMPLE)
        # The size is a number, the start a literal or a value of the program.
        size = self._size(node, extent)
        start: Scalar | Literal = Literal(0) if node.lower is None else self.number(node.lower)
        if isinstance(start, Literal):
            if not isinstance(start.value, int) or isinstance(start.value, bool):
                raise self.error(node, f"a slice that begins at {start.value!r}", "write a whole number")
            if start.value < 0:
                raise self.error(
                    node,
                    f"a slice that begins at {start.value}; slices do not count from the end",
                    f"write x.shape[{dimension}] - {-start.value}:x.shape[{dimension}]",
                )
        elif start.type not in INTEGERS:
            raise self.error(node, f"a slice that begins at {described(start)}", "convert it: pydispatch.i32(...)")
        return Range(
            start if isinstance(start, Literal) else cast(self.writer, start, "index"), size=size, extent=extent
        )

    def _size(self, node: ast.Slice, extent: Scalar | Literal) -> int:
        """Return the number of elements of a slice: 16 for x[i:i + 16].

        Start and end are read as sums of variables and a number, {"i": 1, "": 16}. All variables must cancel in their
        difference, the size. A slice without end goes to the end of the view, `extent`.
        """
        low: dict[str, int] = {} if node.lower is None else self._linear_terms(node.lower)
        if node.upper is not None:
            high = self._linear_terms(node.upper)
        elif isinstance(extent, Literal):
            high = {"": int(extent.value)}
        else:
            raise self.error(node, f"the size of the slice '{ast.unparse(node)}' is known in calls only", EXAMPLE)
        # The end minus the start: only the number, under "", may be other than 0.
        distance = {name: high.get(name, 0) - low.get(name, 0) for name in low.keys() | high.keys()}
        size = distance.pop("", 0)
        if any(distance.values()):
            raise self.error(
                node,
                f"the size of the slice '{ast.unparse(node)}' is not known when the kernel is compiled",
                "end it with its beginning and a number or a pydispatch.static parameter: x[i:i + 16]",
            )
        if size < 1:
            raise self.error(node, f"the slice '{ast.unparse(node)}' has {size} elements", EXAMPLE)
        return size

    def _linear_terms(self, node: ast.expr) -> dict[str, int]:
        """Return an expression as a linear combination: the coefficient of each term, and the constant under "".

        `2 * i + 16` gives {"i": 2, "": 16}. Terms are compared by their source text, since an expression has one value
        within one slice.
        """
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub, ast.Mult)):
            a, b = self._linear_terms(node.left), self._linear_terms(node.right)
            if isinstance(node.op, ast.Mult):
                # If one factor is a number, make it b. The product of two variables is a term of its own, below.
                if b.keys() - {""}:  # b has variables
                    a, b = b, a
                if not b.keys() - {""}:  # b is a number
                    return {name: count * b.get("", 0) for name, count in a.items()}
            else:
                sign = 1 if isinstance(node.op, ast.Add) else -1
                return {name: a.get(name, 0) + sign * b.get(name, 0) for name in a.keys() | b.keys()}
        value = self._compile_time_int(node)
        return {ast.unparse(node): 1} if value is None else {"": value}

    def _compile_time_int(self, node: ast.expr) -> int | None:
        """Return the value of an expression that is an integer at compile time, else None. No operation is emitted."""
        outer, saved = self.writer, self.environment
        self.writer, self.environment = outer.nested(), dict(saved)  # discarded after the evaluation
        try:
            value = self.evaluate(node)
        finally:
            self.writer, self.environment = outer, saved
        is_known = isinstance(value, Literal) and isinstance(value.value, int) and not isinstance(value.value, bool)
        return value.value if is_known and isinstance(value, Literal) else None  # type: ignore[return-value]

    # ---- accesses

    def _inside(self, part: ViewSlice, indices: Sequence[Scalar]) -> tuple[str, Scalar | None]:
        """Emit the indices in the view of one element of a slice; return them as text, and the condition (i1) that they
        are within bounds.

        For element [%k] of x[i:i + 16, j] of a view with n rows, this emits `%5 = arith.addi %i, %k : index` and
        `%6 = arith.cmpi ult, %5, %n : index`, and returns ("%5, %j", %6). Single indices such as j are not tested. The
        condition is None if no index needs a test.

        Args:
            part: The slice.
            indices: Indices of the element in the tile that the slice loads, one for each axis of `part.shape`.
        """
        # All tiles among the indices share the axes `index_shape` of the loaded tile: x[t, u] loads x[t[k], u[k]].
        # These axes are from `index_axis` to before `index_end`.
        index_end = part.index_axis + len(part.index_shape)
        slice_indices = iter([*indices[: part.index_axis], *indices[index_end:]])  # those along ranges
        # Tests are combined by `and_below`, which emits `inside` and 0 <= subscript < extent.
        subscripts = []
        inside: Scalar | None = None
        for range_ in part.ranges:
            if isinstance(range_, IndexTile):
                subscript = cast(self.writer, self.element(range_.start, indices[part.index_axis : index_end]), "index")
                subscripts.append(subscript.name)
                inside = self.and_below(inside, subscript, range_.extent)
                continue
            start = cast(self.writer, range_.start, "index")
            if range_.size is None:  # a single index, which is no axis of the slice
                subscripts.append(start.name)
                continue
            index = next(slice_indices)
            starts_at_0 = isinstance(range_.start, Literal) and range_.start.value == 0
            subscript = (
                index if starts_at_0 else self.writer.value(f"arith.addi {start.name}, {index.name} : index", "index")
            )
            subscripts.append(subscript.name)
            # `_within_bounds` is (start, extent, loop index) of a loop whose end `write` has computed such that
            # start + loop index is inside of the view.
            has_loop_bounds = (range_.start, range_.extent, index) == self._within_bounds
            if range_.is_inside or has_loop_bounds:
                continue
            inside = self.and_below(inside, subscript, range_.extent)
        return ", ".join(subscripts), inside

    def and_below(self, inside: Scalar | None, index: Scalar, extent: Scalar | Literal) -> Scalar:
        """Emit the conjunction of `inside`, None for true, and 0 <= index < extent, one unsigned comparison."""
        end = cast(self.writer, extent, "index")
        is_below = self.writer.value(f"arith.cmpi ult, {index.name}, {end.name} : index", "i1")
        if inside is None:
            return is_below
        return self.writer.value(f"arith.andi {inside.name}, {is_below.name} : i1", "i1")

    def loaded(self, node: ast.AST, part: ViewSlice, other: Scalar | None = None) -> Tile:
        """Return the tile that a slice of a view loads.

        The tile is lazy: its elements are loaded where they are read. It records what it reads (`Tile.reads`), so that
        it is stored before that memory changes. Element [%k] of x[i:i + 16] of a view of n elements is

            %4 = arith.addi %i, %k : index
            %5 = arith.cmpi ult, %4, %n : index
            %6 = scf.if %5 -> (f32) { load of x[%4], scf.yield } else { scf.yield of `other` }

        Args:
            node: The subscript or call, for locations.
            part: The slice.
            other: Value of elements outside of the view; None for 0.
        """
        memory = part.memory
        if memory.parameter:  # a view, rather than workgroup memory
            self.read.add(memory.parameter)

        def element(indices: Sequence[Scalar]) -> Scalar:
            """Load an element of the slice; where it is outside of the view, the result is `other` or 0."""
            subscripts, inside = self._inside(part, indices)
            text = f"memref.load {memory.name}[{subscripts}] : {memory.type}"
            if inside is None:
                return self.writer.value(text, memory.dtype)
            outside = other or self.writer.constant(0, memory.dtype)
            inner = self.writer.nested()
            loaded = inner.value(text, memory.dtype)
            inner.line(f"scf.yield {loaded.name} : {memory.dtype}")
            otherwise = self.writer.nested()
            otherwise.line(f"scf.yield {outside.name} : {memory.dtype}")
            assignment, (value,) = self.writer.results([memory.dtype])
            self.writer.branches(f"{assignment}scf.if {inside.name} -> ({memory.dtype})", inner, otherwise)
            return value

        # An element of an index tile is read for elements of other indices: t[k] for all [k, j] of x[t, 0:4].
        tile = self.lazy(node, part.shape, memory.dtype, part.index_tiles, element, reads_other_indices=True)
        reads = {**tile.reads, memory.name: OTHER_INDEX if part.index_tiles else part.origin}
        # A matrix product reads a factor with a `part` directly from the view, and takes 0 outside of it. A tile with
        # another value outside has no `part`: the product then stores the tile element by element first.
        return Tile(tile.shape, tile.dtype, tile.element, reads, part=None if other else part)

    def write(self, node: ast.Subscript, part: ViewSlice, value: Entity, value_node: ast.AST) -> None:
        """Emit the loop that stores a value into a slice of a view; elements outside of the view are skipped.

        A slice with one axis of several elements is stored without a test in the loop body, which can then be
        vectorized: for x[i:i + 16] of a view of n elements, the loop runs from max(0, -i) to min(16, n - i). In loops
        over several axes, each store is inside of an scf.if if its index may be outside of the view.

        Args:
            node: Target of the assignment, such as x[i:i + 16].
            part: The slice that it denotes.
            value: A tile, or a number that all elements get.
            value_node: Node of the value, for errors.
        """
        memory, what = part.memory, f"an element of '{ast.unparse(node.value)}'"
        # Tiles of indices that are read from the memory are computed before it changes.
        part = replace(part, ranges=tuple(self._unaffected(node, range_, memory) for range_ in part.ranges))
        if isinstance(value, Tile):
            tile = self._storable(value_node, value, part, what)
        else:  # one element, which is broadcast to the slice
            tile = self.filled((1,) * len(part.shape), self.converted(value_node, value, memory.dtype, what))
        self.record_write(node, memory)

        # The bounds of the loop replace the test if a range is the only axis with several elements, so that the loop is
        # over this axis alone, and if the range may reach beyond the view.
        axis = next(
            (range_ for range_ in part.ranges if isinstance(range_, Range) and range_.size not in (None, 1)), None
        )
        is_bounded = axis is not None and part.shape.count(1) == len(part.shape) - 1 and not axis.is_inside

        def store(indices: list[Scalar]) -> None:
            """Store an element of the tile in the slice, guarded unless it is known to be inside."""
            if is_bounded and axis is not None:  # `_inside` then omits tests that the bounds of the loop imply
                # The slice has one axis of another size than 1: the loop's.
                loop_index = next(index for index, size in zip(indices, part.shape, strict=True) if size != 1)
                self._within_bounds = axis.start, axis.extent, loop_index
            stored = cast(self.writer, self.element(tile, indices), memory.dtype)
            subscripts, inside = self._inside(part, indices)
            text = f"memref.store {stored.name}, {memory.name}[{subscripts}] : {memory.type}"
            if inside is None:
                self.writer.line(text)
                return
            inner = self.writer.nested()
            inner.line(text)
            self.writer.branches(f"scf.if {inside.name}", inner, None)

        self.parallel_over(part.shape, store, bounds=self._bounds(axis) if is_bounded and axis is not None else None)
        self._within_bounds = None

    def _storable(self, node: ast.AST, value: Tile, part: ViewSlice, what: str) -> Tile:
        """Return a tile as one whose elements can be computed and stored into a slice one by one.

        Raise CompileError if its shape or type do not fit. `what` describes an element of the slice in messages.
        """
        tile, memory = self.as_indexable(node, value), part.memory
        padded = (1,) * (len(part.shape) - len(tile.shape)) + tile.shape
        # The tile broadcasts to the slice: it has no more axes, and each has size 1 or that of the slice.
        if len(padded) != len(part.shape) or any(a not in (1, b) for a, b in zip(padded, part.shape, strict=True)):
            sizes = "x".join(map(str, part.shape))
            message = f"a tile of {tile.shape_text} is stored into {sizes} elements"
            raise self.error(node, message, "store a tile of the same shape")
        self.check_type(node, tile, memory.dtype, f"{what} is {memory.dtype}")
        # A tile that reads other elements of the memory than it is stored to is computed before the first store. The
        # origin of a slice is the start of each range. Equal origins and shapes: each element reads only the element of
        # the memory that it is stored to.
        read_origin = tile.reads.get(memory.name, part.origin)
        if read_origin != part.origin or (memory.name in tile.reads and tile.shape != part.shape):
            return self.materialized(node, tile, is_temporary=True)
        return tile

    def _unaffected(self, node: ast.AST, range_: Range | IndexTile, memory: MemoryRef) -> Range | IndexTile:
        """Return `range_`, made independent of stores to `memory`: a lazy tile of indices that reads it is stored
        first.
        """
        if isinstance(range_, IndexTile) and memory.name in range_.start.reads:
            return replace(range_, start=self.materialized(node, range_.start, is_temporary=True))
        return range_

    def _bounds(self, axis: Range) -> tuple[Scalar, Scalar]:
        """Emit the first index along an axis of a slice whose element is in the view, and the end of these indices.

        x[i:i + 16] of a view of n elements has the bounds max(0, 0 - i) and min(16, n - i). Slices with equal start and
        extent, as in one elementwise expression, have equal bounds.
        """
        start, extent, size = axis.start, axis.extent, Literal(axis.size or 1)  # a single index is one element
        low = binary(self.writer, "max", Literal(0), binary(self.writer, "-", Literal(0), start))
        high = binary(self.writer, "min", size, binary(self.writer, "-", extent, start))
        return cast(self.writer, low, "index"), cast(self.writer, high, "index")
