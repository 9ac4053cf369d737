"""memref: loads, stores, storage. Views are in views.py."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    MemRefType,
    SymbolRefAttr,
)
from xdsl.ir import Attribute, Operation

from pydispatch.compiler.emit.llvm.function import FunctionEmitter, Lowering
from pydispatch.compiler.emit.llvm.loops import nest
from pydispatch.compiler.emit.llvm.types import float_bits, float_constant, int_constant, memory_type_of, scalar
from pydispatch.compiler.emit.llvm.values import Index, MemRef
from pydispatch.compiler.kernel_ir.kernel import OWN_BYTE
from pydispatch.compiler.kernel_ir.readers import attribute, integer, symbol, unsupported
from pydispatch.compiler.kernel_ir.storage import READ_ONLY_NOTE, is_shared_by_workgroup
from pydispatch.compiler.kernel_ir.types import (
    alignment,
    bit_width,
    checked_memref,
    is_float,
    layout_of,
    packed,
    storage_bits,
    storage_bytes,
)


def _offset(emitter: FunctionEmitter, memref: MemRef, indices: Sequence[Index]) -> Index:
    """Return the offset of the element at `indices` from the memref's aligned pointer, in elements."""
    if len(indices) != len(memref.strides):
        raise emitter.error(f"a memref of rank {len(memref.strides)} is indexed with {len(indices)} values")
    offset: Index = memref.offset
    for index, stride in zip(indices, memref.strides, strict=True):
        offset = emitter.body.plus(offset, emitter.body.times(index, stride))
    return offset


def address(emitter: FunctionEmitter, memref: MemRef, indices: Sequence[Index]) -> str:
    """Emit a pointer to the element at `indices`, which is not packed into a byte with others, and return it."""
    return _pointer(emitter, memref, _offset(emitter, memref, indices))


def _pointer(emitter: FunctionEmitter, memref: MemRef, offset: Index) -> str:
    """Emit a pointer to the element at a linear offset, in elements."""
    if offset == 0:
        return memref.aligned
    type_ = memory_type_of(memref.element)
    return emitter.body.let(f"getelementptr inbounds {type_}, ptr {memref.aligned}, i64 {offset}")


def _packed_address(emitter: FunctionEmitter, memref: MemRef, indices: Sequence[Index]) -> tuple[str, Index]:
    """Emit the address of an element of 2 or 4 bits: (pointer to its byte, position of its lowest bit as i8).

    The first element of a byte is in the low bits: the element of 2 bits at offset 7 is in byte 1, from bit 6 on.
    """
    width, offset = bit_width(memref.element), _offset(emitter, memref, indices)
    elements_in_byte = 8 // width  # 2 or 4
    byte = emitter.body.shift_right(offset, elements_in_byte.bit_length() - 1)  # offset // elements_in_byte
    position = emitter.body.low_bits(offset, elements_in_byte - 1)  # of the element in its byte
    pointer = _pointer(emitter, memref, byte)
    if isinstance(position, int):
        return pointer, position * width
    return pointer, emitter.body.let(f"mul i8 {emitter.body.let(f'trunc i64 {position} to i8')}, {width}")


def load(emitter: FunctionEmitter, memref: MemRef, indices: Sequence[Index], min_alignment: int = 1) -> str:
    """Emit the load of the element at `indices`, and return it as a value of its scalar type.

    The address is known to be a multiple of `min_alignment` bytes. Elements of less than 8 bits are loaded as bytes.
    """
    element = memref.element
    if packed(element):  # it shares its byte with neighbours, and begins `shift` bits above the lowest one
        pointer, shift = _packed_address(emitter, memref, indices)
        is_writable_by_others = not memref.read_only and memref.root != "stack"
        if emitter.platform.concurrent and is_writable_by_others:
            # Other invocations may write their elements of the byte at the same time.
            byte = emitter.body.let(f"load atomic i8, ptr {pointer} {emitter.platform.atomic_scope}monotonic, align 1")
        else:
            byte = emitter.body.let(f"load i8, ptr {pointer}, align 1{emitter.access_metadata(memref)}")
        return emitter.body.let(f"trunc i8 {emitter.body.let(f'lshr i8 {byte}, {shift}')} to {scalar(element)}")
    memory_type, align = memory_type_of(element), max(min_alignment, alignment(element))
    value = emitter.body.let(
        f"load {memory_type}, ptr {address(emitter, memref, indices)}, align {align}{emitter.access_metadata(memref)}"
    )
    if bit_width(element) == 1:
        return emitter.body.let(f"icmp ne i8 {value}, 0")
    # An element of less than 8 bits that is not packed has a byte of its own.
    return emitter.body.let(f"trunc i8 {value} to {scalar(element)}") if bit_width(element) < 8 else value


