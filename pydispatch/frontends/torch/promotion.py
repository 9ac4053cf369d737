"""The type of a result by those of its operands, as ATen has it.

Tensors with axes decide, then those without, then numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydispatch.frontends.graph.dtypes import BF16, BOOL, C64, C128, DTYPES, F16, F32, F64, I64, DType, Kind
from pydispatch.frontends.graph.sizes import Expr
from pydispatch.frontends.graph.values import Tensor
from pydispatch.frontends.ops import elementwise

if TYPE_CHECKING:
    from pydispatch.frontends.torch.trace import Tracer

Number = bool | int | float | complex | Expr
Operand = Tensor | Number
"""A tensor, or a number that takes the type of the tensors beside it."""

Operands = Sequence[Operand]

_CATEGORIES = {Kind.BOOL: 0, Kind.UINT: 1, Kind.INT: 1, Kind.FLOAT: 2, Kind.COMPLEX: 3}


def category(dtype: DType) -> int:
    """0 for truth values, 1 for integers, 2 for floats, 3 for complex numbers."""
    return _CATEGORIES[dtype.kind]


def default_type(number: Number) -> DType:
    """Return the type of a number as a tensor."""
    if isinstance(number, bool):
        return BOOL
    if isinstance(number, (int, Expr)):
        return I64
    return F32 if isinstance(number, float) else C64


def promote(a: DType, b: DType) -> DType:
    """Return the least type that both types convert to."""
    if a == b:
        return a
    if category(a) < category(b):
        a, b = b, a
    if a.is_complex:
        return C128 if C128 in (a, b) or F64 in (a, b) else C64
    if a.is_float:
        if not b.is_float:
            return a
        return {frozenset((F16, BF16)): F32}.get(frozenset((a, b)), max(a, b, key=lambda t: t.bits))
    if b.is_bool:
        return a
    if a.kind is b.kind:
        return max(a, b, key=lambda t: t.bits)
    signed, unsigned = (a, b) if a.kind is Kind.INT else (b, a)
    return signed if signed.bits > unsigned.bits else DTYPES[f"i{min(64, unsigned.bits * 2)}"]


def result_type(operands: Sequence[Operand]) -> DType:
    """Return the type that the operands of an operation are promoted to."""
    groups: list[DType | None] = [None, None, None]  # tensors with axes, without, numbers
    for operand in operands:
        place, dtype = 2, BOOL
        if isinstance(operand, Tensor):
            place, dtype = (0 if operand.rank else 1), operand.dtype
        else:
            dtype = default_type(operand)
        groups[place] = dtype if (known := groups[place]) is None else promote(known, dtype)
    found = groups[2]
    for higher in (groups[1], groups[0]):
        found = _over(higher, found)
    return found or F32


def _over(higher: DType | None, lower: DType | None) -> DType | None:
    """Return the promoted type of two groups of operands, of which the lower one counts only where its category is
    higher.
    """
    if higher is None or lower is None:
        return higher or lower
    if category(higher) >= category(lower):
        return higher
    if category(lower) == 3 and higher.is_float:
        return C128 if higher == F64 else C64
    return lower if not higher.is_bool else promote(higher, lower)


def as_tensor(t: Tracer, operand: Operand, dtype: DType | None = None) -> Tensor:
    """Return an operand as a tensor of `dtype`, or of its own type without one."""
    if isinstance(operand, Tensor):
        return elementwise.convert(t.b, operand, dtype or operand.dtype)
    dtype = dtype or default_type(operand)
    if isinstance(operand, Expr):
        return elementwise.convert(t.b, t.b.constant(_symbolic(operand), I64), dtype)
    if isinstance(operand, float) and dtype.is_integer:
        operand = int(operand)
    return t.b.constant(operand, dtype)


def _symbolic(size: Expr) -> object:
    import numpy as np

    array = np.empty((), dtype=object)
    array[()] = size
    return array


def together(t: Tracer, *operands: Operand, floats: bool = False) -> list[Tensor]:
    """Return operands as tensors of the type that they are promoted to. floats: integers become floats of 32 bits."""
    dtype = result_type(operands)
    if floats and category(dtype) < 2:
        dtype = F32
    return [as_tensor(t, operand, dtype) for operand in operands]
