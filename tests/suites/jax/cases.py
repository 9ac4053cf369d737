"""The functions that are compared with JAX: what each takes, and of which types."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy as jsp
from jax import lax, random

A, B, V, M = "4x6", "4x6", "6", "5x5"
FLOATS = "float32 float16 bfloat16 float64"
INTEGERS = "int32 int8 uint32 int64 uint8"
COMPLEX = "complex64"
REAL = f"{FLOATS} {INTEGERS}"
NUMBERS = f"{REAL} {COMPLEX}"
ALL = f"{NUMBERS} bool"
WIDE = "float32 float64"


@dataclass(frozen=True)
class Case:
    """function: of arrays with these shapes. types: for which it runs; "i" before a shape: small integers, not of the
    type; "k": a key of random numbers; "p": positive numbers; "u": numbers of -1 to 1; "d": a positive definite matrix.
    exact: results are equal to the bit.
    """

    name: str
    function: Callable[..., Any]
    shapes: tuple[str, ...]
    types: str
    exact: bool = False


def _of_module(module: Any, prefix: str, names: str, shapes: tuple[str, ...], types: str) -> list[Case]:
    """Functions of a module by name, called with arrays alone."""
    return [Case(f"{prefix}.{name}", getattr(module, name), shapes, types) for name in names.split()]


def _with(prefix: str, types: str, shapes: tuple[str, ...], **functions: Callable[..., Any]) -> list[Case]:
    return [Case(f"{prefix}.{name}", function, shapes, types) for name, function in functions.items()]


NUMPY = [
    *_of_module(jnp, "jnp", "abs negative positive square sign conjugate real imag", (A,), NUMBERS),
    *_of_module(
        jnp,
        "jnp",
        "sin cos tan sinh cosh tanh arctan arcsinh exp exp2 expm1 cbrt degrees radians sinc i0 floor ceil trunc "
        "rint fabs isnan isinf isfinite isposinf isneginf signbit nan_to_num spacing deg2rad",
        (A,),
        FLOATS,
    ),
    *_of_module(
        jnp, "jnp", "sin cos exp sqrt log log1p expm1 tanh angle sinh cosh arcsin arctan arccosh", (A,), COMPLEX
    ),
    *_of_module(jnp, "jnp", "log log2 log10 log1p sqrt reciprocal", ("p4x6",), FLOATS),
    *_of_module(jnp, "jnp", "arcsin arccos arctanh", ("u4x6",), FLOATS),
    *_of_module(jnp, "jnp", "add subtract multiply maximum minimum equal not_equal", (A, V), NUMBERS),
    *_of_module(jnp, "jnp", "greater greater_equal less less_equal fmax fmin heaviside", (A, B), REAL),
    *_of_module(jnp, "jnp", "divide true_divide", (A, "p4x6"), NUMBERS),
    *_of_module(jnp, "jnp", "floor_divide mod remainder fmod divmod", (A, "p4x6"), REAL),
    *_of_module(jnp, "jnp", "arctan2 hypot logaddexp logaddexp2 copysign nextafter", (A, B), FLOATS),
    *_of_module(jnp, "jnp", "power float_power", ("p4x6", B), FLOATS),
    *_of_module(jnp, "jnp", "bitwise_and bitwise_or bitwise_xor gcd lcm", (A, B), INTEGERS),
    *_of_module(jnp, "jnp", "left_shift right_shift", (A, "p4x6"), INTEGERS),
    *_of_module(jnp, "jnp", "invert bitwise_count", (A,), INTEGERS),
    *_of_module(jnp, "jnp", "logical_and logical_or logical_xor", (A, B), ALL),
    *_of_module(
        jnp,
        "jnp",
        "sum prod max min mean var std median ptp any all argmax argmin cumsum cumprod sort argsort",
        (A,),
        REAL,
    ),
    *_of_module(jnp, "jnp", "nansum nanprod nanmax nanmin nanmean nanvar nanstd nanargmax nancumsum", (A,), FLOATS),
    *_of_module(jnp, "jnp", "sum prod mean var std sort argsort cumsum cumprod", (A,), COMPLEX),
    *_of_module(
        jnp,
        "jnp",
        "ravel flipud fliplr transpose rot90 tril triu diag diagonal trace zeros_like ones_like squeeze count_nonzero",
        (A,),
        ALL,
    ),
    *_of_module(jnp, "jnp", "dot matmul inner", (A, "6x6"), NUMBERS),
    *_of_module(jnp, "jnp", "outer kron vdot convolve correlate", (V, V), NUMBERS),
    *_of_module(jnp, "jnp", "cross", ("4x3", "4x3"), NUMBERS),
    *_of_module(jnp, "jnp", "allclose array_equal isclose", (A, A), FLOATS),
    *_of_module(jnp, "jnp", "vander trapezoid ediff1d diff gradient", (V,), FLOATS),
    *_of_module(jnp, "jnp", "polyval", (V, A), FLOATS),
    *_of_module(jnp, "jnp", "cov corrcoef", (A,), WIDE),
    *_with(
        "jnp",
        ALL,
        (A, B),
        where=lambda x, y: jnp.where(x == y, x, y),
        concatenate=lambda x, y: jnp.concatenate([x, y], 1),
        stack=lambda x, y: jnp.stack([x, y], -1),
        hstack=lambda x, y: jnp.hstack([x, y]),
        vstack=lambda x, y: jnp.vstack([x, y]),
        dstack=lambda x, y: jnp.dstack([x, y]),
        append=jnp.append,
    ),
    *_with(
        "jnp",
        ALL,
        (A,),
        reshape=lambda x: x.reshape(3, 8),
        roll=lambda x: jnp.roll(x, 2, 1),
        tile=lambda x: jnp.tile(x, (2, 3)),
        repeat=lambda x: jnp.repeat(x, 3, 0),
        split=lambda x: jnp.split(x, 3, 1),
        pad=lambda x: jnp.pad(x, ((1, 2), (0, 1))),
        pad_edge=lambda x: jnp.pad(x, 2, "edge"),
        pad_reflect=lambda x: jnp.pad(x, 2, "reflect"),
        pad_wrap=lambda x: jnp.pad(x, 2, "wrap"),
        flip=jnp.flip,
        moveaxis=lambda x: jnp.moveaxis(x, 0, 1),
        expand_dims=lambda x: jnp.expand_dims(x, 1),
        slices=lambda x: (x[1:, ::2], x[::-1], x[..., None], x[-1]),
        broadcast_to=lambda x: jnp.broadcast_to(x, (3, 4, 6)),
        full_like=lambda x: jnp.full_like(x, 1),
        astype=lambda x: (x.astype(jnp.float32), x.astype(bool)),
        atleast=jnp.atleast_3d,
        delete=lambda x: jnp.delete(x, 2, 1),
        insert=lambda x: jnp.insert(x, 2, x[0, 0], 1),
        eye=lambda x: jnp.eye(4, 6, dtype=x.dtype),
    ),
    *_with(
        "jnp",
        REAL,
        (A,),
        clip=lambda x: jnp.clip(x, 0, 2),
        partition=lambda x: jnp.partition(x, 2),
        argpartition=lambda x: jnp.argpartition(x, 2),
        percentile=lambda x: jnp.percentile(x.astype(jnp.float32), 30.0),
        quantile=lambda x: jnp.quantile(x.astype(jnp.float32), 0.4, 1),
        cummax=lambda x: lax.cummax(x, 1),
        cummin=lambda x: lax.cummin(x, 0),
        histogram=lambda x: jnp.histogram(x, 4)[0],
        digitize=lambda x: jnp.digitize(x, jnp.array([0, 1, 2])),
        searchsorted=lambda x: jnp.searchsorted(jnp.sort(x[0]), x[1]),
        nonzero=lambda x: jnp.nonzero(x, size=30),
        unique=lambda x: jnp.unique(x, size=24),
        argwhere=lambda x: jnp.argwhere(x, size=24),
        round=lambda x: jnp.round(x, 1),
        bincount=lambda x: jnp.bincount(jnp.abs(x).astype(jnp.int32).ravel(), length=9),
    ),
    *_with(
        "jnp",
        ALL,
        (A, "i3"),
        take=lambda x, i: jnp.take(x, i, 1),
        index=lambda x, i: (x[i], x[:, i], x[i, i]),
        at_set=lambda x, i: x.at[i].set(x[0]),
        at_add=lambda x, i: x.at[i].add(x[1]),
        take_along_axis=lambda x, i: jnp.take_along_axis(x, i[None], 1),
        choose_by=lambda x, i: x.at[:, i].get(mode="fill", fill_value=0),
    ),
    *_with(
        "jnp",
        NUMBERS,
        (A, "i3"),
        at_multiply=lambda x, i: x.at[i].multiply(x[1]),
        at_subtract=lambda x, i: x.at[i, i].subtract(x[1, :3]),
    ),
    *_with(
        "jnp",
        REAL,
        (A, "i3"),
        at_max=lambda x, i: x.at[i].max(x[1]),
        at_min=lambda x, i: x.at[i].min(x[1]),
        put_along_axis=lambda x, i: jnp.put_along_axis(x, i[None], 1, 1, inplace=False),
    ),
    *_with(
        "jnp",
        NUMBERS,
        (A, B),
        at_all=lambda x, y: (x.at[:].add(y), x.at[...].set(y), x[0, 0].at[()].multiply(y[0, 0])),
    ),
    *_with(
        "jnp",
        NUMBERS,
        ("2x4x6", "2x6x3"),
        matmul_batch=jnp.matmul,
        einsum=lambda x, y: jnp.einsum("bij,bjk->bki", x, y),
        tensordot=lambda x, y: jnp.tensordot(x, y, [[0, 2], [0, 1]]),
        einsum_sum=lambda x, y: jnp.einsum("bij,bjk->k", x, y),
    ),
    *_with(
        "jnp",
        "float32",
        (),
        arange=lambda: jnp.arange(2, 9, 2),
        linspace=lambda: jnp.linspace(0.0, 1.0, 7),
        logspace=lambda: jnp.logspace(0.0, 2.0, 5),
        geomspace=lambda: jnp.geomspace(1.0, 16.0, 5),
        meshgrid=lambda: jnp.meshgrid(jnp.arange(3), jnp.arange(4)),
        tri=lambda: jnp.tri(4, 5, 1),
        hanning=lambda: jnp.hanning(8),
        kaiser=lambda: jnp.kaiser(8, 3.0),
        identity=lambda: jnp.identity(4),
    ),
]

NN = [
    *_of_module(
        jax.nn,
        "nn",
        "relu relu6 sigmoid softplus soft_sign silu log_sigmoid leaky_relu hard_sigmoid hard_silu hard_tanh elu celu "
        "selu gelu glu softmax log_softmax logsumexp standardize mish squareplus",
        (A,),
        FLOATS,
    ),
    *_with(
        "nn",
        FLOATS,
        (A,),
        gelu_exact=lambda x: jax.nn.gelu(x, approximate=False),
        softmax_where=lambda x: jax.nn.softmax(x, where=x > -1, initial=-10),
        grad_softmax=jax.grad(lambda x: (jax.nn.log_softmax(x) ** 2).sum().astype(jnp.float32)),
        grad_gelu=jax.grad(lambda x: jax.nn.gelu(x).sum().astype(jnp.float32)),
    ),
    *_with(
        "nn",
        "float32 bfloat16",
        ("2x5x3x8", "2x7x3x8", "2x7x3x8"),
        attention=jax.nn.dot_product_attention,
        grad_attention=jax.grad(lambda q, k, v: jax.nn.dot_product_attention(q, k, v).sum(), (0, 1, 2)),
    ),
    *_with("nn", "float32", ("i6",), one_hot=lambda i: jax.nn.one_hot(i, 5)),
]

NCHW = ("NCHW", "OIHW", "NCHW")
LAX = [
    *_of_module(lax, "lax", "abs neg sign square", (A,), NUMBERS),
    *_of_module(lax, "lax", "exp log1p erf erfc tan cbrt is_finite", ("u4x6",), FLOATS),
    *_of_module(lax, "lax", "rsqrt sqrt log lgamma digamma bessel_i0e bessel_i1e", ("p4x6",), FLOATS),
    *_of_module(lax, "lax", "erf_inv asin acos atanh", ("u4x6",), FLOATS),
    *_of_module(lax, "lax", "population_count clz", (A,), INTEGERS),
    *_of_module(lax, "lax", "add sub mul max min", (A, B), NUMBERS),
    *_of_module(lax, "lax", "eq ne ge gt le lt", (A, B), REAL),
    *_of_module(lax, "lax", "div rem", (A, "p4x6"), REAL),
    *_of_module(lax, "lax", "atan2 nextafter", (A, B), FLOATS),
    *_of_module(lax, "lax", "pow igamma igammac zeta polygamma", ("p4x6", "p4x6"), WIDE),
    *_of_module(lax, "lax", "shift_left shift_right_logical shift_right_arithmetic", (A, "p4x6"), INTEGERS),
    *_with(
        "lax",
        FLOATS,
        (A,),
        integer_pow=lambda x: lax.integer_pow(x, 3),
        round=lambda x: (lax.round(x), lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN)),
        reduce_precision=lambda x: lax.reduce_precision(x, 5, 7),
        logistic=lax.logistic,
        top_k=lambda x: lax.top_k(x, 3),
        cumlogsumexp=lambda x: lax.cumlogsumexp(x, 1),
    ),
    *_with(
        "lax",
        REAL,
        (A,),
        top_k=lambda x: lax.top_k(x, 2),
        sort=lambda x: lax.sort((x, -x), num_keys=2),
        argmax=lambda x: lax.argmax(x, 1, jnp.int32),
        reduce_max=lambda x: lax.reduce_max(x, (0,)),
        reduce_window=lambda x: lax.reduce_window(x, x.dtype.type(0), lax.add, (2, 2), (1, 2), "SAME"),
        cumsum=lambda x: lax.cumsum(x, 1, reverse=True),
        cumprod=lambda x: lax.cumprod(x, 0),
    ),
    *_with(
        "lax",
        ALL,
        (A, "i"),
        dynamic_slice=lambda x, i: lax.dynamic_slice(x, (i, 0), (2, 3)),
        dynamic_update=lambda x, i: lax.dynamic_update_slice(x, x[:2, :2], (i, i)),
        dynamic_index=lambda x, i: lax.dynamic_index_in_dim(x, i, 1),
        rev=lambda x, i: lax.rev(x, (0, 1)),
        cond=lambda x, i: lax.cond(i > 1, lambda v: v, lambda v: v[::-1], x),
        switch=lambda x, i: lax.switch(i, [lambda v: v, lambda v: v[::-1], lambda v: v[:, ::-1]], x),
    ),
    *_with(
        "lax",
        NUMBERS,
        (A,),
        fori=lambda x: lax.fori_loop(0, 3, lambda i, c: c + x, x),
        scan=lambda x: lax.scan(lambda c, r: (c + r, c), x[0], x),
        while_loop=lambda x: lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] + x), (0, x)),
        associative_scan=lambda x: lax.associative_scan(jnp.add, x),
        map=lambda x: lax.map(lambda r: r.sum(), x),
    ),
    *_with(
        "lax",
        f"{FLOATS} int32 complex64",
        ("2x3x8x8", "4x3x3x3"),
        conv=lambda x, w: lax.conv_general_dilated(x, w, (2, 1), "SAME", dimension_numbers=NCHW),
        conv_dilated=lambda x, w: lax.conv_general_dilated(
            x, w, (1, 1), ((1, 2), (0, 1)), rhs_dilation=(2, 1), dimension_numbers=NCHW
        ),
        conv_transposed=lambda x, w: lax.conv_general_dilated(
            x, w, (1, 1), "SAME", lhs_dilation=(2, 2), dimension_numbers=NCHW
        ),
    ),
    *_with(
        "lax",
        f"{FLOATS} int32",
        ("2x4x8x8", "6x2x3x3"),
        conv_grouped=lambda x, w: lax.conv_general_dilated(
            x, w, (1, 1), "VALID", dimension_numbers=NCHW, feature_group_count=2
        ),
    ),
    *_with(
        "lax",
        FLOATS,
        ("2x8x8x3",),
        max_pool=lambda x: lax.reduce_window(x, x.dtype.type(-jnp.inf), lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"),
        grad_max_pool=jax.grad(
            lambda x: (
                lax.reduce_window(x, x.dtype.type(-jnp.inf), lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID") ** 2
            ).sum()
        ),
    ),
    *_with("lax", "float32 int32 uint32", (A,), bitcast=lambda x: lax.bitcast_convert_type(x, jnp.uint8)),
    *_with(
        "fft",
        "complex64 complex128",
        (A,),
        fft=jnp.fft.fft,
        ifft=jnp.fft.ifft,
        fft2=jnp.fft.fft2,
        irfft=jnp.fft.irfft,
        fftshift=jnp.fft.fftshift,
    ),
    *_with("fft", WIDE, (A,), rfft=jnp.fft.rfft, rfft2=jnp.fft.rfft2, fft=jnp.fft.fft, hfft=jnp.fft.hfft),
]

SCIPY = [
    *_of_module(jsp.special, "special", "erf erfc expit log_ndtr ndtr entr i0 i0e i1 i1e", (A,), WIDE),
    *_of_module(jsp.special, "special", "gammaln digamma gamma factorial", ("p4x6",), WIDE),
    *_of_module(jsp.special, "special", "erfinv", ("u4x6",), WIDE),
    *_of_module(
        jsp.special,
        "special",
        "xlogy xlog1py rel_entr kl_div betaln beta gammainc gammaincc zeta",
        ("p4x6", "p4x6"),
        WIDE,
    ),
    *_with("special", WIDE, (A,), logsumexp=lambda x: jsp.special.logsumexp(x, 1), softmax=jsp.special.softmax),
    *_with("special", WIDE, ("p4x6", "p4x6", "p4x6"), betainc=lambda a, b, x: jsp.special.betainc(a, b, x / (x + 1))),
    *_with(
        "stats",
        WIDE,
        (A,),
        norm_pdf=jsp.stats.norm.pdf,
        norm_cdf=jsp.stats.norm.cdf,
        norm_logpdf=jsp.stats.norm.logpdf,
        laplace=jsp.stats.laplace.logpdf,
        cauchy=jsp.stats.cauchy.logpdf,
        t=lambda x: jsp.stats.t.logpdf(x, 3.0),
        logistic=jsp.stats.logistic.logpdf,
    ),
    *_with(
        "stats",
        WIDE,
        ("p4x6",),
        gamma=lambda x: jsp.stats.gamma.logpdf(x, 2.0),
        beta=lambda x: jsp.stats.beta.logpdf(x / (x + 1), 2.0, 3.0),
        expon=jsp.stats.expon.logpdf,
        poisson=lambda x: jsp.stats.poisson.logpmf(jnp.floor(x), 2.0),
        chi2=lambda x: jsp.stats.chi2.logpdf(x, 3.0),
    ),
]

LINALG = [
    *_with(
        "linalg",
        f"{WIDE} complex64",
        ("d",),
        cholesky=jnp.linalg.cholesky,
        cholesky_upper=lambda x: jsp.linalg.cholesky(x, lower=False),
        norm=jnp.linalg.norm,
        matrix_power=lambda x: jnp.linalg.matrix_power(x, 3),
        trace=jnp.trace,
    ),
    *_with(
        "linalg",
        WIDE,
        ("d",),
        det=jnp.linalg.det,
        slogdet=jnp.linalg.slogdet,
        inv=jnp.linalg.inv,
        pinv=jnp.linalg.pinv,
        lu=lambda x: jsp.linalg.lu(x),
        qr=jnp.linalg.qr,
        eigvalsh=jnp.linalg.eigvalsh,
        svdvals=lambda x: jnp.linalg.svd(x, compute_uv=False),
        expm=lambda x: jsp.linalg.expm(x / 20),
        cond=jnp.linalg.cond,
        matrix_rank=jnp.linalg.matrix_rank,
    ),
    *_with(
        "linalg",
        f"{WIDE} complex64",
        ("d",),
        eig=lambda x: (lambda w, v: (v * w) @ jnp.linalg.inv(v))(*jnp.linalg.eig(x)),
        eigvals=lambda x: jnp.sort(jnp.abs(jnp.linalg.eigvals(x))),
        eigh=lambda x: (lambda w, v: (v * w) @ v.conj().T)(*jnp.linalg.eigh(x)),
        schur=lambda x: (lambda t, q: q @ t @ q.conj().T)(*jsp.linalg.schur(x)),
        hessenberg=lambda x: (lambda h, q: q @ h @ q.conj().T)(*jsp.linalg.hessenberg(x, calc_q=True)),
        sqrtm=jsp.linalg.sqrtm,
    ),
    *_with(
        "linalg",
        f"{WIDE} complex64",
        ("d", "5x2"),
        solve_triangular=lambda a, y: jsp.linalg.solve_triangular(a, y, lower=True),
        solve_transposed=lambda a, y: jsp.linalg.solve_triangular(a, y, trans=2),
        cho_solve=lambda a, y: jsp.linalg.cho_solve((jnp.linalg.cholesky(a), True), y),
    ),
    *_with(
        "linalg",
        WIDE,
        ("d", "5x2"),
        solve=jnp.linalg.solve,
        lstsq=lambda a, y: jnp.linalg.lstsq(a, y)[0],
        grad_solve=jax.grad(lambda a, y: jsp.linalg.solve_triangular(a, y, lower=True).sum(), (0, 1)),
    ),
    *_with(
        "linalg",
        WIDE,
        (A,),
        norm_rows=lambda x: jnp.linalg.norm(x, axis=1),
        multi_dot=lambda x: jnp.linalg.multi_dot([x, x.T, x]),
        vector_norm=lambda x: jnp.linalg.norm(x, 3, 0),
    ),
]


def _drawn(name: str, function: Callable[..., Any], exact: bool = False) -> Case:
    return Case(f"random.{name}", function, ("k",), "float32", exact)


RANDOM = [
    _drawn("split", lambda k: random.split(k, 3), True),
    _drawn("fold_in", lambda k: random.fold_in(k, 7), True),
    *(_drawn(f"bits{n}", lambda k, n=n: random.bits(k, (7, 3), f"uint{n}"), True) for n in (8, 16, 32, 64)),
    *(_drawn(f"uniform_{d}", lambda k, d=d: random.uniform(k, (5, 4), d)) for d in FLOATS.split()),
    *(_drawn(f"normal_{d}", lambda k, d=d: random.normal(k, (5, 4), d)) for d in FLOATS.split()),
    *(_drawn(f"randint_{d}", lambda k, d=d: random.randint(k, (9,), 0, 100, d), True) for d in INTEGERS.split()),
    _drawn("normal_complex", lambda k: random.normal(k, (5,), "complex64")),
    _drawn("bernoulli", lambda k: random.bernoulli(k, 0.3, (20,)), True),
    _drawn("permutation", lambda k: random.permutation(k, 12), True),
    _drawn("choice", lambda k: random.choice(k, 9, (5,)), True),
    _drawn("choice_p", lambda k: random.choice(k, 3, (5,), p=jnp.array([0.2, 0.5, 0.3]))),
    _drawn("categorical", lambda k: random.categorical(k, jnp.arange(6.0), shape=(9,)), True),
    _drawn("gumbel", lambda k: random.gumbel(k, (6,))),
    _drawn("exponential", lambda k: random.exponential(k, (6,))),
    _drawn("laplace", lambda k: random.laplace(k, (6,))),
    _drawn("logistic", lambda k: random.logistic(k, (6,))),
    _drawn("cauchy", lambda k: random.cauchy(k, (6,))),
    _drawn("truncated_normal", lambda k: random.truncated_normal(k, -1.0, 2.0, (6,))),
    _drawn("rademacher", lambda k: random.rademacher(k, (6,)), True),
    _drawn("gamma", lambda k: random.gamma(k, 2.5, (6,))),
    _drawn("beta", lambda k: random.beta(k, 2.0, 3.0, (6,))),
    _drawn("dirichlet", lambda k: random.dirichlet(k, jnp.ones(4), (3,))),
    _drawn("poisson", lambda k: random.poisson(k, 3.0, (6,))),
    _drawn("binomial", lambda k: random.binomial(k, 9.0, 0.4, (6,))),
    _drawn("t", lambda k: random.t(k, 3.0, (6,))),
    _drawn("multivariate_normal", lambda k: random.multivariate_normal(k, jnp.zeros(3), jnp.eye(3) + 0.5, (4,))),
    _drawn("maxwell", lambda k: random.maxwell(k, (6,))),
    _drawn("pareto", lambda k: random.pareto(k, 2.0, (6,))),
    _drawn("weibull", lambda k: random.weibull_min(k, 1.0, 2.0, (6,))),
    _drawn("ball", lambda k: random.ball(k, 3, 2.0, (4,))),
    _drawn("orthogonal", lambda k: random.orthogonal(k, 3)),
    _drawn("geometric", lambda k: random.geometric(k, 0.3, (6,))),
    _drawn("key", lambda k: random.uniform(random.key(3), (4,))),
    *(
        _drawn(
            f"{name}_{d}", lambda k, a=a, d=d: lax.rng_bit_generator(jnp.tile(k, 2), (5, 3), d, algorithm=a)[1], True
        )
        for name, a in (("philox", lax.RandomAlgorithm.RNG_PHILOX), ("threefry", lax.RandomAlgorithm.RNG_THREE_FRY))
        for d in ("uint8", "uint16", "uint32", "uint64")
    ),
]

CASES = [*NUMPY, *NN, *LAX, *SCIPY, *LINALG, *RANDOM]
