"""Small models, each of a few operators: what `test_torch_export.py` runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn


class Call(nn.Module):
    """A function as a model."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Tensor) -> Any:
        return self.function(*inputs)


class Flat(nn.Module):
    """A recurrent network whose results are a flat tuple."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor) -> Any:
        y, state = self.network(x)
        return y, *(state if isinstance(state, tuple) else (state,))


torch.manual_seed(0)
X, Y = torch.randn(3, 4), torch.randn(3, 4)
POSITIVE = torch.rand(3, 4) + 0.1
I, J = torch.randint(-5, 6, (3, 4)), torch.randint(1, 6, (3, 4))  # noqa: E741
B = torch.randn(3, 4) > 0
H, BF = X.half(), X.bfloat16()
IMAGE = torch.randn(2, 4, 7, 7)

OPERATORS: dict[str, tuple[nn.Module, tuple[Tensor, ...], bool]] = {}
"""Name -> a model, its inputs, and whether it runs as exported, without decomposition."""


def add(name: str, model: nn.Module | Callable[..., Any], *inputs: Tensor, raw: bool = True) -> None:
    OPERATORS[name] = (model if isinstance(model, nn.Module) else Call(model), inputs, raw)


def together(names: str, of: Any) -> Callable[[Tensor], Any]:
    """Several functions of one tensor."""
    functions = [getattr(of, name) for name in names.split()]
    return lambda x: tuple(f(x) for f in functions)


add("functions", together("exp exp2 expm1 sin cos tan tanh sinh cosh asinh atan erf erfc sigmoid abs neg ceil floor "
                          "trunc round sign relu square logical_not isnan isinf isfinite reciprocal", torch),
    X)  # fmt: skip
add("functions of positives", together("log log2 log10 log1p sqrt rsqrt", torch), POSITIVE)
add("activations", together("gelu silu mish hardtanh hardswish hardsigmoid leaky_relu elu selu celu softplus "
                            "logsigmoid relu6 glu softsign tanhshrink", F), X)  # fmt: skip
add("gelu by tanh", lambda x: F.gelu(x, approximate="tanh"), X)
add("prelu", nn.PReLU(4), X)
add("f16", lambda x: F.gelu(x) + torch.softmax(x, -1) * 2, H)
add("bf16", lambda x: F.silu(x) + torch.exp(x), BF)
add("arithmetic", lambda x, y, i, j: (x + y, x - y, x * y, x / y, torch.maximum(x, y), torch.minimum(i, j), i // j,
                                      torch.atan2(x, y), torch.fmod(x, y), x % y, i % j, torch.fmod(i, j), i / j,
                                      torch.hypot(x, y)), X, Y, I, J)  # fmt: skip
add("comparisons", lambda x, y, i, j: (x == y, x != y, x < y, x <= y, i > j, i >= j, x > i), X, Y, I, J)
add("types together", lambda x, i, b: (x + i, i + b, i / 2, i * 2.5, b + b, x + 1, i // 2, i % 3, x // 0.3, -i // 2,
                                       i.to(torch.int8) + i), X, I, B)  # fmt: skip
add("half types together", lambda h, x, i: (h + x.sum(), h * 2.0, h + i, x.double() + x, i.int() + i, h + i.sum(),
                                            i.sum() + h.sum()), H, X, I)  # fmt: skip
add("powers", lambda x, i: (x**2, x**3, x.abs() ** 0.5, x.abs() ** 2.5, 2**x, i**2, x**-1, i.abs() ** i.abs(),
                            x.abs() ** i), X, I)  # fmt: skip
add("rounded divisions", lambda x, y, i, j: tuple(torch.div(a, b, rounding_mode=mode) for a, b in ((x, y), (i, j))
                                                  for mode in ("floor", "trunc")), X, Y, I, J)  # fmt: skip
add("bits", lambda i, j, b: (i & j, i | j, i ^ j, ~i, i << 1, i >> 1, b & b, ~b, b ^ True, torch.logical_and(i, j),
                             torch.logical_xor(b, i)), I, J, B)  # fmt: skip
add("shifts by any number", lambda i, n: tuple(f(i.to(t), n.to(t)) for t in (torch.int64, torch.int8, torch.uint8)
                                               for f in (torch.bitwise_left_shift, torch.bitwise_right_shift)),
    I, torch.tensor([0, 7, 8, 64]))  # fmt: skip
add("signs", lambda x: (x.sign(), x.sgn()), torch.tensor([0.0, -0.0, 3, -1e-40, float("-inf"), float("nan")]))
add("large numbers", lambda x, y, h: (torch.hypot(x, y), torch.hypot(x * 1e-30 * 1e-29, y * 1e-30 * 1e-29), h.std(),
                                      h.std(1), *torch.std_mean(h, 0)), X * 1e37, Y * 1e37, H * 1000)  # fmt: skip
add("choices", lambda b, x, y, i: (torch.where(b, x, y), torch.where(b, x, 0.0), torch.where(b, i, x),
                                   x.masked_fill(b, -1.0), x.clamp(-0.5, 0.5), x.clamp(min=0), i.clamp(-2, 2),
                                   torch.clamp(x, y.abs() * -1, y.abs())), B, X, Y, I)  # fmt: skip
add("formulas", lambda x, y: (torch.lerp(x, y, 0.3), torch.addcmul(x, y, y, value=0.5), torch.rsub(x, y, alpha=2),
                              torch.addcdiv(x, y, y + 9, value=2.0), torch.add(x, y, alpha=3),
                              torch.nan_to_num(x / 0), torch.isclose(x, x + 1e-9)), X, Y)  # fmt: skip
add("close integers", lambda i: tuple(torch.isclose(i, i + 1, rtol=r, atol=a)
                                      for r, a in ((1e-5, 1e-8), (0, 0), (0, 1), (0.1, 0))),
    torch.tensor([16777216, 5, 100000, -9]))  # fmt: skip
add("conversions", lambda x, i, b: (x.int(), x.bool(), i.float(), b.int(), x.half(), i.abs().to(torch.uint8),
                                    x.double(), x.to(torch.bfloat16).float(), x.type_as(i)), X * 10, I, B)  # fmt: skip
add("views", lambda x: (x.view(2, 6), x.reshape(-1), x.T, x.permute(1, 0), x.unsqueeze(0), x.unflatten(1, (2, 2)),
                        x.unsqueeze(-1).squeeze(-1), x.expand(2, 3, 4), x.transpose(0, 1).contiguous().view(-1),
                        x.flatten(), x.repeat(2, 1), x.tile(2), x.movedim(0, 1), x.swapaxes(0, 1)), X)  # fmt: skip
add("slices", lambda x: (x[1:], x[:, 1:3], x[:, ::2], x[-1], x[..., -2:], x[1:2, 1], x.select(1, 2), x[:, None],
                         x.narrow(1, 1, 2), x.diagonal(), x.unfold(1, 2, 1), x[:, -3:-1]), X)  # fmt: skip
add("splits", lambda x: (*x.split(2, 1), *x.chunk(3, 0), *x.unbind(0), *x.split([1, 3], 1), torch.cat([x, x], 0),
                         torch.stack([x, x], 1), torch.cat([x, x.int()], 1)), X)  # fmt: skip
add("parts without elements", lambda x: (*x.split(2), *x.chunk(3), *x.chunk(2, 1), x.diagonal(), x.diagonal(9),
                                        x.new_ones(2, 2).diagonal(5), x.new_ones(2, 2).diagonal_scatter(x[:, 0], 5)),
    X[:0])  # fmt: skip
add("padding", lambda x: (F.pad(x, (1, 2)), F.pad(x, (1, 1, 2, 0), value=3.0), F.pad(x[None], (1, 1), mode="reflect"),
                          F.pad(x[None], (1, 2), mode="replicate"), F.pad(x[None], (1, 2), mode="circular"),
                          F.pad(x, (-1, 1))), X)  # fmt: skip
add("moves", lambda x: (x.flip(0), x.roll(1, 1), x.roll((1, -1), (0, 1)), x.roll(2), x.tril(), x.triu(1),
                        x.repeat_interleave(2, 1), F.pixel_shuffle(x.view(1, 4, 3, 1), 2)), X)  # fmt: skip
add("differences", lambda x, i, b: (x.diff(), x.diff(2, 0), x.diff(9), i.diff(prepend=i[..., :1] - 1), b.diff(dim=0),
                                    x.diff(append=x, prepend=i)), X, I, B)  # fmt: skip
add("rotation", lambda x: x.rot90(), X, raw=False)
add("made of nothing", lambda x: (torch.zeros(2, 3), torch.ones_like(x), torch.full((2,), 3), torch.arange(5),
                                  torch.arange(1, 10, 3), torch.arange(0, 1, 0.25), torch.eye(3), x.new_zeros(2),
                                  torch.linspace(0, 1, 5), x * torch.tensor([1.0, 2.0, 3.0, 4.0]),
                                  torch.empty(2).fill_(7)), X)  # fmt: skip
add("reductions", lambda x, i, b: (
    x.sum(), x.sum(1), x.sum((0, 1), keepdim=True), x.mean(), x.mean(0), i.sum(), b.sum(0), x.prod(1), i.prod(),
    x.amax(1), x.amin((0, 1)), x.max(), *x.max(1), x.min(0, keepdim=True)[1], x.argmax(), x.argmin(1), x.any(),
    b.all(1), b.any(0), x.var(), x.std(1), x.var(0, unbiased=False), x.norm(), x.norm(dim=1), x.logsumexp(1),
    *torch.var_mean(x, 1), x.norm(p=1, dim=0), (x > 0).count_nonzero(), x.var(1, correction=0.5),
    x.std(0, correction=9)), X, I, B)  # fmt: skip
add("softmax", lambda x, h: (x.softmax(1), x.log_softmax(0), h.softmax(-1), F.normalize(x),
                             F.softmax(h, -1, dtype=torch.float32)), X, H)  # fmt: skip
add("running", lambda x, i: (x.cumsum(1), i.cumsum(0), x.cumprod(1)), X, I)
add("products", lambda x, y: (x @ y.T, x @ y[0], x[0] @ y.T, torch.bmm(x[None], y.T[None]), x[0].dot(y[0]),
                              torch.addmm(x @ x.T, x, y.T, beta=0.5, alpha=2), torch.outer(x[0], y[0]),
                              torch.einsum("ij,kj->ik", x, y), torch.matmul(x[None, None], y.T)), X, Y)  # fmt: skip
add(
    "scaled products of f16",
    lambda h, g: (
        torch.baddbmm(h[None, :, :3], h[None], g[None], beta=0.5, alpha=0.01),
        torch.addmm(h[:, :3], h, g, beta=0, alpha=0.01),
        torch.addmv(h[:, 0], h, g[:, 0], alpha=0.01),
    ),
    H * 300,
    H.T * 300,
)
add("products of integers", lambda i, j: i @ j.T, I, J)
add("linear", nn.Linear(4, 5), X)
add("bilinear", nn.Bilinear(4, 4, 3), X, Y)
add("convolution", nn.Conv2d(4, 6, 3, stride=2, padding=1), IMAGE)
add("convolution in groups", nn.Conv2d(4, 8, 3, groups=2, dilation=2), IMAGE)
add("convolution by channel", nn.Conv2d(4, 4, 3, groups=4, padding="same"), IMAGE)
add("convolution of 1 axis", nn.Conv1d(4, 6, 3, padding=1), torch.randn(2, 4, 9))
add("convolution of 3 axes", nn.Conv3d(2, 3, 2), torch.randn(1, 2, 4, 4, 4))
add("transposed convolution", nn.ConvTranspose2d(4, 3, 3, stride=2, padding=1, output_padding=1), IMAGE)
add("transposed convolution in groups", nn.ConvTranspose1d(4, 4, 4, stride=2, groups=2), torch.randn(2, 4, 5))
add("layer norm", nn.LayerNorm(4), X)
add("rms norm", nn.RMSNorm(4), X)
add("batch norm", nn.BatchNorm2d(4), IMAGE)
add("group norm", nn.GroupNorm(2, 4), IMAGE)
add("instance norm", nn.InstanceNorm2d(4, affine=True), IMAGE)
add("indices", lambda x, i: (x[i.abs() % 3], x[i[0].abs() % 3, i[1].abs() % 4], x[:, i[0].abs() % 4],
                             F.embedding(i.abs() % 3, x), x.gather(1, i.abs() % 4), x.index_select(1, i[0].abs() % 4),
                             torch.take_along_dim(x, i.abs() % 4, 1), x[[0, 2]], x[torch.tensor([-1, 0])],
                             F.one_hot(i.abs() % 4, 4)), X, I)  # fmt: skip
add("scatter", lambda x, i: (x.scatter(1, i.abs() % 4, x * 2), x.scatter_add(1, i.abs() % 4, x),
                             torch.zeros(5, 4).index_add(0, i[:, 0].abs() % 5, x), x.scatter(1, i.abs() % 4, 1.5),
                             x.scatter_reduce(1, i.abs() % 4, x, "amax")), X, I)  # fmt: skip
add(
    "index_put",
    lambda x, i: (
        x.index_put((i[0].abs() % 3,), torch.ones(4, 4)),
        x.index_put((i[0].abs() % 3, i[1].abs() % 4), torch.ones(4), accumulate=True),
    ),
    X,
    I,
)
add("order", lambda x: (*x.sort(1), *x.topk(2, 1), x.argsort(0), *x.sort(1, descending=True),
                        torch.bucketize(x, torch.tensor([-1.0, 0.0, 1.0]))), X)  # fmt: skip
add("scatter by all kinds", lambda x, i: tuple(x.scatter_reduce(1, i.abs() % 4, x * 2, kind, include_self=own)
                                               for kind in ("sum", "prod", "mean", "amax", "amin")
                                               for own in (True, False)), X, I)  # fmt: skip
add("index_reduce", lambda x, i: tuple(x.index_reduce(1, i[0].abs() % 4, x * 2, kind, include_self=own)
                                       for kind in ("prod", "mean", "amax", "amin") for own in (True, False)),
    X, I)  # fmt: skip
add("running extremes", lambda x, i: (*x.cummax(1), *i.cummin(0), *(x / (i > 0)).cummax(0), *(i % 2).cummax(1)), X, I)
EDGES = torch.tensor([1.0, 0.3, -1.0, 5.5, torch.inf, -0.0, 0.0, 7.0, -7.0, torch.nan, 6.0, 1.0])
DIVISORS = torch.tensor([0.1, 0.1, 0.1, -2.0, 3.0, 2.0, 0.0, 0.0, 0.0, 1.0, torch.inf, -torch.inf])
add("quotients rounded down", lambda x, y: (x // y, torch.div(x, y, rounding_mode="floor"), x.double() // 0.1,
                                            x.half() // y.half(), 1.0 // x), EDGES, DIVISORS)  # fmt: skip
add("places of NaN", lambda x: (torch.bucketize(x, torch.tensor([0.0, 1.0])),
                                torch.bucketize(x, torch.tensor([0.0, 1.0]), right=True)), EDGES)  # fmt: skip
add("types of conditions and bytes", lambda b, u, i: (b.square(), b**2, u.all(1), u.any(), i.logsumexp(1),
                                                      torch.bucketize(i, torch.tensor([0.5, 2.0]))),
    B, J.byte(), J)  # fmt: skip
add("xlogy of integers", lambda i: torch.xlogy(i, 2.0), J, raw=False)
add("powers of bytes", lambda u, v: u**v, torch.tensor([3, 7, 2], dtype=torch.uint8),
    torch.tensor([255, 128, 7], dtype=torch.uint8))  # fmt: skip
add("places in order", lambda x, i: (torch.searchsorted(x.sort(1)[0], x * 2), torch.searchsorted(i[0].sort()[0], i),
                                     torch.searchsorted(i.sort(1)[0], i, right=True),
                                     torch.searchsorted(X[0].sort()[0], 0.3),
                                     torch.searchsorted(x, x, sorter=x.argsort(1)),
                                     torch.bucketize(i, torch.tensor([-2, 0, 3]), right=True)), X, I)  # fmt: skip
add("elements that are true", lambda x, b, i: (x[b], x.nonzero(), x.masked_select(b), x.masked_scatter(b, x * 2),
                                               x[b[:, 0]], x[:, b[0]], i.unique(), *i.unique(return_inverse=True),
                                               *i.unique_consecutive(return_counts=True),
                                               *i.unique(dim=0, return_inverse=True),
                                               *i.unique_consecutive(dim=1, return_inverse=True, return_counts=True),
                                               i.view(-1).nonzero(as_tuple=True)[0]), X, B, I)  # fmt: skip
add("writes at what is true", lambda x, b, y: (x.index_put((b,), torch.tensor(2.0)), x.index_put((b[:, 0],), y[0]),
                                               x.index_put((b,), y[0, 0], accumulate=True)), X, B, Y)  # fmt: skip
add("bags", lambda x, i: (F.embedding_bag(i.view(-1).abs() % 3, x, torch.tensor([0, 3, 3, 7]), mode="sum"),
                          F.embedding_bag(i.view(-1).abs() % 3, x, torch.tensor([0, 3, 3, 7]), mode="mean"),
                          F.embedding_bag(i.view(-1).abs() % 3, x, torch.tensor([0, 3, 3, 7]), mode="max"),
                          F.embedding_bag(i.view(-1).abs() % 3, x, torch.tensor([0, 5, 12]), mode="sum",
                                          per_sample_weights=torch.arange(12.0), include_last_offset=True),
                          F.embedding_bag(i.view(-1).abs() % 3, x, torch.tensor([0, 3, 3, 7]), padding_idx=-1),
                          F.embedding_bag(i.view(-1).abs() % 3, x, torch.tensor([0, 3, 3, 7]), padding_idx=0)),
    X, I)  # fmt: skip
for mode in ("bilinear", "nearest", "bicubic"):
    for beyond in ("zeros", "border", "reflection"):
        for corners in (False, True):
            add(f"grid {mode} {beyond} {corners}", lambda x, g, mode=mode, beyond=beyond, corners=corners: (
                F.grid_sample(x, g, mode, beyond, corners)), IMAGE, torch.rand(2, 5, 6, 2) * 3 - 1.5)  # fmt: skip
add("grid of 3 axes", lambda x, g: (F.grid_sample(x, g, align_corners=False),
                                    F.grid_sample(x, g, "nearest", "border", False)),
    torch.randn(1, 2, 4, 5, 3), torch.rand(1, 3, 2, 4, 3) * 3 - 1.5)  # fmt: skip
add("pooling", lambda x: (F.max_pool2d(x, 2), F.max_pool2d(x, 3, 2, 1), F.avg_pool2d(x, 3, 2, 1),
                          F.adaptive_avg_pool2d(x, 1), F.adaptive_avg_pool2d(x, (2, 3)), F.adaptive_max_pool2d(x, 2),
                          F.avg_pool2d(x, 2, ceil_mode=True), F.max_pool2d(x, 2, return_indices=True)[1],
                          F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), F.lp_pool2d(x, 2, 2)), IMAGE)  # fmt: skip
add("pooling of 1 axis", lambda x: (F.max_pool1d(x, 2), F.avg_pool1d(x, 3, 1, 1), F.adaptive_avg_pool1d(x, 3)),
    torch.randn(2, 3, 9))  # fmt: skip
add("resizing", lambda x: (F.interpolate(x, scale_factor=2), F.interpolate(x, size=(7, 5)),
                           F.interpolate(x, scale_factor=2, mode="bilinear"),
                           F.interpolate(x, size=(3, 9), mode="bilinear", align_corners=True),
                           F.interpolate(x, scale_factor=2, mode="bicubic"),
                           F.interpolate(x, scale_factor=0.5, mode="area")), torch.randn(2, 3, 4, 4))  # fmt: skip
add("attention", lambda q, m: (F.scaled_dot_product_attention(q, q + 1, q * 2),
                               F.scaled_dot_product_attention(q, q, q, is_causal=True),
                               F.scaled_dot_product_attention(q, q, q, attn_mask=m),
                               F.scaled_dot_product_attention(q, q, q, attn_mask=m > 0, scale=0.3),
                               F.scaled_dot_product_attention(q, q[:, :2], q[:, :2], enable_gqa=True)),
    torch.randn(2, 4, 5, 8), torch.randn(5, 5))  # fmt: skip
add("multi-head attention", nn.MultiheadAttention(8, 2, batch_first=True), *(torch.randn(2, 5, 8) for _ in range(3)))
add("lstm", Flat(nn.LSTM(4, 5, 2, batch_first=True)), torch.randn(2, 3, 4))
add("gru", Flat(nn.GRU(4, 5, bidirectional=True)), torch.randn(3, 2, 4))
add("rnn", Flat(nn.RNN(4, 5)), torch.randn(3, 2, 4))
add("complex numbers", lambda x: (torch.view_as_real(torch.polar(x.abs(), x) * torch.view_as_complex(
    torch.stack([x, x], -1))), torch.view_as_complex(x.view(3, 2, 2)).abs()), X)  # fmt: skip
add(
    "running results and logarithms of complex numbers",
    lambda x: tuple(
        torch.view_as_real(made)
        for z in [torch.complex(x, x.flip(0))]
        for made in (z.cumsum(0), z.cumprod(1), z.log2(), z.log10(), z.log1p())
    ),
    X,
)
add("NaN in complex numbers", lambda x: torch.view_as_real(
    torch.nan_to_num(torch.complex(x / 0, x * float("nan")), nan=1.5, neginf=-8.0)), X)  # fmt: skip


def parts(x: Tensor) -> Tensor:
    """Real and imaginary parts of complex numbers."""
    return torch.view_as_real(x.resolve_conj())


add("fourier", lambda x: (parts(torch.fft.fft(x)), parts(torch.fft.rfft(x, norm="ortho")), parts(torch.fft.ifft(x, 6)),
                          torch.fft.irfft(torch.fft.rfft(x)), parts(torch.fft.fft2(x))), X, raw=False)  # fmt: skip
add("columns", lambda x: (F.unfold(x, 3, padding=1, stride=2), F.unfold(x, (2, 3), dilation=2),
                          F.fold(F.unfold(x, 3, padding=1, stride=2), 7, 3, padding=1, stride=2)), IMAGE)  # fmt: skip
add("distances of pairs", lambda x: (F.pdist(x), F.pdist(x, 1.0), torch.cdist(x, x + 1)), X)
add("distances", lambda x: (F.cosine_similarity(x, x + 1), torch.trace(x @ x.T), torch.kron(x[:2, :2], x[:2, :2])), X,
    raw=False)  # fmt: skip
add("losses", lambda x, i: (F.cross_entropy(x, i), F.mse_loss(x, x + 1), F.l1_loss(x, x * 2),
                            F.nll_loss(x.log_softmax(1), i), F.smooth_l1_loss(x, x * 3), F.kl_div(x, x.softmax(1)),
                            F.binary_cross_entropy_with_logits(x, x.sigmoid())), X, torch.tensor([0, 3, 2]),
    raw=False)  # fmt: skip
