"""memref: other shapes over the same storage, as kernel_ir/expand leaves them. They emit no code of their own."""

from __future__ import annotations

from dataclasses import replace

from xdsl.ir import Operation

from pydispatch.compiler.emit.llvm.function import FunctionEmitter, Lowering
from pydispatch.compiler.emit.llvm.values import Index
from pydispatch.compiler.kernel_ir.expand import layout
from pydispatch.compiler.kernel_ir.readers import mixed_values, segments
from pydispatch.compiler.kernel_ir.types import checked_memref, layout_of


def _reinterpret_cast(emitter: FunctionEmitter, op: Operation) -> None:
    """Lower `memref.reinterpret_cast` to a descriptor of the same storage with the stated offset, sizes and strides."""
    _source, *dynamic_operands = segments(op, 4)  # of three kinds: offsets, sizes and strides
    names = ("static_offsets", "static_sizes", "static_strides")
    (offset,), sizes, strides = (  # static numbers, and values of operands where they are dynamic
        mixed_values(op, name, dynamic=operands, read=emitter.index)
        for name, operands in zip(names, dynamic_operands, strict=True)
    )
    emitter.define(op.results[0], emitter.memref(op.operands[0]).over(offset, tuple(sizes), tuple(strides)))


def _layout(emitter: FunctionEmitter, op: Operation) -> None:
    """Lower the query of a memref's offset, sizes and strides, its results in this order, in elements."""
    source = emitter.memref(op.operands[0])
    for result, value in zip(op.results, (source.offset, *source.sizes, *source.strides), strict=True):
        emitter.define(result, str(value))


def _pointer_as_index(emitter: FunctionEmitter, op: Operation) -> None:
    """Lower `memref.extract_aligned_pointer_as_index`."""
    emitter.define(op.results[0], emitter.body.let(f"ptrtoint ptr {emitter.memref(op.operands[0]).aligned} to i64"))


def _view(emitter: FunctionEmitter, op: Operation) -> None:
    """Lower a `memref.view` to a contiguous memref of the result's type over the bytes of its source.

    Operands are the source, a memref of bytes; the offset in bytes; the dynamic sizes.
    """
    source = emitter.memref(op.operands[0])
    type_ = checked_memref(op.results[0].type)
    pointer = emitter.body.byte_address(source.aligned, emitter.body.plus(source.offset, emitter.index(op.operands[1])))
    dynamic = iter(op.operands[2:])
    sizes: list[Index] = [emitter.index(next(dynamic)) if size is None else size for size in layout_of(type_).sizes]
    view = replace(source, aligned=pointer, offset=0, element=type_.element_type)
    emitter.define(op.results[0], view.over(offset=0, sizes=tuple(sizes), strides=emitter.body.strides(sizes)))


ROWS: dict[str, Lowering] = {
    "memref.reinterpret_cast": _reinterpret_cast,
    layout.NAME: _layout,
    "memref.extract_aligned_pointer_as_index": _pointer_as_index,
    "memref.view": _view,
}
"""Name of an operation → function that emits LLVM IR for it."""
