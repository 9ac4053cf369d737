"""Small networks of the kinds that people train: what `test_torch_architectures.py` trains for a step."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

Loss = Callable[[Any, Tensor], Tensor]


@dataclass(frozen=True)
class Architecture:
    """A network, its inputs, and the target of its loss. Classes are labels of cross entropy, other targets of MSE."""

    make: Callable[[], nn.Module]
    inputs: tuple[Tensor, ...]
    target: Tensor

    def loss(self, made: Tensor) -> Tensor:
        """Return the loss of a result of the network."""
        if self.target.is_floating_point():
            return F.mse_loss(made, self.target)
        return F.cross_entropy(made.flatten(0, -2), self.target.flatten())


ARCHITECTURES: dict[str, Architecture] = {}
torch.manual_seed(0)


def add(name: str, *inputs: Tensor, target: tuple[int, ...] | Tensor) -> Callable[[Any], Any]:
    """Register a class of networks. target: labels, or the shape of a tensor of floats."""
    there = target if isinstance(target, Tensor) else torch.randn(target)

    def register(make: Any) -> Any:
        ARCHITECTURES[name] = Architecture(make, inputs, there)
        return make

    return register


IMAGE = torch.randn(4, 3, 16, 16)
LABELS = torch.tensor([0, 2, 1, 3])
TOKENS = torch.randint(0, 20, (2, 6))
NEXT = torch.randint(0, 20, (2, 6))


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
        self.branches = nn.ModuleList([conv(3, 2, 1), nn.Sequential(conv(3, 2, 1), conv(2, 3, 5)), pooled,
                                       nn.Sequential(nn.AvgPool2d(3, 1, 1, count_include_pad=False), conv(3, 2, 1))])
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


# -- transformers


class Attention(nn.Module):
    def __init__(self, width: int = 8, heads: int = 2) -> None:
        super().__init__()
        self.q, self.kv, self.out = nn.Linear(width, width), nn.Linear(width, 2 * width), nn.Linear(width, width)
        self.heads = heads

    def split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(-2, -3)

    def forward(self, x: Tensor, other: Tensor | None = None, **options: Any) -> Any:
        k, v = self.kv(x if other is None else other).chunk(2, -1)
        made = F.scaled_dot_product_attention(self.split(self.q(x)), self.split(k), self.split(v), **options)
        return self.out(made.transpose(-2, -3).flatten(-2))


class Feed(nn.Sequential):
    def __init__(self, width: int = 8) -> None:
        super().__init__(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))


class Layer(nn.Module):
    """A layer of a transformer: attention to itself, to another sequence where there is one, and a network."""

    def __init__(self, width: int = 8, crossed: bool = False) -> None:
        super().__init__()
        self.attend, self.feed = Attention(width), Feed(width)
        self.cross = Attention(width) if crossed else None
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3 if crossed else 2))

    def forward(self, x: Tensor, other: Tensor | None = None, **options: Any) -> Any:
        x = x + self.attend(self.norms[0](x), **options)
        if self.cross is not None:
            x = x + self.cross(self.norms[2](x), other)
        return x + self.feed(self.norms[1](x))


@add("BERT", TOKENS, torch.tensor([[1, 1, 1, 1, 0, 0], [1] * 6]), target=NEXT)
class Bert(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(20, 8, padding_idx=0), nn.Embedding(6, 8)
        self.norm, self.layers = nn.LayerNorm(8, eps=1e-12), nn.ModuleList([Layer(), Layer()])

    def forward(self, tokens: Tensor, kept: Tensor) -> Any:
        x = self.norm(self.words(tokens) + self.places(torch.arange(tokens.shape[1])))
        mask = torch.where(kept[:, None, None, :] > 0, 0.0, torch.finfo(torch.float32).min)
        for layer in self.layers:
            x = layer(x, attn_mask=mask)
        return x @ self.words.weight.T


@add("GPT with a cache", TOKENS, torch.randn(2, 2, 2, 3, 4), target=NEXT)
class Gpt(nn.Module):
    """The cache has keys and values of tokens before these, which get gradients too."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.qkv, self.out = nn.Embedding(20, 8), nn.Linear(8, 24), nn.Linear(8, 8)
        self.feed, self.norms = Feed(), nn.ModuleList(nn.LayerNorm(8) for _ in range(2))
        self.gain = nn.Parameter(torch.ones(2, 1, 1, 1, 1))

    def forward(self, tokens: Tensor, cache: Tensor) -> Any:
        x = self.words(tokens)
        q, k, v = self.qkv(self.norms[0](x)).unflatten(2, (3, 2, 4)).permute(2, 0, 3, 1, 4)
        keys, values = self.gain * cache
        k, v = torch.cat([keys, k], 2), torch.cat([values, v], 2)
        seen = torch.ones(6, 9, dtype=torch.bool).tril(3)
        made = F.scaled_dot_product_attention(q, k, v, attn_mask=seen)
        x = x + self.out(made.transpose(1, 2).flatten(2))
        return (x + self.feed(self.norms[1](x))) @ self.words.weight.T


