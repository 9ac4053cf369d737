"""memref views: other shapes over the same storage. They compute sizes and strides and emit no code of their own."""

from __future__ import annotations

from dataclasses import replace

from xdsl.dialects.builtin import AffineMapAttr, MemRefType
from xdsl.ir import Operation
from xdsl.ir.affine import AffineDimExpr

from pydispatch.compiler.emit.llvm.function import FunctionEmitter, Lowering
from pydispatch.compiler.emit.llvm.ops.memref import load
from pydispatch.compiler.emit.llvm.values import Index, MemRef, layout_of
from pydispatch.compiler.kernel_ir.readers import attribute, mixed, op_name, reassociation, segments, unsupported
from pydispatch.compiler.kernel_ir.types import bit_width, byte_size, checked_memref


def typed(f: FunctionEmitter, memref: MemRef, type_: object) -> MemRef:
    """The memref with what its type states in place of what was computed."""
    if not isinstance(type_, MemRefType):
        raise unsupported(f.op)
    offset, sizes, strides = layout_of(type_)
    if len(sizes) != len(memref.sizes):
        raise f.error(f"{op_name(f.op)} gives rank {len(memref.sizes)}, its type {type_} has rank {len(sizes)}")
    return memref.over(
        memref.offset if offset is None else offset,
        tuple(have if known is None else known for have, known in zip(memref.sizes, sizes, strict=True)),
        tuple(have if known is None else known for have, known in zip(memref.strides, strides, strict=True)),
    )


def _cast(f: FunctionEmitter, op: Operation) -> None:
    f.define(op.results[0], typed(f, f.memref(op.operands[0]), op.results[0].type))


def _subview(f: FunctionEmitter, op: Operation) -> None:
    source = f.memref(op.operands[0])
    _, offsets, sizes, strides = segments(op, 4)
    offset: Index = source.offset
    for start, stride in zip(mixed(op, "static_offsets", offsets, f.index), source.strides, strict=True):
        offset = f.body.add(offset, f.body.mul(start, stride))
    taken = mixed(op, "static_sizes", sizes, f.index)
    steps = [
        f.body.mul(step, stride)
        for step, stride in zip(mixed(op, "static_strides", strides, f.index), source.strides, strict=True)
    ]
    kept = _kept_dimensions(f, op.results[0].type, taken, steps)
    shape = source.over(offset, tuple(taken[i] for i in kept), tuple(steps[i] for i in kept))
    f.define(op.results[0], typed(f, shape, op.results[0].type))


def _kept_dimensions(f: FunctionEmitter, type_: object, sizes: list[Index], strides: list[Index]) -> list[int]:
    """Which dimensions a rank-reducing subview keeps: units may be dropped where size and stride still fit the type."""
    if not isinstance(type_, MemRefType):
        raise unsupported(f.op)
    _, wanted_sizes, wanted_strides = layout_of(type_)
    drop = len(sizes) - len(wanted_sizes)
    kept: list[int] = []
    for dimension, (size, stride) in enumerate(zip(sizes, strides, strict=True)):
        position = len(kept)
        fits = position < len(wanted_sizes) and _fits(size, wanted_sizes[position])
        if drop and size == 1 and not (fits and _fits(stride, wanted_strides[position])):
            drop -= 1
        elif drop and size == 1 and len(sizes) - dimension - 1 < len(wanted_sizes) - position:
            kept.append(dimension)
        elif drop and size == 1 and wanted_sizes[position] != 1:
            drop -= 1
        else:
            kept.append(dimension)
    if drop or len(kept) != len(wanted_sizes):
        raise f.error(f"the subview's result type {type_} does not follow from its sizes")
    return kept


def _fits(have: Index, wanted: int | None) -> bool:
    return wanted is None or not isinstance(have, int) or have == wanted


def _reinterpret_cast(f: FunctionEmitter, op: Operation) -> None:
    source = f.memref(op.operands[0])
    _, offsets, sizes, strides = segments(op, 4)
    (offset,) = mixed(op, "static_offsets", offsets, f.index)
    shape = source.over(
        offset,
        tuple(mixed(op, "static_sizes", sizes, f.index)),
        tuple(mixed(op, "static_strides", strides, f.index)),
    )
    f.define(op.results[0], shape)


def _expand_shape(f: FunctionEmitter, op: Operation) -> None:
    source = f.memref(op.operands[0])
    type_ = checked_memref(op.results[0].type)
    shape = layout_of(type_)[1]
    given = iter(op.operands[1:])
    sizes: list[Index] = [
        f.index(next(given)) if size is None and len(op.operands) > 1 else (-1 if size is None else size)
        for size in shape
    ]
    strides: list[Index] = [0] * len(sizes)
    for dimension, group in enumerate(reassociation(op)):
        stride = source.strides[dimension]
        open_ = [i for i in group if sizes[i] == -1]
        if len(open_) > 1:
            raise f.error("memref.expand_shape with several open dimensions in one group", "give output_shape")
        for i in open_:
            known = 1
            for other in group:
                size = sizes[other]
                known *= size if isinstance(size, int) and other != i else 1
            sizes[i] = _quotient(f, source.sizes[dimension], known)
        for i in reversed(group):
            strides[i] = stride
            stride = f.body.mul(stride, sizes[i])
    f.define(op.results[0], typed(f, source.over(source.offset, tuple(sizes), tuple(strides)), type_))


def _quotient(f: FunctionEmitter, size: Index, divisor: int) -> Index:
    if isinstance(size, int):
        return size // divisor
    return size if divisor == 1 else f.body.let(f"udiv i64 {size}, {divisor}")


