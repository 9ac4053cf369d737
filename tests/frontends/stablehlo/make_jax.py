"""Writes `jax/<name>.mlir` and `.npz`: programs as JAX lowers them, with arguments and what JAX computes of them.

Run it with an interpreter that has JAX: `python make_jax.py`. Tests read the files and need no JAX.
"""

from __future__ import annotations

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax import export, lax

HERE = Path(__file__).parent / "jax"
S = jax.ShapeDtypeStruct
F32, I32, U32 = jnp.float32, jnp.int32, jnp.uint32
PROGRAMS = {}
rng = np.random.default_rng(0)


def program(*specs, kind="normal", symbolic=False):
    """Registers a function with the shapes of its arguments. kind: what its arguments are filled with."""

    def register(function):
        PROGRAMS[function.__name__] = (function, specs, kind, symbolic)
        return function

    return register


A, V = S((4, 6), F32), S((6,), F32)
IMAGES, KERNEL = S((2, 8, 8, 3), F32), S((3, 3, 3, 4), F32)
NHWC = ("NHWC", "HWIO", "NHWC")


# -- single features


@program(A)
def argmax(x):
    return jnp.argmax(x, -1), jnp.argmin(x, 0)


@program(A)
def softmax(x):
    return jax.nn.softmax(x), jax.nn.log_softmax(x, 0), jax.nn.logsumexp(x)


@program(A, A)
def binary(x, y):
    return x + y, x - y, x * y, x / y, x % y, jnp.abs(x) ** y, jnp.maximum(x, y), jnp.arctan2(x, y), jnp.clip(x, -1, 1)


@program(A)
def unary(x):
    return (
        jnp.ceil(x),
        jnp.cos(x),
        jnp.exp(x),
        jnp.expm1(x),
        jnp.isfinite(x),
        jnp.log1p(x * x),
        jax.nn.sigmoid(x),
        jnp.round(x),
        lax.round(x),
        lax.rsqrt(x * x),
        jnp.sign(x),
        jnp.cbrt(x),
        jnp.tanh(x),
        jax.nn.gelu(x),
    )


@program(A)
def special(x):
    y = jnp.abs(x) + 1
    return (
        lax.erf(x),
        lax.erfc(x),
        lax.erf_inv(x / 4),
        lax.lgamma(x),
        lax.digamma(y),
        jnp.arcsinh(x),
        jnp.arccosh(y),
        jnp.arctanh(x / 4),
        jnp.sinh(x),
        jnp.tan(x),
        jnp.nextafter(x, y),
        lax.zeta(y + 1, y),
        lax.bessel_i1e(x),
        lax.polygamma(jnp.floor(y), y),
    )


@program(S((4, 6), I32), S((4, 6), I32), kind="small")
def integers(x, y):
    return (
        x & y,
        x | y,
        x ^ y,
        ~x,
        x << y,
        x >> y,
        lax.shift_right_logical(x, y),
        lax.population_count(x),
        lax.clz(x),
        x // y,
        x % y,
        x**3,
        lax.div(x, y),
        lax.rem(x, y),
        jnp.left_shift(x, y * 20),
    )


@program(S((4, 6), U32), S((4, 6), U32), kind="small")
def unsigned(x, y):
    return x - y, x >> y, x // y, x % y, x < y, x.astype(F32), lax.bitcast_convert_type(x, F32)


@program(S((3, 5), jnp.complex64), S((3, 5), jnp.complex64))
def complex_numbers(x, y):
    return (
        jnp.exp(x) * y.conj(),
        x / y,
        jnp.real(x) + jnp.abs(y),
        jnp.sqrt(x),
        jnp.log(x),
        jnp.tanh(x),
        x == y,
        jnp.angle(x),
        jnp.sum(x, 0),
        x @ y.T,
    )