def store(
    emitter: FunctionEmitter,
    value: str,
    memref: MemRef,
    indices: Sequence[Index],
    min_alignment: int = 1,
    has_own_byte: bool = False,
) -> None:
    """Emit the store of the element at `indices`, which leaves other elements of the same byte unchanged.

    Args:
        emitter: The function's emitter.
        value: The element.
        memref: The memref.
        indices: Index along each dimension.
        min_alignment: Bytes that the address is a multiple of.
        has_own_byte: Whether no other iteration writes elements of the same byte.
    """
    element = memref.element
    if packed(element):
        is_memory_of_thread = memref.root == "stack" or not emitter.platform.concurrent
        _store_packed(emitter, value, memref, indices, is_sole_writer=has_own_byte or is_memory_of_thread)
        return
    if bit_width(element) < 8:
        value = emitter.body.let(f"zext {scalar(element)} {value} to i8")
    memory_type, align = memory_type_of(element), max(min_alignment, alignment(element))
    pointer = address(emitter, memref, indices)
    emitter.body.emit(f"store {memory_type} {value}, ptr {pointer}, align {align}{emitter.access_metadata(memref)}")


def _store_packed(
    emitter: FunctionEmitter, value: str, memref: MemRef, indices: Sequence[Index], is_sole_writer: bool
) -> None:
    """Emit the store of an element that shares its byte with neighbours.

    is_sole_writer: whether no other invocation stores elements of the byte at the same time. Otherwise the element's
    bits are cleared and then set by atomic operations; no other invocation reads the element in between.
    """
    # The address of the byte, the position of the element's lowest bit in it, and a mask of the other bits.
    pointer, shift = _packed_address(emitter, memref, indices)
    # shared=True: other iterations of a parallel loop may store to the same byte.
    access, let = emitter.access_metadata(memref, shared=True), emitter.body.let
    mask = (1 << bit_width(memref.element)) - 1
    byte_value = let(f"zext {scalar(memref.element)} {value} to i8")
    shifted_value = let(f"shl i8 {byte_value}, {shift}")
    if isinstance(shift, int):
        mask_of_others: Index = ~(mask << shift)
    else:
        shifted_mask = let(f"shl i8 {mask}, {shift}")
        mask_of_others = let(f"xor i8 {shifted_mask}, -1")
    if not is_sole_writer:
        scope = emitter.platform.atomic_scope
        let(f"atomicrmw and ptr {pointer}, i8 {mask_of_others} {scope}monotonic")
        let(f"atomicrmw or ptr {pointer}, i8 {shifted_value} {scope}monotonic")
        return
    old_byte = let(f"load i8, ptr {pointer}, align 1{access}")
    other_bits = let(f"and i8 {old_byte}, {mask_of_others}")
    new_byte = let(f"or i8 {other_bits}, {shifted_value}")
    emitter.body.emit(f"store i8 {new_byte}, ptr {pointer}, align 1{access}")


def _load(emitter: FunctionEmitter, op: Operation) -> None:
    """Lower `memref.load`."""
    indices = [emitter.index(o) for o in op.operands[1:]]
    emitter.define(
        op.results[0], load(emitter, emitter.memref(op.operands[0]), indices, integer(op, "alignment", default=1))
    )


