"""Single operators of PyTorch in each of their forms, with static and with dynamic sizes."""

from __future__ import annotations

from typing import Any

import torch
import torch.ao.quantization.fx._decomposed
import torch.nn.functional as F  # noqa: N812
from forms import Forms
from torch import Tensor

aten, prims, quantized = torch.ops.aten, torch.ops.prims, torch.ops.quantized_decomposed
OPERATOR_FORMS = Forms()
form, sizes = OPERATOR_FORMS.form, OPERATOR_FORMS.sizes
torch.manual_seed(0)
X, Y = torch.randn(3, 4), torch.randn(3, 4)
I, J = torch.randint(-5, 6, (3, 4)), torch.randint(1, 6, (3, 4))  # noqa: E741
H, BF, D = X.half(), X.bfloat16(), X.double()
SQUARE = torch.randn(2, 4, 4) + 3 * torch.eye(4)
IMAGE = torch.randn(2, 4, 7, 9)
NAN = torch.tensor([[1.0, float("nan"), -0.0, 2.0], [float("inf"), -1.0, 0.0, float("nan")], [-2.0, 3.0, -3.0, 1.0]])

# -- views and prims

form("as_strided", lambda x: (x.as_strided((2, 3), (1, 2)), x.as_strided((2, 2), (4, 1), 3), x.as_strided((3,), (0,)),
                              x.as_strided((4, 3), (1, 4))), X)  # fmt: skip
form("as_strided of views", lambda x: (x.t().as_strided((2, 3), (1, 2)), x[1:].as_strided((2, 2), (4, 1)),
                                       x[:, 1:3].as_strided((2, 2), (1, 1), 0), x[1].as_strided((2,), (2,), 1),
                                       (x.t() * 2).as_strided((2, 3), (3, 1))), X)  # fmt: skip
form("as_strided of overlapping windows", lambda x: x.as_strided((2, 9, 3), (12, 1, 1)), torch.randn(2, 12))
sizes("as_strided by sizes", lambda x: x.as_strided((x.shape[1], x.shape[0]), (1, x.shape[1])), (0, 1),
        (3, 4), (5, 2), (2, 7))  # fmt: skip
sizes("roll beyond the size", lambda x: (x.roll(7, 0), x.roll((-7, 1), (0, 1)), x.roll(4), x.roll(x.shape[0] - 3, 0)),
        (0,), (4, 3), (2, 3), (9, 3))  # fmt: skip
form("as_strided_scatter", lambda x, y: torch.as_strided_scatter(x, y[0, :3], (3,), (5,)), X, Y)
form("as_strided_copy", lambda x: torch.as_strided_copy(x, (2, 3), (1, 2)), X)
form(
    "views that are copied",
    lambda x: (
        torch.view_copy(x, [2, 6]),
        torch.permute_copy(x, [1, 0]),
        torch.expand_copy(x[:1], [3, 4]),
        torch.select_copy(x, 0, 1),
        torch.slice_copy(x, 1, 1, 3),
        torch.transpose_copy(x, 0, 1),
        *torch.unbind_copy(x),
        *torch.split_copy(x, 2, 1),
        torch.diagonal_copy(x),
        torch.unsqueeze_copy(x, 1),
        torch.squeeze_copy(x[:1]),
    ),
    X,
)
form("_reshape_alias", lambda x: aten._reshape_alias(x, [2, 6], [6, 1]), X)
form("prims views", lambda x: (prims.collapse_view(x[None], 0, 1), prims.view_of(x), prims.squeeze(x[:, None], [1]),
                               prims.split_dim(x, 1, 2), prims.transpose(x, [1, 0]),
                               prims.broadcast_in_dim(x, [3, 2, 4], [0, 2])), X)  # fmt: skip
form("prims.collapse", lambda x: prims.collapse(x[None], 0, 2), X)
form("prims.iota", lambda x: (prims.iota(5, start=2, step=3, dtype=torch.int64, device="cpu", requires_grad=False),
                              prims.iota(4, start=3, step=-1, dtype=torch.int32, device="cpu", requires_grad=False),
                              x), X)  # fmt: skip