@program(A)
def conversions(x):
    return (
        x.astype(jnp.bfloat16),
        x.astype(jnp.float16),
        x.astype(jnp.int8),
        x.astype(jnp.float8_e4m3fn),
        x.astype(jnp.float8_e5m2),
        jnp.abs(x).astype(jnp.uint8),
        x.astype(bool),
        lax.reduce_precision(x, 5, 10),
    )


@program(A)
def arrangements(x):
    return (
        x.T,
        x.reshape(3, 8),
        x[None],
        x[0:4:2, 1:5],
        x[::-1],
        jnp.concatenate([x, x], 1),
        jnp.pad(x, 1),
        jnp.pad(x, ((2, 0), (0, 1)), "reflect"),
        lax.pad(x, 2.0, ((-1, 1, 0), (0, 2, 1))),
        jnp.eye(4),
        jnp.arange(5),
        jnp.tile(x, 2),
        jnp.roll(x, 2, 1),
        jnp.tril(x),
        jnp.broadcast_to(x[:, None], (4, 2, 6)),
    )


@program(A, S((3,), I32), S((3, 6), F32), kind="indices")
def places(x, i, u):
    return (
        x[i],
        x.at[i].add(u),
        x.at[i].set(u),
        x.at[i].max(u),
        x.at[1:3, 2].set(0.0),
        x[:, i],
        x[i, i + 1],
        jnp.take_along_axis(x[:3], i[:, None], 1),
        x.at[i, i].multiply(2.0),
        jax.vmap(lambda r: r[i])(x),
    )


@program(A, S((), I32), S((2, 3), F32), kind="indices")
def slices(x, i, u):
    return (
        lax.dynamic_slice(x, (i, 0), (2, 4)),
        lax.dynamic_update_slice(x, u, (i, i)),
        x[i],
        lax.dynamic_slice(x, (i + 7, -i), (2, 4)),
    )


@program(A)
def orders(x):
    return (
        jnp.sort(x, -1),
        jnp.argsort(x, 0),
        *lax.top_k(x, 3),
        jnp.median(x, 0),
        lax.sort((x, -x), num_keys=1),
        jnp.sort(x)[::-1],
    )


@program(A)
def running(x):
    return (
        jnp.cumsum(x, 1),
        jnp.cumprod(x, 0),
        lax.cummax(x, 1),
        lax.associative_scan(jnp.add, x),
        lax.cumsum(x, 0, reverse=True),
    )


@program(IMAGES)
def pooling(x):
    return (
        lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"),
        lax.reduce_window(x, 0.0, lax.add, (1, 3, 3, 1), (1, 2, 2, 1), "SAME"),
        lax.reduce_window(x, jnp.inf, lax.min, (1, 2, 2, 1), (1, 1, 1, 1), "SAME", window_dilation=(1, 2, 2, 1)),
    )


