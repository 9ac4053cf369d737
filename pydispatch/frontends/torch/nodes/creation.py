"""Tensors that are made of nothing but a shape."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from pydispatch.frontends.graph.dtypes import F32, F64, I64, DType
from pydispatch.frontends.graph.sizes import Expr, Size, ceil_div
from pydispatch.frontends.graph.values import Tensor
from pydispatch.frontends.ops import elementwise as ew
from pydispatch.frontends.ops import shapes
from pydispatch.frontends.ops.formulas import formula
from pydispatch.frontends.torch.promotion import Number, Operand, as_tensor, default_type
from pydispatch.frontends.torch.trace import Conversion, Tracer

Sizes = Sequence[Size]


def filled(t: Tracer, value: Operand, shape: Sizes, dtype: DType) -> Tensor:
    """Return a tensor of one number."""
    return shapes.broadcast_to(t.b, as_tensor(t, value, dtype), shape)


def full(t: Tracer, size: Sizes, fill_value: Operand, *, dtype: DType | None = None) -> Tensor:
    default = fill_value.dtype if isinstance(fill_value, Tensor) else default_type(fill_value)
    return filled(t, fill_value, size, dtype or default)


def full_like(t: Tracer, self: Tensor, fill_value: Operand, *, dtype: DType | None = None) -> Tensor:
    return filled(t, fill_value, self.shape, dtype or self.dtype)


def new_full(t: Tracer, self: Tensor, size: Sizes, fill_value: Operand, *, dtype: DType | None = None) -> Tensor:
    return filled(t, fill_value, size, dtype or self.dtype)


def fill(t: Tracer, self: Tensor, value: Operand) -> Tensor:
    return filled(t, value, self.shape, self.dtype)


def zero(t: Tracer, self: Tensor) -> Tensor:
    return filled(t, 0, self.shape, self.dtype)


def _of_size(value: int) -> Conversion:
    def convert(t: Tracer, size: Sizes, *, dtype: DType | None = None) -> Tensor:
        return filled(t, value, size, dtype or F32)

    return convert


def _like(value: int) -> Conversion:
    def convert(t: Tracer, self: Tensor, *, dtype: DType | None = None) -> Tensor:
        return filled(t, value, self.shape, dtype or self.dtype)

    return convert


def _new(value: int) -> Conversion:
    def convert(t: Tracer, self: Tensor, size: Sizes, *, dtype: DType | None = None) -> Tensor:
        return filled(t, value, size, dtype or self.dtype)

    return convert


def empty_strided(t: Tracer, size: Sizes, stride: Sizes, *, dtype: DType | None = None) -> Tensor:
    return filled(t, 0, size, dtype or F32)


def new_empty_strided(
    t: Tracer, self: Tensor, size: Sizes, stride: Sizes, *, dtype: DType | None = None
) -> Tensor:
    return filled(t, 0, size, dtype or self.dtype)


def empty_permuted(t: Tracer, size: Sizes, physical_layout: Sequence[int], *, dtype: DType | None = None) -> Tensor:
    return filled(t, 0, size, dtype or F32)


def scalar_tensor(t: Tracer, s: Operand, *, dtype: DType | None = None) -> Tensor:
    return as_tensor(t, s, dtype or F32)


def arange(t: Tracer, end: Number, *, dtype: DType | None = None) -> Tensor:
    return arange_step(t, 0, end, 1, dtype=dtype)


def arange_step(t: Tracer, start: Number, end: Number, step: Number = 1, *, dtype: DType | None = None) -> Tensor:
    if all(isinstance(n, (int, Expr)) for n in (start, end, step)):
        return _of_integers(t, start, end, step, dtype or I64)
    if any(isinstance(n, Expr) for n in (start, end, step)) or not step:
        raise t.b.fail("arange by fractions up to a size that is not known")
    first, last, by = float(start), float(end), float(step)  # type: ignore[arg-type]
    places = shapes.iota(t.b, [max(0, math.ceil((last - first) / by))], 0, I64)
    made = formula(t.b, lambda e: e.to(F64) * by + first, places)
    return ew.convert(t.b, made, dtype or F32)


def _of_integers(t: Tracer, start: Any, end: Any, step: Any, dtype: DType) -> Tensor:
    if not isinstance(step, int) or not step:
        raise t.b.fail(f"arange with the step {step}")
    count = ceil_div(end - start, step) if step > 0 else ceil_div(start - end, -step)
    count = max(count, 0) if isinstance(count, int) else count
    places = shapes.iota(t.b, [count], 0, I64)
    scaled = places if step == 1 else ew.binary(t.b, "mul", places, as_tensor(t, step))
    made = scaled if start == 0 else ew.binary(t.b, "add", scaled, as_tensor(t, start))
    return ew.convert(t.b, made, dtype)


def linspace(t: Tracer, start: Operand, end: Operand, steps: int, *, dtype: DType | None = None) -> Tensor:
    import numpy as np

    if isinstance(start, Tensor) or isinstance(end, Tensor):
        # From both ends, as PyTorch does: the last element is the end itself.
        part = t.b.constant(np.linspace(0.0, 1.0, steps), F64)
        low, high = (shapes.reshape(t.b, as_tensor(t, v, F64), []) for v in (start, end))
        made = formula(t.b, lambda p, x, y: (p < 0.5).choose(x + (y - x) * p, y - (y - x) * (1.0 - p)), part, low, high)
        return ew.convert(t.b, made, dtype or F32)
    values = np.linspace(float(start), float(end), steps)  # type: ignore[arg-type]
    return t.b.constant(values, dtype or F32)


def eye(t: Tracer, n: Size, m: Size | None = None, *, dtype: DType | None = None) -> Tensor:
    shape = (n, n if m is None else m)
    rows, columns = (shapes.iota(t.b, shape, axis, I64) for axis in (0, 1))
    return ew.convert(t.b, ew.compare(t.b, "eq", rows, columns), dtype or F32)


def triangle(t: Tracer, x: Tensor, order: str, diagonal: int) -> Tensor:
    """Matrices with 0 where the column less the row is not "le" or "ge" the number of a diagonal."""
    lead, (n, m) = x.shape[:-2], x.shape[-2:]
    rows = shapes.reshape(t.b, shapes.iota(t.b, [n], 0, I64), [*[1] * len(lead), n, 1])
    columns = shapes.reshape(t.b, shapes.iota(t.b, [m], 0, I64), [*[1] * len(lead), 1, m])
    kept = formula(t.b, lambda r, c: (c - r).compare(order, diagonal), rows, columns)
    return ew.select(t.b, kept, x, as_tensor(t, 0, x.dtype))


def _triangle(order: str) -> Conversion:
    def convert(t: Tracer, self: Tensor, diagonal: int = 0) -> Tensor:
        return triangle(t, self, order, diagonal)

    return convert


def _indices_of_triangle(name: str) -> Conversion:
    """Return the rows and columns of the elements on and below, or above, a diagonal of a matrix, [2, count]."""

    def convert(t: Tracer, row: int, col: int, offset: int = 0, *, dtype: DType | None = None) -> Tensor:
        import numpy as np

        found = np.tril_indices(row, offset, col) if name == "tril" else np.triu_indices(row, offset, col)
        return t.b.constant(np.stack(found).astype(np.int64), dtype or I64)

    return convert


CREATION: dict[str, Conversion] = {
    "aten.full": full,
    "aten.full_like": full_like,
    "aten.new_full": new_full,
    "aten.fill": fill,
    "aten.zero": zero,
    **{f"aten.{name}": _of_size(value) for name, value in (("zeros", 0), ("ones", 1), ("empty", 0))},
    **{f"aten.{name}_like": _like(value) for name, value in (("zeros", 0), ("ones", 1), ("empty", 0))},
    **{f"aten.new_{name}": _new(value) for name, value in (("zeros", 0), ("ones", 1), ("empty", 0))},
    "aten.empty.memory_format": _of_size(0),
    "aten._efficientzerotensor": _of_size(0),
    "aten.empty_strided": empty_strided,
    "aten.new_empty_strided": new_empty_strided,
    "aten.empty_permuted": empty_permuted,
    "aten.scalar_tensor": scalar_tensor,
    "aten.arange": arange,
    "aten.arange.start": arange_step,
    "aten.arange.start_step": arange_step,
    "aten.linspace": linspace,
    "aten.eye": eye,
    "aten.eye.m": eye,
    "aten.tril_indices": _indices_of_triangle("tril"),
    "aten.triu_indices": _indices_of_triangle("triu"),
    "aten.tril": _triangle("le"),
    "aten.triu": _triangle("ge"),
}
