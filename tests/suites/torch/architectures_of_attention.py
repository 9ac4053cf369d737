"""Transformers of all kinds."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from architectures import IMAGE, LABELS, NEXT, TOKENS, add
from torch import Tensor, nn

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
