"""Small models of torch.export: what `make_models.py` writes and the tests run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from torch.export import Dim

Inputs = tuple[Tensor, ...]


@dataclass(frozen=True)
class Case:
    """A model with its inputs. more: inputs of other sizes. decomposed: into the core operators."""

    make: Callable[[], nn.Module]
    inputs: Callable[[], Inputs]
    dynamic: Any = None
    more: Callable[[], Inputs] | None = None
    decomposed: bool = True
    calls: int = 1
    train: bool = False


class Call(nn.Module):
    """A function as a model."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Tensor) -> Any:
        return self.function(*inputs)


def of(function: Callable[..., Any]) -> Callable[[], nn.Module]:
    return lambda: Call(function)


BATCH = Dim("batch", min=2, max=64)
LENGTH = Dim("length", min=2, max=32)


class Residual(nn.Module):
    """A small image network: convolution, batch norm, a residual block, pooling."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(inplace=True))
        self.pool = nn.MaxPool2d(3, 2, 1)
        self.block = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1, groups=2), nn.BatchNorm2d(8))
        self.head = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.pool(self.stem(x))
        x = F.relu(x + self.block(x))
        return self.head(F.adaptive_avg_pool2d(x, 1).flatten(1))


class Encoder(nn.Module):
    """A transformer encoder over tokens with a mask of the padding; the embedding is tied to the head."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(16, 8)
        self.places = nn.Parameter(torch.randn(32, 8))
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, activation="gelu")
        self.norm = nn.LayerNorm(8)
        self.head = nn.Linear(8, 16, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens: Tensor, kept: Tensor) -> Tensor:
        x = self.embedding(tokens) + self.places[: tokens.shape[1]]
        mask = torch.where(kept[:, None, None, :], 0.0, -1e9)
        q = x.unsqueeze(1)
        x = x + F.scaled_dot_product_attention(q, q, q, attn_mask=mask).squeeze(1)
        return self.head(self.norm(self.layer(x)))


class Decoder(nn.Module):
    """A step of generation: keys and values of earlier steps are buffers that each call updates."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(16, 8)
        self.qkv = nn.Linear(8, 24)
        self.head = nn.Linear(8, 16)
        self.register_buffer("keys", torch.zeros(1, 2, 6, 4))
        self.register_buffer("values", torch.zeros(1, 2, 6, 4))

    def forward(self, token: Tensor, place: Tensor) -> Tensor:
        x = self.embedding(token)
        q, k, v = (part.view(1, 1, 2, 4).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        self.keys.index_copy_(2, place, k)
        self.values.index_copy_(2, place, v)
        seen = (torch.arange(6) <= place)[None]
        x = F.scaled_dot_product_attention(q, self.keys, self.values, attn_mask=seen)
        return self.head(x.transpose(1, 2).reshape(1, 1, 8))


class Recurrent(nn.Module):
    """An LSTM in both directions and a GRU."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(4, 5, 2, batch_first=True, bidirectional=True)
        self.gru = nn.GRU(10, 3)

    def forward(self, x: Tensor) -> Any:
        y, (h, c) = self.lstm(x)
        z, last = self.gru(y.transpose(0, 1))
        return z, last, h, c


class Control(nn.Module):
    """Choices and loops that data decide."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Any:
        chosen = torch.cond(x.sum() > 0, lambda x: self.layer(x), lambda x: x * 2, (x,))

        def step(i: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
            return i + 1, y * 0.5 + 1

        _, looped = torch._higher_order_ops.while_loop(lambda i, y: i < 5, step, (torch.tensor(0), x))
        return chosen, looped


class Counter(nn.Module):
    """State that is written in place, through views too; statistics of batch norm in training."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))
        self.register_buffer("table", torch.zeros(3, 4))
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x: Tensor) -> Any:
        self.count += 1
        self.table[1].add_(x.sum(0))
        self.table[:, 0] = self.count
        return self.norm(x) + self.table.view(-1)[4:8] * self.count, self.table.t()


