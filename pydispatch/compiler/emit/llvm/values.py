"""Representation of SSA values: LLVM operands, and for memrefs a descriptor that exists only at compile time.

Integers known at compile time stay Python ints, so that a static shape costs nothing at run time. Block arguments,
helper calls and loop results pass only the dynamic components of a memref type.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute

from pydispatch.compiler.emit.llvm.types import scalar
from pydispatch.compiler.kernel_ir.types import layout_of

Index = int | str
"""An i64: a Python int if it is known at compile time, else the text of an LLVM operand."""


@dataclass(frozen=True)
class MemRef:
    """Memref descriptor: pointers, offset, sizes and strides of a strided layout.

    Attributes:
        base: Pointer to the allocation.
        aligned: Pointer from which the offset counts.
        offset, sizes, strides: In elements; sizes and strides by dimension, the outermost first.
        element: Type of an element in kernel IR.
        root: The storage, for alias scopes: "binding N", "global NAME", "workgroup" or "stack"; None if unknown.
        read_only: Whether the storage is a binding that is only read.
    """

    base: str
    aligned: str
    offset: Index
    sizes: tuple[Index, ...]
    strides: tuple[Index, ...]
    element: Attribute
    root: str | None = None
    read_only: bool = False

    def over(self, offset: Index, sizes: tuple[Index, ...], strides: tuple[Index, ...]) -> MemRef:
        """Return a view of the same storage with another offset, shape and strides."""
        return replace(self, offset=offset, sizes=sizes, strides=strides)

    def rooted(self, root: str | None, read_only: bool = False) -> MemRef:
        """Return the memref with `root` as its storage for alias scopes; None: an unknown storage.

        read_only: whether the storage is only read.
        """
        return replace(self, root=root, read_only=read_only)


Value = str | MemRef
"""A scalar, as the text of an operand, or a memref."""


def components(type_: Attribute) -> list[str]:
    """Return the LLVM types that a value of `type_` is passed as between functions and blocks.

    A scalar has one. A memref has two pointers, and an i64 for each of offset, sizes and strides that is dynamic.
    """
    if not isinstance(type_, MemRefType):
        return [scalar(type_)]
    offset, sizes, strides = layout_of(type_)
    return ["ptr", "ptr", *("i64" for static_value in (offset, *sizes, *strides) if static_value is None)]


def flatten(value: Value, type_: Attribute) -> list[str]:
    """Return the LLVM operands that a value is passed as between functions and blocks.

    A scalar is one operand. A memref is its two pointers, then its offset, sizes and strides, of which static ones are
    left out: the type states them.
    """
    if isinstance(value, str):
        return [value]
    assert isinstance(type_, MemRefType)
    offset, sizes, strides = layout_of(type_)
    parts = zip((value.offset, *value.sizes, *value.strides), (offset, *sizes, *strides), strict=True)
    return [value.base, value.aligned, *(str(part) for part, static_value in parts if static_value is None)]


def unflatten(operands: list[str], type_: Attribute) -> Value:
    """Return the value that is passed as these LLVM operands: the inverse of `flatten`.

    operands: The only one of a scalar. For a memref its two pointers, then those of the offset, sizes and strides that
        are dynamic in `type_`.
    """
    if not isinstance(type_, MemRefType):
        return operands[0]
    dynamic_parts = iter(operands[2:])
    offset, sizes, strides = layout_of(type_)
    layout = [
        static_value if static_value is not None else next(dynamic_parts) for static_value in (offset, *sizes, *strides)
    ]
    rank = len(sizes)
    return MemRef(
        base=operands[0],
        aligned=operands[1],
        offset=layout[0],
        sizes=tuple(layout[1 : 1 + rank]),
        strides=tuple(layout[1 + rank :]),
        element=type_.element_type,
    )
