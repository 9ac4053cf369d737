"""A PTX module as data: what `ptx_read.read` returns, and what checks, linking and the interpreter look at.

Names and meanings are those of the PTX ISA reference. Lines count from 1 in the text that was read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

SIZES = {
    "pred": 1, "b8": 1, "s8": 1, "u8": 1, "e4m3": 1, "e5m2": 1, "b16": 2, "s16": 2, "u16": 2, "f16": 2, "bf16": 2,
    "b32": 4, "s32": 4, "u32": 4, "f32": 4, "f16x2": 4, "bf16x2": 4, "tf32": 4, "b64": 8, "s64": 8, "u64": 8,
    "f64": 8, "b128": 16,
}  # fmt: skip
"""PTX type without its dot → bytes of a value."""


@dataclass(frozen=True)
class Register:
    """Virtual register such as `%r1` or `%rd2`, or special register such as `%tid.x` or `%laneid`."""

    name: str


@dataclass(frozen=True)
class Immediate:
    """Literal operand, or the value of a constant expression.

    Attributes:
        value: Integer, or float with 0f and 0d literals decoded.
        bits: Bit pattern of a float that is written as such, a 0f or 0d literal; None for others.
    """

    value: int | float
    bits: int | None = None


@dataclass(frozen=True)
class PtxSymbol:
    """Label, or address of a variable, parameter or function plus an offset in bytes.

    Attributes:
        name: Name of the label, variable, parameter or function.
        offset: Offset in bytes; 0 for a label.
        shift: For `0xff00(name)` in an initializer, which selects a byte of the address: the right shift in bits that
            moves the byte to the lowest one, here 8. None for an address.
    """

    name: str
    offset: int = 0
    shift: int | None = None


@dataclass(frozen=True)
class Address:
    """Memory operand `[base + offset]`; `base` is None for an absolute address. The offset is in bytes."""

    base: Register | PtxSymbol | None
    offset: int = 0


@dataclass(frozen=True)
class Vector:
    """Vector operand `{a, b}`; a component `_` is None."""

    items: tuple[Operand | None, ...]


@dataclass(frozen=True)
class Not:
    """Negated predicate `!p`."""

    operand: Register


@dataclass(frozen=True)
class RegisterPair:
    """Pair `d|p` of results of shfl.sync, setp or match.sync; a result that is written `_` is not stored: None."""

    first: Register | None
    second: Register | None


@dataclass(frozen=True)
class Arguments:
    """Operand list `(a, b)` of a call, or address with coordinates `[map, {x, y}]`; an item `_` is None."""

    items: tuple[Operand | None, ...]


Operand = Register | Immediate | PtxSymbol | Address | Vector | Not | RegisterPair | Arguments


@dataclass(frozen=True)
class Instruction:
    """Instruction of a function body, such as `@!p ld.global.nc.f32 %f1, [%rd1+4];`.

    Attributes:
        opcode: Name without modifiers: "ld".
        modifiers: Words after the name: ("global", "nc", "f32").
        operands: Operands, results first; None for an unused result `_`.
        line: Line in the text, from 1.
        guard: Predicate `p` or `!p`; threads in which it is false skip the instruction. None if all execute it.
    """

    opcode: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand | None, ...]
    line: int
    guard: Register | Not | None = None


@dataclass(frozen=True)
class PtxLabel:
    """Label in a function body, and its line in the text, from 1."""

    name: str
    line: int


@dataclass(frozen=True)
class Param:
    """Parameter or return value of a function in a PTX module.

    Attributes:
        name: Name; "_" for none.
        type: PTX type of an element, such as "u32".
        align: Alignment in bytes.
        count: Number of elements of an array; 0 for a scalar.
        line: Line in the text, from 1.
        space: State space: "param", or "reg" for a register.
    """

    name: str
    type: str
    align: int
    count: int
    line: int
    space: str = "param"

    @property
    def size(self) -> int:
        """Return the size in bytes. A scalar, whose `count` is 0, has the size of one element."""
        return SIZES[self.type] * max(1, self.count)


@dataclass(frozen=True)
class Variable:
    """Variable that a PTX module or a function of it declares.

    Attributes:
        name: Name, unique in the module or function.
        space: State space: global, const, shared, local or param.
        type: PTX type of an element, such as "f32".
        align: Alignment in bytes.
        sizes: Sizes of the dimensions; () for a scalar. A first size 0 stands for `[]`.
        linkage: "", "visible", "extern", "weak" or "common".
        line: Line in the text, from 1.
        values: Initializer, flattened in row-major order: numbers or addresses. Missing values are 0.
        start: Offset in the text, in characters, at which the declaration starts.
        end: Offset after the declaration.
    """

    name: str
    space: str
    type: str
    align: int
    sizes: tuple[int, ...]
    line: int
    linkage: str = ""
    values: tuple[int | float | PtxSymbol, ...] = ()
    start: int = 0
    end: int = 0

    @property
    def size(self) -> int:
        """Return the size in bytes; 0 for an unsized array, whose first size is 0."""
        count = 1
        for size in self.sizes:
            count *= size
        return SIZES[self.type] * count


@dataclass(frozen=True)
class PtxFunction:
    """Function: an `.entry` (kernel) or a `.func`.

    Registers, labels and variables of inner `{ }` scopes are renamed (`%r1$2`) where their names are ambiguous. A
    vector register `.v2 .f32 v` is split into `v.x` and `v.y`.

    Attributes:
        name: Name of the function.
        is_entry: Whether it is a kernel.
        linkage: Linkage directive without its dot, such as "visible"; "" for none.
        params: Parameters, in order.
        returns: Return values, in order; a kernel has none.
        line: Line in the text, from 1.
        body: Instructions and labels, in the order of the text; None for a declaration.
        registers: Unique name of each register that occurs in the body → its PTX type.
        variables: Variables that the body declares.
        directives: Numbers after `.maxntid`, `.reqntid`, `.minnctapersm`, `.maxnreg` etc., by name without the
            dot.
        tables: Label → the targets of the `.branchtargets` or `.calltargets` after it, or the text of the
            `.callprototype` as the only entry.
        start: Offset in the text, in characters, at which the function starts, linkage included. For an alias, the
            offsets are those of its `.alias` directive; the other fields are copied from the aliased function.
        end: Offset after the function.
    """

    name: str
    is_entry: bool
    linkage: str
    params: tuple[Param, ...]
    returns: tuple[Param, ...]
    line: int
    body: tuple[Instruction | PtxLabel, ...] | None = None
    registers: dict[str, str] = field(default_factory=dict)
    variables: tuple[Variable, ...] = ()
    directives: dict[str, tuple[int, ...]] = field(default_factory=dict)
    tables: dict[str, tuple[str, ...]] = field(default_factory=dict)
    start: int = 0
    end: int = 0


@dataclass(frozen=True)
class PtxModule:
    """PTX module as its reader returns it: functions, variables and directives.

    Attributes:
        name: Name of the file, for error messages.
        text: The text, without trailing NULs.
        version: PTX ISA version, for example (8, 0).
        target: Architecture, for example "sm_80".
        options: The other words of the `.target` directive, for example "debug" and "texmode_unified".
        address_size: Bits of an address: 64.
        functions: Kernels and device functions, definitions and declarations, in the order of the text; then aliases.
        variables: Variables declared outside of functions, in the order of the text.
        start: Offset in the text, in characters, of the first declaration after the header.
    """

    name: str
    text: str
    version: tuple[int, int]
    target: str
    options: tuple[str, ...]
    address_size: int
    functions: tuple[PtxFunction, ...]
    variables: tuple[Variable, ...]
    start: int = 0

    @property
    def entries(self) -> Sequence[PtxFunction]:
        """Return the kernels."""
        return [function for function in self.functions if function.is_entry]

    def function(self, name: str) -> PtxFunction | None:
        """Return the definition of a function; without a definition its first declaration, or None."""
        declarations = [function for function in self.functions if function.name == name]
        definitions = [function for function in declarations if function.body is not None]
        candidates = definitions or declarations
        return candidates[0] if candidates else None