@add("ViT", IMAGE, target=LABELS)
class Vit(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 8, 4, 4)
        self.label, self.places = nn.Parameter(torch.randn(1, 1, 8)), nn.Parameter(torch.randn(1, 17, 8))
        self.layer, self.head = Layer(), nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Any:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.label.expand(x.shape[0], -1, -1), x], 1) + self.places
        return self.head(self.layer(x)[:, 0])


@add("Swin", torch.randn(2, 8, 8, 8), target=torch.tensor([1, 3]))
class Swin(nn.Module):
    """Attention within windows of 4 by 4 that are shifted by 2, with a bias by distance."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.attend, self.merge = nn.LayerNorm(8), Attention(), nn.Linear(32, 8)
        self.bias, self.head = nn.Parameter(torch.randn(2, 49) * 0.1), nn.Linear(8, 4)
        place = torch.stack(torch.meshgrid(torch.arange(4), torch.arange(4), indexing="ij"), -1).reshape(16, 2)
        distance = place[:, None] - place[None] + 3
        self.register_buffer("distance", distance[..., 0] * 7 + distance[..., 1])
        region = torch.tensor([0, 0, 0, 0, 1, 1, 2, 2])
        region = self.windows((region[:, None] * 3 + region[None])[None, ..., None])[..., 0]
        self.register_buffer("apart", torch.where(region[:, :, None] == region[:, None], 0.0, -100.0))

    @staticmethod
    def windows(x: Tensor) -> Tensor:
        n, _, _, c = x.shape
        return x.view(n, 2, 4, 2, 4, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, 16, c)

    def forward(self, x: Tensor) -> Any:
        y = self.windows(torch.roll(self.norm(x), (-2, -2), (1, 2)))
        mask = self.bias[:, self.distance] + self.apart.repeat(x.shape[0], 1, 1)[:, None]
        y = self.attend(y, attn_mask=mask).view(-1, 2, 2, 4, 4, 8).permute(0, 1, 3, 2, 4, 5).reshape(x.shape)
        x = x + torch.roll(y, (2, 2), (1, 2))
        parts = [x[:, i::2, j::2] for i in (0, 1) for j in (0, 1)]
        return self.head(self.merge(torch.cat(parts, -1)).mean((1, 2)))


@add("encoder and decoder", TOKENS, NEXT, target=torch.randint(0, 20, (2, 6)))
class T5(nn.Module):
    """RMS normalization, gated networks, and a bias by buckets of distances."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.distances = nn.Embedding(20, 8), nn.Embedding(11, 2)
        self.encode, self.decode = Layer(), Layer(crossed=True)
        self.norm, self.gate = nn.RMSNorm(8), nn.Linear(8, 16)

    def forward(self, source: Tensor, target: Tensor) -> Any:
        places = torch.arange(6)
        bias = self.distances(places[None] - places[:, None] + 5).permute(2, 0, 1)[None]
        memory = self.encode(self.words(source), attn_mask=bias)
        causal = torch.full((6, 6), float("-inf")).triu(1)
        x = self.norm(self.decode(self.words(target), memory, attn_mask=bias + causal))
        value, opened = self.gate(self.norm(x)).chunk(2, -1)
        return (x + value * F.gelu(opened, approximate="tanh")) @ self.words.weight.T


@add("mixture of experts", torch.randn(10, 8), target=(10, 8))
class Experts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(8, 4)
        self.up, self.down = nn.Parameter(torch.randn(4, 8, 16) * 0.3), nn.Parameter(torch.randn(4, 16, 8) * 0.3)

    def forward(self, x: Tensor) -> Any:
        chance, chosen = self.gate(x).softmax(-1).topk(2, -1)
        chance = chance / chance.sum(-1, keepdim=True)
        weight = torch.zeros(x.shape[0], 4).scatter(1, chosen, chance)
        made = torch.einsum("nd,edh->enh", x, self.up)
        made = torch.einsum("enh,ehd->end", F.silu(made), self.down)
        balance = weight.mean(0).square().sum() * 4
        return torch.einsum("ne,end->nd", weight, made) + 0.01 * balance


