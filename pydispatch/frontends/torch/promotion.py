"""Type promotion of PyTorch: the element type of a result, derived from the types of its operands.

Operands are in three groups of decreasing priority: tensors with axes, tensors of rank 0, Python numbers. A lower group
changes the type only if it has a higher category (bool, integer, float, complex).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import BF16, BOOL, C64, C128, DTYPES, F16, F32, F64, I64, DType, Kind
from pydispatch.graph.sizes import Expr
from pydispatch.graph.values import Tensor
from pydispatch.operations import elementwise

Number = bool | int | float | complex | Expr
"""Number in a graph: a constant, or an integer expression over dynamic sizes (Expr)."""
Operand = Tensor | Number
"""A tensor, or a Python number that is converted to the type of the other operands."""

Operands = Sequence[Operand]


class Category(IntEnum):
    """Kinds of types in PyTorch's promotion, in ascending order: of two kinds, the higher one prevails."""

    BOOL = 0
    INTEGER = 1
    FLOAT = 2
    COMPLEX = 3


_CATEGORIES = {
    Kind.BOOL: Category.BOOL, Kind.UINT: Category.INTEGER, Kind.INT: Category.INTEGER, Kind.FLOAT: Category.FLOAT,
    Kind.COMPLEX: Category.COMPLEX,
}  # fmt: skip
"""Kind of an element type → its category."""


def category(dtype: DType) -> Category:
    """Return the category of an element type."""
    return _CATEGORIES[dtype.kind]


def default_type(value: Number) -> DType:
    """Return the element type that PyTorch gives a tensor made of a Python number or symbolic size."""
    if isinstance(value, bool):
        return BOOL
    if isinstance(value, (int, Expr)):
        return I64
    return F32 if isinstance(value, float) else C64


def promote(lhs: DType, rhs: DType) -> DType:
    """Return the smallest type to which both types convert, by PyTorch's rules.

    The type of the higher category (bool, integer, float, complex) prevails, whatever the widths: i64 with f16 is f16.
    Only with a complex type, f64 is not narrowed: f64 with c64 is c128. Within a category the wider type prevails, with
    two exceptions: f16 with bf16 is f32, and an unsigned type with a signed one that is not wider is the next wider
    signed type (u8 with i8 is i16, u32 with i8 is i64), at most i64.
    """
    if lhs == rhs:
        return lhs
    if category(lhs) < category(rhs):
        lhs, rhs = rhs, lhs
    # From here on lhs has the higher category, or the same.
    if lhs.is_complex:
        return C128 if C128 in (lhs, rhs) or F64 in (lhs, rhs) else C64
    if lhs.is_float:
        if not rhs.is_float:
            return lhs
        return {frozenset((F16, BF16)): F32}.get(frozenset((lhs, rhs)), max(lhs, rhs, key=lambda t: t.bits))
    if rhs.is_bool:
        return lhs
    if lhs.kind is rhs.kind:
        return max(lhs, rhs, key=lambda t: t.bits)
    # An unsigned type fits into a wider signed one; there is none wider than i64.
    signed, unsigned = (lhs, rhs) if lhs.kind is Kind.INT else (rhs, lhs)
    return signed if signed.bits > unsigned.bits else DTYPES[f"i{min(64, unsigned.bits * 2)}"]


def result_type(operands: Sequence[Operand]) -> DType:
    """Return the type to which PyTorch promotes the operands of an operation; f32 without operands.

    Tensors of rank 0, and then numbers, change the type only if they have a higher category.
    """
    # The promoted type of each group: tensors with axes, tensors of rank 0, numbers. None for an empty group.
    groups: list[DType | None] = [None, None, None]
    for operand in operands:
        if isinstance(operand, Tensor):
            group, dtype = (0 if operand.rank else 1), operand.dtype
        else:
            group, dtype = 2, default_type(operand)
        groups[group] = dtype if (known := groups[group]) is None else promote(known, dtype)
    promoted = groups[2]
    for higher in (groups[1], groups[0]):
        promoted = _promote_groups(higher, promoted)
    return promoted or F32


def _promote_groups(higher: DType | None, lower: DType | None) -> DType | None:
    """Return the promoted type of two groups of operands, from the type of each group; None is an empty group.

    lower: type of the group of lower priority, such as numbers next to tensors. It changes the result only if its
    category (bool, integer, float, complex) is higher.
    """
    if higher is None or lower is None:
        return higher or lower
    if category(higher) >= category(lower):
        return higher
    if category(lower) == Category.COMPLEX and higher.is_float:  # complex numbers of the floats' precision
        return C128 if higher == F64 else C64
    return lower


def as_tensor(builder: Builder, operand: Operand, dtype: DType | None = None) -> Tensor:
    """Return an operand as a tensor of `dtype`; None keeps a tensor's type and gives a number its default type."""
    if isinstance(operand, Tensor):
        return elementwise.convert(builder, operand, dtype or operand.dtype)
    dtype = dtype or default_type(operand)
    if isinstance(operand, Expr):
        return elementwise.convert(builder, builder.constant(_symbolic(operand), I64), dtype)
    if isinstance(operand, float) and dtype.is_integer:  # truncated, as in PyTorch
        operand = int(operand)
    return builder.constant(operand, dtype)


def _symbolic(size: Expr) -> object:
    """Return a symbolic size as a NumPy array of rank 0, which Builder.constant accepts."""
    import numpy as np

    array = np.empty((), dtype=object)
    array[()] = size
    return array


def promoted(builder: Builder, *operands: Operand, floats: bool = False) -> list[Tensor]:
    """Convert operands to tensors of their promoted type (see `result_type`). With `floats`, integers and bools become
    f32.
    """
    dtype = result_type(operands)
    if floats and category(dtype) < Category.FLOAT:
        dtype = F32
    return [as_tensor(builder, operand, dtype) for operand in operands]
