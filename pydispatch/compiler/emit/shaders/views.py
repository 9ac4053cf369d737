"""Bindings as memrefs, and other shapes over the same storage, as kernel_ir/expand leaves them. They emit no code of
their own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute, Operation, SSAValue

from pydispatch.compiler.emit.shaders.function import ShaderFunction
from pydispatch.compiler.emit.shaders.values import Index, MemRef, Root
from pydispatch.compiler.kernel_ir.bindings import SUBSPAN
from pydispatch.compiler.kernel_ir.expand import layout
from pydispatch.compiler.kernel_ir.readers import integer, integers, mixed_values, operands_of, segments
from pydispatch.compiler.kernel_ir.types import checked_memref, layout_of, storage_bits


def _subspan(emitter: ShaderFunction[Any], op: Operation) -> None:
    """Lower a subspan to a memref of a binding that begins at a byte offset, which is 0 if the operation has none.

    The operands are the byte offset, if there is one, and the dynamic sizes. With 64 as byte offset, the result of type
    `memref<?x4xf32>` begins at element 16 of the binding: its base is 16 and its offset 0. The result of type
    `memref<?x4xf32, strided<[4, 1], offset: ?>>` has the base 0 and the offset 16.
    """
    (result,) = op.results
    memref = cast(MemRefType, result.type)
    ordinal = integer(op, "binding")
    segment_sizes = integers(op, "operandSegmentSizes")  # number of byte offsets (0 or 1), and of dynamic sizes
    has_byte_offset = bool(segment_sizes and segment_sizes[0])
    dims: list[SSAValue] = list(operands_of(op))
    byte_offset: Index = emitter.int_or_value(dims.pop(0)) if has_byte_offset else 0
    offset, shape, strides = layout_of(memref)  # raises CompileError for types that are no strided memrefs
    start = _elements(emitter, byte_offset, memref.element_type)
    remaining = iter(dims)
    extents: list[Index] = [emitter.int_or_value(next(remaining)) if size is None else size for size in shape]
    read_only = emitter.bindings[ordinal].read_only
    root = Root("binding", ("binding", ordinal), ordinal, read_only=read_only)
    # A dynamic offset of the type is that of the subspan, as `pyd.layout` returns it; a static one is stated by the
    # type, and counts from the subspan's first element.
    base, offset_in_view = (0, start) if offset is None else (start, offset)
    emitter.values[result] = MemRef(
        root=root,
        base=base,
        offset=offset_in_view,
        sizes=tuple(extents),
        strides=_strides(emitter, extents, strides),
        element=memref.element_type,
    )


def _elements(emitter: ShaderFunction[Any], offset: Index, element: Attribute) -> Index:
    """Return an offset in bytes as a number of elements; packed elements have fewer than 8 bits."""
    bits = storage_bits(element)
    return emitter.times(offset, 8 // bits) if bits < 8 else emitter.divide(offset, bits // 8)


def _strides(emitter: ShaderFunction[Any], extents: list[Index], strides: tuple[int | None, ...]) -> tuple[Index, ...]:
    """Return the strides of a binding in elements; dynamic ones (None) become those of a contiguous buffer.

    extents: the sizes of the binding's axes.
    """
    if None not in strides:
        return cast(tuple[Index, ...], strides)
    computed: list[Index] = []
    contiguous_stride: Index = 1  # of the current axis, from the innermost on
    for extent, stride in zip(reversed(extents), reversed(strides), strict=True):
        computed.insert(0, contiguous_stride if stride is None else stride)
        if len(computed) < len(extents):  # the outermost extent is a factor of no stride
            contiguous_stride = emitter.times(computed[0], extent)
    return tuple(computed)


def _reinterpret_cast(emitter: ShaderFunction[Any], op: Operation) -> None:
    """Lower `memref.reinterpret_cast`."""
    _source, *dynamic_operands = segments(op, 4)  # of three kinds: offsets, sizes and strides
    names = ("static_offsets", "static_sizes", "static_strides")
    (offset,), sizes, strides = (  # static numbers, and values of operands where they are dynamic
        mixed_values(op, name, dynamic=operands, read=emitter.int_or_value)
        for name, operands in zip(names, dynamic_operands, strict=True)
    )
    emitter.define(op.results[0], emitter.memref(op.operands[0]).over(offset, tuple(sizes), tuple(strides)))


def _layout(emitter: ShaderFunction[Any], op: Operation) -> None:
    """Lower `pyd.layout`, the query of a memref's offset, sizes and strides, which are its results in this order."""
    source = emitter.memref(op.operands[0])
    for result, value in zip(op.results, (source.offset, *source.sizes, *source.strides), strict=True):
        emitter.define(result, value)


def _view(emitter: ShaderFunction[Any], op: Operation) -> None:
    """Lower a `memref.view` to a typed memref over the bytes of a binding, from a byte offset on.

    Operands are the memref of bytes, the byte offset, and the dynamic sizes of the result.

    Raises:
        CompileError: It views workgroup memory in another element type.
    """
    source = emitter.memref(op.operands[0])
    type_ = checked_memref(op.results[0].type)
    if source.root.kind != "binding" and type_.element_type != source.element:
        raise emitter.error(
            "memref.view of workgroup memory in another type cannot be compiled into a kernel for this target",
            "allocate each type by itself: variables of a shader have one type",
        )
    # The source is a memref of bytes; `base` of the result counts elements.
    start_byte = emitter.plus(emitter.plus(source.base, source.offset), emitter.int_or_value(op.operands[1]))
    start_element = _elements(emitter, start_byte, type_.element_type)
    dynamic = iter(op.operands[2:])
    sizes = tuple(emitter.int_or_value(next(dynamic)) if size is None else size for size in layout_of(type_).sizes)
    viewed = replace(source, base=start_element, element=type_.element_type)
    emitter.define(op.results[0], viewed.over(offset=0, sizes=sizes, strides=emitter.strides(sizes)))


def _pointer_as_index(emitter: ShaderFunction[Any], op: Operation) -> None:
    """Refuse `memref.extract_aligned_pointer_as_index`: buffers have no addresses in shaders."""
    raise emitter.error("buffers have no addresses on this target", "index the memref instead")


ROWS: dict[str, Callable[[ShaderFunction[Any], Operation], None]] = {
    SUBSPAN: _subspan,
    "memref.reinterpret_cast": _reinterpret_cast,
    layout.NAME: _layout,
    "memref.extract_aligned_pointer_as_index": _pointer_as_index,
    "memref.view": _view,
}
"""Name of an operation → function that emits it through the emitter of a shader language."""
