"""Compile-time representations of the names and expressions of a kernel."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Scalar:
    """A value of the kernel. name: in MLIR text; type: f32, i32, i1, index, …"""

    name: str
    type: str


@dataclass(frozen=True)
class Literal:
    """A number without a type of its own: it takes that of the other operand."""

    value: int | float | bool


@dataclass(frozen=True)
class TupleValue:
    """A tuple."""

    items: tuple[Entity, ...]


@dataclass(frozen=True)
class MemoryRef:
    """A view, or memory of the workgroup. type: of the memref; parameter: its name, "" for memory of the workgroup."""

    name: str
    dtype: str
    shape: tuple[Scalar | Literal, ...]
    type: str
    parameter: str = ""


@dataclass(frozen=True)
class Known:
    """An object of Python: a module, a function, a type."""

    value: Any


@dataclass(frozen=True)
class Formula:
    """A variable that every part of the kernel computes for itself, from values that never change."""

    node: ast.expr


@dataclass(frozen=True)
class Spilled:
    """A variable that is live across barriers, spilled to workgroup memory with one element per invocation."""

    slot: Slot


@dataclass(eq=False)
class Slot:
    """type: "" until the variable is first assigned."""

    name: str
    type: str = ""


@dataclass(frozen=True, eq=False)
class Tile:
    """A block of numbers that the workgroup has. element(indices): writes what computes one of them. reads: the memory
    that it is computed from, with a value that is equal for reads at equal indices. buffer: the workgroup memory that
    stores it, "" for a tile that is computed where it is used. is_variable: whether assignments to its variable are
    written into its buffer. product: what is computed as a whole. part: the part of a view that it is; is_transposed:
    read with swapped axes."""

    shape: tuple[int, ...]
    dtype: str
    element: Callable[[Sequence[Scalar]], Scalar]
    reads: Mapping[str, object] = field(default_factory=dict)
    buffer: str = ""
    is_variable: bool = False
    product: Product | None = None
    part: Any = None
    is_transposed: bool = False

    @property
    def size(self) -> str:
        return "x".join(map(str, self.shape))


@dataclass(frozen=True, eq=False)
class Product:
    """a @ b, added to `base` where there is one."""

    a: Tile
    b: Tile
    base: Tile | None


@dataclass(frozen=True)
class Undefined:
    """A variable that only some ways through the kernel assign."""

    reason: str


Entity = Scalar | Literal | TupleValue | MemoryRef | Tile | Known | Formula | Spilled | Undefined

FLOATS = {"f8E4M3FN": 8, "f8E5M2": 8, "f16": 16, "bf16": 16, "f32": 32, "f64": 64}
UNSIGNED = {"u8": 8, "u16": 16, "u32": 32, "u64": 64}
INTEGERS = {"i8": 8, "i16": 16, "i32": 32, "i64": 64, "index": 64, **UNSIGNED}


def bytes_of(type: str) -> int:
    """Return the bytes of an element in memory of a workgroup."""
    return 1 if type == "i1" else {**FLOATS, **INTEGERS}[type] // 8


def described(entity: Entity) -> str:
    """Return a description of an entity for error messages."""
    match entity:
        case Scalar():
            return entity.type
        case Literal():
            return f"the number {entity.value!r}"
        case TupleValue():
            return f"a tuple of {len(entity.items)}"
        case MemoryRef():
            return (
                f"a view of {len(entity.shape)}-dimensional {entity.dtype}"
                if entity.parameter
                else "memory of the workgroup"
            )
        case Tile():
            return f"a tile of {entity.size} {entity.dtype}"
        case Known():
            name = getattr(entity.value, "__name__", None) or getattr(entity.value, "name", None)
            return f"'{name}' of Python" if isinstance(name, str) else f"{entity.value!r} of Python"
        case _:
            return "a variable"


def is_number(entity: Entity) -> bool:
    """Return whether an entity is a value, a bare number or a tuple of those."""
    return (
        all(map(is_number, entity.items)) if isinstance(entity, TupleValue) else isinstance(entity, (Scalar, Literal))
    )


def flat(entity: Entity) -> list[Scalar] | None:
    """Return the scalars of a value or a tuple; None for anything else."""
    if isinstance(entity, Scalar):
        return [entity]
    if not isinstance(entity, TupleValue):
        return None
    scalars: list[Scalar] = []
    for item in entity.items:
        part = flat(item)
        if part is None:
            return None
        scalars += part
    return scalars


def rebuilt(like: Entity, scalars: Sequence[Scalar]) -> Entity:
    """Return the entity of the form of `like` with these scalars: the inverse of `flat`."""
    left = iter(scalars)

    def build(part: Entity) -> Entity:
        return TupleValue(tuple(map(build, part.items))) if isinstance(part, TupleValue) else next(left)

    return build(like)
