"""Lowering of hal.interface and hal.executable: bindings, constants and workgroup ids of a kernel."""

from __future__ import annotations

from xdsl.dialects.builtin import IndexType
from xdsl.ir import Operation, SSAValue

from pydispatch.compiler.emit.llvm.function import FunctionEmitter, Lowering
from pydispatch.compiler.emit.llvm.types import memory_type_of
from pydispatch.compiler.emit.llvm.values import Index, MemRef
from pydispatch.compiler.kernel_ir.bindings import SUBSPAN
from pydispatch.compiler.kernel_ir.readers import attribute, integer, integers, symbol
from pydispatch.compiler.kernel_ir.types import bit_width, byte_size, checked_memref, layout_of
from pydispatch.ir.core.walk import walk


def _offset_and_sizes(op: Operation) -> tuple[SSAValue | None, list[SSAValue]]:
    """Return the byte offset of a subspan in its binding, None for 0, and its dynamic sizes, in elements."""
    segment_sizes = integers(op, "operandSegmentSizes")  # numbers of operands: of offsets, 0 or 1, and of sizes
    has_offset = bool(segment_sizes and segment_sizes[0])
    if has_offset:
        return op.operands[0], list(op.operands[1:])
    return None, list(op.operands)


def _subspan(emitter: FunctionEmitter, op: Operation) -> None:
    """Lower a subspan, a memref of the part of a binding that begins at a byte offset, to its descriptor.

        %m = hal.interface.binding.subspan binding(1) offset(%bytes) : memref<?x4xf32>{%n}

    A type without a dynamic offset, as this one, has no place for the byte offset: the base pointer is advanced by it,
    and the static offset of the type, here 0, counts from there. In a type with a dynamic offset,
    `strided<[4, 1], offset: ?>`, the offset of the memref is `%bytes / 4`, in elements, and the base is the binding.

    The operands are the byte offset, if there is one, and the dynamic sizes, in the order of the dimensions.
    """
    memref = checked_memref(op.results[0].type)
    ordinal = integer(op, "binding")
    binding = emitter.bindings[ordinal]
    offset_value, dims = _offset_and_sizes(op)
    pointer = emitter.platform.binding(emitter, ordinal, binding.alignment)
    byte_offset: Index = 0 if offset_value is None else emitter.index(offset_value)
    offset, sizes, strides = layout_of(memref)
    if offset is None:
        offset_in_elements = _in_elements(emitter, byte_offset, byte_size(memref.element_type))
    else:
        offset_in_elements = offset
        pointer = emitter.body.byte_address(pointer, byte_offset)
    remaining = iter(dims)
    extents: list[Index] = [emitter.index(next(remaining)) if size is None else size for size in sizes]
    memory_type_of(memref.element_type)  # raises for elements that memory cannot hold
    emitter.define(
        op.results[0],
        MemRef(
            base=pointer,
            aligned=pointer,
            offset=offset_in_elements,
            sizes=tuple(extents),
            strides=_strides(emitter, extents, strides),
            element=memref.element_type,
            root=f"binding {ordinal}",
            read_only=binding.read_only,
        ),
    )


def _in_elements(emitter: FunctionEmitter, offset: Index, size: int) -> Index:
    """Return a byte offset in elements of `size` bytes, a power of two that divides it."""
    if isinstance(offset, int):
        return offset // size
    return offset if size == 1 else emitter.body.let(f"lshr exact i64 {offset}, {size.bit_length() - 1}")


def _strides(emitter: FunctionEmitter, extents: list[Index], strides: tuple[int | None, ...]) -> tuple[Index, ...]:
    """Return the strides of a memref with these extents. A dynamic stride is computed as in a contiguous buffer."""
    strides_: list[Index] = []
    running: Index = 1  # stride of a dimension that is contiguous with the later ones
    for extent, stride in zip(reversed(extents), reversed(strides), strict=True):
        strides_.insert(0, running if stride is None else stride)
        running = emitter.body.times(strides_[0], extent)
    return tuple(strides_)


def _constant(emitter: FunctionEmitter, op: Operation) -> None:
    """Lower the load of a dispatch constant, from the 32-bit words that it is passed in."""
    ordinal, type_ = integer(op, "ordinal"), op.results[0].type
    emitter.define(
        op.results[0], emitter.platform.constant(emitter, ordinal, type_, _layout_word_count(emitter, op, ordinal))
    )


def _layout_word_count(emitter: FunctionEmitter, op: Operation, ordinal: int) -> int:
    """Return how many 32-bit words, 1 or 2, the layout constant that `op` loads takes; it begins at word `ordinal`.

    An index in a hand-written kernel (the load names its layout) is one word. In a kernel that was lowered from
    arguments (the load has no layout) it is two words, low first, unless another operation loads the next ordinal, or
    there is no next ordinal.
    """
    type_ = op.results[0].type
    if not isinstance(type_, IndexType):
        return 2 if bit_width(type_) > 32 else 1
    if attribute(op, "layout") is not None:
        return 1
    others = (o for o in walk(emitter.function) if o is not op and o.name == op.name)
    is_taken = any(integer(other, "ordinal") == ordinal + 1 for other in others)
    return 2 if ordinal + 1 < emitter.platform.constant_words and not is_taken else 1


def _executable_constant(emitter: FunctionEmitter, op: Operation) -> None:
    """Lower the load of a constant that is set when the executable is loaded."""
    emitter.define(op.results[0], emitter.platform.executable_constant(emitter, symbol(op, "key"), op.results[0].type))


def _grid(grid_property: str) -> Lowering:
    """Return the lowering of a property of the grid of workgroups: "id", "count" or "size"."""

    def lower(emitter: FunctionEmitter, op: Operation) -> None:
        """Define the result as `grid_property`, a workgroup's "id", the "count" of workgroups or their "size".

        The platform emits it, for the dimension that the operation states.
        """
        emitter.define(op.results[0], emitter.platform.grid(emitter, grid_property, integer(op, "dimension")))

    return lower


def _barrier(emitter: FunctionEmitter, op: Operation) -> None:
    """Lower `gpu.barrier`."""
    emitter.platform.barrier(emitter)


ROWS: dict[str, Lowering] = {
    SUBSPAN: _subspan,
    "hal.interface.constant.load": _constant,
    "hal.executable.constant.load": _executable_constant,
    "hal.interface.workgroup.id": _grid("id"),
    "hal.interface.workgroup.count": _grid("count"),
    "hal.interface.workgroup.size": _grid("size"),
    "gpu.barrier": _barrier,
}
"""Name of an operation → function that emits LLVM IR for it."""