def _pointwise(x: Tensor, i: Tensor, b: Tensor) -> Any:
    """Types come together as they do in PyTorch."""
    h = x.half()
    return (
        x + i, i + b, i / 2, i * 2.5, b + b, i // 2, i % 3, x // 0.3, h + x.sum(), h * 2.0, h + i, x.double() + x,
        i.int() + i, x**2, x.abs() ** 0.5, 2**x, torch.where(b, i, x), x.clamp(-0.5, 0.5), i & 3, ~i, i.sum(), b.sum(0),
        F.gelu(x), F.gelu(x, approximate="tanh"), F.silu(h), x.softmax(-1), F.softplus(x), x.to(torch.int32), i.bool(),
        torch.div(i, 3, rounding_mode="trunc"), torch.lerp(x, x * 2, 0.3), x.masked_fill(b, -1.0), -i, x.erf(),
    )  # fmt: skip


def _arranged(x: Tensor) -> Any:
    return (
        x.T, x.reshape(2, 6), x[1:, ::2], x[-1], x[:, None].expand(3, 2, 4), x.unfold(1, 2, 1), x.flip(0), x.roll(1, 1),
        *x.split(2, 1), *x.unbind(0), torch.cat([x, x.int()], 1), torch.stack([x, x], 1), x.tril(), x.diagonal(),
        F.pad(x, (1, 2), value=3.0), F.pad(x[None], (1, 1), mode="reflect"), x.repeat(2, 1), x.permute(1, 0).flatten(),
        torch.arange(1, 10, 3), torch.full((2,), 3), torch.ones_like(x), torch.eye(3), torch.einsum("ij,kj->ik", x, x),
    )  # fmt: skip


def _reduced(x: Tensor, i: Tensor) -> Any:
    return (
        x.sum(), x.mean(1), x.prod(0), x.amax(1), *x.max(1), *x.min(0, keepdim=True), x.argmax(), x.var(0), x.std(1),
        x.norm(dim=1), x.logsumexp(1), i.sum(0), (x > 0).any(1), (x > -9).all(), *torch.var_mean(x, 1), x.cumsum(1),
        i.cumsum(0), *x.sort(1), *x.topk(2, 1), x.argsort(0, descending=True),
    )  # fmt: skip


def _indexed(x: Tensor, i: Tensor) -> Any:
    places = i.abs() % 3
    return (
        x[places], x[places[0], i[1].abs() % 4], x.gather(1, places), x.index_select(1, places[0]),
        x.scatter(1, places, x * 2), x.scatter_add(1, places, x), F.embedding(places, x), F.one_hot(places, 3),
        torch.zeros(5, 4).index_add(0, places[:, 0], x), x.index_put((places[0],), torch.ones(4, 4)),
    )  # fmt: skip


def _selected(x: Tensor, i: Tensor) -> Any:
    """How many elements there are, the elements decide; orders and running extremes."""
    above = x > 0
    return (
        x[above], x.nonzero(), x.masked_scatter(above, x * 2), *i.unique(return_inverse=True), *x.cummax(1),
        *i.cummin(0), torch.searchsorted(x.sort(1)[0], x), x.scatter_reduce(1, i.abs() % 4, x, "mean"),
        x.index_put((above,), x[0, 0], accumulate=True),
        F.embedding_bag(i.view(-1).abs() % 3, x, torch.tensor([0, 3, 3, 7]), mode="max"),
    )  # fmt: skip


def _sampled(x: Tensor, grid: Tensor) -> Any:
    return (
        F.grid_sample(x, grid, align_corners=False), F.grid_sample(x, grid, "nearest", "border", True),
        F.grid_sample(x, grid, "bicubic", "reflection", False),
    )  # fmt: skip


def _windows(x: Tensor) -> Any:
    return (
        F.max_pool2d(x, 3, 2, 1), F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), F.adaptive_avg_pool2d(x, (2, 3)),
        F.interpolate(x, scale_factor=2), F.interpolate(x, size=(9, 5), mode="bilinear"),
        F.interpolate(x, scale_factor=2, mode="bicubic"), F.max_pool2d(x, 2, ceil_mode=True),
        F.pixel_shuffle(x, 2),
    )  # fmt: skip


def _sized_windows(x: Tensor) -> Any:
    """Pooling of sizes that a call decides: windows that leave elements out, and that reach into the padding."""
    return (
        *F.max_pool2d(x, 2, return_indices=True), *F.max_pool2d(x, 3, 2, 1, ceil_mode=True, return_indices=True),
        *F.max_pool1d(x[0], 2, 3, 1, ceil_mode=True, return_indices=True),
        *F.max_pool3d(x[None], (1, 2, 3), 2, (0, 1, 1), return_indices=True),
        F.avg_pool2d(x, 2, 3, ceil_mode=True), F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False),
        F.lp_pool2d(x, 2, 2),
    )  # fmt: skip