@program(IMAGES)
def pooling_gradient(x):
    def pooled(x):
        return (lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME") ** 2).sum()

    return jax.grad(pooled)(x)


@program(IMAGES, KERNEL)
def convolution(x, k):
    return (
        lax.conv_general_dilated(x, k, (2, 2), "SAME", dimension_numbers=NHWC),
        lax.conv_general_dilated(x, k, (1, 2), ((1, 2), (0, 1)), rhs_dilation=(2, 1), dimension_numbers=NHWC),
        lax.conv_transpose(x, k, (2, 2), "SAME"),
    )


@program(S((2, 8, 8, 4), F32), S((3, 3, 2, 6), F32))
def grouped(x, k):
    return lax.conv_general_dilated(x, k, (1, 1), "SAME", dimension_numbers=NHWC, feature_group_count=2)


@program(S((2, 8, 8, 4), F32), S((3, 3, 1, 8), F32))
def depthwise_gradient(x, k):
    def loss(x, k):
        y = lax.conv_general_dilated(x, k, (1, 1), "SAME", dimension_numbers=NHWC, feature_group_count=4)
        return (y**2).sum()

    return jax.grad(loss, (0, 1))(x, k)


@program(IMAGES, KERNEL)
def convolution_gradient(x, k):
    def loss(x, k):
        return (lax.conv_general_dilated(x, k, (2, 2), "SAME", dimension_numbers=NHWC) ** 2).sum()

    return jax.grad(loss, (0, 1))(x, k)


@program(S((2, 4, 3, 8), F32), S((2, 5, 3, 8), F32))
def products(x, y):
    return (
        jnp.einsum("bqhd,bkhd->bhqk", x, y),
        jnp.einsum("bqhd,bkhd->qk", x, y),
        jnp.tensordot(x[0], y[0, :4], [[1, 2], [1, 2]]),
    )


@program(A)
def loops(x):
    def step(carry, y):
        return carry + y, carry * y

    counted = lax.fori_loop(0, 5, lambda i, c: c * 2 + i, x)
    condition = lax.while_loop(lambda c: c[1].sum() < 40.0, lambda c: (c[0] + 1, c[1] + 1.0), (0, x))
    return counted, condition, lax.scan(step, jnp.zeros(6), x), lax.map(lambda r: r.sum(), x)


@program(S((), bool), S((), I32), A, kind="indices")
def branches(p, n, x):
    return (
        lax.cond(p, lambda x: x + 1, lambda x: x * 2, x),
        lax.switch(n, [lambda x: x + 1, lambda x: x * 2, lambda x: x - 3], x),
    )


@program(S((2,), U32), kind="small")
def keys(k):
    return (
        jax.random.uniform(k, (3, 5)),
        jax.random.normal(k, (4, 4)),
        jax.random.split(k),
        jax.random.bits(k, (7,)),
        jax.random.randint(k, (5,), 0, 100),
        jax.random.bernoulli(k, 0.3, (8,)),
        jax.random.permutation(k, 8),
    )


@program(S((4,), U32), kind="small")
def bits(k):
    algorithm = lax.RandomAlgorithm.RNG_PHILOX
    return *lax.rng_bit_generator(k, (3, 5)), *lax.rng_bit_generator(k, (10,), algorithm=algorithm)


@program(S((2,), U32), kind="small")
def threefry_bits(k):
    algorithm = lax.RandomAlgorithm.RNG_THREE_FRY
    k = jnp.concatenate([k, k])
    return [lax.rng_bit_generator(k, shape, algorithm=algorithm)[1] for shape in ((10,), (4, 4), (3, 5), (2, 3, 2))]


@program(A)
def composite(x):
    return lax.composite(lambda x: x + 1, "my.op")(x)


@program(A, A)
def constants(x, y):
    numbers = np.arange(24, dtype=np.float32).reshape(4, 6)
    return x + numbers, y * np.float32(np.inf), x.astype(bool) & (np.arange(6) % 2 > 0)


# -- sizes that calls decide

(BATCH,) = export.symbolic_shape("b")
B, T = export.symbolic_shape("b, s")


@program(S((6, 5), F32), S((BATCH, 6), F32), symbolic=True)
def sized_mlp(w, x):
    return jax.nn.softmax(x @ w)


@program(S((B, T, 4), F32), symbolic=True)
def sized_attention(x):
    scores = jnp.einsum("bsd,btd->bst", x, x)
    masked = jnp.where(jnp.tril(jnp.ones(scores.shape[1:], bool)), scores, -jnp.inf)
    return (jax.nn.softmax(masked) @ x).reshape(x.shape[0], -1)


@program(S((BATCH, 6), F32), symbolic=True)
def sized_arrangements(x):
    return (
        x[1:],
        jnp.concatenate([x, x]),
        jnp.pad(x, 1),
        x[::-1],
        jnp.cumsum(x, 0),
        jnp.sort(x, 0),
        x + jnp.arange(x.shape[0])[:, None],
        lax.fori_loop(0, x.shape[0], lambda i, c: c + x[i], jnp.zeros(6)),
    )


# -- models


def norm(x, gain):
    return (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5) * gain


def heads(x, n):
    return x.reshape(*x.shape[:-1], n, -1)


@program({"w1": S((6, 16), F32), "b1": S((16,), F32), "w2": S((16, 3), F32)}, A, S((4,), I32), kind="indices")
def mlp_training_step(p, x, labels):
    def loss(p):
        hidden = jax.nn.relu(x @ p["w1"] + p["b1"])
        logits = jax.nn.log_softmax(hidden @ p["w2"])
        return -jnp.take_along_axis(logits, labels[:, None], 1).mean()

    value, gradient = jax.value_and_grad(loss)(p)
    return value, jax.tree.map(lambda a, g: a - 0.1 * g, p, gradient)


@program({"k": KERNEL, "w": S((64, 3), F32)}, IMAGES, S((2,), I32), kind="indices")
def cnn_training_step(p, x, labels):
    def loss(p):
        y = jax.nn.relu(lax.conv_general_dilated(x, p["k"], (1, 1), "SAME", dimension_numbers=NHWC))
        y = lax.reduce_window(y, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        logits = jax.nn.log_softmax(y.reshape(2, 64) @ p["w"])
        return -(jax.nn.one_hot(labels, 3) * logits).sum()

    return jax.value_and_grad(loss)(p)


@program({"qkv": S((8, 24), F32), "o": S((8, 8), F32), "w1": S((8, 16), F32), "w2": S((16, 8), F32), "g": S((8,), F32)},
         S((2, 5, 8), F32))  # fmt: skip
def transformer_block(p, x):
    q, k, v = jnp.split(norm(x, p["g"]) @ p["qkv"], 3, -1)
    x = x + jax.nn.dot_product_attention(heads(q, 2), heads(k, 2), heads(v, 2)).reshape(x.shape) @ p["o"]
    return x + jax.nn.gelu(norm(x, p["g"]) @ p["w1"]) @ p["w2"]


@program({"q": S((8, 8), F32), "kv": S((8, 8), F32), "o": S((8, 8), F32), "gate": S((8, 12), F32),
          "up": S((8, 12), F32), "down": S((12, 8), F32), "g": S((8,), F32)}, S((1, 6, 8), F32))  # fmt: skip
def llama_block(p, x):
    def rms(x):
        return x * lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6) * p["g"]

    def rotate(x):
        half = x.shape[-1] // 2
        angle = jnp.arange(x.shape[1])[:, None] * 10000.0 ** (-jnp.arange(half) / half)
        cos, sin = jnp.cos(angle)[:, None], jnp.sin(angle)[:, None]
        a, b = x[..., :half], x[..., half:]
        return jnp.concatenate([a * cos - b * sin, a * sin + b * cos], -1)

    y = rms(x)
    k, v = jnp.split(y @ p["kv"], 2, -1)
    q, k, v = rotate(heads(y @ p["q"], 4)), rotate(heads(k, 2)), heads(v, 2)
    x = x + jax.nn.dot_product_attention(q, k, v, is_causal=True).reshape(x.shape) @ p["o"]
    y = rms(x)
    return x + (jax.nn.silu(y @ p["gate"]) * (y @ p["up"])) @ p["down"]


@program({"e": S((11, 8), F32), "qkv": S((8, 24), F32)}, S((2, 4, 10, 4), F32), S((2,), I32), S((), I32),
         kind="indices")  # fmt: skip
def decode_step(p, cache, token, position):
    x = p["e"][token][:, None]
    q, k, v = (heads(y, 2).transpose(0, 2, 1, 3) for y in jnp.split(x @ p["qkv"], 3, -1))
    cache = lax.dynamic_update_slice(cache, jnp.concatenate([k, v], 1), (0, 0, position, 0))
    keys, values = cache[:, :2], cache[:, 2:]
    scores = jnp.where(jnp.arange(10) <= position, q @ keys.swapaxes(-1, -2), -1e9)
    y = (jax.nn.softmax(scores) @ values).transpose(0, 2, 1, 3).reshape(2, 8)
    return jnp.argmax(y @ p["e"].T, -1), cache


@program({"i": S((6, 32), F32), "h": S((8, 32), F32)}, S((3, 5, 6), F32))
def lstm(p, x):
    def step(carry, x):
        h, c = carry
        i, f, g, o = jnp.split(x @ p["i"] + h @ p["h"], 4, -1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    zero = jnp.zeros((3, 8))
    return lax.scan(step, (zero, zero), x.swapaxes(0, 1))


@program({"r": S((8, 3), F32), "w": S((3, 8, 8), F32)}, S((5, 8), F32))
def mixture_of_experts(p, x):
    weights, chosen = lax.top_k(jax.nn.softmax(x @ p["r"]), 2)
    return jnp.einsum("tk,tkd->td", weights, jnp.einsum("td,tkde->tke", x, p["w"][chosen]))


@program(S((2,), U32), A, kind="small")
def dropout(k, x):
    return jnp.where(jax.random.bernoulli(k, 0.8, x.shape), x / 0.8, 0.0)


@program(S((BATCH,), F32), symbolic=True)
def divided_sizes(x):
    n = x.shape[0]
    windows = lax.reduce_window(x, 0.0, lax.add, (2,), (2,), "SAME")
    return jnp.zeros(-(-n // 3)), jnp.pad(x, (0, -n % 4)), windows, x + (n - 4) // 3, x + lax.rem(jnp.int32(n - 4), 3)


# -- files


def fill(spec, kind, sizes):
    shape = tuple(n if isinstance(n, int) else sizes[str(n)] for n in spec.shape)
    if spec.dtype == bool:
        return rng.random(shape) > 0.5
    if jnp.issubdtype(spec.dtype, jnp.integer):
        low = -3 if kind == "small" and spec.dtype == I32 else 0
        return rng.integers(low, 4 if kind == "small" else 3, shape).astype(spec.dtype)
    made = rng.standard_normal(shape) * (0.5 if len(PROGRAMS) and kind == "half" else 1.0)
    if jnp.issubdtype(spec.dtype, jnp.complexfloating):
        made = made + 1j * rng.standard_normal(shape)
    return made.astype(spec.dtype)


def plain(array):
    """An array that NumPy stores without the package ml_dtypes: small floats as their bits."""
    array = np.asarray(array)
    return array.view(f"u{array.dtype.itemsize}") if array.dtype.kind == "V" or array.dtype.name[:6] in (
        "bfloat", "float8") else array  # fmt: skip


def main() -> None:
    HERE.mkdir(exist_ok=True)
    for name, (function, specs, kind, symbolic) in PROGRAMS.items():
        jitted = jax.jit(function, keep_unused=True)
        text = export.export(jitted)(*specs).mlir_module() if symbolic else jitted.lower(*specs).as_text()
        lines = [line for line in text.splitlines() if not line.startswith("#loc")]
        (HERE / f"{name}.mlir").write_text("\n".join(cut(line) for line in lines) + "\n")
        arrays = {}
        for number, sizes in enumerate([{"b": 3, "s": 4}, {"b": 5, "s": 1}] if symbolic else [{}]):
            arguments = jax.tree.map(lambda spec: fill(spec, kind, sizes), specs)  # noqa: B023
            for n, x in enumerate(jax.tree.leaves(arguments)):
                arrays[f"call{number}_in{n:02}"] = plain(x)
            for n, y in enumerate(jax.tree.leaves(jitted(*arguments))):
                arrays[f"call{number}_out{n:02}"] = plain(y)
        np.savez_compressed(HERE / f"{name}.npz", **arrays)


def cut(line: str) -> str:
    """The line without the places in files of the machine that made it."""
    while (at := line.find(" loc(#")) >= 0:
        line = line[:at] + line[line.index(")", at) + 1 :]
    return line


if __name__ == "__main__":
    main()
