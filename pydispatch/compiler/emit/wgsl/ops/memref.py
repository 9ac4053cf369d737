"""memref: loads, stores, storage."""

from __future__ import annotations

from xdsl.dialects.builtin import Float32Type, MemRefType, SymbolRefAttr
from xdsl.ir import Attribute, Operation

from pydispatch.compiler.emit.shaders.tables import table_values
from pydispatch.compiler.emit.shaders.values import MemRef, Root, fresh
from pydispatch.compiler.emit.wgsl.function import FunctionEmitter, Lowering
from pydispatch.compiler.emit.wgsl.ops import elements
from pydispatch.compiler.emit.wgsl.ops.floats import float_constant
from pydispatch.compiler.emit.wgsl.words import Name, as_unsigned
from pydispatch.compiler.kernel_ir.readers import attribute, operands_of, symbol, unsupported
from pydispatch.compiler.kernel_ir.storage import READ_ONLY_NOTE, is_common
from pydispatch.compiler.kernel_ir.types import is_float


def writable(f: FunctionEmitter, memref: MemRef) -> None:
    if memref.root.read_only:
        what = f"binding {memref.root.binding}" if memref.root.kind == "binding" else "a constant"
        raise f.error(f"store into {what} that is only read", READ_ONLY_NOTE)


def element_name(f: FunctionEmitter, memref: MemRef, op: Operation, first: int) -> str:
    """Return the expression of an element of memory that is one variable."""
    index = elements.element_place(f, memref, [f.index(value) for value in operands_of(op)[first:]])
    return f"{memref.root.variable}[{f.place(index)}]"


def _atomic_storage(f: FunctionEmitter, memref: MemRef) -> bool:
    return memref.root.kind != "binding" and memref.root.key in f.atomic


def _load(f: FunctionEmitter, op: Operation) -> None:
    memref = f.memref(op.operands[0])
    if memref.root.kind == "binding":
        indices = [f.index(value) for value in operands_of(op)[1:]]
        f.define(op.results[0], elements.load(f, memref, indices))
        return
    place = element_name(f, memref, op, 1)
    if not _atomic_storage(f, memref):
        f.define(op.results[0], f.let(place))
        return
    word = f.let(f"atomicLoad(&{place})")
    f.define(op.results[0], from_word(f, word, f.atomic[memref.root.key].word, memref.element))


def _store(f: FunctionEmitter, op: Operation) -> None:
    memref, value = f.memref(op.operands[1]), f.get(op.operands[0])
    writable(f, memref)
    if memref.root.kind == "binding":
        elements.store(f, value, memref, [f.index(each) for each in operands_of(op)[2:]])
        return
    place = element_name(f, memref, op, 2)
    atomic = f.atomic.get(memref.root.key) if memref.root.kind != "binding" else None
    if atomic:
        f.do(f"atomicStore(&{place}, {to_word(f, value, atomic.word, memref.element)});")
    else:
        f.do(f"{place} = {value};")


def from_word(f: FunctionEmitter, value: str, word: str, element: Attribute) -> Name:
    """Return the register of an element of a word, which is i32 or u32."""
    if type(element) is Float32Type:
        return f.let(f"bitcast<f32>({value})")
    return f.from_bits(f.let(value if word == "i32" else f"i32({value})"), element)


def to_word(f: FunctionEmitter, value: Name, word: str, element: Attribute) -> Name:
    """Return a register as a word, which is i32 or u32."""
    if type(element) is Float32Type:
        return f.let(f"bitcast<{word}>({value})")
    value = f.to_bits(value, element)
    return value if word == "i32" else f.let(as_unsigned(value))


# Storage


def _alloc(f: FunctionEmitter, op: Operation) -> None:
    if not isinstance(op.results[0].type, MemRefType):
        raise unsupported(op)
    memref, count = f.storage(op.results[0].type)
    atomic = f.atomic.get(op)
    held = atomic.type if atomic else f.type(memref.element_type)
    if is_common(op, memref):
        name = f.module.unused("shared")
        f.module.declare(name, lambda: f"var<workgroup> {name}: array<{held}, {count}>;")
        f.workgroup_bytes += count * (8 if held == "vec2u" else 4)
        root = Root("workgroup", op, variable=name)
    else:
        if atomic:
            raise f.error("an atomic operation on memory of one invocation", "use memref.load and memref.store")
        f.check_private(memref, count)
        private = f.fresh("own")
        f.entry.append(f"  var {private}: array<{held}, {count}>;")
        root = Root("function", op, variable=private)
    f.define(op.results[0], fresh(memref, root))


def _nothing(f: FunctionEmitter, op: Operation) -> None:
    """dealloc: storage lives as long as the workgroup."""


def _global(f: FunctionEmitter, op: Operation) -> None:
    name = attribute(op, "name")
    found = f.definitions.memref_globals.get(symbol(op, "name")) if isinstance(name, SymbolRefAttr) else None
    if found is None:
        raise f.error(f"memref.get_global of an unknown global {name}")
    memref, count = f.storage(op.results[0].type)
    held = f.type(memref.element_type)
    words = "".join(letter if letter.isalnum() else "_" for letter in symbol(op, "name"))
    variable = f"table_{words}_{held}"

    def make() -> str:
        values = ", ".join(_elements(f, found, memref.element_type, count))
        return f"var<private> {variable}: array<{held}, {count}> = array<{held}, {count}>({values});"

    f.module.declare(variable, make)
    f.define(op.results[0], fresh(memref, Root("constant", ("global", variable), variable=variable, read_only=True)))


def _elements(f: FunctionEmitter, op: Operation, element: Attribute, count: int) -> list[Name]:
    values = table_values(f, op, element, f.width(element), count)
    if is_float(element):
        return [float_constant(f, value, element) for value in values]
    return [f.constant(value, element) for value in values]


def _same(f: FunctionEmitter, op: Operation) -> None:
    """Forward the operand of `memref.assume_alignment`, a hint that the compiler does not check."""
    for result in op.results:
        f.define(result, f.values[op.operands[0]])


ROWS: dict[str, Lowering] = {
    "memref.load": _load,
    "memref.store": _store,
    "memref.alloc": _alloc,
    "memref.alloca": _alloc,
    "memref.dealloc": _nothing,
    "memref.get_global": _global,
    "memref.assume_alignment": _same,
}
