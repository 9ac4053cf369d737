"""Networks that make or take images: convolutions, and generative networks."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from architectures import IMAGE, LABELS, add
from torch import Tensor, nn


def conv(inputs: int, outputs: int, kernel: int = 3, stride: int = 1, **options: Any) -> nn.Sequential:
    """A convolution, batch normalization and an activation."""
    activation = options.pop("activation", nn.ReLU)
    padding = options.pop("padding", kernel // 2)
    layer = nn.Conv2d(inputs, outputs, kernel, stride, padding, bias=False, **options)
    return nn.Sequential(layer, nn.BatchNorm2d(outputs), activation())


def head(channels: int, classes: int = 4) -> nn.Sequential:
    """The mean over an image, and a linear classifier."""
    return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))


# -- networks of convolutions


class Residual(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int = 1, groups: int = 1) -> None:
        super().__init__()
        self.body = nn.Sequential(conv(inputs, outputs, 3, stride), nn.Conv2d(outputs, outputs, 3, 1, 1, groups=groups),
                                  nn.BatchNorm2d(outputs))  # fmt: skip
        self.skip = nn.Conv2d(inputs, outputs, 1, stride) if stride > 1 or inputs != outputs else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.body(x) + self.skip(x))


class SqueezeExcite(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.down, self.up = nn.Conv2d(channels, 2, 1), nn.Conv2d(2, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.sigmoid(self.up(F.silu(self.down(x.mean((2, 3), keepdim=True)))))


class InvertedResidual(nn.Module):
    def __init__(self, channels: int, activation: type[nn.Module], excite: bool) -> None:
        super().__init__()
        wide = channels * 2
        self.body = nn.Sequential(
            conv(channels, wide, 1, activation=activation), conv(wide, wide, 3, groups=wide, activation=activation),
            SqueezeExcite(wide) if excite else nn.Identity(), nn.Conv2d(wide, channels, 1, bias=False),
            nn.BatchNorm2d(channels),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        return x + self.body(x)


@add("ResNet", IMAGE, target=LABELS)
def resnet() -> nn.Module:
    stem = nn.Sequential(conv(3, 4, 7, 2), nn.MaxPool2d(3, 2, 1))
    return nn.Sequential(stem, Residual(4, 4), Residual(4, 8, 2), head(8))


@add("RegNet", IMAGE, target=LABELS)
def regnet() -> nn.Module:
    return nn.Sequential(conv(3, 8, 3, 2), Residual(8, 8, groups=4), SqueezeExcite(8), Residual(8, 8, 2, 2), head(8))


@add("VGG", IMAGE, target=LABELS)
def vgg() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 8, 3, padding=1), nn.ReLU(),
        nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(3), nn.Flatten(), nn.Linear(72, 16), nn.ReLU(), nn.Linear(16, 4),
    )  # fmt: skip


@add("MobileNet", IMAGE, target=LABELS)
def mobilenet() -> nn.Module:
    return nn.Sequential(conv(3, 4, 3, 2, activation=nn.ReLU6), InvertedResidual(4, nn.ReLU6, False),
                         InvertedResidual(4, nn.Hardswish, False), head(4))  # fmt: skip


@add("EfficientNet", IMAGE, target=LABELS)
def efficientnet() -> nn.Module:
    return nn.Sequential(conv(3, 4, 3, 2, activation=nn.SiLU), InvertedResidual(4, nn.SiLU, True), head(4))


@add("DenseNet", IMAGE, target=LABELS)
class DenseNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 3, 2, 1)
        self.layers = nn.ModuleList(
            nn.Sequential(nn.BatchNorm2d(4 + 2 * n), nn.ReLU(), nn.Conv2d(4 + 2 * n, 2, 3, padding=1)) for n in range(3)
        )
        self.transition = nn.Sequential(conv(10, 5, 1), nn.AvgPool2d(2), head(5))

    def forward(self, x: Tensor) -> Any:
        x = self.stem(x)
        for layer in self.layers:
            x = torch.cat([x, layer(x)], 1)
        return self.transition(x)


@add("Inception", IMAGE, target=LABELS)
class Inception(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        pooled = nn.Sequential(nn.MaxPool2d(3, 1, 1), conv(3, 2, 1))
        self.branches = nn.ModuleList(
            [
                conv(3, 2, 1),
                nn.Sequential(conv(3, 2, 1), conv(2, 3, 5)),
                pooled,
                nn.Sequential(nn.AvgPool2d(3, 1, 1, count_include_pad=False), conv(3, 2, 1)),
            ]
        )
        self.head = head(9)

    def forward(self, x: Tensor) -> Any:
        return self.head(torch.cat([branch(x) for branch in self.branches], 1))


@add("SqueezeNet", IMAGE, target=LABELS)
class SqueezeNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 4, 3, 2), nn.ReLU(), nn.MaxPool2d(3, 2, ceil_mode=True))
        self.squeeze, self.one, self.three = nn.Conv2d(4, 2, 1), nn.Conv2d(2, 4, 1), nn.Conv2d(2, 4, 3, padding=1)
        self.last = nn.Conv2d(8, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.squeeze(self.stem(x)))
        x = torch.cat([F.relu(self.one(x)), F.relu(self.three(x))], 1)
        return F.relu(self.last(x)).mean((2, 3))


@add("ShuffleNet", IMAGE, target=LABELS)
class ShuffleNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = conv(3, 8, 3, 2)
        self.branch = nn.Sequential(conv(4, 4, 1), nn.Conv2d(4, 4, 3, padding=1, groups=4), conv(4, 4, 1))
        self.grouped, self.head = nn.Conv2d(8, 8, 1, groups=2), head(8)

    def forward(self, x: Tensor) -> Any:
        left, right = self.stem(x).chunk(2, 1)
        x = F.channel_shuffle(torch.cat([left, self.branch(right)], 1), 2)
        return self.head(F.channel_shuffle(self.grouped(x), 4))


@add("ConvNeXt", IMAGE, target=LABELS)
class ConvNeXt(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patches, self.depthwise = nn.Conv2d(3, 8, 4, 4), nn.Conv2d(8, 8, 7, padding=3, groups=8)
        self.norm, self.up, self.down = nn.LayerNorm(8), nn.Linear(8, 16), nn.Linear(16, 8)
        self.scale, self.head = nn.Parameter(torch.full((8,), 0.1)), head(8)

    def forward(self, x: Tensor) -> Any:
        x = self.patches(x)
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        y = self.scale * self.down(F.gelu(self.up(y)))
        return self.head(x + y.permute(0, 3, 1, 2))


@add("U-Net", IMAGE, target=(4, 2, 16, 16))
class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down, self.middle = conv(3, 4), conv(4, 8)
        self.up, self.smooth = nn.ConvTranspose2d(8, 4, 2, 2), nn.Conv2d(8, 8, 3, padding=1)
        self.last = nn.Conv2d(12, 2, 1)

    def forward(self, x: Tensor) -> Any:
        wide = self.down(x)
        low = self.middle(F.max_pool2d(wide, 2))
        resized = F.interpolate(self.smooth(low), scale_factor=2, mode="bilinear", align_corners=False)
        return self.last(torch.cat([wide, self.up(low), resized[:, :4]], 1))


@add("temporal convolutions", torch.randn(2, 3, 20), target=(2, 4, 20))
class WaveNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.utils.parametrizations.weight_norm(nn.Conv1d(3, 4, 1))
        self.gates = nn.ModuleList(nn.Conv1d(4, 8, 2, dilation=2**n) for n in range(3))
        self.skips = nn.ModuleList(nn.Conv1d(4, 4, 1) for _ in range(3))

    def forward(self, x: Tensor) -> Any:
        x, total = self.first(x), torch.zeros(())
        for n, (gate, skip) in enumerate(zip(self.gates, self.skips, strict=True)):
            value, opened = gate(F.pad(x, (2**n, 0))).chunk(2, 1)
            made = torch.tanh(value) * torch.sigmoid(opened)
            x, total = x + made, total + skip(made)
        return F.relu(total)


# -- generative networks


@add("variational autoencoder", torch.rand(3, 1, 8, 8), torch.randn(3, 4), target=(3, 1, 8, 8))
class Autoencoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encode = nn.Sequential(nn.Conv2d(1, 4, 3, 2, 1), nn.ELU(), nn.Flatten(), nn.Linear(64, 8))
        self.decode = nn.Sequential(nn.Linear(4, 64), nn.Unflatten(1, (4, 4, 4)), nn.ELU(),
                                    nn.ConvTranspose2d(4, 1, 3, 2, 1, output_padding=1))  # fmt: skip

    def forward(self, x: Tensor, noise: Tensor) -> Any:
        mean, log_variance = self.encode(x).chunk(2, 1)
        divergence = -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).sum(1).mean()
        made = self.decode(mean + torch.exp(0.5 * log_variance) * noise)
        return torch.sigmoid(made) + 0.1 * divergence


@add("GAN generator", torch.randn(3, 5), target=(3, 3, 8, 8))
def generator() -> nn.Module:
    return nn.Sequential(
        nn.Unflatten(1, (5, 1, 1)), nn.ConvTranspose2d(5, 8, 4, 1, 0, bias=False), nn.BatchNorm2d(8), nn.ReLU(),
        nn.ConvTranspose2d(8, 3, 4, 2, 1, bias=False), nn.Tanh(),
    )  # fmt: skip


@add("GAN discriminator", IMAGE, target=(4, 1))
def discriminator() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 4, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(4, 8, 4, 2, 1), nn.InstanceNorm2d(8, affine=True),
        nn.LeakyReLU(0.2), nn.Conv2d(8, 1, 4), nn.Flatten(),
    )  # fmt: skip


@add("diffusion block", torch.randn(2, 4, 8, 8), torch.tensor([3, 70]), target=(2, 4, 8, 8))
class Diffusion(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.time, self.norm1, self.norm2 = nn.Linear(8, 8), nn.GroupNorm(2, 4), nn.GroupNorm(4, 8)
        self.first, self.second = nn.Conv2d(4, 8, 3, padding=1), nn.Conv2d(8, 4, 3, padding=1)
        self.qkv, self.out = nn.Conv2d(4, 12, 1), nn.Conv2d(4, 4, 1)

    def forward(self, x: Tensor, step: Tensor) -> Any:
        angles = step[:, None] * torch.exp(torch.arange(4) * (-math.log(10000) / 4))
        time = F.silu(self.time(torch.cat([angles.sin(), angles.cos()], 1)))
        y = self.first(F.silu(self.norm1(x))) + time[:, :, None, None]
        x = x + self.second(F.silu(self.norm2(y)))
        q, k, v = self.qkv(x).flatten(2).transpose(1, 2).chunk(3, 2)
        seen = F.scaled_dot_product_attention(q, k, v)
        return x + self.out(seen.transpose(1, 2).reshape(x.shape))


@add("normalizing flow", torch.randn(6, 4), target=(6,))
class Flow(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.nets = nn.ModuleList(nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 4)) for _ in range(2))
        self.mix = nn.Parameter(torch.eye(4) + 0.1 * torch.randn(4, 4))

    def forward(self, x: Tensor) -> Tensor:
        total = torch.zeros(x.shape[0])
        for net in self.nets:
            known, moved = x.chunk(2, 1)
            scale, shift = net(known).chunk(2, 1)
            scale = torch.tanh(scale)
            x = torch.cat([moved * scale.exp() + shift, known], 1)
            total = total + scale.sum(1)
        x = x @ self.mix
        return total - 0.5 * (x.square() + math.log(2 * math.pi)).sum(1)
