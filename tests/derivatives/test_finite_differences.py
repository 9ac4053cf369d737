"""Gradients of programs in f64 against finite differences of the same functions under NumPy.

Functions of a bundle are compiled as one program, whose gradients are those of one result at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

import numpy as np
import pytest

import pydispatch as pd

Rows = Annotated[np.ndarray, pd.f64["n", 4, 6]]
Matrix = Annotated[np.ndarray, pd.f64[6, "k"]]
Function = Callable[[Any, Any], Any]

STEP = 1e-6
"""Length of the difference: the truncation of a central difference is about its square."""


def with_slices(x: Any) -> Any:
    y = x.copy()
    y[:, 1] = 2 * x[:, 0]
    y[:, 2:, 1] += x[:, :2, 3] * y[:, 1, :2]
    return y


def with_rows(x: Any) -> Any:
    y, at = x.copy(), np.array([0, 2, 0])
    y[at] = x[at] * np.asarray(np.arange(1.0, 4.0), like=x)[:, None, None]  # the last of equal positions remains
    y[:, np.array([1, 3]), np.array([5, 0])] *= x[:, :2, 2]
    return y


def softmax(x: Any) -> Any:
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def attention(x: Any) -> Any:
    return softmax(np.einsum("nij,nkj->nik", x, np.tanh(x)) / 2) @ x


def recurrent(x: Any, m: Any) -> Any:
    """A loop that carries a state and a sum, reads a row of x in each step, and uses m."""

    def step(i: Any, total: Any, state: Any) -> Any:
        state = np.tanh((state + x[0, i]) @ m @ m.T)
        return total + np.cumsum(state), state

    total, state = pd.loop(4, step, x[0, 0] * 0, x[1, 0])
    return total * state


def filled(x: Any) -> Any:
    """A loop that writes a row of its result in each step, over a number of steps that the call decides."""

    def step(i: Any, rows: Any) -> Any:
        rows = rows.copy()
        rows[i] = x[i] * rows.sum() + i
        return rows

    return pd.loop(x.shape[0], step, x * 0 + 1)


def nested(x: Any) -> Any:
    def step(i: Any, state: Any) -> Any:
        inner = pd.loop(2, lambda j, s: np.sin(s) * x[0], state)
        return pd.cond(inner[0, 0] > 0, lambda: inner + state, lambda: inner * state)

    return pd.loop(3, step, x[1])


def positive(x: Any) -> Any:
    """Two positive definite matrices 4x4."""
    return x[:2] @ x[:2].transpose(0, 2, 1) + np.asarray(np.eye(4), like=x)


def products_beside_zeros(x: Any) -> Any:
    y = x.copy()
    y[:, 1] = 0 * x[:, 1]
    y[0, 3] = 0 * x[0, 3]
    return np.cumprod(y, axis=1) + np.cumprod(x, axis=-1)


BUNDLES: dict[str, dict[str, Function]] = {
    "powers": {
        "exponentials": lambda x, m: np.expm1(x) + np.exp2(x) + np.logaddexp(x, x[::-1]),
        "logarithms": lambda x, m: np.log(x * x + 1) + np.log2(2 + x * x) + np.log10(3 + x * x) + np.log1p(abs(x)),
        "roots": lambda x, m: np.sqrt(abs(x)) + np.cbrt(x) + pd.rsqrt(x * x + 1) + np.hypot(x, x[0]),
        "powers": lambda x, m: abs(x) ** 2.5 + x**3 + abs(x) ** x[0] + np.reciprocal(x * x + 1),
        "error function": lambda x, m: pd.erf(x),
    },
    "angles": {
        "circular": lambda x, m: np.sin(x) * np.cos(x) + np.tan(x / 4),
        "inverse": lambda x, m: np.arcsin(x / 9) + np.arccos(x / 8) + np.arctan(x) + np.arctan2(x, x[0] + 3),
        "hyperbolic": lambda x, m: np.sinh(x) / np.cosh(x) + np.tanh(x),
        "inverse hyperbolic": lambda x, m: np.arcsinh(x) + np.arctanh(x / 9) + np.arccosh(2 + x * x),
        "signs": lambda x, m: np.sign(x) * x * np.copysign(x, x[0]) + np.floor(x) * x,
        "remainders": lambda x, m: np.remainder(x, 0.7) + np.fmod(x, 3 + x[:1] * x[1:2]),
    },
    "reductions": {
        "sum": lambda x, m: (x * x).sum(axis=1),
        "mean": lambda x, m: np.mean(x * x, axis=(0, 2), keepdims=True) + x.mean(),
        "extremes": lambda x, m: x.max(axis=-1) * x.min(axis=(0, 2)) + np.ptp(x, axis=1)[:, :4],
        "product": lambda x, m: x.prod(axis=1),
        "variance": lambda x, m: x.var(axis=1) + np.std(x, axis=1, ddof=1),
        "running sums": lambda x, m: np.cumsum(x * x, axis=1) * x,
        "norm": lambda x, m: np.linalg.norm(x[0]),
        "softmax": lambda x, m: softmax(x),
    },
    "products": {
        "matmul": lambda x, m: x @ m + m.sum(axis=0),
        "of itself": lambda x, m: m.T @ m,
        "einsum": lambda x, m: np.einsum("nij,jk->nk", x, m),
        "tensordot": lambda x, m: np.tensordot(x, m, 1),
        "vectors": lambda x, m: x[0] @ m[:, 0] + np.vecdot(x, x[::-1])[0],
        "outer": lambda x, m: np.outer(x[0, 0], x[0, 1]) + np.trace(m @ m.T),
        "attention": lambda x, m: attention(x),
    },
    "moves": {
        "broadcast": lambda x, m: x * x[0, 0] + x[:, :1] * np.broadcast_to(x[0], (3, *x.shape[1:])),
        "reshape": lambda x, m: x.reshape(-1, 24) ** 2,
        "transpose": lambda x, m: x.transpose(2, 0, 1) * x[0, 0, 0],
        "slices": lambda x, m: x[:, 1:3, ::2] * x[:, ::2, 1:4] + x[:, :1, :3] * np.split(x, 2, axis=2)[1][:, :2],
        "reversed": lambda x, m: x[:, ::-1] * x,
        "joins": lambda x, m: np.concatenate([x, x * x], axis=1)[:, 2:6] * np.stack([x, 2 * x], axis=1)[:, 1],
        "padding": lambda x, m: np.pad(x * x, ((0, 0), (1, 2), (0, 1))) + np.pad(x, ((0, 0), (3, 0), (1, 0)), "edge"),
        "repeats": lambda x, m: np.repeat(x, 2, axis=1) * np.tile(x, (1, 2, 1)),
        "rolls": lambda x, m: np.roll(x, 1, axis=1) * x,
        "triangle": lambda x, m: np.tril(x) * np.triu(x, -1),
        "assignments": lambda x, m: with_slices(x),
    },
    "loops": {
        "of states": recurrent,
        "of rows": lambda x, m: filled(x[:, 0]),
        "in loops, and branches": lambda x, m: nested(x),
        "of integers": lambda x, m: pd.loop(3, lambda i, n, v: (n + 1, v * x[n] + n), 0, x[0])[1],
        "of no iterations": lambda x, m: pd.loop(0, lambda i, v: v * x[0], x[1]),
        "that change nothing": lambda x, m: pd.loop(2, lambda i, v: v, x) * pd.loop(2, lambda i, v: x[0], x[0]),
    },
    "matrices": {
        "solve": lambda x, m: np.linalg.solve(positive(x), x[0, :, :3]),
        "solve for a vector": lambda x, m: np.linalg.solve(positive(x)[0], x[0, :, 0]),
        "inverse": lambda x, m: np.linalg.inv(positive(x)),
        "determinant": lambda x, m: np.linalg.det(x[:, :, :4]) + np.linalg.slogdet(x[:, :, 1:5])[1],
        "cholesky": lambda x, m: np.linalg.cholesky(positive(x)) * x[:2, :, :4],
        "running products": lambda x, m: products_beside_zeros(x),
    },
    "choices": {
        "where": lambda x, m: np.where(x > 0, x * x, -3 * x) + np.clip(x, -1, 1) + np.maximum(x, x[0]),
        "take": lambda x, m: np.take(x, np.array([0, 2, 1, 2]), axis=1) ** 2,
        "sorted": lambda x, m: np.sort(x, axis=1) * x,
        "rows": lambda x, m: x[np.array([0, -1, 0])] * np.asarray(m.T, like=m)[:3, None],
        "elements": lambda x, m: x[:, np.array([0, 1, 0]), np.array([1, 2, 1])],
        "along an axis": lambda x, m: np.take_along_axis(x, x.argmax(axis=1, keepdims=True), axis=1),
        "assignments at positions": lambda x, m: with_rows(x) * x,
        "types": lambda x, m: x.astype(np.int32).astype(np.float64) * x + np.nansum(x),
    },
}  # fmt: skip


def programs(functions: Mapping[str, Function]) -> Any:
    @pd.program
    def bundle(x: Rows, m: Matrix) -> Any:
        return {f"r{number}": function(x, m) for number, function in enumerate(functions.values())}

    return bundle


@pytest.mark.parametrize("name", BUNDLES)
def test_gradients(name: str) -> None:
    random = np.random.default_rng(3)
    bundle = programs(BUNDLES[name])
    program = pd.vjp(bundle)
    arguments = [random.standard_normal((3, 4, 6)), random.standard_normal((6, 3))]
    along = [random.standard_normal(argument.shape) for argument in arguments]
    results = bundle.python(*arguments)
    above, below = (
        bundle.python(*(a + sign * STEP * v for a, v in zip(arguments, along, strict=True))) for sign in (1, -1)
    )
    for title, key in zip(BUNDLES[name], results, strict=True):
        seeds = {
            k: random.standard_normal(np.shape(r)) if k == key else np.zeros(np.shape(r)) for k, r in results.items()
        }
        expected = np.sum(seeds[key] * (above[key] - below[key])) / (2 * STEP)
        gradients = program(*arguments, *seeds.values())
        found = sum(np.sum(gradient * v) for gradient, v in zip(gradients, along, strict=True))
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7, err_msg=title)
