"""Conversions of batch, layer, group and instance normalization."""

from __future__ import annotations

from collections.abc import Sequence

from pydispatch.frontends.torch.memory import TensorMemory
from pydispatch.frontends.torch.registry import converts
from pydispatch.frontends.torch.trace import Saved
from pydispatch.graph.builder import Builder
from pydispatch.graph.sizes import Size
from pydispatch.graph.values import Tensor
from pydispatch.operations import elementwise as ew
from pydispatch.operations import normalization, reductions, shapes
from pydispatch.operations.formulas import formula

Sizes = Sequence[Size]
Normalized = tuple[Tensor, Saved, Saved]
"""A normalized tensor, and the mean and 1 / sqrt(variance + epsilon), which its gradients need."""


def _with_saved_statistics(normalized: Tensor, mean: Tensor, inverse_deviation: Tensor) -> Normalized:
    """Mark the mean and the inverse deviation as results that PyTorch saves for gradients.

    Their element type depends on the device of the model, so the tracer converts them to the type in the file.
    """
    return normalized, Saved(mean), Saved(inverse_deviation)


def _last_axes(builder: Builder, x: Tensor, shape: Sizes) -> range:
    """Return the axes of x that `normalized_shape` covers: as many as it has sizes, at the end."""
    if len(shape) > x.rank or not shape:
        raise builder.fail(f"{x} cannot be normalized over axes of the sizes {list(shape)}")
    return range(x.rank - len(shape), x.rank)


@converts("aten.native_layer_norm")
def native_layer_norm(
    builder: Builder, input: Tensor, normalized_shape: Sizes, weight: Tensor | None, bias: Tensor | None, eps: float
) -> Normalized:
    """Return (input - mean) * inverse * weight + bias, the mean, and inverse = 1 / sqrt(variance + eps).

    Mean and variance are taken over the last axes, as many as `normalized_shape` has sizes.
    """
    axes = _last_axes(builder, input, normalized_shape)
    return _with_saved_statistics(*normalization.layer_norm(builder, input, axes, weight, bias, eps))


@converts("aten.layer_norm")
def layer_norm(
    builder: Builder, input: Tensor, normalized_shape: Sizes, weight: Tensor | None = None, bias: Tensor | None = None,
    eps: float = 1e-5, cudnn_enable: bool = True,
) -> Tensor:  # fmt: skip
    """Normalize over the last axes, as many as `normalized_shape` has sizes. `cudnn_enable` has no effect."""
    return native_layer_norm(builder, input, normalized_shape, weight, bias, eps)[0]


_EPSILONS = {"f16": 2.0**-10, "bf16": 2.0**-7, "f32": 2.0**-23, "f64": 2.0**-52}
"""Machine epsilon of each float: the distance from 1 to the next larger number."""