def _store(emitter: FunctionEmitter, op: Operation) -> None:
    """Lower `memref.store`."""
    target = emitter.memref(op.operands[1])
    if target.read_only:
        raise emitter.error("a store into a binding that is only read", READ_ONLY_NOTE)
    indices = [emitter.index(o) for o in op.operands[2:]]
    store(
        emitter,
        emitter.get(op.operands[0]),
        target,
        indices,
        min_alignment=integer(op, "alignment", default=1),
        has_own_byte=attribute(op, OWN_BYTE) is not None,  # set where no other iteration writes elements of the byte
    )


def _static_storage(emitter: FunctionEmitter, type_: Attribute) -> tuple[MemRefType, int]:
    """Return the type of an allocation, and its size in bytes, which must be static.

    Raises:
        CompileError: The size is dynamic, or the layout is not the identity.
    """
    memref = checked_memref(type_)
    _, sizes, strides = layout_of(memref)
    if any(part is None for part in (*sizes, *strides)):
        raise emitter.error(
            f"storage of type {memref} has no size known while compiling",
            "kernels have no allocator: take the largest size, or pass scratch memory as a binding",
        )
    # The strides of the identity layout: the products of later sizes.
    identity_strides = [prod(size for size in sizes[i + 1 :] if size is not None) for i in range(len(sizes))]
    if list(strides) != identity_strides or layout_of(memref).offset != 0:
        raise emitter.error(f"storage of type {memref} must have the identity layout")
    return memref, storage_bytes(memref.element_type, prod(size for size in sizes if size is not None))


def _new_memref(pointer: str, memref: MemRefType, root: str) -> MemRef:
    """Return the descriptor of a new allocation at `pointer` of static layout; `root` is `MemRef.root`."""
    _, sizes, strides = layout_of(memref)
    return MemRef(
        base=pointer,
        aligned=pointer,
        offset=0,
        sizes=tuple(size or 0 for size in sizes),  # `or 0` is for the type checker: none is None
        strides=tuple(stride or 0 for stride in strides),
        element=memref.element_type,
        root=root,
    )


def _alloc(emitter: FunctionEmitter, op: Operation) -> None:
    """Lower an allocation: workgroup memory if invocations share it, else the stack."""
    if not isinstance(op.results[0].type, MemRefType):
        raise unsupported(op)
    memref, size = _static_storage(emitter, op.results[0].type)
    align = max(integer(op, "alignment", default=1), alignment(memref.element_type))
    if is_shared_by_workgroup(op, memref):
        pointer = emitter.platform.workgroup_memory(emitter, size, align)
        # Inside of a parallel loop, all iterations use this memory one after another. The root "stack" keeps
        # `access_metadata` from declaring their accesses independent.
        root = "stack" if emitter.groups else "workgroup"
        emitter.define(op.results[0], _new_memref(pointer, memref, root))
        return
    # Alignment to 16 bytes lets LLVM use aligned vector loads and stores.
    pointer = emitter.alloca(f"[{max(size, 1)} x i8]", size, max(align, 16))
    emitter.define(op.results[0], _new_memref(pointer, memref, "stack"))


def _nothing(emitter: FunctionEmitter, op: Operation) -> None:
    """Emit nothing for `memref.dealloc`: memory lives as long as the workgroup."""


def _global(emitter: FunctionEmitter, op: Operation) -> None:
    """Lower `memref.get_global` of a constant."""
    name = attribute(op, "name")
    # The `memref.global` that the operation names.
    declared = emitter.module.memref_globals.get(symbol(op, "name")) if isinstance(name, SymbolRefAttr) else None
    if declared is None:
        raise emitter.error(f"memref.get_global of an unknown global {name}")
    memref, _ = _static_storage(emitter, op.results[0].type)
    llvm_name = "@" + f'"{symbol(op, "name")}.constant"'
    emitter.module.globals.setdefault(llvm_name, f"{llvm_name} = {_initializer(emitter, declared, memref)}")
    root = f"global {symbol(op, 'name')}"
    # It is read-only: `_initializer` refuses globals that are not constant.
    emitter.define(op.results[0], _new_memref(llvm_name, memref, root).rooted(root, read_only=True))


