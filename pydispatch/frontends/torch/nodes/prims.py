"""Conversions of PyTorch's primitive operators, `prims`, to which decompositions lower programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydispatch.frontends.torch.nodes import arrangements, creation, float_parts, pointwise
from pydispatch.frontends.torch.nodes.shapes import axis_of, flatten, permute, same, view
from pydispatch.frontends.torch.promotion import Number, as_tensor
from pydispatch.frontends.torch.trace import Conversion, Inverse
from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import DType
from pydispatch.graph.sizes import Size
from pydispatch.graph.values import Tensor
from pydispatch.operations import elementwise as ew
from pydispatch.operations import indexing, normalization, reductions, shapes

Ints = Sequence[int]
Sizes = Sequence[Size]


# -- shapes


def collapse(b: Builder, a: Tensor, start: int, end: int) -> Tensor:
    """Merge the axes from start to end, both included, into one."""
    return flatten(b, a, start, end)


def split_dim(b: Builder, a: Tensor, dim: int, outer_length: Size) -> Tensor:
    axis = axis_of(b, dim, a.rank)
    split = [outer_length, a.shape[axis] // outer_length]
    return shapes.reshape(b, a, [*a.shape[:axis], *split, *a.shape[axis + 1 :]])


def squeeze(b: Builder, a: Tensor, dimensions: Ints) -> Tensor:
    return shapes.squeeze(b, a, [axis_of(b, d, a.rank) for d in dimensions])


def broadcast_in_dim(b: Builder, a: Tensor, shape: Sizes, broadcast_dimensions: Ints) -> Tensor:
    return shapes.broadcast_to(b, a, shape, broadcast_dimensions)


def slice_(b: Builder, a: Tensor, start_indices: Sizes, limit_indices: Sizes, strides: Ints | None = None) -> Tensor:
    return shapes.slice_(b, a, list(start_indices), list(limit_indices), list(strides or [1] * a.rank))


def rev(b: Builder, a: Tensor, dims: Ints) -> Tensor:
    return indexing.reverse(b, a, [axis_of(b, d, a.rank) for d in dims])


def cat(b: Builder, tensors: Sequence[Tensor], dim: int) -> Tensor:
    result: Tensor = arrangements.cat(b, tensors, dim)
    return result


def _write_reshaped(b: Builder, whole: Tensor, written: Tensor, output_index: int, *_: Any, **__: Any) -> Tensor:
    """Write to the base of a view that only changes the shape."""
    return shapes.reshape(b, written, whole.shape)


# -- elements


def where(b: Builder, pred: Tensor, lhs: Tensor, rhs: Tensor) -> Tensor:
    return ew.select(b, pred, lhs, rhs)


def convert_element_type(b: Builder, a: Tensor, dtype: DType) -> Tensor:
    return ew.convert(b, a, dtype)


def iota(b: Builder, length: Size, *, start: Size, step: Size, dtype: DType, requires_grad: bool = False) -> Tensor:
    positions = shapes.iota(b, [length], 0, dtype)
    scaled = positions if step == 1 else ew.binary(b, "mul", positions, as_tensor(b, step, dtype))
    return scaled if start == 0 else ew.binary(b, "add", scaled, as_tensor(b, start, dtype))


def full(b: Builder, shape: Sizes, fill_value: Number, *, dtype: DType, requires_grad: bool = False) -> Tensor:
    return creation.filled(b, fill_value, shape, dtype)


def full_like(b: Builder, a: Tensor, fill_value: Number, *, dtype: DType, requires_grad: bool = False) -> Tensor:
    return creation.filled(b, fill_value, a.shape, dtype)


# -- reductions


def _reduction(name: str) -> Conversion:
    """Return the conversion of a reduction by a function of one name."""

    def convert(b: Builder, inp: Tensor, dims: Ints | None, *, output_dtype: DType | None = None) -> Tensor:
        axes = range(inp.rank) if dims is None else [axis_of(b, d, inp.rank) for d in dims]
        return reductions.reduce(b, name, ew.convert(b, inp, output_dtype or inp.dtype), axes)

    return convert


def var(
    b: Builder,
    inp: Tensor,
    dims: Ints | None,
    correction: Number | None = 1.0,
    *,
    output_dtype: DType | None = None,
) -> Tensor:
    """Return the variance over `dims`; of all axes for None."""
    axes = [axis_of(b, d, inp.rank) for d in (range(inp.rank) if dims is None else dims)]
    degrees_of_freedom_lost = float(1 if correction is None else correction)  # type: ignore[arg-type]
    spread = normalization.moments(b, inp, axes, degrees_of_freedom_lost)[1]
    variance = ew.convert(b, spread, output_dtype or inp.dtype)
    return shapes.squeeze(b, variance, axes) if axes else variance


# -- elementwise functions, most of which have the conversions of ATen


def _binary(name: str) -> Conversion:
    """Return the conversion of an elementwise function of two operands of the same type."""

    def convert(b: Builder, self: Tensor, other: Tensor) -> Tensor:
        return ew.binary(b, name, self, other)

    return convert


_UNARY = ("abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "bitwise_not", "ceil", "cos", "cosh", "erf", "erfc",
          "exp", "exp2", "expm1", "floor", "isfinite", "log", "log10", "log1p", "log2", "neg", "reciprocal", "round",
          "rsqrt", "sign", "sin", "sinh", "sqrt", "tan", "tanh", "trunc")  # fmt: skip
_OF_TWO = ("atan2", "bitwise_and", "bitwise_or", "bitwise_xor", "eq", "fmax", "fmin", "fmod", "ge", "gt", "hypot", "le",
           "lt", "maximum", "minimum", "ne", "pow", "remainder")  # fmt: skip
_EQUAL_TYPES = {"add": "add", "sub": "sub", "mul": "mul", "div": "div", "shift_left": "shift_left",
                "shift_right_arithmetic": "shift_right_arithmetic"}  # fmt: skip

PRIMS: dict[str, Conversion] = {
    **{f"prims.{name}": pointwise.POINTWISE[f"aten.{name}"] for name in (*_UNARY, *_OF_TWO)},
    **{f"prims.{name}": _binary(function) for name, function in _EQUAL_TYPES.items()},
    "prims.signbit": float_parts.signbit,
    "prims.frexp": float_parts.frexp,
    "prims.where": where,
    "prims.convert_element_type": convert_element_type,
    "prims.iota": iota,
    "prims.scalar_tensor": creation.scalar_tensor,
    "prims.full": full,
    "prims.full_like": full_like,
    "prims.collapse": collapse,
    "prims.collapse_view": collapse,
    "prims.split_dim": split_dim,
    "prims.squeeze": squeeze,
    "prims.broadcast_in_dim": broadcast_in_dim,
    "prims.slice": slice_,
    "prims.reshape": view,
    "prims.transpose": permute,
    "prims.rev": rev,
    "prims.cat": cat,
    "prims.view_of": same,
    "prims.clone": same,
    "prims.sum": _reduction("add"),
    "prims.prod": _reduction("mul"),
    "prims.amax": _reduction("max"),
    "prims.amin": _reduction("min"),
    "prims.var": var,
}

VIEWS: dict[str, Inverse | None] = {
    **dict.fromkeys(("prims.collapse_view", "prims.split_dim", "prims.squeeze", "prims.view_of"), _write_reshaped),
    "prims.transpose": None, "prims.slice": None, "prims.broadcast_in_dim": None,
}  # fmt: skip