form("prims reductions", lambda x, i: (prims.sum(x, [1]), prims.prod(x, [0]), prims.sum(i, [0, 1]), prims.amax(x, [1]),
                                       prims.amin(x, [0]), prims.var(x, [1], 1.0)), X, I)  # fmt: skip
form("prims of elements", lambda x, y: (prims.add(x, y), prims.sub(x, y), prims.mul(x, y), prims.div(x, y),
                                        prims.maximum(x, y), prims.neg(x), prims.exp(x), prims.tanh(x), prims.sqrt(
                                            prims.abs(x)), prims.where(prims.lt(x, y), x, y)), X, Y)  # fmt: skip
sizes("prims.split_dim of sizes", lambda x: (prims.split_dim(x, 1, 2), prims.sum(x, [0])), (0,), (3, 4), (5, 4))
form(
    "tril_indices",
    lambda x: (
        torch.tril_indices(3, 4),
        torch.triu_indices(4, 3, 1),
        torch.tril_indices(4, 2, -1),
        torch.triu_indices(2, 5, dtype=torch.int32),
        torch.tril_indices(0, 3),
        x,
    ),
    X,
)
form("tril_indices as places", lambda x: x[(slice(None), *torch.triu_indices(4, 4, 1))], SQUARE)

# -- elements

form("fmin and fmax", lambda x, y, i, j: (torch.fmin(x, y), torch.fmax(x, y), torch.fmax(i, j), torch.fmin(y, x),
                                          torch.fmax(x, i), torch.fmin(x.half(), y.half())), NAN, Y, I, J)  # fmt: skip
form("signbit", lambda x, h, i: (torch.signbit(x), torch.signbit(h), torch.signbit(i), torch.signbit(i > 0),
                                 torch.signbit(x.double())), NAN, H, I)  # fmt: skip
form("ldexp", lambda x, i, h: (torch.ldexp(x, i), torch.ldexp(x, i[0].int()), torch.ldexp(i, i),
                               torch.ldexp(h, i), torch.ldexp(x * 1e-30, i + 130), torch.ldexp(i, x)),
     X, I, H)  # fmt: skip
form("frexp", lambda x: torch.frexp(x), X)
form("logcumsumexp", lambda x, h, n: (torch.logcumsumexp(x, 1), torch.logcumsumexp(x * 100, 0),
                                      torch.logcumsumexp(h, -1), torch.logcumsumexp(n, 1),
                                      torch.logcumsumexp(torch.full((3,), -float("inf")), 0)), X, H, NAN)  # fmt: skip
sizes("logcumsumexp of sizes", lambda x: torch.logcumsumexp(x, 1), (0, 1), (3, 4), (2, 7), (5, 1 + 1))
form("rrelu", lambda x: (F.rrelu(x), F.rrelu(x, 0.1, 0.5), aten.rrelu_with_noise(x, torch.ones_like(x), 0.2, 0.4)), X)
form("fake_quantize", lambda x: (
    torch.fake_quantize_per_tensor_affine(x, 0.1, 3, -128, 127),
    torch.fake_quantize_per_tensor_affine(x * 100, 0.1, 3, 0, 255),
    torch.fake_quantize_per_tensor_affine(x, torch.tensor(0.05), torch.tensor(2, dtype=torch.int32), -8, 7),
    *aten.fake_quantize_per_tensor_affine_cachemask(x * 10, 0.1, 3, -128, 127)), X)  # fmt: skip
form("fake_quantize by channel", lambda x, s: (
    torch.fake_quantize_per_channel_affine(x, s, torch.tensor([0, 1, -2, 5], dtype=torch.int32), 1, -128, 127),
    *aten.fake_quantize_per_channel_affine_cachemask(x * 9, s, torch.zeros(4, dtype=torch.int32), 1, -8, 7)),
    X, torch.rand(4) * 0.1 + 0.01)  # fmt: skip
form("fake_quantize by learned scales", lambda x, s: (
    aten._fake_quantize_learnable_per_tensor_affine(x, s[:1], torch.zeros(1), -128, 127),
    aten._fake_quantize_learnable_per_channel_affine(x, s, torch.zeros(4), 1, -8, 7)),
    X, torch.rand(4) * 0.1 + 0.01)  # fmt: skip

