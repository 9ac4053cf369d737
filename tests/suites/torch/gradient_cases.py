"""Functions whose gradients `test_torch_gradients.py` compares with those of PyTorch."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {}
"""Name -> a function or module, and its arguments. Float tensors among them and parameters have gradients."""


def add(name: str, function: Callable[..., Any], *args: Any) -> None:
    CASES[name] = function, args


class SelfAttention(nn.Module):
    """Multi-head attention of a sequence to itself."""

    def __init__(self, need_weights: bool) -> None:
        super().__init__()
        self.inner = nn.MultiheadAttention(8, 2, batch_first=True)
        self.need_weights = need_weights

    def forward(self, x: Tensor) -> Any:
        return self.inner(x, x, x, need_weights=self.need_weights)


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
add(
    "transposed convolution, strided, in groups",
    nn.ConvTranspose2d(4, 6, (3, 2), stride=2, padding=1, output_padding=1, dilation=(1, 2), groups=2),
    IMAGE,
)
add(
    "transposed convolution with more padding than stride",
    nn.ConvTranspose1d(4, 3, 3, stride=1, output_padding=2, dilation=3),
    LINE,
)
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
    add(
        f"avg_pool{dims}d, rounded up, padding not counted",
        lambda x, f=avg_pool: f(x, 3, 2, 1, ceil_mode=True, count_include_pad=False),
        x,
    )
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
    for name, layer in (
        ("layer", nn.LayerNorm(8)),
        ("group", nn.GroupNorm(2, 4)),
        ("RMS", nn.RMSNorm(8)),
        ("instance", nn.InstanceNorm2d(4)),
        ("batch", nn.BatchNorm2d(4)),
        ("instance, with state", nn.InstanceNorm2d(4, affine=True, track_running_stats=True)),
        ("batch, in inference", nn.BatchNorm2d(4).eval()),
    ):
        add(f"normalization: {name}, {dtype}", copy.deepcopy(layer).to(dtype), IMAGE.to(dtype))
    if dtype != torch.float32:
        add(f"normalization: layer, {dtype} with weights in float32", nn.LayerNorm(8), IMAGE[0, 0, :2].to(dtype))
        add(f"normalization: batch, {dtype} with weights in float32", nn.BatchNorm2d(4), IMAGE.to(dtype))

# -- attention
Q, K, V = torch.randn(2, 4, 5, 8), torch.randn(2, 4, 7, 8), torch.randn(2, 4, 7, 8)
SEEN = torch.rand(2, 1, 5, 7) > 0.3
SEEN[0, 0, 2] = False  # a query that sees no key
sdpa = F.scaled_dot_product_attention
for dtype in (torch.float32, torch.bfloat16, torch.float16):
    q, k, v = Q.to(dtype), K.to(dtype), V.to(dtype)
    add(f"attention, {dtype}", sdpa, q, k, v)
    add(f"attention with a mask, {dtype}", lambda q, k, v: sdpa(q, k, v, attn_mask=SEEN), q, k, v)
add("attention, causal", lambda q, k, v: sdpa(q, k, v, is_causal=True, scale=0.3), Q, K, V)
add(
    "attention with a mask of floats",
    lambda q, k, v: sdpa(q, k, v, attn_mask=torch.where(SEEN, 0.5, float("-inf"))),
    Q,
    K,
    V,
)
add(
    "attention with a mask that has a gradient",
    lambda q, k, v, m: sdpa(q, k, v, attn_mask=m),
    Q,
    K,
    V,
    torch.randn(5, 7),
)
add("attention of grouped heads", lambda q, k, v: sdpa(q, k, v, enable_gqa=True), Q, K[:, :2], V[:, :2])
add("attention of three axes", sdpa, Q[0], K[0], V[0])
add("attention with values of another size", sdpa, Q, K, torch.randn(2, 4, 7, 3))
add("attention, double", sdpa, Q.double(), K.double(), V.double())
for needed in (True, False):
    add(f"multi-head attention, need_weights={needed}", SelfAttention(needed), Q[0])
add("encoder layer", nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True), Q[0])
add("decoder layer", nn.TransformerDecoderLayer(8, 2, 16, dropout=0.0, batch_first=True), Q[0], K[0])

# -- images in another size, and sampled at a grid
for mode in ("nearest", "nearest-exact", "linear"):
    add(f"interpolation: {mode} of a line", lambda x, m=mode: F.interpolate(x, 13, mode=m), LINE)
for mode in ("nearest", "nearest-exact", "bilinear", "bicubic"):
    for size in ((18, 16), (5, 11), (9, 30)):
        add(f"interpolation: {mode} to {size}", lambda x, m=mode, n=size: F.interpolate(x, n, mode=m), IMAGE)
    add(f"interpolation: {mode} by factors", lambda x, m=mode: F.interpolate(x, scale_factor=(1.7, 0.6), mode=m), IMAGE)
for mode in ("bilinear", "bicubic"):
    add(
        f"interpolation: {mode}, corners aligned",
        lambda x, m=mode: F.interpolate(x, (7, 12), mode=m, align_corners=True),
        IMAGE,
    )
for mode in ("nearest", "nearest-exact", "trilinear"):
    add(f"interpolation: {mode} of a volume", lambda x, m=mode: F.interpolate(x, (8, 3, 10), mode=m), VOLUME)
GRID = torch.rand(2, 5, 6, 2) * 3 - 1.5
for mode in ("nearest", "bilinear", "bicubic"):
    for beyond in ("zeros", "border", "reflection"):
        for corners in (True, False):
            add(
                f"grid_sample: {mode}, {beyond}, align_corners={corners}",
                lambda x, g, m=mode, b=beyond, c=corners: F.grid_sample(x, g, m, b, c),
                IMAGE,
                GRID,
            )
add(
    "grid_sample of a volume",
    lambda x, g: F.grid_sample(x, g, align_corners=False),
    VOLUME,
    torch.rand(2, 3, 4, 2, 3) * 3 - 1.5,
)
add(
    "grid_sample with an affine grid",
    lambda x, m: F.grid_sample(x, F.affine_grid(m, [2, 4, 5, 5], False), align_corners=False),
    IMAGE,
    torch.randn(2, 2, 3),
)

# -- distances
ROWS = torch.randn(4, 5)
for order in (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, float("inf")):
    add(f"cdist of order {order}", lambda x, y, p=order: torch.cdist(x, y, p), ROWS, torch.randn(2, 3, 5))
    add(f"pdist of order {order}", lambda x, p=order: torch.pdist(x, p), ROWS)
add("cdist of equal rows", lambda x: torch.cdist(x, x.detach()), ROWS)
add("cdist of many rows", torch.cdist, torch.randn(30, 4), torch.randn(31, 4))
add("pdist of one row", torch.pdist, ROWS[:1])

# -- padding
for mode in ("constant", "reflect", "replicate", "circular"):
    for pads, x in (((2, 1), LINE), ((2, 1, 0, 3), IMAGE), ((1, 2, 3, 0, 1, 1), VOLUME)):
        add(f"padding: {mode} by {pads}", lambda x, n=pads, m=mode: F.pad(x, n, m), x)
add("padding: replicate by less than nothing", lambda x: F.pad(x, (-2, 1, 3, -3), "replicate"), IMAGE)
add("padding: replicate of one element", lambda x: F.pad(x, (2, 1), "replicate"), LINE[..., :1])

# -- weights, and elements that are chosen
MASK = torch.rand(4, 5) > 0.5
for axis in (0, 1):
    add(f"weight_norm along axis {axis}", torch.nn.utils.parametrizations.weight_norm(nn.Linear(5, 3), dim=axis), ROWS)
add("spectral_norm", torch.nn.utils.parametrizations.spectral_norm(nn.Linear(5, 3)).eval(), ROWS)
add("masked_scatter", lambda x, y: x.masked_scatter(MASK, y), ROWS, torch.randn(5, 5))
for mode in ("bilinear", "bicubic"):
    for size in ((18, 16), (4, 5)):
        add(
            f"interpolation: {mode} to {size}, antialiased",
            lambda x, m=mode, n=size: F.interpolate(x, n, mode=m, antialias=True),
            IMAGE,
        )

DYNAMIC: dict[str, tuple[Callable[..., Any], tuple[int, ...]]] = {
    "convolution": (nn.Conv2d(2, 3, 3, stride=2, padding=1), (3, 2, 9, 8)),
    "transposed convolution": (nn.ConvTranspose2d(2, 3, 3, stride=2, padding=1), (3, 2, 5, 6)),
    "max_pool2d": (lambda x: F.max_pool2d(x, 2), (3, 2, 9, 8)),
    "avg_pool2d": (lambda x: F.avg_pool2d(x, 3, 2, 1), (3, 2, 9, 8)),
    "adaptive_avg_pool2d": (lambda x: F.adaptive_avg_pool2d(x, 3), (3, 2, 9, 8)),
    "adaptive_avg_pool2d to 1": (lambda x: F.adaptive_avg_pool2d(x, 1), (3, 2, 9, 8)),
    "adaptive_max_pool2d": (lambda x: F.adaptive_max_pool2d(x, 3), (3, 2, 9, 8)),
    "nearest": (lambda x: F.interpolate(x, scale_factor=2), (3, 2, 9, 8)),
    "bilinear": (lambda x: F.interpolate(x, (7, 12), mode="bilinear"), (3, 2, 9, 8)),
    "batch normalization": (nn.BatchNorm2d(2), (4, 2, 9, 8)),
    "attention": (lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True), (4, 2, 5, 8)),
    "replicated padding": (lambda x: F.pad(x, (2, 1, 3, 1), "replicate"), (3, 2, 5, 6)),
    "grid_sample": (lambda x: F.grid_sample(x, x[:, :2].permute(0, 2, 3, 1).cos(), align_corners=False), (3, 2, 5, 6)),
    "cdist": (lambda x: torch.cdist(x, x.sin()), (3, 4, 5, 6)),
}
"""Name -> a function, and the shape of its argument, of which sizes that are neither 2 nor 8 change."""

# -- tables
TABLE, CHOSEN = torch.randn(10, 4), torch.tensor([2, 2, 5, 3, 9, 2])
BAGS, LIMITS = torch.tensor([0, 2, 2, 5]), torch.tensor([0, 2, 2, 5, 6])
add("embedding", lambda w: F.embedding(CHOSEN, w, padding_idx=5), TABLE)
add("embedding scaled by frequency", lambda w: F.embedding(CHOSEN, w, scale_grad_by_freq=True), TABLE)
for mode in ("sum", "mean", "max"):
    add(f"embedding_bag: {mode}", lambda w, m=mode: F.embedding_bag(CHOSEN, w, BAGS, mode=m), TABLE)
    add(
        f"embedding_bag: {mode}, with padding and all limits",
        lambda w, m=mode: F.embedding_bag(CHOSEN, w, LIMITS, mode=m, include_last_offset=True, padding_idx=2),
        TABLE,
    )
    add(
        f"embedding_bag: {mode}, bfloat16", lambda w, m=mode: F.embedding_bag(CHOSEN, w, BAGS, mode=m), TABLE.bfloat16()
    )
add(
    "embedding_bag with weights",
    lambda w, s: F.embedding_bag(CHOSEN, w, BAGS, mode="sum", per_sample_weights=s),
    TABLE,
    torch.rand(6),
)
add(
    "embedding_bag with weights and padding",
    lambda w, s: F.embedding_bag(CHOSEN, w, BAGS, mode="sum", per_sample_weights=s, padding_idx=2),
    TABLE,
    torch.rand(6),
)

# -- diagonals, and special functions
add("diagonals", lambda x: (x.diagonal(1), x.diagonal(-1) * 2, torch.diag_embed(x), x.trace()), ROWS)
add(
    "diagonal_scatter",
    lambda x, y: (x.diagonal_scatter(y, 1, 0, 2), x.diagonal_scatter(y[:, :3] * 2, -1, 0, 2)),
    torch.randn(4, 2, 5),
    torch.randn(2, 4),
)


def written_views(x: Tensor, y: Tensor) -> Tensor:
    x = x * 1
    x.diagonal(1).mul_(2).add_(y)
    x.narrow(1, 1, 2).mul_(y[:, None])
    return x


add("writes to diagonals and parts", written_views, torch.randn(4, 5), torch.randn(4))
add(
    "special functions",
    lambda x: (
        x.lgamma(),
        x.digamma(),
        torch.polygamma(1, x),
        torch.special.erfinv(x * 0.2),
        x.i0(),
        torch.special.i1e(x),
    ),
    torch.rand(3, 4) * 4 + 0.1,
)
add("sgn", lambda x: x.sgn() * x, ROWS)

# -- linear algebra, whose gradients take factors of the matrix or of its transpose
SQUARE = torch.randn(2, 4, 4) + 3 * torch.eye(4)
for name, way in (("contiguous", lambda x: x), ("transposed", lambda x: (x * 1).mT)):
    add(f"det and slogdet, {name}", lambda x, w=way: (w(x).det(), *torch.slogdet(w(x)), w(x).logdet()), SQUARE)
    add(
        f"solve and inv, {name}",
        lambda x, y, w=way: (torch.linalg.solve(w(x), y), torch.linalg.inv(w(x))),
        SQUARE,
        torch.randn(2, 4, 3),
    )
add("cholesky and qr", lambda x: (torch.linalg.cholesky(x @ x.mT + torch.eye(4)), *torch.linalg.qr(x)), SQUARE)
add(
    "lu_solve of the adjoint",
    lambda x, y: tuple(
        torch.linalg.lu_solve(*torch.linalg.lu_factor(x), y if left else y.mT, left=left, adjoint=True)
        for left in (True, False)
    ),
    SQUARE,
    torch.randn(2, 4, 3),
)

# -- elements at places of a flat tensor
add(
    "take and put",
    lambda x, y: (
        x.take(torch.tensor([0, 5, 5])),
        x.put(torch.tensor([7, 1]), y[0, :2], True),
        x.put(torch.tensor([7, -1]), y[0, :2]),
    ),
    ROWS,
    torch.randn(4, 5),
)
add("dist", lambda x, y: tuple(torch.dist(x, y, p) for p in (1.0, 2.0, 3.0)), ROWS, torch.randn(4, 5))
