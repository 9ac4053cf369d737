"""Conversions of sums of products: matrix products, linear layers, convolutions, distances."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pydispatch.frontends.torch.promotion import Number, as_tensor, promoted
from pydispatch.frontends.torch.trace import Conversion
from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import F32, I32, DType
from pydispatch.graph.sizes import Expr, Size
from pydispatch.graph.values import Tensor
from pydispatch.operations import convolutions, gathers, normalization, products, reductions, shapes
from pydispatch.operations import elementwise as ew

Sizes = Sequence[Size]
Ints = Sequence[int]
Tensors = Sequence[Tensor]


def matmul(b: Builder, self: Tensor, other: Tensor) -> Tensor:
    return products.matmul(b, self, other)


def matmul_mat2(b: Builder, self: Tensor, mat2: Tensor) -> Tensor:
    return products.matmul(b, self, mat2)


def matmul_vec(b: Builder, self: Tensor, vec: Tensor) -> Tensor:
    return products.matmul(b, self, vec)


def dot(b: Builder, self: Tensor, tensor: Tensor) -> Tensor:
    return products.matmul(b, self, tensor)


def _scaled_sum(b: Builder, x: Tensor, scale: Number, product: Tensor, product_scale: Number) -> Tensor:
    """Return scale * x + product_scale * product; x is not read if `scale` is 0."""

    def scaled(tensor: Tensor, by: Number) -> Tensor:
        return tensor if by == 1 else ew.binary(b, "mul", tensor, as_tensor(b, by, tensor.dtype))

    product = scaled(product, product_scale)
    return product if scale == 0 else ew.binary(b, "add", scaled(x, scale), product)


def addmm(b: Builder, self: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Number = 1, alpha: Number = 1) -> Tensor:
    return _scaled_sum(b, self, beta, products.matmul(b, mat1, mat2), alpha)


def baddbmm(b: Builder, self: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Number = 1, alpha: Number = 1) -> Tensor:
    return addmm(b, self, batch1, batch2, beta=beta, alpha=alpha)


def addbmm(b: Builder, self: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Number = 1, alpha: Number = 1) -> Tensor:
    """Return beta * self + alpha * the sum over the batch of the products of matrices."""
    total = products.dot_general(
        b,
        shapes.transpose(b, batch1, [1, 0, 2]),
        batch2,
        [],
        [(1, 0), (2, 1)],
        normalization.wide(self.dtype),
    )
    return _scaled_sum(b, self, beta, ew.convert(b, total, self.dtype), alpha)


def int_mm(b: Builder, self: Tensor, mat2: Tensor) -> Tensor:
    return products.matmul(b, self, mat2, I32)


def scaled_mm(
    b: Builder, self: Tensor, mat2: Tensor, scale_a: Tensor, scale_b: Tensor, bias: Tensor | None = None,
    scale_result: Tensor | None = None, out_dtype: DType | None = None, use_fast_accum: bool = False,
) -> Tensor:  # fmt: skip
    """Return a product of 8-bit floats, summed in f32 and multiplied by scales.

    Each scale is one number, or has one number for each row of `self` (scale_a) or column of `mat2` (scale_b).
    """
    rows, columns = self.shape[0], mat2.shape[1]
    for name, scale, full_shape in (("scale_a", scale_a, (rows, 1)), ("scale_b", scale_b, (1, columns))):
        fits = scale.rank in (0, 1) or all(n in (1, m) for n, m in zip(scale.shape, full_shape, strict=False))
        if scale.dtype != F32 or not fits:
            raise b.fail(
                f"_scaled_mm: '{name}' is {scale}; expected f32[] or f32[{full_shape[0]}, {full_shape[1]}]",
                "multiply blocks that have scales of their own by themselves",
            )
    product = products.matmul(b, self, mat2, F32)
    for factor in (scale_a, scale_b):
        product = ew.binary(b, "mul", product, factor)
    if bias is not None:
        product = ew.binary(b, "add", product, ew.convert(b, bias, F32))
    out = out_dtype or self.dtype
    if scale_result is not None and out.bits == 8:
        product = ew.binary(b, "mul", product, scale_result)
    return ew.convert(b, product, out)


def addmv(b: Builder, self: Tensor, mat: Tensor, vec: Tensor, *, beta: Number = 1, alpha: Number = 1) -> Tensor:
    return addmm(b, self, mat, vec, beta=beta, alpha=alpha)


def linear(b: Builder, input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return input times the transposed weight (or a vector of weights), plus the bias."""
    if weight.rank == 1:
        product = products.matmul(b, input, weight)
    else:
        product = products.dot_general(b, input, weight, [], [(input.rank - 1, 1)])
    return product if bias is None else ew.binary(b, "add", product, bias)


