"""Conversions of sums of products: matrix products, linear layers, convolutions, distances."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pydispatch.frontends.torch.promotion import Number, as_tensor, promoted
from pydispatch.frontends.torch.registry import converts
from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import F32, I32, DType
from pydispatch.graph.sizes import Expr, Size
from pydispatch.graph.values import Tensor
from pydispatch.operations import convolutions, gathers, normalization, products, reductions, shapes, slicing
from pydispatch.operations import elementwise as ew

Sizes = Sequence[Size]
Ints = Sequence[int]
Tensors = Sequence[Tensor]


@converts("aten.matmul", "aten.mm", "aten.bmm", "aten.mv", "aten.dot")
def matmul(builder: Builder, self: Tensor, other: Tensor) -> Tensor:
    """Return the matrix product, as numpy.matmul: operands may be vectors, and batch axes broadcast."""
    return products.matmul(builder, self, other)


def _scaled_sum(builder: Builder, x: Tensor, scale: Number, product: Tensor, product_scale: Number) -> Tensor:
    """Return scale * x + product_scale * product. x is not read if `scale` is 0, so that a NaN in x has no effect.

    The sum is rounded to the type of x at the end: a product that is too large for f16 may be scaled to fit.
    """

    def scaled(tensor: Tensor, by: Number) -> Tensor:
        """Return a tensor times the number `by`; emit nothing if that is 1."""
        return tensor if by == 1 else ew.binary(builder, "mul", tensor, as_tensor(builder, by, tensor.dtype))

    total = scaled(product, product_scale)
    if scale != 0:
        total = ew.binary(builder, "add", scaled(ew.convert(builder, x, total.dtype), scale), total)
    return ew.convert(builder, total, x.dtype)


@converts("aten.addmm", "aten.baddbmm", "aten.addmv")
def addmm(builder: Builder, self: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Number = 1, alpha: Number = 1) -> Tensor:
    """Return beta * self + alpha * (mat1 @ mat2), for matrices, batches of matrices, or a matrix and a vector."""
    product = products.matmul(builder, mat1, mat2, normalization.wide(self.dtype))
    return _scaled_sum(builder, self, beta, product, alpha)


@converts("aten.addbmm")
def addbmm(
    builder: Builder, self: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Number = 1, alpha: Number = 1
) -> Tensor:
    """Return beta * self + alpha * the sum of batch1[n] @ batch2[n] over n."""
    rows, inner = shapes.transpose(builder, batch1, [1, 0, 2]), normalization.wide(self.dtype)
    # One contraction over both axes, the batch and the columns of batch1.
    total = products.dot_general(builder, rows, batch2, batch=[], contracted=[(1, 0), (2, 1)], dtype=inner)
    return _scaled_sum(builder, self, beta, total, alpha)


@converts("aten._int_mm")
def int_mm(builder: Builder, self: Tensor, mat2: Tensor) -> Tensor:
    """Return the product of matrices of i8 as i32."""
    return products.matmul(builder, self, mat2, I32)


@converts("aten._scaled_mm")
def scaled_mm(
    builder: Builder, self: Tensor, mat2: Tensor, scale_a: Tensor, scale_b: Tensor, bias: Tensor | None = None,
    scale_result: Tensor | None = None, out_dtype: DType | None = None, use_fast_accum: bool = False,
) -> Tensor:  # fmt: skip
    """Return a product of 8-bit floats, summed in f32, multiplied by scales, plus a bias per column.

    Each scale is one number, or has one number for each row of `self` (scale_a) or column of `mat2` (scale_b).
    scale_result: factor of results of 8 bits; others ignore it. out_dtype: type of the result; None for that of `self`.
    `use_fast_accum` has no effect.

    Raise CompileError if a scale is not f32 or has another shape.
    """
    rows, columns = self.shape[0], mat2.shape[1]
    # A scale of rank 2 has along each axis the full size or 1. A scale of rank 0, or [1], is one number. A scale of a
    # higher rank fits nothing: the length of `allowed` is at most 2.
    for name, scale, full_shape in (("scale_a", scale_a, (rows, 1)), ("scale_b", scale_b, (1, columns))):
        allowed = full_shape if scale.rank == 2 else (1,) * min(scale.rank, 2)
        fits = len(allowed) == scale.rank and all(n in (1, m) for n, m in zip(scale.shape, allowed, strict=True))
        if scale.dtype != F32 or not fits:
            raise builder.fail(
                f"_scaled_mm: '{name}' is {scale}; expected f32[] or f32[{full_shape[0]}, {full_shape[1]}]",
                "multiply blocks that have scales of their own by themselves",
            )
    # The product in f32, times both scales, plus the bias, times the scale of an 8-bit result.
    product = products.matmul(builder, self, mat2, F32)
    for factor in (scale_a, scale_b):
        product = ew.binary(builder, "mul", product, factor)
    if bias is not None:
        product = ew.binary(builder, "add", product, ew.convert(builder, bias, F32))
    out = out_dtype or self.dtype
    if scale_result is not None and out.bits == 8:
        product = ew.binary(builder, "mul", product, scale_result)
    return ew.convert(builder, product, out)


@converts("aten.linear")
def linear(builder: Builder, input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return input [..., n] times the transposed weight [m, n] (or a vector of weights [n]), plus the bias [m]."""
    if weight.rank == 1:
        product = products.matmul(builder, input, weight)
    else:
        product = products.dot_general(builder, input, weight, batch=[], contracted=[(input.rank - 1, 1)])
    return product if bias is None else ew.binary(builder, "add", product, bias)