@converts("aten.rms_norm")
def rms_norm(
    builder: Builder, input: Tensor, normalized_shape: Sizes, weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """Return input / sqrt(mean of squares + eps) * weight.

    The mean is taken over the last axes, as many as `normalized_shape` has sizes.
    The default of `eps` is the machine epsilon of the type in which the mean is computed.
    """
    epsilon = _EPSILONS[normalization.wide(input.dtype).name] if eps is None else eps
    return normalization.rms_norm(builder, input, _last_axes(builder, input, normalized_shape), weight, epsilon)


@converts("aten.native_group_norm")
def native_group_norm(
    builder: Builder, input: Tensor, weight: Tensor | None, bias: Tensor | None, N: Size, C: Size, HxW: Size,  # noqa: N803
    group: int, eps: float,
) -> Normalized:  # fmt: skip
    """Return (input - mean) * inverse * weight + bias, the mean, and inverse = 1 / sqrt(variance + eps).

    Mean and inverse are those of each of `group` groups of adjacent channels, [N, group].
    N, C and HxW repeat sizes of `input`, and are not read.
    """
    return _with_saved_statistics(*normalization.group_norm(builder, input, group, weight, bias, eps))


@converts("aten.group_norm")
def group_norm(
    builder: Builder, input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None,
    eps: float = 1e-5, cudnn_enabled: bool = True,
) -> Tensor:  # fmt: skip
    """Normalize each of `num_groups` groups of adjacent channels. `cudnn_enabled` has no effect."""
    return normalization.group_norm(builder, input, num_groups, weight, bias, eps)[0]


@converts("aten.instance_norm")
def instance_norm(
    builder: Builder, input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: TensorMemory | None,
    running_var: TensorMemory | None, use_input_stats: bool, momentum: float, eps: float, cudnn_enabled: bool,
) -> Tensor:  # fmt: skip
    """Normalize each channel of each batch element of `input` [batch, channels, ...].

    With `use_input_stats`, each channel of each batch element is normalized by its own mean and variance. Running
    statistics [channels] that are passed are updated in place by the averages of these means and variances over the
    batch. Without `use_input_stats`, channels are normalized by the running statistics.

    momentum: weight of the batch in the updated running statistics. `cudnn_enabled` has no effect.

    Raise CompileError if the running statistics are needed but not passed.
    """
    if not use_input_stats:
        if running_mean is None or running_var is None:
            raise builder.fail(
                "instance normalization without statistics of the input needs a running mean and variance"
            )
        return normalization.batch_norm(
            builder, input, axis=1, mean=running_mean.tensor, variance=running_var.tensor, scale=weight, bias=bias,
            epsilon=eps,
        )  # fmt: skip
    axes = range(2, input.rank)
    mean, variance = normalization.moments(builder, input, axes)  # [batch, channels, 1...]
    memory = (running_mean, running_var)
    # Averages over the batch, [channels]. Reducing axis 0 removes it, so that the axis d of size 1 becomes d - 1.
    averages = [
        shapes.squeeze(builder, reductions.mean(builder, v, [0]), [d - 1 for d in axes]) for v in (mean, variance)
    ]
    running = [m.tensor if m is not None else None for m in memory]
    _write(builder, memory, _updated_statistics(builder, running, averages, reductions.count(input, axes), momentum))
    vectors = [normalization.along(builder, v, axis=1, rank=input.rank) for v in (weight, bias)]
    return normalization.normalized(builder, input, mean, variance, vectors[0], vectors[1], eps)


def _updated_statistics(
    builder: Builder, running: Sequence[Tensor | None], statistics: Sequence[Tensor], count: Size, momentum: float
) -> list[Tensor | None]:
    """Return the updated running mean and variance; None for one that is not tracked.

    Args:
        builder: Receives the operations.
        running: The running mean and variance; None for one that is not tracked.
        statistics: The mean and the variance of the batch, divided by `count`.
        count: Number of elements of a mean.
        momentum: Weight of the batch in the update.
    """
    mean, variance = statistics
    # `variance` is the sum of squared deviations divided by count; the running variance divides that sum by count - 1.
    n = reductions.size_as(builder, count, variance.dtype)
    unbiased = formula(builder, lambda v, k: v * (k / (k - 1.0)), variance, n)
    return [
        formula(builder, lambda old, now: old.to(now.dtype) * (1.0 - momentum) + now * momentum, old, now)
        if old is not None else None
        for old, now in zip(running, (mean, unbiased), strict=True)
    ]  # fmt: skip


def _write(builder: Builder, memory: Sequence[TensorMemory | None], updated: Sequence[Tensor | None]) -> None:
    """Write updated running statistics into their memory, except those that are not tracked."""
    for statistic, tensor in zip(memory, updated, strict=True):
        if statistic is not None and tensor is not None:
            statistic.write(ew.convert(builder, tensor, statistic.tensor.dtype))


# -- over batches


def _normalize_by_batch(
    builder: Builder, x: Tensor, weight: Tensor | None, bias: Tensor | None, momentum: float, eps: float,
    running: Sequence[Tensor | None],
) -> tuple[Normalized, list[Tensor | None]]:  # fmt: skip
    """Normalize each channel (axis 1) of x by the mean and variance of the batch.

    Return (normalized x, mean, 1 / sqrt(variance + eps)), of which PyTorch saves the last two for gradients; and the
    updated running mean and variance.

    momentum: weight of the batch in the update. running: the running mean and variance; one that is not tracked is
    None, and so is its update.
    """
    axes = [d for d in range(x.rank) if d != 1]
    mean, variance = (shapes.squeeze(builder, m, axes) for m in normalization.moments(builder, x, axes))
    normalized = normalization.batch_norm(
        builder, x, axis=1, mean=mean, variance=variance, scale=weight, bias=bias, epsilon=eps
    )
    updated = _updated_statistics(builder, running, (mean, variance), reductions.count(x, axes), momentum)
    return _with_saved_statistics(
        normalized, mean, formula(builder, lambda v: (v + eps).unary("rsqrt"), variance)
    ), updated


@converts("aten.batch_norm")
def batch_norm(
    builder: Builder, input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: TensorMemory | None,
    running_var: TensorMemory | None, training: bool, momentum: float, eps: float, cudnn_enabled: bool = True,
) -> Tensor:  # fmt: skip
    """Normalize each channel: see `_batch_norm`, which also returns statistics. `cudnn_enabled` has no effect."""
    return _batch_norm(builder, input, weight, bias, running_mean, running_var, training, momentum, eps)[0]


@converts("aten.native_batch_norm", "aten._native_batch_norm_legit")
def _batch_norm(
    builder: Builder, input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: TensorMemory | None,
    running_var: TensorMemory | None, training: bool, momentum: float, eps: float,
) -> Normalized:  # fmt: skip
    """Normalize each channel: by the statistics of the batch if `training`, else by the running statistics.

    In training, the running statistics that are passed are updated in place.

    Return the result, and the mean and inverse deviation of the batch that PyTorch saves for gradients; outside of
    training these two are empty. momentum: weight of the batch in the updated running statistics.

    Raise CompileError if the running statistics are needed but not passed.
    """
    memory = (running_mean, running_var)
    if not training:
        if running_mean is None or running_var is None:
            raise builder.fail("batch normalization outside of training has no running statistics")
        return _batch_norm_inference(
            builder, input, weight, bias, running_mean.tensor, running_var.tensor, momentum, eps
        )
    running = [m.tensor if m is not None else None for m in memory]
    saved, updated = _normalize_by_batch(builder, input, weight, bias, momentum, eps, running)
    _write(builder, memory, updated)
    return saved


@converts("aten._native_batch_norm_legit_no_training")
def _batch_norm_inference(
    builder: Builder,
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor,
    running_var: Tensor,
    momentum: float,
    eps: float,
) -> Normalized:
    """Normalize each channel by the running statistics.

    Return the result and two empty vectors. They take the place of the mean and the inverse deviation, which PyTorch
    saves for gradients in training only: on CPUs its vectors are empty here too. `momentum` has no effect.
    """
    normalized = normalization.batch_norm(
        builder, input, axis=1, mean=running_mean, variance=running_var, scale=weight, bias=bias, epsilon=eps
    )
    empty = builder.constant([], input.dtype)
    return _with_saved_statistics(normalized, mean=empty, inverse_deviation=empty)


@converts("aten._native_batch_norm_legit_functional")
def _batch_norm_functional(
    builder: Builder,
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor,
    running_var: Tensor,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Tensor | Saved, ...]:
    """Normalize each channel, by the statistics of the batch if `training`, else by the running statistics.

    Return five tensors: the result, the mean and the inverse deviation that PyTorch saves for the gradient, and the
    running mean and variance. In training the last two are updated: they are new tensors, no argument is written.

    momentum: weight of the batch in the updated running statistics.
    """
    if not training:
        normalized = _batch_norm_inference(builder, input, weight, bias, running_mean, running_var, momentum, eps)
        return (*normalized, running_mean, running_var)
    running = (running_mean, running_var)
    saved, updated = _normalize_by_batch(builder, input, weight, bias, momentum, eps, running)
    # A `Saved` is converted to the type that the exported program states, which depends on the device of the model.
    # No update is None, because both statistics are passed.
    return (*saved, *(Saved(statistic) for statistic in updated if statistic is not None))


@converts("aten._native_batch_norm_legit.no_stats")
def _batch_norm_without_running(
    builder: Builder,
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> Normalized:
    """Normalize each channel by the statistics of the batch, whatever `training` is: there are no running ones."""
    results, _no_updates = _normalize_by_batch(builder, input, weight, bias, momentum, eps, running=(None, None))
    return results