def _collapse_shape(f: FunctionEmitter, op: Operation) -> None:
    source = f.memref(op.operands[0])
    sizes: list[Index] = []
    strides: list[Index] = []
    for group in reassociation(op):
        size: Index = 1
        for i in group:
            size = f.body.mul(size, source.sizes[i])
        sizes.append(size)
        # The innermost dimension that is not a unit gives the step of the whole group.
        step = next((source.strides[i] for i in reversed(group) if source.sizes[i] != 1), source.strides[group[-1]])
        strides.append(step)
    shape = source.over(source.offset, tuple(sizes), tuple(strides))
    f.define(op.results[0], typed(f, shape, op.results[0].type))


def _extract_strided_metadata(f: FunctionEmitter, op: Operation) -> None:
    source = f.memref(op.operands[0])
    rank = len(source.sizes)
    f.define(op.results[0], source.over(0, (), ()))
    for result, value in zip(op.results[1:], (source.offset, *source.sizes, *source.strides), strict=True):
        f.define(result, str(value))
    assert len(op.results) == 2 + 2 * rank


def _dim(f: FunctionEmitter, op: Operation) -> None:
    source, index = f.memref(op.operands[0]), f.index(op.operands[1])
    if isinstance(index, int):
        if not 0 <= index < len(source.sizes):
            raise f.error(f"memref.dim {index} of a memref of rank {len(source.sizes)}")
        f.define(op.results[0], str(source.sizes[index]))
        return
    size: Index = source.sizes[-1] if source.sizes else 0
    for dimension in reversed(range(len(source.sizes) - 1)):
        here = f.body.let(f"icmp eq i64 {index}, {dimension}")
        size = f.body.let(f"select i1 {here}, i64 {source.sizes[dimension]}, i64 {size}")
    f.define(op.results[0], str(size))


def _rank(f: FunctionEmitter, op: Operation) -> None:
    f.define(op.results[0], str(len(f.memref(op.operands[0]).sizes)))


def _pointer_as_index(f: FunctionEmitter, op: Operation) -> None:
    f.define(op.results[0], f.body.let(f"ptrtoint ptr {f.memref(op.operands[0]).aligned} to i64"))


def _view(f: FunctionEmitter, op: Operation) -> None:
    """A typed memref over bytes."""
    source = f.memref(op.operands[0])
    type_ = checked_memref(op.results[0].type)
    shift = f.body.add(source.offset, f.index(op.operands[1]))
    pointer = (
        source.aligned if shift == 0 else f.body.let(f"getelementptr inbounds i8, ptr {source.aligned}, i64 {shift}")
    )
    given = iter(op.operands[2:])
    extents: list[Index] = [f.index(next(given)) if size is None else size for size in layout_of(type_)[1]]
    strides: list[Index] = []
    stride: Index = 1
    for extent in reversed(extents):
        strides.insert(0, stride)
        stride = f.body.mul(stride, extent)
    byte_size(type_.element_type)
    f.define(
        op.results[0],
        replace(source, aligned=pointer, offset=0, sizes=tuple(extents), strides=tuple(strides),
                element=type_.element_type),
    )  # fmt: skip


def _transpose(f: FunctionEmitter, op: Operation) -> None:
    source, order = f.memref(op.operands[0]), attribute(op, "permutation")
    if not isinstance(order, AffineMapAttr):
        raise unsupported(op)
    axes = [expr.position for expr in order.data.results if isinstance(expr, AffineDimExpr)]
    if sorted(axes) != list(range(len(source.sizes))):
        raise f.error(f"memref.transpose by {order.data}, which is no permutation of {len(source.sizes)} dimensions")
    shape = source.over(source.offset, tuple(source.sizes[i] for i in axes), tuple(source.strides[i] for i in axes))
    f.define(op.results[0], typed(f, shape, op.results[0].type))


def _reshape(f: FunctionEmitter, op: Operation) -> None:
    """The sizes lie in memory; the elements, one behind the other, stay where they are."""
    source, shape = f.memref(op.operands[0]), f.memref(op.operands[1])
    sizes: list[Index] = []
    for number, size in enumerate(layout_of(checked_memref(op.results[0].type))[1]):
        if size is None:
            loaded = load(f, shape, [number])
            width = bit_width(shape.element)
            sizes.append(loaded if width == 64 else f.body.let(f"sext i{width} {loaded} to i64"))
        else:
            sizes.append(size)
    strides: list[Index] = []
    stride: Index = 1
    for extent in reversed(sizes):
        strides.insert(0, stride)
        stride = f.body.mul(stride, extent)
    f.define(op.results[0], source.over(source.offset, tuple(sizes), tuple(strides)))


def _same(f: FunctionEmitter, op: Operation) -> None:
    for operand, result in zip(op.operands, op.results, strict=True):
        f.define(result, f.values[operand])


ROWS: dict[str, Lowering] = {
    "memref.cast": _cast,
    "memref.memory_space_cast": _same,
    "memref.subview": _subview,
    "memref.reinterpret_cast": _reinterpret_cast,
    "memref.expand_shape": _expand_shape,
    "memref.collapse_shape": _collapse_shape,
    "memref.transpose": _transpose,
    "memref.reshape": _reshape,
    "memref.extract_strided_metadata": _extract_strided_metadata,
    "iree_codegen.extract_strided_metadata": _extract_strided_metadata,
    "memref.extract_aligned_pointer_as_index": _pointer_as_index,
    "memref.dim": _dim,
    "memref.rank": _rank,
    "memref.view": _view,
    "builtin.unrealized_conversion_cast": _same,
    "util.optimization_barrier": _same,
    "util.assume.int": _same,
}
