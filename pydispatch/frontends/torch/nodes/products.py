"""Sums of products: matrix products, linear layers, convolutions."""

from __future__ import annotations

from collections.abc import Sequence

from pydispatch.frontends.graph.sizes import Expr, Size
from pydispatch.frontends.graph.values import Tensor
from pydispatch.frontends.ops import attention as att
from pydispatch.frontends.ops import elementwise as ew
from pydispatch.frontends.ops import normalization, products, shapes
from pydispatch.frontends.torch.promotion import Number, as_tensor
from pydispatch.frontends.torch.trace import Conversion, Tracer

Sizes = Sequence[Size]
Ints = Sequence[int]
Tensors = Sequence[Tensor]


def matmul(t: Tracer, self: Tensor, other: Tensor) -> Tensor:
    return products.matmul(t.b, self, other)


def matmul_as(t: Tracer, self: Tensor, mat2: Tensor) -> Tensor:
    return products.matmul(t.b, self, mat2)


def by_vector(t: Tracer, self: Tensor, vec: Tensor) -> Tensor:
    return products.matmul(t.b, self, vec)


def dot(t: Tracer, self: Tensor, tensor: Tensor) -> Tensor:
    return products.matmul(t.b, self, tensor)


def _plus(t: Tracer, x: Tensor, scale: Number, product: Tensor, product_scale: Number) -> Tensor:
    def scaled(tensor: Tensor, by: Number) -> Tensor:
        return tensor if by == 1 else ew.binary(t.b, "mul", tensor, as_tensor(t, by, tensor.dtype))

    product = scaled(product, product_scale)
    return product if scale == 0 else ew.binary(t.b, "add", scaled(x, scale), product)


def addmm(t: Tracer, self: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Number = 1, alpha: Number = 1) -> Tensor:
    return _plus(t, self, beta, products.matmul(t.b, mat1, mat2), alpha)


def addbmm(t: Tracer, self: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Number = 1, alpha: Number = 1) -> Tensor:
    return addmm(t, self, batch1, batch2, beta=beta, alpha=alpha)


def addmv(t: Tracer, self: Tensor, mat: Tensor, vec: Tensor, *, beta: Number = 1, alpha: Number = 1) -> Tensor:
    return addmm(t, self, mat, vec, beta=beta, alpha=alpha)


