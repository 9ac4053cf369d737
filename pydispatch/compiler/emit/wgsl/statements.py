"""Statements and scopes of a WGSL function, and the types and constants of its values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from xdsl.dialects.builtin import Float16Type, Float32Type
from xdsl.ir import Attribute, Operation, SSAValue

from pydispatch.compiler.emit.shaders.definitions import Definitions
from pydispatch.compiler.emit.shaders.function import Table
from pydispatch.compiler.emit.shaders.loops import LoopEmitter
from pydispatch.compiler.emit.wgsl.buffers import Buffer
from pydispatch.compiler.emit.wgsl.module import Module
from pydispatch.compiler.emit.wgsl.uniformity import Uniformity
from pydispatch.compiler.emit.wgsl.words import Literal, Name, integer, two_words
from pydispatch.compiler.kernel_ir.simt.distribute import Kernel
from pydispatch.ir.core.locations import line_of


class StatementEmitter(LoopEmitter[Name]):
    """Emitter of the statements of one WGSL function: an entry point, or a definition.

    A definition is a function that computes one operation, such as `exp`, and that entry points call.

    Attributes:
        module: The WGSL module that the function belongs to.
        definitions: The functions and constant tables of the kernel IR.
        constant_keys: The key (name) of each 32-bit word of the executable constants, in order.
        entry: Statements at the beginning of the function, where they dominate all others.
        lines: The other statements. Both lists have indented lines of WGSL.
        parameters: Built-in parameter that the function takes → its declaration.
        buffers: Ordinal of a binding → its declared element type.
        atomic: Allocation (its operation) that atomic operations access → its declared element type.
        is_definition: Whether the function is a definition.
        has_f16: Whether the target's WGSL has the type f16; without it, an i32 holds the bits of an f16.
        synchronizes_buffers: Whether invocations read in bindings what others wrote before a barrier.
        reads_constants: Whether the code reads constants of the layout (scalar arguments of the dispatch).
        used_bindings: Ordinals of the bindings that the code accesses, in order of first use.
        workgroup_bytes: Bytes of the workgroup memory declared so far.
        index_type: WGSL type of an index: i32, or vec2u (low word first) for 64 bits.
    """

    handle_type = Name

    def __init__(
        self, module: Module, definitions: Definitions, table: Table, kernel: Kernel, constant_keys: Sequence[str] = ()
    ) -> None:
        """Begin the function without statements.

        Args:
            module: The WGSL module that the function belongs to.
            definitions: The functions and constant tables of the kernel IR.
            table: Lowering of each operation, by its name, which emits its statements.
            kernel: The function, lowered to the code of one invocation.
            constant_keys: The key (name) of each 32-bit word of the executable constants, in order.
        """
        super().__init__(table, kernel)
        self.module, self.definitions = module, definitions
        self.constant_keys = tuple(constant_keys)
        self.entry: list[str] = []  # statements at the beginning, which dominate all others
        self.lines: list[str] = []  # the other statements
        self.parameters: dict[str, str] = {}  # built-in parameter → its declaration
        self.buffers: Mapping[int, Buffer] = {}  # ordinal of a binding → its declared element type
        # Allocation (its operation) that atomic operations access → its declared element type.
        self.atomic: Mapping[object, Buffer] = {}
        self.is_definition = False  # whether the function computes one operation for entry points, such as `exp`
        self.has_f16 = False  # whether the target's WGSL has the type f16
        # Whether invocations read in bindings what others wrote before a barrier.
        self.synchronizes_buffers = False
        self.reads_constants = False  # whether the code reads scalar arguments of the dispatch
        self.used_bindings: dict[int, None] = {}  # a set with an order
        self.workgroup_bytes = 0
        self.uniformity = Uniformity(kernel.barriers)
        self.index_type = "i32" if self.index_width == 32 else "vec2u"
        self._pad = "  "  # indentation of the current scope
        self._count = 0  # names that fresh() returned
        self._cache: dict[object, Name] = {}  # key → name that at_entry() returned
        self._cached_sums: dict[str, Name] = {}  # index expression → name of its value, in the current scope

    # Statements

    def fresh(self, stem: str = "v") -> Name:
        """Return a new name for a value: `stem` with a number that no other name of the function has."""
        self._count += 1
        return Name(f"{stem}{self._count}")

    def do(self, statement: str) -> None:
        """Append a statement."""
        self.lines.append(self._pad + statement)

    def let(self, expression: str, stem: str = "v") -> Name:
        """Append a `let` statement with a new name that begins with `stem`, and return the name."""
        name = self.fresh(stem)
        self.lines.append(f"{self._pad}let {name} = {expression};")
        return name

    def call(self, function: str, *arguments: object) -> Name:
        """Emit a call of a function of the library, and return its result."""
        return self.let(f"{self.module.library(function)}({', '.join(map(str, arguments))})")

    def var(self, type_: str, value: str = "", stem: str = "r") -> Name:
        """Declare a variable of the current scope and return its name. Without a `value`, WGSL initializes it to 0."""
        name = self.fresh(stem)
        self.do(f"var {name}: {type_}{f' = {value}' if value else ''};")
        return name

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Indent the statements that are emitted in this context.

        Index sums that are cached in the context are dropped afterwards: their names are not visible outside of it.
        """
        pad, sums = self._pad, self._cached_sums
        self._pad, self._cached_sums = pad + "  ", dict(sums)
        yield
        self._pad, self._cached_sums = pad, sums

    @contextmanager
    def at_source_line(self, op: Operation) -> Iterator[None]:
        """Append a comment with the source line of `op` to each line of WGSL that is emitted in this context.

        Lines that an operation in a region of `op` has emitted have a comment already.
        """
        lines, start, location = self.lines, len(self.lines), line_of(op, self.function)
        yield
        if location is not None:
            for index in range(start, len(lines)):
                if " // line " not in lines[index]:
                    lines[index] += f" // line {location.line}"

    def at_entry(self, key: object, make: Callable[[], Name]) -> Name:
        """Return the cached name of `key`; on a miss call `make`, and add what it emits to the function's beginning."""
        cached = self._cache.get(key)
        if cached is None:
            lines, pad, sums = self.lines, self._pad, self._cached_sums
            # `make` must not use cached sums: the statements that compute them come later.
            self.lines, self._pad, self._cached_sums = self.entry, "  ", {}
            cached = self._cache[key] = make()
            self.lines, self._pad, self._cached_sums = lines, pad, sums
        return cached

    def operands(self, values: Sequence[SSAValue]) -> list[Name]:
        """Return the names of scalars; if all are literals, the first one is bound to a name.

        WGSL evaluates expressions of literals alone at compile time, and refuses those that overflow.
        """
        operands = [self.get(value) for value in values]
        if operands and all(type(operand) is Literal for operand in operands):
            operands[0] = self.held(operands[0])
        return operands

    def held(self, value: Name) -> Name:
        """Bind a literal to a name at the entry of the function, and return the name.

        An operation on literals alone needs it: WGSL evaluates it at compile time, and refuses it if it overflows.
        """
        return self.at_entry(("literal", value), lambda: self.let(value, "k"))

    # Types and constants

    def type(self, type_: Attribute) -> str:
        """Return the WGSL type of the register that holds a scalar of kernel IR: narrow integers are widened to i32."""
        if type(type_) is Float32Type:
            return "f32"
        if self.is_f16(type_):
            return "f16"
        return {1: "bool", 32: "i32", 64: "vec2u"}[self.width(type_)]

    def is_f16(self, type_: Attribute) -> bool:
        """Return whether registers of a type have the WGSL type f16: false for f16 on targets without it."""
        return self.has_f16 and type(type_) is Float16Type

    def from_bits(self, value: Name, type_: Attribute) -> Name:
        """Return the register of a scalar from its bits as they are stored in memory: the two differ for f16 alone."""
        return self.call("pyd_f16", value) if self.is_f16(type_) else value

    def to_bits(self, value: Name, type_: Attribute) -> Name:
        """Return the bits of a scalar, as they are stored in memory, from its register; the inverse of from_bits()."""
        return self.call("pyd_f16_bits", value) if self.is_f16(type_) else value

    def constant(self, value: int, type_: Attribute) -> Name:
        """Return an integer constant in the register of a scalar type."""
        return self.number(value, self.width(type_))

    def number(self, value: int, width: int) -> Name:
        """Return the literal of an integer in a register of `width` bits: 1, 32 or 64."""
        if width == 1:
            return Literal("true" if value & 1 else "false")
        return integer(value) if width == 32 else two_words(value)
