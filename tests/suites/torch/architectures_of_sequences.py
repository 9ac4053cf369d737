"""Recurrent networks, and networks of graphs, points, tables and pairs."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from architectures import NEXT, TOKENS, add
from torch import Tensor, nn

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
        self.tables = nn.ModuleList(nn.Embedding(10, 6) for _ in range(2))
        self.bags = nn.EmbeddingBag(10, 6, mode="sum")
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
        self.classify = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                                      nn.Linear(4, 4))  # fmt: skip
        self.find[-1].weight.data.mul_(0.1)

    def forward(self, x: Tensor) -> Any:
        turn = self.find(x).view(-1, 2, 3) + torch.eye(2, 3)
        grid = F.affine_grid(turn, list(x.shape), align_corners=False)
        return self.classify(F.grid_sample(x, grid, padding_mode="border", align_corners=False))
