"""Accesses to elements of bindings: offsets, loads and stores."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Attribute

from pydispatch.compiler.emit.shaders.function import ShaderFunction
from pydispatch.compiler.emit.shaders.values import MemRef, known
from pydispatch.compiler.emit.wgsl.buffers import Buffer, element_bits
from pydispatch.compiler.emit.wgsl.function import FunctionEmitter, Index
from pydispatch.compiler.emit.wgsl.words import Name, as_unsigned, unsigned
from pydispatch.compiler.kernel_ir.types import bit_width, is_float


def variable(emitter: FunctionEmitter, binding: int) -> tuple[str, Buffer]:
    """(name, declaration) of a binding."""
    buffer = emitter.buffers.get(binding, Buffer("u32"))
    emitter.used_bindings[binding] = None
    suffix = {"f32": "f", "i32": "i", "u32": "u", "vec2u": "w", "f16": "h"}[buffer.word] + "a" * buffer.is_atomic
    name = f"binding{binding}_{suffix}"
    text = f"@group(0) @binding({binding}) var<storage, read_write> {name}: array<{buffer.type}>;"
    return emitter.module.declare(name, lambda: text), buffer


def element_place(emitter: ShaderFunction[Name], memref: MemRef, indices: Sequence[Index]) -> Index:
    """Return the place of an element, in elements."""
    strides = memref.strides
    if len(indices) != len(strides):
        raise emitter.error(f"a memref of rank {len(strides)} is indexed with {len(indices)} values")
    offset: Index = emitter.plus(memref.base, memref.offset)
    for index, stride in zip(indices, strides, strict=True):
        offset = emitter.plus(offset, emitter.times(index, stride))
    return offset


def load(emitter: FunctionEmitter, memref: MemRef, indices: Sequence[Index]) -> Name:
    """Load the element at `indices` of a binding, and return it."""
    element, index = memref.element, element_place(emitter, memref, indices)
    name, buffer = variable(emitter, memref.root.binding)
    bits = element_bits(element)
    if buffer.word == "f16":
        return emitter.let(f"{name}[{emitter.place(index)}]")
    if bits < 32:
        word_index, shift = part(emitter, index, bits)
        word = _word_at(buffer, name, word_index)
        width = bit_width(element)
        if width == 1:
            return emitter.let(f"extractBits({word}, {shift}, 8u) != 0u")
        return emitter.from_bits(emitter.let(f"extractBits(i32({word}), {shift}, {min(bits, width)}u)"), element)
    if bits == 64:
        if buffer.word == "vec2u":
            return emitter.let(f"{name}[{emitter.place(index)}]")
        first = emitter.times(index, 2)
        low, high = (_word_at(buffer, name, emitter.place(emitter.plus(first, n))) for n in (0, 1))
        return emitter.let(f"vec2u({low}, {high})")
    word = _word_at(buffer, name, emitter.place(index))
    wanted = emitter.type(element) if emitter.width(element) == 32 else "i32"
    value = word if wanted == buffer.word else f"bitcast<{wanted}>({word})"
    if emitter.width(element) == 64:  # an index of 64 bits never lies in 32
        raise emitter.error(f"elements of type {element} cannot be read")
    return emitter.let(_narrowed(value, element, bits))


def _narrowed(value: str, element: Attribute, bits: int) -> str:
    width = bit_width(element)
    return value if is_float(element) or width == bits else f"extractBits({value}, 0u, {width}u)"


def _word_at(buffer: Buffer, name: str, place: str) -> str:
    return f"atomicLoad(&{name}[{place}])" if buffer.is_atomic else f"{name}[{place}]"


def part(emitter: FunctionEmitter, index: Index, bits: int) -> tuple[str, str]:
    """Return (number of the word, bits before it) of an element that shares a word; the first has the low bits."""
    count = 32 // bits
    word_index = emitter.divide(index, count)
    within = emitter.divide(index, count, remainder=True)
    if known(within):
        return emitter.place(word_index), unsigned(within * bits)
    return emitter.place(word_index), emitter.let(f"u32({emitter.place(within)}) * {bits}u")


def store(emitter: FunctionEmitter, value: Name, memref: MemRef, indices: Sequence[Index]) -> None:
    """Write the element at `indices` of a binding and no other."""
    element, index = memref.element, element_place(emitter, memref, indices)
    name, buffer = variable(emitter, memref.root.binding)
    bits = element_bits(element)
    if buffer.word == "f16":
        emitter.do(f"{name}[{emitter.place(index)}] = {value};")
        return
    if bits < 32:
        value = emitter.to_bits(value, element)
        word_index, shift = part(emitter, index, bits)
        mask = (1 << min(bits, bit_width(element))) - 1
        moved = as_unsigned(value) if mask == 1 else f"({as_unsigned(value)} & {unsigned(mask)})"
        emitter.do(f"atomicAnd(&{name}[{word_index}], ~({unsigned((1 << bits) - 1)} << {shift}));")
        emitter.do(f"atomicOr(&{name}[{word_index}], {moved} << {shift});")
        return
    if bits == 64:
        if buffer.word == "vec2u":
            emitter.do(f"{name}[{emitter.place(index)}] = {value};")
            return
        first = emitter.times(index, 2)
        _write(emitter, buffer, f"{name}[{emitter.place(first)}]", f"{value}.x", "u32")
        _write(emitter, buffer, f"{name}[{emitter.place(emitter.plus(first, 1))}]", f"{value}.y", "u32")
        return
    _write(emitter, buffer, f"{name}[{emitter.place(index)}]", value, emitter.type(element))


def _write(emitter: FunctionEmitter, buffer: Buffer, place: str, value: str, type_: str) -> None:
    if type_ != buffer.word:
        value = f"bitcast<{buffer.word}>({value})"
    emitter.do(f"atomicStore(&{place}, {value});" if buffer.is_atomic else f"{place} = {value};")