def _image_without_numbers() -> Tensor:
    """An image with rows of -inf, and with a NaN."""
    x = torch.randn(2, 3, 6, 7)
    x[0, :, :3] = -torch.inf
    x[1, 0, 4, 4] = torch.nan
    return x


def _several_results(x: Tensor, i: Tensor) -> Any:
    """Operators whose second results are used, and small ones."""
    places = torch.tensor([0, 1, 0])
    return (
        *F.adaptive_max_pool2d(x.round(), (3, 2), return_indices=True),
        i.scatter_reduce(0, places, i[:3] * -3, "mean"), i.sum().unfold(0, 1, 1),
    )  # fmt: skip


def _resized(x: Tensor) -> Any:
    """Images in sizes that depend on that of a call: by a scale, to a size, by pooling."""
    return (
        F.interpolate(x, scale_factor=0.7, mode="bilinear"), F.interpolate(x, size=(5, 9)),
        F.adaptive_avg_pool2d(x, (3, 1)),
    )  # fmt: skip


def _less_common(x: Tensor, i: Tensor) -> Any:
    """Operators of several subjects that few models have."""
    bytes_ = i.to(torch.int8)
    return (
        torch.fmax(x, i / (i - 1)), torch.signbit(x), torch.linalg.det(x[:, :3]), torch.bincount(i.abs().flatten()),
        x.repeat_interleave(i[:, 0].abs(), 0), torch._int_mm(bytes_, bytes_.t()), torch.logcumsumexp(x, 1),
        torch.fake_quantize_per_tensor_affine(x, 0.1, 3, -8, 7), x.as_strided((2, 3), (1, 2), 1),
    )  # fmt: skip


def _masked(q: Tensor, seen: Tensor) -> Any:
    """Attention of queries that see no key."""
    added = torch.zeros(4, 4).masked_fill(~seen, -torch.inf)
    return (
        F.scaled_dot_product_attention(q, q, q, attn_mask=seen),
        F.scaled_dot_product_attention(q, q, q, attn_mask=added),
        torch._safe_softmax(added, -1), torch.softmax(added, -1),
    )  # fmt: skip


def _shared(x: Tensor, fixed: Tensor) -> Any:
    """Writes to results that are views of some tensors and copies of others."""
    results = []
    for source, take in (
        (x, lambda y: y.to(torch.float32)), (x, lambda y: y.to(torch.float64)),
        (x, lambda y: y.to(torch.float32, copy=True)), (x, lambda y: y.to("cpu")), (x, lambda y: y.reshape(-1)),
        (x, lambda y: y.flatten()), (x, lambda y: y.contiguous()), (fixed, lambda y: y.t().contiguous()),
        (fixed, lambda y: y[:, 1:].contiguous()),
    ):  # fmt: skip
        y = source * 2
        take(y).add_(1)
        results.append(y)
    return tuple(results)


def _written(x: Tensor) -> Any:
    y = x.clone()
    y[1:] += 1
    y[:, 0] = 5
    y.view(-1)[2] *= 3
    row = y[0]
    y.t()[1].neg_()
    y.mul_(2)
    return y, row


def _symbols(x: Tensor) -> Any:
    """Sizes that a call decides take part in arithmetic."""
    n = x.shape[0]
    return (
        x[2:],
        x[:-1],
        x.reshape(n * 2, 2),
        torch.arange(n) * n,
        torch.arange(n, -n, -1.0),
        x.new_zeros(n + 1),
        x.sum(0) / n,
        n * 3,
    )


def _grouped(x: Tensor, y: Tensor, ends: Tensor) -> Any:
    """Products of groups of rows, of columns and of the axis that is summed; a group may have none."""
    x, y = x.bfloat16(), y.bfloat16()
    ys, xs = torch.stack([y, y + 1, y + 2]), torch.stack([x.t(), x.t() - 1, x.t() - 2])
    pairs = [(x, ys, ends), (xs, x @ x.t(), ends), (x.t(), x, ends), (xs, torch.stack([x, x, x]))]
    return tuple(torch.ops.aten._grouped_mm(*operands).float() for operands in pairs)


def _halves() -> Tensor:
    return torch.randn(3, 4)


def _numbers() -> Tensor:
    return torch.randint(-5, 6, (3, 4))


