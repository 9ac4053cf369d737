"""Parts of matrices in memory: offsets of their elements, and bounds checks."""

from __future__ import annotations

from dataclasses import replace

from xdsl.dialects import arith, memref, scf
from xdsl.dialects.builtin import AnyFloat, IndexType, IntegerAttr, IntegerType, MemRefType, StridedLayoutAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from pydispatch.compiler.kernel_ir.expand.layout import LayoutOp
from pydispatch.compiler.kernel_ir.expand.views import Strided, strided
from pydispatch.compiler.kernels.loops.transpose_blocks import view_as
from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.compiler.kernels.ops.conditions import both
from pydispatch.compiler.kernels.ops.tensors import zero_attribute
from pydispatch.ir.dialects.hal.interface import InterfaceBindingSubspanOp
from pydispatch.ir.dialects.pyd.tiles import ReadTileOp


def memref_type(value: SSAValue) -> MemRefType[Attribute]:
    """Return the type of a value that is a memref."""
    type_ = value.type
    assert isinstance(type_, MemRefType)
    return type_


def element_of(value: SSAValue) -> Attribute:
    """Return the element type of a value that is a memref."""
    return memref_type(value).element_type


def shape_of(value: SSAValue) -> tuple[int, int]:
    """Return the static numbers of rows and columns of a memref with two dimensions."""
    rows, columns = memref_type(value).get_shape()
    return rows, columns


