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
"""Bytes of a type, without its dot."""


@dataclass(frozen=True)
class Register:
    """A virtual register, `%r1` or `%rd<4>`'s `%rd2`; special ones as they are written: `%tid.x`, `%laneid`."""

    name: str


@dataclass(frozen=True)
class Immediate:
    """A literal. value: an int, or a float (0f and 0d literals decoded). bits: of an 0f or 0d literal, else None."""

    value: int | float
    bits: int | None = None


@dataclass(frozen=True)
class PtxSymbol:
    """The address of a variable, parameter or function, or a label, plus bytes.

    shift: of a byte of an address in an initial value, `0xff00(name)`: by how many bits it is shifted to the right.
    """

    name: str
    offset: int = 0
    shift: int = 0


@dataclass(frozen=True)
class Address:
    """`[base + offset]`; base is None for an absolute address."""

    base: Register | PtxSymbol | None
    offset: int = 0


@dataclass(frozen=True)
class Vector:
    """`{a, b}`; None is `_`."""

    items: tuple[Operand | None, ...]


@dataclass(frozen=True)
class Not:
    """`!p`: a predicate, negated."""

    operand: Register


@dataclass(frozen=True)
class RegisterPair:
    """`d|p`: the results of shfl.sync, setp and match.sync; None is `_`."""

    first: Register | None
    second: Register | None


@dataclass(frozen=True)
class Arguments:
    """`(a, b)` of a call; also `[map, {x, y}]`, an address with coordinates."""

    items: tuple[Operand, ...]


Operand = Register | Immediate | PtxSymbol | Address | Vector | Not | RegisterPair | Arguments


@dataclass(frozen=True)
class Instruction:
    """`@!p ld.global.nc.f32 %f1, [%rd1+4];`: opcode "ld", modifiers ("global", "nc", "f32")."""

    opcode: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand | None, ...]
    line: int
    guard: Register | Not | None = None


@dataclass(frozen=True)
class PtxLabel:
    name: str
    line: int


@dataclass(frozen=True)
class Param:
    """A parameter or returned value. count: elements of an array, 0 for a scalar. align: bytes."""

    name: str
    type: str
    align: int
    count: int
    line: int
    space: str = "param"

    @property
    def size(self) -> int:
        """Bytes."""
        return SIZES[self.type] * max(1, self.count)


@dataclass(frozen=True)
class Variable:
    """A variable of a module or a function. space: global, const, shared, local or param.

    sizes: of its dimensions, () for a scalar; a first 0 is `[]`. values: initial words, flat, missing ones are
    0: numbers or Symbols (addresses). linkage: "", "visible", "extern", "weak" or "common". start, end: where the
    declaration is in the text.
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
        """Bytes; 0 for an unsized one."""
        count = 1
        for size in self.sizes:
            count *= size
        return SIZES[self.type] * count


@dataclass(frozen=True)
class PtxFunction:
    """An `.entry` or a `.func`. body: None for a declaration.

    registers: every register that is declared and appears, with its type, those of inner `{ }` scopes too: the reader
    gives registers, labels and variables of inner scopes that would be mistaken for others names of their own
    (`%r1$2`). A vector register `.v2 .f32 v` is the registers `v.x` and `v.y`. directives: the numbers after
    `.maxntid`, `.reqntid`, `.minnctapersm`, `.maxnreg`, ..., by names without the dot. tables: `.branchtargets` and
    `.callprototype` by their labels (the latter with the text as it is). start, end: its offsets in the text, from
    its linkage on; those of an alias are those of its `.alias f, g;`, the rest is the function's that it names.
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
    """Parsed PTX text.

    Attributes:
        name: name of the file, for error messages.
        version: PTX ISA version, for example (8, 0).
        target: architecture, for example "sm_80".
        options: the other words of the `.target` directive, for example "debug" and "texmode_unified".
        start: position of the first declaration after the header.
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
        """The kernels."""
        return [function for function in self.functions if function.is_entry]

    def function(self, name: str) -> PtxFunction | None:
        """Return the definition of a function, else a declaration of it, else None."""
        candidates = [function for function in self.functions if function.name == name]
        return next(
            (function for function in candidates if function.body is not None), candidates[0] if candidates else None
        )