form("gcd and lcm", lambda i, j: (torch.gcd(i, j), torch.lcm(i, j), torch.gcd(i, j[0]), torch.gcd(i * 0, j * 0),
                                  torch.gcd(i.abs().to(torch.uint8) * 12, j.to(torch.uint8) * 18)), I, J)  # fmt: skip
form("median", lambda x, i, n: (x.median(), i.median(), *x.median(1), *i.median(0, keepdim=True), n.median(), *n.median(
    1), n.nanmedian(), *n.nanmedian(1), n[0].nanmedian(0).values), X, I, NAN)  # fmt: skip
form(
    "median of no elements",
    lambda x, n: (x.median(), x.nanmedian(), n.median(), *x.median(1), *x.mode(1)),
    torch.empty(0, 3),
    torch.empty(3, 0).double(),
)
form("median of as many elements as the call has", lambda x: (x.median(), x.nanmedian()), X, dynamic=[[0]],
     more=[(torch.empty(0, 4),), (NAN,), (NAN[1:] / 0,)])  # fmt: skip
form("mode", lambda x, i: (*i.mode(), *i.mode(0, keepdim=True), x.round().mode(0)[0], i.flatten().mode()[0]), X, I)
form("diagonal_scatter", lambda x, y: (x.diagonal_scatter(y[0, :3]), x.diagonal_scatter(y[0, :3], 1),
                                       x.diagonal_scatter(y[0, :2], -1), x[:, :, None].expand(3, 4, 2).diagonal_scatter(
                                           y[:, :2], 0, 1, 2)), X, Y)  # fmt: skip
form("linspace of tensors", lambda x, y: (torch.linspace(x[0, 0], y[0, 0], 7), torch.linspace(x[0, 0], 3.0, 1),
                                          torch.linspace(2, y[0, 1], 4)), X, Y)  # fmt: skip

form(
    "special functions",
    lambda x, h: (
        torch.lgamma(x.abs() + 0.1),
        torch.digamma(x.abs() + 0.1),
        torch.erfinv(x.tanh()),
        torch.polygamma(0, x.abs() + 1),
        torch.polygamma(2, x.abs() + 1),
        torch.special.zeta(x.abs() + 1.5, x.abs() + 1),
        torch.lgamma(h.abs() + 1),
        *(function(x * 9) for function in (torch.i0, torch.special.i0e, torch.special.i1, torch.special.i1e)),
    ),
    X,
    H,
)
POLES = torch.tensor([0.0, -0.0, -1.0, -2.0, -33.0, -1e10, -float("inf"), float("nan")])
BETWEEN = torch.tensor([-1.5, -9.25, -33.75, -2.7, -0.99, -1e-3, 1e-3, 0.25, 0.5, 3.3, 100.0, 1e6, 1e30])
for dtype in (torch.float32, torch.float64):
    form(
        f"digamma, lgamma and polygamma at poles, {dtype}",
        lambda x: (
            torch.digamma(x),
            torch.lgamma(x),
            *(torch.polygamma(n, x) for n in (0, 2, 3, 4)),
            torch.polygamma(1, x[:2]),
            *(torch.special.zeta(n, x) for n in (1.0, 2.0, 3.0)),
            torch.special.zeta(2.5, x[:-1]),
        ),
        POLES.to(dtype),
    )
    form(f"digamma, polygamma and zeta between poles, {dtype}", lambda x: (
        torch.digamma(x), *(torch.polygamma(n, x) for n in (0, 1, 2, 3, 7)), *(
            torch.special.zeta(s, x) for s in (2.0, 3.0, 2.5, 1.0, 0.5))), BETWEEN.to(dtype))  # fmt: skip
form("digamma of tiny and huge numbers", lambda x, h: (
    torch.digamma(x), torch.polygamma(1, x), torch.special.zeta(2.0, x), torch.digamma(h)),
    torch.tensor([1e-18, -1e-18, 1e18, 1e30]), torch.tensor([0.0, -0.0, float("inf")]).half())  # fmt: skip
