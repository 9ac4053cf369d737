"""SPIR-V module under construction: its sections in order, unique types and constants, and ids.

Ids are `Id`, an int of its own type, so that a plain int may stand for a number known while compiling.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any, TypeAlias

from pydispatch.compiler.emit.spirv.words import CAPABILITY, DECORATION, EXTENSION_OF, GLSL, STORAGE, encode
from pydispatch.formats.spirv.instruction import text_words
from pydispatch.formats.spirv.module import MAGIC
from pydispatch.formats.spirv.names import GL_COMPUTE, LOCAL_SIZE

ADDRESSING_LOGICAL, MEMORY_GLSL450 = 0, 1
"""Operands of OpMemoryModel."""

LOW_WORD = 0xFFFFFFFF
"""Mask of the low word of a literal of two words."""

VERSION = 0x00010300
"""SPIR-V 1.3, as the header of a module has it."""

Int: TypeAlias = int
"""The type int by another name, since the method `Module.int` hides it."""
Bool: TypeAlias = bool
"""The type bool by another name, since the method `Module.bool` hides it."""


class Id(int):
    """Id of a result in a module."""

    __slots__ = ()


class Module:
    """Builder of one SPIR-V module, with its sections as lists of words; not for several threads.

    Attributes:
        bound: The next id.
        capabilities: Capabilities in order of their declaration; the values mean nothing.
        entries, modes, names, decorations, globals, functions: Words of the instructions of each section: entry points,
            execution modes, names for debuggers, decorations, declarations outside functions, and functions.
    """

    def __init__(self) -> None:
        """Begin an empty module with the capability Shader. Ids begin at 1: SPIR-V has no id 0."""
        self.bound = 1
        self.capabilities: dict[str, None] = {"Shader": None}  # a set in order of insertion
        # The words of the instructions in each section of the module.
        self.entries: list[Int] = []  # entry points
        self.modes: list[Int] = []  # their execution modes
        self.names: list[Int] = []  # names for debuggers
        self._files: dict[str, Id] = {}  # name of a source file → id of its OpString
        self.decorations: list[Int] = []
        self.globals: list[Int] = []  # declarations outside functions
        self.functions: list[Int] = []
        # Key of a declaration → its id; a type or constant has (name of the instruction, operands).
        self._ids: dict[object, Id] = {}
        self._int_types: dict[Int, Id] = {}  # by width
        self._float_types: dict[Int, Id] = {}  # by width
        self._integers: dict[tuple[Int, Int], Id] = {}  # (value, width) → id of the constant
        self._glsl: Id | None = None  # id of the GLSL.std.450 import

    def id(self) -> Id:
        """Allocate an id."""
        new_id = Id(self.bound)
        self.bound += 1
        return new_id

    def once(self, key: object, make: Callable[[], Id]) -> Id:
        """Return the cached id of `key`; on a miss, call `make`, once for the module."""
        cached = self._ids.get(key)
        if cached is None:
            cached = self._ids[key] = make()
        return cached

    def keys(self) -> dict[int, Any]:
        """Return the inverse of the cache of `once`: id of a type, constant or table -> the key of its declaration.

        The key of the instruction set GLSL.std.450 is "glsl".
        """
        keys: dict[int, Any] = {type_id: key for key, type_id in self._ids.items()}
        if self._glsl is not None:
            keys[self._glsl] = "glsl"
        return keys

    def capability(self, name: str) -> None:
        """Declare that the module needs a capability, such as "Int64"."""
        self.capabilities[name] = None

    def name(self, target: Int, text: str) -> None:
        """Name an id, for debuggers."""
        self.names += encode("Name", target, *text_words(text))

    def file(self, name: str) -> Id:
        """Return the id of the string with the name of a source file, for `OpLine`."""
        if name not in self._files:
            self._files[name] = self.id()
        return self._files[name]

    def decorate(self, target: Int, decoration: str, *operands: Int) -> None:
        """Decorate an id."""
        self.decorations += encode("Decorate", target, DECORATION[decoration], *operands)

    def decorate_member(self, target: Int, member: Int, decoration: str, *operands: Int) -> None:
        """Decorate a member of a structure."""
        self.decorations += encode("MemberDecorate", target, member, DECORATION[decoration], *operands)

    # Types and constants

    def type(self, op: str, *operands: Int) -> Id:
        """Return the id of the type that an instruction such as "TypeVector" declares; it is declared once."""
        key = (op, operands)
        cached = self._ids.get(key)
        if cached is None:
            cached = self._ids[key] = self.id()
            self.globals += encode(op, cached, *operands)
        return cached

    def void(self) -> Id:
        """Return the type void."""
        return self.type("TypeVoid")

    def bool(self) -> Id:
        """Return the type of truth values."""
        return self.type("TypeBool")

    def int(self, width: Int) -> Id:
        """Return the id of the integer type of `width` bits, declared once.

        It has no sign, since instructions determine how they read an integer.
        """
        cached = self._int_types.get(width)
        if cached is None:
            if width == 64:
                self.capability("Int64")
            cached = self._int_types[width] = self.type("TypeInt", width, 0)
        return cached

    def float(self, width: Int) -> Id:
        """Return the id of the float type of `width` bits, declared once."""
        cached = self._float_types.get(width)
        if cached is None:
            if width == 64:
                self.capability("Float64")
            cached = self._float_types[width] = self.type("TypeFloat", width)
        return cached

    def pointer(self, storage: str, pointee: Int) -> Id:
        """Return the type of a pointer to `pointee` in a storage class, such as "StorageBuffer"."""
        return self.type("TypePointer", STORAGE[storage], pointee)

    def constant(self, type_: Int, *words: Int) -> Id:
        """Return the id of a constant of a numeric type, declared once.

        words: its 32-bit words; 64 bits take two, low first.
        """
        key = ("constant", type_, words)
        cached = self._ids.get(key)
        if cached is None:
            cached = self._ids[key] = self.id()
            self.globals += encode("Constant", type_, cached, *words)
        return cached

    def integer(self, value: Int, width: Int = 32) -> Id:
        """Return the id of an integer constant of `width` bits, 32 or 64; a negative value in two's complement."""
        cached = self._integers.get((value, width))
        if cached is None:
            low, high = value & LOW_WORD, value >> 32 & LOW_WORD
            words = (low,) if width == 32 else (low, high)
            cached = self._integers[value, width] = self.constant(self.int(width), *words)
        return cached

    def truth(self, value: Bool) -> Id:
        """Return the id of the constant true or false, declared once."""

        def declare() -> Id:
            """Declare the constant `value` of the boolean type `type_`."""
            new_id = self.id()
            self.globals += encode("ConstantTrue" if value else "ConstantFalse", type_, new_id)
            return new_id

        type_ = self.bool()
        return self.once(("truth", value), declare)

    def float_constant(self, bits: Int, width: Int) -> Id:
        """Return the float constant of `width` bits, 32 or 64, with the bit pattern `bits`."""
        if width == 32:
            return self.constant(self.float(32), bits)
        return self.constant(self.float(64), bits & LOW_WORD, bits >> 32)

    def array(self, element: Int, count: Int, stride: Int = 0) -> Id:
        """Return the id of an array type of `count` elements of the type `element`, declared once.

        `stride` is the distance of elements in bytes, for buffers and push constants; 0 for workgroup and private
        memory, in which SPIR-V has no explicit layout.
        """
        length = self.integer(count)
        if not stride:
            return self.type("TypeArray", element, length)
        return self.once(
            ("array", element, count, stride), lambda: self._array_with_stride("TypeArray", stride, element, length)
        )

    def runtime_array(self, element: Int, stride: Int) -> Id:
        """Return the type of an array whose length the buffer determines; `stride` is the bytes of an element."""
        return self.once(("runtime", element), lambda: self._array_with_stride("TypeRuntimeArray", stride, element))

    def _array_with_stride(self, op: str, stride: Int, *operands: Int) -> Id:
        """Declare an array type by the instruction `op`, with a stride in bytes, and return its id."""
        new_id = self.id()
        self.globals += encode(op, new_id, *operands)
        self.decorate(new_id, "ArrayStride", stride)
        return new_id

    def block(self, key: object, member: Int) -> Id:
        """Return the id of a structure with one member of type `member` at offset 0, decorated as an interface block.

        There is one for each key and member. The key is the purpose of the block, such as "constants": blocks for
        different purposes have types of their own, even if their members are equal.
        """

        def make() -> Id:
            """Declare the structure of one `member`, and its decorations."""
            new_id = self.id()
            self.globals += encode("TypeStruct", new_id, member)
            self.decorate(new_id, "Block")
            self.decorate_member(new_id, 0, "Offset", 0)
            return new_id

        return self.once(("block", key, member), make)

    def variable(self, storage: str, pointee: Int, *initializer: Int) -> Id:
        """Declare a variable of the module, and return its id.

        Args:
            storage: Storage class, such as "StorageBuffer".
            pointee: Type of the variable's value.
            initializer: The constant that it starts with, or nothing.
        """
        type_ = self.pointer(storage, pointee)
        new_id = self.id()
        self.globals += encode("Variable", type_, new_id, STORAGE[storage], *initializer)
        return new_id

    def constant_table(self, key: object, type_: Int, elements: Callable[[], list[Id]]) -> Id:
        """Return the id of a private variable with an array of constants; it is declared once for each key.

        `type_` is the type of the array, and `elements` returns the constants, one for each element.
        """

        def make() -> Id:
            """Declare the array of the constants `elements()`, and a private variable that starts with it."""
            constants, array = elements(), self.id()
            self.globals += encode("ConstantComposite", type_, array, *constants)
            return self.variable("Private", type_, array)

        return self.once(key, make)

    def glsl(self) -> Id:
        """Return the id of the instruction set GLSL.std.450, which the module imports once this was called."""
        if self._glsl is None:
            self._glsl = self.id()
        return self._glsl

    def entry(self, name: str, function: Int, interface: list[Int], local_size: tuple[Int, Int, Int]) -> None:
        """Declare a compute entry point with its workgroup size.

        Args:
            name: Its name.
            function: Id of its function.
            interface: Ids of the input variables that it uses.
            local_size: Invocations of a workgroup along x, y and z.
        """
        self.entries += encode("EntryPoint", GL_COMPUTE, function, *text_words(name), *interface)
        self.modes += encode("ExecutionMode", function, LOCAL_SIZE, *local_size)

    # Bytes

    def words(self) -> list[Int]:
        """Return the words of the whole module."""
        head: list[Int] = [MAGIC, VERSION, 0, self.bound, 0]  # 0: no registered generator; the reserved schema
        for name in sorted(self.capabilities, key=CAPABILITY.__getitem__):
            head += encode("Capability", CAPABILITY[name])
        for name in sorted({EXTENSION_OF[n] for n in self.capabilities if n in EXTENSION_OF}):
            head += encode("Extension", *text_words(name))
        if self._glsl is not None:
            head += encode("ExtInstImport", self._glsl, *text_words("GLSL.std.450"))
        head += encode("MemoryModel", ADDRESSING_LOGICAL, MEMORY_GLSL450)
        strings: list[Int] = []
        for name, string in self._files.items():
            strings += encode("String", string, *text_words(name))
        # The order of sections that the specification demands.
        sections = (self.entries, self.modes, strings, self.names, self.decorations, self.globals, self.functions)
        return [*head, *chain.from_iterable(sections)]

    def bytes(self) -> bytes:
        """Return the words of the whole module as bytes."""
        return array("I", self.words()).tobytes()