@add("Conformer", torch.randn(2, 12, 8), target=(2, 12, 8))
class Conformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.feeds, self.attend = nn.ModuleList([Feed(), Feed()]), Attention()
        self.norms = nn.ModuleList(nn.LayerNorm(8) for _ in range(5))
        self.wide, self.narrow = nn.Conv1d(8, 16, 1), nn.Conv1d(8, 8, 1)
        self.depthwise, self.batch = nn.Conv1d(8, 8, 5, padding=2, groups=8), nn.BatchNorm1d(8)

    def forward(self, x: Tensor) -> Any:
        x = x + 0.5 * self.feeds[0](self.norms[0](x))
        x = x + self.attend(self.norms[1](x))
        y = F.glu(self.wide(self.norms[2](x).transpose(1, 2)), 1)
        x = x + self.narrow(F.silu(self.batch(self.depthwise(y)))).transpose(1, 2)
        return self.norms[4](x + 0.5 * self.feeds[1](self.norms[3](x)))


@add("Perceiver", torch.randn(2, 20, 8), target=torch.tensor([0, 3]))
class Perceiver(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.latents, self.layer, self.head = nn.Parameter(torch.randn(3, 8)), Layer(crossed=True), nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Any:
        latents = self.latents.expand(x.shape[0], -1, -1)
        for _ in range(2):  # the same weights twice
            latents = self.layer(latents, x)
        return self.head(latents.mean(1))


@add("DETR", torch.randn(2, 3, 12, 12), target=(2, 5, 8))
class Detr(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.backbone, self.queries = nn.Conv2d(3, 8, 4, 4), nn.Parameter(torch.randn(5, 8))
        self.rows, self.columns = nn.Parameter(torch.randn(3, 4)), nn.Parameter(torch.randn(3, 4))
        self.transformer = nn.Transformer(8, 2, 1, 1, 16, dropout=0.0, batch_first=True)
        self.classes, self.boxes = nn.Linear(8, 4), nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4))

    def forward(self, x: Tensor) -> Any:
        x = self.backbone(x)
        places = torch.cat([self.columns[None].expand(3, -1, -1), self.rows[:, None].expand(-1, 3, -1)], -1)
        memory = x.flatten(2).transpose(1, 2) + places.flatten(0, 1)
        made = self.transformer(memory, self.queries.expand(x.shape[0], -1, -1))
        return torch.cat([self.classes(made), self.boxes(made).sigmoid()], -1)


@add("MLP-Mixer", torch.randn(2, 6, 8), target=torch.tensor([2, 0]))
class Mixer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(8) for _ in range(2))
        self.tokens, self.channels, self.head = Feed(6), Feed(8), nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Any:
        x = x + self.tokens(self.norms[0](x).transpose(1, 2)).transpose(1, 2)
        return self.head((x + self.channels(self.norms[1](x))).mean(1))


# -- sequences


@add("LSTM", TOKENS, target=NEXT)
class Lstm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.out = nn.Embedding(20, 8), nn.Linear(8, 20)
        self.network = nn.LSTM(8, 4, num_layers=2, bidirectional=True, batch_first=True)

    def forward(self, tokens: Tensor) -> Any:
        return self.out(self.network(self.words(tokens))[0])