form("nextafter and angle", lambda x, y, i: (torch.nextafter(x, y), torch.nextafter(x, x), torch.angle(x), torch.angle(
    i), torch.angle(torch.complex(x, y))), X, Y, I)  # fmt: skip
form(
    "conjugates",
    lambda x, y: (
        z := torch.complex(x, y),
        torch.conj_physical(z),
        aten._conj_physical(z),
        torch.view_as_real(z.conj() * z),
    ),
    X,
    Y,
)
form("dist", lambda x, y: (torch.dist(x, y), torch.dist(x, y[0], 1), torch.dist(x, y, float("inf"))), X, Y)

# -- products

form("_int_mm", lambda x, y: torch._int_mm(x, y), *(torch.randint(-128, 128, s, dtype=torch.int8)
                                                    for s in ((20, 16), (16, 24))))  # fmt: skip
form("_int_mm, dynamic", lambda x, y: torch._int_mm(x, y), *(
    torch.randint(-128, 128, s, dtype=torch.int8) for s in ((20, 16), (16, 24))), dynamic=[[0], []],
    more=[tuple(torch.randint(-128, 128, s, dtype=torch.int8) for s in ((33, 16), (16, 24)))])  # fmt: skip
F8 = (torch.randn(32, 16), torch.randn(24, 16))


def scaled(x: Tensor, y: Tensor, *given: Tensor, **kinds: Any) -> Tensor:
    """_scaled_mm of matrices that are converted to 8-bit floats in the program."""
    return torch._scaled_mm(x.to(torch.float8_e4m3fn), y.to(torch.float8_e4m3fn).t(), *given, **kinds)


form("_scaled_mm", lambda x, y: (
    scaled(x, y, torch.tensor(0.5), torch.tensor(2.0), out_dtype=torch.float32),
    scaled(x, y, torch.tensor(0.5), torch.tensor(0.25), out_dtype=torch.bfloat16),
    scaled(x, y, torch.tensor(0.5), torch.tensor(0.25), torch.arange(24).bfloat16(),
                     out_dtype=torch.bfloat16)), *F8)  # fmt: skip
form("_scaled_mm by rows", lambda x, y, s: scaled(
    x, y, s, torch.ones(1, 24) * 0.5, out_dtype=torch.bfloat16), *F8, torch.rand(32, 1))  # fmt: skip
form(
    "addbmm",
    lambda x, y: (
        torch.addbmm(x[0], x, y),
        torch.addbmm(x[0, 0], x, y, beta=0.5, alpha=2),
        torch.addbmm(x[0] / 0, x, y, beta=0),
        torch.baddbmm(x, x, y, beta=2),
    ),
    SQUARE,
    SQUARE,
)
form("addbmm of integers", lambda x, y: torch.addbmm(x[0], x, y, alpha=3), *(
    torch.randint(-5, 6, (2, 3, 3)) for _ in range(2)))  # fmt: skip
form("outer of two dtypes", lambda x, i, h: (torch.outer(x[0], i[0]), torch.outer(i[0], x[0]), torch.outer(h[0], x[0]),
                                             torch.ger(i[0].int(), i[1])), X, I, H)  # fmt: skip
form("_trilinear", lambda x, y, w: (aten._trilinear(x, w, y, [1, 3], [0], [1, 2], [2, 3]),
                                   aten._trilinear(x, w, y, [1, 3], [0], [1, 2], []),
                                   aten._trilinear(x, w, y, [1, 3], [0], [1, 2], [0, 3], 2)),
     torch.randn(2, 3), torch.randn(2, 5), torch.randn(4, 3, 5))  # fmt: skip
form("conv_tbc", lambda x, w, b: (torch.conv_tbc(x, w, b), torch.conv_tbc(x, w, b, 1)), torch.randn(6, 2, 3),
     torch.randn(3, 3, 5), torch.randn(5))  # fmt: skip
