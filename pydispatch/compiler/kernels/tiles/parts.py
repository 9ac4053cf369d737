"""Parts of matrices: where their elements are, and whether they exist."""

from __future__ import annotations

from xdsl.dialects import arith, memref, scf
from xdsl.dialects.builtin import AnyFloat, IndexType, IntegerType, MemRefType
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from pydispatch.compiler.kernel_ir.expand.views import strided
from pydispatch.compiler.kernels.loops.transpose_blocks import view_as
from pydispatch.compiler.kernels.ops.builder import Builder, Index, both
from pydispatch.compiler.kernels.ops.tensors import zero_attribute
from pydispatch.ir.dialects.pyd.tiles import ReadTileOp


def memref_type(value: SSAValue) -> MemRefType[Attribute]:
    type_ = value.type
    assert isinstance(type_, MemRefType)
    return type_


def element_of(value: SSAValue) -> Attribute:
    return memref_type(value).element_type


def shape_of(value: SSAValue) -> tuple[int, int]:
    rows, columns = memref_type(value).get_shape()
    return rows, columns


class Part:
    """A matrix that begins somewhere in a memref: of a tile, or the part of a view that becomes one."""

    def __init__(
        self, op: Operation, value: SSAValue, first: tuple[Index, Index] = (0, 0), turned: bool = False
    ) -> None:
        self.value, self.first, self.turned = value, first, turned
        self.layout = strided(op, value)

    @property
    def strides(self) -> tuple[Index, Index]:
        down, right = self.layout.strides
        return (right, down) if self.turned else (down, right)

    def view(self, build: Builder, row: Index, column: Index, sizes: tuple[Index, Index]) -> SSAValue:
        """The block of these sizes from a place of the matrix on."""
        at = (column, row) if self.turned else (row, column)
        offset = self.layout.offset
        for start, own, stride in zip(self.first, at, self.layout.strides, strict=True):
            offset = build.plus(offset, build.times(build.plus(start, own), stride))
        return view_as(build, self.layout.storage, offset, sizes, self.strides)

    def inside(self, build: Builder, shape: tuple[int, int]) -> SSAValue | bool:
        """Whether a matrix of this shape lies in the memref as a whole."""
        sizes = shape[::-1] if self.turned else shape
        found: SSAValue | bool = True
        for start, size, extent in zip(self.first, sizes, self.layout.sizes, strict=True):
            known = all(isinstance(each, int) for each in (start, extent))
            if known and 0 <= start <= extent - size:  # type: ignore[operator]
                continue
            for low, high in ((0, start), (build.plus(start, size), extent)):
                one = arith.CmpiOp(build.value(low), build.value(high), "sle")
                found = both(build, found, build.pure(one))
        return found

    def element(self, build: Builder, row: Index, column: Index) -> SSAValue:
        """An element, zero where the memref has none."""
        at = (column, row) if self.turned else (row, column)
        places = [build.value(build.plus(start, own)) for start, own in zip(self.first, at, strict=True)]
        exists: SSAValue | bool = True
        for place, extent in zip(places, self.layout.sizes, strict=True):
            exists = both(build, exists, build.pure(arith.CmpiOp(place, build.value(extent), "ult")))
        zero = build.pure(arith.ConstantOp(zero_attribute(element_of(self.value))))
        return build.choose(exists, lambda b: b.add(memref.LoadOp.get(self.value, places)), lambda _: zero)


def part_of(op: ReadTileOp) -> Part:
    """What a tile is read from."""
    return Part(op, op.view, (op.row, op.column), op.turned is not None)


def either(build: Builder, condition: SSAValue, then: Builder, other: Builder) -> None:
    """scf.if over two blocks that are written already."""
    for each in (then, other):
        each.add(scf.YieldOp())
    build.add(scf.IfOp(condition, [], Region(then.block), Region(other.block)))


def branch(build: Builder) -> Builder:
    return build.nested(Block(), guarded=True)


def converted(build: Builder, value: SSAValue, type_: Attribute) -> SSAValue:
    """A factor in the type of the sums."""
    if value.type == type_:
        return value
    kind = arith.ExtFOp if isinstance(type_, AnyFloat) else arith.ExtSIOp
    assert isinstance(type_, AnyFloat | IntegerType | IndexType)
    return build.add(kind(value, type_))  # type: ignore[arg-type]


def put(build: Builder, value: SSAValue, tile: SSAValue, row: Index, column: Index) -> None:
    build.add(memref.StoreOp.get(value, tile, [build.value(row), build.value(column)]))


def taken_away(op: Operation) -> None:
    op.detach()
    op.erase()
