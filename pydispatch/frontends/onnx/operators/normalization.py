"""Conversions of normalizations and losses."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from pydispatch.frontends.onnx.call import NodeCall
from pydispatch.frontends.onnx.registry import ONNX
from pydispatch.frontends.onnx.tensors import dtype_of
from pydispatch.graph.dtypes import DTYPES, F32
from pydispatch.graph.sizes import Expr
from pydispatch.graph.values import Tensor
from pydispatch.operations import elementwise, indexing, normalization, reductions, shapes, slicing
from pydispatch.operations.formulas import Element, formula


@ONNX.converts("BatchNormalization")
def _batch_normalization(
    call: NodeCall, x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, variance: Tensor
) -> Sequence[Tensor]:
    """Normalize each channel by the mean and variance in the operands, or in training by those of the batch.

    scale, bias, mean and variance have one element per channel, axis 1 of x. In training (training_mode=1) the results
    are the normalized x, the running mean and the running variance: momentum * operand + (1 - momentum) * that of the
    batch. Otherwise the normalized x is the only result.
    """
    epsilon, momentum = call.real("epsilon", 1e-5), call.real("momentum", 0.9)
    call.ignore("spatial")  # of version 7; its value 0 is for means of a shape [c, ...], which are not supported
    if not (call.version >= 14 and call.flag("training_mode")):
        return [
            normalization.batch_norm(
                call.b, x, axis=1, mean=mean, variance=variance, scale=scale, bias=bias, epsilon=epsilon
            )
        ]
    axes = [d for d in range(x.rank) if d != 1]
    # `moments` keeps the reduced axes with size 1: [1, c, 1, 1] becomes [c].
    of_batch = [shapes.reshape(call.b, t, mean.shape) for t in normalization.moments(call.b, x, axes)]
    result = normalization.batch_norm(
        call.b, x, axis=1, mean=of_batch[0], variance=of_batch[1], scale=scale, bias=bias, epsilon=epsilon
    )
    running = [
        formula(call.b, lambda old, new: old * momentum + new.to(old.dtype) * (1.0 - momentum), old, new)
        for old, new in zip((mean, variance), of_batch, strict=True)
    ]
    return [result, *running]


@ONNX.converts("InstanceNormalization")
def _instance_normalization(call: NodeCall, x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    """Normalize each channel of each image of x [n, c, ...] by its own mean and variance."""
    vectors = [normalization.along(call.b, t, axis=1, rank=x.rank) for t in (scale, bias)]
    return normalization.layer_norm(call.b, x, range(2, x.rank), vectors[0], vectors[1], call.real("epsilon", 1e-5))[0]


@ONNX.converts("LayerNormalization")
def layer_normalization(call: NodeCall, x: Tensor, scale: Tensor, bias: Tensor | None = None) -> Sequence[Tensor]:
    """Return (x - mean) * inverse * scale + bias, the mean, and inverse = 1 / sqrt(variance + epsilon).

    Mean and variance are taken over the axes from the attribute `axis` to the last one. They are computed in f32, or in
    f64 if x is f64. The attribute `stash_type`, ONNX's type for them, must be f32 or f64, but does not change that.
    """
    axis = call.axis(call.integer("axis", -1), x.rank)
    inner = dtype_of(call.integer("stash_type", 1))
    if inner not in (F32, DTYPES["f64"]):
        raise call.fail(f"its stash_type is {inner}; supported are f32 (1) and f64 (11)")
    return normalization.layer_norm(call.b, x, range(axis, x.rank), scale, bias, call.real("epsilon", 1e-5))


@ONNX.converts("RMSNormalization")
def rms_normalization(call: NodeCall, x: Tensor, scale: Tensor) -> Tensor:
    """Divide by the root mean square over the axes from attribute `axis` to the last one; multiply by `scale`."""
    axis = call.axis(call.integer("axis", -1), x.rank)
    call.ignore("stash_type")
    return normalization.rms_norm(call.b, x, range(axis, x.rank), scale, call.real("epsilon", 1e-5))


@ONNX.converts("GroupNormalization")
def _group_normalization(call: NodeCall, x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    """Normalize each group of consecutive channels of x [n, c, ...] by its own mean and variance.

    Scale and bias have one element per group before version 21, and one per channel since version 21. With 6 channels
    and num_groups=2, channels 0 to 2 are one group, and channels 3 to 5 the other.
    """
    groups, epsilon = call.integer("num_groups"), call.real("epsilon", 1e-5)
    call.ignore("stash_type")  # type of the mean and variance: `group_norm` uses f32, or f64 for x in f64
    if call.version < 21:
        # Repeat the element of each group for its channels: [s0, s1] becomes [s0, s0, s0, s1, s1, s1].
        channels = x.shape[1]
        if isinstance(channels, Expr) or not groups or channels % groups:
            raise call.fail(f"{channels} channels are not {groups} groups")
        channels_per_group = channels // groups
        scale, bias = (
            shapes.reshape(
                call.b,
                shapes.broadcast_to(call.b, shapes.reshape(call.b, t, [groups, 1]), [groups, channels_per_group]),
                [channels],
            )
            for t in (scale, bias)
        )
    return normalization.group_norm(call.b, x, groups, scale, bias, epsilon)[0]


@ONNX.converts("MeanVarianceNormalization")
def _mean_variance(call: NodeCall, x: Tensor) -> Tensor:
    """Return (x - mean) / (standard deviation + 1e-9), with both taken over the axes of the attribute `axes`.

    By default these are axes 0, 2 and 3: all but the channels.
    """
    axes = call.axes(call.integers("axes", [0, 2, 3]), x.rank)
    mean, variance = normalization.moments(call.b, x, axes)
    return formula(
        call.b, lambda v, m, n: ((v.to(m.dtype) - m) / (n.unary("sqrt") + 1e-9)).to(x.dtype), x, mean, variance
    )


@ONNX.converts("LpNormalization")
def _lp_normalization(call: NodeCall, x: Tensor) -> Tensor:
    """Divide x by its p-norm along an axis; the result is 0 where the norm is 0."""
    axis = call.axis(call.integer("axis", -1), x.rank)
    norm = normalization.lp_norm(call.b, x, float(call.integer("p", 2)), [axis], keep=True)
    return formula(call.b, lambda v, n: n.is_equal(0.0).where(0.0, v / n), x, norm)


@ONNX.converts("LRN")
def _lrn(call: NodeCall, x: Tensor) -> Tensor:
    """Normalize each element by the squares of the elements in the channels around its own.

    The result is x / (bias + alpha / size * sum of these squares)^beta. The squares are those of `size` channels at the
    same position; channels that do not exist count as 0.
    """
    size, alpha, beta, bias = (
        call.integer("size"),
        call.real("alpha", 1e-4),
        call.real("beta", 0.75),
        call.real("bias", 1.0),
    )
    if not 1 <= size <= 1 << 12:  # each channel in the window adds a slice to the program
        raise call.fail(f"its size is {size}; expected 1 to {1 << 12} channels")
    squares = formula(call.b, lambda v: v * v, x)
    # Slice n of the padded squares has, for each channel, channel n of the window around it. Of an even size, one more
    # channel follows than precedes.
    low, high = [0] * x.rank, [0] * x.rank
    low[1], high[1] = (size - 1) // 2, size // 2
    padded = slicing.pad(call.b, squares, low, high, 0.0)
    parts = [slicing.slice_axis(call.b, padded, axis=1, start=n, limit=n + x.shape[1]) for n in range(size)]

    def normalized(value: Element, *around: Element) -> Element:
        """Return an element divided by (bias + alpha / size * sum of `around`, the squares around it)^beta."""
        total = around[0]
        for other in around[1:]:
            total = total + other
        return value / (total * (alpha / size) + bias).binary("pow", beta)

    return formula(call.b, normalized, x, *parts)


# -- losses


@ONNX.converts("NegativeLogLikelihoodLoss")
def _negative_log_likelihood(call: NodeCall, x: Tensor, target: Tensor, weight: Tensor | None = None) -> Tensor:
    """Return the loss, where x [n, c, ...] has the logarithms of likelihoods, target [n, ...] the right classes.

    It is minus the logarithm for the right class times the weight of this class, by default 1; 0 for the class
    `ignore_index`. With the reduction "mean" the sum is divided by the sum of the weights of the right classes.
    """
    # The logarithm for the right class at each position, and the weight of this class.
    reduction = call.text("reduction", "mean", ("mean", "sum", "none"))
    ignored = call.integer("ignore_index") if call.has("ignore_index") else None
    classes = x.shape[1]
    indexing.require_elements(call.b, x, axes=[1], shape=target.shape)
    # Classes are clamped to those of x: `ignore_index` may be none of them, such as -100, and is then weighted by 0.
    last = call.b.index(classes - 1)

    def coordinates(coords: indexing.CoordinateBuilder) -> list[SSAValue]:
        """Return the position of the likelihood of the right class, which is an element of `target`."""
        at = coords.clamped(coords.index_of(coords.elements[0]), last)
        return [coords.loop_index(0), at, *(coords.loop_index(d) for d in range(1, target.rank))]

    picked = indexing.elements_at(call.b, x, target.shape, coordinates, target)
    if weight is None:
        weights = elementwise.apply(call.b, lambda s, t: s.const(1.0, x.dtype), target)  # 1 for each target
    else:
        weights = indexing.elements_at(
            call.b, weight, target.shape, lambda p: [p.clamped(p.index_of(p.elements[0]), last)], target
        )
    if ignored is not None:
        weights = formula(call.b, lambda w, t: t.is_equal(ignored).where(0.0, w), weights, target)
    # The losses, and their reduction.
    losses = formula(call.b, lambda v, w: -(v * w), picked, weights)
    if reduction == "none":
        return losses
    total = reductions.reduce(call.b, "add", losses)
    if reduction == "sum":
        return total
    return elementwise.binary(call.b, "div", total, reductions.reduce(call.b, "add", weights))


@ONNX.converts("SoftmaxCrossEntropyLoss")
def _softmax_cross_entropy(call: NodeCall, x: Tensor, target: Tensor, weight: Tensor | None = None) -> list[Tensor]:
    """Return the negative log likelihood of the softmax of x [n, c, ...], and the logarithms of the softmax."""
    logarithms = normalization.log_softmax(call.b, x, axis=1)
    return [_negative_log_likelihood(call, logarithms, target, weight), logarithms]
