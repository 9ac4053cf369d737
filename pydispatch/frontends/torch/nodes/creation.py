"""Conversions of operators that create tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

from pydispatch.frontends.torch.promotion import Number, Operand, as_tensor, default_type
from pydispatch.frontends.torch.registry import converts, register
from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import F32, F64, I64, DType
from pydispatch.graph.size_functions import ceil_div
from pydispatch.graph.sizes import Expr, Size, sign_unless_empty
from pydispatch.graph.values import Tensor
from pydispatch.operations import elementwise as ew
from pydispatch.operations import matrices, shapes
from pydispatch.operations.formulas import formula

Sizes = Sequence[Size]


def filled(builder: Builder, value: Operand, shape: Sizes, dtype: DType) -> Tensor:
    """Return a tensor of a given shape with all elements equal to `value`."""
    return shapes.broadcast_to(builder, as_tensor(builder, value, dtype), shape)


@converts("aten.full", "prims.full")
def full(builder: Builder, size: Sizes, fill_value: Operand, *, dtype: DType | None = None) -> Tensor:
    """Return a tensor of a given size with all elements equal; the type is that of the value unless `dtype` is
    stated.
    """
    default = fill_value.dtype if isinstance(fill_value, Tensor) else default_type(fill_value)
    return filled(builder, fill_value, size, dtype or default)


@converts("aten.full_like", "prims.full_like")
def full_like(builder: Builder, self: Tensor, fill_value: Operand, *, dtype: DType | None = None) -> Tensor:
    """Return a tensor of the shape, and unless `dtype` is stated of the type of another one, with all elements
    equal.
    """
    return filled(builder, fill_value, self.shape, dtype or self.dtype)


@converts("aten.new_full")
def new_full(builder: Builder, self: Tensor, size: Sizes, fill_value: Operand, *, dtype: DType | None = None) -> Tensor:
    """Return a tensor of a given size and, unless `dtype` is stated, of the type of another one, with all elements
    equal.
    """
    return filled(builder, fill_value, size, dtype or self.dtype)


@converts("aten.fill")
def fill(builder: Builder, self: Tensor, value: Operand) -> Tensor:
    """Return a tensor of the shape and type of another one, with all elements equal."""
    return filled(builder, value, self.shape, self.dtype)


def _of_size(
    value: int, builder: Builder, size: Sizes, stride: Sizes | None = None, *, dtype: DType | None = None
) -> Tensor:
    """Return a tensor of a given size whose elements are `value`; f32 unless `dtype` is stated. Strides have no
    effect.
    """
    return filled(builder, value, size, dtype or F32)


def _like(value: int, builder: Builder, self: Tensor, *, dtype: DType | None = None) -> Tensor:
    """Return a tensor of the shape of another one whose elements are `value`, of its type unless `dtype` is stated."""
    return filled(builder, value, self.shape, dtype or self.dtype)


def _new(
    value: int, builder: Builder, self: Tensor, size: Sizes, stride: Sizes | None = None, *, dtype: DType | None = None
) -> Tensor:
    """Return a tensor of the shape `size` whose elements are `value`, of the type of `self` unless `dtype` is stated.

    `stride` has no effect.
    """
    return filled(builder, value, size, dtype or self.dtype)


@converts("prims.scalar_tensor", "aten.scalar_tensor")
def scalar_tensor(builder: Builder, s: Operand, *, dtype: DType | None = None) -> Tensor:
    """Return a number as a tensor of rank 0."""
    return as_tensor(builder, s, dtype or F32)


@converts("aten.arange")
def arange(builder: Builder, end: Number, *, dtype: DType | None = None) -> Tensor:
    """Return the numbers 0, 1, 2, ... below `end`."""
    return arange_step(builder, 0, end, step=1, dtype=dtype)


@converts("aten.arange.start", "aten.arange.start_step")
def arange_step(
    builder: Builder, start: Number, end: Number, step: Number = 1, *, dtype: DType | None = None
) -> Tensor:
    """Return the numbers from start to end, without end, at intervals of `step`.

    If start, end or step is a dynamic size, the length of the range is computed with integers, so all three must be
    integral.
    """
    if not any(isinstance(n, float) for n in (start, end, step)):
        return _integer_range(builder, start, end, step, dtype or I64)
    if any(isinstance(n, Expr) for n in (start, end, step)):  # floats and dynamic sizes: the floats must be like 2.0
        low, high, by = (int(n) if isinstance(n, float) and n.is_integer() else n for n in (start, end, step))
        if not all(isinstance(n, (int, Expr)) for n in (low, high, by)):
            raise builder.fail(
                f"arange with the step {step} between {start} and {end}: with dynamic sizes all three must be whole "
                "numbers"
            )
        return _integer_range(builder, low, high, by, dtype or F32)
    if not step:
        raise builder.fail(f"arange with the step {step} between {start} and {end}: it must not be 0")
    first, last, interval = float(start), float(end), float(step)  # type: ignore[arg-type]
    positions = shapes.iota(builder, [max(0, math.ceil((last - first) / interval))], axis=0, dtype=I64)
    values = formula(builder, lambda e: e.to(F64) * interval + first, positions)
    return ew.convert(builder, values, dtype or F32)


def _integer_range(builder: Builder, start: Any, end: Any, step: Any, dtype: DType) -> Tensor:
    """Return the integers from `start` to `end`, without `end`, at intervals of `step`.

    start, end, step: ints or sizes. The step is not 0, or CompileError is raised; a call in which it is 0 fails. Raise
    UndecidedError for a step whose sign depends on the sizes of a call.
    """
    direction = sign_unless_empty(step)
    if not direction:
        raise builder.fail(f"arange with the step {step} between {start} and {end}: it must be a number other than 0")
    distance = step * direction
    builder.require_positive(distance, f"arange between {start} and {end}: its step {step} is 0")
    count = ceil_div((end - start) * direction, distance)
    count = max(count, 0) if isinstance(count, int) else count
    return ew.convert(builder, iota(builder, count, start=start, step=step, dtype=I64), dtype)


@converts("prims.iota")
def iota(builder: Builder, length: Size, *, start: Size, step: Size, dtype: DType) -> Tensor:
    """Return `length` numbers from `start` at intervals of `step`."""
    positions = shapes.iota(builder, [length], axis=0, dtype=dtype)
    scaled = positions if step == 1 else ew.binary(builder, "mul", positions, as_tensor(builder, step, dtype))
    return scaled if start == 0 else ew.binary(builder, "add", scaled, as_tensor(builder, start, dtype))


@converts("aten.linspace")
def linspace(builder: Builder, start: Operand, end: Operand, steps: int, *, dtype: DType | None = None) -> Tensor:
    """Return `steps` numbers from `start` to `end`, both included; a constant unless a bound is a tensor."""
    import numpy as np

    if isinstance(start, Tensor) or isinstance(end, Tensor):
        # PyTorch computes the first half of the elements from `start` and the second from `end`, so that the last
        # element is exactly the end. For the fraction p of the way, these are start + (end - start) * p and
        # end - (end - start) * (1 - p).
        part = builder.constant(np.linspace(0.0, 1.0, steps), F64)
        low, high = (shapes.reshape(builder, as_tensor(builder, v, F64), []) for v in (start, end))
        values_ = formula(
            builder, lambda p, x, y: (p < 0.5).where(x + (y - x) * p, y - (y - x) * (1.0 - p)), part, low, high
        )
        return ew.convert(builder, values_, dtype or F32)
    values = np.linspace(float(start), float(end), steps)  # type: ignore[arg-type]
    return builder.constant(values, dtype or F32)


@converts("aten.eye", "aten.eye.m")
def eye(builder: Builder, n: Size, m: Size | None = None, *, dtype: DType | None = None) -> Tensor:
    """Return an n x m matrix (n x n without m) with ones on the diagonal, else zeros."""
    return matrices.identity(builder, n, n if m is None else m, dtype or F32)


def triangle(builder: Builder, x: Tensor, order: str, diagonal: int) -> Tensor:
    """Return x with 0 outside of the triangle column - row <= diagonal for the order "le", >= diagonal for "ge"."""
    return matrices.triangle(builder, x, order, builder.constant(diagonal, I64))


def _triangle(order: str, builder: Builder, self: Tensor, diagonal: int = 0) -> Tensor:
    """Convert tril (order "le") or triu ("ge"): keep the elements on a diagonal and below or above it; zero the others.

    diagonal: column minus row of its elements.
    """
    return triangle(builder, self, order, diagonal)


def _triangle_indices(
    name: str, builder: Builder, row: int, col: int, offset: int = 0, *, dtype: DType | None = None
) -> Tensor:
    """Convert tril_indices (name "tril") or triu_indices ("triu"): return row and column indices as [2, count].

    row, col: sizes of the matrix. offset: column minus row of the diagonal that bounds the triangle.
    """
    import numpy as np

    indices = np.tril_indices(row, offset, col) if name == "tril" else np.triu_indices(row, offset, col)
    return builder.constant(np.stack(indices).astype(np.int64), dtype or I64)


_VALUES = {"zeros": 0, "ones": 1, "empty": 0}
"""Operator -> value of all elements of its result. PyTorch does not define the elements of `empty`."""
_OF_SIZE = ("empty.memory_format", "_efficientzerotensor", "empty_strided", "empty_permuted")
"""Other operators that create a tensor of zeros, or of elements that PyTorch does not define."""

register({
    **{f"aten.{name}": partial(_of_size, value) for name, value in _VALUES.items()},
    **{f"aten.{name}_like": partial(_like, value) for name, value in _VALUES.items()},
    **{f"aten.new_{name}": partial(_new, value) for name, value in _VALUES.items()},
    **{f"aten.{name}": partial(_of_size, 0) for name in _OF_SIZE},
    "aten.zero": partial(_like, 0),
    "aten.new_empty_strided": partial(_new, 0),
    **{f"aten.{name}_indices": partial(_triangle_indices, name) for name in ("tril", "triu")},
    "aten.tril": partial(_triangle, "le"),
    "aten.triu": partial(_triangle, "ge"),
})  # fmt: skip
