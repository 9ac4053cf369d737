"""Compile-time representations of the names and expressions of a kernel."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pydispatch.errors import CompileError


@dataclass(frozen=True)
class Scalar:
    """SSA value of a kernel, a number.

    Attributes:
        name: Name in MLIR text, such as `%3`.
        type: Element type: "f32", "i32", "i1", "index", …
    """

    name: str
    type: str


@dataclass(frozen=True)
class Literal:
    """Number without a type of its own, known at compile time; an operation gives it the type of the other operand."""

    value: int | float | bool


@dataclass(frozen=True)
class TupleValue:
    """Tuple of values. `names` are the names of the items of a named tuple; () for a plain tuple."""

    items: tuple[Entity, ...]
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class MemoryRef:
    """Memory whose elements a kernel accesses: a view, workgroup memory, or memory of one invocation.

    Attributes:
        name: SSA name of the memref.
        dtype: Element type.
        shape: Size of each dimension; Scalar for a size that only the call knows.
        type: MLIR type of the memref.
        parameter: Name of the kernel parameter that a view is; "" for other memory.
        is_private: Whether each invocation has this memory for itself.
    """

    name: str
    dtype: str
    shape: tuple[Scalar | Literal, ...]
    type: str
    parameter: str = ""
    is_private: bool = False


@dataclass(frozen=True)
class Known:
    """Python object known at compile time: a module, a function, a type."""

    value: Any


@dataclass(frozen=True)
class NoResult(Known):
    """Result of a call that has taken a path without a value, of a function that returns values on other paths.

    `error` is raised where the result is used as a number.
    """

    error: CompileError


@dataclass(frozen=True)
class Formula:
    """Variable that is rematerialized at each use, from values that the kernel never changes. `node` is its
    expression.
    """

    node: ast.expr


@dataclass(frozen=True)
class Spilled:
    """Variable that is live across barriers, spilled to workgroup memory with one element per invocation."""

    slot: Slot


@dataclass(eq=False)
class Slot:
    """Workgroup memory of a spilled variable.

    name: the variable. type: its element type, "" until the variable is first assigned.
    """

    name: str
    type: str = ""


@dataclass(frozen=True, eq=False)
class Tile:
    """Block of elements that all invocations of a workgroup compute together: lazy, or stored in a buffer.

    The elements of a lazy tile are computed at each use. x[i:i + 16] * 2 gives a lazy tile of the shape (16,), which
    `reads` {"%p_x": ((i, True),)}; `element` of the index %j emits the load of x[i + j] and the product. Stored in the
    buffer %tile7, it is a tile with `reads` {"%tile7": SAME_INDEX}, whose `element` emits the load of %tile7[%j].

    Attributes:
        shape: Number of elements along each axis.
        dtype: Element type.
        element: Emits the computation of the element at the given indices, one for each axis of `shape`.
        reads: SSA name of each memory that the tile reads → where its elements read. If each reads only the element at
            its own index in a slice of the memory, this is the `tiles.slices.ViewSlice.origin` of the slice (for a
            buffer, SAME_INDEX of `tiles.values`); otherwise it is OTHER_INDEX. A statement that overwrites the memory
            first stores the lazy tiles that read it.
        buffer: Name of the workgroup memory that stores the tile; "" if elements are computed at each use.
        is_variable: Whether assignments to the variable of this tile are written into its buffer.
        product: Matrix product that the tile is, which can only be computed as a whole; None for other tiles.
        part: The slice of a view (`tiles.slices.ViewSlice`) that the tile loads; None if it is computed otherwise.
        is_transposed: Whether the slice `part` is read with swapped axes.
        transpose_of: The tile of which this one is the transpose; None for other tiles.
    """

    shape: tuple[int, ...]
    dtype: str
    element: Callable[[Sequence[Scalar]], Scalar]
    reads: Mapping[str, object] = field(default_factory=dict)
    buffer: str = ""
    is_variable: bool = False
    product: Product | None = None
    part: Any = None
    is_transposed: bool = False
    transpose_of: Tile | None = None

    @property
    def shape_text(self) -> str:
        """Shape as text, such as "16x8"."""
        return "x".join(map(str, self.shape))


@dataclass(frozen=True, eq=False)
class Product:
    """Matrix product a @ b; with a `base`, the sum base + a @ b."""

    a: Tile
    b: Tile
    base: Tile | None


@dataclass(frozen=True)
class Undefined:
    """Variable without a value on some path through the kernel.

    `reason` continues an error message that begins with the variable's name: "has no value on every way from ...".
    """

    reason: str


Entity = Scalar | Literal | TupleValue | MemoryRef | Tile | Known | Formula | Spilled | Undefined
"""Value of a name or an expression of a kernel while it is compiled."""

FLOATS = {"f8E4M3FN": 8, "f8E5M2": 8, "f16": 16, "bf16": 16, "f32": 32, "f64": 64}
"""Floating-point type → width in bits."""
UNSIGNED = {"u8": 8, "u16": 16, "u32": 32, "u64": 64}
"""Unsigned integer type → width in bits."""
INTEGERS = {"i8": 8, "i16": 16, "i32": 32, "i64": 64, "index": 64, **UNSIGNED}
"""Integer type → width in bits."""


def bytes_of(type: str) -> int:
    """Return the size of an element in workgroup memory, in bytes."""
    return 1 if type == "i1" else {**FLOATS, **INTEGERS}[type] // 8


def described(entity: Entity) -> str:
    """Return a description of an entity for error messages: "f32", "a view of 2-dimensional f32", "'sin' of Python"."""
    match entity:
        case Scalar():
            return entity.type
        case Literal():
            return f"the number {entity.value!r}"
        case TupleValue():
            return f"a tuple of {len(entity.items)}"
        case MemoryRef():
            if entity.parameter:
                return f"a view of {len(entity.shape)}-dimensional {entity.dtype}"
            return "memory of the invocation" if entity.is_private else "memory of the workgroup"
        case Tile():
            return f"a tile of {entity.shape_text} {entity.dtype}"
        case Known():
            name = getattr(entity.value, "__name__", None) or getattr(entity.value, "name", None)
            return f"'{name}' of Python" if isinstance(name, str) else f"{entity.value!r} of Python"
        case _:
            return "a variable"


def is_number(entity: Entity) -> bool:
    """Return whether an entity is a scalar, a number without a type or a tuple of numbers."""
    if isinstance(entity, TupleValue):
        return all(map(is_number, entity.items))
    return isinstance(entity, (Scalar, Literal))


def scalars_in(entity: Entity) -> list[Scalar] | None:
    """Return the scalars of an entity, those of tuples in order; None if it has any other entity, such as a Literal."""
    if isinstance(entity, Scalar):
        return [entity]
    if not isinstance(entity, TupleValue):
        return None
    scalars: list[Scalar] = []
    for item in entity.items:
        part = scalars_in(item)
        if part is None:
            return None
        scalars += part
    return scalars


def rebuilt(like: Entity, scalars: Sequence[Scalar]) -> Entity:
    """Return the entity of the form of `like` with these scalars: the inverse of `scalars_in`."""
    remaining = iter(scalars)

    def build(part: Entity) -> Entity:
        """Return a part of the structure with its scalars replaced by the next ones."""
        if isinstance(part, TupleValue):
            return replace(part, items=tuple(map(build, part.items)))
        return next(remaining)

    return build(like)


def known(value: object) -> Entity:
    """Return the entity of a Python object that a name stands for."""
    if isinstance(value, (bool, int, float)):
        return Literal(value)
    if isinstance(value, tuple):
        return TupleValue(tuple(map(known, value)), getattr(type(value), "_fields", ()))
    return Known(value)