class TileView:
    """Matrix that begins at an offset in a memref: a tile, or the part of a view that a tile is read from.

    The matrix may extend beyond the memref: methods return which rows and columns of the matrix are inside. The size of
    the matrix is the shape of the tile. It is no attribute: callers pass it to the methods that need it.

    Args:
        op: Operation that uses the memref, which errors name.
        value: The memref, with two dimensions.
        first: Indices in the memref of element (0, 0) of the matrix.
        transposed: Whether rows of the matrix are along columns of the memref.
        layout: Storage, offset, sizes and strides of the memref; None to derive them from `value`.
    """

    def __init__(
        self, op: Operation, value: SSAValue, first: tuple[Index, Index] = (0, 0), transposed: bool = False,
        layout: Strided | None = None,
    ) -> None:  # fmt: skip
        """Derive the layout from `value` unless it is passed. For the arguments see the class."""
        self.value, self.first, self.transposed = value, first, transposed
        self.layout = layout or _with_stated_sizes(strided(op, value), value)

    @property
    def matrix_strides(self) -> tuple[Index, Index]:
        """The distance, in elements, between neighbouring rows of the matrix, and between neighbouring columns.

        `layout.strides` are those of the memref, which are exchanged if the matrix is transposed.
        """
        down, right = self.layout.strides
        return (right, down) if self.transposed else (down, right)

    def view(self, build: Builder, row: Index, column: Index, sizes: tuple[Index, Index]) -> SSAValue:
        """Emit a view of the block of the matrix with these sizes that begins at `row` and `column`, and return it.

        The dimensions of the view are the rows and columns of the matrix, also if it is transposed.
        """
        memref_indices = (column, row) if self.transposed else (row, column)
        offset = self.layout.offset
        for first_index, index, stride in zip(self.first, memref_indices, self.layout.strides, strict=True):
            offset = build.plus(offset, build.times(build.plus(first_index, index), stride))
        return view_as(build, self.layout.storage, offset, sizes, strides=self.matrix_strides)

    def split(self, build: Builder, position: Index, shape: tuple[int, int]) -> list[Index]:
        """Return the row and column of a position in a grid of this shape, in the order of the memref's memory.

        Positions count row by row, or column by column if the matrix is transposed.
        """
        if not self.transposed:
            return build.split(position, shape)
        column, row = build.split(position, (shape[1], shape[0]))
        return [row, column]

    def indices_of(self, build: Builder, row: Index, column: Index) -> list[SSAValue]:
        """Return the indices in the memref of an element of the matrix."""
        indices = (column, row) if self.transposed else (row, column)
        return [build.value(build.plus(start, index)) for start, index in zip(self.first, indices, strict=True)]

    def _start_and_size(self, dimension: int) -> tuple[Index, Index]:
        """Return where the rows (dimension 0) or columns (1) of the matrix begin in the memref, and the memref's size.

        Both are those of the memref's dimension that numbers these rows or columns: the other one if the matrix is
        transposed.
        """
        memref_dimension = 1 - dimension if self.transposed else dimension
        return self.first[memref_dimension], self.layout.sizes[memref_dimension]

    def is_known_inside(self, dimension: int, size: int) -> bool:
        """Return whether `size` rows (dimension 0) or columns (1) are known at compile time to be inside the memref."""
        start, extent = self._start_and_size(dimension)
        return isinstance(start, int) and isinstance(extent, int) and 0 <= start <= extent - size

    def is_inside(self, build: Builder, dimension: int, size: int) -> SSAValue | bool:
        """Return whether the first `size` rows (dimension 0) or columns (1) of the matrix are inside the memref.

        The result is a bool if it is known at compile time, else an i1. It is also false if the matrix begins before
        the memref along the other dimension. Whether it ends after the memref along the other dimension is not checked
        here: callers check it by another call, or end their loop over that dimension at the end of the memref.
        """
        condition: SSAValue | bool = True
        start, extent = self._start_and_size(dimension)
        other_start, _ = self._start_and_size(1 - dimension)
        # low <= high for each pair: 0 <= start, start + size <= extent and 0 <= other_start. The second is computed as
        # start <= extent - size, because start + size may wrap around for a matrix that is outside.
        for low, high in ((0, start), (start, build.minus(extent, size)), (0, other_start)):
            if isinstance(low, int) and isinstance(high, int):
                condition = both(build, condition, low <= high)
            else:
                condition = both(build, condition, build.pure(arith.CmpiOp(build.value(low), build.value(high), "sle")))
        return condition

    def is_completely_inside(self, build: Builder, shape: tuple[int, int]) -> SSAValue | bool:
        """Return whether the memref contains all of a matrix of this shape; a bool if it is known at compile time."""
        return both(build, self.is_inside(build, 0, shape[0]), self.is_inside(build, 1, shape[1]))

    def existing_range(self, build: Builder, dimension: int, size: int) -> tuple[Index, Index]:
        """Return the half-open range of those of the first `size` rows (dimension 0) or columns (1) that exist.

        A row or column exists if it is inside the memref. If a matrix of 16 rows begins at row -3 of a memref with 10
        rows, its rows 3 to 12 exist, and the range is (3, 13). The range is empty if there are none.
        """
        start, extent = self._start_and_size(dimension)
        # A start of -size or less leaves all of the matrix outside; with this limit, no difference below wraps around.
        start = build.most(start, -size)
        begin = build.least(build.most(build.minus(0, start), 0), size)  # -start, between 0 and size
        end = build.most(build.least(build.minus(extent, start), size), 0)  # extent - start, between 0 and size
        return begin, end

    def or_copy(self, build: Builder, condition: SSAValue, then: Builder, other: Builder, copy: TileView) -> TileView:
        """Emit a branch that selects this matrix if `condition` holds, else its copy, and return the selected matrix.

        The matrix is a part of a view, a memref, from which a tile would be read. The branch is an `scf.if` with a
        memref as its result. For a matrix of 16 x 32 elements of f32:

            %chosen = scf.if %condition -> memref<16x32xf32, strided<[?, 1], offset: ?>> {
              yield a view of this matrix
            } else {
              fill the copy; yield a view of it
            }

        Rows of a matrix that is not transposed must be contiguous.

        Args:
            build: Receives the branch.
            condition: An i1.
            then, other: Builders of the blocks of the two branches; `other` has the code that fills the copy.
            copy: The copy, whose memref has the shape of the matrix.
        """
        shape = shape_of(copy.value)
        # The views of both branches are cast to one type, of unknown offset and strides and without a memory space. The
        # stride between columns is 1 in both views, except in that of a transposed matrix.
        column_stride = None if self.transposed else 1
        type_ = MemRefType(element_of(self.value), shape, StridedLayoutAttr([None, column_stride], None))
        for branch_build, part in ((then, self), (other, copy)):
            view = part.view(branch_build, row=0, column=0, sizes=shape)
            branch_build.add(scf.YieldOp(_cast_view(branch_build, view, type_)))
        chosen = build.add(scf.IfOp(condition, [type_], Region(then.block), Region(other.block)))
        # An operation reads the layout of the selected memref at run time. Its dimensions are the rows and columns of
        # the matrix, so that the result is not transposed.
        result_count = 5  # the offset, two sizes, two strides
        layout_of = LayoutOp.create(operands=[chosen], result_types=[IndexType()] * result_count)
        build.add(layout_of)
        offset, _rows, _columns, down, right = layout_of.results
        strides = (down, column_stride or right)  # the static 1 if it is known
        return TileView(build.source, chosen, layout=Strided(chosen, offset, shape, strides))

    def element(self, build: Builder, row: Index, column: Index) -> SSAValue:
        """Emit the load of the element at a row and column, and return it; zero if it is outside the memref."""
        indices = self.indices_of(build, row, column)
        exists: SSAValue | bool = True
        for index, extent in zip(indices, self.layout.sizes, strict=True):
            # 0 <= index < extent in one comparison: a negative index is a large unsigned one.
            exists = both(build, exists, build.pure(arith.CmpiOp(index, build.value(extent), "ult")))
        zero = build.pure(arith.ConstantOp(zero_attribute(element_of(self.value))))
        return build.choose(exists, lambda b: b.add(memref.LoadOp.get(self.value, indices)), lambda _: zero)


