"""Functions whose gradients `test_torch_gradients.py` compares with those of PyTorch."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {}
"""Name -> a function or module, and its arguments. Float tensors among them and parameters have gradients."""


def add(name: str, function: Callable[..., Any], *args: Any) -> None:
    CASES[name] = function, args


torch.manual_seed(0)
LINE, IMAGE, VOLUME = torch.randn(2, 4, 9), torch.randn(2, 4, 9, 8), torch.randn(2, 2, 5, 6, 5)

# -- convolutions
add("convolution", nn.Conv2d(4, 6, 3, padding=1), IMAGE)
add("convolution without a bias", nn.Conv2d(4, 6, 3, bias=False), IMAGE)
add("strided convolution, whose windows leave elements out", nn.Conv2d(4, 6, 3, stride=(3, 2)), IMAGE)
add("dilated convolution", nn.Conv2d(4, 6, (3, 2), stride=2, padding=(2, 1), dilation=2), IMAGE)
add("convolution in groups", nn.Conv2d(4, 6, 3, stride=2, padding=1, groups=2), IMAGE)
add("depthwise convolution", nn.Conv2d(4, 8, 3, padding=1, dilation=2, groups=4), IMAGE)
add("convolution with padding same", nn.Conv2d(4, 2, (2, 4), padding="same"), IMAGE)
add("convolution of one image", nn.Conv2d(4, 6, 3), IMAGE[0])
add("convolution over a line", nn.Conv1d(4, 3, 4, stride=2, padding=3), LINE)
add("convolution over a volume", nn.Conv3d(2, 3, (2, 3, 2), stride=(1, 2, 1), padding=(0, 1, 1)), VOLUME)
add("transposed convolution", nn.ConvTranspose2d(4, 3, 3, padding=1), IMAGE)
add("transposed convolution, strided, in groups",
    nn.ConvTranspose2d(4, 6, (3, 2), stride=2, padding=1, output_padding=1, dilation=(1, 2), groups=2), IMAGE)
add("transposed convolution with more padding than stride",
    nn.ConvTranspose1d(4, 3, 3, stride=1, output_padding=2, dilation=3), LINE)
add("transposed convolution over a volume", nn.ConvTranspose3d(2, 2, 2, stride=2), VOLUME)

# -- pooling
for dims, x in ((1, LINE), (2, IMAGE), (3, VOLUME)):
    max_pool, avg_pool = getattr(F, f"max_pool{dims}d"), getattr(F, f"avg_pool{dims}d")
    adaptive_avg, adaptive_max = getattr(F, f"adaptive_avg_pool{dims}d"), getattr(F, f"adaptive_max_pool{dims}d")
    add(f"max_pool{dims}d", lambda x, f=max_pool: f(x, 2), x)
    add(f"max_pool{dims}d, windows that overlap", lambda x, f=max_pool: f(x, 3, 2, 1), x)
    add(f"max_pool{dims}d, dilated, rounded up", lambda x, f=max_pool: f(x, 2, 2, 1, dilation=2, ceil_mode=True), x)
    add(f"max_pool{dims}d with places", lambda x, f=max_pool: f(x, 3, 2, return_indices=True), x)
    add(f"avg_pool{dims}d", lambda x, f=avg_pool: f(x, 3, 2, 1), x)
    add(f"avg_pool{dims}d, rounded up, padding not counted",
        lambda x, f=avg_pool: f(x, 3, 2, 1, ceil_mode=True, count_include_pad=False), x)
    for size in (1, 2, 3, 4, 7):
        add(f"adaptive_avg_pool{dims}d to {size}", lambda x, f=adaptive_avg, n=size: f(x, n), x)
        add(f"adaptive_max_pool{dims}d to {size}", lambda x, f=adaptive_max, n=size: f(x, n), x)
add("max_pool2d of equal elements", lambda x: F.max_pool2d((x * 0).relu() + x.detach().round(), 3, 1), IMAGE)
add("max_pool2d of one image", lambda x: F.max_pool2d(x, 2), IMAGE[0])
add("avg_pool2d with a divisor", lambda x: F.avg_pool2d(x, (2, 3), (2, 1), divisor_override=5), IMAGE)
add("max_unpool2d", lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2), IMAGE)
add("lp_pool2d", lambda x: F.lp_pool2d(x.abs() + 0.1, 2.0, 2), IMAGE)

# -- normalization, in types whose statistics PyTorch stores in other ones
for dtype in (torch.float32, torch.bfloat16, torch.float16):
    for name, layer in (("layer", nn.LayerNorm(8)), ("group", nn.GroupNorm(2, 4)), ("RMS", nn.RMSNorm(8)),
                        ("instance", nn.InstanceNorm2d(4)), ("batch", nn.BatchNorm2d(4)),
                        ("instance, with state", nn.InstanceNorm2d(4, affine=True, track_running_stats=True)),
                        ("batch, in inference", nn.BatchNorm2d(4).eval())):
        add(f"normalization: {name}, {dtype}", copy.deepcopy(layer).to(dtype), IMAGE.to(dtype))
    if dtype != torch.float32:
        add(f"normalization: layer, {dtype} with weights in float32", nn.LayerNorm(8), IMAGE[0, 0, :2].to(dtype))
        add(f"normalization: batch, {dtype} with weights in float32", nn.BatchNorm2d(4), IMAGE.to(dtype))
