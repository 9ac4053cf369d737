"""memref: other shapes over the same storage, as kernel_ir/expand leaves them. They emit no code of their own."""

from __future__ import annotations

from dataclasses import replace

from xdsl.ir import Operation

from pydispatch.compiler.emit.spirv.function import FunctionEmitter, Lowering
from pydispatch.compiler.kernel_ir.expand import layout
from pydispatch.compiler.kernel_ir.readers import mixed, segments
from pydispatch.compiler.kernel_ir.types import checked_memref, layout_of, storage_bits


def _reinterpret_cast(f: FunctionEmitter, op: Operation) -> None:
    _, *parts = segments(op, 4)
    names = ("static_offsets", "static_sizes", "static_strides")
    (offset,), sizes, strides = (mixed(op, name, part, f.index) for name, part in zip(names, parts, strict=True))
    f.define(op.results[0], f.memref(op.operands[0]).over(offset, tuple(sizes), tuple(strides)))


def _layout(f: FunctionEmitter, op: Operation) -> None:
    source = f.memref(op.operands[0])
    for result, value in zip(op.results, (source.offset, *source.sizes, *source.strides), strict=True):
        f.define(result, value)


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
    start = f.plus(f.plus(source.base, source.offset), f.index(op.operands[1]))
    start = f.times(start, 8 // bits) if bits < 8 else f.divide(start, bits // 8)
    given = iter(op.operands[2:])
    sizes = tuple(f.index(next(given)) if size is None else size for size in layout_of(type_)[1])
    f.define(op.results[0], replace(source, base=start, element=type_.element_type).over(0, sizes, f.strides(sizes)))


def _pointer_as_index(f: FunctionEmitter, op: Operation) -> None:
    raise f.error("buffers have no addresses on this target", "index the memref instead")


ROWS: dict[str, Lowering] = {
    "memref.reinterpret_cast": _reinterpret_cast,
    layout.NAME: _layout,
    "memref.extract_aligned_pointer_as_index": _pointer_as_index,
    "memref.view": _view,
}
