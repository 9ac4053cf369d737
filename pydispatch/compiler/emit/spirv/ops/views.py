"""memref views: other shapes over the same storage. They compute sizes and strides and emit no code of their own.

The rules are those of llvm_views, on numbers that fold and ids.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xdsl.dialects.builtin import AffineMapAttr, MemRefType
from xdsl.ir import Operation
from xdsl.ir.affine import AffineDimExpr

from pydispatch.compiler.emit.llvm.values import layout_of
from pydispatch.compiler.emit.spirv.function import FunctionEmitter, Lowering
from pydispatch.compiler.emit.spirv.ops.casts import resized
from pydispatch.compiler.emit.spirv.ops.memref import load
from pydispatch.compiler.emit.spirv.types import Index, MemRef, known
from pydispatch.compiler.kernel_ir.readers import attribute, mixed, op_name, reassociation, segments, unsupported
from pydispatch.compiler.kernel_ir.types import bit_width, checked_memref, storage_bits


def typed(f: FunctionEmitter, memref: MemRef, type_: object) -> MemRef:
    """The memref with what its type states in place of what was computed."""
    if not isinstance(type_, MemRefType):
        raise unsupported(f.op)
    offset, sizes, strides = layout_of(type_)
    if len(sizes) != len(memref.sizes):
        raise f.error(f"{op_name(f.op)} gives rank {len(memref.sizes)}, its type {type_} has rank {len(sizes)}")
    return memref.over(
        memref.offset if offset is None else offset,
        tuple(have if fixed is None else fixed for have, fixed in zip(memref.sizes, sizes, strict=True)),
        tuple(have if fixed is None else fixed for have, fixed in zip(memref.strides, strides, strict=True)),
    )


def contiguous(f: FunctionEmitter, sizes: Sequence[Index]) -> tuple[Index, ...]:
    """The strides of elements one behind the other."""
    strides: list[Index] = []
    stride: Index = 1
    for number, extent in enumerate(reversed(sizes)):
        strides.insert(0, stride)
        if number < len(sizes) - 1:
            stride = f.mul(stride, extent)
    return tuple(strides)


def _cast(f: FunctionEmitter, op: Operation) -> None:
    f.define(op.results[0], typed(f, f.memref(op.operands[0]), op.results[0].type))


def _subview(f: FunctionEmitter, op: Operation) -> None:
    source = f.memref(op.operands[0])
    _, offsets, sizes, strides = segments(op, 4)
    offset: Index = source.offset
    for start, stride in zip(mixed(op, "static_offsets", offsets, f.index), source.strides, strict=True):
        offset = f.add(offset, f.mul(start, stride))
    taken = mixed(op, "static_sizes", sizes, f.index)
    steps = [
        f.mul(step, stride)
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
    drop, count = len(sizes) - len(wanted_sizes), len(wanted_sizes)
    kept: list[int] = []
    for dimension, (size, stride) in enumerate(zip(sizes, strides, strict=True)):
        position = len(kept)
        unit = drop > 0 and known(size) and size == 1
        fits = position < count and _fits(size, wanted_sizes[position])
        if unit and not (fits and _fits(stride, wanted_strides[position])):
            drop -= 1
        elif unit and len(sizes) - dimension - 1 < count - position:
            kept.append(dimension)
        elif unit and wanted_sizes[position] != 1:
            drop -= 1
        else:
            kept.append(dimension)
    if drop or len(kept) != count:
        raise f.error(f"the subview's result type {type_} does not follow from its sizes")
    return kept


def _fits(have: Index, wanted: int | None) -> bool:
    return wanted is None or not known(have) or have == wanted


def _reinterpret_cast(f: FunctionEmitter, op: Operation) -> None:
    source = f.memref(op.operands[0])
    _, offsets, sizes, strides = segments(op, 4)
    (offset,) = mixed(op, "static_offsets", offsets, f.index)
    shape = source.over(
        offset, tuple(mixed(op, "static_sizes", sizes, f.index)), tuple(mixed(op, "static_strides", strides, f.index))
    )
    f.define(op.results[0], shape)


def _expand_shape(f: FunctionEmitter, op: Operation) -> None:
    source = f.memref(op.operands[0])
    type_ = checked_memref(op.results[0].type)
    given = iter(op.operands[1:])
    open_: Index = -1
    sizes: list[Index] = [
        f.index(next(given)) if size is None and len(op.operands) > 1 else (open_ if size is None else size)
        for size in layout_of(type_)[1]
    ]
    strides: list[Index] = [0] * len(sizes)
    for dimension, group in enumerate(reassociation(op)):
        stride = source.strides[dimension]
        missing = [i for i in group if known(sizes[i]) and sizes[i] == -1]
        if len(missing) > 1:
            raise f.error("memref.expand_shape with several open dimensions in one group", "give output_shape")
        for i in missing:
            fixed = 1
            for other in group:
                size = sizes[other]
                fixed *= size if known(size) and other != i else 1
            sizes[i] = f.divide(source.sizes[dimension], fixed)
        for i in reversed(group):
            strides[i] = stride
            if i != group[0]:
                stride = f.mul(stride, sizes[i])
    f.define(op.results[0], typed(f, source.over(source.offset, tuple(sizes), tuple(strides)), type_))


def _collapse_shape(f: FunctionEmitter, op: Operation) -> None:
    source = f.memref(op.operands[0])
    sizes: list[Index] = []
    strides: list[Index] = []
    for group in reassociation(op):
        size: Index = 1
        for i in group:
            size = f.mul(size, source.sizes[i])
        sizes.append(size)
        # The innermost dimension that is not a unit gives the step of the whole group.
        inner = (i for i in reversed(group) if not (known(source.sizes[i]) and source.sizes[i] == 1))
        strides.append(source.strides[next(inner, group[-1])])
    shape = source.over(source.offset, tuple(sizes), tuple(strides))
    f.define(op.results[0], typed(f, shape, op.results[0].type))


def _extract_strided_metadata(f: FunctionEmitter, op: Operation) -> None:
    source = f.memref(op.operands[0])
    f.define(op.results[0], source.over(0, (), ()))
    for result, value in zip(op.results[1:], (source.offset, *source.sizes, *source.strides), strict=True):
        f.define(result, value)


def _dim(f: FunctionEmitter, op: Operation) -> None:
    source, index = f.memref(op.operands[0]), f.index(op.operands[1])
    if known(index):
        if not 0 <= index < len(source.sizes):
            raise f.error(f"memref.dim {index} of a memref of rank {len(source.sizes)}")
        f.define(op.results[0], source.sizes[index])
        return
    size: Index = source.sizes[-1] if source.sizes else 0
    for dimension in reversed(range(len(source.sizes) - 1)):
        here = f.code.let("IEqual", f.m.bool(), index, f.idx(dimension))
        size = f.code.let("Select", f.index_type(), here, f.idx(source.sizes[dimension]), f.idx(size))
    f.define(op.results[0], size)


def _rank(f: FunctionEmitter, op: Operation) -> None:
    f.define(op.results[0], len(f.memref(op.operands[0]).sizes))


def _view(f: FunctionEmitter, op: Operation) -> None:
    """A typed memref over the bytes of a binding."""
    source = f.memref(op.operands[0])
    type_ = checked_memref(op.results[0].type)
    if source.root.kind != "binding" and type_.element_type != source.element:
        raise f.error(
            "memref.view of workgroup memory in another type cannot be compiled into a kernel for this target",
            "allocate each type by itself: variables of a shader have one type",
        )
    bits = storage_bits(type_.element_type)
    start = f.add(f.add(source.base, source.offset), f.index(op.operands[1]))
    start = f.mul(start, 8 // bits) if bits < 8 else f.divide(start, bits // 8)
    given = iter(op.operands[2:])
    sizes = tuple(f.index(next(given)) if size is None else size for size in layout_of(type_)[1])
    f.define(
        op.results[0],
        replace(source, base=start, offset=0, sizes=sizes, strides=contiguous(f, sizes), element=type_.element_type),
    )


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
            width = 32 if bit_width(shape.element) <= 32 else f.width(shape.element)
            sizes.append(resized(f, loaded, width, f.index_width))
        else:
            sizes.append(size)
    f.define(op.results[0], source.over(source.offset, tuple(sizes), contiguous(f, sizes)))


def _pointer_as_index(f: FunctionEmitter, op: Operation) -> None:
    raise f.error("buffers have no addresses on this target", "index the memref instead")


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