def _counted_from_the_end(x: Tensor, y: Tensor) -> Any:
    """The sign of -n is known while compiling; that of -half is not, because an axis of 1 has no half."""
    n, half = y.shape[0], x.shape[0] // 2
    written = torch.slice_scatter(x, y, 0, -n), torch.select_scatter(x, y[0], 0, -n)
    return x[-n:], x[:-n], x[-n], x[-half:], x[:-half], x[-half], *written


def _padded_by_sizes(x: Tensor, y: Tensor) -> Any:
    """The sign of m - n is that of the axis lengths in each call."""
    m, n = x.shape[0], y.shape[0]
    cropped = F.pad(x, (-n, 0)), F.pad(x, (2, -n)), F.pad(x, (n, -n), value=7.0)
    return *cropped, F.pad(x, (0, -m % 4)), F.pad(y, (0, m - n))


def _split_by_sizes(x: Tensor) -> Any:
    y = x * 2
    first, second = y.chunk(2)
    second.add_(1)
    return first, y, *x.split(4)


def _seen_as_other_types(x: Tensor) -> Any:
    y = x * 2
    y.view(torch.int32).bitwise_and_(-256)
    y.view(torch.int16)[:, 1] = 3
    return y, y.view(torch.uint8), y.view(torch.int64), y.view(torch.uint8).view(torch.int32)


def _ranges_by_sizes(bags: Tensor, table: Tensor) -> Any:
    count, step = bags.numel(), bags.shape[1]
    ranges = torch.arange(0, count, step), torch.arange(count, 0, -step), torch.arange(1.0, count + 2, step)
    return F.embedding_bag(bags, table, mode="sum"), *ranges


def _rounded(x: Tensor) -> Any:
    large = torch.tensor([6500.0, 4500.0, 1234.5, -77.5]) + 0 * x
    return torch.round(x, decimals=2), torch.round(large, decimals=-3), torch.round(large, decimals=-1)