def _initializer(emitter: FunctionEmitter, op: Operation, memref: MemRefType) -> str:
    """Return the LLVM definition of a constant global, without its name.

    An array of four i8 is `private constant [4 x i8] [i8 1, i8 2, i8 3, i8 4], align 16`. Elements of 2 or 4
    bits share bytes, the first one in the low bits: the i4 1 and 2 are `i8 33`, 0x21.

    Args:
        emitter: Emitter of the function that reads the global.
        op: The `memref.global`.
        memref: Its type, of static shape.

    Raises:
        CompileError: The global is not constant.
    """
    values = attribute(op, "initial_value")
    if attribute(op, "constant") is None or not isinstance(values, DenseIntOrFPElementsAttr):
        raise emitter.error(
            f"global '{symbol(op, 'sym_name')}' is not a constant with a value",
            "workgroups share no state: use a binding for data that kernels write",
        )
    memory_type = memory_type_of(memref.element_type)
    texts = _element_texts(values, memref)
    elements = ", ".join(f"{memory_type} {text}" for text in texts)
    align = max(integer(op, "alignment", default=1), 16)  # 16 bytes permit aligned vector loads
    return f"private constant [{len(texts)} x {memory_type}] [{elements}], align {align}"


def _element_texts(values: DenseIntOrFPElementsAttr, memref: MemRefType) -> list[str]:
    """Return the elements of a constant global as LLVM constants of its type in memory, without that type."""
    element = memref.element_type
    data: list[Any] = list(values.get_values())
    if len(data) == 1:  # one value for all elements
        data *= prod(memref.get_shape())
    if bit_width(element) < 8:
        codes = [float_bits(float(value), element) if is_float(element) else int(value) for value in data]
        return _bytes(codes, element)
    return [(float_constant if is_float(element) else int_constant)(value, element) for value in data]


def _bytes(codes: list[int], type_: Attribute) -> list[str]:
    """Return the bytes of elements of less than 8 bits as LLVM constants of i8, which are signed.

    `codes` are the bits of each element, as a number that may be negative. The first element of a byte is in the low
    bits: the i4 1, 2 and -1 are the bytes 0x21 and 0x0F.
    """
    width, elements_per_byte = bit_width(type_), 8 // storage_bits(type_)
    mask, texts = (1 << width) - 1, list[str]()
    for start in range(0, len(codes), elements_per_byte):
        byte = 0
        for position, code in enumerate(codes[start : start + elements_per_byte]):
            byte |= (code & mask) << (width * position)
        texts.append(str(byte - 256 if byte > 127 else byte))
    return texts


def _copy(emitter: FunctionEmitter, op: Operation) -> None:
    """Lower a `memref.copy` to a loop nest over elements, whose innermost loop LLVM vectorizes."""
    source, target = emitter.memref(op.operands[0]), emitter.memref(op.operands[1])
    if target.read_only:
        raise emitter.error("a copy into a binding that is only read", READ_ONLY_NOTE)
    # A size may be static in one memref only.
    sizes = [s if isinstance(s, int) else t for s, t in zip(source.sizes, target.sizes, strict=True)]

    def body(point: list[str]) -> None:
        """Copy the element of `source` at the indices `point` to `target`."""
        indices: list[Index] = list(point)
        store(emitter, load(emitter, source, indices), target, indices)

    nest(emitter, [(0, size, 1) for size in sizes], body)


def _assume_alignment(emitter: FunctionEmitter, op: Operation) -> None:
    """Forward the operands of `memref.assume_alignment`, a hint that the compiler does not check.

    Only the declared alignment of bindings is used.
    """
    for result in op.results:
        emitter.define(result, emitter.values[op.operands[0]])


ROWS: dict[str, Lowering] = {
    "memref.load": _load,
    "memref.store": _store,
    "memref.alloc": _alloc,
    "memref.alloca": _alloc,
    "memref.dealloc": _nothing,
    "memref.get_global": _global,
    "memref.copy": _copy,
    "memref.assume_alignment": _assume_alignment,
}
"""Name of an operation → function that emits LLVM IR for it."""
