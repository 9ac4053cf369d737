"""Random functions of JAX, lowered to StableHLO, against JAX itself."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Mapping
from typing import Any

# The reference compiles each operation of each program once, which is most of a run's time.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true")

import jax
import jax.numpy as jnp
import numpy as np
from graph_programs import Array, Program
from jax import lax
from written import Functions, Line, axes, axis, bounds, indices, order, source, width

import pydispatch as pd

jax.config.update("jax_enable_x64", True)

UNARY = "tanh abs negative exp sin cos floor sign square expm1 arctan sinh"
NN = "relu sigmoid gelu silu elu softplus leaky_relu"


def _window(rng: random.Random, shape: tuple[int, ...], is_open: bool) -> Mapping[str, Any]:
    size = [rng.choice([1, 1, 2, 3]) for _ in shape]
    return {
        "size": tuple(size),
        "strides": tuple(rng.choice([1, 1, 2]) for _ in shape),
        "pad": rng.choice(["'SAME'", "'VALID'", repr([(rng.randint(0, k - 1), rng.randint(0, 1)) for k in size])]),
    }


def _filters(rng: random.Random, shape: tuple[int, ...], is_open: bool) -> Mapping[str, Any]:
    group = rng.choice([1, shape[1]])
    return {
        "filters": group * rng.randint(1, 2),
        "channels": shape[1] // group,
        "kernel": rng.randint(1, 3),
        "group": group,
        "stride": rng.randint(1, 2),
        "dilation": rng.randint(1, 2),
        "pad": rng.choice(["'SAME'", "'VALID'", "((1, 0), (0, 2))"]),
        "seed": rng.randrange(100),
    }


def _pad(rng: random.Random, shape: tuple[int, ...], is_open: bool) -> Mapping[str, Any]:
    return {"config": [(rng.randint(-1, 2), rng.randint(0, 2), rng.randint(0, 1)) for _ in shape]}


def _starts(rng: random.Random, shape: tuple[int, ...], is_open: bool) -> Mapping[str, Any]:
    return {"starts": tuple(rng.randint(-1, 3) for _ in shape), "sizes": tuple(rng.randint(1, n) for n in shape)}


def best_in_windows(x: Any, size: tuple[int, ...], strides: tuple[int, ...], pad: Any) -> Any:
    """The largest element of each window with its number along the last axis."""
    place = lax.broadcasted_iota(jnp.int32, x.shape, x.ndim - 1)

    def larger(a: Any, b: Any) -> Any:
        first = (a[0] > b[0]) | ((a[0] == b[0]) & (a[1] <= b[1]))
        return jnp.where(first, a[0], b[0]), jnp.where(first, a[1], b[1])

    start = (jnp.array(-jnp.inf, x.dtype), jnp.int32(1 << 20))
    return lax.reduce_window((x, place), start, larger, size, strides, pad)


LINES = [
    *(Line(f"jnp.{name}({{x}})", (0, 5)) for name in UNARY.split()),
    *(Line(f"jax.nn.{name}({{x}})") for name in NN.split()),
    *(Line(f"({{x}} {op} {{y}})", (0, 5)) for op in ("+", "-", "*", ">", "<=")),
    Line("jnp.maximum({x}, {y})"),
    Line("jnp.where({x} > 0, {x}, {y})"),
    Line("jnp.clip({x}, -0.5, 0.75)"),
    Line("{b}.astype({F})".replace("{F}", "jnp.float32")),
    Line("{i} * 2 - 1"),
    Line("{x}.astype(jnp.int32) // 2"),
    Line("({i} % 5).astype(jnp.float32)"),
    Line("~{b}"),
    Line("{b} & ({b})"),
    Line("lax.reduce_window({x}, 0.0, lax.add, {size}, {strides}, {pad})", (1, 4), _window),
    Line("lax.reduce_window({x}, -jnp.inf, lax.max, {size}, {strides}, {pad})", (1, 4), _window),
    Line("best_in_windows({x}, {size}, {strides}, {pad})", (1, 4), _window, 2),
    *[
        Line(
            "lax.conv_general_dilated({x}, weights({seed}, {filters}, {channels}, {kernel}, {kernel}), "
            "({stride}, 1), {pad}, rhs_dilation=(1, {dilation}), feature_group_count={group})",
            (4, 4),
            _filters,
        )
    ]
    * 3,
    Line("{x} @ weights({seed}, {n}, {width})", (1, 4), width),
    Line("jnp.einsum('...ij,...kj->...ik', {x}, {x}) * 0.2", (2, 4)),
    *(
        Line(f"{{x}}.{name}({{axes}}, keepdims={{keep}})", (1, 5), axes)
        for name in ("sum", "mean", "max", "min", "var")
    ),
    Line("jax.nn.logsumexp({x}, {axis})", (1, 5), axis),
    Line("jnp.argmax({x}, {axis})", (1, 5), axis),
    Line("jnp.argmin({x}, {axis})", (1, 5), axis),
    Line("jnp.cumsum({x}, {axis})", (1, 5), axis),
    Line("lax.cummax({x}, {axis})", (1, 5), axis),
    Line("jax.nn.softmax({x}, {axis})", (1, 5), axis),
    Line("jnp.sort({x}, {axis})", (1, 5), axis),
    Line("jnp.argsort({x}, {axis})", (1, 5), axis),
    Line("jnp.flip({x}, {axis})", (1, 5), axis),
    Line("lax.top_k({x}, 1)", (1, 5), None, 2),
    Line("jnp.roll({x}, 1, {axis})", (1, 5), axis),
    Line("{x}[{index}]", (1, 5), bounds),
    Line("jnp.take({x}, jnp.array({indices}), {axis})", (1, 5), indices),
    Line("{x}.transpose({order})", (1, 5), order),
    Line("lax.rev({x}, ({axis},))", (1, 5), axis),
    Line("{x}.reshape(-1)", (1, 5)),
    Line("{x}.reshape({x}.shape[0], -1)", (2, 5)),
    Line("jnp.expand_dims({x}, {axis})", (1, 4), axis),
    Line("jnp.concatenate([{x}, {s}], {axis})", (1, 5), axis),
    Line("jnp.stack([{x}, {s}])", (0, 4)),
    Line("lax.pad({x}, jnp.zeros((), {x}.dtype), {config})", (1, 4), _pad),
    Line("jnp.tile({x}, 2)", (1, 4)),
    Line("lax.dynamic_slice({x}, {starts}, {sizes})", (1, 4), _starts),
    Line("lax.dynamic_update_slice({x}, {s}[:1] * 2, (1,) + (0,) * ({x}.ndim - 1))", (1, 4)),
    Line("{x}.at[jnp.array({indices})].add(0.5)", (1, 1), indices),
    Line("{x}.at[1:].set({x}[:-1] * 2)", (1, 4)),
    Line("jnp.tril({x})", (2, 4)),
    Line("lax.fori_loop(0, 3, lambda k, v: v * 0.5 + k, {x})", (0, 4)),
    Line("lax.scan(lambda c, r: (c + r, c * r), jnp.zeros_like({x}[0]), {x})", (1, 4), None, 2),
    Line("lax.cond({x}.sum() > 0, lambda v: v + 1, lambda v: v * 2, {x})", (0, 4)),
    Line("jax.vmap(lambda r: r * r.sum())({x})", (1, 4)),
    Line("jax.grad(lambda v: (jnp.tanh(v) * v).sum())({x})", (0, 4)),
    Line("jax.checkpoint(jnp.sin)({x})"),
    Line("lax.while_loop(lambda v: v.sum() > 50, lambda v: v * 0.5, {x})", (1, 4)),
]


class JaxFunctions(Functions):
    """Random functions of sizes that are known."""

    lines = LINES
    names = {"jax": jax, "jnp": jnp, "lax": lax, "best_in_windows": best_in_windows}
    refusals = (TypeError, IndexError, ZeroDivisionError)
    has_dynamic_sizes = False

    def shapes(self, rng: random.Random) -> list[tuple[int, ...]]:
        options = [(2, 3, 5, 6), (1, 2, 4, 4), (3, 4, 7), (4, 5), (6,), ()]
        return [rng.choice(options) for _ in range(rng.randint(1, 3))]

    def tensor(self, array: Array) -> jax.Array:
        return jnp.asarray(array)

    def array(self, tensor: jax.Array) -> Array:
        return np.asarray(tensor)

    def results(self, text: str, tensors: Mapping[str, jax.Array], exact: bool) -> Any:
        """Return the results of a line, compiled as a whole: XLA takes as long for one operation as for ten."""
        line = eval(f"lambda {', '.join(tensors)}: {text}", self.space(exact))
        return jax.jit(line)(*tensors.values())

    def reference(self, program: Program, number: int, exact: bool, is_nudged: bool = False) -> dict[str, Array]:
        """Return every value of a call, or the results alone if exact: those are compiled as a whole."""
        if not exact or is_nudged:
            return super().reference(program, number, exact, is_nudged)
        space = self.space(exact)
        exec(source(program).replace("float32", "float64"), space)
        given = (a.astype(np.float64) if a.dtype == np.float32 else a for a in program.sets[number].values())
        return dict(zip(program.results, map(self.array, jax.jit(space["f"])(*given)), strict=True))

    def loaded(self, function: Callable[..., Any], program: Program) -> Callable[..., Any]:
        artifact = pd.from_jax(function, *program.sets[0].values())
        found: Callable[..., Any] = next(iter(pd.device("cpu").load(artifact).functions.values()))
        return found