@converts("aten.outer", "aten.ger")
def outer(builder: Builder, self: Tensor, vec2: Tensor) -> Tensor:
    """Return the products of all pairs of elements of two vectors, [size of self, size of vec2]."""
    x, y = promoted(builder, self, vec2)
    return ew.binary(builder, "mul", shapes.expand_dims(builder, x, axes=[1]), y)


@converts("aten.einsum")
def einsum(builder: Builder, equation: str, operands: Tensors, *, path: Ints | None = None) -> Tensor:
    """Return the sum of products that the equation states, such as "ij,jk->ik". `path`, the order of contractions, has
    no effect.
    """
    return products.einsum(builder, equation, *operands)


@converts("aten.bilinear")
def bilinear(builder: Builder, input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return y[o] = sum of input1[i] * weight[o, i, j] * input2[j] over i and j, plus a bias."""
    product = products.einsum(builder, "...i,oij,...j->...o", input1, weight, input2)
    return product if bias is None else ew.binary(builder, "add", product, bias)


@converts("aten._trilinear")
def trilinear(
    builder: Builder, i1: Tensor, i2: Tensor, i3: Tensor, expand1: Ints, expand2: Ints, expand3: Ints, sumdim: Ints,
    unroll_dim: int = 1,
) -> Tensor:  # fmt: skip
    """Return the product of three tensors, each with axes of size 1 inserted at `expand1` to `expand3`, summed over the
    axes `sumdim`. `unroll_dim` has no effect.
    """
    inputs = ((i1, expand1), (i2, expand2), (i3, expand3))
    x, y, z = (shapes.expand_dims(builder, i, list(axes)) if axes else i for i, axes in inputs)
    product = ew.binary(builder, "mul", ew.binary(builder, "mul", x, y), z)
    return reductions.reduce(builder, "add", product, list(sumdim)) if sumdim else product


@converts("aten.cdist", "aten._cdist_forward")
def distances(builder: Builder, x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: int | None = None) -> Tensor:
    """Return the p-norm of the difference of each row of x1 [..., n, d] and each row of x2 [..., m, d]: [..., n, m].

    `compute_mode`, which selects an algorithm of PyTorch, has no effect.
    """
    rows, columns = shapes.expand_dims(builder, x1, [x1.rank - 1]), shapes.expand_dims(builder, x2, [x2.rank - 2])
    return normalization.lp_norm(builder, ew.binary(builder, "sub", rows, columns), p, [-1])


# Largest number of rows, n, whose pairs are compared; more are refused. The pairs are constants of the program: two
# index tables of n * n / 2 elements of 8 bytes, 16 MiB each.
_MAX_PAIRED_ROWS = 2048


@converts("aten.pdist", "aten._pdist_forward")
def distances_of_pairs(builder: Builder, self: Tensor, p: float = 2.0) -> Tensor:
    """Return the p-norms of the differences of all pairs of rows i < j of a matrix [n, d], a vector of n * (n - 1) / 2.

    Pairs are in the order (0, 1), (0, 2), ..., (1, 2), ...
    """
    first, second = (
        gathers.take(builder, self, builder.constant(i), axis=0)
        for i in np.triu_indices(count_of_rows(builder, self), 1)
    )
    return normalization.lp_norm(builder, ew.binary(builder, "sub", first, second), p, [-1])


def count_of_rows(builder: Builder, x: Tensor) -> int:
    """Return the number of rows whose pairs are compared. Raise CompileError if it is dynamic or larger than
    _MAX_PAIRED_ROWS.
    """
    count = x.shape[0]
    if isinstance(count, Expr) or count > _MAX_PAIRED_ROWS:
        raise builder.fail(f"pairs of rows of {x} are compared: their number must be known, {_MAX_PAIRED_ROWS} at most")
    return count


# -- convolutions


def _per_axis(values: Sizes, count: int) -> tuple[Size, ...]:
    """Return one entry for each of `count` axes; a single entry is repeated."""
    return tuple(values) * count if len(values) == 1 else tuple(values)


def _static_per_axis(builder: Builder, what: str, values: Sizes, count: int) -> tuple[int, ...]:
    """Return one integer for each of `count` axes; a single entry is repeated.

    Raise CompileError for dynamic or missing entries; `what` names them in its message.
    """
    numbers = _per_axis(values, count)
    if any(isinstance(n, Expr) for n in numbers) or len(numbers) != count:
        raise builder.fail(f"a convolution over {count} axes has the {what} {list(values)}")
    return tuple(int(n) for n in numbers)  # type: ignore[arg-type]


def window_of(builder: Builder, spatial: int, stride: Sizes, padding: Sizes, dilation: Sizes) -> convolutions.Window:
    """Return the strides, padding and dilations of a convolution over `spatial` axes; an argument with one entry
    applies to all axes, and padding is the same before and after an axis.
    """
    pads = _per_axis(padding, spatial)
    strides = _static_per_axis(builder, "strides", stride, spatial)
    return convolutions.Window(strides, pads, pads, _static_per_axis(builder, "dilations", dilation, spatial))


@converts("aten.convolution", "aten._convolution")
def convolution(
    builder: Builder, input: Tensor, weight: Tensor, bias: Tensor | None, stride: Sizes, padding: Sizes,
    dilation: Sizes, transposed: bool, output_padding: Sizes, groups: int, *flags: bool,
) -> Tensor:  # fmt: skip
    """Return the convolution, or transposed convolution, of [n, c, ...] or [c, ...] with f filters, summed in at least
    f32.

    weight: the filters, [f, c / groups, kernel...], or [c, f / groups, kernel...] if `transposed`. output_padding:
    elements that are added after each axis of a transposed convolution. flags: those of `_convolution`, which select
    libraries of PyTorch, and have no effect.
    """
    spatial = weight.rank - 2
    is_batched = input.rank == spatial + 2
    x = input if is_batched else shapes.expand_dims(builder, input, axes=[0])
    window = window_of(builder, spatial, stride, padding, dilation)
    inner = normalization.wide(x.dtype)
    if transposed:
        extra = _static_per_axis(builder, "output padding", output_padding, spatial)
        result = convolutions.transposed_convolution(
            builder, x, weight, window, groups=groups, output_padding=extra, dtype=inner
        )
    else:
        result = convolutions.convolution(builder, x, weight, window, groups=groups, dtype=inner)
    if bias is not None:
        channels = normalization.along(builder, ew.convert(builder, bias, inner), axis=1, rank=result.rank)
        result = ew.binary(builder, "add", result, channels)
    result = ew.convert(builder, result, x.dtype)
    return result if is_batched else shapes.squeeze(builder, result, axes=[0])


@converts(*(f"aten.conv{n}d" for n in (1, 2, 3)))
def conv(
    builder: Builder, input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Sizes = (1,),
    padding: Sizes | str = (0,), dilation: Sizes = (1,), groups: int = 1,
) -> Tensor:  # fmt: skip
    """Return a convolution, whose padding may be "same" (the result has the size of the input) or "valid" (none)."""
    if padding == "same":  # pad the input first; of 3 zeros along an axis, 1 is before and 2 are after the elements
        spatial = weight.rank - 2
        dilations = _static_per_axis(builder, "dilations", dilation, spatial)
        total = [step * (k - 1) for step, k in zip(dilations, weight.shape[2:], strict=True)]
        lead = [0] * (input.rank - spatial)  # no padding of the batch and channel axes
        input = slicing.pad(builder, input, [*lead, *(n // 2 for n in total)], [*lead, *(n - n // 2 for n in total)])
    amounts = (0,) if isinstance(padding, str) else padding
    return convolution(
        builder, input, weight, bias, stride, amounts, dilation, transposed=False, output_padding=(0,), groups=groups
    )


@converts(*(f"aten.conv_transpose{n}d" for n in (1, 2, 3)))
def conv_transpose(
    builder: Builder, input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Sizes = (1,),
    padding: Sizes = (0,), output_padding: Sizes = (0,), groups: int = 1, dilation: Sizes = (1,),
) -> Tensor:  # fmt: skip
    """Return the transposed convolution of [n, c, ...] or [c, ...] by the filters `weight` [c, f / groups, kernel...].

    output_padding: elements that are added after each axis of the result.
    """
    return convolution(
        builder,
        input,
        weight,
        bias,
        stride,
        padding,
        dilation,
        transposed=True,
        output_padding=output_padding,
        groups=groups,
    )


@converts("aten.conv_tbc")
def conv_tbc(builder: Builder, self: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    """Return the convolution over time of [time, batch, channels] by filters [kernel, channels, filters].

    The result is [time, batch, filters]; `pad` steps of zeros are added before and after the input.
    """
    x, filters = shapes.transpose(builder, self, [1, 2, 0]), shapes.transpose(builder, weight, [2, 1, 0])
    result = convolution(
        builder,
        x,
        filters,
        bias,
        stride=(1,),
        padding=(pad,),
        dilation=(1,),
        transposed=False,
        output_padding=(0,),
        groups=1,
    )
    return shapes.transpose(builder, result, [2, 0, 1])