form("_convolution", lambda x, w, b: (
    aten._convolution(x, w, b, [2, 1], [1, 0], [1, 1], False, [0, 0], 1, False, False, True, True),
    aten._convolution(x, w.transpose(0, 1), None, [2, 1], [1, 0], [1, 1], True, [1, 0], 1, False, False, True, True)),
    IMAGE, torch.randn(6, 4, 3, 3), torch.randn(6))  # fmt: skip
form(
    "_convolution without the last argument",
    lambda x, w: aten._convolution.deprecated(
        x, w, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1, False, False, False
    ),
    IMAGE,
    torch.randn(6, 4, 3, 3),
)

# -- linear algebra

form("det", lambda x: (torch.linalg.det(x), torch.det(x[0]), torch.linalg.det(x.double()),
                       torch.linalg.det(x[..., :1, :1]), torch.linalg.det(x.flip(-1))), SQUARE)  # fmt: skip
form("slogdet", lambda x: (*torch.linalg.slogdet(x), *torch.slogdet(x[0].flip(0))), SQUARE)
form("logdet", lambda x: torch.logdet(x @ x.mT), SQUARE)
form("logdet of complex matrices", lambda x, y, d: (
    z := torch.complex(x, y), torch.logdet(z), torch.logdet(z[0] * -1e20), torch.logdet(d)), SQUARE, SQUARE.flip(-1),
    torch.diag_embed(torch.tensor([[1j, 1j], [-1j, -1j], [-2.0 + 0j, 1j], [1e30 + 0j, -1e30j]])))  # fmt: skip
form("inv", lambda x: (torch.linalg.inv(x), torch.inverse(x[0].flip(0)), *torch.linalg.inv_ex(x)), SQUARE)
form(
    "solve",
    lambda x: (
        torch.linalg.solve(x, x + 1),
        torch.linalg.solve(x, x[:, 0]),
        torch.linalg.solve(x[0], x[1]),
        torch.linalg.solve(x[0], x[1, 0]),
        torch.linalg.solve(x, x + 1, left=False),
    ),
    SQUARE,
)
form("solve of a zero pivot", lambda x: torch.linalg.solve(x.flip(-1) * (1 - torch.eye(4)) + torch.eye(4).roll(1, 0),
                                                           x), SQUARE)  # fmt: skip
sizes("linalg of sizes", lambda x: (torch.linalg.inv(x), torch.linalg.det(x)), (0,), (2, 3, 3), (5, 3, 3), (3, 3, 3))
form("lu", lambda x: (*torch.linalg.lu_factor(x), *torch.linalg.lu(x), torch.linalg.lu_solve(
    *torch.linalg.lu_factor(x), x + 1)), SQUARE)  # fmt: skip
form("cholesky", lambda x: (torch.linalg.cholesky(x @ x.mT), torch.linalg.cholesky(x @ x.mT, upper=True),
                            torch.cholesky_solve(x, torch.linalg.cholesky(x @ x.mT)),
                            torch.cholesky_inverse(torch.linalg.cholesky(x @ x.mT))), SQUARE)  # fmt: skip
form("factors with the number of a failure", lambda x: (
    *torch.linalg.cholesky_ex(x @ x.mT), *torch.linalg.lu_factor_ex(x), *torch.linalg.solve_ex(x, x + 1),
    *torch.lu_unpack(*torch.linalg.lu_factor(x[:, :3])), torch.linalg.cholesky_ex(x - 5)[1]), SQUARE)  # fmt: skip
form("qr", lambda x: (lambda q, r: (q.abs(), r.abs(), q @ r))(*torch.linalg.qr(x[..., :3])), SQUARE)
form("geqrf", lambda x: (*torch.geqrf(x), torch.linalg.householder_product(*torch.geqrf(x))), SQUARE)
form("triangular", lambda x: (
    torch.linalg.solve_triangular(x.triu(), x, upper=True), torch.linalg.solve_triangular(x, x, upper=False),
    torch.linalg.solve_triangular(x, x, upper=True, left=False, unitriangular=True),
    *torch.triangular_solve(x, x.tril(), upper=False, transpose=True)), SQUARE)  # fmt: skip