def outer(b: Builder, self: Tensor, vec2: Tensor) -> Tensor:
    x, y = promoted(b, self, vec2)
    return ew.binary(b, "mul", shapes.expand_dims(b, x, [1]), y)


def einsum(b: Builder, equation: str, operands: Tensors, *, path: Ints | None = None) -> Tensor:
    return products.einsum(b, equation, *operands)


def bilinear(b: Builder, input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    product = products.einsum(b, "...i,oij,...j->...o", input1, weight, input2)
    return product if bias is None else ew.binary(b, "add", product, bias)


def trilinear(
    b: Builder, i1: Tensor, i2: Tensor, i3: Tensor, expand1: Ints, expand2: Ints, expand3: Ints, sumdim: Ints,
    unroll_dim: int = 1,
) -> Tensor:  # fmt: skip
    """Return the product of three tensors, each with axes of size 1 inserted (expand1 to expand3), summed over
    `sumdim`.
    """
    inputs = ((i1, expand1), (i2, expand2), (i3, expand3))
    x, y, z = (shapes.expand_dims(b, i, list(axes)) if axes else i for i, axes in inputs)
    product = ew.binary(b, "mul", ew.binary(b, "mul", x, y), z)
    return reductions.reduce(b, "add", product, list(sumdim)) if sumdim else product


def distances(b: Builder, x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: int | None = None) -> Tensor:
    """Return the p-norm of the difference of each row of x1 and each row of x2: [..., n, m]."""
    rows, columns = shapes.expand_dims(b, x1, [x1.rank - 1]), shapes.expand_dims(b, x2, [x2.rank - 2])
    return normalization.lp_norm(b, ew.binary(b, "sub", rows, columns), p, [-1])


_MAX_PAIRED_ROWS = 2048  # the index tables of pairs have n * n / 2 elements of 8 bytes: 16 MiB


def distances_of_pairs(b: Builder, self: Tensor, p: float = 2.0) -> Tensor:
    """Return the p-norms of the differences of all pairs of different rows, [n * (n - 1) / 2]."""
    first, second = (gathers.take(b, self, b.constant(i), 0) for i in np.triu_indices(count_of_rows(b, self), 1))
    return normalization.lp_norm(b, ew.binary(b, "sub", first, second), p, [-1])


def count_of_rows(b: Builder, x: Tensor) -> int:
    """Return the number of rows whose pairs are compared. Raise CompileError if it is dynamic or larger than
    _MAX_PAIRED_ROWS.
    """
    count = x.shape[0]
    if isinstance(count, Expr) or count > _MAX_PAIRED_ROWS:
        raise b.fail(f"pairs of rows of {x} are compared: their number must be known, {_MAX_PAIRED_ROWS} at most")
    return count


# -- convolutions


def _per_axis(values: Sizes, count: int) -> tuple[Size, ...]:
    """Return one entry for each of `count` axes; a single entry is repeated."""
    return tuple(values) * count if len(values) == 1 else tuple(values)


def _static_per_axis(b: Builder, what: str, values: Sizes, count: int) -> tuple[int, ...]:
    """Return one integer for each of `count` axes. Raise CompileError for dynamic or missing ones; `what`
    names them.
    """
    numbers = _per_axis(values, count)
    if any(isinstance(n, Expr) for n in numbers) or len(numbers) != count:
        raise b.fail(f"a convolution over {count} axes has the {what} {list(values)}")
    return tuple(int(n) for n in numbers)  # type: ignore[arg-type]


def window_of(b: Builder, spatial: int, stride: Sizes, padding: Sizes, dilation: Sizes) -> convolutions.Window:
    """Return the window geometry of a convolution over `spatial` axes; an argument with one entry applies
    to all axes.
    """
    pads = _per_axis(padding, spatial)
    strides, dilations = (
        _static_per_axis(b, "strides", stride, spatial),
        _static_per_axis(b, "dilations", dilation, spatial),
    )
    return convolutions.Window(strides, pads, pads, dilations)


def convolution(
    b: Builder, input: Tensor, weight: Tensor, bias: Tensor | None, stride: Sizes, padding: Sizes, dilation: Sizes,
    transposed: bool, output_padding: Sizes, groups: int,
) -> Tensor:  # fmt: skip
    """Return the convolution, or transposed convolution, of [n, c, ...] or [c, ...], summed in a wider type."""
    spatial = weight.rank - 2
    is_batched = input.rank == spatial + 2
    x = input if is_batched else shapes.expand_dims(b, input, [0])
    window = window_of(b, spatial, stride, padding, dilation)
    inner = normalization.wide(x.dtype)
    if transposed:
        extra = _static_per_axis(b, "output padding", output_padding, spatial)
        result = convolutions.transposed_convolution(
            b, x, weight, window, groups=groups, output_padding=extra, dtype=inner
        )
    else:
        result = convolutions.convolution(b, x, weight, window, groups=groups, dtype=inner)
    if bias is not None:
        result = ew.binary(b, "add", result, _channels(b, ew.convert(b, bias, inner), result.rank))
    result = ew.convert(b, result, x.dtype)
    return result if is_batched else shapes.squeeze(b, result, [0])


def _channels(b: Builder, vector: Tensor, rank: int) -> Tensor:
    """Reshape a vector so that it broadcasts along the channel axis of a tensor [n, c, ...] of a given rank."""
    channels = normalization.along(b, vector, 1, rank)
    assert channels is not None
    return channels


def conv(
    b: Builder, input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Sizes = (1,),
    padding: Sizes | str = (0,), dilation: Sizes = (1,), groups: int = 1,
) -> Tensor:  # fmt: skip
    """Return a convolution, whose padding may be "same" or "valid"."""
    if not isinstance(padding, str):
        return convolution(
            b, input, weight, bias, stride, padding, dilation, transposed=False, output_padding=(0,), groups=groups
        )
    spatial = weight.rank - 2
    x, dilations = input, _static_per_axis(b, "dilations", dilation, spatial)
    if padding == "same":
        total = [step * (k - 1) for step, k in zip(dilations, weight.shape[2:], strict=True)]
        lead = [0] * (x.rank - spatial)
        x = shapes.pad(b, x, [*lead, *(n // 2 for n in total)], [*lead, *(n - n // 2 for n in total)])
    return convolution(b, x, weight, bias, stride, (0,), dilation, transposed=False, output_padding=(0,), groups=groups)


def conv_transpose(
    b: Builder,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = (1,),
    padding: Sizes = (0,),
    output_padding: Sizes = (0,),
    groups: int = 1,
    dilation: Sizes = (1,),
) -> Tensor:
    return convolution(
        b,
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


def _convolution(
    b: Builder, input: Tensor, weight: Tensor, bias: Tensor | None, stride: Sizes, padding: Sizes, dilation: Sizes,
    transposed: bool, output_padding: Sizes, groups: int, benchmark: bool = False, deterministic: bool = False,
    cudnn_enabled: bool = True, allow_tf32: bool = True,
) -> Tensor:  # fmt: skip
    return convolution(b, input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)


def conv_tbc(b: Builder, self: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    """Return the convolution over time of [time, batch, channels] by filters [kernel, channels, filters]."""
    x, filters = shapes.transpose(b, self, [1, 2, 0]), shapes.transpose(b, weight, [2, 1, 0])
    result = convolution(b, x, filters, bias, (1,), (pad,), (1,), transposed=False, output_padding=(0,), groups=1)
    return shapes.transpose(b, result, [2, 0, 1])


PRODUCTS: dict[str, Conversion] = {
    "aten.matmul": matmul,
    "aten.mm": matmul_mat2,
    "aten.bmm": matmul_mat2,
    "aten.mv": matmul_vec,
    "aten.dot": dot,
    "aten.addmm": addmm,
    "aten.addbmm": addbmm,
    "aten.baddbmm": baddbmm,
    "aten._int_mm": int_mm,
    "aten._scaled_mm": scaled_mm,
    "aten.addmv": addmv,
    "aten.linear": linear,
    "aten.outer": outer,
    "aten.ger": outer,
    "aten.einsum": einsum,
    "aten.bilinear": bilinear,
    "aten.convolution": convolution,
    "aten._convolution": _convolution,
    "aten.conv_tbc": conv_tbc,
    **{f"aten.conv{n}d": conv for n in (1, 2, 3)},
    **{f"aten.conv_transpose{n}d": conv_transpose for n in (1, 2, 3)},
    "aten._trilinear": trilinear,
    "aten.cdist": distances,
    "aten._cdist_forward": distances,
    "aten.pdist": distances_of_pairs,
    "aten._pdist_forward": distances_of_pairs,
}
