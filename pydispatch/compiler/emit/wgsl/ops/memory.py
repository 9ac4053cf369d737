"""Memory of WGSL; what loads, stores and atomic updates mean is in `shaders/memory.py` and `shaders/atomics.py`.

`buffers.py` says how a binding is declared. All elements below 32 bits are parts of words, but for those of a binding
that is declared as f16.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.ir import Attribute, Operation

from pydispatch.compiler.emit.shaders.atomics import Atomics
from pydispatch.compiler.emit.shaders.values import MemRef
from pydispatch.compiler.emit.wgsl.buffers import Buffer, element_bits
from pydispatch.compiler.emit.wgsl.function import FunctionEmitter, Index, Lowering
from pydispatch.compiler.emit.wgsl.ops.registers import WgslRegisters
from pydispatch.compiler.emit.wgsl.words import Name, as_unsigned
from pydispatch.compiler.kernel_ir.atomics import UNSIGNED
from pydispatch.compiler.kernel_ir.types import bit_width, is_float

_UPDATES = {
    "addi": "atomicAdd", "assign": "atomicExchange", "maxs": "atomicMax", "maxu": "atomicMax", "mins": "atomicMin",
    "minu": "atomicMin", "ori": "atomicOr", "andi": "atomicAnd", "xori": "atomicXor",
}  # fmt: skip
"""Kind of an update -> its built-in function; others are loops of compare and exchange."""
_WORDS = {"maxs": "i32", "mins": "i32", **dict.fromkeys(UNSIGNED, "u32")}
"""Kind of an update -> type that the words must have; other kinds are the same on i32 and u32."""


def binding_variable(emitter: FunctionEmitter, binding: int) -> tuple[str, Buffer]:
    """Return the name of the variable of a binding, which is declared on first use, and its element type.

    binding: ordinal of the binding.
    """
    buffer = emitter.buffers.get(binding, Buffer("u32"))
    emitter.used_bindings[binding] = None
    # The declaration is in the name, since exports of one module may declare a binding differently.
    suffix = {"f32": "f", "i32": "i", "u32": "u", "vec2u": "w", "f16": "h"}[buffer.word]
    atomic_suffix = "a" if buffer.is_atomic else ""
    name = f"binding{binding}_{suffix}{atomic_suffix}"
    text = f"@group(0) @binding({binding}) var<storage, read_write> {name}: array<{buffer.type}>;"
    return emitter.module.declare(name, lambda: text), buffer


def _storage(emitter: FunctionEmitter, memref: MemRef) -> tuple[str, Buffer]:
    """Return the name of the variable that has the elements of a memref, and its element type."""
    if memref.root.kind == "binding":
        return binding_variable(emitter, memref.root.binding)
    buffer = emitter.atomic.get(memref.root.key)  # None for an allocation without atomic operations
    return memref.root.variable, buffer or Buffer(emitter.type(memref.element))


def _read(buffer: Buffer, address: str) -> str:
    """Return the expression that reads a word of a buffer; `address` is the expression of the word."""
    return f"atomicLoad(&{address})" if buffer.is_atomic else address


def _write(emitter: FunctionEmitter, buffer: Buffer, address: str, value: str) -> None:
    """Emit the store of a word of a buffer; `address` is the expression of the word."""
    emitter.do(f"atomicStore(&{address}, {value});" if buffer.is_atomic else f"{address} = {value};")


def _let_integer(emitter: FunctionEmitter, text: str, word: str) -> Name:
    """Emit the expression `text`, of the type `word`, i32 or u32, and return its value as an i32."""
    return emitter.let(text if word == "i32" else f"i32({text})")


def _as_word(value: Name, word: str) -> Name:
    """Return an i32 as an operand of the type `word`, i32 or u32."""
    return value if word == "i32" else Name(as_unsigned(value))


class _Memory(WgslRegisters, Atomics[FunctionEmitter, Name]):
    """Lowerings of loads, stores and atomic updates to WGSL; the base classes decide what they mean.

    Buffers of WGSL are arrays of words: i32, u32, f32, f16 or vec2u.
    """

    most_atomic_bits = 32

    def shares_word(self, emitter: FunctionEmitter, memref: MemRef) -> bool:
        """Return whether several elements share a word of the binding, so that a store must keep the others."""
        # Buffers of f16 are arrays of 16-bit elements; other buffers are arrays of words.
        return element_bits(memref.element) < 32 and binding_variable(emitter, memref.root.binding)[1].word != "f16"

    def load_element(self, emitter: FunctionEmitter, memref: MemRef, index: Index) -> Name:
        """Emit the load of an element that does not share its word with others, and return its register.

        An element of 64 bits in a buffer of 32-bit words is two of them: element 3 is words 6 and 7, the low word
        first. Other elements are converted from the type of the word: an f32 in a buffer of u32 by bitcast. Integers
        that are narrower than their storage, such as i20 in 32 bits, are sign-extended.

        Args:
            emitter: The function's emitter.
            memref: The memref that has the element.
            index: Index of the element in the storage of the memref.
        """
        element, (name, buffer) = memref.element, _storage(emitter, memref)
        type_ = emitter.type(element)
        if type_ == "vec2u" and buffer.word != "vec2u":  # 64 bits in a buffer of 32-bit words
            first = emitter.times(index, 2)
            low, high = (_read(buffer, f"{name}[{emitter.element_index(emitter.plus(first, n))}]") for n in (0, 1))
            return emitter.let(f"vec2u({low}, {high})")
        text = _read(buffer, f"{name}[{emitter.element_index(index)}]")
        if type_ == buffer.word:
            value = emitter.let(text)
        else:
            value = self.from_bits(emitter, _let_integer(emitter, text, buffer.word), element)
        is_in_binding = memref.root.kind == "binding"  # other memory holds integers that are extended already
        if is_in_binding and not is_float(element) and bit_width(element) < element_bits(element):
            return self.sign_extended(emitter, value, bits=bit_width(element), width=32)
        return value

    def store_element(self, emitter: FunctionEmitter, memref: MemRef, index: Index, value: Name) -> None:
        """Store a register as an element that does not share its word with others.

        An element of 64 bits in a buffer of 32-bit words is two of them: element 3 is words 6 and 7, the low word
        first. Other registers are converted to `buffer.word`, the WGSL type of the buffer's words.
        """
        name, buffer = _storage(emitter, memref)
        type_ = emitter.type(memref.element)
        if type_ == "vec2u" and buffer.word != "vec2u":  # 64 bits in a buffer of 32-bit words
            first = emitter.times(index, 2)
            for offset, part in enumerate("xy"):  # the low word, the high word
                address = f"{name}[{emitter.element_index(emitter.plus(first, offset))}]"
                _write(emitter, buffer, address, f"{value}.{part}")
            return
        if type_ != buffer.word:
            value = _as_word(self.to_bits(emitter, value, memref.element), buffer.word)
        _write(emitter, buffer, f"{name}[{emitter.element_index(index)}]", value)

    def load_word(self, emitter: FunctionEmitter, memref: MemRef, index: Index) -> Name:
        """Load a 32-bit word of a binding as an i32."""
        name, buffer = binding_variable(emitter, memref.root.binding)
        return _let_integer(emitter, _read(buffer, f"{name}[{emitter.element_index(index)}]"), buffer.word)

    def atomic_address(self, emitter: FunctionEmitter, memref: MemRef, index: Index, bits: int) -> Name:
        """Return the expression of word `index` of a storage, which atomic functions take the address of."""
        return Name(f"{_storage(emitter, memref)[0]}[{emitter.element_index(index)}]")

    def atomic_update(
        self, emitter: FunctionEmitter, kind: str, memref: MemRef, address: Name, bits: int, value: Name
    ) -> Name | None:
        """Emit the atomic function of an update, and return the old word as an i32.

        Return None if WGSL has no function of this kind for the type of the buffer's words.
        """
        _, buffer = _storage(emitter, memref)
        word = buffer.word
        has_right_sign = _WORDS.get(kind, word) == word  # minima and maxima need words of their sign
        if kind not in _UPDATES or not has_right_sign:
            return None
        return _let_integer(emitter, f"{_UPDATES[kind]}(&{address}, {_as_word(value, word)})", word)

    def compare_exchange(
        self, emitter: FunctionEmitter, memref: MemRef, address: Name, bits: int, new: Callable[[Name], Name]
    ) -> Name:
        """Emit a compare-exchange loop on a word, and return the old word, an i32.

        Args:
            emitter: The function's emitter.
            memref: The memref that has the word.
            address: Expression of the word.
            bits: Width of the word: always 32, the only width of atomic operations in WGSL.
            new: Emits the new word from an old one, both i32.
        """
        _, buffer = _storage(emitter, memref)
        seen = emitter.var("i32")  # the word before the update
        emitter.iterations.mark_unknown()  # other invocations decide how often the loop repeats
        emitter.do("loop {")
        with emitter.scope():
            emitter.do(f"{seen} = i32(atomicLoad(&{address}));")
            # Both words in the type that the buffer is declared with, i32 or u32.
            old, stored = (_as_word(value, buffer.word) for value in (seen, new(seen)))
            emitter.do(f"if atomicCompareExchangeWeak(&{address}, {old}, {stored}).exchanged {{ break; }}")
        emitter.do("}")
        return seen

    def workgroup_variable(self, emitter: FunctionEmitter, op: Operation, element: Attribute, count: int) -> str:
        """Declare workgroup memory of `count` elements for an allocation, and return its name."""
        name, stored_type = emitter.module.unused("shared"), self._stored_type(emitter, op, element)
        emitter.workgroup_bytes += count * (8 if stored_type == "vec2u" else 4)  # two words for 64 bits, else one
        return emitter.module.declare(name, lambda: f"var<workgroup> {name}: array<{stored_type}, {count}>;")

    def private_variable(self, emitter: FunctionEmitter, op: Operation, element: Attribute, count: int) -> str:
        """Declare the private array of an allocation, of `count` elements, and return its name."""
        name = emitter.fresh("own")
        emitter.entry.append(f"  var {name}: array<{self._stored_type(emitter, op, element)}, {count}>;")
        return name

    def _stored_type(self, emitter: FunctionEmitter, op: Operation, element: Attribute) -> str:
        """Return the WGSL type of the elements of the allocation `op`: atomic if atomic operations access them."""
        atomic = emitter.atomic.get(op)
        return atomic.type if atomic else emitter.type(element)

    def declare_table(
        self, emitter: FunctionEmitter, name: str, element: Attribute, count: int, values: Callable[[], Sequence[Any]]
    ) -> tuple[object, str]:
        """Return the key and the name of the private array of a constant table, which is declared on first use.

        The key identifies the storage: memrefs of equal keys may alias (`Root.key`). The name of a table "sine" of f32
        is table_sine_f32.

        Args:
            emitter: The function's emitter.
            name: Name of the table in the program, which may have characters that WGSL does not permit.
            element: Type of its elements.
            count: Number of its elements.
            values: Returns the elements.
        """
        declared_type = emitter.type(element)  # in the name, since it differs between functions of one module
        variable = f"table_{''.join(letter if letter.isalnum() else '_' for letter in name)}_{declared_type}"

        def constant(value: Any) -> Name:
            """Return an element of type `element` as a constant."""
            if is_float(element):
                return self.float_constant(emitter, value, element)
            return emitter.constant(value, element)

        def declare() -> str:
            """Return the declaration of the array `variable` of `count` elements `values()`."""
            array = f"array<{declared_type}, {count}>"
            return f"var<private> {variable}: {array} = {array}({', '.join(map(constant, values()))});"

        return ("global", variable), emitter.module.declare(variable, declare)


ROWS: dict[str, Lowering] = _Memory().rows()
"""Name of an operation → function that emits WGSL for it."""