def eigenvectors(x: Tensor, **given: Any) -> Any:
    """Eigenvalues, and what eigenvectors give whatever their signs are."""
    a = x + x.mT
    v, q = torch.linalg.eigh(a, **given)
    return v, q @ torch.diag_embed(v) @ q.mT, q.mT @ q, torch.linalg.eigvalsh(a)


def singular(x: Tensor, full: bool) -> Any:
    """Singular values, and what singular vectors give whatever their signs are."""
    u, s, vt = torch.linalg.svd(x, full_matrices=full)
    k = min(x.shape[-2:])
    return s, u[..., :k] @ torch.diag_embed(s) @ vt[..., :k, :], u.mT @ u, vt @ vt.mT, torch.linalg.svdvals(x)


def general(x: Tensor) -> Any:
    """What is the same for all orders of eigenvalues and all phases of eigenvectors."""
    v, q = torch.linalg.eig(x)
    w = torch.linalg.eigvals(x)
    return (q @ torch.diag_embed(v) @ torch.linalg.inv(q), v.sum(-1), v.abs().prod(-1), w.sum(-1),
            torch.sort(w.abs(), -1)[0])  # fmt: skip


def hermitian(x: Tensor) -> Any:
    a = x + x.mH
    v, q = torch.linalg.eigh(a)
    return (v, q @ torch.diag_embed(v).to(q.dtype) @ q.mH, q.mH @ q, torch.linalg.eigvalsh(a),
            torch.linalg.pinv(a, hermitian=True), torch.linalg.lu_solve(*torch.linalg.lu_factor(x), a, adjoint=True),
            torch.linalg.lu_solve(*torch.linalg.lu_factor(x), a, left=False))  # fmt: skip


TALL = torch.randn(2, 5, 3)
COMPLEX_SQUARE = torch.complex(SQUARE, torch.randn(SQUARE.shape))
form("eig", general, SQUARE)
form("eig of complex matrices", general, COMPLEX_SQUARE)
form("eigh of complex matrices", hermitian, COMPLEX_SQUARE)
form("eigh", eigenvectors, SQUARE)
form("eigh of an odd order", lambda x: eigenvectors(x[:, :3, :3], UPLO="U"), SQUARE.double())
form("eigh of equal eigenvalues", eigenvectors, torch.stack([torch.eye(3), torch.ones(3, 3), torch.zeros(3, 3)]))
form("svd", lambda x, y: (*singular(x, False), *singular(x.mT, False), *singular(y, True)), TALL, SQUARE[0])
form("svd with all vectors", lambda x: (*singular(x, True), *singular(x.mT, True)), TALL.double())
form("svd of matrices without full rank", lambda x: singular(x[:, :, [0, 0, 1]], True), TALL)
form("pinv", lambda x: (torch.linalg.pinv(x), torch.linalg.pinv(x[:, :, [0, 0, 1]], rtol=1e-3), torch.linalg.pinv(
    x.mT, atol=torch.tensor([0.1, 2.0]), rtol=torch.tensor(1e-4))), TALL)  # fmt: skip