CASES = {
    "mlp": Case(lambda: nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4)), lambda: (torch.randn(3, 8),),
                ({0: BATCH},), lambda: (torch.randn(7, 8),)),
    "residual": Case(Residual, lambda: (torch.randn(2, 3, 8, 8),), ({0: BATCH},), lambda: (torch.randn(5, 3, 8, 8),)),
    "residual_as_exported": Case(Residual, lambda: (torch.randn(2, 3, 8, 8),), decomposed=False),
    "encoder": Case(Encoder, lambda: (torch.randint(0, 16, (2, 5)), torch.rand(2, 5) > 0.3),
                    ({0: BATCH, 1: LENGTH}, {0: BATCH, 1: LENGTH}),
                    lambda: (torch.randint(0, 16, (3, 7)), torch.rand(3, 7) > 0.3)),
    "decoder": Case(Decoder, lambda: (torch.randint(0, 16, (1, 1)), torch.tensor([0])), calls=3),
    "recurrent": Case(Recurrent, lambda: (torch.randn(2, 3, 4),), decomposed=False),
    "long_recurrent": Case(lambda: nn.LSTM(3, 4), lambda: (torch.randn(12, 2, 3),), decomposed=False),
    "control": Case(Control, lambda: (torch.randn(3, 4),), more=lambda: (-torch.rand(3, 4),)),
    "counter": Case(Counter, lambda: (torch.randn(3, 4),), calls=3, train=True),
    "counter_as_exported": Case(Counter, lambda: (torch.randn(3, 4),), calls=3, train=True, decomposed=False),
    "pointwise": Case(of(_pointwise), lambda: (_halves(), _numbers(), _halves() > 0)),
    "arranged": Case(of(_arranged), lambda: (_halves(),)),
    "reduced": Case(of(_reduced), lambda: (_halves(), _numbers())),
    "indexed": Case(of(_indexed), lambda: (_halves(), _numbers())),
    "selected": Case(of(_selected), lambda: (_halves(), _numbers())),
    "sampled": Case(of(_sampled), lambda: (torch.randn(1, 2, 5, 6), torch.rand(1, 3, 4, 2) * 3 - 1.5)),
    "windows": Case(of(_windows), lambda: (torch.randn(1, 4, 7, 7),)),
    "sized_windows": Case(
        of(_sized_windows), lambda: (_image_without_numbers(),),
        ({2: Dim.AUTO, 3: Dim.AUTO},), lambda: (torch.randn(2, 3, 9, 8),)),
    "resized": Case(of(_resized), lambda: (torch.randn(2, 1, 7, 6),), ({2: Dim.AUTO, 3: Dim.AUTO},),
                    lambda: (torch.randn(2, 1, 5, 10),)),
    "inverse": Case(of(torch.linalg.inv), lambda: (torch.randn(2, 3, 3),)),
    "less_common": Case(of(_less_common), lambda: (_halves(), _numbers()), decomposed=False),
    "masked_attention": Case(of(_masked), lambda: (torch.randn(1, 2, 4, 8), torch.ones(4, 4).tril(-1) > 0)),
    "several_results": Case(of(_several_results),
                            lambda: (torch.randn(1, 2, 7, 5), torch.arange(5, dtype=torch.int32))),
    "grouped": Case(of(_grouped), lambda: (torch.randn(16, 8), torch.randn(8, 8),
                                           torch.tensor([8, 8, 16], dtype=torch.int32))),
    "written": Case(of(_written), lambda: (_halves(),), decomposed=False),
    "shared": Case(of(_shared), lambda: (torch.randn(3, 4), torch.randn(3, 4)), ({0: BATCH}, None),
                   lambda: (torch.randn(5, 4), torch.randn(3, 4)), decomposed=False),
    "counted_from_the_end": Case(of(_counted_from_the_end), lambda: (torch.randn(12, 3), torch.randn(4, 3)),
                                 ({0: Dim.AUTO}, {0: Dim.AUTO}),
                                 lambda: (torch.randn(13, 3), torch.randn(7, 3))),
    "padded_by_sizes": Case(of(_padded_by_sizes), lambda: (torch.randn(12), torch.randn(4)),
                            ({0: Dim.AUTO}, {0: Dim.AUTO}), lambda: (torch.randn(13), torch.randn(7))),
    "rounded": Case(of(_rounded), lambda: (_halves(),)),
    "kth_of_scalar": Case(of(lambda x: (*x.kthvalue(1), *x.kthvalue(1, 0, True))), lambda: (torch.randn(()),),
                          decomposed=False),
    "flattened": Case(of(lambda x: torch.take_along_dim(x, torch.tensor([[5, 1], [0, 9]]))), lambda: (_halves(),),
                      decomposed=False),
    "powers_of_sizes": Case(of(lambda x: (torch.zeros(x.shape[0] ** 2), torch.ones((x.shape[0] - 1) ** 3))),
                            lambda: (torch.randn(4),), ({0: Dim.AUTO},), lambda: (torch.randn(5),)),
    "ranges_by_sizes": Case(of(_ranges_by_sizes), lambda: (torch.randint(0, 5, (3, 4)), torch.randn(5, 2)),
                            ({0: Dim.AUTO, 1: Dim.AUTO}, None),
                            lambda: (torch.randint(0, 5, (6, 3)), torch.randn(5, 2))),
    "split_by_sizes": Case(of(_split_by_sizes), lambda: (torch.randn(10, 4),), ({0: Dim.AUTO},),
                           lambda: (torch.randn(11, 4),), decomposed=False),
    "seen_as_other_types": Case(of(_seen_as_other_types), lambda: (torch.randn(3, 4),), ({0: BATCH, 1: Dim.AUTO},),
                                lambda: (torch.randn(2, 6),), decomposed=False),
    "symbols": Case(of(_symbols), lambda: (torch.randn(6, 4),), ({0: Dim("rows", min=4)},),
                    lambda: (torch.randn(9, 4),)),
}  # fmt: skip


def exported(case: Case) -> tuple[nn.Module, torch.export.ExportedProgram]:
    """A model and its exported program. Attention stays one operator: its decomposition fails for some models."""
    torch.manual_seed(1)
    model = case.make()
    model.train(case.train)
    inputs = case.inputs()
    dynamic = case.dynamic if not isinstance(model, Call) or case.dynamic is None else (case.dynamic,)
    program = torch.export.export(model, inputs, dynamic_shapes=dynamic)
    if case.decomposed:
        table = torch.export.default_decompositions()
        del table[torch.ops.aten.scaled_dot_product_attention.default]
        program = program.run_decompositions(table)
    return model, program


def flat(results: Any) -> list[Tensor]:
    """Tensors and numbers of nested results, in order."""
    if isinstance(results, (tuple, list)):
        return [found for item in results for found in flat(item)]
    return [torch.as_tensor(results)]