@add("GRU", torch.randn(5, 2, 6), target=(5, 2, 8))
class Gru(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.network = nn.GRU(6, 8)

    def forward(self, x: Tensor) -> Tensor:
        made, state = self.network(x)
        return made + state


@add("recurrent translation with attention", TOKENS, NEXT, target=torch.randint(0, 20, (2, 6)))
class Translation(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.encoder, self.decoder = nn.Embedding(20, 8), nn.GRUCell(8, 8), nn.LSTMCell(16, 8)
        self.key, self.score, self.out = nn.Linear(16, 8), nn.Linear(8, 1), nn.Linear(16, 20)

    def forward(self, source: Tensor, target: Tensor) -> Any:
        state, states = torch.zeros(2, 8), []
        for word in self.words(source).unbind(1):
            state = self.encoder(word, state)
            states.append(state)
        memory, cell, made = torch.stack(states, 1), torch.zeros(2, 8), []
        for word in self.words(target).unbind(1):
            pairs = torch.cat([memory, state[:, None].expand_as(memory)], 2)
            seen = (self.score(torch.tanh(self.key(pairs))).softmax(1) * memory).sum(1)
            state, cell = self.decoder(torch.cat([word, seen], 1), (state, cell))
            made.append(self.out(torch.cat([state, seen], 1)))
        return torch.stack(made, 1)


@add("state space model", torch.randn(2, 9, 4), target=(2, 9, 4))
class StateSpace(nn.Module):
    """A selective scan, with a convolution before it."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.parts, self.step = nn.Conv1d(4, 4, 3, padding=2, groups=4), nn.Linear(4, 6), nn.Linear(4, 4)
        self.decay, self.skip = nn.Parameter(torch.rand(4, 3).log()), nn.Parameter(torch.ones(4))

    def forward(self, x: Tensor) -> Tensor:
        u = F.silu(self.conv(x.transpose(1, 2))[..., :9].transpose(1, 2))
        step = F.softplus(self.step(u))
        inputs, outputs = self.parts(u).chunk(2, -1)
        decay = torch.exp(-step[..., None] * self.decay.exp())
        given = step[..., None] * inputs[:, :, None] * u[..., None]
        state, made = torch.zeros(2, 4, 3), []
        for n in range(9):
            state = decay[:, n] * state + given[:, n]
            made.append((state * outputs[:, n, None]).sum(-1))
        return torch.stack(made, 1) + self.skip * u


# -- other structures


@add("graph network", torch.randn(6, 5), torch.tensor([[0, 1, 2, 3, 4, 5, 0, 2], [1, 2, 0, 4, 5, 3, 3, 5]]),
     target=torch.tensor([0, 1, 2, 0, 1, 2]))  # fmt: skip
class Graph(nn.Module):
    """Messages along edges: their mean, then a softmax over the edges of each node."""

    def __init__(self) -> None:
        super().__init__()
        self.own, self.sent, self.value, self.score = (nn.Linear(n, m) for n, m in ((5, 8), (5, 8), (8, 3), (16, 1)))

    def forward(self, x: Tensor, edges: Tensor) -> Any:
        source, target = edges
        total = torch.zeros(6, 8).index_add(0, target, self.sent(x)[source])
        count = torch.zeros(6).index_add(0, target, torch.ones(8)).clamp(min=1)
        x = F.relu(self.own(x) + total / count[:, None])
        score = F.leaky_relu(self.score(torch.cat([x[source], x[target]], 1)), 0.2)[:, 0]
        largest = torch.full((6,), -1e9).scatter_reduce(0, target, score, "amax")
        power = torch.exp(score - largest.detach()[target])
        weight = power / torch.zeros(6).scatter_add(0, target, power)[target]
        return torch.zeros(6, 3).index_add(0, target, weight[:, None] * self.value(x)[source])


@add("PointNet", torch.randn(2, 3, 12), target=torch.tensor([1, 2]))
class PointNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.aligned = nn.Sequential(nn.Conv1d(3, 8, 1), nn.BatchNorm1d(8), nn.ReLU(), nn.AdaptiveMaxPool1d(1),
                                     nn.Flatten(), nn.Linear(8, 9))  # fmt: skip
        self.points, self.head = nn.Sequential(nn.Conv1d(3, 8, 1), nn.BatchNorm1d(8), nn.ReLU()), nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Any:
        turned = torch.bmm(self.aligned(x).view(-1, 3, 3) + torch.eye(3), x)
        return self.head(self.points(turned).amax(2))


@add("DLRM", torch.randn(3, 4), torch.randint(0, 10, (3, 2)), torch.randint(0, 10, (5,)), torch.tensor([0, 2, 3]),
     target=(3, 1))  # fmt: skip
class Dlrm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tables, self.bags = nn.ModuleList(nn.Embedding(10, 6) for _ in range(2)), nn.EmbeddingBag(10, 6, mode="sum")
        self.bottom, self.top = nn.Sequential(nn.Linear(4, 6), nn.ReLU()), nn.Linear(12, 1)

    def forward(self, dense: Tensor, sparse: Tensor, items: Tensor, offsets: Tensor) -> Any:
        x = self.bottom(dense)
        rows = [x, *(table(sparse[:, n]) for n, table in enumerate(self.tables)), self.bags(items, offsets)]
        together = torch.stack(rows, 1)
        products = together @ together.transpose(1, 2)
        i, j = torch.triu_indices(4, 4, 1)
        return torch.sigmoid(self.top(torch.cat([x, products[:, i, j]], 1)))


@add("Siamese network", torch.randn(5, 6), torch.randn(4, 6), target=(5, 4))
class Siamese(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(6, 8), nn.PReLU(), nn.Linear(8, 3))

    def forward(self, x: Tensor, y: Tensor) -> Any:
        return torch.cdist(F.normalize(self.embed(x)), F.normalize(self.embed(y)))


@add("spatial transformer", torch.randn(2, 1, 10, 10), target=torch.tensor([3, 1]))
class SpatialTransformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.find = nn.Sequential(nn.Conv2d(1, 4, 3), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(64, 6))
        self.classify = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), head(4))
        self.find[-1].weight.data.mul_(0.1)

    def forward(self, x: Tensor) -> Any:
        turn = self.find(x).view(-1, 2, 3) + torch.eye(2, 3)
        grid = F.affine_grid(turn, list(x.shape), align_corners=False)
        return self.classify(F.grid_sample(x, grid, padding_mode="border", align_corners=False))