def linear(t: Tracer, input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    if weight.rank == 1:
        made = products.matmul(t.b, input, weight)
    else:
        made = products.dot_general(t.b, input, weight, [], [(input.rank - 1, 1)])
    return made if bias is None else ew.binary(t.b, "add", made, bias)


def outer(t: Tracer, self: Tensor, vec2: Tensor) -> Tensor:
    column = shapes.expand_dims(t.b, self, [1])
    return ew.binary(t.b, "mul", column, vec2)


def einsum(t: Tracer, equation: str, operands: Tensors, *, path: Ints | None = None) -> Tensor:
    return products.einsum(t.b, equation, *operands)


def bilinear(t: Tracer, input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    made = products.einsum(t.b, "...i,oij,...j->...o", input1, weight, input2)
    return made if bias is None else ew.binary(t.b, "add", made, bias)


# -- convolutions


def _each(values: Sizes, count: int) -> tuple[Size, ...]:
    """One entry for each axis; a single one stands for all."""
    return tuple(values) * count if len(values) == 1 else tuple(values)


def _numbers(t: Tracer, what: str, values: Sizes, count: int) -> tuple[int, ...]:
    found = _each(values, count)
    if any(isinstance(n, Expr) for n in found) or len(found) != count:
        raise t.b.fail(f"a convolution over {count} axes has the {what} {list(values)}")
    return tuple(int(n) for n in found)  # type: ignore[arg-type]


def convolution(
    t: Tracer, input: Tensor, weight: Tensor, bias: Tensor | None, stride: Sizes, padding: Sizes, dilation: Sizes,
    transposed: bool, output_padding: Sizes, groups: int,
) -> Tensor:  # fmt: skip
    spatial = weight.rank - 2
    batched = input.rank == spatial + 2
    x = input if batched else shapes.expand_dims(t.b, input, [0])
    around = _each(padding, spatial)
    window = products.Window(
        _numbers(t, "strides", stride, spatial), around, around, _numbers(t, "dilations", dilation, spatial)
    )
    inner = normalization.wide(x.dtype)
    if transposed:
        extra = _numbers(t, "output padding", output_padding, spatial)
        made = products.transposed_convolution(t.b, x, weight, window, groups=groups, output_padding=extra, dtype=inner)
    else:
        made = products.convolution(t.b, x, weight, window, groups=groups, dtype=inner)
    if bias is not None:
        made = ew.binary(t.b, "add", made, _channels(t, ew.convert(t.b, bias, inner), made.rank))
    made = ew.convert(t.b, made, x.dtype)
    return made if batched else shapes.squeeze(t.b, made, [0])


def _channels(t: Tracer, vector: Tensor, rank: int) -> Tensor:
    found = normalization.along(t.b, vector, 1, rank)
    assert found is not None
    return found


def conv(
    t: Tracer, input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Sizes = (1,),
    padding: Sizes | str = (0,), dilation: Sizes = (1,), groups: int = 1,
) -> Tensor:  # fmt: skip
    if not isinstance(padding, str):
        return convolution(t, input, weight, bias, stride, padding, dilation, False, (0,), groups)
    spatial = weight.rank - 2
    x, steps = input, _numbers(t, "dilations", dilation, spatial)
    if padding == "same":
        total = [step * (k - 1) for step, k in zip(steps, weight.shape[2:], strict=True)]
        lead = [0] * (x.rank - spatial)
        x = shapes.pad(t.b, x, [*lead, *(n // 2 for n in total)], [*lead, *(n - n // 2 for n in total)])
    return convolution(t, x, weight, bias, stride, (0,), dilation, False, (0,), groups)


def conv_transpose(
    t: Tracer, input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Sizes = (1,), padding: Sizes = (0,),
    output_padding: Sizes = (0,), groups: int = 1, dilation: Sizes = (1,),
) -> Tensor:  # fmt: skip
    return convolution(t, input, weight, bias, stride, padding, dilation, True, output_padding, groups)


# -- attention


def sdpa(
    t: Tracer, query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0,
    is_causal: bool = False, *, scale: float | None = None, enable_gqa: bool = False,
) -> Tensor:  # fmt: skip
    if dropout_p > 0:
        raise t.b.fail("attention with dropout needs random numbers", "export the model after `model.eval()`")
    return att.scaled_dot_product_attention(t.b, query, key, value, attn_mask, causal=is_causal, scale=scale)


def flash_for_cpu(
    t: Tracer, query: Tensor, key: Tensor, value: Tensor, dropout_p: float = 0.0, is_causal: bool = False, *,
    attn_mask: Tensor | None = None, scale: float | None = None,
) -> tuple[Tensor, None]:  # fmt: skip
    return sdpa(t, query, key, value, attn_mask, dropout_p, is_causal, scale=scale), None


PRODUCTS: dict[str, Conversion] = {
    "aten.matmul": matmul,
    "aten.mm": matmul_as,
    "aten.bmm": matmul_as,
    "aten.mv": by_vector,
    "aten.dot": dot,
    "aten.addmm": addmm,
    "aten.baddbmm": addbmm,
    "aten.addmv": addmv,
    "aten.linear": linear,
    "aten.outer": outer,
    "aten.ger": outer,
    "aten.einsum": einsum,
    "aten.bilinear": bilinear,
    "aten.convolution": convolution,
    **{f"aten.conv{n}d": conv for n in (1, 2, 3)},
    **{f"aten.conv_transpose{n}d": conv_transpose for n in (1, 2, 3)},
    "aten.scaled_dot_product_attention": sdpa,
    "aten._scaled_dot_product_flash_attention_for_cpu": flash_for_cpu,
}
