"""Conversions of PyTorch's primitive operators, `prims`, to which decompositions lower programs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from pydispatch.frontends.torch.nodes import pointwise as _pointwise  # noqa: F401 (registers what is shared)
from pydispatch.frontends.torch.nodes.shapes import axis_of, write_reshaped
from pydispatch.frontends.torch.promotion import Number
from pydispatch.frontends.torch.registry import CONVERSIONS, VIEWS, converts, register
from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import DType
from pydispatch.graph.sizes import Size
from pydispatch.graph.values import Tensor
from pydispatch.operations import elementwise as ew
from pydispatch.operations import normalization, reductions, shapes, slicing

Ints = Sequence[int]
Sizes = Sequence[Size]


# -- shapes


@converts("prims.split_dim")
def split_dim(builder: Builder, a: Tensor, dim: int, outer_length: Size) -> Tensor:
    """Split an axis into one of size `outer_length`, and after it one of the axis' size divided by `outer_length`."""
    axis = axis_of(builder, dim, a.rank)
    split = [outer_length, a.shape[axis] // outer_length]
    return shapes.reshape(builder, a, [*a.shape[:axis], *split, *a.shape[axis + 1 :]])


@converts("prims.squeeze")
def squeeze(builder: Builder, a: Tensor, dimensions: Ints) -> Tensor:
    """Remove the axes `dimensions`, which have size 1."""
    return shapes.squeeze(builder, a, [axis_of(builder, d, a.rank) for d in dimensions])


@converts("prims.broadcast_in_dim")
def broadcast_in_dim(builder: Builder, a: Tensor, shape: Sizes, broadcast_dimensions: Ints) -> Tensor:
    """Broadcast to a shape. broadcast_dimensions: for each axis of the operand its axis in the result."""
    return shapes.broadcast_to(builder, a, shape, broadcast_dimensions)


@converts("prims.slice")
def slice_(
    builder: Builder, a: Tensor, start_indices: Sizes, limit_indices: Sizes, strides: Ints | None = None
) -> Tensor:
    """Return every `strides[d]`-th element from `start_indices[d]` to `limit_indices[d]` (exclusive) along each axis d.

    `strides` is 1 for all axes if it is None.
    """
    return slicing.slice_(builder, a, list(start_indices), list(limit_indices), list(strides or [1] * a.rank))


# -- elements


@converts("prims.where")
def where(builder: Builder, pred: Tensor, lhs: Tensor, rhs: Tensor) -> Tensor:
    """Return elements of `lhs` where `pred` is true, else of `rhs`."""
    return ew.select(builder, pred, lhs, rhs)


# -- reductions


def _reduction(
    name: str, builder: Builder, inp: Tensor, dims: Ints | None, *, output_dtype: DType | None = None
) -> Tensor:
    """Reduce along the axes `dims`, or along all axes if `dims` is None. The result lacks these axes.

    name: function that combines two elements, such as "add". output_dtype: type in which elements are combined, and of
    the result; None for that of `inp`.
    """
    axes = range(inp.rank) if dims is None else [axis_of(builder, d, inp.rank) for d in dims]
    return reductions.reduce(builder, name, ew.convert(builder, inp, output_dtype or inp.dtype), axes)


@converts("prims.var")
def var(
    builder: Builder, inp: Tensor, dims: Ints | None, correction: Number | None = 1.0, *,
    output_dtype: DType | None = None,
) -> Tensor:  # fmt: skip
    """Return the variance over `dims` (all axes for None), which are removed.

    correction: the sum of squared deviations is divided by the number of elements minus this; None for 1.
    """
    axes = [axis_of(builder, d, inp.rank) for d in (range(inp.rank) if dims is None else dims)]
    less = float(1 if correction is None else correction)  # type: ignore[arg-type]
    _mean, variance = normalization.moments(builder, inp, axes, less)
    variance = ew.convert(builder, variance, output_dtype or inp.dtype)
    return shapes.squeeze(builder, variance, axes) if axes else variance


# -- elementwise functions, most of which have the conversions of ATen


def _binary(name: str, builder: Builder, self: Tensor, other: Tensor) -> Tensor:
    """Apply the elementwise function `name`, such as "add", to two operands of the same type."""
    return ew.binary(builder, name, self, other)


_UNARY = ("abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "bitwise_not", "ceil", "cos", "cosh", "erf", "erfc",
          "exp", "exp2", "expm1", "floor", "isfinite", "log", "log10", "log1p", "log2", "neg", "reciprocal", "round",
          "rsqrt", "sign", "sin", "sinh", "sqrt", "tan", "tanh", "trunc")  # fmt: skip
"""Operators of one operand that are converted like those of `aten` with the same names."""
_OF_TWO = ("atan2", "bitwise_and", "bitwise_or", "bitwise_xor", "eq", "fmax", "fmin", "fmod", "ge", "gt", "hypot", "le",
           "lt", "maximum", "minimum", "ne", "pow", "remainder")  # fmt: skip
"""Operators of two operands that are converted like those of `aten` with the same names."""
_EQUAL_TYPES = {"add": "add", "sub": "sub", "mul": "mul", "div": "div", "shift_left": "shift_left",
                "shift_right_arithmetic": "shift_right_arithmetic"}  # fmt: skip
"""Operators of two operands of one type -> the elementwise functions. Those of `aten` would promote the operands."""
_REDUCTIONS = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min"}
"""Reductions -> the functions that combine two elements."""

register({
    **{f"prims.{name}": CONVERSIONS[f"aten.{name}"] for name in (*_UNARY, *_OF_TWO)},
    **{f"prims.{name}": partial(_binary, function) for name, function in _EQUAL_TYPES.items()},
    **{f"prims.{name}": partial(_reduction, function) for name, function in _REDUCTIONS.items()},
})  # fmt: skip

VIEWS.update({
    **dict.fromkeys(("prims.collapse_view", "prims.split_dim", "prims.squeeze", "prims.view_of"), write_reshaped),
    "prims.transpose": None, "prims.slice": None, "prims.broadcast_in_dim": None,
})  # fmt: skip
