"""memref: loads, stores, atomic operations, storage."""

from __future__ import annotations

from xdsl.dialects.builtin import MemRefType, SymbolRefAttr
from xdsl.ir import Attribute, Operation

from pydispatch.compiler.emit.llvm.ops.memref import ATOMIC_KINDS
from pydispatch.compiler.emit.shaders.tables import table_values
from pydispatch.compiler.emit.shaders.values import MemRef, Root, fresh
from pydispatch.compiler.emit.wgsl.function import FunctionEmitter, Lowering
from pydispatch.compiler.emit.wgsl.ops import elements
from pydispatch.compiler.emit.wgsl.ops.floats import float_constant
from pydispatch.compiler.emit.wgsl.words import Name, as_unsigned
from pydispatch.compiler.kernel_ir.readers import attribute, integer, operands_of, symbol, unsupported
from pydispatch.compiler.kernel_ir.storage import READ_ONLY_NOTE, is_common
from pydispatch.compiler.kernel_ir.types import bit_width, is_float

ATOMICS = {"addi": "atomicAdd", "assign": "atomicExchange", "maxs": "atomicMax", "maxu": "atomicMax",
           "mins": "atomicMin", "minu": "atomicMin", "ori": "atomicOr", "andi": "atomicAnd",
           "xori": "atomicXor"}  # fmt: skip

_SIGNED = {"maxs": "i32", "mins": "i32", "maxu": "u32", "minu": "u32"}


def _writable(f: FunctionEmitter, memref: MemRef) -> None:
    if memref.root.read_only:
        what = f"binding {memref.root.binding}" if memref.root.kind == "binding" else "a constant"
        raise f.error(f"store into {what} that is only read", READ_ONLY_NOTE)


def _element(f: FunctionEmitter, memref: MemRef, op: Operation, first: int) -> str:
    """An element of memory that is one variable."""
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
    place = _element(f, memref, op, 1)
    f.define(op.results[0], f.let(f"i32(atomicLoad(&{place}))" if _atomic_storage(f, memref) else place))


def _store(f: FunctionEmitter, op: Operation) -> None:
    memref, value = f.memref(op.operands[1]), f.get(op.operands[0])
    _writable(f, memref)
    if memref.root.kind == "binding":
        elements.store(f, value, memref, [f.index(each) for each in operands_of(op)[2:]])
        return
    place = _element(f, memref, op, 2)
    atomic = f.atomic.get(memref.root.key) if memref.root.kind != "binding" else None
    f.do(f"atomicStore(&{place}, {atomic.word}({value}));" if atomic else f"{place} = {value};")


def _atomic(f: FunctionEmitter, op: Operation) -> None:
    kind, memref = ATOMIC_KINDS[integer(op, "kind")], f.memref(op.operands[1])
    if kind not in ATOMICS or is_float(memref.element) or bit_width(memref.element) != 32:
        raise f.error(
            f"atomic '{kind}' on {memref.element} cannot be compiled into a kernel for this target",
            "it has atomic operations on i32; give each workgroup its own element",
        )
    _writable(f, memref)
    if memref.root.kind == "binding":
        name, buffer = elements.variable(f, memref.root.binding)
        index = elements.element_place(f, memref, [f.index(value) for value in operands_of(op)[2:]])
        place = f"{name}[{f.place(index)}]"
    else:
        buffer, place = f.atomic[memref.root.key], _element(f, memref, op, 2)
    if _SIGNED.get(kind, buffer.word) != buffer.word:
        f.define(op.results[0], _exchanged(f, kind, place, buffer.word, f.get(op.operands[0])))
        return
    made = f.let(f"{ATOMICS[kind]}(&{place}, {buffer.word}({f.get(op.operands[0])}))")
    f.define(op.results[0], made if buffer.word == "i32" else f.let(f"i32({made})"))


def _exchanged(f: FunctionEmitter, kind: str, place: str, word: str, value: Name) -> Name:
    """An atomic operation on numbers of the other sign than those of the declaration: tried until nobody came between.
    Gives the old number."""
    other, function = _SIGNED[kind], kind[:3]
    old = f.var(word)
    f.iterations.unknown()
    f.do("loop {")
    with f.scope():
        f.do(f"{old} = atomicLoad(&{place});")
        given = as_unsigned(value) if other == "u32" else value
        wanted = f.let(f"{word}({function}({other}({old}), {given}))")
        f.do(f"if atomicCompareExchangeWeak(&{place}, {old}, {wanted}).exchanged {{ break; }}")
    f.do("}")
    return old if word == "i32" else f.let(f"i32({old})")


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
    """A hint that our own rules cannot check."""
    for result in op.results:
        f.define(result, f.values[op.operands[0]])


ROWS: dict[str, Lowering] = {
    "memref.load": _load,
    "memref.store": _store,
    "memref.atomic_rmw": _atomic,
    "memref.alloc": _alloc,
    "memref.alloca": _alloc,
    "memref.dealloc": _nothing,
    "memref.get_global": _global,
    "memref.assume_alignment": _same,
}
