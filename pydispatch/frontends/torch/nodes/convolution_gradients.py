"""Conversion of the gradients of convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydispatch.frontends.torch.nodes.products import window_of
from pydispatch.frontends.torch.registry import converts
from pydispatch.graph.builder import Builder
from pydispatch.graph.sizes import Size
from pydispatch.graph.values import Tensor
from pydispatch.operations import convolutions, normalization, reductions, slicing
from pydispatch.operations import elementwise as ew

Sizes = Sequence[Size]


@converts("aten.convolution_backward")
def convolution_backward(
    builder: Builder, grad_output: Tensor, input: Tensor, weight: Tensor, bias_sizes: Sizes | None, stride: Sizes,
    padding: Sizes, dilation: Sizes, transposed: bool, output_padding: Sizes, groups: int, output_mask: Any,
) -> tuple[Tensor | None, ...]:  # fmt: skip
    """Return the gradients of the input, the filters and the bias; None for those that `output_mask` does not request.

    The gradient by the input of a convolution is a transposed convolution of `grad_output`; that of a transposed
    convolution is a convolution. The gradient of the bias is the sum of `grad_output` over all axes but the channels.

    Args:
        builder: The builder.
        grad_output: Gradient of the result, [n, f, spatial...].
        input: Operand of the convolution, [n, c, spatial...].
        weight: Filters, [f, c / groups, kernel...]; of a transposed convolution [c, f / groups, kernel...].
        bias_sizes: Shape of the bias; not read.
        stride, padding, dilation: As in the convolution, for each spatial axis.
        transposed: Whether the convolution was a transposed one.
        output_padding: As in the transposed convolution; not read.
        groups: Number of groups of channels.
        output_mask: Three bools: whether the gradients of the input, the filters and the bias are requested.
    """
    window = window_of(builder, weight.rank - 2, stride, padding, dilation)
    inner = normalization.wide(input.dtype)
    needs_input, needs_weight, needs_bias = output_mask
    gradients: list[Tensor | None] = [None, None, None]
    if needs_input and transposed:
        gradient = convolutions.convolution(builder, grad_output, weight, window, groups=groups, dtype=inner)
        # With output padding, one more window may fit in grad_output; its result belongs to no element of the input.
        gradients[0] = slicing.slice_(builder, gradient, [0] * gradient.rank, input.shape)
    elif needs_input:
        # The result of a transposed convolution ends with the last element that a window reads. Elements after it have
        # the gradient 0: they are added as output padding.
        unread = _unread_tail(input, weight, grad_output, window)
        gradients[0] = convolutions.transposed_convolution(
            builder, grad_output, weight, window, groups=groups, output_padding=unread, dtype=inner
        )
    if needs_weight:  # a transposed convolution exchanges the roles of the input and the gradient of the result
        x, grad = (grad_output, input) if transposed else (input, grad_output)
        gradients[1] = convolutions.filter_gradient(
            builder, x, grad, weight.shape[2:], window, groups=groups, dtype=inner
        )
    if needs_bias:
        axes = [d for d in range(grad_output.rank) if d != 1]
        gradients[2] = reductions.reduce(builder, "add", ew.convert(builder, grad_output, inner), axes)
    return tuple(gradient if gradient is None else ew.convert(builder, gradient, input.dtype) for gradient in gradients)


def _unread_tail(x: Tensor, weight: Tensor, grad: Tensor, window: convolutions.Window) -> list[Size]:
    """Return how many elements at the end of each padded axis of x no window of the convolution reads.

    The last window ends at (out - 1) * stride + (k - 1) * dilation; PyTorch pads both ends of an axis alike. An axis of
    6 without padding, with a kernel of 3 and the stride 2, has 2 windows, which read elements 0 to 4: 1 is unread.
    """
    axes = zip(x.shape[2:], weight.shape[2:], grad.shape[2:], window.low, window.strides, window.dilations, strict=True)
    return [n + 2 * low - (k - 1) * dilation - 1 - (out - 1) * stride for n, k, out, low, stride, dilation in axes]
