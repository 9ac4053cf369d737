"""Conversions of PyTorch's primitive operators, `prims`, to which decompositions lower programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydispatch.frontends.torch.nodes import arrangements, creation
from pydispatch.frontends.torch.nodes import pointwise as _pointwise  # noqa: F401 (registers what is shared)
from pydispatch.frontends.torch.nodes.shapes import axis_of, flatten
from pydispatch.frontends.torch.promotion import Number, as_tensor
from pydispatch.frontends.torch.registry import CONVERSIONS, VIEWS, Conversion, converts, register
from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import DType
from pydispatch.graph.sizes import Size
from pydispatch.graph.values import Tensor
from pydispatch.operations import elementwise as ew
from pydispatch.operations import indexing, normalization, reductions, shapes

Ints = Sequence[int]
Sizes = Sequence[Size]


# -- shapes


@converts("prims.collapse", "prims.collapse_view")
def collapse(builder: Builder, a: Tensor, start: int, end: int) -> Tensor:
    """Merge the axes from start to end, both included, into one."""
    return flatten(builder, a, start, end)


@converts("prims.split_dim")
def split_dim(builder: Builder, a: Tensor, dim: int, outer_length: Size) -> Tensor:
    axis = axis_of(builder, dim, a.rank)
    split = [outer_length, a.shape[axis] // outer_length]
    return shapes.reshape(builder, a, [*a.shape[:axis], *split, *a.shape[axis + 1 :]])


@converts("prims.squeeze")
def squeeze(builder: Builder, a: Tensor, dimensions: Ints) -> Tensor:
    return shapes.squeeze(builder, a, [axis_of(builder, d, a.rank) for d in dimensions])


@converts("prims.broadcast_in_dim")
def broadcast_in_dim(builder: Builder, a: Tensor, shape: Sizes, broadcast_dimensions: Ints) -> Tensor:
    return shapes.broadcast_to(builder, a, shape, broadcast_dimensions)


@converts("prims.slice")
def slice_(
    builder: Builder, a: Tensor, start_indices: Sizes, limit_indices: Sizes, strides: Ints | None = None
) -> Tensor:
    return shapes.slice_(builder, a, list(start_indices), list(limit_indices), list(strides or [1] * a.rank))


@converts("prims.rev")
def rev(builder: Builder, a: Tensor, dims: Ints) -> Tensor:
    return indexing.reverse(builder, a, [axis_of(builder, d, a.rank) for d in dims])


@converts("prims.cat")
def cat(builder: Builder, tensors: Sequence[Tensor], dim: int) -> Tensor:
    result: Tensor = arrangements.cat(builder, tensors, dim)
    return result


def _write_reshaped(builder: Builder, whole: Tensor, written: Tensor, output_index: int, *_: Any, **__: Any) -> Tensor:
    """Write to the base of a view that only changes the shape."""
    return shapes.reshape(builder, written, whole.shape)


# -- elements


@converts("prims.where")
def where(builder: Builder, pred: Tensor, lhs: Tensor, rhs: Tensor) -> Tensor:
    return ew.select(builder, pred, lhs, rhs)


@converts("prims.convert_element_type")
def convert_element_type(builder: Builder, a: Tensor, dtype: DType) -> Tensor:
    return ew.convert(builder, a, dtype)


@converts("prims.iota")
def iota(
    builder: Builder, length: Size, *, start: Size, step: Size, dtype: DType, requires_grad: bool = False
) -> Tensor:
    positions = shapes.iota(builder, [length], 0, dtype)
    scaled = positions if step == 1 else ew.binary(builder, "mul", positions, as_tensor(builder, step, dtype))
    return scaled if start == 0 else ew.binary(builder, "add", scaled, as_tensor(builder, start, dtype))


@converts("prims.full")
def full(builder: Builder, shape: Sizes, fill_value: Number, *, dtype: DType, requires_grad: bool = False) -> Tensor:
    return creation.filled(builder, fill_value, shape, dtype)


@converts("prims.full_like")
def full_like(builder: Builder, a: Tensor, fill_value: Number, *, dtype: DType, requires_grad: bool = False) -> Tensor:
    return creation.filled(builder, fill_value, a.shape, dtype)


# -- reductions


def _reduction(name: str) -> Conversion:
    """Return the conversion of a reduction by a function of one name."""

    def convert(builder: Builder, inp: Tensor, dims: Ints | None, *, output_dtype: DType | None = None) -> Tensor:
        axes = range(inp.rank) if dims is None else [axis_of(builder, d, inp.rank) for d in dims]
        return reductions.reduce(builder, name, ew.convert(builder, inp, output_dtype or inp.dtype), axes)

    return convert


@converts("prims.var")
def var(
    builder: Builder,
    inp: Tensor,
    dims: Ints | None,
    correction: Number | None = 1.0,
    *,
    output_dtype: DType | None = None,
) -> Tensor:
    """Return the variance over `dims`; of all axes for None."""
    axes = [axis_of(builder, d, inp.rank) for d in (range(inp.rank) if dims is None else dims)]
    degrees_of_freedom_lost = float(1 if correction is None else correction)  # type: ignore[arg-type]
    spread = normalization.moments(builder, inp, axes, degrees_of_freedom_lost)[1]
    variance = ew.convert(builder, spread, output_dtype or inp.dtype)
    return shapes.squeeze(builder, variance, axes) if axes else variance


# -- elementwise functions, most of which have the conversions of ATen


def _binary(name: str) -> Conversion:
    """Return the conversion of an elementwise function of two operands of the same type."""

    def convert(builder: Builder, self: Tensor, other: Tensor) -> Tensor:
        return ew.binary(builder, name, self, other)

    return convert


_UNARY = ("abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "bitwise_not", "ceil", "cos", "cosh", "erf", "erfc",
          "exp", "exp2", "expm1", "floor", "isfinite", "log", "log10", "log1p", "log2", "neg", "reciprocal", "round",
          "rsqrt", "sign", "sin", "sinh", "sqrt", "tan", "tanh", "trunc")  # fmt: skip
_OF_TWO = ("atan2", "bitwise_and", "bitwise_or", "bitwise_xor", "eq", "fmax", "fmin", "fmod", "ge", "gt", "hypot", "le",
           "lt", "maximum", "minimum", "ne", "pow", "remainder")  # fmt: skip
_EQUAL_TYPES = {"add": "add", "sub": "sub", "mul": "mul", "div": "div", "shift_left": "shift_left",
                "shift_right_arithmetic": "shift_right_arithmetic"}  # fmt: skip

register({
    **{f"prims.{name}": CONVERSIONS[f"aten.{name}"] for name in (*_UNARY, *_OF_TWO)},
    **{f"prims.{name}": _binary(function) for name, function in _EQUAL_TYPES.items()},
    "prims.sum": _reduction("add"),
    "prims.prod": _reduction("mul"),
    "prims.amax": _reduction("max"),
    "prims.amin": _reduction("min"),
})  # fmt: skip

VIEWS.update({
    **dict.fromkeys(("prims.collapse_view", "prims.split_dim", "prims.squeeze", "prims.view_of"), _write_reshaped),
    "prims.transpose": None, "prims.slice": None, "prims.broadcast_in_dim": None,
})  # fmt: skip
