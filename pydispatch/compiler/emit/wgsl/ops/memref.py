"""memref: loads, stores, storage."""

from __future__ import annotations

from xdsl.dialects.builtin import Float32Type, MemRefType, SymbolRefAttr
from xdsl.ir import Attribute, Operation

from pydispatch.compiler.emit.shaders.tables import table_values
from pydispatch.compiler.emit.shaders.values import MemRef, Root, fresh
from pydispatch.compiler.emit.wgsl.function import FunctionEmitter, Lowering
from pydispatch.compiler.emit.wgsl.ops import elements
from pydispatch.compiler.emit.wgsl.ops.registers import REGISTERS
from pydispatch.compiler.emit.wgsl.words import Name, as_unsigned
from pydispatch.compiler.kernel_ir.readers import attribute, operands_of, symbol, unsupported
from pydispatch.compiler.kernel_ir.storage import READ_ONLY_NOTE, is_common
from pydispatch.compiler.kernel_ir.types import is_float


def writable(emitter: FunctionEmitter, memref: MemRef) -> None:
    if memref.root.read_only:
        what = f"binding {memref.root.binding}" if memref.root.kind == "binding" else "a constant"
        raise emitter.error(f"store into {what} that is only read", READ_ONLY_NOTE)


def element_name(emitter: FunctionEmitter, memref: MemRef, op: Operation, first: int) -> str:
    """Return the expression of an element of memory that is one variable."""
    index = elements.element_place(emitter, memref, [emitter.index(value) for value in operands_of(op)[first:]])
    return f"{memref.root.variable}[{emitter.place(index)}]"


def _atomic_storage(emitter: FunctionEmitter, memref: MemRef) -> bool:
    return memref.root.kind != "binding" and memref.root.key in emitter.atomic


def _load(emitter: FunctionEmitter, op: Operation) -> None:
    memref = emitter.memref(op.operands[0])
    if memref.root.kind == "binding":
        indices = [emitter.index(value) for value in operands_of(op)[1:]]
        emitter.define(op.results[0], elements.load(emitter, memref, indices))
        return
    place = element_name(emitter, memref, op, 1)
    if not _atomic_storage(emitter, memref):
        emitter.define(op.results[0], emitter.let(place))
        return
    word = emitter.let(f"atomicLoad(&{place})")
    emitter.define(op.results[0], from_word(emitter, word, emitter.atomic[memref.root.key].word, memref.element))


def _store(emitter: FunctionEmitter, op: Operation) -> None:
    memref, value = emitter.memref(op.operands[1]), emitter.get(op.operands[0])
    writable(emitter, memref)
    if memref.root.kind == "binding":
        elements.store(emitter, value, memref, [emitter.index(operand) for operand in operands_of(op)[2:]])
        return
    place = element_name(emitter, memref, op, 2)
    atomic = emitter.atomic.get(memref.root.key) if memref.root.kind != "binding" else None
    if atomic:
        emitter.do(f"atomicStore(&{place}, {to_word(emitter, value, atomic.word, memref.element)});")
    else:
        emitter.do(f"{place} = {value};")


def from_word(emitter: FunctionEmitter, value: str, word: str, element: Attribute) -> Name:
    """Return the register of an element of a word, which is i32 or u32."""
    if type(element) is Float32Type:
        return emitter.let(f"bitcast<f32>({value})")
    return emitter.from_bits(emitter.let(value if word == "i32" else f"i32({value})"), element)


def to_word(emitter: FunctionEmitter, value: Name, word: str, element: Attribute) -> Name:
    """Return a register as a word, which is i32 or u32."""
    if type(element) is Float32Type:
        return emitter.let(f"bitcast<{word}>({value})")
    value = emitter.to_bits(value, element)
    return value if word == "i32" else emitter.let(as_unsigned(value))


# Storage


def _alloc(emitter: FunctionEmitter, op: Operation) -> None:
    if not isinstance(op.results[0].type, MemRefType):
        raise unsupported(op)
    memref, count = emitter.storage(op.results[0].type)
    atomic = emitter.atomic.get(op)
    held = atomic.type if atomic else emitter.type(memref.element_type)
    if is_common(op, memref):
        name = emitter.module.unused("shared")
        emitter.module.declare(name, lambda: f"var<workgroup> {name}: array<{held}, {count}>;")
        emitter.workgroup_bytes += count * (8 if held == "vec2u" else 4)
        root = Root("workgroup", op, variable=name)
    else:
        if atomic:
            raise emitter.error("an atomic operation on memory of one invocation", "use memref.load and memref.store")
        emitter.check_private(memref, count)
        private = emitter.fresh("own")
        emitter.entry.append(f"  var {private}: array<{held}, {count}>;")
        root = Root("function", op, variable=private)
    emitter.define(op.results[0], fresh(memref, root))


def _nothing(emitter: FunctionEmitter, op: Operation) -> None:
    """dealloc: storage lives as long as the workgroup."""


def _global(emitter: FunctionEmitter, op: Operation) -> None:
    name = attribute(op, "name")
    declared = emitter.definitions.memref_globals.get(symbol(op, "name")) if isinstance(name, SymbolRefAttr) else None
    if declared is None:
        raise emitter.error(f"memref.get_global of an unknown global {name}")
    memref, count = emitter.storage(op.results[0].type)
    held = emitter.type(memref.element_type)
    words = "".join(letter if letter.isalnum() else "_" for letter in symbol(op, "name"))
    variable = f"table_{words}_{held}"

    def make() -> str:
        values = ", ".join(_elements(emitter, declared, memref.element_type, count))
        return f"var<private> {variable}: array<{held}, {count}> = array<{held}, {count}>({values});"

    emitter.module.declare(variable, make)
    emitter.define(
        op.results[0], fresh(memref, Root("constant", ("global", variable), variable=variable, read_only=True))
    )


def _elements(emitter: FunctionEmitter, op: Operation, element: Attribute, count: int) -> list[Name]:
    values = table_values(emitter, op, element, emitter.width(element), count)
    if is_float(element):
        return [REGISTERS.float_constant(emitter, value, element) for value in values]
    return [emitter.constant(value, element) for value in values]


def _same(emitter: FunctionEmitter, op: Operation) -> None:
    """Forward the operand of `memref.assume_alignment`, a hint that the compiler does not check."""
    for result in op.results:
        emitter.define(result, emitter.values[op.operands[0]])


ROWS: dict[str, Lowering] = {
    "memref.load": _load,
    "memref.store": _store,
    "memref.alloc": _alloc,
    "memref.alloca": _alloc,
    "memref.dealloc": _nothing,
    "memref.get_global": _global,
    "memref.assume_alignment": _same,
}