def _phi_words(type_: int, new_id: int, edges: list[tuple[int, int]]) -> list[Int]:
    """Return the words of a phi; parameters are those of `Code.phi`."""
    return encode("Phi", type_, new_id, *chain.from_iterable(edges))


class Code:
    """Builder of the instructions of one SPIR-V function: its variables and blocks.

    `FunctionEmitter` creates it; it calls `start` for each further block, and `finish` at the end.

    Attributes:
        module: The module that the function belongs to.
        variables: Words of the declarations of the invocation's variables.
        lines: Words of the blocks after the label of the first one.
        entry_label: Id of the label of the first block.
        label: Id of the label of the current block.
        is_block_open: Whether the current block still lacks its terminator.
    """

    def __init__(self, module: Module) -> None:
        """Begin the function in its first block, whose label gets an id here."""
        self.module = module
        self.variables: list[int] = []  # a list of its own, since OpVariable must come first in a function
        self.lines: list[int] = []
        self.entry_label = module.id()
        self.label = self.entry_label
        self.is_block_open = True

    def let(self, op: str, type_: int, *operands: int) -> Id:
        """Append the instruction `op`, such as "IAdd", with a result of type `type_`, and return the result's id."""
        module = self.module
        new_id = Id(module.bound)
        module.bound += 1
        self.lines += encode(op, type_, new_id, *operands)
        return new_id

    def do(self, op: str, *operands: int) -> None:
        """Append an instruction that has no result."""
        self.lines += encode(op, *operands)

    def glsl(self, name: str, type_: int, *operands: int) -> Id:
        """Append a call of an instruction of GLSL.std.450, such as "Exp", and return the result's id."""
        return self.let("ExtInst", type_, self.module.glsl(), GLSL[name], *operands)

    def start(self, label: int) -> None:
        """Begin the block of a label."""
        self.lines += encode("Label", label)
        self.label = Id(label)
        self.is_block_open = True

    def branch(self, label: int) -> None:
        """Terminate the block with a branch."""
        self.lines += encode("Branch", label)
        self.is_block_open = False

    def branch_if(self, condition: int, then: int, other: int) -> None:
        """Terminate the block with a branch to `then` if a truth value holds, else to `other`."""
        self.lines += encode("BranchConditional", condition, then, other)
        self.is_block_open = False

    def phi(self, type_: int, new_id: int, edges: list[tuple[int, int]]) -> None:
        """Append a phi of type `type_` with the id `new_id`, which was allocated before.

        edges: (value, label of the predecessor that it comes from) of each predecessor.
        """
        self.lines += _phi_words(type_, new_id, edges)

    def phi_position(self) -> int:
        """Return the position for `insert_phis` of the current block, which has no instructions yet."""
        return len(self.lines)

    def insert_phis(self, position: int, phis: Iterable[tuple[int, int, list[tuple[int, int]]]]) -> None:
        """Insert phis at the start of a loop header, once the values of its back edge are known.

        Args:
            position: `phi_position` when the block began.
            phis: (type, id, edges) of each phi, as of `phi`.
        """
        self.lines[position:position] = [word for phi in phis for word in _phi_words(*phi)]

    def local(self, pointee: int) -> Id:
        """Declare a variable of the invocation with a value of type `pointee`, and return its id."""
        type_ = self.module.pointer("Function", pointee)
        new_id = self.module.id()
        self.variables += encode("Variable", type_, new_id, STORAGE["Function"])
        return new_id

    def finish(self, head: list[int]) -> None:
        """Add the function to the module. head: words of OpFunction and of the parameters."""
        self.module.functions += [
            *head,
            *encode("Label", self.entry_label),
            *self.variables,
            *self.lines,
            *encode("FunctionEnd"),
        ]