def _cast_view(build: Builder, view: SSAValue, type_: MemRefType[Attribute]) -> SSAValue:
    """Emit the cast of a view to a type of another layout, and without a memory space, and return the result."""
    in_own_space = MemRefType(type_.element_type, type_.shape, type_.layout, memref_type(view).memory_space)
    cast = build.add(memref.CastOp.get(view, in_own_space))
    return build.add(memref.MemorySpaceCastOp(cast, type_))


def _with_stated_sizes(layout: Strided, value: SSAValue) -> Strided:
    """Return the layout of a memref, with the sizes that a binding states instead of those that the memref has.

    Stated sizes and those that are read from a memref are equal at run time. But only stated sizes show that bindings
    have equal sizes, because they are the same SSA value: %k for the bindings A, `memref<?x?xf32>{%m, %k}`, and B,
    `memref<?x?xf32>{%k, %n}`.
    """
    binding = value.owner
    if not isinstance(binding, InterfaceBindingSubspanOp):
        return layout
    stated = iter(binding.dynamic_dims)  # the sizes of the dynamic dimensions, in order
    sizes = [size if isinstance(size, int) else next(stated, size) for size in layout.sizes]
    return replace(layout, sizes=tuple(sizes))


def part_of(op: ReadTileOp) -> TileView:
    """Return the part of the view that an operation reads into a tile."""
    return TileView(op, op.view, first=(op.row, op.column), transposed=op.turned is not None)


def emit_if(build: Builder, condition: SSAValue | bool, then: Builder, other: Builder) -> None:
    """Emit an `scf.if` without results: `then` is the builder of its first branch, `other` of its else branch.

    Both branches have their code already, except for the terminators.
    """
    if isinstance(condition, bool):
        condition = build.pure(arith.ConstantOp(IntegerAttr(condition, IntegerType(1))))
    for builder in (then, other):
        builder.add(scf.YieldOp())
    build.add(scf.IfOp(condition, [], Region(then.block), Region(other.block)))


def enclosing_function(op: Operation) -> FuncOp:
    """Return the function that contains an operation."""
    enclosing: Operation | None = op
    while not isinstance(enclosing, FuncOp):
        assert enclosing is not None
        enclosing = enclosing.parent_op()
    return enclosing


def branch(build: Builder) -> Builder:
    """Return a builder of a new block that runs under a condition, so that no load is moved out of it."""
    return build.nested(Block(), pins_loads=True)


def converted(build: Builder, value: SSAValue, type_: Attribute) -> SSAValue:
    """Emit the extension of a factor to `type_`, the type of sums, and return it. Integers are extended as signed ones.

    A value that has this type is returned as it is.
    """
    if value.type == type_:
        return value
    kind = arith.ExtFOp if isinstance(type_, AnyFloat) else arith.ExtSIOp
    assert isinstance(type_, AnyFloat | IntegerType | IndexType)
    return build.add(kind(value, type_))  # type: ignore[arg-type]


def put(build: Builder, value: SSAValue, tile: SSAValue, row: Index, column: Index) -> None:
    """Emit the store of `value` at a row and column of a tile."""
    build.add(memref.StoreOp.get(value, tile, [build.value(row), build.value(column)]))