def falling(m: int, n: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Two random matrices whose last singular value is below the precision of the type."""
    least = min(m, n)
    u, v = (torch.linalg.qr(torch.randn(2, k, k, dtype=torch.float64))[0][..., :least] for k in (m, n))
    values = torch.tensor([*[1.0, 0.3, 0.1][: least - 1], torch.finfo(dtype).eps / 8], dtype=torch.float64)
    return ((u * values) @ v.mT).to(dtype)


for m, n in ((4, 4), (5, 3), (2, 6), (3, 3)):
    form(f"pinv of falling values, {m} by {n}", lambda x, a: (
        torch.linalg.pinv(x, atol=0.0), torch.linalg.pinv(x, atol=a * 0), torch.linalg.pinv(x, atol=0.02),
        torch.linalg.pinv(x, atol=a), torch.linalg.pinv(x, atol=a, rtol=a * 9 + 0.01), torch.linalg.pinv(x, rtol=1e-2),
        torch.linalg.pinv(x, atol=0.0, rtol=1e-2), torch.linalg.pinv(x, 1e-2), torch.linalg.pinv(x, a[1:]),
        torch.pinverse(x, 1e-2)), falling(m, n), torch.tensor([0.0, 0.02]))  # fmt: skip
form("pinv of falling values, f64", lambda x: torch.linalg.pinv(x, atol=0.0), falling(3, 4, torch.float64))
form(
    "pinv of symmetric matrices",
    lambda x, y: (
        torch.linalg.pinv(x, hermitian=True),
        torch.linalg.pinv(-x, atol=0.5, hermitian=True),
        torch.linalg.pinv(x, rtol=torch.tensor([0.5, 0.0]), hermitian=True),
        torch.linalg.pinv(y, 1e-3, hermitian=True),
    ),
    SQUARE - 4 * torch.eye(4).roll(1, 0),
    torch.diag_embed(torch.tensor([[-2.0, 1e-4, 1.0], [0.0, 0.0, 0.0]])),
)


def in_units(x: Tensor, unit: Tensor) -> Any:
    """Decompositions of matrices whose elements are about a unit, [batch, 1], relative to it."""
    u, s, vt = torch.linalg.svd(x)
    v, q = torch.linalg.eigh(x)
    s, v, values = s / unit, v / unit, torch.linalg.svdvals(x) / unit
    return (s, u @ torch.diag_embed(s) @ vt, u.mT @ u, vt @ vt.mT, v, q @ torch.diag_embed(v) @ q.mT, q.mT @ q, values,
            torch.linalg.eigvalsh(x) / unit, torch.linalg.pinv(x) * unit[..., None])  # fmt: skip


for dtype, units in ((torch.float32, (1e-25, 1e-12, 1e20)), (torch.float64, (1e-100, 1e100))):
    for unit in units:
        column = torch.full((2, 1), unit, dtype=dtype)
        form(f"eigh, svd and pinv at {unit}, {dtype}", in_units, SQUARE.to(dtype) * unit, column)
    column = torch.tensor([units[0], units[-1], 1.0], dtype=dtype)[:, None]
    matrices = torch.stack([*SQUARE, torch.zeros(4, 4)]).to(dtype) * column[..., None]
    form(f"eigh, svd and pinv of a tiny, a huge and a zero matrix, {dtype}", in_units, matrices, column)
form("eigh of small orders", lambda x: (torch.linalg.eigvalsh(x[:, :1, :1]), torch.linalg.eigh(x[:, :2, :2])[0]),
     SQUARE)  # fmt: skip
form("diag_embed", lambda x: (torch.diag_embed(x), torch.diag_embed(x, 1), torch.diag_embed(x, -2, 0, 2)), X)

# -- elements at computed places

form("bincount", lambda i, x: (torch.bincount(i, minlength=9), torch.bincount(i, x, minlength=9)),
     torch.tensor([1, 3, 1, 8, 0, 3]), torch.randn(6))  # fmt: skip
form("bincount, dynamic", lambda i: torch.bincount(i), torch.tensor([1, 3, 1, 8, 0, 3]), dynamic=[[0]],
     more=[(torch.tensor([5, 5, 0]),), (torch.tensor([0, 0]),), (torch.tensor([1, 2, 3, 4, 20]),)])  # fmt: skip
form("histc", lambda x: (torch.histc(x, 5, -1.0, 1.0), torch.histc(x, 4)), X)
form("repeat_interleave", lambda x: (x.repeat_interleave(2), x.repeat_interleave(3, 0), x.repeat_interleave(2, -1)), X)
form(
    "repeat_interleave by a tensor",
    lambda x, r: (x.repeat_interleave(r, 0, output_size=5), torch.repeat_interleave(r, output_size=5)),
    X,
    torch.tensor([2, 0, 3]),
)
form("repeat_interleave by a tensor of unknown sum", lambda x, r: (
    x.repeat_interleave(r, 0), torch.repeat_interleave(r)), X, torch.tensor([2, 0, 3]), dynamic=[[], []],
    more=[(X, torch.tensor([1, 1, 5]))])  # fmt: skip
form("repeat_interleave of one count", lambda x, r: x.repeat_interleave(r, 1, output_size=8), X, torch.tensor([2]))
form("repeat_interleave, dynamic", lambda x, r: x.repeat_interleave(r, 0), X, torch.tensor([2, 0, 3]),
     dynamic=[[0], [0]], more=[(torch.randn(5, 4), torch.tensor([1, 0, 5, 2, 1]))])  # fmt: skip
form("_index_put_impl", lambda x, i, y: (
    aten._index_put_impl(x, [i[0].abs() % 3], y[:1].expand(4, 4), False),
    aten._index_put_impl(x, [i[0].abs() % 3, i[1].abs() % 4], y[0], True, True)), X, I, Y)  # fmt: skip
form("_index_put_impl_", lambda x, i, y: aten._index_put_impl_(x.clone(), [i[0].abs() % 3, i[1].abs() % 4], y[0], True),
     X, I, Y)  # fmt: skip

form("put", lambda x, i, y: (x.put(i[0].abs(), y[0]), x.put(i[0].abs(), y[0], True), x.put(-i[:1].abs() - 1, y[:1])),
     X, I, Y)  # fmt: skip
form(
    "numbers by an index",
    lambda x, i: (
        x[0, 0].index_select(0, i),
        x[0, 0].index_fill(0, i, 2.0),
        x[0, 0].index_add(0, i, x[0, 1]),
        x[0, 0].index_copy(0, i, x[0, 1]),
        x[0, 0].index_reduce(0, i, x[0, 1], "amax"),
    ),
    X,
    torch.tensor([0]),
)
form("writes to a diagonal", lambda x: (y := x.clone(), y.diagonal().mul_(2), y.diagonal(1).zero_())[0], X)

# -- numbers of 8 bits

form("quantized_decomposed by tensor", lambda x: (
    q := quantized.quantize_per_tensor(x, 0.05, 3, -128, 127, torch.int8),
    quantized.dequantize_per_tensor(q, 0.05, 3, -128, 127, torch.int8),
    quantized.quantize_per_tensor(x, 0.1, 128, 0, 255, torch.uint8)), X)  # fmt: skip
form("quantized_decomposed by scales of tensors", lambda x, s: (
    q := quantized.quantize_per_tensor.tensor(x, s, torch.tensor(3), -128, 127, torch.int8),
    quantized.dequantize_per_tensor.tensor(q, s, torch.tensor(3), -128, 127, torch.int8),
    quantized.dequantize_per_tensor.tensor2(q, s, torch.tensor(3), torch.tensor(-128), torch.tensor(127), torch.int8),
    quantized.quantize_per_tensor.tensor2(x, s, torch.tensor(3), torch.tensor(-9), torch.tensor(8), torch.int8)),
    X, torch.tensor(0.05))  # fmt: skip
form("quantized_decomposed by channel", lambda x, s: (
    q := quantized.quantize_per_channel(x, s, torch.tensor([0, 1, -2, 5]), 1, -128, 127, torch.int8),
    quantized.dequantize_per_channel(q, s, torch.tensor([0, 1, -2, 5]), 1, -128, 127, torch.int8),
    quantized.dequantize_per_channel(q, s, None, 1, -128, 127, torch.int8)), X, torch.rand(4) * 0.1 + 0.01)  # fmt: skip
form("quantized_decomposed by token", lambda x: (
    (c := quantized.choose_qparams_per_token(x, torch.int8))[0].float(), c[1].float(),
    q := quantized.quantize_per_token(x, *c, -128, 127, torch.int8),
    quantized.dequantize_per_token(q, *c, -128, 127, torch.int8, torch.float32)), X)  # fmt: skip
form("quantized_decomposed by computed scales", lambda x: quantized.choose_qparams.tensor(
    x, -128, 127, 1e-5, torch.int8), X)  # fmt: skip
sizes("quantized_decomposed of sizes", lambda x: quantized.dequantize_per_tensor(
    quantized.quantize_per_tensor(x, 0.05, 3, -128, 127, torch.int8), 0.05, 3, -128, 127, torch.int8), (0, 1),
    (3, 4), (5, 7))  # fmt: skip
